# SPDX-License-Identifier: GPL-3.0-or-later
"""What the name of a bone says: words, side, roles that it may have, or why it has none.

A name is cut into words at separators, capitals and digits, runs of small letters by the vocabulary below,
and Japanese names by theirs. The words, not whole names, are looked up: so one table reads Rigify, Mixamo,
Unreal, VRM, MMD, MakeHuman, Reallusion, Daz, SMPL, CMU's and others' conventions, and mixtures of them. A
word that conventions use differently gives several roles with their weights: *shoulder* is Mixamo's
collarbone and SMPL's upper arm, *leg* the thigh in MMD and the shin in Mixamo. Which it is, its neighbours
in the chain decide (`limbs`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from .character import Role, Side

SURE, LIKELY, MAYBE, HARDLY = 3.0, 2.2, 1.5, 0.6
"""Weights of what a word may mean: nothing else; usually; in some conventions; rarely."""

_WORDS: Final[Mapping[str, str]] = {
    "upper": "up upr upp upper",
    "lower": "lo low lwr lower",
    "fore": "fore front fr",
    "hind": "hind rear",
    "arm": "arm arms",
    "forearm": "forearm radius ulna antebrachium",
    "humerus": "humerus",
    "leg": "leg legs",
    "hand": "hand hands fist",
    "palm": "palm",
    "wrist": "wrist",
    "elbow": "elbow",
    "shoulder": "shoulder shldr shoulders",
    "collar": "collar clavicle clav collarbone scapula",
    "hip": "hip hips",
    "pelvis": "pelvis buttock",
    "thigh": "thigh femur",
    "shin": "shin calf tibia fibula",
    "knee": "knee",
    "ankle": "ankle hock metatarsus cannon",
    "foot": "foot feet paw hoof",
    "toe": "toe toes ball metatarsal metatarsals",
    "heel": "heel",
    "spine": "spine abdomen abs vertebra backbone",
    "back": "back",
    "waist": "waist",
    "torso": "torso cog",
    "center": "center centre centar",
    "body": "body",
    "chest": "chest thorax ribcage ribs rib",
    "neck": "neck",
    "head": "head",
    "jaw": "jaw mandible",
    "eye": "eye eyes eyeball",
    "face": (
        "face facial ear ears brow eyebrow lid eyelid eyelash lash lip lips mouth nose nostril tongue "
        "tooth teeth chin cheek temple beak skull horn antler muzzle snout whisker crown forehead levator "
        "oris risorius temporalis oculi orbicularis masseter squint lacrimal headtop"
    ),
    "finger": "finger fingers thumb index middle mid ring pinky little metacarpal carpal",
    "tail": "tail",
    "wing": "wing",
    "fin": "fin flipper",
    "twist": "twist roll",
    "root": "root origin",
    "soft": (
        "breast bust boob hair bang ponytail skirt cloth cape cloak dress sleeve ribbon tie coat scarf "
        "feather mane belly stomach fur genital penis testicle muscle bicep biceps tricep triceps "
        "pectoral pec lat glute"
    ),
    "helper": (
        "helper corrective corr aux adj jiggle phys dummy null buffer groove cancel horselink footsteps "
        "volume bulge offset driver tracker share"
    ),
    "control": (
        "ik ctrl control controller target pole tweak parent mch vis wgt rock spin widget pivot gizmo "
        "socket slot attach weapon prop camera handle ikfk snap properties widgets effector"
    ),
    "master": "master",
    "fk": "fk",
    "end": "end nub leaf tip site terminator",
    "base": "base",
    "joint": "joint",
    "bend": "bend",
    "left": "l left lft lf",
    "right": "r right rgt rt",
    "middle side": "c m ctr",
    "layer": "def org",
}
"""Meaning -> words that have it; a word has one meaning."""

_MEANING: Final = {word: meaning for meaning, words in _WORDS.items() for word in words.split()}

_COMPOUND: Final[Mapping[str, tuple[str, ...]]] = {
    "upperarm": ("upper", "arm"),
    "uparm": ("upper", "arm"),
    "lowerarm": ("forearm",),
    "loarm": ("forearm",),
    "upperleg": ("upper", "leg"),
    "upleg": ("upper", "leg"),
    "lowerleg": ("lower", "leg"),
    "loleg": ("lower", "leg"),
    "toebase": ("toe",),
    "lowerback": ("spine",),
    "upperback": ("spine",),
    "upperchest": ("chest",),
    "upperbody": ("upper", "body"),
    "lowerbody": ("lower", "body"),
    "hindfoot": ("hind", "foot"),
    "forefoot": ("fore", "foot"),
    "foreleg": ("fore", "leg"),
    "hindleg": ("hind", "leg"),
    "frontleg": ("fore", "leg"),
    "backleg": ("hind", "leg"),
    "eyebrow": ("face",),
    "parentnode": ("root",),
    "allparent": ("root",),
    "handslot": ("hand", "control"),
}
"""Words that are written as one."""

_JAPANESE: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("全ての親", ("root",)),
    ("操作中心", ("control",)),
    ("腰キャンセル", ("helper",)),
    ("センター", ("center",)),
    ("グルーブ", ("helper",)),
    ("上半身", ("upper", "body")),
    ("下半身", ("lower", "body")),
    ("スカート", ("soft",)),
    ("ダミー", ("helper",)),
    ("つま先", ("toe",)),
    ("爪先", ("toe",)),
    ("足先", ("toe",)),
    ("足首", ("ankle",)),
    ("手首", ("wrist",)),
    ("人差し指", ("finger",)),
    ("人差指", ("finger",)),
    ("人指", ("finger",)),
    ("親指", ("finger",)),
    ("中指", ("finger",)),
    ("薬指", ("finger",)),
    ("小指", ("finger",)),
    ("両目", ("eye",)),
    ("ひざ", ("knee",)),
    ("ひじ", ("elbow",)),
    ("左", ("left",)),
    ("右", ("right",)),
    ("捩", ("twist",)),
    ("親", ("control",)),
    ("先", ("end",)),
    ("膝", ("knee",)),
    ("肘", ("elbow",)),
    ("足", ("thigh",)),
    ("腕", ("arm",)),
    ("肩", ("shoulder",)),
    ("腰", ("waist",)),
    ("首", ("neck",)),
    ("頭", ("head",)),
    ("目", ("eye",)),
    ("髪", ("soft",)),
    ("胸", ("soft",)),
    ("尾", ("tail",)),
    ("翼", ("wing",)),
)
"""MMD's words, each before those that are part of it."""

_PREFIXES: Final = re.compile(
    r"^(?:.*[:|])?"  # name spaces: mixamorig:Hips
    r"(?:cc_base_|j_bip_|j_sec_|j_adj_|j_opt_|[mf]_avg_|bip\d*[\s_.]+|valvebiped[._]bip\d*[_.]|b_|jnt_|bn_|sk_)?",
    re.IGNORECASE,
)
"""What conventions put before every name."""

_TOKEN: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\x00-\x7f]+")


@dataclass(frozen=True)
class NameReading:
    """What a name says."""

    words: tuple[str, ...]
    """Meanings of the words that were understood, in order, without the side."""
    side: Side | None
    """None: the name names no side."""
    stem: str
    """The name without its side, layer and letter case: what the two sides of a bone have in common."""
    roles: Mapping[Role, float]
    """Roles that it may have -> weight."""
    layer: str
    """Of a generated control rig: 'DEF', 'ORG', 'MCH' or 'FK'; '' for a plain name."""
    left_out: str
    """Why a bone of this name has no role; '' where it may have one."""
    front: bool | None
    """Whether it is named as one of front (True) or hind limbs (False)."""
    end: bool
    """Whether it is named as the end of another bone."""

    @property
    def best(self) -> Role | None:
        """The role with the largest weight."""
        return max(self.roles, key=lambda role: self.roles[role]) if self.roles else None

    def weight(self, *roles: Role) -> float:
        """Largest weight among some roles, 0 without any."""
        return max((self.roles.get(role, 0.0) for role in roles), default=0.0)


@lru_cache(maxsize=4096)
def _meanings(token: str) -> tuple[str, ...]:
    """Meanings of a run of letters; an empty tuple where it is not understood."""
    if token in _COMPOUND:
        return _COMPOUND[token]
    if token in _MEANING:
        return (_MEANING[token],)
    if token.endswith("s") and token[:-1] in _MEANING and len(token) > 3:
        return (_MEANING[token[:-1]],)
    for cut in range(len(token) - 3, 0, -1):  # the longest known beginning first
        head, tail = token[:cut], token[cut:]
        known = head in _COMPOUND or head in _MEANING
        if known and (len(head) >= 3 or head in ("l", "r", "up", "lo")):
            rest = _meanings(tail)
            if rest:
                return (*_meanings(head), *rest)
    return ()


def _japanese(token: str) -> tuple[str, ...]:
    meanings: list[str] = []
    rest = token
    while rest:
        for word, meaning in _JAPANESE:
            if rest.startswith(word):
                meanings += meaning
                rest = rest[len(word) :]
                break
        else:
            rest = rest[1:]
    return tuple(meanings)


@lru_cache(maxsize=4096)
def read_name(name: str) -> NameReading:
    """Read the name of a bone."""
    plain = unicodedata.normalize("NFKC", name)
    body = _PREFIXES.sub("", plain) or plain
    tokens: list[str] = _TOKEN.findall(body)
    meanings: list[tuple[str, ...]] = []
    for number, token in enumerate(tokens):
        if token.isdigit():
            meanings.append(())
            continue
        found = _meanings(token.lower()) if token.isascii() else _japanese(token)
        if found == ("back",) and number + 1 < len(tokens):
            found = ("hind",) if _is_limb(tokens[number + 1]) else ("spine",)
        elif found == ("back",):
            found = ("spine",)
        meanings.append(found)
    side, spent = _side(tokens, meanings)
    layer = tokens[0].upper() if tokens and tokens[0].lower() in ("def", "org", "mch") else ""
    skipped = spent | {0} if layer else spent
    words: list[str] = []
    for number, found in enumerate(meanings):
        if number not in skipped:
            words += [word for word in found if word not in ("left", "right", "middle side", "layer")]
    front = _front(tokens, words, spent)
    stem = " ".join(
        token.lower()
        for number, token in enumerate(tokens)
        if number not in skipped and token.lower() != "fk" and token not in ("左", "右")
    )
    if any(not token.isascii() for token in tokens):
        stem = stem.replace("左", "").replace("右", "")
    if "fk" in words:
        layer = layer or "FK"
        words = [word for word in words if word != "fk"]
    roles, left_out = _roles(words, tokens, side, plain)
    return NameReading(tuple(words), side, stem, roles, layer, left_out, front, "end" in words)


def _is_limb(token: str) -> bool:
    return any(
        word in ("leg", "foot", "toe", "ankle", "thigh", "shin", "knee") for word in _meanings(token.lower())
    )


def _side(tokens: list[str], meanings: list[tuple[str, ...]]) -> tuple[Side | None, set[int]]:
    """The side and which tokens said so: a token at the end, else at the beginning, else anywhere.

    Rigify's `r_toe.L` is a rear toe of the left side: only one token is the side.
    """
    letters = [number for number, token in enumerate(tokens) if not token.isdigit()]
    order = [*letters[-1:], *letters]
    for number in order:
        found = meanings[number]
        if "left" in found or "right" in found:
            side = Side.LEFT if "left" in found else Side.RIGHT
            alone = len(found) == 1
            return side, {number} if alone else set()
    for number in letters:
        if meanings[number] == ("middle side",):
            return Side.CENTRE, {number}
    return None, set()


def _front(tokens: list[str], words: list[str], spent: set[int]) -> bool | None:
    """Whether the name says front or hind; `f_toe`, `r_toe` are Rigify's front and rear toes."""
    if "fore" in words and "forearm" not in words:
        return True
    if "hind" in words:
        return False
    first = tokens[0].lower() if tokens and 0 not in spent else ""
    if first in ("f", "r") and "toe" in words + (["toe"] if "foot" in words else []):
        return first == "f"
    return None


def _roles(
    words: list[str], tokens: list[str], side: Side | None, name: str
) -> tuple[dict[Role, float], str]:
    """Roles with weights, and why the bone has none."""
    has = set(words)
    joined = "".join(token.lower() for token in tokens)
    if name.startswith("__"):
        return {}, "connects two bones and is no joint of its own"
    if "twist" in has and "neck" not in has:
        return {}, "twist bone"
    if "control" in has or ("master" in has and "eye" not in has):
        return {}, "control bone"
    if "helper" in has or "heel" in has:
        return {}, "helper bone"
    if "soft" in has:
        return {}, "hair, cloth, feather or soft part"
    if _is_copy(has, tokens):
        return {}, "helper bone: MMD's copy of another"
    sided = side in (Side.LEFT, Side.RIGHT)
    roles: dict[Role, float] = {}
    if "wing" in has:
        roles = {Role.WING: SURE}
    elif "fin" in has:
        roles = {Role.FIN: SURE}
    elif "tail" in has:
        roles = {Role.TAIL: SURE}
    elif "eye" in has:
        roles = {Role.EYE: SURE}
    elif "jaw" in has:
        roles = {Role.JAW: SURE}
    elif "face" in has or joined.startswith("special0"):  # MakeHuman's joints inside the head
        roles = {Role.HEAD_PART: SURE}
    elif "palm" in has:
        roles = {Role.HAND: LIKELY, Role.FINGER: 2.0}
    elif "finger" in has and not has & {"toe", "foot", "chest", "spine"}:
        roles = {Role.FINGER: SURE}
    elif has & {"leg", "thigh", "shin", "knee", "ankle", "foot", "toe"}:
        roles = _leg(has)
    elif has & {"arm", "forearm", "humerus", "elbow", "wrist", "hand", "collar", "shoulder"}:
        roles = _arm(has)
    elif sided and has & {"hip", "pelvis"}:
        roles = (
            {Role.PELVIS: SURE} if has & {"joint", "pelvis"} else {Role.UPPER_LEG: LIKELY, Role.PELVIS: MAYBE}
        )
    else:
        roles = _centre(has)
    if "end" in has:
        roles = {role: weight * 0.5 for role, weight in roles.items()}
    return roles, ""


def _is_copy(has: set[str], tokens: list[str]) -> bool:
    """MMD's copies for skinning: shoulder P and C, leg D and EX."""
    letters = [token for token in tokens if token.isascii() and token.isalpha() and token not in ("L", "R")]
    last = letters[-1] if letters else ""
    if last in ("P", "C"):
        return "shoulder" in has
    return last in ("D", "EX") and bool(has & {"thigh", "leg", "knee", "ankle", "toe"})


def _leg(has: set[str]) -> dict[Role, float]:
    if "toe" in has:
        return {Role.TOE: SURE}
    if "ankle" in has:
        return {Role.ANKLE: LIKELY, Role.FOOT: 2.0, Role.LOWER_LEG: HARDLY}
    if "foot" in has:
        return {Role.FOOT: SURE, Role.TOE: HARDLY}
    if has & {"shoulder", "collar"}:
        return {Role.SHOULDER: SURE}
    if has & {"hip", "pelvis"}:
        return {Role.PELVIS: SURE}
    if "knee" in has:
        return {Role.LOWER_LEG: SURE}
    if "thigh" in has or ("upper" in has and "leg" in has):
        return {Role.UPPER_LEG: SURE}
    if "shin" in has or ("lower" in has and "leg" in has):
        return {Role.LOWER_LEG: SURE}
    return {Role.UPPER_LEG: LIKELY, Role.LOWER_LEG: LIKELY}


def _arm(has: set[str]) -> dict[Role, float]:
    if "wrist" in has:
        return {Role.HAND: SURE}
    if "hand" in has:
        return {Role.HAND: SURE, Role.FINGER: HARDLY}
    if "elbow" in has or "forearm" in has or ("lower" in has and "arm" in has):
        return {Role.LOWER_ARM: SURE}
    if "fore" in has and "arm" in has:
        return {Role.LOWER_ARM: SURE}
    if "humerus" in has or ("upper" in has and "arm" in has):
        return {Role.UPPER_ARM: SURE}
    if "collar" in has:
        return {Role.SHOULDER: SURE}
    if "shoulder" in has:
        return {Role.SHOULDER: LIKELY, Role.UPPER_ARM: 2.0}
    return {Role.UPPER_ARM: LIKELY, Role.LOWER_ARM: HARDLY}


def _centre(has: set[str]) -> dict[Role, float]:
    if "head" in has:
        return {Role.HEAD: SURE}
    if "neck" in has:
        return {Role.NECK: SURE}
    if "chest" in has:
        return {Role.CHEST: SURE}
    if "hip" in has or "pelvis" in has:
        return {Role.HIPS: SURE}
    if "body" in has:
        if "lower" in has:
            return {Role.PELVIS: LIKELY, Role.HIPS: MAYBE}
        return {Role.SPINE: LIKELY} if "upper" in has else {Role.HIPS: MAYBE, Role.SPINE: MAYBE}
    if "center" in has or "torso" in has:
        return {Role.HIPS: LIKELY, Role.SPINE: MAYBE}
    if "waist" in has:
        return {Role.SPINE: LIKELY, Role.HIPS: LIKELY}
    if "spine" in has:
        return {Role.SPINE: SURE}
    return {}


def is_root(reading: NameReading) -> bool:
    """Whether the name is that of a bone which moves the whole figure."""
    return reading.words == ("root",)

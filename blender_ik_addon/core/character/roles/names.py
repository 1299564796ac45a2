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

from ...messages import Message
from .character import Role, Side

SURE, LIKELY, MAYBE, HARDLY = 3.0, 2.2, 1.5, 0.6
"""Weights of what a word may mean: nothing else; usually; in some conventions; rarely."""

_WORDS: Final[Mapping[str, str]] = {
    **{word: word for word in ("palm", "heel", "back", "body", "base", "joint", "bend", "master", "fk")},
    "upper": "up upr upp upper",
    "lower": "lo low lwr lower",
    "fore": "fore front fr",
    "hind": "hind rear",
    "arm": "arm arms 腕",
    "lower arm": "forearm radius ulna antebrachium elbow 肘 ひじ",
    "upper arm": "humerus",
    "leg": "leg legs",
    "hand": "hand hands fist",
    "wrist": "wrist 手首",
    "shoulder": "shoulder shldr shoulders 肩",
    "collar": "collar clavicle clav collarbone scapula",
    "hip": "hip hips",
    "pelvis": "pelvis buttock",
    "upper leg": "thigh femur 足",
    "lower leg": "shin calf tibia fibula knee 膝 ひざ",
    "ankle": "ankle hock metatarsus cannon 足首",
    "foot": "foot feet paw hoof",
    "toe": "toe toes toebase ball metatarsal metatarsals つま先 爪先 足先",
    "spine": "spine abdomen abs vertebra backbone lowerback upperback",
    "waist": "waist 腰",
    "center": "torso cog center centre centar センター",
    "chest": "chest thorax ribcage ribs rib",
    "neck": "neck 首",
    "head": "head 頭",
    "jaw": "jaw mandible",
    "eye": "eye eyes eyeball 目 両目",
    "face": (
        "face facial ear ears brow eyebrow lid eyelid eyelash lash lip lips mouth nose nostril tongue "
        "tooth teeth chin cheek temple beak skull horn antler muzzle snout whisker crown forehead levator "
        "oris risorius temporalis oculi orbicularis masseter squint lacrimal headtop eyebrow special"
    ),
    "finger": (
        "finger fingers thumb index middle mid ring pinky little metacarpal carpal 親指 人差し指 人差指 "
        "人指 中指 薬指 小指"
    ),
    "tail": "tail 尾",
    "wing": "wing 翼",
    "fin": "fin flipper",
    "twist": "twist roll 捩",
    "root": "root origin parentnode allparent 全ての親",
    "soft": (
        "breast bust boob hair bang ponytail skirt cloth cape cloak dress sleeve ribbon tie coat scarf "
        "feather mane belly stomach fur genital penis testicle muscle bicep biceps tricep triceps "
        "pectoral pec lat glute 髪 胸 スカート"
    ),
    "helper": (
        "helper corrective corr aux adj jiggle phys dummy null buffer groove cancel horselink footsteps "
        "volume bulge offset driver tracker share 腰キャンセル グルーブ ダミー"
    ),
    "control": (
        "ik ctrl control controller target pole tweak parent mch vis wgt rock spin widget pivot gizmo "
        "socket slot attach weapon prop camera handle ikfk snap properties widgets effector 操作中心 親"
    ),
    "end": "end nub leaf tip site terminator 先",
    "left": "l left lft lf 左",
    "right": "r right rgt rt 右",
    "unsided": "c m ctr",
    "layer": "def org",
    "hind leg": "backleg",
    "upper body": "上半身",
    "lower body": "下半身",
}
"""Meanings -> words that have them, with MMD's Japanese ones. Compounds of these are taken apart."""

_MEANINGS: Final = {word: tuple(key.split()) for key, words in _WORDS.items() for word in words.split()}

_JAPANESE: Final = re.compile(
    "|".join(sorted((w for w in _MEANINGS if not w.isascii()), key=len, reverse=True))
)

_NO_PARTS: Final = frozenset({"left", "right", "unsided", "layer"})
"""Meanings that say nothing of the part of a body."""

_PREFIXES: Final = re.compile(
    r"^(?:.*[:|])?"  # name spaces: mixamorig:Hips
    r"(?:cc_base_|j_bip_|j_sec_|j_adj_|j_opt_|[mf]_avg_|bip\d*[\s_.]+|valvebiped[._]bip\d*[_.]|b_|jnt_|bn_|sk_)?",
    re.IGNORECASE,
)
"""What conventions put before every name."""

_TOKEN: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\x00-\x7f]+")

_ROLES: Final[tuple[tuple[str, dict[Role, float]], ...]] = (
    *((str(role), {role: SURE}) for role in (Role.WING, Role.FIN, Role.TAIL, Role.EYE, Role.JAW)),
    ("face", {Role.HEAD_PART: SURE}),
    ("palm", {Role.HAND: LIKELY, Role.FINGER: 2.0}),
    ("finger !toe|foot|chest|spine", {Role.FINGER: SURE}),
    ("toe", {Role.TOE: SURE}),
    ("ankle", {Role.ANKLE: LIKELY, Role.FOOT: 2.0, Role.LOWER_LEG: HARDLY}),
    ("foot", {Role.FOOT: SURE, Role.TOE: HARDLY}),
    ("leg shoulder|collar", {Role.SHOULDER: SURE}),
    ("leg hip|pelvis", {Role.PELVIS: SURE}),
    *((str(role), {role: SURE}) for role in (Role.UPPER_LEG, Role.LOWER_LEG)),
    ("leg", {Role.UPPER_LEG: LIKELY, Role.LOWER_LEG: LIKELY}),
    ("wrist", {Role.HAND: SURE}),
    ("hand", {Role.HAND: SURE, Role.FINGER: HARDLY}),
    ("upper arm", {Role.UPPER_ARM: SURE}),
    ("lower|fore arm", {Role.LOWER_ARM: SURE}),
    ("collar", {Role.SHOULDER: SURE}),
    ("shoulder", {Role.SHOULDER: LIKELY, Role.UPPER_ARM: 2.0}),
    ("arm", {Role.UPPER_ARM: LIKELY, Role.LOWER_ARM: HARDLY}),
    ("sided pelvis", {Role.PELVIS: SURE}),
    ("sided hip joint", {Role.PELVIS: SURE}),
    ("sided hip", {Role.UPPER_LEG: LIKELY, Role.PELVIS: MAYBE}),
    *((str(role), {role: SURE}) for role in (Role.HEAD, Role.NECK, Role.CHEST)),
    ("hip|pelvis", {Role.HIPS: SURE}),
    ("lower body", {Role.PELVIS: LIKELY, Role.HIPS: MAYBE}),
    ("upper body", {Role.SPINE: LIKELY}),
    ("body", {Role.HIPS: MAYBE, Role.SPINE: MAYBE}),
    ("center", {Role.HIPS: LIKELY, Role.SPINE: MAYBE}),
    ("waist", {Role.SPINE: LIKELY, Role.HIPS: LIKELY}),
    ("spine", {Role.SPINE: SURE}),
)
"""Meanings -> roles with their weights; the first line that fits counts. A space is *and*, `|` is *or*, `!`
is *not*, and *sided* says that the name has a side."""

_LEFT_OUT: Final = (
    ("twist !neck", Message("twist bone")),
    ("control", Message("control bone")),
    ("master !eye", Message("control bone")),
    ("helper|heel", Message("helper bone")),
    ("soft", Message("hair, cloth, feather or soft part")),
)
"""Meanings -> why a bone has no role, in the same way."""


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

    @property
    def root(self) -> bool:
        """Whether the bone moves the whole figure."""
        return self.words == ("root",)

    @property
    def best(self) -> Role | None:
        """The role with the largest weight."""
        return max(self.roles, key=lambda role: self.roles[role], default=None)

    def weight(self, *roles: Role) -> float:
        """Largest weight among some roles, 0 without any."""
        return max((self.roles.get(role, 0.0) for role in roles), default=0.0)


@lru_cache(maxsize=4096)
def _meanings(token: str) -> tuple[str, ...]:
    """Meanings of a run of letters; an empty tuple where it is not understood."""
    if not token.isascii():
        return tuple(meaning for word in _JAPANESE.findall(token) for meaning in _MEANINGS[word])
    if token in _MEANINGS:
        return _MEANINGS[token]
    if token.endswith("s") and token[:-1] in _MEANINGS and len(token) > 3:
        return _MEANINGS[token[:-1]]
    for cut in range(len(token) - 3, 0, -1):  # the longest known beginning first
        head, rest = token[:cut], _meanings(token[cut:])
        if head in _MEANINGS and (len(head) >= 3 or head in ("l", "r", "up", "lo")) and rest:
            return (*_MEANINGS[head], *rest)
    return ()


@lru_cache(maxsize=4096)
def read_name(name: str) -> NameReading:
    """Read the name of a bone."""
    plain = unicodedata.normalize("NFKC", name)
    tokens: list[str] = _TOKEN.findall(_PREFIXES.sub("", plain) or plain)
    small = [token.lower() for token in tokens]
    meanings = [_meanings(token) for token in small]
    for number, (found, after) in enumerate(zip(meanings, [*meanings[1:], ()], strict=False)):
        if found == ("back",):
            meanings[number] = ("spine",) if {"leg", "foot", "toe", "ankle"}.isdisjoint(after) else ("hind",)
    side, skipped = _side(small, meanings)
    first = small[0] if small and 0 not in skipped else ""
    layer = first.upper() if first in ("def", "org", "mch") else ""
    kept = [number for number in range(len(tokens)) if number not in skipped and not (layer and number == 0)]
    words = [word for number in kept for word in meanings[number] if word not in _NO_PARTS]
    front = None
    if "fore" in words or "hind" in words:
        front = "fore" in words
    elif first in ("f", "r") and not {"toe", "foot"}.isdisjoint(words):
        front = first == "f"  # Rigify's front and rear toes
    stem = " ".join(small[number] for number in kept if small[number] != "fk")
    if "fk" in words:
        layer = layer or "FK"
        words = [word for word in words if word != "fk"]
    has = {*words, "sided"} if side in (Side.LEFT, Side.RIGHT) else set(words)
    left_out = next((reason for condition, reason in _LEFT_OUT if _fits(condition, has)), "")
    if name.startswith("__"):
        left_out = Message("connects two bones and is no joint of its own")
    elif not left_out and _is_copy(has, tokens):
        left_out = Message("helper bone: MMD's copy of another")
    roles: Mapping[Role, float] = {}
    if not left_out:
        roles = next((roles for condition, roles in _ROLES if _fits(condition, has)), roles)
    if "end" in has:
        roles = {role: weight * 0.5 for role, weight in roles.items()}
    stem = stem.replace("左", "").replace("右", "")
    return NameReading(tuple(words), side, stem, roles, layer, left_out, front)


def _side(tokens: list[str], meanings: list[tuple[str, ...]]) -> tuple[Side | None, set[int]]:
    """The side and which tokens said so: a token at the end, else at the beginning, else anywhere.

    Rigify's `r_toe.L` is a rear toe of the left side: only one token is the side.
    """
    letters = [number for number, token in enumerate(tokens) if not token.isdigit()]
    for number in [*letters[-1:], *letters]:
        for word, side in (("left", Side.LEFT), ("right", Side.RIGHT)):
            if word in meanings[number]:
                return side, {number} if len(meanings[number]) == 1 else set()
    centre = next((number for number in letters if meanings[number] == ("unsided",)), None)
    return (None, set()) if centre is None else (Side.CENTRE, {centre})


def _fits(condition: str, has: set[str]) -> bool:
    """Whether meanings fit a condition of `_ROLES`."""
    parts = condition.split()
    return all(has.isdisjoint(part.strip("!").split("|")) is part.startswith("!") for part in parts)


def _is_copy(has: set[str], tokens: list[str]) -> bool:
    """Whether it is one of MMD's copies for skinning: shoulder P and C, leg D and EX."""
    letters = [token for token in tokens if token.isascii() and token.isalpha() and token not in ("L", "R")]
    copied = {"P": "shoulder", "C": "shoulder", "D": "leg ankle toe", "EX": "leg ankle toe"}
    return not has.isdisjoint(copied.get(letters[-1] if letters else "", "").split())

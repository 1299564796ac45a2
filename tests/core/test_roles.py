# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles: every naming convention, figures without names, laws of invariance, broken rigs."""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blender_ik_addon.core import IKError, Skeleton
from blender_ik_addon.core.character.roles import (
    Bend,
    Body,
    Character,
    Hints,
    LimbKind,
    Role,
    Side,
    recognise,
)
from tests.core.strategies import rotations

Array = npt.NDArray[np.float64]
Joint = tuple[str, str | None, tuple[float, float, float]]

# A figure of 1.8 m that looks along -y, its left at +x: part, parent, place [m]. Parts end in L or R.
_CENTRE: Final[tuple[Joint, ...]] = (
    ("hips", None, (0.0, 0.0, 1.0)),
    ("spine", "hips", (0.0, -0.01, 1.12)),
    ("chest", "spine", (0.0, 0.0, 1.28)),
    ("neck", "chest", (0.0, 0.03, 1.5)),
    ("head", "neck", (0.0, 0.01, 1.6)),
)
_LEFT: Final[tuple[Joint, ...]] = (
    ("shoulder", "chest", (0.03, 0.0, 1.45)),
    ("upper arm", "shoulder", (0.18, 0.02, 1.44)),
    ("lower arm", "upper arm", (0.45, 0.05, 1.42)),
    ("hand", "lower arm", (0.7, 0.01, 1.41)),
    ("thumb1", "hand", (0.73, -0.04, 1.4)),
    ("thumb2", "thumb1", (0.77, -0.07, 1.39)),
    ("index1", "hand", (0.79, -0.03, 1.41)),
    ("index2", "index1", (0.83, -0.03, 1.41)),
    ("ring1", "hand", (0.79, 0.03, 1.41)),
    ("ring2", "ring1", (0.83, 0.03, 1.41)),
    ("upper leg", "hips", (0.1, 0.0, 0.93)),
    ("lower leg", "upper leg", (0.11, -0.03, 0.52)),
    ("foot", "lower leg", (0.11, 0.03, 0.09)),
    ("toe", "foot", (0.12, -0.12, 0.02)),
)


def mirrored(centre: Sequence[Joint], left: Sequence[Joint]) -> list[Joint]:
    """All joints; those of the left with L, and their mirror images with R."""
    sided = {name for name, _, _ in left}
    joints = list(centre)
    for side, sign in (("L", 1.0), ("R", -1.0)):
        for name, parent, (x, y, z) in left:
            above = f"{parent} {side}" if parent in sided else parent
            joints.append((f"{name} {side}", above, (sign * x, y, z)))
    return joints


HUMAN: Final = mirrored(_CENTRE, _LEFT)


def build(joints: Sequence[Joint], names: Mapping[str, str] | None = None) -> Skeleton:
    """A skeleton of joints given by place, renamed."""
    place = {name: np.array(at) for name, _, at in joints}
    called = {name: name if names is None else names[name] for name, _, _ in joints}
    offsets = [place[name] - (0.0 if parent is None else place[parent]) for name, parent, _ in joints]
    parents = [None if parent is None else called[parent] for _, parent, _ in joints]
    return Skeleton.build([called[name] for name, _, _ in joints], parents, offsets=offsets)


def nameless(joints: Sequence[Joint]) -> Skeleton:
    """The same without names."""
    return build(joints, {name: f"bone_{row:03d}" for row, (name, _, _) in enumerate(joints)})


def part_of(character: Character, joint: int) -> str | None:
    """Role and side as one word, so that it can be compared with the parts above."""
    choice = character.choice_of(joint)
    if choice is None:
        return None
    return str(choice.role) if choice.side is Side.CENTRE else f"{choice.role} {choice.side}"


def wanted_part(part: str) -> str:
    """The part without its number: thumb1 L is a finger L."""
    for digit in ("thumb", "index", "ring"):
        if part.startswith(digit):
            return f"finger {part[-1]}"
    return part


def parts_of(character: Character, joints: Sequence[Joint]) -> dict[str, str | None]:
    """Part -> what was recognised, for those that are not right."""
    return {
        part: seen
        for joint, (part, _, _) in enumerate(joints)
        if (seen := part_of(character, joint)) != wanted_part(part)
    }


# Hips, spine, chest, neck, head; then for the left: shoulder, upper arm, lower arm, hand, two of thumb,
# index and ring, upper leg, lower leg, foot, toe. `*` is the side.
CONVENTIONS: Final[dict[str, tuple[str, str, str]]] = {
    "Rigify metarig": (
        "spine spine.001 spine.003 spine.004 spine.006",
        "shoulder.* upper_arm.* forearm.* hand.* thumb.01.* thumb.02.* f_index.01.* f_index.02.* "
        "f_ring.01.* f_ring.02.* thigh.* shin.* foot.* toe.*",
        "L R",
    ),
    "Mixamo": (
        "mixamorig:Hips mixamorig:Spine mixamorig:Spine2 mixamorig:Neck mixamorig:Head",
        "mixamorig:*Shoulder mixamorig:*Arm mixamorig:*ForeArm mixamorig:*Hand mixamorig:*HandThumb1 "
        "mixamorig:*HandThumb2 mixamorig:*HandIndex1 mixamorig:*HandIndex2 mixamorig:*HandRing1 "
        "mixamorig:*HandRing2 mixamorig:*UpLeg mixamorig:*Leg mixamorig:*Foot mixamorig:*ToeBase",
        "Left Right",
    ),
    "Unreal": (
        "pelvis spine_01 spine_03 neck_01 head",
        "clavicle_* upperarm_* lowerarm_* hand_* thumb_01_* thumb_02_* index_01_* index_02_* ring_01_* "
        "ring_02_* thigh_* calf_* foot_* ball_*",
        "l r",
    ),
    "VRM": (
        "J_Bip_C_Hips J_Bip_C_Spine J_Bip_C_UpperChest J_Bip_C_Neck J_Bip_C_Head",
        "J_Bip_*_Shoulder J_Bip_*_UpperArm J_Bip_*_LowerArm J_Bip_*_Hand J_Bip_*_Thumb1 J_Bip_*_Thumb2 "
        "J_Bip_*_Index1 J_Bip_*_Index2 J_Bip_*_Ring1 J_Bip_*_Ring2 J_Bip_*_UpperLeg J_Bip_*_LowerLeg "
        "J_Bip_*_Foot J_Bip_*_ToeBase",
        "L R",
    ),
    "MMD": (
        "センター 上半身 上半身2 首 頭",
        "*肩 *腕 *ひじ *手首 *親指1 *親指2 *人指1 *人指2 *薬指1 *薬指2 *足 *ひざ *足首 *つま先",
        "左 右",
    ),
    "MMD in Blender": (
        "センター 上半身 上半身2 首 頭",
        "肩.* 腕.* ひじ.* 手首.* 親指1.* 親指2.* 人指1.* 人指2.* 薬指1.* 薬指2.* 足.* ひざ.* 足首.* つま先.*",
        "L R",
    ),
    "MMD in English": (
        "center upper_body upper_body2 neck head",
        "shoulder_* arm_* elbow_* wrist_* thumb1_* thumb2_* index1_* index2_* ring1_* ring2_* leg_* "
        "knee_* ankle_* toe_*",
        "L R",
    ),
    "Reallusion": (
        "CC_Base_Hip CC_Base_Waist CC_Base_Spine02 CC_Base_NeckTwist01 CC_Base_Head",
        "CC_Base_*_Clavicle CC_Base_*_Upperarm CC_Base_*_Forearm CC_Base_*_Hand CC_Base_*_Thumb1 "
        "CC_Base_*_Thumb2 CC_Base_*_Index1 CC_Base_*_Index2 CC_Base_*_Ring1 CC_Base_*_Ring2 "
        "CC_Base_*_Thigh CC_Base_*_Calf CC_Base_*_Foot CC_Base_*_ToeBase",
        "L R",
    ),
    "Daz Genesis 8": (
        "hip abdomenLower chestLower neckLower head",
        "*Collar *ShldrBend *ForearmBend *Hand *Thumb1 *Thumb2 *Index1 *Index2 *Ring1 *Ring2 *ThighBend "
        "*Shin *Foot *Toe",
        "l r",
    ),
    "Daz Genesis 9": (
        "hip spine1 spine4 neck1 head",
        "*_shoulder *_upperarm *_forearm *_hand *_thumb1 *_thumb2 *_index1 *_index2 *_ring1 *_ring2 "
        "*_thigh *_shin *_foot *_toes",
        "l r",
    ),
    "SMPL-X": (
        "pelvis spine1 spine3 neck head",
        "*_collar *_shoulder *_elbow *_wrist *_thumb1 *_thumb2 *_index1 *_index2 *_ring1 *_ring2 *_hip "
        "*_knee *_ankle *_foot",
        "left right",
    ),
    "SMPL": (
        "m_avg_Pelvis m_avg_Spine1 m_avg_Spine3 m_avg_Neck m_avg_Head",
        "m_avg_*_Collar m_avg_*_Shoulder m_avg_*_Elbow m_avg_*_Wrist *_Thumb1 *_Thumb2 *_Index1 *_Index2 "
        "*_Ring1 *_Ring2 m_avg_*_Hip m_avg_*_Knee m_avg_*_Ankle m_avg_*_Foot",
        "L R",
    ),
    "CMU": (
        "Hips LowerBack Spine1 Neck1 Head",
        "*Shoulder *Arm *ForeArm *Hand *Thumb *Thumb2 *HandIndex1 *FingerBase *HandRing1 *HandRing2 "
        "*UpLeg *Leg *Foot *ToeBase",
        "Left Right",
    ),
    "3ds Max": (
        "Bip01_Pelvis Bip01_Spine Bip01_Spine2 Bip01_Neck Bip01_Head",
        "Bip01_*_Clavicle Bip01_*_UpperArm Bip01_*_Forearm Bip01_*_Hand Bip01_*_Finger0 Bip01_*_Finger01 "
        "Bip01_*_Finger1 Bip01_*_Finger11 Bip01_*_Finger3 Bip01_*_Finger31 Bip01_*_Thigh Bip01_*_Calf "
        "Bip01_*_Foot Bip01_*_Toe0",
        "L R",
    ),
    "Quaternius": (
        "Hips Abdomen Torso Neck Head",
        "Shoulder.* UpperArm.* LowerArm.* Palm.* Thumb1.* Thumb2.* Index1.* Index2.* Ring1.* Ring2.* "
        "UpperLeg.* LowerLeg.* Foot.* Toes.*",
        "L R",
    ),
    "KayKit": (
        "hips spine chest neck head",
        "shoulder.* upperarm.* lowerarm.* wrist.* thumb1.* thumb2.* index1.* index2.* ring1.* ring2.* "
        "upperleg.* lowerleg.* foot.* toes.*",
        "l r",
    ),
    "small letters in one word": (
        "hips spine chest neck head",
        "*shoulder *upperarm *lowerarm *hand *handthumb1 *handthumb2 *handindex1 *handindex2 *handring1 "
        "*handring2 *upperleg *lowerleg *foot *toebase",
        "left right",
    ),
}

_RIGIFY, _UNREAL = CONVENTIONS["Rigify metarig"], CONVENTIONS["Unreal"]
CONVENTIONS["Rigify deform"] = (
    re.sub(r"(\S+)", r"DEF-\1", _RIGIFY[0]),
    re.sub(r"(\S+)", r"DEF-\1", _RIGIFY[1]),
    "L R",
)
CONVENTIONS["MPFB game engine"] = (_UNREAL[0].replace("pelvis", "Root"), *_UNREAL[1:])


def convention(name: str) -> dict[str, str]:
    """Part -> name of the bone."""
    centre, left, sides = CONVENTIONS[name]
    names = dict(zip((part for part, _, _ in _CENTRE), centre.split(), strict=True))
    for side, word in zip("LR", sides.split(), strict=True):
        for (part, _, _), bone in zip(_LEFT, left.split(), strict=True):
            names[f"{part} {side}"] = bone.replace("*", word)
    return names


@pytest.mark.parametrize("name", CONVENTIONS)
def test_naming_conventions(name: str) -> None:
    character = recognise(build(HUMAN, convention(name)))
    assert parts_of(character, HUMAN) == {}
    assert [figure.body for figure in character.figures] == [Body.BIPED]
    assert min(choice.confidence for choice in character.choices) > 0.7, "not by shape"


def renamed(joints: Sequence[Joint], names: Mapping[str, str]) -> dict[str, str]:
    """Names of all parts, those not given as they are."""
    return {part: names.get(part, part) for part, _, _ in joints}


def test_two_bones_for_a_whole_arm() -> None:
    """DeepMimic's arms: shoulder and elbow, no collarbone and no hand."""
    kept = ("hips", "chest", "neck", "upper arm", "lower arm", "upper leg", "lower leg", "foot")
    above = {"chest": "hips", "neck": "chest", "upper arm L": "chest", "upper arm R": "chest"}
    joints = [
        (part, above.get(part, parent), place)
        for part, parent, place in HUMAN
        if part.removesuffix(" L").removesuffix(" R") in kept
    ]
    words = {
        "upper arm": "shoulder",
        "lower arm": "elbow",
        "upper leg": "hip",
        "lower leg": "knee",
        "foot": "ankle",
    }
    names = {f"{part} {side}": f"{name}_{side}" for part, name in words.items() for side in "LR"}
    character = recognise(build(joints, renamed(joints, {"hips": "root", **names})))
    assert parts_of(character, joints) == {}
    assert any("without a hand" in note for note in character.notes)
    (arm,) = character.limbs_of(LimbKind.ARM, Side.LEFT)
    assert arm.effector == arm.joints[-1] and arm.bend is Bend.NONE


def test_hips_of_mmd() -> None:
    """They bear both halves of the body; what is above them moves it, the lower half only bears the legs."""
    joints: list[Joint] = [("center", None, (0.0, 0.0, 0.9)), ("lower half", "hips", (0.0, 0.0, 1.0))]
    for part, parent, place in HUMAN:
        above = "center" if parent is None else "lower half" if part.startswith("upper leg") else parent
        joints.append((part, above, place))
    joints = sorted(
        joints,
        key=lambda joint: (
            ("center", "hips", "lower half").index(joint[0])
            if joint[0] in ("center", "hips", "lower half")
            else 3
        ),
    )
    names = convention("MMD") | {"center": "センター", "hips": "腰", "lower half": "下半身"}
    character = recognise(build(joints, names))
    assert character.joints_of(Role.HIPS) == (1,)
    assert character.role_of("下半身") is Role.PELVIS
    assert character.role_of("センター") is None
    assert [row.reason for row in character.left_out] == ["above the hips: moves the whole figure"]


def test_a_root_at_the_hips_is_not_the_hips() -> None:
    joints: list[Joint] = [("root", None, (0.0, 0.0, 0.95))]
    joints += [(part, parent or "root", place) for part, parent, place in HUMAN]
    names = convention("Mixamo") | {"root": "Root", "hips": "xyz"}
    character = recognise(build(joints, names))
    assert character.role_of("xyz") is Role.HIPS and character.role_of("Root") is None


@pytest.mark.parametrize("side", ["L", "R"])
@pytest.mark.parametrize("name", ["Rigify metarig", "Mixamo", "Unreal", "MMD in English"])
def test_names_of_one_side_give_the_other_side_its_roles_too(name: str, side: str) -> None:
    names = convention(name)
    names |= {part: f"Q{row}" for row, part in enumerate(names) if part.endswith(f" {side}")}
    character = recognise(build(HUMAN, names))
    assert parts_of(character, HUMAN) == {}
    assert kinds(character) == kinds(recognise(build(HUMAN, convention(name))))


class TestWhatIsLeftOut:
    def with_more(self, more: Sequence[Joint], name: str = "Unreal") -> tuple[Character, list[Joint]]:
        names = convention(name) | {part: part for part, _, _ in more}
        joints = [*HUMAN, *more]
        return recognise(build(joints, names)), joints

    def test_twist_helper_control_and_end_bones(self) -> None:
        more: list[Joint] = [
            ("upperarm_twist_01_l", "upper arm L", (0.3, 0.03, 1.43)),
            ("ik_hand_l", None, (0.7, 0.01, 1.41)),
            ("calf_corrective_l", "lower leg L", (0.11, 0.0, 0.4)),
            ("weapon_r", "hand R", (-0.8, 0.0, 1.4)),
            ("head_end", "head", (0.0, 0.0, 1.8)),
            ("breast_l", "chest", (0.1, -0.1, 1.35)),
        ]
        character, _ = self.with_more(more)
        assert parts_of(character, HUMAN) == {}
        reasons = {row.name: row.reason for row in character.left_out}
        assert reasons.keys() == {part for part, _, _ in more}
        assert "twist" in reasons["upperarm_twist_01_l"]
        assert "control" in reasons["ik_hand_l"]
        assert "end of 'head'" in reasons["head_end"]

    def test_twist_bones_between_others_are_bridged(self) -> None:
        joints = [(p, "twist L" if parent == "upper arm L" else parent, place) for p, parent, place in HUMAN]
        row = next(row for row, joint in enumerate(joints) if joint[0] == "lower arm L")
        joints.insert(row, ("twist L", "upper arm L", (0.3, 0.03, 1.43)))
        names = convention("Daz Genesis 8") | {"twist L": "lShldrTwist"}
        character = recognise(build(joints, names))
        (arm,) = character.limbs_of(LimbKind.ARM, Side.LEFT)
        assert arm.roles == (Role.SHOULDER, Role.UPPER_ARM, Role.LOWER_ARM, Role.HAND)
        assert character.role_of("lShldrTwist") is None

    def test_a_hand_must_hang_on_an_arm(self) -> None:
        character, _ = self.with_more([("hand_extra_l", "head", (0.3, 0.0, 1.7))])
        assert character.role_of("hand_extra_l") is not Role.HAND
        assert parts_of(character, HUMAN) == {}

    def test_a_leaf_named_hips_is_not_the_hips(self) -> None:
        joints = [(part, parent, place) for part, parent, place in HUMAN]
        names = convention("Rigify metarig") | {"hip": "hip"}
        character = recognise(build([*joints, ("hip", "hips", (0.0, 0.0, 1.0))], names))
        assert character.role_of("spine") is Role.HIPS and character.role_of("hip") is None

    def test_copies_of_limbs(self) -> None:
        copies = [
            (f"copy {p}", f"copy {q}" if q in ("upper leg L", "lower leg L") else q, at)
            for p, q, at in HUMAN
            if p in ("upper leg L", "lower leg L", "foot L")
        ]
        names = convention("Unreal") | {
            "copy upper leg L": "thigh_l.001",
            "copy lower leg L": "calf_l.001",
            "copy foot L": "foot_l.001",
        }
        character = recognise(build([*HUMAN, *copies], names))
        assert parts_of(character, HUMAN) == {}
        assert len(character.limbs_of(LimbKind.LEG)) == 2
        assert any("second" in note for note in character.notes)


def test_a_horse_whose_forearm_is_called_the_upper_leg() -> None:
    left = [
        ("front_scapula_l", "chest", (0.1, -0.5, 1.45)),
        ("front_humerus_l", "front_scapula_l", (0.2, -0.78, 1.1)),
        ("front_leg_upper_l", "front_humerus_l", (0.2, -0.62, 0.88)),
        ("front_leg_lower_l", "front_leg_upper_l", (0.17, -0.6, 0.5)),
        ("front_leg_ankle_l", "front_leg_lower_l", (0.17, -0.6, 0.15)),
        ("front_leg_foot_l", "front_leg_ankle_l", (0.17, -0.65, 0.05)),
        ("back_leg_upper_l", "hips", (0.1, 0.35, 1.35)),
        ("back_leg_lower_l", "back_leg_upper_l", (0.2, 0.5, 0.95)),
        ("back_leg_ankle_l", "back_leg_lower_l", (0.2, 0.75, 0.5)),
        ("back_leg_foot_l", "back_leg_ankle_l", (0.2, 0.75, 0.05)),
    ]
    right = [
        (name[:-1] + "r", parent[:-1] + "r" if parent.endswith("_l") else parent, (-x, y, z))
        for name, parent, (x, y, z) in left
    ]
    middle = [
        ("hips", None, (0.0, 0.5, 1.3)),
        ("spine", "hips", (0.0, 0.0, 1.3)),
        ("chest", "spine", (0.0, -0.4, 1.35)),
        ("neck", "chest", (0.0, -0.7, 1.5)),
        ("head", "neck", (0.0, -1.0, 1.75)),
    ]
    character = recognise(build([*middle, *left, *right]))
    for limb in character.limbs_of(LimbKind.FRONT_LEG):
        assert limb.roles == (
            Role.SHOULDER,
            Role.UPPER_LEG,
            Role.LOWER_LEG,
            Role.ANKLE,
            Role.ANKLE,
            Role.FOOT,
        )
        assert limb.bend_axis is not None and limb.bend_axis[0] < -0.7, "the elbow points backward"


def test_a_fish() -> None:
    """Fins in pairs and in the middle."""
    centre: list[Joint] = [
        ("pelvis", None, (0.0, 0.0, 0.0)),
        ("head", "pelvis", (0.0, -0.6, 0.0)),
        ("tail_1", "pelvis", (0.0, 0.3, 0.0)),
        ("tail_2", "tail_1", (0.0, 0.8, 0.0)),
        ("dorsal_fin_1", "pelvis", (0.0, 0.0, 0.2)),
        ("dorsal_fin_2", "dorsal_fin_1", (0.0, 0.1, 0.4)),
    ]
    joints = mirrored(centre, [("fin_1", "pelvis", (0.1, -0.2, 0.0)), ("fin_2", "fin_1", (0.4, -0.1, -0.1))])
    character = recognise(build(joints, {part: part.replace(" ", "_") for part, _, _ in joints}))
    assert character.figures[0].body is Body.FISH
    assert np.allclose(character.figures[0].forward, (0.0, -1.0, 0.0))
    assert {limb.side: len(limb.joints) for limb in character.limbs_of(LimbKind.FIN)} == dict.fromkeys(
        Side, 2
    )
    assert [choice.role for choice in character.choices[:4]] == [Role.HIPS, Role.HEAD, Role.TAIL, Role.TAIL]


# Without names


def leg(name: str, parent: str, *places: tuple[float, float, float]) -> list[Joint]:
    """A chain of joints `name0`, `name1`, ..."""
    joints: list[Joint] = []
    for row, place in enumerate(places):
        joints.append((f"{name}{row}", parent if row == 0 else f"{name}{row - 1}", place))
    return joints


QUADRUPED: Final = mirrored(
    [
        ("hips", None, (0.0, 0.4, 0.8)),
        ("spine", "hips", (0.0, 0.1, 0.82)),
        ("chest", "spine", (0.0, -0.2, 0.8)),
        ("neck", "chest", (0.0, -0.4, 0.9)),
        ("head", "neck", (0.0, -0.6, 1.1)),
        *leg("tail", "hips", (0.0, 0.55, 0.78), (0.0, 0.7, 0.7), (0.0, 0.85, 0.65)),
    ],
    [
        *leg("hind", "hips", (0.1, 0.35, 0.75), (0.1, 0.25, 0.5), (0.1, 0.42, 0.25), (0.1, 0.36, 0.03)),
        *leg("fore", "chest", (0.1, -0.3, 0.7), (0.1, -0.2, 0.45), (0.1, -0.21, 0.15), (0.1, -0.26, 0.03)),
        ("ear", "head", (0.05, -0.6, 1.2)),
    ],
)
BIRD: Final = mirrored(
    [
        ("hips", None, (0.0, 0.1, 0.5)),
        ("spine", "hips", (0.0, -0.05, 0.52)),
        ("chest", "spine", (0.0, -0.2, 0.54)),
        ("neck", "chest", (0.0, -0.35, 0.65)),
        ("head", "neck", (0.0, -0.45, 0.8)),
        *leg("tail", "hips", (0.0, 0.25, 0.5), (0.0, 0.4, 0.48)),
    ],
    [
        *leg("hind", "hips", (0.08, 0.1, 0.45), (0.1, 0.02, 0.3), (0.1, 0.12, 0.12), (0.1, 0.05, 0.02)),
        *leg("wing", "chest", (0.1, -0.2, 0.55), (0.5, -0.1, 0.6), (0.9, -0.15, 0.58), (1.3, 0.0, 0.55)),
    ],
)
SPIDER: Final = mirrored(
    [
        ("body", None, (0.0, 0.0, 0.3)),
        ("abdomen0", "body", (0.0, 0.15, 0.32)),
        ("abdomen1", "abdomen0", (0.0, 0.4, 0.35)),
    ],
    [
        joint
        for number, (x, y) in enumerate(((0.6, -0.8), (0.9, -0.3), (0.9, 0.2), (0.6, 0.7)))
        for joint in leg(
            f"leg {number} ",
            "body",
            (0.1 * x, 0.1 * y, 0.3),
            (0.5 * x, 0.5 * y, 0.6),
            (0.85 * x, 0.85 * y, 0.3),
            (x, y, 0.0),
        )
    ],
)
SNAKE: Final = leg("s", "", *((0.02 * (row % 2), -0.1 * row, 0.0) for row in range(12)))
SNAKE[0] = ("s0", None, SNAKE[0][2])


def kinds(character: Character) -> dict[tuple[LimbKind, Side], int]:
    """How many limbs there are of each kind and side, digits left out."""
    counts: dict[tuple[LimbKind, Side], int] = {}
    for limb in character.limbs:
        if limb.kind not in (LimbKind.FINGER, LimbKind.TOE):
            key = (limb.kind, limb.side)
            counts[key] = counts.get(key, 0) + 1
    return counts


LEG_ROLES: Final = (Role.UPPER_LEG, Role.LOWER_LEG, Role.FOOT)


class TestByShapeAlone:
    def test_human(self) -> None:
        character = recognise(nameless(HUMAN))
        assert parts_of(character, HUMAN) == {}
        assert character.figures[0].body is Body.BIPED
        assert all(choice.confidence < 0.9 for choice in character.choices)

    def test_human_without_digits_and_with_wide_shoulders(self) -> None:
        """Nothing but lengths tells the collarbone from the upper arm."""
        joints: list[Joint] = []
        for part, parent, (x, y, z) in HUMAN:
            if part[:3] in ("thu", "ind", "rin"):
                continue
            joints.append(
                (
                    part,
                    parent,
                    (0.12 if part.endswith("L") else -0.12, y, z) if part[:4] == "shou" else (x, y, z),
                )
            )
        assert parts_of(recognise(nameless(joints)), joints) == {}

    def test_quadruped(self) -> None:
        character = recognise(nameless(QUADRUPED))
        assert character.figures[0].body is Body.QUADRUPED
        for kind in (LimbKind.LEG, LimbKind.FRONT_LEG):
            for side in (Side.LEFT, Side.RIGHT):
                (limb,) = character.limbs_of(kind, side)
                assert limb.roles == LEG_ROLES
                name = "hind" if kind is LimbKind.LEG else "fore"
                assert QUADRUPED[limb.joints[0]][0] == f"{name}0 {side}"
                assert QUADRUPED[limb.effector][0] == f"{name}3 {side}", "stands on its toes"
                assert limb.bend is Bend.BENT
        for joint, (part, _, _) in enumerate(QUADRUPED):
            if part in ("hips", "spine", "chest", "neck", "head"):
                assert part_of(character, joint) == part
            if part.startswith("tail"):
                assert part_of(character, joint) == "tail"

    def test_shoulder_blades(self) -> None:
        """Their bend is an elbow's the wrong way round, so they are no upper leg."""
        joints = [
            (part, part.replace("fore0", "blade") if part.startswith("fore0") else parent, place)
            for part, parent, place in QUADRUPED
        ]
        for side, x in (("L", 0.1), ("R", -0.1)):
            row = next(row for row, joint in enumerate(joints) if joint[0] == f"fore0 {side}")
            joints.insert(row, (f"blade {side}", "chest", (x, 0.05, 0.9)))
        character = recognise(nameless(joints))
        (limb,) = character.limbs_of(LimbKind.FRONT_LEG, Side.LEFT)
        assert limb.roles == (Role.SHOULDER, *LEG_ROLES)

    def test_which_way_it_faces_may_be_a_guess(self) -> None:
        """Blender's front is -y. Without toes, and flat, nothing else tells."""
        flat = [
            (part, parent, (x, 0.0, z)) for part, parent, (x, _, z) in HUMAN if not part.startswith("toe")
        ]
        character = recognise(nameless(flat))
        assert parts_of(character, flat) == {}
        assert any("guess" in note for note in character.notes)

    def test_bird(self) -> None:
        character = recognise(nameless(BIRD))
        assert character.figures[0].body is Body.BIRD
        (wing,) = character.limbs_of(LimbKind.WING, Side.LEFT)
        assert [BIRD[joint][0] for joint in wing.joints] == [f"wing{row} L" for row in range(4)]
        (left,) = character.limbs_of(LimbKind.LEG, Side.LEFT)
        assert BIRD[left.joints[0]][0] == "hind0 L" and left.roles == LEG_ROLES
        assert character.joints_of(Role.HEAD) == (4,)
        assert len(character.joints_of(Role.TAIL)) == 2

    def test_spider(self) -> None:
        character = recognise(nameless(SPIDER))
        assert character.figures[0].body is Body.MANY_LEGGED
        assert kinds(character)[LimbKind.LEG, Side.LEFT] == kinds(character)[LimbKind.LEG, Side.RIGHT] == 4
        tips = {SPIDER[limb.effector][0] for limb in character.limbs_of(LimbKind.LEG)}
        assert tips == {f"leg {number} 3 {side}" for number in range(4) for side in "LR"}

    def test_snake_with_a_jaw_at_its_root(self) -> None:
        """Small parts tell which end is the head."""
        parts = [("jaw", "s0", (0.0, 0.05, -0.05)), ("eye", "s1", (0.03, -0.05, 0.05))]
        character = recognise(nameless([*SNAKE, *parts]))
        assert character.joints_of(Role.HEAD) == (0,) and character.joints_of(Role.TAIL) == (11,)

    def test_snake(self) -> None:
        character = recognise(nameless(SNAKE))
        assert character.figures[0].body is Body.SNAKE
        assert len(character.joints_of(Role.HEAD)) == len(character.joints_of(Role.TAIL)) == 1
        assert len(character.joints_of(Role.SPINE)) == 10
        assert any("exchange" in note for note in character.notes)


# Laws

SHAPES: Final = {"human": HUMAN, "quadruped": QUADRUPED, "bird": BIRD}


def moved(skeleton: Skeleton, turn: Array, scale: float, shift: Array) -> Skeleton:
    """The skeleton turned, scaled and shifted as a whole."""
    rest = np.array(skeleton.rest)
    rest[:, :3, 3] *= scale
    roots = skeleton.parents < 0
    rest[roots, :3, 3] = rest[roots, :3, 3] @ turn.T + shift
    rest[roots, :3, :3] = turn @ rest[roots, :3, :3]
    return Skeleton.build(skeleton.names, skeleton.parents.tolist(), rest=rest)


def summary(character: Character) -> dict[str, tuple[Role, Side]]:
    """Role and side by name."""
    return {choice.name: (choice.role, choice.side) for choice in character.choices}


class TestLaws:
    @settings(max_examples=6)
    @given(st.sampled_from(sorted(SHAPES)), rotations(), st.floats(0.01, 100.0), st.booleans())
    def test_size_and_place_do_not_matter(self, shape: str, turn: Array, scale: float, named: bool) -> None:
        skeleton = build(SHAPES[shape]) if named else nameless(SHAPES[shape])
        there = moved(skeleton, turn, scale, np.array([1.0, -2.0, 3.0]) * scale)
        assert summary(recognise(there)) == summary(recognise(skeleton))

    @settings(max_examples=6)
    @given(st.sampled_from(sorted(SHAPES)), st.integers(0, 999))
    def test_order_and_unknown_names_do_not_matter(self, shape: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        joints = SHAPES[shape]
        codes = {
            part: f"Q{int(code)}" for (part, _, _), code in zip(joints, rng.permutation(9000), strict=False)
        }
        keys = rng.random(len(joints))
        depth: dict[str, int] = {}
        for part, parent, _ in joints:
            depth[part] = 0 if parent is None else depth[parent] + 1
        order = sorted(range(len(joints)), key=lambda row: (depth[joints[row][0]], keys[row]))
        shuffled = recognise(build([joints[row] for row in order], codes))
        plain = recognise(nameless(joints))
        for new, row in enumerate(order):
            assert part_of(shuffled, new) == part_of(plain, row), joints[row][0]

    @pytest.mark.parametrize("shape", SHAPES)
    def test_a_mirrored_figure_has_its_sides_exchanged(self, shape: str) -> None:
        joints = SHAPES[shape]
        there = recognise(nameless([(part, parent, (-x, y, z)) for part, parent, (x, y, z) in joints]))
        here = recognise(nameless(joints))
        for joint in range(len(joints)):
            one, other = here.choice_of(joint), there.choice_of(joint)
            assert one is not None and other is not None
            assert (one.role, one.side) == (other.role, other.side.other)

    def test_names_win_over_places(self) -> None:
        joints = [(part, parent, (-x, y, z)) for part, parent, (x, y, z) in HUMAN]
        character = recognise(build(joints, convention("Mixamo")))
        assert parts_of(character, HUMAN) == {}
        assert any("exchanged" in note for note in character.notes)


# Bends


class TestBends:
    def bent(self, limb: LimbKind, shift: tuple[float, float, float]) -> Character:
        """The human with its left elbow or knee put beside the straight line between its ends."""
        ends = {LimbKind.ARM: ("upper arm L", "hand L"), LimbKind.LEG: ("upper leg L", "foot L")}[limb]
        moved_part = "lower arm L" if limb is LimbKind.ARM else "lower leg L"
        at = {part: np.array(place) for part, _, place in HUMAN}
        middle = 0.5 * (at[ends[0]] + at[ends[1]]) + np.array(shift)
        place = (float(middle[0]), float(middle[1]), float(middle[2]))
        joints = [(p, q, place if p == moved_part else here) for p, q, here in HUMAN]
        return recognise(build(joints, convention("Mixamo")))

    @pytest.mark.parametrize(
        ("limb", "shift", "state"),
        [
            (LimbKind.ARM, (0.0, 0.05, 0.0), Bend.BENT),
            (LimbKind.ARM, (0.0, -0.05, 0.0), Bend.INVERTED),
            (LimbKind.ARM, (0.0, 0.001, 0.0), Bend.STRAIGHT),
            (LimbKind.LEG, (0.0, -0.05, 0.0), Bend.BENT),
            (LimbKind.LEG, (0.0, 0.05, 0.0), Bend.INVERTED),
            (LimbKind.LEG, (0.0, 0.0, 0.0), Bend.STRAIGHT),
        ],
    )
    def test_states(self, limb: LimbKind, shift: tuple[float, float, float], state: Bend) -> None:
        character = self.bent(limb, shift)
        (found,) = character.limbs_of(limb, Side.LEFT)
        assert found.bend is state
        note = f"{limb}: straight at rest, taken to bend the usual way (left "
        assert any(said.startswith(note) for said in character.notes) == (state is Bend.STRAIGHT)

    @pytest.mark.parametrize("shift", [-0.05, 0.0, 0.05])
    @pytest.mark.parametrize("limb", [LimbKind.ARM, LimbKind.LEG])
    def test_turning_about_the_axis_bends_the_right_way(self, limb: LimbKind, shift: float) -> None:
        """A quarter turn about the axis brings the hand forward, the foot backward."""
        (found,) = self.bent(limb, (0.0, shift, 0.0)).limbs_of(limb, Side.LEFT)
        axis = found.bend_axis
        assert axis is not None and np.linalg.norm(axis) == pytest.approx(1.0)
        along = np.array([1.0, 0.0, 0.0]) if limb is LimbKind.ARM else np.array([0.0, 0.0, -1.0])
        moves = np.cross(axis, along)
        assert moves[1] < -0.9 if limb is LimbKind.ARM else moves[1] > 0.9


# Broken rigs


class TestClearAnswers:
    @pytest.mark.parametrize("below_a_root", [False, True])
    def test_two_humans_in_one_armature(self, below_a_root: bool) -> None:
        second = [
            (f"2 {part}", f"2 {parent}" if parent else None, (x + 2.0, y, z))
            for part, parent, (x, y, z) in HUMAN
        ]
        names = convention("Mixamo")
        names |= {f"2 {part}": f"{bone}.001" for part, bone in names.items()}
        joints = [*HUMAN, *second]
        if below_a_root:
            names |= {"all": "Root"}
            joints = [("all", None, (1.0, 0.0, 0.0)), *((p, q or "all", at) for p, q, at in joints)]
        character = recognise(build(joints, names))
        assert len(character.figures) == 2 and any("2 figures" in note for note in character.notes)
        for figure in (0, 1):
            assert len(character.joints_of(Role.HAND, figure=figure)) == 2
            assert len(character.limbs_of(LimbKind.LEG, figure=figure)) == 2

    def test_two_pairs_of_legs_with_hips_of_their_own(self) -> None:
        names = {"hips": "Hips", "chest": "Chest", "head": "Head"}
        joints: list[Joint] = [("root", None, (1.0, 0.0, 0.0))]
        for number in (1, 2):
            for part, parent, (x, y, z) in HUMAN:
                if part in names or part[:9] in ("upper leg", "lower leg") or part[:4] == "foot":
                    above = {"chest": "hips", "head": "chest"}.get(part, parent)
                    place = (x + 2.0 * number - 2.0, y, z)
                    joints.append(
                        (f"{part} {number}", "root" if above is None else f"{above} {number}", place)
                    )
        character = recognise(build(joints))
        assert [figure.body for figure in character.figures] == [Body.BIPED, Body.BIPED]
        assert len(character.joints_of(Role.HIPS, figure=1)) == 1

    def test_two_nameless_humans_below_one_root(self) -> None:
        joints: list[Joint] = [("root", None, (1.0, 0.0, 0.0))]
        for number in (1, 2):
            joints += [
                (f"{number} {p}", f"{number} {q}" if q else "root", (x + 2.0 * number - 2.0, y, z))
                for p, q, (x, y, z) in HUMAN
            ]
        character = recognise(nameless(joints))
        assert [figure.body for figure in character.figures] == [Body.BIPED, Body.BIPED]

    def test_a_missing_arm_is_said(self) -> None:
        joints = [
            joint
            for joint in HUMAN
            if not joint[0].endswith("R") or "leg" in joint[0] or joint[0] == "foot R"
        ]
        joints = [joint for joint in joints if joint[0] != "toe R"]
        character = recognise(build(joints, convention("Mixamo")))
        assert len(character.limbs_of(LimbKind.ARM)) == 1
        assert any("left arm without a right one" in note for note in character.notes)
        assert parts_of(character, joints) == {}

    def test_unknown_names_inside_a_limb_are_filled_by_their_place(self) -> None:
        names = convention("Mixamo") | {"lower arm L": "Bone.007", "spine": "xyz"}
        character = recognise(build(HUMAN, names))
        assert parts_of(character, HUMAN) == {}
        choice = character.choice_of("Bone.007")
        assert choice is not None and choice.confidence < 0.9 and "between" in choice.reason

    def test_bones_that_hang_on_nothing(self) -> None:
        skeleton = Skeleton.build([f"b{i}" for i in range(6)], [None] * 6, offsets=np.eye(6, 3))
        character = recognise(skeleton)
        assert character.choices == () and len(character.left_out) == 6
        assert any("parent" in note for note in character.notes)

    def test_small_things(self) -> None:
        assert recognise(Skeleton.build([], [], offsets=np.zeros((0, 3)))).choices == ()
        assert recognise(Skeleton.build(["Bone"], [None], offsets=np.zeros((1, 3)))).choices == ()
        at_one_place = Skeleton.build(
            [f"b{i}" for i in range(8)], [None, 0, 1, 1, 0, 4, 4, 2], offsets=np.zeros((8, 3))
        )
        assert recognise(at_one_place).figures[0].body is Body.UNKNOWN

    def test_hints_of_another_skeleton(self) -> None:
        with pytest.raises(IKError, match=r"tails has shape \(3, 3\)"):
            recognise(build(HUMAN), Hints(tails=np.zeros((3, 3))))
        with pytest.raises(IKError, match="deform"):
            recognise(build(HUMAN), Hints(deform=np.ones(2, dtype=bool)))

    def test_bones_that_move_no_mesh_and_control_bones_by_their_collection(self) -> None:
        gizmos: list[Joint] = [("gizmo7", "hips", (0.0, 0.6, 0.9)), ("gizmo8", "gizmo7", (0.0, 1.2, 0.8))]
        skeleton = nameless([*HUMAN, *gizmos])
        assert recognise(skeleton).role_of(len(HUMAN)) is Role.TAIL
        collections = dict.fromkeys(skeleton.names[len(HUMAN) :], ("Leg IK",))
        for hints in (Hints(deform=np.arange(len(skeleton)) < len(HUMAN)), Hints(collections=collections)):
            character = recognise(skeleton, hints)
            assert character.role_of(len(HUMAN)) is None
            assert parts_of(character, HUMAN) == {}

    def test_driven_bones_are_said(self) -> None:
        character = recognise(build(HUMAN, convention("Unreal")), Hints(driven=frozenset({"hand_l"})))
        assert any("'hand_l'" in note for note in character.notes)


def with_hair(count: int) -> Skeleton:
    """A human with hair that nobody asks for."""
    hair: list[Joint] = [(f"hair{n}", "head", (0.01 * n, 0.1, 1.7)) for n in range(count)]
    return build([*HUMAN, *hair], convention("Mixamo") | {name: name for name, _, _ in hair})


def test_every_further_joint_takes_the_same_few_calls() -> None:
    def calls(skeleton: Skeleton) -> int:
        count = 0

        def profile(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event in {"call", "c_call"}

        recognise(skeleton)  # so that what is remembered of names is there in any case
        previous = sys.getprofile()
        sys.setprofile(profile)
        try:
            recognise(skeleton)
        finally:
            sys.setprofile(previous)
        return count

    few, some, many = (calls(with_hair(count)) for count in (100, 200, 400))
    assert many - some <= 2.2 * (some - few) <= 2.2 * 100 * 30


def test_every_joint_is_accounted_for() -> None:
    skeleton = with_hair(150)
    character = recognise(skeleton)
    told = [choice.joint for choice in character.choices] + [row.joint for row in character.left_out]
    assert sorted(told) == list(range(len(skeleton)))
    assert all(row.reason for row in character.left_out) and all(c.reason for c in character.choices)

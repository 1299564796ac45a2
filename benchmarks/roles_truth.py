# SPDX-License-Identifier: GPL-3.0-or-later
"""What the bones of known rigs are, written down by looking at the rigs: what `roles.py` compares with.

A truth is a text. Its first line gives the words for left and right, of which `*` in a name stands for the
first pair, `%` for the second and `$` for the third. Each further line is a role (or several that are as
good, with `|`) and the bones that have it. `{a,b}` and `{1-3}` stand for each of them. `below NAME` means
every bone below that one which no other line names. A line that begins with `-` lists bones that must have
no role; so must all bones that are not listed.

Where a name and anatomy disagree, or two readings are as good, both stand there. A joint is called by where
it is hinged: the hand begins at the wrist, the foot at the ankle.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from blender_ik_addon.core.roles import Role, Side

_PLACES: Final = "*%$"


@dataclass(frozen=True)
class Expected:
    """What is right for one bone."""

    roles: frozenset[Role]
    side: Side


def expand(pattern: str) -> Iterator[str]:
    """Names that a pattern with braces stands for."""
    pieces = re.split(r"(\{[^}]*\})", pattern)
    choices: list[list[str]] = []
    for piece in pieces:
        if not piece.startswith("{"):
            choices.append([piece])
            continue
        span = re.fullmatch(r"\{(\d+)-(\d+)\}", piece)
        if span:
            choices.append([str(i).zfill(len(span[1])) for i in range(int(span[1]), int(span[2]) + 1)])
        else:
            choices.append(piece[1:-1].split(","))
    for combination in product(*choices):
        yield "".join(combination)


def expected(text: str, names: Sequence[str], parents: Sequence[int]) -> dict[str, Expected]:
    """Role and side of each bone of a rig that has one, by a truth.

    Raises:
        ValueError: The truth names a bone that is not there, or one twice.
    """
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    pairs = [tuple(words.split("/")) for words in lines[0].removeprefix("sides").split()]
    found: dict[str, Expected] = {}
    below: list[tuple[frozenset[Role], str]] = []
    silent: set[str] = set()

    def add(name: str, roles: frozenset[Role], side: Side) -> None:
        if name not in names:
            raise ValueError(f"the truth speaks of {name!r}, which the rig does not have")
        if name in found or name in silent:
            raise ValueError(f"the truth speaks twice of {name!r}")
        if roles:
            found[name] = Expected(roles, side)
        else:
            silent.add(name)

    for line in lines[1:]:
        head, _, rest = line.partition(":")
        roles = frozenset(Role(role) for role in head.split("|")) if head != "-" else frozenset[Role]()
        if rest.strip().startswith("below "):
            below.append((roles, rest.strip().removeprefix("below ")))
            continue
        for pattern in rest.split():
            for name in expand(pattern):
                if not set(name) & set(_PLACES):
                    add(name, roles, _side(name, pairs))
                    continue
                for number, side in enumerate((Side.LEFT, Side.RIGHT)):
                    sided = name
                    for place, words in zip(_PLACES, pairs, strict=False):
                        sided = sided.replace(place, words[number])
                    add(sided, roles, side)
    for roles, top in below:
        if top not in names:
            raise ValueError(f"the truth speaks of {top!r}, which the rig does not have")
        for joint, name in enumerate(names):
            parent = parents[joint]
            while parent >= 0 and names[parent] != top:
                parent = parents[parent]
            if parent >= 0 and name not in found and name not in silent:
                found[name] = Expected(roles, _side(name, pairs))
    return found


def _side(name: str, pairs: Sequence[tuple[str, ...]]) -> Side:
    """Side of a bone that has it as a word of its name."""
    for words in pairs:
        for number, side in enumerate((Side.LEFT, Side.RIGHT)):
            if re.search(rf"(?:^|[._\s]){re.escape(words[number].strip('._'))}(?:$|[._\s])", name):
                return side
    return Side.CENTRE


# ---------------------------------------------------------------- recordings

CMU = """
sides Left/Right L/R
hips: Hips
spine: LowerBack Spine
chest: Spine1
neck: Neck Neck1
head: Head
shoulder: *Shoulder
upper arm: *Arm
lower arm: *ForeArm
hand: *Hand
finger: *FingerBase %Fingers %Thumb
pelvis: %HipJoint
upper leg: *UpLeg
lower leg: *Leg
foot: *Foot
toe: *ToeBase
"""
CMU_MOTIONBUILDER = """
sides Left/Right L/R l/r
hips: Hips
spine: lowerback
spine|chest: Chest
chest: Chest2
neck: lowerneck Neck
head: Head
shoulder: *Collar
upper arm: *Shoulder
lower arm: *Elbow
hand: *Wrist $hand
finger: %Fingers %Thumb
pelvis: %HipJoint
upper leg: *Hip
lower leg: *Knee
foot: *Ankle
toe: *Toe
"""
FAIR = """
sides Left/Right
hips: Hips
spine: Spine Spine{1-2}
chest: Spine3
neck: Neck
head: Head
shoulder: *Shoulder
upper arm: *Arm
lower arm: *ForeArm
hand: *Hand
finger: *HandThumb1
upper leg: *UpLeg
lower leg: *Leg
foot: *Foot
toe: *ToeBase
-: *HandEnd
"""
DAZ = """
sides l/r left/right
hips: hip
spine: abdomen
chest: chest
neck: neck
head: head
eye: %Eye
shoulder: *Collar
upper arm: *Shldr
lower arm: *ForeArm
hand: *Hand
finger: *{Thumb,Index,Mid,Ring,Pinky}{1-2}
pelvis: *Buttock
upper leg: *Thigh
lower leg: *Shin
foot: *Foot
"""
CMU_DAZ_OLD = """
sides Left/Right
hips: Hips
spine|chest: Chest
chest: CS_BVH
neck: Neck
head: Head
shoulder: *Collar
upper arm: *Shoulder
lower arm: *Elbow
hand: *Wrist
upper leg: *Hip
lower leg: *Knee
foot: *Ankle
"""
DEEPMIMIC = """
sides left/right
hips: root
chest: chest
neck|head: neck
upper arm: *_shoulder
lower arm: *_elbow
upper leg: *_hip
lower leg: *_knee
foot: *_ankle
"""
MAKEHUMAN = """
sides L/R
hips: root
spine: spine0{2-5}
chest: spine01
neck: neck0{1-3}
head: head
head part|jaw|eye: below head
shoulder: clavicle.* shoulder01.*
upper arm: upperarm0{1-2}.*
lower arm: lowerarm0{1-2}.*
hand: wrist.*
finger: below wrist.L
finger: below wrist.R
pelvis: pelvis.*
upper leg: upperleg0{1-2}.*
lower leg: lowerleg0{1-2}.*
foot: foot.*
toe: below foot.L
toe: below foot.R
-: breast.*
"""
MAKEHUMAN_CLIP = """
sides L/R
hips: Root
spine: Spine{1-2}
chest: Spine3
pelvis: Hips
neck: Neck
head: Head
jaw: Jaw
head part: Tongue{1-3}
eye: Eye_*
shoulder: Clavicle_*
upper arm: UpArm_*
lower arm: LoArm_*
hand: Hand_*
finger: {Thumb,Index,Middle,Ring,Pinky}{1-3}_*
upper leg: UpLeg_*
lower leg: LoLeg_*
foot: Foot_*
toe: Toe_*
-: __Jaw __Tongue1 __Eye_* __Clavicle_* __UpLeg_* __{Thumb,Index,Ring,Pinky}1_*
"""
GENO = """
sides Left/Right
hips: Hips
spine: Spine Spine{1-2}
chest: Spine3
neck: Neck Neck1
head: Head
shoulder: *Shoulder
upper arm: *Arm
lower arm: *ForeArm
hand: *Hand
finger: *Hand{Thumb,Index,Middle,Ring,Pinky}{1-4}
upper leg: *UpLeg
lower leg: *Leg
foot: *Foot
toe: *ToeBase
-: HeadEnd *ForeArmEnd *ArmEnd *ToeBaseEnd *LegEnd *UpLegEnd
"""

# ---------------------------------------------------------------- characters

KAYKIT = """
sides l/r
hips: hips
spine: spine
chest: chest
head: head
upper arm: upperarm.*
lower arm: lowerarm.*
hand: wrist.* hand.*
upper leg: upperleg.*
lower leg: lowerleg.*
foot: foot.*
toe: toes.*
-: root
"""
UNREAL = """
sides l/r
hips: pelvis
spine: spine_0{1-2}
chest: spine_03
neck: neck_01
head: head
shoulder: clavicle_*
upper arm: upperarm_*
lower arm: lowerarm_*
hand: hand_*
finger: {FINGERS}_0{1-3}_*
upper leg: thigh_*
lower leg: calf_*
foot: foot_*
toe: ball_*
-: root head_leaf {FINGERS}_04_leaf_* ball_leaf_*
"""
DEFORM = """
sides L/R
hips: DEF-hips
spine: DEF-spine.00{1-2}
chest: DEF-spine.003
neck: DEF-neck
head: DEF-head
shoulder: DEF-shoulder.*
upper arm: DEF-upper_arm.*
lower arm: DEF-forearm.*
hand: DEF-hand.*
finger: DEF-f_{index,middle,ring,pinky}.0{1-3}.* DEF-thumb.0{1-3}.*
upper leg: DEF-thigh.*
lower leg: DEF-shin.*
foot: DEF-foot.*
toe: DEF-toe.*
-: root
"""

# ---------------------------------------------------------------- creatures

FOX = """
sides L/R
hips: Hips
spine: Spine_1 Spine_2
chest: Spine_2.001
neck: Spine_3 Spine_4
head: Head
head part: {NOSE}Chin Ear_*
tail: Tail_Base Tail_Mid Tail_Mid.001 Tail_End
shoulder: Front_Leg_Shoulder_*
upper leg: Front_Leg_Upper_* Back_Leg_Upper_*
lower leg: Front_Leg_Lower_* Back_Leg_Lower_*
ankle|foot: Front_Leg_Ankle_* Back_Leg_Ankle_*
foot|toe: Front_Leg_Foot_* Back_Leg_Foot_* Back_Leg_Foot_1_*
pelvis: Back_Leg_Pelvis_*
-: root Head.tip Ear_Tip_* Chin_Tip Tail_Tip Front_Leg_Tip_* Back_Leg_Tip_* Stomach Stomach_tip
"""
HORSE = """
sides l/r
hips: hips
spine: spine_{1-3}
chest: spine_4
neck: spine_{5-6}
head: head
head part: ear_{1-2}_* nose
head part|jaw: mouth
tail: tail_{1-4}
shoulder: front_scapula_*
upper leg: front_humerus_* back_leg_upper_*
upper leg|lower leg: front_leg_upper_*
lower leg: back_leg_lower_*
lower leg|ankle: front_leg_lower_*
ankle|foot: front_leg_ankle_* back_leg_ankle_*
foot|toe: front_leg_foot_* back_leg_foot_*
toe: back_leg_toe_*
pelvis: back_leg_pelvis_*
-: root head_leaf mouth_tip ear_leaf_* tail_leaf ribcage_middle ribcage_leaf ribcage_front ribcage_front_leaf
-: front_leg_leaf_* back_leg_leaf_*
"""
BIRD = """
sides L/R
hips: hips
spine: spine_0
chest: spine_1
neck: spine_{2-3}
head: head
head part|jaw: mouth_upper mouth_lower
tail: tail_{1-3}
wing: wing_{1-5}_*
upper leg: UpperLeg_*
lower leg: LowerLeg_*
ankle|foot: AnkleLeg_*
foot|toe: Foot_*
toe: Toes_*
-: root mouth_upper_tip mouth_lower_tip wing_tip_* tail_tip Toes_tip_* wing_feather_{1-4}_{1-2}_*
"""
DRAGON = """
sides l/r L/R
hips: hips
spine: spine_0
spine|chest: spine_1
neck|chest: spine_2
neck: spine_{3-4}
head: head
head part|jaw: mouth_upper mouth_lower horn_base_* horn_*
tail: tail_{1-6}
shoulder: shoulder_* collar_anchor_* front_leg_collar_*
wing: wing_{1-5}_*
pelvis: hips_anchor_* back_leg_hip_*
upper leg: front_leg_* back_leg_*
lower leg: front_ankle_* back_ankle_*
foot: front_foot_* back_foot_*
toe: front_toes_* back_toes_*
-: root mouth_upper_tip mouth_lower_tip horn_tip_% wing_tip_* tail_tip front_toes_tip_* back_toes_tip_*
-: stomach stomach_tip wing_feather_{1-5}_{0,1,tip}_*
"""
SHARK = """
sides l/r
hips: pelvis
neck: neck
head: head
head part|jaw: mouth_base mouth_1
tail: tail_{1-8}
fin: front_fin_{0-2}_* back_fin_{0-2}_*
-: root head_tip mouth_tip tail_tip front_fin_tip_* back_fin_tip_*
"""

# ---------------------------------------------------------------- Rigify

_ARMS = """
shoulder: shoulder.*
upper arm: upper_arm{FK}.*
lower arm: forearm{FK}.*
hand: hand{FK}.*
"""
_LEGS = """
upper leg: thigh{FK}.*
lower leg: shin{FK}.*
foot: foot{FK}.*
toe: toe{TOE}.*
"""
_FINGERS = "finger: f_{index,middle,ring,pinky}.0{1-3}.* thumb.0{1-3}.*\n"

BASIC_HUMAN = (
    """
sides L/R
hips: spine
spine: spine.00{1-2}
chest: spine.003
neck: spine.00{4-5}
head: spine.006
-: breast.* pelvis.* heel.02.*
"""
    + _ARMS.replace("{FK}", "")
    + _LEGS.replace("{FK}", "").replace("{TOE}", "")
)
HUMAN = BASIC_HUMAN + _FINGERS + "finger: palm.0{1-4}.*\nhead part|jaw|eye: below spine.006\n"

_CONTROLS = """
sides L/R
hips: torso
pelvis|spine: spine_fk spine_fk.001
spine: spine_fk.002
chest: spine_fk.003
neck: neck
head: head
-: root hips chest breast.*
"""
BASIC_HUMAN_RIG = (
    _CONTROLS + _ARMS.replace("{FK}", "_fk") + _LEGS.replace("{FK}", "_fk").replace("{TOE}", "_fk")
)
# What is called eye there is a target in front of the face.
FACE_CONTROLS = (
    "-: eyes eye.*\neye: master_eye.*\nhead part|jaw|eye: brow.{B,T}.* brow.T.*.00{1-3} brow.B.*.00{1-4} "
    "lid.{B,T}.* lid.{B,T}.*.00{1-3} ear.* ear.*.00{2-4} teeth.{T,B} tongue tongue.00{1-3} chin "
    "chin.00{1-2} chin.* jaw jaw.* jaw.*.001 nose nose.00{1-5} nose.* nose.*.001 lip.{B,T} "
    "lip.{B,T}.*.001 lips.* cheek.{B,T}.*.001\n"
)
HUMAN_RIG = BASIC_HUMAN_RIG + _FINGERS + FACE_CONTROLS + "finger|hand: palm.*\n"

BASIC_QUADRUPED = """
sides L/R
hips: spine.004
spine: spine.00{5-7}
chest: spine.008
neck: spine.009 spine.010
head: spine.011
tail: spine spine.00{1-3}
shoulder: shoulder.*
upper leg: front_thigh.* thigh.*
lower leg: front_shin.* shin.*
foot: front_foot.* foot.*
toe: front_toe.* toe.*
-: breast.* pelvis.*
"""
WOLF = (
    BASIC_QUADRUPED
    + """
toe: {f,r}_palm.0{1-4}.* {f,r}_{index,middle,ring,pinky}.0{1-3}.*
head part|jaw|eye: below spine.011
"""
)
BASIC_QUADRUPED_RIG = """
sides L/R
hips: torso
pelvis|spine: spine_fk.00{4-7}
chest: spine_fk.008
neck: neck
head: head
tail: spine spine.00{1-3}
shoulder: shoulder.*
upper leg: front_thigh_fk.* thigh_fk.*
lower leg: front_shin_fk.* shin_fk.*
foot: front_foot_fk.* foot_fk.*
toe: front_toe.* toe.*
-: root hips chest breast.*
"""
WOLF_RIG = (
    """
sides L/R
hips: torso
pelvis|spine: spine_fk.00{4-7}
chest: spine_fk.008
neck: neck
head: head
tail: spine spine.00{1-3}
shoulder: shoulder.*
upper leg: front_thigh_fk.* thigh_fk.*
lower leg: front_shin_fk.* shin_fk.*
foot: front_foot_fk.* foot_fk.*
toe: front_toe.* toe.* {f,r}_palm.* {f,r}_{index,middle,ring,pinky}.0{1-3}.*
-: root hips chest breast.*
"""
    + FACE_CONTROLS
)
HORSE_METARIG = """
sides L/R
hips: spine.001
spine: spine.00{2-4}
chest: spine.005
chest|spine|neck: spine.006
neck: neck.00{1-4}
head: head
tail: tail.00{1-5}
head part|jaw|eye: skull skull.* ear.* ear.*.001 jaw jaw.001 eye.* nose.*
shoulder: shoulder.*
upper leg: upper_arm.* thigh.*
lower leg: forearm.* lower_leg.*
foot: forefoot.* hind_foot.*
toe: f_toe.* f_hoof.* r_toe.* r_hoof.*
pelvis: pelvis.*
-: breast.* chest abdomen hip mane_base.0{1-6} mane_top.0{1-6}
"""
HORSE_RIG = """
sides L/R
hips: torso
pelvis|spine: spine_fk.001 spine_fk.002
spine: spine_fk.00{3-4}
chest: spine_fk.005
chest|spine|neck: spine_fk.006
neck: neck
head: head
tail: tail.00{1-5}
head part|jaw|eye: ear.* ear.*.001 jaw jaw.001 eye.* nose.*
shoulder: shoulder.*
upper leg: upper_arm_fk.* thigh_fk.*
lower leg: forearm_fk.* lower_leg_fk.*
foot: forefoot_fk.* hind_foot_fk.*
toe: f_toe_fk.* f_hoof.* r_toe_fk.* r_hoof.*
-: root hips chest breast.* chest.001 neck_bend
"""
BIRD_METARIG = """
sides L/R
hips: spine.003
spine: spine.004
chest: spine.005
chest|spine|neck: spine.006
neck: neck.00{1-2}
head: head
tail: spine spine.00{1-2}
head part|jaw|eye: beak.00{1-2}.T beak_001.B beak.002.B eye.* skull.006.*
head part|jaw|eye: tongue.00{1-3}.L
shoulder: shoulder.*
wing: Wing.* Wing.00{1-2}.*
upper leg: thigh.*
lower leg: shin.*
foot: foot.*
toe: toe.* t_{index,middle,ring}.00{1-3}.* t_thumb.00{1-2}.*
-: pelvis.* t_feather.* w_feather.00{1-4}.* n_feather.001.* toes_parent.*
"""
BIRD_RIG = """
sides L/R
hips: torso
pelvis|spine: spine_fk.003
spine: spine_fk.004
chest: spine_fk.005
chest|spine|neck: spine_fk.006
neck: neck
head: head
tail: spine spine.00{1-2}
head part|jaw|eye: beak.00{1-2}.T beak_001.B beak.002.B eye.* tongue.00{1-3}.L
shoulder: shoulder.*
wing: Wing.* Wing.00{1-2}.*
upper leg: thigh_fk.*
lower leg: shin_fk.*
foot: foot_fk.*
toe: toe.* t_{index,middle,ring}.00{1-3}.* t_thumb.00{1-2}.*
-: root hips chest t_feather.* w_feather.00{1-4}.* n_feather.001.*
"""
CAT_METARIG = """
sides L/R
hips: spine
spine: spine.00{1-2}
chest: spine.003
neck: spine.00{4-5}
head: spine.006
tail: tail.00{1-4}
shoulder: shoulder.*
upper leg: upper_arm.* thigh.*
lower leg: forearm.* shin.*
foot: hand.* foot.*
toe: f_toe.* r_toe.* {f,r}_palm.00{1-4}.* {f,r}_{index,middle,ring,pinky}.00{1-2}.*
pelvis: pelvis.*
head part|jaw|eye: below spine.006
-: Breast.C belly.C pelvis.C
"""
CAT_RIG = (
    """
sides L/R
hips: torso
pelvis|spine: spine_fk spine_fk.001
spine: spine_fk.002
chest: spine_fk.003
neck: neck
head: head
tail: tail.00{1-4}
shoulder: shoulder.*
upper leg: upper_arm_fk.* thigh_fk.*
lower leg: forearm_fk.* shin_fk.*
foot: hand_fk.* foot_fk.*
toe: f_toe.* r_toe.* {f,r}_palm.* {f,r}_palm.001.* {f,r}_{index,middle,ring,pinky}.00{1-2}.*
-: root hips chest Breast.C belly.C
"""
    + FACE_CONTROLS
)
SHARK_METARIG = """
sides L/R
hips: spine.003
spine: spine.008 spine.004
chest: spine.005
neck: spine.006
head: spine.007
tail: spine spine.00{1-2}
eye: eye.*
jaw: jaw jaw.001 jaw.00{2-3}.*
shoulder: shoulder.*
fin: side_fin.* side_fin.*.001 chest_fin.Bot.* mid_fin.{Top,Bot} top_fin top_fin.001
fin: back_fin.T.Bk back_fin.T.00{1-2}.Bk back_fin.B.Bk back_fin.B.001.Bk
-: jaw.master
"""
SHARK_RIG = """
sides L/R
hips: torso
pelvis|spine: spine_fk.003 spine_fk.008
spine: spine_fk.004
chest: spine_fk.005
neck: neck
head: head
tail: spine spine.00{1-2}
eye: eye.*
jaw: jaw jaw.001 jaw.00{2-3}.*
shoulder: shoulder.*
fin: side_fin.* side_fin.*.001 chest_fin.Bot.* top_fin top_fin.001
fin: back_fin.T.Bk back_fin.T.00{1-2}.Bk back_fin.T.Bk.001 back_fin.B.Bk back_fin.B.001.Bk back_fin.B.Bk.001
-: root hips chest jaw.master
"""

# ---------------------------------------------------------------- no bodies

CHAINS = """
sides L/R
tail|head: Bone Bone.007 Bone.006 Bone.013
spine: Bone.00{1-5} Bone.00{8-9} Bone.01{0-2}
-: Bone.006_end Bone.013_end
"""
NOTHING = "sides L/R"
"""Props, and bones that do not hang on each other: nothing that could be posed by effectors."""

_FIVE = "{index,middle,ring,pinky,thumb}"
RIGS: Final[Mapping[str, str]] = {
    "*/cmu1_jumping_jacks.bvh": CMU_MOTIONBUILDER,
    "*/cmu_14_14.bvh": CMU_MOTIONBUILDER,
    "*/fair1_*.bvh": FAIR,
    "*/cmu_01_01.bvh": CMU,
    "*/cmu_02_02_daz.bvh": DAZ,
    "*/cmu_10_01_daz.bvh": CMU_DAZ_OLD,
    "*/humanoid3d_*.bvh": DEEPMIMIC,
    "*/makehuman_cc0/benchmark.bvh": MAKEHUMAN,
    "*/makehuman_cc0/tpose.bvh": MAKEHUMAN,
    "*/makehuman_cc0/*.bvh": MAKEHUMAN_CLIP,
    "*/animation_with_skeleton.fbx": CHAINS,
    "*/quad_skin.glb": NOTHING,
    "*/simple_skin.gltf": NOTHING,
    "*/RiggedSimple.gltf": NOTHING,
    "*/webxr_hand_mit/left.glb": NOTHING,
    "*/cmu_fbx_rancidmilk/*": DAZ,
    "*/geno/*": GENO,
    "*/manny_med_mod.gltf": KAYKIT,
    "*/kaykit_cc0/Med_*": KAYKIT + "-: handslot.*\n",
    "*/bird-animations.glb": BIRD,
    "*/rig-bird.glb": BIRD,
    "*/dragon-animations.glb": DRAGON,
    "*/rig-dragon.glb": DRAGON,
    "*/fox-animations.glb": FOX.replace("{NOSE}", "Nose "),
    "*/rig-fox.glb": FOX.replace("{NOSE}", "Nose "),
    "*/fox-*.glb": FOX.replace("{NOSE}", ""),
    "*/horse-animations.glb": HORSE,
    "*/rig-horse.glb": HORSE,
    "*/shark-animations.glb": SHARK,
    "*/rig-shark.glb": SHARK,
    "*/human-base-animations_91abd9b.glb": DEFORM,
    "*/human-zombie.glb": UNREAL.replace("{FINGERS}", "{index,thumb}"),
    "*/human-*.glb": UNREAL.replace("{FINGERS}", _FIVE),
    "*/rig-human.glb": UNREAL.replace("{FINGERS}", _FIVE),
    "metarig: basic human": BASIC_HUMAN,
    "metarig: human": HUMAN,
    "metarig: basic quadruped": BASIC_QUADRUPED,
    "metarig: wolf": WOLF,
    "metarig: horse": HORSE_METARIG,
    "metarig: bird": BIRD_METARIG,
    "metarig: cat": CAT_METARIG,
    "metarig: shark": SHARK_METARIG,
    "generated: basic human": BASIC_HUMAN_RIG,
    "generated: human": HUMAN_RIG,
    "generated: basic quadruped": BASIC_QUADRUPED_RIG,
    "generated: wolf": WOLF_RIG,
    "generated: horse": HORSE_RIG,
    "generated: bird": BIRD_RIG,
    "generated: cat": CAT_RIG,
    "generated: shark": SHARK_RIG,
}
"""Rig, as a pattern of its name -> its truth; the first that fits counts."""

# SPDX-License-Identifier: GPL-3.0-or-later
"""What bodies have in common: roles of their bones, ranges and stiffness of their joints, masses.

    Skeleton ─ roles.recognise ─▶ Character ─ role_edits.rows_of ─▶ table of roles, which a user may change
    table ─ role_edits.revised ─▶ Character ─ ranges.joint_defaults ─▶ limits, stiffness, preferred angles
    table ─ anthropometry.body_masses ─▶ masses;  Skin ─ volumes.bone_volumes ─▶ masses by volume

    Character ─ anatomy.anatomical_joints ─▶ axes of the bones;  with recorded.RECORDED ─ preferences ─▶
    stiffness by role, angles of a natural pose

Read in this order: `roles` (which bone is which part), `role_edits` (roles that a user has changed),
`limit_boxes` (anatomical movements as channels), `anatomy`, `recorded` and `preferences` (how recorded motion
turns the parts of a body, and what joints prefer for that), `ranges` and `digits` (published ranges of
joints), `anthropometry` and `volumes` (masses of the parts, by tables or by shape).
"""

from .anatomy import AnatomicalJoint, anatomical_joints
from .anthropometry import BodyMasses, body_masses
from .digits import Digit, digits
from .feet import FootAngles, Sole
from .preferences import natural_pose
from .ranges import ANIMALS, AnimalRanges, JointDefaults, joint_defaults
from .recorded import RECORDED, Turns
from .role_edits import RoleRow, revised, rows_of
from .roles import (
    Bend,
    Body,
    Character,
    Choice,
    Figure,
    Hints,
    LeftOut,
    Limb,
    LimbKind,
    Role,
    Side,
    recognise,
)
from .volumes import BoneVolumes, Skin, bone_volumes

__all__ = [
    "ANIMALS",
    "RECORDED",
    "AnatomicalJoint",
    "AnimalRanges",
    "Bend",
    "Body",
    "BodyMasses",
    "BoneVolumes",
    "Character",
    "Choice",
    "Digit",
    "Figure",
    "FootAngles",
    "Hints",
    "JointDefaults",
    "LeftOut",
    "Limb",
    "LimbKind",
    "Role",
    "RoleRow",
    "Side",
    "Skin",
    "Sole",
    "Turns",
    "anatomical_joints",
    "body_masses",
    "bone_volumes",
    "digits",
    "joint_defaults",
    "natural_pose",
    "recognise",
    "revised",
    "rows_of",
]

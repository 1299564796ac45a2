# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles of joints: what a skeleton is a skeleton of, from its names, from its shape where they are silent.

character = recognise(skeleton)
character.role_of("LeftArm")            # Role.UPPER_ARM
character.limbs_of(LimbKind.LEG)        # left and right, from the thigh to the foot
character.left_out, character.notes     # why a bone has no role, what the user should know

Read in this order: `character` (the data), `names` (what a name says), `structure` (joints as a tree,
figures, mirror planes), `limbs` (by names), `shapes` (limbs without names), `trunk` (between them),
`recognition` (all of it in order).
"""

from .character import Bend, Body, Character, Choice, Figure, Hints, LeftOut, Limb, LimbKind, Role, Side
from .recognition import recognise

__all__ = [
    "Bend",
    "Body",
    "Character",
    "Choice",
    "Figure",
    "Hints",
    "LeftOut",
    "Limb",
    "LimbKind",
    "Role",
    "Side",
    "recognise",
]

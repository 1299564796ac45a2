# SPDX-License-Identifier: GPL-3.0-or-later
# A property is declared once for Blender and once, under TYPE_CHECKING, with its type.
# pyright: reportRedeclaration=false
"""What Poise holds of the bones of an armature: limits, stiffness, preferred angles, and roles.

An entry for a bone says all of it: where there is one, the bone's own IK limits and stiffness do not count.
"""

from math import pi
from typing import TYPE_CHECKING, Any, Final

from bpy.props import (
    BoolProperty,
    BoolVectorProperty,
    EnumProperty,
    FloatProperty,
    FloatVectorProperty,
    IntProperty,
    StringProperty,
)
from bpy.types import PropertyGroup

from ...core.character.roles import Role, Side
from ...core.model.euler import EULER_ORDERS

OVERRIDE: Final[set[Any]] = {'LIBRARY_OVERRIDABLE'}

STIFFEST: Final = 0.99
"""Largest stiffness [1]; Blender's IK allows as much, and at 1 a channel would not move at all."""

ORDER_ITEMS: Final = (
    ('AUTO', "Automatic", "That of the bone; in quaternion and axis-angle mode one that fits the limits"),
    *((order, order, f"The angles of the limits are those of {order} Euler") for order in EULER_ORDERS),
)
"""Orders in which the limits of a bone are meant that has none of its own."""

_NONE: Final = ('NONE', "None", "No part of the body: no target, no limits", 0)

ROLE_ITEMS: Final = (
    _NONE,
    *(
        (role.name, role.value.title(), f"The joint is that of the {role}", number)
        for number, role in enumerate(Role, start=1)
    ),
)
"""Roles of joints; their numbers are in files, new roles come last."""

SIDE_ITEMS: Final = (
    ('CENTRE', "Centre", "In the middle of the body", 0),
    ('LEFT', "Left", "On the body's own left", 1),
    ('RIGHT', "Right", "On the body's own right", 2),
)

SIDES: Final = {'CENTRE': Side.CENTRE, 'LEFT': Side.LEFT, 'RIGHT': Side.RIGHT}


class POISE_PG_joint(PropertyGroup):
    """How far one bone may turn, how willingly, and where it likes to be."""

    name: StringProperty(
        name="Bone",
        description="Name of the bone",
        override=OVERRIDE,
    )
    use_limit: BoolVectorProperty(
        name="Limit",
        description="The bone turns about this axis only within its limits",
        size=3,
        subtype='XYZ',
        override=OVERRIDE,
    )
    lower: FloatVectorProperty(
        name="Lower Limits",
        description="Least angle of each rotation channel",
        size=3,
        subtype='EULER',
        unit='ROTATION',
        default=(-pi, -pi, -pi),
        override=OVERRIDE,
    )
    upper: FloatVectorProperty(
        name="Upper Limits",
        description="Largest angle of each rotation channel",
        size=3,
        subtype='EULER',
        unit='ROTATION',
        default=(pi, pi, pi),
        override=OVERRIDE,
    )
    stiffness: FloatVectorProperty(
        name="Stiffness",
        description="How unwilling the bone is to turn away from its preferred angles. Towards 1 it leaves "
        "the turning to its neighbours, as long as they can do it",
        size=3,
        subtype='XYZ',
        min=0.0,
        max=STIFFEST,
        override=OVERRIDE,
    )
    preferred: FloatVectorProperty(
        name="Preferred Angle",
        description="The angle about this axis that the bone has when no target asks for another",
        size=3,
        subtype='EULER',
        unit='ROTATION',
        override=OVERRIDE,
    )
    order: EnumProperty(
        name="Order",
        description="Which Euler angles are limited, where the bone's own rotation mode has none",
        items=ORDER_ITEMS,
        default='AUTO',
        override=OVERRIDE,
    )
    is_held: BoolProperty(
        name="Held",
        description="The bone is not solved: it keeps its pose, as twist and helper bones should",
        default=False,
        override=OVERRIDE,
    )
    may_move: BoolProperty(
        name="May Move",
        description="The bone may change its location, as hips below a root bone should",
        default=False,
        override=OVERRIDE,
    )
    source: StringProperty(
        name="Source",
        description="Where the limits come from",
        override=OVERRIDE,
    )

    if TYPE_CHECKING:
        name: str
        use_limit: tuple[bool, bool, bool]
        lower: tuple[float, float, float]
        upper: tuple[float, float, float]
        stiffness: tuple[float, float, float]
        preferred: tuple[float, float, float]
        order: str
        is_held: bool
        may_move: bool
        source: str


class POISE_PG_mass(PropertyGroup):
    """What one bone weighs."""

    name: StringProperty(
        name="Bone",
        description="Name of the bone",
        override=OVERRIDE,
    )
    mass: FloatProperty(
        name="Mass",
        description="What the bone weighs, with the flesh round it",
        default=1.0,
        min=0.0,
        soft_max=100.0,
        unit='MASS',
        override=OVERRIDE,
    )

    if TYPE_CHECKING:
        name: str
        mass: float


class POISE_PG_mesh_mass(PropertyGroup):
    """What of a body's meshes goes with one bone, as it was measured."""

    name: StringProperty(
        name="Bone",
        description="Name of the bone",
        override=OVERRIDE,
    )
    share: FloatProperty(
        name="Share",
        description="Part of the body's volume that goes with the bone",
        min=0.0,
        max=1.0,
        override=OVERRIDE,
    )
    centre: FloatVectorProperty(
        name="Centre",
        description="Where it is, in the bone's own axes",
        size=3,
        subtype='XYZ',
        unit='LENGTH',
        override=OVERRIDE,
    )

    if TYPE_CHECKING:
        name: str
        share: float
        centre: tuple[float, float, float]


class POISE_PG_role(PropertyGroup):
    """What one bone is in the body: a row of the table of roles."""

    name: StringProperty(
        name="Recognised Bone",
        description="The bone that was recognised; empty in a row that was added by hand",
        override=OVERRIDE,
    )
    bone: StringProperty(
        name="Bone",
        description="The bone that has the role",
        override=OVERRIDE,
    )
    role: EnumProperty(
        name="Role",
        description="What the bone is in the body",
        items=ROLE_ITEMS,
        default='NONE',
        override=OVERRIDE,
    )
    side: EnumProperty(
        name="Side",
        description="Side of the body, as the figure itself would say",
        items=SIDE_ITEMS,
        default='CENTRE',
        override=OVERRIDE,
    )
    figure: IntProperty(
        name="Figure",
        description="Which of several figures in one armature, counted from 0",
        default=0,
        min=0,
        override=OVERRIDE,
    )
    confidence: FloatProperty(
        name="Confidence",
        description="How certain the recognition is; below 0.5 it is a guess",
        default=1.0,
        min=0.0,
        max=1.0,
        subtype='FACTOR',
        override=OVERRIDE,
    )
    reason: StringProperty(
        name="Reason",
        description="Why the bone was taken for this",
        override=OVERRIDE,
    )

    if TYPE_CHECKING:
        name: str
        bone: str
        role: str
        side: str
        figure: int
        confidence: float
        reason: str


CLASSES: Final = (POISE_PG_joint, POISE_PG_mass, POISE_PG_mesh_mass, POISE_PG_role)

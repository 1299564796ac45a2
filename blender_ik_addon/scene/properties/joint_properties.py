# SPDX-License-Identifier: GPL-3.0-or-later
# A property is declared once for Blender and once, under TYPE_CHECKING, with its type.
# pyright: reportRedeclaration=false
"""What Poise holds of the bones of an armature: limits, stiffness, preferred angles, and roles.

An entry for a bone says all of it: where there is one, the bone's own IK limits and stiffness do not count.
"""

from math import pi
from typing import TYPE_CHECKING, Final

from bpy.types import PropertyGroup

from ...core.character.roles import Role, Side
from ...core.model.euler import EULER_ORDERS
from .declared import angles, axes, choice, flag, number, numbers, text, whole

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
    """Limits, stiffness and preferred angles of one bone."""

    name: text("Bone", "Name of the bone")
    use_limit: axes("Limit", "The bone turns about this axis only within its limits")
    lower: angles("Lower Limits", "Smallest angle of each rotation channel", default=(-pi, -pi, -pi))
    upper: angles("Upper Limits", "Largest angle of each rotation channel", default=(pi, pi, pi))
    stiffness: numbers(
        "Stiffness",
        "How much the bone resists turning away from its preferred angle. Near 1 its neighbours turn "
        "instead, as far as they can",
        size=3,
        subtype='XYZ',
        min=0.0,
        max=STIFFEST,
    )
    preferred: angles(
        "Preferred Angle", "The angle about this axis that the bone has if no target needs another"
    )
    order: choice(
        "Order",
        "Euler order of the limits of a bone in quaternion or axis-angle mode",
        items=ORDER_ITEMS,
        default='AUTO',
    )
    is_held: flag("Held", "The bone is not solved and keeps its pose, such as a twist or helper bone")
    may_move: flag("May Move", "The bone may change its location, such as hips below a root bone")
    source: text("Source", "Where the limits come from")

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
    """The mass of one bone, set by hand."""

    name: text("Bone", "Name of the bone")
    mass: number(
        "Mass",
        "Mass of the bone with the flesh around it",
        default=1.0,
        min=0.0,
        soft_max=100.0,
        unit='MASS',
    )

    if TYPE_CHECKING:
        name: str
        mass: float


class POISE_PG_mesh_mass(PropertyGroup):
    """The part of the meshes that one bone carries, as measured."""

    name: text("Bone", "Name of the bone")
    share: number("Share", "Part of the volume of the meshes that the bone carries", min=0.0, max=1.0)
    centre: numbers("Centre", "Its centre, in the bone's own axes", size=3, subtype='XYZ', unit='LENGTH')

    if TYPE_CHECKING:
        name: str
        share: float
        centre: tuple[float, float, float]


class POISE_PG_role(PropertyGroup):
    """What one bone is in the body: a row of the table of roles."""

    name: text("Recognised Bone", "The bone that was recognised; empty in a row that was added by hand")
    bone: text("Bone", "The bone that has the role")
    role: choice("Role", "What the bone is in the body", items=ROLE_ITEMS, default='NONE')
    side: choice("Side", "Side of the body, from the figure's own view", items=SIDE_ITEMS, default='CENTRE')
    figure: whole("Figure", "Number of the figure in the armature, from 0", min=0)
    confidence: number(
        "Confidence",
        "How certain the role is; below 0.5 it is a guess",
        default=1.0,
        min=0.0,
        max=1.0,
        subtype='FACTOR',
    )
    reason: text("Reason", "Why the bone has this role")

    if TYPE_CHECKING:
        name: str
        bone: str
        role: str
        side: str
        figure: int
        confidence: float
        reason: str


CLASSES: Final = (POISE_PG_joint, POISE_PG_mass, POISE_PG_mesh_mass, POISE_PG_role)

# SPDX-License-Identifier: GPL-3.0-or-later
"""What Poise holds of the bones of an armature: limits, stiffness, preferred angles, and roles.

An entry for a bone says all of it: where there is one, the bone's own IK limits and stiffness do not count.
"""

from math import pi
from typing import Final

from bpy.types import PropertyGroup

from ...core.character.roles import Role, Side
from ...core.messages import Message
from ...core.model.rotation import EULER_ORDERS
from .declared import Declared, Flags3, Vector3, angles, axes, enum, flag, number, numbers, text, whole

STIFFEST: Final = 0.99
"""Largest stiffness [1]; Blender's IK allows as much, and at 1 a channel would not move at all."""

ORDER_ITEMS: Final = (
    ('AUTO', "Automatic", "That of the bone; in quaternion and axis-angle mode one that fits the limits"),
    *(
        (order, order, Message("The angles of the limits are those of {order} Euler", order=order))
        for order in EULER_ORDERS
    ),
)
"""Orders in which the limits of a bone are meant that has none of its own."""

_NONE: Final = ('NONE', "None", "No part of the body: no target, no limits", 0)

ROLE_ITEMS: Final = (
    _NONE,
    *(
        (role.name, role.value.title(), Message("The joint is that of the {role}", role=role), number)
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


class POISE_PG_joint(Declared, PropertyGroup):
    """Limits, stiffness and preferred angles of one bone."""

    name: str = text("Bone")("Name of the bone")
    use_limit: Flags3 = axes("Limit")("The bone turns about this axis only within its limits")
    lower: Vector3 = angles("Lower Limits", default=(-pi, -pi, -pi))(
        "Smallest angle of each rotation channel"
    )
    upper: Vector3 = angles("Upper Limits", default=(pi, pi, pi))("Largest angle of each rotation channel")
    stiffness: Vector3 = numbers("Stiffness", size=3, subtype='XYZ', min=0.0, max=STIFFEST)(
        "How much the bone resists turning away from its preferred angle. Near 1 its neighbours turn "
        "instead, as far as they can"
    )
    preferred: Vector3 = angles("Preferred Angle")(
        "The angle about this axis that the bone has if no target needs another"
    )
    order: str = enum("Order", items=ORDER_ITEMS, default='AUTO')(
        "Euler order of the limits of a bone in quaternion or axis-angle mode"
    )
    is_held: bool = flag("Held")("The bone is not solved and keeps its pose, such as a twist or helper bone")
    may_move: bool = flag("May Move")("The bone may change its location, such as hips below a root bone")
    source: str = text("Source")("Where the limits come from")


class POISE_PG_mass(Declared, PropertyGroup):
    """The mass of one bone, set by hand."""

    name: str = text("Bone")("Name of the bone")
    mass: float = number("Mass", default=1.0, min=0.0, soft_max=100.0, unit='MASS')(
        "Mass of the bone with the flesh around it"
    )


class POISE_PG_mesh_mass(Declared, PropertyGroup):
    """The part of the meshes that one bone carries, as measured."""

    name: str = text("Bone")("Name of the bone")
    share: float = number("Share", min=0.0, max=1.0)("Part of the volume of the meshes that the bone carries")
    centre: Vector3 = numbers("Centre", size=3, subtype='XYZ', unit='LENGTH')(
        "Its centre, in the bone's own axes"
    )


class POISE_PG_role(Declared, PropertyGroup):
    """What one bone is in the body: a row of the table of roles."""

    name: str = text("Recognised Bone")("The bone that was recognised; empty in a row that was added by hand")
    bone: str = text("Bone")("The bone that has the role")
    role: str = enum("Role", items=ROLE_ITEMS, default='NONE')("What the bone is in the body")
    side: str = enum("Side", items=SIDE_ITEMS, default='CENTRE')(
        "Side of the body, from the figure's own view"
    )
    figure: int = whole("Figure", min=0)("Number of the figure in the armature, from 0")
    confidence: float = number("Confidence", default=1.0, min=0.0, max=1.0, subtype='FACTOR')(
        "How certain the role is; below 0.5 it is a guess"
    )
    reason: str = text("Reason")("Why the bone has this role")


CLASSES: Final = (POISE_PG_joint, POISE_PG_mass, POISE_PG_mesh_mass, POISE_PG_role)

# SPDX-License-Identifier: GPL-3.0-or-later
"""All lasting state of the add-on: `Object.poise` on the armature object, its effectors and bones.

Lengths are metres and angles are radians, as Blender stores them. No property does any work when it changes.
Every property can be overridden, so that a character linked from another file can carry effectors, see
`overrides` for how that is kept.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import pi, radians
from typing import TYPE_CHECKING, Any, Final

import bpy
import numpy as np
from bpy.types import Action, Object, PropertyGroup

from ...core.arrays import Vector3
from ...core.character.roles import Role, Side
from ...core.errors import IKError
from ...core.messages import Message
from ...core.model.rotation import EULER_ORDERS
from ...core.problem.options import METHODS, USED_BY, SolverOptions
from ..kinds.kinds import KINDS
from .declared import (
    Declared,
    Flags3,
    angle,
    angles,
    axes,
    entries,
    enum,
    flag,
    length,
    link,
    number,
    numbers,
    offset,
    text,
    whole,
    wholes,
)

if TYPE_CHECKING:
    from bpy.types import bpy_prop_collection_idprop as Entries  # noqa: N812

EXTENSION: Final = __name__.removesuffix(".scene.properties.settings")
"""Under which name Blender knows the add-on: that of an extension has its repository before it."""

SETTINGS_PATH: Final = "poise."
"""How data paths of settings begin, from the armature object."""
EFFECTORS_PATH: Final = f"{SETTINGS_PATH}effectors"
"""Data path of the list of effectors."""


def effector_path(row: int, name: str) -> str:
    """Return the data path of a property of the effector at a place in the list."""
    return f"{EFFECTORS_PATH}[{row}].{name}"


_METHOD_LABELS = {
    'DLS': "Damped Least Squares",
    'SDLS': "Selectively Damped Least Squares",
    'PSEUDO_INVERSE': "Pseudo-Inverse",
}

METHOD_ITEMS = tuple(
    (name, _METHOD_LABELS.get(name, name.replace("_", " ").title()), description.rstrip("."))
    for name, description in METHODS.items()
)


SOLVE_MARGIN: Final = 0.5
"""Part of the user's tolerance [1] to which is solved: Blender holds poses in single precision."""


def settings_of(armature_object: Object) -> "POISE_PG_armature":
    """Give `armature_object.poise` with its type, which Blender's stubs cannot know.

    Raises:
        IKError: The add-on is not registered, as in a script that has only imported it.
    """
    try:
        return armature_object.poise  # pyright: ignore[reportAttributeAccessIssue]
    except AttributeError:
        check_object(armature_object)
        if hasattr(Object, "poise"):
            raise
        raise IKError(
            "Poise is not registered in this Blender, so {armature!r} has no settings of it: call "
            "{extension}.register() once, before anything else of Poise",
            armature=armature_object.name,
            extension=EXTENSION,
        ) from None


def armatures_in(objects: Iterable[Object | None]) -> Iterator[Object]:
    """Give the armature objects of a list, which has None for an object that has just been deleted."""
    return (found for found in objects if found is not None and found.type == 'ARMATURE')


def check_object(given: object) -> None:
    """Refuse what is no object, as a name (IKError)."""
    if not isinstance(given, Object):
        raise IKError("an object is needed, got {given!r}: bpy.data.objects has them by name", given=given)


def check_editable(armature_object: Object | None) -> None:
    """Refuse what can have no settings that last (IKError: no object, not an armature, or linked)."""
    if armature_object is None:
        raise IKError("no armature object is given: select an armature")
    check_object(armature_object)
    name = armature_object.name
    if armature_object.type != 'ARMATURE':
        raise IKError(
            "object {name!r} is of type {type}, not an armature", name=name, type=armature_object.type
        )
    override = armature_object.override_library
    if override is not None and override.is_system_override:
        raise IKError(
            "the library override of {name!r} is not editable: make it editable (Object > Library Override)",
            name=name,
        )
    if not armature_object.is_editable:
        library, origin = armature_object.library, Message("linked")
        if library is not None:
            origin = Message("linked from {file}", file=library.filepath)
        raise IKError(
            "armature {name!r} is {origin} and cannot be posed: make a library override of it "
            "(Object > Library Override > Make)",
            name=name,
            origin=origin,
        )


# Bones. An entry says all of its bone: where there is one, the bone's own IK limits do not count.

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
    noted_rest: tuple[float, ...] = numbers("Noted Rest", size=32, options={'HIDDEN'})(
        "Rest matrices of the bone and of its parent, with their lengths, from which the limits count; zeros "
        "without a parent"
    )


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


# Effectors

NOT_MEASURED = -1.0
"""The value of an effector's error before the first solve, or where its kind has no such error."""

KIND_ITEMS = tuple((name, *kind.item) for name, kind in KINDS.items())
"""Kinds of effectors, for the menu."""

AXIS_ITEMS = (
    ('POS_X', "X", "The bone's X axis"),
    ('POS_Y', "Y", "The bone's Y axis, from its head to its tail"),
    ('POS_Z', "Z", "The bone's Z axis"),
    ('NEG_X', "-X", "Against the bone's X axis"),
    ('NEG_Y', "-Y", "Against the bone's Y axis"),
    ('NEG_Z', "-Z", "Against the bone's Z axis"),
)

CHOICE_ITEMS = tuple(
    (name, kind.item[0], *kind.choice_item) for name, kind in KINDS.items() if kind.choice_item
)
"""What the bone does with the one of several targets that it takes."""

STAY_ITEMS = (
    ('REST', "Rest Pose", "The rest pose"),
    ('PRESENT', "Present Pose", "The pose before the solve; in a bake that of each frame"),
    ('STORED', "Stored Pose", "The pose that was stored with Store Pose"),
)

SCOPE_ITEMS = (
    ('BRANCH', "Bone and Below", "The bone and all bones below it"),
    ('BODY', "Whole Body", "All bones of the armature"),
)

STATE_ITEMS = (
    ('PIN', "Pin", "The bone is held where it is, before others of its priority reach", 'PINNED', 0),
    ('REACH', "Reach", "The bone goes to its target, by its influence", 'CON_FOLLOWTRACK', 1),
    ('FOLLOW', "Follow", "The bone goes along with the body, weakly held where it is", 'LINKED', 2),
    ('OFF', "Off", "The effector has no effect; its target stays", 'HIDE_ON', 3),
)
"""States of an effector, for the menu; the numbers are in files."""

FOOT_ANGLES = ("roll", "bank", "pivot_heel", "pivot_ball", "pivot_toe")
"""What is set of a foot that rolls; the same on both sides, as outwards is above 0."""

FOOT_POINTS = ("heel_point", "ball_point", "tip_point")
"""Where the foot of an effector touches the floor, in the axes of its bone."""

SOLE_AXES = ("sole_up", "sole_out")
"""Directions of its sole, likewise."""

SIDELESS = (
    "kind",
    "priority",
    "weight",
    "softness_position",
    "softness_rotation",
    "enabled",
    "position_axes",
    "orientation_axes",
    "influence",
    "chain_depth",
    "height",
    "distance",
    "is_support",
    "stay",
    "choice",
    "stay_scope",
    "rolls",
    *FOOT_ANGLES,
)
"""Settings of an effector that are the same on both sides of a body: no name, bone, target, point or axis."""

FURTHER_BONES = ("root_bone", "tip_bone", "other_bone")
"""Settings of an effector that name bones besides its own."""


def _may_be_target(owner: "POISE_PG_effector | POISE_PG_target", candidate: Object) -> bool:
    """Offer every object but the armature that would follow itself."""
    return candidate != owner.id_data


def plain(value: Any) -> Any:
    """Copy the value of a property, as JSON can hold it; the numbers of a vector or matrix in a row."""
    several = hasattr(value, "__len__") and not isinstance(value, str)
    return np.ravel(value).tolist() if several else value


def _is_enabled(effector: "POISE_PG_effector") -> bool:
    """Whether an effector takes part."""
    return effector.state != 'OFF'


def _enable(effector: "POISE_PG_effector", on: bool) -> None:
    """Switch an effector off, or back to the state that it had."""
    if on and effector.state == 'OFF':
        effector.state = effector.resumes
    elif not on and effector.state != 'OFF':
        effector.resumes, effector.state = effector.state, 'OFF'


class POISE_PG_stored_bone(Declared, PropertyGroup):
    """Where one bone is against its rest pose, in a stored pose."""

    name: str = text("Bone")("Name of the bone")
    location: Vector3 = offset("Location")("Offset from the rest pose")
    rotation: tuple[float, float, float, float] = numbers(
        "Rotation", size=4, subtype='QUATERNION', default=(1.0, 0.0, 0.0, 0.0)
    )("Turn from the rest pose, whatever the rotation mode of the bone")


class POISE_PG_target(Declared, PropertyGroup):
    """A further target of an effector that takes one of several."""

    target: Object | None = link("Target", type=Object, poll=_may_be_target)(
        "The object that the bone may follow, usually an empty"
    )
    target_bone: str = text("Target Bone")(
        "The bone of the target armature to follow; without one, the armature object is followed"
    )


class POISE_PG_effector(Declared, PropertyGroup):
    """A goal for one bone, and how important it is."""

    name: str = text("Name")("Name of the effector in the list and in reports")
    bone: str = text("Bone")("The bone that follows the target")
    contact: bool = flag("Contact")(
        "The bone is planted, on the floor or on the contact object. Its keys say from when to when; Find "
        "Contacts sets them, Lock Contacts lets the target rest meanwhile"
    )
    contact_toe: bool = flag("Toe Contact")(
        "The toes are planted: where only they are, the foot rolls over them and the heel rises as recorded"
    )
    contact_object: Object | None = link("Contact Object", type=Object, poll=_may_be_target)(
        "A thing, perhaps moving, that the bone is in contact with; empty for the floor"
    )
    contact_path: Action | None = link("Path", type=Action, options={'HIDDEN'})(
        "Keys of the target before its contacts were locked"
    )
    contact_keys: str = text("Locked Keys", options={'HIDDEN'})(
        "Digest of the keys of the target as locking left them; others were changed since"
    )
    part: str = text("Part")("Part of the body that Set Up Character made it for; empty if made by hand")
    kind: str = enum("Kind", items=KIND_ITEMS, default='BOTH')("What the bone does with its target")
    target: Object | None = link("Target", type=Object, poll=_may_be_target)(
        "The object that the bone follows, usually an empty"
    )
    target_bone: str = text("Target Bone")(
        "The bone of the target armature to follow; without one, the armature object is followed"
    )
    priority: int = whole("Priority", min=0, soft_max=9)(
        "0 is the highest priority; a higher number never takes anything from a lower one"
    )
    weight: float = number("Weight", default=1.0, min=0.0, soft_max=10.0)(
        "How much this effector counts among those of the same priority"
    )
    softness_position: float = length("Softness", min=0.0, soft_max=0.1, step=0.1, precision=3)(
        "How far the target may be missed where joints would otherwise turn a radian away from their "
        "preferred pose, or the motion would jerk. For noisy targets and motion-capture markers. 0 is "
        "exact. Only the method Priority uses it"
    )
    softness_rotation: float = angle("Softness Angle", min=0.0, soft_max=pi)(
        "How far the orientation or direction may be missed where joints would otherwise turn a radian "
        "away from their preferred pose, or the motion would jerk. 0 is exact. Only the method Priority "
        "uses it"
    )
    state: str = enum("State", items=STATE_ITEMS, default='REACH')(
        "What the bone does: it is held where it is, goes to its target, or goes along with the body"
    )
    resumes: str = enum("Resumes", items=STATE_ITEMS[:3], default='REACH', options={'HIDDEN'})(
        "The state that the effector had before it was switched off"
    )
    enabled: bool = flag("Enabled", default=True, get=_is_enabled, set=_enable)(
        "Use this effector when solving: its state is not Off"
    )
    point: Vector3 = offset("Point")("The point of the bone that is used, from its head along its own axes")
    position_axes: Flags3 = axes("Position Axes", default=(True, True, True))(
        "World axes along which the point follows the target"
    )
    orientation_axes: Flags3 = axes("Orientation Axes", default=(True, True, True))(
        "Axes of the target about which the bone turns with it"
    )
    influence: float = number("Influence", default=1.0, min=0.0, max=1.0, subtype='FACTOR')(
        "How far the bone goes from its place before the solve to its target; at 0 the effector has no "
        "effect. Can be animated"
    )
    chain_depth: int = whole("Chain Depth", min=0, soft_max=20)(
        "How many bones may move for this effector, from its own bone up to the root; 0 for all. A bone "
        "that is in no chain of an enabled effector keeps its pose"
    )
    axis: str = enum("Axis", items=AXIS_ITEMS, default='POS_Y')("Axis of the bone that points at the target")
    height: float = length("Height")(
        "Height of the point above the plane, such as the thickness of a sole. Can be animated"
    )
    distance: float = length("Distance", min=0.0)(
        "Distance of the point from the target, in the world. Can be animated"
    )
    other_bone: str = text("Other Bone")(
        "Bone of the same armature to keep the distance from, instead of a target"
    )
    other_point: Vector3 = offset("Other Point")(
        "The point of the other bone that is used, from its head along its own axes"
    )
    root_bone: str = text("Limb Root")(
        "First bone of the limb, such as the upper arm; empty for the parent of the bone"
    )
    tip_bone: str = text("Limb Tip")(
        "The limb ends at the head of this bone, such as the hand; empty for the child at the bone's tail"
    )
    is_support: bool = flag("Support")(
        "The body stands on this, for Balance effectors without a target. If no effector is marked, the "
        "body stands on the bones that are named as feet"
    )
    stay: str = enum("Near", items=STAY_ITEMS, default='REST')("The pose that bones stay near")
    stay_scope: str = enum("Bones", items=SCOPE_ITEMS, default='BRANCH')("The bones that stay near the pose")
    stored: "Entries[POISE_PG_stored_bone]" = entries("Stored Pose", type=POISE_PG_stored_bone)(
        "Bones of the stored pose"
    )
    rolls: bool = flag("Foot Roll")(
        "The target is that of a whole foot, which rolls over heel, ball and toes without sinking into the "
        "floor"
    )
    roll: float = angle("Roll", soft_min=-pi / 2, soft_max=pi / 2)(
        "Below 0 the foot rolls back over the heel, above 0 over the ball, and from 45 degrees on over the "
        "tip of the toes"
    )
    bank: float = angle("Bank", soft_min=-pi / 2, soft_max=pi / 2)(
        "Above 0 the foot tilts over its outer edge, below 0 over the inner one"
    )
    pivot_heel: float = angle("Heel", soft_min=-pi, soft_max=pi)(
        "Turn on the floor about the heel, above 0 outwards"
    )
    pivot_ball: float = angle("Ball", soft_min=-pi, soft_max=pi)("The same about the ball")
    pivot_toe: float = angle("Toe", soft_min=-pi, soft_max=pi)("The same about the tip of the toes")
    toe_bone: str = text("Toe Bone")(
        "The bone that bends where the foot rolls over the ball; without one it rolls over its tip"
    )
    heel_point: Vector3 = offset("Heel Point")("Where the heel is, from the bone's head along its own axes")
    ball_point: Vector3 = offset("Ball Point")("Where the joint of the toes is, likewise")
    tip_point: Vector3 = offset("Tip Point")("Where the tip of the toes is, likewise")
    sole_up: Vector3 = numbers("Sole Up", size=3, options={'HIDDEN'})(
        "Direction away from the floor in the bone's own axes, at rest"
    )
    sole_out: Vector3 = numbers("Sole Out", size=3, options={'HIDDEN'})(
        "Direction towards the outer edge of the foot, likewise"
    )
    choice: str = enum("What", items=CHOICE_ITEMS, default='POSITION')(
        "What the bone does with the target that it takes"
    )
    others: "Entries[POISE_PG_target]" = entries("Further Targets", type=POISE_PG_target)(
        "Further targets; the bone takes one of all"
    )
    taken: str = text("Taken")("The target that the bone took in the last solve or bake")
    pin_matrix: tuple[float, ...] = numbers("Pin Matrix", size=16)(
        "Matrix of the bone in armature space where it is held, row by row; zeros before it was held"
    )
    anchors: str = text("Anchors", options={'HIDDEN'})(
        "Where the bone is held that follows, and what carried it then: as it was left last, and at keys of "
        "its target"
    )
    placed: tuple[float, ...] = numbers("Placed", size=16, options={'HIDDEN'})(
        "Matrix of the target's own channels where Poise has placed it, row by row: one that is elsewhere "
        "was moved by somebody else; zeros before it was placed"
    )
    placed_inverse: tuple[float, ...] = numbers("Placed Inverse", size=16, options={'HIDDEN'})(
        "Parent inverse of the target then, row by row"
    )
    noted_rest: tuple[float, ...] = numbers("Noted Rest", size=32, options={'HIDDEN'})(
        "Rest matrices of the bone and of another one, with their lengths, when it was noted where the bone "
        "is held; zeros before"
    )
    error_position: float = length("Position Error", default=NOT_MEASURED)(
        "Distance from the target after the last solve; -1 if not measured"
    )
    error_rotation: float = angle("Orientation Error", default=NOT_MEASURED)(
        "Angle to the target after the last solve; -1 if not measured"
    )

    why: str = text("Why")("Why the target was missed in the last solve or bake")

    @property
    def pinned(self) -> bool:
        """Whether the state is Pin; to set it pins the bone where it was pinned last, or else where it is."""
        return self.state == 'PIN'

    @pinned.setter
    def pinned(self, on: bool) -> None:
        if on != self.pinned:
            self.state, self.placed = 'PIN' if on else 'REACH', (0.0,) * 16


# The whole of an armature


def _live_switched(settings: "POISE_PG_armature", context: Any) -> None:
    """Mark that the body is to be solved at the next update."""
    settings.live_digests = (0,) * 16
    settings.live_problem = ""
    owner: Any = settings.id_data
    owner.update_tag()


RANGE_ITEMS: Final = (
    ('SCENE', "Scene", "From the start frame to the end frame of the scene"),
    ('PREVIEW', "Preview", "The preview range of the scene"),
    ('ACTION', "Action", "From the first to the last key of the armature's action"),
    ('KEYS', "Selected Keys", "From the first to the last selected key of the armature and its targets"),
    ('CUSTOM', "Custom", "From one frame to another"),
)
"""Ranges of a bake: identifiers, names and tooltips."""


TO_ITEMS: Final = (
    ('ACTION', "This Action", "The armature's own action and slot"),
    ('NEW', "New Action", "An action with the name, which takes the place of the armature's own one"),
    ('STRIP', "NLA Strip", "A strip with the name, over what else plays; it can be muted and baked again"),
)
"""Where keys of a bake go: identifiers, names and tooltips."""

BLEND_ITEMS: Final = (
    ('COMBINE', "Combine", "The strip turns and moves bones further than they are below"),
    ('ADD', "Add", "The strip adds to each channel"),
    ('REPLACE', "Replace", "The strip plays instead of what is below"),
)
"""How a strip plays over what is below it."""


BONES_ITEMS: Final = (
    ('ALL', "All", "All bones that the effectors move"),
    ('SELECTED', "Selected", "Those of them that are selected in Pose Mode; the others stay as they are"),
    ('LIMBS', "Limbs of Selected", "The limbs of the bones that are selected in Pose Mode"),
)
"""Which bones a bake moves: identifiers, names and tooltips."""

CHANNELS_ITEMS: Final = (
    ('BOTH', "Location and Rotation", "Both"),
    ('LOCATION', "Location", "Locations alone: rotations stay as they are"),
    ('ROTATION', "Rotation", "Rotations alone: locations stay as they are"),
)
"""Which channels of bones a bake moves: identifiers, names and tooltips."""


def _bakes_scene(settings: Any) -> bool:
    return settings.bake_range == 'SCENE'


def _bake_scene(settings: Any, whether: bool) -> None:
    settings.bake_range = 'SCENE' if whether else 'CUSTOM'


class POISE_PG_armature(Declared, PropertyGroup):
    """The effectors of one armature object, and how to solve and bake it."""

    version: int = whole("Settings Version", min=0, options={'HIDDEN'})(
        "Version of these settings in the file, see `versions`; 0 before there were any"
    )
    effectors: "Entries[POISE_PG_effector]" = entries("Effectors", type=POISE_PG_effector)(
        "Goals for the bones of this armature"
    )
    active_effector: int = whole("Active Effector", min=0)("The effector whose fields are shown")
    joints: "Entries[POISE_PG_joint]" = entries("Joints", type=POISE_PG_joint)(
        "Limits, stiffness and preferred angles of bones, in place of the bones' own"
    )
    masses: "Entries[POISE_PG_mass]" = entries("Masses", type=POISE_PG_mass)(
        "Masses of bones that are set by hand"
    )
    mass_source: str = enum(
        "Masses",
        items=(
            ('ROLES', "By Role", "Masses of human body parts, if the table of roles is that of a human"),
            ('LENGTHS', "By Length", "A body of one density that is thicker where its bones are longer"),
            ('MESHES', "By Mesh", "Volumes of the meshes that the bones carry, when last measured"),
        ),
        default='ROLES',
    )("Masses of bones that are not set by hand")
    mesh_masses: "Entries[POISE_PG_mesh_mass]" = entries("Mesh Masses", type=POISE_PG_mesh_mass)(
        "The part of the meshes that each bone carries, as measured"
    )
    mesh_volume: float = number("Mesh Volume", min=0.0, unit='VOLUME')("Volume of all meshes, as measured")
    body_mass: float = number("Body Mass", default=70.0, min=1e-3, soft_max=1000.0, unit='MASS')(
        "Mass of the whole body, for bones that are not set by hand"
    )
    roles: "Entries[POISE_PG_role]" = entries("Roles", type=POISE_PG_role)(
        "Roles of the bones, for Set Up Character"
    )
    active_role: int = whole("Active Role", min=0)("The row of the table of roles whose fields are shown")
    method: str = enum("Method", items=METHOD_ITEMS, default='PRIORITY')("How the pose is found")
    iterations: int = whole("Iterations", default=60, min=1, soft_max=500)(
        "Largest number of steps of one descent; if targets cannot all be met there are several descents"
    )
    tolerance_position: float = length(
        "Position Tolerance", default=0.0005, min=1e-6, soft_max=0.1, precision=4, step=0.01
    )("A target counts as reached when the point of the bone is at most this far from it")
    tolerance_rotation: float = angle(
        "Orientation Tolerance", default=radians(0.05), min=1e-6, max=pi, precision=3, step=1
    )("A target counts as reached when the bone is turned at most this far from it")
    smoothness: float = number(
        "Smoothness",
        default=SolverOptions.smoothness,
        min=0.0,
        soft_max=2.0,
        precision=3,
        step=1,
        subtype='TIME_ABSOLUTE',
        unit='TIME_ABSOLUTE',
    )(
        "Time over which a baked motion is smooth, for which poses differ by some degrees from those that "
        "Live shows; 0 solves each frame by itself, as Live does"
    )
    pop_angle: float = angle(
        "Pop Angle", default=SolverOptions.pop_angle, min=1e-4, max=pi, precision=2, step=10
    )(
        "A bake reports a flip of the pose if the turn of a bone changes by more than this from one "
        "frame to the next, out of proportion to the frames beside it"
    )
    damping: float = number("Damping", default=SolverOptions.damping, min=1e-4, soft_max=1.0, precision=3)(
        "Damping of the steps while targets are far; more is steadier, less is faster"
    )
    constant_damping: bool = flag("Constant Damping", default=SolverOptions.constant_damping)(
        "The damping does not fall near the targets: steadier and slower"
    )
    max_angle: float = angle("Largest Change", default=SolverOptions.max_angle, min=1e-3, max=pi)(
        "Largest turn of a bone in one iteration"
    )
    null_space_gain: float = number("Preference", default=SolverOptions.null_space_gain, min=1e-3, max=1.0)(
        "Part of the way to the preferred pose in one iteration, as far as targets allow"
    )
    element_weight: float = number(
        "Element Weight", default=SolverOptions.element_weight, min=1e-4, soft_max=1.0, precision=3
    )("How strongly pairs of neighbouring bones keep their shape while targets are far")
    gamma: float = number(
        "Preference Weight", default=SolverOptions.gamma, min=0.0, soft_max=0.1, precision=4, step=0.01
    )("A smaller weight comes nearer to the preferred pose and takes longer")
    clamp_distance: float = length("Clamp Distance", min=0.0)(
        "Targets that are further away pull as if they were at this distance; 0 for no clamp"
    )
    clamp_after_jump: bool = flag("Free First Step")(
        "The first iteration is not clamped, and later ones less while the targets come nearer"
    )
    alternate_jacobian: bool = flag("Alternate Jacobian")(
        "Compute the Jacobian with targets turned towards the bones: steadier if targets are out of reach"
    )
    move_root: bool = flag("Move Root", default=True)(
        "Parentless bones of the solved chains may move where their location is not locked"
    )
    recording: Action | None = link("Recording", type=Action)(
        "Recorded motion of the bones: in each frame the body prefers the pose that it has there, and limits "
        "do not change it. Targets from Animation makes it"
    )
    ease_unit: str = enum(
        "Ease Unit",
        items=(('FRAMES', "Frames", "Ease in frames"), ('SECONDS', "Seconds", "Ease in seconds")),
        default='FRAMES',
    )("What Ease In and Ease Out are given in")
    ease_in: float = number("Ease In", default=10.0, min=0.01, soft_max=100.0, precision=2, step=100)(
        "How long before the present frame a correction begins"
    )
    ease_out: float = number("Ease Out", default=10.0, min=0.01, soft_max=100.0, precision=2, step=100)(
        "How long after the present frame a correction ends"
    )
    bake_range: str = enum("Range", items=RANGE_ITEMS, default='SCENE')("Frames that a bake keys")
    use_scene_range: bool = flag(
        "Scene Frame Range", get=_bakes_scene, set=_bake_scene, options={'HIDDEN', 'SKIP_SAVE'}
    )("Whether the range is that of the scene; for scripts of before there were others")
    bake_step: float = number("Step", default=1.0, min=0.02, soft_max=24.0, step=100, precision=2)(
        "Every how many frames there is a key; the last frame of the range always has one. Below 1 there are "
        "keys at sub-frames"
    )
    bake_at_keys: bool = flag("At Targets' Keys")(
        "Key the frames at which targets have keys, and set breakdowns between them only where effectors "
        "would deviate too far"
    )
    bake_fewest: bool = flag("Fewest Keys")(
        "Key each curve only where it needs keys, with fitted handles: bones of effectors stay within the "
        "deviation at all frames and between them"
    )
    bake_loop: bool = flag("Loop")(
        "The last frame of the range is the first one again: pose and speed are the same there, and F-curves "
        "repeat the keys"
    )
    bake_clear_constraints: bool = flag("Clear Constraints")(
        "Remove the constraints of the bones that are keyed: they stay where these have put them"
    )
    bake_deviation: float = length(
        "Deviation", default=0.001, min=1e-6, soft_max=0.1, precision=4, step=0.01
    )("How far an effector may be from where it was solved to be, where there are fewer keys than frames")
    bake_deviation_angle: float = angle(
        "Angle Deviation", default=radians(0.5), min=1e-6, max=pi, precision=3, step=1
    )("By how much an effector may be turned from how it was solved to be, likewise")
    bake_to: str = enum("Bake To", items=TO_ITEMS, default='ACTION')("Where the keys go")
    bake_name: str = text("Name")("Name of the new action or of the NLA strip; empty for one by default")
    bake_blend: str = enum("Blend", items=BLEND_ITEMS, default='COMBINE')(
        "How the strip plays over what is below it; what plays is what was solved"
    )
    bake_bones: str = enum("Bones", items=BONES_ITEMS, default='ALL')("Which bones a bake moves and keys")
    bake_channels: str = enum("Channels", items=CHANNELS_ITEMS, default='BOTH')(
        "Which channels of bones a bake moves and keys"
    )
    bake_ease_in: int = whole("Ease In", min=0, soft_max=100)(
        "Frames at the beginning of the range that go over from the motion that is there"
    )
    bake_ease_out: int = whole("Ease Out", min=0, soft_max=100)(
        "Frames at the end of the range that go over to the motion that is there"
    )
    bake_start: int = whole("Start Frame", default=1)("First frame to bake")
    bake_end: int = whole("End Frame", default=250)("Last frame to bake")
    live: bool = flag("Live", update=_live_switched)("Keep solving while targets move")
    fk_moves_targets: bool = flag("FK Moves Targets", default=True)(
        "While Live is on, posing a bone by hand takes targets of it, and of what hangs on it, along; pinned "
        "bones stay pinned"
    )
    names_digest: str = text("Names Digest", options={'HIDDEN'})(
        "Hash of the names of bones when they were followed last: where it is the same no bone was renamed"
    )
    live_digests: Sequence[int] = wholes("Live Digests", size=16, options={'HIDDEN'})(
        "Hashes of what the pose was solved for: live mode solves again when one changes"
    )
    live_origin: str = text("Live Origin", options={'HIDDEN'})(
        "Poses of bones that live mode has not written: influences below 1 begin there"
    )
    pose_note: str = text("Pose Note", options={'HIDDEN'})(
        "Pose of the bones as Poise has left or seen it, and targets of the solve that has left it"
    )
    live_problem: str = text("Live Problem")("Why live mode cannot solve")
    last_message: str = text("Last Message")("Report of the last solve or bake")
    last_reached: bool = flag("Last Reached")(
        "Whether every enabled effector reached its target in the last solve or bake"
    )
    last_deviation: float = length("Last Deviation")(
        "How far keys may lead bones from where they were solved, in the last report"
    )
    last_deviation_angle: float = angle("Last Angle Deviation")(
        "By how much keys may turn bones from how they were solved, in the last report"
    )
    last_bake: str = text("Last Bake")("Report of the last bake")
    last_frames: str = text("Frames to Look At")(
        "Frames of the last bake in which the pose flips or a target is missed by most, line by line"
    )
    diagnosis: str = text("Diagnosis")("Report of the last diagnosis, line by line")


METHOD_SETTINGS: Final = tuple(
    name for name in POISE_PG_armature.__annotations__ if name in USED_BY and name != "smoothness"
)
"""Properties that go by the same name as the solver's options, for the methods that have a use for them."""


def method_settings(method: str) -> tuple[str, ...]:
    """Which of those a method shows; the default has nothing to be set."""
    if method == 'PRIORITY':
        return ()
    return tuple(name for name in METHOD_SETTINGS if method in USED_BY[name])


class POISE_PG_action(Declared, PropertyGroup):
    """What Poise notes with an action."""

    own_keys: str = text("Own Keys", options={'HIDDEN'})(
        "Check sums of the keys that Poise has written: others are not replaced unasked"
    )


def solver_options(armature_object: Object, scale: float) -> SolverOptions:
    """Return the settings for a solve in armature units, of which one is `scale` metres in the world."""
    settings = settings_of(armature_object)
    own: dict[str, Any] = {name: getattr(settings, name) for name in method_settings(settings.method)}
    if "clamp_distance" in own:
        own["clamp_distance"] = settings.clamp_distance / scale or None
    return SolverOptions(
        **own,
        method=settings.method,
        max_iterations=settings.iterations,
        tolerance_position=SOLVE_MARGIN * settings.tolerance_position / scale,
        tolerance_rotation=SOLVE_MARGIN * settings.tolerance_rotation,
        smoothness=settings.smoothness,
        pop_angle=settings.pop_angle,
    )


_register_classes, _unregister_classes = bpy.utils.register_classes_factory(
    (
        POISE_PG_joint,
        POISE_PG_mass,
        POISE_PG_mesh_mass,
        POISE_PG_role,
        POISE_PG_stored_bone,
        POISE_PG_target,
        POISE_PG_effector,
        POISE_PG_armature,
        POISE_PG_action,
    )
)


def register() -> None:
    """Add the property groups, `Object.poise` and `Action.poise`."""
    _register_classes()
    declared = link("Poise", type=POISE_PG_armature)
    Object.poise = declared(  # pyright: ignore[reportAttributeAccessIssue]
        "Effectors and settings of full-body inverse kinematics"
    )
    declared = link("Poise", type=POISE_PG_action)
    Action.poise = declared(  # pyright: ignore[reportAttributeAccessIssue]
        "What Poise has written into the action"
    )


def unregister() -> None:
    """Take both and the property groups away; what files hold of them stays in the files."""
    del Action.poise  # pyright: ignore[reportAttributeAccessIssue]
    del Object.poise  # pyright: ignore[reportAttributeAccessIssue]
    _unregister_classes()

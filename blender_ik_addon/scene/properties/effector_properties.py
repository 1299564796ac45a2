# SPDX-License-Identifier: GPL-3.0-or-later
"""What Poise holds of one effector."""

from math import pi
from typing import TYPE_CHECKING, Any

from bpy.types import Action, Object, PropertyGroup

from ..kinds.kinds import KINDS
from .declared import (
    Declared,
    Flags3,
    Vector3,
    angle,
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
)

if TYPE_CHECKING:
    from bpy.types import bpy_prop_collection_idprop as Entries  # noqa: N812

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
    *FOOT_ANGLES,
)
"""Settings of an effector that are the same on both sides of a body: no name, bone, target, point or axis."""

FURTHER_BONES = ("root_bone", "tip_bone", "other_bone")
"""Settings of an effector that name bones besides its own."""


def _may_be_target(owner: "POISE_PG_effector | POISE_PG_target", candidate: Object) -> bool:
    """Offer every object but the armature that would follow itself."""
    return candidate != owner.id_data


def plain(value: Any) -> Any:
    """Copy the value of a property, as JSON can hold it."""
    return value if isinstance(value, (str, bool, int, float)) else list(value)


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
    placed: tuple[float, ...] = numbers("Placed", size=16, options={'HIDDEN'})(
        "Matrix of the target's own channels where Poise has placed it, row by row: one that is elsewhere "
        "was moved by somebody else; zeros before it was placed"
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


CLASSES = (POISE_PG_stored_bone, POISE_PG_target, POISE_PG_effector)

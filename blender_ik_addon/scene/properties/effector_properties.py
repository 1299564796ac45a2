# SPDX-License-Identifier: GPL-3.0-or-later
# A property is declared once for Blender and once, under TYPE_CHECKING, with its type.
# pyright: reportRedeclaration=false
"""What Poise holds of one effector."""

from math import pi
from typing import TYPE_CHECKING, Any

from bpy.props import (
    BoolProperty,
    BoolVectorProperty,
    CollectionProperty,
    EnumProperty,
    FloatProperty,
    FloatVectorProperty,
    IntProperty,
    PointerProperty,
    StringProperty,
)
from bpy.types import Object, PropertyGroup

from .joint_properties import OVERRIDE

if TYPE_CHECKING:
    from bpy.types import bpy_prop_collection_idprop

NOT_MEASURED = -1.0
"""The value of an effector's error before the first solve, or where its kind has no such error."""

KIND_ITEMS = (
    ('POSITION', "Position", "The point of the bone reaches the place of the target", 'CON_LOCLIKE', 0),
    ('ORIENTATION', "Orientation", "The bone turns the way the target is turned", 'CON_ROTLIKE', 1),
    (
        'BOTH',
        "Position and Orientation",
        "The bone takes the place and the orientation of the target",
        'CON_TRANSLIKE',
        2,
    ),
    ('AIM', "Aim", "An axis of the bone points at the target", 'CON_TRACKTO', 3),
    ('POLE', "Pole", "The limb bends towards the target; the bone is its middle one", 'CON_ARMATURE', 4),
    ('PLANE', "Plane", "The point of the bone lies on the XY plane of the target", 'MESH_PLANE', 5),
    ('FLOOR', "Floor", "The point of the bone never goes below the XY plane of the target", 'CON_FLOOR', 6),
    (
        'DISTANCE',
        "Distance",
        "The point of the bone keeps its distance from the target, or from another bone",
        'CON_DISTLIMIT',
        7,
    ),
    (
        'BALANCE',
        "Balance",
        "The centre of mass is over the target or over what the body stands on",
        'PIVOT_MEDIAN',
        8,
    ),
    ('STAY', "Stay Near", "Bones stay near a pose, as far as what matters more allows", 'ARMATURE_DATA', 9),
    ('ONE_OF', "One Of", "One of several targets is enough, whichever serves best", 'PARTICLE_POINT', 10),
)
"""Kinds of effectors; their numbers are in files and never change."""

AXIS_ITEMS = (
    ('POS_X', "X", "The bone's X axis"),
    ('POS_Y', "Y", "The bone's Y axis, from its head to its tail"),
    ('POS_Z', "Z", "The bone's Z axis"),
    ('NEG_X', "-X", "Against the bone's X axis"),
    ('NEG_Y', "-Y", "Against the bone's Y axis"),
    ('NEG_Z', "-Z", "Against the bone's Z axis"),
)

CHOICE_ITEMS = (
    ('POSITION', "Position", "The point of the bone reaches the place of one of the targets", 0),
    ('ORIENTATION', "Orientation", "The bone turns the way one of the targets is turned", 1),
    ('AIM', "Aim", "An axis of the bone points at one of the targets", 2),
    ('PLANE', "Plane", "The point of the bone lies on the XY plane of one of the targets", 3),
)
"""What a bone may be to do about the one of several targets that it takes."""

STAY_ITEMS = (
    ('REST', "Rest Pose", "The rest pose"),
    ('PRESENT', "Present Pose", "The pose before the solve; in a bake that of each frame"),
    ('STORED', "Stored Pose", "The pose that was stored with Store Pose"),
)

SCOPE_ITEMS = (
    ('BRANCH', "Bone and Below", "The bone and all that hang on it"),
    ('BODY', "Whole Body", "All bones of the armature"),
)

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
)
"""Settings of an effector that are the same on both sides of a body: no name, bone, target, point or axis."""

FURTHER_BONES = ("root_bone", "tip_bone", "other_bone")
"""Settings of an effector that name bones besides its own."""

PLACED = frozenset({'POSITION', 'BOTH', 'PLANE', 'FLOOR', 'DISTANCE', 'BALANCE'})
"""Kinds that are missed by a length and may be soft in it."""

TURNED = frozenset({'ORIENTATION', 'BOTH', 'AIM', 'POLE'})
"""Kinds that are missed by an angle and may be soft in it."""

PINNABLE = frozenset({'POSITION', 'ORIENTATION', 'BOTH'})
"""Kinds that can hold a bone where it is."""


def _may_be_target(owner: "POISE_PG_effector | POISE_PG_target", candidate: Object) -> bool:
    """Offer every object but the armature that would follow itself."""
    return candidate != owner.id_data


def plain(value: Any) -> Any:
    """Copy the value of a property, as JSON can hold it."""
    return value if isinstance(value, (str, bool, int, float)) else list(value)


class POISE_PG_stored_bone(PropertyGroup):
    """Where one bone is against its rest pose, in a stored pose."""

    name: StringProperty(
        name="Bone",
        description="Name of the bone",
        override=OVERRIDE,
    )
    location: FloatVectorProperty(
        name="Location",
        description="Offset from the rest pose",
        size=3,
        subtype='TRANSLATION',
        unit='LENGTH',
        override=OVERRIDE,
    )
    rotation: FloatVectorProperty(
        name="Rotation",
        description="Turn from the rest pose, whatever the rotation mode of the bone",
        size=4,
        subtype='QUATERNION',
        default=(1.0, 0.0, 0.0, 0.0),
        override=OVERRIDE,
    )

    if TYPE_CHECKING:
        name: str
        location: tuple[float, float, float]
        rotation: tuple[float, float, float, float]


class POISE_PG_target(PropertyGroup):
    """One more target, of those of which one is enough."""

    target: PointerProperty(
        name="Target",
        description="The object that the bone may follow, usually an empty",
        type=Object,
        poll=_may_be_target,
        override=OVERRIDE,
    )
    target_bone: StringProperty(
        name="Target Bone",
        description="The bone of the target armature to follow; without one, the armature object is followed",
        override=OVERRIDE,
    )

    if TYPE_CHECKING:
        target: Object | None
        target_bone: str


class POISE_PG_effector(PropertyGroup):
    """One wish for one bone: where it should be, how it should be turned, and how much that matters."""

    name: StringProperty(
        name="Name",
        description="Name of the effector in the list and in reports",
        override=OVERRIDE,
    )
    bone: StringProperty(
        name="Bone",
        description="The bone that follows the target",
        override=OVERRIDE,
    )
    part: StringProperty(
        name="Part",
        description="Part of the body for which the set-up made the effector; empty for one made by hand",
        override=OVERRIDE,
    )
    kind: EnumProperty(
        name="Kind",
        description="What the bone is to do about its target",
        items=KIND_ITEMS,
        default='BOTH',
        override=OVERRIDE,
    )
    target: PointerProperty(
        name="Target",
        description="The object that the bone follows, usually an empty",
        type=Object,
        poll=_may_be_target,
        override=OVERRIDE,
    )
    target_bone: StringProperty(
        name="Target Bone",
        description="The bone of the target armature to follow; without one, the armature object is followed",
        override=OVERRIDE,
    )
    priority: IntProperty(
        name="Priority",
        description="Level of importance: 0 matters most, a higher number takes nothing from a lower one",
        default=0,
        min=0,
        soft_max=9,
        override=OVERRIDE,
    )
    weight: FloatProperty(
        name="Weight",
        description="How much this effector counts among those of the same priority",
        default=1.0,
        min=0.0,
        soft_max=10.0,
        override=OVERRIDE,
    )
    softness_position: FloatProperty(
        name="Softness",
        description=(
            "By about so much the target may be missed where meeting it exactly would ask joints to turn by "
            "a radian away from the pose that they prefer, or the motion to jerk: for noisy targets and "
            "motion-capture markers. 0: met exactly. Only the method Priority uses it"
        ),
        default=0.0,
        min=0.0,
        soft_max=0.1,
        step=0.1,
        precision=3,
        subtype='DISTANCE',
        unit='LENGTH',
        override=OVERRIDE,
    )
    softness_rotation: FloatProperty(
        name="Softness Angle",
        description=(
            "By about so much the orientation or direction may be missed where meeting it exactly would ask "
            "joints to turn by a radian away from the pose that they prefer, or the motion to jerk. 0: met "
            "exactly. Only the method Priority uses it"
        ),
        default=0.0,
        min=0.0,
        soft_max=pi,
        subtype='ANGLE',
        unit='ROTATION',
        override=OVERRIDE,
    )
    enabled: BoolProperty(
        name="Enabled",
        description="Use this effector when solving",
        default=True,
        override=OVERRIDE,
    )
    point: FloatVectorProperty(
        name="Point",
        description="The point of the bone that is meant, along the bone's own axes from its head",
        size=3,
        subtype='TRANSLATION',
        unit='LENGTH',
        override=OVERRIDE,
    )
    position_axes: BoolVectorProperty(
        name="Position Axes",
        description="World axes along which the point follows the target",
        size=3,
        subtype='XYZ',
        default=(True, True, True),
        override=OVERRIDE,
    )
    orientation_axes: BoolVectorProperty(
        name="Orientation Axes",
        description="Axes of the target about which the bone turns with it",
        size=3,
        subtype='XYZ',
        default=(True, True, True),
        override=OVERRIDE,
    )
    influence: FloatProperty(
        name="Influence",
        description=(
            "How far the bone goes from where it is before the solve to its target; at 0 the effector takes "
            "no part. Can be animated"
        ),
        default=1.0,
        min=0.0,
        max=1.0,
        subtype='FACTOR',
        override=OVERRIDE,
    )
    chain_depth: IntProperty(
        name="Chain Depth",
        description=(
            "How many bones may move for this effector, counted from its own up the tree; 0 for all of them. "
            "Bones that no enabled effector reaches are held. One that any reaches moves for all"
        ),
        default=0,
        min=0,
        soft_max=20,
        override=OVERRIDE,
    )
    axis: EnumProperty(
        name="Axis",
        description="Axis of the bone that points at the target",
        items=AXIS_ITEMS,
        default='POS_Y',
        override=OVERRIDE,
    )
    height: FloatProperty(
        name="Height",
        description="How far above the plane the point is to be, as the thickness of a sole. Can be animated",
        default=0.0,
        subtype='DISTANCE',
        unit='LENGTH',
        override=OVERRIDE,
    )
    distance: FloatProperty(
        name="Distance",
        description="How far from the target the point is to be, in the world. Can be animated",
        default=0.0,
        min=0.0,
        subtype='DISTANCE',
        unit='LENGTH',
        override=OVERRIDE,
    )
    other_bone: StringProperty(
        name="Other Bone",
        description="Bone of the same armature from which to keep the distance, in place of a target",
        override=OVERRIDE,
    )
    other_point: FloatVectorProperty(
        name="Other Point",
        description="The point of the other bone, along its own axes from its head",
        size=3,
        subtype='TRANSLATION',
        unit='LENGTH',
        override=OVERRIDE,
    )
    root_bone: StringProperty(
        name="Limb Root",
        description="Bone with which the limb begins, as the upper arm; empty for the parent of the bone",
        override=OVERRIDE,
    )
    tip_bone: StringProperty(
        name="Limb Tip",
        description="Bone at whose head the limb ends, as the hand; empty for the child at the bone's tail",
        override=OVERRIDE,
    )
    is_support: BoolProperty(
        name="Support",
        description=(
            "The body stands on this, for effectors of the kind Balance that have no target. Without any "
            "such it stands on its feet, by their names"
        ),
        default=False,
        override=OVERRIDE,
    )
    stay: EnumProperty(
        name="Near",
        description="The pose near which bones stay",
        items=STAY_ITEMS,
        default='REST',
        override=OVERRIDE,
    )
    stay_scope: EnumProperty(
        name="Bones",
        description="The bones that stay near the pose",
        items=SCOPE_ITEMS,
        default='BRANCH',
        override=OVERRIDE,
    )
    stored: CollectionProperty(
        name="Stored Pose",
        description="Where bones were when the pose was stored",
        type=POISE_PG_stored_bone,
        override={'LIBRARY_OVERRIDABLE', 'USE_INSERTION'},
    )
    choice: EnumProperty(
        name="What",
        description="What the bone is to do about the one of its targets that it takes",
        items=CHOICE_ITEMS,
        default='POSITION',
        override=OVERRIDE,
    )
    others: CollectionProperty(
        name="Further Targets",
        description="Targets besides the first one, of which one is enough",
        type=POISE_PG_target,
        override={'LIBRARY_OVERRIDABLE', 'USE_INSERTION'},
    )
    taken: StringProperty(
        name="Taken",
        description="Which of several targets the bone took in the last solve or bake",
        override=OVERRIDE,
    )
    pinned: BoolProperty(
        name="Pinned",
        description="The bone is held where it was pinned, in the space of the armature, whatever its target",
        default=False,
        override=OVERRIDE,
    )
    pin_matrix: FloatVectorProperty(
        name="Pin Matrix",
        description="Where the bone was pinned: its matrix in the space of the armature, row by row",
        size=16,
        default=(1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0),
        override=OVERRIDE,
    )
    error_position: FloatProperty(
        name="Position Error",
        description="Distance from what was asked for after the last solve, or -1 where not measured",
        default=NOT_MEASURED,
        subtype='DISTANCE',
        unit='LENGTH',
        override=OVERRIDE,
    )
    error_rotation: FloatProperty(
        name="Orientation Error",
        description="Angle to what was asked for after the last solve, or -1 where not measured",
        default=NOT_MEASURED,
        subtype='ANGLE',
        unit='ROTATION',
        override=OVERRIDE,
    )

    why: StringProperty(
        name="Why",
        description="What kept the bone from its target in the last solve or bake",
        override=OVERRIDE,
    )

    if TYPE_CHECKING:
        name: str
        bone: str
        part: str
        kind: str
        target: Object | None
        target_bone: str
        priority: int
        weight: float
        softness_position: float
        softness_rotation: float
        enabled: bool
        point: tuple[float, float, float]
        position_axes: tuple[bool, bool, bool]
        orientation_axes: tuple[bool, bool, bool]
        influence: float
        chain_depth: int
        axis: str
        height: float
        distance: float
        other_bone: str
        other_point: tuple[float, float, float]
        root_bone: str
        tip_bone: str
        is_support: bool
        stay: str
        stay_scope: str
        stored: bpy_prop_collection_idprop[POISE_PG_stored_bone]
        choice: str
        others: bpy_prop_collection_idprop[POISE_PG_target]
        taken: str
        pinned: bool
        pin_matrix: tuple[float, ...]
        error_position: float
        error_rotation: float
        why: str


CLASSES = (POISE_PG_stored_bone, POISE_PG_target, POISE_PG_effector)

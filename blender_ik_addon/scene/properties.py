# SPDX-License-Identifier: GPL-3.0-or-later
# A property is declared once for Blender and once, under TYPE_CHECKING, with its type.
# pyright: reportRedeclaration=false
"""All lasting state of the add-on: `Object.poise` on the armature object.

Lengths are metres and angles are radians, as Blender stores them. No property does any work when it changes.
Every property can be overridden, so that a character linked from another file can carry effectors. Blender
5.0 and later keep such overrides only if the character's own file holds some setting of Poise for it.
"""

from collections.abc import Sequence
from math import pi, radians
from typing import TYPE_CHECKING, Any

import bpy
from bpy.props import (
    BoolProperty,
    BoolVectorProperty,
    CollectionProperty,
    EnumProperty,
    FloatProperty,
    FloatVectorProperty,
    IntProperty,
    IntVectorProperty,
    PointerProperty,
    StringProperty,
)
from bpy.types import Object, PropertyGroup

from ..core.options import METHODS, USED_BY, SolverOptions
from .joint_properties import CLASSES as JOINT_CLASSES
from .joint_properties import POISE_PG_joint, POISE_PG_role

if TYPE_CHECKING:
    from bpy.types import bpy_prop_collection_idprop

NOT_MEASURED = -1.0
"""The value of an effector's error before the first solve, or where its kind has no such error."""

OVERRIDE: set[Any] = {'LIBRARY_OVERRIDABLE'}

KIND_ITEMS = (
    ('POSITION', "Position", "The point of the bone reaches the place of the target", 'CON_LOCLIKE', 0),
    ('ORIENTATION', "Orientation", "The bone turns the way the target is turned", 'CON_ROTLIKE', 1),
    ('BOTH', "Both", "The bone takes the place and the orientation of the target", 'CON_TRANSLIKE', 2),
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

STAY_ITEMS = (
    ('REST', "Rest Pose", "The rest pose"),
    ('PRESENT', "Present Pose", "The pose before the solve; in a bake that of each frame"),
    ('STORED', "Stored Pose", "The pose that was stored with Store Pose"),
)

SCOPE_ITEMS = (
    ('BRANCH', "Bone and Below", "The bone and all that hang on it"),
    ('BODY', "Whole Body", "All bones of the armature"),
)

PINNABLE = frozenset({'POSITION', 'ORIENTATION', 'BOTH'})
"""Kinds that can hold a bone where it is."""

_METHOD_LABELS = {
    'DLS': "Damped Least Squares",
    'SDLS': "Selectively Damped Least Squares",
    'PSEUDO_INVERSE': "Pseudo-Inverse",
}

METHOD_ITEMS = tuple(
    (name, _METHOD_LABELS.get(name, name.replace("_", " ").title()), description.rstrip("."))
    for name, description in METHODS.items()
)


METHOD_SETTINGS = (
    "damping",
    "max_angle",
    "null_space_gain",
    "element_weight",
    "gamma",
    "clamp_distance",
    "clamp_after_jump",
    "alternate_jacobian",
)
"""Properties that go by the same name as the solver's options, for the methods that have a use for them."""


def method_settings(method: str) -> tuple[str, ...]:
    """Which of those a method shows; the default has nothing to be set."""
    if method == 'PRIORITY':
        return ()
    return tuple(name for name in METHOD_SETTINGS if method in USED_BY[name])


def settings_of(armature_object: Object) -> "POISE_PG_armature":
    """Give `armature_object.poise` with its type, which Blender's stubs cannot know."""
    return armature_object.poise  # pyright: ignore[reportAttributeAccessIssue]


def _may_be_target(effector: "POISE_PG_effector", candidate: Object) -> bool:
    """Offer every object but the armature that would follow itself."""
    return candidate != effector.id_data


def _live_switched(settings: "POISE_PG_armature", context: Any) -> None:
    """Mark that the body is to be solved at the next update."""
    settings.live_memory = (0,) * 16
    settings.live_problem = ""
    owner: Any = settings.id_data
    owner.update_tag()


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
        pinned: bool
        pin_matrix: tuple[float, ...]
        error_position: float
        error_rotation: float
        why: str


class POISE_PG_armature(PropertyGroup):
    """The effectors of one armature object, and how to solve and bake it."""

    effectors: CollectionProperty(
        name="Effectors",
        description="What the bones of this armature should reach",
        type=POISE_PG_effector,
        override={'LIBRARY_OVERRIDABLE', 'USE_INSERTION'},
    )
    active_effector: IntProperty(
        name="Active Effector",
        description="The effector whose fields are shown",
        default=0,
        min=0,
        override=OVERRIDE,
    )
    joints: CollectionProperty(
        name="Joints",
        description="Limits, stiffness and preferred angles of bones, in place of the bones' own",
        type=POISE_PG_joint,
        override={'LIBRARY_OVERRIDABLE', 'USE_INSERTION'},
    )
    roles: CollectionProperty(
        name="Roles",
        description="What the bones are in the body, for Set-up Character",
        type=POISE_PG_role,
        override={'LIBRARY_OVERRIDABLE', 'USE_INSERTION'},
    )
    active_role: IntProperty(
        name="Active Role",
        description="The row of the table of roles whose fields are shown",
        default=0,
        min=0,
        override=OVERRIDE,
    )
    method: EnumProperty(
        name="Method",
        description="How the pose is found",
        items=METHOD_ITEMS,
        default='PRIORITY',
        override=OVERRIDE,
    )
    iterations: IntProperty(
        name="Iterations",
        description="Most steps of one descent; targets that cannot all be met take several descents",
        default=60,
        min=1,
        soft_max=500,
        override=OVERRIDE,
    )
    tolerance_position: FloatProperty(
        name="Position Tolerance",
        description="A target counts as reached when the point of the bone is at most this far from it",
        default=0.0005,
        min=1e-6,  # the solver wants more than 0
        soft_max=0.1,
        precision=4,
        step=0.01,
        subtype='DISTANCE',
        unit='LENGTH',
        override=OVERRIDE,
    )
    tolerance_rotation: FloatProperty(
        name="Orientation Tolerance",
        description="A target counts as reached when the bone is turned at most this far from it",
        default=radians(0.05),
        min=1e-6,  # likewise
        max=pi,
        precision=3,
        step=1,
        subtype='ANGLE',
        unit='ROTATION',
        override=OVERRIDE,
    )
    damping: FloatProperty(
        name="Damping",
        description="How much steps are damped while targets are far; more is steadier, less is quicker",
        default=SolverOptions.damping,
        min=1e-4,  # the solver wants more than 0
        soft_max=1.0,
        precision=3,
        override=OVERRIDE,
    )
    max_angle: FloatProperty(
        name="Largest Change",
        description="The most that a bone turns in one iteration",
        default=SolverOptions.max_angle,
        min=1e-3,  # likewise
        max=pi,
        subtype='ANGLE',
        unit='ROTATION',
        override=OVERRIDE,
    )
    null_space_gain: FloatProperty(
        name="Preference",
        description="Part of the way to the preferred pose that an iteration goes where targets allow it",
        default=SolverOptions.null_space_gain,
        min=1e-3,  # likewise
        max=1.0,
        override=OVERRIDE,
    )
    element_weight: FloatProperty(
        name="Element Weight",
        description="How much pairs of neighbouring bones keep their shape while targets are far",
        default=SolverOptions.element_weight,
        min=1e-4,  # likewise
        soft_max=1.0,
        precision=3,
        override=OVERRIDE,
    )
    gamma: FloatProperty(
        name="Preference Weight",
        description="Less comes nearer to the preferred pose where the targets allow it, and takes longer",
        default=SolverOptions.gamma,
        min=0.0,
        soft_max=0.1,
        precision=4,
        step=0.01,
        override=OVERRIDE,
    )
    clamp_distance: FloatProperty(
        name="Clamp Distance",
        description="Targets further away than this pull as though they were this far; 0 for no clamp",
        default=0.0,
        min=0.0,
        subtype='DISTANCE',
        unit='LENGTH',
        override=OVERRIDE,
    )
    clamp_after_jump: BoolProperty(
        name="Free First Step",
        description="The first iteration is not clamped, and those after it by less while they come nearer",
        default=False,
        override=OVERRIDE,
    )
    alternate_jacobian: BoolProperty(
        name="Alternate Jacobian",
        description="Turn the targets towards the bones in thought: steadier where targets are out of reach",
        default=False,
        override=OVERRIDE,
    )
    move_root: BoolProperty(
        name="Move Root",
        description="Parentless bones of the solved chains may move where their location is not locked",
        default=True,
        override=OVERRIDE,
    )
    use_scene_range: BoolProperty(
        name="Scene Frame Range",
        description="Bake from the start frame to the end frame of the scene",
        default=True,
        override=OVERRIDE,
    )
    bake_start: IntProperty(
        name="Start Frame",
        description="First frame to bake",
        default=1,
        override=OVERRIDE,
    )
    bake_end: IntProperty(
        name="End Frame",
        description="Last frame to bake",
        default=250,
        override=OVERRIDE,
    )
    live: BoolProperty(
        name="Live",
        description="The body follows whenever a target moves",
        default=False,
        update=_live_switched,
        override=OVERRIDE,
    )
    live_memory: IntVectorProperty(
        name="Live Memory",
        description="What the pose was solved for, as digests: by them live mode knows when things move",
        size=16,
        options={'HIDDEN'},
        override=OVERRIDE,
    )
    live_problem: StringProperty(
        name="Live Problem",
        description="What keeps live mode from following",
        override=OVERRIDE,
    )
    last_message: StringProperty(
        name="Last Message",
        description="What the last solve or bake had to say",
        override=OVERRIDE,
    )
    last_reached: BoolProperty(
        name="Last Reached",
        description="Every enabled effector was within its tolerance after the last solve or bake",
        default=False,
        override=OVERRIDE,
    )
    diagnosis: StringProperty(
        name="Diagnosis",
        description="What the pose allowed the effectors when it was last diagnosed, line by line",
        override=OVERRIDE,
    )

    if TYPE_CHECKING:
        effectors: bpy_prop_collection_idprop[POISE_PG_effector]
        active_effector: int
        joints: bpy_prop_collection_idprop[POISE_PG_joint]
        roles: bpy_prop_collection_idprop[POISE_PG_role]
        active_role: int
        method: str
        iterations: int
        tolerance_position: float
        tolerance_rotation: float
        damping: float
        max_angle: float
        null_space_gain: float
        element_weight: float
        gamma: float
        clamp_distance: float
        clamp_after_jump: bool
        alternate_jacobian: bool
        move_root: bool
        use_scene_range: bool
        bake_start: int
        bake_end: int
        live: bool
        live_memory: Sequence[int]
        live_problem: str
        last_message: str
        last_reached: bool
        diagnosis: str


_register_classes, _unregister_classes = bpy.utils.register_classes_factory(
    (*JOINT_CLASSES, POISE_PG_stored_bone, POISE_PG_effector, POISE_PG_armature)
)


def register() -> None:
    """Add the property groups, and `Object.poise`."""
    _register_classes()
    Object.poise = PointerProperty(  # pyright: ignore[reportAttributeAccessIssue]
        name="Poise",
        description="Effectors and settings of full-body inverse kinematics",
        type=POISE_PG_armature,
        override=OVERRIDE,
    )


def unregister() -> None:
    """Take `Object.poise` and the property groups away; what files hold of them stays in the files."""
    del Object.poise  # pyright: ignore[reportAttributeAccessIssue]
    _unregister_classes()

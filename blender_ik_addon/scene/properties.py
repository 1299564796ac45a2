# SPDX-License-Identifier: GPL-3.0-or-later
# A property is declared once for Blender and once, under TYPE_CHECKING, with its type.
# pyright: reportRedeclaration=false
"""All lasting state of the add-on: `Object.poise` on the armature object.

Lengths are metres and angles are radians, as Blender stores them. No property does any work when it changes.
Every property can be overridden, so that a character linked from another file can carry effectors. Blender
5.0 and later keep such overrides only if the character's own file holds some setting of Poise for it.
"""

from math import pi, radians
from typing import TYPE_CHECKING, Any, Literal

import bpy
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

from ..core.options import METHODS, USED_BY, SolverOptions

if TYPE_CHECKING:
    from bpy.types import bpy_prop_collection_idprop

NOT_MEASURED = -1.0
"""The value of an effector's error before the first solve, or where its kind has no such error."""

OVERRIDE: set[Any] = {'LIBRARY_OVERRIDABLE'}

KIND_ITEMS = (
    ('POSITION', "Position", "The point of the bone reaches the place of the target", 'CON_LOCLIKE', 0),
    ('ORIENTATION', "Orientation", "The bone turns the way the target is turned", 'CON_ROTLIKE', 1),
    ('BOTH', "Both", "The bone takes the place and the orientation of the target", 'CON_TRANSLIKE', 2),
)

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
    kind: EnumProperty(
        name="Kind",
        description="What the bone takes from its target",
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
        description="The point of the bone that reaches the target, along the bone's own axes from its head",
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
    error_position: FloatProperty(
        name="Position Error",
        description="Distance from the target after the last solve, or -1 where not measured",
        default=NOT_MEASURED,
        subtype='DISTANCE',
        unit='LENGTH',
        override=OVERRIDE,
    )
    error_rotation: FloatProperty(
        name="Orientation Error",
        description="Angle to the target's orientation after the last solve, or -1 where not measured",
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
        kind: Literal['POSITION', 'ORIENTATION', 'BOTH']
        target: Object | None
        target_bone: str
        priority: int
        weight: float
        enabled: bool
        point: tuple[float, float, float]
        position_axes: tuple[bool, bool, bool]
        orientation_axes: tuple[bool, bool, bool]
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
        last_message: str
        last_reached: bool
        diagnosis: str


_register_classes, _unregister_classes = bpy.utils.register_classes_factory(
    (POISE_PG_effector, POISE_PG_armature)
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

# SPDX-License-Identifier: GPL-3.0-or-later
# A property is declared once for Blender and once, under TYPE_CHECKING, with its type.
# pyright: reportRedeclaration=false
"""All lasting state of the add-on: `Object.poise` on the armature object.

Lengths are metres and angles are radians, as Blender stores them. No property does any work when it changes.
Every property can be overridden, so that a character linked from another file can carry effectors, see
`overrides` for how that is kept.
"""

from collections.abc import Sequence
from math import pi, radians
from typing import TYPE_CHECKING, Any, Final

import bpy
from bpy.props import (
    BoolProperty,
    CollectionProperty,
    EnumProperty,
    FloatProperty,
    IntProperty,
    IntVectorProperty,
    PointerProperty,
    StringProperty,
)
from bpy.types import Object, PropertyGroup

from ...core.errors import IKError
from ...core.problem.options import METHODS, USED_BY, SolverOptions
from .effector_properties import CLASSES as EFFECTOR_CLASSES
from .effector_properties import POISE_PG_effector
from .joint_properties import CLASSES as JOINT_CLASSES
from .joint_properties import (
    OVERRIDE,
    POISE_PG_joint,
    POISE_PG_mass,
    POISE_PG_mesh_mass,
    POISE_PG_role,
)

if TYPE_CHECKING:
    from bpy.types import bpy_prop_collection_idprop

EXTENSION: Final = __name__.removesuffix(".scene.properties.settings")
"""Under which name Blender knows the add-on: that of an extension has its repository before it."""

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
    "constant_damping",
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
    """Give `armature_object.poise` with its type, which Blender's stubs cannot know.

    Raises:
        IKError: The add-on is not registered, as in a script that has only imported it.
    """
    try:
        return armature_object.poise  # pyright: ignore[reportAttributeAccessIssue]
    except AttributeError:
        if hasattr(Object, "poise"):
            raise
        raise IKError(
            f"Poise is not registered in this Blender, so {armature_object.name!r} has no settings of it: "
            f"call {EXTENSION}.register() once, before anything else of Poise"
        ) from None


def _live_switched(settings: "POISE_PG_armature", context: Any) -> None:
    """Mark that the body is to be solved at the next update."""
    settings.live_memory = (0,) * 16
    settings.live_left = ""  # influences begin at the pose that there is now
    settings.live_problem = ""
    owner: Any = settings.id_data
    owner.update_tag()


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
    masses: CollectionProperty(
        name="Masses",
        description="What bones weigh, in place of what they would by their lengths",
        type=POISE_PG_mass,
        override={'LIBRARY_OVERRIDABLE', 'USE_INSERTION'},
    )
    mass_source: EnumProperty(
        name="Masses",
        description="What bones weigh whose own mass is not set",
        items=(
            ('ROLES', "By Role", "As the parts of people's bodies, where the table of roles is theirs"),
            ('LENGTHS', "By Length", "As a body of one density, thicker where its bones are longer"),
            ('MESHES', "By Mesh", "As the meshes that go with them, of one density, when last measured"),
        ),
        default='ROLES',
        override=OVERRIDE,
    )
    mesh_masses: CollectionProperty(
        name="Mesh Masses",
        description="What of the meshes goes with each bone, as it was measured",
        type=POISE_PG_mesh_mass,
        override={'LIBRARY_OVERRIDABLE', 'USE_INSERTION'},
    )
    mesh_volume: FloatProperty(
        name="Mesh Volume",
        description="What the meshes enclose in all, as it was measured",
        min=0.0,
        unit='VOLUME',
        override=OVERRIDE,
    )
    body_mass: FloatProperty(
        name="Body Mass",
        description="What the body weighs in all, for bones whose own mass is not set",
        default=70.0,
        min=1e-3,  # nothing at all could not be balanced
        soft_max=1000.0,
        unit='MASS',
        override=OVERRIDE,
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
    smoothness: FloatProperty(
        name="Smoothness",
        description="Time over which a baked motion is smooth; 0 solves each frame by itself",
        default=SolverOptions.smoothness,
        min=0.0,
        soft_max=2.0,
        precision=3,
        step=1,
        subtype='TIME_ABSOLUTE',
        unit='TIME_ABSOLUTE',
        override=OVERRIDE,
    )
    pop_angle: FloatProperty(
        name="Pop Angle",
        description="A bake reports that the pose flips where the turn of a bone changes by more than this "
        "from one frame to the next, out of proportion to the frames beside it",
        default=SolverOptions.pop_angle,
        min=1e-4,
        max=pi,
        precision=2,
        step=10,
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
    constant_damping: BoolProperty(
        name="Constant Damping",
        description="Steps are damped as much near the targets as far from them: steadier, and slower",
        default=SolverOptions.constant_damping,
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
    live_origin: StringProperty(
        name="Live Origin",
        description="Where others than live mode have left each bone: there influences below 1 begin",
        options={'HIDDEN'},
        override=OVERRIDE,
    )
    live_left: StringProperty(
        name="Live Left",
        description="Check sums of the bones as live mode has left them",
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
    last_bake: StringProperty(
        name="Last Bake",
        description="What the last bake had to say",
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
        masses: bpy_prop_collection_idprop[POISE_PG_mass]
        mass_source: str
        mesh_masses: bpy_prop_collection_idprop[POISE_PG_mesh_mass]
        mesh_volume: float
        body_mass: float
        roles: bpy_prop_collection_idprop[POISE_PG_role]
        active_role: int
        method: str
        iterations: int
        tolerance_position: float
        tolerance_rotation: float
        smoothness: float
        pop_angle: float
        damping: float
        constant_damping: bool
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
        live_origin: str
        live_left: str
        live_problem: str
        last_message: str
        last_reached: bool
        last_bake: str
        diagnosis: str


_register_classes, _unregister_classes = bpy.utils.register_classes_factory(
    (*JOINT_CLASSES, *EFFECTOR_CLASSES, POISE_PG_armature)
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

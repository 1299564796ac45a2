# SPDX-License-Identifier: GPL-3.0-or-later
"""All lasting state of the add-on: `Object.poise` on the armature object.

Lengths are metres and angles are radians, as Blender stores them. No property does any work when it changes.
Every property can be overridden, so that a character linked from another file can carry effectors, see
`overrides` for how that is kept.
"""

from collections.abc import Sequence
from math import pi, radians
from typing import TYPE_CHECKING, Any, Final

import bpy
from bpy.types import Action, Object, PropertyGroup

from ...core.errors import IKError
from ...core.messages import Message
from ...core.problem.options import METHODS, USED_BY, SolverOptions
from .declared import Declared, angle, entries, enum, flag, length, link, number, text, whole, wholes
from .effector_properties import CLASSES as EFFECTOR_CLASSES
from .effector_properties import POISE_PG_effector
from .joint_properties import CLASSES as JOINT_CLASSES
from .joint_properties import POISE_PG_joint, POISE_PG_mass, POISE_PG_mesh_mass, POISE_PG_role

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


SOLVE_MARGIN: Final = 0.5
"""Part of the user's tolerance [1] to which is solved: Blender holds poses in single precision."""


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
            "Poise is not registered in this Blender, so {armature!r} has no settings of it: call "
            "{extension}.register() once, before anything else of Poise",
            armature=armature_object.name,
            extension=EXTENSION,
        ) from None


def check_editable(armature_object: Object | None) -> None:
    """Refuse what can have no settings that last (IKError: no object, not an armature, or linked)."""
    if armature_object is None:
        raise IKError("no armature object is given: select an armature")
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


def _live_switched(settings: "POISE_PG_armature", context: Any) -> None:
    """Mark that the body is to be solved at the next update."""
    settings.live_digests = (0,) * 12
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
    live_digests: Sequence[int] = wholes("Live Digests", size=12, options={'HIDDEN'})(
        "Hashes of what the pose was solved for: live mode solves again when one changes"
    )
    live_origin: str = text("Live Origin", options={'HIDDEN'})(
        "Poses of bones that live mode has not written: influences below 1 begin there"
    )
    pose_note: str = text("Pose Note", options={'HIDDEN'})(
        "Checksums of the bones as Poise has left or seen them, and targets of the solve that has left them"
    )
    live_problem: str = text("Live Problem")("Why live mode cannot solve")
    last_message: str = text("Last Message")("Report of the last solve or bake")
    last_reached: bool = flag("Last Reached")(
        "Whether every enabled effector reached its target in the last solve or bake"
    )
    last_bake: str = text("Last Bake")("Report of the last bake")
    last_frames: str = text("Frames to Look At")(
        "Frames of the last bake in which the pose flips or a target is missed by most, line by line"
    )
    diagnosis: str = text("Diagnosis")("Report of the last diagnosis, line by line")


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
    (*JOINT_CLASSES, *EFFECTOR_CLASSES, POISE_PG_armature, POISE_PG_action)
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

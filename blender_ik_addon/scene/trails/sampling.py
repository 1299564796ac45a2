# SPDX-License-Identifier: GPL-3.0-or-later
"""Places of bones and objects at other frames than the present one, without going there.

Two ways, which give the same:

- by keys: where nothing but F-curves acts on a bone and on the object, the curves are evaluated and the pose
  follows by forward kinematics. Blender is asked for values of curves alone, at any time.
- by evaluation: constraints, drivers, NLA strips and bones as parents act only when Blender evaluates them. A
  scene is made for a moment that holds the armature object alone; Blender evaluates there what the armature
  depends on, and no mesh that it deforms. That scene's dependency graph is not the active one, so Blender
  writes nothing back: the frame of the scene, values without keys and simulations stay as they are.

Where only Live poses the body it is solved as if the scene went there. What is animated of the effectors
themselves is taken from their F-curves: Blender writes it only at the frame that it shows.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ...core import forward_kinematics, solve
from ...core.arrays import FloatArray
from ...core.messages import Message
from ...core.model.kinematics import joint_matrices
from ...core.model.rotation import matrix_in_mode
from ..animation.fcurves import (
    Channel,
    acting,
    bone_path,
    driven_channels,
    is_muted,
    own_curves,
    rotation_channel,
    sample_channels,
)
from ..armature.armature import Armature
from ..armature.poses import (
    FIRST,
    PROPERTIES,
    PoseNote,
    RawPose,
    named_bones,
    pose_bytes,
    poses_of,
    raw_channels,
)
from ..bake.frames import frame_times
from ..effectors.effectors import targets_of
from ..live.following import held
from ..properties.settings import (
    FOOT_ANGLES,
    FOOT_POINTS,
    FURTHER_BONES,
    SETTINGS_PATH,
    SIDELESS,
    SOLE_AXES,
    effector_path,
    plain,
    settings_of,
)
from ..rig.noted import held_by_keys, renewed_origin
from ..rig.rig import Rig

SCENE: Final = ".Poise Trails"
"""Name of the scene that is made for a moment."""

CurveValues = Mapping[Channel, FloatArray]
"""Values of the F-curves of an object at frames, by channel, (F,)."""

_POSED: Final = ("location", "rotation", "scale", "rotation_mode", "bbone", "constraints")
"""How paths of a bone's properties begin that move it."""

AMOUNTS: Final = ("influence", "height", "distance", *FOOT_ANGLES)
"""Properties of an effector that are read at each frame."""
_SETTINGS: Final = (
    *("bone", "state", "point", "axis", "toe_bone"),
    *(*FURTHER_BONES, *SIDELESS, *FOOT_POINTS, *SOLE_AXES),
)
"""Properties of an effector from which is solved, these among them."""


@dataclass(frozen=True)
class Ends:
    """Where bones and targets are, in the world."""

    bones: FloatArray
    """Heads and tails, (F, b, 2, 3) [m]."""
    targets: FloatArray
    """(F, t, 3) [m]."""


@dataclass(frozen=True)
class Sampled:
    """What is to be sampled."""

    armature: Armature
    bones: tuple[str, ...]
    """(b,)."""
    lengths: FloatArray
    """Of these bones at rest, (b,) [m]."""
    targets: tuple[str, ...]
    """Names of objects, (t,)."""

    def joints(self) -> list[int]:
        """Indices of the bones, (b,)."""
        return [self.armature.skeleton.index(bone) for bone in self.bones]

    def ends(self, matrices: FloatArray) -> FloatArray:
        """Heads and tails (..., b, 2, 3) of the bones, whose matrices are (..., b, 4, 4)."""
        heads = matrices[..., :3, 3]
        return np.stack([heads, heads + matrices[..., :3, 1] * self.lengths[:, None]], axis=-2)

    def shown(self, armature_object: Object, depsgraph: Any) -> Ends:
        """Where they are in a depsgraph at its frame, F = 1."""
        posed: Any = armature_object.evaluated_get(depsgraph)
        world = np.array(posed.matrix_world, dtype=np.float64)
        bones = [posed.pose.bones[bone].matrix for bone in self.bones]
        matrices = world @ np.array(bones, dtype=np.float64).reshape(-1, 4, 4)
        objects: Any = bpy.data.objects
        places = [objects[name].evaluated_get(depsgraph).matrix_world.translation for name in self.targets]
        return Ends(self.ends(matrices)[None], np.array(places, dtype=np.float64).reshape(1, -1, 3))


# By keys


def moved_by_others(armature_object: Object, bones: Iterable[str]) -> str:
    """Say what but keys moves bones, their parents or the object, in words; empty if nothing does."""
    chain: set[str] = set()
    pose: Any = armature_object.pose
    for name in bones:
        chain.update([name, *(above.name for above in pose.bones[name].parent_recursive)])
    for bone, constraint in acting(armature_object, (pose.bones[name] for name in sorted(chain))):
        return Message("{name} has the constraint {constraint!r}", name=bone.name, constraint=constraint.name)
    for bone, constraint in acting(armature_object, pose.bones):
        if constraint.type in {'IK', 'SPLINE_IK'}:
            return Message("{bone} has inverse kinematics of Blender", bone=bone.name)
    for driven, _ in driven_channels(armature_object):
        for name in chain:
            path = bone_path(name, "")
            if driven.startswith(path) and driven[len(path) :].startswith(_POSED):
                return Message("{name} has a driver", name=name)
    return object_moved_by_others(armature_object)


def object_moved_by_others(obj: Object) -> str:
    """Say what but keys moves an object or its parents, in words; empty if nothing does."""
    animation: Any = obj.animation_data
    if any(acting(obj, [obj])):
        return Message("{obj} has constraints", obj=obj.name)
    if any(not path.startswith("pose.bones") for path, _ in driven_channels(obj)):
        return Message("{obj} has drivers", obj=obj.name)
    if animation is not None and animation.use_nla and len(animation.nla_tracks):
        return Message("{obj} plays NLA strips", obj=obj.name)
    if obj.rigid_body is not None:
        return Message("{obj} is a rigid body", obj=obj.name)
    if obj.parent is None:
        return ""
    return (
        Message("{obj} has a bone as its parent", obj=obj.name)
        if obj.parent_type != 'OBJECT'
        else object_moved_by_others(obj.parent)
    )


def curve_values(obj: Object, times: FloatArray, *, whole: bool = True) -> CurveValues:
    """Evaluate the curves of an object's own action at times (F,); those of its bones only with `whole`."""
    moments = times.tolist()
    return {
        channel: np.array([curve.evaluate(moment) for moment in moments])
        for channel, curve in own_curves(obj).items()
        if (whole or not channel[0].startswith("pose.bones")) and not is_muted(curve) and not curve.is_empty
    }


def world_from_object(obj: Any, times: FloatArray) -> FloatArray:
    """Return world_from_object at times, (F, 4, 4) [m], of an object that nothing but keys moves."""

    def values(path: str) -> FloatArray:
        return sample_channels(obj, [(path, index) for index in range(len(getattr(obj, path)))], times)

    mode = obj.rotation_mode
    name = rotation_channel(mode)[0]
    linear = matrix_in_mode(mode, values(name))
    if name != "rotation_axis_angle":  # which has no delta of its own
        linear = matrix_in_mode(mode, values(f"delta_{name}")) @ linear
    scale = values("scale") * values("delta_scale")
    basis = np.zeros((len(times), 4, 4))
    basis[:, :3, :3] = linear * scale[:, None, :]
    basis[:, :3, 3] = values("location") + values("delta_location")
    basis[:, 3, 3] = 1.0
    if obj.parent is None:
        return basis
    return (
        world_from_object(obj.parent, times) @ np.array(obj.matrix_parent_inverse, dtype=np.float64) @ basis
    )


def sample_keys(
    armature_object: Object, sampled: Sampled, frames: Sequence[int], curves: CurveValues
) -> Ends:
    """Places at frames (F,) by keys alone, of what nothing else moves.

    Args:
        frames: Of the scene, (F,).
        curves: Of the armature object at these frames.
    """
    times = frame_times(frames)
    world = world_from_object(armature_object, times)
    objects: Any = bpy.data.objects
    targets = [world_from_object(objects[name], times)[:, :3, 3] for name in sampled.targets]
    places = np.stack(targets, axis=1) if targets else np.zeros((len(times), 0, 3))
    if not sampled.bones:
        return Ends(np.zeros((len(times), 0, 2, 3)), places)
    matrices = _posed_by_keys(armature_object, sampled.armature, len(times), curves)[:, sampled.joints()]
    return Ends(sampled.ends(world[:, None] @ matrices), places)


def _posed_by_keys(
    armature_object: Object, armature: Armature, frames: int, curves: CurveValues
) -> FloatArray:
    """Return armature_from_joint at so many frames of the curves, (F, n, 4, 4) [m]."""
    present = RawPose.read(armature_object, armature, shown=np.empty((0, 4, 4))).channels
    names, modes, values = armature.skeleton.names, armature.rotation_modes, np.tile(present, (frames, 1, 1))
    places = {
        bone_path(name, kind): (joint, first)
        for joint, name in enumerate(names)
        for kind, first in FIRST.items()
    }
    for (path, index), own in curves.items():
        if path in places:
            joint, first = places[path]
            values[:, joint, first + index] = own
    location, scale = values[..., PROPERTIES["location"]], values[..., PROPERTIES["scale"]]
    location[:, armature.connected] = 0.0  # Blender leaves it out
    linear = np.empty((frames, len(names), 3, 3))
    for mode in set(modes):
        joints = [joint for joint, own in enumerate(modes) if own == mode]
        turns = values[:, joints, PROPERTIES[rotation_channel(mode)[0]]]
        linear[:, joints] = matrix_in_mode(mode, turns)
    return joint_matrices(armature.skeleton, location, linear * scale[..., None, :])


# By evaluation


@contextmanager
def evaluated_elsewhere(armature_object: Object, objects: Iterable[Object]) -> Iterator[Any]:
    """Make a scene for a moment, with the armature object and others in it, which can go to other frames.

    Raises:
        RuntimeError: Blender does not let a scene be made at present, as while it draws.
    """
    render = bpy.context.scene.render
    scene: Any = bpy.data.scenes.new(SCENE)
    try:
        for name in ("fps", "fps_base", "frame_map_old", "frame_map_new"):
            setattr(scene.render, name, getattr(render, name))
        for obj in dict.fromkeys([armature_object, *objects]):
            scene.collection.objects.link(obj)
        with held(armature_object):  # the handler of live mode is called there, too
            yield scene
    finally:
        bpy.data.scenes.remove(scene)


def sample_evaluated(
    armature_object: Object, sampled: Sampled, frames: Sequence[int]
) -> tuple[Ends, frozenset[int]]:
    """Places at frames (F,) as Blender evaluates them, and session uids of all on which they depend.

    Raises:
        RuntimeError: As `evaluated_elsewhere`.
    """
    found: list[Ends] = []
    with evaluated_elsewhere(armature_object, [bpy.data.objects[name] for name in sampled.targets]) as scene:
        for frame in frames:
            scene.frame_set(frame)
            found.append(sampled.shown(armature_object, scene.view_layers[0].depsgraph))
        graph = scene.view_layers[0].depsgraph
        blocks = frozenset(block.original.session_uid for block in graph.ids if block.original != scene)
    return Ends(
        *(np.concatenate([getattr(own, name) for own in found]) for name in ("bones", "targets"))
    ), blocks


# By solving


class EntryAtFrame:
    """An effector of the list as it is at another frame."""

    def __init__(self, entry: Any, amounts: dict[str, float]) -> None:
        """Take the entry as it is, and what is animated of it."""
        self._entry, self._amounts = entry, amounts

    def __getattr__(self, name: str) -> Any:
        """Return the property at that frame."""
        return self._amounts[name] if name in self._amounts else getattr(self._entry, name)


def entries_at(armature_object: Object, frame: int) -> list[EntryAtFrame]:
    """Return the list of effectors as it is at a frame, by the F-curves of the armature object."""
    entries: Any = settings_of(armature_object).effectors
    curves = curve_values(armature_object, frame_times([frame]), whole=False)
    amounts: list[dict[str, float]] = [{} for _ in entries]
    for row, own in enumerate(amounts):
        for name in AMOUNTS:
            values = curves.get((effector_path(row, name), 0))
            if values is not None:
                own[name] = float(values[0])
    return [EntryAtFrame(entry, own) for entry, own in zip(entries, amounts, strict=True)]


def unkeyed_settings(armature_object: Object, decided: Collection[Channel]) -> bytes:
    """Return what a solve takes of the effectors that has no keys."""
    found: list[Any] = []
    for row, entry in enumerate(settings_of(armature_object).effectors):
        for name in _SETTINGS:
            if (effector_path(row, name), 0) not in decided:
                found.append(plain(getattr(entry, name)))
    return repr(found).encode()


def is_solvable(armature_object: Object, bones: Iterable[str]) -> bool:
    """Whether the body can be solved at frames that are not shown: F-curves decide all else.

    Args:
        bones: Those that are to be known.
    """
    animation: Any = armature_object.animation_data
    if animation is not None and animation.use_nla and len(animation.nla_tracks):
        return False
    if any(path.startswith(SETTINGS_PATH) for path, _ in driven_channels(armature_object)):
        return False
    animated = [path for path, _ in own_curves(armature_object) if path.startswith(SETTINGS_PATH)]
    if any(path.rpartition(".")[2] not in AMOUNTS for path in animated):
        return False
    return not moved_by_others(armature_object, bones)


def solve_at(armature_object: Object, sampled: Sampled, frame: int) -> FloatArray:
    """Return heads and tails (b, 2, 3) [m] of bones at a frame, as Live poses them from the present pose.

    Raises:
        IKError: Something cannot be solved there.
        RuntimeError: As `evaluated_elsewhere`.
    """
    present = {obj.session_uid for obj in bpy.context.view_layer.objects}
    targets = [target for target in targets_of(armature_object) if target.session_uid in present]
    with evaluated_elsewhere(armature_object, targets) as scene:
        scene.frame_set(frame)
        graph = scene.view_layers[0].depsgraph
        rig = Rig.read(armature_object, graph, drawing=True)
        rig = replace(rig, effectors=held_by_keys(armature_object, rig.effectors, graph))
        raw = rig.read_raw(armature_object, graph, entries_at(armature_object, frame))
        posed = armature_object.evaluated_get(graph)  # the original one stays in the frame that is shown
        raw = replace(raw, pose=RawPose.read(posed, rig.armature, shown=raw.pose.shown))
        note, channels = PoseNote.of(armature_object), raw_channels(posed)
        replayed = named_bones(armature_object, note.differs(pose_bytes(channels)) | (not note.by_live))
    frames = rig.frames_of([raw])
    # As in live mode influences below 1 begin where the animation puts bones, else where they were noted.
    present = poses_of(rig.armature, [raw.pose])[0]
    frames = rig.from_origin(frames, renewed_origin(armature_object, rig.armature, present, replayed))
    options = rig.solver_options(armature_object, frames.largest_scale)
    solution = solve(rig.plan(frames).problem, frames.pose[0], options)
    skeleton = rig.armature.skeleton
    matrices = forward_kinematics(skeleton, solution.pose).matrices
    joints = [skeleton.index(bone) for bone in sampled.bones]
    return sampled.ends(raw.world_from_armature @ matrices[joints])

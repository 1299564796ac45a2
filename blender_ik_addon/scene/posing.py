# SPDX-License-Identifier: GPL-3.0-or-later
"""The use cases: read, solve, write. The only door for operators, command line and scripts.

A solve reads all that it needs, solves without a call into Blender, then writes. A bake reads the targets and
the fixed channels of all frames, solves the sequence, writes the keys in bulk, and then plays them back to
measure, in Blender's own matrices, how far every effector is from its target.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, count
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Collection, Depsgraph, LayerCollection, Object, ViewLayer

from ..core import Diagnosis, IKError, Solution, Status, solve
from ..core.arrays import FloatArray
from ..core.diagnosis import diagnose as diagnosis_of
from ..core.rotation import euler_from_matrix, order_index
from .armature import check_armature, write_pose
from .baking import BakeJob
from .dependence import check_independence
from .effectors import check_evaluated, orientations, reasons
from .properties import KIND_ITEMS, POISE_PG_effector, settings_of
from .reports import BakeReport, EffectorError, Report, Tolerances, all_reached, measured_status
from .restoring import PoseSnapshot
from .rig import Rig, solver_options, tolerances

__all__ = [
    "BakeJob",
    "BakeReport",
    "EffectorError",
    "Report",
    "add_effector",
    "bake",
    "diagnose",
    "make_target",
    "remove_effector",
    "solve_pose",
]

TARGET_SIZE: Final = 0.06
"""Display size of a new target, as a part of the armature's size [1]."""


def solve_pose(armature_object: Object, depsgraph: Depsgraph | None = None) -> Report:
    """Solve the present frame and write the pose.

    Args:
        armature_object: The armature object with effectors.
        depsgraph: Where targets are read; that of the context by default.

    Raises:
        IKError: Something is missing or cannot be posed; nothing is changed then.
    """
    depsgraph = depsgraph or bpy.context.evaluated_depsgraph_get()
    depsgraph.update()
    rig = Rig.read(armature_object, depsgraph)
    reading = rig.read_frame(armature_object, depsgraph)
    problem = rig.problem([reading])
    solution = solve(problem, reading.pose, solver_options(armature_object, reading.scale))
    notes = (*rig.notes, *rig.notes_on_shear(armature_object, depsgraph))
    with _pose_restored_on_error(armature_object):
        write_pose(armature_object, rig.armature, solution.pose, problem.moving_joints)
        depsgraph.update()
        distances, angles = rig.measure(armature_object, depsgraph)
    within = tolerances(armature_object)
    missed = within.missed(distances, angles)
    errors = tuple(
        EffectorError(
            name=effector.name,
            bone=effector.bone,
            position=None if np.isnan(distance) else float(distance),
            rotation=None if np.isnan(angle) else float(angle),
            reached=not miss,
            why=why if miss else "",
        )
        for effector, distance, angle, miss, why in zip(
            rig.effectors,
            distances,
            angles,
            missed,
            reasons(rig.effectors, [error.why for error in solution.errors], reading.scale),
            strict=True,
        )
    )
    message = _solve_message(rig, distances, angles, within, solution, [error.why for error in errors])
    status = measured_status(solution.status, not missed.any())
    report = Report(status, message, solution.iterations, errors, notes)
    rig.show(armature_object, distances, angles, report)
    return report


def _solve_message(
    rig: Rig,
    distances: FloatArray,
    angles: FloatArray,
    within: Tolerances,
    solution: Solution,
    reasons: Sequence[str],
) -> str:
    names = [effector.name for effector in rig.effectors]
    missed = np.flatnonzero(within.missed(distances, angles)).tolist()
    if not missed:
        steps = "1 iteration" if solution.iterations == 1 else f"{solution.iterations} iterations"
        return f"{all_reached(len(names))} after {steps}"
    amounts = ", ".join(within.miss_text(names[e], distances[e], angles[e], reasons[e]) for e in missed)
    message = f"{len(missed)} of {len(names)} targets missed: {amounts}"
    if solution.status is Status.MAX_ITERATIONS:
        message += f"; stopped after {solution.iterations} iterations while still moving: raise Iterations"
    return message


def diagnose(armature_object: Object, depsgraph: Depsgraph | None = None) -> Diagnosis:
    """Say what the present pose allows its effectors: rank, condition, directions that are lost.

    Args:
        armature_object: The armature object with effectors.
        depsgraph: Where pose and targets are read; that of the context by default.

    Returns:
        With directions along world axes; the panel shows its lines.

    Raises:
        IKError: Something is missing or cannot be posed.
    """
    depsgraph = depsgraph or bpy.context.evaluated_depsgraph_get()
    depsgraph.update()
    rig = Rig.read(armature_object, depsgraph)
    reading = rig.read_frame(armature_object, depsgraph)
    found = diagnosis_of(rig.problem([reading]), reading.pose)
    found = found.turned(orientations(reading.world_from_armature))
    frame = f"Frame {bpy.context.scene.frame_current}"
    settings_of(armature_object).diagnosis = "\n".join((frame, *found.lines))
    return found


@contextmanager
def _pose_restored_on_error(armature_object: Object) -> Iterator[None]:
    before = PoseSnapshot.take(armature_object)
    try:
        yield
    except BaseException:
        before.restore(armature_object)
        raise


def bake(
    armature_object: Object,
    frames: Iterable[int] | None = None,
    *,
    progress: Callable[[float], None] | None = None,
) -> BakeReport:
    """Solve frames and write them as keys into the object's own action.

    Args:
        armature_object: The armature object with effectors.
        frames: Increasing whole frames; by default the range in the settings. Older keys of the solved
            channels from the first of them to the last make way.
        progress: Called with the part done in [0, 1]; what it raises stops the bake.

    Raises:
        IKError: Something is missing or cannot be posed; everything is as before then.
    """
    job = BakeJob(armature_object, frames)
    try:
        while job.step():
            if progress is not None:
                progress(job.progress)
    except BaseException:
        job.cancel()
        raise
    return job.finish()


# Making and removing effectors


def add_effector(
    armature_object: Object,
    bone_name: str,
    *,
    kind: str = 'BOTH',
    target: Object | None = None,
    make_target: bool = True,
) -> int:
    """Add an effector for a bone; its index in the list.

    Args:
        armature_object: The armature object.
        bone_name: The bone that follows.
        kind: 'POSITION', 'ORIENTATION' or 'BOTH'.
        target: What it follows.
        make_target: Whether to make an empty at the bone's present place when no target is given.

    Raises:
        IKError: There is no such bone, the armature cannot be posed, or the target depends on it.
    """
    check_armature(armature_object)
    pose: Any = armature_object.pose
    if bone_name not in pose.bones:
        raise IKError(f"{armature_object.name!r} has no bone {bone_name!r}: choose one of its bones")
    kinds = [item[0] for item in KIND_ITEMS]
    if kind not in kinds:
        raise IKError(f"effector for {bone_name!r}: no kind {kind!r}; there are {', '.join(kinds)}")
    if target is not None:
        check_independence(bone_name, target, armature_object)
    elif make_target:
        target = _new_target(armature_object, bone_name, bone_name, kind, (0.0, 0.0, 0.0))
    effectors = settings_of(armature_object).effectors
    names = {entry.name for entry in effectors}
    numbered = (f"{bone_name}.{number:03d}" for number in count(1))
    entry: Any = effectors.add()
    entry.name = next(name for name in chain([bone_name], numbered) if name not in names)
    entry.bone, entry.kind, entry.target = bone_name, kind, target
    return len(effectors) - 1


def remove_effector(armature_object: Object, index: int) -> None:
    """Remove an effector from the list; its target stays in the scene.

    Raises:
        IKError: There is no such effector.
    """
    check_armature(armature_object)
    _entry(armature_object, index)
    settings_of(armature_object).effectors.remove(index)


def make_target(armature_object: Object, index: int) -> Object:
    """Make an empty at the present place of an effector's bone and follow it.

    Raises:
        IKError: There is no such effector, or its bone is missing.
    """
    check_armature(armature_object)
    entry = _entry(armature_object, index)
    entry.target = _new_target(armature_object, entry.bone, entry.name, entry.kind, entry.point)
    entry.target_bone = ""
    return entry.target


def _entry(armature_object: Object, index: int) -> POISE_PG_effector:
    effectors = settings_of(armature_object).effectors
    if not 0 <= index < len(effectors):
        raise IKError(f"{armature_object.name!r} has {len(effectors)} effectors, there is none at {index}")
    return effectors[index]


def _new_target(
    armature_object: Object, bone_name: str, effector_name: str, kind: str, point_bone: Sequence[float]
) -> Object:
    """Make an empty where a point of a bone is, turned as the bone is, and show it beside the armature."""
    depsgraph = bpy.context.evaluated_depsgraph_get()
    check_evaluated(armature_object, (), depsgraph)
    posed: Any = armature_object.evaluated_get(depsgraph)
    if bone_name not in posed.pose.bones:
        raise IKError(f"effector {effector_name!r}: {armature_object.name!r} has no bone {bone_name!r}")
    world_from_bone = np.array(posed.matrix_world) @ np.array(posed.pose.bones[bone_name].matrix)
    if not np.isfinite(world_from_bone).all() or np.linalg.matrix_rank(world_from_bone) < 4:
        raise IKError(
            f"effector {effector_name!r}: bone {bone_name!r} of {armature_object.name!r} is scaled to "
            "nothing, so a target cannot be turned as it is. Reset its scale and its parents' (Alt S) first"
        )
    empty: Any = bpy.data.objects.new(f"{armature_object.name} {effector_name or bone_name}", None)
    empty.empty_display_type = 'SPHERE' if kind == 'POSITION' else 'ARROWS'
    empty.empty_display_size = TARGET_SIZE * max(armature_object.dimensions[:]) or TARGET_SIZE
    empty.location = (world_from_bone @ [*point_bone, 1.0])[:3].tolist()
    # Not by way of matrix_world: in single precision angles are off by up to 0.1 degrees near gimbal lock,
    # where bones are that point to the side.
    turn = euler_from_matrix(orientations(world_from_bone), order_index(empty.rotation_mode))
    empty.rotation_euler = turn.tolist()
    _collection_of(armature_object, bpy.context.view_layer).objects.link(empty)
    return empty


def _collection_of(armature_object: Object, view_layer: ViewLayer) -> Collection:
    """Return the first collection of an object that is shown and into which something can be linked."""

    def shown(layer: LayerCollection) -> Iterator[Collection]:
        if not (layer.exclude or layer.collection.hide_viewport):
            yield layer.collection
        for child in layer.children:
            yield from shown(child)

    for collection in shown(view_layer.layer_collection):
        own = collection.library is None and collection.override_library is None
        if own and armature_object in collection.objects.values():
            return collection
    return bpy.context.scene.collection

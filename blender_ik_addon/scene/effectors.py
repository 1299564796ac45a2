# SPDX-License-Identifier: GPL-3.0-or-later
"""Effector entries and their targets -> tasks, and how far bones are from their targets.

Entries are read into plain data and checked once; targets are read from the evaluated depsgraph, in world
space, with whatever parents, constraints and animation they have. World to armature space is done here, in
one place: core knows armature space only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
from bpy.types import Depsgraph, Object

from ..core import Explanation, IKError, MatchOrientation, ReachPoint, Task
from ..core.arrays import FloatArray
from ..core.rotation import rotvec_from_matrix
from .dependence import check_independence
from .properties import POISE_PG_effector, settings_of

NO_SCALE: Final = 1e-12
"""Length [1] of a matrix column at and below which it has no direction."""


@dataclass(frozen=True)
class Effector:
    """One enabled effector, as plain data."""

    index: int
    """Place in the list of the armature object."""
    name: str
    """Name for messages: its own, or that of its bone."""
    bone: str
    position: bool
    """Whether the bone's point goes to its target's place."""
    orientation: bool
    """Whether the bone takes its target's orientation."""
    target: str
    """Name of the target object, for messages."""
    target_bone: str
    """Name of the bone of the target object that is followed; empty for the object."""
    priority: int
    weight: float
    point: tuple[float, float, float]
    """Point of the bone in its own axes [m], before the bone's scale."""
    position_axes: tuple[bool, bool, bool]
    """World axes."""
    orientation_axes: tuple[bool, bool, bool]
    """The target's axes."""


# Reading entries


def read_effectors(armature_object: Object) -> tuple[Effector, ...]:
    """Read and check the enabled effectors of an armature object.

    Raises:
        IKError: There is none, a bone or target is missing, or a target depends on the armature.
    """
    entries = settings_of(armature_object).effectors
    effectors = tuple(_read(armature_object, i, entry) for i, entry in enumerate(entries) if entry.enabled)
    if not effectors:
        state = "all effectors are disabled: enable" if len(entries) else "there are no effectors: add"
        raise IKError(f"{armature_object.name!r}: {state} one in the sidebar, tab Poise")
    return effectors


def _read(armature_object: Object, index: int, entry: POISE_PG_effector) -> Effector:
    label = entry.name or entry.bone or f"number {index + 1}"
    data: Any = armature_object.data
    if entry.bone not in data.bones:
        missing = f"no bone {entry.bone!r} (renamed?)" if entry.bone else "no bone chosen"
        raise IKError(
            f"effector {label!r} has {missing} in {armature_object.name!r}: choose its bone, or disable it"
        )
    target = _checked_target(label, entry)
    check_independence(label, target, armature_object)
    position, orientation = entry.kind in {'POSITION', 'BOTH'}, entry.kind in {'ORIENTATION', 'BOTH'}
    if (position and not any(entry.position_axes)) or (orientation and not any(entry.orientation_axes)):
        kind = "position" if position and not any(entry.position_axes) else "orientation"
        raise IKError(f"effector {label!r}: all its {kind} axes are off. Switch one on, or change its kind")
    return Effector(
        index=index,
        name=label,
        bone=entry.bone,
        position=position,
        orientation=orientation,
        target=target.name,
        target_bone=entry.target_bone if target.type == 'ARMATURE' else "",
        priority=entry.priority,
        weight=entry.weight,
        point=(entry.point[0], entry.point[1], entry.point[2]),
        position_axes=(entry.position_axes[0], entry.position_axes[1], entry.position_axes[2]),
        orientation_axes=(entry.orientation_axes[0], entry.orientation_axes[1], entry.orientation_axes[2]),
    )


def _checked_target(label: str, entry: POISE_PG_effector) -> Object:
    """Return the target of an entry, if it is there."""
    target = entry.target
    if target is None:
        raise IKError(f"effector {label!r} has no target (deleted?): choose one, make one, or disable it")
    if target.is_missing:
        where = target.library.filepath if target.library is not None else "its file"
        raise IKError(f"effector {label!r}: its target {target.name!r} is missing from {where}. Relink it")
    if target.type == 'ARMATURE' and entry.target_bone:
        bones: Any = () if target.pose is None else target.pose.bones
        if entry.target_bone not in bones:
            raise IKError(
                f"effector {label!r}: its target {target.name!r} has no bone {entry.target_bone!r} "
                "(renamed?). Choose another bone, or none"
            )
    return target


# Reading targets


def check_evaluated(armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph) -> None:
    """Refuse an armature or targets that the depsgraph does not keep up to date.

    `is_evaluated` does not tell: a target that is not shown is in the depsgraph all the same, because the
    effector points to it, but holds what was true when it was last shown. It goes through all that is in the
    depsgraph (1 ms for 1000 objects), so ask once, not at each frame.

    Raises:
        IKError: One is disabled, or was deleted from the scene.
    """
    entries = settings_of(armature_object).effectors
    targets = [(f"effector {e.name!r}: its target", entries[e.index].target) for e in effectors]
    present = {block.original for block in depsgraph.ids}
    for role, obj in [("armature", armature_object), *targets]:
        if obj is not None and obj not in present:
            raise IKError(
                f"{role} {obj.name!r} is not evaluated in this view layer: it was deleted from the scene, is "
                "disabled in viewports, or its collections are. Enable it there (hiding with H does no harm)"
            )


def world_from_targets(
    armature_object: Object, effectors: Sequence[Effector], depsgraph: Depsgraph
) -> FloatArray:
    """Read the matrices of the targets at the depsgraph's frame, (E, 4, 4) [m].

    Raises:
        IKError: A target or its bone is gone, or nowhere.
    """
    entries = settings_of(armature_object).effectors
    matrices = np.empty((len(effectors), 4, 4))
    for row, effector in enumerate(effectors):
        # From the entry, not by name: the target may have been renamed, and names differ only within a file.
        if effector.index >= len(entries) or entries[effector.index].bone != effector.bone:
            raise IKError(f"the effectors of {armature_object.name!r} have changed meanwhile: begin again")
        entry = entries[effector.index]
        target = _checked_target(effector.name, entry).evaluated_get(depsgraph)
        matrices[row] = np.array(target.matrix_world)
        if effector.target_bone:
            assert target.pose is not None
            matrices[row] = matrices[row] @ np.array(target.pose.bones[effector.target_bone].matrix)
        if not np.isfinite(matrices[row]).all():
            scene: Any = depsgraph.scene
            raise IKError(
                f"effector {effector.name!r}: the place of its target {target.name!r} is not a number "
                f"in frame {scene.frame_current}. Look at its drivers, constraints and scale"
            )
    return matrices


def orientations(matrices: FloatArray) -> FloatArray:
    """Return rotations without scale, shear and mirroring, (..., 4, 4) -> (..., 3, 3).

    A mirrored matrix is turned inside out first, as Blender does when it shows a rotation. nan where an axis
    has no length.
    """
    linear = matrices[..., :3, :3]
    lengths = np.linalg.norm(linear, axis=-2, keepdims=True)
    flat = (lengths <= NO_SCALE).any((-2, -1))[..., None, None]
    unit = np.where(flat, np.eye(3), linear) / np.where(flat, 1.0, lengths)
    unit *= np.where(np.linalg.det(unit) < 0.0, -1.0, 1.0)[..., None, None]
    # The nearest rotation: of a sheared matrix no axis is more right than another.
    u, _, vt = np.linalg.svd(unit)
    return np.where(flat, np.nan, u @ vt)


# Tasks and errors


def make_tasks(
    effectors: Sequence[Effector], world_from_target: FloatArray, world_from_armature: FloatArray
) -> tuple[Task, ...]:
    """Return tasks in armature space.

    Weights stay as they are: the solver measures lengths against the reach of the figure, so that a scale of
    the armature object changes nothing.

    Args:
        effectors: The effectors, (E,).
        world_from_target: Matrices of their targets over the frames, (F, E, 4, 4).
        world_from_armature: Matrix of the armature object over the frames, (F, 4, 4): rotation, even scale.

    Returns:
        For each effector the task for its place, then that for its orientation, as far as it has them.

    Raises:
        IKError: A target whose orientation is asked for has none.
    """
    armature_from_world = np.linalg.inv(world_from_armature)
    armature_from_axes = np.swapaxes(orientations(world_from_armature), -1, -2)
    tasks: list[Task] = []
    for number, effector in enumerate(effectors):
        if effector.position:
            places = armature_from_world @ world_from_target[:, number, :, 3, None]  # (F, 4, 1)
            tasks.append(
                ReachPoint(
                    joint=effector.bone,
                    target=places[:, :3, 0],
                    point=np.array(effector.point),
                    axes=effector.position_axes,
                    armature_from_axes=armature_from_axes,
                    priority=effector.priority,
                    weight=effector.weight,
                    name=effector.name,
                )
            )
        if effector.orientation:
            rotations = orientations(world_from_target[:, number])
            if np.isnan(rotations).any():
                raise IKError(
                    f"effector {effector.name!r}: its target {effector.target!r} is scaled to nothing, so it "
                    "has no orientation. Reset its scale (Alt S), or use the kind Position"
                )
            tasks.append(
                MatchOrientation(
                    joint=effector.bone,
                    target=armature_from_axes @ rotations,
                    axes=effector.orientation_axes,
                    priority=effector.priority,
                    weight=effector.weight,
                    name=effector.name,
                )
            )
    return tuple(tasks)


def reasons(
    effectors: Sequence[Effector], explanations: Sequence[Explanation | None], scale: float
) -> list[str]:
    """Say for each effector why its tasks of `make_tasks` were missed; nothing where they were met.

    Args:
        effectors: The effectors, (E,).
        explanations: What the solver says of each task that has a weight, in order; None where it was met.
        scale: World metres to one armature unit.
    """
    whys = iter(explanations)
    texts: list[str] = []
    for effector in effectors:
        if effector.weight == 0.0:
            texts.append("its weight is 0")  # its tasks take no part, and have no errors
            continue
        count = int(effector.position) + int(effector.orientation)
        missed = [why for why in islice(whys, count) if why is not None]
        parts = [why.why(scale) for why in missed]
        if len(set(parts)) > 1:
            kinds = ("orientation" if why.angular else "position" for why in missed)
            parts = [f"{kind} {part}" for kind, part in zip(kinds, parts, strict=True)]
        texts.append("; ".join(dict.fromkeys(parts)))
    return texts


def measure(
    effectors: Sequence[Effector], world_from_bone: FloatArray, world_from_target: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return how far bones are from their targets, along the axes that matter.

    Args:
        effectors: The effectors, (E,).
        world_from_bone: Matrices of their bones, (..., E, 4, 4).
        world_from_target: Matrices of their targets, (..., E, 4, 4).

    Returns:
        Distances [m] and angles [rad], (..., E); nan where the effector does not ask for it, inf where a bone
        is scaled to nothing and has no orientation.
    """
    points = np.array([effector.point for effector in effectors])
    place = (world_from_bone[..., :3, :3] @ points[..., None])[..., 0] + world_from_bone[..., :3, 3]
    away = (place - world_from_target[..., :3, 3]) * [effector.position_axes for effector in effectors]
    distances = np.where([effector.position for effector in effectors], np.linalg.norm(away, axis=-1), np.nan)
    turns = np.swapaxes(orientations(world_from_target), -1, -2) @ orientations(world_from_bone)
    known = np.logical_and.reduce(np.isfinite(turns), axis=(-2, -1))
    vectors = rotvec_from_matrix(np.where(known[..., None, None], turns, np.eye(3)))
    vectors = vectors * [effector.orientation_axes for effector in effectors]
    angles = np.where(known, np.linalg.norm(vectors, axis=-1), np.inf)
    return distances, np.where([effector.orientation for effector in effectors], angles, np.nan)

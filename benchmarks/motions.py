# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of motions: how far targets are missed, how far joints turn from frame to frame, and jumps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from blender_ik_addon.core import MatchOrientation, Problem, ReachPoint, Skeleton
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.model.rotation import rotation_angle

JUMP_RATIO: Final = 3.0
"""A joint jumps when it turns more than so many times as far as any recorded one between two frames [1]."""

JUMP_LEAST: Final = 25.0
"""And at least so far [°]: an elbow nearly straight turns its circle quickly for little motion."""


def effector_errors(problem: Problem, matrices: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Distances [mm] and angles [°] of all targets from matrices (F, n, 4, 4), (F, targets) each."""
    place, turn = [], []
    for task in problem.tasks:
        if isinstance(task, ReachPoint):
            joint = matrices[:, problem.skeleton.index(task.joint)]
            point = (joint[:, :3, :3] @ task.point) + joint[:, :3, 3]
            place.append(1e3 * np.linalg.norm(point - task.target, axis=-1))
        elif isinstance(task, MatchOrientation):
            joint = matrices[:, problem.skeleton.index(task.joint)]
            turn.append(np.degrees(rotation_angle(np.swapaxes(task.target, -1, -2) @ joint[:, :3, :3])))
    return np.stack(place, axis=1), np.stack(turn, axis=1) if turn else np.zeros((len(matrices), 1))


def local_rotations(parents: Iterable[int], matrices: FloatArray) -> FloatArray:
    """Rotations of joints in their parents, of matrices (F, n, 4, 4), (F, n, 3, 3)."""
    rotations = matrices[..., :3, :3]
    local = np.array(rotations)
    for joint, parent in enumerate(parents):
        if parent >= 0:
            local[:, joint] = np.swapaxes(rotations[:, parent], -1, -2) @ rotations[:, joint]
    return local


def joint_steps(skeleton: Skeleton, matrices: FloatArray) -> FloatArray:
    """Angle by which each joint turns in its parent from a frame to the next, (F - 1, n) [°].

    The angle of the turn itself: it does not depend on axes or on Euler angles.
    """
    local = local_rotations(skeleton.parents, matrices)
    return np.degrees(rotation_angle(np.swapaxes(local[:-1], -1, -2) @ local[1:]))


def jumps_of(ours: FloatArray, theirs: FloatArray) -> list[int]:
    """Frames to which a joint jumps: it turns far, and much farther than any recorded joint does there.

    A largest step alone does not show them, since a clip may have larger ones elsewhere.

    Args:
        ours: Turns of the joints from frame to frame, (F - 1, joints) [°].
        theirs: Those of the recording.
    """
    allowed = np.maximum(JUMP_RATIO * theirs.max(axis=1), JUMP_LEAST)
    return [int(step) + 1 for step in np.flatnonzero(ours.max(axis=1) > allowed)]

# SPDX-License-Identifier: GPL-3.0-or-later
"""What Blender shows, measured without the add-on."""

from collections.abc import Iterable
from typing import Any

import bpy
import numpy as np
from mathutils import Vector

from blender_ik_addon.core.arrays import FloatArray


def evaluated(obj: Any) -> Any:
    """An object as it is shown now."""
    return obj.evaluated_get(bpy.context.evaluated_depsgraph_get())


def world_of(armature: Any, bone: str) -> Any:
    """world_from_bone, a Matrix."""
    posed = evaluated(armature)
    return posed.matrix_world @ posed.pose.bones[bone].matrix


def place(armature: Any, bone: str) -> FloatArray:
    """Head of a bone in the world, (3,) [m]."""
    return np.array(world_of(armature, bone).translation)


def matrices(armature: Any) -> FloatArray:
    """Of all bones, in the armature, (n, 4, 4)."""
    return np.array([bone.matrix for bone in evaluated(armature).pose.bones])


def show(time: float) -> None:
    """Set the frame, or a time between two."""
    bpy.context.scene.frame_set(int(time // 1), subframe=float(time % 1))


def played(armature: Any, times: Iterable[float]) -> FloatArray:
    """Matrices of all bones at some frames, (F, n, 4, 4)."""
    found = []
    for time in times:
        show(time)
        found.append(matrices(armature))
    return np.array(found)


def goal_of(entry: Any) -> Any:
    """world_from_target of an effector, a Matrix."""
    matrix = evaluated(entry.target).matrix_world
    return (
        matrix @ evaluated(entry.target).pose.bones[entry.target_bone].matrix if entry.target_bone else matrix
    )


def miss(armature: Any, which: int | str = 0) -> float:
    """Distance of an effector's point from its target [m]."""
    entry = armature.poise.effectors[which]
    return (world_of(armature, entry.bone) @ Vector(entry.point) - goal_of(entry).translation).length


def angle_between(first: Any, second: Any) -> float:
    """Between two orientations [rad]: |A - B| is 2 sqrt(2) sin(angle / 2)."""
    axes = [np.array(matrix, dtype=np.float64)[:3, :3] for matrix in (first, second)]
    apart = np.linalg.norm(np.subtract(*(a / np.linalg.norm(a, axis=0) for a in axes)))
    return float(2.0 * np.arcsin(min(1.0, apart / np.sqrt(8.0))))


def misses(armature: Any, times: Iterable[float], which: int | str = 0) -> FloatArray:
    """Distance [m] and angle [rad] of an effector's bone from its target at some frames, (F, 2)."""
    entry, found = armature.poise.effectors[which], []
    for time in times:
        show(time)
        angle = angle_between(world_of(armature, entry.bone), goal_of(entry))
        found.append((miss(armature, which), angle))
    return np.array(found)

# SPDX-License-Identifier: GPL-3.0-or-later
"""What bones that follow go along with: the effectors that carry them.

The hips carry the chest where they are put somewhere; otherwise what the body stands on carries both. A bone
that follows is held where it was when others posed it last, taken along from there as its carriers have moved
since. So where a body is drawn to depends on where its targets are, not on the way by which they came there.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from bpy.types import Armature, Bone, Object

from ...core.arrays import FloatArray
from ...core.model.rotation import matrix_from_rotvec
from ..kinds.frame_data import orientations
from ..kinds.kinds import Effector, standing


def carriers(armature_object: Object, effectors: Sequence[Effector], own: Effector) -> list[int]:
    """Positions among effectors of those that carry the bone of one that follows.

    The nearest above it in the armature that places its bone; or else those on which the body stands.
    """
    able = [e.position and e.goal.pinnable and not e.follows for e in effectors]
    placed = {e.bone: row for row, e in enumerate(effectors) if able[row]}
    bone: Bone | None = cast(Armature, armature_object.data).bones[own.bone].parent
    while bone is not None:
        if bone.name in placed:
            return [placed[bone.name]]
        bone = bone.parent
    return [row for row in standing(effectors) if able[row]]


def stance(
    armature_object: Object,
    effectors: Sequence[Effector],
    own: Effector,
    targets: Sequence[FloatArray],
    up: FloatArray,
) -> FloatArray | None:
    """armature_from_stance of what carries the bone of one that follows, (4, 4) [m]; None where nothing does.

    It is at the mean of their places, as high as the lowest, turned about the vertical as they are turned on
    average from how they rest: a foot that is lifted or hips that are bent do not lift or bend the rest.

    Args:
        targets: armature_from_target of each effector, (4, 4) [m].
        up: The vertical in armature space, of length 1: the Z axis of the stance.
    """
    rows = carriers(armature_object, effectors, own)
    if not rows:
        return None
    bones: Any = cast(Armature, armature_object.data).bones
    places, turn = np.array([targets[row][:3, 3] for row in rows]), np.zeros((3, 3))
    for row in rows:
        if effectors[row].goal.orientation:
            at_rest = np.array(bones[effectors[row].bone].matrix_local)[:3, :3]
            turn += np.nan_to_num(orientations(targets[row])) @ at_rest.T
    sine = up @ (turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1])
    cosine = np.trace(turn) - up @ turn @ up
    found, heights = np.eye(4), places @ up
    found[:3, :3] = matrix_from_rotvec(np.arctan2(sine, cosine) * up) @ _upright(up)
    found[:3, 3] = places.mean(axis=0) + (heights.min() - heights.mean()) * up
    return found


def _upright(up: FloatArray) -> FloatArray:
    """A rotation whose Z axis is a direction, (3, 3)."""
    across = np.cross(np.eye(3)[np.argmin(np.abs(up))], up)
    across /= np.linalg.norm(across)
    return np.column_stack([across, np.cross(up, across), up])

# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects and bones by their own channels: read and written without the rounding of matrices."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ...core.arrays import FloatArray
from ...core.model.euler import EULER_ORDERS, order_index
from ...core.model.rotation import (
    axis_angle_from_quat,
    euler_from_matrix_near,
    matrix_from_euler,
    quat_from_matrix,
)
from ..animation.fcurves import ROTATION_CHANNELS, animated_channels, rotation_channel
from ..armature.rotation_modes import matrix_from_bone_axis_angle, matrix_from_bone_quat
from ..armature.symmetry import rotation_in

PLACED_BY: Final = frozenset(
    {"location", "scale", *(path for path, _ in ROTATION_CHANNELS.values())}
    | {"delta_location", "delta_scale", "delta_rotation_euler", "delta_rotation_quaternion"}
)
"""Properties whose keys move an object."""


def world_from_basis(target: Any) -> FloatArray:
    """Return world_from_basis of an object, (4, 4): what its own channels are added to.

    From the channels of its parents, where these are plain objects: in double precision, and up to date.
    """
    if target.parent is None:
        return np.eye(4)
    if target.parent_type != 'OBJECT':
        return np.array(target.matrix_world) @ np.linalg.inv(np.array(target.matrix_basis))
    return world_matrix(target.parent) @ np.array(target.matrix_parent_inverse, dtype=np.float64)


def world_matrix(target: Any) -> FloatArray:
    """Return world_from_object, (4, 4)."""
    animation = target.animation_data
    # What is keyed is in the channels too; what is driven, or played from strips, is so only once evaluated.
    if target.constraints or (
        animation is not None and (len(animation.drivers) or len(animation.nla_tracks))
    ):
        return np.array(target.matrix_world, dtype=np.float64)
    basis = np.eye(4)
    basis[:3, :3] = rotation_of(target) * np.array(target.scale)
    basis[:3, 3] = target.location
    return world_from_basis(target) @ basis


def depth(target: Any) -> int:
    """Return how many parents an object has."""
    return 0 if target.parent is None else 1 + depth(target.parent)


def rides(obj: Any, carrier: Any) -> bool:
    """Whether an object is a child of another, or a child's child, by plain parents without constraints."""
    while obj.parent is not None and obj.parent_type == 'OBJECT' and not obj.constraints:
        if obj.parent == carrier:
            return True
        obj = obj.parent
    return False


def is_moved(obj: Any, carrier: Any = None) -> bool:
    """Whether an object is moved by keys, its own or its parents' up to what carries it."""
    own = any(path in PLACED_BY for path, _ in animated_channels(obj))
    return own or (obj.parent not in {None, carrier} and is_moved(obj.parent, carrier))


def put(target: Any, place: FloatArray, turn: FloatArray) -> None:
    """Move an object by its own channels, not by way of its matrix, whose angles are rounded."""
    above = world_from_basis(target)
    linear = rotation_in(above)
    target.location = np.linalg.solve(above[:3, :3], place - above[:3, 3]).tolist()
    set_rotation(target, linear.T @ turn, None)


def rotations_of(values: FloatArray, mode: str) -> FloatArray:
    """Return the rotations that channels of some rotation mode mean, (F, k) -> (F, 3, 3)."""
    if mode in EULER_ORDERS:
        return matrix_from_euler(values, order_index(mode))
    if mode == 'AXIS_ANGLE':
        return matrix_from_bone_axis_angle(values)
    return matrix_from_bone_quat(values)


def rotation_of(owner: Any) -> FloatArray:
    """Return the rotation of an object or a bone by its own channels, (3, 3)."""
    mode = owner.rotation_mode
    return rotations_of(np.array([getattr(owner, rotation_channel(mode)[0])]), mode)[0]


def set_rotation(owner: Any, turn: FloatArray, near: Sequence[float] | None) -> None:
    """Write a rotation (3, 3) into the own channels of an object or a bone.

    Args:
        owner: The object or bone.
        turn: The rotation.
        near: Which of its representations is meant; without it the one nearest to that which is there.
    """
    if owner.rotation_mode in EULER_ORDERS:
        reference = np.array(owner.rotation_euler if near is None else near)
        owner.rotation_euler = euler_from_matrix_near(
            turn, order_index(owner.rotation_mode), reference
        ).tolist()
        return
    quat = quat_from_matrix(turn)
    if owner.rotation_mode == 'QUATERNION':
        reference = np.array(owner.rotation_quaternion if near is None else near)
        owner.rotation_quaternion = (-quat if quat @ reference < 0.0 else quat).tolist()
        return
    axis, angle = axis_angle_from_quat(quat)
    owner.rotation_axis_angle = (float(angle), *axis.tolist())

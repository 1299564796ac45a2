# SPDX-License-Identifier: GPL-3.0-or-later
"""A bone's rotation in its own mode (Euler, quaternion or axis-angle) and as Euler angles of a joint.

The joint of a bone in quaternion or axis-angle mode has Euler angles in an order that keeps its present
rotation away from gimbal lock. Locks hold components of the bone's own mode; where they leave one axis, that
axis is the joint's one free angle.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ...core.arrays import BoolArray, FloatArray, IntArray
from ...core.model.euler import EULER_ORDERS
from ...core.model.rotation import (
    axis_angle_from_quat,
    continuous_euler,
    continuous_quats,
    euler_from_matrix,
    matrix_from_euler,
    matrix_from_quat,
    nearest_euler,
    quat_from_axis_angle,
    quat_from_matrix,
)

if TYPE_CHECKING:
    from bpy.types import PoseBone

COMFORTABLE_MIDDLE: Final = float(np.radians(60.0))
"""Middle Euler angle [rad] up to which the bone's own axis stays in the middle of the chosen order."""

NO_TURN: Final = 1e-7
"""Sine of half an angle [1] below which single precision knows no axis, and the axis of before is kept."""

OWN_AXIS: Final = (0.0, 1.0, 0.0)
"""The axis [1] that Blender gives to no rotation."""

SIDE: Final = (1.0, 2.0, 4.0)
"""On this side axes start [1]; askew, so that no bend about one or two of a bone's axes lies on its edge."""


def matrix_from_bone_quat(quat: FloatArray) -> FloatArray:
    """Return rotations (..., 3, 3) of quaternions of any length; zero is pi about x, as in Blender."""
    nowhere = ~quat.any(-1, keepdims=True)
    return matrix_from_quat(np.where(nowhere, [0.0, 1.0, 0.0, 0.0], quat))


def matrix_from_bone_axis_angle(axis_angle: FloatArray) -> FloatArray:
    """Return rotations (..., 3, 3) of angle and axis (..., 4); no axis is no rotation, as in Blender."""
    nowhere = ~axis_angle[..., 1:].any(-1, keepdims=True)
    axis = np.where(nowhere, OWN_AXIS, axis_angle[..., 1:])
    angle = np.where(np.squeeze(nowhere, axis=-1), 0.0, axis_angle[..., 0])
    return matrix_from_quat(quat_from_axis_angle(axis, angle))


def far_orders(rotations: FloatArray) -> IntArray:
    """Choose Euler orders, as indices (k,), in which rotations (k, 3, 3) are far from gimbal lock.

    The bone's own axis, y, is in the middle as long as that is comfortable: a bone seldom twists by 90
    degrees, but often swings by as much. Of several comfortable orders it is always the same one, so that
    the angles, and what is solved for them, seldom depend on the pose that was there before.
    """
    in_all_orders = np.broadcast_to(rotations[:, None], (len(rotations), 6, 3, 3))
    angles = euler_from_matrix(in_all_orders, np.arange(6))  # (k, 6, 3)
    middle = np.array(["XYZ".index(order[1]) for order in EULER_ORDERS])
    off = np.abs(angles[:, np.arange(6), middle])  # (k, 6)
    comfortable = (off <= COMFORTABLE_MIDDLE) & (middle == 1)
    return np.where(comfortable.any(1), np.argmax(comfortable, axis=1), np.argmin(off, axis=1))


@dataclass(frozen=True)
class RotationLocks:
    """Which rotation channels of a bone are free and which components of its own mode may be written."""

    free: BoolArray
    """Euler channels x, y, z, (3,)."""
    written: BoolArray
    """w (or angle; never in an Euler mode), x, y, z, (4,)."""
    unsolvable: bool = False
    """Whether the bone is held because its locks fit no Euler channel."""

    @classmethod
    def of(cls, bone: "PoseBone") -> "RotationLocks":
        """Read the locks of a bone."""
        locked = np.array(bone.lock_rotation)
        free = ~locked & ~np.array([bone.lock_ik_x, bone.lock_ik_y, bone.lock_ik_z])
        if bone.rotation_mode in EULER_ORDERS:
            return cls(free, np.concatenate([[False], free]))
        if not bone.lock_rotations_4d:  # the locks then mean Euler angles in these modes too
            return cls(free, np.full(4, free.any()))
        in_quaternions = bone.rotation_mode == 'QUATERNION'
        components = np.array(bone.rotation_quaternion if in_quaternions else bone.rotation_axis_angle)
        if not locked.any() and not bone.lock_rotation_w:
            return cls(free, np.full(4, free.any()))
        if locked.sum() == 2 and not bone.lock_rotation_w and not components[1:][locked].any():
            return cls(free, np.concatenate([[free.any()], free]))
        nothing = np.zeros(4, dtype=np.bool_)
        return cls(nothing[1:], nothing, unsolvable=not locked.all())


def bone_rotations(
    modes: Sequence[str],
    orders: IntArray,
    angles: FloatArray,
    *,
    movable: BoolArray,
    written: BoolArray,
    present: Sequence[FloatArray] | None = None,
) -> list[FloatArray]:
    """Return rotations of k joints in their bones' own modes, continuous over frames.

    Args:
        modes: Rotation mode of each bone, (k,).
        orders: Index of each joint's Euler order, (k,).
        angles: (F, k, 3) angles of the joints [rad].
        movable: (k, 3) angles that may be represented otherwise: neither locked nor limited.
        written: (k, 4) see `RotationLocks`.
        present: For each bone (3,) or (4,) values that the first frame is nearest to. Without them Euler
            angles start as they are, a quaternion with w positive, an axis on the side of `SIDE`.

    Returns:
        For each bone (F, 3) Euler angles, (F, 4) quaternions, or (F, 4) angles and axes.
    """
    kinds = np.array(['EULER' if mode in EULER_ORDERS else mode for mode in modes])
    rotations: dict[int, FloatArray] = {}
    for kind in np.unique(kinds).tolist():
        rows = np.flatnonzero(kinds == kind).tolist()
        first = None if present is None else np.array([present[row] for row in rows])
        if kind == 'EULER':
            values = _continuous_angles(orders[rows], angles[:, rows], movable[rows], first)
        else:
            quats = quat_from_matrix(matrix_from_euler(angles[:, rows], orders[rows]))
            if kind == 'QUATERNION':
                values = continuous_quats(quats, [1.0, 0.0, 0.0, 0.0] if first is None else first)
            else:
                first = _first_axes(quats) if first is None else first
                values = _continuous_axis_angles(quats, first)
                for column, row in enumerate(rows):
                    if written[row, 1:].sum() == 1:
                        axis = int(np.flatnonzero(written[row, 1:])[0])
                        values[:, column] = _about_own_axis(axis, angles[:, row, axis], first[column])
        rotations |= {row: values[:, column] for column, row in enumerate(rows)}
    return [rotations[row] for row in range(len(modes))]


def _continuous_angles(
    orders: IntArray, angles: FloatArray, movable: BoolArray, present: FloatArray | None
) -> FloatArray:
    """Return Euler angles (F, k, 3) of the same rotations, each frame near the one before."""
    values = np.array(angles)
    loose = movable.all(1)
    tight = movable & ~movable.all(1, keepdims=True)
    if present is not None:
        values[0, loose] = nearest_euler(values[0, loose], orders[loose], present[loose])
        values[0] -= np.where(tight, _whole_turns(values[0] - present), 0.0)
    values[:, loose] = continuous_euler(values[:, loose], orders[loose])
    # Otherwise the other solution would move a locked angle or leave its limits: only whole turns are left.
    values[:, tight] = np.unwrap(values[:, tight], axis=0)
    return values


def _first_axes(quats: FloatArray) -> FloatArray:
    """Return a zero angle and the axis (k, 4) of the first of the quaternions (F, k, 4) that turns at all."""
    axes, _ = axis_angle_from_quat(quats)
    turning = np.linalg.norm(quats[..., 1:], axis=-1) > NO_TURN
    joints = np.arange(quats.shape[1])
    axis = axes[np.argmax(turning, axis=0), joints]
    axis = axis * np.where(axis @ np.array(SIDE) < 0.0, -1.0, 1.0)[:, None]
    axis = np.where(turning.any(0)[:, None], axis, OWN_AXIS)
    return np.concatenate([np.zeros((len(joints), 1)), axis], axis=1)


def _continuous_axis_angles(quats: FloatArray, start: FloatArray) -> FloatArray:
    """Return angles and axes (F, k, 4) of quaternions, each near the frame before, the first near `start`."""
    values = np.empty(quats.shape)
    axes, angles = axis_angle_from_quat(quats)
    known = np.linalg.norm(quats[..., 1:], axis=-1) > NO_TURN
    last_angle = start[:, 0]
    last_axis = np.where(start[:, 1:].any(1, keepdims=True), start[:, 1:], OWN_AXIS)
    last_axis = last_axis / np.linalg.norm(last_axis, axis=1, keepdims=True)
    for frame in range(len(quats)):
        axis = np.where(known[frame, :, None], axes[frame], last_axis)
        angle = np.where(known[frame], angles[frame], 0.0)
        side = np.where((axis * last_axis).sum(1) < 0.0, -1.0, 1.0)
        last_axis, last_angle = (
            side[:, None] * axis,
            side * angle - _whole_turns(side * angle - last_angle),
        )
        values[frame, :, 0], values[frame, :, 1:] = last_angle, last_axis
    return values


def _about_own_axis(axis: int, angles: FloatArray, start: FloatArray) -> FloatArray:
    """Return angles and axes (F, 4) about one of the bone's axes, where the other two are locked at zero."""
    side = -1.0 if start[1 + axis] < 0.0 else 1.0
    values = np.zeros((len(angles), 4))
    values[:, 0], values[:, 1 + axis] = side * np.unwrap(angles), side
    values[:, 0] -= _whole_turns(values[0, 0] - start[0])
    return values


def _whole_turns(angle: FloatArray | float) -> FloatArray:
    """Return the whole turns in an angle [rad], as a multiple of 2 pi, nearest to it."""
    return 2.0 * np.pi * np.rint(np.asarray(angle) / (2.0 * np.pi))

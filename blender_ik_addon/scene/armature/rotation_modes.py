# SPDX-License-Identifier: GPL-3.0-or-later
"""A bone's rotation in its own mode (Euler, quaternion or axis-angle) and as Euler angles of a joint.

The joint of a bone in quaternion or axis-angle mode has Euler angles in an order that keeps its present
rotation away from gimbal lock. Locks are on components of the bone's own mode; where they leave one axis,
that axis is the joint's one free angle.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object, PoseBone

from ...core.arrays import BoolArray, FloatArray, IntArray
from ...core.model.rotation import (
    EULER_ORDERS,
    axis_angle_from_quat,
    continuous_euler,
    continuous_quats,
    euler_from_matrix,
    matrix_from_euler,
    matrix_in_mode,
    quat_from_matrix,
)
from ..animation.fcurves import rotation_channel

COMFORTABLE_MIDDLE: Final = float(np.radians(85.0))
"""Middle Euler angle [rad] up to which the bone's own axis stays in the middle of the chosen order: in
another one other poses are near the preferred one, and a pose that is solved again would not stay."""

NO_TURN: Final = 1e-7
"""Sine of half an angle [1] below which single precision has no axis, and the axis before is kept."""

OWN_AXIS: Final = (0.0, 1.0, 0.0)
"""Axis [1] of no rotation, as in Blender."""

SIDE: Final = (1.0, 2.0, 4.0)
"""First axes point to this side [1]; it is askew, so that none about one or two of a bone's axes is on its
edge."""


def matrices_of(modes: Sequence[str], quats: FloatArray, axis_angles: FloatArray) -> FloatArray:
    """Return rotations (k, 3, 3) of bones in quaternion or axis-angle mode, by (k, 4) values for both."""
    in_quats = (np.array(modes) == 'QUATERNION')[:, None, None]
    return np.where(in_quats, matrix_in_mode('QUATERNION', quats), matrix_in_mode('AXIS_ANGLE', axis_angles))


def far_orders(rotations: FloatArray) -> IntArray:
    """Choose Euler orders, as indices (k,), in which rotations (k, 3, 3) are far from gimbal lock.

    The bone's own axis, y, is in the middle as long as that is comfortable: a bone seldom twists by 90°, but
    often swings by as much. Of several comfortable orders it is always the same one, so the angles, and what
    is solved for them, seldom depend on the present pose.
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
    def of(cls, bone: PoseBone) -> "RotationLocks":
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


_LOCKS: Final = ("lock_rotation", "lock_rotation_w", "lock_ik_x", "lock_ik_y", "lock_ik_z")


def locks_of_all(armature_object: Object, bones: Iterable[PoseBone]) -> list[RotationLocks]:
    """Return the locks of all bones, in this order; in bulk, as most have none."""
    pose: Any = armature_object.pose
    loose, free = unset_in(pose.bones, _LOCKS), np.ones(3, dtype=np.bool_)
    in_euler, in_four = (RotationLocks(free, np.array([four, True, True, True])) for four in (False, True))
    return [
        (in_euler if bone.rotation_mode in EULER_ORDERS else in_four)
        if bone.name in loose
        else RotationLocks.of(bone)
        for bone in bones
    ]


def unset_in(bones: Any, properties: Iterable[str]) -> frozenset[str]:
    """Name the bones of a collection of which none of some switches and numbers is set."""
    found = np.zeros(len(bones), dtype=np.bool_)
    for name in properties:
        kind: Any = bpy.types.PoseBone.bl_rna.properties[name]
        buffer: Any = np.empty(
            (len(bones), max(1, kind.array_length)), dtype=np.bool_ if kind.type == 'BOOLEAN' else np.float32
        )
        bones.foreach_get(name, buffer.reshape(-1))
        found |= buffer.any(axis=1)
    return frozenset(name for name, own in zip(bones.keys(), found.tolist(), strict=True) if not own)


def bone_rotations(
    modes: Sequence[str],
    orders: IntArray,
    angles: FloatArray,
    *,
    movable: BoolArray,
    present: Sequence[FloatArray] | None = None,
) -> list[FloatArray]:
    """Return rotations of k joints in their bones' own modes, continuous over frames.

    Args:
        modes: Rotation mode of each bone, (k,).
        orders: Index of each joint's Euler order, (k,).
        angles: (F, k, 3) angles of the joints [rad].
        movable: (k, 3) angles that may change for another representation: neither locked nor limited.
        present: For each bone (3,) or (4,) values that the first frame is nearest to. Without them Euler
            angles start as they are, a quaternion with w positive, an axis on the side of `SIDE`.

    Returns:
        For each bone (F, 3) Euler angles, (F, 4) quaternions, or (F, 4) angles and axes.
    """
    rotations: dict[int, FloatArray] = {}
    kinds = np.array(['EULER' if mode in EULER_ORDERS else mode for mode in modes])
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
                values = _continuous_axis_angles(quats, np.zeros((len(rows), 4)) if first is None else first)
        rotations |= {row: values[:, column] for column, row in enumerate(rows)}
    return [rotations[row] for row in range(len(modes))]


def rotations_in(mode: str, matrices: FloatArray, present: FloatArray | None = None) -> FloatArray:
    """Return rotations (F, 3, 3) in a rotation mode, (F, 3) or (F, 4); see `bone_rotations`."""
    order = EULER_ORDERS.index(mode) if mode in EULER_ORDERS else 0
    angles = euler_from_matrix(matrices, order)[:, None]
    loose = np.ones((1, 3), dtype=np.bool_)
    near = None if present is None else [present]
    return bone_rotations([mode], np.array([order]), angles, movable=loose, present=near)[0]


def rotation_of(owner: Any) -> FloatArray:
    """Return the rotation of an object or a bone by its own channels, (3, 3)."""
    mode = owner.rotation_mode
    return matrix_in_mode(mode, getattr(owner, rotation_channel(mode)[0]))


def set_rotation(owner: Any, turn: FloatArray, near: Sequence[float] | None = None) -> None:
    """Write a rotation (3, 3) into the own channels of an object or a bone.

    Of its representations that is written which is nearest to `near`, or to what is there.
    """
    name = rotation_channel(owner.rotation_mode)[0]
    present = np.array(near or getattr(owner, name), dtype=np.float64)
    setattr(owner, name, rotations_in(owner.rotation_mode, turn[None], present)[0].tolist())


def _continuous_angles(
    orders: IntArray, angles: FloatArray, movable: BoolArray, present: FloatArray | None
) -> FloatArray:
    """Return Euler angles (F, k, 3) of the same rotations, near the frame before, at first to `present`."""
    values = np.array(angles) if present is None else np.concatenate([present[None], angles])
    loose = movable.all(1)
    values[:, loose] = continuous_euler(values[:, loose], orders[loose])
    # Otherwise the other solution would move a locked angle or leave its limits: only whole turns are left.
    tight = movable & ~movable.all(1, keepdims=True)
    values[:, tight] = np.unwrap(values[:, tight], axis=0)
    return values[-len(angles) :]


def _continuous_axis_angles(quats: FloatArray, present: FloatArray) -> FloatArray:
    """Return angles and axes (F, k, 4) of quaternions, each near the frame before, the first near `present`.

    Where there is no axis at present, the axis of the first frame that turns is on the side of `SIDE`.
    """
    axes, angles = axis_angle_from_quat(quats)
    known = np.linalg.norm(quats[..., 1:], axis=-1) > NO_TURN
    first = axes[np.argmax(known, axis=0), np.arange(len(present))]
    first *= np.where(first @ np.array(SIDE) < 0.0, -1.0, 1.0)[:, None]
    first = np.where(known.any(0)[:, None], first, OWN_AXIS)
    length = np.linalg.norm(present[:, 1:], axis=1, keepdims=True)
    first = np.where(length > 0.0, present[:, 1:] / np.where(length > 0.0, length, 1.0), first)
    axes = np.concatenate([first[None], axes])
    # Frames that do not turn have the axis of the last one that does.
    last = np.where(known, np.arange(1, len(axes))[:, None], 0)
    axes[1:] = np.take_along_axis(axes, np.maximum.accumulate(last, axis=0)[..., None], axis=0)
    turned_back = (axes[1:] * axes[:-1]).sum(-1) < 0.0
    side = np.cumprod(np.where(turned_back, -1.0, 1.0), axis=0)
    angles = np.concatenate([present[None, :, 0], np.where(known, side * angles, 0.0)])
    return np.concatenate([np.unwrap(angles, axis=0)[1:, :, None], side[..., None] * axes[1:]], axis=2)

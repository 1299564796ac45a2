# SPDX-License-Identifier: GPL-3.0-or-later
"""Bones near a pose: the rest pose, the present one, or one that was stored."""

from collections.abc import Sequence

import numpy as np

from ....core import Skeleton, StayNear, Task
from ....core.arrays import FloatArray
from ....core.model.rotation import (
    continuous_euler,
    euler_from_matrix_near,
    matrix_from_euler,
    matrix_from_quat,
    rotation_angle,
)
from ..effectors import Effector
from ..frame_data import (
    FrameData,
    Goal,
    Posed,
    Space,
    mixed,
    size,
    turned,
)
from .base import Errors, Kind


class Stay(Kind):
    """Bones stay near a pose, as far as what matters more allows. How far off they are is never a miss."""

    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """Channels of the pose; its angles are named as in the pose that was read, and go on from there."""
        present = frame_data.channels
        if effector.stay == 'PRESENT':
            return Goal(channels=_continuous(present, frame_data.skeleton))
        wanted = np.zeros(present.shape[1:])
        rotation = np.tile(np.eye(3), (len(wanted), 1, 1))
        for stored in effector.stored:
            if stored.bone in frame_data.skeleton.names:
                joint = frame_data.skeleton.index(stored.bone)
                wanted[joint, :3] = stored.location
                rotation[joint] = matrix_from_quat(stored.rotation)
        wanted[:, 3:] = euler_from_matrix_near(rotation, frame_data.skeleton.orders, present[0, :, 3:])
        part = frame_data.part(number)[..., None]
        if frame_data.whole(number):
            return Goal(channels=np.broadcast_to(wanted, present.shape))
        own = matrix_from_euler(present[..., 3:], frame_data.skeleton.orders)
        mixture = np.concatenate([mixed(present[..., :3], wanted[:, :3], part), present[..., 3:]], axis=-1)
        turns = turned(own, np.broadcast_to(rotation, own.shape), part)
        mixture[..., 3:] = euler_from_matrix_near(turns, frame_data.skeleton.orders, present[..., 3:])
        return Goal(channels=_continuous(mixture, frame_data.skeleton))

    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """One."""
        assert goal.channels is not None
        return own_bones(
            effector, goal.channels, frame_data.skeleton, self.chain(effector, frame_data.skeleton)
        )

    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """Of the bone that is furthest off: its offset, where any is located freely, and its turn."""
        assert goal.channels is not None
        joints = self.chain(effector, posed.skeleton)
        counted = posed.skeleton.free[joints] & np.array(masks_of(effector))
        located, turning = counted[:, :3], counted[:, 3:]
        away = np.where(located, (posed.channels - goal.channels)[:, joints, :3], 0.0)
        distances = size(away).max(axis=1, initial=0.0) * posed.scale
        orders = posed.skeleton.orders[joints]
        now, then = posed.channels[:, joints, 3:], goal.channels[:, joints, 3:]
        rotation, wanted = matrix_from_euler(now, orders), matrix_from_euler(then, orders)
        # A bone that turns freely is off by an angle; one with an axis that does not count, by those that do.
        turns = rotation_angle(np.swapaxes(wanted, -1, -2) @ rotation)
        off = np.abs(euler_from_matrix_near(rotation, orders, then) - then)
        whole = np.logical_and.reduce(turning, axis=1)
        angles = np.where(whole, turns, np.where(turning, off, 0.0).max(axis=-1, initial=0.0))
        return (
            distances if located.any() else None,
            angles.max(axis=1, initial=0.0) if turning.any() else None,
        )

    def chain(self, effector: Effector, skeleton: Skeleton) -> list[int]:
        """The bones that stay."""
        own = skeleton.index(effector.bone)
        joints = range(len(skeleton))
        return [joint for joint in joints if effector.whole_body or own in skeleton.ancestors(joint)]


def own_bones(
    effector: Effector, channels: FloatArray, skeleton: Skeleton, joints: Sequence[int]
) -> tuple[Task, ...]:
    """Return the task of joints to stay near channels (F, n, 6), none where none of them can move."""
    able = tuple(joint for joint in joints if (skeleton.free[joint] & masks_of(effector)).any())
    if not able:
        return ()
    return (
        StayNear(
            channels=channels,
            over=able,
            axes=masks_of(effector),
            priority=effector.priority,
            weight=effector.weight,
            name=effector.name,
        ),
    )


def masks_of(effector: Effector) -> tuple[bool, ...]:
    """Which of the six channels count."""
    return (*effector.position_axes, *effector.orientation_axes)


def _continuous(channels: FloatArray, skeleton: Skeleton) -> FloatArray:
    """The same poses (F, n, 6) with angles that go on from frame to frame."""
    angles = continuous_euler(channels[..., 3:], skeleton.orders)
    return np.concatenate([channels[..., :3], angles], axis=-1)

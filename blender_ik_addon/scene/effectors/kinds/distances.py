# SPDX-License-Identifier: GPL-3.0-or-later
"""Distances: from a plane, from a target, from another bone."""

from typing import ClassVar

import numpy as np

from ....core import (
    IKError,
    KeepDistance,
    OnPlane,
    Side,
    Skeleton,
    Task,
)
from ..effectors import Effector
from ..frame_data import (
    FrameData,
    Goal,
    Posed,
    Space,
    mixed,
    normals,
    points_of,
    size,
)
from .base import Errors, Kind, chain_of


class Plane(Kind):
    """The point of the bone is on the XY plane of the target, or never below it."""

    side: ClassVar[Side] = Side.ON

    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """A point of the plane, at the height that is wanted, and its normal."""
        matrices = frame_data.world_from_target[:, number]
        normal = normals(matrices)
        if np.isnan(normal).any():
            raise IKError(
                f"effector {effector.name!r}: its target {effector.target!r} is scaled to nothing along X or "
                "Y, so it has no plane. Reset its scale (Alt S), or choose another target"
            )
        place = matrices[:, :3, 3] + frame_data.lengths[:, number, None] * normal
        if not frame_data.whole(number):
            point = points_of(frame_data.bone(effector.bone), effector.point)
            height = np.einsum("fx,fx->f", normal, point - place)
            if self.side is Side.ABOVE:
                height = np.minimum(height, 0.0)
            place = place + (1.0 - frame_data.part(number)) * height[:, None] * normal
        return Goal(place=place, normal=normal)

    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """One."""
        return (
            OnPlane(
                joint=effector.bone,
                origin=space.place(goal.place),
                normal=space.direction(goal.normal),
                point=np.array(effector.point),
                side=self.side,
                priority=effector.priority,
                weight=effector.weight,
                softness=space.length(effector.softness_position),
                name=effector.name,
            ),
        )

    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """Distance from the plane, or how far below it."""
        assert goal.place is not None and goal.normal is not None
        away = points_of(posed.bone(effector.bone), effector.point) - goal.place
        height = np.einsum("fx,fx->f", goal.normal, away)
        return np.maximum(-height, 0.0) if self.side is Side.ABOVE else np.abs(height), None


class Floor(Plane):
    """The point of the bone is on the plane or on the side to which its normal points."""

    side: ClassVar[Side] = Side.ABOVE


class Distance(Kind):
    """The point of the bone is so far from the target, or from a point of another bone."""

    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """The distance, and from where."""
        place = None if effector.other_bone else frame_data.world_from_target[:, number, :3, 3]
        length = frame_data.lengths[:, number]
        if not frame_data.whole(number):
            point = points_of(frame_data.bone(effector.bone), effector.point)
            if effector.other_bone:
                start = size(point - points_of(frame_data.bone(effector.other_bone), effector.other_point))
            else:
                start = size(point - frame_data.world_from_target[:, number, :3, 3])
            length = mixed(start, length, frame_data.influences[:, number])
        return Goal(place=place, length=length)

    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """One."""
        assert goal.length is not None
        return (
            KeepDistance(
                joint=effector.bone,
                distance=goal.length / space.scale,
                point=np.array(effector.point),
                other=effector.other_bone or None,
                target=np.array(effector.other_point) if effector.other_bone else space.place(goal.place),
                priority=effector.priority,
                weight=effector.weight,
                softness=space.length(effector.softness_position),
                name=effector.name,
            ),
        )

    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """How much too far or too near."""
        point, other = points_of(posed.bone(effector.bone), effector.point), goal.place
        if effector.other_bone:
            other = points_of(posed.bone(effector.other_bone), effector.other_point)
        assert other is not None and goal.length is not None
        return np.abs(size(point - other) - goal.length), None

    def chain(self, effector: Effector, skeleton: Skeleton) -> list[int]:
        """Those above both bones."""
        joints = set(super().chain(effector, skeleton))
        if effector.other_bone:
            joints.update(chain_of(skeleton, effector.other_bone, effector.chain_depth))
        return sorted(joints)

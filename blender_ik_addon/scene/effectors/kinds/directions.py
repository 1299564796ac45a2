# SPDX-License-Identifier: GPL-3.0-or-later
"""Directions: a ray along a bone, and the side to which a limb bends."""

import numpy as np

from ....core import AimAt, PointPole, Task
from ....core.tasks.poles import STRAIGHT
from ...armature.armature import NO_SCALE
from ..effectors import Effector
from ..frame_data import (
    FrameData,
    Goal,
    Posed,
    Space,
    across,
    angle_between,
    points_of,
    size,
    swung,
)
from .base import Errors, Kind


class Aim(Kind):
    """A ray from the point of the bone along one of its axes passes through the target."""

    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """The place at which to point."""
        place = frame_data.world_from_target[:, number, :3, 3]
        if frame_data.whole(number):
            return Goal(place=place)
        start = frame_data.bone(effector.bone)
        origin = points_of(start, effector.point)
        return Goal(
            place=origin + swung(start[:, :3, :3] @ effector.axis, place - origin, frame_data.part(number))
        )

    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """One."""
        return (
            AimAt(
                joint=effector.bone,
                target=space.place(goal.place),
                axis=np.array(effector.axis),
                point=np.array(effector.point),
                priority=effector.priority,
                weight=effector.weight,
                softness=effector.softness_rotation,
                name=effector.name,
            ),
        )

    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """Angle between ray and target; inf where the bone has no such axis."""
        assert goal.place is not None
        bones = posed.bone(effector.bone)
        rays = bones[:, :3, :3] @ effector.axis
        angles = angle_between(rays, goal.place - points_of(bones, effector.point))
        return None, np.where(size(rays) > NO_SCALE, angles, np.inf)


class Pole(Kind):
    """The middle joint of a limb is on that side of its axis where the target is."""

    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """The place to bend to."""
        place = frame_data.world_from_target[:, number, :3, 3]
        if frame_data.whole(number):
            return Goal(place=place)
        root, middle, tip = (frame_data.bone(name)[:, :3, 3] for name in _limb_of(effector))
        bend, towards = across(middle - root, tip - root), across(place - root, tip - root)
        return Goal(place=place - towards + swung(bend, towards, frame_data.part(number)))

    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """One."""
        return (
            PointPole(
                root=effector.root_bone,
                joint=effector.bone,
                tip=effector.tip_bone,
                target=space.place(goal.place),
                priority=effector.priority,
                weight=effector.weight,
                softness=effector.softness_rotation,
                name=effector.name,
            ),
        )

    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """Angle by which the limb would have to swing, less where it is nearly straight, as for the task."""
        assert goal.place is not None
        root, middle, tip = (posed.bone(name)[:, :3, 3] for name in _limb_of(effector))
        bend, towards = across(middle - root, tip - root), across(goal.place - root, tip - root)
        rest = posed.skeleton.armature_from_joint_rest[:, :3, 3]
        joints = [posed.skeleton.index(name) for name in _limb_of(effector)[:2]]
        length = np.linalg.norm(np.subtract(*rest[joints])) * posed.scale
        bent = size(bend) / np.sqrt(size(bend) ** 2 + (STRAIGHT * length) ** 2)
        return None, 2.0 * np.arcsin(bent * np.sin(0.5 * angle_between(bend, towards)))


def _limb_of(effector: Effector) -> tuple[str, str, str]:
    return effector.root_bone, effector.bone, effector.tip_bone

# SPDX-License-Identifier: GPL-3.0-or-later
"""Balance: the centre of mass over what the body stands on."""

from collections.abc import Sequence

import numpy as np

from ....core import Balance, Task
from ....core.arrays import FloatArray
from ..effectors import Effector
from ..frame_data import (
    FrameData,
    Goal,
    Posed,
    Space,
    mixed,
    size,
)
from .base import Errors, Kind


class OverSupport(Kind):
    """The centre of mass is over the target along the ground, or over the middle of what the body stands on.

    All bones count for the centre of mass; those move for it that other effectors reach, and its own chain.
    """

    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """Where the centre of mass should be; its height does not matter."""
        place = frame_data.world_from_target[:, number, :3, 3]
        return Goal(place=self.blended(place, number, frame_data)) if effector.target else Goal()

    def over(self, places: Sequence[FloatArray], number: int, frame_data: FrameData) -> Goal:
        """The same over supports (F, 3) each."""
        return Goal(place=self.blended(np.mean(places, axis=0), number, frame_data))

    def blended(self, place: FloatArray, number: int, frame_data: FrameData) -> FloatArray:
        """Places (F, 3) on the way there from the present centre of mass."""
        if frame_data.whole(number):
            return place
        assert frame_data.body is not None and frame_data.world_from_joint is not None
        return mixed(frame_data.body.centre(frame_data.world_from_joint), place, frame_data.part(number))

    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """One."""
        assert frame_data.body is not None
        return (
            Balance(
                masses=frame_data.body.masses,
                centres=frame_data.body.centres,
                target=space.place(goal.place),
                axes=_ground(effector),
                armature_from_axes=space.armature_from_axes,
                priority=effector.priority,
                weight=effector.weight,
                softness=space.length(effector.softness_position),
                name=effector.name,
            ),
        )

    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """Distance of the centre of mass along the ground."""
        assert posed.body is not None and goal.place is not None
        away = posed.body.centre(posed.world_from_joint) - goal.place
        return size(away * _ground(effector)), None


def _ground(effector: Effector) -> tuple[bool, bool, bool]:
    return effector.position_axes[0], effector.position_axes[1], False

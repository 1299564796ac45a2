# SPDX-License-Identifier: GPL-3.0-or-later
"""Frames: place and orientation of a joint as one task."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from .base import JointTask, Task
from .fields import FrameField, PointField
from .orientations import MatchOrientation
from .points import ReachPoint


@dataclass(frozen=True, repr=False, eq=False)
class ReachFrame(JointTask):
    """Bring a joint to a place and turn it to an orientation.

    It is solved as a `ReachPoint` and a `MatchOrientation` with its priority, weight, softness and name, and
    has an error for each of them.
    """

    target: FrameField = FrameField()
    """armature_from_target, (4, 4) or (F, 4, 4) [m], or a place and a quaternion in a row, (7,) or (F, 7);
    NaN in frames that have none."""
    _: KW_ONLY
    point: PointField = PointField()
    """What point of the joint goes to the place, in its own axes, (3,) [m]."""
    angular: ClassVar[bool] = False
    noun: ClassVar[str] = "frame"

    @property
    def parts(self) -> tuple[Task, ...]:
        """Place and orientation."""
        shared = {name: getattr(self, name) for name in ("priority", "weight", "softness", "name")}
        place, orientation = self.target[..., :3, 3], self.target[..., :3, :3]
        return (
            ReachPoint(self.joint, place, point=self.point, **shared),
            MatchOrientation(self.joint, orientation, **shared),
        )

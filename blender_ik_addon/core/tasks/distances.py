# SPDX-License-Identifier: GPL-3.0-or-later
"""Distances: two points of the body, or one and a place, so far from each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Self

import numpy as np

from ..arrays import FloatArray, alike, lengths
from ..errors import IKError
from ..model.mechanism import Mechanism
from ..model.skeleton import Skeleton
from .base import ORIGIN, PLAIN_AXES, ArrayField, JointTask, PlaceField, PointField, with_frames
from .functions import PointFunctionRows


@dataclass(frozen=True, repr=False, eq=False)
class KeepDistance(JointTask):
    """Keep a point of a joint at a distance from a point of another joint, or from a place."""

    distance: ArrayField = ArrayField(by_frame=True)
    """How far, at least 0, one for all frames or (F,) [m]."""
    _: KW_ONLY
    point: PointField = PointField()
    """The point in the joint's own axes, (3,) [m]."""
    other: str | int | None = None
    """Name or index of the other joint; None for a place."""
    target: PlaceField = PlaceField(default=ORIGIN)
    """The point in the other joint's own axes, (3,), or the place in armature space, (3,) or (F, 3) [m]."""
    angular: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.other is not None and self.target.ndim > 1:
            raise IKError(f"{self.label}: target has shape {self.target.shape}, wanted (3,)")
        if (self.distance < 0.0).any():
            raise IKError(f"{self.label}: distance must be at least 0, one or one for each frame")

    @property
    def target_field(self) -> str:
        """The place, or the distance where both points are of the body."""
        return "target" if self.other is None else "distance"

    @property
    def label(self) -> str:
        """Name for messages."""
        to = "" if self.other is None else f" to {self.other}"
        return self.name or f"distance of {self.joint}{to}"

    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when a joint does not exist, or both are the same point."""
        joints = self.joints(skeleton)
        if len(joints) == 2 and joints[0] == joints[1]:
            raise IKError(f"{self.label}: both points are of one joint, so that their distance never changes")

    def joints(self, skeleton: Skeleton) -> list[int]:
        """The joint, and the other."""
        return super().joints(skeleton) + ([] if self.other is None else [skeleton.index(self.other)])


class DistanceRows(PointFunctionRows, of=KeepDistance):
    """Distances: F = |p − o| − d; where p = o the way apart is along the armature's x."""

    by_frame: ClassVar[tuple[str, ...]] = ("_distance",)

    def __init__(self, tasks: Sequence[KeepDistance], mechanism: Mechanism) -> None:
        skeleton = mechanism.skeleton
        joints = [task.joints(skeleton) for task in tasks]
        # A place is a second point that nothing moves: the first stands for it and has no say.
        points = [
            [(own[0], task.point), (own[-1], task.target if task.other is not None else task.point)]
            for task, own in zip(tasks, joints, strict=True)
        ]
        super().__init__(tasks, points, mechanism)
        self._to_place = np.array([task.other is None for task in tasks])
        self._target = np.stack(
            with_frames([task.target if task.other is None else ORIGIN for task in tasks], 1), axis=1
        )  # (F or 1, E, 3)
        self._distance = np.stack(with_frames([task.distance for task in tasks], 0), axis=1)

    def aimed(self, targets: Sequence[FloatArray]) -> Self:
        """The same rows of one frame with other places (3,) or distances (), as for `KeepDistance.moved`."""
        some = alike(self)
        some._at = None
        some._target, some._distance = self._target.copy(), self._distance.copy()
        for task, target in enumerate(targets):
            (some._target if self._to_place[task] else some._distance)[:, task] = target
        return some

    def function(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """|p − o| − d, and the direction from o to p, against it for o."""
        other = np.where(self._to_place[:, None], self._target, points[:, :, 1])
        away = points[:, :, 0] - other
        length = lengths(away)[..., None]
        direction = np.where(length > 0.0, away / np.where(length > 0.0, length, 1.0), PLAIN_AXES[0])
        back = np.where(self._to_place[:, None], 0.0, -direction)
        return length - self._distance[..., None], np.stack([direction, back], axis=2)[:, :, None]

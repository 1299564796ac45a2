# SPDX-License-Identifier: GPL-3.0-or-later
"""Places that a joint carries: a point of a joint where another joint takes its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from ..arrays import FloatArray
from ..errors import IKError
from ..model.mechanism import Mechanism
from ..model.posed import PosedMechanism
from ..model.skeleton import Skeleton
from .base import anchored
from .fields import PlaceField, PointField
from .points import PointRows, ReachPoint


@dataclass(frozen=True, repr=False, eq=False)
class ReachCarried(ReachPoint):
    """Bring a point of a joint to a place that goes with a point of another joint, and does not turn."""

    _: KW_ONLY
    carrier: str | int
    """Name or index of the joint that carries the place."""
    carrier_point: PointField = PointField()
    """The point in its own axes whose way the place goes, (3,) [m]."""
    carrier_from: PlaceField = PlaceField(by_frame=False)
    """Where that point is when the place is at `target`, in armature space, (3,) [m]."""

    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when a joint does not exist, or carries a place for itself."""
        joint, carrier = self.joints(skeleton)
        if joint == carrier:
            raise IKError(f"{self.label}: a joint cannot carry the place where it should be itself")

    def joints(self, skeleton: Skeleton) -> list[int]:
        """The joint, and that which carries its target."""
        return [skeleton.index(self.joint), skeleton.index(self.carrier)]


class CarriedRows(PointRows, of=ReachCarried):
    """Places that are carried: r = W (p − target − (c − c₀)), J = W (∂p/∂q − ∂c/∂q), c the carrier."""

    by_frame: ClassVar[tuple[str, ...]] = ("_carrier_local",)

    def __init__(self, tasks: Sequence[ReachCarried], mechanism: Mechanism) -> None:
        super().__init__(tasks, mechanism)
        carriers = [(mechanism.skeleton.index(task.carrier), task.carrier_point) for task in tasks]
        self._carriers, self._carrier_local = anchored(carriers, mechanism)
        self._carrier_from = np.array([task.carrier_from for task in tasks])

    def _carried(self, posed: PosedMechanism) -> FloatArray:
        """Where the carriers' points are, (F, E, 3) [m]."""
        return posed.points(self._carriers, self._carrier_local)

    def _placed(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Points, and the way to them from their targets where these are carried now, (F, E, 3) each [m]."""
        if self._known is None or self._known[0] is not posed:
            points = super()._placed(posed)[0]
            self._known = posed, points, points - self._target - self._carried(posed) + self._carrier_from
        return self._known[1:]

    def _motion(self, posed: PosedMechanism) -> FloatArray:
        """The derivative of the points less that of the carriers' points, (F, E, 3, nv)."""
        if self._moving is None or self._moving[0] is not posed:
            carried = posed.point_jacobian(self._carriers, self._carried(posed))
            self._moving = posed, posed.point_jacobian(self._anchors, self._placed(posed)[0]) - carried
        return self._moving[1]

    def alternate_jacobian(self, posed: PosedMechanism) -> FloatArray:
        """That of the points: targets that move have no other."""
        return self.jacobian(posed)

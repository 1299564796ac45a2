# SPDX-License-Identifier: GPL-3.0-or-later
"""Places: a point of a joint at a point of space, or where another joint takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Self

import numpy as np

from ..arrays import FloatArray, IntArray, lengths, times
from ..errors import IKError
from ..model.mechanism import Mechanism
from ..model.posed import Bend, PosedMechanism
from ..model.skeleton import Skeleton
from .base import ALL_AXES, AxisRows, AxisTask, anchored, of_pose, stack_frames
from .fields import PLAIN_AXES, OrientationField, PlaceField, PointField


@dataclass(frozen=True, repr=False, eq=False)
class ReachPoint(AxisTask):
    """Bring a point of a joint to a place."""

    target: PlaceField = PlaceField()
    """Where the point should be, in armature space, (3,) or (F, 3) [m]; NaN in frames that have no target."""
    _: KW_ONLY
    point: PointField = PointField()
    """The point in the joint's own axes, (3,) [m]."""
    axes: tuple[bool, bool, bool] = ALL_AXES
    """Along which axes the place matters."""
    armature_from_axes: OrientationField = OrientationField(default=PLAIN_AXES)
    """Rotation whose columns are those axes in armature space, (3, 3) or (F, 3, 3)."""
    angular: ClassVar[bool] = False
    noun: ClassVar[str] = "position"


class PlaceRows(AxisRows):
    """Places of points: r = W (p − target), J = W ∂p/∂q, W the weight along the chosen axes."""

    by_frame: ClassVar[tuple[str, ...]] = ("_local", "_target", "_axes", "_weights")

    def __init__(
        self,
        weights: Sequence[float],
        anchored: tuple[IntArray, FloatArray],
        targets: Sequence[FloatArray],
        armature_from_axes: Sequence[FloatArray],
        axes: Sequence[tuple[bool, bool, bool]],
    ) -> None:
        """Stack them.

        Args:
            weights: Of the tasks, (E,).
            anchored: Slots that carry the points, and where these are in their frames.
            targets: Of the tasks, (E,).
            armature_from_axes: Likewise, (E,).
            axes: Likewise, (E,).
        """
        super().__init__(weights, axes, angular=False)
        self._anchors, self._local = anchored
        self._target = stack_frames(targets, 1)
        axes_from_armature = np.swapaxes(stack_frames(armature_from_axes, 2), -1, -2)
        # (F, E, 3, 3), rows of axes that are switched off are 0
        self._axes = axes_from_armature * np.array(axes, dtype=np.float64)[..., None]
        self._weights = self._axes * self._weight[:, None, None]
        self._plain = bool((self._weights == PLAIN_AXES).all())
        """Whether W is the identity."""
        self._moving: tuple[PosedMechanism, FloatArray] | None = None
        """The pose that was asked for last, and how the points move there."""

    def _placed(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Points, and the way to them from their targets, (F, E, 3) each [m]."""
        if self._known is None or self._known[0] is not posed:
            points = posed.points(self._anchors, self._local)
            self._known = posed, points, points - self._target
        return self._known[1:]

    def _motion(self, posed: PosedMechanism) -> FloatArray:
        """The derivative of the points, (F, E, 3, nv)."""
        if self._moving is None or self._moving[0] is not posed:
            self._moving = posed, posed.point_jacobian(self._anchors, self._placed(posed)[0])
        return self._moving[1]

    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted distance along each axis, (F, m)."""
        away = self._placed(posed)[1]
        return self._rows(away if self._plain else times(self._weights, away))

    def jacobian(self, posed: PosedMechanism) -> FloatArray:
        """How the points move along each axis, weighted, (F, m, nv)."""
        jacobian = self._motion(posed)
        return self._rows(jacobian if self._plain else self._weights @ jacobian)

    def bend(self, posed: PosedMechanism, multipliers: FloatArray) -> Bend:
        """Exact, from the second derivatives of the points."""
        forces = times(np.swapaxes(self._weights, -1, -2), self._forces(multipliers))
        return posed.bend(forces, self._motion(posed))

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Distances along the chosen axes, (F, tasks) [m]."""
        away = self._placed(posed)[1]
        return lengths(away if self._used is None else times(self._axes, away))


class PointRows(PlaceRows, of=ReachPoint):
    """Points of joints."""

    def __init__(self, tasks: Sequence[ReachPoint], mechanism: Mechanism) -> None:
        skeleton = mechanism.skeleton
        super().__init__(
            [task.weight for task in tasks],
            anchored([(skeleton.index(task.joint), task.point) for task in tasks], mechanism),
            [task.target for task in tasks],
            [task.armature_from_axes for task in tasks],
            [task.axes for task in tasks],
        )

    def alternate_jacobian(self, posed: PosedMechanism) -> FloatArray:
        """Of the targets, as though they were carried by the joints."""
        targets = np.broadcast_to(self._target, (len(posed.values), *self._target.shape[1:]))
        return self._rows(self._weights @ posed.point_jacobian(self._anchors, targets))


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


class SumRows(PlaceRows):
    """Places of sums of points: r = W (Σ s_j p_j − target)."""

    _sum: FloatArray
    """s, (E, P)."""

    @of_pose
    def _points(self, posed: PosedMechanism) -> FloatArray:
        """Where the points are, (F, P, 3) [m]."""
        return posed.points(self._anchors, self._local)

    def _placed(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """The sums, and the way to them from their targets, (F, E, 3) each [m]."""
        sums = np.einsum("ep,fpx->fex", self._sum, self._points(posed))
        return sums, sums - self._target

    def _motion(self, posed: PosedMechanism) -> FloatArray:
        """The derivative of the sums, (F, E, 3, nv)."""
        if self._moving is None or self._moving[0] is not posed:
            moving = posed.point_jacobian(self._anchors, self._points(posed))
            self._moving = posed, np.einsum("ep,fpxv->fexv", self._sum, moving)
        return self._moving[1]


class CarriedRows(SumRows, of=ReachCarried):
    """Places that are carried: r = W (p − target − (c − c₀)), c the carrier's point."""

    def __init__(self, tasks: Sequence[ReachCarried], mechanism: Mechanism) -> None:
        index = mechanism.skeleton.index
        points = [(index(task.joint), task.point) for task in tasks]
        points += [(index(task.carrier), task.carrier_point) for task in tasks]
        self._sum = np.concatenate([np.eye(len(tasks)), -np.eye(len(tasks))], axis=1)
        self._from = [task.carrier_from for task in tasks]
        super().__init__(
            [task.weight for task in tasks],
            anchored(points, mechanism),
            [task.target - task.carrier_from for task in tasks],
            [task.armature_from_axes for task in tasks],
            [task.axes for task in tasks],
        )

    def aimed(self, targets: Sequence[FloatArray]) -> Self:
        """The same rows of one frame with other places, (3,) [m] each."""
        return super().aimed([target - own for target, own in zip(targets, self._from, strict=True)])

# SPDX-License-Identifier: GPL-3.0-or-later
"""Places: a point of a joint at a point of space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Self

import numpy as np

from ..arrays import FloatArray, lengths
from ..model.bends import Bend
from ..model.mechanism import Mechanism
from ..model.posed import PosedMechanism
from .base import ALL_AXES, AxisRows, AxisTask, Rows, Task, stack_frames
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

    @staticmethod
    def rows(tasks: Sequence[Task], mechanism: Mechanism) -> Rows:
        """Stack tasks of this kind."""
        return PointRows([task for task in tasks if isinstance(task, ReachPoint)], mechanism)


class PointRows(AxisRows):
    """Places of points: r = W (p − target), J = W ∂p/∂q, W the weight along the chosen axes."""

    by_frame: ClassVar[tuple[str, ...]] = ("_local", "_target", "_axes", "_weights")

    def __init__(self, tasks: Sequence[ReachPoint], mechanism: Mechanism) -> None:
        super().__init__(tasks, mechanism)
        matrices = np.stack([mechanism.anchor_from_joint(joint) for joint in self._joints], axis=1)
        points = np.array([[*task.point, 1.0] for task in tasks])
        self._local = (matrices @ points[..., None])[..., 0]  # (F, E, 4), a 1 at the end
        self._target = stack_frames([task.target for task in tasks], 1)
        axes_from_armature = np.swapaxes(stack_frames([task.armature_from_axes for task in tasks], 2), -1, -2)
        chosen = np.array([task.axes for task in tasks], dtype=np.float64)
        self._axes = axes_from_armature * chosen[..., None]  # (F, E, 3, 3), rows of switched-off axes are 0
        self._weights = self._axes * self._weight[:, None, None]
        self._plain = all(
            task.armature_from_axes is PLAIN_AXES and task.axes == ALL_AXES and task.weight == 1.0
            for task in tasks
        )
        """Whether W is the identity."""
        self._known: tuple[PosedMechanism, FloatArray] | None = None
        """The pose that was asked for last, and where the points are there."""
        self._missed: tuple[PosedMechanism, FloatArray] | None = None
        """Likewise, and how far they are from their targets."""
        self._moving: tuple[PosedMechanism, FloatArray] | None = None
        """Likewise, and how they move."""

    def _points(self, posed: PosedMechanism) -> FloatArray:
        """Where the points are, (F, E, 3) [m], which residual, Jacobian and errors of one pose all need."""
        if self._known is None or self._known[0] is not posed:
            self._known = posed, posed.points(self._anchors, self._local)
        return self._known[1]

    def _away(self, posed: PosedMechanism) -> FloatArray:
        """From the targets to the points, (F, E, 3) [m]."""
        if self._missed is None or self._missed[0] is not posed:
            self._missed = posed, self._points(posed) - self._target
        return self._missed[1]

    def _motion(self, posed: PosedMechanism) -> FloatArray:
        """The derivative of the points, (F, E, 3, nv), which Jacobian and curvatures of one pose all need."""
        if self._moving is None or self._moving[0] is not posed:
            self._moving = posed, posed.point_jacobian(self._anchors, self._points(posed))
        return self._moving[1]

    def aimed(self, targets: Sequence[FloatArray]) -> Self:
        """The same rows of one frame with other places, (3,) each."""
        some = super().aimed(targets)
        some._missed = None
        return some

    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted distance along each axis, (F, m)."""
        away = self._away(posed)
        return self._rows(away if self._plain else (self._weights @ away[..., None])[..., 0])

    def linearize(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Residual and Jacobian."""
        return self.residual(posed), self.jacobian(posed)

    def jacobian(self, posed: PosedMechanism) -> FloatArray:
        """How the points move along each axis, weighted, (F, m, nv)."""
        jacobian = self._motion(posed)
        return self._rows(jacobian if self._plain else self._weights @ jacobian)

    def alternate_jacobian(self, posed: PosedMechanism) -> FloatArray:
        """Of the targets, as though they were carried by the joints."""
        targets = np.broadcast_to(self._target, (len(posed.values), *self._target.shape[1:]))
        return self._rows(self._weights @ posed.point_jacobian(self._anchors, targets))

    def bend(self, posed: PosedMechanism, multipliers: FloatArray) -> Bend:
        """Exact, from the second derivatives of the points."""
        forces = (np.swapaxes(self._weights, -1, -2) @ self._forces(multipliers)[..., None])[..., 0]
        return posed.bend(forces, self._motion(posed))

    def places(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Points and targets, (F, E, 3) each [m]."""
        points = self._points(posed)
        return points, np.broadcast_to(self._target, points.shape)

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Distances along the chosen axes, (F, tasks) [m]."""
        away = self._away(posed)
        masked = away if self._used is None else (self._axes @ away[..., None])[..., 0]
        return lengths(masked)

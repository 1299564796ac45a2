# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows that are functions of a few points of the body.

What such a task is about is a function F of its K points alone; how the points move is known to the
mechanism. So a kind of task states F and its derivative, and Jacobian and curvature follow:

    J = F' P',      Σ μ ∂²F/∂q∂q = Σ_k (μ F')_k · ∂²p_k/∂q∂q + P'ᵀ (μ F'') P'.

F'' is found by central differences of F' in the 3 K coordinates of the points, exact to about 1e-9: only how
fast Newton's steps converge hangs on it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import ClassVar, Final

import numpy as np

from ..arrays import FloatArray, IntArray
from ..model.mechanism import Mechanism
from ..model.posed import Bend, PosedMechanism
from .base import Rows, Task, anchored, of_pose

DIFFERENCE: Final = 1e-5
"""Step of the differences in units of the reach [1]: truncation about its square, rounding 1e-16 by it."""


class PointFunctionRows(Rows):
    """Rows F(p_1 … p_K) of points of joints, the same number of points and rows for each task."""

    by_frame: ClassVar[tuple[str, ...]] = ("_local",)
    size: ClassVar[int] = 1
    """Rows of each task, R."""

    def __init__(
        self,
        tasks: Sequence[Task],
        points: Sequence[Sequence[tuple[int, FloatArray]]],
        mechanism: Mechanism,
    ) -> None:
        """Stack tasks.

        Args:
            tasks: Of one kind, (E,).
            points: Joint and place in its axes [m] of each point of each task, (E, K).
            mechanism: Which carries the joints.
        """
        self._count = len(points[0])
        self._anchors, self._local = anchored(chain.from_iterable(points), mechanism)
        self._weights: FloatArray = np.array([task.weight for task in tasks], dtype=np.float64)
        self.row_counts = (self.size,) * len(tasks)
        self.angular = np.full(self.size * len(tasks), tasks[0].angular)
        self._step = DIFFERENCE * mechanism.skeleton.reach
        steps = self._step * np.eye(3 * self._count)
        self._nudges: FloatArray = np.concatenate([steps, -steps]).reshape(-1, 1, 1, self._count, 3)
        """Of the differences: each coordinate of the points forward, then each back, (6 K, 1, 1, K, 3)."""

    @abstractmethod
    def function(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """F and F' at points (F, E, K, 3): (F, E, R) and (F, E, R, K, 3)."""

    @of_pose
    def _points(self, posed: PosedMechanism) -> FloatArray:
        """Where the points are, (F, E, K, 3) [m]."""
        points = posed.points(self._anchors, self._local)
        return points.reshape(len(points), len(self._weights), self._count, 3)

    @of_pose
    def _found(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """F and F' there."""
        return self.function(self._points(posed))

    @of_pose
    def _slopes(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Weighted F', (F, E, R, 3 K), and ∂points/∂q, (F, E, 3 K, nv), which Jacobian and curvature need."""
        points = self._points(posed)
        frames, tasks, count, _ = points.shape
        slope = self._found(posed)[1] * self._weights[:, None, None, None]
        moving = posed.point_jacobian(self._anchors, points.reshape(frames, tasks * count, 3))
        slope = slope.reshape(frames, tasks, slope.shape[2], count * 3)
        return slope, moving.reshape(frames, tasks, count * 3, moving.shape[3])

    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted F, (F, m)."""
        rows = self._found(posed)[0] * self._weights[:, None]
        return rows.reshape(len(rows), len(self.angular))

    def jacobian(self, posed: PosedMechanism) -> FloatArray:
        """The Jacobian alone."""
        slope, moving = self._slopes(posed)
        jacobian = slope @ moving
        return jacobian.reshape(len(jacobian), len(self.angular), jacobian.shape[3])

    def bend(self, posed: PosedMechanism, multipliers: FloatArray) -> Bend:
        """Exact to about 1e-9."""
        points = self._points(posed)
        frames, tasks, count, _ = points.shape
        slope, moving = self._slopes(posed)
        nv = moving.shape[3]
        forces = multipliers.reshape(frames, tasks, 1, self.size)
        pulls = (forces @ slope).reshape(frames, tasks * count, 3)
        # Each difference is so many more frames: one by one they would cost as many calls.
        size = count * 3
        nudged = (points + self._nudges).reshape(2 * size * frames, tasks, count, 3)
        again: IntArray = np.arange(len(nudged)) % frames
        slopes = self.select(again).function(nudged)[1].reshape(2, size, frames, tasks, self.size, size)
        change = (slopes[0] - slopes[1]) * (self._weights[:, None, None] / (2.0 * self._step))
        forms = (forces @ change)[..., 0, :].transpose(1, 2, 0, 3)  # F'', (F, E, 3 K, 3 K)
        right = 0.25 * (forms + forms.swapaxes(2, 3)) @ moving
        shape = (frames, tasks * size, nv)
        factors = moving.reshape(shape), right.reshape(shape)
        return posed.bend(pulls, moving.reshape(frames, tasks * count, 3, nv), (factors,))

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Largest of each task's |F|, (F, tasks) [m] or [rad]."""
        return np.abs(self._found(posed)[0]).max(axis=2)

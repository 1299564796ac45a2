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
from ..model.mechanism import Bend, Mechanism, PosedMechanism
from .base import Rows, Task, anchored

DIFFERENCE: Final = 1e-5
"""Step of the differences in units of the reach [1]: truncation about its square, rounding 1e-16 by it."""


class PointFunctionRows(Rows):
    """Rows F(p_1 … p_K) of points of joints, the same number of points and rows for each task."""

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
        super().__init__(tasks, [self.size] * len(tasks))
        self._anchors, self._local = anchored(chain.from_iterable(points), mechanism)
        self._count = len(points[0])
        self._step = DIFFERENCE * mechanism.skeleton.reach
        steps = self._step * np.eye(3 * self._count)
        self._nudges: FloatArray = np.concatenate([steps, -steps]).reshape(-1, 1, 1, self._count, 3)
        """Of the differences: each coordinate of the points forward, then each back, (6 K, 1, 1, K, 3)."""

    @abstractmethod
    def function(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """F and F' at points (F, E, K, 3): (F, E, R) and (F, E, R, K, 3)."""

    def _value(self, posed: PosedMechanism) -> FloatArray:
        points = posed.points(self._anchors, self._local)
        self._points: FloatArray = points.reshape(len(points), len(self.row_counts), self._count, 3)
        values, self._by_points = self.function(self._points)
        return values.reshape(len(values), len(self.angular))

    def _slope(self, posed: PosedMechanism) -> FloatArray:
        frames, tasks, count, _ = self._points.shape
        flat = self._points.reshape(frames, tasks * count, 3)
        self._moving: FloatArray = posed.point_jacobian(self._anchors, flat)
        by_task = self._moving.reshape(frames, tasks, 3 * count, self._moving.shape[3])
        slope = self._by_points.reshape(frames, tasks, self.size, 3 * count) @ by_task
        return slope.reshape(frames, tasks * self.size, slope.shape[3])

    def _bend(self, posed: PosedMechanism, multipliers: FloatArray) -> Bend:
        """Exact to about 1e-9."""
        points, moving = self._points, self._moving
        frames, tasks, count, _ = points.shape
        size, nv = count * 3, moving.shape[3]
        forces = multipliers.reshape(frames, tasks, 1, self.size)
        pulls = forces @ self._by_points.reshape(frames, tasks, self.size, size)
        # Each difference is so many more frames: one by one they would cost as many calls.
        nudged = (points + self._nudges).reshape(2 * size * frames, tasks, count, 3)
        again: IntArray = np.arange(len(nudged)) % frames
        slopes = self.select(again).function(nudged)[1].reshape(2, size, frames, tasks, self.size, size)
        change = (slopes[0] - slopes[1]) / (2.0 * self._step)
        forms = (forces @ change)[..., 0, :].transpose(1, 2, 0, 3)  # F'', (F, E, 3 K, 3 K)
        right = 0.25 * (forms + forms.swapaxes(2, 3)) @ moving.reshape(frames, tasks, size, nv)
        shape = (frames, tasks * size, nv)
        return posed.bend(
            pulls.reshape(frames, tasks * count, 3), moving, ((moving.reshape(shape), right.reshape(shape)),)
        )

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Largest of each task's |F|, (F, tasks) [m] or [rad]."""
        self.residual(posed)
        return np.maximum.reduceat(np.abs(self._found), self._starts, axis=1)

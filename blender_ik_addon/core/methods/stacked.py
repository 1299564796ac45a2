# SPDX-License-Identifier: GPL-3.0-or-later
"""All tasks of one pose as one residual, in the units of the steps.

The papers know no levels: the tasks of all levels are stacked, and weights alone compare them. The heaviest
counts 1.

Channels are u = W q with W² = 1/(1 − stiffness), so that a stiff channel moves less [ChungChoi1994:
Whitney's weighted inverse]. Lengths, of residuals and of translations, are divided by the reach of the
skeleton, so that a skeleton in centimetres takes the same steps as one in metres, and a miss by the reach
counts as one radian. Beside the residual r stands the posture residual u − p, with p the preferred pose.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ..arrays import FloatArray
from ..model.mechanism import PosedMechanism
from ..problem.system import System

HAIR: Final = 1e-9
"""Distance from a limit [rad, m] that is none, as a part of 1 and of where it is: a step that stops on it
ends so far away by rounding."""

SADDLE: Final = 1e-6
"""Curvature of the error [1], in scaled units, that counts as negative."""

BENDS: Final = (0.03, 0.3)
"""Changes by which a pose leaves a saddle [rad], tried in turn until the error falls."""

FALLS: Final = 1e-9
"""Part [1] of the error, or of the posture residual, by which they must fall to count as falling."""


@dataclass(frozen=True)
class Evaluation:
    """The residuals at some values of the free channels."""

    values: FloatArray
    """(nv,) [m, rad], inside the limits."""
    posed: PosedMechanism
    """The mechanism there, one frame."""
    residual: FloatArray
    """r of all tasks, (m,), in scaled units."""
    posture: FloatArray
    """u − p, 0 where a channel prefers nothing, (nv,)."""

    @cached_property
    def error(self) -> float:
        """|r| [1]."""
        return float(np.linalg.norm(self.residual))

    @cached_property
    def strain(self) -> float:
        """|u − p| [1]."""
        return float(np.linalg.norm(self.posture))


class StackedProblem:
    """The tasks of a system of one frame, by scaled channels."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.length = system.problem.skeleton.reach
        """Unit of length [m]."""
        unit = np.where(system.rotates, 1.0, self.length)
        self.weight: FloatArray = np.sqrt(1.0 / (1.0 - system.stiffness)) / unit
        """W, (nv,) [1/m, 1]."""
        heaviest = system.heaviest.max(initial=0.0)
        self.row_scale: FloatArray = np.where(system.angular_rows, 1.0, 1.0 / self.length) / heaviest
        """Factor of each row of the residual, (m,)."""
        self._prefers = ~np.isnan(system.preferred)
        self._preferred = np.where(self._prefers, system.preferred, 0.0) * self.weight
        self._lower, self._upper = system.lower, system.upper
        size = np.abs(np.nan_to_num([self._lower, self._upper], posinf=0.0, neginf=0.0))
        self._hair = HAIR * (1.0 + size)

    @property
    def prefers(self) -> bool:
        """Whether any channel has a preferred value."""
        return bool(self._prefers.any())

    def evaluate(self, values: FloatArray) -> Evaluation:
        """Evaluate at values (nv,), brought inside the limits."""
        posed = self.system.place(np.clip(values, self._lower, self._upper)[None])
        residual = self.system.residual(posed)[0] * self.row_scale
        own = posed.values[0]
        return Evaluation(own, posed, residual, (own * self.weight - self._preferred) * self._prefers)

    def jacobian(self, at: Evaluation, *, alternate: bool = False) -> FloatArray:
        """∂r/∂u, (m, nv); alternate: with targets in place of points [Buss2009 §2]."""
        jacobian = self.system.alternate_jacobian if alternate else self.system.jacobian
        return jacobian(at.posed)[0] * (self.row_scale[:, None] / self.weight)

    def curvature(self, at: Evaluation, forces: FloatArray) -> FloatArray:
        """Σ_k f_k ∂²r_k/∂u∂u for forces (m,), (nv, nv)."""
        curvature = self.system.curvature(at.posed, (forces * self.row_scale)[None])[0]
        return curvature / (self.weight[:, None] * self.weight)

    def moved(self, values: FloatArray, change: FloatArray) -> FloatArray:
        """Values (nv,) after a change of u, inside the limits, and on those that are a hair away."""
        moved = values + change / self.weight
        moved = np.where(moved <= self._lower + self._hair[0], self._lower, moved)
        return np.where(moved >= self._upper - self._hair[1], self._upper, moved)

    def room(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Room of u below and above, (nv,) each."""
        return (self._lower - values) * self.weight, (self._upper - values) * self.weight

    def off_saddle(self, at: Evaluation) -> Evaluation | None:
        """Evaluation beside one that is a saddle of the error, with a smaller error; None where it is none.

        A limb stretched towards a target that is nearer has no slope at all, and every rule stands still. It
        is bent a little along the most negative curvature of the error.
        """
        down, up = self.room(at.values)
        free = (down < -BENDS[0]) & (up > BENDS[0])
        jacobian = self.jacobian(at) * free
        curvature = self.curvature(at, at.residual) * (free[:, None] & free)
        bends, directions = np.linalg.eigh(jacobian.T @ jacobian + curvature)
        if bends[0] > -SADDLE:
            return None
        direction = directions[:, 0] / np.abs(directions[:, 0]).max()
        if direction @ at.posture > 0.0:  # towards the preferred pose first
            direction = -direction
        for size in BENDS:
            for change in (size * direction, -size * direction):
                trial = self.evaluate(self.moved(at.values, change))
                if trial.error < at.error * (1.0 - FALLS):
                    return trial
        return None

# SPDX-License-Identifier: GPL-3.0-or-later
"""Attempts to meet every task, and the short way of a single frame without a wish.

`newton` steps many frames at once, by operations on arrays. Of one frame the residual's length, the damping
and the trust radius are plain numbers, and an operation on an array of one of them costs as much as a row of
forward kinematics. Where nothing is preferred that is most of the work: here the same steps, by the same
rules and to the same answers, take less than half of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from . import newton
from .arrays import BoolArray, FloatArray
from .attempts import Attempt, Goal
from .lagrange import BOUND_ROUNDS, OUTSIDE, PRESSED, SINGULAR, SMALLEST
from .objective import Objective
from .posed import PosedMechanism

_LEAST, _MOST = (tuple(bound.ravel().tolist()) for bound in newton.TRUST_RANGE)
_FACTORS = tuple(zip(*newton.TRUST_FACTORS.tolist(), strict=True))
"""Of μ and of the trust radius, by how a step turned out."""


def attempt(
    objective: Objective,
    values: FloatArray,
    goal: Goal,
    callback: Callable[[int, FloatArray], bool] | None = None,
    posed: PosedMechanism | None = None,
) -> Attempt:
    """Try to meet every task in every frame; see `newton.attempt`."""
    if goal.wish or len(values) != 1:
        return newton.attempt(objective, values, goal, callback, posed)
    way = _Way(objective, objective.clipped(values), goal, posed)
    visited = [way.here]
    iterations = 0
    while not way.here.met and iterations < goal.max_iterations and not (iterations and way.hopeless):
        way.step()
        visited.append(way.here)
        iterations += 1
        if callback is not None and callback(iterations, way.here.posed.values):
            break
    posed, met, errors = way.here.posed, np.array([way.here.met]), way.here.errors
    errors = objective.system.errors(posed) if errors is None else errors
    return Attempt(posed.values, errors, met, np.array([iterations]), _history(objective, visited), posed)


class _Place(NamedTuple):
    """Where the frame is."""

    posed: PosedMechanism
    residual: FloatArray
    """Of all levels, one above the other, (m,), in scaled units."""
    norm: float
    """|r|."""
    errors: FloatArray | None
    """Unweighted error of each task, (1, T) [m] or [rad]; None where |r| tells that one is missed."""
    met: bool
    """Whether every task is within its tolerance."""


def _history(objective: Objective, visited: Sequence[_Place]) -> tuple[FloatArray, ...]:
    """|r| of each level at each of some places, (1, levels) each."""
    if objective.levels == 1:
        norms = np.array([place.norm for place in visited])[:, None]
    else:
        norms = objective.norms_by_level(np.array([place.residual for place in visited]))
    return tuple(norms[:, None])


class _Step(NamedTuple):
    """A step, with what it was made of."""

    change: FloatArray
    """d, (nv,)."""
    size: float
    """Largest change of a channel."""
    multipliers: FloatArray
    """y, (m,)."""
    jacobian: FloatArray
    """J of the free channels, (m, nv)."""
    square: FloatArray
    """JJᵀ + λ² of them, (m, m)."""
    held: BoolArray | None = None
    """Channels that limits hold, (nv,); None for none."""

    def correction(self, residual: FloatArray) -> FloatArray:
        """The change (nv,) that takes away a residual (m,), by the same factors."""
        return -(np.linalg.solve(self.square, residual) @ self.jacobian)


class _Way:
    """One frame on its way, as `newton` leads many."""

    def __init__(
        self, objective: Objective, values: FloatArray, goal: Goal, posed: PosedMechanism | None
    ) -> None:
        self._objective, self._goal = objective, goal
        self._within = objective.norm_within(goal.tolerance)
        """|r| from which on some task is missed."""
        self._bent_beyond = newton.bent_beyond(self._within)
        """|r| from which on it pays to bend steps."""
        self.here = self._place(values) if posed is None else self._at(objective.system.settled(posed))
        """Where it is."""
        self._bends = objective.system.accelerates
        """Whether steps are bent."""
        start = newton.TRUST_START_BENT if self._bends else newton.TRUST_START
        self._damping, self._share = start.ravel().tolist()
        """μ, and the trust radius as a part of the largest change."""
        self._standing: BoolArray | None = None
        """Channels that a limit holds where they are, (nv,); None for none."""
        self._past: list[float] = []
        """|r| before the last iterations, the oldest first."""
        self._resisting = False
        """Whether even the linear model of a step leaves most of the residual."""
        self._stalls, self._length = 0, inf
        """How many of the last steps have stalled, and the largest change of the last one; see `newton`."""

    @property
    def hopeless(self) -> bool:
        """Whether it comes no nearer."""
        if self._share * self._goal.max_angle < newton.SMALLEST_RADIUS:
            return True
        if self._stalls >= newton.STALLED[0] and self.here.norm > self._goal.slack:
            return True
        if len(self._past) < newton.PATIENCE or not self._resisting:
            return False
        return self.here.norm > max(newton.HOPEFUL * self._past[0], self._goal.slack)

    def step(self) -> None:
        """Solve for a step and take it where it brings the residual down."""
        here, goal = self.here, self._goal
        radius = self._share * goal.max_angle
        jacobian = self._objective.stacked_jacobian(here.posed)[0]
        step = self._solved(jacobian, radius)
        bend = self._bend(step) if self._bends else None
        there = self._moved(here, step.change if bend is None else step.change + bend)
        if there.met:
            self.here = there
            return
        there = self._corrected(step, there)

        better = there.norm < here.norm or step.size <= newton.FINE
        good = better and there.norm <= max(newton.GOOD * here.norm, newton.NEAR)
        self._past = [*self._past[-newton.PATIENCE + 1 :], here.norm]
        if len(self._past) == newton.PATIENCE:
            self._resisting = _promised(here, jacobian, step) > newton.HOPEFUL * here.norm
        kept = newton.STALLED[1] * here.norm
        stalls = (there.norm > kept or not better) and step.size <= self._length + newton.ROUNDING
        self._stalls = self._stalls + 1 if stalls and _promised(here, jacobian, step) > kept else 0
        self._length = step.size
        if not better:
            self._share = min(radius, step.size) / goal.max_angle
        more_damping, more_share = _FACTORS[better + good]
        self._damping = min(max(self._damping * more_damping, _LEAST[0]), _MOST[0])
        self._share = min(max(self._share * more_share, _LEAST[1]), _MOST[1])
        if better:
            self.here = there
        self._standing = None
        if step.held is not None:
            standing = step.held & self._objective.on_limit(self.here.posed.values)[0]
            self._standing = standing if standing.any() else None

    def _place(self, values: FloatArray) -> _Place:
        """Forward kinematics and residuals at values inside the limits, (1, nv)."""
        return self._at(self._objective.system.place(values))

    def _at(self, posed: PosedMechanism) -> _Place:
        residual = self._objective.residual(posed)[0]
        norm = _length(residual)
        if norm > self._within:
            return _Place(posed, residual, norm, None, False)
        errors = self._objective.system.errors(posed)
        met = bool(np.logical_and.reduce(errors <= self._goal.tolerance, axis=None))
        return _Place(posed, residual, norm, errors, met)

    def _moved(self, place: _Place, change: FloatArray) -> _Place:
        """Where a change (nv,) leads."""
        return self._place(self._objective.moved(place.posed.values, change))

    def _corrected(self, step: _Step, there: _Place) -> _Place:
        """Where a step leads once what its motion has bent is put back, if that helps."""
        slack, norm = self._goal.slack, self.here.norm
        if self._bends:
            worth = there.norm**2 <= slack * norm
        else:
            worth = there.norm < newton.CORRECTED * norm or step.size < newton.CORRECTED
        if not worth or there.norm <= slack:
            return there
        corrected = self._moved(there, step.correction(there.residual))
        return corrected if corrected.norm <= there.norm else there

    def _bend(self, step: _Step) -> FloatArray | None:
        """What bends a step, ½ a (nv,); None where it does not pay, or no task tells."""
        if step.size < newton.BENT_FROM or not self._bent_beyond < self.here.norm <= newton.BENT_WITHIN:
            return None
        acceleration = self._objective.acceleration(self.here.posed, step.change[None])
        if acceleration is None:
            return None
        bend = 0.5 * step.correction(acceleration[0])
        most, size = newton.MOST_BENT * _length(step.change), _length(bend)
        return bend if size <= most else bend * (most / size)

    def _solved(self, jacobian: FloatArray, radius: float) -> _Step:
        """The damped step inside the limits, and within a radius those that no limit stops."""
        here, free, stopped = self.here, None, None
        if self._standing is None:
            step = self._found(jacobian, here.residual, radius)
            if self._objective.inside(here.posed.values[0] * self._objective.weight + step.change):
                return step  # four of five: nothing else has to be known of limits
        else:
            free, stopped = ~self._standing, np.zeros(len(self._standing))
            step = self._freed(jacobian, free, stopped, radius)
        (down,), (up,) = self._objective.room(here.posed.values)
        for _ in range(BOUND_ROUNDS):
            inside = np.minimum(np.maximum(step.change, down), up)
            outside = np.abs(step.change - inside) > OUTSIDE
            if not np.logical_or.reduce(outside):
                break
            at_limits = inside * outside
            stopped = at_limits if stopped is None else stopped + at_limits
            free = ~outside if free is None else free & ~outside
            step = self._freed(jacobian, free, stopped, radius)
        if free is None:
            return step
        change = np.minimum(np.maximum(step.change, down), up)
        slope = step.change + step.multipliers @ jacobian
        held = ((change <= down) & (slope >= -PRESSED)) | ((change >= up) & (slope <= PRESSED))
        return step._replace(change=change, size=_largest(change), held=held & ~free)

    def _freed(
        self, jacobian: FloatArray, free: BoolArray | None, stopped: FloatArray | None, radius: float
    ) -> _Step:
        """The step with some channels free (None: all) and the others at given changes."""
        if free is None or stopped is None:
            return self._found(jacobian, self.here.residual, radius)
        step = self._found(jacobian * free, self.here.residual + jacobian @ stopped, radius)
        return step._replace(change=step.change + stopped)

    def _found(self, jacobian: FloatArray, residual: FloatArray, radius: float) -> _Step:
        """The damped step towards a residual (m,), shortened to a radius."""
        square = jacobian @ jacobian.T
        diagonal = square.ravel()[:: len(square) + 1]
        floor = SINGULAR * max(SMALLEST, *diagonal.tolist())
        diagonal += self._damping * self.here.norm**2 + newton.DAMPING_FLOOR + floor
        multipliers = np.asarray(np.linalg.solve(square, residual), np.float64)
        change = -(multipliers @ jacobian)
        size = _largest(change)
        if size > radius:
            change *= radius / size
            size = radius
        return _Step(change, size, multipliers, jacobian, square)


def _promised(here: _Place, jacobian: FloatArray, step: _Step) -> float:
    """|r| as the linear model has it after a step."""
    return _length(here.residual + jacobian @ step.change)


def _length(vector: FloatArray) -> float:
    """Euclidean length, (m,)."""
    return sqrt(float(vector @ vector))


def _largest(vector: FloatArray) -> float:
    """Largest magnitude, (n,)."""
    return float(np.maximum.reduce(np.abs(vector), initial=0.0))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Poses that meet every task: Newton's method on Lagrange's conditions, for many frames at once.

Where all targets can be met, priorities decide nothing, and the answer is the pose that

    minimises ½|w(u)|²  subject to  r(u) = 0,  lower <= u <= upper,

r the residuals of all levels, w = u − preferred the wish. The steps are those of `lagrange`, damped in
proportion to the error, λ² = μ|r|² [Sugihara2011], within a trust radius. A step is taken when the merit
½|w|² + ν|r| falls. What its motion has bent is put back by the same factors (a second-order correction
[NocedalWright2006 §18.3]), which costs one forward kinematics and no Jacobian.

This is the short way, and the only one that is worked off for many frames by operations on arrays. It fails
where targets cannot all be met, and says so; then the descents of `solver` decide who gives way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray, IntArray
from .lagrange import TINY, Box, Conditions, Step, multipliers_of
from .mechanism import PosedMechanism
from .objective import Objective

DAMPING_START: Final = 0.1
"""First μ of λ² = μ|r|² [1]."""
DAMPING_RANGE: Final = (1e-6, 1e4)
DAMPING_FACTORS: Final = (0.2, 8.0)
"""Change of μ after a step that did what it promised, and after one that was not taken."""
DAMPING_FLOOR: Final = 1e-13
"""λ² [1], in scaled units, that keeps tasks which ask for the same thing from being singular."""

RADIUS_FACTORS: Final = (2.0, 0.25)
"""Change of the trust radius after a step that was taken, and after one that was not."""

WISH_FROM: Final = 0.05
"""Residual [1], in scaled units, from which a preferred pose that stood in the way counts again."""
NEAR: Final = 1e-3
"""Residual [1], in scaled units, at which a pose slides along the tasks rather than towards them."""

CORRECTED: Final = 0.3
"""Part of the residual [1] to which a step must have brought it to be worth a correction."""

PATIENCE: Final = 6
"""Iterations over which an attempt must show progress."""
HOPEFUL: Final = 0.7
"""Part of its residual [1] that it may keep over that time."""

GOOD: Final = 0.5
"""Part of its residual [1] that a good step leaves at most."""
SMALLEST_RADIUS: Final = 1e-5
"""Trust radius [rad] below which nothing gets better any more."""
PENALTY, PENALTY_START = 1.5, 0.1
"""ν is this part of |y|, and this much more [1]: the merit is exact from |y| on."""
PENALTY_FADE: Final = 0.5
"""Part of ν [1] that is left for the next step: multipliers of a bad place must not govern for ever."""
QUADRATIC: Final = 10.0
"""The next step of Newton's method is at most this times the square of the last [1/rad]."""

INEXACT: Final = 1e-2
"""Or this part of it [1]: it is not solved exactly, and what is left weighs most where the cost is flat."""

FINE: Final = 1e-3
"""Largest change [rad] of a step that is taken without asking the merit: rounding would decide it."""


@dataclass(frozen=True)
class Attempt:
    """What Newton's method has found, for some frames."""

    values: FloatArray
    """The free channels, (F, nv) [m, rad]; inside the limits also where the attempt failed."""
    errors: FloatArray
    """Unweighted error of each task, (F, T) [m] or [rad]."""
    met: BoolArray
    """Which frames meet every task, and are at rest, (F,)."""
    iterations: IntArray
    """Steps solved for each frame, (F,)."""
    history: tuple[FloatArray, ...]
    """|r| of each level of the tasks before the first iteration and after each, (F, levels)."""

    @classmethod
    def none(cls, values: FloatArray, errors: FloatArray) -> Attempt:
        """An attempt that was not made."""
        frames = len(values)
        return cls(values, errors, np.zeros(frames, np.bool_), np.zeros(frames, np.int64), ())

    @classmethod
    def joined(cls, attempts: Sequence[Attempt]) -> Attempt:
        """Attempts for different frames, one after the other, without their history."""
        if len(attempts) == 1:
            return attempts[0]
        return cls(
            np.concatenate([some.values for some in attempts]),
            np.concatenate([some.errors for some in attempts]),
            np.concatenate([some.met for some in attempts]),
            np.concatenate([some.iterations for some in attempts]),
            (),
        )

    def select(self, frames: BoolArray | IntArray) -> Attempt:
        """Some of the frames."""
        history = tuple(norms[frames] for norms in self.history)
        return Attempt(
            self.values[frames], self.errors[frames], self.met[frames], self.iterations[frames], history
        )


@dataclass(frozen=True)
class Goal:
    """When a frame is done."""

    tolerance: FloatArray
    """Largest error of each task, (T,) [m] or [rad]."""
    wish: bool
    """Whether what the tasks leave free goes to the preferred pose."""
    step_tolerance: float
    """Largest change [rad] at which a pose with a wish counts as standing still."""
    slack: float
    """|r| [1], in scaled units, that counts as nothing."""
    max_angle: float
    """Largest change of a channel in one step [rad]."""
    max_iterations: int


def attempt(
    objective: Objective,
    values: FloatArray,
    goal: Goal,
    callback: Callable[[int, FloatArray], bool] | None = None,
) -> Attempt:
    """Try to meet every task in every frame, starting from the free channels (F, nv).

    Args:
        objective: The tasks, in scaled units.
        values: Where to start, each frame for itself.
        goal: When a frame is done.
        callback: Called after each iteration with its number and the channels of the frames still at work,
            (f, nv); True stops.
    """
    values = objective.clipped(values)
    if goal.wish:
        values = objective.unwound(values)
    frames = np.arange(len(values))
    errors = np.zeros((len(values), len(goal.tolerance)))
    met = np.zeros(len(values), dtype=np.bool_)
    iterations = np.zeros(len(values), dtype=np.int64)
    walk = _Walk(objective, values, goal)
    history = [walk.level_norms]
    for iteration in range(goal.max_iterations + 1):
        missing = walk.errors
        arrived = walk.arrived(missing)
        ended = arrived | walk.hopeless() | (iteration == goal.max_iterations)
        values[frames], errors[frames], met[frames] = walk.values, missing, arrived
        if ended.all():
            break
        if ended.any():
            frames, walk = frames[~ended], walk.select(np.flatnonzero(~ended))
        iterations[frames] += 1
        walk.step()
        history.append(history[-1].copy())
        history[-1][frames] = walk.level_norms
        if callback is not None and callback(iteration + 1, walk.values):
            values[frames], errors[frames] = walk.values, walk.errors
            break
    return Attempt(values, errors, met, iterations, tuple(history))


class _Walk:
    """Frames on their way, all at the same iteration."""

    def __init__(self, objective: Objective, values: FloatArray, goal: Goal) -> None:
        frames = len(values)
        self._objective, self._goal = objective, goal
        self._wishes = goal.wish and objective.wishes
        self.values: FloatArray
        """The free channels, (F, nv), inside the limits."""
        self._posed: PosedMechanism
        self._residual: FloatArray
        self._norm: FloatArray
        self._stand_at(values)
        self._damping = np.full(frames, DAMPING_START)
        self._radius = np.full(frames, goal.max_angle)
        self._penalty = np.zeros(frames)
        self._wishing = np.ones(frames, dtype=np.bool_)
        """Where the preferred pose counts: not where it stands in the way to far targets, (F,)."""
        self._resisting = np.zeros(frames, dtype=np.bool_)
        """Where even the linear model of a step leaves most of the residual, (F,)."""
        self._standing = np.zeros(values.shape, dtype=np.bool_)
        """Channels that a limit holds where they are, (F, nv)."""
        self._size = np.full(frames, np.inf)
        """Largest change of the last step, (F,)."""
        self._expected = np.full(frames, np.inf)
        """Largest change that the next step will make, as far as the last ones tell, (F,)."""
        self._past: list[FloatArray] = []
        """|r| before the last iterations, the oldest first, (F,) each."""

    def select(self, index: IntArray) -> _Walk:
        """Some of the frames."""
        some = copy(self)
        some._objective = self._objective.select(index)
        some._posed = self._posed.select(some._objective.system.mechanism, index)
        some.values, some._residual, some._norm = self.values[index], self._residual[index], self._norm[index]
        some._damping, some._radius = self._damping[index], self._radius[index]
        some._penalty, some._standing = self._penalty[index], self._standing[index]
        some._wishing, some._resisting = self._wishing[index], self._resisting[index]
        some._size, some._expected, some._past = (
            self._size[index],
            self._expected[index],
            [norm[index] for norm in self._past],
        )
        return some

    @property
    def errors(self) -> FloatArray:
        """Unweighted error of each task, (F, T) [m] or [rad]."""
        return self._objective.system.errors(self._posed)

    @property
    def level_norms(self) -> FloatArray:
        """|r| of each level, (F, levels)."""
        return self._objective.norms_by_level(self._residual)

    def arrived(self, errors: FloatArray) -> BoolArray:
        """Which frames, of errors (F, T), meet every task and, where there is a wish, move no more, (F,)."""
        met: BoolArray = np.logical_and.reduce(errors <= self._goal.tolerance, axis=1)
        if not self._wishes:
            return met
        met &= self._expected <= self._goal.step_tolerance
        if met.any():
            unwound = self._objective.unwound(self.values)
            if unwound is not self.values:
                turned = (unwound != self.values).any(axis=1)
                self._expected[turned] = np.inf
                self._size[turned] = np.inf
                self._stand_at(unwound)
                met &= ~turned
        return met

    def hopeless(self) -> BoolArray:
        """Which frames come no nearer, (F,)."""
        stuck: BoolArray = self._radius < SMALLEST_RADIUS
        if len(self._past) == PATIENCE:
            slow = (self._norm > HOPEFUL * self._past[0]) & (self._norm > self._goal.slack)
            stuck |= slow & self._resisting
        return stuck

    def step(self) -> None:
        """Solve for a step and take it where the merit falls."""
        conditions = self._conditions()
        box = Box(*self._objective.room(self.values), self._radius)
        step, held, signs_right = conditions.solve(box, self._standing)
        taken = np.abs(step.change).max(axis=1, initial=0.0)
        still = (taken <= self._goal.step_tolerance) & signs_right
        change = step.change * ~still[:, None] if still.any() else step.change
        values, posed, residual = self._moved(self.values, change)
        norm = _norm(residual)
        bent = (norm > self._goal.slack) & ((norm < CORRECTED * self._norm) | (taken < CORRECTED))
        if not self._wishes:
            done = (self._objective.system.errors(posed) <= self._goal.tolerance).all(axis=1)
            if done.all():
                self.values, self._posed, self._residual, self._norm = values, posed, residual, norm
                return
            bent &= ~done
        if bent.any():
            corrected = self._moved(values, step.correction(residual * bent[:, None]))
            corrected_norm = _norm(corrected[2])
            helps = corrected_norm <= norm
            if not helps.all():
                corrected = self._at(np.where(helps[:, None], corrected[0], values))
            (values, posed, residual), norm = corrected, np.minimum(norm, corrected_norm)

        needed = PENALTY * _norm(step.multipliers) + PENALTY_START
        self._penalty = np.maximum(PENALTY_FADE * self._penalty, needed)
        merit = self._merit(self.values, self._norm)
        better = (self._merit(values, norm) < merit) | (taken <= FINE)
        self._past = [*self._past[-PATIENCE + 1 :], self._norm]
        promised = self._residual + (conditions.jacobian @ change[..., None])[..., 0]
        self._resisting = _norm(promised) > HOPEFUL * self._norm
        good = better & (norm <= np.maximum(GOOD * self._norm, NEAR))
        self._damping *= np.where(good, DAMPING_FACTORS[0], np.where(better, 1.0, DAMPING_FACTORS[1]))
        self._damping = np.maximum(DAMPING_RANGE[0], np.minimum(self._damping, DAMPING_RANGE[1]))
        grown = np.minimum(RADIUS_FACTORS[0] * self._radius, self._goal.max_angle)
        shrunk = RADIUS_FACTORS[1] * np.minimum(self._radius, taken)
        self._radius = np.where(better, np.where(good, grown, self._radius), shrunk)

        if self._wishes:
            # A step without the wish tells nothing of what the wish will still change.
            self._expect(step, taken, still & self._wishing, better & signs_right & self._wishing)
            self._wishing = (np.where(better, norm, self._norm) < WISH_FROM) | (self._wishing & better)
        self._size = np.where(better, taken, self._size)
        if better.all():
            self.values, self._posed, self._residual, self._norm = values, posed, residual, norm
        elif better.any():
            self._stand_at(np.where(better[:, None], values, self.values))
        self._standing = held & self._objective.on_limit(self.values)

    def _expect(self, step: Step, taken: FloatArray, still: BoolArray, sound: BoolArray) -> None:
        """Say how much the next step will change: Newton's method doubles the digits, others do not."""
        first = np.isinf(self._size)
        contraction = np.where(first, 1.0, np.minimum(1.0, taken / np.maximum(self._size, TINY)))
        doubling = np.maximum(QUADRATIC * taken, INEXACT)
        contraction = np.where(step.newton, np.minimum(contraction, doubling), contraction)
        sure = sound & (step.newton | ~first)
        self._expected = np.where(still, 0.0, np.where(sure, taken * contraction, np.inf))

    def _conditions(self) -> Conditions:
        """Lagrange's conditions where the frames are."""
        objective = self._objective
        jacobian = objective.stacked_jacobian(self._posed)
        away = bend = None
        if self._wishes and self._wishing.any():
            away = objective.away(self.values) * self._wishing[:, None]
            free = ~objective.on_limit(self.values)
            bend = objective.bend(self._posed, multipliers_of(jacobian * free[:, None, :], away))
        damping = self._damping * self._norm**2 + DAMPING_FLOOR
        return Conditions(jacobian, self._residual, damping, away, bend)

    def _merit(self, values: FloatArray, norm: FloatArray) -> FloatArray:
        """Exact penalty function, (F,)."""
        if not self._wishes:
            return norm
        away = self._objective.away(values) * self._wishing[:, None]
        return self._penalty * np.maximum(norm - self._goal.slack, 0.0) + 0.5 * np.einsum(
            "fv,fv->f", away, away
        )

    def _at(self, values: FloatArray) -> tuple[FloatArray, PosedMechanism, FloatArray]:
        """Values, with what they lead to."""
        posed = self._objective.system.place(values)
        return values, posed, self._objective.stacked(posed)

    def _moved(self, values: FloatArray, change: FloatArray) -> tuple[FloatArray, PosedMechanism, FloatArray]:
        """Values after a change in u, with what they lead to."""
        return self._at(self._objective.moved(values, change))

    def _stand_at(self, values: FloatArray) -> None:
        self.values, self._posed, self._residual = self._at(values)
        self._norm = _norm(self._residual)


def _norm(vectors: FloatArray) -> FloatArray:
    """Euclidean length, (F, m) -> (F,)."""
    return np.sqrt(np.einsum("fm,fm->f", vectors, vectors))

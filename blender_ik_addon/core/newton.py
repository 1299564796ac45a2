# SPDX-License-Identifier: GPL-3.0-or-later
"""Poses that meet every task: Newton's method on Lagrange's conditions, for many frames at once.

Where all targets can be met, priorities decide nothing, and the answer is the pose that

    minimises ½|w(u)|²  subject to  r(u) = 0,  lower <= u <= upper,

r the residuals of all levels, w = u − preferred the wish. The steps are those of `lagrange`, damped in
proportion to the error, λ² = μ|r|² [Sugihara2011], within a trust radius. A step is taken when the merit
½|w|² + yᵀr + ν|r| falls, y the multipliers of the step. What its motion has bent is put back by the same
factors (a second-order correction [NocedalWright2006 §18.3]), which costs one forward kinematics and no
Jacobian.

Without a wish a large step d is bent beforehand where tasks tell how their residuals accelerate along it
[TranstrumSethna2012 §5]: it goes to d + ½ a with a the damped solution of J a = −d²r/dt², again by the same
factors. That takes a few products of small matrices and saves every sixth step.

This is the short way, and the only one that is worked off for many frames by operations on arrays. It fails
where targets cannot all be met, and says so; then the descents of `solver` decide who gives way.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray, IntArray, alike, frozen, lengths
from .attempts import Attempt, Goal
from .lagrange import MULTIPLIER_DAMPING, TINY, Box, Conditions, Step, multipliers_of
from .objective import Objective, Stand
from .posed import PosedMechanism

TRUST_START: Final = frozen([[0.1], [1.0]])
"""First μ of λ² = μ|r|² [1]; first trust radius, as a part of the largest change of a channel [1]."""
TRUST_START_BENT: Final = frozen([[0.05], [1.0]])
"""The same where steps are bent and may be longer."""
TRUST_RANGE: Final = frozen([[1e-6], [0.0]]), frozen([[1e4], [1.0]])
"""Least and most of both."""
DAMPING_FLOOR: Final = 1e-13
"""λ² [1], in scaled units, that keeps tasks which ask for the same thing from being singular."""
UNSURE: Final = (1e-12, 1e-4, MULTIPLIER_DAMPING)
"""Damping of the multipliers of H [1]: with |r| = 0, its gain by |r|, and its most. On the way to a limb that
is nearly straight singular values tell little as long as their squares are below |r|."""
FIRM: Final = 1e4
"""Size of multipliers [1] from which tasks that are nearly met stay as they are. Where only a straight limb
meets them there are none that balance the wish: they grow without end while the limb straightens."""
NEARLY_MET: Final = 0.5
"""Part of the slack [1] within which tasks are nearly met."""

TRUST_FACTORS: Final = frozen([[8.0, 1.0, 0.2], [0.25, 1.0, 2.0]])
"""Change of μ and of the trust radius after a step that was not taken, one that was, and a good one [1]."""

WISH_FROM: Final = 0.05
"""Residual [1], in scaled units, from which a preferred pose that stood in the way counts again."""
NEAR: Final = 1e-3
"""Residual [1], in scaled units, at which a pose slides along the tasks rather than towards them."""

CORRECTED: Final = 0.3
"""Part of the residual [1] to which a step that is not bent must have brought it to be worth a correction."""

BENT_FROM: Final = 0.03
"""Largest change [rad] of a step from which it pays to bend it; smaller ones a correction serves as well."""
BENT_WITHIN: Final = 1.0
"""Residual [1], in scaled units, up to which it does: from farther away damping makes the step."""
BENT_BEYOND: Final = 3.0
"""And from how many times the residual that is met: from nearer the step arrives as it is."""
MOST_BENT: Final = 0.375
"""By how much a step is bent at most, as a part of its length [1]: α/2 of [TranstrumSethna2012]."""

FEW: Final = 0.5
"""Part of the frames [1] up to which it pays to take them out for that."""

PATIENCE: Final = 6
"""Iterations over which an attempt must show progress."""
HOPEFUL: Final = 0.7
"""Part of its residual [1] that it may keep over that time."""
STALLED: Final = (2, 0.95)
"""Steps one after the other, and the part of the residual [1] that each keeps and has promised to keep, with
which an attempt is at the nearest that it comes."""

ROUNDING: Final = 1e-12
"""Difference of two largest changes [rad] that is none: both may be the radius."""

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


def attempt(
    objective: Objective,
    values: FloatArray,
    goal: Goal,
    callback: Callable[[int, FloatArray], bool] | None = None,
    posed: PosedMechanism | None = None,
) -> Attempt:
    """Try to meet every task in every frame, starting from the free channels (F, nv).

    Args:
        objective: The tasks, in scaled units.
        values: Where to start, each frame for itself.
        goal: When a frame is done.
        callback: Called after each iteration with its number and the channels of the frames still at work,
            (f, nv); True stops.
        posed: The mechanism at a start inside the limits, for a caller that has placed it already.
    """
    values = objective.clipped(values)
    if goal.wish:
        unwound = objective.unwound(values)
        posed, values = posed if unwound is values else None, unwound
    walk = _Walk(objective, objective.stand(values, posed), goal)
    report = _Report(len(values))
    arrived = walk.arrived()
    for iteration in range(goal.max_iterations):
        if arrived.all():
            break
        ended = arrived | walk.hopeless() if iteration else arrived
        if ended.any():
            if ended.all():
                break
            walk = report.without(walk, arrived, ended)
        report.count(walk)
        walk.step()
        if callback is not None and callback(iteration + 1, walk.stand.values):
            arrived = np.zeros(len(walk.stand.values), dtype=np.bool_)
            break
        arrived = walk.arrived()
    return report.attempt(walk, arrived)


def bent_beyond(within: float) -> float:
    """|r| from which on it pays to bend steps, by that up to which tasks may be met; 0 if it is infinite."""
    return BENT_BEYOND * within if isfinite(within) else 0.0


class _Report:
    """What an attempt has found, of all frames, also of those that are no longer on their way."""

    def __init__(self, frames: int) -> None:
        self._iterations = np.zeros(frames, dtype=np.int64)
        self._history: list[FloatArray] = []
        self._frames: IntArray | None = None
        """Those on their way; None for all, of which the rest tells nothing before one has ended."""
        self._values: FloatArray
        self._errors: FloatArray
        self._met: BoolArray
        self._norms: FloatArray

    def _note(self, walk: _Walk, arrived: BoolArray) -> None:
        """Where the frames on their way are, and which have arrived."""
        stand = walk.stand
        if self._frames is None:
            self._values, self._errors = stand.values.copy(), stand.errors.copy()
            self._norms, self._met = walk.level_norms.copy(), arrived.copy()
        else:
            self._values[self._frames], self._errors[self._frames] = stand.values, stand.errors
            self._norms[self._frames], self._met[self._frames] = walk.level_norms, arrived

    def without(self, walk: _Walk, arrived: BoolArray, ended: BoolArray) -> _Walk:
        """The way of those frames that have not ended."""
        self._note(walk, arrived)
        left = np.flatnonzero(~ended)
        self._frames = left if self._frames is None else self._frames[left]
        return walk.select(left)

    def count(self, walk: _Walk) -> None:
        """One more iteration of the frames on their way."""
        if self._frames is None:
            self._iterations += 1
            self._history.append(walk.level_norms)
        else:
            self._iterations[self._frames] += 1
            norms = self._norms.copy()
            norms[self._frames] = walk.level_norms
            self._history.append(norms)

    def attempt(self, walk: _Walk, arrived: BoolArray) -> Attempt:
        """All of it."""
        history = tuple(self._history)
        if self._frames is None and len(arrived) == 1:
            stand, history = walk.stand, (*history, walk.level_norms)
            return Attempt(stand.values, stand.errors, arrived, self._iterations, history, stand.posed)
        self._note(walk, arrived)
        return Attempt(self._values, self._errors, self._met, self._iterations, (*history, self._norms))


class _Walk:
    """Frames on their way, all at the same iteration."""

    def __init__(self, objective: Objective, stand: Stand, goal: Goal) -> None:
        frames = len(stand.values)
        self._objective, self._goal = objective, goal
        self._wishes = goal.wish and objective.wishes
        self.stand = stand
        """Where the frames are."""
        self._bends = not self._wishes and objective.system.accelerates
        """Whether steps are bent."""
        start = TRUST_START_BENT if self._bends else TRUST_START
        self._trust: FloatArray = start.repeat(frames, axis=1)
        """μ, and the trust radius as a part of the largest change, (2, F)."""
        self._bent_beyond = bent_beyond(objective.norm_within(goal.tolerance))
        """|r| from which on it pays to bend steps."""
        self._penalty: FloatArray = np.zeros(frames)
        self._wishing: BoolArray = self._penalty == 0.0
        """Where the preferred pose counts: not where it stands in the way to far targets, (F,)."""
        self._resisting = np.zeros(frames, dtype=np.bool_)
        """Where even the linear model of a step leaves most of the residual, (F,)."""
        self._stalls = np.zeros(frames, dtype=np.int64)
        """How many of the last steps have kept nearly all of the residual, as their model had said, each
        shorter than that before: from a saddle they grow, (F,)."""
        self._length: FloatArray = self._penalty + np.inf
        """Largest change of the last step, taken or not, (F,)."""
        self._standing = np.zeros(stand.values.shape, dtype=np.bool_)
        """Channels that a limit holds where they are, (F, nv)."""
        self._size = self._expected = self._penalty + np.inf
        """Largest change of the last step, and of the next one as far as the last ones tell, (F,)."""
        self._past: list[FloatArray] = []
        """|r| before the last iterations, the oldest first, (F,) each."""
        self._met: BoolArray | None = None
        """Which frames meet every task where they are, as far as that is known, (F,)."""

    def select(self, index: IntArray) -> _Walk:
        """Some of the frames."""
        some = alike(self)
        some._met = None
        some._objective = self._objective.select(index)
        some.stand = self.stand.select(some._objective.system, index)
        some._trust = self._trust[:, index]
        some._penalty, some._standing = self._penalty[index], self._standing[index]
        some._wishing, some._resisting = self._wishing[index], self._resisting[index]
        some._stalls, some._length = self._stalls[index], self._length[index]
        some._size, some._expected, some._past = (
            self._size[index],
            self._expected[index],
            [norm[index] for norm in self._past],
        )
        return some

    @property
    def level_norms(self) -> FloatArray:
        """|r| of each level, (F, levels)."""
        if self._objective.levels == 1:
            return self.stand.norm[:, None]
        return self._objective.norms_by_level(self.stand.residual)

    def arrived(self) -> BoolArray:
        """Which frames meet every task and, where there is a wish, move no more, (F,)."""
        met = self._within(self.stand) if self._met is None else self._met
        if not self._wishes:
            return met
        met &= self._expected <= self._goal.step_tolerance
        if met.any():
            unwound = self._objective.unwound(self.stand.values)
            if unwound is not self.stand.values:
                turned = (unwound != self.stand.values).any(axis=1)
                self._expected[turned] = np.inf
                self._size[turned] = np.inf
                self.stand = self._objective.stand(unwound)
                met &= ~turned
        return met

    def hopeless(self) -> BoolArray:
        """Which frames come no nearer, (F,)."""
        stuck: BoolArray = self._trust[1] * self._goal.max_angle < SMALLEST_RADIUS
        stuck |= (self._stalls >= STALLED[0]) & (self.stand.norm > self._goal.slack)
        if len(self._past) == PATIENCE:
            norm = self.stand.norm
            slow = (norm > HOPEFUL * self._past[0]) & (norm > self._goal.slack)
            stuck |= slow & self._resisting
        return stuck

    def step(self) -> None:
        """Solve for a step and take it where the merit falls."""
        conditions = self._conditions()
        here, objective = self.stand, self._objective
        radius = self._trust[1] * self._goal.max_angle
        box = Box(*objective.room(here.values), radius) if objective.limited else Box.unlimited(radius)
        step, held, signs_right = conditions.solve(box, self._standing)
        change, still, done = step.change, None, None
        self._met = None
        taken = np.maximum.reduce(np.abs(step.change), axis=1, initial=0.0)
        if self._wishes:
            still = (taken <= self._goal.step_tolerance) & signs_right
            change = change * ~still[:, None] if still.any() else change
        bend = self._bend(step, taken) if self._bends else None
        there = objective.stand(objective.moved(here.values, change if bend is None else change + bend))
        if still is None:
            done = self._within(there)
            if done.all():
                self.stand, self._met = there, done
                return
        there = self._corrected(step, there, taken, done)
        norm = there.norm

        if self._wishes:
            needed = PENALTY * lengths(step.multipliers) + PENALTY_START
            self._penalty = np.maximum(PENALTY_FADE * self._penalty, needed)
        better = (self._merit(there, step) < self._merit(here, step)) | (taken <= FINE)
        self._past = [*self._past[-PATIENCE + 1 :], here.norm]
        if len(self._past) == PATIENCE:
            self._resisting = self._promised(conditions, change) > HOPEFUL * here.norm
        stalled = (norm > STALLED[1] * here.norm) | ~better
        if stalled.any():
            stalled &= taken <= self._length + ROUNDING
            stalled &= self._promised(conditions, change) > STALLED[1] * here.norm
            self._stalls = np.where(stalled, self._stalls + 1, 0)
        else:
            self._stalls.fill(0)
        self._length = taken
        good = better & (norm <= np.maximum(GOOD * here.norm, NEAR))
        if not better.all():
            self._trust[1] = np.where(better, radius, np.minimum(radius, taken)) / self._goal.max_angle
        least, most = TRUST_RANGE
        trust = self._trust * TRUST_FACTORS[:, better.astype(np.int64) + good]
        self._trust = np.minimum(np.maximum(trust, least), most)

        if still is not None:
            # A step without the wish tells nothing of what the wish will still change.
            self._expect(step, taken, still & self._wishing, better & signs_right & self._wishing)
            self._wishing = (np.where(better, norm, here.norm) < WISH_FROM) | (self._wishing & better)
            self._size = np.where(better, taken, self._size)
        self.stand = there.where(better, here)
        if objective.limited and held.any():
            held &= objective.on_limit(self.stand.values)
        self._standing = held

    def _promised(self, conditions: Conditions, change: FloatArray) -> FloatArray:
        """|r| as the linear model has it after a change (F, nv), (F,)."""
        return lengths(self.stand.residual + (conditions.jacobian @ change[..., None])[..., 0])

    def _bend(self, step: Step, taken: FloatArray) -> FloatArray | None:
        """What bends a step, ½ a (F, nv), 0 where it does not pay; None if nowhere, or if no task tells."""
        norm = self.stand.norm
        pays = (taken >= BENT_FROM) & (norm <= BENT_WITHIN) & (norm > self._bent_beyond)
        (index,) = pays.nonzero()
        if not len(index):
            return None
        objective, posed = self._objective, self.stand.posed
        if len(index) > FEW * len(pays):
            index = np.arange(len(pays))
        else:
            objective = objective.select(index)
            posed = posed.select(objective.system.mechanism, index)
        change = step.change[index]
        acceleration = objective.acceleration(posed, change)
        if acceleration is None:
            return None
        bend = np.zeros_like(step.change)
        bend[index] = 0.5 * step.correction(index, acceleration)
        most = MOST_BENT * lengths(step.change) * pays
        bend *= np.minimum(1.0, most / np.maximum(lengths(bend), TINY))[:, None]
        return bend

    def _corrected(self, step: Step, there: Stand, taken: FloatArray, done: BoolArray | None) -> Stand:
        """Where a step leads once what its motion has bent is put back, if that helps."""
        worth, norm = there.norm > self._goal.slack, self.stand.norm
        if self._bends:
            # What a correction leaves is to what it takes away as that is to what the step has taken away.
            worth &= there.norm**2 <= self._goal.slack * norm
        else:
            worth &= (there.norm < CORRECTED * norm) | (taken < CORRECTED)
        if done is not None:
            worth &= ~done
        (index,) = worth.nonzero()
        if not len(index):
            return there
        some, objective = there, self._objective
        if len(index) > FEW * len(worth):
            index = np.arange(len(worth))
        else:
            objective = objective.select(index)
            some = there.select(objective.system, index)
        back = step.correction(index, some.residual)
        corrected = objective.stand(objective.moved(some.values, back))
        helps = np.zeros_like(worth)
        helps[index] = corrected.norm <= some.norm
        helps &= worth
        if helps.all():
            return corrected
        return there.replaced(helps, corrected.select(objective.system, np.flatnonzero(helps[index])))

    def _within(self, stand: Stand) -> BoolArray:
        """Where all tasks are within their tolerances, (F,)."""
        return np.logical_and.reduce(stand.errors <= self._goal.tolerance, axis=1)

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
        objective, here = self._objective, self.stand
        jacobian = objective.stacked_jacobian(here.posed)
        residual, away, bend = here.residual, None, None
        if self._wishes and self._wishing.any():
            away = objective.away(here.values) * self._wishing[:, None]
            free = ~objective.on_limit(here.values)
            multipliers = self._multipliers(jacobian * free[:, None, :], away)
            residual = self._wanting(multipliers)
            bend = objective.lagrangian_bend(here.posed, multipliers, self._wishing)
        damping = self._trust[0] * here.norm**2 + DAMPING_FLOOR
        return Conditions(jacobian, residual, damping, away, bend)

    def _multipliers(self, jacobian: FloatArray, away: FloatArray) -> FloatArray:
        """Those of the tasks where the frames are, by which the tasks bend, (F, m).

        They have to be exact in the end: with a limb that is nearly straight they are some hundreds, and a
        damping that takes a part of them makes steps along the tasks too long by as much.
        """
        least, slope, most = UNSURE
        damping = np.minimum(least + slope * self.stand.norm, most)
        return multipliers_of(jacobian, away, damping[:, None])

    def _wanting(self, multipliers: FloatArray) -> FloatArray:
        """What steps have to take away: the residual, without what is left as it is, (F, m)."""
        residual, size = self.stand.residual, lengths(multipliers)
        firm = (size > FIRM) & (self.stand.norm <= NEARLY_MET * self._goal.slack)
        if not firm.any():
            return residual
        unit = multipliers / np.maximum(size, TINY)[:, None]
        kept = np.where(firm, np.einsum("fm,fm->f", unit, residual), 0.0)
        return residual - kept[:, None] * unit

    def _merit(self, stand: Stand, step: Step) -> FloatArray:
        """Exact penalty function, (F,).

        Without the pull of the tasks, yᵀr, what a step costs that takes away a residual within the slack
        would count, and what it takes away would not.
        """
        if not self._wishes:
            return stand.norm
        away = self._objective.away(stand.values) * self._wishing[:, None]
        pull = np.einsum("fm,fm->f", stand.residual, step.multipliers) * self._wishing
        missed = np.maximum(stand.norm - self._goal.slack, 0.0)
        return self._penalty * missed + pull + 0.5 * np.einsum("fv,fv->f", away, away)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop round a step rule: damping, trust radius, acceptance, standing still.

**Damping** in proportion to the error, λ² = μ|r|² [Sugihara2011]: little near a solution, where the step is
Newton's, much where a target is out of reach. μ and the trust radius adapt to how well the last step did.

**Acceptance** is by levels: a step is taken when the first level that changes noticeably falls. Motion that a
lower level wants bends a higher one at second order; the higher one is put back with the factors of the step
before the trial is judged, so that its cost does not rise. A level that was lowered by an earlier descent is
held: its residuals are measured from what they were then, so that over the whole descent none changes by more
than the slack, even for the better: where a level ends must not depend on what lies below it.

**Standing still** is a step that changes nothing, a model that promises nothing, or a radius that has shrunk
to nothing. A level that is not met may then stand on a saddle: it is left along its most negative curvature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray
from .objective import Objective, Point, norms_of
from .problem import Level
from .steps import BoundedStep, StepLevel, bounded_step

DAMPING_START: Final = 1e-2
"""First μ of λ² = μ|r|² [1]."""
DAMPING_RANGE: Final = (1e-6, 1e4)
DAMPING_FLOOR: Final = 1e-16
"""λ² of a level that is met [1], in scaled units: keeps the step of an exactly singular level finite."""
DAMPING_FACTORS: Final = (0.2, 8.0)
"""Change of μ after a step that was taken, and after one that was not."""

SMALLEST_RADIUS: Final = 1e-7
"""Trust radius [rad] below which nothing gets better any more."""
RADIUS_FACTORS: Final = (2.0, 0.25)
"""Change of the radius after a step that was taken, and after one that was not."""

WISH_SLACK: Final = 1e-12
"""Rise of the distance from the preferred pose [rad] that does not count: rounding."""
WISH_FROM: Final = 0.05
"""Residual of a level [1], in scaled units, below which the preferred pose begins to count: it bends the way
to a far target more than it shapes the end."""
POLISH_ANGLE: Final = 0.01
"""Largest change [rad] of a small step: Newton's method has taken over, or a level is at its best."""

STUBBORN: Final = 0.5
"""A level that keeps more than this part of its residual in a step gets its curvature in the next [1]."""

RESTORATIONS: Final = 5
"""Most corrections of the higher levels after the motion of lower ones, each one forward kinematics."""

PATIENCE: Final = 8
"""Iterations over which a descent shows whether a level still falls."""
STALLED: Final = 0.9
"""Part of its residual [1] that a level may keep over that time before it counts as stalled."""

GAIN: Final = 1e-10
"""Fall of |r| [1], in scaled units, that is not worth a step: along a valley whose floor is flat to fourth
order a pose could creep for ever."""

ESCAPE_ANGLES: Final = (0.2, 0.05, 0.0125, 0.003)
"""Changes [rad] along negative curvature, away from a stationary point that is no minimum: the largest that
helps. A straight arm whose target is a hair nearer must bend by little."""
ESCAPE_CURVATURE: Final = 1e-4
"""Negative curvature [1], in scaled units, that counts."""


class Descent:
    """A descent in progress, of one or many independent frames."""

    def __init__(
        self,
        objective: Objective,
        values: FloatArray,
        *,
        levels: int,
        wish: bool,
        held: Sequence[FloatArray] = (),
        slack: float,
        max_angle: float,
        step_tolerance: float,
        damping: float = DAMPING_START,
    ) -> None:
        """Start a descent.

        Args:
            objective: What to lower.
            values: Where to start, (F, nv); brought inside the limits.
            levels: How many levels of the tasks count.
            wish: Whether what they leave free goes to the preferred pose.
            held: Residuals of the first levels, (F, m) each, at which they stay.
            slack: Rise of |r| [1], in scaled units, that does not count.
            max_angle: Largest change in one step [rad].
            step_tolerance: Largest change [rad] at which the pose counts as standing still.
            damping: First μ of λ² = μ|r|² [1].
        """
        frames = len(values)
        self._objective, self._wish = objective, wish
        self._max_angle, self._step_tolerance, self._first_damping = max_angle, step_tolerance, damping
        self._rows = [*range(levels), *([objective.levels] if wish else [])]
        """Numbers of the levels that count, in the objective."""
        self._tasks = levels
        self._slack = np.full(len(self._rows), slack)
        if wish:
            self._slack[-1] = WISH_SLACK
        self._held = tuple(held)
        self._unmet_held = [n for n, residual in enumerate(held) if (norms_of([residual]) > slack).any()]
        self.point: Point = objective.at(objective.clipped(values))
        """The pose so far."""
        self.iterations = 0
        self.settled: BoolArray = np.zeros(frames, dtype=np.bool_)
        """Which frames stand still, (F,)."""
        self._damping = np.full(frames, damping)
        self._radius = np.full(frames, max_angle)
        self._stubborn = np.zeros((frames, objective.levels), dtype=np.bool_)
        self._linearize()
        self.history: list[FloatArray] = [self.task_norms]
        """|r| of the levels of the tasks, those that count and those that do not, after each iteration."""
        if objective.system.size == 0 or not self._rows:
            self.settled[:] = True

    @property
    def finished(self) -> bool:
        """Whether every frame stands still."""
        return bool(self.settled.all())

    @property
    def stalled(self) -> bool:
        """Whether in some frame a level that is not met has hardly fallen for some time."""
        if self.iterations < PATIENCE:
            return False
        before, now = (self.history[back][:, : self._tasks] for back in (-1 - PATIENCE, -1))
        return bool(((now > self._slack[: self._tasks]) & (now > STALLED * before)).any())

    @property
    def task_norms(self) -> FloatArray:
        """|r| of all levels of the tasks, (F, levels)."""
        return self.point.norms[:, :-1]

    def _residuals(self, point: Point) -> list[FloatArray]:
        """Residuals of the levels that count, those of held levels measured from where they are held."""
        residuals = [point.residuals[number] for number in self._rows]
        for number, held in enumerate(self._held):
            residuals[number] = residuals[number] - held
        return residuals

    def _linearize(self) -> None:
        levels = self._objective.linearize(self.point)
        residuals = self._residuals(self.point)
        self._norms = norms_of(residuals)
        for number, residual in zip(self._rows, residuals, strict=True):
            levels[number] = replace(levels[number], residual=residual)
        self._levels = levels

    def iterate(self) -> None:
        """One step for every frame that still moves."""
        self.iterations += 1
        moving = ~self.settled
        step, gains = self._step()
        if self._recognise_unmet(step, gains):
            step, gains = self._step()
        size = np.abs(step.change).max(axis=1, initial=0.0)
        idle = (gains < GAIN).all(axis=1)
        still = moving & ((size < self._step_tolerance) | idle)
        moving &= ~still
        if moving.any():
            before = self._norms
            step = replace(step, change=np.where(moving[:, None], step.change, 0.0))
            trial = self._restored(self.moved_to(step.change), step)
            better = moving & self._better(trial, step.change)
            worse = moving & ~better
            self._accept(trial, better)
            exhausted = self._adapt(better, worse, size)
            self._judge(before, moving)
            still |= exhausted
        if still.any():
            self._escape_or_settle(still)
        self.history.append(self.task_norms)

    def moved_to(self, change: FloatArray) -> Point:
        """The point after a change in u."""
        return self._objective.at(self._objective.moved(self.point.values, change))

    def _model(self) -> list[StepLevel]:
        """The levels as the step rule sees them."""
        damping = self._damping[:, None] * self._norms**2 + DAMPING_FLOOR
        model: list[StepLevel] = []
        for place, number in enumerate(self._rows):
            level = self._levels[number]
            residual, strength = level.residual, damping[:, place]
            if number == self._objective.levels:
                near = (self._norms[:, : self._tasks] < WISH_FROM) | self._stubborn[:, : self._tasks]
                residual, strength = residual * near.all(axis=1, keepdims=True), np.zeros_like(strength)
            guard = curvature = None
            if number in self._unmet_held:
                guard = self._objective.own_curvature(self.point, number)
            elif number >= len(self._held):
                curvature = self._objective.curvature(self.point, self._levels, number, self._stubborn)
            model.append(StepLevel(residual, level.jacobian, strength, curvature, guard))
        return model

    def _step(self) -> tuple[BoundedStep, FloatArray]:
        """The step rule's answer, and what its model says each level gains by it, (F, levels)."""
        model = self._model()
        step = bounded_step(model, *self._objective.room(self.point.values), self._radius)
        return step, self._gain(model, step.change)

    def _recognise_unmet(self, step: BoundedStep, gains: FloatArray) -> bool:
        """Whether a level proves to be one that cannot be met, before a step is taken without its curvature.

        It does when the step is small and yet promises to leave most of its residual.
        """
        norms = self._norms[:, : self._tasks]
        small = np.abs(step.change).max(axis=1, initial=0.0) < np.minimum(POLISH_ANGLE, self._radius)
        stuck = gains[:, : self._tasks] < 0.5 * (1.0 - STUBBORN**2) * norms
        stuck &= (norms > self._slack[: self._tasks]) & small[:, None]
        stuck[:, : len(self._held)] = False
        news = stuck & ~self._stubborn[:, : self._tasks]
        self._stubborn[:, : self._tasks] |= news
        return bool(news.any())

    def _gain(self, model: list[StepLevel], change: FloatArray) -> FloatArray:
        """By how much the model says each level's |r| falls, (F, levels)."""
        gains: list[FloatArray] = []
        for level in model:
            norm = np.sqrt(np.einsum("fm,fm->f", level.residual, level.residual))
            moved = (level.jacobian @ change[..., None])[..., 0]
            fall = -np.einsum("fm,fm->f", level.residual + 0.5 * moved, moved)
            if level.curvature is not None:
                fall -= 0.5 * np.einsum("fv,fvw,fw->f", change, level.curvature, change)
            gains.append(fall / np.maximum(norm, GAIN))
        return np.stack(gains, axis=1)

    def _promised(self, change: FloatArray) -> list[FloatArray]:
        """Residuals of the levels that count after a change in u, if they were linear."""
        levels: list[Level] = [self._levels[number] for number in self._rows]
        return [level.residual + (level.jacobian @ change[..., None])[..., 0] for level in levels]

    def _restored(self, trial: Point, step: BoundedStep) -> Point:
        """Put back the higher levels that the motion of lower ones has bent."""
        promised = self._promised(step.change)[: self._tasks]
        if not promised:
            return trial
        for _ in range(RESTORATIONS):
            # A level that is not met has no rows to be put back to; its curvature has kept the step off it.
            excess = [
                (now - then) * ~stubborn[:, None]
                for now, then, stubborn in zip(
                    self._residuals(trial), promised, self._stubborn.T, strict=False
                )
            ]
            bent: BoolArray = norms_of(excess).max(axis=1, initial=0.0) > self._slack[0]
            if not bent.any():
                break
            correction = np.zeros_like(step.change)
            for level, answer, wrong in zip(self._levels, step.corrections, excess, strict=False):
                left = wrong + (level.jacobian @ correction[..., None])[..., 0]
                correction += (answer @ left[..., None])[..., 0]
            size = np.abs(correction).max(axis=1, initial=0.0)
            correction *= np.minimum(1.0, self._radius / np.where(size > 0.0, size, 1.0))[:, None]
            candidate = self._objective.at(self._objective.moved(trial.values, correction))
            old, new = norms_of(self._residuals(trial)), norms_of(self._residuals(candidate))
            helps = bent & _first_falls(new, old, old, self._slack, ties=False)
            if not helps.any():
                break
            trial = self._mixed(candidate, trial, helps)
        return trial

    def _better(self, trial: Point, change: FloatArray) -> BoolArray:
        """Whether the first level that changes noticeably falls, (F,).

        A lower level may rise as far as the step said it would, for the sake of a higher one. The wish is not
        judged where the step is so small that Newton's method has taken over.
        """
        allowed = np.maximum(self._norms, norms_of(self._promised(change)))
        allowed[:, 0] = self._norms[:, 0]
        allowed[:, : len(self._held)] = 0.0
        if self._wish:
            fine = np.abs(change).max(axis=1, initial=0.0) < POLISH_ANGLE
            allowed[:, -1] = np.where(fine, np.inf, allowed[:, -1])
        norms = norms_of(self._residuals(trial))
        return _first_falls(norms, self._norms, allowed, self._slack, ties=True)

    def _accept(self, trial: Point, better: BoolArray) -> None:
        if better.any():
            self.point = self._mixed(trial, self.point, better)
            self._linearize()

    def _mixed(self, some: Point, others: Point, chosen: BoolArray) -> Point:
        """One point for the chosen frames, another for the rest."""
        if chosen.all():
            return some
        return self._objective.at(np.where(chosen[:, None], some.values, others.values))

    def _adapt(self, better: BoolArray, worse: BoolArray, size: FloatArray) -> BoolArray:
        """Adapt damping and radius to how well the step did; which frames have no radius left."""
        factor = np.where(better, DAMPING_FACTORS[0], np.where(worse, DAMPING_FACTORS[1], 1.0))
        self._damping = np.clip(self._damping * factor, *DAMPING_RANGE)
        grown = np.minimum(self._radius * RADIUS_FACTORS[0], self._max_angle)
        shrunk = RADIUS_FACTORS[1] * np.minimum(self._radius, size)
        self._radius = np.where(better, grown, np.where(worse, shrunk, self._radius))
        return worse & (self._radius < SMALLEST_RADIUS)

    def _judge(self, before: FloatArray, moving: BoolArray) -> None:
        """Where a step barely helped a level that is not met, its curvature decides from now on."""
        after = self._norms[:, : self._tasks]
        slow = (after > STUBBORN * before[:, : self._tasks]) & (after > self._slack[: self._tasks])
        judged = self._stubborn[:, : self._tasks]
        self._stubborn[:, : self._tasks] = np.where(moving[:, None], slow, judged)
        self._stubborn[:, : len(self._held)] = False

    def _escape_or_settle(self, still: BoolArray) -> None:
        """Frames that stand still are done, unless they stand on a saddle of a level that is not met."""
        escaped = False
        for frame in np.flatnonzero(still):
            unmet = self._norms[frame, : self._tasks] > self._slack[: self._tasks]
            held = len(self._held)
            if any(self._escape(int(frame), int(level)) for level in np.flatnonzero(unmet) if level >= held):
                escaped = True
            else:
                self.settled[frame] = True
        if escaped:
            self._linearize()

    def _escape(self, frame: int, level: int) -> bool:
        """Leave a saddle along the direction of most negative curvature, if that lowers the level."""
        objective = self._objective
        self._stubborn[frame, level] = True
        curvature = objective.curvature(self.point, self._levels, level, self._stubborn)
        if curvature is None:
            return False
        down, up = (bound[frame] for bound in objective.room(self.point.values))
        free = (-down > ESCAPE_ANGLES[0]) | (up > ESCAPE_ANGLES[0])
        projection = np.diag(free.astype(np.float64))
        for upper in self._levels[:level]:
            basis = np.linalg.qr((upper.jacobian[frame] @ projection).T)[0]
            projection = projection - basis @ (basis.T @ projection)
        jacobian = self._levels[level].jacobian[frame]
        hessian = projection @ (jacobian.T @ jacobian + curvature[frame]) @ projection
        bends, directions = np.linalg.eigh(0.5 * (hessian + hessian.T))
        if bends[0] > -ESCAPE_CURVATURE:
            return False
        direction = directions[:, 0] / np.abs(directions[:, 0]).max()
        away = self.point.residuals[-1][frame]
        signs = (1.0, -1.0) if direction @ away <= 0.0 else (-1.0, 1.0)  # towards the preferred pose first
        norms = self._norms
        for size in ESCAPE_ANGLES:
            for sign in signs:
                change = np.zeros_like(self.point.values)
                change[frame] = sign * size * direction
                trial = self.moved_to(change)
                lowered = norms_of(self._residuals(trial))
                if _first_falls(lowered, norms, norms, self._slack, ties=False)[frame]:
                    self.point = trial
                    self._radius[frame], self._damping[frame] = self._max_angle, self._first_damping
                    return True
        return False


def _first_falls(
    new: FloatArray, old: FloatArray, allowed: FloatArray, slack: FloatArray, *, ties: bool
) -> BoolArray:
    """Whether, of the levels that change by more than the slack, the first falls, (F,).

    Args:
        new: |r| of the levels, (F, L).
        old: |r| before, from which it falls.
        allowed: |r| from which it rises.
        slack: Changes that do not count, (L,).
        ties: The answer where none changes.
    """
    falls, rises = new < old - slack, new > allowed + slack
    changes = falls | rises
    first = changes.argmax(axis=1)
    rows = np.arange(len(new))
    return np.where(changes.any(axis=1), falls[rows, first] & ~rises[rows, first], ties)

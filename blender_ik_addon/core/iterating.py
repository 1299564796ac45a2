# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop round the papers' step rules: limits, clamps, acceptance, standing still.

The methods other than PRIORITY and DLS are rules for a small step from where a pose is. Here they are
followed from a start until the pose stands still. All tasks count as one level, by their weights, in scaled
units (see `objective`): there the springs' K is the identity, and SPRINGS' energy is half the square of the
wish.

**Limits.** A channel that a step would take through a limit is stopped there, and the rule is asked again for
what is then left of the error with the remaining channels, until none leaves. BOUNDED has the limits in its
rule. So no iterate is ever outside.

**Clamps** [Buss2009 §6]. The largest change of an angle is clamped, to less after a step that brought
nothing; with a clamp distance the error of each place is shortened as well.

**Acceptance.** The papers take every step. Here one is taken if the error falls, or if the wish for the
preferred pose does while the error stays within a band round the least so far: what a motion along the null
space bends is straightened by the next step. Otherwise the pose stays and the next step is shorter. Out of
reach, where the plain rules jump to and fro for ever, they come to rest so.

**Saddles.** A limb stretched towards a target that is nearer has no slope at all, and every rule stands
still. There the pose is bent a little along the most negative curvature of the error, and the rule goes on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray
from .methods import RULES, Question
from .objective import Objective, Point
from .options import SolverOptions
from .rules import GAMMA_MAX, clamped_largest, clamped_magnitude

BAND: Final = 0.02
"""How far the error [1], in scaled units, may be above the least so far while the wish falls."""

GROWTH: Final = 2.0
"""By what the largest change grows after a step that was taken."""

SHRINKAGE: Final = 0.25
"""To what part of it or of the step, whichever is less, it shrinks after one that was not."""

GAIN_FACTORS: Final = (1.4, 0.5)
"""Change of α after a step, and after one that bent the error by more than it brought."""

FALLS: Final = 1e-9
"""Part [1] of the error or the wish by which they must fall to count as falling."""

SADDLE: Final = 1e-6
"""Curvature of the error [1], in scaled units, that is taken for negative."""

BENDS: Final = (0.03, 0.3)
"""By how much a pose is bent to leave a saddle [rad], one after the other until the error falls."""


class Iteration(ABC):
    """What a method has reached from a start, (F, nv), and its next step."""

    def __init__(self, objective: Objective, start: FloatArray, options: SolverOptions, slack: float) -> None:
        """Prepare.

        Args:
            objective: All tasks as one level, unclamped.
            start: Free channels, (F, nv).
            options: Settings.
            slack: Error [1], in scaled units, that counts as nothing.
        """
        self._objective, self._options, self._slack = objective, options, slack
        self.point: Point = objective.at(objective.clipped(start))
        """The best pose so far."""
        self.iterations: int = 0
        self.history: list[FloatArray] = [self.point.norms[:, :-1]]
        """|r| of all tasks as one level, after each iteration, (F, 1)."""
        self.settled: BoolArray = np.full(len(start), objective.system.size == 0 or objective.levels == 0)
        """Which frames are done, (F,)."""

    @property
    def finished(self) -> bool:
        """Whether every frame is done."""
        return bool(self.settled.all())

    @property
    @abstractmethod
    def most_iterations(self) -> int:
        """After how many to stop."""

    @abstractmethod
    def iterate(self) -> None:
        """One more step."""

    def conclude(self) -> None:  # noqa: B027 (most have nothing to do)
        """Come to an end: no more steps follow."""

    def _off_saddle(self, frame: int) -> FloatArray | None:
        """Values (nv,) beside those of a frame with a smaller error, if it stands on a saddle of it."""
        objective = self._objective.select(np.array([frame]))
        point = objective.at(self.point.values[frame][None])
        down, up = (room[0] for room in objective.room(point.values))
        free = (down < -BENDS[0]) & (up > BENDS[0])
        jacobian = np.where(free, objective.linearize(point)[0].jacobian[0], 0.0)
        curvature = objective.own_curvature(point, 0)[0] * (free[:, None] & free)
        bends, directions = np.linalg.eigh(jacobian.T @ jacobian + curvature)
        if bends[0] > -SADDLE:
            return None
        direction = directions[:, 0] / np.abs(directions[:, 0]).max()
        # Towards the preferred pose first.
        sign = -1.0 if direction @ point.residuals[-1][0] > 0.0 else 1.0
        for size in BENDS:
            for way in (sign, -sign):
                values = objective.clipped(objective.moved(point.values, way * size * direction[None]))
                if objective.at(values).norms[0, 0] < point.norms[0, 0] * (1.0 - FALLS):
                    return values[0]
        return None


class RuleIteration(Iteration):
    """A rule for the next step, followed."""

    def __init__(self, objective: Objective, start: FloatArray, options: SolverOptions, slack: float) -> None:
        """Prepare; arguments as for every iteration."""
        super().__init__(objective, start, options, slack)
        frames = len(start)
        self._wish = options.preferred_pose and objective.wishes and options.uses("preferred_pose")
        self._rule = RULES[options.method]
        limit = min(options.max_angle, GAMMA_MAX) if options.method == "SDLS" else options.max_angle
        self._longest = limit
        self.radius = np.full(frames, limit)
        """Largest change in the next step [rad], (F,)."""
        self._gain = np.full(frames, options.null_space_gain)
        self._straightens = np.zeros(frames, dtype=np.bool_)
        self._usual = np.zeros(frames, dtype=np.bool_)
        """Frames in which the alternate Jacobian has brought nothing."""
        if not self._wish:
            self.settled |= self._error <= slack  # what is met stays as it is, bit by bit
        self._least = np.array(self._error)
        self._straight = self.point
        """The last pose whose error was the least or nothing."""
        self._starts = np.cumsum([0, *objective.system.row_counts])[:-1]
        self._effector_rows = _effector_rows(objective.system.row_counts)
        self.clamp_distances = self._first_distances()

    @property
    def most_iterations(self) -> int:
        """As many as the options say."""
        return self._options.max_iterations

    @property
    def _error(self) -> FloatArray:
        """|r| of all tasks, (F,)."""
        return self.point.norms[:, 0]

    def _first_distances(self) -> FloatArray | None:
        """Dmax of each task in scaled units at the start, (F, T); None without a clamp."""
        distance, system = self._options.clamp_distance, self._objective.system
        if distance is None or not len(self._starts):
            return None
        angular = np.concatenate(system.angular_rows)
        # A task without rows has nothing to be clamped.
        first = np.minimum(self._starts, len(angular) - 1)
        self._dmax = np.where(angular[first], np.inf, distance * self._objective.row_scale[first])
        if self._options.clamp_after_jump:
            return np.full((len(self.point.values), len(first)), np.inf)
        return np.tile(self._dmax, (len(self.point.values), 1))

    def _clamped(self, error: FloatArray) -> FloatArray:
        """The error (F, m) with each task's part within its distance."""
        if self.clamp_distances is None:
            return error
        parts = zip(np.split(error, self._starts[1:], axis=1), self.clamp_distances.T, strict=True)
        return np.concatenate([clamped_magnitude(part, distance) for part, distance in parts], axis=1)

    def iterate(self) -> None:
        """One step for every frame that still moves."""
        self.iterations += 1
        moving = ~self.settled
        change = np.where(moving[:, None], self._step(), 0.0)
        size = np.abs(change).max(axis=1, initial=0.0)
        trial = self._objective.at(self._objective.moved(self.point.values, change))
        better = moving & self._better(trial)
        self._clamp_after(trial, better)
        # A rule that answers with nothing has nothing more to say; one that is refused says it more softly.
        still = size < self._options.step_tolerance
        shrunk = SHRINKAGE * np.minimum(self.radius, np.maximum(size, self._options.step_tolerance))
        grown = np.minimum(GROWTH * self.radius, self._longest)
        self.radius = np.where(better, grown, np.where(moving, shrunk, self.radius))
        self._adapt_gain(trial, better)
        self._usual = moving & ~better
        if better.any():
            self.point = self._mixed(trial, self.point, better)
            self._least = np.minimum(self._least, self._error)
            straight = better & (self._error <= np.maximum(self._slack, self._straight.norms[:, 0]))
            self._straight = self._mixed(self.point, self._straight, straight)
        done = self._error <= self._slack if not self._wish else np.zeros_like(moving)
        worn_out = self.radius < SHRINKAGE * self._options.step_tolerance
        still = moving & (still | worn_out | done)
        for frame in np.flatnonzero(still & (self._error > self._slack)):
            values = self._off_saddle(int(frame))
            if values is not None:
                self._put(int(frame), values)
                self.radius[frame], still[frame] = self._longest, False
        self.settled |= still
        self.history.append(self.point.norms[:, :-1])

    def _adapt_gain(self, trial: Point, better: BoolArray) -> None:
        """Go less far in the null space where the error rises by more than the wish falls.

        The next step then only straightens what this one has bent, as does that after one that was refused.
        """
        rise = trial.norms - self.point.norms
        overshoots = better & (rise[:, 0] > self._slack) & (rise[:, 0] > -rise[:, -1])
        factor = np.where(overshoots, GAIN_FACTORS[1], np.where(self._straightens, 1.0, GAIN_FACTORS[0]))
        gain = np.minimum(self._gain * factor, self._options.null_space_gain)
        self._gain = np.where(better, gain, self._gain)
        refused = ~better & (self._error > self._slack) & ~self._straightens
        # Springs settle by Newton's step, which overshoots by little.
        self._straightens = (self._wish and self._options.method != "SPRINGS") & (overshoots | refused)

    def conclude(self) -> None:
        """Where the last steps went for the wish and bent the error, take the pose before them."""
        bent = self._error > np.maximum(self._slack, self._straight.norms[:, 0])
        if bent.any():
            self.point = self._mixed(self._straight, self.point, bent)
            self.history[-1] = self.point.norms[:, :-1]

    def _mixed(self, some: Point, others: Point, chosen: BoolArray) -> Point:
        """One point for the chosen frames, another for the rest."""
        if chosen.all():
            return some
        if not chosen.any():
            return others
        return self._objective.at(np.where(chosen[:, None], some.values, others.values))

    def _put(self, frame: int, values: FloatArray) -> None:
        """Go on from other values (nv,) in one frame."""
        all_values = np.array(self.point.values)
        all_values[frame] = values
        self.point = self._objective.at(all_values)

    def _better(self, trial: Point) -> BoolArray:
        """Whether a trial is to be taken, (F,)."""
        error, wish = trial.norms[:, 0], trial.norms[:, -1]
        falls = error < self._error * (1.0 - FALLS)
        if not self._wish:
            return falls
        nearer = wish < self.point.norms[:, -1] * (1.0 - FALLS)
        return falls | (nearer & (error <= self._least + BAND)) | (error <= self._slack) & nearer

    def _clamp_after(self, trial: Point, better: BoolArray) -> None:
        """After a jump: next time what this step has brought nearer, and Dmax."""
        if self.clamp_distances is None or not self._options.clamp_after_jump:
            return
        starts = self._starts
        before, after = (
            np.sqrt(np.add.reduceat(point.residuals[0] ** 2, starts, axis=1)) for point in (self.point, trial)
        )
        nearer = np.where(better[:, None], np.maximum(before - after, 0.0), 0.0)
        self.clamp_distances = self._dmax + nearer

    def _step(self) -> FloatArray:
        """The rule's answer inside the limits and the radius, (F, nv)."""
        objective, options = self._objective, self._options
        level = objective.linearize(self.point)[0]
        jacobian, error = level.jacobian, self._clamped(-level.residual)
        if options.alternate_jacobian:
            other = objective.alternate_jacobian(self.point.posed)
            jacobian = np.where(self._usual[:, None, None], jacobian, other)
        most = self.radius[:, None]
        lower, upper = (np.clip(bound, -most, most) for bound in objective.room(self.point.values))
        away = objective.away(self.point.values) if self._wish else np.zeros_like(self.point.values)
        return self._inside(
            Question(
                objective=objective,
                point=self.point,
                options=options,
                jacobian_of_all=jacobian,
                error_at_start=error,
                away_of_all=away,
                lower=lower,
                upper=upper,
                radius=self.radius,
                gain=np.where(self._straightens, 0.0, self._gain),
                effector_rows=self._effector_rows,
                held=np.zeros(away.shape, dtype=np.bool_),
                fixed=np.zeros_like(away),
            )
        )

    def _inside(self, question: Question) -> FloatArray:
        """Ask the rule, stop what would leave the box, and ask again."""
        limits = self._objective.room(self.point.values)
        downhill = (np.swapaxes(question.jacobian, -1, -2) @ question.error[..., None])[..., 0]
        while True:
            answer = np.where(question.held, question.fixed, self._rule(question))
            change = clamped_largest(answer, self.radius)
            inside = np.clip(change, *limits)
            beyond = np.where(question.held, 0.0, np.abs(change - inside))
            if not beyond.any():
                return inside
            # What downhill itself presses against a limit is held at once. Others may leave only as long as
            # those are not held: the furthest first.
            pressed = (beyond > 0.0) & (downhill * change > 0.0) & (inside == 0.0)
            furthest = (beyond == beyond.max(axis=1, keepdims=True)) & (beyond > 0.0)
            leaves = pressed | (furthest & ~pressed.any(axis=1, keepdims=True))
            question = question.without(leaves, inside)


def _effector_rows(row_counts: list[int]) -> tuple[int, ...]:
    """Rows of what SDLS takes for effectors: tasks about joints, up to three each; of others row by row."""
    return tuple(rows for count in row_counts for rows in ([count] if count <= 3 else [1] * count) if rows)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop round the papers' step rules: limits, clamps, acceptance, standing still.

The methods other than PRIORITY and DLS are rules for a small step from where a pose is. Here they are
followed from a start until the pose stands still. All tasks count as one level, by their weights, in scaled
units (see `objective`): there the springs' K is the identity, and SPRINGS' energy is half the square of the
wish.

**Limits.** A channel that a step would take through a limit is stopped there, and the rule is asked again for
what is then left of the error with the remaining channels, until none leaves. BOUNDED has the limits in its
rule. So no iterate is ever outside. Where that leaves nothing of a step, the next one goes straight downhill.

**Clamps** [Buss2009 §6]. The largest change of an angle is clamped, to less after a step that brought
nothing; with a clamp distance the error of each place is shortened as well.

**Acceptance.** The papers take every step. Here one is taken if the error falls, or if the wish for the
preferred pose does while the error stays within a band round the least so far: what a motion along the null
space bends is straightened by the next step. Otherwise the pose stays and the next step is shorter. Out of
reach, where the plain rules jump to and fro for ever, they come to rest so.

**Saddles.** A limb stretched towards a target that is nearer has no slope at all, and every rule stands
still. There the pose is bent a little along the most negative curvature of the error, and the rule goes on.

**The null space** takes a motion towards the preferred pose, −α times the deviation: in PSEUDO_INVERSE as
Liégeois' gradient; in SPRINGS by settling, Newton's step for their energy; in EXTENDED_JACOBIAN as wanted
displacements of the elements, and in BOUNDED as d = [e; c z], both out of what the targets' rows leave free,
so that at rest the targets are met exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray
from .elements import basic_elements
from .inverses import damped_inverse, null_space_projection
from .nonlinear import BoundedDescent, penalized_error
from .objective import Objective, Point
from .options import SolverOptions
from .rules import (
    GAMMA_MAX,
    bounded_least_squares_step,
    clamped_largest,
    clamped_magnitude,
    extended_jacobian_step,
    gradient_projection_step,
    pseudo_inverse_step,
    selectively_damped_step,
    springs_step,
    transpose_step,
)

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

FLOOR: Final = 1e-8
"""Least λ [1], in scaled units, where the error is nothing: rows that depend on each other still do."""

FORCE_DAMPING: Final = 1e-3
"""λ of the springs' forces [1], in scaled units, so that they stay moderate at singular poses."""

FIRST_GAMMA: Final = 0.3
"""γ of the first minimisation [1]; each further one has a tenth, down to that of the options: the valley of
a small γ is too narrow to be walked from afar."""

GAMMA_FACTOR: Final = 0.1
"""The tenth."""

SADDLE: Final = 1e-6
"""Curvature of the error [1], in scaled units, that is taken for negative."""

BENDS: Final = (0.03, 0.3)
"""By how much a pose is bent to leave a saddle [rad], one after the other until the error falls."""

LEAST_GAMMA: Final = 1e-3
"""γ [1] below which the preferred pose need not be exact."""

ROUGHLY: Final = 0.05
"""Slope against γ² [1] at which a minimisation is good enough to start the next one from."""


class Iteration(ABC):
    """What a method has reached from a start, (F, nv), and its next step."""

    def __init__(self, objective: Objective, start: FloatArray, options: SolverOptions) -> None:
        self._objective, self._options = objective, options
        self.point: Point = objective.at(objective.clipped(start))
        """The best pose so far."""
        self.iterations = 0
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


def iteration(objective: Objective, start: FloatArray, options: SolverOptions, slack: float) -> Iteration:
    """The method of the options, at a start (F, nv).

    Args:
        objective: All tasks as one level, unclamped.
        start: Free channels.
        options: Settings.
        slack: Error [1], in scaled units, that counts as nothing.
    """
    if options.method == "NONLINEAR":
        return Minimization(objective, start, options, slack)
    return RuleIteration(objective, start, options, slack)


class RuleIteration(Iteration):
    """A rule for the next step, followed."""

    def __init__(self, objective: Objective, start: FloatArray, options: SolverOptions, slack: float) -> None:
        """Prepare; arguments as for `iteration`."""
        super().__init__(objective, start, options)
        frames = len(start)
        self._slack = slack
        self._wish = options.preferred_pose and objective.wishes and options.uses("preferred_pose")
        self._rule = _RULES[options.method]
        limit = min(options.max_angle, GAMMA_MAX) if options.method == "SDLS" else options.max_angle
        self._longest = limit
        self.radius = np.full(frames, limit)
        """Largest change in the next step [rad], (F,)."""
        self._gain = np.full(frames, options.null_space_gain)
        self._straightens = np.zeros(frames, dtype=np.bool_)
        self._usual = np.zeros(frames, dtype=np.bool_)
        """Frames in which the alternate Jacobian has brought nothing."""
        self._plain = np.zeros(frames, dtype=np.bool_)
        """Frames that take a step downhill instead of the rule's."""
        self._least = np.array(self._error)
        self._starts = np.cumsum([0, *objective.system.row_counts])[:-1]
        self.effector_rows = _effector_rows(objective.system.row_counts)
        """Rows of what SDLS takes for an effector: a task about a joint, or each channel of another."""
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
        parts = np.split(error, self._starts[1:], axis=1)
        return np.concatenate(
            [
                clamped_magnitude(part, limit)
                for part, limit in zip(parts, self.clamp_distances.T, strict=True)
            ],
            axis=1,
        )

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
            values = np.where(better[:, None], trial.values, self.point.values)
            self.point = trial if better.all() else self._objective.at(values)
            self._least = np.minimum(self._least, self._error)
        done = self._error <= self._slack if not self._wish else np.zeros_like(moving)
        worn_out = self.radius < SHRINKAGE * self._options.step_tolerance
        still = moving & (still | worn_out | done)
        # Limits may have stopped everything that the rule would move, and yet there is a way down.
        unheard = still & ~self._plain & (self._error > self._slack) & self._objective.limited
        self._plain = (self._plain & ~better) | unheard
        self.radius = np.where(unheard, self._longest, self.radius)
        still &= ~unheard
        for frame in np.flatnonzero(still & (self._error > self._slack)):
            values = self._off_saddle(int(frame))
            if values is not None:
                self._put(int(frame), values)
                self.radius[frame], still[frame] = self._longest, False
        self.settled |= still
        self.history.append(self.point.norms[:, :-1])

    def _adapt_gain(self, trial: Point, better: BoolArray) -> None:
        """Go less far in the null space where the error rises by more than the wish falls.

        The next step then only straightens what this one has bent, as does the next after one that was refused.
        """
        rise = trial.norms - self.point.norms
        overshoots = better & (rise[:, 0] > self._slack) & (rise[:, 0] > -rise[:, -1])
        factor = np.where(overshoots, GAIN_FACTORS[1], np.where(self._straightens, 1.0, GAIN_FACTORS[0]))
        gain = np.minimum(self._gain * factor, self._options.null_space_gain)
        self._gain = np.where(better, gain, self._gain)
        refused = ~better & (self._error > self._slack) & ~self._straightens
        self._straightens = self._wish & (overshoots | refused)

    @property
    def gain(self) -> FloatArray:
        """α of the null space in the next step, (F,)."""
        return np.where(self._straightens, 0.0, self._gain)

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
        return self._inside(_Here(self, jacobian, error, away, lower, upper))

    def _inside(self, here: _Here) -> FloatArray:
        """Ask the rule, stop what would leave the box, and ask again."""
        nv = here.lower.shape[1]
        limits = self._objective.room(self.point.values)
        downhill = (np.swapaxes(here.jacobian, -1, -2) @ here.error[..., None])[..., 0]
        while True:
            answer = self._rule(here)
            if self._plain.any():
                answer = np.where(self._plain[:, None], _transpose(here), answer)
            answer = np.where(here.held, here.fixed, answer)
            change = clamped_largest(answer, self.radius)
            inside = np.clip(change, *limits)
            beyond = np.where(here.held, 0.0, np.abs(change - inside))
            if not beyond.any() or here.rounds > nv:
                return inside
            # What downhill itself presses against a limit is held at once. Others may leave only as long as
            # those are not held: the furthest first.
            pressed = (beyond > 0.0) & (downhill * change > 0.0) & (inside == 0.0)
            furthest = (beyond == beyond.max(axis=1, keepdims=True)) & (beyond > 0.0)
            leaves = pressed | (furthest & ~pressed.any(axis=1, keepdims=True))
            here = here.without(leaves, inside)

    @property
    def share_of_error(self) -> FloatArray:
        """By what strengths of the options are multiplied, (F,): the error [Sugihara2011]."""
        return np.minimum(self._error, 1.0) + FLOOR

    @property
    def damping(self) -> FloatArray:
        """λ, (F,)."""
        return self._options.damping * self.share_of_error

    @property
    def options(self) -> SolverOptions:
        """The settings, for the rule."""
        return self._options

    def elements(self) -> FloatArray:
        """Rows of the basic elements by u, (F, k, nv)."""
        return basic_elements(self.point.posed) / (self._objective.length * self._objective.weight)

    def spring_bend(self, jacobian: FloatArray, deviation: FloatArray) -> FloatArray:
        """G of the forces that bear the springs, by u, (F, nv, nv)."""
        inverse = damped_inverse(jacobian, FORCE_DAMPING)
        forces = (np.swapaxes(inverse, -1, -2) @ deviation[..., None])[..., 0]
        return self._objective.bend(self.point.posed, forces).matrix()


class _Here:
    """What a rule is asked: the linear model with the channels that are left."""

    def __init__(
        self,
        walk: RuleIteration,
        jacobian: FloatArray,
        error: FloatArray,
        away: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
    ) -> None:
        self.walk, self.lower, self.upper = walk, lower, upper
        self._whole, self._error, self._away = jacobian, error, away
        self.held: BoolArray = np.zeros(away.shape, dtype=np.bool_)
        """Channels that were stopped at a limit, (F, nv)."""
        self.fixed: FloatArray = np.zeros_like(away)
        """What they change, (F, nv)."""
        self.rounds = 0

    def without(self, leaves: BoolArray, change: FloatArray) -> _Here:
        """The same with some more channels held after a change (F, nv)."""
        other = _Here(self.walk, self._whole, self._error, self._away, self.lower, self.upper)
        other.held = self.held | leaves
        other.fixed = np.where(other.held, np.where(leaves, change, self.fixed), 0.0)
        other.rounds = self.rounds + 1
        return other

    @property
    def jacobian(self) -> FloatArray:
        """By the channels that are left, (F, m, nv)."""
        return np.where(self.held[:, None, :], 0.0, self._whole)

    @property
    def error(self) -> FloatArray:
        """What those that are held have left of the error, (F, m)."""
        return self._error - (self._whole @ self.fixed[..., None])[..., 0]

    @property
    def away(self) -> FloatArray:
        """Deviation from the preferred pose in what is left, (F, nv)."""
        return np.where(self.held, 0.0, self._away)


def _transpose(here: _Here) -> FloatArray:
    return transpose_step(here.jacobian, here.error)


def _pseudo_inverse(here: _Here) -> FloatArray:
    return gradient_projection_step(here.jacobian, here.error, here.walk.gain[:, None] * here.away, 1.0)


def _selectively_damped(here: _Here) -> FloatArray:
    return selectively_damped_step(
        here.jacobian, here.error, here.walk.effector_rows, gamma_max=here.walk.radius
    )


def _springs(here: _Here) -> FloatArray:
    jacobian, away = here.jacobian, here.away
    bend = here.walk.spring_bend(jacobian, away)
    bend = np.where(here.held[:, :, None] | here.held[:, None, :], 0.0, bend)
    change, _ = springs_step(
        jacobian,
        here.error,
        np.ones_like(away),
        away,
        bend,
        settling=here.walk.gain,
        damping=here.walk.damping,
    )
    return change


def _extended_jacobian(here: _Here) -> FloatArray:
    options, jacobian = here.walk.options, here.jacobian
    whole = here.walk.elements()
    elements = np.where(here.held[:, None, :], 0.0, whole)
    wanted = pseudo_inverse_step(jacobian, np.zeros_like(here.error), -here.walk.gain[:, None] * here.away)
    # What the channels that are held do to the elements is done already.
    displacement = (elements @ wanted[..., None])[..., 0] - (whole @ here.fixed[..., None])[..., 0]
    weight = here.walk.share_of_error[:, None] * options.element_weight
    return extended_jacobian_step(jacobian, here.error, elements, displacement, weight=weight)


def _bounded(here: _Here) -> FloatArray:
    """Twice: what the limits hold in the first answer takes no part in the null space of the second."""
    jacobian, error, damping = here.jacobian, here.error, here.walk.damping
    change = bounded_least_squares_step(jacobian, error, here.lower, here.upper, damping)
    if not here.away.any():
        return change
    free = (change > here.lower) & (change < here.upper)
    left = np.where(free[:, None, :], jacobian, 0.0)
    wish = np.where(free, -here.walk.gain[:, None] * here.away, 0.0)
    wanted = (null_space_projection(left) @ wish[..., None])[..., 0]
    # |J dq − e|² + c²|dq − z|² is the same rule about z.
    about = error - (jacobian @ wanted[..., None])[..., 0]
    return wanted + bounded_least_squares_step(
        jacobian, about, here.lower - wanted, here.upper - wanted, damping
    )


_RULES: Final[dict[str, Callable[[_Here], FloatArray]]] = {
    "TRANSPOSE": _transpose,
    "PSEUDO_INVERSE": _pseudo_inverse,
    "SDLS": _selectively_damped,
    "SPRINGS": _springs,
    "EXTENDED_JACOBIAN": _extended_jacobian,
    "BOUNDED": _bounded,
}


def _effector_rows(row_counts: list[int]) -> list[int]:
    """Tasks about joints have up to three rows each; the rows of others count one by one."""
    return [rows for count in row_counts for rows in ([count] if count <= 3 else [1] * count) if rows]


class Minimization(Iteration):
    """[KiSheen eq. 3.1] for smaller and smaller γ, each from the answer to the one before."""

    def __init__(self, objective: Objective, start: FloatArray, options: SolverOptions, slack: float) -> None:
        """Prepare; arguments as for `iteration`."""
        super().__init__(objective, start, options)
        wish = options.preferred_pose and objective.wishes and options.gamma > 0.0
        self._gammas = _gammas(options.gamma) if wish else [0.0]
        self._slack = slack
        self._stages = np.full(len(start), -1, dtype=np.int64)
        """Which of the γ each frame is at, (F,)."""
        self._descents: dict[int, BoundedDescent] = {}
        for frame in np.flatnonzero(~self.settled):
            self._go_on(int(frame))

    @property
    def most_iterations(self) -> int:
        """Each minimisation has as many as the options say."""
        return self._options.max_iterations * len(self._gammas)

    def iterate(self) -> None:
        """One more of each frame that is not done."""
        self.iterations += 1
        objective, weight = self._objective, self._objective.weight
        before = self.point.values
        values = np.array(before)
        for frame, descent in self._descents.items():
            if not self.settled[frame]:
                descent.iterate()
                change = descent.values - before[frame] * weight
                values[frame] = objective.moved(before[frame], change)
        self.point = objective.at(values)
        self.history.append(self.point.norms[:, :-1])
        for frame in np.flatnonzero(~self.settled):
            descent = self._descents[int(frame)]
            last = self._stages[frame] == len(self._gammas) - 1
            if last and descent.converged:
                values = self._off_saddle(int(frame)) if self.point.norms[frame, 0] > self._slack else None
                if values is None:
                    self.settled[frame] = True
                else:
                    self._go_on(int(frame), values)
            elif not last and (descent.converged or descent.iterations >= self._options.max_iterations):
                self._go_on(int(frame))

    def _go_on(self, frame: int, elsewhere: FloatArray | None = None) -> None:
        """Begin with the next γ of a frame, or with the same from other values (nv,)."""
        if elsewhere is None:
            self._stages[frame] += 1
        values: FloatArray = self.point.values[frame] if elsewhere is None else elsewhere
        stage = int(self._stages[frame])
        gamma, last = self._gammas[stage], stage == len(self._gammas) - 1
        objective = self._objective.select(np.array([frame]))
        weight, system = objective.weight, objective.system

        def cost(u: FloatArray) -> tuple[float, FloatArray]:
            point = objective.at(objective.clipped((u / weight)[None]))
            level = objective.linearize(point)[0]
            return penalized_error(-level.residual[0], level.jacobian[0], point.residuals[-1][0], gamma)

        # At a minimum Jᵀr = γ²w: a slope that is small against γ² leaves little of both.
        accuracy = self._slack if last else ROUGHLY
        tolerance = max(gamma, LEAST_GAMMA) ** 2 * accuracy if gamma else accuracy
        self._descents[frame] = BoundedDescent(
            cost,
            values * weight,
            system.lower * weight,
            system.upper * weight,
            tolerance=tolerance,
        )


def _gammas(last: float) -> list[float]:
    """From the first γ by tenths to the last."""
    gammas = [last]
    while gammas[-1] < FIRST_GAMMA:
        gammas.append(min(gammas[-1] / GAMMA_FACTOR, FIRST_GAMMA))
    return gammas[::-1]

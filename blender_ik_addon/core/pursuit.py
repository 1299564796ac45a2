# SPDX-License-Identifier: GPL-3.0-or-later
"""A pose that pursues targets while somebody moves them: with little work for each movement, and no jumps.

**In reach** the pose is the solver's own: one attempt to meet all tasks, from where the body is.

**Out of reach** strict levels are searched for by descents, one after the other. That takes long, and near
the border of the reach the strict answer turns joints by many degrees for a millimetre. Here what cannot be
met hangs on springs instead. Let k be the first level that cannot be met with those above it. Of the poses
that meet the levels above k exactly, the wanted one has the least

    Φ(u) = ½ Σ_{l >= k} W_l |r_l(u)|² + ½ |w(u)|²,    lower <= u <= upper,

w = u − preferred, W_l falling by `RATIO` from level to level: a quadratic penalty [NocedalWright2006 §17.1].
What is being moved is on springs too, though its level be above k, for nothing is harder to hold than the end
of a limb that is nearly straight. With W without end that would be the strict answer. As it is, levels that
are held stay put exactly, those below give way to each other as their weights say, and no pose is far
from the next one: Φ bends upwards across every border.

**Steps** are Newton's on Lagrange's conditions (`lagrange`): the levels above k are the tasks, Φ is the cost,
and its Hessian has the curvature of both, with the pulls W r of the level that is missed, and for the levels
below it those pulls that the last step expected, since their residuals swing. A step is taken when the exact
penalty function falls. A few steps are made for a movement; what is left comes with the next.

**Levels change hands.** What is held was met when the first target was missed, and its targets stand still.
A level whose springs are hardly stretched, but for what those below pull, is tried exactly and held from then
on if that succeeds. Where all are hardly stretched the pose is the solver's own again, if an attempt succeeds
without turning anything far. If it does not, limbs are nearly straight, and the level above gives way too
rather than be held where no step is good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray
from .errors import IKError
from .lagrange import Box, Conditions
from .mechanism import PosedMechanism
from .newton import TRUST_START, Attempt, attempt
from .objective import DenseBend, Objective, Stand
from .options import SolverOptions
from .problem import Problem, System
from .pulls import Pulls
from .skeleton import Pose
from .solution import TaskError
from .solver import Criteria, objective_of

STIFFNESS: Final = 900.0
"""Least W of the first level that is missed [1]: the preferred pose, a radian away, keeps it from its target
by about a thousandth of the reach."""
RATIO: Final = 30.0
"""W of a level by that of the level below [1], and of the lowest by the preferred pose."""
RAMP: Final = 3.0
"""Most by which W grows or falls from one movement to the next [1], where another level has become the first
that is missed."""
MOST_STIFFNESS: Final = 1e10
"""Largest W [1]: what it leaves of the digits is enough for the preferred pose."""

EXACT_STEPS: Final = 8
"""Most steps of an attempt to meet tasks exactly: a movement of a mouse needs 2 to 4."""
RETURN_STEPS: Final = 5
"""The same for attempts to come back from springs, which are made where that is near, and to meet some of the
levels, to which nothing has happened but for the last one."""
MOST_STEPS: Final = 14
"""Most steps of all kinds for one movement."""
SPRING_STEPS: Final = (3, 6)
"""Least and most of them on springs."""
SETTLING_STEPS: Final = 40
"""The same where nobody waits for it."""

CALM: Final = 6.0
"""Pull W |r| of a level [1] up to which it may be in reach: a few radians away from the preferred pose."""
LEVER: Final = 2.0
"""Part of what the levels below pull [1] that a level has to bear: they may have the longer lever."""
LAST: Final = 0.5
"""Part of what is missed [1] from which the last level is what cannot be met."""
CALMER: Final = 0.8
"""Part of the pull [1] with which an attempt to come back has failed, from which the next one is made."""
SNAP: Final = 0.1
"""Largest change of a channel [rad, or lengths of reach] with which a level may be held again."""

MAX_CHANGE: Final = 0.2
"""Largest change of a channel in one step [rad]: a longer one on the way to rest would be seen as a jump."""
FAR: Final = 0.5
"""Change of a channel [rad, or lengths of reach] from which a pose is another one."""
RADIUS_FACTORS: Final = (2.0, 0.25)
"""Change of the trust radius after a step that was taken, and after one that was not."""
SMALLEST_RADIUS: Final = 1e-6
"""Trust radius [rad] below which nothing gets better any more."""
STILL: Final = 1e-4
"""Change [rad] in a step of Newton's after which the next one would change nothing to speak of."""
FINE: Final = 1e-3
"""Largest change [rad] of a step that is taken without asking the merit: rounding would decide it."""
UNBENT: Final = 1e-3
"""Curvature [1] of channels without a preferred value."""
FLOOR: Final = 1e-13
"""λ² [1] that keeps tasks which ask for the same thing from being singular."""
PENALTY, PENALTY_START = 0.5, 0.1
"""ν beyond |y|, as a part of it, and this much more [1]; the pull yᵀr itself is counted besides."""
PENALTY_FADE: Final = 0.5
"""Part of ν [1] that is left for the next step."""


@dataclass(frozen=True)
class Pursued:
    """What one movement of the targets came to."""

    pose: Pose
    errors: tuple[TaskError, ...]
    """One for each task that has a weight, in the problem's order."""
    iterations: int
    exact: bool
    """Whether all tasks are met: the pose is what a solve from the one before would give."""
    settled: bool
    """Whether the same targets once more would change nothing."""


class Pursuit:
    """A problem whose targets move, and a body that goes after them."""

    def __init__(self, problem: Problem, pose: Pose, options: SolverOptions) -> None:
        """Prepare.

        Args:
            problem: Skeleton and tasks, with targets of one frame.
            pose: Where to start, without leading axes; fixed channels and scale are taken from it.
            options: Settings of the method PRIORITY, without a clamp.

        Raises:
            IKError: The problem, pose and options do not fit together.
        """
        if pose.frames:
            raise IKError(f"a pursuit starts from one pose, got leading axes {pose.frames}")
        if problem.frames not in (None, 1):
            raise IKError(f"a pursuit takes one frame at a time; the targets have {problem.frames}")
        if not pursues(options):
            raise IKError(f"a pursuit needs the method PRIORITY without a clamp, got {options.method}")
        self._options = options
        self._system = problem.assemble(pose.as_batch())
        if self._system.alternatives:
            raise IKError("a pursuit cannot choose between targets: use `Tracker`")
        self._objective = objective_of(self._system, options)
        self._criteria = Criteria.of(self._objective, options)
        self._pose = pose
        self._values: FloatArray = self._system.mechanism.values(pose.as_batch())
        self._placed: PosedMechanism | None = None
        self._held_levels = self._objective.levels
        """How many of the first levels are met exactly."""
        self._moving: frozenset[int] = frozenset()
        """Tasks whose targets have moved since all were met last, by their numbers."""
        self._targets: list[FloatArray] = []
        self._refused = np.inf
        """Pull with which the last attempt to come back has failed [1]."""
        self._rows = _rows_of_tasks(self._system)
        self._priorities = [task.priority for task in self._system.tasks]
        self._springs: _Springs | None = None
        """What the last movement has left behind, where it was one on springs."""

    @property
    def pose(self) -> Pose:
        """Where the body is now."""
        return self._pose

    def follow(self, targets: Sequence[FloatArray], *, settle: bool = False) -> Pursued:
        """Go after the targets.

        Args:
            targets: One for each task that has a weight, in the problem's order: what its `moved` takes.
            settle: Whether to go on until the pose stands still, and not just for as long as a movement of a
                mouse may take.

        Raises:
            IKError: A target is not one of its task's kind; the pose stays as it is.
        """
        self._system = self._system.aimed(targets)
        self._note_moving(targets)
        objective = self._objective.on(self._system)
        iterations = 0
        if self._held_levels == objective.levels:
            found = self._attempted(objective, EXACT_STEPS)
            iterations += int(found.iterations.max(initial=0))
            if found.met.all():
                return self._met(found, iterations)
            self._held_levels, steps = self._first_missed(found)
            iterations += steps
        soft = [row for number in self._moving for row in self._rows[number]]
        springs = _Springs(objective, self._values, self._held_levels, soft, self._springs)
        springs.relax(SETTLING_STEPS if settle else _steps_left(iterations))
        iterations += springs.iterations
        self._springs, self._values, self._placed = springs, springs.stand.values, springs.stand.posed
        found = self._regained(objective, springs)
        if found is not None:
            return self._met(found, iterations + int(found.iterations.max()))
        self._pose = self._system.mechanism.with_values(self._pose, self._values[0])
        return Pursued(self._pose, self._errors(springs), iterations, exact=False, settled=springs.settled)

    def _note_moving(self, targets: Sequence[FloatArray]) -> None:
        """Take down which targets have moved."""
        if self._held_levels == self._objective.levels:
            self._moving = frozenset()
        pairs = zip(targets, self._targets, strict=True) if self._targets else ()
        moved = {number for number, pair in enumerate(pairs) if not np.array_equal(*pair)}
        self._moving |= moved
        self._targets = [np.array(target) for target in targets]

    # Levels that are met exactly

    def _attempted(self, objective: Objective, most_steps: int) -> Attempt:
        goal = replace(self._criteria.goal, max_iterations=most_steps)
        return attempt(objective, self._values, goal, None, self._placed)

    def _met(self, found: Attempt, iterations: int) -> Pursued:
        """Take the pose of an attempt that has met all tasks."""
        self._held_levels, self._springs, self._refused = self._objective.levels, None, np.inf
        self._values, self._placed = found.values, found.posed
        self._pose = self._system.mechanism.with_values(self._pose, found.values[0])
        errors = tuple(
            TaskError(label, error, angular, reached=True)
            for label, error, angular in zip(
                self._system.labels, found.errors[0].tolist(), self._system.angular, strict=True
            )
        )
        return Pursued(self._pose, errors, iterations, exact=True, settled=True)

    def _first_missed(self, found: Attempt) -> tuple[int, int]:
        """The first level that cannot be met with those above it, and how many steps it took to know.

        Args:
            found: The attempt to meet all, which has failed.
        """
        steps, levels = 0, self._objective.levels
        for count in range(1, levels):
            met, own = self._meets_first(count)
            steps += own
            if not met:
                return count - 1, steps
        # Either the last level is missed, or but the preferred pose stands in the way.
        norms = found.history[-1][0]
        is_last = norms[-1] >= LAST * np.linalg.norm(norms)
        return max(levels - (1 if is_last else 2), 0), steps

    def _meets_first(self, count: int) -> tuple[bool, int]:
        """Whether some of the first levels can be met together from here, and in how many steps."""
        objective = objective_of(self._system.first_levels(count), self._options)
        goal = Criteria.of(objective, self._options).goal
        found = attempt(objective, self._values, replace(goal, wish=False, max_iterations=RETURN_STEPS))
        near = np.abs(objective.weight * (found.values - self._values)).max(initial=0.0) <= FAR
        return bool(found.met.all() and near), int(found.iterations.max(initial=0))

    def _regained(self, objective: Objective, springs: _Springs) -> Attempt | None:
        """The answer where all tasks can be met again without a jump; else which levels are held next."""
        level, levels, pulls = self._held_levels, objective.levels, springs.pulls
        if pulls.max() > CALM:
            self._refused = np.inf
            below = pulls[level + 1 :]
            if below.max(initial=0.0) > CALM and pulls[level] <= LEVER * below.sum():
                self._held_levels += self._meets_first(level + 1)[0]
            return None
        self._refused /= CALMER  # it is tried again after some movements in any case
        if pulls.max() <= CALMER * CALMER * self._refused:
            found = self._attempted(objective, RETURN_STEPS)
            change = np.abs(objective.weight * (found.values - self._values)).max(initial=0.0)
            if found.met.all() and change <= SNAP:
                return found
            self._refused = float(pulls.max())
            if not springs.settled:
                self._held_levels = min(level, max(levels - 2, 0))
        return None

    # What is told

    def _errors(self, springs: _Springs) -> tuple[TaskError, ...]:
        system = self._system
        errors = system.errors(springs.stand.posed)[0]
        reached = errors <= self._criteria.tolerance
        pulls = None if reached.all() else springs.told(self._rows)
        return tuple(
            TaskError(
                label,
                error,
                angular,
                met,
                None if met or pulls is None else pulls.explanation(system, self._priorities, number, error),
            )
            for number, (label, error, angular, met) in enumerate(
                zip(system.labels, errors.tolist(), system.angular, reached.tolist(), strict=True)
            )
        )


def pursues(options: SolverOptions) -> bool:
    """Whether a solve with these settings is one that a pursuit can stand in for."""
    return options.method == "PRIORITY" and options.attempts


class _Springs:
    """A pose on its way to where the springs balance."""

    def __init__(
        self,
        objective: Objective,
        values: FloatArray,
        held_levels: int,
        soft: Sequence[int],
        last: _Springs | None,
    ) -> None:
        """Prepare.

        Args:
            objective: The levels, each for itself.
            values: Where to start, (1, nv); brought inside the limits.
            held_levels: How many of the first levels are met exactly; fewer than there are.
            soft: Rows of these that are not, since their targets are being moved.
            last: One for other targets, whose pulls and limits are likely to hold here.
        """
        self._objective, self._first = objective, held_levels
        self.stand: Stand = objective.stand(objective.clipped(objective.unwound(values)))
        """Where the pose is."""
        counts = [len(rows) for rows in objective.system.angular_rows]
        level_of = np.repeat(np.arange(len(counts)), counts)
        self._hard: BoolArray = level_of < held_levels
        self._hard[list(soft)] &= False
        self._missed: BoolArray = (level_of <= held_levels) & ~self._hard
        weights = np.where(self._hard, 0.0, _weights(objective.levels, held_levels)[level_of])
        if last is not None:
            ramped = np.clip(weights, last._weights / RAMP, last._weights * RAMP)
            weights = np.where((last._weights > 0.0) & ~self._hard, ramped, weights)
        self._weights: FloatArray = weights
        """W of each row, (m,); 0 for those that are met exactly."""
        self._pull: FloatArray = np.zeros(len(level_of)) if last is None else last._pull
        """y, (m,)."""
        none = np.zeros((1, values.shape[1]), dtype=np.bool_)
        self._standing: BoolArray = none if last is None else last._standing
        """Channels that limits hold, (1, nv)."""
        self._penalty = 0.0
        wishes = ~np.isnan(objective.system.preferred)
        self._wish = np.diag(np.maximum(wishes.reshape(-1).astype(np.float64), UNBENT))
        self.iterations = 0
        self.settled = False
        """Whether the pose stands still."""

    @property
    def pulls(self) -> FloatArray:
        """W |r| of each level, (levels,) [1]."""
        return self._objective.norms_by_level((self._weights * self.stand.residual[0])[None])[0]

    def relax(self, most_steps: int) -> None:
        """Go on until the pose stands still, or for some steps."""
        radius = MAX_CHANGE
        grow, shrink = RADIUS_FACTORS
        while not self.settled and self.iterations < most_steps:
            self.iterations += 1
            size, taken = self._step(radius)
            radius = min(MAX_CHANGE, grow * radius) if taken else shrink * min(radius, size)
            self.settled |= radius < SMALLEST_RADIUS

    @property
    def _missing(self) -> float:
        """|r| of what is to be met exactly [1]."""
        return float(np.linalg.norm(self.stand.residual[0][self._hard]))

    def _step(self, radius: float) -> tuple[float, bool]:
        """Solve for a step and take it where the merit falls; its size, and whether it was taken."""
        objective, here, hard = self._objective, self.stand, self._hard
        jacobian, residual = objective.stacked_jacobian(here.posed)[0], here.residual[0]
        weighted = self._weights[:, None] * jacobian
        slope = objective.away(here.values)[0] + residual @ weighted
        # What is missed pulls as it does now; what swings round its target as it is expected to.
        pull = np.where(self._missed, self._weights * residual, self._pull)
        curvature = self._wish + objective.bend(here.posed, pull[None]).matrix()[0] + jacobian.T @ weighted
        reach = np.array([radius])
        box = Box(*objective.room(here.values), reach) if objective.limited else Box.unlimited(reach)
        damping = np.array([TRUST_START[0, 0] * self._missing**2 + FLOOR])
        conditions = Conditions(
            jacobian[None, hard], residual[None, hard], damping, slope[None], DenseBend(curvature[None])
        )
        step, held, signs_right = conditions.solve(box, self._standing)
        change, size = step.change, float(np.abs(step.change).max(initial=0.0))
        multipliers = step.multipliers[0]
        needed = PENALTY * float(np.linalg.norm(multipliers)) + PENALTY_START
        self._penalty = max(PENALTY_FADE * self._penalty, needed)
        trial = objective.stand(objective.moved(here.values, change))
        merit = self._merit(trial, multipliers)
        if hard.any() and size > STILL:
            back = step.correction(np.zeros(1, dtype=np.int64), trial.residual[:, hard])
            other = objective.stand(objective.moved(trial.values, back))
            other_merit = self._merit(other, multipliers)
            if other_merit < merit:
                trial, merit = other, other_merit
        if merit > self._merit(here, multipliers) and size > FINE:
            return size, False
        pull = self._weights * (residual + jacobian @ change[0])
        pull[hard] = multipliers
        self._pull, self.stand = pull, trial
        self._standing = held & objective.on_limit(trial.values) if objective.limited else held
        self.settled = size <= STILL and bool(step.newton[0]) and bool(signs_right[0])
        return size, True

    def _merit(self, stand: Stand, multipliers: FloatArray) -> float:
        """Exact penalty function: Φ, with the pull of what is to be met exactly."""
        residual = stand.residual[0]
        hard = residual[self._hard]
        away = self._objective.away(stand.values)[0]
        springs = 0.5 * float((self._weights * residual) @ residual)
        return (
            springs
            + 0.5 * float(away @ away)
            + float(multipliers @ hard)
            + self._penalty * float(np.linalg.norm(hard))
        )

    def told(self, rows: Sequence[Sequence[int]]) -> Pulls:
        """The forces at the pose, by the rows of each task."""
        objective, stand = self._objective, self.stand
        jacobian = objective.stacked_jacobian(stand.posed)[0]
        pull = np.where(self._hard, self._pull, self._weights * stand.residual[0])
        pulled = jacobian * pull[:, None]
        forces = np.array([pulled[list(own)].sum(axis=0) for own in rows])
        levers = [np.linalg.norm(jacobian[list(own)]) * np.linalg.norm(pull[list(own)]) for own in rows]
        return Pulls(
            forces=forces,
            levers=np.array(levers, dtype=np.float64),
            total=forces.sum(axis=0) + objective.away(stand.values)[0],
            held=self._standing[0],
            values=stand.values[0],
        )


def _steps_left(iterations: int) -> int:
    """How many steps may be made on springs after others."""
    least, most = SPRING_STEPS
    return max(least, min(most, MOST_STEPS - iterations))


def _weights(levels: int, held: int) -> FloatArray:
    """W of each level, (levels,), for those that are held of what is on springs in them."""
    ratio = min(RATIO, MOST_STIFFNESS ** (1.0 / (levels + 1)))
    weights = ratio ** np.arange(levels, 0, -1.0)
    weights[held] = max(weights[held], STIFFNESS)
    for level in range(held - 1, -1, -1):
        weights[level] = ratio * weights[level + 1]
    return weights


def _rows_of_tasks(system: System) -> list[list[int]]:
    """Which of the stacked rows belong to each task: levels one above the other, in each kind by kind."""
    tasks = system.tasks
    order: list[int] = []
    for priority in system.priorities:
        own = [number for number, task in enumerate(tasks) if task.priority == priority]
        kinds = list(dict.fromkeys(type(tasks[number]) for number in own))
        order += sorted(own, key=lambda number: kinds.index(type(tasks[number])))
    ends = np.cumsum([0, *system.row_counts]).tolist()
    rows: list[list[int]] = [[] for _ in order]
    for place, number in enumerate(order):
        rows[number] = list(range(ends[place], ends[place + 1]))
    return rows

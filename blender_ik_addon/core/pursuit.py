# SPDX-License-Identifier: GPL-3.0-or-later
"""A pose that pursues targets while somebody moves them: with little work for each movement, and no jumps.

**In reach** the pose is the solver's own: one attempt to meet all tasks, from where the body is.

**Out of reach** strict levels are searched for by descents, one after the other. That takes long, and near
the border of the reach the strict answer turns joints by many degrees for a millimetre. Here each level has a
strength instead, `RATIO` times that of the level below, and the pose is the one in which all balance
(`equilibrium`): levels that can be met are, but for a small part of `SOFTNESS`, and of the first that cannot
the sum of squares is the least that its strength achieves against the preferred pose. Strengths without end
would give the strict answer [NocedalWright2006 §17.2], and no pose is far from the next one.

**At rest** strengths grow with each look once the pose has caught up, so that it tends to the strict answer
while nothing moves; while targets move they fall again. A few steps are made for a movement, and no angle
turns far: what is left comes with the next.

**When nobody moves targets any longer** the pose goes on to what a solve gives, and without a jump
(`arrival`).

**Back in reach** is where no level gives way. If an attempt to meet all tasks succeeds there without turning
anything far, the pose is the solver's own again.

`yielding` has the same balance for a drag, in which each task has a strength of its own, so that one of them
gives way to others of its level, and limits have margins, so that the way back is the way there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from .arrays import FloatArray
from .arrival import Arrival
from .attempts import Attempt
from .equilibrium import Equilibrium
from .errors import IKError
from .newton import attempt
from .objective import Objective
from .options import SolverOptions
from .posed import PosedMechanism
from .problem import Problem
from .skeleton import Pose
from .solution import Solution, Status, TaskError
from .solver import Criteria, Search, objective_of
from .system import System, assemble
from .threads import one_thread

STRENGTH: Final = 30.0
"""Strength of the lowest level [1] by that of the wish for the preferred pose, while targets move."""
RATIO: Final = 10.0
"""Most strength of a level by that of the level below [1]."""
MOST_RATIO: Final = 1e4
"""Most strength of the first level by that of the last [1]: what it leaves of the digits is enough."""
SOFTNESS: Final = 2e-4
"""δ of `equilibrium`, in reaches or [rad]."""

TIGHTER: Final = 2.0
"""By how much strengths grow with each look at targets that stand still [1]."""
TIGHTEST: Final = 128.0
"""Most by which they grow [1]."""
LOOSER: Final = 0.85
"""Part of that growth [1] that is left after a movement: let go all at once, a body would sag by degrees."""
MOST_LOOKS: Final = 16
"""Looks at targets that stand still, once the pose has caught up, after which it is taken to stand still."""

EXACT_STEPS: Final = 8
"""Most steps of an attempt to meet all tasks: a movement of a mouse needs 2 to 4."""
RETURN_STEPS: Final = 5
"""The same for attempts to come back, which are made where that is near."""
BALANCE_STEPS: Final = 5
"""Most steps of the balance for one movement."""
RESTING_STEPS: Final = 10
"""The same for one look at targets that stand still."""
PATIENCE: Final = 8
"""Movements from one attempt to come back that has failed to the next."""
SNAP: Final = 0.1
"""Largest change of a channel [rad, or lengths of reach] with which the pose is the solver's own again."""

MOVING_TURN: Final = 0.1
"""Most by which an angle changes for one movement out of reach [rad]: 6 degrees."""
RESTING_TURN: Final = 0.043
"""The same for one look at targets that stand still [rad]: more would be seen as a jump."""
MOST_DEPARTURES: Final = 3
"""Most solves on the way to an answer, where bones that something else decides move with the body: what is
found among them as they are is the answer only once they stand still."""


@dataclass(frozen=True)
class Pursued:
    """What one movement of the targets came to."""

    pose: Pose
    errors: tuple[TaskError, ...]
    """One for each task that has a weight, in the problem's order."""
    iterations: int
    status: Status
    """`REACHED` where all tasks are met; `SETTLED` where the same targets once more would change nothing to
    speak of."""
    final: bool
    """Whether the pose is what a solve from the one before would give."""

    @property
    def settled(self) -> bool:
        """Whether the same targets once more would change nothing to speak of."""
        return self.final or self.status is not Status.MAX_ITERATIONS


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
        self._system = assemble(problem, pose.as_batch())
        if self._system.alternatives:
            raise IKError("a pursuit cannot choose between targets: use `Tracker`")
        self._objective = objective_of(self._system, options)
        self._criteria = Criteria.of(self._objective, options)
        self._pose = pose
        self._values: FloatArray = self._system.mechanism.values(pose.as_batch())
        self._placed: PosedMechanism | None = None
        self._groups = [len(rows) for rows in self._system.angular_rows]
        self._rows = _rows_of_tasks(self._system)
        self._priorities = [task.priority for task in self._system.tasks]
        self._targets: list[FloatArray] = []
        self._balance: Equilibrium | None = None
        """What the last movement has left behind; None where all tasks are met."""
        self._tightness = 1.0
        """By how much strengths have grown [1]."""
        self._looks = 0
        """At targets that have stood still."""
        self._patience = 0
        """Movements until all tasks are attempted again."""
        self._arrival: tuple[Arrival, Solution | None] | None = None
        """The way to an answer, and that; None where it was known before."""
        self._departures = 0
        """How often such a way has begun since targets stand still."""
        self._moved = False
        """Whether what else decides bones has moved since."""

    @property
    def pose(self) -> Pose:
        """Where the body is now."""
        return self._pose

    def among(self, problem: Problem, pose: Pose) -> Pursuit:
        """The same pursuit where fixed channels or scales have changed, which something else decides.

        A new one would know nothing of the looks before: it would never come to rest among bones that answer
        to each look, nor arrive.

        Args:
            problem: The same but for its targets.
            pose: Where the body is.

        Raises:
            IKError: As for a new one.
        """
        new = Pursuit(problem, pose, self._options)
        new._targets, new._balance = self._targets, self._balance
        new._tightness, new._looks, new._patience = self._tightness, self._looks, self._patience
        if self._arrival is not None:
            arrival, answer = self._arrival
            if answer is not None:
                pose = new._system.mechanism.with_values(pose, arrival.answer[0])
                answer = replace(answer, pose=pose)
            new._arrival = arrival.among(new._objective), answer
            new._departures, new._moved = self._departures, True
        return new

    @one_thread
    def follow(self, targets: Sequence[FloatArray]) -> Pursued:
        """Go after the targets; where they are the same as the last time, nearer to what a solve would give.

        Args:
            targets: One for each task that has a weight, in the problem's order: what its `moved` takes.

        Raises:
            IKError: A target is not one of its task's kind; the pose stays as it is.
        """
        return self._followed(targets, MOVING_TURN)

    def _followed(self, targets: Sequence[FloatArray], most_turn: float) -> Pursued:
        """Go after targets; where they have moved no angle changes by more than a bound [rad]."""
        rests = self._rests(targets)
        self._system = self._system.aimed(targets)
        objective = self._objective.on(self._system)
        self._targets = [np.array(target) for target in targets]
        self._arrival = None
        iterations = 0
        fresh = self._balance is None
        if fresh:
            found = self._attempted(objective, EXACT_STEPS)
            iterations += int(found.iterations.max(initial=0))
            if found.met.all():
                return self._met(found, iterations)
        rests = rests and not fresh
        if not rests:
            self._looks, self._tightness = 0, max(1.0, LOOSER * self._tightness)
        elif self._balance is not None and not self._balance.stopped:
            self._looks, self._tightness = self._looks + 1, min(TIGHTEST, TIGHTER * self._tightness)
        turn, steps = (RESTING_TURN, RESTING_STEPS) if rests else (most_turn, BALANCE_STEPS)
        balance = self._balanced(objective, turn, steps)
        iterations += balance.iterations
        self._patience = max(0, self._patience - 1)
        if not (fresh or balance.gives_way or (self._patience and not rests)):
            found = self._attempted(objective, RETURN_STEPS)
            iterations += int(found.iterations.max(initial=0))
            change = np.abs(objective.weight * (found.values - self._values)).max(initial=0.0)
            if found.met.all() and change <= SNAP:
                return self._met(found, iterations)
            self._patience = PATIENCE
        self._pose = self._system.mechanism.with_values(self._pose, self._values[0])
        settled = (balance.settled and self._tightness >= TIGHTEST) or self._looks >= MOST_LOOKS
        status = Status.SETTLED if settled else Status.MAX_ITERATIONS
        return Pursued(self._pose, self._errors(balance), iterations, status, final=False)

    @one_thread
    def arrive(self, targets: Sequence[FloatArray]) -> Pursued:
        """Go on to what a solve gives for targets that nobody moves any longer, look by look.

        First there is one solve, and then the body goes to its answer.

        Args:
            targets: As for `follow`.

        Raises:
            IKError: A target is not one of its task's kind; the pose stays as it is.
        """
        (arrival, answer), before = self._arrival or (None, None), self._values
        if arrival is None or answer is None or not self._rests(targets):
            self._departures = 0
            found = self._followed(targets, RESTING_TURN)
            return found if found.final else self._departed(found, before)
        # Asked before the body moves: both together would be more than one look may turn it.
        arrives = arrival.left <= RESTING_TURN
        balance = arrival.go_on(RESTING_TURN, RESTING_STEPS)
        self._balance, self._values, self._placed = balance, balance.stand.values, balance.stand.posed
        if arrives and not (self._moved and self._departures < MOST_DEPARTURES):
            return self._arrived(answer, balance.iterations)
        self._pose = self._system.mechanism.with_values(self._pose, self._values[0])
        errors = self._errors(balance)
        found = Pursued(self._pose, errors, balance.iterations, Status.MAX_ITERATIONS, final=False)
        return self._departed(found, before) if arrives else found

    @one_thread
    def return_to(self, targets: Sequence[FloatArray], home: Pose) -> Pursued:
        """Go to a pose that is known to belong to the targets, look by look; at the end it is that pose.

        Args:
            targets: As for `follow`.
            home: The pose, without leading axes.

        Raises:
            IKError: A target is not one of its task's kind; the pose stays as it is.
        """
        values = self._system.mechanism.values(home.as_batch())
        known = self._arrival is not None and np.array_equal(self._arrival[0].answer, values)
        if self._arrival is None or not known or not self._rests(targets):
            self._system = self._system.aimed(targets)
            self._targets = [np.array(target) for target in targets]
            way = self._way(self._objective.on(self._system), values)
        else:
            way = self._arrival[0]
        self._arrival = way, None
        is_there = way.left <= RESTING_TURN
        balance = way.go_on(RESTING_TURN, RESTING_STEPS)
        self._balance, self._values, self._placed = balance, balance.stand.values, balance.stand.posed
        self._pose = self._system.mechanism.with_values(self._pose, self._values[0])
        errors = self._errors(balance)
        status = Status.SETTLED if is_there else Status.MAX_ITERATIONS
        if is_there:
            self._pose, self._values, self._placed = home, values, None
            self._balance, self._arrival, self._tightness, self._looks = None, None, 1.0, 0
        return Pursued(self._pose, errors, balance.iterations, status, final=is_there)

    def _way(self, objective: Objective, answer: FloatArray) -> Arrival:
        """The way to an answer from where the body is."""
        strengths = self._strengths()
        last, groups = self._balance, self._groups
        here = Equilibrium(objective, self._values, strengths, SOFTNESS, last, groups=groups, margins=False)
        return Arrival(objective, here, answer, strengths, SOFTNESS, groups)

    def _departed(self, found: Pursued, before: FloatArray) -> Pursued:
        """Solve from a balanced pose, and take the answer if it is near, else begin the way there.

        Near is to where the body was before this look, (1, nv).
        """
        assert self._balance is not None and self._placed is not None
        self._departures, self._moved = self._departures + 1, False
        objective = self._objective.on(self._system)
        search = Search(objective, self._options, self._criteria, None)
        search.run(self._values, self._placed)
        answer = search.solution(self._pose)
        iterations = found.iterations + answer.iterations
        values = self._system.mechanism.values(answer.pose.as_batch())
        # What has grown weak on the way before stays so, or it would draw the body back.
        strengths = self._strengths() if self._arrival is None else self._arrival[0].strengths
        arrival = Arrival(objective, self._balance, values, strengths, SOFTNESS, self._groups)
        if arrival.left_from(before) <= RESTING_TURN:
            return self._arrived(answer, iterations)
        self._arrival = arrival, answer
        return replace(found, iterations=iterations, status=Status.MAX_ITERATIONS)

    def _arrived(self, answer: Solution, iterations: int) -> Pursued:
        """Take the answer of a solve."""
        self._balance, self._tightness, self._patience, self._looks = None, 1.0, 0, 0
        self._arrival, self._placed = None, None
        self._pose = answer.pose
        self._values = self._system.mechanism.values(answer.pose.as_batch())
        return Pursued(answer.pose, answer.errors, iterations, answer.status, final=True)

    def _rests(self, targets: Sequence[FloatArray]) -> bool:
        """Whether targets are where they were the last time."""
        return bool(self._targets) and all(map(np.array_equal, targets, self._targets))

    def _attempted(self, objective: Objective, most_steps: int) -> Attempt:
        goal = replace(self._criteria.goal, max_iterations=most_steps)
        return attempt(objective, self._values, goal, None, self._placed)

    def _met(self, found: Attempt, iterations: int) -> Pursued:
        """Take the pose of an attempt that has met all tasks."""
        self._balance, self._tightness, self._patience, self._looks = None, 1.0, 0, 0
        self._values, self._placed = found.values, found.posed
        self._pose = self._system.mechanism.with_values(self._pose, found.values[0])
        errors = tuple(
            TaskError(label, error, angular, reached=True)
            for label, error, angular in zip(
                self._system.labels, found.errors[0].tolist(), self._system.angular, strict=True
            )
        )
        return Pursued(self._pose, errors, iterations, Status.REACHED, final=True)

    def _balanced(self, objective: Objective, most_turn: float, most_steps: int) -> Equilibrium:
        """Go on to where all levels balance."""
        balance = Equilibrium(
            objective,
            self._values,
            self._strengths(),
            SOFTNESS,
            self._balance,
            most_turn,
            groups=self._groups,
            margins=False,
        )
        balance.relax(most_steps)
        self._balance, self._values, self._placed = balance, balance.stand.values, balance.stand.posed
        return balance

    def _strengths(self) -> FloatArray:
        """How strong each level is now, (L,) [1]."""
        levels = len(self._groups)
        ratio = min(RATIO, MOST_RATIO ** (1.0 / max(1, levels - 1)))
        return STRENGTH * self._tightness * ratio ** np.arange(levels - 1, -1, -1.0)

    def _errors(self, balance: Equilibrium) -> tuple[TaskError, ...]:
        """By how much tasks are missed and why, in the problem's order."""
        system = self._system
        errors = system.errors(balance.stand.posed)[0]
        reached = errors <= self._criteria.tolerance
        pulls = None if reached.all() else balance.pulls(self._rows)
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

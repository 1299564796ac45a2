# SPDX-License-Identifier: GPL-3.0-or-later
"""A pose that follows targets while somebody moves them, and settles when they rest.

The follower keeps two poses: the goal, which the targets ask for, and the body, which is seen.

**While targets move** the goal is the minimum of the energy with soft levels that is next to the goal before,
found in a few iterations for each update. Soft levels give way gradually, so that limbs do not snap where
targets go out of reach, and the way back is the way there. **When targets rest** the goal is the result of
one `solve`, restarts included, of which each update does a few iterations; or a pose that is known to belong
to the targets.

A target that is being moved gets a level of its own, right below the level that it shares with others: what
nobody moves stays where it is, as feet do under hips that are moved.

**The body** moves towards the goal by a bounded turn in each update, along the straight line in its channels.
On this way the miss of each level falls in proportion, or as fast as the bounded turn allows: levels that are
met at both ends are met in between. Where the bound keeps the body from targets that it would stay on
otherwise, it grows by half until it does not. A goal that is near enough is reached in one update.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray, check_number
from ..engine.energy import SOFT, Energy
from ..engine.kernel import ROUGH, Descent, Minimum, steps
from ..errors import IKError, check_list, check_type
from ..explain.reasons import explain
from ..model.skeleton import Pose
from ..problem.options import SolverOptions
from ..problem.problem import Problem
from ..problem.system import System, assemble, tolerances
from ..threads import one_thread
from .solver import Solution, Status, TaskError, check_one_pose, solving, task_errors

STEPS: Final = 8
"""Most iterations in an update: for the goal, for the body, and of a solve while targets rest."""
MOVING_TURN: Final = 0.1
"""Largest change of an angle in an update while targets move [rad], 6 degrees, unless the body would miss
targets because of it."""
SETTLING_TURN: Final = 0.043
"""The same while the body settles [rad]: more would be seen as a jump."""
WIDER: Final = 0.5
"""By which part the bounds grow for a body that would leave its targets [1], once while it settles."""
STILL: Final = 1e-4
"""Largest change in an update [rad] of a body that rests."""


@dataclass(frozen=True)
class Followed:
    """Result of one update."""

    pose: Pose
    errors: tuple[TaskError, ...]
    """One for each task that has a weight, in the problem's order; why it is missed only where `final`."""
    iterations: int
    status: Status
    """`MAX_ITERATIONS` while the body is on its way."""
    final: bool
    """Whether the pose is what a solve gives."""

    @property
    def settled(self) -> bool:
        """Whether another update with the same targets would change nothing."""
        return self.final or self.status is not Status.MAX_ITERATIONS


class Follower:
    """A problem whose targets move, and a body that follows them."""

    def __init__(self, problem: Problem, pose: Pose, options: SolverOptions) -> None:
        """Prepare.

        Args:
            problem: Skeleton and tasks, with targets of one frame.
            pose: Where to start, without leading axes; fixed channels and scale are taken from it.
            options: Settings of the method PRIORITY.

        Raises:
            IKError: The problem, pose and options do not fit together.
        """
        check_type("a follower takes SolverOptions", options, SolverOptions)
        if options.differential:
            raise IKError("a follower needs the method PRIORITY, got {method}", method=options.method)
        self._options, self._problem = options, problem
        check_one_pose("a follower", problem, pose)
        self._system = assemble(problem, pose[None])
        self._apart: BoolArray = np.zeros(len(self._system.labels), dtype=np.bool_)
        """Which tasks have targets that are being moved, (T,)."""
        self._moving = self._system
        """The problem in which these have levels of their own."""
        self._tolerance = tolerances(self._system, options)
        self._pose, self._values = pose, self._system.mechanism.values(pose[None])
        self._goal = self._values
        """Free channels of the pose that the targets ask for, (1, nv)."""
        self._on_targets = True
        """Whether the last update, if any, met all targets."""
        self._targets: list[FloatArray] = []
        self._taken: IntArray | None = None
        """Alternatives that were taken last, (1, C)."""
        self._search: Generator[None, None, Solution] | None = None
        """A solve that is under way."""
        self._destination: Pose | None = None
        """Where the body settles."""
        self._moved = False
        """Whether the targets have moved since the last update on the way there."""
        self._lowest = True
        """Whether no pose near that has less energy, as where fixed channels have changed since."""
        self._arrived = False
        """Whether the body is there."""

    def begin(self, targets: Sequence[FloatArray]) -> None:
        """Set the targets before the first update, which then knows which of them have moved."""
        self._targets = self._aims(targets)

    @property
    def pose(self) -> Pose:
        """Where the body is now."""
        return self._pose

    @property
    def arrived(self) -> bool:
        """Whether the body is where it settles."""
        return self._arrived

    def heading(self, pose: Pose) -> Pose:
        """A pose of the body, but where it goes: on its way it may be bent as no solve would bend it."""
        self._check_pose(pose)
        return self._system.mechanism.with_values(pose, self._goal[0])

    def among(self, problem: Problem, pose: Pose) -> Follower:
        """A follower in the same state for a body whose fixed channels or scales have changed.

        Args:
            problem: The same but for its targets.
            pose: Where the body is.

        Raises:
            IKError: As for a new one.
        """
        new = Follower(problem, pose, self._options)
        new._targets, new._on_targets = self._targets, self._on_targets
        new._set_apart(self._apart)
        if self._taken is not None:
            new._choose(self._taken)
        if new._goal.shape == self._goal.shape:
            new._goal = self._goal
            if self._destination is not None:
                values = self._system.mechanism.values(self._destination[None])
                new._destination = new._system.mechanism.with_values(pose, values[0])
                new._arrived, new._lowest = self._arrived, False
        return new

    @one_thread
    def follow(self, targets: Sequence[FloatArray], *, most_turn: float = MOVING_TURN) -> Followed:
        """Follow targets that are being moved.

        Args:
            targets: One for each task that has a weight, in the problem's order: what its `moved` takes.
            most_turn: Largest change of an angle [rad], unless the body would miss targets because of it.

        Raises:
            IKError: A target is not one of its task's kind; the pose stays as it is.
        """
        check_number("most_turn", most_turn, 0.0, above=True)
        self._aim(targets)
        energy = self._energy(self._moving).weakened(SOFT)
        found = self._lowered(energy, self._goal)
        self._goal = found.values
        values = self._towards(energy, self._goal, float(most_turn), np.pi)
        there = np.array_equal(values, self._goal)
        rests = there and (bool(found.converged[0]) or self._turn(values) <= STILL)
        self._take(values)
        return self._followed(int(found.iterations[0]), moving=not rests)

    @one_thread
    def arrive(self, targets: Sequence[FloatArray]) -> Followed:
        """Settle, update by update, in the solution for targets that have come to rest.

        Args:
            targets: As for `follow`.

        Raises:
            IKError: A target is not one of its task's kind; the pose stays as it is.
        """
        if not self._rests(targets):
            self._aim(targets)
        self._set_apart(np.zeros_like(self._apart))
        if self._destination is not None:
            return self._settle(self._destination)
        if self._search is None:
            start = self.heading(self._pose)
            self._search = steps(solving(self._system, start, self._options, kept=self._taken))
        try:
            for _ in range(STEPS):
                next(self._search)
        except StopIteration as end:
            solution: Solution = end.value
            self._destination, self._search, self._lowest = solution.pose, None, True
            self._choose(np.array([solution.chosen], dtype=np.int64))
            return self._settle(solution.pose)
        return self._followed(STEPS, moving=True)

    @one_thread
    def return_to(self, targets: Sequence[FloatArray], home: Pose) -> Followed:
        """Go to a pose that is known to belong to the targets, update by update.

        Args:
            targets: As for `follow`.
            home: The pose, without leading axes.

        Raises:
            IKError: A target is not one of its task's kind, or the pose is not one of the skeleton; the body
                stays as it is.
        """
        self._check_pose(home)
        if not self._rests(targets):
            self._aim(targets)
        self._destination, self._search = home, None
        self._lowest, self._arrived = True, False
        values = self._system.mechanism.values(home[None])
        self._choose(self._system.nearest(self._system.place(values)))
        return self._settle(home, known=True)

    def _settle(self, destination: Pose, *, known: bool = False) -> Followed:
        """One update of the way to a pose, in which angles end as they are given where it is known."""
        energy = self._energy()
        end = self._system.mechanism.values(destination[None])
        if not self._lowest:
            # Fixed bones move on with the body: on the way roughly, for a new solve each time would be slow.
            near = self._arrived or self._turn(end) <= SETTLING_TURN
            end = end if near else self._lowered(energy, end, ROUGH).values
            self._lowest = near or self._turn(end) <= SETTLING_TURN
            end = self._lowered(energy, end, 0.0).values if self._lowest else end
            self._destination = self._system.mechanism.with_values(destination, end[0])
        # A solve may have wound angles another way; the body does not turn round for that.
        self._goal = energy.preferring(self._values).unwound(end)
        moved, self._moved = self._moved, False
        left = self._turn(self._goal)
        if left <= SETTLING_TURN or self._arrived:
            self._arrived = True
            if known:
                self._values = self._goal = end
                self._pose = destination
            else:
                self._take(self._goal)
            return self._followed(0, moving=False, final=True)
        values = self._towards(energy, self._goal, SETTLING_TURN, (1.0 + WIDER) * SETTLING_TURN)
        # Where targets keep the body from the goal it leaves them for a while, unless they have just moved.
        nearer = np.abs((self._goal - values) / self._system.units).max() <= left - 0.2 * SETTLING_TURN
        if not (moved or nearer):
            values = self._values + (self._goal - self._values) * (SETTLING_TURN / left)
        self._take(values)
        return self._followed(0, moving=True)

    def _towards(self, energy: Energy, goal: FloatArray, turn: float, most: float) -> FloatArray:
        """Free channels of the body after one update on its way to a goal, (1, nv) each.

        No angle changes by more than `turn`, or `most` where it would leave its targets otherwise [rad].
        """
        left = self._turn(goal)
        if left <= turn:
            return goal
        part = turn / left
        point = self._values + part * (goal - self._values)
        here, there = energy.at(self._values).residual, energy.at(goal).residual
        distance = np.sqrt(energy.squares(here - there))
        way = Energy(energy.system, point, posture=False).with_penalty_weights(energy.penalty_weights)
        follows = self._on_targets and self._met(goal)
        bounded, values = None, point
        while turn < left:
            nearer = np.maximum(part, turn / np.maximum(distance, turn))[:, energy.penalty_of_row]
            allowed, room = there + (1.0 - nearer) * (here - there), turn * self._system.units
            box = way.allowing(allowed).within(self._values - room, self._values + room)
            values = self._lowered(box, values).values
            bounded = values if bounded is None else bounded
            if not follows or self._met(values):
                return values
            if turn >= most:
                return bounded
            turn *= 1.0 + WIDER
        return goal

    def _turn(self, values: FloatArray) -> float:
        """Largest change of an angle from where the body is to values (1, nv), [rad]."""
        return float(np.abs((values - self._values) / self._system.units).max(initial=0.0))

    def _aim(self, targets: Sequence[FloatArray]) -> None:
        """Take other targets, and of alternatives the nearest."""
        targets = self._aims(targets)
        system = self._system.aimed(targets)
        if self._targets:
            moved = [not _alike(*pair) for pair in zip(targets, self._targets, strict=True)]
            self._set_apart(self._apart | moved)
        moving = self._moving.aimed(targets)
        self._system, self._moving = system, moving
        if system.choices is not None:
            self._choose(system.nearest(system.place(self._values), self._taken))
        self._targets = targets
        self._destination = self._search = None
        self._moved, self._arrived = True, False

    def _aims(self, targets: Sequence[FloatArray]) -> list[FloatArray]:
        """Targets as their tasks have them (IKError: they are not one for each, or one does not fit)."""
        tasks = self._problem.weighty_tasks
        check_list("targets are one for each task", targets, object)
        if len(targets) != len(tasks):
            raise IKError("{count} targets for {tasks} tasks", count=len(targets), tasks=len(tasks))
        return [task.moved(target).aim for task, target in zip(tasks, targets, strict=True)]

    def _check_pose(self, pose: Pose) -> None:
        """Refuse what is no pose of the body (IKError)."""
        check_one_pose("a follower", self._problem, pose)
        wanted, got = (len(own.channels) for own in (self._pose, pose))
        if got != wanted:
            raise IKError("a pose of {wanted} joints is wanted, got {got}", wanted=wanted, got=got)

    def _choose(self, taken: IntArray) -> None:
        """Take given alternatives, (1, C)."""
        self._taken = taken
        self._system, self._moving = self._system.taking(taken), self._moving.taking(taken)

    def _set_apart(self, apart: BoolArray) -> None:
        """Give tasks (T,) levels of their own, right below those that they share their levels with."""
        if np.array_equal(apart, self._apart):
            return
        self._apart = apart
        tasks = [
            replace(task, priority=2 * task.priority + own)
            for task, own in zip(self._problem.weighty_tasks, apart.tolist(), strict=True)
        ]
        self._moving = assemble(replace(self._problem, tasks=tasks), self._pose[None])

    def _rests(self, targets: Sequence[FloatArray]) -> bool:
        """Whether targets are where they were the last time."""
        check_list("targets are one for each task", targets, object)
        same = bool(self._targets) and len(targets) == len(self._targets)
        return same and all(map(_alike, targets, self._targets))

    def _energy(self, system: System | None = None) -> Energy:
        """Of the pose."""
        return Energy(system or self._system, self._values, posture=self._options.preferred_pose)

    def _lowered(self, energy: Energy, values: FloatArray, precision: float | None = None) -> Minimum:
        """Lower the energy from values (1, nv): in an update, or until it is at a minimum to a precision."""
        options, most = self._options, self._options.max_iterations
        least = max(STILL if precision is None else precision, options.step_tolerance)
        most = min(STEPS, most) if precision is None else most
        return Descent(energy, values, options, step_tolerance=least, max_iterations=most).run()

    def _met(self, values: FloatArray) -> bool:
        """Whether the free channels (1, nv) meet all targets."""
        return bool((self._system.errors(self._system.place(values)) <= self._tolerance).all())

    def _take(self, values: FloatArray) -> None:
        """Put the body where the free channels (1, nv) say."""
        self._values = values
        self._pose = self._system.mechanism.with_values(self._pose, values[0])

    def _followed(self, iterations: int, *, moving: bool, final: bool = False) -> Followed:
        """Result of an update: where the body is, by how much tasks are missed and, at the end, why."""
        system = self._system
        posed = system.place(self._values)
        errors = system.errors(posed)[0]
        reached = errors <= self._tolerance
        self._on_targets = bool(reached.all())
        # Reasons are found only for the pose in which the body rests: they take as long as several steps.
        why = explain(system, posed, reached[None], self._energy())[0] if final else [None] * len(errors)
        tasks = task_errors(system, errors, reached, why)
        rests = Status.REACHED if self._on_targets else Status.SETTLED
        status = Status.MAX_ITERATIONS if moving else rests
        return Followed(self._pose, tasks, iterations, status, final)


def _alike(one: FloatArray | Sequence[FloatArray], other: FloatArray | Sequence[FloatArray]) -> bool:
    """Whether targets are the same; those of alternatives may be of several kinds."""
    if isinstance(other, list):
        return len(one) == len(other) and all(map(np.array_equal, one, other))
    return np.array_equal(one, other)

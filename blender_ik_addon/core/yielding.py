# SPDX-License-Identifier: GPL-3.0-or-later
"""A body that follows a hand on the mouse: who gives way to whom, and how it is told.

Strict levels decide who gives way, but what cannot be met is searched for by descents, one level after the
other: that takes too long between two movements of a mouse, and a pose may jump from one to the next. Here
each task has a strength, more than that of all that it should outdo together but not many times as much, and
the pose is the one in which all pulls balance (`equilibrium`). That needs a few steps from where the body
was, and moves smoothly with the targets. Live mode has the same balance with whole levels in place of tasks,
and tends to the strict answer (`pursuit`); a drag stays with the balance, for nobody solves after it.

*Firm* tasks have strengths by their levels. *Loose* tasks are weaker than all of them, and what nobody asks
for stays near the pose in which it all began. Met is what needs less than its strength; of a stronger task a
weaker one that gives way costs but a small part of the softness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np

from .arrays import FloatArray, IntArray
from .equilibrium import Equilibrium
from .errors import IKError
from .objective import Objective
from .options import SolverOptions
from .problem import Problem
from .skeleton import Pose, Skeleton
from .solution import TaskError
from .system import System, assemble
from .tasks import MatchOrientation, ReachPoint, Task
from .threads import one_thread

LOOSE_STRENGTH: Final = 6.0
"""Strength of loose tasks [1]: they give way rather than keep a bone by more radians than these away from
where it was, with a lever as long as the reach. What is ten times as strong bends a body until it snaps."""

SUPERIOR: Final = 2.5
"""Strength of a task by that of all places below its level together [1]: half of it outdoes them."""

LEVEL_RATIOS: Final = (2.0, 10.0)
"""Least and most strength of a level by that of the level below [1]."""

MOST_LEVELS: Final = 6
"""Levels that differ in strength; more would leave too few digits."""

SOFTNESS: Final = 1e-4
"""δ, in reaches or [rad], of which a task that holds may be off by a part; less if tolerances ask for it."""

STEP_ITERATIONS: Final = 12
"""Most iterations for one movement: what is left comes with the next. Most movements need 2 to 8."""

LOOSE_LEVEL: Final = 2**31
"""Number of the level of loose tasks [1]: below all others."""


@dataclass(frozen=True)
class Followed:
    """What one movement came to."""

    pose: Pose
    firm: tuple[TaskError, ...]
    """Of the firm tasks, in order."""
    loose: tuple[TaskError, ...]
    """Of the loose tasks, in order."""
    yielding: bool
    """Whether loose tasks give way."""
    iterations: int
    settled: bool
    """Whether the same targets once more would change nothing."""


class Follower:
    """Tasks whose targets move, and a pose that follows them."""

    def __init__(
        self,
        skeleton: Skeleton,
        pose: Pose,
        options: SolverOptions,
        *,
        preferred: FloatArray | None = None,
    ) -> None:
        """Prepare.

        Args:
            skeleton: The skeleton; what it prefers does not matter.
            pose: Where to start, without leading axes.
            options: Its tolerances count.
            preferred: What the tasks leave free stays near these channels, (n, 6); near `pose` when None.

        Raises:
            IKError: The pose is not one pose of this skeleton.
        """
        if pose.channels.shape != skeleton.lower.shape:
            raise IKError(f"the pose has shape {pose.channels.shape}, wanted {skeleton.lower.shape}")
        self._pose = pose
        self._skeleton = replace(skeleton, preferred=pose.channels if preferred is None else preferred)
        self._tolerances = (options.tolerance_position, options.tolerance_rotation)
        self._last: tuple[object, Equilibrium] | None = None
        """What the last movement was about, and what it came to."""
        self._known: tuple[tuple[Task, ...], Objective] | None = None
        """The tasks that were prepared last, in the order of their system, and what was prepared."""
        self._taken: IntArray | None = None
        """Alternatives that were taken last, (1, C)."""

    @property
    def pose(self) -> Pose:
        """Where the body is now."""
        return self._pose

    @one_thread
    def follow(
        self,
        firm: Sequence[Task],
        loose: Sequence[Task] = (),
        *,
        most_iterations: int = STEP_ITERATIONS,
        most_turn: float | None = None,
    ) -> Followed:
        """Move the body.

        Args:
            firm: Tasks that hold by their levels, at least one; each with a weight.
            loose: Tasks that hold as far as these let them, each with a weight.
            most_iterations: When to stop on the way.
            most_turn: How far each angle may change at most [rad], so that a body goes to where it would snap
                to; None for as far as it needs.

        Raises:
            IKError: A task does not fit the skeleton, or there is none.
        """
        if not firm:
            raise IKError("there is nothing to follow: no firm task")
        before = self._pose.channels
        tasks, strengths = (*firm, *loose), _strengths(firm, loose)
        # Systems stack tasks by kind; in that order they are told apart by their rows.
        kinds = list(dict.fromkeys(type(task) for task in tasks))
        order = sorted(range(len(tasks)), key=lambda number: kinds.index(type(tasks[number])))
        objective = self._objective([tasks[number] for number in order])
        system = objective.system
        about = tuple(
            (type(tasks[number]), tasks[number].label, float(strengths[number]), count)
            for number, count in zip(order, system.row_counts, strict=True)
        )
        last = self._last[1] if self._last is not None and self._last[0] == about else None
        reach = self._skeleton.reach
        softness = min(SOFTNESS, self._tolerances[0] / reach, self._tolerances[1])
        values = system.mechanism.values(self._pose.as_batch())
        rest = Equilibrium(objective, values, strengths[order], softness, last, most_turn)
        rest.relax(most_iterations)
        self._last = about, rest
        self._pose = system.mechanism.with_values(self._pose, rest.stand.values[0])
        levels = [tasks[number].priority if number < len(firm) else LOOSE_LEVEL for number in order]
        softness = [tasks[number].softness for number in order]
        errors = self._errors(system, rest, levels, softness)
        told = [errors[order.index(number)] for number in range(len(tasks))]
        firm_errors, loose_errors = tuple(told[: len(firm)]), tuple(told[len(firm) :])
        change = float(np.abs(self._pose.channels - before).max(initial=0.0))
        return Followed(
            pose=self._pose,
            firm=firm_errors,
            loose=loose_errors,
            yielding=not all(error.reached for error in loose_errors),
            iterations=rest.iterations,
            settled=rest.settled or (change == 0.0 and not rest.stopped),
        )

    def _objective(self, tasks: Sequence[Task]) -> Objective:
        """The tasks on the pose, all of one level and weight; prepared anew if more than targets differ."""
        if self._known is not None:
            known, objective = self._known
            if len(known) == len(tasks) and all(map(_aimed_alike, tasks, known)):
                return objective.on(objective.system.aimed([_target_of(task) for task in tasks]))
        plain = tuple(replace(task, priority=0, weight=1.0, softness=0.0) for task in tasks)
        problem = Problem(self._skeleton, plain)
        system = self._choosing(assemble(problem, self._pose.as_batch()))
        objective = Objective(system, merged=True, clamp_distance=None)
        self._known = tuple(tasks), objective
        return objective

    def _choosing(self, system: System) -> System:
        """The system with the nearest of alternatives; what was taken stays within its margin."""
        if not system.alternatives:
            return system
        posed = system.place(system.mechanism.values(self._pose.as_batch()))
        kept = self._taken if self._taken is not None and self._taken.shape == system.taken.shape else None
        self._taken = system.nearest(posed, kept)
        return system.taking(self._taken)

    def _errors(
        self, system: System, rest: Equilibrium, levels: Sequence[int], softness: Sequence[float]
    ) -> list[TaskError]:
        """By how much tasks of these levels are missed, in the order of the system, and why firm ones are."""
        errors = system.errors(rest.stand.posed)[0].tolist()
        pairs = zip(system.angular, softness, strict=True)
        within = [max(self._tolerances[angular], soft) for angular, soft in pairs]
        reached = [error <= most for error, most in zip(errors, within, strict=True)]
        pulls = None if all(reached) else rest.pulls(_rows(system.row_counts))
        return [
            TaskError(
                label,
                error,
                angular,
                met,
                None
                if met or pulls is None or levels[number] == LOOSE_LEVEL
                else pulls.explanation(system, levels, number, error),
            )
            for number, (label, error, angular, met) in enumerate(
                zip(system.labels, errors, system.angular, reached, strict=True)
            )
        ]


def _rows(counts: Sequence[int]) -> list[range]:
    """Which rows each task has, of those that are stacked task by task."""
    ends = np.cumsum(counts).tolist()
    return [range(end - count, end) for end, count in zip(ends, counts, strict=True)]


def _target_of(task: Task) -> FloatArray:
    """What its `moved` takes, of those that `_aimed_alike` knows."""
    assert isinstance(task, ReachPoint | MatchOrientation)
    dimensions = 1 if isinstance(task, ReachPoint) else 2
    return task.target[0] if task.target.ndim > dimensions else task.target


def _aimed_alike(task: Task, other: Task) -> bool:
    """Whether two tasks are about a place or an orientation of one frame, and differ in it at most."""
    if type(task) is not type(other) or not isinstance(task, ReachPoint | MatchOrientation):
        return False
    if task.frames not in (None, 1):
        return False
    if task is other:
        return True
    pairs = [(getattr(task, f.name), getattr(other, f.name)) for f in fields(task) if f.name != "target"]
    return all(a is b or bool(np.array_equal(a, b)) for a, b in pairs)


def _strengths(firm: Sequence[Task], loose: Sequence[Task]) -> FloatArray:
    """How strongly each task pulls at most, first the firm ones, (T,).

    What counts of those below are places: an orientation is at the end of a limb, which turns on its own.
    """
    below = LOOSE_STRENGTH * sum(task.weight for task in loose if not task.angular)
    unit = LOOSE_STRENGTH
    by_level: dict[int, float] = {}
    for level in sorted({task.priority for task in firm}, reverse=True):
        if len(by_level) < MOST_LEVELS:
            least, most = LEVEL_RATIOS
            unit = min(max(least * unit, SUPERIOR * below), most * unit)
        by_level[level] = unit
        below += unit * sum(task.weight for task in firm if task.priority == level and not task.angular)
    return np.array(
        [task.weight * by_level[task.priority] for task in firm]
        + [task.weight * LOOSE_STRENGTH for task in loose]
    )

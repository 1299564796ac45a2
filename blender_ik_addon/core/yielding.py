# SPDX-License-Identifier: GPL-3.0-or-later
"""A body that follows a hand on the mouse: some tasks hold strictly, others as long as they can.

Strict levels decide who gives way, but levels that cannot be met are searched for by descents, one level
after the other, and that takes too long between two movements of a mouse. Here tasks are *firm* or *loose*:

1. All of them are attempted at once, from where the body is. As long as that meets them nothing gives way,
   and what they leave free stays near the pose in which it all began.
2. Where it does not, a guide is found first: firm and loose tasks in one level, the loose ones with a small
   weight, staying near the first pose with a smaller one, in a few iterations.
3. Then the firm tasks alone, with their own levels, as near to the guide as can be. So loose tasks never cost
   firm ones anything, and the pose goes on smoothly from one regime to the other: at the border between them
   the guide meets everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from .arrays import FloatArray
from .errors import IKError
from .options import SolverOptions
from .problem import Problem
from .skeleton import Pose, Skeleton
from .solver import Solution, TaskError, solve
from .tasks import StayNear, Task

LOOSE_WEIGHT: Final = 0.03
"""Weight of loose tasks in the guide against firm ones [1]: an error of theirs of a metre moves a firm one by
a millimetre, which the pass after it takes back."""

STAY_WEIGHT: Final = 0.002
"""Weight in the guide of staying near the pose in which it all began [1]: little against loose tasks, but
without it the guide would wander where nothing else decides."""

ATTEMPT_ITERATIONS: Final = 10
"""Iterations after which an attempt to meet all tasks is given up; one that succeeds needs 2 to 5."""

PASS_ITERATIONS: Final = 10
"""Most iterations of one descent of the other passes: what is left comes with the next movement."""

RETURN_SHARE: Final = 0.02
"""Error of loose tasks in the guide, in lengths of the reach or [rad], up to which all is attempted again."""


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
            options: Tolerances and the like; the method is 'PRIORITY'.
            preferred: What the tasks leave free stays near these channels, (n, 6); near `pose` when None.

        Raises:
            IKError: The pose is not one pose of this skeleton.
        """
        if pose.channels.shape != skeleton.lower.shape:
            raise IKError(f"the pose has shape {pose.channels.shape}, wanted {skeleton.lower.shape}")
        self._pose = pose
        self._skeleton = replace(skeleton, preferred=pose.channels if preferred is None else preferred)
        self._options = replace(options, method="PRIORITY", restarts=0)
        self._yielding = False

    @property
    def pose(self) -> Pose:
        """Where the body is now."""
        return self._pose

    def follow(self, firm: Sequence[Task], loose: Sequence[Task] = ()) -> Followed:
        """Move the body.

        Args:
            firm: Tasks that hold strictly, by their levels; each with a weight.
            loose: Tasks that hold as far as these let them, each with a weight.

        Raises:
            IKError: A task does not fit the skeleton.
        """
        before = self._pose.channels
        iterations, returning = 0, self._yielding
        if loose and not self._yielding:
            found = self._attempt([*firm, *loose])
            if found.reached:
                return self._moved(found, found.errors[: len(firm)], found.errors[len(firm) :], before)
            iterations = found.iterations
            self._yielding = True
        if not loose:
            self._yielding = False
            found = solve(
                Problem(self._skeleton, tuple(firm)),
                self._pose,
                self._options,
                max_iterations=min(PASS_ITERATIONS, self._options.max_iterations),
            )
            return self._moved(found, found.errors, (), before)
        guide = self._guide(firm, loose)
        found = solve(
            Problem(replace(self._skeleton, preferred=guide.pose.channels), tuple(firm)),
            guide.pose,
            self._options,
            max_iterations=min(PASS_ITERATIONS, self._options.max_iterations),
        )
        missed = self._errors_of(loose, found.pose)
        iterations += guide.iterations
        share = max(error.error / (1.0 if error.angular else self._skeleton.reach) for error in missed)
        self._yielding = share > RETURN_SHARE or not found.reached
        if returning and not self._yielding:
            self._pose = found.pose
            whole = self._attempt([*firm, *loose])
            iterations += found.iterations
            if whole.reached:
                count = len(firm)
                return self._moved(
                    whole, whole.errors[:count], whole.errors[count:], before, iterations=iterations
                )
        return self._moved(found, found.errors, missed, before, iterations=iterations)

    def _attempt(self, tasks: Sequence[Task]) -> Solution:
        """All tasks at once, for a few iterations."""
        return solve(
            Problem(self._skeleton, tuple(tasks)),
            self._pose,
            self._options,
            callback=lambda iteration, _values: iteration >= ATTEMPT_ITERATIONS,
        )

    def _guide(self, firm: Sequence[Task], loose: Sequence[Task]) -> Solution:
        """A pose that is nearly right for the firm tasks, and the best for the loose ones then."""
        merged = [replace(task, priority=0) for task in firm]
        merged += [replace(task, priority=0, weight=LOOSE_WEIGHT * task.weight) for task in loose]
        merged.append(StayNear(channels=self._skeleton.preferred, weight=STAY_WEIGHT))
        return solve(
            Problem(self._skeleton, tuple(merged)),
            self._pose,
            self._options,
            max_iterations=min(PASS_ITERATIONS, self._options.max_iterations),
            preferred_pose=False,
        )

    def _errors_of(self, tasks: Sequence[Task], pose: Pose) -> tuple[TaskError, ...]:
        """By how much a pose misses tasks, without a reason."""
        batch = pose.as_batch()
        system = Problem(self._skeleton, tuple(tasks)).assemble(batch)
        errors = system.errors(system.place(system.mechanism.values(batch)))[0]
        limits = (self._options.tolerance_position, self._options.tolerance_rotation)
        return tuple(
            TaskError(task.label, float(error), task.angular, bool(error <= limits[task.angular]), None)
            for task, error in zip(tasks, errors, strict=True)
        )

    def _moved(
        self,
        found: Solution,
        firm: tuple[TaskError, ...],
        loose: tuple[TaskError, ...],
        before: FloatArray,
        *,
        iterations: int = 0,
    ) -> Followed:
        self._pose = found.pose
        change = float(np.abs(found.pose.channels - before).max(initial=0.0))
        return Followed(
            pose=found.pose,
            firm=firm,
            loose=loose,
            yielding=not all(error.reached for error in loose),
            iterations=found.iterations + iterations,
            settled=change <= self._options.step_tolerance,
        )

# SPDX-License-Identifier: GPL-3.0-or-later
"""A prepared problem, kept while nothing but its targets moves.

To prepare a problem costs more than to follow a target by a few millimetres. It is kept from one update to
the next, as long as skeleton, tasks and settings stay the same. `core.solve.follower` follows targets that
are being moved; `core.solve.tracker` solves with methods that have their own rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from ...core import (
    Pose,
    Problem,
    SolverOptions,
    Status,
    Task,
)
from ...core.solve.follower import Follower, follows
from ...core.solve.solution import TaskError
from ...core.solve.tracker import Tracker
from ..effectors.goals import Plan
from ..rig.changes import aim_of, same_but_for_aim
from ..rig.live_state import NOTHING, Digest
from ..rig.rig import Reading


class FollowMode(Enum):
    """How targets are gone after."""

    SOLVING = "SOLVING"
    """As a solve does."""
    MOVING = "MOVING"
    """Targets are being moved: a few steps from where the body is."""
    ARRIVING = "ARRIVING"
    """Targets rest: on to what a solve gives, update by update."""


class Followed(NamedTuple):
    """What an update came to."""

    pose: Pose
    errors: tuple[TaskError, ...]
    iterations: int
    status: Status
    settled: bool
    """Whether the body has come to rest."""
    final: bool
    """Whether the pose is what a solve gives, and not on its way."""


@dataclass(frozen=True)
class Tracked:
    """A problem that is gone on with."""

    tracker: Tracker | Follower
    tasks: tuple[Task, ...]
    """Those with a weight, each of one frame."""
    plan: Plan
    options: SolverOptions
    joints: tuple[int, ...]
    """Those that move."""
    posed: Digest = NOTHING
    """Of the pose that was written last."""
    settled: bool = True
    """Whether the last update has come to rest."""
    final: bool = True
    """Whether the pose is what a solve gives."""
    arriving: bool = False
    """Whether the body goes there."""

    @classmethod
    def of(
        cls, plan: Plan, options: SolverOptions, reading: Reading, mode: FollowMode, before: "Tracked | None"
    ) -> "Tracked":
        """Prepare a problem, or take the one before if it differs in nothing but where targets are.

        Args:
            plan: Skeleton and tasks, of one frame.
            options: Settings.
            reading: Where the body is.
            mode: How targets will be gone after.
            before: One that has left the body where it is; None where there is none.

        Raises:
            IKError: The problem and the options do not fit together.
        """
        weighty = [task for task in plan.tasks if task.weight > 0.0]
        tasks = tuple(task if task.frames is None else task.at_frame(0) for task in weighty)
        kind = Tracker if mode is FollowMode.SOLVING or not follows(options) else Follower
        same_kind = before is not None and isinstance(before.tracker, kind)
        goes_on = before is not None and same_kind and before._fits(plan, tasks, options)
        if before is not None and goes_on and before._stands(reading):
            return replace(before, tasks=tasks)
        problem = Problem(plan.skeleton, tasks)
        if before is not None and goes_on and isinstance(before.tracker, Follower):
            tracker = before.tracker.among(problem, reading.pose)
        else:
            tracker = kind(problem, reading.pose, options)
            if before is not None and isinstance(tracker, Follower) and before._fits(plan, tasks, options):
                tracker.begin([aim_of(task) for task in before.tasks])
        return cls(tracker, tasks, plan, options, tuple(problem.moving_joints))

    def follow(self, mode: FollowMode, home: Pose | None = None) -> Followed:
        """Go after the targets of the tasks, or step by step to a pose that is known to belong to them."""
        targets = [aim_of(task) for task in self.tasks]
        if isinstance(self.tracker, Follower):
            if home is not None:
                found = self.tracker.return_to(targets, home)
            else:
                go = self.tracker.arrive if mode is FollowMode.ARRIVING else self.tracker.follow
                found = go(targets)
            return Followed(
                found.pose,
                found.errors,
                found.iterations,
                found.status,
                found.settled,
                found.final,
            )
        # What stays must be what a solve gives; on the way the body looks for no other pose.
        solution = self.tracker.solve(targets, far=mode is not FollowMode.MOVING)
        return Followed(
            solution.pose,
            solution.errors,
            solution.iterations,
            solution.status,
            settled=True,
            final=True,
        )

    def _fits(self, plan: Plan, tasks: Sequence[Task], options: SolverOptions) -> bool:
        """Whether another problem differs in nothing but where targets are."""
        return (
            plan.skeleton is self.plan.skeleton
            and options == self.options
            and len(tasks) == len(self.tasks)
            and all(same_but_for_aim(one, other) for one, other in zip(tasks, self.tasks, strict=True))
        )

    def _stands(self, reading: Reading) -> bool:
        """Whether what is not solved is where it was: fixed channels, and scales."""
        free, pose = self.plan.skeleton.free, self.tracker.pose
        return np.array_equal(pose.channels[~free], reading.pose.channels[~free]) and np.array_equal(
            pose.scale, reading.pose.scale
        )

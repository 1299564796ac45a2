# SPDX-License-Identifier: GPL-3.0-or-later
"""A prepared problem, kept while nothing but its targets moves.

To prepare a problem costs more than to follow a target by a few millimetres. It is kept from one update to
the next, as long as skeleton, tasks and settings stay the same. `core.solve.follower` follows targets that
are being moved; `core.solve.tracker` solves, with whatever method.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from ...core import OneOf, Pose, Problem, Skeleton, SolverOptions, Task
from ...core.arrays import BoolArray, FloatArray
from ...core.solve.follower import MOVING_TURN, Followed, Follower
from ...core.solve.tracker import Tracker
from ..kinds.frame_data import FrameData
from ..kinds.plan import Plan


@dataclass(frozen=True)
class Tracked:
    """A problem that is gone on with."""

    solver: Tracker | Follower
    tasks: tuple[Task, ...]
    """Those with a weight, each of one frame."""
    skeleton: Skeleton
    options: SolverOptions
    joints: Sequence[int] = ()
    """Those that move."""
    preferred: FloatArray | None = None
    """As `Plan.preferred`."""
    pose_bytes: bytes = b""
    """The pose that was written last."""

    @classmethod
    def of(
        cls,
        kind: type[Tracker | Follower],
        plan: Plan,
        options: SolverOptions,
        frames: FrameData,
        before: "Tracked | None",
    ) -> "Tracked":
        """Prepare a problem of one frame, or take the one before if nothing but targets differs.

        `before` has left the body where it is in `frames`; None where there is none.
        """
        weighty = [task for task in plan.tasks if task.weight > 0.0]
        tasks = tuple(task if task.frames is None else task.at_frame(0) for task in weighty)
        if before is not None and not (
            before.bends_alike(plan.skeleton)
            and same(_known(plan.preferred), _known(before.preferred))
            and options == before.options
            and before.asks_for(tasks)
        ):
            before = None
        if (
            before is not None
            and isinstance(before.solver, kind)
            and plan.skeleton is before.skeleton
            and same(plan.preferred, before.preferred)
            and before._stands(frames.pose[0])
        ):
            return replace(before, tasks=tasks)
        problem = Problem(plan.skeleton, tasks, plan.preferred)
        follower = before.solver if before is not None and isinstance(before.solver, Follower) else None
        if follower is not None and kind is Follower:
            solver = follower.among(problem, frames.pose[0])
        else:
            pose = frames.pose[0] if follower is None else follower.heading(frames.pose[0])
            solver = kind(problem, pose, options)
            if before is not None and isinstance(solver, Follower):
                solver.begin([task.aim for task in before.tasks])
        return cls(solver, tasks, plan.skeleton, options, problem.moving_joints, plan.preferred)

    def bends_alike(self, skeleton: Skeleton) -> bool:
        """Whether another skeleton differs in nothing but what it prefers."""
        return skeleton is self.skeleton or same(
            replace(skeleton, preferred=self.skeleton.preferred), self.skeleton
        )

    def asks_for(self, tasks: tuple[Task, ...]) -> bool:
        """Whether other tasks differ in nothing but where targets are."""
        return len(tasks) == len(self.tasks) and all(map(same_but_for_aim, tasks, self.tasks))

    def solve(self, *, far: bool) -> Followed:
        """What a solve gives; `far`: it looks for other poses than the next one too."""
        assert isinstance(self.solver, Tracker)
        found = self.solver.solve([task.aim for task in self.tasks], far=far)
        return Followed(found.pose, found.errors, found.iterations, found.status, final=True)

    def step(
        self, *, settles: bool = False, home: Pose | None = None, most_turn: float = MOVING_TURN
    ) -> Followed:
        """One update on the way after the targets, to what a solve gives, or to a pose of these targets."""
        targets = [task.aim for task in self.tasks]
        if home is not None:
            return self.follower.return_to(targets, home)
        if settles:
            return self.follower.arrive(targets)
        return self.follower.follow(targets, most_turn=most_turn)

    @property
    def follower(self) -> Follower:
        """The solver of a body that follows."""
        assert isinstance(self.solver, Follower)
        return self.solver

    def _stands(self, pose: Pose) -> bool:
        """Whether what is not solved is where it was: fixed channels, and scales."""
        held, own = ~self.skeleton.free, self.solver.pose
        return np.array_equal(own.channels[held], pose.channels[held]) and np.array_equal(
            own.scale, pose.scale
        )


def _known(preferred: FloatArray | None) -> BoolArray | None:
    """Which channels a plan prefers to be somewhere, (F, n, 6)."""
    return None if preferred is None else ~np.isnan(preferred)


def same(first: Any, second: Any) -> bool:
    """Whether values, arrays or dataclasses of such are equal; fields that do not take part do not matter."""
    if first is second:
        return True
    if type(first) is not type(second):
        return False
    if isinstance(first, np.ndarray):
        return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
    if hasattr(first, "__dataclass_fields__"):
        names = [field.name for field in fields(first) if field.compare]
        return all(same(getattr(first, name), getattr(second, name)) for name in names)
    return bool(first == second)


def same_but_for_aim(one: Task, other: Task) -> bool:
    """Whether two tasks differ in nothing but what `Task.moved` changes."""
    if type(one) is not type(other):
        return False
    if isinstance(one, OneOf) and isinstance(other, OneOf):
        pairs = zip_longest(one.alternatives, other.alternatives)
        if not all(same_but_for_aim(*pair) for pair in pairs):
            return False
    own, others, aim = vars(one), vars(other), one.target_field
    names = (field.name for field in fields(one))
    return all(same(own[name], others[name]) for name in names if name != aim)

# SPDX-License-Identifier: GPL-3.0-or-later
"""A skeleton and what its pose should achieve, as a caller states it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ..errors import IKError
from ..model.skeleton import Skeleton
from ..tasks import Task


@dataclass(frozen=True, init=False, repr=False)
class Problem:
    """A skeleton and its tasks."""

    skeleton: Skeleton
    tasks: tuple[Task, ...]

    def __init__(self, skeleton: Skeleton, tasks: Task | Iterable[Task]) -> None:
        """State what is to be solved.

        Args:
            skeleton: The joints.
            tasks: One task, or any number.

        Raises:
            IKError: Something is no task, does not fit the skeleton, or targets have different frames.
        """
        if not isinstance(skeleton, Skeleton):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise IKError(f"a problem is about a Skeleton, got {skeleton!r:.60}")
        tasks = tuple(tasks) if isinstance(tasks, Iterable) else (tasks,)
        object.__setattr__(self, "skeleton", skeleton)
        object.__setattr__(self, "tasks", tasks)
        for task in tasks:
            if not isinstance(task, Task):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise IKError(
                    f"a {type(task).__name__} is no task; there are ReachPoint, MatchOrientation, ..."
                )
            task.check(skeleton)
        moving = [task for task in tasks if task.frames is not None]
        if len({task.frames for task in moving} - {1}) > 1:
            listed = ", ".join(f"{task.label}: {task.frames}" for task in moving)
            raise IKError(f"targets have different numbers of frames ({listed})")

    def __repr__(self) -> str:
        return f"Problem({self.skeleton!r}, {list(self.tasks)!r})"

    @cached_property
    def frames(self) -> int | None:
        """Number of frames of the targets, None when they are the same in all."""
        counts = [task.frames for task in self.tasks if task.frames is not None]
        return max(counts, default=None)

    @cached_property
    def weighty_tasks(self) -> tuple[Task, ...]:
        """The tasks that take part, by their parts: one without weight changes nothing."""
        return tuple(part for task in self.tasks if task.weight > 0.0 for part in task.parts)

    @property
    def moving_joints(self) -> list[int]:
        """Indices of the joints that a solve of this problem can move, parents first."""
        involved: set[int] = set()
        for task in self.weighty_tasks:
            for joint in task.joints(self.skeleton):
                involved.update(self.skeleton.ancestors(joint))
        return [joint for joint in sorted(involved) if self.skeleton.free[joint].any()]

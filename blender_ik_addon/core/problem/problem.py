# SPDX-License-Identifier: GPL-3.0-or-later
"""A skeleton and what its pose should achieve, as a caller states it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..errors import IKError
from ..model.skeleton import Skeleton
from ..tasks import Task

Forms = tuple[tuple[object, ...], ...]
"""What tasks are but for their targets, see `Task.form`."""


@dataclass(frozen=True)
class Problem:
    """A skeleton and its tasks."""

    skeleton: Skeleton
    tasks: tuple[Task, ...]

    def __post_init__(self) -> None:
        if isinstance(self.tasks, Task):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise IKError(f"tasks must be a tuple, got one task: write ({self.tasks.label},) in brackets")
        object.__setattr__(self, "tasks", tuple(self.tasks))
        for task in self.tasks:
            if not isinstance(task, Task):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise IKError(
                    f"a {type(task).__name__} is no task; there are ReachPoint, MatchOrientation, ..."
                )
            task.check(self.skeleton)
        moving = [task for task in self.tasks if task.frames is not None]
        if len({task.frames for task in moving} - {1}) > 1:
            listed = ", ".join(f"{task.label}: {task.frames}" for task in moving)
            raise IKError(f"targets have different numbers of frames ({listed})")

    @cached_property
    def frames(self) -> int | None:
        """Number of frames of the targets, None when they are the same in all."""
        counts = [task.frames for task in self.tasks if task.frames is not None]
        return max(counts, default=None)

    @property
    def weighty_tasks(self) -> tuple[Task, ...]:
        """The tasks that take part: one without weight changes nothing."""
        return tuple(task for task in self.tasks if task.weight > 0.0)

    @property
    def moving_joints(self) -> list[int]:
        """Indices of the joints that a solve of this problem can move, parents first."""
        involved: set[int] = set()
        for task in self.weighty_tasks:
            for joint in task.joints(self.skeleton):
                involved.update(self.skeleton.ancestors(joint))
        return [joint for joint in sorted(involved) if self.skeleton.free[joint].any()]

    @property
    def forms(self) -> Forms | None:
        """All that the tasks that take part are but for their targets; None where that is not told."""
        forms = [task.form for task in self.weighty_tasks]
        known = tuple(form for form in forms if form is not None)
        return known if len(known) == len(forms) else None

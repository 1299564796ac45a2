# SPDX-License-Identifier: GPL-3.0-or-later
"""What a caller wants solved: a skeleton, its tasks, and what its channels prefer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..arrays import LARGEST, FloatArray, frozen
from ..errors import IKError
from ..model.skeleton import CHANNELS, Skeleton
from ..tasks import Task


@dataclass(frozen=True, init=False, repr=False)
class Problem:
    """A skeleton and its tasks."""

    skeleton: Skeleton
    tasks: tuple[Task, ...]
    preferred: FloatArray | None
    """Preferred channels of each frame, (n, 6) or (F, n, 6) [m, rad]; None for those of the skeleton."""

    def __init__(
        self, skeleton: Skeleton, tasks: Task | Iterable[Task], preferred: npt.ArrayLike | None = None
    ) -> None:
        """State what is to be solved.

        Args:
            tasks: One task, or any number.
            preferred: Preferred channels of one pose, (n, 6), or of each frame, (F, n, 6) [m, rad], such as
                those of a recorded motion; NaN where a channel prefers what the skeleton says. Limits do not
                keep a channel from its value here. A frame whose preferred pose meets all tasks has that
                pose in the solution, exactly.

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
        object.__setattr__(self, "preferred", _preferred(skeleton, preferred))
        count = 1 if self.preferred is None or self.preferred.ndim < 3 else len(self.preferred)
        if count not in (1, self.frames):
            raise IKError(f"there are preferred channels of {count} frames, and targets of {self.frames}")
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
        if self.preferred is not None and self.preferred.ndim > 2:
            counts.append(len(self.preferred))
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


def _preferred(skeleton: Skeleton, preferred: npt.ArrayLike | None) -> FloatArray | None:
    """Preferred channels as an array (IKError: they do not fit the skeleton, or one is too large)."""
    if preferred is None:
        return None
    found = frozen(preferred)
    wanted = (len(skeleton), CHANNELS)
    if found.ndim not in (2, 3) or found.shape[-2:] != wanted:
        raise IKError(f"preferred channels have shape {found.shape}, wanted {wanted} or (frames, *{wanted})")
    large = np.abs(found) > LARGEST
    if large.any():
        where = tuple(np.argwhere(large)[0])
        joint = skeleton.names[int(where[-2])]
        raise IKError(f"joint {joint!r}: a preferred channel is not finite or too large, {found[where]}")
    return found

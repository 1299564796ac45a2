# SPDX-License-Identifier: GPL-3.0-or-later
"""What a solve returns: the pose, how it ended, how well each task was met, and that in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..arrays import FloatArray, frozen
from ..explain.explanation import Explanation
from ..model.skeleton import Pose


class Status(StrEnum):
    """How a solve ended."""

    REACHED = "REACHED"
    """Every task is within its tolerance."""
    SETTLED = "SETTLED"
    """The pose stands still at the best found; some task is out of reach, limited or outranked."""
    MAX_ITERATIONS = "MAX_ITERATIONS"
    """The iterations ran out while the pose still moved."""
    CANCELLED = "CANCELLED"
    """The callback asked to stop."""


class TaskError(NamedTuple):
    """How well one task was met."""

    name: str
    error: float
    """[m], or [rad] where `angular`."""
    angular: bool
    reached: bool
    why: Explanation | None = None
    """What keeps it from its target; None where it is reached."""
    taken: str = ""
    """Of a task with alternatives the label of the one that was taken."""

    @property
    def note(self) -> str:
        """By how much it was missed and why, in a sentence; empty where it is reached."""
        return "" if self.why is None else self.why.text


@dataclass(frozen=True)
class Solution:
    """The best pose found, and how good it is."""

    pose: Pose
    status: Status
    message: str
    iterations: int
    errors: tuple[TaskError, ...]
    """One for each task that has a weight, in the problem's order."""
    limited: tuple[tuple[str, int], ...]
    """Joint and channel of every limit on which the pose stands."""
    history: tuple[FloatArray, ...] = field(repr=False, compare=False)
    """|r| of each level at the start and after each iteration, (1, levels) each, in scaled units."""

    @cached_property
    def costs(self) -> FloatArray:
        """½|r|² of each level at the start and after each iteration, (n + 1, levels) [1]."""
        norms = np.concatenate(self.history)
        return frozen(0.5 * norms * norms)

    @property
    def reached(self) -> bool:
        """Whether every task is within its tolerance."""
        return all(error.reached for error in self.errors)


def reached_message(tasks: int) -> str:
    """What is said where every one of some tasks is reached."""
    return f"all {tasks} targets reached" if tasks else "nothing to solve"


def result_message(status: Status, tasks: tuple[TaskError, ...], iterations: int) -> str:
    """What came of a solve, in a sentence or two for people."""
    missed = [task for task in tasks if not task.reached]
    if not missed:
        text = reached_message(len(tasks))
    else:
        worst = sorted(missed, key=lambda task: -task.error)[:3]
        amounts = ", ".join(
            f"{task.name} by "
            + (f"{np.degrees(task.error):.3g}°" if task.angular else f"{task.error * 1e3:.3g} mm")
            + (f" ({task.why.why()})" if task.why is not None else "")
            for task in worst
        )
        text = f"{len(missed)} of {len(tasks)} targets missed: {amounts}"
    if status is Status.MAX_ITERATIONS:
        text += f"; stopped after {iterations} iterations while still moving"
    if status is Status.CANCELLED:
        text += "; cancelled"
    return text

# SPDX-License-Identifier: GPL-3.0-or-later
"""Result of a solve: the pose, how the solve ended, how well each task is met, and a message that says so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..amounts import angle_text, length_text
from ..arrays import FloatArray, frozen
from ..explain.explanation import Explanation
from ..model.skeleton import Pose


class Status(StrEnum):
    """How a solve ended."""

    REACHED = "REACHED"
    """Every target is within its tolerance."""
    SETTLED = "SETTLED"
    """The best pose found is at rest; some task is out of reach, limited or outranked."""
    MAX_ITERATIONS = "MAX_ITERATIONS"
    """The limit of iterations was met while the pose still changed."""
    CANCELLED = "CANCELLED"
    """The callback asked to stop."""


class TaskError(NamedTuple):
    """How well one task is met."""

    name: str
    error: float
    """[m], or [rad] where `angular`."""
    angular: bool
    reached: bool
    why: Explanation | None = None
    """What keeps it from its target; None where it is reached."""
    taken: str = ""
    """Of a task with alternatives the label of the one that was taken."""
    preference: bool = False
    """Whether it only says what is preferred, `StayNear`: that it is missed does not count."""

    @property
    def note(self) -> str:
        """By how much it is missed and why, in a sentence; empty where it is reached."""
        return "" if self.why is None else self.why.text


@dataclass(frozen=True)
class Solution:
    """The best pose found, and how good it is."""

    pose: Pose
    status: Status
    message: str
    iterations: int
    errors: tuple[TaskError, ...]
    """One for each task that has a weight and a target, in the problem's order; two of a `ReachFrame`."""
    limited: tuple[tuple[str, int], ...]
    """Joint and channel of every limit on which the pose stands."""
    history: tuple[FloatArray, ...] = field(default=(), repr=False, compare=False)
    """|r| of each level at the start and after each iteration, (1, levels) each, in scaled units; empty for a
    frame of a motion."""

    def __repr__(self) -> str:
        return f"Solution({self.status}: {self.message})"

    @cached_property
    def costs(self) -> FloatArray:
        """½|r|² of each level at the start and after each iteration, (n + 1, levels) [1]."""
        norms = np.concatenate(self.history)
        return frozen(0.5 * norms * norms)

    @property
    def reached(self) -> bool:
        """Whether every target is within its tolerance."""
        return not missed_targets(self.errors)


def ended(met: bool, reached: bool, settled: bool) -> Status:
    """How a solve ended.

    Args:
        met: Whether all tasks are within their tolerances.
        reached: Whether all targets are, without those that only say what is preferred.
        settled: Whether the pose is at rest.
    """
    if met or (reached and settled):
        return Status.REACHED
    return Status.SETTLED if settled else Status.MAX_ITERATIONS


def missed_targets(tasks: Iterable[TaskError]) -> list[TaskError]:
    """The tasks that are missed, but not those that only say what is preferred."""
    return [task for task in tasks if not (task.reached or task.preference)]


def result_message(status: Status, tasks: tuple[TaskError, ...], iterations: int) -> str:
    """The result of a solve in a sentence or two for people."""
    missed = missed_targets(tasks)
    targets = sum(not task.preference for task in tasks)
    if not missed:
        every = "target" if targets == 1 else f"all {targets} targets"
        text = f"{every} reached" if targets else "nothing to reach" if tasks else "nothing to solve"
    else:
        worst = sorted(missed, key=lambda task: -task.error)[:3]
        amounts = ", ".join(
            f"{task.name} by "
            + (angle_text if task.angular else length_text)(task.error)
            + (f" ({task.why.why()})" if task.why is not None else "")
            for task in worst
        )
        text = f"{len(missed)} of {targets} targets missed: {amounts}"
    if status is Status.MAX_ITERATIONS:
        text += f"; stopped after {iterations} iterations while still moving"
    if status is Status.CANCELLED:
        text += "; cancelled"
    return text

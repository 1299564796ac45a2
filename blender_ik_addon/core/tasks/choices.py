# SPDX-License-Identifier: GPL-3.0-or-later
"""Choices: one of several goals is enough, as a hand on either of two rails [KiSheen §2]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from itertools import chain
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from ..arrays import BoolArray, FloatArray, IntArray, alike, check_number
from ..errors import IKError, check_list, check_type
from ..model.mechanism import Hessian, Mechanism, PosedMechanism, summed
from ..model.skeleton import Skeleton
from .base import Rows, Task


@dataclass(frozen=True, repr=False, eq=False)
class OneOf(Task):
    """Meet one of several tasks; which one is up to the solver.

    A motion takes those with which it has the least energy as a whole: it keeps to one that it can meet all
    along, and changes where that turns the body least. Without smoothness, and in a `Tracker`, each frame
    takes the one with the smallest error in the pose from which it starts, and keeps to that of the frame
    before while it stays within the margin of the best. Where the one taken leaves something to be met the
    others are tried; another is taken if it is met, or nearer than one that is missed by more than the
    margin, and no level down to its own is missed by more for it. Of two that are met levels below decide.
    What is taken in the end is what the pose found meets, or is nearest to.
    """

    alternatives: tuple[Task, ...]
    """At least two tasks, all about places or all about directions. Their own priorities, weights and
    softness do not count, those of this task do."""
    _: KW_ONLY
    margin: float = 0.1
    """How much nearer than the one taken another must be to take its place frame by frame: [rad] for
    directions, for places in units of the skeleton's reach [1]."""

    def __post_init__(self) -> None:
        check_type("alternatives of one of several tasks are a list of tasks", self.alternatives, Sequence)
        object.__setattr__(self, "alternatives", tuple(self.alternatives))
        for other in self.alternatives:
            check_type("alternatives of one of several tasks are tasks", other, Task)
        super().__post_init__()
        if len(self.alternatives) < 2:
            raise IKError(f"{self.label}: wanted at least two alternatives, got {len(self.alternatives)}")
        for other in self.alternatives:
            if other.parts != (other,) or isinstance(other, OneOf):
                raise IKError(f"{self.label}: {type(other).__name__} cannot be an alternative")
            if other.angular != self.alternatives[0].angular:
                raise IKError(
                    f"{self.label}: {self.alternatives[0].label} and {other.label} cannot be compared: "
                    "one is an angle, the other a length"
                )
        check_number(f"{self.label}: margin", self.margin, 0.0)
        object.__setattr__(self, "margin", float(self.margin))
        counts = dict.fromkeys(own.frames for own in self.alternatives if own.frames not in (None, 1))
        if len(counts) > 1:
            first, second, *_ = counts
            raise IKError(f"{self.label}: alternatives have {first} and {second} frames")
        for other in self.alternatives:
            if not _same_gaps(other, self.alternatives[0]):
                raise IKError(
                    f"{self.label}: {self.alternatives[0].label} and {other.label} have no target in "
                    "different frames"
                )

    @property
    def angular(self) -> bool:  # type: ignore[override]
        """Whether its errors are angles [rad] rather than lengths [m]: as those of its alternatives."""
        return self.alternatives[0].angular

    @property
    def label(self) -> str:
        """Name for messages."""
        return self.name or f"one of {', '.join(other.label for other in self.alternatives)}"

    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when an alternative does not fit the skeleton."""
        for other in self.alternatives:
            other.check(skeleton)

    def joints(self, skeleton: Skeleton) -> list[int]:
        """Those of all alternatives."""
        return [joint for other in self.alternatives for joint in other.joints(skeleton)]

    @cached_property
    def frames(self) -> int | None:
        """Number of frames of the alternatives, None when they are the same in all."""
        counts = [other.frames for other in self.alternatives if other.frames is not None]
        return max(counts, default=None)

    @cached_property
    def given(self) -> BoolArray | None:
        """Frames in which its alternatives have targets, (F,); None: all."""
        return self.alternatives[0].given

    def only_in(self, frames: npt.ArrayLike) -> Self:
        """The same task without targets in all but some frames, (F,)."""
        return replace(self, alternatives=tuple(other.only_in(frames) for other in self.alternatives))

    def at_frame(self, frame: int) -> Self:
        """The task with the targets of one frame."""
        return replace(self, alternatives=tuple(other.at_frame(frame) for other in self.alternatives))

    @property
    def target_field(self) -> str:
        """The alternatives, of which each is moved."""
        return "alternatives"

    @property
    def aim(self) -> list[FloatArray]:  # type: ignore[override]
        """Those of its alternatives."""
        return [other.aim for other in self.alternatives]

    def moved(self, target: Sequence[npt.ArrayLike] | FloatArray) -> Self:  # type: ignore[override]
        """The same task with other targets, one for each alternative along the first axis."""
        count = len(self.alternatives)
        check_list(f"{self.label}: targets are one for each alternative", target, object)
        if len(target) != count:
            raise IKError(f"{self.label}: got {len(target)} targets for {count} alternatives")
        pairs = zip(self.alternatives, target, strict=True)
        return replace(self, alternatives=tuple(other.moved(own) for other, own in pairs))


class ChoiceRows(Rows, of=OneOf):
    """The rows of all alternatives, 0 but for the one that is taken.

    The taken one may differ by frame, and the number of rows may not: those of the others are 0.
    """

    by_frame: ClassVar[tuple[str, ...]] = ("taken",)

    def __init__(self, tasks: Sequence[OneOf], mechanism: Mechanism) -> None:
        every = [other.altered(weight=1.0) for task in tasks for other in task.alternatives]
        self._rows = [other.rows([other], mechanism) for other in every]
        """Of every alternative of every task in turn, (A,)."""
        self.alternatives = tuple(len(task.alternatives) for task in tasks)
        """Number of alternatives of each task."""
        units = [1.0 if task.angular else mechanism.skeleton.reach for task in tasks]
        self.margins: FloatArray = np.array([task.margin for task in tasks]) * units
        """How much nearer another must be, of each task, (tasks,) [m] or [rad]."""
        self._first = np.cumsum((0, *self.alternatives))[:-1]
        """The first alternative of each task."""
        counts = [sum(rows.row_counts) for rows in self._rows]
        super().__init__(tasks, np.add.reduceat(counts, self._first).tolist())
        self._splits = np.cumsum(counts)[:-1]
        self._of_row = np.repeat(np.arange(len(counts)), counts)
        """Alternative of each row, (m,)."""
        self.angular = np.concatenate([rows.angular for rows in self._rows])
        self.yields = np.concatenate([rows.yields for rows in self._rows])
        self.taken: IntArray = np.zeros((1, len(tasks)), dtype=np.int64)
        """Which alternative of each task is taken, (F or 1, tasks)."""

    def select(self, frames: IntArray) -> ChoiceRows:
        """The same rows for some of the frames."""
        return alike(super().select(frames), _rows=[rows.select(frames) for rows in self._rows])

    def aimed(self, targets: Sequence[FloatArray]) -> Self:
        """The same rows of one frame with other targets, as for `OneOf.moved`."""
        pairs = zip(self._rows, chain.from_iterable(targets), strict=True)
        return alike(self, _at=None, _rows=[rows.aimed([target]) for rows, target in pairs])

    # Choosing

    def taking(self, taken: IntArray) -> ChoiceRows:
        """The same rows with given alternatives, (F or 1, tasks)."""
        return alike(self, _at=None, taken=taken)

    def nearest(self, posed: PosedMechanism, kept: IntArray | None = None) -> IntArray:
        """The alternatives with the smallest errors, those kept within their margins, (F, tasks)."""
        every = self.every_error(posed)
        chosen = np.stack([errors.argmin(axis=1) for errors in every], axis=1)
        if kept is None:
            return chosen
        least = np.stack([errors.min(axis=1) for errors in every], axis=1)
        return np.where(_of(every, kept) <= least + self.margins, kept, chosen)

    def every_error(self, posed: PosedMechanism) -> list[FloatArray]:
        """Errors of the alternatives of each task, (F, alternatives) each."""
        errors = np.concatenate([rows.errors(posed) for rows in self._rows], axis=1)
        return np.split(errors, self._first[1:], axis=1)

    # What other rows do

    def _mask(self) -> FloatArray:
        """1 for the rows of what is taken, (F or 1, m)."""
        return ((self._first + self.taken)[:, self._task_of_row] == self._of_row).astype(np.float64)

    @property
    def clears(self) -> bool:
        """Whether alternatives have slacks."""
        return any(rows.clears for rows in self._rows)

    def best_slacks(self, posed: PosedMechanism, values: FloatArray) -> FloatArray:
        """Free channels (F, nv) with the slacks of alternatives at their best."""
        for rows in self._rows:
            values = rows.best_slacks(posed, values)
        return values

    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted residual, (F, m); alternatives keep what they have found, and their slacks may differ."""
        self._at = None
        return super().residual(posed)

    def _value(self, posed: PosedMechanism) -> FloatArray:
        return np.concatenate([rows.residual(posed) for rows in self._rows], axis=1) * self._mask()

    def _slope(self, posed: PosedMechanism) -> FloatArray:
        whole = np.concatenate([rows.jacobian(posed) for rows in self._rows], axis=1)
        return whole * self._mask()[..., None]

    def _hessian(self, posed: PosedMechanism, multipliers: FloatArray) -> Hessian | None:
        parts = np.split(multipliers * self._mask(), self._splits, axis=1)
        return summed(rows.hessian(posed, own) for rows, own in zip(self._rows, parts, strict=True))

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Errors of what is taken, (F, tasks) [m] or [rad]."""
        return _of(self.every_error(posed), self.taken)


def _same_gaps(one: Task, other: Task) -> bool:
    gaps = (task.given for task in (one, other))
    first, second = (np.ones(1, dtype=np.bool_) if given is None else given for given in gaps)
    return bool((first == second).all())


def _of(every: Sequence[FloatArray], taken: IntArray) -> FloatArray:
    """Errors of some alternatives, one of each task, (F or 1, tasks) -> (F, tasks)."""
    chosen = [np.take_along_axis(own, taken[:, [task]], axis=1) for task, own in enumerate(every)]
    return np.concatenate(chosen, axis=1)

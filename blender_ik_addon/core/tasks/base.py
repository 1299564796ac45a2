# SPDX-License-Identifier: GPL-3.0-or-later
"""What every task and every stack of rows offers, and what tasks about a joint share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final, Self

import numpy as np
import numpy.typing as npt

from ..arrays import (
    LARGEST,
    BoolArray,
    FloatArray,
    IntArray,
    alike,
    fault,
    frozen,
    is_number,
    is_whole,
    lengths,
    usable,
)
from ..errors import IKError
from ..model.bends import Bend
from ..model.mechanism import Mechanism
from ..model.posed import PosedMechanism
from ..model.skeleton import Skeleton

ALL_AXES: Final = (True, True, True)

ORIGIN: Final = frozen(np.zeros(3))
PLAIN_AXES: Final = frozen(np.eye(3))


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """What all tasks have in common."""

    priority: int = 0
    """Level; 0 is highest. A lower level never costs a higher one anything."""
    weight: float = 1.0
    """How much it counts within its level; a miss by the skeleton's `reach` counts as much as one radian."""
    softness: float = 0.0
    """By about so much the target may be missed where meeting it exactly would ask joints to turn by a radian
    away from the pose that they prefer, or the motion to jerk [m, or rad where `angular`]. 0: what can be met
    is met exactly. The task counts as reached within its softness. The methods of the papers go to the target
    itself."""
    name: str = ""
    """What messages call it; by default its kind and joint."""

    angular: ClassVar[bool]
    """Whether errors of this kind are angles [rad] rather than lengths [m]."""
    varying: ClassVar[Mapping[str, int]] = {"target": 1}
    """Fields that may differ by frame, the target first, and how many axes each has without that."""

    def __post_init__(self) -> None:
        if not (is_whole(self.priority) and self.priority >= 0):
            raise IKError(f"{self.label}: priority must be a whole number from 0, got {self.priority!r}")
        if not (is_number(self.weight) and self.weight >= 0):
            raise IKError(
                f"{self.label}: weight must be finite, not negative and at most {LARGEST:.0e}, got "
                f"{self.weight!r}"
            )
        if not (is_number(self.softness) and self.softness >= 0):
            raise IKError(
                f"{self.label}: softness must be finite, not negative and at most {LARGEST:.0e}, got "
                f"{self.softness!r}"
            )

    @property
    def label(self) -> str:
        """Name for messages."""
        return self.name or type(self).__name__

    @abstractmethod
    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when the task does not fit the skeleton."""

    @abstractmethod
    def joints(self, skeleton: Skeleton) -> list[int]:
        """Indices of the joints that must be placed to know the residual."""

    def _frame_counts(self) -> dict[str, int]:
        """Lengths of the frame axes that there are, by the names of the fields."""
        counts: dict[str, int] = {}
        for name, axes in self.varying.items():
            field = np.asarray(getattr(self, name))
            if field.ndim > axes:
                counts[name] = len(field)
        return counts

    def _check_frames(self) -> None:
        """Raise `IKError` when fields are for different numbers of frames."""
        given = self._frame_counts()
        if len(given) < 2:
            return
        counts = [(name, count) for name, count in given.items() if count != 1]
        for name, count in counts[1:]:
            if count != counts[0][1]:
                raise IKError(
                    f"{self.label}: {counts[0][0]} has {counts[0][1]} frames, but {name} has {count}"
                )

    @cached_property
    def frames(self) -> int | None:
        """Number of frames of a target that differs by frame, else None."""
        counts = self._frame_counts()
        return max(counts.values()) if counts else None

    @cached_property
    def given(self) -> BoolArray | None:
        """Frames in which it has a target, (F,): elsewhere it is NaN, and asks for nothing. None: in all."""
        given = np.ones(self.frames or 1, dtype=np.bool_)
        for name, axes in self.varying.items():
            field = np.asarray(getattr(self, name))
            if field.ndim > axes:
                given &= ~gaps(field)
        return None if given.all() else given

    @property
    def aim(self) -> FloatArray:
        """Its target: what `moved` replaces."""
        return getattr(self, next(iter(self.varying)))

    @property
    def form(self) -> tuple[object, ...] | None:
        """All that it is but for its target, of one frame; None where kinds do not tell, or of more frames.

        Tasks of one form differ in what `Rows.aimed` replaces, and in nothing else.
        """
        return None

    def at_frame(self, frame: int) -> Self:
        """The task with the target of one frame."""
        return replace(
            self, **{name: of_frame(getattr(self, name), axes, frame) for name, axes in self.varying.items()}
        )

    def moved(self, target: FloatArray) -> Self:
        """The same task with another target, without frames.

        Raises:
            IKError: The target is not one for this kind of task.
        """
        return replace(self, **{next(iter(self.varying)): target})

    @staticmethod
    @abstractmethod
    def rows(tasks: Sequence[Task], mechanism: Mechanism) -> Rows:
        """Stack tasks of this kind."""


class Rows(ABC):
    """Stacked tasks of one kind on one mechanism."""

    row_counts: tuple[int, ...]
    """Rows of each task."""
    angular: BoolArray
    """Which rows are angles [rad] rather than lengths [m], (m,)."""
    clears: bool = False
    """Whether there are clearances of one-sided planes among its channels."""
    by_frame: ClassVar[tuple[str, ...]]
    """Attributes whose first axis is that of frames, or 1 long when they are the same in all."""
    _target: FloatArray
    """Where most kinds have their targets, (F or 1, tasks, 3) [m]."""

    def select(self, frames: IntArray) -> Self:
        """The same rows for some of the frames."""
        arrays = {name: getattr(self, name) for name in self.by_frame}
        chosen = {name: array[frames] for name, array in arrays.items() if len(array) > 1}
        if not chosen:
            return self
        some = alike(self)
        vars(some).update(chosen)
        return some

    def aimed(self, targets: Sequence[FloatArray]) -> Self:
        """The same rows of one frame with other targets, one for each task, as for `Task.moved`.

        Raises:
            IKError: Shape or value of a target is wrong.
        """
        some = alike(self)
        some._target = stack_targets(targets, (3,))
        return some

    def settled(self, posed: PosedMechanism, values: FloatArray) -> FloatArray:
        """Free channels (F, nv) with clearances at their best; here there are none."""
        return values

    @abstractmethod
    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted residual, (F, m)."""

    @abstractmethod
    def linearize(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Weighted residual (F, m) and Jacobian (F, m, nv)."""

    def jacobian(self, posed: PosedMechanism) -> FloatArray:
        """The Jacobian alone, (F, m, nv)."""
        return self.linearize(posed)[1]

    def alternate_jacobian(self, posed: PosedMechanism) -> FloatArray:
        """The Jacobian (F, m, nv) with targets in place of points [Buss2009 §2], where there are any."""
        return self.linearize(posed)[1]

    @abstractmethod
    def bend(self, posed: PosedMechanism, multipliers: FloatArray) -> Bend | None:
        """The curvature Σ_k μ_k ∂²r_k/∂q∂q for multipliers (F, m), exact; None where it is nothing."""

    @abstractmethod
    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Unweighted error of each task, (F, tasks) [m] or [rad]."""

    def places(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Points and where they should be, (F, E, 3) each [m]; none where the tasks are not about places."""
        nothing = np.zeros((len(posed.values), 0, 3))
        return nothing, nothing

    def turns(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Orientations and what they should be, (F, E, 3, 3) each; none where tasks are not about them."""
        nothing = np.zeros((len(posed.values), 0, 3, 3))
        return nothing, nothing


def of_frame(target: FloatArray, dimensions: int, frame: int) -> FloatArray:
    """The target of one frame, of targets with or without a frame axis."""
    return filled(target)[frame if len(target) > 1 else 0] if target.ndim > dimensions else target


def gaps(by_frame: FloatArray) -> BoolArray:
    """Frames in which a field (F, ...) has a number that is NaN, (F,)."""
    return np.asarray(np.isnan(by_frame).reshape(len(by_frame), -1).any(axis=1), dtype=np.bool_)


def filled(by_frame: FloatArray) -> FloatArray:
    """A field (F, ...), where it is NaN as in the frame before that is not, or after."""
    missing = gaps(by_frame)
    if not missing.any():
        return by_frame
    known = np.flatnonzero(~missing)
    before = np.searchsorted(known, np.arange(len(by_frame)), side="right") - 1
    return by_frame[known[np.maximum(before, 0)]]


def shaped_array(
    label: str, name: str, given: npt.ArrayLike, tail: tuple[int | None, ...], *, by_frame: bool = False
) -> FloatArray:
    """A field of a shape as a read-only array, with a frame axis before it where it may differ by frame.

    Raises:
        IKError: It is no array of numbers, or of another shape; None in a shape stands for any length.
    """
    try:
        array = frozen(given)
    except IKError as error:
        raise IKError(f"{label}: {name}: {error}") from None
    own = array.shape[max(0, array.ndim - len(tail)) :]
    fits = len(own) == len(tail) and all(size in (None, got) for size, got in zip(tail, own, strict=True))
    if not fits or array.ndim > len(tail) + by_frame:
        sizes = ["n" if size is None else str(size) for size in tail]
        shapes = [sizes, ["F", *sizes]] if by_frame else [sizes]
        wanted = " or ".join(f"({', '.join(each)}{',' * (len(each) == 1)})" for each in shapes)
        raise IKError(f"{label}: {name} has shape {array.shape}, wanted {wanted}")
    return array


def checked_array(
    label: str, name: str, given: npt.ArrayLike, tail: tuple[int | None, ...], *, by_frame: bool = False
) -> FloatArray:
    """The same, of numbers that can be solved; frames may be NaN where others are not.

    Raises:
        IKError: As for `shaped_array`, or a number is not finite or too large.
    """
    array = shaped_array(label, name, given, tail, by_frame=by_frame)
    if not usable(array):
        known = array[~gaps(array)] if array.ndim > len(tail) else array
        if not known.size or not usable(known):
            raise IKError(f"{label}: {name} {fault(array)}")
    return array


def checked_vector(
    label: str, name: str, given: FloatArray, *, by_frame: bool = False, direction: bool = False
) -> FloatArray:
    """A field (3,), or (F, 3) where it may differ by frame, as a read-only array; directions of length 1.

    Raises:
        IKError: The shape is wrong, it is not finite or too large, or a direction has no length.
    """
    array = checked_array(label, name, given, (3,), by_frame=by_frame)
    if not direction:
        return array
    length = lengths(array)
    if (length == 0.0).any():
        raise IKError(f"{label}: {name} is zero, it must have a direction")
    return frozen(array / length[..., None])


def stack_frames(arrays: Sequence[FloatArray], dimensions: int) -> FloatArray:
    """Targets with or without a frame axis, stacked to (F or 1, tasks, ...)."""
    if all(array.ndim == dimensions for array in arrays):
        return np.array(arrays)[None]
    with_axis = [filled(array) if array.ndim > dimensions else array[None] for array in arrays]
    frames = max(len(array) for array in with_axis)
    return np.stack([np.broadcast_to(array, (frames, *array.shape[1:])) for array in with_axis], axis=1)


def stack_targets(targets: Sequence[FloatArray], tail: tuple[int, ...]) -> FloatArray:
    """Targets of one frame, (1, tasks, *tail).

    Raises:
        IKError: One has another shape, or is not finite or too large.
    """
    try:
        stacked = np.array(targets, dtype=np.float64)
    except (TypeError, ValueError):
        stacked = np.zeros(0)
    if stacked.shape[1:] != tail:
        shapes = ", ".join(str(np.shape(target)) for target in targets)
        raise IKError(f"targets have the shapes {shapes}, wanted {tail} each")
    if not usable(stacked):
        raise IKError(f"a target {fault(stacked)}")
    return stacked[None]


def unused_as_zero(rows: FloatArray, used: BoolArray | None, tasks: int) -> FloatArray:
    """(F, m) -> (F, tasks, 3), with 0 for the rows that are switched off."""
    if used is not None:
        full = np.zeros((len(rows), len(used)))
        full[:, used] = rows
        rows = full
    return rows.reshape(len(rows), tasks, 3)


@dataclass(frozen=True, kw_only=True)
class JointTask(Task):
    """A task about one joint, along or about some of three axes."""

    joint: str | int
    """Name or index of the joint."""
    axes: tuple[bool, bool, bool] = ALL_AXES
    """Which of the three axes matter."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.axes) != 3 or not any(self.axes):
            raise IKError(f"{self.label}: at least one of three axes must be on, got {self.axes}")

    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when the joint does not exist."""
        skeleton.index(self.joint)

    @property
    def form(self) -> tuple[object, ...] | None:
        """All that it is but for its target; None of a task with more frames."""
        if self.frames is not None:
            return None
        target = next(iter(self.varying))
        fields = [
            field.tobytes() if type(field) is np.ndarray else field
            for name, field in vars(self).items()
            if name != target
        ]
        return (type(self), *fields)

    def joints(self, skeleton: Skeleton) -> list[int]:
        """The joint."""
        return [skeleton.index(self.joint)]


class AxisRows(Rows):
    """Stacked tasks about joints: three rows each, without those of the axes that are switched off."""

    def __init__(self, tasks: Sequence[JointTask], mechanism: Mechanism) -> None:
        self._joints = [mechanism.skeleton.index(task.joint) for task in tasks]
        self._anchors = np.array([mechanism.anchor(joint) for joint in self._joints], dtype=np.int64)
        self._weight = np.array([task.weight for task in tasks], dtype=np.float64)
        plain = all(task.axes == ALL_AXES for task in tasks)
        self._used: BoolArray | None = None if plain else np.array([t.axes for t in tasks]).ravel()
        self.row_counts = tuple(sum(task.axes) for task in tasks)
        self.angular = np.full(sum(self.row_counts), type(tasks[0]).angular)

    def _rows(self, weighted: FloatArray) -> FloatArray:
        """(F, E, 3, ...) -> (F, m, ...) without the rows that are switched off."""
        flat = weighted.reshape(len(weighted), weighted.shape[1] * 3, *weighted.shape[3:])
        return flat if self._used is None else flat[:, self._used]

    def _forces(self, multipliers: FloatArray) -> FloatArray:
        """(F, m) -> (F, E, 3), with 0 for the rows that are switched off."""
        return unused_as_zero(multipliers, self._used, len(self._anchors))

# SPDX-License-Identifier: GPL-3.0-or-later
"""What every task and every stack of rows offers, and what tasks about a joint or about points share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, fields
from functools import cached_property
from typing import ClassVar, Final, Self

import numpy as np
import numpy.typing as npt

from ..arrays import BoolArray, FloatArray, IntArray, alike, check_number, check_whole, frozen, times
from ..errors import IKError
from ..model.mechanism import Mechanism
from ..model.posed import Bend, PosedMechanism
from ..model.skeleton import Skeleton
from .fields import ArrayField, gaps

ALL_AXES: Final = (True, True, True)
LISTED: Final = 16
"""Numbers [1] of an array up to which a short text lists them."""


@dataclass(frozen=True, repr=False, eq=False)
class Task(ABC):
    """What all tasks have in common."""

    _: KW_ONLY
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
    """What messages and `Tracker.solve` call it; by default its kind and joint."""

    angular: ClassVar[bool]
    """Whether errors of this kind are angles [rad] rather than lengths [m]."""
    noun: ClassVar[str] = ""
    """What messages call a task without a name, with its fields in braces; by default its kind."""
    joint_fields: ClassVar[tuple[str, ...]] = ()
    """Fields with the name or index of a joint."""
    preference: ClassVar[bool] = False
    """Whether it only says what is preferred: that it is missed does not count."""
    arrays: ClassVar[Mapping[str, ArrayField]] = {}
    """Fields that hold arrays."""
    rows: ClassVar[Callable[..., Rows]]
    """Stacks tasks of this kind: the class that says `of` it."""
    varying: ClassVar[Mapping[str, int]] = {}
    """Fields that may differ by frame, the target first, and how many axes each has without that."""

    def __init_subclass__(cls) -> None:
        own = {name: field for name, field in vars(cls).items() if isinstance(field, ArrayField)}
        cls.arrays = {**cls.arrays, **own}
        cls.varying = {**cls.varying, **{name: len(each.tail) for name, each in own.items() if each.by_frame}}

    def __post_init__(self) -> None:
        check_whole(f"{self.label}: priority", self.priority, 0)
        check_number(f"{self.label}: weight", self.weight, 0.0)
        check_number(f"{self.label}: softness", self.softness, 0.0)
        counts = [(name, count) for name, count in self._frame_counts().items() if count != 1]
        for name, count in counts[1:]:
            if count != counts[0][1]:
                raise IKError(
                    f"{self.label}: {counts[0][0]} has {counts[0][1]} frames, but {name} has {count}"
                )

    def __repr__(self) -> str:
        texts: list[str] = []
        for field in sorted(fields(self), key=lambda field: bool(field.kw_only)):
            value, usual = getattr(self, field.name), field.default
            if field.name in self.arrays:
                array: FloatArray = value
                default = self.arrays[field.name].default
                if default is None or not np.array_equal(array, default):
                    shown = np.round(array, 6).tolist() if array.size <= LISTED else f"<{array.shape}>"
                    texts.append(f"{field.name}={shown}")
            elif usual is MISSING or value != usual:
                texts.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(texts)})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=True)
            if name in self.arrays
            else getattr(self, name) == getattr(other, name)
            for name in self.__dataclass_fields__
        )

    def __hash__(self) -> int:
        return hash((type(self), self.label))

    @property
    def label(self) -> str:
        """Name for messages."""
        return self.name or self.noun.format_map(vars(self)) or type(self).__name__

    @property
    def parts(self) -> tuple[Task, ...]:
        """The tasks that are solved: itself, but of a task with a place and an orientation one for each."""
        return (self,)

    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when the task does not fit the skeleton."""
        self.joints(skeleton)

    def joints(self, skeleton: Skeleton) -> list[int]:
        """Indices of the joints that must be placed to know the residual."""
        return [skeleton.index(getattr(self, name)) for name in self.joint_fields]

    def _frame_counts(self) -> dict[str, int]:
        """Lengths of the frame axes that there are, by the names of the fields."""
        arrays = {name: getattr(self, name) for name in self.varying}
        return {name: len(array) for name, array in arrays.items() if array.ndim > self.varying[name]}

    @cached_property
    def frames(self) -> int | None:
        """Number of frames of a target that differs by frame, else None."""
        return max(self._frame_counts().values(), default=None)

    @cached_property
    def given(self) -> BoolArray | None:
        """Frames in which it has a target, (F,): elsewhere it is NaN, and asks for nothing. None: in all."""
        given = np.ones(self.frames or 1, dtype=np.bool_)
        for name in self._frame_counts():
            given &= ~gaps(getattr(self, name))
        return None if given.all() else given

    @property
    def aim(self) -> FloatArray:
        """Its target: what `moved` replaces."""
        return getattr(self, self.target_field)

    @property
    def target_field(self) -> str:
        """Name of the field that `moved` replaces: the first that may differ by frame."""
        for name in self.varying:
            return name
        raise TypeError(f"{type(self).__name__} has no target: one of its fields must be by_frame")

    def at_frame(self, frame: int) -> Self:
        """The task with the target of one frame, which has been checked with the others."""
        some = self._copy()
        for name in self._frame_counts():
            array = filled(getattr(self, name))
            vars(some)[name] = frozen(array[frame if len(array) > 1 else 0])
        return some

    def moved(self, target: npt.ArrayLike) -> Self:
        """The same task with another target, without frames.

        Raises:
            IKError: The target is not one for this kind of task.
        """
        moved = self._copy()
        self.arrays[self.target_field].__set__(moved, target)
        moved.__post_init__()
        if moved.frames is not None and self.frames is None:
            raise IKError(f"{self.label}: {self.target_field} has {moved.frames} frames, wanted one")
        return moved

    def _copy(self) -> Self:
        """The same fields, without what was found of them; `replace` would check all of them again."""
        some = object.__new__(type(self))
        own = self.__dataclass_fields__
        vars(some).update({name: value for name, value in vars(self).items() if name in own})
        return some


class Rows(ABC):
    """Stacked tasks of one kind on one mechanism.

    A kind gives F of each row, without weights, with its derivatives; the residual is F by the task's weight.
    """

    clears: bool = False
    """Whether there are clearances of one-sided planes among its channels."""
    by_frame: ClassVar[tuple[str, ...]] = ("_target", "_weight", "_local")
    """Attributes whose first axis is that of frames, or 1 long when they are the same in all, and those of
    the base classes."""
    _target: FloatArray
    """Where most kinds have their targets, (F or 1, tasks, ...)."""
    _local: FloatArray
    """Where those about points have these, as `anchored` gives them."""
    _at: PosedMechanism | None = None
    """The pose that was asked for last."""
    _found: FloatArray
    """F there."""
    _slopes_at: PosedMechanism | None = None
    """The pose for whose derivative was asked last."""
    _slopes: FloatArray
    """∂F/∂q there."""

    def __init__(
        self, tasks: Sequence[Task], row_counts: Iterable[int], nothing: BoolArray | None = None
    ) -> None:
        """Stack tasks.

        Args:
            tasks: Of one kind, (E,).
            row_counts: Of the tasks, (E,).
            nothing: Which have nothing to go by, as joints that are scaled to nothing, (F or 1, E): their
                rows are 0, their errors infinite.
        """
        self.row_counts = tuple(row_counts)
        """Rows of each task."""
        self.angular: BoolArray = np.full(sum(self.row_counts), tasks[0].angular)
        """Which rows are angles [rad] rather than lengths [m], (m,)."""
        self._starts: IntArray = np.cumsum((0, *self.row_counts))[:-1]
        """First row of each task."""
        self._task_of_row: IntArray = np.arange(len(tasks)).repeat(self.row_counts)
        weight = np.array([[task.weight for task in tasks]], dtype=np.float64)
        weight = weight if nothing is None else np.where(nothing, 0.0, weight)
        self._weight: FloatArray = weight[:, self._task_of_row]
        """Of each row, (F or 1, m)."""

    def __init_subclass__(cls, of: type[Task] | None = None) -> None:
        super().__init_subclass__()
        names = [name for each in cls.__mro__ for name in vars(each).get("by_frame", ())]
        cls.by_frame = tuple(dict.fromkeys(names))
        if of is not None:
            of.rows = cls

    def select(self, frames: IntArray) -> Self:
        """The same rows for some of the frames."""
        own = vars(self)
        chosen = {name: own[name][frames] for name in self.by_frame if len(own.get(name, ())) > 1}
        if not chosen:
            return self
        some = alike(self)
        vars(some).update(chosen)
        return some

    def aimed(self, targets: Sequence[FloatArray]) -> Self:
        """The same rows of one frame with other targets, one for each task, each the `aim` of one."""
        some = alike(self)
        some._target, some._at = np.array(targets)[None], None
        return some

    def settled(self, posed: PosedMechanism, values: FloatArray) -> FloatArray:
        """Free channels (F, nv) with clearances at their best; here there are none."""
        return values

    # What a kind gives, each once for a pose and in this order: what one keeps, those after it may use.

    @abstractmethod
    def _value(self, posed: PosedMechanism) -> FloatArray:
        """F, (F, m)."""

    @abstractmethod
    def _slope(self, posed: PosedMechanism) -> FloatArray:
        """∂F/∂q, (F, m, nv)."""

    @abstractmethod
    def _bend(self, posed: PosedMechanism, multipliers: FloatArray) -> Bend | None:
        """Σ_k μ_k ∂²F_k/∂q∂q for multipliers (F, m), exact; None where it is nothing."""

    # What others ask

    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted residual, (F, m)."""
        if self._at is not posed:
            self._found, self._at, self._slopes_at = self._value(posed), posed, None
        return self._found * self._weight

    def jacobian(self, posed: PosedMechanism) -> FloatArray:
        """The derivative of the residual, (F, m, nv)."""
        if self._at is not posed:
            self.residual(posed)
        if self._slopes_at is not posed:
            self._slopes, self._slopes_at = self._slope(posed), posed
        return self._slopes * self._weight[..., None]

    def alternate_jacobian(self, posed: PosedMechanism) -> FloatArray:
        """The Jacobian (F, m, nv) with targets in place of points [Buss2009 §2], where there are any."""
        return self.jacobian(posed)

    def bend(self, posed: PosedMechanism, multipliers: FloatArray) -> Bend | None:
        """The curvature Σ_k μ_k ∂²r_k/∂q∂q for multipliers (F, m), exact; None where it is nothing."""
        if self._slopes_at is not posed:
            self.jacobian(posed)
        return self._bend(posed, multipliers * self._weight)

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Unweighted error of each task, (F, tasks) [m] or [rad]: the length of its F."""
        self.residual(posed)
        lengths = np.sqrt(np.add.reduceat(np.square(self._found), self._starts, axis=1))
        return np.where(self._weight[:, self._starts] > 0.0, lengths, np.inf)


def anchored(points: Iterable[tuple[int, FloatArray]], mechanism: Mechanism) -> tuple[IntArray, FloatArray]:
    """Slots (P,) that carry points of joints, and where these are in their frames, (F or 1, P, 4), 1 last."""
    joints, places = zip(*points, strict=True)
    matrices = np.stack([mechanism.anchor_from_joint(joint) for joint in joints], axis=1)
    anchors = np.array([mechanism.anchor(joint) for joint in joints], dtype=np.int64)
    return anchors, times(matrices, np.array([[*place, 1.0] for place in places]))


def filled(by_frame: FloatArray) -> FloatArray:
    """A field (F, ...), where it is NaN as in the frame before that is not, or after."""
    missing = gaps(by_frame)
    if not missing.any():
        return by_frame
    known = np.flatnonzero(~missing)
    before = np.searchsorted(known, np.arange(len(by_frame)), side="right") - 1
    return by_frame[known[np.maximum(before, 0)]]


def with_frames(arrays: Sequence[FloatArray], dimensions: int) -> list[FloatArray]:
    """Arrays of tasks, with or without a frame axis before so many others, all with it, F or 1 long."""
    with_axis = [filled(array) if array.ndim > dimensions else array[None] for array in arrays]
    frames = max(len(array) for array in with_axis)
    return [np.broadcast_to(array, (frames, *array.shape[1:])) for array in with_axis]


def check_axes(label: str, axes: Sequence[bool]) -> None:
    """Raise `IKError` unless at least one of three axes is on."""
    if len(axes) != 3 or not any(axes):
        raise IKError(f"{label}: at least one of three axes must be on, got {axes}")


@dataclass(frozen=True, repr=False, eq=False)
class JointTask(Task):
    """A task about one joint."""

    joint: str | int
    """Name or index of the joint."""
    joint_fields: ClassVar[tuple[str, ...]] = ("joint",)


@dataclass(frozen=True, repr=False, eq=False)
class AxisTask(JointTask):
    """A task about one joint, along or about some of three axes."""

    _: KW_ONLY
    axes: tuple[bool, bool, bool] = ALL_AXES
    """Which of the three axes matter."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_axes(self.label, self.axes)

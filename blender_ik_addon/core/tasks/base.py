# SPDX-License-Identifier: GPL-3.0-or-later
"""What every task and every stack of rows offers, and what tasks about a joint or about points share.

Fields that hold arrays take whatever is like an array and keep a checked read-only one. They are descriptors,
as dataclasses know them: a task is checked as it is made, in one place for all kinds. Where a place is wanted
a matrix (4, 4) stands for its origin, and where an orientation is wanted for its rotation. A field that may
differ by frame takes a frame axis before these shapes, and NaN in the frames in which there is no target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Final, Self, cast

import numpy as np
import numpy.typing as npt

from ..arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    alike,
    check_number,
    check_whole,
    fault,
    frozen,
    frozen_as,
    lengths,
    times,
    usable,
)
from ..errors import IKError, check_switch, check_type
from ..model.mechanism import Hessian, Mechanism, PosedMechanism
from ..model.rotation import matrix_from_quat
from ..model.skeleton import Skeleton

ROTATION_TOLERANCE: Final = 1e-4
"""Largest deviation of a target orientation from orthonormal [1]."""

UNIT_ROUNDING: Final = 4.0 * float(np.finfo(np.float64).eps)
"""Difference from 1 [1] that rounding leaves of a direction's length."""

ORIGIN: Final = frozen(np.zeros(3))
PLAIN_AXES: Final = frozen(np.eye(3))
BOTTOM: Final = frozen([0.0, 0.0, 0.0, 1.0])
"""Last row of a matrix (4, 4)."""


class ArrayField:
    """A field with an array of numbers that can be solved."""

    tail: tuple[int | None, ...] = ()
    """Its shape; None stands for any length."""
    takes: str = ""
    """What else it takes, for messages."""
    by_frame = False
    """Whether it may have a frame axis before that."""
    default: FloatArray | None = None
    """What it is where it is not given; None: it has to be."""

    def __init__(self, *tail: int | None, **given: Any) -> None:
        """Describe the field where it differs: `tail` in positions, `by_frame` and `default` by name."""
        vars(self).update(given, tail=tail or self.tail)

    def __repr__(self) -> str:
        """Return what signatures show as the default."""
        return "..."

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, task: Task | None, _owner: type) -> FloatArray:
        if task is not None:
            return task.__dict__[self._name]
        if self.default is None:
            raise AttributeError(self._name)  # so that dataclasses see no default
        return cast("FloatArray", self)  # which, unlike an array, a dataclass takes for one

    def __set__(self, task: Task, given: npt.ArrayLike) -> None:
        usual = self.default is not None and (given is self or given is self.default)
        object.__getattribute__(task, "__dict__")[self._name] = (
            self.default if usual else self.checked(task.label, given)
        )

    def checked(self, label: str, given: npt.ArrayLike) -> FloatArray:
        """What is given, as it is kept.

        Args:
            label: Of the task, for messages.
            given: Like an array.

        Raises:
            IKError: It is no array of numbers, has another shape, or numbers that cannot be solved.
        """
        where = f"{label}: {self._name}"
        array = self._converted(frozen_as(where, given))
        more = array.ndim - len(self.tail)
        if more not in range(self.by_frame + 1) or any(
            size not in (None, got) for size, got in zip(self.tail, array.shape[more:], strict=True)
        ):
            sizes = ["n" if size is None else str(size) for size in self.tail]
            shapes = [sizes, ["F", *sizes]] if self.by_frame else [sizes]
            wanted = " or ".join(f"({', '.join(each)}{',' * (len(each) == 1)})" for each in shapes)
            raise IKError(f"{where} has shape {np.shape(given)}, wanted {wanted}{self.takes}")
        if more and not len(array):
            raise IKError(f"{where} has shape {np.shape(given)}: no frames, wanted at least one")
        known = array
        if not usable(array):
            known = array[~gaps(array)] if more else array
            if not known.size or not usable(known):
                raise IKError(f"{where} {fault(array)}")
        return self._normal(where, array, known)

    def _converted(self, array: FloatArray) -> FloatArray:
        """In the shape in which it is kept."""
        return array

    def _normal(self, where: str, array: FloatArray, known: FloatArray) -> FloatArray:
        """In its normal form; `known` are the frames that are no gaps."""
        return array


class PlaceField(ArrayField):
    """A point of space, (3,) [m]."""

    tail = (3,)
    takes = ", or matrices (4, 4)"
    by_frame = True

    def _converted(self, array: FloatArray) -> FloatArray:
        return frozen(array[..., :3, 3]) if _are_matrices(array) else array


class PointField(ArrayField):
    """A point in a joint's own axes, (3,) [m]; by default its origin."""

    tail = (3,)
    default = ORIGIN


class DirectionField(ArrayField):
    """A direction of any length, (3,) [1]; kept with length 1."""

    tail = (3,)

    def _normal(self, where: str, array: FloatArray, known: FloatArray) -> FloatArray:
        if (lengths(known) == 0.0).any():
            raise IKError(f"{where} is zero, it must have a direction")
        sizes = lengths(array)[..., None]
        # What has been normalised stays as it is, to the last digit.
        return frozen(array / np.where(np.abs(sizes - 1.0) <= UNIT_ROUNDING, 1.0, sizes))


class OrientationField(ArrayField):
    """A rotation matrix (3, 3)."""

    tail = (3, 3)
    takes = ", quaternions (4,), w first, or matrices (4, 4)"
    by_frame = True

    def _converted(self, array: FloatArray) -> FloatArray:
        if _are_matrices(array):
            return frozen(array[..., :3, :3])
        if array.ndim in (1, 2) and array.shape[-1] == 4:
            return frozen(_from_quats(array))
        return array

    def _normal(self, where: str, array: FloatArray, known: FloatArray) -> FloatArray:
        rotations = known[..., :3, :3]
        off = np.abs(np.swapaxes(rotations, -1, -2) @ rotations - PLAIN_AXES).max()
        if off > ROTATION_TOLERANCE or (np.linalg.det(rotations) < 0.0).any():
            raise IKError(f"{where} is not a rotation matrix")
        return array


class FrameField(OrientationField):
    """A matrix (4, 4) of a rotation and an offset [m]."""

    tail = (4, 4)
    takes = ", or places and quaternions (7,)"

    def _converted(self, array: FloatArray) -> FloatArray:
        if array.ndim not in (1, 2) or array.shape[-1] != 7:
            return array
        matrices = np.tile(np.eye(4), (*array.shape[:-1], 1, 1))
        matrices[..., :3, :3] = _from_quats(array[..., 3:])
        matrices[..., :3, 3] = array[..., :3]
        return frozen(matrices)

    def _normal(self, where: str, array: FloatArray, known: FloatArray) -> FloatArray:
        super()._normal(where, array, known)
        if (np.abs(known[..., 3, :] - BOTTOM) > ROTATION_TOLERANCE).any():
            raise IKError(f"{where}: the last row of a matrix must be 0, 0, 0, 1")
        return array


def _from_quats(quats: FloatArray) -> FloatArray:
    """Rotation matrices, (..., 3, 3), of quaternions (..., 4) of length 1; of others what is no rotation."""
    off = np.abs(lengths(quats) - 1.0) > ROTATION_TOLERANCE  # not where there is none, NaN
    return matrix_from_quat(quats) * np.where(off, 0.0, 1.0)[..., None, None]


def _are_matrices(array: FloatArray) -> bool:
    """Whether an array is (4, 4) or (F, 4, 4), and no four quaternions."""
    if array.ndim not in (2, 3) or array.shape[-2:] != (4, 4):
        return False
    last = array[..., 3, :]
    return bool((np.abs(last[~np.isnan(last).any(axis=-1)] - BOTTOM) <= ROTATION_TOLERANCE).all())


def gaps(by_frame: FloatArray) -> BoolArray:
    """Frames in which a field (F, ...) has a number that is NaN, (F,)."""
    return np.asarray(np.isnan(by_frame).any(axis=tuple(range(1, by_frame.ndim))), dtype=np.bool_)


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
    preference: bool = False
    """Whether it only says what is preferred: that it is missed does not count."""

    angular: ClassVar[bool]
    """Whether errors of this kind are angles [rad] rather than lengths [m]."""
    noun: ClassVar[str] = ""
    """What messages call a task without a name, with its fields in braces; by default its kind."""
    joint_fields: ClassVar[tuple[str, ...]] = ()
    """Fields with the name or index of a joint."""
    arrays: ClassVar[Mapping[str, ArrayField]] = {}
    """Fields that hold arrays."""
    rows: ClassVar[Callable[..., Rows]]
    """Stacks tasks of this kind: the class that says `of` it."""
    varying: ClassVar[Mapping[str, int]] = {}
    """Fields that may differ by frame, the target first, and how many axes each has without that."""
    one_sided: ClassVar[bool] = False
    """Whether one of its rows is an inequality."""
    slack: ClassVar[int | None] = None
    """Number of the slack variable of that, of a task as it is solved."""

    def __init_subclass__(cls) -> None:
        own = {name: field for name, field in vars(cls).items() if isinstance(field, ArrayField)}
        cls.arrays = {**cls.arrays, **own}
        cls.varying = {**cls.varying, **{name: len(each.tail) for name, each in own.items() if each.by_frame}}

    def __post_init__(self) -> None:
        check_type("the name of a task is text", self.name, str)
        check_whole(f"{self.label}: priority", self.priority, 0)
        check_switch(f"{self.label}: preference", self.preference)
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
            for name in (each.name for each in fields(self))
        )

    def __hash__(self) -> int:
        return hash((type(self), self.label))

    @property
    def label(self) -> str:
        """Name for messages, also of a task whose name is still to be checked."""
        return str(self.name) or self.noun.format_map(vars(self)) or type(self).__name__

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
        """Frames in which it has a target, (F,); elsewhere the target is NaN. None: in all."""
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
        arrays = {name: filled(getattr(self, name)) for name in self._frame_counts()}
        own = {name: frozen(array[frame if len(array) > 1 else 0]) for name, array in arrays.items()}
        return self.altered(**own)

    def only_in(self, frames: npt.ArrayLike) -> Self:
        """The same task without a target in all but some frames, (F,).

        Raises:
            IKError: They are not as many as the target has, or there is no target in any of them.
        """
        given = frozen_as(f"{self.label}: frames", frames, np.bool_)
        if given.ndim != 1 or self.frames not in (None, 1, len(given)):
            count = "F" if self.frames in (None, 1) else self.frames
            raise IKError(f"{self.label}: frames have shape {given.shape}, wanted ({count},)")
        if not (given if self.given is None else given & self.given).any():
            raise IKError(f"{self.label}: no target in any frame")
        name = self.target_field
        mask = given.reshape(-1, *(1,) * self.varying[name])
        return self.altered(**{name: frozen(np.where(mask, self.aim, np.nan))})

    def moved(self, target: npt.ArrayLike) -> Self:
        """The same task with another target, without frames.

        Raises:
            IKError: The target is not one for this kind of task.
        """
        moved = self.altered()
        self.arrays[self.target_field].__set__(moved, target)
        moved.__post_init__()
        if moved.frames is not None and self.frames is None:
            raise IKError(f"{self.label}: {self.target_field} has {moved.frames} frames, wanted one")
        return moved

    def altered(self, **changes: Any) -> Self:
        """A copy with other values of fields or `slack`, known to fit: `replace` would check all again."""
        some = object.__new__(type(self))
        own = self.__dataclass_fields__  # `slack` is among them; what was found of them is not
        vars(some).update({name: value for name, value in vars(self).items() if name in own}, **changes)
        return some


SLACK_UNIT: Final = 30.0
"""σ, h by its slack: lengths by metres, angles by reaches [1, rad]. Where it holds an inequality should ask
nothing of a step, but steps are the least that do, and slacks count in them: by 1/σ². Much more would hide
other rows from the tolerances by which step rules tell directions from rounding."""

CONTACT: Final = 1e-7
"""Largest h that counts as 0, lengths in units of the reach [1]: rounding must not lift it."""


class Slacks:
    """Rows h >= 0 with slack variables c >= 0, as equations F = h − σc = 0 [NocedalWright2006 §16.1].

    Slacks are channels with a limit: all that stops channels at their limits and lets them go again serves
    inequalities. Nothing but its limit is asked of a slack, so that above 0 it always has the best, σc = h,
    however far h has come. At the bound c = 0 stays until a step lets it go, and F = h brings back what the
    motion has bent, up or down.
    """

    def __init__(self, pairs: Sequence[tuple[int, int]], angular: bool, mechanism: Mechanism) -> None:
        """Prepare.

        Args:
            pairs: Of each inequality its row and the number of its slack, (k,).
            angular: Whether h are angles [rad] rather than lengths [m].
            mechanism: That has these slacks.
        """
        first, reach = mechanism.size - mechanism.slacks, mechanism.skeleton.reach
        self._rows: IntArray = np.array([row for row, _ in pairs], dtype=np.int64)
        self._columns: IntArray = np.array([first + slack for _, slack in pairs], dtype=np.int64)
        self._unit = SLACK_UNIT / reach if angular else SLACK_UNIT
        self._contact = CONTACT if angular else CONTACT * reach

    def best(self, rows: FloatArray, values: FloatArray) -> FloatArray:
        """Free channels (F, nv) with slacks above 0 at their best, or 0, for h of all rows (F, m)."""
        best, h = np.array(values), rows[:, self._rows]
        above = (h > self._contact) & (values[:, self._columns] > 0.0)
        best[:, self._columns] = np.where(above, h / self._unit, 0.0)
        return best

    def binding(self, rows: FloatArray) -> BoolArray:
        """Which of all rows (F, m) ask for something: all but inequalities that hold with room to spare."""
        binding = np.ones(rows.shape, dtype=np.bool_)
        binding[:, self._rows] = rows[:, self._rows] <= self._contact
        return binding

    def residual(self, rows: FloatArray, values: FloatArray) -> FloatArray:
        """F at free channels (F, nv) for h of all rows (F, m), where other rows are as they are."""
        residual = np.array(rows)
        residual[:, self._rows] -= self._unit * values[:, self._columns]
        return residual

    def jacobian(self, slope: FloatArray) -> FloatArray:
        """The derivative of F for that of h, (F, m, nv)."""
        jacobian = np.array(slope)
        jacobian[:, self._rows, self._columns] -= self._unit
        return jacobian


class Rows(ABC):
    """Stacked tasks of one kind on one mechanism.

    A kind gives F of each row, without weights, with its derivatives; the residual is F by the task's weight.
    """

    _slacks: Slacks | None = None
    """Those of inequalities, where there are any: of these rows a kind gives h."""
    by_frame: ClassVar[tuple[str, ...]] = ("_target", "_weight", "_local")
    """Attributes whose first axis is that of frames, or 1 long when they are the same in all, and those of
    the base classes."""
    _target: FloatArray
    """Where most kinds have their targets, (F or 1, tasks, ...)."""
    _local: FloatArray
    """Where those about points have these, as `anchored` gives them."""
    _at: FloatArray | None = None
    """The matrices of the pose that was evaluated last; slacks change none."""
    _values: FloatArray
    """What the kind gives there."""
    _slopes_at: FloatArray | None = None
    """Those of the pose that was differentiated last."""
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
        self.yields: BoolArray = np.zeros(len(self.angular), dtype=np.bool_)
        """Which rows yield to all tasks, whatever the priority and softness of their own, (m,)."""
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
        return alike(self, **chosen) if chosen else self

    def aimed(self, targets: Sequence[FloatArray]) -> Self:
        """The same rows of one frame with other targets, one for each task, each the `aim` of one."""
        return alike(self, _at=None, _target=np.array(targets)[None])

    @property
    def clears(self) -> bool:
        """Whether there are slacks among its channels."""
        return self._slacks is not None

    def best_slacks(self, posed: PosedMechanism, values: FloatArray) -> FloatArray:
        """Free channels (F, nv) with the slacks at their best."""
        if self._slacks is None:
            return values
        self.residual(posed)
        return self._slacks.best(self._values, values)

    def _give_slacks(self, tasks: Sequence[Task], row: int, mechanism: Mechanism) -> None:
        """Make the row with this number of each task that has a slack an inequality."""
        starts = zip(self._starts.tolist(), tasks, strict=True)
        pairs = [(first + row, task.slack) for first, task in starts if task.slack is not None]
        if pairs:
            self._slacks = Slacks(pairs, bool(self.angular[0]), mechanism)

    # What a kind gives, each once for a pose and in this order: what one keeps, those after it may use.

    @abstractmethod
    def _value(self, posed: PosedMechanism) -> FloatArray:
        """F, (F, m)."""

    @abstractmethod
    def _slope(self, posed: PosedMechanism) -> FloatArray:
        """∂F/∂q, (F, m, nv)."""

    @abstractmethod
    def _hessian(self, posed: PosedMechanism, multipliers: FloatArray) -> Hessian | None:
        """Σ_k μ_k ∂²F_k/∂q∂q for multipliers (F, m), exact; None where it is nothing."""

    # For callers

    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted residual, (F, m)."""
        if self._at is not posed.matrices:
            self._values, self._at, self._slopes_at = self._value(posed), posed.matrices, None
        slacks = self._slacks
        return (
            self._values if slacks is None else slacks.residual(self._values, posed.values)
        ) * self._weight

    def binding(self, posed: PosedMechanism) -> BoolArray:
        """Which rows ask for something: all but inequalities that hold with room to spare, (F, m)."""
        self.residual(posed)
        if self._slacks is None:
            return np.ones(self._values.shape, dtype=np.bool_)
        return self._slacks.binding(self._values)

    def jacobian(self, posed: PosedMechanism) -> FloatArray:
        """The derivative of the residual, (F, m, nv)."""
        if self._at is not posed.matrices:
            self.residual(posed)
        if self._slopes_at is not posed.matrices:
            slope, slacks = self._slope(posed), self._slacks
            self._slopes = slope if slacks is None else slacks.jacobian(slope)
            self._slopes_at = posed.matrices
        return self._slopes * self._weight[..., None]

    def alternate_jacobian(self, posed: PosedMechanism) -> FloatArray:
        """The Jacobian (F, m, nv) with targets in place of points [Buss2009 §2], where there are any."""
        return self.jacobian(posed)

    def hessian(self, posed: PosedMechanism, multipliers: FloatArray) -> Hessian | None:
        """The curvature Σ_k μ_k ∂²r_k/∂q∂q for multipliers (F, m), exact; None where it is nothing."""
        if self._slopes_at is not posed.matrices:
            self.jacobian(posed)
        return self._hessian(posed, multipliers * self._weight)

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Unweighted error of each task, (F, tasks) [m] or [rad]: the length of its F."""
        self.residual(posed)
        lengths = np.sqrt(np.add.reduceat(np.square(self._values), self._starts, axis=1))
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
    frames = next((len(array) for array in with_axis if len(array) != 1), 1)
    return [np.broadcast_to(array, (frames, *array.shape[1:])) for array in with_axis]


def checked_axes(
    label: str, axes: Iterable[bool], count: int = 3, *, may_be_off: bool = False
) -> tuple[bool, ...]:
    """Which axes are on, as truth values; `IKError` where they are none, or none is on that must be."""
    try:
        on = tuple(axes)
    except TypeError:
        on = ()
    known = len(on) == count and all(np.ndim(one) == 0 and one in (False, True) for one in on)
    if not known or not (may_be_off or any(on)):
        which = f"{count} axes are on or off" if may_be_off else f"at least one of {count} axes must be on"
        raise IKError(f"{label}: {which}, each is True or False, got {axes}")
    return tuple(map(bool, on))


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
        object.__setattr__(self, "axes", checked_axes(self.label, self.axes))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Fields of tasks that hold arrays: whatever is like an array goes in, a checked read-only array is kept.

They are descriptors, as dataclasses know them: a task is checked as it is made, in one place for all kinds.
Where a place is wanted a matrix (4, 4) stands for its origin, and where an orientation is wanted for its
rotation. A field that may differ by frame takes a frame axis before these shapes, and NaN in the frames in
which it asks for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt

from ..arrays import BoolArray, FloatArray, fault, frozen, lengths, usable
from ..errors import IKError
from ..model.rotation import matrix_from_quat

if TYPE_CHECKING:
    from .base import Task

ROTATION_TOLERANCE: Final = 1e-4
"""Largest deviation of a target orientation from orthonormal [1]."""

ORIGIN: Final = frozen(np.zeros(3))
PLAIN_AXES: Final = frozen(np.eye(3))
BOTTOM: Final = frozen([0.0, 0.0, 0.0, 1.0])
"""Last row of a matrix (4, 4)."""


class ArrayField:
    """A field with an array of numbers that can be solved."""

    tail: tuple[int | None, ...] = ()
    """Its shape; None stands for any length."""
    takes = ""
    """What else it takes, for messages."""
    by_frame = False
    """Whether it may have a frame axis before that."""
    default: FloatArray | None = None
    """What it is where it is not given; None: it has to be."""

    def __init__(self, *tail: int | None, **given: Any) -> None:
        """Describe the field where it differs: `tail` in positions, `by_frame` and `default` by name."""
        vars(self).update(given, tail=tail or self.tail)

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, task: Task | None, _owner: type) -> FloatArray:
        if task is not None:
            return task.__dict__[self._name]
        if self.default is None:
            raise AttributeError(self._name)  # so that dataclasses know of no default
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
        try:
            array = frozen(given)
        except IKError as error:
            raise IKError(f"{where}: {error}") from None
        array = self._converted(array)
        more = array.ndim - len(self.tail)
        if more not in range(self.by_frame + 1) or any(
            size not in (None, got) for size, got in zip(self.tail, array.shape[more:], strict=True)
        ):
            sizes = ["n" if size is None else str(size) for size in self.tail]
            shapes = [sizes, ["F", *sizes]] if self.by_frame else [sizes]
            wanted = " or ".join(f"({', '.join(each)}{',' * (len(each) == 1)})" for each in shapes)
            raise IKError(f"{where} has shape {np.shape(given)}, wanted {wanted}{self.takes}")
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
        return frozen(array / lengths(array)[..., None])


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
    return np.asarray(np.isnan(by_frame).reshape(len(by_frame), -1).any(axis=1), dtype=np.bool_)

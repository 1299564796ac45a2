# SPDX-License-Identifier: GPL-3.0-or-later
"""Array types of the core, frozen copies that dataclasses hold, lengths and products of stacked arrays."""

from math import inf, isfinite
from typing import Any, Final, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt

from .errors import IKError
from .messages import Message

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Vector3 = tuple[float, float, float]

FEW_NUMBERS: Final = 16
"""Numbers [1] up to which Python is faster with them than numpy (measured)."""

LARGEST: Final = 1e15
"""Largest length [m], angle [rad], scale or weight [1] that is solved: at 1e15 m double precision has steps
of 0.1 m, and the squares and products of numbers that are much larger overflow."""

NUMBERS: Final = "biufO"
"""Kinds of arrays that can hold numbers and truth values: numpy makes these of texts and dates too."""

_Scalar = TypeVar("_Scalar", bound=np.generic)
_Thing = TypeVar("_Thing")


@overload
def frozen(array: npt.ArrayLike) -> FloatArray: ...


@overload
def frozen(array: npt.ArrayLike, dtype: type[_Scalar]) -> npt.NDArray[_Scalar]: ...


def frozen(array: npt.ArrayLike, dtype: type[np.generic] = np.float64) -> npt.NDArray[np.generic]:
    """Return a read-only, C-contiguous copy, so that no one else can change what a frozen dataclass holds.

    An array that is one already, and nobody's view, is returned as it is. Truth values may be numbers that
    are 0 or 1, whole numbers may be floating point.

    Raises:
        IKError: It cannot be an array of such numbers.
    """
    if isinstance(array, np.ndarray) and array.dtype.type is dtype and array.dtype.isnative:
        flags = array.flags
        if flags.owndata and flags.c_contiguous and not flags.writeable:
            return cast("npt.NDArray[np.generic]", array)
    try:
        given = np.asarray(array)
        if array is None or given.dtype.kind not in NUMBERS:  # pyright: ignore[reportUnnecessaryComparison]
            raise TypeError(f"{given.dtype}")
        with np.errstate(invalid="ignore"):
            copy = np.array(given, dtype=dtype, order="C", copy=True)
        if not (dtype is np.float64 or given.dtype.type is dtype or np.all(copy == given)):
            raise ValueError(f"{given.dtype}")
    except (TypeError, ValueError, OverflowError) as error:  # text, rows of different lengths, objects
        wanted = Message("whole numbers") if issubclass(dtype, np.integer) else Message("numbers")
        wanted = Message("truth values") if issubclass(dtype, np.bool_) else wanted
        raise IKError(
            "this is not an array of {wanted}: {value} ({error})",
            wanted=wanted,
            value=f"{array}"[:40],
            error=error,
        ) from None
    copy.setflags(write=False)
    return copy


@overload
def frozen_as(name: str, array: npt.ArrayLike) -> FloatArray: ...


@overload
def frozen_as(name: str, array: npt.ArrayLike, dtype: type[_Scalar]) -> npt.NDArray[_Scalar]: ...


def frozen_as(
    name: str, array: npt.ArrayLike, dtype: type[np.generic] = np.float64
) -> npt.NDArray[np.generic]:
    """An array that is `frozen`, or `IKError` that says whose it is."""
    try:
        return frozen(array, dtype)
    except IKError as error:
        raise IKError(f"{name}: {error.message}") from None


def freeze(owner: object, *names: str, dtype: type[np.generic] = np.float64) -> None:
    """Replace fields of a frozen dataclass that hold arrays by `frozen` ones; None stays."""
    for name in names:
        if (array := getattr(owner, name)) is not None:
            object.__setattr__(owner, name, frozen(array, dtype))


def usable(array: FloatArray) -> bool:
    """Whether all numbers are finite and at most `LARGEST`; of few numpy takes five times as long."""
    if array.size <= FEW_NUMBERS:
        return all(-LARGEST <= number <= LARGEST for number in array.ravel().tolist())
    return bool((np.abs(array) <= LARGEST).all())


def fault(array: FloatArray) -> str:
    """What makes numbers unusable, to be said after the name of what has them."""
    if not np.isfinite(array).all():
        return Message("is not finite")
    return Message(
        "has the number {max:.3g}, at most {largest:.0e} can be solved: make it smaller",
        max=np.abs(array).max(),
        largest=LARGEST,
    )


def check_whole(name: str, value: Any, least: int) -> None:
    """Raise `IKError` unless a value is a whole number, of whatever type, and not below the least."""
    try:
        whole = isfinite(value) and int(value) == value and value >= least
        whole = whole and not isinstance(value, np.ndarray)  # which cannot be hashed, as levels are
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise IKError(
            "{name} must be a whole number from {least}, got {value!r}", name=name, least=least, value=value
        )


def check_number(name: str, value: Any, least: float = -LARGEST, *, above: bool = False) -> None:
    """Raise `IKError` unless a value is a number, of whatever type, from or above the least to `LARGEST`."""
    try:
        fits = least <= value <= LARGEST and not (above and value == least) and not getattr(value, "ndim", 0)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        wanted = Message("finite and not negative")
        if least < 0.0 or above:
            wanted = Message("finite") if least < 0.0 else Message("above 0")
        if isinstance(value, int | float) and LARGEST < abs(value) < inf:
            wanted = Message("at most {largest:.0e}", largest=LARGEST)
        raise IKError("{name} must be {wanted}, got {value!r}", name=name, wanted=wanted, value=value)


def alike(thing: _Thing, **changes: Any) -> _Thing:
    """A copy that shares all but some of its attributes; `copy.copy` takes three times as long."""
    other = object.__new__(type(thing))
    other.__dict__.update(thing.__dict__, **changes)
    return other


def dots(a: FloatArray, b: FloatArray) -> FloatArray:
    """Inner products along the last axis, (..., k) -> (...)."""
    return np.einsum("...k,...k->...", a, b)


def lengths(vectors: FloatArray) -> FloatArray:
    """Euclidean lengths, (..., k) -> (...); faster than numpy's where vectors are few."""
    return np.sqrt(np.einsum("...k,...k->...", vectors, vectors))


def times(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Products of matrices (..., m, n) and vectors (..., n), (..., m)."""
    return (matrices @ vectors[..., None])[..., 0]


def diagonals(matrices: FloatArray) -> FloatArray:
    """View of the diagonals of matrices (..., n, n), (..., n)."""
    return np.einsum("...nn->...n", matrices)

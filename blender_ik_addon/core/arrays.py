# SPDX-License-Identifier: GPL-3.0-or-later
"""Array types of the core, frozen copies that dataclasses hold, lengths and products of stacked arrays."""

from math import isfinite
from typing import Final, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

FEW_NUMBERS: Final = 16
"""Numbers [1] up to which Python is faster with them than numpy (measured)."""

_Scalar = TypeVar("_Scalar", bound=np.generic)
_Thing = TypeVar("_Thing")


@overload
def frozen(array: npt.ArrayLike) -> FloatArray: ...


@overload
def frozen(array: npt.ArrayLike, dtype: type[_Scalar]) -> npt.NDArray[_Scalar]: ...


def frozen(array: npt.ArrayLike, dtype: type[np.generic] = np.float64) -> npt.NDArray[np.generic]:
    """Return a read-only, C-contiguous copy, so that no one else can change what a frozen dataclass holds.

    An array that is one already, and nobody's view, is returned as it is.
    """
    if isinstance(array, np.ndarray) and array.dtype.type is dtype and array.dtype.isnative:
        flags = array.flags
        if flags.owndata and flags.c_contiguous and not flags.writeable:
            return cast("npt.NDArray[np.generic]", array)
    copy = np.array(array, dtype=dtype, order="C", copy=True)
    copy.setflags(write=False)
    return copy


def finite(array: FloatArray) -> bool:
    """Whether all numbers are; of few numpy takes five times as long to say so."""
    if array.size <= FEW_NUMBERS:
        return all(map(isfinite, array.ravel().tolist()))
    return bool(np.isfinite(array).all())


def alike(thing: _Thing) -> _Thing:
    """A copy that shares its attributes until they are replaced; `copy.copy` takes three times as long."""
    other = object.__new__(type(thing))
    other.__dict__.update(thing.__dict__)
    return other


def lengths(vectors: FloatArray) -> FloatArray:
    """Euclidean lengths, (..., k) -> (...); faster than numpy's where vectors are few."""
    return np.sqrt(np.einsum("...k,...k->...", vectors, vectors))


def times(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Products of matrices (..., m, n) and vectors (..., n), (..., m)."""
    return (matrices @ vectors[..., None])[..., 0]

# SPDX-License-Identifier: GPL-3.0-or-later
"""F-curves with Bézier keys, evaluated as Blender evaluates them.

Between two keys (t0, v0) and (t3, v3) with the handles (t1, v1) and (t2, v2) the curve is the cubic Bézier
curve of these four points. Blender shortens a handle that reaches past the other key, along its direction, so
that time never goes back; solves t(s) = time for the one s in [0, 1]; and returns v(s). Before the first key
and after the last one the curve is constant. Handles at thirds of the span make t(s) linear, so that the
curve is a cubic in time with the slopes of its handles at the keys.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, frozen
from ..errors import IKError

BISECTIONS = 60
"""Halvings of [0, 1] in the search for s; double precision has no more."""


@dataclass(frozen=True, eq=False)
class BezierCurve:
    """Keys and handles of one F-curve, all interpolation Bézier, extrapolation constant."""

    keys: FloatArray
    """Time and value of each key, times rising, (K, 2)."""
    left: FloatArray
    """Ends of the handles before the keys, (K, 2)."""
    right: FloatArray
    """Ends of the handles after the keys, (K, 2)."""

    def __post_init__(self) -> None:
        for name in ("keys", "left", "right"):
            array = frozen(getattr(self, name))
            object.__setattr__(self, name, array)
            if array.shape != (len(self.keys), 2) or not len(array):
                raise IKError(
                    "BezierCurve.{name} has shape {shape}: wanted (keys, 2), at least one key",
                    name=name,
                    shape=array.shape,
                )
        if (np.diff(self.keys[:, 0]) <= 0.0).any():
            raise IKError("the times of the keys of a curve must rise")

    @classmethod
    def with_slopes(cls, times: npt.ArrayLike, values: npt.ArrayLike, slopes: npt.ArrayLike) -> "BezierCurve":
        """Return the curve through keys (K,) with slopes (K,) there, handles at thirds of the spans."""
        keys = np.stack([np.asarray(times, dtype=np.float64), np.asarray(values, dtype=np.float64)], axis=1)
        spans = np.diff(keys[:, 0]) if len(keys) > 1 else np.ones(1)
        third = np.stack([np.ones(len(keys)), np.asarray(slopes, dtype=np.float64)], axis=1) / 3.0
        before, after = np.append(spans[0], spans), np.append(spans, spans[-1])
        if len(keys) == 1:
            before = after = np.ones(1)
        return cls(keys, keys - before[:, None] * third, keys + after[:, None] * third)

    @property
    def slopes(self) -> FloatArray:
        """Slope of the handle after each key, (K,); 0 for one without length in time."""
        way = self.right - self.keys
        return np.where(way[:, 0] > 0.0, way[:, 1] / np.where(way[:, 0] > 0.0, way[:, 0], 1.0), 0.0)

    def evaluate(self, times: npt.ArrayLike) -> FloatArray:
        """Return the values at times (T,), as `FCurve.evaluate` does to its single precision."""
        at = np.asarray(times, dtype=np.float64)
        starts = self.keys[:, 0]
        if len(starts) == 1:
            return np.full(at.shape, self.keys[0, 1])
        span = np.clip(np.searchsorted(starts, at, side="right") - 1, 0, len(starts) - 2)
        first, last = self.keys[span], self.keys[span + 1]
        length = last[:, 0] - first[:, 0]
        second = first + _within(self.right[span] - first, length)
        third = last + _within(self.left[span + 1] - last, length)
        low, high = np.zeros((2, len(at)))
        high += 1.0
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            late = _bezier(first[:, 0], second[:, 0], third[:, 0], last[:, 0], middle) > at
            low, high = np.where(late, low, middle), np.where(late, middle, high)
        values = _bezier(first[:, 1], second[:, 1], third[:, 1], last[:, 1], 0.5 * (low + high))
        values = np.where(at <= starts[0], self.keys[0, 1], values)
        return np.where(at >= starts[-1], self.keys[-1, 1], values)


def _within(handle: FloatArray, length: FloatArray) -> FloatArray:
    """Handles (n, 2) from their keys, shortened along their direction to spans of some length (n,)."""
    longer = np.abs(handle[:, 0])
    return handle * np.where(longer > length, length / np.where(longer > 0.0, longer, 1.0), 1.0)[:, None]


def _bezier(a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray, s: FloatArray) -> FloatArray:
    rest = 1.0 - s
    return rest**3 * a + 3.0 * rest**2 * s * b + 3.0 * rest * s**2 * c + s**3 * d

# SPDX-License-Identifier: GPL-3.0-or-later
"""How points and orientations bend as the channels of a tree move: sums of second derivatives.

With the channels numbered from the root outward, ∂²p/∂q_i∂q_j = omega_i × ∂p/∂q_j for i <= j.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray, frozen

LEFT: Final = frozen([1, 2, 0, 2, 0, 1], np.int64)
RIGHT: Final = frozen([2, 0, 1, 1, 2, 0], np.int64)
"""Elements of whose products the first three less the others are a cross product."""


@dataclass(frozen=True)
class PointBend:
    """Σ_e force_e · ∂²point_e/∂q_i∂q_j = Σ_e (force_e × omega_i) · ∂point_e/∂q_j for i <= j."""

    torque: FloatArray
    """force_e × omega_i of the channels that move each point, else 0, (F, E, nv, 3)."""
    jacobian: FloatArray
    """(F, E, 3, nv)."""
    together: BoolArray | None
    """Which pairs of channels act on each other, (E, nv, nv); None for all."""

    def matrix(self) -> FloatArray:
        """All of it, (F, nv, nv)."""
        if self.together is not None:
            product = np.einsum(
                "fevk,fekw,evw->fvw", self.torque, self.jacobian, self.together, optimize=True
            )
        else:
            product = summed_product(self.torque, self.jacobian)
        return _mirrored(product)


@dataclass(frozen=True)
class AngularBend:
    """Σ_e torque_e · ½ omega_i × omega_j for i < j, symmetric."""

    torques: FloatArray
    """(F, E, 3)."""
    omega: FloatArray
    """(F, E, 3, nv)."""

    def matrix(self) -> FloatArray:
        """All of it, (F, nv, nv)."""
        turning = cross(self.torques[:, :, None, :], np.swapaxes(self.omega, -1, -2))  # (F, E, nv, 3)
        product = 0.5 * np.triu(summed_product(turning, self.omega), 1)
        return product + np.swapaxes(product, -1, -2)


def _mirrored(product: FloatArray) -> FloatArray:
    """The symmetric matrices with the upper triangles of (F, nv, nv)."""
    upper = product * _upper(product.shape[-1])
    full = upper + np.swapaxes(upper, -1, -2)
    diagonal = np.einsum("fvv->fv", full)
    diagonal *= 0.5
    return full


@lru_cache(maxsize=8)
def _upper(size: int) -> FloatArray:
    """1 on and above the diagonal, else 0, (size, size)."""
    return frozen(np.triu(np.ones((size, size))))


def summed_product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Σ_e left_e right_e, (F, E, v, 3) and (F, E, 3, w) -> (F, v, w), as one product of matrices."""
    frames, count, rows, inner = left.shape
    flat = np.swapaxes(left, 1, 2).reshape(frames, rows, count * inner)
    return flat @ right.reshape(frames, count * inner, right.shape[-1])


def cross(a: FloatArray, b: FloatArray) -> FloatArray:
    """Cross product along the last axis; `numpy.cross` costs several times as much on small arrays."""
    products = a.take(LEFT, axis=-1) * b.take(RIGHT, axis=-1)
    return products[..., :3] - products[..., 3:]

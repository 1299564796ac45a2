# SPDX-License-Identifier: GPL-3.0-or-later
"""How points and orientations bend as the channels of a tree move: sums of second derivatives.

With the channels numbered from the root outward, ∂²p/∂q_i∂q_j = omega_i × ∂p/∂q_j for i <= j. Under forces
f_e on points p_e it is

    Σ_e f_e · ∂²p_e/∂q_i∂q_j = omega_i · Σ_e ∂p_e/∂q_j × f_e,

for whatever channel j moves, a channel i above it moves as well: the sum over points is the same for all i,
and what is left is one product of matrices however many points there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..arrays import FloatArray, frozen

LEFT: Final = frozen([1, 2, 0, 2, 0, 1], np.int64)
RIGHT: Final = frozen([2, 0, 1, 1, 2, 0], np.int64)
"""Elements of whose products the first three less the others are a cross product."""


@dataclass(frozen=True)
class Bend:
    """A curvature Σ_k μ_k ∂²r_k/∂q∂q = S + Sᵀ, S_ij = w_ij omega_i · moment_j + Σ leftᵀ right."""

    omega: FloatArray
    """Angular velocity by each channel, (F, 3, nv)."""
    together: FloatArray
    """w, 1 where a channel i < j is above j, 1/2 for i = j, else 0, (nv, nv)."""
    moment: FloatArray
    """Σ_e ∂p_e/∂q_j × f_e, (F, 3, nv)."""
    products: tuple[tuple[FloatArray, FloatArray], ...] = ()
    """Left and right factors, (F, k, nv) each."""

    def __add__(self, other: Bend) -> Bend:
        """Of the same mechanism."""
        return Bend(self.omega, self.together, self.moment + other.moment, self.products + other.products)

    def matrix(self) -> FloatArray:
        """All of it, (F, nv, nv)."""
        half = self.omega.swapaxes(1, 2) @ self.moment
        half *= self.together
        if self.products:
            left, right = (np.concatenate(factors, axis=1) for factors in zip(*self.products, strict=True))
            half += left.swapaxes(1, 2) @ right
        return half + half.swapaxes(1, 2)


def summed(bends: Iterable[Bend | None]) -> Bend | None:
    """All of a mechanism's as one; None stands for nothing."""
    total: Bend | None = None
    for bend in bends:
        total = bend if total is None else total if bend is None else total + bend
    return total


def cross(a: FloatArray, b: FloatArray) -> FloatArray:
    """Cross product along the last axis; `numpy.cross` costs several times as much on small arrays."""
    products = a.take(LEFT, axis=-1) * b.take(RIGHT, axis=-1)
    return products[..., :3] - products[..., 3:]

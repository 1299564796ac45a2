# SPDX-License-Identifier: GPL-3.0-or-later
"""Curvature from how points move together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import FloatArray, IntArray
from ..bends import summed_product


@dataclass(frozen=True)
class FormBend:
    """Σ_e P'_eᵀ M_e P'_e, for symmetric M."""

    jacobian: FloatArray
    """P', (F, E, k, nv)."""
    forms: FloatArray
    """M, (F, E, k, k)."""

    def matrix(self) -> FloatArray:
        """All of it, (F, nv, nv)."""
        return summed_product(np.swapaxes(self.jacobian, -1, -2), self.forms @ self.jacobian)

    def times(self, change: FloatArray) -> FloatArray:
        """Its product with changes (F, nv), (F, nv)."""
        moved = (self.jacobian @ change[:, None, :, None])[..., 0]
        pulled = (self.forms @ moved[..., None])[..., 0]
        return np.einsum("fekv,fek->fv", self.jacobian, pulled)

    def select(self, frames: IntArray) -> FormBend:
        """The same for some of the frames."""
        return FormBend(self.jacobian[frames], self.forms[frames])


@dataclass(frozen=True)
class ProductBend:
    """Σ_e LᵀR + RᵀL."""

    left: FloatArray
    """L, (F, E, k, nv)."""
    right: FloatArray
    """R, (F, E, k, nv)."""

    def matrix(self) -> FloatArray:
        """All of it, (F, nv, nv)."""
        half = summed_product(np.swapaxes(self.left, -1, -2), self.right)
        return half + np.swapaxes(half, -1, -2)

    def times(self, change: FloatArray) -> FloatArray:
        """Its product with changes (F, nv), (F, nv)."""
        along = change[:, None, :, None]
        first, second = (self.left @ along)[..., 0], (self.right @ along)[..., 0]
        return np.einsum("fekv,fek->fv", self.left, second) + np.einsum("fekv,fek->fv", self.right, first)

    def select(self, frames: IntArray) -> ProductBend:
        """The same for some of the frames."""
        return ProductBend(self.left[frames], self.right[frames])

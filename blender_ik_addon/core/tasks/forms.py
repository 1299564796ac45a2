# SPDX-License-Identifier: GPL-3.0-or-later
"""Curvature from how points move together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import FloatArray
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

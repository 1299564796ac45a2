# SPDX-License-Identifier: GPL-3.0-or-later
"""Curvature from how points move together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import FloatArray, IntArray
from ..mechanism import summed_product


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

# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures of a pose and of a step rule: singular values, damping error, repeatability, drift.

**Singular values** s₁ ≥ … ≥ s_m of J say how fast the effectors follow the channels in their best and worst
direction. Damped least squares (JᵀJ + c²I) dq = Jᵀe has the condition number (s₁² + c²)/c² [KiSheen, Lemma
7.1] and leaves of e a part between c²/(s₁² + c²) and c²/(s_m² + c²) [KiSheen, Lemma 7.2]. Manipulability is
√det JJᵀ = s₁ … s_m [Yoshikawa1985].

**Repeatability.** A control dq = P(q) dx, P (n, m), comes back to the same q on every closed path of x if and
only if each Lie bracket [P_i, P_j] = (∂P_j/∂q) P_i − (∂P_i/∂q) P_j of its columns lies in the span of the
columns [ChungChoi1994, Lie-bracket condition]. P(q) is differentiated by central differences of the fourth
order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, frozen
from ..errors import IKError
from ..methods import row_space
from ..model.skeleton import Pose

DIFFERENCE_STEP: Final = 1e-3
"""[rad] Central differences of the fourth order: truncation about its fourth power, rounding about 1e-16 by
it, both near 1e-12."""

RANK: Final = 1e-6
"""Singular value against the largest [1], from which it is none of rounding."""


# ----------------------------------------------------------------------------------------------------------
# Singular values


def singular_values(jacobian: npt.ArrayLike) -> FloatArray:
    """Singular values of Jacobians (..., m, n), the largest first, (..., min(m, n)).

    Raises:
        IKError: It is no matrix, or not finite.
    """
    matrix = _matrix("jacobian", jacobian)
    return np.asarray(np.linalg.svd(matrix, compute_uv=False), dtype=np.float64)


def damped_condition_number(singular: npt.ArrayLike, damping: float) -> FloatArray:
    """(s₁² + c²)/c² of the damped normal equations [KiSheen, Lemma 7.1], (...).

    It holds where there are more channels than rows, or fewer directions than channels: c² is then the
    smallest eigenvalue.

    Args:
        singular: Singular values of J, (..., m).
        damping: c, above 0, in their unit.
    """
    largest = _values(singular, damping).max(axis=-1)
    return (largest**2 + damping**2) / damping**2


def residual_bounds(singular: npt.ArrayLike, damping: float) -> tuple[FloatArray, FloatArray]:
    """Least and largest part of e that a damped step leaves [KiSheen, Lemma 7.2], (...) each.

    Args:
        singular: All singular values of J, (..., m) for m rows.
        damping: c, above 0, in their unit.
    """
    values = _values(singular, damping)
    square = damping**2
    return square / (values.max(axis=-1) ** 2 + square), square / (values.min(axis=-1) ** 2 + square)


def manipulability(jacobian: npt.ArrayLike) -> FloatArray:
    """√det JJᵀ of Jacobians (..., m, n), the product of their singular values, (...) [Yoshikawa1985].

    0 where there are more rows than channels.
    """
    matrix = _matrix("jacobian", jacobian)
    rows, channels = matrix.shape[-2:]
    if rows > channels:
        return np.zeros(matrix.shape[:-2])
    return singular_values(matrix).prod(axis=-1)


def _matrix(name: str, given: npt.ArrayLike) -> FloatArray:
    matrix = np.asarray(given, dtype=np.float64)
    if matrix.ndim < 2 or not np.isfinite(matrix).all():
        raise IKError(f"{name} must be finite and of shape (..., rows, channels), got {matrix.shape}")
    return matrix


def _values(singular: npt.ArrayLike, damping: float) -> FloatArray:
    values = np.asarray(singular, dtype=np.float64)
    if values.ndim < 1 or values.shape[-1] == 0:
        raise IKError(f"singular values have shape {values.shape}, wanted (..., m) with m from 1")
    if not (np.isfinite(damping) and damping > 0.0):
        raise IKError(f"damping must be above 0 and finite, got {damping}")
    return values


# ----------------------------------------------------------------------------------------------------------
# Repeatability


def control_derivative(control: Callable[[FloatArray], FloatArray], values: npt.ArrayLike) -> FloatArray:
    """∂P/∂q of any control q (n,) -> P (n, m) by central differences of the fourth order, (n, m, n)."""
    here = np.asarray(values, dtype=np.float64)
    columns: list[FloatArray] = []
    for step in DIFFERENCE_STEP * np.eye(len(here)):
        near, far = (control(here + k * step) - control(here - k * step) for k in (1, 2))
        columns.append((8.0 * near - far) / (12.0 * DIFFERENCE_STEP))
    return np.stack(columns, axis=-1)


@dataclass(frozen=True)
class LieBrackets:
    """The Lie brackets of the columns of a control, and how far they are from its span."""

    brackets: FloatArray
    """[P_i, P_j] for i < j, (B, n)."""
    outside: FloatArray
    """Part of the brackets outside the span of P's columns, (B, n)."""
    determinants: FloatArray | None
    """det [P | [P_i, P_j]], the number of [ChungChoi1994], (B,), where there are just m + 1 channels."""

    @property
    def residual(self) -> float:
        """Length of the largest part that is not in the span; the control is repeatable where it is 0."""
        return float(np.sqrt(np.einsum("bn,bn->b", self.outside, self.outside)).max(initial=0.0))


def lie_brackets(control: npt.ArrayLike, derivative: npt.ArrayLike) -> LieBrackets:
    """Ask the Lie-bracket condition of a control at one pose.

    Args:
        control: P, (n, m).
        derivative: ∂P/∂q, (n, m, n), from `control_derivative`.

    Raises:
        IKError: Shapes do not fit.
    """
    matrix, slope = _matrix("control", control), np.asarray(derivative, dtype=np.float64)
    if matrix.ndim != 2 or slope.shape != (*matrix.shape, matrix.shape[0]):
        raise IKError(f"control {matrix.shape} and derivative {slope.shape}: wanted (n, m) and (n, m, n)")
    channels, columns = matrix.shape
    first, second = np.triu_indices(columns, 1)
    along = np.einsum("nmk,kj->njm", slope, matrix)  # (∂P_m/∂q) P_j
    brackets = (along[:, first, second] - along[:, second, first]).T  # (B, n)
    basis = row_space(matrix.T, RANK)
    outside = brackets - brackets @ basis.T @ basis
    determinants = None
    if channels == columns + 1:
        repeated = np.broadcast_to(matrix, (len(first), *matrix.shape))
        square = np.concatenate([repeated, brackets[..., None]], axis=2)
        determinants = frozen(np.linalg.det(square))
    return LieBrackets(frozen(brackets), frozen(outside), determinants)


def drift(sequence: Pose | npt.ArrayLike, period: int) -> FloatArray:
    """Change of the channels since the start after each cycle of a periodic motion, (cycles, ...).

    Args:
        sequence: A pose for each frame, or channels (F, ...), the first frame that of the start.
        period: Frames of a cycle: the frame `period` has the targets of the first.

    Raises:
        IKError: There is not one whole cycle.
    """
    channels = sequence.channels if isinstance(sequence, Pose) else np.asarray(sequence, dtype=np.float64)
    if int(period) != period or period < 1:
        raise IKError(f"the period must be a whole number of frames from 1, got {period}")
    if channels.ndim < 1 or len(channels) <= period:
        raise IKError(f"a cycle of {period} frames needs {period + 1} poses, there are {len(channels)}")
    return channels[period::period] - channels[0]

# SPDX-License-Identifier: GPL-3.0-or-later
"""Formulas of the papers that the add-on itself has no use for, on arrays alone.

**Several effectors** [KiSheen]: the forms for two (eq. 5.1) and three (Theorem 6.8) and the recursion for any
number (Definitions 6.14 and 6.15), with F_1 = I − J_1⁺J_1 and

    F_{i+1} = F_i {I − (J_{i+1} F_i)⁺ J_{i+1} F_i},
    J̃_{i+1} = [{I − F_i (J_{i+1} F_i)⁺ J_{i+1}} J̃_i,  F_i (J_{i+1} F_i)⁺],

so that dq = J̃_M (e_1 … e_M) + F_M z for any z. As long as the rows of all together are independent each of
these is the pseudo-inverse of the stack (Theorem 6.19). Where they conflict the recursion is prioritised: an
effector is met as well as those before it allow, and changes no J_i dq of theirs. Theorem 6.8 puts the second
and third on a par, so that conflicts between these two have no winner.

**Baillieul's extended Jacobian** [SochLorencz2005 eq. 6] keeps ∇g·n = 0 for the n that span the null space:
rows ∂(n·∇g)/∂q = nᵀ(H − Σ_l μ_l ∂²x_l), with H = ∂²g and Lagrange's μ = J⁺ᵀ∇g (from dn = −J⁺ dJ n). For
g = ½(θ−θ₀)ᵀK(θ−θ₀) these are the rows ZᵀA: with the springs' energy it is the springs' method.

**Damped least squares** (JᵀJ + c²I) dq = Jᵀe has the condition number (s₁² + c²)/c² [KiSheen, Lemma 7.1] and
leaves of e a part between c²/(s₁² + c²) and c²/(s_m² + c²) [KiSheen, Lemma 7.2], with singular values s of J.

**Repeatability.** A control dq = P(q) dx, P (n, m), comes back to the same q on every closed path of x if and
only if each Lie bracket [P_i, P_j] = (∂P_j/∂q) P_i − (∂P_i/∂q) P_j of its columns lies in the span of the
columns [ChungChoi1994, Lie-bracket condition]. P(q) is differentiated by central differences of the fourth
order.

Errors e are target − current. All functions but those on repeatability take any leading axes. The references
are in `blender_ik_addon.core`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from blender_ik_addon.core import IKError, Pose
from blender_ik_addon.core.arrays import FloatArray, frozen, times
from blender_ik_addon.core.methods.step_rules import (
    RANK_TOLERANCE,
    null_basis,
    null_space_projection,
    pseudo_inverse,
    row_space,
)

DIFFERENCE_STEP: Final = 1e-3
"""[rad] Central differences of the fourth order: truncation about its fourth power, rounding about 1e-16 by
it, both near 1e-12."""

RANK: Final = 1e-6
"""Singular value against the largest [1], from which it is none of rounding."""


def weighted_inverse(jacobian: FloatArray, stiffness: FloatArray) -> FloatArray:
    """Whitney's K⁻¹Jᵀ(JK⁻¹Jᵀ)⁻¹, (..., nv, m); with equal stiffness Moore-Penrose [ChungChoi1994].

    Written as S⁻¹(JS⁻¹)⁺ with K = S², which is the same where the rows are independent and exists where not.

    Args:
        stiffness: Diagonal k of K, (..., nv), above 0.
    """
    stiffness = np.asarray(stiffness, dtype=np.float64)
    if not (np.isfinite(stiffness) & (stiffness > 0.0)).all():
        raise IKError(f"stiffness must be above 0 and finite in every channel, got {stiffness}")
    if stiffness.shape[-1:] != jacobian.shape[-1:]:
        raise IKError(
            f"stiffness has shape {stiffness.shape}, the Jacobian {jacobian.shape}; wanted one per column"
        )
    root = np.sqrt(stiffness)
    return pseudo_inverse(jacobian / root[..., None, :]) / root[..., None]


def two_effector_inverse(j1: FloatArray, j2: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The form for two effectors as printed [KiSheen, eq. 5.1].

    dq = J₁⁺e₁ + [J₂(I−J₁⁺J₁)]⁺(e₂ − J₂J₁⁺e₁) + N₁₂ z, the first effector before the second.

    Returns:
        The matrix that multiplies (e₁, e₂), (..., nv, m1 + m2), and N₁₂, (..., nv, nv).
    """
    first = pseudo_inverse(j1)
    free = null_space_projection(j1, first)
    left = _without_rounding(j2 @ free, j2)
    second = pseudo_inverse(left)
    inverse = np.concatenate([first - second @ j2 @ first, second], axis=-1)
    return inverse, free @ (np.eye(j1.shape[-1]) - second @ left)


def three_effector_inverse(j1: FloatArray, j2: FloatArray, j3: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The form for three effectors as printed [KiSheen, Theorem 6.8].

    dq = J₁⁺e₁ + Z₂(e₂ − J₂J₁⁺e₁) + Z₃(e₃ − J₃J₁⁺e₁) + N z, where
    Z₂ = [J₂{I − [J₃(I−J₁⁺J₁)]⁺J₃ − [J₁(I−J₃⁺J₃)]⁺J₁}]⁺ and Z₃ alike with 2 and 3 swapped, and with eq. 5.1's
    N₂₃ = (I−J₃⁺J₃)[I − {J₂(I−J₃⁺J₃)}⁺J₂(I−J₃⁺J₃)], N = N₂₃{I − (J₁N₂₃)⁺J₁N₂₃}. It holds where the rows of all
    three are independent; else use `prioritized_inverse`.

    Returns:
        The matrix that multiplies (e₁, e₂, e₃), (..., nv, m1 + m2 + m3), and N, (..., nv, nv).
    """
    identity = np.eye(j1.shape[-1])
    first = pseudo_inverse(j1)
    free = null_space_projection(j1, first)

    def beside(one: FloatArray, other: FloatArray) -> FloatArray:
        """Z of one of the last two effectors."""
        after_first = pseudo_inverse(_without_rounding(other @ free, other))
        after_other = pseudo_inverse(_without_rounding(j1 @ null_space_projection(other), j1))
        left = one @ (identity - after_first @ other - after_other @ j1)
        return pseudo_inverse(_without_rounding(left, one))

    second, third = beside(j2, j3), beside(j3, j2)
    inverse = np.concatenate([first - second @ j2 @ first - third @ j3 @ first, second, third], axis=-1)
    _, without_last = two_effector_inverse(j3, j2)  # N₂₃
    left = _without_rounding(j1 @ without_last, j1)
    return inverse, without_last @ (identity - pseudo_inverse(left) @ left)


def prioritized_inverse(jacobians: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """The recursion as printed [KiSheen, Definitions 6.14 and 6.15].

    Args:
        jacobians: One (..., m_k, nv) for each effector, most important first.

    Returns:
        J̃_M (..., nv, Σ m_k) and F_M (..., nv, nv), so that dq = J̃_M (e_1 … e_M) + F_M z.
    """
    first = jacobians[0]
    inverse = pseudo_inverse(first)
    identity = np.eye(first.shape[-1])
    projection = identity - inverse @ first
    for jacobian in jacobians[1:]:
        left = _without_rounding(jacobian @ projection, jacobian)
        into = projection @ pseudo_inverse(left)  # F_i (J_{i+1} F_i)⁺
        inverse = np.concatenate([(identity - into @ jacobian) @ inverse, into], axis=-1)
        projection = projection @ (identity - into @ jacobian @ projection)
    return inverse, projection


def _without_rounding(left: FloatArray, whole: FloatArray) -> FloatArray:
    """A projected Jacobian, 0 where the projection leaves only rounding.

    A pseudo-inverse measures against what it is given, and would answer rounding with enormous changes.
    """
    size = np.linalg.norm(whole, ord=2, axis=(-2, -1), keepdims=True)
    remaining = np.linalg.norm(left, ord=2, axis=(-2, -1), keepdims=True)
    return np.where(remaining > RANK_TOLERANCE * size, left, 0.0)


def spring_forces(jacobian: FloatArray, stiffness: FloatArray, deviation: FloatArray) -> FloatArray:
    """Forces f = (JK⁻¹Jᵀ)⁻¹J(θ − θ₀) at the effectors that bear the springs, (..., m) [ChungChoi1994].

    Args:
        deviation: θ − θ₀, (..., nv).
    """
    return times(np.swapaxes(weighted_inverse(jacobian, stiffness), -1, -2), stiffness * deviation)


def baillieul_step(
    jacobian: FloatArray,
    error: FloatArray,
    gradient: FloatArray,
    hessian: FloatArray,
    *,
    settling: float = 1.0,
) -> FloatArray:
    """Baillieul's extended Jacobian: rows that keep ∇g out of the null space [SochLorencz2005 eq. 6].

    Args:
        gradient: ∇g, (..., nv).
        hessian: H − Σ_l μ_l ∂²x_l with H = ∂²g and μ = J⁺ᵀ∇g, (..., nv, nv), see the module.
        settling: Part [1] of n·∇g that the step is to remove; 0 as printed.
    """
    basis, free = null_basis(jacobian)
    rows = np.swapaxes(basis, -1, -2) @ hessian  # (..., nv, nv); 0 where there is no null direction
    wanted = -settling * times(np.swapaxes(basis, -1, -2), gradient)
    extended = np.concatenate([jacobian, rows], axis=-2)
    return times(pseudo_inverse(extended), np.concatenate([error, np.where(free, wanted, 0.0)], axis=-1))


def planar_elements(lengths: FloatArray, angles: FloatArray) -> FloatArray:
    """Rows of the basic elements of a planar chain as printed [SochLorencz2005 eq. 9].

    Element i is the segments i and i + 1; the place of its end is
    (l_i cos q_i + l_{i+1} cos(q_i + q_{i+1}), l_i sin q_i + l_{i+1} sin(q_i + q_{i+1})).

    Args:
        lengths: (n,).
        angles: Of each segment to the one before, (..., n) [rad].

    Returns:
        Their derivatives, (..., 2(n−1), n): first x of every element, then y.
    """
    lengths, angles = np.asarray(lengths, dtype=np.float64), np.asarray(angles, dtype=np.float64)
    n = int(angles.shape[-1])
    if lengths.shape != (n,):
        raise IKError(f"lengths have shape {lengths.shape}, the chain has {n} angles")
    first, both = angles[..., :-1], angles[..., :-1] + angles[..., 1:]
    second_x, second_y = -lengths[1:] * np.sin(both), lengths[1:] * np.cos(both)
    rows = np.zeros((*angles.shape[:-1], 2, n - 1, n))
    i = np.arange(n - 1)
    rows[..., 0, i, i] = -lengths[:-1] * np.sin(first) + second_x
    rows[..., 0, i, i + 1] = second_x
    rows[..., 1, i, i] = lengths[:-1] * np.cos(first) + second_y
    rows[..., 1, i, i + 1] = second_y
    return rows.reshape(*angles.shape[:-1], 2 * (n - 1), n)


def singular_values(jacobian: npt.ArrayLike) -> FloatArray:
    """Singular values of Jacobians (..., m, n), the largest first, (..., min(m, n))."""
    matrix = np.asarray(jacobian, dtype=np.float64)
    return np.asarray(np.linalg.svd(matrix, compute_uv=False), dtype=np.float64)


def damped_condition_number(singular: npt.ArrayLike, damping: float) -> FloatArray:
    """(s₁² + c²)/c² of the damped normal equations [KiSheen, Lemma 7.1], (...).

    It holds where there are more channels than rows, or fewer directions than channels: c² is then the
    smallest eigenvalue.

    Args:
        singular: Singular values of J, (..., m).
        damping: c, above 0, in their unit.
    """
    largest = np.asarray(singular, dtype=np.float64).max(axis=-1)
    return (largest**2 + damping**2) / damping**2


def residual_bounds(singular: npt.ArrayLike, damping: float) -> tuple[FloatArray, FloatArray]:
    """Least and largest part of e that a damped step leaves [KiSheen, Lemma 7.2], (...) each.

    Args:
        singular: All singular values of J, (..., m) for m rows.
        damping: c, above 0, in their unit.
    """
    values = np.asarray(singular, dtype=np.float64)
    square = damping**2
    return square / (values.max(axis=-1) ** 2 + square), square / (values.min(axis=-1) ** 2 + square)


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
    matrix, slope = (np.asarray(each, dtype=np.float64) for each in (control, derivative))
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

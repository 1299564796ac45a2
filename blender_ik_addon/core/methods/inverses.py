# SPDX-License-Identifier: GPL-3.0-or-later
"""Generalised inverses: matrices P that answer J dq = e with dq = P e, and what they leave free.

**Pseudo-inverse** [Ringlayer]: J⁺ = V Σ⁺ Uᵀ, the shortest of the changes that come nearest. **Damped**
[Buss2009 §5], [KiSheen §7]: Jᵀ(JJᵀ + λ²I)⁻¹. **Weighted** [ChungChoi1994, after Whitney]: K⁻¹Jᵀ(JK⁻¹Jᵀ)⁻¹,
the shortest change when channel i costs k_i. **Several effectors** [KiSheen]: the forms for two (eq. 5.1) and
three (Theorem 6.8) and the recursion for any number (Definitions 6.14 and 6.15), with F_1 = I − J_1⁺J_1 and

    F_{i+1} = F_i {I − (J_{i+1} F_i)⁺ J_{i+1} F_i},
    J̃_{i+1} = [{I − F_i (J_{i+1} F_i)⁺ J_{i+1}} J̃_i,  F_i (J_{i+1} F_i)⁺],

so that dq = J̃_M (e_1 … e_M) + F_M z for any z [KiSheen, eq. 4.1 for one effector]. As long as the rows of all
together are independent each of these is the pseudo-inverse of the stack (Theorem 6.19). Where they conflict
the recursion is prioritised: an effector is met as well as those before it allow, and changes no J_i dq of
theirs. Theorem 6.8 puts the second and third on a par, so that conflicts between these two have no winner.

Errors e are target − current. All functions take any leading axes: a Jacobian is (..., m, nv).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ..arrays import FloatArray
from ..errors import IKError

RANK_TOLERANCE: Final = 1e-10
"""Singular values below this part of the largest count as zero in a pseudo-inverse [1]."""

ROUNDING: Final = 1e-14
"""Entry of a matrix, as a part of its largest [1], that is none."""


def pseudo_inverse(matrix: FloatArray, tolerance: float = RANK_TOLERANCE) -> FloatArray:
    """Moore-Penrose inverse by singular value decomposition, (..., m, n) -> (..., n, m) [Ringlayer]."""
    return damped_inverse(matrix, 0.0, tolerance)


def damped_inverse(
    jacobian: FloatArray, damping: FloatArray | float, tolerance: float = RANK_TOLERANCE
) -> FloatArray:
    """Jᵀ(JJᵀ + λ²I)⁻¹ [Buss2009 eq. 11], (..., nv, m).

    Written as V diag(s / (s² + λ²)) Uᵀ with J = U diag(s) Vᵀ: of rows that are the same, as those of two
    effectors on one bone, JJᵀ has no inverse, and a small λ² is lost in it.

    Args:
        damping: λ, one number or one for each matrix (...); with 0 it is the Moore-Penrose inverse.
        tolerance: Singular values at most this part of the largest count as zero.
    """
    u, s, vt = np.linalg.svd(jacobian, full_matrices=False)
    kept = s > tolerance * s.max(axis=-1, keepdims=True, initial=0.0)
    square = s**2 + np.asarray(damping)[..., None] ** 2
    inverse = np.where(kept, s / np.where(kept, square, 1.0), 0.0)
    return np.swapaxes(vt, -1, -2) @ (inverse[..., None] * np.swapaxes(u, -1, -2))


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


def null_space_projection(jacobian: FloatArray, inverse: FloatArray | None = None) -> FloatArray:
    """I − J⁺J, which leaves of a change what moves no effector to first order, (..., nv, nv).

    Args:
        inverse: Its pseudo-inverse where it is known already.
    """
    inverse = pseudo_inverse(jacobian) if inverse is None else inverse
    return np.eye(jacobian.shape[-1]) - inverse @ jacobian


def row_space(rows: FloatArray, tolerance: float) -> FloatArray:
    """Orthonormal rows (r, n) with the same span as others (m, n), by the size of singular values [1]."""
    if not rows.size:
        return np.zeros((0, rows.shape[1]))
    try:
        _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    except np.linalg.LinAlgError:
        # LAPACK may give up on matrices of low rank with entries far below rounding, which count for nothing.
        rows = np.where(np.abs(rows) < ROUNDING * np.abs(rows).max(), 0.0, rows)
        _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(directions[sizes > tolerance * max(float(sizes[0]), tolerance)], dtype=np.float64)


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

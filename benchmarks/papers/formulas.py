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

Errors e are target − current; all functions take any leading axes. The references are in
`blender_ik_addon.core`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.methods.step_rules import RANK_TOLERANCE, null_space_projection, pseudo_inverse


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
    n = angles.shape[-1]
    first, both = angles[..., :-1], angles[..., :-1] + angles[..., 1:]
    second_x, second_y = -lengths[1:] * np.sin(both), lengths[1:] * np.cos(both)
    rows = np.zeros((*angles.shape[:-1], 2, n - 1, n))
    i = np.arange(n - 1)
    rows[..., 0, i, i] = -lengths[:-1] * np.sin(first) + second_x
    rows[..., 0, i, i + 1] = second_x
    rows[..., 1, i, i] = lengths[:-1] * np.cos(first) + second_y
    rows[..., 1, i, i + 1] = second_y
    return rows.reshape(*angles.shape[:-1], 2 * (n - 1), n)

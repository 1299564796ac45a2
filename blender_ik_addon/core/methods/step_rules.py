# SPDX-License-Identifier: GPL-3.0-or-later
"""Step rules of the papers: changes dq of the channels that solve J dq = e, and the inverses they use.

One function for each, arrays in, dq (..., nv) out, with any leading axes: `jacobian` is J, (..., m, nv), and
`error` e = target − current, (..., m), as in the papers; a residual of a task has the other sign. Stiffness
is the diagonal of K, (..., nv), above 0. Dampings are one number, or one for each of the leading axes. None
knows limits or how far its linear model may be trusted: that is for the loop round it (`loop`). The bounded
one knows limits, and solves one problem at a time.

**Inverses**: the pseudo-inverse [Ringlayer] J⁺ = V Σ⁺ Uᵀ, the shortest of the changes that come nearest, and
the damped one [Buss2009 §5], [KiSheen §7] Jᵀ(JJᵀ + λ²I)⁻¹.

**Springs** [ChungChoi1994]. At rest the springs' torques K(θ − θ₀) are borne by forces f at the effectors,
K(θ − θ₀) = Jᵀf. Differentiated that is A dθ = Jᵀ df with A = K − G and G_ij = Σ_l f_l ∂²x_l/∂θ_i∂θ_j, whence

    dθ = A⁻¹Jᵀ(JA⁻¹Jᵀ)⁻¹ dx.

It is solved here in another form that is the same wherever this one exists: with Z a basis of J's null space
and B = ZᵀAZ,

    dθ = [J⁺ − Z B⁻¹ ZᵀA J⁺] dx,

so that A itself may be singular or indefinite, which it is in ordinary poses. B is the energy's Hessian among
the poses that leave the effectors where they are: where it is not positive the springs are at no minimum, and
what is not is regularised.

**Basic elements** [SochLorencz2005] are pairs of neighbouring segments, in the plane and in space. In the
plane a pair is described by the place (x, y) of its end in the frame in which its first angle is measured:
two numbers determine the two angles. The paper leaves space to future work. There a pair of joints that turn
freely has six angles, so the end of a pair is described here by a rigid frame: its place, and its orientation
times the length of the second segment, (6,) for each pair. That alone has a direction left where a limb is
stretched: neighbours that twist about their common axis in turn, one this way, one that way. So the first
segment of each chain is an element by itself. With it the rows have as many independent ones as there are
channels in every pose outside gimbal lock: the first segment tells its own channels, and each further one
those of the next, since it has a length. In the plane, where the paper does without, its rank is not full in
every pose either.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Final

import numpy as np

from ..arrays import BoolArray, FloatArray, dots, lengths, times
from ..errors import IKError
from ..model.mechanism import PosedMechanism

RANK_TOLERANCE: Final = 1e-10
"""Singular values below this part of the largest count as zero in a pseudo-inverse [1]."""

ROUNDING: Final = 1e-14
"""Entry of a matrix, as a part of its largest [1], that is none."""

GAMMA_MAX: Final = pi / 4.0
"""γmax [rad], the largest change of an angle in a selectively damped step [BussKim2005]."""

SPRING_FLOOR: Final = 0.05
"""Least eigenvalue of B as a part of the smallest stiffness [1]: a spring that counts less than this lets its
joint run through the whole turn for a millimetre of the effector."""

ROUNDS: Final = 6
"""Rounds of the active set for each channel, after which the best point so far is taken [1]."""

STANDSTILL: Final = 1e-100
"""Change [rad] that is none; what is left of the way to a bound is not divided by it."""

TINY: Final = 1e-300
"""Keeps 0 / 0 from being asked for."""


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


def transpose_step(jacobian: FloatArray, error: FloatArray) -> FloatArray:
    """α Jᵀe with α = ⟨e, JJᵀe⟩ / ⟨JJᵀe, JJᵀe⟩, by which J dq comes nearest to e [Buss2009 §3]."""
    downhill = times(np.swapaxes(jacobian, -1, -2), error)
    moved = times(jacobian, downhill)  # JJᵀe
    size = dots(moved, moved)
    share = np.where(size > TINY, dots(error, moved) / np.where(size > TINY, size, 1.0), 0.0)
    return share[..., None] * downhill


def pseudo_inverse_step(
    jacobian: FloatArray, error: FloatArray, null_space: FloatArray | None = None
) -> FloatArray:
    """J⁺e + (I − J⁺J) z [KiSheen eq. 4.1], [Buss2009 §4].

    With z = −α∇g it is Liégeois' form, which makes g small [SochLorencz2005 eq. 5].

    Args:
        null_space: z, a motion that the null space is to take, (..., nv).
    """
    inverse = pseudo_inverse(jacobian)
    change = times(inverse, error)
    if null_space is None:
        return change
    return change + times(null_space_projection(jacobian, inverse), null_space)


def damped_step(jacobian: FloatArray, error: FloatArray, damping: FloatArray | float) -> FloatArray:
    """Jᵀ(JJᵀ + λ²I)⁻¹e [Buss2009 eq. 11] with λ the damping.

    With e shortened by `clamped_magnitude` it is the DLS′ of that paper.
    """
    return times(damped_inverse(jacobian, damping), error)


def selectively_damped_step(
    jacobian: FloatArray,
    error: FloatArray,
    effector_rows: Sequence[int],
    *,
    gamma_max: FloatArray | float = GAMMA_MAX,
) -> FloatArray:
    """Each singular direction damped by how far it would move the effectors [BussKim2005].

    With J = UΣVᵀ, α_i = u_iᵀe, N_i = Σ_l |u_{l,i}|, M_i = Σ_l σ_i⁻¹ Σ_j |v_{j,i}| ρ_{l,j}:
    γ_i = min(1, N_i/M_i) γmax, φ_i = ClampMaxAbs(σ_i⁻¹ α_i v_i, γ_i), dq = ClampMaxAbs(Σ φ_i, γmax).
    ρ_{l,j} = |∂s_l/∂θ_j| is that of J, which with the alternate Jacobian is not quite the same.

    Args:
        effector_rows: Number of rows of each effector position in turn; they make m together.
        gamma_max: γmax [rad], one number or one for each of the leading axes.
    """
    if sum(effector_rows) != error.shape[-1]:
        raise IKError(
            f"the effectors have {sum(effector_rows)} rows together {tuple(effector_rows)}, but the "
            f"error has {error.shape[-1]}"
        )
    if not np.all(np.asarray(gamma_max) > 0.0):
        raise IKError(f"gamma_max must be above 0, got {gamma_max}")
    starts = np.cumsum([0, *effector_rows])[:-1]
    u, s, vt = np.linalg.svd(jacobian, full_matrices=False)
    kept = s > RANK_TOLERANCE * s.max(axis=-1, keepdims=True, initial=0.0)  # (..., k)
    inverse = np.where(kept, 1.0 / np.where(kept, s, 1.0), 0.0)
    rho = np.sqrt(np.add.reduceat(jacobian**2, starts, axis=-2))
    alpha = times(np.swapaxes(u, -1, -2), error)  # (..., k)
    n = np.sqrt(np.add.reduceat(u**2, starts, axis=-2)).sum(axis=-2)  # Σ_l |u_{l,i}|, (..., k)
    m = inverse * times(np.abs(vt), rho.sum(axis=-2))
    gamma = np.minimum(1.0, n / np.where(m > 0.0, m, 1.0)) * np.asarray(gamma_max)[..., None]
    phi = clamped_largest((inverse * alpha)[..., None] * vt, gamma)  # (..., k, nv)
    return clamped_largest(phi.sum(axis=-2), gamma_max)


def spring_inverse(
    jacobian: FloatArray,
    stiffness: FloatArray,
    bend: FloatArray | None = None,
    *,
    damping: FloatArray | float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """A⁻¹Jᵀ(JA⁻¹Jᵀ)⁻¹ with A = K − G [ChungChoi1994], see the module; with eigenvalues of B regularised.

    Without G it is Whitney's weighted inverse, and Moore-Penrose when K is the identity as well.

    Args:
        bend: G, (..., nv, nv); none where the forces are nought.
        damping: λ of J⁺, for singular poses; 0: none.

    Returns:
        P with dq = P e, (..., nv, m); and −Z B⁻¹ Zᵀ, compliance of the null space to torques, (..., nv, nv).
    """
    nv = jacobian.shape[-1]
    stiffness = np.broadcast_to(stiffness, (*jacobian.shape[:-2], nv))
    a = stiffness[..., None] * np.eye(nv)
    if bend is not None:
        a = a - 0.5 * (bend + np.swapaxes(bend, -1, -2))
    across = damped_inverse(jacobian, damping)
    basis, free = null_basis(jacobian)
    # B among the null space's directions, the others kept out of it by ones on the diagonal.
    b = np.swapaxes(basis, -1, -2) @ a @ basis + np.where(free, 0.0, 1.0)[..., None] * np.eye(nv)
    values, vectors = np.linalg.eigh(b)
    values = np.maximum(np.abs(values), SPRING_FLOOR * stiffness.min(axis=-1, keepdims=True))
    inner = basis @ vectors
    settling = -(inner / values[..., None, :]) @ np.swapaxes(inner, -1, -2)
    return across + settling @ (a @ across), settling


def springs_step(
    jacobian: FloatArray,
    error: FloatArray,
    stiffness: FloatArray,
    deviation: FloatArray,
    bend: FloatArray | None = None,
    *,
    settling: FloatArray | float = 0.0,
    damping: FloatArray | float = 0.0,
) -> FloatArray:
    """P e with the springs' general pseudo-inverse [ChungChoi1994].

    Args:
        deviation: θ − θ₀, (..., nv).
        bend: G for the forces (JK⁻¹Jᵀ)⁻¹J(θ − θ₀) at the effectors, (..., nv, nv).
        settling: Part of the way [1] to go to where the springs are at rest among the poses with the same
            effectors; 0 as printed, which stays at rest where it was at rest before, but for the drift of
            finite steps; 1 is Newton's step.
        damping: As in `spring_inverse`.
    """
    inverse, null_space = spring_inverse(jacobian, stiffness, bend, damping=damping)
    at_rest = times(null_space, stiffness * deviation)
    return times(inverse, error) + np.asarray(settling)[..., None] * at_rest


def extended_jacobian_step(
    jacobian: FloatArray,
    error: FloatArray,
    elements: FloatArray,
    displacement: FloatArray | float = 0.0,
    *,
    weight: FloatArray | float = 1.0,
) -> FloatArray:
    """Least squares over the effector's rows and those of the basic elements [SochLorencz2005 §2.3].

    Args:
        elements: Rows of the basic elements, (..., k, nv), such as `basic_elements`.
        displacement: Wanted displacement of each, (..., k), or one for all.
        weight: w of the added rows, (..., k), or one for all; at 0 the paper's method is J⁺.
    """
    rows = elements.shape[-2]
    weight = np.broadcast_to(weight, (*elements.shape[:-2], rows))
    wanted = np.broadcast_to(displacement, (*error.shape[:-1], rows))
    extended = np.concatenate([jacobian, weight[..., None] * elements], axis=-2)
    return times(pseudo_inverse(extended), np.concatenate([error, weight * wanted], axis=-1))


def bounded_least_squares_step(
    jacobian: FloatArray, error: FloatArray, lower: FloatArray, upper: FloatArray, damping: float = 0.0
) -> FloatArray:
    """The dq that minimises |J dq − e|² + c²|dq|² with lower ≤ dq ≤ upper [KiSheen eq. 7.4, 7.5].

    With C = [J; cI] and d = [e; 0] that is |C dq − d|², as printed. Exact, by an active set as in
    [StarkParker1995]: minimise over what is free, at first what stands on no bound, go there up to the first
    bound, hold what meets it; at a minimum let go of the bound that most wants to be left. Bounds of q are
    those of dq with q taken away.

    Args:
        jacobian: J, (m, nv), of one problem, as all here.
        error: e, (m,).
        lower: Lower bounds of dq, (nv,), may be −inf.
        upper: Upper bounds of dq, (nv,), may be inf, not below the lower ones.
        damping: c; with 0 the smallest of the minima over what is free is taken.
    """
    nv = jacobian.shape[1]
    if not (lower <= upper).all():
        raise IKError("a lower bound of the step lies above its upper bound, or is not a number")
    matrix, wanted = np.concatenate([jacobian, damping * np.eye(nv)]), np.append(error, np.zeros(nv))
    x = np.clip(np.zeros(nv), lower, upper)
    held = (x == lower) | (x == upper)
    size = np.linalg.norm(matrix, axis=0)  # of each column, (nv,)
    tolerance = RANK_TOLERANCE * size * np.linalg.norm(wanted)
    # Each round lowers the cost or holds one more channel; rounding alone could circle.
    for _ in range(ROUNDS * (nv + 1)):
        rest = wanted - matrix @ np.where(held, x, 0.0)
        best = np.where(held, x, pseudo_inverse(np.where(held, 0.0, matrix)) @ rest)
        way = best - x
        room = np.where(way > 0.0, upper - x, lower - x)
        share = np.divide(room, way, out=np.full_like(way, np.inf), where=np.abs(way) > STANDSTILL)
        first = float(share.min(initial=1.0))
        if first < 1.0:
            stopped = ~held & (share <= first)
            x = np.where(stopped, np.where(way > 0.0, upper, lower), np.clip(x + first * way, lower, upper))
            held = held | stopped
            continue
        x = np.clip(best, lower, upper)
        gradient = matrix.T @ (matrix @ x - wanted)
        # How much each held channel wants away from its bound.
        away = np.where(x <= lower, -gradient, gradient)
        away = np.where(held & (lower < upper) & (away > tolerance), away / (size + TINY), 0.0)
        if not away.any():
            break
        held[away.argmax()] = False
    return x


def clamped_magnitude(vectors: FloatArray, limit: FloatArray | float) -> FloatArray:
    """ClampMag: vectors (..., k) shortened to a length [Buss2009 §6]; an infinite one leaves them alone."""
    return _shortened(vectors, lengths(vectors), limit)


def clamped_largest(change: FloatArray, limit: FloatArray | float) -> FloatArray:
    """ClampMaxAbs: changes (..., nv) shortened so that none of their elements is larger [BussKim2005]."""
    return _shortened(change, np.abs(change).max(axis=-1, initial=0.0), limit)


def _shortened(vectors: FloatArray, size: FloatArray, limit: FloatArray | float) -> FloatArray:
    share = np.minimum(1.0, limit / np.where(size > 0.0, size, 1.0))
    return vectors * np.where(size > 0.0, share, 1.0)[..., None]


def null_basis(jacobian: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Orthonormal vectors of the null space in the columns of (..., nv, nv), others 0; which are there."""
    nv = int(jacobian.shape[-1])
    _, s, vt = np.linalg.svd(jacobian, full_matrices=True)
    rank = (s > RANK_TOLERANCE * s.max(axis=-1, keepdims=True, initial=0.0)).sum(axis=-1)
    free: BoolArray = np.arange(nv) >= rank[..., None]
    return np.swapaxes(vt, -1, -2) * free[..., None, :], free


# Basic elements

SHORTEST: Final = 1e-3
"""Length of a segment as a part of the longest [1] that is taken where it is shorter: joints that lie in one
place turn all the same."""


def basic_elements(posed: PosedMechanism) -> FloatArray:
    """Derivatives of the basic elements by the free channels, (F, 6 m, nv) [m] for the m joints that move.

    They are given along the armature's axes rather than the element's own, which changes no sum of squares.
    """
    mechanism = posed.mechanism
    m, nv, parents = len(mechanism.joints), mechanism.size, mechanism.parents
    if not m:
        return np.zeros((len(posed.values), 0, nv))
    slots = np.arange(1, m + 1)
    origins = posed.matrices[:, :, :3, 3]
    # The length of a joint's segment is its distance from its parent, for a root that of its children.
    lengths = np.linalg.norm(origins[:, slots] - origins[:, parents], axis=-1)  # (F, m)
    below = [np.flatnonzero(parents == slot) for slot in slots]
    lengths = np.stack(
        [lengths[:, children if len(children) else [i]].mean(axis=1) for i, children in enumerate(below)],
        axis=1,
    )
    lengths = np.maximum(lengths, SHORTEST * lengths.max(axis=1, keepdims=True))
    # Bones lie along y of their joints, as in Blender.
    ends = origins[:, slots] + lengths[..., None] * posed.matrices[:, slots][..., :3, 1]
    own = mechanism.kept_of == slots[:, None] - 1  # (m, nv)
    of_parent = mechanism.kept_of == parents[:, None] - 1
    pair = (own | of_parent)[:, None, :]
    places = posed.point_jacobian(slots, ends) * pair  # (F, m, 3, nv)
    turns = posed.angular_jacobian(slots) * pair * lengths[..., None, None]
    return np.concatenate([places, turns], axis=2).reshape(len(origins), 6 * m, nv)

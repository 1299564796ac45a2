# SPDX-License-Identifier: GPL-3.0-or-later
"""Step rules: changes dq of the free channels that answer J dq = −r.

**Pseudo-inverse** [Ringlayer]: J⁺ = V Σ⁺ Uᵀ. **Damped least squares** [Buss2009], [KiSheen §7]:
dq = −Jᵀ(JJᵀ + λ²I)⁻¹ r. **Prioritised recursion** [KiSheen, Definitions 6.14 and 6.15]: with F_0 = I,

    B_k = J_k F_{k−1},   dq_k = dq_{k−1} − B_k⁺ (r_k + J_k dq_{k−1}),   F_k = F_{k−1} − B_k⁺ B_k,

which is the recursion as printed, written for one right-hand side: level k is met as well as those before it
allow and never changes J_i dq of an earlier one. `bounded_step` is that recursion inside a box: each level is
damped where it is singular, a channel that would leave the box is stopped at its bound and taken out of what
is left of F, and the level is answered again with the remaining channels. The term F_M z of [KiSheen, eq. 4.1] needs
no rule of its own: a wish for the channels themselves is one more level, the last.

A level that cannot be met has a residual at which JᵀJ is not its Hessian: motions that JᵀJ calls free then
raise its cost at second order. For such levels the curvature Σ_k r_k ∂²r_k/∂q∂q is handed over as well; the
step is Newton's, and F keeps away from every direction in which the cost bends.

All arrays have the frame axis first. Residuals have the sign current − target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray

RANK_TOLERANCE: Final = 1e-10
"""Singular values below this part of the largest count as zero in a pseudo-inverse [1]."""

LEVEL_TOLERANCE: Final = 1e-5
"""Singular values of a level below this part of its largest leave their direction to lower levels [1]. They
come from the eigenvalues of BBᵀ, which are exact to about 1e-16 of the largest, so 1e-8 in the singular value."""

PIVOT_TOLERANCE: Final = 1e-10
"""Diagonal of a projection [1] below which a channel has already been taken out of it."""

IDLE: Final = 1e-10
"""Changes [rad] and slopes this small stop no channel at its bound: rounding of a level that is met must not
take the channel from the levels below."""


def pseudo_inverse(matrix: FloatArray, tolerance: float = RANK_TOLERANCE) -> FloatArray:
    """Moore-Penrose inverse by singular value decomposition, (..., m, n) -> (..., n, m) [Ringlayer].

    Args:
        matrix: Any real matrices.
        tolerance: Singular values at most this part of the largest count as zero.
    """
    u, s, vt = np.linalg.svd(matrix, full_matrices=False)
    kept = s > tolerance * s.max(axis=-1, keepdims=True, initial=0.0)
    inverse = np.where(kept, 1.0 / np.where(kept, s, 1.0), 0.0)
    return np.swapaxes(vt, -1, -2) @ (inverse[..., None] * np.swapaxes(u, -1, -2))


def damped_step(jacobian: FloatArray, residual: FloatArray, damping: FloatArray | float) -> FloatArray:
    """−Jᵀ(JJᵀ + λ²I)⁻¹ r [Buss2009 eq. 11], (..., nv); `damping` is λ, one number or one a frame."""
    transposed = np.swapaxes(jacobian, -1, -2)
    square = np.asarray(damping)[..., None, None] ** 2 * np.eye(jacobian.shape[-2])
    return -(transposed @ np.linalg.solve(jacobian @ transposed + square, residual[..., None]))[..., 0]


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
        into = projection @ pseudo_inverse(jacobian @ projection)  # F_i (J_{i+1} F_i)⁺
        inverse = np.concatenate([(identity - into @ jacobian) @ inverse, into], axis=-1)
        projection = projection @ (identity - into @ jacobian @ projection)
    return inverse, projection


@dataclass(frozen=True)
class StepLevel:
    """One level as a step rule sees it."""

    residual: FloatArray
    """(F, m)."""
    jacobian: FloatArray
    """(F, m, nv)."""
    damping: FloatArray
    """λ², (F,)."""
    curvature: FloatArray | None = None
    """What the Hessian of ½|r|² has beyond JᵀJ, (F, nv, nv); None for Gauss-Newton."""


@dataclass(frozen=True)
class BoundedStep:
    """The answer of `bounded_step`."""

    change: FloatArray
    """dq, (F, nv), inside the box."""
    corrections: tuple[FloatArray, ...]
    """For each level the matrix (F, nv, m) that answers a residual of it with the channels left to it."""
    bounded: BoolArray
    """Which channels were stopped at a bound, (F, nv)."""


class _Box:
    """What is left to move: a projection from which stopped channels are taken out one by one."""

    def __init__(self, lower: FloatArray, upper: FloatArray) -> None:
        frames, nv = lower.shape
        self.lower, self.upper = lower, upper
        self.projection = np.tile(np.eye(nv), (frames, 1, 1))
        self.stopped = np.zeros((frames, nv), dtype=np.bool_)

    def take_out(self, channels: BoolArray) -> None:
        """Remove channels (F, nv) from the projection: F ← F − F_c F_cᵀ / F_cc for each."""
        self.stopped |= channels
        for _ in range(int(channels.sum(axis=1).max(initial=0))):
            some = channels.any(axis=1)
            index = channels.argmax(axis=1)
            rows = np.arange(len(channels))
            column = self.projection[rows, :, index]  # (F, nv)
            pivot = column[rows, index]
            use = some & (pivot > PIVOT_TOLERANCE)
            factor = np.where(use, 1.0 / np.where(use, pivot, 1.0), 0.0)
            self.projection -= factor[:, None, None] * column[:, :, None] * column[:, None, :]
            hit = np.where(some[:, None], np.arange(channels.shape[1]) == index[:, None], False)
            self.projection[hit] = 0.0
            np.swapaxes(self.projection, 1, 2)[hit] = 0.0
            channels = channels & ~hit

    def outward(self, at: FloatArray, direction: FloatArray) -> BoolArray:
        """Channels that stand on a bound and are told to leave through it, (F, nv)."""
        return ((direction < -IDLE) & (at <= self.lower)) | ((direction > IDLE) & (at >= self.upper))

    def advance(self, at: FloatArray, direction: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Go from `at` along `direction` up to the first bound; which channels are stopped there."""
        room = np.where(direction > 0, self.upper - at, np.where(direction < 0, self.lower - at, np.inf))
        moving = np.abs(direction) > IDLE
        share = np.where(moving, room / np.where(moving, direction, 1.0), np.inf)  # part of the way to the bound
        first = np.minimum(1.0, share.min(axis=1, initial=np.inf))
        stopped = moving & (share <= first[:, None]) & (first < 1.0)[:, None]
        moved = np.clip(at + first[:, None] * direction, self.lower, self.upper)
        moved = np.where(stopped, np.where(direction > 0, self.upper, self.lower), moved)
        return moved, stopped


def bounded_step(
    levels: Sequence[StepLevel], lower: FloatArray, upper: FloatArray, radius: FloatArray
) -> BoundedStep:
    """One step of the prioritised recursion inside a box.

    Args:
        levels: Highest priority first.
        lower: Lower bounds of dq, (F, nv), at most 0.
        upper: Upper bounds of dq, (F, nv), at least 0.
        radius: Largest change of a channel by one level, (F,).
    """
    box = _Box(lower, upper)
    change = np.zeros_like(lower)
    corrections: list[FloatArray] = []
    for level in levels:
        start = change
        open_frames = np.ones(len(change), dtype=np.bool_)
        # The first working set is that of the projected gradient [Bertsekas1982]: stop what steepest descent
        # would push through a bound on which it stands.
        while True:
            gradient = _gradient(level, change)
            descent = -(box.projection @ gradient[..., None])[..., 0]
            outward = box.outward(change, descent) & ~box.stopped
            if not outward.any():
                break
            box.take_out(outward)
        for _ in range(change.shape[1] + 1):
            model = _Model(level, box.projection, change)
            step = model.step(level.damping)
            step = np.where(open_frames[:, None], _within(step, change - start, radius), 0.0)
            change, stopped = box.advance(change, step)
            open_frames = stopped.any(axis=1)
            if not open_frames.any():
                break
            box.take_out(stopped)
        corrections.append(model.correction)
        box.projection = box.projection - model.basis @ np.swapaxes(model.basis, -1, -2)
    return BoundedStep(change, tuple(corrections), box.stopped)


def _gradient(level: StepLevel, change: FloatArray) -> FloatArray:
    """Gradient of the level's quadratic model at a change, (F, nv)."""
    ahead = level.residual + (level.jacobian @ change[..., None])[..., 0]
    gradient = (np.swapaxes(level.jacobian, -1, -2) @ ahead[..., None])[..., 0]
    if level.curvature is not None:
        gradient = gradient + (level.curvature @ change[..., None])[..., 0]
    return gradient


def _within(step: FloatArray, taken: FloatArray, radius: FloatArray) -> FloatArray:
    """A step shortened so that it and what was taken before stay within a radius, per frame."""
    room = np.maximum(radius - np.abs(taken).max(axis=1, initial=0.0), 0.0)
    size = np.abs(step).max(axis=1, initial=0.0)
    return step * np.minimum(1.0, room / np.where(size > 0.0, size, 1.0))[:, None]


class _Model:
    """A level's quadratic model in what is left to move, by its principal directions."""

    def __init__(self, level: StepLevel, projection: FloatArray, change: FloatArray) -> None:
        projected = level.jacobian @ projection  # B, (F, m, nv)
        # What is left may be nothing but rounding, so that small is measured against the level unprojected.
        largest = np.einsum("fij,fij->f", level.jacobian, level.jacobian)
        if level.curvature is None:
            ahead = level.residual + (level.jacobian @ change[..., None])[..., 0]
            squares, left = np.linalg.eigh(projected @ np.swapaxes(projected, -1, -2))
            kept = squares > LEVEL_TOLERANCE**2 * largest[:, None]
            sigma = np.sqrt(np.where(kept, squares, 1.0))
            inverse = np.where(kept, 1.0 / sigma, 0.0)
            self.basis = np.swapaxes(projected, -1, -2) @ left * inverse[:, None, :]  # (F, nv, m)
            self._bend = np.where(kept, squares, 1.0)
            self._slope = np.where(kept, sigma, 0.0) * (np.swapaxes(left, -1, -2) @ ahead[..., None])[..., 0]
            self.correction = -self.basis * inverse[:, None, :] @ np.swapaxes(left, -1, -2)
        else:
            hessian = np.swapaxes(projected, -1, -2) @ projected + projection @ level.curvature @ projection
            bends, directions = np.linalg.eigh(0.5 * (hessian + np.swapaxes(hessian, -1, -2)))
            largest = largest + np.sqrt(np.einsum("fij,fij->f", level.curvature, level.curvature))
            kept = np.abs(bends) > LEVEL_TOLERANCE**2 * largest[:, None]
            self.basis = directions * kept[:, None, :]
            self._bend = np.where(kept, np.abs(bends), 1.0)
            gradient = _gradient(level, change)
            self._slope = (np.swapaxes(self.basis, -1, -2) @ gradient[..., None])[..., 0]
            towards = np.swapaxes(self.basis, -1, -2) @ np.swapaxes(level.jacobian, -1, -2)
            self.correction = -self.basis @ (towards / self._bend[..., None])

    def step(self, damping: FloatArray) -> FloatArray:
        """Damped step, (F, nv)."""
        return -(self.basis @ (self._slope / (self._bend + damping[:, None]))[..., None])[..., 0]

# SPDX-License-Identifier: GPL-3.0-or-later
"""The step of strict priorities: the change dq of the free channels that answers J dq = −r level by level.

**Prioritised recursion** [KiSheen, Definitions 6.14 and 6.15]: with F_0 = I and `inverses.pseudo_inverse`,

    B_k = J_k F_{k−1},   dq_k = dq_{k−1} − B_k⁺ (r_k + J_k dq_{k−1}),   F_k = F_{k−1} − B_k⁺ B_k,

which is the recursion as printed, written for one right-hand side: level k is met as well as those before it
allow and never changes J_i dq of an earlier one. `bounded_step` is that recursion inside a box: each level is
damped where it is singular, a channel that would leave the box is stopped at its bound and taken out of what
is left of F, and the level is answered again with the remaining channels. The term F_M z of [KiSheen,
eq. 4.1] needs no rule of its own: a wish for the channels themselves is one more level, the last.

A level that cannot be met has a residual at which JᵀJ is not its Hessian: motions that JᵀJ calls free then
raise its cost at second order. For such levels the curvature Σ_k r_k ∂²r_k/∂q∂q is handed over as well; the
step is Newton's, and F keeps away from every direction in which the cost bends.

All arrays have the frame axis first. Residuals have the sign current − target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray

LEVEL_TOLERANCE: Final = 1e-5
"""Singular values of a level below this part of its largest leave their direction to lower levels [1]. They
come from the eigenvalues of BBᵀ, exact to about 1e-16 of the largest, so 1e-8 in the singular value."""

PIVOT_TOLERANCE: Final = 1e-10
"""Diagonal of a projection [1] below which a channel has already been taken out of it."""

CORRECTION_DAMPING: Final = 1e-7
"""λ² of a correction as a part of the square of the level's size [1]: next to a singular pose a small
residual would ask for a large change, which puts nothing back."""

TINY: Final = 1e-300
"""Keeps 0 / 0 from being asked for."""

IDLE: Final = 1e-10
"""Changes [rad] and slopes this small stop no channel at its bound: rounding of a level that is met must not
take the channel from the levels below."""


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
    guard: FloatArray | None = None
    """The same for a level that is held where it is although it is not met: lower levels keep away from the
    directions in which its cost bends, but no step is taken for it."""


@dataclass(frozen=True)
class BoundedStep:
    """The answer of `bounded_step`."""

    change: FloatArray
    """dq, (F, nv), inside the box."""
    corrections: tuple[FloatArray, ...]
    """For each level but the last the matrix (F, nv, m) that answers its residual with what it had left, but
    for the channels that were stopped."""
    bounded: BoolArray
    """Which channels were stopped at a bound, (F, nv)."""


class _Box:
    """What is left to move: a projection from which held channels are taken out one by one."""

    def __init__(self, lower: FloatArray, upper: FloatArray) -> None:
        frames, nv = lower.shape
        self.lower, self.upper = lower, upper
        self.projection = np.tile(np.eye(nv), (frames, 1, 1))
        self.held = np.zeros((frames, nv), dtype=np.bool_)

    def without(self, channels: BoolArray) -> FloatArray:
        """The projection with channels (F, nv) removed: F ← F − F_c F_cᵀ / F_cc for each."""
        return _without(self.projection, channels)

    def outward(self, at: FloatArray, direction: FloatArray) -> BoolArray:
        """Channels that stand on a bound and are told to leave through it, (F, nv)."""
        return ((direction < -IDLE) & (at <= self.lower)) | ((direction > IDLE) & (at >= self.upper))

    def advance(self, at: FloatArray, direction: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Go from `at` along `direction` up to the first bound; which channels are stopped there."""
        room = np.where(direction > 0, self.upper - at, np.where(direction < 0, self.lower - at, np.inf))
        moving = np.abs(direction) > IDLE
        share = np.where(moving, room / np.where(moving, direction, 1.0), np.inf)  # of the way to the bound
        first: FloatArray = np.minimum(1.0, share.min(axis=1, initial=np.inf))
        stopped = moving & (share <= first[:, None]) & (first < 1.0)[:, None]
        moved = np.clip(at + first[:, None] * direction, self.lower, self.upper)
        moved = np.where(stopped, np.where(direction > 0, self.upper, self.lower), moved)
        return moved, stopped

    def pressure(self, at: FloatArray, held: BoolArray, gradient: FloatArray) -> FloatArray:
        """With which force each held channel is pressed against its bound, (F, nv); negative: it wants away.

        Lagrange's multipliers of the bounds when what is projected out is held too: F g = −Σ ν_i F e_i.
        """
        force = np.zeros_like(gradient)
        projected = (self.projection @ gradient[..., None])[..., 0]
        for frame in np.flatnonzero(held.any(axis=1)):
            which = np.flatnonzero(held[frame])
            block = self.projection[frame][np.ix_(which, which)]
            values, vectors = np.linalg.eigh(block)
            inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > PIVOT_TOLERANCE)
            outward: FloatArray = -(vectors * inverse) @ (vectors.T @ projected[frame, which])
            at_lower = at[frame, which] <= self.lower[frame, which]
            both = at_lower & (at[frame, which] >= self.upper[frame, which])
            force[frame, which] = np.where(both, np.inf, np.where(at_lower, -outward, outward))
        return force


def _without(projection: FloatArray, channels: BoolArray) -> FloatArray:
    """A projection (F, nv, nv) with channels (F, nv) removed: F ← F − F_c F_cᵀ / F_cc for each."""
    projection = np.array(projection)
    left = np.array(channels)
    rows = np.arange(len(channels))
    for _ in range(int(channels.sum(axis=1).max(initial=0))):
        some = left.any(axis=1)
        index = left.argmax(axis=1)
        column = projection[rows, :, index]  # (F, nv)
        pivot = column[rows, index]
        use = some & (pivot > PIVOT_TOLERANCE)
        factor = np.where(use, 1.0 / np.where(use, pivot, 1.0), 0.0)
        projection -= factor[:, None, None] * column[:, :, None] * column[:, None, :]
        hit = np.zeros_like(channels)
        hit[rows, index] = some
        projection[hit] = 0.0
        np.swapaxes(projection, 1, 2)[hit] = 0.0
        left &= ~hit
    return projection


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
    held = np.zeros_like(box.held)
    models: list[_Model] = []
    for number, level in enumerate(levels):
        change, held, model = _lowered(level, box, change, radius)
        if number == len(levels) - 1:
            break
        models.append(model)
        # What is pressed against its bound stays there, whatever comes after; what only leans on it is free
        # again.
        force = box.pressure(change, held, _gradient(level, change))
        pressed = held & (force > IDLE)
        box.projection = box.without(pressed)
        box.held |= pressed
        reserved = _Model(level, box.projection, change).reserved
        box.projection = box.projection - reserved @ np.swapaxes(reserved, -1, -2)
    stopped = box.held | held
    # What ends at a bound cannot put anything back.
    corrections = tuple(model.without(stopped).correction for model in models)
    return BoundedStep(change, corrections, stopped)


def _lowered(
    level: StepLevel, box: _Box, start: FloatArray, radius: FloatArray
) -> tuple[FloatArray, BoolArray, _Model]:
    """One level answered in what is left of the box, by an active set of the bounds.

    Returns:
        The change (F, nv), the channels that this level holds at their bounds (F, nv), and its last model.
    """
    change = start
    working = np.ones(len(change), dtype=np.bool_)
    # The first working set is that of the projected gradient [Bertsekas1982]: hold what steepest descent
    # would push through a bound on which it stands.
    descent = -(box.projection @ _gradient(level, change)[..., None])[..., 0]
    held = box.outward(change, descent) & ~box.held
    rounds = 2 * change.shape[1] + 2
    while True:
        model = _Model(level, box.without(held), change)
        # Where the cost is flat rounding gives a large step a trace of the channels that are held.
        full = np.where(held | box.held, 0.0, model.step())
        step = np.where(working[:, None], _within(full, change - start, radius), 0.0)
        change, stopped = box.advance(change, step)
        short = (np.abs(step) < np.abs(full)).any(axis=1)  # by the radius
        blocked = stopped.any(axis=1)
        # At the minimum of what is free: let go of the channel that most wants away from its bound.
        gradient = _gradient(level, change) + level.damping[:, None] * step
        force = box.pressure(change, held & (working & ~blocked & ~short)[:, None], gradient)
        weakest = np.where(held, force, np.inf)
        index = weakest.argmin(axis=1)
        release = working & ~blocked & ~short & (weakest[np.arange(len(index)), index] < -IDLE)
        held = held | stopped
        held[release, index[release]] = False
        working = working & (blocked | release)
        rounds -= 1
        if rounds == 0 or not working.any():
            return change, held, model


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
    """A level's quadratic model in what is left to move."""

    def __init__(self, level: StepLevel, projection: FloatArray, change: FloatArray) -> None:
        self._level, self._projection, self._change = level, projection, change
        self._projected = level.jacobian @ projection  # B, (F, m, nv)
        # What is left may be nothing but rounding, so that small is measured against the level unprojected.
        self._largest = np.einsum("fij,fij->f", level.jacobian, level.jacobian)

    def without(self, channels: BoolArray) -> _Model:
        """The same model where some channels (F, nv) cannot move."""
        able = np.einsum("fvv->fv", self._projection) > PIVOT_TOLERANCE
        if not (channels & able).any():
            return self
        return _Model(self._level, _without(self._projection, channels), self._change)

    def step(self) -> FloatArray:
        """Damped step, (F, nv)."""
        if self._level.curvature is not None:
            return self._newton_step(self._level.curvature)
        basis, singular, left = self._principal
        ahead = self._level.residual + (self._level.jacobian @ self._change[..., None])[..., 0]
        slope = singular * (np.swapaxes(left, -1, -2) @ ahead[..., None])[..., 0]
        share = slope / np.where(singular > 0.0, singular**2 + self._level.damping[:, None], 1.0)
        return -(basis @ share[..., None])[..., 0]

    def _newton_step(self, curvature: FloatArray) -> FloatArray:
        """Newton's step where the cost bends upward, and away from where it bends downward."""
        gradient = (self._projection @ _gradient(self._level, self._change)[..., None])[..., 0]
        hessian = np.swapaxes(self._projected, -1, -2) @ self._projected
        hessian += self._projection @ curvature @ self._projection
        hessian = 0.5 * (hessian + np.swapaxes(hessian, -1, -2))
        damping = self._level.damping[:, None]
        largest = self._largest + np.sqrt(np.einsum("fij,fij->f", curvature, curvature))
        bends, directions = np.linalg.eigh(hessian)
        kept = np.abs(bends) > LEVEL_TOLERANCE**2 * largest[:, None]
        slope = (np.swapaxes(directions, -1, -2) @ gradient[..., None])[..., 0]
        share = np.where(kept, slope / np.where(kept, np.abs(bends) + damping, 1.0), 0.0)
        return -(directions @ share[..., None])[..., 0]

    @cached_property
    def _principal(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Right vectors (F, nv, m), singular values (F, m), left vectors (F, m, m) of B; 0 where small."""
        squares, left = np.linalg.eigh(self._projected @ np.swapaxes(self._projected, -1, -2))
        kept = squares > LEVEL_TOLERANCE**2 * self._largest[:, None]
        singular = np.sqrt(np.where(kept, squares, 0.0))
        inverse = np.where(kept, 1.0 / np.where(kept, singular, 1.0), 0.0)
        return np.swapaxes(self._projected, -1, -2) @ left * inverse[:, None, :], singular, left

    @property
    def correction(self) -> FloatArray:
        """Matrix (F, nv, m) that answers a residual of the level."""
        basis, singular, left = self._principal
        inverse = singular / (singular**2 + CORRECTION_DAMPING * self._largest[:, None] + TINY)
        return -basis * inverse[:, None, :] @ np.swapaxes(left, -1, -2)

    @property
    def reserved(self) -> FloatArray:
        """Directions, in columns, in which lower levels must not move.

        Those in which the residuals change, and for a level that is not met those in which its cost bends.
        """
        bend = self._level.curvature if self._level.curvature is not None else self._level.guard
        if bend is None:
            return self._principal[0]
        bend = self._projection @ bend @ self._projection
        size = np.sqrt(np.einsum("fij,fij->f", bend, bend))[:, None, None]
        square = np.swapaxes(self._projected, -1, -2) @ self._projected
        square += bend @ bend / np.where(size > 0.0, size, 1.0)
        strengths, directions = np.linalg.eigh(square)
        return directions * (strengths > LEVEL_TOLERANCE**2 * self._largest[:, None])[:, None, :]

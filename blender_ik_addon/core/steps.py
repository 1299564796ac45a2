# SPDX-License-Identifier: GPL-3.0-or-later
"""The step of one level: the least of its quadratic model inside a box and a trust region.

    minimise  gᵀt + ½ tᵀK t   with  lower <= start + Z t <= upper,  |Z t| <= radius in every channel,

Z the directions that the levels above leave. The box is kept by an active set: a channel that would leave its
limits is stopped there and the model answered again with the others; one that is pressed the wrong way is let
go. In the trust region the answer is that of (K + μI) t = −g with the least μ >= 0 that makes the step short
enough [MoreSorensen1983]. Where K bends down the step goes to the edge, with the sizes of the eigenvalues in
place of them [DauphinEtAl2014], so that it is as far from a saddle as it would be near a minimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray

IDLE: Final = 1e-10
"""Slopes and changes this small stop no channel at its bound: rounding."""
ROUNDING: Final = 1e-13
"""Slope that is none, as a part of the curvature before it was projected [1]."""
FLAT: Final = 1e-9
"""Curvature that is none, likewise [1]."""
SHIFT, MOST_SHIFT = 0.3, 1e-2
"""Added to K, as a part of the slope [1], and the most of it, as a part of the curvature. Along a whole set
of minimisers the cost bends by what the slope across them makes of it, one way or the other."""

LASTING: Final = 1.0
"""Square of a derivative [1] at which half of the residual along it lasts, as a part of the residual: so
strongly it may bend."""

SHIFTS: Final = 24
"""How many μ are tried at once."""
REFINEMENTS: Final = 2
"""How often, each time between the two that are next to the best."""
NEAR_EDGE: Final = 0.9
"""Part of the radius [1] to which a step that it cuts short must come."""
RANGE: Final = 1e-9
"""The least μ that is tried, as a part of the largest [1]."""

LARGE: Final = 160
"""Directions from which K is factored for a few μ instead of taken apart into its eigenvalues."""
FACTOR: Final = 6.0
"""From one of those μ to the next [1]."""

DEPENDENT: Final = 1e-9
"""Singular value of the channels at bounds [1] at which one moves with the others."""
TINY: Final = 1e-300
"""Keeps 0 / 0 from being asked for."""


@dataclass(frozen=True)
class TangentStep:
    """The answer of `tangent_step`."""

    change: FloatArray
    """Z t, (nv,)."""
    stopped: BoolArray
    """Channels that are held at a bound, (nv,)."""
    cut: bool
    """Whether the radius has cut it short."""
    fall: float
    """By how much the model falls."""
    free: FloatArray
    """The directions of Z that leave those channels where they are, orthonormal columns, (nv, f)."""


def tangent_step(
    slope: FloatArray,
    curvature: FloatArray,
    along: FloatArray,
    start: FloatArray,
    bounds: tuple[FloatArray, FloatArray],
    radius: float,
    scale: float,
) -> TangentStep:
    """Minimise a quadratic model.

    Args:
        slope: g, (d,).
        curvature: K, (d, d), symmetric.
        along: Z, (nv, d), orthonormal columns.
        start: Where the channels are at t = 0, inside the bounds, (nv,).
        bounds: Lower and upper bounds of the channels, (nv,) each.
        radius: Largest change of a channel, above 0.
        scale: Size of the curvature before it was projected, of which rounding is a part.
    """
    lower, upper = bounds
    t = np.zeros(len(slope))
    at = np.array(start)
    descent = -along @ slope
    stopped: BoolArray = ((descent < -IDLE) & (at <= lower)) | ((descent > IDLE) & (at >= upper))
    cut = False
    for _ in range(2 * len(start) + 2):
        ahead = slope + curvature @ t
        room = max(radius - float(np.abs(at - start).max(initial=0.0)), 0.0)
        if stopped.any():
            free = _null_space(along[stopped])
            part, cut = _within(free.T @ ahead, free.T @ curvature @ free, along @ free, room, scale)
            part = free @ part
        else:
            part, cut = _within(ahead, curvature, along, room, scale)
        step = np.where(stopped, 0.0, along @ part)
        moving = np.abs(step) > IDLE
        space = np.where(step > 0.0, upper - at, lower - at)
        share = np.where(moving, space / np.where(moving, step, 1.0), np.inf)
        first = float(min(1.0, share.min(initial=np.inf)))
        t = t + first * part
        hit = moving & (share <= first) & (first < 1.0)
        at = np.clip(at + first * step, lower, upper)
        at = np.where(hit, np.where(step > 0.0, upper, lower), at)
        if hit.any():
            stopped = stopped | hit
            continue
        if cut or not stopped.any():
            break
        release = _let_go(along, slope + curvature @ t, stopped, at <= lower, at >= upper)
        if release is None:
            break
        stopped = np.array(stopped)
        stopped[release] = False
    fall = -float(slope @ t + 0.5 * t @ curvature @ t)
    free = along @ _null_space(along[stopped]) if stopped.any() else along
    return TangentStep(at - start, stopped, cut, fall, free)


def lasting(sides: FloatArray, force: FloatArray) -> FloatArray:
    """The part of a residual (m,) that a step will not take away.

    A level that cannot be met often lies in a valley that winds, its floor thousands of times flatter than
    its sides. Beside the floor what leads back to it bends the model along the valley as well, one way or the
    other; that bend is gone with the step. So multipliers are taken from the conditions that a step will
    fulfil, not from where it starts [NocedalWright2006 §18.1]; here those are residuals.

    Args:
        sides: Derivative of the residual along the step's directions, (m, d).
        force: The residual, (m,).
    """
    damping = LASTING * float(np.linalg.norm(force)) + TINY
    square = sides @ sides.T + damping * np.eye(len(force))
    return damping * np.asarray(np.linalg.solve(square, force), np.float64)


def put_back(sides: FloatArray, missed: FloatArray, steepness: float) -> tuple[FloatArray, float]:
    """What takes away that part of a residual that the linear model of a step has missed; what that brings.

    Where sides are steep that is the geodesic acceleration of [TranstrumSethna2012], with the residual of the
    trial in place of its second derivative; along the valley, flatter than the steepness, nothing changes.

    Args:
        sides: Derivative of the residual along the step's directions, (m, d).
        missed: Residual of the trial beyond that of the model, (m,).
        steepness: Curvature [1] from which a side is steep.

    Returns:
        The change along the directions, (d,), and the fall of ½|r|².
    """
    square = sides @ sides.T + steepness * np.eye(len(missed))
    change = -sides.T @ np.asarray(np.linalg.solve(square, missed), np.float64)
    taken = sides @ change
    return change, -float(taken @ (missed + 0.5 * taken))


def _let_go(
    along: FloatArray, ahead: FloatArray, stopped: BoolArray, at_lower: BoolArray, at_upper: BoolArray
) -> int | None:
    """The stopped channel that most wants away from its bound, by Lagrange's multipliers; None for none."""
    index = np.flatnonzero(stopped)
    forces = -np.linalg.lstsq(along[index].T, ahead, rcond=DEPENDENT)[0]  # ahead = −Σ force z
    outward = np.where(at_upper[index], forces, -forces)
    outward = np.where(at_lower[index] & at_upper[index], np.inf, outward)
    return int(index[outward.argmin()]) if outward.min() < -IDLE else None


def _null_space(rows: FloatArray) -> FloatArray:
    """Orthonormal columns on which rows (k, d) vanish, (d, d − rank)."""
    _, sizes, right = np.linalg.svd(rows)
    return right[int((sizes > DEPENDENT).sum()) :].T


def _within(
    slope: FloatArray, curvature: FloatArray, along: FloatArray, radius: float, scale: float
) -> tuple[FloatArray, bool]:
    """Minimise gᵀx + ½ xᵀK x with |Z x| <= radius in every channel; whether the radius cuts it short."""
    steepness = float(np.linalg.norm(slope))
    if not len(slope) or radius <= 0.0:
        return np.zeros(len(slope)), steepness > IDLE
    shift = min(SHIFT * steepness, MOST_SHIFT * scale)
    floor = max(FLAT * scale, TINY)
    if len(slope) >= LARGE:
        return _factored(slope, curvature, along, radius, max(shift, floor))
    bends, directions = np.linalg.eigh(curvature)
    slope, along = directions.T @ slope, along @ directions
    bends = bends + shift
    # What does not bend and has no slope to speak of stays; the quotient would be rounding.
    quiet = np.abs(slope) <= ROUNDING * scale
    quiet |= (np.abs(bends) <= floor) & (slope**2 <= floor * ROUNDING * scale)
    slope = np.where(quiet, 0.0, slope)
    down = bool(bends[0] < -floor)
    if not down:
        bends = np.maximum(bends, floor)
        step = -slope / bends
        if float(np.abs(along @ step).max(initial=0.0)) <= radius:
            return directions @ step, False
    best, size = _at_edge(slope, np.abs(bends), along, radius)
    if down and size < 0.5 * radius:
        # A saddle: there is no slope in the direction in which it bends down.
        sign = -1.0 if slope[0] > 0.0 else 1.0
        best[0] += sign * (radius - size) / float(np.abs(along[:, 0]).max())
    return directions @ best, True


def _at_edge(
    slope: FloatArray, bends: FloatArray, along: FloatArray, radius: float
) -> tuple[FloatArray, float]:
    """The step for the least μ that keeps it inside the radius, K diagonal and positive; its size."""
    best, size = np.zeros(len(slope)), 0.0
    if not slope.any():
        return best, size
    most = float(np.linalg.norm(slope)) / radius + TINY  # with this much it is inside
    low, high = float(np.log(RANGE * most)), float(np.log(most))
    for _ in range(REFINEMENTS):
        shifts: FloatArray = np.exp(np.linspace(low, high, SHIFTS))
        steps = -slope[:, None] / (bends[:, None] + shifts)  # (d, shifts)
        sizes: FloatArray = np.abs(along @ steps).max(axis=0, initial=0.0)
        inside = np.flatnonzero(sizes <= radius)
        first = int(inside[0]) if len(inside) else SHIFTS - 1
        best, size = steps[:, first], float(sizes[first])
        if first == 0 or size >= NEAR_EDGE * radius:
            break
        low, high = float(np.log(shifts[first - 1])), float(np.log(shifts[first]))
    return best * min(1.0, radius / max(size, TINY)), min(size, radius)


def _factored(
    slope: FloatArray, curvature: FloatArray, along: FloatArray, radius: float, least: float
) -> tuple[FloatArray, bool]:
    """As `_within` by Cholesky factors for a few μ from the least one."""
    most = float(np.linalg.norm(slope)) / radius + float(np.abs(curvature).sum(axis=1).max(initial=0.0))
    steps = int(np.ceil(np.log(max(most / least, 1.0)) / np.log(FACTOR))) + 1

    def solved(number: int) -> FloatArray | None:
        """The step for one of the μ; None where it is too long or K + μI not positive."""
        shifted = curvature + np.eye(len(slope)) * (least * FACTOR**number)
        try:
            np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            return None
        step = -np.asarray(np.linalg.solve(shifted, slope), np.float64)
        return step if float(np.abs(along @ step).max(initial=0.0)) <= radius else None

    step = solved(0)
    if step is not None:
        return step, False
    low, high, best = 0, steps, np.zeros(len(slope))
    while high - low > 1:
        middle = (low + high) // 2
        step = solved(middle)
        if step is None:
            low = middle
        else:
            high, best = middle, step
    if not best.any():
        best = -slope / most
    return best, True

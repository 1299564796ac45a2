# SPDX-License-Identifier: GPL-3.0-or-later
"""Terms over time that couple the frames of a motion, and the banded linear systems of coupled frames.

With d_f = u_f − p_f the terms over time are

    ½ Σ_f τ²/(h h_f) |d_{f+1} − d_f|² + ½ Σ_f a τ⁴/(h m_f) |v_{f+1} − v_f|²,      v_f = (d_{f+1} − d_f)/h_f,

squared speed and acceleration of the difference from the preferred pose, so that a recording that is its own
preferred pose stays as it is; h is the median of the steps h_f, m_f the mean of h_f and h_{f+1}, and a
`ACCELERATION`. As matrices they are T ⊗ S, T a symmetric band of three diagonals on either
side over the frames and S the diagonal of stiffnesses. So in Newton's system the blocks beside the diagonal
are diagonal matrices, and a block factorisation [GolubVanLoan §4.3] takes one inverse and two products for
each frame.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Final

import numpy as np

from ..arrays import FloatArray, IntArray

ACCELERATION: Final = 0.0625
"""Weight of squared accelerations by that of squared speeds [1], with times in τ."""


@dataclass(frozen=True)
class Band:
    """A symmetric band matrix T over F frames with two diagonals on either side."""

    diagonal: FloatArray
    """T_ff, (F,)."""
    first: FloatArray
    """T_{f,f+1}, (F − 1,)."""
    second: FloatArray
    """T_{f,f+2}, (F − 2,)."""

    def select(self, frames: IntArray) -> Band:
        """Rows and columns of some frames (n,), rising."""
        first = np.zeros(max(len(frames) - 1, 0))
        second = np.zeros(max(len(frames) - 2, 0))
        for distance, diagonal in ((1, self.first), (2, self.second)):
            for apart, some in ((1, first), (2, second)):
                near = np.flatnonzero(frames[apart:] - frames[:-apart] == distance)
                some[near] = diagonal[frames[near]]
        return Band(self.diagonal[frames], first, second)

    def times(self, deviation: FloatArray) -> FloatArray:
        """T applied to d (F, nv)."""
        result = self.diagonal[:, None] * deviation
        result[:-1] += self.first[:, None] * deviation[1:]
        result[1:] += self.first[:, None] * deviation[:-1]
        result[:-2] += self.second[:, None] * deviation[2:]
        result[2:] += self.second[:, None] * deviation[:-2]
        return result


@dataclass(frozen=True)
class Coupling:
    """Terms over time of a motion of F frames, and the share of each frame."""

    shares: FloatArray
    """Weight of each frame's own energy, (F,): its part of the time."""
    rates: FloatArray
    """1/h_f, (F − 1,) [1/s]."""
    speeds: FloatArray
    """Weight of each squared difference, (F − 1,) [1]."""
    accelerations: FloatArray
    """Weight of each squared difference of speeds, (F − 2,) [s²]."""

    @classmethod
    def of(cls, times: FloatArray, smoothness: float) -> Coupling:
        """Terms over time for frames at rising times (F,) [s], with a smoothness τ above 0 [s]."""
        frames = len(times)
        steps = np.diff(times)
        middle = np.median(steps) if len(steps) else 1.0
        shares = np.full(frames, 0.5)
        if frames > 1:
            shares = 0.5 * (np.append(steps, middle) + np.insert(steps, 0, middle)) / middle
        speeds = smoothness**2 / (steps * middle)
        mean = 0.5 * (steps[:-1] + steps[1:])
        return cls(shares, 1.0 / steps, speeds, ACCELERATION * smoothness**4 / (mean * middle))

    @cached_property
    def band(self) -> Band:
        """T."""
        speeds, accelerations, frames = self.speeds, self.accelerations, len(self.shares)
        diagonal, first, second = np.zeros(frames), np.zeros(max(frames - 1, 0)), np.zeros(max(frames - 2, 0))
        diagonal[:-1] += speeds
        diagonal[1:] += speeds
        first -= speeds
        # Second difference by divided differences: (d2 − d1)/h2 − (d1 − d0)/h1, over the mean step.
        a, c = self.rates[:-1], self.rates[1:]
        b = -(a + c)
        diagonal[:-2] += accelerations * a * a
        diagonal[1:-1] += accelerations * b * b
        diagonal[2:] += accelerations * c * c
        first[:-1] += accelerations * a * b
        first[1:] += accelerations * b * c
        second += accelerations * a * c
        return Band(diagonal, first, second)

    @cached_property
    def span(self) -> int:
        """How many frames of the median step τ spans; 1 at least, all at most."""
        usual = float(np.median(self.speeds)) if len(self.speeds) else 0.0
        return max(1, min(len(self.shares), ceil(np.sqrt(usual))))

    def loosened(self, forth: FloatArray, back: FloatArray, most: float) -> Coupling:
        """A copy with weaker terms where they would resist by more than a given force.

        Args:
            forth: How far frames have to go to the next one, (F − 1, m) [1].
            back: How far each of these next ones would have to go back, (F − 1, m) [1].
            most: Largest force of a term [1].
        """
        speeds = self.speeds * np.linalg.norm(forth, axis=1)
        change = self.rates[1:, None] * forth[1:] + self.rates[:-1, None] * back[:-1]
        accelerations = (
            self.accelerations * (self.rates[:-1] + self.rates[1:]) * np.linalg.norm(change, axis=1)
        )
        return replace(
            self,
            speeds=self.speeds * most / np.maximum(speeds, most),
            accelerations=self.accelerations * most / np.maximum(accelerations, most),
        )

    def weighted(self, weights: FloatArray | float) -> Coupling:
        """A copy in which the frames' own energies have other weights, times (F,) [1]."""
        return replace(self, shares=self.shares * weights)

    def part(self, frames: IntArray, deviation: FloatArray) -> Part:
        """The terms of some frames (n,), rising, while the others stay at d (F, nv)."""
        band = self.band.select(frames)
        of_fixed = self.band.times(deviation)[frames] - band.times(deviation[frames])
        return Part(self.shares[frames], band, of_fixed)


@dataclass(frozen=True)
class Part:
    """Terms over time of n frames of a motion, the others of which stay."""

    shares: FloatArray
    """Weight of each frame's own energy, (n,)."""
    band: Band
    """T of these frames."""
    of_fixed: FloatArray
    """T d with the frames that stay, (n, nv)."""

    def times(self, deviation: FloatArray) -> FloatArray:
        """T d of these frames for d (n, nv), those that stay included."""
        return self.band.times(deviation) + self.of_fixed

    def energies(self, own: FloatArray, deviation: FloatArray, stiffness: FloatArray) -> FloatArray:
        """Energies of frames with the terms over time, (n,), but for what the others have among themselves.

        From those of the frames alone, (n,), d (n, nv) and S (nv,).
        """
        over_time = np.einsum(
            "fv,v,fv->f", deviation, stiffness, 0.5 * self.band.times(deviation) + self.of_fixed
        )
        return np.asarray(self.shares * own + over_time, dtype=np.float64)


class BandFactors:
    """L D Lᵀ of block matrices with two diagonal matrices beside each block, for one motion."""

    def __init__(self, blocks: FloatArray, first: FloatArray, second: FloatArray) -> None:
        """Factorise.

        Args:
            blocks: On the diagonal, (F, n, n); they are overwritten.
            first: Diagonals of the blocks next to them, (F − 1, n).
            second: Of those after them, (F − 2, n).

        Raises:
            numpy.linalg.LinAlgError: The matrix is not positive definite.
        """
        self._inverse = blocks
        self._lower = np.empty_like(blocks[1:])
        """L_{f+1,f}."""
        self._second = second
        inverse, lower = self._inverse, self._lower
        for f, pivot in enumerate(blocks):
            if f:
                beside = np.diag(first[f - 1])
                if f > 1:
                    beside -= second[f - 2][:, None] * lower[f - 2].T
                    pivot -= second[f - 2][:, None] * inverse[f - 2] * second[f - 2]
                lower[f - 1] = beside @ inverse[f - 1]
                pivot -= lower[f - 1] @ beside.T
            np.linalg.cholesky(pivot)
            found = np.asarray(np.linalg.inv(pivot), dtype=np.float64)
            # What is not symmetric grows from frame to frame.
            np.multiply(found + found.T, 0.5, out=pivot)

    def solve(self, right: FloatArray) -> FloatArray:
        """The solution for a right side, (F, n)."""
        inverse, lower, second = self._inverse, self._lower, self._second
        y = right.copy()
        scaled = np.empty_like(y)
        for f in range(len(y)):
            if f:
                y[f] -= lower[f - 1] @ y[f - 1]
            if f > 1:
                y[f] -= second[f - 2] * scaled[f - 2]
            scaled[f] = inverse[f] @ y[f]
        x = scaled
        for f in range(len(y) - 2, -1, -1):
            x[f] -= lower[f].T @ x[f + 1]
            if f + 2 < len(y):
                x[f] -= inverse[f] @ (second[f] * x[f + 2])
        return x

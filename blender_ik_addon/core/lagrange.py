# SPDX-License-Identifier: GPL-3.0-or-later
"""One step on Lagrange's conditions, inside a box, for many frames at once.

Where tasks r(u) = 0 are to be met and of all poses that meet them that with the smallest ½|w(u)|² is wanted,
w = u − preferred where there is a preference, a step d has two parts [NocedalWright2006 §18.5, after Byrd and
Omojokun]:

- **towards the tasks**, the damped least squares step −Jᵀ(JJᵀ + λ²)⁻¹ r;
- **along the tasks**, in the null space of J, the step that lowers wᵀd + ½ dᵀH d. H = W + C is the Hessian of
  the Lagrangian, W that of ½|w|² and C = Σ_k y_k ∂²r_k/∂u∂u with the multipliers y of the tasks. It is
  found by conjugate gradients projected on the null space, cut short at the radius and where H bends down
  [Steihaug1983]: no matrix of nv × nv has to be there, let alone be solved. With few channels that matrix
  costs less than many small operations: where it bends upward, and the radius does not end the way, it is
  solved.

A channel that would leave its limits is stopped there and the step found again with the others. The sign of
its multiplier tells whether it is pressed against the limit or has to be let go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np

from .arrays import BoolArray, FloatArray, IntArray, frozen, times

SINGULAR: Final = 1e-12
"""Added to the diagonal of JJᵀ as a part of its largest entry [1]: tasks may ask for the same thing."""
SMALLEST: Final = 1e-6
"""Entry of JJᵀ [1] from which that is taken where no task can move anything."""
MULTIPLIER_DAMPING: Final = 1e-6
"""Likewise for multipliers [1], in scaled units, so that they stay moderate at singular poses."""

BOUND_ROUNDS: Final = 8
"""How often a step is found again because channels reached their limits."""
OUTSIDE: Final = 1e-12
"""Way beyond a limit [1], in scaled units, that is rounding."""
PRESSED: Final = 1e-9
"""Slope against a limit [1] that may have the wrong sign: rounding."""

SLIDES: Final = 60
"""Most conjugate directions of one step."""
SLIDE_TOLERANCES: Final = (1e-4, 0.1)
"""Parts of the gradient along the tasks [1] between which they have found the step, by its size."""
FLAT: Final = 1e-4
"""Curvature along a direction [1] that still bends upward."""
FACTORED: Final = 100
"""Channels [1] up to which the matrix of H is solved (measured)."""
TOGETHER: Final = 16
"""Matrices factored at once: of more, most would be factored again where one of them is not definite."""
LEAST_SLIDE: Final = 0.25
"""Part of the radius [1] that is kept for the way along the tasks, however far these are."""

_NO_ROOM: Final = frozen(np.zeros((1, 0)))

TINY: Final = 1e-300
"""Keeps 0 / 0 from being asked for."""


class Bend(Protocol):
    """H, how the Lagrangian bends, as far as a step must know it."""

    def matrix(self) -> FloatArray:
        """All of it, (F, nv, nv)."""
        ...

    def times(self, change: FloatArray) -> FloatArray:
        """H d for changes (F, nv)."""
        ...

    def select(self, frames: IntArray) -> Bend:
        """The same for some of the frames."""
        ...


class Box(NamedTuple):
    """How far channels may change."""

    down: FloatArray
    """(F, nv), at most 0."""
    up: FloatArray
    """(F, nv), at least 0."""
    radius: FloatArray
    """Largest change of those that no limit stops, (F,)."""
    limited: bool = True
    """Whether any channel has limits at all; without, there is no room to tell."""

    @classmethod
    def unlimited(cls, radius: FloatArray) -> Box:
        """A box of channels without limits."""
        return cls(_NO_ROOM, _NO_ROOM, radius, limited=False)

    def leaves(self, change: FloatArray) -> BoolArray:
        """Which changes (F, nv) end beyond a limit."""
        return (change < self.down - OUTSIDE) | (change > self.up + OUTSIDE)

    def clipped(self, change: FloatArray) -> FloatArray:
        """Changes (F, nv) up to the limits."""
        return np.clip(change, self.down, self.up)

    def holds(self, change: FloatArray, slope: FloatArray) -> BoolArray:
        """Which channels a limit stops that would otherwise go on, by the slope of the cost, (F, nv)."""
        return ((change <= self.down) & (slope >= -PRESSED)) | ((change >= self.up) & (slope <= PRESSED))


class Step(NamedTuple):
    """A step, with what it was made of."""

    change: FloatArray
    """d, (F, nv)."""
    multipliers: FloatArray
    """y, (F, m)."""
    newton: BoolArray
    """Whether nothing has cut it short: it is Newton's, (F,)."""
    slope: FloatArray
    """Derivative of the cost without the tasks' pull, after the step, (F, nv)."""
    jacobian: FloatArray
    """J of the free channels, (F, m, nv)."""
    square: FloatArray
    """JJᵀ + λ² of them, (F, m, m)."""

    def of_its_own(self) -> Step:
        """The same with arrays that nobody else has, so that frames of them may be replaced."""
        return Step(
            self.change.copy(),
            self.multipliers.copy(),
            self.newton.copy(),
            self.slope.copy(),
            self.jacobian.copy(),
            self.square.copy(),
        )

    def replace(self, frames: IntArray, other: Step) -> None:
        """Take some frames from another."""
        for own, of_other in zip(self, other, strict=True):
            own[frames] = of_other

    def correction(self, frames: IntArray, residual: FloatArray) -> FloatArray:
        """The change (f, nv) that takes away a residual (f, m) in some frames, by the same factors."""
        jacobian, square = self.jacobian, self.square
        if len(frames) < len(jacobian):
            jacobian, square = jacobian[frames], square[frames]
        return -_transposed(jacobian, _solved(square, residual))


class Conditions(NamedTuple):
    """Lagrange's conditions at a pose."""

    jacobian: FloatArray
    """J, (F, m, nv)."""
    residual: FloatArray
    """r, (F, m)."""
    damping: FloatArray
    """λ², (F,)."""
    away: FloatArray | None
    """w, (F, nv); None without a wish."""
    bend: Bend | None
    """H; None without a wish."""

    def solve(self, box: Box, standing: BoolArray) -> tuple[Step, BoolArray, BoolArray]:
        """Find a step inside a box.

        Args:
            box: Room and radius.
            standing: Channels that a limit holds and that do not move, (F, nv).

        Returns:
            The step, the channels that limits have stopped and hold (F, nv), and in which frames no stopped
            channel wants away from its limit (F,).
        """
        nothing = np.zeros(standing.shape, dtype=np.bool_)
        all_right = box.radius > 0.0
        if not box.limited:
            return self._found(None, None, box.radius), nothing, all_right
        free: BoolArray | None = ~standing if standing.any() else None
        stopped = None if free is None else np.zeros_like(box.down)
        step = self._found(free, stopped, box.radius)
        for number in range(BOUND_ROUNDS):
            outside = box.leaves(step.change)
            if free is not None:
                outside &= free
            (index,) = np.logical_or.reduce(outside, axis=1).nonzero()
            if not len(index):
                break
            if number == 0:
                step = step.of_its_own()
            clipped = box.clipped(step.change)
            stopped = np.where(outside, clipped, 0.0 if stopped is None else stopped)
            free = ~outside if free is None else free & ~outside
            step.replace(index, self._select(index)._found(free[index], stopped[index], box.radius[index]))
        if free is None:
            return step, nothing, all_right
        step.change[:] = box.clipped(step.change)
        held = ~free & box.holds(step.change, self.slope(step))
        signs_right: BoolArray = np.logical_and.reduce(held | free, axis=1)
        return step, held, signs_right

    def slope(self, step: Step) -> FloatArray:
        """Derivative of the cost with the tasks' pull, after a step, (F, nv): 0 where a channel is free."""
        return step.slope + _transposed(self.jacobian, step.multipliers)

    def _select(self, frames: IntArray) -> Conditions:
        """Some of the frames."""
        if len(frames) == len(self.residual):
            return self
        return Conditions(
            self.jacobian[frames],
            self.residual[frames],
            self.damping[frames],
            None if self.away is None else self.away[frames],
            None if self.bend is None else self.bend.select(frames),
        )

    def _found(self, free: BoolArray | None, stopped: FloatArray | None, radius: FloatArray) -> Step:
        """The step with some channels free (None: all) and the others at given changes."""
        jacobian, residual = self.jacobian, self.residual
        if free is not None and stopped is not None:
            residual = residual + times(jacobian, stopped)
            jacobian = jacobian * free[:, None, :]
        gram = jacobian @ jacobian.swapaxes(1, 2)
        floor = SINGULAR * np.maximum.reduce(_diagonal(gram), axis=1, initial=SMALLEST)
        square = gram if self.away is None else gram.copy()
        add_diagonal(square, (self.damping + floor)[:, None])
        multipliers = _solved(square, residual)
        towards, size, newton = _within(-_transposed(jacobian, multipliers), radius)
        change = towards if stopped is None else stopped + towards
        slope = change
        if self.away is not None and self.bend is not None:
            slope = self.away + self.bend.times(change)
            add_diagonal(gram, floor[:, None])
            null = _NullSpace(jacobian, np.asarray(np.linalg.inv(gram), np.float64), free)
            along, slid, uncut = self._along(slope, null, np.maximum(radius - size, LEAST_SLIDE * radius))
            change, slope, newton = change + along, slope + slid, newton & uncut
            multipliers = null.multipliers(slope)  # the way towards the tasks is done, it pulls no more
        return Step(change, multipliers, newton, slope, jacobian, square)

    def _along(
        self, gradient: FloatArray, null: _NullSpace, radius: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """The way along the tasks, by the matrix where that serves; arguments and result as for `_slide`."""
        assert self.bend is not None
        frames, size = gradient.shape
        if size > FACTORED:
            return self._slide(gradient, null, radius)
        # Across the tasks, and in channels that are not free, the identity: nothing is asked for there.
        curvature = np.eye(size) + null.projected_matrix(self.bend.matrix() - np.eye(size))
        asked = null.projected(gradient)
        change = -null.projected(_solved_or_nothing(curvature, asked))
        # Whether it bends upward has to be told only where its solution would be taken, if it does.
        short = np.abs(change).max(axis=1, initial=0.0) <= radius
        short &= np.einsum("fv,fv->f", asked, change) <= 0.0
        (index,) = short.nonzero()
        short[index] = _definite(curvature[index] - FLAT * np.eye(size)) if len(index) else True
        change[~short] = 0.0
        product = self.bend.times(change)
        uncut = np.ones(frames, dtype=np.bool_)
        (rest,) = np.nonzero(~short)
        if len(rest):
            change[rest], product[rest], uncut[rest] = self._select(rest)._slide(
                gradient[rest], null.select(rest), radius[rest]
            )
        return change, product, uncut

    def _slide(
        self, gradient: FloatArray, null: _NullSpace, radius: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Conjugate gradients for min gᵀx + ½ xᵀH x along the tasks, |x| within a radius.

        Returns:
            x (F, nv), H x (F, nv), and where neither the radius nor H has cut it short (F,).
        """
        assert self.bend is not None
        left = null.projected(gradient)
        direction = -left
        size = _squared(left)
        # As exact as quadratic convergence needs it [NocedalWright2006 §7.1].
        enough = np.clip(size, SLIDE_TOLERANCES[0] ** 2, SLIDE_TOLERANCES[1] ** 2) * size
        change, product = np.zeros_like(gradient), np.zeros_like(gradient)
        working: BoolArray = size > TINY
        uncut = np.ones(len(gradient), dtype=np.bool_)
        for _ in range(SLIDES):
            if not working.any():
                break
            ahead = self.bend.times(direction)
            bends = np.einsum("fv,fv->f", direction, ahead)
            down = bends <= FLAT * _squared(direction)
            length = working * size / np.where(down, 1.0, bends)
            candidate = change + length[:, None] * direction
            cut = working & (down | (np.abs(candidate).max(axis=1, initial=0.0) > radius))
            if cut.any():
                length = np.where(cut, _up_to(change, direction, radius), length)
                candidate = change + length[:, None] * direction
                uncut &= ~cut
            change = candidate
            product += length[:, None] * ahead
            left = left + length[:, None] * null.projected(ahead)
            before, size = size, _squared(left)
            working &= ~cut & (size > enough)
            direction = (np.where(working, size / np.maximum(before, TINY), 0.0))[:, None] * direction - left
        return change, product, uncut


@dataclass(frozen=True)
class _NullSpace:
    """The changes that no task feels."""

    jacobian: FloatArray
    """J of the free channels, (F, m, nv)."""
    inverse: FloatArray
    """(JJᵀ)⁻¹, (F, m, m)."""
    free: BoolArray | None
    """Free channels, (F, nv); None for all."""

    def select(self, frames: IntArray) -> _NullSpace:
        """The same for some of the frames."""
        free = None if self.free is None else self.free[frames]
        return _NullSpace(self.jacobian[frames], self.inverse[frames], free)

    def multipliers(self, gradient: FloatArray) -> FloatArray:
        """Those with Jᵀy = −gradient as nearly as can be, (F, m)."""
        return -times(self.inverse, times(self.jacobian, gradient))

    def projected_matrix(self, matrix: FloatArray) -> FloatArray:
        """P C P of symmetric matrices C (F, nv, nv), P = 1 − Jᵀ(JJᵀ)⁻¹J, by products with J alone."""
        if self.free is not None:
            matrix = matrix * self.free[:, :, None] * self.free[:, None, :]
        inverse = self.inverse @ self.jacobian  # (F, m, nv)
        bent = matrix @ np.swapaxes(inverse, 1, 2)
        bent = bent - 0.5 * (np.swapaxes(self.jacobian, 1, 2) @ (inverse @ bent))
        across = bent @ self.jacobian
        return matrix - across - np.swapaxes(across, 1, 2)

    def projected(self, gradient: FloatArray) -> FloatArray:
        """What of a gradient (F, nv) lies along the tasks."""
        if self.free is not None:
            gradient = gradient * self.free
        return gradient + _transposed(self.jacobian, self.multipliers(gradient))


def multipliers_of(
    jacobian: FloatArray, gradient: FloatArray, damping: FloatArray | float = MULTIPLIER_DAMPING
) -> FloatArray:
    """Multipliers that come nearest to Jᵀy = −gradient and stay moderate, (F, m); the damping is (F, 1)."""
    square = jacobian @ np.swapaxes(jacobian, -1, -2)
    add_diagonal(square, damping)
    return -_solved(square, times(jacobian, gradient))


def add_diagonal(matrices: FloatArray, value: FloatArray | float) -> None:
    """Add to the diagonals of contiguous square matrices (F, m, m); the value is (F, 1) or one for all."""
    diagonal = _diagonal(matrices)
    diagonal += value


def _diagonal(matrices: FloatArray) -> FloatArray:
    """The diagonals of contiguous square matrices (F, m, m), to be written to, (F, m)."""
    size = matrices.shape[-1]
    return matrices.reshape(len(matrices), size * size)[:, :: size + 1]


def _transposed(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """The transposed matrices' products, (F, m, n) and (F, m) -> (F, n)."""
    return (vectors[:, None, :] @ matrices)[:, 0]


def _solved(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """(F, m, m) and (F, m) -> (F, m)."""
    return np.asarray(np.linalg.solve(matrices, vectors[..., None]), np.float64)[..., 0]


def _solved_or_nothing(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """`_solved`, and zero where a matrix is singular."""
    try:
        return _solved(matrices, vectors)
    except np.linalg.LinAlgError:
        if len(matrices) > 1:
            halves = zip(np.array_split(matrices, 2), np.array_split(vectors, 2), strict=True)
            return np.concatenate([_solved_or_nothing(*half) for half in halves])
        return np.zeros_like(vectors)


def _definite(matrices: FloatArray) -> BoolArray:
    """Which symmetric matrices (F, n, n) bend upward in every direction, (F,)."""
    if len(matrices) > TOGETHER:
        parts = np.array_split(matrices, -(-len(matrices) // TOGETHER))
    else:
        try:
            np.linalg.cholesky(matrices)
        except np.linalg.LinAlgError:  # of one of them, it is not told of which
            if len(matrices) == 1:
                return np.zeros(1, dtype=np.bool_)
            parts = np.array_split(matrices, min(4, len(matrices)))
        else:
            return np.ones(len(matrices), dtype=np.bool_)
    return np.concatenate([_definite(part) for part in parts])


def _squared(vectors: FloatArray) -> FloatArray:
    """(F, n) -> (F,)."""
    return np.einsum("fv,fv->f", vectors, vectors)


def _within(change: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """A change (F, nv) shortened to a radius (F,), the largest of it as it was, and where that was inside."""
    size = np.maximum.reduce(np.abs(change), axis=1, initial=0.0)
    inside = size <= radius
    if not inside.all():
        change = change * np.minimum(1.0, radius / np.maximum(size, TINY))[:, None]
    return change, size, inside


def _up_to(change: FloatArray, direction: FloatArray, radius: FloatArray) -> FloatArray:
    """How many times a direction (F, nv) leads from a change inside the radius to it, (F,)."""
    room = np.where(direction > 0.0, radius[:, None] - change, radius[:, None] + change)
    share = room / np.maximum(np.abs(direction), TINY)
    return np.maximum(share.min(axis=1, initial=np.inf), 0.0)

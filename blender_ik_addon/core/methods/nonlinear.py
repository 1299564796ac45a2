# SPDX-License-Identifier: GPL-3.0-or-later
"""NONLINEAR: [KiSheen eq. 3.1] minimised for smaller and smaller γ, each from the minimum of the one before.

[KiSheen §3] minimises F(q) = |X − f(q)|² + γ²|q|² subject to l ≤ q ≤ u, with the gradient
−2Jᵀ(X − f(q)) + 2γ²q (printed as 2γq, an erratum). Here q is measured from the preferred pose, in scaled
units. A small γ leaves little of the error, but makes the problem ill-conditioned far from the solution; so
the first γ is large, or smaller where the error is small already. At a minimum an error of the order of γ²
remains: a last minimisation without the preferred pose removes it, and hardly moves what the tasks leave
free.

**The minimiser** is a limited-memory BFGS that keeps to bounds [ByrdLuNocedalZhu1995]. The Hessian is B = θI
− W M Wᵀ from the last steps s and changes of the gradient y, with W = [Y, θS]; a body has so few channels
that B is formed as a dense matrix. Each iteration

1. follows the projected gradient path x(t) = P(x − t g), on which the quadratic model is piecewise quadratic,
   to the model's first minimum, the generalised Cauchy point: that decides which bounds are active;
2. minimises the model over the remaining channels, and shortens the step so that it stays inside the bounds;
3. searches along the straight line to that point, which is feasible as the box is convex, for a sufficient
   decrease.

A pair (s, y) with too little curvature is not taken, so that B stays positive definite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from ..arrays import FloatArray
from ..errors import IKError
from ..problem.options import SolverOptions
from ..problem.system import System
from .loop import Iteration
from .step_rules import STANDSTILL, pseudo_inverse

FIRST_GAMMA: Final = 0.3
"""γ of the first minimisation [1], at an error of the reach or more."""

GAMMA_FACTOR: Final = 0.1
"""Factor of γ from one minimisation to the next [1], down to that of the options."""

LOOSE: Final = 0.05
"""Slope against γ² [1] at which a minimisation is good enough to start the next one from."""

TIGHT: Final = 1e-3
"""Slope against γ² [1] for the smallest γ, whose minimum decides the remaining freedom."""

FARTHEST: Final = 1e100
"""Step [1 / the slope] along a line on which the model decreases without end."""


def penalized_error(
    error: FloatArray, jacobian: FloatArray, away: FloatArray, gamma: float
) -> tuple[float, FloatArray]:
    """F = |X − f(q)|² + γ²|q − preferred|² and its gradient [KiSheen eq. 3.1, 3.2].

    Args:
        error: e = X − f(q), (m,).
        jacobian: ∂f/∂q, (m, n).
        away: q − preferred, (n,).
        gamma: γ.
    """
    value = float(error @ error + gamma**2 * (away @ away))
    return value, -2.0 * (jacobian.T @ error) + 2.0 * gamma**2 * away


class NonlinearProgram(Iteration):
    """Bounded minimisations, one after the other."""

    def __init__(self, system: System, start: FloatArray, options: SolverOptions) -> None:
        super().__init__(system, start, options)
        gammas = _gammas(options.gamma) if self.prefers and options.gamma > 0.0 else [0.0]
        # Where the error is below γ, that minimisation would only move the pose away from the targets.
        skipped = sum(gamma > self.at.error for gamma in gammas[:-2])
        self.most_iterations *= len(gammas)  # each minimisation has as many as the options say
        self._left = gammas[skipped:]
        """γ of the present minimisation, then of those that follow."""
        self._descent = self._minimisation()

    def iterate(self) -> None:
        """Run one iteration of the present minimisation."""
        stacked, descent = self.stacked, self._descent
        descent.iterate()
        change = descent.values - self.at.values * stacked.weight
        self.at = stacked.evaluate(stacked.moved(self.at.values, change))
        self.errors.append(self.at.error)
        if len(self._left) > 1:
            if descent.converged or descent.iterations >= self.options.max_iterations:
                self._left = self._left[1:]
                self._descent = self._minimisation()
        elif descent.converged:
            beside = stacked.off_saddle(self.at) if self.at.error > self.margin else None
            if beside is None:
                self.converged = True
            else:
                self.at = beside
                self._descent = self._minimisation()

    def _minimisation(self) -> BoundedDescent:
        """The one with the next γ, from where the pose is."""
        gamma, stacked = self._left[0], self.stacked
        weight = stacked.weight

        def cost(u: FloatArray) -> tuple[float, FloatArray]:
            at = stacked.evaluate(u / weight)
            return penalized_error(-at.residual, stacked.jacobian(at), at.posture, gamma)

        # At a minimum Jᵀr = γ²w: a slope that is small against γ² leaves little of both.
        accuracy = TIGHT if gamma == self.options.gamma else LOOSE
        return BoundedDescent(
            cost,
            self.at.values * weight,
            stacked.lower * weight,
            stacked.upper * weight,
            tolerance=gamma**2 * accuracy if gamma else self.margin,
        )


def _gammas(last: float) -> Sequence[float]:
    """From the first γ by tenths to the last, then none."""
    gammas = [last]
    while gammas[-1] < FIRST_GAMMA:
        gammas.append(min(gammas[-1] / GAMMA_FACTOR, FIRST_GAMMA))
    return [*gammas[::-1], 0.0]


# The minimiser

MEMORY: Final = 10
"""Pairs of changes kept, as L-BFGS-B has it by default."""

ARMIJO: Final = 1e-4
"""Part [1] of the decrease predicted by the slope that a step must achieve."""

FIRST_STEP: Final = 1.0
"""Longest step [rad] before the Hessian is estimated: a longer one would turn joints right round."""

CURVATURE: Final = 1e-12
"""Least sᵀy as a part of |s| |y| [1] at which a pair is taken."""

SEARCHES: Final = 30
"""Most evaluations of a line search; each shortens the step at least by half."""

SHORTEN: Final = (0.1, 0.5)
"""Least and largest factor [1] by which a line search shortens its step."""

ROUNDING: Final = 1e-15
"""Relative change of the value [1] that counts as none."""

IDLE: Final = 3
"""Iterations in a row without a change of the value after which the descent has converged."""


Function = Callable[[FloatArray], tuple[float, FloatArray]]
"""Value and gradient (n,) at a point (n,)."""


class BoundedDescent:
    """A function minimised within bounds by L-BFGS [ByrdLuNocedalZhu1995], one iteration after the other."""

    def __init__(
        self, function: Function, start: FloatArray, lower: FloatArray, upper: FloatArray, *, tolerance: float
    ) -> None:
        """Evaluate the start.

        Args:
            start: Where to start, (n,); brought inside the bounds.
            lower: (n,), may be −inf.
            upper: (n,), may be inf.
            tolerance: Largest element of the projected gradient at which a point counts as a minimum.
        """
        self._lower, self._upper = (
            np.broadcast_to(bound, start.shape).astype(np.float64) for bound in (lower, upper)
        )
        if not (self._lower <= self._upper).all():
            raise IKError("a lower bound lies above its upper bound, or is not a number")
        self._function, self._tolerance = function, tolerance
        self.values: FloatArray = self._inside(np.asarray(start, dtype=np.float64))
        """Present point, (n,), inside the bounds."""
        self.value, self.gradient = function(self.values)
        """Value and gradient there."""
        if not (np.isfinite(self.value) and np.isfinite(self.gradient).all()):
            raise IKError("the function or its gradient is not finite at the start")
        self._model = _HessianEstimate(len(self.values))
        self.iterations = 0
        """Iterations so far."""
        self._idle = 0
        self.converged = self._is_flat()
        """Whether the slope is within the tolerance, or no step lowers the value any more."""

    def _inside(self, values: FloatArray) -> FloatArray:
        return np.clip(values, self._lower, self._upper)

    def _is_flat(self) -> bool:
        """Whether all elements of x − P(x − g) are within the tolerance."""
        x = self.values
        return float(np.abs(x - self._inside(x - self.gradient)).max(initial=0.0)) <= self._tolerance

    def iterate(self) -> None:
        """Run one iteration, if it has not converged."""
        if self.converged:
            return
        x, value, model = self.values, self.value, self._model
        direction = _search_direction(x, self.gradient, self._lower, self._upper, model.hessian)
        length = max(float(np.linalg.norm(direction)), FIRST_STEP)
        found = self._line_search(direction, 1.0 if model.pairs else FIRST_STEP / length)
        if found is None:
            # The model may be inaccurate: the gradient is tried once more without it.
            self.converged = not model.pairs
            model.forget()
        else:
            step, self.value, gradient = found
            self.values = self._inside(x + step * direction)
            model.add(self.values - x, gradient - self.gradient)
            self.gradient = gradient
            self._idle = self._idle + 1 if value - self.value <= ROUNDING * abs(self.value) else 0
            self.converged = self._idle >= IDLE or self._is_flat()
        self.iterations += 1

    def _line_search(self, direction: FloatArray, step: float) -> tuple[float, float, FloatArray] | None:
        """Backtrack from a step until the decrease is sufficient (Armijo), by minima of parabolas.

        Returns:
            The step [1], value and gradient there; None where nothing is lower.
        """
        slope = float(direction @ self.gradient)
        if not slope < 0.0:
            return None
        for _ in range(SEARCHES):
            tried, gradient = self._function(self._inside(self.values + step * direction))
            if np.isfinite(tried) and tried <= self.value + ARMIJO * step * slope:
                return step, tried, gradient
            minimum = 0.0
            if np.isfinite(tried):
                curvature = (tried - self.value) / step - slope
                minimum = -0.5 * slope * step / max(curvature, np.finfo(np.float64).tiny)
            step *= float(np.clip(minimum / step, *SHORTEN))
        return None


class _HessianEstimate:
    """B from the last steps and changes of the gradient [ByrdLuNocedalZhu1995 eq. 3.2 to 3.4]."""

    def __init__(self, n: int) -> None:
        self._n = n
        self.forget()

    def forget(self) -> None:
        """Reset B to the identity."""
        self.pairs: list[tuple[FloatArray, FloatArray]] = []
        self.hessian: FloatArray = np.eye(self._n)
        """B, (n, n)."""

    def add(self, s: FloatArray, y: FloatArray) -> None:
        """Take a pair if it has curvature."""
        product = float(s @ y)
        if product <= CURVATURE * float(np.linalg.norm(s) * np.linalg.norm(y)):
            return
        self.pairs = [*self.pairs, (s, y)][-MEMORY:]
        theta = float(y @ y) / product
        big_s, big_y = (np.stack(each, axis=1) for each in zip(*self.pairs, strict=True))  # (n, k)
        products = big_s.T @ big_y
        lower, diagonal = np.tril(products, -1), np.diag(np.diag(products))
        w = np.concatenate([big_y, theta * big_s], axis=1)
        inverse = np.block([[-diagonal, lower.T], [lower, theta * big_s.T @ big_s]])
        self.hessian = theta * np.eye(self._n) - w @ pseudo_inverse(inverse) @ w.T


def _search_direction(
    x: FloatArray, gradient: FloatArray, lower: FloatArray, upper: FloatArray, hessian: FloatArray
) -> FloatArray:
    """From x to the minimum of the model over the channels that the Cauchy point leaves free, (n,)."""
    cauchy = _cauchy_point(x, gradient, lower, upper, hessian)
    free = np.flatnonzero((cauchy > lower) & (cauchy < upper))
    to_cauchy = cauchy - x
    reduced = (gradient + hessian @ to_cauchy)[free]
    try:
        step = -np.linalg.solve(hessian[np.ix_(free, free)], reduced)
    except np.linalg.LinAlgError:  # singular to rounding: the model has no minimum beyond the Cauchy point
        return to_cauchy
    room = np.where(step > 0.0, upper[free] - cauchy[free], lower[free] - cauchy[free])
    inside = np.divide(room, step, out=np.full_like(step, np.inf), where=np.abs(step) > STANDSTILL)
    direction = np.array(to_cauchy)
    direction[free] += min(1.0, float(inside.min(initial=1.0))) * step
    return direction if float(direction @ gradient) < 0.0 else to_cauchy


def _cauchy_point(
    x: FloatArray, gradient: FloatArray, lower: FloatArray, upper: FloatArray, hessian: FloatArray
) -> FloatArray:
    """First minimum of the model along P(x − t g), (n,) [ByrdLuNocedalZhu1995 §4]."""
    room = np.where(gradient < 0.0, x - upper, x - lower)
    slopes = np.abs(gradient) > STANDSTILL
    breaks = np.divide(room, gradient, out=np.full_like(x, np.inf), where=slopes)  # t_i >= 0
    ends, cauchy, t = np.where(gradient < 0.0, upper, lower), x, 0.0
    for until in np.unique(breaks[breaks > 0.0]):
        direction = np.where(breaks > t, -gradient, 0.0)
        slope = float((gradient + hessian @ (cauchy - x)) @ direction)
        if slope >= 0.0:
            break
        best = t - slope / max(float(direction @ hessian @ direction), -slope / FARTHEST)
        t = min(best, float(until))
        cauchy = np.where(breaks <= t, ends, np.clip(x - t * gradient, lower, upper))
        if best < until:
            break
    return cauchy

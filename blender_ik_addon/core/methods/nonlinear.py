# SPDX-License-Identifier: GPL-3.0-or-later
"""NONLINEAR: [KiSheen eq. 3.1] minimised for smaller and smaller γ, each from the minimum of the one before.

[KiSheen §3] minimises F(q) = |X − f(q)|² + γ²|q|² subject to l ≤ q ≤ u, with the gradient
−2Jᵀ(X − f(q)) + 2γ²q (printed as 2γq, an erratum). Here q is measured from the preferred pose, in scaled
units. A small γ leaves little of the error, but its valley is too narrow to be walked from afar; so it begins
with one that is large, or less where the error is small already. γ² of the preferred pose is left in the
errors: a last minimisation without it, from where it is nearly met, takes that out and hardly moves what the
tasks leave free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..arrays import FloatArray
from ..problem.options import SolverOptions
from ..problem.system import System
from .bounded_bfgs import BoundedDescent
from .loop import Iteration

FIRST_GAMMA: Final = 0.3
"""γ of the first minimisation [1], at an error of the reach or more."""

GAMMA_FACTOR: Final = 0.1
"""Factor of γ from one minimisation to the next [1], down to that of the options."""

ROUGHLY: Final = 0.05
"""Slope against γ² [1] at which a minimisation is good enough to start the next one from."""

CLOSELY: Final = 1e-3
"""Slope against γ² [1] for the smallest γ, whose minimum decides the remaining freedom."""


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
        # Errors that are small against a γ are not worth going away from.
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
                self.settled = True
            else:
                self.at = beside
                self._descent = self._minimisation()

    def _minimisation(self) -> BoundedDescent:
        """The one with the next γ, from where the pose is."""
        gamma, stacked = self._left[0], self.stacked
        weight, system = stacked.weight, stacked.system

        def cost(u: FloatArray) -> tuple[float, FloatArray]:
            at = stacked.evaluate(u / weight)
            return penalized_error(-at.residual, stacked.jacobian(at), at.posture, gamma)

        # At a minimum Jᵀr = γ²w: a slope that is small against γ² leaves little of both.
        closeness = CLOSELY if gamma == self.options.gamma else ROUGHLY
        return BoundedDescent(
            cost,
            self.at.values * weight,
            system.lower * weight,
            system.upper * weight,
            tolerance=gamma**2 * closeness if gamma else self.margin,
        )


def _gammas(last: float) -> Sequence[float]:
    """From the first γ by tenths to the last, then none."""
    gammas = [last]
    while gammas[-1] < FIRST_GAMMA:
        gammas.append(min(gammas[-1] / GAMMA_FACTOR, FIRST_GAMMA))
    return [*gammas[::-1], 0.0]

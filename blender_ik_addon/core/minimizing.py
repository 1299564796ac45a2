# SPDX-License-Identifier: GPL-3.0-or-later
"""NONLINEAR: [KiSheen eq. 3.1] minimised for smaller and smaller γ, each from the answer to the one before.

F = |X − f(q)|² + γ²|q − preferred|² in scaled units, within the limits. A small γ leaves little of the error,
but its valley is too narrow to be walked from afar; so it begins with one that is large, or less where the
error is small already. γ² of the preferred pose is left in the errors: a last minimisation without it, from
where it is nearly met, takes that out and hardly moves what the tasks leave free.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .arrays import FloatArray
from .iterating import Iteration
from .nonlinear import BoundedDescent, penalized_error
from .objective import Objective
from .options import SolverOptions

FIRST_GAMMA: Final = 0.3
"""γ of the first minimisation [1], at an error of the reach or more."""

GAMMA_FACTOR: Final = 0.1
"""What each further one has of it [1], down to that of the options."""

ROUGHLY: Final = 0.05
"""Slope against γ² [1] at which a minimisation is good enough to start the next one from."""

CLOSELY: Final = 1e-3
"""The same for the smallest γ, whose answer decides what the tasks leave free."""


class Minimization(Iteration):
    """[KiSheen eq. 3.1] for smaller and smaller γ, each from the answer to the one before."""

    def __init__(self, objective: Objective, start: FloatArray, options: SolverOptions, slack: float) -> None:
        """Prepare; arguments as for every iteration."""
        super().__init__(objective, start, options, slack)
        wish = options.preferred_pose and objective.wishes and options.gamma > 0.0
        self._gammas = _gammas(options.gamma) if wish else [0.0]
        # Errors that are small against a γ are not worth going away from.
        skipped = (np.array(self._gammas[:-2]) > self.point.norms[:, :1]).sum(axis=1)
        self._stages = skipped - 1
        """Which of the γ each frame is at, (F,)."""
        self._descents: dict[int, BoundedDescent] = {}
        for frame in np.flatnonzero(~self.settled):
            self._go_on(int(frame))

    @property
    def most_iterations(self) -> int:
        """Each minimisation has as many as the options say."""
        return self._options.max_iterations * len(self._gammas)

    def iterate(self) -> None:
        """One more of each frame that is not done."""
        self.iterations += 1
        objective, weight = self._objective, self._objective.weight
        before = self.point.values
        values = np.array(before)
        for frame, descent in self._descents.items():
            if not self.settled[frame]:
                descent.iterate()
                change = descent.values - before[frame] * weight
                values[frame] = objective.moved(before[frame], change)
        self.point = objective.at(values)
        self.history.append(self.point.norms[:, :-1])
        for frame in np.flatnonzero(~self.settled):
            descent = self._descents[int(frame)]
            last = self._stages[frame] == len(self._gammas) - 1
            if last and descent.converged:
                values = self._off_saddle(int(frame)) if self.point.norms[frame, 0] > self._slack else None
                if values is None:
                    self.settled[frame] = True
                else:
                    self._go_on(int(frame), values)
            elif not last and (descent.converged or descent.iterations >= self._options.max_iterations):
                self._go_on(int(frame))

    def _go_on(self, frame: int, elsewhere: FloatArray | None = None) -> None:
        """Begin with the next γ of a frame, or with the same from other values (nv,)."""
        if elsewhere is None:
            self._stages[frame] += 1
        values: FloatArray = self.point.values[frame] if elsewhere is None else elsewhere
        stage = int(self._stages[frame])
        gamma = self._gammas[stage]
        objective = self._objective.select(np.array([frame]))
        weight, system = objective.weight, objective.system

        def cost(u: FloatArray) -> tuple[float, FloatArray]:
            point = objective.at(objective.clipped((u / weight)[None]))
            level = objective.linearize(point)[0]
            return penalized_error(-level.residual[0], level.jacobian[0], point.residuals[-1][0], gamma)

        # At a minimum Jᵀr = γ²w: a slope that is small against γ² leaves little of both.
        smallest = gamma == self._options.gamma
        tolerance = gamma**2 * (CLOSELY if smallest else ROUGHLY) if gamma else self._slack
        self._descents[frame] = BoundedDescent(
            cost,
            values * weight,
            system.lower * weight,
            system.upper * weight,
            tolerance=tolerance,
        )


def _gammas(last: float) -> list[float]:
    """From the first γ by tenths to the last, then none."""
    gammas = [last]
    while gammas[-1] < FIRST_GAMMA:
        gammas.append(min(gammas[-1] / GAMMA_FACTOR, FIRST_GAMMA))
    return [*gammas[::-1], 0.0]

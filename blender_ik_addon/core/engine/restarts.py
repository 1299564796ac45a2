# SPDX-License-Identifier: GPL-3.0-or-later
"""Other poses to start from, where targets that may be reachable are missed.

The energy has local minima: a knee that was asked to bend backwards is stuck at its limit although the leg,
turned half round, would reach. Starts that are spread over the limits find the others; which one is best the
energy tells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from ..arrays import FloatArray
from ..options import SolverOptions
from .energy import Energy
from .kernel import Minimum, minimise

SEED: Final = 1
"""Of the generator, the same in every solve: a solve is repeatable."""
RANGE: Final = (1.6, 0.3)
"""How far from the preferred value channels without limits start at most, angles [rad] and places [reach]."""
LOWER: Final = 1e-3
"""Part of the energy [1] by which another start must lower it to be taken: less is no better pose."""
AT_ONCE: Final = 256
"""Starts worked on at once [1]: what their matrices take is tens of megabytes."""


def best_minimum(
    energy: Energy,
    values: FloatArray,
    options: SolverOptions,
    tolerance: FloatArray,
    callback: Callable[[int, FloatArray], bool] | None = None,
    *,
    far: bool = True,
) -> Minimum:
    """The lowest minimum found for each frame: from given values, and from others where it misses targets.

    Args:
        energy: Of N frames.
        values: Where the body is, (N, nv) [m, rad]: taken unless another start leads lower by more than
            `LOWER`.
        options: How exactly, and how many restarts there are.
        tolerance: Largest error at which each task counts as reached, (T,) [m] or [rad].
        callback: As for `minimise`, for the first start alone.
        far: Likewise.
    """
    found = _minimum(energy, values, options, callback, far=far)
    count = options.restarts if energy.levels and not found.cancelled else 0
    if not count:
        return found
    frames = np.flatnonzero((energy.system.errors(found.posed) > tolerance).any(axis=1))
    if not len(frames):
        return found
    best, energies = found.values.copy(), found.energies.copy()
    settled, iterations = found.settled.copy(), found.iterations.copy()
    for block in np.array_split(frames, -(-len(frames) * count // AT_ONCE)):
        starts = np.concatenate(
            [random_starts(energy.select(block[i : i + 1]), count) for i in range(len(block))]
        )
        others = _minimum(energy.select(block.repeat(count)), starts, options, None, far=True)
        by_frame = others.energies.reshape(len(block), count)
        lowest = np.arange(len(block)) * count + by_frame.argmin(axis=1)
        better = others.energies[lowest] < (1.0 - LOWER) * energies[block]
        iterations[block] += others.iterations.reshape(len(block), count).max(axis=1)
        taken, lowest = block[better], lowest[better]
        best[taken], energies[taken] = others.values[lowest], others.energies[lowest]
        settled[taken] = others.settled[lowest]
    end = energy.at(best)
    history = (*found.history, end.norms) if found.history else ()
    return replace(
        found,
        values=best,
        posed=end.posed,
        energies=energies,
        settled=settled,
        iterations=iterations,
        history=history,
    )


def _minimum(
    energy: Energy,
    values: FloatArray,
    options: SolverOptions,
    callback: Callable[[int, FloatArray], bool] | None,
    *,
    far: bool,
) -> Minimum:
    return minimise(
        energy,
        values,
        step_tolerance=options.step_tolerance,
        max_iterations=options.max_iterations,
        max_angle=options.max_angle,
        far=far,
        callback=callback,
    )


def random_starts(energy: Energy, count: int) -> FloatArray:
    """Values spread evenly inside the limits, (count, nv) [m, rad]; for an energy of one frame."""
    preferred = energy.preferred[0] / energy.weight
    angle, part = RANGE
    room = np.where(energy.system.rotates, angle, part * energy.system.problem.skeleton.reach)
    lower = np.where(np.isfinite(energy.lower), energy.lower, np.minimum(preferred, energy.upper) - room)
    upper = np.where(np.isfinite(energy.upper), energy.upper, np.maximum(preferred, energy.lower) + room)
    return lower + np.random.default_rng(SEED).random((count, len(lower))) * (upper - lower)

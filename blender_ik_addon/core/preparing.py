# SPDX-License-Identifier: GPL-3.0-or-later
"""Stopping criteria: when a task counts as reached, and when an error as nothing."""

from __future__ import annotations

import numpy as np

from .arrays import FloatArray
from .options import SolverOptions
from .system import System


def tolerance_margin(system: System, options: SolverOptions) -> float:
    """Residual of a level [1] that counts as nothing.

    Lengths are divided by the reach of the skeleton, weights by the heaviest.
    """
    heaviest = system.heaviest_weights
    if options.differential:  # all levels are one
        heaviest = [max(heaviest, default=1.0)] * len(heaviest)
    shares = [light / heavy for light, heavy in zip(system.lightest_weights, heaviest, strict=True)]
    length = system.problem.skeleton.reach
    smallest = min(options.tolerance_rotation, options.tolerance_position / length)
    return min(shares, default=1.0) * smallest


def tolerances(system: System, options: SolverOptions) -> FloatArray:
    """Largest error at which each task counts as reached, (T,) [m] or [rad]: no less than its softness."""
    exact = np.where(system.angular, options.tolerance_rotation, options.tolerance_position)
    return np.maximum(exact, system.softness)

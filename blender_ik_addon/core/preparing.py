# SPDX-License-Identifier: GPL-3.0-or-later
"""What the options of a solve say of a system: the objective as its method sees it, and when it is done."""

from __future__ import annotations

from typing import Final

import numpy as np

from .arrays import FloatArray
from .objective import Objective
from .options import SolverOptions
from .system import System

SLACK: Final = 0.1
"""Part of the tolerances [1] by which the residual of a level may rise without counting as worse."""

LIGHTEST: Final = 1e-3
"""Weight, as a part of the largest in its level [1], down to which a task is solved as exactly as that."""


def objective_of(system: System, options: SolverOptions) -> Objective:
    """The objective as the method sees it; one that follows its own rule clamps by itself."""
    clamp_distance = None if options.differential else options.clamp_distance
    return Objective(system, merged=options.merged, clamp_distance=clamp_distance)


def slack_of(objective: Objective, options: SolverOptions) -> float:
    """Residual of a level [1], in scaled units, that counts as nothing."""
    smallest = min(options.tolerance_rotation, options.tolerance_position / objective.length)
    return SLACK * max(objective.lightest, LIGHTEST) * smallest


def tolerances(system: System, options: SolverOptions) -> FloatArray:
    """Largest error at which each task counts as reached, (T,) [m] or [rad]."""
    return np.array(
        [options.tolerance_rotation if angular else options.tolerance_position for angular in system.angular]
    )

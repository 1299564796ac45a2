# SPDX-License-Identifier: GPL-3.0-or-later
"""A motion as one problem, solved in frames far apart first.

The energy of a motion is that of its frames and the terms over time of `coupling`, which are the same for any
spacing of the frames. So a motion of every 16th frame costs a sixteenth and is nearly the whole motion: its
difference from the preferred pose is interpolated to every 4th frame, solved again, and so on to all frames.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..arrays import FloatArray, IntArray
from .coupling import Coupling
from .energy import Energy
from .kernel import Minimum, minimise

SPACINGS: Final = (16, 4, 1)
"""Every how many frames are solved, one after the other."""


def minimise_motion(
    energy: Energy,
    values: FloatArray,
    times: FloatArray,
    smoothness: float,
    *,
    step_tolerance: float = 1e-4,
    max_iterations: int = 100,
    max_angle: float = 0.8,
) -> Minimum:
    """The minimum of a motion of F frames from given values (F, nv) at times (F,) [s]."""
    frames = len(times)
    index: IntArray | None = None
    difference = energy.at(values).away
    found: Minimum | None = None
    for spacing in SPACINGS:
        if spacing > 1 and frames < 2 * spacing:
            continue
        finer = np.unique(np.append(np.arange(0, frames, spacing), frames - 1))
        difference = (
            difference[finer] if index is None else _interpolated(times[index], difference, times[finer])
        )
        first, index = index is None, finer
        some = energy if spacing == 1 else energy.select(index)
        found = minimise(
            some,
            (difference + some.preferred) / energy.weight,
            step_tolerance=step_tolerance if spacing == 1 else 1e-2,
            max_iterations=max_iterations,
            max_angle=max_angle,
            far=first,
            coupling=Coupling.of(times[index], smoothness),
        )
        difference = found.values * energy.weight - some.preferred
    assert found is not None
    return found


def _interpolated(known: FloatArray, values: FloatArray, wanted: FloatArray) -> FloatArray:
    """Values (F, nv) at known times, at others, by cubic curves through them with their central slopes."""
    slopes = np.gradient(values, known, axis=0)
    after = np.clip(np.searchsorted(known, wanted, side="right"), 1, len(known) - 1)
    before = after - 1
    step = (known[after] - known[before])[:, None]
    part = (wanted - known[before])[:, None] / step
    rest = 1.0 - part
    return rest * rest * (
        (1.0 + 2.0 * part) * values[before] + part * step * slopes[before]
    ) + part * part * ((1.0 + 2.0 * rest) * values[after] - rest * step * slopes[after])

# SPDX-License-Identifier: GPL-3.0-or-later
"""A motion as one problem, solved in frames far apart first.

The energy of a motion is the energies of its frames and the terms over time of `coupling` [WitkinKass1988].
The terms follow from the times of the frames, so every 8th frame is a problem of the same kind, at an eighth
of the cost. Its difference from the preferred pose is interpolated to every 4th frame and solved again, and
so on to all frames, where a few iterations are left.

Frames far apart are tied more closely than the smoothness says, by at least twice their interval: each alone
would find a local minimum of its own, and the motion would have to jump from one to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ..arrays import BoolArray, FloatArray
from .coupling import Coupling
from .energy import Energy, Strengths
from .kernel import Minimum, minimise

SPACINGS: Final = (8, 4, 2)
"""Every how many frames are solved, one after the other, before all are."""
TIED: Final = 2.0
"""Least smoothness of frames that are not all, in their intervals [1]."""
IN_MOTION: Final = Strengths(50.0, 5.0)
"""Strengths of the levels of a motion. They are weaker than those of a pose: a level that cannot be met
misses by a little more where the motion would jump otherwise."""
NEARLY: Final = 1e-4
"""Residual of a level [1], in reaches or rad, that is as good as nothing."""
BESIDE: Final = 0.3
"""Largest change of a channel [rad] to a pose that is next to another one."""
ROUGH: Final = 1e-2
"""Largest change of a channel [rad] at which frames far apart are at rest."""


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
    """Lower the energy of a motion from given values.

    Args:
        energy: Of the F frames.
        values: Where to start, (F, nv) [m, rad].
        times: Of the frames, rising, (F,) [s].
        smoothness: τ [s], above 0.
        step_tolerance: Largest change of a channel [rad] at which the motion is at rest.
        max_iterations: Most iterations at each spacing.
        max_angle: Largest change of an angle in an iteration [rad].
    """
    steps = _Steps(max_iterations, max_angle)
    energy = energy.with_strengths(IN_MOTION)
    coupling = Coupling.of(times, smoothness)
    found = steps.lowered(
        energy, _far_apart_first(energy, values, times, smoothness, steps), coupling, step_tolerance
    )
    met = _can_be_met(energy, found.values, steps)
    if not met.all():
        # A body that turns fast is lost between frames far apart: followed frame by frame it is not.
        followed = steps.lowered(energy, _followed(energy, values, steps), coupling, step_tolerance)
        if followed.energies[0] < found.energies[0]:
            found, met = followed, _can_be_met(energy, followed.values, steps)
    return steps.lowered(energy.strengthened(met), found.values, coupling, step_tolerance)


def _can_be_met(energy: Energy, values: FloatArray, steps: _Steps) -> BoolArray:
    """Which levels each frame of a motion (F, nv) meets next to where it is, were it alone, (F, K)."""
    state = energy.at(values)
    met = state.norms <= NEARLY
    frames = np.flatnonzero(~met.all(axis=1))
    if len(frames):
        alone = energy.strengthened(np.ones_like(met)).select(frames)
        found = steps.lowered(alone, state.values[frames], None, ROUGH)
        turned = np.abs((found.values - state.values[frames]) * energy.weight).max(axis=1)
        met[frames] |= (alone.at(found.values).norms <= NEARLY) & (turned <= BESIDE)[:, None]
    return met


@dataclass(frozen=True)
class _Steps:
    """How the minimiser goes on."""

    max_iterations: int
    max_angle: float

    def lowered(
        self,
        energy: Energy,
        values: FloatArray,
        coupling: Coupling | None,
        tolerance: float,
        *,
        far: bool = False,
    ) -> Minimum:
        """The minimum from given values."""
        return minimise(
            energy,
            values,
            step_tolerance=tolerance,
            max_iterations=self.max_iterations,
            max_angle=self.max_angle,
            far=far,
            coupling=coupling,
        )


def _far_apart_first(
    energy: Energy, values: FloatArray, times: FloatArray, smoothness: float, steps: _Steps
) -> FloatArray:
    """Values (F, nv) between those of frames far apart, which are solved first."""
    count, weight, far = len(times), energy.weight, True
    known, difference = times, energy.at(values).away
    for spacing in SPACINGS:
        if count < 2 * spacing:
            continue
        index = np.unique(np.append(np.arange(0, count, spacing), count - 1))
        some, wanted = energy.select(index), times[index]
        start = (_interpolated(known, difference, wanted) + some.preferred) / weight
        tied = max(smoothness, TIED * float(np.median(np.diff(wanted))))
        found = steps.lowered(some, start, Coupling.of(wanted, tied), ROUGH, far=far)
        known, difference = wanted, found.values * weight - some.preferred
        far = False
    return (_interpolated(known, difference, times) + energy.preferred) / weight


def _followed(energy: Energy, values: FloatArray, steps: _Steps) -> FloatArray:
    """Values (F, nv) of each frame alone, from the frame before it."""
    result = np.array(values)
    for frame in range(len(values)):
        start = result[max(frame - 1, 0)][None]
        alone = energy.select(np.array([frame]))
        result[frame] = steps.lowered(alone, start, None, ROUGH, far=frame == 0).values[0]
    return result


def _interpolated(known: FloatArray, values: FloatArray, wanted: FloatArray) -> FloatArray:
    """Values (F, nv) at known times, at others, by cubic curves through them with their central slopes."""
    if len(known) < 2:
        return values
    slopes = np.gradient(values, known, axis=0)
    after = np.clip(np.searchsorted(known, wanted, side="right"), 1, len(known) - 1)
    before = after - 1
    step = (known[after] - known[before])[:, None]
    part = (wanted - known[before])[:, None] / step
    rest = 1.0 - part
    return rest * rest * (
        (1.0 + 2.0 * part) * values[before] + part * step * slopes[before]
    ) + part * part * ((1.0 + 2.0 * rest) * values[after] - rest * step * slopes[after])

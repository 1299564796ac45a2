# SPDX-License-Identifier: GPL-3.0-or-later
"""A motion as one problem, solved in frames far apart first.

The energy of a motion is the energies of its frames and the terms over time of `coupling` [WitkinKass1988].
The terms follow from the times of the frames, so every 8th frame is a problem of the same kind, at an eighth
of the cost. Its difference from the preferred pose is interpolated to every 4th frame and solved again, and
so on to all frames, where a few iterations are left.

**Strengths.** The terms over time decide how far a motion jumps to miss less: with the strengths of a single
pose it would jump for the last hundredth of a millimetre, where a limb gets straight or turns about. So a
level pulls with less. But terms over time also resist what the targets themselves do, by a force that is
known: T x for targets on the way x. A level that its frame alone can meet pulls with a multiple of that force
more, and is met, as fast as its targets may move; one that it cannot meet does not jump.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
"""Strengths of the levels of a motion."""
LEVER: Final = 100.0
"""Strength of a level that can be met by the force that its targets' own motion asks for [1]: joints move
targets by short levers, by the square of 0.1 reach."""
NEARLY: Final = 1e-4
"""Residual of a level [1], in reaches or rad, that is as good as nothing."""
LOST: Final = 0.05
"""Residual of a level [1] that can be met from which the motion looks for another way."""
SOON: Final = 15
"""Iterations in which a frame that can meet a level does so from next to where that is."""
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
    coupling = Coupling.of(times, smoothness)
    weak = energy.with_strengths(IN_MOTION)
    start = _far_apart_first(weak, values, times, smoothness, steps)
    found = steps.lowered(weak, start, coupling, step_tolerance)
    met = _can_be_met(energy, found.values, steps, step_tolerance)
    factor = 1.0 + LEVER / IN_MOTION.last * _asked(energy, found.values, coupling)
    stronger = weak.with_factors(np.where(met, factor[:, None], 1.0), energy.strengths)
    found = steps.lowered(stronger, found.values, coupling, step_tolerance)
    if (energy.at(found.values).norms[met] > LOST).any():
        # Frames far apart lose a body that turns fast: followed frame by frame it is not lost.
        for start in _followed(stronger, values, steps):
            followed = steps.lowered(stronger, start, coupling, step_tolerance)
            if followed.energies[0] < found.energies[0]:
                found = followed
    return found


def _can_be_met(energy: Energy, values: FloatArray, steps: _Steps, tolerance: float) -> BoolArray:
    """Which levels each frame of a motion (F, nv) meets with all before them, if it were alone, (F, K)."""
    state = energy.at(values)
    met = state.norms <= NEARLY
    frames = np.flatnonzero(~met.all(axis=1))
    if len(frames):
        # The nearest pose that meets them, not the one that is preferred.
        alone = energy.select(frames).preferring(state.values[frames])
        found = replace(steps, max_iterations=SOON).lowered(alone, state.values[frames], None, tolerance)
        met[frames] |= alone.at(found.values).norms <= NEARLY
    return np.logical_and.accumulate(met, axis=1)


def _asked(energy: Energy, values: FloatArray, coupling: Coupling) -> FloatArray:
    """T x, the force that terms over time oppose to targets that leave bodies (F, nv) behind, (F,)."""
    force = coupling.diagonal[:, None] * _residual(energy, values, 0)
    for number, band in enumerate((coupling.first, coupling.second), start=1):
        force[:-number] += band[:, None] * _residual(energy, values, number)[:-number]
        force[number:] += band[:, None] * _residual(energy, values, -number)[number:]
    return np.asarray(np.linalg.norm(force, axis=1) / coupling.shares, dtype=np.float64)


def _residual(energy: Energy, values: FloatArray, later: int) -> FloatArray:
    """Residual of bodies (F, nv) for the targets of so many frames later, (F, m)."""
    frames = np.clip(np.arange(len(values)) + later, 0, len(values) - 1)
    return energy.select(frames).at(values).residual


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
    """Values (2, F, nv) of frames alone, each from the one before it and each from the one after it."""
    frames = len(values)
    forth, back = np.array(values), np.array(values)
    for number in range(frames):
        pair = np.array([number, frames - 1 - number])
        start = np.stack([forth[max(number - 1, 0)], back[min(frames - number, frames - 1)]])
        found = steps.lowered(energy.select(pair), start, None, ROUGH, far=number == 0).values
        forth[number], back[frames - 1 - number] = found
    return np.stack([forth, back])


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

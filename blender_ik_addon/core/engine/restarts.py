# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for a pose: from where the body is, from the preferred pose, and from random starts.

The energy has local minima: a knee that is asked to bend backwards is stuck at its limit although the leg,
turned half round, would reach. One descent at full weights leads to the minimum next to the body, and ends
if its first step takes the body away: a solved pose is a minimum, so solving it again leaves it where it is.
Another starts at the preferred pose, with soft weights first, which pass small minima. Channels with limits
on both sides start in the middle of these: a leg that stands straight on the limit of its knee would stay
straight, and the body fold over it. Where the body is has no part in this: so poses do not hang on those
before them, and what is solved again stays.

Where targets are missed, random starts follow: channels that move a missed task, or a task that shares
channels with it, are spread over their limits, others stay. Every other one begins at soft weights and the
rest at full ones: soft weights pass small minima, full ones meet targets far from the preferred pose. After a
few iterations the lower half goes on, all at full weights now, and after some more the lower half of that:
successive halving [JamiesonTalwalkar2016]. The lowest goes on to its minimum if it is lower than the pose
found so far. Channels that prefer where they are, as roots, are spread about where that one has them, and
where a lower pose is found the search is repeated from there: so a pose that is solved again stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from ..problem.options import SolverOptions
from .energy import ROUNDING_OFF, Energy, State
from .kernel import ROUGH, Callback, Descent, Minimum, Plan

SEED: Final = 1
"""Seed of the generator, the same in every solve: a solve is repeatable."""
RANGE: Final = (1.6, 0.3)
"""Most by which channels without limits start from the preferred value, angles [rad] and places [reach]."""
LOWER: Final = 1e-3
"""By which part of the posture and of the misses [1], at the last level's weight, another start must lower
the energy to be taken: less is no better pose."""
COMPARED: Final = 5
"""Iterations after which starts are compared, four times: the lower half goes on, in the end the lowest."""
AT_ONCE: Final = 256
"""Independent poses in one batch: their matrices take tens of megabytes."""


def searching(
    energy: Energy,
    values: FloatArray,
    options: SolverOptions,
    tolerance: FloatArray,
    callback: Callback | None = None,
    *,
    far: bool = True,
) -> Plan[Minimum]:
    """The lowest minimum for each frame: from given values, and from others where it misses targets.

    Args:
        energy: Of N frames.
        values: Where the body is, (N, nv) [m, rad]: the minimum next to it is taken unless another start
            leads to one that is lower by more than `LOWER`.
        options: How exactly, and how many restarts there are.
        tolerance: Largest error at which each task counts as reached, (T,) [m] or [rad].
        callback: Called at the start and after each iteration outside of restarts with its number and a
            state, whose last frame is the last one of these; True stops.
        far: Whether the minimum may be far away; otherwise it is the one next to the body.
    """
    if not (far and energy.penalties):
        return (yield Descent(energy, values, options, callback=callback))
    found = yield from _lowest_about(energy, values, options, callback)
    missed = np.flatnonzero((energy.system.errors(found.state.posed) > tolerance).any(axis=1))
    # Again from a pose that is lower: it would be found when this one is solved again.
    while options.restarts and len(missed) and not found.cancelled:
        before = found.energies
        for block in np.array_split(missed, -(-len(missed) * options.restarts // AT_ONCE)):
            found = yield from _restarted(energy, found, block, options, tolerance)
        missed = missed[found.energies[missed] < before[missed]]
    return found


def _lowest_about(
    energy: Energy,
    values: FloatArray,
    options: SolverOptions,
    callback: Callback | None,
) -> Plan[Minimum]:
    """The minimum next to where the body is (N, nv), or the one that is found from the preferred pose."""
    n, most = len(values), options.max_iterations
    frames, soft = np.arange(2 * n), np.arange(2 * n) >= n
    starts, many = np.concatenate([values, energy.centred()]), energy.select(frames % n)
    at_most = np.where(soft, most, 1)
    descent = Descent(
        many.softened(soft),
        starts,
        options,
        step_tolerance=ROUGH,
        max_iterations=at_most,
        far=soft,
        callback=callback,
    )
    first = yield descent
    # A body that one step takes away is not next to a minimum, nor one that finds no step.
    moved = np.abs((first.values - starts) / energy.system.units).max(axis=1, initial=0.0)
    close = first.converged | ((moved > 0.0) & (moved <= ROUGH))
    goes = np.flatnonzero(soft | close)
    descent.go_on(goes, most + first.iterations[goes], many, options.step_tolerance)
    both = yield descent
    # Only a body that is at rest is next to a minimum.
    margin = np.where(both.converged, _margin(many, both), 0.0)[:n]
    # What is cancelled on the way from the preferred pose is worse than where the body is.
    kept = both.cancelled | (close[:n] & (both.energies[n:] >= both.energies[:n] - margin))
    found = both.select(energy.system.mechanism, np.where(kept, frames[:n], frames[n:]))
    return replace(found, iterations=both.iterations.reshape(2, n).max(axis=0))


def _restarted(
    energy: Energy, found: Minimum, block: IntArray, options: SolverOptions, tolerance: FloatArray
) -> Plan[Minimum]:
    """Minima after random starts in some frames (n,)."""
    some, here = energy.select(block), found.values[block]
    # Channels that move nothing that is missed stay as they are.
    helps = _moving_missed(some, found.state.select(some.system.mechanism, block), tolerance)
    # Channels that prefer where they are, as roots, are spread about where they are now.
    around = some.preferring(np.where(np.isnan(some.system.preferred), here, some.preferred / some.weight))
    n, count = len(block), options.restarts
    starts = [
        np.where(moves, random_starts(around.select(one), count), at)
        for one, at, moves in zip(np.arange(n)[:, None], here, helps, strict=True)
    ]
    # Every other one begins at soft weights.
    many, rows = energy.select(block.repeat(count)), np.arange(n * count).reshape(n, count)
    begins = many.softened(rows.ravel() % 2 == 0)
    first = min(COMPARED, options.max_iterations)
    descent = Descent(
        begins, np.concatenate(starts), options, step_tolerance=ROUGH, max_iterations=first, far=True
    )
    other = yield descent
    for halvings in (1, 2, 3):
        order = np.argsort(many.energies(other.state)[rows], axis=1, kind="stable")
        rows = np.take_along_axis(rows, order[:, : -(-count // 2**halvings)], axis=1)
        most = min((halvings + 1) * COMPARED, options.max_iterations)
        descent.go_on(rows.ravel(), most, many, ROUGH)
        other = yield descent
    lowest = rows[np.arange(n), other.energies[rows].argmin(axis=1)]
    bound = (found.energies - _margin(energy, found))[block]
    lower = lowest[other.energies[lowest] < bound]
    if not len(lower):
        return found
    descent.go_on(lower, options.max_iterations, many, options.step_tolerance)
    other = yield descent
    better = other.energies[lowest] < bound
    return _replaced(energy, found, block[better], other, lowest[better])


def _margin(energy: Energy, found: Minimum) -> FloatArray:
    """Energy by which another pose must be lower than the minimum found to replace it, (N,)."""
    state = found.state
    last = energy.penalty_weights[:, -1:]
    missed = energy.penalty_terms(state.squares, last) + last * ROUNDING_OFF
    return LOWER * (missed.sum(axis=1) + state.posture)


def _replaced(energy: Energy, found: Minimum, frames: IntArray, other: Minimum, taken: IntArray) -> Minimum:
    """Minima with some frames (n,) replaced by frames `taken` of another search."""
    if not len(frames):
        return found
    energies, converged = found.energies.copy(), found.converged.copy()
    energies[frames], converged[frames] = other.energies[taken], other.converged[taken]
    iterations = found.iterations.copy()
    iterations[frames] += other.iterations[taken]
    state = found.state.replaced(frames, other.state.select(energy.system.mechanism, taken))
    cancelled = found.cancelled or other.cancelled
    return Minimum(state, energies, iterations, converged, cancelled)


def _moving_missed(energy: Energy, state: State, tolerance: FloatArray) -> BoolArray:
    """Which channels move a task that is missed, or tasks that share channels with one, (N, nv)."""
    system = energy.system
    moves = system.jacobian(state.posed) != 0.0
    rows = (system.errors(state.posed) > tolerance)[:, system.task_of_row]
    while True:
        channels = np.logical_or.reduce(rows[:, :, None] & moves, axis=1)
        tied = np.logical_or.reduce(moves & channels[:, None, :], axis=2)
        if np.array_equal(tied | rows, rows):
            return channels
        rows = tied | rows


def random_starts(energy: Energy, count: int) -> FloatArray:
    """The preferred pose, and others spread evenly inside the limits, (count, nv) [m, rad]; of one frame."""
    preferred = energy.preferred[0] / energy.weight
    angle, part = RANGE
    room = np.where(energy.system.rotates, angle, part * energy.system.reach)
    shape = energy.preferred.shape
    least: FloatArray = np.broadcast_to(energy.lower, shape)[0]
    most: FloatArray = np.broadcast_to(energy.upper, shape)[0]
    lower = np.where(np.isfinite(least), least, np.minimum(preferred, most) - room)
    upper = np.where(np.isfinite(most), most, np.maximum(preferred, least) + room)
    starts = lower + np.random.default_rng(SEED).random((count, len(lower))) * (upper - lower)
    starts[:1] = energy.centred()
    return starts

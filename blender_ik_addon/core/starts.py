# SPDX-License-Identifier: GPL-3.0-or-later
"""Other poses to start from, where targets are not reached from the present one.

Two things keep a descent from an answer that exists. A body that faces away from its targets can twist its
limbs for ever: so a free root is moved rigidly to where the effectors lie best on their targets, for which
there is a formula [Kabsch1976]. And a limb can be stuck at its limits although it would reach from the other
side: so limited channels are started from the middle of their ranges.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .arrays import FloatArray
from .mechanism import ARMATURE
from .rotation import euler_from_matrix_near
from .skeleton import CHANNELS
from .system import System

LEVER: Final = 0.35
"""Distance in units of the reach [1] at which a wrong turn of an effector counts like a wrong place."""

SAME: Final = 1e-6
"""Largest difference [rad, m] between starts that are the same."""


def other_starts(system: System, values: FloatArray) -> FloatArray:
    """Starts other than the present one, the most promising first.

    Args:
        system: Tasks on one frame.
        values: Free channels at which the search is stuck or began, (1, nv).

    Returns:
        Free channels inside the limits, (S, nv); S may be 0.
    """
    limited = np.isfinite(system.lower) & np.isfinite(system.upper)
    lower, upper = (np.where(limited, bound, 0.0) for bound in (system.lower, system.upper))
    preferred = np.where(np.isnan(system.preferred), values, system.preferred)
    middle = np.where(limited, 0.5 * (lower + upper), values)
    middle_of_preferred = np.where(limited, 0.5 * (lower + upper), preferred)
    aligned = [start for start in (_aligned(system, values), _aligned(system, middle)) if start is not None]
    found: list[FloatArray] = []
    for start in (*aligned, middle, middle_of_preferred):
        inside = np.clip(start, system.lower, system.upper)
        if all(np.abs(inside - other).max(initial=0.0) > SAME for other in (values, *found)):
            found.append(inside)
    return np.concatenate(found) if found else np.zeros((0, system.size))


def _aligned(system: System, values: FloatArray) -> FloatArray | None:
    """The channels with the root moved as a rigid body to where the effectors lie best on their targets.

    None where no root that carries all tasks is free to turn.
    """
    mechanism = system.mechanism
    if not len(mechanism.joints) or (mechanism.parents[1:] == ARMATURE).any():
        return None
    own = mechanism.kept_of == 0
    numbers = mechanism.channels[own] % CHANNELS
    if not {3, 4, 5} <= set(numbers.tolist()):
        return None
    posed = system.place(values)
    places, turns = system.places(posed), system.turns(posed)
    origin = posed.matrices[0, 1, :3, 3]
    slides = {0, 1, 2} <= set(numbers.tolist())
    # The body turns about the middle of its effectors where its root can follow, else about its root.
    here, there = (np.mean(points, axis=0) if slides and len(points) else origin for points in places)
    spread = np.einsum("ei,ej->ij", places[1] - there, places[0] - here)
    lever = LEVER * system.problem.skeleton.reach
    spread += lever**2 * np.einsum("eik,ejk->ij", turns[1], turns[0])
    left, sizes, right = np.linalg.svd(spread)
    if sizes[1] <= SAME * sizes[0] or not sizes[0] > 0.0:
        return None  # one direction or none: any turn about it would do
    turn = left @ np.diag([1.0, 1.0, np.linalg.det(left @ right)]) @ right
    started = np.array(values)
    flat = np.zeros(CHANNELS)
    flat[numbers] = values[0, own]
    order = int(mechanism.skeleton.orders[mechanism.joints[0]])
    own_turn = mechanism.pre[0, 0].T @ turn @ posed.matrices[0, 1, :3, :3]
    flat[3:] = euler_from_matrix_near(own_turn, order, flat[3:])
    if slides:
        moved = there + turn @ (origin - here)
        flat[:3] += np.linalg.solve(mechanism.slide[0, 0], moved - origin)
    started[0, own] = flat[numbers]
    return started

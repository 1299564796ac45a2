# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of several goals is met: disjunctive goals [KiSheen §2].

A solve first takes the alternative with the smallest error at the start, or keeps the one before while that
is within the margin. If everything is reached, that is the solution. Otherwise the other alternatives are
tried one after the other, the nearest first. Another one is taken if everything is reached with it, or if it
lowers the error of a level by more than the margin and raises that of no level above. So levels below a
choice may decide which of two alternatives is met, but not by how far one is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..arrays import FloatArray, IntArray
from ..engine.kernel import Plan
from ..problem.system import System
from .solution import Solution


def solved_choice(
    system: System,
    start: FloatArray,
    slack: float,
    solve: Callable[[System], Plan[Solution]],
    cancelled: Callable[[Solution], bool],
    kept: IntArray | None = None,
) -> Plan[Solution]:
    """Solve with one alternative of each choice after the other, until everything is reached.

    Args:
        system: Tasks of one frame, with choices.
        start: The free channels, (1, nv).
        slack: Rise of |r| of a level [1], in scaled units, that does not count.
        solve: Solves a system that has taken its alternatives.
        cancelled: Whether the caller has asked to stop meanwhile.
        kept: Alternatives that stay while they are within their margins, (1, C).
    """
    posed = system.place(start)
    taken = system.nearest(posed, kept)
    best = yield from solve(system.taking(taken))
    iterations = best.iterations
    for choice, other in _others(system.choice_errors(posed), taken[0]):
        if best.reached or cancelled(best):
            break
        trial = taken.copy()
        trial[0, choice] = other
        found = yield from solve(system.taking(trial))
        iterations += found.iterations
        if cancelled(found):
            break
        if found.reached or _is_better(found, best, system.margins[choice], slack):
            best, taken = found, trial
    return replace(best, iterations=iterations)


def _others(errors: Sequence[FloatArray], taken: IntArray) -> Iterator[tuple[int, int]]:
    """Number of a choice and of an alternative that is not taken, of each choice the nearest first."""
    for choice, (own, chosen) in enumerate(zip(errors, taken, strict=True)):
        for other in np.argsort(own[0], kind="stable"):
            if other != chosen:
                yield choice, int(other)


def _is_better(found: Solution, best: Solution, margin: float, slack: float) -> bool:
    """Whether the first level that changes falls by more than the margin."""
    new, old = (np.sqrt(2.0 * solution.costs[-1]) for solution in (found, best))
    for gain in old - new:
        if abs(gain) > slack:
            return bool(gain > margin)
    return False

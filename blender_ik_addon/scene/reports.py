# SPDX-License-Identifier: GPL-3.0-or-later
"""Sentences of reports for people: amounts in millimetres and degrees, counts, lists."""

from collections.abc import Iterable, Sequence
from math import degrees
from typing import Final, NamedTuple

import numpy as np

from ..core.engine.pops import Pop

NAMES_SHOWN: Final = 5
"""How many names a sentence lists before it says how many more there are."""

FAR: Final = 10.0
"""Length [m] from which lengths are told in metres: nobody counts the digits of 27960 mm."""

VERY_FAR: Final = 1e4
"""Length [m] from which they are told in kilometres."""


def length_text(length: float) -> str:
    """Write a length [m] in millimetres, to three digits; in metres if it is far."""
    if not np.isfinite(length):
        return "an unknown distance"
    if abs(length) >= VERY_FAR:
        return f"{1e-3 * length:,.0f} km"
    if abs(length) >= FAR:
        return f"{length:.1f} m"
    return f"{_three_digits(1e3 * length)} mm"


def angle_text(angle: float) -> str:
    """Write an angle [rad] in degrees, to three digits."""
    if not np.isfinite(angle):
        return "an unknown angle"
    return f"{_three_digits(float(np.degrees(angle)))}°"


def _three_digits(number: float) -> str:
    size = abs(number)
    if size >= 100.0:
        return f"{number:.0f}"
    return f"{number:.3g}" if size >= 1e-3 else f"{number:.1g}"


def in_a_row(texts: Sequence[str]) -> str:
    """Write texts in a row, the first few of many."""
    shown = ", ".join(texts[:NAMES_SHOWN])
    more = len(texts) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def listed(names: Sequence[str]) -> str:
    """Write names in a row, in quotes, the first few of many."""
    return in_a_row([repr(name) for name in names])


def counted(count: int, what: str, several: str = "") -> str:
    """Write how many there are of something: 1 target, 6 targets."""
    return f"{count} {what if count == 1 else several or f'{what}s'}"


def all_reached(count: int) -> str:
    """Write that all of some targets are reached."""
    return "the target is reached" if count == 1 else f"all {count} targets are reached"


def notes_on_branches(pops: Iterable[Pop]) -> tuple[str, ...]:
    """Write at which frames the pose flips, and which bone turns most there."""
    largest: dict[int, Pop] = {}
    for pop in sorted(pops):
        known = largest.setdefault(pop.frame, pop)
        if pop.turn > known.turn:
            largest[pop.frame] = pop
    if not largest:
        return ()
    flips = [
        f"at frame {pop.frame}: {pop.joint} turns {round(degrees(pop.turn))}°" for pop in largest.values()
    ]
    more = len(flips) - NAMES_SHOWN
    rest = [f"and at {counted(more, 'more frame')}"] if more > 0 else []
    return (f"pose flips {'; '.join([*flips[:NAMES_SHOWN], *rest])}",)


class Smoothed(NamedTuple):
    """How much smoothness adds to the miss of an effector."""

    name: str
    frame: int
    amount: float
    """[m] or [rad]"""
    angular: bool
    """Whether it is an angle."""


def notes_on_smoothing(smoothed: Iterable[Smoothed]) -> tuple[str, ...]:
    """Write how much smoothness adds to the misses."""
    texts = [
        f"{(angle_text if own.angular else length_text)(own.amount)} ({own.name}, frame {own.frame})"
        for own in smoothed
    ]
    return (f"smoothness adds up to {' and '.join(texts)} to the misses",) if texts else ()


def sentences(*texts: str) -> str:
    """Write texts one after the other, each with a capital letter and a full stop between."""
    return ". ".join(text[:1].upper() + text[1:] for text in texts)


SETTLING: Final = "Settling"
"""The message while live mode moves the body to the solution; misses are not reported meanwhile."""

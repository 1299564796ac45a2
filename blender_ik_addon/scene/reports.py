# SPDX-License-Identifier: GPL-3.0-or-later
"""Sentences of reports for people: amounts in millimetres and degrees, counts, lists."""

from collections.abc import Iterable, Sequence
from math import degrees
from typing import Final, NamedTuple

from ..core import amounts
from ..core.amounts import angle_text, length_text
from ..core.engine.pops import Pop

NAMES_SHOWN: Final = 5
"""How many names a sentence lists before it says how many more there are."""


def in_a_row(texts: Sequence[str]) -> str:
    """Write texts in a row, the first few of many."""
    return amounts.in_a_row(texts, NAMES_SHOWN)


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
    """An amount in a frame: how much smoothness adds to the miss of an effector, or the miss itself."""

    name: str
    frame: int
    amount: float
    """[m] or [rad]"""
    angular: bool
    """Whether it is an angle."""


def notes_on_smoothing(smoothed: Iterable[Smoothed]) -> tuple[str, ...]:
    """Write how much smoothness adds to the misses."""
    texts = _amounts(smoothed)
    return (f"smoothness adds up to {texts} to the misses",) if texts else ()


def notes_on_between(largest: Iterable[Smoothed]) -> tuple[str, ...]:
    """Write how far targets are missed in frames between keys."""
    texts = _amounts(largest)
    return (f"between keys targets are missed by up to {texts}",) if texts else ()


def _amounts(largest: Iterable[Smoothed]) -> str:
    """Write amounts with effector and frame."""
    return " and ".join(
        f"{(angle_text if own.angular else length_text)(own.amount)} ({own.name}, frame {own.frame})"
        for own in largest
    )


def sentences(*texts: str) -> str:
    """Write texts one after the other, each with a capital letter and a full stop between."""
    return ". ".join(text[:1].upper() + text[1:] for text in texts)


SETTLING: Final = "Settling"
"""The message while live mode moves the body to the solution; misses are not reported meanwhile."""

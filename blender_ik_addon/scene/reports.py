# SPDX-License-Identifier: GPL-3.0-or-later
"""Sentences of reports for people: amounts in millimetres and degrees, counts, lists."""

from collections.abc import Iterable, Sequence
from math import degrees
from typing import Final, NamedTuple

from ..core import messages
from ..core.amounts import angle_text, length_text
from ..core.engine.pops import Pop
from ..core.errors import IKError
from ..core.messages import Joined, Message, both, counted

NAMES_SHOWN: Final = 5
"""How many names a sentence lists before it says how many more there are."""


def in_a_row(texts: Sequence[str]) -> Message:
    """Write texts in a row, the first few of many."""
    return messages.in_a_row(texts, NAMES_SHOWN)


def listed(names: Sequence[str]) -> Message:
    """Write names in a row, in quotes, the first few of many."""
    return in_a_row([repr(name) for name in names])


def number_of_bones(count: int) -> Message:
    """Write how many bones."""
    return counted(count, "{count} bone", "{count} bones")


def number_of_targets(count: int) -> Message:
    """Write how many targets."""
    return counted(count, "{count} target", "{count} targets")


def number_of_effectors(count: int) -> Message:
    """Write how many effectors."""
    return counted(count, "{count} effector", "{count} effectors")


def all_reached(count: int) -> Message:
    """Write that all of some targets are reached."""
    return counted(count, "the target is reached", "all {count} targets are reached")


def check_known(what: str, given: object, names: Sequence[str]) -> None:
    """Refuse what is none of the names that there are (IKError); `what` is called so in the panel."""
    if given not in names:
        raise IKError(
            "{what} cannot be {given!r}: there are {names}",
            what=Message(what),
            given=given,
            names=", ".join(names),
        )


def notes_on_branches(pops: Iterable[Pop]) -> tuple[str, ...]:
    """Write at which frames the pose flips, and which bone turns most there."""
    largest: dict[float, Pop] = {}
    for pop in sorted(pops):
        known = largest.setdefault(pop.frame, pop)
        if pop.turn > known.turn:
            largest[pop.frame] = pop
    if not largest:
        return ()
    flips = [
        Message(
            "at frame {frame}: {joint} turns {turn}°",
            frame=pop.frame,
            joint=pop.joint,
            turn=round(degrees(pop.turn)),
        )
        for pop in largest.values()
    ]
    more = len(flips) - NAMES_SHOWN
    rest = [counted(more, "and at {count} more frame", "and at {count} more frames")] if more > 0 else []
    return (Message("pose flips {frames}", frames=Joined("; ", [*flips[:NAMES_SHOWN], *rest])),)


class Smoothed(NamedTuple):
    """An amount in a frame: how much smoothness adds to the miss of an effector, or the miss itself."""

    name: str
    frame: float
    amount: float
    """[m] or [rad]"""
    angular: bool
    """Whether it is an angle."""


SMOOTHNESS: Final = Message("smoothness adds up to {amounts} to the misses")
BETWEEN: Final = Message("between keys targets are missed by up to {amounts}")
"""What is said of the largest amounts."""


def notes_on_amounts(text: Message, largest: Iterable[Smoothed]) -> tuple[str, ...]:
    """Write a text with amounts, of which effector and in which frame; nothing where there are none."""
    amounts = [
        Message(
            "{amount} ({effector}, frame {frame})",
            amount=(angle_text if own.angular else length_text)(own.amount),
            effector=own.name,
            frame=own.frame,
        )
        for own in largest
    ]
    return (text.filled(amounts=both(amounts)),) if amounts else ()


SETTLING: Final = Message("Settling")
"""The message while live mode moves the body to the solution; misses are not reported meanwhile."""

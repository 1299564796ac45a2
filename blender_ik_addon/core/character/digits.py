# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingers, thumbs and toes: about which axes they bend and how far, told from where their joints are.

Nothing is taken from how bones are rolled. In a left hand with fingers along h and the thumb towards t the
palm faces along h × t, in a right hand the other way; a finger that points along d bends about d × p, p the
palm's normal. A finger that is clearly bent at rest says itself about which axis it bends. Without a thumb
and without a bend it is not known where the palm is: such fingers get no limits.

Ranges are counted from straight, as those of elbows, and are those of [AAOS1965], compared with lists that
others teach from: knuckles 90 degrees, middle joints 100, end joints 90, thumb 50 and 80, its tip 20
backwards; knuckles bend 45 backwards where somebody pushes them, we take 30, and 20 to either side. The root
of a thumb is a saddle, which rigs hinge in many ways. It bends by 53 degrees in all, goes aside by 42 and
turns by 17 [Cooney1981; unverified]; where in these ranges it is at rest is not known, so it has all of them
either way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from ..arrays import FloatArray
from ..model.skeleton import Skeleton
from .roles import Character, Limb, LimbKind, Role, Side
from .roles.structure import TINY, norm, unit

BENT: Final = float(np.radians(15.0))
"""Bend of a whole finger at rest [rad] from which on it shows its own plane."""

APART: Final = float(np.radians(20.0))
"""Angle [rad] between a digit and the mean of the others above which it is the thumb, if no name says so."""

WRIST: Final = 0.5
"""Distance from the wrist, in that of the next joint [1], below which a chain begins with a bone of the
palm."""

THUMB_NAME: Final = re.compile(r"thumb|pollex|親指", re.IGNORECASE)

KNUCKLE: Final = ((-30.0, 90.0), 20.0)
MIDDLE: Final = ((-5.0, 100.0), 3.0)
END: Final = ((-10.0, 90.0), 3.0)
METACARPAL: Final = ((-5.0, 15.0), 5.0)
"""Bend from straight, and play to either side [deg]."""

THUMB: Final = (((-53.0, 53.0), 42.0), ((-10.0, 60.0), 10.0), ((-20.0, 85.0), 5.0))
"""The same from the root of the thumb to its tip [deg]; the first from rest."""

TOES: Final = (((-70.0, 45.0), 10.0), ((-10.0, 70.0), 5.0))
"""The same of the first joint of a toe, and of those after it [deg], from rest."""

TWIST: Final = 5.0
THUMB_TWIST: Final = 17.0
"""How far fingers, and the root of a thumb, turn about themselves [deg], either way."""


@dataclass(frozen=True)
class Digit:
    """A joint of a finger or a toe."""

    joint: int
    along: FloatArray
    """Unit vector along its bone at rest, in armature space, (3,)."""
    axis: FloatArray
    """Unit axis about which it bends, right-handed, in armature space, (3,)."""
    ranges: tuple[tuple[float, float], ...]
    """Its bend, its play to the sides and its twist, counted from rest [deg]."""


def digits(skeleton: Skeleton, character: Character, figure: int) -> Iterator[Digit]:
    """Give the joints of all fingers and toes of a figure whose bends are known."""
    for kind, role in ((LimbKind.FINGER, Role.HAND), (LimbKind.TOE, Role.FOOT)):
        chains: dict[int, list[Limb]] = {}
        for chain in character.limbs_of(kind, figure=figure):
            above = skeleton.ancestors(chain.joints[0])[1:]
            bearers = [joint for joint in above if character.role_of(joint) is role]
            if bearers:  # of several hands in a row the uppermost, where the wrist is
                chains.setdefault(bearers[-1], []).append(chain)
        for root in sorted(chains):
            if kind is LimbKind.FINGER:
                yield from _hand(skeleton, root, chains[root])
            else:
                yield from _toes(skeleton, root, chains[root], character.figures[figure].up)


def _hand(skeleton: Skeleton, wrist: int, chains: Sequence[Limb]) -> Iterator[Digit]:
    """The fingers of a hand."""
    places = skeleton.armature_from_joint_rest[:, :3, 3]
    rods = {chain.joints[0]: _rods(skeleton, chain.joints) for chain in chains}
    thumb = _thumb(skeleton, rods, chains)
    fingers = [chain for chain in chains if chain is not thumb]
    across, palm = np.zeros(3), None
    if thumb is not None and fingers:
        root = thumb.joints[0]
        across = _across(places, wrist, rods[root][0], root, fingers)
        palm = _palm(places, wrist, thumb.side, fingers, across)
    for chain in chains:
        rod = rods[chain.joints[0]]
        start = 0 if chain is thumb else _knuckle(places, wrist, chain.joints)
        before = [rod[0], *rod]  # what each bone is bent from
        before[start] = rod[0] if chain is thumb else unit(places[chain.joints[start]] - places[wrist])
        towards = palm
        if chain is thumb and palm is not None:
            towards = palm - unit(across)  # across the palm, towards the root of the last finger
        for place, (joint, axis) in enumerate(zip(chain.joints, _axes(rod, towards), strict=False)):
            if chain is thumb:
                kind = THUMB[min(place, 2)]
            else:
                kind = METACARPAL if place < start else (KNUCKLE, MIDDLE, END)[min(place - start, 2)]
            known = place > 0 or (chain is not thumb and place == start)
            at_rest = _bend(before[place], rod[place], axis) if known else 0.0
            twist = THUMB_TWIST if chain is thumb and place == 0 else TWIST
            yield _digit(joint, rod[place], axis, kind, twist, at_rest)


def _toes(skeleton: Skeleton, ankle: int, chains: Sequence[Limb], up: FloatArray) -> Iterator[Digit]:
    """The toes of a foot: they bend down."""
    places = skeleton.armature_from_joint_rest[:, :3, 3]
    for chain in chains:
        rod = _rods(skeleton, chain.joints)
        start = _knuckle(places, ankle, chain.joints)
        axes = _axes(rod, -up, straight=True)
        for place, (joint, axis) in enumerate(zip(chain.joints, axes, strict=False)):
            kind = METACARPAL if place < start else TOES[min(place - start, 1)]
            yield _digit(joint, rod[place], axis, kind, TWIST, 0.0)


def _digit(
    joint: int,
    along: FloatArray,
    axis: FloatArray,
    kind: tuple[tuple[float, float], float],
    twist: float,
    at_rest: float,
) -> Digit:
    (low, high), side = kind
    bent = float(np.degrees(at_rest))  # what a rest pose shows, a finger can do
    ranges = (min(low - bent, 0.0), max(high - bent, 0.0)), (-side, side), (-twist, twist)
    return Digit(joint, along, axis, ranges)


# Geometry


def _rods(skeleton: Skeleton, joints: Sequence[int]) -> list[FloatArray]:
    """Unit vectors along the bones of a chain; the last goes on along its own y if that is about the way."""
    places = skeleton.armature_from_joint_rest[:, :3, 3]
    rods = [unit(places[b] - places[a]) for a, b in pairwise(joints)]
    own = np.array(skeleton.armature_from_joint_rest[joints[-1], :3, 1])
    below = np.flatnonzero(skeleton.parents == joints[-1])
    if len(below):
        own = unit(places[below[0]] - places[joints[-1]])
    goes_on = not rods or own @ rods[-1] > np.cos(np.radians(75.0))
    return [*rods, own if goes_on else rods[-1]]


def _thumb(skeleton: Skeleton, rods: Mapping[int, list[FloatArray]], chains: Sequence[Limb]) -> Limb | None:
    """The thumb by its name, else the digit that points away from the others; None where there is none."""
    for chain in chains:
        if any(THUMB_NAME.search(skeleton.names[joint]) for joint in chain.joints):
            return chain
    if len(chains) < 3:
        return None
    ways = np.array([rods[chain.joints[0]][0] for chain in chains])
    off = ways @ unit(np.median(ways, axis=0))
    return chains[int(np.argmin(off))] if off.min() < np.cos(APART) else None


def _across(
    places: FloatArray, wrist: int, thumb: FloatArray, root: int, fingers: Sequence[Limb]
) -> FloatArray:
    """From the other fingers' roots to the end of the thumb's first bone, (3,) [m].

    Args:
        places: Of the joints, (n, 3) [m].
        wrist: The hand's joint.
        thumb: The way the thumb's first bone points, (3,).
        root: Its joint.
        fingers: The others.
    """
    roots = np.array([places[finger.joints[0]] for finger in fingers])
    # Some hands have all their roots in one place: then the way that the thumb points is all there is.
    length = 0.5 * float(np.linalg.norm(roots - places[wrist], axis=1).mean())
    return places[root] + max(length, TINY) * thumb - roots.mean(axis=0)


def _palm(
    places: FloatArray, wrist: int, side: Side, fingers: Sequence[Limb], across: FloatArray
) -> FloatArray | None:
    """Where the palm faces, a unit vector (3,); None where it is not known."""
    knuckles = np.array([places[f.joints[_knuckle(places, wrist, f.joints)]] for f in fingers])
    forward = unit(knuckles.mean(axis=0) - places[wrist])
    towards = across - (across @ forward) * forward
    # The row of the knuckles says it better than the thumb, which may stand off the palm.
    row = knuckles - knuckles.mean(axis=0)
    row = row - np.outer(row @ forward, forward)
    line = np.linalg.svd(row)[2][0]
    if np.ptp(row @ line) > TINY:
        towards = line * (line @ towards)
    if side is Side.CENTRE or norm(towards) <= TINY:
        return None
    palm = np.cross(forward, unit(towards))
    return palm if side is Side.LEFT else -palm


def _knuckle(places: FloatArray, wrist: int, joints: Sequence[int]) -> int:
    """Place in a finger's chain of its knuckle: 1 after a metacarpal bone, else 0."""
    if len(joints) < 3:
        return 0
    first, second = (float(np.linalg.norm(places[joint] - places[wrist])) for joint in joints[:2])
    return 1 if first < WRIST * second else 0


def _axes(
    rods: Sequence[FloatArray], towards: FloatArray | None, *, straight: bool = False
) -> list[FloatArray]:
    """Axis of bend of each bone of a chain that bends towards a direction; none where that is not known.

    A chain that is bent at rest bends about its own axis, to the side of the direction if there is one.
    """
    turn = np.asarray(np.sum([np.cross(a, b) for a, b in pairwise(rods)], axis=0), dtype=np.float64)
    own = unit(turn) if len(rods) > 1 and norm(turn) > np.sin(BENT) and not straight else None
    axes: list[FloatArray] = []
    for rod in rods:
        about = own
        if towards is not None:
            given = unit(np.cross(rod, towards))
            about = given if own is None or abs(float(own @ given)) < np.cos(np.radians(45.0)) else own
            about = about * np.sign(about @ given)
        if about is None:
            return []
        about = about - (about @ rod) * rod
        if norm(about) <= TINY:
            return []
        axes.append(unit(about))
    return axes


def _bend(before: FloatArray, after: FloatArray, axis: FloatArray) -> float:
    """By how much a bone is bent from the one before it, about an axis [rad]."""
    flat = before - (before @ axis) * axis
    return float(np.arctan2(np.cross(flat, after) @ axis, flat @ after))

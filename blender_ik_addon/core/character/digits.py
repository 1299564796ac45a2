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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from ..arrays import FloatArray
from ..model.skeleton import Skeleton
from .limit_boxes import Movement
from .roles import Character, Limb, LimbKind, Role, Side
from .roles.structure import TINY, unit

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
    moves: tuple[Movement, ...]
    """What it can do, with axes in armature space: its bend first."""


def digits(skeleton: Skeleton, character: Character, figure: int) -> Iterator[Digit]:
    """Give the joints of all fingers and toes of a figure whose bends are known."""
    places = skeleton.armature_from_joint_rest[:, :3, 3]
    for kind, role in ((LimbKind.FINGER, Role.HAND), (LimbKind.TOE, Role.FOOT)):
        chains = character.limbs_of(kind, figure=figure)
        roots = {chain.joints[0]: _bearer(skeleton, character, chain.joints[0], role) for chain in chains}
        for root in sorted({root for root in roots.values() if root is not None}):
            own = [chain for chain in chains if roots[chain.joints[0]] == root]
            if kind is LimbKind.FINGER:
                yield from _hand(skeleton, places, root, own)
            else:
                yield from _toes(skeleton, places, root, own, character.figures[figure].up)


def _bearer(skeleton: Skeleton, character: Character, joint: int, role: Role) -> int | None:
    """The hand or foot that a digit hangs on: of several in a row the uppermost, where the wrist is."""
    above = [j for j in skeleton.ancestors(joint)[1:] if character.role_of(j) is role]
    return above[-1] if above else None


def _hand(skeleton: Skeleton, places: FloatArray, wrist: int, chains: Sequence[Limb]) -> Iterator[Digit]:
    """The fingers of a hand."""
    rods = {chain.joints[0]: _rods(skeleton, places, chain.joints) for chain in chains}
    thumb = _thumb(skeleton, rods, chains)
    fingers = [chain for chain in chains if chain is not thumb]
    across = np.zeros(3)
    if thumb is not None and fingers:
        across = _across(places, wrist, rods[thumb.joints[0]][0], thumb.joints[0], fingers)
    palm = None if thumb is None else _palm(places, wrist, thumb.side, fingers, across)
    for chain in chains:
        rod = rods[chain.joints[0]]
        towards = palm
        if chain is thumb and palm is not None:
            towards = palm - unit(across)  # across the palm, towards the root of the last finger
        axes = _axes(rod, towards)
        if axes is None:
            continue
        start = 0 if chain is thumb else _knuckle(places, wrist, chain.joints)
        before = unit(places[chain.joints[start]] - places[wrist])
        for place, joint in enumerate(chain.joints):
            axis, along = axes[place], rod[place]
            at_rest = 0.0
            if chain is thumb:
                ends, side = THUMB[min(place, 2)]
            elif place < start:
                ends, side = METACARPAL
            else:
                ends, side = (KNUCKLE, MIDDLE, END)[min(place - start, 2)]
            if place > 0 or (chain is not thumb and place == start):
                at_rest = _bend(
                    before if place == start and chain is not thumb else rod[place - 1], along, axis
                )
            twist = THUMB_TWIST if chain is thumb and place == 0 else TWIST
            yield _digit(joint, along, axis, ends, side, twist, at_rest)


def _toes(
    skeleton: Skeleton, places: FloatArray, ankle: int, chains: Sequence[Limb], up: FloatArray
) -> Iterator[Digit]:
    """The toes of a foot: they bend down."""
    for chain in chains:
        rod = _rods(skeleton, places, chain.joints)
        axes = _axes(rod, -up, straight=True)
        if axes is None:
            continue
        for place, joint in enumerate(chain.joints):
            start = _knuckle(places, ankle, chain.joints)
            ends, side = METACARPAL if place < start else TOES[min(place - start, 1)]
            yield _digit(joint, rod[place], axes[place], ends, side, TWIST, 0.0)


def _digit(
    joint: int,
    along: FloatArray,
    axis: FloatArray,
    ends: tuple[float, float],
    side: float,
    twist: float,
    at_rest: float,
) -> Digit:
    low, high = np.radians(ends[0]) - at_rest, np.radians(ends[1]) - at_rest
    across = np.cross(axis, along)
    moves = (
        Movement(axis, min(low, 0.0), max(high, 0.0)),  # what a rest pose shows, a finger can do
        Movement(across, -np.radians(side), np.radians(side)),
        Movement(along, -np.radians(twist), np.radians(twist)),
    )
    return Digit(joint, along, axis, moves)


# Geometry


def _rods(skeleton: Skeleton, places: FloatArray, joints: Sequence[int]) -> list[FloatArray]:
    """Unit vectors along the bones of a chain; the last goes on along its own y if that is about the way."""
    rods = [unit(places[b] - places[a]) for a, b in pairwise(joints)]
    own = np.array(skeleton.armature_from_joint_rest[joints[-1], :3, 1])
    below = np.flatnonzero(skeleton.parents == joints[-1])
    if len(below):
        own = unit(places[below[0]] - places[joints[-1]])
    if not rods:
        return [own]
    return [*rods, own if own @ rods[-1] > np.cos(np.radians(75.0)) else rods[-1]]


def _thumb(skeleton: Skeleton, rods: dict[int, list[FloatArray]], chains: Sequence[Limb]) -> Limb | None:
    """The thumb by its name, else the digit that points away from the others; None where there is none."""
    for chain in chains:
        if any(THUMB_NAME.search(skeleton.names[joint]) for joint in chain.joints):
            return chain
    if len(chains) < 3:
        return None
    ways = np.array([rods[chain.joints[0]][0] for chain in chains])
    middle = np.median(ways, axis=0)
    off = ways @ unit(middle)
    row = int(np.argmin(off))
    return chains[row] if off[row] < np.cos(APART) else None


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
    if side is Side.CENTRE or not fingers:
        return None
    knuckles = np.array([places[f.joints[_knuckle(places, wrist, f.joints)]] for f in fingers])
    forward = unit(knuckles.mean(axis=0) - places[wrist])
    towards = across - (across @ forward) * forward
    if len(fingers) >= 2:
        # The row of the knuckles says it better than the thumb, which may stand off the palm.
        row = knuckles - knuckles.mean(axis=0)
        row = row - np.outer(row @ forward, forward)
        line = np.linalg.svd(row)[2][0]
        if np.ptp(row @ line) > TINY:
            towards = line * (line @ towards)
    if np.linalg.norm(towards) <= TINY:
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
) -> list[FloatArray] | None:
    """Axis of bend of each bone of a chain that bends towards a direction; None where that is not known.

    A chain that is bent at rest bends about its own axis, to the side of the direction if there is one.
    """
    turn = np.sum([np.cross(a, b) for a, b in pairwise(rods)], axis=0)
    own = None
    if len(rods) > 1 and np.linalg.norm(turn) > np.sin(BENT) and not straight:
        own = unit(np.asarray(turn, dtype=np.float64))
    axes: list[FloatArray] = []
    for rod in rods:
        about = own
        if towards is not None:
            given = np.cross(rod, towards)
            if np.linalg.norm(given) <= TINY:
                return None
            given = unit(given)
            about = given if own is None or abs(float(own @ given)) < np.cos(np.radians(45.0)) else own
            about = about * np.sign(about @ given)
        if about is None:
            return None
        about = about - (about @ rod) * rod
        if np.linalg.norm(about) <= TINY:
            return None
        axes.append(unit(about))
    return axes


def _bend(before: FloatArray, after: FloatArray, axis: FloatArray) -> float:
    """By how much a bone is bent from the one before it, about an axis [rad]."""
    flat = before - (before @ axis) * axis
    return float(np.arctan2(np.cross(flat, after) @ axis, flat @ after))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingers, thumbs and toes: about which axes they bend and how far, from the places of their joints.

Nothing is taken from how bones are rolled. In a left hand with fingers along h and the thumb towards t the
palm faces along h × t, in a right hand the other way; a finger that points along d bends about d × p, p the
palm's normal. A finger that is clearly bent at rest shows about which axis it bends. Without a thumb and
without a bend it is not known where the palm is: such fingers get no limits.

Ranges are counted from straight, as those of elbows, and are those of [AAOS1965], compared with lists that
others teach from: knuckles 90 degrees, middle joints 100, end joints 90, thumb 50 and 80, its tip 20
backwards; knuckles that are pushed bend 45 backwards, here 30, and 20 to either side. The root of a thumb is
a saddle, which rigs hinge in many ways. It bends by 53 degrees in all, goes aside by 42 and turns by 17
[Cooney1981; unverified]; where in these ranges it is at rest is not known, so it has all of them either way.
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
from .roles import Character, Limb, LimbKind, Role, Side
from .roles.structure import TINY, norm, unit

BENT, APART = float(np.radians(15.0)), float(np.radians(20.0))
"""Bend of a whole finger at rest from which on it shows its own plane; angle between a digit and the mean of
the others above which it is the thumb, if no name says so [rad]."""

WRIST: Final = 0.5
"""Distance from the wrist, in that of the next joint [1], below which a chain begins with a bone of the
palm."""

THUMB_NAME: Final = re.compile(r"thumb|pollex|親指", re.IGNORECASE)

KNUCKLE, MIDDLE = ((-30.0, 90.0), 20.0), ((-5.0, 100.0), 3.0)
END, METACARPAL = ((-10.0, 90.0), 3.0), ((-5.0, 15.0), 5.0)
"""Bend from straight, and play to either side [deg]."""

THUMB: Final = (((-53.0, 53.0), 42.0), ((-10.0, 60.0), 10.0), ((-20.0, 85.0), 5.0))
"""The same from the root of the thumb to its tip [deg]; the first from rest."""

TOES: Final = (((-70.0, 45.0), 10.0), ((-10.0, 70.0), 5.0))
"""The same of the first joint of a toe, up 70 and down 45, and of those after it [deg], from rest."""

TWIST, THUMB_TWIST = 5.0, 17.0
"""How far fingers, and the root of a thumb, turn about themselves [deg], either way."""


@dataclass(frozen=True)
class Digit:
    """A joint of a finger or a toe."""

    joint: int
    along: FloatArray
    """Unit vector along its bone at rest, in armature space, (3,)."""
    axis: FloatArray
    """Unit axis about which it bends, right-handed, in armature space, (3,)."""
    kind: tuple[tuple[float, float], float]
    """Bend from straight, and play to either side [deg]."""
    twist: float = TWIST
    """[deg]"""
    at_rest: float = 0.0
    """By how much it is bent at rest [rad]."""

    @property
    def ranges(self) -> tuple[tuple[float, float], ...]:
        """Its bend, its play to the sides and its twist, counted from rest [deg]."""
        (low, high), side = self.kind
        bent = float(np.degrees(self.at_rest))  # what a rest pose shows, a finger can do
        return (min(low - bent, 0.0), max(high - bent, 0.0)), (-side, side), (-self.twist, self.twist)


def digits(skeleton: Skeleton, character: Character, figure: int) -> Iterator[Digit]:
    """Give the joints of all fingers and toes of a figure whose bends are known."""
    places = skeleton.armature_from_joint_rest[:, :3, 3]
    for kind, role in ((LimbKind.FINGER, Role.HAND), (LimbKind.TOE, Role.FOOT)):
        chains: dict[int, list[Limb]] = {}
        for chain in character.limbs_of(kind, figure=figure):
            above = skeleton.ancestors(chain.joints[0])[1:]
            bearers = [joint for joint in above if character.role_of(joint) is role]
            if bearers:  # of several hands in a row the uppermost, where the wrist is
                chains.setdefault(bearers[-1], []).append(chain)
        for root in sorted(chains):
            rods = [_rods(skeleton, chain.joints) for chain in chains[root]]
            if kind is LimbKind.FINGER:
                yield from _hand(skeleton, root, chains[root], rods)
                continue
            for chain, rod in zip(chains[root], rods, strict=True):  # toes bend down
                start = _knuckle(places, root, chain.joints)
                axes = _axes(rod, -character.figures[figure].up, straight=True)
                for place, (joint, axis) in enumerate(zip(chain.joints, axes, strict=False)):
                    own = METACARPAL if place < start else TOES[min(place - start, 1)]
                    yield Digit(joint, rod[place], axis, own)


def _hand(
    skeleton: Skeleton, wrist: int, chains: Sequence[Limb], rods: Sequence[Sequence[FloatArray]]
) -> Iterator[Digit]:
    """The fingers of a hand."""
    places = skeleton.armature_from_joint_rest[:, :3, 3]
    thumb = _thumb(skeleton, chains, rods)
    fingers = [chain for chain in chains if thumb is None or chain is not chains[thumb]]
    knuckles = {finger.joints[0]: _knuckle(places, wrist, finger.joints) for finger in fingers}
    across, palm = np.zeros(3), None
    if thumb is not None and fingers:
        # From the other fingers' roots to the end of the thumb's first bone: some hands have all their roots
        # in one place, then the way that the thumb points is all there is.
        roots = places[[finger.joints[0] for finger in fingers]]
        length = 0.5 * float(np.linalg.norm(roots - places[wrist], axis=1).mean())
        root = places[chains[thumb].joints[0]]
        across = root + max(length, TINY) * rods[thumb][0] - roots.mean(axis=0)
        ends = places[[finger.joints[knuckles[finger.joints[0]]] for finger in fingers]]
        palm = _palm(ends, places[wrist], chains[thumb].side, across)
    for row, (chain, rod) in enumerate(zip(chains, rods, strict=True)):
        is_thumb = row == thumb
        start = 0 if is_thumb else knuckles[chain.joints[0]]
        towards = palm
        if is_thumb and palm is not None:
            towards = palm - unit(across)  # across the palm, towards the root of the last finger
        for place, (joint, axis) in enumerate(zip(chain.joints, _axes(rod, towards), strict=False)):
            before = rod[max(place - 1, 0)]  # what the bone is bent from
            if is_thumb:
                kind = THUMB[min(place, 2)]
            elif place == start:
                kind, before = KNUCKLE, unit(places[joint] - places[wrist])
            else:
                kind = METACARPAL if place < start else (MIDDLE, END)[min(place - start, 2) - 1]
            at_rest = 0.0 if place == 0 and (is_thumb or start) else _bend(before, rod[place], axis)
            twist = THUMB_TWIST if is_thumb and place == 0 else TWIST
            yield Digit(joint, rod[place], axis, kind, twist, at_rest)


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


def _thumb(skeleton: Skeleton, chains: Sequence[Limb], rods: Sequence[Sequence[FloatArray]]) -> int | None:
    """Row of the thumb by its name, else of the digit that points away from the others; None without one."""
    for row, chain in enumerate(chains):
        if any(THUMB_NAME.search(skeleton.names[joint]) for joint in chain.joints):
            return row
    ways = np.array([rod[0] for rod in rods])
    off = ways @ unit(np.median(ways, axis=0))
    return int(np.argmin(off)) if len(chains) >= 3 and off.min() < np.cos(APART) else None


def _palm(knuckles: FloatArray, wrist: FloatArray, side: Side, across: FloatArray) -> FloatArray | None:
    """Where the palm faces, a unit vector (3,); None where it is not known.

    `knuckles` (k, 3) and `wrist` (3,) are places [m], `across` (3,) goes from the fingers towards the thumb.
    """
    forward = unit(knuckles.mean(axis=0) - wrist)
    towards = across - (across @ forward) * forward
    # The row of the knuckles shows it better than the thumb, which may stand off the palm.
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
    first, second = (norm(places[joint] - places[wrist]) for joint in joints[:2])
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

# SPDX-License-Identifier: GPL-3.0-or-later
"""What the joints of one limb are, and which way its elbow or knee bends.

Arms and legs have one grammar: girdle, upper, lower, (ankle), end, digits; a joint is never nearer to the
root than what is above it, and who has an end has an upper and a lower part. Names weigh each joint's slots
(`names`); the labels taken are those of the largest sum along the chain that keeps the order, found by
dynamic programming. So `LeftUpLeg, LeftLeg, LeftFoot` and `LeftHip, LeftKnee, LeftAnkle` both become thigh,
shin, foot.

Without names the two long parts are looked for: of all joints u < l < e those whose parts u→l and l→e make up
most of the limb, score = (|ul| + |le|) / length, less what speaks against them, see the constants. A fan of
digits is no part of it.

An elbow at b between a and c is bent by the angle between b − a and c − b; it bends further about
(b − a) × (c − b). Elbows point backward and knees forward: where b lies on the other side of the line from a
to c the limb is inverted, and where it is too near to it the axis comes from the direction in which it
should point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from ...arrays import FloatArray
from .character import Bend, LimbKind, Role
from .names import NameReading
from .structure import ON_PLANE, TINY, Mirror, Tree

STRAIGHT: Final = np.radians(2.0)
"""Bend [rad] below which the plane of an elbow is not believed: a few millimetres in a forearm."""

HIGH_ANKLE: Final = 0.2
"""Height of the ankle in lengths of the leg [1] above which an animal walks on its toes; people have 0.1."""

MISFIT, SKIPPED, REPEATED = -2.0, -4.0, -0.6
"""Weights of a label that a name speaks against, of an upper or lower part that is missing, of a second
joint in a part that names do not call the same."""

SPLIT: Final = 0.3
"""What each further joint inside a long part takes from the score of a limb's shape [1]: a joint in the
middle of a limb is rather an elbow."""

GIRDLED: Final = 0.1
"""What each joint above the upper part takes from it [1]."""

AGAINST: Final = 0.4
"""What each of these takes from it [1]: an upper part that begins in the middle of the body, as collarbones
do; an elbow that is clearly bent the wrong way; an arm whose hand is not where fingers fan out (toes may fan
out from other bones than the foot)."""

CLEARLY: Final = np.radians(10.0)
"""How far such an elbow is bent at least [rad]."""


class Slot(IntEnum):
    """The parts of a limb, from its root."""

    GIRDLE = 0
    UPPER = 1
    LOWER = 2
    ANKLE = 3
    END = 4
    DIGIT = 5


ROUNDING: Final = 1e-9
"""By how much a division must be better [1] to be taken: of the same ones the first stays."""

ARM_ROLES: Final = (Role.SHOULDER, Role.UPPER_ARM, Role.LOWER_ARM, Role.HAND, Role.HAND, Role.FINGER)
LEG_ROLES: Final = (Role.PELVIS, Role.UPPER_LEG, Role.LOWER_LEG, Role.ANKLE, Role.FOOT, Role.TOE)
FRONT_LEG_ROLES: Final = (Role.SHOULDER, *LEG_ROLES[1:])
"""Role of each slot."""

ROLES_OF_KIND: Final = {
    LimbKind.ARM: ARM_ROLES,
    LimbKind.LEG: LEG_ROLES,
    LimbKind.FRONT_LEG: FRONT_LEG_ROLES,
}

_SLOTS: Final = {
    Role.SHOULDER: Slot.GIRDLE,
    Role.UPPER_ARM: Slot.UPPER,
    Role.LOWER_ARM: Slot.LOWER,
    Role.HAND: Slot.END,
    Role.FINGER: Slot.DIGIT,
    Role.PELVIS: Slot.GIRDLE,
    Role.UPPER_LEG: Slot.UPPER,
    Role.LOWER_LEG: Slot.LOWER,
    Role.ANKLE: Slot.ANKLE,
    Role.FOOT: Slot.END,
    Role.TOE: Slot.DIGIT,
}
LIMB_ROLES: Final = frozenset(_SLOTS)
"""Roles of arms and legs."""


@dataclass(frozen=True)
class Labelled:
    """A chain with a slot for each joint."""

    joints: tuple[int, ...]
    slots: tuple[Slot, ...]
    score: float
    """Sum of the weights; 3 for each joint whose name leaves no doubt."""
    named: tuple[float, ...]
    """Weight that the name gave to the slot of each joint; at most 0: it was not the name."""

    def first(self, slot: Slot) -> int | None:
        """The first joint of a slot, None without any."""
        for joint, other in zip(self.joints, self.slots, strict=True):
            if other is slot:
                return joint
        return None

    def without_digits(self) -> Labelled:
        """The chain up to hand or foot."""
        count = sum(slot is not Slot.DIGIT for slot in self.slots)
        return Labelled(self.joints[:count], self.slots[:count], self.score, self.named[:count])


def weights_of(reading: NameReading, *, after_ankle: bool, high_ankle: bool, leg: bool) -> dict[Slot, float]:
    """What a name says of slots -> weight; empty where it says nothing of limbs."""
    weights: dict[Slot, float] = {}
    for role, weight in reading.roles.items():
        if role in _SLOTS:
            slot = _SLOTS[role]
            if slot is Slot.ANKLE and not high_ankle:
                continue
            weights[slot] = max(weights.get(slot, 0.0), weight)
    if leg and after_ankle and not high_ankle and "foot" in reading.words:
        weights = {Slot.END: 1.0, Slot.DIGIT: 2.5}  # SMPL: hip, knee, ankle, foot
    return weights


def label(path: Sequence[int], readings: Sequence[NameReading], *, high_ankle: bool, leg: bool) -> Labelled:
    """The best slots of a chain by names, in the grammar's order.

    Args:
        path: Joints from the root of the limb.
        readings: Of all joints of the skeleton.
        high_ankle: Whether an ankle may be a part of its own, see `HIGH_ANKLE`.
        leg: Whether it is a leg.
    """
    table: list[list[float]] = []
    ankle = False
    for joint in path:
        reading = readings[joint]
        weights = weights_of(reading, after_ankle=ankle, high_ankle=high_ankle, leg=leg)
        ankle = ankle or "ankle" in reading.words
        table.append([weights.get(slot, MISFIT if weights else 0.0) for slot in Slot])
    score = np.full((len(path), len(Slot)), -np.inf)
    before = np.zeros((len(path), len(Slot)), dtype=np.int64)
    for row, joint in enumerate(path):
        for slot in Slot:
            if row == 0:
                score[0, slot] = table[0][slot] + _skips(-1, slot)
                continue
            same = readings[joint].stem.rstrip("0123456789 ") == readings[path[row - 1]].stem.rstrip(
                "0123456789 "
            )
            for last in list(Slot)[: slot + 1]:
                step = (
                    _skips(last, slot) if last < slot else (0.0 if same or slot is Slot.DIGIT else REPEATED)
                )
                value = score[row - 1, last] + step + table[row][slot]
                if value > score[row, slot]:
                    score[row, slot], before[row, slot] = value, last
    slots = [int(np.argmax(score[-1]))]
    for row in range(len(path) - 1, 0, -1):
        slots.append(int(before[row, slots[-1]]))
    slots.reverse()
    named = tuple(table[row][slot] for row, slot in enumerate(slots))
    return Labelled(tuple(path), tuple(Slot(slot) for slot in slots), float(score[-1].max()), named)


def _skips(last: int, slot: int) -> float:
    """Weight of the parts that a step from one slot to the next leaves out."""
    return sum(SKIPPED for missing in (Slot.UPPER, Slot.LOWER) if last < missing < slot)


def label_by_shape(
    tree: Tree, path: Sequence[int], mirror: Mirror, *, arm: bool, points: FloatArray | None = None
) -> Labelled:
    """Slots of a chain from its shape alone.

    Args:
        tree: The figure.
        path: Joints from the first one below the trunk.
        mirror: The figure's plane.
        arm: Whether it is an arm.
        points: The way in which its elbow or knee should point, (3,), once that is known.
    """
    end = _fan(tree, path)
    places = tree.places[list(path)]
    parts = np.linalg.norm(np.diff(places, axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(parts)])
    whole = max(float(along[end]), TINY)
    last = len(path) - 1
    if last < 2:
        slots = [Slot.UPPER, Slot.LOWER][: last + 1]
        return Labelled(tuple(path), tuple(slots), 0.0, (0.0,) * len(slots))
    best, chosen = -np.inf, (0, 1, 2)
    for u in range(end - 1):
        for low in range(u + 1, end):
            for e in range(low + 1, end + 1):
                upper, lower = float(along[low] - along[u]), float(along[e] - along[low])
                if min(upper, lower) <= TINY:
                    continue
                value = (upper + lower) / whole
                # A part of several joints is rather a part and the next one.
                value -= SPLIT * (e - u - 2) + GIRDLED * u
                value -= AGAINST * (arm and end < last and e != end)
                if abs(float(mirror.distances(places[u]))) < ON_PLANE * tree.size and last > 2:
                    value -= AGAINST
                if points is not None:
                    bend = read_bend(places[u], places[low], places[e], points)
                    value -= AGAINST * (bend.state is Bend.INVERTED and bend.angle > CLEARLY)
                if value > best + ROUNDING:
                    best, chosen = value, (u, low, e)
    u, low, e = chosen
    slots = [
        Slot.GIRDLE
        if row < u
        else Slot.UPPER
        if row < low
        else Slot.LOWER
        if row < e
        else Slot.END
        if row == e
        else Slot.DIGIT
        for row in range(len(path))
    ]
    return Labelled(tuple(path), tuple(slots), 0.0, (0.0,) * len(slots))


def _fan(tree: Tree, path: Sequence[int]) -> int:
    """Index in the path of the joint at which digits fan out, else of its last joint."""
    for row, joint in enumerate(path):
        if row >= 2 and len(tree.children[joint]) >= 3:
            return row
    return len(path) - 1


def is_high_ankle(tree: Tree, path: Sequence[int]) -> bool:
    """Whether the joint that is named ankle is far above the end of the limb, as those of animals are."""
    if any(tree.readings[joint].front is not None for joint in path):
        return True  # who speaks of front and hind legs speaks of animals
    heights = [row for row, joint in enumerate(path) if "ankle" in tree.readings[joint].words]
    if not heights or heights[0] == 0 or heights[0] == len(path) - 1:
        return False
    root, tip = tree.places[path[0]], tree.tails[path[-1]]
    leg = float(np.linalg.norm(tip - root))
    if leg <= TINY:
        return False
    down = (tip - root) / leg
    return float((tip - tree.places[path[heights[0]]]) @ down) > HIGH_ANKLE * leg


def leaf_paths(tree: Tree, root: int, allowed: Callable[[int], bool]) -> Iterator[list[int]]:
    """Chains from a joint down to each last allowed joint."""
    stack = [[root]]
    while stack:
        path = stack.pop()
        below = [child for child in tree.children[path[-1]] if allowed(child)]
        if not below:
            yield path
        stack += [[*path, child] for child in below]


# Elbows and knees


@dataclass(frozen=True)
class BendReading:
    """How an elbow or knee is bent at rest."""

    state: Bend
    angle: float
    """[rad]."""
    axis: FloatArray | None
    """Unit axis of further bending in armature space, (3,)."""


NO_BEND: Final = BendReading(Bend.NONE, 0.0, None)


def read_bend(a: FloatArray, b: FloatArray, c: FloatArray, points: FloatArray | None) -> BendReading:
    """How the joint at b, between a and c, is bent; see the module's beginning.

    Args:
        a: Root of the upper part, (3,) [m].
        b: The elbow or knee, (3,) [m].
        c: End of the lower part, (3,) [m].
        points: The way in which such a joint points, (3,); None where nothing is known of it.
    """
    upper, lower = b - a, c - b
    lengths = float(np.linalg.norm(upper)), float(np.linalg.norm(lower))
    if min(lengths) <= TINY:
        return NO_BEND
    cross = np.cross(upper, lower)
    sine, cosine = float(np.linalg.norm(cross)), float(upper @ lower)
    angle = float(np.arctan2(sine, cosine))
    limb = (c - a) / max(float(np.linalg.norm(c - a)), TINY)
    proper: FloatArray | None = None
    if points is not None:
        across = points - (points @ limb) * limb
        if np.linalg.norm(across) > 0.1:
            axis = np.cross(across, limb)  # turns the lower part away from where the elbow points
            proper = axis / np.linalg.norm(axis)
    if angle < STRAIGHT:
        return BendReading(Bend.STRAIGHT, angle, proper)
    measured = cross / sine
    if proper is not None and float(measured @ proper) < -0.5:
        return BendReading(Bend.INVERTED, angle, proper)
    return BendReading(Bend.BENT, angle, measured)

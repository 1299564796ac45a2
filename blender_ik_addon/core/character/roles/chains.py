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

from collections.abc import Sequence
from enum import IntEnum
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np

from ...arrays import FloatArray
from .character import Bend, LimbKind, Role
from .names import NameReading
from .structure import ON_PLANE, TINY, Mirror, Tree, norm, unit

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

_ARM: Final = (Role.SHOULDER, Role.UPPER_ARM, Role.LOWER_ARM, Role.HAND, Role.HAND, Role.FINGER)
_LEG: Final = (Role.PELVIS, Role.UPPER_LEG, Role.LOWER_LEG, Role.ANKLE, Role.FOOT, Role.TOE)

ROLES_OF_KIND: Final = {
    LimbKind.ARM: _ARM,
    LimbKind.LEG: _LEG,
    LimbKind.FRONT_LEG: (Role.SHOULDER, *_LEG[1:]),
}
"""Role of each slot."""

_SLOTS: Final = {role: slot for roles in (_LEG, _ARM) for slot, role in zip(Slot, roles, strict=True)}

LIMB_ROLES: Final = frozenset(_SLOTS)
"""Roles of arms and legs."""

_STEPS: Final = np.array(
    [
        [sum(SKIPPED for part in (Slot.UPPER, Slot.LOWER) if last < part < slot) for slot in Slot]
        for last in (-1, *Slot)
    ]
) + np.tril(np.full((len(Slot) + 1, len(Slot)), -np.inf), -2)
"""Weights of the parts that a step from one slot to another leaves out, (7, 6); the first row is the root's,
and no step leads back."""


class Labels(NamedTuple):
    """The slots of a chain."""

    slots: tuple[Slot, ...]
    named: tuple[float, ...]
    """Weight that the name gave to the slot of each joint; at most 0: it was not the name."""


def label(path: Sequence[int], readings: Sequence[NameReading], *, high_ankle: bool, leg: bool) -> Labels:
    """The best slots of a chain by names, in the grammar's order.

    Args:
        path: Joints from the root of the limb.
        readings: Of all joints of the skeleton.
        high_ankle: Whether an ankle may be a part of its own, see `HIGH_ANKLE`.
        leg: Whether it is a leg.
    """
    table = np.zeros((len(path), len(Slot)))
    before: list[list[int]] = []
    score = np.zeros(len(Slot))
    ankle, stem = False, ""
    for row, joint in enumerate(path):
        reading = readings[joint]
        weights: dict[Slot, float] = {}
        for role, weight in reading.roles.items():
            slot = _SLOTS.get(role)
            if slot is not None and (high_ankle or slot is not Slot.ANKLE):
                weights[slot] = max(weights.get(slot, 0.0), weight)
        if leg and ankle and not high_ankle and "foot" in reading.words:
            weights = {Slot.END: 1.0, Slot.DIGIT: 2.5}  # SMPL: hip, knee, ankle, foot
        ankle = ankle or "ankle" in reading.words
        table[row] = [weights.get(slot, MISFIT if weights else 0.0) for slot in Slot]
        last, stem = stem, reading.stem.rstrip("0123456789 ")
        if row == 0:
            score = _STEPS[0] + table[0]
            continue
        options = score[:, None] + _STEPS[1:]
        if stem != last:
            options -= np.diag([-REPEATED] * Slot.DIGIT + [0.0])
        before.append(options.argmax(0).tolist())
        score = options.max(0) + table[row]
    slots = [int(score.argmax())]
    for lasts in reversed(before):
        slots.append(lasts[slots[-1]])
    slots.reverse()
    return Labels(tuple(map(Slot, slots)), tuple(table[range(len(path)), slots].tolist()))


def label_by_shape(
    tree: Tree, path: Sequence[int], mirror: Mirror, *, arm: bool, points: FloatArray | None = None
) -> list[Slot]:
    """Slots of a chain from its shape alone.

    Args:
        tree: The figure.
        path: Joints from the first one below the trunk.
        mirror: The figure's plane.
        arm: Whether it is an arm.
        points: The way in which its elbow or knee should point, (3,), once that is known.
    """
    last = len(path) - 1
    # A fan of digits is no part of the limb.
    end = next((row for row, joint in enumerate(path) if row >= 2 and len(tree.children[joint]) >= 3), last)
    places = tree.places[list(path)]
    along = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(places, axis=0), axis=1)))
    best, chosen = -np.inf, (0, 1, 2)
    for u, low, e in combinations(range(end + 1), 3):
        upper, lower = float(along[low] - along[u]), float(along[e] - along[low])
        if min(upper, lower) <= TINY:
            continue
        # A part of several joints is rather a part and the next one.
        value = (upper + lower) / max(float(along[end]), TINY) - SPLIT * (e - u - 2) - GIRDLED * u
        value -= AGAINST * (arm and end < last and e != end)
        value -= AGAINST * (abs(float(mirror.distances(places[u]))) < ON_PLANE * tree.size and last > 2)
        if points is not None:
            bend = read_bend(places[u], places[low], places[e], points)
            value -= AGAINST * (bend.state is Bend.INVERTED and bend.angle > CLEARLY)
        if value > best + ROUNDING:
            best, chosen = value, (u, low, e)
    u, low, e = chosen
    slots = [Slot.GIRDLE] * u + [Slot.UPPER] * (low - u) + [Slot.LOWER] * (e - low)
    return [*slots, Slot.END, *[Slot.DIGIT] * (last - e)][: last + 1]


def is_high_ankle(tree: Tree, path: Sequence[int]) -> bool:
    """Whether the joint that is named ankle is far above the end of the limb, as those of animals are."""
    if any(tree.readings[joint].front is not None for joint in path):
        return True  # who speaks of front and hind legs speaks of animals
    ankle = next((row for row, joint in enumerate(path) if "ankle" in tree.readings[joint].words), 0)
    leg = tree.tails[path[-1]] - tree.places[path[0]]
    below = tree.tails[path[-1]] - tree.places[path[ankle]]
    return 0 < ankle < len(path) - 1 and float(below @ leg) > HIGH_ANKLE * float(leg @ leg)


# Elbows and knees


class BendReading(NamedTuple):
    """How an elbow or knee is bent at rest."""

    state: Bend
    angle: float
    """[rad]."""
    axis: FloatArray | None
    """Unit axis of further bending in armature space, (3,)."""


NO_BEND: Final = BendReading(Bend.NONE, 0.0, None)


def read_bend(
    a: FloatArray, b: FloatArray, c: FloatArray, points: FloatArray | None, axis: FloatArray | None = None
) -> BendReading:
    """How the joint at b, between a and c, is bent; see the module's beginning.

    Args:
        a: Root of the upper part, (3,) [m].
        b: The elbow or knee, (3,) [m].
        c: End of the lower part, (3,) [m].
        points: The way in which such a joint points, (3,); None where nothing is known of it.
        axis: Unit axis about which it should bend, (3,), where that is known already.
    """
    upper, lower = b - a, c - b
    if min(norm(upper), norm(lower)) <= TINY:
        return NO_BEND
    cross = np.cross(upper, lower)
    angle = float(np.arctan2(norm(cross), upper @ lower))
    if points is not None and axis is None:
        turned = np.cross(points, unit(c - a))  # turns the lower part away from where the elbow points
        axis = unit(turned) if norm(turned) > 0.1 else None
    if angle < STRAIGHT:
        return BendReading(Bend.STRAIGHT, angle, axis)
    if axis is not None and float(unit(cross) @ axis) < -0.5:
        return BendReading(Bend.INVERTED, angle, axis)
    return BendReading(Bend.BENT, angle, cross / norm(cross))

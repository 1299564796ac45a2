# SPDX-License-Identifier: GPL-3.0-or-later
"""Limbs: which chains names make limbs, where a limb is held, and which way its elbow or knee bends.

Arms and legs have one grammar: girdle, upper, lower, (ankle), end, digits; a joint is never nearer to the
root than what is above it, and who has an end has an upper and a lower part. Names weigh each joint's slots
(`names`); the labels taken are those of the largest sum along the chain that keeps the order, found by
dynamic programming. So `LeftUpLeg, LeftLeg, LeftFoot` and `LeftHip, LeftKnee, LeftAnkle` both become thigh,
shin, foot.

An elbow at b between a and c is bent by the angle between b − a and c − b; it bends further about
(b − a) × (c − b). Elbows point backward and knees forward: where b lies on the other side of the line from a
to c the limb is inverted, and where it is too near to it the axis comes from the direction in which it
should point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from operator import itemgetter
from typing import Final

import numpy as np

from ...arrays import FloatArray
from ...messages import Message
from .character import ENDS, LOWER, PARTS, UPPER, Bend, Body, Chain, Figure, LimbKind, Role, Side
from .names import NameReading
from .structure import ON_PLANE, TINY, Tree, norm, unit

MISFIT, SKIPPED, REPEATED = -2.0, -4.0, -0.6
"""Weights of a label that a name speaks against, of an upper or lower part that is missing, of a second
joint in a part that names do not call the same."""

HIGH_ANKLE, PAW = 0.2, 0.12
"""Heights in lengths of the leg [1] above which an animal walks on its toes: of the ankle, of which people
have 0.1, and of the foot's joint."""

ROUNDING: Final = 1e-9
"""By how much a division must be better [1] to be taken: of the same ones the first stays."""

STRAIGHT: Final = np.radians(2.0)
"""Bend [rad] below which the plane of an elbow is not believed: a few millimetres in a forearm."""

STRETCHED: Final = 0.94
"""Cosine [1] between two bones of an upper part below which there is an elbow or a knee between them."""

SPREAD: Final = 0.7
"""Cosine [1] between a leg and down below which the leg spreads to the side, as a spider's, and its knee
points up."""


class Slot(IntEnum):
    """The parts of an arm or leg, from its root: rows of `PARTS`, and digits."""

    GIRDLE = 0
    UPPER = 1
    LOWER = 2
    ANKLE = 3
    END = 4
    DIGIT = 5


_ARM_OR_LEG: Final = (LimbKind.ARM, LimbKind.LEG, LimbKind.FRONT_LEG)
_SLOTS: Final = {Role.FINGER: Slot.DIGIT, Role.TOE: Slot.DIGIT} | {
    role: Slot(row) for kind in _ARM_OR_LEG for row, role in enumerate(PARTS[kind])
}

_STEPS: Final = {
    (last, slot): SKIPPED * sum(last < part < slot for part in (Slot.UPPER, Slot.LOWER))
    for last in (-1, *Slot)
    for slot in Slot
}
_RENAMED: Final = _STEPS | {(slot, slot): REPEATED for slot in Slot if slot < Slot.DIGIT}
"""Weights of steps between slots: parts that are left out; and to a joint of another name."""

_FANS: Final = {Role.WING: LimbKind.WING, Role.FIN: LimbKind.FIN}


@dataclass(frozen=True)
class Found(Chain):
    """A chain that is a limb."""

    named: tuple[float, ...] = ()
    """Weights that names gave to the roles, at most 0: it was not the name. Empty for a limb by shape, all 0
    for the mirror image of a named one."""
    front: bool | None = None
    """Whether names say that it is a front or a hind limb."""

    @property
    def by_name(self) -> bool:
        """Whether names made it a limb, and not its shape or the other side."""
        return max(self.named, default=0.0) > 0.0

    @property
    def root(self) -> int:
        """The first joint."""
        return self.joints[0]

    def tip(self, tree: Tree) -> FloatArray:
        """Where it ends: the farthest point of its digits, (3,) [m]."""
        return tree.tip(self.joints[-1])

    def span(self, tree: Tree) -> FloatArray:
        """From the upper part, or the root where there is none, to the tip, (3,) [m]."""
        upper = self.first(*UPPER)
        return self.tip(tree) - tree.places[self.root if upper is None else upper]

    def retyped(self, kind: LimbKind) -> Found:
        """The same arm or leg as another kind."""
        return replace(self, kind=kind, roles=tuple(PARTS[kind][_SLOTS[role]] for role in self.roles))


def effector_of(tree: Tree, limb: Found, *, animal: bool) -> int:
    """The joint that a target holds; see `Limb.effector`."""
    end = limb.first(*ENDS)
    if end is None:
        return limb.joints[-1]
    leg, below = limb.span(tree), tree.main_path(end)[1:]
    on_toes = float((limb.tip(tree) - tree.places[end]) @ unit(leg)) > PAW * norm(leg)
    if animal and limb.kind is not LimbKind.ARM and limb.first(Role.ANKLE) is None and below and on_toes:
        return below[0]
    return end


# By names


def named_limbs(tree: Tree, sides: Sequence[Side]) -> tuple[list[Found], dict[int, str]]:
    """Limbs that names give, and named joints that are none -> why; sides are by name or place."""
    found: list[Found] = []
    refused: dict[int, str] = {}
    spoken = {*_SLOTS, *_FANS}
    candidates = {j for j in tree.kept if sides[j] is not Side.CENTRE and tree.readings[j].best in spoken}
    for side in (Side.LEFT, Side.RIGHT):
        mine = {joint for joint in candidates if sides[joint] is side}
        for root in sorted(mine):
            if not mine.isdisjoint(tree.ancestors(root)[1:]):
                continue
            limb = _named_limb(tree, root, side, mine, candidates - mine)
            if limb is not None:
                found.append(limb)
                continue
            for joint in mine.intersection(tree.branch(root)):
                refused[joint] = Message(
                    "named {best}, but hangs on no such limb", best=tree.readings[joint].best
                )
    return found, refused


def _named_limb(tree: Tree, root: int, side: Side, mine: set[int], others: set[int]) -> Found | None:
    """The limb of a branch, None if there is none: the best of its chains, each to its last named joint."""
    # Upwards over joints with names that say nothing and that bear nothing else.
    while (parent := tree.parents[root]) >= 0 and tree.parents[parent] >= 0:
        if tree.readings[parent].roles or tree.readings[parent].words or tree.children[parent] != [root]:
            break
        root = parent
    branch = tree.branch(root)
    for role, kind in _FANS.items():
        if fan := [joint for joint in branch if tree.weight(joint, role) > 0.0]:
            return _fan_limb(tree, root, fan, Found(kind, side, (), (role,)))
    best = -np.inf
    limb: Found | None = None
    for tip in reversed(branch):
        path = tree.path(root, tip)
        if not others.isdisjoint(path) or not others.issuperset(tree.children[tip]):
            continue
        while path[-1] not in mine:
            path.pop()
        arm, leg = (sum(tree.weight(j, *PARTS[kind][1:]) for j in path) for kind in _ARM_OR_LEG[:2])
        kind = LimbKind.LEG if leg > arm else LimbKind.ARM
        score, slots, named = _label(
            path, tree.readings, leg=leg > arm, high_ankle=_is_high_ankle(tree, path)
        )
        slots = _with_elbow(tree, path, slots) if _is_high_ankle(tree, path) else slots
        count = sum(slot is not Slot.DIGIT for slot in slots)
        if score > best + ROUNDING:
            fronts = (front for j in path[:count] if (front := tree.readings[j].front) is not None)
            roles = tuple(PARTS[kind][slot] for slot in slots[:count])
            best, limb = (
                score,
                Found(kind, side, tuple(path[:count]), roles, named[:count], next(fronts, None)),
            )
    rows = () if limb is None else zip(limb.roles, limb.named, strict=True)
    long_parts = [weight for role, weight in rows if role in (*UPPER, *LOWER)]
    return limb if len(long_parts) >= 2 or max(long_parts, default=0.0) > 0.0 else None


def _with_elbow(tree: Tree, path: Sequence[int], slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
    """The slots of an animal's leg, its lower part begun at the first joint at which the upper one is bent.

    Rigs of horses call the forearm the upper part of the leg, and the cannon the lower one.
    """
    for row in range(1, len(path) - 1):
        if slots[row - 1] is slots[row] is Slot.UPPER:
            upper = tree.places[path[row]] - tree.places[path[row - 1]]
            lower = tree.places[path[row + 1]] - tree.places[path[row]]
            if float(unit(upper) @ unit(lower)) < STRETCHED:
                later = (
                    min(Slot(slot + 1), Slot.ANKLE) if slot < Slot.ANKLE else slot for slot in slots[row:]
                )
                return (*slots[:row], *later)
    return slots


def _label(
    path: Sequence[int], readings: Sequence[NameReading], *, leg: bool, high_ankle: bool
) -> tuple[float, tuple[Slot, ...], tuple[float, ...]]:
    """The best slots of a chain by names, in the grammar's order: their score, they, and the names' weights.

    A weight of at most 0 says that it was not the name. An ankle is a part of its own only if it is high.
    """
    # The best labels up to a joint, by the slot of that joint.
    best: dict[int, tuple[float, tuple[Slot, ...], tuple[float, ...]]] = {-1: (0.0, (), ())}
    ankle, stem = False, ""
    for joint in path:
        reading = readings[joint]
        weights = {
            slot: weight
            for role, weight in reading.roles.items()
            if (slot := _SLOTS.get(role)) is not None and (high_ankle or slot is not Slot.ANKLE)
        }
        if leg and ankle and not high_ankle and "foot" in reading.words:
            weights = {Slot.END: 1.0, Slot.DIGIT: 2.5}  # SMPL: hip, knee, ankle, foot
        ankle = ankle or "ankle" in reading.words
        before, stem = stem, reading.stem.rstrip("0123456789 ")
        steps = _STEPS if stem == before else _RENAMED
        longer: dict[int, tuple[float, tuple[Slot, ...], tuple[float, ...]]] = {}
        for slot in Slot:
            weight = weights.get(slot, MISFIT if weights else 0.0)
            options = [
                (score + steps[last, slot] + weight, (*slots, slot), (*named, weight))
                for last, (score, slots, named) in best.items()
                if last <= slot
            ]
            longer[slot] = max(options, key=itemgetter(0))
        best = longer
    return max(best.values(), key=itemgetter(0))


def _is_high_ankle(tree: Tree, path: Sequence[int]) -> bool:
    """Whether the joint that is named ankle is far above the end of the limb, as those of animals are."""
    if any(tree.readings[joint].front is not None for joint in path):
        return True  # only animals have front and hind legs
    ankle = next((row for row, joint in enumerate(path) if "ankle" in tree.readings[joint].words), 0)
    tip = tree.tails[path[-1]]
    leg, below = tip - tree.places[path[0]], tip - tree.places[path[ankle]]
    return 0 < ankle < len(path) - 1 and float(below @ leg) > HIGH_ANKLE * float(leg @ leg)


def _fan_limb(tree: Tree, root: int, fan: Sequence[int], limb: Found) -> Found:
    """A wing or fin: the chain to the farthest of its named bones, what is above them a shoulder."""
    role = limb.roles[0]
    paths = [tree.path(root, joint) for joint in fan]
    path = max(paths, key=lambda path: sum(norm(tree.step(joint)) for joint in path[1:]))
    first = next(row for row, joint in enumerate(path) if joint in fan)
    roles = [Role.SHOULDER if row < first else role for row in range(len(path))]
    weights = tuple(tree.weight(j, r) for j, r in zip(path, roles, strict=True))
    return replace(limb, joints=tuple(path), roles=tuple(roles), named=weights)


def without_duplicates(tree: Tree, limbs: Sequence[Found]) -> tuple[list[Found], dict[int, str]]:
    """The limbs without copies of others at the same place, and the copies' joints -> why."""
    kept: list[Found] = []
    copies: dict[int, str] = {}
    for limb in sorted(limbs, key=lambda limb: (-sum(limb.named), limb.root)):
        here = tree.places[list(limb.joints)]
        misses = [
            np.linalg.norm(here[:, None] - tree.places[list(other.joints)], axis=2).min(1).max()
            for other in kept
            if (other.side, other.kind) == (limb.side, limb.kind)
        ]
        if min(misses, default=np.inf) > 2.0 * ON_PLANE * tree.size:
            kept.append(limb)
            continue
        reason = Message(
            "a second {side} {kind} at the place of the first: copy or mechanism",
            side=limb.side,
            kind=limb.kind,
        )
        copies |= dict.fromkeys(tree.branch(limb.root), reason)
    return sorted(kept, key=lambda limb: limb.root), copies


# Elbows and knees

BendReading = tuple[Bend, float, FloatArray | None]
"""How an elbow or knee is bent at rest: `Limb.bend`, `bend_angle` and `bend_axis`."""


def corners(
    limb: Chain, places: FloatArray, tip: FloatArray | None = None
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Where upper part, elbow or knee, and end of the lower part are, (3,) each [m]; None without these.

    A limb without hand or foot ends at its tip, (3,) [m]; `places` are those of the joints, (n, 3) [m].
    """
    upper, lower, end = limb.first(*UPPER), limb.first(*LOWER), limb.first(Role.ANKLE, *ENDS)
    last = tip if end is None else places[end]
    return None if upper is None or lower is None or last is None else (places[upper], places[lower], last)


def bend_of(
    limb: Chain,
    places: FloatArray,
    figure: Figure | None,
    tip: FloatArray | None = None,
    axis: FloatArray | None = None,
) -> BendReading:
    """How the elbow or knee of a limb is bent at rest; places and tip are those of `corners`.

    `axis`, (3,), is the unit axis about which it should bend, where that is known already.
    """
    found = corners(limb, places, tip)
    if found is None:
        return Bend.NONE, 0.0, None
    points = None
    if figure is not None:
        points = -figure.forward
        if limb.kind is LimbKind.LEG:
            # Legs that spread to the sides, a spider's, have their knees up.
            down = -float(unit(found[2] - found[0]) @ figure.up)
            points = figure.forward if down > SPREAD else figure.up
    bend = read_bend(*found, points, axis)
    if bend[0] is Bend.INVERTED and figure is not None and figure.body is Body.BIRD:
        # Some rigs begin a bird's leg at its knee, inside the body: the joint that shows is the ankle.
        return read_bend(*found, None)
    return bend


def read_bend(
    a: FloatArray, b: FloatArray, c: FloatArray, points: FloatArray | None, axis: FloatArray | None = None
) -> BendReading:
    """How the joint at b, between a and c, is bent; see the module's beginning.

    Such a joint points in the direction `points`, (3,), and bends about `axis`, (3,), if these are known.
    """
    upper, lower = b - a, c - b
    if min(norm(upper), norm(lower)) <= TINY:
        return Bend.NONE, 0.0, None
    cross = np.cross(upper, lower)
    angle = float(np.arctan2(norm(cross), upper @ lower))
    if points is not None and axis is None:
        turned = np.cross(points, unit(c - a))  # turns the lower part away from where the elbow points
        axis = unit(turned) if norm(turned) > 0.1 else None
    if angle < STRAIGHT:
        return Bend.STRAIGHT, angle, axis
    if axis is not None and float(unit(cross) @ axis) < -0.5:
        return Bend.INVERTED, angle, axis
    return Bend.BENT, angle, cross / norm(cross)

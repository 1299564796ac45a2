# SPDX-License-Identifier: GPL-3.0-or-later
"""Which chains of a figure are limbs, and of what kind: from names, and from shape where names are silent.

By shape: branches that the mirror plane maps onto each other are pairs of limbs if they are long. Projected
into the plane, a limb has a direction d, from the joint of the trunk on which it hangs to its tip. Let t be
the direction along the trunk from one pair to the other.

- Two pairs, one of which has d opposite to t: a body upright on its legs; the other pair are arms.
- Two pairs with d across t, about as far: four legs. Only one of them across: a bird on its legs, the others
  wings.
- Three pairs and more that hang close together: legs of a spider. Spread along the trunk: those that reach
  the
  ground are legs, the others wings.
- One pair: legs if they point away from the trunk or across it, otherwise arms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ...arrays import FloatArray
from .chains import (
    LIMB_ROLES,
    ROLES_OF_KIND,
    SKIPPED,
    Labelled,
    Slot,
    is_high_ankle,
    label,
    label_by_shape,
    leaf_paths,
)
from .character import LimbKind, Role, Side
from .structure import ON_PLANE, TINY, Mirror, Tree, mirrored_pairs, unit

LONG: Final = 0.2
"""Length of a limb in lengths of the longest one [1] below which a pair of branches is none: ears,
breasts."""

EARS: Final = 0.45
"""The same in lengths of the second longest [1]: wings may be much longer than legs, but they come alone."""

ALONG: Final = 0.45
"""Cosine [1] between a limb and the trunk above which the limb points along it."""

GROUNDED: Final = 0.3
"""Height of a limb's tip in heights of its root [1] below which it stands on the ground."""

CLOSE: Final = 0.4
"""How far apart, in lengths of the limbs [1], a spider's legs hang at most."""

_ARM: Final = frozenset({Role.UPPER_ARM, Role.LOWER_ARM, Role.HAND})
_LEG: Final = frozenset({Role.UPPER_LEG, Role.LOWER_LEG, Role.ANKLE, Role.FOOT})
_OTHER: Final = {Role.WING: LimbKind.WING, Role.FIN: LimbKind.FIN}


@dataclass(frozen=True)
class Found:
    """A chain that is a limb."""

    kind: LimbKind
    side: Side
    chain: Labelled
    """Without digits."""
    front: bool | None
    """Whether names say that it is a front or a hind limb."""
    by_shape: bool
    """Whether shape alone made it a limb of this kind."""

    @property
    def roles(self) -> tuple[Role, ...]:
        """Of its joints."""
        if self.kind in ROLES_OF_KIND:
            table = ROLES_OF_KIND[self.kind]
            return tuple(table[slot] for slot in self.chain.slots)
        role = Role.WING if self.kind is LimbKind.WING else Role.FIN
        return tuple(Role.SHOULDER if slot is Slot.GIRDLE else role for slot in self.chain.slots)

    @property
    def root(self) -> int:
        """The first joint."""
        return self.chain.joints[0]


def tip_of(tree: Tree, limb: Found) -> FloatArray:
    """Where a limb ends: the farthest point of its digits, (3,) [m]."""
    last = limb.chain.joints[-1]
    return tree.tails[tree.main_path(last)[-1]]


# By names


def named_limbs(tree: Tree, sides: Sequence[Side]) -> tuple[list[Found], dict[int, str]]:
    """Limbs that names give, and named joints that are none -> why.

    Args:
        tree: The figure.
        sides: Of all joints of the skeleton, by name or place.
    """
    found: list[Found] = []
    refused: dict[int, str] = {}
    spoken = LIMB_ROLES | set(_OTHER)
    candidates = {
        joint
        for joint in tree.kept
        if sides[joint] is not Side.CENTRE
        and tree.readings[joint].weight(*spoken) > 0.0
        and tree.readings[joint].best in spoken
    }
    for side in (Side.LEFT, Side.RIGHT):
        mine = {joint for joint in candidates if sides[joint] is side}
        others = candidates - mine
        for root in sorted(mine):
            if not any(joint in mine for joint in tree.ancestors(root)[1:]):
                top = _extended(tree, root, others)
                limb = _named_limb(tree, top, side, mine, others)
                if limb is not None:
                    found.append(limb)
                else:
                    for joint in tree.branch(root):
                        if joint in mine:
                            best = tree.readings[joint].best
                            refused[joint] = f"named {best}, but hangs on no such limb"
    return found, refused


def _extended(tree: Tree, root: int, others: set[int]) -> int:
    """The root of a limb, upwards over joints with names that say nothing and that bear nothing else."""
    while True:
        parent = int(tree.parents[root])
        if parent < 0 or tree.readings[parent].roles or tree.readings[parent].words:
            return root
        if int(tree.parents[parent]) < 0 or len(tree.children[parent]) > 1:
            return root
        if any(joint in others for joint in tree.branch(parent)):
            return root
        root = parent


def _named_limb(tree: Tree, root: int, side: Side, mine: set[int], others: set[int]) -> Found | None:
    """The limb of a branch, None if there is none in it."""
    readings = tree.readings
    branch = tree.branch(root)
    for role, kind in _OTHER.items():
        if any(readings[joint].weight(role) > 0.0 for joint in branch):
            return _fan_limb(tree, root, side, kind, role)
    best: tuple[tuple[float, bool, int], Labelled, bool] | None = None
    for path in leaf_paths(tree, root, lambda joint: joint not in others):
        named = [joint for joint in path if joint in mine]
        if not named:
            continue
        path = path[: path.index(named[-1]) + 1]
        leg = sum(readings[joint].weight(*_LEG) for joint in path) > sum(
            readings[joint].weight(*_ARM) for joint in path
        )
        labelled = label(path, readings, high_ankle=is_high_ankle(tree, path), leg=leg)
        rank = _rank(labelled)
        if best is None or rank > best[0]:
            best = (rank, labelled, leg)
    if best is None:
        return None
    labelled, leg = best[1].without_digits(), best[2]
    long_parts = [
        weight
        for slot, weight in zip(labelled.slots, labelled.named, strict=True)
        if slot in (Slot.UPPER, Slot.LOWER)
    ]
    if not long_parts or (max(long_parts) <= 0.0 and len(long_parts) < 2):
        return None
    fronts = [readings[joint].front for joint in labelled.joints if readings[joint].front is not None]
    kind = LimbKind.LEG if leg else LimbKind.ARM
    return Found(kind, side, labelled, fronts[0] if fronts else None, by_shape=False)


def _rank(labelled: Labelled) -> tuple[float, bool, int]:
    """How good a chain is among those of a branch.

    Digits and second bones of a hand say nothing of how good the chain above them is; but the bone that bears
    digits is the hand, not a helper beside it.
    """
    score, ended = 0.0, False
    for slot, weight in zip(labelled.slots, labelled.named, strict=True):
        if slot is not Slot.DIGIT and not (slot is Slot.END and ended):
            score += weight
        ended = ended or slot is Slot.END
    last = max(labelled.slots)
    score += SKIPPED * sum(part < last and part not in labelled.slots for part in (Slot.UPPER, Slot.LOWER))
    return round(score, 6), Slot.DIGIT in labelled.slots, len(labelled.joints)


def _fan_limb(tree: Tree, root: int, side: Side, kind: LimbKind, role: Role) -> Found:
    """A wing or fin: the longest chain of its bones, what is named shoulder before them."""
    path = tree.main_path(root)
    if not any(tree.readings[joint].weight(role) > 0.0 for joint in path):
        # The longest chain is one of feathers or the like.
        last = [joint for joint in tree.branch(root) if tree.readings[joint].weight(role) > 0.0][-1]
        path = tree.path(root, last)
    named = [joint for joint in path if tree.readings[joint].weight(role) > 0.0]
    path = path[: path.index(named[-1]) + 1]
    first = path.index(named[0])
    slots = tuple(Slot.GIRDLE if row < first else Slot.UPPER for row in range(len(path)))
    weights = tuple(
        tree.readings[joint].weight(Role.SHOULDER if slot is Slot.GIRDLE else role)
        for joint, slot in zip(path, slots, strict=True)
    )
    return Found(kind, side, Labelled(tuple(path), slots, sum(weights), weights), None, by_shape=False)


def without_duplicates(tree: Tree, limbs: Sequence[Found]) -> tuple[list[Found], dict[int, str]]:
    """The limbs without copies of others at the same place, and the copies' joints -> why."""
    kept: list[Found] = []
    copies: dict[int, str] = {}
    for limb in sorted(limbs, key=lambda limb: (-limb.chain.score, limb.root)):
        for other in kept:
            if other.side is not limb.side or other.kind is not limb.kind:
                continue
            near = ON_PLANE * tree.size
            here = tree.places[list(limb.chain.joints)]
            there = tree.places[list(other.chain.joints)]
            apart = np.linalg.norm(here[:, None] - there[None], axis=2).min(1)
            if float(apart.max()) <= 2.0 * near:
                name = f"{limb.side} {limb.kind}"
                for joint in tree.branch(limb.root):
                    copies[joint] = f"a second {name} at the place of the first: copy or mechanism"
                break
        else:
            kept.append(limb)
    return sorted(kept, key=lambda limb: limb.root), copies


# By shape


@dataclass(frozen=True)
class _Pair:
    """Two branches that mirror each other."""

    left: int
    right: int
    hub: int
    """The joint of the trunk on which they hang."""
    length: float
    """Of their longest chain [m]."""
    direction: FloatArray
    """From the hub to the tips, in the mirror plane, (3,) [m]."""


@dataclass(frozen=True)
class Shape:
    """What shape alone says of a figure."""

    limbs: list[Found]
    up: FloatArray | None
    """Unit vector in the mirror plane, (3,); None where shape does not say."""


def long_pairs(tree: Tree, mirror: Mirror, without: set[int]) -> list[_Pair]:
    """Pairs of branches long enough to be limbs, none of them with joints of `without`."""
    pairs: list[_Pair] = []
    for left, right in mirrored_pairs(tree, mirror):
        hub = int(tree.parents[left])
        if hub < 0 or tree.counts[left] < 2 or any(j in without for j in tree.branch(left)):
            continue
        tips = np.array([tree.tails[tree.main_path(root)[-1]] for root in (left, right)])
        direction = tips.mean(0) - tree.places[hub]
        direction -= (direction @ mirror.normal) * mirror.normal
        pairs.append(_Pair(left, right, hub, 0.5 * (tree.reach[left] + tree.reach[right]), direction))
    lengths = sorted((pair.length for pair in pairs), reverse=True)
    if len(lengths) < 2:
        return pairs
    return [pair for pair in pairs if pair.length >= max(LONG * lengths[0], EARS * lengths[1])]


def limbs_by_shape(tree: Tree, mirror: Mirror) -> Shape:
    """Limbs of a figure whose names say nothing of limbs; see the module's beginning."""
    pairs = long_pairs(tree, mirror, set())
    if not pairs:
        return Shape([], None)
    if len(pairs) >= 3:
        return _many(tree, mirror, pairs)
    if len(pairs) == 1:
        return _one(tree, mirror, pairs[0])
    a, b = pairs
    trunk = tree.places[b.hub] - tree.places[a.hub]
    length = float(np.linalg.norm(trunk))
    if length <= TINY:
        # Arms and legs on one joint: the longer pair are legs.
        legs, arms = (a, b) if a.length >= b.length else (b, a)
        return _upright(tree, mirror, legs, arms, -unit(legs.direction))
    along = trunk / length
    away_a, away_b = float(-(a.direction @ along)) / a.length, float(b.direction @ along) / b.length
    if max(away_a, away_b) > ALONG:
        legs, arms = (a, b) if away_a >= away_b else (b, a)
        return _upright(tree, mirror, legs, arms, -unit(legs.direction))
    across = [np.linalg.norm(p.direction - (p.direction @ along) * along) / p.length for p in pairs]
    front, hind = _front_first(tree, a, b)
    if min(across) > ALONG:
        up = -unit(a.direction / a.length + b.direction / b.length)
        limbs = _as(tree, mirror, front, LimbKind.FRONT_LEG) + _as(tree, mirror, hind, LimbKind.LEG)
        return Shape(limbs, up)
    legs, wings = (a, b) if across[0] >= across[1] else (b, a)
    up = -unit(legs.direction)
    return Shape(_as(tree, mirror, legs, LimbKind.LEG) + _as(tree, mirror, wings, LimbKind.WING), up)


def _upright(tree: Tree, mirror: Mirror, legs: _Pair, arms: _Pair, up: FloatArray) -> Shape:
    return Shape(_as(tree, mirror, legs, LimbKind.LEG) + _as(tree, mirror, arms, LimbKind.ARM), up)


def _many(tree: Tree, mirror: Mirror, pairs: list[_Pair]) -> Shape:
    """Three pairs or more."""
    hubs = tree.places[[pair.hub for pair in pairs]]
    spread = float(np.linalg.norm(hubs[:, None] - hubs[None], axis=2).max())
    total = np.sum([pair.direction / pair.length for pair in pairs], axis=0)
    far = int(np.argmax(np.linalg.norm(hubs - hubs[0], axis=1)))
    along = unit(hubs[far] - hubs[0])
    total = total - (total @ along) * along
    up = -unit(total) if np.linalg.norm(total) > 0.1 * len(pairs) else None
    if spread <= CLOSE * float(np.median([pair.length for pair in pairs])) or up is None:
        return Shape([limb for pair in pairs for limb in _as(tree, mirror, pair, LimbKind.LEG)], up)
    tips = np.array([tree.tails[tree.main_path(pair.left)[-1]] @ up for pair in pairs])
    above = np.maximum(hubs @ up - tips.min(), TINY)
    grounded = [row for row in range(len(pairs)) if tips[row] - tips.min() < GROUNDED * above[row]]
    legs = [pairs[row] for row in grounded]
    limbs = [
        limb
        for row, pair in enumerate(pairs)
        if row not in grounded
        for limb in _as(tree, mirror, pair, LimbKind.WING)
    ]
    if len(legs) != 2:
        limbs += [limb for pair in legs for limb in _as(tree, mirror, pair, LimbKind.LEG)]
        return Shape(limbs, up)
    front, hind = _front_first(tree, *legs)
    limbs += _as(tree, mirror, front, LimbKind.FRONT_LEG) + _as(tree, mirror, hind, LimbKind.LEG)
    return Shape(limbs, up)


def _one(tree: Tree, mirror: Mirror, pair: _Pair) -> Shape:
    """A single pair: legs where the trunk goes the other way or across, otherwise arms."""
    chains = [
        tree.main_path(child) for child in tree.children[pair.hub] if child not in (pair.left, pair.right)
    ]
    if not chains:
        return Shape(_as(tree, mirror, pair, LimbKind.LEG), -unit(pair.direction))
    trunk = max((tree.tails[chain[-1]] - tree.places[pair.hub] for chain in chains), key=np.linalg.norm)
    sideways = np.linalg.norm(pair.direction) < ALONG * pair.length
    if sideways or pair.direction @ trunk > 0.0:
        return Shape(_as(tree, mirror, pair, LimbKind.ARM), None)
    return Shape(_as(tree, mirror, pair, LimbKind.LEG), -unit(pair.direction))


def _front_first(tree: Tree, a: _Pair, b: _Pair) -> tuple[_Pair, _Pair]:
    """Two pairs of an animal, the one nearer to the head first.

    The head is where small parts are (ears, eyes, a jaw); the hips are nearer to the root of the armature.
    """
    votes = {a.hub: 0.0, b.hub: 0.0}
    limbs = {joint for pair in (a, b) for root in (pair.left, pair.right) for joint in tree.branch(root)}
    for joint in tree.kept:
        small = [child for child in tree.children[joint] if child not in limbs]
        if joint not in limbs and len(small) >= 2 and joint not in votes:
            near = min(votes, key=lambda hub: float(np.linalg.norm(tree.places[joint] - tree.places[hub])))
            votes[near] += 1.0
    depth_a, depth_b = len(tree.ancestors(a.hub)), len(tree.ancestors(b.hub))
    if depth_a != depth_b:
        votes[a.hub if depth_a > depth_b else b.hub] += 1.5
    return (a, b) if votes[a.hub] >= votes[b.hub] else (b, a)


def _as(tree: Tree, mirror: Mirror, pair: _Pair, kind: LimbKind) -> list[Found]:
    """Both limbs of a pair as a kind, the one on the normal's side called left for now."""
    limbs: list[Found] = []
    for side, root in ((Side.LEFT, pair.left), (Side.RIGHT, pair.right)):
        path = tree.main_path(root)
        if kind in ROLES_OF_KIND:
            chain = label_by_shape(tree, path, mirror, arm=kind is LimbKind.ARM).without_digits()
        else:
            slots = (Slot.UPPER,) * len(path)
            chain = Labelled(tuple(path), slots, 0.0, (0.0,) * len(path))
        limbs.append(Found(kind, side, chain, None, by_shape=True))
    return limbs


def limbs_left(
    tree: Tree, mirror: Mirror, found: Sequence[Found], up: FloatArray, without: set[int]
) -> list[Found]:
    """Long pairs that names did not give, where they gave others.

    Args:
        tree: The figure.
        mirror: Its plane.
        found: What names gave.
        up: Unit vector, (3,).
        without: Joints that have another role or are below such.
    """
    longest = max((tree.reach[limb.root] for limb in found), default=0.0)
    legs = [limb for limb in found if limb.kind in (LimbKind.LEG, LimbKind.FRONT_LEG)]
    ground = min((float(tip_of(tree, limb) @ up) for limb in legs), default=0.0)
    more: list[Found] = []
    for pair in long_pairs(tree, mirror, without):
        if pair.length < 0.5 * longest:
            continue
        tip = float(tree.tails[tree.main_path(pair.left)[-1]] @ up)
        if not legs:
            kind = LimbKind.LEG if float(pair.direction @ up) < -ALONG * pair.length else LimbKind.ARM
        elif tip - ground < GROUNDED * max(float(tree.places[pair.hub] @ up) - ground, TINY):
            kind = LimbKind.LEG
        elif any(limb.kind is LimbKind.ARM for limb in found):
            kind = LimbKind.WING
        else:
            kind = LimbKind.ARM
        more += _as(tree, mirror, pair, kind)
    return more


def relabelled(tree: Tree, mirror: Mirror, limbs: Sequence[Found], forward: FloatArray) -> list[Found]:
    """The same limbs, those by shape with slots that also fit the way elbows and knees point."""
    new: list[Found] = []
    for limb in limbs:
        if limb.by_shape and limb.kind in ROLES_OF_KIND:
            points = forward if limb.kind is LimbKind.LEG else -forward
            path = tree.main_path(limb.root)
            arm = limb.kind is LimbKind.ARM
            chain = label_by_shape(tree, path, mirror, arm=arm, points=points)
            limb = replace(limb, chain=chain.without_digits())
        new.append(limb)
    return new


def swapped(limbs: Sequence[Found]) -> list[Found]:
    """The same limbs with left and right exchanged."""
    return [replace(limb, side=limb.side.other) for limb in limbs]

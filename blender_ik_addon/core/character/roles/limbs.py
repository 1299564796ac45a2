# SPDX-License-Identifier: GPL-3.0-or-later
"""Which chains of a figure are limbs, and of what kind: from names, and from shape where names are silent.

By shape: branches that the mirror plane maps onto each other are pairs of limbs if they are long. Projected
into the plane, a limb has a direction d, from the joint of the trunk on which it hangs to its tip. Let t be
the direction along the trunk from one pair to the other.

- Two pairs, one of which has d opposite to t: a body upright on its legs; the other pair are arms.
- Two pairs with d across t, about as far: four legs. Only one of them across: a bird on its legs, the others
  wings.
- Three pairs and more that hang close together: legs of a spider. Spread along the trunk: those that reach
  the ground are legs, the others wings.
- One pair: legs if they point away from the trunk or across it, otherwise arms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ...arrays import FloatArray
from .chains import LIMB_ROLES, ROLES_OF_KIND, SKIPPED, Slot, is_high_ankle, label, label_by_shape
from .character import LimbKind, Role, Side
from .structure import ON_PLANE, TINY, Mirror, Tree, mirrored_pairs, norm, unit

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
_FANS: Final = {Role.WING: LimbKind.WING, Role.FIN: LimbKind.FIN}


@dataclass(frozen=True)
class Found:
    """A chain that is a limb."""

    kind: LimbKind
    side: Side
    joints: tuple[int, ...]
    """Without digits."""
    slots: tuple[Slot, ...]
    """Of the joints."""
    named: tuple[float, ...] = ()
    """Weights that names gave to the slots, at most 0: it was not the name; empty for a limb by shape."""
    front: bool | None = None
    """Whether names say that it is a front or a hind limb."""

    @property
    def by_shape(self) -> bool:
        """Whether shape alone made it a limb of this kind."""
        return not self.named

    @property
    def roles(self) -> tuple[Role, ...]:
        """Of its joints."""
        fan = Role.FIN if self.kind is LimbKind.FIN else Role.WING
        table = ROLES_OF_KIND.get(self.kind, (Role.SHOULDER, *[fan] * Slot.DIGIT))
        return tuple(table[slot] for slot in self.slots)

    @property
    def root(self) -> int:
        """The first joint."""
        return self.joints[0]

    @property
    def upper(self) -> int:
        """The first joint of the upper part, else of the limb."""
        upper = self.first(Slot.UPPER)
        return self.root if upper is None else upper

    def first(self, *slots: Slot) -> int | None:
        """The first joint of some slots, None without any."""
        return next(
            (joint for joint, slot in zip(self.joints, self.slots, strict=True) if slot in slots), None
        )


def tip_of(tree: Tree, limb: Found) -> FloatArray:
    """Where a limb ends: the farthest point of its digits, (3,) [m]."""
    return tree.tip(limb.joints[-1])


# By names


def named_limbs(tree: Tree, sides: Sequence[Side]) -> tuple[list[Found], dict[int, str]]:
    """Limbs that names give, and named joints that are none -> why.

    Args:
        tree: The figure.
        sides: Of all joints of the skeleton, by name or place.
    """
    found: list[Found] = []
    refused: dict[int, str] = {}
    spoken = LIMB_ROLES | set(_FANS)
    candidates = {j for j in tree.kept if sides[j] is not Side.CENTRE and tree.readings[j].best in spoken}
    for side in (Side.LEFT, Side.RIGHT):
        mine = {joint for joint in candidates if sides[joint] is side}
        others = candidates - mine
        for root in sorted(mine):
            if mine.isdisjoint(tree.ancestors(root)[1:]):
                limb = _named_limb(tree, _extended(tree, root, others), side, mine, others)
                if limb is not None:
                    found.append(limb)
                    continue
                for joint in mine.intersection(tree.branch(root)):
                    refused[joint] = f"named {tree.readings[joint].best}, but hangs on no such limb"
    return found, refused


def _extended(tree: Tree, root: int, others: set[int]) -> int:
    """The root of a limb, upwards over joints with names that say nothing and that bear nothing else."""
    while (parent := tree.parents[root]) >= 0 and tree.parents[parent] >= 0:
        reading = tree.readings[parent]
        if reading.roles or reading.words or tree.children[parent] != [root]:
            break
        if not others.isdisjoint(tree.branch(parent)):
            break
        root = parent
    return root


def _named_limb(tree: Tree, root: int, side: Side, mine: set[int], others: set[int]) -> Found | None:
    """The limb of a branch, None if there is none: the best of its chains, each to its last named joint."""
    branch = tree.branch(root)
    for role in _FANS:
        if any(tree.weight(joint, role) > 0.0 for joint in branch):
            return _fan_limb(tree, root, side, role)
    best: tuple[tuple[float, bool, int], Found] | None = None
    for tip in reversed(branch):
        path = tree.path(root, tip)
        named = [row for row, joint in enumerate(path) if joint in mine]
        if not named or not others.issuperset(tree.children[tip]) or not others.isdisjoint(path):
            continue
        path = path[: named[-1] + 1]
        leg = sum(tree.weight(j, *_LEG) for j in path) > sum(tree.weight(j, *_ARM) for j in path)
        slots, weights = label(path, tree.readings, high_ankle=is_high_ankle(tree, path), leg=leg)
        rank = _rank(slots, weights)
        if best is None or rank > best[0]:
            count = sum(slot is not Slot.DIGIT for slot in slots)
            fronts = [front for j in path[:count] if (front := tree.readings[j].front) is not None]
            best = (
                rank,
                Found(
                    LimbKind.LEG if leg else LimbKind.ARM,
                    side,
                    tuple(path[:count]),
                    slots[:count],
                    weights[:count],
                    fronts[0] if fronts else None,
                ),
            )
    if best is None:
        return None
    parts = zip(best[1].slots, best[1].named, strict=True)
    long_parts = [weight for slot, weight in parts if slot in (Slot.UPPER, Slot.LOWER)]
    return best[1] if len(long_parts) >= 2 or max(long_parts, default=0.0) > 0.0 else None


def _rank(slots: Sequence[Slot], named: Sequence[float]) -> tuple[float, bool, int]:
    """How good a chain is among those of a branch.

    Digits and second bones of a hand say nothing of how good the chain above them is; but the bone that bears
    digits is the hand, not a helper beside it.
    """
    hand = slots.index(Slot.END) if Slot.END in slots else len(slots)
    score = sum(
        weight
        for row, (slot, weight) in enumerate(zip(slots, named, strict=True))
        if row == hand or slot < Slot.END
    )
    missing = [part for part in (Slot.UPPER, Slot.LOWER) if part < slots[-1] and part not in slots]
    return round(score + SKIPPED * len(missing), 6), Slot.DIGIT in slots, len(slots)


def _fan_limb(tree: Tree, root: int, side: Side, role: Role) -> Found:
    """A wing or fin: the longest chain of its bones, what is named shoulder before them."""
    path = tree.main_path(root)
    named = [joint for joint in path if tree.weight(joint, role) > 0.0]
    if not named:  # the longest chain is one of feathers or the like
        last = [joint for joint in tree.branch(root) if tree.weight(joint, role) > 0.0][-1]
        path = tree.path(root, last)
        named = [joint for joint in path if tree.weight(joint, role) > 0.0]
    first, count = path.index(named[0]), path.index(named[-1]) + 1
    slots = (Slot.GIRDLE,) * first + (Slot.UPPER,) * (count - first)
    weights = [tree.weight(j, Role.SHOULDER if row < first else role) for row, j in enumerate(path[:count])]
    return Found(_FANS[role], side, tuple(path[:count]), slots, tuple(weights))


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
        reason = f"a second {limb.side} {limb.kind} at the place of the first: copy or mechanism"
        copies |= dict.fromkeys(tree.branch(limb.root), reason)
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
    """From the hub to the tips, in the mirror plane, (3,), by that length [1]."""


def _long_pairs(tree: Tree, mirror: Mirror, without: set[int]) -> list[_Pair]:
    """Pairs of branches long enough to be limbs, none of them with joints of `without`."""
    pairs: list[_Pair] = []
    for left, right in mirrored_pairs(tree, mirror):
        hub = tree.parents[left]
        if hub >= 0 and tree.counts[left] > 1 and without.isdisjoint(tree.branch(left)):
            direction = 0.5 * (tree.tip(left) + tree.tip(right)) - tree.places[hub]
            direction -= (direction @ mirror.normal) * mirror.normal
            length = max(0.5 * (tree.reach[left] + tree.reach[right]), TINY)
            pairs.append(_Pair(left, right, hub, length, direction / length))
    lengths = sorted((pair.length for pair in pairs), reverse=True)
    if len(lengths) < 2:
        return pairs
    return [pair for pair in pairs if pair.length >= max(LONG * lengths[0], EARS * lengths[1])]


def limbs_by_shape(tree: Tree, mirror: Mirror) -> tuple[list[Found], FloatArray | None]:
    """Limbs of a figure whose names say nothing of limbs, and up, (3,); see the module's beginning.

    Up is a unit vector in the mirror plane; None where shape does not say.
    """
    pairs = _long_pairs(tree, mirror, set())
    kinds, up = _kinds(tree, pairs) if pairs else ([], None)
    rows = zip(pairs, kinds, strict=True)
    return [limb for pair, kind in rows for limb in _both(tree, mirror, pair, kind)], up


def _kinds(tree: Tree, pairs: Sequence[_Pair]) -> tuple[list[LimbKind], FloatArray | None]:
    """What the pairs are, and up."""
    if len(pairs) == 1:
        return _one(tree, pairs[0])
    if len(pairs) > 2:
        return _many(tree, pairs)
    a, b = pairs
    trunk = tree.places[b.hub] - tree.places[a.hub]
    along = unit(trunk)
    away = float(-(a.direction @ along)), float(b.direction @ along)
    if norm(trunk) <= TINY:
        away = a.length, b.length  # arms and legs on one joint: the longer pair are legs
    if norm(trunk) <= TINY or max(away) > ALONG:
        first = away[0] >= away[1]
        kinds = [LimbKind.LEG, LimbKind.ARM] if first else [LimbKind.ARM, LimbKind.LEG]
        return kinds, -unit((a if first else b).direction)
    across = [norm(pair.direction - (pair.direction @ along) * along) for pair in pairs]
    if min(across) > ALONG:
        return _front_first(tree, a, b), -unit(a.direction + b.direction)
    first = across[0] >= across[1]
    kinds = [LimbKind.LEG, LimbKind.WING] if first else [LimbKind.WING, LimbKind.LEG]
    return kinds, -unit((a if first else b).direction)


def _many(tree: Tree, pairs: Sequence[_Pair]) -> tuple[list[LimbKind], FloatArray | None]:
    """Three pairs or more."""
    hubs = tree.places[[pair.hub for pair in pairs]]
    spread = float(np.linalg.norm(hubs[:, None] - hubs, axis=2).max())
    along = unit(hubs[int(np.argmax(np.linalg.norm(hubs - hubs[0], axis=1)))] - hubs[0])
    total = np.sum([pair.direction for pair in pairs], axis=0)
    total = total - (total @ along) * along
    up = -unit(total) if norm(total) > 0.1 * len(pairs) else None
    if up is None or spread <= CLOSE * float(np.median([pair.length for pair in pairs])):
        return [LimbKind.LEG] * len(pairs), up
    tips = np.array([tree.tip(pair.left) @ up for pair in pairs])
    grounded = tips - tips.min() < GROUNDED * np.maximum(hubs @ up - tips.min(), TINY)
    kinds = [LimbKind.LEG if stands else LimbKind.WING for stands in grounded]
    legs = np.flatnonzero(grounded).tolist()
    if len(legs) == 2:
        for row, kind in zip(legs, _front_first(tree, *(pairs[row] for row in legs)), strict=True):
            kinds[row] = kind
    return kinds, up


def _one(tree: Tree, pair: _Pair) -> tuple[list[LimbKind], FloatArray | None]:
    """A single pair: legs where the trunk goes the other way or across, otherwise arms."""
    tips = [tree.tip(child) for child in tree.children[pair.hub] if child not in (pair.left, pair.right)]
    trunks = [tip - tree.places[pair.hub] for tip in tips]
    if trunks and (norm(pair.direction) < ALONG or pair.direction @ max(trunks, key=norm) > 0.0):
        return [LimbKind.ARM], None
    return [LimbKind.LEG], -unit(pair.direction)


def _front_first(tree: Tree, a: _Pair, b: _Pair) -> list[LimbKind]:
    """What two pairs of an animal's legs are: the one nearer to the head are front legs.

    The head is where small parts are (ears, eyes, a jaw); the hips are nearer to the root of the armature.
    """
    votes = {a.hub: 0.0, b.hub: 0.0}
    limbs = {joint for root in (a.left, a.right, b.left, b.right) for joint in tree.branch(root)}
    for joint in tree.kept:
        small = [child for child in tree.children[joint] if child not in limbs]
        if joint not in limbs and len(small) >= 2 and joint not in votes:
            votes[min(votes, key=lambda hub: norm(tree.places[joint] - tree.places[hub]))] += 1.0
    depths = len(tree.ancestors(a.hub)), len(tree.ancestors(b.hub))
    if depths[0] != depths[1]:
        votes[a.hub if depths[0] > depths[1] else b.hub] += 1.5
    kinds = [LimbKind.FRONT_LEG, LimbKind.LEG]
    return kinds if votes[a.hub] >= votes[b.hub] else kinds[::-1]


def _both(tree: Tree, mirror: Mirror, pair: _Pair, kind: LimbKind) -> Iterator[Found]:
    """Both limbs of a pair as a kind, the one on the normal's side called left for now."""
    for side, root in ((Side.LEFT, pair.left), (Side.RIGHT, pair.right)):
        path = tree.main_path(root)
        limb = Found(kind, side, tuple(path), (Slot.UPPER,) * len(path))
        yield _relabelled(tree, mirror, limb) if kind in ROLES_OF_KIND else limb


def _relabelled(tree: Tree, mirror: Mirror, limb: Found, points: FloatArray | None = None) -> Found:
    """A limb with slots by its shape; `points`, (3,), is where its elbow or knee should point."""
    path = tree.main_path(limb.root)
    slots = label_by_shape(tree, path, mirror, arm=limb.kind is LimbKind.ARM, points=points)
    slots = [slot for slot in slots if slot is not Slot.DIGIT]
    return replace(limb, joints=tuple(path[: len(slots)]), slots=tuple(slots))


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
    for pair in _long_pairs(tree, mirror, without):
        if pair.length < 0.5 * longest:
            continue
        tip, hub = float(tree.tip(pair.left) @ up), float(tree.places[pair.hub] @ up)
        stands = tip - ground < GROUNDED * max(hub - ground, TINY)
        if stands if legs else float(pair.direction @ up) < -ALONG:
            kind = LimbKind.LEG
        elif legs and any(limb.kind is LimbKind.ARM for limb in found):
            kind = LimbKind.WING
        else:
            kind = LimbKind.ARM
        more += _both(tree, mirror, pair, kind)
    return more


def relabelled(tree: Tree, mirror: Mirror, limbs: Sequence[Found], forward: FloatArray) -> list[Found]:
    """The same limbs, those by shape with slots that also fit the way elbows and knees point."""
    return [
        _relabelled(tree, mirror, limb, forward if limb.kind is LimbKind.LEG else -forward)
        if limb.by_shape and limb.kind in ROLES_OF_KIND
        else limb
        for limb in limbs
    ]

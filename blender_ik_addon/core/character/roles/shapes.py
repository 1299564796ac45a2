# SPDX-License-Identifier: GPL-3.0-or-later
"""Limbs by shape: which chains of a figure are limbs, and of what kind, where names are silent.

Branches that the mirror plane maps onto each other are pairs of limbs if they are long. Projected into the
plane, a limb has a direction d, from the joint of the trunk on which it hangs to its tip. Let t be the
direction along the trunk from one pair to the other.

- Two pairs, one of which has d opposite to t: a body upright on its legs; the other pair are arms.
- Two pairs with d across t, about as far: four legs. Only one of them across: a bird on its legs, the others
  wings.
- Three pairs and more that hang close together: legs of a spider. Spread along the trunk: those that reach
  the ground are legs, the others wings.
- One pair: legs if they point away from the trunk or across it, otherwise arms.

In an arm or leg the two long parts are looked for: of all joints u < l < e those whose parts u→l and l→e make
up most of the limb, score = (|ul| + |le|) / length, less what speaks against them, see the constants. A fan
of digits is no part of it. The mirror image of a limb that names gave is a limb like it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

import numpy as np

from ...arrays import FloatArray
from .character import PARTS, Bend, LimbKind, Side
from .limbs import ROUNDING, Found, Slot, read_bend
from .structure import MATCH, ON_PLANE, TINY, Mirror, Tree, mirrored_pairs, norm, unit

LONG, EARS = 0.2, 0.45
"""Length of a limb in lengths of the longest one, and of the second longest [1], below which a pair of
branches is none: ears, breasts. Wings may be much longer than legs, but they come alone."""

ALONG: Final = 0.45
"""Cosine [1] between a limb and the trunk above which the limb points along it."""

GROUNDED: Final = 0.3
"""Height of a limb's tip in heights of its root [1] below which it stands on the ground."""

CLOSE: Final = 0.4
"""How far apart, in lengths of the limbs [1], a spider's legs hang at most."""

SPLIT, GIRDLED, AGAINST = 0.3, 0.1, 0.4
"""What takes from the score of a division [1]: each further joint inside a long part, as a joint in the
middle of a limb is rather an elbow; each joint above the upper part; and each of these: an upper part that
begins in the middle of the body, as collarbones do; an elbow that is clearly bent the wrong way; an arm whose
hand is not where fingers fan out (toes may fan out from other bones than the foot)."""

CLEARLY: Final = np.radians(10.0)
"""How far such an elbow is bent at least [rad]."""


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

    def limbs(self, tree: Tree, mirror: Mirror, kind: LimbKind) -> Iterator[Found]:
        """Both as limbs of a kind, the one on the normal's side called left for now."""
        for side, root in ((Side.LEFT, self.left), (Side.RIGHT, self.right)):
            path = tree.main_path(root)
            if kind is LimbKind.WING:
                yield Found(kind, side, tuple(path), (PARTS[kind][1],) * len(path))
            else:
                yield divided(tree, mirror, Found(kind, side, (root,), ()))


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
    least = max(LONG * lengths[0], EARS * lengths[1]) if len(lengths) > 1 else 0.0
    return [pair for pair in pairs if pair.length >= least]


def limbs_by_shape(tree: Tree, mirror: Mirror) -> tuple[list[Found], FloatArray | None]:
    """Limbs of a figure whose names say nothing of limbs, and up, (3,); see the module's beginning.

    Up is a unit vector in the mirror plane; None where shape does not say.
    """
    pairs = _long_pairs(tree, mirror, set())
    kinds, up = _kinds(tree, pairs) if pairs else ([], None)
    rows = zip(pairs, kinds, strict=True)
    return [limb for pair, kind in rows for limb in pair.limbs(tree, mirror, kind)], up


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
    across = [norm(pair.direction - (pair.direction @ along) * along) for pair in pairs]
    if norm(trunk) <= TINY:
        kind, first = LimbKind.ARM, a.length >= b.length  # on one joint: the longer pair are legs
    elif max(away) > ALONG:
        kind, first = LimbKind.ARM, away[0] >= away[1]
    elif min(across) > ALONG:
        return _front_first(tree, a, b), -unit(a.direction + b.direction)
    else:
        kind, first = LimbKind.WING, across[0] >= across[1]
    return [LimbKind.LEG, kind] if first else [kind, LimbKind.LEG], -unit((a if first else b).direction)


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
    if trunks and pair.direction @ max(trunks, key=norm) > 0.0:
        return [LimbKind.ARM], None
    return [LimbKind.LEG], -unit(pair.direction)


def _front_first(tree: Tree, a: _Pair, b: _Pair) -> list[LimbKind]:
    """What two pairs of an animal's legs are: the hips are nearer to the root of the armature."""
    kinds = [LimbKind.FRONT_LEG, LimbKind.LEG]
    return kinds if len(tree.ancestors(a.hub)) >= len(tree.ancestors(b.hub)) else kinds[::-1]


def limbs_left(
    tree: Tree, mirror: Mirror, found: Sequence[Found], up: FloatArray, without: set[int]
) -> list[Found]:
    """Long pairs that names did not give, where they gave others; none of them with joints of `without`."""
    longest = max((tree.reach[limb.root] for limb in found), default=0.0)
    legs = [limb for limb in found if limb.kind in (LimbKind.LEG, LimbKind.FRONT_LEG)]
    ground = min((float(limb.tip(tree) @ up) for limb in legs), default=0.0)
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
        more += pair.limbs(tree, mirror, kind)
    return more


def mirrored_limbs(tree: Tree, mirror: Mirror, found: Sequence[Found]) -> Iterator[Found]:
    """Mirror images of limbs that names gave on one side alone."""
    named = {joint for limb in found for joint in limb.joints}
    counts = Counter((limb.kind, limb.side) for limb in found)
    alone = [limb for limb in found if counts[limb.kind, limb.side] > counts[limb.kind, limb.side.other]]
    for branches in mirrored_pairs(tree, mirror) if alone else ():
        for here, there in (branches, branches[::-1]):
            mine, others = set(tree.branch(here)), tree.branch(there)
            for limb in alone:
                if limb.root not in mine or not named.isdisjoint(others):
                    continue
                ends = mirror.reflected(tree.places[list(limb.joints)])
                misses: FloatArray = np.linalg.norm(ends[:, None] - tree.places[others], axis=2)
                joints = tuple(others[int(row)] for row in misses.argmin(1))
                if len(set(joints)) == len(joints) and misses.min(1).max() <= MATCH * tree.size:
                    yield replace(limb, side=limb.side.other, joints=joints, named=(0.0,) * len(joints))


def divided(tree: Tree, mirror: Mirror, limb: Found, points: FloatArray | None = None) -> Found:
    """An arm or leg with roles by its shape; `points`, (3,), is where its elbow or knee should point."""
    path = tree.main_path(limb.root)
    arm, last = limb.kind is LimbKind.ARM, len(path) - 1
    # A fan of digits is no part of the limb.
    end = next((row for row, joint in enumerate(path) if row >= 2 and len(tree.children[joint]) >= 3), last)
    places = tree.places[path]
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
            state, angle, _ = read_bend(places[u], places[low], places[e], points)
            value -= AGAINST * (state is Bend.INVERTED and angle > CLEARLY)
        if value > best + ROUNDING:
            best, chosen = value, (u, low, e)
    u, low, e = chosen
    slots = [Slot.GIRDLE] * u + [Slot.UPPER] * (low - u) + [Slot.LOWER] * (e - low) + [Slot.END]
    joints = tuple(path[: len(slots)])
    return replace(limb, joints=joints, roles=tuple(PARTS[limb.kind][s] for s in slots[: len(joints)]))

# SPDX-License-Identifier: GPL-3.0-or-later
"""The joints that may have roles as a tree of their own, and its plane of symmetry.

The mirror plane comes from pairs: from names that differ only in their side where there are some, otherwise
from siblings whose branches are alike. A pair (a, b) proposes the plane through its middle, normal to a − b.
Of the planes proposed the one that maps most joints onto joints is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Final

import numpy as np

from ...arrays import FloatArray
from .character import Role, Side
from .names import NameReading

ON_PLANE: Final = 0.02
"""Distance from the mirror plane, in sizes of the figure [1], up to which a joint is of the centre."""

ALIKE: Final = 0.15
"""By how much, relatively, branches that mirror each other may differ in length [1]; recorded people do."""

MATCH: Final = 0.06
"""How near, in sizes of the figure [1], a mirrored joint must come to another."""

SAMPLE: Final = 500
"""Number of joints beyond which not all of them are mirrored: the distances between all are held at once."""

PLANES_TRIED: Final = 16
"""How many proposed planes are compared, those of the longest branches first."""

LARGER: Final = 1e-6
"""By how much larger a share must be [1] for a later plane to be taken: rounding must not choose."""

TINY: Final = 1e-9
"""A length [m], or a square of one, that counts as none."""


def norm(vector: FloatArray) -> float:
    """Length of a vector (3,)."""
    return float(np.linalg.norm(vector))


def unit(vector: FloatArray) -> FloatArray:
    """A vector (3,) of length 1; what has no length stays as it is, nearly."""
    return vector / max(norm(vector), TINY)


@dataclass(frozen=True)
class Tree:
    """Kept joints of one figure, parents first; all indices below are those of the skeleton."""

    kept: tuple[int, ...]
    parents: Sequence[int]
    """Nearest kept ancestor of each joint of the skeleton, -1 without any, (n,)."""
    places: FloatArray
    """Of all joints of the skeleton at rest in armature space, (n, 3) [m]."""
    tails: FloatArray
    """Where the bones end; the joint's own place where that is not known, (n, 3) [m]."""
    readings: Sequence[NameReading]
    """What the names say, of all joints of the skeleton."""

    def part(self, joints: Iterable[int]) -> Tree:
        """The tree of some of the joints."""
        members = set(joints)
        parents = [parent if parent in members else -1 for parent in self.parents]
        return replace(self, kept=tuple(j for j in self.kept if j in members), parents=parents)

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """Kept children of each kept joint; -1 has the roots."""
        children: dict[int, list[int]] = {joint: [] for joint in (-1, *self.kept)}
        for joint in self.kept:
            children[self.parents[joint]].append(joint)
        return children

    @cached_property
    def size(self) -> float:
        """Diameter of the joints about their middle [m], however they are turned; at least `TINY`."""
        points = np.concatenate([self.places[list(self.kept)], self.tails[list(self.kept)]])
        return max(2.0 * float(np.linalg.norm(points - points.mean(0), axis=1).max()), TINY)

    @cached_property
    def reach(self) -> dict[int, float]:
        """Length of the longest chain from a joint to a tip below it [m]."""
        reach: dict[int, float] = {}
        for joint in reversed(self.kept):
            below = [reach[child] + norm(self.step(child)) for child in self.children[joint]]
            reach[joint] = max(below, default=norm(self.tails[joint] - self.places[joint]))
        return reach

    @cached_property
    def lengths(self) -> dict[int, float]:
        """The same from the joint's parent [m]."""
        return {joint: reach + norm(self.step(joint)) for joint, reach in self.reach.items()}

    @cached_property
    def counts(self) -> dict[int, int]:
        """Number of joints in the branch that begins with a joint."""
        counts: dict[int, int] = {}
        for joint in reversed(self.kept):
            counts[joint] = 1 + sum(counts[child] for child in self.children[joint])
        return counts

    def weight(self, joint: int, *roles: Role) -> float:
        """What its name says of some roles, see `NameReading.weight`."""
        return self.readings[joint].weight(*roles)

    def step(self, joint: int) -> FloatArray:
        """From a joint's parent to the joint, (3,) [m]; 0 at a root."""
        parent = self.parents[joint]
        return self.places[joint] - self.places[joint if parent < 0 else parent]

    def branch(self, joint: int) -> list[int]:
        """The joint and all below it, parents first."""
        found = [joint]
        for member in found:
            found += self.children[member]
        return found

    def ancestors(self, joint: int) -> list[int]:
        """The joint and those above it, upwards; none of -1."""
        chain: list[int] = []
        while joint >= 0:
            chain.append(joint)
            joint = self.parents[joint]
        return chain

    def path(self, top: int, bottom: int) -> list[int]:
        """Joints from `top` down to `bottom`, both included; empty where `top` is not above."""
        chain = self.ancestors(bottom)
        return chain[chain.index(top) :: -1] if top in chain else []

    def main_path(self, joint: int) -> list[int]:
        """From a joint to the tip that is farthest along the bones."""
        path = [joint]
        while below := self.children[path[-1]]:
            path.append(max(below, key=lambda child: self.lengths[child]))
        return path

    def tip(self, joint: int) -> FloatArray:
        """The end of that path, (3,) [m]."""
        return self.tails[self.main_path(joint)[-1]]

    def alike(self, joints: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Pairs of joints whose branches may be mirror images by their lengths and numbers of joints."""
        for a, b in combinations(joints, 2):
            shorter, longer = sorted((self.reach[a], self.reach[b]))
            fewer, more = sorted((self.counts[a], self.counts[b]))
            if longer - shorter <= ALIKE * longer + TINY and more - fewer <= 0.25 * more:
                yield a, b


@dataclass(frozen=True)
class Mirror:
    """The plane of symmetry."""

    normal: FloatArray
    """Unit vector, towards the left if that is known, (3,)."""
    point: FloatArray
    """A point of the plane, (3,) [m]."""
    named: bool
    """Whether names say which side is the left."""
    share: float
    """Share of the joints that it maps onto joints [1], nearer ones counting more."""

    def distances(self, points: FloatArray) -> FloatArray:
        """Signed distances of points (..., 3) from the plane [m]."""
        return (points - self.point) @ self.normal

    def reflected(self, points: FloatArray) -> FloatArray:
        """Mirror images of points (..., 3)."""
        return points - 2.0 * self.distances(points)[..., None] * self.normal


def find_mirror(tree: Tree) -> Mirror | None:
    """The plane of symmetry; None where nothing is alike on two sides."""
    sides: dict[Side | None, dict[str, int]] = {side: {} for side in (*Side, None)}
    for joint in tree.kept:
        reading = tree.readings[joint]
        if reading.stem:
            sides[reading.side].setdefault(reading.stem, joint)
    left, right = sides[Side.LEFT], sides[Side.RIGHT]
    pairs = [(joint, right[stem]) for stem, joint in left.items() if stem in right]
    ends = np.array([(tree.places[a], tree.places[b]) for a, b in pairs]).reshape(-1, 2, 3)
    apart = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1) > ON_PLANE * tree.size
    best: Mirror | None = None
    if apart.any():
        middles: FloatArray = ends[apart].mean(1)
        best = _plane(tree, ends[apart], np.median(middles, axis=0))
    else:
        found = [pair for siblings in tree.children.values() for pair in tree.alike(siblings)]
        found.sort(key=lambda pair: (-min(tree.reach[pair[0]], tree.reach[pair[1]]), *pair))
        for a, b in found[:PLANES_TRIED]:
            ends = np.array([(tree.tails[a], tree.tails[b]), *_matched_places(tree, a, b)])
            if np.abs(ends[:, 0] - ends[:, 1]).max() >= ON_PLANE * tree.size:
                mirror = _plane(tree, ends, ends.mean((0, 1)))
                if best is None or mirror.share > best.share + LARGER:
                    best = mirror
    if best is None:
        return None
    places = [tree.places[list(side.values())] for side in (left, right)]
    lean = float(best.distances(places[0]).sum() - best.distances(places[1]).sum())
    normal = best.normal if lean >= 0.0 else -best.normal
    return replace(best, normal=normal, named=abs(lean) > ON_PLANE * tree.size)


def _plane(tree: Tree, ends: FloatArray, point: FloatArray) -> Mirror:
    """The plane through a point (3,) across what pairs of points (k, 2, 3) have between them.

    Pairs far apart weigh more, so that pairs on the middle do not tip the plane.
    """
    apart = ends[:, 0] - ends[:, 1]
    mirror = Mirror(np.linalg.eigh(apart.T @ apart)[1][:, -1], point, named=False, share=0.0)
    places = tree.places[list(tree.kept[:: 1 + len(tree.kept) // SAMPLE])]
    misses = np.linalg.norm(mirror.reflected(places)[:, None] - places, axis=2).min(1) / tree.size
    return replace(mirror, share=float(np.clip(1.0 - misses / MATCH, 0.0, 1.0).mean()))


def _matched_places(tree: Tree, a: int, b: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Places of joints of two branches that correspond, down to where they fork."""
    yield tree.places[a], tree.places[b]
    while len(tree.children[a]) == len(tree.children[b]) == 1:
        # Of several, fingers, it is not sure which is which.
        (a,), (b,) = tree.children[a], tree.children[b]
        yield tree.places[a], tree.places[b]


def mirrored_pairs(tree: Tree, mirror: Mirror) -> list[tuple[int, int]]:
    """Siblings whose branches are mirror images, (at the normal's side, at the other), anywhere in the tree.

    Each joint is in one pair at most, with the nearest; branches inside a paired branch are not looked at.
    """
    pairs: list[tuple[int, int]] = []
    stack = [-1]
    while stack:
        siblings = tree.children[stack.pop()]
        candidates: list[tuple[float, int, int]] = []
        for a, b in tree.alike(siblings):
            ends_a, ends_b = (np.array([tree.places[joint], tree.tip(joint)]) for joint in (a, b))
            side = float(mirror.distances(ends_a).sum())
            misses = np.linalg.norm(mirror.reflected(ends_a) - ends_b, axis=1)
            if misses.max() <= 2.0 * MATCH * tree.size and abs(side) >= ON_PLANE * tree.size:
                candidates.append((float(misses.sum()), *((a, b) if side > 0.0 else (b, a))))
        taken: set[int] = set()
        for _, a, b in sorted(candidates):
            if taken.isdisjoint((a, b)):
                taken |= {a, b}
                pairs.append((a, b))
        stack += [child for child in siblings if child not in taken]
    return pairs

# SPDX-License-Identifier: GPL-3.0-or-later
"""The joints that may have roles as a tree of their own, and its plane of symmetry.

Joints that names leave out (twist bones, helpers, controls) are bridged: a joint's parent is the nearest
ancestor that is kept. In a generated control rig a bone hangs on copies of others (Rigify's ORG and MCH
bones); there the parent is the control of which the nearest such ancestor is a copy, found by its name.

The mirror plane comes from pairs: from names that differ only in their side where there are some, otherwise
from siblings whose branches are alike. A pair (a, b) proposes the plane through its middle, normal to a − b.
Of the planes proposed the one that maps most joints onto joints is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ...arrays import FloatArray, IntArray
from .character import Side
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


def unit(vector: FloatArray) -> FloatArray:
    """A vector (3,) of length 1; what has no length stays as it is, nearly."""
    return vector / max(float(np.linalg.norm(vector)), TINY)


@dataclass(frozen=True)
class Tree:
    """Kept joints of one figure, in the skeleton's order; all indices below are those of the skeleton."""

    kept: tuple[int, ...]
    parents: IntArray
    """Nearest kept ancestor of each joint of the skeleton, -1 without any, (n,)."""
    places: FloatArray
    """Of all joints of the skeleton at rest in armature space, (n, 3) [m]."""
    tails: FloatArray
    """Where the bones end; the joint's own place where that is not known, (n, 3) [m]."""
    readings: Sequence[NameReading]
    """What the names say, of all joints of the skeleton."""

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """Kept children of each kept joint; -1 has the roots."""
        children: dict[int, list[int]] = {joint: [] for joint in (-1, *self.kept)}
        members = set(self.kept)
        for joint in self.kept:
            parent = int(self.parents[joint])
            children[parent if parent in members else -1].append(joint)
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
            own = float(np.linalg.norm(self.tails[joint] - self.places[joint]))
            below = [
                reach[child] + float(np.linalg.norm(self.places[child] - self.places[joint]))
                for child in self.children[joint]
            ]
            reach[joint] = max(below, default=own)
        return reach

    @cached_property
    def counts(self) -> dict[int, int]:
        """Number of joints in the branch that begins with a joint."""
        counts: dict[int, int] = {}
        for joint in reversed(self.kept):
            counts[joint] = 1 + sum(counts[child] for child in self.children[joint])
        return counts

    def branch(self, joint: int) -> list[int]:
        """The joint and all below it, parents first."""
        found = [joint]
        for member in found:
            found += self.children[member]
        return found

    def path(self, top: int, bottom: int) -> list[int]:
        """Joints from `top` down to `bottom`, both included; empty where `top` is not above, or is -1."""
        if top < 0 or bottom < 0:
            return []
        path = [bottom]
        while path[-1] != top:
            parent = int(self.parents[path[-1]])
            if parent < 0:
                return []
            path.append(parent)
        return path[::-1]

    def ancestors(self, joint: int) -> list[int]:
        """The joint and those above it, upwards."""
        chain = [joint]
        while (parent := int(self.parents[chain[-1]])) >= 0:
            chain.append(parent)
        return chain

    def common_ancestor(self, joints: Sequence[int]) -> int | None:
        """The lowest joint that is above or one of all these; None where there is none."""
        if not joints:
            return None
        shared = self.ancestors(joints[0])
        for joint in joints[1:]:
            above = set(self.ancestors(joint))
            shared = [member for member in shared if member in above]
        return shared[0] if shared else None

    def main_path(self, joint: int) -> list[int]:
        """From a joint to the tip that is farthest along the bones."""
        path = [joint]
        while self.children[path[-1]]:
            here = path[-1]
            path.append(
                max(
                    self.children[here],
                    key=lambda child: (
                        self.reach[child] + float(np.linalg.norm(self.places[child] - self.places[here]))
                    ),
                )
            )
        return path


@dataclass(frozen=True)
class Mirror:
    """The plane of symmetry."""

    normal: FloatArray
    """Unit vector, towards the left once that is known, (3,)."""
    point: FloatArray
    """A point of the plane, (3,) [m]."""
    named: bool
    """Whether names gave it."""
    share: float
    """Share of the joints that it maps onto joints [1]."""

    def distances(self, points: FloatArray) -> FloatArray:
        """Signed distances of points (..., 3) from the plane [m]."""
        return (points - self.point) @ self.normal

    def reflected(self, points: FloatArray) -> FloatArray:
        """Mirror images of points (..., 3)."""
        return points - 2.0 * self.distances(points)[..., None] * self.normal


def name_pairs(readings: Sequence[NameReading], kept: Sequence[int]) -> list[tuple[int, int]]:
    """Joints whose names differ only in their side, (left, right)."""
    left: dict[str, int] = {}
    right: dict[str, int] = {}
    for joint in kept:
        reading = readings[joint]
        if reading.side in (Side.LEFT, Side.RIGHT) and reading.stem:
            (left if reading.side is Side.LEFT else right).setdefault(reading.stem, joint)
    return [(joint, right[stem]) for stem, joint in left.items() if stem in right]


def find_mirror(tree: Tree, pairs: Sequence[tuple[int, int]]) -> Mirror | None:
    """The plane of symmetry; None where nothing is alike on two sides.

    Args:
        tree: The joints.
        pairs: Left and right joints by name, see `name_pairs`.
    """
    differences = [tree.places[a] - tree.places[b] for a, b in pairs]
    apart = [row for row, d in enumerate(differences) if np.linalg.norm(d) > ON_PLANE * tree.size]
    if apart:
        # Pairs far apart weigh more, so that pairs on the middle do not tip the plane.
        normal = _principal(np.array([differences[row] for row in apart]))
        middles = np.array([0.5 * (tree.places[pairs[row][0]] + tree.places[pairs[row][1]]) for row in apart])
        point = np.median(middles, axis=0)
        if sum(float(differences[row] @ normal) for row in apart) < 0.0:
            normal = -normal
        return Mirror(normal, point, True, _matched(tree, normal, point))
    best: Mirror | None = None
    for a, b in _alike(tree)[:PLANES_TRIED]:
        matched = _matched_branches(tree, a, b)
        ends = np.array(
            [(tree.places[i], tree.places[j]) for i, j in matched] + [(tree.tails[a], tree.tails[b])]
        )
        differences_here = ends[:, 0] - ends[:, 1]
        if np.abs(differences_here).max() < ON_PLANE * tree.size:
            continue
        normal = _principal(differences_here)
        point = 0.5 * (ends[:, 0] + ends[:, 1]).mean(0)
        share = _matched(tree, normal, point)
        if best is None or share > best.share + LARGER:
            best = Mirror(normal, point, False, share)
    return best


def _principal(vectors: FloatArray) -> FloatArray:
    """The direction, up to its sign, that vectors (k, 3) have in common."""
    return np.linalg.eigh(vectors.T @ vectors)[1][:, -1]


def _matched(tree: Tree, normal: FloatArray, point: FloatArray) -> float:
    """Share of the joints whose mirror image is near a joint [1], nearer ones counting more."""
    kept = list(tree.kept)
    places = tree.places[kept[:: 1 + len(kept) // SAMPLE]]
    images = places - 2.0 * ((places - point) @ normal)[:, None] * normal
    distances = np.linalg.norm(images[:, None] - places[None], axis=2).min(1) / tree.size
    return float(np.clip(1.0 - distances / MATCH, 0.0, 1.0).mean())


def _alike(tree: Tree) -> list[tuple[int, int]]:
    """Pairs of siblings whose branches are alike, longest first."""
    found: list[tuple[float, int, int]] = []
    for siblings in tree.children.values():
        for number, a in enumerate(siblings):
            for b in siblings[number + 1 :]:
                if alike(tree, a, b):
                    found.append((-min(tree.reach[a], tree.reach[b]), a, b))
    return [(a, b) for _, a, b in sorted(found)]


def alike(tree: Tree, a: int, b: int) -> bool:
    """Whether two branches may be mirror images by their lengths and numbers of joints."""
    longer, shorter = max(tree.reach[a], tree.reach[b]), min(tree.reach[a], tree.reach[b])
    if longer - shorter > ALIKE * longer + TINY:
        return False
    more, less = max(tree.counts[a], tree.counts[b]), min(tree.counts[a], tree.counts[b])
    return more - less <= 0.25 * more


def _matched_branches(tree: Tree, a: int, b: int) -> list[tuple[int, int]]:
    """Joints of two branches that correspond, down to where they fork."""
    matched = [(a, b)]
    for i, j in matched:
        below_i, below_j = tree.children[i], tree.children[j]
        if len(below_i) == len(below_j) == 1:  # of several, fingers, it is not sure which is which
            matched.append((below_i[0], below_j[0]))
    return matched


def mirrored_pairs(tree: Tree, mirror: Mirror) -> list[tuple[int, int]]:
    """Siblings whose branches are mirror images, (at the normal's side, at the other), anywhere in the tree.

    Each joint is in one pair at most; branches inside a paired branch are not looked at.
    """
    pairs: list[tuple[int, int]] = []
    stack = [-1]
    while stack:
        parent = stack.pop()
        siblings = list(tree.children[parent])
        taken: set[int] = set()
        for a, b in _best_matches(tree, mirror, siblings):
            pairs.append((a, b))
            taken |= {a, b}
        stack += [child for child in siblings if child not in taken]
    return pairs


def _best_matches(tree: Tree, mirror: Mirror, siblings: Sequence[int]) -> list[tuple[int, int]]:
    """The nearest mirror images among siblings, each used once."""
    tolerance = 2.0 * MATCH * tree.size
    candidates: list[tuple[float, int, int]] = []
    for number, a in enumerate(siblings):
        for b in siblings[number + 1 :]:
            if not alike(tree, a, b):
                continue
            path_a, path_b = tree.main_path(a), tree.main_path(b)
            ends_a = np.array([tree.places[a], tree.tails[path_a[-1]]])
            ends_b = np.array([tree.places[b], tree.tails[path_b[-1]]])
            side = float(mirror.distances(ends_a).sum())
            miss = np.linalg.norm(mirror.reflected(ends_a) - ends_b, axis=1)
            if miss.max() > tolerance or abs(side) < ON_PLANE * tree.size:
                continue
            candidates.append((float(miss.sum()), a, b) if side > 0.0 else (float(miss.sum()), b, a))
    taken: set[int] = set()
    matches: list[tuple[int, int]] = []
    for _, a, b in sorted(candidates):
        if not {a, b} & taken:
            taken |= {a, b}
            matches.append((a, b))
    return matches

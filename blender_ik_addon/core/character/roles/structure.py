# SPDX-License-Identifier: GPL-3.0-or-later
"""The joints that may have roles as a tree of their own, its figures, and their planes of symmetry.

Joints that names leave out (twist bones, helpers, controls) are bridged: a joint's parent is the nearest
ancestor that is kept. In a generated control rig a bone hangs on copies of others (Rigify's ORG and MCH
bones); there the parent is the control of which the nearest such ancestor is a copy, found by its name.

The mirror plane comes from pairs: from names that differ only in their side where there are some, otherwise
from siblings whose branches are alike. A pair (a, b) proposes the plane through its middle, normal to a − b.
Of the planes proposed the one that maps most joints onto joints is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Final

import numpy as np

from ...arrays import FloatArray
from ...messages import Message
from ...model.skeleton import Skeleton
from .character import Hints, Role, Side
from .names import SURE, NameReading, read_name

ON_PLANE, MATCH = 0.02, 0.06
"""Distance from the mirror plane up to which a joint is of the centre, and from another joint up to which a
mirrored one is that joint, in sizes of the figure [1]."""

ALIKE: Final = 0.15
"""By how much, relatively, branches that mirror each other may differ in length [1]; recorded people do."""

SAMPLE, PLANES_TRIED = 500, 16
"""Number of joints beyond which not all of them are mirrored, as the distances between all are held at once;
how many proposed planes are compared, those of the longest branches first."""

LARGER: Final = 1e-6
"""By how much larger a share must be [1] for a later plane to be taken: rounding must not choose."""

FIGURE, SHARE = 5, 0.5
"""Number of joints from which on a branch that hangs on nothing may be a figure of its own, also in joints of
the largest one [1]."""

BODY_PARTS: Final = 0.3
"""Length in that of the branch [1] of two like branches inside it, two of which make it a body."""

_TIP: Final = re.compile(r"[._][LR]\.\d{3}$")
"""Rigify's control of a finger's tip: the finger's name with a number after the side."""

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


# Which joints


def is_control_rig(readings: Sequence[NameReading]) -> bool:
    """Whether it is a rig of controls, mechanism and deform bones, as Rigify generates them."""
    return any(reading.layer in ("MCH", "ORG") for reading in readings)


def keep(skeleton: Skeleton, hints: Hints) -> tuple[Tree, dict[int, str]]:
    """Read all names: the joints that may be those of a body, and the others -> why they are not."""
    names, raw = skeleton.names, skeleton.parents.tolist()
    readings = tuple(read_name(name) for name in names)
    places = np.array(skeleton.armature_from_joint_rest[:, :3, 3])
    tails = np.array(places if hints.tails is None else hints.tails)
    control_rig = is_control_rig(readings)
    dropped = {"DEF", "ORG", "MCH"} if "FK" in {reading.layer for reading in readings} else {"MCH", "ORG"}
    moves = np.ones(len(names), dtype=np.bool_)
    if hints.deform is not None and hints.deform.any() and not control_rig:
        moves = np.array(hints.deform)
        for joint in reversed(range(len(names))):
            if moves[joint] and raw[joint] >= 0:
                moves[raw[joint]] = True
    bearing = set(raw)
    left_out: dict[int, str] = {}
    for joint, (name, reading) in enumerate(zip(names, readings, strict=True)):
        collections = hints.collections.get(name, ()) if not reading.roles else ()
        controls = [c for c in collections if read_name(c).left_out.startswith("control")]
        if reading.left_out:
            left_out[joint] = reading.left_out
        elif control_rig and reading.layer in dropped:
            left_out[joint] = Message(
                "{layer} bone of a control rig: follows its controls", layer=reading.layer
            )
        elif control_rig and Role.FINGER in reading.roles and _TIP.search(name):
            left_out[joint] = Message("control bone: moves the tip of a finger")
        elif controls:
            left_out[joint] = Message("control bone: in collection {collection!r}", collection=controls[0])
        elif not moves[joint] and not reading.roles:
            left_out[joint] = Message("moves no mesh and its name says nothing")
        elif "end" in reading.words and joint not in bearing and raw[joint] >= 0:
            left_out[joint] = Message("marks the end of {bone!r}", bone=names[raw[joint]])
            if hints.tails is None:
                tails[raw[joint]] = places[joint]
    tree = Tree((), _bridged(raw, readings, left_out), places, tails, readings)
    kept: dict[int, None] = {}  # copies may hang on joints that come after them
    for joint in range(len(names)):
        if joint not in left_out:
            kept.update(dict.fromkeys(reversed(tree.ancestors(joint))))
    return replace(tree, kept=tuple(kept)), left_out


def _bridged(raw: Sequence[int], readings: Sequence[NameReading], left_out: dict[int, str]) -> list[int]:
    """The nearest kept ancestor of each joint, (n,); copies in a control rig stand for their originals."""
    originals = {
        (reading.stem, reading.side): joint
        for joint, reading in enumerate(readings)
        if joint not in left_out and reading.stem
    }
    parents = list(raw)
    for joint, parent in enumerate(raw):
        if parent in left_out:
            parents[joint] = parents[parent]
    for joint, ancestor in enumerate(raw):
        while joint not in left_out and ancestor in left_out:
            reading = readings[ancestor]
            above = original = originals.get((reading.stem, reading.side), -1) if reading.layer else -1
            while above not in (-1, joint):
                above = parents[above]
            if original >= 0 and above != joint:  # no joint may come above itself
                parents[joint] = original
                break
            ancestor = raw[ancestor]
    return parents


def figures_of(whole: Tree) -> tuple[list[Tree], dict[int, str]]:
    """The figures of an armature, and joints that belong to none -> why.

    A figure is a branch with hips of its own by name, or a body by its shape (two pairs of like branches
    inside it) under a root that has another such, or a large tree that hangs on nothing.
    """
    tops = _bodies(whole)
    if len(tops) > 1:
        members = [whole.branch(top) for top in tops]
        others = set(whole.kept).difference(*members)
        reason = Message("belongs to no figure, or moves several at once")
        return [whole.part(branch) for branch in members], dict.fromkeys(others, reason)
    roots = whole.children[-1]
    most = max((whole.counts[root] for root in roots), default=0)
    large = [root for root in roots if whole.counts[root] >= max(FIGURE, SHARE * most)]
    if not large:
        return [whole] if most > 1 else [], {}
    outside: dict[int, str] = {}
    for root in set(roots).difference(large):
        is_root = whole.readings[root].root
        reason = Message("root: moves the whole figure") if is_root else Message("hangs on no figure")
        outside.update(dict.fromkeys(whole.branch(root), reason))
    return [whole.part(whole.branch(root)) for root in large], outside


def _bodies(tree: Tree) -> list[int]:
    """Tops of branches that are figures by themselves, none inside another; fewer than two say nothing."""
    hips = [
        joint
        for joint in tree.kept
        if tree.weight(joint, Role.HIPS) >= SURE
        and tree.readings[joint].side not in (Side.LEFT, Side.RIGHT)
        and tree.counts[joint] >= FIGURE
    ]
    candidates = [[joint for joint in hips if set(hips).isdisjoint(tree.ancestors(joint)[1:])]]
    for joint in [-1, *tree.kept[:3]]:
        candidates.append([child for child in tree.children[joint] if _is_body(tree, child)])
    return max(candidates, key=lambda tops: len(tops) > 1)


def _is_body(tree: Tree, top: int) -> bool:
    """Whether a branch has two pairs of like long branches in it, as a body has arms and legs."""
    if tree.counts[top] < 2 * FIGURE:
        return False
    long = {joint for joint in tree.branch(top) if tree.reach[joint] >= BODY_PARTS * tree.reach[top]}
    siblings = (long.intersection(tree.children[joint]) for joint in long)
    return sum(any(tree.alike(sorted(below))) for below in siblings) >= 2


# Symmetry


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

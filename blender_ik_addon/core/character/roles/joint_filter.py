# SPDX-License-Identifier: GPL-3.0-or-later
"""Which joints may have a role at all, and how many figures they make."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ...arrays import FloatArray, IntArray
from ...model.skeleton import Skeleton
from .chains import LIMB_ROLES
from .character import Hints, Role, Side
from .names import SURE, NameReading, read_name
from .structure import Tree, alike

FIGURE: Final = 5
"""Number of joints from which on a branch that hangs on nothing may be a figure of its own."""

SHARE: Final = 0.5
"""Number of joints in those of the largest figure [1] from which on it is one."""

BODY_PARTS: Final = 0.3
"""Length in that of the branch [1] of two like branches inside it, two of which make it a body and no
limb."""

_TIP: Final = re.compile(r"[._][LR]\.\d{3}$")
"""Rigify's control of a finger's tip: the finger's name with a number after the side."""


@dataclass
class Kept:
    """What is left for recognition."""

    readings: tuple[NameReading, ...]
    parents: IntArray
    """Nearest kept ancestor, -1 without any, (n,)."""
    places: FloatArray
    """(n, 3) [m]."""
    tails: FloatArray
    """(n, 3) [m]."""
    kept: tuple[int, ...]
    """Joints, parents first by `parents`."""
    control_rig: bool
    """Whether it is a rig of controls, mechanism and deform bones, as Rigify generates them."""
    left_out: dict[int, str] = field(default_factory=dict[int, str])
    """Joint -> why."""

    def above(self, joint: int) -> list[int]:
        """Kept joints above one, upwards."""
        chain: list[int] = []
        while (joint := int(self.parents[joint])) >= 0:
            chain.append(joint)
        return chain

    def tree(self, joints: Sequence[int]) -> Tree:
        """A figure of some of the joints."""
        members = set(joints)
        parents = np.array([p if p in members else -1 for p in self.parents.tolist()], dtype=np.int64)
        return Tree(
            tuple(j for j in self.kept if j in members), parents, self.places, self.tails, self.readings
        )


def keep(skeleton: Skeleton, hints: Hints) -> Kept:
    """Read all names and leave out what is no joint of a body."""
    readings = tuple(read_name(name) for name in skeleton.names)
    n = len(skeleton)
    raw: list[int] = skeleton.parents.tolist()
    places = np.array(skeleton.armature_from_joint_rest[:, :3, 3])
    left_out = {joint: reading.left_out for joint, reading in enumerate(readings) if reading.left_out}
    layers = {reading.layer for reading in readings}
    control_rig = bool(layers & {"MCH", "ORG"})
    if control_rig:
        dropped = {"DEF", "ORG", "MCH"} if "FK" in layers else {"MCH", "ORG"}
        for joint, reading in enumerate(readings):
            if reading.layer in dropped:
                left_out.setdefault(joint, f"{reading.layer} bone of a control rig: follows its controls")
        for joint, name in enumerate(skeleton.names):
            if Role.FINGER in readings[joint].roles and _TIP.search(name):
                left_out.setdefault(joint, "control bone: moves the tip of a finger")
    for joint, reading in enumerate(readings):
        for collection in hints.collections.get(skeleton.names[joint], ()):
            if not reading.roles and read_name(collection).left_out.startswith("control"):
                left_out.setdefault(joint, f"control bone: in collection {collection!r}")
    if hints.deform is not None and hints.deform.any() and not control_rig:
        moves = np.array(hints.deform)
        for joint in range(n - 1, -1, -1):
            if moves[joint] and raw[joint] >= 0:
                moves[raw[joint]] = True
        for joint in np.flatnonzero(~moves).tolist():
            if not readings[joint].roles:
                left_out.setdefault(joint, "moves no mesh and its name says nothing")
    tails = np.array(places if hints.tails is None else hints.tails)
    _drop_ends(skeleton, readings, places, tails, left_out, known=hints.tails is not None)
    parents = _bridged(raw, readings, left_out)
    return Kept(readings, parents, places, tails, _parents_first(parents, left_out), control_rig, left_out)


def _drop_ends(
    skeleton: Skeleton,
    readings: Sequence[NameReading],
    places: FloatArray,
    tails: FloatArray,
    left_out: dict[int, str],
    *,
    known: bool,
) -> None:
    """Leave out leaves that only mark where their parent ends, and learn the end from them."""
    bearing = set(skeleton.parents.tolist())
    for joint, reading in enumerate(readings):
        parent = int(skeleton.parents[joint])
        if reading.end and joint not in bearing and parent >= 0 and joint not in left_out:
            left_out[joint] = f"marks the end of {skeleton.names[parent]!r}"
            if not known:
                tails[parent] = places[joint]


def _bridged(raw: Sequence[int], readings: Sequence[NameReading], left_out: dict[int, str]) -> IntArray:
    """The nearest kept ancestor of each joint, (n,); copies in a control rig stand for their originals."""
    originals = {
        (reading.stem, reading.side): joint
        for joint, reading in enumerate(readings)
        if joint not in left_out and reading.stem
    }
    parents = np.full(len(raw), -1, dtype=np.int64)
    for joint in range(len(raw)):
        parent = raw[joint]
        while parent >= 0 and parent in left_out:
            parent = raw[parent]
        parents[joint] = parent
    for joint in range(len(raw)):
        if joint in left_out:
            continue
        ancestor = raw[joint]
        while ancestor >= 0 and ancestor in left_out:
            reading = readings[ancestor]
            original = originals.get((reading.stem, reading.side)) if reading.layer else None
            if original is not None and not _is_above(parents, joint, original):
                parents[joint] = original
                break
            ancestor = raw[ancestor]
    return parents


def _is_above(parents: IntArray, joint: int, other: int) -> bool:
    """Whether a joint is another or above it."""
    while other >= 0:
        if other == joint:
            return True
        other = int(parents[other])
    return False


def _parents_first(parents: IntArray, left_out: dict[int, str]) -> tuple[int, ...]:
    done: dict[int, None] = {}
    for joint in range(len(parents)):
        if joint in left_out:
            continue
        chain = [joint]
        while (parent := int(parents[chain[-1]])) >= 0 and parent not in done:
            chain.append(parent)
        done.update(dict.fromkeys(reversed(chain)))
    return tuple(done)


# Figures


def figures_of(kept: Kept) -> tuple[list[Tree], dict[int, str]]:
    """The figures of an armature, and joints that belong to none -> why.

    A figure is a branch with hips of its own by name, or a body by its shape (two pairs of like branches
    inside it) under a root that has another such, or a large tree that hangs on nothing.
    """
    whole = kept.tree(kept.kept)
    outside: dict[int, str] = {}
    tops = _bodies(whole)
    if len(tops) > 1:
        members = [whole.branch(top) for top in tops]
        inside = {joint for branch in members for joint in branch}
        for joint in whole.kept:
            if joint not in inside:
                outside[joint] = "belongs to no figure, or moves several at once"
        return [kept.tree(branch) for branch in members], outside
    roots = whole.children[-1]
    if not roots:
        return [], outside
    most = max(whole.counts[root] for root in roots)
    large = [root for root in roots if whole.counts[root] >= max(FIGURE, SHARE * most)]
    if not large or most < 2:
        return ([whole] if most > 1 else []), outside
    members = [whole.branch(root) for root in large]
    for root in roots:
        if root in large:
            continue
        branch = whole.branch(root)
        reads = any(whole.readings[joint].weight(*LIMB_ROLES) >= SURE for joint in branch)
        if len(large) == 1 and reads and len(branch) > 1:
            members[0] = members[0] + branch
        else:
            reason = "root: moves the whole figure" if whole.readings[root].root else "hangs on no figure"
            outside.update(dict.fromkeys(branch, reason))
    return [kept.tree(branch) for branch in members], outside


def _bodies(tree: Tree) -> list[int]:
    """Tops of branches that are figures by themselves, none inside another; fewer than two say nothing."""
    hips = [
        joint
        for joint in tree.kept
        if tree.readings[joint].weight(Role.HIPS) >= SURE
        and tree.readings[joint].side not in (Side.LEFT, Side.RIGHT)
        and tree.counts[joint] >= FIGURE
    ]
    tops = [joint for joint in hips if not any(above in hips for above in tree.ancestors(joint)[1:])]
    if len(tops) > 1:
        return tops
    for joint in [-1, *tree.kept[:3]]:
        bodies = [child for child in tree.children[joint] if _is_body(tree, child)]
        if len(bodies) > 1:
            return bodies
    return []


def _is_body(tree: Tree, top: int) -> bool:
    """Whether a branch has two pairs of like long branches in it, as a body has arms and legs."""
    if tree.counts[top] < 2 * FIGURE:
        return False
    pairs = 0
    for joint in tree.branch(top):
        below = [child for child in tree.children[joint] if tree.reach[child] >= BODY_PARTS * tree.reach[top]]
        if any(alike(tree, a, b) for row, a in enumerate(below) for b in below[row + 1 :]):
            pairs += 1
    return pairs >= 2

# SPDX-License-Identifier: GPL-3.0-or-later
"""Which joints may have a role at all, and how many figures they make.

Joints that names leave out (twist bones, helpers, controls) are bridged: a joint's parent is the nearest
ancestor that is kept. In a generated control rig a bone hangs on copies of others (Rigify's ORG and MCH
bones); there the parent is the control of which the nearest such ancestor is a copy, found by its name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ...model.skeleton import Skeleton
from .character import Hints, Role, Side
from .limbs import LIMB_ROLES
from .names import SURE, NameReading, read_name
from .structure import Tree

FIGURE: Final = 5
"""Number of joints from which on a branch that hangs on nothing may be a figure of its own."""

SHARE: Final = 0.5
"""Number of joints in those of the largest figure [1] from which on it is one."""

BODY_PARTS: Final = 0.3
"""Length in that of the branch [1] of two like branches inside it, two of which make it a body and no
limb."""

_TIP: Final = re.compile(r"[._][LR]\.\d{3}$")
"""Rigify's control of a finger's tip: the finger's name with a number after the side."""


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
            left_out[joint] = f"{reading.layer} bone of a control rig: follows its controls"
        elif control_rig and Role.FINGER in reading.roles and _TIP.search(name):
            left_out[joint] = "control bone: moves the tip of a finger"
        elif controls:
            left_out[joint] = f"control bone: in collection {controls[0]!r}"
        elif not moves[joint] and not reading.roles:
            left_out[joint] = "moves no mesh and its name says nothing"
        elif "end" in reading.words and joint not in bearing and raw[joint] >= 0:
            left_out[joint] = f"marks the end of {names[raw[joint]]!r}"
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
        reason = "belongs to no figure, or moves several at once"
        return [whole.part(branch) for branch in members], dict.fromkeys(others, reason)
    roots = whole.children[-1]
    most = max((whole.counts[root] for root in roots), default=0)
    large = [root for root in roots if whole.counts[root] >= max(FIGURE, SHARE * most)]
    if not large:
        return [whole] if most > 1 else [], {}
    outside: dict[int, str] = {}
    members = [whole.branch(root) for root in large]
    for root in set(roots).difference(large):
        branch = whole.branch(root)
        if len(large) == 1 and len(branch) > 1 and any(whole.weight(j, *LIMB_ROLES) >= SURE for j in branch):
            members[0] += branch
        else:
            reason = "root: moves the whole figure" if whole.readings[root].root else "hangs on no figure"
            outside.update(dict.fromkeys(branch, reason))
    return [whole.part(branch) for branch in members], outside


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

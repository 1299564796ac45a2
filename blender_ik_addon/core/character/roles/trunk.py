# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies between the limbs: hips, spine, chest, neck, head and tails.

The hips bear both the legs and the trunk: the lowest joint above all of them, or a joint named hips from
there up. The trunk leads from the hips to the head. The joint on which the arms (wings, front legs) hang is
the chest; what lies before it is spine, what lies after it is neck, unless names say otherwise. A central
chain that leaves the hips another way is a tail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from .chains import Slot
from .character import LimbKind, Role, Side
from .limbs import Found, tip_of
from .names import LIKELY, SURE
from .structure import ON_PLANE, TINY, Tree

SNAKE: Final = 5
"""Number of joints from which on a single chain is taken for a snake's."""

WHOLE: Final = 0.6
"""Share of the joints [1] that must be in it."""

NEAR: Final = 0.2
"""How far, in sizes of the figure [1], a joint above the legs may be to be taken for the hips: a root lies
on the ground, far from them."""

BELOW: Final = 0.4
"""How far, in lengths of the legs [1], it may be below them: short legs bring the root near."""

TAIL: Final = 0.25
"""Length in that from the hips to the head [1] from which on an unnamed chain at the hips is a tail."""

LEVEL: Final = 0.75
"""Cosine [1] between trunk and legs below which the trunk lies rather than stands."""

IN_LINE: Final = 1e-6
"""Spread of a trunk across itself in that along itself, both squared [1], up to which it lies in no plane."""

FAN: Final = 0.4
"""Length of a branch in that of the longest [1] from which on a chain has ended in a fan: the parts of a
face."""

_FACE: Final = (Role.HEAD_PART, Role.JAW, Role.EYE)


@dataclass
class Trunk:
    """The middle of a figure."""

    path: list[int] = field(default_factory=list[int])
    """Joints from the hips to the head, or as far as there are any."""
    roles: dict[int, tuple[Role, bool, str]] = field(default_factory=dict[int, tuple[Role, bool, str]])
    """Joint -> role, whether there is good reason for it, and the reason."""
    heads: list[int] = field(default_factory=list[int])
    tails: list[list[int]] = field(default_factory=list[list[int]])
    """Chains from the body to the tip."""
    lying: bool = False
    """Whether it lies across the legs, as an animal's does."""
    snake: bool = False
    """Whether the figure is a single chain."""
    notes: list[str] = field(default_factory=list[str])

    def chains(self) -> Iterator[tuple[LimbKind, list[int]]]:
        """The limbs of the middle."""
        for kind, wanted in (
            (LimbKind.TRUNK, (Role.HIPS, Role.SPINE, Role.CHEST)),
            (LimbKind.HEAD, (Role.NECK, Role.HEAD)),
        ):
            yield kind, [joint for joint in self.path if self.roles[joint][0] in wanted]
        for tail in self.tails:
            yield LimbKind.TAIL, tail


def find_trunk(
    tree: Tree,
    limbs: Sequence[Found],
    without: set[int],
    sides: Sequence[Side],
) -> Trunk:
    """The middle of a figure.

    Args:
        tree: The figure.
        limbs: What was found of it.
        without: Joints that are no part of it: copies of limbs.
        sides: Of all joints of the skeleton.
    """
    trunk = Trunk()
    taken = set(without) | {joint for limb in limbs for joint in tree.branch(limb.root)}
    free = [joint for joint in tree.kept if joint not in taken]
    head = _named_head(tree, free)
    legs = [limb for limb in limbs if limb.kind is LimbKind.LEG and limb.front is not True]
    upper = [limb for limb in limbs if limb not in legs]
    hips, reason = _hips(tree, legs, upper, head)
    if hips is None and not limbs and head is None:
        _snake(tree, trunk, free)
        return trunk
    if hips is None:
        hips = _top(tree, head if head is not None else limbs[0].root)
        reason = "the first joint of the trunk"
    attach = _attach(tree, hips, upper)
    path, end = _path(tree, hips, attach, head, taken, legs, sides)
    trunk.path = path
    named_hips = tree.readings[hips].weight(Role.HIPS) >= LIKELY
    trunk.roles[hips] = (Role.HIPS, True, reason)
    if not legs and not named_hips and not upper:
        trunk.roles[hips] = (Role.HIPS, False, reason)
    _label(tree, trunk, attach, end)
    trunk.heads = [joint for joint in trunk.path if trunk.roles[joint][0] is Role.HEAD]
    if head is not None and head not in trunk.path:
        trunk.notes.append("the head does not hang on the hips: it is taken as it is named")
        trunk.roles[head] = (Role.HEAD, True, "named head")
        trunk.heads.append(head)
    if not trunk.heads:
        trunk.notes.append("no head was found")
    _pelvis(tree, trunk, legs)
    _tails(tree, trunk, free)
    trunk.lying = _is_lying(tree, trunk, legs, upper, attach)
    return trunk


def _named_head(tree: Tree, free: Sequence[int]) -> int | None:
    """The joint that is named head and bears most, if there is one."""
    heads = [
        joint
        for joint in free
        if tree.readings[joint].weight(Role.HEAD) >= SURE
        and tree.readings[joint].side not in (Side.LEFT, Side.RIGHT)
    ]
    return max(heads, key=lambda joint: (tree.counts[joint], -len(tree.ancestors(joint))), default=None)


def _top(tree: Tree, joint: int) -> int:
    """The highest ancestor that is not named root."""
    chain = [member for member in tree.ancestors(joint) if not tree.readings[member].root]
    return chain[-1] if chain else joint


def _hips(
    tree: Tree, legs: Sequence[Found], upper: Sequence[Found], head: int | None
) -> tuple[int | None, str]:
    """The hips, and the reason."""
    bears = [int(tree.parents[limb.root]) for limb in (*legs, *upper) if tree.parents[limb.root] >= 0]
    if head is not None:
        bears.append(head)
    named = [
        joint
        for joint in tree.kept
        if tree.readings[joint].weight(Role.HIPS) >= LIKELY and tree.counts[joint] > 1
    ]
    if not legs or len(bears) < 2:
        if named:
            best = max(named, key=lambda joint: (tree.counts[joint], tree.readings[joint].weight(Role.HIPS)))
            return best, "named hips"
        if not legs:
            return None, ""
    lowest = tree.common_ancestor(bears)
    if lowest is None:
        return (named[0], "named hips") if named else (None, "")
    above = tree.ancestors(lowest)
    for joint in above:
        if joint in named:
            return joint, "named hips"
    hips = lowest
    legs_down = np.mean([tip_of(tree, limb) - tree.places[limb.root] for limb in legs], axis=0)
    square = max(float(legs_down @ legs_down), TINY)
    for joint in above[1:]:
        away = tree.places[joint] - tree.places[lowest]
        below = float(away @ legs_down) / square
        if tree.readings[joint].root or np.linalg.norm(away) > NEAR * tree.size or below > BELOW:
            break
        hips = joint
    return hips, "bears the legs and the trunk"


def _attach(tree: Tree, hips: int, upper: Sequence[Found]) -> int | None:
    """The joint of the trunk farthest from the hips that bears arms, wings or front legs."""
    hubs = [int(tree.parents[limb.root]) for limb in upper if limb.kind is not LimbKind.FIN]
    hubs = hubs or [int(tree.parents[limb.root]) for limb in upper]
    below = [hub for hub in hubs if hub >= 0 and tree.path(hips, hub)]
    return max(below, key=lambda hub: len(tree.ancestors(hub)), default=None)


def _path(
    tree: Tree,
    hips: int,
    attach: int | None,
    head: int | None,
    taken: set[int],
    legs: Sequence[Found],
    sides: Sequence[Side],
) -> tuple[list[int], bool]:
    """From the hips to the head, and whether its last joint may be the head."""
    if head is not None and (path := tree.path(hips, head)):
        return path, True
    path = tree.path(hips, hips if attach is None else attach)
    leg_hubs = {int(tree.parents[limb.root]) for limb in legs}
    while True:
        here = path[-1]
        onward = [
            child
            for child in tree.children[here]
            if child not in taken
            and tree.readings[child].weight(*_FACE, Role.TAIL) <= 0.0
            and sides[child] is Side.CENTRE
            and not any(hub in leg_hubs for hub in tree.branch(child))
        ]
        if not onward:
            break
        lengths = {
            child: tree.reach[child] + float(np.linalg.norm(tree.places[child] - tree.places[here]))
            for child in tree.children[here]
            if child not in taken
        }
        best = max(
            onward, key=lambda child: (_reads_spine(tree, [child]), lengths[child], tree.counts[child])
        )
        rivals = [length for child, length in lengths.items() if child != best]
        if (
            here not in (hips, attach)
            and not _reads_spine(tree, [best])
            and max(rivals, default=0.0) > FAN * lengths[best]
        ):
            break
        path.append(best)
    return path, attach is None or path[-1] != attach


def _reads_spine(tree: Tree, joints: Sequence[int]) -> bool:
    return any(tree.readings[joint].weight(Role.SPINE, Role.CHEST, Role.NECK) > 0.0 for joint in joints)


def _label(tree: Tree, trunk: Trunk, attach: int | None, end: bool) -> None:
    """Spine, chest, neck and head along the path."""
    path, readings = trunk.path, tree.readings
    necks = [row for row, joint in enumerate(path) if readings[joint].weight(Role.NECK) >= SURE]
    chests = [row for row, joint in enumerate(path) if readings[joint].weight(Role.CHEST) >= SURE]
    last = len(path) - 1
    head = last
    if not end or last == 0 or (readings[path[last]].weight(Role.NECK) >= SURE):
        head = last + 1
    elif readings[path[last]].weight(Role.CHEST, Role.SPINE) >= SURE and attach is None and not necks:
        head = last + 1 if chests else last
    if attach in path:
        chest = path.index(attach)
    elif necks:
        chest = necks[0] - 1
    elif chests:
        chest = chests[-1]
    else:
        chest = max(head - 1, 0) if head <= last else last
    for row, joint in enumerate(path[1:], start=1):
        reading = readings[joint]
        if row == head:
            trunk.roles[joint] = (Role.HEAD, True, "the end of the trunk")
        elif reading.weight(Role.NECK) >= SURE:
            trunk.roles[joint] = (Role.NECK, True, "named neck")
        elif reading.weight(Role.CHEST) >= SURE:
            trunk.roles[joint] = (Role.CHEST, True, "named chest")
        elif row < chest:
            trunk.roles[joint] = (Role.SPINE, True, "between hips and chest")
        elif row == chest:
            trunk.roles[joint] = (Role.CHEST, True, "arms, wings, front legs or the neck hang on it")
        elif necks and row < necks[0]:
            trunk.roles[joint] = (Role.CHEST, True, "between the arms and the neck")
        else:
            trunk.roles[joint] = (Role.NECK, True, "between the chest and the head")


def _pelvis(tree: Tree, trunk: Trunk, legs: Sequence[Found]) -> None:
    """What lies between hips and legs."""
    for limb in legs:
        for joint in tree.path(trunk.path[0], int(tree.parents[limb.root]))[1:]:
            if joint not in trunk.roles:
                trunk.roles[joint] = (Role.PELVIS, True, "between the hips and the legs")


def _tails(tree: Tree, trunk: Trunk, free: Sequence[int]) -> None:
    """Named tails anywhere, other central chains at the hips."""
    given = set(trunk.roles)
    hips = trunk.path[0]
    starts = [
        joint
        for joint in free
        if tree.readings[joint].weight(Role.TAIL) > 0.0
        and not any(tree.readings[above].weight(Role.TAIL) > 0.0 for above in tree.ancestors(joint)[1:])
    ]
    if not starts:
        plane = _middle(tree, trunk)
        whole = float(np.linalg.norm(np.diff(tree.places[trunk.path], axis=0), axis=1).sum())
        members = set(free)
        for joint in (hips, *(j for j, row in trunk.roles.items() if row[0] is Role.PELVIS)):
            for child in tree.children[joint]:
                chain = tree.main_path(child)
                apart = max(abs(float((tree.places[member] - plane[0]) @ plane[1])) for member in chain)
                if (
                    child in members
                    and child not in given
                    and (len(chain) > 1)
                    and tree.reach[child] + np.linalg.norm(tree.places[child] - tree.places[joint])
                    >= TAIL * whole
                    and apart <= 2.0 * ON_PLANE * tree.size
                ):
                    starts.append(child)
    for start in starts:
        for joint in tree.path(hips, int(tree.parents[start])):
            if int(tree.parents[joint]) in trunk.roles and joint not in trunk.roles and joint in set(free):
                trunk.roles[joint] = (Role.PELVIS, True, "between the hips and the tail")
        chain = [joint for joint in tree.main_path(start) if joint in set(free)]
        fins = [row for row, joint in enumerate(chain) if tree.readings[joint].weight(Role.FIN) > 0.0]
        chain = chain[: fins[0]] if fins else chain
        # A control rig's hips may be a chain from the waist down, with the tail at its end.
        while chain and tree.readings[chain[0]].layer == "FK" and tree.readings[chain[-1]].layer != "FK":
            trunk.roles.setdefault(chain.pop(0), (Role.PELVIS, True, "between the hips and the tail"))
        for joint in chain:
            trunk.roles.setdefault(joint, (Role.TAIL, True, "a central chain behind the hips"))
        tail = [joint for joint in chain if trunk.roles[joint][0] is Role.TAIL]
        if tail:
            trunk.tails.append(tail)


def _middle(tree: Tree, trunk: Trunk) -> tuple[np.ndarray, np.ndarray]:
    """A point and the normal of the plane of the trunk; a null normal where it is a line."""
    places = tree.places[trunk.path]
    centred = places - places.mean(0)
    if len(places) < 3:
        return places.mean(0), np.zeros(3)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    if values[1] <= IN_LINE * values[2]:
        return places.mean(0), np.zeros(3)
    return places.mean(0), vectors[:, 0]


def _is_lying(
    tree: Tree, trunk: Trunk, legs: Sequence[Found], upper: Sequence[Found], attach: int | None
) -> bool:
    """Whether the trunk, up to where the arms hang, lies across the legs; a fish's lies."""
    end = attach if attach is not None else trunk.path[-1]
    along = tree.places[end] - tree.places[trunk.path[0]]
    down = np.zeros(3)
    for limb in legs:
        first = limb.chain.first(Slot.UPPER)
        down += tip_of(tree, limb) - tree.places[limb.root if first is None else first]
    if not legs:
        return not any(limb.kind is LimbKind.ARM for limb in upper)
    lengths = float(np.linalg.norm(along)), float(np.linalg.norm(down))
    if min(lengths) <= TINY:
        return False
    return float(-(along @ down)) < LEVEL * lengths[0] * lengths[1]


def _snake(tree: Tree, trunk: Trunk, free: Sequence[int]) -> None:
    """A single chain: one end the head, the other the tail.

    The head is the end at which small parts branch off. Where none do, it is a guess.
    """
    ahead: list[int] = []
    behind: list[int] = []
    for root in tree.children[-1]:
        ahead = max(ahead, tree.main_path(root), key=len)
    for joint in ahead[:3]:  # a root in the middle of the body has a second chain behind it
        others = [tree.main_path(child) for child in tree.children[joint] if child not in ahead]
        behind = max([behind, *others], key=len)
    if len(behind) < 3:
        behind = []
    chain = behind[::-1] + ahead
    if len(chain) < SNAKE or len(chain) < WHOLE * len(free):
        return
    members = set(chain)
    parts = [
        sum(child not in members for joint in end for child in tree.children[joint])
        for end in (chain[:3], chain[-3:])
    ]
    if parts[0] > parts[1]:
        chain.reverse()
    certain = parts[0] != parts[1]
    if not certain:
        trunk.notes.append(
            "a single chain: its last bone is taken for the head, its first for the tail; exchange them if "
            "it is the other way round"
        )
    reason = "the end with small parts" if certain else "one end of a single chain; which is which is a guess"
    trunk.snake = trunk.lying = True
    trunk.path = chain
    for joint in chain[1:-1]:
        trunk.roles[joint] = (Role.SPINE, True, "part of a single chain")
    trunk.roles[chain[-1]] = (Role.HEAD, certain, reason)
    trunk.roles[chain[0]] = (Role.TAIL, certain, "the other end of the chain" if certain else reason)
    trunk.heads, trunk.tails = [chain[-1]], [[chain[0]]]

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

from ...messages import Message
from .character import PARTS, LimbKind, Role, Side
from .limbs import Found
from .names import LIKELY, SURE
from .structure import ON_PLANE, TINY, Mirror, Tree, norm, unit

SNAKE, WHOLE = 5, 0.6
"""Number of joints from which on a single chain is taken for a snake's, and their share of all [1]."""

NEAR, BELOW = 0.2, 0.4
"""How far a joint above the legs may be to be taken for the hips, in sizes of the figure [1], as roots lie on
the ground, far from them; and how far it may be below them in lengths of the legs [1]."""

TAIL: Final = 0.25
"""Length in that from the hips to the head [1] from which on an unnamed chain at the hips is a tail."""

LEVEL: Final = 0.75
"""Cosine [1] between trunk and legs below which the trunk lies rather than stands."""

FAN: Final = 0.4
"""Length of a branch in that of the longest [1] from which on a chain has ended in a fan: the parts of a
face."""

NO_HEAD: Final = Message("no head was found")
"""Remark on a trunk at whose end nothing is a head."""

_SPINE: Final = (Role.SPINE, Role.CHEST, Role.NECK)
_NO_SPINE: Final = (Role.HEAD_PART, Role.JAW, Role.EYE, Role.TAIL)

_REASONS: Final[dict[Role, str]] = {
    Role.HIPS: Message("bears the legs and the trunk"),
    Role.SPINE: Message("between hips and chest"),
    Role.CHEST: Message("arms, wings, front legs or the neck hang on it"),
    Role.NECK: Message("between the chest and the head"),
    Role.HEAD: Message("the end of the trunk"),
    Role.PELVIS: Message("between the hips and the legs or the tail"),
    Role.TAIL: Message("a central chain behind the hips"),
}


@dataclass
class Trunk:
    """The middle of a figure."""

    path: list[int] = field(default_factory=list[int])
    """Joints from the hips to the head, or as far as there are any."""
    roles: dict[int, Role] = field(default_factory=dict[int, Role])
    reasons: dict[Role, str] = field(default_factory=_REASONS.copy)
    guessed: set[int] = field(default_factory=set[int])
    """Joints for whose roles there is little reason."""
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
        for kind in (LimbKind.TRUNK, LimbKind.HEAD):
            yield kind, [joint for joint in self.path if self.roles[joint] in PARTS[kind]]
        for tail in self.tails:
            yield LimbKind.TAIL, tail


def find_trunk(
    tree: Tree, limbs: Sequence[Found], without: set[int], sides: Sequence[Side], mirror: Mirror | None
) -> Trunk:
    """The middle of a figure between its limbs; joints of `without`, copies of limbs, are no part of it."""
    taken = without.union(*(tree.branch(limb.root) for limb in limbs))
    free = [joint for joint in tree.kept if joint not in taken]
    head = _named_head(tree, free)
    legs = [limb for limb in limbs if limb.kind is LimbKind.LEG and limb.front is not True]
    upper = [limb for limb in limbs if limb not in legs]
    trunk = Trunk()
    hips = _hips(tree, legs, upper, head)
    if hips is None and not limbs and head is None:
        return _snake(tree, free)
    if hips is None:  # the highest joint that is not named root
        start = head if head is not None else limbs[0].root
        hips = [start, *(joint for joint in tree.ancestors(start) if not tree.readings[joint].root)][-1]
        trunk.reasons[Role.HIPS] = Message("the first joint of the trunk")
    below = [hub for limb in upper if tree.path(hips, hub := tree.parents[limb.root])]
    attach = max(below, key=lambda hub: len(tree.ancestors(hub)), default=None)
    path = [] if head is None else tree.path(hips, head)
    ended = bool(path)
    if not path:
        path = tree.path(hips, hips if attach is None else attach)
        _go_on(tree, path, (hips, attach), taken, {tree.parents[limb.root] for limb in legs}, sides)
        ended = attach is None or path[-1] != attach
    trunk.path, trunk.roles[hips] = path, Role.HIPS
    trunk.guessed = set() if legs or upper else {hips}
    _label(tree, trunk, attach, ended)
    trunk.heads = [joint for joint in path if trunk.roles[joint] is Role.HEAD]
    if head is not None and head not in path:
        trunk.notes.append(Message("the head does not hang on the hips: it is taken as it is named"))
        trunk.roles[head] = Role.HEAD
        trunk.heads.append(head)
    if not trunk.heads:
        trunk.notes.append(NO_HEAD)
    for limb in legs:
        for joint in tree.path(hips, tree.parents[limb.root])[1:]:
            trunk.roles.setdefault(joint, Role.PELVIS)
    _tails(tree, trunk, free, mirror)
    trunk.lying = _is_lying(tree, trunk, legs, upper, attach)
    return trunk


def _named_head(tree: Tree, free: Sequence[int]) -> int | None:
    """The joint that is named head and bears most, if there is one."""
    heads = [
        joint
        for joint in free
        if tree.weight(joint, Role.HEAD) >= SURE and tree.readings[joint].side not in (Side.LEFT, Side.RIGHT)
    ]
    return max(heads, key=lambda joint: (tree.counts[joint], -len(tree.ancestors(joint))), default=None)


def _hips(tree: Tree, legs: Sequence[Found], upper: Sequence[Found], head: int | None) -> int | None:
    """The hips: by their name, else what bears the legs and the trunk."""
    bears = [parent for limb in (*legs, *upper) if (parent := tree.parents[limb.root]) >= 0]
    bears += [] if head is None else [head]
    named = [j for j in tree.kept if tree.weight(j, Role.HIPS) >= LIKELY and tree.counts[j] > 1]
    if named and (not legs or len(bears) < 2):
        return max(named, key=lambda j: (tree.counts[j], tree.weight(j, Role.HIPS)))
    shared = set(tree.kept).intersection(*map(tree.ancestors, bears))
    above = [joint for joint in tree.ancestors(bears[0]) if joint in shared] if bears and legs else []
    for joint in above or named:
        if joint in named:
            return joint
    if not above:
        return None
    hips = above[0]
    down = np.mean([limb.tip(tree) - tree.places[limb.root] for limb in legs], axis=0)
    for joint in above[1:]:
        away = tree.places[joint] - tree.places[above[0]]
        far = norm(away) > NEAR * tree.size or float(away @ down) > BELOW * max(float(down @ down), TINY)
        if tree.readings[joint].root or far:
            break
        hips = joint
    return hips


def _go_on(
    tree: Tree,
    path: list[int],
    forks: tuple[int, int | None],
    taken: set[int],
    leg_hubs: set[int],
    sides: Sequence[Side],
) -> None:
    """Lead a path on towards the head, along the spine by name or the longest chain in the middle.

    Only at `forks` does it go on where others are about as long: elsewhere these are the parts of a face.
    """
    while True:
        free = [child for child in tree.children[path[-1]] if child not in taken]
        onward = [
            child
            for child in free
            if tree.weight(child, *_NO_SPINE) <= 0.0
            and sides[child] is Side.CENTRE
            and leg_hubs.isdisjoint(tree.branch(child))
        ]
        if not onward:
            return
        best = max(onward, key=lambda joint: tree.lengths[joint])
        rival = max((tree.lengths[child] for child in free if child != best), default=0.0)
        fanned = tree.weight(best, *_SPINE) <= 0.0 and rival > FAN * tree.lengths[best]
        if fanned and path[-1] not in forks:
            return
        path.append(best)


def _label(tree: Tree, trunk: Trunk, attach: int | None, ended: bool) -> None:
    """Spine, chest, neck and head along the path; `ended`: its last joint may be the head."""
    path, last = trunk.path, len(trunk.path) - 1
    necks = [row for row, joint in enumerate(path) if tree.weight(joint, Role.NECK) >= SURE]
    chests = [row for row, joint in enumerate(path) if tree.weight(joint, Role.CHEST) >= SURE]
    head = last if ended and last > 0 and last not in necks else last + 1
    if attach in path:
        chest = path.index(attach)
    elif necks or chests:
        chest = necks[0] - 1 if necks else chests[-1]
    else:
        chest = head - 1
    for row, joint in enumerate(path[1:], start=1):
        if row == head:
            trunk.roles[joint] = Role.HEAD
        elif row in necks:
            trunk.roles[joint] = Role.NECK
        elif row in chests or row == chest or (necks and chest < row < necks[0]):
            trunk.roles[joint] = Role.CHEST
        else:
            trunk.roles[joint] = Role.SPINE if row < chest else Role.NECK


def _tails(tree: Tree, trunk: Trunk, free: Sequence[int], mirror: Mirror | None) -> None:
    """Named tails anywhere, other central chains at the hips."""
    hips, members = trunk.path[0], set(free)
    named = {joint for joint in free if tree.weight(joint, Role.TAIL) > 0.0}
    starts = [joint for joint in free if joint in named and named.isdisjoint(tree.ancestors(joint)[1:])]
    if not named:
        whole = sum(norm(tree.step(joint)) for joint in trunk.path[1:])
        for joint in (hips, *(j for j, role in trunk.roles.items() if role is Role.PELVIS)):
            for child in tree.children[joint]:
                chain = tree.main_path(child)
                apart = 0.0 if mirror is None else float(np.abs(mirror.distances(tree.places[chain])).max())
                long = len(chain) > 1 and tree.lengths[child] >= TAIL * whole
                if (
                    long
                    and apart <= 2.0 * ON_PLANE * tree.size
                    and child in members
                    and child not in trunk.roles
                ):
                    starts.append(child)
    for start in starts:
        for joint in tree.path(hips, tree.parents[start]):
            if tree.parents[joint] in trunk.roles and joint in members:
                trunk.roles.setdefault(joint, Role.PELVIS)
        chain = [joint for joint in tree.main_path(start) if joint in members]
        fins = [row for row, joint in enumerate(chain) if tree.weight(joint, Role.FIN) > 0.0]
        chain = chain[: fins[0]] if fins else chain
        # A control rig's hips may be a chain from the waist down, with the tail at its end.
        while chain and tree.readings[chain[0]].layer == "FK" and tree.readings[chain[-1]].layer != "FK":
            trunk.roles.setdefault(chain.pop(0), Role.PELVIS)
        for joint in chain:
            trunk.roles.setdefault(joint, Role.TAIL)
        if tail := [joint for joint in chain if trunk.roles[joint] is Role.TAIL]:
            trunk.tails.append(tail)


def _is_lying(
    tree: Tree, trunk: Trunk, legs: Sequence[Found], upper: Sequence[Found], attach: int | None
) -> bool:
    """Whether the trunk, up to where the arms hang, lies across the legs; a fish's lies."""
    if not legs:
        return not any(limb.kind is LimbKind.ARM for limb in upper)
    along = tree.places[trunk.path[-1] if attach is None else attach] - tree.places[trunk.path[0]]
    down = np.sum([limb.span(tree) for limb in legs], axis=0)
    return min(norm(along), norm(down)) > TINY and float(-(unit(along) @ unit(down))) < LEVEL


def _snake(tree: Tree, free: Sequence[int]) -> Trunk:
    """A single chain: one end the head, the other the tail; an empty trunk where there is none.

    The head is the end at which small parts branch off. Where none do, it is a guess.
    """
    ahead = max((tree.main_path(root) for root in tree.children[-1]), key=len)
    behind: list[int] = []
    for joint in ahead[:3]:  # a root in the middle of the body has a second chain behind it
        others = [tree.main_path(child) for child in tree.children[joint] if child not in ahead]
        behind = max([behind, *others], key=len)
    chain = behind[::-1] + ahead if len(behind) >= 3 else ahead
    if len(chain) < max(SNAKE, WHOLE * len(free)):
        return Trunk()
    first, last = (
        sum(child not in chain for joint in end for child in tree.children[joint])
        for end in (chain[:3], chain[-3:])
    )
    if first > last:
        chain.reverse()
    trunk = Trunk(chain, dict.fromkeys(chain, Role.SPINE), lying=True, snake=True)
    trunk.roles |= {chain[-1]: Role.HEAD, chain[0]: Role.TAIL}
    trunk.heads, trunk.tails = [chain[-1]], [[chain[0]]]
    head, tail = Message("the end with small parts"), Message("the other end of the chain")
    if first == last:
        trunk.guessed = {chain[0], chain[-1]}
        trunk.notes.append(
            Message(
                "a single chain: its last bone is taken for the head, its first for the tail; exchange them "
                "if it is the other way round"
            )
        )
        head = tail = Message("one end of a single chain; which is which is a guess")
    trunk.reasons = {Role.SPINE: Message("part of a single chain"), Role.HEAD: head, Role.TAIL: tail}
    return trunk

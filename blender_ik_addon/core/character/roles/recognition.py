# SPDX-License-Identifier: GPL-3.0-or-later
"""From a skeleton to a character: roles, limbs, what was left out and why.

In this order: names are read and what is no joint is left out (`joint_filter`); the plane of symmetry
is found (`structure`); limbs come from names, where these are silent from shape (`limbs`); legs say where up
is, the plane and up where forward is; then what lies between the limbs: hips, spine, chest, neck, head,
tails (`trunk`); at last digits, and the bends of elbows and knees (`chains`). Names win where they are
clear. Where a name cannot be true (a hand that hangs on no arm, hips that bear no legs) it is overruled, and
the reason says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from ...arrays import FloatArray
from ...model.skeleton import Skeleton
from .chains import NO_BEND, ROLES_OF_KIND, BendReading, Slot
from .character import (
    NO_HINTS,
    Bend,
    Body,
    Character,
    Choice,
    Figure,
    Hints,
    LeftOut,
    Limb,
    LimbKind,
    Role,
    Side,
)
from .frame import bend_of, effector_of, find_forward, find_up, settled_kinds, sides_of
from .joint_filter import Kept, figures_of, keep
from .limbs import (
    Found,
    limbs_by_shape,
    limbs_left,
    named_limbs,
    relabelled,
    swapped,
    tip_of,
    without_duplicates,
)
from .names import SURE
from .structure import Mirror, Tree, find_mirror, name_pairs
from .trunk import Trunk, find_trunk

BY_PLACE, BY_SHAPE, GUESS = 0.75, 0.65, 0.4
"""Confidence in a role that its neighbours' names give, that shape gives, that there is little reason for
[1]."""

_WORD: Final = {Side.LEFT: "left", Side.RIGHT: "right", Side.CENTRE: "centre"}

_DIGIT: Final = {LimbKind.ARM: LimbKind.FINGER, LimbKind.LEG: LimbKind.TOE, LimbKind.FRONT_LEG: LimbKind.TOE}


@dataclass
class _Draft:
    """A figure while it is recognised."""

    tree: Tree
    number: int
    names: tuple[str, ...]
    roles: dict[int, tuple[Role, Side, float, str]] = field(
        default_factory=dict[int, tuple[Role, Side, float, str]]
    )
    left_out: dict[int, str] = field(default_factory=dict[int, str])
    limbs: list[Limb] = field(default_factory=list[Limb])
    notes: list[str] = field(default_factory=list[str])

    def give(self, joint: int, role: Role, side: Side, confidence: float, reason: str) -> None:
        """A role, unless the joint has one."""
        self.roles.setdefault(joint, (role, side, confidence, reason))


def recognise(skeleton: Skeleton, hints: Hints = NO_HINTS) -> Character:
    """Recognise a character: a role for each joint that has one.

    Args:
        skeleton: Names, parents and rest matrices; nothing else of it is looked at.
        hints: What else is known.

    Raises:
        IKError: The hints are about another skeleton.
    """
    hints.check(skeleton)
    kept = keep(skeleton, hints)
    trees, outside = figures_of(kept)
    left_out = kept.left_out | outside
    notes: list[str] = []
    if not trees and len(skeleton) > 1:
        notes.append("no bone has a parent that could be posed: parent the bones to each other first")
    drafts: list[_Draft] = []
    figures: list[Figure] = []
    for tree in trees:
        draft = _Draft(tree, len(drafts), skeleton.names)
        figures.append(_recognise_figure(draft))
        drafts.append(draft)
        left_out |= draft.left_out
    if len(figures) > 1:
        tops = ", ".join(repr(skeleton.names[draft.tree.kept[0]]) for draft in drafts)
        notes.append(f"{len(figures)} figures in one armature, below {tops}: each has roles of its own")
    if kept.control_rig and drafts:
        notes.append("a control rig: roles are given to the controls that are posed directly (FK)")
    notes += [note for draft in drafts for note in draft.notes]
    roles = {joint: (draft.number, *row) for draft in drafts for joint, row in draft.roles.items()}
    choices = tuple(
        Choice(joint, skeleton.names[joint], role, side, figure, confidence, reason)
        for joint, (figure, role, side, confidence, reason) in sorted(roles.items())
    )
    limbs = tuple(limb for draft in drafts for limb in draft.limbs)
    notes += _driven_note(skeleton, hints, limbs)
    movers = {above for joint, row in roles.items() if row[1] is Role.HIPS for above in kept.above(joint)}
    rest = [joint for joint in range(len(skeleton)) if joint not in roles]
    return Character(
        choices=choices,
        limbs=limbs,
        left_out=tuple(
            LeftOut(joint, skeleton.names[joint], left_out.get(joint) or _why_not(kept, joint, roles, movers))
            for joint in rest
        ),
        figures=tuple(figures),
        notes=tuple(dict.fromkeys(notes)),
    )


def _why_not(
    kept: Kept, joint: int, roles: Mapping[int, tuple[int, Role, Side, float, str]], movers: set[int]
) -> str:
    """Why a joint that was kept has no role; `movers` are the joints above hips."""
    reading = kept.readings[joint]
    if joint in movers:
        return "above the hips: moves the whole figure"
    beside = roles.get(int(kept.parents[joint]))
    if beside is not None and beside[1] in reading.roles:
        return f"hangs beside the {beside[1]} of that name: helper or corrective bone"
    if reading.root:
        return "root: moves the whole figure"
    if reading.best is not None:
        return f"named {reading.best}, but its place in the skeleton is not that of one"
    return "no role: its name says none and its shape is that of no part of a body"


def _driven_note(skeleton: Skeleton, hints: Hints, limbs: Sequence[Limb]) -> list[str]:
    """Joints of limbs that constraints decide cannot be posed."""
    driven = [
        skeleton.names[joint]
        for limb in limbs
        for joint in limb.joints
        if skeleton.names[joint] in hints.driven
    ]
    if not driven:
        return []
    shown = ", ".join(repr(name) for name in driven[:6]) + (", ..." if len(driven) > 6 else "")
    return [
        f"{len(driven)} bones with a role are decided by constraints or drivers and will not move: {shown}"
    ]


# One figure


def _recognise_figure(draft: _Draft) -> Figure:
    tree = draft.tree
    mirror = find_mirror(tree, name_pairs(tree.readings, tree.kept))
    sides = sides_of(tree, mirror)
    limbs, refused = named_limbs(tree, sides)
    limbs, copies = without_duplicates(tree, limbs)
    draft.left_out |= refused | copies
    for reason in dict.fromkeys(copies.values()):
        names = ", ".join(repr(draft.names[joint]) for joint, why in copies.items() if why == reason)
        draft.notes.append(f"{reason}, left out: {names}")
    up: FloatArray | None = None
    if not limbs and mirror is not None:
        shape = limbs_by_shape(tree, mirror)
        limbs, up = shape.limbs, shape.up
    trunk = find_trunk(tree, limbs, set(copies), sides)
    if up is None:
        up = find_up(tree, limbs, trunk, mirror)
    if mirror is not None and any(not limb.by_shape for limb in limbs):
        taken = {joint for limb in limbs for joint in tree.branch(limb.root)} | set(copies)
        taken |= {joint for head in trunk.heads for joint in tree.branch(head)}
        taken |= {j for j in tree.kept if tree.readings[j].weight(Role.HEAD_PART, Role.TAIL, Role.EYE) > 0.0}
        more = limbs_left(tree, mirror, limbs, up, taken)
        if more:
            limbs = limbs + more
            trunk = find_trunk(tree, limbs, set(copies), sides)
    forward, sure, agreed = find_forward(tree, limbs, trunk, mirror, up)
    if not agreed:
        draft.notes.append(
            "left and right by name are exchanged against the way the feet or the head face: names were "
            "believed"
        )
    left = np.cross(up, forward)
    if mirror is not None and not mirror.named and float(mirror.normal @ left) < 0.0:
        limbs = swapped(limbs)
        mirror = replace(mirror, normal=-mirror.normal)
        sides = sides_of(tree, mirror)
    limbs = settled_kinds(tree, limbs, trunk, up, forward)
    if mirror is not None and _body(limbs, trunk) is not Body.MANY_LEGGED:
        limbs = relabelled(tree, mirror, limbs, forward)
    body = _body(limbs, trunk)
    if not sure and body is not Body.UNKNOWN and any(limb.by_shape for limb in limbs):
        draft.notes.append("which way the figure faces is a guess: left and right may be exchanged")
    _give_trunk(draft, trunk)
    _give_limbs(draft, limbs, trunk, (up, forward), mirror, body)
    _give_parts(draft, trunk, sides)
    _check_sides(draft, limbs)
    if body is Body.UNKNOWN and len(tree.kept) > 1:
        draft.notes.append(
            f"nothing recognised for certain in the {len(tree.kept)} bones below "
            f"{draft.names[tree.kept[0]]!r}: choose the bones by hand"
        )
    return Figure(body, up, forward, left, tree.size)


def _body(limbs: Sequence[Found], trunk: Trunk) -> Body:
    counts = {kind: sum(limb.kind is kind for limb in limbs) for kind in LimbKind}
    legs = counts[LimbKind.LEG] + counts[LimbKind.FRONT_LEG]
    if legs > 4:
        return Body.MANY_LEGGED
    if counts[LimbKind.FRONT_LEG]:
        return Body.QUADRUPED
    if counts[LimbKind.WING] and legs:
        return Body.BIRD
    if legs or counts[LimbKind.ARM]:
        return Body.BIPED
    if counts[LimbKind.FIN]:
        return Body.FISH
    return Body.SNAKE if trunk.snake else Body.UNKNOWN


# Roles


def _confidence(weight: float) -> float:
    """Confidence in a role that a name gave with a weight."""
    return float(np.clip(0.4 + 0.2 * weight, 0.5, 1.0))


def _give_trunk(draft: _Draft, trunk: Trunk) -> None:
    tree = draft.tree
    for joint, (role, certain, reason) in trunk.roles.items():
        weight = tree.readings[joint].weight(role)
        if weight >= 1.0:
            draft.give(joint, role, Side.CENTRE, _confidence(weight), f"named {role}")
        else:
            draft.give(joint, role, Side.CENTRE, BY_PLACE if certain else GUESS, reason)
    draft.notes += trunk.notes
    for kind, joints in trunk.chains():
        if joints:
            roles = tuple(trunk.roles[joint][0] for joint in joints)
            effector = joints[0] if kind is LimbKind.TRUNK else joints[-1]
            _add_limb(draft, kind, Side.CENTRE, joints, roles, effector, NO_BEND)


def _add_limb(
    draft: _Draft,
    kind: LimbKind,
    side: Side,
    joints: Sequence[int],
    roles: Sequence[Role],
    effector: int,
    bend: BendReading,
    number: int = 0,
) -> None:
    draft.limbs.append(
        Limb(
            kind=kind,
            side=side,
            figure=draft.number,
            joints=tuple(joints),
            roles=tuple(roles),
            effector=effector,
            number=number,
            bend=bend.state,
            bend_angle=bend.angle,
            bend_axis=bend.axis,
            confidence=min((draft.roles[joint][2] for joint in joints), default=0.0),
        )
    )


def _give_limbs(
    draft: _Draft,
    limbs: Sequence[Found],
    trunk: Trunk,
    frame: tuple[FloatArray, FloatArray],
    mirror: Mirror | None,
    body: Body,
) -> None:
    tree, (up, forward) = draft.tree, frame
    ordered = sorted(
        limbs, key=lambda limb: (list(LimbKind).index(limb.kind), limb.side, _back(tree, limb, forward))
    )
    share = 1.0 if mirror is None else mirror.share
    numbers: dict[tuple[LimbKind, Side], int] = {}
    said: dict[tuple[LimbKind, str], list[str]] = {}
    for limb in ordered:
        for joint, role, weight in zip(limb.chain.joints, limb.roles, limb.chain.named, strict=True):
            if limb.by_shape:
                draft.give(
                    joint, role, limb.side, BY_SHAPE * share, f"by shape: {limb.kind} with a mirror image"
                )
            elif weight > 0.0:
                clear = len(tree.readings[joint].roles) == 1
                reason = (
                    f"named {role}" if clear else f"its name allows {role}, its place in the chain decides"
                )
                draft.give(joint, role, limb.side, _confidence(weight), reason)
            else:
                read = tree.readings[joint].best
                reason = f"between the named joints of the {limb.kind}"
                if read is not None:
                    reason = f"named {read}, but its place in the {limb.kind} is that of the {role}"
                draft.give(joint, role, limb.side, BY_PLACE, reason)
        key = (limb.kind, limb.side)
        number = numbers.get(key, 0)
        numbers[key] = number + 1
        bend = bend_of(tree, limb, up, forward, body)
        effector = effector_of(tree, limb, animal=trunk.lying)
        _add_limb(draft, limb.kind, limb.side, limb.chain.joints, limb.roles, effector, bend, number)
        if bend.state in (Bend.STRAIGHT, Bend.INVERTED):
            what = f"{bend.state} at rest"
            if bend.state is Bend.STRAIGHT:
                known = bend.axis is not None
                what += ", taken to bend the usual way" if known else ", and nothing tells which way it bends"
            said.setdefault((limb.kind, what), []).append(f"{_WORD[limb.side]} {np.degrees(bend.angle):.1f}°")
        if limb.kind in ROLES_OF_KIND and limb.chain.first(Slot.END) is None:
            end = ROLES_OF_KIND[limb.kind][Slot.END]
            what = f"without a {end}, the last bone takes the target"
            said.setdefault((limb.kind, what), []).append(_WORD[limb.side])
        _give_digits(draft, limb)
    for (kind, what), which in said.items():
        shown = ", ".join(which[:4]) + (f" and {len(which) - 4} more" if len(which) > 4 else "")
        draft.notes.append(f"{kind}: {what} ({shown})")


def _back(tree: Tree, limb: Found, forward: FloatArray) -> float:
    """How far back a limb is, to order limbs from front to back."""
    return -float((tree.places[limb.root] + 0.5 * tip_of(tree, limb)) @ forward)


def _give_digits(draft: _Draft, limb: Found) -> None:
    """Fingers and toes: what hangs on hand or foot."""
    if limb.kind not in _DIGIT:
        return
    tree, kind = draft.tree, _DIGIT[limb.kind]
    role = Role.FINGER if kind is LimbKind.FINGER else Role.TOE
    chain = set(limb.chain.joints)
    ends = [j for j, slot in zip(limb.chain.joints, limb.chain.slots, strict=True) if slot is Slot.END]
    starts = [child for joint in ends for child in tree.children[joint] if child not in chain]
    for start in starts:
        branch = tree.branch(start)
        digit = any(tree.readings[j].weight(Role.FINGER, Role.TOE) > 0.0 for j in branch)
        if not (digit or limb.by_shape):
            continue
        for joint in branch:
            named = tree.readings[joint].weight(Role.FINGER, Role.TOE)
            if named >= 1.0:
                draft.give(joint, role, limb.side, _confidence(named), f"{role} by name and place")
            else:
                draft.give(
                    joint,
                    role,
                    limb.side,
                    BY_SHAPE if limb.by_shape else BY_PLACE,
                    f"hangs on the {limb.kind}",
                )
        for path in _digit_chains(tree, start):
            number = sum(other.kind is kind and other.side is limb.side for other in draft.limbs)
            _add_limb(draft, kind, limb.side, path, [role] * len(path), path[-1], NO_BEND, number)


def _digit_chains(tree: Tree, start: int) -> list[list[int]]:
    """The chains of a branch of digits, each from where it parts from the others."""
    chains: list[list[int]] = []
    stack = [start]
    while stack:
        path = [stack.pop()]
        while len(tree.children[path[-1]]) == 1:
            path.append(tree.children[path[-1]][0])
        chains.append(path)
        stack += tree.children[path[-1]]
    return chains


def _give_parts(draft: _Draft, trunk: Trunk, sides: Sequence[Side]) -> None:
    """Jaw, eyes and other parts of the head."""
    tree = draft.tree
    for joint in tree.kept:
        if joint not in draft.roles and tree.readings[joint].weight(Role.FIN) > 0.0:
            parent = int(tree.parents[joint])
            path = tree.main_path(joint) if tree.readings[max(parent, 0)].weight(Role.FIN) <= 0.0 else []
            for member in tree.branch(joint):
                draft.give(member, Role.FIN, sides[member], 1.0, "named fin")
            if path:
                number = sum(limb.kind is LimbKind.FIN and limb.side is sides[joint] for limb in draft.limbs)
                roles = [Role.FIN] * len(path)
                _add_limb(draft, LimbKind.FIN, sides[joint], path, roles, path[-1], NO_BEND, number)
    below = {joint for head in trunk.heads for joint in tree.branch(head)}
    for joint in tree.kept:
        if joint in draft.roles or joint in draft.left_out:
            continue
        reading = tree.readings[joint]
        side = sides[joint]
        for role in (Role.EYE, Role.JAW, Role.HEAD_PART):
            if reading.weight(role) >= SURE * 0.5:
                draft.give(joint, role, side, 1.0, f"named {role}")
        if joint in below and joint not in draft.roles:
            draft.give(joint, Role.HEAD_PART, side, 0.5, "hangs on the head")


def _check_sides(draft: _Draft, limbs: Sequence[Found]) -> None:
    """Say which limbs have no counterpart."""
    for kind in dict.fromkeys(limb.kind for limb in limbs):
        left = sum(limb.kind is kind and limb.side is Side.LEFT for limb in limbs)
        right = sum(limb.kind is kind and limb.side is Side.RIGHT for limb in limbs)
        if left != right:
            there, missing = ("left", "right") if left > right else ("right", "left")
            draft.notes.append(f"{there} {kind} without a {missing} one ({left} left, {right} right)")

# SPDX-License-Identifier: GPL-3.0-or-later
"""From a skeleton to a character: roles, limbs, what was left out and why.

In this order: names are read and what is no joint is left out, and the plane of symmetry is found
(`structure`); limbs come from names (`limbs`), where these are silent from shape (`shapes`); what lies
between them is hips, spine, chest, neck, head, tails (`trunk`); at last digits, and the bends of elbows and
knees. Names win where they are clear. Where a name cannot be true (a hand that hangs on no arm, hips that
bear no legs) it is overruled, and the reason says so.

Up is against the legs, without legs from hips to head, otherwise the armature's z axis, always in the mirror
plane. Forward lies in that plane across up. Names of sides give it, since left × up = forward; without them
feet and head do, then knees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from ...arrays import FloatArray
from ...errors import check_type
from ...messages import Joined, Message, in_a_row
from ...model.skeleton import Skeleton
from .character import (
    ENDS,
    NO_HINTS,
    PARTS,
    Bend,
    Body,
    Chain,
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
from .limbs import BendReading, Found, bend_of, corners, effector_of, named_limbs, without_duplicates
from .names import SURE
from .shapes import GROUNDED, divided, limbs_by_shape, limbs_left, mirrored_limbs
from .structure import ON_PLANE, TINY, Mirror, Tree, figures_of, find_mirror, is_control_rig, keep, norm, unit
from .trunk import Trunk, find_trunk

BY_PLACE, BY_SHAPE, GUESS = 0.75, 0.65, 0.4
"""Confidence in a role that its neighbours' names give, that shape gives, that there is little reason for
[1]."""

UPRIGHT: Final = 0.94
"""Cosine [1] between what the legs say of up and an axis of the armature above which it is that axis: feet
are not straight below hips, and armatures are nearly always made upright."""

_WORD: Final = {Side.LEFT: Message("left"), Side.RIGHT: Message("right"), Side.CENTRE: Message("centre")}

_DIGITS: Final = {
    LimbKind.ARM: (LimbKind.FINGER, Role.FINGER),
    LimbKind.LEG: (LimbKind.TOE, Role.TOE),
    LimbKind.FRONT_LEG: (LimbKind.TOE, Role.TOE),
}


@dataclass
class _Draft:
    """A figure while it is recognised."""

    tree: Tree
    number: int
    names: tuple[str, ...]
    roles: dict[int, Choice] = field(default_factory=dict[int, Choice])
    left_out: dict[int, str] = field(default_factory=dict[int, str])
    limbs: list[Limb] = field(default_factory=list[Limb])
    notes: list[str] = field(default_factory=list[str])

    def give(self, joint: int, role: Role, side: Side, reason: str, confidence: float) -> None:
        """A role, unless the joint has one."""
        choice = Choice(joint, self.names[joint], role, side, self.number, confidence, reason)
        self.roles.setdefault(joint, choice)

    def add(self, chain: Chain, effector: int, bend: BendReading = (Bend.NONE, 0.0, None)) -> None:
        """A limb, behind those of its kind and side."""
        confidence = min(self.roles[joint].confidence for joint in chain.joints)
        number = sum((limb.kind, limb.side) == (chain.kind, chain.side) for limb in self.limbs)
        parts = chain.kind, chain.side, chain.joints, chain.roles
        self.limbs.append(Limb(*parts, self.number, effector, number, confidence, *bend))


def recognise(skeleton: Skeleton, hints: Hints = NO_HINTS) -> Character:
    """Recognise a character: a role for each joint that has one.

    Args:
        skeleton: Names, parents and rest matrices; nothing else of it is looked at.

    Raises:
        IKError: These are no skeleton and hints, or the hints are about another skeleton.
    """
    check_type("a Skeleton is needed", skeleton, Skeleton)
    check_type("hints are Hints", hints, Hints)
    hints.check(skeleton)
    names = skeleton.names
    whole, left_out = keep(skeleton, hints)
    trees, outside = figures_of(whole)
    left_out |= outside
    drafts = [_Draft(tree, number, names) for number, tree in enumerate(trees)]
    figures = tuple(_recognise_figure(draft) for draft in drafts)
    notes: list[str] = []
    if not trees and len(skeleton) > 1:
        notes.append(
            Message("no bone has a parent that could be posed: parent the bones to each other first")
        )
    if len(figures) > 1:
        tops = ", ".join(repr(names[draft.tree.kept[0]]) for draft in drafts)
        notes.append(
            Message(
                "{count} figures in one armature, below {tops}: each has roles of its own",
                count=len(figures),
                tops=tops,
            )
        )
    if drafts and is_control_rig(whole.readings):
        notes.append(Message("a control rig: roles are given to the controls that are posed directly (FK)"))
    roles: dict[int, Choice] = {}
    for draft in drafts:
        notes += draft.notes
        left_out |= draft.left_out
        roles |= draft.roles
    limbs = tuple(limb for draft in drafts for limb in draft.limbs)
    driven = [names[joint] for limb in limbs for joint in limb.joints if names[joint] in hints.driven]
    if driven:
        shown = ", ".join(map(repr, driven[:6])) + ", ..." * (len(driven) > 6)
        notes.append(
            Message(
                "{count} bones with a role are decided by constraints or drivers and will not move: {shown}",
                count=len(driven),
                shown=shown,
            )
        )
    for choice in roles.values():
        for joint in whole.ancestors(choice.joint) if choice.role is Role.HIPS else ():
            left_out.setdefault(joint, Message("above the hips: moves the whole figure"))
    return Character(
        choices=tuple(roles[joint] for joint in sorted(roles)),
        limbs=limbs,
        left_out=tuple(
            LeftOut(joint, name, left_out.get(joint) or _why_not(whole, joint, roles))
            for joint, name in enumerate(names)
            if joint not in roles
        ),
        figures=figures,
        notes=tuple(dict.fromkeys(notes)),
    )


def _why_not(whole: Tree, joint: int, roles: Mapping[int, Choice]) -> str:
    """Why a joint that was kept has no role."""
    reading = whole.readings[joint]
    beside = roles.get(whole.parents[joint])
    if beside is not None and beside.role in reading.roles:
        return Message("hangs beside the {role} of that name: helper or corrective bone", role=beside.role)
    if reading.root:
        return Message("root: moves the whole figure")
    if reading.best is not None:
        return Message("named {best}, but its place in the skeleton is not that of one", best=reading.best)
    return Message("no role: its name says none and its shape is that of no part of a body")


# One figure


def _recognise_figure(draft: _Draft) -> Figure:
    tree = draft.tree
    mirror = find_mirror(tree)
    sides = _sides_of(tree, mirror)
    limbs, refused = named_limbs(tree, sides)
    limbs, copies = without_duplicates(tree, limbs)
    draft.left_out = refused | copies
    for reason in dict.fromkeys(copies.values()):
        copied = ", ".join(repr(draft.names[joint]) for joint, why in copies.items() if why == reason)
        draft.notes.append(Message("{reason}, left out: {copied}", reason=reason, copied=copied))
    up: FloatArray | None = None
    named = bool(limbs)
    if mirror is not None and named:
        limbs += mirrored_limbs(tree, mirror, limbs)
    elif mirror is not None:
        limbs, up = limbs_by_shape(tree, mirror)
    trunk = find_trunk(tree, limbs, set(copies), sides, mirror)
    up = _find_up(tree, limbs, trunk, mirror) if up is None else up
    if named and mirror is not None:
        roots = [*(limb.root for limb in limbs), *trunk.heads]
        taken = set(copies).union(*(tree.branch(joint) for joint in roots))
        if more := limbs_left(tree, mirror, limbs, up, taken):
            limbs = limbs + more
            trunk = find_trunk(tree, limbs, set(copies), sides, mirror)
    forward, sure, agreed = _find_forward(tree, limbs, trunk, mirror, up)
    if not agreed:
        draft.notes.append(
            Message(
                "left and right by name are exchanged against the way the feet or the head face: names were "
                "believed"
            )
        )
    left = np.cross(up, forward)
    if mirror is not None and not mirror.named and float(mirror.normal @ left) < 0.0:
        limbs = [replace(limb, side=limb.side.other) for limb in limbs]
        mirror = replace(mirror, normal=-mirror.normal)
        sides = _sides_of(tree, mirror)
    limbs = _settled_kinds(tree, limbs, trunk, up, forward)
    body = _body(limbs, trunk)
    if mirror is not None and body is not Body.MANY_LEGGED:
        limbs = [_divided_again(tree, mirror, limb, forward) for limb in limbs]
    if not sure and body is not Body.UNKNOWN and any(not limb.named for limb in limbs):
        draft.notes.append(Message("which way the figure faces is a guess: left and right may be exchanged"))
    figure = Figure(body, up, forward, left, tree.size)
    _give_trunk(draft, trunk)
    _give_limbs(draft, limbs, trunk, figure, 1.0 if mirror is None else mirror.share)
    _give_parts(draft, trunk, sides)
    for kind in dict.fromkeys(limb.kind for limb in limbs):
        counts = Counter(limb.side for limb in limbs if limb.kind is kind)
        for side in (Side.LEFT, Side.RIGHT):
            if counts[side] > counts[side.other]:
                own = {"kind": kind, "left": counts[Side.LEFT], "right": counts[Side.RIGHT]}
                draft.notes.append(
                    Message("left {kind} without a right one ({left} left, {right} right)", **own)
                    if side is Side.LEFT
                    else Message("right {kind} without a left one ({left} left, {right} right)", **own)
                )
    if body is Body.UNKNOWN and len(tree.kept) > 1:
        draft.notes.append(
            Message(
                "nothing recognised for certain in the {count} bones below {bone!r}: choose the bones by "
                "hand",
                count=len(tree.kept),
                bone=draft.names[tree.kept[0]],
            )
        )
    return figure


def _divided_again(tree: Tree, mirror: Mirror, limb: Found, forward: FloatArray) -> Found:
    """A limb by shape with parts that also fit the way elbows and knees point."""
    if limb.named or limb.kind not in _DIGITS:
        return limb
    return divided(tree, mirror, limb, forward if limb.kind is LimbKind.LEG else -forward)


def _body(limbs: Sequence[Found], trunk: Trunk) -> Body:
    counts = Counter(limb.kind for limb in limbs)
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


# How it stands


def _sides_of(tree: Tree, mirror: Mirror | None) -> list[Side]:
    """Side of every joint of the skeleton: by its name, else by its place."""
    distances = np.zeros(len(tree.readings)) if mirror is None else mirror.distances(tree.places)
    places = np.where(np.abs(distances) <= ON_PLANE * tree.size, 0, np.sign(distances)).astype(np.int64)
    by_place = (Side.CENTRE, Side.LEFT, Side.RIGHT)  # 0, 1, -1
    rows = zip(tree.readings, places.tolist(), strict=True)
    return [reading.side or by_place[place] for reading, place in rows]


def _across(vector: FloatArray, *normals: FloatArray) -> FloatArray:
    """What is left of a vector (3,) across unit vectors that are square to each other."""
    for normal in normals:
        vector = vector - (vector @ normal) * normal
    return vector


def _find_up(tree: Tree, limbs: Sequence[Found], trunk: Trunk, mirror: Mirror | None) -> FloatArray:
    """Up: against the legs, else from hips to head, else the armature's z axis; in the plane."""
    total = np.zeros(3)
    for limb in limbs:
        if limb.kind in (LimbKind.LEG, LimbKind.FRONT_LEG):
            upper = limb.tip(tree) - limb.span(tree)
            total += upper - tree.places[effector_of(tree, limb, animal=trunk.lying)]
    if norm(total) <= TINY and not trunk.lying and len(trunk.path) > 1:
        total = tree.places[trunk.path[-1]] - tree.places[trunk.path[0]]
    normals = [] if mirror is None else [mirror.normal]
    flat = np.zeros(3)
    for candidate in (np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0]), total):
        across = _across(candidate, *normals)
        if norm(across) > 0.1 * norm(candidate) + TINY:
            flat = unit(across)
    largest = int(np.abs(flat).argmax())
    axis = np.eye(3)[largest] * np.sign(flat[largest])
    square = all(abs(float(axis @ normal)) < 1.0 - UPRIGHT for normal in normals)
    return axis if square and float(flat @ axis) > UPRIGHT else flat


def _find_forward(
    tree: Tree, limbs: Sequence[Found], trunk: Trunk, mirror: Mirror | None, up: FloatArray
) -> tuple[FloatArray, bool, bool]:
    """The way the figure faces, whether there is a reason for it, whether names of sides agree with it."""
    faces = np.zeros(3)
    for limb in limbs:
        end = limb.first(*ENDS)
        if limb.kind is LimbKind.LEG and end is not None:
            faces += limb.tip(tree) - tree.places[end]
    if len(trunk.path) > 1:
        faces += tree.places[trunk.path[-1]] - tree.places[trunk.path[0]]
    for head in trunk.heads:
        faces += 2.0 * (tree.tails[tree.branch(head)].mean(0) - tree.places[head])
    if mirror is None:
        flat = _across(faces, up)
        if norm(flat) > 0.01 * tree.size:
            return unit(flat), True, True
        candidates = (_across(axis, up) for axis in (np.array([0.0, -1.0, 0.0]), np.array([1.0, 0.0, 0.0])))
        return unit(next(flat for flat in candidates if norm(flat) > 0.5)), False, True
    across = unit(np.cross(mirror.normal, up))
    shown = float(faces @ across)
    if mirror.named:
        return across, True, shown >= -0.05 * tree.size
    for ahead, least in ((shown, 0.01), (float(_knees(tree, limbs) @ across), 0.002)):
        if abs(ahead) > least * tree.size:
            return across * np.sign(ahead), True, True
    return across * (1.0 if float(across[1]) < 0.0 else -1.0), False, True  # Blender's front is -y


def _knees(tree: Tree, limbs: Sequence[Found]) -> FloatArray:
    """Which way knees point and elbows do not, summed, (3,) [m]."""
    total = np.zeros(3)
    for limb in limbs:
        found = corners(limb, tree.places, limb.tip(tree))
        if found is not None and limb.kind in (LimbKind.ARM, LimbKind.LEG):
            a, b, c = found
            off = _across(b - a, unit(c - a))
            total += off if limb.kind is LimbKind.LEG else -off
    return total


def _settled_kinds(
    tree: Tree, limbs: Sequence[Found], trunk: Trunk, up: FloatArray, forward: FloatArray
) -> list[Found]:
    """Tell front legs from arms and from hind legs, where the trunk lies."""
    changed = list(limbs)
    legs = [limb for limb in limbs if limb.kind is LimbKind.LEG]
    if not legs or not trunk.lying:
        return changed
    ground = min(float(limb.tip(tree) @ up) for limb in legs)
    for row, limb in enumerate(changed):
        tip, root = float(limb.tip(tree) @ up), float(tree.places[limb.root] @ up)
        if limb.kind is LimbKind.ARM and tip - ground < GROUNDED * (root - ground):
            changed[row] = limb.retyped(LimbKind.FRONT_LEG)
    for side in (Side.LEFT, Side.RIGHT):
        kinds = [limb.kind for limb in changed if limb.side is side]
        rows = [r for r, limb in enumerate(changed) if limb.kind is LimbKind.LEG and limb.side is side]
        if len(rows) == 2 and LimbKind.FRONT_LEG not in kinds:
            front = max(
                rows, key=lambda r: (changed[r].front is True, tree.places[changed[r].root] @ forward, -r)
            )
            changed[front] = changed[front].retyped(LimbKind.FRONT_LEG)
    return changed


# Roles


def _confidence(weight: float) -> float:
    """Confidence in a role that a name gave with a weight."""
    return float(np.clip(0.4 + 0.2 * weight, 0.5, 1.0))


def _give_trunk(draft: _Draft, trunk: Trunk) -> None:
    for joint, role in trunk.roles.items():
        weight = draft.tree.weight(joint, role)
        confidence, reason = GUESS if joint in trunk.guessed else BY_PLACE, trunk.reasons[role]
        if weight >= 1.0:
            confidence, reason = _confidence(weight), Message("named {role}", role=role)
        draft.give(joint, role, Side.CENTRE, reason, confidence)
    draft.notes += trunk.notes
    for kind, joints in trunk.chains():
        if joints:
            chain = Chain(kind, Side.CENTRE, tuple(joints), tuple(trunk.roles[joint] for joint in joints))
            draft.add(chain, joints[0 if kind is LimbKind.TRUNK else -1])


def _give_limbs(draft: _Draft, limbs: Sequence[Found], trunk: Trunk, figure: Figure, share: float) -> None:
    """Arms, legs, wings and fins in pairs, from front to back, with their digits."""
    tree = draft.tree

    def order(limb: Found) -> tuple[int, Side, float]:
        middle = tree.places[limb.root] + 0.5 * limb.tip(tree)
        return list(LimbKind).index(limb.kind), limb.side, -float(middle @ figure.forward)

    said: dict[tuple[LimbKind, str], list[str]] = {}
    for limb in sorted(limbs, key=order):
        for row, (joint, role) in enumerate(zip(limb.joints, limb.roles, strict=True)):
            reading = tree.readings[joint]
            confidence, reason = BY_PLACE, Message("between the named joints of the {kind}", kind=limb.kind)
            if not limb.by_name:
                confidence, reason = (
                    BY_SHAPE * share,
                    Message("by shape: {kind} with a mirror image", kind=limb.kind),
                )
            elif limb.named[row] > 0.0:
                confidence, reason = _confidence(limb.named[row]), Message("named {role}", role=role)
                if len(reading.roles) > 1:
                    reason = Message("its name allows {role}, its place in the chain decides", role=role)
            elif reading.best is not None:
                reason = Message(
                    "named {best}, but its place in the {kind} is that of the {role}",
                    best=reading.best,
                    kind=limb.kind,
                    role=role,
                )
            draft.give(joint, role, limb.side, reason, confidence)
        state, angle, axis = bend_of(limb, tree.places, figure, limb.tip(tree))
        draft.add(limb, effector_of(tree, limb, animal=trunk.lying), (state, angle, axis))
        side = _WORD[limb.side]
        turned = Joined(" ", [side, f"{np.degrees(angle):.1f}°"])
        if state is Bend.INVERTED:
            said.setdefault((limb.kind, Message("bent the wrong way at rest")), []).append(turned)
        if state is Bend.STRAIGHT:
            straight = Message("straight at rest, taken to bend the usual way")
            if axis is None:
                straight = Message("straight at rest, and nothing tells which way it bends")
            said.setdefault((limb.kind, straight), []).append(turned)
        if limb.kind in _DIGITS:
            if limb.first(*ENDS) is None:
                missing = Message(
                    "without a {role}, the last bone takes the target", role=PARTS[limb.kind][-1]
                )
                said.setdefault((limb.kind, missing), []).append(side)
            _give_digits(draft, limb)
    for (kind, what), which in said.items():
        draft.notes.append(
            Message("{kind}: {what} ({names})", kind=kind, what=what, names=in_a_row(which, 4))
        )


def _give_digits(draft: _Draft, limb: Found) -> None:
    """Fingers and toes: what hangs on hand or foot."""
    tree = draft.tree
    kind, role = _DIGITS[limb.kind]
    ends = [j for j, own in zip(limb.joints, limb.roles, strict=True) if own in ENDS]
    for start in [child for joint in ends for child in tree.children[joint] if child not in limb.joints]:
        weights = {joint: tree.weight(joint, Role.FINGER, Role.TOE) for joint in tree.branch(start)}
        if not any(weights.values()) and limb.by_name:
            continue
        for joint, weight in weights.items():
            confidence, reason = (
                BY_PLACE if limb.by_name else BY_SHAPE,
                Message("hangs on the {kind}", kind=limb.kind),
            )
            if weight >= 1.0:
                confidence, reason = _confidence(weight), Message("{role} by name and place", role=role)
            draft.give(joint, role, limb.side, reason, confidence)
        stack = [start]
        while stack:  # chains, each from where it parts from the others
            path = [stack.pop()]
            while len(tree.children[path[-1]]) == 1:
                path += tree.children[path[-1]]
            draft.add(Chain(kind, limb.side, tuple(path), (role,) * len(path)), path[-1])
            stack += tree.children[path[-1]]


def _give_parts(draft: _Draft, trunk: Trunk, sides: Sequence[Side]) -> None:
    """Fins in the middle; jaw, eyes and other parts of the head."""
    tree = draft.tree
    for joint in tree.kept:
        if joint not in draft.roles and tree.weight(joint, Role.FIN) > 0.0:
            for member in tree.branch(joint):
                draft.give(member, Role.FIN, sides[member], Message("named {role}", role=Role.FIN), 1.0)
            path = tree.main_path(joint)
            draft.add(Chain(LimbKind.FIN, sides[joint], tuple(path), (Role.FIN,) * len(path)), path[-1])
    below = {joint for head in trunk.heads for joint in tree.branch(head)}
    for joint in tree.kept:
        if joint not in draft.left_out:
            for role in (Role.EYE, Role.JAW, Role.HEAD_PART):
                if tree.weight(joint, role) >= SURE * 0.5:
                    draft.give(joint, role, sides[joint], Message("named {role}", role=role), 1.0)
            if joint in below:
                draft.give(joint, Role.HEAD_PART, sides[joint], Message("hangs on the head"), 0.5)

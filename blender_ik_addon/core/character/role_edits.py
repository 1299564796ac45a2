# SPDX-License-Identifier: GPL-3.0-or-later
"""A character with roles that somebody has changed: limbs follow the changes.

Recognition proposes, people decide. A row of the table of roles says which joint has a role, and which joint
was recognised for it. What was recognised and stays as it is keeps its place in its limb; another joint takes
the place of the one that it replaces; a joint that loses its role leaves its limb; one that gets a role joins
the limb of its kind, side and figure, or makes a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..errors import IKError
from ..messages import Message
from ..model.skeleton import Skeleton
from .roles import Bend, Character, Choice, Limb, LimbKind, Role, Side
from .roles.character import PARTS
from .roles.limbs import bend_of

KINDS: Final = {role: kind for kind, roles in reversed(PARTS.items()) for role in roles}
"""Limb in which a joint with a role is."""

_ENDS: Final = frozenset({Role.HIPS, Role.HEAD, Role.HAND, Role.FOOT})
"""Roles that a target holds."""


@dataclass(frozen=True)
class RoleRow:
    """A row of the table of roles."""

    found: str
    """Name of the joint that was recognised; empty in a row that was added."""
    joint: str
    """Name of the joint that has the role."""
    role: Role | None
    """None: it has none."""
    side: Side
    figure: int = 0
    """Which of several figures, counted from 0."""
    confidence: float = 1.0
    """Of the recognition, see `Choice`."""
    reason: str = ""
    """For people."""


def rows_of(character: Character) -> tuple[RoleRow, ...]:
    """Return the table of what was recognised; digits and parts of the head come last, they are many."""
    choices = sorted(character.choices, key=lambda choice: choice.role not in KINDS)
    return tuple(RoleRow(c.name, c.name, c.role, c.side, c.figure, c.confidence, c.reason) for c in choices)


def revised(skeleton: Skeleton, character: Character, rows: Sequence[RoleRow]) -> Character:
    """Return the character that a table says.

    Args:
        rows: The table, in any order. Joints that are in no row have no role.

    Raises:
        IKError: A row names a joint or a figure that is not there, or a joint has two roles.
    """
    given = [row for row in rows if row.role is not None and row.joint]
    recognised = {choice.name: choice for choice in character.choices}
    choices: dict[str, Choice] = {}
    for row in given:
        choice = _choice(skeleton, character, row, recognised.get(row.joint))
        if row.joint in choices:
            first = choices[row.joint].role
            raise IKError(
                "the table of roles has {joint!r} twice, as {first} and as {role}: a bone has one role",
                joint=row.joint,
                first=first,
                role=row.role,
            )
        choices[row.joint] = choice
    by_found = {row.found: row for row in given if row.found}
    limbs: list[Limb] = []
    for limb in character.limbs:
        parts: list[tuple[int, int, Role]] = []
        for joint, role in zip(limb.joints, limb.roles, strict=True):
            row = by_found.get(skeleton.names[joint])
            kept = row is not None and (row.role, row.figure) == (role, limb.figure)
            if row and kept and limb.side in (row.side, Side.CENTRE):  # the middle may have any side
                parts.append((joint, skeleton.index(row.joint), role))
        if parts:
            replaced = {before: joint for before, joint, _ in parts}
            lost = -1 if limb.effector in limb.joints else limb.effector
            roles = {joint: role for _, joint, role in parts}
            effector = replaced.get(limb.effector, lost)
            same = tuple(roles) == limb.joints
            limbs.append(limb if same else _changed(skeleton, character, limb, roles, effector))
    placed = {joint for limb in limbs for joint in limb.joints}
    in_limbs = {joint for limb in character.limbs for joint in limb.joints}
    # What was recognised outside of limbs, such as bones between hips and legs, stays there.
    outside = [choice for choice in character.choices if choice.joint not in in_limbs]
    ordered = tuple(sorted(choices.values(), key=lambda choice: choice.joint))
    for choice in ordered:
        if choice.joint not in placed and choice.role in KINDS and choice not in outside:
            _join(skeleton, character, limbs, choice)
    return replace(character, choices=ordered, limbs=tuple(limbs))


def _choice(skeleton: Skeleton, character: Character, row: RoleRow, before: Choice | None) -> Choice:
    """The role of a row, as it was recognised or by hand."""
    assert row.role is not None
    index = skeleton.index(row.joint)
    if row.figure >= max(1, len(character.figures)):
        raise IKError(
            "the table of roles puts {joint!r} into figure {figure}, but there are {count}: counting "
            "begins at 0",
            joint=row.joint,
            figure=row.figure,
            count=len(character.figures),
        )
    if before is not None and (before.role, before.side) == (row.role, row.side):
        return replace(before, figure=row.figure)
    return Choice(index, row.joint, row.role, row.side, row.figure, 1.0, Message("chosen by hand"))


def _join(skeleton: Skeleton, character: Character, limbs: list[Limb], choice: Choice) -> None:
    """Put a joint into the limb of its role, or make one."""
    kind = KINDS[choice.role]
    kinds = {kind, LimbKind.FRONT_LEG} if kind in (LimbKind.ARM, LimbKind.LEG) else {kind}
    for row, limb in enumerate(limbs):
        if limb.kind in kinds and (limb.side, limb.figure) == (choice.side, choice.figure):
            roles = dict(zip(limb.joints, limb.roles, strict=True)) | {choice.joint: choice.role}
            effector = choice.joint if choice.role in _ENDS else limb.effector
            limbs[row] = _changed(skeleton, character, limb, roles, effector)
            return
    number = sum((limb.kind, limb.side, limb.figure) == (kind, choice.side, choice.figure) for limb in limbs)
    chain = kind, choice.side, (choice.joint,), (choice.role,)
    limbs.append(Limb(*chain, choice.figure, choice.joint, number, 1.0))


def _changed(
    skeleton: Skeleton, character: Character, limb: Limb, roles: Mapping[int, Role], effector: int
) -> Limb:
    """The limb with other joints, bent as these are now; its last end or joint without an effector, -1."""
    joints = tuple(sorted(roles, key=lambda joint: (len(skeleton.ancestors(joint)), joint)))
    if effector < 0:
        effector = next((joint for joint in joints[::-1] if roles[joint] in _ENDS), joints[-1])
    limb = replace(limb, joints=joints, roles=tuple(roles[joint] for joint in joints), effector=effector)
    places = skeleton.armature_from_joint_rest[:, :3, 3]
    figure = character.figures[limb.figure] if character.figures else None
    bend, angle, axis = bend_of(limb, places, figure, axis=limb.bend_axis)
    axis = limb.bend_axis if bend is Bend.NONE else axis
    return replace(limb, bend=bend, bend_angle=angle, bend_axis=axis)

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

import numpy as np

from ..arrays import FloatArray
from ..errors import IKError
from ..model.skeleton import Skeleton
from .roles import Bend, Character, Choice, Limb, LimbKind, Role, Side

KINDS: Final[Mapping[Role, LimbKind]] = {
    Role.HIPS: LimbKind.TRUNK,
    Role.SPINE: LimbKind.TRUNK,
    Role.CHEST: LimbKind.TRUNK,
    Role.NECK: LimbKind.HEAD,
    Role.HEAD: LimbKind.HEAD,
    Role.SHOULDER: LimbKind.ARM,
    Role.UPPER_ARM: LimbKind.ARM,
    Role.LOWER_ARM: LimbKind.ARM,
    Role.HAND: LimbKind.ARM,
    Role.PELVIS: LimbKind.LEG,
    Role.UPPER_LEG: LimbKind.LEG,
    Role.LOWER_LEG: LimbKind.LEG,
    Role.ANKLE: LimbKind.LEG,
    Role.FOOT: LimbKind.LEG,
    Role.TAIL: LimbKind.TAIL,
    Role.WING: LimbKind.WING,
    Role.FIN: LimbKind.FIN,
}
"""Limb in which a joint with a role is."""

ENDS: Final = frozenset({Role.HIPS, Role.HEAD, Role.HAND, Role.FOOT})
"""Roles that a target holds."""

STRAIGHT: Final = float(np.radians(2.0))
"""Bend [rad] below which the plane of an elbow is not believed, as in recognition."""


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
        skeleton: Its skeleton.
        character: What was recognised of it.
        rows: The table, in any order. Joints that are in no row have no role.

    Raises:
        IKError: A row names a joint or a figure that is not there, or a joint has two roles.
    """
    given = [row for row in rows if row.role is not None and row.joint]
    _check(skeleton, character, given)
    recognised = {choice.name: choice for choice in character.choices}
    choices = tuple(
        sorted((_choice(skeleton, row, recognised) for row in given), key=lambda choice: choice.joint)
    )
    by_found = {row.found: row for row in given if row.found}
    limbs: list[Limb] = []
    placed: set[int] = set()
    for limb in character.limbs:
        kept: dict[int, Role] = {}
        moved: dict[int, int] = {}
        for joint, role in zip(limb.joints, limb.roles, strict=True):
            row = by_found.get(skeleton.names[joint])
            if row is not None and (row.role, row.side, row.figure) == (role, _side(limb, row), limb.figure):
                moved[joint] = skeleton.index(row.joint)
                kept[moved[joint]] = role
        if kept:
            limbs.append(_with(skeleton, character, limb, kept, moved))
            placed.update(kept)
    for choice in choices:
        if choice.joint not in placed and choice.role in KINDS:
            _join(skeleton, character, limbs, choice)
    return replace(character, choices=choices, limbs=tuple(limbs))


def _check(skeleton: Skeleton, character: Character, rows: Sequence[RoleRow]) -> None:
    seen: dict[str, Role | None] = {}
    for row in rows:
        skeleton.index(row.joint)
        if row.figure >= max(1, len(character.figures)):
            raise IKError(
                f"the table of roles puts {row.joint!r} into figure {row.figure}, but there are "
                f"{len(character.figures)}: counting begins at 0"
            )
        if row.joint in seen:
            raise IKError(
                f"the table of roles has {row.joint!r} twice, as {seen[row.joint]} and as {row.role}: "
                "a bone has one role"
            )
        seen[row.joint] = row.role


def _choice(skeleton: Skeleton, row: RoleRow, recognised: Mapping[str, Choice]) -> Choice:
    assert row.role is not None
    before = recognised.get(row.joint)
    same = before is not None and (before.role, before.side) == (row.role, row.side)
    return Choice(
        joint=skeleton.index(row.joint),
        name=row.joint,
        role=row.role,
        side=row.side,
        figure=row.figure,
        confidence=before.confidence if same and before is not None else 1.0,
        reason=before.reason if same and before is not None else "chosen by hand",
    )


def _side(limb: Limb, row: RoleRow) -> Side:
    """Side that a row of a limb must have to stay in it; what is in the middle of the body may have any."""
    return row.side if limb.side is Side.CENTRE else limb.side


def _with(
    skeleton: Skeleton, character: Character, limb: Limb, roles: Mapping[int, Role], moved: Mapping[int, int]
) -> Limb:
    """The limb with some of its joints, or others in their places."""
    joints = tuple(sorted(roles))
    if joints == limb.joints:
        return limb
    effector = moved.get(limb.effector, limb.effector if limb.effector not in limb.joints else -1)
    if effector < 0:
        ends = [joint for joint in joints if roles[joint] in ENDS]
        effector = ends[-1] if ends else joints[-1]
    changed = replace(limb, joints=joints, roles=tuple(roles[joint] for joint in joints), effector=effector)
    return _bent(skeleton, character, changed)


def _join(skeleton: Skeleton, character: Character, limbs: list[Limb], choice: Choice) -> None:
    """Put a joint into the limb of its role, or make one."""
    kind = KINDS[choice.role]
    kinds = {kind, LimbKind.FRONT_LEG} if kind in (LimbKind.ARM, LimbKind.LEG) else {kind}
    for row, limb in enumerate(limbs):
        if limb.kind in kinds and (limb.side, limb.figure) == (choice.side, choice.figure):
            roles = {**dict(zip(limb.joints, limb.roles, strict=True)), choice.joint: choice.role}
            joints = tuple(sorted(roles))
            limb = replace(limb, joints=joints, roles=tuple(roles[joint] for joint in joints))
            if choice.role in ENDS:
                limb = replace(limb, effector=choice.joint)
            limbs[row] = _bent(skeleton, character, limb)
            return
    number = sum((limb.kind, limb.side, limb.figure) == (kind, choice.side, choice.figure) for limb in limbs)
    limbs.append(
        Limb(
            kind=kind,
            side=choice.side,
            figure=choice.figure,
            joints=(choice.joint,),
            roles=(choice.role,),
            effector=choice.joint,
            number=number,
            bend=Bend.NONE,
            bend_angle=0.0,
            bend_axis=None,
            confidence=1.0,
        )
    )


def _likely_axis(character: Character, limb: Limb, along: FloatArray) -> FloatArray | None:
    """Axis about which an elbow or a knee bends of which nothing is known: forearms to the front."""
    if not character.figures:
        return None
    forward = character.figures[limb.figure].forward
    towards = forward if limb.kind is LimbKind.ARM else -forward
    axis = np.asarray(np.cross(along, towards), dtype=np.float64)
    size = float(np.linalg.norm(axis))
    return axis / size if size > np.sin(STRAIGHT) * float(np.linalg.norm(along)) else None


def _bent(skeleton: Skeleton, character: Character, limb: Limb) -> Limb:
    """The limb with the bend of its joints as they are now: about their plane, unless they lie on a line."""
    first: dict[Role, int] = {}
    for joint, role in zip(limb.joints, limb.roles, strict=True):
        first.setdefault(role, joint)
    upper = first.get(Role.UPPER_ARM, first.get(Role.UPPER_LEG))
    lower = first.get(Role.LOWER_ARM, first.get(Role.LOWER_LEG))
    end = next((first[role] for role in (Role.HAND, Role.ANKLE, Role.FOOT) if role in first), None)
    if upper is None or lower is None or end is None:
        return replace(limb, bend=Bend.NONE, bend_angle=0.0)
    places = skeleton.armature_from_joint_rest[:, :3, 3]
    above, below = places[lower] - places[upper], places[end] - places[lower]
    cross = np.asarray(np.cross(above, below), dtype=np.float64)
    angle = float(np.arctan2(np.linalg.norm(cross), above @ below))
    axis = limb.bend_axis
    if axis is None and limb.kind in (LimbKind.ARM, LimbKind.LEG):
        axis = _likely_axis(character, limb, above + below)
    if angle < STRAIGHT:
        return replace(limb, bend=Bend.STRAIGHT, bend_angle=angle, bend_axis=axis)
    measured = cross / np.linalg.norm(cross)
    if axis is not None and float(measured @ axis) < -0.5:
        return replace(limb, bend=Bend.INVERTED, bend_angle=angle, bend_axis=axis)
    return replace(limb, bend=Bend.BENT, bend_angle=angle, bend_axis=measured)

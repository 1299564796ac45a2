# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of roles in `Object.poise.roles`, and the two sides of a body.

Roles are as recognised, and as changed by the user. By names and roles each bone has its counterpart on the
other side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ...core.arrays import FloatArray
from ...core.character.role_edits import RoleRow, revised, rows_of
from ...core.character.roles import Character, Hints, Role, Side, recognise
from ...core.messages import Message, listed
from ...core.model.skeleton import Skeleton
from ..kinds.frame_data import orthogonal
from ..properties.naming import note_name
from ..properties.overrides import refilled
from ..properties.settings import SIDES, settings_of
from ..translations import translated
from .armature import driven_bones, read_armature

SIDE_NAMES: Final = {side: name for name, side in SIDES.items()}

IN_PLACE_OF_ARMS: Final = frozenset({Role.SHOULDER.name, Role.WING.name, Role.FIN.name})
"""Roles of the roots of front legs, wings and fins, where there are no arms."""


def read_hints(armature_object: Object, skeleton: Skeleton) -> Hints:
    """Read what helps to recognise bones besides their names and places."""
    data: Any = armature_object.data
    bones = [data.bones[name] for name in skeleton.names]
    return Hints(
        tails=np.array([bone.tail_local for bone in bones]),
        deform=np.array([bone.use_deform for bone in bones]),
        driven=frozenset(driven_bones(armature_object)),
        collections={bone.name: tuple(c.name for c in bone.collections) for bone in bones},
    )


def recognise_roles(armature_object: Object) -> Character:
    """Recognise roles and fill the table with them (IKError: the armature cannot be posed)."""
    skeleton = read_armature(armature_object).skeleton
    character = recognise(skeleton, read_hints(armature_object, skeleton))
    write_table(armature_object, rows_of(character))
    return character


def table_of(armature_object: Object) -> tuple[RoleRow, ...]:
    """Read the table of roles."""
    return tuple(
        RoleRow(
            found=row.name,
            joint=row.bone,
            role=None if row.role == 'NONE' else Role[row.role],
            side=SIDES[row.side],
            figure=row.figure,
            confidence=row.confidence,
            reason=row.reason,
        )
        for row in settings_of(armature_object).roles
        if row.bone or row.name  # a row of the library that is not wanted here stays empty
    )


def write_table(armature_object: Object, rows: Sequence[RoleRow]) -> None:
    """Write the table of roles, in the order of the rows."""
    settings = settings_of(armature_object)
    if table_of(armature_object) == tuple(rows):
        return
    for given, row in zip(rows, refilled(settings.roles, len(rows)), strict=True):
        note_name(armature_object, given.joint)
        row.name, row.bone, row.figure = given.found, given.joint, given.figure
        row.role = 'NONE' if given.role is None else given.role.name
        row.side = SIDE_NAMES[given.side]
        row.confidence, row.reason = given.confidence, translated(given.reason)
    settings.active_role = min(settings.active_role, max(0, len(rows) - 1))


def has_only_animals(armature_object: Object) -> bool:
    """Whether no figure of the table has arms, or two legs and nothing that animals have in place of arms."""
    roles: dict[int, list[str]] = {}
    for row in settings_of(armature_object).roles:
        roles.setdefault(row.figure, []).append(row.role)
    return bool(roles) and not any(
        Role.UPPER_ARM.name in own
        or (1 <= own.count(Role.FOOT.name) <= 2 and IN_PLACE_OF_ARMS.isdisjoint(own))
        for own in roles.values()
    )


def read_character(armature_object: Object, skeleton: Skeleton) -> tuple[Character, list[str]]:
    """Return the roles of the table, or without one those recognised; and a note on bones that are gone.

    Raises:
        IKError: A bone has two roles in the table.
    """
    character = recognise(skeleton, read_hints(armature_object, skeleton))
    rows = table_of(armature_object)
    if not rows:
        return character, []
    gone = [row.joint for row in rows if row.joint and row.joint not in skeleton.names]
    present = tuple(row for row in rows if row.joint not in gone)
    notes: list[str] = (
        [Message("bones of the table are missing (renamed?) and left out: {gone}", gone=listed(gone))]
        if gone
        else []
    )
    return revised(skeleton, character, present), notes


# The two sides of a body


@dataclass(frozen=True)
class Symmetry:
    """The counterpart of each bone, and the plane between the sides."""

    skeleton: Skeleton
    other: Mapping[str, str]
    """Bone -> its counterpart; bones in the middle are their own."""
    sources: frozenset[str]
    """Bones from which is mirrored: all, or those of one side."""
    reflection: FloatArray
    """S, (3, 3)."""
    origin: FloatArray
    """A point of the plane in armature space, (3,) [m]."""
    driven: frozenset[str]
    """Bones that cannot be posed."""

    @classmethod
    def read(cls, armature_object: Object, direction: str) -> "Symmetry":
        """Read the sides of an armature, to be mirrored in a direction of `mirror.DIRECTIONS`."""
        armature = read_armature(armature_object)
        skeleton = armature.skeleton
        character, _ = read_character(armature_object, skeleton)
        other = pairs(skeleton, character)
        places = skeleton.armature_from_joint_rest[:, :3, 3]
        normal, origin = np.array([1.0, 0.0, 0.0]), np.zeros(3)
        if character.figures:
            normal = character.figures[0].left
            sided = [skeleton.index(bone) for bone, counterpart in other.items() if bone != counterpart]
            origin = places[sided].mean(axis=0) if sided else places[0]  # both bones of each pair are sided
        sources = set(skeleton.names)
        if direction != 'FLIP':
            wanted = Side.LEFT if direction == 'LEFT_TO_RIGHT' else Side.RIGHT
            sources = {name for name in sources if _side(skeleton, character, name, other) is wanted}
        reflection = np.eye(3) - 2.0 * np.outer(normal, normal)
        return cls(skeleton, other, frozenset(sources), reflection, origin, armature.driven)

    def rest(self, bone: str) -> FloatArray:
        """Rest rotation in armature space, (3, 3)."""
        # Stored in single precision: to be undone exactly its transpose must be its inverse.
        return orthogonal(self.skeleton.armature_from_joint_rest[self.skeleton.index(bone)])

    def turn(self, bone: str) -> FloatArray:
        """Vectors of a bone as vectors of its counterpart, (3, 3), a reflection: R'ᵀ S R."""
        return self.rest(self.other[bone]).T @ self.reflection @ self.rest(bone)

    @property
    def plane(self) -> FloatArray:
        """The reflection of places in armature space, (4, 4)."""
        plane = np.eye(4)
        plane[:3, :3] = self.reflection
        plane[:3, 3] = self.origin - self.reflection @ self.origin
        return plane

    def after(self, bone: str) -> FloatArray:
        """What follows a reflected rotation to be one of the counterpart, (3, 3): Rᵀ S R'."""
        return self.rest(bone).T @ self.reflection @ self.rest(self.other[bone])

    def image(self, bone: str, armature_from_bone: FloatArray) -> FloatArray:
        """Where the counterpart of a bone is that is somewhere, (4, 4): S M Rᵀ S R'."""
        image = self.plane @ armature_from_bone
        image[:3, :3] = image[:3, :3] @ self.after(bone)
        return image


def pairs(skeleton: Skeleton, character: Character) -> dict[str, str]:
    """Return the counterpart of every bone, by name, else by role; bones without one are their own."""
    flipped = {name: bpy.utils.flip_name(name) for name in skeleton.names}
    other = {name: own for name, own in flipped.items() if flipped.get(own) == name}
    by_role: dict[tuple[Role, int], dict[Side, list[str]]] = {}
    for choice in character.choices:
        sides = by_role.setdefault((choice.role, choice.figure), {Side.LEFT: [], Side.RIGHT: []})
        sides.setdefault(choice.side, []).append(choice.name)
    named = {name for name, own in other.items() if own != name}
    for sides in by_role.values():
        left, right = sides[Side.LEFT], sides[Side.RIGHT]
        for pair in zip(left, right, strict=True) if len(left) == len(right) else ():
            if named.isdisjoint(pair):
                other |= dict(zip(pair, reversed(pair), strict=True))
    return {name: other.get(name, name) for name in skeleton.names}


def _side(skeleton: Skeleton, character: Character, name: str, other: Mapping[str, str]) -> Side:
    """Return the side of a bone: by its role, else by its place against its counterpart."""
    side = character.side_of(name)
    if side is not None or other[name] == name:
        return side or Side.CENTRE
    left = character.figures[0].left if character.figures else np.array([1.0, 0.0, 0.0])
    places = skeleton.armature_from_joint_rest[:, :3, 3]
    across = float((places[skeleton.index(name)] - places[skeleton.index(other[name])]) @ left)
    return Side.LEFT if across > 0.0 else Side.RIGHT

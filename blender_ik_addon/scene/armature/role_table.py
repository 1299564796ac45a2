# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of roles in `Object.poise.roles`: roles as recognised, and as changed by the user."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from bpy.types import Object

from ...core.character.role_edits import RoleRow, revised, rows_of
from ...core.character.roles import Character, Hints, Role, recognise
from ...core.model.skeleton import Skeleton
from ..properties.joint_properties import SIDES
from ..properties.naming import note_name
from ..properties.overrides import refilled
from ..properties.settings import settings_of
from ..reports import listed
from .armature import driven_bones, read_armature

SIDE_NAMES: Final = {side: name for name, side in SIDES.items()}


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
        row.confidence, row.reason = given.confidence, given.reason
    settings.active_role = min(settings.active_role, max(0, len(rows) - 1))


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
    notes = [f"bones of the table are missing (renamed?) and left out: {listed(gone)}"] if gone else []
    return revised(skeleton, character, present), notes

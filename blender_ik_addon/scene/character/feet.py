# SPDX-License-Identifier: GPL-3.0-or-later
"""Foot Roll: heel, ball and tip of feet are found from bones at rest, and their targets become those of feet.

No mesh is needed. The floor is at the lowest of the foot's bones. A bone that is called heel says where that
is; else it is behind the ankle as of people's feet.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from bpy.types import Object

from ...core.character.roles import Character, Limb, Role, Side
from ...core.errors import IKError
from ...core.model.skeleton import Skeleton
from ..armature.armature import read_armature
from ..armature.restoring import set_up_restored_on_error
from ..armature.role_table import read_character
from ..effectors.effectors import check_present
from ..effectors.entries import chosen_rows, match_target
from ..effectors.feet import is_rolling
from ..kinds.frame_data import points_of
from ..properties.naming import follow_names, note_name
from ..properties.settings import FOOT_ANGLES, FOOT_POINTS, SOLE_AXES, POISE_PG_effector, settings_of
from .setup import body_parts

HEEL_BEHIND: Final = {True: 1.0 / 3.0, False: 0.5}
"""How far the heel is behind the ankle, against the way from there to the tip of the toes, or to the end of a
foot without toes [1]: the ankle is a quarter of the length before the heel."""


def roll_feet(
    armature_object: Object, effectors: Sequence[int] | None = None, *, on: bool | None = None
) -> tuple[tuple[str, ...], bool]:
    """Let the targets of feet be those of whole feet that roll, or of ankles again; no foot moves.

    Args:
        effectors: Places in the list of those that are meant; all feet for None.
        on: Whether they roll; None to let them if not all do.

    Returns:
        The effectors that have changed, such as "foot.L", and whether they roll now.

    Raises:
        IKError: None of these is a foot with a bone of its own; nothing is changed then.
    """
    check_present(armature_object)
    with set_up_restored_on_error(armature_object):
        follow_names(armature_object)
        armature = read_armature(armature_object)
        character, _ = read_character(armature_object, armature.skeleton)
        entries: Any = settings_of(armature_object).effectors
        rows = chosen_rows(armature_object, effectors)
        limbs = feet_of(armature.skeleton, character)
        feet = [entries[row] for row in rows if entries[row].part in limbs and entries[row].kind == 'BOTH']
        if not feet:
            raise IKError(
                "{armature!r} has no effector of a foot that keeps its orientation: press Set Up "
                "Character, or look at the roles of its feet (tab Poise, Roles)",
                armature=armature_object.name,
            )
        on = not all(map(is_rolling, feet)) if on is None else on
        changed = [entry for entry in feet if entry.rolls != on]
        for entry in changed:
            if on:
                sole = find_sole(armature_object, armature.skeleton, character, limbs[entry.part], entry.bone)
                set_sole(armature_object, entry, sole)
                for name in FOOT_ANGLES:
                    setattr(entry, name, 0.0)
            was_rolled, entry.rolls = any(getattr(entry, name) for name in FOOT_ANGLES), on
            if was_rolled and not on:  # the target takes over what the angles did
                match_target(armature_object, list(entries).index(entry))
    return tuple(entry.name for entry in changed), on


def feet_of(skeleton: Skeleton, character: Character) -> dict[str, Limb]:
    """Return the legs that end in a foot with a bone of its own, by the part of their effectors."""
    parts = body_parts(skeleton, character, poles=False)
    return {part.name: part.limb for part in parts if part.what == "foot" and part.kind == 'BOTH'}


def find_sole(
    armature_object: Object, skeleton: Skeleton, character: Character, limb: Limb, bone: str
) -> dict[str, Any]:
    """Return toe bone and sole of a leg's foot, as properties of an effector of a bone."""
    data: Any = armature_object.data
    bones = data.bones
    figure = character.figures[limb.figure]
    foot = bones[skeleton.names[limb.effector]]
    toes = [below for below in foot.children_recursive if character.role_of(below.name) is Role.TOE]
    first = [toe for toe in toes if toe.parent == foot]
    heels = [below for below in foot.children_recursive if "heel" in below.name.lower()]
    ends = [np.array(end) for own in (foot, *toes, *heels) for end in (own.head_local, own.tail_local)]
    # A control of the rig stands for the foot with its toes: only where both are bones of ours they bend.
    has_toe = len(first) == 1 and bone == foot.name
    up, ankle = figure.up, np.array(foot.head_local)
    ahead = max(ends, key=lambda end: float((end - ankle) @ figure.forward))
    level = ahead - ankle
    level = level - (level @ up) * up
    heel = (
        np.mean([np.array(b.head_local) + np.array(b.tail_local) for b in heels], axis=0) / 2
        if heels
        else None
    )
    if heel is None:
        heel = ankle - HEEL_BEHIND[bool(toes)] * level
    height = min(float(up @ end) for end in ends)
    heel = heel + (height - up @ heel) * up
    tip = ahead + (height - up @ ahead) * up
    ball = np.array(first[0].head_local) if has_toe else tip
    from_armature = np.linalg.inv(np.array(bones[bone].matrix_local))
    left = np.cross(up, tip - heel)
    side = -1.0 if limb.side is Side.RIGHT else 1.0
    points = (points_of(from_armature, place) for place in (heel, ball, tip))
    axes = (from_armature[:3, :3] @ axis for axis in (up, side * left / np.linalg.norm(left)))
    found: dict[str, Any] = dict(zip((*FOOT_POINTS, *SOLE_AXES), (*points, *axes), strict=True))
    return found | {"toe_bone": first[0].name if has_toe else ""}


def set_sole(armature_object: Object, entry: POISE_PG_effector, sole: Mapping[str, Any]) -> None:
    """Give an effector the sole of its foot, as `find_sole` returns it."""
    for name in (*FOOT_POINTS, *SOLE_AXES):
        setattr(entry, name, sole[name].tolist())
    entry.toe_bone = sole["toe_bone"]
    if entry.toe_bone:
        note_name(armature_object, entry.toe_bone)

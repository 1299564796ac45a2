# SPDX-License-Identifier: GPL-3.0-or-later
"""Which bones and channels a bake moves: others are not solved either, and stay as they are animated."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np
from bpy.types import Object

from ...core import IKError, Skeleton
from ...core.character.roles.character import Limb, Side
from ..armature.armature import pose_bones_named
from ..armature.role_table import read_character
from ..compat import is_selected
from ..properties.settings import CHANNELS_ITEMS
from ..reports import check_known, listed
from ..rig.rig import Rig

CHANNELS: Final = tuple(item[0] for item in CHANNELS_ITEMS)


def restricted(rig: Rig, armature_object: Object, bones: str | Iterable[str], channels: str) -> Rig:
    """Return a rig of which only some bones and channels move, with the effectors that these can move.

    Args:
        bones: As in `BakeOptions`.
        channels: One of `CHANNELS`.

    Raises:
        IKError: There is no such bone, part or channel, no bone is selected, or no effector is left.
    """
    check_known("Channels", channels, CHANNELS)
    if (bones, channels) == ('ALL', 'BOTH'):
        return rig
    armature = rig.armature
    skeleton, written = armature.skeleton, armature.written.copy()
    free = skeleton.free.copy()
    if bones != 'ALL':
        kept = np.zeros(len(skeleton), dtype=bool)
        kept[sorted(chosen_joints(armature_object, skeleton, bones))] = True
        free[~kept], written[~kept] = False, False
    if channels != 'BOTH':
        held = slice(3, None) if channels == 'LOCATION' else slice(0, 3)
        free[:, held], written[:, held] = False, False
    skeleton = replace(skeleton, free=free)
    effectors = tuple(own for own in rig.effectors if free[own.chain(skeleton)].any())
    if not effectors:
        raise IKError(
            "none of the bones and channels that {armature!r} is to be baked with moves an "
            "effector: choose others",
            armature=armature_object.name,
        )
    armature = replace(armature, skeleton=skeleton, written=written)
    return replace(rig, armature=armature, effectors=effectors, _skeletons={})


def chosen_joints(armature_object: Object, skeleton: Skeleton, bones: str | Iterable[str]) -> set[int]:
    """Return the joints that are meant (IKError: as `restricted`)."""
    if bones == 'ALL':
        return set(range(len(skeleton)))
    if bones in ('SELECTED', 'LIMBS'):
        every = pose_bones_named(armature_object, skeleton.names)
        names = [bone.name for bone in every if is_selected(bone)]
        if not names:
            raise IKError("no bones are selected: select some in Pose Mode, or bake all")
        joints = {skeleton.index(name) for name in names}
        if bones == 'SELECTED':
            return joints
        limbs = [_joints(skeleton, limb) for limb in read_character(armature_object, skeleton)[0].limbs]
        return joints.union(*(limb for limb in limbs if limb & joints))
    names = [bones] if isinstance(bones, str) else list(bones)
    found = {skeleton.index(name) for name in names if name in skeleton.names}
    rest = [name for name in names if name not in skeleton.names]
    if rest:
        parts = _parts(armature_object, skeleton)
        if unknown := [name for name in rest if name not in parts]:
            there = ", ".join(sorted(parts)) or "none"
            raise IKError(
                "{armature!r} has no bone or part of the body {unknown}; parts: {there}",
                armature=armature_object.name,
                unknown=listed(unknown),
                there=there,
            )
        found = found.union(*(parts[name] for name in rest))
    return found


def _parts(armature_object: Object, skeleton: Skeleton) -> dict[str, set[int]]:
    """Joints of the parts of the body by name: "trunk", "arm.L", and "arms" for both."""
    parts: dict[str, set[int]] = {}
    for limb in read_character(armature_object, skeleton)[0].limbs:
        side = "" if limb.side is Side.CENTRE else f".{limb.side}"
        for name in (f"{limb.kind}{side}", f"{limb.kind}s"):
            parts.setdefault(name, set()).update(_joints(skeleton, limb))
    return parts


def _joints(skeleton: Skeleton, limb: Limb) -> set[int]:
    """The joints of a limb, with twist bones and the like between them."""
    path = skeleton.ancestors(limb.joints[-1])
    return {*limb.joints, *path[: path.index(limb.joints[0])]} if limb.joints[0] in path else {*limb.joints}

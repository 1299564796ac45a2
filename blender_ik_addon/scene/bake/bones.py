# SPDX-License-Identifier: GPL-3.0-or-later
"""Which bones and channels a bake moves: others are not solved either, and stay as they are animated.

With *Clear Constraints* bones keep the place that their constraints gave them, without these. While a bake
works constraints are muted, so that cancelling leaves them as they were; they are removed when all has
succeeded.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, cast

import bpy
import numpy as np
from bpy.types import Object

from ...core import IKError, Skeleton
from ...core.arrays import FloatArray, IntArray
from ...core.character.roles.character import Limb, Side
from ...core.messages import listed
from ..animation.fcurves import ChannelKeys, bone_keys
from ..armature.armature import Armature, pose_bones_named
from ..armature.poses import channel_values
from ..armature.restoring import block_with_uid
from ..armature.role_table import read_character
from ..compat import is_selected
from ..properties.declared import check_item
from ..properties.naming import bone_names
from ..properties.settings import POISE_PG_armature
from ..rig.rig import Rig

Constraint = tuple[str, str]
"""Names of a bone and of a constraint that it has."""

SAME_SCALE: Final = 1e-5
"""Difference of a scale [1] up to which a bone is scaled as before."""


def restricted(rig: Rig, armature_object: Object, bones: str | Iterable[str], channels: str) -> Rig:
    """Return a rig of which only some bones and channels move, with the effectors that these can move.

    Args:
        bones: As in `BakeOptions`.
        channels: One of `CHANNELS_ITEMS`.

    Raises:
        IKError: There is no such bone, part or channel, no bone is selected, or no effector is left.
    """
    check_item(POISE_PG_armature, "bake_channels", channels)
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
    names = bone_names(bones)
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


# Clear Constraints


def constraints_on(armature_object: Object, bones: Iterable[str]) -> list[Constraint]:
    """Return the constraints of bones (IKError: some are of a library override and cannot be removed)."""
    pose: Any = armature_object.pose
    found = [(name, own) for name in bones for own in pose.bones[name].constraints]
    if armature_object.override_library is not None:
        kept = [own.name for _, own in found if own.is_override_data]
        if kept:
            raise IKError(
                "constraints of {armature!r} are those of its library and cannot be removed: {kept}. "
                "Switch Clear Constraints off, and mute them",
                armature=armature_object.name,
                kept=listed(kept),
            )
    return [(name, own.name) for name, own in found]


def mute_constraints(armature_object: Object, constraints: Iterable[Constraint]) -> list[Constraint]:
    """Mute constraints, and return those that were not."""
    pose: Any = armature_object.pose
    muted: list[Constraint] = []
    for bone, name in constraints:
        constraint = pose.bones[bone].constraints[name]
        if not constraint.mute:
            constraint.mute = True
            muted.append((bone, name))
    bpy.context.view_layer.update()
    return muted


def unmute_constraints(uid: int, constraints: Iterable[Constraint]) -> None:
    """Let constraints of an armature object with a session uid act again, those that are there."""
    armature_object = block_with_uid(bpy.data.objects, uid)
    bones: Any = armature_object.pose.bones if armature_object is not None else {}
    for bone, name in constraints:
        owner = bones.get(bone)
        constraint = None if owner is None else owner.constraints.get(name)
        if constraint is not None:
            constraint.mute = False


def remove_constraints(armature_object: Object, constraints: Iterable[Constraint]) -> None:
    """Remove them."""
    pose: Any = armature_object.pose
    for bone, name in constraints:
        own = pose.bones[bone].constraints
        own.remove(own[name])


def keyable(armature_object: Object, armature: Armature, joints: IntArray) -> Armature:
    """Return an armature of which all channels of some joints are free that act without constraints.

    Without these they turn with their parents as Blender lets them, also where constraints had kept them
    turned the same way.
    """
    bones: Any = cast(Any, armature_object.data).bones
    skeleton = armature.skeleton
    written, free, inherit = armature.written.copy(), skeleton.free.copy(), skeleton.inherit_rotation.copy()
    written[joints], free[joints] = True, True
    written[joints, :3] = free[joints, :3] = ~armature.connected[joints, None]
    inherit[joints] = [bones[skeleton.names[joint]].use_inherit_rotation for joint in joints.tolist()]
    skeleton = replace(skeleton, free=free, inherit_rotation=inherit)
    return replace(armature, written=written, skeleton=skeleton)


def constrained_joints(
    armature_object: Object, rig: Rig, bones: str | Iterable[str], channels: str
) -> IntArray:
    """Return the joints of the chains that constraints pose and that are baked where these are cleared, (k,).

    Raises:
        IKError: Not all channels are baked.
    """
    if channels != 'BOTH':
        raise IKError(
            "constraints can only be cleared where location and rotation are baked: choose both Channels"
        )
    skeleton = rig.armature.skeleton
    posed: Any = armature_object.pose.bones if armature_object.pose else {}
    chosen = chosen_joints(armature_object, skeleton, bones)
    found = {skeleton.index(name) for name in rig.chains if name in rig.armature.driven_by}
    constrained = [j for j in sorted(found & chosen) if len(posed[skeleton.names[j]].constraints)]
    return np.array(constrained, dtype=np.int64)


def keys_where_shown(
    armature_object: Object, armature: Armature, joints: IntArray, channels: FloatArray, scale: FloatArray
) -> list[ChannelKeys]:
    """Return the keys of joints with which they are where they are shown, without constraints.

    Args:
        armature: As by `keyable`.
        joints: Which, (k,).
        channels: Of all joints, (F, n, 6) [m, rad].
        scale: Of these, (F, k, 3) [1].
    """
    keys = list(channel_values(armature, channels, joints.tolist()))
    pose: Any = armature_object.pose
    for row, joint in enumerate(joints.tolist()):
        name = armature.skeleton.names[joint]
        if np.abs(scale[:, row] - np.array(pose.bones[name].scale)).max() > SAME_SCALE:
            keys += bone_keys(name, "scale", scale[:, row])
    return keys

# SPDX-License-Identifier: GPL-3.0-or-later
"""Preferred angles and limits from the present pose, and from a natural one."""

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
from bpy.types import Object

from ...core.arrays import FloatArray
from ...core.character.preferences import natural_pose
from ...core.model.rotation import euler_from_matrix_near, matrix_in_mode, nearest_euler
from ..animation.fcurves import bone_path, key_frames, own_curves, rotation_channel, sample_channels
from ..armature.armature import read_armature
from ..armature.limits import BoneLimits, joint_entries, limits_of, own_limits, store_limits
from ..armature.poses import read_pose, write_pose
from ..armature.role_table import read_character
from ..properties.naming import bone_names
from ..rig.noted import hold_as_shown

WITHIN: Final = 1e-3
"""How far inside its limits [rad] a pose is to which they were widened."""

ASKEW: Final = np.radians(20.0)
"""Beyond the limits of a hinge by this [rad] a file means another rest pose; by less, its pose is inexact."""

SAME_PREFERENCE: Final = 1e-6
"""Difference of preferred angles [rad] that is rounding."""


def prefer_present_pose(armature_object: Object, bones: Iterable[str]) -> tuple[str, ...]:
    """Make the present angles of bones, clamped to their limits, the preferred ones; return which changed.

    Bones that do not turn are left out. What of these and below them follows is held from the present pose
    then.

    Raises:
        IKError: The armature cannot be posed, or has no such bone; nothing is changed then.
    """
    armature, names = read_armature(armature_object), bone_names(bones)
    read_pose(armature_object, armature)  # it is refused before anything is written
    skeleton = armature.skeleton
    turning = [name for name in names if skeleton.free[skeleton.index(name), 3:].any()]
    hold_as_shown(armature_object, names)
    for name in turning:
        own_limits(armature_object, name)
    changed: list[str] = []
    for name, own, present in _posed(armature_object, turning, lambda own: own.preferred):
        angles = np.clip(present, own.lower, own.upper)
        if not np.allclose(angles, own.preferred, atol=SAME_PREFERENCE):
            changed.append(name)
        store_limits(armature_object, name, replace(own, preferred=angles))  # rounding is not to be seen
    return tuple(changed)


def pose_naturally(armature_object: Object, bones: Iterable[str] | None = None) -> tuple[str, ...]:
    """Turn bones as they are in a natural pose, and let them prefer that; return which.

    Args:
        bones: Each stands for the limb that it is in, the trunk and the neck too; all for None. Bones for
            which no natural angles are known stay as they are.

    Raises:
        IKError: The armature cannot be posed, or has no such bone.
    """
    skeleton = read_armature(armature_object).skeleton
    character, _ = read_character(armature_object, skeleton)
    known = set(natural_pose(skeleton, character))
    if bones is not None:
        meant = {skeleton.index(name) for name in bone_names(bones)}
        limbs = [set(limb.joints) for limb in character.limbs if meant.intersection(limb.joints)]
        known &= meant.union(*limbs)
    names = [skeleton.names[joint] for joint in sorted(known) if skeleton.free[joint, 3:].any()]
    read_pose(armature_object, read_armature(armature_object))  # it is refused before anything is written
    for name in names:
        own_limits(armature_object, name)
    armature = read_armature(armature_object)  # in the rotation orders of the limits
    skeleton, pose = armature.skeleton, read_pose(armature_object, armature)
    angles, channels = natural_pose(skeleton, character), pose.channels.copy()
    for name, own, _present in _posed(armature_object, names, _middle):
        joint = skeleton.index(name)
        channels[joint, 3:] = angles[joint]
        store_limits(armature_object, name, replace(own, preferred=angles[joint]))
    write_pose(armature_object, armature, replace(pose, channels=channels), names)
    return tuple(names)


def beyond_limits(armature_object: Object, bones: Iterable[str]) -> tuple[str, ...]:
    """Return the bones whose present angles are beyond their limits: a solve turns them back."""
    limited = [name for name in bones if name in joint_entries(armature_object)]
    return tuple(
        name
        for name, own, angles in _posed(armature_object, limited, _middle)
        if float(np.maximum(own.lower - angles, angles - own.upper).max()) > WITHIN
    )


def widen_to_action(armature_object: Object, bones: Iterable[str]) -> tuple[str, ...]:
    """Widen the limits of bones to the range of the object's own action; return the bones that are wider.

    What somebody has animated is meant to be possible. Keys are read, no frame is shown.
    """
    skeleton, entries = read_armature(armature_object).skeleton, joint_entries(armature_object)
    curves, pose = own_curves(armature_object), armature_object.pose
    pose_bones: Any = () if pose is None else pose.bones
    widened: list[str] = []
    for name in bones:
        bone = pose_bones[name]
        path, width = rotation_channel(bone.rotation_mode)
        channels = [(bone_path(name, path), index) for index in range(width)]
        frames = np.unique(key_frames(*(curves[channel] for channel in channels if channel in curves)))
        if not len(frames):
            continue
        own, order = limits_of(bone, entries[name]), int(skeleton.orders[skeleton.index(name)])
        turns = matrix_in_mode(bone.rotation_mode, sample_channels(armature_object, channels, frames))
        angles = euler_from_matrix_near(turns, order, _middle(own))
        lower, upper = angles.min(axis=0) - WITHIN, angles.max(axis=0) + WITHIN
        if (lower < own.lower - WITHIN).any() or (upper > own.upper + WITHIN).any():
            wider = replace(own, lower=np.minimum(own.lower, lower), upper=np.maximum(own.upper, upper))
            store_limits(armature_object, name, wider)
            widened.append(name)
    return tuple(widened)


def widen_limits(armature_object: Object, bones: Iterable[str], hinges: Container[str]) -> tuple[str, ...]:
    """Widen the limits of bones to include the present pose; return the bones whose limits are wider.

    Files often have a pose, or a rest pose, that is not that of a standing body; limits that it breaks would
    change it much in the first solve. Hinges, the elbows and knees of recordings, that are a little
    over-stretched or askew are clamped instead.
    """
    widened: list[str] = []
    for name, own, angles in _posed(armature_object, bones, _middle):
        beyond = float(np.maximum(own.lower - angles, angles - own.upper).max())
        if beyond > (ASKEW if name in hinges else WITHIN):
            lower, upper = np.minimum(own.lower, angles - WITHIN), np.maximum(own.upper, angles + WITHIN)
            store_limits(armature_object, name, replace(own, lower=lower, upper=upper))
            widened.append(name)
    return tuple(widened)


def _middle(limits: BoneLimits) -> FloatArray:
    lower, upper = np.nan_to_num(limits.lower, neginf=0.0), np.nan_to_num(limits.upper, posinf=0.0)
    return 0.5 * (lower + upper)


def _posed(
    armature_object: Object, bones: Iterable[str], near: Callable[[BoneLimits], FloatArray]
) -> Iterator[tuple[str, BoneLimits, FloatArray]]:
    """Give bones, their limits and their present angles, those nearest to what `near` returns."""
    armature = read_armature(armature_object)  # in the rotation orders of the limits
    skeleton, pose = armature.skeleton, read_pose(armature_object, armature)
    entries, posed = joint_entries(armature_object), armature_object.pose
    pose_bones: Any = () if posed is None else posed.bones
    for name in bones:
        joint, own = skeleton.index(name), limits_of(pose_bones[name], entries[name])
        yield name, own, nearest_euler(pose.rotation[joint], int(skeleton.orders[joint]), near(own))

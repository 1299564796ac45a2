# SPDX-License-Identifier: GPL-3.0-or-later
"""The present pose as the preferred one: what targets leave free stays as it is, and goes back to it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from bpy.types import Object

from ...core.model.rotation import nearest_euler
from ..armature.armature import read_armature
from ..armature.limits import (
    joint_entries,
    limits_of,
    own_limits,
    store_limits,
)
from ..armature.poses import read_pose


def prefer_present_pose(armature_object: Object, bones: Iterable[str]) -> tuple[str, ...]:
    """Make the present angles of bones, brought inside their limits, the preferred ones.

    Args:
        armature_object: The original armature object.
        bones: Names of bones; those that do not turn are left out.

    Returns:
        The bones that have other preferred angles for it.

    Raises:
        IKError: The armature cannot be posed, or has no such bone.
    """
    skeleton = read_armature(armature_object).skeleton
    turning = [name for name in bones if skeleton.free[skeleton.index(name), 3:].any()]
    for name in turning:
        own_limits(armature_object, name)
    armature = read_armature(armature_object)  # whose orders of rotation are those of the limits now
    skeleton, pose = armature.skeleton, read_pose(armature_object, armature)
    entries = joint_entries(armature_object)
    posed: Any = armature_object.pose
    changed: list[str] = []
    for name in turning:
        joint = skeleton.index(name)
        own = limits_of(posed.bones[name], entries[name])
        angles = nearest_euler(pose.rotation[joint], int(skeleton.orders[joint]), own.preferred)
        angles = np.clip(angles, own.lower, own.upper)
        if not np.allclose(angles, own.preferred, atol=1e-6):
            store_limits(entries[name], replace(own, preferred=angles), entries[name].source)
            changed.append(name)
    return tuple(changed)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Controls of limbs that the rig's own IK decides: the bones that are posed instead of the limb.

Such a limb has IK on its lower bone, with a control as its target and another one as its pole; the hand or
foot copies the rotation of the control. No bone of the limb can be solved, the controls can.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from bpy.types import Object

from ..armature.armature import Armature
from ..armature.switches import SAME_HEAD

_COPYING: Final = ('COPY_TRANSFORMS', 'COPY_LOCATION', 'COPY_ROTATION', 'CHILD_OF', 'ARMATURE')
"""Types of constraints by which a bone goes with a control, the one that says most first."""


def control_of(armature_object: Object, armature: Armature, joint: int) -> int | None:
    """Return the joint that is posed to place a joint that the rig decides; None where there is none.

    It begins at the same place at rest, and may be moved.
    """
    skeleton, seen = armature.skeleton, {joint}
    rest = skeleton.armature_from_joint_rest[:, :3, 3]
    data: Any = armature_object.data
    near = SAME_HEAD * data.bones[skeleton.names[joint]].length
    found = [joint]
    for below in found:  # a control may be decided by another one
        for name in _leaders(armature_object, skeleton.names[below]):
            leader = skeleton.index(name)
            if leader in seen or np.abs(rest[leader] - rest[joint]).max() > near:
                continue
            if _may_move(armature_object, armature, name):
                return leader
            seen.add(leader)
            found.append(leader)
    return None


def pole_of(armature_object: Object, armature: Armature, joints: Iterable[int]) -> int | None:
    """Return the joint of the pole of the IK of some joints; None where there is none that may be moved."""
    for joint in joints:
        for ik in _constraints(armature_object, armature.skeleton.names[joint], ('IK',)):
            name = ik.pole_subtarget if ik.pole_target == armature_object else ""
            if name and _may_move(armature_object, armature, name):
                return armature.skeleton.index(name)
    return None


def _may_move(armature_object: Object, armature: Armature, name: str) -> bool:
    """Whether nothing decides where a bone is, and it may leave its place."""
    pose: Any = armature_object.pose
    bone = pose.bones[name]
    is_loose = bone.parent is None or not bone.bone.use_connect
    return name not in armature.driven and is_loose and not any(bone.lock_location)


def _leaders(armature_object: Object, name: str) -> Iterator[str]:
    """Name the bones of the same armature that decide where a bone is: by IK of the limb, then by copies."""
    pose: Any = armature_object.pose
    bone = pose.bones[name]
    for own in (bone, bone.parent):
        for ik in () if own is None else _constraints(armature_object, own.name, ('IK',)):
            if ik.target == armature_object and ik.subtarget in pose.bones:
                yield ik.subtarget
    for kind in _COPYING:
        for constraint in _constraints(armature_object, name, (kind,)):
            for source in constraint.targets if kind == 'ARMATURE' else (constraint,):
                if source.target == armature_object and source.subtarget in pose.bones:
                    yield source.subtarget


def _constraints(armature_object: Object, name: str, kinds: tuple[str, ...]) -> Iterator[Any]:
    """Give the constraints of a bone that act and are of some types."""
    pose: Any = armature_object.pose
    for constraint in pose.bones[name].constraints:
        if constraint.type in kinds and constraint.is_valid and not constraint.mute and constraint.influence:
            yield constraint

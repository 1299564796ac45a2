# SPDX-License-Identifier: GPL-3.0-or-later
"""Poses of an armature object: its bones read as channels, and channels written into its bones.

Bones that constraints or drivers pose are read as the channels that give the same matrices; so forward
kinematics of a pose that was read equals `PoseBone.matrix` on the evaluated object. Each bone is written in
its own rotation mode, by the representation that is nearest to what it has.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Depsgraph, Object

from ...core.arrays import BoolArray, FloatArray, IntArray
from ...core.errors import IKError
from ...core.model.kinematics import orthogonalized, parent_transform
from ...core.model.rotation import EULER_ORDERS, euler_within, matrix_from_euler
from ...core.model.skeleton import CHANNELS, Pose, Skeleton
from ..animation.fcurves import ChannelKeys, bone_keys, rotation_channel
from ..reports import listed
from .armature import NO_SCALE, Armature, check_armature, read_all
from .rotation_modes import bone_rotations, matrices_of

SHEAR_TOLERANCE: Final = 1e-4
"""Cosine between two axes of a bone [1] up to which shear is taken for rounding."""


def read_pose(
    armature_object: Object,
    armature: Armature,
    *,
    reference: Pose | None = None,
    depsgraph: Depsgraph | None = None,
    bones: Collection[str] | None = None,
) -> Pose:
    """Read the present pose, one frame, in the skeleton's rotation orders.

    Args:
        armature_object: The original object.
        armature: The same as it was read.
        reference: Angles of quaternion, axis-angle and driven bones are those inside the limits, if there are
            any, and of these the nearest to this pose; by default to no rotation.
        depsgraph: Where driven bones are evaluated; by default that of the context.
        bones: Those whose poses matter, by default all: other driven bones are read as their own channels
            say, which takes less time.

    Raises:
        IKError: Bones or their rotation modes are not those of `armature` any more, or a channel of one is
            not a number.
    """
    skeleton = armature.skeleton
    pose_bones, order = _unchanged(armature_object, armature)
    location, angles = read_all(pose_bones, "location", 3), read_all(pose_bones, "rotation_euler", 3)
    connected = np.array([bone.bone.use_connect for bone in pose_bones], dtype=np.bool_)[order]
    channels = np.concatenate([location, angles], axis=1)[order]  # (n, 6)
    channels[connected, :3] = 0.0  # Blender leaves the location of a connected bone out
    scale = read_all(pose_bones, "scale", 3)[order]
    lower, upper = skeleton.lower[:, 3:], skeleton.upper[:, 3:]
    near = np.clip(0.0, lower, upper) if reference is None else reference.rotation
    four = ~np.isin(armature.rotation_modes, EULER_ORDERS)
    if four.any():
        values = (read_all(pose_bones, f"rotation_{name}", 4)[order] for name in ("quaternion", "axis_angle"))
        matrices = matrices_of(armature.rotation_modes, *values)[four]
        channels[four, 3:] = euler_within(
            matrices, skeleton.orders[four], lower[four], upper[four], near[four]
        )
    decided = [name for name in armature.driven_by if bones is None or name in bones]
    if decided:
        driven = np.array([skeleton.index(name) for name in decided])
        shown = with_parents(skeleton, _shown_matrices(armature_object, armature, depsgraph), driven)
        near = channels[:, 3:] if reference is None else near
        channels[driven], scale[driven] = decided_channels(skeleton, shown, driven, near[driven])
    known = np.isfinite(channels).all(axis=1) & np.isfinite(scale).all(axis=1)
    if not known.all():
        nowhere = [skeleton.names[joint] for joint in np.flatnonzero(~known).tolist()]
        raise IKError(
            f"bones of {armature_object.name!r} have a location, rotation or scale that is not a number: "
            f"{listed(nowhere)}. Look at their keys and drivers, or reset them (Alt G, Alt R, Alt S)"
        )
    return Pose(channels, scale)


def with_parents(skeleton: Skeleton, matrices: FloatArray, joints: IntArray) -> FloatArray:
    """Return the matrices (n, 4, 4) of joints (k,), and those of their parents, (k, 2, 4, 4)."""
    return np.stack([matrices[joints], matrices[skeleton.parents[joints]]], axis=1)  # a root has any


def decided_channels(
    skeleton: Skeleton, shown: FloatArray, joints: IntArray, near: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the channels (k, 6) and the scale (k, 3) that put joints (k,) where they are shown.

    Angles are those inside the limits, if there are any, and of these the nearest to `near`, (k, 3); a joint
    without orientation has those of `near`.

    Args:
        skeleton: With the joints.
        shown: As by `with_parents`, (k, 2, 4, 4).
        joints: Which; those of several frames one after the other.
        near: Angles (k, 3).
    """
    translation, own = _own_transforms(skeleton, shown, joints)
    rotation, known = _rotation_part(own)
    orders = skeleton.orders[joints]
    rotation[~known] = matrix_from_euler(near[~known], orders[~known])
    angles = euler_within(rotation, orders, skeleton.lower[joints, 3:], skeleton.upper[joints, 3:], near)
    return np.concatenate([translation, angles], axis=1), np.einsum("kij,kij->kj", rotation, own)


def _unchanged(armature_object: Object, armature: Armature) -> tuple[Any, list[int]]:
    """Return the pose bones, and where in them each joint is (IKError: bones or rotation modes changed)."""
    pose_bones: Any = () if armature_object.pose is None else armature_object.pose.bones
    rows = {bone.name: row for row, bone in enumerate(pose_bones)}
    names = armature.skeleton.names
    if changed := sorted(rows.keys() ^ set(names)):
        raise IKError(
            f"the bones of {armature_object.name!r} have changed since they were read ({listed(changed)}): "
            "read the armature again"
        )
    modes = [bone.rotation_mode for bone in pose_bones]
    for name, mode in zip(names, armature.rotation_modes, strict=True):
        if modes[rows[name]] != mode:
            raise IKError(
                f"bone {name!r} of {armature_object.name!r} has rotation mode {modes[rows[name]]} now, it "
                f"was read as {mode}: read the armature again"
            )
    return pose_bones, [rows[name] for name in names]


def _shown_matrices(armature_object: Object, armature: Armature, depsgraph: Depsgraph | None) -> FloatArray:
    evaluated = armature_object.evaluated_get(depsgraph or bpy.context.evaluated_depsgraph_get())
    if not evaluated.is_evaluated:
        raise IKError(
            f"armature {armature_object.name!r} is in no visible collection of this view layer, so its "
            "constraints and drivers are not evaluated"
        )
    return evaluated_matrices(evaluated, armature)


def evaluated_matrices(evaluated_object: Object, armature: Armature) -> FloatArray:
    """Read `PoseBone.matrix` of every joint of an evaluated armature object, (n, 4, 4) [m]."""
    pose: Any = evaluated_object.pose
    rows = {bone.name: row for row, bone in enumerate(pose.bones)}
    order = [rows[name] for name in armature.skeleton.names]
    return np.swapaxes(read_all(pose.bones, "matrix", 4, 4)[order], 1, 2)  # column-major


def _own_transforms(skeleton: Skeleton, shown: FloatArray, joints: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the translation (k, 3) and the rotation with scale (k, 3, 3) of joints (k,) that are shown."""
    posed, above = shown[:, 0], shown[:, 1]
    linear, translation_axes = np.empty((2, len(joints), 3, 3))
    origin, post_scale = np.empty((len(joints), 3)), np.ones((len(joints), 3))
    plain = skeleton.inherit_rotation & (skeleton.inherit_scale == 0) & skeleton.local_location
    simple = (plain & (skeleton.parents >= 0))[joints]  # all at once; a generated rig has hundreds of these
    inherited = above[simple] @ skeleton.rest[joints[simple]]
    linear[simple] = translation_axes[simple] = inherited[:, :3, :3]
    origin[simple] = inherited[:, :3, 3]
    for joint in np.unique(joints[~simple]).tolist():
        rows = joints == joint
        given = parent_transform(skeleton, joint, above[rows] if skeleton.parents[joint] >= 0 else None)
        linear[rows], origin[rows] = given.linear, given.origin
        translation_axes[rows], post_scale[rows] = given.translation, given.post_scale
    translation = np.linalg.pinv(translation_axes) @ (posed[:, :3, 3] - origin)[..., None]
    post_scale[np.abs(post_scale) <= NO_SCALE] = 1.0
    return translation[..., 0], np.linalg.pinv(linear) @ (posed[:, :3, :3] / post_scale[:, None, :])


def _rotation_part(linear: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return the rotations in rotations with scale (k, 3, 3), and whether there is one, (k,)."""
    flat = np.linalg.norm(linear, axis=1, keepdims=True) <= NO_SCALE  # (k, 1, 3)
    across = np.cross(np.roll(linear, -1, axis=2), np.roll(linear, -2, axis=2), axis=1)
    rotation = orthogonalized(np.where(flat, across, linear), normalize=True)
    rotation *= np.where(np.linalg.det(rotation) < 0.0, -1.0, 1.0)[:, None, None]
    return rotation, np.linalg.det(rotation) > 0.5  # 0 where more than one axis is scaled to nothing


def sheared_bones(
    armature_object: Object, armature: Armature, *, depsgraph: Depsgraph | None = None
) -> tuple[str, ...]:
    """Name the driven bones above free ones that constraints shear at present.

    A pose has no channel for shear, so the bones below these are not exactly where forward kinematics puts
    them. It happens where a bone is scaled unevenly and constraints turn bones below it.
    """
    skeleton = armature.skeleton
    above_free = np.zeros(len(skeleton), dtype=np.bool_)
    for joint in np.flatnonzero(skeleton.free.any(1)):
        above_free[skeleton.ancestors(int(joint))] = True
    names = [name for name in armature.driven_by if above_free[skeleton.index(name)]]
    if not names:
        return ()
    matrices = _shown_matrices(armature_object, armature, depsgraph)
    joints = np.array([skeleton.index(name) for name in names])
    own = _own_transforms(skeleton, with_parents(skeleton, matrices, joints), joints)[1]
    lengths = np.linalg.norm(own, axis=1, keepdims=True)
    unit = own / np.where(lengths > NO_SCALE, lengths, 1.0)
    cosines = np.abs(np.swapaxes(unit, 1, 2) @ unit)[:, [0, 0, 1], [1, 2, 2]].max(1)
    return tuple(name for name, cosine in zip(names, cosines, strict=True) if cosine > SHEAR_TOLERANCE)


def write_pose(armature_object: Object, armature: Armature, pose: Pose, joints: Iterable[str | int]) -> None:
    """Write the free channels of some joints, each in its bone's own rotation mode.

    Of all representations of a rotation the one nearest to the bone's present values is written. Channels
    that are locked or driven, and all other bones, are not touched.

    Raises:
        IKError: The object cannot be posed, or bones or their rotation modes have changed.
    """
    check_armature(armature_object)
    skeleton = armature.skeleton
    if pose.channels.shape != (len(skeleton), CHANNELS):
        raise IKError(
            f"pose has shape {pose.channels.shape}, one frame of {armature.object_name!r} has "
            f"{(len(skeleton), CHANNELS)}"
        )
    chosen = [skeleton.index(joint) for joint in joints]
    pose_bones, order = _unchanged(armature_object, armature)
    for joint in chosen:
        _assign(pose_bones[order[joint]].location, pose.channels[joint, :3], armature.written[joint, :3])
    turned = [joint for joint in chosen if armature.written[joint, 3:].any()]
    present = [
        getattr(pose_bones[order[joint]], rotation_channel(armature.rotation_modes[joint])[0])
        for joint in turned
    ]
    wanted = _rotations(armature, turned, pose.channels[None], [np.array(values) for values in present])
    for joint, values, frames in zip(turned, present, wanted, strict=True):
        _assign(values, frames[0], armature.written[joint, -len(values) :])


def _assign(values: Any, wanted: FloatArray, mask: BoolArray) -> None:
    for index in np.flatnonzero(mask).tolist():
        values[index] = float(wanted[index])


def rotation_values(armature_object: Object, armature: Armature) -> dict[str, FloatArray]:
    """Return the present rotation of every bone in its own mode, (3,) or (4,), exactly."""
    pose_bones, order = _unchanged(armature_object, armature)
    modes = zip(armature.skeleton.names, order, armature.rotation_modes, strict=True)
    return {name: np.array(getattr(pose_bones[row], rotation_channel(mode)[0])) for name, row, mode in modes}


def channel_values(
    armature: Armature,
    channels: FloatArray,
    joints: Iterable[str | int],
    *,
    present: Mapping[str, FloatArray] | None = None,
) -> tuple[ChannelKeys, ...]:
    """Return what to key of some joints over frames, each in its bone's own rotation mode and continuous.

    Only free channels are returned, location only where translation is free.

    Args:
        armature: Of which the joints are.
        channels: (F, n, 6) of all joints.
        joints: Names or indices.
        present: Rotations, by bone and in its own mode, that the first frame is nearest to, to continue
            from present keys. Without them Euler angles start as they are, a quaternion with w positive.
    """
    skeleton = armature.skeleton
    if channels.ndim != 3 or channels.shape[1:] != (len(skeleton), CHANNELS):
        raise IKError(f"channels have shape {channels.shape}, wanted (frames, {len(skeleton)}, {CHANNELS})")
    chosen = [skeleton.index(joint) for joint in joints]
    near = None if present is None else [present[skeleton.names[joint]] for joint in chosen]
    rotations = _rotations(armature, chosen, channels, near)
    keys: list[ChannelKeys] = []
    for joint, values in zip(chosen, rotations, strict=True):
        name, written = skeleton.names[joint], armature.written[joint].tolist()
        keys += bone_keys(name, "location", channels[:, joint, :3], written[:3])
        attribute, width = rotation_channel(armature.rotation_modes[joint])
        keys += bone_keys(name, attribute, values, written[-width:])
    return tuple(keys)


def _rotations(
    armature: Armature,
    joints: Sequence[int],
    channels: FloatArray,
    present: Sequence[FloatArray] | None = None,
) -> list[FloatArray]:
    """Return the rotations of joints over frames (F, n, 6) in their bones' modes; see `bone_rotations`."""
    skeleton = armature.skeleton
    limited = np.isfinite(skeleton.lower[joints, 3:]) | np.isfinite(skeleton.upper[joints, 3:])
    return bone_rotations(
        [armature.rotation_modes[joint] for joint in joints],
        skeleton.orders[joints],
        channels[:, joints, 3:],
        movable=skeleton.free[joints, 3:] & ~limited,
        present=present,
    )

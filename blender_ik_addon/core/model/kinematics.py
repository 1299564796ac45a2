# SPDX-License-Identifier: GPL-3.0-or-later
"""Forward kinematics: where every joint of a pose is.

In the plain case `armature_from_joint = armature_from_parent · rest · T(translation) · R(angles) · S(scale)`.
A joint may refuse its parent's rotation, take its scale in one of six ways, or translate along its parent's
axes; these are Blender's bone settings (`use_inherit_rotation`, `inherit_scale`, `use_local_location`) and
the result equals Blender's `PoseBone.matrix` to its single precision, scale and shear included, except where
several ancestors are scaled to nothing along an axis: there Blender's result depends on rounding. All arrays
have leading frame axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ..arrays import FloatArray, IntArray, dots, lengths, times
from ..errors import IKError, check_type
from .rotation import matrix_from_euler
from .skeleton import INHERIT_SCALE, Pose, Skeleton

FULL, FIX_SHEAR, ALIGNED, AVERAGE, NONE, NONE_LEGACY = range(len(INHERIT_SCALE))

SHEAR_COSINE: Final = 1e-4
"""Cosine between two axes [1] below which Blender calls them orthogonal and leaves their shear alone."""

COLLAPSED: Final = 1e-13
"""Part of a length, an area or a volume [1] up to which what is left of it is rounding: the axis is scaled to
nothing, and its direction would be noise."""

DEGENERATE_COSINE: Final = 1.0 - 1.2e-7
"""Cosine between two axes [1] above which they are parallel in single precision, and shear has no meaning."""


@dataclass(frozen=True)
class PosedSkeleton:
    """A skeleton on which forward kinematics has been run."""

    skeleton: Skeleton
    pose: Pose
    matrices: FloatArray
    """armature_from_joint, (..., n, 4, 4) [m], scale and shear included."""

    def __repr__(self) -> str:
        return f"PosedSkeleton({self.skeleton!r}, {self.pose!r})"

    def point(self, joint: str | int, point_joint: FloatArray | None = None) -> FloatArray:
        """A point of a joint (its origin when none is given) in armature space, (..., 3) [m]."""
        matrix = self.matrices[..., self.skeleton.index(joint), :, :]
        if point_joint is None:
            return matrix[..., :3, 3]
        return matrix[..., :3, :3] @ np.asarray(point_joint, dtype=np.float64) + matrix[..., :3, 3]


@dataclass(frozen=True)
class ParentTransform:
    """What a joint takes from its parent before its own channels are applied."""

    linear: FloatArray
    """Rotation and scale, (..., 3, 3)."""
    origin: FloatArray
    """Place of the joint when its translation is zero, (..., 3) [m]."""
    translation: FloatArray
    """Turns the joint's translation into the parent's space, (..., 3, 3)."""
    post_scale: FloatArray
    """Scale along the joint's own axes after its own rotation, (..., 3)."""

    def apply(self, translation: FloatArray, linear: FloatArray) -> FloatArray:
        """armature_from_joint (..., 4, 4) from the joint's own translation and rotation with scale."""
        own = self.linear @ linear * self.post_scale[..., None, :]
        matrix = np.zeros((*own.shape[:-2], 4, 4))
        matrix[..., :3, :3] = own
        matrix[..., :3, 3] = self.origin + times(self.translation, translation)
        matrix[..., 3, 3] = 1.0
        return matrix


def forward_kinematics(skeleton: Skeleton, pose: Pose) -> PosedSkeleton:
    """Place every joint in armature space.

    Raises:
        IKError: The pose is not of this skeleton.
    """
    check_type("a Skeleton is needed", skeleton, Skeleton)
    check_type("a Pose is needed", pose, Pose)
    if pose.channels.shape[-2] != len(skeleton):
        raise IKError(f"the pose has {pose.channels.shape[-2]} joints, the skeleton {len(skeleton)}")
    linear = matrix_from_euler(pose.rotation, skeleton.orders) * pose.scale[..., None, :]
    return PosedSkeleton(skeleton, pose, joint_matrices(skeleton, pose.translation, linear))


def joint_matrices(skeleton: Skeleton, translation: FloatArray, linear: FloatArray) -> FloatArray:
    """Return armature_from_joint, (..., n, 4, 4) [m].

    Args:
        translation: Of each along its own axes, (..., n, 3) [m].
        linear: Rotation and scale of each, (..., n, 3, 3).
    """
    local = np.zeros((*linear.shape[:-2], 4, 4))
    local[..., :3, :3] = linear
    local[..., :3, 3] = translation
    local[..., 3, 3] = 1.0
    plain = skeleton.inherit_rotation & (skeleton.inherit_scale == FULL) & skeleton.local_location
    rest_local = skeleton.rest @ local
    matrices = np.empty_like(local)
    for joints in skeleton.batches:
        parents = skeleton.parents[joints]
        above = None if parents[0] < 0 else matrices[..., parents, :, :]
        if plain[joints[0]]:
            own = rest_local[..., joints, :, :]
            matrices[..., joints, :, :] = own if above is None else above @ own
        else:
            inherited = parent_transform(skeleton, joints, above)
            matrices[..., joints, :, :] = inherited.apply(
                translation[..., joints, :], local[..., joints, :3, :3]
            )
    return matrices


def parent_transform(
    skeleton: Skeleton, joint: int | IntArray, armature_from_parent: FloatArray | None
) -> ParentTransform:
    """What one joint takes from its posed parent (..., 4, 4), or from the armature when it is a root.

    The same for several joints (k,) that inherit alike, as those of `Skeleton.batches` do, from their parents
    (..., k, 4, 4).
    """
    rest, first = skeleton.rest[joint], np.ravel(joint)[0]
    rest_linear, offset = rest[..., :3, :3], rest[..., :3, 3]
    local_location = bool(skeleton.local_location[first])
    if armature_from_parent is None:
        return ParentTransform(rest_linear, offset, rest_linear if local_location else np.eye(3), np.ones(3))
    parent = armature_from_parent[..., :3, :3]
    mode = int(skeleton.inherit_scale[first])
    post_scale = np.ones(parent.shape[:-1])
    if skeleton.inherit_rotation[first]:
        linear = parent
        if mode in (NONE, AVERAGE):
            linear = orthogonalized(parent, normalize=True)
        elif mode == ALIGNED:
            sheared = orthogonalized(parent, normalize=False)
            post_scale = column_lengths(sheared)
            linear = sheared / nonzero(post_scale)[..., None, :]
        elif mode == NONE_LEGACY:
            linear = parent / nonzero(column_lengths(parent))[..., None, :]
    else:
        parent_rest = skeleton.armature_from_joint_rest[skeleton.parents[joint]][..., :3, :3]
        linear = np.broadcast_to(parent_rest, parent.shape)
        if mode == FULL:
            linear = linear * column_lengths(parent)[..., None, :]
        elif mode == FIX_SHEAR:
            linear = linear * volume_scale(parent)[..., None, :]
        elif mode == ALIGNED:
            post_scale = volume_scale(parent)
    if mode == AVERAGE:
        volume = column_lengths(parent).prod(-1) * _left_of_volume(parent)
        linear = linear * np.cbrt(volume)[..., None, None]
    linear = linear @ rest_linear
    if mode == FIX_SHEAR:
        linear = orthogonalized(linear, normalize=False)
    return ParentTransform(
        linear=linear,
        origin=times(parent, offset) + armature_from_parent[..., :3, 3],
        translation=parent @ rest_linear if local_location else parent,
        post_scale=post_scale,
    )


def column_lengths(linear: FloatArray) -> FloatArray:
    """Scale along each axis, (..., 3); exactly 0 of axes of which only rounding is left."""
    lengths = np.sqrt(np.einsum("...ij,...ij->...j", linear, linear))
    return np.where(lengths > COLLAPSED * lengths.max(axis=-1, keepdims=True), lengths, 0.0)


def nonzero(lengths: FloatArray) -> FloatArray:
    """Lengths to divide by: 1 where they are 0, so that a collapsed axis stays collapsed."""
    return np.where(lengths > 0.0, lengths, 1.0)


def volume_scale(linear: FloatArray) -> FloatArray:
    """Scale along each axis, corrected so that the product is the volume that shear left, (..., 3)."""
    lengths = column_lengths(linear)
    flat = lengths.prod(-1) == 0.0  # Blender then leaves the lengths as they are
    return lengths * np.cbrt(np.where(flat, 1.0, _left_of_volume(linear)))[..., None]


def _left_of_volume(linear: FloatArray) -> FloatArray:
    """The part of the volume of its scale that shear has left a matrix, (...) [1]; 0 of a flat one."""
    volume = column_lengths(linear).prod(-1)
    left = np.abs(np.linalg.det(linear)) / nonzero(volume)
    return np.where((volume > 0.0) & (left > COLLAPSED), left, 0.0)


def orthogonalized(linear: FloatArray, *, normalize: bool) -> FloatArray:
    """Axes without shear, (..., 3, 3): y keeps its direction, x and z share the correction evenly.

    Without `normalize` area and volume are kept. This is the reading of "remove shear" that Blender's scale
    inheritance has; it commutes with a rotation from the left.
    """
    least = COLLAPSED * column_lengths(linear)
    linear = np.where((least > 0.0)[..., None, :], linear, 0.0)
    x, y, z = np.array(linear[..., 0]), np.array(linear[..., 1]), np.array(linear[..., 2])
    length2 = nonzero(dots(y, y))[..., None]
    x -= y * dots(x, y)[..., None] / length2
    z -= y * dots(z, y)[..., None] / length2
    for axis, column in ((x, 0), (z, 2)):  # of one along y nothing is left but rounding
        axis[dots(axis, axis) <= least[..., column] ** 2] = 0.0
    if normalize:
        y /= np.sqrt(length2)
    length_x = lengths(x)[..., None]
    length_z = lengths(z)[..., None]
    unit_x, unit_z = x / nonzero(length_x), z / nonzero(length_z)
    cosine = dots(unit_x, unit_z)[..., None]
    sheared = ((np.abs(cosine) > SHEAR_COSINE) & (np.abs(cosine) < DEGENERATE_COSINE))[..., 0]
    if normalize:
        x, z = unit_x, unit_z
    if sheared.any():  # hardly ever: what follows takes longer than all the rest
        angle = np.arccos(np.clip(cosine, -1.0, 1.0))
        half = angle + (0.5 * np.pi - angle) / 2.0  # angle that x is brought to from the old z
        across = unit_x - unit_z * cosine
        across /= nonzero(lengths(across))[..., None]
        new_x = across * np.sin(half) + unit_z * np.cos(half)
        new_z = np.cross(np.cross(new_x, unit_z), new_x)
        new_z /= nonzero(lengths(new_z))[..., None]
        area = np.ones_like(angle) if normalize else np.sqrt(np.sin(angle))
        if normalize:
            length_x = length_z = area
        x[sheared] = (new_x * length_x * area)[sheared]
        z[sheared] = (new_z * length_z * area)[sheared]
    return np.stack([x, y, z], axis=-1)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Bones and targets over some frames, in the world, and the way into armature space.

World to armature space is done here, in one place: core knows armature space only, and its lengths are world
metres divided by the scale of the armature object.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from ...core import Pose, Skeleton, forward_kinematics
from ...core.arrays import BoolArray, FloatArray, dots, lengths, times
from ...core.model.rotation import matrix_from_rotvec, rotvec_from_matrix

NO_SCALE: Final = 1e-12
"""Scale or length of a matrix column [1] at and below which nothing can be inverted, nor has a direction."""

NOWHERE: Final = 1e-9
"""Length [m] at and below which a vector has no direction."""

SAME_CHANNEL: Final = 1e-5
"""Difference [m, rad] up to which a channel has the value that was noted of it, in single precision."""

PARALLEL: Final = 1e-9
"""Sine [1] of the angle between two directions up to which nothing is across them."""

BY_FRAME: Final = ("world_from_armature", "world_from_joint", "world_from_target", "influences", "lengths")
"""Arrays of `FrameData` that have a row for each frame."""


@dataclass(frozen=True)
class Body:
    """What bones weigh."""

    masses: FloatArray
    """Of each joint, (n,), in any unit."""
    centres: FloatArray
    """Where, in the joint's own axes, (n, 3) [m]."""

    def centre(self, joints: FloatArray) -> FloatArray:
        """Centre of mass of bones with the matrices (F, n, 4, 4), (F, 3)."""
        return np.einsum("j,fjx->fx", self.masses / self.masses.sum(), points_of(joints, self.centres))


@dataclass(frozen=True)
class FrameData:
    """Bones and targets over some frames, and the poses from which these are solved."""

    skeleton: Skeleton
    pose: Pose
    """As found, (F, n)."""
    world_from_armature: FloatArray
    """(F, 4, 4): rotation, even scale."""
    world_from_joint: FloatArray
    """Bones as they are shown, (F, n, 4, 4) [m]."""
    world_from_target: FloatArray
    """(F, T, 4, 4) [m], as `effectors.world_from_targets` has them."""
    influences: FloatArray
    """How far each effector takes part, (F, E) [1]."""
    lengths: FloatArray
    """Distances and heights that can be animated, (F, E) [m]; 0 for kinds that have none."""
    body: Body | None = None
    """What bones weigh; None where no effector asks."""
    recorded: FloatArray | None = None
    """Channels of the recorded motion, NaN where it has none, (F, n, 6) [m, rad]; None without one."""
    origin: Pose | None = None
    """Where influences below 1 begin, (F, n); None where it is `pose`."""

    @classmethod
    def joined(cls, parts: Sequence["FrameData"]) -> "FrameData":
        """Several, one after the other, of which none has an origin."""
        arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in BY_FRAME}
        recorded = [part.recorded for part in parts if part.recorded is not None]
        if recorded:
            arrays["recorded"] = np.concatenate(recorded)
        poses = ([getattr(part.pose, name) for part in parts] for name in ("channels", "scale"))
        return replace(parts[0], pose=Pose(*map(np.concatenate, poses)), **arrays)

    def __len__(self) -> int:
        return len(self.influences)

    def __getitem__(self, frames: slice) -> "FrameData":
        """Some of the frames."""
        own = {name: getattr(self, name)[frames] for name in ("pose", *BY_FRAME)}
        own["recorded"] = None if self.recorded is None else self.recorded[frames]
        return replace(self, **own, origin=None if self.origin is None else self.origin[frames])

    def as_recorded(self) -> "FrameData":
        """The same with free channels, and the bones that they pose, where the recording has them."""
        if self.recorded is None:
            return self
        known = self.skeleton.free & ~np.isnan(self.recorded)
        channels = np.where(known, self.recorded, self.pose.channels)
        if np.array_equal(channels, self.pose.channels):
            return self
        pose = self.pose.with_channels(channels)
        return replace(self, origin=pose).start

    @cached_property
    def start(self) -> "FrameData":
        """The same with bones where influences below 1 begin."""
        if self.origin is None:
            return self
        matrices = forward_kinematics(self.skeleton, self.origin).matrices
        joints = self.world_from_armature[:, None] @ matrices
        return replace(self, pose=self.origin, world_from_joint=joints, origin=None)

    def begun(self, joints: BoolArray) -> "FrameData":
        """The same with free channels of some joints (F, n), and bones, where influences below 1 begin."""
        if self.origin is None:
            return self
        way = self.origin.channels - self.pose.channels
        way[~(joints[..., None] & self.skeleton.free) | (np.abs(way) <= SAME_CHANNEL)] = 0.0
        if not way.any():
            return self
        pose = self.pose.with_channels(self.pose.channels + way)
        return replace(replace(self, origin=pose).start, origin=self.origin)

    @cached_property
    def scale(self) -> FloatArray:
        """World metres to one armature unit, (F,)."""
        return np.cbrt(np.linalg.det(self.world_from_armature[:, :3, :3]))

    @property
    def largest_scale(self) -> float:
        """The same in the frame in which the object is largest."""
        return float(self.scale.max())

    @cached_property
    def armature_from_axes(self) -> FloatArray:
        """The world's axes in armature space, (F, 3, 3)."""
        return np.swapaxes(orientations(self.world_from_armature), -1, -2)

    @cached_property
    def target_rotations(self) -> FloatArray:
        """Rotations of targets in the world, as by `orientations`, (F, T, 3, 3)."""
        return orientations(self.world_from_target)

    def bone(self, name: str) -> FloatArray:
        """Matrices of a bone, (F, 4, 4)."""
        return self.world_from_joint[:, self.skeleton.index(name)]

    @property
    def centre(self) -> FloatArray:
        """Centre of mass, (F, 3) [m]."""
        assert self.body is not None
        return self.body.centre(self.world_from_joint)

    def to_armature(self, places: FloatArray) -> FloatArray:
        """Places (F, 3) [m] of the world in armature space."""
        return points_of(self._armature_from_world, places)

    @cached_property
    def _armature_from_world(self) -> FloatArray:
        return np.linalg.inv(self.world_from_armature).astype(np.float64)


def orientations(matrices: FloatArray) -> FloatArray:
    """Return rotations without scale, shear and mirroring, (..., 4, 4) -> (..., 3, 3).

    A mirrored matrix is turned inside out first, as Blender does when it shows a rotation. nan where an axis
    has no length, or one that is not a number.
    """
    linear = matrices[..., :3, :3]
    columns = np.linalg.norm(linear, axis=-2)
    flat = ~((columns > NO_SCALE) & np.isfinite(columns)).all(-1)[..., None, None]
    found = orthogonal(np.where(flat, np.eye(3), linear))
    return np.where(flat, np.nan, found * np.where(np.linalg.det(found) < 0.0, -1.0, 1.0)[..., None, None])


def orthogonal(matrices: FloatArray) -> FloatArray:
    """Return rotations without scale and shear, mirrored where matrices are, (..., 4, 4) -> (..., 3, 3).

    The nearest ones: of a sheared matrix no axis is more right than another.
    """
    linear = matrices[..., :3, :3]
    u, _, vt = np.linalg.svd(linear / np.linalg.norm(linear, axis=-2, keepdims=True))
    return u @ vt


def points_of(matrices: FloatArray, points: Sequence[float] | FloatArray) -> FloatArray:
    """Points (..., 3) of bones with matrices (..., 4, 4) in the space of these."""
    local = np.asarray(points, dtype=np.float64)
    return times(matrices[..., :3, :3], local) + matrices[..., :3, 3]


def mixed(start: FloatArray, end: FloatArray, part: FloatArray) -> FloatArray:
    """On the way from start to end; exactly the end at 1."""
    return np.where(part == 1.0, end, start + part * (end - start))


def turned(start: FloatArray, end: FloatArray, part: FloatArray) -> FloatArray:
    """Rotations (..., 3, 3) on the shortest way from start to end, for parts (..., 1); the end at 1.

    A start without orientation, nan, counts as the end.
    """
    start = np.where(np.isnan(start), end, start)
    way = rotvec_from_matrix(np.swapaxes(start, -1, -2) @ end)
    return np.where(part[..., None] == 1.0, end, start @ matrix_from_rotvec(part * way))


def swung(start: FloatArray, end: FloatArray, part: FloatArray) -> FloatArray:
    """Vectors (F, 3) as long as `end` on the shortest way there from the direction of `start`.

    Where the two are opposite it is one of the ways; where one has no direction it is the end.
    """
    angle = angle_between(start, end)[:, None]
    axis = np.cross(start, end)
    # Of opposite directions any axis across will do: that across the coordinate axis they are furthest from.
    spare = np.cross(start, np.eye(3)[np.abs(start).argmin(axis=1)])
    axis = np.where((lengths(axis) <= PARALLEL * lengths(start) * lengths(end))[:, None], spare, axis)
    length = lengths(axis)[:, None]
    axis = axis / np.where(length > 0.0, length, 1.0)
    back = matrix_from_rotvec(axis * angle * (part - 1.0))
    return np.where(part == 1.0, end, times(back, end))


def angle_between(first: FloatArray, second: FloatArray) -> FloatArray:
    """Angles between vectors, (..., 3) -> (...) [rad]; 0 where one has no direction."""
    angle = np.arctan2(lengths(np.cross(first, second)), dots(first, second))
    return np.where((lengths(first) > NOWHERE) & (lengths(second) > NOWHERE), angle, 0.0)


def across(vectors: FloatArray, along: FloatArray) -> FloatArray:
    """The parts of vectors (..., 3) that are across others."""
    length = lengths(along)[..., None]
    axis = along / np.where(length > NOWHERE, length, 1.0)
    return vectors - dots(vectors, axis)[..., None] * axis


def normals(matrices: FloatArray) -> FloatArray:
    """Normals of the XY planes of matrices, (..., 4, 4) -> (..., 3), on the side of Z; nan for none.

    Across X and Y, and not Z itself: of a sheared target that is not the normal, and a floor is often flat.
    """
    x, y, z = (matrices[..., :3, axis] for axis in range(3))
    normal = np.cross(x, y)
    length = lengths(normal)
    flat = (
        (lengths(x) <= NO_SCALE) | (lengths(y) <= NO_SCALE) | (length <= NO_SCALE * lengths(x) * lengths(y))
    )
    normal = normal / np.where(flat, 1.0, length)[..., None]
    side = np.where(dots(normal, z) < 0.0, -1.0, 1.0)
    return np.where(flat[..., None], np.nan, normal * side[..., None])

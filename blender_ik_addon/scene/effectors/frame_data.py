# SPDX-License-Identifier: GPL-3.0-or-later
"""Bones, targets and goals over some frames, in the world and in armature space, and the way between these.

World to armature space is done here, in one place: core knows armature space only, and its lengths are world
metres by the scale of the armature object.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ...core import Skeleton
from ...core.arrays import FloatArray
from ...core.model.rotation import matrix_from_rotvec, rotvec_from_matrix
from ..armature.armature import NO_SCALE
from .effectors import orientations

NOWHERE: Final = 1e-9
"""Length [m] at and below which a vector has no direction."""

PARALLEL: Final = 1e-9
"""Sine [1] of the angle between two directions up to which nothing is across them."""


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
    """Bones and targets over some frames: from where, and where to."""

    skeleton: Skeleton
    world_from_armature: FloatArray
    """(F, 4, 4): rotation, even scale."""
    world_from_target: FloatArray
    """(F, E, 4, 4) [m], and further rows for effectors with several targets."""
    influences: FloatArray
    """(F, E) [1]."""
    lengths: FloatArray
    """Distances of DISTANCE and heights of PLANE and FLOOR, (F, E) [m]."""
    channels: FloatArray
    """Of the pose that was read, where influences below 1 begin, (F, n, 6)."""
    world_from_joint: FloatArray | None = None
    """Bones of that pose, (F, n, 4, 4) [m]; None where nobody asks, see `needs_joints`."""
    world_from_present: FloatArray | None = None
    """Bones as they are at present, (F, n, 4, 4) [m]; None where that pose is the present one."""
    body: Body | None = None
    """None where nobody asks."""
    further: tuple[int, ...] = ()
    """Of each effector the row of `world_from_target` from which on its further targets are, (E,)."""

    @property
    def scale(self) -> FloatArray:
        """World metres to one armature unit, (F,)."""
        return np.cbrt(np.linalg.det(self.world_from_armature[:, :3, :3]))

    def with_target(self, number: int, row: int) -> "FrameData":
        """The same with what is in one row of `world_from_target` for an effector's target."""
        if row == number:
            return self
        matrices = self.world_from_target.copy()
        matrices[:, number] = matrices[:, row]
        return replace(self, world_from_target=matrices)

    def part(self, number: int) -> FloatArray:
        """How far an effector takes part, as a column, (F, 1)."""
        return self.influences[:, number, None]

    def whole(self, number: int) -> bool:
        """Whether an effector takes part fully in all frames."""
        return bool((self.influences[:, number] == 1.0).all())

    def bone(self, name: str) -> FloatArray:
        """Matrices of a bone in the pose that was read, (F, 4, 4)."""
        assert self.world_from_joint is not None
        return self.world_from_joint[:, self.skeleton.index(name)]

    def present_bone(self, name: str) -> FloatArray:
        """Matrices of a bone as it is at present, (F, 4, 4)."""
        if self.world_from_present is None:
            return self.bone(name)
        return self.world_from_present[:, self.skeleton.index(name)]


@dataclass(frozen=True)
class Goal:
    """What one effector asks for, in world space; only what its kind has is filled in."""

    place: FloatArray | None = None
    """Where a point should be, what a ray points at, what a limb bends to, a point of a plane, (F, 3) [m]."""
    rotation: FloatArray | None = None
    """(F, 3, 3)."""
    normal: FloatArray | None = None
    """Of a plane, (F, 3) [1]."""
    length: FloatArray | None = None
    """Distance, (F,) [m]."""
    channels: FloatArray | None = None
    """Of a pose, (F, n, 6) [m, rad]."""
    choices: "tuple[Goal, ...]" = ()
    """Goals of which one is enough."""


@dataclass(frozen=True)
class Space:
    """The way from the world into armature space over some frames."""

    armature_from_world: FloatArray
    """(F, 4, 4)."""
    armature_from_axes: FloatArray
    """The world's axes in armature space, (F, 3, 3)."""
    scale: FloatArray
    """World metres to one armature unit, (F,)."""

    @classmethod
    def of(cls, frame_data: FrameData) -> "Space":
        """The space of an armature object."""
        matrices = frame_data.world_from_armature
        inverse = np.asarray(np.linalg.inv(matrices), dtype=np.float64)
        return cls(inverse, np.swapaxes(orientations(matrices), -1, -2), frame_data.scale)

    def place(self, world: FloatArray | None) -> FloatArray:
        """Places (F, 3) [m] in armature space."""
        assert world is not None
        ones = np.ones((len(world), 1))
        return (self.armature_from_world @ np.concatenate([world, ones], axis=1)[..., None])[:, :3, 0]

    def length(self, world: float) -> float:
        """A length [m] in armature units, of the frame in which the object is largest."""
        return world / float(self.scale.max())

    def direction(self, world: FloatArray | None) -> FloatArray:
        """Directions (F, 3) in armature space."""
        assert world is not None
        return (self.armature_from_axes @ world[..., None])[..., 0]


@dataclass(frozen=True)
class Posed:
    """Bones after a solve, over some frames."""

    skeleton: Skeleton
    world_from_joint: FloatArray
    """(F, n, 4, 4) [m]."""
    scale: FloatArray
    """World metres to one armature unit, (F,)."""
    channels: FloatArray
    """As Blender holds them, (F, n, 6); not used without an effector of the kind STAY."""
    body: Body | None = None

    def bone(self, name: str) -> FloatArray:
        """Matrices of a bone, (F, 4, 4)."""
        return self.world_from_joint[:, self.skeleton.index(name)]


def points_of(matrices: FloatArray, points: Sequence[float] | FloatArray) -> FloatArray:
    """Points (..., 3) of bones with matrices (..., 4, 4) in the space of these."""
    local = np.asarray(points, dtype=np.float64)
    return (matrices[..., :3, :3] @ local[..., None])[..., 0] + matrices[..., :3, 3]


def size(vectors: FloatArray) -> FloatArray:
    """Lengths of vectors, (..., 3) -> (...)."""
    return np.sqrt(np.einsum("...x,...x->...", vectors, vectors))


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
    axis = np.where((size(axis) <= PARALLEL * size(start) * size(end))[:, None], spare, axis)
    length = size(axis)[:, None]
    axis = axis / np.where(length > 0.0, length, 1.0)
    back = matrix_from_rotvec(axis * angle * (part - 1.0))
    return np.where(part == 1.0, end, (back @ end[..., None])[..., 0])


def angle_between(first: FloatArray, second: FloatArray) -> FloatArray:
    """Angles between vectors, (..., 3) -> (...) [rad]; 0 where one has no direction."""
    angle = np.arctan2(size(np.cross(first, second)), np.einsum("...x,...x->...", first, second))
    return np.where((size(first) > NOWHERE) & (size(second) > NOWHERE), angle, 0.0)


def across(vectors: FloatArray, along: FloatArray) -> FloatArray:
    """What of vectors (F, 3) is across others."""
    length = size(along)[:, None]
    axis = along / np.where(length > NOWHERE, length, 1.0)
    return vectors - np.einsum("fx,fx->f", vectors, axis)[:, None] * axis


def normals(matrices: FloatArray) -> FloatArray:
    """Normals of the XY planes of matrices, (..., 4, 4) -> (..., 3), on the side of Z; nan for none.

    Across X and Y, and not Z itself: of a sheared target that is not the normal, and a floor is often flat.
    """
    x, y, z = (matrices[..., :3, axis] for axis in range(3))
    normal = np.cross(x, y)
    length = size(normal)
    flat = (size(x) <= NO_SCALE) | (size(y) <= NO_SCALE) | (length <= NO_SCALE * size(x) * size(y))
    normal = normal / np.where(flat, 1.0, length)[..., None]
    side = np.where(np.einsum("...x,...x->...", normal, z) < 0.0, -1.0, 1.0)
    return np.where(flat[..., None], np.nan, normal * side[..., None])

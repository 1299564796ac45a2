# SPDX-License-Identifier: GPL-3.0-or-later
"""Bones and targets over some frames, in the world, and the way into armature space.

World to armature space is done here, in one place: core knows armature space only, and its lengths are world
metres divided by the scale of the armature object.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
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
    """Bones and targets over some frames."""

    skeleton: Skeleton
    world_from_armature: FloatArray
    """(F, 4, 4): rotation, even scale."""
    world_from_target: FloatArray
    """(F, T, 4, 4) [m], as `targets.world_from_targets` has them."""
    influences: FloatArray
    """(F, E) [1]."""
    lengths: FloatArray
    """Distances of DISTANCE and heights of PLANE and FLOOR, (F, E) [m]."""
    channels: FloatArray
    """Of the pose where influences below 1 begin, (F, n, 6)."""
    world_from_joint: FloatArray = field(default_factory=lambda: np.zeros((0, 0, 4, 4)))
    """Bones of that pose, (F, n, 4, 4) [m]; empty where no goal needs them, see `needs_joints`."""
    world_from_present: FloatArray | None = None
    """Bones as they are at present, (F, n, 4, 4) [m]; None where that pose is the present one."""
    body: Body | None = None
    """What bones weigh; None where no effector asks."""

    @cached_property
    def scale(self) -> FloatArray:
        """World metres to one armature unit, (F,)."""
        return np.cbrt(np.linalg.det(self.world_from_armature[:, :3, :3]))

    @cached_property
    def armature_from_axes(self) -> FloatArray:
        """The world's axes in armature space, (F, 3, 3)."""
        return np.swapaxes(orientations(self.world_from_armature), -1, -2)

    def bone(self, name: str) -> FloatArray:
        """Matrices of a bone, (F, 4, 4)."""
        return self.world_from_joint[:, self.skeleton.index(name)]

    def present_bone(self, name: str) -> FloatArray:
        """Matrices of a bone as it is at present, (F, 4, 4)."""
        if self.world_from_present is None:
            return self.bone(name)
        return self.world_from_present[:, self.skeleton.index(name)]

    @cached_property
    def armature_from_world(self) -> FloatArray:
        """(F, 4, 4)."""
        return np.asarray(np.linalg.inv(self.world_from_armature), dtype=np.float64)

    def to_armature(self, places: FloatArray) -> FloatArray:
        """Places (F, 3) [m] of the world in armature space."""
        return points_of(self.armature_from_world, places)

    def armature_length(self, length: float) -> float:
        """A length [m] in armature units, of the frame in which the object is largest."""
        return length / float(self.scale.max())


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
    """The parts of vectors (..., 3) that are across others."""
    length = size(along)[..., None]
    axis = along / np.where(length > NOWHERE, length, 1.0)
    return vectors - np.einsum("...x,...x->...", vectors, axis)[..., None] * axis


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

# SPDX-License-Identifier: GPL-3.0-or-later
"""Aims: a ray from a joint through a point of space, as eyes, a pointing hand, a camera."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np

from ..arrays import BoolArray, FloatArray, frozen
from ..mechanism import Mechanism, PointBend, PosedMechanism, cross
from ..rotation import skew
from ..skeleton import Skeleton
from .base import (
    ORIGIN,
    Rows,
    SummedBend,
    Task,
    checked_vector,
    frame_axis,
    of_frame,
    stack_frames,
    stack_targets,
)
from .forms import FormBend

ALONG_BONE: Final = frozen([0.0, 1.0, 0.0])
"""Direction of a bone in the axes of its joint."""

NEAREST: Final = 1e-9
"""Distance of a target in units of the reach [1] within which it is where the ray begins: there is nothing to
aim at, and the task counts as met."""


@dataclass(frozen=True, kw_only=True)
class AimAt(Task):
    """Turn a joint so that a ray from it passes through a point, ahead and not behind [KiSheen §2]."""

    joint: str | int
    """Name or index of the joint."""
    target: FloatArray
    """Where the ray should pass, in armature space, (3,) or (F, 3) [m]."""
    axis: FloatArray = field(default_factory=lambda: ALONG_BONE)
    """Direction of the ray in the joint's own axes, of any length, (3,) [1]."""
    point: FloatArray = field(default_factory=lambda: ORIGIN)
    """Where the ray begins, in the joint's own axes, (3,) [m]."""
    angular: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, by_frame, direction in (
            ("target", True, False),
            ("axis", False, True),
            ("point", False, False),
        ):
            given = getattr(self, name)
            if given is not ORIGIN and given is not ALONG_BONE:
                array = checked_vector(self.label, name, given, by_frame=by_frame, direction=direction)
                object.__setattr__(self, name, array)

    @property
    def label(self) -> str:
        """Name for messages."""
        return self.name or f"aim of {self.joint}"

    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when the joint does not exist."""
        skeleton.index(self.joint)

    def joints(self, skeleton: Skeleton) -> list[int]:
        """The joint."""
        return [skeleton.index(self.joint)]

    @property
    def frames(self) -> int | None:
        """Number of frames of the target, None when it is the same in all."""
        return frame_axis(self.target, 1)

    def at_frame(self, frame: int) -> AimAt:
        """The task with the target of one frame."""
        return replace(self, target=of_frame(self.target, 1, frame))

    def moved(self, target: FloatArray) -> AimAt:
        """The same task with another target, (3,) [m]."""
        return replace(self, target=target)

    @staticmethod
    def rows(tasks: Sequence[Task], mechanism: Mechanism) -> Rows:
        """Stack tasks of this kind."""
        return AimRows([task for task in tasks if isinstance(task, AimAt)], mechanism)


class AimRows(Rows):
    """Aims: r = w (a − u), a the direction of the ray and u = d/|d| that to the target, d = target − p.

    Of the angle θ between the two |r| = 2w sin(θ/2): nearly the angle where it is small, greatest in the
    opposite direction, and smooth everywhere, as no residual of two rows can be. There the gradient is zero,
    so that a solver must leave it along the curvature. The derivatives are exact:

        ∂a = ω × a,    ∂u = −(1 − uuᵀ) ∂p / |d|,
        −μ·∂²u = ((1 − uuᵀ)μ)·∂²p/|d| + ∂pᵀ M ∂p,    M = (μuᵀ + uμᵀ + (μ·u)(1 − 3uuᵀ))/|d|².
    """

    by_frame: ClassVar[tuple[str, ...]] = ("_local", "_axis", "_target")

    def __init__(self, tasks: Sequence[AimAt], mechanism: Mechanism) -> None:
        joints = [mechanism.skeleton.index(task.joint) for task in tasks]
        self._anchors = np.array([mechanism.anchor(joint) for joint in joints], dtype=np.int64)
        self._weight = np.array([task.weight for task in tasks], dtype=np.float64)
        self._nearest = NEAREST * mechanism.skeleton.reach
        self.row_counts = (3,) * len(tasks)
        self.angular = np.ones(3 * len(tasks), dtype=np.bool_)
        matrices = np.stack([mechanism.anchor_from_joint(joint) for joint in joints], axis=1)
        points, axes = (np.array([getattr(task, key) for task in tasks]) for key in ("point", "axis"))
        self._local = (matrices[..., :3, :3] @ points[..., None])[..., 0] + matrices[..., :3, 3]  # (F, E, 3)
        stretched = (matrices[..., :3, :3] @ axes[..., None])[..., 0]
        self._axis = stretched / np.maximum(_size(stretched), np.finfo(np.float64).tiny)[..., None]
        self._target = stack_frames([task.target for task in tasks], 1)

    def aimed(self, targets: Sequence[FloatArray]) -> AimRows:
        """The same rows of one frame with other targets, (3,) [m] each."""
        some = copy(self)
        some._target = stack_targets(targets, (3,))
        return some

    def _aim(self, posed: PosedMechanism) -> _Aim:
        """Where the rays are."""
        points = posed.points(self._anchors, self._local)
        axis = (posed.matrices[:, self._anchors, :3, :3] @ self._axis[..., None])[..., 0]
        away = self._target - points
        distance = _size(away)
        there: BoolArray = distance > self._nearest
        towards = np.where(there[..., None], away / np.where(there, distance, 1.0)[..., None], axis)
        return _Aim(points, axis, towards, np.where(there, 1.0 / np.where(there, distance, 1.0), 0.0), there)

    def _flat(self, rows: FloatArray) -> FloatArray:
        """(F, E, 3, ...) -> (F, m, ...)."""
        return rows.reshape(len(rows), rows.shape[1] * 3, *rows.shape[3:])

    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted a − u, (F, m)."""
        aim = self._aim(posed)
        return self._flat((aim.axis - aim.towards) * self._weight[:, None])

    def linearize(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Residual and Jacobian."""
        aim = self._aim(posed)
        residual = (aim.axis - aim.towards) * self._weight[:, None]
        turning = self._axis_jacobian(posed, aim)
        across = np.eye(3) - aim.towards[..., :, None] * aim.towards[..., None, :]
        moving = (across * aim.nearness[..., None, None]) @ posed.point_jacobian(self._anchors, aim.points)
        jacobian = (turning + moving) * self._weight[:, None, None]
        return self._flat(residual), self._flat(jacobian)

    def _axis_jacobian(self, posed: PosedMechanism, aim: _Aim) -> FloatArray:
        """∂a/∂q, 0 where there is nothing to aim at, (F, E, 3, nv)."""
        turned = -skew(aim.axis) @ posed.angular_jacobian(self._anchors)
        return turned * aim.there[..., None, None]

    def curvature(self, posed: PosedMechanism, multipliers: FloatArray | None = None) -> FloatArray:
        """Exact."""
        if multipliers is None:
            multipliers = self.residual(posed)
        return self.bend(posed, multipliers).matrix()

    def bend(self, posed: PosedMechanism, multipliers: FloatArray) -> SummedBend:
        """Exact."""
        aim = self._aim(posed)
        forces = multipliers.reshape(len(multipliers), len(self._anchors), 3) * self._weight[:, None]
        turning = self._axis_jacobian(posed, aim)
        omega = np.swapaxes(posed.angular_jacobian(self._anchors), -1, -2)  # (F, E, nv, 3)
        torque = cross(np.broadcast_to(forces[:, :, None, :], omega.shape), omega)
        moving = posed.point_jacobian(self._anchors, aim.points)
        along = np.einsum("fek,fek->fe", forces, aim.towards)[..., None]
        pulls = (forces - along * aim.towards) * aim.nearness[..., None]
        direct = aim.towards[..., :, None] * aim.towards[..., None, :]
        mixed = forces[..., :, None] * aim.towards[..., None, :]
        forms = mixed + np.swapaxes(mixed, -1, -2) + along[..., None] * (np.eye(3) - 3.0 * direct)
        return SummedBend(
            (
                PointBend(torque * aim.there[..., None, None], turning, None),
                posed.point_bend(self._anchors, pulls, moving),
                FormBend(moving, forms * aim.nearness[..., None, None] ** 2),
            )
        )

    def turns(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Rays and where they should point, each as the first column of a matrix, (F, E, 3, 3)."""
        aim = self._aim(posed)
        current, target = np.zeros((2, *aim.axis.shape, 3))
        current[..., 0], target[..., 0] = aim.axis, aim.towards
        return current, target

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Angles between ray and target, (F, tasks) [rad]."""
        aim = self._aim(posed)
        cosine = np.einsum("fek,fek->fe", aim.axis, aim.towards)
        angle: FloatArray = np.arctan2(_size(cross(aim.axis, aim.towards)), cosine)
        return np.where(aim.there, angle, 0.0)


@dataclass(frozen=True)
class _Aim:
    """Rays at a pose."""

    points: FloatArray
    """Where they begin, (F, E, 3) [m]."""
    axis: FloatArray
    """a, (F, E, 3)."""
    towards: FloatArray
    """u, (F, E, 3); a where there is nothing to aim at."""
    nearness: FloatArray
    """1/|d|, 0 where there is nothing to aim at, (F, E) [1/m]."""
    there: BoolArray
    """Where there is something to aim at, (F, E)."""


def _size(vectors: FloatArray) -> FloatArray:
    """(..., 3) -> (...)."""
    return np.sqrt(np.einsum("...k,...k->...", vectors, vectors))

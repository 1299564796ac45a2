# SPDX-License-Identifier: GPL-3.0-or-later
"""Aims: a ray from a joint through a point of space, as eyes, a pointing hand, a camera."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from math import factorial
from typing import ClassVar, Final

import numpy as np

from ..arrays import BoolArray, FloatArray, frozen, lengths, times
from ..model.bends import Bend, cross
from ..model.kinematics import COLLAPSED
from ..model.mechanism import Mechanism
from ..model.posed import PosedMechanism
from ..model.rotation import skew
from .base import JointTask, Rows, anchored, of_pose, stack_frames
from .fields import DirectionField, PlaceField, PointField

ALONG_BONE: Final = frozen([0.0, 1.0, 0.0])
"""Direction of a bone in the axes of its joint."""

NEAREST: Final = 1e-9
"""Distance of a target in units of the reach [1] within which it is where the ray begins: there is nothing to
aim at, and the task counts as met."""

OPPOSITE: Final = 1e-4
"""Angle [rad] from the opposite direction within which slopes are those at this angle: they grow without
bound, and would hide those of everything else."""

SERIES: Final = 0.05
"""1 − cos θ [1] below which θ/sin θ is taken from its series."""


@dataclass(frozen=True, repr=False, eq=False)
class AimAt(JointTask):
    """Turn a joint so that a ray from it passes through a point, ahead and not behind [KiSheen §2]."""

    target: PlaceField = PlaceField()
    """Where the ray should pass, in armature space, (3,) or (F, 3) [m]."""
    _: KW_ONLY
    axis: DirectionField = DirectionField(default=ALONG_BONE)
    """Direction of the ray in the joint's own axes, of any length, (3,) [1]."""
    point: PointField = PointField()
    """Where the ray begins, in the joint's own axes, (3,) [m]."""
    angular: ClassVar[bool] = True
    noun: ClassVar[str] = "aim"


class AimRows(Rows, of=AimAt):
    """Aims: r_i = −w F (b_i·u), b_1 and b_2 across the ray a, u = d/|d| towards the target, d = target − p.

    With c = a·u = cos θ and F(c) = θ/sin θ it is |r| = w θ: the turn by which the ray is off, as seen from
    the joint, whose b_i turn with it. Two rows of full rank, smooth but for the opposite direction; there two
    rows must jump, for without a jump they would be zero somewhere else than at the target. Three could be
    smooth, as a − u is, but would have rank two at the target, where multipliers of a third have no bound.
    The derivatives are exact, those of scalar products of vectors that turn with the joint and of u,

        ∂b = ω × b,    ∂u = −(1 − uuᵀ) ∂p / |d|,    F' = (cF − 1)/(1 − c²),    F'' = (F + 3cF')/(1 − c²),
        v·∂²u = −((1 − uuᵀ)v)·∂²p/|d| − ∂pᵀ (vuᵀ + uvᵀ + (v·u)(1 − 3uuᵀ)) ∂p/|d|².

    A joint that is scaled to nothing along its ray has none: its rows are 0, and its error is infinite.
    """

    by_frame: ClassVar[tuple[str, ...]] = ("_local", "_frame", "_target", "_weight", "_nothing")

    def __init__(self, tasks: Sequence[AimAt], mechanism: Mechanism) -> None:
        joints = [mechanism.skeleton.index(task.joint) for task in tasks]
        self._anchors, self._local = anchored(
            [(joint, task.point) for joint, task in zip(joints, tasks, strict=True)], mechanism
        )
        self._weight = np.array([task.weight for task in tasks], dtype=np.float64)
        self._nearest = NEAREST * mechanism.skeleton.reach
        self.row_counts = (2,) * len(tasks)
        self.angular = np.ones(2 * len(tasks), dtype=np.bool_)
        matrices = np.stack([mechanism.anchor_from_joint(joint) for joint in joints], axis=1)
        rays = times(matrices[..., :3, :3], np.array([task.axis for task in tasks]))
        self._nothing: BoolArray = lengths(rays) <= COLLAPSED
        """Whether the joints are scaled to nothing along their rays, (F or 1, E)."""
        self._weight = np.where(self._nothing, 0.0, self._weight)  # (F or 1, E)
        self._frame = axes_along(np.where(self._nothing[..., None], ALONG_BONE, rays))
        """b_1, b_2 and the ray in columns, in the anchors' frames, (F or 1, E, 3, 3)."""
        self._target = stack_frames([task.target for task in tasks], 1)

    @of_pose
    def _aim(self, posed: PosedMechanism) -> _Aim:
        """Where the rays are."""
        points = posed.points(self._anchors, self._local)
        frame = posed.matrices[:, self._anchors, :3, :3] @ self._frame
        away = self._target - points
        distance = lengths(away)
        there: BoolArray = distance > self._nearest
        nearness = np.where(there, 1.0 / np.where(there, distance, 1.0), 0.0)
        towards = np.where(there[..., None], away * nearness[..., None], frame[..., 2])
        parts = (np.swapaxes(frame, -1, -2) @ towards[..., None])[..., 0]
        off, cosine = parts[..., :2], parts[..., 2]
        sine = lengths(off)
        angle = np.arctan2(sine, cosine)
        behind = (sine < OPPOSITE) & (cosine < 0.0)
        # Next to the opposite direction the slopes are those at its rim, the way back that of the first axis.
        off = np.where(behind[..., None] & (sine == 0.0)[..., None], [1.0, 0.0], off)
        off = off * np.where(behind, OPPOSITE / np.where(sine > 0.0, sine, 1.0), 1.0)[..., None]
        cosine = np.where(behind, -np.sqrt(1.0 - OPPOSITE**2), cosine)
        return _Aim(points, frame, towards, nearness, there, off, angle, cosine)

    def _flat(self, rows: FloatArray) -> FloatArray:
        """(F, E, 2, ...) -> (F, m, ...)."""
        return rows.reshape(len(rows), rows.shape[1] * 2, *rows.shape[3:])

    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted turns about two axes across each ray, (F, m)."""
        aim = self._aim(posed)
        factor, _, _ = aim.factors
        return self._flat(-aim.off * (factor * self._weight)[..., None])

    def jacobian(self, posed: PosedMechanism) -> FloatArray:
        """How the turns change, weighted, (F, m, nv)."""
        aim = self._aim(posed)
        factor, slope, _ = aim.factors
        slopes = self._slopes(posed)
        rows = factor[..., None, None] * slopes[..., :2, :]
        rows = rows + (slope[..., None] * aim.off)[..., None] * slopes[..., 2:, :]
        return self._flat(-rows * self._weight[..., None, None])

    @of_pose
    def _slopes(self, posed: PosedMechanism) -> FloatArray:
        """Derivatives of b_1·u, b_2·u and a·u, (F, E, 3, nv)."""
        aim = self._aim(posed)
        turning = cross(np.swapaxes(aim.frame, -1, -2), aim.towards[..., None, :])  # b × u, (F, E, 3, 3)
        turning = turning * aim.there[..., None, None]
        moving = -np.swapaxes(aim.frame, -1, -2) @ aim.across
        return turning @ posed.angular_jacobian(self._anchors) + moving @ posed.point_jacobian(
            self._anchors, aim.points
        )

    def bend(self, posed: PosedMechanism, multipliers: FloatArray) -> Bend:
        """Exact.

        With S = Σ μ_i b_i·u and v = −F Σ μ_i b_i − F'S a, as if that turned with the joint,
        Σ μ_i ∂²r_i = ∂²(v·u) − F'(∂S ∂cᵀ + ∂c ∂Sᵀ) − F''S ∂c ∂cᵀ.
        """
        aim = self._aim(posed)
        factor, slope, bend = aim.factors
        forces = multipliers.reshape(len(multipliers), len(self._anchors), 2) * self._weight[..., None]
        total = np.einsum("fek,fek->fe", forces, aim.off)
        parts = np.concatenate([-factor[..., None] * forces, -(slope * total)[..., None]], axis=-1)
        vector = (aim.frame @ parts[..., None])[..., 0]

        slopes = self._slopes(posed)
        of_total = (forces[..., None, :] @ slopes[..., :2, :])[..., 0, :]
        of_cosine = slopes[..., 2, :]
        outer = -slope[..., None] * of_total - 0.5 * (bend * total)[..., None] * of_cosine

        omega = posed.angular_jacobian(self._anchors) * aim.there[..., None, None]
        turning = -skew(vector) @ omega  # ∂v
        moving = posed.point_jacobian(self._anchors, aim.points)
        towards = -aim.across @ moving  # ∂u

        along = np.einsum("fek,fek->fe", vector, aim.towards)[..., None, None]
        mixed = vector[..., :, None] * aim.towards[..., None, :]
        direct = aim.towards[..., :, None] * aim.towards[..., None, :]
        form = mixed + np.swapaxes(mixed, -1, -2) + along * (np.eye(3) - 3.0 * direct)
        formed = (-0.5 * aim.nearness[..., None, None] ** 2 * form) @ moving
        left = np.concatenate([turning, formed, outer[:, :, None]], axis=2)
        right = np.concatenate([towards, moving, of_cosine[:, :, None]], axis=2)
        shape = (len(left), left.shape[1] * left.shape[2], left.shape[3])
        turned = posed.bend(aim.towards, turning, ((left.reshape(shape), right.reshape(shape)),))
        return turned + posed.bend(-(aim.across @ vector[..., None])[..., 0], moving)

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Angles between ray and target, (F, tasks) [rad]; infinite where a joint has no such axis."""
        return np.where(self._nothing, np.inf, self._aim(posed).angle)


@dataclass(frozen=True)
class _Aim:
    """Rays at a pose."""

    points: FloatArray
    """Where they begin, (F, E, 3) [m]."""
    frame: FloatArray
    """b_1, b_2 and the ray in columns, (F, E, 3, 3)."""
    towards: FloatArray
    """u, (F, E, 3); the ray where there is nothing to aim at."""
    nearness: FloatArray
    """1/|d|, 0 where there is nothing to aim at, (F, E) [1/m]."""
    there: BoolArray
    """Where there is something to aim at, (F, E)."""
    off: FloatArray
    """b_1·u and b_2·u, (F, E, 2)."""
    angle: FloatArray
    """θ, (F, E) [rad]."""
    cosine: FloatArray
    """c, (F, E)."""

    @property
    def across(self) -> FloatArray:
        """(1 − uuᵀ)/|d|, (F, E, 3, 3) [1/m]."""
        direct = self.towards[..., :, None] * self.towards[..., None, :]
        return (np.eye(3) - direct) * self.nearness[..., None, None]

    @cached_property
    def factors(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """F(c) = θ/sin θ and its first two derivatives, (F, E) each.

        For small angles from the series F = Σ (n!)²/(2n + 1)! (2x)ⁿ, x = 1 − c.
        """
        x = 1.0 - self.cosine
        near = x < SERIES
        series = [_polynomial(np.where(near, x, 0.0), own) for own in _SERIES]
        square = np.where(near, 1.0, np.einsum("fek,fek->fe", self.off, self.off))
        factor = self.angle / np.sqrt(square)
        slope = (self.cosine * factor - 1.0) / square
        bend = (factor + 3.0 * self.cosine * slope) / square
        far = (factor, slope, bend)
        first, second, third = (np.where(near, a, b) for a, b in zip(series, far, strict=True))
        return first, second, third


def _series(terms: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Coefficients of F and its derivatives by c in powers of x = 1 − c."""
    own = np.array([factorial(n) ** 2 * 2.0**n / factorial(2 * n + 1) for n in range(terms)], np.float64)
    powers = np.arange(1.0, terms)
    first = own[1:] * powers
    return own, -first, first[1:] * powers[:-1]


def _polynomial(x: FloatArray, coefficients: FloatArray) -> FloatArray:
    """Σ cₙ xⁿ."""
    total = np.zeros_like(x)
    for coefficient in coefficients[::-1]:
        total = total * x + coefficient
    return total


_SERIES: Final = _series(12)


def axes_along(directions: FloatArray) -> FloatArray:
    """Right-handed orthonormal axes (..., 3, 3) of which the third is along directions (..., 3)."""
    third = directions / np.maximum(lengths(directions), np.finfo(np.float64).tiny)[..., None]
    least = np.argmin(np.abs(third), axis=-1)
    first = cross(np.eye(3)[least], third)
    first = first / lengths(first)[..., None]
    return np.stack([first, cross(third, first), third], axis=-1)

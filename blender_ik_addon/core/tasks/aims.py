# SPDX-License-Identifier: GPL-3.0-or-later
"""Aims: a ray from a joint through a point of space, as eyes, a pointing hand, a camera."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from math import factorial
from typing import ClassVar, Final

import numpy as np
from numpy.polynomial import Polynomial

from ..arrays import FloatArray, frozen, lengths, times
from ..model.kinematics import COLLAPSED
from ..model.mechanism import Hessian, Mechanism, PosedMechanism, cross
from ..model.rotation import skew
from .base import (
    PLAIN_AXES,
    DirectionField,
    JointTask,
    PlaceField,
    PointField,
    Rows,
    anchored,
    with_frames,
)

ALONG_BONE: Final = frozen([0.0, 1.0, 0.0])
"""Direction of a bone in the axes of its joint."""

BEFORE: Final = 2e-2
"""Distance in units of the reach [1] by which a ray has to begin before its target, unless tasks hold it
nearer. Else a body would go onto the target rather than turn to it, for next to it any small step gives the
ray its direction."""

APART: Final = 3e-2
"""Weight of the row that keeps it there [1]: it yields to tasks that weigh more."""

NEAREST: Final = 1e-9
"""Distance of a target in units of the reach [1] within which it is where the ray begins: there is nothing to
aim at, and the task counts as met."""

OPPOSITE: Final = 1e-4
"""Angle [rad] from the opposite direction within which slopes are those at this angle: they grow without
bound, and would hide those of everything else."""

SERIES: Final = 0.05
"""1 − cos θ [1] below which derivatives of θ/sin θ are taken from its series."""


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
    noun: ClassVar[str] = "aim of {joint}"
    one_sided: ClassVar[bool] = True


_COSINE: Final = Polynomial([1.0, -1.0])
_TURN: Final = Polynomial([factorial(n) ** 2 * 2.0**n / factorial(2 * n + 1) for n in range(12)])
_A: Final = _COSINE * _TURN.deriv() - _TURN
_B: Final = _COSINE * _A.deriv() - 3.0 * _A
"""cos θ, θ/sin θ, and a and b of `AimRows` in powers of 1 − cos θ."""


class AimRows(Rows, of=AimAt):
    """Aims: F = −h (x, y), h = θ/ρ, of the target d = Bᵀ(t − p) = (x, y, z) in the axes B of the ray.

    The third row is an inequality, γ (|d|/l − β) >= 0, β and γ those of `BEFORE` and `APART`, l the reach.

    ρ = |(x, y)|, and θ = atan2(ρ, z) is the angle between ray and target, so that |F| = θ. Two rows of full
    rank, smooth but for the opposite direction; there two rows must jump, for without a jump they would be
    zero somewhere else than at the target. Three could be smooth, as the difference of directions is, but
    would have rank two at the target, where multipliers of a third have no bound. Where |d| = 1

        ∇h = (a x, a y, −1),    a = (z − h)/ρ²,    ∂a/∂ρ = b ρ,    ∂a/∂z = 2,    b = −(2z + 3a)/ρ²,

    and elsewhere first derivatives of these are divided by |d|, second ones by |d|². With T_i how the target
    would move if the joint carried it,

        ∂d/∂q_i = −Bᵀ T_i,    ∂²d/∂q_i∂q_j = Bᵀ (ω_j × T_i) for i <= j.

    A joint that is scaled to nothing along its ray has none.
    """

    by_frame: ClassVar[tuple[str, ...]] = ("_frame",)

    def __init__(self, tasks: Sequence[AimAt], mechanism: Mechanism) -> None:
        joints = [mechanism.skeleton.index(task.joint) for task in tasks]
        points = [(joint, task.point) for joint, task in zip(joints, tasks, strict=True)]
        matrices = np.stack([mechanism.anchor_from_joint(joint) for joint in joints], axis=1)
        rays = times(matrices[..., :3, :3], np.array([task.axis for task in tasks]))
        nothing = lengths(rays) <= COLLAPSED
        super().__init__(tasks, [3] * len(tasks), nothing)
        self._reach = mechanism.skeleton.reach
        self._give_slacks(tasks, 2, mechanism)
        self.yields[2::3] = True
        self._anchors, self._local = anchored(points, mechanism)
        self._frame = axes_along(np.where(nothing[..., None], ALONG_BONE, rays))
        """B in the anchors' frames, the ray in the third column, (F or 1, E, 3, 3)."""
        self._target = np.stack(with_frames([task.target for task in tasks], 1), axis=1)

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Angles between rays and targets, (F, tasks) [rad]."""
        self.residual(posed)
        return np.where(self._weight[:, self._starts] > 0.0, self._angles, np.inf)

    def _value(self, posed: PosedMechanism) -> FloatArray:
        """F; kept are B, 1/|d| (0 where there is nothing to aim at), and of d's direction (x, y), z and h."""
        self._seen_from: FloatArray = posed.matrices[:, self._anchors, :3, :3] @ self._frame
        away = self._target - posed.points(self._anchors, self._local)
        seen = times(self._seen_from.swapaxes(-1, -2), away)
        distance = lengths(seen)
        there = distance > NEAREST * self._reach
        self._nearness: FloatArray = np.where(there, 1.0 / np.where(there, distance, 1.0), 0.0)
        seen = np.where(there[..., None], seen * self._nearness[..., None], PLAIN_AXES[2])
        self._seen = seen
        off, cosine = seen[..., :2], seen[..., 2]
        sine = lengths(off)
        angle = np.arctan2(sine, cosine)
        behind = (sine < OPPOSITE) & (cosine < 0.0)
        # Next to the opposite direction the slopes are those at its rim, the way back that of the first axis.
        off = np.where((behind & (sine == 0.0))[..., None], [1.0, 0.0], off)
        self._off = off * np.where(behind, OPPOSITE / np.where(sine > 0.0, sine, 1.0), 1.0)[..., None]
        self._cosine = np.where(behind, -np.sqrt(1.0 - OPPOSITE**2), cosine)
        sine = lengths(self._off)
        self._factor = np.where(sine > 0.0, angle / np.where(sine > 0.0, sine, 1.0), 1.0)
        rows = np.empty((*sine.shape, 3))
        rows[..., :2] = -self._off * self._factor[..., None]
        self._angles = lengths(rows[..., :2])
        rows[..., 2] = APART * (distance / self._reach - BEFORE)
        return rows.reshape(len(off), len(self.angular))

    def _slope(self, posed: PosedMechanism) -> FloatArray:
        """∂F/∂q = −∂F/∂d Bᵀ T; kept are −∂F/∂d Bᵀ, (F, E, 3, 3), T, (F, E, 3, nv), a, b, (x, y)ᵀ (x, y)."""
        off, cosine = self._off, self._cosine
        x = 1.0 - cosine
        near = x < SERIES
        square = np.where(near, 1.0, np.einsum("fek,fek->fe", off, off))
        a = np.where(near, _A(x), (cosine - self._factor) / square)
        b = np.where(near, _B(x), -(2.0 * cosine + 3.0 * a) / square)
        products = off[..., :, None] * off[..., None, :]
        across = a[..., None, None] * products + self._factor[..., None, None] * PLAIN_AXES[:2, :2]
        slope = np.empty((*a.shape, 3, 3))
        slope[..., :2, :2], slope[..., :2, 2] = across, -off
        slope[..., :2, :] *= self._nearness[..., None, None]
        slope[..., 2, :] = -APART / self._reach * self._seen
        slope = slope @ self._seen_from.swapaxes(-1, -2)
        targets = np.broadcast_to(self._target, (len(x), *self._target.shape[1:]))
        moving = posed.point_jacobian(self._anchors, targets)
        self._kept = slope, moving, a, b, products
        return (slope @ moving).reshape(len(slope), len(self.angular), moving.shape[3])

    def _hessian(self, posed: PosedMechanism, multipliers: FloatArray) -> Hessian:
        """Exact: ∂²d has the inner channel's ω, a point's second derivative the outer one's.

        So it is Σ ω_i · (T_j × f) over all i and j less what a force f on points that move by T would give.
        """
        off, cosine, (slope, moving, a, b, products) = self._off, self._cosine, self._kept
        forces = multipliers.reshape(len(multipliers), len(self._anchors), 3)
        pulls = (forces[..., None, :] @ slope)[..., 0, :]
        forces, away = forces[..., :2], forces[..., 2]
        # −(μ·(x, y)) ∂²h − μ ∇hᵀ − ∇h μᵀ, at first without the sign and as though |d| were 1.
        second = np.empty((*a.shape, 3, 3))
        second[..., :2, :2] = a[..., None, None] * PLAIN_AXES[:2, :2] + b[..., None, None] * products
        second[..., :2, 2] = second[..., 2, :2] = 2.0 * off
        second[..., 2, 2] = 2.0 * cosine
        second *= np.einsum("fek,fek->fe", forces, off)[..., None, None]
        slope_of_h = np.concatenate([a[..., None] * off, np.full((*a.shape, 1), -1.0)], axis=-1)
        mixed = slope_of_h[..., :, None] * forces[..., None, :]
        second[..., :2] += mixed
        second[..., :2, :] += mixed.swapaxes(-1, -2)
        second *= (-0.5 * self._nearness**2)[..., None, None]
        # ∂²|d| = (1 − d dᵀ/|d|²)/|d|
        turning = PLAIN_AXES - self._seen[..., :, None] * self._seen[..., None, :]
        second += (0.5 * APART / self._reach * away * self._nearness)[..., None, None] * turning
        form = self._seen_from @ second @ self._seen_from.swapaxes(-1, -2)
        left = np.concatenate([posed.angular_jacobian(self._anchors), moving], axis=2)
        right = np.concatenate([skew(pulls) @ moving, form @ moving], axis=2)
        shape = (len(left), left.shape[1] * left.shape[2], left.shape[3])
        return posed.hessian(pulls, moving, ((left.reshape(shape), right.reshape(shape)),))


def axes_along(directions: FloatArray) -> FloatArray:
    """Right-handed orthonormal axes (..., 3, 3) of which the third is along directions (..., 3)."""
    third = directions / np.maximum(lengths(directions), np.finfo(np.float64).tiny)[..., None]
    least = np.argmin(np.abs(third), axis=-1)
    first = cross(np.eye(3)[least], third)
    first = first / lengths(first)[..., None]
    return np.stack([first, cross(third, first), third], axis=-1)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Orientations: a joint turned as a target is; frames: a place as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray, lengths, times
from ..model.mechanism import Mechanism
from ..model.posed import Bend, PosedMechanism
from ..model.rotation import left_jacobian_inverse, log_bend, rotvec_from_matrix
from .base import ALL_AXES, AxisRows, AxisTask, JointTask, Task, stack_frames
from .fields import FrameField, OrientationField, PointField
from .points import ReachPoint


@dataclass(frozen=True, repr=False, eq=False)
class MatchOrientation(AxisTask):
    """Turn a joint to an orientation."""

    target: OrientationField = OrientationField()
    """armature_from_target rotation, (3, 3) or (F, 3, 3); NaN in frames that have none."""
    _: KW_ONLY
    axes: tuple[bool, bool, bool] = ALL_AXES
    """About which of the target's axes the rest of the turn matters."""
    angular: ClassVar[bool] = True
    noun: ClassVar[str] = "orientation"


class OrientationRows(AxisRows, of=MatchOrientation):
    """Orientations: r = w log(Tᵀ R), the rest of the turn as a rotation vector in the target's axes.

    With R turned to exp(ω) R, log(Tᵀ exp(ω) R) = log(exp(Tᵀω) TᵀR), so J = w Jl⁻¹(log TᵀR) Tᵀ ω
    ([Sola2018] eq. 146). The Hessian of ½|log|² about a turn u of angle θ is (θ/2)cot(θ/2) across u and 1
    along it, and successive turns i, j add ½ r · (ω_i × ω_j). A joint that is scaled to nothing has no
    orientation: its rows are 0, and its error is infinite.
    """

    by_frame: ClassVar[tuple[str, ...]] = ("_rotation", "_target", "_weight", "_nothing")

    def __init__(self, tasks: Sequence[MatchOrientation], mechanism: Mechanism) -> None:
        super().__init__([task.weight for task in tasks], [task.axes for task in tasks], angular=True)
        joints = [mechanism.skeleton.index(task.joint) for task in tasks]
        self._anchors: IntArray = np.array([mechanism.anchor(joint) for joint in joints], dtype=np.int64)
        rotation = stack_frames([mechanism.anchor_from_rotation(joint) for joint in joints], 2)
        self._nothing: BoolArray = np.abs(rotation).max(axis=(2, 3)) == 0.0
        """Whether the joints are scaled to nothing, (F or 1, E)."""
        self._rotation = np.where(self._nothing[..., None, None], np.eye(3), rotation)
        self._weight = np.where(self._nothing, 0.0, self._weight)  # (F or 1, E)
        self._target = stack_frames([task.target for task in tasks], 2)
        self._axes = np.array([task.axes for task in tasks], dtype=np.float64)  # (E, 3)

    def _turn(self, posed: PosedMechanism) -> FloatArray:
        """log(TᵀR), (F, E, 3) [rad]."""
        if self._known is None or self._known[0] is not posed:
            current = posed.matrices.take(self._anchors, axis=1)[..., :3, :3] @ self._rotation
            self._known = posed, rotvec_from_matrix(np.swapaxes(self._target, -1, -2) @ current)
        return self._known[1]

    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted rotation vectors, (F, m)."""
        return self._rows(self._turn(posed) * self._weight[..., None])

    def jacobian(self, posed: PosedMechanism) -> FloatArray:
        """How they turn, weighted, (F, m, nv)."""
        from_omega = left_jacobian_inverse(self._turn(posed)) @ np.swapaxes(self._target, -1, -2)
        return self._rows(from_omega * self._weight[..., None, None] @ posed.angular_jacobian(self._anchors))

    def bend(self, posed: PosedMechanism, multipliers: FloatArray) -> Bend:
        """Exact: what `log_bend` knows of one turn, and ½ torque · (ω_i × ω_j) of successive ones."""
        pull, form = log_bend(self._turn(posed), self._forces(multipliers) * self._weight[..., None])
        torques, form = times(self._target, pull), self._target @ form @ self._target.swapaxes(-1, -2)
        omega = posed.angular_jacobian(self._anchors)
        shape = (len(omega), 3 * len(self._anchors), omega.shape[3])
        products = (omega.reshape(shape), (0.5 * form @ omega).reshape(shape))
        return posed.bend(0.5 * torques, omega, (products,))

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Angles about the chosen axes, (F, tasks) [rad]; infinite where a joint has no orientation."""
        angles = lengths(self._turn(posed) * self._axes)
        return np.where(self._nothing, np.inf, angles)


@dataclass(frozen=True, repr=False, eq=False)
class ReachFrame(JointTask):
    """Bring a joint to a place and turn it to an orientation.

    It is solved as a `ReachPoint` and a `MatchOrientation` with its priority, weight, softness and name, and
    has an error for each of them.
    """

    target: FrameField = FrameField()
    """armature_from_target, (4, 4) or (F, 4, 4) [m], or a place and a quaternion in a row, (7,) or (F, 7);
    NaN in frames that have none."""
    _: KW_ONLY
    point: PointField = PointField()
    """What point of the joint goes to the place, in its own axes, (3,) [m]."""
    angular: ClassVar[bool] = False
    noun: ClassVar[str] = "frame"

    @property
    def parts(self) -> tuple[Task, ...]:
        """Place and orientation."""
        shared = {name: getattr(self, name) for name in ("priority", "weight", "softness", "name")}
        place, orientation = self.target[..., :3, 3], self.target[..., :3, :3]
        return (
            ReachPoint(self.joint, place, point=self.point, **shared),
            MatchOrientation(self.joint, orientation, **shared),
        )

# SPDX-License-Identifier: GPL-3.0-or-later
"""Orientations: a joint turned as a target is; frames: a place as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from ..arrays import FloatArray, IntArray, times
from ..model.mechanism import Mechanism
from ..model.posed import Bend, PosedMechanism
from ..model.rotation import left_jacobian_inverse, log_bend, rotvec_from_matrix
from .base import AxisTask, JointTask, Rows, Task, with_frames
from .fields import FrameField, OrientationField, PointField
from .points import ReachPoint


@dataclass(frozen=True, repr=False, eq=False)
class MatchOrientation(AxisTask):
    """Turn a joint to an orientation."""

    target: OrientationField = OrientationField()
    """armature_from_target rotation, (3, 3) or (F, 3, 3); NaN in frames that have none."""
    angular: ClassVar[bool] = True
    noun: ClassVar[str] = "orientation of {joint}"


class OrientationRows(Rows, of=MatchOrientation):
    """Orientations: F = log(Tᵀ R), the rest of the turn as a rotation vector in the target's axes.

    With R turned to exp(ω) R, log(Tᵀ exp(ω) R) = log(exp(Tᵀω) TᵀR), so F' = Jl⁻¹(log TᵀR) Tᵀ ω
    ([Sola2018] eq. 146). The Hessian of ½|log|² about a turn u of angle θ is (θ/2)cot(θ/2) across u and 1
    along it, and successive turns i, j add ½ r · (ω_i × ω_j). A joint that is scaled to nothing has no
    orientation.
    """

    by_frame: ClassVar[tuple[str, ...]] = ("_rotation",)

    def __init__(self, tasks: Sequence[MatchOrientation], mechanism: Mechanism) -> None:
        joints = [mechanism.skeleton.index(task.joint) for task in tasks]
        self._anchors: IntArray = np.array([mechanism.anchor(joint) for joint in joints], dtype=np.int64)
        rotation = np.stack(
            with_frames([mechanism.anchor_from_rotation(joint) for joint in joints], 2), axis=1
        )
        nothing = np.abs(rotation).max(axis=(2, 3)) == 0.0
        self._rotation = np.where(nothing[..., None, None], np.eye(3), rotation)
        super().__init__(tasks, [sum(task.axes) for task in tasks], nothing)
        self._target = np.stack(with_frames([task.target for task in tasks], 2), axis=1)
        self._used: IntArray = np.flatnonzero([task.axes for task in tasks])
        """Which of the rows about all axes there are, (m,)."""

    def _rows(self, weighted: FloatArray) -> FloatArray:
        """(F, E, 3, ...) -> (F, m, ...) without the rows that are switched off."""
        flat = weighted.reshape(len(weighted), weighted.shape[1] * 3, *weighted.shape[3:])
        return flat if len(self._used) == flat.shape[1] else flat[:, self._used]

    def _value(self, posed: PosedMechanism) -> FloatArray:
        current = posed.matrices.take(self._anchors, axis=1)[..., :3, :3] @ self._rotation
        self._turn: FloatArray = rotvec_from_matrix(np.swapaxes(self._target, -1, -2) @ current)
        return self._rows(self._turn)

    def _slope(self, posed: PosedMechanism) -> FloatArray:
        self._omega: FloatArray = posed.angular_jacobian(self._anchors)
        from_omega = left_jacobian_inverse(self._turn) @ np.swapaxes(self._target, -1, -2)
        return self._rows(from_omega @ self._omega)

    def _bend(self, posed: PosedMechanism, multipliers: FloatArray) -> Bend:
        """Exact: what `log_bend` knows of one turn, and ½ torque · (ω_i × ω_j) of successive ones."""
        omega, count = self._omega, len(self._anchors)
        forces = np.zeros((len(multipliers), 3 * count))
        forces[:, self._used] = multipliers
        pull, form = log_bend(self._turn, forces.reshape(len(forces), count, 3))
        torques, form = times(self._target, pull), self._target @ form @ self._target.swapaxes(-1, -2)
        shape = (len(omega), 3 * count, omega.shape[3])
        products = (omega.reshape(shape), (0.5 * form @ omega).reshape(shape))
        return posed.bend(0.5 * torques, omega, (products,))


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
    noun: ClassVar[str] = "frame of {joint}"

    @property
    def parts(self) -> tuple[Task, ...]:
        """Place and orientation."""
        shared = {name: getattr(self, name) for name in ("priority", "weight", "softness", "name")}
        place, orientation = self.target[..., :3, 3], self.target[..., :3, :3]
        return (
            ReachPoint(self.joint, place, point=self.point, **shared),
            MatchOrientation(self.joint, orientation, **shared),
        )

# SPDX-License-Identifier: GPL-3.0-or-later
"""Poles: the plane in which a limb bends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from ..arrays import FloatArray, lengths
from ..bends import cross
from ..errors import IKError
from ..mechanism import Mechanism
from ..posed import PosedMechanism
from ..skeleton import Skeleton
from .base import Rows, Task, checked_vector, stack_frames
from .functions import PointFunctionRows

STRAIGHT: Final = 0.05
"""ε, distance of the middle joint from the axis in units of its bone [1] below which a limb is straight and
its pole has less and less to say."""

NOWHERE: Final = 1e-9
"""Distance from the axis in the same units [1] at which a target has no direction from it."""


@dataclass(frozen=True, kw_only=True)
class PointPole(Task):
    """Bend a limb towards a point: its middle joint lies on the side of its axis where the point is."""

    root: str | int
    """Name or index of the joint where the limb begins: upper arm, thigh."""
    joint: str | int
    """Of its middle joint: forearm, shin."""
    tip: str | int
    """Of the joint where it ends: hand, foot."""
    target: FloatArray
    """Where it should bend to, in armature space, (3,) or (F, 3) [m]."""
    angular: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "target", checked_vector(self.label, "target", self.target, by_frame=True))

    @property
    def label(self) -> str:
        """Name for messages."""
        return self.name or f"pole of {self.joint}"

    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when a joint does not exist, or they do not follow one another."""
        root, middle, tip = self.joints(skeleton)
        if root not in skeleton.ancestors(middle)[1:] or middle not in skeleton.ancestors(tip)[1:]:
            raise IKError(
                f"{self.label}: {self.root!r}, {self.joint!r} and {self.tip!r} must follow one another from "
                "the body outward"
            )
        rest = skeleton.armature_from_joint_rest[[root, middle, tip], :3, 3]
        if not (np.linalg.norm(np.diff(rest, axis=0), axis=1) > 0.0).all():
            raise IKError(f"{self.label}: two of its joints lie at one place in the rest pose")

    def joints(self, skeleton: Skeleton) -> list[int]:
        """Root, middle joint and tip."""
        return [skeleton.index(joint) for joint in (self.root, self.joint, self.tip)]

    @staticmethod
    def rows(tasks: Sequence[Task], mechanism: Mechanism) -> Rows:
        """Stack tasks of this kind."""
        return PoleRows([task for task in tasks if isinstance(task, PointPole)], mechanism)


class PoleRows(PointFunctionRows):
    """Poles: r = w |g| φ, φ the angle about the axis of the limb by which it would have to swing.

    With a, b, c the places of root, middle joint and tip, n the direction from a to c, and X what is across
    it: e = X(b − a), τ = X(t − a), φ from τ to e about n, g = e / √(|e|² + (εl)²), l the length of a to b at
    rest. One row for the one way to swing: it jumps on the far side, as it must, or it would be nothing there
    too; and it fades where the limb is straight.
    """

    by_frame: ClassVar[tuple[str, ...]] = ("_local", "_target")

    def __init__(self, tasks: Sequence[PointPole], mechanism: Mechanism) -> None:
        skeleton = mechanism.skeleton
        joints = [task.joints(skeleton) for task in tasks]
        nowhere = np.zeros(3)
        points = [[(joint, nowhere) for joint in own] for own in joints]
        super().__init__(points, [task.weight for task in tasks], mechanism)
        rest = skeleton.armature_from_joint_rest[:, :3, 3]
        self._length: FloatArray = np.array([lengths(rest[own[1]] - rest[own[0]]) for own in joints])  # (E,)
        self._target = stack_frames([task.target for task in tasks], 1)
        self.row_counts = (1,) * len(tasks)
        self.angular = np.ones(len(tasks), dtype=np.bool_)

    def _across(self, points: FloatArray) -> tuple[FloatArray, ...]:
        """Axis n, |c − a|, X, b − a and t − a, (F, E, ...)."""
        root, middle, tip = points[:, :, 0], points[:, :, 1], points[:, :, 2]
        along = tip - root
        length = np.maximum(lengths(along), NOWHERE * self._length)
        axis = along / length[..., None]
        across = np.eye(3) - axis[..., :, None] * axis[..., None, :]
        return axis, length, across, middle - root, self._target - root

    def value(self, points: FloatArray) -> FloatArray:
        """Angles, less where limbs are straight, (F, E, 1)."""
        axis, _, across, bone, target = self._across(points)
        swing = _Swing.of(axis, across, bone, target, self._length)
        return (swing.share * swing.angle)[..., None]

    def slope(self, points: FloatArray) -> FloatArray:
        """By root, middle joint and tip, (F, E, 1, 3, 3)."""
        axis, length, across, bone, target = self._across(points)
        swing = _Swing.of(axis, across, bone, target, self._length)

        def by_axis(vector: FloatArray, row: FloatArray) -> FloatArray:
            """Row · ∂(X v)/∂(c − a), (F, E, 3)."""
            along = np.einsum("fex,fex->fe", axis, vector)[..., None]
            turned = along * row + np.einsum("fex,fex->fe", axis, row)[..., None] * vector
            return -(turned[..., None, :] @ across)[..., 0, :] / length[..., None]

        # d(|g| φ) = |g| dφ + φ d|g|,  dφ = m_e·de/|e| − m_τ·dτ/|τ|,  |g| = |e|/√
        size = (STRAIGHT * self._length) ** 2 * swing.angle / swing.spread**3
        of_bend = cross(axis, swing.bent) / swing.spread[..., None] + size[..., None] * swing.bent
        of_tau = -cross(axis, swing.towards) * (swing.share / swing.distance)[..., None]
        by_bone = (of_bend[..., None, :] @ across)[..., 0, :]
        by_target = (of_tau[..., None, :] @ across)[..., 0, :]
        by_along = by_axis(bone, of_bend) + by_axis(target, of_tau)
        by_root = -(by_bone + by_target + by_along)
        return np.stack([by_root, by_bone, by_along], axis=2)[:, :, None]

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Angles by which limbs would have to swing, less where they are straight, (F, tasks) [rad]."""
        return np.abs(self.value(self._points(posed))[..., 0])


@dataclass(frozen=True)
class _Swing:
    """How limbs bend about their axes, and where they should."""

    bent: FloatArray
    """e/|e|, (F, E, 3); where it is nothing, the direction of the target."""
    share: FloatArray
    """|g|, (F, E)."""
    spread: FloatArray
    """√(|e|² + (εl)²), (F, E) [m]."""
    towards: FloatArray
    """τ/|τ|, (F, E, 3); where it is nothing, the direction in which the limb bends."""
    distance: FloatArray
    """|τ|, infinite where it is nothing, (F, E) [m]."""
    angle: FloatArray
    """φ, (F, E) [rad]."""

    @classmethod
    def of(
        cls, axis: FloatArray, across: FloatArray, bone: FloatArray, target: FloatArray, length: FloatArray
    ) -> _Swing:
        """From n, X, b − a, t − a and l."""
        bend = (across @ bone[..., None])[..., 0]
        tau = (across @ target[..., None])[..., 0]
        size, distance = lengths(bend), lengths(tau)
        straight, nowhere = size <= NOWHERE * length, distance <= NOWHERE * length
        any_way = across[..., 0]
        bent = bend / np.where(straight, 1.0, size)[..., None]
        towards = np.where(
            nowhere[..., None],
            np.where(straight[..., None], any_way, bent),
            tau / np.where(nowhere, 1.0, distance)[..., None],
        )
        bent = np.where(straight[..., None], towards, bent)
        spread = np.sqrt(size**2 + (STRAIGHT * length) ** 2)
        sine = np.einsum("fex,fex->fe", axis, cross(towards, bent))
        angle = np.arctan2(sine, np.einsum("fex,fex->fe", towards, bent))
        return cls(bent, size / spread, spread, towards, np.where(nowhere, np.inf, distance), angle)

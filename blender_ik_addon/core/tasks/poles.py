# SPDX-License-Identifier: GPL-3.0-or-later
"""Poles: the plane in which a limb bends."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from ..arrays import FloatArray
from ..errors import IKError
from ..mechanism import Mechanism, PosedMechanism
from ..skeleton import Skeleton
from .base import Rows, Task, checked_vector, frame_axis, of_frame, stack_frames, stack_targets
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

    @property
    def frames(self) -> int | None:
        """Number of frames of the target, None when it is the same in all."""
        return frame_axis(self.target, 1)

    def at_frame(self, frame: int) -> PointPole:
        """The task with the target of one frame."""
        return replace(self, target=of_frame(self.target, 1, frame))

    def moved(self, target: FloatArray) -> PointPole:
        """The same task with another target, (3,) [m]."""
        return replace(self, target=target)

    @staticmethod
    def rows(tasks: Sequence[Task], mechanism: Mechanism) -> Rows:
        """Stack tasks of this kind."""
        return PoleRows([task for task in tasks if isinstance(task, PointPole)], mechanism)


class PoleRows(PointFunctionRows):
    """Poles: r = w (g − |g| τ/|τ|), g = e / √(|e|² + (εl)²), of the ways e and τ from the axis of the limb.

    With a, b, c the places of root, middle joint and tip, n the direction from a to c, and X what is across
    it: e = X(b − a), τ = X(t − a), l the length from a to b at rest. |r| is the chord of the angle φ by which
    the limb would have to swing about its axis, 2 sin(φ/2), largest on the far side, so that no wrong side
    passes for right; and nothing where the limb is straight.
    """

    by_frame: ClassVar[tuple[str, ...]] = ("_local", "_target")

    def __init__(self, tasks: Sequence[PointPole], mechanism: Mechanism) -> None:
        skeleton = mechanism.skeleton
        joints = [task.joints(skeleton) for task in tasks]
        nowhere = np.zeros(3)
        points = [[(joint, nowhere) for joint in own] for own in joints]
        super().__init__(points, [task.weight for task in tasks], mechanism)
        rest = skeleton.armature_from_joint_rest[:, :3, 3]
        self._length = np.array([np.linalg.norm(rest[own[1]] - rest[own[0]]) for own in joints])  # (E,)
        self._target = stack_frames([task.target for task in tasks], 1)
        self.row_counts = (3,) * len(tasks)
        self.angular = np.ones(3 * len(tasks), dtype=np.bool_)

    def aimed(self, targets: Sequence[FloatArray]) -> PoleRows:
        """The same rows of one frame with other targets, (3,) [m] each."""
        some = copy(self)
        some._target = stack_targets(targets, (3,))
        return some

    def _across(self, points: FloatArray) -> tuple[FloatArray, ...]:
        """Axis n, |c − a|, X, b − a and t − a, (F, E, ...)."""
        root, middle, tip = points[:, :, 0], points[:, :, 1], points[:, :, 2]
        along = tip - root
        length = np.maximum(_size(along), NOWHERE * self._length)
        axis = along / length[..., None]
        across = np.eye(3) - axis[..., :, None] * axis[..., None, :]
        return axis, length, across, middle - root, self._target - root

    def _parts(self, across: FloatArray, bone: FloatArray, target: FloatArray) -> tuple[FloatArray, ...]:
        """Share g, √(|e|² + (εl)²), τ/|τ| and |τ|, (F, E, ...); where τ is nothing it points as e does."""
        bend = (across @ bone[..., None])[..., 0]
        spread = np.sqrt(np.einsum("fex,fex->fe", bend, bend) + (STRAIGHT * self._length) ** 2)
        share = bend / spread[..., None]
        tau = (across @ target[..., None])[..., 0]
        size = _size(tau)
        nowhere = size <= NOWHERE * self._length
        own = share / np.maximum(_size(share), NOWHERE)[..., None]
        towards = np.where(nowhere[..., None], own, tau / np.where(nowhere, 1.0, size)[..., None])
        return share, spread, towards, np.where(nowhere, np.inf, size)

    def value(self, points: FloatArray) -> FloatArray:
        """R without weight, (F, E, 3)."""
        _, _, across, bone, target = self._across(points)
        share, _, towards, _ = self._parts(across, bone, target)
        return share - _size(share)[..., None] * towards

    def slope(self, points: FloatArray) -> FloatArray:
        """By root, middle joint and tip, (F, E, 3, 3, 3)."""
        axis, length, across, bone, target = self._across(points)
        share, spread, towards, tau_size = self._parts(across, bone, target)
        size = _size(share)
        unit = share / np.maximum(size, NOWHERE)[..., None]

        def by_axis(vector: FloatArray) -> FloatArray:
            """∂(X v)/∂(c − a), (F, E, 3, 3)."""
            along = np.einsum("fex,fex->fe", axis, vector)[..., None, None]
            turned = along * np.eye(3) + _outer(axis, vector)
            return -(turned @ across) / length[..., None, None]

        # dr = (I − τ̂ ĝᵀ) dg − |g| (I − τ̂ τ̂ᵀ)/|τ| dτ,  dg = (I − g gᵀ)/√ de
        of_bend = (np.eye(3) - _outer(towards, unit)) @ (np.eye(3) - _outer(share, share))
        of_bend = of_bend / spread[..., None, None]
        of_tau = (_outer(towards, towards) - np.eye(3)) * (size / tau_size)[..., None, None]
        by_bone, by_target = of_bend @ across, of_tau @ across
        by_along = of_bend @ by_axis(bone) + of_tau @ by_axis(target)
        by_root = -(by_bone + by_target + by_along)
        return np.stack([by_root, by_bone, by_along], axis=3)

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Angles by which limbs would have to swing, less where they are straight, (F, tasks) [rad]."""
        chord = _size(self.value(self._points(posed)))
        return 2.0 * np.arcsin(np.minimum(0.5 * chord, 1.0))


def _size(vectors: FloatArray) -> FloatArray:
    """(..., 3) -> (...)."""
    return np.sqrt(np.einsum("...k,...k->...", vectors, vectors))


def _outer(left: FloatArray, right: FloatArray) -> FloatArray:
    """(..., 3) and (..., 3) -> (..., 3, 3)."""
    return left[..., :, None] * right[..., None, :]

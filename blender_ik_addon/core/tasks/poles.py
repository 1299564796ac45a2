# SPDX-License-Identifier: GPL-3.0-or-later
"""Poles: the plane in which a limb bends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from ..arrays import BoolArray, FloatArray, lengths, times
from ..errors import IKError
from ..model.mechanism import Mechanism, cross
from ..model.skeleton import Skeleton
from .base import PLAIN_AXES, PlaceField, Task, with_frames
from .functions import PointFunctionRows

STRAIGHT: Final = 0.05
"""ε, distance of the middle joint from the axis in units of its bone [1] below which a limb is straight and
its pole has less and less to say."""

NOWHERE: Final = 1e-9
"""Distance from the axis in the same units [1] at which a target has no direction from it."""


@dataclass(frozen=True, repr=False, eq=False)
class PointPole(Task):
    """Bend a limb towards a point: its middle joint lies on the side of its axis where the point is."""

    root: str | int
    """Name or index of the joint where the limb begins: upper arm, thigh."""
    joint: str | int
    """Of its middle joint: forearm, shin."""
    tip: str | int
    """Of the joint where it ends: hand, foot."""
    target: PlaceField = PlaceField()
    """Where it should bend to, in armature space, (3,) or (F, 3) [m]."""
    joint_fields: ClassVar[tuple[str, ...]] = ("root", "joint", "tip")
    angular: ClassVar[bool] = True
    noun: ClassVar[str] = "pole of {joint}"

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


class PoleRows(PointFunctionRows, of=PointPole):
    """Poles: F = |g| φ, φ the angle about the axis of the limb by which it would have to swing.

    With a, b, c the places of root, middle joint and tip, n the direction from a to c, and X what is across
    it: e = X(b − a), τ = X(t − a), φ from τ to e about n, g = e / √(|e|² + (εl)²), l the length of a to b at
    rest. One row for the one way to swing: it jumps on the far side, as it must, or it would be nothing there
    too; and it fades where the limb is straight.
    """

    def __init__(self, tasks: Sequence[PointPole], mechanism: Mechanism) -> None:
        skeleton = mechanism.skeleton
        joints = [task.joints(skeleton) for task in tasks]
        nowhere = np.zeros(3)
        points = [[(joint, nowhere) for joint in own] for own in joints]
        super().__init__(tasks, points, mechanism)
        rest = skeleton.armature_from_joint_rest[:, :3, 3]
        self._length: FloatArray = np.array([lengths(rest[own[1]] - rest[own[0]]) for own in joints])  # (E,)
        self._target = np.stack(with_frames([task.target for task in tasks], 1), axis=1)

    def function(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """|g| φ, and its derivative by root, middle joint and tip."""
        root, bone = points[:, :, 0], self._length
        limb = points[:, :, 2] - root
        # Of the middle joint and of the target, (F, E, 2, ...):
        both = np.stack([points[:, :, 1] - root, self._target - root], axis=2)
        length = np.maximum(lengths(limb), NOWHERE * bone)[..., None]
        axis = limb / length
        along = times(both, axis)
        across = both - along[..., None] * axis[:, :, None]
        sizes = lengths(across)
        nothing: BoolArray = sizes <= NOWHERE * bone[:, None]
        bent, wanted = across[:, :, 0], across[:, :, 1]
        sine = np.einsum("fex,fex->fe", cross(axis, wanted), bent)
        angle = np.arctan2(sine, np.einsum("fex,fex->fe", wanted, bent))
        angle[nothing.any(axis=2)] = 0.0
        spread = np.sqrt(np.square(sizes[..., 0]) + (STRAIGHT * bone) ** 2)[..., None]
        share = sizes[..., 0] / spread[..., 0]

        towards = across / np.where(nothing, 1.0, sizes)[..., None]
        if nothing.any():  # where one has no direction, that of the other
            straight, nowhere = nothing[..., :1], nothing[..., 1:]
            any_way = PLAIN_AXES[0] - axis[..., :1] * axis
            target_way = np.where(straight, any_way, towards[:, :, 0])
            np.copyto(towards[:, :, 1], target_way, where=nowhere)
            np.copyto(towards[:, :, 0], towards[:, :, 1], where=straight)
        ahead = cross(axis[:, :, None], towards)
        # d(|g| φ) = |g| dφ + φ d|g|,  dφ = m_e·de/|e| − m_τ·dτ/|τ|,  |g| = |e|/√. All of these are across the
        # axis, and across it de is d(b − a) − n·(b − a)/|c − a| d(c − a).
        fading = ((STRAIGHT * bone) ** 2 * angle)[..., None] / spread**3
        by_bone = ahead[:, :, 0] / spread + fading * towards[:, :, 0]
        by_target = ahead[:, :, 1] * (-share / np.where(nothing[..., 1], np.inf, sizes[..., 1]))[..., None]
        by_along = -(along[..., :1] * by_bone + along[..., 1:] * by_target) / length
        slope = np.stack([-(by_bone + by_target + by_along), by_bone, by_along], axis=2)
        return (share * angle)[..., None], slope[:, :, None]

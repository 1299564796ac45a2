# SPDX-License-Identifier: GPL-3.0-or-later
"""Poles: the plane in which a limb bends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Self

import numpy as np

from ..arrays import BoolArray, FloatArray, lengths, times
from ..errors import IKError
from ..model.bends import cross
from ..model.mechanism import Mechanism
from ..model.posed import PosedMechanism
from ..model.skeleton import Skeleton
from .base import Task, stack_frames
from .fields import PLAIN_AXES, PlaceField
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
    angular: ClassVar[bool] = True

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


class PoleRows(PointFunctionRows, of=PointPole):
    """Poles: r = w |g| φ, φ the angle about the axis of the limb by which it would have to swing.

    With a, b, c the places of root, middle joint and tip, n the direction from a to c, and X what is across
    it: e = X(b − a), τ = X(t − a), φ from τ to e about n, g = e / √(|e|² + (εl)²), l the length of a to b at
    rest. One row for the one way to swing: it jumps on the far side, as it must, or it would be nothing there
    too; and it fades where the limb is straight.
    """

    by_frame: ClassVar[tuple[str, ...]] = ("_target",)

    def __init__(self, tasks: Sequence[PointPole], mechanism: Mechanism) -> None:
        skeleton = mechanism.skeleton
        joints = [task.joints(skeleton) for task in tasks]
        nowhere = np.zeros(3)
        points = [[(joint, nowhere) for joint in own] for own in joints]
        super().__init__(points, [task.weight for task in tasks], mechanism)
        rest = skeleton.armature_from_joint_rest[:, :3, 3]
        self._length: FloatArray = np.array([lengths(rest[own[1]] - rest[own[0]]) for own in joints])  # (E,)
        self._target = stack_frames([task.target for task in tasks], 1)
        self._known_swing: tuple[FloatArray, _Swing] | None = None
        """The points that were asked for last, and how limbs bend there."""
        self.row_counts = (1,) * len(tasks)
        self.angular = np.ones(len(tasks), dtype=np.bool_)

    def _swing(self, points: FloatArray) -> _Swing:
        """How limbs bend, which value and slope at the same points both need."""
        if self._known_swing is None or self._known_swing[0] is not points:
            self._known_swing = points, _Swing.of(points, self._target, self._length)
        return self._known_swing[1]

    def aimed(self, targets: Sequence[FloatArray]) -> Self:
        """The same rows of one frame with other places, (3,) each."""
        some = super().aimed(targets)
        some._known_swing = None
        return some

    def value(self, points: FloatArray) -> FloatArray:
        """Angles, less where limbs are straight, (F, E, 1)."""
        swing = self._swing(points)
        return (swing.share * swing.angle)[..., None]

    def slope(self, points: FloatArray) -> FloatArray:
        """By root, middle joint and tip, (F, E, 1, 3, 3)."""
        swing = self._swing(points)
        towards = swing.towards()
        ahead = cross(swing.axis[:, :, None], towards)
        distance = np.where(swing.nothing[..., 1], np.inf, swing.sizes[..., 1])
        # d(|g| φ) = |g| dφ + φ d|g|,  dφ = m_e·de/|e| − m_τ·dτ/|τ|,  |g| = |e|/√. All of these are across the
        # axis, and across it de is d(b − a) − n·(b − a)/|c − a| d(c − a).
        size = (STRAIGHT * self._length) ** 2 * swing.angle / swing.spread**3
        by_bone = ahead[:, :, 0] / swing.spread[..., None] + size[..., None] * towards[:, :, 0]
        by_target = ahead[:, :, 1] * (-swing.share / distance)[..., None]
        part = swing.along / swing.length[..., None]
        by_along = -(part[..., :1] * by_bone + part[..., 1:] * by_target)
        return np.stack([-(by_bone + by_target + by_along), by_bone, by_along], axis=2)[:, :, None]

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Angles by which limbs would have to swing, less where they are straight, (F, tasks) [rad]."""
        return np.abs(self.value(self._points(posed))[..., 0])


@dataclass(frozen=True)
class _Swing:
    """How limbs bend about their axes, and where they should: of the middle joint and of the target."""

    axis: FloatArray
    """n, (F, E, 3)."""
    length: FloatArray
    """|c − a|, (F, E) [m]."""
    along: FloatArray
    """n·(b − a) and n·(t − a), (F, E, 2) [m]."""
    across: FloatArray
    """e and τ, (F, E, 2, 3) [m]."""
    sizes: FloatArray
    """|e| and |τ|, (F, E, 2) [m]."""
    nothing: BoolArray
    """Which of these are nothing, (F, E, 2)."""
    spread: FloatArray
    """√(|e|² + (εl)²), (F, E) [m]."""
    share: FloatArray
    """|g|, (F, E)."""
    angle: FloatArray
    """φ, (F, E) [rad]."""

    @classmethod
    def of(cls, points: FloatArray, target: FloatArray, bone: FloatArray) -> _Swing:
        """From a, b and c, (F, E, 3, 3), t, (F or 1, E, 3), and l, (E,)."""
        root = points[:, :, 0]
        both = points[:, :, 1:] - root[:, :, None]
        limb = both[:, :, 1].copy()
        np.subtract(target, root, out=both[:, :, 1])
        length = np.maximum(lengths(limb), NOWHERE * bone)
        axis = limb / length[..., None]
        along = times(both, axis)
        across = both - along[..., None] * axis[:, :, None]
        sizes = lengths(across)
        nothing = sizes <= NOWHERE * bone[:, None]
        spread = np.sqrt(np.square(sizes[..., 0]) + (STRAIGHT * bone) ** 2)
        bent, wanted = across[:, :, 0], across[:, :, 1]
        sine = np.einsum("fex,fex->fe", cross(axis, wanted), bent)
        angle = np.arctan2(sine, np.einsum("fex,fex->fe", wanted, bent))
        angle[nothing.any(axis=2)] = 0.0
        return cls(axis, length, along, across, sizes, nothing, spread, sizes[..., 0] / spread, angle)

    def towards(self) -> FloatArray:
        """e/|e| and τ/|τ|, (F, E, 2, 3); where one is nothing, the other."""
        towards = self.across / np.where(self.nothing, 1.0, self.sizes)[..., None]
        if self.nothing.any():
            straight, nowhere = self.nothing[..., :1], self.nothing[..., 1:]
            any_way = PLAIN_AXES[0] - self.axis[..., :1] * self.axis
            target_way = np.where(straight, any_way, towards[:, :, 0])
            np.copyto(towards[:, :, 1], target_way, where=nowhere)
            np.copyto(towards[:, :, 0], towards[:, :, 1], where=straight)
        return towards

# SPDX-License-Identifier: GPL-3.0-or-later
"""Functions of a few points of the body: distances, and poles, the plane in which a limb bends.

What such a task is about is a function F of its K points alone; how the points move is known to the
mechanism. So a kind of task states F and its derivative, and Jacobian and curvature follow:

    J = F' P',      Σ μ ∂²F/∂q∂q = Σ_k (μ F')_k · ∂²p_k/∂q∂q + P'ᵀ (μ F'') P'.

F'' is found by central differences of F' in the 3 K coordinates of the points, exact to about 1e-9: only how
fast Newton's steps converge depends on it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from typing import ClassVar, Final, Self

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray, alike, lengths, times
from ..errors import IKError
from ..model.mechanism import Hessian, Mechanism, PosedMechanism, cross
from ..model.skeleton import Skeleton
from .base import (
    ORIGIN,
    PLAIN_AXES,
    ArrayField,
    JointTask,
    PlaceField,
    PointField,
    Rows,
    Task,
    anchored,
    with_frames,
)

DIFFERENCE: Final = 1e-5
"""Step of the differences in units of the reach [1]: truncation about its square, rounding 1e-16 by it."""


class PointFunctionRows(Rows):
    """Rows F(p_1 … p_K) of points of joints, the same number of points and rows for each task."""

    size: ClassVar[int]
    """Rows of each task, R."""

    def __init__(
        self, tasks: Sequence[Task], points: Sequence[Sequence[tuple[int, FloatArray]]], mechanism: Mechanism
    ) -> None:
        """Stack tasks.

        Args:
            tasks: Of one kind, (E,).
            points: Joint and place in its axes [m] of each point of each task, (E, K).
            mechanism: Which carries the joints.
        """
        super().__init__(tasks, [self.size] * len(tasks))
        self._anchors, self._local = anchored(chain.from_iterable(points), mechanism)
        self._count = len(points[0])
        self._step = DIFFERENCE * mechanism.skeleton.reach
        steps = self._step * np.eye(3 * self._count)
        self._nudges: FloatArray = np.concatenate([steps, -steps]).reshape(-1, 1, 1, self._count, 3)
        """Of the differences: each coordinate of the points forward, then each back, (6 K, 1, 1, K, 3)."""

    @abstractmethod
    def function(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """F and F' at points (F, E, K, 3): (F, E, R) and (F, E, R, K, 3)."""

    def _value(self, posed: PosedMechanism) -> FloatArray:
        points = posed.points(self._anchors, self._local)
        self._points: FloatArray = points.reshape(len(points), len(self.row_counts), self._count, 3)
        values, self._by_points = self.function(self._points)
        return values.reshape(len(values), len(self.angular))

    def _slope(self, posed: PosedMechanism) -> FloatArray:
        frames, tasks, count, _ = self._points.shape
        flat = self._points.reshape(frames, tasks * count, 3)
        self._moving: FloatArray = posed.point_jacobian(self._anchors, flat)
        by_task = self._moving.reshape(frames, tasks, 3 * count, self._moving.shape[3])
        slope = self._by_points.reshape(frames, tasks, self.size, 3 * count) @ by_task
        return slope.reshape(frames, tasks * self.size, slope.shape[3])

    def _hessian(self, posed: PosedMechanism, multipliers: FloatArray) -> Hessian:
        """Exact to about 1e-9."""
        points, moving = self._points, self._moving
        frames, tasks, count, _ = points.shape
        size, nv = count * 3, moving.shape[3]
        forces = multipliers.reshape(frames, tasks, 1, self.size)
        pulls = forces @ self._by_points.reshape(frames, tasks, self.size, size)
        # Each difference is so many more frames: one by one they would cost as many calls.
        nudged = (points + self._nudges).reshape(2 * size * frames, tasks, count, 3)
        again: IntArray = np.arange(len(nudged)) % frames
        slopes = self.select(again).function(nudged)[1].reshape(2, size, frames, tasks, self.size, size)
        change = (slopes[0] - slopes[1]) / (2.0 * self._step)
        forms = (forces @ change)[..., 0, :].transpose(1, 2, 0, 3)  # F'', (F, E, 3 K, 3 K)
        right = 0.25 * (forms + forms.swapaxes(2, 3)) @ moving.reshape(frames, tasks, size, nv)
        shape = (frames, tasks * size, nv)
        return posed.hessian(
            pulls.reshape(frames, tasks * count, 3), moving, ((moving.reshape(shape), right.reshape(shape)),)
        )


@dataclass(frozen=True, repr=False, eq=False)
class KeepDistance(JointTask):
    """Keep a point of a joint at a distance from a point of another joint, or from a place."""

    distance: ArrayField = ArrayField(by_frame=True)
    """How far, at least 0, one for all frames or (F,) [m]."""
    _: KW_ONLY
    point: PointField = PointField()
    """The point in the joint's own axes, (3,) [m]."""
    other: str | int | None = None
    """Name or index of the other joint; None for a place."""
    target: PlaceField = PlaceField(default=ORIGIN)
    """The point in the other joint's own axes, (3,), or the place in armature space, (3,) or (F, 3) [m]."""
    angular: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.other is not None and self.target.ndim > 1:
            raise IKError(f"{self.label}: target has shape {self.target.shape}, wanted (3,)")
        if (self.distance < 0.0).any():
            raise IKError(f"{self.label}: distance must be at least 0, one or one for each frame")

    @property
    def target_field(self) -> str:
        """The place, or the distance where both points are of the body."""
        return "target" if self.other is None else "distance"

    @property
    def label(self) -> str:
        """Name for messages."""
        to = "" if self.other is None else f" to {self.other}"
        return str(self.name) or f"distance of {self.joint}{to}"

    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when a joint does not exist, or both are the same point."""
        joints = self.joints(skeleton)
        if len(joints) == 2 and joints[0] == joints[1]:
            raise IKError(f"{self.label}: both points are of one joint, so that their distance never changes")

    def joints(self, skeleton: Skeleton) -> list[int]:
        """The joint, and the other."""
        return super().joints(skeleton) + ([] if self.other is None else [skeleton.index(self.other)])


class DistanceRows(PointFunctionRows, of=KeepDistance):
    """Distances: F = |w| − d, w = p − o; where p = o the way apart is along the armature's x.

    Where d = 0 it is F = w, which has slopes where |w| has none; elsewhere the second and third row are 0.
    """

    size = 3

    by_frame: ClassVar[tuple[str, ...]] = ("_distance",)

    def __init__(self, tasks: Sequence[KeepDistance], mechanism: Mechanism) -> None:
        skeleton = mechanism.skeleton
        joints = [task.joints(skeleton) for task in tasks]
        # A place is a second point that nothing moves: the first stands for it and has no say.
        points = [
            [(own[0], task.point), (own[-1], task.target if task.other is not None else task.point)]
            for task, own in zip(tasks, joints, strict=True)
        ]
        self._distance = np.stack(with_frames([task.distance for task in tasks], 0), axis=1)
        super().__init__(tasks, points, mechanism)
        self._to_place = np.array([task.other is None for task in tasks])
        self._target = np.stack(
            with_frames([task.target if task.other is None else ORIGIN for task in tasks], 1), axis=1
        )  # (F or 1, E, 3)

    def aimed(self, targets: Sequence[FloatArray]) -> Self:
        """The same rows of one frame with other places (3,) or distances (), as for `KeepDistance.moved`."""
        some = alike(self, _at=None, _target=self._target.copy(), _distance=self._distance.copy())
        for task, target in enumerate(targets):
            (some._target if self._to_place[task] else some._distance)[:, task] = target
        return some

    def function(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """F, and its derivatives by p and o."""
        other = np.where(self._to_place[:, None], self._target, points[:, :, 1])
        away = points[:, :, 0] - other
        length = lengths(away)[..., None]
        direction = np.where(length > 0.0, away / np.where(length > 0.0, length, 1.0), PLAIN_AXES[0])
        together = (self._distance == 0.0)[..., None]
        value = np.pad(length - self._distance[..., None], ((0, 0), (0, 0), (0, 2)))
        slope = np.pad(direction[:, :, None], ((0, 0), (0, 0), (0, 2), (0, 0)))
        value, slope = np.where(together, away, value), np.where(together[..., None], PLAIN_AXES, slope)
        back = np.where(self._to_place[:, None, None], 0.0, -slope)
        return value, np.stack([slope, back], axis=3)

    def binding(self, posed: PosedMechanism) -> BoolArray:
        """All rows where d = 0, else the first of each task, (F, m)."""
        more = np.broadcast_to(self._distance == 0.0, (len(posed.values), len(self.row_counts)))
        return (more[..., None] | np.array([True, False, False])).reshape(len(more), len(self.angular))


# Poles

STRAIGHT: Final = 0.1
"""ε, sine of the angle to the axis below which a direction says less and less of the side of the axis [1]."""

DOWNHILL: Final = 2.0
"""κ, weight of the second row of a pole against the first [1]."""

NOWHERE: Final = 1e-9
"""Length of a limb, by that of its bone at rest [1], that has no direction."""


def definite(vectors: FloatArray, across: FloatArray) -> FloatArray:
    """How much the parts of vectors (..., 3) that are across an axis say of its sides, (...) from 0 to 1.

    s²/(s² + ε²), s the sine of the angle to the axis.
    """
    square = np.square(across).sum(axis=-1)
    spread = square + STRAIGHT**2 * np.square(vectors).sum(axis=-1)
    return square / np.maximum(spread, np.finfo(float).tiny)


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
    one_sided: ClassVar[bool] = True

    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when a joint does not exist, or they do not follow one another."""
        root, middle, tip = self.joints(skeleton)
        if root not in skeleton.ancestors(middle)[1:] or middle not in skeleton.ancestors(tip)[1:]:
            raise IKError(
                f"{self.label}: {self.root!r}, {self.joint!r} and {self.tip!r} must follow one another "
                "from the body outward"
            )
        rest = skeleton.armature_from_joint_rest[[root, middle, tip], :3, 3]
        if not (np.linalg.norm(np.diff(rest, axis=0), axis=1) > 0.0).all():
            raise IKError(f"{self.label}: two of its joints lie at one place in the rest pose")


class PoleRows(PointFunctionRows, of=PointPole):
    """Poles: F = w (n · (q × p), κ (p · q − (n · p)(n · q))), the second row an inequality.

    n, p and q are the directions from the root to the tip, the middle joint and the target. Where p and q are
    off the axis n by angles with the sines s and t, and φ is the angle from q to p about it, F is
    st w (sin φ, κ cos φ): the middle joint has to be in the half plane of axis and target. With

        w² = 1/(s² + ε²)/(t² + ε²)

    F is about the angle where both sides are definite, and has the less to say the straighter the limb is,
    and the nearer its axis passes the target. It is smooth there, which no function of the angle is, and its
    slopes do not go to nothing: where a limb gets straight rather than swing about, it is held straight, as a
    point on a floor. κ > 1 makes the way round the axis one downhill: with 1 all of the far half is alike.
    """

    size = 2

    def __init__(self, tasks: Sequence[PointPole], mechanism: Mechanism) -> None:
        skeleton = mechanism.skeleton
        joints = [task.joints(skeleton) for task in tasks]
        nowhere = np.zeros(3)
        points = [[(joint, nowhere) for joint in own] for own in joints]
        super().__init__(tasks, points, mechanism)
        rest = skeleton.armature_from_joint_rest[:, :3, 3]
        self._nothing: FloatArray = NOWHERE * np.array(
            [lengths(rest[own[1]] - rest[own[0]]) for own in joints]
        )
        self._target = np.stack(with_frames([task.target for task in tasks], 1), axis=1)
        self._give_slacks(tasks, 1, mechanism)

    def _directions(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """n, p and q, (F, E, 3, 3), and how far away these points are, (F, E, 3) [m]."""
        root = points[:, :, :1]
        target = np.broadcast_to(self._target[:, :, None], root.shape)
        away = np.concatenate([points[:, :, 2:], points[:, :, 1:2], target], axis=2) - root
        far = np.maximum(lengths(away), self._nothing[:, None])
        return away / far[..., None], far

    def function(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """F, and its derivatives by root, middle joint and tip."""
        directions, far = self._directions(points)
        (n, p, q), sides = np.moveaxis(directions, 2, 0), directions[:, :, 1:]
        cosines = times(sides, n)
        n_p, n_q = cosines[..., :1], cosines[..., 1:]
        # By n, p and q, (F, E, 2, 3, 3), at first without w.
        triple = np.stack([cross(q, p), cross(n, q), cross(p, n)], axis=2)
        inner = np.stack([-(n_q * p + n_p * q), q - n_q * n, p - n_p * n], axis=2)
        slope = np.stack([triple, DOWNHILL * inner], axis=2)
        value = np.einsum("ferx,fex->fer", slope[:, :, :, 1], p)
        # s² = 1 − (n · p)², and t likewise.
        squares = 1.0 / (1.0 - np.square(cosines) + STRAIGHT**2)
        w = np.sqrt(squares.prod(axis=2))[..., None]
        value *= w
        slope *= w[..., None, None]
        by_sides = cosines * squares
        fading = np.concatenate([by_sides[..., None, :] @ sides, by_sides[..., None] * n[:, :, None]], axis=2)
        slope += value[..., None, None] * fading[:, :, None]
        # Of a direction only what is across it counts.
        slope -= np.einsum("ferkx,fekx->ferk", slope, directions)[..., None] * directions[:, :, None]
        # What is at the root is in no direction.
        slope *= np.where(far > self._nothing[:, None], 1.0 / far, 0.0)[:, :, None, :, None]
        by_tip, by_middle = slope[:, :, :, 0], slope[:, :, :, 1]
        return value, np.stack([-slope.sum(axis=3), by_middle, by_tip], axis=3)

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Angles about the axis by which limbs would have to swing, times `definite`, (F, tasks) [rad]."""
        self.residual(posed)
        directions, _ = self._directions(self._points)
        axis, sides = directions[:, :, 0], directions[:, :, 1:]
        across = sides - times(sides, axis)[..., None] * axis[:, :, None]
        off, ahead = np.moveaxis(self._values.reshape(*axis.shape[:2], 2), 2, 0)
        swing = definite(sides, across).prod(axis=2) * np.abs(np.arctan2(off, ahead / DOWNHILL))
        return np.where(self._weight[:, self._starts] > 0.0, swing, np.inf)

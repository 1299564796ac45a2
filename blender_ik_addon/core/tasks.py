# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks: what a pose should achieve, as residuals to drive to zero.

A task is complete when it is made, target included; to move the target use `dataclasses.replace`. It belongs
to a priority level (0 is highest) and has a weight within it. Targets may carry a leading frame axis.

For solving, the tasks of one kind and level are stacked into rows that give, on a placed mechanism, the
residual r (F, m), its Jacobian J (F, m, nv) with r(q + dq) ≈ r + J dq, and the curvature Σ_k r_k ∂²r_k/∂q∂q
(F, nv, nv) by which the Hessian of ½|r|² differs from JᵀJ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np

from .arrays import BoolArray, FloatArray, IntArray, frozen
from .errors import IKError
from .mechanism import AngularBend, Mechanism, PointBend, PosedMechanism, summed_product
from .rotation import left_jacobian_inverse, rotvec_from_matrix
from .skeleton import CHANNELS, Skeleton

ROTATION_TOLERANCE: Final = 1e-4
"""Largest deviation of a target orientation from orthonormal [1]."""

SMALL_ANGLE: Final = 1e-4
"""Angle [rad] below which (θ/2) cot(θ/2) is taken from its series."""

ALL_AXES: Final = (True, True, True)

_ORIGIN: Final = frozen(np.zeros(3))
_PLAIN_AXES: Final = frozen(np.eye(3))


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """What all tasks have in common."""

    priority: int = 0
    """Level; 0 is highest. A lower level never costs a higher one anything."""
    weight: float = 1.0
    """How much it counts within its level; a miss by the skeleton's `reach` counts as much as one radian."""
    name: str = ""
    """What messages call it; by default its kind and joint."""

    angular: ClassVar[bool]
    """Whether errors of this kind are angles [rad] rather than lengths [m]."""

    def __post_init__(self) -> None:
        if self.priority < 0 or int(self.priority) != self.priority:
            raise IKError(f"{self.label}: priority must be a whole number from 0, got {self.priority}")
        if not (np.isfinite(self.weight) and self.weight >= 0):
            raise IKError(f"{self.label}: weight must be finite and not negative, got {self.weight}")

    @property
    def label(self) -> str:
        """Name for messages."""
        return self.name or type(self).__name__

    @abstractmethod
    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when the task does not fit the skeleton."""

    @abstractmethod
    def joints(self, skeleton: Skeleton) -> list[int]:
        """Indices of the joints that must be placed to know the residual."""

    @property
    @abstractmethod
    def frames(self) -> int | None:
        """Number of frames of a target that differs by frame, else None."""

    @abstractmethod
    def at_frame(self, frame: int) -> Task:
        """The task with the target of one frame."""

    @staticmethod
    @abstractmethod
    def rows(tasks: Sequence[Task], mechanism: Mechanism) -> Rows:
        """Stack tasks of this kind."""


class Rows(ABC):
    """Stacked tasks of one kind on one mechanism."""

    row_counts: tuple[int, ...]
    """Rows of each task."""
    angular: BoolArray
    """Which rows are angles [rad] rather than lengths [m], (m,)."""
    by_frame: ClassVar[tuple[str, ...]]
    """Attributes whose first axis is that of frames, or 1 long when they are the same in all."""

    def select(self, frames: IntArray) -> Rows:
        """The same rows for some of the frames."""
        some = copy(self)
        for name in self.by_frame:
            array = getattr(self, name)
            if len(array) > 1:
                setattr(some, name, array[frames])
        return some

    @abstractmethod
    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted residual, (F, m)."""

    @abstractmethod
    def linearize(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Weighted residual (F, m) and Jacobian (F, m, nv)."""

    @abstractmethod
    def curvature(self, posed: PosedMechanism, multipliers: FloatArray | None = None) -> FloatArray:
        """Σ_k μ_k ∂²r_k/∂q∂q for multipliers (F, m), or with the residual itself for μ, (F, nv, nv)."""

    @abstractmethod
    def bend(self, posed: PosedMechanism, multipliers: FloatArray) -> PointBend | AngularBend | None:
        """The curvature for multipliers (F, m) as an operator; None where it is nothing."""

    @abstractmethod
    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Unweighted error of each task, (F, tasks) [m] or [rad]."""

    def places(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Points and where they should be, (F, E, 3) each [m]; none where the tasks are not about places."""
        nothing = np.zeros((len(posed.values), 0, 3))
        return nothing, nothing

    def turns(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Orientations and what they should be, (F, E, 3, 3) each; none where tasks are not about them."""
        nothing = np.zeros((len(posed.values), 0, 3, 3))
        return nothing, nothing


def _frame(target: FloatArray, dimensions: int, frame: int) -> FloatArray:
    """The target of one frame, of targets with or without a frame axis."""
    return target[frame if len(target) > 1 else 0] if target.ndim > dimensions else target


def _frame_axis(target: FloatArray, dimensions: int) -> int | None:
    return len(target) if target.ndim > dimensions else None


def _stack_frames(arrays: Sequence[FloatArray], dimensions: int) -> FloatArray:
    """Targets with or without a frame axis, stacked to (F or 1, tasks, ...)."""
    if all(array.ndim == dimensions for array in arrays):
        return np.array(arrays)[None]
    with_axis = [array if array.ndim > dimensions else array[None] for array in arrays]
    frames = max(len(array) for array in with_axis)
    return np.stack([np.broadcast_to(array, (frames, *array.shape[1:])) for array in with_axis], axis=1)


def _unused_as_zero(rows: FloatArray, used: BoolArray | None, tasks: int) -> FloatArray:
    """(F, m) -> (F, tasks, 3), with 0 for the rows that are switched off."""
    if used is not None:
        full = np.zeros((len(rows), len(used)))
        full[:, used] = rows
        rows = full
    return rows.reshape(len(rows), tasks, 3)


@dataclass(frozen=True, kw_only=True)
class JointTask(Task):
    """A task about one joint, along or about some of three axes."""

    joint: str | int
    """Name or index of the joint."""
    axes: tuple[bool, bool, bool] = ALL_AXES
    """Which of the three axes matter."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.axes) != 3 or not any(self.axes):
            raise IKError(f"{self.label}: at least one of three axes must be on, got {self.axes}")

    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when the joint does not exist."""
        skeleton.index(self.joint)

    def joints(self, skeleton: Skeleton) -> list[int]:
        """The joint."""
        return [skeleton.index(self.joint)]


class AxisRows(Rows):
    """Stacked tasks about joints: three rows each, without those of the axes that are switched off."""

    def __init__(self, tasks: Sequence[JointTask], mechanism: Mechanism) -> None:
        self._joints = [mechanism.skeleton.index(task.joint) for task in tasks]
        self._anchors = np.array([mechanism.anchor(joint) for joint in self._joints], dtype=np.int64)
        self._weight = np.array([task.weight for task in tasks], dtype=np.float64)
        plain = all(task.axes == ALL_AXES for task in tasks)
        self._used: BoolArray | None = None if plain else np.array([t.axes for t in tasks]).ravel()
        self.row_counts = tuple(sum(task.axes) for task in tasks)
        self.angular = np.full(sum(self.row_counts), type(tasks[0]).angular)

    def _rows(self, weighted: FloatArray) -> FloatArray:
        """(F, E, 3, ...) -> (F, m, ...) without the rows that are switched off."""
        flat = weighted.reshape(len(weighted), weighted.shape[1] * 3, *weighted.shape[3:])
        return flat if self._used is None else flat[:, self._used]

    def _forces(self, multipliers: FloatArray) -> FloatArray:
        """(F, m) -> (F, E, 3), with 0 for the rows that are switched off."""
        return _unused_as_zero(multipliers, self._used, len(self._anchors))


@dataclass(frozen=True, kw_only=True)
class ReachPoint(JointTask):
    """Bring a point of a joint to a place."""

    target: FloatArray
    """Where the point should be, in armature space, (3,) or (F, 3) [m]."""
    point: FloatArray = field(default_factory=lambda: _ORIGIN)
    """The point in the joint's own axes, (3,) [m]."""
    axes: tuple[bool, bool, bool] = ALL_AXES
    """Along which axes the place matters."""
    armature_from_axes: FloatArray = field(default_factory=lambda: _PLAIN_AXES)
    """Rotation whose columns are those axes in armature space, (3, 3) or (F, 3, 3)."""
    angular: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, tail in (("target", (3,)), ("point", (3,)), ("armature_from_axes", (3, 3))):
            given = getattr(self, key)
            if given is _ORIGIN or given is _PLAIN_AXES:
                continue
            array = frozen(given)
            if array.shape[array.ndim - len(tail) :] != tail or array.ndim > len(tail) + (key != "point"):
                raise IKError(f"{self.label}: {key} has shape {array.shape}, wanted {tail}")
            if not np.isfinite(array).all():
                raise IKError(f"{self.label}: {key} is not finite")
            object.__setattr__(self, key, array)
        counts = self._frame_counts
        if len(set(counts) - {1}) > 1:
            raise IKError(
                f"{self.label}: target has {counts[0]} frames, but armature_from_axes has {counts[1]}"
            )

    @property
    def label(self) -> str:
        """Name for messages."""
        return self.name or f"position of {self.joint}"

    @property
    def _frame_counts(self) -> list[int]:
        """Lengths of the frame axes that there are."""
        counts = (_frame_axis(self.target, 1), _frame_axis(self.armature_from_axes, 2))
        return [count for count in counts if count is not None]

    @property
    def frames(self) -> int | None:
        """Number of frames of the target, None when it is the same in all."""
        return max(self._frame_counts, default=None)

    def at_frame(self, frame: int) -> ReachPoint:
        """The task with the target of one frame."""
        return replace(
            self,
            target=_frame(self.target, 1, frame),
            armature_from_axes=_frame(self.armature_from_axes, 2, frame),
        )

    @staticmethod
    def rows(tasks: Sequence[Task], mechanism: Mechanism) -> Rows:
        """Stack tasks of this kind."""
        return PointRows([task for task in tasks if isinstance(task, ReachPoint)], mechanism)


class PointRows(AxisRows):
    """Places of points: r = W (p − target), J = W ∂p/∂q, W the weight along the chosen axes."""

    by_frame: ClassVar[tuple[str, ...]] = ("_local", "_target", "_axes", "_weights")

    def __init__(self, tasks: Sequence[ReachPoint], mechanism: Mechanism) -> None:
        super().__init__(tasks, mechanism)
        matrices = np.stack([mechanism.anchor_from_joint(joint) for joint in self._joints], axis=1)
        points = np.array([task.point for task in tasks])
        self._local = (matrices[..., :3, :3] @ points[..., None])[..., 0] + matrices[..., :3, 3]  # (F, E, 3)
        self._target = _stack_frames([task.target for task in tasks], 1)
        axes_from_armature = np.swapaxes(
            _stack_frames([task.armature_from_axes for task in tasks], 2), -1, -2
        )
        chosen = np.array([task.axes for task in tasks], dtype=np.float64)
        self._axes = axes_from_armature * chosen[..., None]  # (F, E, 3, 3), rows of switched-off axes are 0
        self._weights = self._axes * self._weight[:, None, None]

    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted distance along each axis, (F, m)."""
        away = posed.points(self._anchors, self._local) - self._target
        return self._rows((self._weights @ away[..., None])[..., 0])

    def linearize(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Residual and Jacobian."""
        points = posed.points(self._anchors, self._local)
        residual = (self._weights @ (points - self._target)[..., None])[..., 0]
        jacobian = self._weights @ posed.point_jacobian(self._anchors, points)
        return self._rows(residual), self._rows(jacobian)

    def curvature(self, posed: PosedMechanism, multipliers: FloatArray | None = None) -> FloatArray:
        """Exact, from the second derivatives of the points."""
        if multipliers is None:
            multipliers = self.residual(posed)
        return self.bend(posed, multipliers).matrix()

    def bend(self, posed: PosedMechanism, multipliers: FloatArray) -> PointBend:
        """Exact, from the second derivatives of the points."""
        points = posed.points(self._anchors, self._local)
        forces = (np.swapaxes(self._weights, -1, -2) @ self._forces(multipliers)[..., None])[..., 0]
        return posed.point_bend(self._anchors, forces, posed.point_jacobian(self._anchors, points))

    def places(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Points and targets, (F, E, 3) each [m]."""
        points = posed.points(self._anchors, self._local)
        return points, np.broadcast_to(self._target, points.shape)

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Distances along the chosen axes, (F, tasks) [m]."""
        away = posed.points(self._anchors, self._local) - self._target
        masked = away if self._used is None else (self._axes @ away[..., None])[..., 0]
        return np.sqrt(np.einsum("fek,fek->fe", masked, masked))


@dataclass(frozen=True, kw_only=True)
class MatchOrientation(JointTask):
    """Turn a joint to an orientation."""

    target: FloatArray
    """armature_from_target rotation, (3, 3) or (F, 3, 3)."""
    axes: tuple[bool, bool, bool] = ALL_AXES
    """About which of the target's axes the rest of the turn matters."""
    angular: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        target = frozen(self.target)
        if target.shape[-2:] != (3, 3) or target.ndim > 3:
            raise IKError(f"{self.label}: target has shape {target.shape}, wanted (3, 3) or (F, 3, 3)")
        off = np.abs(np.swapaxes(target, -1, -2) @ target - np.eye(3)).max()
        if not off <= ROTATION_TOLERANCE or (np.linalg.det(target) < 0).any():
            raise IKError(f"{self.label}: target is not a rotation matrix")
        object.__setattr__(self, "target", target)

    @property
    def label(self) -> str:
        """Name for messages."""
        return self.name or f"orientation of {self.joint}"

    @property
    def frames(self) -> int | None:
        """Number of frames of the target, None when it is the same in all."""
        return _frame_axis(self.target, 2)

    def at_frame(self, frame: int) -> MatchOrientation:
        """The task with the target of one frame."""
        return replace(self, target=_frame(self.target, 2, frame))

    @staticmethod
    def rows(tasks: Sequence[Task], mechanism: Mechanism) -> Rows:
        """Stack tasks of this kind."""
        return OrientationRows([task for task in tasks if isinstance(task, MatchOrientation)], mechanism)


class OrientationRows(AxisRows):
    """Orientations: r = w log(Tᵀ R), the rest of the turn as a rotation vector in the target's axes.

    With R turned to exp(ω) R, log(Tᵀ exp(ω) R) = log(exp(Tᵀω) TᵀR), so J = w Jl⁻¹(log TᵀR) Tᵀ ω
    ([Sola2018] eq. 146). The Hessian of ½|log|² about a turn u of angle θ is (θ/2)cot(θ/2) across u and 1
    along it, and successive turns i, j add ½ r · (ω_i × ω_j).
    """

    by_frame: ClassVar[tuple[str, ...]] = ("_rotation", "_target")

    def __init__(self, tasks: Sequence[MatchOrientation], mechanism: Mechanism) -> None:
        super().__init__(tasks, mechanism)
        self._rotation = _stack_frames([mechanism.anchor_from_rotation(joint) for joint in self._joints], 2)
        self._target = _stack_frames([task.target for task in tasks], 2)
        self._axes = np.array([task.axes for task in tasks], dtype=np.float64)  # (E, 3)
        self._turned: tuple[PosedMechanism, FloatArray] | None = None
        """The pose that was asked for last, and its answer."""

    def _turn(self, posed: PosedMechanism) -> FloatArray:
        """log(TᵀR), (F, E, 3) [rad], which residual, Jacobian and errors of one pose all need."""
        if self._turned is None or self._turned[0] is not posed:
            current = posed.matrices[:, self._anchors, :3, :3] @ self._rotation
            self._turned = posed, rotvec_from_matrix(np.swapaxes(self._target, -1, -2) @ current)
        return self._turned[1]

    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted rotation vectors, (F, m)."""
        return self._rows(self._turn(posed) * self._weight[:, None])

    def linearize(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Residual and Jacobian."""
        turn = self._turn(posed)
        from_omega = left_jacobian_inverse(turn) @ np.swapaxes(self._target, -1, -2)
        jacobian = from_omega * self._weight[:, None, None] @ posed.angular_jacobian(self._anchors)
        return self._rows(turn * self._weight[:, None]), self._rows(jacobian)

    def curvature(self, posed: PosedMechanism, multipliers: FloatArray | None = None) -> FloatArray:
        """With the residual exact for whole orientations, and left out for those with an axis off.

        With multipliers exact where the orientation is met: log is linear there to second order.
        """
        if multipliers is not None:
            return self.bend(posed, multipliers).matrix()
        turn = self._turn(posed)
        whole = self._axes.all(axis=-1)
        scale = np.where(whole, self._weight**2, 0.0)
        angle: FloatArray = np.sqrt(np.einsum("fek,fek->fe", turn, turn))
        half = 0.5 * angle
        small = angle < SMALL_ANGLE
        across = np.where(small, 1.0 - angle**2 / 12.0, half / np.tan(np.where(small, 1.0, half)))
        unit = turn / np.where(angle > 0.0, angle, 1.0)[..., None]
        along = unit[..., :, None] * unit[..., None, :]
        inverse = left_jacobian_inverse(turn)
        second = across[..., None, None] * (np.eye(3) - along) + along  # symmetric part of the Hessian
        # Jl⁻ᵀ Jl⁻¹ is what JᵀJ has already.
        excess = (second - np.swapaxes(inverse, -1, -2) @ inverse) * scale[..., None, None]
        omega = posed.angular_jacobian(self._anchors)  # (F, E, 3, nv)
        in_target = np.swapaxes(self._target, -1, -2) @ omega
        curved = summed_product(np.swapaxes(in_target, -1, -2), excess @ in_target)
        torques = (self._target @ (turn * scale[..., None])[..., None])[..., 0]
        return curved + posed.angular_bend(self._anchors, torques).matrix()

    def bend(self, posed: PosedMechanism, multipliers: FloatArray) -> AngularBend:
        """Exact where the orientation is met: log is linear there to second order."""
        weighted = self._forces(multipliers) * self._weight[:, None]
        return posed.angular_bend(self._anchors, (self._target @ weighted[..., None])[..., 0])

    def turns(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Orientations and targets, (F, E, 3, 3) each."""
        current = posed.matrices[:, self._anchors, :3, :3] @ self._rotation
        return current, np.broadcast_to(self._target, current.shape)

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Angles about the chosen axes, (F, tasks) [rad]."""
        turn = self._turn(posed) * self._axes
        return np.sqrt(np.einsum("fek,fek->fe", turn, turn))


@dataclass(frozen=True, kw_only=True)
class StayNear(Task):
    """Keep free channels near given values: a stored pose, the present one, rest."""

    channels: FloatArray
    """Wanted channels of every joint of the skeleton, (n, 6) or (F, n, 6) [m, rad]."""
    over: tuple[str | int, ...] | None = None
    """Which joints; None for all whose channels are free and which other tasks involve."""
    axes: tuple[bool, ...] = (True,) * CHANNELS
    """Which of the six channels."""
    angular: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        channels = frozen(self.channels)
        if channels.ndim not in (2, 3) or channels.shape[-1] != CHANNELS:
            raise IKError(f"{self.label}: channels have shape {channels.shape}, wanted (joints, {CHANNELS})")
        if not np.isfinite(channels).all():
            raise IKError(f"{self.label}: a wanted channel is not finite")
        if len(self.axes) != CHANNELS:
            raise IKError(f"{self.label}: axes must be {CHANNELS} switches, got {len(self.axes)}")
        object.__setattr__(self, "channels", channels)

    @property
    def label(self) -> str:
        """Name for messages."""
        return self.name or "stay near"

    @property
    def frames(self) -> int | None:
        """Number of frames of the wanted channels, None when they are the same in all."""
        return _frame_axis(self.channels, 2)

    def at_frame(self, frame: int) -> StayNear:
        """The task with the wanted channels of one frame."""
        return replace(self, channels=_frame(self.channels, 2, frame))

    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when shape or joints do not fit."""
        if self.channels.shape[-2] != len(skeleton):
            raise IKError(
                f"{self.label}: channels are for {self.channels.shape[-2]} joints, the skeleton has "
                f"{len(skeleton)}"
            )
        self.joints(skeleton)

    def joints(self, skeleton: Skeleton) -> list[int]:
        """The joints named; none when the task is for all that others involve."""
        return [skeleton.index(joint) for joint in self.over or ()]

    @staticmethod
    def rows(tasks: Sequence[Task], mechanism: Mechanism) -> Rows:
        """Stack tasks of this kind."""
        return ChannelRows([task for task in tasks if isinstance(task, StayNear)], mechanism)


class ChannelRows(Rows):
    """Values of channels: r = w (q − wanted), J rows of the identity."""

    by_frame: ClassVar[tuple[str, ...]] = ("_wanted",)

    def __init__(self, tasks: Sequence[StayNear], mechanism: Mechanism) -> None:
        skeleton = mechanism.skeleton
        joint_of, channel_of = np.divmod(mechanism.channels, CHANNELS)
        columns: list[IntArray] = []
        wanted: list[FloatArray] = []
        for task in tasks:
            chosen = np.array(task.axes)[channel_of]
            if task.over is not None:
                chosen &= np.isin(joint_of, task.joints(skeleton))
            columns.append(np.flatnonzero(chosen))
            values = mechanism.of_channels(task.channels)[..., columns[-1]]
            wanted.append(values if values.ndim == 2 else values[None])
        self.row_counts = tuple(len(column) for column in columns)
        self._columns = np.concatenate(columns)
        self.angular = mechanism.rotates[self._columns]
        frames = max(len(values) for values in wanted)
        self._wanted = np.concatenate([np.broadcast_to(v, (frames, v.shape[1])) for v in wanted], axis=1)
        self._weights = np.repeat([task.weight for task in tasks], self.row_counts)
        self._jacobian = np.zeros((len(self._columns), mechanism.size))
        self._jacobian[np.arange(len(self._columns)), self._columns] = self._weights

    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted deviation of each channel, (F, m)."""
        return (posed.values[:, self._columns] - self._wanted) * self._weights

    def linearize(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Residual and Jacobian."""
        residual = self.residual(posed)
        return residual, np.broadcast_to(self._jacobian, (len(residual), *self._jacobian.shape))

    def curvature(self, posed: PosedMechanism, multipliers: FloatArray | None = None) -> FloatArray:
        """Nothing: the residual is linear."""
        nv = self._jacobian.shape[1]
        return np.zeros((len(posed.values), nv, nv))

    def bend(self, posed: PosedMechanism, multipliers: FloatArray) -> None:
        """Nothing: the residual is linear."""

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Largest deviation of each task, (F, tasks) [rad, or m where only translations are kept]."""
        away = np.abs(posed.values[:, self._columns] - self._wanted)
        ends = np.cumsum(self.row_counts)
        parts = [away[:, end - count : end] for end, count in zip(ends, self.row_counts, strict=True)]
        return np.stack([part.max(axis=1, initial=0.0) for part in parts], axis=1)

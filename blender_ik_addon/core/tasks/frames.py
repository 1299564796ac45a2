# SPDX-License-Identifier: GPL-3.0-or-later
"""Places along axes, and orientations: points of joints, planes, the centre of mass, whole frames.

A target is a place or an orientation, or where another joint takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import ClassVar, Final, Self

import numpy as np

from ..arrays import FloatArray, IntArray, alike, check_number, frozen, times
from ..errors import IKError, check_type
from ..model.mechanism import Hessian, Mechanism, PosedMechanism
from ..model.rotation import left_jacobian_inverse, log_hessian, rotvec_from_matrix
from ..model.skeleton import Skeleton
from .aims import axes_along
from .base import (
    ORIGIN,
    PLAIN_AXES,
    ArrayField,
    AxisTask,
    DirectionField,
    FrameField,
    JointTask,
    OrientationField,
    PlaceField,
    PointField,
    Rows,
    Task,
    anchored,
    checked_axes,
    with_frames,
)


@dataclass(frozen=True, repr=False, eq=False)
class ReachPoint(AxisTask):
    """Bring a point of a joint to a place."""

    target: PlaceField = PlaceField()
    """Where the point should be, in armature space, (3,) or (F, 3) [m]; NaN in frames that have no target."""
    _: KW_ONLY
    point: PointField = PointField()
    """The point in the joint's own axes, (3,) [m]."""
    armature_from_axes: OrientationField = OrientationField(default=PLAIN_AXES)
    """Rotation whose columns are those axes in armature space, (3, 3) or (F, 3, 3)."""
    angular: ClassVar[bool] = False
    noun: ClassVar[str] = "position of {joint}"


class PlaceRows(Rows):
    """Places of points, or of sums of points: F = N (Σ s_j p_j − target), N the axes that matter."""

    by_frame: ClassVar[tuple[str, ...]] = ("_axes", "_shift")

    def __init__(
        self,
        tasks: Sequence[Task],
        points: tuple[IntArray, FloatArray],
        targets: Sequence[FloatArray],
        axes: Sequence[FloatArray],
        *,
        shifts: Sequence[FloatArray] | None = None,
        shares: FloatArray | None = None,
    ) -> None:
        """Stack tasks.

        Args:
            tasks: Of one kind, (E,).
            points: Anchored, (P,).
            targets: Of the tasks, (E,).
            axes: Likewise, directions of length 1 in rows, (k, 3) or (F, k, 3) each.
            shifts: From the target to the place where the point should be, (E,); none by default.
            shares: s, of each point in each task, (E, P); by default each task has one point.
        """
        super().__init__(tasks, [each.shape[-2] for each in axes])
        self._anchors, self._local = points
        self._axes: FloatArray = np.concatenate(with_frames(axes, 2), axis=1)
        """N, (F or 1, m, 3)."""
        self._shift = np.stack(with_frames(shifts or [ORIGIN] * len(tasks), 1), axis=1)
        self._target = np.stack(with_frames(targets, 1), axis=1) + self._shift
        self._shares = shares
        plain = np.tile(PLAIN_AXES, (len(tasks), 1))
        self._plain = self._axes.shape[1:] == plain.shape and bool((self._axes == plain).all())
        """Whether the axes of all tasks are those of the armature."""

    def aimed(self, targets: Sequence[FloatArray]) -> Self:
        """The same rows of one frame with other targets, (3,) [m] each."""
        return alike(self, _at=None, _target=np.array(targets)[None] + self._shift)

    def _value(self, posed: PosedMechanism) -> FloatArray:
        self._points: FloatArray = posed.points(self._anchors, self._local)
        shares, points = self._shares, self._points
        away = (points if shares is None else np.einsum("ep,fpx->fex", shares, points)) - self._target
        if self._plain:
            return away.reshape(len(away), len(self.angular))
        return np.einsum("fmx,fmx->fm", self._axes, away[:, self._task_of_row])

    def _by_rows(self, moving: FloatArray) -> FloatArray:
        """(F, E, 3, nv) -> (F, m, nv), along the axes."""
        if self._plain:
            return moving.reshape(len(moving), len(self.angular), moving.shape[3])
        return (self._axes[:, :, None] @ moving[:, self._task_of_row])[:, :, 0]

    def _slope(self, posed: PosedMechanism) -> FloatArray:
        moving = posed.point_jacobian(self._anchors, self._points)
        if self._shares is not None:
            moving = np.einsum("ep,fpxv->fexv", self._shares, moving)
        self._moving: FloatArray = moving
        return self._by_rows(moving)

    def _hessian(self, posed: PosedMechanism, multipliers: FloatArray) -> Hessian:
        if self._plain:
            forces = multipliers.reshape(self._moving.shape[:3])
        else:
            forces = np.add.reduceat(self._axes * multipliers[..., None], self._starts, axis=1)
        return posed.hessian(forces, self._moving)


class ReachRows(PlaceRows, of=ReachPoint):
    """Points of joints."""

    def __init__(self, tasks: Sequence[ReachPoint], mechanism: Mechanism) -> None:
        index = mechanism.skeleton.index
        points = anchored([(index(task.joint), task.point) for task in tasks], mechanism)
        super().__init__(tasks, points, [task.target for task in tasks], [axes_of(task) for task in tasks])

    def alternate_jacobian(self, posed: PosedMechanism) -> FloatArray:
        """Of the targets, as though they were carried by the joints."""
        targets = np.broadcast_to(self._target, (len(posed.values), *self._target.shape[1:]))
        return self._by_rows(posed.point_jacobian(self._anchors, targets)) * self._weight[..., None]


def axes_of(task: ReachPoint) -> FloatArray:
    """Directions of its axes, (k, 3) or (F, k, 3)."""
    return task.armature_from_axes.swapaxes(-1, -2)[..., np.array(task.axes), :]


@dataclass(frozen=True, repr=False, eq=False)
class ReachCarried(ReachPoint):
    """Bring a point of a joint to a place that goes with a point of another joint, and does not turn."""

    _: KW_ONLY
    carrier: str | int
    """Name or index of the joint that carries the place."""
    carrier_point: PointField = PointField()
    """The point in its own axes whose way the place goes, (3,) [m]."""
    carrier_from: PlaceField = PlaceField(by_frame=False)
    """Where that point is when the place is at `target`, in armature space, (3,) [m]."""
    joint_fields: ClassVar[tuple[str, ...]] = ("joint", "carrier")

    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when a joint does not exist, or carries a place for itself."""
        joint, carrier = self.joints(skeleton)
        if joint == carrier:
            raise IKError(f"{self.label}: a joint cannot carry the place where it should be itself")


class CarriedRows(PlaceRows, of=ReachCarried):
    """Places that are carried: F = N (p − c − (target − c₀)), c the carrier's point."""

    def __init__(self, tasks: Sequence[ReachCarried], mechanism: Mechanism) -> None:
        index = mechanism.skeleton.index
        points = [(index(task.joint), task.point) for task in tasks]
        points += [(index(task.carrier), task.carrier_point) for task in tasks]
        super().__init__(
            tasks,
            anchored(points, mechanism),
            [task.target for task in tasks],
            [axes_of(task) for task in tasks],
            shifts=[-task.carrier_from for task in tasks],
            shares=np.concatenate([np.eye(len(tasks)), -np.eye(len(tasks))], axis=1),
        )


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

    def _hessian(self, posed: PosedMechanism, multipliers: FloatArray) -> Hessian:
        """Exact: `log_hessian` for one turn, and ½ torque · (ω_i × ω_j) for successive ones."""
        omega, count = self._omega, len(self._anchors)
        forces = np.zeros((len(multipliers), 3 * count))
        forces[:, self._used] = multipliers
        pull, form = log_hessian(self._turn, forces.reshape(len(forces), count, 3))
        torques, form = times(self._target, pull), self._target @ form @ self._target.swapaxes(-1, -2)
        shape = (len(omega), 3 * count, omega.shape[3])
        products = (omega.reshape(shape), (0.5 * form @ omega).reshape(shape))
        return posed.hessian(0.5 * torques, omega, (products,))


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


# Planes


class Side(StrEnum):
    """Where a point may be."""

    ON = "ON"
    """On the plane."""
    ABOVE = "ABOVE"
    """On the plane or on the side to which its normal points."""


@dataclass(frozen=True, repr=False, eq=False)
class OnPlane(JointTask):
    """Bring a point of a joint onto a plane, or keep it from passing through it [KiSheen §2]."""

    origin: PlaceField = PlaceField()
    """A point of the plane, in armature space, (3,) or (F, 3) [m]."""
    normal: DirectionField = DirectionField(by_frame=True)
    """Which way the plane faces, in armature space, of any length, (3,) or (F, 3) [1]."""
    _: KW_ONLY
    point: PointField = PointField()
    """The point in the joint's own axes, (3,) [m]."""
    offset: float = 0.0
    """Height above the plane at which the point is on it: the thickness of a sole [m]."""
    side: Side | str = Side.ON
    """Where the point may be."""
    angular: ClassVar[bool] = False
    noun: ClassVar[str] = "plane of {joint}"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(f"{self.label}: offset", self.offset)
        object.__setattr__(self, "offset", float(self.offset))
        check_type(f"{self.label}: side is text", self.side, str)
        if self.side not in tuple(Side):
            raise IKError(f"{self.label}: side must be one of {', '.join(Side)}, got {self.side!r}")
        object.__setattr__(self, "side", Side(self.side))

    @property
    def one_sided(self) -> bool:  # type: ignore[override]
        """Whether the point is free on the side to which the normal points."""
        return self.side == Side.ABOVE


class PlaneRows(PlaceRows, of=OnPlane):
    """Heights over planes: F = n·(p − origin) − offset, with a slack where the point may be above."""

    def __init__(self, tasks: Sequence[OnPlane], mechanism: Mechanism) -> None:
        skeleton = mechanism.skeleton
        super().__init__(
            tasks,
            anchored([(skeleton.index(task.joint), task.point) for task in tasks], mechanism),
            [task.origin for task in tasks],
            [task.normal[..., None, :] for task in tasks],
            shifts=[task.offset * task.normal for task in tasks],
        )
        self._one_sided = np.array([task.one_sided for task in tasks])
        self._give_slacks(tasks, 0, mechanism)

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Distances from the plane, or below it, (F, tasks) [m]."""
        self.residual(posed)
        return np.where(self._one_sided, np.maximum(-self._values, 0.0), np.abs(self._values))


# The centre of mass

GROUND: Final = (True, True, False)
"""The axes along which a body falls over, the third of which is up."""

NO_CENTRES: Final = frozen(np.zeros((0, 3)))


@dataclass(frozen=True, repr=False, eq=False)
class Balance(Task):
    """Bring the centre of mass over a place, by default along the ground alone.

    The centre of mass is Σ m_j c_j / Σ m_j over joints with masses m_j, c_j the centre of the mass of each.
    """

    masses: ArrayField = ArrayField(None)
    """Mass of each joint of the skeleton, without its children, at least 0 [kg or any], (n,)."""
    target: PlaceField = PlaceField()
    """Where the centre of mass should be, in armature space, (3,) or (F, 3) [m]."""
    _: KW_ONLY
    centres: ArrayField = ArrayField(None, 3, default=NO_CENTRES)
    """Centre of each mass in its joint's own axes, (n, 3) [m]; by default the joints themselves."""
    axes: tuple[bool, bool, bool] | None = None
    """Along which axes it matters; None: along the ground, across the skeleton's `up`."""
    armature_from_axes: OrientationField = OrientationField(default=PLAIN_AXES)
    """Rotation whose columns are those axes in armature space, (3, 3) or (F, 3, 3)."""
    angular: ClassVar[bool] = False
    noun: ClassVar[str] = "balance"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.masses < 0.0).any():
            raise IKError(f"{self.label}: masses must be at least 0, one for each joint")
        if not self.masses.sum() > 0.0:
            raise IKError(f"{self.label}: there is no mass: at least one joint must have some")
        if self.axes is not None:
            object.__setattr__(self, "axes", checked_axes(self.label, self.axes))
        if len(self.centres) not in (0, len(self.masses)):
            raise IKError(
                f"{self.label}: centres has shape {self.centres.shape}, wanted ({len(self.masses)}, 3)"
            )

    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when the masses are not those of the skeleton."""
        if len(self.masses) != len(skeleton):
            raise IKError(
                f"{self.label}: {len(self.masses)} masses for {len(skeleton)} joints of the skeleton"
            )

    def joints(self, skeleton: Skeleton) -> list[int]:
        """Those with a mass."""
        return [int(joint) for joint in np.flatnonzero(self.masses)]


class BalanceRows(PlaceRows, of=Balance):
    """Centres of mass: F = N (Σ s_j c_j − target), s_j the share of each mass, N the axes that matter.

    Masses on one slot of the mechanism are one mass at their common centre: what costs is the
    number of moving joints, not that of bones.
    """

    def __init__(self, tasks: Sequence[Balance], mechanism: Mechanism) -> None:
        anchors: list[int] = []
        shares: list[float] = []
        task_of: list[int] = []
        places: list[FloatArray] = []
        for number, task in enumerate(tasks):
            centres = task.centres if len(task.centres) else np.zeros((len(task.masses), 3))
            joints = task.joints(mechanism.skeleton)
            slots, local = anchored([(joint, centres[joint]) for joint in joints], mechanism)
            for slot in dict.fromkeys(slots.tolist()):
                mass = task.masses[joints] * (slots == slot)
                places.append(np.einsum("j,fjx->fx", mass / mass.sum(), local))
                anchors.append(slot)
                shares.append(float(mass.sum() / task.masses.sum()))
                task_of.append(number)
        up = mechanism.skeleton.up
        ground = PLAIN_AXES if (up == PLAIN_AXES[2]).all() else axes_along(up)

        def axes(task: Balance) -> FloatArray:
            plain = task.axes is None and np.array_equal(task.armature_from_axes, PLAIN_AXES)
            armature_from_axes = ground if plain else task.armature_from_axes
            return armature_from_axes.swapaxes(-1, -2)[..., np.array(task.axes or GROUND), :]

        super().__init__(
            tasks,
            (np.array(anchors, dtype=np.int64), np.stack(places, axis=1)),
            [task.target for task in tasks],
            [axes(task) for task in tasks],
            shares=(np.array(task_of) == np.arange(len(tasks))[:, None]) * np.array(shares),
        )

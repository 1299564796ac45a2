# SPDX-License-Identifier: GPL-3.0-or-later
"""Planes: a point of a joint on a plane, or not below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import ClassVar, Final, Self

import numpy as np

from ..arrays import FloatArray, IntArray, alike, check_number
from ..errors import IKError
from ..model.bends import Bend
from ..model.mechanism import Mechanism
from ..model.posed import PosedMechanism
from ..model.skeleton import CHANNELS, Skeleton
from .base import JointTask, Rows, Task, stack_frames
from .fields import DirectionField, PlaceField, PointField

CLEARANCE_UNIT: Final = 30.0
"""σ, height for a unit of clearance [1]. A point above its plane should move as if there were none, but steps
are the least that do, and clearances count in them: by 1/σ². Much more would hide other rows from the
tolerances by which step rules tell directions from rounding."""

CONTACT: Final = 1e-7
"""Height in units of the reach [1] up to which a point is on its plane: rounding must not lift it."""


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
    noun: ClassVar[str] = "plane"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(f"{self.label}: offset", self.offset)
        if self.side not in tuple(Side):
            raise IKError(f"{self.label}: side must be one of {', '.join(Side)}, got {self.side!r}")
        object.__setattr__(self, "side", Side(self.side))

    @property
    def one_sided(self) -> bool:
        """Whether the point is free on the side to which the normal points."""
        return self.side == Side.ABOVE

    @staticmethod
    def rows(tasks: Sequence[Task], mechanism: Mechanism) -> Rows:
        """Stack tasks of this kind."""
        return PlaneRows([task for task in tasks if isinstance(task, OnPlane)], mechanism)


@dataclass(frozen=True, repr=False, eq=False)
class ClearedPlane(OnPlane):
    """A one-sided plane that knows the channel of its clearance, as `problem.slacks` makes it."""

    _: KW_ONLY
    clearance: int
    """Joint whose translation x is the height above the plane."""

    def joints(self, skeleton: Skeleton) -> list[int]:
        """The joint, and that of the clearance."""
        return [*super().joints(skeleton), self.clearance]


class PlaneRows(Rows):
    """Heights over planes: r = w (h − σc), h = n·(p − origin) − offset, c the clearance.

    c is 0 where the point must be on the plane. Where it may be above, c >= 0 is a channel with a limit, the
    slack variable of the inequality h >= 0 [NocedalWright2006 §16.1]: all that stops channels at their limits
    and lets them go again holds points on planes. Nothing but its limit is asked of it, so that a point above
    its plane always has the best, σc = h, and r = 0, however far it has come: see `settled`. On the plane
    c = 0 stays until a step lets it go, and r = w h brings back what the motion has bent, up or down.
    """

    by_frame: ClassVar[tuple[str, ...]] = ("_local", "_origin", "_normal")

    def __init__(self, tasks: Sequence[OnPlane], mechanism: Mechanism) -> None:
        joints = [mechanism.skeleton.index(task.joint) for task in tasks]
        self._anchors = np.array([mechanism.anchor(joint) for joint in joints], dtype=np.int64)
        self._weight = np.array([task.weight for task in tasks], dtype=np.float64)
        self._contact = CONTACT * mechanism.skeleton.reach
        self.row_counts = (1,) * len(tasks)
        self.angular = np.zeros(len(tasks), dtype=np.bool_)
        matrices = np.stack([mechanism.anchor_from_joint(joint) for joint in joints], axis=1)
        points = np.array([task.point for task in tasks])
        self._local = (matrices[..., :3, :3] @ points[..., None])[..., 0] + matrices[..., :3, 3]  # (F, E, 3)
        self._origin = stack_frames([task.origin for task in tasks], 1)
        self._normal = stack_frames([task.normal for task in tasks], 1)
        self._offset = np.array([task.offset for task in tasks], dtype=np.float64)
        self._one_sided = np.array([task.one_sided for task in tasks])
        columns = {int(channel): column for column, channel in enumerate(mechanism.channels)}
        cleared = [(e, task.clearance) for e, task in enumerate(tasks) if isinstance(task, ClearedPlane)]
        self._cleared: IntArray = np.array([e for e, _ in cleared], dtype=np.int64)
        """Tasks with a clearance, (k,)."""
        self._columns: IntArray = np.array(
            [columns[joint * CHANNELS] for _, joint in cleared], dtype=np.int64
        )
        """The free channels of their clearances, (k,)."""
        self.clears = bool(len(self._columns))

    def aimed(self, targets: Sequence[FloatArray]) -> Self:
        """The same rows of one frame with other points of the planes, (3,) [m] each."""
        some = alike(self)
        some._origin = np.array(targets)[None]
        return some

    def _heights(self, posed: PosedMechanism) -> FloatArray:
        """h, (F, E) [m]."""
        away = posed.points(self._anchors, self._local) - self._origin
        return np.einsum("fek,fek->fe", np.broadcast_to(self._normal, away.shape), away) - self._offset

    def settled(self, posed: PosedMechanism, values: FloatArray) -> FloatArray:
        """Free channels (F, nv) with the clearances that are not 0 at their best, h / σ or 0."""
        if not len(self._columns):
            return values
        best = np.array(values)
        heights = self._heights(posed)[:, self._cleared]
        above = (heights > self._contact) & (values[:, self._columns] > 0.0)
        best[:, self._columns] = np.where(above, heights / CLEARANCE_UNIT, 0.0)
        return best

    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted heights less clearances, (F, m)."""
        heights = self._heights(posed)
        if len(self._columns):
            heights[:, self._cleared] -= posed.values[:, self._columns] * CLEARANCE_UNIT
        return heights * self._weight

    def linearize(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Residual and Jacobian."""
        points = posed.points(self._anchors, self._local)
        normal = (self._normal * self._weight[:, None])[:, :, None, :]
        jacobian = (normal @ posed.point_jacobian(self._anchors, points))[:, :, 0]
        jacobian[:, self._cleared, self._columns] -= self._weight[self._cleared] * CLEARANCE_UNIT
        return self.residual(posed), jacobian

    def bend(self, posed: PosedMechanism, multipliers: FloatArray) -> Bend:
        """Exact, from the second derivatives of the points."""
        points = posed.points(self._anchors, self._local)
        forces = (multipliers * self._weight)[..., None] * self._normal
        return posed.bend(forces, posed.point_jacobian(self._anchors, points))

    def places(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Points that are off their planes in the first frame, and the nearest ones on them."""
        points, heights = posed.points(self._anchors, self._local), self._heights(posed)
        off = ~self._one_sided | (heights[0] < 0.0)
        return points[:, off], (points - heights[..., None] * self._normal)[:, off]

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Distances from the plane, or below it, (F, tasks) [m]."""
        heights = self._heights(posed)
        return np.where(self._one_sided, np.maximum(-heights, 0.0), np.abs(heights))

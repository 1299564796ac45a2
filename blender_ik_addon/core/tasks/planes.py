# SPDX-License-Identifier: GPL-3.0-or-later
"""Planes: a point of a joint on a plane, or not below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import ClassVar, Final

import numpy as np

from ..arrays import FloatArray, IntArray, check_number
from ..errors import IKError
from ..model.mechanism import Mechanism, PosedMechanism
from ..model.skeleton import CHANNELS
from .base import DirectionField, JointTask, PlaceField, PointField, anchored
from .frames import PlaceRows

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
    noun: ClassVar[str] = "plane of {joint}"

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


@dataclass(frozen=True, repr=False, eq=False)
class ClearedPlane(OnPlane):
    """A one-sided plane that knows the channel of its clearance, as `problem.system` makes it."""

    _: KW_ONLY
    clearance: int
    """Joint whose translation x is the height above the plane."""
    joint_fields: ClassVar[tuple[str, ...]] = ("joint", "clearance")


class PlaneRows(PlaceRows, of=OnPlane):
    """Heights over planes: F = h − σc, h = n·(p − origin) − offset, c the clearance.

    c is 0 where the point must be on the plane. Where it may be above, c >= 0 is a channel with a limit, the
    slack variable of the inequality h >= 0 [NocedalWright2006 §16.1]: all that stops channels at their limits
    and lets them go again holds points on planes. Nothing but its limit is asked of it, so that a point above
    its plane always has the best, σc = h, and F = 0, however far it has come: see `settled`. On the plane
    c = 0 stays until a step lets it go, and F = h brings back what the motion has bent, up or down.
    """

    def __init__(self, tasks: Sequence[OnPlane], mechanism: Mechanism) -> None:
        skeleton = mechanism.skeleton
        super().__init__(
            tasks,
            anchored([(skeleton.index(task.joint), task.point) for task in tasks], mechanism),
            [task.origin for task in tasks],
            [task.normal[..., None, :] for task in tasks],
            shifts=[task.offset * task.normal for task in tasks],
        )
        self._contact = CONTACT * skeleton.reach
        self._one_sided = np.array([task.one_sided for task in tasks])
        cleared = [(e, task.clearance) for e, task in enumerate(tasks) if isinstance(task, ClearedPlane)]
        self._cleared: IntArray = np.array([e for e, _ in cleared], dtype=np.int64)
        """Tasks with a clearance, (k,)."""
        columns = mechanism.channels.tolist()
        self._columns: IntArray = np.array([columns.index(j * CHANNELS) for _, j in cleared], dtype=np.int64)
        """The free channels of their clearances, (k,)."""
        self.clears = bool(len(self._columns))

    def settled(self, posed: PosedMechanism, values: FloatArray) -> FloatArray:
        """Free channels (F, nv) with the clearances that are not 0 at their best, h / σ or 0."""
        if not self.clears:
            return values
        best = np.array(values)
        self.residual(posed)
        heights = self._heights[:, self._cleared]
        above = (heights > self._contact) & (values[:, self._columns] > 0.0)
        best[:, self._columns] = np.where(above, heights / CLEARANCE_UNIT, 0.0)
        return best

    def _value(self, posed: PosedMechanism) -> FloatArray:
        self._heights: FloatArray = super()._value(posed)
        rows = self._heights.copy()
        rows[:, self._cleared] -= CLEARANCE_UNIT * posed.values[:, self._columns]
        return rows

    def _slope(self, posed: PosedMechanism) -> FloatArray:
        slope = np.array(super()._slope(posed))
        slope[:, self._cleared, self._columns] -= CLEARANCE_UNIT
        return slope

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Distances from the plane, or below it, (F, tasks) [m]."""
        self.residual(posed)
        return np.where(self._one_sided, np.maximum(-self._heights, 0.0), np.abs(self._heights))

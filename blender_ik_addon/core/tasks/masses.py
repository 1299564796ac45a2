# SPDX-License-Identifier: GPL-3.0-or-later
"""Balance: the centre of mass over a support."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Final

import numpy as np

from ..arrays import FloatArray, IntArray, frozen
from ..errors import IKError
from ..model.bends import Bend
from ..model.mechanism import Mechanism
from ..model.posed import PosedMechanism
from ..model.skeleton import Skeleton
from .aims import axes_along
from .base import Rows, Task, check_axes, stack_frames
from .fields import PLAIN_AXES, ArrayField, OrientationField, PlaceField

GROUND: Final = (True, True, False)
"""The axes along which a body falls over, the third of which is up."""

NO_CENTRES: Final = frozen(np.zeros((0, 3)))


@dataclass(frozen=True, repr=False, eq=False)
class Balance(Task):
    """Bring the centre of mass over a place, by default along the ground alone.

    The centre of mass is Σ m_j c_j / Σ m_j over joints with masses m_j, c_j the centre of what hangs on each.
    """

    masses: ArrayField = ArrayField(None)
    """Mass of what each joint of the skeleton carries itself, at least 0 [kg or any], (n,)."""
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.masses < 0.0).any():
            raise IKError(f"{self.label}: masses must be at least 0, one for each joint")
        if not self.masses.sum() > 0.0:
            raise IKError(f"{self.label}: there is no mass: at least one joint must have some")
        if self.axes is not None:
            check_axes(self.label, self.axes)
        if len(self.centres) not in (0, len(self.masses)):
            raise IKError(
                f"{self.label}: centres has shape {self.centres.shape}, wanted ({len(self.masses)}, 3)"
            )

    @property
    def label(self) -> str:
        """Name for messages."""
        return self.name or "balance"

    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when the masses are not those of the skeleton."""
        if len(self.masses) != skeleton.posed_joints:
            raise IKError(
                f"{self.label}: {len(self.masses)} masses for {skeleton.posed_joints} joints of the skeleton"
            )

    def joints(self, skeleton: Skeleton) -> list[int]:
        """Those with a mass."""
        return [int(joint) for joint in np.flatnonzero(self.masses)]

    @staticmethod
    def rows(tasks: Sequence[Task], mechanism: Mechanism) -> Rows:
        """Stack tasks of this kind."""
        return BalanceRows([task for task in tasks if isinstance(task, Balance)], mechanism)


class BalanceRows(Rows):
    """Centres of mass: r = W (Σ s_j c_j − target), s_j the share of each mass, W the weight along the axes.

    Masses that one slot of the mechanism carries are one mass at their common centre: what costs is the
    number of moving joints, not that of bones.
    """

    by_frame: ClassVar[tuple[str, ...]] = ("_local", "_target", "_axes")

    def __init__(self, tasks: Sequence[Balance], mechanism: Mechanism) -> None:
        self._task_of: IntArray
        anchors: list[int] = []
        shares: list[float] = []
        task_of: list[int] = []
        places: list[FloatArray] = []
        for number, task in enumerate(tasks):
            centres = task.centres if len(task.centres) else np.zeros((len(task.masses), 3))
            carried: dict[int, list[int]] = {}
            for joint in task.joints(mechanism.skeleton):
                carried.setdefault(mechanism.anchor(joint), []).append(joint)
            for anchor, joints in carried.items():
                mass = task.masses[joints]
                matrices = np.stack([mechanism.anchor_from_joint(joint) for joint in joints], axis=1)
                local = (matrices[..., :3, :3] @ centres[joints][..., None])[..., 0] + matrices[..., :3, 3]
                places.append(np.einsum("j,fjx->fx", mass / mass.sum(), local))
                anchors.append(anchor)
                shares.append(float(mass.sum() / task.masses.sum()))
                task_of.append(number)
        self._anchors: IntArray = np.array(anchors, dtype=np.int64)
        self._local: FloatArray = np.stack(places, axis=1)  # (F or 1, P, 3)
        self._shares = np.array(shares)
        self._task_of = np.array(task_of, dtype=np.int64)
        self._sum = (self._task_of == np.arange(len(tasks))[:, None]) * self._shares  # (E, P)
        self._weight = np.array([task.weight for task in tasks], dtype=np.float64)
        self._target = stack_frames([task.target for task in tasks], 1)
        up = mechanism.skeleton.up
        ground = PLAIN_AXES if (up == PLAIN_AXES[2]).all() else axes_along(up)
        turned = [
            ground if task.axes is None and task.armature_from_axes is PLAIN_AXES else task.armature_from_axes
            for task in tasks
        ]
        chosen = np.array([task.axes or GROUND for task in tasks])
        self._axes = np.swapaxes(stack_frames(turned, 2), -1, -2) * chosen[..., None]
        self._used = chosen.ravel()
        self.row_counts = tuple(chosen.sum(axis=1).tolist())
        self.angular = np.zeros(sum(self.row_counts), dtype=np.bool_)

    def centres(self, posed: PosedMechanism) -> FloatArray:
        """The centres of mass, (F, tasks, 3) [m]."""
        return np.einsum("ep,fpx->fex", self._sum, posed.points(self._anchors, self._local))

    def _missed(self, posed: PosedMechanism) -> FloatArray:
        """Distances along the chosen axes, (F, E, 3)."""
        return (self._axes @ (self.centres(posed) - self._target)[..., None])[..., 0]

    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted distances along each axis, (F, m)."""
        rows = self._missed(posed) * self._weight[:, None]
        return rows.reshape(len(rows), -1)[:, self._used]

    def linearize(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Residual and Jacobian."""
        points = posed.points(self._anchors, self._local)
        moving = np.einsum("ep,fpxv->fexv", self._sum, posed.point_jacobian(self._anchors, points))
        jacobian = (self._axes * self._weight[:, None, None]) @ moving
        return self.residual(posed), jacobian.reshape(len(points), len(self._used), -1)[:, self._used]

    def bend(self, posed: PosedMechanism, multipliers: FloatArray) -> Bend:
        """Exact, from the second derivatives of the points."""
        points = posed.points(self._anchors, self._local)
        forces = np.zeros((len(points), len(self._used)))
        forces[:, self._used] = multipliers
        forces = forces.reshape(len(points), len(self._weight), 3) * self._weight[:, None]
        pulls = (np.swapaxes(self._axes, -1, -2) @ forces[..., None])[..., 0]
        pulls = pulls[:, self._task_of] * self._shares[:, None]
        return posed.bend(pulls, posed.point_jacobian(self._anchors, points))

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Distances of the centre of mass along the chosen axes, (F, tasks) [m]."""
        missed = self._missed(posed)
        return np.sqrt(np.einsum("fex,fex->fe", missed, missed))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Balance: the centre of mass over a support."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Final

import numpy as np

from ..arrays import FloatArray, frozen
from ..errors import IKError
from ..model.mechanism import Mechanism
from ..model.skeleton import Skeleton
from .aims import axes_along
from .base import PLAIN_AXES, ArrayField, OrientationField, PlaceField, Task, anchored, check_axes
from .frames import PlaceRows

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
    noun: ClassVar[str] = "balance"

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

    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when the masses are not those of the skeleton."""
        if len(self.masses) != skeleton.posed_joints:
            raise IKError(
                f"{self.label}: {len(self.masses)} masses for {skeleton.posed_joints} joints of the skeleton"
            )

    def joints(self, skeleton: Skeleton) -> list[int]:
        """Those with a mass."""
        return [int(joint) for joint in np.flatnonzero(self.masses)]


class BalanceRows(PlaceRows, of=Balance):
    """Centres of mass: F = N (Σ s_j c_j − target), s_j the share of each mass, N the axes that matter.

    Masses that one slot of the mechanism carries are one mass at their common centre: what costs is the
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

# SPDX-License-Identifier: GPL-3.0-or-later
"""Channels: joints near stored values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Self

import numpy as np

from ..arrays import FloatArray, IntArray, alike
from ..errors import IKError, check_list
from ..model.mechanism import Mechanism, PosedMechanism
from ..model.skeleton import CHANNELS, Skeleton
from .base import ArrayField, Rows, Task, checked_axes, with_frames


@dataclass(frozen=True, repr=False, eq=False)
class StayNear(Task):
    """Keep free channels near given values: a stored pose, the present one, rest.

    It says what is preferred: a solve has reached its targets whether or not this is met.
    """

    channels: ArrayField = ArrayField(None, CHANNELS, by_frame=True)
    """Wanted channels of every joint of the skeleton, `Pose.channels`, (n, 6) or (F, n, 6) [m, rad]."""
    _: KW_ONLY
    over: tuple[str | int, ...] | None = None
    """Which joints; None for all whose channels are free and which other tasks involve."""
    axes: tuple[bool, ...] = (True,) * CHANNELS
    """Which of the six channels."""
    preference: bool = True
    angular: ClassVar[bool] = True
    noun: ClassVar[str] = "stay near"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "axes", checked_axes(self.label, self.axes, CHANNELS, may_be_off=True))
        if self.over is not None:
            check_list(f"{self.label}: over is a list of joints, or None", self.over, str, int, np.integer)
            object.__setattr__(self, "over", tuple(self.over))

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


class ChannelRows(Rows, of=StayNear):
    """Values of channels: F = q − wanted.

    A task none of whose channels is free has one row, which is always 0: every task has rows of its own.
    """

    def __init__(self, tasks: Sequence[StayNear], mechanism: Mechanism) -> None:
        skeleton = mechanism.skeleton
        joint_of, channel_of = np.divmod(mechanism.channels, CHANNELS)
        columns: list[IntArray] = []
        for task in tasks:
            chosen = np.array(task.axes)[channel_of] & (joint_of < len(skeleton))
            if task.over is not None:
                chosen &= np.isin(joint_of, task.joints(skeleton))
            columns.append(np.flatnonzero(chosen))
        super().__init__(tasks, [max(1, len(own)) for own in columns])
        self._mechanism, self._columns_of, self._columns = mechanism, columns, np.concatenate(columns)
        self._used: IntArray = np.flatnonzero(np.repeat([len(own) > 0 for own in columns], self.row_counts))
        """Which rows are those of a channel."""
        self.angular[self._used] = mechanism.rotates[self._columns]
        wanted = [
            mechanism.of_channels(task.channels)[..., own] for task, own in zip(tasks, columns, strict=True)
        ]
        self._target = np.concatenate(with_frames(wanted, 1), axis=1)
        self._jacobian = np.zeros((len(self.angular), mechanism.size))
        self._jacobian[self._used, self._columns] = 1.0

    def aimed(self, targets: Sequence[FloatArray]) -> Self:
        """The same rows of one frame with other channels, (n, 6) each."""
        wanted = zip(self._mechanism.of_channels(np.array(targets)), self._columns_of, strict=True)
        return alike(self, _at=None, _target=np.concatenate([row[own] for row, own in wanted])[None])

    def _value(self, posed: PosedMechanism) -> FloatArray:
        rows = np.zeros((len(posed.values), len(self.angular)))
        rows[:, self._used] = posed.values[:, self._columns] - self._target
        return rows

    def _slope(self, posed: PosedMechanism) -> FloatArray:
        return np.broadcast_to(self._jacobian, (len(posed.values), *self._jacobian.shape))

    def _hessian(self, posed: PosedMechanism, multipliers: FloatArray) -> None:
        """Nothing: the residual is linear."""

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Largest deviation of each task, (F, tasks) [rad, or m where only translations are kept]."""
        self.residual(posed)
        return np.maximum.reduceat(np.abs(self._values), self._starts, axis=1)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Channels: joints near stored values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Self

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray, alike
from ..errors import IKError
from ..model.mechanism import Mechanism
from ..model.posed import PosedMechanism
from ..model.skeleton import CHANNELS, Skeleton
from .base import Rows, Task, filled
from .fields import ArrayField


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
    angular: ClassVar[bool] = True
    preference: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.axes) != CHANNELS:
            raise IKError(f"{self.label}: axes must be {CHANNELS} switches, got {len(self.axes)}")

    @property
    def label(self) -> str:
        """Name for messages."""
        return self.name or "stay near"

    def check(self, skeleton: Skeleton) -> None:
        """Raise `IKError` when shape or joints do not fit."""
        if self.channels.shape[-2] != skeleton.posed_joints:
            raise IKError(
                f"{self.label}: channels are for {self.channels.shape[-2]} joints, the skeleton has "
                f"{skeleton.posed_joints}"
            )
        self.joints(skeleton)

    def joints(self, skeleton: Skeleton) -> list[int]:
        """The joints named; none when the task is for all that others involve."""
        return [skeleton.index(joint) for joint in self.over or ()]


class ChannelRows(Rows, of=StayNear):
    """Values of channels: r = w (q − wanted), J rows of the identity.

    A task none of whose channels is free has one row, which is always 0: every task has rows of its own.
    """

    by_frame: ClassVar[tuple[str, ...]] = ("_wanted",)

    def __init__(self, tasks: Sequence[StayNear], mechanism: Mechanism) -> None:
        skeleton = mechanism.skeleton
        joint_of, channel_of = np.divmod(mechanism.channels, CHANNELS)
        columns: list[IntArray] = []
        wanted: list[FloatArray] = []
        for task in tasks:
            chosen = np.array(task.axes)[channel_of] & (joint_of < skeleton.posed_joints)
            if task.over is not None:
                chosen &= np.isin(joint_of, task.joints(skeleton))
            columns.append(np.flatnonzero(chosen))
            values = mechanism.of_channels(task.channels)[..., columns[-1]]
            wanted.append(filled(values) if values.ndim == 2 else values[None])
        self._mechanism, self._columns_of = mechanism, columns
        self.row_counts = tuple(max(1, len(column)) for column in columns)
        self._columns = np.concatenate(columns)
        self._used: BoolArray = np.repeat([len(column) > 0 for column in columns], self.row_counts)
        """Which rows are those of a channel, (m,)."""
        self.angular = np.ones(len(self._used), dtype=np.bool_)
        self.angular[self._used] = mechanism.rotates[self._columns]
        frames = max(len(values) for values in wanted)
        self._wanted = np.concatenate([np.broadcast_to(v, (frames, v.shape[1])) for v in wanted], axis=1)
        self._weights = np.repeat([task.weight for task in tasks], self.row_counts)
        self._jacobian = np.zeros((len(self._used), mechanism.size))
        self._jacobian[np.flatnonzero(self._used), self._columns] = self._weights[self._used]

    def aimed(self, targets: Sequence[FloatArray]) -> Self:
        """The same rows of one frame with other channels, (n, 6) each."""
        wanted = self._mechanism.of_channels(np.array(targets))
        some = alike(self)
        some._wanted = np.concatenate([row[own] for row, own in zip(wanted, self._columns_of, strict=True)])[
            None
        ]
        return some

    def _away(self, posed: PosedMechanism) -> FloatArray:
        """Deviation of each channel, (F, m) [rad or m]."""
        away = posed.values[:, self._columns] - self._wanted
        if self._used.all():
            return away
        rows = np.zeros((len(away), len(self._used)))
        rows[:, self._used] = away
        return rows

    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted deviation of each channel, (F, m)."""
        return self._away(posed) * self._weights

    def jacobian(self, posed: PosedMechanism) -> FloatArray:
        """Rows of the identity, weighted, (F, m, nv)."""
        return np.broadcast_to(self._jacobian, (len(posed.values), *self._jacobian.shape))

    def bend(self, posed: PosedMechanism, multipliers: FloatArray) -> None:
        """Nothing: the residual is linear."""

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Largest deviation of each task, (F, tasks) [rad, or m where only translations are kept]."""
        away = np.abs(self._away(posed))
        ends = np.cumsum(self.row_counts)
        parts = [away[:, end - count : end] for end, count in zip(ends, self.row_counts, strict=True)]
        return np.stack([part.max(axis=1, initial=0.0) for part in parts], axis=1)

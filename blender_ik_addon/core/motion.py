# SPDX-License-Identifier: GPL-3.0-or-later
"""The free channels of a motion, kept where they end up: in the channels of the poses that are its result.

A long motion is worked on some frames at a time. Whatever there is of it as a whole counts for each of its
frames, so there is nothing but the result.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray, IntArray
from .mechanism import Mechanism
from .skeleton import Pose

BLOCK: Final = 4096
"""Frames looked at together where all of them are asked."""

Frames = int | slice | IntArray | BoolArray


class Motion:
    """Values of the free channels (F, nv), read and written by frames like an array."""

    def __init__(self, mechanism: Mechanism, poses: Pose) -> None:
        """Begin with the channels of some poses (F, n, 6)."""
        self._poses = poses
        self._channels = poses.channels.copy()
        frames, width = len(self._channels), self._channels.shape[1] * self._channels.shape[2]
        self._flat = self._channels.reshape(frames, width)
        self._posed: BoolArray = mechanism.channels < width
        self._columns = mechanism.channels[self._posed]
        self._others = np.zeros((frames, int(np.count_nonzero(~self._posed))))
        """Channels that poses do not have: clearances."""
        self._steps: FloatArray | None = None

    def __len__(self) -> int:
        return len(self._flat)

    def __getitem__(self, frames: Frames) -> FloatArray:
        """A copy of the values of a frame (nv,) or of some, (f, nv)."""
        posed = self._flat[frames]
        if not self._others.shape[1]:
            return posed[..., self._columns]
        values = np.empty((*posed.shape[:-1], len(self._posed)))
        values[..., self._posed], values[..., ~self._posed] = posed[..., self._columns], self._others[frames]
        return values

    def __setitem__(self, frames: Frames, values: FloatArray) -> None:
        rows = np.arange(len(self._flat))[frames] if isinstance(frames, slice) else frames
        if isinstance(rows, np.ndarray):
            rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
            rows = rows[:, None]
        if self._others.shape[1]:
            self._others[frames] = values[..., ~self._posed]
            values = values[..., self._posed]
        self._flat[rows, self._columns] = values
        self._steps = None

    def steps(self) -> FloatArray:
        """Largest change of a channel from each frame to the next, (F - 1,)."""
        if self._steps is None:
            sizes = self._steps = np.empty(max(len(self) - 1, 0))
            for begin in range(0, len(sizes), BLOCK):
                sizes[begin : begin + BLOCK] = step_sizes(self[begin : begin + BLOCK + 1])
            sizes.setflags(write=False)
        return self._steps

    def pose(self, count: int) -> Pose:
        """The poses of the first frames; if of all, the motion is read-only from here on."""
        if count < len(self):
            return Pose(self._channels[:count], self._poses.scale[:count])
        self._channels.setflags(write=False)
        return Pose(self._channels, self._poses.scale)


def step_sizes(values: FloatArray) -> FloatArray:
    """Largest change of a channel from each frame to the next, (F, nv) -> (F - 1,)."""
    return np.abs(np.diff(values, axis=0)).max(axis=1, initial=0.0)

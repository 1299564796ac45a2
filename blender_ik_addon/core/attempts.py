# SPDX-License-Identifier: GPL-3.0-or-later
"""What an attempt to meet all tasks is after, and what it has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .arrays import BoolArray, FloatArray, IntArray
from .posed import PosedMechanism


@dataclass(frozen=True)
class Attempt:
    """What Newton's method has found, for some frames."""

    values: FloatArray
    """The free channels, (F, nv) [m, rad]; inside the limits also where the attempt failed."""
    errors: FloatArray
    """Unweighted error of each task, (F, T) [m] or [rad]."""
    met: BoolArray
    """Which frames meet every task, and are at rest, (F,)."""
    iterations: IntArray
    """Steps solved for each frame, (F,)."""
    history: tuple[FloatArray, ...]
    """|r| of each level of the tasks before the first iteration and after each, (F, levels)."""
    posed: PosedMechanism | None = None
    """The mechanism at `values`, where there was but one frame."""

    @classmethod
    def none(cls, values: FloatArray, errors: FloatArray) -> Attempt:
        """An attempt that was not made."""
        frames = len(values)
        return cls(values, errors, np.zeros(frames, np.bool_), np.zeros(frames, np.int64), ())

    @classmethod
    def joined(cls, attempts: Sequence[Attempt]) -> Attempt:
        """Attempts for different frames, one after the other, without their history."""
        if len(attempts) == 1:
            return attempts[0]
        return cls(
            np.concatenate([some.values for some in attempts]),
            np.concatenate([some.errors for some in attempts]),
            np.concatenate([some.met for some in attempts]),
            np.concatenate([some.iterations for some in attempts]),
            (),
        )

    def select(self, frames: BoolArray | IntArray) -> Attempt:
        """Some of the frames."""
        history = tuple(norms[frames] for norms in self.history)
        return Attempt(
            self.values[frames], self.errors[frames], self.met[frames], self.iterations[frames], history
        )


@dataclass(frozen=True)
class Goal:
    """When a frame is done."""

    tolerance: FloatArray
    """Largest error of each task, (T,) [m] or [rad]."""
    wish: bool
    """Whether what the tasks leave free goes to the preferred pose."""
    step_tolerance: float
    """Largest change [rad] at which a pose with a wish counts as standing still."""
    slack: float
    """|r| [1], in scaled units, that counts as nothing."""
    max_angle: float
    """Largest change of a channel in one step [rad]."""
    max_iterations: int

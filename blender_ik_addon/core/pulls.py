# SPDX-License-Identifier: GPL-3.0-or-later
"""Why tasks are missed where forces balance: told by those with which they pull.

`explanation` asks strictly, for a pose that a solve has left; that takes longer than a pose that follows a
mouse has. Here each task pulls at the free channels with a known force, and what balances the pull of a
missed one is read off: the other forces that point against it, and the limits that are pressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray
from .explanation import Explanation, Limit, Reason
from .skeleton import CHANNELS
from .system import System

PULLS: Final = 0.02
"""Part of the force that it could have [1] from which a missed task pulls at anything: a straight limb does
not pull at its joints."""

TAKES_PART: Final = 0.1
"""Part of the force of a missed task [1] from which what balances it is named."""


@dataclass(frozen=True)
class Pulls:
    """The forces at a pose."""

    forces: FloatArray
    """Of each task on the free channels, the slope of what it adds to the cost, (T, nv)."""
    levers: FloatArray
    """The largest force that each could have with its present pull, (T,)."""
    total: FloatArray
    """The slope of the whole cost, (nv,): 0 but where a limit stands against it."""
    held: BoolArray
    """Channels that limits hold, (nv,)."""
    values: FloatArray
    """The free channels, (nv,)."""

    def explanation(
        self, system: System, priorities: Sequence[int], number: int, error: float
    ) -> Explanation:
        """Why a task is missed by an error [m] or [rad]; with the priorities of all tasks, (T,)."""
        names, level = system.labels, priorities[number]
        force, lever = self.forces[number], float(self.levers[number])
        size = float(np.linalg.norm(force))
        limits: tuple[Limit, ...] = ()
        against: list[int] = []
        if size > PULLS * lever:
            pressed = np.where(self.held & system.own, self.total * force, 0.0) / size**2
            shares = -(self.forces @ force) / size**2
            shares[number] = 0.0
            limits = tuple(
                self._limit(system, column) for column in _strongest(pressed) if pressed[column] >= TAKES_PART
            )
            against = [other for other in _strongest(shares) if shares[other] >= TAKES_PART]
        above = [other for other in against if priorities[other] < level]
        beside = [
            names[other] for other in against if priorities[other] == level and names[other] != names[number]
        ]
        reason = Reason.OUT_OF_REACH
        if lever > 0.0 and (limits or above or beside):
            reason = Reason.SHARED if beside else Reason.PRECEDENCE if above else Reason.LIMITS
        return Explanation(
            task=names[number],
            error=error,
            angular=system.angular[number],
            reason=reason,
            limits=limits,
            outranked_by=tuple(dict.fromkeys(names[other] for other in above)),
            levels=tuple(sorted({priorities[other] for other in above})),
            shares_with=tuple(dict.fromkeys(beside)),
            level=level,
            movable=lever > 0.0,
        )

    def _limit(self, system: System, column: int) -> Limit:
        """The limit on which a free channel stands."""
        joint, channel = divmod(int(system.mechanism.channels[column]), CHANNELS)
        value = float(self.values[column])
        upper = bool(value >= system.upper[column])
        return Limit(system.problem.skeleton.names[joint], channel, value, upper, gain=0.0)


def _strongest(sizes: FloatArray) -> Sequence[int]:
    """Indices, the largest first."""
    return np.argsort(-sizes, kind="stable").tolist()

# SPDX-License-Identifier: GPL-3.0-or-later
"""The reason of a miss in names and words: what it is, what takes part in it, and how it is said."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ..amounts import angle_text, length_text, limit_angle
from ..messages import Joined, Message, in_a_row

WHOLE: Final = 0.99
"""Part of a miss [1] from which the bound on the reach explains all of it."""

NAMES_SHOWN: Final = 3
"""Most limits or tasks that a sentence lists; the others are counted."""


class Reason(StrEnum):
    """Cause of a miss."""

    OUT_OF_REACH = "OUT_OF_REACH"
    """No free channel brings it nearer, even without limits and other tasks."""
    LIMITS = "LIMITS"
    """Without limits it would come nearer."""
    PRECEDENCE = "PRECEDENCE"
    """Without the levels above it would come nearer."""
    SHARED = "SHARED"
    """Without the other tasks of its level it would come nearer."""
    SOFTNESS = "SOFTNESS"
    """Were it not soft it would come nearer."""
    SMOOTHNESS = "SMOOTHNESS"
    """Alone, without the other frames of its motion, it would come nearer."""
    NOT_CONVERGED = "NOT_CONVERGED"
    """It would come nearer if the search went on."""


@dataclass(frozen=True)
class Limit:
    """A limit against which a task presses."""

    joint: str
    channel: int
    """Translation x, y, z, then rotation x, y, z."""
    value: float
    """Value of the limit [m] or [rad]."""
    upper: bool
    """Whether it is the upper one."""
    gain: float
    """By how much the error falls for each unit that the limit gives way [m/rad, m/m, rad/rad or rad/m], to
    first order; where the level is shared, by how much its cost falls, as if that were all in this error. 0
    where the task is held at second order only."""

    def text(self, metres: float = 1.0) -> str:
        """Joint, channel and value, with world metres to one unit of length."""
        kind, axis = divmod(self.channel, 3)
        value = limit_angle(self.value) if kind else length_text(self.value * metres)
        own = {"joint": self.joint, "axis": "xyz"[axis], "value": value}
        if kind:
            return Message("{joint} rotation {axis} at {value}", **own)
        return Message("{joint} translation {axis} at {value}", **own)


@dataclass(frozen=True)
class Explanation:
    """Why one task was missed."""

    task: str
    """Label of the task."""
    error: float
    """[m], or [rad] where `angular`."""
    angular: bool
    reason: Reason
    """The first that suffices, in the order of `Reason`."""
    limits: tuple[Limit, ...] = ()
    """Those that matter, the strongest first; with PRECEDENCE and SHARED they take part."""
    outranked_by: tuple[str, ...] = ()
    """Labels of the tasks of higher levels that take part, the strongest first."""
    levels: tuple[int, ...] = ()
    """Priorities of those, the highest level first."""
    shares_with: tuple[str, ...] = ()
    """Labels of the tasks of the same level that pull the other way, the strongest first."""
    level: int | None = None
    """Priority of the task; None for methods to which all levels are one."""
    beyond: float = 0.0
    """Part of the error [m] by which the target lies beyond the longest reach of the chain."""
    movable: bool = True
    """Whether any free channel moves what the task is about."""
    smoothed: float = 0.0
    """Part of the error [m] or [rad] that its frame alone would not have."""

    @property
    def proven(self) -> bool:
        """Whether no pose at all would meet it; else the pose is the best that was found."""
        return not self.movable or self._wholly_beyond

    @property
    def others(self) -> tuple[str, ...]:
        """Those of `shares_with` that are not about the same effector."""
        return tuple(name for name in self.shares_with if name not in ITS_OWN)

    @property
    def _wholly_beyond(self) -> bool:
        """Whether the reach of the chain explains all that the other frames do not."""
        return self.reason is Reason.OUT_OF_REACH and self.beyond >= WHOLE * (self.error - self.smoothed)

    @property
    def text(self) -> str:
        """Amount and reason of the miss, in a sentence."""
        simple = self.reason is Reason.OUT_OF_REACH and self.movable
        own = {"amount": self._amount(self.error, 1.0), "why": self.why()}
        return Message("{amount} {why}", **own) if simple else Message("{amount} off, {why}", **own)

    def why(self, metres: float = 1.0) -> str:
        """The reason alone, without the amount, with world metres to one unit of length."""
        return Joined("; ", self.reasons(metres))

    def reasons(self, metres: float = 1.0) -> list[str]:
        """The parts of the reason, one clause each."""
        parts: list[str] = []
        if not self.movable:
            parts.append(Message("no free channel moves it"))
        elif self._wholly_beyond:
            parts.append(Message("beyond the longest reach of its chain"))
        elif self.reason not in (Reason.LIMITS, Reason.PRECEDENCE, Reason.SHARED):
            parts.append(_IN_WORDS[self.reason])
        if self.others:
            names = in_a_row(self.others, NAMES_SHOWN)
            parts.append(
                Message("shares the error with {names}", names=names)
                if self.level is None
                else Message("shares level {level} with {names}", level=self.level, names=names)
            )
        elif self.shares_with:  # alone they would not both be met
            parts.append(NOT_BOTH)
        if self.outranked_by:
            *others, lowest = map(str, self.levels)
            names = in_a_row(self.outranked_by, NAMES_SHOWN)
            parts.append(
                Message(
                    "levels {higher} and {lowest} take precedence: {names}",
                    higher=", ".join(others),
                    lowest=lowest,
                    names=names,
                )
                if others
                else Message("level {level} takes precedence: {names}", level=lowest, names=names)
            )
        if self.limits:
            parts.append(
                Message(
                    "at its limits: {names}",
                    names=in_a_row([limit.text(metres) for limit in self.limits], NAMES_SHOWN),
                )
            )
        if self.smoothed > (1.0 - WHOLE) * self.error and self.reason is not Reason.SMOOTHNESS:
            parts.append(
                Message("{amount} of it gives way to smoothness", amount=self._amount(self.smoothed, metres))
            )
        if self.beyond > (1.0 - WHOLE) * self.error and not self._wholly_beyond:
            parts.append(
                Message(
                    "{amount} of it beyond the longest reach of its chain",
                    amount=length_text(self.beyond * metres),
                )
            )
        elif self.reason in (Reason.OUT_OF_REACH, Reason.LIMITS) and not self.proven:
            # Limits and straight limbs hold this pose; nothing says that no other one reaches.
            parts.append(Message("the best pose found"))
        return parts or [_IN_WORDS[self.reason]]

    def _amount(self, error: float, metres: float) -> str:
        return angle_text(error) if self.angular else length_text(error * metres)


_IN_WORDS: Final = {
    Reason.OUT_OF_REACH: Message("out of reach"),
    Reason.LIMITS: Message("at its limits"),
    Reason.PRECEDENCE: Message("a higher level takes precedence"),
    Reason.SHARED: Message("shares its level with others"),
    Reason.SOFTNESS: Message("gives way because it is soft"),
    Reason.SMOOTHNESS: Message("gives way to smoothness"),
    Reason.NOT_CONVERGED: Message("not converged"),
}
"""Each reason where no limit and no task is named."""

NOT_BOTH: Final = Message(
    "position and orientation cannot both be met: turn or move the target, or ask for only one of them"
)
"""Reason of either task of an effector where the other one pulls the other way."""

ITS_OWN: Final = (Message("its own position"), Message("its own orientation"))
"""What the other task of the same effector is about."""

# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a task was missed: out of reach, held by limits, by higher levels, by others of its level, or not done.

A missed task pulls at the free channels; `balance` has the mathematics. The reason is the first of these that
balances its force f:

1. nothing, f = 0: no free channel, with or without limits, brings the task nearer. It is out of reach;
2. limits alone: were a limit to give way, the task would come nearer;
3. limits and the levels above: those tasks with the largest multipliers took precedence;
4. these and the forces of the other tasks of its level: it shares the level with those that pull against what
   limits and levels above leave of its force;
5. the preferred pose or the frames beside it, where the task is soft: it gives way to them;
6. nothing does: the pose is not converged.

In a motion that is what keeps the frame alone from its targets. Where nothing does the motion gives way to
smoothness.

**Saddles.** A force may vanish although the task could be nearer: an arm points straight at a target nearer
than its hand. So where f = 0 the curvature of |r| is asked too, and the same reasons are tried in the same
order: on the channels off their limits, on what the levels above leave of these, with the other tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from ..arrays import BoolArray, FloatArray
from ..model.posed import PosedMechanism
from ..model.skeleton import CHANNELS
from ..problem.system import System
from ..tasks import AxisTask, Task
from ..threads import one_thread
from .constraint_forces import (
    BALANCED,
    CURVED,
    SHARE,
    Balance,
    Holding,
    Linearized,
    Pull,
    convex,
    lowest,
)

CONVERGED: Final = 1e-5
"""Accuracy of the pose [rad]: within it, heavy tasks that are met still pull at light ones."""

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
        value = limit_angle(self.value) if kind else _metres(self.value * metres)
        return f"{self.joint} {('translation', 'rotation')[kind]} {'xyz'[axis]} at {value}"


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
    def _wholly_beyond(self) -> bool:
        """Whether the reach of the chain explains all that the other frames do not."""
        return self.reason is Reason.OUT_OF_REACH and self.beyond >= WHOLE * (self.error - self.smoothed)

    @property
    def text(self) -> str:
        """Amount and reason of the miss, in a sentence."""
        return self.sentence()

    def sentence(self, metres: float = 1.0) -> str:
        """`text` with world metres to one unit of length."""
        simple = self.reason is Reason.OUT_OF_REACH and self.movable
        return f"{self._amount(self.error, metres)} {'' if simple else 'off, '}{self.why(metres)}"

    def why(self, metres: float = 1.0) -> str:
        """The reason alone, without the amount, with world metres to one unit of length."""
        parts: list[str] = []
        if not self.movable:
            parts.append("no free channel moves it")
        elif self._wholly_beyond:
            parts.append("beyond the longest reach of its chain")
        elif self.reason is Reason.OUT_OF_REACH:
            parts.append("out of reach")
        elif self.reason is Reason.NOT_CONVERGED:
            parts.append("not converged")
        elif self.reason is Reason.SMOOTHNESS:
            parts.append("gives way to smoothness")
        elif self.reason is Reason.SOFTNESS:
            parts.append("gives way because it is soft")
        if self.shares_with:
            what = "the error" if self.level is None else f"level {self.level}"
            parts.append(f"shares {what} with {_listed(self.shares_with)}")
        if self.outranked_by:
            above = " and ".join(str(level) for level in self.levels)
            which = f"level {above} takes" if len(self.levels) == 1 else f"levels {above} take"
            parts.append(f"{which} precedence: {_listed(self.outranked_by)}")
        if self.limits:
            parts.append(f"at its limits: {_listed([limit.text(metres) for limit in self.limits])}")
        if self.smoothed > (1.0 - WHOLE) * self.error and self.reason is not Reason.SMOOTHNESS:
            parts.append(f"{self._amount(self.smoothed, metres)} of it gives way to smoothness")
        if self.beyond > (1.0 - WHOLE) * self.error and not self._wholly_beyond:
            parts.append(f"{_metres(self.beyond * metres)} of it beyond the longest reach of its chain")
        elif self.reason in (Reason.OUT_OF_REACH, Reason.LIMITS) and not self.proven:
            # Limits and straight limbs hold this pose; nothing says that no other one reaches.
            parts.append("the best pose found")
        return "; ".join(parts) or _UNNAMED[self.reason]

    def _amount(self, error: float, metres: float) -> str:
        return _degrees(error) if self.angular else _metres(error * metres)


_UNNAMED: Final = {
    Reason.OUT_OF_REACH: "out of reach",
    Reason.LIMITS: "at its limits",
    Reason.PRECEDENCE: "a higher level takes precedence",
    Reason.SHARED: "shares its level with others",
    Reason.SOFTNESS: "gives way because it is soft",
    Reason.SMOOTHNESS: "gives way to smoothness",
    Reason.NOT_CONVERGED: "not converged",
}
"""Sentence for each reason when no limit and no task is named."""


@one_thread
def explain(
    system: System,
    posed: PosedMechanism,
    reached: BoolArray,
    *,
    merged: bool = False,
) -> list[tuple[Explanation | None, ...]]:
    """Say why tasks were missed; where none was this costs nothing.

    Args:
        system: The problem.
        posed: Its mechanism at the answer, `system.place(values)` with values (F, nv).
        reached: Which of `system.tasks` count as met, (F, T).
        merged: Whether the method takes all levels as one.

    Returns:
        For each frame one for each of `system.tasks`, None for those that are reached.
    """
    answers: list[list[Explanation | None]] = [[None] * len(system.tasks) for _ in reached]
    if not reached.all():
        # Levels below the last that misses something have no part in it.
        missed = np.flatnonzero(~np.logical_and.reduce(reached, axis=0)).tolist()
        last = max(system.tasks[number].priority for number in missed)
        stacks = [
            stack for stack in Linearized.all_of(system, posed) if merged or stack.task.priority <= last
        ]
        errors = system.errors(posed)
        for frame in np.flatnonzero(~np.logical_and.reduce(reached, axis=1)).tolist():
            pulls = [Pull(stack, frame) for stack in stacks]
            missed_here = {
                number: float(errors[frame, number]) for number in missed if not reached[frame, number]
            }
            reasons = _Reasons(Balance(system, posed, frame), system, pulls, missed_here, merged)
            for number, explanation in reasons.explanations():
                answers[frame][number] = explanation
    return [tuple(answer) for answer in answers]


class _Reasons:
    """Why tasks were missed at one frame."""

    def __init__(
        self,
        balance: Balance,
        system: System,
        pulls: Sequence[Pull],
        errors: dict[int, float],
        merged: bool,
    ) -> None:
        """Sort the tasks into levels.

        Args:
            balance: What holds the free channels.
            system: The problem.
            pulls: Those tasks that may have a part in it.
            errors: Of each task that was missed, by its number, [m] or [rad].
            merged: Whether all levels are one.
        """
        self._balance, self._system, self._errors = balance, system, errors
        self._merged = merged and len(system.priorities) > 1
        priorities = sorted({pull.task.priority for pull in pulls})
        grouped = [[pull for pull in pulls if pull.task.priority == priority] for priority in priorities]
        self._levels = [list(pulls)] if self._merged else grouped

    def explanations(self) -> Iterator[tuple[int, Explanation]]:
        """Number and explanation of each task that was missed."""
        balance = self._balance
        above: list[Holding] = []
        for place, level in enumerate(self._levels):
            missed = [pull for pull in level if pull.number in self._errors]
            pressing = np.zeros(len(balance.channels), dtype=np.bool_)
            if missed:
                basis = balance.basis(above)
                total = sum((pull.force for pull in level), np.zeros(self._system.size))
                pressure, rest = balance.pressed(total, basis)
                pressing = pressure > BALANCED * max(pull.strength for pull in level)
                for pull in missed:
                    yield pull.number, self._explained(pull, level, above, basis, pressure, rest)
            if place + 1 < len(self._levels):
                above += balance.holding(level, self._errors, pressing)

    def _explained(
        self,
        pull: Pull,
        level: list[Pull],
        above: list[Holding],
        basis: FloatArray,
        level_pressure: FloatArray,
        level_rest: FloatArray,
    ) -> Explanation:
        """The first reason that balances the force of a task.

        Args:
            pull: The task.
            level: All tasks of its level.
            above: What the levels above hold.
            basis: The space of their rows, (nv, r).
            level_pressure: How strongly the whole level presses against each limit, (k,).
            level_rest: What limits and levels above leave of the force of the whole level, (nv,).
        """
        balance = self._balance
        beyond = balance.beyond(pull.number)
        if pull.strength <= 0.0:
            return self._explanation(pull, Reason.OUT_OF_REACH, beyond=beyond)
        force = pull.force / pull.strength
        nothing = np.zeros((self._system.size, 0))
        if np.linalg.norm(force) <= BALANCED:
            if beyond >= WHOLE * self._errors[pull.number]:
                return self._explanation(pull, Reason.OUT_OF_REACH, beyond=beyond)
            return self._explained_by_curvature(pull, level, above, beyond)
        pressure, rest = balance.pressed(force, nothing)
        if np.linalg.norm(rest) <= BALANCED:
            return self._explanation(pull, Reason.LIMITS, pressure=pressure, beyond=beyond)
        if above:
            pressure, rest = balance.pressed(force, basis)
            if np.linalg.norm(rest) <= BALANCED:
                held = balance.held_by(above, force - balance.normals(pressure), 1.0)
                return self._explanation(pull, Reason.PRECEDENCE, pressure=pressure, held=held, beyond=beyond)
        noise = CONVERGED * max(other.stiffness for other in level)
        if len(level) > 1 and np.linalg.norm(level_rest) <= BALANCED * pull.strength + noise:
            # Against what limits and levels above leave of its force the others must pull: no limit does.
            own = rest / float(rest @ rest) / pull.strength
            shares = [(-float(other.force @ own), other) for other in level if other is not pull]
            shares = [(share, other) for share, other in shares if share >= SHARE]
            total = sum((other.force for other in level), np.zeros(self._system.size))
            held = balance.held_by(above, total - balance.normals(level_pressure), pull.strength, pull.force)
            # Of the limits against which the level presses, those against which this task does.
            against = pull.force[balance.channels] * balance.outward > BALANCED * pull.strength
            pressure = np.where(against, level_pressure / pull.strength, 0.0)
            others = [other for _, other in sorted(shares, key=lambda pair: -pair[0])]
            if others:
                return self._explanation(
                    pull, Reason.SHARED, pressure=pressure, held=held, others=others, beyond=beyond
                )
        return self._explanation(pull, self._open(pull), beyond=beyond)

    def _explained_by_curvature(
        self, pull: Pull, level: list[Pull], above: list[Holding], beyond: float
    ) -> Explanation:
        """The reason why a task that does not pull is not nearer, if it could be."""
        balance = self._balance
        bends = pull.hessian() / pull.strength
        if convex(bends):
            return self._explanation(pull, Reason.OUT_OF_REACH, beyond=beyond)
        _, direction = lowest(bends, np.eye(self._system.size))
        loose = np.diag(balance.free.astype(np.float64))
        if lowest(bends, loose)[0] >= -CURVED:
            # Held to second order: there is no force against these, but the turn that is wanted goes there.
            stands = np.abs(direction[balance.channels]) > SHARE * np.abs(direction).max()
            return self._explanation(
                pull, Reason.LIMITS, pressure=np.where(stands, 1.0, 0.0), first_order=False, beyond=beyond
            )
        _, direction = lowest(bends, loose)
        loose = balance.off(loose, balance.basis(above, balance.free))
        if above and lowest(bends, loose)[0] >= -CURVED:
            held = balance.held_by(above, direction, 1.0)
            return self._explanation(pull, Reason.PRECEDENCE, held=held, beyond=beyond)
        _, direction = lowest(bends, loose)
        hessians = [other.hessian() for other in level]
        others = [
            other
            for other, hessian in zip(level, hessians, strict=True)
            if other is not pull and direction @ hessian @ direction > 0.0
        ]
        total = np.add.reduce(hessians) / pull.strength
        if others and lowest(total, loose)[0] >= -CURVED:
            return self._explanation(pull, Reason.SHARED, others=others, beyond=beyond)
        return self._explanation(pull, self._open(pull), beyond=beyond)

    def _open(self, pull: Pull) -> Reason:
        """The reason where neither limits nor other tasks balance the force of a task."""
        soft = pull.task.softness > 0.0 and not self._merged
        return Reason.SOFTNESS if soft else Reason.NOT_CONVERGED

    def _explanation(
        self,
        pull: Pull,
        reason: Reason,
        *,
        pressure: FloatArray | None = None,
        first_order: bool = True,
        held: Sequence[Task] = (),
        others: Sequence[Pull] = (),
        beyond: float,
    ) -> Explanation:
        """Put a reason into names.

        Args:
            pull: The task.
            reason: Why it was missed.
            pressure: How strongly it presses against each limit, (k,), for a full pull of 1.
            first_order: Whether that is a force.
            held: Tasks of higher levels that take part.
            others: Tasks of the same level that take part.
            beyond: How far the target lies beyond the reach of the chain [m].
        """
        balance = self._balance
        task = pull.task
        per_unit = pull.size * (1.0 if task.angular else balance.length) * first_order
        limits: list[Limit] = []
        pressure = np.zeros(len(balance.channels)) if pressure is None else pressure
        for k in np.argsort(-pressure, kind="stable").tolist():
            if pressure[k] <= BALANCED:
                break
            column, upper = int(balance.channels[k]), bool(balance.outward[k] > 0.0)
            if not self._system.own[column]:
                continue  # a point pressed onto a plane, whose task has a part in it by name
            joint, channel = divmod(int(self._system.mechanism.channels[column]), CHANNELS)
            limits.append(
                Limit(
                    joint=self._system.problem.skeleton.names[joint],
                    channel=channel,
                    value=float((self._system.upper if upper else self._system.lower)[column]),
                    upper=upper,
                    gain=float(pressure[k]) * per_unit / (1.0 if channel >= 3 else balance.length),
                )
            )
        if reason is Reason.LIMITS and not limits:  # nothing but the plane below which it is
            reason = Reason.OUT_OF_REACH
        return Explanation(
            task=task.label,
            error=self._errors[pull.number],
            angular=task.angular,
            reason=reason,
            limits=tuple(limits),
            outranked_by=_names(held, task),
            levels=tuple(sorted({upper.priority for upper in held})),
            shares_with=_names([other.task for other in others], task),
            level=None if self._merged else task.priority,
            beyond=beyond,
            movable=pull.size > 0.0,
        )


def _names(tasks: Sequence[Task], asking: Task) -> tuple[str, ...]:
    """Labels of tasks, each once; of the same effector what it is about."""

    def name(task: Task) -> str:
        if isinstance(task, AxisTask) and task.label == asking.label:
            return "its own orientation" if task.angular else "its own position"
        return task.label

    return tuple(dict.fromkeys(name(task) for task in tasks))


LEAST_DEGREES: Final = 1e-3
"""Angle [°] below which it is said to be 0: less is rounding."""


def _metres(length: float) -> str:
    return f"{length:.3g} m"


def _degrees(angle: float) -> str:
    degrees = float(np.degrees(angle))
    return f"{0.0 if abs(degrees) < LEAST_DEGREES else degrees:.3g}°"


def limit_angle(angle: float) -> str:
    """Write a limit [rad] in tenths of a degree: one that was set to 0 is 1e-14 after conversions."""
    return f"{round(float(np.degrees(angle)), 1) + 0.0:g}°"  # no -0


def _listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")

# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a task was missed: out of reach, held by limits, by higher levels, by others of its level, or not done.

At the answer let r be the residual of a missed task as a part of its own size, J its Jacobian, f = −Jᵀr the
force with which it pulls at the free channels. A pose as near as it can be balances that force (Karush, Kuhn
and Tucker):

    f + (forces of the other tasks of its level) = Σ_k A_kᵀ μ_k + Σ_c s_c n_c,        s_c >= 0,

where the rows A span what the levels above hold, and n_c is the outward normal of a limit on which channel c
stands. The reason is the first of these that balances the force:

1. nothing, f = 0: no free channel, with or without limits, brings the task nearer. It is out of reach;
2. limits alone: were limit c to give way by δ, the task would come nearer by s_c δ, to first order;
3. limits and the levels above: those tasks with the largest A_kᵀ μ_k took precedence;
4. these and the forces of the other tasks of its level: it shares the level with those that pull against what
   limits and levels above leave of its force;
5. nothing does: the pose is not converged.

Multipliers come from the least squares problem |P (f − Σ s_c n_c)|, s >= 0, P the projection off the rows A,
by the active sets of [LawsonHanson1974]: of several sets of limits that explain a miss it takes a small one.

**What a level holds** are the rows of its Jacobian, and where it is missed also the directions in which its
cost curves: to an arm stretched towards a target too far away bending costs at second order only.

**Saddles.** A force may vanish although the task could be nearer: an arm points straight at a target nearer
than its hand. So where f = 0 the curvature of |r| is asked too, and the same reasons are tried in the same
order: on the channels off their limits, on what the levels above leave of these, with the other tasks.

**A bound.** No chain whose channels only turn carries a point further from its first joint than the sum of
the distances between its joints. What a target lies beyond that is missed whatever limits and other tasks do.

Lengths are divided by the reach of the skeleton, as in the objective, so that forces have no unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray, IntArray
from .mechanism import ARMATURE, PosedMechanism
from .problem import System
from .skeleton import CHANNELS
from .tasks import JointTask, ReachPoint, Task

BALANCED: Final = 1e-3
"""Part of the force that a full pull of the task could have [1], below which what is left of it counts as
nothing: the pose is then within about as many radians of where it would balance."""

CONVERGED: Final = 1e-5
"""How exactly the pose is known [rad]: heavy tasks that are met but for this still pull at light ones."""

SHARE: Final = 0.05
"""Part of a force [1] that another task must balance to be named."""

STANDS: Final = 1e-3
"""Distance from a limit [rad, or lengths of reach] at which a channel stands on it, near as `BALANCED` asks:
where levels above are put back last, others end up to 1e-4 short of their limits."""

RANK: Final = 1e-7
"""Size of a singular value against the largest [1], from which rows hold a direction."""

CURVED: Final = 1e-3
"""Curvature against that of a full pull [1], from which it counts."""

WHOLE: Final = 0.99
"""Part of a miss [1] from which the bound on the reach explains all of it."""

NAMES_SHOWN: Final = 3
"""How many limits or tasks a sentence lists before it says how many more there are."""


class Reason(StrEnum):
    """What keeps a task from being met."""

    OUT_OF_REACH = "OUT_OF_REACH"
    """No free channel brings it nearer, even without limits and other tasks."""
    LIMITS = "LIMITS"
    """Without limits it would come nearer."""
    PRECEDENCE = "PRECEDENCE"
    """Without the levels above it would come nearer."""
    SHARED = "SHARED"
    """Without the other tasks of its level it would come nearer."""
    NOT_CONVERGED = "NOT_CONVERGED"
    """It would come nearer if the search went on."""


@dataclass(frozen=True)
class Limit:
    """A limit against which a task presses."""

    joint: str
    channel: int
    """Translation x, y, z, then rotation x, y, z."""
    value: float
    """Where the limit is [m] or [rad]."""
    upper: bool
    """Whether it is the upper one."""
    gain: float
    """By how much the error falls for each unit that the limit gives way [m/rad, m/m, rad/rad or rad/m], to
    first order; where the level is shared, by how much its cost falls, as if that were all in this error. 0
    where the task is held at second order only."""

    def text(self, metres: float = 1.0) -> str:
        """Joint, channel and value, with world metres to one unit of length."""
        kind, axis = divmod(self.channel, 3)
        value = _degrees(self.value) if kind else _metres(self.value * metres)
        return f"{self.joint} {('translation', 'rotation')[kind]} {'xyz'[axis]} at {value}"


@dataclass(frozen=True)
class Explanation:
    """Why one task was missed."""

    task: str
    """Its label."""
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
    """Its own priority; None for methods to which all levels are one."""
    beyond: float = 0.0
    """Part of the error [m] by which the target lies beyond the longest reach of the chain."""
    movable: bool = True
    """Whether any free channel moves what the task is about."""

    @property
    def text(self) -> str:
        """By how much it was missed and why, in a sentence."""
        return self.sentence()

    def sentence(self, metres: float = 1.0) -> str:
        """The same with world metres to one unit of length."""
        amount = _degrees(self.error) if self.angular else _metres(self.error * metres)
        simple = self.reason is Reason.OUT_OF_REACH and self.movable
        return f"{amount} {'' if simple else 'off, '}{self.why(metres)}"

    def why(self, metres: float = 1.0) -> str:
        """The reason alone, without the amount, with world metres to one unit of length."""
        parts: list[str] = []
        whole = self.reason is Reason.OUT_OF_REACH and self.beyond >= WHOLE * self.error
        if not self.movable:
            parts.append("no free channel moves it")
        elif whole:
            parts.append("beyond the longest reach of its chain")
        elif self.reason is Reason.OUT_OF_REACH:
            parts.append("out of reach")
        elif self.reason is Reason.NOT_CONVERGED:
            parts.append("not converged")
        if self.shares_with:
            what = "the error" if self.level is None else f"level {self.level}"
            parts.append(f"shares {what} with {_listed(self.shares_with)}")
        if self.outranked_by:
            above = " and ".join(str(level) for level in self.levels)
            which = f"level {above} takes" if len(self.levels) == 1 else f"levels {above} take"
            parts.append(f"{which} precedence: {_listed(self.outranked_by)}")
        if self.limits:
            parts.append(f"at its limits: {_listed([limit.text(metres) for limit in self.limits])}")
        if self.beyond > (1.0 - WHOLE) * self.error and not whole:
            parts.append(f"{_metres(self.beyond * metres)} of it beyond the longest reach of its chain")
        return "; ".join(parts)


def explain(
    system: System,
    posed: PosedMechanism,
    reached: BoolArray,
    *,
    merged: bool = False,
    clamp_distance: float | None = None,
) -> list[tuple[Explanation | None, ...]]:
    """Say why tasks were missed; where none was this costs nothing.

    Args:
        system: The problem.
        posed: Its mechanism at the answer, `system.place(values)` with values (F, nv).
        reached: Which of `system.tasks` count as met, (F, T).
        merged: Whether the method takes all levels as one.
        clamp_distance: Dmax, to which the method shortened residuals of places [m]; None for not at all.

    Returns:
        For each frame one for each of `system.tasks`, None for those that are reached.
    """
    answers: list[list[Explanation | None]] = [[None] * len(system.tasks) for _ in reached]
    if not reached.all():
        # Levels below the last that misses something have no part in it.
        missed = np.flatnonzero(~np.logical_and.reduce(reached, axis=0)).tolist()
        last = max(system.tasks[number].priority for number in missed)
        stacks = [
            _Linearized(number, task, system, posed)
            for number, task in enumerate(system.tasks)
            if merged or task.priority <= last
        ]
        errors = system.errors(posed)
        for frame in np.flatnonzero(~np.logical_and.reduce(reached, axis=1)).tolist():
            pulls = [_Pull(stack, frame, clamp_distance) for stack in stacks]
            missed_here = {
                number: float(errors[frame, number]) for number in missed if not reached[frame, number]
            }
            balance = _Balance(system, posed, frame, pulls, missed_here, merged)
            for number, explanation in balance.explanations():
                answers[frame][number] = explanation
    return [tuple(answer) for answer in answers]


class _Linearized:
    """One task by itself over all frames, without its weight, in scaled units."""

    def __init__(self, number: int, task: Task, system: System, posed: PosedMechanism) -> None:
        self.number, self.task, self._posed = number, task, posed
        self._rows = task.rows([task], system.mechanism)
        self.length = system.problem.skeleton.reach
        """Unit of length [m]."""
        self._columns = np.where(system.rotates, 1.0, self.length)
        self.angular = self._rows.angular
        scale = np.where(self.angular, 1.0, 1.0 / self.length) / task.weight
        residual, jacobian = self._rows.linearize(posed)
        self.residual: FloatArray = residual * scale  # (F, m)
        self.jacobian: FloatArray = jacobian * scale[:, None] * self._columns  # (F, m, nv)
        self._curvature: FloatArray | None = None

    def curvature(self, frame: int) -> FloatArray:
        """Σ_k r_k ∂²r_k/∂q∂q, (nv, nv)."""
        if self._curvature is None:
            unit = self.task.weight * (1.0 if self.angular.all() else self.length)
            columns = self._columns[:, None] * self._columns
            self._curvature = self._rows.curvature(self._posed) * columns / unit**2
        return self._curvature[frame]


class _Pull:
    """How one task pulls at the free channels in one frame."""

    def __init__(self, stack: _Linearized, frame: int, clamp_distance: float | None) -> None:
        self._stack, self._frame = stack, frame
        self.number, self.task = stack.number, stack.task
        self.jacobian = stack.jacobian[frame]
        residual = stack.residual[frame]
        self.missing = float(np.linalg.norm(residual))
        """|r| [1], in scaled units."""
        self.size = float(np.linalg.norm(self.jacobian, 2)) if self.jacobian.size else 0.0
        """Force of a full pull: |f| for the residual of length 1 that pulls most [1]."""
        clamped = np.array(residual)
        if clamp_distance is not None:
            places = ~stack.angular
            size = float(np.linalg.norm(residual[places])) * self.task.weight
            clamped[places] *= min(1.0, clamp_distance / stack.length / size) if size > 0.0 else 1.0
        self.strength = self.task.weight**2 * float(np.linalg.norm(clamped)) * self.size
        """The most it can pull in its level [1]."""
        self.stiffness = (self.task.weight * self.size) ** 2
        """How its force grows with a change of the pose [1/rad]."""
        self.force: FloatArray = -(self.task.weight**2) * (clamped @ self.jacobian)  # (nv,)

    @property
    def curvature(self) -> FloatArray:
        """Σ_k r_k ∂²r_k/∂q∂q for a residual of length 1, (nv, nv)."""
        return self._stack.curvature(self._frame) / self.missing

    def hessian(self) -> FloatArray:
        """Of what the task adds to the cost of its level, (nv, nv)."""
        return self.task.weight**2 * (self.jacobian.T @ self.jacobian + self._stack.curvature(self._frame))


_Holding = tuple[Task, FloatArray]
"""A task of a higher level and the rows (m, nv) by which it holds channels: its Jacobian and, where it was
missed, the directions that its curvature holds."""


class _Balance:
    """The forces of all tasks at one frame."""

    def __init__(
        self,
        system: System,
        posed: PosedMechanism,
        frame: int,
        pulls: Sequence[_Pull],
        errors: dict[int, float],
        merged: bool,
    ) -> None:
        """Sort the tasks into levels.

        Args:
            system: The problem.
            posed: Its mechanism at the answers.
            frame: Which of them.
            pulls: Those tasks that may have a part in it.
            errors: Of each task that was missed, by its number, [m] or [rad].
            merged: Whether all levels are one.
        """
        self._system, self._posed, self._frame, self._errors = system, posed, frame, errors
        self._merged = merged and len(system.priorities) > 1
        self._length = system.problem.skeleton.reach
        self._identity = np.eye(system.size)
        priorities = sorted({pull.task.priority for pull in pulls})
        grouped = [[pull for pull in pulls if pull.task.priority == priority] for priority in priorities]
        self._levels = [list(pulls)] if self._merged else grouped
        values, near = posed.values[frame], STANDS * np.where(system.rotates, 1.0, self._length)
        stops = [(values <= system.lower + near, -1.0), (values >= system.upper - near, 1.0)]
        self._channels: IntArray = np.concatenate([np.flatnonzero(stop) for stop, _ in stops])
        """Channels that stand on a limit, (k,); those that can go neither way are there twice."""
        self._outward = np.concatenate([np.full(int(stop.sum()), sign) for stop, sign in stops])
        """Which way each would have to give way, -1 or 1, (k,)."""
        self._free: BoolArray = ~(stops[0][0] | stops[1][0])

    def explanations(self) -> Iterator[tuple[int, Explanation]]:
        """Number and explanation of each task that was missed."""
        above: list[_Holding] = []
        for place, level in enumerate(self._levels):
            missed = [pull for pull in level if pull.number in self._errors]
            pressing = np.zeros(len(self._channels), dtype=np.bool_)
            if missed:
                basis = self._basis(above)
                total = sum((pull.force for pull in level), np.zeros(self._system.size))
                pressure, rest = self._pressed(total, basis)
                pressing = pressure > BALANCED * max(pull.strength for pull in level)
                for pull in missed:
                    yield pull.number, self._explained(pull, level, above, basis, pressure, rest)
            if place + 1 < len(self._levels):
                above += self._holding(level, pressing)

    def _explained(
        self,
        pull: _Pull,
        level: list[_Pull],
        above: list[_Holding],
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
        beyond = self._beyond(pull.task)
        if pull.strength <= 0.0:
            return self._explanation(pull, Reason.OUT_OF_REACH, beyond=beyond)
        force = pull.force / pull.strength
        nothing = np.zeros((self._system.size, 0))
        if np.linalg.norm(force) <= BALANCED:
            if beyond >= WHOLE * self._errors[pull.number]:
                return self._explanation(pull, Reason.OUT_OF_REACH, beyond=beyond)
            return self._explained_by_curvature(pull, level, above, beyond)
        pressure, rest = self._pressed(force, nothing)
        if np.linalg.norm(rest) <= BALANCED:
            return self._explanation(pull, Reason.LIMITS, pressure=pressure, beyond=beyond)
        if above:
            pressure, rest = self._pressed(force, basis)
            if np.linalg.norm(rest) <= BALANCED:
                held = self._held_by(above, force - self._normals(pressure), 1.0)
                return self._explanation(pull, Reason.PRECEDENCE, pressure=pressure, held=held, beyond=beyond)
        noise = CONVERGED * max(other.stiffness for other in level)
        if len(level) > 1 and np.linalg.norm(level_rest) <= BALANCED * pull.strength + noise:
            # Against what limits and levels above leave of its force the others must pull: no limit does.
            own = rest / float(rest @ rest) / pull.strength
            shares = [(-float(other.force @ own), other) for other in level if other is not pull]
            shares = [(share, other) for share, other in shares if share >= SHARE]
            total = sum((other.force for other in level), np.zeros(self._system.size))
            held = self._held_by(above, total - self._normals(level_pressure), pull.strength, pull.force)
            # Of the limits against which the level presses, those against which this task does.
            against = pull.force[self._channels] * self._outward > BALANCED * pull.strength
            pressure = np.where(against, level_pressure / pull.strength, 0.0)
            others = [other for _, other in sorted(shares, key=lambda pair: -pair[0])]
            if others:
                return self._explanation(
                    pull, Reason.SHARED, pressure=pressure, held=held, others=others, beyond=beyond
                )
        return self._explanation(pull, Reason.NOT_CONVERGED, beyond=beyond)

    def _explained_by_curvature(
        self, pull: _Pull, level: list[_Pull], above: list[_Holding], beyond: float
    ) -> Explanation:
        """The reason why a task that does not pull is not nearer, if it could be."""
        bends = pull.hessian() / pull.strength
        if _convex(bends):
            return self._explanation(pull, Reason.OUT_OF_REACH, beyond=beyond)
        _, direction = _lowest(bends, self._identity)
        loose = np.diag(self._free.astype(np.float64))
        if _lowest(bends, loose)[0] >= -CURVED:
            # Held to second order: there is no force against these, but the turn that is wanted goes there.
            stands = np.abs(direction[self._channels]) > SHARE * np.abs(direction).max()
            return self._explanation(
                pull, Reason.LIMITS, pressure=np.where(stands, 1.0, 0.0), first_order=False, beyond=beyond
            )
        _, direction = _lowest(bends, loose)
        loose = self._off(loose, self._basis(above, self._free))
        if above and _lowest(bends, loose)[0] >= -CURVED:
            held = self._held_by(above, direction, 1.0)
            return self._explanation(pull, Reason.PRECEDENCE, held=held, beyond=beyond)
        _, direction = _lowest(bends, loose)
        hessians = [other.hessian() for other in level]
        others = [
            other
            for other, hessian in zip(level, hessians, strict=True)
            if other is not pull and direction @ hessian @ direction > 0.0
        ]
        total = np.add.reduce(hessians) / pull.strength
        if others and _lowest(total, loose)[0] >= -CURVED:
            return self._explanation(pull, Reason.SHARED, others=others, beyond=beyond)
        return self._explanation(pull, Reason.NOT_CONVERGED, beyond=beyond)

    # What the levels above hold

    def _holding(self, level: list[_Pull], pressing: BoolArray) -> list[_Holding]:
        """The rows by which a level holds channels; it presses against some of the limits (k,)."""
        missed = {pull.number for pull in level if pull.number in self._errors and pull.missing > 0.0}
        if not missed:
            return [(pull.task, pull.jacobian) for pull in level]
        # The level is as low as it can be: what its rows and limits leave, its curvature holds.
        space = self._with_limits(_space(np.concatenate([pull.jacobian for pull in level])), pressing)
        loose = self._off(self._identity, space)
        holdings: list[_Holding] = []
        for pull in level:
            rows = pull.jacobian
            if pull.number in missed:
                bends, directions = np.linalg.eigh(loose @ pull.curvature @ loose)
                rows = np.concatenate([rows, directions[:, np.abs(bends) > CURVED * pull.size].T])
            holdings.append((pull.task, rows))
        return holdings

    def _basis(self, above: Sequence[_Holding], channels: BoolArray | None = None) -> FloatArray:
        """Orthonormal columns of the space that the levels above hold, (nv, r), by some channels only."""
        rows = np.concatenate([np.zeros((0, self._system.size)), *(rows for _, rows in above)])
        return _space(rows if channels is None else rows * channels)

    def _held_by(
        self, above: Sequence[_Holding], force: FloatArray, strength: float, own: FloatArray | None = None
    ) -> list[Task]:
        """The tasks above that balance a force (nv,), the strongest first.

        Args:
            above: What they hold.
            force: What they balance between them.
            strength: The force against which theirs are measured.
            own: Only those that pull against this one, (nv,).
        """
        if not above:
            return []
        stacked = np.concatenate([rows for _, rows in above])
        multipliers = np.linalg.lstsq(stacked.T, force, rcond=RANK)[0]
        counts = np.cumsum([len(rows) for _, rows in above])
        parts: list[tuple[float, Task]] = []
        for (task, rows), mine in zip(above, np.split(multipliers, counts[:-1]), strict=True):
            answer = mine @ rows
            if own is None or answer @ own > 0.0:
                parts.append((float(np.linalg.norm(answer)), task))
        least = SHARE * max(float(np.linalg.norm(force)), BALANCED * strength)
        return [task for size, task in sorted(parts, key=lambda part: -part[0]) if size >= least]

    # Limits

    def _pressed(self, force: FloatArray, basis: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How strongly a force (nv,) presses against each limit (k,), and what nothing balances (nv,).

        Args:
            force: The force.
            basis: Directions that are held, orthonormal, (nv, r).
        """
        normals = np.zeros((self._system.size, len(self._channels)))
        normals[self._channels, np.arange(len(self._channels))] = self._outward
        columns, wanted = self._off(normals, basis), self._off(force, basis)
        pressure = _nonnegative(columns, wanted)
        return pressure, wanted - columns @ pressure

    def _normals(self, pressure: FloatArray) -> FloatArray:
        """The force against limits that press so strongly (k,), (nv,)."""
        force = np.zeros(self._system.size)
        np.add.at(force, self._channels, pressure * self._outward)
        return force

    def _with_limits(self, basis: FloatArray, pressing: BoolArray) -> FloatArray:
        """A basis (nv, r) with the channels of some limits (k,) held as well."""
        units = self._identity[np.unique(self._channels[pressing])]
        return _space(np.concatenate([basis.T, units])) if len(units) else basis

    @staticmethod
    def _off(vectors: FloatArray, basis: FloatArray) -> FloatArray:
        """What an orthonormal basis (nv, r) leaves of vectors, (nv,) or (nv, n)."""
        return vectors - basis @ (basis.T @ vectors)

    # The result

    def _beyond(self, task: Task) -> float:
        """How far a target lies beyond the longest reach of the chain [m]; 0 where there is no such bound."""
        if not isinstance(task, ReachPoint):
            return 0.0
        mechanism = self._system.mechanism
        joint = mechanism.skeleton.index(task.joint)
        slot = mechanism.anchor(joint)
        if (mechanism.moves[slot] & ~mechanism.rotates).any():
            return 0.0
        matrix = mechanism.anchor_from_joint(joint)
        local = matrix[:, :3, :3] @ task.point + matrix[:, :3, 3]
        end = self._posed.points(np.array([slot]), local[:, None])[self._frame, 0]
        reach, first = 0.0, end
        while slot != ARMATURE:
            place = self._posed.matrices[self._frame, slot, :3, 3]
            reach += float(np.linalg.norm(first - place))
            first, slot = place, int(mechanism.parents[slot - 1])
        at_frame = task.at_frame(self._frame)
        assert isinstance(at_frame, ReachPoint)
        away = (at_frame.armature_from_axes.T @ (first - at_frame.target)) * at_frame.axes
        return max(0.0, float(np.linalg.norm(away)) - reach)

    def _explanation(
        self,
        pull: _Pull,
        reason: Reason,
        *,
        pressure: FloatArray | None = None,
        first_order: bool = True,
        held: Sequence[Task] = (),
        others: Sequence[_Pull] = (),
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
        task = pull.task
        per_unit = pull.size * (1.0 if task.angular else self._length) * first_order
        limits: list[Limit] = []
        pressure = np.zeros(len(self._channels)) if pressure is None else pressure
        for k in np.argsort(-pressure, kind="stable").tolist():
            if pressure[k] <= BALANCED:
                break
            column, upper = int(self._channels[k]), bool(self._outward[k] > 0.0)
            joint, channel = divmod(int(self._system.mechanism.channels[column]), CHANNELS)
            limits.append(
                Limit(
                    joint=self._system.problem.skeleton.names[joint],
                    channel=channel,
                    value=float((self._system.upper if upper else self._system.lower)[column]),
                    upper=upper,
                    gain=float(pressure[k]) * per_unit / (1.0 if channel >= 3 else self._length),
                )
            )
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


def _space(rows: FloatArray) -> FloatArray:
    """Orthonormal columns that span rows (m, nv), (nv, r)."""
    if not rows.size:
        return np.zeros((rows.shape[1], 0))
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(directions[sizes > RANK * max(sizes[0], RANK)].T, dtype=np.float64)


def _convex(bends: FloatArray) -> bool:
    """Whether no curvature is below zero; many times faster than to ask for the lowest one."""
    try:
        np.linalg.cholesky(bends + CURVED * np.eye(len(bends)))
    except np.linalg.LinAlgError:
        return False
    return True


def _lowest(bends: FloatArray, loose: FloatArray) -> tuple[float, FloatArray]:
    """Lowest curvature inside the range of a projection, and its direction; 0 where there is none."""
    sizes, directions = np.linalg.eigh(loose @ bends @ loose)
    return (float(sizes[0]), directions[:, 0]) if len(sizes) else (0.0, np.zeros(0))


def _nonnegative(columns: FloatArray, wanted: FloatArray) -> FloatArray:
    """Non-negative x with the least |columns x − wanted|, by active sets [LawsonHanson1974], (k,)."""
    count = columns.shape[1]
    answer = np.zeros(count)
    # A limit whose normal is held already explains nothing more.
    open_to: BoolArray = np.linalg.norm(columns, axis=0) > RANK
    used = np.zeros(count, dtype=np.bool_)
    least = RANK * max(float(np.linalg.norm(wanted)), RANK)
    for _ in range(3 * count):
        gain = np.where(open_to & ~used, columns.T @ (wanted - columns @ answer), 0.0)
        if gain.max(initial=0.0) <= least:
            break
        used[int(gain.argmax())] = True
        while used.any():
            trial = np.zeros(count)
            trial[used] = np.linalg.lstsq(columns[:, used], wanted, rcond=RANK)[0]
            negative = used & (trial <= 0.0)
            if not negative.any():
                answer = trial
                break
            ratio = answer[negative] / (answer[negative] - trial[negative])
            answer = answer + ratio.min() * (trial - answer)
            used &= answer > RANK * max(float(answer.max()), RANK)
            answer = np.where(used, answer, 0.0)
    return answer


def _names(tasks: Sequence[Task], asking: Task) -> tuple[str, ...]:
    """Labels of tasks, each once; of the same effector what it is about."""

    def name(task: Task) -> str:
        if isinstance(task, JointTask) and task.label == asking.label:
            return "its own orientation" if task.angular else "its own position"
        return task.label

    return tuple(dict.fromkeys(name(task) for task in tasks))


def _metres(length: float) -> str:
    return f"{length:.3g} m"


def _degrees(angle: float) -> str:
    return f"{np.degrees(angle):.3g}°"


def _listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")

# SPDX-License-Identifier: GPL-3.0-or-later
"""The reason of each miss, by what balances the forces of missed tasks: limits, levels above, other tasks.

At a pose let r be the residual of a missed task as a part of its own size, J its Jacobian, f = −Jᵀr the force
with which it pulls at the free channels. A pose as near as it can be balances that force (Karush, Kuhn and
Tucker):

    f + (forces of the other tasks of its level) + b = Σ_k A_kᵀ μ_k + Σ_c s_c n_c,        s_c >= 0,

where the rows A span what the levels above hold, and n_c is the outward normal of a limit on which channel c
stands. Were limit c to give way by δ, the task would come nearer by s_c δ, to first order. Multipliers come
from the least squares problem |P (f − Σ s_c n_c)|, s >= 0, P the projection off the rows A, by active
sets that begin with no limit [LawsonHanson1974]: of several that explain a miss it takes a small one.

The forces are those of the energy, b that of the levels below and of the posture. It is weak, but a lower
level at a longer lever pulls by some hundredths as much as a task that is alone in its level: by itself a
task may have so much of b against it. One that misses less than others of its level has only a part of the
level's pull, so that b may be more than all its force: it shares the level with those that miss more.

The reason is the first of these that balances f:

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
than its hand. So where f = 0 the curvature of |r| is asked too: which way would bring the task nearer, and
which limits, or whose rows and curvature, are against that.

**What a level holds** are the rows of its Jacobian, and where it is missed also the directions in which its
cost curves: to an arm stretched towards a target too far away bending costs at second order only.

**A bound.** No chain whose channels only turn carries a point further from its first joint than the sum of
the distances between its joints. What a target lies beyond that is missed whatever limits and other tasks do.

Lengths are divided by the reach of the skeleton, as in the energy, so that forces have no unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from ..engine.energy import Energy
from ..methods import bounded_least_squares_step, row_space
from ..model.mechanism import ARMATURE, PosedMechanism
from ..model.skeleton import CHANNELS
from ..problem.system import System
from ..tasks import AxisTask, ReachPoint, Task
from ..tasks.base import anchored
from .explanation import ITS_OWN, WHOLE, Explanation, Limit, Reason

BALANCED: Final = 2e-2
"""Part of the force that a full pull of the task could have [1], below which what is left of it counts as
nothing: the pose is then within about as many radians of where it would balance."""

SHARE: Final = 0.05
"""Part of a force [1] that another task must balance to be named."""

STANDS: Final = 1e-3
"""Distance from a limit [rad, or lengths of reach] at which a channel stands on it, near as `BALANCED` asks:
other methods than the energy's stop up to 1e-4 short of their limits."""

CONVERGED: Final = 1e-5
"""Accuracy of the pose [rad]: within it, heavy tasks that are met still pull at light ones."""

RANK: Final = 1e-7
"""Size of a singular value against the largest [1], from which rows hold a direction."""

CURVED: Final = 1e-3
"""Curvature against that of a full pull [1], from which it counts."""


def explain(
    system: System, posed: PosedMechanism, reached: BoolArray, energy: Energy | None
) -> list[tuple[Explanation | None, ...]]:
    """Say why tasks were missed; where none was this costs nothing.

    Args:
        system: Tasks on F poses.
        posed: Its mechanism at the solution, `system.place(values)` with values (F, nv).
        reached: Which of `system.tasks` count as met, (F, T).
        energy: That of the poses, which the solution minimises; None for methods that take all levels as one.

    Returns:
        For each frame one for each of `system.tasks`, None for those that are reached.
    """
    reasons: list[list[Explanation | None]] = [[None] * len(system.labels) for _ in reached]
    if not reached.all():
        missed = _Missed(system, posed, reached, energy)
        for frame in np.flatnonzero(~reached.all(axis=1)).tolist():
            for number, explanation in _Frame(missed, frame).explanations():
                reasons[frame][number] = explanation
    return [tuple(row) for row in reasons]


class _Missed:
    """Tasks on poses that miss some of them, in scaled units and without weights."""

    def __init__(
        self, system: System, posed: PosedMechanism, reached: BoolArray, energy: Energy | None
    ) -> None:
        self.system, self.posed, self.reached = system, posed, reached
        self.merged = energy is None and len(system.priorities) > 1
        """Whether all levels are one."""
        self.errors = system.errors(posed)
        """Of each task, (F, T) [m, rad]."""
        unit = system.row_units * system.weights[system.task_of_row]
        self.residual = system.residual(posed) / unit
        self.jacobian = system.jacobian(posed) * (system.units / unit[:, None])
        self.free: BoolArray = np.ones(posed.values.shape, dtype=np.bool_)
        """Which channels are not held, (F, nv)."""
        if system.held is not None:
            self.free = ~system.held
            self.jacobian *= self.free[:, None, :]
        weights = system.weights[system.task_of_row]
        self.tension: FloatArray = np.tile(weights**2, (len(reached), 1))
        """Force of each row by its residual and its Jacobian, (F, m)."""
        self.norms: FloatArray = np.ones(self.tension.shape)
        """Norm of the penalty of each row, as the residual of the row has its scale, (F, m) [1]."""
        self.posture: FloatArray = np.zeros(posed.values.shape)
        """Force of the posture, (F, nv)."""
        if energy is not None:
            state, scale = energy.at(posed.values), energy.row_scale * unit
            norms, forces = energy.norms(state.squares), energy.model(state).penalty_weights
            self.norms = norms[:, energy.penalty_of_row] / scale
            self.tension = (forces / norms)[:, energy.penalty_of_row] * scale**2
            away = energy.stiffness * energy.unturned(state.deviation) * energy.weight * system.units
            self.posture = -away * self.free
        # Levels below the last that misses something have no part in it.
        tasks = system.tasks
        last = max(tasks[number].priority for number in np.flatnonzero(~reached.all(axis=0)))
        taking_part = [number for number, task in enumerate(tasks) if self.merged or task.priority <= last]
        self._rows = {number: np.flatnonzero(system.task_of_row == number) for number in taking_part}
        self._bends: dict[int, FloatArray] = {}

    def pulls(self, frame: int) -> list[_Pull]:
        """Those that may have a part in it in a frame."""
        return [_Pull(self, number, frame, rows) for number, rows in self._rows.items()]

    def below(self, frame: int, level: int) -> FloatArray:
        """Force of the levels below one and of the posture in a frame, (nv,)."""
        lower = (self.system.level_of_task[self.system.task_of_row] > level) & (not self.merged)
        pulling = self.tension[frame] * self.residual[frame] * lower
        return self.posture[frame] - pulling @ self.jacobian[frame]

    def bend(self, number: int, frame: int) -> FloatArray:
        """Σ_k r_k ∂²r_k/∂q∂q of a task, (nv, nv)."""
        if number not in self._bends:
            system, unit, own = self.system, self.system.units, self.system.task_of_row == number
            matrix = system.curvature(self.posed, np.where(own, system.residual(self.posed), 0.0))
            scale = system.weights[number] * (1.0 if system.angular_rows[own].all() else system.reach)
            self._bends[number] = matrix * (unit[:, None] * unit) / scale**2
        free = self.free[frame]
        return self._bends[number][frame] * (free[:, None] & free)


class _Pull:
    """Force of one task on the free channels in one frame."""

    def __init__(self, missed: _Missed, number: int, frame: int, rows: IntArray) -> None:
        residual, tension = missed.residual[frame, rows], missed.tension[frame, rows]
        jacobian = missed.jacobian[frame, rows]
        self.number, self.task, self.jacobian = number, missed.system.tasks[number], jacobian
        self._missed, self._frame, self._weight = missed, frame, float(tension[0])
        self.penalty = int(missed.system.penalty_of_row[rows[0]])
        """The one that it is in."""
        self.missing = float(np.linalg.norm(residual))
        """|r| [1]."""
        size = float(np.linalg.norm(jacobian, 2)) if jacobian.size else 0.0
        self.size = size if size > RANK else 0.0
        """Force of a full pull: |f| for the residual of length 1 that pulls most [1]; 0 if rounding."""
        self.strength = self._weight * self.missing * self.size
        """The most it can pull in its level [1]."""
        self.stiffness = self._weight * self.size**2
        """Change of its force by a change of the pose [1/rad]."""
        self.force: FloatArray = -(tension * residual) @ jacobian  # (nv,)
        self.part = self.missing / float(missed.norms[frame, rows[0]])
        """Of the norm of its penalty [1]: its strength by that which it had if it were alone."""

    @property
    def bend(self) -> FloatArray:
        """Σ_k r_k ∂²r_k/∂q∂q, (nv, nv)."""
        return self._missed.bend(self.number, self._frame)

    def hessian(self) -> FloatArray:
        """Hessian of the cost that the task adds to its level, (nv, nv)."""
        return self._weight * (self.jacobian.T @ self.jacobian + self.bend)


class _Frame:
    """What holds the forces of missed tasks in one frame."""

    def __init__(self, missed: _Missed, frame: int) -> None:
        """Sort the tasks into levels, and find the limits on which channels stand."""
        self._missed, self._index, self._system = missed, frame, missed.system
        self._lacking = set(np.flatnonzero(~missed.reached[frame]).tolist())
        """Numbers of the tasks that are missed."""
        pulls, system = missed.pulls(frame), missed.system
        priorities = sorted({pull.task.priority for pull in pulls})
        self._levels = [[pull for pull in pulls if pull.task.priority == level] for level in priorities]
        if missed.merged:
            self._levels = [pulls]
        self._above: list[tuple[Task, FloatArray]] = []
        """Tasks of the levels above and the rows (m, nv) by which they hold channels: Jacobians and, of what
        is missed, the directions that its curvature holds."""
        self._basis = np.zeros((0, system.size))
        """Their space, (r, nv)."""
        values, near = missed.posed.values[frame], STANDS * system.units
        at_lower, at_upper = values <= system.lower + near, values >= system.upper - near
        self._free: BoolArray = ~(at_lower | at_upper)
        """Channels that stand on no limit, (nv,)."""
        lower, upper = np.flatnonzero(at_lower), np.flatnonzero(at_upper)
        self._channels: IntArray = np.concatenate([lower, upper])
        """Channels that stand on a limit, (k,); those that can go neither way are there twice."""
        self._outward = np.repeat([-1.0, 1.0], [len(lower), len(upper)])
        """Which way each would have to give way, -1 or 1, (k,)."""
        self._normals = np.eye(system.size)[:, self._channels] * self._outward
        """Likewise, (nv, k)."""

    def explanations(self) -> Iterator[tuple[int, Explanation]]:
        """Number and explanation of each task that was missed."""
        for number, level in enumerate(self._levels):
            below = self._missed.below(self._index, number)
            for pull in level:
                if pull.number in self._lacking:
                    # What is soft gives way to what is below.
                    soft = pull.task.softness > 0.0
                    yield pull.number, self._explained(pull, level, np.zeros_like(below) if soft else below)
            if level is not self._levels[-1]:
                self._above += self._holding(level)
                self._basis = row_space(np.concatenate([rows for _, rows in self._above]), RANK)

    def _explained(self, pull: _Pull, level: list[_Pull], below: FloatArray) -> Explanation:
        """The first reason that balances the force of a task of a level, with what is below that, (nv,)."""
        if pull.strength <= 0.0:
            return self._explanation(pull, Reason.OUT_OF_REACH)
        force, helping = pull.force / pull.strength, below / pull.strength * pull.part
        part = bounded_least_squares_step(-helping[:, None], force, np.zeros(1), np.ones(1))
        if np.linalg.norm(force + part * helping) <= BALANCED:
            return self._at_saddle(pull, level)
        pressure, rest = self._pressed(force, self._basis[:0], helping)
        if np.linalg.norm(rest) <= BALANCED:
            return self._explanation(pull, Reason.LIMITS, pressure)
        if self._above:
            pressure, rest = self._pressed(force, self._basis, helping)
            if np.linalg.norm(rest) <= BALANCED:
                held = self._held_by(force - self._normals @ pressure, 1.0)
                return self._explanation(pull, Reason.PRECEDENCE, pressure, held=held)
        total = np.add.reduce([other.force for other in level]) + below
        level_pressure, level_rest = self._pressed(total, self._basis)
        noise = CONVERGED * max(other.stiffness for other in level)
        if np.linalg.norm(level_rest) <= BALANCED * pull.strength + noise:
            # Against what limits and levels above leave of its force the others must pull: no limit does.
            own = rest / float(rest @ rest) / pull.strength
            shares = [(-float(other.force @ own), other.task) for other in level if other is not pull]
            others = [task for share, task in sorted(shares, key=lambda pair: -pair[0]) if share >= SHARE]
            if not others:  # what is below does, as those that miss more leave it little of their penalty
                weaken = [other for other in level if other.penalty == pull.penalty and other.part >= SHARE]
                others = [other.task for other in weaken if other is not pull]
            if others:
                held = self._held_by(total - self._normals @ level_pressure, pull.strength, pull.force)
                # Of the limits against which the level presses, those against which this task does.
                against = pull.force @ self._normals > BALANCED * pull.strength
                pressure = np.where(against, level_pressure / pull.strength, 0.0)
                return self._explanation(pull, Reason.SHARED, pressure, held=held, others=others)
        return self._explanation(pull, self._open(pull))

    def _at_saddle(self, pull: _Pull, level: list[_Pull]) -> Explanation:
        """The reason why a task that does not pull is not nearer, if it could be."""
        hessian = pull.hessian() / pull.strength
        beyond = self._beyond(pull.number) >= WHOLE * self._missed.errors[self._index, pull.number]
        way = None if beyond else _downward(hessian)
        if way is None:
            return self._explanation(pull, Reason.OUT_OF_REACH)
        free_way = _downward(hessian * (self._free[:, None] & self._free))
        if free_way is None:
            # Held to second order: there is no force against these, but the turn that is wanted goes there.
            stands = np.abs(way[self._channels]) > SHARE * np.abs(way).max()
            return self._explanation(pull, Reason.LIMITS, stands.astype(np.float64), first_order=False)
        held = self._held_by(free_way, 1.0)
        if held:
            return self._explanation(pull, Reason.PRECEDENCE, held=held)
        dearer = [other.task for other in level if free_way @ other.hessian() @ free_way > 0.0]
        others = [task for task in dearer if task is not pull.task]
        return self._explanation(pull, Reason.SHARED if others else self._open(pull), others=others)

    def _open(self, pull: _Pull) -> Reason:
        """The reason where neither limits nor other tasks balance the force of a task."""
        soft = pull.task.softness > 0.0 and not self._missed.merged
        return Reason.SOFTNESS if soft else Reason.NOT_CONVERGED

    # What the levels above hold

    def _holding(self, level: Sequence[_Pull]) -> list[tuple[Task, FloatArray]]:
        """The rows by which a level holds channels."""
        missed = {pull.number for pull in level if pull.missing > 0.0} & self._lacking
        if not missed:
            return [(pull.task, pull.jacobian) for pull in level]
        # The level is as low as it can be: what its rows and limits leave, its curvature holds.
        pressure, _ = self._pressed(np.add.reduce([pull.force for pull in level]), self._basis)
        strongest = max(pull.strength for pull in level if pull.number in missed)
        units = np.eye(self._system.size)
        pressing = units[self._channels[pressure > BALANCED * strongest]]
        space = row_space(np.concatenate([*(pull.jacobian for pull in level), pressing]), RANK)
        loose = units - space.T @ space
        holding: list[tuple[Task, FloatArray]] = []
        for pull in level:
            rows = pull.jacobian
            if pull.number in missed:
                bends, directions = np.linalg.eigh(loose @ (pull.bend / pull.missing) @ loose)
                rows = np.concatenate([rows, directions[:, np.abs(bends) > CURVED * pull.size].T])
            holding.append((pull.task, rows))
        return holding

    def _held_by(self, force: FloatArray, strength: float, own: FloatArray | None = None) -> list[Task]:
        """The tasks above that balance a force (nv,), the strongest first.

        Args:
            force: What they balance between them.
            strength: The force against which theirs are measured.
            own: Only those that pull against this one, (nv,).
        """
        if not self._above:
            return []
        stacked = np.concatenate([rows for _, rows in self._above])
        multipliers = np.linalg.lstsq(stacked.T, force, rcond=RANK)[0]
        ends = np.cumsum([len(rows) for _, rows in self._above])
        parts: list[tuple[float, Task]] = []
        for (task, rows), mine in zip(self._above, np.split(multipliers, ends[:-1]), strict=True):
            pull = mine @ rows
            if own is None or pull @ own > 0.0:
                parts.append((float(np.linalg.norm(pull)), task))
        least = SHARE * max(float(np.linalg.norm(force)), BALANCED * strength)
        return [task for size, task in sorted(parts, key=lambda part: -part[0]) if size >= least]

    def _pressed(
        self, force: FloatArray, basis: FloatArray, helping: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Multiplier of each limit (k,) under a force (nv,), and its rest (nv,), both off a basis (r, nv).

        Args:
            force: What presses.
            basis: What is held.
            helping: A force (nv,) of which as much is added as leaves least of it.
        """
        columns = self._normals if helping is None else np.column_stack([self._normals, -helping])
        columns, wanted = (each - basis.T @ (basis @ each) for each in (columns, force))
        # A limit whose normal is held already explains nothing more.
        columns = np.where(np.linalg.norm(columns, axis=0) > RANK, columns, 0.0)
        limits = self._normals.shape[1]
        least, most = np.zeros(columns.shape[1]), np.ones(columns.shape[1])
        most[:limits] = np.inf
        multipliers = bounded_least_squares_step(columns, wanted, least, most)
        return multipliers[:limits], wanted - columns @ multipliers

    def _beyond(self, number: int) -> float:
        """Distance of a target beyond the longest reach of its chain [m]; 0 where there is no bound."""
        task, posed = self._system.chosen(number, self._index), self._missed.posed
        if not isinstance(task, ReachPoint):
            return 0.0
        mechanism = self._system.mechanism
        anchors, local = anchored([(mechanism.skeleton.index(task.joint), task.point)], mechanism)
        slot, first, reach = int(anchors[0]), posed.points(anchors, local)[self._index, 0], 0.0
        free = self._missed.free[self._index]
        if (mechanism.moves[slot] & ~mechanism.rotates & free).any():
            return 0.0
        while slot != ARMATURE:
            parent, turner = int(mechanism.parents[slot - 1]), int(mechanism.turns_with[slot - 1])
            # What is held goes along with its parent.
            if turner != parent or free[mechanism.kept_of == slot - 1].any():
                place = posed.matrices[self._index, slot, :3, 3]
                reach += float(np.linalg.norm(first - place))
                first = place
            slot = parent
        away = (task.armature_from_axes.T @ (first - task.target)) * task.axes
        return max(0.0, float(np.linalg.norm(away)) - reach)

    def _explanation(
        self,
        pull: _Pull,
        reason: Reason,
        pressure: FloatArray | None = None,
        *,
        first_order: bool = True,
        held: Sequence[Task] = (),
        others: Sequence[Task] = (),
    ) -> Explanation:
        """Put a reason into names.

        Args:
            pressure: How strongly it presses against each limit, (k,), for a full pull of 1.
            first_order: Whether that is a force.
            held: Tasks of higher levels that take part.
            others: Tasks of the same level that take part.
        """
        system, task, length = self._system, pull.task, self._system.reach
        per_unit = pull.size * (1.0 if task.angular else length) * first_order
        limits: list[Limit] = []
        for k in np.argsort([] if pressure is None else -pressure, kind="stable").tolist():
            column, upper = int(self._channels[k]), bool(self._outward[k] > 0.0)
            # A point that is pressed onto a plane has a part in it by its task.
            if pressure is not None and pressure[k] > BALANCED and system.own[column]:
                joint, channel = divmod(int(system.mechanism.channels[column]), CHANNELS)
                name = system.problem.skeleton.names[joint]
                value = float((system.upper if upper else system.lower)[column])
                gain = float(pressure[k]) * per_unit / (1.0 if channel >= 3 else length)
                limits.append(Limit(name, channel, value, upper, gain))
        if reason is Reason.LIMITS and not limits:  # nothing but the plane below which it is
            reason = Reason.OUT_OF_REACH
        return Explanation(
            task=task.label,
            error=float(self._missed.errors[self._index, pull.number]),
            angular=task.angular,
            reason=reason,
            limits=tuple(limits),
            outranked_by=_names(held, task),
            levels=tuple(sorted({upper.priority for upper in held})),
            shares_with=_names(others, task),
            level=None if self._missed.merged else task.priority,
            beyond=self._beyond(pull.number),
            movable=pull.size > 0.0,
        )


def _names(tasks: Sequence[Task], asking: Task) -> tuple[str, ...]:
    """Labels of tasks, each once; of the other tasks of the same effector what they are about."""

    def name(task: Task) -> str:
        # Two places of one joint are of two effectors; the orientation of toes is of their foot's.
        if (
            isinstance(task, AxisTask)
            and isinstance(asking, AxisTask)
            and task.label == asking.label
            and (task.joint, task.angular) != (asking.joint, asking.angular)
        ):
            return ITS_OWN[task.angular]
        return task.label

    return tuple(dict.fromkeys(map(name, tasks)))


def _downward(bends: FloatArray) -> FloatArray | None:
    """Direction of the lowest curvature of a matrix (n, n); None where none is below zero, asked first."""
    try:
        np.linalg.cholesky(bends + CURVED * np.eye(len(bends)))
    except np.linalg.LinAlgError:
        return np.linalg.eigh(bends)[1][:, 0]
    return None

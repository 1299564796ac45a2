# SPDX-License-Identifier: GPL-3.0-or-later
"""Forces with which tasks pull at the free channels, and what balances them: limits and what levels hold.

At a pose let r be the residual of a missed task as a part of its own size, J its Jacobian, f = −Jᵀr the force
with which it pulls at the free channels. A pose as near as it can be balances that force (Karush, Kuhn and
Tucker):

    f + (forces of the other tasks of its level) = Σ_k A_kᵀ μ_k + Σ_c s_c n_c,        s_c >= 0,

where the rows A span what the levels above hold, and n_c is the outward normal of a limit on which channel c
stands. Were limit c to give way by δ, the task would come nearer by s_c δ, to first order.

Multipliers come from the least squares problem |P (f − Σ s_c n_c)|, s >= 0, P the projection off the rows A,
by the active sets of [LawsonHanson1974]: of several sets of limits that explain a miss it takes a small one.

**What a level holds** are the rows of its Jacobian, and where it is missed also the directions in which its
cost curves: to an arm stretched towards a target too far away bending costs at second order only.

**A bound.** No chain whose channels only turn carries a point further from its first joint than the sum of
the distances between its joints. What a target lies beyond that is missed whatever limits and other tasks do.

Lengths are divided by the reach of the skeleton, as in the energy, so that forces have no unit.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from ..model.mechanism import ARMATURE
from ..model.posed import PosedMechanism
from ..problem.system import System
from ..tasks import ReachPoint, Task

BALANCED: Final = 2e-2
"""Part of the force that a full pull of the task could have [1], below which what is left of it counts as
nothing: the pose is then within about as many radians of where it would balance."""

SHARE: Final = 0.05
"""Part of a force [1] that another task must balance to be named."""

STANDS: Final = 1e-3
"""Distance from a limit [rad, or lengths of reach] at which a channel stands on it, near as `BALANCED` asks:
where levels above are put back last, others end up to 1e-4 short of their limits."""

RANK: Final = 1e-7
"""Size of a singular value against the largest [1], from which rows hold a direction."""
ROUNDING: Final = 1e-14
"""Entry of a matrix, as a part of its largest [1], that is none."""

CURVED: Final = 1e-3
"""Curvature against that of a full pull [1], from which it counts."""


class Linearized:
    """Unweighted residual and derivatives of one task over all frames, in scaled units."""

    def __init__(
        self,
        number: int,
        task: Task,
        system: System,
        posed: PosedMechanism,
        residual: FloatArray,
        jacobian: FloatArray,
        angular: BoolArray,
    ) -> None:
        """Prepare.

        Args:
            number: Which of the system's tasks.
            task: That one.
            system: The problem.
            posed: Its mechanism.
            residual: Of the task, with its weight, (F, m).
            jacobian: Likewise, (F, m, nv).
            angular: Which rows are angles, (m,).
        """
        self.number, self.task, self._system, self._posed = number, task, system, posed
        self.length = system.problem.skeleton.reach
        """Unit of length [m]."""
        self._columns = np.where(system.rotates, 1.0, self.length)
        self.angular = angular
        scale = np.where(angular, 1.0, 1.0 / self.length) / task.weight
        self.residual: FloatArray = residual * scale  # (F, m)
        self.jacobian: FloatArray = jacobian * scale[:, None] * self._columns  # (F, m, nv)
        self._curvature: FloatArray | None = None

    @classmethod
    def all_of(cls, system: System, posed: PosedMechanism) -> list[Linearized]:
        """Each of the tasks of a system."""
        residual, jacobian = system.residual(posed), system.jacobian(posed)
        rows = [np.flatnonzero(system.task_of_row == number) for number in range(len(system.tasks))]
        return [
            cls(number, task, system, posed, residual[:, own], jacobian[:, own], system.angular_rows[own])
            for number, (task, own) in enumerate(zip(system.tasks, rows, strict=True))
        ]

    def curvature(self, frame: int) -> FloatArray:
        """Σ_k r_k ∂²r_k/∂q∂q, (nv, nv)."""
        if self._curvature is None:
            unit = self.task.weight * (1.0 if self.angular.all() else self.length)
            columns = self._columns[:, None] * self._columns
            rows = self._system.rows_of(self.number)
            bend = rows.bend(self._posed, rows.residual(self._posed))
            nothing = np.zeros((len(self.residual), *columns.shape))
            self._curvature = (nothing if bend is None else bend.matrix()) * columns / unit**2
        return self._curvature[frame]


class Pull:
    """Force of one task on the free channels in one frame."""

    def __init__(self, stack: Linearized, frame: int) -> None:
        self._stack, self._frame = stack, frame
        self.number, self.task = stack.number, stack.task
        self.jacobian = stack.jacobian[frame]
        residual = stack.residual[frame]
        self.missing = float(np.linalg.norm(residual))
        """|r| [1], in scaled units."""
        self.size = float(np.linalg.norm(self.jacobian, 2)) if self.jacobian.size else 0.0
        """Force of a full pull: |f| for the residual of length 1 that pulls most [1]."""
        self.strength = self.task.weight**2 * self.missing * self.size
        """The most it can pull in its level [1]."""
        self.stiffness = (self.task.weight * self.size) ** 2
        """Change of its force by a change of the pose [1/rad]."""
        self.force: FloatArray = -(self.task.weight**2) * (residual @ self.jacobian)  # (nv,)

    @property
    def curvature(self) -> FloatArray:
        """Σ_k r_k ∂²r_k/∂q∂q for a residual of length 1, (nv, nv)."""
        return self._stack.curvature(self._frame) / self.missing

    def hessian(self) -> FloatArray:
        """Hessian of the cost that the task adds to its level, (nv, nv)."""
        return self.task.weight**2 * (self.jacobian.T @ self.jacobian + self._stack.curvature(self._frame))


Holding = tuple[Task, FloatArray]
"""A task of a higher level and the rows (m, nv) by which it holds channels: its Jacobian and, where it was
missed, the directions that its curvature holds."""


class Balance:
    """Limits and levels that hold the free channels in one frame."""

    def __init__(self, system: System, posed: PosedMechanism, frame: int) -> None:
        """Find the limits on which channels stand.

        Args:
            system: The problem.
            posed: Its mechanism at the answers.
            frame: Which of them.
        """
        self._system, self._posed, self._frame = system, posed, frame
        self._identity = np.eye(system.size)
        self.length = system.problem.skeleton.reach
        """Unit of length [m]."""
        values, near = posed.values[frame], STANDS * np.where(system.rotates, 1.0, self.length)
        stops = [(values <= system.lower + near, -1.0), (values >= system.upper - near, 1.0)]
        self.channels: IntArray = np.concatenate([np.flatnonzero(stop) for stop, _ in stops])
        """Channels that stand on a limit, (k,); those that can go neither way are there twice."""
        self.outward: FloatArray = np.concatenate([np.full(int(stop.sum()), sign) for stop, sign in stops])
        """Which way each would have to give way, -1 or 1, (k,)."""
        self.free: BoolArray = ~(stops[0][0] | stops[1][0])
        """Channels that stand on none, (nv,)."""

    # What the levels above hold

    def holding(self, level: Sequence[Pull], missing: Container[int], pressing: BoolArray) -> list[Holding]:
        """The rows by which a level holds channels.

        Args:
            level: Its tasks.
            missing: Numbers of the tasks that were missed.
            pressing: Against which of the limits it presses, (k,).
        """
        missed = {pull.number for pull in level if pull.number in missing and pull.missing > 0.0}
        if not missed:
            return [(pull.task, pull.jacobian) for pull in level]
        # The level is as low as it can be: what its rows and limits leave, its curvature holds.
        space = self._with_limits(_space(np.concatenate([pull.jacobian for pull in level])), pressing)
        loose = self.off(self._identity, space)
        holdings: list[Holding] = []
        for pull in level:
            rows = pull.jacobian
            if pull.number in missed:
                bends, directions = np.linalg.eigh(loose @ pull.curvature @ loose)
                rows = np.concatenate([rows, directions[:, np.abs(bends) > CURVED * pull.size].T])
            holdings.append((pull.task, rows))
        return holdings

    def basis(self, above: Sequence[Holding], channels: BoolArray | None = None) -> FloatArray:
        """Orthonormal columns of the space that the levels above hold, (nv, r), by some channels only."""
        rows = np.concatenate([np.zeros((0, self._system.size)), *(rows for _, rows in above)])
        return _space(rows if channels is None else rows * channels)

    def held_by(
        self, above: Sequence[Holding], force: FloatArray, strength: float, own: FloatArray | None = None
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

    def pressed(self, force: FloatArray, basis: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Multiplier of each limit (k,) under a force (nv,), and the unbalanced rest of it (nv,).

        Args:
            force: The force.
            basis: Directions that are held, orthonormal, (nv, r).
        """
        normals = np.zeros((self._system.size, len(self.channels)))
        normals[self.channels, np.arange(len(self.channels))] = self.outward
        columns, wanted = self.off(normals, basis), self.off(force, basis)
        pressure = _nonnegative(columns, wanted)
        return pressure, wanted - columns @ pressure

    def normals(self, pressure: FloatArray) -> FloatArray:
        """The force against limits that press so strongly (k,), (nv,)."""
        force = np.zeros(self._system.size)
        np.add.at(force, self.channels, pressure * self.outward)
        return force

    def _with_limits(self, basis: FloatArray, pressing: BoolArray) -> FloatArray:
        """A basis (nv, r) with the channels of some limits (k,) held as well."""
        units = self._identity[np.unique(self.channels[pressing])]
        return _space(np.concatenate([basis.T, units])) if len(units) else basis

    @staticmethod
    def off(vectors: FloatArray, basis: FloatArray) -> FloatArray:
        """Part of vectors (nv,) or (nv, n) orthogonal to an orthonormal basis (nv, r)."""
        return vectors - basis @ (basis.T @ vectors)

    # Reach

    def beyond(self, number: int) -> float:
        """Distance of a task's target beyond the longest reach of its chain [m]; 0 where there is no bound.

        Args:
            number: Of the task, among those of the system.
        """
        task = self._system.chosen(number, self._frame)
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
        away = (task.armature_from_axes.T @ (first - task.target)) * task.axes
        return max(0.0, float(np.linalg.norm(away)) - reach)


def _space(rows: FloatArray) -> FloatArray:
    """Orthonormal columns that span rows (m, nv), (nv, r)."""
    if not rows.size:
        return np.zeros((rows.shape[1], 0))
    try:
        _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    except np.linalg.LinAlgError:
        # LAPACK may give up on matrices of low rank with entries far below rounding, which count for nothing.
        rows = np.where(np.abs(rows) < ROUNDING * np.abs(rows).max(), 0.0, rows)
        _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(directions[sizes > RANK * max(sizes[0], RANK)].T, dtype=np.float64)


def convex(bends: FloatArray) -> bool:
    """Whether no curvature is below zero; many times faster than to ask for the lowest one."""
    try:
        np.linalg.cholesky(bends + CURVED * np.eye(len(bends)))
    except np.linalg.LinAlgError:
        return False
    return True


def lowest(bends: FloatArray, loose: FloatArray) -> tuple[float, FloatArray]:
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

# SPDX-License-Identifier: GPL-3.0-or-later
"""A problem on given poses, stacked into rows by priority level.

Constants are folded and tasks stacked, so that residuals and Jacobians of all levels are functions of the
free channels alone. Tasks of one kind are evaluated together whatever their levels; levels are parts of what
comes of it, put in their order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import accumulate, chain, groupby
from typing import NamedTuple

import numpy as np

from ..arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    alike,
)
from ..errors import IKError
from ..model.bends import summed
from ..model.mechanism import Mechanism
from ..model.posed import PosedMechanism
from ..model.skeleton import CHANNELS, Pose
from ..tasks import (
    ChoiceRows,
    OneOf,
    Rows,
    Task,
)
from .options import SolverOptions
from .problem import Problem
from .slacks import ClearedMechanism, with_clearances, with_joints


def assemble(problem: Problem, pose: Pose) -> System:
    """Fold the constants of a pose with one leading frame axis, (F, n, 6).

    Raises:
        IKError: The pose is not of the problem's skeleton, or its frames are not those of the targets.
    """
    n = len(problem.skeleton)
    if len(pose.frames) != 1 or pose.channels.shape[-2] != n:
        raise IKError(f"the pose has shape {pose.channels.shape}, wanted (frames, {n}, 6)")
    if problem.frames not in (None, 1) and pose.frames[0] != problem.frames:
        raise IKError(f"the targets have {problem.frames} frames, the pose {pose.frames[0]}")
    skeleton, tasks = with_clearances(problem.skeleton, problem.tasks)
    if skeleton is problem.skeleton:
        return System(problem, pose)
    return System(Problem(skeleton, tasks), with_joints(pose, len(skeleton)))


class Level(NamedTuple):
    """One priority level at a pose."""

    residual: FloatArray
    """Weighted residual of all its tasks, (F, m)."""
    jacobian: FloatArray
    """Its derivative by the free channels, (F, m, nv)."""


class Penalty(NamedTuple):
    """Rows with a norm of their own: the exact tasks of a level together, or one soft task."""

    level: int
    """Position of its level, the highest is 0."""
    rows: slice
    """Of all levels, one above the other."""
    softness: float
    """Of the task, lengths divided by the reach [1]; 0 for exact tasks."""


def _given(tasks: Sequence[Task], frames: int) -> BoolArray | None:
    """Which tasks have a target in each frame, (F, T); None: all."""
    if all(task.given is None for task in tasks):
        return None
    everywhere = np.ones(1, dtype=np.bool_)
    given = [everywhere if task.given is None else task.given for task in tasks]
    return np.stack([np.broadcast_to(each, frames) for each in given], axis=1)


def merged(levels: Sequence[Level]) -> Level:
    """Levels as one, as methods without priorities see them."""
    return Level(_joined([level.residual for level in levels]), _joined([level.jacobian for level in levels]))


def _joined(parts: Sequence[FloatArray]) -> FloatArray:
    """Rows one after the other, (F, m, ...) of the (F, ..., ...) of parts; a part alone is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _slices(counts: Collection[int]) -> list[slice]:
    """Where parts of so many rows each are, one after the other."""
    return [slice(end - count, end) for count, end in zip(counts, accumulate(counts), strict=True)]


def _permutation(order: Sequence[int] | IntArray) -> IntArray | None:
    """As an array, or None where it changes nothing."""
    order = np.array(order, dtype=np.int64)
    return None if (order == np.arange(len(order))).all() else order


class System:
    """A problem on given poses, as functions of the free channels (F, nv)."""

    def __init__(self, problem: Problem, pose: Pose) -> None:
        self.problem = problem
        self._tasks = problem.weighty_tasks
        self.labels = tuple(task.label for task in self._tasks)
        """What messages call the tasks that take part, (T,)."""
        self.angular = tuple(task.angular for task in self._tasks)
        """Whether their errors are angles, (T,)."""
        self.softness: FloatArray = np.array([task.softness for task in self._tasks], dtype=np.float64)
        """Of each, (T,) [m] or [rad]."""
        self._targets: Sequence[FloatArray] | None = None
        """Targets that have taken the place of those of the tasks, (T,)."""
        self.given: BoolArray | None = _given(self._tasks, pose.frames[0])
        """Which tasks have a target in each frame, (F, T); None: all. Rows and errors of others are 0."""
        self._moved: tuple[Task, ...] | None = None
        """The tasks with these, once they were asked for."""
        self._frames = np.arange(pose.frames[0])
        """Which frames of the problem these are."""
        skeleton = problem.skeleton
        joints = {joint for task in self._tasks for joint in task.joints(skeleton)}
        kind_of_mechanism = Mechanism if skeleton.posed_joints == len(skeleton) else ClearedMechanism
        self.mechanism = kind_of_mechanism.of(skeleton, pose, joints)
        self._whole = self.mechanism
        """The same in all frames of the problem."""
        self.priorities = tuple(sorted({task.priority for task in self._tasks}))
        self._stack()
        self.lower, self.upper = self.mechanism.lower, self.mechanism.upper
        """Limits of the free channels, (nv,)."""
        self.preferred, self.stiffness = self.mechanism.preferred, self.mechanism.stiffness
        """Their preferred values and stiffness, (nv,)."""

    def _stack(self) -> None:
        """Stack the tasks by kind, and note where the rows of each are."""
        tasks = self._tasks
        first: dict[tuple[int, type[Task]], int] = {}
        for number, task in enumerate(tasks):
            first.setdefault((task.priority, type(task)), number)
        soft = [task.softness > 0.0 for task in tasks]
        self._order = sorted(
            range(len(tasks)),
            key=lambda n: (tasks[n].priority, soft[n], first[tasks[n].priority, type(tasks[n])]),
        )
        """Positions in `tasks` in the order of rows: by level, in it the exact tasks before the soft ones, of
        these by kind, the first first, (T,)."""
        kinds: dict[type[Task], list[int]] = {}
        for number in self._order:
            kinds.setdefault(type(tasks[number]), []).append(number)
        self._kinds: list[Rows] = [
            kind.rows([tasks[number] for number in own], self.mechanism) for kind, own in kinds.items()
        ]
        """The rows of each kind."""
        self._numbers = list(kinds.values())
        """Positions in `tasks` of those that are stacked in each of them."""
        self._kind_rows = _slices([len(rows.angular) for rows in self._kinds])
        """Which they are of the rows of all kinds, one after the other."""
        self._clears = any(rows.clears for rows in self._kinds)
        numbers = list(chain.from_iterable(self._numbers))
        counts = [count for rows in self._kinds for count in rows.row_counts]
        task_rows = dict(zip(numbers, _slices(counts), strict=True))
        taken = [range(rows.start, rows.stop) for rows in (task_rows[number] for number in self._order)]
        self.row_counts = [len(rows) for rows in taken]
        """Number of rows of each task, in the order in which all levels are stacked, (T,)."""
        self.task_of_row = np.repeat(np.array(self._order, dtype=np.int64), self.row_counts)
        """Position in `tasks` of each row, (m,)."""
        self._taken_rows = _permutation(list(chain.from_iterable(taken)))
        """Which of the rows of all kinds, one after the other, are the rows by level, (m,)."""
        self._given_rows = None if self._taken_rows is None else np.argsort(self._taken_rows)
        """Which of the rows by level are those of all kinds, (m,)."""
        self._taken_errors = _permutation(np.argsort(numbers))
        """Which of the errors of all kinds are those of `tasks`, (T,)."""
        of_level = dict.fromkeys(self.priorities, 0)
        for number, count in zip(self._order, self.row_counts, strict=True):
            of_level[tasks[number].priority] += count
        self.level_rows = _slices(of_level.values())
        """Rows of each level."""
        self.penalties = self._penalties()
        """What has a norm of its own, in the order of rows."""
        angular = np.concatenate([np.zeros(0, dtype=np.bool_), *(rows.angular for rows in self._kinds)])
        angular = angular if self._taken_rows is None else angular[self._taken_rows]
        self.angular_rows = [angular[rows] for rows in self.level_rows]
        """Which rows of each level are angles rather than lengths, (m,) each."""

    def _penalties(self) -> list[Penalty]:
        def own(part: tuple[int, slice]) -> tuple[int, int]:
            """Level of a task, and the number of a soft one, which differs from those beside it."""
            task = self._tasks[part[0]]
            return self.priorities.index(task.priority), part[0] if task.softness > 0.0 else -1

        found: list[Penalty] = []
        parts = zip(self._order, _slices(self.row_counts), strict=True)
        for (level, number), grouped in groupby(parts, own):
            rows = [rows for _, rows in grouped]
            unit = 1.0 if self.angular[number] else self.problem.skeleton.reach
            softness = 0.0 if number < 0 else float(self.softness[number]) / unit
            found.append(Penalty(level, slice(rows[0].start, rows[-1].stop), softness))
        return found

    def _by_level(self, parts: Sequence[FloatArray]) -> FloatArray:
        """Rows by level, (F, m, ...), of those of each kind."""
        rows = _joined(parts)
        rows = rows if self._taken_rows is None else rows.take(self._taken_rows, axis=1)
        if self.given is None:
            return rows
        given = self.given[:, self.task_of_row]
        return rows * given.reshape(*given.shape, *(1,) * (rows.ndim - 2))

    def select(self, frames: IntArray) -> System:
        """The same system for some of its frames."""
        some = alike(self)
        some._frames = self._frames[frames]
        some.mechanism = self.mechanism.select(frames)
        some._kinds = [rows.select(frames) for rows in self._kinds]
        if self.given is not None:
            some.given = self.given[frames]
        return some

    def aimed(self, targets: Sequence[FloatArray]) -> System:
        """The same system of one frame with other targets, one for each of its tasks.

        Raises:
            IKError: Their number or the shape of one is wrong, or one is not finite.
        """
        if len(targets) != len(self._tasks):
            raise IKError(f"{len(targets)} targets for {len(self._tasks)} tasks ({', '.join(self.labels)})")
        some = alike(self)
        some._targets, some._moved = targets, None
        some._kinds = [
            rows.aimed([targets[number] for number in own])
            for rows, own in zip(self._kinds, self._numbers, strict=True)
        ]
        return some

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks that take part, (T,); those of a single frame with its targets."""
        if self._targets is not None:
            if self._moved is None:
                pairs = zip(self._tasks, self._targets, strict=True)
                self._moved = tuple(task.moved(target) for task, target in pairs)
            return self._moved
        if len(self._frames) != 1:
            return self._tasks
        frame = int(self._frames[0])
        return tuple(task if task.frames is None else task.at_frame(frame) for task in self._tasks)

    @property
    def heaviest_weights(self) -> list[float]:
        """Largest weight in each level."""
        return [max(self._weights(priority)) for priority in self.priorities]

    @property
    def lightest_weights(self) -> list[float]:
        """Smallest weight in each level."""
        return [min(self._weights(priority)) for priority in self.priorities]

    def _weights(self, priority: int) -> list[float]:
        return [task.weight for task in self._tasks if task.priority == priority]

    @property
    def size(self) -> int:
        """Number of free channels nv."""
        return self.mechanism.size

    @property
    def rotates(self) -> BoolArray:
        """Which free channels are angles, (nv,)."""
        return self.mechanism.rotates

    def place(self, values: FloatArray) -> PosedMechanism:
        """Forward kinematics for the free channels (F, nv)."""
        return self.settled(self.mechanism.place(values))

    def settled(self, posed: PosedMechanism) -> PosedMechanism:
        """The same with the clearances over one-sided planes at their best."""
        if not self._clears:
            return posed
        values = posed.values
        for rows in self._kinds:
            values = rows.settled(posed, values)
        return replace(posed, values=values)

    # Choices between alternatives

    @property
    def _choices(self) -> ChoiceRows | None:
        return next((rows for rows in self._kinds if isinstance(rows, ChoiceRows)), None)

    @property
    def alternatives(self) -> tuple[int, ...]:
        """How many alternatives there are in each choice, (C,)."""
        choices = self._choices
        return () if choices is None else choices.alternatives

    @property
    def margins(self) -> tuple[float, ...]:
        """How much further down another alternative of each must bring the residual, scaled, (C,) [1]."""
        choices = self._choices
        return () if choices is None else choices.margins

    @property
    def taken(self) -> IntArray:
        """Which alternative of each choice is taken, (F or 1, C)."""
        choices = self._choices
        return np.zeros((1, 0), dtype=np.int64) if choices is None else choices.taken

    def nearest(self, posed: PosedMechanism, kept: IntArray | None = None) -> IntArray:
        """The alternatives with the least errors at a pose, (F, C).

        Args:
            posed: Where.
            kept: Those that stay while they are within their margins, (F or 1, C).
        """
        choices = self._choices
        if choices is None:
            return np.zeros((len(posed.values), 0), dtype=np.int64)
        return choices.nearest(posed, kept)

    def choice_errors(self, posed: PosedMechanism) -> list[FloatArray]:
        """Errors of the alternatives of each choice, (F, alternatives) each [m] or [rad]."""
        choices = self._choices
        return [] if choices is None else choices.every_error(posed)

    def taking(self, taken: IntArray) -> System:
        """The same system with given alternatives, (F or 1, C)."""
        some = alike(self)
        some._kinds = [rows.taking(taken) if isinstance(rows, ChoiceRows) else rows for rows in self._kinds]
        return some

    def rows_of(self, number: int) -> Rows:
        """The rows of one of `tasks` alone, with what it has taken."""
        task = self.tasks[number]
        if len(self._frames) == 1:
            rows = task.rows([task], self.mechanism)
        else:
            rows = task.rows([task], self._whole).select(self._frames)
        return rows.taking(self._taken_of(number)) if isinstance(rows, ChoiceRows) else rows

    def taken_label(self, number: int, frame: int = 0) -> str:
        """Label of what one of `tasks` has taken of its alternatives; empty where it has none."""
        return self.chosen(number, frame).label if isinstance(self._tasks[number], OneOf) else ""

    @property
    def own(self) -> BoolArray:
        """Which free channels are those of poses, not clearances, (nv,)."""
        return self.mechanism.channels < self.problem.skeleton.posed_joints * CHANNELS

    def chosen(self, number: int, frame: int = 0) -> Task:
        """One of `tasks` in a frame, or in its place what it has taken there of its alternatives."""
        task = self.tasks[number]
        if isinstance(task, OneOf):
            taken = self._taken_of(number)
            task = task.alternatives[int(taken[frame if len(taken) > 1 else 0, 0])]
        return task if task.frames is None else task.at_frame(int(self._frames[frame]))

    def _taken_of(self, number: int) -> IntArray:
        """What one of `tasks` that is a choice has taken, (F or 1, 1)."""
        choices = [other for other in self._order if isinstance(self._tasks[other], OneOf)]
        return self.taken[:, [choices.index(number)]]

    def residuals(self, posed: PosedMechanism) -> list[FloatArray]:
        """Weighted residual of each level, (F, m) each."""
        if not self._kinds:
            return []
        residual = self.stacked_residual(posed)
        return [residual[:, rows] for rows in self.level_rows]

    def stacked_residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted residuals of all levels, one above the other, (F, m)."""
        return self._by_level([rows.residual(posed) for rows in self._kinds])

    def stacked_jacobian(self, posed: PosedMechanism) -> FloatArray:
        """Their Jacobian, (F, m, nv)."""
        return self._by_level([rows.jacobian(posed) for rows in self._kinds])

    def alternate_jacobian(self, posed: PosedMechanism) -> FloatArray:
        """The same with targets in place of points [Buss2009 §2], (F, m, nv)."""
        return self._by_level([rows.alternate_jacobian(posed) for rows in self._kinds])

    def linearize(self, posed: PosedMechanism) -> list[Level]:
        """Residual and Jacobian of each level."""
        if not self._kinds:
            return []
        residual, jacobian = self.stacked_residual(posed), self.stacked_jacobian(posed)
        return [Level(residual[:, rows], jacobian[:, rows]) for rows in self.level_rows]

    def curvature(self, posed: PosedMechanism, forces: Sequence[FloatArray]) -> FloatArray:
        """Σ_k y_k ∂²r_k/∂q∂q, (F, nv, nv), for forces y (F, m) of each level, or of all as one."""
        if self._kinds:
            given = _joined(forces)
            given = given if self._given_rows is None else given.take(self._given_rows, axis=1)
            own = [given[:, rows] for rows in self._kind_rows]
            parts = zip(self._kinds, own, strict=True)
            total = summed(rows.bend(posed, part) for rows, part in parts if part.any())
            if total is not None:
                return total.matrix()
        return np.zeros((len(posed.values), self.size, self.size))

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Unweighted error of each of `tasks`, (F, T) [m] or [rad]."""
        if not self._kinds:
            return np.zeros((len(posed.values), 0))
        errors = _joined([rows.errors(posed) for rows in self._kinds])
        errors = errors if self._taken_errors is None else errors.take(self._taken_errors, axis=1)
        return errors if self.given is None else np.where(self.given, errors, 0.0)


def tolerance_margin(system: System, options: SolverOptions) -> float:
    """Residual of a level [1] that counts as nothing.

    Lengths are divided by the reach of the skeleton, weights by the heaviest.
    """
    heaviest = system.heaviest_weights
    if options.differential:  # all levels are one
        heaviest = [max(heaviest, default=1.0)] * len(heaviest)
    shares = [light / heavy for light, heavy in zip(system.lightest_weights, heaviest, strict=True)]
    length = system.problem.skeleton.reach
    smallest = min(options.tolerance_rotation, options.tolerance_position / length)
    return min(shares, default=1.0) * smallest


def tolerances(system: System, options: SolverOptions) -> FloatArray:
    """Largest error at which each task counts as reached, (T,) [m] or [rad]: no less than its softness."""
    exact = np.where(system.angular, options.tolerance_rotation, options.tolerance_position)
    return np.maximum(exact, system.softness)

# SPDX-License-Identifier: GPL-3.0-or-later
"""A problem on given poses, stacked into rows by priority level.

Constants are folded and tasks stacked, so that residuals and Jacobians of all levels are functions of the
free channels alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from .arrays import BoolArray, FloatArray, IntArray, alike, lengths
from .clearance import ClearedMechanism, with_clearances, with_joints
from .errors import IKError
from .mechanism import Mechanism
from .posed import PosedMechanism
from .problem import Problem
from .skeleton import CHANNELS, Pose
from .tasks import ChoiceRows, OneOf, Rows, Task


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


def merged(levels: Sequence[Level]) -> Level:
    """Levels as one, as methods without priorities see them."""
    return Level(_joined([level.residual for level in levels]), _joined([level.jacobian for level in levels]))


def _joined(parts: Sequence[FloatArray]) -> FloatArray:
    """Rows one after the other, (F, m, ...) of the (F, ..., ...) of parts; a part alone is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


class System:
    """A problem on given poses, as functions of the free channels (F, nv)."""

    def __init__(self, problem: Problem, pose: Pose) -> None:
        self.problem = problem
        self._tasks = problem.weighty_tasks
        self.labels = tuple(task.label for task in self._tasks)
        """What messages call the tasks that take part, (T,)."""
        self.angular = tuple(task.angular for task in self._tasks)
        """Whether their errors are angles, (T,)."""
        self._targets: Sequence[FloatArray] | None = None
        """Targets that have taken the place of those of the tasks, (T,)."""
        self._moved: tuple[Task, ...] | None = None
        """The tasks with these, once they were asked for."""
        self._frames = np.arange(pose.frames[0])
        """Which frames of the problem these are."""
        skeleton = problem.skeleton
        joints = {joint for task in self._tasks for joint in task.joints(skeleton)}
        kind_of_mechanism = Mechanism if skeleton.posed_joints == len(skeleton) else ClearedMechanism
        self.mechanism = kind_of_mechanism.of(skeleton, pose, joints)
        self.priorities = tuple(sorted({task.priority for task in self._tasks}))
        self._levels: list[list[Rows]] = []
        self._numbers: list[list[list[int]]] = []
        """Positions in `tasks` of those that are stacked in each of the rows of each level."""
        for priority in self.priorities:
            kinds: dict[type[Task], list[int]] = {}
            for number, task in enumerate(self._tasks):
                if task.priority == priority:
                    kinds.setdefault(type(task), []).append(number)
            self._levels.append(
                [
                    kind.rows([self._tasks[number] for number in own], self.mechanism)
                    for kind, own in kinds.items()
                ]
            )
            self._numbers.append(list(kinds.values()))
        self._note_kinds()
        self.lower, self.upper = self.mechanism.lower, self.mechanism.upper
        """Limits of the free channels, (nv,)."""
        self.preferred, self.stiffness = self.mechanism.preferred, self.mechanism.stiffness
        """Their preferred values and stiffness, (nv,)."""

    def _note_kinds(self) -> None:
        """Keep what follows from which tasks are stacked where."""
        self._clears = any(rows.clears for rows in self._stacks)
        self._chooses = any(isinstance(rows, ChoiceRows) for rows in self._stacks)
        self._task_of_error = [number for level in self._numbers for own in level for number in own]
        """Position in `tasks` of each column of the stacked errors."""

    @property
    def _stacks(self) -> Iterator[Rows]:
        """The rows of all levels, one kind after the other."""
        return chain.from_iterable(self._levels)

    def select(self, frames: IntArray) -> System:
        """The same system for some of its frames."""
        some = alike(self)
        some._frames = self._frames[frames]
        some.mechanism = self.mechanism.select(frames)
        some._levels = [[rows.select(frames) for rows in level] for level in self._levels]
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
        some._levels = [
            [
                rows.aimed(targets if len(own) == len(targets) else [targets[number] for number in own])
                for rows, own in zip(level, numbers, strict=True)
            ]
            for level, numbers in zip(self._levels, self._numbers, strict=True)
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
        for rows in (rows for rows in self._stacks if rows.clears):
            values = rows.settled(posed, values)
        return replace(posed, values=values)

    # Choices between alternatives

    @property
    def _choices(self) -> list[ChoiceRows]:
        return [rows for rows in self._stacks if isinstance(rows, ChoiceRows)]

    @property
    def alternatives(self) -> tuple[int, ...]:
        """How many alternatives there are in each choice, (C,)."""
        if not self._chooses:
            return ()
        return tuple(count for rows in self._choices for count in rows.alternatives)

    @property
    def margins(self) -> tuple[float, ...]:
        """How much further down another alternative of each must bring the residual, scaled, (C,) [1]."""
        return tuple(margin for rows in self._choices for margin in rows.margins)

    @property
    def taken(self) -> IntArray:
        """Which alternative of each choice is taken, (F or 1, C)."""
        parts = [rows.taken for rows in self._choices]
        frames = max((len(part) for part in parts), default=1)
        parts = [np.broadcast_to(part, (frames, part.shape[1])) for part in parts]
        return np.concatenate([np.zeros((frames, 0), dtype=np.int64), *parts], axis=1)

    def nearest(self, posed: PosedMechanism, kept: IntArray | None = None) -> IntArray:
        """The alternatives with the least errors at a pose, (F, C).

        Args:
            posed: Where.
            kept: Those that stay while they are within their margins, (F or 1, C).
        """
        found, start = [np.zeros((len(posed.values), 0), dtype=np.int64)], 0
        for rows in self._choices:
            end = start + len(rows.alternatives)
            found.append(rows.nearest(posed, None if kept is None else kept[:, start:end]))
            start = end
        return np.concatenate(found, axis=1)

    def choice_errors(self, posed: PosedMechanism) -> list[FloatArray]:
        """Errors of the alternatives of each choice, (F, alternatives) each [m] or [rad]."""
        return [errors for rows in self._choices for errors in rows.every_error(posed)]

    def taking(self, taken: IntArray) -> System:
        """The same system with given alternatives, (F or 1, C)."""
        some, start = alike(self), 0
        some._levels = [list(level) for level in self._levels]
        for level in some._levels:
            for place, rows in enumerate(level):
                if isinstance(rows, ChoiceRows):
                    end = start + len(rows.alternatives)
                    level[place] = rows.taking(taken[:, start:end])
                    start = end
        return some

    def rows_of(self, number: int) -> Rows:
        """The rows of one of `tasks` alone, with what it has taken."""
        task = self.tasks[number]
        rows = task.rows([task], self.mechanism)
        if isinstance(rows, ChoiceRows):
            before = sum(isinstance(self._tasks[other], OneOf) for other in self._order_of(number))
            return rows.taking(self.taken[:, before : before + 1])
        return rows

    def taken_label(self, number: int) -> str:
        """Label of what one of `tasks` has taken of its alternatives; empty where it has none."""
        return self.chosen(number).label if isinstance(self._tasks[number], OneOf) else ""

    @property
    def own(self) -> BoolArray:
        """Which free channels are those of poses, not clearances, (nv,)."""
        return self.mechanism.channels < self.problem.skeleton.posed_joints * CHANNELS

    def chosen(self, number: int, frame: int = 0) -> Task:
        """One of `tasks`, or in its place what it has taken of its alternatives in a frame."""
        task = self.tasks[number]
        if not isinstance(task, OneOf):
            return task
        before = sum(isinstance(self._tasks[other], OneOf) for other in self._order_of(number))
        taken = self.taken[:, before]
        return task.alternatives[int(taken[frame if len(taken) > 1 else 0])]

    def _order_of(self, number: int) -> list[int]:
        """The tasks that are stacked before one of them."""
        return self._task_of_error[: self._task_of_error.index(number)]

    def residuals(self, posed: PosedMechanism) -> list[FloatArray]:
        """Weighted residual of each level, (F, m) each."""
        return [_joined([rows.residual(posed) for rows in level]) for level in self._levels]

    def stacked_residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted residuals of all levels, one above the other, (F, m)."""
        return _joined(self.residuals(posed))

    def stacked_jacobian(self, posed: PosedMechanism) -> FloatArray:
        """Their Jacobian, (F, m, nv)."""
        return _joined([rows.jacobian(posed) for rows in self._stacks])

    def alternate_jacobian(self, posed: PosedMechanism) -> FloatArray:
        """The same with targets in place of points [Buss2009 §2], (F, m, nv)."""
        return _joined([rows.alternate_jacobian(posed) for rows in self._stacks])

    def linearize(self, posed: PosedMechanism) -> list[Level]:
        """Residual and Jacobian of each level."""
        return [merged([Level(*rows.linearize(posed)) for rows in level]) for level in self._levels]

    def constraint_curvature(self, posed: PosedMechanism, multipliers: Sequence[FloatArray]) -> FloatArray:
        """Σ_k μ_k ∂²r_k/∂q∂q over the rows of the first levels, (F, nv, nv), with (F, m) multipliers each."""
        total = np.zeros((len(posed.values), self.size, self.size))
        for level, forces in zip(self._levels, multipliers, strict=False):
            start = 0
            for rows in level:
                end = start + sum(rows.row_counts)
                bend = rows.bend(posed, forces[:, start:end])
                if bend is not None:
                    total += bend.matrix()
                start = end
        return total

    def force_curvature(self, posed: PosedMechanism, forces: Sequence[FloatArray]) -> FloatArray:
        """The same, exact also for orientations that are not met."""
        total = np.zeros((len(posed.values), self.size, self.size))
        for level, own in zip(self._levels, forces, strict=False):
            start = 0
            for rows in level:
                end = start + sum(rows.row_counts)
                if own[:, start:end].any():
                    total += rows.curvature(posed, own[:, start:end])
                start = end
        return total

    @property
    def angular_rows(self) -> list[BoolArray]:
        """Which rows of each level are angles rather than lengths, (m,) each."""
        return [np.concatenate([rows.angular for rows in level]) for level in self._levels]

    @property
    def row_counts(self) -> list[int]:
        """Number of rows of each task, in the order in which all levels are stacked, (T,)."""
        return [count for rows in self._stacks for count in rows.row_counts]

    def clamped(self, residuals: Sequence[FloatArray], distance: float) -> list[FloatArray]:
        """Residuals of lengths shortened to `distance` [m], ClampMag of [Buss2009 §6]; angles as they are."""
        clamped: list[FloatArray] = []
        for level, residual, angular in zip(self._levels, residuals, self.angular_rows, strict=True):
            result, start = np.array(residual), 0
            for count in (count for rows in level for count in rows.row_counts):
                of_lengths = start + np.flatnonzero(~angular[start : start + count])
                part = result[:, of_lengths]
                size = lengths(part)
                result[:, of_lengths] *= np.minimum(1.0, distance / np.where(size > 0.0, size, 1.0))[:, None]
                start += count
            clamped.append(result)
        return clamped

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Unweighted error of each of `tasks`, (F, T) [m] or [rad]."""
        stacked = [rows.errors(posed) for rows in self._stacks]
        if len(stacked) == 1:
            return stacked[0]  # tasks of one level and kind are stacked in their order
        errors = np.zeros((len(posed.values), len(self._tasks)))
        if stacked:
            errors[:, self._task_of_error] = np.concatenate(stacked, axis=1)
        return errors

    def places(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Points and their targets in the first frame, (E, 3) each [m]."""
        pairs = [rows.places(posed) for rows in self._stacks]
        points, targets = (np.concatenate([pair[side][0] for pair in pairs]) for side in (0, 1))
        return points, targets

    def turns(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Orientations and their targets in the first frame, (E, 3, 3) each."""
        pairs = [rows.turns(posed) for rows in self._stacks]
        current, targets = (np.concatenate([pair[side][0] for pair in pairs]) for side in (0, 1))
        return current, targets

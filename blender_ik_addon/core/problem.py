# SPDX-License-Identifier: GPL-3.0-or-later
"""A skeleton and what its pose should achieve, stacked into rows by priority level.

`Problem` is what a caller states. `System` is a problem on given poses: constants folded, tasks stacked, so
that residuals and Jacobians of all levels are functions of the free channels alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from .arrays import BoolArray, FloatArray, IntArray, frozen
from .errors import IKError
from .mechanism import AngularBend, Mechanism, PointBend, PosedMechanism
from .skeleton import Pose, Skeleton
from .tasks import Rows, Task


@dataclass(frozen=True)
class Problem:
    """A skeleton and its tasks."""

    skeleton: Skeleton
    tasks: tuple[Task, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tuple(self.tasks))
        for task in self.tasks:
            task.check(self.skeleton)
        counts = [(task.label, task.frames) for task in self.tasks if task.frames is not None]
        if len({count for _, count in counts} - {1}) > 1:
            listed = ", ".join(f"{label}: {count}" for label, count in counts)
            raise IKError(f"targets have different numbers of frames ({listed})")

    @property
    def frames(self) -> int | None:
        """Number of frames of the targets, None when they are the same in all."""
        counts = [task.frames for task in self.tasks if task.frames is not None]
        return max(counts, default=None)

    @property
    def weighty_tasks(self) -> tuple[Task, ...]:
        """The tasks that take part: one without weight changes nothing."""
        return tuple(task for task in self.tasks if task.weight > 0.0)

    @property
    def moving_joints(self) -> list[int]:
        """Indices of the joints that a solve of this problem can move, parents first."""
        involved: set[int] = set()
        for task in self.weighty_tasks:
            for joint in task.joints(self.skeleton):
                involved.update(self.skeleton.ancestors(joint))
        return [joint for joint in sorted(involved) if self.skeleton.free[joint].any()]

    def assemble(self, pose: Pose) -> System:
        """Fold the constants of a pose with one leading frame axis, (F, n, 6).

        Raises:
            IKError: The pose is not of this skeleton, or its frames are not those of the targets.
        """
        n = len(self.skeleton)
        if len(pose.frames) != 1 or pose.channels.shape[-2] != n:
            raise IKError(f"the pose has shape {pose.channels.shape}, wanted (frames, {n}, 6)")
        if self.frames not in (None, 1) and pose.frames[0] != self.frames:
            raise IKError(f"the targets have {self.frames} frames, the pose {pose.frames[0]}")
        return System(self, pose)


@dataclass(frozen=True)
class Level:
    """One priority level at a pose."""

    residual: FloatArray
    """Weighted residual of all its tasks, (F, m)."""
    jacobian: FloatArray
    """Its derivative by the free channels, (F, m, nv)."""


class System:
    """A problem on given poses, as functions of the free channels (F, nv)."""

    def __init__(self, problem: Problem, pose: Pose) -> None:
        self.problem = problem
        self.tasks = problem.weighty_tasks
        """The tasks that take part, (T,); those of a selected frame with its targets."""
        self._frames = np.arange(pose.frames[0])
        """Which frames of the problem these are."""
        skeleton = problem.skeleton
        joints = {joint for task in self.tasks for joint in task.joints(skeleton)}
        self.mechanism = Mechanism.of(skeleton, pose, joints)
        self.priorities = tuple(sorted({task.priority for task in self.tasks}))
        self._levels: list[list[Rows]] = []
        self._task_of_error: list[int] = []
        """Position in `tasks` of each column of the stacked errors."""
        for priority in self.priorities:
            kinds: dict[type[Task], list[int]] = {}
            for number, task in enumerate(self.tasks):
                if task.priority == priority:
                    kinds.setdefault(type(task), []).append(number)
            groups: list[Rows] = []
            for kind, numbers in kinds.items():
                groups.append(kind.rows([self.tasks[number] for number in numbers], self.mechanism))
                self._task_of_error += numbers
            self._levels.append(groups)
        of_channels = self.mechanism.of_channels
        self.lower: FloatArray = frozen(of_channels(skeleton.lower))
        self.upper: FloatArray = frozen(of_channels(skeleton.upper))
        self.preferred: FloatArray = frozen(of_channels(skeleton.preferred))
        self.stiffness: FloatArray = frozen(of_channels(skeleton.stiffness))
        """Limits, preferred values and stiffness of the free channels, (nv,)."""

    def select(self, frames: IntArray) -> System:
        """The same system for some of its frames."""
        some = copy(self)
        some._frames = self._frames[frames]
        if len(frames) == 1:
            frame = int(some._frames[0])
            some.tasks = tuple(
                task if task.frames is None else task.at_frame(frame) for task in self.problem.weighty_tasks
            )
        some.mechanism = self.mechanism.select(frames)
        some._levels = [[rows.select(frames) for rows in level] for level in self._levels]
        return some

    @property
    def heaviest_weights(self) -> list[float]:
        """Largest weight in each level."""
        return [max(self._weights(priority)) for priority in self.priorities]

    @property
    def lightest_weights(self) -> list[float]:
        """Smallest weight in each level."""
        return [min(self._weights(priority)) for priority in self.priorities]

    def _weights(self, priority: int) -> list[float]:
        return [task.weight for task in self.tasks if task.priority == priority]

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
        return self.mechanism.place(values)

    def residuals(self, posed: PosedMechanism) -> list[FloatArray]:
        """Weighted residual of each level, (F, m) each."""
        return [np.concatenate([rows.residual(posed) for rows in level], axis=1) for level in self._levels]

    def linearize(self, posed: PosedMechanism) -> list[Level]:
        """Residual and Jacobian of each level."""
        levels: list[Level] = []
        for groups in self._levels:
            parts = [rows.linearize(posed) for rows in groups]
            if len(parts) == 1:
                levels.append(Level(*parts[0]))
            else:
                residuals, jacobians = zip(*parts, strict=True)
                levels.append(Level(np.concatenate(residuals, axis=1), np.concatenate(jacobians, axis=1)))
        return levels

    def curvature(self, posed: PosedMechanism, level: int, length: float = 1.0) -> FloatArray:
        """Σ_k r_k ∂²r_k/∂q∂q of a level, with lengths in units of `length`, (F, nv, nv)."""
        total = np.zeros((len(posed.values), self.size, self.size))
        for rows in self._levels[level]:
            # Rows of both kinds in one are those of channels, which are linear.
            total += rows.curvature(posed) * (1.0 if rows.angular.all() else length**-2)
        return total

    def constraint_curvature(self, posed: PosedMechanism, multipliers: Sequence[FloatArray]) -> FloatArray:
        """Σ_k μ_k ∂²r_k/∂q∂q over the rows of the first levels, (F, nv, nv), with (F, m) multipliers each."""
        total = np.zeros((len(posed.values), self.size, self.size))
        for bend in self.bends(posed, multipliers):
            total += bend.matrix()
        return total

    def bends(
        self, posed: PosedMechanism, multipliers: Sequence[FloatArray]
    ) -> list[PointBend | AngularBend]:
        """What that is the sum of, as operators."""
        bends: list[PointBend | AngularBend] = []
        for level, forces in zip(self._levels, multipliers, strict=False):
            start = 0
            for rows in level:
                end = start + sum(rows.row_counts)
                bend = rows.bend(posed, forces[:, start:end])
                if bend is not None:
                    bends.append(bend)
                start = end
        return bends

    @property
    def angular_rows(self) -> list[BoolArray]:
        """Which rows of each level are angles rather than lengths, (m,) each."""
        return [np.concatenate([rows.angular for rows in level]) for level in self._levels]

    def clamped(self, residuals: Sequence[FloatArray], distance: float) -> list[FloatArray]:
        """Residuals of lengths shortened to `distance` [m], ClampMag of [Buss2009 §6]; angles as they are."""
        clamped: list[FloatArray] = []
        for level, residual, angular in zip(self._levels, residuals, self.angular_rows, strict=True):
            result, start = np.array(residual), 0
            for count in (count for rows in level for count in rows.row_counts):
                lengths = start + np.flatnonzero(~angular[start : start + count])
                part = result[:, lengths]
                size = np.sqrt(np.einsum("fm,fm->f", part, part))
                result[:, lengths] *= np.minimum(1.0, distance / np.where(size > 0.0, size, 1.0))[:, None]
                start += count
            clamped.append(result)
        return clamped

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Unweighted error of each of `tasks`, (F, T) [m] or [rad]."""
        stacked = [rows.errors(posed) for level in self._levels for rows in level]
        errors = np.zeros((len(posed.values), len(self.tasks)))
        if stacked:
            errors[:, self._task_of_error] = np.concatenate(stacked, axis=1)
        return errors

    def places(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Points and their targets in the first frame, (E, 3) each [m]."""
        pairs = [rows.places(posed) for level in self._levels for rows in level]
        points, targets = (np.concatenate([pair[side][0] for pair in pairs]) for side in (0, 1))
        return points, targets

    def turns(self, posed: PosedMechanism) -> tuple[FloatArray, FloatArray]:
        """Orientations and their targets in the first frame, (E, 3, 3) each."""
        pairs = [rows.turns(posed) for level in self._levels for rows in level]
        current, targets = (np.concatenate([pair[side][0] for pair in pairs]) for side in (0, 1))
        return current, targets

    def merged(self, levels: Sequence[Level]) -> list[Level]:
        """All levels as one, as methods without priorities see them."""
        if len(levels) < 2:
            return list(levels)
        return [
            Level(
                np.concatenate([level.residual for level in levels], axis=1),
                np.concatenate([level.jacobian for level in levels], axis=1),
            )
        ]

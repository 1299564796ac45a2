# SPDX-License-Identifier: GPL-3.0-or-later
"""A problem on given poses: residuals and Jacobians of its tasks as functions of the free channels alone.

Constants are folded, and tasks of one kind stacked, whatever their levels, so that they are evaluated
together. Of each row it is known of which task, level and penalty it is.

**Inequalities.** What may be on one side only, as a point above a floor, gets a channel with a limit: the
inequality h(q) >= 0 is the equation h(q) − σc = 0 with a slack variable c >= 0 [NocedalWright2006 §16.1]. The
solver knows boxes already, so c is a channel like any other that is not part of a pose. Where a floor bears a
force, the limit of c is active.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray, alike
from ..errors import IKError
from ..model.mechanism import Hessian, Mechanism, PosedMechanism, summed
from ..model.skeleton import CHANNELS, Pose
from ..tasks import ChoiceRows, OneOf, Rows, Task
from .options import SolverOptions
from .problem import Problem

SAME: Final = 1e-4
"""Difference of angles [rad], or of lengths by half the reach, that is none: less than tolerances, more than
Blender's single precision leaves half a kilometre from the origin, and than a little shear turns bones."""


def assemble(problem: Problem, pose: Pose, held: BoolArray | None = None) -> System:
    """Fold the constants of a pose with one leading frame axis, (F, n, 6).

    Args:
        held: Joints that stay in some frames as the pose has them, (F, n); None for none.

    Raises:
        IKError: The pose is not of the problem's skeleton, or its frames are not those of the targets.
    """
    n = len(problem.skeleton)
    if len(pose.frames) != 1 or pose.channels.shape[-2] != n:
        raise IKError(f"the pose has shape {pose.channels.shape}, wanted (frames, {n}, 6)")
    if problem.frames not in (None, 1) and pose.frames[0] != problem.frames:
        raise IKError(f"the targets have {problem.frames} frames, the pose {pose.frames[0]}")
    return System(problem, pose, held)


def _with_slacks(tasks: Iterable[Task]) -> tuple[tuple[Task, ...], int]:
    """The tasks with a slack variable for each inequality, and the number of these."""
    count = 0

    def with_slack(task: Task) -> Task:
        nonlocal count
        if isinstance(task, OneOf):
            return task.altered(alternatives=tuple(map(with_slack, task.alternatives)))
        if not task.one_sided:
            return task
        count += 1
        return task.altered(slack=count - 1)

    return tuple(map(with_slack, tasks)), count


def _given(tasks: Sequence[Task], frames: int) -> BoolArray | None:
    """Which tasks have a target in each frame, (F, T); None: all."""
    if all(task.given is None for task in tasks):
        return None
    everywhere = np.ones(1, dtype=np.bool_)
    given = [everywhere if task.given is None else task.given for task in tasks]
    return np.stack([np.broadcast_to(each, frames) for each in given], axis=1)


class System:
    """A problem on given poses, as functions of the free channels (F, nv)."""

    def __init__(self, problem: Problem, pose: Pose, held: BoolArray | None = None) -> None:
        self.problem = problem
        self._tasks, slacks = _with_slacks(problem.weighty_tasks)
        self.labels = tuple(task.label for task in self._tasks)
        """Names of the tasks in messages, (T,)."""
        self.angular = tuple(task.angular for task in self._tasks)
        """Whether their errors are angles, (T,)."""
        self.preferences: BoolArray = np.array([task.preference for task in self._tasks], dtype=np.bool_)
        """Whether they are preferences, of which a miss counts for nothing, (T,)."""
        self.softness: FloatArray = np.array([task.softness for task in self._tasks], dtype=np.float64)
        """Softness of each task, (T,) [m] or [rad]."""
        self._targets: Sequence[FloatArray] | None = None
        """Targets that have taken the place of those of the tasks, (T,)."""
        self.given: BoolArray | None = _given(self._tasks, pose.frames[0])
        """Which tasks have a target in each frame, (F, T); None: all. Rows and errors of others are 0."""
        self._moved: tuple[Task, ...] | None = None
        """The tasks with these, once they were asked for."""
        self._frames = np.arange(pose.frames[0])
        """Which frames of the problem these are."""
        skeleton = problem.skeleton
        self.reach = skeleton.reach
        """Unit of lengths [m]."""
        joints = {joint for task in self._tasks for joint in task.joints(skeleton)}
        self.mechanism = Mechanism.of(skeleton, pose, joints, slacks)
        self.priorities = tuple(sorted({task.priority for task in self._tasks}))
        """Priorities of the levels, the highest first, (L,)."""
        self.level_of_task: IntArray = np.array(
            [self.priorities.index(task.priority) for task in self._tasks], dtype=np.int64
        )
        """Position of each task's level, (T,)."""
        self.weights: FloatArray = np.array([task.weight for task in self._tasks], dtype=np.float64)
        """Weight of each task, (T,)."""
        self.heaviest: FloatArray = np.zeros(len(self.priorities))
        """Largest weight in each level, (L,)."""
        np.maximum.at(self.heaviest, self.level_of_task, self.weights)
        self._stack()
        self._penalize()
        self.lower, self.upper = self.mechanism.lower, self.mechanism.upper
        """Limits of the free channels, (nv,)."""
        self.preferred, self.stiffness = self.mechanism.preferred, self.mechanism.stiffness
        """Their preferred values, (nv,) or (F, nv), and their stiffness, (nv,)."""
        self.units: FloatArray = np.where(self.rotates, 1.0, self.reach)
        """Their units, (nv,) [m, rad]."""
        softest = float(self.stiffness[self.own].min(initial=1.0))
        loose = np.where(self.own, (1.0 - softest) / (1.0 - self.stiffness), 1.0)
        self.channel_weights: FloatArray = np.sqrt(loose) / self.units
        """W of the scaled channels u = W q: those stiffer than the softest count more [ChungChoi1994], (nv,)
        [1/m, 1]."""
        self.recorded: FloatArray | None = None
        """The preferred values that the problem gives, NaN for none, (F, nv); None where it gives none."""
        if problem.preferred is not None:
            given = np.broadcast_to(problem.preferred, (pose.frames[0], len(skeleton), CHANNELS))
            self.recorded = self.mechanism.of_channels(given, np.nan)
            self.preferred = np.where(np.isnan(self.recorded), self.preferred, self.recorded)
        self._held: FloatArray | None = None
        """The values of channels that are held, NaN for others, (F, nv)."""
        if held is not None and held.any():
            channels = np.where(held[..., None], pose.channels, np.nan)
            self._held = self.mechanism.of_channels(channels, np.nan)

    def _stack(self) -> None:
        """Stack the tasks by kind, in the order in which kinds first come."""
        numbers: dict[type[Task], list[int]] = {}
        for number, task in enumerate(self._tasks):
            numbers.setdefault(type(task), []).append(number)
        self._numbers = list(numbers.values())
        """Positions in `tasks` of those of each kind."""
        self._kinds: list[Rows] = [
            kind.rows([self._tasks[number] for number in own], self.mechanism)
            for kind, own in numbers.items()
        ]
        """The rows of each kind."""
        self._clears = any(rows.clears for rows in self._kinds)
        order = np.array(list(chain.from_iterable(self._numbers)), dtype=np.int64)
        self._in_order = np.argsort(order)
        """Position of each error of `tasks` among the errors by kind, (T,)."""
        self.row_counts = [count for rows in self._kinds for count in rows.row_counts]
        """Number of rows of each task, in the order of rows, (T,)."""
        self.task_of_row = order.repeat(self.row_counts)
        """Position in `tasks` of each row, (m,)."""
        self.angular_rows: BoolArray = np.concatenate(
            [np.zeros(0, dtype=np.bool_), *(rows.angular for rows in self._kinds)]
        )
        """Which rows are angles rather than lengths, (m,)."""
        self.row_units: FloatArray = np.where(self.angular_rows, 1.0, self.reach)
        """Units of the rows, (m,) [m, rad]."""

    def _penalize(self) -> None:
        """Say what has a norm of its own: the exact tasks of a level, every soft task, and what yields.

        Tasks that share no free channel, and none with a third, have nothing to do with each other: one that
        is missed must not make another weaker.
        """
        task, yields = self.task_of_row, [row for rows in self._kinds for row in rows.yields]
        level = np.where(yields, len(self.priorities) - 1, self.level_of_task[task])
        alone = np.where(yields, -2, np.where(self.softness[task] > 0.0, task, -1))
        keys = list(zip(level.tolist(), self._parts()[task].tolist(), alone.tolist(), strict=True))
        penalties = sorted(set(keys))
        self.level_of_penalty: IntArray = np.array([level for level, _, _ in penalties], dtype=np.int64)
        """Position of the level of each penalty, rising, (K,)."""
        self.part_of_penalty: IntArray = np.array([part for _, part, _ in penalties], dtype=np.int64)
        """Which part of the body it is about, as `_parts` counts them, (K,)."""
        units = np.where(self.angular, 1.0, self.reach)
        self.penalty_softness: FloatArray = np.array(
            [0.0 if task < 0 else self.softness[task] / units[task] for _, _, task in penalties]
        )
        """Softness of each penalty, lengths divided by the reach; 0 for exact tasks, (K,) [1]."""
        self.penalty_of_row: IntArray = np.array([penalties.index(key) for key in keys], dtype=np.int64)
        """Penalty of each row, (m,)."""

    def _parts(self) -> IntArray:
        """Which part of the body each task is about: those of a part share free channels, (T,)."""
        skeleton, parts = self.problem.skeleton, np.arange(len(self._tasks))
        free, first = set(np.flatnonzero(skeleton.free.any(axis=1)).tolist()), dict[int, int]()
        for number, task in enumerate(self._tasks):
            for above in {above for joint in task.joints(skeleton) for above in skeleton.ancestors(joint)}:
                if above in free:
                    parts[parts == parts[number]] = parts[first.setdefault(above, number)]
        return parts

    def _rows(self, posed: PosedMechanism, parts: Sequence[FloatArray], *more: int) -> FloatArray:
        """Rows of all kinds, (F, m, *more), without those of tasks that have no target."""
        if not parts:
            return np.zeros((len(posed.values), 0, *more))
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        if self.given is None:
            return rows
        given = self.given[:, self.task_of_row]
        return rows * given.reshape(*given.shape, *(1,) * len(more))

    def select(self, frames: IntArray) -> System:
        """A copy for some of the frames."""
        own, by_frame = vars(self), ("given", "recorded", "preferred", "_held")
        return alike(
            self,
            _frames=self._frames[frames],
            mechanism=self.mechanism.select(frames),
            _kinds=[rows.select(frames) for rows in self._kinds],
            **{name: own[name][frames] for name in by_frame if np.ndim(own[name]) > 1},
        )

    def aimed(self, targets: Sequence[FloatArray]) -> System:
        """A copy of a system of one frame with other targets, the `aim` of one like each of its tasks."""
        pairs = zip(self._kinds, self._numbers, strict=True)
        kinds = [rows.aimed([targets[number] for number in own]) for rows, own in pairs]
        return alike(self, _targets=targets, _moved=None, _kinds=kinds)

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Between what the free channels stay, (nv,) or (F, nv) each [m, rad].

        Limits never tighten what is recorded; channels that are held have one value.
        """
        lower, upper = self.lower, self.upper
        if self.recorded is not None:
            lower, upper = np.fmin(lower, self.recorded), np.fmax(upper, self.recorded)
        if self._held is not None:
            free = np.isnan(self._held)
            lower, upper = (np.where(free, bound, self._held) for bound in (lower, upper))
        return lower, upper

    @property
    def held(self) -> BoolArray | None:
        """Which channels are held in each frame, (F, nv); None for none."""
        return None if self._held is None else ~np.isnan(self._held)

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
    def size(self) -> int:
        """Number of free channels nv."""
        return self.mechanism.size

    @property
    def rotates(self) -> BoolArray:
        """Which free channels are angles, (nv,)."""
        return self.mechanism.rotates

    def recorded_or(self, values: FloatArray) -> FloatArray:
        """Values (F, nv), recorded ones in their place."""
        if self.recorded is None:
            return values
        return np.where(np.isnan(self.recorded), values, self.recorded)

    def place(self, values: FloatArray) -> PosedMechanism:
        """Forward kinematics for the free channels (F, nv); slack variables are put at their best."""
        posed = self.mechanism.place(values)
        if not self._clears:
            return posed
        values = posed.values
        for rows in self._kinds:
            values = rows.best_slacks(posed, values)
        return replace(posed, values=values)

    # Choices between alternatives

    @property
    def choices(self) -> ChoiceRows | None:
        """The rows of C choices, if there are any."""
        return next((rows for rows in self._kinds if isinstance(rows, ChoiceRows)), None)

    @property
    def choice_numbers(self) -> list[int]:
        """Positions of these among `tasks`, (C,)."""
        return [number for number, task in enumerate(self._tasks) if isinstance(task, OneOf)]

    @property
    def alternatives(self) -> tuple[int, ...]:
        """Number of alternatives of each choice, (C,)."""
        return () if self.choices is None else self.choices.alternatives

    @property
    def taken(self) -> IntArray:
        """Which of them each frame takes, (F, C)."""
        taken = 0 if self.choices is None else self.choices.taken
        return np.broadcast_to(np.int64(taken), (len(self._frames), len(self.alternatives)))

    def nearest(self, posed: PosedMechanism, kept: IntArray | None = None) -> IntArray:
        """The alternatives with the least errors at a pose, (F, C), those kept within their margins."""
        if self.choices is None:
            return np.zeros((len(posed.values), 0), dtype=np.int64)
        return self.choices.nearest(posed, kept)

    def taking(self, taken: IntArray) -> System:
        """A copy with given alternatives, (F or 1, C)."""
        kinds = [rows.taking(taken) if isinstance(rows, ChoiceRows) else rows for rows in self._kinds]
        return alike(self, _kinds=kinds)

    def taken_labels(self, frame: int = 0) -> tuple[str, ...]:
        """Label of what each of `tasks` has taken of its alternatives; empty where it has none, (T,)."""
        choices = self.choice_numbers
        return tuple(self.chosen(n, frame).label if n in choices else "" for n in range(len(self.labels)))

    @property
    def own(self) -> BoolArray:
        """Which free channels are those of poses, not slack variables, (nv,)."""
        return self.mechanism.channels < len(self.problem.skeleton) * CHANNELS

    def chosen(self, number: int, frame: int = 0) -> Task:
        """One of `tasks` in a frame; of a choice the alternative taken there."""
        task = self.tasks[number]
        if isinstance(task, OneOf) and self.choices is not None:
            taken = self.choices.taken[:, self.choice_numbers.index(number)]
            task = task.alternatives[int(taken[frame if len(taken) > 1 else 0])]
        return task if task.frames is None else task.at_frame(int(self._frames[frame]))

    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Weighted residuals of all tasks, by kind, (F, m)."""
        return self._rows(posed, [rows.residual(posed) for rows in self._kinds])

    def jacobian(self, posed: PosedMechanism) -> FloatArray:
        """Weighted Jacobian of all tasks, (F, m, nv)."""
        return self._rows(posed, [rows.jacobian(posed) for rows in self._kinds], self.size)

    def alternate_jacobian(self, posed: PosedMechanism) -> FloatArray:
        """Jacobian with targets in place of points [Buss2009 §2], (F, m, nv)."""
        return self._rows(posed, [rows.alternate_jacobian(posed) for rows in self._kinds], self.size)

    def curvature(self, posed: PosedMechanism, forces: FloatArray) -> FloatArray:
        """Σ_k y_k ∂²r_k/∂q∂q for forces y (F, m) of the rows, (F, nv, nv)."""
        terms: list[Hessian | None] = []
        end = 0
        for rows in self._kinds:
            start, end = end, end + len(rows.angular)
            own = forces[:, start:end]
            terms.append(rows.hessian(posed, own) if own.any() else None)
        total = summed(terms)
        if total is None:
            return np.zeros((len(posed.values), self.size, self.size))
        return total.matrix()

    def errors(self, posed: PosedMechanism) -> FloatArray:
        """Unweighted error of each of `tasks`, (F, T) [m] or [rad]."""
        if not self._kinds:
            return np.zeros((len(posed.values), 0))
        errors = np.concatenate([rows.errors(posed) for rows in self._kinds], axis=1)[:, self._in_order]
        return errors if self.given is None else np.where(self.given, errors, 0.0)


def keeps_recorded(system: System, values: FloatArray, options: SolverOptions) -> BoolArray:
    """Which frames, with values (F, nv), have a recorded pose that meets all tasks, and so keep it, (F,).

    No pose has less energy, whatever lies beside it in a motion.
    """
    if system.recorded is None or not options.preferred_pose:
        return np.zeros(len(values), dtype=np.bool_)
    known = ~np.isnan(system.recorded[:, system.own]).any(axis=1)
    errors = system.errors(system.place(system.recorded_or(values)))
    exact = SAME * np.where(system.angular, 1.0, 0.5 * system.reach)
    return known & np.logical_and.reduce(errors <= exact, axis=1)


def tolerance_margin(system: System, options: SolverOptions) -> float:
    """Residual of a level [1] that counts as nothing.

    Lengths are divided by the reach of the skeleton, weights by the heaviest.
    """
    # To methods that know no levels all are one.
    heaviest = system.heaviest[system.level_of_task]
    if options.differential:
        heaviest = heaviest.max(initial=0.0)
    share = float((system.weights / heaviest).min(initial=1.0))
    return share * min(options.tolerance_rotation, options.tolerance_position / system.reach)


def tolerances(system: System, options: SolverOptions) -> FloatArray:
    """Largest error at which each task counts as reached, (T,) [m] or [rad]: no less than its softness."""
    exact = np.where(system.angular, options.tolerance_rotation, options.tolerance_position)
    # What only says softly what is preferred is nowhere missed: nothing is searched for it.
    free = system.preferences & (system.softness > 0.0)
    return np.where(free, np.inf, np.maximum(exact, system.softness))


def limits_at(system: System, values: FloatArray) -> tuple[tuple[tuple[str, int], ...], ...]:
    """Joint and channel of every active limit at free channels (F, nv), for each frame."""
    stands = ((values <= system.lower) | (values >= system.upper)) & system.own
    names = system.problem.skeleton.names
    channels: list[int] = system.mechanism.channels[system.own].tolist()
    known = [(names[channel // CHANNELS], channel % CHANNELS) for channel in channels]
    return tuple(tuple(known[column] for column in np.flatnonzero(row).tolist()) for row in stands)

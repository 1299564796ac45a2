# SPDX-License-Identifier: GPL-3.0-or-later
"""Many frames: a motion as one problem, or independent frames.

A motion is minimised as a whole (`engine.motion`): the energies of its frames plus terms over time. It is the
same forward and backward, and nothing is smoothed afterwards.

The methods of the papers solve frame by frame, each from the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, isnan
from typing import Final, Unpack

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from ..engine.energy import Energy
from ..engine.kernel import run
from ..engine.motion import OVERLAP, Motion
from ..engine.pops import Pop, pops_of
from ..engine.restarts import AT_ONCE, searching
from ..errors import IKError
from ..explain.explanation import Explanation, Reason, explain
from ..model.skeleton import Pose
from ..problem.options import Overrides, SolverOptions, with_overrides
from ..problem.system import Problem, assemble, tolerances
from ..tasks import OneOf, Task
from ..threads import one_thread
from .solver import (
    Solution,
    Status,
    TaskError,
    ended,
    limits_at,
    result_message,
    solving,
)

FRAME_RATE: Final = 24.0
"""Frames in a second [1/s] where no times are given."""
SAME: Final = 1e-5
"""Largest difference of channels or targets [rad, m] that are the same."""


@dataclass(frozen=True, repr=False)
class SequenceSolution:
    """Poses of a sequence, their errors, and how the solve of each frame ended."""

    pose: Pose
    """Leading axis: the frames that were solved; not all of them when cancelled."""
    tasks: tuple[Task, ...]
    """Those that take part, a `ReachFrame` as its two parts, (tasks,)."""
    statuses: tuple[Status, ...]
    iterations: IntArray
    """Iterations of the batch or motion in which each frame was solved, (F,)."""
    errors: FloatArray
    """Unweighted error of each task, (F, tasks) [m] or [rad]; NaN where it has no target."""
    reached: bool
    """Whether every target is within its tolerance in every frame that has one."""
    cancelled: bool
    smoothing: FloatArray
    """Error that smoothness adds to each task, compared with the frame solved alone from its pose in the
    motion, (F, tasks) [m] or [rad]; 0 where the task is within its tolerance."""
    whys: tuple[tuple[Explanation | None, ...], ...]
    """Reason why each task is missed, for each frame: that of the frame solved alone, or smoothness where it
    is met alone; None where it is reached."""
    taken: tuple[tuple[str, ...], ...]
    """Label of the alternative that each task has taken, for each frame; empty where it has none."""
    limited: tuple[tuple[tuple[str, int], ...], ...]
    """Joint and channel of every active limit, for each frame."""
    pops: tuple[Pop, ...] = ()
    """Frames at which a joint turns out of proportion."""

    def __repr__(self) -> str:
        missed = sum(status is not Status.REACHED for status in self.statuses)
        return f"SequenceSolution({len(self)} frames, {missed} with missed targets)"

    def __len__(self) -> int:
        return len(self.statuses)

    @property
    def angular(self) -> tuple[bool, ...]:
        """Whether the error of each task is an angle, (tasks,)."""
        return tuple(task.angular for task in self.tasks)

    @property
    def branches(self) -> tuple[int, ...]:
        """Frames, by position, at which the pose flips."""
        return tuple(sorted({pop.frame for pop in self.pops}))

    @cached_property
    def messages(self) -> tuple[str, ...]:
        """Result of each frame in one or two sentences."""
        return tuple(self.frame(frame).message for frame in range(len(self)))

    def frame(self, frame: int) -> Solution:
        """One frame by its position, as `solve` would report it."""
        columns = zip(
            self.tasks, self.errors[frame].tolist(), self.whys[frame], self.taken[frame], strict=True
        )
        found, without = list[TaskError](), list[str]()
        for task, error, why, taken in columns:
            if isnan(error):
                without.append(task.label)
                continue
            found.append(TaskError(task.label, error, task.angular, why is None, why, taken, task.preference))
        status, iterations = self.statuses[frame], int(self.iterations[frame])
        message = result_message(status, tuple(found), iterations)
        if without:
            message += f"; no target here for {', '.join(without)}"
        return Solution(self.pose[frame], status, message, iterations, tuple(found), self.limited[frame])


def solve_sequence(
    problem: Problem,
    poses: Pose,
    options: SolverOptions | None = None,
    *,
    times: FloatArray | None = None,
    cyclic: bool | None = None,
    progress: Callable[[float], bool | None] | None = None,
    **overrides: Unpack[Overrides],
) -> SequenceSolution:
    """Solve every frame of a motion.

    Args:
        problem: Targets with a frame axis where they move.
        poses: Start of each frame, (F, n, 6); channels without a preferred value prefer this one.
        options: Settings; the defaults when None.
        times: Of the frames, rising, (F,) [s]; by default 24 to a second.
        cyclic: Whether the motion is a loop, whose last frame is the first one again, a period of
            times[-1] − times[0] later: pose and speed are the same at both ends, and the last frame has the
            targets of the first. None: whether targets and preferred poses of the two are the same. It makes
            no difference where the smoothness is 0.
        progress: Called during the solve with the part done in (0, 1]; return True to stop.
        overrides: Fields of `SolverOptions` by name.

    Raises:
        IKError: The frames of targets and poses differ, or something does not fit.
    """
    return _run(
        SequenceJob(problem, poses, with_overrides(options, overrides), times=times, cyclic=cyclic), progress
    )


def solve_each(
    problem: Problem,
    poses: Pose,
    options: SolverOptions | None = None,
    *,
    progress: Callable[[float], bool | None] | None = None,
    **overrides: Unpack[Overrides],
) -> SequenceSolution:
    """Solve independent frames, each from its own pose; otherwise as `solve_sequence`."""
    return _run(SequenceJob(problem, poses, with_overrides(options, overrides), motion=False), progress)


def _run(job: SequenceJob, progress: Callable[[float], bool | None] | None) -> SequenceSolution:
    for part in job.run():
        if progress is not None and progress(part):
            break
    return job.solution()


class SequenceJob:
    """A sequence that is solved in steps, between which callers may do other work."""

    def __init__(
        self,
        problem: Problem,
        poses: Pose,
        options: SolverOptions,
        *,
        motion: bool = True,
        times: FloatArray | None = None,
        own: slice | None = None,
        cyclic: bool | None = None,
        near: Pose | None = None,
    ) -> None:
        """Prepare.

        Args:
            problem: As for `solve_sequence`.
            poses: Likewise.
            options: Settings.
            motion: Whether the frames are those of a motion; otherwise each is solved from its own pose.
            times: Of the frames, rising, (F,) [s]; by default 24 to a second.
            own: The frames to solve, all by default. The frames beside them are context; those that meet
                their targets already stay as they are. If none of them do and the own frames are a loop,
                the context is left out.
            cyclic: As for `solve_sequence`.
            near: Poses near the solution, (F, n, 6), from which the descent begins in place of `poses`. What
                channels prefer, and all that is fixed, is still that of `poses`. No other poses are searched
                for.

        Raises:
            IKError: As `solve_sequence`.
        """
        if len(poses.frames) != 1:
            raise IKError(f"a sequence takes poses with one frame axis, got {poses.frames}")
        frames = poses.frames[0]
        if problem.frames not in (None, 1, frames):
            raise IKError(f"the targets have {problem.frames} frames, the poses {frames}")
        if cyclic not in (None, True, False):
            raise IKError(f"cyclic must be True, False or None, got {cyclic!r}")
        self._poses, self._options, self._motion, self._cyclic = poses, options, motion, cyclic
        self._skeleton = problem.skeleton
        self._system = assemble(problem, poses)
        self._start = self._system.mechanism.values(poses)
        self._near = None if near is None else self._system.mechanism.values(near)
        """Values from which the descent begins, (F, nv); None where these are `_start`."""
        self._values: FloatArray = self._begin.copy()
        self._times = np.arange(frames) / FRAME_RATE if times is None else np.asarray(times, dtype=np.float64)
        self._own = slice(0, frames) if own is None else own
        self._alone: FloatArray | None = None
        """Each frame solved alone from its pose in the motion, (F, nv)."""
        self._iterations = np.zeros(frames, dtype=np.int64)
        self._settled = np.zeros(frames, dtype=np.bool_)
        self._finished = 0
        """Number of first frames that are solved."""

    @property
    def _begin(self) -> FloatArray:
        """Where the descent begins, (F, nv)."""
        return self._start if self._near is None else self._near

    def run(self) -> Iterator[float]:
        """Solve, and yield the part done in (0, 1] after each step."""
        return one_thread.steps(self._run())

    def _run(self) -> Iterator[float]:
        frames = len(self._values)
        if not frames:
            return
        if self._options.differential or (self._system.alternatives and not self._motion):
            yield from self._one_by_one(range(frames))
        else:
            begun = 0.0
            if self._system.alternatives and self._near is not None:
                self._system = self._system.taking(self._system.nearest(self._system.place(self._near)))
            elif self._system.alternatives:
                yield from self._choose()
                begun = 0.5
            if self._motion and frames > 1 and self._options.smoothness > 0.0:
                yield from self._as_motion(begun)
            else:
                for begin in range(0, frames, AT_ONCE):
                    self._each(np.arange(begin, min(begin + AT_ONCE, frames)))
                    yield begun + (1.0 - begun) * self._finished / frames
        self._finished = frames
        yield 1.0

    def _one_by_one(self, frames: range) -> Iterator[float]:
        """Solve frames one after the other, those of a motion each from the one before it."""
        for frame in frames:
            system = self._system.select(np.array([frame]))
            follows = self._near is None and self._motion and frame
            start = self._values[frame - 1] if follows else self._begin[frame]
            pose = system.mechanism.with_values(self._poses[frame], start)
            solution = run(solving(system, pose, self._options, far=self._near is None))
            self._values[frame] = system.mechanism.values(solution.pose)
            self._iterations[frame], self._settled[frame] = (
                solution.iterations,
                solution.status is not Status.MAX_ITERATIONS,
            )
            self._finished = frame + 1
            yield self._finished / len(self._values)

    def _choose(self) -> Iterator[float]:
        """Take the alternatives that frame-by-frame solves take, each from the solution before it."""
        taken: list[IntArray] = []
        values, kept = self._start[0], None
        for frame in range(len(self._values)):
            system = self._system.select(np.array([frame]))
            pose = system.mechanism.with_values(self._poses[frame], values)
            solution = run(solving(system, pose, self._options, far=frame == 0, kept=kept))
            values = system.mechanism.values(solution.pose)
            kept = system.nearest(system.place(values[None]))
            taken.append(kept)
            yield 0.5 * (frame + 1) / len(self._values)
        self._system = self._system.taking(np.concatenate(taken))

    def _as_motion(self, begun: float) -> Iterator[float]:
        """Minimise the energy of the whole motion."""
        options = self._options
        energy = Energy(self._system, self._start, posture=options.preferred_pose)
        frames, times = np.arange(len(self._values)), self._times
        begin, end, more = self._own.start, self._own.stop - 1, 0
        stays = self._solved_beside()
        loop = self._cyclic
        if loop is None:
            loop = not stays.any() and self._closes(energy.preferred)
        if loop:
            # As many frames of the neighbouring periods as the terms over time reach.
            period = float(times[end] - times[begin])
            more = ceil(OVERLAP * min(options.smoothness, period) * (end - begin) / period)
            rounds, frames = np.divmod(np.arange(-more, end - begin + 1 + more), end - begin)
            frames += begin
            times = times[frames] + rounds * period
        start = energy.unwound(self._begin)
        if stays.any():
            start = np.where(stays[:, None], self._start, start)
            energy = energy.within(*(np.where(stays[:, None], start, bound) for bound in (-np.inf, np.inf)))
        motion = Motion(
            energy.select(frames) if loop else energy,
            start[frames],
            times,
            options,
            tolerances(self._system, options),
            far=self._near is None,
        )
        own = self._own if loop else slice(0, len(self._values))
        count = own.stop - own.start
        self._alone = alone = self._values.copy()
        solved = slice(more, more + count)
        for part in motion.run():
            self._values[own], self._settled[own] = motion.values[solved], motion.settled[solved]
            self._iterations[own], alone[own] = motion.iterations[solved], motion.alone[solved]
            self._finished = own.start + min(max(motion.finished - more, 0), count)
            yield begun + (1.0 - begun) * part
        if loop:
            # Whole turns made on the way are kept.
            turned = energy.weight * (self._values[end] - self._values[begin])
            self._values[end] = self._values[begin] + (turned - energy.unturned(turned)) / energy.weight

    def _solved_beside(self) -> BoolArray:
        """Which context frames meet their targets and limits already, and so stay, (F,)."""
        beside = np.ones(len(self._values), dtype=np.bool_)
        beside[self._own] = False
        if beside.any():
            start, system = self._start, self._system
            beside &= ((start >= system.lower - SAME) & (start <= system.upper + SAME)).all(axis=1)
            beside &= (system.errors(system.place(start)) <= tolerances(system, self._options)).all(axis=1)
        return beside

    def _closes(self, preferred: FloatArray) -> bool:
        """Whether the last of the own frames is the first, in targets and preferred pose (F, nv)."""
        ends = np.array([self._own.start, self._own.stop - 1])
        if ends[1] - ends[0] < 3 or not np.allclose(*preferred[ends], rtol=0.0, atol=SAME):
            return False
        system = self._system.select(ends)
        if system.given is not None and (system.given[0] != system.given[1]).any():
            return False
        # Fixed channels and scales may differ too, which shows in the places of joints and of tasks' points.
        posed = system.place(self._start[ends[[0, 0]]])
        placed = [posed.matrices, system.residual(posed)] if system.labels else [posed.matrices]
        pairs = [*placed, *zip(*(self._aims(int(frame)) for frame in ends), strict=True)]
        return all(np.allclose(one, other, rtol=0.0, atol=SAME) for one, other in pairs)

    def _aims(self, frame: int) -> list[FloatArray]:
        """All targets of a frame, also those that are not taken."""
        tasks = self._system.select(np.array([frame])).tasks
        return [
            each.aim for task in tasks for each in (task.alternatives if isinstance(task, OneOf) else (task,))
        ]

    def _each(self, frames: IntArray) -> None:
        """Solve independent frames in one batch."""
        options = self._options
        system = self._system.select(frames)
        start = self._start[frames]
        energy = Energy(system, start, posture=options.preferred_pose)
        begin = energy.unwound(self._begin[frames])
        far = self._near is None
        found = run(searching(energy, begin, options, tolerances(system, options), far=far))
        self._values[frames], self._settled[frames] = found.values, found.settled
        self._iterations[frames] = found.iterations
        self._finished = int(frames[-1]) + 1

    def solution(self) -> SequenceSolution:
        """Solution of the frames that are solved so far."""
        count, frames = self._finished, len(self._values)
        system, options = self._system, self._options
        if count < frames:
            system = system.select(np.arange(count))
        posed = system.place(self._values[:count])
        errors = system.errors(posed)
        reached = errors <= tolerances(system, options)
        whys: list[tuple[Explanation | None, ...]] = [(None,) * len(system.labels)] * count
        missed = np.flatnonzero(~reached.all(axis=1))
        smoothing = np.zeros_like(errors)
        if len(missed):
            some, values = system.select(missed), self._values[missed]
            if self._alone is not None:
                values = np.where(self._settled[missed, None], self._alone[missed], values)
            alone = some.place(values)
            nearer, limits = some.errors(alone), tolerances(some, options)
            # A joint without an orientation (scaled to nothing) misses by infinity, alone too.
            known = ~reached[missed] & np.isfinite(errors[missed]) & np.isfinite(nearer)
            gained = np.subtract(errors[missed], nearer, where=known, out=np.zeros_like(nearer))
            smoothing[missed] = np.maximum(gained, 0.0)
            reasons = explain(some, alone, reached[missed] | (nearer <= limits), merged=options.differential)
            for row, frame in enumerate(missed.tolist()):
                met, amounts, added = (each[frame].tolist() for each in (reached, errors, smoothing))
                whys[frame] = tuple(
                    None if done else _explained(why, task, amount, more)
                    for why, task, amount, more, done in zip(
                        reasons[row], system.tasks, amounts, added, met, strict=True
                    )
                )
        if system.given is not None:
            errors = np.where(system.given, errors, np.nan)
        goals = ~system.preferences
        hits = np.logical_and.reduce(reached | ~goals, axis=1)
        ends = np.stack([reached.all(axis=1), hits, self._settled[:count]], axis=1)
        poses = system.mechanism.with_values(self._poses[:count], self._values[:count])
        return SequenceSolution(
            pose=poses,
            tasks=system.tasks,
            statuses=tuple(ended(*map(bool, each)) for each in ends),
            iterations=self._iterations[:count],
            errors=errors,
            reached=count == frames and bool(hits.all()),
            cancelled=count < frames,
            smoothing=smoothing,
            whys=tuple(whys),
            taken=tuple(
                tuple(system.taken_label(number, frame) for number in range(len(system.labels)))
                for frame in range(count)
            )
            if system.alternatives
            else (("",) * len(system.labels),) * count,
            limited=limits_at(system, self._values[:count]),
            pops=pops_of(self._skeleton, poses, options.pop_angle) if self._motion else (),
        )


def _explained(why: Explanation | None, task: Task, error: float, smoothed: float) -> Explanation:
    """Reason of a miss, part of which is due to the other frames."""
    if why is None:
        return Explanation(task.label, error, task.angular, Reason.SMOOTHNESS, level=task.priority)
    return replace(why, error=error, smoothed=smoothed)

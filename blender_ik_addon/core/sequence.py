# SPDX-License-Identifier: GPL-3.0-or-later
"""Many frames: solved together where that serves, by operations on arrays over the frame axis.

**From coarse to fine.** The first frame is searched for like a single pose. Then, chunk by chunk, every 16th
frame is solved from the one before it, every 4th from a cubic through those, and the rest from a cubic
through these: on a smooth motion the last start is nearly the answer. What one attempt for all frames
(`newton`) does not meet is attempted once more from the frame before it, and what is not met so either, out
of reach or blocked by limits, is searched for from there.

**One branch.** Targets can be met by more than one pose, and a motion should not jump between them. So coarse
frames lead on one after the other, and what is left to make them exact is done for all at once. Where a step
is out of proportion all the same its branches are followed (`branches`). What is left of the jump is spread
over frames around it, in the room that the tasks leave (`spreading`), and told.

With a preferred pose the answer to a frame is a function of its targets and of the branch alone, apart from
frames over which a jump is spread: neither direction nor the size of chunks shows. Without, what is left free
goes smoothly from the first frame on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from .arrays import FloatArray, IntArray
from .branches import Branches
from .course import Course
from .motion import step_sizes
from .newton import Goal
from .options import SolverOptions, with_overrides
from .problem import Problem
from .skeleton import Pose
from .solution import Status, reached_message
from .spreading import Spreading
from .threads import one_thread

_Scalar = TypeVar("_Scalar", bound=np.generic)

CHUNK: Final = 256
"""Frames solved together; a multiple of the first stride, so that chunks share their coarse frames."""

CHOOSING: Final = 64
"""The same where there are alternatives: what is solved behind another choice is solved in vain."""

STRIDES: Final = (16, 4, 1)
"""Every how many frames there is one of the first, second, ... pass."""

ROUGH: Final = 100.0
"""How many times the tolerances [1] a coarse frame may be off when the next is started from it."""
ROUGH_STEP: Final = 1e-3
"""The same where there is a preferred pose: largest change [rad] that may be left to do."""
NEAR: Final = 20
"""Most iterations from a pose beside the answer towards a preferred one. Where more are needed between known
frames these lie on different branches, and the frame before leads on better."""
FAR: Final = 2.0
"""Largest change of a channel [rad] from one known frame to the next between which is interpolated."""


@dataclass(frozen=True)
class SequenceSolution:
    """The poses of a sequence, and how good they are."""

    pose: Pose
    """Leading axis: the frames that were solved, fewer than asked for only when cancelled."""
    statuses: tuple[Status, ...]
    messages: tuple[str, ...]
    iterations: IntArray
    """Of all attempts and descents for each frame, (F,)."""
    errors: FloatArray
    """Unweighted error of each task that has a weight, (F, tasks) [m] or [rad]."""
    reached: bool
    """Whether every task is within its tolerance in every frame asked for."""
    cancelled: bool
    branches: tuple[int, ...] = ()
    """Frames, by position, to which the motion goes over from one branch to another."""


def solve_sequence(
    problem: Problem,
    poses: Pose,
    options: SolverOptions | None = None,
    *,
    progress: Callable[[float], bool | None] | None = None,
    **overrides: object,
) -> SequenceSolution:
    """Solve every frame of a motion.

    Args:
        problem: Targets with a frame axis where they move.
        poses: The channels each frame starts from, (F, n, 6): the free channels of the joints that the tasks
            move count in the first frame only, all others and the scale in every frame.
        options: Settings; the defaults when None.
        progress: Called now and then with the part done in (0, 1]; return True to stop.
        overrides: Fields of `SolverOptions` by name.

    Raises:
        IKError: The frames of targets and poses differ, or something does not fit.
    """
    return _run(SequenceJob(problem, poses, with_overrides(options, overrides)), progress)


def solve_each(
    problem: Problem,
    poses: Pose,
    options: SolverOptions | None = None,
    *,
    progress: Callable[[float], bool | None] | None = None,
    **overrides: object,
) -> SequenceSolution:
    """Solve frames that have nothing to do with each other, each from its own pose; else as a sequence."""
    return _run(SequenceJob(problem, poses, with_overrides(options, overrides), motion=False), progress)


def _run(job: SequenceJob, progress: Callable[[float], bool | None] | None) -> SequenceSolution:
    for part in job.run():
        if progress is not None and progress(part):
            break
    return job.solution()


class SequenceJob:
    """A sequence being solved, for callers that have other things to do meanwhile."""

    def __init__(self, problem: Problem, poses: Pose, options: SolverOptions, *, motion: bool = True) -> None:
        """Prepare.

        Args:
            problem: As for `solve_sequence`.
            poses: Likewise.
            options: Settings.
            motion: Whether each frame goes on from those before it; otherwise each starts from its own pose.

        Raises:
            IKError: As `solve_sequence`.
        """
        self._course = Course(problem, poses, options)
        self._motion = motion
        self._branches: set[int] = set()
        self._finished = 0
        """The first frames, which are done."""

    def run(self) -> Iterator[float]:
        """Solve; gives the part done in (0, 1] now and then."""
        return one_thread.steps(self._run())

    def _run(self) -> Iterator[float]:
        frames = len(self._course.values)
        if not frames:
            return
        if not self._motion:
            for begin in range(0, frames, CHUNK):
                chunk = np.arange(begin, min(begin + CHUNK, frames))
                yield from self._solve(chunk, self._course.values[chunk], self._course.options)
                self._finished = int(chunk[-1]) + 1
                yield self._finished / frames
            return
        # Another start in the middle of a motion would be a jump: only the first frame may look for one.
        yield from self._solve(np.array([0]), self._course.values[:1], self._course.options)
        self._finished = 1
        yield 1 / frames
        options = replace(self._course.options, restarts=0)
        if self._course.options.differential:
            yield from self._follow_targets(options)
            return
        # The frame before a chunk is one of the coarse frames.
        for begin in range(1, frames, CHUNK):
            chunk = np.arange(begin, min(begin + CHUNK, frames))
            yield from self._solve_chunk(chunk, options)
            self._finished = int(chunk[-1]) + 1
            yield self._part
        branches = Branches(self._course)
        if self._course.attempts:
            for _ in chain(branches.enter(), branches.join()):
                yield self._part
        branches.rename()
        if self._course.attempts:
            spreading = Spreading(self._course, branches)
            self._branches = spreading.gone_over
            self._branches.update(branches.changes())
            for _ in spreading.run():
                yield self._part
        yield 1.0

    def _follow_targets(self, options: SolverOptions) -> Iterator[float]:
        """Solve each frame from the one before it, as methods do that are a rule for the next small step."""
        frames = len(self._course.values)
        for frame in range(1, frames):
            self._course.search(frame, self._course.values[frame - 1][None], options)
            self._finished = frame + 1
            yield self._finished / frames

    def solution(self) -> SequenceSolution:
        """The first frames, as far as they are done."""
        count, frames = self._finished, len(self._course.values)
        met = Status.REACHED, reached_message(len(self._course.system.labels))
        told = (
            [self._course.told.get(frame, met) for frame in range(count)]
            if self._course.told
            else [met] * count
        )
        return SequenceSolution(
            pose=self._course.values.pose(count),
            statuses=tuple(status for status, _ in told),
            messages=tuple(message for _, message in told),
            iterations=_first(self._course.iterations, count),
            errors=_first(self._course.errors, count),
            reached=count == frames and all(status is Status.REACHED for status, _ in told),
            cancelled=count < frames,
            branches=tuple(sorted(self._branches)),
        )

    @property
    def _part(self) -> float:
        """The part done, in (0, 1), in the middle of a chunk."""
        more = np.count_nonzero(self._course.solved[self._finished : self._finished + CHUNK])
        return float((self._finished + 0.99 * more) / len(self._course.values))

    def _solve_chunk(self, chunk: IntArray, options: SolverOptions) -> Iterator[float]:
        """Solve frames that follow one another."""
        if self._course.system.alternatives:
            yield from self._solve_choosing(chunk, options)
            return
        yield from self._coarse_to_fine(chunk, options)
        # A pose that misses targets lies on one of more branches than one that meets them: on that of the
        # frame before it.
        course = self._course
        for frame in chunk[~course.solved[chunk]]:
            start = course.values[frame - 1][None]
            if course.goal.wish and course.met[frame - 1]:
                course.take(frame[None], course.attempt(frame[None], start, self._near_goal))
            if not course.met[frame]:
                course.search(int(frame), start, options)
            yield self._part

    def _solve_choosing(self, chunk: IntArray, options: SolverOptions) -> Iterator[float]:
        """The same where there are alternatives: each frame chooses by the pose of the one before it.

        So frames are solved together as if nothing were chosen anew, the first that would choose is solved by
        itself, and those behind it once more.
        """
        course, begin, last = self._course, int(chunk[0]), int(chunk[-1])
        while begin <= last:
            if course.met[begin - 1]:
                rest = np.arange(begin, min(begin + CHOOSING, last + 1))
                with course.keeping_to(begin - 1):
                    for _ in self._coarse_to_fine(rest, options):
                        pass
                kept = rest[: course.as_before(rest)]
                course.forget(rest[len(kept) :])
                begin += len(kept)
                yield self._part
                if len(kept) == len(rest):
                    continue
            course.search(begin, course.values[begin - 1][None], options)
            begin += 1
            yield self._part

    @property
    def _near_goal(self) -> Goal:
        """The goal of attempts from poses beside their answers."""
        goal = self._course.goal
        return replace(goal, max_iterations=min(NEAR, goal.max_iterations)) if goal.wish else goal

    def _coarse_to_fine(self, chunk: IntArray, options: SolverOptions) -> Iterator[float]:
        """Try to meet all tasks in frames that follow one another."""
        before = int(chunk[0]) - 1
        oldest, left = max(before - 1, 0), chunk
        for stride in STRIDES:
            now = (left % stride == 0) | (left == chunk[-1])
            frames, left = left[now], left[~now]
            if not len(frames):
                continue
            if stride == STRIDES[0]:
                starts = np.broadcast_to(self._course.values[before], (len(frames), self._course.system.size))
                yield from self._solve_coarse(before, frames, starts, options)
            else:
                known = oldest + np.flatnonzero(self._course.solved[oldest : chunk[-1] + 1])
                self._course.take(
                    frames, self._course.attempt(frames, self._between(known, frames), self._near_goal)
                )
            yield self._part

    def _solve_coarse(
        self, before: int, frames: IntArray, starts: FloatArray, options: SolverOptions
    ) -> Iterator[float]:
        """Solve far frames so that each is what the one before it leads to."""
        if not self._course.goal.wish:
            # What the tasks leave free stays where it is: only the frame before leads to the next, which
            # need not be met exactly for that.
            rough, posed = replace(self._course.goal, tolerance=ROUGH * self._course.goal.tolerance), None
            start = starts[:1]
            for frame in frames:
                one = np.array([frame])
                found = self._course.attempt(one, start, rough, posed)
                self._course.values[one] = found.values
                self._course.iterations[one] += found.iterations
                if found.met[0]:
                    start, posed = found.values, found.posed
                elif self._course.keeps:
                    frames = frames[frames < frame]
                    break
                else:
                    self._course.search(int(frame), start, options)
                    start, posed = self._course.values[one], None
                    yield self._part
            left = frames[~self._course.solved[frames]]
            if self._course.keeps:
                self._course.take(left, self._course.attempt(left, self._course.values[left]))
            else:
                yield from self._solve(left, self._course.values[left], options)
            return
        goal = self._course.goal
        rough = replace(goal, step_tolerance=max(ROUGH_STEP, goal.step_tolerance))
        start, posed, values = starts[:1], None, np.array(starts)
        for number, frame in enumerate(frames):
            found = self._course.attempt(np.array([frame]), start, rough, posed)
            self._course.iterations[frame] += found.iterations[0]
            if found.met[0]:
                start, posed = found.values, found.posed
                values[number] = start[0]
        # Those that the one before does not lead to begin before the chunk once more.
        self._course.take(frames, self._course.attempt(frames, values))

    def _solve(self, frames: IntArray, starts: FloatArray, options: SolverOptions) -> Iterator[float]:
        """Solve frames from given starts, (f, nv): all in one attempt, what it does not meet one by one."""
        self._course.take(frames, self._course.attempt(frames, starts))
        for frame, start in zip(frames, starts, strict=True):
            if not self._course.met[frame]:
                self._course.search(int(frame), start[None], options)
                yield self._part

    def _between(self, known: IntArray, frames: IntArray) -> FloatArray:
        """Values on a cubic through the four known frames next to each frame, (f, nv)."""
        width = min(4, len(known))
        first = np.clip(np.searchsorted(known, frames) - width // 2, 0, len(known) - width)
        knots = known[first[:, None] + np.arange(width)]  # (f, width)
        away = (frames[:, None] - knots).astype(np.float64)
        apart = (knots[:, :, None] - knots[:, None, :]).astype(np.float64)
        others = ~np.eye(width, dtype=np.bool_)
        # Lagrange's polynomials.
        shares = np.where(others, away[:, None, :] / np.where(others, apart, 1.0), 1.0).prod(axis=2)
        values = self._course.values[known]  # (K, nv)
        between = np.einsum("fk,fkv->fv", shares, values[first[:, None] + np.arange(width)])
        # Where two of them are far apart nothing lies between them.
        apart = step_sizes(values) > FAR
        if apart.any():
            far = np.logical_or.reduce([apart[first + k] for k in range(width - 1)])
            nearest = first + np.abs(away).argmin(axis=1)
            between = np.where(far[:, None], values[nearest], between)
        return between


def _first(array: NDArray[_Scalar], count: int) -> NDArray[_Scalar]:
    """The first of an array's frames, read-only; all of them without a copy."""
    if count < len(array):
        array = array[:count].copy()
    array.setflags(write=False)
    return array

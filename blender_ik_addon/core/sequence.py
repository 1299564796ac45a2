# SPDX-License-Identifier: GPL-3.0-or-later
"""Many frames: solved together where that serves, by operations on arrays over the frame axis.

**From coarse to fine.** The first frame is searched for like a single pose. Then, chunk by chunk, some frames
far apart are led to, each by the one before it, some between them start from a polynomial through those, and
the rest from one through all of these: on a smooth motion the last start is nearly the answer. What one
attempt for all frames (`newton`) does not meet is attempted once more from the frame before it, and what is
not met so either, out of reach or blocked by limits, is searched for from there.

**One branch.** Targets can be met by more than one pose, and a motion should not jump between them. So coarse
frames lead on one after the other, and what is left to make them exact is done for all at once. Where a step
is out of proportion all the same its branches are followed (`branches`), and of all ways through them that
is taken which costs least (`weaving`). What is left of the jump is spread over frames around it, in the room
that the tasks leave (`spreading`), and told.

With a preferred pose the answer to a frame is a function of its targets and of the branch alone, apart from
frames over which a jump is spread: neither direction nor the size of chunks shows. Without, what is left free
goes smoothly from the first frame on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from .arrays import FloatArray, IntArray
from .attempts import Goal
from .branches import Branches
from .course import Course
from .motion import step_sizes
from .options import SolverOptions, with_overrides
from .problem import Problem
from .skeleton import Pose
from .solution import Status, reached_message
from .spreading import Spreading
from .threads import one_thread

_Scalar = TypeVar("_Scalar", bound=np.generic)

CHUNK: Final = 256
"""Frames solved together; a multiple of the strides with a preferred pose, so that chunks share their coarse
frames."""

CHOOSING: Final = 64
"""The same where there are alternatives: what is solved behind another choice is solved in vain."""

STRIDE: Final = 20
"""Frames [1] from one coarse frame to the next, at most."""
FARTHEST: Final = (0.3, 0.6)
"""Largest changes of a channel on the way from one to the next [rad]: less, and the next may be farther away;
more, and it should be nearer."""
PARTS: Final = 4
"""Into how many parts [1] frames that are solved before the rest divide the ways between coarse ones."""
WISH_STRIDES: Final = (16, 4)
"""With a preferred pose, to which frames are not led: every how many there is a coarse one, and one of those
that are solved before the rest. Steps towards it cost more, and nearer starts save some."""
KNOTS: Final = 4
"""Known frames [1] next to a frame through which its start is interpolated."""

ROUGH: Final = 25.0
"""How many times the tolerances [1] a coarse frame may be off when others are started from it."""
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
        statuses, messages = (met[0],) * count, (met[1],) * count
        if any(frame < count for frame in self._course.told):
            told = (self._course.told.get(frame, met) for frame in range(count))
            statuses, messages = zip(*told, strict=True)
        missed = any(status is not Status.REACHED for status, _ in self._course.told.values())
        return SequenceSolution(
            pose=self._course.values.pose(count),
            statuses=statuses,
            messages=messages,
            iterations=_first(self._course.iterations, count),
            errors=_first(self._course.errors, count),
            reached=count == frames and not missed,
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
        course, before = self._course, int(chunk[0]) - 1
        # Of those before it some as far apart as the others: polynomials through neighbours, each off by what
        # the tolerances allow, would swing.
        apart = WISH_STRIDES[1] if course.goal.wish else STRIDE // PARTS
        lasting = np.arange(before, -1, -apart)[KNOTS // 2 - 1 :: -1]
        if course.goal.wish:
            coarse = chunk[(chunk % WISH_STRIDES[0] == 0) | (chunk == chunk[-1])]
            self._solve_coarse(before, coarse)
            yield self._part
            middle = np.setdiff1d(chunk[chunk % WISH_STRIDES[1] == 0], coarse)
            self._solve_between(np.concatenate([lasting, chunk]), middle)
        else:
            coarse = yield from self._lead(before, int(chunk[-1]), options)
            ends = np.concatenate([[before], coarse])
            parts = ends[:-1, None] + np.diff(ends)[:, None] * np.arange(1, PARTS) // PARTS
            middle = np.setdiff1d(parts, ends)
            left = coarse[~course.solved[coarse]]
            # Made exact together with those between them, whose starts need not be better than theirs.
            starts = course.values[left], self._between(np.concatenate([lasting, coarse]), middle)
            both = np.concatenate([left, middle])
            course.take(both, course.attempt(both, np.concatenate(starts)))
            for frame in left[~course.met[left]] if not course.keeps else ():
                course.search(int(frame), course.values[frame][None], options)
                yield self._part
        yield self._part
        fine = np.setdiff1d(chunk, np.concatenate([coarse, middle]))
        self._solve_between(np.concatenate([lasting, chunk]), fine)
        yield self._part

    def _lead(self, before: int, end: int, options: SolverOptions) -> Generator[float, None, IntArray]:
        """Bring far frames near to their targets, each from the one before it, the first from a known one.

        What the tasks leave free stays where it is: so only the frame before leads to the next, and need not
        be met exactly for that. How far apart they are depends on how far that leads.

        Returns:
            The frames that came there, (f,), the last of them the end.
        """
        course, stride = self._course, STRIDE
        rough = replace(course.goal, tolerance=ROUGH * course.goal.tolerance)
        led: list[int] = []
        last = before
        start, posed = course.values[before][None], None
        while last < end:
            frame = min(last + stride, end)
            one = np.array([frame])
            found = course.attempt(one, start, rough, posed)
            course.iterations[one] += found.iterations
            change = float(np.abs(found.values - start).max(initial=0.0))
            if change > FARTHEST[1] and frame > last + 1:
                stride = (frame - last) // 2
                continue
            if change < FARTHEST[0]:
                stride = min(2 * stride, STRIDE)
            course.values[one] = found.values
            if found.met[0]:
                start, posed = found.values, found.posed
            elif course.keeps:
                break
            else:
                course.search(frame, start, options)
                start, posed = course.values[one], None
                yield self._part
            led.append(frame)
            last = frame
        return np.array(led, dtype=np.int64)

    def _solve_coarse(self, before: int, frames: IntArray) -> None:
        """Solve far frames, with a preferred pose, so that each is what the one before it leads to."""
        course, goal = self._course, self._course.goal
        rough = replace(goal, step_tolerance=max(ROUGH_STEP, goal.step_tolerance))
        values = np.repeat(course.values[before][None], len(frames), axis=0)
        start, posed = values[:1], None
        for number, frame in enumerate(frames):
            found = course.attempt(frames[number : number + 1], start, rough, posed)
            course.iterations[frame] += found.iterations[0]
            if found.met[0]:
                start, posed = found.values, found.posed
                values[number] = start[0]
        # Those that the one before does not lead to begin before the chunk once more.
        course.take(frames, course.attempt(frames, values))

    def _solve_between(self, others: IntArray, frames: IntArray) -> None:
        """Attempt frames from what lies between those of the others that are solved."""
        known = others[self._course.solved[others]]
        starts = self._between(known, frames)
        self._course.take(frames, self._course.attempt(frames, starts, self._near_goal))

    def _solve(self, frames: IntArray, starts: FloatArray, options: SolverOptions) -> Iterator[float]:
        """Solve frames from given starts, (f, nv): all in one attempt, what it does not meet one by one."""
        self._course.take(frames, self._course.attempt(frames, starts))
        for frame, start in zip(frames, starts, strict=True):
            if not self._course.met[frame]:
                self._course.search(int(frame), start[None], options)
                yield self._part

    def _between(self, known: IntArray, frames: IntArray) -> FloatArray:
        """Values of other frames on polynomials through the known frames next to each, (f, nv)."""
        width = min(KNOTS, len(known))
        runs = np.arange(len(known) - width + 1)[:, None] + np.arange(width)
        knots = known[runs]
        # Lagrange's polynomials: a knot's share is its weight by its distance, all of them 1 together.
        weights = 1.0 / (knots[:, :, None] - knots[:, None, :] + np.eye(width)).prod(axis=2)
        first = np.searchsorted(known, frames) - width // 2
        first = np.minimum(np.maximum(first, 0), len(known) - width)
        away = frames[:, None] - knots[first]  # (f, width)
        shares = weights[first] / away
        shares /= shares.sum(axis=1, keepdims=True)
        by_known = np.zeros((len(frames), len(known)))
        by_known[np.arange(len(frames))[:, None], runs[first]] = shares
        values = self._course.values[known]  # (K, nv)
        between = by_known @ values
        # Where two of them are far apart nothing lies between them.
        jumps = step_sizes(values) > FAR
        if jumps.any():
            far = np.logical_or.reduce([jumps[first + k] for k in range(width - 1)])
            nearest = first + np.abs(away).argmin(axis=1)
            between = np.where(far[:, None], values[nearest], between)
        return between


def _first(array: NDArray[_Scalar], count: int) -> NDArray[_Scalar]:
    """The first of an array's frames, read-only; all of them without a copy."""
    if count < len(array):
        array = array[:count].copy()
    array.setflags(write=False)
    return array

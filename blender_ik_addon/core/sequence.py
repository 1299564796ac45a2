# SPDX-License-Identifier: GPL-3.0-or-later
"""Many frames: solved together where that serves, by operations on arrays over the frame axis.

**From coarse to fine.** The first frame is searched for like a single pose. Then, chunk by chunk, every 16th
frame is solved from the pose before the chunk, every 4th from a cubic through those, and the rest from a
cubic through these: on a smooth motion the last start is nearly the answer. What one attempt for all frames
(`newton`) does not meet, out of reach or blocked by limits, is searched for in the end, each frame from the
one before it.

**One branch.** Targets can be met by more than one pose, and a motion should not jump between them. A coarse
frame is solved again from the one before it until both agree. Where a step is out of proportion all the same
the frames are solved on from its near side; where that side ends, the branch on the far side is followed
back, to the start of the motion if it goes so far, else to where the two come nearest. What is left of the
jump is spread over frames around it (`continuity`), in the room that the tasks leave, and told.

With a preferred pose the answer to a frame is a function of its targets and of the branch alone, apart from
frames over which a jump is spread: neither direction nor the size of chunks shows. Without, what is left free
goes smoothly from the first frame on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from .arrays import BoolArray, FloatArray, IntArray
from .continuity import JUMP, NEIGHBOURS, NO_JUMP, OTHER_NAME, jumps, renamed, spread, usual_steps
from .errors import IKError
from .mechanism import PosedMechanism
from .motion import Motion, step_sizes
from .newton import Attempt, Goal, attempt
from .objective import Objective
from .options import SolverOptions, with_overrides
from .problem import Problem
from .skeleton import Pose
from .solution import Status, TaskError, reached_message, result_message
from .solver import SLACK, Criteria, objective_of, solve_system
from .threads import one_thread

_Scalar = TypeVar("_Scalar", bound=np.generic)

CHUNK: Final = 256
"""Frames solved together; a multiple of the first stride, so that chunks share their coarse frames."""
BLOCK_BYTES: Final = 64e6
"""Memory that the matrices of frames solved at once may take [bytes]."""
RESERVE: Final = 16_000_000
"""Memory [bytes] that is asked for and given back before the work begins. Some C libraries give every large
array back to the system and fault the next one in page by page, until one as large as this has been freed:
that took up to half of the time of a pass."""
MATRICES: Final = 8
"""How many matrices of nv × nv a frame with a preferred pose takes meanwhile."""

STRIDES: Final = (16, 4, 1)
"""Every how many frames there is one of the first, second, ... pass."""

ROUGH: Final = 100.0
"""How many times the tolerances [1] a coarse frame may be off when the next is started from it."""
AGREE: Final = 1e-3
"""Largest difference [rad] between answers on the same branch, found from different starts."""
FAR: Final = 2.0
"""Largest change of a channel [rad] from one known frame to the next between which is interpolated."""
BLOCKS: Final = (2, 6, 24, 32, 64, 128)
"""Frames through which a branch is followed at once, one block after the other."""
JOININGS: Final = 3
"""How often the branches at all jumps are followed."""
APART: Final = 10.0
"""What the square of a jump [rad²] costs, against the ½|w|² of frames on the branch that is further away."""
SAME_TARGETS: Final = 0.02
"""Way of the targets in a frame [1], in scaled units, that is no leap in any case."""
SPREAD: Final = 0.7
"""Part of the largest step [1] that may be left when a jump is spread; more is no gain."""
EVENINGS: Final = 8
"""How often, at most, the frames over which a jump is spread are drawn to the middle of those beside them."""
EVENING: Final = 0.75
"""How far [1]: all the way they would swing."""
EVEN: Final = 0.9
"""Part of the largest step [1] that is left when that brings little more."""
SNAP: Final = 2.0
"""As JUMP [1], where a target goes out of reach or comes back: there a limb stretches infinitely fast."""
FOLLOWING: Final = 12
"""Most iterations for that: on a branch that goes on few are needed."""


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
        if len(poses.frames) != 1:
            raise IKError(f"a sequence takes poses with one frame axis, got {poses.frames}")
        frames = poses.frames[0]
        if problem.frames not in (None, 1, frames):
            raise IKError(f"the targets have {problem.frames} frames, the poses {frames}")
        np.empty(RESERVE, dtype=np.uint8)
        self._poses, self._options, self._motion = poses, options, motion
        self._system = problem.assemble(poses)
        self._objective = objective_of(self._system, options)
        criteria = Criteria.of(self._objective, options)
        self._goal, self._tolerance = criteria.goal, criteria.tolerance
        self._attempts = options.attempts and self._objective.levels > 0
        tasks = len(self._system.labels)
        self._values = Motion(self._system.mechanism, poses)
        self._start = self._values[0] if frames else np.zeros(self._system.size)
        self._met = np.zeros(frames, dtype=np.bool_)
        """Frames whose tasks are all met, (F,)."""
        self._errors = np.zeros((frames, tasks))
        self._iterations = np.zeros(frames, dtype=np.int64)
        priorities = [task.priority for task in self._system.tasks]
        lowest = max(priorities, default=0)
        self._gives_way = np.array(
            [
                not self._system.alternatives and (self._options.merged or priority == lowest)
                for priority in priorities
            ],
            dtype=np.bool_,
        )
        """Which tasks, where they are missed in any case, give way to a smooth motion: those of the lowest
        level, so that no level depends on those below it, (T,)."""
        self._told: dict[int, tuple[Status, str]] = {}
        """Status and message of frames that were searched for."""
        self._branches: set[int] = set()
        self._finished = 0
        """The first frames, which are done."""
        self._solved = np.zeros(frames, dtype=np.bool_)
        """Frames that have an answer, (F,)."""
        matrices = MATRICES * 8 * self._system.size**2 if self._goal.wish else 0
        self._block = int(np.clip(BLOCK_BYTES // max(matrices, 1), 1, CHUNK))

    def run(self) -> Iterator[float]:
        """Solve; gives the part done in (0, 1] now and then."""
        return one_thread.steps(self._run())

    def _run(self) -> Iterator[float]:
        frames = len(self._values)
        if not frames:
            return
        if not self._motion:
            for begin in range(0, frames, CHUNK):
                chunk = np.arange(begin, min(begin + CHUNK, frames))
                yield from self._solve(chunk, self._values[chunk], self._options)
                self._finished = int(chunk[-1]) + 1
                yield self._finished / frames
            return
        # Another start in the middle of a motion would be a jump: only the first frame may look for one.
        yield from self._solve(np.array([0]), self._values[:1], self._options)
        self._finished = 1
        yield 1 / frames
        options = replace(self._options, restarts=0)
        if self._options.differential:
            yield from self._follow_targets(options)
            return
        # The frame before a chunk is one of the coarse frames.
        for begin in range(1, frames, CHUNK):
            chunk = np.arange(begin, min(begin + CHUNK, frames))
            yield from self._solve_chunk(chunk, options)
            self._finished = int(chunk[-1]) + 1
            yield self._part
        if self._attempts:
            seen: set[tuple[int, int]] = set()
            for _ in range(JOININGS):
                news = [jump for jump in self._jumps() if jump not in seen]
                if not news:
                    break
                for first, last in news:
                    self._join(first, last)
                    yield self._part
                seen.update(news)
        self._rename()
        if self._attempts:
            for first, last in self._jumps():
                self._branches.add(first)
                self._spread(first, last)
                yield self._part
            for frame in self._snaps():
                self._spread(frame, frame)
                yield self._part
        yield 1.0

    def _follow_targets(self, options: SolverOptions) -> Iterator[float]:
        """Solve each frame from the one before it, as methods do that are a rule for the next small step."""
        frames = len(self._values)
        for frame in range(1, frames):
            self._search(frame, self._values[frame - 1][None], options)
            self._finished = frame + 1
            yield self._finished / frames

    def solution(self) -> SequenceSolution:
        """The first frames, as far as they are done."""
        count, frames = self._finished, len(self._values)
        met = Status.REACHED, reached_message(len(self._system.labels))
        told = [self._told.get(frame, met) for frame in range(count)] if self._told else [met] * count
        return SequenceSolution(
            pose=self._values.pose(count),
            statuses=tuple(status for status, _ in told),
            messages=tuple(message for _, message in told),
            iterations=_first(self._iterations, count),
            errors=_first(self._errors, count),
            reached=count == frames and all(status is Status.REACHED for status, _ in told),
            cancelled=count < frames,
            branches=tuple(sorted(self._branches)),
        )

    @property
    def _part(self) -> float:
        """The part done, in (0, 1), in the middle of a chunk."""
        more = np.count_nonzero(self._solved[self._finished : self._finished + CHUNK])
        return float((self._finished + 0.99 * more) / len(self._values))

    def _solve_chunk(self, chunk: IntArray, options: SolverOptions) -> Iterator[float]:
        """Solve frames that follow one another, from coarse to fine."""
        before = int(chunk[0]) - 1
        oldest, left = max(before - 1, 0), chunk
        for stride in STRIDES:
            now = (left % stride == 0) | (left == chunk[-1])
            frames, left = left[now], left[~now]
            if not len(frames):
                continue
            if stride == STRIDES[0]:
                starts = np.broadcast_to(self._values[before], (len(frames), self._system.size))
                yield from self._solve_coarse(before, frames, starts, options)
            else:
                known = oldest + np.flatnonzero(self._solved[oldest : chunk[-1] + 1])
                self._take(frames, self._attempt(frames, self._between(known, frames)))
            yield self._part
        # A pose that misses targets lies on one of more branches than one that meets them: on that of the
        # frame before it.
        for frame in chunk[~self._solved[chunk]]:
            self._search(int(frame), self._values[frame - 1][None], options)
            yield self._part

    def _solve_coarse(
        self, before: int, frames: IntArray, starts: FloatArray, options: SolverOptions
    ) -> Iterator[float]:
        """Solve far frames so that each is what the one before it leads to."""
        if not self._goal.wish:
            # What the tasks leave free stays where it is: only the frame before leads to the next, which
            # need not be met exactly for that.
            rough, posed = replace(self._goal, tolerance=ROUGH * self._goal.tolerance), None
            start = starts[:1]
            for frame in frames:
                one = np.array([frame])
                found = self._attempt(one, start, rough, posed)
                self._values[one] = found.values
                self._iterations[one] += found.iterations
                if found.met[0]:
                    start, posed = found.values, found.posed
                else:
                    self._search(int(frame), start, options)
                    start, posed = self._values[one], None
                    yield self._part
            left = frames[~self._solved[frames]]
            yield from self._solve(left, self._values[left], options)
            return
        neighbours = np.concatenate([[before], frames[:-1]])
        self._take(frames, self._attempt(frames, starts))
        check = np.arange(1, len(frames))
        while len(check):
            some = self._attempt(frames[check], self._values[neighbours[check]])
            differs = np.abs(some.values - self._values[frames[check]]).max(axis=1, initial=0.0) > AGREE
            better = some.met & (differs | ~self._met[frames[check]])
            self._take(frames[check[better]], some.select(better))
            check = check[better] + 1
            check = check[check < len(frames)]

    def _solve(self, frames: IntArray, starts: FloatArray, options: SolverOptions) -> Iterator[float]:
        """Solve frames from given starts, (f, nv): all in one attempt, what it does not meet one by one."""
        self._take(frames, self._attempt(frames, starts))
        for frame, start in zip(frames, starts, strict=True):
            if not self._met[frame]:
                self._search(int(frame), start[None], options)
                yield self._part

    def _attempt(
        self,
        frames: IntArray,
        starts: FloatArray,
        goal: Goal | None = None,
        posed: PosedMechanism | None = None,
    ) -> Attempt:
        """Try to meet all tasks in some frames.

        For one frame `posed` is its start as another frame has placed it, where that is at hand.
        """
        if not self._attempts:
            return Attempt.none(starts, self._errors[frames])
        found: list[Attempt] = []
        for at in range(0, len(frames), self._block):
            block = slice(at, at + self._block)
            objective = self._choosing(frames[block], starts[block])
            same = posed is not None and posed.mechanism is objective.system.mechanism
            found.append(attempt(objective, starts[block], goal or self._goal, None, posed if same else None))
        return Attempt.joined(found)

    def _choosing(self, frames: IntArray, starts: FloatArray) -> Objective:
        """The objective of some frames, which has taken alternatives by where they start, (f, nv)."""
        objective = self._objective.select(frames)
        if not self._system.alternatives:
            return objective
        system = objective.system
        return objective.on(system.taking(system.nearest(system.place(starts), self._kept(frames))))

    def _kept(self, frames: IntArray) -> IntArray | None:
        """The alternatives that the last frame before each of some has taken, (f, C), as far as known."""
        solved = np.flatnonzero(self._solved)
        if not len(solved):
            return None
        before = solved[np.maximum(np.searchsorted(solved, frames, side="right") - 1, 0)]
        return self._system.taken[before]

    def _note(self, frames: IntArray) -> None:
        """Remember which alternatives some frames have taken."""
        if not self._system.alternatives or not len(frames):
            return
        system = self._system.select(frames)
        taken = np.array(np.broadcast_to(self._system.taken, (len(self._values), len(system.alternatives))))
        taken[frames] = system.nearest(system.place(self._values[frames]))
        self._system = self._system.taking(taken)
        self._objective = self._objective.on(self._system)

    def _take(self, frames: IntArray, found: Attempt) -> None:
        """Take the answers of an attempt where it met the tasks, its iterations everywhere."""
        self._iterations[frames] += found.iterations
        if not found.met.all():
            frames, found = frames[found.met], found.select(found.met)
        self._values[frames], self._errors[frames] = found.values, found.errors
        self._met[frames] = self._solved[frames] = True
        self._note(frames)
        for frame in frames if self._told else ():
            self._told.pop(int(frame), None)

    def _search(self, frame: int, start: FloatArray, options: SolverOptions) -> None:
        """Search for a frame, which attempts have not met, from a start, (1, nv)."""
        system = self._system.select(np.array([frame]))
        pose = system.mechanism.with_values(self._poses.frame(frame), start[0])
        kept = self._kept(np.array([frame])) if system.alternatives else None
        solution = solve_system(system, pose, options, attempted=self._attempts, kept=kept)
        self._values[frame] = system.mechanism.values(solution.pose)
        self._errors[frame] = [error.error for error in solution.errors]
        self._iterations[frame] += solution.iterations
        self._met[frame], self._solved[frame] = solution.reached, True
        self._note(np.array([frame]))
        self._told[frame] = solution.status, solution.message

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
        values = self._values[known]  # (K, nv)
        between = np.einsum("fk,fkv->fv", shares, values[first[:, None] + np.arange(width)])
        # Where two of them are far apart nothing lies between them.
        apart = step_sizes(values) > FAR
        if apart.any():
            far = np.logical_or.reduce([apart[first + k] for k in range(width - 1)])
            nearest = first + np.abs(away).argmin(axis=1)
            between = np.where(far[:, None], values[nearest], between)
        return between

    def _rename(self) -> None:
        """Where only the angles jump and not the rotations, take angles that go on."""
        system = self._system
        frames = [frame for first, last in jumps(self._values.steps()) for frame in range(first, last + 1)]
        for frame in (0, *frames):
            before = self._values[frame - 1] if frame else self._start
            if np.abs(self._values[frame] - before).max(initial=0.0) <= OTHER_NAME:
                continue
            after = renamed(self._values[frame:], before, system.mechanism, system.lower, system.upper)
            if after is not None:
                self._values[frame:] = after

    def _join(self, first: int, last: int) -> None:
        """Follow the branches on both sides of a jump and go over where it costs least."""
        choices: list[tuple[float, IntArray, Attempt]] = []
        for frame, direction in ((first - 1, +1), (last, -1)):
            if direction < 0 and not self._goal.wish:
                continue
            frames, found, rejoins = self._follow(frame, direction)
            if not len(frames):
                continue
            if rejoins or frames[-1] in (0, len(self._values) - 1):
                self._take(frames, found)
                return
            stored = self._values[frames]
            apart = np.abs(found.values - stored).max(axis=1, initial=0.0)
            energy = np.cumsum(self._wish_of(found.values) - self._wish_of(stored)) + APART * apart**2
            best = int(energy.argmin()) + 1
            choices.append((float(energy[best - 1]), frames[:best], found.select(np.arange(best))))
        step = float(np.abs(self._values[last] - self._values[first - 1]).max(initial=0.0))
        for energy, frames, found in sorted(choices, key=lambda choice: choice[0])[:1]:
            if energy < APART * step**2:
                self._take(frames, found)

    def _wish_of(self, values: FloatArray) -> FloatArray:
        """½|w|² of the preferred pose, (f, nv) -> (f,)."""
        away = self._objective.away(values)
        return 0.5 * np.einsum("fv,fv->f", away, away)

    def _follow(self, frame: int, direction: int) -> tuple[IntArray, Attempt, bool]:
        """Follow the branch of a frame forward (+1) or back (−1).

        Returns:
            Frames (f,) that are not on the stored motion, what is found for them, and whether the branch ends
            on the stored motion.
        """
        goal = replace(self._goal, max_iterations=min(FOLLOWING, self._goal.max_iterations))
        frames, parts = [np.zeros(0, dtype=np.int64)], [Attempt.none(self._values[:0], self._errors[:0])]
        at, value, slope = frame, self._values[frame], self._slope(frame, -direction)
        for block in BLOCKS:
            ahead = np.arange(1, min(block, at if direction < 0 else len(self._values) - 1 - at) + 1)
            if not len(ahead):
                break
            these = at + direction * ahead
            found = self._attempt(these, self._objective.clipped(value + ahead[:, None] * slope), goal)
            usual = max(float(np.abs(slope).max(initial=0.0)), NO_JUMP)
            goes_on = found.met & (step_sizes(np.concatenate([value[None], found.values])) <= JUMP * usual)
            agrees = np.abs(found.values - self._values[these]).max(axis=1, initial=0.0) <= AGREE
            ends = bool((agrees | ~goes_on).any())
            stop = int((agrees | ~goes_on).argmax()) if ends else len(these)
            frames.append(these[:stop])
            parts.append(found.select(np.arange(stop)))
            if ends:
                return np.concatenate(frames), Attempt.joined(parts), bool(goes_on[stop])
            slope = found.values[-1] - (found.values[-2] if len(ahead) > 1 else value)
            at, value = int(these[-1]), found.values[-1]
        return np.concatenate(frames), Attempt.joined(parts), False

    def _slope(self, frame: int, direction: int) -> FloatArray:
        """Change of the values from the frame at one side to this one, (nv,)."""
        other = frame + direction
        if not 0 <= other < len(self._values):
            return np.zeros(self._system.size)
        return self._values[frame] - self._values[other]

    def _jumps(self) -> list[tuple[int, int]]:
        """Jumps of the motion, without those of the targets themselves."""
        return [(first, last) for first, last in jumps(self._values.steps()) if not self._leap(first, last)]

    def _snaps(self) -> Iterator[int]:
        """Frames to which the motion moves fast because a target goes out of reach or comes back into it."""
        missed: BoolArray = self._errors > self._tolerance
        borders = 1 + np.flatnonzero(np.logical_or.reduce(missed[1:] != missed[:-1], axis=1))
        for frame in borders.tolist():
            steps = self._values.steps()
            usual = float(usual_steps(steps, np.array([frame - 1]))[0])
            if steps[frame - 1] > max(NO_JUMP, SNAP * usual) and not self._leap(frame, frame):
                yield frame

    def _leap(self, first: int, last: int) -> bool:
        """Whether the targets leap at a jump: seen from the pose before, they move far more than is usual."""
        around = np.arange(max(first - NEIGHBOURS, 1), min(last + NEIGHBOURS + 1, len(self._values)))
        before = self._values[around - 1]
        # From the same pose: where targets are missed it would move on although they do not.
        missed = [self._objective.select(frames).stand(before).residual for frames in (around, around - 1)]
        moves = np.linalg.norm(missed[0] - missed[1], axis=1)
        there = (around >= first) & (around <= last)
        usual = float(np.median(moves[~there])) if not there.all() else 0.0
        return bool(moves[there].max() > JUMP * usual + SAME_TARGETS)

    def _spread(self, first: int, last: int) -> None:
        """Go over from one pose to another in several frames, in the room that the tasks leave there."""
        missed: BoolArray = self._errors > self._tolerance
        stays: BoolArray = np.logical_or.reduce(missed & ~self._gives_way, axis=1)
        frames, values = spread(self._values, first, last, ~stays)
        if not len(frames):
            return
        around: IntArray = np.arange(int(frames[0]) - 1, min(int(frames[-1]) + 2, len(self._values)))
        inner = np.arange(1, 1 + len(frames))
        worst = self._errors[around].max(axis=0)
        room = list(self._room(frames, missed[frames]))
        goal = replace(self._goal, wish=True, tolerance=SLACK * self._tolerance)
        system = self._system.select(frames)
        after = self._values[around]
        best, last_step = None, np.inf
        least = float(SPREAD * step_sizes(after).max())
        for _ in range(EVENINGS):
            for own, kept, objective in room:
                start, tolerance = objective.clipped(values[own]), goal.tolerance[kept]
                after[inner[own]] = start
                if not kept.any():
                    continue
                found = attempt(objective.towards(values[own]), start, replace(goal, tolerance=tolerance))
                self._iterations[frames[own]] += found.iterations
                if not found.met.all():
                    return
                after[inner[own]] = found.values
            step = float(step_sizes(after).max())
            posed = system.place(after[inner])
            errors = system.errors(posed)
            if (errors <= np.maximum(worst, self._tolerance)).all() and step < least:
                best, least = (posed.values, errors), EVEN * step
            elif best is not None or step > max(least, EVEN * last_step):
                break
            last_step = step
            # At the end of the motion there is nothing behind.
            sides = after[: len(frames)], after[np.minimum(inner + 1, len(after) - 1)]
            values = EVENING * 0.5 * (sides[0] + sides[1]) + (1.0 - EVENING) * after[inner]
        if best is not None:
            self._values[frames], self._errors[frames] = best
            self._note(frames)
            for frame in frames[missed[frames].any(axis=1)].tolist():
                self._told[frame] = self._told[frame][0], self._smoothed_message(frame)

    def _smoothed_message(self, frame: int) -> str:
        """What is said of a frame whose lowest level gives way."""
        each = zip(
            self._system.labels,
            self._errors[frame].tolist(),
            self._system.angular,
            self._tolerance,
            strict=True,
        )
        tasks = tuple(TaskError(name, error, angular, error <= most) for name, error, angular, most in each)
        return f"{result_message(Status.SETTLED, tasks, 0)}; a little more than need be, for a smooth motion"

    def _room(self, frames: IntArray, missed: BoolArray) -> Iterator[tuple[IntArray, BoolArray, Objective]]:
        """Some frames by what they miss, (f, T): which of them, what they have to meet, and that."""
        kinds, kind_of = np.unique(missed, axis=0, return_inverse=True)
        for kind, kept in enumerate(~kinds):
            own = np.flatnonzero(kind_of.ravel() == kind)
            if kept.all():
                yield own, kept, self._objective.select(frames[own])
            else:
                objective = objective_of(self._system.keeping(kept), self._options)
                yield own, kept, objective.select(frames[own])


def _first(array: NDArray[_Scalar], count: int) -> NDArray[_Scalar]:
    """The first of an array's frames, read-only; all of them without a copy."""
    if count < len(array):
        array = array[:count].copy()
    array.setflags(write=False)
    return array

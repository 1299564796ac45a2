# SPDX-License-Identifier: GPL-3.0-or-later
"""Many frames: a motion as one problem, or independent frames.

A motion is minimised as a whole (`engine.motion`): the energies of its frames plus terms over time. It is the
same forward and backward, and nothing is smoothed afterwards.

The methods of the papers solve frame by frame, each from the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, isnan
from typing import Final, Unpack

import numpy as np
import numpy.typing as npt

from ..arrays import BoolArray, FloatArray, IntArray, frozen
from ..engine.energy import Energy
from ..engine.kernel import run
from ..engine.motion import OVERLAP, Motion
from ..engine.pops import Pop, pops_of
from ..engine.restarts import AT_ONCE, searching
from ..errors import IKError, check_function
from ..explain.explanation import Explanation, Reason
from ..explain.reasons import explain
from ..messages import Joined, Message
from ..model.skeleton import Pose
from ..problem.options import Overrides, SolverOptions, with_overrides
from ..problem.problem import Problem
from ..problem.system import SAME, System, assemble, keeps_recorded, limits_at, tolerances
from ..tasks import OneOf, Task
from ..tasks.base import OrientationField
from ..threads import one_thread
from .solver import Solution, Status, TaskError, check_given, ended, result_message, solving

FRAME_RATE: Final = 24.0
"""Frames in a second [1/s] where no times are given."""
BESIDE: Final = 2
"""How many frames beside those that move have a part in the terms over time."""
CONTINUES: Final = 0.75
"""Difference of the first and the last step of a loop, at most, by the sum of their lengths [1]."""


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
    met: BoolArray
    """Whether each task is within its tolerance, (F, tasks); also where it has no target."""
    taken: tuple[tuple[str, ...], ...]
    """Label of the alternative that each task has taken, for each frame; empty where it has none."""
    limited: tuple[tuple[tuple[str, int], ...], ...]
    """Joint and channel of every active limit, for each frame."""
    pops: tuple[Pop, ...]
    """Frames at which a joint turns out of proportion."""
    _explained: Callable[[int], tuple[Explanation | None, ...]] = field(compare=False)
    """Reasons of a frame by its position."""

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
        return tuple(sorted({int(pop.frame) for pop in self.pops}))

    @cached_property
    def messages(self) -> tuple[str, ...]:
        """Result of each frame in one or two sentences."""
        return tuple(self.frame(frame).message for frame in range(len(self)))

    @cached_property
    def whys(self) -> tuple[tuple[Explanation | None, ...], ...]:
        """Reason why each task is missed, for each frame; None where it is reached."""
        return tuple(map(self.why, range(len(self))))

    def why(self, frame: int) -> tuple[Explanation | None, ...]:
        """The same for one frame by its position.

        That of the frame solved alone, or smoothness where it is met alone. Found when asked for: it takes as
        long as some steps of the solve.
        """
        if self.met[frame].all():
            return (None,) * len(self.tasks)
        return self._explained(range(len(self))[frame])

    def frame(self, frame: int) -> Solution:
        """One frame by its position, as `solve` would report it."""
        columns = zip(
            self.tasks,
            self.errors[frame].tolist(),
            self.met[frame].tolist(),
            self.why(frame),
            self.taken[frame],
            strict=True,
        )
        found, without = list[TaskError](), list[str]()
        for task, error, met, why, taken in columns:
            if isnan(error):
                without.append(task.label)
                continue
            found.append(TaskError(task.label, error, task.angular, met, why, taken, task.preference))
        status, iterations = self.statuses[frame], int(self.iterations[frame])
        message = result_message(status, tuple(found), iterations)
        if without:
            none = Message("no target here for {names}", names=", ".join(without))
            message = Joined("; ", [message, none])
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
            targets of the first. None: whether targets and preferred poses of the two are the same, and move
            on from the first much as they come to the last. It makes no difference where the smoothness is 0.
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
    check_function("progress", progress)
    for part in job.run():
        if progress is not None and progress(part):
            break
    return job.solution()


def _checked_times(times: npt.ArrayLike, frames: int) -> FloatArray:
    """Times of frames, (F,) [s] (IKError: they are no numbers, not as many as frames, or do not rise)."""
    try:
        found = frozen(times)
    except IKError:
        raise IKError("times are one number for each frame [s], got {times!r}", times=times) from None
    if found.shape != (frames,) or not np.isfinite(found).all() or (np.diff(found) <= 0.0).any():
        raise IKError(
            "times are one number for each of {frames} frames [s], rising, got {times}",
            frames=frames,
            times=found,
        )
    return found


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
        played: BoolArray | None = None,
        cyclic: bool | None = None,
        near: Pose | None = None,
        held: BoolArray | None = None,
        solved: BoolArray | None = None,
    ) -> None:
        """Prepare.

        Args:
            problem: As for `solve_sequence`.
            poses: Likewise.
            options: Settings.
            motion: Whether the frames are those of a motion; otherwise each is solved from its own pose.
            times: Of the frames, rising, (F,) [s]; by default 24 to a second.
            own: The frames to solve, all by default. The frames beside them are context; those of a motion
                that is there already stay as they are if they meet their targets. If none do, the own frames
                are a loop, and targets beside them rest or go round once more, the context is left out.
            played: Which frames beside the own ones are of such a motion, (F,); all by default. A pose that
                nobody has keyed says nothing of the motion, whatever it meets.
            cyclic: As for `solve_sequence`.
            near: Poses near the solution, (F, n, 6), from which the descent begins in place of `poses`. What
                channels prefer, and all that is fixed, is still that of `poses`. No other poses are searched
                for.
            held: Joints that stay in some frames as `poses` has them, (F, n); by default none does.
            solved: Joints whose preferred poses are those of an earlier solve, (n,); by default none's are. A
                pop of that one is a pop still.

        Raises:
            IKError: As `solve_sequence`.
        """
        check_given("a sequence", problem, poses)
        if len(poses.frames) != 1:
            raise IKError("a sequence takes poses with one frame axis, got {frames}", frames=poses.frames)
        frames = poses.frames[0]
        if problem.frames not in (None, 1, frames):
            raise IKError(
                "the targets have {frames} frames, the poses {pose_frames}",
                frames=problem.frames,
                pose_frames=frames,
            )
        if cyclic is not None and not (np.isscalar(cyclic) and cyclic in (True, False)):
            raise IKError("cyclic must be True, False or None, got {cyclic!r}", cyclic=cyclic)
        self._poses, self._options, self._motion, self._cyclic = poses, options, motion, cyclic
        self._skeleton = problem.skeleton
        self._solved = np.zeros(len(self._skeleton), dtype=np.bool_) if solved is None else solved
        self._system = assemble(problem, poses, held)
        self._start = self._system.mechanism.values(poses)
        self._far = near is None
        """Whether other poses are searched for."""
        self._begin = self._start if near is None else self._system.mechanism.values(near)
        """Where the descent begins, (F, nv)."""
        self._values: FloatArray = self._begin.copy()
        self._times = np.arange(frames) / FRAME_RATE if times is None else _checked_times(times, frames)
        self._own = slice(0, frames) if own is None else own
        self._played = np.ones(frames, dtype=np.bool_) if played is None else played
        self._alone: FloatArray | None = None
        """Each frame solved alone from its pose in the motion, (F, nv)."""
        self._iterations = np.zeros(frames, dtype=np.int64)
        self._converged = np.zeros(frames, dtype=np.bool_)
        self._finished = 0
        """Number of first frames that are solved."""

    def run(self) -> Iterator[float]:
        """Solve, and yield the part done in (0, 1] after each step."""
        return one_thread.steps(self._run())

    def _run(self) -> Iterator[float]:
        frames = len(self._values)
        if not frames:
            return
        system, begun = self._system, 0.0
        choices = system.choices is not None
        if self._options.differential or (choices and not self._motion):
            for done in self._one_by_one():
                self._finished = done
                yield done / frames
        else:
            tied = self._motion and frames > 1 and self._options.smoothness > 0.0
            if choices and (tied or not self._far):
                self._system = system.taking(system.nearest(system.place(self._begin)))
            elif choices:
                # Without terms over time a frame keeps to what the one before has taken.
                for done in self._one_by_one():
                    yield 0.5 * done / frames
                begun = 0.5
            if tied:
                yield from self._as_motion()
            else:
                for begin in range(0, frames, AT_ONCE):
                    self._each(np.arange(begin, min(begin + AT_ONCE, frames)))
                    yield begun + (1.0 - begun) * self._finished / frames
        self._finished = frames
        yield 1.0

    def _one_by_one(self) -> Iterator[int]:
        """Solve frame by frame, in a motion each from the one before, and take the alternatives that are met.

        Yields how many frames are solved.
        """
        taken = self._system.nearest(self._system.place(self._begin))
        kept: IntArray | None = None
        for frame in range(len(taken)):
            system = self._system.select(np.array([frame]))
            follows = self._far and self._motion and frame > 0
            start = self._values[frame - 1] if follows else self._begin[frame]
            pose = system.mechanism.with_values(self._poses[frame], start)
            far = self._far and not follows
            solution = run(solving(system, pose, self._options, far=far, kept=kept))
            self._values[frame] = system.mechanism.values(solution.pose)
            self._iterations[frame] = solution.iterations
            self._converged[frame] = solution.status is not Status.MAX_ITERATIONS
            taken[frame] = solution.chosen
            self._system = self._system.taking(taken)
            if self._motion:
                kept = taken[[frame]]
            yield frame + 1

    def _as_motion(self) -> Iterator[float]:
        """Minimise the energy of the whole motion."""
        options = self._options
        energy = Energy(self._system, self._start, posture=options.preferred_pose)
        frames, times = np.arange(len(self._values)), self._times
        begin, end, more = self._own.start, self._own.stop - 1, 0
        beside, keeps = self._solved_beside(), keeps_recorded(self._system, self._start, options)
        stays = beside | keeps
        values = np.where(keeps[:, None], self._system.recorded_or(self._start), self._start)
        if stays.all():
            self._values, self._converged[:], self._finished = values, True, len(values)
            return
        loop = self._cyclic
        if loop is None:
            preferred = energy.preferred / energy.weight
            loop = not beside.any() and _is_loop(self._system, self._start, preferred, self._own)
        if loop:
            frames, times = _rounds(times, self._own, options.smoothness)
            more = (len(frames) - (end - begin + 1)) // 2
        # Where the frames are, such as on the keys of a bake before, has no part in where a motion ends.
        start = energy.preferred / energy.weight if self._far else energy.unwound(self._begin)
        if stays.any():
            start = np.where(stays[:, None], values, start)
            energy = energy.within(*(np.where(stays[:, None], start, bound) for bound in (-np.inf, np.inf)))
        self._alone = alone = self._values.copy()
        taken = self._system.taken.copy()
        if loop:
            stretches = [np.arange(len(frames))]
        else:
            stretches = _stretches(keeps)
            self._values[keeps], self._converged[keeps] = values[keeps], True
        for stretch in stretches:
            some = frames[stretch]
            motion = Motion(energy.select(some), start[some], times[stretch], options, far=self._far)
            first, solved = int(stretch[0]), slice(0, len(stretch))
            if loop:
                first, solved = begin, slice(more, more + end - begin + 1)
            own = slice(first, first + solved.stop - solved.start)
            done, share = first / len(frames), len(stretch) / len(frames)
            for part in motion.run():
                self._values[own], self._converged[own] = motion.values[solved], motion.converged[solved]
                self._iterations[own], alone[own] = motion.iterations[solved], motion.alone[solved]
                taken[own] = motion.taken[solved]
                self._system = self._system.taking(taken)
                self._finished = first + min(max(motion.finished - solved.start, 0), own.stop - first)
                yield part if loop else done + share * part
        if loop:
            # Whole turns made on the way are kept, those made in the round before are not.
            first = energy.weight * self._values[begin] - energy.preferred[begin]
            self._values[begin : end + 1] += (energy.unturned(first) - first) / energy.weight
            turned = energy.weight * (self._values[end] - self._values[begin])
            self._values[end] = self._values[begin] + (turned - energy.unturned(turned)) / energy.weight

    def _solved_beside(self) -> BoolArray:
        """Which context frames meet their targets and limits already, and so stay, (F,)."""
        beside = self._played.copy()
        beside[self._own] = False
        if beside.any():
            start, system = self._start, self._system
            lower, upper = system.bounds
            hair = SAME * system.units
            beside &= ((start >= lower - hair) & (start <= upper + hair)).all(axis=1)
            beside &= (system.errors(system.place(start)) <= tolerances(system, self._options)).all(axis=1)
        return beside

    def _each(self, frames: IntArray) -> None:
        """Solve independent frames in one batch."""
        options = self._options
        system = self._system.select(frames)
        start = self._start[frames]
        self._finished = int(frames[-1]) + 1
        keeps = keeps_recorded(system, start, options)
        self._values[frames[keeps]] = system.recorded_or(start)[keeps]
        self._converged[frames[keeps]] = True
        frames, system, start = frames[~keeps], system.select(np.flatnonzero(~keeps)), start[~keeps]
        if not len(frames):
            return
        energy = Energy(system, start, posture=options.preferred_pose)
        begin = energy.unwound(self._begin[frames])
        found = run(searching(energy, begin, options, tolerances(system, options), far=self._far))
        self._values[frames], self._converged[frames] = energy.unwound(found.values), found.converged
        self._iterations[frames] = found.iterations

    def solution(self) -> SequenceSolution:
        """Solution of the frames that are solved so far."""
        count, frames = self._finished, len(self._values)
        system, options = self._system, self._options
        if count < frames:
            system = system.select(np.arange(count))
        posed = system.place(self._values[:count])
        errors = system.errors(posed)
        limits = tolerances(system, options)
        reached = errors <= limits
        alone, smoothing = self._values[:count], np.zeros_like(errors)
        prefers, posture = self._start, options.preferred_pose
        if self._alone is not None and not reached.all():
            alone = np.where(self._converged[:count, None], self._alone[:count], alone)
            prefers, posture = alone, False  # near the motion
            nearer = system.errors(system.place(alone))
            # A joint without an orientation (scaled to nothing) misses by infinity, alone too.
            known = ~reached & np.isfinite(errors) & np.isfinite(nearer)
            gained = np.subtract(errors, nearer, where=known, out=np.zeros_like(errors))
            smoothing = np.maximum(gained, 0.0)

        def explained(frame: int) -> tuple[Explanation | None, ...]:
            some = system.select(np.array([frame]))
            posed = some.place(alone[[frame]])
            met_alone = reached[[frame]] | (some.errors(posed) <= limits)
            energy = None if options.differential else Energy(some, prefers[[frame]], posture=posture)
            whys = explain(some, posed, met_alone, energy)[0]
            columns = (column[frame].tolist() for column in (errors, smoothing, reached))
            return tuple(
                None if met else _explained(why, task, error, smoothed)
                for why, task, error, smoothed, met in zip(whys, system.tasks, *columns, strict=True)
            )

        hits = np.logical_and.reduce(reached | system.preferences, axis=1)
        ends = np.stack([reached.all(axis=1), hits, self._converged[:count]], axis=1)
        poses = system.mechanism.with_values(self._poses[:count], self._values[:count])
        return SequenceSolution(
            pose=poses,
            tasks=system.tasks,
            statuses=tuple(ended(*map(bool, each)) for each in ends),
            iterations=self._iterations[:count],
            errors=errors if system.given is None else np.where(system.given, errors, np.nan),
            reached=count == frames and bool(hits.all()),
            cancelled=count < frames,
            smoothing=smoothing,
            met=reached,
            taken=tuple(map(system.taken_labels, range(count))),
            limited=limits_at(system, self._values[:count]),
            pops=self._pops(poses) if self._motion else (),
            _explained=explained,
        )

    def _pops(self, poses: Pose) -> tuple[Pop, ...]:
        """Pops of the first frames of the motion, beside what is preferred in each."""
        count, system = len(poses.channels), self._system
        preferred = None
        if system.recorded is not None and self._options.preferred_pose:
            values = np.where(np.isnan(system.preferred), self._start[:1], system.preferred)[:count]
            preferred = system.mechanism.with_values(self._poses[:count], values)
            channels = preferred.channels.copy()
            channels[:, self._solved] = channels[:1, self._solved]  # beside one pose all turns count
            preferred = preferred.with_channels(channels)
        whole = self._own == slice(0, len(self._values)) and count == len(self._values)
        bound, cyclic = self._options.pop_angle, bool(self._cyclic) and whole
        times = self._times[:count]
        return pops_of(self._skeleton, poses, bound, preferred, times=times, cyclic=cyclic)


def _stretches(keeps: BoolArray) -> list[IntArray]:
    """Stretches of frames that are solved together: those that are not kept, and what is beside them."""
    frames = np.flatnonzero(~keeps)
    apart = np.flatnonzero(np.diff(frames) > 2 * BESIDE + 1) + 1
    return [
        np.arange(max(0, int(some[0]) - BESIDE), min(len(keeps), int(some[-1]) + BESIDE + 1))
        for some in np.split(frames, apart)
    ]


def _explained(why: Explanation | None, task: Task, error: float, smoothed: float) -> Explanation:
    """Reason of a miss, part of which is due to the other frames."""
    if why is None:
        return Explanation(task.label, error, task.angular, Reason.SMOOTHNESS, level=task.priority)
    return replace(why, error=error, smoothed=smoothed)


# Loops, whose last frame is the first one again


def _is_loop(system: System, values: FloatArray, preferred: FloatArray, own: slice) -> bool:
    """Whether the own ones of F frames are a loop: in targets, preferred poses (F, nv), what no solve moves.

    They must go through the seam as they come to it: what rests at an end, or comes back the way it went,
    needs no other end. The targets of other frames must rest, or go round once more: otherwise the motion
    goes on beyond.
    """
    first, last = own.start, own.stop - 1
    if last - first < 3:
        return False
    ends = system.select(np.array([first, last]))
    # Fixed channels and scales may differ too, which shows in the places of joints and of tasks' points.
    posed = ends.place(values[[first, first]])
    places = posed.matrices * np.array([1.0, 1.0, 1.0, 1.0 / system.reach])
    pairs = preferred[[first, last]] / system.units, places, ends.residual(posed) / system.row_units
    if not all(np.allclose(one, other, rtol=0.0, atol=SAME) for one, other in pairs):
        return False
    if ends.given is not None and (ends.given[0] != ends.given[1]).any():
        return False
    begin, end = (_step(system, preferred, frame) for frame in (first, last - 1))
    way = np.linalg.norm(begin) + np.linalg.norm(end)
    if way <= SAME or np.linalg.norm(end - begin) > CONTINUES * way:
        return False
    frames = np.arange(len(values))
    beside = frames[(frames < first) | (frames > last)]
    again = first + (beside - first) % (last - first)
    return _aim_alike(system, [first], [last]) and any(
        _aim_alike(system, beside.tolist(), like.tolist()) for like in (np.clip(beside, first, last), again)
    )


def _aim_alike(system: System, frames: list[int], others: list[int]) -> bool:
    """Whether frames have the same targets as others, one by one, also those that are not taken."""
    return all(
        np.allclose(_aim(system, frame), _aim(system, other), rtol=0.0, atol=SAME)
        for frame, other in zip(frames, others, strict=True)
    )


def _aim(system: System, frame: int) -> FloatArray:
    """Targets of a frame in one array, places by the reach, (k,) [1]; 0 where there are none."""
    tasks = system.select(np.array([frame])).tasks
    every = [each for task in tasks for each in (task.alternatives if isinstance(task, OneOf) else (task,))]
    sizes = [isinstance(task.arrays[task.target_field], OrientationField) or system.reach for task in every]
    aims = [task.aim.ravel() / size for task, size in zip(every, sizes, strict=True)]
    return np.nan_to_num(np.concatenate([np.zeros(0), *aims]))


def _step(system: System, preferred: FloatArray, frame: int) -> FloatArray:
    """How targets and preferred poses (F, nv) change from a frame to the next, (k,) [1]."""
    aims = _aim(system, frame + 1) - _aim(system, frame)
    return np.concatenate([aims, (preferred[frame + 1] - preferred[frame]) / system.units])


def _rounds(times: FloatArray, own: slice, smoothness: float) -> tuple[IntArray, FloatArray]:
    """Frames of a loop and their times, (n,) [s] each, with those of the rounds before and after.

    As many are added on either side of the own frames, with times (F,), as the terms over time reach.
    """
    begin, end = int(own.start), int(own.stop) - 1
    period, count = float(times[end] - times[begin]), end - begin
    more = ceil(OVERLAP * min(smoothness, period) * count / period)
    numbers = np.arange(-more, count + 1 + more)
    frames = begin + numbers % count
    return frames, times[frames] + numbers // count * period

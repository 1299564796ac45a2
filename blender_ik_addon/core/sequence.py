# SPDX-License-Identifier: GPL-3.0-or-later
"""Many frames: solved in order, each from the answer to the one before.

Targets carry the frame axis. The pose before the first frame is the caller's, so a sequence is continuous
with what it starts from. Every array keeps its frame axis, so that a batched form gives the same shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .arrays import FloatArray, IntArray, frozen
from .errors import IKError
from .problem import Problem, System
from .skeleton import Pose
from .solver import Solution, SolverOptions, Status, solve_system, with_overrides


@dataclass(frozen=True)
class SequenceSolution:
    """The poses of a sequence, and how good they are."""

    pose: Pose
    """Leading axis: the frames that were solved, fewer than asked for only when cancelled."""
    statuses: tuple[Status, ...]
    messages: tuple[str, ...]
    iterations: IntArray
    """(F,)."""
    errors: FloatArray
    """Unweighted error of each task that has a weight, (F, tasks) [m] or [rad]."""
    reached: bool
    """Whether every task is within its tolerance in every frame asked for."""
    cancelled: bool


def solve_sequence(
    problem: Problem,
    poses: Pose,
    options: SolverOptions | None = None,
    *,
    progress: Callable[[float], bool | None] | None = None,
    **overrides: object,
) -> SequenceSolution:
    """Solve every frame, warm-started from the one before.

    Args:
        problem: Targets with a frame axis where they move.
        poses: The channels each frame starts from, (F, n, 6): the free channels of the joints that the tasks
            move count in the first frame only, all others and the scale in every frame.
        options: Settings; the defaults when None.
        progress: Called after each frame with the part done in (0, 1]; return True to stop.
        overrides: Fields of `SolverOptions` by name.

    Raises:
        IKError: The frames of targets and poses differ, or something does not fit.
    """
    options = with_overrides(options, overrides)
    solutions: list[Solution] = []
    for solution in solve_frames(problem, poses, options):
        solutions.append(solution)
        if progress is not None and progress(len(solutions) / poses.frames[0]):
            break
    return collect(problem, poses, solutions)


def solve_frames(problem: Problem, poses: Pose, options: SolverOptions) -> Iterator[Solution]:
    """The frames of `solve_sequence` as they are solved, for callers that have other things to do meanwhile.

    Raises:
        IKError: As `solve_sequence`, before the first frame.
    """
    if len(poses.frames) != 1:
        raise IKError(f"a sequence takes poses with one frame axis, got {poses.frames}")
    frames = poses.frames[0]
    if problem.frames not in (None, 1, frames):
        raise IKError(f"the targets have {problem.frames} frames, the poses {frames}")
    return _frames(problem, poses, options)


def _frames(problem: Problem, poses: Pose, options: SolverOptions) -> Iterator[Solution]:
    solved = np.zeros_like(problem.skeleton.free)
    solved[problem.moving_joints] = problem.skeleton.free[problem.moving_joints]
    before: Pose | None = None
    system: System | None = None
    for frame in range(poses.frames[0]):
        at_frame = Problem(problem.skeleton, tuple(task.at_frame(frame) for task in problem.tasks))
        start = poses.frame(frame)
        if before is not None:
            start = start.with_channels(np.where(solved, before.channels, start.channels))
        system = at_frame.assemble(start.as_batch(), like=system)
        solution = solve_system(system, start, options)
        before = solution.pose
        # Another start in the middle of a motion would be a jump: only the first frame may look for a better
        # one.
        options = replace(options, restarts=0)
        yield solution


def collect(problem: Problem, poses: Pose, solutions: Sequence[Solution]) -> SequenceSolution:
    """Solutions of the first frames as arrays."""
    count = len(solutions)
    channels = (
        np.stack([s.pose.channels for s in solutions]) if count else np.empty((0, *poses.channels.shape[1:]))
    )
    errors = np.array([[error.error for error in s.errors] for s in solutions])
    return SequenceSolution(
        pose=Pose(channels, poses.scale[:count]),
        statuses=tuple(s.status for s in solutions),
        messages=tuple(s.message for s in solutions),
        iterations=frozen([s.iterations for s in solutions], np.int64),
        errors=frozen(errors.reshape(count, len(problem.weighty_tasks))),
        reached=count == poses.frames[0] and all(s.reached for s in solutions),
        cancelled=count < poses.frames[0],
    )

# SPDX-License-Identifier: GPL-3.0-or-later
"""Branches of a motion: how they are followed, and which changes are told."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from blender_ik_addon.core import (
    Pose,
    Problem,
    ReachPoint,
    SolverOptions,
    Tracker,
    branches,
    continuity,
    solve_sequence,
)
from blender_ik_addon.core.attempts import Attempt
from blender_ik_addon.core.branches import Branches
from blender_ik_addon.core.course import Course
from blender_ik_addon.core.lockstep import Asked, Asking, answered, finished
from tests.core.builders import Array, planar, tip

FRAMES = 12


def reaching(preferred: list[float], ends: tuple[tuple[float, float], tuple[float, float]], frames: int):
    """A planar chain whose end moves straight from one place to another."""
    count = len(preferred)
    wished = np.zeros((count, 6))
    wished[:, 5] = preferred
    skeleton = planar(count, preferred=wished)
    share = np.linspace(0.0, 1.0, frames)[:, None]
    way = np.asarray(ends[0]) + share * (np.asarray(ends[1]) - np.asarray(ends[0]))
    targets = np.concatenate([way, np.zeros((frames, 1))], axis=1)
    task = ReachPoint(joint=count - 1, point=tip(), target=targets)
    return Problem(skeleton, (task,)), Pose.rest(skeleton, (frames,))


# ----------------------------------------------------------------------------------------------------------
# Following


def bent_arm() -> tuple[Course, Array, Array]:
    """A motion of an arm whose elbow would rather bend to one side; its poses on that and on the other."""
    problem, poses = reaching([0.0, 0.8], ((-0.2, 1.75), (0.2, 1.75)), FRAMES)
    course = Course(problem, poses, SolverOptions())
    sides: list[Array] = []
    for side in (1.0, -1.0):
        starts = np.tile([-0.5 * side, side], (FRAMES, 1))
        found = course.attempt(np.arange(FRAMES), starts)
        assert found.met.all() and (np.sign(found.values[:, 1]) == side).all()
        course.take(np.arange(FRAMES), found)
        sides.append(found.values)
    return course, sides[0], sides[1]


def test_an_attempt_for_no_frames_is_empty() -> None:
    """As where the first coarse frame of a stretch is missed that keeps to what was chosen before it."""
    course, cheap, _ = bent_arm()
    none = course.attempt(np.zeros(0, dtype=np.int64), cheap[:0])
    assert none.values.shape == (0, 2) and none.met.shape == (0,)


@pytest.mark.parametrize("iterations", [1, branches.FOLLOWING])
def test_a_branch_is_followed_closely_where_the_motion_is_far_dearer(
    iterations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one iteration a step straight on never arrives: only from frame to frame does the branch go on."""
    course, cheap, dear = bent_arm()
    assert (2.0 * course.wishes(cheap) < course.wishes(dear)).all()
    course.values[:5] = cheap[:5]
    monkeypatch.setattr(branches, "FOLLOWING", iterations)
    for _ in Branches(course).join():
        pass
    assert_allclose(course.values[np.arange(FRAMES)], cheap, atol=1e-5)


def test_frames_that_stray_are_brought_back_where_no_step_is_out_of_proportion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    course, cheap, dear = bent_arm()
    for number in range(FRAMES):
        course.values[number] = dear[number] if 4 <= number < 7 else cheap[number]
    monkeypatch.setattr(continuity, "JUMP", np.inf)
    assert not Branches(course).jumps()
    for _ in Branches(course).join():
        pass
    assert_allclose(course.values[np.arange(FRAMES)], cheap, atol=1e-5)


def test_frames_of_a_missed_stretch_are_tried_as_long_as_they_are_met() -> None:
    """Also where neither an attempt for all of them helps nor what one of them leads to."""
    course, _, _ = bent_arm()
    missed = np.arange(3, 8)
    course.met[missed] = False
    attempt = course.attempt

    def in_vain(*args, **options) -> Attempt:
        found = attempt(*args, **options)
        return replace(found, met=np.zeros_like(found.met))

    course.attempt = in_vain  # type: ignore[method-assign]
    tried: list[int] = []
    solution = course.solution

    def counted(frame: int, *args, **options):
        tried.append(frame)
        return solution(frame, *args, **options)

    course.solution = counted  # type: ignore[method-assign]
    for _ in Branches(course).enter():
        pass
    assert course.met.all() and sorted(tried) == missed.tolist()


def test_pieces_of_work_in_step_find_what_each_finds_alone() -> None:
    course, cheap, _ = bent_arm()
    calls: list[int] = []
    attempt = course.attempt

    def counted(*args, **options) -> Attempt:
        calls.append(len(args[0]))
        return attempt(*args, **options)

    course.attempt = counted  # type: ignore[method-assign]

    def walk(frame: int, steps: int, more: int = 0) -> Asking[Array]:
        value, goal = cheap[frame], replace(course.goal, max_iterations=course.goal.max_iterations + more)
        for number in range(frame + 1, frame + 1 + steps):
            found = yield Asked(np.array([number]), value[None], goal)
            value = found.values[0]
        return value

    alone = [finished(answered(course, [walk(*piece)])) for piece in ((0, 3), (5, 1), (6, 2))]
    assert calls == [1] * 6
    calls.clear()
    together = finished(answered(course, [walk(0, 3), walk(5, 1), walk(6, 2)]))
    assert calls == [3, 2, 1]
    assert_allclose(together, np.concatenate(alone), atol=1e-12)
    calls.clear()
    together = finished(answered(course, [walk(0, 3), walk(5, 1, more=1), walk(6, 2, more=1)]))
    assert calls == [1, 1, 1, 2, 1]  # those who ask for more wait until no other asks
    assert_allclose(together, np.concatenate(alone), atol=1e-12)


# ----------------------------------------------------------------------------------------------------------
# What is told


def largest_parts(problem: Problem, poses: Pose, frame: int) -> tuple[float, float]:
    """The largest steps, and the next, of a pose whose target goes on to a frame in 64 small steps [rad]."""
    solution = solve_sequence(problem, poses)
    (task,) = problem.tasks
    assert isinstance(task, ReachPoint)
    before, after = (np.asarray(task.target)[number] for number in (frame - 1, frame))
    channels = solution.pose.channels[frame - 1]
    tracker = Tracker(
        Problem(problem.skeleton, (task.at_frame(frame - 1),)), Pose(channels, poses.scale[frame - 1])
    )
    way = [before + share * (after - before) for share in np.linspace(0.0, 1.0, 65)]
    found = [tracker.solve([place]).pose.channels for place in way]
    steps = np.sort([np.abs(b - a).max() for a, b in pairwise(found)])
    return float(steps[-1]), float(steps[-2])


def test_a_pose_that_falls_between_frames_is_told_although_its_step_is_not_out_of_proportion() -> None:
    problem, poses = reaching([0.76, 0.38, -0.49], ((-0.69, -1.08), (-1.28, 1.64)), 12)
    assert solve_sequence(problem, poses).branches == (2,)
    fall, other = largest_parts(problem, poses, 2)
    assert fall > 0.2 > 0.05 > other


def test_a_pose_that_only_turns_fast_is_not_told() -> None:
    problem, poses = reaching([-0.14, 0.52, 0.28], ((1.47, -1.54), (-1.16, -0.69)), 11)
    assert solve_sequence(problem, poses).branches == ()
    largest, _ = largest_parts(problem, poses, 7)
    assert largest < 0.1

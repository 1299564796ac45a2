# SPDX-License-Identifier: GPL-3.0-or-later
"""A tracker gives what `solve` gives, from one step of the targets to the next."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from blender_ik_addon.core import (
    IKError,
    MatchOrientation,
    Pose,
    Problem,
    ReachPoint,
    SolverOptions,
    StayNear,
    Tracker,
    forward_kinematics,
    solve,
)
from blender_ik_addon.core.arrays import FloatArray
from tests.core.builders import upper_body


def figure(*, near: bool = True) -> Problem:
    """Hands, one of them with its orientation; `near`: and the rest of the body near where it is."""
    skeleton = upper_body(limit=1.2)
    rest = forward_kinematics(skeleton, Pose.rest(skeleton))
    tasks = (
        ReachPoint(joint="hand.L", target=rest.point("hand.L")),
        ReachPoint(joint="head", target=rest.point("head"), weight=0.0),
        MatchOrientation(joint="hand.R", target=np.eye(3), axes=(True, True, False)),
        StayNear(channels=Pose.rest(skeleton).channels, priority=1),
    )
    return Problem(skeleton, tasks if near else tasks[:-1])


def way(problem: Problem, frames: int) -> list[list[FloatArray]]:
    """Targets of the tasks that have a weight, for some frames."""
    place = problem.weighty_tasks[0].target  # type: ignore[attr-defined]
    rest = Pose.rest(problem.skeleton).channels
    targets: list[list[FloatArray]] = []
    for frame in range(frames):
        turn = 0.05 * frame
        cosine, sine = np.cos(turn), np.sin(turn)
        targets.append(
            [
                place + frame * np.array([0.02, 0.0, 0.01]),
                np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]]),
                rest + 0.001 * frame,
            ]
        )
    return targets


@pytest.mark.parametrize("preferred", [True, False])
def test_it_gives_what_solve_gives(preferred: bool) -> None:
    problem = figure()
    pose = Pose.rest(problem.skeleton)
    options = SolverOptions(redundancy="preferred" if preferred else "start", restarts=2)
    tracker = Tracker(problem, pose, options)
    for targets in way(problem, 2):
        moved = tuple(task.moved(target) for task, target in zip(problem.weighty_tasks, targets, strict=True))
        alone = solve(Problem(problem.skeleton, moved), pose, options)
        found = tracker.solve(targets)
        assert found.message == alone.message
        # The tracker stays at the minimum next to the pose, a solve may come to it from elsewhere.
        assert_allclose(found.pose.channels, alone.pose.channels, atol=options.step_tolerance)
        assert [error.name for error in found.errors] == [error.name for error in alone.errors]
        assert_allclose(
            [e.error for e in found.errors], [e.error for e in alone.errors], atol=options.step_tolerance
        )
        assert tracker.pose is found.pose
        pose = found.pose


def test_it_explains_what_the_targets_of_now_miss() -> None:
    problem = figure()
    tracker = Tracker(problem, Pose.rest(problem.skeleton), restarts=2)
    targets = way(problem, 1)[0]
    targets[2] = np.full_like(targets[2], 0.5)
    solution = tracker.solve(targets)
    asked = Problem(
        problem.skeleton,
        tuple(task.moved(target) for task, target in zip(problem.weighty_tasks, targets, strict=True)),
    )
    alone = solve(asked, Pose.rest(problem.skeleton), restarts=2)
    assert solution.reached and not solution.errors[2].reached  # what is only preferred is no target
    assert [error.note for error in solution.errors] == [error.note for error in alone.errors]


@pytest.mark.parametrize(("preferred", "near"), [(True, True), (False, False)])
def test_after_a_restart_it_gives_what_solve_gives_from_the_first_pose(preferred: bool, near: bool) -> None:
    problem = figure(near=near)
    outside = np.array(Pose.rest(problem.skeleton).channels)
    outside[3, 4] = 2.0  # beyond its limit, so that it is not where a solve begins
    for pose in (Pose.rest(problem.skeleton), Pose.from_channels(outside)):
        tracker = Tracker(problem, pose, redundancy="preferred" if preferred else "start", restarts=2)
        for far, *rest in way(problem, 2)[1:]:
            targets = [far, *rest][: len(problem.weighty_tasks)]
            pairs = zip(problem.weighty_tasks, targets, strict=True)
            alone = solve(
                Problem(problem.skeleton, tuple(task.moved(target) for task, target in pairs)),
                pose,
                redundancy="preferred" if preferred else "start",
                restarts=2,
            )
            tracker.restart()
            assert tracker.pose is pose
            found = tracker.solve(targets)
            assert found.message == alone.message
            assert_array_equal(found.pose.channels, alone.pose.channels)


def test_targets_must_be_as_many_as_tasks_and_of_one_frame() -> None:
    problem = figure()
    rest = Pose.rest(problem.skeleton)
    with pytest.raises(IKError, match="2 targets for 3 tasks"):
        Tracker(problem, rest).solve(way(problem, 1)[0][:2])
    many = Problem(problem.skeleton, (ReachPoint(joint="head", target=np.zeros((4, 3))),))
    with pytest.raises(IKError, match="one frame at a time"):
        Tracker(many, rest)
    with pytest.raises(IKError, match="leading axes"):
        Tracker(problem, rest[None])

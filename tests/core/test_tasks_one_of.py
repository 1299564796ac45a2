# SPDX-License-Identifier: GPL-3.0-or-later
"""Choices: one of several goals is enough."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks.motions import joint_steps
from blender_ik_addon.core import (
    AimAt,
    IKError,
    MatchOrientation,
    OneOf,
    OnPlane,
    Pose,
    Problem,
    ReachPoint,
    Task,
    Tracker,
    forward_kinematics,
    solve,
    solve_each,
    solve_sequence,
)
from blender_ik_addon.core.problem.options import Redundancy
from blender_ik_addon.core.problem.system import assemble
from tests.core.builders import Array, body, humanoid, planar, planar_pose, tip

CHAIN = planar(3)
"""Three links of 1 m from the origin, along y at rest; they reach 3 m."""
REST = Pose.rest(CHAIN)
BENT = planar_pose(0.3, -0.9, -0.6)


def place(x: float, y: float, name: str = "", priority: int = 0) -> ReachPoint:
    return ReachPoint(
        joint="joint.2", point=tip(), target=np.array([x, y, 0.0]), name=name, priority=priority
    )


def end(pose: Pose) -> Array:
    return forward_kinematics(CHAIN, pose).point("joint.2", tip())


def test_the_nearest_is_met_and_named() -> None:
    for first, second in (
        (place(0.5, 2.0, "a"), place(-2.0, 0.5, "b")),
        (place(-2.0, 0.5, "b"), place(0.5, 2.0, "a")),
    ):
        solution = solve(Problem(CHAIN, (OneOf(alternatives=(first, second)),)), BENT)
        assert solution.reached
        assert_allclose(end(solution.pose), [0.5, 2.0, 0.0], atol=1e-4)
        assert solution.errors[0].taken == "a"
        assert solution.errors[0].name == f"one of {first.name}, {second.name}"


def test_where_the_nearest_is_out_of_reach_another_is_met() -> None:
    near, other = place(0.2, 3.3, "near"), place(-2.0, 0.5, "other")
    solution = solve(Problem(CHAIN, (OneOf(alternatives=(near, other)),)), REST)
    assert solution.reached and solution.errors[0].taken == "other"
    assert_allclose(end(solution.pose), other.target, atol=1e-4)


def test_what_matters_less_decides_between_goals_that_can_be_met() -> None:
    choice = OneOf(alternatives=(place(0.5, 2.0, "a"), place(-2.0, 0.5, "b")))
    below = place(-2.0, 0.5, priority=1)
    solution = solve(Problem(CHAIN, (choice, below)), BENT)
    assert solution.reached and solution.errors[0].taken == "b"


def test_what_matters_less_does_not_decide_how_far_a_goal_is_missed() -> None:
    # Both are out of reach, the second by less, but by less than the margin.
    choice = OneOf(alternatives=(place(0.0, 3.5, "a"), place(-3.4, 0.0, "b")), margin=0.2)
    alone = solve(Problem(CHAIN, (choice,)), REST, restarts=2)
    below = solve(Problem(CHAIN, (choice, place(-3.4, 0.0, priority=1))), REST, restarts=2)
    for solution in (alone, below):
        assert solution.errors[0].taken == "a"
        assert_allclose(solution.errors[0].error, 0.5, atol=1e-4)
    assert "beyond the longest reach" in alone.errors[0].note
    # Nor does it win by what lies below where it is missed by more.
    worse = OneOf(alternatives=(place(0.0, 3.4, "a"), place(-3.5, 0.0, "b")), margin=0.01)
    assert (
        solve(Problem(CHAIN, (worse, place(-3.5, 0.0, priority=1))), REST, restarts=2).errors[0].taken == "a"
    )
    # By more than the margin: then it is taken, whatever lies below.
    eager = replace(choice, margin=0.01)
    taken = solve(Problem(CHAIN, (eager, place(0.0, 3.5, priority=1))), REST, restarts=2)
    assert taken.errors[0].taken == "b"
    assert_allclose(taken.errors[0].error, 0.4, atol=1e-3)


@pytest.mark.parametrize(("own", "other"), [(0, 0), (0, 1), (1, 0)])
def test_what_is_missed_elsewhere_does_not_keep_a_goal_from_being_met(own: int, other: int) -> None:
    """Another one was taken only where everything was reached with it, or the level fell by the margin."""
    skeleton = body(limit=1.5)
    free = np.array(skeleton.free)
    free[[skeleton.index(name) for name in ("hips", "chest", "neck", "head")]] = False
    skeleton = replace(skeleton, free=free)
    hand, shoulder, left = (
        forward_kinematics(skeleton, Pose.rest(skeleton)).point(name)
        for name in ("hand.R", "upper_arm.R", "hand.L")
    )
    arm = hand - shoulder
    near = ReachPoint("hand.R", hand + 0.12 * arm, name="near")
    met = ReachPoint("hand.R", shoulder + 0.8 * np.linalg.norm(arm) * np.array([-0.6, -0.8, 0.0]), name="met")
    choice = OneOf((near, met), priority=own, margin=0.2)
    elsewhere = ReachPoint("hand.L", left + np.array([0.1, 0.0, 0.0]), priority=other)
    solution = solve(Problem(skeleton, (choice, elsewhere)), Pose.rest(skeleton))
    assert solution.errors[0].taken == "met" and solution.errors[0].reached
    assert not solution.errors[1].reached


def test_weights_do_not_count_in_how_much_nearer_a_goal_is() -> None:
    # By 0.4 m, more than the margin of 0.3 m, of which the level sees a tenth.
    choice = OneOf(alternatives=(place(0.0, 3.5, "a"), place(-3.1, 0.0, "b")), weight=0.1)
    root = ReachPoint("joint.0", np.zeros(3))
    assert solve(Problem(CHAIN, (choice, root)), REST, restarts=2).errors[0].taken == "b"


def on_a_line() -> Problem:
    """A hand on a line. On the way to the first of two goals it comes nearer to the second."""
    line = ReachPoint("joint.2", np.array([1.0, 0.0, 0.0]), point=tip(), axes=(True, False, False))
    choice = OneOf((place(0.5, 2.9, "a"), place(1.1, 2.5, "b")), margin=0.5, priority=1)
    return Problem(CHAIN, (line, choice))


def test_the_goal_that_the_pose_is_nearest_to_is_told_and_the_pose_stays() -> None:
    """Solves told the one with which they had begun, and went on to the other when they were repeated."""
    # The hand is on a line. On the way to the first goal it comes nearer to the second.
    line = ReachPoint("joint.2", np.array([1.0, 0.0, 0.0]), point=tip(), axes=(True, False, False))
    choice = OneOf((place(0.5, 2.9, "a"), place(1.1, 2.5, "b")), margin=0.5, priority=1)
    problem = Problem(CHAIN, (line, choice))
    tracker, solution = Tracker(problem, REST), solve(problem, REST)
    each = solve_each(problem, Pose.rest(CHAIN, (1,))).frame(0)
    for found in (solution, each, tracker.solve(), tracker.solve(), solve(problem, solution.pose)):
        assert found.errors[1].taken == "b"
        assert_allclose(found.errors[1].error, 0.1, atol=1e-4)
        assert_allclose(end(found.pose), [1.0, 2.5, 0.0], atol=1e-4)


def test_alternatives_of_several_kinds() -> None:
    level = OnPlane(
        joint="joint.2",
        point=tip(),
        origin=np.array([0.0, 1.0, 0.0]),
        normal=np.array([0.0, -1.0, 0.0]),
        side="ABOVE",
    )
    for low, expected in (
        (place(0.0, -0.5, priority=1), "plane of joint.2"),
        (place(1.5, 2.0, priority=1), "up"),
    ):
        choice = OneOf(alternatives=(place(1.5, 2.0, "up"), level))
        solution = solve(Problem(CHAIN, (choice, low)), BENT)
        assert solution.reached and solution.errors[0].taken == expected
    aims = (
        AimAt(joint="joint.2", target=np.array([9.0, 0.0, 0.0])),
        MatchOrientation(joint="joint.2", target=np.diag([-1.0, -1.0, 1.0])),
    )
    solution = solve(Problem(CHAIN, (OneOf(alternatives=aims),)), BENT)
    assert solution.reached and solution.errors[0].angular and solution.errors[0].taken == "aim of joint.2"


def passing(frames: int = 24) -> tuple[ReachPoint, ReachPoint]:
    """A target that stands in reach, and one that comes from out of reach, passes, and goes."""
    way = np.linspace(-1.0, 1.0, frames)
    moving = np.stack([2.0 * np.ones(frames), 1.0 + 0.0 * way, np.zeros(frames)], axis=1)
    leaving = np.stack([np.zeros(frames), 2.6 + 0.8 * (way + 1.0), np.zeros(frames)], axis=1)
    return replace(place(0.0, 0.0, "standing"), target=moving), replace(
        place(0.0, 0.0, "leaving"), target=leaving
    )


def test_a_motion_keeps_to_a_goal_until_it_is_lost() -> None:
    standing, leaving = passing()
    choice = OneOf(alternatives=(standing, leaving))
    poses = Pose.from_channels(np.zeros((24, 3, 6)))
    solution = solve_sequence(Problem(CHAIN, (choice,)), poses, smoothness=0.0)
    assert solution.reached
    places = end(solution.pose)
    at_leaving = np.linalg.norm(places - leaving.target, axis=1) < 1e-3
    at_standing = np.linalg.norm(places - standing.target, axis=1) < 1e-3
    in_reach = leaving.target[:, 1] < 3.0
    np.testing.assert_array_equal(at_leaving, in_reach)
    np.testing.assert_array_equal(at_standing, ~in_reach)


def test_frame_by_frame_a_tracker_does_the_same() -> None:
    standing, leaving = passing()
    choice = OneOf(alternatives=(standing.at_frame(0), leaving.at_frame(0)))
    tracker = Tracker(Problem(CHAIN, (choice,)), REST)
    taken: list[str] = []
    for frame in range(24):
        solution = tracker.solve([np.stack([standing.target[frame], leaving.target[frame]])])
        assert solution.reached
        taken.append(solution.errors[0].taken)
    assert taken == ["leaving" if y < 3.0 else "standing" for y in leaving.target[:, 1]]


@pytest.mark.parametrize(("margin", "expected"), [(0.3, "moving"), (0.01, "standing")])
def test_what_comes_near_takes_no_goal_away_within_the_margin(margin: float, expected: str) -> None:
    # The first has moved on by 0.2 m; the second stands where it was, but for 0.05 m.
    moving = replace(place(0.0, 0.0, "moving"), target=np.array([[0.5, 2.0, 0.0], [0.5, 1.8, 0.0]]))
    standing = place(0.45, 2.0, "standing")
    choice = OneOf(alternatives=(moving, standing), margin=margin)
    poses = Pose.from_channels(np.stack([BENT.channels] * 2))
    solution = solve_sequence(Problem(CHAIN, (choice,)), poses, smoothness=0.0)
    assert solution.reached
    wanted = {"moving": moving.target[1], "standing": standing.target}[expected]
    assert_allclose(end(solution.pose), np.stack([moving.target[0], wanted]), atol=1e-4)
    tracker = Tracker(Problem(CHAIN, (choice.at_frame(0),)), BENT)
    for frame in (0, 1):
        taken = tracker.solve([np.stack([moving.target[frame], standing.target])]).errors[0].taken
    assert taken == expected
    tracker.restart()  # and nothing is taken yet
    afresh = solve(Problem(CHAIN, (replace(choice, alternatives=(moving.at_frame(1), standing)),)), BENT)
    again = tracker.solve([np.stack([moving.target[1], standing.target])])
    assert again.errors[0].taken == afresh.errors[0].taken == "standing"


def crossing(frames: int) -> tuple[ReachPoint, ReachPoint]:
    """Two targets that cross; the second goes out of reach."""
    way, zero = np.linspace(-1.0, 1.0, frames), np.zeros(frames)
    first, second = (
        replace(place(0.0, 0.0, name), target=np.stack([x, y, zero], axis=1))
        for name, x, y in (("one", way, 2.2 + zero), ("other", -way, 2.2 + 1.2 * np.maximum(way, 0.0)))
    )
    return first, second


@pytest.mark.parametrize("method", ["PRIORITY", "DLS"])
@pytest.mark.parametrize("solve_frames", [solve_each, solve_sequence])
def test_frames_report_the_goal_that_they_meet(method: str, solve_frames: Callable[..., Any]) -> None:
    """Errors and labels were those of the first one where frames are solved one by one."""
    choice = OneOf(alternatives=(place(9.0, 9.0, "far"), place(1.0, 2.0, "near")))
    poses = Pose.from_channels(np.stack([BENT.channels] * 2))
    solution = solve_frames(Problem(CHAIN, (choice,)), poses, method=method)
    assert solution.reached and solution.taken == (("near",), ("near",))
    assert_allclose(end(solution.pose), np.array([[1.0, 2.0, 0.0]] * 2), atol=2e-4)


def test_smoothness_spreads_a_change_of_goals_over_the_frames_beside_it() -> None:
    # One goes out of reach at the frame after which the other comes into reach, elsewhere.
    late = np.arange(26) > 12
    goals = [
        replace(place(0.0, 0.0, name), target=np.stack([np.full(26, x), 2.2 + 1.2 * beyond, 0.0 * late], 1))
        for name, x, beyond in (("one", -1.0, late), ("other", 1.0, ~late))
    ]
    problem = Problem(CHAIN, (OneOf(alternatives=tuple(goals), margin=0.1),))
    poses = Pose.from_channels(np.stack([BENT.channels] * 26))
    alone, smooth = (solve_sequence(problem, poses, smoothness=seconds, restarts=0) for seconds in (0.0, 0.2))
    turns = [np.abs(np.diff(found.pose.channels, axis=0)).max(axis=(1, 2)) for found in (alone, smooth)]
    ways = [np.linalg.norm(end(alone.pose) - goal.target, axis=1) for goal in problem.tasks[0].alternatives]
    change = int(np.flatnonzero(np.diff(np.argmin(ways, axis=0)))[0])
    assert alone.reached and turns[1].max() < 0.6 * turns[0][change]
    beside = np.abs(np.arange(26) - (change + 0.5)) < 0.2 * 24 + 1.0
    assert smooth.errors[~beside].max() < 1e-4  # nowhere else does the hand leave its goal
    assert not smooth.reached


def test_a_motion_takes_the_goal_that_it_can_keep_to() -> None:
    """Frame by frame it followed the nearer one until that went out of reach, and jumped to the other."""
    standing, leaving = passing()
    for ahead in (1, -1):
        goals = [replace(goal, target=goal.target[::ahead]) for goal in (leaving, standing)]
        poses = Pose.from_channels(np.zeros((24, 3, 6)))
        solution = solve_sequence(Problem(CHAIN, (OneOf(alternatives=tuple(goals)),)), poses)
        assert solution.reached and not solution.pops
        assert_allclose(end(solution.pose), standing.target[::ahead], atol=1e-4)


@pytest.mark.parametrize("goals", [2, 3])
def test_what_hangs_on_each_other_is_chosen_together(goals: int) -> None:
    """The middle and the end of a chain can both be where one pose has them, or both where another has."""
    frames = 16
    bend = 0.5 + 0.4 * np.sin(np.linspace(0.0, np.pi, frames))
    bent = [planar_pose(*turns) for turns in ((0.9, -0.8, 0.6), (-1.2, 1.1, -0.4), (0.1, 1.8, -1.1))]
    ways = [
        forward_kinematics(CHAIN, Pose.from_channels(pose.channels * bend[:, None, None])) for pose in bent
    ]
    joints = ("joint.1", "joint.2")
    choices = [
        # The second one tells its goals the other way round.
        OneOf(alternatives=tuple(ReachPoint(joint, way.point(joint, tip()), point=tip()) for way in some))
        for joint, some in zip(joints, (ways[:goals], ways[:goals][::-1]), strict=True)
    ]
    solution = solve_sequence(Problem(CHAIN, choices), Pose.from_channels(np.zeros((frames, 3, 6))))
    assert solution.reached and not solution.pops


@pytest.mark.parametrize("seed", [2, 7])
def test_hands_and_head_choose_as_one_body(seed: int) -> None:
    """Frame by frame, and one choice after the other, they took what only another motion can keep to."""
    rng, frames, skeleton = np.random.default_rng(seed), 24, humanoid(limit=1.2)
    channels = np.zeros((frames, len(skeleton), 6))
    speeds, phases = rng.uniform(0.5, 4.0, (len(skeleton), 3)), rng.uniform(0.0, 6.0, (len(skeleton), 3))
    channels[..., 3:] = 0.5 * np.sin(np.arange(frames)[:, None, None] / 24.0 * speeds + phases)
    known = forward_kinematics(skeleton, Pose.from_channels(channels))
    tasks: list[Task] = [ReachPoint(foot, known.point(foot)) for foot in ("foot.L", "foot.R")]
    for name in ("hand.L", "hand.R", "head"):
        way = known.point(name)
        tasks.append(OneOf((ReachPoint(name, way), ReachPoint(name, way[::-1] + 0.1))))
    solution = solve_sequence(Problem(skeleton, tasks), Pose.rest(skeleton, (frames,)))
    assert solution.reached and not solution.pops
    turns, own = (
        joint_steps(skeleton, one.matrices).max()
        for one in (forward_kinematics(skeleton, solution.pose), known)
    )
    assert turns <= own


@pytest.mark.parametrize(("margin", "redundancy"), [(0.0, "preferred"), (0.1, "start")])
def test_a_motion_changes_over_at_the_frame_at_which_a_tracker_does(
    margin: float, redundancy: Redundancy
) -> None:
    """From coarse to fine it was a frame far ahead that chose, and those before it followed."""
    first, second = crossing(16)
    choice = OneOf(alternatives=(first, second), margin=margin)
    poses = Pose.from_channels(np.stack([BENT.channels] * 16))
    motion = solve_sequence(Problem(CHAIN, (choice,)), poses, redundancy=redundancy, smoothness=0.0)
    assert motion.reached
    tracker = Tracker(Problem(CHAIN, (choice.at_frame(0),)), BENT, redundancy=redundancy)
    for frame, place_now in enumerate(end(motion.pose)):
        solution = tracker.solve([np.stack([first.target[frame], second.target[frame]])])
        assert_allclose(place_now, end(solution.pose), atol=1e-3, err_msg=f"frame {frame}")


def test_the_margin_keeps_what_was_taken_before() -> None:
    problem = Problem(CHAIN, (OneOf(alternatives=(place(0.4, 2.9), place(-0.5, 2.9)), margin=0.2),))
    system = assemble(problem, Pose.rest(CHAIN, (1,)))
    posed = system.place(np.zeros((1, system.size)))
    second = np.array([[1]])
    assert system.nearest(posed).tolist() == [[0]]
    assert system.nearest(posed, second).tolist() == [[1]]
    narrow = Problem(CHAIN, (OneOf(alternatives=(place(0.4, 2.9), place(-0.5, 2.9)), margin=0.01),))
    system = assemble(narrow, Pose.rest(CHAIN, (1,)))
    assert system.nearest(system.place(np.zeros((1, system.size))), second).tolist() == [[0]]


def test_what_is_no_choice_is_refused() -> None:
    with pytest.raises(IKError, match=r"wanted at least two alternatives, got 1"):
        OneOf(alternatives=(place(0.0, 1.0),))
    with pytest.raises(IKError, match=r"a and aim of joint.2 cannot be compared: one is an angle"):
        OneOf(alternatives=(place(0.0, 1.0, "a"), AimAt(joint="joint.2", target=np.ones(3))))
    nested = OneOf(alternatives=(place(0.0, 1.0), place(1.0, 1.0)))
    with pytest.raises(IKError, match=r"OneOf cannot be an alternative"):
        OneOf(alternatives=(nested, place(0.0, 1.0)))
    with pytest.raises(IKError, match=r"margin must be finite and not negative, got -1"):
        replace(nested, margin=-1.0)
    with pytest.raises(IKError, match=r"got 1 targets for 2 alternatives"):
        nested.moved(np.zeros((1, 3)))

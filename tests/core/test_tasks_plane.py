# SPDX-License-Identifier: GPL-3.0-or-later
"""Planes: points on them, and points that may be above but not below."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from blender_ik_addon.core import (
    METHODS,
    IKError,
    OnPlane,
    Pose,
    Problem,
    ReachPoint,
    Skeleton,
    StayNear,
    Tracker,
    forward_kinematics,
    solve,
    solve_sequence,
)
from blender_ik_addon.core.problem.options import Redundancy
from tests.core.builders import Array, chain, figure, humanoid, planar, planar_pose, random_pose, tip, tree

UP = np.array([0.0, 0.0, 1.0])
FEET = ("foot.L", "foot.R")
SOLE = 0.08
"""Height of the feet at rest [m]."""


def floor(side: str = "ABOVE", priority: int = 0, height: Array | float = 0.0) -> list[OnPlane]:
    """A level floor for both feet."""
    origin = np.multiply.outer(np.asarray(height), UP)
    return [
        OnPlane(joint=foot, origin=origin, normal=UP, offset=SOLE, side=side, priority=priority)
        for foot in FEET
    ]


def heights(skeleton: Skeleton, pose: Pose) -> Array:
    """Of the soles over zero, (..., 2) [m]."""
    posed = forward_kinematics(skeleton, pose)
    return np.stack([posed.point(foot)[..., 2] - SOLE for foot in FEET], axis=-1)


def hand(x: float, y: float, z: float, priority: int = 0) -> ReachPoint:
    return ReachPoint(joint="hand.L", target=np.array([x, y, z]), priority=priority)


def test_a_point_goes_to_a_plane_in_any_position(rng: np.random.Generator) -> None:
    skeleton = tree(rng, 8, deep=True, settings=True)
    pose = random_pose(rng, skeleton)
    origin, normal, point = rng.normal(size=(3, 3)) * 0.3
    task = OnPlane(joint="joint.7", origin=origin, normal=normal, point=point, offset=0.05)
    solution = solve(Problem(skeleton, (task,)), pose)
    assert solution.reached
    place = forward_kinematics(skeleton, solution.pose).point("joint.7", point)
    assert_allclose((place - origin) @ normal / np.linalg.norm(normal), 0.05, atol=1e-5)


def test_a_hand_that_pulls_the_body_down_leaves_the_feet_on_the_floor() -> None:
    skeleton = humanoid()
    rest, low = Pose.rest(skeleton), hand(0.3, -0.3, 0.3)
    free = solve(Problem(skeleton, (low,)), rest)
    assert (heights(skeleton, free.pose) < -0.05).all()  # without a floor they sink
    on = solve(Problem(skeleton, (*floor("ON"), low)), rest)
    above = solve(Problem(skeleton, (*floor(), low)), rest)
    assert above.reached
    assert_allclose(heights(skeleton, above.pose), 0.0, atol=1e-6)
    assert_allclose(above.pose.channels, on.pose.channels, atol=1e-5)


def test_feet_above_the_floor_are_free() -> None:
    skeleton = humanoid()
    up = ReachPoint(joint="hips", target=np.array([0.0, 0.0, 1.3]))
    with_floor = solve(Problem(skeleton, (*floor(), up)), Pose.rest(skeleton))
    without = solve(Problem(skeleton, (up,)), Pose.rest(skeleton))
    assert with_floor.reached
    assert_allclose(heights(skeleton, with_floor.pose), 0.3, atol=1e-6)
    assert_allclose(with_floor.pose.channels, without.pose.channels, atol=1e-6)


def test_one_foot_is_held_while_the_other_is_lifted() -> None:
    skeleton = humanoid()
    lifted = ReachPoint(joint="foot.R", target=np.array([-0.1, -0.2, 0.4]))
    low = ReachPoint(joint="hips", target=np.array([0.0, 0.0, 0.6]))
    solution = solve(Problem(skeleton, (*floor(), low, lifted)), Pose.rest(skeleton))
    assert solution.reached
    assert_allclose(heights(skeleton, solution.pose), [0.0, 0.4 - SOLE], atol=2e-5)


def test_held_feet_are_put_back_and_not_blamed_where_only_descents_help() -> None:
    skeleton = humanoid(limit=1.2)
    rest = Pose.rest(skeleton)
    pinned = ReachPoint(joint="foot.L", target=forward_kinematics(skeleton, rest).point("foot.L"))
    deep = hand(0.3, -0.3, -0.4, priority=1)
    above = solve(Problem(skeleton, (*floor(), pinned, deep)), rest, restarts=0)
    assert above.reached
    assert_allclose(heights(skeleton, above.pose), 0.0, atol=1e-5)


@pytest.mark.parametrize("redundancy", ["preferred", "start"])
def test_sunk_feet_come_up_and_no_frame_sinks(redundancy: Redundancy) -> None:
    skeleton = figure("hips", "upper_arm", "forearm", "hand", "thigh", "shin", "foot")
    sunk = Pose.rest(skeleton)
    channels = np.array(sunk.channels)
    channels[0, 2] = -0.3
    down_and_up = np.concatenate([np.linspace(1.3, 0.4, 4), np.linspace(0.4, 1.3, 4)])
    target = np.stack([np.full(8, 0.4), np.full(8, -0.3), down_and_up], axis=1)
    problem = Problem(skeleton, (*floor(), ReachPoint(joint="hand.L", target=target, priority=1)))
    poses = Pose.from_channels(np.broadcast_to(channels, (8, *channels.shape)))
    solution = solve_sequence(problem, poses, redundancy=redundancy, restarts=0)
    assert solution.reached
    # The hand stands still from frame 3 to 4: both frames beside turn by no more than the others do.
    turns = np.abs(np.diff(solution.pose.channels[..., 3:], axis=0)).max((1, 2))
    assert turns.max() < 1.5 * np.median(turns) and turns[3] < 0.01
    assert heights(skeleton, solution.pose).min() > -1e-4
    assert solution.pose.channels.shape == poses.channels.shape


def test_a_floor_never_gives_way_to_what_matters_less() -> None:
    skeleton = planar(3)
    # The chain lies along y; its end may not pass below x = 0.5, and is pulled far below.
    plane = OnPlane(
        joint="joint.2",
        point=tip(),
        origin=np.array([0.5, 0.0, 0.0]),
        normal=np.array([1.0, 0.0, 0.0]),
        side="ABOVE",
    )
    pull = ReachPoint(joint="joint.2", point=tip(), target=np.array([-2.0, 1.0, 0.0]), priority=1)
    solution = solve(Problem(skeleton, (plane, pull)), Pose.rest(skeleton), max_iterations=200)
    assert solution.errors[0].reached
    end = forward_kinematics(skeleton, solution.pose).point("joint.2", tip())
    assert_allclose(end, [0.5, 1.0, 0.0], atol=1e-3)
    note = solution.errors[1].note
    assert "level 0 takes precedence: plane of joint.2" in note and "slack" not in note
    assert not any("slack" in joint for joint, _ in solution.limited)


def test_in_one_level_floor_and_pull_share_the_error() -> None:
    skeleton = planar(2)
    plane = OnPlane(
        joint="joint.1",
        point=tip(),
        origin=np.array([0.5, 0.0, 0.0]),
        normal=np.array([1.0, 0.0, 0.0]),
        side="ABOVE",
    )
    pull = ReachPoint(joint="joint.1", point=tip(), target=np.array([-0.5, 1.0, 0.0]))
    solution = solve(Problem(skeleton, (plane, pull)), Pose.rest(skeleton), max_iterations=200)
    assert_allclose([error.error for error in solution.errors], 0.5, atol=1e-3)
    assert "shares level 0 with position of joint.1" in solution.errors[0].note


@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_a_point_above_its_plane(method: str) -> None:
    skeleton = planar(3)
    pose = planar_pose(0.3, -0.9, -0.6)
    pull = ReachPoint(joint="joint.2", point=tip(), target=np.array([1.2, 0.4, 0.0]))
    wall = OnPlane(
        joint="joint.1",
        point=tip(),
        origin=np.zeros(3),
        normal=np.array([0.3, 1.0, 0.0]),
        offset=1.6,
        side="ABOVE",
    )
    without = solve(Problem(skeleton, (pull,)), pose, method=method, max_iterations=300)
    middle = forward_kinematics(skeleton, without.pose).point("joint.1", tip())
    assert middle @ wall.normal < 1.55  # the wall is in the way
    solution = solve(Problem(skeleton, (pull, wall)), pose, method=method, max_iterations=300)
    assert solution.reached
    middle = forward_kinematics(skeleton, solution.pose).point("joint.1", tip())
    assert middle @ wall.normal > 1.6 - 1e-4


def test_a_tracker_follows_a_floor_that_moves() -> None:
    skeleton = humanoid()
    problem = Problem(skeleton, (*floor(), hand(0.3, -0.3, 0.3)))
    tracker = Tracker(problem, Pose.rest(skeleton))
    for height in (0.0, 0.1, -0.9):
        ground = np.array([0.0, 0.0, height])
        solution = tracker.solve([ground, ground, np.array([0.3, -0.3, 0.3])])
        assert solution.reached
        expected = solve(
            Problem(skeleton, (*floor(height=height), hand(0.3, -0.3, 0.3))), Pose.rest(skeleton)
        )
        assert_allclose(solution.pose.channels, expected.pose.channels, atol=1e-4)


def test_a_floor_that_moves_under_feet_in_the_air_moves_nothing() -> None:
    skeleton = humanoid()
    up = ReachPoint(joint="hips", target=np.array([0.0, 0.0, 1.3]))
    tracker = Tracker(Problem(skeleton, (*floor(), up)), Pose.rest(skeleton))
    before = tracker.solve([np.zeros(3), np.zeros(3), up.target])
    for height in (-0.5, 0.2, 0.0):
        ground = np.array([0.0, 0.0, height])
        solution = tracker.solve([ground, ground, up.target])
        assert solution.reached
        assert_allclose(solution.pose.channels, before.pose.channels, atol=1e-9)


def test_planes_with_a_frame_axis_and_stored_channels_go_together() -> None:
    skeleton = humanoid()
    rest = Pose.rest(skeleton, (3,))
    heights_of_floor = np.array([-0.5, 0.0, 0.2])
    tasks = (*floor(height=heights_of_floor), StayNear(channels=Pose.rest(skeleton).channels, priority=1))
    solution = solve_sequence(Problem(skeleton, tasks), rest, smoothness=0.0)
    assert solution.pose.channels.shape == rest.channels.shape
    assert_allclose(solution.errors[:, :2], 0.0, atol=1e-4)
    soles = heights(skeleton, solution.pose)
    assert_allclose(soles[0], 0.0, atol=1e-4)  # far above its floor: as it is kept
    assert_allclose(soles[2], 0.2, atol=1e-4)  # lifted by it


def test_a_motion_leaves_stored_channels_that_it_starts_with_for_a_floor_that_has_risen() -> None:
    """The lower level is met at the start: it pulls with all its strength within a hair of where it is."""
    skeleton = humanoid()
    rest = Pose.rest(skeleton, (6,))
    tasks = (*floor(height=0.2), StayNear(channels=Pose.rest(skeleton).channels, priority=1))
    solution = solve_sequence(Problem(skeleton, tasks), rest)
    assert_allclose(solution.errors[:, :2], 0.0, atol=1e-4)
    assert_allclose(heights(skeleton, solution.pose), 0.2, atol=1e-4)


def test_what_is_no_plane_is_refused() -> None:
    with pytest.raises(IKError, match=r"plane of foot.L: normal is zero, it must have a direction"):
        OnPlane(joint="foot.L", origin=np.zeros(3), normal=np.zeros(3))
    with pytest.raises(IKError, match=r"plane of foot.L: side must be one of ON, ABOVE, got 'BELOW'"):
        OnPlane(joint="foot.L", origin=np.zeros(3), normal=UP, side="BELOW")
    with pytest.raises(IKError, match=r"plane of foot.L: offset must be finite, got nan"):
        OnPlane(joint="foot.L", origin=np.zeros(3), normal=UP, offset=np.nan)
    with pytest.raises(IKError, match=r"plane of foot.L: origin has 2 frames, but normal has 3"):
        OnPlane(joint="foot.L", origin=np.zeros((2, 3)), normal=np.tile(UP, (3, 1)))
    with pytest.raises(IKError, match=r"there is no joint 'foot'"):
        Problem(chain(1), (OnPlane(joint="foot", origin=np.zeros(3), normal=UP),))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Poles, distances and balance: what a body does for them, and what they refuse.

Their Jacobians and curvatures are in test_jacobians.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks import trees
from blender_ik_addon.core import (
    Balance,
    IKError,
    KeepDistance,
    PointPole,
    Pose,
    Problem,
    ReachPoint,
    Skeleton,
    Status,
    Task,
    Tracker,
    diagnose,
    forward_kinematics,
    solve,
    solve_sequence,
)
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.problem.system import assemble
from tests.core.builders import humanoid, random_pose

FIGURE = trees.human_tree(floating=True).skeleton()
ARM = Skeleton.build(
    ["upper", "fore", "hand"],
    [None, "upper", "fore"],
    offsets=[[0, 0, 0], [0, 1, 0], [0, 1, 0]],
    orders="ZYX",
)
HELD = np.array([0.2, 1.6, 0.0])
REACH = np.array([0.35, -0.2, -0.3])


def bent() -> Pose:
    """The arm with its elbow towards +x."""
    channels = np.zeros((3, 6))
    channels[0, 5], channels[1, 5] = -0.6, 1.2
    return Pose.from_channels(channels)


def elbow(pose: Pose) -> FloatArray:
    """Way of the elbow from the axis of the arm, (3,)."""
    posed = forward_kinematics(ARM, pose)
    root, middle, tip = (posed.point(joint) for joint in ARM.names)
    axis = (tip - root) / np.linalg.norm(tip - root)
    return (middle - root) - axis * (axis @ (middle - root))


def pole(target: FloatArray, **fields: object) -> PointPole:
    return PointPole(root="upper", joint="fore", tip="hand", target=target, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("wish", [True, False])
@pytest.mark.parametrize("angle", [0.3, 1.5, 3.0, -2.8, np.pi])
def test_the_elbow_bends_towards_its_pole_and_the_hand_stays(angle: float, wish: bool) -> None:
    axis = HELD / np.linalg.norm(HELD)
    start = elbow(bent())
    across = np.cross(axis, start)
    wanted = np.cos(angle) * start + np.sin(angle) * across
    target = 0.3 * HELD + 2.0 * wanted
    problem = Problem(ARM, (ReachPoint(joint="hand", target=HELD), pole(target)))
    solution = solve(problem, bent(), redundancy="preferred" if wish else "start", max_iterations=200)
    assert solution.reached
    bend = elbow(solution.pose)
    assert np.linalg.norm(bend) > 0.3  # the hand is too near for a straight arm
    towards = target - axis * (axis @ target)
    cosine = bend @ towards / np.linalg.norm(bend) / np.linalg.norm(towards)
    assert cosine > np.cos(2e-3)


def test_a_straight_limb_owes_its_pole_nothing() -> None:
    problem = Problem(ARM, (pole(np.array([0.0, 1.0, -3.0])),))
    solution = solve(problem, Pose.rest(ARM))
    assert solution.reached and solution.errors[0].error == 0.0


@pytest.mark.parametrize("side", [0.5, 2.0, 3.0])
@pytest.mark.parametrize("straight", ["limb", "pole"])
def test_a_pole_has_less_to_say_where_sides_mean_little_and_nothing_turns_about(
    straight: str, side: float
) -> None:
    """The limb gets straight, or its axis passes the pole: the residual goes to nothing, and slopes go on."""
    for angle in 10.0 ** np.arange(-1.0, -7.0, -1.0):
        slopes: list[FloatArray] = []
        for way in (angle, -angle):
            bend, off = (way, 1.0) if straight == "limb" else (1.0, way)
            channels = np.zeros((3, 6))
            channels[0, 5], channels[1, 5] = -bend, 2.0 * bend
            pose = Pose.from_channels(channels)
            away = 2.0 * off * np.array([np.cos(side), 0.0, np.sin(side)])
            system = assemble(Problem(ARM, (pole(np.array([0.0, 2.0, 0.0]) + away),)), pose[None])
            posed = system.place(system.mechanism.values(pose[None]))
            assert abs(system.residual(posed)).max() <= min(2.0, 25.0 * angle)
            assert abs(system.curvature(posed, np.ones((1, 2)))).max() < 500.0
            slopes.append(system.jacobian(posed)[0])
        assert 1.0 < abs(slopes[0]).max() < 50.0
        assert_allclose(slopes[0], slopes[1], atol=500.0 * angle)


def test_a_diagnosis_counts_the_side_of_a_pole_only_where_it_holds_the_limb() -> None:
    beside = elbow(bent())
    for side, rows in ((1.0, 1), (-1.0, 2)):
        problem = Problem(ARM, (pole(0.5 * HELD + 3.0 * side * beside),))
        (level,) = diagnose(problem, bent()).levels
        assert (level.rows, level.rank) == (rows, rows)


def test_limbs_that_could_get_straight_or_swing_about_come_to_rest() -> None:
    """They crept towards where they are straight, where their poles had no slope."""
    limbs = [("upper_arm.L", "forearm.L", "hand.L"), ("thigh.R", "shin.R", "foot.R")]
    skeleton = humanoid(limit=1.0)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        there = forward_kinematics(skeleton, random_pose(rng, skeleton, only_free=True, angle=0.9))
        tasks: list[Task] = []
        for root, middle, tip in limbs:
            tasks.append(ReachPoint(joint=tip, target=there.point(tip)))
            away = there.point(middle) + 0.4 * rng.normal(size=3)
            tasks.append(PointPole(root=root, joint=middle, tip=tip, target=away, priority=1))
        problem = Problem(skeleton, tasks)
        solution = solve(problem, Pose.rest(skeleton))
        again = solve(problem, solution.pose, restarts=0)
        assert solution.reached and solution.status is not Status.MAX_ITERATIONS, (seed, solution.message)
        assert_allclose(again.pose.channels, solution.pose.channels, atol=1e-4)


def test_hands_keep_their_distance_wherever_one_of_them_goes() -> None:
    rest = Pose.rest(FIGURE)
    place = forward_kinematics(FIGURE, rest).point("hand_l")
    hold = KeepDistance(joint="hand_l", other="hand_r", distance=0.3, target=np.array([0.0, 0.05, 0.0]))
    reach = ReachPoint(joint="hand_l", target=place + np.array([0.4, -0.4, 0.1]))
    solution = solve(Problem(FIGURE, (reach, hold)), rest, redundancy="start")
    posed = forward_kinematics(FIGURE, solution.pose)
    apart = posed.point("hand_l") - posed.point("hand_r", np.array([0.0, 0.05, 0.0]))
    assert solution.reached
    assert_allclose(np.linalg.norm(apart), 0.3, atol=1e-4)


def test_hands_that_are_to_be_at_one_place_meet_and_rest() -> None:
    """The distance has no slope where it is 0: bodies crept, and moved by degrees when solved again."""
    rest = Pose.rest(FIGURE)
    place = forward_kinematics(FIGURE, rest).point("hand_l")
    hold = KeepDistance(joint="hand_l", other="hand_r", distance=0.0)
    for seed in range(8):
        away = np.random.default_rng(seed).normal(size=3)
        problem = Problem(FIGURE, (hold, ReachPoint(joint="hand_l", target=place + 0.15 * away, priority=1)))
        solution = solve(problem, rest)
        posed = forward_kinematics(FIGURE, solution.pose)
        assert solution.status is not Status.MAX_ITERATIONS
        assert_allclose(posed.point("hand_l"), posed.point("hand_r"), atol=1e-5)
        assert_allclose(solve(problem, solution.pose).pose.channels, solution.pose.channels, atol=1e-4)


def test_a_tracker_brings_hands_together() -> None:
    tracker = Tracker(
        Problem(FIGURE, (KeepDistance(joint="hand_l", other="hand_r", distance=0.1),)), Pose.rest(FIGURE)
    )
    for distance in (0.05, 0.0):
        solution = tracker.solve([np.array(distance)])
        assert solution.status is not Status.MAX_ITERATIONS
    posed = forward_kinematics(FIGURE, solution.pose)
    assert_allclose(posed.point("hand_l"), posed.point("hand_r"), atol=1e-5)
    (level,) = diagnose(
        Problem(FIGURE, (KeepDistance(joint="hand_l", other="hand_r", distance=0.1),)), solution.pose
    ).levels
    assert (level.rows, level.rank) == (1, 1)


def test_a_pole_at_the_root_of_its_limb_asks_for_nothing() -> None:
    place = forward_kinematics(ARM, bent()).point("upper")
    system = assemble(Problem(ARM, (pole(place),)), bent()[None])
    posed = system.place(system.mechanism.values(bent()[None]))
    assert system.errors(posed)[0, 0] == 0.0
    assert abs(system.jacobian(posed)[:, :, system.own]).max() < 50.0


def test_a_distance_that_goes_to_nothing_is_kept_in_each_frame() -> None:
    place, distance = np.array([0.3, 1.0, 0.2]), np.array([0.2, 0.1, 0.0, 0.0])
    hold = KeepDistance(joint="hand", target=place, distance=distance)
    posed = forward_kinematics(ARM, solve_sequence(Problem(ARM, (hold,)), Pose.rest(ARM, (4,))).pose)
    assert_allclose(np.linalg.norm(posed.point("hand") - place, axis=1), distance, atol=1e-5)


def test_a_distance_from_a_place_may_differ_by_frame() -> None:
    hold = KeepDistance(joint="hand", target=np.array([0.0, 0.0, 0.0]), distance=np.array([1.0, 1.5]))
    problem = Problem(ARM, (hold,))
    assert problem.frames == 2
    for frame, wanted in enumerate((1.0, 1.5)):
        solution = solve(Problem(ARM, (hold.at_frame(frame),)), bent(), redundancy="start")
        hand = forward_kinematics(ARM, solution.pose).point("hand")
        assert_allclose(np.linalg.norm(hand), wanted, atol=1e-4)


def test_a_body_that_reaches_far_leans_back_to_keep_its_balance() -> None:
    rest = Pose.rest(FIGURE)
    posed = forward_kinematics(FIGURE, rest)
    masses = np.ones(len(FIGURE))
    over = posed.matrices[:, :3, 3].mean(axis=0)
    tasks: list[Task] = [ReachPoint(joint=foot, target=posed.point(foot)) for foot in ("foot_l", "foot_r")]
    tasks.append(ReachPoint(joint="hand_l", target=posed.point("hand_l") + REACH))
    alone = solve(Problem(FIGURE, tuple(tasks)), rest, redundancy="start")
    tasks.append(Balance(masses=masses, target=over))
    balanced = solve(Problem(FIGURE, tuple(tasks)), rest, redundancy="start")

    def off(pose: Pose) -> float:
        centre = forward_kinematics(FIGURE, pose).matrices[:, :3, 3].mean(axis=0)
        return float(np.linalg.norm((centre - over)[:2]))

    assert alone.reached and balanced.reached
    assert off(alone.pose) > 0.02
    assert off(balanced.pose) <= 1e-4


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "not one after the other": (
        lambda: Problem(ARM, (PointPole(root="fore", joint="upper", tip="hand", target=HELD),)),
        "must follow one another",
    ),
    "pole that is nowhere": (lambda: pole(np.full(3, np.nan)), "not finite"),
    "two points of one joint": (
        lambda: Problem(ARM, (KeepDistance(joint="hand", other="hand", distance=1.0),)),
        "both points are of one joint",
    ),
    "negative distance": (lambda: KeepDistance(joint="hand", distance=-1.0), "at least 0"),
    "no mass": (lambda: Balance(masses=np.zeros(3), target=HELD), "there is no mass"),
    "masses of another skeleton": (
        lambda: Problem(ARM, (Balance(masses=np.ones(5), target=HELD),)),
        "5 masses for 3 joints",
    ),
    "no such joint": (lambda: Problem(ARM, (KeepDistance(joint="foot", distance=1.0),)), "foot"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_is_refused(case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises(IKError, match=message):
        make()

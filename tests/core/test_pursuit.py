# SPDX-License-Identifier: GPL-3.0-or-later
"""A body that goes after moving targets: exact in reach, balanced out of it, and no jumps between."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from blender_ik_addon.core import (
    IKError,
    OneOf,
    Pose,
    Problem,
    ReachPoint,
    Skeleton,
    SolverOptions,
    Task,
    forward_kinematics,
    solve,
)
from blender_ik_addon.core.equilibrium import GROWTH
from blender_ik_addon.core.pursuit import (
    BALANCE_STEPS,
    EXACT_STEPS,
    MOST_LOOKS,
    MOVING_TURN,
    RESTING_TURN,
    SOFTNESS,
    STRENGTH,
    Pursued,
    Pursuit,
)
from blender_ik_addon.core.rotation import matrix_from_euler, rotation_angle
from blender_ik_addon.core.tracking import Tracker

from . import builders

SKELETON = builders.humanoid()
"""Hips free to move, arms out."""
LIMITED = builders.humanoid(limit=0.6)

OPTIONS = SolverOptions(tolerance_position=1e-4, tolerance_rotation=1e-3)

MOST = EXACT_STEPS + BALANCE_STEPS
"""Steps of one movement."""

PRIORITIES = {"foot.L": 0, "foot.R": 0, "hips": 1, "hand.L": 2, "hand.R": 2}

OUTWARD = np.array([1.0, 0.0, 0.0])
"""Where the left arm points."""


def tasks_of(skeleton: Skeleton, priorities: dict[str, int]) -> list[ReachPoint]:
    """Hold joints where they are at rest."""
    posed = forward_kinematics(skeleton, Pose.rest(skeleton))
    return [
        ReachPoint(joint=joint, target=posed.point(joint), priority=priority, name=joint)
        for joint, priority in priorities.items()
    ]


def pursuit(
    skeleton: Skeleton = SKELETON, priorities: dict[str, int] = PRIORITIES
) -> tuple[Pursuit, list[ReachPoint]]:
    tasks = tasks_of(skeleton, priorities)
    return Pursuit(Problem(skeleton, tuple(tasks)), Pose.rest(skeleton), OPTIONS), tasks


def moved(tasks: Sequence[ReachPoint], joint: str, way: Any) -> list[Any]:
    """Targets with that of a joint moved."""
    return [task.target + (np.asarray(way) if task.joint == joint else 0.0) for task in tasks]


def resting(chase: Pursuit, targets: list[Any]) -> Pursued:
    """Follow until the pose stands still."""
    found = chase.follow(targets)
    for _ in range(3 * MOST_LOOKS):
        if found.settled:
            break
        found = chase.follow(targets)
    assert found.settled
    return found


def errors(found: Pursued) -> dict[str, float]:
    return {error.name: error.error for error in found.errors}


def why(found: Pursued, name: str) -> str:
    (explanation,) = [error.why for error in found.errors if error.name == name]
    return "" if explanation is None else explanation.why()


def turn(first: Pose, second: Pose) -> float:
    """Largest change of a channel."""
    return float(np.abs(first.channels - second.channels).max())


def test_in_reach_it_is_the_solver_s_own_answer():
    chase, tasks = pursuit()
    tracker = Tracker(Problem(SKELETON, tuple(tasks)), Pose.rest(SKELETON), OPTIONS)
    for step in range(1, 8):
        targets = moved(tasks, "hand.L", step * np.array([-0.02, -0.03, 0.015]))
        found, wanted = chase.follow(targets), tracker.solve(targets)
        assert found.final and found.settled and wanted.reached
        np.testing.assert_array_equal(found.pose.channels, wanted.pose.channels)
        assert all(error.reached and error.why is None for error in found.errors)


def test_out_of_reach_levels_above_are_held_and_the_rest_is_nearly_what_a_solve_gives():
    chase, tasks = pursuit()
    for step in range(1, 11):
        targets = moved(tasks, "hand.L", 0.04 * step * OUTWARD)
        found = chase.follow(targets)
    found = resting(chase, targets)
    assert found.settled and not found.final
    own = errors(found)
    assert max(own["foot.L"], own["foot.R"], own["hips"]) < 1e-4
    problem = Problem(SKELETON, tuple(t.moved(place) for t, place in zip(tasks, targets, strict=True)))
    strict = solve(problem, found.pose, OPTIONS)
    wanted = {error.name: error.error for error in strict.errors}
    assert wanted["hand.L"] > 0.1
    assert own["hand.L"] == pytest.approx(wanted["hand.L"], rel=0.05)
    assert own["hand.R"] == pytest.approx(wanted["hand.R"], rel=0.2)
    # What the solver would change of a pose at rest, at the end of a movement.
    assert turn(found.pose, strict.pose) < 0.1


@pytest.mark.parametrize("skeleton", [SKELETON, LIMITED], ids=["free", "limits"])
@pytest.mark.parametrize(
    ("joint", "way", "steps"),
    [("hand.L", (0.5, -0.2, 0.1), 40), ("hips", (0.05, 0.0, 0.3), 30), ("foot.L", (0.1, -0.8, 0.6), 60)],
    ids=["hand", "hips", "foot"],
)
def test_there_and_back_without_a_jump(
    skeleton: Skeleton, joint: str, way: tuple[float, float, float], steps: int
):
    chase, tasks = pursuit(skeleton)
    share = np.concatenate([np.linspace(0.0, 1.0, steps), np.linspace(1.0, 0.0, steps)])
    before, turns, exact = chase.pose, [], []
    for part in share:
        found = chase.follow(moved(tasks, joint, part * np.array(way)))
        turns.append(turn(before, found.pose))
        exact.append(found.final)
        before = found.pose
        assert found.iterations <= MOST
        angles = found.pose.rotation
        assert (angles >= skeleton.lower[:, 3:]).all() and (angles <= skeleton.upper[:, 3:]).all()
    assert exact[0] and not all(exact)
    assert any(chase.follow([task.target for task in tasks]).final for _ in range(8))
    # A target moves by 10 to 17 mm from one to the next.
    assert max(turns) < (0.11 if joint != "foot.L" else 0.14)


def test_pulls_balance():
    """Φ, from its definition, falls in no direction."""
    skeleton = builders.chain(4, length=0.3)
    task = ReachPoint(joint="joint.3", target=np.array([0.5, 2.0, 0.2]), point=builders.tip(0.3), name="tip")
    chase = Pursuit(Problem(skeleton, (task,)), Pose.rest(skeleton), OPTIONS)
    for _ in range(10):  # never the same twice, or strengths would grow
        chase.follow([task.target * (1.0 + 1e-12)])
        found = chase.follow([task.target])
    assert not found.final

    def energy(channels: Any) -> float:
        place = forward_kinematics(skeleton, Pose(channels, found.pose.scale)).point("joint.3", task.point)
        missed = float(np.linalg.norm(place - task.target)) / skeleton.reach
        away = np.nan_to_num(channels - skeleton.preferred)[:, 3:]
        pulled = np.sqrt(SOFTNESS**2 + missed**2) + 0.5 * GROWTH * missed**2
        return float(STRENGTH * pulled + 0.5 * (away**2).sum())

    slopes = []
    for joint in range(4):
        for channel in range(3, 6):
            step = np.zeros((4, 6))
            step[joint, channel] = 1e-5
            slopes.append((energy(found.pose.channels + step) - energy(found.pose.channels - step)) / 2e-5)
    assert energy(Pose.rest(skeleton).channels) > energy(found.pose.channels)
    assert np.abs(slopes).max() < 1e-3


def test_what_stands_still_comes_to_rest_where_a_solve_would_bring_it():
    chase, tasks = pursuit(LIMITED)
    for step in range(1, 9):
        targets = moved(tasks, "hand.L", 0.125 * step * np.array([0.4, -0.3, 0.2]))
        found = chase.follow(targets)
    problem = Problem(LIMITED, tuple(t.moved(place) for t, place in zip(tasks, targets, strict=True)))
    moving = turn(found.pose, solve(problem, found.pose, OPTIONS).pose)
    for _ in range(2 * MOST_LOOKS):
        before = found.pose
        found = chase.follow(targets)
        assert turn(before, found.pose) <= RESTING_TURN + 1e-12
        if found.settled:
            break
    assert found.settled
    again = chase.follow(targets)
    assert again.settled
    assert turn(found.pose, again.pose) < 1e-3
    resting = turn(found.pose, solve(problem, found.pose, OPTIONS).pose)
    assert resting < 0.02 < moving


def turned(first: Pose, second: Pose, skeleton: Skeleton) -> float:
    """Largest turn of a joint in its parent [rad]."""
    one, other = (matrix_from_euler(pose.rotation, skeleton.orders) for pose in (first, second))
    return float(rotation_angle(np.swapaxes(one, -1, -2) @ other).max())


def arriving(chase: Pursuit, targets: list[Any], skeleton: Skeleton) -> tuple[Pursued, list[Pose]]:
    """Look until the pose is final; with the poses on the way."""
    poses = [chase.pose]
    for _ in range(10 * MOST_LOOKS):
        found = chase.arrive(targets)
        poses.append(found.pose)
        angles = found.pose.rotation
        assert (angles >= skeleton.lower[:, 3:]).all() and (angles <= skeleton.upper[:, 3:]).all()
        if found.final:
            break
    assert found.final
    return found, poses


def gone_to(skeleton: Skeleton, joint: str, way: Sequence[float]) -> tuple[Pursuit, Problem, list[Any]]:
    """A pursuit of a target that has been moved out of reach in ten steps."""
    chase, tasks = pursuit(skeleton)
    for step in range(1, 11):
        targets = moved(tasks, joint, 0.1 * step * np.array(way))
        chase.follow(targets)
    problem = Problem(skeleton, tuple(t.moved(place) for t, place in zip(tasks, targets, strict=True)))
    return chase, problem, targets


@pytest.mark.parametrize(
    ("joint", "way"),
    [("hips", (-0.23, -0.41, -0.42)), ("foot.L", (-0.36, 0.49, -0.13))],
    ids=["hips", "foot"],
)
def test_at_the_end_it_goes_to_an_answer_that_is_far_and_better_without_a_jump(joint: str, way: Any):
    chase, problem, targets = gone_to(LIMITED, joint, way)
    found, poses = arriving(chase, targets, LIMITED)
    assert turned(poses[0], found.pose, LIMITED) > 0.45
    # Each of three angles by no more than that.
    assert max(turned(*pair, LIMITED) for pair in pairwise(poses)) <= 3.0 * RESTING_TURN
    again = solve(problem, found.pose, OPTIONS)
    assert turn(found.pose, again.pose) < 1e-6
    assert errors(found) == pytest.approx({error.name: error.error for error in again.errors}, abs=1e-8)


def test_a_movement_on_the_way_to_the_answer_ends_that():
    chase, _, targets = gone_to(LIMITED, "hips", (-0.23, -0.41, -0.42))
    chase.arrive(targets)
    before = chase.arrive(targets)
    assert not before.final
    targets[2] = targets[2] + 0.001
    after = chase.follow(targets)
    assert not after.final
    assert turned(before.pose, after.pose, LIMITED) <= 3.0 * MOVING_TURN
    again, _ = arriving(chase, targets, LIMITED)
    assert again.final and not all(error.reached for error in again.errors)


def among_what_moves(amount: float, most: int) -> tuple[Pursued, Problem]:
    """Follow a hand out of reach until the pose is final, while something else turns the spine.

    Args:
        amount: By how much it turns in each update [rad].
        most: In how many of them.

    Returns:
        The last update, and what was asked for.
    """
    spine = SKELETON.index("spine")
    free = np.array(SKELETON.free)
    free[spine] = False
    skeleton = replace(SKELETON, free=free)
    chase, tasks = pursuit(skeleton)
    for step in range(1, 9):
        targets = moved(tasks, "hand.L", 0.125 * step * np.array([0.8, 0.5, 0.0]))
        chase.follow(targets)
    problem = Problem(skeleton, tuple(t.moved(place) for t, place in zip(tasks, targets, strict=True)))
    for look in range(100):
        if look < most:
            channels = np.array(chase.pose.channels)
            channels[spine, 3] += amount
            chase = chase.among(problem, Pose(channels, chase.pose.scale))
        found = chase.arrive(targets)
        if found.final:
            return found, problem
    raise AssertionError("it has never arrived")


def test_among_bones_that_come_to_rest_it_arrives_at_the_answer_among_them_as_they_are():
    found, problem = among_what_moves(0.05, 4)
    again = solve(problem, found.pose, OPTIONS)
    assert turned(found.pose, again.pose, problem.skeleton) < 1e-6
    assert errors(found) == pytest.approx({error.name: error.error for error in again.errors}, abs=1e-8)


def test_among_bones_that_never_rest_it_arrives_all_the_same():
    found, _ = among_what_moves(0.02, 100)
    assert found.final


def test_it_says_who_has_precedence_who_shares_and_which_limits():
    chase, tasks = pursuit()
    found = resting(chase, moved(tasks, "hips", (0.0, 0.0, 0.3)))
    assert "level 0 takes precedence: foot" in why(found, "hips")
    chase, tasks = pursuit()
    found = resting(chase, moved(tasks, "hand.L", (0.6, 0.0, 0.0)))
    assert "shares level 2 with hand.R" in why(found, "hand.L")
    skeleton = builders.planar(3, lower=-0.3, upper=0.3)
    task = ReachPoint(joint="joint.2", target=np.array([-2.0, 1.0, 0.0]), point=builders.tip(), name="tip")
    chase = Pursuit(Problem(skeleton, (task,)), Pose.rest(skeleton), OPTIONS)
    found = resting(chase, [task.target])
    assert "at its limits: joint.0 rotation z at 17.2°" in why(found, "tip")
    skeleton = builders.planar(3)
    chase = Pursuit(Problem(skeleton, (task,)), Pose.rest(skeleton), OPTIONS)
    found = resting(chase, [np.array([0.3, 30.0, 0.0])])
    assert why(found, "tip") == "out of reach"


def test_a_level_that_was_held_gives_way_when_it_is_moved_itself_and_comes_back():
    chase, tasks = pursuit()
    resting(chase, moved(tasks, "hand.L", 0.4 * OUTWARD))
    both = moved(tasks, "hand.L", 0.4 * OUTWARD)
    both[2] = both[2] + np.array([0.0, 0.0, 0.3])
    for _ in range(4):
        found = resting(chase, both)
    own = errors(found)
    assert own["hips"] > 0.05 and max(own["foot.L"], own["foot.R"]) < 1e-4
    for _ in range(4):
        found = resting(chase, moved(tasks, "hand.L", 0.4 * OUTWARD))
    own = errors(found)
    assert own["hand.L"] > 0.05 and own["hips"] < 1e-4
    for _ in range(6):
        found = resting(chase, [task.target for task in tasks])
    assert found.final


@pytest.mark.parametrize(
    ("skeleton", "far"),
    [(SKELETON, (0.4, -0.2, 0.1)), (LIMITED, (-0.1, -0.5, 0.6))],
    ids=["aside, free", "up, limits"],
)
def test_strengths_that_have_grown_fall_without_a_jump(skeleton: Skeleton, far: tuple[float, float, float]):
    chase, _, targets = gone_to(skeleton, "hand.L", far)
    resting(chase, targets)
    way, before, turns = np.array(far), chase.pose, []
    for _ in range(40):
        targets[3] = targets[3] - 0.001 * way
        found = chase.follow(targets)
        turns.append(turned(before, found.pose, skeleton))
        before = found.pose
    # The hand's target moves by less than a millimetre at a time.
    assert max(turns[:4]) < 0.005
    assert max(turns) < 0.1


def test_what_it_cannot_do_is_refused():
    rest = Pose.rest(SKELETON)
    task = tasks_of(SKELETON, {"hand.L": 0})[0]
    choice: Task = OneOf(alternatives=(task, replace(task, target=task.target + 0.1)), name="one of two")
    many = replace(task, target=np.stack([task.target] * 2))
    for problem, options, words in (
        (Problem(SKELETON, (task,)), replace(OPTIONS, method="DLS"), "PRIORITY"),
        (Problem(SKELETON, (task,)), replace(OPTIONS, clamp_distance=0.1), "clamp"),
        (Problem(SKELETON, (choice,)), OPTIONS, "Tracker"),
        (Problem(SKELETON, (many,)), OPTIONS, "frame"),
    ):
        with pytest.raises(IKError, match=words):
            Pursuit(problem, rest, options)
    poses = Pose(np.stack([rest.channels] * 2), np.stack([rest.scale] * 2))
    with pytest.raises(IKError, match="one pose"):
        Pursuit(Problem(SKELETON, (task,)), poses, OPTIONS)

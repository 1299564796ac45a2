# SPDX-License-Identifier: GPL-3.0-or-later
"""A body that follows targets: on them in reach, smooth beyond, at rest where a solve would have it."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest

from blender_ik_addon.core import (
    AimAt,
    IKError,
    MatchOrientation,
    OneOf,
    Pose,
    Problem,
    ReachPoint,
    Skeleton,
    SolverOptions,
    Status,
    forward_kinematics,
    solve,
)
from blender_ik_addon.core.solve.follower import MOVING_TURN, SETTLING_TURN, Followed, Follower

from . import builders
from .builders import Array

MOST_UPDATES = 200
"""By far more than any of these bodies needs to come to rest."""

JOINTS = ("hand.L", "foot.L", "foot.R", "hips", "hand.R")
"""The hand is moved; the feet rank above it, hips and the other hand below."""


def figure(make: Callable[..., Skeleton] = builders.body) -> tuple[Problem, Pose]:
    """A body that holds where it is, all its joints a bit bent, and prefers that."""
    skeleton = make(limit=2.0)
    channels = np.array(Pose.rest(skeleton).channels)
    channels[1:, 3:] += np.random.default_rng(5).uniform(-0.3, 0.3, channels[1:, 3:].shape)
    start = Pose.from_channels(channels)
    skeleton = replace(skeleton, preferred=channels)
    matrices = forward_kinematics(skeleton, start)
    tasks = [
        ReachPoint(joint=joint, target=matrices.point(joint), priority=level, name=joint)
        for joint, level in zip(JOINTS, (1, 0, 0, 2, 2), strict=True)
    ]
    return Problem(skeleton, tuple(tasks)), start


def options() -> SolverOptions:
    return SolverOptions(tolerance_position=1e-4, tolerance_rotation=1e-3, restarts=2)


def targets(problem: Problem, offset: Iterable[float]) -> list[Array]:
    """Those of the problem, that of the hand elsewhere."""
    own = [np.array(task.target) for task in problem.tasks if isinstance(task, ReachPoint)]
    return [own[0] + np.array(list(offset)), *own[1:]]


def errors(found: Followed) -> dict[str, float]:
    return {error.name: error.error for error in found.errors}


def arrive(follower: Follower, aims: list[Array]) -> Followed:
    """Let the body settle, by no more than it may in an update."""
    for _ in range(MOST_UPDATES):
        before = follower.pose.channels
        found = follower.arrive(aims)
        assert np.abs(found.pose.channels - before)[:, 3:].max() <= SETTLING_TURN + 1e-9
        if found.final:
            return found
        assert found.status is Status.MAX_ITERATIONS
    raise AssertionError("the body does not settle")


def test_in_reach_it_is_on_all_targets_at_once():
    problem, start = figure()
    follower = Follower(problem, start, options())
    for step in range(1, 9):
        found = follower.follow(targets(problem, step * np.array([-0.01, -0.015, 0.01])))
        assert max(errors(found).values()) < 1e-4 and not found.final
    for _ in range(MOST_UPDATES):  # it may turn on while it is on its targets
        if found.status is Status.REACHED:
            break
        found = follower.follow(targets(problem, step * np.array([-0.01, -0.015, 0.01])))
        assert max(errors(found).values()) < 1e-4 and not found.final
    assert found.status is Status.REACHED


@pytest.mark.parametrize("way", [(0.5, -0.1, 0.1), (0.1, -0.4, 0.5)])
def test_out_of_reach_it_turns_smoothly_while_feet_stand_and_comes_back_onto_its_targets(
    way: tuple[float, ...],
):
    problem, start = figure()
    follower = Follower(problem, start, options())
    shares = np.linspace(0.0, 1.0, 17)
    missed = []
    # How long it takes to come back depends on how fast it turns.
    for share in (*shares[1:], *shares[-2::-1], *[0.0] * MOST_UPDATES):
        before = follower.pose.channels
        found = follower.follow(targets(problem, share * np.array(way)))
        missed.append(max(errors(found).values()) > 1e-4)
        assert max(errors(found)[foot] for foot in ("foot.L", "foot.R")) < 5e-4
        # A body that is on its targets keeps on them by what turn it takes.
        assert not missed[-1] or np.abs(found.pose.channels - before)[:, 3:].max() <= MOVING_TURN + 1e-9
        if share == 0.0 and not missed[-1]:
            break
    assert any(missed) and not missed[0] and not missed[-1]
    found = arrive(follower, targets(problem, np.zeros(3)))
    np.testing.assert_allclose(found.pose.channels, start.channels, atol=1e-3)


def test_feet_stand_under_hips_of_the_same_level_that_are_moved() -> None:
    """What nobody moves stays; at rest the level is one again."""
    problem, start = figure()
    problem = Problem(problem.skeleton, tuple(replace(task, priority=0) for task in problem.tasks))
    follower = Follower(problem, start, options())
    aims = targets(problem, (0.0, 0.0, 0.0))
    follower.begin(aims)
    hips = JOINTS.index("hips")
    for step in range(1, 7):
        moved = [*aims]
        moved[hips] = aims[hips] + step * np.array([0.0, 0.005, -0.02])
        missed = errors(follower.follow(moved))
        assert max(missed["foot.L"], missed["foot.R"]) < 5e-4
    found = arrive(follower, moved)
    tasks = tuple(task.moved(aim) for task, aim in zip(problem.tasks, moved, strict=True))
    assert found.final and errors(found)["hips"] == pytest.approx(
        solve(Problem(problem.skeleton, tasks), follower.pose, options()).errors[hips].error, abs=1e-3
    )


@pytest.mark.parametrize("way", [(-0.05, -0.1, 0.05), (0.3, -0.1, 0.1)])
def test_at_rest_it_settles_on_what_a_solve_gives(way: tuple[float, ...]):
    problem, start = figure()
    follower = Follower(problem, start, options())
    for share in np.linspace(0.1, 1.0, 10):
        found = follower.follow(targets(problem, share * np.array(way)))
    aims = targets(problem, way)
    moved = [task.moved(aim) for task, aim in zip(problem.tasks, aims, strict=True)]
    solution = solve(Problem(problem.skeleton, tuple(moved)), found.pose, options())
    found = arrive(follower, aims)
    assert found.settled
    np.testing.assert_allclose(
        found.pose.channels[:, 3:], solution.pose.channels[:, 3:], atol=np.radians(2.0)
    )
    for error in solution.errors:
        assert errors(found)[error.name] == pytest.approx(error.error, abs=5e-3)
    again = follower.arrive(aims)
    np.testing.assert_array_equal(again.pose.channels, found.pose.channels)


@pytest.mark.parametrize(
    ("way", "updates"), [((-0.4, -0.2, -0.8), 28), ((0.1, 0.0, -1.0), 28), ((-0.5, -0.1, -0.5), 10)]
)
def test_a_body_that_would_leave_its_targets_turns_further_by_no_more_than_it_has_to(
    way: tuple[float, ...], updates: int
):
    problem, start = figure(builders.humanoid)
    follower = Follower(problem, start, options())
    follower.begin(targets(problem, np.zeros(3)))
    for share in np.linspace(1.0 / updates, 1.0, updates):
        before = follower.pose.channels
        found = follower.follow(targets(problem, share * np.array(way)))
        # The pose nearest to the one before that is on the targets turns by 12 to 13 degrees.
        most = max(np.radians(10.0), 2.0 * MOVING_TURN) + 1e-9
        assert np.abs(found.pose.channels - before)[:, 3:].max() <= most


def test_targets_that_move_on_drop_a_solve_that_is_under_way():
    problem, start = figure()
    follower = Follower(problem, start, options())
    for share in np.linspace(0.2, 1.0, 5):
        follower.follow(targets(problem, (0.5 * share, 0.0, 0.0)))
    follower.arrive(targets(problem, (0.5, 0.0, 0.0)))
    for share in (*np.linspace(0.8, 0.0, 5), *np.zeros(10)):
        found = follower.follow(targets(problem, (0.5 * share, 0.0, 0.0)))
    assert found.status is Status.REACHED
    found = arrive(follower, targets(problem, np.zeros(3)))
    np.testing.assert_allclose(found.pose.channels, start.channels, atol=1e-3)


def test_it_goes_back_to_a_pose_that_is_known_and_is_on_its_targets_before():
    problem, start = figure(builders.humanoid)
    follower = Follower(problem, start, options())
    for share in (*np.linspace(0.1, 1.0, 10), *[1.0] * MOST_UPDATES):
        # Across the body: its pose is farther from home than the hand.
        found = follower.follow(targets(problem, (-0.4 * share, -0.2 * share, -0.2 * share)))
        if share == 1.0 and found.settled:
            break
    home, reached = targets(problem, np.zeros(3)), []
    for _ in range(MOST_UPDATES):
        before = follower.pose.channels
        found = follower.return_to(home, start)
        reached.append(max(errors(found).values()) < 1e-4)
        assert np.abs(found.pose.channels - before)[:, 3:].max() <= SETTLING_TURN + 1e-9
        if found.final:
            break
    assert found.final
    assert sum(reached) > 1
    np.testing.assert_array_equal(found.pose.channels, start.channels)


def test_a_body_whose_angles_are_wound_another_way_settles_without_turning_round():
    problem, start = figure()
    free = np.full_like(problem.skeleton.upper, np.inf)
    problem = replace(problem, skeleton=replace(problem.skeleton, lower=-free, upper=free))
    channels = np.array(start.channels)
    channels[problem.skeleton.index("hand.R"), 4] += 2.0 * np.pi
    wound = replace(start, channels=channels)
    follower = Follower(problem, wound, options())
    before = forward_kinematics(problem.skeleton, wound).matrices
    for _ in range(round(0.5 * np.pi / SETTLING_TURN)):
        found = follower.arrive(targets(problem, (0.02, -0.05, 0.02)))
        after = forward_kinematics(problem.skeleton, found.pose).matrices
        assert np.abs(after - before)[:, :3, :3].max() < 0.5
        before = after
        if found.final:
            break
    assert found.final


def test_it_tells_the_goal_of_several_that_it_settles_on():
    """It told the one that was nearest when the targets had come to rest."""
    chain = builders.planar(3)
    near, other = (
        ReachPoint("joint.2", np.array(place), point=builders.tip(), name=name)
        for name, place in (("near", (0.2, 3.3, 0.0)), ("other", (-2.0, 0.5, 0.0)))
    )
    problem, start = Problem(chain, (OneOf((near, other)),)), Pose.rest(chain)
    aims = [task.aim for task in problem.tasks]
    follower = Follower(problem, start, options())
    found = arrive(follower, aims)
    assert found.status is Status.REACHED and found.errors[0].taken == "other"
    # So does a body whose fixed bones have changed since.
    again = follower.among(problem, follower.pose).arrive(aims)
    assert again.status is Status.REACHED and again.errors[0].taken == "other"
    # And one that goes back to where the other one is met.
    returning = Follower(problem, start, options())
    returning.follow(aims)
    for _ in range(MOST_UPDATES):
        if (found := returning.return_to(aims, follower.pose)).final:
            break
    assert found.status is Status.REACHED and found.errors[0].taken == "other"


def test_alternatives_of_several_kinds_come_to_rest():
    """Their targets are no one array: a place that is looked at and an orientation."""
    chain = builders.planar(3)
    look = AimAt("joint.2", target=np.array([5.0, 3.0, 0.0]), axis=np.array([0.0, 1.0, 0.0]))
    turn = MatchOrientation("joint.2", target=np.diag([-1.0, -1.0, 1.0]))
    problem = Problem(chain, (OneOf((look, turn)),))
    follower, aims = Follower(problem, Pose.rest(chain), options()), [task.aim for task in problem.tasks]
    found = arrive(follower, aims)
    assert found.final and found.status is Status.REACHED
    assert follower.arrive(aims).final


def test_a_body_on_its_way_goes_on_where_fixed_channels_change():
    problem, start = figure()
    follower, aims = Follower(problem, start, options()), targets(problem, (0.3, 0.0, 0.2))
    while not np.abs(follower.pose.channels - start.channels).any():
        assert not follower.arrive(aims).final
    before = follower.pose
    follower = follower.among(problem, before)
    assert not follower.arrive(aims).final
    assert np.abs(follower.pose.channels - before.channels).max() > 0.5 * SETTLING_TURN
    arrive(follower, aims)


def test_stiff_joints_turn_as_far_in_an_update_as_others():
    """They took five times as long: the change of a channel was taken with its weight."""
    problem, start = figure()
    joint = problem.skeleton.index("hand.R")
    stiffness = np.array(problem.skeleton.stiffness)
    stiffness[joint] = 0.96
    problem = replace(problem, skeleton=replace(problem.skeleton, stiffness=stiffness))
    channels = np.array(start.channels)
    channels[joint, 3] += 9.5 * SETTLING_TURN
    follower, home = Follower(problem, start, options()), replace(start, channels=channels)
    for _ in range(12):
        before = follower.pose.channels
        found = follower.return_to(targets(problem, np.zeros(3)), home)
        assert np.abs(found.pose.channels - before)[:, 3:].max() <= SETTLING_TURN + 1e-9
    assert found.final


def test_what_it_cannot_follow_is_told():
    problem, start = figure()
    with pytest.raises(IKError, match="needs the method PRIORITY, got DLS"):
        Follower(problem, start, SolverOptions(method="DLS"))
    with pytest.raises(IKError, match="starts from one pose"):
        Follower(problem, start[None], options())
    follower = Follower(problem, start, options())
    with pytest.raises(IKError):
        follower.follow([np.zeros(2), *targets(problem, np.zeros(3))[1:]])
    np.testing.assert_array_equal(follower.pose.channels, start.channels)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Aims: a ray from a joint through a point, ahead and not behind."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from blender_ik_addon.core import (
    AimAt,
    IKError,
    OneOf,
    Pose,
    Problem,
    ReachPoint,
    Skeleton,
    Status,
    forward_kinematics,
    solve,
)
from blender_ik_addon.core.problem.system import assemble
from blender_ik_addon.core.tasks.aims import BEFORE
from tests.core.builders import Array, chain, humanoid, planar

FORWARD = np.array([0.0, -1.0, 0.0])
"""The way the figure looks."""


def ray(skeleton: Skeleton, pose: Pose, aim: AimAt) -> tuple[Array, Array]:
    """Where a ray begins, and its direction."""
    posed = forward_kinematics(skeleton, pose)
    direction = posed.matrices[skeleton.index(aim.joint), :3, :3] @ aim.axis
    return posed.point(aim.joint, aim.point), direction / np.linalg.norm(direction)


def angle_to(skeleton: Skeleton, pose: Pose, aim: AimAt) -> float:
    """Angle between a ray and its target [rad], by way of the chord."""
    begin, direction = ray(skeleton, pose, aim)
    towards = (aim.target - begin) / np.linalg.norm(aim.target - begin)
    return 2.0 * float(np.arcsin(0.5 * np.linalg.norm(direction - towards)))


@pytest.mark.parametrize("limit", [None, 0.6])
@pytest.mark.parametrize(
    "where",
    [(0.0, -2.0, 0.0), (2.0, 0.0, 0.3), (0.0, 0.0, 2.0), (0.0, 2.0, 0.0), (1e-6, 2.0, 0.0)],
    ids=["ahead", "to the side", "above", "behind", "nearly behind"],
)
def test_a_head_looks_at_what_is_anywhere(where: tuple[float, float, float], limit: float | None) -> None:
    skeleton = humanoid(limit=limit)
    rest = Pose.rest(skeleton)
    placed = forward_kinematics(skeleton, rest)
    aim = AimAt(joint="head", target=placed.point("head") + where, axis=FORWARD)
    feet = [ReachPoint(joint=foot, target=placed.point(foot)) for foot in ("foot.L", "foot.R")]
    solution = solve(Problem(skeleton, (aim, *feet)), rest)
    assert solution.reached
    assert angle_to(skeleton, solution.pose, aim) < 1e-3


def test_a_ray_passes_through_the_target_while_the_hand_reaches() -> None:
    skeleton = humanoid()
    aim = AimAt(
        joint="hand.L",
        target=np.array([0.3, -3.0, 1.2]),
        point=np.array([0.0, 0.1, 0.0]),
        axis=np.array([0.0, 2.0, 1.0]),
    )
    reach = ReachPoint(joint="hand.L", target=np.array([0.3, -0.4, 1.2]))
    solution = solve(Problem(skeleton, (aim, reach)), Pose.rest(skeleton))
    assert solution.reached
    begin, direction = ray(skeleton, solution.pose, aim)
    ahead = (aim.target - begin) @ direction
    assert ahead > 0.0
    assert_allclose(begin + ahead * direction, aim.target, atol=3e-3)


def test_the_error_is_the_angle_and_the_residual_is_its_size_times_the_weight() -> None:
    skeleton = chain(1)
    for angle in (0.0, 1e-9, 1e-4, 0.31, 0.33, 1.0, 3.0, np.pi - 1e-6, np.pi):
        target = 2.0 * np.array([np.sin(angle), np.cos(angle), 0.0])
        aim = AimAt(joint="joint.0", target=target, weight=3.0)
        system = assemble(Problem(skeleton, (aim,)), Pose.rest(skeleton, (1,)))
        posed = system.place(system.mechanism.values(Pose.rest(skeleton, (1,))))
        assert_allclose(system.errors(posed)[0, 0], angle, atol=1e-15, rtol=1e-12)
        residual, jacobian = system.residual(posed), system.jacobian(posed)
        assert_allclose(np.linalg.norm(residual), 3.0 * angle, atol=1e-15, rtol=1e-12)
        bent = system.curvature(posed, residual)
        assert np.isfinite(jacobian).all() and np.isfinite(bent).all()
        assert np.linalg.matrix_rank(jacobian[0][:, system.own], tol=1e-6) == 2


def test_an_exactly_opposite_ray_turns_round_also_on_a_hinge() -> None:
    for skeleton in (chain(1), planar(1), planar(3)):
        aim = AimAt(joint=len(skeleton) - 1, target=np.array([0.0, -5.0, 0.0]))
        solution = solve(Problem(skeleton, (aim,)), Pose.rest(skeleton))
        assert solution.reached, solution.message


def test_a_head_at_its_limits_says_so_and_looks_as_near_as_it_can() -> None:
    skeleton = planar(1, lower=-0.5, upper=0.5)
    aim = AimAt(joint="joint.0", target=np.array([-3.0, 0.0, 0.0]))
    solution = solve(Problem(skeleton, (aim,)), Pose.rest(skeleton))
    assert_allclose(solution.errors[0].error, 0.5 * np.pi - 0.5, atol=1e-6)
    assert "at its limits: joint.0 rotation z at 28.6°" in solution.errors[0].note


def test_what_is_where_the_ray_begins_is_aimed_at() -> None:
    skeleton = chain(2)
    aim = AimAt(joint="joint.1", target=np.array([0.0, 1.0, 0.0]))
    solution = solve(Problem(skeleton, (aim,)), Pose.rest(skeleton))
    assert solution.reached
    assert_allclose(solution.pose.channels, 0.0, atol=1e-9)


@pytest.mark.parametrize("softness", [0.0, 0.05])
def test_a_ray_that_could_begin_on_its_target_turns_to_it(softness: float) -> None:
    """Next to the target any small step gives the direction: 54 of 200 such arms crept there and missed."""
    skeleton = chain(3)
    finger = np.array([0.0, 1.0, 0.0])
    for seed in range(40):
        target = np.array([0.0, 1.5, 0.0]) + np.random.default_rng(seed).normal(size=3)
        aim = AimAt(joint=2, target=target, point=finger, softness=softness)
        solution = solve(Problem(skeleton, (aim,)), Pose.rest(skeleton), restarts=0)
        assert solution.reached, (seed, solution.message)
        assert solution.status is not Status.MAX_ITERATIONS, (seed, solution.message)
        assert angle_to(skeleton, solution.pose, aim) < softness + 1e-3
        begin, _ = ray(skeleton, solution.pose, aim)
        assert np.linalg.norm(target - begin) > 0.999 * BEFORE * skeleton.reach


def test_a_hand_that_is_held_next_to_what_it_aims_at_stays_there() -> None:
    skeleton = humanoid()
    place = np.array([0.3, -0.4, 1.2])
    for weight in (1.0, 0.1):
        aim = AimAt(joint="hand.L", target=place + np.array([0.0, 0.005, 0.0]))
        problem = Problem(skeleton, (ReachPoint("hand.L", place, weight=weight), aim))
        solution = solve(problem, Pose.rest(skeleton))
        assert solution.reached, solution.message
        assert_allclose(ray(skeleton, solution.pose, aim)[0], place, atol=1e-5)


def test_weights_of_alternatives_do_not_count() -> None:
    skeleton = humanoid()
    targets = np.array([[0.3, -3.0, 1.2], [3.0, 0.5, 1.0]])
    found: list[Array] = []
    for weight in (1.0, 0.0):
        aims = tuple(AimAt(joint="hand.L", target=target, weight=weight) for target in targets)
        found.append(solve(Problem(skeleton, (OneOf(alternatives=aims),)), Pose.rest(skeleton)).pose.channels)
    assert_allclose(found[0], found[1], atol=1e-9)


def test_what_cannot_be_aimed_is_refused() -> None:
    target = np.ones(3)
    with pytest.raises(IKError, match=r"aim of head: axis is zero"):
        AimAt(joint="head", target=target, axis=np.zeros(3))
    with pytest.raises(IKError, match=r"aim of head: target has shape \(2,\), wanted \(3,\) or \(F, 3\)"):
        AimAt(joint="head", target=np.ones(2))
    with pytest.raises(IKError, match=r"aim of head: target is not finite"):
        AimAt(joint="head", target=np.array([0.0, np.nan, 0.0]))
    with pytest.raises(IKError, match=r"there is no joint 'eye'"):
        Problem(chain(1), (AimAt(joint="eye", target=target),))
    moved = replace(AimAt(joint="head", target=target), target=2.0 * target)
    assert_allclose(moved.target, 2.0)

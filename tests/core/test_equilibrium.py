# SPDX-License-Identifier: GPL-3.0-or-later
"""Pulls of bounded strength, limits and a preferred pose in balance."""

# pyright: reportPrivateUsage=false

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from blender_ik_addon.core import IKError, Pose, Problem, ReachPoint, Reason, Skeleton, SolverOptions
from blender_ik_addon.core.equilibrium import Equilibrium
from blender_ik_addon.core.objective import Objective, Stand
from blender_ik_addon.core.pulls import Pulls
from blender_ik_addon.core.system import assemble
from blender_ik_addon.core.yielding import Follower

from . import builders
from .builders import Array
from .in_turn import in_turn

SOFTNESS = 1e-4


def reaching(joint: str, target: Sequence[float] | Array, priority: int = 0) -> ReachPoint:
    """Bring a joint to a place."""
    return ReachPoint(joint=joint, target=np.array(target), priority=priority, name=joint)


def arms(limit: float | None = None) -> Skeleton:
    """The torso with fixed hips, preferring rest."""
    skeleton = builders.torso(limit=limit)
    free = np.array(skeleton.free)
    free[0] = False
    return replace(skeleton, free=free)


def equilibrium(skeleton: Skeleton, *tasks: ReachPoint, strength: float = 100.0) -> Equilibrium:
    """All pulls of one strength, from rest, not relaxed yet."""
    system = assemble(Problem(skeleton, tasks), Pose.rest(skeleton).as_batch())
    objective = Objective(system, merged=True, clamp_distance=None)
    values = system.mechanism.values(Pose.rest(skeleton).as_batch())
    return Equilibrium(objective, values, np.full(len(tasks), strength), SOFTNESS)


def told(rest: Equilibrium) -> Pulls:
    """The forces of each task, which has three rows."""
    return rest.pulls(
        [range(3 * number, 3 * number + 3) for number in range(len(rest.stand.residual[0]) // 3)]
    )


FAR = (reaching("hand.L", (1.5, -0.6, 1.6)), reaching("hand.R", (-1.4, -0.5, 1.2)))
"""Out of the reach of both."""


def test_forces_are_the_slope_of_the_energy():
    rest = equilibrium(arms(), *FAR)
    rest.relax(2)
    slope = told(rest).total
    objective, values = rest._objective, rest.stand.values
    step = 1e-6
    for channel in range(values.shape[1]):
        change = np.zeros_like(values)
        change[0, channel] = step
        energies = [
            rest._energy(objective.stand(objective.moved(values, sign * change))) for sign in (1.0, -1.0)
        ]
        assert slope[channel] == pytest.approx((energies[0] - energies[1]) / (2.0 * step), rel=1e-5, abs=1e-5)


def test_in_margins_of_limits_forces_are_the_slope_of_the_energy_too():
    rest = equilibrium(arms(0.4), *FAR)
    rest.relax(30)
    objective = rest._objective
    # Off the limits, where both sides can be tried.
    rest.stand = objective.stand(np.clip(rest.stand.values, -0.39, 0.39))
    values = rest.stand.values
    assert (np.maximum(*rest._inside(values)) > 1e-2).sum() >= 3
    slope = told(rest).total
    np.testing.assert_allclose(rest._model().slope, slope, rtol=1e-12)
    step = 1e-6
    for channel in range(values.shape[1]):
        change = np.zeros_like(values)
        change[0, channel] = step
        energies = [
            rest._energy(objective.stand(objective.moved(values, sign * change))) for sign in (1.0, -1.0)
        ]
        assert slope[channel] == pytest.approx((energies[0] - energies[1]) / (2.0 * step), rel=1e-5, abs=1e-5)


def test_margins_end_where_the_preferred_pose_is():
    skeleton = arms(0.4)
    preferred = np.array(skeleton.preferred)
    preferred[2, 3:] = 0.37  # inside of what would be the margin
    rest = equilibrium(replace(skeleton, preferred=preferred), *FAR)
    inside = rest._inside(rest._objective.system.preferred[None])
    np.testing.assert_allclose(inside, 0.0, atol=1e-12)


@pytest.mark.parametrize("limit", [None, 0.4])
def test_at_rest_all_forces_balance_or_press_against_limits(limit: float | None):
    rest = equilibrium(arms(limit), *FAR)
    rest.relax(100)
    assert rest.settled
    slope, held = told(rest).total, told(rest).held
    assert np.abs(slope[~held]).max() < 1e-3
    assert held.any() == (limit is not None)
    lower, upper = rest._objective.system.lower, rest._objective.system.upper
    values = rest.stand.values[0]
    assert ((values >= lower) & (values <= upper)).all()
    outward = np.where(values >= upper, -slope, slope)
    assert (outward[held] >= -1e-6).all()


def test_no_iteration_raises_the_energy():
    far = reaching("hand.L", (-0.9, 0.8, 0.2)), reaching("hand.R", (1.1, 0.7, 2.2))
    rest = equilibrium(builders.torso(), *far, strength=3000.0)
    energies = [rest._energy(rest.stand)]
    for count in range(1, 40):
        rest.relax(count)
        energies.append(rest._energy(rest.stand))
    assert (np.diff(energies) <= 1e-9 * energies[0]).all()
    assert energies[-1] < energies[0]


class Watched(Equilibrium):
    """One that notes Φ before and after each step that it tries, taken or not."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.tried: list[tuple[float, float]] = []

    def _tried(self, model: Any, step: Any, share: float, energy: float) -> tuple[Stand, float]:
        trial, after = super()._tried(model, step, share, energy)
        self.tried.append((energy, after))
        return trial, after


@in_turn("seed", [7, 16, 36])
def test_a_step_that_raises_the_energy_is_not_taken(seed: int):
    rng = np.random.default_rng(seed)
    skeleton = builders.torso()
    start = builders.random_pose(rng, skeleton, angle=2.5, offset=0.5, only_free=True).as_batch()
    places = rng.uniform([-1.0, -1.0, 0.2], [1.0, 1.0, 2.2], (2, 3))
    tasks = tuple(reaching(joint, place) for joint, place in zip(("hand.L", "hand.R"), places, strict=True))
    system = assemble(Problem(skeleton, tasks), start)
    objective = Objective(system, merged=True, clamp_distance=None)
    rest = Watched(objective, system.mechanism.values(start), np.full(2, 3000.0), SOFTNESS)
    rest.relax(25)
    energies = np.array([energy for energy, _ in rest.tried] + [rest._energy(rest.stand)])
    assert (np.diff(energies) <= 1e-9 * energies[:-1]).all()
    # So far from rest the model promises too much: some steps a little, some a lot.
    ratios = np.array([after / energy for energy, after in rest.tried])
    assert ((ratios > 1.01) & (ratios < 10.0)).any()
    assert energies[-1] < 0.5 * energies[0]


def test_equal_pulls_share_what_is_missing():
    # The body is free to move and too short for both: it goes where both miss alike, not where it began.
    tasks = reaching("hand.L", (1.4, -0.3, 1.3)), reaching("hand.R", (-2.4, -0.3, 1.3))
    rest = equilibrium(builders.torso(), *tasks)
    rest.relax(200)
    errors = rest._objective.system.errors(rest.stand.posed)[0]
    assert errors.min() > 0.5
    assert errors[0] == pytest.approx(errors[1], rel=0.1)


def test_a_group_is_missed_as_squares_are_and_single_tasks_by_their_lengths():
    # Three of one kind of pull, one of them far: by lengths two are met, by squares all share the miss.
    skeleton = builders.torso()
    tasks = (*FAR, reaching("hips", (0.0, 0.0, 1.0)))
    system = assemble(Problem(skeleton, tasks), Pose.rest(skeleton).as_batch())
    objective = Objective(system, merged=True, clamp_distance=None)
    values = system.mechanism.values(Pose.rest(skeleton).as_batch())
    together = Equilibrium(objective, values, np.array([1e4]), SOFTNESS, groups=[9], margins=False)
    together.relax(300)
    assert together.settled
    assert together.gives_way
    jacobian = objective.stacked_jacobian(together.stand.posed)[0]
    slope = jacobian.T @ together.stand.residual[0]
    assert np.abs(slope).max() < 1e-3  # of the squares alone: the strength is great
    assert told(together).forces.sum(axis=0) == pytest.approx(
        -objective.away(together.stand.values)[0], abs=1e-3
    )


def test_limits_without_margins_are_pressed_no_further():
    skeleton = arms(0.4)
    system = assemble(Problem(skeleton, FAR), Pose.rest(skeleton).as_batch())
    objective = Objective(system, merged=True, clamp_distance=None)
    values = system.mechanism.values(Pose.rest(skeleton).as_batch())
    rest = Equilibrium(objective, values, np.full(2, 100.0), SOFTNESS, margins=False)
    rest.relax(100)
    assert rest.settled
    assert np.abs(rest._inside(rest.stand.values)).max() == 0.0
    held = told(rest).held
    assert held.any()
    assert np.abs(told(rest).total[~held]).max() < 1e-3


def follower(skeleton: Skeleton) -> Follower:
    """One that starts at rest."""
    return Follower(skeleton, Pose.rest(skeleton), SolverOptions())


def test_far_out_of_reach_the_way_back_is_the_way_there():
    skeleton = builders.humanoid(limit=1.2)
    body = follower(skeleton)
    feet = [reaching("foot.L", (0.11, 0.02, 0.08)), reaching("foot.R", (-0.11, 0.02, 0.08))]
    start, way = np.array([0.67, 0.0, 1.38]), np.array([0.7, -0.9, 0.2])
    shares = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, 25))
    poses, missed = [], 0.0
    for share in (*shares, *shares[-2::-1]):
        hand = ReachPoint(joint="hand.L", target=start + share * way, priority=1, name="hand.L")
        found = body.follow([hand, *feet], most_iterations=60)
        poses.append(found.pose.channels)
        missed = max(missed, found.firm[0].error)
        assert max(error.error for error in found.firm[1:]) < 1e-4  # the feet stay
    assert missed > 0.1
    np.testing.assert_allclose(poses[:24], poses[-1:-25:-1], atol=2e-3)
    assert np.abs(np.diff(poses, axis=0)).max() < 0.5


def test_a_short_arm_is_said_to_be_out_of_reach():
    found = follower(arms()).follow([reaching("hand.L", (2.0, 0.0, 1.4))], most_iterations=100)
    why = found.firm[0].why
    assert why is not None
    assert why.reason is Reason.OUT_OF_REACH


def test_limits_that_hold_a_task_are_named():
    found = follower(arms(0.2)).follow([reaching("hand.L", (0.2, -0.5, 1.9))], most_iterations=100)
    why = found.firm[0].why
    assert why is not None
    assert why.reason is Reason.LIMITS
    assert {limit.joint for limit in why.limits} <= {"chest", "upper_arm.L", "forearm.L"}
    assert all(abs(limit.value) == pytest.approx(0.2) for limit in why.limits)


def test_a_higher_level_that_holds_a_task_is_named():
    elbow = reaching("forearm.L", (0.42, 0.04, 1.4), 0)
    found = follower(arms()).follow([reaching("hand.L", (0.2, -0.7, 1.4), 1), elbow], most_iterations=100)
    assert found.firm[1].error < 1e-4
    why = found.firm[0].why
    assert why is not None
    assert why.reason is Reason.PRECEDENCE
    assert why.outranked_by == ("forearm.L",)
    assert why.levels == (0,)


def test_nothing_to_follow_is_refused():
    with pytest.raises(IKError, match="nothing to follow"):
        follower(arms()).follow([])

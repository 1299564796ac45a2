# SPDX-License-Identifier: GPL-3.0-or-later
"""Soft tasks: springs near their targets that pull no harder than their level far away."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from blender_ik_addon.core import (
    IKError,
    MatchOrientation,
    OneOf,
    OnPlane,
    Pose,
    Problem,
    ReachPoint,
    SequenceSolution,
    Skeleton,
    Solution,
    SolverOptions,
    Status,
    Task,
    forward_kinematics,
    solve,
    solve_sequence,
)
from blender_ik_addon.core.engine.energy import Energy
from blender_ik_addon.core.explain.explanation import Reason
from blender_ik_addon.core.problem.system import assemble
from blender_ik_addon.core.solve.follower import Follower
from tests.core.builders import Array, body, chain, planar, random_pose, tip, torso, upper_body
from tests.core.strategies import rotation_about

FIGURE = body()
ARMS = upper_body(limit=1.5)
AIM = forward_kinematics(FIGURE, random_pose(np.random.default_rng(1), FIGURE, only_free=True, angle=0.7))


def reach(joint: str, softness: float = 0.0, *, off: Sequence[float] = (0, 0, 0), **more: Any) -> Task:
    """A task that the figure can meet with some turns, or one that is `off` [m] from there."""
    return ReachPoint(joint=joint, target=AIM.point(joint) + np.array(off), softness=softness, **more)


def turn(joint: str, softness: float = 0.0, **more: Any) -> Task:
    """A task that the figure can meet."""
    return MatchOrientation(
        joint=joint, target=AIM.matrices[FIGURE.index(joint)][:3, :3], softness=softness, **more
    )


def solved(*tasks: Task, skeleton: Skeleton = FIGURE, restarts: int = 2, **options: Any) -> Solution:
    return solve(Problem(skeleton, tasks), Pose.rest(skeleton), restarts=restarts, **options)


def errors(*tasks: Task) -> Array:
    return np.array([task.error for task in solved(*tasks).errors])


def forces(skeleton: Skeleton, solution: Solution) -> Array:
    """With how much the posture resists at the end, in scaled channels (nv,)."""
    pose = solution.pose[None]
    system = assemble(Problem(skeleton, (ReachPoint(joint=len(skeleton) - 1, target=np.zeros(3)),)), pose)
    values = system.mechanism.values(pose)
    energy = Energy(system, values)
    return energy.stiffness * (values * energy.weight - energy.preferred)[0]


def test_a_softness_of_0_changes_nothing() -> None:
    tasks = (reach("hand.L"), turn("head", priority=1), reach("foot.R", off=(0.5, 0.5, 0.5), priority=1))
    plain, zero = solved(*tasks), solved(*(replace(task, softness=0.0) for task in tasks))
    assert_array_equal(plain.pose.channels, zero.pose.channels)
    # As little of it as no length in a file knows is none either.
    tiny = solved(reach("hand.L", 1e-9), turn("head", 1e-9, priority=1))
    assert max(task.error for task in tiny.errors) < 1e-6


@pytest.mark.parametrize("value", [-0.1, np.nan, np.inf, "much"])
def test_what_is_no_softness_is_refused(value: object) -> None:
    with pytest.raises(IKError, match="softness"):
        ReachPoint(joint="hand.L", target=np.zeros(3), softness=value)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("softness", [1e-3, 1e-2])
def test_a_soft_target_is_missed_by_its_softness_where_a_joint_is_a_radian_off(softness: float) -> None:
    """Of a rod that prefers to be turned by 1 rad, whose tip is where it is without."""
    rod = planar(1)
    start = forward_kinematics(rod, Pose.rest(rod)).point(0, tip())
    bent = replace(rod, preferred=np.where(rod.free, 1.0, 0.0))
    found = solved(ReachPoint(joint=0, point=tip(), target=start, softness=softness), skeleton=bent)
    assert found.errors[0].error == pytest.approx(softness, rel=0.05)


@settings(max_examples=8)
@given(
    joint=st.sampled_from(["hand.L", "foot.R", "head"]),
    kind=st.sampled_from([reach, turn]),
    softness=st.floats(1e-3, 0.2),
    factor=st.floats(1.2, 10.0),
)
def test_the_softer_the_more_it_is_missed_and_the_less_the_pose_is_bent(
    joint, kind, softness, factor
) -> None:
    stiff, soft = (solved(kind(joint, s)) for s in (softness, factor * softness))
    assert 0.0 < stiff.errors[0].error < soft.errors[0].error
    assert np.linalg.norm(forces(FIGURE, soft)) < np.linalg.norm(forces(FIGURE, stiff))


@pytest.mark.parametrize("kind", [reach, turn])
def test_the_miss_is_softness_times_force(kind: Any) -> None:
    """The force is what the posture resists with at the exact target: Lagrange's multiplier."""
    small = np.array([solved(kind("hand.L", s)).errors[0].error for s in (1e-4, 1e-3, 2e-3)])
    assert_allclose(small[1:] / small[0], [10.0, 20.0], rtol=0.02)
    exact = solved(kind("hand.L"))
    system = assemble(Problem(FIGURE, (kind("hand.L"),)), exact.pose[None])
    values = system.mechanism.values(exact.pose[None])
    energy = Energy(system, values)
    jacobian = energy.model(energy.at(values)).jacobian[0]
    away = (values * energy.weight - energy.preferred)[0]
    force = np.linalg.lstsq(jacobian.T, -away, rcond=None)[0]
    assert small[0] == pytest.approx(1e-4 * np.linalg.norm(force), rel=0.02)


@settings(max_examples=6)
@given(first=st.floats(1e-3, 0.03), second=st.floats(1e-3, 0.03), weight=st.floats(0.5, 1.0))
def test_two_soft_targets_in_conflict_share_like_springs(first: float, second: float, weight: float) -> None:
    rest = forward_kinematics(FIGURE, Pose.rest(FIGURE)).point("hand.L")
    near = [
        ReachPoint(joint="hand.L", target=rest + off, softness=s, weight=w)
        for off, s, w in (((0, 0, 5e-4), first, 1.0), ((0, 0, -5e-4), second, weight))
    ]
    found = errors(*near)
    stiffness = np.array([1.0 / first, weight**2 / second])
    # The posture is a third spring, of about 1 by the reach, at rest in the middle.
    assert found.sum() == pytest.approx(1e-3, rel=0.01)
    assert abs(found[0] - 1e-3 * stiffness[1] / stiffness.sum()) < 2e-5


def test_a_soft_task_beside_an_exact_one_of_its_level_gives_way_to_it() -> None:
    found = solved(reach("hand.L"), reach("hand.L", 0.01, off=(0.05, 0, 0), name="other"))
    assert [task.reached for task in found.errors] == [True, False]
    assert found.errors[0].error < 1e-6 and found.errors[1].error == pytest.approx(0.05, abs=1e-6)


def test_levels_above_a_soft_task_do_not_give_way_to_it() -> None:
    above = (reach("hand.L"), turn("head", priority=1))
    alone = errors(*above)
    far = errors(*above, reach("hand.L", 0.01, off=(9, 9, 9), priority=2), turn("hips", 0.01, priority=2))
    assert alone.max() < 1e-6 and far[:2].max() < 1e-6
    missed = (reach("hand.L", off=(0, 3, 0)), reach("hand.R", off=(2, 0, 0), priority=1))
    below = reach("foot.L", 1e-3, off=(0, 0, 5), priority=2)
    assert_allclose(errors(*missed, below)[:2], errors(*missed), atol=1e-4)


def test_an_exact_task_is_met_whatever_soft_tasks_above_it_ask_for() -> None:
    found = solved(reach("hand.L", 0.02), reach("hand.L", off=(0.03, 0, 0), priority=1, name="exact"))
    assert found.errors[1].reached and found.errors[1].error < 1e-6


@pytest.mark.parametrize("softness", [1e-3, 0.05])
def test_a_soft_task_pulls_like_a_spring_and_never_harder_than_its_level(softness: float) -> None:
    task = ReachPoint(joint="hand.L", target=np.zeros(3), softness=softness)
    pose = Pose.rest(FIGURE)[None]
    system = assemble(Problem(FIGURE, (task,)), pose)
    energy = Energy(system, system.mechanism.values(pose))
    for strength in (30.0, 1e4, 1e8):
        some = energy.with_penalty_weights(np.full((1, 1), strength))
        distance = np.geomspace(1e-6, 1e12, 60)
        squares = np.square([[distance], [1.001 * distance]]).swapaxes(1, 2)
        near, ahead = (some.penalty_terms(own, some.penalty_weights)[:, 0] for own in squares)
        force = (ahead - near) / (0.001 * distance)
        assert (force <= strength * (1.0 + 1e-3)).all()
        spring = distance < 0.01 * strength * softness / FIGURE.reach
        assert_allclose(force[spring], 1.0005 * distance[spring] * FIGURE.reach / softness, rtol=1e-3)
        assert force[-1] == pytest.approx(strength, rel=1e-3)


@pytest.mark.parametrize("method", ["PRIORITY", "DLS"])
def test_what_is_missed_within_its_softness_is_reached_and_nothing_else_is_tried(method: str) -> None:
    task = reach("hand.L", 0.05)
    found = solved(task, method=method)
    assert found.status is Status.REACHED and found.errors[0].why is None
    assert found.errors[0].error < 0.05
    assert solved(replace(task, softness=0.0), method="DLS").errors[0].error < 1e-4
    if method == "PRIORITY":
        assert found.errors[0].error > 1e-2
        assert_array_equal(found.pose.channels, solved(task, restarts=0).pose.channels)


def test_the_methods_of_the_papers_go_to_the_target_itself() -> None:
    exact, soft = (solved(reach("hand.L", s), method="DLS", max_iterations=500) for s in (0.0, 0.05))
    assert_allclose(soft.pose.channels, exact.pose.channels, atol=1e-9)


def test_why_a_soft_target_is_missed() -> None:
    both = (reach("hand.L", 0.01, name="near"), reach("hand.L", 0.01, off=(0.08, 0, 0), name="far"))
    found = solved(*both)
    whys = [task.why for task in found.errors]
    assert [why.reason for why in whys if why] == [Reason.SOFTNESS] * 2
    assert "gives way because it is soft" in found.message
    arm = planar(3)
    far = ReachPoint(joint=2, point=tip(), target=np.array([9.0, 9.0, 0.0]), softness=0.01)
    beyond = solved(far, skeleton=arm).errors[0].why
    assert beyond is not None and beyond.reason is Reason.OUT_OF_REACH


def test_the_history_is_of_levels() -> None:
    found = solved(
        reach("hand.L", 0.01), reach("foot.L"), turn("head", 0.1), reach("hand.R", 0.02, priority=3)
    )
    assert all(norms.shape == (1, 2) for norms in found.history)
    first = np.array([task.error for task in found.errors[:3]]) / [FIGURE.reach, FIGURE.reach, 1.0]
    assert_allclose(found.history[-1][0, 0], np.linalg.norm(first), rtol=1e-6)
    assert_allclose(found.history[-1][0, 1], found.errors[3].error / FIGURE.reach, rtol=1e-6)


def test_the_exact_tasks_of_a_level_share_a_norm_whatever_soft_tasks_stand_between_them() -> None:
    tasks = (reach("hand.L"), reach("foot.L", 0.02), turn("head"), reach("hand.R", 0.01), turn("hips", 0.3))
    system = assemble(Problem(FIGURE, (*tasks, reach("foot.R", priority=4))), Pose.rest(FIGURE)[None])
    assert system.level_of_penalty.tolist() == [0, 0, 0, 0, 1]
    penalties = [set(system.penalty_of_row[system.task_of_row == task].tolist()) for task in range(6)]
    assert penalties == [{0}, {1}, {0}, {2}, {3}, {4}]
    assert_allclose(system.penalty_softness, [0.0, 0.02 / FIGURE.reach, 0.01 / FIGURE.reach, 0.3, 0.0])


def test_an_exact_level_is_no_stronger_beside_a_soft_task_than_it_needs_to_be() -> None:
    """With all of its strength, rounding would decide what it leaves free."""
    tasks = (reach("hand.L"), reach("foot.L", 0.02))
    pose = solved(*tasks).pose[None]
    system = assemble(Problem(FIGURE, tasks), pose)
    energy = Energy(system, system.mechanism.values(pose))
    model = energy.model(energy.at(system.mechanism.values(pose)))
    assert model.penalty_weights[0, 0] < 0.1 * energy.penalty_weights[0, 0]
    assert model.penalty_weights[0, 1] == energy.penalty_weights[0, 1]


def bent_arm(seed: int, softness: float, limit: float) -> tuple[Problem, Pose]:
    """An arm that is to be in a pose drawn at random, and another such pose."""
    arm = chain(3, lower=-limit, upper=limit)
    angles = np.random.default_rng(seed).uniform(-limit, limit, (2, 3, 3))
    aim, start = map(Pose.from_channels, np.pad(angles, ((0, 0), (0, 0), (3, 0))))
    placed = forward_kinematics(arm, aim)
    tasks = (
        ReachPoint(joint=2, point=tip(), target=placed.point(2, tip()), softness=softness),
        MatchOrientation(joint=2, target=placed.matrices[2, :3, :3], softness=softness),
    )
    return Problem(arm, tasks), start


def largest_miss(problem: Problem, start: Pose, restarts: int) -> float:
    """The largest error of a solve [m, rad]."""
    return max(task.error for task in solve(problem, start, restarts=restarts).errors)


@pytest.mark.parametrize("softness", [0.0, 0.01])
def test_a_target_to_which_no_single_pose_leads_is_found_from_another(softness: float) -> None:
    """One pair of a pose and a start in thirty is such a one, these three among them."""
    arms = [bent_arm(seed, softness, limit=1.5) for seed in (21, 64, 101)]
    with_restarts, without = (max(largest_miss(*arm, restarts) for arm in arms) for restarts in (4, 0))
    assert with_restarts < 0.1 < without


def test_a_target_to_which_the_present_pose_does_not_lead_is_found_from_the_preferred_one() -> None:
    """The present pose alone led to 51 of these 60."""
    missed = [largest_miss(*bent_arm(seed, 0.0, limit=2.0), restarts=0) > 0.1 for seed in range(60)]
    assert sum(missed) <= 2


def test_softness_has_the_unit_of_the_error_whatever_the_size_of_the_figure() -> None:
    large = body(scale=100.0)
    task = ReachPoint(joint="hand.L", target=100.0 * AIM.point("hand.L"), softness=1.0)
    assert solved(task, skeleton=large).errors[0].error == pytest.approx(
        100.0 * solved(reach("hand.L", 0.01)).errors[0].error, rel=1e-6
    )
    angles = [solved(turn("hand.L", 0.1)).errors[0].error]
    matrix = AIM.matrices[FIGURE.index("hand.L")][:3, :3]
    angles.append(
        solved(MatchOrientation(joint="hand.L", target=matrix, softness=0.1), skeleton=large).errors[0].error
    )
    assert angles[0] == pytest.approx(angles[1], rel=1e-6)


def test_a_soft_floor_is_sunk_into_and_never_pulls_down() -> None:
    rest = forward_kinematics(FIGURE, Pose.rest(FIGURE)).point("hand.L")

    def miss(height: float, softness: float) -> float:
        origin, normal = rest + np.array([0.0, 0.0, height]), np.array([0.0, 0.0, 1.0])
        floor = OnPlane(joint="hand.L", origin=origin, normal=normal, side="ABOVE", softness=softness)
        return solved(floor).errors[0].error

    assert miss(0.1, 0.0) < 1e-6 and miss(-0.1, 0.05) == 0.0
    assert 1e-4 < miss(0.1, 0.01) < miss(0.1, 0.05) < 0.05


def test_a_soft_choice_takes_the_target_that_it_comes_nearest_to() -> None:
    choice = OneOf(
        alternatives=(reach("hand.L", off=(9, 9, 9), name="far"), reach("hand.L", name="near")), softness=0.05
    )
    found = solved(choice)
    assert found.reached and found.errors[0].taken == "near" and 1e-2 < found.errors[0].error < 0.05


# Motions


@cache
def noisy(softness: float, outlier: float = 0.0) -> tuple[SequenceSolution, Array]:
    """Hands and head along a swing with 10 mm of noise on each, and how far off the true places, (F, 3)."""
    rng = np.random.default_rng(3)
    skeleton, frames, noise = ARMS, 25, 0.01
    ends = [random_pose(rng, skeleton, only_free=True, angle=0.6).channels for _ in range(2)]
    part = (0.5 - 0.5 * np.cos(np.linspace(0.0, 2.0 * np.pi, frames)))[:, None, None]
    true = forward_kinematics(skeleton, Pose.from_channels(ends[0] * (1.0 - part) + ends[1] * part))
    joints = ("hand.R", "hand.L", "head")
    targets = [true.point(joint) + rng.normal(0.0, noise / np.sqrt(3.0), (frames, 3)) for joint in joints]
    targets[0][frames // 2] += outlier
    tasks = tuple(
        ReachPoint(joint=joint, target=target, softness=softness)
        for joint, target in zip(joints, targets, strict=True)
    )
    found = solve_sequence(Problem(skeleton, tasks), Pose.rest(skeleton, (frames,)), restarts=0)
    placed = forward_kinematics(skeleton, found.pose)
    off = [np.linalg.norm(placed.point(joint) - true.point(joint), axis=1) for joint in joints]
    return found, np.stack(off, axis=1)


def acceleration(solution: SequenceSolution) -> float:
    """Root of the mean square of what angles change from step to step [rad]."""
    return float(np.sqrt(np.square(np.diff(solution.pose.channels[..., 3:], n=2, axis=0)).mean()))


def test_noise_of_soft_targets_is_smoothed_away() -> None:
    exact, near_exact = noisy(0.0)
    soft, near_soft = noisy(0.01)
    assert exact.reached and exact.errors.max() < 1e-4
    assert acceleration(soft) < 0.15 * acceleration(exact)
    assert soft.errors.mean() < 0.015 and near_soft.mean() < 1.5 * near_exact.mean()
    assert not soft.pops
    softer, _ = noisy(0.02)
    assert acceleration(softer) < acceleration(soft) and softer.errors.mean() < 0.025


def test_a_motion_is_drawn_less_by_an_outlier_of_a_soft_target() -> None:
    exact, near_exact = noisy(0.0, outlier=0.3)
    _, near_soft = noisy(0.02, outlier=0.3)
    frame = len(near_soft) // 2
    assert exact.errors[frame, 0] < 1e-3
    assert near_soft[frame, 0] < 0.6 * near_exact[frame, 0]


def test_a_soft_target_that_jumps_for_a_frame_does_not_make_the_motion_jump() -> None:
    """The terms over time are weakened for targets that must be met alone."""
    frames, skeleton = 31, torso()
    rest = forward_kinematics(skeleton, Pose.rest(skeleton))
    target = np.tile(rest.point("hand.L") - np.array([0.1, 0.1, 0.0]), (frames, 1))
    target[15, 2] += 0.3
    tasks = (
        ReachPoint(joint="hand.L", target=target, softness=0.02),
        ReachPoint(joint="hips", target=rest.point("hips")),
    )
    poses = Pose.rest(skeleton, (frames,))
    motion = solve_sequence(Problem(skeleton, tasks), poses, smoothness=1.0, cyclic=False)
    assert np.abs(np.diff(motion.pose.channels[..., 3:], n=2, axis=0)).max() < 2e-3
    assert motion.errors[:, 1].max() < 1e-4


def test_exact_targets_of_a_motion_are_met_beside_soft_ones_that_are_noisy() -> None:
    found, _ = noisy(0.01)
    skeleton = ARMS
    place = forward_kinematics(skeleton, found.pose).point("hand.R")
    smooth = np.array([np.convolve(np.pad(x, 4, "edge"), np.ones(9) / 9.0, "valid") for x in place.T]).T
    rng = np.random.default_rng(7)
    hand = forward_kinematics(skeleton, found.pose).point("hand.L") + rng.normal(0.0, 0.006, (len(place), 3))
    tasks = (
        ReachPoint(joint="hand.L", target=hand, softness=0.01),
        ReachPoint(joint="hand.R", target=smooth, priority=1),
    )
    motion = solve_sequence(Problem(skeleton, tasks), Pose.rest(skeleton, (len(place),)))
    assert motion.errors[:, 1].max() < 1e-4
    assert 1e-3 < motion.errors[:, 0].mean() < 0.02


def test_an_exact_target_that_moves_fast_is_met_below_a_soft_one_that_is_not() -> None:
    rate = 120
    times = np.arange(rate // 2 + 1) / rate
    away = np.sin(6.0 * np.pi * times)
    skeleton = torso()
    rest = forward_kinematics(skeleton, Pose.rest(skeleton))
    places = np.stack([-0.3 + 0.1 * np.cos(6.0 * np.pi * times), -0.2 - 0.1 * away, 0.5 * away], axis=1)
    tasks = (
        ReachPoint(joint="hand.R", target=rest.point("hand.R") + np.array([0.0, 0.0, 3.0]), softness=0.01),
        ReachPoint(joint="hand.L", target=rest.point("hand.L") + places, priority=1),
    )
    motion = solve_sequence(
        Problem(skeleton, tasks), Pose.rest(skeleton, (len(times),)), times=times, smoothness=1.0
    )
    assert motion.errors[:, 0].min() > 0.1
    assert motion.errors[:, 1].max() < 1e-4


def test_a_body_that_turns_twice_round_is_followed_by_soft_tasks() -> None:
    softness, frames, skeleton = 0.02, 40, torso()
    angles = np.linspace(0.0, 4.0 * np.pi, frames)
    turns = np.array([rotation_about(np.array([0.0, 0.0, 1.0]), angle) for angle in angles])
    rest = forward_kinematics(skeleton, Pose.rest(skeleton))
    hand = rest.point("hand.L") - np.array([0.2, 0.2, 0.0])
    tasks = (
        MatchOrientation(joint="hips", target=turns, softness=3.0 * softness),
        ReachPoint(joint="hips", target=rest.point("hips"), softness=softness),
        ReachPoint(joint="hand.L", target=(turns @ hand[:, None])[..., 0], softness=softness),
    )
    poses = Pose.rest(skeleton, (frames,))
    motion = solve_sequence(Problem(skeleton, tasks), poses, cyclic=False, restarts=0)
    steps = np.linalg.norm(np.diff(motion.pose.channels[:, 0, 3:], axis=0), axis=1)
    assert motion.pops == () and motion.errors[:, 0].max() < 0.4
    assert np.abs(steps - angles[1]).max() < 0.2


# Following


def test_what_follows_ends_where_a_solve_ends() -> None:
    tasks = (reach("hand.L", 0.02), reach("foot.L"), turn("head", 0.1, priority=1))
    follower = Follower(Problem(FIGURE, tasks), Pose.rest(FIGURE), SolverOptions())
    targets = [task.aim for task in tasks]
    for _ in range(200):
        if follower.follow(targets).settled:
            break
    for _ in range(200):
        update = follower.arrive(targets)
        if update.final:
            break
    assert update.final and update.status is Status.REACHED
    assert_allclose(update.pose.channels, solved(*tasks).pose.channels, atol=1e-4)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Every method through `solve` and `solve_sequence`: what it reaches, inside which limits, how it ends."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks.papers.formulas import planar_elements
from blender_ik_addon.core import (
    METHODS,
    IKError,
    MatchOrientation,
    Pose,
    Problem,
    ReachPoint,
    Skeleton,
    SolverOptions,
    Status,
    StayNear,
    Task,
    Tracker,
    forward_kinematics,
    solve,
    solve_each,
    solve_sequence,
)
from blender_ik_addon.core.methods.loop import StepRuleLoop
from blender_ik_addon.core.methods.step_rules import basic_elements
from blender_ik_addon.core.model.mechanism import Mechanism
from blender_ik_addon.core.problem.options import USED_BY
from blender_ik_addon.core.problem.system import assemble
from tests.core.builders import Array, chain, planar, planar_pose, random_pose, tip, torso, tree, upper_body

DIFFERENTIAL = [method for method in METHODS if SolverOptions(method=method).differential]
RULES = [method for method in DIFFERENTIAL if method != "NONLINEAR"]
PREFERRED = [method for method in METHODS if SolverOptions(method=method).uses("redundancy")]

each_method = pytest.mark.parametrize("method", METHODS)
each_differential = pytest.mark.parametrize("method", DIFFERENTIAL)
each_rule = pytest.mark.parametrize("method", RULES)

ENOUGH = {"TRANSPOSE": 400}
"""Iterations that it takes where the default is too few."""


def reach(n: int, target: Array | list[float], weight: float = 1.0) -> ReachPoint:
    """A task for the end of a chain."""
    return ReachPoint(joint=n - 1, point=tip(), target=np.asarray(target, dtype=float), weight=weight)


def hands(skeleton: Skeleton, pose: Pose, *, turned: bool = True) -> tuple[Task, ...]:
    """Both hands as a pose has them."""
    posed = forward_kinematics(skeleton, pose)
    tasks: list[Task] = []
    for name in ("hand.L", "hand.R"):
        matrix = posed.matrices[skeleton.index(name)]
        tasks.append(ReachPoint(joint=name, target=matrix[:3, 3]))
        if turned:
            tasks.append(MatchOrientation(joint=name, target=matrix[:3, :3]))
    return tuple(tasks)


def assert_inside(skeleton: Skeleton, channels: Array) -> None:
    """Not even rounding outside the limits."""
    assert (channels >= skeleton.lower).all()
    assert (channels <= skeleton.upper).all()


def test_there_are_nine_and_each_has_its_line() -> None:
    assert list(METHODS) == [
        "PRIORITY", "DLS", "SDLS", "PSEUDO_INVERSE", "TRANSPOSE", "SPRINGS", "EXTENDED_JACOBIAN", "BOUNDED",
        "NONLINEAR",
    ]  # fmt: skip
    assert all(line and "\n" not in line for line in METHODS.values())
    settings = {field.name for field in fields(SolverOptions)}
    assert set(USED_BY) <= settings
    assert all(methods <= set(METHODS) for methods in USED_BY.values())


@each_method
def test_a_body_reaches_places_and_orientations(method: str) -> None:
    skeleton = upper_body(limit=1.2)
    goal = random_pose(np.random.default_rng(5), skeleton, angle=0.5, offset=0.1, only_free=True)
    solution = solve(
        Problem(skeleton, hands(skeleton, goal)),
        Pose.rest(skeleton),
        method=method,
        max_iterations=ENOUGH.get(method, 60),
        tolerance_position=1e-3,
        tolerance_rotation=1e-2,
    )
    assert solution.status is Status.REACHED, solution.message
    assert_inside(skeleton, solution.pose.channels)


@pytest.mark.parametrize("method", PREFERRED)
def test_what_is_left_free_goes_to_the_preferred_pose(method: str) -> None:
    """The same pose for all that have a term for it: that nearest to the preferred one."""
    skeleton = planar(4, preferred=0.2)
    problem = Problem(skeleton, (reach(4, [-2.0, 2.0, 0.0]),))
    pose = planar_pose(0.1, 0.5, 0.2, 0.3)
    best = solve(problem, planar_pose(*[0.3] * 4)).pose.channels
    solution = solve(problem, pose, method=method, max_iterations=200)
    assert solution.reached
    # γ² of the wish is left in the errors of NONLINEAR, and the other way round.
    assert_allclose(solution.pose.channels, best, atol=2e-3 if method == "NONLINEAR" else 1e-4)
    free = solve(problem, pose, method=method, redundancy="start")
    assert free.reached
    assert np.abs(free.pose.channels - best).max() > 1e-2


@each_differential
def test_limits_hold_in_every_step_and_others_take_over(method: str) -> None:
    skeleton = planar(5, lower=-0.35, upper=0.5)
    target = forward_kinematics(skeleton, planar_pose(0.5, 0.5, 0.5, -0.1, 0.3)).point(4, tip())
    seen: list[Array] = []

    def note(iteration: int, values: Array) -> bool:
        seen.append(values)
        return False

    # The shortest way bends the first joints beyond their limits.
    solution = solve(
        Problem(skeleton, (reach(5, target),)),
        planar_pose(-0.2, 0.4, 0.0, 0.0, 0.0),
        method=method,
        callback=note,
        max_iterations=ENOUGH.get(method, 100),
        tolerance_position=1e-3,
        redundancy="start",
    )
    assert solution.reached, solution.message
    assert seen
    assert all(((values >= -0.35) & (values <= 0.5)).all() for values in seen)


@each_rule
def test_what_a_limit_takes_from_a_step_the_others_make_up_for_in_the_same_step(method: str) -> None:
    """Near the target the first step leaves little but what is of second order, limit or no limit."""
    angles = np.array([0.3, 0.4, 0.3, 0.4])
    free = planar(4)
    start = planar_pose(*angles)
    away = np.array([-0.03, 0.015, 0.0])
    target = forward_kinematics(free, start).point(3, tip()) + away

    def stepped(skeleton: Skeleton) -> tuple[Array, float]:
        problem = Problem(skeleton, (reach(4, target),))
        solution = solve(problem, start, method=method, max_iterations=1, redundancy="start")
        return solution.pose.channels[:, 5] - angles, solution.errors[0].error

    change, _ = stepped(free)
    most = int(np.abs(change).argmax())
    bound = np.full((4, 6), np.inf)
    bound[most, 5] = abs(angles[most] + 0.3 * change[most])
    upward = change[most] > 0.0
    limited = planar(4, upper=bound) if upward else planar(4, lower=np.where(np.isinf(bound), -np.inf, bound))
    change, left = stepped(limited)
    assert_allclose(angles[most] + change[most], bound[most, 5], atol=1e-12)
    if method != "TRANSPOSE":
        assert left < 0.2 * np.linalg.norm(away)


@each_method
def test_a_limit_that_keeps_the_target_away_is_stood_on_and_told(method: str) -> None:
    skeleton = planar(2, lower=-0.3, upper=0.3)
    solution = solve(
        Problem(skeleton, (reach(2, [-1.0, 1.0, 0.0]),)),
        Pose.rest(skeleton),
        method=method,
        max_iterations=200,
    )
    assert solution.status is Status.SETTLED
    assert_allclose(solution.pose.channels[:, 5], [0.3, 0.3], atol=1e-6)
    assert solution.limited == (("joint.0", 5), ("joint.1", 5))
    assert "at its limits: joint.0" in solution.message


@each_differential
def test_the_error_out_of_reach_is_near_the_least_and_never_rises(method: str) -> None:
    skeleton = planar(3)
    solution = solve(
        Problem(skeleton, (reach(3, [2.0, 3.5, 0.0]),)),
        Pose.rest(skeleton),
        method=method,
        max_iterations=100,
    )
    least = np.linalg.norm([2.0, 3.5]) - 3.0
    assert solution.status in (Status.SETTLED, Status.MAX_ITERATIONS)
    assert least - 1e-9 <= solution.errors[0].error < least + 0.15
    assert np.isfinite(solution.pose.channels).all()
    costs = solution.costs[:, 0]
    allowed = 1e-9 if method in ("TRANSPOSE", "SDLS") else 0.03 * costs[0]  # the band of the null space
    assert (np.diff(np.minimum.accumulate(costs)) <= 0.0).all()
    assert (costs[1:] - np.minimum.accumulate(costs)[:-1] <= allowed).all()


@each_differential
@pytest.mark.parametrize("target", [[0.0, 2.5, 0.0], [0.0, -2.0, 0.0]])
def test_a_stretched_chain_bends_for_a_target_in_line_with_it(method: str, target: list[float]) -> None:
    skeleton = chain(3)
    solution = solve(
        Problem(skeleton, (reach(3, target),)),
        Pose.rest(skeleton),
        method=method,
        max_iterations=ENOUGH.get(method, 60),
        tolerance_position=1e-3,
    )
    assert solution.reached, solution.message


@each_method
def test_nothing_to_do_changes_nothing(method: str, rng: np.random.Generator) -> None:
    skeleton = torso()
    pose = random_pose(rng, skeleton, angle=0.4, only_free=True)
    none = solve(Problem(skeleton, ()), pose, method=method)
    assert_array_equal(none.pose.channels, pose.channels)
    assert none.status is Status.REACHED and none.iterations == 0
    rest = Pose.rest(skeleton)
    preferred = solve(Problem(skeleton, hands(skeleton, rest)), rest, method=method)
    assert_array_equal(preferred.pose.channels, rest.channels)
    met = solve(Problem(skeleton, hands(skeleton, pose)), pose, method=method, redundancy="start")
    assert_array_equal(met.pose.channels, pose.channels)
    assert met.reached
    fixed = chain(3, free=False)
    stuck = solve(Problem(fixed, (reach(3, [1.0, 1.0, 0.0]),)), Pose.rest(fixed), method=method)
    assert_array_equal(stuck.pose.channels, 0.0)
    assert stuck.status is Status.SETTLED
    assert stuck.errors[0].error == pytest.approx(np.sqrt(5.0))


@each_method
def test_twice_the_same_is_the_same_and_the_callback_stops_it(method: str) -> None:
    skeleton = planar(3)
    problem = Problem(skeleton, (reach(3, [1.0, 1.5, 0.0]),))
    counted: list[int] = []
    first, second = (
        solve(
            problem,
            Pose.rest(skeleton),
            method=method,
            max_iterations=200,
            callback=lambda number, _: bool(counted.append(number)),
        )
        for _ in range(2)
    )
    assert counted == 2 * list(range(1, first.iterations + 1))
    assert first.status is Status.REACHED  # it knows when it is done
    assert first.pose.channels.tobytes() == second.pose.channels.tobytes()
    assert first.costs.tobytes() == second.costs.tobytes()
    assert first.iterations == second.iterations and first.message == second.message
    stopped = solve(problem, Pose.rest(skeleton), method=method, callback=lambda number, _: number == 2)
    assert stopped.status is Status.CANCELLED and "cancelled" in stopped.message
    assert stopped.iterations == 2
    assert len(first.costs) == first.iterations + 1


@each_differential
def test_any_tree_with_sliding_joints_and_channels_that_stay_near(method: str) -> None:
    rng = np.random.default_rng(8)
    skeleton = tree(rng, 6, sliding=0.3, deep=True, settings=True)
    goal = random_pose(rng, skeleton, angle=0.4, offset=0.1, only_free=True)
    near = StayNear(channels=goal.channels, over=("joint.0",))
    target = forward_kinematics(skeleton, goal).point("joint.5")
    solution = solve(
        Problem(skeleton, (ReachPoint(joint="joint.5", target=target), near)),
        Pose.rest(skeleton),
        method=method,
        max_iterations=ENOUGH.get(method, 100),
        tolerance_position=1e-3,
        tolerance_rotation=1e-2,
    )
    assert solution.reached, solution.message


# ----------------------------------------------------------------------------------------------------------
# Many frames


def circle(frames: int, times: int = 1) -> Array:
    """A closed path of targets for a chain of three, (F, 3)."""
    angle = 2.0 * np.pi * np.arange(times * frames + 1) / frames
    return np.array([1.2, 1.2, 0.0]) + 0.35 * np.stack([np.cos(angle), np.sin(angle), 0.0 * angle], axis=1)


@each_differential
def test_a_motion_is_followed_frame_by_frame(method: str) -> None:
    skeleton = planar(3, preferred=0.4)
    problem = Problem(skeleton, (reach(3, circle(12)[:4]),))
    poses = Pose.from_channels(np.tile(planar_pose(*[0.4] * 3).channels, (4, 1, 1)))
    options = SolverOptions(method=method, tolerance_position=2e-3, max_iterations=100)
    told: list[float] = []
    together = solve_sequence(problem, poses, options, progress=told.append)
    assert together.reached, together.messages
    assert told[-1] == 1.0
    assert told == sorted(told)
    before = poses[0]
    for frame in (0, 1, 2):
        task = problem.tasks[0].at_frame(frame)
        before = solve(Problem(skeleton, (task,)), before, options).pose
        assert_allclose(together.pose[frame].channels, before.channels, atol=1e-12)
    assert np.abs(np.diff(together.pose.channels, axis=0)).max() < 0.6
    stopped = solve_sequence(problem, poses, options, progress=lambda part: part > 0.4)
    assert stopped.cancelled
    assert 1 <= len(stopped.pose.channels) < 4


def test_with_springs_closed_paths_lead_back_to_the_same_pose_and_without_they_drift() -> None:
    skeleton = planar(3, preferred=0.4)
    poses = Pose.from_channels(np.tile(planar_pose(*[0.4] * 3).channels, (25, 1, 1)))
    problem = Problem(skeleton, (reach(3, circle(12, times=2)),))

    def drift(method: str, **options: Any) -> float:
        channels = solve_sequence(problem, poses, method=method, **options).pose.channels
        return float(np.abs(channels[24] - channels[12]).max())

    assert drift("SPRINGS") < 1e-5
    assert drift("PSEUDO_INVERSE", redundancy="start") > 1e-2


@each_differential
def test_each_by_itself_and_a_tracker_give_the_same(method: str) -> None:
    skeleton = planar(3)
    targets = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0]])
    problem = Problem(skeleton, (reach(3, targets),))
    start = planar_pose(0.2, 0.3, 0.1)
    poses = Pose.from_channels(np.stack([start.channels] * 2))
    each = solve_each(problem, poses, method=method)
    for frame in range(2):
        alone = solve(Problem(skeleton, (reach(3, targets[frame]),)), start, method=method)
        assert_allclose(each.pose[frame].channels, alone.pose.channels, atol=1e-12)
    tracker = Tracker(Problem(skeleton, (reach(3, targets[1]),)), start, method=method)
    assert_allclose(tracker.solve([targets[0]]).pose.channels, each.pose[0].channels, atol=1e-12)


# ----------------------------------------------------------------------------------------------------------
# Clamps, alternate Jacobian, elements


def first_step(method: str, target: list[float], **options: Any) -> Array:
    """Change of the first iteration of a stretched planar chain of three."""
    skeleton = planar(3)
    start = planar_pose(0.1, 0.2, 0.3)
    solution = solve(
        Problem(skeleton, (reach(3, target),)),
        start,
        SolverOptions(method=method, redundancy="start", max_iterations=1, **options),
    )
    return solution.pose.channels[:, 5] - start.channels[:, 5]


@each_rule
def test_the_largest_change_of_an_angle_is_clamped(method: str) -> None:
    assert np.abs(first_step(method, [2.0, -1.0, 0.0], max_angle=0.05)).max() <= 0.05 + 1e-12
    assert np.abs(first_step(method, [2.0, -1.0, 0.0], max_angle=0.8)).max() > 0.06


@each_rule
def test_targets_are_clamped_but_not_in_the_first_step_after_a_jump(method: str) -> None:
    near, far = [-0.9, 2.6, 0.0], [-3.0, 0.5, 0.0]
    assert_array_equal(first_step(method, near, clamp_distance=9.0), first_step(method, near))
    clamped, jumped = (
        np.abs(first_step(method, far, clamp_distance=0.1, clamp_after_jump=jump)).max()
        for jump in (False, True)
    )
    assert 0.0 < clamped < 0.5 * jumped
    assert_array_equal(
        first_step(method, far, clamp_distance=0.1, clamp_after_jump=True), first_step(method, far)
    )


def test_after_a_jump_what_came_nearer_is_added_to_the_clamp_distance() -> None:
    skeleton = planar(3)
    options = SolverOptions(
        method="TRANSPOSE", clamp_distance=0.1, clamp_after_jump=True, max_angle=0.3, redundancy="start"
    )
    problem = Problem(skeleton, (reach(3, [-2.0, 1.5, 0.0]),))
    start = planar_pose(0.1, 0.2, 0.3)[None]
    system = assemble(problem, start)
    loop = StepRuleLoop(system, system.mechanism.values(start)[0], options)
    for number in range(3):
        before = system.errors(loop.at.posed)[0, 0]
        loop.iterate()
        nearer = before - system.errors(loop.at.posed)[0, 0]
        assert nearer > 0.0, number
        assert loop.clamp_distances is not None
        assert_allclose(loop.clamp_distances[0] * skeleton.reach, 0.1 + nearer, atol=1e-12)


@pytest.mark.parametrize("method", sorted(USED_BY["damping"]))
@pytest.mark.parametrize("constant", [False, True])
def test_more_damping_makes_smaller_steps(method: str, constant: bool) -> None:
    light, heavy = (
        np.linalg.norm(first_step(method, [0.3, 2.6, 0.0], damping=damping, constant_damping=constant))
        for damping in (0.1, 1.0)
    )
    assert 0.0 < heavy < 0.8 * light


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("target", [[0.3, 2.6, 0.0], [-0.9, 2.2, 0.0]])
def test_a_step_of_dls_is_that_of_the_paper(constant: bool, target: list[float]) -> None:
    """Jᵀ(JJᵀ + λ²I)⁻¹e with lengths by the reach [Buss2009 eq. 11]; λ constant, or times |e|."""
    skeleton, start = planar(3), planar_pose(0.1, 0.2, 0.3)
    system = assemble(Problem(skeleton, (reach(3, target),)), start[None])
    posed = system.place(system.mechanism.values(start[None]))
    jacobian = system.jacobian(posed)[0] / skeleton.reach
    error = -system.residual(posed)[0] / skeleton.reach
    damping = 0.4 * (1.0 if constant else min(1.0, float(np.linalg.norm(error))))
    inner = jacobian @ jacobian.T + damping**2 * np.eye(3)
    expected = jacobian.T @ np.linalg.solve(inner, error)
    step = first_step("DLS", target, damping=0.4, constant_damping=constant, max_angle=2.0)
    assert_allclose(step, expected, atol=1e-6)


@pytest.mark.parametrize("method", sorted(USED_BY["alternate_jacobian"]))
def test_the_alternate_jacobian_is_that_of_the_target(method: str) -> None:
    """Its first step is the rule's with the target in place of the point; it gets there all the same."""
    usual, other = (first_step(method, [1.0, 2.4, 0.0], alternate_jacobian=on) for on in (False, True))
    assert np.abs(usual - other).max() > 1e-3
    skeleton = planar(3)
    solution = solve(
        Problem(skeleton, (reach(3, [1.0, 2.4, 0.0]),)),
        planar_pose(0.1, 0.2, 0.3),
        method=method,
        alternate_jacobian=True,
        max_iterations=200,
    )
    assert solution.reached


def test_the_jacobian_of_a_target_turns_it_about_the_joints() -> None:
    skeleton, target = planar(3), np.array([1.5, 1.0, 0.0])
    pose = planar_pose(0.3, -0.4, 0.5)[None]
    turn = MatchOrientation(joint=2, target=np.eye(3))
    system = assemble(Problem(skeleton, (reach(3, target, weight=2.0), turn)), pose)
    posed = system.place(system.mechanism.values(pose))
    jacobian = system.alternate_jacobian(posed)
    places = forward_kinematics(skeleton, pose).matrices[0, :, :3, 3]
    expected = 2.0 * np.cross([0.0, 0.0, 1.0], target - places).T  # v × (t − p), [Buss2009 §2]
    assert_allclose(jacobian[0, :3], expected, atol=1e-12)
    assert_array_equal(jacobian[0, 3:], system.jacobian(posed)[0, 3:])


def test_basic_elements_in_space_contain_those_of_the_plane() -> None:
    """The end of the second segment moves as printed, turned by the angles before the element."""
    angles = np.array([0.4, -0.3, 0.7, 0.2])
    skeleton = planar(4)
    pose = planar_pose(*angles)[None]
    mechanism = Mechanism(skeleton, Pose.rest(skeleton, (1,)), range(4))
    rows = basic_elements(mechanism.place(mechanism.values(pose)))[0].reshape(4, 6, 4)
    printed = planar_elements(np.ones(4), angles).reshape(2, 3, 4)
    for element in range(3):
        # Bones lie along y, the paper's segments along x.
        turn = np.pi / 2.0 + angles[:element].sum()
        to_armature = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        assert_allclose(rows[element + 1, :2], to_armature @ printed[:, element], atol=1e-12)


def test_the_alternate_jacobian_is_refused_where_there_is_no_use_for_it() -> None:
    with pytest.raises(
        IKError, match=r"PRIORITY has no use for the alternate Jacobian; these have: DLS, SDLS"
    ):
        SolverOptions(alternate_jacobian=True)
    options = SolverOptions(method="TRANSPOSE", alternate_jacobian=True)
    assert options.uses("alternate_jacobian")
    assert not options.uses("damping")
    with pytest.raises(IKError, match="NONLINEAR has no use"):
        replace(options, method="NONLINEAR")

# SPDX-License-Identifier: GPL-3.0-or-later
"""What the solver promises, one sentence each."""

import json
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from blender_ik_addon import core
from blender_ik_addon.core import (
    METHODS,
    IKError,
    MatchOrientation,
    Pose,
    Problem,
    ReachPoint,
    Skeleton,
    Solution,
    SolverOptions,
    Status,
    StayNear,
    Task,
    forward_kinematics,
    solve,
)
from blender_ik_addon.core.engine.energy import WEIGHT_RATIO
from blender_ik_addon.core.problem.options import Redundancy
from blender_ik_addon.core.problem.system import assemble
from tests.core import builders
from tests.core.builders import (
    HANDS_AND_FEET,
    Array,
    body,
    chain,
    humanoid,
    planar,
    random_rotations,
    tip,
    torso,
    tree,
    upper_body,
)
from tests.core.strategies import rotation_about

each_method = pytest.mark.parametrize("method", ["PRIORITY", "DLS"])

ENOUGH: dict[str, dict[str, Any]] = {
    "PRIORITY": {"restarts": 2},
    "DLS": {"max_iterations": 1000, "redundancy": "start"},
}
"""With what a method comes to rest out of reach."""
FEW = 2
"""Restarts where a target is missed and nothing better is to be found."""


STRICT = 1e-4
"""[m, rad] What a lower level may change of a higher one's error."""

LIMIT = np.radians(60.0)

HANDS = ("hand.L", "hand.R")
EXTREMITIES = (*HANDS_AND_FEET, "head")


def random_pose(rng: np.random.Generator, skeleton: Skeleton, *, angle: float = 1.0) -> Pose:
    """A pose that a solver could have found: channels that are not free are 0."""
    return builders.random_pose(rng, skeleton, angle=angle, only_free=True)


def place(skeleton: Skeleton, pose: Pose, joint: str, point: Array | None = None) -> Array:
    return forward_kinematics(skeleton, pose).point(joint, point)


def reach(joint: str | int, target: Any, **fields: Any) -> ReachPoint:
    return ReachPoint(joint=joint, target=np.asarray(target, dtype=float), **fields)


def tasks_of(
    skeleton: Skeleton, goal: Pose, joints: Sequence[str], *, turned: bool = True
) -> tuple[Task, ...]:
    """Places of some joints in a goal pose, and their orientations."""
    posed = forward_kinematics(skeleton, goal)
    tasks: list[Task] = [reach(joint, posed.point(joint)) for joint in joints]
    if turned:
        orientations = {joint: posed.matrices[skeleton.index(joint), :3, :3] for joint in joints}
        tasks += [MatchOrientation(joint=joint, target=target) for joint, target in orientations.items()]
    return tuple(tasks)


def errors(solution: Solution, count: int | None = None) -> Array:
    return np.array([error.error for error in solution.errors[:count]])


def tip_task(n: int, target: Any, **fields: Any) -> ReachPoint:
    return reach(f"joint.{n - 1}", target, point=tip(), **fields)


def at_rest(skeleton: Skeleton, joint: str) -> Array:
    return place(skeleton, Pose.rest(skeleton), joint)


# ----------------------------------------------------------------------------------------------------------
# Scenes


def far_and_near(skeleton: Skeleton) -> tuple[Task, ...]:
    """Hips that stay, one hand far out of reach, the other in front of the chest."""
    return (
        reach("hips", at_rest(skeleton, "hips")),
        reach("hand.L", [1.5, -1.5, 1.5], priority=1),
        reach("hand.R", [-0.1, -0.4, 1.2], priority=1),
    )


def within_reach(skeleton: Skeleton) -> tuple[Task, ...]:
    """Both hands where and as they are in another pose, the head upright if it can be."""
    goal = random_pose(np.random.default_rng(1), skeleton, angle=0.4)
    return (*tasks_of(skeleton, goal, HANDS), MatchOrientation(joint="head", target=np.eye(3), priority=1))


SCENES: dict[str, tuple[Callable[..., Skeleton], Callable[[Skeleton], tuple[Task, ...]]]] = {
    "within reach": (upper_body, within_reach),
    "out of reach": (torso, far_and_near),
}


@cache
def answer(scene: str, method: str, limit: float | None) -> tuple[Problem, Solution]:
    """A scene solved from rest; several tests ask for it."""
    figure, tasks = SCENES[scene]
    skeleton = figure(limit=limit)
    problem = Problem(skeleton, tasks(skeleton))
    return problem, solve(problem, Pose.rest(skeleton), method=method, restarts=FEW)


each_limit = pytest.mark.parametrize("limit", [None, 0.4], ids=["free", "limits"])
each_scene = pytest.mark.parametrize(
    ("scene", "method"), [("within reach", "PRIORITY"), ("within reach", "DLS"), ("out of reach", "PRIORITY")]
)


# ----------------------------------------------------------------------------------------------------------
# Nothing to do


@each_method
@pytest.mark.parametrize("redundancy", ["preferred", "start"])
def test_a_task_without_weight_changes_nothing(
    method: str, redundancy: Redundancy, rng: np.random.Generator
) -> None:
    skeleton = upper_body()
    pose = random_pose(rng, skeleton, angle=0.3)
    tasks = tasks_of(skeleton, random_pose(rng, skeleton, angle=0.5), ["hand.L"])
    weightless: tuple[Task, ...] = (
        reach("hand.L", [9, 9, 9], weight=0.0),
        reach("hand.R", [9, 9, 9], weight=0.0),
        MatchOrientation(joint="head", target=random_rotations(rng, 1)[0], weight=0.0, priority=2),
        StayNear(channels=np.ones((len(skeleton), 6)), weight=0.0, priority=1),
    )
    without = solve(Problem(skeleton, tasks), pose, method=method, redundancy=redundancy)
    both = solve(Problem(skeleton, tasks + weightless), pose, method=method, redundancy=redundancy)
    assert without.reached
    assert_allclose(both.pose.channels, without.pose.channels, atol=1e-6)


# ----------------------------------------------------------------------------------------------------------
# Reachable and unreachable


@pytest.mark.parametrize("limit", [None, LIMIT], ids=["free", "limits"])
@pytest.mark.parametrize("seed", range(2))
def test_reachable_targets_of_a_figure_are_reached(limit: float | None, seed: int) -> None:
    rng = np.random.default_rng(seed)
    skeleton = humanoid(limit=limit)
    goal = random_pose(rng, skeleton, angle=0.7)
    solution = solve(
        Problem(skeleton, tasks_of(skeleton, goal, EXTREMITIES)),
        Pose.rest(skeleton),
        max_iterations=60,
        redundancy="start",
    )
    assert solution.status is Status.REACHED and solution.reached
    assert errors(solution, 5).max() <= 1e-4 and errors(solution)[5:].max() <= 1e-3


@pytest.mark.parametrize("seed", range(2))
def test_reachable_targets_of_any_tree_are_reached(seed: int) -> None:
    rng = np.random.default_rng(seed)
    skeleton = tree(rng, 20, roots=2, settings=True, deep=True)
    pose = builders.random_pose(rng, skeleton, angle=0.5)
    goal = pose.with_channels(pose.channels + random_pose(rng, skeleton, angle=0.4).channels)
    tips = [skeleton.names[int(joint)] for joint in np.argsort(skeleton.depths)[-3:]]
    solution = solve(Problem(skeleton, tasks_of(skeleton, goal, tips)), pose)
    assert solution.status is Status.REACHED
    posed = forward_kinematics(skeleton, solution.pose)
    wanted = forward_kinematics(skeleton, goal)
    for joint in tips:
        assert_allclose(posed.point(joint), wanted.point(joint), atol=1e-4)


@pytest.mark.parametrize(("n", "redundancy"), [(1, "preferred"), (2, "start"), (5, "preferred")])
def test_out_of_reach_a_chain_stretches_towards_the_target_and_says_so(
    n: int, redundancy: Redundancy
) -> None:
    skeleton = chain(n)
    target = np.array([1.2, -0.4, 0.9]) * n
    pose = random_pose(np.random.default_rng(n), skeleton, angle=0.8)
    problem = Problem(skeleton, (tip_task(n, target, name="hand"),))
    solution = solve(problem, pose, redundancy=redundancy, restarts=FEW)
    assert np.isfinite(solution.pose.channels).all()
    end = place(skeleton, solution.pose, f"joint.{n - 1}", tip())
    distance = np.linalg.norm(target)
    assert_allclose(end, target / distance * n, atol=1e-3)
    assert errors(solution) == pytest.approx([distance - n], abs=1e-5)
    assert solution.status is Status.SETTLED and not solution.reached
    assert "hand" in solution.message and "1 of 1 targets missed" in solution.message


@each_method
@each_limit
def test_out_of_reach_a_limb_stands_still_when_the_target_does(method: str, limit: float | None) -> None:
    upper = np.inf if limit is None else limit
    skeleton = chain(3, lower=-upper, upper=upper)
    problem = Problem(skeleton, (tip_task(3, [2.6, 1.8, -2.3]),))  # at 1.3 times its length
    first = solve(problem, Pose.rest(skeleton), method=method, **ENOUGH[method])
    again = solve(problem, first.pose, method=method, **ENOUGH[method])
    assert first.status is Status.SETTLED
    assert_allclose(again.pose.channels, first.pose.channels, atol=1e-6)


@pytest.mark.parametrize(("tolerance", "reached"), [(0.005, False), (0.02, True)])
def test_reached_is_within_the_tolerance_of_its_kind(tolerance: float, reached: bool) -> None:
    bounds = np.full((1, 6), np.inf)
    bounds[0, 5] = 0.3
    skeleton = planar(1, lower=-bounds, upper=bounds)  # no way round to the target either
    turned = rotation_about(np.array([0.0, 0.0, 1.0]), 0.31)
    place_task, turn_task = tip_task(1, [0, 1.01, 0]), MatchOrientation(joint=0, target=turned)
    for task, kind, other in ((place_task, "position", "rotation"), (turn_task, "rotation", "position")):
        tolerances: dict[str, Any] = {
            f"tolerance_{kind}": tolerance,
            f"tolerance_{other}": 1e-6 if reached else 1.0,
        }
        solution = solve(Problem(skeleton, (task,)), Pose.rest(skeleton), **tolerances)
        assert errors(solution)[0] == pytest.approx(0.01, abs=1e-5)
        assert solution.reached is reached and (solution.status is Status.REACHED) is reached


@pytest.mark.parametrize(("n", "part"), [(2, 0.99), (2, 0.05), (4, 0.99975), (1, -1.0), (3, -1.0)])
def test_a_straight_limb_bends_for_a_target_in_line_with_it(n: int, part: float) -> None:
    skeleton = chain(n)
    solution = solve(Problem(skeleton, (tip_task(n, [0, part * n, 0]),)), Pose.rest(skeleton))
    assert solution.status is Status.REACHED


@each_method
@pytest.mark.parametrize(("order", "sign"), [("XYZ", 1.0), ("ZXY", -1.0), ("YZX", 1.0)])
def test_gimbal_lock_neither_stalls_nor_spins(method: str, order: str, sign: float) -> None:
    skeleton = chain(1, orders=order)
    channels = np.zeros((1, 6))
    middle = 3 + "XYZ".index(order[1])
    channels[0, middle] = sign * 0.5 * np.pi
    pose = Pose.from_channels(channels)
    locked = forward_kinematics(skeleton, pose).matrices[0, :3, :3]
    last = "XYZ".index(order[0])  # turned first: at lock the axis across the other two is lost
    lost = locked @ np.eye(3)[{0, 1, 2}.difference([last, middle - 3]).pop()]
    target = rotation_about(lost, 0.4) @ locked
    solution = solve(Problem(skeleton, (MatchOrientation(joint=0, target=target),)), pose, method=method)
    assert solution.status is Status.REACHED
    assert np.abs(solution.pose.channels - channels).max() < np.pi


# ----------------------------------------------------------------------------------------------------------
# The run


def contrary() -> tuple[Task, ...]:
    """Three places one above the other, none of which leaves room for the next."""
    return (
        reach("hips", [-0.9, 1.7, 1.7]),
        reach("chest", [1.2, 1.0, 1.4], priority=1),
        reach("forearm.R", [0.7, 0.9, -0.9], priority=2),
    )


def test_costs_end_with_those_of_the_pose() -> None:
    skeleton = torso()
    problem = Problem(skeleton, contrary())
    for most in (2, 4, 8):
        solution = solve(problem, Pose.rest(skeleton), max_iterations=most, restarts=FEW)
        system = assemble(problem, solution.pose[None])
        residual = system.residual(system.place(system.mechanism.values(solution.pose[None])))[0]
        levels = system.level_of_task[system.task_of_row]
        norms = [np.linalg.norm(residual[levels == level]) / skeleton.reach for level in np.unique(levels)]
        assert_allclose(np.sqrt(2.0 * solution.costs[-1]), norms, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("seed", range(2))
def test_limits_are_never_violated_not_even_during_the_run(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bare = upper_body()
    middle = rng.uniform(-0.5, 0.5, (len(bare), 6))
    half = rng.uniform(0.0, 0.5, (len(bare), 6))  # many of these ranges do not contain 0, some are a point
    half[rng.random(half.shape) < 0.1] = 0.0
    skeleton = replace(bare, lower=middle - half, upper=middle + half)
    start = random_pose(rng, bare, angle=2.0)  # outside of them too
    problem = Problem(skeleton, tasks_of(skeleton, random_pose(rng, skeleton), ["hand.L", "hand.R", "head"]))
    mechanism = assemble(problem, Pose(start.channels[None], start.scale[None])).mechanism
    lower, upper = mechanism.of_channels(skeleton.lower), mechanism.of_channels(skeleton.upper)
    seen: list[Array] = []

    def note(iteration: int, values: Array) -> bool:
        seen.append(values.copy())
        return False

    solution = solve(problem, start, callback=note, max_iterations=10)
    assert seen
    for values in (*seen, mechanism.values(solution.pose)):
        assert (values >= lower).all() and (values <= upper).all()  # exactly


@pytest.mark.parametrize("most", [1, 2])
def test_when_iterations_run_out_the_best_pose_so_far_is_given(most: int) -> None:
    skeleton = torso()
    tasks = far_and_near(skeleton)
    options = SolverOptions(max_iterations=most)
    solution = solve(Problem(skeleton, tasks), Pose.rest(skeleton), options)
    assert solution.status is Status.MAX_ITERATIONS
    assert f"stopped after {solution.iterations} iterations" in solution.message
    levels = [[0], [1, 2]]
    descents = 2 * len(levels) + options.restarts + 3
    assert most <= solution.iterations <= most * descents  # the limit is that of each
    end = errors(solution)
    start = np.array(
        [
            np.linalg.norm(at_rest(skeleton, str(task.joint)) - task.target)
            for task in tasks
            if isinstance(task, ReachPoint)
        ]
    )
    for level in levels:
        assert np.linalg.norm(end[level]) <= np.linalg.norm(start[level]) + STRICT
    assert np.linalg.norm(end) < np.linalg.norm(start)


def rigidly_moved(tasks: Sequence[Task], motion: Array) -> tuple[Task, ...]:
    """Targets moved by (4, 4)."""
    moved: list[Task] = []
    for task in tasks:
        if isinstance(task, ReachPoint):
            moved.append(replace(task, target=motion[:3, :3] @ task.target + motion[:3, 3]))
        elif isinstance(task, MatchOrientation):
            moved.append(replace(task, target=motion[:3, :3] @ task.target))
    return tuple(moved)


MOTION = np.eye(4)
MOTION[:3, :3] = rotation_about(np.array([0.6, 0.0, 0.8]), 2.0)
MOTION[:3, 3] = 0.7, -1.1, 0.4


@each_scene
@each_limit
def test_moving_the_whole_scene_rigidly_moves_the_answer_rigidly(
    scene: str, method: str, limit: float | None
) -> None:
    """So rounding does not decide which pose is found."""
    problem, still = answer(scene, method, limit)
    rest = np.array(problem.skeleton.rest)
    rest[0] = MOTION @ rest[0]
    skeleton = replace(problem.skeleton, rest=rest)
    moved = Problem(skeleton, rigidly_moved(problem.tasks, MOTION))
    found = solve(moved, Pose.rest(skeleton), method=method, restarts=FEW)
    expected = MOTION @ forward_kinematics(problem.skeleton, still.pose).matrices
    assert_allclose(forward_kinematics(skeleton, found.pose).matrices, expected, atol=STRICT)
    assert_allclose(errors(found), errors(still), atol=STRICT)


@each_scene
@each_limit
def test_a_figure_in_centimetres_takes_the_pose_of_one_in_metres(
    scene: str, method: str, limit: float | None
) -> None:
    problem, small = answer(scene, method, limit)
    figure, _ = SCENES[scene]
    skeleton = figure(limit=limit, scale=100.0)
    tasks = [
        replace(task, target=100.0 * task.target) if isinstance(task, ReachPoint) else task
        for task in problem.tasks
    ]
    unit = 100.0 * SolverOptions().tolerance_position
    large = solve(
        Problem(skeleton, tasks), Pose.rest(skeleton), method=method, tolerance_position=unit, restarts=FEW
    )
    in_metres = large.pose.channels / [100.0, 100.0, 100.0, 1.0, 1.0, 1.0]
    assert_allclose(in_metres, small.pose.channels, atol=STRICT)
    assert large.status is small.status


# ----------------------------------------------------------------------------------------------------------
# Priorities


def arm_length(figure: Skeleton) -> float:
    """From the hips to the hand when all is stretched [m]."""
    chain_of_hand = figure.ancestors(figure.index("hand.L"))[:-1]
    return float(np.linalg.norm(figure.rest[chain_of_hand, :3, 3], axis=1).sum())


HIGHER: dict[str, Callable[[Skeleton], list[Task]]] = {
    "reachable": lambda figure: [
        reach("hips", at_rest(figure, "hips")),
        MatchOrientation(joint="hips", target=np.eye(3)),
        reach("hand.L", [0.3, -0.35, 1.2]),
    ],
    "out of reach": lambda figure: [
        reach("hips", at_rest(figure, "hips")),
        reach("hand.L", [1.0, -2.0, 2.0]),
    ],
    "contradictory": lambda figure: [
        reach("hips", at_rest(figure, "hips")),
        reach("hand.L", [0.4, -0.2, 1.2]),
        reach("hand.L", [0.4, -0.4, 1.4]),
    ],
    # Just as far away as it can reach.
    "singular": lambda figure: [
        reach("hips", at_rest(figure, "hips"), priority=0),
        reach(
            "hand.L", at_rest(figure, "hips") + arm_length(figure) * np.array([0.0, -0.6, 0.8]), priority=1
        ),
    ],
}

LOWER: dict[str, Callable[[Skeleton], list[Task]]] = {
    "near": lambda figure: [reach("hand.R", [-0.3, -0.4, 1.2], priority=2)],
    "far": lambda figure: [
        reach("hand.R", [-2.0, 1.0, -1.0], priority=2),
        reach("chest", [0.5, -1.0, 0.2], priority=2),
    ],
    "against": lambda figure: [
        reach("hand.L", [-1.0, 1.0, 0.5], priority=2, weight=10.0),
        MatchOrientation(joint="hips", target=np.diag([-1.0, -1.0, 1.0]), priority=4),
    ],
}


@cache
def errors_alone(higher: str, limit: float | None) -> Array:
    """Errors of the higher levels at convergence without lower ones."""
    skeleton = torso(limit=limit)
    problem = Problem(skeleton, tuple(HIGHER[higher](skeleton)))
    solution = solve(problem, Pose.rest(skeleton), restarts=FEW)
    assert solution.status in (Status.REACHED, Status.SETTLED), solution.message
    return errors(solution)


@pytest.mark.parametrize(
    ("higher", "lower", "limit"),
    [
        ("reachable", "near", None),
        ("out of reach", "far", 0.8),
        ("contradictory", "far", None),
        ("contradictory", "against", 0.8),
        ("singular", "near", None),
        ("singular", "far", 0.8),
    ],
)
def test_lower_levels_change_no_higher_error(higher: str, lower: str, limit: float | None) -> None:
    skeleton = torso(limit=limit)
    tasks = (*HIGHER[higher](skeleton), *LOWER[lower](skeleton))
    solution = solve(Problem(skeleton, tasks), Pose.rest(skeleton), restarts=FEW)
    assert solution.status is Status.SETTLED or solution.reached  # conflicting levels come to rest
    alone = errors_alone(higher, limit)
    found = errors(solution, len(alone))
    # Levels below pull with a part of its strength. A level that is missed gives way by the square of that.
    # Of each level together: who misses how much of it is nearly free where its tasks contradict each other.
    for level in {task.priority for task in HIGHER[higher](skeleton)}:
        own = [task.priority == level for task in HIGHER[higher](skeleton)]
        assert np.linalg.norm(found[own]) == pytest.approx(np.linalg.norm(alone[own]), abs=WEIGHT_RATIO**-2)


@pytest.mark.parametrize("seed", [2, 5, 34, 122, 372, 391, 466, 571, 614, 682])
def test_limbs_on_limits_that_reach_for_what_they_cannot_meet_come_to_rest(seed: int) -> None:
    """They rest in a third of the iterations that there are, and do not move when they are solved again."""
    rng, skeleton = np.random.default_rng(seed), body(limit=0.5)
    rest = forward_kinematics(skeleton, Pose.rest(skeleton))
    tasks = [
        reach(joint, rest.point(joint) + 0.5 * rng.normal(size=3), priority=int(rng.integers(0, 3)))
        for joint in HANDS_AND_FEET
    ]
    problem = Problem(skeleton, tasks)
    first = solve(problem, Pose.rest(skeleton), restarts=0)
    assert first.status in (Status.SETTLED, Status.REACHED)  # in another minimum one of them is met
    again = solve(problem, first.pose, restarts=0)
    assert_array_equal(again.pose.channels, first.pose.channels)


@pytest.mark.parametrize("seed", [24, 29, 39, 59])
def test_the_pose_that_is_found_does_not_hang_on_where_the_body_was(seed: int) -> None:
    rng, skeleton = np.random.default_rng(seed), body(limit=None if seed % 2 else 1.0)

    def bent() -> Pose:
        channels = np.zeros((len(skeleton), 6))
        channels[:, 3:] = rng.uniform(-0.9, 0.9, (len(skeleton), 3)) * skeleton.free[:, 3:]
        return Pose.from_channels(channels)

    placed = forward_kinematics(skeleton, bent())
    problem = Problem(skeleton, [reach(joint, placed.point(joint)) for joint in HANDS_AND_FEET])
    moving = problem.moving_joints
    found = [solve(problem, start).pose.channels[moving] for start in (Pose.rest(skeleton), bent())]
    assert_allclose(found[1], found[0], rtol=0.0, atol=1e-4)


@pytest.mark.parametrize("seed", [60, 98, 152, 154, 156])
def test_a_pose_that_random_starts_have_found_stays_as_it_is_written(seed: int) -> None:
    rng, skeleton = np.random.default_rng(seed), body(limit=1.0)
    rng.uniform()
    room = (rng.uniform(0.1, 1.4, (len(skeleton), 6)) for _ in range(2))
    free = np.isfinite(skeleton.lower)
    lower, upper = (
        np.where(free, sign * own, bound)
        for sign, own, bound in zip((-1.0, 1.0), room, (skeleton.lower, skeleton.upper), strict=True)
    )
    skeleton = replace(skeleton, lower=lower, upper=upper)
    channels = np.zeros((len(skeleton), 6))
    angles = rng.uniform(np.maximum(lower[:, 3:], -2.5), np.minimum(upper[:, 3:], 2.5))
    channels[:, 3:] = angles * skeleton.free[:, 3:]
    placed = forward_kinematics(skeleton, Pose.from_channels(channels))
    tasks: list[Task] = []
    for joint in HANDS_AND_FEET:
        rotation = placed.matrices[skeleton.index(joint)][:3, :3]
        tasks += [reach(joint, placed.point(joint)), MatchOrientation(joint, rotation)]
    problem = Problem(skeleton, tasks)
    found = solve(problem, Pose.rest(skeleton))
    again = solve(problem, found.pose)
    assert_allclose(again.pose.channels, found.pose.channels, rtol=0.0, atol=1e-5)


def test_within_a_level_weights_decide() -> None:
    skeleton = Skeleton.build(["body"], [None], offsets=np.zeros((1, 3)), free=[True] * 3 + [False] * 3)
    first, second = reach(0, [1, 0, 0], weight=2.0), reach(0, [0, 1, 0], weight=1.0)
    solution = solve(Problem(skeleton, (first, second)), Pose.rest(skeleton))
    # The mean by weight², but for what the posture pulls: a thousandth of the strength of the last level.
    assert_allclose(solution.pose.translation[0], [0.8, 0.2, 0.0], atol=1e-3)


def test_damped_least_squares_knows_no_priorities() -> None:
    problem, by_level = answer("out of reach", "DLS", None)
    flat = tuple(replace(task, priority=0) for task in problem.tasks)
    together = solve(Problem(problem.skeleton, flat), Pose.rest(problem.skeleton), method="DLS")
    assert_allclose(by_level.pose.channels, together.pose.channels, atol=1e-6)


# ----------------------------------------------------------------------------------------------------------
# Tasks


def test_only_the_axes_that_are_on_matter() -> None:
    skeleton = humanoid()
    turn = rotation_about(np.array([0.0, 0.0, 1.0]), 0.5)
    task = reach("hand.L", [9.0, -0.3, 9.0], axes=(False, True, False), armature_from_axes=turn)
    solution = solve(Problem(skeleton, (task,)), Pose.rest(skeleton))
    assert solution.status is Status.REACHED
    away = turn.T @ (place(skeleton, solution.pose, "hand.L") - task.target)
    assert abs(away[1]) <= 1e-4
    assert errors(solution)[0] == pytest.approx(abs(away[1]), abs=1e-12)


def test_turning_about_an_axis_that_is_off_costs_nothing() -> None:
    skeleton = chain(1)
    target = rotation_about(np.array([0.0, 0.0, 1.0]), 1.0)
    task = MatchOrientation(joint=0, target=target, axes=(True, True, False))
    solution = solve(Problem(skeleton, (task,)), Pose.rest(skeleton))
    assert_array_equal(solution.pose.channels, np.zeros((1, 6)))
    assert solution.reached


def test_stay_near_takes_channels_to_their_values(rng: np.random.Generator) -> None:
    skeleton = humanoid()
    wanted = random_pose(rng, skeleton)
    task = StayNear(channels=wanted.channels, over=("hand.L",), axes=(True, True, True, True, False, True))
    solution = solve(Problem(skeleton, (task,)), Pose.rest(skeleton))
    hand = skeleton.index("hand.L")
    assert_allclose(solution.pose.channels[hand, [3, 5]], wanted.channels[hand, [3, 5]], atol=1e-3)
    others = np.delete(np.arange(len(skeleton) * 6), [hand * 6 + 3, hand * 6 + 5])
    assert not solution.pose.channels.ravel()[others].any()


@pytest.mark.parametrize("length", [1.0, 100.0], ids=["metres", "centimetres"])
def test_channels_that_slide_weigh_as_places_do(length: float) -> None:
    skeleton = chain(2, length=length, free=[[True] * 3 + [False] * 3, [False] * 6])
    wanted = np.zeros((2, 6))
    wanted[0, 0] = length
    tasks = (StayNear(channels=wanted, over=(0,), weight=2.0), reach(0, [0, length, 0]))
    solution = solve(Problem(skeleton, tasks), Pose.rest(skeleton))
    assert_allclose(solution.pose.translation[0] / length, [0.8, 0.2, 0.0], atol=1e-3)


# ----------------------------------------------------------------------------------------------------------
# The preferred pose


def spring_gradient_left(problem: Problem, solution: Solution) -> Array:
    """Gradient of ½Σk(q − preferred)² that no task holds against, on the channels that are free, (nv,)."""
    system = assemble(problem, Pose(solution.pose.channels[None], solution.pose.scale[None]))
    values = system.mechanism.values(solution.pose)
    jacobian = system.jacobian(system.place(values[None]))[0]
    inside = (values > system.lower) & (values < system.upper)
    gradient = ((values - system.preferred) / (1.0 - system.stiffness))[inside]
    held = jacobian[:, inside]
    return gradient - held.T @ np.linalg.lstsq(held.T, gradient, rcond=1e-9)[0]


@pytest.mark.parametrize("seed", range(4))
def test_what_tasks_leave_free_goes_to_the_preferred_pose(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 6
    skeleton = chain(n, preferred=rng.uniform(-0.3, 0.3, (n, 6)), stiffness=rng.uniform(0.0, 0.9, (n, 6)))
    goal = random_pose(rng, skeleton, angle=0.5)
    problem = Problem(skeleton, (tip_task(n, place(skeleton, goal, "joint.5", tip())),))
    solution = solve(problem, Pose.rest(skeleton), max_iterations=200)
    assert solution.status is Status.REACHED
    assert_allclose(spring_gradient_left(problem, solution), 0.0, atol=1e-4)


@pytest.mark.parametrize("seed", range(2))
def test_the_answer_is_a_function_of_the_targets_not_of_the_way_to_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    skeleton = upper_body()
    problem = Problem(skeleton, tasks_of(skeleton, random_pose(rng, skeleton, angle=0.4), HANDS))
    starts = [Pose.rest(skeleton), *(random_pose(rng, skeleton, angle=0.2) for _ in range(2))]
    first, *others = (solve(problem, start, max_iterations=200) for start in starts)
    assert first.reached
    on_chains = [joint for joint in range(len(skeleton)) if skeleton.names[joint] not in ("neck", "head")]
    for other in others:
        assert_allclose(other.pose.channels[on_chains], first.pose.channels[on_chains], atol=1e-4)


def test_a_stiff_joint_bends_less() -> None:
    stiffness = np.zeros((3, 6))
    stiffness[1] = 0.9
    task = tip_task(3, [-1.0, 2.0, 0.0])
    soft, stiff = (planar(3, stiffness=each) for each in (0.0, stiffness))
    of_soft, of_stiff = (
        solve(Problem(each, (task,)), Pose.rest(each), max_iterations=200) for each in (soft, stiff)
    )
    assert of_soft.reached and of_stiff.reached
    bend = [abs(solution.pose.channels[1, 5]) for solution in (of_soft, of_stiff)]
    assert bend[1] < 0.5 * bend[0]


def test_without_a_preference_channels_stay_where_they_are(rng: np.random.Generator) -> None:
    skeleton = humanoid(preferred=np.nan)
    pose = random_pose(rng, skeleton)
    solution = solve(Problem(skeleton, tasks_of(skeleton, pose, ["hand.L", "foot.R"])), pose)
    assert_array_equal(solution.pose.channels, pose.channels)


# ----------------------------------------------------------------------------------------------------------
# Options and wrong input


def test_the_names_of_the_contract_are_there() -> None:
    names = {
        "Skeleton", "Pose", "forward_kinematics", "ReachPoint", "MatchOrientation", "StayNear", "Problem",
        "SolverOptions", "solve", "Solution", "solve_sequence", "SequenceSolution", "IKError",
    }  # fmt: skip
    assert names <= set(core.__all__)
    for name in core.__all__:
        assert getattr(core, name) is not None
    assert {"PRIORITY", "DLS"} <= set(METHODS)
    assert SolverOptions().method == "PRIORITY"
    assert {"pose", "status", "message", "iterations", "errors"} <= {field.name for field in fields(Solution)}


def test_options_are_overridden_by_keyword() -> None:
    problem, _ = answer("within reach", "DLS", None)
    rest = Pose.rest(problem.skeleton)
    overridden = solve(problem, rest, SolverOptions(max_angle=0.3), method="DLS")
    expected = solve(problem, rest, SolverOptions(method="DLS", max_angle=0.3))
    assert_array_equal(overridden.pose.channels, expected.pose.channels)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_iterations", 0),
        ("tolerance_position", 0.0),
        ("tolerance_rotation", -1.0),
        ("step_tolerance", np.nan),
        ("max_angle", np.inf),
        ("damping", 0.0),
        ("clamp_distance", 0.0),
        ("clamp_distance", np.nan),
        ("gamma", -1.0),
        ("element_weight", 0.0),
        ("null_space_gain", np.nan),
    ],
)
def test_wrong_options_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(IKError, match=f"{field}.*{value}"):
        SolverOptions(**{field: value})


def test_an_unknown_method_lists_the_methods_there_are() -> None:
    with pytest.raises(IKError, match=r"'NEWTON'.*PRIORITY, DLS"):
        SolverOptions(method="NEWTON")


NOT_FINITE = [np.nan, np.inf]


@pytest.mark.parametrize("value", NOT_FINITE)
def test_targets_that_are_not_finite_are_refused_by_name(value: float) -> None:
    with pytest.raises(IKError, match=r"position of hand\.L: target.*finite"):
        reach("hand.L", [0, value, 0])
    with pytest.raises(IKError, match=r"position of hand\.L: point.*finite"):
        reach("hand.L", [0, 0, 0], point=np.array([value, 0, 0]))
    with pytest.raises(IKError, match=r"grip: target is not finite"):
        MatchOrientation(joint="hand.L", target=np.full((3, 3), value), name="grip")
    with pytest.raises(IKError, match=r"stay near: .*finite"):
        StayNear(channels=np.full((4, 6), value))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: reach("a", [0, 0]), r"position of a: target.*\(2,\)"),
        (lambda: reach("a", np.zeros((2, 2, 3))), r"position of a: target.*\(2, 2, 3\)"),
        (lambda: reach("a", [0, 0, 0], point=np.zeros((4, 3))), r"position of a: point.*\(4, 3\)"),
        (lambda: reach("a", [0, 0, 0], axes=(False,) * 3), r"position of a: at least one"),
        (lambda: reach("a", [0, 0, 0], weight=-1.0), r"position of a: weight.*-1"),
        (lambda: reach("a", [0, 0, 0], weight=np.nan), r"position of a: weight.*nan"),
        (lambda: reach("a", [0, 0, 0], priority=-1), r"position of a: priority.*-1"),
        (lambda: reach("a", [0, 0, 0], priority=0.5), r"position of a: priority.*0\.5"),
        (lambda: MatchOrientation(joint="a", target=np.eye(2)), r"orientation of a: target.*\(2, 2\)"),
        (lambda: MatchOrientation(joint="a", target=2 * np.eye(3)), r"orientation of a: .*not a rotation"),
        (lambda: MatchOrientation(joint="a", target=np.diag([1.0, 1, -1])), r"orientation of a: .*not a rot"),
        (lambda: StayNear(channels=np.zeros(6)), r"stay near: channels.*\(6,\)"),
        (lambda: StayNear(channels=np.zeros((3, 6)), axes=(True, True)), r"stay near: .*6 axes"),
        (
            lambda: reach("a", np.zeros((3, 3)), armature_from_axes=np.tile(np.eye(3), (2, 1, 1))),
            r"position of a: .*3 frames.*2",
        ),
    ],
)
def test_wrong_tasks_are_refused_by_name(make: Callable[[], Task], message: str) -> None:
    with pytest.raises(IKError, match=message):
        make()


def test_a_task_for_a_joint_that_is_not_there_lists_those_that_are() -> None:
    skeleton = chain(2)
    for task in (
        reach("hand", [0, 0, 0]),
        MatchOrientation(joint="hand", target=np.eye(3)),
        StayNear(channels=np.zeros((2, 6)), over=("hand",)),
    ):
        with pytest.raises(IKError, match=r"'hand'.*joint\.0, joint\.1"):
            Problem(skeleton, (task,))
    with pytest.raises(IKError, match=r"joint 7.*2 joints"):
        Problem(skeleton, (reach(7, [0, 0, 0]),))
    with pytest.raises(IKError, match=r"stay near: .*3 joints.*has 2"):
        Problem(skeleton, (StayNear(channels=np.zeros((3, 6))),))


@pytest.mark.parametrize("name", ["", "same"])
def test_different_numbers_of_frames_are_refused(name: str) -> None:
    tasks = [reach("joint.1", np.zeros((frames, 3)), name=name) for frames in (3, 4)]
    with pytest.raises(IKError, match=r"3.*4"):
        Problem(chain(2), tuple(tasks))


@pytest.mark.parametrize(
    ("tasks", "pose", "message"),
    [
        ((reach("joint.1", np.zeros((5, 3))),), Pose.rest(chain(2)), r"5 frames.*1"),
        ((), Pose.rest(chain(2), (3,)), r"\(3,\).*solve_sequence"),
        ((), Pose.rest(chain(3)), r"\(1, 3, 6\).*\(frames, 2, 6\)"),
        (
            (tip_task(2, [1, 0, 0]),),
            Pose(np.zeros((2, 6)), np.array([[1.0, 2, 1], [1, 1, 1]])),  # it would be sheared
            r"'joint\.1' cannot turn.*'joint\.0'",
        ),
    ],
)
def test_poses_that_do_not_fit_are_refused(tasks: tuple[Task, ...], pose: Pose, message: str) -> None:
    with pytest.raises(IKError, match=message):
        solve(Problem(chain(2), tasks), pose)


# ----------------------------------------------------------------------------------------------------------
# Data by others


def load(folder: Path, name: str) -> Any:
    file = folder / "ik" / name
    if not file.exists():
        pytest.skip(f"POISE_DATA has no ik/{name}")
    return json.loads(file.read_text())


def human36(bodies: list[dict[str, Any]]) -> Skeleton:
    """Its convention R = Ry Rx Rz is Blender's order ZXY."""
    letters = np.array([list("xyzXYZ")])
    return Skeleton.build(
        [body["name"] for body in bodies],
        [body["parent"] for body in bodies],
        offsets=[body["offset"] for body in bodies],
        orders="ZXY",
        free=[[letter in body["dof"] for letter in letters[0]] for body in bodies],
    )


@pytest.mark.parametrize("kind", ["position", "orientation", "both"])
def test_human36_is_reached_ten_times_out_of_ten(kind: str, data_folder: Path) -> None:
    data = load(data_folder, "human36.json")
    skeleton = human36(data["bodies"])
    options = SolverOptions(
        tolerance_position=1e-9,
        tolerance_rotation=1e-9,
        step_tolerance=1e-13,
        redundancy="start",
        max_iterations=200,
    )
    missed: list[str] = []
    for number, case in enumerate(data["cases"]):
        tasks: list[Task] = []
        for target in case["targets"]:
            body, point = target["body"], np.array(target["local_point"], dtype=float)
            if kind != "orientation":
                tasks.append(reach(body, target["position"], point=point))
            if kind != "position":
                tasks.append(MatchOrientation(joint=body, target=np.array(target["orientation_rows"])))
        solution = solve(Problem(skeleton, tuple(tasks)), Pose.rest(skeleton), options)
        if np.linalg.norm(errors(solution)) > 1e-9:
            missed.append(f"case {number}: {solution.message}")
    assert not missed


def test_odd_tree_shapes_do_no_harm(data_folder: Path) -> None:
    for case in load(data_folder, "fabrik_topologies.json")["cases"]:
        if "parent" not in case:
            continue  # two large ones are described in words
        n = len(case["parent"])
        offsets = np.random.default_rng(n).normal(size=(n, 3))
        skeleton = Skeleton.build([f"node {i}" for i in range(n)], case["parent"], offsets=offsets)
        tasks = [reach(int(node), [0.5, 0.5, 0.5]) for node in case["effectors"]]
        solution = solve(Problem(skeleton, tuple(tasks)), Pose.rest(skeleton))
        assert np.isfinite(solution.pose.channels).all(), case["name"]


@pytest.mark.parametrize("weight", [1e-6, 1e3])
def test_the_weight_of_a_whole_level_changes_nothing(weight: float) -> None:
    skeleton = torso()
    far = reach("hand.L", [3.0, 0.5, 1.0], priority=1)
    hold = reach("hand.R", place(skeleton, Pose.rest(skeleton), "hand.R"), name="hold")
    plain, other = (
        solve(Problem(skeleton, (each, far)), Pose.rest(skeleton), restarts=FEW)
        for each in (hold, replace(hold, weight=weight))
    )
    assert other.errors[0].reached
    assert_allclose(errors(other), errors(plain), atol=STRICT)


def test_options_that_do_not_exist_are_refused_by_name() -> None:
    skeleton = planar(1)
    with pytest.raises(IKError, match=r"max_iteration.*max_iterations"):
        solve(Problem(skeleton, ()), Pose.rest(skeleton), max_iteration=3)  # pyright: ignore[reportCallIssue]
    with pytest.raises(IKError, match="whole number"):
        SolverOptions(max_iterations=3.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(IKError, match="restarts"):
        SolverOptions(restarts=-1)


def test_a_body_far_from_its_targets_reaches_them() -> None:
    skeleton, rng = humanoid(limit=LIMIT), np.random.default_rng(3)
    hips, rest = skeleton.index("hips"), Pose.rest(skeleton)
    for _ in range(4):
        channels = np.zeros((len(skeleton), 6))
        channels[:, 3:] = rng.uniform(-0.6, 0.6, (len(skeleton), 3))
        channels[hips] = *rng.uniform(-0.5, 0.5, 3), *rng.uniform(-3.0, 3.0, 3)
        placed = forward_kinematics(skeleton, Pose.from_channels(channels))
        goals = tuple(ReachPoint(joint=name, target=placed.point(name)) for name in EXTREMITIES)
        assert solve(Problem(skeleton, goals), rest).reached


def test_targets_that_the_nearest_minimum_misses_are_met_from_other_starts() -> None:
    """Of the starts the lower ones go on: with those that are higher all of these are missed."""
    plain, reached = body(), 0
    for seed in (71, 177, 204):
        rng = np.random.default_rng(seed)
        width = np.radians(rng.uniform(20.0, 120.0, (len(plain), 3)))
        below = rng.choice([0.0, 0.1, 0.5, 0.9, 1.0], size=width.shape)
        lower, upper = np.array(plain.lower), np.array(plain.upper)
        lower[:, 3:], upper[:, 3:] = -width * below, width * (1.0 - below)
        skeleton = replace(plain, lower=lower, upper=upper)
        channels = np.zeros((len(plain), 6))
        channels[:, 3:] = rng.uniform(lower[:, 3:], upper[:, 3:]) * plain.free[:, 3:]
        aim = forward_kinematics(skeleton, Pose.from_channels(channels))
        frames = {joint: aim.matrices[skeleton.index(joint)] for joint in EXTREMITIES}
        tasks = (
            *(ReachPoint(joint, frame[:3, 3]) for joint, frame in frames.items()),
            *(MatchOrientation(joint, frame[:3, :3]) for joint, frame in frames.items()),
        )
        reached += solve(Problem(skeleton, tasks), Pose.rest(skeleton)).reached
    assert reached >= 2  # rounding may decide one of them

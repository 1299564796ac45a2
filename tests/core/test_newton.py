# SPDX-License-Identifier: GPL-3.0-or-later
"""Attempts to meet all tasks at once: many frames as one by one, at the pose wanted, within limits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from blender_ik_addon.core import (
    MatchOrientation,
    Pose,
    Problem,
    ReachPoint,
    Skeleton,
    SolverOptions,
    Task,
    forward_kinematics,
    solve,
    solve_each,
)
from blender_ik_addon.core.attempts import Attempt, Goal
from blender_ik_addon.core.newton import attempt
from blender_ik_addon.core.objective import Objective
from blender_ik_addon.core.preparing import Criteria
from blender_ik_addon.core.system import assemble
from tests.core.builders import Array, chain, random_pose, tip, tree, upper_body
from tests.core.in_turn import in_turn

LIMIT = 0.6
HANDS = ("hand.L", "hand.R")
TOLERANCE = {False: 1e-4, True: 1e-3}
"""[m] and [rad], those of the options."""


@dataclass(frozen=True)
class Prepared:
    """A problem ready to be attempted."""

    problem: Problem
    poses: Pose
    objective: Objective
    values: Array
    goal: Goal

    def attempted(self, values: Array | None = None, **fields: Any) -> Attempt:
        return attempt(self.objective, self.values if values is None else values, self.goal, **fields)

    def pose(self, values: Array) -> Pose:
        return self.objective.system.mechanism.with_values(self.poses, values)


def prepared(skeleton: Skeleton, tasks: Sequence[Task], poses: Pose, **options: Any) -> Prepared:
    problem, settings = Problem(skeleton, tuple(tasks)), SolverOptions(**options)
    system = assemble(problem, poses)
    objective = Objective(system, merged=settings.method == "DLS", clamp_distance=None)
    return Prepared(
        problem, poses, objective, system.mechanism.values(poses), Criteria.of(objective, settings).goal
    )


def tasks_at(skeleton: Skeleton, goals: Pose, joints: Sequence[str], turned: Sequence[str]) -> list[Task]:
    """Places of some joints and orientations of some in goal poses, on two levels."""
    posed = forward_kinematics(skeleton, goals)
    tasks: list[Task] = [ReachPoint(joint=joint, target=posed.point(joint)) for joint in joints]
    for joint in turned:
        axes = posed.matrices[..., skeleton.index(joint), :3, :3]
        target = axes / np.cbrt(np.linalg.det(axes))[..., None, None]
        tasks.append(MatchOrientation(joint=joint, target=target, priority=1))
    return tasks


def figure(frames: int = 40, **options: Any) -> Prepared:
    """Both hands, one with orientation, where limits allow it, from rest."""
    skeleton = upper_body(limit=LIMIT)
    goals = random_pose(np.random.default_rng(3), skeleton, angle=LIMIT, frames=(frames,), only_free=True)
    return prepared(
        skeleton, tasks_at(skeleton, goals, HANDS, HANDS[:1]), Pose.rest(skeleton, (frames,)), **options
    )


def animated(frames: int = 12) -> Prepared:
    """A chain whose fixed channels and scale differ by frame."""
    skeleton = chain(5, free=[[False] * 6, *[[False] * 3 + [True] * 3] * 4], lower=-1.2, upper=1.2)
    rng = np.random.default_rng(8)
    goals = random_pose(rng, skeleton, angle=0.7, offset=0.2, frames=(frames,))
    goals = Pose(goals.channels, np.repeat(rng.uniform(0.8, 1.25, (frames, 5, 1)), 3, axis=2))
    rest = np.where(skeleton.free, 0.0, goals.channels)
    return prepared(skeleton, tasks_at(skeleton, goals, ["joint.4"], ["joint.3"]), Pose(rest, goals.scale))


def arm(targets: Any, **options: Any) -> Prepared:
    """The end of four straight bones from (0, 4, 0) to places (F, 3)."""
    places = np.asarray(targets, dtype=float)
    skeleton = chain(4)
    task = ReachPoint(joint="joint.3", target=places, point=tip())
    return prepared(skeleton, [task], Pose.rest(skeleton, (len(places),)), **options)


def limb(joints: int, gaps: Sequence[float]) -> Prepared:
    """The end of a chain that prefers to be bent, at places that leave it shorter than straight by gaps."""
    preferred = np.zeros((joints, 6))
    preferred[:, 3:] = 0.3, 0.15, -0.21
    skeleton = replace(chain(joints), preferred=preferred)
    places = (joints - np.array(gaps))[:, None] * np.array([0.6, 0.0, 0.8])
    task = ReachPoint(joint=f"joint.{joints - 1}", target=places, point=tip())
    starts = random_pose(np.random.default_rng(2), skeleton, angle=0.4, frames=(len(places),), only_free=True)
    return prepared(skeleton, [task], starts)


def column(joints: int, bend: float, frames: int = 10) -> Prepared:
    """Straight, held at both ends and turned in the middle, although it prefers to be bent [rad]."""
    rng = np.random.default_rng(0)
    preferred = np.zeros((joints, 6))
    preferred[:, 3:] = bend * rng.normal(size=(joints, 3))
    skeleton = replace(chain(joints), preferred=preferred)
    channels = np.zeros((frames, joints, 6))
    channels[:, 0, 3:] = 0.5 * rng.normal(size=(frames, 3))
    channels[:, 1:, 4] = 0.3 * rng.normal(size=(frames, joints - 1))
    posed = forward_kinematics(skeleton, replace(Pose.rest(skeleton, (frames,)), channels=channels))
    middle, end, aside = f"joint.{joints // 2}", f"joint.{joints - 1}", np.array([1.0, 0.5, 0.0])
    tasks: list[Task] = [
        MatchOrientation(joint=joint, target=posed.matrices[:, skeleton.index(joint), :3, :3])
        for joint in ("joint.0", end)
    ]
    tasks.append(ReachPoint(joint=end, target=posed.point(end, tip()), point=tip()))
    tasks.append(ReachPoint(joint=middle, target=posed.point(middle, aside), point=aside))
    starts = random_pose(np.random.default_rng(2), skeleton, angle=0.4, frames=(frames,), only_free=True)
    return prepared(skeleton, tasks, starts)


SCENES: dict[str, Callable[[], Prepared]] = {"figure": figure, "animated constants": animated}
each_scene = pytest.mark.parametrize("scene", SCENES)


def errors_by_kinematics(ready: Prepared, values: Array) -> Array:
    """Errors of all tasks, (F, T), by the exact kinematics of Blender rather than by the mechanism."""
    posed = forward_kinematics(ready.problem.skeleton, ready.pose(values))
    columns: list[Array] = []
    for task in ready.problem.tasks:
        if isinstance(task, ReachPoint):
            columns.append(np.linalg.norm(posed.point(task.joint, task.point) - task.target, axis=-1))
        else:
            assert isinstance(task, MatchOrientation)
            turned = posed.matrices[..., ready.problem.skeleton.index(task.joint), :3, :3]
            turned = turned / np.cbrt(np.linalg.det(turned))[..., None, None]
            # |A - B| = 2 sqrt(2) sin(angle / 2)
            columns.append(2.0 * np.arcsin(np.linalg.norm(turned - task.target, axis=(-2, -1)) / 8.0**0.5))
    return np.stack(columns, axis=1)


def places_by_kinematics(ready: Prepared, values: Array) -> Array:
    """All that tasks are about in one row, (F, k): places, and all elements of rotation matrices."""
    skeleton = ready.problem.skeleton
    posed = forward_kinematics(skeleton, ready.pose(values))
    rows: list[Array] = []
    for task in ready.problem.tasks:
        if isinstance(task, ReachPoint):
            rows.append(posed.point(task.joint, task.point))
        else:
            assert isinstance(task, MatchOrientation)
            rows.append(posed.matrices[..., skeleton.index(task.joint), :3, :3].reshape(len(values), 9))
    return np.concatenate(rows, axis=1)


# ----------------------------------------------------------------------------------------------------------
# What is met


@each_scene
def test_met_frames_meet_every_task_by_exact_kinematics(scene: str) -> None:
    ready = SCENES[scene]()
    found = ready.attempted()
    assert found.met.mean() > 0.9
    errors = errors_by_kinematics(ready, found.values)
    tolerances = [TOLERANCE[task.angular] for task in ready.problem.tasks]
    assert (errors[found.met] <= tolerances).all()
    assert_allclose(found.errors[:, :2], errors[:, :2], atol=1e-7)


@each_scene
def test_of_the_poses_that_meet_the_tasks_it_is_the_preferred_one(scene: str) -> None:
    """The way to the preferred pose is orthogonal to what the tasks leave free, but for pressed limits."""
    ready = SCENES[scene]()
    found = ready.attempted()
    system, step = ready.objective.system, 1e-5
    gradient = ready.objective.away(found.values) * ready.objective.weight  # of ½|u|² by q, stiffness inside
    derivatives: list[Array] = []
    for channel in range(system.size):
        change = step * (np.arange(system.size) == channel)
        ahead, back = (places_by_kinematics(ready, found.values + sign * change) for sign in (1.0, -1.0))
        derivatives.append((ahead - back) / (2.0 * step))
    jacobian = np.stack(derivatives, axis=-1)
    limits = ready.problem.skeleton
    lower, upper = (system.mechanism.of_channels(bound) for bound in (limits.lower, limits.upper))
    at_limits = 0
    for frame in np.flatnonzero(found.met):
        values = found.values[frame]
        free = (values > lower) & (values < upper)
        at_limits += not free.all()
        pulled = -np.linalg.lstsq(jacobian[frame][:, free].T, gradient[frame][free], rcond=1e-7)[0]
        slope = gradient[frame] + jacobian[frame].T @ pulled
        size = np.abs(gradient[frame]).max()
        assert size > 0.1
        assert np.abs(slope[free]).max() < 1e-4 * size
        assert (slope[values <= lower] > -1e-4 * size).all() and (slope[values >= upper] < 1e-4 * size).all()
    assert scene != "figure" or at_limits > 0


def test_without_a_wish_it_stops_where_the_tasks_are_met() -> None:
    wishing, plain = figure(), figure(preferred_pose=False)
    near, met = wishing.attempted(), plain.attempted()
    both = near.met & met.met
    assert both.mean() > 0.9
    assert (errors_by_kinematics(plain, met.values)[met.met] <= [1e-4, 1e-4, 1e-3]).all()
    cost_near, cost_met = (
        (plain.objective.away(result.values[both]) ** 2).sum(axis=1) for result in (near, met)
    )
    assert (cost_near <= cost_met + 1e-6).mean() > 0.9
    assert (cost_near < 0.9 * cost_met).any()  # it does not go on to what is preferred


@each_scene
def test_starting_at_the_answer_changes_nothing_at_all(scene: str) -> None:
    ready = SCENES[scene]()
    found = ready.attempted()
    met = np.flatnonzero(found.met)
    again = attempt(ready.objective.select(met), found.values[met], ready.goal)
    assert again.met.all()
    assert_array_equal(again.values, found.values[met])


def test_from_nearby_the_answer_is_found_again_also_for_channels_that_prefer_nothing() -> None:
    """As hips do that may be anywhere: they go where it is best for the others."""
    skeleton = upper_body(limit=None)
    preferred = np.array(skeleton.preferred)
    preferred[0] = np.nan
    skeleton = replace(skeleton, preferred=preferred)
    goals = random_pose(np.random.default_rng(3), skeleton, angle=LIMIT, frames=(10,), only_free=True)
    ready = prepared(skeleton, tasks_at(skeleton, goals, HANDS, HANDS[:1]), Pose.rest(skeleton, (10,)))
    found = ready.attempted()
    assert found.met.all()
    near = found.values + 0.02 * np.random.default_rng(4).normal(size=found.values.shape)
    again = ready.attempted(near)
    assert again.met.all()
    assert_allclose(again.values, found.values, atol=1e-5)


@pytest.mark.parametrize("wish", [True, False])
def test_a_pose_that_is_preferred_and_meets_the_tasks_stays_as_it_is(wish: bool) -> None:
    ready = arm([[0.0, 4.0, 0.0]], preferred_pose=wish)
    found = ready.attempted()
    assert found.met.all()
    assert_array_equal(found.values, ready.values)


# ----------------------------------------------------------------------------------------------------------
# Many frames


@pytest.mark.parametrize(
    ("scene", "wish"), [("figure", True), ("figure", False), ("animated constants", True)]
)
def test_each_frame_is_solved_as_if_alone(scene: str, wish: bool) -> None:
    """Frames end at different iterations and meet different limits; none may feel that.

    To 1e-6: where rounding has decided whether a step is taken another way leads to the same place.
    """
    ready = animated() if scene != "figure" else figure(20, preferred_pose=wish)
    found = ready.attempted()
    for frame in range(len(found.values)):
        alone = attempt(ready.objective.select(np.array([frame])), ready.values[[frame]], ready.goal)
        assert alone.met[0] == found.met[frame]
        assert_allclose(found.values[frame], alone.values[0], atol=1e-6)
        assert_allclose(found.errors[frame], alone.errors[0], atol=1e-6)


def test_the_order_of_frames_does_not_matter(rng: np.random.Generator) -> None:
    ready = figure(20)
    order = rng.permutation(20)
    found, shuffled = (
        ready.attempted(),
        attempt(ready.objective.select(order), ready.values[order], ready.goal),
    )
    assert_array_equal(shuffled.met, found.met[order])
    assert_allclose(shuffled.values, found.values[order], atol=1e-9)


def test_frames_that_fail_do_not_keep_the_others_from_their_answer() -> None:
    reachable = circle_of_places(6)
    mixed = np.concatenate([reachable[:3], [[9.0, 0.0, 0.0], [0.0, 0.0, 50.0]], reachable[3:]])
    found = arm(mixed).attempted()
    assert found.met.tolist() == [True] * 3 + [False] * 2 + [True] * 3
    assert_allclose(found.values[found.met], arm(reachable).attempted().values, atol=1e-9)


def circle_of_places(frames: int) -> Array:
    angle = np.linspace(0.0, 5.0, frames)
    return np.array([1.0, 2.0, 0.3]) + np.stack([np.cos(angle), 0.5 * np.sin(angle), np.sin(angle)], axis=1)


def test_attempts_are_joined_and_parted() -> None:
    whole = arm(circle_of_places(6)).attempted()
    parts = [whole.select(np.arange(2)), whole.select(np.arange(6) >= 2)]
    joined = Attempt.joined(parts)
    for name in ("values", "errors", "met", "iterations"):
        assert_array_equal(getattr(joined, name), getattr(whole, name))
    none = Attempt.none(whole.values, whole.errors)
    assert not none.met.any() and not none.iterations.any()


def test_another_preferred_pose_for_each_frame_is_that_of_the_frame(rng: np.random.Generator) -> None:
    objective = animated(6).objective
    values = rng.uniform(-1.0, 1.0, (6, objective.system.size))
    towards = objective.towards(values)
    assert towards.wishes and not towards.away(values).any()
    index = np.array([4, 1])
    assert not towards.select(index).away(values[index]).any()
    moved = towards.select(index).away(values[index] + 0.1)
    assert_allclose(moved, np.broadcast_to(0.1 * objective.weight, moved.shape))


# ----------------------------------------------------------------------------------------------------------
# On the way


@each_scene
def test_limits_are_never_left_not_even_on_the_way(scene: str) -> None:
    ready = SCENES[scene]()
    system = ready.objective.system
    seen: list[int] = []

    def inside(iteration: int, values: Array) -> bool:
        assert (values >= system.lower).all() and (values <= system.upper).all()
        seen.append(iteration)
        return False

    found = ready.attempted(callback=inside)
    assert seen == list(range(1, int(found.iterations.max()) + 1))
    assert (found.values >= system.lower).all() and (found.values <= system.upper).all()
    outside = attempt(ready.objective, ready.values + 5.0, ready.goal)  # also from outside
    assert (outside.values >= system.lower).all() and (outside.values <= system.upper).all()


def test_a_step_up_to_a_limit_ends_on_it_and_not_a_hair_away(rng: np.random.Generator) -> None:
    """In units of u that are not those of the channels rounding would leave it next to the limit."""
    skeleton = chain(3, lower=-0.4, upper=0.3, stiffness=0.7, free=True)
    task = ReachPoint(joint="joint.2", target=np.zeros(3))
    ready = prepared(skeleton, [task], Pose.rest(skeleton, (50,)))
    objective, system = ready.objective, ready.objective.system
    values = rng.uniform(-0.4, 0.3, ready.values.shape)
    down, up = objective.room(values)
    assert_array_equal(objective.moved(values, down), np.broadcast_to(system.lower, values.shape))
    assert_array_equal(objective.moved(values, up), np.broadcast_to(system.upper, values.shape))
    assert_array_equal(objective.moved(values, 5.0 * up), np.broadcast_to(system.upper, values.shape))
    half = objective.moved(values, 0.5 * up)
    assert_allclose(half, 0.5 * (values + system.upper), atol=1e-15)
    assert objective.on_limit(objective.moved(values, down)).all() and not objective.on_limit(half).any()
    free = prepared(chain(3), [task], Pose.rest(chain(3), (1,)))
    moved = free.objective.moved(free.values, np.ones_like(free.values))
    assert_allclose(moved, 1.0 / free.objective.weight[None])


def test_the_callback_stops_it() -> None:
    ready = figure(5)
    found = ready.attempted(callback=lambda iteration, _: iteration == 2)
    assert_array_equal(found.iterations, 2)
    assert not found.met.any()
    assert_allclose(found.errors, ready.objective.system.errors(ready.objective.system.place(found.values)))


def test_history_goes_on_until_the_last_frame_is_done() -> None:
    ready = arm([[9.0, 0.0, 0.0], [1.0, 2.0, 0.3], [1.0, 2.5, 0.3]])
    found = ready.attempted()
    assert len(found.history) == found.iterations.max() + 1
    for iteration, norms in enumerate(found.history):
        assert norms.shape == (3, 1)
        done = found.iterations <= iteration
        assert_array_equal(norms[done], found.history[-1][done])
    assert_allclose(found.history[0][0, 0], np.hypot(9.0, 4.0) / ready.objective.length)


# ----------------------------------------------------------------------------------------------------------
# What cannot be met


@pytest.mark.parametrize("wish", [True, False])
def test_out_of_reach_it_gives_up_by_itself(wish: bool, rng: np.random.Generator) -> None:
    directions = rng.normal(size=(30, 3))
    places = directions * (rng.uniform(4.02, 12.0, 30) / np.linalg.norm(directions, axis=1))[:, None]
    ready = arm(places, preferred_pose=wish)
    found = ready.attempted()
    assert not found.met.any()
    assert (found.iterations < ready.goal.max_iterations).all()
    assert np.isfinite(found.values).all() and np.isfinite(found.errors).all()


def test_of_targets_that_contradict_each_other_it_gives_up_by_itself() -> None:
    skeleton = chain(4)
    tasks = [ReachPoint(joint="joint.3", target=np.array([x, 2.0, 0.0]), point=tip()) for x in (1.0, -1.0)]
    ready = prepared(skeleton, tasks, Pose.rest(skeleton, (1,)))
    found = ready.attempted()
    assert not found.met[0] and found.iterations[0] < ready.goal.max_iterations


@in_turn("aside", [0.0, 1e-8, 1e-2])
@pytest.mark.parametrize("y", [3.0, 2.0, 0.5, 0.0, -1.0])
def test_a_straight_arm_bends_for_a_target_on_its_line(aside: float, y: float) -> None:
    """The attempt may say that it has not met it; then the descents must."""
    target = np.array([aside, y, 0.0])
    found = arm([target]).attempted()
    assert np.isfinite(found.values).all()
    solution = solve(arm([target]).problem, Pose.rest(chain(4)))
    assert solution.reached
    if aside == 1e-2 and y >= 0.0:
        assert found.met[0]


@pytest.mark.parametrize("joints", [2, 3, 4])
def test_a_limb_that_is_nearly_straight_is_where_it_wishes(joints: int) -> None:
    """Its multipliers are large, and grow without end for the last gap, which only a straight limb closes."""
    ready = limb(joints, [1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 0.0])
    found = ready.attempted()
    assert found.met.all()
    exact = replace(ready, goal=replace(ready.goal, step_tolerance=1e-10)).attempted(found.values)
    assert_allclose(found.values[:4], exact.values[:4], rtol=0.0, atol=2e-6)


@pytest.mark.parametrize(("joints", "bend"), [(4, 0.6), (5, 0.3), (6, 0.3)])
def test_a_straight_column_comes_to_rest_although_it_prefers_to_be_bent(joints: int, bend: float) -> None:
    assert column(joints, bend).attempted().met.all()


def test_gimbal_lock_at_the_start_is_no_obstacle() -> None:
    """Middle angles at a right angle in every joint."""
    skeleton = chain(3)
    channels = np.zeros((3, 3, 6))
    channels[..., 4] = 0.5 * np.pi
    places = np.array([[1.0, 1.5, 1.0], [0.5, -1.0, 1.0], [1.0, 0.5, -1.5]])
    task = ReachPoint(joint="joint.2", target=places, point=tip())
    for wish in (True, False):
        ready = prepared(skeleton, [task], Pose.from_channels(channels), preferred_pose=wish)
        found = ready.attempted()
        assert found.errors.max() < 0.05 if wish else found.met.all()
        solution = solve_each(ready.problem, ready.poses, preferred_pose=wish)
        assert solution.reached
        errors = errors_by_kinematics(ready, ready.objective.system.mechanism.values(solution.pose))
        assert errors.max() < 1e-4


def test_where_nothing_is_free_what_is_met_is_met() -> None:
    skeleton = chain(3, free=False)
    task = ReachPoint(joint="joint.2", target=np.array([[0.0, 2.0, 0.0], [1.0, 1.0, 1.0]]))
    found = prepared(skeleton, [task], Pose.rest(skeleton, (2,))).attempted()
    assert found.met.tolist() == [True, False] and found.values.shape == (2, 0)
    assert_allclose(found.errors[:, 0], [0.0, 3.0**0.5])


def test_without_tasks_there_is_nothing_to_attempt() -> None:
    skeleton = chain(3)
    assert solve(Problem(skeleton, ()), Pose.rest(skeleton)).iterations == 0
    each = solve_each(Problem(skeleton, ()), Pose.rest(skeleton, (3,)))
    assert each.reached and not each.iterations.any()


def test_sliding_channels_and_all_settings_of_inheritance_are_met_too() -> None:
    rng = np.random.default_rng(5)
    skeleton = tree(rng, 9, settings=True, deep=True, sliding=0.4, preferred=np.nan)
    start = random_pose(rng, skeleton, angle=0.4, offset=0.1, frames=(8,))
    moved = start.channels + np.where(skeleton.free, rng.uniform(-0.3, 0.3, start.channels.shape), 0.0)
    goals = Pose.from_channels(moved)
    joint = skeleton.names[int(skeleton.depths.argmax())]
    tasks = tasks_at(skeleton, goals, [joint], [])
    ready = prepared(skeleton, tasks, start)
    found = ready.attempted()
    assert found.met.all() and errors_by_kinematics(ready, found.values).max() <= 1e-4
    assert not ready.objective.wishes

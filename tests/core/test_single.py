# SPDX-License-Identifier: GPL-3.0-or-later
"""Attempts for one frame without a wish: the way on which `newton` leads many, number for number."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from blender_ik_addon.core import (
    MatchOrientation,
    OnPlane,
    Pose,
    Problem,
    ReachPoint,
    Skeleton,
    SolverOptions,
    Task,
    forward_kinematics,
    newton,
    single,
)
from blender_ik_addon.core.attempts import Goal
from blender_ik_addon.core.objective import Objective
from blender_ik_addon.core.preparing import Criteria, objective_of
from blender_ik_addon.core.system import assemble
from tests.core.builders import Array, humanoid, random_pose

LIMIT = 0.6


def prepared(skeleton: Skeleton, tasks: Sequence[Task]) -> tuple[Objective, Array, Goal]:
    """Objective, start at rest (1, nv) and goal."""
    settings = SolverOptions(preferred_pose=False)
    pose = Pose.rest(skeleton).as_batch()
    objective = objective_of(assemble(Problem(skeleton, tuple(tasks)), pose), settings)
    start = objective.system.mechanism.values(pose)
    return objective, start, Criteria.of(objective, settings).goal


def tasks_at(skeleton: Skeleton, rng: np.random.Generator, angle: float, stretch: float) -> list[Task]:
    """Hands, feet and the turn of the head of a pose at random, on two levels; a plane for one foot."""
    goal = random_pose(rng, skeleton, angle=angle, only_free=True)
    posed = forward_kinematics(skeleton, goal)
    tasks: list[Task] = [
        ReachPoint(joint=joint, target=stretch * posed.point(joint))
        for joint in ("hand.L", "hand.R", "foot.L")
    ]
    axes = posed.matrices[skeleton.index("head"), :3, :3]
    tasks.append(MatchOrientation(joint="head", target=axes, priority=1))
    ground = posed.point("foot.R") - np.array([0.0, 0.0, 0.05])
    tasks.append(OnPlane(joint="foot.R", origin=ground, normal=np.array([0.0, 0.0, 1.0]), side="ABOVE"))
    return tasks


def goes_the_same_way(objective: Objective, start: Array, goal: Goal) -> bool:
    """Assert that a frame alone goes the way of a frame among others; whether it meets the tasks."""
    twice = np.zeros(2, dtype=np.int64)
    many = newton.attempt(objective.select(twice), start[twice], goal)
    alone = single.attempt(objective, start, goal)
    assert alone.met[0] == many.met[0]
    assert_allclose(alone.values[0], many.values[0], atol=1e-9)
    assert_allclose(alone.errors[0], many.errors[0], atol=1e-9)
    return bool(alone.met[0])


@pytest.mark.parametrize("limit", [None, LIMIT], ids=["free", "limited"])
@pytest.mark.parametrize("stretch", [1.0, 1.4], ids=["in reach", "out of reach"])
def test_one_frame_goes_the_way_that_it_goes_among_many(limit: float | None, stretch: float) -> None:
    """Steps, corrections, limits that stop and let go, the end of hope: twice the frame, and it alone."""
    rng = np.random.default_rng(7)
    skeleton = humanoid(limit=limit)
    met = []
    for _ in range(12):
        tasks = tasks_at(skeleton, rng, LIMIT, stretch)
        met.append(goes_the_same_way(*prepared(skeleton, tasks)))
    assert all(met) if stretch == 1.0 else not all(met)


@pytest.mark.parametrize(
    ("limit", "stretch", "angle", "seed"),
    [
        pytest.param(None, 1.0, 0.3, 19, id="a fine step is taken as it is"),
        pytest.param(None, 1.02, 0.3, 7, id="near the targets every step is good"),
        pytest.param(LIMIT, 2.0, 0.3, 16, id="hope ends where the model resists"),
        pytest.param(None, 1.02, 0.3, 13, id="nothing is left to correct"),
        pytest.param(0.2, 1.02, 0.3, 15, id="what counts as nothing may take long"),
    ],
)
def test_it_goes_that_way_also_for_tasks_of_hardly_any_weight(
    limit: float | None, stretch: float, angle: float, seed: int
) -> None:
    """They are missed where the residual counts as nothing. Each case is one that a rule decides."""
    skeleton = humanoid(limit=limit)
    first, *others, head, plane = tasks_at(skeleton, np.random.default_rng(seed), angle, stretch)
    tasks = [replace(first, weight=1e-5), *others, replace(head, weight=1e-4), plane]
    goes_the_same_way(*prepared(skeleton, tasks))


@pytest.mark.parametrize("limit", [None, LIMIT], ids=["free", "limited"])
def test_each_of_many_frames_goes_the_way_that_it_goes_alone(limit: float | None) -> None:
    """Also where it pays to bend the steps of but a few of them, or to correct them."""
    rng = np.random.default_rng(7)
    skeleton = humanoid(limit=limit)
    by_frame = [tasks_at(skeleton, rng, angle, 1.0)[:3] for angle in (*[0.02] * 5, *[LIMIT] * 3, 1.2)]
    settings = SolverOptions(preferred_pose=False)
    tasks = [
        replace(own[0], target=np.array([task.aim for task in own]))  # type: ignore[call-arg]
        for own in zip(*by_frame, strict=True)
    ]
    pose = Pose.rest(skeleton, (len(by_frame),))
    objective = objective_of(assemble(Problem(skeleton, tuple(tasks)), pose), settings)
    start, goal = objective.system.mechanism.values(pose), Criteria.of(objective, settings).goal
    together = newton.attempt(objective, start, goal)
    for frame in range(len(by_frame)):
        one = np.array([frame])
        alone = single.attempt(objective.select(one), start[one], goal)
        assert alone.met[0] == together.met[frame]
        assert_allclose(alone.values[0], together.values[frame], atol=1e-9)


def test_by_the_residual_alone_tasks_are_known_to_be_missed() -> None:
    """If all errors were as large as tolerated |r| would be the largest that is; planes do not tell."""
    rng = np.random.default_rng(7)
    skeleton = humanoid()
    *tasks, plane = tasks_at(skeleton, rng, LIMIT, 1.0)
    weighted = [replace(task, weight=rng.uniform(0.5, 3.0), priority=number % 2)
                for number, task in enumerate(tasks)]  # fmt: skip
    some_axes = replace(weighted[1], axes=(True, False, True))  # type: ignore[call-arg]
    objective, start, _ = prepared(skeleton, [*weighted, some_axes])
    for values in start + rng.normal(size=(5, 1, start.shape[1])):
        stand = objective.stand(values)
        assert_allclose(objective.norm_within(stand.errors[0]), stand.norm[0], rtol=1e-8)
        assert objective.norm_within(stand.errors[0]) >= stand.norm[0]
    objective, _, goal = prepared(skeleton, [*weighted, plane])
    assert objective.norm_within(goal.tolerance) == np.inf


def test_with_a_wish_or_with_more_frames_it_is_newtons_way() -> None:
    skeleton = humanoid(limit=LIMIT)
    tasks = tasks_at(skeleton, np.random.default_rng(7), LIMIT, 1.0)
    objective, start, goal = prepared(skeleton, tasks)
    several = np.zeros(3, dtype=np.int64)
    for some, starts, wish in ((objective, start, True), (objective.select(several), start[several], False)):
        asked = replace(goal, wish=wish)
        assert_array_equal(
            single.attempt(some, starts, asked).values, newton.attempt(some, starts, asked).values
        )


def test_a_mechanism_that_is_placed_already_saves_placing_it() -> None:
    skeleton = humanoid()
    objective, start, goal = prepared(skeleton, tasks_at(skeleton, np.random.default_rng(7), LIMIT, 1.0))
    posed = objective.system.place(start)
    found = single.attempt(objective, start, goal, None, posed)
    again = single.attempt(objective, found.values, goal, None, found.posed)
    assert_array_equal(found.values, single.attempt(objective, start, goal).values)
    assert again.posed is not None and found.posed is not None
    assert again.posed.matrices is found.posed.matrices and again.iterations[0] == 0


def test_the_callback_is_told_of_every_iteration_and_stops_it() -> None:
    skeleton = humanoid()
    objective, start, goal = prepared(skeleton, tasks_at(skeleton, np.random.default_rng(7), 2 * LIMIT, 1.0))
    told: list[int] = []

    def callback(iteration: int, values: Array) -> bool:
        assert values.shape == start.shape
        told.append(iteration)
        return iteration == 2

    found = single.attempt(objective, start, goal, callback)
    assert told == [1, 2] and found.iterations[0] == 2 and not found.met[0] and len(found.history) == 3

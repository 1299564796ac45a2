# SPDX-License-Identifier: GPL-3.0-or-later
"""Levels that are held, met or not, and what they leave to those below."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from blender_ik_addon.core import (
    MatchOrientation,
    Pose,
    Problem,
    ReachPoint,
    Skeleton,
    Status,
    Task,
    forward_kinematics,
    solve,
)
from blender_ik_addon.core.arrays import BoolArray
from blender_ik_addon.core.descent import Descent
from blender_ik_addon.core.hierarchy import Footing, Hold, Place
from blender_ik_addon.core.objective import Objective
from blender_ik_addon.core.system import assemble
from tests.core.builders import Array, chain, planar, random_pose, random_rotations, tip, torso, upper_body
from tests.core.in_turn import in_turn

SLACK = 1e-6


class Lowered:
    """A problem whose first levels have been lowered, one after the other, and are held."""

    def __init__(
        self, skeleton: Skeleton, tasks: Sequence[Task], count: int, start: Pose | None = None
    ) -> None:
        start = Pose.rest(skeleton) if start is None else start
        system = assemble(Problem(skeleton, tuple(tasks)), start.as_batch())
        self.objective = Objective(system, merged=False, clamp_distance=None)
        self.holds: list[Hold] = []
        self.values: Array = system.mechanism.values(start.as_batch())
        for level in range(count):
            descent = self.descent(level)
            while not descent.finished and descent.iterations < 100:
                descent.iterate()
            descent.conclude()
            assert descent.finished
            self.holds.append(descent.hold())
            self.values = descent.point.values

    def descent(self, level: int, slack: float = SLACK) -> Descent:
        return Descent(
            self.objective,
            self.values,
            level=level,
            holds=self.holds,
            slack=slack,
            max_angle=0.8,
            step_tolerance=1e-9,
        )

    @property
    def fixed(self) -> BoolArray:
        return np.logical_or.reduce([hold.pressed for hold in self.holds])

    def place(self, values: Array) -> Place:
        return Place(self.objective, self.objective.at(values))

    def footing(self, place: Place) -> Footing:
        return Footing(place, self.holds, self.fixed)

    def returned(self, values: Array) -> Footing:
        """Where values (1, nv) lead when the holds have been put right."""
        for _ in range(8):
            footing = self.footing(self.place(values))
            if np.abs(footing.back).max() < 1e-12:
                return footing
            values = self.objective.moved(values, footing.back[None])
        pytest.fail("the way back does not end")


def far_chain(seed: int) -> Lowered:
    """A chain of ball joints and a target at twice its length."""
    rng = np.random.default_rng(seed)
    skeleton = chain(3)
    direction = random_rotations(rng, 1)[0][:, 0]
    task = ReachPoint(joint=2, point=tip(), target=6.0 * direction)
    return Lowered(skeleton, [task], 1, random_pose(rng, skeleton, angle=0.5))


def figure_tasks(seed: int, kinds: str) -> list[Task]:
    """Levels of a figure whose hips stay: M one that is met, U one that is not, T a turn that is not."""
    rng = np.random.default_rng(seed)
    tasks: list[Task] = []
    joints = iter(("hand.L", "hand.R", "chest"))
    for priority, kind in enumerate(kinds):
        if kind == "T":
            # The same joint is to be turned in two ways.
            tasks += [
                MatchOrientation(joint="hand.R", target=turn, priority=priority)
                for turn in random_rotations(rng, 2)
            ]
            continue
        joint = next(joints)
        target = np.array([0.25, -0.3, 1.2]) if kind == "M" else rng.uniform(-1.0, 1.0, 3) * 3.0
        tasks.append(ReachPoint(joint=joint, target=target, priority=priority))
    return tasks


def figure() -> Skeleton:
    """A torso with arms whose hips turn but do not go anywhere."""
    skeleton = upper_body()
    free = np.array(skeleton.free)
    free[0, :3] = False
    return replace(skeleton, free=free)


# ----------------------------------------------------------------------------------------------------------


@in_turn("seed", range(3))
def test_a_straight_arm_that_points_at_a_far_target_may_only_twist(seed: int) -> None:
    lowered = far_chain(seed)
    (hold,) = lowered.holds
    assert hold.pull is not None
    assert hold.left.shape[1] == 2 and hold.bends.shape[1] == 4  # across; two bends of two joints
    along = lowered.footing(lowered.place(lowered.values)).along
    assert along.shape == (9, 3)
    assert_allclose(along.T @ along, np.eye(3), atol=1e-12)
    pole = lowered.returned(lowered.objective.moved(lowered.values, 0.3 * along[:, 0][None]))
    points = [
        place.point.posed.matrices[0, :, :3, 3] for place in (lowered.place(lowered.values), pole.place)
    ]
    assert_allclose(points[1], points[0], atol=1e-7)  # every joint stays where it is


@pytest.mark.parametrize("kinds", ["M", "U", "MU", "UM", "UU", "MUU", "TU"])
def test_along_the_holds_no_residual_changes(kinds: str) -> None:
    lowered = Lowered(figure(), figure_tasks(1, kinds), len(kinds))
    place = lowered.place(lowered.values)
    footing = lowered.footing(place)
    rng = np.random.default_rng(0)
    assert footing.along.shape[1] > 0
    for size in (1e-3, 0.05):
        change = size * footing.along @ rng.normal(size=footing.along.shape[1])
        there = lowered.returned(lowered.objective.moved(lowered.values, change[None])).place
        for hold in lowered.holds:
            assert_allclose(there.residuals[hold.level], hold.residual, atol=1e-8)


@pytest.mark.parametrize("kinds", ["M", "U", "MU", "UU", "TU", "MUU", "UUU"])
def test_curvature_is_how_the_slope_along_the_holds_changes(kinds: str) -> None:
    lowered = Lowered(figure(), figure_tasks(2, kinds), len(kinds))
    wish = lowered.objective.levels
    here = lowered.footing(lowered.place(lowered.values))
    gradient = here.place.gradient(wish)
    hessian = here.place.jacobians[wish].T @ here.place.jacobians[wish] + here.curvature(wish, gradient)
    size = 1e-4
    for direction in here.along.T[:3]:
        slopes: list[Array] = []
        for sign in (1.0, -1.0):
            moved = lowered.objective.moved(lowered.values, sign * size * direction[None])
            there = lowered.returned(moved)
            slopes.append(there.along @ (there.along.T @ there.place.gradient(wish)))
        expected = here.along.T @ (slopes[0] - slopes[1]) / (2.0 * size)
        assert_allclose(here.along.T @ hessian @ direction, expected, atol=1e-4)


@pytest.mark.parametrize("kinds", ["M", "U", "MU"])
def test_the_way_back_doubles_its_digits(kinds: str) -> None:
    lowered = Lowered(figure(), figure_tasks(3, kinds), len(kinds))
    off = np.random.default_rng(0).normal(size=lowered.values.shape) * 1e-3
    values = lowered.objective.moved(lowered.values, off)
    sizes: list[float] = []
    for _ in range(4):
        back = lowered.footing(lowered.place(values)).back
        sizes.append(float(np.abs(back).max()))
        values = lowered.objective.moved(values, back[None])
    assert 1e-5 < sizes[0] < 1e-2
    assert sizes[3] < 1e-9  # twice squared, one step for the sake of the second level


def test_channels_that_are_fixed_stay_and_holds_that_need_them_say_so() -> None:
    lowered = far_chain(0)
    place = lowered.place(lowered.objective.moved(lowered.values, np.full((1, 9), 0.01)))
    fixed = np.zeros(9, dtype=np.bool_)
    fixed[[0, 4]] = True
    footing = Footing(place, lowered.holds, fixed)
    assert not footing.back[fixed].any() and not footing.along[fixed].any()
    assert Footing(place, lowered.holds, np.zeros(9, dtype=np.bool_)).whole
    fixed[:8] = True  # one channel for two rows
    assert not Footing(place, lowered.holds, fixed).whole


def test_a_limit_on_which_a_channel_is_held_anyway_does_not_let_go_of_the_others() -> None:
    """The first hinge is held at its limit by the first level, the last is pressed by the second."""
    upper = np.full((3, 6), np.inf)
    upper[0, 5], upper[2, 5] = 0.0, 0.3
    skeleton = planar(3, upper=upper)
    tasks = [
        ReachPoint(joint=0, point=tip(), target=tip()),
        ReachPoint(joint=2, point=tip(), target=np.array([-0.4, 1.2, 0.0]), priority=1),
    ]
    lowered = Lowered(skeleton, tasks, 2)
    assert_allclose(lowered.values[0, [0, 2]], [0.0, 0.3], atol=1e-12)
    first, second = lowered.holds
    assert not first.pressed.any()
    assert second.pressed.tolist() == [False, False, True]


def test_channels_move_that_change_along_the_holds() -> None:
    below = ReachPoint(joint=2, point=tip(), target=np.ones(3), priority=1)
    lowered = Lowered(planar(3), [ReachPoint(joint=0, point=tip(), target=tip()), below], 1)
    footing = lowered.footing(lowered.place(lowered.values))
    assert footing.moves.tolist() == [False, True, True]


def test_a_level_in_conflict_with_itself_is_held_by_its_rows() -> None:
    skeleton = chain(3)
    targets = (np.array([1.0, 1.0, 0.5]), np.array([1.0, 1.4, 0.5]))
    tasks = [ReachPoint(joint=2, point=tip(), target=target) for target in targets]
    (hold,) = Lowered(skeleton, tasks, 1, random_pose(np.random.default_rng(0), skeleton)).holds
    assert hold.left.shape[1] == 3 and hold.bends.shape[1] == 0


@in_turn("iterations", range(4))
@in_turn("seed", range(3))
def test_a_level_that_is_stopped_on_its_way_is_held_by_its_rows_where_it_is(
    seed: int, iterations: int
) -> None:
    """Its pull is not balanced yet: held by that it would go on, as soon as a lower level moves."""
    rng = np.random.default_rng(seed)
    skeleton = chain(3)
    task = ReachPoint(joint=2, point=tip(), target=6.0 * random_rotations(rng, 1)[0][:, 0])
    lowered = Lowered(skeleton, [task], 0, random_pose(rng, skeleton, angle=0.9))
    descent = lowered.descent(0)
    for _ in range(iterations):
        descent.iterate()
    assert not descent.finished
    hold = descent.hold()
    assert hold.pull is None and hold.bends.shape[1] == 0
    assert hold.left.shape[1] == 3
    lowered.holds.append(hold)
    place = lowered.place(descent.point.values)
    along = lowered.footing(place).along
    assert_allclose(place.jacobians[0] @ along, 0.0, atol=1e-12)
    moved = lowered.objective.moved(descent.point.values, 0.2 * along[:, 0][None])
    assert_allclose(lowered.returned(moved).place.residuals[0], place.residuals[0], atol=1e-9)


def test_what_counts_as_nothing_is_held_as_nothing() -> None:
    """Held where it is it would grow: each solve would begin with what the last one has used up."""
    skeleton = planar(3)
    channels = np.zeros((3, 6))
    channels[:, 5] = 0.3, 0.5, -0.4
    start = Pose(channels, Pose.rest(skeleton).scale)
    off = np.array([0.9 * SLACK, 0.0, 0.0])
    target = forward_kinematics(skeleton, start).point(2, tip()) + off
    below = ReachPoint(joint=0, point=tip(), target=np.array([-0.5, 0.9, 0.0]), priority=1)
    tasks = [ReachPoint(joint=2, point=tip(), target=target), below]
    lowered = Lowered(skeleton, tasks, 0, start)
    lowered.holds.append(lowered.descent(0).hold())
    descent = lowered.descent(1)
    while not descent.finished and descent.iterations < 100:
        descent.iterate()
    descent.conclude()
    assert np.abs(descent.point.values - lowered.values).max() > 0.1
    assert lowered.place(descent.point.values).norm(0) < 0.01 * SLACK


@in_turn(("slack", "at_its_best"), [(1e-10, False), (1e-3, True)])
@in_turn("seed", range(3))
def test_a_level_near_its_best_is_held_by_its_pull_if_the_slack_is_wider_than_what_is_left(
    seed: int, slack: float, at_its_best: bool
) -> None:
    """Its pull bends the right way already, but slopes: what a step would still gain is what counts."""
    lowered = far_chain(seed)
    lowered.holds.clear()
    lowered.values = lowered.values + 0.06 * np.random.default_rng(0).normal(size=lowered.values.shape)
    descent = lowered.descent(0, slack)
    for _ in range(2):
        descent.iterate()
    assert not descent.finished
    hold = descent.hold()
    assert (hold.pull is not None) == at_its_best
    assert hold.left.shape[1] == (2 if at_its_best else 3)


@pytest.mark.parametrize(("seed", "limit"), [(0, None), (1, None), (0, 0.7)])
def test_whatever_is_asked_below_levels_that_cannot_be_met_stay(seed: int, limit: float | None) -> None:
    rng = np.random.default_rng(seed)
    skeleton = torso(limit=limit)
    tasks: list[Task] = [
        ReachPoint(joint="hips", target=skeleton.rest[0, :3, 3]),
        ReachPoint(joint="hand.L", target=rng.uniform(-2.0, 2.0, 3), priority=1),
        ReachPoint(joint="chest", target=rng.uniform(-1.0, 1.0, 3), priority=2),
        ReachPoint(joint="hand.R", target=rng.uniform(-2.0, 2.0, 3), priority=3),
    ]
    before: Array = np.zeros(0)
    for count in range(1, 5):
        solution = solve(Problem(skeleton, tuple(tasks[:count])), Pose.rest(skeleton), max_iterations=200)
        assert solution.status in (Status.REACHED, Status.SETTLED)
        errors = np.array([error.error for error in solution.errors])
        assert_allclose(errors[: len(before)], before, atol=2e-5)
        before = errors
    again = solve(Problem(skeleton, tuple(tasks)), solution.pose, max_iterations=200)
    assert_allclose(again.pose.channels, solution.pose.channels, atol=1e-5)

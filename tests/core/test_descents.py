# SPDX-License-Identifier: GPL-3.0-or-later
"""A solve comes to an end where targets cannot all be met, and its end is one.

Arms at full stretch are the hard case: what is left to gain lies in winding valleys, flat along their floor.
"""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

from blender_ik_addon.core import Pose, Problem, ReachPoint, Solution, Status, forward_kinematics, solve
from blender_ik_addon.core.steps import lasting, put_back
from tests.core.builders import Array, humanoid
from tests.core.in_turn import in_turn

LIMIT = np.radians(60.0)
STANDS_STILL = 1e-6
"""[rad, m] Change of a channel by one more solve."""
LEVELS = (("foot.L", 0), ("foot.R", 0), ("hips", 1), ("hand.L", 2), ("hand.R", 2), ("head", 3))

WAYS = [(0.0, 0.0, -0.1), (0.0, 0.0, -0.3), (0.0, -0.2, 0.0), (0.02, 0.0, 0.0), (0.1, 0.0, 0.0)]
"""[m] Of the left hand of a figure with straight arms."""


def t_pose(way: tuple[float, float, float], *, levels: bool) -> tuple[Problem, Pose]:
    """A figure with straight arms whose left hand is asked to move while all else is to stay."""
    skeleton = humanoid(limit=LIMIT)
    rest = Pose.rest(skeleton)
    here = forward_kinematics(skeleton, rest)
    tasks = [
        ReachPoint(
            joint=name,
            target=here.point(name) + np.array(way) * (name == "hand.L"),
            priority=level if levels else 0,
        )
        for name, level in LEVELS
    ]
    return Problem(skeleton, tuple(tasks)), rest


@cache
def stretched(way: tuple[float, float, float], levels: bool) -> Solution:
    return solve(*t_pose(way, levels=levels))


each_way = in_turn("way", WAYS)
each_kind = pytest.mark.parametrize("levels", [False, True])


@each_kind
@each_way
def test_stretched_arms_come_to_rest(way: tuple[float, float, float], levels: bool) -> None:
    assert stretched(way, levels).status is Status.SETTLED


@each_kind
@each_way
def test_stretched_arms_stand_still_when_they_are_solved_again(
    way: tuple[float, float, float], levels: bool
) -> None:
    problem, _ = t_pose(way, levels=levels)
    pose = stretched(way, levels).pose
    assert_allclose(solve(problem, pose).pose.channels, pose.channels, rtol=0.0, atol=STANDS_STILL)


@in_turn("apart", [1.0, 2.0])
def test_legs_too_short_for_feet_that_far_apart_come_to_rest(apart: float) -> None:
    skeleton = humanoid(limit=LIMIT)
    here = forward_kinematics(skeleton, Pose.rest(skeleton))
    feet = tuple(
        ReachPoint(joint=f"foot.{side}", target=here.point(f"foot.{side}") + np.array([way, 0.0, 0.0]))
        for side, way in (("L", apart), ("R", -apart))
    )
    solution = solve(Problem(skeleton, feet), Pose.rest(skeleton), preferred_pose=False)
    assert solution.status is Status.SETTLED


# ----------------------------------------------------------------------------------------------------------
# Parts of a step


def sides_and_floor(rng: np.random.Generator) -> tuple[Array, Array]:
    """Derivatives of a residual of four along six directions, steep along two, and the steep rows' basis."""
    basis = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    along = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    return basis[:, :2] @ np.diag([2.0, 1.0]) @ along[:, :2].T, basis


@in_turn("seed", range(3))
def test_what_lasts_of_a_residual_is_what_no_direction_takes_away(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sides, basis = sides_and_floor(rng)
    force = 1e-4 * rng.normal(size=4)
    left = lasting(sides, force)
    assert_allclose(basis[:, 2:].T @ left, basis[:, 2:].T @ force, rtol=1e-9, atol=0.0)
    assert np.linalg.norm(basis[:, :2].T @ left) <= 1e-3 * np.linalg.norm(force)
    assert_allclose(lasting(1e-9 * sides, force), force, rtol=1e-12, atol=0.0)


@in_turn("seed", range(3))
def test_what_is_put_back_takes_away_what_was_missed_where_sides_are_steep(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sides, basis = sides_and_floor(rng)
    missed = rng.normal(size=4)
    change, fall = put_back(sides, missed, 1e-8)
    left = missed + sides @ change
    assert_allclose(basis[:, :2].T @ left, 0.0, atol=1e-7)
    assert_allclose(fall, 0.5 * (missed @ missed - left @ left), rtol=1e-12)
    flat, gain = put_back(1e-6 * sides, missed, 1e-2)
    assert np.abs(flat).max() <= 1e-3 and 0.0 <= gain <= 1e-8

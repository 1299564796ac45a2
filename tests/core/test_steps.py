# SPDX-License-Identifier: GPL-3.0-or-later
"""Every step rule against its definition, on matrices rather than skeletons."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import lsq_linear, nnls

from blender_ik_addon.core.inverses import prioritized_inverse
from blender_ik_addon.core.rules import damped_step
from blender_ik_addon.core.steps import BoundedStep, StepLevel, bounded_step
from tests.core.builders import Array
from tests.core.matrices import (
    CONFLICTS,
    ROUNDING,
    best_after,
    conflicting,
    each_conflict,
    each_seed,
    random_level,
)

FAR = 1e3
"""A trust radius that is never reached."""


def step(
    levels: Sequence[tuple[Array, Array]],
    lower: Array | float = -np.inf,
    upper: Array | float = np.inf,
    *,
    damping: float = 0.0,
    radius: float = FAR,
    curvatures: Sequence[Array | None] | None = None,
) -> BoundedStep:
    """`bounded_step` for one frame, from Jacobians and errors e; residuals have the other sign."""
    nv = levels[0][0].shape[1]
    bent = [None] * len(levels) if curvatures is None else curvatures
    return bounded_step(
        [
            StepLevel(-e[None], jacobian[None], np.array([damping]), None if bend is None else bend[None])
            for (jacobian, e), bend in zip(levels, bent, strict=True)
        ],
        np.broadcast_to(lower, (1, nv)).astype(float),
        np.broadcast_to(upper, (1, nv)).astype(float),
        np.array([radius]),
    )


def recursion(levels: Sequence[tuple[Array, Array]]) -> Array:
    """dq = J̃_M (e_1 … e_M)."""
    inverse, _ = prioritized_inverse([jacobian for jacobian, _ in levels])
    return inverse @ np.concatenate([e for _, e in levels])


# ----------------------------------------------------------------------------------------------------------
# The bounded step


@each_seed
@each_conflict
def test_without_bounds_and_damping_it_is_the_recursion(conflict: str, seed: int) -> None:
    levels = conflicting(np.random.default_rng(seed), conflict)
    answer = step(levels)
    assert_allclose(answer.change[0], recursion(levels), atol=1e-8)
    assert not answer.bounded.any()


@each_seed
@each_conflict
def test_without_bounds_it_too_meets_each_level_as_well_as_those_before_it_allow(
    conflict: str, seed: int
) -> None:
    levels = conflicting(np.random.default_rng(seed), conflict)
    change = step(levels).change[0]
    for (jacobian, _), expected in zip(levels, best_after(levels), strict=True):
        assert_allclose(jacobian @ change, expected, atol=1e-8)


@each_seed
def test_with_one_level_and_no_bounds_it_is_the_damped_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jacobian, e = random_level(rng, 3, 7)
    damping = rng.uniform(0.1, 2.0)
    dq = step([(jacobian, e)], damping=damping**2).change[0]
    assert_allclose(dq, damped_step(jacobian, e, damping), atol=ROUNDING)


@each_seed
def test_with_curvature_it_is_newtons_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jacobian, e = random_level(rng, 3, 5)
    root = rng.normal(size=(5, 5))
    curvature = root @ root.T  # positive definite, so that there is a minimum
    dq = step([(jacobian, e)], curvatures=[curvature]).change[0]
    assert_allclose((jacobian.T @ jacobian + curvature) @ dq, jacobian.T @ e, atol=1e-8)


@each_seed
def test_with_curvature_that_is_not_positive_it_still_goes_down(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jacobian, e = random_level(rng, 3, 5)
    bend = rng.normal(size=(5, 5))
    dq = step([(jacobian, e)], curvatures=[bend + bend.T]).change[0]
    assert dq @ (jacobian.T @ e) > 0.0


@each_seed
def test_the_radius_holds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    level = random_level(rng, 3, 6)
    free = step([level]).change[0]
    short = step([level], radius=0.1).change[0]
    assert np.abs(short).max() == pytest.approx(min(0.1, np.abs(free).max()))
    assert_allclose(short / np.linalg.norm(short), free / np.linalg.norm(free), atol=ROUNDING)


@each_seed
def test_corrections_answer_their_level_and_no_higher_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    levels = [random_level(rng, 2, 8) for _ in range(3)]
    corrections = step(levels).corrections
    assert len(corrections) >= 2  # nothing needs to be put back for the sake of the last
    for number, (correction,) in enumerate(corrections):
        # Damped, for the sake of singular poses: what one correction leaves the next one answers.
        assert np.linalg.norm(levels[number][0] @ correction + np.eye(2), ord=2) < 0.2
        for higher, _ in levels[:number]:
            assert_allclose(higher @ correction, np.zeros((2, 2)), atol=1e-8)


def box(rng: np.random.Generator, nv: int, share: float = 0.8) -> tuple[Array, Array]:
    """Bounds around 0, some of them exactly 0, some of them infinite."""
    lower, upper = -rng.uniform(0.0, 0.6, nv), rng.uniform(0.0, 0.6, nv)
    lower[rng.random(nv) < 0.2] = 0.0
    return np.where(rng.random(nv) < share, lower, -np.inf), np.where(rng.random(nv) < share, upper, np.inf)


each_box = pytest.mark.parametrize("seed", range(40))


@each_box
def test_it_never_leaves_the_box(seed: int) -> None:
    rng = np.random.default_rng(seed)
    levels = conflicting(rng, CONFLICTS[seed % len(CONFLICTS)])
    lower, upper = box(rng, 7)
    answer = step(levels, lower, upper, damping=0.0 if seed % 2 else 0.3)
    change = answer.change[0]
    assert np.isfinite(change).all()
    assert (change >= lower).all() and (change <= upper).all()  # exactly
    stopped = answer.bounded[0]
    assert ((change == lower) | (change == upper))[stopped].all()


@each_box
def test_lower_levels_change_nothing_for_higher_ones_inside_the_box(seed: int) -> None:
    rng = np.random.default_rng(seed)
    levels = conflicting(rng, CONFLICTS[seed % len(CONFLICTS)])
    lower, upper = box(rng, 7)
    first, second = (step(levels[:count], lower, upper).change[0] for count in (1, 2))
    change = step(levels, lower, upper).change[0]
    assert_allclose(levels[0][0] @ second, levels[0][0] @ first, atol=1e-8)
    assert_allclose(levels[0][0] @ change, levels[0][0] @ first, atol=1e-8)
    assert_allclose(levels[1][0] @ change, levels[1][0] @ second, atol=1e-8)


def cost(level: tuple[Array, Array], dq: Array) -> float:
    jacobian, e = level
    return 0.5 * float(np.sum((jacobian @ dq - e) ** 2))


def repeated(levels: Sequence[tuple[Array, Array]], lower: Array, upper: Array) -> tuple[Array, int]:
    """Steps on the same linear levels until they stand still, and how many."""
    total = np.zeros(len(lower))
    for count in range(20):
        left = [(jacobian, e - jacobian @ total) for jacobian, e in levels]
        change = step(left, lower - total, upper - total).change[0]
        if np.abs(change).max() < 1e-12:
            return total, count
        total = np.clip(total + change, lower, upper)
    pytest.fail("the steps do not come to rest")


def unexplained(gradient: Array, at: Array, lower: Array, upper: Array, held: Array) -> float:
    """What the conditions of Karush, Kuhn and Tucker leave of a gradient.

    It may be made up of bounds that are pressed on, with forces that are not negative, and of rows (k, nv)
    that are held, with any.
    """
    pressed = np.concatenate([np.diag((at <= lower).astype(float)), -np.diag((at >= upper).astype(float))])
    return float(nnls(np.concatenate([pressed, held, -held]).T, gradient)[1])


@each_box
def test_one_level_comes_to_rest_at_the_bounded_least_squares_solution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nv = int(rng.integers(2, 6))
    level = random_level(rng, nv + 2, nv)
    lower, upper = box(rng, nv)
    upper = np.maximum(upper, 1e-3)  # BVLS wants a box with an inside
    change, count = repeated([level], lower, upper)
    best = lsq_linear(*level, (lower, upper), method="bvls", tol=1e-14).x
    assert cost(level, change) <= cost(level, best) + 1e-10
    assert_allclose(change, best, atol=1e-7)
    assert count <= 5


@each_box
def test_one_level_with_fewer_rows_than_channels_comes_to_rest_where_nothing_gets_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    level = random_level(rng, 2, 5)
    lower, upper = box(rng, 5)
    change, _ = repeated([level], lower, upper)
    gradient = level[0].T @ (level[0] @ change - level[1])
    assert unexplained(gradient, change, lower, upper, np.zeros((0, 5))) < 1e-8


def test_lower_levels_come_to_rest_where_nothing_gets_better() -> None:
    left = np.zeros(40)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        levels = [random_level(rng, m, 6) for m in (1, 2)]
        lower, upper = box(rng, 6)
        change, _ = repeated(levels, lower, upper)
        (held, _), (jacobian, e) = levels
        gradient = jacobian.T @ (jacobian @ change - e)
        left[seed] = unexplained(gradient, change, lower, upper, held)
    assert_allclose(left, np.zeros(40), atol=1e-8)


def test_frames_are_independent(rng: np.random.Generator) -> None:
    frames, nv = 12, 6
    jacobians = [rng.normal(size=(frames, m, nv)) for m in (2, 3)]
    jacobians[1][3] = 0.0
    residuals = [rng.normal(size=(frames, m)) for m in (2, 3)]
    bends = rng.normal(size=(frames, nv, nv))
    curvatures = [None, 0.1 * (bends + bends.swapaxes(1, 2))]
    bounds = [box(rng, nv) for _ in range(frames)]
    lower, upper = (np.array(side) for side in zip(*bounds, strict=True))
    damping, radius = rng.uniform(0.0, 0.1, frames), rng.uniform(0.2, 2.0, frames)

    def answer(chosen: slice) -> BoundedStep:
        levels = [
            StepLevel(r[chosen], jacobian[chosen], damping[chosen], None if bend is None else bend[chosen])
            for r, jacobian, bend in zip(residuals, jacobians, curvatures, strict=True)
        ]
        return bounded_step(levels, lower[chosen], upper[chosen], radius[chosen])

    together = answer(slice(None))
    for frame in range(frames):
        alone = answer(slice(frame, frame + 1))
        assert_allclose(together.change[frame], alone.change[0], atol=ROUNDING)
        assert_array_equal(together.bounded[frame], alone.bounded[0])
        for many, one in zip(together.corrections, alone.corrections, strict=True):
            assert_allclose(many[frame], one[0], atol=1e-8)


def test_nothing_to_do_changes_nothing() -> None:
    answer = step([(np.zeros((2, 4)), np.ones(2)), (np.eye(4), np.zeros(4))], -1.0, 1.0)
    assert_array_equal(answer.change, np.zeros((1, 4)))
    assert not answer.bounded.any()

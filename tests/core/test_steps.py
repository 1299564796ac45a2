# SPDX-License-Identifier: GPL-3.0-or-later
"""Every step rule against its definition, on matrices rather than skeletons."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import lsq_linear, nnls

from blender_ik_addon.core.steps import (
    BoundedStep,
    StepLevel,
    bounded_step,
    damped_step,
    prioritized_inverse,
    pseudo_inverse,
)
from tests.core.builders import Array
from tests.core.strategies import floats

ROUNDING = 1e-10
FAR = 1e3
"""A trust radius that is never reached."""

each_seed = pytest.mark.parametrize("seed", range(5))


def integers_of_any_rank() -> st.SearchStrategy[Array]:
    """Small integers (m, n), so that rank is exact: full, deficient or none."""

    def matrices(shape: tuple[int, int]) -> st.SearchStrategy[Array]:
        row = st.lists(st.integers(-2, 2), min_size=shape[1], max_size=shape[1])
        return st.lists(row, min_size=shape[0], max_size=shape[0]).map(
            lambda rows: np.array(rows, dtype=float)
        )

    return st.tuples(st.integers(1, 5), st.integers(1, 6)).flatmap(matrices)


def random_level(rng: np.random.Generator, m: int, nv: int, rank: int | None = None) -> tuple[Array, Array]:
    """A Jacobian of some rank and an error e (target − current)."""
    rank = min(m, nv) if rank is None else rank
    return rng.normal(size=(m, rank)) @ rng.normal(size=(rank, nv)), rng.normal(size=m)


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
# Pseudo-inverse


def assert_penrose(matrix: Array, inverse: Array, condition: float) -> None:
    """Penrose's four conditions, to what rounding leaves of them."""
    tolerance = 1e-14 * condition
    size, inverse_size = np.abs(matrix).max(), np.abs(inverse).max()
    assert_allclose(matrix @ inverse @ matrix, matrix, rtol=0, atol=tolerance * size)
    assert_allclose(inverse @ matrix @ inverse, inverse, rtol=0, atol=tolerance * inverse_size)
    assert_allclose(matrix @ inverse, (matrix @ inverse).T, rtol=0, atol=tolerance)
    assert_allclose(inverse @ matrix, (inverse @ matrix).T, rtol=0, atol=tolerance)


@given(matrix=integers_of_any_rank(), exponent=st.integers(-12, 12))
def test_penroses_four_conditions(matrix: Array, exponent: int) -> None:
    scaled = matrix * 10.0**exponent
    assert_penrose(scaled, pseudo_inverse(scaled), condition=1e3)


@given(seed=st.integers(0, 2**32 - 1), exponents=st.lists(floats(-7.0, 0.0), min_size=1, max_size=4))
def test_penroses_four_conditions_on_badly_scaled_matrices(seed: int, exponents: list[float]) -> None:
    rng = np.random.default_rng(seed)
    singular = 10.0 ** np.array(exponents)
    left, _ = np.linalg.qr(rng.normal(size=(5, len(singular))))
    right, _ = np.linalg.qr(rng.normal(size=(6, len(singular))))
    matrix = left * singular @ right.T
    assert_penrose(matrix, pseudo_inverse(matrix), condition=10.0 * singular.max() / singular.min())


def test_ringlayers_example() -> None:
    """[Ringlayer] prints −1 as last element but calculates with A Aᵀ = [[6, 5], [5, 6]], that is with +1."""
    matrix = np.array([[1.0, 2.0, 1.0], [2.0, 1.0, 1.0]])
    inverse = pseudo_inverse(matrix)
    assert_allclose(np.linalg.svd(inverse, compute_uv=False), [1.0, 1.0 / math.sqrt(11.0)], atol=ROUNDING)
    assert_allclose(inverse, matrix.T @ np.linalg.inv(matrix @ matrix.T), atol=ROUNDING)
    as_printed = pseudo_inverse(np.array([[1.0, 2.0, 1.0], [2.0, 1.0, -1.0]]))
    assert_allclose(
        np.linalg.svd(as_printed, compute_uv=False), [1.0 / math.sqrt(3.0), 1.0 / 3.0], atol=ROUNDING
    )


@pytest.mark.parametrize("shape", [(2, 3), (3, 2)])
def test_the_inverse_of_nothing_is_nothing(shape: tuple[int, int]) -> None:
    assert_array_equal(pseudo_inverse(np.zeros(shape)), np.zeros(shape[::-1]))


def test_singular_values_below_the_tolerance_count_as_zero() -> None:
    matrix = np.diag([1.0, 1e-4])
    assert_allclose(pseudo_inverse(matrix), np.diag([1.0, 1e4]))
    assert_allclose(pseudo_inverse(matrix, tolerance=1e-3), np.diag([1.0, 0.0]))


def test_pseudo_inverses_of_a_batch(rng: np.random.Generator) -> None:
    matrices = rng.normal(size=(2, 4, 3, 5))
    matrices[1, 2, 0] = 0.0
    assert_allclose(pseudo_inverse(matrices), np.linalg.pinv(matrices), atol=ROUNDING)


# ----------------------------------------------------------------------------------------------------------
# Damped least squares


@each_seed
@pytest.mark.parametrize(("m", "nv"), [(3, 7), (6, 4)])
def test_damped_step_is_its_definition_and_minimises_error_and_change(m: int, nv: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    damping = 10.0 ** rng.uniform(-2, 1)
    jacobian, e = random_level(rng, m, nv, rank=2)
    dq = damped_step(jacobian, -e, damping)
    square = damping**2 * np.eye(m)
    assert_allclose(dq, jacobian.T @ np.linalg.inv(jacobian @ jacobian.T + square) @ e, atol=ROUNDING)
    # [KiSheen §7]: (JᵀJ + c²I) dq = Jᵀe.
    assert_allclose((jacobian.T @ jacobian + damping**2 * np.eye(nv)) @ dq, jacobian.T @ e, atol=ROUNDING)
    # [Buss2009]: Σ σ/(σ² + λ²) v uᵀe.
    u, s, vt = np.linalg.svd(jacobian, full_matrices=False)
    assert_allclose(dq, vt.T @ (s / (s**2 + damping**2) * (u.T @ e)), atol=ROUNDING)


@each_seed
def test_damped_step_leaves_a_residual_between_the_bounds_of_ki_and_sheen(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jacobian, e = random_level(rng, 3, 7)
    damping = 10.0 ** rng.uniform(-1, 1)
    left = np.linalg.norm(e - jacobian @ damped_step(jacobian, -e, damping)) / np.linalg.norm(e)
    singular = np.linalg.svd(jacobian, compute_uv=False)
    low, high = damping**2 / (singular[[0, -1]] ** 2 + damping**2)
    assert low - ROUNDING <= left <= high + ROUNDING


def test_damped_step_with_one_damping_for_each_frame(rng: np.random.Generator) -> None:
    jacobians, residuals = rng.normal(size=(4, 3, 6)), rng.normal(size=(4, 3))
    damping = np.array([0.1, 0.5, 1.0, 2.0])
    together = damped_step(jacobians, residuals, damping)
    for frame in range(4):
        assert_allclose(together[frame], damped_step(jacobians[frame], residuals[frame], damping[frame]))


def test_a_little_damping_is_the_pseudo_inverse(rng: np.random.Generator) -> None:
    jacobian, e = random_level(rng, 3, 6)
    assert_allclose(damped_step(jacobian, -e, 1e-7), pseudo_inverse(jacobian) @ e, atol=1e-8)


# ----------------------------------------------------------------------------------------------------------
# The prioritised recursion


@each_seed
@pytest.mark.parametrize("rows", [(3, 3), (2, 3, 1), (3,), (1, 1, 1, 1, 1)])
def test_recursion_is_moore_penrose_of_the_stack_when_rows_do_not_conflict(
    rows: tuple[int, ...], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    jacobians = [rng.normal(size=(m, 9)) for m in rows]
    stack = np.concatenate(jacobians)
    inverse, projection = prioritized_inverse(jacobians)
    assert_allclose(inverse, pseudo_inverse(stack), atol=1e-9)  # [KiSheen] Theorem 6.19
    assert_allclose(projection, np.eye(9) - pseudo_inverse(stack) @ stack, atol=1e-9)


def two_effectors(first: Array, e1: Array, second: Array, e2: Array, z: Array) -> Array:
    """[KiSheen] eq. 5.1."""
    inverse = pseudo_inverse(first)
    free = np.eye(first.shape[1]) - inverse @ first
    into = pseudo_inverse(second @ free)
    left_over = free @ (np.eye(first.shape[1]) - into @ second @ free)
    return inverse @ e1 + into @ (e2 - second @ inverse @ e1) + left_over @ z


@each_seed
@pytest.mark.parametrize("rank", [3, 2])
def test_recursion_is_equation_5_1_for_two_effectors(rank: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    (first, e1), (second, e2), z = (
        random_level(rng, 3, 8, rank),
        random_level(rng, 3, 8, rank),
        rng.normal(size=8),
    )
    inverse, projection = prioritized_inverse([first, second])
    dq = inverse @ np.concatenate([e1, e2]) + projection @ z
    assert_allclose(dq, two_effectors(first, e1, second, e2, z), atol=1e-9)


@each_seed
def test_recursion_is_theorem_6_8_for_three_effectors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    (first, e1), (second, e2), (third, e3) = (random_level(rng, 2, 9) for _ in range(3))
    identity, inverse = np.eye(9), pseudo_inverse(first)

    def between(one: Array, other: Array) -> Array:
        """Z of one effector, the other coming after it."""
        other_free = pseudo_inverse(other @ (identity - inverse @ first)) @ other
        first_free = pseudo_inverse(first @ (identity - pseudo_inverse(other) @ other)) @ first
        return pseudo_inverse(one @ (identity - other_free - first_free))

    dq = inverse @ e1
    dq = dq + between(second, third) @ (e2 - second @ inverse @ e1)
    dq = dq + between(third, second) @ (e3 - third @ inverse @ e1)
    assert_allclose(recursion([(first, e1), (second, e2), (third, e3)]), dq, atol=1e-9)


CONFLICTS = ["none", "shared row", "rank deficient", "repeated", "more rows than channels"]

each_conflict = pytest.mark.parametrize("conflict", CONFLICTS)


def conflicting(rng: np.random.Generator, conflict: str) -> list[tuple[Array, Array]]:
    """Three levels on seven channels whose rows conflict in some way."""
    levels = [random_level(rng, m, 7) for m in (2, 2, 1)]
    if conflict == "shared row":
        levels[1] = np.array([levels[0][0][0], rng.normal(size=7)]), levels[1][1]
    elif conflict == "rank deficient":
        levels[0] = random_level(rng, 3, 7, rank=1)
        levels[1] = random_level(rng, 3, 7, rank=2)
    elif conflict == "repeated":
        levels[1] = rng.normal(size=(2, 2)) @ levels[0][0], levels[1][1]
    elif conflict == "more rows than channels":
        levels = [random_level(rng, m, 7) for m in (3, 6, 4)]
    return levels


def best_after(levels: Sequence[tuple[Array, Array]]) -> list[Array]:
    """J_k dq of each level when it is met as well as those before it allow, by equality constraints."""
    nv = levels[0][0].shape[1]
    dq, basis = np.zeros(nv), np.eye(nv)
    met: list[Array] = []
    for jacobian, e in levels:
        left = jacobian @ basis
        left = np.where(np.abs(left) < 1e-9, 0.0, left)
        dq = dq + basis @ np.linalg.pinv(left, rcond=1e-9) @ (e - jacobian @ dq)
        _, s, vt = np.linalg.svd(left)
        basis = basis @ vt[int((s > 1e-9).sum()) :].T
        met.append(jacobian @ dq)
    return met


@each_seed
@each_conflict
def test_what_is_left_over_moves_no_effector(conflict: str, seed: int) -> None:
    levels = conflicting(np.random.default_rng(seed), conflict)
    _, projection = prioritized_inverse([jacobian for jacobian, _ in levels])
    for jacobian, _ in levels:
        assert_allclose(jacobian @ projection, np.zeros_like(jacobian), atol=ROUNDING)
    assert_allclose(projection, projection.T, atol=ROUNDING)
    assert_allclose(projection @ projection, projection, atol=ROUNDING)


@each_seed
@each_conflict
def test_each_level_is_met_as_well_as_those_before_it_allow(conflict: str, seed: int) -> None:
    levels = conflicting(np.random.default_rng(seed), conflict)
    dq = recursion(levels)
    for (jacobian, _), expected in zip(levels, best_after(levels), strict=True):
        assert_allclose(jacobian @ dq, expected, atol=1e-9)


@each_seed
@each_conflict
def test_later_levels_change_nothing_for_earlier_ones(conflict: str, seed: int) -> None:
    levels = conflicting(np.random.default_rng(seed), conflict)
    first, second = recursion(levels[:1]), recursion(levels[:2])
    dq = recursion(levels)
    assert_allclose(levels[0][0] @ second, levels[0][0] @ first, atol=1e-9)
    assert_allclose(levels[0][0] @ dq, levels[0][0] @ first, atol=1e-9)
    assert_allclose(levels[1][0] @ dq, levels[1][0] @ second, atol=1e-9)


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
    assert_allclose(dq, damped_step(jacobian, -e, damping), atol=ROUNDING)


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

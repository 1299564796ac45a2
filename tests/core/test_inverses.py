# SPDX-License-Identifier: GPL-3.0-or-later
"""Generalised inverses against their definitions, on matrices rather than skeletons."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks.papers.formulas import (
    prioritized_inverse,
    three_effector_inverse,
    two_effector_inverse,
    weighted_inverse,
)
from blender_ik_addon.core import IKError
from blender_ik_addon.core.methods.step_rules import damped_inverse, null_space_projection, pseudo_inverse
from tests.core.builders import Array
from tests.core.matrices import (
    ROUNDING,
    best_after,
    conflicting,
    each_conflict,
    each_seed,
    integers_of_any_rank,
    random_level,
)
from tests.core.strategies import floats

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
# Damped and weighted


@each_seed
def test_the_damped_inverse_is_the_pseudo_inverse_with_its_singular_values_damped(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jacobian, _ = random_level(rng, 3, 6, rank=2)
    u, s, vt = np.linalg.svd(jacobian, full_matrices=False)
    expected = vt.T * (s / (s**2 + 0.3**2)) @ u.T  # [Buss2009]: Σ σ/(σ² + λ²) v uᵀ
    assert_allclose(damped_inverse(jacobian, 0.3), expected, atol=ROUNDING)


@each_seed
def test_whitneys_inverse_is_its_definition_and_answers_with_the_least_spring_energy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    (jacobian, e), stiffness = random_level(rng, 3, 6), rng.uniform(0.1, 5.0, 6)
    inverse = weighted_inverse(jacobian, stiffness)
    soft = jacobian.T / stiffness[:, None]
    assert_allclose(inverse, soft @ np.linalg.inv(jacobian @ soft), atol=1e-9)
    change = inverse @ e
    assert_allclose(jacobian @ change, e, atol=1e-9)
    other = change + null_space_projection(jacobian) @ rng.normal(size=6)
    assert change @ (stiffness * change) < other @ (stiffness * other)


def test_whitneys_inverse_with_equal_stiffness_is_moore_penrose_also_where_rows_depend(
    rng: np.random.Generator,
) -> None:
    jacobian, _ = random_level(rng, 3, 6, rank=2)
    assert_allclose(weighted_inverse(jacobian, np.full(6, 4.0)), pseudo_inverse(jacobian), atol=ROUNDING)


@pytest.mark.parametrize("stiffness", [[1.0, 0.0], [1.0, -1.0], [1.0, math.nan], [1.0, math.inf], [1.0]])
def test_whitneys_inverse_refuses_springs_that_are_none(stiffness: list[float]) -> None:
    with pytest.raises(IKError, match="stiffness"):
        weighted_inverse(np.ones((1, 2)), np.array(stiffness))


@each_seed
def test_the_null_space_projection_is_one(seed: int) -> None:
    jacobian, _ = random_level(np.random.default_rng(seed), 3, 7, rank=2)
    projection = null_space_projection(jacobian)
    assert_allclose(jacobian @ projection, np.zeros((3, 7)), atol=ROUNDING)
    assert_allclose(projection @ projection, projection, atol=ROUNDING)
    assert_allclose(np.trace(projection), 5.0)


# ----------------------------------------------------------------------------------------------------------
# Several effectors


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
    assert_allclose(projection, null_space_projection(stack), atol=1e-9)


@each_seed
def test_equation_5_1_and_theorem_6_8_are_moore_penrose_of_the_stack_when_rows_do_not_conflict(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    jacobians = [rng.normal(size=(m, 9)) for m in (2, 3, 2)]
    for count, (inverse, projection) in (
        (2, two_effector_inverse(*jacobians[:2])),
        (3, three_effector_inverse(*jacobians)),
    ):
        stack = np.concatenate(jacobians[:count])
        assert_allclose(inverse, pseudo_inverse(stack), atol=1e-9)
        assert_allclose(projection, null_space_projection(stack), atol=1e-9)


@each_seed
@each_conflict
def test_recursion_is_equation_5_1_for_two_effectors_also_where_rows_conflict(
    conflict: str, seed: int
) -> None:
    (first, _), (second, _) = conflicting(np.random.default_rng(seed), conflict)[:2]
    inverse, projection = prioritized_inverse([first, second])
    printed, left_over = two_effector_inverse(first, second)
    assert_allclose(printed, inverse, atol=1e-9)
    assert_allclose(left_over, projection, atol=1e-9)


@each_seed
@each_conflict
def test_what_is_left_over_moves_no_effector(conflict: str, seed: int) -> None:
    jacobians = [jacobian for jacobian, _ in conflicting(np.random.default_rng(seed), conflict)]
    for count, (_, projection) in (
        (3, prioritized_inverse(jacobians)),
        (2, two_effector_inverse(*jacobians[:2])),
        (3, three_effector_inverse(*jacobians)),
    ):
        for jacobian in jacobians[:count]:
            assert_allclose(jacobian @ projection, np.zeros_like(jacobian), atol=ROUNDING)
        assert_allclose(projection, projection.T, atol=ROUNDING)
        assert_allclose(projection @ projection, projection, atol=ROUNDING)


def recursion(levels: Sequence[tuple[Array, Array]]) -> Array:
    """dq = J̃_M (e_1 … e_M)."""
    inverse, _ = prioritized_inverse([jacobian for jacobian, _ in levels])
    return inverse @ np.concatenate([e for _, e in levels])


@each_seed
@each_conflict
def test_each_effector_is_met_as_well_as_those_before_it_allow(conflict: str, seed: int) -> None:
    """So later ones change nothing for earlier ones."""
    levels = conflicting(np.random.default_rng(seed), conflict)
    dq = recursion(levels)
    for (jacobian, _), expected in zip(levels, best_after(levels), strict=True):
        assert_allclose(jacobian @ dq, expected, atol=1e-9)


def test_batches_are_inverted_one_by_one(rng: np.random.Generator) -> None:
    j1, j2, j3 = (rng.normal(size=(2, 3, m, 8)) for m in (2, 2, 3))
    stiffness = rng.uniform(0.5, 2.0, (2, 3, 8))
    damping = rng.uniform(0.1, 1.0, (2, 3))
    j2[1, 2] = j1[1, 2]  # a conflict in one of them only
    together = (
        prioritized_inverse([j1, j2, j3])[0],
        two_effector_inverse(j1, j2)[1],
        three_effector_inverse(j1, j2, j3)[0],
        weighted_inverse(j1, stiffness),
        damped_inverse(j3, damping),
    )
    for at in np.ndindex(2, 3):
        alone = (
            prioritized_inverse([j1[at], j2[at], j3[at]])[0],
            two_effector_inverse(j1[at], j2[at])[1],
            three_effector_inverse(j1[at], j2[at], j3[at])[0],
            weighted_inverse(j1[at], stiffness[at]),
            damped_inverse(j3[at], damping[at]),
        )
        for one, many in zip(alone, together, strict=True):
            assert_allclose(many[at], one, atol=1e-9)

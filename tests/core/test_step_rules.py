# SPDX-License-Identifier: GPL-3.0-or-later
"""The papers' step rules against their definitions, on matrices and on planar chains."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks.papers.formulas import planar_elements
from blender_ik_addon.core import IKError, Pose, Skeleton
from blender_ik_addon.core.arrays import IntArray
from blender_ik_addon.core.methods.step_rules import (
    bounded_least_squares_step,
    damped_step,
    extended_jacobian_step,
    null_space_projection,
    pseudo_inverse,
    pseudo_inverse_step,
    selectively_damped_step,
    spring_inverse,
    springs_step,
    transpose_step,
)
from blender_ik_addon.core.model.mechanism import Mechanism, PosedMechanism
from tests.core.builders import Array, planar, random_pose, tip, tree
from tests.core.strategies import floats

ROUNDING = 1e-10

each_seed = pytest.mark.parametrize("seed", range(3))


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


def test_singular_values_below_the_tolerance_count_as_zero() -> None:
    matrix = np.diag([1.0, 1e-4])
    assert_allclose(pseudo_inverse(matrix), np.diag([1.0, 1e4]))
    assert_allclose(pseudo_inverse(matrix, tolerance=1e-3), np.diag([1.0, 0.0]))


# ----------------------------------------------------------------------------------------------------------
# Transpose, pseudo-inverse, gradient


@each_seed
def test_the_transpose_step_is_the_multiple_of_downhill_that_comes_nearest(seed: int) -> None:
    jacobian, e = random_level(np.random.default_rng(seed), 3, 6, rank=2)
    change, downhill = transpose_step(jacobian, e), jacobian.T @ e
    alpha = float(change @ downhill / (downhill @ downhill))
    assert_allclose(change, alpha * downhill, atol=ROUNDING)
    best = np.linalg.norm(e - jacobian @ change)
    for other in (0.99 * alpha, 1.01 * alpha):
        assert np.linalg.norm(e - other * jacobian @ downhill) > best


def test_the_transpose_step_stands_still_where_nothing_helps() -> None:
    jacobian = np.array([[0.0, 0.0], [1.0, 2.0]])  # stretched: the error is along the chain
    assert_array_equal(transpose_step(jacobian, np.array([1.0, 0.0])), np.zeros(2))


@each_seed
def test_what_is_wished_for_the_channels_moves_no_effector(seed: int) -> None:
    rng = np.random.default_rng(seed)
    (jacobian, e), z = random_level(rng, 3, 7, rank=2), rng.normal(size=7)
    plain, wished = pseudo_inverse_step(jacobian, e), pseudo_inverse_step(jacobian, e, z)
    assert_allclose(plain, pseudo_inverse(jacobian) @ e, atol=ROUNDING)
    assert_allclose(jacobian @ wished, jacobian @ plain, atol=ROUNDING)
    assert_allclose(wished - plain, null_space_projection(jacobian) @ z, atol=ROUNDING)


# ----------------------------------------------------------------------------------------------------------
# Damped and selectively damped


@each_seed
@pytest.mark.parametrize(("m", "nv"), [(3, 7), (6, 4)])
def test_damped_step_is_its_definition_and_minimises_error_and_change(m: int, nv: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    damping = 10.0 ** rng.uniform(-2, 1)
    jacobian, e = random_level(rng, m, nv, rank=2)
    dq = damped_step(jacobian, e, damping)
    square = damping**2 * np.eye(m)
    assert_allclose(dq, jacobian.T @ np.linalg.inv(jacobian @ jacobian.T + square) @ e, atol=ROUNDING)
    # [KiSheen §7]: (JᵀJ + c²I) dq = Jᵀe.
    assert_allclose((jacobian.T @ jacobian + damping**2 * np.eye(nv)) @ dq, jacobian.T @ e, atol=ROUNDING)
    # [Buss2009]: Σ σ/(σ² + λ²) v uᵀe.
    u, s, vt = np.linalg.svd(jacobian, full_matrices=False)
    assert_allclose(dq, vt.T @ (s / (s**2 + damping**2) * (u.T @ e)), atol=ROUNDING)


def selectively_damped_as_printed(
    jacobian: Array, e: Array, effectors: int, gamma_max: float
) -> Array:  # [BussKim2005], one sum after another
    nv = jacobian.shape[1]
    u, s, vt = np.linalg.svd(jacobian, full_matrices=False)

    def clamp_max_abs(w: Array, d: float) -> Array:
        return w if np.abs(w).max() <= d else d * w / np.abs(w).max()

    total = np.zeros(nv)
    for i in range(len(s)):
        if s[i] < 1e-9:
            continue
        n = sum(float(np.linalg.norm(u[3 * f : 3 * f + 3, i])) for f in range(effectors))
        m = 0.0
        for f in range(effectors):
            for j in range(nv):
                m += float(abs(vt[i, j]) * np.linalg.norm(jacobian[3 * f : 3 * f + 3, j]) / s[i])
        gamma = min(1.0, n / m) * gamma_max
        total = total + clamp_max_abs((u[:, i] @ e) / s[i] * vt[i], gamma)
    return clamp_max_abs(total, gamma_max)


@each_seed
@pytest.mark.parametrize("size", [0.01, 1.0, 100.0])
def test_the_selectively_damped_step_is_its_definition(size: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    jacobian, e = random_level(rng, 6, 9, rank=5 if seed % 2 else 6)
    change = selectively_damped_step(jacobian, size * e, [3, 3], gamma_max=0.6)
    assert_allclose(change, selectively_damped_as_printed(jacobian, size * e, 2, 0.6), atol=1e-9)
    assert np.abs(change).max() <= 0.6 + ROUNDING


def test_effectors_of_a_selectively_damped_step_must_have_its_rows() -> None:
    with pytest.raises(IKError, match=r"4 rows together \(2, 2\), but the error has 3"):
        selectively_damped_step(np.ones((3, 5)), np.ones(3), [2, 2])
    with pytest.raises(IKError, match="gamma_max"):
        selectively_damped_step(np.ones((3, 5)), np.ones(3), [3], gamma_max=0.0)


# ----------------------------------------------------------------------------------------------------------
# Springs


def placed(skeleton: Skeleton, values: Array) -> tuple[PosedMechanism, Array, Array]:
    """Mechanism of all joints, point and Jacobian of the last joint's tip, for free channels (nv,)."""
    mechanism = Mechanism.of(skeleton, Pose.rest(skeleton, (1,)), range(len(skeleton)))
    posed = mechanism.place(values[None])
    anchors, local = anchors_of(skeleton)
    point = posed.points(anchors, local)
    return posed, point[0, 0], posed.point_jacobian(anchors, point)[0, 0]


def anchors_of(skeleton: Skeleton) -> tuple[IntArray, Array]:
    """Slot and point of the last joint's tip."""
    mechanism = Mechanism.of(skeleton, Pose.rest(skeleton, (1,)), range(len(skeleton)))
    return np.array([mechanism.anchor(len(skeleton) - 1)]), tip()[None, None]


def bend_of(skeleton: Skeleton, values: Array, force: Array) -> Array:
    """Σ_l f_l ∂²x_l/∂θ∂θ of the tip."""
    posed, _, jacobian = placed(skeleton, values)
    return posed.hessian(force[None, None], jacobian[None, None]).matrix()[0]


SPRINGS = {"planar": (planar(4), (0, 1)), "tree": (None, (0, 1, 2))}


def spring_case(case: str, rng: np.random.Generator) -> tuple[Skeleton, tuple[int, ...], Array, Array, Array]:
    """Skeleton, rows, angles, stiffness and free angles."""
    skeleton, rows = SPRINGS[case]
    skeleton = skeleton or tree(rng, 5, deep=True)
    pose = random_pose(rng, skeleton, only_free=True)
    values = Mechanism.of(skeleton, Pose.rest(skeleton, (1,)), range(len(skeleton))).values(pose)
    nv = len(values)
    return skeleton, rows, values, rng.uniform(0.5, 3.0, nv), values + rng.normal(size=nv) * 0.3


@each_seed
def test_the_spring_inverse_is_its_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    (jacobian, e), stiffness = random_level(rng, 3, 7), rng.uniform(0.5, 2.0, 7)
    bend = rng.normal(size=(7, 7)) * 0.1
    bend = bend + bend.T
    a = np.linalg.inv(np.diag(stiffness) - bend)
    expected = a @ jacobian.T @ np.linalg.inv(jacobian @ a @ jacobian.T)
    assert_allclose(spring_inverse(jacobian, stiffness, bend)[0], expected, atol=1e-8)
    change = springs_step(jacobian, e, stiffness, np.ones(7), bend)
    assert_allclose(change, expected @ e, atol=1e-8)


def test_springs_whose_matrix_is_singular_or_indefinite_have_an_answer(rng: np.random.Generator) -> None:
    jacobian, e = random_level(rng, 2, 5)
    directions = np.linalg.svd(jacobian)[2]
    # Singular in the effector's directions; singular, then indefinite, among the poses that leave it there.
    for bend, direction in ((1.0, directions[0]), (1.0, directions[2]), (3.0, directions[2])):
        inverse, _ = spring_inverse(jacobian, np.ones(5), bend * np.outer(direction, direction))
        assert_allclose(jacobian @ inverse @ e, e, atol=1e-9)
        assert np.abs(inverse).max() < 100.0


def energy_rows(skeleton: Skeleton, rows: tuple[int, ...], stiffness: Array, free: Array, at: Array) -> Array:
    """What is left of the springs' torques in the null space."""
    jacobian = placed(skeleton, at)[2][list(rows)]
    return null_space_projection(jacobian) @ (stiffness * (at - free))


@pytest.mark.parametrize("case", SPRINGS)
def test_springs_settle_where_their_energy_is_least_and_stay_there(
    case: str, rng: np.random.Generator
) -> None:
    skeleton, rows, values, stiffness, free = spring_case(case, rng)

    def step(at: Array, e: Array, settling: float) -> Array:
        jacobian = placed(skeleton, at)[2][list(rows)]
        force = np.zeros(3)
        force[list(rows)] = np.linalg.solve(jacobian @ (jacobian / stiffness).T, jacobian @ (at - free))
        bend = bend_of(skeleton, at, force)
        return at + springs_step(jacobian, e, stiffness, at - free, bend, settling=settling)

    goal = placed(skeleton, values)[1][list(rows)]
    for _ in range(40):
        values = step(values, goal - placed(skeleton, values)[1][list(rows)], 1.0)
    assert_allclose(energy_rows(skeleton, rows, stiffness, free, values), 0.0, atol=1e-9)
    # The plain rule, as printed, keeps them at rest to first order while the effector moves.
    small = 1e-4 * np.ones(len(rows))
    moved = step(values, small, 0.0)
    assert np.abs(moved - values).max() > 1e-6
    assert np.abs(energy_rows(skeleton, rows, stiffness, free, moved)).max() < 1e-6
    jacobian = placed(skeleton, values)[2][list(rows)]
    shortest = values + pseudo_inverse_step(jacobian, small)
    assert np.abs(energy_rows(skeleton, rows, stiffness, free, shortest)).max() > 1e-5


# ----------------------------------------------------------------------------------------------------------
# Extended Jacobian


def main_link(lengths: Array, angles: Array) -> Array:
    """Jacobian of the chain's end, (2, n)."""
    summed = np.cumsum(angles)
    x, y = -lengths * np.sin(summed), lengths * np.cos(summed)
    return np.stack([np.cumsum(part[::-1])[::-1] for part in (x, y)])


def test_the_extended_jacobian_has_full_rank_where_the_chain_is_stretched() -> None:
    """Their experiment's start; the pseudo-inverse of the tip's rows alone has nothing to go by there."""
    lengths, angles = np.array([90.0, 60.0, 90.0, 150.0, 150.0, 90.0]), np.zeros(6)
    jacobian, elements = main_link(lengths, angles), planar_elements(lengths, angles)
    assert np.linalg.matrix_rank(jacobian) == 1
    stack = np.concatenate([jacobian, elements])
    assert stack.shape == (12, 6)
    assert np.linalg.matrix_rank(stack) == 6
    e = np.array([0.0, 5.0])
    change = extended_jacobian_step(jacobian, e, elements)
    normal = np.linalg.solve(stack.T @ stack, stack.T @ np.concatenate([e, np.zeros(10)]))
    assert_allclose(change, normal, atol=ROUNDING)  # as they solve it


def test_elements_take_displacements_and_weights(rng: np.random.Generator) -> None:
    lengths, angles = rng.uniform(0.5, 2.0, 5), rng.normal(size=5)
    jacobian, elements = main_link(lengths, angles), planar_elements(lengths, angles)
    wanted = rng.normal(size=5)
    # Displacements that one motion of the joints explains are met, whatever the weights.
    for weight in (1.0, np.linspace(0.5, 2.0, 8)):
        change = extended_jacobian_step(
            jacobian, jacobian @ wanted, elements, elements @ wanted, weight=weight
        )
        assert_allclose(change, wanted, atol=1e-9)
    none = extended_jacobian_step(jacobian, np.ones(2), elements, weight=0.0)
    assert_allclose(none, pseudo_inverse(jacobian) @ np.ones(2), atol=ROUNDING)


# ----------------------------------------------------------------------------------------------------------
# Bounded least squares


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 6), st.integers(1, 8)),
    c=st.one_of(st.just(0.0), floats(0.05, 1.0)),
    size=st.sampled_from([0.1, 1.0, 30.0]),
)
def test_the_bounded_step_is_the_best_within_its_bounds(
    seed: int, shape: tuple[int, int], c: float, size: float
) -> None:
    rng = np.random.default_rng(seed)
    jacobian, e = rng.normal(size=shape), size * rng.normal(size=shape[0])
    lower, upper = -rng.uniform(0.0, 0.5, shape[1]), rng.uniform(0.01, 0.5, shape[1])
    lower[rng.random(shape[1]) < 0.2] = -np.inf
    fixed = rng.random(shape[1]) < 0.1
    lower[fixed] = upper[fixed] = 0.0
    if seed % 3 == 0:  # 0 need not lie inside: the pose may be outside its limits
        lower, upper = lower + 0.3, upper + 0.3
    change = bounded_least_squares_step(jacobian, e, lower, upper, c)
    assert (change >= lower).all() and (change <= upper).all()
    slope = jacobian.T @ (jacobian @ change - e) + c * c * change  # rises along each way that is left
    assert (slope[change > lower] < 1e-7).all() and (slope[change < upper] > -1e-7).all()


def test_bounds_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(IKError, match="lower bound of the step"):
        bounded_least_squares_step(np.ones((1, 2)), np.ones(1), np.ones(2), np.zeros(2))


# ----------------------------------------------------------------------------------------------------------
# Clamps, batches


def test_the_rules_without_bounds_answer_a_batch_one_by_one(rng: np.random.Generator) -> None:
    jacobian, e = rng.normal(size=(2, 3, 4, 6)), rng.normal(size=(2, 3, 4))
    jacobian[1, 1, 3] = jacobian[1, 1, 0]  # of another rank than the rest
    deviation, bend = rng.normal(size=(2, 3, 6)), rng.normal(size=(2, 3, 6, 6)) * 0.2
    elements, stiffness = rng.normal(size=(2, 3, 5, 6)), rng.uniform(0.5, 2.0, (2, 3, 6))
    damping = rng.uniform(0.1, 2.0, (2, 3))

    def answers(at: tuple[int, ...]) -> list[Array]:
        j, r, d, g, k = jacobian[at], e[at], deviation[at], bend[at], stiffness[at]
        return [
            transpose_step(j, r),
            pseudo_inverse_step(j, r, d),
            pseudo_inverse_step(j, r, -0.3 * d),
            damped_step(j, r, damping[at]),
            selectively_damped_step(j, r, [2, 2]),
            springs_step(j, r, k, d, g, settling=1.0),
            extended_jacobian_step(j, r, elements[at], weight=0.5),
        ]

    together = answers(())
    for at in np.ndindex(2, 3):
        for one, many in zip(answers(at), together, strict=True):
            assert_allclose(many[at], one, atol=1e-8)

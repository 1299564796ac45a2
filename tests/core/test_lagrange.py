# SPDX-License-Identifier: GPL-3.0-or-later
"""One step on Lagrange's conditions, against dense algebra and scipy, on matrices rather than skeletons."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import lsq_linear

from blender_ik_addon.core import lagrange
from blender_ik_addon.core.arrays import BoolArray
from blender_ik_addon.core.lagrange import Box, Conditions, Step, add_diagonal, multipliers_of
from blender_ik_addon.core.objective import DenseBend
from blender_ik_addon.core.rules import damped_step
from tests.core.builders import Array
from tests.core.in_turn import in_turn

FRAMES = 60
FAR = 1e3
"""A trust radius that is never reached."""
ROUNDING = 1e-9
INEXACT = 0.1
"""Part of the gradient along the tasks that conjugate gradients may leave at most [1]."""
SMALL = 1e-4
"""Size of wishes and residuals for which they leave next to nothing."""

each_seed = in_turn("seed", range(3))


@pytest.fixture(params=[True, False], ids=["by the matrix", "by conjugate gradients"], autouse=True)
def by_matrix(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Both ways along the tasks: that for few channels and that for many."""
    if not request.param:
        monkeypatch.setattr(lagrange, "FACTORED", 0)
    return bool(request.param)


def random_conditions(
    rng: np.random.Generator,
    m: int = 3,
    nv: int = 8,
    *,
    frames: int = FRAMES,
    damping: float = 0.0,
    missing: float = 1.0,
    wish: float = 0.0,
    bend: float = 0.12,
) -> Conditions:
    """Tasks that can be met; with a wish, one that bends upward unless `bend` is large.

    Args:
        rng: Source of random numbers.
        m: Rows.
        nv: Channels.
        frames: Frames.
        damping: λ².
        missing: Size of the residual.
        wish: Size of the way to the preferred pose; 0 for no wish.
        bend: Size of the elements of C = H − 1.
    """
    curvature = rng.normal(size=(frames, nv, nv)) * bend
    return Conditions(
        jacobian=rng.normal(size=(frames, m, nv)),
        residual=missing * rng.normal(size=(frames, m)),
        damping=np.full(frames, damping),
        away=wish * rng.normal(size=(frames, nv)) if wish else None,
        bend=DenseBend(np.eye(nv) + 0.5 * (curvature + np.swapaxes(curvature, -1, -2))) if wish else None,
    )


def random_box(rng: np.random.Generator, conditions: Conditions, size: float, radius: float = FAR) -> Box:
    frames, _, nv = conditions.jacobian.shape
    room = rng.uniform(0.2, 1.0, (2, frames, nv)) * size
    return Box(-room[0], room[1], np.full(frames, radius))


def no_box(conditions: Conditions, radius: float = FAR) -> Box:
    frames, _, nv = conditions.jacobian.shape
    unlimited = np.full((frames, nv), np.inf)
    return Box(-unlimited, unlimited, np.full(frames, radius))


def solved(
    conditions: Conditions, box: Box, standing: BoolArray | None = None
) -> tuple[Step, BoolArray, BoolArray]:
    return conditions.solve(box, np.zeros(box.down.shape, dtype=bool) if standing is None else standing)


def hessians(conditions: Conditions) -> Array:
    """H, (F, nv, nv)."""
    assert isinstance(conditions.bend, DenseBend)
    return conditions.bend.matrices


def times(matrices: Array, vectors: Array) -> Array:
    return np.einsum("fij,fj->fi", matrices, vectors)


def some(conditions: Conditions, frame: int) -> Conditions:
    """One frame, in arrays of its own."""
    bend = conditions.bend
    return Conditions(
        conditions.jacobian[[frame]],
        conditions.residual[[frame]],
        conditions.damping[[frame]],
        None if conditions.away is None else conditions.away[[frame]],
        None if bend is None else bend.select(np.array([frame])),
    )


def pressed_rightly(change: Array, slope: Array, down: Array, up: Array, tolerance: float) -> bool:
    """Karush, Kuhn and Tucker in one frame: no slope but against limits on which a channel stands."""
    wrong = ((slope > tolerance) & (change > down)) | ((slope < -tolerance) & (change < up))
    return not wrong.any()


# ----------------------------------------------------------------------------------------------------------
# Without a wish


@in_turn(("m", "nv"), [(2, 6), (4, 4), (6, 3)])
def test_without_wish_and_limits_it_is_the_damped_step(m: int, nv: int, rng: np.random.Generator) -> None:
    conditions = random_conditions(rng, m, nv, damping=0.25)
    step, held, signs_right = solved(conditions, no_box(conditions))
    expected = damped_step(conditions.jacobian, -conditions.residual, np.sqrt(conditions.damping))
    assert_allclose(step.change, expected, atol=ROUNDING)
    assert step.newton.all() and signs_right.all() and not held.any()
    assert_allclose(conditions.slope(step), 0.0, atol=ROUNDING)


def test_the_radius_shortens_it_and_keeps_its_direction(rng: np.random.Generator) -> None:
    conditions = random_conditions(rng, damping=0.1)
    whole, _, _ = solved(conditions, no_box(conditions))
    size = np.abs(whole.change).max(axis=1)
    radius = float(np.median(size))
    step, _, _ = solved(conditions, no_box(conditions, radius))
    assert_array_equal(step.newton, size <= radius)
    assert_allclose(
        step.change, whole.change * np.minimum(1.0, radius / size)[:, None], rtol=ROUNDING, atol=0
    )


@each_seed
@in_turn("damping", [0.01, 1.0])
def test_in_a_box_it_is_the_bounded_least_squares_step_where_it_says_so(seed: int, damping: float) -> None:
    rng = np.random.default_rng(seed)
    conditions = random_conditions(rng, int(rng.integers(2, 5)), 7, damping=damping)
    given = conditions.jacobian.copy(), conditions.residual.copy()
    box = random_box(rng, conditions, 0.5)
    step, held, signs_right = solved(conditions, box)
    at_limits = 0
    for frame in range(FRAMES):
        jacobian, residual = given[0][frame], given[1][frame]
        matrix = np.concatenate([jacobian, np.sqrt(damping) * np.eye(7)])
        wanted = np.concatenate([-residual, np.zeros(7)])
        limits = box.down[frame], box.up[frame]
        best = lsq_linear(matrix, wanted, limits, method="bvls", tol=1e-14)
        cost = 0.5 * float(np.sum((matrix @ step.change[frame] - wanted) ** 2))
        if signs_right[frame]:
            assert_allclose(step.change[frame], best.x, atol=1e-8)
            assert_array_equal(held[frame], (best.x <= limits[0]) | (best.x >= limits[1]))
            at_limits += bool(held[frame].any())
        else:
            assert cost > best.cost
    assert at_limits > FRAMES // 10


def test_what_it_was_given_is_as_before(rng: np.random.Generator) -> None:
    conditions = random_conditions(rng, wish=1.0)
    assert conditions.away is not None
    arrays = conditions.jacobian, conditions.residual, conditions.away
    before = [array.copy() for array in arrays]
    solved(conditions, random_box(rng, conditions, 0.3))
    for array, copy in zip(arrays, before, strict=True):
        assert_array_equal(array, copy)


# ----------------------------------------------------------------------------------------------------------
# With a wish


@in_turn("bend", [-0.5 * lagrange.FLAT, 0.0, 0.5 * lagrange.FLAT])
def test_where_the_wish_hardly_bends_it_goes_down_as_far_as_it_may(bend: float) -> None:
    radius, slope = 0.1, 1e-6
    conditions = Conditions(
        jacobian=np.array([[[1.0, 0.0]]]),
        residual=np.zeros((1, 1)),
        damping=np.zeros(1),
        away=np.array([[0.0, slope]]),
        bend=DenseBend(np.diag([1.0, bend])[None]),
    )
    step, _, _ = solved(conditions, no_box(conditions, radius))
    # Where the slope ends by such a bend, if it does, is known to no digit.
    assert_allclose(step.change, [[0.0, -radius]], atol=ROUNDING)
    assert not step.newton.any()


def test_where_the_wish_bends_a_little_more_its_least_is_found() -> None:
    slope, bend = 1e-6, 2.0 * lagrange.FLAT
    conditions = Conditions(
        jacobian=np.array([[[1.0, 0.0]]]),
        residual=np.zeros((1, 1)),
        damping=np.zeros(1),
        away=np.array([[0.0, slope]]),
        bend=DenseBend(np.diag([1.0, bend])[None]),
    )
    step, _, _ = solved(conditions, no_box(conditions, 0.1))
    assert_allclose(step.change, [[0.0, -slope / bend]], rtol=1e-6, atol=ROUNDING)
    assert step.newton.all()


@in_turn("size", [1.0, 1e-2, SMALL])
def test_with_a_wish_it_is_newtons_step_on_lagranges_conditions(
    size: float, rng: np.random.Generator
) -> None:
    conditions = random_conditions(rng, missing=size, wish=size)
    assert conditions.away is not None
    step, held, signs_right = solved(conditions, no_box(conditions))
    assert step.newton.all() and signs_right.all() and not held.any()
    hessian = hessians(conditions)
    m, nv = conditions.jacobian.shape[1:]
    for frame in range(FRAMES):
        J, r, w, H = (
            conditions.jacobian[frame],
            conditions.residual[frame],
            conditions.away[frame],
            hessian[frame],
        )
        null = np.linalg.svd(J)[2][m:]
        assert np.linalg.eigvalsh(null @ H @ null.T)[0] > 0.0
        assert_allclose(J @ step.change[frame], -r, atol=1e-8 * size)
        before = np.linalg.norm(null @ (w - H @ np.linalg.pinv(J) @ r))
        after = np.linalg.norm(null @ (w + H @ step.change[frame]))
        assert (
            after <= 1.01 * np.clip(before, SMALL, INEXACT) * before
        )  # quadratic convergence needs this much
        if size == SMALL:
            kkt = np.block([[H, J.T], [J, np.zeros((m, m))]])
            exact = np.linalg.solve(kkt, -np.concatenate([w, r]))
            assert_allclose(step.change[frame], exact[:nv], atol=0.01 * size)
            assert_allclose(step.multipliers[frame], exact[nv:], atol=0.01 * np.abs(exact[nv:]).max())
            assert_allclose(conditions.slope(step)[frame], 0.0, atol=0.01 * size)


def test_damping_shortens_the_way_to_the_tasks_and_not_that_along_them(rng: np.random.Generator) -> None:
    conditions = random_conditions(rng, damping=0.5, missing=SMALL, wish=SMALL)
    assert conditions.away is not None
    step, _, _ = solved(conditions, no_box(conditions))
    towards = damped_step(conditions.jacobian, -conditions.residual, np.sqrt(0.5))
    assert_allclose(times(conditions.jacobian, step.change - towards), 0.0, atol=1e-8 * SMALL)
    gradient = conditions.away + times(hessians(conditions), step.change)
    rows = np.linalg.pinv(conditions.jacobian) @ conditions.jacobian
    assert_allclose(gradient - times(rows, gradient), 0.0, atol=0.01 * SMALL)


@each_seed
@in_turn("missing", [0.0, 0.3])
def test_at_limits_it_says_rightly_whether_it_is_optimal(seed: int, missing: float) -> None:
    """By multipliers from dense least squares over the channels that are off their limits."""
    rng = np.random.default_rng(seed)
    conditions = random_conditions(rng, 2, 9, missing=missing * SMALL, wish=SMALL)
    assert conditions.away is not None
    jacobian = conditions.jacobian.copy()
    box = random_box(rng, conditions, 1.2 * SMALL)
    step, held, signs_right = solved(conditions, box)
    gradient = conditions.away + times(hessians(conditions), step.change)
    optimal = np.zeros(FRAMES, dtype=bool)
    feasible = np.abs(times(jacobian, step.change) + conditions.residual).max(axis=1) < 1e-6 * SMALL
    for frame in np.flatnonzero(feasible):
        down, up, change = box.down[frame], box.up[frame], step.change[frame]
        free = (change > down) & (change < up)
        multipliers = np.linalg.lstsq(jacobian[frame][:, free].T, -gradient[frame][free], rcond=None)[0]
        slope = gradient[frame] + jacobian[frame].T @ multipliers
        optimal[frame] = pressed_rightly(change, slope, down, up, 0.01 * SMALL)
        assert not (held[frame] & free).any()
        for side, sign in ((down, 1.0), (up, -1.0)):
            against: BoolArray = held[frame] & (change == side)
            assert (sign * slope[against] > -0.01 * SMALL).all()
    limited = (step.change == box.down) | (step.change == box.up)
    said = signs_right & feasible
    assert np.count_nonzero(said != optimal) <= 1  # a slope may be as good as 0
    assert np.count_nonzero(said & limited.any(axis=1)) > FRAMES // 5
    assert np.count_nonzero(feasible & ~said) > 0


def test_tasks_that_ask_twice_for_the_same_thing_get_it(rng: np.random.Generator) -> None:
    one = random_conditions(rng, missing=SMALL, wish=SMALL)
    twice = Conditions(
        np.concatenate([one.jacobian, one.jacobian], axis=1),
        np.concatenate([one.residual, one.residual], axis=1),
        one.damping,
        one.away,
        one.bend,
    )
    step, again = (solved(conditions, no_box(conditions))[0] for conditions in (one, twice))
    assert_allclose(again.change, step.change, atol=0.01 * SMALL)


@in_turn("rows", [0, 2])
def test_where_no_task_moves_anything_the_wish_is_all(rows: int, rng: np.random.Generator) -> None:
    conditions = random_conditions(rng, rows, missing=SMALL, wish=SMALL)
    conditions.jacobian[:] = 0.0
    assert conditions.away is not None
    step, _, _ = solved(conditions, no_box(conditions))
    expected = -np.linalg.solve(hessians(conditions), conditions.away[..., None])[..., 0]
    assert_allclose(step.change, expected, atol=0.01 * SMALL)


# ----------------------------------------------------------------------------------------------------------
# Radius and curvature that bends down


def test_where_the_cost_bends_down_it_goes_down_to_the_radius(rng: np.random.Generator) -> None:
    conditions = random_conditions(rng, missing=0.0, wish=1.0)
    assert isinstance(conditions.bend, DenseBend) and conditions.away is not None
    conditions.bend.matrices[:] -= 3.0 * np.eye(8)
    radius = 0.3
    step, _, _ = solved(conditions, no_box(conditions, radius))
    assert not step.newton.any()
    assert_allclose(np.abs(step.change).max(axis=1), radius, rtol=ROUNDING)
    assert_allclose(times(conditions.jacobian, step.change), 0.0, atol=1e-8)
    model = np.einsum(
        "fv,fv->f", conditions.away + 0.5 * times(hessians(conditions), step.change), step.change
    )
    assert (model < 0.0).all()


def test_where_a_channel_does_not_bend_at_all_the_other_frames_are_solved_as_before(
    rng: np.random.Generator,
) -> None:
    """The matrix of one frame is singular to the last digit."""
    conditions = random_conditions(rng, missing=0.0, wish=1.0)
    before, _, _ = solved(conditions, no_box(conditions))
    assert conditions.away is not None
    conditions.jacobian[3, :, 7] = conditions.away[3, 7] = 0.0
    hessians(conditions)[3, 7, :] = hessians(conditions)[3, :, 7] = 0.0
    step, _, _ = solved(conditions, no_box(conditions))
    others = np.arange(FRAMES) != 3
    assert_allclose(step.change[others], before.change[others], rtol=1e-9)
    assert np.isfinite(step.change).all() and step.change[3, 7] == 0.0


@each_seed
def test_whatever_the_curvature_it_descends_and_is_newtons_unless_it_ends_at_the_radius(seed: int) -> None:
    rng = np.random.default_rng(seed)
    conditions = random_conditions(rng, missing=0.0, wish=1.0, bend=0.6)
    assert conditions.away is not None
    radius = 1.0
    step, _, _ = solved(conditions, no_box(conditions, radius))
    hessian = hessians(conditions)
    assert (np.linalg.eigvalsh(hessian)[:, 0] < 0.0).any()
    model = np.einsum("fv,fv->f", conditions.away + 0.5 * times(hessian, step.change), step.change)
    assert (model < 0.0).all()
    size = np.abs(step.change).max(axis=1)
    assert (size <= radius * (1.0 + ROUNDING)).all()
    assert_allclose(size[~step.newton], radius, rtol=ROUNDING)
    assert step.newton.any() and not step.newton.all()


def test_far_tasks_leave_a_part_of_the_radius_for_the_way_along_them(rng: np.random.Generator) -> None:
    conditions = random_conditions(rng, missing=100.0, wish=1.0)
    radius = 0.2
    step, _, _ = solved(conditions, no_box(conditions, radius))
    assert not step.newton.any()
    assert (np.abs(step.change).max(axis=1) <= 1.25 * radius * (1.0 + ROUNDING)).all()
    towards = damped_step(conditions.jacobian, -conditions.residual, 0.0)
    shortened = towards * (radius / np.abs(towards).max(axis=1))[:, None]
    along = step.change - shortened
    assert_allclose(times(conditions.jacobian, along), 0.0, atol=1e-8)
    assert (np.abs(along).max(axis=1) > 0.01 * radius).all()


# ----------------------------------------------------------------------------------------------------------
# The box


@each_seed
@in_turn("wish", [0.0, 1.0])
def test_the_box_is_never_left_and_what_stands_stays(seed: int, wish: float) -> None:
    rng = np.random.default_rng(seed)
    conditions = random_conditions(rng, damping=0.01, wish=wish, bend=0.5)
    box = random_box(rng, conditions, 0.3, radius=0.8)
    lower, upper = rng.random((2, *box.down.shape)) < 0.15
    box.down[lower], box.up[upper] = 0.0, 0.0
    standing: BoolArray = (lower | upper) & (rng.random(lower.shape) < 0.7)
    step, held, signs_right = solved(conditions, box, standing)
    assert (step.change >= box.down).all() and (step.change <= box.up).all()
    assert_array_equal(step.change[standing], 0.0)
    on_limit = (step.change == box.down) | (step.change == box.up)
    assert (on_limit | ~held).all()
    stopped: BoolArray = (np.abs(step.jacobian).max(axis=1) == 0.0) | standing
    assert_array_equal(signs_right, np.logical_and.reduce(held | ~stopped, axis=1))
    assert (on_limit | ~stopped).all()


def test_the_box_is_not_left_either_where_rounds_run_out(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    conditions = random_conditions(rng, damping=0.01)
    box = random_box(rng, conditions, 0.1)
    monkeypatch.setattr(lagrange, "BOUND_ROUNDS", 1)
    step, _, _ = solved(conditions, box)
    assert (step.change >= box.down).all() and (step.change <= box.up).all()


def test_a_channel_that_stands_and_wants_away_is_told(rng: np.random.Generator) -> None:
    """One joint on its lower limit, which the task pulls away from it, then against it."""
    jacobian, standing = np.ones((2, 1, 1)), np.ones((2, 1), dtype=bool)
    residual = np.array([[-1.0], [1.0]])  # wants up, wants down
    box = Box(np.zeros((2, 1)), np.ones((2, 1)), np.ones(2))
    conditions = Conditions(jacobian, residual, np.ones(2), None, None)
    step, held, signs_right = solved(conditions, box, standing)
    assert_array_equal(step.change, 0.0)
    assert_array_equal(held, [[False], [True]])
    assert_array_equal(signs_right, [False, True])
    assert_array_equal(np.sign(conditions.slope(step)), [[-1.0], [1.0]])


def test_correction_answers_a_residual_with_what_is_free(rng: np.random.Generator) -> None:
    conditions = random_conditions(rng, 2, 8, missing=0.3, wish=0.5)
    jacobian = conditions.jacobian.copy()
    step, _, _ = solved(conditions, random_box(rng, conditions, 0.8))
    wrong = rng.normal(size=(FRAMES, 2))
    correction = step.correction(np.arange(len(wrong)), wrong)
    stopped: BoolArray = np.abs(step.jacobian).max(axis=1) == 0.0
    assert stopped.any() and ((step.jacobian == jacobian) | stopped[:, None]).all()
    assert_array_equal(correction[stopped], 0.0)
    room = np.linalg.svd(step.jacobian, compute_uv=False)[:, -1] > 0.1
    assert np.count_nonzero(room) > FRAMES // 2
    assert_allclose(times(jacobian, correction)[room], -wrong[room], atol=1e-8)


def test_correction_is_damped_like_the_step(rng: np.random.Generator) -> None:
    conditions = random_conditions(rng, damping=0.3)
    step, _, _ = solved(conditions, no_box(conditions))
    wrong = rng.normal(size=conditions.residual.shape)
    assert_allclose(
        step.correction(np.arange(len(wrong)), wrong),
        damped_step(conditions.jacobian, -wrong, np.sqrt(0.3)),
        atol=ROUNDING,
    )


# ----------------------------------------------------------------------------------------------------------
# Batches, and what serves


@in_turn("wish", [0.0, 1.0])
@in_turn("standing", [False, True])
def test_each_frame_is_solved_as_if_alone(wish: float, standing: bool, rng: np.random.Generator) -> None:
    """Frames without, with one and with several rounds of limits; in some of them something stands."""
    conditions = random_conditions(rng, damping=0.01, wish=wish, bend=0.3)
    box = random_box(rng, conditions, 0.5, radius=0.8)
    box.down[: FRAMES // 4], box.up[: FRAMES // 4] = -10.0, 10.0
    stands = np.zeros(box.down.shape, dtype=bool)
    if standing:
        stands[1::7, 0] = True
        box.down[1::7, 0] = 0.0
    parts = {frame: some(conditions, frame) for frame in range(0, FRAMES, 2)}
    step, held, signs_right = solved(conditions, box, stands)
    for frame, part in parts.items():
        alone, held_alone, right_alone = solved(
            part, Box(box.down[[frame]], box.up[[frame]], box.radius[[frame]]), stands[[frame]]
        )
        # Where it says that signs are not right conditions may be all but singular, and rounding decides.
        close = 1e-9 if right_alone[0] else 1e-3
        for name in ("change", "multipliers", "slope", "jacobian", "square"):
            assert_allclose(getattr(step, name)[frame], getattr(alone, name)[0], rtol=1e-7, atol=close)
        assert step.newton[frame] == alone.newton[0] and signs_right[frame] == right_alone[0]
        assert_array_equal(held[frame], held_alone[0])


def test_multipliers_balance_a_gradient_and_stay_moderate(rng: np.random.Generator) -> None:
    jacobian, wanted = rng.normal(size=(FRAMES, 3, 8)), rng.normal(size=(FRAMES, 3))
    gradient = -times(np.swapaxes(jacobian, -1, -2), wanted)
    assert_allclose(multipliers_of(jacobian, gradient), wanted, atol=1e-4)
    jacobian[:, 2] = jacobian[:, 1] + 1e-6 * rng.normal(size=(FRAMES, 8))  # nearly singular
    assert np.abs(multipliers_of(jacobian, rng.normal(size=(FRAMES, 8)))).max() < 1e4


def test_multipliers_are_damped_in_each_frame_by_itself(rng: np.random.Generator) -> None:
    jacobian, gradient = rng.normal(size=(FRAMES, 3, 8)), rng.normal(size=(FRAMES, 8))
    damping = np.linspace(0.0, 5.0, FRAMES)
    found = multipliers_of(jacobian, gradient, damping[:, None])
    for frame, value in enumerate(damping.tolist()):
        alone = multipliers_of(jacobian[[frame]], gradient[[frame]], value)[0]
        assert_allclose(found[frame], alone, rtol=1e-12)
        square = jacobian[frame] @ jacobian[frame].T + value * np.eye(3)
        assert_allclose(square @ alone, -jacobian[frame] @ gradient[frame], atol=1e-12)


def test_add_diagonal_adds_to_diagonals_only(rng: np.random.Generator) -> None:
    matrices = rng.normal(size=(3, 4, 4))
    expected = matrices + np.array([1.0, 2.0, 3.0])[:, None, None] * np.eye(4)
    add_diagonal(matrices, np.array([[1.0], [2.0], [3.0]]))
    assert_allclose(matrices, expected, atol=1e-15)


@each_seed
@in_turn("standing", [False, True])
def test_few_channels_come_to_the_bottom_exactly(seed: int, standing: bool, by_matrix: bool) -> None:
    rng = np.random.default_rng(seed)
    conditions = random_conditions(rng, missing=0.0, wish=1.0, bend=0.05)
    stands = np.zeros(conditions.jacobian.shape[::2], dtype=bool)
    stands[:, 2] = standing
    box = no_box(conditions) if not standing else random_box(rng, conditions, 1e3)
    step = conditions.solve(box, stands)[0]
    assert step.newton.all()
    lowest = np.zeros_like(step.change)
    for frame, hessian in enumerate(hessians(conditions)):
        free = np.flatnonzero(~stands[frame])
        along = np.linalg.svd(conditions.jacobian[frame][:, free])[2][len(conditions.residual[frame]) :].T
        assert conditions.away is not None
        slope = along.T @ conditions.away[frame][free]
        lowest[frame, free] = -along @ np.linalg.solve(along.T @ hessian[np.ix_(free, free)] @ along, slope)
    # JJᵀ has a little on its diagonal, lest tasks that ask for the same be singular.
    assert_allclose(step.change, lowest, atol=1e-8 if by_matrix else 5.0 * INEXACT)


def test_matrices_that_bend_down_are_told_from_the_others() -> None:
    rng = np.random.default_rng(5)
    least = rng.normal(size=17)
    turns = np.linalg.qr(rng.normal(size=(17, 6, 6)))[0]
    sizes = np.concatenate([least[:, None], rng.uniform(3.0, 4.0, (17, 5))], axis=1)
    matrices = turns @ (sizes[..., None] * np.swapaxes(turns, 1, 2))
    assert_array_equal(lagrange._definite(matrices), least > 0.0)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The step of one level against its definition, on matrices rather than skeletons."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import lsq_linear, nnls

from blender_ik_addon.core import steps
from blender_ik_addon.core.steps import TangentStep, tangent_step
from tests.core.builders import Array
from tests.core.in_turn import in_turn
from tests.core.matrices import ROUNDING, each_seed, random_level

FAR = 1e3
"""A trust radius that is never reached."""


@pytest.fixture(autouse=True)
def _exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what is added for whole sets of minimisers, so that the answer is the definition's."""
    monkeypatch.setattr(steps, "SHIFT", 0.0)


def step(
    slope: Array,
    curvature: Array,
    *,
    along: Array | None = None,
    lower: Array | float = -np.inf,
    upper: Array | float = np.inf,
    radius: float = FAR,
) -> TangentStep:
    """The step from 0, in all directions by default."""
    along = np.eye(len(slope)) if along is None else along
    bounds = tuple(np.broadcast_to(bound, len(along)).astype(float) for bound in (lower, upper))
    scale = float(np.linalg.norm(curvature))
    return tangent_step(slope, curvature, along, np.zeros(len(along)), bounds, radius, scale)  # pyright: ignore[reportArgumentType]


def convex(rng: np.random.Generator, d: int) -> tuple[Array, Array]:
    """Slope and positive curvature."""
    root = rng.normal(size=(d, d))
    return rng.normal(size=d), root @ root.T + 0.1 * np.eye(d)


def box(rng: np.random.Generator, nv: int) -> tuple[Array, Array]:
    """Bounds around 0, some of them exactly 0, some of them infinite."""
    lower, upper = -rng.uniform(0.0, 0.6, nv), rng.uniform(0.0, 0.6, nv)
    lower[rng.random(nv) < 0.2] = 0.0
    return np.where(rng.random(nv) < 0.8, lower, -np.inf), np.where(rng.random(nv) < 0.8, upper, np.inf)


def value(slope: Array, curvature: Array, t: Array) -> Array:
    """The model at steps t (..., d), (...,)."""
    return t @ slope + 0.5 * np.einsum("...i,ij,...j->...", t, curvature, t)


each_box = in_turn("seed", range(20))
each_size = pytest.mark.parametrize("large", [False, True], ids=["eigenvalues", "factors"])


@each_seed
@each_size
def test_far_from_bounds_it_is_newtons_step(seed: int, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "LARGE", 1 if large else 100)
    slope, curvature = convex(np.random.default_rng(seed), 5)
    answer = step(slope, curvature)
    assert_allclose(curvature @ answer.change, -slope, atol=1e-7)
    assert not answer.cut and not answer.stopped.any()
    assert answer.fall == pytest.approx(-value(slope, curvature, answer.change))


@each_box
@each_size
def test_inside_the_radius_nothing_lowers_the_model_more(
    seed: int, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "LARGE", 1 if large else 100)
    rng = np.random.default_rng(seed)
    slope, curvature = convex(rng, 4)
    radius = 0.3 * float(np.abs(np.linalg.solve(curvature, slope)).max())
    answer = step(slope, curvature, radius=radius)
    size = float(np.abs(answer.change).max())
    assert answer.cut and size <= radius * (1.0 + ROUNDING)
    if not large:
        assert size >= steps.NEAR_EDGE * radius
    # It is the least of the model in a ball as long as it.
    length = float(np.linalg.norm(answer.change))
    others = rng.normal(size=(2000, 4))
    others *= length / np.linalg.norm(others, axis=1, keepdims=True)
    assert value(slope, curvature, others).min() >= -answer.fall - ROUNDING


@each_seed
@each_size
def test_where_the_model_bends_down_it_goes_down_to_the_edge(
    seed: int, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "LARGE", 1 if large else 100)
    rng = np.random.default_rng(seed)
    bend = rng.normal(size=(5, 5))
    answer = step(rng.normal(size=5), bend + bend.T - 2.0 * np.eye(5), radius=0.4)
    assert answer.cut and answer.fall > 0.0
    assert float(np.abs(answer.change).max()) == pytest.approx(0.4, rel=1.0 if large else 0.11)


@each_seed
def test_near_a_saddle_it_goes_down_in_every_direction(seed: int) -> None:
    rng = np.random.default_rng(seed)
    slope, bends = rng.normal(size=6), np.array([-3.0, -0.4, -0.01, 0.02, 0.5, 4.0])
    change = step(slope, np.diag(bends), radius=0.5).change
    assert (change * slope < 0.0).all()


def test_a_saddle_is_left_though_it_has_no_slope() -> None:
    answer = step(np.zeros(3), np.diag([1.0, 2.0, -0.5]), radius=0.2)
    assert_allclose(np.abs(answer.change), [0.0, 0.0, 0.2], atol=1e-12)


@in_turn("slope", [1e-3, -1e-3, 1e-6, -1e-6])
def test_a_saddle_with_a_little_slope_is_left_downward(slope: float) -> None:
    answer = step(np.array([0.0, 0.0, slope]), np.diag([1.0, 2.0, -0.5]), radius=0.2)
    assert_allclose(answer.change, [0.0, 0.0, -np.sign(slope) * 0.2], atol=1e-12)


def test_what_neither_bends_nor_slopes_stays() -> None:
    rounding = 1e-17
    answer = step(np.array([1.0, rounding]), np.diag([1.0, rounding]))
    assert_allclose(answer.change, [-1.0, 0.0], atol=1e-9)


@each_box
def test_in_a_box_it_is_the_bounded_least_squares_solution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nv = int(rng.integers(2, 6))
    jacobian, e = random_level(rng, nv + 2, nv)
    lower, upper = box(rng, nv)
    upper = np.maximum(upper, 1e-3)  # BVLS wants a box with an inside
    answer = step(-jacobian.T @ e, jacobian.T @ jacobian, lower=lower, upper=upper)
    best = lsq_linear(jacobian, e, (lower, upper), method="bvls", tol=1e-14).x
    assert (answer.change >= lower).all() and (answer.change <= upper).all()  # exactly
    assert_allclose(answer.change, best, atol=1e-7)
    assert ((answer.change == lower) | (answer.change == upper))[answer.stopped].all()


@each_box
def test_along_holds_in_a_box_it_is_where_nothing_gets_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    along, held = basis[:, :3], basis[:, 3:].T
    lower, upper = box(rng, 6)
    slope, curvature = rng.normal(size=6), convex(rng, 6)[1]
    answer = step(along.T @ slope, along.T @ curvature @ along, along=along, lower=lower, upper=upper)
    change = answer.change
    assert_allclose(held @ change, 0.0, atol=1e-9)
    assert (change >= lower).all() and (change <= upper).all()
    # Karush, Kuhn and Tucker: bounds that are pressed, with forces that are not negative, and what is held.
    at = np.concatenate([np.diag((change <= lower).astype(float)), -np.diag((change >= upper).astype(float))])
    rest = nnls(np.concatenate([at, held, -held]).T, slope + curvature @ change)[1]
    assert rest < 1e-8


def test_nothing_to_do_changes_nothing() -> None:
    answer = step(np.zeros(3), np.zeros((3, 3)), lower=-1.0, upper=1.0)
    assert not answer.change.any() and not answer.stopped.any() and not answer.cut
    assert not step(np.zeros(0), np.zeros((0, 0)), along=np.zeros((3, 0))).change.any()

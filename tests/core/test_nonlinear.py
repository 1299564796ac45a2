# SPDX-License-Identifier: GPL-3.0-or-later
"""The bounded L-BFGS: where it ends nothing leads down, and in whole runs scipy's ends there too."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from blender_ik_addon.core import IKError
from blender_ik_addon.core.methods.nonlinear import BoundedDescent, penalized_error
from tests.conftest import WHOLE
from tests.core.builders import Array

Function = Callable[[Array], tuple[float, Array]]


def rosenbrock(x: Array) -> tuple[float, Array]:
    """A curved valley."""
    off, height = 1.0 - x[:-1], x[1:] - x[:-1] ** 2
    slope = np.append(-2.0 * off - 400.0 * x[:-1] * height, 0.0) + np.append(0.0, 200.0 * height)
    return float((100.0 * height**2 + off**2).sum()), slope


def quadratic(rng: np.random.Generator, n: int) -> Function:
    """A convex quadratic of condition up to 1e4, which has one minimum in any box."""
    q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    hessian, centre = q * np.logspace(0, rng.uniform(0, 4), n) @ q.T, rng.normal(size=n)
    return lambda x: (float(0.5 * (x - centre) @ hessian @ (x - centre)), hessian @ (x - centre))


def arm(gamma: float, target: tuple[float, float], n: int = 4) -> Function:
    """The function of [KiSheen] eq. 3.1 for a planar chain of unit links."""

    def function(q: Array) -> tuple[float, Array]:
        summed = np.cumsum(q)
        x, y = np.cos(summed), np.sin(summed)
        jacobian = np.stack([-np.cumsum(y[::-1])[::-1], np.cumsum(x[::-1])[::-1]])
        return penalized_error(np.array(target) - [x.sum(), y.sum()], jacobian, q, gamma)

    assert n > 0
    return function


def scipys(function: Function, start: Array, lower: Array, upper: Array) -> tuple[float, Array]:
    """The minimum by scipy's L-BFGS-B."""
    from scipy.optimize import minimize  # which takes as long to import as all of these tests

    answer = minimize(
        function,
        start,
        jac=True,
        bounds=list(zip(lower, upper, strict=True)),
        method="L-BFGS-B",
        options={"ftol": 1e-16, "gtol": 1e-9, "maxiter": 2000, "maxfun": 5000},
    )
    return float(answer.fun), answer.x


def minimised(
    function: Function, start: Array, lower: Array, upper: Array, tolerance: float = 1e-8
) -> BoundedDescent:
    """The descent at its end; its value never rises."""
    descent = BoundedDescent(function, start, lower, upper, tolerance=tolerance)
    while not descent.converged and descent.iterations < 500:
        before = descent.value
        descent.iterate()
        assert descent.value <= before
    return descent


def assert_stationary(minimum: BoundedDescent, lower: Array, upper: Array, tolerance: float) -> None:
    """Inside the box, and no slope but outwards through a bound on which it stands."""
    x, g = minimum.values, minimum.gradient
    assert (x >= lower).all()
    assert (x <= upper).all()
    assert (np.abs(g[(x > lower) & (x < upper)]) <= tolerance).all()
    assert (g[(x == lower) & (x < upper)] >= -tolerance).all()
    assert (g[(x == upper) & (x > lower)] <= tolerance).all()


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 12))
def test_on_a_quadratic_in_a_box_it_ends_at_the_only_minimum(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    function, start = quadratic(rng, n), rng.normal(size=n)
    lower = rng.uniform(-1.0, 0.5, n)
    upper = lower + rng.uniform(0.0, 1.5, n)
    lower[rng.random(n) < 0.3], upper[rng.random(n) < 0.3] = -np.inf, np.inf
    minimum = minimised(function, start, lower, upper)
    assert minimum.converged
    # A value of 100 is known to 1e-14, a slope of a Hessian of 1e4 to some 1e-5, on some processors less.
    assert_stationary(minimum, lower, upper, 1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_in_a_curved_valley_with_bounds_it_ends_at_a_minimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lower = rng.uniform(-2.0, 0.5, 10)
    upper, start = lower + rng.uniform(0.3, 3.0, 10), rng.uniform(-2.0, 2.0, 10)
    minimum = minimised(rosenbrock, start, lower, upper)
    assert minimum.converged
    assert_stationary(minimum, lower, upper, 1e-6)
    if WHOLE:
        value, x = scipys(rosenbrock, start, lower, upper)
        assert_allclose(minimum.value, value, rtol=1e-9)
        assert_allclose(minimum.values, x, atol=1e-6)


def test_in_a_curved_valley_without_bounds_it_comes_to_its_end() -> None:
    none = np.full(10, np.inf)
    minimum = minimised(rosenbrock, np.full(10, -1.0), -none, none)
    assert minimum.converged
    assert_allclose(minimum.values, 1.0, atol=1e-6)


@pytest.mark.parametrize("gamma", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("limit", [0.3, math.inf])
@pytest.mark.parametrize("target", [(1.0, 2.0), (5.0, 3.0)])
def test_an_arm_reaches_as_far_as_it_can(gamma: float, limit: float, target: tuple[float, float]) -> None:
    function, start = arm(gamma, target), np.array([0.1, 0.2, 0.1, 0.2])
    bound = np.full(4, limit)
    minimum = minimised(function, start, -bound, bound)
    assert minimum.converged
    assert_stationary(minimum, -bound, bound, 1e-6)
    if WHOLE:
        value, x = scipys(function, start, -bound, bound)
        assert_allclose(minimum.value, value, atol=1e-8)
        if gamma:  # else there is more than one
            assert_allclose(minimum.values, x, atol=1e-5)


@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_the_gradient_is_that_of_the_function(gamma: float, rng: np.random.Generator) -> None:
    """[KiSheen] print 2γq for the gradient of γ²|q|²."""
    function, q = arm(gamma, (1.0, 2.0)), rng.normal(size=4)
    for i, unit in enumerate(1e-6 * np.eye(4)):
        slope = (function(q + unit)[0] - function(q - unit)[0]) / 2e-6
        assert_allclose(function(q)[1][i], slope, atol=1e-8)


def test_channels_without_room_stay(rng: np.random.Generator) -> None:
    lower = np.array([-1.0, 0.25, -1.0])
    upper = np.array([1.0, 0.25, 1.0])
    minimum = minimised(quadratic(rng, 3), np.zeros(3), lower, upper)
    assert minimum.values[1] == 0.25
    assert minimum.converged


def test_a_function_that_is_not_finite_further_away_is_left_at_once() -> None:
    def logarithm(x: Array) -> tuple[float, Array]:
        if x[0] <= 0.0:
            return math.inf, np.full(1, math.nan)
        return float(x[0] - math.log(x[0])), 1.0 - 1.0 / x

    none = np.full(1, np.inf)
    minimum = minimised(logarithm, np.array([8.0]), -none, none)
    assert_allclose(minimum.values, 1.0, atol=1e-6)


def test_a_minimum_stays() -> None:
    bound = np.full(4, 2.0)
    there = minimised(rosenbrock, np.ones(4), -bound, bound)
    assert there.iterations == 0
    assert there.converged
    assert_array_equal(there.values, np.ones(4))


def test_what_cannot_be_minimised_is_refused() -> None:
    one = np.ones(2)
    with pytest.raises(IKError, match="lower bound"):
        minimised(rosenbrock, one, one, -one)
    with pytest.raises(IKError, match="not finite at the start"):
        minimised(lambda x: (math.nan, x), one, -one, one)

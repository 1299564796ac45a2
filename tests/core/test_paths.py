# SPDX-License-Identifier: GPL-3.0-or-later
"""Target paths: equal angles on the segment and the arc, degenerate cases, and a chain that follows one."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from blender_ik_addon.core import IKError, Problem, ReachPoint, Tracker, forward_kinematics, target_path
from tests.core.builders import Array, planar, planar_pose, tip
from tests.core.strategies import rotation_about, vectors

Y, X = np.array([2.0, 0.0, 0.0]), np.array([0.5, 1.5, 0.7])


def angle_between(a: Array, b: Array) -> Array:
    """(..., 3) each -> (...), by way of the chord."""
    a, b = (v / np.linalg.norm(v, axis=-1, keepdims=True) for v in (a, b))
    return 2.0 * np.arcsin(np.minimum(0.5 * np.linalg.norm(a - b, axis=-1), 1.0))


def printed(y: Array, x: Array, points: int) -> Array:
    """The formula as [KiSheen §3] prints it."""
    theta = np.arccos(y @ x / (np.linalg.norm(y) * np.linalg.norm(x)))
    found: list[Array] = []
    for i in range(1, points + 1):
        a1 = np.linalg.norm(y) * np.sin(i * theta / (points + 1))
        a2 = np.linalg.norm(x) * np.sin((points + 1 - i) * theta / (points + 1))
        found.append(y + a1 / (a1 + a2) * (x - y))
    return np.array(found)


@given(vectors(-2.0, 2.0), vectors(-2.0, 2.0), vectors(), st.integers(1, 5))
def test_points_are_on_the_segment_at_equal_angles(y: Array, x: Array, origin: Array, points: int) -> None:
    assume(min(np.linalg.norm(y), np.linalg.norm(x)) > 0.1 and 0.05 < angle_between(y, x) < 3.0)
    path = target_path(y + origin, x + origin, points, origin=origin)
    assert_allclose(path - origin, printed(y, x, points), atol=1e-9)
    whole = np.concatenate([y[None], path - origin, x[None]])
    assert_allclose(angle_between(whole[1:], whole[:-1]), angle_between(y, x) / (points + 1), atol=1e-6)
    arc = target_path(y + origin, x + origin, points, origin=origin, arc=True) - origin
    t = np.arange(1, points + 1) / (points + 1)
    size = t * np.linalg.norm(x) + (1.0 - t) * np.linalg.norm(y)
    assert_allclose(
        arc, printed(y, x, points) / np.linalg.norm(path - origin, axis=1)[:, None] * size[:, None], atol=1e-9
    )


@pytest.mark.parametrize("arc", [False, True])
@pytest.mark.parametrize("small", [0.0, 1e-12, 1e-7, 1e-4])
def test_the_same_direction_is_the_limit_of_small_angles(arc: bool, small: float) -> None:
    x = 0.5 * rotation_about(np.array([0.0, 0.0, 1.0]), small) @ Y
    path = target_path(Y, x, 3, arc=arc)
    # On the segment a₁ : a₂ = t|Y| : (1 − t)|X|; on the arc lengths change evenly.
    t = np.array([0.25, 0.5, 0.75])
    share = t if arc else 2.0 * t / (2.0 * t + (1.0 - t))
    assert_allclose(path, Y + share[:, None] * (x - Y), atol=2.0 * max(small, 1e-15))


def test_the_opposite_direction_goes_through_the_origin_or_round_it() -> None:
    x = -0.5 * Y
    steps = Y + np.array([[0.25], [0.5], [0.75]]) * (x - Y)
    assert_allclose(target_path(Y, x, 3), steps, atol=1e-15)
    round_about = target_path(Y, x, 3, arc=True)
    root = np.sqrt(0.5)
    assert_allclose(
        round_about,
        [[1.75 * root, 1.75 * root, 0.0], [0.0, 1.5, 0.0], [-1.25 * root, 1.25 * root, 0.0]],
        atol=1e-12,
    )
    over = target_path(Y, x, 3, arc=True, about=np.array([5.0, -1.0, 0.0]))
    assert_allclose(over[1], [0.0, 0.0, 1.5], atol=1e-12)
    # An axis along the way is none: another is taken, and lengths are right all the same.
    other = target_path(Y, x, 3, arc=True, about=Y)
    assert_allclose(np.linalg.norm(other, axis=1), [1.75, 1.5, 1.25])
    assert_allclose(angle_between(other[1], Y), 0.5 * np.pi)


@pytest.mark.parametrize("arc", [False, True])
def test_no_way_and_no_direction(arc: bool) -> None:
    assert_allclose(target_path(Y, Y, 4, arc=arc), np.tile(Y, (4, 1)), atol=1e-15)
    half = 0.5 * Y[None]
    assert_allclose(target_path(np.zeros(3), Y, 1, arc=arc), half, atol=1e-15)
    assert_allclose(target_path(Y, np.zeros(3), 1, arc=arc), half, atol=1e-15)
    assert_allclose(target_path(np.zeros(3), np.zeros(3), 2, arc=arc), 0.0, atol=1e-15)
    assert target_path(Y, X, 0, arc=arc).shape == (0, 3)


@pytest.mark.parametrize("arc", [False, True])
def test_many_paths_at_once_are_each_for_itself(arc: bool, rng: np.random.Generator) -> None:
    starts, targets = rng.normal(size=(4, 1, 3)), rng.normal(size=(5, 3))
    starts[1, 0], targets[2] = 0.0, -2.0 * starts[3, 0]
    found = target_path(starts, targets, 3, arc=arc)
    assert found.shape == (4, 5, 3, 3) and np.isfinite(found).all()
    for i in range(4):
        for j in range(5):
            assert_allclose(found[i, j], target_path(starts[i, 0], targets[j], 3, arc=arc), atol=1e-15)


def test_a_tracker_leads_a_chain_round_its_origin() -> None:
    skeleton = planar(3)
    pose = planar_pose(0.2, 0.7, 0.4)
    start = forward_kinematics(skeleton, pose).point("joint.2", tip())
    target = np.array([1.5, -1.5, 0.0])
    tracker = Tracker(Problem(skeleton, ReachPoint("joint.2", start, point=tip())), pose, redundancy="start")
    way = [*target_path(start, target, 6, arc=True), target]
    for place in way:
        solution = tracker.solve([place], far=False)
        assert solution.reached
        assert_allclose(forward_kinematics(skeleton, solution.pose).point("joint.2", tip()), place, atol=1e-3)


def test_what_is_no_path_is_refused() -> None:
    with pytest.raises(IKError, match=r"points of a path must be a whole number from 0, got -1"):
        target_path(Y, X, -1)
    with pytest.raises(IKError, match=r"target of a path has shape \(2,\), wanted \(..., 3\)"):
        target_path(Y, X[:2], 1)
    with pytest.raises(IKError, match=r"start of a path is not finite"):
        target_path(Y * np.nan, X, 1)
    with pytest.raises(IKError, match=r"leading axes of a path do not go together"):
        target_path(np.ones((2, 3)), np.ones((5, 3)), 1)

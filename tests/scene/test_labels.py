# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of the overlay lie beside each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.ui.labels import arrange

BORDERS = (10.0, 400.0)


def overlap(first: FloatArray, first_size: FloatArray, second: FloatArray, second_size: FloatArray) -> bool:
    """Whether two labels share more than their rims."""
    low, high = np.maximum(first, second), np.minimum(first + first_size, second + second_size)
    return bool(((high - low) > 1e-9).all())


def test_labels_that_are_apart_stay_where_they_wish_to_be():
    wishes = np.array([[20.0, 30.0], [200.0, 30.0], [20.0, 60.0]])
    sizes = np.full((3, 2), (90.0, 20.0))
    np.testing.assert_array_equal(arrange(wishes, sizes, BORDERS), wishes)


def test_the_second_gives_way_by_as_little_as_it_can():
    sizes = np.full((2, 2), (90.0, 20.0))
    np.testing.assert_allclose(
        arrange(np.array([[20.0, 30.0], [50.0, 38.0]]), sizes, BORDERS)[1], (50.0, 50.0)
    )
    np.testing.assert_allclose(
        arrange(np.array([[20.0, 30.0], [50.0, 22.0]]), sizes, BORDERS)[1], (50.0, 10.0)
    )


@pytest.mark.parametrize(("wish", "place"), [(390.0, 310.0), (-50.0, 10.0)])
def test_labels_stay_between_the_borders(wish: float, place: float):
    assert arrange(np.array([[wish, 0.0]]), np.array([[90.0, 20.0]]), BORDERS)[0, 0] == place


def test_one_that_is_too_wide_begins_at_the_left():
    assert arrange(np.array([[100.0, 0.0]]), np.array([[500.0, 20.0]]), BORDERS)[0, 0] == BORDERS[0]


def test_what_is_covered_is_left_free_and_labels_end_before_it():
    covered = [(350.0, 100.0, 50.0, 200.0)]
    wishes = np.array([[390.0, 150.0], [390.0, 40.0], [390.0, 95.0]])
    sizes = np.full((3, 2), (90.0, 20.0))
    placed = arrange(wishes, sizes, BORDERS, covered)
    # Beside it, below it, and one that is only partly beside it; but for that, each is where it wants to be.
    np.testing.assert_allclose(placed, [[260.0, 150.0], [310.0, 40.0], [260.0, 95.0]])


def test_one_that_is_too_wide_to_go_beside_what_is_covered_goes_below():
    covered = [(350.0, 100.0, 50.0, 200.0)]
    placed = arrange(np.array([[100.0, 110.0]]), np.array([[385.0, 20.0]]), BORDERS, covered)
    np.testing.assert_allclose(placed, [[10.0, 80.0]])


@given(st.integers(1, 30), st.floats(0.0, 60.0), st.integers(0, 2**32 - 1))
def test_many_at_the_corner_lie_neither_on_each_other_nor_on_the_navigation(
    count: int, spread: float, seed: int
):
    """Points that are near each other, where Blender has its axes and buttons; the view has room for all."""
    rng = np.random.default_rng(seed)
    covered = [(400.0, 880.0, 108.0, 108.0), (454.0, 750.0, 46.0, 130.0)]
    wanted = np.array([470.0, 900.0]) + rng.uniform(-spread, spread, (count, 2))
    sizes = np.stack([rng.uniform(20.0, 180.0, count), rng.choice([15.0, 30.0], count)], axis=1)
    placed = arrange(wanted, sizes, (8.0, 500.0), covered, (8.0, 980.0))
    boxes = [*zip(placed, sizes, strict=True), *((np.array(box[:2]), np.array(box[2:])) for box in covered)]
    assert all(not overlap(*boxes[i], *boxes[j]) for i in range(count) for j in range(len(boxes)) if i != j)
    assert (placed[:, 1] >= 8.0).all() and (placed[:, 1] + sizes[:, 1] <= 980.0).all()


def test_labels_leave_the_view_only_where_it_has_no_room_left():
    placed = arrange(np.array([[20.0, 95.0]] * 4), np.full((4, 2), (90.0, 30.0)), BORDERS, (), (0.0, 100.0))
    assert sorted(placed[:3, 1].tolist()) == [10.0, 40.0, 70.0]
    assert not 0.0 <= placed[3, 1] <= 70.0


@given(
    st.lists(
        st.tuples(
            st.floats(-100.0, 600.0), st.floats(-100.0, 300.0), st.floats(1.0, 200.0), st.floats(1.0, 40.0)
        ),
        max_size=12,
    )
)
def test_no_label_lies_on_another(boxes: list[tuple[float, float, float, float]]):
    given_boxes = np.array(boxes).reshape(-1, 4)
    sizes = given_boxes[:, 2:]
    placed = arrange(given_boxes[:, :2], sizes, BORDERS)
    assert all(
        not overlap(placed[i], sizes[i], placed[j], sizes[j]) for i in range(len(placed)) for j in range(i)
    )

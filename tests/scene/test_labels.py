# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of the overlay lie beside each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.ui.overlay import arrange

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

# SPDX-License-Identifier: GPL-3.0-or-later
"""A foot as one control: whatever is set, its sole does not sink into the floor."""

from dataclasses import replace
from math import pi, radians

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.character import FootAngles, Sole
from blender_ik_addon.core.character.feet import BALL_ANGLE
from blender_ik_addon.core.model.rotation import matrix_from_rotvec, rotation_angle, rotvec_from_matrix

LEFT = Sole(
    heel=(0.0, -0.05, 0.0),
    ball=(0.01, 0.14, 0.025),
    tip=(0.0, 0.2, 0.005),
    up=(0.0, 0.0, 1.0),
    out=(1.0, 0.0, 0.0),
    has_toe=True,
)
"""Of a foot that points along Y."""

right_angles = st.floats(-pi / 2, pi / 2)
any_angles = st.floats(-pi, pi)
settings = st.builds(FootAngles, right_angles, right_angles, any_angles, any_angles, any_angles)


def touching(sole: Sole, angles: FootAngles) -> FloatArray:
    """Where the sole is with some angles, (4, 3) [m]."""
    return sole.touching(*sole.motions(angles))


def depth(sole: Sole, angles: FootAngles) -> float:
    """By how much the lowest part of a sole is below the floor [m]."""
    return sole.height - float((touching(sole, angles) @ sole.up).min())


def soles() -> st.SearchStrategy[Sole]:
    """Feet of any proportions, turned anyhow."""
    return st.builds(
        lambda heel, ball, tip, turn, has_toe: Sole(
            heel=turn @ [0.0, -heel, 0.01],
            ball=turn @ [ball[0], ball[1], ball[2]],
            tip=turn @ [0.0, ball[1] + tip, 0.0],
            up=turn @ [0.0, 0.0, 1.0],
            out=turn @ [1.0, 0.0, 0.0],
            has_toe=has_toe,
        ),
        st.floats(0.0, 0.1),
        st.tuples(st.floats(-0.05, 0.05), st.floats(0.05, 0.2), st.floats(0.0, 0.05)),
        st.floats(0.01, 0.1),
        st.builds(lambda *way: matrix_from_rotvec(np.array(way)), any_angles, any_angles, any_angles),
        st.booleans(),
    )


@given(soles(), settings)
def test_no_part_of_the_sole_sinks(sole: Sole, angles: FootAngles):
    assert depth(sole, angles) <= 1e-9


@given(soles(), settings)
def test_some_part_of_the_sole_stays_on_the_floor_where_it_does_not_bank(sole: Sole, angles: FootAngles):
    assert depth(sole, replace(angles, bank=0.0)) == pytest.approx(0.0, abs=1e-9)


def test_nothing_set_moves_nothing():
    foot, toe = LEFT.motions(FootAngles())
    np.testing.assert_array_equal(foot, np.eye(4))
    np.testing.assert_array_equal(toe, np.eye(4))


@given(right_angles)
def test_the_foot_is_turned_by_its_roll(roll: float):
    foot, _ = LEFT.motions(FootAngles(roll=roll))
    assert float(rotation_angle(foot[:3, :3])) == pytest.approx(abs(roll), abs=1e-7)


@given(st.floats(0.0, BALL_ANGLE))
def test_toes_rest_while_the_foot_rolls_over_the_ball(roll: float):
    foot, toe = LEFT.motions(FootAngles(roll=roll))
    np.testing.assert_allclose(toe, np.eye(4), atol=1e-12)
    np.testing.assert_allclose((foot @ [*LEFT.ball, 1.0])[:3], LEFT.ball, atol=1e-12)


def test_a_roll_back_rests_on_the_heel_and_one_far_ahead_on_the_tip():
    back, ahead = (touching(LEFT, FootAngles(roll=radians(angle))) for angle in (-30.0, 70.0))
    still = touching(LEFT, FootAngles())
    np.testing.assert_allclose(back[0], still[0], atol=1e-12)
    np.testing.assert_allclose(ahead[3], still[3], atol=1e-12)
    assert (back[1:, 2] > 0.02).all() and (ahead[:3, 2] > 0.01).all()


def test_without_a_toe_bone_it_rolls_over_its_tip():
    rigid = replace(LEFT, has_toe=False)
    foot, toe = rigid.motions(FootAngles(roll=radians(40.0)))
    np.testing.assert_allclose(foot, toe, atol=1e-12)
    np.testing.assert_allclose(
        touching(rigid, FootAngles(roll=radians(40.0)))[3], rigid.on_floor(rigid.tip), atol=1e-12
    )


@given(st.floats(0.05, pi / 2))
def test_it_banks_over_the_edge_to_which_it_leans(bank: float):
    for sign in (1.0, -1.0):
        foot, _ = LEFT.motions(FootAngles(bank=sign * bank))
        leans = foot[:3, :3] @ LEFT.up
        assert sign * leans @ LEFT.out > 0.0


def test_each_pivot_keeps_its_own_point():
    for name, point in (("heel", LEFT.heel), ("ball", LEFT.ball), ("toe", LEFT.tip)):
        foot, _ = LEFT.motions(FootAngles(**{f"pivot_{name}": 0.7}))
        place = LEFT.on_floor(point)
        np.testing.assert_allclose((foot @ [*place, 1.0])[:3], place, atol=1e-12)
        assert (foot[:3, :3] @ [0.0, 1.0, 0.0])[0] > 0.1  # outwards


def test_both_feet_do_the_same_on_their_sides():
    mirror = np.diag([-1.0, 1.0, 1.0])
    right = replace(LEFT, **{name: mirror @ getattr(LEFT, name) for name in ("heel", "ball", "tip", "out")})
    angles = FootAngles(0.4, 0.2, 0.3, -0.2, 0.5)
    np.testing.assert_allclose(touching(right, angles), touching(LEFT, angles) @ mirror, atol=1e-12)


@given(settings)
def test_each_angle_turns_the_foot_about_its_ring_which_stays_meanwhile(angles: FootAngles):
    flat = replace(angles, roll=0.0, bank=0.0)
    rings = LEFT.rings(flat)
    for name in ("roll", "bank"):
        for before in (angles, flat):
            after = LEFT.rings(replace(before, **{name: 0.3}))
            np.testing.assert_allclose(after[name], rings[name], atol=1e-9)
    for name in ("pivot_heel", "pivot_ball", "pivot_toe", "roll", "bank"):
        further = replace(flat, **{name: getattr(flat, name) + 1e-4})
        was, now = LEFT.motions(flat)[0], LEFT.motions(further)[0]
        turn = rotvec_from_matrix(now[:3, :3] @ was[:3, :3].T)
        np.testing.assert_allclose(1e4 * turn, rings[name][:3, 2], atol=1e-3)


def test_rings_are_about_the_ball_and_about_the_points_of_the_pivots():
    rings = LEFT.rings(FootAngles(roll=0.4, bank=0.2))
    for name, point in (
        ("roll", np.array(LEFT.ball)),
        ("bank", np.array(LEFT.ball)),
        ("pivot_heel", LEFT.on_floor(LEFT.heel)),
        ("pivot_ball", LEFT.on_floor(LEFT.ball)),
        ("pivot_toe", LEFT.on_floor(LEFT.tip)),
    ):
        np.testing.assert_allclose(rings[name][:3, 3], point, atol=1e-12)
        np.testing.assert_allclose(rings[name][:3, :3].T @ rings[name][:3, :3], np.eye(3), atol=1e-12)
        assert np.linalg.det(rings[name][:3, :3]) > 0.0

# SPDX-License-Identifier: GPL-3.0-or-later
"""Laws of rotations: what holds for every rotation, every Euler order and every batch shape."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from blender_ik_addon.core.arrays import frozen
from blender_ik_addon.core.errors import IKError
from blender_ik_addon.core.model import rotation
from blender_ik_addon.core.model.rotation import EULER_ORDERS, order_index
from tests.core.strategies import (
    ORDER_NAMES,
    Array,
    directions,
    euler_angles,
    floats,
    orders,
    quaternions,
    rotation_about,
    rotvecs,
    vectors,
)

ROUNDING = 1e-13
STEP = 1e-6
"""[rad] Central differences: their error is about STEP^2 + 1e-16 / STEP = 1e-10."""

LOCKED = 1e-6
"""[1] Up to this cosine of the middle angle the split may be chosen anew; costs at most twice this [rad]."""

each_order = pytest.mark.parametrize("order", range(6))


def middle_axis(order: int) -> int:
    return "XYZ".index(ORDER_NAMES[order][1])


def is_locked(angles: Array, order: int) -> bool:
    return abs(math.cos(angles[middle_axis(order)])) < LOCKED


def matrix_tolerance(angles: Array, order: int) -> float:
    """What the rotation may change by: nearly nothing, or the slide along the split at gimbal lock."""
    return 2.0 * LOCKED if is_locked(angles, order) else ROUNDING


def assert_rotation(matrix: Array) -> None:
    assert_allclose(matrix @ matrix.swapaxes(-1, -2), np.broadcast_to(np.eye(3), matrix.shape), atol=ROUNDING)
    assert_allclose(np.linalg.det(matrix), 1.0, atol=ROUNDING)


# ----------------------------------------------------------------------------------------------------------
# Euler angles


def test_orders_are_blenders() -> None:
    assert EULER_ORDERS == ORDER_NAMES
    assert [order_index(name) for name in ORDER_NAMES] == list(range(6))


def test_unknown_order_names_the_six() -> None:
    with pytest.raises(IKError, match=r"'XYX'.*XYZ, XZY, YXZ, YZX, ZXY, ZYX"):
        order_index("XYX")


@pytest.mark.parametrize("index", [-1, 6])
def test_order_out_of_range_is_refused(index: int) -> None:
    with pytest.raises(IKError, match="0 to 5"):
        rotation.matrix_from_euler(np.zeros((2, 3)), np.array([0, index]))


def test_orders_that_do_not_fit_are_refused() -> None:
    with pytest.raises(IKError, match=r"\(3,\).*\(5, 4\)"):
        rotation.matrix_from_euler(np.zeros((5, 4, 3)), np.array([0, 1, 2]))


@given(drawn=euler_angles())
def test_first_letter_turns_first(drawn: Array) -> None:
    for order, angles in enumerate(drawn):
        expected = np.eye(3)
        for letter in ORDER_NAMES[order]:
            axis = "XYZ".index(letter)
            expected = rotation_about(np.eye(3)[axis], angles[axis]) @ expected
        assert_allclose(rotation.matrix_from_euler(angles, order), expected, atol=ROUNDING)


@given(drawn=euler_angles())
@settings(max_examples=24)
def test_matrix_to_euler_and_back(drawn: Array) -> None:
    for order, angles in enumerate(drawn):
        matrix = rotation.matrix_from_euler(angles, order)
        assert_rotation(matrix)
        principal = rotation.euler_from_matrix(matrix, order)
        assert abs(principal[middle_axis(order)]) <= 0.5 * math.pi + ROUNDING
        assert np.all(np.abs(principal) <= math.pi + ROUNDING)
        again = rotation.matrix_from_euler(principal, order)
        assert_allclose(again, matrix, atol=matrix_tolerance(angles, order))


@given(drawn=euler_angles())
def test_euler_axes_against_differences(drawn: Array) -> None:
    steps = STEP * np.eye(3)
    for order, angles in enumerate(drawn):
        matrix, axes = rotation.matrix_and_axes_from_euler(angles, order)
        assert_array_equal(matrix, rotation.matrix_from_euler(angles, order))
        assert_allclose(np.linalg.norm(axes, axis=0), 1.0, atol=ROUNDING)
        ahead, behind = (rotation.matrix_from_euler(angles + sign * steps, order) for sign in (1.0, -1.0))
        for axis, difference in zip(axes.T, ahead - behind, strict=True):
            assert_allclose(matrix @ rotation.skew(axis), difference / (2.0 * STEP), atol=1e-9)


def test_orders_broadcast_over_any_batch_and_each_is_as_alone(rng: np.random.Generator) -> None:
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((), ()), ((0,), ()), ((0,), (0,)), ((4,), ()), ((4,), (1,)), ((4,), (4,)),
        ((3, 4), ()), ((3, 4), (4,)), ((3, 4), (3, 4)), ((3, 4), (3, 1)), ((0, 4), (4,)), ((3, 0), (0,)),
        ((2, 3, 4), (4,)), ((2, 3, 4), (3, 4)), ((2, 3000), (2, 3000)),
    ]  # fmt: skip
    for batch, order_shape in shapes:
        angles, reference = rng.uniform(-math.pi, math.pi, (2, *batch, 3))
        order = rng.integers(0, 6, order_shape)
        matrix, axes = rotation.matrix_and_axes_from_euler(angles, order)
        assert matrix.shape == axes.shape == (*batch, 3, 3)
        assert_array_equal(rotation.matrix_from_euler(angles, order), matrix)
        principal = rotation.euler_from_matrix(matrix, order)
        nearest = rotation.nearest_euler(angles, order, reference)
        every = np.broadcast_to(order, batch)
        for place in itertools.islice(np.ndindex(batch), 100):
            own = int(every[place])
            for part, alone in (
                (matrix, rotation.matrix_from_euler(angles[place], own)),
                (axes, rotation.matrix_and_axes_from_euler(angles[place], own)[1]),
                (principal, rotation.euler_from_matrix(matrix[place], own)),
                (nearest, rotation.nearest_euler(angles[place], own, reference[place])),
            ):
                assert_allclose(part[place], alone, atol=ROUNDING)
        near = rotation.euler_from_matrix_near(matrix, order, angles)
        assert_allclose(near, angles, atol=1e-9)


# ----------------------------------------------------------------------------------------------------------
# The nearest of equivalent Euler angles


def equivalents(angles: Array, order: int) -> Array:
    """Every Euler triple (k, 3) within three turns of `angles` for the same rotation, by brute force."""
    second = angles + math.pi
    second[middle_axis(order)] = math.pi - angles[middle_axis(order)]
    shifts = math.tau * np.array(list(itertools.product(range(-3, 4), repeat=3)))
    found = np.concatenate([angles + shifts, second + shifts])
    if is_locked(angles, order):
        # Sliding is found by the rotation itself: first and last angle move together or against each other.
        first, last = ("XYZ".index(ORDER_NAMES[order][i]) for i in (0, 2))
        directions_of_slide = []
        for sign in (1.0, -1.0):
            slide = np.zeros(3)
            slide[first], slide[last] = 1.0, sign
            moved = rotation.matrix_from_euler(angles + slide, order)
            if np.allclose(moved, rotation.matrix_from_euler(angles, order), atol=1e-5):
                directions_of_slide.append(slide)
        assert len(directions_of_slide) == 1
        slides = np.linspace(-math.pi, math.pi, 41)[:, None] * directions_of_slide[0]
        found = (found[:, None] + slides).reshape(-1, 3)
    return found


@given(drawn=euler_angles(), references=euler_angles())
@settings(max_examples=24)
def test_nearest_euler_is_the_same_rotation_and_none_is_nearer(drawn: Array, references: Array) -> None:
    for order, (angles, reference) in enumerate(zip(drawn, references, strict=True)):
        nearest = rotation.nearest_euler(angles, order, reference)
        assert_allclose(
            rotation.matrix_from_euler(nearest, order),
            rotation.matrix_from_euler(angles, order),
            atol=matrix_tolerance(angles, order),
        )
        assert_array_equal(rotation.nearest_euler(angles, order, angles), angles)
        others = np.linalg.norm(equivalents(angles, order) - reference, axis=1)
        assert np.linalg.norm(nearest - reference) <= others.min() + 1e-9


@given(drawn=euler_angles(turns=3.0))
def test_euler_from_matrix_near_finds_the_angles_back(drawn: Array) -> None:
    for order, angles in enumerate(drawn):
        found = rotation.euler_from_matrix_near(rotation.matrix_from_euler(angles, order), order, angles)
        assert_allclose(found, angles, atol=1e-9)  # 1e-16 / LOCKED just outside gimbal lock


@given(drawn=euler_angles(turns=0.9), references=euler_angles(), widths=euler_angles())
def test_angles_within_limits_are_found_wherever_the_reference_is(
    drawn: Array, references: Array, widths: Array
) -> None:
    for order, (angles, reference, width) in enumerate(zip(drawn, references, widths, strict=True)):
        lower, upper = angles - 0.3 * np.abs(width) - 1e-6, angles + 0.2 * np.abs(width) + 1e-6
        if is_locked(angles, order):
            continue  # there each split of the first and the last angle is the same rotation
        matrix = rotation.matrix_from_euler(angles, order)
        found = rotation.euler_within(matrix, order, lower, upper, reference)
        assert_allclose(rotation.matrix_from_euler(found, order), matrix, atol=1e-9)
        assert (found >= lower - 3.0 * rotation.LIMIT_NOISE).all()
        assert (found <= upper + 3.0 * rotation.LIMIT_NOISE).all()
        unlimited = rotation.euler_within(matrix, order, np.full(3, -np.inf), np.full(3, np.inf), reference)
        assert_allclose(unlimited, rotation.euler_from_matrix_near(matrix, order, reference), atol=1e-9)


def test_angles_that_break_limits_by_noise_keep_their_solution() -> None:
    """What stands on a limit is outside of it by rounding when it is read back."""
    angles = np.array([2.5, 0.4, 2.5])
    matrix = rotation.matrix_from_euler(angles, 0)
    lower, upper = np.array([0.0, -1.0, 0.0]), angles - 1e-7
    assert np.linalg.norm(rotation.euler_from_matrix_near(matrix, 0, np.zeros(3))) < np.linalg.norm(angles)
    assert_allclose(rotation.euler_within(matrix, 0, lower, upper, np.zeros(3)), angles, atol=1e-12)


@each_order
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_angles_stay_continuous_through_gimbal_lock(order: int, side: float) -> None:
    first, middle, last = ("XYZ".index(letter) for letter in ORDER_NAMES[order])
    time = np.linspace(-1.0, 1.0, 41)  # lock is met exactly, at time 0
    path = np.empty((41, 3))
    path[:, middle] = side * (0.5 * math.pi + 0.4 * time)
    path[:, first] = 0.3 + 0.2 * time
    path[:, last] = -0.5 + 0.3 * time
    matrices = rotation.matrix_from_euler(path, order)
    principal = rotation.euler_from_matrix(matrices, order)
    assert np.abs(np.diff(principal, axis=0)).max() > 2.0
    found = rotation.continuous_euler(principal, order)
    assert np.abs(np.diff(found, axis=0)).max() < 0.04
    # Where the frame is at lock its split comes from the frame before; all others are the path itself.
    assert_allclose(found, path, atol=0.015)
    assert_allclose(np.delete(found, 20, axis=0), np.delete(path, 20, axis=0), atol=1e-9)


@each_order
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_noise_at_gimbal_lock_stays_noise(order: int, side: float, rng: np.random.Generator) -> None:
    """Matrices read from Blender are float32: at lock their split is noise, and must not shake the curves."""
    angles = np.array([0.7, -0.4, 1.1])
    angles[middle_axis(order)] = side * 0.5 * math.pi
    matrix = rotation.matrix_from_euler(angles, order)
    noisy = (matrix + rng.uniform(-1e-7, 1e-7, (50, 3, 3))).astype(np.float32)
    found = rotation.continuous_euler(rotation.euler_from_matrix_near(noisy, order, angles), order)
    assert_allclose(found, np.broadcast_to(angles, found.shape), atol=2e-6)


@each_order
def test_whole_turns_are_kept(order: int) -> None:
    path = np.linspace(0.0, 1.0, 200)[:, None] * np.array([5.0, 1.3, -9.0])
    path[:, middle_axis(order)] = np.linspace(0.0, 14.0, 200)  # through lock, over and over
    found = rotation.continuous_euler(
        rotation.euler_from_matrix(rotation.matrix_from_euler(path, order), order), order
    )
    assert_allclose(found, path, atol=1e-9)


def test_continuous_euler_works_by_joint_and_keeps_the_first_frame(rng: np.random.Generator) -> None:
    mixed = np.array([0, 3, 5])
    path = np.cumsum(rng.uniform(-0.3, 0.3, (60, 3, 3)), axis=0)
    wrapped = path - math.tau * rng.integers(-2, 3, path.shape)
    wrapped[0] = path[0]
    assert_allclose(rotation.continuous_euler(wrapped, mixed), path, atol=1e-12)
    assert rotation.continuous_euler(np.empty((0, 3, 3)), mixed).shape == (0, 3, 3)


def test_a_frame_that_alone_is_a_turn_away_is_brought_back_wherever_it_is() -> None:
    """Frames are looked at in blocks: none may fall between two of them."""
    for frame in range(1, 20):
        angles = np.zeros((20, 2, 3))
        angles[frame, 1, 2] = math.tau
        assert_allclose(rotation.continuous_euler(angles, np.array([0, 4])), 0.0, atol=1e-15)


# ----------------------------------------------------------------------------------------------------------
# Quaternions


@given(quat=quaternions(), length=floats(1e-3, 1e3))
def test_quat_to_matrix_and_back_with_double_cover_at_any_length(quat: Array, length: float) -> None:
    matrix = rotation.matrix_from_quat(quat)
    assert_rotation(matrix)
    assert_array_equal(rotation.matrix_from_quat(-quat), matrix)
    assert_allclose(rotation.matrix_from_quat(length * quat), matrix, atol=ROUNDING)
    back = rotation.quat_from_matrix(matrix)
    assert back[0] >= 0.0
    assert_allclose(back * np.sign(back @ quat), quat, atol=ROUNDING)


@given(quat=quaternions())
def test_axis_and_angle_give_the_quat_back_with_its_sign(quat: Array) -> None:
    axis, angle = rotation.axis_angle_from_quat(quat)
    assert_allclose(np.linalg.norm(axis), 1.0, atol=ROUNDING)
    assert 0.0 <= angle <= math.tau
    assert_allclose(rotation.quat_from_axis_angle(axis, angle), quat, atol=ROUNDING)


@given(axis=directions(), angle=floats(-20.0, 20.0), length=floats(1e-3, 1e3))
def test_axis_angle_turns_about_the_axis(axis: Array, angle: float, length: float) -> None:
    matrix = rotation.matrix_from_quat(rotation.quat_from_axis_angle(length * axis, angle))
    assert_allclose(matrix, rotation_about(axis, angle), atol=ROUNDING)


def test_no_rotation_has_blenders_axis() -> None:
    axis, angle = rotation.axis_angle_from_quat(np.array([1.0, 0.0, 0.0, 0.0]))
    assert_array_equal(axis, [0.0, 1.0, 0.0])
    assert angle == 0.0
    assert_array_equal(rotation.quat_from_axis_angle(np.zeros(3), 2.0), [1.0, 0.0, 0.0, 0.0])
    assert_array_equal(rotation.matrix_from_quat(np.zeros(4)), np.eye(3))


@pytest.mark.parametrize("mode", [*EULER_ORDERS, "QUATERNION", "AXIS_ANGLE"])
def test_channels_of_a_mode_turn_as_the_mode_says(mode: str, rng: np.random.Generator) -> None:
    values = rng.normal(size=(5, 2, 3 if mode in EULER_ORDERS else 4))
    if mode == "QUATERNION":
        wanted = rotation.matrix_from_quat(values)
    elif mode == "AXIS_ANGLE":
        wanted = rotation.matrix_from_quat(rotation.quat_from_axis_angle(values[..., 1:], values[..., 0]))
    else:
        wanted = rotation.matrix_from_euler(values, order_index(mode))
    assert_array_equal(rotation.matrix_in_mode(mode, values), wanted)


def test_channels_of_zero_turn_as_they_do_in_blender() -> None:
    assert_allclose(rotation.matrix_in_mode("QUATERNION", np.zeros(4)), np.diag([1.0, -1.0, -1.0]))
    assert_array_equal(rotation.matrix_in_mode("AXIS_ANGLE", [2.0, 0.0, 0.0, 0.0]), np.eye(3))


def test_signs_of_quats_become_continuous(rng: np.random.Generator) -> None:
    steps = np.cumsum(rng.uniform(-0.4, 0.4, (80, 5, 3)), axis=0)
    smooth = rotation.quat_from_rotvec(steps)
    smooth *= np.sign((smooth[:1] * [1.0, 0.2, 0.3, 0.1]).sum(axis=-1, keepdims=True))
    torn = smooth * rng.choice([1.0, -1.0], (80, 5, 1))
    assert_array_equal(rotation.continuous_quats(torn, smooth[0]), smooth)
    assert_array_equal(rotation.continuous_quats(torn, -smooth[0]), -smooth)
    assert_array_equal(rotation.continuous_quats(torn)[0], torn[0])
    assert rotation.continuous_quats(np.empty((0, 5, 4))).shape == (0, 5, 4)


# ----------------------------------------------------------------------------------------------------------
# Rotation vectors


@given(rotvec=rotvecs())
def test_exp_of_rotvec_is_rodrigues(rotvec: Array) -> None:
    angle = float(np.linalg.norm(rotvec))
    axis = rotvec / angle if angle else np.array([1.0, 0.0, 0.0])
    assert_allclose(rotation.matrix_from_rotvec(rotvec), rotation_about(axis, angle), atol=ROUNDING)
    assert_allclose(rotation.matrix_from_rotvec(-rotvec), rotation_about(axis, angle).T, atol=ROUNDING)


@given(rotvec=rotvecs())
def test_log_of_exp_is_the_rotvec(rotvec: Array) -> None:
    back = rotation.rotvec_from_matrix(rotation.matrix_from_rotvec(rotvec))
    if np.linalg.norm(rotvec) < math.pi - 1e-11:
        assert_allclose(back, rotvec, atol=ROUNDING, rtol=1e-9)
    else:  # a half turn may come back about the opposite axis
        assert_allclose(back * np.sign(back @ rotvec), rotvec, atol=1e-11)


@given(axis=directions(), angle=floats(0.0, math.pi), near=st.sampled_from([0.0, 1e-12, 1e-7, 1e-3]))
def test_angle_is_accurate_near_zero_and_near_pi(axis: Array, angle: float, near: float) -> None:
    for wanted in (angle, near, math.pi - near):
        found = rotation.rotation_angle(rotation_about(axis, wanted))
        assert_allclose(found, wanted, atol=4e-16 + 1e-15 * wanted)


@each_order
def test_angles_of_quarter_turns_keep_their_digits(order: int) -> None:
    angles = np.add.outer(np.arange(-8, 9) * 0.5 * math.pi, [0.0, 1e-16, -1e-12, 1e-8, -1e-4]).ravel()
    sine, cosine = np.sin(angles), np.cos(angles)
    for axis, (j, k) in enumerate(((1, 2), (2, 0), (0, 1))):
        wanted = np.tile(np.eye(3), (len(angles), 1, 1))
        wanted[:, j, j] = wanted[:, k, k] = cosine
        wanted[:, k, j], wanted[:, j, k] = sine, -sine
        found = rotation.matrix_from_euler(angles[:, None] * np.eye(3)[axis], order)
        assert_allclose(found, wanted, atol=1e-15)


def test_identity_is_exact() -> None:
    assert_array_equal(rotation.quat_from_matrix(np.eye(3)), [1.0, 0.0, 0.0, 0.0])
    assert_array_equal(rotation.quat_from_rotvec(np.zeros(3)), [1.0, 0.0, 0.0, 0.0])
    assert_array_equal(rotation.rotvec_from_matrix(np.eye(3)), np.zeros(3))
    assert_array_equal(rotation.matrix_from_rotvec(np.zeros(3)), np.eye(3))
    assert_array_equal(rotation.left_jacobian_inverse(np.zeros(3)), np.eye(3))
    assert rotation.rotation_angle(np.eye(3)) == 0.0
    for order in range(6):
        assert_array_equal(rotation.matrix_from_euler(np.zeros(3), order), np.eye(3))
        assert_array_equal(rotation.euler_from_matrix(np.eye(3), order), np.zeros(3))
        assert_array_equal(rotation.matrix_and_axes_from_euler(np.zeros(3), order)[1], np.eye(3))


@pytest.mark.parametrize("size", [1e-7, 1e-30, 1e-160, 1e-300])
def test_smallest_rotvecs_keep_their_digits(size: float) -> None:
    rotvec = size * np.array([0.6, -0.48, 0.64])
    assert_allclose(rotation.rotvec_from_matrix(rotation.matrix_from_rotvec(rotvec)), rotvec, rtol=1e-8)


@given(axis=directions(), angle=floats(0.0, 3.0), along=vectors(-1.0, 1.0), towards=directions())
def test_bend_of_the_log_against_differences(axis: Array, angle: float, along: Array, towards: Array) -> None:
    """m . log(exp(w) R) is m . log R + V . w + w . M w / 2 to second order in w."""
    rotvec = angle * axis
    pull, form = rotation.log_hessian(rotvec, along)
    assert_allclose(pull, rotation.left_jacobian_inverse(rotvec).T @ along, atol=1e-12)
    assert_array_equal(form, form.T)
    step = 1e-3
    turned = rotation.matrix_from_rotvec(step * np.multiply.outer([1.0, -1.0, 2.0, -2.0], towards))
    near, back, far, far_back = (
        rotation.rotvec_from_matrix(turned @ rotation.matrix_from_rotvec(rotvec)) @ along
    )
    second = (16.0 * (near + back) - (far + far_back) - 30.0 * (rotvec @ along)) / (12.0 * step**2)
    assert_allclose(towards @ form @ towards, second, atol=1e-7)


@pytest.mark.parametrize("angle", [0.0, 1e-300, 1e-160, 1e-7, 0.00999, 0.01001])
def test_bend_of_the_log_keeps_its_digits_near_no_turn(angle: float) -> None:
    axis, along = np.array([0.6, -0.48, 0.64]), np.array([0.3, 0.5, -0.2])
    pull, form = rotation.log_hessian(angle * axis, along)
    # To first order in the turn v: V = m + v x m / 2, M = (m v^T + v m^T) / 12 - (m . v) / 6.
    half = np.outer(along, axis) / 12.0
    first = half + half.T - axis @ along / 6.0 * np.eye(3)
    assert_allclose(pull, along + 0.5 * angle * np.cross(axis, along), atol=0.2 * angle**2, rtol=1e-15)
    assert_allclose(form, angle * first, atol=0.2 * angle**2, rtol=1e-12)


# ----------------------------------------------------------------------------------------------------------
# Arrays in, arrays out


UNARY: list[tuple[Callable[[Array], Array | tuple[Array, ...]], tuple[int, ...]]] = [
    (rotation.quat_from_matrix, (3, 3)),
    (rotation.matrix_from_quat, (4,)),
    (rotation.quat_from_rotvec, (3,)),
    (rotation.axis_angle_from_quat, (4,)),
    (rotation.matrix_from_rotvec, (3,)),
    (rotation.rotvec_from_matrix, (3, 3)),
    (rotation.rotation_angle, (3, 3)),
    (rotation.skew, (3,)),
    (rotation.left_jacobian_inverse, (3,)),
]


@pytest.mark.parametrize(("function", "core"), UNARY, ids=lambda value: getattr(value, "__name__", ""))
def test_batches_are_as_each_alone(
    function: Callable[[Array], Array | tuple[Array, ...]], core: tuple[int, ...], rng: np.random.Generator
) -> None:
    def parts(values: Array) -> tuple[Array, ...]:
        found = function(values)
        return found if isinstance(found, tuple) else (found,)

    for batch in ((), (1,), (0,), (5, 0), (2, 3)):
        rotvec = rng.normal(size=(*batch, 3))
        values = {
            (3,): rotvec,
            (4,): rotation.quat_from_rotvec(rotvec),
            (3, 3): rotation.matrix_from_rotvec(rotvec),
        }[core]
        values.setflags(write=False)  # no function may change its input
        together = parts(values)
        for place in np.ndindex(batch):
            for part, whole in zip(parts(values[place]), together, strict=True):
                assert_allclose(whole[place], part, atol=ROUNDING)
                assert whole.dtype == np.float64
        assert together[0].shape[: len(batch)] == batch


@given(order=orders())
@settings(max_examples=6)
def test_single_precision_input_gives_double_precision(order: int) -> None:
    angles = np.array([[0.3, -0.2, 0.9]], dtype=np.float32)
    matrix = rotation.matrix_from_euler(angles, order)
    assert matrix.dtype == np.float64
    assert_array_equal(matrix, rotation.matrix_from_euler(angles.astype(np.float64), order))
    assert rotation.euler_from_matrix(matrix.astype(np.float32), order).dtype == np.float64


def test_frozen_is_a_read_only_copy() -> None:
    source = np.arange(6, dtype=np.float32).reshape(2, 3).T
    copy = frozen(source)
    source[0, 0] = 9.0
    assert copy[0, 0] == 0.0
    assert copy.dtype == np.float64
    assert copy.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        copy[0, 0] = 1.0
    assert frozen([1, 2], np.int64).dtype == np.int64

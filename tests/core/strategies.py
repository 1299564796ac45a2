# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypothesis strategies: rotations where numerics break as well as everywhere else.

Built without the code under test, so that a mistake there cannot hide in the examples.
"""

import math

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

Array = npt.NDArray[np.float64]

TINY = 1e-7
"""[rad] "Near" the identity, a half turn or gimbal lock: its square is lost beside 1 in float64."""

ORDER_NAMES = ("XYZ", "XZY", "YXZ", "YZX", "ZXY", "ZYX")
"""Blender's order names in the order in which `rotation.EULER_ORDERS` must list them."""


def floats(low: float, high: float) -> st.SearchStrategy[float]:
    """Finite floats in a closed interval, none of them subnormal."""
    return st.floats(low, high, allow_nan=False, allow_subnormal=False)


def vectors(low: float = -1.0, high: float = 1.0, size: int = 3) -> st.SearchStrategy[Array]:
    """Vectors (size,) with each element in an interval."""
    return st.lists(floats(low, high), min_size=size, max_size=size).map(np.array)


def orders() -> st.SearchStrategy[int]:
    """Indices of Euler orders."""
    return st.integers(0, len(ORDER_NAMES) - 1)


def _unit_quaternion(uniform: Array) -> Array:
    """Uniform over rotations from three uniform numbers [Shoemake, Graphics Gems III, 1992]."""
    first, second, third = uniform
    a, b = math.sqrt(1.0 - first), math.sqrt(first)
    return np.array(
        [
            b * math.cos(math.tau * third),
            a * math.sin(math.tau * second),
            a * math.cos(math.tau * second),
            b * math.sin(math.tau * third),
        ]
    )


def directions() -> st.SearchStrategy[Array]:
    """Unit vectors (3,): uniform, and the six along the axes."""

    def on_sphere(uniform: Array) -> Array:
        height, turn = 2.0 * uniform[0] - 1.0, math.tau * uniform[1]
        radius = math.sqrt(1.0 - height * height)
        return np.array([radius * math.cos(turn), radius * math.sin(turn), height])

    along = [sign * axis for axis in np.eye(3) for sign in (1.0, -1.0)]
    return st.one_of(vectors(0.0, 1.0, 2).map(on_sphere), st.sampled_from(along))


def angles_of_rotation() -> st.SearchStrategy[float]:
    """Angles in [0, pi]: anywhere, 0 and pi exactly, and near them."""
    return st.one_of(
        floats(0.0, math.pi),
        st.sampled_from([0.0, TINY, 1e-12, 1e-3, math.pi, math.pi - TINY, math.pi - 1e-12, math.pi - 1e-3]),
    )


def rotvecs() -> st.SearchStrategy[Array]:
    """Rotation vectors (3,) at most pi long."""
    return st.builds(lambda axis, angle: axis * angle, directions(), angles_of_rotation())


def quaternions() -> st.SearchStrategy[Array]:
    """Unit quaternions (4,), wxyz, of both signs: uniform, and the special angles of `rotvecs`."""

    def about(axis: Array, angle: float) -> Array:
        return np.concatenate([[math.cos(0.5 * angle)], math.sin(0.5 * angle) * axis])

    either = st.one_of(
        vectors(0.0, 1.0, 3).map(_unit_quaternion), st.builds(about, directions(), angles_of_rotation())
    )
    return st.builds(lambda quat, sign: sign * quat, either, st.sampled_from([1.0, -1.0]))


def rotation_about(axis: Array, angle: float) -> Array:
    """Rodrigues' formula, for examples and as a yardstick: matrix (3, 3) about a unit axis."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + math.sin(angle) * cross + 2.0 * math.sin(0.5 * angle) ** 2 * (cross @ cross)


def rotations() -> st.SearchStrategy[Array]:
    """Rotation matrices (3, 3): anywhere, the identity, near it, half turns and near them."""
    return st.builds(rotation_about, directions(), angles_of_rotation())


def near_gimbal_lock() -> st.SearchStrategy[float]:
    """Middle angles at and near gimbal lock, float32's idea of a right angle among them."""
    right = st.sampled_from([0.5 * math.pi, float(np.float32(0.5 * math.pi)), 1.5 * math.pi])
    off = st.sampled_from([0.0, TINY, -TINY, 1e-5, -1e-5, 1e-3, -1e-12])
    return st.builds(lambda angle, sign, error: sign * (angle + error), right, st.sampled_from([1, -1]), off)


def euler_angles(turns: float = 1.0) -> st.SearchStrategy[Array]:
    """Euler angles by axis (x, y, z) [rad], in each order those with the same first, middle and last, (6, 3).

    Anywhere within some turns, near zero, at gimbal lock. One draw for all orders: drawing is what costs.
    """
    anywhere = vectors(-turns * math.tau, turns * math.tau)

    def lock(angles: Array, angle: float) -> Array:
        return np.array([angles[0], angle, angles[2]])

    def by_axis(angles: Array) -> Array:
        placed = np.empty((len(ORDER_NAMES), 3))
        for row, name in zip(placed, ORDER_NAMES, strict=True):
            row[["XYZ".index(letter) for letter in name]] = angles
        return placed

    return st.one_of(
        anywhere,
        st.sampled_from([np.zeros(3), np.full(3, TINY), np.array([TINY, -TINY, 0.0])]),
        st.builds(lock, anywhere, near_gimbal_lock()),
    ).map(by_axis)

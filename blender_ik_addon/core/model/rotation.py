# SPDX-License-Identifier: GPL-3.0-or-later
"""Rotations: Euler angles in Blender's six orders, quaternions, rotation vectors and matrices, batched.

Every function takes leading batch axes. Rotations are active and act on column vectors, angles are in
radians, quaternions are wxyz.

**Euler angles** are stored by axis (x, y, z) whatever the order, as Blender stores them. Order "XYZ" turns
about X first: R = Rz Ry Rx. In general, for an order that turns about the axes i, j, k by a, b, c one after
the other,

    R = Rk(c) Rj(b) Ri(a) = P Rz(s c) Ry(s b) Rx(s a) P^T,

where P is the permutation with P ex = ei, P ey = ej, P ez = ek and s = det P = +1 or -1. So all six orders
share one closed form, that of M = Rz Ry Rx, and differ only in where its elements are placed: joints of
different orders are computed together, by one gather, without a loop. With sa = sin a and so on,

    M = | cb cc   sa sb cc - ca sc   ca sb cc + sa sc |
        | cb sc   sa sb sc + ca cc   ca sb sc - sa cc |
        | -sb     sa cb              ca cb            |

and the axes about which M turns when a, b or c grows, in the frame in which M acts, are

    Rz Ry ex = (cb cc, cb sc, -sb),   Rz ey = (-sc, cc, 0),   ez = (0, 0, 1).

The second solution for the same rotation is (a + pi, pi - b, c + pi). Where cos b = 0 (gimbal lock) the
rotation fixes only a - c (sin b = 1) or a + c (sin b = -1).

**Logarithms** go through the quaternion, 2 atan2(|v|, w), which keeps its accuracy both near the identity and
near pi; the inverse of the left Jacobian is [Sola2018] eq. 146 written with the half angle.
"""

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..arrays import BoolArray, FloatArray, IntArray, dots, frozen, lengths, times
from ..errors import IKError

EULER_ORDERS = ("XYZ", "XZY", "YXZ", "YZX", "ZXY", "ZYX")

FEW = 3
"""Batches [1] up to which it is the number of operations that costs, not their size (measured)."""

# What each order, (6, ...), takes from where. i, j, k of each order:
PERMUTATION = frozen([["XYZ".index(axis) for axis in name] for name in EULER_ORDERS], np.int64)
SIGN = frozen([1.0, -1.0, -1.0, 1.0, 1.0, -1.0])
ANGLES_IN = frozen(PERMUTATION[:, [0, 2, 1]], np.int64)
"""Axes of the angles a, c, b, (6, 3)."""
_ANGLES_OUT = frozen(np.argsort(PERMUTATION, axis=1), np.int64)
"""Angles x, y, z from a, b, c, (6, 3)."""
_MATRIX_OUT = (3 * _ANGLES_OUT[:, :, None] + _ANGLES_OUT[:, None, :]).reshape(6, 9)

# Each element of M and of its axes is a product of three and one of two entries of a table: x y z + v w. The
# table has the sines of a, c, b, -a, -c, -b of all joints, that of an angle 0, then all their cosines.
_SINES = ("sa", "sc", "sb", "-sa", "-sc", "-sb", "0")
_ENTRIES = (*_SINES, "ca", "cc", "cb", "ca", "cc", "cb", "1")
_ELEMENTS = (
    "cb cc 1 0 0",  # m00
    "sa sb cc ca -sc",
    "ca sb cc sa sc",
    "cb sc 1 0 0",  # m10
    "sa sb sc ca cc",
    "ca sb sc -sa cc",
    "-sb 1 1 0 0",  # m20
    "sa cb 1 0 0",
    "ca cb 1 0 0",
    "1 1 1 0 0",  # the axes, in columns, in the frame in which M acts
    "0 0 0 0 0",
    "-sb 1 1 0 0",
    "0 0 0 0 0",
    "ca 1 1 0 0",
    "sa cb 1 0 0",
    "0 0 0 0 0",
    "-sa 1 1 0 0",
    "ca cb 1 0 0",
)
_FACTORS = np.array([[_ENTRIES.index(name) for name in element.split()] for element in _ELEMENTS])  # (18, 5)
_OUT = np.concatenate([_MATRIX_OUT, 9 + _MATRIX_OUT], axis=1)
_FACTORS_OUT = _FACTORS[_OUT]  # (6, 18, 5)
_CANONICAL = np.array([*range(9), 10, 9, 6, 9, 11, 7, 9, 12, 8])
"""Where `EulerElements.across` has these elements: M, then 0, 1, ca and -sa, (18,)."""
_CANONICAL_OUT = _CANONICAL[_OUT]  # (6, 18)

GIMBAL_COSINE = 1e-6
"""[1] A cosine of the middle angle below this is gimbal lock. In Blender's single precision a right angle is
off by 4e-8 and a matrix element by 6e-8, more in products, and then the split between the two other angles is
noise. Choosing it anew here changes the rotation by at most twice this, in radians."""

LIMIT_NOISE = 1e-5
"""[rad] By how much angles on their limits may be outside of them when read in Blender's single precision."""

_SERIES_ANGLE = 1e-2
"""[rad] Below this the coefficient of the inverse left Jacobian and its derivative are taken from their
series: the closed forms lose digits as 1 / angle^2 and 1 / angle^4, the first neglected terms are 1e-18 and
1e-13, and these are multiplied by the square and the cube of the angle."""

_CACHED_ORDERS = 4096
"""[joints] Index tables of longer arrays of orders are not cached: they would take hundreds of MB."""

_LEVI_CIVITA = frozen(
    [[0, 0, 0, 0, 0, -1, 0, 1, 0], [0, 0, 1, 0, 0, 0, -1, 0, 0], [0, -1, 0, 1, 0, 0, 0, 0, 0]]
)
"""Row k holds the matrix that takes u to the cross product of axis k and u, (3, 9)."""
_IDENTITY = frozen(np.eye(3))
_TURN_OUT = frozen(np.concatenate([0.5 * _LEVI_CIVITA, 0.5 * _IDENTITY.reshape(1, 9)]).T)
"""What takes a rotation matrix, as a row of 9, to the sine times the axis of its turn and half its trace."""
_TINY = np.finfo(np.float64).tiny

# Elements of M, and by what angles are multiplied before pi is added for the second solution.
_MATRIX_IN = frozen((3 * PERMUTATION[:, :, None] + PERMUTATION[:, None, :]).reshape(6, 9), np.int64)
_SECOND_SIGN = frozen(np.where(_ANGLES_OUT == 1, -1.0, 1.0))


def order_index(order: str) -> int:
    """Return the index of an order's name in EULER_ORDERS."""
    if order not in EULER_ORDERS:
        raise IKError(f"unknown Euler order {order!r}; the orders are {', '.join(EULER_ORDERS)}")
    return EULER_ORDERS.index(order)


class EulerElements:
    """Rotation matrices of joints and axes of their angles, as a function of rows of numbers with these.

    With t = tan(x/2), sin x = 2t / (1 + t^2) and cos x = 2 / (1 + t^2) - 1, also where t is huge. That is one
    function instead of two, and numpy's tangent is the fastest of the three.
    """

    def __init__(self, orders: IntArray, columns: IntArray) -> None:
        """Prepare the tables.

        Args:
            orders: Of the joints, (m,).
            columns: Where the angles x, y, z of each are, (m, 3).
        """
        joints, sines = len(orders), len(_SINES) - 1
        count = joints * sines + 1
        signs = 0.5 * SIGN[orders]
        angles = np.take_along_axis(columns, ANGLES_IN[orders], axis=1).T.ravel()
        self._joints = joints
        self._columns = np.concatenate([angles, angles, angles[:1]])
        self._halves = np.concatenate([np.tile(signs, 3), np.tile(-signs, 3), np.zeros(min(joints, 1))])
        """By what angles are multiplied: half their sign, its opposite, 0, (6 m + 1,)."""
        factors = _FACTORS_OUT[orders].reshape(joints, 2, 9, 5)
        half, row = np.divmod(factors, len(_SINES))
        own = np.arange(joints)[:, None, None, None]
        entries = half * count + row * joints + np.where(row < sines, own, 0)
        by_factor = np.moveaxis(entries, (3, 1), (0, 1)).reshape(5, 18 * joints)
        self._together: IntArray = np.concatenate(
            [by_factor[:2].ravel(), by_factor[2:, : 9 * joints].ravel()]
        )
        """Entries of x and y, of matrices and then axes, and of z, v, w, which axes do not have."""
        ends = [9 * joints * k for k in (0, 2, 4, 5, 6, 7)]
        self._parts = [slice(first, end) for first, end in pairwise(ends)]
        """Where each of the five is in it."""
        rows = _CANONICAL_OUT[orders].reshape(joints, 2, 3, 3) * joints
        self._canonical: IntArray = np.moveaxis(rows + np.arange(joints)[:, None, None, None], 0, -1)
        """Which rows of the closed form `across` takes, (2, 3, 3, m)."""

    def of(self, rows: FloatArray) -> FloatArray:
        """Matrices and axes (B, 2, m, 3, 3) of rows (B, w)."""
        batches = len(rows)
        if batches > FEW:
            return np.moveaxis(self.across(rows), (4, 0, 3), (0, 1, 2))
        tangent = rows.take(self._columns, axis=1)
        tangent *= self._halves
        np.tan(tangent, out=tangent)
        share = np.square(tangent)
        share += 1.0
        np.divide(2.0, share, out=share)
        count = tangent.shape[1]
        table = np.empty((batches, 2 * count))
        np.multiply(share, tangent, out=table[:, :count])
        np.subtract(share, 1.0, out=table[:, count:])
        gathered = table.take(self._together, axis=1)
        x, y, z, v, w = [gathered[:, part] for part in self._parts]  # faster than a generator
        elements: FloatArray = x * y
        matrices = elements[:, : z.shape[1]]
        matrices *= z
        matrices += v * w
        return elements.reshape(batches, 2, self._joints, 3, 3)

    def across(self, rows: FloatArray) -> FloatArray:
        """The same of many rows (B, w), with the batch last, (2, 3, 3, m, B).

        With the batches of a number next to each other the closed form is worked off as it stands, for all
        joints at once; gathering its factors one by one would take several times as long.
        """
        joints = self._joints
        sine = rows.T.take(self._columns[: 3 * joints], axis=0)
        sine *= self._halves[: 3 * joints, None]
        np.tan(sine, out=sine)
        cosine = np.square(sine)
        cosine += 1.0
        np.divide(2.0, cosine, out=cosine)
        sine *= cosine
        cosine -= 1.0
        sa, sc, sb = sine.reshape(3, joints, len(rows))
        ca, cc, cb = cosine.reshape(3, joints, len(rows))
        sa_sb, ca_sb, nothing = sa * sb, ca * sb, np.zeros_like(sa)
        closed_form = np.concatenate(
            [
                *(cb * cc, sa_sb * cc - ca * sc, ca_sb * cc + sa * sc),
                *(cb * sc, sa_sb * sc + ca * cc, ca_sb * sc - sa * cc),
                *(-sb, sa * cb, ca * cb),
                *(nothing, nothing + 1.0, ca, -sa),
            ]
        )
        return closed_form.take(self._canonical, axis=0)


def _orders(order: int | IntArray, batch: tuple[int, ...]) -> IntArray:
    """Return orders as indices with as many axes as the batch shape of rotations."""
    orders = np.asarray(order, dtype=np.int64)
    count = len(EULER_ORDERS)
    if orders.size and (orders.min() < 0 or orders.max() >= count):
        raise IKError(f"Euler orders are indices 0 to {count - 1}, got {orders.min()} to {orders.max()}")
    if orders.ndim and orders.shape != batch[-orders.ndim :]:
        try:
            orders = np.broadcast_to(orders, batch)
        except ValueError:
            raise IKError(
                f"Euler orders of shape {orders.shape} do not fit rotations of batch shape {batch}"
            ) from None
    return orders.reshape((1,) * (len(batch) - orders.ndim) + orders.shape)


# ----------------------------------------------------------------------------------------------------------
# Euler angles to matrices


def matrix_from_euler(angles: npt.ArrayLike, order: int | IntArray) -> FloatArray:
    """Return the rotation matrices (..., 3, 3) of Euler angles (..., 3) [rad]."""
    return matrix_and_axes_from_euler(angles, order)[0]


def matrix_and_axes_from_euler(angles: npt.ArrayLike, order: int | IntArray) -> tuple[FloatArray, FloatArray]:
    """Return rotation matrices R and the axes about which the body turns as each Euler angle grows.

    Both are (..., 3, 3). Column c of the axes belongs to the angle of axis c (x, y, z), is of unit length and
    stands in the body's own frame: dR/dangle_c = R @ skew(axes[..., :, c]).
    """
    angles = np.asarray(angles, dtype=np.float64)
    orders = _orders(order, angles.shape[:-1])
    own = np.broadcast_to(orders, (*orders.shape[:-1], *angles.shape[-2:-1]))
    tables = _tables if own.size <= _CACHED_ORDERS else _tables.__wrapped__
    rows = angles.reshape(angles.size // max(3 * own.size, 1), 3 * own.size)
    elements = tables(own.tobytes()).of(rows)
    return elements[:, 0].reshape(*angles.shape, 3), elements[:, 1].reshape(*angles.shape, 3)


@lru_cache(maxsize=64)
def _tables(orders: bytes) -> EulerElements:
    own = np.frombuffer(orders, dtype=np.int64)
    return EulerElements(own, np.arange(3 * len(own)).reshape(-1, 3))


# ----------------------------------------------------------------------------------------------------------
# Matrices to Euler angles, and the choice among equivalent angles


def euler_from_matrix(matrix: npt.ArrayLike, order: int | IntArray) -> FloatArray:
    """Return Euler angles (..., 3) [rad] of rotation matrices (..., 3, 3), middle angle in [-pi/2, pi/2].

    At gimbal lock the last angle is zero, as in Blender. Matrices must be rotations: remove scale first.
    """
    matrix = np.asarray(matrix, dtype=np.float64)
    batch = matrix.shape[:-2]
    orders = _orders(order, batch)
    elements = np.take_along_axis(matrix.reshape(*batch, 9), _MATRIX_IN[orders], axis=-1)
    m00, m01, m02, m10, m11, m12, m20, m21, m22 = np.moveaxis(elements, -1, 0).copy()
    cos_b = np.hypot(m00, m10)
    usual: FloatArray = np.arctan2(m21, m22)
    locked: FloatArray = np.arctan2(-m12, m11)
    a = np.where(cos_b < GIMBAL_COSINE, locked, usual)
    sa, ca = np.sin(a), np.cos(a)
    # c from M Rx(-a) = Rz Ry, whose middle column is (-sc, cc, 0) even where cos b vanishes. Taken from
    # atan2(m10, m00), its error would not make up for that of a, and the rotation be wrong by 1e-16 / cos b.
    c = np.arctan2(sa * m02 - ca * m01, ca * m11 - sa * m12)
    angles = np.stack([a, np.arctan2(-m20, cos_b), c], axis=-1) * SIGN[orders][..., None]
    return np.take_along_axis(angles, _ANGLES_OUT[orders], axis=-1)


def euler_from_matrix_near(
    matrix: npt.ArrayLike, order: int | IntArray, reference: npt.ArrayLike
) -> FloatArray:
    """Return the Euler angles (..., 3) [rad] of the matrices that are nearest to `reference` (..., 3).

    Nearest by the sum of squared differences, among both solutions and all turns of 2 pi; at gimbal lock also
    among all splits between first and last angle.
    """
    return nearest_euler(euler_from_matrix(matrix, order), order, reference)


def nearest_euler(angles: npt.ArrayLike, order: int | IntArray, reference: npt.ArrayLike) -> FloatArray:
    """Return the Euler angles of the same rotation that are nearest to `reference`, (..., 3) [rad].

    See `euler_from_matrix_near` for what nearest means. The rotation is the same to rounding, and within
    2 GIMBAL_COSINE where the joint is at gimbal lock.
    """
    angles, reference = np.broadcast_arrays(
        np.asarray(angles, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    )
    orders = _orders(order, angles.shape[:-1])
    both = _solutions(angles, orders, reference)
    locked = np.abs(np.cos(np.take_along_axis(angles, PERMUTATION[orders][..., 1:2], axis=-1)))[..., 0]
    at: BoolArray = locked < GIMBAL_COSINE
    if at.any():
        # Only a - c (sin b > 0) or a + c (sin b < 0) counts: each takes half of what that is off the target.
        own = np.broadcast_to(orders, at.shape)[at]
        axes = PERMUTATION[own]  # (k, 3)
        side = -SIGN[own] * np.sign(np.sin(np.take_along_axis(angles[at], axes[:, 1:2], axis=1)[:, 0]))
        some, target = both[:, at], reference[at]  # (2, k, 3), (k, 3)
        away = np.take_along_axis(some - target, axes[None], axis=2)
        off = away[..., 0] + side * away[..., 2]
        half = 0.5 * (off - _whole_turns(off))
        split = np.take_along_axis(target, axes, axis=1)[:, ::2] + np.stack([half, side * half], axis=-1)
        np.put_along_axis(some, np.broadcast_to(axes[:, ::2], split.shape), split, axis=2)
        both[:, at] = some
    distance = np.square(both - reference).sum(axis=-1)
    np.copyto(both[0], both[1], where=(distance[1] < distance[0])[..., None])
    return both[0]


def _solutions(angles: FloatArray, orders: IntArray, reference: FloatArray) -> FloatArray:
    """Return both solutions for the rotations, each angle within pi of the reference, (2, ..., 3)."""
    both = np.stack([angles, math.pi + _SECOND_SIGN[orders] * angles])
    both -= _whole_turns(both - reference)
    return both


def euler_within(
    matrix: npt.ArrayLike,
    order: int | IntArray,
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    reference: npt.ArrayLike,
) -> FloatArray:
    """Return the Euler angles (..., 3) [rad] of the matrices that break limits the least.

    Of both solutions, and of all turns of 2 pi, those with the least sum of what is outside; among solutions
    that differ by no more than `LIMIT_NOISE` in that, the nearest to the reference.

    Args:
        matrix: Rotations, (..., 3, 3).
        lower: Limits (..., 3) [rad], not finite where there are none.
        upper: Likewise.
        reference: Angles (..., 3) [rad].
    """
    lower, upper = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    reference = np.asarray(reference, dtype=np.float64)

    def outside(angles: FloatArray) -> FloatArray:
        return np.maximum(np.maximum(lower - angles, angles - upper), 0.0)

    first = euler_from_matrix_near(matrix, order, reference)
    both = _solutions(first, _orders(order, first.shape[:-1]), reference)
    limited = np.isfinite(lower) & np.isfinite(upper)
    span = np.where(limited, lower, 0.0), np.where(limited, upper, 0.0)
    central = both - _whole_turns(both - np.where(limited, 0.5 * (span[0] + span[1]), reference))
    np.copyto(both, central, where=outside(central) < outside(both))
    broken = outside(both).sum(axis=-1)
    away = np.square(both - reference).sum(axis=-1)
    alike = np.abs(broken[1] - broken[0]) <= LIMIT_NOISE
    second_fits: BoolArray = (broken[1] < broken[0]) & ~alike | (away[1] < away[0]) & alike
    np.copyto(both[0], both[1], where=second_fits[..., None])
    return both[0]


def _whole_turns(angle: FloatArray) -> FloatArray:
    """Return the multiple of 2 pi to take off so that the angle lies in [-pi, pi], exactly 0 if it does."""
    return math.tau * np.rint(angle / math.tau)


def continuous_euler(angles: npt.ArrayLike, order: int | IntArray) -> FloatArray:
    """Return angles (F, ..., 3) [rad] of the same rotations, each frame nearest to the frame before it.

    Frames are axis 0; the first stays as it is. See `nearest_euler`.
    """
    continuous = np.array(angles, dtype=np.float64)
    orders = np.broadcast_to(np.asarray(order, dtype=np.int64), continuous.shape[:-1])
    # Most frames are nearest already: of many at once those before the first that changes are done.
    frame, count = 1, 1
    while frame < len(continuous):
        some = slice(frame, frame + count)
        before = continuous[frame - 1 : frame + count - 1][: len(continuous) - frame]
        nearest = nearest_euler(continuous[some], orders[some], before)
        changed = (nearest != continuous[some]).reshape(len(nearest), -1).any(axis=1)
        if changed.any():
            first = int(changed.argmax())
            continuous[frame + first] = nearest[first]
            frame, count = frame + first + 1, 1
        else:
            frame, count = frame + len(nearest), 2 * count
    return continuous


# ----------------------------------------------------------------------------------------------------------
# Quaternions, wxyz

# 4 q q^T is linear in the rotation matrix. The row with the largest diagonal element has lost no digits.
_TRACE_SIGNS = frozen([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
_QUAT_ROWS = frozen([[0, 4, 5, 6], [4, 1, 9, 8], [5, 9, 2, 7], [6, 8, 7, 3]], np.int64)


def quat_from_matrix(matrix: npt.ArrayLike) -> FloatArray:
    """Return the unit quaternions (..., 4) with w >= 0 of rotation matrices (..., 3, 3)."""
    matrix = np.asarray(matrix, dtype=np.float64)
    flat = matrix.reshape(math.prod(matrix.shape[:-2]), 9)
    below, above = flat[:, [7, 2, 3]], flat[:, [5, 6, 1]]
    elements = np.empty((len(flat), 10))
    elements[:, :4] = 1.0 + (flat[:, None, ::4] * _TRACE_SIGNS).sum(axis=-1)  # 4 (w^2, x^2, y^2, z^2)
    elements[:, 4:7] = below - above  # 4 (w x, w y, w z)
    elements[:, 7:] = below + above  # 4 (y z, x z, x y)
    largest = elements[:, :4].argmax(axis=1)
    quat = np.take_along_axis(elements, _QUAT_ROWS[largest], axis=1)
    quat /= _norm(quat)
    np.negative(quat, out=quat, where=quat[:, :1] < 0.0)
    return quat.reshape(*matrix.shape[:-2], 4)


def matrix_from_quat(quat: npt.ArrayLike) -> FloatArray:
    """Return the rotation matrices (..., 3, 3) of quaternions (..., 4) of any length; zero is no rotation."""
    quat = np.asarray(quat, dtype=np.float64)
    square = np.square(quat).sum(axis=-1)
    scale = 2.0 / np.where(square == 0.0, 1.0, square)
    w, vector = quat[..., :1, None], quat[..., 1:]
    outer = vector[..., :, None] * vector[..., None, :]
    turning = w * skew(vector) + outer - dots(vector, vector)[..., None, None] * _IDENTITY
    return scale[..., None, None] * turning + _IDENTITY


def quat_from_rotvec(rotvec: npt.ArrayLike) -> FloatArray:
    """Return the unit quaternions (..., 4) of rotation vectors (..., 3) [rad], axis times angle."""
    rotvec = np.asarray(rotvec, dtype=np.float64)
    half = 0.5 * _norm(rotvec)
    return np.concatenate([np.cos(half), 0.5 * np.sinc(half / math.pi) * rotvec], axis=-1)


def quat_from_axis_angle(axis: npt.ArrayLike, angle: npt.ArrayLike) -> FloatArray:
    """Return the unit quaternions (..., 4) that turn by `angle` (...) [rad] about `axis` (..., 3).

    The axis may have any length; a zero axis is no rotation, as in Blender.
    """
    axis = np.asarray(axis, dtype=np.float64)
    length = _norm(axis)
    unit = axis / np.where(length == 0.0, 1.0, length)
    return quat_from_rotvec(unit * np.asarray(angle, dtype=np.float64)[..., None])


def axis_angle_from_quat(quat: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return unit axes (..., 3) and angles (...) in [0, 2 pi] [rad] of quaternions (..., 4) of any length.

    The angle is not folded to pi, so q and -q differ and a continuous row of quaternions gives continuous
    angles. No rotation has the axis (0, 1, 0), as in Blender.
    """
    quat = np.asarray(quat, dtype=np.float64)
    vector = quat[..., 1:]
    sine = _norm(vector)
    nowhere = sine == 0.0
    axis = np.where(nowhere, np.array([0.0, 1.0, 0.0]), vector / np.where(nowhere, 1.0, sine))
    return axis, 2.0 * np.arctan2(sine[..., 0], quat[..., 0])


def matrix_in_mode(mode: str, values: npt.ArrayLike) -> FloatArray:
    """Return the rotation matrices (..., 3, 3) that the channels of one of Blender's rotation modes mean.

    Args:
        mode: An Euler order, 'QUATERNION' or 'AXIS_ANGLE'.
        values: (..., 3) angles; (..., 4) quaternions, of which zero is pi about x, as in Blender; or (..., 4)
            angles and axes.
    """
    values = np.asarray(values, dtype=np.float64)
    if mode == 'AXIS_ANGLE':
        return matrix_from_quat(quat_from_axis_angle(values[..., 1:], values[..., 0]))
    if mode != 'QUATERNION':
        return matrix_from_euler(values, order_index(mode))
    return matrix_from_quat(np.where(values.any(-1, keepdims=True), values, [0.0, 1.0, 0.0, 0.0]))


def continuous_quats(quats: npt.ArrayLike, reference: npt.ArrayLike | None = None) -> FloatArray:
    """Return the quaternions (F, ..., 4) with each frame's sign nearest to the frame before (axis 0).

    The first frame is taken nearest to `reference` (..., 4), or stays as it is.
    """
    quats = np.array(quats, dtype=np.float64)
    flip = np.ones((*quats.shape[:-1], 1))
    flip[1:, ..., 0] = np.where((quats[1:] * quats[:-1]).sum(axis=-1) < 0.0, -1.0, 1.0)
    if reference is not None:
        dot = (quats[:1] * np.asarray(reference, dtype=np.float64)).sum(axis=-1)
        flip[:1, ..., 0] = np.where(dot < 0.0, -1.0, 1.0)
    return quats * np.cumprod(flip, axis=0)


# ----------------------------------------------------------------------------------------------------------
# Rotation vectors


def matrix_from_rotvec(rotvec: npt.ArrayLike) -> FloatArray:
    """Return the rotation matrices (..., 3, 3) of rotation vectors (..., 3) [rad]."""
    return matrix_from_quat(quat_from_rotvec(rotvec))


def rotvec_from_matrix(matrix: npt.ArrayLike) -> FloatArray:
    """Return the rotation vectors (..., 3) [rad], at most pi long, of rotation matrices (..., 3, 3).

    From R - R^T, which is 2 sin(angle) times the axis; for turns by more than 120 degrees, whose sine loses
    the digits of the axis, its direction is that of the longest column of R + R^T - 2 cos(angle).
    """
    matrix = np.asarray(matrix, dtype=np.float64)
    flat = matrix.reshape(math.prod(matrix.shape[:-2]), 9)
    parts = flat @ _TURN_OUT
    vector, half_trace = parts[:, :3], parts[:, 3:]
    # Not by `lengths`: a solve is at its deepest here.
    sine = np.maximum(np.sqrt(np.einsum("nk,nk->n", vector, vector))[:, None], _TINY)
    rotvec = np.arctan2(sine, half_trace - 0.5) / sine * vector
    far = np.flatnonzero(half_trace[:, 0] < 0.0)
    if len(far):
        turned = flat[far].reshape(-1, 3, 3)
        both = turned + turned.swapaxes(1, 2) - 2.0 * (half_trace[far, :, None] - 0.5) * np.eye(3)
        axis = both[np.arange(len(far)), np.einsum("nkk->nk", both).argmax(axis=1)]
        axis *= np.where(np.einsum("nk,nk->n", axis, vector[far]) < 0.0, -1.0, 1.0)[:, None]
        angle = np.arctan2(sine[far], half_trace[far] - 0.5)
        rotvec[far] = angle * axis / np.sqrt(np.einsum("nk,nk->n", axis, axis))[:, None]
    return rotvec.reshape(matrix.shape[:-1])


def rotation_angle(matrix: npt.ArrayLike) -> FloatArray:
    """Return the angles (...) in [0, pi] [rad] by which rotation matrices (..., 3, 3) turn."""
    return lengths(rotvec_from_matrix(matrix))


def skew(vector: npt.ArrayLike) -> FloatArray:
    """Return the matrices (..., 3, 3) that take u to the cross product of `vector` (..., 3) and u."""
    vector = np.asarray(vector, dtype=np.float64)
    return (vector @ _LEVI_CIVITA).reshape(*vector.shape, 3)


def left_jacobian_inverse(rotvec: npt.ArrayLike) -> FloatArray:
    """Return the inverse left Jacobians of SO(3), (..., 3, 3), at rotation vectors (..., 3) [rad] below 2 pi.

    [Sola2018] eq. 146. To first order in w, log(exp(w) R) = log R + left_jacobian_inverse(log R) w.
    """
    rotvec = np.asarray(rotvec, dtype=np.float64)
    square = dots(rotvec, rotvec)[..., None, None]
    factor = _log_factor(square)
    outer = factor * rotvec[..., :, None] * rotvec[..., None, :]
    return outer - 0.5 * skew(rotvec) + (1.0 - factor * square) * _IDENTITY


def log_hessian(rotvec: FloatArray, along: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how components of a rotation vector change as its rotation turns further, to second order.

    To second order in w, m . log(exp(w) R) = m . log R + V . w + w . M w / 2. With the inverse left Jacobian
    1 - [v] / 2 + c [v]^2 at v = log R, g = 1 - c |v|^2, and d the derivative of c by |v|, divided by |v|,

        V = m + (v x m) / 2 + c v x (v x m),      M = (k v^T + v k^T) / 2 - (m . v) (1/4 - c g),
        k = c (2 g m + v x m) + (m . v) (d + 2 c^2) v.

    Args:
        rotvec: log R, (..., 3) [rad] below 2 pi.
        along: m, (..., 3).

    Returns:
        V, (..., 3), and M, (..., 3, 3).
    """
    square, dot = (dots(rotvec, other)[..., None] for other in (rotvec, along))
    c = _log_factor(square)
    g = 1.0 - c * square
    series = 1.0 / 360.0 + square * (1.0 / 7560.0)
    small = square < _SERIES_ANGLE**2
    d = np.where(small, series, (0.25 - c * (2.0 + g)) / np.where(small, 1.0, square))
    crossed = times(skew(rotvec), along)
    pull = g * along + 0.5 * crossed + c * dot * rotvec
    k = c * (2.0 * g * along + crossed) + dot * (d + 2.0 * c * c) * rotvec
    half = 0.5 * k[..., :, None] * rotvec[..., None, :]
    return pull, half + half.swapaxes(-1, -2) - (dot * (0.25 - c * g))[..., None] * _IDENTITY


def _log_factor(square: FloatArray) -> FloatArray:
    """Return c = (1 - a cot a) / angle^2, a = angle / 2, of squares of angles [rad^2]."""
    small = square < _SERIES_ANGLE**2
    far = np.where(small, 1.0, square)
    half = 0.5 * np.sqrt(far)
    series = 1.0 / 12.0 + square * (1.0 / 720.0 + square * (1.0 / 30240.0))
    return np.where(small, series, (1.0 - half / np.tan(half)) / far)


def _norm(vector: FloatArray) -> FloatArray:
    """Return lengths with the axis kept, (..., 1)."""
    return lengths(vector)[..., None]

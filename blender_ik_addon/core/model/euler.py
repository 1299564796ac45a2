# SPDX-License-Identifier: GPL-3.0-or-later
"""Rotation matrices of Euler angles in Blender's six orders, for many joints at once.

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
"""

from itertools import pairwise

import numpy as np

from ..arrays import FloatArray, IntArray, frozen
from ..errors import IKError

EULER_ORDERS = ("XYZ", "XZY", "YXZ", "YZX", "ZXY", "ZYX")

FEW = 3
"""Batches [1] up to which it is the number of operations that costs, not their size (measured)."""

# What each order, (6, ...), takes from where. i, j, k of each order:
PERMUTATION = frozen([["XYZ".index(axis) for axis in name] for name in EULER_ORDERS], np.int64)
SIGN = frozen([1.0, -1.0, -1.0, 1.0, 1.0, -1.0])
ANGLES_IN = frozen(PERMUTATION[:, [0, 2, 1]], np.int64)
"""Axes of the angles a, c, b, (6, 3)."""
_INVERSE = np.argsort(PERMUTATION, axis=1)
_MATRIX_OUT = (3 * _INVERSE[:, :, None] + _INVERSE[:, None, :]).reshape(6, 9)

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

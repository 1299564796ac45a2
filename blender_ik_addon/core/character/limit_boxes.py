# SPDX-License-Identifier: GPL-3.0-or-later
"""Movements of joints, and the boxes of Euler angles that hold them.

A movement is a path of rotations R(t) = exp([a] t) from the rest pose. Written as Euler angles of the joint
the paths of its movements span a box, and that box is its limits. Where an axis of the joint is the axis of a
movement, the box has the movement's range itself; where bones are rolled otherwise it is the smallest box
that holds the movement. An axis is taken for the joint's own where it is near to it (`SNAP`): then the limits
are exactly those of a hinge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..arrays import FloatArray
from ..model.rotation import EULER_ORDERS, continuous_euler, euler_from_matrix, matrix_from_rotvec

SNAP: Final = float(np.radians(20.0))
"""Angle [rad] up to which the axis of a hinge is taken for an axis of its joint: of an arm that is nearly
straight the plane is hardly known, and riggers roll bones so that they bend about one of their axes."""

SLACK, HINGE_SLACK = float(np.radians(5.0)), float(np.radians(2.0))
"""How far joints give way in directions in which they should not move, as bones meet at odd angles; the same
of elbows and knees, where with the forearm twisted what is across may be backward [rad]."""

STEP: Final = float(np.radians(10.0))
"""Largest step along a movement [rad]; from step to step the angles that go on are taken."""

COMFORTABLE: Final = float(np.radians(80.0))
"""Middle Euler angle [rad] beyond which an order is avoided: at 90 degrees it has no inverse."""

WIDEST: Final = float(np.radians(175.0))
"""Angle [rad] from which on a channel is not limited: its bounds would say nothing of a body."""

EXACT: Final = 1e-12
"""Rounding of angles that are computed from the same numbers [rad]."""

LOCKING, GAIN = 10.0, 0.02
"""What gimbal lock inside a box adds to its size where orders are compared, as boxes differ by less; how much
smaller a box must be for a later order, as left and right should be the same [rad]."""


@dataclass(frozen=True)
class Movement:
    """Turns from the rest pose about one axis."""

    axis: FloatArray
    """Unit vector in the joint's frame, (3,)."""
    start: float
    """[rad], at most `end`."""
    end: float
    """[rad]"""


def snapped(axis: FloatArray) -> FloatArray:
    """The axis of the joint that is near to a unit vector (3,), else the vector itself."""
    channel = int(np.argmax(np.abs(axis)))
    if np.arccos(np.clip(abs(axis[channel]), 0.0, 1.0)) <= SNAP:
        return np.eye(3)[channel] * np.sign(axis[channel])
    return axis


def moves_about(
    axes: Sequence[FloatArray] | FloatArray, ranges: Sequence[tuple[float, float]], share: float = 1.0
) -> list[Movement]:
    """Turns about some axes by a share of their ranges [deg]."""
    return [
        Movement(axis, share * np.radians(low), share * np.radians(high))
        for axis, (low, high) in zip(axes, ranges, strict=True)
    ]


def path_angles(move: Movement, orders: Sequence[int]) -> FloatArray:
    """Euler angles along a movement in some orders, beginning with those of its start, (k, orders, 3) [rad].

    They are those that go on from the rest pose, whose angles are 0. They stand still where they come near
    gimbal lock and first and last angle run away; a path about the middle axis itself goes through unharmed.
    """
    halves: list[FloatArray] = []
    rows, columns = np.array(orders, dtype=np.int64), np.arange(len(orders))
    middle = np.array([middle_of(order) for order in orders])
    for end in (move.start, move.end):
        turns = np.linspace(0.0, end, max(2, int(np.ceil(abs(end) / STEP)) + 1))
        vectors = np.repeat((turns[:, None] * move.axis)[:, None], len(orders), axis=1)
        angles = vectors  # of an axis of the joint: the turn is its angle in every order
        if np.count_nonzero(move.axis) > 1:
            angles = continuous_euler(euler_from_matrix(matrix_from_rotvec(vectors), rows), rows)
            near = np.abs(angles[:, columns, middle]) > COMFORTABLE  # (k, orders)
            near &= np.abs(move.axis[middle]) < np.cos(SLACK)
            last = np.where(near.any(0), np.maximum(near.argmax(0) - 1, 0), len(turns) - 1)
            angles = angles[np.minimum(np.arange(len(turns))[:, None], last), columns]
        # A range that begins beyond rest has no samples before its beginning.
        halves.append(angles[(turns >= move.start - EXACT) & (turns <= move.end + EXACT)])
    return np.concatenate([halves[0][::-1], halves[1]])


def middle_of(order: int) -> int:
    """Channel of the middle angle of an order."""
    return "XYZ".index(EULER_ORDERS[order][1])


def best_box(
    orders: Sequence[int], moves: Sequence[Movement], hinge: FloatArray | None
) -> tuple[int, FloatArray, FloatArray]:
    """The order of those given whose box is smallest, and that box; the first of those about as good."""
    if not moves:
        return orders[0], np.full(3, -np.inf), np.full(3, np.inf)
    paths = [path_angles(move, orders) for move in moves]
    angles: FloatArray = np.concatenate(paths)  # (k, orders, 3)
    # A hinge does not give way where it bends: only the bend, which comes first, says how far it bends.
    bends = np.zeros(3, dtype=np.bool_) if hinge is None else np.abs(hinge) > np.sin(SNAP)
    slack = SLACK if hinge is None else HINGE_SLACK
    lower: FloatArray = np.minimum(angles.min(0), -slack)
    upper: FloatArray = np.maximum(angles.max(0), slack)
    lower[:, bends], upper[:, bends] = paths[0].min(0)[:, bends], paths[0].max(0)[:, bends]
    best, least = 0, np.inf
    for row, order in enumerate(orders):
        middle = middle_of(order)
        locked = max(-lower[row, middle], upper[row, middle]) > COMFORTABLE
        cost = float((upper[row] - lower[row]).sum()) + LOCKING * locked
        if cost < least - GAIN:
            best, least = row, cost
    low, high = lower[best], upper[best]
    return orders[best], np.where(low < -WIDEST, -np.inf, low), np.where(high > WIDEST, np.inf, high)

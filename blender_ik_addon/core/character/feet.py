# SPDX-License-Identifier: GPL-3.0-or-later
"""The foot as one control: roll over heel, ball and toe tip, bank over its edges, pivots on the floor.

In the foot bone's own axes f points from heel to toe tip along the floor, u up and l = u × f to the left. The
control is a motion of the whole foot from where its target has it,

    foot = P_heel · P_ball · P_toe · B · H · T · R,      toe = P_heel · P_ball · P_toe · B · H · T,

applied from right to left: R rolls the foot over the ball, H over the heel, T over the toe tip, B banks, P
turn about the vertical. It is what rigs call a reverse foot. The sole never sinks, whatever the angles:

- R turns about the joint of the toes, so the toes stay where they are; H, T and B turn about lines of the
  floor at the end over which the foot rolls, with all of the sole on one side; P keep heights.
- Pivots are three angles, each about its own point. To turn about another point changes no angle that is
  there, so the foot stays.
"""

from dataclasses import dataclass, replace
from functools import reduce
from math import radians
from typing import Final

import numpy as np

from ..arrays import FloatArray, Vector3
from ..model.rotation import matrix_from_rotvec

BREADTH: Final = 0.38
"""Breadth of a foot against its length [1] [Gordon2014]."""

BALL_ANGLE: Final = radians(45.0)
"""Roll [rad] up to which the toes stay on the floor; beyond it all turns about their tip."""


@dataclass(frozen=True)
class FootAngles:
    """What is set of a foot [rad]."""

    roll: float = 0.0
    """Below 0 back over the heel, above 0 over the ball and then the toe tip."""
    bank: float = 0.0
    """Above 0 over the outer edge, below 0 over the inner one."""
    pivot_heel: float = 0.0
    pivot_ball: float = 0.0
    pivot_toe: float = 0.0
    """Above 0 as toes turn outwards about the heel."""


@dataclass(frozen=True)
class Sole:
    """Where a foot touches the floor, in the axes of its bone at rest."""

    heel: Vector3
    """(3,) [m]."""
    ball: Vector3
    """Joint of the toes, (3,) [m]."""
    tip: Vector3
    """Tip of the toes, or of a foot without, (3,) [m]."""
    up: Vector3
    """Unit vector, (3,)."""
    out: Vector3
    """Towards the outer edge, (3,)."""
    has_toe: bool
    """Whether a bone bends at the ball; without it the foot rolls over its tip."""

    def __post_init__(self) -> None:
        for name in ("heel", "ball", "tip", "up", "out"):  # plain numbers: effectors are compared
            object.__setattr__(self, name, tuple(float(part) for part in getattr(self, name)))

    @property
    def height(self) -> float:
        """Height of the floor along `up`, which is that of the lowest point [m]."""
        return float(min(np.array([self.heel, self.ball, self.tip]) @ self.up))

    @property
    def length(self) -> float:
        """Length on the floor from heel to tip [m]."""
        return float(np.linalg.norm(self.on_floor(self.tip) - self.on_floor(self.heel)))

    def on_floor(self, point: Vector3) -> FloatArray:
        """Return the place on the floor below a point, (3,) [m]."""
        return np.array(point) + (self.height - np.dot(self.up, point)) * np.array(self.up)

    def motions(self, angles: FootAngles) -> tuple[FloatArray, FloatArray]:
        """Return how foot and toes move from where their target is, each (4, 4) in the foot's axes [m]."""
        if angles == FootAngles():  # as most feet are in most frames
            return np.eye(4), np.eye(4)
        points, axes, amounts = self._turns(angles)
        rotvecs = axes * amounts[:, None]
        matrices = np.zeros((len(points), 4, 4))
        matrices[:, :3, :3] = matrix_from_rotvec(rotvecs)
        matrices[:, :3, 3] = points - np.einsum("kxy,ky->kx", matrices[:, :3, :3], points)
        matrices[:, 3, 3] = 1.0
        toe = reduce(np.matmul, matrices[:-1])
        return toe @ matrices[-1], toe

    def _turns(self, angles: FootAngles) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return points on the axes of the seven turns, (7, 3) [m], the axes, (7, 3), and angles, (7,) [rad].

        They are in the order of the formula: three pivots, bank, over heel and tip, over the ball.
        """
        up = np.array(self.up)
        heel, ball, tip = (self.on_floor(point) for point in (self.heel, self.ball, self.tip))
        length = float(np.linalg.norm(tip - heel))
        forward = (tip - heel) / length
        left = np.cross(up, forward)
        outwards = 1.0 if left @ self.out >= 0.0 else -1.0
        over_ball = min(max(angles.roll, 0.0), BALL_ANGLE) if self.has_toe else 0.0
        side = np.sign(angles.bank) * outwards * left
        edge = max(0.5 * BREADTH * length, float(side @ (ball - heel))) * side
        turns = (
            (heel, outwards * up, angles.pivot_heel),
            (ball, outwards * up, angles.pivot_ball),
            (tip, outwards * up, angles.pivot_toe),
            (heel + edge, -outwards * forward, angles.bank),
            (heel, left, min(angles.roll, 0.0)),
            (tip, left, max(angles.roll, 0.0) - over_ball),
            (np.array(self.ball), left, over_ball),
        )
        points, axes, amounts = zip(*turns, strict=True)
        return np.stack(points), np.stack(axes), np.array(amounts)

    def rings(self, angles: FootAngles) -> dict[str, FloatArray]:
        """Return where each angle turns the foot, by its name: foot_from_ring, (4, 4), Z along the axis.

        Above 0 it turns about Z. The rings of roll and bank are about the ball, those of pivots about their
        own points on the floor. They go along with the pivots, but not with roll and bank: so a ring stays
        where it is while its angle changes.
        """
        pivoted, _ = self.motions(replace(angles, roll=0.0, bank=0.0))
        points, axes, _ = self._turns(angles)
        ball = np.array(self.ball)
        left, along = axes[6], axes[3]
        rings = {
            "roll": _ring(ball, left, along),
            "bank": _ring(ball, along, left),
            "pivot_heel": _ring(points[0], axes[0], along),
            "pivot_ball": _ring(points[1], axes[1], along),
            "pivot_toe": _ring(points[2], axes[2], along),
        }
        return {name: pivoted @ ring for name, ring in rings.items()}

    def touching(self, foot: FloatArray, toe: FloatArray) -> FloatArray:
        """Return where heel and ball of a foot and ball and tip of its toes are after motions, (4, 3) [m]."""
        heel, ball, tip = (np.append(self.on_floor(p), 1.0) for p in (self.heel, self.ball, self.tip))
        return np.stack([foot @ heel, foot @ ball, toe @ ball, toe @ tip])[:, :3]


def _ring(centre: FloatArray, axis: FloatArray, across: FloatArray) -> FloatArray:
    """Return the frame about a point (3,) with Z along an axis and X along another across it, (4, 4)."""
    matrix = np.eye(4)
    matrix[:3, :3] = np.stack([across, np.cross(axis, across), axis], axis=1)
    matrix[:3, 3] = centre
    return matrix

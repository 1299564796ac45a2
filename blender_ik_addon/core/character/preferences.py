# SPDX-License-Identifier: GPL-3.0-or-later
"""What joints prefer, from recorded motion: their stiffness, and their angles in a natural pose.

`recorded` has for each part of the body the mean of its turn and its deviations, in axes of the body
(`anatomy`), whatever pose a rig has at rest. Where a joint has its mean turn the angle of channel c turns the
bone about an axis e_c; the channel resists by

    k_c = V Σ_a (e_c · a)² / σ_a²,

σ_a the deviation about the axis a of the bone and V the variance of a loose joint: the precision of what is
recorded along the channel, with the others at rest. Of n joints that share the turn of a part each has an
n-th of its mean and of its variance, so that many of them give way as much as few.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from ..arrays import FloatArray, frozen
from ..model.rotation import euler_within, matrix_and_axes_from_euler, matrix_from_rotvec
from ..model.skeleton import Skeleton
from .anatomy import AnatomicalJoint, anatomical_joints
from .recorded import EASE, RECORDED, Turns
from .roles import Body, Character

LOOSE: Final = 20.0
"""Deviation [deg] from which on a joint is loose, k = 1: shoulders, hips, elbows and knees vary by more. With
a larger one all would resist more beside what pulls at them, and a motion would give way to it."""

LEVER: Final = 0.5
"""Part of a joint's lever in the resistance of a trunk or a neck [1]. Where the end of a chain is pushed
aside the joint that is farthest from it turns most; this makes up for some of that."""


def natural_pose(skeleton: Skeleton, character: Character) -> Mapping[int, FloatArray]:
    """Return the angles of people who stand at ease, by joint, (3,) each [rad].

    They are those of the skeleton's rotation orders, inside its limits: arms hang beside the body with the
    elbows a little bent, whatever the rest pose is. Joints of other figures, and those of parts that were not
    recorded, are left out.
    """
    found: dict[int, FloatArray] = {}
    for number, figure in enumerate(character.figures):
        if figure.body is Body.BIPED:
            for one in anatomical_joints(skeleton, character, number):
                if one.part in RECORDED:
                    joint = one.joint
                    order, limits = int(skeleton.orders[joint]), (skeleton.lower, skeleton.upper)
                    own = (limit[joint, 3:] for limit in limits)
                    angles = natural_angles(one, RECORDED[one.part], order, *own, share=EASE)
                    found[joint] = frozen(angles)
    return found


def natural_angles(
    one: AnatomicalJoint,
    turns: Turns,
    order: int,
    lower: FloatArray,
    upper: FloatArray,
    *,
    share: float = 1.0,
) -> FloatArray:
    """Angles of a joint with its mean turn, or a share of it, (3,) [rad].

    They are in an Euler order, and inside limits (3,) [rad].
    """
    mean = np.radians(turns.mean) * share / one.joints
    rotation = one.rotation(matrix_from_rotvec(mean))
    limited = np.isfinite(lower) & np.isfinite(upper)
    middle = 0.5 * (np.where(limited, lower, 0.0) + np.where(limited, upper, 0.0))
    return np.clip(euler_within(rotation, order, lower, upper, middle), lower, upper)


def recorded_stiffness(one: AnatomicalJoint, turns: Turns, order: int, angles: FloatArray) -> FloatArray:
    """Stiffness of a joint in an Euler order, (3,) in [0, 1), about some angles (3,) [rad]."""
    axes = one.joint_from_axes.T @ matrix_and_axes_from_euler(angles, order)[1]  # (3, channels)
    deviation = np.asarray(turns.deviation)
    resistance = one.joints * np.square(axes / deviation[:, None] * LOOSE).sum(axis=0)
    resistance *= 1.0 + LEVER * (one.lever - 1.0)
    return 1.0 - 1.0 / np.maximum(resistance, 1.0)

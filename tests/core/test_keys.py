# SPDX-License-Identifier: GPL-3.0-or-later
"""Bézier curves as Blender evaluates them, and the fewest keys that keep points of bones where they are."""

import functools

import numpy as np
import pytest

from blender_ik_addon.core import IKError, Pose, forward_kinematics
from blender_ik_addon.core.keys import BezierCurve, JointCurves, Reduction, reduce_keys
from blender_ik_addon.core.model.rotation import EULER_ORDERS, rotation_angle
from blender_ik_addon.core.model.skeleton import Skeleton

from . import builders

FRAMES = 41


def test_a_curve_with_handles_at_thirds_has_its_slopes_and_is_a_cubic():
    curve = BezierCurve.with_slopes([0.0, 3.0, 10.0], [0.0, 27.0, 1000.0], [0.0, 27.0, 300.0])
    times = np.linspace(0.0, 10.0, 41)
    np.testing.assert_allclose(curve.evaluate(times), times**3, atol=1e-9)
    np.testing.assert_allclose(curve.slopes, [0.0, 27.0, 300.0])
    np.testing.assert_allclose(curve.evaluate([-5.0, 12.0]), [0.0, 1000.0])


def test_times_of_keys_must_rise():
    with pytest.raises(IKError, match="must rise"):
        BezierCurve.with_slopes([1.0, 1.0], [0.0, 1.0], [0.0, 0.0])


def motion() -> tuple[Skeleton, Pose, list[JointCurves]]:
    """A chain that swings: some angles fast, some slowly, one not at all."""
    skeleton = builders.chain(4)
    times, frames = np.arange(2 * FRAMES - 1) / 2.0, np.arange(FRAMES)
    channels, curves = np.zeros((2 * FRAMES - 1, len(skeleton), 6)), list[JointCurves]()
    for joint in range(3):
        rate = 2.0 * np.pi * np.array([1.0, 0.6, 0.0]) * (1.0 + 0.3 * joint) / 40.0
        values = 0.4 * np.sin(np.outer(times, rate) + joint)
        slopes = 0.4 * rate * np.cos(np.outer(frames, rate) + joint)
        channels[:, joint, 3:] = values
        mode = EULER_ORDERS[int(skeleton.orders[joint])]
        curves.append(JointCurves(joint, mode, values, slopes, (True, True, True)))
    return skeleton, Pose.from_channels(channels), curves


@functools.cache
def reduced(distance: float = 1e-3, required: int | None = None) -> Reduction:
    skeleton, pose, curves = motion()
    steps = reduce_keys(
        skeleton,
        pose,
        curves,
        np.arange(FRAMES, dtype=np.float64),
        joints=[3],
        points=np.zeros((1, 3)),
        distance=distance,
        angle=float(np.radians(0.5)),
        required=np.arange(FRAMES) == required,
    )
    while True:
        try:
            assert 0.0 <= next(steps) <= 1.0
        except StopIteration as end:
            return end.value


def test_few_keys_keep_the_tip_within_the_tolerances_at_frames_and_between():
    found, (skeleton, pose, _) = reduced(), motion()
    channels = np.array(pose.channels)
    values = np.stack([curve.evaluate(np.arange(2 * FRAMES - 1) / 2.0) for curve in found.curves], axis=1)
    channels[:, :3, 3:] = values.reshape(len(values), 3, 3)
    meant, played = (
        forward_kinematics(skeleton, own).matrices[:, 3] for own in (pose, pose.with_channels(channels))
    )
    distances = np.linalg.norm(played[:, :3, 3] - meant[:, :3, 3], axis=1)
    angles = rotation_angle(np.swapaxes(meant[:, :3, :3], 1, 2) @ played[:, :3, :3])
    assert distances.max() <= 1e-3 and angles.max() <= np.radians(0.5)
    np.testing.assert_allclose(found.distances[:, 0], distances, atol=1e-9)
    assert 5 * found.keys < FRAMES * len(found.curves)


def test_a_constant_curve_has_one_key_and_a_smaller_tolerance_takes_more_keys():
    fine, coarse = reduced(1e-4), reduced(1e-2)
    assert [len(found.rows[column]) for found in (fine, coarse) for column in (2, 5, 8)] == [1] * 6
    assert coarse.keys < fine.keys


def test_turning_points_and_required_frames_have_keys_on_the_curve():
    found, (_, _, curves) = reduced(required=7), motion()
    swing = np.array(curves[0].values[::2, 0])
    turns = np.flatnonzero((np.diff(np.sign(np.diff(swing)))) != 0) + 1
    assert set(turns.tolist()) <= set(found.rows[0].tolist())
    for column in (0, 1, 3, 4, 6, 7):
        row = found.rows[column].tolist().index(7)
        assert found.curves[column].keys[row, 1] == curves[column // 3].values[14, column % 3]


@pytest.mark.parametrize("distance", [0.0, -1.0, np.nan])
def test_a_tolerance_that_is_not_above_0_is_refused(distance: float):
    with pytest.raises(IKError, match="distance"):
        reduced(distance)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The example that corrects a recorded clip in plain Python does what it says."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from blender_ik_addon.core import Pose, forward_kinematics
from blender_ik_addon.core.io import Clip, read_bvh, write_bvh
from examples import foot_lock
from tests.core.builders import humanoid


def test_sliding_feet_are_locked_and_a_hand_is_led_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    skeleton, frames = humanoid(), 25
    channels = np.zeros((frames, len(skeleton), 6))
    channels[:, 0, 0] = np.linspace(0.0, 0.1, frames)  # all of the body slides
    channels[:, 0, 2] = -0.05
    for side in ".L", ".R":
        channels[:, skeleton.index("thigh" + side), 3] = -0.3
        channels[:, skeleton.index("shin" + side), 3] = 0.6
        channels[:, skeleton.index("foot" + side), 3] = -0.3
    clip = Clip(skeleton, Pose.from_channels(channels), 1 / 15)
    write_bvh(tmp_path / "clip.bvh", clip, scale=0.01)
    arguments = ["--scale", "0.01", "--hand", "0", "-0.05", "0.1", "--at", str(12 / 15)]
    assert foot_lock.main([str(tmp_path / "clip.bvh"), str(tmp_path / "out.bvh"), *arguments]) == 0
    assert "25 frames written" in capsys.readouterr().out
    found = read_bvh(tmp_path / "out.bvh", scale=0.01)
    before, after = (forward_kinematics(c.skeleton, c.pose) for c in (clip, found))
    for foot in "foot.L", "toe.L", "foot.R", "toe.R":
        assert np.ptp(before.point(foot), axis=0).max() > 0.09
        assert np.ptp(after.point(foot), axis=0).max() < 1e-4
    assert_allclose(after.point("hand.R")[12] - before.point("hand.R")[12], [0, -0.05, 0.1], atol=1e-4)
    outside = np.abs(clip.times - 12 / 15) > foot_lock.EASE
    assert_allclose(after.point("hand.R")[outside], before.point("hand.R")[outside], atol=1e-4)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The moving part of a skeleton: the same places and twists whichever way they are computed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from blender_ik_addon.core import Pose
from blender_ik_addon.core.model.mechanism import FEW, Mechanism
from tests.core.builders import random_pose, tree

FRAMES = 4 * FEW


def mechanism(*, same: bool, hinges: bool) -> tuple[Mechanism, Pose]:
    """A tree of which some channels are fixed, at values that are the same in all frames or are not."""
    rng = np.random.default_rng(2)
    skeleton = tree(rng, 14, deep=True, inherit_rotation=rng.random(14) < 0.7 if hinges else None)
    pose = random_pose(rng, skeleton, angle=1.0, offset=0.3, frames=(FRAMES,))
    channels = np.array(pose.channels)
    if same:
        channels = np.where(skeleton.free, channels, channels[:1])
    pose = Pose.from_channels(channels)
    return Mechanism(skeleton, pose, range(len(skeleton))), pose


@pytest.mark.parametrize("hinges", [False, True])
@pytest.mark.parametrize("same", [True, False])
def test_frames_are_placed_alike_alone_and_together(same: bool, hinges: bool) -> None:
    moving, pose = mechanism(same=same, hinges=hinges)
    values = moving.values(pose)
    together = moving.place(values)
    for frame in range(FRAMES):
        some = moving.select(np.array([frame]))
        alone = some.place(values[frame : frame + 1])
        assert_allclose(alone.matrices[0], together.matrices[frame], atol=1e-13)
        assert_allclose(alone.twists[0], together.twists[frame], atol=1e-13)

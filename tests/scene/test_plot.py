# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures of the core, where there is matplotlib: what is drawn where, and what is written."""

import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d import Axes3D, proj3d
from numpy.testing import assert_allclose
from PIL import Image

from blender_ik_addon.core import IKError, Pose, Problem, ReachPoint, forward_kinematics
from blender_ik_addon.core.plot import animate, plot_pose
from tests.core.builders import chain, humanoid, tip


def pixels(axes: Axes3D, places: np.ndarray) -> np.ndarray:
    """Where places (k, 3) are in the picture, from its left and upper border."""
    x, y, _ = proj3d.proj_transform(places[:, 0], places[:, 1], places[:, 2], axes.get_proj())
    found = axes.transData.transform(np.column_stack([x, y]))
    return np.column_stack([found[:, 0], axes.figure.bbox.height - found[:, 1]])


def test_bones_and_targets_are_drawn_where_they_are(tmp_path: Path):
    skeleton = humanoid()
    target = np.array([1.2, -0.3, 1.8])
    problem = Problem(skeleton, ReachPoint("hand.L", target))
    axes = plot_pose(skeleton, Pose.rest(skeleton), problem=problem)
    axes.figure.savefig(tmp_path / "pose.png", dpi=axes.figure.dpi)
    picture = np.asarray(Image.open(tmp_path / "pose.png").convert("RGB")).astype(int)
    posed = forward_kinematics(skeleton, Pose.rest(skeleton))
    thigh = 0.5 * (posed.point("thigh.L") + posed.point("shin.L"))
    on, off, red = (
        pixels(axes, np.stack([thigh, thigh + np.array([0.0, 0.0, 1.6]), target])).round().astype(int)
    )

    def darkest(at: np.ndarray) -> np.ndarray:
        part = picture[at[1] - 2 : at[1] + 3, at[0] - 2 : at[0] + 3].reshape(-1, 3)
        return part[part.sum(axis=1).argmin()]

    assert darkest(on).max() < 90
    assert darkest(off).min() > 150
    assert darkest(red)[0] > darkest(red)[1] + 60


def test_up_is_upwards_and_scales_are_equal():
    skeleton = chain(3, up="Y")
    axes = plot_pose(skeleton, Pose.rest(skeleton), ends=np.tile(tip(), (3, 1)))
    segments = np.array(axes.collections[0]._segments3d)
    assert_allclose(segments[:, 1] - segments[:, 0], np.tile([0.0, 0.0, 1.0], (5, 1)), atol=1e-12)
    spans = [np.ptp(limits) for limits in (axes.get_xlim(), axes.get_ylim(), axes.get_zlim())]
    assert_allclose(spans, spans[0])
    mine = Figure().add_subplot(projection="3d")
    assert plot_pose(skeleton, Pose.rest(skeleton), axes=mine) is mine


@pytest.mark.parametrize("name", ["way.gif", "way.html"])
def test_an_animation_has_each_frame(name: str, tmp_path: Path):
    skeleton = chain(3)
    way = np.linspace([0.0, 2.0, 0.0], [1.0, 1.0, 0.0], 4)
    way[2] = np.nan
    channels = np.zeros((4, 3, 6))
    channels[:, 0, 5] = [0.0, 0.3, 0.6, 0.9]
    problem = Problem(skeleton, ReachPoint("joint.2", way))
    animate(tmp_path / name, skeleton, Pose.from_channels(channels), frame_time=0.1, problem=problem)
    if name.endswith(".gif"):
        with Image.open(tmp_path / name) as found:
            assert (found.n_frames, found.info["duration"]) == (4, 100)  # pyright: ignore[reportAttributeAccessIssue]
    else:
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert len(re.findall(r"frames\[\d\] = ", text)) == 4 and "data:image/png;base64" in text
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_what_cannot_be_drawn_is_refused(tmp_path: Path):
    skeleton = chain(2)
    rest, many = Pose.rest(skeleton), Pose.rest(skeleton, 3)
    moving = Problem(skeleton, ReachPoint("joint.1", np.zeros((2, 3))))
    for call, told in (
        (lambda: plot_pose(skeleton, many), r"draws one pose, got leading axes \(3,\): see animate"),
        (lambda: plot_pose(skeleton, rest, problem=moving), "draws the targets of one frame, got 2"),
        (lambda: plot_pose(chain(3), rest), "the pose has 2 joints, the skeleton 3"),
        (lambda: plot_pose(skeleton, rest, ends=[0, 1, 0]), r"ends are one for each joint, \(2, 3\)"),
        (lambda: plot_pose(skeleton, rest, axes=Figure().add_subplot()), 'made with projection="3d"'),
        (lambda: animate(tmp_path / "a.mp4", skeleton, many), "written as .gif or .html, got 'a.mp4'"),
        (lambda: animate(tmp_path / "a.gif", skeleton, rest), "a motion has one leading axis"),
        (lambda: animate(tmp_path / "a.gif", skeleton, many, problem=moving), "have 2 frames, the motion 3"),
        (lambda: animate(tmp_path / "no" / "a.gif", skeleton, many), "cannot be written: No such file"),
    ):
        with pytest.raises(IKError, match=told):
            call()

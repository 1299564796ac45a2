# SPDX-License-Identifier: GPL-3.0-or-later
"""BVH files: what is read, that it is written as it was read, and what is said of bad ones."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from blender_ik_addon.core import IKError, Pose, forward_kinematics
from blender_ik_addon.core.io import Clip, read_bvh, write_bvh
from tests.core.builders import humanoid, random_pose, tree
from tests.core.strategies import rotation_about

FILE = """HIERARCHY
ROOT Hips
{
  OFFSET 1 2.5 -3
  CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation
  JOINT Left Arm
  {
    OFFSET 10 0 0.25
    CHANNELS 3 Yrotation Zrotation Xrotation
    End Site
    {
      OFFSET 5 0 0
    }
  }
  JOINT Leg
  {
    OFFSET 0 -8 0
    CHANNELS 1 Xrotation
    JOINT Leg {
      OFFSET 0 -7 0
      CHANNELS 0
    }
  }
}
MOTION
Frames: 2
Frame Time: 0.04
1 2.5 -3 0 0 0 0 0 0 0
1 3.5 -3 90 10 200.5 30 40 50 -60
"""


def written(tmp_path: Path, text: str, name: str = "clip.bvh") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def same(first: Clip, second: Clip, within: float) -> None:
    assert first.skeleton.names == second.skeleton.names
    assert_array_equal(first.skeleton.parents, second.skeleton.parents)
    assert_array_equal(first.skeleton.orders, second.skeleton.orders)
    for a, b in (
        (first.skeleton.rest, second.skeleton.rest),
        (first.pose.channels, second.pose.channels),
        (first.ends, second.ends),
    ):
        assert_allclose(a, b, rtol=0.0, atol=within)
    assert first.frame_time == second.frame_time


@pytest.mark.parametrize("breaks", ["\n", "\r\n", "\r"])
def test_angles_are_multiplied_in_the_order_of_the_file_and_places_replace_offsets(
    tmp_path: Path, breaks: str
) -> None:
    clip = read_bvh(written(tmp_path, FILE.replace("\n", breaks)), scale=0.01)
    assert clip.skeleton.names == ("Hips", "Left Arm", "Leg", "Leg.001")
    assert clip.skeleton.parents.tolist() == [-1, 0, 0, 2]
    assert_array_equal(clip.skeleton.up, [0, 1, 0])
    assert_array_equal(clip.skeleton.free.sum(axis=1), [6, 3, 1, 0])
    assert_allclose(clip.times, [0.0, 0.04])
    assert_allclose(clip.tails * 100, [[6, -1.5, -2.875], [16, 2.5, -2.75], [1, -12.5, -3], [1, -12.5, -3]])
    posed = forward_kinematics(clip.skeleton, clip.pose)
    assert_allclose(posed.point("Left Arm")[0], [0.11, 0.025, -0.0275])
    turns = [rotation_about(np.eye(3)[axis], np.radians(a)) for axis, a in ((2, 90), (0, 10), (1, 200.5))]
    hips = turns[0] @ turns[1] @ turns[2]
    assert_allclose(posed.matrices[1, 0, :3, :3], hips, atol=1e-12)
    assert_allclose(posed.point("Left Arm")[1], np.array([1, 3.5, -3]) / 100 + hips @ [0.1, 0, 0.0025])
    own = [rotation_about(np.eye(3)[axis], np.radians(a)) for axis, a in ((1, 30), (2, 40), (0, 50))]
    assert_allclose(posed.matrices[1, 1, :3, :3], hips @ own[0] @ own[1] @ own[2], atol=1e-12)


def test_angles_can_go_on_beyond_a_turn() -> None:
    skeleton = humanoid()
    turning = np.zeros((20, len(skeleton), 6))
    turning[:, 0, 5] = np.linspace(3.0, 5.0, 20)
    wrapped = np.where(turning > np.pi, turning - 2 * np.pi, turning)
    clip = Clip(skeleton, Pose.from_channels(wrapped), 0.1)
    assert np.abs(np.diff(clip.pose.channels, axis=0)).max() > 6.0
    assert_allclose(clip.continuous().pose.channels, turning, atol=1e-12)


@pytest.mark.parametrize("digits", [3, 6])
def test_what_was_read_is_written_to_the_last_digit(tmp_path: Path, digits: int) -> None:
    first = read_bvh(written(tmp_path, FILE), scale=0.01)
    for number, scale in ((1, 0.01), (2, 2.54)):
        path = tmp_path / f"{number}.bvh"
        write_bvh(path, first, scale=scale, digits=digits)
        again = read_bvh(path, scale=scale)
        same(first, again, max(scale, np.radians(1.0)) * 0.501 * 10.0**-digits)
        write_bvh(tmp_path / "again.bvh", again, scale=scale, digits=digits)
        assert (tmp_path / "again.bvh").read_text() == path.read_text()


def test_joints_turned_at_rest_are_written_in_axes_of_the_armature(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    for skeleton in (humanoid(), tree(rng, 9, roots=2, settings=True, deep=True)):
        skeleton = replace(skeleton, inherit_scale=np.zeros(len(skeleton), dtype=np.int64))
        clip = Clip(skeleton, random_pose(rng, skeleton, angle=0.5, frames=(3,)), 0.1)
        write_bvh(tmp_path / "clip.bvh", clip, digits=9)
        again = read_bvh(tmp_path / "clip.bvh")
        then = [again.skeleton.index(name) for name in skeleton.names]
        places = [
            forward_kinematics(a.skeleton, a.pose).matrices[:, joints, :3, 3]
            for a, joints in ((clip, range(len(skeleton))), (again, then))
        ]
        assert_allclose(places[0], places[1], atol=1e-8)


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("HIERARCHY", "solid", 1, "HIERARCHY, with which a BVH file begins, got 'solid'"),
        ("ROOT Hips", "JOINT Hips", 2, "ROOT with a name, got 'JOINT Hips'"),
        ("ROOT Hips", "ROOT", 2, "ROOT with a name, got 'ROOT'"),
        ("OFFSET 1 2.5 -3", "OFSET 1 2.5 -3", 4, "OFFSET and three numbers, got 'OFSET 1 2.5 -3'"),
        ("OFFSET 10 0 0.25", "OFFSET 10 0", 8, "three numbers behind OFFSET, got '10 0'"),
        ("CHANNELS 3 Y", "CHANNELS 2 Y", 9, "CHANNELS, their number and as many names"),
        (
            "Yrotation Zrotation Xrotation",
            "Yrotation Zrotation Wrotation",
            9,
            "Xposition to Zrotation, got 'W",
        ),
        ("Yrotation Zrotation Xrotation", "Yrotation Zrotation Yrotation", 9, "each channel once in a joint"),
        ("Frames: 2", "Frames: none", 26, "Frames: and a whole number from 1, got 'Frames: none'"),
        ("Time: 0.04", "Time: 0", 27, "Frame Time: and seconds above 0"),
        ("90 10 200.5", "90 nan 200.5", 29, "finite numbers, got 'nan'"),
        ("90 10 200.5", "90 10", 29, "10 numbers, one for each channel, got '9 of them'"),
    ],
)
def test_bad_files_are_refused_with_the_line_and_what_was_expected(
    tmp_path: Path, old: str, new: str, line: int, expected: str
) -> None:
    path = written(tmp_path, FILE.replace(old, new, 1))
    with pytest.raises(IKError) as error:
        read_bvh(path)
    message = str(error.value)
    assert message.startswith(f"{path}, line {line}: expected ") and expected in message


def test_files_that_end_too_soon_are_refused(tmp_path: Path) -> None:
    with pytest.raises(IKError, match=r"expected 3 frames .*, got 2"):
        read_bvh(written(tmp_path, FILE.replace("Frames: 2", "Frames: 3")))
    with pytest.raises(IKError, match="ends at line 13; expected"):
        read_bvh(written(tmp_path, FILE[: FILE.index("    }\n")]))
    with pytest.raises(IKError, match=r"missing\.bvh cannot be read"):
        read_bvh(tmp_path / "missing.bvh")
    path = tmp_path / "picture.bvh"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(IKError, match="line 1: expected HIERARCHY"):
        read_bvh(path)


def test_what_bvh_cannot_say_is_not_written(tmp_path: Path) -> None:
    clip = read_bvh(written(tmp_path, FILE))
    scaled = Pose(clip.pose.channels, 1.5 * clip.pose.scale)
    with pytest.raises(IKError, match="BVH has no scale, and 'Hips' is scaled"):
        write_bvh(tmp_path / "no.bvh", replace(clip, pose=scaled))
    renamed = replace(clip.skeleton, names=("Hips", "Arm{", "Leg", "Foot"))
    with pytest.raises(IKError, match=r"'Arm\{' cannot be written"):
        write_bvh(tmp_path / "no.bvh", replace(clip, skeleton=renamed))
    assert not (tmp_path / "no.bvh").exists()


def test_recorded_clips_are_written_as_they_were_read(tmp_path: Path, data_folder: Path) -> None:
    for name in (
        "makehuman_cc0/walk1",
        "deepmimic_pybullet/humanoid3d_kick",
        "cmu_makehuman_history/cmu_10_01_daz",
    ):
        first = read_bvh(data_folder / "bvh" / f"{name}.bvh")
        write_bvh(tmp_path / "clip.bvh", first)
        same(first, read_bvh(tmp_path / "clip.bvh"), 0.6e-6)

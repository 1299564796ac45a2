# SPDX-License-Identifier: GPL-3.0-or-later
"""glTF files: what is read, in which form they come, and what is said of bad ones."""

import contextlib
import copy
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from blender_ik_addon.core import IKError, Pose, Problem, ReachPoint, forward_kinematics, solve
from blender_ik_addon.core.io import Clip, read_gltf

from .gltf_files import RATE, leg, packed_file, written


def placed(clip: Clip, joint: str) -> Any:
    return forward_kinematics(clip.skeleton, clip.pose).point(joint)


def test_joints_are_where_their_nodes_are(tmp_path: Path) -> None:
    clip = read_gltf(written(tmp_path / "leg.gltf"), animation="kick", frame_rate=RATE)
    assert clip.skeleton.names == ("Rig", "thigh", "shin", "foot")
    assert_array_equal(clip.skeleton.up, [0.0, 1.0, 0.0])
    assert_array_equal(clip.skeleton.free.sum(axis=1), [0, 6, 3, 3])
    assert len(clip.pose) == 6 and clip.frame_time == 1.0 / RATE
    # The rig turns x to -z and z to x, and doubles.
    assert_allclose(
        placed(clip, "thigh")[[0, 2, 5]], [[0, 2, 0], [0, 2.2, -0.6], [0.4, 1.8, -1.0]], atol=1e-7
    )
    assert_allclose(placed(clip, "shin")[0], [0.2, 1.0, 0.0], atol=1e-7)
    # Half of the way along each: the thigh is turned by 45 degrees about x, its scale waits for its key.
    assert_allclose(placed(clip, "thigh")[1], [0.0, 2.1, -0.3], atol=1e-7)
    half = np.sqrt(0.5)
    down, ahead = -0.5 * half - 0.1 * half, -0.5 * half + 0.1 * half
    assert_allclose(placed(clip, "shin")[1], [2 * ahead, 2.1 + 2 * down, -0.3], atol=1e-6)
    assert_array_equal(clip.pose.scale[:, 1, 0], [1, 1, 1.5, 1.5, 1.5, 1])


def test_a_skeleton_that_was_read_can_be_solved(tmp_path: Path) -> None:
    clip = read_gltf(written(tmp_path / "leg.gltf"))
    rest = Pose(np.zeros_like(clip.pose.channels[0]), clip.pose.scale[0])
    solution = solve(Problem(clip.skeleton, ReachPoint("foot", [0.3, 1.2, 0.4])), rest)
    assert solution.reached, solution


def test_binary_files_and_files_beside_say_the_same(tmp_path: Path) -> None:
    first = read_gltf(written(tmp_path / "leg.gltf"))
    packed = read_gltf(packed_file(tmp_path / "leg.glb", leg()))
    document = leg()
    content = (tmp_path / "leg.glb").read_bytes()
    (tmp_path / "leg data.bin").write_bytes(content[-document["buffers"][0]["byteLength"] :])
    document["buffers"][0]["uri"] = "leg%20data.bin"
    (tmp_path / "beside.gltf").write_text(json.dumps(document), encoding="utf-8")
    for other in (packed, read_gltf(tmp_path / "beside.gltf")):
        assert_array_equal(first.pose.channels, other.pose.channels)
        assert_array_equal(first.skeleton.rest, other.skeleton.rest)


def test_matrices_whole_numbers_and_files_without_skins_or_animations(tmp_path: Path) -> None:
    document = leg()
    plain = read_gltf(written(tmp_path / "leg.gltf")).skeleton
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = plain.rest[2, :3, :3] * [1.0, 2.0, 3.0], plain.rest[2, :3, 3]
    node = document["nodes"][2]
    del node["rotation"], node["translation"]
    node["matrix"] = matrix.T.ravel().tolist()
    del document["skins"], document["animations"]
    del document["nodes"][3]["name"]
    document["nodes"][1]["name"] = "shin"
    (tmp_path / "plain.gltf").write_text(json.dumps(document), encoding="utf-8")
    clip = read_gltf(tmp_path / "plain.gltf")
    assert clip.skeleton.names == ("Rig", "shin", "shin.001", "node.3")
    assert_allclose(clip.skeleton.rest[2], plain.rest[2], atol=1e-12)
    assert_allclose(clip.pose.scale[0, 2], [1.0, 2.0, 3.0])
    assert len(clip.pose) == 1 and not clip.pose.channels.any()


def changed(tmp_path: Path, change: Any) -> str:
    """What is said of the leg after a change."""
    document = leg()
    change(document)
    (tmp_path / "bad.gltf").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(IKError) as error:
        read_gltf(tmp_path / "bad.gltf")
    message = str(error.value)
    assert message.startswith(f"{tmp_path / 'bad.gltf'}: ")
    return message


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        (("asset", "version"), "1.0", "asset.version: expected glTF 2.0, got '1.0'"),
        (("nodes", 1, "children"), [9], "nodes[1].children: there are 4 nodes, and none is 9"),
        (("nodes", 3, "children"), [1], "is a child of nodes[0] and nodes[3]"),
        (("nodes", 3, "children"), [0], "is below itself"),
        (("nodes", 2, "translation"), [0, 1], "nodes[2].translation: expected 3 numbers"),
        (("nodes", 2, "rotation"), [0, 0, 0, 0], "nodes[2].rotation: is zero"),
        (("nodes", 2, "matrix"), [0.0] * 16, "nodes[2].matrix: shears or collapses"),
        (("skins", 0, "joints"), [7], "skins.joints: there are 4 nodes, and none is 7"),
        (("animations", 0, "channels", 0, "sampler"), 9, "this is not as glTF 2.0 says (IndexError"),
        (("animations", 0, "samplers", 0, "interpolation"), "SMOOTH", "no interpolation 'SMOOTH'"),
        (
            ("animations", 0, "samplers", 0, "output"),
            2,
            "accessors[2]: expected elements of 4 numbers, got VEC3",
        ),
        (("accessors", 0, "count"), 10**6, "accessors[0]: reaches beyond its buffer of"),
        (("accessors", 0, "count"), 2, "expected rising times and a value for each, got 2, 3"),
        (("buffers", 0, "uri"), "nowhere.bin", "buffers[0].uri: nowhere.bin cannot be read"),
        (("buffers", 0, "uri"), "https://poise.invalid/a", "only files beside this one are read"),
        (("buffers", 0, "uri"), "data:;base64,%%", "buffers[0].uri: this is not base64"),
        (("bufferViews", 0, "extensions"), {"EXT_meshopt_compression": {}}, "without compression"),
    ],
)
def test_bad_files_are_refused_with_the_place(
    tmp_path: Path, place: tuple[Any, ...], value: Any, told: str
) -> None:
    def change(document: Any) -> None:
        for key in place[:-1]:
            document = document[key]
        document[place[-1]] = value

    assert told in changed(tmp_path, change)


def test_animations_that_there_are_not_are_refused_with_those_that_there_are(tmp_path: Path) -> None:
    path = written(tmp_path / "leg.gltf")
    for animation in ("jump", 1, -1):
        with pytest.raises(IKError, match=r"there is no animation .*; there are 'kick'"):
            read_gltf(path, animation=animation)
    with pytest.raises(IKError, match="cannot be read: No such file"):
        read_gltf(tmp_path / "none.glb")
    packed = packed_file(tmp_path / "leg.glb", leg())
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(IKError, match="ends in the middle of a chunk"):
        read_gltf(packed)


def test_whatever_is_wrong_is_an_error_in_words(tmp_path: Path) -> None:
    """Values of one place after the other are replaced by others."""
    random.seed(3)
    others = [None, -1, 3, 1.5, "x", [], {}, [1], True, 10**30]

    def places(value: Any, above: tuple[Any, ...] = ()) -> Any:
        items = (
            value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
        )
        for key, each in items:
            yield (*above, key)
            yield from places(each, (*above, key))

    path = tmp_path / "bad.gltf"
    read = 0
    whole = leg()
    for place in places(whole):
        document = copy.deepcopy(whole)
        inner: Any = document
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = random.choice(others)
        path.write_text(json.dumps(document), encoding="utf-8")
        with contextlib.suppress(IKError):
            read += len(read_gltf(path).skeleton) > 0
    assert read  # names, sizes and the like may be anything

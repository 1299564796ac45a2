# SPDX-License-Identifier: GPL-3.0-or-later
"""glTF files: joints are where Blender's own importer puts the heads of bones, at each key."""

from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from numpy.testing import assert_allclose

from blender_ik_addon.core import forward_kinematics
from blender_ik_addon.core.io import Clip, read_gltf
from tests.core.gltf_files import RATE, written

WITHIN = 1e-5
"""Of the size of a figure [1], which Blender holds in single precision."""


def imported(path: Path) -> Any:
    """The armature that Blender makes of a file."""
    before = set(bpy.data.objects)
    assert bpy.ops.import_scene.gltf(filepath=str(path)) == {'FINISHED'}
    (armature,) = [each for each in set(bpy.data.objects) - before if each.type == 'ARMATURE']
    return armature


def compare(path: Path, clip: Clip, frames: list[int]) -> int:
    """How many bones are where the joints of their names are, in some frames of the clip."""
    armature = imported(path)
    names = [name for name in clip.skeleton.names if name in armature.pose.bones]
    joints = [clip.skeleton.index(name) for name in names]
    places = forward_kinematics(clip.skeleton, clip.pose).matrices[:, joints][..., :3, 3]
    places = places[..., [0, 2, 1]] * [1.0, -1.0, 1.0]  # in Blender z is up
    size = np.ptp(places[0], axis=0).max()
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        seen = [armature.matrix_world @ armature.pose.bones[name].head for name in names]
        assert_allclose(np.array(seen), places[frame], rtol=0.0, atol=WITHIN * size, err_msg=f"frame {frame}")
    return len(names)


def test_joints_are_where_blender_has_them_at_each_key(tmp_path: Path):
    assert bpy.context.scene.render.fps == RATE
    path = written(tmp_path / "leg.gltf")
    assert compare(path, read_gltf(path, frame_rate=RATE), [0, 2, 5]) == 3


@pytest.mark.parametrize(
    ("name", "frames"),
    [
        ("assimp_bsd/quad_skin.glb", [0]),
        ("kaykit_cc0/Med_General.glb", [0, 7, 25]),
        ("mesh2motion_cc0/animations/shark-animations.glb", [0, 10, 90]),
        ("mesh2motion_cc0/animations/human-base-animations_91abd9b.glb", [0, 15, 60]),
        ("mesh2motion_cc0/rigs/rig-human.glb", [0]),
        ("webxr_hand_mit/left.glb", [0]),
    ],
)
def test_files_by_others_are_read_as_blender_reads_them(name: str, frames: list[int], data_folder: Path):
    bpy.context.scene.render.fps = 30  # as their keys
    path = data_folder / "rigs" / name
    assert compare(path, read_gltf(path, frame_rate=30.0), frames) >= 10

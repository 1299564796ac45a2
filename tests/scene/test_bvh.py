# SPDX-License-Identifier: GPL-3.0-or-later
"""Clips that the core reads are what Blender's own importer makes of the same file."""

from pathlib import Path
from typing import Any

import bpy
import numpy as np
from numpy.testing import assert_allclose

from blender_ik_addon.core import forward_kinematics
from blender_ik_addon.core.io import Clip, read_bvh, write_bvh
from tests.core.builders import humanoid, random_pose

SINGLE_PRECISION = 5e-5
"""[m, 1] Of places and turns: the importer turns each joint's angles into a matrix and back."""


def test_joints_are_where_blender_has_them(tmp_path: Path, rng: np.random.Generator) -> None:
    skeleton = humanoid(orders=[("XYZ", "ZXY", "YZX", "ZYX")[i % 4] for i in range(21)], up="Y")
    path = tmp_path / "clip.bvh"
    write_bvh(path, Clip(skeleton, random_pose(rng, skeleton, angle=1.2, frames=(3,), only_free=True), 0.04))
    clip = read_bvh(path, scale=0.5)
    posed = forward_kinematics(clip.skeleton, clip.pose).matrices
    bpy.ops.import_anim.bvh(filepath=str(path), global_scale=0.5)
    rig: Any = bpy.context.object
    z_up = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]])
    assert [bone.name for bone in rig.data.bones] == list(clip.skeleton.names)
    for frame in range(3):
        bpy.context.scene.frame_set(1 + frame)
        for joint, bone in enumerate(rig.pose.bones):
            assert_allclose(bone.head, z_up @ posed[frame, joint, :3, 3], atol=SINGLE_PRECISION)
            turn = np.array((bone.matrix @ bone.bone.matrix_local.inverted()).to_3x3())
            assert_allclose(turn, z_up @ posed[frame, joint, :3, :3] @ z_up.T, atol=SINGLE_PRECISION)

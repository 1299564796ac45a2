# SPDX-License-Identifier: GPL-3.0-or-later
"""The diagnosis of a pose: what it says of a figure, where it is shown, and that it changes nothing else."""

from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.core import IKError
from blender_ik_addon.scene import posing
from blender_ik_addon.ui import panels

from . import builders
from .records import pose_record


def arm(*, location: tuple[float, float, float] = (0.0, 0.0, 0.0), turn: float = 0.0) -> Any:
    """Three straight bones of 0.3 m that rise from their root, which stays; the tip of the last follows."""
    armature = builders.chain(3, 0.3, name="arm")
    armature.location, armature.rotation_euler = location, (0.0, turn, 0.0)
    armature.poise.move_root = False
    bpy.context.view_layer.update()
    posing.add_effector(armature, "bone.002", kind='POSITION')
    armature.poise.effectors[0].point = (0.0, 0.3, 0.0)
    bpy.context.view_layer.update()
    return armature


def along(armature: Any) -> np.ndarray:
    """Where the first bone points, in world space."""
    bone = armature.pose.bones["bone.000"]
    axis = np.array(armature.matrix_world)[:3, :3] @ np.array(bone.matrix)[:3, 1]
    return axis / np.linalg.norm(axis)


def test_a_straight_arm_is_said_to_be_straight_along_world_axes():
    armature = arm(location=(1.0, 2.0, 3.0), turn=0.5)
    found = posing.diagnose(armature)
    (level,) = found.levels
    assert (level.rows, level.rank) == (3, 2)
    (lost,) = level.lost
    assert abs(lost.direction @ along(armature)) == pytest.approx(1.0, abs=1e-6)
    assert lost.joint == "bone.000" and not lost.angular
    x, y, z = lost.direction
    text = f"bone.002 cannot be moved along ({x:.2f}, {y:.2f}, {z:.2f}), its limb is straight from bone.000"
    assert found.lines[-1].replace("-0.00", "0.00") == text.replace("-0.00", "0.00")


def test_lines_are_shown_with_their_frame_and_nothing_else_changes():
    armature = arm()
    bpy.context.scene.frame_set(7)
    before = pose_record(armature)
    found = posing.diagnose(armature)
    assert armature.poise.diagnosis.split("\n") == ["Frame 7", *found.lines]
    assert pose_record(armature) == before
    assert armature.poise.last_message == ""


def test_the_operator_says_what_the_function_says():
    armature = arm()
    lines = posing.diagnose(armature).lines
    armature.poise.diagnosis = ""
    assert bpy.ops.poise.diagnose() == {'FINISHED'}
    assert tuple(armature.poise.diagnosis.split("\n")[1:]) == lines
    assert bpy.types.POISE_PT_diagnosis.bl_parent_id == panels.POISE_PT_advanced.__name__


def test_what_cannot_be_diagnosed_is_refused():
    armature = builders.chain(2, 0.3, name="bare")
    assert not bpy.ops.poise.diagnose.poll()
    posing.add_effector(armature, "bone.001", make_target=False)
    with pytest.raises(IKError, match="target"):
        posing.diagnose(armature)
    with pytest.raises(RuntimeError, match="target"):
        bpy.ops.poise.diagnose()
    assert armature.poise.diagnosis == ""

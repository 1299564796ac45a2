# SPDX-License-Identifier: GPL-3.0-or-later
"""Pins for selected bones and targets: what the pie menu adds to the operators."""

import bpy
import pytest

from blender_ik_addon.scene import posing

from .records import pose_mode


def pins(armature: bpy.types.Object) -> dict[str, bool]:
    """Which effectors are pinned, by name."""
    return {effector.name: effector.pinned for effector in armature.poise.effectors}


def test_selected_bones_are_pinned_and_let_go_again(armature: bpy.types.Object):
    posing.add_effector(armature, "hand.L")
    pose_mode(armature, "hand.L", "foot.R")
    assert bpy.ops.poise.pin_bones() == {'FINISHED'}
    assert pins(armature) == {"hand.L": True, "foot.R": True}
    added = armature.poise.effectors["foot.R"]
    assert added.target is None  # a pin needs none
    assert bpy.ops.poise.pin_bones() == {'FINISHED'}
    assert pins(armature) == {"hand.L": False}  # the other was there for its pin alone
    assert posing.solve_pose(armature).reached


def test_letting_a_bone_go_leaves_the_list_as_it_was_before_the_pin(armature: bpy.types.Object):
    posing.add_effector(armature, "hand.L")
    armature.poise.active_effector = 0
    before = pins(armature)
    for selected in (("foot.R",), ("hand.L", "foot.L", "foot.R"), ("head", "hand.L")):
        pose_mode(armature, *selected)
        bpy.ops.poise.pin_bones()
        assert all(pins(armature)[name] for name in selected)
        armature.poise.active_effector = len(armature.poise.effectors) - 1
        bpy.ops.poise.pin_bones()
        assert pins(armature) == before
        assert armature.poise.active_effector == 0
        assert posing.solve_pose(armature).reached


def test_the_button_unpin_gives_an_effector_the_target_that_it_lacks(armature: bpy.types.Object):
    pose_mode(armature, "foot.R")
    bpy.ops.poise.pin_bones()
    bpy.ops.poise.pin(action='UNPIN')
    assert pins(armature) == {"foot.R": False}
    assert armature.poise.effectors[0].target is not None
    assert posing.solve_pose(armature).reached


def test_where_some_are_held_the_others_are_held_as_well(armature: bpy.types.Object):
    for bone in ("hand.L", "hand.R"):
        posing.add_effector(armature, bone)
    posing.pin(armature, 0)
    pose_mode(armature, "hand.L", "hand.R")
    bpy.ops.poise.pin_bones()
    assert pins(armature) == {"hand.L": True, "hand.R": True}


def test_a_selected_target_stands_for_its_bone(armature: bpy.types.Object):
    for bone in ("hand.L", "hand.R"):
        posing.add_effector(armature, bone)
    target = armature.poise.effectors["hand.R"].target
    bpy.ops.object.mode_set(mode='OBJECT')
    bpy.ops.object.select_all(action='DESELECT')
    target.select_set(True)
    bpy.context.view_layer.objects.active = target
    assert bpy.ops.poise.pin_bones() == {'FINISHED'}
    assert pins(armature) == {"hand.L": False, "hand.R": True}


def test_without_a_selection_the_button_is_grey(armature: bpy.types.Object):
    pose_mode(armature)
    assert not bpy.ops.poise.pin_bones.poll()
    with pytest.raises(RuntimeError, match="Select bones in Pose Mode, or targets of effectors"):
        bpy.ops.poise.pin_bones()

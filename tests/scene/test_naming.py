# SPDX-License-Identifier: GPL-3.0-or-later
"""Bones that get another name: exchanged, copied, in Edit Mode, and entries made since."""

from collections.abc import Sequence
from typing import Any

import bpy
import pytest

from blender_ik_addon.scene import posing
from blender_ik_addon.scene.live import handlers
from blender_ik_addon.scene.live.machine import LIVE
from blender_ik_addon.scene.live.overlay_geometry import marks_of

from . import builders
from .records import pose_record

HANDS = ("hand.L", "hand.R")


@pytest.fixture
def armature() -> Any:
    """A figure with effectors on both hands, active."""
    made: Any = builders.humanoid()
    for hand in HANDS:
        posing.add_effector(made, hand)
    bpy.context.view_layer.objects.active = made
    return made


def followed(armature: Any) -> tuple[str, ...]:
    return tuple(entry.bone for entry in armature.poise.effectors)


def in_edit_mode(*operators: Any) -> None:
    """Select all bones in Edit Mode, call operators, and leave it."""
    bpy.ops.object.mode_set(mode='EDIT')
    bpy.ops.armature.select_all(action='SELECT')
    for operator in operators:
        operator()
    bpy.ops.object.mode_set(mode='OBJECT')
    bpy.context.view_layer.update()


def test_names_that_are_exchanged(armature: Any):
    posing.own_limits(armature, "hand.L").is_held = True
    in_edit_mode(bpy.ops.armature.flip_names)
    assert followed(armature) == ("hand.R", "hand.L")
    assert [entry.name for entry in armature.poise.joints] == ["hand.R"]
    in_edit_mode(bpy.ops.armature.flip_names)
    assert followed(armature) == HANDS


def test_a_name_that_another_bone_has_taken_before_anybody_looked(armature: Any):
    """As scripts do that count bones anew."""
    armature.data.bones["hand.L"].name = "paw"
    armature.data.bones["head"].name = "hand.L"
    posing.solve_pose(armature)
    assert followed(armature) == ("paw", "hand.R")


def test_in_edit_mode_names_are_followed_when_it_is_left(armature: Any):
    """Its own undo gives the bone its name back, and nobody else."""
    bpy.ops.object.mode_set(mode='EDIT')
    armature.data.edit_bones["hand.L"].name = "paw"
    bpy.context.view_layer.update()
    assert followed(armature) == HANDS
    bpy.ops.object.mode_set(mode='OBJECT')
    bpy.context.view_layer.update()
    assert followed(armature) == ("paw", "hand.R")


def test_a_bone_of_which_there_is_a_copy(armature: Any):
    in_edit_mode(bpy.ops.armature.duplicate)
    assert "hand.L.001" in armature.pose.bones
    armature.data.bones["hand.L"].name = "paw"
    bpy.context.view_layer.update()
    assert followed(armature) == ("paw", "hand.R")


def test_a_copy_of_a_bone_that_is_removed_is_another_bone(armature: Any):
    in_edit_mode(bpy.ops.armature.duplicate)
    in_edit_mode(lambda: armature.data.edit_bones.remove(armature.data.edit_bones["hand.L"]))
    assert followed(armature) == HANDS
    assert "hand.L" not in armature.pose.bones


def select(armature: Any, names: Sequence[str]) -> None:
    """Select bones in Pose Mode, and no others."""
    bpy.ops.object.mode_set(mode='POSE')
    for bone in armature.pose.bones:
        (bone if bpy.app.version >= (5, 0) else bone.bone).select = bone.name in names
    bpy.context.view_layer.update()


@pytest.mark.parametrize("live", [False, True], ids=["Live off", "Live on"])
@pytest.mark.parametrize("parts", [("hand.L", "hand.R"), ("hand.L",), ("hand.L", "head"), ()], ids=str)
def test_a_pose_that_is_pasted_flipped_renames_nothing(parts: tuple[str, ...], live: bool, armature: Any):
    """Blender pastes the custom properties of bones, too: to the other side."""
    posing.own_limits(armature, "hand.L")
    posing.switch_live(armature, live)
    posing.solve_pose(armature)
    select(armature, parts or armature.pose.bones.keys())
    bpy.ops.pose.copy()
    for _ in range(3):
        bpy.ops.pose.paste(flipped=True)
        bpy.context.view_layer.update()
        assert followed(armature) == HANDS
        assert [entry.name for entry in armature.poise.joints] == ["hand.L"]
    armature.data.bones["hand.L"].name = "paw"
    bpy.context.view_layer.update()
    assert followed(armature) == ("paw", "hand.R")
    in_edit_mode(bpy.ops.armature.flip_names)
    assert followed(armature) == ("paw", "hand.L")


def test_a_pose_of_another_armature_renames_nothing(armature: Any):
    """Of one whose bones nothing is known of, and of one with another name for its hand."""
    other: Any = builders.humanoid()
    for name in ("hand.L", "paw"):
        other.data.bones["hand.L"].name = name
        bpy.context.view_layer.objects.active = other
        select(other, other.pose.bones.keys())
        bpy.ops.pose.copy()
        bpy.ops.object.mode_set(mode='OBJECT')
        bpy.context.view_layer.objects.active = armature
        select(armature, armature.pose.bones.keys())
        bpy.ops.pose.paste()
        bpy.ops.object.mode_set(mode='OBJECT')
        bpy.context.view_layer.update()
        assert followed(armature) == HANDS
    armature.data.bones["hand.R"].name = "paw"
    bpy.context.view_layer.update()
    assert followed(armature) == ("hand.L", "paw")


def test_a_side_that_is_made_anew_from_the_other(armature: Any):
    in_edit_mode(lambda: armature.data.edit_bones.remove(armature.data.edit_bones["hand.R"]))
    in_edit_mode(bpy.ops.armature.symmetrize)
    assert "hand.R" in armature.pose.bones
    assert followed(armature) == HANDS


def test_limits_are_followed_before_anything_is_solved():
    armature: Any = builders.humanoid()
    posing.own_limits(armature, "hand.L")
    armature.data.bones["hand.L"].name = "paw"
    bpy.context.view_layer.update()
    assert [entry.name for entry in armature.poise.joints] == ["paw"]


def test_an_entry_is_of_the_bone_that_has_the_name_now(armature: Any):
    """The bone that was called so once, when an effector was there, is not meant."""
    posing.remove_effector(armature, 0)
    armature.data.bones["hand.L"].name = "paw"
    armature.data.bones["head"].name = "hand.L"
    posing.add_effector(armature, "hand.L")
    assert followed(armature) == ("hand.R", "hand.L")


def test_an_entry_for_a_bone_that_has_just_been_renamed(armature: Any):
    armature.data.bones["hand.L"].name = "paw"
    posing.own_limits(armature, "paw")
    assert followed(armature) == ("paw", "hand.R")


def test_two_objects_of_one_armature_both_follow(armature: Any):
    other: Any = armature.copy()
    bpy.context.scene.collection.objects.link(other)
    bpy.context.view_layer.update()
    armature.data.bones["hand.L"].name = "paw"
    bpy.context.view_layer.update()
    assert followed(armature) == followed(other) == ("paw", "hand.R")


def test_a_target_bone_of_another_armature(armature: Any):
    other: Any = builders.humanoid()
    posing.add_effector(armature, "head", target=other)
    armature.poise.effectors[-1].target_bone = "head"
    posing.solve_pose(armature)
    other.data.bones["head"].name = "skull"
    bpy.context.view_layer.update()
    assert armature.poise.effectors[-1].target_bone == "skull"


def test_marks_are_drawn_without_changing_anything(armature: Any):
    armature.poise.effectors[0].bone = "head"
    assert marks_of(armature, bpy.context.evaluated_depsgraph_get())
    assert armature.pose.bones["head"].poise_name == ""
    posing.solve_pose(armature)
    assert armature.pose.bones["head"].poise_name == "head"


def test_names_are_followed_while_an_armature_plays(armature: Any, monkeypatch: pytest.MonkeyPatch):
    """Drivers on an armature change it with each new frame: that alone is no reason to look at all names."""
    scene: Any = bpy.context.scene
    armature.data["turn"] = 0.0
    armature.data.driver_add('["turn"]').driver.expression = "frame"
    looked: list[str] = []
    follow = handlers.follow_names

    def noted(found: Any) -> None:
        looked.append(found.name)
        follow(found)

    monkeypatch.setattr(handlers, "follow_names", noted)
    scene.frame_set(2)
    looked.clear()
    for frame in range(3, 9):
        scene.frame_set(frame)
    assert looked == []
    armature.data.bones["hand.L"].name = "paw"
    scene.frame_set(9)
    assert followed(armature) == ("paw", "hand.R")


@pytest.mark.parametrize("bone", ["spine", "hand.L", "shin.R"], ids=["follows", "reaches", "in a chain"])
@pytest.mark.parametrize("in_edit", [False, True], ids=["in Object Mode", "in Edit Mode"])
def test_a_name_moves_nothing_with_live_on(bone: str, in_edit: bool):
    """Bones on Follow are held where they were before the last move, not where it has left them."""
    figure = builders.basic_human_metarig()
    posing.setup_character(figure)
    posing.switch_live(figure, True)
    figure.poise.effectors["hand.L"].target.location.z += 0.4
    figure.poise.effectors["hand.R"].target.location.x += 0.3
    bpy.context.view_layer.update()
    LIVE.forget()  # as undo does
    before = list(pose_record(figure).values())
    bpy.context.view_layer.objects.active = figure
    if in_edit:
        bpy.ops.object.mode_set(mode='EDIT')
        figure.data.edit_bones[bone].name = "renamed"
        bpy.ops.object.mode_set(mode='OBJECT')
    else:
        figure.data.bones[bone].name = "renamed"
    bpy.context.view_layer.update()
    handlers.poll()
    for now, was in zip(pose_record(figure).values(), before, strict=True):
        assert now == pytest.approx(was, abs=1e-5)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys that Poise has not written are not replaced unasked: by script, button and command line."""

from pathlib import Path
from typing import Any

import bpy
import pytest

from blender_ik_addon import cli
from blender_ik_addon.cli.exit_codes import Exit
from blender_ik_addon.core import IKError
from blender_ik_addon.scene import posing

from . import builders
from .actions import channelbag_of
from .records import action_record, pose_record

FRAMES = range(1, 7)
BONES = "001", "002"


@pytest.fixture
def arm() -> Any:
    """Four bones whose tip follows an empty that moves from frame 1 to 6."""
    return builders.following_arm({1: (0.4, 0.2, 0.5), 6: (0.3, -0.4, 0.6)}, FRAMES[-1])


def record_motion(armature: Any, *frames: int) -> None:
    """Key a bone that is solved, turned otherwise in each frame, as somebody else would."""
    bone = armature.pose.bones["bone.001"]
    for frame in frames:
        bone.rotation_quaternion = (1.0, 0.02 * frame, 0.0, 0.0)
        bone.keyframe_insert("rotation_quaternion", frame=frame)


def a_key(armature: Any) -> Any:
    return channelbag_of(armature).fcurves[0].keyframe_points[3]


def test_a_motion_by_others_is_not_replaced_unasked_where_a_strip_animates_influences(arm: Any):
    for frame, influence in ((1, 0.0), (6, 1.0)):
        arm.poise.effectors[0].influence = influence
        arm.poise.effectors[0].keyframe_insert("influence", frame=frame)
    animation = arm.animation_data
    animation.nla_tracks.new().strips.new("influence", 1, animation.action)
    animation.action = None
    record_motion(arm, 2, 4)
    bpy.context.scene.frame_set(1)
    with pytest.raises(IKError, match=r"2 keys of 'bone\.001'"):
        posing.bake(arm, FRAMES)


@pytest.mark.parametrize("way", ["script", "operator", "command line"])
def test_a_motion_by_others_is_replaced_only_if_that_is_allowed(arm: Any, way: str):
    record_motion(arm, 2, 4, 9)
    before = pose_record(arm), action_record(arm), bpy.context.scene.frame_current

    def bake(replace: bool) -> object:
        if way == "script":
            return posing.bake(arm, FRAMES, replace=replace)
        if way == "operator":
            return bpy.ops.poise.bake(replace=replace)
        force = ["--force"] * replace
        return cli.run(["bake", "--quiet", *force])

    if way == "command line":
        assert bake(False) == Exit.REFUSED
    else:
        with pytest.raises(IKError if way == "script" else RuntimeError) as refused:
            bake(False)
        text = str(refused.value)
        assert "2 keys of 'bone.001' in action 'armAction', frames 1 to 6" in text and "--force" in text
    assert (pose_record(arm), action_record(arm), bpy.context.scene.frame_current) == before
    bake(True)
    assert "mong those replaced, not written by Poise: 2 keys of 'bone.001'" in arm.poise.last_bake
    bake(False)  # these are its own
    assert "ot written by Poise" not in arm.poise.last_bake


def test_keys_of_a_bake_are_known_in_the_file(arm: Any, tmp_path: Path):
    posing.bake(arm, FRAMES)
    posing.bake(arm, [2, 3])
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    arm = bpy.data.objects["arm"]
    assert posing.bake(arm, FRAMES).reached
    copy = arm.animation_data.action.copy()
    arm.animation_data.action = copy
    arm.animation_data.action_slot = copy.slots[0]
    assert posing.bake(arm, FRAMES).reached


EDITS = {
    "value": lambda key: setattr(key, "co_ui", (key.co[0], key.co[1] + 0.01)),
    "frame": lambda key: setattr(key, "co_ui", (key.co[0] + 0.25, key.co[1])),
    "interpolation": lambda key: setattr(key, "interpolation", 'CONSTANT'),
    "handle": lambda key: (setattr(key, "handle_left_type", 'FREE'), setattr(key, "handle_left", (3.0, 9.0))),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_key_that_was_edited_is_no_longer_its_own(arm: Any, edit: str):
    posing.bake(arm, FRAMES)
    EDITS[edit](a_key(arm))
    with pytest.raises(IKError, match="would replace 1 key of"):
        posing.bake(arm, FRAMES)
    posing.bake(arm, [5, 6])  # the edited key is on frame 4
    posing.bake(arm, FRAMES, replace=True)
    posing.bake(arm, FRAMES)


@pytest.mark.parametrize("to", ["ACTION", "STRIP"])
def test_keys_of_a_bone_that_gets_another_name_stay_its_own(arm: Any, to: str):
    posing.bake(arm, FRAMES, to=to)
    arm.data.bones["bone.001"].name, arm.data.bones["bone.002"].name = "bone.002", 'the "second" one'
    posing.bake(arm, [2, 3], to=to)
    arm.data.bones["bone.003"].name = "tip"
    assert posing.bake(arm, FRAMES, to=to).reached
    if to == "ACTION":
        EDITS["value"](a_key(arm))
        with pytest.raises(IKError, match="would replace 1 key of"):
            posing.bake(arm, FRAMES)


def test_keys_that_are_copied_from_another_bone_are_not_its_own(arm: Any):
    posing.bake(arm, FRAMES)
    curves = channelbag_of(arm).fcurves
    for index in range(4):
        source, copy = (
            curves.find(f'pose.bones["bone.{n}"].rotation_quaternion', index=index) for n in BONES
        )
        for own, key in zip(source.keyframe_points, copy.keyframe_points, strict=True):
            key.co, key.handle_left, key.handle_right = own.co, own.handle_left, own.handle_right
    with pytest.raises(IKError, match=r"would replace 24 keys of 'bone\.002' in"):
        posing.bake(arm, FRAMES)


def test_keys_that_an_earlier_version_has_noted_are_its_own(arm: Any):
    posing.bake(arm, FRAMES)
    action = arm.animation_data.action
    action.poise.own_keys, _, names = action.poise.own_keys.partition(" ")  # version 0.2.0 noted no names
    assert "bone.002" in names
    posing.bake(arm, [2, 3])
    assert posing.bake(arm, FRAMES).reached


def test_keys_that_poise_sets_by_button_are_its_own(arm: Any):
    for frame in (1, 6):
        bpy.context.scene.frame_set(frame)
        posing.solve_pose(arm)
        posing.key_pose(arm)
    posing.bake(arm, FRAMES)


def test_what_is_not_written_is_not_asked_about(arm: Any):
    """Frames outside, locked curves, and bones of effectors that take no part."""
    record_motion(arm, -3, 0, 8, 12)
    posing.bake(arm, range(20, 23))
    arm.animation_data_clear()
    record_motion(arm, 1, 6)
    for curve in channelbag_of(arm).fcurves:
        curve.lock = True
    posing.bake(arm, FRAMES)
    arm.animation_data_clear()
    record_motion(arm, 1, 6)
    arm.poise.effectors[posing.add_effector(arm, "bone.000")].kind = 'ORIENTATION'
    for frame in (1, 6):
        arm.poise.effectors[0].influence = 0.0
        arm.poise.effectors[0].keyframe_insert("influence", frame=frame)
    posing.bake(arm, FRAMES)
    keys = {curve.data_path: len(curve.keyframe_points) for curve in channelbag_of(arm).fcurves}
    assert keys['pose.bones["bone.000"].rotation_quaternion'] == 6
    assert keys['pose.bones["bone.001"].rotation_quaternion'] == 2

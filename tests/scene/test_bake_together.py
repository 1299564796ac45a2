# SPDX-License-Identifier: GPL-3.0-or-later
"""Several characters in one bake, also where their targets are each other's bones."""

from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon import cli
from blender_ik_addon.cli.exit_codes import Exit
from blender_ik_addon.core import IKError
from blender_ik_addon.scene import posing

from . import builders
from .bakes import cancel_at
from .records import action_record, changes, file_record, pose_record

FRAMES = range(1, 6)


def arm(name: str, x: float) -> Any:
    """Four bones beside others, whose tip reaches for a place of its own."""
    armature: Any = builders.chain(4, 0.3, name=name)
    armature.poise.move_root = False
    armature.location.x = x
    bpy.context.view_layer.update()
    armature.poise.effectors[posing.add_effector(armature, "bone.003")].kind = 'POSITION'
    return armature


@pytest.fixture
def pair() -> tuple[Any, Any]:
    """Two arms: the tip of the first follows an empty that moves, the second the tip of the first."""
    first, second = arm("first", 0.0), arm("second", 0.5)
    target = first.poise.effectors[0].target
    for frame, place in ((1, (0.3, 0.2, 0.7)), (5, (0.2, -0.3, 0.6))):
        target.location = place
        target.keyframe_insert("location", frame=frame)
    follow(second, first)
    scene: Any = bpy.context.scene
    scene.frame_start, scene.frame_end = FRAMES[0], FRAMES[-1]
    scene.frame_set(1)
    return first, second


def follow(armature: Any, other: Any, bone: str = "bone.003") -> None:
    entry = armature.poise.effectors[0]
    entry.target, entry.target_bone = other, bone


def follow_each_other(first: Any, second: Any) -> None:
    """Let a bone of the first follow one of the second, too."""
    entry = first.poise.effectors[posing.add_effector(first, "bone.002")]
    entry.kind, entry.target, entry.target_bone, entry.priority = 'POSITION', second, "bone.002", 1


def keyed(armature: Any) -> None:
    """Key a rotation by hand."""
    bone = armature.pose.bones["bone.001"]
    for frame in (1, 3):
        bone.rotation_quaternion.x = 0.1 * frame
        bone.keyframe_insert("rotation_quaternion", frame=frame)


def apart(first: Any, second: Any) -> float:
    """Largest distance of the tips over the frames, measured without the add-on."""
    found: list[float] = []
    for frame in FRAMES:
        bpy.context.scene.frame_set(frame)
        tips = [own.matrix_world @ own.pose.bones["bone.003"].head for own in (first, second)]
        found.append((tips[0] - tips[1]).length)
    return max(found)


@pytest.mark.parametrize("way", ["script", "operator", "command line"])
def test_whom_others_follow_is_baked_first(pair: tuple[Any, Any], way: str):
    first, second = pair
    if way == "script":
        reports = posing.bake_together([second, first], FRAMES)
        assert [report.action for report in reports] == ["second Poise Bake", "first Poise Bake"]
    elif way == "operator":
        for own in pair:
            own.select_set(True)
        bpy.context.view_layer.objects.active = second
        assert bpy.ops.poise.bake(together=True) == {'FINISHED'}
    else:
        assert cli.run(["bake", "--armature", "second", "--with", "first", "--quiet"]) == Exit.REACHED
    assert apart(*pair) < 5e-4


def test_targets_that_are_each_others_bones_are_baked_until_they_rest(pair: tuple[Any, Any]):
    first, second = pair
    follow_each_other(first, second)
    first.poise.effectors[0].weight = 2.0
    ends = posing.bake_together(pair, FRAMES)
    assert apart(*pair) < 5e-4
    again = posing.bake_together(pair, FRAMES)
    for one, other in zip(ends, again, strict=True):
        np.testing.assert_allclose(one.position_errors, other.position_errors, atol=2e-3)
    for report in ends:
        assert not any("come to rest" in note for note in report.notes), report.summary()


@pytest.mark.parametrize("to", ['ACTION', 'NEW', 'STRIP'])
def test_bakes_that_are_repeated_leave_and_report_what_one_does(pair: tuple[Any, Any], to: str):
    follow_each_other(*pair)
    keyed(pair[1])
    there = {action.name for action in bpy.data.actions}
    reports = posing.bake_together(pair, FRAMES, to=to, replace=True)
    made = {action.name for action in bpy.data.actions} - there
    assert made == {report.action for report in reports} - there
    assert reports[0].keys_replaced == 0
    assert reports[1].keys_replaced == (0 if to == 'STRIP' else 8)
    noted = [note for note in reports[1].notes if "not written by Poise: 2 keys of 'bone.001'" in note]
    assert len(noted) == (to == 'ACTION')


def test_constraints_are_cleared_where_bakes_are_repeated(pair: tuple[Any, Any]):
    follow_each_other(*pair)
    turn = builders.empty("turn")
    turn.rotation_euler = (0.3, 0.0, 0.0)
    bones = [own.pose.bones["bone.000"] for own in pair]
    for bone in bones:
        bone.constraints.new('COPY_ROTATION').target = turn
    bpy.context.view_layer.update()
    cancel_at(posing.BakeJobs(pair, FRAMES, clear_constraints=True), 0.8)
    assert [bone.constraints[0].mute for bone in bones] == [False, False]
    posing.bake_together(pair, FRAMES)
    wanted = apart(*pair)
    for own in pair:
        own.animation_data_clear()
    posing.bake_together(pair, FRAMES, clear_constraints=True)
    assert not any(len(bone.constraints) for bone in bones)
    assert apart(*pair) == pytest.approx(wanted, abs=1e-5)
    turned = [own.pose.bones["bone.000"].matrix.to_euler().x for own in pair]
    assert turned == pytest.approx([0.3, 0.3], abs=1e-4)


@pytest.mark.parametrize("mutual", [False, True])
def test_keys_in_an_action_of_both_stay_poises_own(pair: tuple[Any, Any], mutual: bool):
    action: Any = bpy.data.actions.new("both")
    for own in pair:
        animation: Any = own.animation_data_create()
        animation.action, animation.action_slot = action, action.slots.new('OBJECT', own.name)
    if mutual:
        follow_each_other(*pair)
    posing.bake_together(pair, FRAMES)
    reports = posing.bake_together(pair, FRAMES)
    assert [report.keys_replaced for report in reports] == [report.keys for report in reports]


@pytest.mark.parametrize("part", [0.3, 0.8])
@pytest.mark.parametrize("to", ['ACTION', 'STRIP'])
def test_one_cancel_puts_all_of_them_back(pair: tuple[Any, Any], part: float, to: str):
    posing.set_state(pair[0], posing.add_effector(pair[0], "bone.001"), 'FOLLOW')
    pair[0].pose.bones["bone.001"].rotation_quaternion.x = 0.1
    if to == 'STRIP':
        posing.bake_together(pair, FRAMES, to=to)
        bpy.context.scene.frame_set(1)
    before = [(pose_record(own), own.animation_data and len(own.animation_data.nla_tracks)) for own in pair]
    actions, noted = sorted(action.name for action in bpy.data.actions), file_record()
    cancel_at(posing.BakeJobs(pair, FRAMES, to=to), part)
    assert not changes(noted, file_record())
    after = [(pose_record(own), own.animation_data and len(own.animation_data.nla_tracks)) for own in pair]
    assert after == before and sorted(action.name for action in bpy.data.actions) == actions
    posing.bake_together(pair, FRAMES, to=to)


def test_what_one_refuses_stops_all(pair: tuple[Any, Any]):
    first, second = pair
    keyed(second)
    before = action_record(second)
    with pytest.raises(IKError, match=r"^second: .* would replace 2 keys of 'bone\.001'"):
        posing.bake_together(pair, FRAMES)
    assert first.animation_data is None and action_record(second) == before
    with pytest.raises(IKError, match=r"^the bake would replace 2 keys of 'bone\.001'"):
        posing.bake_together([second], FRAMES)
    entry = second.poise.effectors[0]
    entry.target = None
    with pytest.raises(IKError, match=r"^second: effector 'bone\.003' has no target"):
        posing.bake_together(pair, FRAMES)
    follow(second, first)
    with pytest.raises(IKError, match="give each character to bake once"):
        posing.bake_together([first, first], FRAMES)
    posing.bake_together(pair, FRAMES, replace=True)


def test_frames_are_those_of_the_first_whatever_the_settings_of_others_say(pair: tuple[Any, Any]):
    """As on the command line with --start and --end."""
    follow_each_other(*pair)
    pair[1].poise.bake_step = 0.5
    for report in posing.BakeJobs(pair, FRAMES).run():
        assert report.frames == tuple(FRAMES)

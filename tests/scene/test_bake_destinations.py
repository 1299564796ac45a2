# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the keys of a bake go: the own action, a new one, an NLA strip over what plays."""

import json
import os
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon import cli
from blender_ik_addon.cli.exit_codes import Exit
from blender_ik_addon.core import IKError
from blender_ik_addon.scene import posing
from blender_ik_addon.ui.panels import POISE_PT_bake_presets

from . import builders
from .actions import channelbag_of
from .bakes import WAYS, bake_by, cancel_at
from .measured import played
from .records import action_record, pose_record

FRAMES = range(3, 10)
SHOT = range(1, 13)
MODES = {"bone.000": 'XYZ', "bone.001": 'QUATERNION', "bone.002": 'AXIS_ANGLE'}


@pytest.fixture
def arm() -> Any:
    """Four bones in three rotation modes with a recorded motion; the tip follows an empty."""
    armature: Any = builders.chain(4, 0.3, name="arm")
    armature.poise.effectors[posing.add_effector(armature, "bone.003")].kind = 'POSITION'
    scene: Any = bpy.context.scene
    scene.frame_start, scene.frame_end = 1, 12
    for name, mode in MODES.items():
        armature.pose.bones[name].rotation_mode = mode
    root, middle, last = (armature.pose.bones[name] for name in MODES)
    for frame in (1, 6, 12):
        root.location = (0.01 * frame, 0.0, 0.02)
        root.rotation_euler = (0.05 * frame, 0.1, 0.0)
        middle.rotation_quaternion = (1.0, 0.02 * frame, 0.1, -0.03 * frame)
        last.rotation_axis_angle = (0.05 * frame, 1.0, 0.0, 0.0)
        for bone, path in (
            (root, "location"),
            (root, "rotation_euler"),
            (middle, "rotation_quaternion"),
            (last, "rotation_axis_angle"),
        ):
            bone.keyframe_insert(path, frame=frame)
    target = armature.poise.effectors[0].target
    for frame, place in ((1, (0.4, 0.2, 0.5)), (12, (0.3, -0.4, 0.6))):
        target.location = place
        target.keyframe_insert("location", frame=frame)
    scene.frame_set(1)
    return armature


def strips(armature: Any) -> dict[str, Any]:
    tracks = armature.animation_data.nla_tracks
    return {strip.name: strip for track in tracks for strip in track.strips}


def nla_record(armature: Any) -> Any:
    animation = armature.animation_data
    return (
        animation.action.name if animation.action else None,
        animation.use_nla,
        [
            (own.name, own.mute, own.action.name, own.frame_start, own.frame_end, own.extrapolation)
            for own in strips(armature).values()
        ],
        sorted(action.name for action in bpy.data.actions),
        [
            (curve.data_path, curve.array_index, [tuple(key.co) for key in curve.keyframe_points])
            for own in strips(armature).values()
            for curve in own.action.layers[0].strips[0].channelbag(own.action_slot).fcurves
        ],
    )


BLENDS = ('COMBINE', 'ADD', 'REPLACE')


@pytest.mark.parametrize("blend", BLENDS)
def test_a_strip_over_a_recording_plays_what_was_solved_and_can_be_muted(arm: Any, blend: str):
    recorded, inside = played(arm, SHOT), [frame - 1 for frame in FRAMES]
    outside = sorted(set(range(12)) - set(inside))
    for _ in range(2):  # it is baked again without a question, from what is below it
        report = posing.bake(arm, FRAMES, to='STRIP', name="Fix", blend=blend)
        assert report.reached, report.summary()
        assert float(np.max(report.position_errors)) < 1e-4
        own = strips(arm)
        assert list(own) == ["armAction", "Fix"] and own["Fix"].blend_type == blend
        assert report.action == own["Fix"].action.name == "arm Fix"
        assert arm.animation_data.action is None and len(bpy.data.actions) == 3
        now = played(arm, SHOT)
        np.testing.assert_allclose(now[outside], recorded[outside], atol=1e-5)
        assert np.abs(now[inside] - recorded[inside]).max() > 0.01
        own["Fix"].mute = True
        np.testing.assert_allclose(played(arm, SHOT), recorded, atol=1e-5)
    assert report.keys_replaced == report.keys > 0
    posing.bake(arm, FRAMES, to='STRIP', name="Fix", blend=blend)
    assert not strips(arm)["Fix"].mute
    np.testing.assert_allclose(played(arm, SHOT), now, atol=1e-5)


@pytest.mark.parametrize("to", ['ACTION', 'NEW'])
def test_clips_in_strips_play_on_outside_of_what_is_baked_into_a_first_action(arm: Any, to: str):
    """The action held its ends in all other frames, so the rest of the shot froze."""
    animation, (first, *_, last) = arm.animation_data, SHOT
    action, slot, animation.action = animation.action, animation.action_slot, None
    clip = animation.nla_tracks.new().strips.new("clip", first, action)
    clip.action_slot, clip.action_frame_end = slot, last
    recorded, inside = played(arm, SHOT), [frame - 1 for frame in FRAMES]
    cancel_at(posing.BakeJob(arm, FRAMES, to=to), 0.9)
    assert animation.action is None and animation.action_extrapolation == 'HOLD'
    report = posing.bake(arm, FRAMES, to=to, ease_in=2, ease_out=2)
    assert report.reached, report.summary()
    now = played(arm, SHOT)
    assert np.abs(now[inside] - recorded[inside]).max() > 0.01
    inside = inside[1:-1]  # the ends of the range are those of the clip
    np.testing.assert_allclose(np.delete(now, inside, 0), np.delete(recorded, inside, 0), atol=1e-5)


@pytest.mark.parametrize("ease", [0, 2])
@pytest.mark.parametrize("to", [*BLENDS, 'ACTION'])
def test_a_bone_that_a_constraint_scaled_is_scaled_by_its_keys_when_that_is_cleared(
    arm: Any, to: str, ease: int
):
    """With Combine scales are multiplied with those below, here by keys of the bone itself."""
    bone, other = arm.pose.bones["bone.001"], builders.empty("other")
    for frame in (1, 12):
        bone.scale = (0.7 + 0.02 * frame,) * 3
        bone.keyframe_insert("scale", frame=frame)
        other.scale = (1.2 + 0.03 * frame,) * 3
        other.keyframe_insert("scale", frame=frame)
    bone.constraints.new('COPY_SCALE').target = other
    place: Any = {"to": 'ACTION', "replace": True} if to == 'ACTION' else {"to": 'STRIP', "blend": to}
    report = posing.bake(arm, FRAMES, clear_constraints=True, ease_out=ease, **place)
    assert report.reached and not len(bone.constraints)
    for frame in FRAMES[: len(FRAMES) - ease]:
        bpy.context.scene.frame_set(frame)
        np.testing.assert_allclose(np.array(bone.matrix.to_scale()), np.array(other.scale), atol=1e-4)


@pytest.mark.parametrize("way", WAYS)
def test_where_keys_go_is_said_in_each_way(arm: Any, way: str):
    bake_by(way, arm, FRAMES, to='STRIP', name="Fix", blend='ADD', ease_in=2, ease_out=1)
    assert strips(arm)["Fix"].blend_type == 'ADD'
    assert "into 'arm Fix'" in arm.poise.last_bake
    now = played(arm, SHOT)
    strips(arm)["Fix"].mute = True
    same = np.abs(now - played(arm, SHOT)).max(axis=(1, 2, 3)) < 1e-5
    assert np.flatnonzero(~same).tolist() == [3, 4, 5, 6, 7]


def test_a_second_strip_plays_over_the_first(arm: Any):
    posing.bake(arm, FRAMES, to='STRIP', name="One")
    one = played(arm, FRAMES)
    arm.poise.effectors[0].target.delta_location.z = 0.05
    report = posing.bake(arm, range(5, 8), to='STRIP', name="Two", ease_in=1, ease_out=1)
    assert report.reached and np.isnan(report.position_errors[[0, -1]]).all()
    now = played(arm, FRAMES)
    np.testing.assert_allclose(now[[0, 1, 2, 4, 5, 6]], one[[0, 1, 2, 4, 5, 6]], atol=1e-5)
    assert np.abs(now[3] - one[3]).max() > 0.02


def test_ends_that_are_eased_join_what_is_there(arm: Any):
    recorded = played(arm, SHOT)
    report = posing.bake(arm, FRAMES, ease_in=3, ease_out=2, replace=True)
    assert report.reached
    assert np.isnan(report.position_errors).ravel().tolist() == [True] * 3 + [False] * 2 + [True] * 2
    now = played(arm, SHOT)
    np.testing.assert_allclose(now[[0, 2, 8, 11]], recorded[[0, 2, 8, 11]], atol=1e-4)
    near, far = np.abs(now[3] - recorded[3]).max(), np.abs(now[5] - recorded[5]).max()
    assert 0.0 < near < 0.4 * far


@pytest.mark.parametrize("blend", BLENDS)
def test_ends_of_a_strip_that_are_eased_join_what_plays_below(arm: Any, blend: str):
    recorded = played(arm, SHOT)
    for _ in range(2):  # baked again it is eased from what is below once more, and not from the strip
        report = posing.bake(arm, FRAMES, to='STRIP', name="Fix", blend=blend, ease_in=3, ease_out=2)
        assert report.reached
        now = played(arm, SHOT)
        same = [0, 1, 2, 8, 9, 10, 11]
        np.testing.assert_allclose(now[same], recorded[same], atol=1e-4)
        near, far = np.abs(now[3] - recorded[3]).max(), np.abs(now[5] - recorded[5]).max()
        assert 0.0 < near < 0.4 * far


def strip_keys(armature: Any, name: str) -> dict[tuple[str, int], list[tuple[float, ...]]]:
    strip = strips(armature)[name]
    curves = strip.action.layers[0].strips[0].channelbag(strip.action_slot).fcurves
    assert not any(curve.mute for curve in curves)
    return {
        (own.data_path, own.array_index): [tuple(key.co) for key in own.keyframe_points] for own in curves
    }


@pytest.mark.parametrize("blend", BLENDS)
@pytest.mark.parametrize("fewer", [{"channels": 'ROTATION'}, {"bones": ["bone.001", "bone.002"]}])
def test_a_strip_baked_again_with_fewer_channels_plays_the_others_as_they_were_solved_with(
    arm: Any, blend: str, fewer: Any
):
    arm.pose.bones["bone.001"].rotation_mode = 'XYZ'  # keys of the recording are of quaternions
    posing.bake(arm, FRAMES, to='STRIP', name="Fix", blend=blend)
    before = strip_keys(arm, "Fix")
    arm.poise.effectors[0].target.delta_location.z = -0.05
    report = posing.bake(arm, FRAMES, to='STRIP', name="Fix", blend=blend, **fewer)
    assert report.reached, report.summary()
    after = strip_keys(arm, "Fix")
    root = [channel for channel in before if "bone.000" in channel[0] and "location" in channel[0]]
    assert root and all(after[channel] == before[channel] for channel in root)
    assert before.keys() == after.keys() and before != after


@pytest.mark.parametrize("blend", BLENDS)
def test_a_strip_baked_again_starts_from_the_motion_below_it_where_influences_are_keyed(arm: Any, blend: str):
    """What animates them is in a strip since the first bake: in frame 1 no bone seemed to be solved."""
    for frame, influence in ((1, 0.0), (4, 0.5), (12, 1.0)):
        arm.poise.effectors[0].influence = influence
        arm.poise.effectors[0].keyframe_insert("influence", frame=frame)
    motions = []
    for _ in range(3):
        bpy.context.scene.frame_set(1)
        report = posing.bake(arm, SHOT, to='STRIP', name="Fix", blend=blend)
        assert not any("earlier bake" in note for note in report.notes)
        motions.append(played(arm, SHOT))
    np.testing.assert_allclose(motions[1:], [motions[0]] * 2, atol=1e-3)


@pytest.mark.parametrize("above", ["an action", "a strip", "a strip that begins later"])
@pytest.mark.parametrize("blend", BLENDS)
def test_a_strip_that_is_baked_again_goes_above_what_came_later(arm: Any, blend: str, above: str):
    posing.bake(arm, FRAMES, to='STRIP', name="Fix", blend=blend)
    bone = arm.pose.bones["bone.001"]
    for frame, turn in ((FRAMES[0], 0.3), (FRAMES[-1], -0.4)):
        bone.rotation_quaternion = (1.0, turn, 0.1, 0.0)
        bone.keyframe_insert("rotation_quaternion", frame=frame)
    animation = arm.animation_data
    if above != "an action":
        start = 20 if above.endswith("later") else FRAMES[0]  # it holds its first pose before
        animation.nla_tracks.new().strips.new("above", start, animation.action)
        animation.action = None
    assert not posing.measure(arm, FRAMES).reached
    report = posing.bake(arm, FRAMES, to='STRIP', name="Fix", blend=blend)
    assert report.reached and float(np.max(report.position_errors)) < 1e-4
    assert posing.measure(arm, FRAMES).reached
    assert list(strips(arm))[-1] == "Fix" and list(strips(arm)).count("Fix") == 1
    assert len(strips(arm)) == len(animation.nla_tracks) == 3
    assert report.action == strips(arm)["Fix"].action.name == "arm Fix" and len(bpy.data.actions) == 4


def test_bones_that_take_no_part_any_more_keep_their_keys_of_a_strip():
    arm: Any = builders.chain(4, 0.3, name="arm")
    arm.poise.move_root = False
    for bone, depth, place in (("bone.001", 2, (0.18, 0.0, 0.24)), ("bone.003", 3, (0.4, 0.2, 0.5))):
        entry = arm.poise.effectors[posing.add_effector(arm, bone)]
        entry.kind, entry.chain_depth, entry.target.location = 'POSITION', depth, place
    assert posing.bake(arm, FRAMES, to='STRIP', name="Fix").reached
    before = strip_keys(arm, "Fix")
    lower, upper = arm.poise.effectors
    lower.influence = 0.0
    lower.keyframe_insert("influence", frame=1)  # so it is known in each frame alone
    upper.target.location.x -= 0.1
    report = posing.bake(arm, FRAMES, to='STRIP', name="Fix")
    assert report.reached, report.summary()
    after = strip_keys(arm, "Fix")
    changed = {path for path, index in after if after[path, index] != before[path, index]}
    assert changed and not any("bone.000" in path for path in changed)


@pytest.mark.parametrize("blend", BLENDS)
def test_ends_of_a_strip_over_no_keys_join_the_present_pose(arm: Any, blend: str):
    arm.animation_data_clear()
    pose = played(arm, FRAMES)
    assert posing.bake(arm, FRAMES, to='STRIP', blend=blend, ease_in=3, ease_out=2).reached
    now = played(arm, FRAMES)
    np.testing.assert_allclose(now[[0, -1]], pose[[0, -1]], atol=1e-5)
    assert np.abs(now[3] - pose[3]).max() > 0.01


def test_a_new_action_plays_all_that_the_old_one_did_but_settings(arm: Any):
    arm.poise.effectors[0].keyframe_insert("influence", frame=1)
    arm.pose.bones["bone.003"].keyframe_insert("scale", frame=1)
    old = arm.animation_data.action
    before = action_record(arm)
    report = posing.bake(arm, FRAMES, to='NEW', name="Export")
    assert report.reached and report.action == "Export"
    paths = {curve.data_path for curve in channelbag_of(arm).fcurves}
    assert not any(path.startswith("poise") for path in paths)
    assert 'pose.bones["bone.003"].scale' in paths
    assert [strip.action for strip in strips(arm).values()] == [old]  # whose influence plays on
    (below,) = strips(arm).values()  # exporters play all of a strip
    assert (below.frame_start, below.frame_end) == (1, 12) and below.extrapolation == 'HOLD'
    slot = old.slots[0]
    bag = old.layers[0].strips[0].channelbag(slot)
    assert any(curve.data_path.startswith("poise") for curve in bag.fcurves)
    assert posing.bake(arm, FRAMES, to='NEW', name="Export").action == "Export"
    assert len(strips(arm)) == 1 and before is not None


def test_the_old_action_is_still_in_the_file_after_a_bake_into_a_new_one(arm: Any, tmp_path: Path):
    old = arm.animation_data.action.name
    cancel_at(posing.BakeJob(arm, FRAMES, replace=True, to='NEW', name="Export"), 0.6)
    assert not bpy.data.actions[old].use_fake_user
    posing.bake(arm, FRAMES, to='NEW', name="Export")
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "baked.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "baked.blend"))
    assert {old, "Export"} <= set(bpy.data.actions.keys())


def test_time_that_is_remapped_is_mapped(arm: Any):
    render = bpy.context.scene.render
    render.frame_map_old, render.frame_map_new = 100, 200
    report = posing.bake(arm, range(4, 13), replace=True)
    assert report.reached and report.frames == tuple(range(4, 13))
    keys = channelbag_of(arm).fcurves[0].keyframe_points
    assert [key.co[0] for key in keys] == [1, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 12]
    assert list(posing.bake_range(arm, 'ACTION')) == list(range(2, 25))


def animated_by(armature: Any) -> set[str]:
    """The bones whose curves have a key on frame 5, which is one by a bake."""
    curves = channelbag_of(armature).fcurves
    return {own.group.name for own in curves if any(key.co[0] == 5 for key in own.keyframe_points)}


def test_only_chosen_bones_and_channels_move(arm: Any):
    recorded = played(arm, SHOT)
    bones = ["bone.001", "bone.002"]
    report = posing.bake(arm, FRAMES, bones=bones, channels='ROTATION', replace=True)
    assert report.reached, report.summary()
    assert animated_by(arm) == set(bones)
    np.testing.assert_allclose(played(arm, SHOT)[:, 0], recorded[:, 0], atol=1e-6)
    arm.animation_data_clear()
    report = posing.bake(arm, FRAMES, channels='LOCATION')
    assert report.reached
    assert {curve.data_path for curve in channelbag_of(arm).fcurves} == {'pose.bones["bone.000"].location'}
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"bones": ["elbow"]}, "no bone or part of the body 'elbow'"),
        ({"bones": ["bone.001"], "channels": 'LOCATION'}, "none of the bones and channels"),
        ({"bones": 'SELECTED'}, "no bones are selected"),
        ({"channels": 'SCALE'}, "Channels cannot be 'SCALE'"),
    )
    for bad, words in wrong:
        for bone in arm.pose.bones:
            select(bone, False)
        with pytest.raises(IKError, match=words):
            posing.bake(arm, FRAMES, **bad)


def select(bone: Any, whether: bool) -> None:
    (bone if hasattr(bone, "select") else bone.bone).select = whether


@pytest.mark.parametrize("way", ["script", "operator", "command line"])
def test_parts_of_the_body_are_chosen_by_name_or_by_selection(way: str):
    figure: Any = builders.humanoid("Hero")
    posing.setup_character(figure)
    figure.poise.effectors["hand.L"].target.location.z += 0.1
    if way == "script":
        posing.bake(figure, range(4, 6), bones=["arm.L"])
    elif way == "command line":
        cli.run(["bake", "--start", "4", "--end", "5", "--bones", "arm.L", "--quiet"])
    else:
        for bone in figure.pose.bones:
            select(bone, bone.name == "upper_arm.L")
        bpy.ops.poise.bake(start=4, end=5, bones='LIMBS')
    assert {"upper_arm.L", "forearm.L", "hand.L"} <= animated_by(figure)
    assert all(name.endswith(".L") for name in animated_by(figure))


def taken_by_others(arm: Any) -> None:
    track = arm.animation_data.nla_tracks.new()
    track.strips.new("Fix", 1, arm.animation_data.action.copy())


def other_blend(arm: Any) -> None:
    posing.bake(arm, FRAMES, to='STRIP', name="Fix", blend='ADD')


def solo(arm: Any) -> None:
    arm.animation_data.nla_tracks.new().is_solo = True


def shared(arm: Any) -> None:
    posing.bake(arm, FRAMES, to='STRIP', name="Fix")
    other = bpy.data.objects.new("other", arm.data)
    bpy.context.scene.collection.objects.link(other)
    animation = other.animation_data_create()
    animation.action = strips(arm)["Fix"].action
    animation.action_slot = strips(arm)["Fix"].action_slot


@pytest.mark.parametrize(
    ("prepare", "to", "words"),
    [
        (taken_by_others, {"to": 'STRIP', "name": "Fix"}, "NLA strip 'Fix' already that Poise has not made"),
        (other_blend, {"to": 'STRIP', "name": "Fix"}, "'Fix' is blended by Add"),
        (solo, {"to": 'STRIP'}, "is solo"),
        (shared, {"to": 'STRIP', "name": "Fix"}, "also moves other"),
        (lambda arm: bpy.data.actions.new("Walk"), {"to": 'NEW', "name": "Walk"}, "an action 'Walk' already"),
        (lambda arm: None, {"to": 'HERE'}, "Bake To cannot be 'HERE': there are ACTION, NEW, STRIP"),
        (lambda arm: None, {"to": 'STRIP', "blend": 'MIX'}, "Blend cannot be 'MIX'"),
        (lambda arm: None, {"ease_in": -1}, "ease_in must be a whole number from 0, got -1"),
        (lambda arm: None, {"ease_in": float("nan")}, "ease_in must be a whole number from 0, got nan"),
        (lambda arm: None, {"ease_out": 1.5}, "ease_out must be a whole number from 0, got 1.5"),
        (lambda arm: None, {"ease_out": "a"}, "ease_out must be a whole number from 0, got 'a'"),
        (lambda arm: None, {"ease_in": 4, "ease_out": 3}, "Ease In and Ease Out take 7 frames of 6"),
        (lambda arm: None, {"blend": 'FOO'}, "Blend cannot be 'FOO'"),
        (lambda arm: None, {"bones": 3}, "bones are given by their names, got 3"),
        (lambda arm: None, {"to": 'STRIP', "name": 3}, "the name of an action or a strip is text, got 3"),
        (lambda arm: None, {"foo": 1}, "An option of a bake cannot be 'foo': there are step, at_keys"),
    ],
)
def test_what_cannot_be_written_is_refused_and_nothing_is_changed(
    arm: Any, prepare: Any, to: Any, words: str
):
    prepare(arm)
    bpy.context.scene.frame_set(1)
    before = nla_record(arm), pose_record(arm)
    with pytest.raises(IKError, match=words):
        posing.bake(arm, FRAMES, **to, replace=True)
    assert (nla_record(arm), pose_record(arm)) == before


def test_presets_hold_the_options_of_a_bake(arm: Any, monkeypatch: pytest.MonkeyPatch):
    """By Blender's own mechanism, in the user's folder, which is an empty one in tests."""
    shown = POISE_PT_bake_presets  # Blender writes the name of the preset into its label
    monkeypatch.setattr(shown, "bl_label", shown.bl_label)
    own = arm.poise
    bpy.context.view_layer.objects.active = arm
    own.bake_to, own.bake_name, own.bake_ease_in, own.bake_channels = 'STRIP', "Fix", 7, 'ROTATION'
    assert bpy.ops.poise.add_bake_preset(name="Over") == {'FINISHED'}
    own.bake_to, own.bake_name, own.bake_ease_in, own.bake_channels = 'ACTION', "", 0, 'BOTH'
    (folder,) = [path for path in bpy.utils.preset_paths("poise/bake") if "Over.py" in os.listdir(path)]
    path = os.path.join(folder, "Over.py")
    bpy.ops.script.execute_preset(filepath=path, menu_idname="POISE_PT_bake_presets")
    assert (own.bake_to, own.bake_name, own.bake_ease_in) == ('STRIP', "Fix", 7)
    assert own.bake_channels == 'ROTATION'
    assert bpy.ops.poise.add_bake_preset(name="Over", remove_active=False, remove_name=True) == {'FINISHED'}
    assert not os.path.exists(path)


def test_the_report_has_statistics_pops_and_frames_to_look_at(arm: Any, tmp_path: Path):
    target = arm.poise.effectors[0].target
    arm.poise.move_root, arm.poise.pop_angle = False, 0.01
    target.location = (9.0, 0.0, 0.0)
    target.keyframe_insert("location", frame=6)  # out of reach
    report = posing.bake(arm, FRAMES, replace=True)
    (own,) = report.statistics
    errors = report.position_errors[:, 0]
    assert own["position_median"] == pytest.approx(float(np.median(errors)))
    assert own["position_95"] == pytest.approx(float(np.percentile(errors, 95.0)))
    assert own["position_worst"] == float(errors.max()) and np.isnan(own["rotation_worst"])
    assert report.limits_met and not report.clamped
    found = dict(report.frames_to_look_at)
    assert found[report.worst_frames[0]].startswith(f"{report.names[0]}: ")
    assert {pop.frame for pop in report.pops} == set(report.branches)
    assert posing.frames_to_look_at(arm) == list(report.frames_to_look_at)
    for _ in range(2):
        bpy.ops.poise.mark_frames()
        markers = [(own.frame, own.name) for own in bpy.context.scene.timeline_markers]
        assert sorted(markers) == [(frame, f"Poise: {text}") for frame, text in report.frames_to_look_at]
    bpy.ops.poise.show_frame(frame=report.worst_frames[0])
    assert bpy.context.scene.frame_current == report.worst_frames[0]
    place = tmp_path / "report.json"
    ends = ["--start", str(FRAMES[0]), "--end", str(FRAMES[-1])]
    assert cli.run(["bake", "--quiet", "--allow-misses", *ends, "--report", str(place)]) == Exit.REACHED
    content = json.loads(place.read_text())
    assert content["limits_met"] and content["clamped"] == []
    assert content["effectors"][0]["position_median"] == pytest.approx(own["position_median"], rel=0.01)
    assert len(content["pops"]) == len(report.pops)


def test_what_is_clamped_is_a_warning(arm: Any):
    bone = arm.pose.bones["bone.000"]
    bone.use_ik_limit_x, bone.ik_min_x, bone.ik_max_x = True, -0.1, 0.1
    report = posing.bake(arm, FRAMES, replace=True)
    assert report.reached and report.clamped and report.limits_met
    assert not arm.poise.last_reached
    assert "lamped to joint limits: bone.000 X by" in report.summary()


@pytest.mark.parametrize("to", ['NEW', 'STRIP'])
def test_a_linked_action_stays_and_plays_below_what_is_baked_elsewhere(arm, to, tmp_path):
    library = str(tmp_path / "clip.blend")
    own: Any = arm.animation_data.action
    bpy.data.libraries.write(library, {own})
    before = played(arm, SHOT)
    libraries: Any = bpy.data.libraries
    with libraries.load(library, link=True) as (_, found):
        found.actions = [own.name]
    linked: Any = found.actions[0]
    arm.animation_data.action = linked
    arm.animation_data.action_slot = linked.slots[0]
    np.testing.assert_allclose(played(arm, SHOT), before, atol=1e-6)
    with pytest.raises(IKError, match=r"is linked from .*: bake to a New Action or an NLA Strip"):
        posing.bake(arm, FRAMES, replace=True)
    report = posing.bake(arm, FRAMES, to=to, name="fixed")
    assert report.reached and report.action != linked.name
    outside = [row for row in range(12) if row + 1 not in FRAMES]
    if to == 'STRIP':
        np.testing.assert_allclose(played(arm, SHOT)[outside], before[outside], atol=1e-5)


@pytest.mark.parametrize("blend", ['COMBINE', 'ADD', 'REPLACE'])
def test_turns_that_blender_loses_in_combined_strips_are_named_as_the_reason(blend: str):
    armature: Any = builders.chain(1, 3.0)
    armature.poise.move_root = False
    bone = armature.pose.bones[0]
    for frame in (1, 3):
        bone.keyframe_insert("rotation_quaternion", frame=frame)
    entry = armature.poise.effectors[posing.add_effector(armature, bone.name, kind='POSITION')]
    entry.point = (0.0, 3.0, 0.0)
    entry.target.location = (0.0, -3.0 * np.sin(4e-4), 3.0 * np.cos(4e-4))
    report = posing.bake(armature, range(1, 4), to='STRIP', blend=blend)
    assert report.reached is (blend != 'COMBINE')
    assert ("loses turns below 0.03°" in report.reasons[0]) is (blend == 'COMBINE')

# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys land on the right frames and channels, on each supported Blender."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.core.errors import IKError
from blender_ik_addon.scene.animation import fcurves as animation
from blender_ik_addon.scene.animation.fcurves import ChannelKeys, WriteResult, write_keys

from .actions import EULER, LOCATION, assign_slot, channelbag_of, curve_of, location_keys, odd_curve, points
from .builders import chain, humanoid
from .records import KEY_ATTRIBUTES, action_record, as_tuples, lines_run

# Where keys land


def test_keys_land_on_their_frames_and_channels() -> None:
    obj = chain(2)
    frames = np.array([3.0, 4.0, 6.5, 10.0])
    locations = np.arange(12.0).reshape(4, 3)
    keys = animation.bone_keys("bone.001", "location", locations)

    result = write_keys(obj, frames, keys)

    for index in range(3):
        curve = curve_of(obj, 'pose.bones["bone.001"].location', index)
        assert points(curve) == list(zip(frames, locations[:, index], strict=True))
        assert {p.interpolation for p in curve.keyframe_points} == {"LINEAR"}
        assert {p.handle_left_type for p in curve.keyframe_points} == {"AUTO_CLAMPED"}
        assert curve.color_mode == "AUTO_RGB"
    assert len(channelbag_of(obj).fcurves) == 3
    assert obj.animation_data.action.name == result.action == "chain Poise Bake"
    assert obj.animation_data.action_slot.identifier == "OBchain"
    assert (result.keys, result.keys_replaced, result.skipped, result.notes) == (12, 0, (), ())


def test_written_keys_are_what_blender_inserts_itself(obj: Any) -> None:
    frames, values = np.arange(1.0, 9.0), np.array([0.0, 1.0, 5.0, 5.0, 4.0, -1.0, 0.0, 2.0])
    write_keys(obj, frames, [ChannelKeys(LOCATION, 0, values)])
    reference = channelbag_of(obj).fcurves.new(LOCATION, index=1)
    for frame, value in zip(frames, values, strict=True):
        reference.keyframe_points.insert(frame, value).interpolation = "LINEAR"
    reference.update()

    for key, wanted in zip(curve_of(obj).keyframe_points, reference.keyframe_points, strict=True):
        for attribute in KEY_ATTRIBUTES:
            if not attribute.startswith("select"):
                assert as_tuples(getattr(key, attribute)) == as_tuples(getattr(wanted, attribute)), attribute
        assert not (key.select_control_point or key.select_left_handle or key.select_right_handle)


def test_the_pose_plays_what_was_written() -> None:
    obj = chain(2)
    write_keys(obj, [1, 11], [ChannelKeys(EULER, 0, np.array([0.0, 1.0]), "bone.000")])
    # A second bone into an action that has been evaluated before: it must play too.
    bpy.context.scene.frame_set(6)
    write_keys(obj, [1, 11], animation.bone_keys("bone.001", "location", [[0.0, 0, 0], [0, 2.0, 0]]))

    bpy.context.scene.frame_set(11)
    evaluated = obj.evaluated_get(bpy.context.evaluated_depsgraph_get())
    assert evaluated.pose.bones["bone.000"].rotation_euler.x == 1.0
    assert evaluated.pose.bones["bone.001"].location.y == 2.0
    assert obj.pose.bones["bone.001"].location.y == 2.0


def test_rewriting_is_seen_without_a_frame_change(obj: Any) -> None:
    write_keys(obj, [1, 10], [location_keys([1.0, 2.0])])
    bpy.context.view_layer.update()
    write_keys(obj, [1, 10], [location_keys([5.0, 6.0])])
    evaluated = obj.evaluated_get(bpy.context.evaluated_depsgraph_get())
    assert evaluated.pose.bones["bone.000"].location.x == 5.0


def test_a_bone_name_with_quotes_is_found(obj: Any) -> None:
    obj.data.bones["bone.000"].name = 'odd "name" \\'
    write_keys(obj, [1], animation.bone_keys('odd "name" \\', "location", [[1.0, 2.0, 3.0]]))
    bpy.context.scene.frame_set(1)
    assert obj.pose.bones[0].location[:] == (1.0, 2.0, 3.0)


def test_curves_are_grouped_by_bone() -> None:
    obj = humanoid()
    keys = [
        key
        for bone in ("hips", "hand.L")
        for name in ("location", "scale")
        for key in animation.bone_keys(bone, name, np.ones((2, 3)))
    ]
    write_keys(obj, [1, 2], keys)
    bag = channelbag_of(obj)
    assert [g.name for g in bag.groups] == ["hips", "hand.L"]
    assert [len(g.channels) for g in bag.groups] == [6, 6]
    for curve in bag.fcurves:
        assert f'"{curve.group.name}"' in curve.data_path


# What is there already


def test_older_keys_outside_the_range_stay_and_inside_are_replaced(obj: Any) -> None:
    curve = odd_curve(obj)
    before = action_record(obj)
    name = f"curve By hand OBchain {LOCATION} 0"

    result = write_keys(obj, np.arange(2.0, 13.0), [location_keys(np.full(11, 7.0))])

    assert points(curve_of(obj)) == [(-5.0, 2.5), *((f, 7.0) for f in np.arange(2.0, 13.0)), (30.0, 90.0)]
    assert result.keys_replaced == 3
    assert obj.animation_data.action.name == result.action == "By hand"
    after = action_record(obj)
    assert after[name][:3] == before[name][:3]  # group, settings, modifiers
    values = [KEY_ATTRIBUTES.index(a) for a in KEY_ATTRIBUTES if not a.startswith("handle")]
    for old, new in ((before[name][3][0], after[name][3][0]), (before[name][3][-1], after[name][3][-1])):
        assert [old[i] for i in values] == [new[i] for i in values]
    assert curve.is_valid


def test_a_key_nearer_than_blender_can_tell_apart_is_replaced(obj: Any) -> None:
    # Blender merges keys as near as these, and lets the later one win: after the range that is the old one.
    write_keys(obj, [0.995, 2.005, 20.0], [location_keys([5.0, 5.0, 6.0])])
    write_keys(obj, [1.0, 2.0], [location_keys([1.0, 2.0])])
    assert points(curve_of(obj)) == [(1.0, 1.0), (2.0, 2.0), (20.0, 6.0)]


def test_a_driven_channel_is_left_out_and_noted(obj: Any) -> None:
    obj.pose.bones["bone.000"].driver_add("location", 1)
    muted = obj.pose.bones["bone.000"].driver_add("location", 2)
    muted.mute = True
    assert animation.driven_channels(obj) == {(LOCATION, 1)}

    result = write_keys(obj, [1, 2], animation.bone_keys("bone.000", "location", np.ones((2, 3))))

    assert animation.animated_channels(obj) == {(LOCATION, 0), (LOCATION, 2)}
    assert result.skipped == ((LOCATION, 1),)
    assert result.notes == (f"not keyed, a driver decides them: {LOCATION}[1]",)


@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize("state", ["lock", "mute"])
def test_a_locked_curve_is_left_alone_and_a_muted_one_written_with_a_note(state: str, by_group: bool) -> None:
    obj = chain(1)
    write_keys(obj, [1, 2], [location_keys([1.0, 2.0], group="bone.000")])
    curve = curve_of(obj)
    setattr(curve.group if by_group else curve, state, True)
    result = write_keys(obj, [1, 2], [location_keys([8.0, 9.0], group="bone.000")])
    (note,) = result.notes
    assert {"lock": "locked", "mute": "muted"}[state] in note
    if state == "lock":
        assert points(curve_of(obj)) == [(1.0, 1.0), (2.0, 2.0)]
        assert result.skipped == ((LOCATION, 0),) and (result.action, result.keys) == ("", 0)
    else:
        assert points(curve_of(obj)) == [(1.0, 8.0), (2.0, 9.0)]


def test_modifiers_are_muted_and_noted_and_keys_before_the_old_ones_are_put_before_them(obj: Any) -> None:
    write_keys(obj, [10, 11], [location_keys([5.0, 6.0])])
    assert curve_of(obj).group is None and len(channelbag_of(obj).groups) == 0  # none was asked for
    curve_of(obj).modifiers.new("CYCLES")  # changes nothing between keys
    curve_of(obj).modifiers.new("NOISE")
    later = curve_of(obj).modifiers.new("GENERATOR")
    later.use_restricted_range, later.frame_start, later.frame_end = True, 5.0, 20.0
    result = write_keys(obj, [1, 2], [location_keys([1.0, 2.0])])
    assert [own.mute for own in curve_of(obj).modifiers] == [False, True, False]
    assert len(result.notes) == 1 and result.notes[0].startswith("modifiers muted, which would change")
    assert [curve_of(obj).evaluate(frame) for frame in (1.0, 2.0)] == [1.0, 2.0]
    assert points(curve_of(obj)) == [(1.0, 1.0), (2.0, 2.0), (10.0, 5.0), (11.0, 6.0)]


def test_long_notes_are_cut_short() -> None:
    obj = humanoid()
    for bone in obj.pose.bones:
        bone.driver_add("location", 0)
    keys = [k for b in obj.pose.bones for k in animation.bone_keys(b.name, "location", np.ones((1, 3)))]
    (note,) = write_keys(obj, [1], keys).notes
    assert note.endswith('pose.bones["neck"].location[0] and 15 more')


def push_down(obj: Any) -> Any:
    """Move the object's action to a strip of a new NLA track."""
    data = obj.animation_data
    track = data.nla_tracks.new()
    strip = track.strips.new("Below", 1, data.action)
    data.action = None
    return strip


def test_tweak_mode_is_refused(obj: Any) -> None:
    write_keys(obj, [1, 2], [location_keys([1.0, 2.0])])
    push_down(obj).select = True
    obj.animation_data.nla_tracks[0].select = True
    obj.animation_data.nla_tracks.active = obj.animation_data.nla_tracks[0]
    obj.animation_data.use_tweak_mode = True
    assert obj.animation_data.use_tweak_mode
    with pytest.raises(IKError, match=r"tweak mode: leave it"):
        write_keys(obj, [1, 2], [location_keys([8.0, 9.0])])


def test_nla_that_changes_what_plays_is_noted(obj: Any) -> None:
    keys = [location_keys([1.0, 2.0])]
    write_keys(obj, [1, 2], keys)
    push_down(obj)
    assert write_keys(obj, [1, 2], keys).notes == ()  # replaces what is below: the keys play as they are
    obj.animation_data.action_influence = 0.5
    assert "blended" in write_keys(obj, [1, 2], keys).notes[0]
    obj.animation_data.nla_tracks[0].is_solo = True
    assert "solo" in write_keys(obj, [1, 2], keys).notes[0]


def test_linked_action_and_linked_object_are_refused(tmp_path: Path, obj: Any) -> None:
    write_keys(obj, [1, 2], [location_keys([1.0, 2.0])])
    library = str(tmp_path / "library.blend")
    bpy.data.libraries.write(library, {obj})
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    libraries: Any = bpy.data.libraries
    with libraries.load(library, link=True) as (_, target):
        target.objects, target.actions = ["chain"], ["chain Poise Bake"]
    local = chain(1, name="local")
    local.animation_data_create().action = target.actions[0]
    linked: Any = target.objects[0]
    keys = [location_keys([8.0, 9.0])]
    with pytest.raises(IKError, match=r"action 'chain Poise Bake' of 'local' is linked.*make it local"):
        write_keys(local, [1, 2], keys)
    with pytest.raises(IKError, match=r"object 'chain' is linked.*override"):
        write_keys(linked, [1, 2], keys)


def test_curves_of_samples_are_refused(obj: Any) -> None:
    write_keys(obj, [1, 20], [location_keys([1.0, 2.0])])
    curve_of(obj).convert_to_samples(1, 20)
    with pytest.raises(IKError, match=r"samples"):
        write_keys(obj, [1, 2], [location_keys([8.0, 9.0])])


# Reading


def test_sampling_agrees_with_blender_on_every_frame(obj: Any) -> None:
    odd_curve(obj)
    obj.pose.bones["bone.000"].location.y = 0.25
    frames = np.arange(-7.0, 33.0, 0.5)

    samples = animation.sample_channels(obj, [(LOCATION, 0), (LOCATION, 1)], frames)

    assert samples.shape == (80, 2) and (samples[:, 1] == 0.25).all()
    for frame, value in zip(frames, samples[:, 0], strict=True):
        bpy.context.scene.frame_set(int(np.floor(frame)), subframe=frame % 1)
        assert obj.pose.bones["bone.000"].location.x == pytest.approx(value, abs=1e-6)


def test_a_muted_curve_samples_as_the_value_that_stays(obj: Any) -> None:
    write_keys(obj, [1, 2], [location_keys([1.0, 2.0])])
    curve_of(obj).mute = True
    obj.pose.bones["bone.000"].location.x = 0.5
    assert animation.sample_channels(obj, [(LOCATION, 0)], [1, 2, 3]).tolist() == [[0.5]] * 3


# Speed, as counts


def bulk_calls(call: Callable[[], object]) -> list[str]:
    """List the calls of foreach_get and foreach_set, in order."""
    calls: list[str] = []

    def profile(_frame: Any, event: str, argument: Any) -> None:
        if event == "c_call" and argument.__name__ in ("foreach_get", "foreach_set"):
            calls.append(argument.__name__)

    previous = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(previous)
    return calls


def full_bake(obj: Any, frames: int) -> Callable[[], WriteResult]:
    """38 bones of a chain, rotation as quaternions: 152 F-curves."""
    values = np.tile([1.0, 0.0, 0.0, 0.0], (frames, 1))
    keys = [k for b in obj.pose.bones for k in animation.bone_keys(b.name, "rotation_quaternion", values)]
    return lambda: write_keys(obj, np.arange(frames), keys)


def test_38000_keys_take_one_call_per_attribute_and_curve() -> None:
    obj = chain(38)
    results: list[WriteResult] = []
    calls = bulk_calls(lambda: results.append(full_bake(obj, 250)()))
    assert results[0].keys == 38_000
    assert calls == ["foreach_set"] * (len(KEY_ATTRIBUTES) * 152)

    again = bulk_calls(full_bake(obj, 250))  # now there are older keys, which are read first
    assert again.count("foreach_set") == again.count("foreach_get") == len(KEY_ATTRIBUTES) * 152


def test_the_work_in_python_does_not_grow_with_the_frames() -> None:
    lines: list[int] = []
    # Each in a file of its own, as the number of objects counts; later what is kept of so many keys is there.
    for frames in (2, 250, 2, 250):
        bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
        lines.append(lines_run(full_bake(chain(38), frames)))
    assert lines[2] == lines[3]


# Others that play the same slot


WITHOUT_POSE = """
import os, sys
import bpy
import blender_ik_addon
from blender_ik_addon.scene import posing
from tests.scene import builders

blender_ik_addon.register()
bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
rig = builders.humanoid("Rig")
posing.add_effector(rig, "hand.L")
spare = bpy.data.objects.new("Spare", bpy.data.armatures.new("Spare"))
case = sys.argv[1]
if case == "another scene":
    bpy.data.scenes.new("Other").collection.objects.link(spare)
if case == "excluded":
    hidden = bpy.data.collections.new("Hidden")
    bpy.context.scene.collection.children.link(hidden)
    bpy.context.view_layer.layer_collection.children["Hidden"].exclude = True
    hidden.objects.link(spare)
if case == "library":
    path = os.path.join(sys.argv[2], "library.blend")
    bpy.data.libraries.write(path, {spare})
    bpy.data.objects.remove(spare)
    with bpy.data.libraries.load(path) as (_, wanted):
        wanted.objects = ["Spare"]
    spare = wanted.objects[0]
assert spare.pose is None
report = posing.bake(rig, range(1, 3))
job = posing.BakeJob(rig, range(1, 3))
while job.progress < 0.8:
    job.step()
job.cancel()
posing.key_pose(rig)
assert spare.pose is None
blender_ik_addon.unregister()
print("baked", report.keys, flush=True)
os._exit(0)
"""
"""In a process of its own: what it does has ended Blender."""


@pytest.mark.parametrize("case", ["in no scene", "another scene", "excluded", "library"])
def test_a_bake_survives_armatures_that_have_no_pose(case: str, tmp_path: Path):
    root = Path(__file__).parents[2]
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT_POSE, case, str(tmp_path)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert "baked" in found.stdout


@pytest.mark.parametrize("way", ["action", "strip", "constraint", "bone"])
def test_others_that_play_the_same_slot_are_told(way: str):
    obj = chain(2)
    write_keys(obj, [1, 2], [location_keys([0.0, 1.0])])
    animation = obj.animation_data
    other = chain(2, name="other")
    bystander = chain(2, name="bystander")
    bystander.animation_data_create()
    assign_slot(bystander, animation.action, "bystander")
    if way == "action":
        other.animation_data_create().action = animation.action
        other.animation_data.action_slot = animation.action_slot
    elif way in ("constraint", "bone"):
        owner = other if way == "constraint" else other.pose.bones[0]
        constraint = owner.constraints.new('ACTION')
        constraint.action, constraint.action_slot = animation.action, animation.action_slot
    else:
        track = other.animation_data_create().nla_tracks.new()
        action: Any = animation.action
        strip: Any = track.strips.new("strip", 1, action)
        strip.action_slot = animation.action_slot
    written = write_keys(obj, [1, 2], [location_keys([0.0, 1.0])])
    assert written.notes == ("the same action slot also moves other",)

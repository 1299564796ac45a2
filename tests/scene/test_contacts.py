# SPDX-License-Identifier: GPL-3.0-or-later
"""Contacts of feet and hands: keyed spans, targets that rest in them, and what is refused."""

from math import radians
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon import cli
from blender_ik_addon.core import IKError
from blender_ik_addon.core.motion import spans
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.animation.fcurves import own_curves, read_keys, sample_channels
from blender_ik_addon.scene.matching.contacts import GROUP_OF_CONTACTS
from blender_ik_addon.scene.properties.settings import effector_path

from .bakes import cancel_at
from .builders import basic_human_metarig, empty

FRAMES = range(1, 25)
LIFTED = (11, 15)
"""First and last frame at which the left foot is well above the floor."""


def walking(size: float = 1.0) -> Any:
    """A figure that slides to the side, lifts its left foot once, and has keyed targets."""
    bpy.context.scene.render.fps = 16
    figure: Any = basic_human_metarig()
    figure.scale = (size, size, size)
    for bone in figure.pose.bones:
        bone.rotation_mode = 'XYZ'
    hips = figure.pose.bones["spine"]
    for frame, way in ((FRAMES[0], 0.0), (FRAMES[-1], 0.1)):
        hips.location = (way, 0.0, 0.0)
        hips.keyframe_insert("location", frame=frame)
    for frame, part in ((8, 0.0), (11, 1.0), (15, 1.0), (18, 0.0)):
        for name, angle in (("thigh.L", -50.0), ("shin.L", 70.0)):
            bone = figure.pose.bones[name]
            bone.rotation_euler.x = radians(angle * part)
            bone.keyframe_insert("rotation_euler", frame=frame)
    posing.targets_from_animation(figure)
    bpy.context.scene.frame_set(FRAMES[0])
    return figure


def row_of(figure: Any, name: str) -> int:
    return figure.poise.effectors.find(name)


def planted(figure: Any, name: str, which: str = "contact") -> list[tuple[int, int]]:
    """Spans of frames in which an effector is in contact, as (first, last)."""
    on = sample_channels(figure, [(effector_path(row_of(figure, name), which), 0)], FRAMES)[:, 0] > 0.5
    return [(FRAMES[a], FRAMES[b - 1]) for a, b in spans(on)]


def places(figure: Any, name: str, frames: range = FRAMES) -> np.ndarray:
    """World matrices of the target of an effector, (F, 4, 4)."""
    found = []
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        found.append(np.array(figure.poise.effectors[name].target.matrix_world))
    return np.array(found)


def keys_of(figure: Any) -> list[bytes]:
    """All keys of targets and of the armature."""
    owners = [figure, *(entry.target for entry in figure.poise.effectors if entry.target)]
    return [
        read_keys(curve)["co"].tobytes() for own in owners for _, curve in sorted(own_curves(own).items())
    ]


@pytest.mark.parametrize("size", [1.0, 100.0])
def test_contacts_are_keys_that_the_dope_sheet_shows(size: float) -> None:
    figure = walking(size)
    assert posing.find_contacts(figure).contacts == (2, 1)
    for which in "contact", "contact_toe":
        (first, before), (after, last) = planted(figure, "foot.L", which)
        assert (first, last) == (FRAMES[0], FRAMES[-1]) and 7 <= before < LIFTED[0] < LIFTED[1] < after <= 19
        assert planted(figure, "foot.R", which) == [(FRAMES[0], FRAMES[-1])]
    assert planted(figure, "hand.L") == []
    curve = own_curves(figure)[effector_path(row_of(figure, "foot.L"), "contact"), 0]
    assert curve.group.name == GROUP_OF_CONTACTS
    assert [key.interpolation for key in curve.keyframe_points] == ['CONSTANT'] * 3
    assert {round(key.co.x) for key in curve.keyframe_points} <= posing.contact_borders(figure)
    foot = figure.poise.effectors["foot.L"]
    for frame, on in ((FRAMES[0], True), (LIFTED[0], False), (FRAMES[-1], True)):
        bpy.context.scene.frame_set(frame)
        assert foot.contact == on


def test_feet_do_not_slide_where_they_are_planted_and_locking_twice_changes_nothing() -> None:
    figure = walking()
    before = {name: places(figure, name) for name in ("foot.L", "foot.R", "hand.L")}
    bpy.context.scene.frame_set(7)
    report = posing.lock_contacts(figure)
    assert report.effectors == ("foot.L", "foot.R") and 0.05 < report.slide < 0.11 and report.moved < 0.06
    assert bpy.context.scene.frame_current == 7
    keyed = keys_of(figure)
    assert posing.lock_contacts(figure).keys == 0 and posing.find_contacts(figure).kept
    assert keys_of(figure) == keyed
    for name in "foot.L", "foot.R":
        now = places(figure, name)
        for first, last in planted(figure, name):
            own = slice(first - FRAMES[0], last + 1 - FRAMES[0])
            assert np.ptp(before[name][own], axis=0).max() > 0.01
            assert np.ptp(now[own], axis=0).max() < 1e-6
        assert np.abs(now[12:13] - before[name][12:13]).max() < (1e-6 if name == "foot.L" else 1.0)
    assert np.abs(places(figure, "hand.L") - before["hand.L"]).max() < 1e-6
    posing.bake(figure, FRAMES)
    for name in "foot", "toe":
        feet = []
        for frame in FRAMES:
            bpy.context.scene.frame_set(frame)
            feet.append(figure.matrix_world @ figure.pose.bones[f"{name}.R"].head)
        assert np.ptp(np.array(feet), axis=0).max() < 1e-3


def test_spans_that_are_edited_in_the_dope_sheet_are_locked_again_from_the_path_as_it_was() -> None:
    figure = walking()
    before, row = places(figure, "foot.L"), row_of(figure, "foot.L")
    posing.lock_contacts(figure, [row], ease=0.0)
    last = planted(figure, "foot.L")[0][1]
    for which in "contact", "contact_toe":
        curve = own_curves(figure)[effector_path(row, which), 0]
        curve.keyframe_points[1].co.x = 6.0
        curve.update()
    assert posing.lock_contacts(figure, [row], ease=0.0).keys
    now = places(figure, "foot.L")
    assert planted(figure, "foot.L")[0] == (1, 5) and last > 6
    assert np.ptp(now[:5], axis=0).max() < 1e-6
    assert np.abs(now[5:last] - before[5:last]).max() < 1e-5 < np.abs(now[:5] - before[:5]).max()
    target = figure.poise.effectors["foot.L"].target
    target.keyframe_insert("location", frame=FRAMES[-1])  # by hand: this is the path from here on
    assert posing.lock_contacts(figure, [row], ease=0.0).keys == 0
    assert not posing.find_contacts(figure, replace=True).kept
    assert planted(figure, "foot.L")[0][1] > 5


def test_time_that_is_remapped_is_mapped() -> None:
    figure = walking()
    render = bpy.context.scene.render
    render.frame_map_new, render.fps = 300, 3 * render.fps  # three times as many frames, as fast as before
    frames, row = range(3 * FRAMES[0], 3 * FRAMES[-1] + 1), row_of(figure, "foot.L")
    before = places(figure, "foot.L", frames)
    assert posing.lock_contacts(figure, [row], ease=0.0).keys
    foot, on = figure.poise.effectors["foot.L"], []
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        on.append(foot.contact)
    (start, stop), (again, end) = spans(np.array(on))
    assert (start, end) == (0, len(frames)) and stop < 3 * LIFTED[0] < 3 * LIFTED[1] < frames[0] + again
    assert {frames[0], frames[stop], frames[again]} <= posing.contact_borders(figure)
    now = places(figure, "foot.L", frames)
    for own in (slice(start, stop), slice(again, end)):
        assert np.ptp(before[own], axis=0).max() > 0.01
        assert np.ptp(now[own], axis=0).max() < 1e-6
    assert np.abs(now[stop:again] - before[stop:again]).max() < 1e-5
    path = foot.contact_path
    assert posing.lock_contacts(figure, [row], ease=0.0).keys == 0 and foot.contact_path == path
    for which in "contact", "contact_toe":
        curve = own_curves(figure)[effector_path(row, which), 0]
        curve.keyframe_points[1].co.x = 5.0
        curve.update()
    assert posing.lock_contacts(figure, [row], ease=0.0).keys and foot.contact_path == path
    now = places(figure, "foot.L", frames)
    assert np.ptp(now[:12], axis=0).max() < 1e-6  # up to frame 14
    assert np.abs(now[12:stop] - before[12:stop]).max() < 1e-5


def test_a_hand_is_locked_to_a_thing_that_moves() -> None:
    figure = walking()
    thing = empty("Handle", (0.5, 0.0, 1.0))
    for frame in FRAMES:
        thing.location.z, thing.rotation_euler.z = 1.0 + 0.01 * frame, 0.02 * frame
        thing.keyframe_insert("location", frame=frame)
        thing.keyframe_insert("rotation_euler", frame=frame)
    hand = figure.poise.effectors["hand.L"]
    hand.contact_object, hand.contact = thing, True
    row = row_of(figure, "hand.L")
    hand.keyframe_insert("contact", frame=FRAMES[0])
    report = posing.lock_contacts(figure, [row])
    assert report.effectors == ("hand.L",)
    held = []
    for frame in FRAMES:
        bpy.context.scene.frame_set(frame)
        held.append(thing.matrix_world.inverted() @ hand.target.matrix_world.translation)
    assert np.ptp(np.array(held), axis=0).max() < 1e-5


@pytest.mark.parametrize("part", [0.0, 0.5, 0.9])
def test_cancelled_it_leaves_everything_as_it_was(part: float) -> None:
    figure = walking()
    bpy.context.scene.frame_set(5)
    before, actions = keys_of(figure), len(bpy.data.actions)
    job = posing.ContactsJob(figure)
    cancel_at(job, part)
    assert (keys_of(figure), len(bpy.data.actions), bpy.context.scene.frame_current) == (before, actions, 5)
    assert not job.step()
    with pytest.raises(IKError, match="was cancelled: begin again"):
        job.finish()


def test_the_buttons_do_the_same_in_one_step() -> None:
    by_script = walking()
    posing.lock_contacts(by_script, ease=0.25)
    wanted = keys_of(by_script)
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    by_button = walking()
    assert bpy.ops.poise.find_contacts() == {'FINISHED'}
    assert bpy.ops.poise.lock_contacts(ease=0.25) == {'FINISHED'}
    assert keys_of(by_button) == wanted


def test_the_command_line_locks_contacts_before_a_bake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    walking()
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "walk.blend"))
    ends = ("--start", "1", "--end", "6", "--lock-contacts", "--force", "--quiet", "--allow-misses")
    assert cli.run(["bake", str(tmp_path / "walk.blend"), *ends, "--output", str(tmp_path / "o.blend")]) == 0
    assert "Foot.L: 2 contacts, foot.R: 1 contact; locked" in capsys.readouterr().out
    assert np.ptp(places(bpy.data.objects["metarig"], "foot.R", FRAMES[:6]), axis=0).max() < 1e-6


def test_wrong_input_is_refused_and_changes_nothing() -> None:
    figure = walking()
    keyed = keys_of(figure)
    with pytest.raises(IKError, match="ease must be finite and not negative"):
        posing.lock_contacts(figure, ease=-1.0)
    with pytest.raises(IKError, match="there is none at 99"):
        posing.find_contacts(figure, [99])

    def stop(part: float) -> None:
        if part > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        posing.lock_contacts(figure, progress=stop)
    assert keys_of(figure) == keyed
    foot = figure.poise.effectors["foot.L"].target
    curve = own_curves(foot)["location", 0]
    curve.keyframe_points[4].co.y = np.nan
    with pytest.raises(IKError, match=r"the target of 'foot\.L' is nowhere in frame 5: look at its keys"):
        posing.lock_contacts(figure)
    curve = own_curves(foot)["location", 0]
    curve.keyframe_points[4].co.y = 0.1
    assert posing.lock_contacts(figure, frames=[7]).keys == 0  # one frame is at rest
    for entry in figure.poise.effectors:
        if entry.target is not None:
            entry.target.animation_data_clear()
    with pytest.raises(IKError, match="no target of a foot or a hand of 'metarig' has keys"):
        posing.lock_contacts(figure)
    bpy.ops.object.armature_add()
    alone: Any = bpy.context.object
    posing.add_effector(alone, "Bone")
    with pytest.raises(IKError, match="no effector of 'Armature' holds a foot or a hand"):
        posing.find_contacts(alone)

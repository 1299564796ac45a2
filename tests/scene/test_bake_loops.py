# SPDX-License-Identifier: GPL-3.0-or-later
"""Bakes that are loops: closed in pose and speed, repeated by F-curves, with the travel of a walk."""

from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.core import IKError
from blender_ik_addon.scene import posing

from . import builders
from .actions import channelbag_of
from .bakes import WAYS, bake_by, cancel_at
from .measured import played
from .records import action_record, pose_record

FIRST, LAST = 1, 25
PERIOD = LAST - FIRST
NUMBERS = (1, 10, -2)
"""Of rounds that are compared with the first one."""
STRIDE = np.array((0.0, -1.2, 0.0))


def circling(turn: float = 2.0 * np.pi) -> Any:
    """Four bones whose tip goes round, by a turn [rad] until the last frame."""
    places = {
        frame: (0.35 * np.cos(angle), 0.35 * np.sin(angle), 0.6 + 0.1 * np.sin(2.0 * angle))
        for frame, angle in zip(range(FIRST, LAST + 1), np.linspace(0.0, turn, PERIOD + 1), strict=True)
    }
    return builders.following_arm(places, LAST)


def walking() -> Any:
    """A figure with keyed targets of its feet and hands that goes on by a stride in each round."""
    figure: Any = builders.humanoid("walker")
    posing.setup_character(figure)
    phases = {"foot.L": 0.0, "foot.R": np.pi, "hand.L": np.pi, "hand.R": 0.0}
    for name, phase in phases.items():
        entry = figure.poise.effectors[name]
        entry.state = 'REACH'
        begin = np.array(entry.target.location) * (0.8, 1.0, 1.0)  # within reach wherever the hips are
        for frame in range(FIRST, LAST + 1):
            part = (frame - FIRST) / PERIOD
            angle = 2.0 * np.pi * part + phase
            lift = 0.08 * (1.0 - np.cos(angle)) if name.startswith("foot") else 0.0
            entry.target.location = begin + part * STRIDE + (0.0, -0.12 * np.sin(angle), lift)
            entry.target.keyframe_insert("location", frame=frame)
    figure.poise.effectors["head"].state = 'OFF'
    scene: Any = bpy.context.scene
    scene.frame_start, scene.frame_end = FIRST, LAST
    scene.frame_set(FIRST)
    return figure


def drift(obj: Any, travel: Any = (0.0, 0.0, 0.0)) -> tuple[float, float]:
    """Largest angle [°] and distance [m] between rounds, beside the travel."""
    angles, distances = [], []
    for time in np.arange(FIRST, LAST, 3.7):
        once, *rounds = played(obj, time + PERIOD * np.array((0, *NUMBERS)))
        for number, again in zip(NUMBERS, rounds, strict=True):
            # Twice the sine of half the angle is the way of an axis: exact where the angle is small.
            way = np.linalg.norm(again[:, :3, :3] - once[:, :3, :3], axis=(1, 2)) / np.sqrt(2.0)
            angles.append(np.degrees(way).max())
            moved = again[:, :3, 3] - once[:, :3, 3] - number * np.array(travel)
            distances.append(np.linalg.norm(moved, axis=1).max())
    return max(angles), max(distances)


def seam(obj: Any) -> tuple[float, float]:
    """Largest difference of the slopes at both ends of an F-curve, and largest slope, by frame."""
    apart, largest = 0.0, 0.0
    for curve in channelbag_of(obj).fcurves:
        if len(curve.keyframe_points) > 1:
            first, last = curve.keyframe_points[0], curve.keyframe_points[-1]
            before = (last.co[1] - last.handle_left[1]) / (last.co[0] - last.handle_left[0])
            after = (first.handle_right[1] - first.co[1]) / (first.handle_right[0] - first.co[0])
            apart, largest = max(apart, abs(after - before)), max(largest, abs(after))
    return apart, largest


@pytest.mark.parametrize("options", [{}, {"step": 4}, {"fewest": True}], ids=str)
@pytest.mark.parametrize("mode", ['QUATERNION', 'XYZ'])
def test_a_loop_closes_in_pose_and_speed_and_does_not_drift(mode: str, options: Any) -> None:
    arm = circling()
    for bone in arm.pose.bones:
        bone.rotation_mode = mode
    report = posing.bake(arm, 'SCENE', loop=True, **options)
    assert report.reached, report.summary()
    np.testing.assert_allclose(*played(arm, (FIRST, LAST)), atol=1e-6)
    apart, largest = seam(arm)
    assert apart < 0.01 * largest
    angle, distance = drift(arm)
    assert angle < 0.01 and distance < 1e-5
    for curve in channelbag_of(arm).fcurves:
        moves = len(curve.keyframe_points) > 1
        assert [(own.type, own.mode_before, own.mode_after) for own in curve.modifiers] == (
            [('CYCLES', 'REPEAT', 'REPEAT')] if moves else []
        )


@pytest.mark.parametrize("fewest", [False, True])
def test_a_walk_goes_on_with_each_round(fewest: bool) -> None:
    figure = walking()
    report = posing.bake(figure, 'SCENE', loop=True, fewest=fewest)
    assert report.reached, report.summary()
    assert "the loop travels by 1200 mm each round" in report.notes and not report.pops
    angle, distance = drift(figure, STRIDE)
    assert angle < 0.01 and distance < 1e-4
    apart, largest = seam(figure)
    assert apart < 0.01 * largest
    offsets = {
        curve.data_path
        for curve in channelbag_of(figure).fcurves
        if any(own.mode_after == 'REPEAT_OFFSET' for own in curve.modifiers)
    }
    assert offsets == {'pose.bones["hips"].location'}


def test_an_influence_in_a_walk_begins_at_what_goes_along_with_it() -> None:
    """It was measured against where the figure had stood, and missed by up to half the stride."""
    figure = walking()
    figure.poise.effectors["hand.L"].influence = 0.5
    report = posing.bake(figure, 'SCENE', loop=True)
    assert report.reached, report.summary()


def test_angles_that_go_all_the_way_round_go_on() -> None:
    arm: Any = builders.chain(1, name="arm")
    bone = arm.pose.bones["bone.000"]
    bone.rotation_mode = 'XYZ'
    arm.poise.move_root = False
    arm.poise.effectors[posing.add_effector(arm, "bone.000")].kind = 'ORIENTATION'
    target = arm.poise.effectors[0].target
    target.rotation_mode = 'XYZ'
    for frame in (FIRST, LAST):
        target.rotation_euler = (0.0, 0.0, 2.0 * np.pi * (frame - FIRST) / PERIOD)
        target.keyframe_insert("rotation_euler", frame=frame)
    for curve in channelbag_of(target).fcurves:
        for key in curve.keyframe_points:
            key.interpolation = 'LINEAR'
    report = posing.bake(arm, range(FIRST, LAST + 1), loop=True)
    assert report.reached
    assert drift(arm)[0] < 0.01
    (turning,) = [
        curve
        for curve in channelbag_of(arm).fcurves
        if any(own.mode_after == 'REPEAT_OFFSET' for own in curve.modifiers)
    ]
    ends = turning.evaluate(FIRST), turning.evaluate(FIRST + 3 * PERIOD)
    assert abs(ends[1] - ends[0]) == pytest.approx(6.0 * np.pi, abs=1e-4)


def test_ends_that_are_far_apart_are_told_with_amounts() -> None:
    arm = circling(turn=1.9 * np.pi)
    report = posing.bake(arm, 'SCENE', loop=True)
    target = arm.poise.effectors[0].target
    ends = []
    for frame in (FIRST, LAST):
        bpy.context.scene.frame_set(frame)
        ends.append(np.array(target.matrix_world.translation))
    apart = 1e3 * np.linalg.norm(ends[1] - ends[0])
    (note,) = [own for own in report.notes if own.startswith("from frame 25 back to 1 targets jump by")]
    assert f"{apart:.0f} mm (bone.003)" in note
    assert not report.reached and report.worst_frames == (LAST,)
    assert report.reasons == (f"the loop closes with the targets and settings of frame {FIRST}",)
    assert drift(arm)[0] < 0.01


def test_settings_that_differ_at_the_ends_are_told() -> None:
    """A flip at the end has its reason in them."""
    arm = circling()
    posing.add_effector(arm, "bone.001", kind='DISTANCE')
    tip, middle = arm.poise.effectors
    middle.influence = 0.1
    for frame, influence, distance in ((FIRST, 1.0, 0.5), (LAST, 0.25, 0.2)):
        tip.influence, middle.distance = influence, distance
        tip.keyframe_insert("influence", frame=frame)
        middle.keyframe_insert("distance", frame=frame)
    notes = [own for own in posing.bake(arm, 'SCENE', loop=True).notes if "settings of effectors" in own]
    assert notes == [
        "from frame 25 back to 1 settings of effectors jump: Influence of bone.003 from 0.25 to 1, Distance "
        "of bone.001 from 200 mm to 500 mm. The loop closes with those of frame 1"
    ]
    arm.animation_data_clear()
    report = posing.bake(arm, 'SCENE', loop=True)
    assert not any("settings of effectors" in own for own in report.notes)


def test_a_loop_whose_targets_end_a_little_elsewhere_is_the_same_loop() -> None:
    """The end of the targets' motion does not count: pose and speed at both ends are those of a loop."""
    found: list[Any] = []
    for gap in (0.0, 0.01):
        arm = circling()
        target = arm.poise.effectors[0].target
        bpy.context.scene.frame_set(LAST)
        target.location.z += gap
        target.keyframe_insert("location", frame=LAST)
        for curve in channelbag_of(target).fcurves:
            for key in curve.keyframe_points:
                key.interpolation = 'LINEAR'
        posing.bake(arm, 'SCENE', loop=True)
        found.append(played(arm, range(FIRST, LAST + 1)))
        bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_a_loop_is_asked_for_in_each_way(way: str) -> None:
    arm = circling()
    bake_by(way, arm, loop=True)
    assert all(curve.modifiers[0].type == 'CYCLES' for curve in channelbag_of(arm).fcurves)


def test_a_strip_that_replaces_is_a_loop_of_its_own() -> None:
    arm = circling()
    posing.bake(arm, 'SCENE', loop=True, to='STRIP', blend='REPLACE')
    (strip,) = [own for track in arm.animation_data.nla_tracks for own in track.strips]
    once = played(arm, (FIRST, FIRST + 5))
    strip.action_frame_end = LAST + 2 * PERIOD
    again = played(arm, (FIRST + 2 * PERIOD, FIRST + 5 + 2 * PERIOD))
    np.testing.assert_allclose(again, once, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"frames": [3, 4]}, "at least 3 frames, got 2"),
        ({"ease_in": 2}, "cannot be eased"),
        ({"to": 'STRIP', "blend": 'COMBINE'}, "needs the blend Replace"),
        ({"frames": range(4, 12)}, "keys of a curve, and there are some outside of frames 4 to 11"),
        ({}, "Cycles as the only modifier of its F-curves"),
    ],
)
def test_what_is_no_loop_is_refused_and_nothing_is_changed(options: Any, words: str) -> None:
    arm = circling()
    posing.bake(arm, 'SCENE')
    if not options:
        channelbag_of(arm).fcurves[2].modifiers.new('NOISE')
    bpy.context.scene.frame_set(FIRST)
    before = action_record(arm), pose_record(arm)
    with pytest.raises(IKError, match=words):
        posing.bake(arm, **({"frames": 'SCENE'} | options), loop=True)
    assert (action_record(arm), pose_record(arm)) == before


def test_a_cancelled_loop_takes_its_modifiers_back() -> None:
    arm = circling()
    posing.bake(arm, 'SCENE')
    curve = channelbag_of(arm).fcurves[0]
    curve.modifiers.new('CYCLES').mode_after = 'MIRROR'
    bpy.context.scene.frame_set(FIRST)
    before = action_record(arm), pose_record(arm)
    cancel_at(posing.BakeJob(arm, 'SCENE', loop=True), 0.9)
    assert (action_record(arm), pose_record(arm)) == before
    assert [own.mode_after for own in channelbag_of(arm).fcurves[0].modifiers] == ['MIRROR']

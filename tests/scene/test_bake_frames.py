# SPDX-License-Identifier: GPL-3.0-or-later
"""Which frames a bake keys: ranges and step, in panel, script, operator and command line; what is between."""

import json
import math
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from mathutils import Vector

from blender_ik_addon import cli
from blender_ik_addon.cli.exit_codes import Exit
from blender_ik_addon.core import IKError
from blender_ik_addon.scene import posing

from . import builders
from .actions import channelbag_of
from .bakes import WAYS, bake_by, cancel_at
from .measured import misses, played
from .records import pose_record


@pytest.fixture
def arm() -> Any:
    """Four bones whose tip follows an empty with keys on frames 2, 9 and 16; the scene is frames 1 to 20."""
    return builders.following_arm({2: (0.4, 0.2, 0.5), 9: (0.3, -0.4, 0.6), 16: (0.5, 0.1, 0.3)}, 20)


def select_keys(obj: Any, *frames: float) -> None:
    for curve in channelbag_of(obj).fcurves:
        for key in curve.keyframe_points:
            key.select_control_point = round(key.co[0]) in frames


def key_frames(obj: Any) -> list[tuple[float, ...]]:
    """The frames of the keys of each F-curve, once each."""
    found = {tuple(key.co[0] for key in curve.keyframe_points) for curve in channelbag_of(obj).fcurves}
    return sorted(found)


def in_preview(arm: Any) -> None:
    scene: Any = bpy.context.scene
    scene.use_preview_range, scene.frame_preview_start, scene.frame_preview_end = True, 4, 7


def in_action(arm: Any) -> None:
    for frame in (3, 8.4):
        arm.pose.bones["bone.002"].keyframe_insert("rotation_quaternion", frame=frame)


def in_keys(arm: Any) -> None:
    select_keys(arm.poise.effectors[0].target, 2, 9)


def in_custom(arm: Any) -> None:
    arm.poise.bake_start, arm.poise.bake_end = -2, 3


RANGES: dict[str, tuple[Callable[[Any], None], range]] = {
    "SCENE": (lambda arm: None, range(1, 21)),
    "PREVIEW": (in_preview, range(4, 8)),
    "ACTION": (in_action, range(3, 10)),
    "KEYS": (in_keys, range(2, 10)),
    "CUSTOM": (in_custom, range(-2, 4)),
}
"""Range -> what makes it, and its frames."""


@pytest.mark.parametrize("which", RANGES)
@pytest.mark.parametrize("way", WAYS)
def test_each_range_is_baked_by_each_way(arm: Any, which: str, way: str):
    prepare, wanted = RANGES[which]
    prepare(arm)
    bake_by(way, arm, range=which)
    assert key_frames(arm)[-1] == tuple(wanted)
    assert posing.bake_range(arm, which)[0] == wanted[0]


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ("PREVIEW", "has no preview range"),
        ("ACTION", "'arm' has no action with keys"),
        ("KEYS", "no keys of 'arm' or its targets are selected"),
        ("CUSTOM", "is empty: it starts at 9 and ends at 2"),
        ("NONSENSE", "Range cannot be 'NONSENSE'"),
    ],
)
def test_a_range_that_is_not_there_is_refused_and_nothing_is_changed(arm: Any, which: str, words: str):
    select_keys(arm.poise.effectors[0].target)
    arm.poise.bake_start, arm.poise.bake_end = 9, 2
    before = pose_record(arm), bpy.context.scene.frame_current
    with pytest.raises(IKError, match=words):
        posing.bake(arm, which)
    assert arm.animation_data is None
    assert (pose_record(arm), bpy.context.scene.frame_current) == before


@pytest.mark.parametrize("step", [0, -3, 1.5, 0.01, float("nan"), True, "2"])
def test_a_step_that_is_neither_whole_nor_a_part_of_a_frame_is_refused(arm: Any, step: Any):
    with pytest.raises(IKError, match="step of a bake is a whole number"):
        posing.bake(arm, range(1, 9), step=step)
    assert arm.animation_data is None
    assert cli.run(["bake", "--step", "0"]) == Exit.REFUSED


@pytest.mark.parametrize("way", WAYS)
def test_a_step_keys_some_frames_and_the_last_one(arm: Any, way: str):
    bake_by(way, arm, step=6)
    assert key_frames(arm) == [(1.0, 7.0, 13.0, 19.0, 20.0)]


def endless() -> Iterator[int]:
    for frame in count(1):
        assert frame < 2_000_000, "frames are taken beyond the last one that there can be"
        yield frame


TAKERS: dict[str, Callable[[Any, Any], object]] = {
    "bake": posing.bake,
    "bake together": lambda arm, frames: posing.bake_together([arm], frames),
    "measure": posing.measure,
    "snap": lambda arm, frames: posing.snap_targets(arm, frames=frames),
}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize(
    ("frames", "words"),
    [
        (endless, "frame 1048575 cannot be baked: frames are whole numbers up to ±1048574"),
        (lambda: 5, "must be given one by one, as in range.1, 251., got 5"),
        (lambda: b"SCENE", "must be given one by one, as in range.1, 251., got b'SCENE'"),
    ],
)
def test_frames_that_cannot_be_are_refused_at_once(arm: Any, frames: Any, words: str, taker: str):
    posing.add_effector(arm, "bone.001")
    with pytest.raises(IKError, match=words):
        TAKERS[taker](arm, frames())


@pytest.mark.parametrize("step", [0.5, 6])
@pytest.mark.parametrize("way", WAYS)
def test_keys_at_those_of_targets_have_no_step(arm: Any, way: str, step: float):
    bake_by(way, arm, at_keys=True)
    wanted = key_frames(arm)
    arm.animation_data_clear()
    options: dict[str, Any] = {"at_keys": True, "step": step}
    if way == "command line":  # which takes one of them; the other is as in the settings
        arm.poise.bake_step = options.pop("step")
    bake_by(way, arm, **options)
    assert key_frames(arm) == wanted


@pytest.mark.parametrize("way", WAYS)
def test_a_step_below_1_keys_sub_frames(arm: Any, way: str):
    if report := bake_by(way, arm, step=0.5):
        assert report.reached and report.between == () and report.frames[:4] == (1, 1.5, 2, 2.5)
    assert key_frames(arm) == [tuple(np.arange(1.0, 20.25, 0.5).tolist())]
    assert misses(arm, np.arange(1.0, 20.25, 0.5))[:, 0].max() < 5e-4


def test_sub_frames_end_on_whole_frames(arm: Any):
    """The last step before a frame may be longer or shorter."""
    report = posing.bake(arm, range(4, 7), step=0.3)
    assert report.frames == (4, 4.3, 4.6, 5, 5.3, 5.6, 6)
    arm.poise.pop_angle = 1e-3
    report = posing.bake(arm, range(4, 12), step=0.5)
    assert posing.frames_to_look_at(arm) == list(report.frames_to_look_at)
    assert any(frame % 1.0 for frame, _ in report.frames_to_look_at)
    bpy.ops.poise.mark_frames()
    bpy.ops.poise.show_frame(frame=4.5)
    assert bpy.context.scene.frame_current_final == 4.5


def test_frames_that_are_given_are_not_thinned_by_the_settings(arm: Any):
    arm.poise.bake_step = 6
    assert posing.bake(arm, [2, 3, 5]).frames == (2, 3, 5)


def test_keys_of_a_step_are_those_of_the_whole_motion(arm: Any):
    """All frames are solved: what is keyed does not depend on how much is left out."""
    whole = posing.bake(arm, 'SCENE', step=1)
    frames = (1, 5, 9, 13, 17, 20)
    poses = played(arm, frames)
    arm.animation_data_clear()
    for bone in arm.pose.bones:
        bone.matrix_basis.identity()
    bpy.context.scene.frame_set(1)
    some = posing.bake(arm, 'SCENE', step=4)
    assert some.frames == frames and some.branches == whole.branches
    np.testing.assert_allclose(played(arm, frames), poses, atol=1e-5)


def test_what_is_missed_between_keys_is_measured_and_told_but_is_no_miss(arm: Any):
    report = posing.bake(arm, 'SCENE', step=4)
    assert report.reached
    assert report.between == tuple(frame for frame in range(1, 21) if frame not in report.frames)
    missed = misses(arm, report.between)[:, 0]
    np.testing.assert_allclose(report.position_errors_between[:, 0], missed, atol=1e-6)
    worst = float(report.position_errors_between.max())
    assert worst > arm.poise.tolerance_position
    (note,) = [note for note in report.notes if note.startswith("between keys targets are missed by up to")]
    assert f"frame {report.between[int(report.position_errors_between.argmax())]}" in note
    whole = posing.bake(arm, 'SCENE', step=1)
    assert whole.between == () and not any("between keys" in note for note in whole.notes)


def test_the_report_of_the_command_line_has_errors_between_keys(arm: Any, tmp_path: Path):
    report = tmp_path / "report.json"
    assert cli.run(["bake", "--step", "5", "--quiet", "--report", str(report)]) == Exit.REACHED
    content = json.loads(report.read_text())
    assert content["frames"] == [1, 6, 11, 16, 20]
    assert content["between"] == [frame for frame in range(1, 21) if frame not in content["frames"]]
    assert len(content["position_errors_between"]) == len(content["between"])
    assert content["rotation_errors_between"][0] == [None]


def test_start_and_end_and_another_range_are_not_both_given(arm: Any):
    assert cli.run(["bake", "--start", "1", "--end", "3", "--range", "scene"]) == Exit.REFUSED
    assert cli.run(["bake", "--range", "all"]) == Exit.REFUSED
    assert arm.animation_data is None


@pytest.mark.parametrize("way", WAYS)
def test_keys_where_targets_have_keys_and_breakdowns_where_they_are_needed(arm: Any, way: str):
    bake_by(way, arm, at_keys=True, deviation=0.01)
    (frames,) = key_frames(arm)
    assert {1.0, 2.0, 9.0, 16.0, 20.0} < set(frames) and len(frames) < 20
    for curve in channelbag_of(arm).fcurves:
        for key in curve.keyframe_points:
            animated = round(key.co[0]) in (1, 2, 9, 16, 20)
            assert key.type == ('KEYFRAME' if animated else 'BREAKDOWN')
    # Every frame is as near as was asked for; what is out of reach anyway is measured by the other tests.
    assert misses(arm, range(1, 21))[:, 0].max() < 0.01 + 5e-4


def test_a_smaller_deviation_takes_more_keys(arm: Any):
    counts: list[int] = []
    for deviation in (1.0, 0.02, 1e-6):
        arm.poise.bake_deviation = deviation
        report = posing.bake(arm, 'SCENE', at_keys=True)
        counts.append(len(report.frames))
        assert set(report.frames) | set(report.between) == set(range(1, 21))
        assert float(np.max(report.position_errors_between, initial=0.0)) <= deviation + 5e-4
    assert counts[0] == 5 and counts == sorted(counts) and counts[-1] == 20


def test_targets_without_keys_in_the_range_are_refused(arm: Any):
    with pytest.raises(IKError, match="no target of 'arm' has keys from frame 30 to 40"):
        posing.bake(arm, range(30, 41), at_keys=True)
    assert arm.animation_data is None
    assert cli.run(["bake", "--step", "2", "--at-keys"]) == Exit.REFUSED
    assert cli.run(["bake", "--deviation", "0"]) == Exit.REFUSED


def test_keys_outside_the_range_stay_and_those_inside_make_way(arm: Any):
    bone = arm.pose.bones["bone.002"]
    for frame in (-4, 3, 11, 40):
        bone.keyframe_insert("rotation_quaternion", frame=frame)
    posing.bake(arm, 'SCENE', step=10)
    assert (-4.0, 1.0, 11.0, 20.0, 40.0) in key_frames(arm)


def test_a_step_among_bones_that_move_with_the_rest_is_right_on_its_keys(arm: Any):
    constraint = arm.pose.bones["bone.001"].constraints.new('COPY_ROTATION')
    constraint.target, constraint.subtarget, constraint.influence = arm, "bone.000", 0.5
    report = posing.bake(arm, 'SCENE', step=4)
    assert report.reached, report.summary()
    assert misses(arm, report.frames)[:, 0].max() < 5e-4


@pytest.mark.parametrize("where", [{}, {"to": 'STRIP', "name": "turn", "blend": 'REPLACE'}])
@pytest.mark.parametrize("mode", ["QUATERNION", "AXIS_ANGLE", "XYZ", "ZXY"])
def test_parts_of_a_turn_meet_also_between_frames_in_whichever_order_they_are_baked(
    mode: str, where: dict[str, Any]
):
    """A bone turned about once between two parts, where the first of them was baked last."""
    arm = builders.chain(1)
    arm.pose.bones[0].rotation_mode = mode
    target = arm.poise.effectors[posing.add_effector(arm, "bone.000", kind='BOTH')].target
    target.rotation_mode = 'AXIS_ANGLE'
    for frame, angle in ((1, 0.0), (13, math.pi), (25, 2.0 * math.pi)):
        target.rotation_axis_angle = (angle, 0.96, 0.28, 0.0)
        target.keyframe_insert("rotation_axis_angle", frame=frame)
    scene: Any = bpy.context.scene
    scene.frame_start, scene.frame_end = 1, 25
    for part in (range(17, 26), range(1, 9)):
        posing.bake(arm, part, **where)
    later = played(arm, range(17, 26))
    cancel_at(posing.BakeJob(arm, range(9, 17), **where), 0.9)
    assert played(arm, range(17, 26)) == pytest.approx(later, abs=1e-6)
    posing.bake(arm, range(9, 17), **where)
    assert played(arm, range(17, 26)) == pytest.approx(later, abs=1e-6)
    turned = misses(arm, np.arange(1.0, 25.1, 0.25).tolist())[:, 1]
    assert np.degrees(turned.max()) < 1.0
    posing.bake(arm, range(1, 26), **where)  # keys that were turned are Poise's still: nothing is asked


def test_a_flip_where_effectors_begin_and_end_to_take_part_is_told(arm: Any):
    """The influence jumps, and so does the arm."""
    hand = arm.poise.effectors[0]
    for frame, influence in ((1, 0.0), (8, 1.0), (14, 0.0)):
        hand.influence = influence
        hand.keyframe_insert("influence", frame=frame)
    for key in channelbag_of(arm).fcurves[0].keyframe_points:
        key.interpolation = 'CONSTANT'
    for _again in range(2):
        report = posing.bake(arm, 'SCENE')
        assert {8, 14} <= set(report.branches) and "flips at frame 8" in report.summary()


def test_a_bake_that_goes_part_of_the_way_from_its_own_keys_says_so_and_hides_no_flips():
    """The keys of the first bake flip, too, and excused those of the second: 10° were said of 19°."""
    builders.basic_human_metarig()
    human: Any = bpy.context.view_layer.objects.active
    posing.setup_character(human)
    hand, place = human.poise.effectors["hand.R"], human.poise.effectors["hand.R"].target.location.copy()
    for frame, away in ((1, (0.0, 0.0, 0.0)), (25, (0.3, -0.6, 0.2)), (50, (0.0, 0.0, 0.0))):
        hand.target.location = place + Vector(away)
        hand.target.keyframe_insert("location", frame=frame)
    for frame, influence in ((1, 0.0), (12, 0.0), (18, 1.0), (35, 1.0), (42, 0.0)):
        hand.influence = influence
        hand.keyframe_insert("influence", frame=frame)
    largest = []
    for again in (False, True, True):
        report = posing.bake(human, range(1, 51))
        notes = [note for note in report.notes if "keys of an earlier bake" in note]
        assert len(notes) == again and all("('hand.R')" in note for note in notes)
        largest.append(max(pop.turn for pop in report.pops))
    assert largest == sorted(largest) and largest[-1] > 1.5 * largest[0]
    human.animation_data.action = None
    hand.influence = 1.0
    for _again in range(2):
        report = posing.bake(human, range(1, 51))
        assert not any("keys of an earlier bake" in note for note in report.notes)


def test_a_body_moves_on_evenly_where_an_influence_begins_and_ends():
    """To take hold of something: the bend of the arm goes along from how it was."""
    builders.basic_human_metarig()
    human: Any = bpy.context.view_layer.objects.active
    posing.setup_character(human)
    effectors = human.poise.effectors
    effectors["hips"].target.location.z -= 0.15
    effectors["hand.R"].target.location = (-0.3, -0.35, 0.9)
    for frame, influence in ((10, 0.0), (20, 1.0), (30, 1.0), (40, 0.0)):
        effectors["hand.R"].influence = influence
        effectors["hand.R"].keyframe_insert("influence", frame=frame)
    report = posing.bake(human, range(1, 51))
    assert report.reached
    by_frame = []
    for frame in range(1, 51):
        bpy.context.scene.frame_set(frame)
        by_frame.append([bone.matrix_basis.to_quaternion() for bone in human.pose.bones])
    angles = np.array(
        [
            [one.rotation_difference(b).angle for one, b in zip(*pair, strict=True)]
            for pair in pairwise(by_frame)
        ]
    )
    turns = np.degrees(np.minimum(angles, 2.0 * np.pi - angles))
    assert turns.max() < 15.0
    assert np.abs(np.diff(turns, axis=0)).max() < 15.0  # 35 where each part is a motion of its own
    still = [bone.name for bone in human.pose.bones].index("forearm.R")
    assert turns[:8, still].max() < 0.01 and turns[42:, still].max() < 0.01

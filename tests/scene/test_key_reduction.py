# SPDX-License-Identifier: GPL-3.0-or-later
"""Curves as Blender evaluates them, and bakes with the fewest keys."""

from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon import cli
from blender_ik_addon.cli.exit_codes import Exit
from blender_ik_addon.core import IKError
from blender_ik_addon.core.keys import BezierCurve
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.animation.fcurves import ChannelKeys, read_curve, write_keys
from blender_ik_addon.scene.live.overlay_geometry import Wanted, marks_of
from blender_ik_addon.scene.matching.contacts import key_contacts
from blender_ik_addon.ui import panels

from . import builders
from .actions import channelbag_of
from .bakes import WAYS, bake_by
from .measured import played

GRID = np.arange(1.0, 40.25, 0.5)
"""Frames, and the middles between them."""


@pytest.fixture
def arm() -> Any:
    """Four bones whose tip follows an empty; the scene is frames 1 to 40."""
    return builders.following_arm({1: (0.4, 0.2, 0.5), 15: (0.3, -0.4, 0.6), 30: (0.5, 0.1, 0.3)}, 40)


def tips(arm: Any) -> Any:
    """Where Blender shows the last bone, (G, 4, 4)."""
    return played(arm, GRID)[:, -1]


def count_keys(arm: Any) -> int:
    return sum(len(curve.keyframe_points) for curve in channelbag_of(arm).fcurves)


def test_curves_are_evaluated_as_blender_does():
    """Handles of all lengths, also past the key beside, flat, and without length."""
    obj: Any = builders.chain(1)
    random = np.random.default_rng(5)
    times = np.cumsum(random.uniform(1.0, 9.0, 30))
    for frame in times:
        obj.location.x = random.uniform(-2.0, 2.0)
        obj.keyframe_insert("location", index=0, frame=frame)
    (curve,) = channelbag_of(obj).fcurves
    for key in curve.keyframe_points:
        key.handle_left_type = key.handle_right_type = 'FREE'
        key.handle_left = key.co[0] - random.choice([0.0, random.uniform(0.0, 15.0)]), random.uniform(-3, 3)
        key.handle_right = key.co[0] + random.choice([0.0, random.uniform(0.0, 15.0)]), random.uniform(-3, 3)
    curve.update()
    grid = np.linspace(times[0] - 2.0, times[-1] + 2.0, 500)
    found = read_curve(curve, times[0], times[-1])
    np.testing.assert_allclose(found.evaluate(grid), [curve.evaluate(time) for time in grid], atol=2e-4)
    assert isinstance(found, BezierCurve)


def test_bones_without_keys_of_the_bake_may_move_between_frames(arm: Any):
    """What they do there is so with a key in each frame as well: it is no deviation, and costs no keys."""
    alone = posing.bake(arm, 'SCENE', fewest=True).keys
    arm.poise.effectors[0].chain_depth = 3
    bone = arm.pose.bones["bone.000"]
    bone.rotation_mode = 'XYZ'
    for frame, angle in ((1.0, 0.0), (20.0, 0.0), (20.5, 0.02), (21.0, 0.0), (40.0, 0.0)):
        bone.rotation_euler = (angle, 0.0, 0.0)
        bone.keyframe_insert("rotation_euler", frame=frame)
    posing.bake(arm, 'SCENE', replace=True)
    dense = tips(arm)
    report = posing.bake(arm, 'SCENE', fewest=True)
    worst = 1e3 * np.linalg.norm(tips(arm)[:, :3, 3] - dense[:, :3, 3], axis=1).max()
    (note,) = [note for note in report.notes if "deviate by up to" in note]
    assert float(note.split("up to ")[1].split(" mm")[0]) == pytest.approx(worst, abs=0.3) and worst <= 1.0
    assert report.keys <= 1.2 * alone


@pytest.mark.parametrize("way", WAYS)
def test_the_fewest_keys_play_within_the_deviation(arm: Any, way: str):
    posing.bake(arm, 'SCENE')
    dense, meant = count_keys(arm), tips(arm)
    if report := bake_by(way, arm, fewest=True):
        assert report.reached and report.keys == count_keys(arm)
        told = f"{dense} keys reduced to {report.keys}; bones of"
        assert any(note.startswith(told) for note in report.notes)
    assert 4 * count_keys(arm) < dense
    played = tips(arm)
    assert np.linalg.norm(played[:, :3, 3] - meant[:, :3, 3], axis=1).max() <= 1e-3
    turns = np.swapaxes(meant[:, :3, :3], 1, 2) @ played[:, :3, :3]
    assert (
        np.degrees(np.arccos(np.minimum(0.5 * (np.trace(turns, axis1=1, axis2=2) - 1.0), 1.0))).max() <= 0.5
    )


@pytest.mark.parametrize("to", ["NEW", "STRIP"])
def test_the_fewest_keys_go_elsewhere_as_well(arm: Any, to: str):
    posing.bake(arm, 'SCENE')
    dense, meant = count_keys(arm), tips(arm)
    for _ in range(2):
        report = posing.bake(arm, 'SCENE', fewest=True, to=to, name="Few", blend='REPLACE')
        assert report.reached and 4 * report.keys < dense
        assert np.linalg.norm(tips(arm)[:, :3, 3] - meant[:, :3, 3], axis=1).max() <= 1e-3
    own = bpy.data.actions[report.action]
    (bag,) = own.layers[0].strips[0].channelbags
    assert sum(len(curve.keyframe_points) for curve in bag.fcurves) == report.keys


@pytest.mark.parametrize("mode", ["QUATERNION", "XYZ"])
@pytest.mark.parametrize("blend", ["COMBINE", "ADD"])
def test_the_fewest_keys_play_over_what_is_below(arm: Any, blend: str, mode: str):
    """The bones swing on below, so that a strip with few keys alone would lead the tip astray."""
    for number, bone in enumerate(arm.pose.bones):
        bone.rotation_mode = mode
        for frame in range(1, 41, 3):
            swing = 0.5 * np.sin(0.4 * frame + number)
            if mode == "QUATERNION":
                bone.rotation_quaternion = (np.cos(swing), np.sin(swing), 0.0, 0.0)
                bone.keyframe_insert("rotation_quaternion", frame=frame)
            else:
                bone.rotation_euler = (swing, 0.3 * swing, 0.0)
                bone.keyframe_insert("rotation_euler", frame=frame)
    dense = posing.bake(arm, 'SCENE', to='STRIP', name="Over", blend=blend)
    meant = tips(arm)
    for _ in range(2):
        report = posing.bake(arm, 'SCENE', fewest=True, to='STRIP', name="Over", blend=blend)
        assert report.reached and 2 * report.keys < dense.keys
        assert np.linalg.norm(tips(arm)[:, :3, 3] - meant[:, :3, 3], axis=1).max() <= 1e-3


@pytest.mark.parametrize("fewest", [False, True])
def test_curves_that_are_constant_have_one_key_where_fewest_keys_is_on(arm: Any, fewest: bool):
    """The arm turns about one axis alone: other curves are constant."""
    target = arm.poise.effectors[0].target
    for curve in channelbag_of(target).fcurves:
        if curve.array_index == 0:
            for key in curve.keyframe_points:
                key.co[1] = 0.0
            curve.update()
    posing.bake(arm, 'SCENE', fewest=fewest)
    still = [
        curve for curve in channelbag_of(arm).fcurves if np.ptp([curve.evaluate(t) for t in GRID]) < 1e-7
    ]
    assert len(still) >= 4
    assert {len(curve.keyframe_points) for curve in still} == ({1} if fewest else {40})


def test_a_constant_curve_has_one_key_and_keeps_its_value_where_a_later_bake_sets_another():
    obj: Any = builders.chain(1)
    path, still = 'pose.bones["bone.000"].location', BezierCurve.with_slopes([1.0], [0.5], [0.0])
    constant = ChannelKeys(path, 0, np.full(10, 0.5), curve=still)
    assert write_keys(obj, np.arange(1.0, 11.0), [constant]).keys == 1
    write_keys(obj, np.arange(11.0, 21.0), [ChannelKeys(path, 0, np.linspace(2.0, 3.0, 10))])
    (curve,) = channelbag_of(obj).fcurves
    assert [curve.evaluate(frame) for frame in (1, 5.5, 10, 11)] == [0.5, 0.5, 0.5, 2.0]
    assert write_keys(obj, np.arange(1.0, 11.0), [constant]).keys == 2  # what comes after begins where it did
    assert [curve.evaluate(frame) for frame in (1, 5.5, 10, 11)] == [0.5, 0.5, 0.5, 2.0]


def test_one_frame_has_one_key_of_each_curve(arm: Any):
    posing.bake(arm, 'SCENE', fewest=True)
    curves = len(channelbag_of(arm).fcurves)
    report = posing.bake(arm, [20], fewest=True)
    assert (report.keys, report.notes) == (curves, ())


def test_what_the_fewest_keys_deviate_by_is_no_miss_in_the_list_and_the_view(arm: Any):
    entry, wanted = arm.poise.effectors[0], Wanted(targets=True)
    report = posing.bake(arm, 'SCENE', fewest=True, deviation=0.02)
    assert report.reached and entry.error_position > 2.0 * arm.poise.tolerance_position
    assert [missed for _, missed in panels.errors_of(arm.poise, entry)] == [False]
    measured = posing.measure(arm, 'SCENE')
    assert measured.reached and measured.deviation == pytest.approx(report.deviation)
    np.testing.assert_allclose(measured.position_errors, report.position_errors, atol=1e-6)
    bpy.context.scene.frame_set(int(report.worst_frames[0]))
    depsgraph = bpy.context.evaluated_depsgraph_get()
    assert not any(text.role == 'MISS' for text in marks_of(arm, depsgraph, wanted).texts)
    posing.bake(arm, 'SCENE')
    assert posing.measure(arm, 'SCENE').deviation == (0.0, 0.0)
    entry.target.location.z += 0.01  # nobody has asked for a deviation any more
    bpy.context.view_layer.update()
    assert any(text.role == 'MISS' for text in marks_of(arm, depsgraph, wanted).texts)


def test_a_deviation_of_nothing_is_refused(arm: Any):
    with pytest.raises(IKError, match="deviation must be above 0, got 0"):
        posing.bake(arm, 'SCENE', fewest=True, deviation=0.0)
    with pytest.raises(IKError, match="deviation_angle must be above 0, got 0"):
        posing.bake(arm, 'SCENE', fewest=True, deviation_angle=0.0)


def test_constraints_that_move_bones_on_are_measured_too(arm: Any):
    constraint = arm.pose.bones["bone.001"].constraints.new('COPY_ROTATION')
    constraint.target, constraint.subtarget, constraint.influence = arm, "bone.000", 0.5
    posing.bake(arm, 'SCENE')
    meant = tips(arm)
    posing.bake(arm, 'SCENE', fewest=True)
    assert np.linalg.norm(tips(arm)[:, :3, 3] - meant[:, :3, 3], axis=1).max() <= 1.1e-3


def test_a_step_and_the_fewest_keys_are_not_both_given(arm: Any):
    with pytest.raises(IKError, match="give a step or the fewest keys"):
        posing.bake(arm, range(1, 9), step=2, fewest=True)
    assert cli.run(["bake", "--step", "2", "--fewest-keys"]) == Exit.REFUSED
    assert cli.run(["bake", "--fewest-keys", "--deviation", "0"]) == Exit.REFUSED
    assert arm.animation_data is None


def test_all_curves_keep_keys_where_contacts_begin_and_end(arm):
    planted = (np.arange(1, 41) >= 12) & (np.arange(1, 41) < 23)
    key_contacts(arm, 0, range(1, 41), planted[:, None])
    posing.bake(arm, range(1, 41), fewest=True)
    curves = [curve for curve in channelbag_of(arm).fcurves if curve.data_path.startswith("pose.")]
    turning = [curve for curve in curves if len(curve.keyframe_points) > 1]
    assert turning
    for curve in turning:
        assert {12, 23} <= {round(key.co.x) for key in curve.keyframe_points}

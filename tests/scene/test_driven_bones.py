# SPDX-License-Identifier: GPL-3.0-or-later
"""Solve and Bake where constraints and drivers move bones with each solve: repeated until these rest."""

from math import radians
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.core import IKError
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.live.driven_bones import _Extrapolation

from . import builders
from .actions import channelbag_of
from .bakes import WAYS, bake_by, cancel_at
from .measured import misses, played
from .records import action_record, frame_changes, pose_record

HALF_MILLIMETRE, TENTH_DEGREE = 5e-4, radians(0.1)
FRAMES = range(1, 13)
KINDS = ["COPY_ROTATION", "COPY_TRANSFORMS", "STRETCH_TO", "ARMATURE", "DAMPED_TRACK", "DRIVER"]


def drive(armature: Any, expression: str) -> None:
    """Let a driver turn the third bone by how the first one is turned (`first`)."""
    driver = armature.pose.bones["bone.002"].driver_add("rotation_euler", 0).driver
    variable = driver.variables.new()
    variable.name, variable.type = "first", 'TRANSFORMS'
    variable.targets[0].id, variable.targets[0].bone_target = armature, "bone.000"
    variable.targets[0].transform_type, variable.targets[0].transform_space = 'ROT_X', 'LOCAL_SPACE'
    driver.expression = expression


def rig_with(kind: str) -> Any:
    """Six bones whose third one goes with others of the rig; the tip follows an empty that is keyed."""
    heights = [(0.0, 0.04 * (i % 2), 0.25 * i) for i in range(7)]
    bones: list[Any] = [
        (f"bone.{i:03d}", f"bone.{i - 1:03d}" if i else None, heights[i], heights[i + 1]) for i in range(6)
    ]
    bones.append(("beside", "bone.000", (0.2, 0.0, 0.75), (0.2, 0.0, 0.9)))
    armature: Any = builders.armature("rig", bones)
    armature.poise.move_root = False
    for bone in armature.pose.bones:
        bone.rotation_mode = 'XYZ'
    if kind == "DRIVER":
        drive(armature, "-0.7 * first")
    else:
        turned = armature.pose.bones["bone.002"]
        constraint: Any = turned.constraints.new("COPY_ROTATION" if kind == "UPRIGHT" else kind)
        if kind == "ARMATURE":
            for name, weight in (("bone.000", 0.6), ("beside", 0.4)):
                source = constraint.targets.new()
                source.target, source.subtarget, source.weight = armature, name, weight
        else:
            constraint.target, constraint.subtarget = armature, "beside"
            constraint.influence = 0.5
        if kind == "UPRIGHT":  # however its parent turns
            constraint.target, constraint.influence = bpy.data.objects.new("upright", None), 1.0
            constraint.target.matrix_world = turned.matrix
            bpy.context.scene.collection.objects.link(constraint.target)
        if kind == "STRETCH_TO":
            constraint.influence = 1.0
            armature.data.bones["bone.003"].inherit_scale = 'NONE'  # no bone turns in an uneven scale
    bpy.context.view_layer.update()
    index = posing.add_effector(armature, "bone.005")
    armature.poise.effectors[index].kind = 'BOTH'
    target = armature.poise.effectors[index].target
    begin, turn = np.array(target.location), np.array(target.rotation_euler)
    for frame, part in ((1, 0.0), (6, 0.6), (12, 1.0)):
        target.location = begin + part * np.array((0.25, -0.35, -0.4))
        target.rotation_euler = turn + part * np.array((0.8, 0.3, -0.4))
        target.keyframe_insert("location", frame=frame)
        target.keyframe_insert("rotation_euler", frame=frame)
    scene: Any = bpy.context.scene
    scene.frame_start, scene.frame_end = FRAMES[0], FRAMES[-1]
    scene.frame_set(1)
    return armature


@pytest.mark.parametrize("kind", KINDS)
def test_one_bake_is_right_where_bones_move_with_the_rest(kind: str):
    armature = rig_with(kind)
    report = posing.bake(armature, FRAMES)
    assert report.reached, report.summary()
    assert (misses(armature, FRAMES) < (HALF_MILLIMETRE, TENTH_DEGREE)).all()
    assert not any(report.reasons)


@pytest.mark.parametrize("kind", KINDS)
def test_one_solve_is_right_where_bones_move_with_the_rest(kind: str):
    armature = rig_with(kind)
    bpy.context.scene.frame_set(12)
    armature.poise.effectors[0].target.animation_data_clear()
    assert posing.solve_pose(armature).reached
    before = pose_record(armature)
    assert (misses(armature, [12]) < (HALF_MILLIMETRE, TENTH_DEGREE)).all()
    assert pose_record(armature) == before


def test_without_constraints_a_bake_plays_its_frames_once():
    armature = rig_with("COPY_ROTATION")
    constraint = armature.pose.bones["bone.002"].constraints[0]
    with frame_changes() as repeated:
        posing.bake(armature, FRAMES)
    armature.pose.bones["bone.002"].constraints.remove(constraint)
    with frame_changes() as once:
        posing.bake(armature, FRAMES)
    assert once == [*FRAMES, *FRAMES, 1]  # read, play, and back to the frame that was shown
    assert repeated[: 3 * len(FRAMES)] == [*FRAMES] * 3


def test_all_frames_are_played_in_each_pass():
    armature = rig_with("DRIVER")
    with frame_changes() as frames:
        posing.bake(armature, FRAMES)
    passes, rest = divmod(len(frames) - 1, len(FRAMES))
    assert passes >= 3 and rest == 0 and frames[:-1] == [*FRAMES] * passes


def test_bones_that_never_come_to_rest_are_reported_with_amount():
    armature = rig_with("DRIVER")
    armature.animation_data.drivers[0].driver.expression = "0.3 * sin(1e4 * first)"
    inside = FRAMES[5:]  # before that the body is all but straight, and what is moved takes it out of reach
    with frame_changes() as frames:
        report = posing.bake(armature, inside)
    assert not report.reached
    assert report.reasons[0].startswith("constraints keep moving bone.005 by ")
    # What is reported is what plays.
    worst = misses(armature, inside)[:, 0].max()
    assert float(np.max(report.position_errors)) == pytest.approx(worst, abs=1e-5)
    assert len(frames) < 30 * len(inside)
    solved = posing.solve_pose(armature)
    assert solved.reached or "constraints keep moving bone.005 by " in solved.message


def test_a_target_out_of_reach_keeps_its_own_reason_and_its_passes_end():
    armature = rig_with("COPY_ROTATION")
    target = armature.poise.effectors[0].target
    target.animation_data_clear()
    target.location = (0.0, 9.0, 0.0)
    bpy.context.view_layer.update()
    (tip,) = posing.solve_pose(armature).effectors
    assert "reach" in tip.why and "constraints" not in tip.why


@pytest.mark.parametrize("part", [0.2, 0.55, 0.8, 0.9])
def test_a_bake_that_is_cancelled_in_any_pass_leaves_everything_as_it_was(part: float):
    armature = rig_with("DRIVER")
    armature.pose.bones["bone.004"].keyframe_insert("rotation_euler", frame=3)
    bpy.context.scene.frame_set(5)
    before = pose_record(armature), action_record(armature), bpy.context.scene.frame_current
    cancel_at(posing.BakeJob(armature, FRAMES), part)
    assert (pose_record(armature), action_record(armature), bpy.context.scene.frame_current) == before


def test_the_progress_of_repeated_passes_rises():
    job = posing.BakeJob(rig_with("DRIVER"), FRAMES)
    told = [0.0]
    while job.step():
        told.append(job.progress)
    assert told == sorted(told) and told[-1] <= 1.0


def test_a_bake_on_bones_that_move_is_the_same_each_time():
    records: list[Any] = []
    for _ in range(2):
        bpy.ops.wm.read_homefile(use_empty=True)
        armature = rig_with("STRETCH_TO")
        posing.bake(armature, FRAMES)
        records.append(action_record(armature))
    assert records[0] == records[1]


def test_keys_before_the_bake_are_counted_once():
    armature = rig_with("DRIVER")
    for frame in FRAMES:
        armature.pose.bones["bone.004"].keyframe_insert("rotation_euler", index=0, frame=frame)
    report = posing.bake(armature, FRAMES)
    assert report.keys_replaced == len(FRAMES)
    for curve in channelbag_of(armature).fcurves:
        assert len(curve.keyframe_points) == len(FRAMES)


def constraints_of(armature: Any) -> dict[str, list[tuple[str, bool]]]:
    return {bone.name: [(own.name, own.mute) for own in bone.constraints] for bone in armature.pose.bones}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, {}) for kind in (*KINDS, "UPRIGHT") if kind != "DRIVER"),
        *(("STRETCH_TO", options) for options in ({"step": 3}, {"fewest": True})),
    ],
)
def test_constraints_that_are_cleared_leave_bones_where_they_were_solved(kind: str, options: Any):
    armature = rig_with(kind)
    armature.poise.bake_deviation = 2e-4  # of the effector's bone; others may deviate by more
    armature.pose.bones["beside"].constraints.new('LIMIT_SCALE')  # its bone is not baked
    armature.pose.bones["bone.004"].constraints.new('LIMIT_LOCATION').mute = True
    posing.bake(armature, FRAMES)
    wanted = played(armature, FRAMES)
    report = posing.bake(armature, FRAMES, clear_constraints=True, **options)
    left = constraints_of(armature)
    assert [name for name, own in left.items() if own] == ["beside"]
    assert report.reached, report.summary()
    now = played(armature, FRAMES)
    rows = [int(frame) - FRAMES[0] for frame in report.frames]
    most = 2e-3 if "fewest" in options else HALF_MILLIMETRE
    assert np.abs(now[rows] - wanted[rows])[..., :3, 3].max() < most


@pytest.mark.parametrize("way", WAYS)
def test_constraints_are_cleared_in_each_way(way: str):
    armature = rig_with("COPY_ROTATION")
    bake_by(way, armature, FRAMES, clear_constraints=True)
    assert not any(constraints_of(armature).values())


def test_constraints_are_not_cleared_where_only_locations_are_baked():
    armature = rig_with("COPY_ROTATION")
    with pytest.raises(IKError, match="choose both Channels"):
        posing.bake(armature, FRAMES, clear_constraints=True, channels='ROTATION')
    assert constraints_of(armature)["bone.002"] and armature.animation_data is None


def test_scales_that_differ_by_rounding_from_solve_to_solve_are_taken_as_they_are():
    """Steps of a thousandth made of them were uneven scales, under which no bone can turn."""
    rng, extrapolation = np.random.default_rng(2), _Extrapolation()
    place = np.array([0.0, 0.0, 0.0, 0.1, 0.2, 0.3, 1.0, 1.0, 1.0])
    for _ in range(4):
        taken, found = place + 1e-7 * rng.normal(size=(2, 1, 1, 9))
        found[..., 3:6] += 1e-3  # by as much each time: what differs from solve to solve is rounding alone
        following = extrapolation.next(taken, found)
        np.testing.assert_allclose(following[..., 6:], 1.0, atol=1e-6)

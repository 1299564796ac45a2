# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures of natural motion: what they say of motions whose answer is known."""

from dataclasses import replace
from math import radians
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from benchmarks import natural_clips
from benchmarks.natural_clips import Recording
from benchmarks.natural_measures import (
    bends,
    elevation,
    measure,
    overlooked_frames,
    shares,
    spine_joints,
)
from benchmarks.natural_raising import ARC, raised
from blender_ik_addon.core import Pose, forward_kinematics
from blender_ik_addon.core.roles import LimbKind, Role, Side, recognise
from blender_ik_addon.scene.armature import read_armature
from blender_ik_addon.scene.setup import setup_character

from . import builders


def recording(bones: dict[str, tuple[str, list[float]]], frames: int = 24) -> Recording:
    """A clip of the humanoid with bones turned about one of their axes along angles [°]."""
    figure: Any = builders.humanoid()
    for bone in figure.pose.bones:
        bone.rotation_mode = "XYZ"
    for name, (axis, angles) in bones.items():
        bone = figure.pose.bones[name]
        for frame in range(frames):
            share = frame / (frames - 1)
            bone.rotation_euler["xyz".index(axis)] = radians(np.interp(share, [0.0, 1.0], angles))
            bone.keyframe_insert("rotation_euler", frame=frame + 1)
    setup_character(figure)
    made = natural_clips.read_action(figure, bpy.data.actions[0], "test", "bvh/test.bvh", frames)
    assert made is not None
    return made


def test_what_was_recorded_is_reached_and_measured():
    clip = recording({"upper_arm.L": ("z", [0.0, 40.0]), "forearm.R": ("x", [0.0, 50.0])})
    row = measure(clip)
    assert row.reached == row.frames == 24 and row.worst_place < 1.0
    assert not row.held_out and row.violations == 0 and row.backwards == 0
    assert row.recorded_step == pytest.approx(50.0 / 23.0, rel=1e-3)


def test_nothing_of_the_recording_but_the_hips_is_in_the_start():
    clip = recording({"upper_arm.L": ("z", [0.0, 40.0]), "forearm.R": ("x", [0.0, 50.0])})
    start = clip.start.channels
    for name in ("upper_arm.L", "forearm.R", "shin.L"):
        joint = clip.skeleton.index(name)
        np.testing.assert_array_equal(np.ptp(start[:, joint], axis=0), 0.0)


def test_bends_have_the_sign_of_the_right_way():
    clip = recording({"forearm.L": ("x", [0.0, 30.0])})
    limb = clip.character.limbs_of(LimbKind.ARM, Side.LEFT)[0]
    skeleton, forearm = clip.skeleton, clip.skeleton.index("forearm.L")
    assert limb.bend_axis is not None
    own = skeleton.armature_from_joint_rest[forearm, :3, :3].T @ limb.bend_axis
    channel = int(np.argmax(np.abs(own)))
    given = []
    for angle in (-0.4, 0.0, 0.4):
        channels = np.zeros((1, len(skeleton), 6))
        channels[0, forearm, 3 + channel] = angle * np.sign(own[channel])
        matrices = forward_kinematics(skeleton, Pose.from_channels(channels)).matrices
        given.append(float(bends(skeleton, limb, matrices)[0]))
    assert given[0] < given[1] < given[2] and given[2] - given[0] == pytest.approx(np.degrees(0.8), rel=0.1)


def test_share_is_one_when_all_turn_alike_and_their_number_when_one_does_it_all():
    skeleton = read_armature(builders.humanoid()).skeleton
    character = recognise(skeleton)
    spine = [j for r in (Role.SPINE, Role.CHEST) for j in character.joints_of(r)]
    for turned, wanted in ((spine, 1.0), (spine[:1], float(len(spine)))):
        channels = np.zeros((3, len(skeleton), 6))
        channels[:, turned, 3] = 0.3
        matrices = forward_kinematics(skeleton, Pose.from_channels(channels)).matrices
        assert shares(skeleton, spine, matrices)[0] == pytest.approx(wanted, rel=1e-6)


def test_a_raised_collarbone_is_measured_in_the_chest():
    clip = recording({"shoulder.L": ("x", [0.0, 25.0]), "spine.001": ("x", [0.0, 30.0])})
    limb = clip.character.limbs_of(LimbKind.ARM, Side.LEFT)[0]
    first = clip.skeleton.index("shoulder.L")
    rest = clip.skeleton.armature_from_joint_rest[first, :3, :3]
    raised = elevation(clip, limb, clip.matrices)
    up = clip.character.figures[0].up
    axis = rest[:, 0]
    along = clip.skeleton.armature_from_joint_rest[limb.joints[1], :3, 3]
    along = along - clip.skeleton.armature_from_joint_rest[first, :3, 3]
    along = along / np.linalg.norm(along)
    turned = along * np.cos(radians(25.0)) + np.cross(axis, along) * np.sin(radians(25.0))
    turned = turned + axis * (axis @ along) * (1.0 - np.cos(radians(25.0)))
    wanted = np.degrees(np.arcsin(turned @ up) - np.arcsin(along @ up))
    assert raised[0] == pytest.approx(0.0, abs=1e-3) and raised[-1] == pytest.approx(wanted, abs=1e-2)


def test_files_are_in_the_order_of_their_names(tmp_path: Path):
    for name in ("b.bvh", "a.glb", "note.txt"):
        (tmp_path / name).write_text("", encoding="utf-8")
    assert [path.name for path in natural_clips.files(tmp_path)] == ["a.glb", "b.bvh"]
    assert spine_joints(recording({"spine.001": ("x", [0.0, 30.0])}))


def test_frames_are_overlooked_where_a_pose_is_there_and_not_where_limits_forbid_it():
    clip = recording({"forearm.R": ("x", [0.0, 50.0])})
    assert overlooked_frames(clip, [0, 23]) == [0, 23]
    narrow = clip.skeleton.upper.copy()
    joints = [joint for joint in range(len(clip.skeleton)) if clip.solved[joint]]
    narrow[joints, 3:] = np.minimum(narrow[joints, 3:], 0.01)
    low = np.maximum(clip.skeleton.lower, np.where(np.arange(6) >= 3, -0.01, -np.inf))
    stiff = replace(clip, skeleton=replace(clip.skeleton, lower=low, upper=narrow))
    assert overlooked_frames(stiff, [0, 23]) == [0]


def test_shoulders_follow_raised_hands():
    made = raised(recording({"forearm.R": ("x", [0.0, 50.0])}), "humanoid")
    assert made is not None and made.rises
    assert len(made.collars) == len(ARC) and made.reached >= len(ARC)
    assert made.at(180.0) > 3.0 and abs(made.at(30.0)) < 4.0


def test_frames_in_which_a_figure_has_no_size_are_left_out():
    figure: Any = builders.humanoid()
    for bone in figure.pose.bones:
        bone.rotation_mode = "XYZ"
    bone = figure.pose.bones["forearm.R"]
    hips = figure.pose.bones["hips"]
    for frame in range(24):
        bone.rotation_euler.x = 0.04 * frame
        bone.keyframe_insert("rotation_euler", frame=frame + 1)
        hips.scale = (1e-5, 1e-5, 1e-5) if frame < 3 else (1.0, 1.0, 1.0)
        hips.keyframe_insert("scale", frame=frame + 1)
    setup_character(figure)
    made = natural_clips.read_action(figure, bpy.data.actions[0], "test", "bvh/test.bvh", 24)
    assert made is not None and len(made.matrices) == len(made.pose.channels) == 21

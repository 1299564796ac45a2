# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits when the rest pose changes: *Apply Pose as Rest Pose*, edited bones, *Apply Rotation*."""

from math import radians
from typing import Any

import bpy
import numpy as np
import pytest
from mathutils import Matrix

from blender_ik_addon.scene import posing
from blender_ik_addon.scene.armature.armature import read_armature
from blender_ik_addon.scene.live import handlers
from blender_ik_addon.scene.translations import LANGUAGES

from . import builders

LOWER, UPPER, PREFERRED = (-5.0, -10.0, -15.0), (90.0, 10.0, 15.0), (20.0, 0.0, 0.0)
"""Limits and preferred angles of the middle bone [°]."""


@pytest.fixture
def arm() -> Any:
    """Three bones in Euler angles, the middle one with limits by hand."""
    made: Any = builders.chain(3)
    for bone in made.pose.bones:
        bone.rotation_mode = 'XYZ'
    entry = posing.own_limits(made, "bone.001")
    entry.use_limit = (True, True, True)
    entry.lower, entry.upper, entry.preferred = (
        [radians(angle) for angle in angles] for angles in (LOWER, UPPER, PREFERRED)
    )
    return made


def limits(armature: Any, bone: str = "bone.001") -> np.ndarray[Any, Any]:
    """Lower limits, upper limits and preferred angles of a bone, (3, 3) [°]."""
    entry = armature.poise.joints[bone]
    return np.degrees([entry.lower, entry.upper, entry.preferred])


def apply_pose(armature: Any) -> None:
    """Apply the pose of all bones as rest pose."""
    bpy.context.view_layer.objects.active = armature
    bpy.ops.object.mode_set(mode='POSE')
    bpy.ops.pose.armature_apply(selected=False)
    bpy.ops.object.mode_set(mode='OBJECT')
    bpy.context.view_layer.update()


def edit(armature: Any, bone: str, **values: Any) -> None:
    """Set values of a bone in Edit Mode."""
    bpy.context.view_layer.objects.active = armature
    bpy.ops.object.mode_set(mode='EDIT')
    for name, value in values.items():
        setattr(armature.data.edit_bones[bone], name, value)
    bpy.ops.object.mode_set(mode='OBJECT')
    bpy.context.view_layer.update()


def shift_target(armature: Any, part: str, z: float) -> None:
    armature.poise.effectors[part].target.location.z += z
    bpy.context.view_layer.update()


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_a_hinge_keeps_its_range(arm: Any, scale: float):
    arm.pose.bones["bone.000"].scale = [scale] * 3
    arm.pose.bones["bone.001"].rotation_euler.x = radians(50.0)
    apply_pose(arm)
    np.testing.assert_allclose(limits(arm), np.array([LOWER, UPPER, PREFERRED]) - (50.0, 0.0, 0.0), atol=1e-3)
    assert arm.poise.last_message == "Limits moved with the rest pose: 'bone.001'"
    assert arm.poise.joints["bone.001"].source == "by hand, moved with the rest pose"
    apply_pose(arm)  # nothing is posed any more
    np.testing.assert_allclose(limits(arm)[0], (-55.0, -10.0, -15.0), atol=1e-3)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_source_says_it_once_although_it_was_noted_in_another_language(arm: Any, language: str):
    arm.poise.joints["bone.001"].source = before = f"x, {LANGUAGES[language]['moved with the rest pose']}"
    arm.pose.bones["bone.001"].rotation_euler.x = radians(50.0)
    apply_pose(arm)
    assert limits(arm)[0, 0] < -50.0 and arm.poise.joints["bone.001"].source == before


def test_it_is_undone_with_the_pose(arm: Any):
    arm.pose.bones["bone.001"].rotation_euler.x = radians(50.0)
    bpy.ops.ed.undo_push(message="posed")
    apply_pose(arm)
    bpy.ops.ed.undo_push(message="applied")
    bpy.ops.ed.undo()
    bpy.context.view_layer.update()
    arm = bpy.data.objects["chain"]
    np.testing.assert_allclose(limits(arm), [LOWER, UPPER, PREFERRED], atol=1e-3)
    bpy.ops.ed.redo()
    bpy.context.view_layer.update()
    np.testing.assert_allclose(limits(bpy.data.objects["chain"])[0, 0], -55.0, atol=1e-3)


def test_knees_that_were_bent_in_the_new_rest_pose_can_be_straight():
    figure: Any = builders.basic_human_metarig()
    posing.setup_character(figure)
    before = limits(figure, "shin.L")
    shift_target(figure, "hips", -0.25)
    posing.solve_pose(figure)
    bend = np.degrees(figure.pose.bones["shin.L"].rotation_quaternion.to_euler('YZX').x)
    apply_pose(figure)
    np.testing.assert_allclose(limits(figure, "shin.L")[:, 0], before[:, 0] - bend, atol=0.1)
    shift_target(figure, "hips", 0.25)
    report = posing.solve_pose(figure)
    assert report.reached, report.summary()


@pytest.mark.parametrize("seed", range(3))
def test_a_pose_inside_its_limits_is_inside_as_rest_pose(arm: Any, seed: int):
    inside = np.random.default_rng(seed).uniform(LOWER, UPPER)
    arm.pose.bones["bone.001"].rotation_euler = np.radians(inside)
    apply_pose(arm)
    lower, upper, _ = limits(arm)
    np.testing.assert_allclose([lower, upper], np.array([LOWER, UPPER]) - inside, atol=1e-3)


def test_a_bone_that_stays_in_place_counts_from_its_parent(arm: Any):
    """As feet on the floor below legs that bend."""
    bones = arm.pose.bones
    bones["bone.000"].rotation_euler.x, bones["bone.001"].rotation_euler.x = radians(-50.0), radians(50.0)
    apply_pose(arm)
    np.testing.assert_allclose(limits(arm)[0], (-55.0, -10.0, -15.0), atol=1e-3)


def test_a_bone_that_has_only_twisted_counts_from_there(arm: Any):
    """As a head that looks aside: it ends where it did."""
    arm.pose.bones["bone.001"].rotation_euler.y = radians(8.0)
    apply_pose(arm)
    np.testing.assert_allclose(limits(arm)[0], (-5.0, -18.0, -15.0), atol=1e-3)


EDITED = {"rolled": {"roll": 1.0}, "longer": {"tail": (0.5, 0.0, 1.6)}, "turned": {"tail": (0.0, 0.6, 1.8)}}


@pytest.mark.parametrize("values", EDITED.values(), ids=EDITED)
def test_bones_that_are_edited_keep_the_numbers(arm: Any, values: dict[str, Any]):
    edit(arm, "bone.001", **values)
    np.testing.assert_allclose(limits(arm), [LOWER, UPPER, PREFERRED], atol=1e-3)
    assert not arm.poise.last_message
    arm.pose.bones["bone.001"].rotation_euler.x = radians(50.0)  # what is noted is noted anew
    apply_pose(arm)
    np.testing.assert_allclose(limits(arm)[0], (-55.0, -10.0, -15.0), atol=1e-3)


def test_bones_that_are_turned_as_one_and_rolled_in_edit_mode_keep_the_numbers(arm: Any):
    bpy.context.view_layer.objects.active = arm
    bpy.ops.object.mode_set(mode='EDIT')
    arm.data.transform(Matrix.Rotation(0.5 * np.pi, 4, 'X'))
    arm.data.edit_bones["bone.001"].roll += radians(45.0)
    bpy.ops.object.mode_set(mode='OBJECT')
    bpy.context.view_layer.update()
    np.testing.assert_allclose(limits(arm), [LOWER, UPPER, PREFERRED], atol=1e-3)


def test_a_rolled_parent_moves_no_limits(arm: Any):
    edit(arm, "bone.000", roll=1.0)
    np.testing.assert_allclose(limits(arm), [LOWER, UPPER, PREFERRED], atol=1e-3)


def test_an_applied_rotation_of_the_object_moves_no_limits(arm: Any):
    posing.own_limits(arm, "bone.000").use_limit = (True, True, True)
    before = limits(arm, "bone.000")
    arm.rotation_euler, arm.scale = (0.3, 0.5, 1.0), (2.0, 2.0, 2.0)
    bpy.context.view_layer.objects.active = arm
    arm.select_set(True)
    bpy.ops.object.transform_apply(location=True, rotation=True, scale=True)
    bpy.context.view_layer.update()
    np.testing.assert_allclose(limits(arm), [LOWER, UPPER, PREFERRED], atol=1e-3)
    np.testing.assert_allclose(limits(arm, "bone.000"), before)


def test_limits_that_a_constraint_has_too_count_as_it_does(arm: Any):
    constraint: Any = arm.pose.bones["bone.001"].constraints.new('LIMIT_ROTATION')
    constraint.owner_space = 'LOCAL'
    for row, axis in enumerate("xyz"):
        setattr(constraint, f"use_limit_{axis}", True)
        setattr(constraint, f"min_{axis}", radians(LOWER[row]))
        setattr(constraint, f"max_{axis}", radians(UPPER[row]))
    arm.pose.bones["bone.001"].rotation_euler.x = radians(50.0)
    apply_pose(arm)
    np.testing.assert_allclose(limits(arm), [LOWER, UPPER, PREFERRED], atol=1e-3)
    assert not read_armature(arm).driven
    assert "because a Limit Rotation constraint has the same: 'bone.001'" in arm.poise.last_message


def test_a_solve_tells_what_no_update_has_seen(arm: Any, monkeypatch: pytest.MonkeyPatch):
    posing.add_effector(arm, "bone.002")
    arm.pose.bones["bone.001"].rotation_euler.x = radians(50.0)
    monkeypatch.setattr(handlers, "follow_rests", lambda _: ())
    apply_pose(arm)
    np.testing.assert_allclose(limits(arm), [LOWER, UPPER, PREFERRED], atol=1e-3)
    assert "Limits moved with the rest pose: 'bone.001'" in posing.solve_pose(arm).summary()
    np.testing.assert_allclose(limits(arm)[0], (-55.0, -10.0, -15.0), atol=1e-3)


def test_limits_of_an_older_file_count_from_the_rest_pose_that_is_found(arm: Any):
    arm.poise.joints["bone.001"].noted_rest = [0.0] * 32
    arm.data.update_tag()
    bpy.context.view_layer.update()
    assert any(arm.poise.joints["bone.001"].noted_rest)
    np.testing.assert_allclose(limits(arm), [LOWER, UPPER, PREFERRED], atol=1e-3)

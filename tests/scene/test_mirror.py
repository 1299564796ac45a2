# SPDX-License-Identifier: GPL-3.0-or-later
"""Mirroring: twice is nothing, once is the other side, of poses, targets, limits and settings."""

from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.errors import IKError
from blender_ik_addon.core.model.rotation import EULER_ORDERS
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.armature import limits
from blender_ik_addon.scene.armature.armature import read_armature
from blender_ik_addon.scene.armature.role_table import pairs, read_character
from blender_ik_addon.scene.effectors.effectors import present_state
from blender_ik_addon.scene.effectors.transforms import world_matrix

from . import builders

IDENTITY = 1e-6
"""How far twice may be from nothing [m], [rad], [1]."""

MIRROR = np.diag([-1.0, 1.0, 1.0])


def random_pose(armature: bpy.types.Object) -> None:
    """Pose all bones at random, in all rotation modes by turns."""
    rng = np.random.default_rng(0)
    modes = [*EULER_ORDERS, 'QUATERNION', 'AXIS_ANGLE']
    for number, bone in enumerate(armature.pose.bones):
        bone.rotation_mode = modes[number % len(modes)]
        other = armature.pose.bones.get(bpy.utils.flip_name(bone.name))
        if other is not None:
            bone.rotation_mode = other.rotation_mode
        angles, quat = (
            rng.uniform(-1.0, 1.0, size=3),
            rng.normal(size=4) * [0.3, 0.2, 0.2, 0.2] + [1, 0, 0, 0],
        )
        bone.rotation_euler = angles
        bone.rotation_quaternion = quat / np.linalg.norm(quat)
        bone.rotation_axis_angle = (0.7, *(quat[1:] / np.linalg.norm(quat[1:])))
        bone.location = rng.uniform(-0.1, 0.1, size=3)
    bpy.context.view_layer.update()


def posed(armature: bpy.types.Object) -> dict[str, FloatArray]:
    bpy.context.view_layer.update()
    return {bone.name: np.array(bone.matrix) for bone in armature.pose.bones}


def channels(armature: bpy.types.Object) -> FloatArray:
    """All that was keyed of a pose, and of targets, and of limits and settings."""
    values: list[float] = []
    for bone in armature.pose.bones:
        values += [*bone.location, *bone.rotation_euler, *bone.rotation_quaternion]
    for effector in armature.poise.effectors:
        target = effector.target
        # Not the angles: near gimbal lock others are the same rotation but for rounding.
        values += [*world_matrix(target).ravel().tolist(), effector.weight, *effector.point]
    for entry in sorted(armature.poise.joints, key=lambda entry: entry.name):
        values += [*entry.lower, *entry.upper, *entry.stiffness, *entry.preferred, float(entry.is_held)]
    return np.array(values)


def set_up() -> bpy.types.Object:
    armature = builders.humanoid()
    posing.setup_character(armature, poles=True)
    rng = np.random.default_rng(1)
    for effector in armature.poise.effectors:
        target: Any = effector.target
        target.location = np.array(target.location) + rng.uniform(-0.2, 0.2, size=3)
        target.rotation_euler = rng.uniform(-1.5, 1.5, size=3)
        effector.weight = rng.uniform(0.5, 2.0)
        effector.point = rng.uniform(-0.1, 0.1, size=3)
    entry = limits.own_limits(armature, "forearm.L")
    entry.use_limit, entry.lower, entry.upper = (True,) * 3, (-0.1, -0.2, -0.3), (0.4, 0.5, 0.6)
    entry.stiffness, entry.preferred = (0.1, 0.2, 0.3), (0.05, 0.06, 0.07)
    limits.own_limits(armature, "hand.R").is_held = True
    bpy.context.view_layer.update()
    return armature


def test_twice_is_nothing():
    armature = set_up()
    armature.location, armature.rotation_euler = (1.0, -2.0, 0.3), (0.4, 0.3, 2.0)
    random_pose(armature)
    before, shown = channels(armature), posed(armature)
    posing.mirror(armature)
    assert np.abs(channels(armature) - before).max() > 0.1
    posing.mirror(armature)
    np.testing.assert_allclose(channels(armature), before, atol=IDENTITY)
    after = posed(armature)
    for name, matrix in shown.items():
        np.testing.assert_allclose(after[name], matrix, atol=2.0 * IDENTITY)


@pytest.mark.parametrize("roll", [0.0, 0.6])
def test_a_mirrored_pose_is_the_mirror_image(roll: float, armature: Any):
    bpy.ops.object.mode_set(mode='EDIT')
    for name in ("forearm.L", "thigh.R", "spine.002"):  # whose axes then are no mirror images
        armature.data.edit_bones[name].roll += roll  # pyright: ignore[reportAttributeAccessIssue]
    bpy.ops.object.mode_set(mode='OBJECT')
    random_pose(armature)
    before = posed(armature)
    report = posing.mirror(armature)
    after = posed(armature)
    assert len(report.bones) == len(before)
    for name, matrix in before.items():
        other = bpy.utils.flip_name(name)
        np.testing.assert_allclose(after[other][:3, 3], MIRROR @ matrix[:3, 3], atol=1e-5)
        rest, rest_other = (np.array(armature.data.bones[n].matrix_local)[:3, :3] for n in (name, other))
        turn = MIRROR @ matrix[:3, :3] @ rest.T @ MIRROR @ rest_other
        np.testing.assert_allclose(after[other][:3, :3], turn, atol=1e-5)
    posing.mirror(armature)
    again = posed(armature)
    for name, matrix in before.items():
        np.testing.assert_allclose(again[name], matrix, atol=5.0 * IDENTITY)


def test_mirrored_targets_ask_for_the_mirrored_pose(armature: Any):
    posing.setup_character(armature)
    effectors: dict[str, Any] = {effector.part: effector for effector in armature.poise.effectors}
    effectors["hand.L"].target.location = (0.4, -0.35, 1.3)
    effectors["hand.L"].target.rotation_euler.z += 0.5
    effectors["foot.R"].target.location.y -= 0.15
    effectors["hips"].target.location.z -= 0.05
    assert posing.solve_pose(armature).reached
    posing.mirror(armature)
    report = posing.solve_pose(armature)
    assert report.reached, report.summary()
    np.testing.assert_allclose(effectors["hand.R"].target.location, (-0.4, -0.35, 1.3), atol=1e-6)
    errors = [error for error in report.effectors if error.position is not None]
    assert max(error.position or 0.0 for error in errors) < 1e-3


@pytest.mark.parametrize("live", [False, True])
def test_what_is_pinned_or_follows_does_so_on_the_other_side(armature: Any, live: bool):
    posing.setup_character(armature)
    effectors: Any = armature.poise.effectors
    armature.poise.live = live
    effectors["hand.L"].target.location = (0.4, -0.35, 1.3)
    effectors["foot.R"].target.location.y -= 0.15  # is to be reached from now on
    bpy.context.view_layer.update()
    assert posing.solve_pose(armature).reached

    def states() -> dict[str, str]:
        return {entry.name: present_state(armature, entry) for entry in effectors}

    before, places = states(), posed(armature)
    assert {"PIN", "REACH", "FOLLOW"} == set(before.values()) and before["foot.L"] != before["foot.R"]
    posing.mirror(armature)
    assert states() == {bpy.utils.flip_name(name): state for name, state in before.items()}
    assert posing.solve_pose(armature).reached
    for _ in range(2):  # the body holds what it held
        for name, matrix in posed(armature).items():
            there = MIRROR @ places[bpy.utils.flip_name(name)][:3, 3]
            np.testing.assert_allclose(matrix[:3, 3], there, atol=1e-4)
        assert posing.solve_pose(armature).reached
    posing.mirror(armature)
    assert states() == before
    for name, matrix in posed(armature).items():
        np.testing.assert_allclose(matrix[:3, 3], places[name][:3, 3], atol=1e-4)


def test_limits_go_to_the_axes_of_the_other_side():
    armature = set_up()
    posing.mirror(armature, 'LEFT_TO_RIGHT', settings=False, targets=False, pose=False)
    left, right = (limits.joint_entries(armature)[f"forearm.{side}"] for side in "LR")
    np.testing.assert_allclose(right.lower, (left.lower[0], -left.upper[1], -left.upper[2]), atol=1e-6)
    np.testing.assert_allclose(right.upper, (left.upper[0], -left.lower[1], -left.lower[2]), atol=1e-6)
    np.testing.assert_allclose(right.preferred, np.array(left.preferred) * (1, -1, -1), atol=1e-6)
    np.testing.assert_allclose(right.stiffness, left.stiffness)


def test_one_side_is_copied_and_an_effector_that_is_missing_is_made(armature: Any):
    index = posing.add_effector(armature, "hand.L", kind='POSITION')
    effector = armature.poise.effectors[index]
    effector.weight, effector.priority = 2.5, 3
    effector.target.location = (0.3, -0.4, 1.1)
    posing.mirror(armature, 'LEFT_TO_RIGHT')
    other = armature.poise.effectors[1]
    assert (other.bone, other.kind, other.weight, other.priority) == ("hand.R", 'POSITION', 2.5, 3)
    np.testing.assert_allclose(other.target.location, (-0.3, -0.4, 1.1), atol=1e-6)
    assert "Without a counterpart" not in posing.mirror(armature).summary()


def test_bones_without_sides_in_their_names_are_paired_by_their_roles(armature: Any):
    for number, bone in enumerate(armature.data.bones):
        bone.name = f"Bone{number:03d}"
    skeleton = read_armature(armature).skeleton
    other = pairs(skeleton, read_character(armature, skeleton)[0])
    places = {bone.name: np.array(bone.head_local) for bone in armature.data.bones}
    apart = {name: other[name] for name in other if other[name] != name}
    assert len(apart) >= 14
    for name, counterpart in apart.items():
        np.testing.assert_allclose(places[counterpart], MIRROR @ places[name], atol=1e-6)


def test_what_cannot_be_mirrored_is_told(armature: Any):
    posing.add_effector(armature, "hand.L")
    assert "Without a counterpart" in posing.mirror(armature).summary()
    with pytest.raises(IKError, match="UP"):
        posing.mirror(armature, 'UP')


def test_the_operator_does_the_same(armature: Any):
    armature.pose.bones["hand.L"].rotation_mode = "XYZ"
    armature.pose.bones["hand.R"].rotation_mode = "XYZ"
    armature.pose.bones["hand.L"].rotation_euler = (0.1, 0.2, 0.3)
    assert bpy.ops.poise.mirror() == {'FINISHED'}
    mirrored = np.array(armature.pose.bones["hand.R"].rotation_euler)
    np.testing.assert_allclose(mirrored, (0.1, -0.2, -0.3), atol=1e-6)

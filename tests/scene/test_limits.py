# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits: where they come from, that they hold in the keys themselves, and what a pose outside them does."""

from collections.abc import Sequence
from math import radians
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.errors import IKError
from blender_ik_addon.core.model.kinematics import forward_kinematics
from blender_ik_addon.core.model.rotation import EULER_ORDERS, euler_from_matrix_near, matrix_in_mode
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.armature import limits
from blender_ik_addon.scene.armature.armature import read_armature
from blender_ik_addon.scene.armature.poses import evaluated_matrices, read_pose

from . import actions, builders

KEYED = 1e-4
"""How far a key may be beyond a limit [rad]."""

RANGES = {"bone.000": (-12, 9), "bone.001": (-10, 20), "bone.002": (5, 40), "bone.003": (-60, -15)}
"""About all three axes [°]: most of the targets are out of their reach, and two ranges do not contain 0."""


def limited_chain(mode: str) -> bpy.types.Object:
    armature = builders.chain(4)
    for bone in armature.pose.bones:
        bone.rotation_mode = mode
    for name, (low, high) in RANGES.items():
        entry = limits.own_limits(armature, name)
        entry.use_limit = (True, True, True)
        entry.lower, entry.upper = [radians(low)] * 3, [radians(high)] * 3
    return armature


def moving_target(armature: bpy.types.Object) -> None:
    """An effector whose target goes round the chain, above and below, within and out of reach."""
    target = builders.empty("target")
    for frame, place in enumerate([(0, 0, 4), (3, 0, 2), (0, 4, 1), (-3, -1, 3), (0.4, -0.3, 3.6)], start=1):
        target.location = place
        target.keyframe_insert("location", frame=2 * frame)
    posing.add_effector(armature, "bone.003", kind='POSITION', target=target)
    armature.poise.effectors[0].point = (0.0, 1.0, 0.0)
    armature.poise.move_root = False


def random_ranges(seed: int, names: Sequence[str]) -> dict[str, FloatArray]:
    """Limits of bones, (2, 3) [rad] each: narrow and wide ones, many of which do not contain 0."""
    rng = np.random.default_rng(seed)
    middle = rng.uniform(-0.7, 0.7, size=(len(names), 3))
    half = rng.uniform(0.02, 0.6, size=(len(names), 3))
    return {
        name: np.stack([m - h, m + h]).astype(np.float32).astype(np.float64)
        for name, m, h in zip(names, middle, half, strict=True)
    }


def curve_angles(armature: bpy.types.Object, name: str, frames: FloatArray, near: FloatArray) -> FloatArray:
    """Angles that the F-curves of a bone give at any time, (F, 3), in the order of its limits."""
    bone = armature.pose.bones[name]
    mode = bone.rotation_mode
    attribute, width = {
        'QUATERNION': ("rotation_quaternion", 4),
        'AXIS_ANGLE': ("rotation_axis_angle", 4),
    }.get(mode, ("rotation_euler", 3))
    path = bone.path_from_id(attribute)
    curves: list[Any] = [actions.curve_of(armature, path, index) for index in range(width)]
    values = np.array([[curve.evaluate(frame) for curve in curves] for frame in frames])
    if width == 3:
        return values
    skeleton = read_armature(armature).skeleton
    order = int(skeleton.orders[skeleton.index(name)])
    return euler_from_matrix_near(matrix_in_mode(mode, values), order, near)


MODES = (*EULER_ORDERS, 'QUATERNION', 'AXIS_ANGLE')


@pytest.mark.parametrize("mode", MODES)
def test_generated_limits_hold_in_the_curves_of_a_bake(mode: str):
    armature = builders.chain(4)
    names = [bone.name for bone in armature.pose.bones]
    ranges = random_ranges(MODES.index(mode), names)
    for bone in armature.pose.bones:
        bone.rotation_mode = mode
        low, high = ranges[bone.name]
        if bone.name in names[::2]:
            entry = limits.own_limits(armature, bone.name)
            entry.use_limit, entry.lower, entry.upper = (True,) * 3, low, high
        else:
            ends = {f"min_{axis}": low[row] for row, axis in enumerate("xyz")}
            ends |= {f"max_{axis}": high[row] for row, axis in enumerate("xyz")}
            limit_rotation(bone, **{f"use_limit_{axis}": True for axis in "xyz"}, **ends)
    assert limits.read_limits(armature).bones == tuple(names[1::2])
    moving_target(armature)
    posing.bake(armature, range(4, 9))
    # Keys of Euler angles are angles, so that these keep to the limits between them too; four components
    # together are angles only at the keys.
    times = np.arange(4.0, 8.01, 0.25 if mode in EULER_ORDERS else 1.0)
    used = 0
    for name, (low, high) in ranges.items():
        angles = curve_angles(armature, name, times, 0.5 * (low + high))
        assert (angles >= low - KEYED).all() and (angles <= high + KEYED).all(), name
        used += int((np.minimum(angles - low, high - angles) < 1e-3).any(axis=0).sum())
    assert used >= 4  # channels stand at their limits
    for frame in (4, 7):  # the constraints find nothing to do
        bpy.context.scene.frame_set(frame)
        read = read_armature(armature)
        assert not read.driven
        wanted = forward_kinematics(read.skeleton, read_pose(armature, read)).matrices
        evaluated = armature.evaluated_get(bpy.context.evaluated_depsgraph_get())
        np.testing.assert_allclose(evaluated_matrices(evaluated, read), wanted, atol=1e-4)


def test_a_pose_outside_its_limits_is_reported_and_brought_inside():
    armature = limited_chain("XYZ")
    posing.add_effector(armature, "bone.003", kind='POSITION')
    armature.pose.bones["bone.001"].rotation_euler.x = radians(50.0)
    report = posing.solve_pose(armature)
    assert "clamped to joint limits" in " ".join(report.notes)
    assert "bone.001 X by 30.0°" in " ".join(report.notes)
    assert armature.pose.bones["bone.001"].rotation_euler.x <= radians(20.0) + KEYED
    assert not any("outside" in note for note in posing.solve_pose(armature).notes)


def test_bones_that_nothing_moves_are_not_said_to_be_brought_inside():
    """An influence of 0 leaves a pose as it is, beyond its limits as well."""
    armature: Any = limited_chain("XYZ")
    posing.add_effector(armature, "bone.003", kind='POSITION')
    posing.add_effector(armature, "bone.000", kind='ORIENTATION')
    entry: Any = armature.poise.effectors[0]
    bone = armature.pose.bones["bone.001"]
    bone.rotation_euler.x = radians(50.0)
    for frame, influence in ((1, 0.0), (9, 0.0), (10, 1.0)):
        entry.influence = influence
        entry.keyframe_insert("influence", frame=frame)
    bpy.context.scene.frame_set(3)
    for report in (posing.solve_pose(armature), posing.bake(armature, range(1, 6))):
        assert not any("clamped" in note for note in report.notes), report.notes
        assert bone.rotation_euler.x == pytest.approx(radians(50.0))
    assert not posing.bake(armature, range(1, 6)).limits_met


@pytest.mark.parametrize("influence", [0.1, 0.5])
def test_limits_hold_at_any_influence(influence: float):
    """What joints prefer is led from the pose before, which may be outside of its limits."""
    armature = limited_chain("XYZ")
    posing.add_effector(armature, "bone.003", kind='ORIENTATION')
    armature.poise.effectors[0].influence = influence
    armature.pose.bones["bone.001"].rotation_euler.x = radians(50.0)
    assert posing.solve_pose(armature).reached
    assert armature.pose.bones["bone.001"].rotation_euler.x <= radians(20.0) + KEYED


def test_a_joint_with_limits_goes_to_its_preferred_angle_within_them_where_an_influence_begins():
    """More than half a turn away: the shorter way leads through its limits."""
    armature: Any = builders.chain(3)
    armature.poise.move_root = False
    for bone in armature.pose.bones:
        bone.rotation_mode = 'XYZ'
    entry = limits.own_limits(armature, "bone.001")
    entry.use_limit, entry.preferred = (True,) * 3, (radians(-25.0), 0.0, 0.0)
    entry.lower, entry.upper = (radians(-30.0), 0.0, 0.0), (radians(170.0), 0.0, 0.0)
    armature.pose.bones["bone.001"].rotation_euler.x = radians(165.0)
    bpy.context.view_layer.update()
    posing.add_effector(armature, "bone.002", kind='ORIENTATION')
    effector = armature.poise.effectors[0]
    effector.target.rotation_euler.x -= 1.0
    for frame, influence in ((1, 0.0), (6, 1.0)):
        effector.influence = influence
        effector.keyframe_insert("influence", frame=frame)
    bpy.context.scene.frame_set(6)
    assert posing.solve_pose(armature).reached
    wanted = armature.pose.bones["bone.001"].rotation_euler.x
    armature.pose.bones["bone.001"].rotation_euler.x = radians(165.0)
    armature.poise.smoothness = 0.0
    assert posing.bake(armature, range(1, 7)).reached
    bpy.context.scene.frame_set(6)
    assert armature.pose.bones["bone.001"].rotation_euler.x == pytest.approx(wanted, abs=KEYED)


def test_entries_come_before_ik_limits_and_ik_limits_before_none():
    armature = builders.chain(3)
    for bone in armature.pose.bones:
        bone.rotation_mode = "XYZ"
        bone.use_ik_limit_x, bone.ik_min_x, bone.ik_max_x = True, -0.5, 0.5
        bone.ik_stiffness_y = 0.25
    limits.own_limits(armature, "bone.001").lower = (-0.25, -1.0, -1.0)
    entry = limits.own_limits(armature, "bone.002")
    entry.use_limit, entry.stiffness, entry.preferred = (False,) * 3, (0.0, 0.5, 0.0), (0.1, 0.0, 0.2)
    skeleton = read_armature(armature).skeleton
    np.testing.assert_allclose(skeleton.lower[:, 3], [-0.5, -0.25, -np.inf])
    np.testing.assert_allclose(skeleton.upper[:, 3], [0.5, 0.5, np.inf])
    np.testing.assert_allclose(skeleton.stiffness[:, 4], [0.25, 0.25, 0.5])
    np.testing.assert_allclose(skeleton.preferred[2, 3:], [0.1, 0.0, 0.2], atol=1e-7)


def limit_rotation(bone: bpy.types.PoseBone, **settings: Any) -> Any:
    constraint: Any = bone.constraints.new('LIMIT_ROTATION')
    constraint.owner_space = 'LOCAL'
    for name, value in settings.items():
        setattr(constraint, name, value)
    return constraint


def test_limit_rotation_is_read_and_does_not_hold_its_bone_any_more():
    armature = builders.chain(2)
    bone = armature.pose.bones["bone.001"]
    bone.rotation_mode = "YZX"
    bone.use_ik_limit_x, bone.ik_min_x, bone.ik_max_x = True, -0.2, 1.0
    limit_rotation(bone, use_limit_x=True, min_x=-0.5, max_x=0.6, use_limit_z=True, min_z=0.1, max_z=0.3)
    assert "bone.001" in read_armature(armature).driven
    assert bpy.ops.poise.read_limits() == {'FINISHED'}
    armature_read = read_armature(armature)
    assert "bone.001" not in armature_read.driven
    np.testing.assert_allclose(armature_read.skeleton.lower[1, 3:], [-0.2, -np.inf, 0.1], atol=1e-6)
    np.testing.assert_allclose(armature_read.skeleton.upper[1, 3:], [0.6, np.inf, 0.3], atol=1e-6)
    assert [entry.name for entry in armature.poise.joints] == ["bone.001"]
    assert armature.poise.joints[0].source == "IK limits and Limit Rotation"
    armature.poise.joints[0].upper[0] = 0.9  # wider than the constraint: now it would interfere
    assert "bone.001" in read_armature(armature).driven


def test_what_blender_shows_after_a_solve_is_what_was_solved_under_a_limit_rotation():
    armature = builders.chain(3)
    for bone in armature.pose.bones:
        bone.rotation_mode = "XYZ"
        limit_rotation(bone, use_limit_x=True, min_x=-0.4, max_x=0.4, use_limit_z=True, min_z=-0.4, max_z=0.4)
    limits.read_limits(armature)
    posing.add_effector(
        armature, "bone.002", kind='POSITION', target=builders.empty("target", (0.5, 0.6, 1.8))
    )
    armature.poise.move_root = False
    report = posing.solve_pose(armature)
    assert report.reached, report.summary()


def test_limits_that_cannot_be_read_are_named():
    armature = builders.chain(3)
    first, second, third = armature.pose.bones
    first.rotation_mode = second.rotation_mode = third.rotation_mode = "XYZ"
    limit_rotation(first, use_limit_x=True, owner_space='WORLD')
    limit_rotation(second, use_limit_x=True, euler_order="ZYX")
    third.use_ik_limit_x, third.ik_min_x, third.ik_max_x = True, -0.2, 0.2
    limit_rotation(third, use_limit_x=True, min_x=0.5, max_x=0.6)
    found = limits.read_limits(armature)
    assert found.bones == ("bone.002",)
    for words in ("another space", "ZYX angles", "only the constraint was read"):
        assert words in " ".join(found.notes)
    assert found.summary().startswith("Read the limits of 1 bone. Bone 'bone.000': the constraint")


def test_the_order_of_limits_in_quaternion_mode_does_not_depend_on_the_pose():
    armature = limited_chain('QUATERNION')
    before = read_armature(armature).skeleton.orders
    for bone in armature.pose.bones:
        bone.rotation_quaternion = (0.5, 0.5, -0.5, 0.5)
    np.testing.assert_array_equal(read_armature(armature).skeleton.orders, before)
    armature.poise.joints[1].order = "ZXY"
    assert EULER_ORDERS[read_armature(armature).skeleton.orders[1]] == "ZXY"


def test_limits_that_are_none_are_refused_with_the_bone():
    armature = limited_chain("XYZ")
    armature.poise.joints[2].lower[1] = 3.0
    with pytest.raises(IKError, match=r"bone.002.*about Y.*above"):
        read_armature(armature)
    with pytest.raises(IKError, match="nose"):
        limits.read_limits(armature, ["nose"])


def test_a_held_bone_keeps_its_pose_and_one_that_may_move_leaves_its_place():
    armature = builders.humanoid()
    for bone in armature.pose.bones:
        bone.rotation_mode = "XYZ"
    posing.add_effector(armature, "hand.L", kind='POSITION')
    armature.poise.effectors[0].target.location.z += 0.2
    limits.own_limits(armature, "upper_arm.L").is_held = True
    limits.own_limits(armature, "shoulder.L").may_move = True
    posing.solve_pose(armature)
    assert armature.pose.bones["upper_arm.L"].rotation_euler[:] == (0.0, 0.0, 0.0)
    skeleton = read_armature(armature).skeleton
    assert skeleton.free[skeleton.index("shoulder.L"), :3].all()
    assert not skeleton.free[skeleton.index("shoulder.R"), :3].any()


def test_a_pose_that_is_preferred_stays_when_live_is_switched_on():
    """After set-up arms turned by degrees although all targets stood where the bones were."""
    armature: Any = builders.humanoid()
    posing.setup_character(armature)
    for entry in armature.poise.joints:
        entry.preferred = (0.05, 0.05, 0.05)

    def turned() -> float:
        before = {bone.name: bone.matrix_basis.to_quaternion() for bone in armature.pose.bones}
        posing.switch_live(armature, on=True)
        bpy.context.view_layer.update()
        posing.switch_live(armature, on=False)
        now = {bone.name: bone.matrix_basis.to_quaternion() for bone in armature.pose.bones}
        return max(float(np.degrees(now[name].rotation_difference(before[name]).angle)) for name in before)

    assert turned() > 1.0
    armature.pose.bones["upper_arm.L"].rotation_quaternion = (0.995, 0.05, 0.08, 0.0)
    bpy.context.view_layer.update()
    changed = posing.prefer_present_pose(armature, [bone.name for bone in armature.pose.bones])
    assert "upper_arm.L" in changed
    posing.setup_character(armature)
    hand = armature.poise.effectors["hand.L"].target
    hand.matrix_world = armature.matrix_world @ armature.pose.bones["hand.L"].matrix
    bpy.context.view_layer.update()
    assert turned() < 0.1


def test_a_bone_that_is_not_there_has_no_preferred_pose():
    armature: Any = builders.humanoid()
    with pytest.raises(IKError, match="nose"):
        posing.prefer_present_pose(armature, ["head", "nose"])
    assert not len(armature.poise.joints)


def test_a_pose_that_is_no_pose_is_not_preferred_and_changes_nothing():
    armature: Any = builders.humanoid()
    armature.pose.bones["head"].rotation_quaternion.x = float("nan")
    for use in (
        lambda: posing.prefer_present_pose(armature, ["head"]),
        lambda: posing.make_natural(armature),
    ):
        with pytest.raises(IKError, match="not a number"):
            use()
        assert not len(armature.poise.joints)


@pytest.mark.parametrize("live", [False, True])
def test_a_bone_that_may_move_but_not_turn_is_solved_and_baked(live: bool):
    prop = builders.armature("Prop", [("root", None, (0, 0, 0), (0, 0, 1))])
    bone = prop.pose.bones["root"]
    bone.rotation_mode, bone.lock_rotation = 'XYZ', (True, True, True)
    settings: Any = prop.poise
    goal = settings.effectors[posing.add_effector(prop, "root", kind='POSITION')].target
    goal.location = (1.0, 0.0, 0.0)
    bpy.context.view_layer.update()
    if live:
        posing.switch_live(prop, True)
        goal.location = (1.0, 0.5, 0.0)
        bpy.context.view_layer.update()
        assert not settings.live_problem
    report = posing.solve_pose(prop)
    assert report.reached and not report.notes
    bpy.context.view_layer.update()
    np.testing.assert_allclose(bone.matrix.translation[:], goal.location[:], atol=2e-4)
    assert posing.bake(prop, [1, 2]).reached

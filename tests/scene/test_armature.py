# SPDX-License-Identifier: GPL-3.0-or-later
"""Armatures as skeletons and poses: against what Blender itself evaluates, and back into the bones."""

from collections.abc import Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.core.errors import IKError
from blender_ik_addon.core.model.kinematics import forward_kinematics
from blender_ik_addon.core.model.rotation import EULER_ORDERS, euler_from_matrix, matrix_from_euler
from blender_ik_addon.core.model.skeleton import INHERIT_SCALE, Pose
from blender_ik_addon.scene.armature.armature import Armature, read_armature, world_from_armature
from blender_ik_addon.scene.armature.poses import (
    channel_values,
    evaluated_matrices,
    read_pose,
    sheared_bones,
    write_pose,
)
from blender_ik_addon.scene.armature.restoring import PoseSnapshot
from blender_ik_addon.scene.armature.rotation_modes import far_orders
from blender_ik_addon.scene.rig.rig import notes_on_bones

from . import builders

MODES = ("QUATERNION", "AXIS_ANGLE", *EULER_ORDERS)

AGREEMENT = 5e-6
"""Largest difference from Blender, relative to the largest entry of the matrices [1]; Blender has 24 bits."""

ROTATION_PROPERTIES = ("rotation_euler", "rotation_quaternion", "rotation_axis_angle")


def tree(rng: np.random.Generator, n: int = 10, name: str = "tree") -> bpy.types.Object:
    """Bones of random place, direction, length and roll: two roots, half of the others connected."""
    bones: list[builders.BoneSpec] = []
    for i in range(n):
        parent = None if i in (0, 3) else int(rng.integers(max(0, i - 3), i))
        head = rng.normal(size=3)
        if parent is not None and rng.random() < 0.5:
            head = np.array(bones[parent][3])
        tail = head + rng.normal(size=3) * rng.uniform(0.1, 1.0)
        bones.append((f"b{i}", None if parent is None else f"b{parent}", triple(head), triple(tail)))
    obj = builders.armature(name, bones)
    bpy.ops.object.mode_set(mode="EDIT")
    for bone in obj.data.edit_bones:
        bone.roll = rng.uniform(-3.0, 3.0)
    bpy.ops.object.mode_set(mode="OBJECT")
    return obj


def triple(values: np.ndarray) -> builders.Vector3:
    x, y, z = (float(value) for value in values)
    return x, y, z


def pose_randomly(obj: Any, rng: np.random.Generator, scale: float = 0.3) -> None:
    """Fill every channel of every bone, also of rotation modes that it does not have."""
    for bone in obj.pose.bones:
        bone.location = rng.normal(size=3)
        bone.rotation_euler = rng.normal(size=3) * 2.0
        bone.rotation_quaternion = rng.normal(size=4)
        bone.rotation_axis_angle = rng.normal(size=4) * 2.0
        bone.scale = np.exp(rng.normal(size=3) * scale)
    bpy.context.view_layer.update()


def blender_matrices(obj: Any, armature: Armature) -> np.ndarray:
    bpy.context.view_layer.update()
    return evaluated_matrices(obj.evaluated_get(bpy.context.evaluated_depsgraph_get()), armature)


def disagreement(obj: Any, armature: Armature, pose: Pose) -> float:
    expected = blender_matrices(obj, armature)
    found = forward_kinematics(armature.skeleton, pose).matrices
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def bits(bone: Any) -> dict[str, bytes]:
    names = ("location", *ROTATION_PROPERTIES, "scale")
    return {name: np.array(getattr(bone, name), dtype=np.float32).tobytes() for name in names}


class TestForwardKinematicsEqualsBlender:
    @pytest.mark.parametrize(("rotation", "location"), list(product((True, False), repeat=2)))
    @pytest.mark.parametrize("mode", INHERIT_SCALE)
    def test_with_every_inheritance(
        self, mode: Any, rotation: bool, location: bool, rng: np.random.Generator
    ) -> None:
        obj = tree(rng)
        for bone in obj.data.bones:
            bone.inherit_scale, bone.use_inherit_rotation, bone.use_local_location = mode, rotation, location
        armature = read_armature(obj)
        for _ in range(8):
            pose_randomly(obj, rng)
            for bone in obj.pose.bones:
                bone.scale = np.array(bone.scale) * rng.choice([1.0, 1.0, -1.0], size=3)
            assert disagreement(obj, armature, read_pose(obj, armature)) < AGREEMENT

    def test_with_mixed_inheritance_and_modes(self, rng: np.random.Generator) -> None:
        obj = tree(rng, n=40)
        for _ in range(10):
            for bone in obj.data.bones:
                bone.inherit_scale = str(rng.choice(INHERIT_SCALE))  # pyright: ignore
                bone.use_inherit_rotation = bool(rng.integers(2))
                bone.use_local_location = bool(rng.integers(2))
            for bone in obj.pose.bones:
                bone.rotation_mode = str(rng.choice(MODES))
            pose_randomly(obj, rng, scale=0.05)
            armature = read_armature(obj)
            assert disagreement(obj, armature, read_pose(obj, armature)) < AGREEMENT

    @pytest.mark.parametrize("rotation", [True, False])
    @pytest.mark.parametrize("mode", INHERIT_SCALE)
    @pytest.mark.parametrize("scale", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (0, 0, 0)])
    def test_below_a_bone_that_is_scaled_to_nothing(
        self, scale: tuple[float, float, float], mode: Any, rotation: bool
    ) -> None:
        obj = builders.chain(3)
        upper, flat, lower = obj.pose.bones
        upper.rotation_quaternion, upper.scale = (0.9, 0.1, -0.3, 0.2), (1.2, 0.8, 1.0)
        flat.rotation_quaternion, flat.scale = (0.8, 0.3, 0.3, -0.2), scale
        lower.bone.inherit_scale, lower.bone.use_inherit_rotation = mode, rotation
        armature = read_armature(obj)
        assert disagreement(obj, armature, read_pose(obj, armature)) < AGREEMENT

    def test_with_values_that_are_no_rotation(self) -> None:
        obj = builders.chain(2)
        obj.pose.bones[0].rotation_quaternion = (0.0, 0.0, 0.0, 0.0)
        obj.pose.bones[1].rotation_mode = "AXIS_ANGLE"
        obj.pose.bones[1].rotation_axis_angle = (1.0, 0.0, 0.0, 0.0)
        armature = read_armature(obj)
        assert disagreement(obj, armature, read_pose(obj, armature)) < AGREEMENT

    def test_location_of_a_connected_bone_does_nothing(self) -> None:
        obj = builders.chain(2)
        obj.pose.bones[1].location = (1.0, 2.0, 3.0)
        armature = read_armature(obj)
        pose = read_pose(obj, armature)
        assert not pose.translation.any()
        assert disagreement(obj, armature, pose) < AGREEMENT

    def test_with_a_bone_without_length(self, rng: np.random.Generator) -> None:
        """Blender 4.5 removes it when Edit Mode ends; from 5.0 it is kept, 2e-6 long."""
        obj = builders.armature(
            "point",
            [
                ("a", None, (0, 0, 0), (0, 0, 1)),
                ("b", "a", (0, 0, 1), (0, 0, 1)),
                ("c", "b", (0, 0, 1), (0, 1, 1)),
            ],
        )
        pose_randomly(obj, rng)
        armature = read_armature(obj)
        assert armature.skeleton.names == (("a", "b", "c") if bpy.app.version >= (5, 0, 0) else ("a", "c"))
        assert disagreement(obj, armature, read_pose(obj, armature)) < AGREEMENT


class TestReadingTheSkeleton:
    def test_bones_that_were_parented_late(self, rng: np.random.Generator) -> None:
        obj = builders.armature(
            "late", [("a", None, (0, 0, 0), (0, 0, 1)), ("b", None, (0, 0, 1), (0, 0, 2))]
        )
        bpy.ops.object.mode_set(mode="EDIT")
        new = obj.data.edit_bones.new("root")
        new.head, new.tail = (0, 1, 0), (0, 1, 1)
        obj.data.edit_bones["a"].parent = obj.data.edit_bones["b"]
        obj.data.edit_bones["b"].parent = new
        bpy.ops.object.mode_set(mode="OBJECT")
        pose_randomly(obj, rng)
        armature = read_armature(obj)
        assert armature.skeleton.names == ("root", "b", "a")
        assert disagreement(obj, armature, read_pose(obj, armature)) < AGREEMENT

    def test_by_default_rotations_and_the_location_of_roots_are_free(self) -> None:
        obj = builders.humanoid()
        skeleton = read_armature(obj).skeleton
        assert skeleton.free[:, 3:].all()
        assert skeleton.free[:, :3].any(1).tolist() == (skeleton.parents < 0).tolist()
        assert not read_armature(obj, move_root=False).skeleton.free[:, :3].any()

    def test_locks(self) -> None:
        obj = builders.chain(4)
        root, euler, kinematic, quaternion = obj.pose.bones
        root.lock_location = (False, True, False)
        euler.rotation_mode, euler.lock_rotation = "ZYX", (True, False, True)
        kinematic.lock_ik_y = True
        quaternion.lock_rotation = (True, True, True)
        armature = read_armature(obj)
        assert armature.skeleton.free.astype(int).tolist() == [
            [1, 0, 1, 1, 1, 1],
            [0, 0, 0, 0, 1, 0],
            [0, 0, 0, 1, 0, 1],
            [0, 0, 0, 0, 0, 0],
        ]
        assert armature.written[1].astype(int).tolist() == [0, 0, 0, 0, 0, 1, 0]
        assert armature.written[2].astype(int).tolist() == [0, 0, 0, 1, 1, 1, 1]
        assert not notes_on_bones(obj, armature, armature.skeleton.names)

    @pytest.mark.parametrize("mode", ["QUATERNION", "AXIS_ANGLE"])
    def test_two_locked_components_leave_one_angle(self, mode: Any, obj: Any) -> None:
        bone = obj.pose.bones[0]
        bone.rotation_mode, bone.lock_rotation = mode, (True, False, True)
        armature = read_armature(obj)
        assert armature.skeleton.free[0, 3:].tolist() == [False, True, False]
        assert armature.written[0, 3:].tolist() == [True, False, True, False]

    @pytest.mark.parametrize(
        "locks",
        [
            {"lock_rotation": (True, False, False)},
            {"lock_rotation": (True, True, False), "rotation_quaternion": (0.9, 0.1, 0.0, 0.0)},
            {"lock_rotation_w": True},
        ],
    )
    def test_locks_that_no_angle_can_keep_hold_the_bone(self, locks: dict[str, Any], obj: Any) -> None:
        for name, value in locks.items():
            setattr(obj.pose.bones[0], name, value)
        armature = read_armature(obj)
        assert not armature.skeleton.free[0, 3:].any()
        assert "bone.000" in notes_on_bones(obj, armature, armature.skeleton.names)[0]

    def test_locks_of_a_quaternion_can_mean_angles(self, obj: Any) -> None:
        bone = obj.pose.bones[0]
        bone.lock_rotations_4d, bone.lock_rotation = False, (True, False, False)
        armature = read_armature(obj)
        assert armature.skeleton.free[0, 3:].tolist() == [False, True, True]
        assert armature.written[0, 3:].all()

    def test_limits_and_stiffness(self) -> None:
        obj = builders.chain(2)
        bone = obj.pose.bones[1]
        bone.use_ik_limit_y, bone.ik_min_y, bone.ik_max_y = True, -0.5, 1.25
        bone.ik_stiffness_x, bone.ik_stiffness_z = 0.25, 0.99
        skeleton = read_armature(obj).skeleton
        assert not np.isfinite(skeleton.lower[0]).any()
        assert np.isneginf(skeleton.lower[1, [0, 1, 2, 3, 5]]).all()
        assert (skeleton.lower[1, 4], skeleton.upper[1, 4]) == (-0.5, 1.25)
        np.testing.assert_allclose(skeleton.stiffness[1, 3:], [0.25, 0.0, 0.99], rtol=1e-6)
        assert (skeleton.stiffness < 1.0).all()

    def test_an_order_far_from_gimbal_lock_is_chosen(self, rng: np.random.Generator) -> None:
        rotations = matrix_from_euler(rng.uniform(-np.pi, np.pi, size=(500, 3)), 0)
        orders = far_orders(rotations)
        middle = np.array(["XYZ".index(EULER_ORDERS[order][1]) for order in orders])
        angles = euler_from_matrix(rotations, orders)[np.arange(500), middle]
        assert np.abs(angles).max() < np.radians(86.0)

    def test_the_bone_s_own_axis_is_in_the_middle_at_rest(self) -> None:
        swing = matrix_from_euler([np.pi / 2, 0.0, 0.0], 0)
        twist = matrix_from_euler([0.0, np.pi / 2, 0.0], 0)
        middle = [EULER_ORDERS[order][1] for order in far_orders(np.array([np.eye(3), swing, twist]))]
        assert middle[:2] == ["Y", "Y"]
        assert middle[2] != "Y"

    def test_the_order_seldom_depends_on_the_pose(self, rng: np.random.Generator) -> None:
        twists = matrix_from_euler(rng.uniform(-1.4, 1.4, size=(200, 1)) * [0.0, 1.0, 0.0], 0)
        swings = matrix_from_euler(rng.uniform(-np.pi, np.pi, size=(200, 3)) * [1.0, 0.0, 0.0], 0)
        assert len(set(far_orders(swings @ twists).tolist())) == 1


class TestDrivenBones:
    def test_constraints(self) -> None:
        obj = builders.humanoid()
        target = builders.empty("target", (0.3, 0.1, 1.0))
        bones = obj.pose.bones
        copy: Any = bones["head"].constraints.new("COPY_ROTATION")
        copy.target = target
        muted: Any = bones["neck"].constraints.new("COPY_ROTATION")
        muted.target, muted.mute = target, True
        weak: Any = bones["hand.R"].constraints.new("COPY_ROTATION")
        weak.target, weak.influence = target, 0.0
        bones["foot.R"].constraints.new("COPY_ROTATION")  # has no target
        bpy.context.view_layer.update()
        armature = read_armature(obj)
        assert armature.driven == {"head"}
        assert armature.driven_by["head"] == "a constraint (COPY_ROTATION)"
        assert "head" in notes_on_bones(obj, armature, armature.skeleton.names)[0]
        head = armature.skeleton.index("head")
        assert not armature.skeleton.free[head].any()
        assert not armature.written[head].any()

    @pytest.mark.parametrize(
        ("settings", "expected"),
        [
            ({"chain_count": 2}, {"hand.L", "forearm.L"}),
            ({"chain_count": 2, "use_tail": False}, {"hand.L", "forearm.L", "upper_arm.L"}),
            (
                {"chain_count": 0},
                {
                    "hand.L",
                    "forearm.L",
                    "upper_arm.L",
                    "shoulder.L",
                    "spine.003",
                    "spine.002",
                    "spine.001",
                    "hips",
                },
            ),
        ],
    )
    def test_blender_s_ik_decides_its_whole_chain(self, settings: dict[str, Any], expected: set[str]) -> None:
        obj = builders.humanoid()
        constraint: Any = obj.pose.bones["hand.L"].constraints.new("IK")
        constraint.target = builders.empty("target", (0.3, 0.4, 1.2))
        for name, value in settings.items():
            setattr(constraint, name, value)
        before = blender_matrices(obj, read_armature(obj))
        armature = read_armature(obj)
        assert armature.driven == expected
        constraint.mute = True
        after = blender_matrices(obj, armature)
        turned = np.abs(after - before).max((1, 2)) > 1e-6
        below = [name for name, moved in zip(armature.skeleton.names, turned, strict=True) if moved]
        assert set(below) >= {"hand.L", "forearm.L"}

    def test_a_constraint_that_is_switched_on_later(self) -> None:
        obj = builders.chain(2)
        constraint: Any = obj.pose.bones[1].constraints.new("COPY_ROTATION")
        constraint.target, constraint.influence = builders.empty("target"), 0.0
        bpy.context.view_layer.update()
        assert not read_armature(obj).driven
        constraint.keyframe_insert("influence", frame=1)
        assert read_armature(obj).driven == {"bone.001"}

    def test_drivers(self) -> None:
        obj = builders.armature(
            'q"uote', [('a "b"', None, (0, 0, 0), (0, 0, 1)), ("c", None, (1, 0, 0), (1, 0, 1))]
        )
        obj.pose.bones['a "b"'].driver_add("rotation_quaternion", 2).driver.expression = "0.25"
        muted = obj.pose.bones["c"].driver_add("location", 0)
        muted.mute = True
        armature = read_armature(obj)
        assert armature.driven == {'a "b"'}
        assert disagreement(obj, armature, read_pose(obj, armature)) < AGREEMENT

    def test_effective_channels_give_blender_s_matrices(self, rng: np.random.Generator) -> None:
        """Constraints without shear, at several depths, below every kind of inheritance."""
        obj = tree(rng, n=20)
        for bone in obj.data.bones:
            bone.inherit_scale = str(rng.choice(INHERIT_SCALE))  # pyright: ignore
            bone.use_inherit_rotation = bool(rng.integers(2))
            bone.use_local_location = bool(rng.integers(2))
        target = builders.empty("target")
        for name in ("b2", "b5", "b6", "b9", "b15"):
            constraint: Any = obj.pose.bones[name].constraints.new("COPY_TRANSFORMS")
            constraint.target, constraint.influence = target, 1.0
        rot: Any = obj.pose.bones["b11"].constraints.new("COPY_ROTATION")
        rot.target, rot.influence = target, 0.3
        for _ in range(5):
            target.location, target.rotation_euler = rng.normal(size=3), rng.normal(size=3)
            pose_randomly(obj, rng, scale=0.0)
            armature = read_armature(obj)
            assert len(armature.driven) == 6
            assert disagreement(obj, armature, read_pose(obj, armature)) < AGREEMENT

    def test_shear_by_a_constraint_is_noticed(self) -> None:
        obj = builders.chain(3)
        target = builders.empty("target")
        target.rotation_euler = (0.5, 0.2, 0.4)
        turn: Any = obj.pose.bones[1].constraints.new("COPY_ROTATION")
        turn.target = target
        bpy.context.view_layer.update()
        armature = read_armature(obj)
        assert sheared_bones(obj, armature) == ()
        obj.pose.bones[0].scale = (1.0, 2.0, 1.0)
        assert sheared_bones(obj, armature) == ("bone.001",)
        obj.pose.bones[2].constraints.new("LIMIT_ROTATION")
        bpy.context.view_layer.update()
        assert sheared_bones(obj, read_armature(obj)) == ()  # nothing below is solved

    def test_a_driven_bone_that_is_scaled_to_nothing(self) -> None:
        obj = builders.chain(2)
        target = builders.empty("target")
        target.scale = (1.0, 0.0, 1.0)
        copy: Any = obj.pose.bones[1].constraints.new("COPY_TRANSFORMS")
        copy.target = target
        bpy.context.view_layer.update()
        armature = read_armature(obj)
        assert disagreement(obj, armature, read_pose(obj, armature)) < AGREEMENT
        obj.pose.bones[0].scale = (0.0, 0.0, 0.0)
        assert np.isfinite(read_pose(obj, armature).channels).all()

    def test_nothing_is_evaluated_without_driven_bones(self, rng: np.random.Generator) -> None:
        """An object that is in no view layer can be read."""
        data = tree(rng).data
        hidden = bpy.data.objects.new("hidden", data)
        other = bpy.data.scenes.new("other")
        other.collection.objects.link(hidden)
        other.view_layers[0].update()
        armature = read_armature(hidden)
        read_pose(hidden, armature)
        constraint: Any = hidden.pose.bones[1].constraints.new("LIMIT_ROTATION")
        assert constraint.is_valid
        armature = read_armature(hidden)
        with pytest.raises(IKError, match="view layer"):
            read_pose(hidden, armature)


class TestReadingPoses:
    @pytest.mark.parametrize("mode", ["QUATERNION", "AXIS_ANGLE"])
    def test_angles_are_those_inside_the_limits_also_where_others_are_smaller(self, mode: Any) -> None:
        obj = builders.chain(1)
        bone = obj.pose.bones[0]
        bone.rotation_mode = mode
        limits = {"x": (0.0, 2.5), "y": (-1.0, 0.5), "z": (-0.2, 3.0)}
        for axis, (lower, upper) in limits.items():
            setattr(bone, f"use_ik_limit_{axis}", True)
            setattr(bone, f"ik_min_{axis}", min(lower, 0.0))
            setattr(bone, f"ik_max_{axis}", upper)
        armature = read_armature(obj)
        rest = read_pose(obj, armature)
        angles = np.array([2.5, 0.4, 2.5])  # on a limit: read back it is outside by rounding
        write_pose(obj, armature, rest.with_channels(np.array([[0.0, 0.0, 0.0, *angles]])), ["bone.000"])
        np.testing.assert_allclose(read_pose(obj, armature).rotation[0], angles, atol=1e-6)

    def test_euler_angles_are_read_as_they_are(self, obj: Any) -> None:
        bone = obj.pose.bones[0]
        bone.rotation_mode, bone.rotation_euler = "YZX", (7.0, -20.0, 3.5)
        armature = read_armature(obj)
        assert read_pose(obj, armature).rotation[0].tolist() == [7.0, -20.0, 3.5]

    def test_another_rotation_mode_or_bone_than_was_read_is_refused(self) -> None:
        obj = builders.chain(2)
        armature = read_armature(obj)
        obj.pose.bones[1].rotation_mode = "XYZ"
        with pytest.raises(IKError, match=r"'bone.001'.*XYZ"):
            read_pose(obj, armature)
        obj.pose.bones[1].rotation_mode = "QUATERNION"
        obj.data.bones[0].name = "other"
        with pytest.raises(IKError, match="'other'"):
            read_pose(obj, armature)


class TestWritingPoses:
    @pytest.mark.parametrize("mode", MODES)
    def test_blender_shows_what_was_written(self, mode: Any, rng: np.random.Generator) -> None:
        obj = tree(rng)
        for bone in obj.pose.bones:
            bone.rotation_mode = mode
        for _ in range(5):
            pose_randomly(obj, rng)
            armature = read_armature(obj)
            pose = read_pose(obj, armature)
            change = np.where(armature.skeleton.free, rng.normal(size=pose.channels.shape) * 2.0, 0.0)
            wanted = pose.with_channels(pose.channels + change)
            write_pose(obj, armature, wanted, armature.skeleton.names)
            assert disagreement(obj, armature, wanted) < AGREEMENT
            again = read_pose(obj, armature)
            assert disagreement(obj, armature, again) < AGREEMENT

    @pytest.mark.parametrize("mode", MODES)
    def test_writing_what_was_read_changes_next_to_nothing(self, mode: Any, rng: np.random.Generator) -> None:
        obj = tree(rng)
        for bone in obj.pose.bones:
            bone.rotation_mode = mode
        pose_randomly(obj, rng)
        for bone in obj.pose.bones:
            bone.rotation_quaternion = bone.rotation_quaternion.normalized()
            axis = np.array(bone.rotation_axis_angle)[1:]
            bone.rotation_axis_angle = (rng.uniform(-9.0, 9.0), *(axis / np.linalg.norm(axis)))
            bone.rotation_euler = rng.uniform(-9.0, 9.0, size=3)
        armature = read_armature(obj)
        before = PoseSnapshot.take(obj)
        write_pose(obj, armature, read_pose(obj, armature), range(len(armature.skeleton)))
        after = PoseSnapshot.take(obj)
        np.testing.assert_allclose(after.channels, before.channels, atol=5e-6)

    @pytest.mark.parametrize("mode", MODES)
    def test_locked_channels_and_other_bones_keep_their_bits(
        self, mode: Any, rng: np.random.Generator
    ) -> None:
        obj = tree(rng)
        pose_randomly(obj, rng)
        locked, free, other = obj.pose.bones["b0"], obj.pose.bones["b1"], obj.pose.bones["b2"]
        for bone in obj.pose.bones:
            bone.rotation_mode = mode
        locked.lock_rotation, locked.lock_location = (True, False, True), (False, True, False)
        locked.rotation_quaternion, locked.rotation_axis_angle = (0.8, 0.0, 0.6, 0.0), (1.0, 0.0, -0.5, 0.0)
        before = {bone.name: bits(bone) for bone in obj.pose.bones}
        armature = read_armature(obj)
        pose = read_pose(obj, armature)
        change = np.where(armature.skeleton.free, rng.normal(size=pose.channels.shape), 0.0)
        wanted = pose.with_channels(pose.channels + change)
        write_pose(obj, armature, wanted, ["b0", "b1"])
        assert bits(other) == before["b2"]
        assert bits(free)["location"] == before["b1"]["location"]
        assert bits(free)["scale"] == before["b1"]["scale"]
        after = bits(locked)
        written, width = {
            "QUATERNION": ("rotation_quaternion", 4),
            "AXIS_ANGLE": ("rotation_axis_angle", 4),
        }.get(mode, ("rotation_euler", 3))
        for name in set(ROTATION_PROPERTIES) - {written}:
            assert after[name] == before["b0"][name]
        for component in (width - 3, width - 1):  # x and z
            part = slice(4 * component, 4 * component + 4)
            assert after[written][part] == before["b0"][written][part]
        assert after["location"][4:8] == before["b0"]["location"][4:8]
        assert after["location"] != before["b0"]["location"]
        assert after[written] != before["b0"][written]
        chosen = [armature.skeleton.index(name) for name in ("b0", "b1")]
        channels = np.array(pose.channels)
        channels[chosen] = wanted.channels[chosen]
        assert disagreement(obj, armature, pose.with_channels(channels)) < AGREEMENT

    def test_the_nearest_representation_is_written(self) -> None:
        obj = builders.chain(4)
        euler, quaternion, axis_angle, limited = obj.pose.bones
        euler.rotation_mode, euler.rotation_euler = "XYZ", (6.5, 0.1, -7.0)
        quaternion.rotation_quaternion = (-0.8, 0.0, 0.6, 0.0)
        axis_angle.rotation_mode, axis_angle.rotation_axis_angle = "AXIS_ANGLE", (-7.0, 0.0, 0.0, -1.0)
        limited.rotation_mode, limited.rotation_euler = "XYZ", (2.0, 1.5, 0.0)
        limited.use_ik_limit_y, limited.ik_max_y = True, 1.55
        armature = read_armature(obj)
        pose = read_pose(obj, armature)
        channels = np.array(pose.channels)
        channels[0, 3:] = [0.3, 0.1, -0.6]
        channels[3, 3:] = [-1.2, 1.54, -3.1]
        write_pose(obj, armature, pose.with_channels(channels), range(4))
        np.testing.assert_allclose(
            np.array(euler.rotation_euler), [0.3 + 2 * np.pi, 0.1, -0.6 - 2 * np.pi], rtol=1e-6
        )
        np.testing.assert_allclose(np.array(quaternion.rotation_quaternion), [-0.8, 0, 0.6, 0], atol=1e-6)
        np.testing.assert_allclose(np.array(axis_angle.rotation_axis_angle), [-7, 0, 0, -1], atol=1e-5)
        np.testing.assert_allclose(limited.rotation_euler[1], 1.54, rtol=1e-6)

    def test_a_bone_that_turns_about_one_axis_only(self, obj: Any) -> None:
        bone = obj.pose.bones[0]
        bone.rotation_mode = "AXIS_ANGLE"
        bone.lock_rotation = (True, True, False)
        bone.rotation_axis_angle = (0.0, 0.0, 0.0, 0.0)
        armature = read_armature(obj)
        wanted = Pose.from_channels([[0, 0, 0, 0, 0, 2.5]])
        write_pose(obj, armature, wanted, [0])
        assert disagreement(obj, armature, wanted) < AGREEMENT
        np.testing.assert_allclose(np.array(bone.rotation_axis_angle), [2.5, 0, 0, 1], rtol=1e-6)

    def test_driven_bones_are_not_written(self) -> None:
        obj = builders.chain(2)
        obj.pose.bones[1].constraints.new("LIMIT_ROTATION")
        bpy.context.view_layer.update()
        armature = read_armature(obj)
        before = bits(obj.pose.bones[1])
        write_pose(obj, armature, Pose.from_channels(np.ones((2, 6))), [0, 1])
        assert bits(obj.pose.bones[1]) == before

    def test_a_pose_of_another_skeleton_is_refused(self) -> None:
        obj = builders.chain(2)
        armature = read_armature(obj)
        with pytest.raises(IKError, match=r"\(3, 6\)"):
            write_pose(obj, armature, Pose.from_channels(np.zeros((3, 6))), [0])
        with pytest.raises(IKError, match="'nose'"):
            write_pose(obj, armature, Pose.from_channels(np.zeros((2, 6))), ["nose"])


class TestChannelValues:
    def test_an_axis_is_there_before_the_bone_turns(self) -> None:
        obj = builders.chain(2)
        for bone in obj.pose.bones:
            bone.rotation_mode = "AXIS_ANGLE"
        armature = read_armature(obj)
        channels = np.zeros((4, 2, 6))
        channels[:, 0, 3] = [0.0, 0.0, -0.5, 0.5]
        values = np.array([key.values for key in channel_values(armature, channels, [0, 1])[3:]])
        np.testing.assert_allclose(
            values[:4].T, [[0, 1, 0, 0], [0, 1, 0, 0], [-0.5, 1, 0, 0], [0.5, 1, 0, 0]]
        )
        np.testing.assert_allclose(values[4:].T, [[0, 0, 1, 0]] * 4)

    @pytest.mark.parametrize("limited", [False, True])
    def test_angles_go_on_beyond_half_a_turn(self, limited: bool, obj: Any) -> None:
        bone = obj.pose.bones[0]
        bone.rotation_mode = "XYZ"
        bone.use_ik_limit_y, bone.ik_min_y, bone.ik_max_y = limited, -1.5, 1.5
        armature = read_armature(obj)
        channels = np.zeros((40, 1, 6))
        channels[:, 0, 3] = np.linspace(-6.0, 6.0, 40)
        channels[:, 0, 4] = 1.5 * np.sin(np.linspace(0.0, 20.0, 40))
        folded = np.array(channels)
        folded[..., 3] = np.arctan2(np.sin(channels[..., 3]), np.cos(channels[..., 3]))
        x, y, _ = channel_values(armature, folded, [0])[3:]
        np.testing.assert_allclose(y.values, channels[:, 0, 4])
        np.testing.assert_allclose(np.diff(x.values), np.diff(channels[:, 0, 3]), atol=1e-9)

    def test_channels_of_the_wrong_shape_are_refused(self) -> None:
        armature = read_armature(builders.chain(2))
        with pytest.raises(IKError, match=r"\(frames, 2, 6\)"):
            channel_values(armature, np.zeros((2, 6)), [0])


class TestPoseSnapshot:
    def test_every_bit_comes_back(self, rng: np.random.Generator) -> None:
        obj = tree(rng)
        for bone in obj.pose.bones:
            bone.rotation_mode = str(rng.choice(MODES))
        pose_randomly(obj, rng)
        before = {bone.name: bits(bone) for bone in obj.pose.bones}
        modes = [bone.rotation_mode for bone in obj.pose.bones]
        snapshot = PoseSnapshot.take(obj)
        for bone in obj.pose.bones:
            bone.rotation_mode = str(rng.choice(MODES))
        pose_randomly(obj, rng)
        snapshot.restore(obj)
        assert {bone.name: bits(bone) for bone in obj.pose.bones} == before
        assert [bone.rotation_mode for bone in obj.pose.bones] == modes

    def test_of_named_bones_only(self, rng: np.random.Generator) -> None:
        obj = tree(rng)
        snapshot = PoseSnapshot.take(obj, ["b1"])
        pose_randomly(obj, rng)
        moved = bits(obj.pose.bones["b2"])
        snapshot.restore(obj)
        assert bits(obj.pose.bones["b2"]) == moved
        assert not np.array(obj.pose.bones["b1"].location).any()
        with pytest.raises(IKError, match="nose"):
            PoseSnapshot.take(obj, ["nose"])


class TestObjectTransform:
    def evaluated(self, obj: Any) -> Any:
        bpy.context.view_layer.update()
        return obj.evaluated_get(bpy.context.evaluated_depsgraph_get())

    def test_moved_turned_scaled_and_parented(self, rng: np.random.Generator) -> None:
        obj, parent = builders.humanoid(), builders.empty("parent")
        obj.location, obj.rotation_euler, obj.scale = (1, 2, 3), (0.4, -1.0, 2.0), (0.01, 0.01, 0.01)
        parent.location, parent.rotation_euler, parent.scale = (0.1, 0.2, 0.3), (2, 1, -2), (300, 300, 300)
        obj.parent = parent
        pose_randomly(obj, rng)
        armature = read_armature(obj)
        world, scale = world_from_armature(self.evaluated(obj))
        assert scale == pytest.approx(3.0, rel=1e-6)
        posed = forward_kinematics(armature.skeleton, read_pose(obj, armature)).matrices
        for name, matrix in zip(armature.skeleton.names, posed, strict=True):
            expected = np.array(obj.matrix_world @ obj.pose.bones[name].matrix)
            np.testing.assert_allclose(world @ matrix, expected, atol=2e-5)

    @pytest.mark.parametrize(
        ("scale", "message"),
        [
            ((1.0, 1.0, 1.01), r"uneven.*\(1, 1, 1.01\)"),
            ((-1.0, 1.0, 1.0), "mirrored"),
            ((-2.0, -2.0, -2.0), "mirrored"),
            ((1.0, 0.0, 1.0), "zero"),
        ],
    )
    def test_scales_that_are_refused(self, scale: Sequence[float], message: str) -> None:
        obj = builders.chain(1, name="Rig")
        obj.scale = scale
        with pytest.raises(IKError, match=rf"'Rig'.*{message}"):
            world_from_armature(self.evaluated(obj))
        obj.scale = (-2.0, -2.0, 2.0)  # a rotation
        assert world_from_armature(self.evaluated(obj))[1] == pytest.approx(2.0)

    def test_pure_shear_is_refused(self) -> None:
        """Axes of equal length that are not at right angles."""
        matrix = np.eye(4)
        matrix[:3, 0], matrix[:3, 1] = (1.0, 0.0, 0.0), (np.sin(0.01), np.cos(0.01), 0.0)
        with pytest.raises(IKError, match="'Rig' is sheared"):
            world_from_armature(SimpleNamespace(name="Rig", matrix_world=matrix))  # pyright: ignore


class TestRefusals:
    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: None, "select an armature"),
            (lambda: builders.empty("thing"), r"'thing'.*EMPTY"),
            (lambda: builders.armature("bare", []), r"'bare'.*no bones"),
        ],
    )
    def test_what_cannot_be_read(self, make: Any, words: str) -> None:
        with pytest.raises(IKError, match=words):
            read_armature(make())

    def test_linked_from_another_file(self, tmp_path: Any) -> None:
        path = str(tmp_path / "library.blend")
        obj = builders.chain(2, name="Linked")
        bpy.data.libraries.write(path, {obj})
        bpy.data.objects.remove(obj)
        (rig,) = builders.link_objects(path, "Linked")
        with pytest.raises(IKError, match=r"'Linked'.*library.blend.*override"):
            read_armature(rig)
        # With an override of the object alone, its armature still linked, it can be posed.
        override = rig.override_create(remap_local_usages=True)
        armature = read_armature(override)
        wanted = Pose.from_channels(np.full((2, 6), [0.0, 0.0, 0.0, 0.1, 0.2, 0.3]))
        write_pose(override, armature, wanted, [0, 1])
        assert disagreement(override, armature, wanted) < AGREEMENT

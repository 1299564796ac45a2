# SPDX-License-Identifier: GPL-3.0-or-later
"""The operators: what they do to the effectors, what they refuse, and that they add nothing to `posing`."""

from collections.abc import Callable, Sequence
from pathlib import Path

import bpy
import numpy as np
import pytest

from blender_ik_addon.scene import posing

from . import builders
from .records import pose_mode

LIMBS = ("hand.L", "hand.R", "foot.L", "foot.R")


def effector_names(armature: bpy.types.Object) -> list[str]:
    return [effector.bone for effector in armature.poise.effectors]


def rig_with_effectors(bones: Sequence[str] = LIMBS) -> bpy.types.Object:
    armature = builders.humanoid()
    for bone in bones:
        posing.add_effector(armature, bone)
    return armature


# What the list of effectors is like afterwards


def test_add_gives_every_selected_bone_an_effector_and_an_empty_at_its_place():
    armature = builders.humanoid()
    pose_mode(armature, "hand.L", "foot.R")
    assert bpy.ops.poise.add_effector() == {'FINISHED'}
    assert effector_names(armature) == ["hand.L", "foot.R"]
    assert armature.poise.active_effector == 1
    bpy.context.view_layer.update()
    for effector in armature.poise.effectors:
        place = armature.matrix_world @ armature.pose.bones[effector.bone].matrix
        assert effector.kind == 'BOTH'
        assert effector.target.type == 'EMPTY'
        np.testing.assert_allclose(effector.target.matrix_world, place, atol=1e-6)


def test_add_takes_the_bone_that_is_named_or_outside_pose_mode_the_active_one():
    armature = builders.humanoid()
    armature.data.bones.active = None
    with pytest.raises(RuntimeError, match="Select the bones"):
        bpy.ops.poise.add_effector()
    with pytest.raises(RuntimeError, match="nose"):
        bpy.ops.poise.add_effector(bone="nose")
    assert effector_names(armature) == []
    armature.data.bones.active = armature.data.bones["head"]
    assert bpy.ops.poise.add_effector(kind='ORIENTATION', make_targets=False) == {'FINISHED'}
    effector = armature.poise.effectors[0]
    assert (effector.bone, effector.kind, effector.target) == ("head", 'ORIENTATION', None)
    pose_mode(armature, "hand.L")
    bpy.ops.poise.add_effector(bone="foot.L")
    assert effector_names(armature) == ["head", "foot.L"]


def test_remove_takes_the_active_effector_and_leaves_its_neighbour_active():
    armature = rig_with_effectors()
    armature.poise.active_effector = 1
    target = armature.poise.effectors[1].target.name
    assert bpy.ops.poise.remove_effector() == {'FINISHED'}
    assert effector_names(armature) == ["hand.L", "foot.L", "foot.R"]
    assert armature.poise.active_effector == 1
    assert target in bpy.context.scene.objects
    armature.poise.active_effector = 2
    bpy.ops.poise.remove_effector()
    assert armature.poise.active_effector == 1
    bpy.ops.poise.remove_effector()
    bpy.ops.poise.remove_effector()
    assert effector_names(armature) == []
    assert armature.poise.active_effector == 0


def test_move_goes_up_and_down_and_stops_at_the_ends():
    armature = rig_with_effectors(["hand.L", "hand.R", "head"])
    armature.poise.active_effector = 2
    assert bpy.ops.poise.move_effector(direction='UP') == {'FINISHED'}
    assert effector_names(armature) == ["hand.L", "head", "hand.R"]
    assert armature.poise.active_effector == 1
    bpy.ops.poise.move_effector(direction='UP')
    assert bpy.ops.poise.move_effector(direction='UP') == {'CANCELLED'}
    assert effector_names(armature) == ["head", "hand.L", "hand.R"]
    bpy.ops.poise.move_effector(direction='DOWN')
    bpy.ops.poise.move_effector(direction='DOWN')
    assert bpy.ops.poise.move_effector(direction='DOWN') == {'CANCELLED'}
    assert effector_names(armature) == ["hand.L", "hand.R", "head"]


# What greys the buttons out, in words


def refusal(operator: Callable[[], set[str]]) -> str:
    """The words with which an operator's poll refuses."""
    with pytest.raises(RuntimeError) as caught:
        operator()
    return str(caught.value)


@pytest.mark.parametrize(
    ("prepare", "words", "operators"),
    [
        (lambda: builders.empty("nobody's target"), "Select an armature", ("solve_pose", "add_effector")),
        (lambda: (rig_with_effectors(), bpy.ops.object.mode_set(mode='EDIT')), "Leave Edit Mode", ("bake",)),
        (
            builders.humanoid,
            "Add an effector first",
            ("bake", "make_targets", "move_effector", "remove_effector", "solve_pose"),
        ),
        (rig_with_effectors, "Every effector has a target", ("make_targets",)),
    ],
)
def test_poll_says_what_is_missing(prepare: Callable[[], object], words: str, operators: Sequence[str]):
    prepare()
    for operator in operators:
        assert words in refusal(getattr(bpy.ops.poise, operator))


def test_a_target_stands_for_the_armature_that_follows_it():
    builders.humanoid("bystander")
    armature = rig_with_effectors(["hand.L"])
    target = armature.poise.effectors[0].target
    bpy.context.view_layer.objects.active = target
    target.location.z += 0.1
    assert bpy.ops.poise.solve_pose() == {'FINISHED'}
    assert armature.poise.effectors[0].error_position >= 0.0


# An operator gives the numbers of the function that it calls


def reaching_figure() -> bpy.types.Object:
    """A figure in an empty file, whose hand is asked to go forward and down over six frames."""
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    armature = rig_with_effectors()
    target = armature.poise.effectors[0].target
    for frame, step in ((1, 0.0), (6, 0.2)):
        target.location.y -= step
        target.location.z -= step
        target.keyframe_insert("location", frame=frame)
    bpy.context.scene.frame_start, bpy.context.scene.frame_end = 1, 6
    bpy.context.scene.frame_set(4)
    return armature


def basis_matrices(armature: bpy.types.Object) -> np.ndarray:
    """The pose of every bone against its rest pose, (bones, 4, 4)."""
    return np.array([bone.matrix_basis for bone in armature.pose.bones])


def baked_matrices(armature: bpy.types.Object, frames: Sequence[int]) -> np.ndarray:
    """What the keys make of the bones, (frames, bones, 4, 4)."""
    poses = []
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        poses.append(basis_matrices(armature))
    return np.array(poses)


def measured(armature: bpy.types.Object) -> list[tuple[float, float]]:
    return [(effector.error_position, effector.error_rotation) for effector in armature.poise.effectors]


def test_solve_pose_gives_the_numbers_of_the_function():
    by_function = reaching_figure()
    report = posing.solve_pose(by_function)
    pose, errors = basis_matrices(by_function), measured(by_function)
    message = by_function.poise.last_message
    by_operator = reaching_figure()
    assert bpy.ops.poise.solve_pose() == {'FINISHED'}
    np.testing.assert_array_equal(basis_matrices(by_operator), pose)
    assert measured(by_operator) == errors
    assert by_operator.poise.last_message == message != ""
    assert by_operator.poise.last_reached == report.reached
    assert np.abs(pose - np.eye(4)).max() > 0.1  # it has moved at all


@pytest.mark.parametrize("context", ["EXEC_DEFAULT", "INVOKE_DEFAULT"])
def test_bake_gives_the_numbers_of_the_function(context: str):
    frames = range(1, 7)
    by_function = reaching_figure()
    report = posing.bake(by_function)
    poses = baked_matrices(by_function, frames)
    by_operator = reaching_figure()
    assert bpy.ops.poise.bake(context) == {'FINISHED'}
    assert bpy.context.scene.frame_current == 4
    np.testing.assert_array_equal(baked_matrices(by_operator, frames), poses)
    assert by_operator.poise.last_reached == report.reached
    assert np.abs(poses[-1] - poses[0]).max() > 0.1  # it has moved at all


def test_bake_takes_the_frames_that_are_given_and_refuses_half_a_range():
    armature = reaching_figure()
    with pytest.raises(RuntimeError, match="both start and end"):
        bpy.ops.poise.bake(start=2)
    assert armature.animation_data is None
    bpy.ops.poise.bake(start=2, end=4)
    assert armature.animation_data.action.frame_range[:] == (2.0, 4.0)


def test_wrong_input_is_an_error_and_changes_nothing():
    armature = reaching_figure()
    armature.poise.effectors[1].bone = "nose"
    before = basis_matrices(armature)
    with pytest.raises(RuntimeError, match="nose"):
        bpy.ops.poise.solve_pose()
    with pytest.raises(RuntimeError, match="nose"):
        bpy.ops.poise.bake()
    np.testing.assert_array_equal(basis_matrices(armature), before)
    assert armature.animation_data is None


def test_a_target_out_of_reach_is_a_result_not_an_error(capfd: pytest.CaptureFixture[str]):
    armature = rig_with_effectors(["hand.L"])
    armature.poise.move_root = False
    armature.poise.effectors[0].target.location.x += 5.0
    assert bpy.ops.poise.solve_pose() == {'FINISHED'}
    assert not armature.poise.last_reached
    assert armature.poise.effectors[0].error_position > 3.0
    assert "Warning" in capfd.readouterr().out


# Characters linked from another file


def test_a_linked_character_greys_the_buttons_out(tmp_path: Path):
    rig_with_effectors(["foot.L"])
    path = str(tmp_path / "character.blend")
    bpy.data.libraries.write(path, {bpy.data.objects["humanoid"]})
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    (linked,) = builders.link_objects(path, "humanoid")
    bpy.context.view_layer.objects.active = linked
    assert "make a library override" in refusal(bpy.ops.poise.solve_pose)

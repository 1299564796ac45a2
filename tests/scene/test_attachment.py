# SPDX-License-Identifier: GPL-3.0-or-later
"""Moving a whole character: targets are children of the armature object, and go where it goes."""

from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.core import IKError
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.effectors.effectors import read_effectors
from blender_ik_addon.scene.effectors.transforms import bring_target, goes_along, staying_behind

from . import builders

STILL = 1e-5
"""How far channels of bones may move where nothing moves against the armature: single precision [m], [1]."""


def character(scale: float = 1.0, **options: Any) -> Any:
    """A figure somewhere in the world, set up, at rest at its targets."""
    armature: Any = builders.humanoid()
    armature.location, armature.rotation_euler = (1.0, 2.0, 0.5), (0.2, 0.0, 1.0)
    armature.scale = (scale, scale, scale)
    bpy.context.view_layer.update()
    posing.setup_character(armature, **options)
    hips = target_of(armature, "hips").matrix_world.translation
    target = target_of(armature, "hand.L")
    target.location += 0.15 * (hips - target.location)
    for _ in range(4):  # at a hundredth of the size targets are rounded so that one solve may stop on its way
        assert posing.solve_pose(armature).reached
    return armature


def target_of(armature: Any, part: str) -> Any:
    return next(entry.target for entry in armature.poise.effectors if entry.part == part)


def channels(armature: Any) -> FloatArray:
    return np.array([[*bone.location, *bone.rotation_quaternion] for bone in armature.pose.bones])


def places(armature: Any) -> FloatArray:
    """Places of targets in the world, (E, 4, 4)."""
    bpy.context.view_layer.update()
    return np.array([entry.target.matrix_world for entry in armature.poise.effectors])


def carry(armature: Any) -> None:
    """Move, turn and grow the armature object."""
    armature.location, armature.rotation_euler = (-7.0, 3.0, 1.0), (0.4, -0.3, 2.5)
    armature.scale = tuple(2.0 * np.array(armature.scale))
    bpy.context.view_layer.update()


@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_moving_the_armature_object_moves_the_whole_character(scale: float):
    armature = character(scale, poles=True)
    before, within = channels(armature), np.linalg.inv(np.array(armature.matrix_world)) @ places(armature)
    carry(armature)
    np.testing.assert_allclose(
        np.linalg.inv(np.array(armature.matrix_world)) @ places(armature), within, atol=STILL / scale
    )
    assert posing.solve_pose(armature).reached
    np.testing.assert_allclose(channels(armature), before, atol=20.0 * STILL)


def test_set_up_leaves_targets_where_their_bones_are_and_their_channels_say_so():
    armature = character()
    for entry in armature.poise.effectors:
        assert entry.target.parent in {armature, target_of(armature, "hips")}
        if entry.target.parent == armature:
            place = entry.target.matrix_world.translation
            np.testing.assert_allclose(entry.target.location, place, atol=2e-6)


def test_an_animated_armature_object_takes_the_character_through_a_bake():
    armature = character()
    for frame, x in ((1, 0.0), (5, 4.0)):
        armature.location.x = x
        armature.keyframe_insert("location", frame=frame)
    report = posing.bake(armature, range(1, 6))
    assert report.reached
    before = channels(armature)
    bpy.context.scene.frame_set(1)
    np.testing.assert_allclose(channels(armature), before, atol=20.0 * STILL)


def test_live_mode_lets_a_character_be_that_is_carried():
    armature = character()
    posing.switch_live(armature, True)
    bpy.context.view_layer.update()
    before = channels(armature)
    carry(armature)
    np.testing.assert_allclose(channels(armature), before, atol=20.0 * STILL)
    target_of(armature, "hand.L").location.z -= 0.1
    bpy.context.view_layer.update()
    assert np.abs(channels(armature) - before).max() > 0.01


def test_further_targets_do_as_the_others(armature: Any):
    posing.add_effector(armature, "hand.L")
    assert not goes_along(armature) and armature.poise.effectors[0].target.parent is None
    posing.setup_character(armature)
    # Indices first: adding moves the list in memory, and entries that are kept are not there any more.
    added = [posing.add_effector(armature, "head", kind='AIM')]
    added.append(posing.add_effector(armature, "foot.L", kind='FLOOR'))
    head, floor = (armature.poise.effectors[index] for index in added)
    assert head.target.parent == armature and floor.target.parent is None
    assert [target.name for target in staying_behind(armature)] == ["humanoid hand.L"]


def test_targets_are_attached_where_they_are_and_keep_their_keys(armature: Any):
    armature.location, armature.rotation_euler = (1.0, 2.0, 0.5), (0.2, 0.0, 1.0)
    bpy.context.view_layer.update()
    for bone in ("hand.L", "hand.R", "head"):
        posing.add_effector(armature, bone)
    hand, other, head = (entry.target for entry in armature.poise.effectors)
    hand.keyframe_insert("location", frame=1)
    hand.location.x += 1.0
    hand.keyframe_insert("location", frame=11)
    bpy.context.scene.frame_set(7)
    before = places(armature)
    other.parent = builders.empty("table")
    head.constraints.new('COPY_ROTATION').target = bpy.data.objects["table"]
    before = places(armature)
    assert bpy.ops.poise.attach_targets.poll()
    assert bpy.ops.poise.attach_targets() == {'FINISHED'}
    np.testing.assert_allclose(places(armature), before, atol=2e-6)
    assert (hand.parent, other.parent.name, head.parent) == (armature, "table", None)
    bpy.context.scene.frame_set(11)
    np.testing.assert_allclose(hand.matrix_world.translation, hand.location, atol=2e-6)


def shared(armature: Any, target: Any) -> None:
    second = builders.humanoid("second")
    posing.add_effector(second, "hand.L", target=target)


def both_animated(armature: Any, target: Any) -> None:
    armature.keyframe_insert("location", frame=1)
    target.keyframe_insert("location", frame=1)


def carried_in_between(armature: Any, target: Any) -> None:
    armature.parent = builders.empty("between")
    armature.parent.parent = target


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (shared, "another armature follows it, too"),
        (both_animated, "its keys would mean other places"),
        (lambda armature, target: target.constraints.new('LIMIT_LOCATION'), "it has constraints"),
        (lambda armature, target: setattr(armature, "parent", target), "the armature goes where it goes"),
        (carried_in_between, "the armature goes where it goes"),
    ],
)
def test_what_cannot_be_attached_is_told(spoil: Any, words: str, armature: Any):
    posing.add_effector(armature, "hand.L")
    target: Any = armature.poise.effectors[0].target
    spoil(armature, target)
    report = posing.attach_targets(armature)
    assert not report.attached and target.parent is None
    assert words in report.summary() and "'humanoid hand.L'" in report.summary()


def test_every_target_of_a_choice_is_attached_and_only_empties_are(armature: Any):
    several = armature.poise.effectors[posing.add_effector(armature, "hand.L", kind='ONE_OF')]
    targets = [several.target, *(other.target for other in several.others)]
    ball = bpy.data.objects.new("ball", bpy.data.meshes.new("ball"))
    bpy.context.scene.collection.objects.link(ball)
    posing.add_effector(armature, "head", kind='AIM', target=ball)
    assert posing.attach_targets(armature).attached == tuple(target.name for target in targets)
    assert [target.parent for target in targets] == [armature, armature] and ball.parent is None


def test_a_linked_target_stays_as_it_is_and_is_told(tmp_path: Any):
    builders.empty("goal", (1.0, 0.0, 1.0))
    bpy.data.libraries.write(str(tmp_path / "props.blend"), {bpy.data.objects["goal"]})
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    (goal,) = builders.link_objects(tmp_path / "props.blend", "goal")
    armature = builders.humanoid()
    posing.add_effector(armature, "hand.L", target=goal)
    assert (
        "'goal' stays as it is: it is linked from another file" in posing.attach_targets(armature).summary()
    )
    assert goal.parent is None


def test_the_button_says_when_there_is_nothing_to_attach():
    character()
    assert not bpy.ops.poise.attach_targets.poll()


def test_keys_are_mirrored_also_while_the_armature_is_animated():
    armature = character()
    for frame, angle in ((1, 0.0), (11, 2.0)):
        armature.rotation_euler.z = angle
        armature.keyframe_insert("rotation_euler", frame=frame)
        for part, rise in (("hand.L", 0.01), ("foot.R", 0.02)):
            target_of(armature, part).location.z += rise * frame
            target_of(armature, part).keyframe_insert("location", frame=frame)

    def shown() -> FloatArray:
        rows = []
        for frame in (1, 4, 11):
            bpy.context.scene.frame_set(frame)
            rows.append(np.linalg.inv(np.array(armature.matrix_world)) @ places(armature))
        return np.array(rows)

    before = shown()
    report = posing.mirror(armature, 'FLIP')
    assert not [note for note in report.notes if "keys" in note]
    once, mirror = shown(), np.array([-1.0, 1.0, 1.0])  # the figure's middle is at x = 0
    parts = [entry.part for entry in armature.poise.effectors]
    left, right = parts.index("hand.L"), parts.index("hand.R")
    np.testing.assert_allclose(once[:, right, :3, 3], before[:, left, :3, 3] * mirror, atol=1e-5)
    posing.mirror(armature, 'FLIP')
    np.testing.assert_allclose(shown(), before, atol=1e-5)


def test_a_target_that_comes_along_in_a_drag_is_brought_through_its_parent():
    armature = character()
    index = next(i for i, entry in enumerate(armature.poise.effectors) if entry.part == "hand.R")
    posing.keep_orientation(armature, index, True)
    effector = next(each for each in read_effectors(armature) if each.index == index)
    carry(armature)  # from now on the channels of targets are not places in the world
    wanted = np.array(armature.matrix_world @ armature.pose.bones["hand.L"].matrix)
    moved = [target for target, *_ in bring_target(armature, effector, wanted)]
    assert moved == [target_of(armature, "hand.R")]
    np.testing.assert_allclose(places(armature)[index], wanted, atol=2e-6)


def test_one_undo_takes_back_parents_too(armature: Any):
    posing.add_effector(armature, "hand.L")
    bpy.ops.ed.undo_push(message="before")
    bpy.ops.poise.attach_targets()
    bpy.ops.ed.undo_push(message="Attach Targets")
    assert bpy.data.objects["humanoid hand.L"].parent is not None
    bpy.ops.ed.undo()
    assert bpy.data.objects["humanoid hand.L"].parent is None


def test_nothing_is_attached_to_what_is_scaled_to_nothing():
    armature: Any = builders.chain(2)
    posing.add_effector(armature, "bone.001")
    target = armature.poise.effectors[0].target
    target.parent = None
    armature.scale = (0.0, 0.0, 0.0)
    with pytest.raises(IKError, match="nothing can be attached to 'chain'"):
        posing.attach_targets(armature)
    assert target.parent is None

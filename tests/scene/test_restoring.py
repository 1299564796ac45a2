# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bake changes for a while can be put back exactly, on each supported Blender."""

from collections.abc import Callable
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.core.errors import IKError
from blender_ik_addon.scene.animation import fcurves as animation
from blender_ik_addon.scene.animation.key_writing import write_keys
from blender_ik_addon.scene.armature.restoring import ActionSnapshot, scene_state

from .actions import LOCATION, assign_slot, channelbag_of, curve_of, location_keys, odd_curve, points
from .builders import basic_human_metarig, chain, empty
from .records import action_record, scene_record, select_bones

# The action


def bake_over(obj: Any) -> None:
    keys = [
        key
        for name in ("location", "rotation_euler", "scale")
        for key in animation.bone_keys("bone.000", name, np.full((11, 3), 7.0))
    ]
    write_keys(obj, np.arange(2.0, 13.0), keys, interpolation="BEZIER")


def nothing(obj: Any) -> None:
    """No animation data."""


def data_only(obj: Any) -> None:
    """Animation data, no action; a trace of an earlier slot."""
    obj.animation_data_create().last_slot_identifier = "OBonce"


def empty_action(obj: Any) -> None:
    """An action with nothing in it."""
    obj.animation_data_create().action = bpy.data.actions.new("Bare")


def empty_slot(obj: Any) -> None:
    """A slot without F-curves."""
    empty_action(obj)
    obj.animation_data.action_slot = obj.animation_data.action.slots.new("OBJECT", "mine")


def curves_by_hand(obj: Any) -> None:
    """F-curves with all sorts of keys, and a slot of another object in the same action."""
    odd_curve(obj)
    other = chain(1, name="other")
    bag = assign_slot(other, obj.animation_data.action, "other")
    bag.fcurves.new(LOCATION, index=0).keyframe_points.insert(4, 42.0)
    write_keys(obj, [5, 6], [location_keys([1.0, 2.0], index=2, group="bone.000")])
    curve_of(obj, index=2).modifiers.new("CYCLES")


@pytest.mark.parametrize("before", [nothing, data_only, empty_action, empty_slot, curves_by_hand])
def test_restoring_is_exact(before: Callable[[Any], None]) -> None:
    obj = chain(1)
    before(obj)
    state = action_record(obj)
    snapshot = ActionSnapshot.take(obj)

    bake_over(obj)
    assert action_record(obj) != state
    bpy.context.scene.frame_set(5)
    snapshot.restore()

    assert action_record(obj) == state


def test_restoring_twice_or_without_a_change_does_nothing() -> None:
    obj = chain(1)
    curves_by_hand(obj)
    state = action_record(obj)
    snapshot = ActionSnapshot.take(obj)
    snapshot.restore()
    assert action_record(obj) == state
    bake_over(obj)
    snapshot.restore()
    snapshot.restore()
    assert action_record(obj) == state


def test_an_object_without_a_slot_gets_one_of_its_own() -> None:
    first, second = chain(1, name="first"), chain(1, name="second")
    shared = bpy.data.actions.new("Shared")
    assign_slot(second, shared, "second").fcurves.new(LOCATION, index=0).keyframe_points.insert(1, 42.0)
    first.animation_data_create().action = shared
    first.animation_data.action_slot = None
    before = action_record(first)
    snapshot = ActionSnapshot.take(first)

    write_keys(first, [1, 2], [location_keys([1.0, 2.0])])

    assert first.animation_data.action_slot.identifier == "OBfirst"
    assert points(curve_of(second)) == [(1.0, 42.0)]
    snapshot.restore()
    assert action_record(first) == before


def test_restored_curves_play_again() -> None:
    obj = chain(1)
    write_keys(obj, [1, 10], [location_keys([1.0, 2.0])])
    snapshot = ActionSnapshot.take(obj)
    bake_over(obj)
    bpy.context.scene.frame_set(10)
    snapshot.restore()
    evaluated = obj.evaluated_get(bpy.context.evaluated_depsgraph_get())
    assert evaluated.pose.bones["bone.000"].location.x == 2.0


def test_restoring_brings_back_deleted_curves_and_other_assignments() -> None:
    obj = chain(1)
    write_keys(obj, [1, 10], [location_keys([1.0, 2.0], group="bone.000")], action_name="Mine")
    state = action_record(obj)
    snapshot = ActionSnapshot.take(obj)
    bag = channelbag_of(obj)
    bag.fcurves.remove(curve_of(obj))
    obj.animation_data.action = None
    bake_over(obj)
    obj.name = "renamed"
    snapshot.restore()
    obj.name = "chain"
    assert action_record(obj) == state


def test_restoring_brings_back_cleared_animation_data() -> None:
    obj = chain(1)
    write_keys(obj, [1, 10], [location_keys([1.0, 2.0], group="bone.000")])
    state = action_record(obj)
    snapshot = ActionSnapshot.take(obj)
    obj.animation_data_clear()
    snapshot.restore()
    assert action_record(obj) == state


def test_restoring_without_the_slot_or_the_action_says_so() -> None:
    obj = chain(1)
    write_keys(obj, [1, 10], [location_keys([1.0, 2.0])])
    snapshot = ActionSnapshot.take(obj)
    action = obj.animation_data.action
    action.slots.remove(action.slots[0])
    with pytest.raises(IKError, match=r"slot of 'chain' in action 'chain Poise Bake' is gone"):
        snapshot.restore()
    bpy.data.actions.remove(bpy.data.actions["chain Poise Bake"])
    with pytest.raises(IKError, match=r"action of 'chain' is gone"):
        snapshot.restore()


def test_restoring_keeps_drivers_made_since() -> None:
    obj = chain(1)
    snapshot = ActionSnapshot.take(obj)
    obj.driver_add("location", 0)
    bake_over(obj)
    snapshot.restore()
    assert len(bpy.data.actions) == 0 and len(obj.animation_data.drivers) == 1


def test_restoring_a_deleted_object_says_so() -> None:
    obj = chain(1)
    snapshot = ActionSnapshot.take(obj)
    bpy.data.objects.remove(obj)
    with pytest.raises(IKError, match=r"'chain' is gone"):
        snapshot.restore()


def test_restoring_on_a_rigify_metarig() -> None:
    obj = basic_human_metarig()
    snapshot = ActionSnapshot.take(obj)
    keys = [
        k
        for bone in obj.pose.bones
        for k in animation.bone_keys(bone.name, "rotation_quaternion", np.tile([1.0, 0, 0, 0], (3, 1)))
    ]
    assert write_keys(obj, [1, 2, 3], keys).keys == 29 * 4 * 3
    snapshot.restore()
    assert obj.animation_data is None and len(bpy.data.actions) == 0


# The scene


class DeliberateError(Exception):
    """Raised inside the block."""


def disturb(obj: Any, other: Any) -> None:
    """Change all that `scene_state` looks after, then fail."""
    scene, layer = bpy.context.scene, bpy.context.view_layer
    scene.frame_set(77)
    scene.tool_settings.use_keyframe_insert_auto = not scene.tool_settings.use_keyframe_insert_auto
    if layer.objects.active is not None and layer.objects.active.mode != "OBJECT":
        bpy.ops.object.mode_set(mode="OBJECT")
    for o in layer.objects:
        o.select_set(o == other)
    layer.objects.active = other
    select_bones(obj, {"bone.002"})
    obj.data.bones.active = obj.data.bones["bone.002"]
    raise DeliberateError


@pytest.mark.parametrize("frame", [(12, 0.0), (3, 0.25), (-4, 0.75)])
@pytest.mark.parametrize("mode", ["OBJECT", "POSE"])
@pytest.mark.parametrize("other_mode", ["OBJECT", "POSE"])
def test_the_scene_is_as_before_after_an_error(frame: tuple[int, float], mode: str, other_mode: str) -> None:
    obj, other, third = chain(3), chain(3, name="other"), empty("third")
    scene, layer = bpy.context.scene, bpy.context.view_layer
    obj.data.bones.active = obj.data.bones["bone.001"]
    layer.objects.active = obj
    third.select_set(True)
    if mode == "POSE":
        bpy.ops.object.mode_set(mode="POSE")
    select_bones(obj, {"bone.000", "bone.001"})
    scene.tool_settings.use_keyframe_insert_auto = True
    scene.frame_set(frame[0], subframe=frame[1])
    before = scene_record(obj)

    with pytest.raises(DeliberateError), scene_state(scene, layer, obj):
        if mode == "OBJECT" and other_mode == "POSE":
            layer.objects.active = other
            bpy.ops.object.mode_set(mode="POSE")  # left on: has to be ended
            scene.frame_set(5)
            raise DeliberateError
        disturb(obj, other)

    assert scene_record(obj) == before


def test_two_armatures_in_pose_mode_come_back_together() -> None:
    obj, other, third = chain(3), chain(3, name="other"), empty("third")
    scene, layer = bpy.context.scene, bpy.context.view_layer
    obj.select_set(True)
    other.select_set(True)
    layer.objects.active = obj
    bpy.ops.object.mode_set(mode="POSE")
    assert other.mode == "POSE"
    obj.select_set(False)
    before = scene_record(obj)
    with pytest.raises(DeliberateError), scene_state(scene, layer, obj):
        disturb(obj, third)
    assert scene_record(obj) == before


def test_edit_mode_comes_back_with_its_own_selection() -> None:
    obj = chain(3)
    bpy.ops.object.mode_set(mode="EDIT")
    for bone in obj.data.edit_bones:
        bone.select = bone.select_head = bone.select_tail = bone.name == "bone.001"
    with scene_state(bpy.context.scene, bpy.context.view_layer, obj):
        bpy.ops.object.mode_set(mode="OBJECT")
    assert obj.mode == "EDIT"
    assert [b.name for b in obj.data.edit_bones if b.select] == ["bone.001"]


def test_another_scene_than_the_one_shown_is_restored_too() -> None:
    obj = chain(2)
    scene = bpy.data.scenes.new("Second")
    layer = scene.view_layers[0]
    bpy.context.scene.collection.objects.unlink(obj)
    scene.collection.objects.link(obj)
    layer.objects.active = obj
    scene.frame_set(7)
    with scene_state(scene, layer, obj):
        scene.frame_set(20)
        with bpy.context.temp_override(scene=scene, view_layer=layer, active_object=obj, object=obj):
            bpy.ops.object.mode_set(mode="POSE")
    assert (scene.frame_current, obj.mode) == (7, "OBJECT")


def test_objects_that_are_deleted_inside_are_no_obstacle() -> None:
    obj, other = chain(2), chain(2, name="other")
    other.select_set(True)
    with scene_state(bpy.context.scene, bpy.context.view_layer, obj):
        bpy.data.objects.remove(other)
        bpy.data.objects.remove(obj)
    assert bpy.context.view_layer.objects.active is None


def test_the_frame_is_not_set_without_need() -> None:
    obj = chain(1)
    write_keys(obj, [1, 2], [location_keys([1.0, 2.0])])
    bpy.context.view_layer.update()
    with scene_state(bpy.context.scene, bpy.context.view_layer, obj):
        obj.pose.bones["bone.000"].location.x = 5.0
    assert obj.pose.bones["bone.000"].location.x == 5.0  # setting the frame would have played the keys

# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bake changes for a while can be put back exactly, on each supported Blender."""

from collections.abc import Callable
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.core.errors import IKError
from blender_ik_addon.scene.animation import fcurves as animation
from blender_ik_addon.scene.animation.fcurves import write_keys
from blender_ik_addon.scene.armature.restoring import ActionSnapshot

from .actions import LOCATION, assign_slot, channelbag_of, curve_of, location_keys, odd_curve, points
from .builders import chain
from .records import action_record

# The action


def bake_over(obj: Any) -> None:
    keys = [
        key
        for name in ("location", "rotation_euler", "scale")
        for key in animation.bone_keys("bone.000", name, np.full((11, 3), 7.0))
    ]
    write_keys(obj, np.arange(2.0, 13.0), keys)


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


def baked(obj: Any) -> None:
    """Keys of a bake."""
    write_keys(obj, [1, 10], [location_keys([1.0, 2.0], group="bone.000")])


def curve_removed(obj: Any) -> None:
    """A curve and the assignment are gone, and another bake came since."""
    bag = channelbag_of(obj)
    bag.fcurves.remove(bag.fcurves[0])
    obj.animation_data.action = None
    bake_over(obj)
    obj.name = "renamed"


@pytest.mark.parametrize(
    ("before", "change"),
    [
        *((before, bake_over) for before in (nothing, data_only, empty_action, empty_slot, curves_by_hand)),
        (baked, curve_removed),
        (baked, lambda obj: obj.animation_data_clear()),
    ],
)
def test_restoring_is_exact(before: Callable[[Any], None], change: Callable[[Any], None], obj: Any) -> None:
    before(obj)
    state = action_record(obj)
    snapshot = ActionSnapshot.take(obj)
    snapshot.restore()
    assert action_record(obj) == state
    change(obj)
    assert action_record(obj) != state
    bpy.context.scene.frame_set(5)
    for _ in range(2):
        snapshot.restore()
    obj.name = "chain"
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


def test_restored_curves_play_again(obj: Any) -> None:
    write_keys(obj, [1, 10], [location_keys([1.0, 2.0])])
    snapshot = ActionSnapshot.take(obj)
    bake_over(obj)
    bpy.context.scene.frame_set(10)
    snapshot.restore()
    evaluated = obj.evaluated_get(bpy.context.evaluated_depsgraph_get())
    assert evaluated.pose.bones["bone.000"].location.x == 2.0


def test_restoring_without_the_slot_or_the_action_says_so(obj: Any) -> None:
    write_keys(obj, [1, 10], [location_keys([1.0, 2.0])])
    snapshot = ActionSnapshot.take(obj)
    action = obj.animation_data.action
    action.slots.remove(action.slots[0])
    with pytest.raises(IKError, match=r"slot of 'chain' in action 'chain Poise Bake' is gone"):
        snapshot.restore()
    bpy.data.actions.remove(bpy.data.actions["chain Poise Bake"])
    with pytest.raises(IKError, match=r"action of 'chain' is gone"):
        snapshot.restore()


def test_restoring_keeps_drivers_made_since(obj: Any) -> None:
    snapshot = ActionSnapshot.take(obj)
    obj.driver_add("location", 0)
    bake_over(obj)
    snapshot.restore()
    assert len(bpy.data.actions) == 0 and len(obj.animation_data.drivers) == 1


def test_restoring_a_deleted_object_says_so(obj: Any) -> None:
    snapshot = ActionSnapshot.take(obj)
    bpy.data.objects.remove(obj)
    with pytest.raises(IKError, match=r"'chain' is gone"):
        snapshot.restore()

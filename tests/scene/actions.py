# SPDX-License-Identifier: GPL-3.0-or-later
"""Actions for the scene tests: slots, F-curves and keys on the first bone of a chain."""

from typing import Any

import bpy
import numpy as np
import numpy.typing as npt

from blender_ik_addon.scene.animation.fcurves import ChannelKeys

LOCATION = 'pose.bones["bone.000"].location'
EULER = 'pose.bones["bone.000"].rotation_euler'


def assign_slot(obj: Any, action: Any, slot_name: str) -> Any:
    """Give the object a new slot of the action, and return the slot's F-curves."""
    data = obj.animation_data_create()
    data.action = action
    slot = action.slots.new("OBJECT", slot_name)
    data.action_slot = slot
    layer = action.layers[0] if action.layers else action.layers.new("Layer")
    strip = layer.strips[0] if layer.strips else layer.strips.new(type="KEYFRAME")
    return strip.channelbag(slot, ensure=True)


def location_keys(values: npt.ArrayLike, *, index: int = 0, group: str = "") -> ChannelKeys:
    """Keys for the location of the first bone, along x when nothing else is said."""
    return ChannelKeys(LOCATION, index, np.asarray(values, dtype=np.float64), group)


def channelbag_of(obj: Any) -> Any:
    data = obj.animation_data
    return data.action.layers[0].strips[0].channelbag(data.action_slot)


def curve_of(obj: Any, path: str = LOCATION, index: int = 0) -> Any:
    return channelbag_of(obj).fcurves.find(path, index=index)


def points(curve: Any) -> list[tuple[float, float]]:
    return [(round(p.co.x, 4), round(p.co.y, 4)) for p in curve.keyframe_points]


def odd_curve(obj: Any, frames: tuple[float, ...] = (-5.0, 2.0, 7.5, 12.0, 30.0)) -> Any:
    """Give the object's location x a curve with one of everything an animator may have set."""
    bag = assign_slot(obj, bpy.data.actions.new("By hand"), obj.name)
    curve = bag.fcurves.new(LOCATION, index=0)
    for frame in frames:
        curve.keyframe_points.insert(frame, 0.1 * frame * frame)
    curve.update()
    keys = curve.keyframe_points
    keys[0].interpolation, keys[0].amplitude, keys[0].period, keys[0].easing = "ELASTIC", 3.0, 5.0, "EASE_IN"
    keys[1].handle_left_type = keys[1].handle_right_type = "FREE"
    keys[1].handle_left, keys[1].handle_right = (0.5, -4.0), (3.0, 9.0)
    keys[2].type, keys[2].interpolation, keys[2].back = "EXTREME", "CONSTANT", 2.5
    keys[3].handle_left_type = keys[3].handle_right_type = "VECTOR"
    keys[3].select_control_point, keys[3].select_left_handle = False, False
    curve.extrapolation = "LINEAR"
    curve.color_mode, curve.hide = "CUSTOM", True
    # Where an import may have left a handle, and where fcurve.update() would not: it must stay there.
    handles = np.empty(2 * len(keys), np.float32)
    keys.foreach_get("handle_left", handles)
    handles[-2:] = 25.0, 1.0
    keys.foreach_set("handle_left", handles)
    assert keys[4].handle_left_type == "AUTO_CLAMPED" and keys[4].handle_left[:] == (25.0, 1.0)
    return curve

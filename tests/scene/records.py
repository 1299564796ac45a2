# SPDX-License-Identifier: GPL-3.0-or-later
"""What must be as it was before: action, scene and pose, recorded independently of the add-on."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import bpy

KEY_ATTRIBUTES = (
    *("co", "handle_left", "handle_right", "handle_left_type", "handle_right_type", "interpolation"),
    *("type", "easing", "back", "amplitude", "period"),
    *("select_control_point", "select_left_handle", "select_right_handle"),
)
CURVE_ATTRIBUTES = ("extrapolation", "auto_smoothing", "color_mode", "lock", "mute", "hide", "select")
POSE_CHANNELS = ("location", "rotation_euler", "rotation_quaternion", "rotation_axis_angle", "scale")
IS_BLENDER_5 = bpy.app.version >= (5, 0, 0)


@contextmanager
def frame_changes() -> Iterator[list[int]]:
    """Note each frame that the scene is set to."""
    frames: list[int] = []

    def note(scene: Any, *_: Any) -> None:
        frames.append(scene.frame_current)

    bpy.app.handlers.frame_change_post.append(note)
    try:
        yield frames
    finally:
        bpy.app.handlers.frame_change_post.remove(note)


def as_tuples(value: Any) -> Any:
    return value if isinstance(value, (str, bool, int, float)) else tuple(value)


def action_record(obj: Any) -> dict[str, Any]:
    """All that restoring must bring back of all actions, key by key."""
    data = obj.animation_data
    state: dict[str, Any] = {
        "data": data is not None,
        "actions": sorted(a.name for a in bpy.data.actions),
        "last slot": data.last_slot_identifier if data else None,
        "action": data.action.name if data and data.action else None,
        "slot": data.action_slot.identifier if data and data.action_slot else None,
    }
    for action in bpy.data.actions:
        state[f"slots {action.name}"] = [s.identifier for s in action.slots]
        bags = [b for layer in action.layers for s in layer.strips for b in s.channelbags]
        state[f"layers {action.name}"] = [len(layer.strips) for layer in action.layers]
        for bag in bags:
            state[f"groups {action.name} {bag.slot.identifier}"] = [g.name for g in bag.groups]
            for c in bag.fcurves:
                state[f"curve {action.name} {bag.slot.identifier} {c.data_path} {c.array_index}"] = (
                    c.group.name if c.group else None,
                    [getattr(c, a) for a in CURVE_ATTRIBUTES],
                    [m.type for m in c.modifiers],
                    [[as_tuples(getattr(p, a)) for a in KEY_ATTRIBUTES] for p in c.keyframe_points],
                )
    return state


def selectable(bone: Any) -> Any:
    """What carries a bone's selection."""
    return bone if IS_BLENDER_5 else bone.bone


def select_bones(obj: Any, names: set[str]) -> None:
    for bone in obj.pose.bones:
        selectable(bone).select = bone.name in names


def pose_mode(obj: Any, *names: str) -> None:
    """Enter Pose Mode with just these bones selected."""
    bpy.context.view_layer.objects.active = obj
    bpy.ops.object.mode_set(mode='POSE')
    select_bones(obj, set(names))


def scene_record(obj: Any) -> dict[str, Any]:
    """Frame, modes, selection, active object and bone, auto-key."""
    scene, layer = bpy.context.scene, bpy.context.view_layer
    return {
        "frame": (scene.frame_current, scene.frame_subframe),
        "modes": {o.name: o.mode for o in layer.objects},
        "active": layer.objects.active and layer.objects.active.name,
        "selected": [o.name for o in layer.objects if o.select_get()],
        "bones": [b.name for b in obj.pose.bones if selectable(b).select],
        "active bone": obj.data.bones.active and obj.data.bones.active.name,
        "auto key": scene.tool_settings.use_keyframe_insert_auto,
    }


def pose_record(obj: Any) -> dict[str, Any]:
    """Every channel of every bone, to the bit."""
    return {
        f"{bone.name} {name}": tuple(getattr(bone, name)) for bone in obj.pose.bones for name in POSE_CHANNELS
    }


class Fault(Exception):  # noqa: N818
    """What nobody foresaw."""


ACCESSORS = ("_is_enabled", "_enable")
"""Functions by which Blender reads and writes a property that is computed."""


def in_handler(frame: FrameType | None) -> bool:
    """Whether Blender has called this, by a handler or for a property: what is raised goes no further."""
    while frame is not None:
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if name in ACCESSORS or file.endswith("scene/live/handlers.py"):
            return True
        frame = frame.f_back
    return False


def lines_run(work: Callable[[], object], stop_at: int = 0) -> int:
    """Count the lines of the add-on's Blender side that work runs; raise a `Fault` before one of them."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if "blender_ik_addon/scene/" not in frame.f_code.co_filename or (
            event == "call" and in_handler(frame)
        ):
            return None
        if event == "line":
            count += 1
            if count == stop_at:
                raise Fault(f"{frame.f_code.co_filename}, line {frame.f_lineno}")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count

# SPDX-License-Identifier: GPL-3.0-or-later
"""What must be as it was before: action, scene and pose, recorded independently of the add-on."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
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


ACCESSORS = ("_is_enabled", "_enable", "_bakes_scene", "_bake_scene")
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


# The whole file

OWNED = frozenset(
    (
        *("pose", "bones", "constraints", "targets", "animation_data", "drivers", "driver", "variables"),
        *("nla_tracks", "strips", "layers", "channelbags", "fcurves", "keyframe_points", "groups", "slots"),
        *("modifiers", "poise", "effectors", "others", "stored", "joints", "masses", "mesh_masses", "roles"),
        *("timeline_markers", "override_library"),
    )
)
"""Parts of data-blocks that belong to them; other pointers are recorded by name."""
DERIVED = frozenset(
    (
        *("matrix_world", "matrix_local", "matrix_basis", "matrix", "matrix_channel", "dimensions", "tag"),
        *("rna_type", "is_evaluated", "active", "active_strip", "active_track", "ik_stretch_error"),
        # How Blender has evaluated a constraint or driver, not what somebody has set.
        *("error_location", "error_rotation", "is_valid", "preview", "bone", "parent_recursive", "children"),
    )
)
"""What follows from the rest."""
BLOCKS = ("objects", "armatures", "actions", "collections")


@dataclass(frozen=True)
class _Kind:
    """Properties of a type of Blender's, by how they are read."""

    plain: tuple[str, ...]
    arrays: tuple[str, ...]
    names: tuple[str, ...]
    """All of these and pointers, in the order in which they are noted."""
    read: Callable[[Any], Any]
    """Reads `plain`."""
    pointers: tuple[str, ...]
    collections: tuple[str, ...]
    """Those that belong to it."""
    is_keyed: bool
    """Whether it may have properties by keys."""


@cache
def _kind(kind: type) -> _Kind:
    found = [
        prop
        for prop in kind.bl_rna.properties  # pyright: ignore[reportAttributeAccessIssue]
        if prop.identifier not in DERIVED
    ]
    pointers = tuple(prop.identifier for prop in found if prop.type == 'POINTER')
    values = [prop for prop in found if prop.type not in ('POINTER', 'COLLECTION') and not prop.is_readonly]
    arrays = tuple(prop.identifier for prop in values if getattr(prop, "is_array", False))
    plain = tuple(prop.identifier for prop in values if prop.identifier not in arrays)
    read = attrgetter(*plain) if len(plain) > 1 else lambda struct: [getattr(struct, name) for name in plain]
    return _Kind(
        plain,
        arrays,
        (*plain, *arrays, *pointers),
        read,
        pointers,
        tuple(prop.identifier for prop in found if prop.type == 'COLLECTION' and prop.identifier in OWNED),
        issubclass(kind, bpy.types.ID | bpy.types.PoseBone),
    )


Record = dict[str, tuple[tuple[str, ...], tuple[Any, ...]]]
"""Names and values of the properties of each struct, by its path."""


def _numbers(value: Any) -> tuple[Any, ...]:
    """What is in an array now, which Blender changes in place; a matrix by rows."""
    own = tuple(value)
    return own if not own or isinstance(own[0], (int, float)) else tuple(map(tuple, own))


def _record(struct: Any, path: str, record: Record) -> None:
    """Note what is set in a struct and in its parts, by its path."""
    kind = _kind(type(struct))
    values = [*kind.read(struct)]
    values += [_numbers(getattr(struct, name)) for name in kind.arrays]
    for name in kind.pointers:
        value = getattr(struct, name)
        values.append(value.name_full if isinstance(value, bpy.types.ID) else value is not None)
        if name in OWNED and value is not None and not isinstance(value, bpy.types.ID):
            _record(value, f"{path}.{name}", record)
    record[path] = kind.names, tuple(values)
    for name in kind.collections:
        elements = getattr(struct, name)
        own = f"{path}.{name}"
        record[own] = ("",), (len(elements),)
        for number, element in enumerate(elements):
            _record(element, f"{own}[{getattr(element, 'name', '') or number}]", record)
    for name in struct.keys() if kind.is_keyed else ():
        value = struct[name]
        if not name.startswith("poise") and isinstance(value, bool | int | float | str):
            record[f'{path}["{name}"]'] = ("",), (value,)


def file_record() -> Record:
    """All that somebody may have set in the file.

    Every property of objects with their poses, constraints, drivers and settings of Poise, of armatures,
    actions with their keys and collections; frame, modes and selection of the scene.
    """
    record: Record = {}
    for kind in BLOCKS:
        blocks = getattr(bpy.data, kind)
        record[kind] = ("",), (tuple(block.name_full for block in blocks),)
        for block in blocks:
            _record(block, f"{kind}[{block.name_full}]", record)
    scene, layer = bpy.context.scene, bpy.context.view_layer
    names = ("frame_current", "frame_subframe", "frame_start", "frame_end", "use_preview_range")
    record["scene"] = names, tuple(getattr(scene, name) for name in names)
    own: dict[str, Any] = {
        "markers": tuple((marker.name, marker.frame) for marker in scene.timeline_markers),
        "auto key": scene.tool_settings.use_keyframe_insert_auto,
        "active": layer.objects.active and layer.objects.active.name,
        "objects": tuple(obj.name for obj in scene.collection.objects),
        **{f"layer[{obj.name}]": (obj.mode, obj.select_get(), obj.hide_get()) for obj in layer.objects},
        **{
            f"collections[{own.name}]": tuple(obj.name for obj in own.objects) for own in bpy.data.collections
        },
    }
    record.update({f"scene.{name}": (("",), (value,)) for name, value in own.items()})
    return record


def changes(before: Record, after: Record) -> dict[str, tuple[Any, Any]]:
    """What differs between two records: path -> before, after; NaN is equal to NaN.

    Of what is in one of them alone there is the path of the whole, and None for the other.
    """
    found: dict[str, tuple[Any, Any]] = {}
    for path in {**before, **after}:
        one, other = before.get(path), after.get(path)
        if one is None or other is None or one[0] != other[0]:
            found[path] = one and one[1], other and other[1]
        elif one != other:
            for name, old, new in zip(one[0], one[1], other[1], strict=True):
                if old != new and repr(old) != repr(new):
                    found[f"{path}.{name}" if name else path] = old, new
    return found


# Faults

Site = tuple[str, int, str]
"""Where the Blender side calls a function of its own: the caller's file and line, and the function."""


def calls_run(work: Callable[[], object], stop_at: tuple[Site, int] | None = None) -> dict[Site, int]:
    """Count the calls of the add-on's Blender side that work does, by their sites; raise a `Fault` in one.

    Args:
        work: What to do.
        stop_at: A site, and which of its calls raises, from 1 on.
    """
    counts: dict[Site, int] = {}

    def watch(frame: FrameType, event: str, _: Any) -> None:
        caller, code = frame.f_back, frame.f_code
        if event != "call" or caller is None or "blender_ik_addon/scene/" not in code.co_filename:
            return
        if "blender_ik_addon/" not in caller.f_code.co_filename or in_handler(frame):
            return
        site = (caller.f_code.co_filename, caller.f_lineno, code.co_qualname)
        counts[site] = counts.get(site, 0) + 1
        if stop_at == (site, counts[site]):
            raise Fault(f"{site}")

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counts

# SPDX-License-Identifier: GPL-3.0-or-later
"""F-curves: where they are, and reading and writing their keys in bulk.

This module alone knows how actions are laid out, which is the same in Blender 4.5, 5.0, 5.1 and 5.2.
An action holds one layer with one keyframe strip; the strip holds one *channelbag* of F-curves per *slot*,
and an object plays exactly one slot. Two objects may share an action, so only the channelbag of the object's
own slot is read or written.

Keys are read and written as arrays, `foreach_get` and `foreach_set`, once per attribute and F-curve. No
Blender reference outlives a call.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import bpy
import numpy as np
import numpy.typing as npt

from ...core.arrays import BoolArray, FloatArray, frozen
from ...core.errors import IKError
from ..compat import new_grouped_curve
from ..reports import in_a_row

Channel = tuple[str, int]
"""Data path from the object, and array index."""

KeyArrays = Mapping[str, npt.NDArray[Any]]
"""Attribute of `bpy.types.Keyframe` -> its values, (n,) or (n, 2)."""

KEY_DISTANCE = 0.01
"""[frames]. Nearer keys are one to Blender (BEZT_BINARYSEARCH_THRESH): it merges them, the later one wins."""

ROTATION_CHANNELS = MappingProxyType(
    {"QUATERNION": ("rotation_quaternion", 4), "AXIS_ANGLE": ("rotation_axis_angle", 4)}
    | dict.fromkeys(("XYZ", "XZY", "YXZ", "YZX", "ZXY", "ZYX"), ("rotation_euler", 3))
)
"""Rotation mode -> the property that it is keyed in, and how many components that has."""

PLACED_BY = frozenset(
    {"location", "scale", *(path for path, _ in ROTATION_CHANNELS.values())}
    | {"delta_location", "delta_scale", "delta_rotation_euler", "delta_rotation_quaternion"}
)
"""Properties whose keys move an object."""

POINTS = ("co", "handle_left", "handle_right")
"""What of a key has a frame and a value."""

_NEW_KEY: Mapping[str, str | float | bool] = MappingProxyType(
    dict.fromkeys(("handle_left_type", "handle_right_type"), "AUTO_CLAMPED")
    | {"interpolation": "LINEAR", "type": "KEYFRAME", "easing": "AUTO"}
    | {"back": 1.70158, "amplitude": 0.8, "period": 4.1}
    | dict.fromkeys(("select_control_point", "select_left_handle", "select_right_handle"), False)
)
"""All else of a key, as Blender inserts one but not selected; `keyframe_points.add` leaves zeros."""

_CURVE_SETTINGS = ("extrapolation", "auto_smoothing", "color_mode", "lock", "mute", "hide", "select")


def rotation_channel(rotation_mode: str) -> tuple[str, int]:
    """Return the property that a rotation mode is keyed in, and the number of its components."""
    return ROTATION_CHANNELS[rotation_mode]


def bone_path(bone_name: str, property_name: str) -> str:
    """Return the data path, from the object, of a pose bone's property; quotes in the name are escaped."""
    return f'pose.bones["{bpy.utils.escape_identifier(bone_name)}"].{property_name}'


@dataclass(frozen=True)
class ChannelKeys:
    """The keys of one channel, one per frame."""

    data_path: str
    """From the object, as in `pose.bones["hand.L"].rotation_euler`."""
    array_index: int
    values: FloatArray
    """(F,), in the property's own unit: [m], [rad] or none."""
    group: str = ""
    """Name of the channel group of a new F-curve, as a rule the bone; empty for none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen(self.values))

    @property
    def channel(self) -> Channel:
        """Data path and array index."""
        return self.data_path, self.array_index


def bone_keys(
    bone_name: str, property_name: str, values: npt.ArrayLike, keyed: Sequence[bool] | None = None
) -> tuple[ChannelKeys, ...]:
    """Split the values (F, k) of a pose bone's property into channels, in a group with the bone's name.

    Only those components get keys that are `keyed`, (k,); all of them by default.
    """
    path, columns = bone_path(bone_name, property_name), np.asarray(values, dtype=np.float64).T
    return tuple(
        ChannelKeys(path, index, column, bone_name)
        for index, column in enumerate(columns)
        if keyed is None or keyed[index]
    )


def own_strip(action: bpy.types.Action) -> Any:
    """Return the action's keyframe strip; None where there is none yet."""
    strips = action.layers[0].strips if action.layers else ()
    return strips[0] if strips else None


def own_channelbag(obj: bpy.types.Object) -> Any:
    """Return the F-curves of the slot that the object plays; None where there are none yet."""
    animation = obj.animation_data
    if animation is None or animation.action is None or animation.action_slot is None:
        return None
    strip = own_strip(animation.action)
    return None if strip is None else strip.channelbag(animation.action_slot)


def own_curves(obj: bpy.types.Object) -> dict[Channel, bpy.types.FCurve]:
    """Return the F-curves that the object's action moves it with. For use within one call only."""
    channelbag = own_channelbag(obj)
    return {} if channelbag is None else {(c.data_path, c.array_index): c for c in channelbag.fcurves}


def animated_channels(obj: bpy.types.Object) -> set[Channel]:
    """Return the channels that have an F-curve in the object's own action slot."""
    return set(own_curves(obj))


def is_moved(obj: Any, carrier: Any = None) -> bool:
    """Whether an object is moved by keys, its own or its parents' up to what carries it."""
    own = any(path in PLACED_BY for path, _ in animated_channels(obj))
    return own or (obj.parent not in {None, carrier} and is_moved(obj.parent, carrier))


def driven_channels(obj: bpy.types.Object) -> set[Channel]:
    """Return the channels of the object that have a driver which is not muted."""
    if obj.animation_data is None:
        return set()
    return {(d.data_path, d.array_index) for d in obj.animation_data.drivers if not d.mute}


def other_players(obj: bpy.types.Object) -> list[str]:
    """Name the other objects that play the object's action slot: themselves, in the NLA or by a constraint.

    `ActionSlot.users` would tell, but Blender 4.5 to 5.2 crash in it where an armature object of the file has
    no pose: one that is in no view layer, or was just loaded.
    """
    animation = obj.animation_data
    if animation is None or animation.action_slot is None:
        return []
    others = [other for other in bpy.data.objects if other != obj]
    return sorted(other.name for other in others if animation.action_slot in _slots(other))


def _slots(obj: bpy.types.Object) -> list[Any]:
    """Return all action slots that an object plays."""
    own: Any = obj.animation_data
    bones: Any = () if obj.pose is None else obj.pose.bones
    constraints: list[Any] = [constraint for owner in (obj, *bones) for constraint in owner.constraints]
    players = [own] if own is not None else []
    players += [constraint for constraint in constraints if constraint.type == 'ACTION']
    strips = [strip for track in own.nla_tracks for strip in track.strips] if own is not None else []
    for strip in strips:
        strips.extend(strip.strips)  # those inside meta strips
    return [player.action_slot for player in players + strips]


def renumber_channels(obj: bpy.types.Object, collection: str, places: Mapping[int, int | None]) -> None:
    """Let F-curves and drivers follow the elements of a list that are at other places now.

    Blender keeps an element by its number, and would go on with another element of that number. Only what the
    object plays is changed.

    Args:
        obj: The object that has the list.
        collection: Data path of the list, from the object.
        places: Old place -> new place, or None for an element that is gone: its F-curves are removed.
    """
    element = re.compile(re.escape(collection) + r"\[(\d+)\](.*)", re.DOTALL)
    lists: list[Any] = [own.fcurves for own in [own_channelbag(obj)] if own is not None]
    lists += [own.drivers for own in [obj.animation_data] if own is not None]
    for curves in lists:
        for curve in list(curves):
            if (found := element.fullmatch(curve.data_path)) is None:
                continue
            place = places.get(int(found[1]), int(found[1]))
            if place is None:
                curves.remove(curve)
            else:
                curve.data_path = f"{collection}[{place}]{found[2]}"


def sample_channels(obj: bpy.types.Object, channels: Sequence[Channel], frames: npt.ArrayLike) -> FloatArray:
    """Evaluate channels (C,) of the object's action on frames (F,); return (F, C), in each property's unit.

    F-curve modifiers are included; drivers and NLA strips are not. A channel without an F-curve, or with a
    muted or empty one, keeps the present value of its property.
    """
    times, curves = np.asarray(frames, dtype=np.float64).tolist(), own_curves(obj)
    samples = np.empty((len(times), len(channels)))
    for column, (path, index) in enumerate(channels):
        curve = curves.get((path, index))
        if curve is None or is_muted(curve) or curve.is_empty:
            value: Any = obj.path_resolve(path)
            samples[:, column] = np.ravel(value)[index]
        else:
            samples[:, column] = [curve.evaluate(time) for time in times]
    return samples


def is_muted(curve: bpy.types.FCurve) -> bool:
    """Whether the F-curve, by itself or with its group, does not play."""
    return curve.mute or (curve.group is not None and curve.group.mute)


def is_locked(curve: bpy.types.FCurve) -> bool:
    """Whether the F-curve, by itself or with its group, is protected from changes."""
    return curve.lock or (curve.group is not None and curve.group.lock)


def _buffer(attribute: str, count: int) -> npt.NDArray[Any]:
    """Return an empty array for an attribute of keys that Blender takes without conversion."""
    if attribute in POINTS:
        return np.empty((count, 2), np.float32)
    value = _NEW_KEY[attribute]
    return np.empty(count, {str: np.int32, float: np.float32, bool: np.bool_}[type(value)])


def read_keys(curve: bpy.types.FCurve) -> KeyArrays:
    """Return every attribute of every key."""
    points = curve.keyframe_points
    keys = {attribute: _buffer(attribute, len(points)) for attribute in (*POINTS, *_NEW_KEY)}
    for attribute, buffer in keys.items():
        points.foreach_get(attribute, buffer.reshape(-1))
    return keys


def assign_keys(curve: bpy.types.FCurve, keys: KeyArrays) -> None:
    """Replace all keys of an F-curve; handles are taken as they are."""
    points = curve.keyframe_points
    points.clear()  # there is no other way to take keys away in bulk
    points.add(len(keys["co"]))
    for attribute, buffer in keys.items():
        points.foreach_set(attribute, buffer.reshape(-1))


def new_keys(
    frames: FloatArray,
    values: FloatArray,
    interpolation: str = "LINEAR",
    breakdowns: BoolArray | None = None,
) -> KeyArrays:
    """Return keys with auto-clamped handles."""
    co = np.stack([frames, values], axis=1).astype(np.float32)  # (F, 2)
    keys: dict[str, npt.NDArray[Any]] = dict.fromkeys(POINTS, co)  # fcurve.update() places the handles
    properties: Any = bpy.types.Keyframe.bl_rna.properties
    for attribute, value in {**_NEW_KEY, "interpolation": interpolation}.items():
        keys[attribute] = _buffer(attribute, len(co))
        keys[attribute][:] = (
            properties[attribute].enum_items[value].value if isinstance(value, str) else value
        )
    if breakdowns is not None:
        keys["type"][breakdowns] = properties["type"].enum_items["BREAKDOWN"].value
    return keys


def check_keyable(obj: bpy.types.Object) -> None:
    """Refuse an object whose action cannot be written (IKError: either is linked, or in NLA tweak mode)."""
    if not obj.is_editable:
        raise IKError(
            f"object {obj.name!r} is linked and cannot be keyed: "
            "make a library override of it (Object > Library Override > Make) or make it local"
        )
    animation = obj.animation_data
    if animation is None:
        return
    if animation.use_tweak_mode:
        raise IKError(f"{obj.name!r} is in NLA tweak mode: leave it (Tab in the NLA editor) before baking")
    action = animation.action
    if action is not None and not action.is_editable:
        origin = f"linked from {action.library.filepath}" if action.library else "not editable"
        raise IKError(
            f"action {action.name!r} of {obj.name!r} is {origin}: make it local "
            "(Object > Relations > Make Local), or unlink it so that a new action is made"
        )


def holds_samples(curve: bpy.types.FCurve) -> bool:
    """Whether the F-curve has baked samples, which cannot be edited, instead of keys."""
    return len(curve.sampled_points) > 0


def ensure_channelbag(obj: bpy.types.Object, action_name: str) -> bpy.types.ActionChannelbag:
    """Return the F-curves of the object's slot; make animation data, action, slot, layer, strip as needed."""
    animation: Any = obj.animation_data or obj.animation_data_create()
    if animation.action is None:
        animation.action = bpy.data.actions.new(action_name)
    action = animation.action
    if animation.action_slot is None:  # always a new one: a slot that is there may be another object's
        animation.action_slot = action.slots.new(obj.id_type, obj.name)
    layer = action.layers[0] if action.layers else action.layers.new("Layer")
    strip: Any = layer.strips[0] if layer.strips else layer.strips.new(type="KEYFRAME")
    return strip.channelbag(animation.action_slot, ensure=True)


def new_curve(channelbag: Any, keys: ChannelKeys) -> bpy.types.FCurve:
    """Make an F-curve in its group, coloured as Blender colours the ones it makes itself."""
    curve = new_grouped_curve(channelbag, *keys.channel, keys.group)
    four_components = keys.data_path.endswith(("rotation_quaternion", "rotation_axis_angle"))
    curve.color_mode = "AUTO_YRGB" if four_components else "AUTO_RGB"
    return curve


@dataclass(frozen=True)
class CurveState:
    """An F-curve as plain data, but for its modifiers."""

    keys: KeyArrays
    group: str
    settings: Mapping[str, Any]

    @classmethod
    def read(cls, curve: bpy.types.FCurve) -> "CurveState":
        """Read a curve that holds keys."""
        group = "" if curve.group is None else curve.group.name
        return cls(read_keys(curve), group, {name: getattr(curve, name) for name in _CURVE_SETTINGS})

    def write(self, channelbag: Any, channel: Channel) -> bpy.types.FCurve:
        """Write keys and settings into the curve of a channel, a new one where there is none.

        Handles stay where they are until `FCurve.update`.
        """
        path, index = channel
        curve = channelbag.fcurves.find(path, index=index)
        if curve is None:
            curve = new_curve(channelbag, ChannelKeys(path, index, np.empty(0), self.group))
        for name, value in self.settings.items():
            setattr(curve, name, value)
        assign_keys(curve, self.keys)
        return curve


def _merged_keys(old: KeyArrays, new: KeyArrays) -> tuple[KeyArrays, int]:
    """Replace the old keys in the range of the new ones; return the keys, and how many were replaced."""
    frames = old["co"][:, 0]
    first, last = new["co"][[0, -1], 0]
    before, after = frames < first - KEY_DISTANCE, frames > last + KEY_DISTANCE
    merged = {name: np.concatenate([old[name][before], new[name], old[name][after]]) for name in new}
    return merged, int(np.count_nonzero(~(before | after)))


@dataclass(frozen=True)
class WriteResult:
    """What `write_keys` did."""

    action: str
    """Name of the action that holds the keys; empty if nothing was written."""
    keys: int
    """How many keys were written."""
    keys_replaced: int
    """How many older keys within the frame range were removed."""
    skipped: tuple[Channel, ...]
    """Channels that were not written: they have a driver, or their F-curve is locked."""
    notes: tuple[str, ...]
    """Remarks, one sentence each."""


def write_keys(
    armature_object: bpy.types.Object,
    frames: npt.ArrayLike,
    channel_keys: Sequence[ChannelKeys],
    *,
    interpolation: str = "LINEAR",
    breakdowns: BoolArray | None = None,
) -> WriteResult:
    """Write keys into the object's own action slot, in bulk; make action and slot where there is none.

    Keys of the written channels from the first frame to the last are replaced; keys outside, and all other
    channels, slots and actions stay.

    Args:
        armature_object: The object whose action is written; the data paths start from it.
        frames: (F,) increasing [frames].
        channel_keys: Channels with (F,) values each, every channel once.
        interpolation: From each key to the next.
        breakdowns: Which keys are breakdowns, (F,); none by default.

    Raises:
        IKError: See `check_keyable`; or a curve holds samples. Nothing is changed then.
    """
    times = np.asarray(frames, dtype=np.float64)
    check_keyable(armature_object)
    curves = own_curves(armature_object)
    present = [keys.channel for keys in channel_keys if keys.channel in curves]
    if sampled := [channel for channel in present if holds_samples(curves[channel])]:
        raise IKError(
            f"{_listed(sampled)} of {armature_object.name!r} hold samples, not keys: turn them into keys "
            "(Graph Editor: Key > Samples to Keys) or delete them"
        )
    driven = driven_channels(armature_object)
    not_written = driven | {channel for channel in present if is_locked(curves[channel])}
    written = [keys for keys in channel_keys if keys.channel not in not_written]
    skipped = tuple(keys.channel for keys in channel_keys if keys.channel in not_written)
    played = [channel for channel in present if channel not in not_written]
    notes = {
        "not keyed, a driver decides them": [channel for channel in skipped if channel in driven],
        "not keyed, their F-curves or groups are locked": [c for c in skipped if c not in driven],
        "keyed, but their F-curves or groups are muted": [c for c in played if is_muted(curves[c])],
        "keyed, but their F-curves have modifiers that change what plays": [
            channel for channel in played if any(not modifier.mute for modifier in curves[channel].modifiers)
        ],
    }
    told = [f"{text}: {_listed(channels)}" for text, channels in notes.items() if channels]
    if not written:
        return WriteResult("", 0, 0, skipped, tuple(told))

    channelbag = ensure_channelbag(armature_object, f"{armature_object.name} Poise Bake")
    replaced = 0
    for keys in written:
        curve = curves.get(keys.channel)
        new = new_keys(times, keys.values, interpolation, breakdowns)
        if curve is None:
            curve = new_curve(channelbag, keys)
        else:
            new, removed = _merged_keys(read_keys(curve), new)
            replaced += removed
        assign_keys(curve, new)
        curve.update()  # places the handles and tags the animation for evaluation

    animation: Any = armature_object.animation_data
    animation.action.update_tag()
    if others := other_players(armature_object):
        told.append(f"the same action slot also moves {', '.join(others)}")
    if animation.use_nla and any(track.is_solo for track in animation.nla_tracks):
        told.append("an NLA track is solo, so the action does not play")
    blended = animation.action_influence < 1.0 or animation.action_blend_type != "REPLACE"
    if blended and animation.use_nla and any(t.strips and not t.mute for t in animation.nla_tracks):
        told.append("the action is blended over NLA strips, so what plays differs from the keys")
    return WriteResult(animation.action.name, len(written) * len(times), replaced, skipped, tuple(told))


def _listed(channels: Sequence[Channel]) -> str:
    return in_a_row([f"{path}[{index}]" for path, index in channels])

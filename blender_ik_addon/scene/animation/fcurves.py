# SPDX-License-Identifier: GPL-3.0-or-later
"""F-curves: where they are, and reading and writing their keys in bulk.

This module alone knows how actions are laid out, which is the same in Blender 4.5, 5.0, 5.1 and 5.2.
An action holds one layer with one keyframe strip; the strip holds one *channelbag* of F-curves per *slot*,
and an object plays exactly one slot. Two objects may share an action, so only the channelbag of the object's
own slot is read or written.

Keys are read and written as arrays, `foreach_get` and `foreach_set`, once per attribute and F-curve. No
Blender reference outlives a call.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Any

import bpy
import numpy as np
import numpy.typing as npt
from bpy_extras.anim_utils import action_get_channelbag_for_slot

from ...core.arrays import BoolArray, FloatArray, freeze
from ...core.errors import IKError
from ...core.keys import BezierCurve
from ...core.messages import Joined, Message, in_a_row
from ..compat import new_grouped_curve

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

FOUR_COMPONENTS = ("rotation_quaternion", "rotation_axis_angle")
OWN_CHANNELS = ("location", "rotation_euler", *FOUR_COMPONENTS, "scale")
"""Properties that place an object or a bone, whatever its rotation mode."""

PLACED_BY = frozenset(
    {*OWN_CHANNELS, "delta_location", "delta_scale", "delta_rotation_euler", "delta_rotation_quaternion"}
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


def present_frame() -> float:
    """Return the frame that is shown, with its subframe."""
    scene = bpy.context.scene
    return scene.frame_current + scene.frame_subframe


def present_time() -> float:
    """Return the time of F-curves in the frame that is shown: that with the scene's time remapping."""
    return float(bpy.context.scene.frame_current_final)


def rotation_channel(rotation_mode: str) -> tuple[str, int]:
    """Return the property that a rotation mode is keyed in, and the number of its components."""
    return ROTATION_CHANNELS[rotation_mode]


def placing(owner: Any) -> tuple[str, str]:
    """Return the properties that keys of the place and of the rotation of an object or a bone are of."""
    return "location", rotation_channel(owner.rotation_mode)[0]


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
    curve: BezierCurve | None = None
    """Keys with handles in place of the values."""
    repeat: str = ""
    """How the keys are repeated before and after, as by a Cycles modifier; empty to leave that as it is."""

    def __post_init__(self) -> None:
        freeze(self, "values")

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
    return property_keys(bone_path(bone_name, property_name), values, bone_name, keyed)


def property_keys(
    path: str, values: npt.ArrayLike, group: str, keyed: Sequence[bool] | None = None
) -> tuple[ChannelKeys, ...]:
    """Split the values (F, k) of the property at a data path into channels, as `bone_keys` does."""
    return tuple(
        ChannelKeys(path, index, column, group)
        for index, column in enumerate(np.asarray(values, dtype=np.float64).T)
        if keyed is None or keyed[index]
    )


def nla_strips(obj: bpy.types.Object) -> list[Any]:
    """Return all NLA strips of an object, but for those inside meta strips."""
    tracks: Any = () if obj.animation_data is None else obj.animation_data.nla_tracks
    return [strip for track in tracks for strip in track.strips]


def nla_strip(obj: bpy.types.Object, name: str) -> Any:
    """Return the NLA strip of an object with a name; None where there is none."""
    return next((strip for strip in nla_strips(obj) if strip.name == name), None)


def all_curves(action: bpy.types.Action) -> list[bpy.types.FCurve]:
    """Return the F-curves of all slots of an action. For use within one call only."""
    strips: list[Any] = [strip for layer in action.layers for strip in layer.strips]
    return [curve for strip in strips for bag in strip.channelbags for curve in bag.fcurves]


def player_of(obj: bpy.types.Object, strip: str = "") -> Any:
    """Return what plays an action and its slot: the animation of an object, or one of its NLA strips."""
    return nla_strip(obj, strip) if strip else obj.animation_data


def own_channelbag(obj: bpy.types.Object, strip: str = "") -> Any:
    """Return the F-curves of the slot that the object plays; None where there are none yet.

    Args:
        strip: Name of the NLA strip whose slot is meant; empty for the object's own action.
    """
    player = player_of(obj, strip)
    return None if player is None else action_get_channelbag_for_slot(player.action, player.action_slot)


def own_curves(obj: bpy.types.Object, strip: str = "") -> dict[Channel, bpy.types.FCurve]:
    """Return the F-curves of `own_channelbag` by channel. For use within one call only."""
    return _by_channel(own_channelbag(obj, strip))


def _by_channel(channelbag: Any) -> dict[Channel, bpy.types.FCurve]:
    return {} if channelbag is None else {(c.data_path, c.array_index): c for c in channelbag.fcurves}


def action_curves(action: Any) -> dict[Channel, bpy.types.FCurve]:
    """Return the F-curves of the first slot of an action that moves an object. For use within one call."""
    slot = next((slot for slot in action.slots if slot.target_id_type in {"OBJECT", "UNSPECIFIED"}), None)
    return _by_channel(action_get_channelbag_for_slot(action, slot))


def new_action(name: str, obj: bpy.types.Object, frames: FloatArray, keys: Iterable[ChannelKeys]) -> Any:
    """Return a new action with keys (F,) for channels of an object, which does not play it.

    A channel that never changes gets one key.
    """
    action: Any = bpy.data.actions.new(name)
    channelbag = _channelbag_for(action, action.slots.new(obj.id_type, obj.name))
    for own in keys:
        count = 1 if (own.values == own.values[0]).all() else len(own.values)
        curve = new_curve(channelbag, own)
        assign_keys(curve, new_keys(frames[:count], own.values[:count]))
        curve.update()
    return action


def animated_channels(obj: bpy.types.Object) -> set[Channel]:
    """Return the channels that have an F-curve in the object's own action slot."""
    return set(own_curves(obj))


def playing_strips(obj: bpy.types.Object, span: tuple[float, float] | None = None) -> list[str]:
    """Return the names of the NLA strips of an object that play, in a span of frames if one is given."""
    animation: Any = obj.animation_data
    if animation is None or not animation.use_nla:
        return []
    first, last = (-math.inf, math.inf) if span is None else span
    strips = [strip for track in animation.nla_tracks if not track.mute for strip in track.strips]
    return [own.name for own in strips if not own.mute and own.frame_start <= last and first <= own.frame_end]


def played_channels(obj: bpy.types.Object) -> set[Channel]:
    """Return the channels that have an F-curve in the object's own action slot or in a strip that plays."""
    return animated_channels(obj).union(*(own_curves(obj, strip) for strip in playing_strips(obj)))


def is_moved(obj: Any, carrier: Any = None) -> bool:
    """Whether an object is moved by keys, its own or its parents' up to what carries it."""
    own = any(path in PLACED_BY for path, _ in animated_channels(obj))
    return own or (obj.parent not in {None, carrier} and is_moved(obj.parent, carrier))


def driven_channels(obj: bpy.types.Object) -> set[Channel]:
    """Return the channels of the object that have a driver which is not muted."""
    if obj.animation_data is None:
        return set()
    return {(d.data_path, d.array_index) for d in obj.animation_data.drivers if not d.mute}


def acting(obj: bpy.types.Object, owners: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Give constraints that act, or that keys or drivers of an object may switch on, and whose they are.

    Args:
        owners: The object itself, or bones of it.
    """
    switched: set[str] | None = None
    for owner in owners:
        for constraint in owner.constraints:
            if constraint.mute or constraint.influence <= 0.0:
                if switched is None:  # takes long among many keys
                    switched = {path for path, _ in animated_channels(obj) | driven_channels(obj)}
                path = constraint.path_from_id()
                if switched.isdisjoint(f"{path}.{name}" for name in ("influence", "mute", "enabled")):
                    continue
            yield owner, constraint


def other_players(obj: bpy.types.Object, strip: str = "") -> list[str]:
    """Name the other objects that play the object's action slot: themselves, in the NLA or by a constraint.

    With the name of an NLA strip of the object, those that play the slot of that.

    `ActionSlot.users` would tell, but Blender 4.5 to 5.2 crash in it where an armature object of the file has
    no pose: one that is in no view layer, or was just loaded.
    """
    player = player_of(obj, strip)
    if player is None or player.action_slot is None:
        return []
    others = [other for other in bpy.data.objects if other != obj]
    return sorted(other.name for other in others if player.action_slot in _slots(other))


def _slots(obj: bpy.types.Object) -> list[Any]:
    """Return all action slots that an object plays."""
    own: Any = obj.animation_data
    bones: Any = () if obj.pose is None else obj.pose.bones
    constraints: list[Any] = [constraint for owner in (obj, *bones) for constraint in owner.constraints]
    players = [own] if own is not None else []
    players += [constraint for constraint in constraints if constraint.type == 'ACTION']
    strips = nla_strips(obj)
    for strip in strips:
        strips.extend(strip.strips)  # those inside meta strips
    return [player.action_slot for player in players + strips]


def renumber_channels(obj: bpy.types.Object, collection: str, places: Mapping[int, int | None]) -> None:
    """Let F-curves and drivers follow the elements of a list that are at other places now.

    Blender keeps an element by its number, and would go on with another element of that number. Only what the
    object plays is changed.

    Args:
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


def read_keys(curve: bpy.types.FCurve, *attributes: str) -> KeyArrays:
    """Return some attributes of every key, by default all."""
    points = curve.keyframe_points
    keys = {attribute: _buffer(attribute, len(points)) for attribute in attributes or (*POINTS, *_NEW_KEY)}
    for attribute, buffer in keys.items():
        points.foreach_get(attribute, buffer.reshape(-1))
    return keys


def key_frames(*curves: bpy.types.FCurve) -> FloatArray:
    """Return the frames of all keys of F-curves, one curve after the other, (k,)."""
    return np.concatenate([np.zeros(0), *(read_keys(curve, "co")["co"][:, 0] for curve in curves)])


def within(frames: FloatArray, first: float, last: float) -> BoolArray:
    """Which keys at some frames (k,) are from one frame to another, (k,)."""
    return (frames > first - KEY_DISTANCE) & (frames < last + KEY_DISTANCE)


def frames_around(frames: Iterable[float]) -> range:
    """Return the whole frames from the first to the last of some; none where there are none."""
    known = [*frames]
    # Single precision has a key on a frame a little beside it.
    return range(math.floor(min(known) + 1e-3), math.ceil(max(known) - 1e-3) + 1) if known else range(0)


def assign_keys(curve: bpy.types.FCurve, keys: KeyArrays) -> None:
    """Replace all keys of an F-curve; handles are taken as they are."""
    points = curve.keyframe_points
    points.clear()  # there is no other way to take keys away in bulk
    points.add(len(keys["co"]))
    for attribute, buffer in keys.items():
        points.foreach_set(attribute, buffer.reshape(-1))


def new_keys(
    frames: FloatArray, values: FloatArray, interpolation: str = "LINEAR", breakdowns: BoolArray | None = None
) -> KeyArrays:
    """Return keys with auto-clamped handles."""
    co = np.stack([frames, values], axis=1).astype(np.float32)  # (F, 2)
    keys = {**dict.fromkeys(POINTS, co), **_attributes(len(co), interpolation)}  # update() places the handles
    if breakdowns is not None:
        properties: Any = bpy.types.Keyframe.bl_rna.properties
        kinds = properties["type"].enum_items
        keys["type"] = np.where(breakdowns, np.int32(kinds["BREAKDOWN"].value), keys["type"])
    return keys


@lru_cache(maxsize=4)
def _attributes(count: int, interpolation: str) -> Mapping[str, npt.NDArray[Any]]:
    """All of so many new keys but their points: the same for all curves of a bake."""
    properties: Any = bpy.types.Keyframe.bl_rna.properties
    keys: dict[str, npt.NDArray[Any]] = {}
    for attribute, value in {**_NEW_KEY, "interpolation": interpolation}.items():
        keys[attribute] = _buffer(attribute, count)
        keys[attribute][:] = (
            properties[attribute].enum_items[value].value if isinstance(value, str) else value
        )
        keys[attribute].setflags(write=False)
    return keys


def bezier_keys(curve: BezierCurve) -> KeyArrays:
    """Return keys with the handles of a curve, both of a key in line."""
    if len(curve.keys) == 1:  # it holds its value until the next key: a bake of later frames sets that
        return new_keys(curve.keys[:, 0], curve.keys[:, 1], "CONSTANT")
    keys = dict(new_keys(curve.keys[:, 0], curve.keys[:, 1], "BEZIER"))
    for side, points in (("left", curve.left), ("right", curve.right)):
        keys[f"handle_{side}"] = points.astype(np.float32)
        attribute = f"handle_{side}_type"
        properties: Any = bpy.types.Keyframe.bl_rna.properties
        keys[attribute] = np.full_like(keys[attribute], properties[attribute].enum_items["ALIGNED"].value)
    return keys


def read_curve(curve: bpy.types.FCurve, first: float, last: float) -> BezierCurve:
    """Return the keys of a curve from one frame to another with their handles."""
    keys = read_keys(curve)
    own = within(keys["co"][:, 0], first, last)
    return BezierCurve(keys["co"][own], keys["handle_left"][own], keys["handle_right"][own])


def check_keyable(obj: bpy.types.Object, *, own_action: bool = True) -> None:
    """Refuse an object whose action cannot be written (IKError: either is linked, or in NLA tweak mode).

    Where another action is written than its own one, `own_action` is False.
    """
    if not obj.is_editable:
        raise IKError(
            "object {obj!r} is linked and cannot be keyed: make a library override of it (Object > "
            "Library Override > Make) or make it local",
            obj=obj.name,
        )
    animation = obj.animation_data
    if animation is None:
        return
    if animation.use_tweak_mode:
        raise IKError(
            "{obj!r} is in NLA tweak mode: leave it (Tab in the NLA editor) before baking", obj=obj.name
        )
    action = animation.action
    if own_action and action is not None and not action.is_editable:
        origin = (
            Message("linked from {file}", file=action.library.filepath)
            if action.library
            else Message("not editable")
        )
        text = Message(
            "action {action!r} of {obj!r} is {origin}: make it local (Object > Relations > Make Local), "
            "or unlink it so that a new action is made"
        )
        if obj.type == 'ARMATURE':
            text = Message(
                "action {action!r} of {obj!r} is {origin}: bake to a New Action or an NLA Strip (Bake To), "
                "make it local (Object > Relations > Make Local), or unlink it so that a new action is made"
            )
        raise IKError(text.filled(action=action.name, obj=obj.name, origin=origin))


def insert_keys(obj: bpy.types.Object, channel: Channel, values: Mapping[float, float], group: str) -> None:
    """Insert eased keys, frame -> value, among those of a channel; make action and F-curve as needed."""
    curve = own_curves(obj).get(channel)
    if curve is None:
        channelbag = ensure_channelbag(obj, f"{obj.name} Action")
        curve = new_curve(channelbag, ChannelKeys(*channel, np.empty(0), group))
    frames = np.array(sorted(values))
    new = new_keys(frames, np.array([values[frame] for frame in frames.tolist()]), "BEZIER")
    old = read_keys(curve)
    kept = np.abs(old["co"][:, :1] - frames).min(axis=1, initial=np.inf) > KEY_DISTANCE
    order = np.argsort(np.concatenate([old["co"][kept, 0], frames]))
    assign_keys(curve, {name: np.concatenate([old[name][kept], new[name]])[order] for name in new})
    curve.update()


def remove_curves(obj: bpy.types.Object, channels: Iterable[Channel]) -> None:
    """Remove F-curves of an object."""
    channelbag, curves = own_channelbag(obj), own_curves(obj)
    for channel in channels:
        if channel in curves:
            channelbag.fcurves.remove(curves[channel])


def holds_samples(curve: bpy.types.FCurve) -> bool:
    """Whether the F-curve has baked samples, which cannot be edited, instead of keys."""
    return len(curve.sampled_points) > 0


def has_keys_outside(curve: bpy.types.FCurve, first: float, last: float) -> bool:
    """Whether the F-curve has keys before a frame or after another."""
    return not within(key_frames(curve), first, last).all()


def other_modifiers(curve: bpy.types.FCurve) -> list[bpy.types.FModifier]:
    """Return the modifiers of an F-curve that are not Cycles: these change nothing between keys."""
    return [modifier for modifier in curve.modifiers if modifier.type != 'CYCLES']


def _plays_within(modifier: Any, first: float, last: float) -> bool:
    """Whether a modifier may change what plays from one frame to another."""
    elsewhere = modifier.frame_end < first or modifier.frame_start > last
    return not (modifier.mute or (modifier.use_restricted_range and elsewhere))


def repeat_keys(curve: bpy.types.FCurve, mode: str) -> None:
    """Let the keys of an F-curve that has no modifiers but Cycles repeat before and after, without end."""
    modifiers = curve.modifiers
    cycles: Any = modifiers[0] if len(modifiers) else modifiers.new('CYCLES')
    cycles.mode_before = cycles.mode_after = mode
    cycles.cycles_before = cycles.cycles_after = 0
    cycles.mute = cycles.use_restricted_range = cycles.use_influence = False


def ensure_channelbag(obj: bpy.types.Object, action_name: str, strip: str = "") -> bpy.types.ActionChannelbag:
    """Return the F-curves of the object's slot; make animation data, action, slot, layer, strip as needed.

    With the name of an NLA strip, which is there, those of its slot.
    """
    animation: Any = player_of(obj, strip) or obj.animation_data_create()
    if animation.action is None:
        animation.action = bpy.data.actions.new(action_name)
    action = animation.action
    if animation.action_slot is None:  # always a new one: a slot that is there may be another object's
        animation.action_slot = action.slots.new(obj.id_type, obj.name)
    return _channelbag_for(action, animation.action_slot)


def _channelbag_for(action: Any, slot: Any) -> Any:
    """Return the F-curves of a slot; from Blender 5.0 on `bpy_extras.anim_utils` does that."""
    layer = action.layers[0] if action.layers else action.layers.new("Layer")
    keys = layer.strips[0] if layer.strips else layer.strips.new(type="KEYFRAME")
    return keys.channelbag(slot, ensure=True)


def new_curve(channelbag: Any, keys: ChannelKeys) -> bpy.types.FCurve:
    """Make an F-curve in its group, coloured as Blender colours the ones it makes itself."""
    curve = new_grouped_curve(channelbag, *keys.channel, keys.group)
    curve.color_mode = "AUTO_YRGB" if keys.data_path.endswith(FOUR_COMPONENTS) else "AUTO_RGB"
    return curve


@dataclass(frozen=True)
class CurveState:
    """An F-curve as plain data, but for the control points of its modifiers."""

    keys: KeyArrays
    group: str
    settings: Mapping[str, Any]
    modifiers: tuple[Mapping[str, Any], ...]
    """Properties of each modifier."""

    @classmethod
    def read(cls, curve: bpy.types.FCurve) -> "CurveState":
        """Read a curve that holds keys."""
        group = "" if curve.group is None else curve.group.name
        settings = {name: getattr(curve, name) for name in _CURVE_SETTINGS}
        modifiers = tuple(
            {
                prop.identifier: getattr(modifier, prop.identifier)
                for prop in modifier.bl_rna.properties
                if prop.type in {'BOOLEAN', 'INT', 'FLOAT', 'ENUM'}
                and not (prop.is_readonly or getattr(prop, "is_array", False))
            }
            for modifier in curve.modifiers
        )
        return cls(read_keys(curve), group, settings, modifiers)

    def write(self, channelbag: Any, channel: Channel) -> bpy.types.FCurve:
        """Write keys and settings into the curve of a channel, a new one where there is none.

        Modifiers that it has got since are removed; those of before are there still.

        Handles stay where they are until `FCurve.update`.
        """
        path, index = channel
        curve = channelbag.fcurves.find(path, index=index)
        if curve is None:
            curve = new_curve(channelbag, ChannelKeys(path, index, np.empty(0), self.group))
        for name, value in self.settings.items():
            setattr(curve, name, value)
        for modifier in list(curve.modifiers)[len(self.modifiers) :]:
            curve.modifiers.remove(modifier)
        for modifier, properties in zip(curve.modifiers, self.modifiers, strict=False):
            for name, value in properties.items():
                if getattr(modifier, name) != value:
                    setattr(modifier, name, value)
        assign_keys(curve, self.keys)
        return curve


def _merged_keys(old: KeyArrays, new: KeyArrays, first: float, last: float) -> tuple[KeyArrays, int]:
    """Replace the old keys from a frame to another; return the keys, and how many were replaced."""
    replaced = within(old["co"][:, 0], first, last)
    before, after = ~replaced & (old["co"][:, 0] < first), ~replaced & (old["co"][:, 0] > last)
    merged = {name: np.concatenate([old[name][before], new[name], old[name][after]]) for name in new}
    return merged, int(np.count_nonzero(replaced))


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
    strip: str = "",
) -> WriteResult:
    """Write keys into the object's own action slot, in bulk; make action and slot where there is none.

    Keys of the written channels from the first frame to the last are replaced; keys outside, and all other
    channels, slots and actions stay. Modifiers of the written curves that would change what plays there are
    muted.

    Args:
        armature_object: The object whose action is written; the data paths start from it.
        frames: (F,) increasing [frames].
        channel_keys: Channels with (F,) values each, or with curves of their own in these frames; every
            channel once.
        interpolation: From each key to the next; curves are Bézier curves.
        breakdowns: Which keys are breakdowns, (F,); none by default.
        strip: Name of an NLA strip whose slot is written instead.

    Raises:
        IKError: See `check_keyable`; or a curve holds samples. Nothing is changed then.
    """
    times = np.asarray(frames, dtype=np.float64)
    check_keyable(armature_object)
    curves = own_curves(armature_object, strip)
    present = [keys.channel for keys in channel_keys if keys.channel in curves]
    if sampled := [channel for channel in present if holds_samples(curves[channel])]:
        raise IKError(
            "{sampled} of {armature!r} hold samples, not keys: turn them into keys (Graph Editor: "
            "Key > Samples to Keys) or delete them",
            sampled=_listed(sampled),
            armature=armature_object.name,
        )
    driven = driven_channels(armature_object)
    not_written = driven | {channel for channel in present if is_locked(curves[channel])}
    written = [keys for keys in channel_keys if keys.channel not in not_written]
    skipped = tuple(keys.channel for keys in channel_keys if keys.channel in not_written)
    played = [channel for channel in present if channel not in not_written]
    first, last = float(times[0]), float(times[-1])
    changing = {
        channel: [own for own in other_modifiers(curves[channel]) if _plays_within(own, first, last)]
        for channel in played
    }
    remarks = {
        Message("not keyed, a driver decides them"): [channel for channel in skipped if channel in driven],
        Message("not keyed, their F-curves or groups are locked"): [c for c in skipped if c not in driven],
        Message("keyed, but their F-curves or groups are muted"): [c for c in played if is_muted(curves[c])],
        Message("modifiers muted, which would change what plays"): [c for c, own in changing.items() if own],
    }
    notes: list[str] = [
        Joined(": ", (text, _listed(channels))) for text, channels in remarks.items() if channels
    ]
    if not written:
        return WriteResult("", 0, 0, skipped, tuple(notes))

    channelbag = ensure_channelbag(armature_object, f"{armature_object.name} Poise Bake", strip)
    replaced = count = 0
    for modifier in chain(*changing.values()):
        modifier.mute = True
    for keys in written:
        curve = curves.get(keys.channel)
        old = None if curve is None else read_keys(curve)
        new = _keys_to_write(keys, times, interpolation, breakdowns, old)
        count += len(new["co"])
        if curve is None or old is None:
            curve = new_curve(channelbag, keys)
        else:
            new, removed = _merged_keys(old, new, first, last)
            replaced += removed
        assign_keys(curve, new)
        if keys.repeat and len(new["co"]) > 1:
            repeat_keys(curve, keys.repeat)
        curve.update()  # places the handles and tags the animation for evaluation

    action: Any = player_of(armature_object, strip).action
    action.update_tag()
    notes += _notes_on_playing(armature_object, strip)
    return WriteResult(action.name, count, replaced, skipped, tuple(notes))


def _keys_to_write(
    keys: ChannelKeys,
    times: FloatArray,
    interpolation: str,
    breakdowns: BoolArray | None,
    old: KeyArrays | None,
) -> KeyArrays:
    """Keys of a channel at times (F,), or those of its own curve; `old` are the keys that are there."""
    if keys.curve is None:
        return new_keys(times, keys.values, interpolation, breakdowns)
    if len(keys.curve.keys) == 1 and old is not None and (old["co"][:, 0] > times[-1] + KEY_DISTANCE).any():
        ends = np.unique(times[[0, -1]])
        return new_keys(ends, np.repeat(keys.curve.keys[:, 1], len(ends)), interpolation)
    return bezier_keys(keys.curve)


def _notes_on_playing(armature_object: bpy.types.Object, strip: str) -> list[str]:
    """Say what else plays the keys of an action or strip, and what keeps them from playing as they are."""
    animation: Any = armature_object.animation_data
    notes: list[str] = []
    if others := other_players(armature_object, strip):
        notes.append(Message("the same action slot also moves {names}", names=", ".join(others)))
    if not strip and animation.use_nla and any(track.is_solo for track in animation.nla_tracks):
        notes.append(Message("an NLA track is solo, so the action does not play"))
    blended = animation.action_influence < 1.0 or animation.action_blend_type != "REPLACE"
    beside = animation.use_nla and any(track.strips and not track.mute for track in animation.nla_tracks)
    if not strip and blended and beside:
        notes.append(Message("the action is blended over NLA strips, so what plays differs from the keys"))
    return notes


def _listed(channels: Sequence[Channel]) -> str:
    return in_a_row([f"{path}[{index}]" for path, index in channels])

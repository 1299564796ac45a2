# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of many channels, written into an object's action at once; what will not play of them is told."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np
import numpy.typing as npt

from ...core.arrays import FloatArray
from ...core.errors import IKError
from ..reports import in_a_row
from .fcurves import (
    INTERPOLATIONS,
    KEY_DISTANCE,
    Channel,
    ChannelKeys,
    KeyArrays,
    assign_keys,
    check_keyable,
    driven_channels,
    ensure_channelbag,
    holds_samples,
    is_locked,
    is_muted,
    new_curve,
    new_keys,
    own_curves,
    present_value,
    read_keys,
)


def _merged_keys(old: KeyArrays, new: KeyArrays) -> tuple[KeyArrays, int]:
    """Return the old keys outside the range of the new ones, and the new ones, in order of frames.

    Returns:
        The keys, and how many of the old ones are gone.
    """
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
    slot: str
    """Identifier of the object's slot in it, as in `OBRig`."""
    action_created: bool
    """Whether the action was made for these keys."""
    curves: int
    """How many F-curves were written."""
    curves_created: int
    """How many of them are new."""
    keys: int
    """How many keys were written."""
    keys_replaced: int
    """How many older keys within the frame range were removed."""
    skipped: tuple[Channel, ...]
    """Channels not written because a driver decides them, or because their F-curve is locked."""
    notes: tuple[str, ...]
    """What the user should know, one sentence each."""


def write_keys(
    armature_object: bpy.types.Object,
    frames: npt.ArrayLike,
    channel_keys: Sequence[ChannelKeys],
    *,
    interpolation: str = "LINEAR",
    action_name: str | None = None,
) -> WriteResult:
    """Write keys into the object's own action slot, in bulk; what is missing on the way there is made.

    Keys of the written channels within the first and the last frame are replaced; keys outside, and all
    other channels, slots and actions stay. Wrong input is refused before anything is changed.

    Args:
        armature_object: The object whose action is written; the data paths start from it.
        frames: (F,) increasing [frames].
        channel_keys: Channels with (F,) values each, every channel once.
        interpolation: 'LINEAR', 'BEZIER' or 'CONSTANT', for the way from each new key to the next one.
        action_name: Name of a new action; only used if the object has none.

    Raises:
        IKError: The object or its action cannot be edited, NLA tweak mode is on, a channel does not exist,
            or the arrays do not fit each other.
    """
    times = _checked_frames(frames)
    _check_channels(armature_object, times, channel_keys, interpolation)
    check_keyable(armature_object)
    curves = own_curves(armature_object)
    sampled = [k.channel for k in channel_keys if k.channel in curves and holds_samples(curves[k.channel])]
    if sampled:
        raise IKError(
            f"{_listed(sampled)} of {armature_object.name!r} hold samples, not keys: turn them into keys "
            "(Graph Editor: Key > Samples to Keys) or delete them"
        )
    driven = driven_channels(armature_object)
    locked = {k.channel for k in channel_keys if k.channel in curves and is_locked(curves[k.channel])}
    written = [k for k in channel_keys if k.channel not in driven and k.channel not in locked]
    skipped = tuple(k.channel for k in channel_keys if k.channel in driven or k.channel in locked)
    notes = _channel_notes(written, skipped, driven, curves)
    if not written:
        return WriteResult("", "", False, 0, 0, 0, 0, skipped, tuple(notes))

    action_created = armature_object.animation_data is None or armature_object.animation_data.action is None
    channelbag = ensure_channelbag(armature_object, action_name or f"{armature_object.name} Poise Bake")
    replaced = 0
    for keys in written:
        curve = curves.get(keys.channel)
        new = new_keys(times, keys.values, interpolation)
        if curve is None:
            curve = new_curve(channelbag, keys)
        else:
            new, removed = _merged_keys(read_keys(curve), new)
            replaced += removed
        assign_keys(curve, new)
        curve.update()  # places the handles and tags the animation for evaluation

    animation = armature_object.animation_data
    assert animation is not None and animation.action is not None and animation.action_slot is not None
    animation.action.update_tag()
    return WriteResult(
        action=animation.action.name,
        slot=animation.action_slot.identifier,
        action_created=action_created,
        curves=len(written),
        curves_created=sum(k.channel not in curves for k in written),
        keys=len(written) * len(times),
        keys_replaced=replaced,
        skipped=skipped,
        notes=(*notes, *_playback_notes(armature_object)),
    )


def _checked_frames(frames: npt.ArrayLike) -> FloatArray:
    times = np.asarray(frames, dtype=np.float64)
    if times.ndim != 1 or len(times) == 0 or not np.isfinite(times).all():
        raise IKError(f"frames must be a non-empty row of finite numbers, got shape {times.shape}")
    if (np.diff(times) <= KEY_DISTANCE).any():
        raise IKError(f"frames must increase by more than {KEY_DISTANCE} each")
    return times


def _check_channels(
    obj: bpy.types.Object, frames: FloatArray, channel_keys: Sequence[ChannelKeys], interpolation: str
) -> None:
    if interpolation not in INTERPOLATIONS:
        raise IKError(f"no interpolation {interpolation!r}; there are {', '.join(INTERPOLATIONS)}")
    seen: set[Channel] = set()
    for keys in channel_keys:
        if len(keys.values) != len(frames):
            raise IKError(f"{_listed([keys.channel])}: {len(keys.values)} values for {len(frames)} frames")
        if keys.channel in seen:
            raise IKError(f"{_listed([keys.channel])} is given twice")
        seen.add(keys.channel)
        present_value(obj, keys.channel)


def _listed(channels: Sequence[Channel]) -> str:
    return in_a_row([f"{path}[{index}]" for path, index in channels])


def _channel_notes(
    written: Sequence[ChannelKeys],
    skipped: Sequence[Channel],
    driven: set[Channel],
    curves: Mapping[Channel, bpy.types.FCurve],
) -> list[str]:
    """Say which channels are not written, and which will not play what is written."""
    present = [k.channel for k in written if k.channel in curves]
    cases = (
        ("not keyed, a driver decides them", [c for c in skipped if c in driven]),
        ("not keyed, their F-curves or groups are locked", [c for c in skipped if c not in driven]),
        ("keyed, but their F-curves or groups are muted", [c for c in present if is_muted(curves[c])]),
        (
            "keyed, but their F-curves have modifiers that change what plays",
            [c for c in present if any(not m.mute for m in curves[c].modifiers)],
        ),
    )
    return [f"{text}: {_listed(channels)}" for text, channels in cases if channels]


def _playback_notes(obj: bpy.types.Object) -> list[str]:
    """Say what else decides how the object's action plays."""
    animation = obj.animation_data
    assert animation is not None and animation.action is not None and animation.action_slot is not None
    notes: list[str] = []
    others = sorted(other.name for other in bpy.data.objects if other != obj and _plays(other, animation))
    if others:
        notes.append(f"the same action slot also moves {', '.join(others)}")
    if animation.use_nla and any(track.is_solo for track in animation.nla_tracks):
        notes.append("an NLA track is solo, so the action does not play")
    blended = animation.action_influence < 1.0 or animation.action_blend_type != "REPLACE"
    if blended and animation.use_nla and any(t.strips and not t.mute for t in animation.nla_tracks):
        notes.append("the action is blended over NLA strips, so what plays differs from the keys")
    return notes


def _plays(obj: bpy.types.Object, animation: bpy.types.AnimData) -> bool:
    """Whether an object plays the action slot of another's animation, itself, in the NLA or by a constraint.

    `ActionSlot.users` would tell, but Blender 4.5 to 5.2 crash in it where an armature object of the file has
    no pose: one that is in no view layer, or was just loaded.
    """
    assert animation.action_slot is not None
    own = obj.animation_data
    slots: list[Any] = []
    if own is not None:
        slots.append(own.action_slot)
        for track in own.nla_tracks:
            slots += [strip.action_slot for strip in _strips(track.strips)]
    bones: Any = () if obj.pose is None else obj.pose.bones
    constraints: list[Any] = [constraint for owner in (obj, *bones) for constraint in owner.constraints]
    slots += [constraint.action_slot for constraint in constraints if constraint.type == 'ACTION']
    return animation.action_slot in slots


def _strips(strips: Iterable[Any]) -> Iterator[Any]:
    """Give NLA strips, and those inside meta strips."""
    for strip in strips:
        yield strip
        yield from _strips(strip.strips)

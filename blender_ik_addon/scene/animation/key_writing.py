# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes keys of many channels into an object's action, and reports which of them will not play."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np
import numpy.typing as npt

from ...core.errors import IKError
from ..reports import in_a_row
from .fcurves import (
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
    other_players,
    own_curves,
    read_keys,
)


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
    """Channels not written because a driver decides them, or because their F-curve is locked."""
    notes: tuple[str, ...]
    """Remarks, one sentence each."""


def write_keys(
    armature_object: bpy.types.Object, frames: npt.ArrayLike, channel_keys: Sequence[ChannelKeys]
) -> WriteResult:
    """Write linear keys into the object's own action slot, in bulk; make action and slot where there is none.

    Keys of the written channels from the first frame to the last are replaced; keys outside, and all other
    channels, slots and actions stay.

    Args:
        armature_object: The object whose action is written; the data paths start from it.
        frames: (F,) increasing [frames].
        channel_keys: Channels with (F,) values each, every channel once.

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
        new = new_keys(times, keys.values)
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

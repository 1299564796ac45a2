# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of one object put through a linear map, for another object or for itself.

Where each new channel is one old one times a number, as in the mirror image of an upright rig, its keys are
the old ones with other values: handles, interpolation and all. Where channels mix and their keys are on the
same frames, handles are mixed like values, which is exact. Otherwise the curves are sampled on all frames
that have a key on any of them; between these a motion may come out differently, and a note says so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import bpy
import numpy as np
from bpy.types import Object

from ...core.arrays import FloatArray
from .fcurves import (
    Channel,
    ChannelKeys,
    KeyArrays,
    assign_keys,
    ensure_channelbag,
    holds_samples,
    interpolation_of,
    is_locked,
    new_curve,
    new_keys,
    own_channelbag,
    own_curves,
    read_keys,
    sample_channels,
)

NOTHING: Final = 1e-6
"""Part [1] of a channel up to which it has none in another: maps come from single precision."""

SAME_FRAME: Final = 1e-3
"""Difference of keys and handles [frames] that is rounding: Blender has them in single precision."""

VALUES: Final = ("co", "handle_left", "handle_right")
"""What of a key has a frame and a value."""


@dataclass(frozen=True)
class Track:
    """The keys of one channel, without Blender's F-curve."""

    keys: KeyArrays
    extrapolation: Literal['CONSTANT', 'LINEAR']
    group: str

    @property
    def frames(self) -> FloatArray:
        """Of the keys, (n,)."""
        return np.asarray(self.keys["co"][:, 0], dtype=np.float64)


@dataclass(frozen=True)
class Tracks:
    """The keys of a property with some components, and what the components are that have none."""

    tracks: tuple[Track | None, ...]
    """(k,)."""
    present: FloatArray
    """Values of the components at present, (k,)."""
    frames: FloatArray
    """Those that have a key in any component, (F,)."""
    samples: FloatArray
    """Values on these frames, (F, k)."""

    @property
    def animated(self) -> bool:
        """Whether any component has keys."""
        return any(track is not None for track in self.tracks)


def read_tracks(obj: Object, path: str, count: int) -> Tracks:
    """Read the keys of a property with some components; modifiers of F-curves are not read."""
    curves = own_curves(obj)
    channels: list[Channel] = [(path, index) for index in range(count)]
    tracks: list[Track | None] = []
    for channel in channels:
        curve = curves.get(channel)
        if curve is None or holds_samples(curve) or not len(curve.keyframe_points):
            tracks.append(None)
        else:
            group = "" if curve.group is None else curve.group.name
            tracks.append(Track(read_keys(curve), curve.extrapolation, group))
    keyed = [track.frames for track in tracks if track is not None]
    frames = np.unique(np.concatenate(keyed)) if keyed else np.zeros(0)
    value: Any = obj.path_resolve(path)
    present = np.array([value] if isinstance(value, (bool, int, float)) else value, dtype=np.float64)
    return Tracks(tuple(tracks), present, frames, sample_channels(obj, channels, frames))


def linear(source: Tracks, matrix: FloatArray, offset: FloatArray) -> tuple[tuple[Track | None, ...], bool]:
    """Return the keys of `matrix @ components + offset`, and whether they had to be sampled.

    Args:
        source: Of k components.
        matrix: (n, k).
        offset: (n,).

    Returns:
        (n,) tracks, None for what does not change over time.
    """
    found: list[Track | None] = []
    sampled = False
    for row, start in zip(np.where(np.abs(matrix) <= NOTHING, 0.0, matrix), offset.tolist(), strict=True):
        used = np.flatnonzero(row)
        pairs = [(float(row[j]), track) for j in used if (track := source.tracks[j]) is not None]
        still = [j for j in used if source.tracks[j] is None]
        rest = start + float(row[still] @ source.present[still])
        if not pairs:
            found.append(None)
        elif len(pairs) == 1 or _alike([track for _, track in pairs]):
            found.append(_mixed(pairs, rest))
        else:
            found.append(_sampled(source, source.samples @ row + start))
            sampled = True
    return tuple(found), sampled


def sampled(
    source: Tracks, change: Callable[[FloatArray], FloatArray], count: int
) -> tuple[Track | None, ...]:
    """Return the keys of what a function (F, k) -> (F, count) makes of them, on all keyed frames."""
    if not source.animated:
        return (None,) * count
    values = change(source.samples)
    return tuple(_sampled(source, values[:, index]) for index in range(count))


def _alike(tracks: Sequence[Track]) -> bool:
    """Whether keys and handles are on the same frames, with the same interpolation."""
    first = tracks[0].keys
    return all(
        len(track.keys["co"]) == len(first["co"])
        and np.array_equal(track.keys["interpolation"], first["interpolation"])
        and all(np.allclose(track.keys[name][:, 0], first[name][:, 0], atol=SAME_FRAME) for name in VALUES)
        for track in tracks[1:]
    )


def _mixed(pairs: Sequence[tuple[float, Track]], rest: float) -> Track:
    """The sum of tracks, each times a number, and of another number."""
    first = pairs[0][1]
    keys = {name: array.copy() for name, array in first.keys.items()}
    for name in VALUES:
        total = sum(factor * track.keys[name][:, 1].astype(np.float64) for factor, track in pairs)
        keys[name][:, 1] = total + rest
    if len(pairs) > 1:
        # Handles that Blender places by itself are those of one curve, not of a sum of several.
        for name in ("handle_left_type", "handle_right_type"):
            keys[name][:] = _FREE
    return Track(keys, first.extrapolation, first.group)


def _sampled(source: Tracks, values: FloatArray) -> Track:
    first = next(track for track in source.tracks if track is not None)
    keys = new_keys(source.frames, values, interpolation_of(first.keys))
    return Track(keys, first.extrapolation, first.group)


_FREE: Final = 0
"""Value of 'FREE' among the types of handles."""


def write_tracks(obj: Object, path: str, tracks: Sequence[Track | None]) -> None:
    """Let the components of a property have keys as given, and no others; F-curves that are there stay."""
    curves = own_curves(obj)
    for index, track in enumerate(tracks):
        curve = curves.get((path, index))
        if track is None:
            if curve is not None:
                own_channelbag(obj).fcurves.remove(curve)
            continue
        if curve is None:
            channelbag = ensure_channelbag(obj, f"{obj.name}Action")
            frame_values = np.asarray(track.keys["co"][:, 1], dtype=np.float64)
            curve = new_curve(channelbag, ChannelKeys(path, index, frame_values, track.group))
        assign_keys(curve, track.keys)
        curve.extrapolation = track.extrapolation
        curve.update()


def obstacle_to_keys(obj: Object, paths: Mapping[str, int]) -> str:
    """Say in words why the keys of some properties cannot be read and written; empty if they can."""
    animation = obj.animation_data
    if animation is None:
        return ""
    if any(driver.data_path in paths and not driver.mute for driver in animation.drivers):
        return "drivers decide"
    if any(not track.mute and track.strips for track in animation.nla_tracks):
        return "it has NLA strips"
    action = animation.action
    if action is not None and not action.is_editable:
        return f"its action {action.name!r} is linked"
    for (path, _), curve in own_curves(obj).items():
        if path in paths and (is_locked(curve) or holds_samples(curve) or len(curve.modifiers)):
            what = (
                "locked" if is_locked(curve) else "baked to samples" if holds_samples(curve) else "modified"
            )
            return f"F-curves of it are {what}"
    return ""


def plays_alone(obj: Object) -> bool:
    """Whether no other object plays the F-curves of an object."""
    animation = obj.animation_data
    if animation is None or animation.action is None or animation.action_slot is None:
        return True
    return all(
        other == obj
        or other.animation_data is None
        or other.animation_data.action != animation.action
        or other.animation_data.action_slot != animation.action_slot
        for other in bpy.data.objects
    )

# SPDX-License-Identifier: GPL-3.0-or-later
"""Which keys Poise has written: check sums of them, kept with the action.

A key is Poise's own while it is as it was written: its channel, frame, value and interpolation, and its
handles where they are free. Whoever moves a key, or changes what plays between keys, makes it his own. The
note is a property of the action, so undo, copies of the action and files have the one that belongs to it.
Bones get other names, and their F-curves with them: with the sums the names are noted that bones had then, in
the order of the armature, which stays.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast
from zlib import crc32

import bpy
import numpy as np
import numpy.typing as npt

from ...core.arrays import BoolArray, FloatArray
from .fcurves import (
    KEY_DISTANCE,
    PLACED_BY,
    POINTS,
    Channel,
    KeyArrays,
    all_curves,
    assign_keys,
    is_locked,
    own_curves,
    player_of,
    playing_strips,
    present_time,
    read_keys,
    within,
)

STILL: Final = 1e-6
"""Difference of values [m, rad, 1] up to which a channel is still: the rounding of single precision."""

_SUMMED: Final = (*POINTS, "interpolation", *(f"{side}_type" for side in POINTS[1:]))
"""Attributes of keys that are in check sums."""

_BONE: Final = re.compile(r'(?<=^pose\.bones\[").*(?="\])')
"""The name of a bone in the path of a channel."""

Sums = npt.NDArray[np.uint32]


class _Note(NamedTuple):
    """What is noted with an action."""

    sums: Sums
    """Rising."""
    bones: Sequence[str]
    """Names of the bones of the object whose keys were noted last, as they are in paths."""
    before: Mapping[str, str]
    """Those of them that have another name now in an object: by this, the name of then."""

    @classmethod
    def of(cls, obj: bpy.types.Object, action: Any) -> "_Note":
        """Read it, for an object that plays the action."""
        sums, _, names = ("" if action is None else action.poise.own_keys).partition(" ")
        bones: list[str] = json.loads(names or "[]")
        pairs = zip(now, bones, strict=True) if len(now := _bones_of(obj)) == len(bones) else ()
        return cls(
            np.frombuffer(b64decode(sums), dtype="<u4"),
            bones,
            {name: then for name, then in pairs if name != then},
        )

    def has(self, channel: Channel, keys: KeyArrays) -> BoolArray:
        """Which keys of a channel are noted, (n,)."""
        path, index = channel
        then = _BONE.sub(lambda found: self.before.get(found[0], found[0]), path), index
        return np.logical_or.reduce([self._noted(_sums(own, keys)) for own in {channel, then}])

    def _noted(self, sums: Sums) -> BoolArray:
        """Which check sums are noted, (n,): `isin` would sort those of a long bake for each few."""
        if not len(self.sums):
            return np.zeros(len(sums), dtype=np.bool_)
        place = np.minimum(np.searchsorted(self.sums, sums), len(self.sums) - 1)
        return np.asarray(self.sums[place] == sums)


_SPREAD: Final = np.uint32(0x9E3779B1)
"""Odd number near 2³² over the golden ratio: a product with it spreads the bits of a word [Knuth, 6.4]."""


def foreign_keys(
    obj: bpy.types.Object,
    channels: Iterable[Channel],
    span: tuple[float, float],
    strip: str = "",
    is_kept: Callable[[Channel, bpy.types.FCurve, FloatArray], BoolArray] | None = None,
) -> list[int]:
    """Count the keys that a bake would replace and that Poise has not written, of each of some channels.

    Keys that hold a channel still over the whole span are a pose and no motion: a bake poses anew anyway.

    Args:
        obj: Whose action slot counts.
        channels: Of which; those without an F-curve, or with one that is locked, have none.
        span: The first and the last frame that counts.
        strip: Name of the NLA strip whose slot counts; empty for that of the object's own action.
        is_kept: Which keys of a channel, with its F-curve, at some times (k,) do not count: what they play is
            kept elsewhere.
    """
    curves, own = own_curves(obj, strip), _Note.of(obj, _action_of(obj, strip))
    counts: list[int] = []
    for channel in channels:
        curve, count = curves.get(channel), 0
        if curve is not None and not is_locked(curve):
            keys = _within(read_keys(curve, *_SUMMED), span)
            ends = [curve.evaluate(frame) for frame in span]
            values = np.concatenate([ends, *(keys[name][:, 1] for name in POINTS)])
            if np.ptp(values) > STILL:
                known = own.has(channel, keys)
                if is_kept is not None:
                    known |= is_kept(channel, curve, keys["co"][:, 0])
                count = int(np.count_nonzero(~known))
        counts.append(count)
    return counts


def note_own_keys(
    obj: bpy.types.Object, channels: Iterable[Channel], span: tuple[float, float], strip: str = ""
) -> None:
    """Note that Poise has written the keys of some channels in a span of frames, as they are now.

    What was noted of keys that are gone is forgotten.
    """
    action: Any = _action_of(obj, strip)
    if action is None:
        return
    curves = own_curves(obj, strip)
    written = [
        _sums(channel, _within(read_keys(curves[channel], *_SUMMED), span))
        for channel in channels
        if channel in curves
    ]
    note = _Note.of(obj, action)
    known = _known_sums(note, all_curves(action) if len(note.sums) else ())
    action.poise.own_keys = _text([*known, *written], _bones_of(obj))


def put_back_note(obj: bpy.types.Object, noted: str) -> None:
    """Put back what was noted with the own action; what has been noted of other slots since stays."""
    action: Any = _action_of(obj, "")
    own = {curve.as_pointer() for curve in own_curves(obj).values()}
    others = [curve for curve in all_curves(action) if curve.as_pointer() not in own]
    if others and action.poise.own_keys != noted:
        theirs = _known_sums(_Note.of(obj, action), others)
        action.poise.own_keys = noted
        note = _Note.of(obj, action)
        noted = _text([note.sums, *theirs], note.bones)
    if action.poise.own_keys != noted:
        action.poise.own_keys = noted


def change_keys(
    obj: bpy.types.Object,
    changes: Mapping[Channel, tuple[float, float]],
    after: float,
    strip: str = "",
) -> None:
    """Change the values of keys after a time by a factor and an offset; those of Poise stay its own."""
    action: Any = _action_of(obj, strip)
    curves, note, changed = own_curves(obj, strip), _Note.of(obj, action), list[Sums]()
    for channel, (factor, offset) in changes.items():
        keys = {name: np.array(values) for name, values in read_keys(curves[channel]).items()}
        later = keys["co"][:, 0] > after + KEY_DISTANCE
        own = note.has(channel, keys) & later
        for name in POINTS:
            keys[name][later, 1] = factor * keys[name][later, 1] + offset
        assign_keys(curves[channel], keys)
        curves[channel].update()
        changed.append(_sums(channel, read_keys(curves[channel], *_SUMMED))[own])
    if changed:
        action.poise.own_keys = _text([note.sums, *changed], note.bones)


def has_own_keys(action: Any) -> bool:
    """Whether Poise has written keys into an action."""
    return bool(action.poise.own_keys)


def channels_with_own_keys(obj: bpy.types.Object, span: tuple[float, float]) -> set[Channel]:
    """Return the channels in which keys play that Poise has written, between a first and a last frame.

    Of an NLA strip that plays in these frames all keys count.
    """
    found: set[Channel] = set()
    for strip in ("", *playing_strips(obj, span)):
        note = _Note.of(obj, _action_of(obj, strip))
        curves = own_curves(obj, strip) if len(note.sums) else {}
        for channel, curve in curves.items():
            keys = read_keys(curve, *_SUMMED)
            keys = keys if strip else _within(keys, span)
            if not curve.mute and note.has(channel, keys).any():
                found.add(channel)
    return found


def channels_as_keyed(obj: bpy.types.Object, channels: Iterable[Channel]) -> set[Channel]:
    """Return those of some channels that are where keys of Poise alone play them in the present frame.

    Where NLA strips play, one that was moved since without a key is not told from one that was not.
    """
    time = present_time()
    strips = playing_strips(obj, (time, time))
    played = [
        (own_curves(obj, strip), _Note.of(obj, _action_of(obj, strip)), None if strip else time)
        for strip in ("", *strips)
    ]

    def is_as_keyed(channel: Channel) -> bool:
        own = [(curves[channel], note, at) for curves, note, at in played if channel in curves]
        own = [each for each in own if not each[0].mute]
        return bool(own) and all(
            (bool(strips) or _is_where_played(obj, channel, curve, time))
            and _are_own_around(channel, read_keys(curve, *_SUMMED), note, at)
            for curve, note, at in own
        )

    if not any(len(note.sums) for _, note, _ in played):
        return set()
    return set(filter(is_as_keyed, channels))


def _is_where_played(obj: bpy.types.Object, channel: Channel, curve: bpy.types.FCurve, time: float) -> bool:
    """Whether a channel has the value that its F-curve has at a time."""
    path, index = channel
    values, played = cast(Any, obj.path_resolve(path)), curve.evaluate(time)
    return index >= len(values) or abs(values[index] - played) <= STILL * (1.0 + abs(played))


def _are_own_around(channel: Channel, keys: KeyArrays, note: _Note, time: float | None) -> bool:
    """Whether the keys of a channel before and after a time, or at it, are noted; None: all of them."""
    times, last = keys["co"][:, 0], len(keys["co"]) - 1
    if last < 0:  # samples
        return False
    if time is None:
        return bool(note.has(channel, keys).all())
    before = max(int(np.searchsorted(times, time + KEY_DISTANCE, side="right")) - 1, 0)
    after = min(int(np.searchsorted(times, time - KEY_DISTANCE)), last)
    rows = slice(min(before, after), max(before, after) + 1)
    return bool(note.has(channel, {name: values[rows] for name, values in keys.items()}).all())


def keys_that_place(obj: bpy.types.Object) -> tuple[FloatArray, Sums]:
    """Return the times at which an object has keys that move it, (k,) rising [frames], and their check sums.

    A sum is of all that is keyed at a time, and stays the same when these keys go to another time together.
    """
    curves = {channel: curve for channel, curve in own_curves(obj).items() if channel[0] in PLACED_BY}
    each = [read_keys(curve, *_SUMMED) for curve in curves.values()]
    if not each:
        return np.zeros(0), np.zeros(0, dtype=np.uint32)
    keys = {name: np.concatenate([own[name] for own in each]) for name in _SUMMED}
    times = keys["co"][:, 0].astype(np.float64)
    for point in POINTS:
        keys[point][:, 0] -= times
    sums = _mixed(np.repeat([*map(_sum_of_channel, curves)], [len(own["co"]) for own in each]), keys)
    order = np.argsort(times, kind="stable")
    starts = np.flatnonzero(np.diff(times[order], prepend=-np.inf) >= KEY_DISTANCE)
    if not len(starts):
        return times, sums
    return times[order][starts], np.add.reduceat(sums[order], starts, dtype=np.uint32)


def _action_of(obj: bpy.types.Object, strip: str) -> Any:
    player = player_of(obj, strip)
    return None if player is None else player.action


def _bones_of(obj: Any) -> list[str]:
    """Names of bones as they are in paths, in the order of the armature."""
    return [] if obj.pose is None else [bpy.utils.escape_identifier(bone.name) for bone in obj.pose.bones]


def _text(parts: Sequence[Sums], bones: Sequence[str]) -> str:
    """Check sums as they are kept, each once, and names of bones; empty without sums."""
    if not any(map(len, parts)):
        return ""
    sums = np.unique(np.concatenate(parts)).astype("<u4")
    return b64encode(sums.tobytes()).decode() + " " + json.dumps(bones)


def _known_sums(note: _Note, curves: Iterable[bpy.types.FCurve]) -> list[Sums]:
    """Check sums of those keys of some F-curves that are noted, by present names."""
    each = [((own.data_path, own.array_index), read_keys(own, *_SUMMED)) for own in curves]
    return [_sums(channel, keys)[note.has(channel, keys)] for channel, keys in each]


def _within(keys: KeyArrays, span: tuple[float, float]) -> Mapping[str, npt.NDArray[Any]]:
    rows = within(keys["co"][:, 0], *span)
    return {name: values[rows] for name, values in keys.items()}


def _sums(channel: Channel, keys: KeyArrays) -> Sums:
    """Check sums of keys of a channel, 32 bits each, (n,)."""
    return _mixed(np.full(len(keys["co"]), _sum_of_channel(channel)), keys)


def _sum_of_channel(channel: Channel) -> int:
    return crc32(repr(channel).encode())


def _mixed(sums: npt.NDArray[Any], keys: KeyArrays) -> Sums:
    """Check sums (n,) with what counts of as many keys mixed in."""
    points = {name: np.ascontiguousarray(keys[name], dtype=np.float32).view(np.uint32) for name in POINTS}
    words = [*points["co"].T, keys["interpolation"].astype(np.uint32)]
    types: Any = bpy.types.Keyframe.bl_rna.properties
    for side in POINTS[1:]:
        free = keys[f"{side}_type"] == types[f"{side}_type"].enum_items["FREE"].value
        words += [np.where(free, column, 0).astype(np.uint32) for column in points[side].T]
    sums = sums.astype(np.uint32)
    for word in words:
        sums = (sums ^ word) * _SPREAD
        sums ^= sums >> np.uint32(15)
    return sums

# SPDX-License-Identifier: GPL-3.0-or-later
"""NLA strips over what else plays: made, inverted, and taken away again.

What plays is `below ⊕ strip`. With the blend *Add* ⊕ is a sum in each channel; with *Combine* quaternions and
scales are multiplied, `below · strip`, and all other channels are added to. So the strip that makes `wanted`
play has `wanted − below`, or `below⁻¹ · wanted`. What plays below is read with a strip that changes nothing:
whatever the NLA does with other strips, influences and channels without keys, is in it then. With the blend
*Replace* no strip changes nothing, and none needs to: it has what is wanted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import bpy
import numpy as np

from ...core.arrays import FloatArray
from ...core.errors import IKError
from ...core.model.rotation import continuous_quats, matrix_from_quat, quat_from_matrix
from .fcurves import (
    Channel,
    ChannelKeys,
    nla_strip,
    nla_strips,
    other_players,
    own_curves,
    playing_strips,
    write_keys,
)
from .own_keys import has_own_keys

QUATERNION: Final = "rotation_quaternion"
SCALE: Final = ".scale"

SHORTEST: Final = 0.1
"""Length of a strip over one frame [frames]; Blender shortens none below that."""

BASE_MARGIN: Final = 1000
"""By how much the strip of an action whose curves go on reaches beyond keys and bake [frames]."""


def check_strip(obj: Any, name: str, blend: str) -> None:
    """Refuse a strip that cannot be made or baked again.

    Raises:
        IKError: The name is taken by a strip that Poise has not made or that has another
            blend, its action is linked or shared, or a track is solo.
    """
    if not name.strip():
        raise IKError("the strip to bake into needs a name")
    tracks: Any = () if obj.animation_data is None else obj.animation_data.nla_tracks
    if solo := [track.name for track in tracks if track.is_solo]:
        raise IKError(
            "NLA track {solo!r} is solo, so no other plays: switch the star off before baking", solo=solo[0]
        )
    strip = nla_strip(obj, name)
    if strip is None:
        return
    if strip.action is None or not has_own_keys(strip.action):
        raise IKError(
            "there is an NLA strip {name!r} already that Poise has not made: give the bake another name",
            name=name,
        )
    if not strip.action.is_editable:
        raise IKError(
            "action {action!r} of strip {name!r} is linked: make it local, or give another name",
            action=strip.action.name,
            name=name,
        )
    if others := other_players(obj, name):
        raise IKError(
            "the action of strip {name!r} also moves {names}: make it a single user, or give another name",
            name=name,
            names=', '.join(others),
        )
    if strip.blend_type != blend:
        raise IKError(
            "strip {name!r} is blended by {title}: bake with that, or give another name",
            name=name,
            title=strip.blend_type.title(),
        )


@dataclass(frozen=True)
class NlaState:
    """What is changed of an object's NLA when a strip is made or baked again."""

    tracks: int
    place: tuple[int, int]
    """Track and place in it of the strip that was there."""
    use_nla: bool
    extrapolation: str
    """Of the object's own action."""
    known_actions: frozenset[int]
    """Session uids."""
    strip: Mapping[str, Any]
    """Properties of the strip that was there; empty for none."""
    action: int
    """Session uid of its action."""
    slot: int
    """Handle of its slot."""
    name: str

    @classmethod
    def take(cls, obj: Any, name: str) -> "NlaState":
        """Note them, before anything is made."""
        animation, strip = obj.animation_data, nla_strip(obj, name)
        tracks: Any = () if animation is None else animation.nla_tracks
        places = [
            (row, place)
            for row, track in enumerate(tracks)
            for place, other in enumerate(track.strips)
            if other == strip
        ]
        return cls(
            len(tracks),
            places[0] if places else (0, 0),
            animation is None or animation.use_nla,
            'HOLD' if animation is None else animation.action_extrapolation,
            frozenset(action.session_uid for action in bpy.data.actions),
            {} if strip is None else {key: getattr(strip, key) for key in _STRIP_STATE},
            0 if strip is None else strip.action.session_uid,
            0 if strip is None else strip.action_slot.handle,
            name,
        )

    def restore(self, obj: Any) -> None:
        """Put the strip back that was there, remove tracks and actions that were made."""
        animation = obj.animation_data
        if animation is None:
            return
        for track in list(animation.nla_tracks)[self.tracks :]:
            animation.nla_tracks.remove(track)
        action = self.own_action
        if action is not None:
            strip = self.own_strip(obj)
            strip.action = action
            strip.action_slot = next(slot for slot in action.slots if slot.handle == self.slot)
            for _ in range(2):  # an end can only be set where the other one allows it
                for key, value in self.strip.items():
                    setattr(strip, key, value)
        animation.use_nla, animation.action_extrapolation = self.use_nla, self.extrapolation
        for action in list(bpy.data.actions):
            if action.session_uid not in self.known_actions and not action.users:
                bpy.data.actions.remove(action)
        obj.update_tag()

    def own_strip(self, obj: Any) -> Any:
        """The strip that was there."""
        track, place = self.place
        return obj.animation_data.nla_tracks[track].strips[place]

    @property
    def own_action(self) -> Any:
        """The action that the strip had; None for none."""
        return next((action for action in bpy.data.actions if action.session_uid == self.action), None)


_STRIP_STATE: Final = (
    *("name", "action_frame_start", "action_frame_end", "frame_start_raw", "frame_end_raw", "scale"),
    *("mute", "influence", "extrapolation"),
)


def make_strip(obj: Any, name: str, blend: str, span: tuple[float, float]) -> None:
    """Put a strip over all else that plays, or make the one that is there ready to be written again.

    The object's own action goes into a strip of its own below, as by *Push Down*. The keys of a strip that is
    there are copied, so that the state of before can be put back. Below others that play it stays behind,
    muted and under another name, until `finish_strip`; a new one on top has its keys.
    """
    animation: Any = obj.animation_data or obj.animation_data_create()
    animation.use_nla = True
    if animation.action is not None:
        push_down(obj, span)
    strip = nla_strip(obj, name)
    if strip is not None:
        first, last = min(span[0], strip.action_frame_start), max(span[1], strip.action_frame_end)
        before, handle = strip.action, strip.action_slot.handle
        strip.action = before.copy()
        strip.action_slot = next(slot for slot in strip.action.slots if slot.handle == handle)
        if _plays_above(obj, strip):
            strip.name, strip.mute = f"{name} before", True
            strip = _on_top(obj, name, strip.action, strip.action_slot, blend)
        strip.mute, strip.influence = False, 1.0
    else:
        first, last = span
        action = bpy.data.actions.new(f"{obj.name} {name}")
        strip = _on_top(obj, name, action, action.slots.new(obj.id_type, obj.name), blend)
    # Outside of it plays what is below; what nothing plays below stays as the strip leaves it.
    strip.extrapolation = 'NOTHING' if plays_below(obj, name) else 'HOLD'
    _place(strip, first, last)
    obj.update_tag()


def _on_top(obj: Any, name: str, action: Any, slot: Any, blend: str) -> Any:
    """Make a strip in a track of its own above all others."""
    track = obj.animation_data.nla_tracks.new()
    track.name = name
    strip = track.strips.new(name, int(action.frame_range[0]), action)
    strip.name, strip.action_slot, strip.blend_type = name, slot, blend
    return strip


def replaced_by_strip(before: NlaState) -> Any:
    """Return the action of a strip that is baked again if nobody else uses it; else None."""
    old = before.own_action
    return None if old is None or old.users else old


def finish_strip(obj: Any, name: str, before: NlaState) -> None:
    """Drop what a strip was copied from: its keys, where nobody else uses them, whose name it takes over."""
    if before.strip and (left := before.own_strip(obj)) != nla_strip(obj, name):
        track = obj.animation_data.nla_tracks[before.place[0]]
        track.strips.remove(left)
        if not track.strips:
            obj.animation_data.nla_tracks.remove(track)
    old = replaced_by_strip(before)
    if old is not None:
        known, action = old.name, nla_strip(obj, name).action
        bpy.data.actions.remove(old)
        action.name = known


def _place(strip: Any, first: float, last: float) -> None:
    """Let a strip play the frames of its action at those of the scene."""
    last = max(last, first + SHORTEST)
    strip.use_sync_length = False
    strip.use_auto_blend = False
    strip.action_frame_end = last
    strip.action_frame_start = first
    strip.action_frame_end = last
    strip.frame_end_raw = max(last, strip.frame_start + SHORTEST)
    strip.frame_start_raw = first
    strip.frame_end_raw = last
    strip.scale = 1.0


def push_down(obj: Any, span: tuple[float, float]) -> None:
    """Give the object's own action a strip on top, which plays as the action did."""
    animation: Any = obj.animation_data
    action, slot = animation.action, animation.action_slot
    settings = animation.action_blend_type, animation.action_extrapolation, animation.action_influence
    keys = action.frame_range
    # Beyond its strip an action holds what its ends are: keys that go on must be inside.
    goes_on = any(curve.extrapolation != 'CONSTANT' or curve.modifiers for curve in own_curves(obj).values())
    margin = BASE_MARGIN if goes_on else 0
    animation.action = None
    if slot is None:
        return
    track = animation.nla_tracks.new()
    track.name = action.name
    strip = track.strips.new(action.name, int(keys[0]), action)
    strip.action_slot = slot
    strip.blend_type, strip.extrapolation, strip.influence = settings
    _place(strip, min(keys[0], span[0]) - margin, max(keys[1], span[1]) + margin)


def plays_below(obj: Any, name: str = "") -> bool:
    """Whether strips move bones, other ones than that of a name."""
    return _move_bones(obj, [strip for strip in nla_strips(obj) if strip.name != name])


def clips_play(obj: Any) -> bool:
    """Whether strips that play move bones."""
    playing = set(playing_strips(obj))
    return _move_bones(obj, [strip for strip in nla_strips(obj) if strip.name in playing])


def _plays_above(obj: Any, strip: Any) -> bool:
    """Whether strips in tracks above that of a strip move bones."""
    tracks = list(obj.animation_data.nla_tracks)
    row = next(row for row, track in enumerate(tracks) if strip in track.strips.values())
    return _move_bones(
        obj, [other for track in tracks[row + 1 :] if not track.mute for other in track.strips]
    )


def _move_bones(obj: Any, strips: Iterable[Any]) -> bool:
    names = [strip.name for strip in strips if not strip.mute]
    return any(path.startswith("pose.bones") for name in names for path, _ in own_curves(obj, name))


def write_identity(obj: Any, name: str, channels: Iterable[Channel], span: tuple[float, float]) -> None:
    """Write keys with which a strip that is added or combined changes nothing: what is below it plays.

    Args:
        name: Of the strip, whose keys in these frames are overwritten.
        channels: Of which; of a quaternion all four.
        span: From which frame of the strip to which.
    """
    blend, ends = nla_strip(obj, name).blend_type, np.unique(span)
    same = [
        ChannelKeys(path, index, np.full(len(ends), _identity(path, index, blend)))
        for path, index in channels
    ]
    write_keys(obj, ends, same, strip=name)


def bring_to_rest(obj: Any, channels: Iterable[Channel]) -> None:
    """Give channels of bones their values at rest; those that anything plays have others in each frame."""
    for path, index in channels:
        owner, _, name = path.rpartition(".")
        bone = obj.path_resolve(owner)
        getattr(bone, name)[index] = bone.bl_rna.properties[name].default_array[index]


def _identity(path: str, index: int, blend: str) -> float:
    """The value of a channel of a bone with which a strip changes nothing."""
    multiplied = (path.endswith(QUATERNION) and index == 0) or path.endswith(SCALE)
    return 1.0 if blend == 'COMBINE' and multiplied else 0.0


def with_whole_quaternions(channels: Iterable[Channel]) -> list[Channel]:
    """Return channels with all four components of each quaternion: a product needs them all."""
    every = [
        (path, part)
        for path, index in channels
        for part in (range(4) if path.endswith(QUATERNION) else (index,))
    ]
    return list(dict.fromkeys(every))


def inverted(
    keys: Sequence[ChannelKeys], below: Mapping[Channel, FloatArray], blend: str
) -> list[ChannelKeys]:
    """Return the keys of a strip over what plays below with which the wanted ones play.

    Args:
        keys: What is wanted, with (F,) values each.
        below: What plays below, by channel, (F,).
        blend: One of `BLEND_ITEMS`.
    """
    if blend == 'REPLACE':
        return list(keys)
    found: list[ChannelKeys] = []
    quaternions: dict[str, list[ChannelKeys]] = {}
    for own in keys:
        if blend == 'COMBINE' and own.data_path.endswith(QUATERNION):
            quaternions.setdefault(own.data_path, []).append(own)
            continue
        was = below[own.channel]
        if blend == 'COMBINE' and own.data_path.endswith(SCALE):  # what is scaled to nothing stays so
            found.append(replace(own, values=own.values / np.where(was == 0.0, 1.0, was)))
        else:
            found.append(replace(own, values=own.values - was))
    for path, parts in quaternions.items():
        was = np.stack([below[path, part] for part in range(4)], axis=1)  # (F, 4)
        wanted = was.copy()
        for own in parts:
            wanted[:, own.array_index] = own.values
        turns = np.swapaxes(matrix_from_quat(was), -1, -2) @ matrix_from_quat(wanted)
        turned = continuous_quats(quat_from_matrix(turns))
        turned *= np.where(turned[:1, :1] < 0.0, -1.0, 1.0)
        found += [replace(parts[0], array_index=part, values=turned[:, part]) for part in range(4)]
    return found

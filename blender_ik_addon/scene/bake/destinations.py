# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the keys of a bake go: the own action, a new one, or an NLA strip over what plays; and how they join.

What plays is what was solved, whatever is below. At the ends of the range the motion that is there already
goes over into the solved one (*Ease In*, *Ease Out*): there the first has all the weight and the second none,
and neither weight changes, so posture and velocity are those of the keys beside the range.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import bpy
import numpy as np
from bpy.types import Object

from ...core import IKError
from ...core.arrays import BoolArray, FloatArray, IntArray
from ...core.keys import halves
from ..animation.fcurves import (
    Channel,
    ChannelKeys,
    WriteResult,
    is_locked,
    key_frames,
    own_curves,
    player_of,
    within,
    write_keys,
)
from ..animation.layers import (
    NlaState,
    bring_to_rest,
    check_strip,
    clips_play,
    finish_strip,
    inverted,
    make_strip,
    push_down,
    replaced_by_strip,
    with_whole_quaternions,
    write_identity,
)
from ..animation.own_keys import note_own_keys
from ..animation.windings import go_on_after
from ..armature.armature import Armature
from ..armature.restoring import ActionSnapshot, block_with_uid, go_to_frame
from ..properties.settings import SETTINGS_PATH
from .frames import frame_times, key_time
from .options import BakeOptions
from .replaced_keys import ReplacedKeys


class Destination:
    """Where one bake writes: opened before the first keys, finished after the last ones."""

    strip: str
    """Name of the NLA strip; empty for the object's own action."""
    eased: IntArray
    """The own frames that the solved motion has not for itself, counted from the first."""

    def __init__(self, options: BakeOptions, armature_object: Object, frames: Sequence[float]) -> None:
        """Check what is there.

        Raises:
            IKError: A name is taken, or what is written is linked or shared.
        """
        self._options, self._frames = options, tuple(frames)
        self._times = frame_times(frames)
        self.span = float(self._times[0]), float(self._times[-1])
        self.strip = options.strip
        self._weights = _weights(frames, options.ease_in, options.ease_out)
        self.eased = np.flatnonzero(self._weights < 1.0)
        self._name = ""
        """Of a new action; empty where the own one is written."""
        self._left = 0
        """Session uid of the action that a new one takes the place of; 0 for none."""
        self._was: NlaState | None = None
        self._begun: ActionSnapshot | None = None
        self._hidden: set[Channel] = set()
        """Channels of a strip that do not play while what is there without them is read."""
        self._read_channels: set[Channel] = set()
        """Of which it is known what is there: all that have got keys."""
        self._present: dict[Channel, FloatArray] = {}
        """What is there already where frames are eased, by channel, (F,)."""
        self._base: dict[Channel, FloatArray] = {}
        """What plays below a strip that is added, by channel, (F,)."""
        self.below: dict[Channel, FloatArray] = {}
        """The same at the frames and between, (2 F - 1,), for the fewest keys."""
        self._replaced = 0
        if self.strip:
            check_strip(armature_object, self.strip, options.blend)
        elif options.to == 'NEW':
            self._name = self._new_name(armature_object)

    def _new_name(self, armature_object: Object) -> str:
        """Name of the action to make; empty for that which the object has already."""
        animation, name = armature_object.animation_data, self._options.name.strip()
        own = animation.action if animation is not None else None
        if not name:
            return f"{armature_object.name} Poise Bake"
        if own is not None and own.name == name:
            return ""
        if name in bpy.data.actions:
            raise IKError(
                "there is an action {name!r} already: give the bake another name, or assign that action to "
                "{armature!r} to bake into it",
                name=name,
                armature=armature_object.name,
            )
        return name

    def replaced(self, armature_object: Object, armature: Armature, joints: Iterable[int]) -> ReplacedKeys:
        """Keys that would be replaced and that Poise has not written."""
        if self._name:
            return ReplacedKeys(0, (), "", self.span)
        return ReplacedKeys.found(armature_object, armature, joints, self.span, self.strip)

    def hide(self, armature_object: Object, channels: Iterable[Channel]) -> bool:
        """Let some channels of a strip that is baked again not play, and those that were hidden before.

        Others of the strip play on, as those of the own action do that are not baked; so do those that cannot
        be written. Where nothing plays below, hidden ones are at rest, as if the strip were muted.

        Returns:
            Whether what plays has changed.
        """
        if not self.strip:
            return False
        curves, wanted = own_curves(armature_object, self.strip), set(with_whole_quaternions(channels))
        hidden = {own for own, curve in curves.items() if own in self._hidden or not curve.mute}
        hidden = {own for own in hidden & wanted if not is_locked(curves[own])}
        changed, self._hidden = hidden ^ self._hidden, hidden
        for channel in changed:
            curves[channel].mute = channel in hidden
        bring_to_rest(armature_object, hidden)
        return bool(changed)

    @property
    def multiplies(self) -> bool:
        """Whether quaternions of a strip are multiplied with those below, which takes all four components."""
        return bool(self.strip) and self._options.blend == 'COMBINE'

    def remember(self, armature_object: Object) -> Callable[[Object], None]:
        """Note what `open` and what is written change; returns what puts it back."""
        self._was = NlaState.take(armature_object, self.strip)
        return self._was.restore

    def open(self, armature_object: Object) -> None:
        """Make what is written, after `remember`."""
        obj: Any = armature_object
        if self.strip:
            make_strip(obj, self.strip, self._options.blend, self.span)
        elif self._name:
            self._make_action(obj)
        if not self.strip:
            if not own_curves(obj) and clips_play(obj):
                obj.animation_data.action_extrapolation = 'NOTHING'  # outside of the range they play on
            self._begun = ActionSnapshot.take(obj)

    def _make_action(self, obj: Any) -> None:
        """Give the object an action that plays as its own one, without keys of Poise's settings.

        These go on to play below, in a strip of the old action.
        """
        animation: Any = obj.animation_data or obj.animation_data_create()
        old, slot = animation.action, animation.action_slot
        if old is None or slot is None:
            animation.action = bpy.data.actions.new(self._name)
            return
        self._left = old.session_uid
        new = old.copy()
        new.name = self._name
        handle = slot.handle
        for other in [own for own in new.slots if own.handle != handle]:
            new.slots.remove(other)
        if any(path.startswith(SETTINGS_PATH) for path, _ in own_curves(obj)):
            animation.use_nla = True
            push_down(obj, self.span)
        animation.action = new
        animation.action_slot = new.slots[0]
        for (path, _), curve in own_curves(obj).items():
            if path.startswith(SETTINGS_PATH):
                new.layers[0].strips[0].channelbag(new.slots[0]).fcurves.remove(curve)

    def clear(self) -> None:
        """Take the keys of the last writing away; a strip's are replaced by the next."""
        if self._begun is not None:
            self._begun.restore()

    def write(
        self,
        armature_object: Object,
        keys: Sequence[ChannelKeys],
        rows: IntArray,
        breakdowns: BoolArray | None = None,
    ) -> WriteResult:
        """Write the keys of some own frames, of values of all own frames (F,), or curves as they are."""
        curves = [own for own in keys if own.curve is not None]
        keys = [own for own in keys if own.curve is None]
        blend = self._options.blend if self.strip else 'REPLACE'
        # Bones whose constraints are cleared get keys after the others.
        if new := [own.channel for own in keys if own.channel not in self._read_channels]:
            self._read(armature_object, new)
        if len(self.eased):
            keys = _eased(keys, self._present, self._weights)
        keys = inverted(keys, self._base, blend)
        some = [*curves, *(replace(own, values=own.values[rows]) for own in keys)]
        if blend == 'REPLACE' and not self._options.loop:
            self._let_later_keys_go_on(armature_object, some, rows)
        written = write_keys(
            armature_object,
            self._times[rows],
            some,
            interpolation="BEZIER",
            breakdowns=breakdowns,
            strip=self.strip,
        )
        return replace(written, keys_replaced=self._replaced) if self.strip else written

    def _let_later_keys_go_on(
        self, armature_object: Object, keys: Iterable[ChannelKeys], rows: IntArray
    ) -> None:
        """Let rotations of a later part, which begins where this one ends, go on from its last keys."""
        ends = {
            own.channel: float(own.values[-1] if own.curve is None else own.curve.keys[-1, 1]) for own in keys
        }
        steps = np.diff(self._times[rows][-2:], prepend=self._times[rows][-1:])
        go_on_after(armature_object, ends, self.span[1], max(key_time(), *steps.tolist()), self.strip)

    def _read(self, armature_object: Object, channels: Sequence[Channel]) -> None:
        """Read what is there in the own frames before channels get their first keys, and what is below."""
        every = with_whole_quaternions(channels)
        self._read_channels.update(every)
        frames = np.array(self._frames, dtype=np.float64)
        if len(self.eased):
            self._present.update(_played(armature_object, every, frames))
        if not self.strip:
            return
        curves = own_curves(armature_object, self.strip)
        keys = key_frames(*(curves[own] for own in channels if own in curves))
        self._replaced += int(np.count_nonzero(within(keys, *self.span)))
        self.hide(armature_object, ())
        if self._options.blend == 'REPLACE':
            return
        write_identity(armature_object, self.strip, every, self.span)
        if self._options.fewest:
            self.below.update(_played(armature_object, every, halves(frames)))
            self._base.update((channel, self.below[channel][::2]) for channel in every)
        else:
            self._base.update(_played(armature_object, every, frames))

    def note_keys(self, armature_object: Object, written: Iterable[Channel]) -> str:
        """Note that keys are Poise's own; returns the name of their action in the end."""
        note_own_keys(armature_object, with_whole_quaternions(written), self.span, self.strip)
        action = player_of(armature_object, self.strip).action
        known = replaced_by_strip(self._was) if self.strip and self._was is not None else None
        return action.name if known is None else known.name

    def finish(self, armature_object: Object) -> None:
        """Drop what a strip was copied from, keep what a new action has replaced: nothing is put back now."""
        left = block_with_uid(bpy.data.actions, self._left)
        if left is not None and not left.users:
            left.use_fake_user = True  # a file drops what nobody uses
        if self.strip and self._was is not None:
            finish_strip(armature_object, self.strip, self._was)


def _played(
    armature_object: Object, channels: Sequence[Channel], frames: FloatArray
) -> Mapping[Channel, FloatArray]:
    """Show frames (F,) of the scene and return the values of channels there, by channel, (F,)."""
    obj: Any = armature_object
    scene, values = bpy.context.scene, {channel: np.empty(len(frames)) for channel in channels}
    for row, frame in enumerate(frames.tolist()):
        go_to_frame(scene, frame)
        for (path, index), own in values.items():
            own[row] = obj.path_resolve(path)[index]
    return values


def _weights(frames: Sequence[float], ease_in: int, ease_out: int) -> FloatArray:
    """How much each frame is of the solved motion [1], (F,)."""
    own, weights = np.array(frames, dtype=np.float64), np.ones(len(frames))
    for away, ease in ((own - own[0], ease_in), (own[-1] - own, ease_out)):
        if ease:
            part = np.clip(away / ease, 0.0, 1.0)
            weights *= part * part * (3.0 - 2.0 * part)  # it begins and ends without a change
    return weights


def _eased(
    keys: Sequence[ChannelKeys], base: Mapping[Channel, FloatArray], weights: FloatArray
) -> list[ChannelKeys]:
    """Return keys that go over from what is there and into it: quaternions by the nearer of their signs."""
    groups: dict[str, list[ChannelKeys]] = {}
    for own in keys:
        groups.setdefault(own.data_path, []).append(own)
    found: list[ChannelKeys] = []
    for path, parts in groups.items():
        wanted = np.stack([own.values for own in parts], axis=1)  # (F, k)
        was = np.stack([base[own.channel] for own in parts], axis=1)
        if path.endswith("rotation_quaternion"):
            was = was * np.where((was * wanted).sum(axis=1, keepdims=True) < 0.0, -1.0, 1.0)
        elif path.endswith("rotation_euler"):
            was = was + 2.0 * np.pi * np.round((wanted - was) / (2.0 * np.pi))
        mixed = was + weights[:, None] * (wanted - was)
        if path.endswith("rotation_quaternion") and len(parts) == 4:
            mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
        found += [replace(own, values=column) for own, column in zip(parts, mixed.T, strict=True)]
    return found

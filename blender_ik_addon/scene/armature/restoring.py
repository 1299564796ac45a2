# SPDX-License-Identifier: GPL-3.0-or-later
"""What changes for a while and is put back exactly: pose, action and F-curves, settings, frame.

Everything is kept as plain data. Objects and actions are found again by their session uid, so they may be
renamed meanwhile; what is deleted meanwhile does not keep the rest from being put back.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np

from ...core.errors import IKError
from ..animation.fcurves import (
    OWN_CHANNELS,
    Channel,
    CurveState,
    all_curves,
    ensure_channelbag,
    holds_samples,
    nla_strips,
    own_channelbag,
    own_curves,
    present_frame,
)
from ..animation.own_keys import put_back_note
from ..properties.settings import plain, settings_of
from .armature import pose_bones_named
from .poses import PROPERTIES, PoseNote, RawChannels, raw_channels


def block_with_uid(collection: Any, uid: int) -> Any:
    """Return the data-block with a session uid from `bpy.data.objects` or the like; None if it is gone."""
    return next((block for block in collection if block.session_uid == uid), None)


@dataclass(frozen=True)
class PoseSnapshot:
    """Every channel of some bones, also of those without animation, and by whom the pose is."""

    rotation_modes: Mapping[str, Any]
    """Of each bone by its name."""
    channels: RawChannels
    """Their channels as Blender holds them, (k, 17)."""
    note: PoseNote

    @classmethod
    def take(cls, armature_object: bpy.types.Object, bones: Iterable[str] | None = None) -> "PoseSnapshot":
        """Note the channels of the named bones, or of all."""
        pose: Any = armature_object.pose
        rows = {bone.name: row for row, bone in enumerate(pose.bones)} if pose else {}
        found = pose_bones_named(armature_object, rows if bones is None else bones)
        modes = {bone.name: bone.rotation_mode for bone in found}
        channels = raw_channels(armature_object)[[rows[name] for name in modes]]
        return cls(modes, channels, PoseNote.of(armature_object))

    def others(self, now: "PoseSnapshot") -> list[str]:
        """Name the bones whose channels are others in a later snapshot of the same bones, to the bit."""
        differ = (self.channels.view(np.uint32) != now.channels.view(np.uint32)).any(axis=1)
        return [bone for bone, other in zip(self.rotation_modes, differ.tolist(), strict=True) if other]

    def restore(self, armature_object: bpy.types.Object) -> None:
        """Put the channels back (IKError: a bone is not there any more; nothing is changed then)."""
        for bone in pose_bones_named(armature_object, self.rotation_modes):
            if bone.rotation_mode != self.rotation_modes[bone.name]:
                bone.rotation_mode = self.rotation_modes[bone.name]  # converts, so the channels come after it
        values = dict(zip(self.rotation_modes, self.channels.tolist(), strict=True))
        now = PoseSnapshot.take(armature_object, self.rotation_modes)
        # One by one, so that Blender evaluates what has changed; of large rigs most has not.
        for bone in pose_bones_named(armature_object, self.others(now)):
            for name, columns in PROPERTIES.items():
                setattr(bone, name, values[bone.name][columns])
        self.note.restore(armature_object)


@dataclass(frozen=True)
class ActionSnapshot:
    """An object's action, slot and F-curves, and which of the keys are Poise's own.

    Pose channels are not in it: a caller that changes the pose restores it after `restore`.
    """

    object_name: str
    object_uid: int
    known_actions: frozenset[int]
    """Session uids of all actions, to tell one that was made since."""
    has_animation_data: bool
    last_slot_identifier: str
    action_uid: int | None
    slot_handle: int | None
    """Number of the slot within its action; it never changes, an identifier may."""
    curves: Mapping[Channel, CurveState]
    """Those that hold keys; others are never written."""
    own_keys: str
    """What is noted of them with the action, see `animation.own_keys`."""

    @classmethod
    def take(cls, obj: bpy.types.Object) -> "ActionSnapshot":
        """Note all that `write_keys` may change."""
        animation = obj.animation_data
        action: Any = None if animation is None else animation.action
        slot = None if animation is None or action is None else animation.action_slot
        curves = own_curves(obj).items()
        return cls(
            object_name=obj.name,
            object_uid=obj.session_uid,
            known_actions=frozenset(known.session_uid for known in bpy.data.actions),
            has_animation_data=animation is not None,
            last_slot_identifier="" if animation is None else animation.last_slot_identifier,
            action_uid=None if action is None else action.session_uid,
            slot_handle=None if slot is None else slot.handle,
            curves={channel: CurveState.read(curve) for channel, curve in curves if not holds_samples(curve)},
            own_keys="" if action is None else action.poise.own_keys,
        )

    def restore(self) -> None:
        """Put action, slot and F-curves back; remove what was made since (IKError: one of them is gone)."""
        obj = block_with_uid(bpy.data.objects, self.object_uid)
        if obj is None:
            raise IKError(
                "object {armature!r} is gone, its animation cannot be put back", armature=self.object_name
            )
        action = None if self.action_uid is None else block_with_uid(bpy.data.actions, self.action_uid)
        if action is None and self.action_uid is not None:
            raise IKError(
                "the action of {armature!r} is gone and cannot be put back", armature=self.object_name
            )
        animation = obj.animation_data
        if animation is None and self.has_animation_data:
            animation = obj.animation_data_create()
        if animation is not None:
            self._restore_assignment(animation, action)
            if not (self.has_animation_data or animation.drivers or animation.nla_tracks):
                obj.animation_data_clear()
        if action is not None:
            self._restore_curves(obj, action)
            put_back_note(obj, self.own_keys)
            action.update_tag()
        obj.update_tag()

    def _restore_assignment(self, animation: Any, action: Any) -> None:
        """Assign the action and the slot of before; remove a slot or an action that was made since."""
        present, slot = animation.action, animation.action_slot
        if present != action:
            animation.action = action
            if present is not None and present.session_uid not in self.known_actions and present.users == 0:
                bpy.data.actions.remove(present)
        elif slot is not None and self.slot_handle is None:
            animation.action_slot = None
            action.slots.remove(slot)  # and its channelbag with it
        if action is not None:
            slots = {own.handle: own for own in action.slots}
            if self.slot_handle is not None and self.slot_handle not in slots:
                raise IKError(
                    "the slot of {armature!r} in action {action!r} is gone",
                    armature=self.object_name,
                    action=action.name,
                )
            animation.action_slot = slots.get(self.slot_handle)
        animation.last_slot_identifier = self.last_slot_identifier

    def _restore_curves(self, obj: Any, action: Any) -> None:
        """Put every F-curve back; remove curves made since, and channelbag, strip and layer if empty then."""
        channelbag: Any = ensure_channelbag(obj, "") if self.curves else own_channelbag(obj)
        for channel, curve in own_curves(obj).items():
            if channel not in self.curves and not holds_samples(curve):
                channelbag.fcurves.remove(curve)  # and its group, once that is empty
        for channel, state in self.curves.items():
            state.write(channelbag, channel)  # no update: handles stay where a script or import placed them
        strip: Any = next((strip for layer in action.layers for strip in layer.strips), None)
        if channelbag is not None and not channelbag.fcurves and not channelbag.groups:
            strip.channelbags.remove(channelbag)
        if strip is not None and not strip.channelbags:
            action.layers[0].strips.remove(strip)
        if action.layers and not action.layers[0].strips:
            action.layers.remove(action.layers[0])


@contextmanager
def undone_on_error() -> Iterator[ExitStack]:
    """Give a stack of what puts things back: it is called, last first, when anything raises inside."""
    with ExitStack() as undo:
        yield undo
        undo.pop_all()


@contextmanager
def animation_restored_on_error(armature_object: bpy.types.Object) -> Iterator[None]:
    """Put action, F-curves and pose of an armature object back when anything raises inside."""
    with undone_on_error() as undo:
        if armature_object.is_editable:  # else nothing is changed
            undo.callback(PoseSnapshot.take(armature_object).restore, armature_object)
            undo.callback(bpy.context.view_layer.update)  # plays the animation over channels without keys
            undo.callback(ActionSnapshot.take(armature_object).restore)
        yield


class GroupSnapshot:
    """All properties of a property group, with the elements of its lists."""

    def __init__(self, group: Any) -> None:
        self._values: dict[str, Any] = {}
        """None for a property that is not set."""
        self._lists: dict[str, list[GroupSnapshot]] = {}
        for prop in group.bl_rna.properties:
            if prop.type == 'COLLECTION':
                self._lists[prop.identifier] = [
                    GroupSnapshot(element) for element in getattr(group, prop.identifier)
                ]
            elif not prop.is_readonly:
                self._values[prop.identifier] = _set_value(group, prop.identifier)

    def restore(self, group: Any) -> None:
        """Write back what is different."""
        for name, value in self._values.items():
            if value is None:
                group.property_unset(name)
            elif _set_value(group, name) != value:
                setattr(group, name, value[0])
        for name, elements in self._lists.items():
            present = getattr(group, name)
            while len(present) > len(elements):
                present.remove(len(present) - 1)
            while len(present) < len(elements):
                present.add()
            for own, element in zip(elements, present, strict=True):
                own.restore(element)


def _set_value(group: Any, name: str) -> tuple[Any] | None:
    return (plain(getattr(group, name)),) if group.is_property_set(name) else None


@contextmanager
def settings_restored_on_error(armature_object: bpy.types.Object) -> Iterator[None]:
    """Put the settings of an armature object back when anything raises inside."""
    settings = GroupSnapshot(settings_of(armature_object))
    with undone_on_error() as undo:
        undo.callback(armature_object.update_tag)
        undo.callback(lambda: settings.restore(settings_of(armature_object)))
        yield


@contextmanager
def made_removed_on_error(*kinds: str) -> Iterator[None]:
    """Remove what was made inside of some kinds of data, such as "objects", when anything raises there."""

    def remove_others(blocks: Any, known: set[int]) -> None:
        for block in [block for block in blocks if block.session_uid not in known]:
            blocks.remove(block)

    with undone_on_error() as undo:
        for kind in reversed(kinds):
            blocks = getattr(bpy.data, kind)
            undo.callback(remove_others, blocks, {block.session_uid for block in blocks})
        yield


@contextmanager
def set_up_restored_on_error(armature_object: bpy.types.Object) -> Iterator[None]:
    """Put back what sets a character up when anything raises inside.

    Settings, names and custom properties of bones, F-curves and pose; objects and collections that were made
    are removed.
    """
    bones: Any = {} if armature_object.pose is None else armature_object.pose.bones
    names = {bone.name: bone.poise_name for bone in bones.values()}
    custom = {
        (bone.name, key): value
        for bone in bones.values()
        for key, value in bone.items()
        if isinstance(value, bool | int | float)
    }

    def put_back() -> None:
        for name, known_as in names.items():
            if bones[name].poise_name != known_as:
                bones[name].poise_name = known_as
        for (name, key), value in custom.items():
            if bones[name][key] != value:
                bones[name][key] = value

    with (
        animation_restored_on_error(armature_object),
        made_removed_on_error("objects", "collections"),
        settings_restored_on_error(armature_object),
        undone_on_error() as undo,
    ):
        undo.callback(put_back)
        yield


@dataclass(frozen=True)
class ValuesSnapshot:
    """Values of properties of objects."""

    values: Mapping[tuple[int, str], Any]
    """Session uid of an object and data path -> value."""

    @classmethod
    def of(cls, paths: Iterable[tuple[bpy.types.Object, str]]) -> "ValuesSnapshot":
        """Note those of objects that are at data paths."""
        found = {(obj.session_uid, path): _resolved_value(obj, path) for obj, path in paths}
        return cls({key: value for key, value in found.items() if value is not None})

    @classmethod
    def placing(cls, objects: Iterable[bpy.types.Object]) -> "ValuesSnapshot":
        """Note the own channels of objects."""
        return cls.of((obj, path) for obj in objects for path in OWN_CHANNELS)

    @classmethod
    def played(
        cls, armature_object: bpy.types.Object, but: Iterable[bpy.types.Object] = ()
    ) -> "ValuesSnapshot":
        """Note what going to a frame overwrites in the view layer, but for the pose of an armature object.

        Args:
            but: Objects that are left out.
        """
        left_out = set(but)
        return cls.of(
            (obj, path)
            for obj in bpy.context.view_layer.objects
            if obj is not None and obj not in left_out  # None: it has just been deleted
            for path in _played_paths(obj)
            if obj != armature_object or not path.startswith("pose.bones")
        )

    def restore(self) -> None:
        """Write back what is different."""
        objects = {obj.session_uid: obj for obj in bpy.data.objects}
        for (uid, path), value in self.values.items():
            obj = objects.get(uid)
            if obj is not None and _resolved_value(obj, path) not in (value, None):
                _assign(obj, path, value)


def _played_paths(obj: bpy.types.Object) -> set[str]:
    """Return the data paths of an object that its action and its NLA strips may play."""
    if obj.animation_data is None or not obj.is_editable:
        return set()
    actions = [obj.animation_data.action, *(strip.action for strip in nla_strips(obj))]
    return {curve.data_path for action in actions if action is not None for curve in all_curves(action)}


def _resolved_value(obj: Any, path: str) -> Any:
    """Return the value of a property; None if there is none."""
    try:
        return plain(obj.path_resolve(path))
    except ValueError:
        return None


def _assign(obj: Any, path: str, value: Any) -> None:
    """Write a property by its data path."""
    if path.endswith('"]'):  # a custom property
        start = path.rindex('["')
        owner = obj.path_resolve(path[:start]) if start else obj
        owner[bpy.utils.unescape_identifier(path[start + 2 : -2])] = value
        return
    before, _, name = path.rpartition(".")
    setattr(obj.path_resolve(before) if before else obj, name, value)


class PlayedSnapshot:
    """Frame, pose, and whatever else going to frames plays."""

    def __init__(self, armature_object: bpy.types.Object, but: Iterable[bpy.types.Object] = ()) -> None:
        """Note them.

        Args:
            armature_object: Whose pose is put back.
            but: Objects that stay as they are in the end.
        """
        self._uid, self._scene, self._frame = armature_object.session_uid, bpy.context.scene, present_frame()
        self._pose = PoseSnapshot.take(armature_object)
        self._values = ValuesSnapshot.played(armature_object, but)

    def restore(self, keyed: Iterable[Channel] = ()) -> None:
        """Put them back, each also where another cannot be, but for channels of the pose that are keyed now.

        The pose, and what else is animated and was moved without a key, come last: setting the frame, and
        updating what was tagged, play the animation over them.
        """
        with ExitStack() as undo:  # in reverse
            undo.callback(self._restore_pose, keyed)
            undo.callback(self._values.restore)
            undo.callback(bpy.context.view_layer.update)
            if present_frame() != self._frame:
                undo.callback(go_to_frame, self._scene, self._frame)

    def _restore_pose(self, keyed: Iterable[Channel]) -> None:
        armature_object = block_with_uid(bpy.data.objects, self._uid)
        if armature_object is not None:
            played = {(path, index): armature_object.path_resolve(path)[index] for path, index in keyed}
            self._pose.restore(armature_object)
            for (path, index), value in played.items():
                armature_object.path_resolve(path)[index] = value


@contextmanager
def played_restored(
    armature_object: bpy.types.Object, but: Iterable[bpy.types.Object] = ()
) -> Iterator[None]:
    """Put frame, pose, and whatever else going to frames plays, back at the end; see `PlayedSnapshot`."""
    played = PlayedSnapshot(armature_object, but)
    try:
        yield
    finally:
        played.restore()


def show_keys(armature_object: bpy.types.Object, objects: Iterable[bpy.types.Object]) -> None:
    """Bring some objects to where they are keyed in the present frame; the pose and all others stay."""
    with played_restored(armature_object, but=objects):
        go_to_frame(bpy.context.scene, present_frame())


def go_to_frame(scene: bpy.types.Scene, frame: float) -> None:
    """Show a frame, whole or between two."""
    whole = int(np.floor(frame))
    scene.frame_set(whole, subframe=frame - whole)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys on the present frame, as Blender's own settings say: for the solved bones, by button or by auto-key.

Blender inserts these keys itself, one property at a time, so that its preferences (visual keying, only
needed, cycle-aware, types of keys and handles), NLA strips and layered actions count as for any other key. An
action that cannot be edited is refused by an `IKError`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Depsgraph, KeyingSet, Object

from ...core import IKError
from ...core.messages import Message, listed
from ..animation.fcurves import (
    Channel,
    animated_channels,
    bone_path,
    is_locked,
    key_frames,
    own_curves,
    present_time,
    rotation_channel,
)
from ..animation.own_keys import note_own_keys
from ..armature.armature import Armature, pose_bones_named, updated
from ..armature.restoring import animation_restored_on_error
from ..armature.rotation_modes import rotation_of, rotations_in
from .rig import Rig

GROUP: Final = "Object Transforms"
"""What Blender calls the group of an object's own channels."""
ANOTHER: Final = 1e-3
"""Difference [1, rad] from which a rotation is another representation, not the same one rounded."""


@dataclass(frozen=True)
class KeyReport:
    """What was keyed."""

    count: int
    """How many bones, and targets that came along."""
    locked: tuple[str, ...] = ()
    """Bones with F-curves that are locked; these curves got no keys, the others did."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know, one sentence each."""
        if not self.locked:
            return ()
        return (
            Message(
                "F-curves are locked and got no keys, the others did: {locked}. Unlock them in the Graph "
                "Editor",
                locked=listed(self.locked),
            ),
        )


def key_pose(armature_object: Object, depsgraph: Depsgraph | None = None) -> KeyReport:
    """Key the bones that a solve may move, as they are, on the present frame."""
    depsgraph = updated(depsgraph)
    rig = Rig.read(armature_object, depsgraph)
    problem = rig.plan(rig.read_frame(armature_object, depsgraph)).problem
    names = [rig.armature.skeleton.names[joint] for joint in problem.moving_joints]
    with animation_restored_on_error(armature_object):
        return key_bones(armature_object, rig.armature, names, key_options())


def auto_keying() -> bool:
    """Whether Blender keys by itself what is moved."""
    return bpy.context.scene.tool_settings.use_keyframe_insert_auto


def auto_key(
    armature_object: Object,
    armature: Armature,
    bones: Sequence[str],
    targets: Iterable[tuple[Object, bool, bool]] = (),
    *,
    always: bool = False,
) -> KeyReport:
    """Key what was moved, if Blender's auto-key is on.

    Args:
        bones: Names of the bones that have moved.
        targets: Objects that have moved, and whether they were moved and whether they were turned.
        always: Whether bones, and targets with keys, are keyed whatever Blender's auto-key says.
    """
    if not (always or auto_keying()):
        return KeyReport(0)
    options = key_options() if always else auto_key_options()
    scene = bpy.context.scene
    keying_set = scene.keying_sets_all.active
    if not always and keying_set is not None and scene.tool_settings.use_keyframe_insert_keyingset:
        return KeyReport(_key_set(armature_object, keying_set, bones, options))
    report = key_bones(armature_object, armature, bones, options)
    brought = [own for own in targets if not always or auto_keying() or animated_channels(own[0])]
    for target, moved, turned in brought:
        key_object(target, options, moved=moved, turned=turned)
    return replace(report, count=report.count + len(brought))


def key_bones(
    armature_object: Object, armature: Armature, bones: Iterable[str], options: set[str]
) -> KeyReport:
    """Key the channels of bones that a solve writes, as they are, on the present frame.

    F-curves that are locked get no keys; the others have theirs all the same.

    Args:
        bones: Their names; those with nothing to write are left out.
        options: As for `bpy_struct.keyframe_insert`.
    """
    names, kept, keyed = list(bones), list[str](), list[str]()
    channels: list[Channel] = []
    locked = {channel for channel, curve in own_curves(armature_object).items() if is_locked(curve)}
    for name in names:
        for path, own in armature.written_properties(armature.skeleton.index(name)):
            full, indices = bone_path(name, path), [index for index, on in enumerate(own) if on]
            open_ones = [index for index in indices if (full, index) not in locked]
            kept += [name] if len(open_ones) < len(indices) else []
            keyed += [name] if open_ones else []
            _insert(armature_object, full, None if len(open_ones) == len(own) else open_ones, name, options)
            channels += [(full, index) for index in open_ones]
    note_own_keys(armature_object, channels, (present_time(), present_time()))
    return KeyReport(len(set(keyed)), tuple(dict.fromkeys(kept)))


def key_options() -> set[str]:
    """What Blender's settings say of keys that are inserted by hand."""
    edit: Any = bpy.context.preferences.edit
    return _chosen(
        INSERTKEY_VISUAL=edit.use_visual_keying,
        INSERTKEY_NEEDED=edit.use_keyframe_insert_needed,
        INSERTKEY_CYCLE_AWARE=bpy.context.scene.tool_settings.use_keyframe_cycle_aware,
    )


def auto_key_options() -> set[str]:
    """What Blender's settings say of keys that are inserted because something has moved."""
    edit: Any = bpy.context.preferences.edit
    return key_options() | _chosen(
        INSERTKEY_NEEDED=edit.use_auto_keyframe_insert_needed,
        INSERTKEY_AVAILABLE=edit.use_keyframe_insert_available,
        INSERTKEY_REPLACE=bpy.context.scene.tool_settings.auto_keying_mode == 'REPLACE_KEYS',
    )


def key_object(target: Object, options: set[str], *, moved: bool, turned: bool) -> None:
    """Key the place of an object, its orientation or both, as they are, on the present frame.

    An orientation is keyed in the representation nearest to that of the key before, so that its curves take
    the short way: whoever sets a matrix gets angles that may be whole turns away.
    """
    path = rotation_channel(target.rotation_mode)[0]
    if turned and (before := _key_before(target, path)):
        present = np.array(getattr(target, path))
        nearest = rotations_in(target.rotation_mode, rotation_of(target)[None], np.array(before))[0]
        if np.abs(nearest - present).max() > ANOTHER:
            setattr(target, path, nearest.tolist())
    for keyed in ["location"] * moved + [path] * turned:
        _insert(target, keyed, None, GROUP, options)


def key_values(owner: Object, paths: Iterable[str], group: str, options: set[str]) -> None:
    """Key properties of an object by their data paths, as they are, on the present frame."""
    for path in paths:
        _insert(owner, path, None, group, options)


def _key_before(target: Object, path: str) -> list[float]:
    """Values of a vector at its last key before the present frame, if each component has curves with one."""
    time, curves = present_time(), own_curves(target)
    values: list[float] = []
    for index in range(len(getattr(target, path))):
        curve = curves.get((path, index))
        keyed = key_frames(curve) if curve else np.zeros(0)
        if curve is None or not (keyed < time).any():
            return []
        values.append(curve.evaluate(float(keyed[keyed < time].max())))
    return values


def _chosen(**options: bool) -> set[str]:
    return {name for name, on in options.items() if on}


def _insert(block: Any, path: str, indices: Sequence[int] | None, group: str, options: set[str]) -> None:
    """Insert keys for components of a property of a data-block, or for all of it."""
    kind, time = bpy.context.scene.tool_settings.keyframe_type, present_time()
    if options & {'INSERTKEY_AVAILABLE', 'INSERTKEY_REPLACE'}:  # Blender would warn of each that there is not
        value, present = block.path_resolve(path), animated_channels(block)
        single = isinstance(value, str) or not hasattr(value, "__len__")
        every = range(1 if single else len(value))
        there = [index for index in (every if indices is None else indices) if (path, index) in present]
        indices = None if indices is None and len(there) == len(every) else there
    try:
        for index in (-1,) if indices is None else indices:
            block.keyframe_insert(path, index=index, frame=time, group=group, options=options, keytype=kind)
    except (RuntimeError, TypeError) as error:
        raise IKError(
            "{path} of {block!r} could not be keyed: {error}", path=path, block=block.name, error=error
        ) from error


def _key_set(armature_object: Object, keying_set: KeyingSet, bones: Sequence[str], options: set[str]) -> int:
    """Key what a keying set says: its own paths, or else its channels of these bones; how many bones.

    Not by Blender's operator, which keys what is selected, in Object Mode objects, and only from a viewport.
    """
    found = pose_bones_named(armature_object, bones)
    rows: list[tuple[Any, str, int, str, str]] = []

    def add(
        target_id: Any, data_path: str, index: int = -1, group_method: str = 'KEYINGSET', group_name: str = ""
    ) -> None:
        """Takes what a keying set would key, as `KeyingSetPaths.add` does: the set itself stays as it is."""
        rows.append((target_id, data_path, index, group_method, group_name))

    if keying_set.is_path_absolute:
        for path in keying_set.paths:
            index = -1 if path.use_entire_array else path.array_index
            add(path.id, path.data_path, index, path.group_method, path.group)
    else:
        kind: Any = keying_set.type_info  # an object of the Python class that declares it
        options = options | set(kind.bl_options)
        for bone in found:
            kind.generate(bpy.context, SimpleNamespace(paths=SimpleNamespace(add=add)), bone)
    for owner, path, index, method, group in rows:
        try:
            value = None if owner is None else owner.path_resolve(path)
        except ValueError:
            value = None
        if value is None:  # not there, as the second location of a bone
            continue
        name = {'NAMED': group, 'KEYINGSET': keying_set.bl_label}.get(method, "")
        _insert(owner, path, None if index < 0 else [index], name, options)
    return len(found)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys on the present frame, as Blender's own settings say: for the solved bones, by button or by auto-key.

Blender inserts these keys itself, one property at a time, so that its preferences (visual keying, only
needed, cycle-aware, types of keys and handles), NLA strips and layered actions count as for any other key.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import bpy
from bpy.types import Depsgraph, KeyingSet, Object

from ...core import IKError
from ..animation.fcurves import animated_channels, bone_path, is_locked, own_curves, rotation_channel
from ..armature.armature import Armature, pose_bones_named
from ..armature.restoring import animation_restored_on_error
from ..reports import listed
from .rig import Rig

_GROUP = "Object Transforms"
"""What Blender calls the group of an object's own channels."""


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
            f"F-curves are locked and got no keys, the others did: {listed(self.locked)}. Unlock them in the "
            "Graph Editor",
        )


def key_pose(armature_object: Object, depsgraph: Depsgraph | None = None) -> KeyReport:
    """Key the bones that a solve may move, as they are, on the present frame.

    Raises:
        IKError: Something is missing or cannot be posed, or the action cannot be edited; nothing is changed
            then.
    """
    depsgraph = depsgraph or bpy.context.evaluated_depsgraph_get()
    depsgraph.update()
    rig = Rig.read(armature_object, depsgraph)
    problem = rig.problem(rig.read_frame(armature_object, depsgraph))
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
) -> KeyReport:
    """Key what was moved, if Blender's auto-key is on.

    Args:
        bones: Names of the bones that have moved.
        targets: Objects that have moved, and whether they were moved and whether they were turned.

    Raises:
        IKError: The action cannot be edited.
    """
    if not auto_keying():
        return KeyReport(0)
    edit: Any = bpy.context.preferences.edit
    options = key_options() | _chosen(
        INSERTKEY_NEEDED=edit.use_auto_keyframe_insert_needed,
        INSERTKEY_AVAILABLE=edit.use_keyframe_insert_available,
        INSERTKEY_REPLACE=bpy.context.scene.tool_settings.auto_keying_mode == 'REPLACE_KEYS',
    )
    scene = bpy.context.scene
    keying_set = scene.keying_sets_all.active
    if keying_set is not None and scene.tool_settings.use_keyframe_insert_keyingset:
        return KeyReport(_key_set(armature_object, keying_set, bones, options))
    report = key_bones(armature_object, armature, bones, options)
    brought = list(targets)
    for target, moved, turned in brought:
        if moved:
            _insert(target, "location", None, _GROUP, options)
        if turned:
            _insert(target, rotation_channel(target.rotation_mode)[0], None, _GROUP, options)
    return replace(report, count=report.count + len(brought))


def key_bones(
    armature_object: Object, armature: Armature, bones: Iterable[str], options: set[str] | None = None
) -> KeyReport:
    """Key the channels of bones that a solve writes, as they are, on the present frame.

    F-curves that are locked get no keys; the others have theirs all the same.

    Args:
        bones: Their names; those with nothing to write are left out.
        options: As for `bpy_struct.keyframe_insert`; those of the preferences when None.

    Raises:
        IKError: The action cannot be edited.
    """
    options = key_options() if options is None else options
    names = list(bones)
    locked = {channel for channel, curve in own_curves(armature_object).items() if is_locked(curve)}
    kept: list[str] = []
    keyed: list[str] = []
    for name, bone in zip(names, pose_bones_named(armature_object, names), strict=True):
        written = armature.written[armature.skeleton.index(name)].tolist()
        attribute, width = rotation_channel(bone.rotation_mode)
        for path, own in (("location", written[:3]), (attribute, written[-width:])):
            held = [(bone_path(name, path), index) in locked and own[index] for index in range(len(own))]
            open_ones = [a and not b for a, b in zip(own, held, strict=True)]
            kept += [name] if any(held) else []
            keyed += [name] if any(open_ones) else []
            _insert(bone, path, open_ones, name, options)
    return KeyReport(len(set(keyed)), tuple(dict.fromkeys(kept)))


def key_options() -> set[str]:
    """What Blender's settings say of keys that are inserted by hand."""
    edit: Any = bpy.context.preferences.edit
    return _chosen(
        INSERTKEY_VISUAL=edit.use_visual_keying,
        INSERTKEY_NEEDED=edit.use_keyframe_insert_needed,
        INSERTKEY_CYCLE_AWARE=bpy.context.scene.tool_settings.use_keyframe_cycle_aware,
    )


def _chosen(**options: bool) -> set[str]:
    return {name for name, on in options.items() if on}


def _insert(owner: Any, path: str, components: Sequence[bool] | None, group: str, options: set[str]) -> None:
    """Insert keys for a property of an object or a bone, or for some of its components."""
    size = len(getattr(owner, path))
    indices = [index for index in range(size) if components is None or components[index]]
    block = owner.id_data
    full = path if owner == block else bone_path(owner.name, path)
    _insert_path(block, full, indices, len(indices) == size, group, options)


def _insert_path(
    block: Any, path: str, indices: Sequence[int], whole: bool, group: str, options: set[str]
) -> None:
    """Insert keys for components of a property of a data-block; `whole` if these are all it has."""
    kind = bpy.context.scene.tool_settings.keyframe_type
    if options & {'INSERTKEY_AVAILABLE', 'INSERTKEY_REPLACE'}:  # Blender would warn of each that there is not
        present = animated_channels(block)
        there = [index for index in indices if (path, max(index, 0)) in present]
        whole, indices = whole and len(there) == len(indices), there
    try:
        if whole:
            block.keyframe_insert(path, group=group, options=options, keytype=kind)
            return
        for index in indices:
            block.keyframe_insert(path, index=index, group=group, options=options, keytype=kind)
    except (RuntimeError, TypeError) as error:
        raise IKError(f"{path} of {block.name!r} could not be keyed: {error}") from error


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
        width = len(value) if hasattr(value, "__len__") and not isinstance(value, str) else 0
        chosen = [index] if index >= 0 else list(range(width)) or [-1]
        _insert_path(owner, path, chosen, index < 0 and width > 0, name, options)
    return len(found)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys on the present frame, as Blender's own settings say: for the solved bones, by button or by auto-key.

Blender inserts these keys itself, one property at a time, so that its preferences (visual keying, only
needed, cycle-aware, types of keys and handles), NLA strips and layered actions count as for any other key.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import bpy
from bpy.types import Depsgraph, KeyingSet, Object

from ..core import IKError
from .animation import animated_channels, bone_path, rotation_channel
from .armature import Armature, pose_bones_named
from .rig import Rig

_GROUP = "Object Transforms"
"""What Blender calls the group of an object's own channels."""


def key_pose(armature_object: Object, depsgraph: Depsgraph | None = None) -> int:
    """Key the bones that a solve may move, as they are, on the present frame; how many bones these are.

    Raises:
        IKError: Something is missing or cannot be posed, or the action cannot be edited.
    """
    depsgraph = depsgraph or bpy.context.evaluated_depsgraph_get()
    depsgraph.update()
    rig = Rig.read(armature_object, depsgraph)
    problem = rig.problem([rig.read_frame(armature_object, depsgraph)])
    names = [rig.armature.skeleton.names[joint] for joint in problem.moving_joints]
    return key_bones(armature_object, rig.armature, names, key_options())


def auto_keying() -> bool:
    """Whether Blender keys by itself what is moved."""
    return bpy.context.scene.tool_settings.use_keyframe_insert_auto


def uses_operators() -> bool:
    """Whether auto-key needs operators: they update the scene, which no handler of an update must do."""
    return _active_keying_set() is not None


def auto_key(
    armature_object: Object,
    armature: Armature,
    bones: Sequence[str],
    targets: Iterable[tuple[Object, bool, bool]] = (),
) -> int:
    """Key what was moved, if Blender's auto-key is on; how many bones and objects were keyed.

    Args:
        armature_object: The original object.
        armature: What was read of it.
        bones: Names of the bones that have moved.
        targets: Objects that have moved, and whether they were moved and whether they were turned.

    Raises:
        IKError: The action cannot be edited.
    """
    if not auto_keying():
        return 0
    keying_set = _active_keying_set()
    if keying_set is not None:
        return _key_set(armature_object, keying_set, bones)
    options = key_options() | _auto_options()
    count = key_bones(armature_object, armature, bones, options)
    for target, moved, turned in targets:
        names = ["location"] if moved else []
        names += [rotation_channel(target.rotation_mode)[0]] if turned else []
        for name in names:
            _insert(target, name, None, _GROUP, options)
        count += 1
    return count


def key_bones(
    armature_object: Object, armature: Armature, bones: Iterable[str], options: set[str] | None = None
) -> int:
    """Key the channels of bones that a solve writes, as they are, on the present frame; how many bones.

    Args:
        armature_object: The original object.
        armature: What was read of it.
        bones: Their names; those with nothing to write are left out.
        options: As for `bpy_struct.keyframe_insert`; those of the preferences when None.

    Raises:
        IKError: The action cannot be edited.
    """
    options = key_options() if options is None else options
    names = list(bones)
    count = 0
    for name, bone in zip(names, pose_bones_named(armature_object, names), strict=True):
        written = armature.written[armature.skeleton.index(name)].tolist()
        attribute, width = rotation_channel(bone.rotation_mode)
        keyed = [
            (path, own)
            for path, own in (("location", written[:3]), (attribute, written[-width:]))
            if any(own)
        ]
        for path, own in keyed:
            _insert(bone, path, own, name, options)
        count += bool(keyed)
    return count


def key_options() -> set[str]:
    """What Blender's settings say of keys that are inserted by hand."""
    edit: Any = bpy.context.preferences.edit
    tools = bpy.context.scene.tool_settings
    chosen = {
        'INSERTKEY_VISUAL': edit.use_visual_keying,
        'INSERTKEY_NEEDED': edit.use_keyframe_insert_needed,
        'INSERTKEY_CYCLE_AWARE': tools.use_keyframe_cycle_aware,
    }
    return {name for name, on in chosen.items() if on}


def _auto_options() -> set[str]:
    """What Blender's settings say besides of keys that it inserts by itself."""
    edit: Any = bpy.context.preferences.edit
    chosen = {
        'INSERTKEY_NEEDED': edit.use_auto_keyframe_insert_needed,
        'INSERTKEY_AVAILABLE': edit.use_keyframe_insert_available,
        'INSERTKEY_REPLACE': bpy.context.scene.tool_settings.auto_keying_mode == 'REPLACE_KEYS',
    }
    return {name for name, on in chosen.items() if on}


def _insert(owner: Any, path: str, components: Sequence[bool] | None, group: str, options: set[str]) -> None:
    """Insert keys for a property, or for some of its components."""
    kind = bpy.context.scene.tool_settings.keyframe_type
    size = len(getattr(owner, path))
    indices = [index for index in range(size) if components is None or components[index]]
    if options & {'INSERTKEY_AVAILABLE', 'INSERTKEY_REPLACE'}:  # Blender would warn of each that there is not
        full = path if owner == owner.id_data else bone_path(owner.name, path)
        present = animated_channels(owner.id_data)
        indices = [index for index in indices if (full, index) in present]
    try:
        if len(indices) == size:
            owner.keyframe_insert(path, group=group, options=options, keytype=kind)
            return
        for index in indices:
            owner.keyframe_insert(path, index=index, group=group, options=options, keytype=kind)
    except (RuntimeError, TypeError) as error:
        raise IKError(f"{owner.name!r} could not be keyed: {error}") from error


def _active_keying_set() -> KeyingSet | None:
    """The keying set that auto-key is limited to; None where it is not."""
    scene = bpy.context.scene
    return scene.keying_sets_all.active if scene.tool_settings.use_keyframe_insert_keyingset else None


def _key_set(armature_object: Object, keying_set: KeyingSet, bones: Sequence[str]) -> int:
    """Key bones by a keying set, as Blender does: its paths, or else its channels of these bones."""
    found = pose_bones_named(armature_object, bones)
    with bpy.context.temp_override(
        active_object=armature_object,
        object=armature_object,
        selected_pose_bones=found,
        selected_pose_bones_from_active_object=found,
        active_pose_bone=found[0] if found else None,
    ):
        done = bpy.ops.anim.keyframe_insert_by_name(type=keying_set.bl_idname)  # pyright: ignore
    return len(found) if 'FINISHED' in done else 0

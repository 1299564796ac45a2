# SPDX-License-Identifier: GPL-3.0-or-later
"""What Blender 4.5, 5.0, 5.1 and 5.2 do differently; nothing else asks for the version."""

from typing import Any

import bpy
from bpy.types import FCurve

IS_BLENDER_5 = bpy.app.version >= (5, 0, 0)


def new_grouped_curve(channelbag: Any, data_path: str, array_index: int, group: str) -> FCurve:
    """Make an F-curve in a group, or in none if its name is empty: from 5.0 it is made in it."""
    if IS_BLENDER_5:
        return channelbag.fcurves.new(data_path, index=array_index, group_name=group)
    curve = channelbag.fcurves.new(data_path, index=array_index)
    if group:
        curve.group = channelbag.groups.get(group) or channelbag.groups.new(group)
    return curve


def is_selected(pose_bone: Any) -> bool:
    """Whether a bone is selected in Pose Mode: from 5.0 the pose has that, not the armature."""
    return bool(pose_bone.select if IS_BLENDER_5 else pose_bone.bone.select)


def stored_values(group: Any) -> Any:
    """Return what a file holds of a property group by name, declared or not; to be read and deleted from."""
    if IS_BLENDER_5:
        return group.bl_system_properties_get(do_create=True)
    return group

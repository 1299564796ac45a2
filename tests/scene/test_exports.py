# SPDX-License-Identifier: GPL-3.0-or-later
"""A baked shot goes out by FBX and glTF as it plays, and nothing of Poise's own settings with it."""

from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.scene import posing

from . import builders

FRAMES = range(1, 13)
BONES = ("hips", "hand.L", "hand.R", "foot.L", "head")
WITHIN = 5e-4
"""How far bones may be from where they were [m]: these formats have single precision and quaternions."""


def places(rig: Any) -> np.ndarray:
    """Heads of the bones at the frames, in the world, (F, b, 3)."""
    found: list[Any] = []
    for frame in FRAMES:
        bpy.context.scene.frame_set(frame)
        posed = rig.evaluated_get(bpy.context.evaluated_depsgraph_get())
        found.append([posed.matrix_world @ posed.pose.bones[bone].head for bone in BONES])
    return np.array(found)


def baked() -> Any:
    """A figure whose hand is led by a target, and by an influence that has keys, baked."""
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = FRAMES[0], FRAMES[-1]
    rig = builders.humanoid()
    posing.setup_character(rig)
    row = rig.poise.effectors.find("hand.L")
    target = rig.poise.effectors[row].target
    for frame, up, influence in ((1, 0.0, 0.2), (12, 0.3, 1.0)):
        target.location.z += up
        target.keyframe_insert("location", frame=frame)
        rig.poise.effectors[row].influence = influence
        rig.keyframe_insert(f"poise.effectors[{row}].influence", frame=frame)
    posing.bake(rig)
    return rig


def export_fbx(path: str) -> None:
    bpy.ops.export_scene.fbx(
        filepath=path,
        object_types={'ARMATURE'},
        add_leaf_bones=False,
        bake_anim_simplify_factor=0.0,
        bake_anim_use_all_actions=False,
        bake_anim_use_nla_strips=False,
    )


def export_gltf(path: str) -> None:
    bpy.ops.export_scene.gltf(filepath=path, export_format='GLB', export_animation_mode='ACTIVE_ACTIONS')


def import_fbx(path: str) -> None:
    bpy.ops.import_scene.fbx(filepath=path, use_anim=True, anim_offset=0.0)


def import_gltf(path: str) -> None:
    bpy.ops.import_scene.gltf(filepath=path)


@pytest.mark.parametrize(
    ("name", "send", "receive"),
    [("shot.fbx", export_fbx, import_fbx), ("shot.glb", export_gltf, import_gltf)],
)
def test_a_bake_comes_back_as_it_played(tmp_path: Path, name: str, send: Any, receive: Any) -> None:
    for module in ("io_scene_fbx", "io_scene_gltf2"):
        bpy.ops.preferences.addon_enable(module=module)
    rig = baked()
    played = places(rig)
    assert np.ptp(played[:, BONES.index("hand.L")], axis=0).max() > 0.1
    path = str(tmp_path / name)
    send(path)
    assert b"poise" not in Path(path).read_bytes()
    known = set(bpy.data.objects)
    receive(path)
    [other] = [obj for obj in bpy.data.objects if obj not in known and obj.type == 'ARMATURE']
    assert np.abs(places(other) - played).max() < WITHIN
    first, last = other.animation_data.action.frame_range
    assert (round(first), round(last)) == (FRAMES[0], FRAMES[-1])

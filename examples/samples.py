# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that the tutorials begin with: scripts/samples.

    scripts/samples [--out FOLDER]

`pick-up.blend`: a figure with a skin and a box on the ground before it, nothing set up.
`clip.blend`: the figure of the demo walks up to a table, in keys on its bones. Its way is longer than its
steps, as after a retarget, so its feet slide.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

import bpy

import blender_ik_addon
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.animation.fcurves import own_curves

from .scenario import HIPS, enable_rigify, make_scene
from .skinned_figure import coloured, give_skin, skinned_figure

BOX: Final = (0.36, 0.26, 0.24)
"""Size of the box [m]."""
BOX_PLACE: Final = (0.0, -0.52, 0.12)
"""Middle of the box [m]; −y is before the figure."""
FRAMES: Final = 72
"""Length of the shot with the box, at 24 frames a second."""
LONGER: Final = 1.15
"""Way of the hips in the clip, by that of the steps [1]."""
CLIP_RATE: Final = 60
"""Frames a second of the clip: the steps of the demo at the speed of people who are not filmed."""
SAMPLES: Final = ("pick-up", "clip")


def pick_up() -> None:
    """Fill the scene with the figure and the box."""
    figure = skinned_figure()
    figure.name, figure.show_in_front = "Figure", True
    figure.data.display_type = 'STICK'
    bpy.ops.mesh.primitive_cube_add(size=1.0, location=BOX_PLACE)
    box: Any = bpy.context.object
    box.name, box.dimensions = "Box", BOX
    bpy.ops.object.transform_apply(location=False, rotation=False, scale=True)
    box.data.materials.append(coloured("cardboard", (0.62, 0.45, 0.26)))
    scene: Any = bpy.context.scene
    scene.frame_start, scene.frame_end, scene.render.fps = 1, FRAMES, 24
    bpy.ops.object.select_all(action='DESELECT')
    figure.select_set(True)
    bpy.context.view_layer.objects.active = figure


def clip() -> None:
    """Fill the scene with the demo's figure, keyed on its bones, with feet that slide."""
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    enable_rigify()
    figure: Any = make_scene()
    posing.bake(figure)
    figure.poise.effectors.clear()
    figure.poise.last_message = figure.poise.last_bake = ""
    for thing in list(bpy.data.objects):
        if thing.name not in {"Figure", "Floor", "Table", "Cup"}:
            bpy.data.objects.remove(thing)
    for collection in list(bpy.data.collections):
        bpy.data.collections.remove(collection)
    bpy.data.objects["Cup"].constraints.clear()
    bpy.data.objects["Cup"].animation_data_clear()
    for curve in own_curves(figure).values():
        if curve.data_path == f'pose.bones["{HIPS}"].location':
            first = curve.keyframe_points[0].co.y
            for key in curve.keyframe_points:
                for place in (key.co, key.handle_left, key.handle_right):
                    place.y = first + LONGER * (place.y - first)
            curve.update()
    scene: Any = bpy.context.scene
    scene.render.fps = CLIP_RATE
    scene.frame_set(1)
    figure.data.pose_position = 'REST'  # as which it gets its skin
    give_skin(figure)
    figure.data.pose_position = 'POSE'


def main() -> None:
    """Command line: where the files go."""
    parser = argparse.ArgumentParser(prog="scripts/samples", description="The files of the tutorials.")
    parser.add_argument("--out", type=Path, default=Path("samples"), help="folder (default: samples)")
    folder: Path = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    blender_ik_addon.register()
    for name, make in zip(SAMPLES, (pick_up, clip), strict=True):
        make()
        path = folder / f"{name}.blend"
        bpy.ops.wm.save_as_mainfile(filepath=str(path.resolve()), compress=True)
        print(f"{path}: {path.stat().st_size // 1024} KiB")
    blender_ik_addon.unregister()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes docs/images/panel.png and docs/images/solve.png in a Blender window with the extension installed.

    blender --window-geometry 0 0 1280 860 --python scripts/examples/window_pictures.py -- [options]

Where Blender cannot take a picture of its own window (software OpenGL gives a black one), name a program that
can: --screenshot "import -window root {path}" with the window in the top left corner of the screen.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from math import radians
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import numpy.typing as npt
from mathutils import Euler

Picture = npt.NDArray[np.float32]
"""(rows, columns, 4) in [0, 1], the lowest row first, as Blender has it."""

PAUSE_SECONDS = 0.5
"""Between two steps, for Blender to draw [s]."""

EFFECTORS = (  # name, bone, kind, priority, how far its target is moved [m]
    ("foot.L", "foot.L", 'BOTH', 0, (0.05, -0.28, 0.0)),
    ("foot.R", "foot.R", 'BOTH', 0, (0.0, 0.0, 0.0)),
    ("hips", "spine", 'BOTH', 1, (0.02, -0.14, -0.08)),
    ("hand.L", "hand.L", 'POSITION', 2, (-0.16, -0.58, 0.02)),
    ("hand.R", "hand.R", 'POSITION', 2, (0.20, 0.15, -0.28)),
    ("head", "spine.006", 'BOTH', 2, (0.03, -0.25, -0.12)),
)


def viewport() -> Any:
    """The 3D viewport."""
    return next(area for area in bpy.context.window_manager.windows[0].screen.areas if area.type == 'VIEW_3D')


def in_viewport() -> Any:
    """What an operator needs to know to run in the 3D viewport."""
    area = viewport()
    region = next(region for region in area.regions if region.type == 'WINDOW')
    window = bpy.context.window_manager.windows[0]
    return bpy.context.temp_override(window=window, area=area, region=region)


def picture(screenshot: str) -> Picture:
    """Take a picture of the 3D viewport without its headers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "window.png"
        if screenshot:
            subprocess.run([part.format(path=path) for part in shlex.split(screenshot)], check=True)
        else:
            with in_viewport():
                bpy.ops.screen.screenshot(filepath=str(path))
        image: Any = bpy.data.images.load(str(path))
        columns, rows = image.size
        pixels = np.array(image.pixels[:], dtype=np.float32).reshape(rows, columns, 4)
        bpy.data.images.remove(image)
    area = viewport()
    headers = sum(region.height for region in area.regions if region.type in {'HEADER', 'TOOL_HEADER'})
    bottom = rows - bpy.context.window_manager.windows[0].height + area.y
    return pixels[bottom : bottom + area.height - headers, area.x : area.x + area.width]


def save(pixels: Picture, path: Path) -> None:
    """Write a picture as PNG."""
    rows, columns, _channels = pixels.shape
    image: Any = bpy.data.images.new(path.stem, columns, rows)
    image.pixels.foreach_set(np.ascontiguousarray(pixels).ravel())
    image.filepath_raw, image.file_format = str(path), 'PNG'
    image.save()
    bpy.data.images.remove(image)
    print(f"{path}: {columns} x {rows}")


def figure() -> Any:
    """Add Rigify's basic human with its effectors; its targets are where its bones are."""
    for item in list(bpy.data.objects):
        bpy.data.objects.remove(item)
    bpy.ops.preferences.addon_enable(module="rigify")
    with in_viewport():
        bpy.ops.object.armature_basic_human_metarig_add()
        armature: Any = bpy.context.view_layer.objects.active
        armature.name = "Figure"
        for name, bone, kind, priority, _offset in EFFECTORS:
            bpy.ops.poise.add_effector(bone=bone, kind=kind)
            effector = armature.poise.effectors[-1]
            effector.name, effector.priority = name, priority
            effector.target.name = f"Target {name}"
            effector.target.empty_display_size = 0.06 if kind == 'POSITION' else 0.15
            effector.target.show_in_front = True
    return armature


def steps(output: Path, screenshot: str) -> Iterator[None]:
    """Do one thing after another; Blender draws at each `yield`."""
    preferences = bpy.context.preferences
    preferences.use_preferences_save = False  # what is changed here is not the user's choice
    preferences.view.show_splash = False
    with in_viewport():
        bpy.ops.screen.screen_full_area()
    yield
    armature = figure()
    space: Any = viewport().spaces.active
    space.show_region_toolbar = space.show_gizmo = False
    space.overlay.show_text = space.overlay.show_cursor = False
    space.show_region_ui = False
    view = space.region_3d
    view.view_rotation = Euler((radians(82), 0, radians(-40))).to_quaternion()
    view.view_location, view.view_distance = (0.05, -0.15, 0.90), 2.9
    yield

    for name, _bone, _kind, _priority, offset in EFFECTORS:
        target = armature.poise.effectors[name].target
        target.location = [place + change for place, change in zip(target.location, offset, strict=True)]
    for item in bpy.data.objects:
        item.select_set(item != armature)
    yield
    before = picture(screenshot)
    with in_viewport():
        bpy.ops.poise.solve_pose()
    print(armature.poise.last_message)
    yield
    after = picture(screenshot)
    side = before.shape[1] // 4
    bar = np.ones_like(before[:, :4])
    save(np.hstack([before[:, side:-side], bar, after[:, side:-side]]), output / "solve.png")

    space.show_region_ui = True
    view.view_location = (0.40, -0.45, 0.90)
    armature.poise.active_effector = 3
    yield
    next(region for region in viewport().regions if region.type == 'UI').active_panel_category = "Poise"
    yield
    save(picture(screenshot), output / "panel.png")


def main() -> None:
    """Command line: where to put the pictures, and what takes them."""
    parser = argparse.ArgumentParser(prog="window_pictures.py", description="Pictures of a Blender window.")
    docs = Path(__file__).resolve().parents[2] / "docs" / "images"
    parser.add_argument("--output", type=Path, default=docs, help="folder for the pictures")
    parser.add_argument("--screenshot", default="", help="program that writes the screen to {path}")
    arguments = parser.parse_args(sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else [])
    if not hasattr(bpy.types.Object, "poise"):
        sys.exit("Install and enable the extension first.")
    work = steps(arguments.output, arguments.screenshot)

    def step() -> float | None:
        more = False
        try:
            for area in bpy.context.window_manager.windows[0].screen.areas:
                area.tag_redraw()
            more = next(work, work) is None
        finally:  # Blender prints the error of a timer
            if not more:
                bpy.ops.wm.quit_blender()
        return PAUSE_SECONDS if more else None

    bpy.app.timers.register(step, first_interval=PAUSE_SECONDS)


if __name__ == "__main__":
    main()

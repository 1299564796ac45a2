# SPDX-License-Identifier: GPL-3.0-or-later
"""Poses that an animator asks for, each from the fewest targets: scripts/gallery.

    scripts/gallery [--only WORD] [--markdown FILE]

A skinned figure, *Set Up Character* as it comes, a few targets moved, *Solve*. The picture of all poses goes
into the folder `images` beside the page, or beside the present folder where there is no page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import radians
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final

import bpy  # first: bmesh comes with it
from mathutils import Euler, Matrix, Vector
from PIL import Image, ImageDraw

from benchmarks.page import arguments, progress, publish
from benchmarks.rigs import add_on
from blender_ik_addon.scene import posing
from examples.skinned_figure import coloured, skinned_figure

SIZE: Final = (300, 380)  # Of a picture [pixels]
COLUMNS: Final = 5
SAMPLES: Final = 24  # Rays for a pixel
SEEN_FROM: Final = (-2.2, -4.0, 1.6)  # The camera looks this way at the middle of the figure [m]
SEEN: Final = 2.7  # Height of what is seen [m]
MARK: Final = (0.05, 0.35, 0.9)  # Of targets that were moved
UP: Final = Vector((0.0, 0.0, 1.0))


@dataclass(frozen=True)
class Move:
    """How a target is moved."""

    target: str
    by: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Way [m]; −y is forward, −x to the figure's right."""
    turn: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Turn about the axes of the world [°]."""


@dataclass(frozen=True)
class Pose:
    """What is asked of the figure."""

    name: str
    moves: Sequence[Move] = ()
    released: Sequence[str] = ()
    """Effectors that are switched off first, and whose limbs are let hang."""
    natural: bool = False
    """Whether the whole body is natural first."""


HANGING: Final = (Move("hand.L", (-0.40, -0.02, -0.26)), Move("hand.R", (0.40, -0.02, -0.26)))
"""Hands beside the thighs."""

POSES: Final = (
    Pose("stand", HANGING),
    Pose("contrapposto", (Move("hips", (0.06, 0.0, -0.02), (0.0, 8.0, 0.0)), *HANGING)),
    Pose("crouch", (Move("hips", (0.0, 0.1, -0.45)),)),
    Pose("sit", (Move("hips", (0.0, 0.42, -0.5)),)),
    Pose("kneel", (Move("foot.R", (0.0, 0.55, 0.06), (75.0, 0.0, 0.0)), Move("hips", (0.0, 0.05, -0.48)))),
    Pose("lunge", (Move("foot.L", (0.0, -0.75, 0.0)), Move("hips", (0.0, -0.38, -0.22)))),
    Pose("step up", (Move("foot.L", (0.0, -0.4, 0.4)),)),
    Pose("reach high", (Move("hand.R", (0.35, -0.15, 0.85)),)),
    Pose("reach far forward", (Move("hand.R", (0.4, -0.95, 0.1)),)),
    Pose("reach to the floor", (Move("hand.R", (0.15, -0.2, -1.22)),)),
    Pose("hand behind the back", (Move("hand.R", (0.62, 0.14, -0.22)),)),
    Pose("both hands overhead", (Move("hand.L", (-0.5, -0.1, 0.75)), Move("hand.R", (0.5, -0.1, 0.75)))),
    Pose("look back", (Move("head", turn=(0.0, 0.0, -100.0)),)),
    Pose("released in a crouch", (Move("hips", (0.0, 0.1, -0.45)),), released=("hand.L",)),
    Pose("natural, hands off", natural=True),
)


def light_up() -> None:
    """A camera, a sun and a pale sky."""
    scene: Any = bpy.context.scene
    middle = Vector((0.0, 0.0, 0.95))
    camera: Any = bpy.data.objects.new("camera", bpy.data.cameras.new("camera"))
    camera.data.type, camera.data.ortho_scale = 'ORTHO', SEEN
    camera.location = middle + Vector(SEEN_FROM)
    camera.rotation_euler = Vector(SEEN_FROM).to_track_quat('Z', 'Y').to_euler()
    sun: Any = bpy.data.objects.new("sun", bpy.data.lights.new("sun", 'SUN'))
    sun.data.energy, sun.data.angle, sun.rotation_euler = 2.2, 0.3, Euler((0.8, -0.6, 0.2))
    for thing in (camera, sun):
        scene.collection.objects.link(thing)
    scene.camera = camera
    scene.world = bpy.data.worlds.new("sky")
    if scene.world.node_tree is None:
        scene.world.use_nodes = True
    scene.world.node_tree.nodes["Background"].inputs["Color"].default_value = (0.30, 0.33, 0.38, 1.0)
    render = scene.render
    render.engine, scene.cycles.samples, scene.cycles.use_denoising = 'CYCLES', SAMPLES, False
    render.resolution_x, render.resolution_y = SIZE
    scene.view_settings.view_transform = 'Standard'


def moved(target: Any, move: Move) -> None:
    """Move a target as a user does, and mark it."""
    bpy.context.view_layer.update()
    old = target.matrix_world.copy()
    turn = Euler([radians(angle) for angle in move.turn]).to_matrix().to_4x4()
    target.matrix_world = (
        Matrix.Translation(old.translation + Vector(move.by))
        @ turn
        @ Matrix.LocRotScale(None, old.to_quaternion(), old.to_scale())
    )
    bpy.context.view_layer.update()


def mark(target: Any) -> None:
    """Show a target that was moved."""
    bpy.ops.mesh.primitive_uv_sphere_add(radius=0.035, location=target.matrix_world.translation)
    bpy.context.object.data.materials.append(bpy.data.materials.get("mark") or coloured("mark", MARK))


def posed(pose: Pose) -> SimpleNamespace:
    """Make the figure anew, pose it, and tell how it turned out.

    Returns:
        Its name and the targets that were moved (asked); the largest miss of these (missed) [m], how far the
        hips went down (sunk) [m], bends of knees, elbows and wrists, left and right [rad], the lean of the
        trunk [rad], and how far feet that were not moved slid (slid) [m] and tilted (flat) [rad].
    """
    figure = skinned_figure()
    light_up()
    posing.setup_character(figure)
    effectors: Any = figure.poise.effectors
    before = _heads(figure)
    for name in pose.released:
        effectors[name].enabled = False
        posing.make_natural(figure, [effectors[name].bone])
    if pose.natural:
        for name in ("hand.L", "hand.R"):
            effectors[name].enabled = False
        posing.make_natural(figure)
    for move in pose.moves:
        moved(effectors[move.target].target, move)
    report = posing.solve_pose(figure)
    bpy.context.view_layer.update()
    places, bones, turned = _heads(figure), figure.pose.bones, {move.target for move in pose.moves}
    still = [side for side in "LR" if f"foot.{side}" not in turned]
    for move in pose.moves:
        mark(effectors[move.target].target)
    return SimpleNamespace(
        name=pose.name,
        asked=", ".join(dict.fromkeys(move.target for move in pose.moves)),
        missed=max((e.position or 0.0 for e in report.effectors if e.name in turned), default=0.0),
        sunk=before["spine"][2] - places["spine"][2],
        knees=[_bend(places, f"thigh.{side}", f"shin.{side}", f"foot.{side}") for side in "LR"],
        elbows=[_bend(places, f"upper_arm.{side}", f"forearm.{side}", f"hand.{side}") for side in "LR"],
        wrists=[bones[f"forearm.{side}"].vector.angle(bones[f"hand.{side}"].vector) for side in "LR"],
        trunk=(places["spine.003"] - places["spine"]).angle(UP),
        slid=max(((places[f"foot.{side}"] - before[f"foot.{side}"]).length for side in still), default=0.0),
        flat=max((_tilt(figure, f"foot.{side}") for side in still), default=0.0),
    )


def _heads(figure: Any) -> dict[str, Vector]:
    """Where bones begin, in the world [m]."""
    bpy.context.view_layer.update()
    return {bone.name: figure.matrix_world @ bone.head for bone in figure.pose.bones}


def _bend(places: dict[str, Vector], root: str, middle: str, end: str) -> float:
    """How far a limb of two bones is from straight [rad]."""
    return (places[middle] - places[root]).angle(places[end] - places[middle])


def _tilt(figure: Any, bone: str) -> float:
    """How far a bone leans against the rest pose [rad]."""
    turn = figure.pose.bones[bone].matrix.to_3x3() @ figure.data.bones[bone].matrix_local.to_3x3().inverted()
    return (turn @ UP).angle(UP)


def picture(label: str) -> Image.Image:
    """The figure as it is, with its name."""
    scene: Any = bpy.context.scene
    with TemporaryDirectory() as folder:
        scene.render.filepath = str(Path(folder) / "pose.png")
        bpy.ops.render.render(write_still=True)
        image = Image.open(scene.render.filepath).convert("RGB")
    ImageDraw.Draw(image).text((8, 6), label, fill=(30, 30, 35))
    return image


def sheet(pictures: Sequence[Image.Image]) -> Image.Image:
    """All pictures in rows."""
    columns = min(COLUMNS, len(pictures))
    rows = -(-len(pictures) // columns)
    whole = Image.new("RGB", (columns * SIZE[0], rows * SIZE[1]), (255, 255, 255))
    for number, image in enumerate(pictures):
        whole.paste(image, (number % columns * SIZE[0], number // columns * SIZE[1]))
    return whole


def main() -> int:
    """Measure, and write the page and the picture."""
    options = arguments(
        "scripts/gallery", __doc__, only=("", "only poses whose name has this word")
    ).parse_args()
    figures: list[SimpleNamespace] = []
    pictures: list[Image.Image] = []
    with add_on():
        for pose in POSES:
            if options.only in pose.name:
                figures.append(posed(pose))
                progress(figures[-1])
                pictures.append(picture(pose.name))
    folder = (options.markdown.parent if options.markdown else Path()) / "images"
    folder.mkdir(parents=True, exist_ok=True)
    sheet(pictures).save(folder / "gallery.jpg", quality=88)
    publish(options, "gallery", globals(), figures=figures)
    return 0

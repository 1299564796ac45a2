# SPDX-License-Identifier: GPL-3.0-or-later
"""Every kind of effector on Rigify's basic human, solved once and drawn before and after: scripts/kinds.

Joints have the limits of Set Up Character, the feet hold their places, one effector of the kind pulls.
"""

from __future__ import annotations

from collections.abc import Callable
from math import radians
from pathlib import Path
from typing import Any, Final

import bpy
import numpy as np
import numpy.typing as npt
from mathutils import Euler, Vector
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks import drawing
from benchmarks.page import arguments, measured, publish, stored
from benchmarks.rigs import FloatArray, add_on, basic_human, ends
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.properties.settings import KIND_ITEMS
from examples.pictures import circles
from examples.scenario import body_parts

PAGE: Final = Path("docs/measured/kinds.md")
IMAGES: Final = "../images/kinds"  # Folder of the pictures, which the manual shows as well, from the page

VIEWS: Final = {"front": (Vector((1.0, 0.0, 0.0)), Vector((0.0, 0.0, 1.0))),
                "side": (Vector((0.0, -1.0, 0.0)), Vector((0.0, 0.0, 1.0))),
                "half": (Vector((0.8, -0.6, 0.0)), Vector((-0.12, -0.16, 0.98)))}  # fmt: skip
"""Axes of the picture, to the right and up."""

BEFORE, AFTER, TARGET, MARK = "#b9bec6", "#2b2d33", "#d1495b", "#1f77b4"
SHADE, SKIN, EDGE = "#e3e6ea", "#d9b59a", "#7d5f4b"
"""Colours of the body before, and after with its outlines."""
PICTURE: Final = 3.4  # Width and height of a picture [inch], at 100 dots
PLACE, TURN = 5e-4, radians(0.05)  # Errors up to which an effector is where it should be [m], [rad]
TITLES: Final = {item[0]: (item[1], item[2]) for item in KIND_ITEMS}


def centre_of_mass(bones: FloatArray) -> FloatArray:
    """Of bones with masses by the cubes of their lengths, (3,)."""
    masses = np.linalg.norm(bones[:, 1] - bones[:, 0], axis=1) ** 3
    return masses @ bones.mean(axis=1) / masses.sum()


def limited_human() -> Any:
    """Rigify's basic human with the limits of Set Up Character, and an effector for each foot."""
    figure = basic_human()
    posing.setup_character(figure)
    targets = [entry.target for entry in figure.poise.effectors]
    figure.poise.effectors.clear()
    for target in targets:
        bpy.data.objects.remove(target)
    for foot in ("foot.L", "foot.R"):
        posing.add_effector(figure, foot, kind='BOTH')
    return figure


def body(figure: Any) -> list[tuple[FloatArray, FloatArray]]:
    """Parts of the body as it is posed: centres of balls (k, 3) [m] and their radii (k,) [m]."""
    posed = figure.pose.bones
    found: list[tuple[FloatArray, FloatArray]] = []
    for part in body_parts(figure):
        world_from_bone = np.array(figure.matrix_world @ posed[part.bone].matrix)
        found.append((part.centres_bone @ world_from_bone[:3, :3].T + world_from_bone[:3, 3], part.radii))
    return found


def prepare(figure: Any, step: dict[str, Any]) -> None:
    """What comes first: an effector that is there or a new one, its settings, how far its target moves."""
    effectors = figure.poise.effectors
    if "bone" in step:
        posing.add_effector(figure, step["bone"], kind=step["kind"])
    entry: Any = effectors[step["name"]] if "name" in step else effectors[-1]
    for name in step.keys() & {"kind", "priority", "is_support"}:
        setattr(entry, name, step[name])
    entry.target.location += Vector(step.get("move", (0.0, 0.0, 0.0)))
    if step.get("solve"):
        posing.solve_pose(figure)


class Shown:
    """An example of `kinds.json`, solved in an empty scene.

    It has a kind, its bone and what it shows; how far its new target is moved (place) [m] and turned (turn)
    [°], settings, how far further targets are moved from its first place (others) [m], and what comes first.
    """

    def __init__(self, example: dict[str, Any]) -> None:
        figure = limited_human()
        for step in example.get("first", ()):
            prepare(figure, step)
        self.kind, self.shows = example["kind"], example["shows"]
        self.title, self.asks = TITLES[self.kind]
        self.view, self.picture = example.get("view", "half"), f"{IMAGES}/{self.kind.lower()}.png"
        index = posing.add_effector(figure, example["bone"], kind=self.kind)
        entry: Any = figure.poise.effectors[index]
        for name, value in example.get("settings", {}).items():
            setattr(entry, name, value)
        for other, place in zip(entry.others, example.get("others", ()), strict=True):
            other.target.location = entry.target.location + Vector(place)
        if entry.target is not None:
            entry.target.location += Vector(example.get("place", (0.0, 0.0, 0.0)))
            swung = Euler([radians(angle) for angle in example.get("turn", (0.0, 0.0, 0.0))]).to_matrix()
            entry.target.rotation_euler = (swung @ entry.target.rotation_euler.to_matrix()).to_euler()
        bpy.context.view_layer.update()
        self.before, self.body_before = ends(figure), body(figure)
        report = posing.solve_pose(figure)
        self.after, self.body_after = ends(figure), body(figure)
        entry = figure.poise.effectors[index]
        self.target = None if entry.target is None else np.array(entry.target.matrix_world)
        """Matrix of the target, (4, 4) [m]."""
        self.others = [np.array(other.target.location) for other in entry.others]
        """Places of further targets, (3,) each [m]."""
        self.place, self.turn = report.effectors[index].position, report.effectors[index].rotation
        """Distance [m] and angle [rad] of the effector, as far as it has them."""
        self.is_met = (self.place or 0.0) <= PLACE and (self.turn or 0.0) <= TURN
        self.iterations = report.iterations


# Drawing


def draw(shown: Shown, path: Path) -> None:
    """Draw the body before in grey and after in the colour of skin, with the target in red."""
    right, up = (np.array(axis) for axis in VIEWS[shown.view])

    def flat(points: npt.ArrayLike) -> FloatArray:
        return np.stack([np.asarray(points) @ right, np.asarray(points) @ up], axis=-1)

    canvas = Figure(figsize=(PICTURE, PICTURE))
    axes = canvas.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.axhline(0.0, color="#e3e6ea", lw=1.0, zorder=0)
    ahead = np.cross(up, right)  # away from the eye: what is far is drawn first
    for parts, colour, edge, above in (
        (shown.body_before, SHADE, BEFORE, 1.0),
        (shown.body_after, SKIN, EDGE, 2.0),
    ):
        for centres, radii in sorted(parts, key=lambda part: -float((part[0] @ ahead).mean())):
            axes.fill(
                *circles(flat(centres), radii).T, facecolor=colour, edgecolor=edge, lw=0.7, zorder=above
            )
    for place in shown.others:
        axes.plot(*flat(place), "+", color=BEFORE, ms=12, mew=2.4, zorder=9)
    if shown.target is not None:
        _draw_target(axes, shown, flat)
    if shown.kind == 'BALANCE':
        for bones, colour in ((shown.before, BEFORE), (shown.after, MARK)):
            centre = centre_of_mass(bones)
            fall = flat([centre, centre * [1.0, 1.0, 0.0]])
            axes.plot(*fall.T, color=colour, lw=1.6, ls=":", zorder=8)
            axes.plot(*fall[0], "o", color=colour, ms=7, zorder=8)
    seen = [*shown.before.reshape(-1, 3), *shown.after.reshape(-1, 3), *shown.others]
    if shown.target is not None:
        seen.append(shown.target[:3, 3])  # may be far from the figure, as when a bone points at it
    points = flat(np.array(seen))
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    half = 0.6 * np.ptp(points, axis=0).max()
    axes.set(
        xlim=(middle[0] - half, middle[0] + half), ylim=(middle[1] - half, middle[1] + half), aspect="equal"
    )
    drawing.save(canvas, path)


def _draw_target(axes: Axes, shown: Shown, flat: Callable[[npt.ArrayLike], FloatArray]) -> None:
    target = shown.target
    assert target is not None
    place = target[:3, 3]
    if shown.kind in {'PLANE', 'FLOOR'}:
        corners = [
            place + 0.3 * (x * target[:3, 0] + y * target[:3, 1])
            for x, y in ((-1, -1), (1, -1), (1, 1), (-1, 1))
        ]
        axes.fill(*flat(corners).T, facecolor=TARGET, alpha=0.18, edgecolor=TARGET, lw=1.2)
        axes.plot(*flat([place, place + 0.1 * target[:3, 2]]).T, color=TARGET, lw=1.2)
        return
    if shown.kind in {'ORIENTATION', 'BOTH'}:
        for axis in range(3):
            axes.plot(*flat([place, place + 0.12 * target[:3, axis]]).T, color=TARGET, lw=1.4)
    axes.plot(*flat(place), "+", color=TARGET, ms=12, mew=2.4, zorder=9)


def main() -> int:
    """Solve, draw and write. Returns the exit code: 1 where an effector missed."""
    options = arguments("scripts/kinds", __doc__, PAGE).parse_args()
    with add_on():
        every = measured(map(Shown, stored("kinds")), "{row.kind}: {row.iterations} iterations")
    for shown in every:
        draw(shown, options.markdown.parent / shown.picture)
    asked = [shown for shown in every if shown.kind != 'STAY']
    publish(options, "kinds", globals(), every=every, asked=asked)
    return 0 if all(shown.is_met for shown in asked) else 1

# SPDX-License-Identifier: GPL-3.0-or-later
"""Every kind of effector on Rigify's basic human, solved once and drawn before and after: scripts/kinds.

    scripts/kinds [--markdown FILE]

The feet hold their places, one effector of the kind pulls. Bones are drawn where Blender's evaluated matrices
have them; figures are those of the report, which are measured in the same matrices.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from math import degrees, radians
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import bpy
import numpy as np
import numpy.typing as npt
from bpy.types import Object
from mathutils import Euler, Vector
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks import drawing
from benchmarks.page import Columns, arguments, progress, publish, tabled
from benchmarks.rigs import FloatArray, add_on, empty_file
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.properties.effector_properties import KIND_ITEMS
from examples import scenario

PAGE: Final = Path("docs/measured/kinds.md")
IMAGES: Final = "../images/kinds"  # Folder of the pictures, which the manual shows as well, from the page

VIEWS: Final = {"front": (Vector((1.0, 0.0, 0.0)), Vector((0.0, 0.0, 1.0))),
                "side": (Vector((0.0, -1.0, 0.0)), Vector((0.0, 0.0, 1.0))),
                "half": (Vector((0.8, -0.6, 0.0)), Vector((-0.12, -0.16, 0.98)))}  # fmt: skip
"""Axes of the picture, to the right and up."""

BEFORE, AFTER, TARGET, MARK = "#b9bec6", "#2b2d33", "#d1495b", "#1f77b4"
PICTURE: Final = 3.4  # Width and height of a picture [inch], at 100 dots
ROUNDED: Final = 1e-6  # Errors below this are rounding of single precision [m, rad]


@dataclass(frozen=True)
class Example:
    """One effector that shows its kind."""

    kind: str
    bone: str
    shows: str  # What the picture shows
    place: tuple[float, float, float] = (0.0, 0.0, 0.0)  # By how much its new target is moved [m]
    turn: tuple[float, float, float] = (0.0, 0.0, 0.0)  # By how much it is turned [°]
    settings: dict[str, Any] = field(default_factory=dict)
    others: tuple[tuple[float, float, float], ...] = ()
    """By how much each further target is moved from the new one's first place [m]."""
    view: str = "half"
    prepare: str | None = None  # What is done first, one of `PREPARE`


def reach_forward(figure: Object) -> None:
    """Bend an arm by a target for the hand, so that its elbow has a direction."""
    index = posing.add_effector(figure, "hand.L", kind='POSITION')
    target: Any = settings(figure).effectors[index].target
    target.location += Vector((-0.35, -0.2, 0.12))
    posing.solve_pose(figure)


def sit_low(figure: Object) -> None:
    """Ask the hips to go down, the body to stay upright."""
    index = posing.add_effector(figure, "spine", kind='BOTH')
    target: Any = settings(figure).effectors[index].target
    target.location += Vector((0.0, 0.05, -0.25))


def free_left_foot(figure: Object) -> None:
    """Let one foot go down as far as it likes, where only its floor holds it."""
    entry: Any = settings(figure).effectors["foot.L"]
    entry.kind, entry.priority = 'POSITION', 1
    entry.target.location += Vector((0.1, -0.25, -0.12))


PREPARE: Final = {made.__name__: made for made in (reach_forward, sit_low, free_left_foot)}


def read_examples() -> list[Example]:
    """Those of `kinds.json`."""
    entries = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return [Example(**entry) for entry in entries]


Shown = SimpleNamespace
"""What came of an example: heads and tails of the bones in the world before and after, (n, 2, 3) [m],
centres of mass (2, 3) [m], matrix of the target (4, 4) or None, places of further targets, distances [m] and
angles [rad] before and after (errors), and the iterations."""


def settings(figure: Object) -> Any:
    """The add-on's settings of an object."""
    return figure.poise  # pyright: ignore[reportAttributeAccessIssue]


def bones_of(figure: Object) -> FloatArray:
    """Heads and tails where Blender has them, (n, 2, 3) [m]."""
    posed: Any = figure.evaluated_get(bpy.context.evaluated_depsgraph_get())
    ends = [(posed.matrix_world @ b.head, posed.matrix_world @ b.tail) for b in posed.pose.bones]
    return np.array(ends, dtype=np.float64)


def centre_of_mass(ends: FloatArray) -> FloatArray:
    """Of bones with masses by the cubes of their lengths, (3,)."""
    masses = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1) ** 3
    return masses @ ends.mean(axis=1) / masses.sum()


def show(example: Example) -> Shown:
    """Solve an example in an empty scene."""
    empty_file()
    scenario.enable_rigify()
    bpy.ops.object.armature_basic_human_metarig_add()
    figure: Any = bpy.context.view_layer.objects.active
    for foot in ("foot.L", "foot.R"):
        posing.add_effector(figure, foot, kind='BOTH')
    if example.kind == 'BALANCE':
        settings(figure).effectors["foot.L"].is_support = True
    if example.prepare is not None:
        PREPARE[example.prepare](figure)
    index = posing.add_effector(figure, example.bone, kind=example.kind)
    entry: Any = settings(figure).effectors[index]
    for name, value in example.settings.items():
        setattr(entry, name, value)
    for other, place in zip(entry.others, example.others, strict=True):
        other.target.location = entry.target.location + Vector(place)
    if entry.target is not None:
        entry.target.location += Vector(example.place)
        swung = Euler([radians(angle) for angle in example.turn]).to_matrix()
        entry.target.rotation_euler = (swung @ entry.target.rotation_euler.to_matrix()).to_euler()
    bpy.context.view_layer.update()
    ends = [bones_of(figure)]
    weights = [e.weight for e in settings(figure).effectors]
    for other in settings(figure).effectors:
        other.weight = 0.0  # only measured
    errors = [posing.solve_pose(figure).effectors[index]]
    for other, weight in zip(settings(figure).effectors, weights, strict=True):
        other.weight = weight
    report = posing.solve_pose(figure)
    errors.append(report.effectors[index])
    ends.append(bones_of(figure))
    entry = settings(figure).effectors[index]
    before, after = ((error.position, error.rotation) for error in errors)
    return Shown(
        example=example,
        before=ends[0],
        after=ends[1],
        centres=np.stack([centre_of_mass(own) for own in ends]),
        target=None if entry.target is None else np.array(entry.target.matrix_world),
        others=tuple(np.array(other.target.location) for other in entry.others),
        errors=(before, after),
        iterations=report.iterations,
    )


# Drawing


def draw(shown: Shown, path: Path) -> None:
    """Draw the figure before in grey and after in black, with the target in red."""
    example = shown.example
    right, up = (np.array(axis) for axis in VIEWS[example.view])

    def flat(points: npt.ArrayLike) -> FloatArray:
        return np.stack([np.asarray(points) @ right, np.asarray(points) @ up], axis=-1)

    canvas = Figure(figsize=(PICTURE, PICTURE))
    axes = canvas.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.axhline(0.0, color="#e3e6ea", lw=1.0, zorder=0)
    for ends, colour, width in ((shown.before, BEFORE, 2.6), (shown.after, AFTER, 2.0)):
        for bone in flat(ends):
            axes.plot(*bone.T, color=colour, lw=width, solid_capstyle="round")
    for place in shown.others:
        axes.plot(*flat(place), "+", color=BEFORE, ms=12, mew=2.4, zorder=9)
    if shown.target is not None:
        _draw_target(axes, shown, flat)
    if example.kind == 'BALANCE':
        for centre, colour in zip(shown.centres, (BEFORE, MARK), strict=True):
            fall = flat([centre, centre * [1.0, 1.0, 0.0]])
            axes.plot(*fall.T, color=colour, lw=1.2, ls=":")
            axes.plot(*fall[0], "o", color=colour, ms=7)
    seen = [*shown.before.reshape(-1, 3), *shown.after.reshape(-1, 3), *shown.others]
    if shown.target is not None:
        seen.append(shown.target[:3, 3])  # may be far from the figure, as when a bone points at it
    points = flat(np.array(seen))
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    half = 0.56 * np.ptp(points, axis=0).max()
    axes.set(
        xlim=(middle[0] - half, middle[0] + half), ylim=(middle[1] - half, middle[1] + half), aspect="equal"
    )
    drawing.save(canvas, path)


def _draw_target(axes: Axes, shown: Shown, flat: Callable[[npt.ArrayLike], FloatArray]) -> None:
    target = shown.target
    assert target is not None
    place = target[:3, 3]
    if shown.example.kind in {'PLANE', 'FLOOR'}:
        corners = [
            place + 0.3 * (x * target[:3, 0] + y * target[:3, 1])
            for x, y in ((-1, -1), (1, -1), (1, 1), (-1, 1))
        ]
        axes.fill(*flat(corners).T, facecolor=TARGET, alpha=0.18, edgecolor=TARGET, lw=1.2)
        axes.plot(*flat([place, place + 0.1 * target[:3, 2]]).T, color=TARGET, lw=1.2)
        return
    if shown.example.kind in {'ORIENTATION', 'BOTH'}:
        for axis in range(3):
            axes.plot(*flat([place, place + 0.12 * target[:3, axis]]).T, color=TARGET, lw=1.4)
    axes.plot(*flat(place), "+", color=TARGET, ms=12, mew=2.4, zorder=9)


# Page

TITLES: Final = {item[0]: (item[1], item[2]) for item in KIND_ITEMS}


def amount(errors: tuple[float | None, float | None]) -> str:
    """Distance in mm and angle in degrees, as far as there are any."""
    parts: list[str] = []
    for value, factor, unit in zip(errors, (1e3, degrees(1.0)), (" mm", "°"), strict=True):
        if value is not None:
            parts.append(f"< 0.001{unit}" if value < ROUNDED else f"{value * factor:.3g}{unit}")
    return ", ".join(parts) or "–"


COLUMNS: Final[Columns[Shown]] = (
    ("kind", lambda shown: TITLES[shown.example.kind][0]),
    ("what it asks for", lambda shown: TITLES[shown.example.kind][1]),
    ("error before", lambda shown: amount(shown.errors[0])),
    ("error after", lambda shown: amount(shown.errors[1])),
    ("iterations", lambda shown: str(shown.iterations)),
)


def section(example: Example) -> str:
    """A kind with its picture."""
    title, asks = TITLES[example.kind]
    picture = f"![{title}: before and after]({IMAGES}/{example.kind.lower()}.png)"
    return f"## {title}\n\n{asks}. {example.shows}\n\n{picture}\n"


def is_met(shown: Shown) -> bool:
    """Whether an effector is where it should be."""
    distance, angle = shown.errors[1]
    return (distance or 0.0) <= 5e-4 and (angle or 0.0) <= radians(0.05)


def main() -> int:
    """Solve, draw and write. Returns the exit code: 1 where an effector missed."""
    options = arguments("scripts/kinds", __doc__, page=PAGE).parse_args()
    page: Path = options.markdown
    every: list[Shown] = []
    with add_on():
        for example in read_examples():
            every.append(show(example))
            progress(example.kind, amount(every[-1].errors[0]), "->", amount(every[-1].errors[1]))
    for shown in every:
        draw(shown, page.parent / IMAGES / f"{shown.example.kind.lower()}.png")
    asked = [shown for shown in every if shown.example.kind != 'STAY']
    publish(
        page,
        "kinds",
        "scripts/kinds",
        [
            f"{sum(map(is_met, asked))} of {len(asked)} kinds are met within 0.5 mm and 0.05° by one solve; "
            "*Stay Near* is a wish and never a miss.",
            f"A solve takes {np.median([shown.iterations for shown in every]):g} iterations in the median, "
            f"{max(shown.iterations for shown in every)} at most.",
        ],
        table=tabled(COLUMNS, every),
        sections="\n".join(section(shown.example) for shown in every).rstrip(),
    )
    return 0 if all(map(is_met, asked)) else 1


if __name__ == "__main__":
    sys.exit(main())

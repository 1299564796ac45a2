# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's pictures: a strip of the figure at some frames, and the errors over all frames.

The body is made of convex hulls of balls. In a parallel projection a ball is a circle, and the hull of balls
is the hull of their circles: so the figure is drawn in two dimensions, back to front, without a renderer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

FloatArray = npt.NDArray[np.float64]
Colour = tuple[float, float, float]
Box = tuple[Sequence[float], Sequence[float]]
"""Lowest and highest corner [m]."""

COLOURS = {
    "foot.L": "#1f77b4",
    "foot.R": "#17a2b8",
    "hips": "#7a5195",
    "hand.L": "#2e9e5b",
    "hand.R": "#d1495b",
    "head": "#e08e0b",
}
"""Of each effector, in both pictures."""
BODY = {"L": (0.66, 0.70, 0.76), "R": (0.93, 0.86, 0.76), "": (0.86, 0.83, 0.79)}
"""The figure's left side is cool, its right side warm, so that limbs can be told apart."""
LEAST = 1e-4
"""Errors [mm], [°] below this are drawn as this: nobody tells them apart, and nothing has no logarithm."""
INK, PAPER, FLOOR = "#2b2d33", "#ffffff", "#eef0f2"
WOOD: Colour = (0.72, 0.55, 0.38)
CUP: Colour = (0.80, 0.25, 0.20)


@dataclass(frozen=True)
class Part:
    """One part of the body: the hull of some balls that are fixed to a bone."""

    world_from_bone: FloatArray
    """(F, 4, 4)."""
    centres_bone: FloatArray
    """(k, 3) [m]."""
    radii: FloatArray
    """(k,) [m]."""
    side: str
    """'L', 'R' or ''."""
    group: str = ""
    """Parts of a group are drawn as one body, with one outline; those without stand alone."""


@dataclass(frozen=True)
class View:
    """A parallel projection."""

    right: FloatArray
    up: FloatArray
    towards: FloatArray
    """Unit vectors: axes of the picture, and towards the eye, (3,)."""
    light: FloatArray
    """Towards the light, (3,)."""

    @classmethod
    def along(cls, towards: Sequence[float], light: Sequence[float]) -> View:
        """Look from a direction, with z up."""
        eye = np.array(towards) / np.linalg.norm(towards)
        right = np.cross((0.0, 0.0, 1.0), eye)
        right /= np.linalg.norm(right)
        return cls(right, np.cross(eye, right), eye, np.array(light) / np.linalg.norm(light))

    def flat(self, points: FloatArray) -> FloatArray:
        """Places in the picture, (..., 3) -> (..., 2)."""
        return np.stack([points @ self.right, points @ self.up], axis=-1)

    def shadow(self, points: FloatArray, height: float = 0.0) -> FloatArray:
        """Where the light throws points on the plane at a height, (..., 3) -> (..., 3)."""
        return points - self.light * ((points[..., 2:] - height) / self.light[2])


def hull(points: FloatArray) -> FloatArray:
    """Convex hull of points in the plane, (k, 2) -> (m, 2), counterclockwise [Andrew's monotone chain]."""
    ordered = sorted(map(tuple, points.tolist()))

    def half(sequence: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
        chain: list[tuple[float, ...]] = []
        for x, y in sequence:
            while len(chain) > 1:
                (ax, ay), (bx, by) = chain[-2], chain[-1]
                if (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 0.0:
                    break
                chain.pop()
            chain.append((x, y))
        return chain[:-1]

    return np.array(half(ordered) + half(ordered[::-1]))


def circles(centres: FloatArray, radii: FloatArray, sides: int = 28) -> FloatArray:
    """Outline of the hull of circles, (k, 2) and (k,) -> (m, 2)."""
    turns = np.linspace(0.0, 2.0 * np.pi, sides, endpoint=False)
    ring = np.stack([np.cos(turns), np.sin(turns)], axis=-1)
    return hull((centres[:, None] + radii[:, None, None] * ring).reshape(-1, 2))


class Canvas:
    """Polygons for one panel, drawn in one go."""

    def __init__(self) -> None:
        self._outlines: list[FloatArray] = []
        self._faces: list[Colour | str] = []
        self._edges: list[Colour | str] = []
        self._widths: list[float] = []

    def add(
        self, outline: FloatArray, face: Colour | str, edge: Colour | str = "none", width: float = 0.0
    ) -> None:
        """Add one polygon on top of those so far."""
        self._outlines.append(outline)
        self._faces.append(face)
        self._edges.append(edge)
        self._widths.append(width)

    def show(self, axes: Axes) -> None:
        """Hand all to matplotlib."""
        axes.add_collection(
            PolyCollection(
                self._outlines,
                facecolors=self._faces,
                edgecolors=self._edges,
                linewidths=self._widths,
                joinstyle="round",
            )
        )


def shaded(colour: Colour, amount: float) -> Colour:
    """Lighter for amounts above 0, darker below, in [-1, 1]."""
    base = np.array(colour)
    end = np.ones(3) if amount > 0.0 else np.array([0.16, 0.17, 0.22])
    red, green, blue = base + (end - base) * abs(amount)
    return float(red), float(green), float(blue)


@dataclass(frozen=True)
class _Item:
    """Something to draw, and when: levels first, then what is farther away."""

    level: int
    """0 is below the top of the table, 1 the top itself, 2 above it: what is above is seen from above."""
    nearness: float
    draw: Callable[[Canvas], None]


def _body_items(parts: Sequence[Part], row: int, view: View, height: float) -> list[_Item]:
    """The parts of the body; the trunk is one item, so that it has one outline."""
    groups: dict[str, list[tuple[Part, FloatArray]]] = {}
    for number, part in enumerate(parts):
        matrix = part.world_from_bone[row]
        centres = part.centres_bone @ matrix[:3, :3].T + matrix[:3, 3]
        groups.setdefault(part.group or str(number), []).append((part, centres))
    items: list[_Item] = []
    for group in groups.values():
        every = np.concatenate([centres for _, centres in group])
        level = 2 if every[:, 2].min() > height else 0

        def draw(canvas: Canvas, group: list[tuple[Part, FloatArray]] = group) -> None:
            _draw_hulls(canvas, group, view)

        items.append(_Item(level, float((every @ view.towards).mean()), draw))
    return items


def _draw_hulls(canvas: Canvas, group: Sequence[tuple[Part, FloatArray]], view: View) -> None:
    """Outlines first, then each part in tones that get lighter towards the light."""
    lit = view.flat(view.light)
    placed = sorted(group, key=lambda entry: float((entry[1] @ view.towards).mean()))
    for part, centres in placed:
        colour = shaded(BODY[part.side], -0.72)
        canvas.add(circles(view.flat(centres), part.radii), colour, colour, 1.6)
    for shrink, tone in ((1.0, -0.28), (0.86, -0.14), (0.7, 0.0), (0.5, 0.16), (0.27, 0.34)):
        for part, centres in placed:
            shifted = view.flat(centres) + (part.radii * (1.0 - shrink) * 0.62)[:, None] * lit
            canvas.add(circles(shifted, part.radii * shrink), shaded(BODY[part.side], tone))


def _box_items(boxes: Sequence[Box], view: View) -> list[_Item]:
    items: list[_Item] = []
    top = max(high[2] for _, high in boxes)
    for low, high in boxes:

        def draw(canvas: Canvas, box: Box = (low, high)) -> None:
            _draw_box(canvas, box, view)

        nearness = float((np.array(low) + np.array(high)) @ view.towards) / 2.0
        items.append(_Item(1 if high[2] == top else 0, nearness, draw))
    return items


def _corners(box: Box) -> FloatArray:
    """The eight corners of a box, (8, 3)."""
    return np.stack(np.meshgrid(*np.array(box, dtype=float).T), axis=-1).reshape(-1, 3)


def _draw_box(canvas: Canvas, box: Box, view: View) -> None:
    """The three sides that face the eye."""
    low, high = box
    for axis in range(3):
        face = np.empty((4, 3))
        face[:, axis] = (high if view.towards[axis] > 0.0 else low)[axis]
        first, second = (other for other in range(3) if other != axis)
        face[:, first] = (low[first], high[first], high[first], low[first])
        face[:, second] = (low[second], low[second], high[second], high[second])
        light = float(np.sign(view.towards[axis]) * view.light[axis])
        canvas.add(view.flat(face), shaded(WOOD, 0.35 * light - 0.12), shaded(WOOD, -0.5), 0.6)


def _draw_shadow(canvas: Canvas, parts: Sequence[Part], row: int, boxes: Sequence[Box], view: View) -> None:
    tone = "#d9dde2"
    turns = np.linspace(0.0, 2.0 * np.pi, 20, endpoint=False)
    for part in parts:
        matrix = part.world_from_bone[row]
        centres = part.centres_bone @ matrix[:3, :3].T + matrix[:3, 3]
        # Discs that face the light throw the shadow of the balls.
        a = np.cross(view.light, (0.0, 0.0, 1.0))
        a /= np.linalg.norm(a)
        ring = np.cos(turns)[:, None] * a + np.sin(turns)[:, None] * np.cross(view.light, a)
        points = (centres[:, None] + part.radii[:, None, None] * ring).reshape(-1, 3)
        canvas.add(hull(view.flat(view.shadow(points))), tone, tone, 0.3)
    for low, high in boxes:
        canvas.add(hull(view.flat(view.shadow(_corners((low, high))))), tone, tone, 0.3)


def _cup_item(matrix: FloatArray, radius: float, height: float, view: View) -> _Item:
    def draw(canvas: Canvas) -> None:
        turns = np.linspace(0.0, 2.0 * np.pi, 40, endpoint=False)
        ring = np.stack([radius * np.cos(turns), radius * np.sin(turns), np.zeros_like(turns)], axis=-1)
        ends = [ring + np.array([0.0, 0.0, z]) for z in (-height / 2, height / 2)]
        bottom, top = (view.flat(end @ matrix[:3, :3].T + matrix[:3, 3]) for end in ends)
        canvas.add(hull(np.concatenate([bottom, top])), CUP, shaded(CUP, -0.6), 0.7)
        canvas.add(top, shaded(CUP, -0.35), shaded(CUP, -0.6), 0.7)

    return _Item(2, float(matrix[:3, 3] @ view.towards), draw)


def draw_strip(
    path: Path,
    *,
    parts: Sequence[Part],
    frames: Sequence[int],
    shown: Sequence[int],
    targets: Mapping[str, FloatArray],
    boxes: Sequence[Box],
    cup: tuple[FloatArray, float, float],
    view: View,
    title: str,
) -> None:
    """Draw the figure at some frames, with its targets, table and cup.

    Args:
        path: The PNG to write.
        parts: The body, with its matrices over the frames.
        frames: Frames of all arrays, (F,).
        shown: Which of them to draw.
        targets: Matrices of the targets in the world by effector, (F, 4, 4) each.
        boxes: Lowest and highest corner of each box of the table.
        cup: Matrices over the frames (F, 4, 4), radius and height [m].
        view: From where.
        title: Above all panels.
    """
    columns = 4
    rows = -(-len(shown) // columns)
    table_top = max(high[2] for _, high in boxes)
    figure_at_start = np.array([[-0.35, 0.35, 0.0], [0.3, 0.35, 0.0], [0.0, 0.0, 2.0]])
    flat = view.flat(np.concatenate([*(_corners(box) for box in boxes), figure_at_start]))
    left, bottom = flat.min(axis=0) - np.array([0.08, 0.12])
    right, top = flat.max(axis=0) + np.array([0.08, 0.06])
    width = 15.0  # [inch], as matplotlib wants it
    panels = width / columns * rows * (top - bottom) / (right - left)
    height = panels + 0.75
    figure = Figure(figsize=(width, height), facecolor=PAPER)
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False)
    figure.subplots_adjust(0.006, 0.4 / height, 0.994, 1.0 - 0.36 / height, wspace=0.02, hspace=0.02)
    for axes, frame in zip(grid.flat, shown, strict=False):
        row = list(frames).index(frame)
        axes.set(
            xlim=(left, right), ylim=(bottom, top), aspect="equal", xticks=[], yticks=[], facecolor=FLOOR
        )
        for spine in axes.spines.values():
            spine.set_color("#cfd4da")
        canvas = Canvas()
        _draw_shadow(canvas, parts, row, boxes, view)
        items = [*_body_items(parts, row, view, table_top), *_box_items(boxes, view)]
        items.append(_cup_item(cup[0][row], cup[1], cup[2], view))
        for item in sorted(items, key=lambda item: (item.level, item.nearness)):
            item.draw(canvas)
        canvas.show(axes)
        for name, matrices in targets.items():
            x, y = view.flat(matrices[row, :3, 3])
            axes.plot(x, y, "+", ms=11, mew=3.6, color="white", zorder=8)
            axes.plot(x, y, "+", ms=10, mew=1.8, color=COLOURS[name], zorder=9, label=name)
        axes.text(
            0.975,
            0.97,
            f"frame {frame}",
            transform=axes.transAxes,
            ha="right",
            va="top",
            color=INK,
            fontsize=12,
        )
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(
        handles,
        [f"target {label}" for label in labels],
        loc="lower center",
        ncols=len(labels),
        frameon=False,
        fontsize=11,
    )
    figure.suptitle(title, x=0.008, y=0.995, ha="left", va="top", color=INK, fontsize=13)
    figure.savefig(path, dpi=100)


def _amount(value: float, _position: int) -> str:
    """A figure of an axis as people write it."""
    return f"under {LEAST:g}" if value <= LEAST else f"{value:g}"


def draw_errors(
    path: Path,
    *,
    frames: Sequence[int],
    names: Sequence[str],
    errors: Mapping[str, tuple[FloatArray, FloatArray]],
    limits: tuple[float, float],
    title: str,
) -> None:
    """Plot how far every effector is from its target.

    Args:
        path: The PNG to write.
        frames: (F,).
        names: Effectors, (E,).
        errors: By method: distances [mm] and angles [°], (F, E) each; nan where there is none.
        limits: Largest ones that are allowed [mm], [°].
        title: Above all panels.
    """
    figure = Figure(figsize=(12, 6.4), facecolor=PAPER)
    FigureCanvasAgg(figure)
    grid = figure.subplots(2, len(errors), sharex=True, sharey="row", squeeze=False)
    for column, (method, both) in enumerate(errors.items()):
        for row, (values, limit, unit) in enumerate(zip(both, limits, ("mm", "°"), strict=True)):
            axes = grid[row, column]
            for name, line in zip(names, values.T, strict=True):
                if not np.isnan(line).all():
                    axes.plot(frames, np.maximum(line, LEAST), color=COLOURS[name], lw=1.3, label=name)
            axes.axhline(limit, color=INK, lw=1.0, ls="--")
            axes.annotate(
                f"limit {limit:g} {unit}",
                (frames[-1], limit),
                (0, 3),
                textcoords="offset points",
                ha="right",
                fontsize=9,
                color=INK,
            )
            axes.set_yscale("log")
            axes.set_ylim(0.7 * LEAST, 2.0 * max(limit, *(np.nanmax(both[row]) for both in errors.values())))
            axes.yaxis.set_major_formatter(_amount)
            axes.grid(True, which="major", color="#e3e6ea", lw=0.7)
            axes.set_axisbelow(True)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
            if row == 0:
                axes.set_title(method, color=INK, fontsize=12)
            else:
                axes.set_xlabel("frame")
            if column == 0:
                axes.set_ylabel(("distance from target [mm]", "angle to target [°]")[row])
    handles = {
        label: handle
        for axes in grid.flat
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        [handles[name] for name in names], list(names), loc="lower center", ncols=len(names), frameon=False
    )
    figure.suptitle(title, color=INK, fontsize=13)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(path, dpi=100)

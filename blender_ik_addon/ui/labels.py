# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels: words beside places of the view, none on another.

Blender's fonts cost far more than all else that the overlay draws. So the words of all labels are drawn once,
into one texture, and again only where words, colours or sizes have changed. A view that is turned moves parts
of that texture.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import blf
import gpu
import numpy as np
from mathutils import Matrix

from ..core.arrays import BoolArray, FloatArray
from ..scene.live.overlay_geometry import Text
from ..scene.translations import translated
from .batches import Batch
from .preferences import Colour

Box = tuple[float, float, float, float]
"""Left, bottom, width, height [pixels]."""
IMPORTANCE: Final = ('PRIORITY', 'MISS', 'LIMIT')
"""Roles of texts; the first find room first."""
SMALL: Final = 0.85
"""Size of notes and limits against that of other texts [1]."""
PALENESS: Final = 0.35
"""How far the colours of texts go towards white [1]: the plain red of a line is too dark for thin letters."""
RIM: Final = 8
"""Of the texture about a label, for shadows and letters that go below the line [pixels]."""
WIDEST: Final = 2048
"""Width of the texture [pixels], unless one label is wider."""
CORNERS_OF_BOX: Final = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
"""Of a box of width and height 1, as two triangles, (6, 2)."""


@dataclass(frozen=True)
class _Line:
    """Some words of one size."""

    words: str
    size: float
    """[points]"""
    colour: Colour


@dataclass(frozen=True)
class Labels:
    """Labels that have been drawn into a texture."""

    lines: tuple[tuple[_Line, ...], ...]
    """Lines of each, from above; the important labels first, (k,)."""
    order: tuple[int, ...]
    """Which of the texts each stands for, (k,)."""
    plain: BoolArray
    """Which have something dark behind them, (k,)."""
    sizes: FloatArray
    """Widths and heights, (k, 2) [pixels]."""
    offsets: FloatArray
    """From the place that it belongs to to the lower left corner where it would best be, (k, 2) [pixels]."""
    line_height: float
    """[pixels]"""
    texture: Any
    """Their shadows in the lower half, their letters in the upper one."""
    cells: FloatArray
    """Lower left corners and sizes in either half, with the rims, (k, 4) [pixels]."""

    @classmethod
    def drawn(cls, texts: Sequence[Text], look_now: Any, scale: float, before: "Labels | None") -> "Labels":
        """Draw texts into a texture; that of before is taken where the words are the same.

        Args:
            texts: At least one.
            look_now: The preferences.
            scale: The resolution scale [1].
            before: Labels that were drawn last.
        """
        order = sorted(range(len(texts)), key=lambda row: IMPORTANCE.index(texts[row].role))
        chosen = [texts[row] for row in order]
        lines = tuple(_lines_of(text, look_now, scale) for text in chosen)
        line_height = 1.25 * look_now.text_size * scale
        if before is not None and (before.lines, before.line_height) == (lines, line_height):
            sizes, texture, cells = before.sizes, before.texture, before.cells
        else:
            widths = [max(_width(line) for line in own) + 4.0 for own in lines]
            sizes = np.array([(w, line_height * len(own)) for w, own in zip(widths, lines, strict=True)])
            cells = _cells(sizes)
            texture = _texture(lines, cells, line_height)
        is_priority = np.array([text.role == 'PRIORITY' for text in chosen])
        up = np.where(is_priority, 4.0, -0.5 * look_now.text_size) * scale
        across = np.full(len(chosen), (0.5 * look_now.point_size + 6.0) * scale)
        # The first line is where a label of one line is.
        offsets = np.stack([across, up - (sizes[:, 1] - line_height)], axis=1)
        return cls(lines, tuple(order), ~is_priority, sizes, offsets, line_height, texture, cells)

    def on_texture(self, rows: BoolArray, corners: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Corners of triangles in the view and in the texture of labels that are at corners, (12 m, 2) each.

        Those of all shadows come first.


        Args:
            rows: Which of the labels are shown, (k,), m of them.
            corners: Their lower left corners, (m, 2) [pixels].
        """
        cells = self.cells[rows]
        places = (np.round(corners) - RIM)[:, None] + CORNERS_OF_BOX * cells[:, None, 2:]
        parts = cells[:, None, :2] + CORNERS_OF_BOX * cells[:, None, 2:]
        parts = parts.reshape(-1, 2) / (self.texture.width, self.texture.height)
        upper = parts + np.array([0.0, 0.5])
        return np.tile(places.reshape(-1, 2), (2, 1)), np.concatenate([parts, upper])


def boxes(corners: FloatArray, sizes: FloatArray, below: float) -> FloatArray:
    """Corners of triangles of what is behind labels at lower left corners (m, 2), (6 m, 2) [pixels]."""
    return ((corners - (3.0, below))[:, None] + CORNERS_OF_BOX * sizes[:, None]).reshape(-1, 2)


def _lines_of(text: Text, look_now: Any, scale: float) -> tuple[_Line, ...]:
    """The lines of a text from above."""
    colour = {'MISS': look_now.missed, 'LIMIT': look_now.limit}.get(text.role, look_now.text)
    red, green, blue = (part + PALENESS * (1.0 - part) for part in colour[:3])
    pale = (red, green, blue, float(colour[3]))
    size, small = look_now.text_size * scale, SMALL * look_now.text_size * scale
    first = _Line(translated(text.text), small if text.role == 'LIMIT' else float(size), pale)
    return (first, _Line(translated(text.note), small, pale)) if text.note else (first,)


def _width(line: _Line) -> float:
    blf.size(0, line.size)
    return blf.dimensions(0, line.words)[0]


def _cells(sizes: FloatArray) -> FloatArray:
    """Lower left corners and sizes of the parts of a texture in which labels find room, (k, 4) [pixels]."""
    cells = np.zeros((len(sizes), 4))
    cells[:, 2:] = np.ceil(sizes) + 2.0 * RIM
    widest = max(WIDEST, float(cells[:, 2].max()))
    left = bottom = high = 0.0
    for row, (width, height) in enumerate(cells[:, 2:].tolist()):
        if left + width > widest:
            left, bottom, high = 0.0, bottom + high, 0.0
        cells[row, :2] = left, bottom
        left, high = left + width, max(high, height)
    return cells


def _texture(lines: Sequence[Sequence[_Line]], cells: FloatArray, line_height: float) -> Any:
    """Draw the shadows and the letters of labels, each in their parts of a texture.

    Colours are there at full strength and opacity says how much of them is seen, so that they are blended
    with what is in the view as if they were drawn there.
    """
    width, height = (int(end) for end in (cells[:, :2] + cells[:, 2:]).max(axis=0))
    matrices: Any = gpu.matrix
    offscreen: Any = gpu.types.GPUOffScreen(width, 2 * height, format='RGBA16F')
    view = Matrix.Diagonal((2.0 / width, 1.0 / height, -1.0, 1.0))
    view.translation = (-1.0, -1.0, 0.0)
    with offscreen.bind(), matrices.push_pop(), matrices.push_pop_projection():
        frame: Any = gpu.state.active_framebuffer_get()
        frame.clear(color=(0.0, 0.0, 0.0, 0.0))
        matrices.load_matrix(Matrix.Identity(4))
        matrices.load_projection_matrix(view)
        blf.enable(0, blf.SHADOW)
        blf.shadow(0, 5, 0.0, 0.0, 0.0, 0.9)
        _draw_lines(lines, cells, line_height, letters=0.0)
        blf.disable(0, blf.SHADOW)
        upper = cells + np.array([0.0, height, 0.0, 0.0])
        _fill(upper, np.array([own[0].colour[:3] for own in lines]))
        _draw_lines(lines, upper, line_height, letters=1.0)
    return offscreen.texture_color


def _draw_lines(
    lines: Sequence[Sequence[_Line]], cells: FloatArray, line_height: float, *, letters: float
) -> None:
    """Draw lines into their cells, their letters with some part of their opacity [1]."""
    gpu.state.blend_set('ALPHA')
    for own, (left, bottom) in zip(lines, (cells[:, :2] + RIM).tolist(), strict=True):
        for row, line in enumerate(reversed(own)):
            red, green, blue, opacity = line.colour
            blf.color(0, red, green, blue, letters * opacity)
            blf.size(0, line.size)
            blf.position(0, left, bottom + row * line_height, 0.0)
            blf.draw(0, line.words)
    gpu.state.blend_set('NONE')


def _fill(cells: FloatArray, colours: FloatArray) -> None:
    """Fill cells with colours (k, 3) of opacity 0."""
    places = (cells[:, None, :2] + CORNERS_OF_BOX * cells[:, None, 2:]).reshape(-1, 2)
    shades = np.pad(np.repeat(colours, len(CORNERS_OF_BOX), axis=0), ((0, 0), (0, 1)))
    content = {"pos": np.pad(places, ((0, 0), (0, 1))), "color": shades}
    Batch.filled('FLAT_COLOR', 'TRIS', content).draw((0, 0), blend='NONE')


def arrange(
    corners: FloatArray,
    sizes: FloatArray,
    borders: tuple[float, float],
    covered: Sequence[Box] = (),
    heights: tuple[float, float] = (-np.inf, np.inf),
) -> FloatArray:
    """Lower left corners of labels so that none overlaps another, (k, 2) [pixels].

    They are placed one after the other, the important ones first. Each is kept between the left and the right
    border and to the left of what is covered, and goes to the free height that is nearest to its own, inside
    the view as long as there is room.

    Args:
        corners: Where the lower left corners would best be, (k, 2) [pixels].
        sizes: Widths and heights, (k, 2) [pixels].
        borders: Where labels may begin and must end, from left to right [pixels].
        covered: Boxes in which nothing could be read, at the right.
        heights: Lower and upper end of the view [pixels].
    """
    left, right = borders
    taken = list(covered)
    placed: list[tuple[float, float]] = []
    # One depends on those before it; for two numbers each, plain ones are faster than arrays.
    for (x, y), (width, height) in zip(corners.tolist(), sizes.tolist(), strict=True):
        ends = [box[0] for box in covered if y < box[1] + box[3] and box[1] < y + height]
        # One that is wider than the space there is begins at its left.
        x = max(min(x, min([right, *ends]) - width), left)
        spans = [(low, low + h) for start, low, w, h in taken if x < start + w and start < x + width]
        y = _free_height(y, height, spans, heights)
        placed.append((x, y))
        taken.append((x, y, width, height))
    return np.array(placed).reshape(-1, 2)


def _free_height(
    wanted: float, height: float, spans: Sequence[tuple[float, float]], view: tuple[float, float]
) -> float:
    """The height nearest to a wanted one at which a label lies in none of some spans, inside the view."""
    # Free heights begin and end where another label ends or begins.
    ends = [end for end in (view[0], view[1] - height) if np.isfinite(end)]
    at = [wanted, *(low - height for low, _ in spans), *(high for _, high in spans), *ends]
    free = [y for y in at if not any(y < high and low < y + height for low, high in spans)]
    seen = [y for y in free if view[0] <= y and y + height <= view[1]]
    return min(seen or free, key=lambda y: abs(y - wanted))  # below all others it is free, at least


def is_seen(places: FloatArray, size: Sequence[float], right: float) -> BoolArray:
    """Which places (k, 2) are inside a view and to the left of the sidebar, all in pixels; nan is not."""
    # Beside the sidebar a text would belong to nothing that is seen. Comparisons with nan are false.
    inside: BoolArray = (places >= 0.0) & (places <= (min(size[0], right), size[1]))
    return inside[:, 0] & inside[:, 1]

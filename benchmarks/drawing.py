# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures of pages: panels in the same style, written as small PNGs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

INK = "#2b2d33"
COLOURS: Final = ("#2c6fbb", "#d9822b", "#2e8b57", "#b5373c", "#7b5ea7", "#5f6b76")
"""Of lines in one picture, in this order."""

PALETTE: Final = 160
"""Colours of a picture: lines need few, and a picture with a palette has a third of the size."""


def panels(size: tuple[float, float], rows: int, columns: int) -> tuple[Figure, list[Axes]]:
    """An empty figure of a size [inch] and its panels, row by row."""
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    return figure, list(np.ravel(figure.subplots(rows, columns, squeeze=False)))


def save(figure: Figure, path: Path, dpi: int = 100) -> None:
    """Write a PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = io.BytesIO()
    figure.savefig(whole, dpi=dpi)
    few = Image.open(whole).convert("RGB").quantize(PALETTE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)

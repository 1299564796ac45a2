# SPDX-License-Identifier: GPL-3.0-or-later
"""What an experiment of a paper has shown: numbers, and whether they agree with what is claimed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from matplotlib.axes import Axes

HAIR = 1e-9  # How far apart the starts of several runs are [rad], to see which figures hang on rounding


class Picture(NamedTuple):
    """A plot of an experiment."""

    name: str  # Of the file, without its ending
    size: tuple[float, float]  # Width and height [inch]
    columns: int
    draw: Callable[[Sequence[Axes]], None]  # Draws into the panels; grids and legends are not its business
    rows: int = 1


@dataclass(frozen=True)
class Finding:
    """One figure or table of a paper; its claim, checks, reading and table are in `pages/papers`."""

    title: str  # As there
    holds: Sequence[bool]
    """Whether each check holds, in the order in which they stand there."""
    facts: Mapping[str, object] = field(default_factory=dict[str, object])
    """What the text names besides the constants of the module: what was computed for it."""
    picture: Picture | None = None
    claims: Sequence[int] = ()
    """Numbers of checks that may fail without a fault of ours: the paper may well be wrong."""

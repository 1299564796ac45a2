# SPDX-License-Identifier: GPL-3.0-or-later
"""What an experiment of a paper has shown: its claim, what was measured, and whether the two agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from blender_ik_addon.core.arrays import FloatArray

HAIR = 1e-9  # How far apart the starts of several runs are [rad], to see which figures hang on rounding


class Check(NamedTuple):
    """One thing that was measured, in words with its numbers, against what the paper says of it."""

    text: str
    holds: bool
    required: bool = True
    """Whether it is a fault of ours where it does not hold; False where the paper may well be wrong."""


class Picture(NamedTuple):
    """A plot of an experiment."""

    name: str  # Of the file, without its ending
    size: tuple[float, float]  # Width and height [inch]
    columns: int
    draw: Callable[[Sequence[Axes]], None]  # Draws into the panels; grids and legends are not its business
    rows: int = 1


@dataclass(frozen=True)
class Finding:
    """One figure or table of a paper; its claim and how it was read are in `pages/papers`."""

    title: str  # As there
    checks: Sequence[Check]
    table: Sequence[Sequence[str]] = ()  # Rows of cells, the headings first
    picture: Picture | None = None
    facts: Mapping[str, object] = field(default_factory=dict[str, object])
    """What its text names besides the constants of the module."""

    @property
    def faults(self) -> list[str]:
        """What ought to hold here and does not."""
        return [check.text for check in self.checks if check.required and not check.holds]

    @property
    def verdict(self) -> str:
        """One line: whether the claim holds here, and the numbers that say so."""
        agree = "; ".join(check.text for check in self.checks if check.holds)
        disagree = "; ".join(check.text for check in self.checks if not check.holds)
        if not disagree:
            return f"holds: {agree}."
        return f"holds in part: {agree}. **Not**: {disagree}." if agree else f"does **not** hold: {disagree}."


def span(values: Sequence[float] | FloatArray, form: str) -> str:
    """The least and the largest of some runs, one number where they are written alike."""
    ends = [format(float(end), form) for end in (np.min(values), np.max(values))]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)

# SPDX-License-Identifier: GPL-3.0-or-later
"""What an experiment of a paper has shown: its claim, what was measured, and whether the two agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes


@dataclass(frozen=True)
class Check:
    """One thing that was measured, against what the paper says of it."""

    text: str
    """In words, with its numbers."""
    holds: bool
    required: bool = True
    """Whether it is a fault of ours where it does not hold; False where the paper may well be wrong."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "holds", bool(self.holds))  # numpy's truth values are no JSON


@dataclass(frozen=True)
class Picture:
    """A plot of an experiment."""

    name: str
    """Of the file, without its ending."""
    caption: str
    size: tuple[float, float]
    """Width and height [inch]."""
    panels: tuple[int, int]
    """Rows and columns."""
    draw: Callable[[Sequence[Axes]], None]
    """Draws into the panels, row by row."""


@dataclass(frozen=True)
class Finding:
    """One figure or table of a paper."""

    title: str
    """Which."""
    claim: str
    """What the paper says of it, in one sentence."""
    checks: tuple[Check, ...]
    reading: str = ""
    """What was taken where the paper leaves something open or is wrong."""
    table: tuple[tuple[str, ...], ...] = ()
    """Rows of cells, the headings first."""
    picture: Picture | None = None

    @property
    def holds(self) -> bool:
        """Whether everything that was measured agrees."""
        return all(check.holds for check in self.checks)

    @property
    def faults(self) -> list[str]:
        """What ought to hold here and does not."""
        return [check.text for check in self.checks if check.required and not check.holds]

    @property
    def verdict(self) -> str:
        """One line: whether the claim holds here, and the numbers that say so."""
        agree = [check.text for check in self.checks if check.holds]
        disagree = [check.text for check in self.checks if not check.holds]
        if not disagree:
            return f"holds: {'; '.join(agree)}."
        if not agree:
            return f"does **not** hold: {'; '.join(disagree)}."
        return f"holds in part: {'; '.join(agree)}. **Not**: {'; '.join(disagree)}."


@dataclass(frozen=True)
class Chapter:
    """All of one paper."""

    title: str
    about: str
    """What was built and how, in a paragraph."""
    findings: tuple[Finding, ...]

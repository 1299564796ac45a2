# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drag says of itself: what was missed, what gave way, in data and in words."""

from dataclasses import dataclass

from .reports import angle_text, length_text, listed


@dataclass(frozen=True)
class DragError:
    """How far something is from where it should be."""

    name: str
    """Of the effector, or of the bone."""
    position: float | None
    """[m] in the world; None where no place is asked for."""
    rotation: float | None
    """[rad]; None where no orientation is asked for."""
    reached: bool
    firm: bool
    """Whether it holds strictly."""
    why: str = ""
    """What keeps it, in words, where that is known."""


@dataclass(frozen=True)
class DragReport:
    """What came of one movement."""

    dragged: DragError
    """The dragged bone."""
    held: tuple[DragError, ...]
    """All that holds: effectors, then pins for the time of the drag."""
    settled: bool
    """Whether the same place once more would change nothing."""
    iterations: int = 0
    """Of the search, for this movement."""
    keyed: int = 0
    """How many bones and targets auto-key has keyed, when the drag was confirmed."""
    notes: tuple[str, ...] = ()
    """What else the user should know, one sentence each."""

    @property
    def message(self) -> str:
        """What was missed and what gave way, in words; empty where nothing did."""
        parts: list[str] = []
        if not self.dragged.reached:
            parts.append(f"{self.dragged.name} misses by {_amount(self.dragged)}" + _because(self.dragged))
        missed = [error for error in self.held if error.firm and not error.reached]
        parts += [f"{error.name} misses by {_amount(error)}" for error in missed]
        gave = [error.name for error in self.held if not error.firm and not error.reached]
        if gave:
            parts.append(f"{listed(gave)} {'gives' if len(gave) == 1 else 'give'} way")
        return "; ".join([*parts, *self.notes])


def _amount(error: DragError) -> str:
    amounts = [] if error.position is None else [length_text(error.position)]
    return " and ".join(amounts or [angle_text(error.rotation or 0.0)])


def _because(error: DragError) -> str:
    return f" ({error.why})" if error.why else ""

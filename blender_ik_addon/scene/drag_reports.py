# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drag says of itself: what was missed, what gave way, in data and in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..core import TaskError
from ..core.yielding import Followed
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


def told(
    followed: Followed, owners: Sequence[tuple[str, bool]], scale: float, within: tuple[float, float]
) -> DragReport:
    """Errors of tasks as those of their owners, in the world.

    Args:
        followed: What a movement came to.
        owners: Who owns each task, firm ones first, and whether it is firm; the dragged bone is the first.
        scale: Length in the world by that in armature space [1].
        within: Tolerances [m] in the world, and [rad].
    """
    rows: dict[tuple[str, bool], list[TaskError]] = {}
    for owner, error in zip(owners, (*followed.firm, *followed.loose), strict=True):
        rows.setdefault(owner, []).append(error)
    errors = [_error(name, firm, own, scale, within) for (name, firm), own in rows.items()]
    return DragReport(errors[0], tuple(errors[1:]), followed.settled, followed.iterations)


def _error(
    name: str, firm: bool, own: Sequence[TaskError], scale: float, within: tuple[float, float]
) -> DragError:
    lengths = [error.error * scale for error in own if not error.angular]
    angles = [error.error for error in own if error.angular]
    # A soft task is reached within its softness, which the solver knows.
    reached = all(
        error.reached or error.error * (1.0 if error.angular else scale) <= within[error.angular]
        for error in own
    )
    whys = [error.why.why(scale) for error in own if error.why is not None]
    return DragError(
        name=name,
        position=max(lengths, default=None),
        rotation=max(angles, default=None),
        reached=reached,
        firm=firm,
        why=whys[0] if whys and not reached else "",
    )

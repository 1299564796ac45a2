# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drag reports: what was missed, what gave way, in data and in words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...core import TaskError
from ...core.amounts import angle_text, length_text
from ...core.solve.follower import Followed
from ..reports import SETTLING, listed

LEVELS: Final = 2
"""How far levels of effectors are apart in a drag [1]: that of the dragged bone is between two of them."""


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

    @property
    def miss(self) -> str:
        """By how much it misses, in words."""
        amount = angle_text(self.rotation or 0.0) if self.position is None else length_text(self.position)
        return f"{self.name} misses by {amount}"


@dataclass(frozen=True)
class DragReport:
    """Result of one movement."""

    dragged: DragError
    """The dragged bone."""
    held: tuple[DragError, ...] = ()
    """All that holds: effectors, then pins for the time of the drag."""
    settled: bool = True
    """Whether the body is on all its targets, or where a solve would have it."""
    final: bool = True
    """Whether the pose is what a solve gives for the place."""
    settling: bool = False
    """Whether the body is on its way to that: what is missed is not reported meanwhile."""
    iterations: int = 0
    """Of the search, for this movement."""
    keyed: int = 0
    """How many bones and targets auto-key has keyed, when the drag was confirmed."""
    notes: tuple[str, ...] = ()
    """What else the user should know, one sentence each."""

    @property
    def message(self) -> str:
        """What was missed and what gave way, in words; empty where nothing did."""
        if self.settling:
            return SETTLING
        missed = [error for error in self.held if not error.reached]
        parts = [error.miss for error in missed if error.firm]
        if not self.dragged.reached:
            why = f" ({self.dragged.why})" if self.dragged.why else ""
            parts.insert(0, self.dragged.miss + why)
        gave = [error.name for error in missed if not error.firm]
        if gave:
            parts.append(f"{listed(gave)} {'gives' if len(gave) == 1 else 'give'} way")
        return "; ".join([*parts, *self.notes])


def drag_report(
    followed: Followed,
    owners: Sequence[tuple[str, bool]],
    scale: float,
    within: tuple[float, float],
    *,
    settling: bool,
) -> DragReport:
    """Errors of tasks as those of their owners, in the world.

    Args:
        followed: What a movement came to.
        owners: Who owns each task and whether it holds strictly; the dragged bone is the first.
        scale: Length in the world by that in armature space [1].
        within: Tolerances [m] in the world, and [rad].
        settling: Whether the mouse rests.
    """
    rows: dict[tuple[str, bool], list[TaskError]] = {}
    for owner, error in zip(owners, followed.errors, strict=True):
        rows.setdefault(owner, []).append(error)
    errors = [_error(name, firm, own, scale, within) for (name, firm), own in rows.items()]
    return DragReport(
        dragged=errors[0],
        held=tuple(errors[1:]),
        settled=followed.final or (followed.settled and all(error.reached for error in errors)),
        final=followed.final,
        settling=settling and not followed.settled,
        iterations=followed.iterations,
    )


def _error(
    name: str, firm: bool, own: Sequence[TaskError], scale: float, within: tuple[float, float]
) -> DragError:
    amounts = [error.error * (1.0 if error.angular else scale) for error in own]
    # A soft task is reached within its softness, which the solver knows.
    reached = all(
        error.reached or amount <= within[error.angular] for error, amount in zip(own, amounts, strict=True)
    )
    position, rotation = (
        max((a for e, a in zip(own, amounts, strict=True) if e.angular == angular), default=None)
        for angular in (False, True)
    )
    why = "" if reached else next((_why(error, scale) for error in own if error.why is not None), "")
    return DragError(name, position, rotation, reached, firm, why)


def _why(error: TaskError, scale: float) -> str:
    """What keeps a task from its target, in words, with the levels that users know."""
    assert error.why is not None
    level = None if error.why.level is None else error.why.level // LEVELS
    levels = tuple(dict.fromkeys(above // LEVELS for above in error.why.levels))
    return replace(error.why, level=level, levels=levels).why(scale)

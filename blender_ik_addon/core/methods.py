# SPDX-License-Identifier: GPL-3.0-or-later
"""What each method asks of its rule, at a pose and with the channels that are left.

The rules (`rules`) know matrices and errors; here they get those of an objective, in scaled units, where the
springs' K is the identity and their energy half the square of the wish.

**The null space** takes a motion towards the preferred pose, −α times the deviation from it: in
PSEUDO_INVERSE as Liégeois' gradient; in SPRINGS by settling, Newton's step for their energy; in
EXTENDED_JACOBIAN as wanted displacements of the elements, and in BOUNDED as d = [e; c z], both out of what
the targets' rows leave free, so that at rest the targets are met exactly.

**Strength in proportion to the error** [Sugihara2011]: the damping λ, and the weight w of the elements, which
damps likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray, times
from .elements import basic_elements
from .inverses import damped_inverse, null_space_projection
from .objective import Objective, Point
from .options import SolverOptions
from .rules import (
    bounded_least_squares_step,
    extended_jacobian_step,
    gradient_projection_step,
    pseudo_inverse_step,
    selectively_damped_step,
    springs_step,
    transpose_step,
)

FLOOR: Final = 1e-8
"""Least part [1] of the strengths that is left where the error is nothing: rows that depend on each other
still do."""

FORCE_DAMPING: Final = 1e-3
"""λ of the springs' forces [1], in scaled units, so that they stay moderate at singular poses."""


@dataclass(frozen=True)
class Question:
    """A linear model with the channels that are left, all in scaled units."""

    objective: Objective
    point: Point
    options: SolverOptions
    jacobian_of_all: FloatArray
    """By all channels, (F, m, nv)."""
    error_at_start: FloatArray
    """Before any channel has moved, (F, m)."""
    away_of_all: FloatArray
    """Deviation from the preferred pose, 0 where there is none, (F, nv)."""
    lower: FloatArray
    """Bounds of the change, (F, nv)."""
    upper: FloatArray
    radius: FloatArray
    """Largest change, (F,)."""
    gain: FloatArray
    """α of the null space, (F,)."""
    effector_rows: tuple[int, ...]
    """Rows of what SDLS takes for an effector."""
    held: BoolArray
    """Channels that were stopped at a limit, (F, nv)."""
    fixed: FloatArray
    """What they change, (F, nv)."""

    def without(self, leaves: BoolArray, change: FloatArray) -> Question:
        """The same with some more channels held after a change (F, nv)."""
        held = self.held | leaves
        return replace(self, held=held, fixed=np.where(held, np.where(leaves, change, self.fixed), 0.0))

    @property
    def jacobian(self) -> FloatArray:
        """By the channels that are left, (F, m, nv)."""
        return np.where(self.held[:, None, :], 0.0, self.jacobian_of_all)

    @property
    def error(self) -> FloatArray:
        """What those that are held have left of the error, (F, m)."""
        return self.error_at_start - times(self.jacobian_of_all, self.fixed)

    @property
    def away(self) -> FloatArray:
        """Deviation from the preferred pose in what is left, (F, nv)."""
        return np.where(self.held, 0.0, self.away_of_all)

    @property
    def wish(self) -> FloatArray:
        """z, the motion that the null space is to take, (F, nv)."""
        return -self.gain[:, None] * self.away

    @property
    def share(self) -> FloatArray:
        """By what strengths of the options are multiplied, (F,)."""
        return np.minimum(self.point.norms[:, 0], 1.0) + FLOOR


def _transpose(question: Question) -> FloatArray:
    return transpose_step(question.jacobian, question.error)


def _pseudo_inverse(question: Question) -> FloatArray:
    return gradient_projection_step(question.jacobian, question.error, -question.wish, 1.0)


def _selectively_damped(question: Question) -> FloatArray:
    return selectively_damped_step(
        question.jacobian, question.error, question.effector_rows, gamma_max=question.radius
    )


def _springs(question: Question) -> FloatArray:
    jacobian, away, held = question.jacobian, question.away, question.held
    forces = times(np.swapaxes(damped_inverse(jacobian, FORCE_DAMPING), -1, -2), away)
    bend = question.objective.constraint_curvature(question.point.posed, forces)
    bend = np.where(held[:, :, None] | held[:, None, :], 0.0, bend)
    change, _ = springs_step(
        jacobian,
        question.error,
        np.ones_like(away),
        away,
        bend,
        settling=question.gain,
        damping=question.options.damping * question.share,
    )
    return change


def _extended_jacobian(question: Question) -> FloatArray:
    objective, jacobian = question.objective, question.jacobian
    of_all = basic_elements(question.point.posed) / (objective.length * objective.weight)
    elements = np.where(question.held[:, None, :], 0.0, of_all)
    wanted = pseudo_inverse_step(jacobian, np.zeros_like(question.error), question.wish)
    # What the channels that are held do to the elements is done already.
    displacement = times(elements, wanted) - times(of_all, question.fixed)
    weight = question.options.element_weight * question.share[:, None]
    return extended_jacobian_step(jacobian, question.error, elements, displacement, weight=weight)


def _bounded(question: Question) -> FloatArray:
    """Twice: what the limits hold in the first answer takes no part in the null space of the second."""
    jacobian, error = question.jacobian, question.error
    lower, upper = question.lower, question.upper
    damping = question.options.damping * question.share
    change = bounded_least_squares_step(jacobian, error, lower, upper, damping)
    if not question.wish.any():
        return change
    free = (change > lower) & (change < upper)
    left = np.where(free[:, None, :], jacobian, 0.0)
    wanted = times(null_space_projection(left), np.where(free, question.wish, 0.0))
    # |J dq − e|² + c²|dq − z|² is the same rule about z.
    about = error - times(jacobian, wanted)
    return wanted + bounded_least_squares_step(jacobian, about, lower - wanted, upper - wanted, damping)


RULES: Final[dict[str, Callable[[Question], FloatArray]]] = {
    "TRANSPOSE": _transpose,
    "PSEUDO_INVERSE": _pseudo_inverse,
    "SDLS": _selectively_damped,
    "SPRINGS": _springs,
    "EXTENDED_JACOBIAN": _extended_jacobian,
    "BOUNDED": _bounded,
}
"""The change dq (F, nv) that each method answers with, before limits and clamps."""

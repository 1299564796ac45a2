# SPDX-License-Identifier: GPL-3.0-or-later
"""From a pose in which all levels balance to the answer of a solve, when nobody moves targets any longer.

Out of reach the strict answer may be far from the balanced pose. The body goes there and does not jump:
springs draw all its channels to the answer in the place of the preferred pose, no angle turns far in one
look, and the forces of the levels hold what is held (`equilibrium`). Wherever these hold the body back as
well they become weaker, all by the same factor, so that what matters more still holds longer; without any the
springs would draw it straight there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from .arrays import FloatArray
from .equilibrium import Equilibrium
from .objective import Objective

WEAKER: Final = 0.25
"""Part of the strengths [1] that is left where they hold the body back."""
PROGRESS: Final = 0.5
"""Part of the way [1] that may be gone in a look and has to be, or strengths hold it back."""


class Arrival:
    """A body on its way to an answer."""

    def __init__(
        self,
        objective: Objective,
        balance: Equilibrium,
        answer: FloatArray,
        strengths: FloatArray,
        softness: float,
        groups: Sequence[int],
    ) -> None:
        """Prepare.

        Args:
            objective: The tasks.
            balance: The balanced pose.
            answer: Free channels of the answer, (1, nv).
            strengths: F of `equilibrium` with which the pose was balanced, one for each group.
            softness: δ of `equilibrium`.
            groups: How many of the stacked rows pull together, level by level.
        """
        self._objective = objective.towards(answer)
        self._balance, self.answer = balance, answer
        self.strengths, self._softness, self._groups = strengths, softness, groups

    @property
    def left(self) -> float:
        """The largest difference of an angle from that of the answer [rad]."""
        return self.left_from(self._balance.stand.values)

    def left_from(self, values: FloatArray) -> float:
        """The same from elsewhere, (1, nv)."""
        away = np.abs(self.answer - values)[0]
        return float(away[self._objective.system.rotates].max(initial=0.0))

    def among(self, objective: Objective) -> Arrival:
        """The rest of the way with the same tasks among fixed channels that have changed."""
        own = self._balance, self.answer, self.strengths, self._softness, self._groups
        return Arrival(objective, *own)

    def go_on(self, most_turn: float, most_steps: int) -> Equilibrium:
        """Go nearer to the answer.

        Args:
            most_turn: How far each angle may change at most [rad].
            most_steps: Most steps that are made for that.
        """
        before = self.left
        self._balance = Equilibrium(
            self._objective,
            self._balance.stand.values,
            self.strengths,
            self._softness,
            self._balance,
            most_turn,
            groups=self._groups,
            margins=False,
        )
        self._balance.relax(most_steps)
        if before - self.left < PROGRESS * most_turn:
            self.strengths = WEAKER * self.strengths
        return self._balance

# SPDX-License-Identifier: GPL-3.0-or-later
"""Bones that something else decides, and that answer to a solve: how they come to rest.

A solve takes bones that constraints or drivers decide as if they stood still, x. Blender then evaluates the
pose that was written, and they are elsewhere, g(x): a bone that copies the rotation of something in the world
turns against its parent whenever that turns. To be solved for is x = g(x), and g is known only by a whole
update of the scene. Taking x = g(x) again and again creeps there, or goes to and fro.

With f = g(x) − x of the solves so far, the next x is that of [Anderson1965] (see [WalkerNi2011] eq. 2.1, with
β = 1): γ = argmin |f_k − ΔF γ|, x_{k+1} = g_k − ΔG γ, where ΔF, ΔG have the differences of one solve to the
next. For one bone that answers along one way it is the secant method.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ...core.arrays import FloatArray

SAME_PLACE: Final = 1e-5
"""Difference of a channel [m, rad, 1] of a bone that something else decides up to which it has not moved: ten
times what single precision leaves of it when the whole body moves."""

MOST_SOLVES: Final = 12
"""Solves in a row after which bones that do not come to rest are left where they are."""

WINDOW: Final = 2
"""Differences that are looked back to."""

FLAT: Final = 0.05
"""Part of the largest singular value up to which differences say nothing new [1]: less leads astray, where
answers are far from linear."""

FURTHER: Final = 1.5
"""Most by which the next solve takes bones to be elsewhere than they are, in how far they have moved [1]."""


@dataclass
class DrivenBones:
    """Where bones that something else decides were taken to be, and where they were then."""

    taken: FloatArray
    """By the last solve: channels and scale, (k, 9) [m, rad, 1]."""
    at_rest: bool = False
    """Whether they were there after that solve too, so that who moves them next is somebody else."""
    _taken: list[FloatArray] = field(default_factory=list)
    _found: list[FloatArray] = field(default_factory=list)
    solves: int = 1
    """In a row, with the one that began it."""
    given_up: bool = False
    """Whether they did not come to rest."""

    def moved(self, found: FloatArray) -> bool:
        """Whether bones (k, 9) are elsewhere than they were taken to be.

        Bones that do not come to rest have not moved: they are taken as they are from then on.
        """
        if found.shape == self.taken.shape and (np.abs(found - self.taken) <= SAME_PLACE).all():
            self.at_rest = True
            return False
        if not self.at_rest and self.solves >= MOST_SOLVES:
            self.taken, self.at_rest, self.given_up = found, True, True
            return False
        return True

    def begin(self, found: FloatArray) -> FloatArray:
        """Where a solve is to take bones that are at (k, 9), if it is made for another reason."""
        if found.shape != self.taken.shape or (np.abs(found - self.taken) > SAME_PLACE).any():
            self.taken = found
        self.at_rest, self.solves, self.given_up = False, 1, False
        self._taken.clear()
        self._found.clear()
        return self.taken

    def follow(self, found: FloatArray) -> FloatArray:
        """Where the next solve is to take bones that have moved to (k, 9)."""
        if self.at_rest or found.shape != self.taken.shape:  # somebody else has moved them
            return self.begin(found)
        self._taken.append(self.taken.ravel())
        self._found.append(found.ravel())
        taken, got = (np.array(own[-WINDOW - 1 :]) for own in (self._taken, self._found))
        ways, ends = np.diff(got - taken, axis=0).T, np.diff(got, axis=0).T  # ΔF, ΔG, (9 k, m)
        share = np.linalg.lstsq(ways, got[-1] - taken[-1], rcond=FLAT)[0] if ways.shape[1] else np.zeros(0)
        more, given = ends @ share, got[-1] - taken[-1]
        longest = FURTHER * float(np.linalg.norm(given))
        more *= min(1.0, longest / max(float(np.linalg.norm(more)), longest, SAME_PLACE))
        self.taken = (got[-1] - more).reshape(found.shape)
        self.solves += 1
        return self.taken

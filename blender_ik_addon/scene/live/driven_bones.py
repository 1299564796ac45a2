# SPDX-License-Identifier: GPL-3.0-or-later
"""Bones that constraints or drivers move, and that move again with each solve: how they come to rest.

A solve takes driven bones as if they stood still, at x. Blender then evaluates the pose that was written, and
they are elsewhere, g(x): a bone that copies the rotation of something in the world turns against its parent
whenever that turns. To be solved for is x = g(x), and g is known only by a whole update of the scene. Taking
x = g(x) again and again creeps there, or goes to and fro.

With f = g(x) − x of the solves so far, the next x is that of [Anderson1965] (see [WalkerNi2011] eq. 2.1, with
β = 1): γ = argmin |f_k − ΔF γ|, x_{k+1} = g_k − ΔG γ, where ΔF, ΔG have the differences of one solve to the
next. For one bone that moves along one way it is the secant method.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from bpy.types import Depsgraph, Object

from ...core.arrays import FloatArray, IntArray
from ..armature.poses import decided_channels, evaluated_matrices
from ..rig.rig import Rig

SAME_PLACE: Final = 1e-5
"""Difference of a channel [m, rad, 1] of a driven bone up to which it has not moved: ten times what single
precision leaves of it when the whole body moves."""
MOST_SOLVES: Final = 12
"""Solves in a row after which bones that do not come to rest are left where they are."""
WINDOW: Final = 2
"""Differences that are looked back to."""
FLAT: Final = 0.05
"""Part of the largest singular value up to which differences say nothing new [1]: less leads astray, where
bones are far from linear."""
FURTHER: Final = 1.5
"""Most by which the next solve takes bones to be elsewhere than they are, in how far they have moved [1]."""


@dataclass
class DrivenBones:
    """Where driven bones were taken to be, and where they were then."""

    joints: IntArray
    """(k,)."""
    key: tuple[object, ...]
    """Names, joints and rotation orders."""
    taken: FloatArray
    """By the last solve: channels and scale, (k, 9) [m, rad, 1]."""
    at_rest: bool = True
    """Whether they were there after that solve too, so that what moves them next is not a solve."""
    solves: int = 1
    """In a row, with the one that began it."""
    given_up: bool = False
    """Whether they did not come to rest."""
    restored: bool = False
    """Whether a pose was put back in which they were at rest: where is seen at the next update."""
    _history: list[tuple[FloatArray, FloatArray]] = field(default_factory=list)
    """Where they were taken to be and where they were then, of the solves in a row, (9 k,) each."""

    @classmethod
    def of(
        cls, rig: Rig, armature_object: Object, depsgraph: Depsgraph, before: "DrivenBones | None"
    ) -> "DrivenBones | None":
        """The driven bones of the chains of a rig, those before if they are the same; None without any."""
        skeleton = rig.armature.skeleton
        names = [name for name in rig.chains if name in rig.armature.driven_by]
        if not names:
            return None
        joints = np.array([skeleton.index(name) for name in names], dtype=np.int64)
        key = (*names, *joints.tolist(), *skeleton.orders[joints].tolist())
        if before is not None and key == before.key:
            return before
        bones = cls(joints, key, np.zeros((len(joints), 9)))
        bones.taken = bones.seen(rig, armature_object, depsgraph)
        return bones

    def seen(self, rig: Rig, armature_object: Object, depsgraph: Depsgraph) -> FloatArray:
        """Where they are, as `taken`; angles are the nearest to those."""
        matrices = evaluated_matrices(armature_object.evaluated_get(depsgraph), rig.armature)
        near = self.taken[:, 3:6]
        channels = decided_channels(rig.armature.skeleton, matrices, self.joints, near)
        return np.concatenate(channels, axis=1)

    def moved(self, found: FloatArray) -> bool:
        """Whether bones (k, 9) are elsewhere than they were taken to be.

        Bones that do not come to rest have not moved: they are taken as they are from then on.
        """
        if self.restored:
            self.taken = found
        if (np.abs(found - self.taken) <= SAME_PLACE).all():
            self.at_rest, self.restored = True, False
            return False
        if not self.at_rest and self.solves >= MOST_SOLVES:
            self.taken, self.at_rest, self.given_up = found, True, True
            return False
        return True

    def begin(self, found: FloatArray) -> FloatArray:
        """Where a solve is to take bones that are at (k, 9), if it is made for another reason."""
        if (np.abs(found - self.taken) > SAME_PLACE).any():
            self.taken = found
        self.at_rest, self.restored, self.solves, self.given_up = False, False, 1, False
        self._history.clear()
        return self.taken

    def follow(self, found: FloatArray) -> FloatArray:
        """Where the next solve is to take bones that have moved to (k, 9)."""
        if self.at_rest:  # something else has moved them
            return self.begin(found)
        self._history.append((self.taken.ravel(), found.ravel()))
        taken, got = np.swapaxes(np.array(self._history[-WINDOW - 1 :]), 0, 1)
        ways, ends = np.diff(got - taken, axis=0).T, np.diff(got, axis=0).T  # ΔF, ΔG, (9 k, m)
        given = got[-1] - taken[-1]
        more = ends @ np.linalg.lstsq(ways, given, rcond=FLAT)[0] if ways.shape[1] else np.zeros_like(given)
        longest = FURTHER * float(np.linalg.norm(given))
        more *= min(1.0, longest / max(float(np.linalg.norm(more)), longest, SAME_PLACE))
        self.taken = (got[-1] - more).reshape(found.shape)
        self.solves += 1
        return self.taken

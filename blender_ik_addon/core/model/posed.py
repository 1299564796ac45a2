# SPDX-License-Identifier: GPL-3.0-or-later
"""A mechanism on which forward kinematics has been run: where its joints are and how its channels move them.

Each free channel is a screw (omega, v): a point p it carries moves with v + omega × p [Buss2009 §2: `v × (s −
p)` for a rotation, `v` for a translation]. Second derivatives are ∂²p/∂q_i∂q_j = omega_i × ∂p/∂q_j for i <= j
in the order in which `mechanism` numbers the channels. So under forces f_e on points p_e

    Σ_e f_e · ∂²p_e/∂q_i∂q_j = omega_i · Σ_e ∂p_e/∂q_j × f_e,

for whatever channel j moves, a channel i above it moves as well: the sum over points is the same for all i,
and what is left is one product of matrices however many points there are.

The frame axis comes first everywhere, but where there are many frames they also lie next to each other in
memory: so a product of matrices of a joint is a few operations on all frames.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from ..arrays import FloatArray, IntArray, frozen
from .rotation import skew

if TYPE_CHECKING:
    from .mechanism import Mechanism

LEFT: Final = frozen([1, 2, 0, 2, 0, 1], np.int64)
RIGHT: Final = frozen([2, 0, 1, 1, 2, 0], np.int64)
"""Elements of whose products the first three less the others are a cross product."""
_MOVED: Final = frozen(np.concatenate([-skew(np.eye(3)), np.zeros((3, 3, 3))], axis=-1).reshape(3, 18))
_MOVED_BY_V: Final = frozen(np.concatenate([np.zeros((3, 3)), np.eye(3)], axis=1).ravel())
"""A point p moves by ω × p + v, which is (ω, v) times the matrix (3, 6) with the elements p @ _MOVED +
_MOVED_BY_V."""


@dataclass(frozen=True)
class Bend:
    """A curvature Σ_k μ_k ∂²r_k/∂q∂q = S + Sᵀ, S_ij = w_ij omega_i · moment_j + Σ leftᵀ right."""

    omega: FloatArray
    """Angular velocity by each channel, (F, 3, nv)."""
    together: FloatArray
    """w, 1 where a channel i < j is above j, 1/2 for i = j, else 0, (nv, nv)."""
    moment: FloatArray
    """Σ_e ∂p_e/∂q_j × f_e, (F, 3, nv)."""
    products: tuple[tuple[FloatArray, FloatArray], ...] = ()
    """Left and right factors, (F, k, nv) each."""

    def __add__(self, other: Bend) -> Bend:
        """Of the same mechanism."""
        return Bend(self.omega, self.together, self.moment + other.moment, self.products + other.products)

    def matrix(self) -> FloatArray:
        """All of it, (F, nv, nv)."""
        half = self.omega.swapaxes(1, 2) @ self.moment
        half *= self.together
        if self.products:
            left, right = (np.concatenate(factors, axis=1) for factors in zip(*self.products, strict=True))
            half += left.swapaxes(1, 2) @ right
        return half + half.swapaxes(1, 2)


def summed(bends: Iterable[Bend | None]) -> Bend | None:
    """All of a mechanism's as one; None stands for nothing."""
    total: Bend | None = None
    for bend in bends:
        total = bend if total is None else total if bend is None else total + bend
    return total


def cross(a: FloatArray, b: FloatArray) -> FloatArray:
    """Cross product along the last axis; `numpy.cross` costs several times as much on small arrays."""
    products = a.take(LEFT, axis=-1) * b.take(RIGHT, axis=-1)
    return products[..., :3] - products[..., 3:]


@dataclass(frozen=True)
class PosedMechanism:
    """A mechanism on which forward kinematics has been run."""

    mechanism: Mechanism
    values: FloatArray
    """The free channels, (F, nv) [m, rad]."""
    matrices: FloatArray
    """armature_from_slot, rigid, (F, m + 1, 4, 4) [m]."""
    axes: FloatArray
    """Axes of the Euler channels in the joint's own frame, in columns, (F, m, 3, 3)."""

    across: tuple[FloatArray, FloatArray] | None = None
    """The same two with the frames last, (4, 4, m + 1, F) and (3, 3, m, F); None of few frames."""

    @classmethod
    def of_many(
        cls, mechanism: Mechanism, values: FloatArray, matrices: FloatArray, axes: FloatArray
    ) -> PosedMechanism:
        """That with given matrices and axes, frames last."""
        # Those who ask for matrices want some of each frame, which should lie together in memory.
        of_frames = np.ascontiguousarray(matrices.transpose(3, 2, 0, 1))
        return cls(mechanism, values, of_frames, axes.transpose(3, 2, 0, 1), (matrices, axes))

    def _across(self) -> tuple[FloatArray, FloatArray]:
        """The matrices and axes with the frames last."""
        return self.across or (self.matrices.transpose(2, 3, 1, 0), self.axes.transpose(2, 3, 1, 0))

    def select(self, mechanism: Mechanism, frames: IntArray) -> PosedMechanism:
        """Some of the frames, for the mechanism of those frames."""
        values = self.values[frames]
        if self.across is None:
            return PosedMechanism(mechanism, values, self.matrices[frames], self.axes[frames])
        matrices, axes = (array.take(frames, axis=-1) for array in self.across)
        return PosedMechanism.of_many(mechanism, values, matrices, axes)

    def replaced(self, frames: IntArray, others: PosedMechanism) -> PosedMechanism:
        """The same with some frames (n,) from elsewhere."""
        values = self.values.copy()
        values[frames] = others.values
        if self.across is None:
            matrices, axes = self.matrices.copy(), self.axes.copy()
            matrices[frames], axes[frames] = others.matrices, others.axes
            return PosedMechanism(self.mechanism, values, matrices, axes)
        matrices, axes = (array.copy() for array in self.across)
        matrices[..., frames], axes[..., frames] = others._across()
        return PosedMechanism.of_many(self.mechanism, values, matrices, axes)

    @cached_property
    def twists(self) -> FloatArray:
        """Angular velocity ω and velocity v of the armature's origin by each free channel, (F, 6, nv)."""
        mechanism = self.mechanism
        frames = len(self.values)
        if self.across is None:
            m = self.axes.shape[1]
            turning = self.matrices[:, 1:, :3, :3] @ self.axes  # (F, m, 3, 3), in columns
            omega = turning.reshape(frames, 9 * m).take(mechanism.omega_in, axis=1).reshape(frames, 9, -1)
            places = self.matrices.reshape(frames, 16 * (m + 1)).take(mechanism.place_in, axis=1)
            products = places.reshape(frames, 6, -1) * omega[:, 3:]
            np.subtract(products[:, :3], products[:, 3:], out=omega[:, 3:6])
            twists = omega[:, :6]  # the same array, of which nobody needs the rest
        else:
            # Of many frames few long operations on numbers that lie next to each other.
            matrices, axes = self.across
            turning = np.einsum("iknf,kjnf->ijnf", matrices[:3, :3, 1:], axes).reshape(3, -1, frames)
            across = np.empty((6, mechanism.size, frames))
            turning.take(mechanism.axis_in, axis=1, out=across[:3])
            places = matrices[:3, 3].take(mechanism.kept_of + 1, axis=1)
            for k, (left, right) in enumerate(((1, 2), (2, 0), (0, 1))):
                np.multiply(places[left], across[right], out=across[3 + k])
                across[3 + k] -= places[right] * across[left]
            twists = np.ascontiguousarray(across.reshape(6 * mechanism.size, frames).T)
            twists = twists.reshape(frames, 6, -1)
        if mechanism.slides.shape[1]:
            carriers = self.matrices.take(mechanism.carriers, axis=1)[..., :3, :3]
            sliding = (carriers @ mechanism.slides).swapaxes(1, 2).reshape(frames, 3, -1)
            twists[:, :3, mechanism.slide_channels] = 0.0
            twists[:, 3:, mechanism.slide_channels] = sliding[..., mechanism.slide_in]
        return twists

    @property
    def omega(self) -> FloatArray:
        """Angular velocity by each free channel, (F, 3, nv)."""
        return self.twists[:, :3]

    def points(self, anchors: IntArray, points_anchor: FloatArray) -> FloatArray:
        """Points fixed to slots (E,), given in their frames, in armature space (F, E, 3).

        They are (F or 1, E, 3), or (F or 1, E, 4) with a 1 at the end of each, which is less work.
        """
        matrices = self.matrices.take(anchors, axis=1)
        if points_anchor.shape[-1] == 4:
            return (matrices @ points_anchor[..., None])[..., :3, 0]
        return (matrices[..., :3, :3] @ points_anchor[..., None])[..., 0] + matrices[..., :3, 3]

    def point_jacobian(self, anchors: IntArray, points: FloatArray) -> FloatArray:
        """∂point/∂channel of points in armature space (F, E, 3) on slots (E,): (F, E, 3, nv) [m/rad, 1]."""
        mechanism = self.mechanism
        moves = mechanism.moves.take(anchors, axis=0)[:, None, :].astype(np.float64)
        if mechanism.has_levers:
            omega, v = np.swapaxes(self.omega, -1, -2), np.swapaxes(self.twists[:, 3:], -1, -2)
            lever = mechanism.lever[anchors]  # (E, nv)
            origins = self.matrices[:, :, :3, 3][:, np.maximum(lever, 0)]  # (F, E, nv, 3)
            arms = np.where((lever >= 0)[..., None], origins, points[:, :, None, :])
            turned = cross(np.broadcast_to(omega[:, None], arms.shape), arms)
            return np.swapaxes(v[:, None] + turned, -1, -2) * moves
        frames, count = points.shape[:2]
        moved = (points @ _MOVED + _MOVED_BY_V).reshape(frames, count * 3, 6)
        jacobian = (moved @ self.twists).reshape(frames, count, 3, mechanism.size)
        jacobian *= moves
        return jacobian

    def angular_jacobian(self, anchors: IntArray) -> FloatArray:
        """Angular velocity of slots (E,) per channel, (F, E, 3, nv) [1]."""
        return self.omega[:, None] * self.mechanism.turns.take(anchors, axis=0)[:, None, :]

    def bend(
        self,
        forces: FloatArray,
        jacobian: FloatArray,
        products: tuple[tuple[FloatArray, FloatArray], ...] = (),
    ) -> Bend:
        """Σ_e force_e · ∂²point_e/∂q∂q for forces (F, E, 3) and the points' Jacobian (F, E, 3, nv).

        What goes with it in the same sum are products of factors (F, k, nv), see `Bend`.
        """
        frames, nv = self.values.shape
        arms = skew(forces).reshape(frames, -1, 3).swapaxes(1, 2)
        moment = arms @ jacobian.reshape(frames, arms.shape[2], nv)
        return Bend(self.omega, self.mechanism.together, moment, products)

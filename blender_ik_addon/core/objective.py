# SPDX-License-Identifier: GPL-3.0-or-later
"""What a descent lowers: the levels of a system, in the units in which steps are measured.

Channels are u = √k q with k = 1/(1 − stiffness), so that a stiff channel moves less [ChungChoi1994:
Whitney's weighted inverse]. Lengths, of residuals and of translations, are divided by the reach of the
skeleton, so that a skeleton in centimetres takes the same steps as one in metres, and a miss by the reach
counts as one radian, whatever the tasks. After the levels of the tasks comes the wish for the preferred pose,
a level of its own, whose residual is u − preferred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray, IntArray, alike, lengths
from .posed import PosedMechanism
from .rotation import nearest_euler
from .system import Level, System, merged

HAIR: Final = 1e-9
"""Distance from a limit [rad, m] that is none, as a part of 1 and of where it is: rounding, or the traces of
steps that stop channels there."""

UNWOUND: Final = 1.5
"""Distance of an angle from the preferred one [rad] from which other angles may be nearer."""


@dataclass(frozen=True)
class Point:
    """The residuals of all levels at some values of the free channels."""

    values: FloatArray
    """(F, nv) [m, rad], inside the limits."""
    posed: PosedMechanism
    residuals: tuple[FloatArray, ...]
    """Of each level of the tasks, then of the wish, (F, m) each, in scaled units."""
    norms: FloatArray
    """|r| of each, (F, levels + 1)."""


@dataclass(frozen=True)
class Stand:
    """Where frames are, with the residual of all levels of the tasks in one."""

    system: System
    """That of these frames."""
    posed: PosedMechanism
    row_scale: FloatArray
    """By what the rows of the tasks are multiplied, (m,)."""

    @property
    def values(self) -> FloatArray:
        """The free channels, (F, nv) [m, rad], inside the limits."""
        return self.posed.values

    @cached_property
    def residual(self) -> FloatArray:
        """Of all levels, one above the other, (F, m), in scaled units."""
        return self.system.stacked_residual(self.posed) * self.row_scale

    @cached_property
    def norm(self) -> FloatArray:
        """|r|, (F,)."""
        return lengths(self.residual)

    @cached_property
    def errors(self) -> FloatArray:
        """Unweighted error of each task, (F, T) [m] or [rad]."""
        return self.system.errors(self.posed)


class Objective:
    """A system's levels in scaled units."""

    def __init__(self, system: System, *, merged: bool, clamp_distance: float | None) -> None:
        """Prepare the scales.

        Args:
            system: Tasks on given poses.
            merged: Whether all levels count as one, as methods without priorities see them.
            clamp_distance: Dmax, to which residuals of places are shortened [m]; None for not at all.
        """
        self.system = system
        self._merged = merged and len(system.priorities) > 1
        self._clamp_distance = clamp_distance
        self.length = system.problem.skeleton.reach
        """Unit of length [m]."""
        self.weight: FloatArray = np.sqrt(1.0 / (1.0 - system.stiffness)) / np.where(
            system.rotates, 1.0, self.length
        )
        """u = weight * q, (nv,)."""
        heaviest = system.heaviest_weights
        if self._merged:
            heaviest = [max(heaviest)] * len(heaviest)
        # Weights compare tasks of one level: what counts most in it counts 1, or a light one would seem met.
        level_scales = [1.0 / weight for weight in heaviest]
        shares = [w / h for w, h in zip(system.lightest_weights, heaviest, strict=True)]
        self.lightest = min(shares, default=1.0)
        """Smallest weight of a task against the largest in its level [1]."""
        scales = [
            scale * np.where(angular, 1.0, 1.0 / self.length)
            for scale, angular in zip(level_scales, system.angular_rows, strict=True)
        ]
        self._row_counts = [len(scale) for scale in scales]
        self._row_scales = [np.concatenate(scales)] if self._merged else scales
        # A step up to a limit, divided by the weight, would end next to it: on it nobody would know it to be.
        self._lowest, self._highest = system.lower, system.upper
        limits = np.isfinite(system.lower), np.isfinite(system.upper)
        self.limited = bool(limits[0].any() or limits[1].any())
        """Whether any channel has limits."""
        if self.limited:
            self._lowest = system.lower + np.where(limits[0], HAIR * (1.0 + np.abs(system.lower)), 0.0)
            self._highest = system.upper - np.where(limits[1], HAIR * (1.0 + np.abs(system.upper)), 0.0)
        wish = ~np.isnan(system.preferred)
        self._wish = wish.astype(np.float64)
        self._preferred = np.where(wish, system.preferred, 0.0) * self.weight

        self._stacked_scale = np.concatenate(scales) if scales else np.zeros(0)
        self._jacobian_scale = self._stacked_scale[:, None] / self.weight
        self.wishes = bool(wish.any())
        """Whether any channel has a preferred value."""

    def select(self, frames: IntArray) -> Objective:
        """The same for some of the frames."""
        some = alike(self)
        some.system = self.system.select(frames)
        if self._preferred.ndim > 1:
            some._preferred = self._preferred[frames]
        return some

    def on(self, system: System) -> Objective:
        """The same for a system that differs in its targets alone."""
        other = alike(self)
        other.system = system
        return other

    @property
    def wished(self) -> FloatArray:
        """1 where a channel has a preferred value, else 0, (nv,)."""
        return self._wish

    @property
    def levels(self) -> int:
        """Number of levels of the tasks; the wish has the number after the last."""
        return len(self._row_scales)

    def clipped(self, values: FloatArray) -> FloatArray:
        """Values inside the limits."""
        if not self.limited:
            return np.array(values)
        return np.minimum(np.maximum(values, self.system.lower), self.system.upper)

    def stand(self, values: FloatArray, posed: PosedMechanism | None = None) -> Stand:
        """Evaluate all levels as one at values inside the limits, if need be by forward kinematics."""
        posed = self.system.place(values) if posed is None else self.system.settled(posed)
        return Stand(self.system, posed, self._stacked_scale)

    def residual(self, posed: PosedMechanism) -> FloatArray:
        """Residual of all levels, one above the other, (F, m), in scaled units."""
        return self.system.stacked_residual(posed) * self._stacked_scale

    def stacked_jacobian(self, posed: PosedMechanism) -> FloatArray:
        """Derivative of those by u, (F, m, nv)."""
        return self.system.stacked_jacobian(posed) * self._jacobian_scale

    def alternate_jacobian(self, posed: PosedMechanism) -> FloatArray:
        """The same with targets in place of points [Buss2009 §2]."""
        return self.system.alternate_jacobian(posed) * self._jacobian_scale

    @property
    def row_scale(self) -> FloatArray:
        """By what the rows of the tasks are multiplied, (m,)."""
        return self._stacked_scale

    def constraint_curvature(self, posed: PosedMechanism, multipliers: FloatArray) -> FloatArray:
        """Σ_k y_k ∂²r_k/∂u∂u of those with multipliers (F, m), (F, nv, nv)."""
        scaled = np.split(multipliers * self._stacked_scale, np.cumsum(self._row_counts)[:-1], axis=1)
        return self.system.constraint_curvature(posed, scaled) / (self.weight[:, None] * self.weight)

    def on_limit(self, values: FloatArray) -> BoolArray:
        """Which channels stand on a limit, (F, nv)."""
        return (values <= self.system.lower) | (values >= self.system.upper)

    def at(self, values: FloatArray) -> Point:
        """Evaluate at values inside the limits."""
        posed = self.system.place(values)
        residuals = (*self._scaled(self.system.residuals(posed)), self.away(posed.values))
        return Point(posed.values, posed, residuals, norms_of(residuals))

    def linearize(self, point: Point) -> list[Level]:
        """Residual and Jacobian by u of every level, the wish last."""
        levels = self.system.linearize(point.posed)
        if self._merged:
            levels = [merged(levels)]
        scaled = [
            Level(residual, level.jacobian * scale[:, None] / self.weight)
            for residual, level, scale in zip(point.residuals, levels, self._row_scales, strict=False)
        ]
        nv = self.system.size
        wish = np.broadcast_to(np.diag(self._wish), (len(point.values), nv, nv))
        return [*scaled, Level(point.residuals[-1], wish)]

    def moved(self, values: FloatArray, change: FloatArray) -> FloatArray:
        """Values after a change in u, inside the limits, and on those that it reaches but for rounding."""
        moved = values + change / self.weight
        if not self.limited:
            return moved
        np.copyto(moved, self.system.lower, where=moved <= self._lowest)
        np.copyto(moved, self.system.upper, where=moved >= self._highest)
        return moved

    def unwound(self, values: FloatArray) -> FloatArray:
        """The same pose with the angles that are nearest to the preferred ones, inside the limits, (F, nv).

        A joint that turns freely has its rotation under many angles, whole turns apart and by two solutions;
        the preferred pose would draw each to another place.
        """
        columns, orders = self.system.mechanism.balls
        away = self.away(values)
        if not len(columns) or not (np.abs(away / self.weight)[:, columns] > UNWOUND).any():
            return values
        preferred = np.broadcast_to(self._preferred / self.weight, values.shape)[:, columns]
        angles = nearest_euler(values[:, columns], orders, preferred)  # (F, J, 3)
        other = np.array(values)
        other[:, columns] = angles
        nearer = np.square(self.away(other))[:, columns].sum(axis=2) < np.square(away)[:, columns].sum(axis=2)
        inside = ((angles >= self.system.lower[columns]) & (angles <= self.system.upper[columns])).all(axis=2)
        wished = self._wish[columns].all(axis=1)
        some, joints = np.nonzero(nearer & inside & wished)
        if not len(some):
            return values
        result = np.array(values)
        result[some[:, None], columns[joints]] = angles[some, joints]
        return result

    def room(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How far u may change down and up, (F, nv) each."""
        return (self.system.lower - values) * self.weight, (self.system.upper - values) * self.weight

    def bent(self, posed: PosedMechanism, forces: Sequence[FloatArray]) -> FloatArray:
        """Σ_k y_k ∂²r_k/∂u∂u, (F, nv, nv), for forces y on the residuals of each task level, (F, m)."""
        nv = self.system.size
        if not forces:
            return np.zeros((len(posed.values), nv, nv))
        parts = np.concatenate(forces, axis=1) * self._stacked_scale
        scaled = np.split(parts, np.cumsum(self._row_counts)[:-1], axis=1)
        return self.system.force_curvature(posed, scaled) / (self.weight[:, None] * self.weight)

    def own_curvature(self, point: Point, level: int) -> FloatArray:
        """Σ_k r_k ∂²r_k/∂u∂u of a level of the tasks, (F, nv, nv)."""
        forces = [
            residual if number == level else np.zeros_like(residual)
            for number, residual in enumerate(point.residuals[:-1])
        ]
        return self.bent(point.posed, forces)

    @property
    def clamps(self) -> bool:
        """Whether residuals of places are shortened."""
        return self._clamp_distance is not None

    def unclamped(self, point: Point) -> Sequence[FloatArray]:
        """Residuals of the levels of the tasks as they are, clamped or not, in scaled units, (F, m) each."""
        if not self.clamps:
            return point.residuals[:-1]
        return self._in_units(self.system.residuals(point.posed))

    def _scaled(self, residuals: Sequence[FloatArray]) -> list[FloatArray]:
        """Residuals of the system's levels in scaled units, clamped and merged as asked for."""
        if self._clamp_distance is not None:
            residuals = self.system.clamped(residuals, self._clamp_distance)
        return self._in_units(residuals)

    def _in_units(self, residuals: Sequence[FloatArray]) -> list[FloatArray]:
        if self._merged:
            residuals = [np.concatenate(residuals, axis=1)]
        return [residual * scale for residual, scale in zip(residuals, self._row_scales, strict=True)]

    def away(self, values: FloatArray) -> FloatArray:
        """Residual of the wish, u − preferred where there is a preference and else 0, (F, nv)."""
        return (values * self.weight - self._preferred) * self._wish


def norms_of(residuals: Sequence[FloatArray]) -> FloatArray:
    """|r| of each, (F, len(residuals))."""
    return np.stack([lengths(residual) for residual in residuals], axis=1)

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
from math import inf, sqrt
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray, IntArray, alike, lengths
from .posed import PosedMechanism
from .rotation import nearest_euler
from .system import Level, System, merged
from .tasks import Bend

OUTSIDE: Final = 1e-12
"""Way beyond a limit [1], in scaled units, that is rounding."""

UNBENT: Final = 1e-3
"""Curvature [1] of channels without a preferred value, which have none: flat ground would be no end."""

HAIR: Final = 1e-9
"""Distance from a limit [rad, m] that is none, as a part of 1 and of where it is: rounding, or the traces of
steps that stop channels there."""

UNWOUND: Final = 1.5
"""Distance of an angle from the preferred one [rad] from which other angles may be nearer."""

DENSE: Final = (125.0, 0.2, 9.5)
"""a, b, c: with m rows the matrix of a curvature is cheaper than products without it up to a m / (b m + c)
channels. Making it costs b m nv², using it c nv², products without it a m nv (measured)."""


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

    def select(self, system: System, frames: IntArray) -> Stand:
        """Some of the frames, with the system of those frames."""
        some = Stand(system, self.posed.select(system.mechanism, frames), self.row_scale)
        return some._known({name: known[frames] for name, known in self._found().items()})

    def replaced(self, frames: BoolArray, others: Stand) -> Stand:
        """The same with some frames from elsewhere."""
        found = {name: self.__dict__[name].copy() for name in self._found().keys() & others._found().keys()}
        for name, known in found.items():
            known[frames] = others.__dict__[name]
        return Stand(self.system, self.posed.replaced(frames, others.posed), self.row_scale)._known(found)

    def _found(self) -> dict[str, FloatArray]:
        """What has been found of these frames already, by attribute, the frame axis first."""
        return {name: self.__dict__[name] for name in ("residual", "norm", "errors") if name in self.__dict__}

    def _known(self, found: dict[str, FloatArray]) -> Stand:
        """These frames, of which something is known."""
        self.__dict__.update(found)
        return self

    def where(self, frames: BoolArray, otherwise: Stand) -> Stand:
        """Some frames from here, the rest from another stand."""
        if frames.all():
            return self
        return otherwise.replaced(frames, self.select(self.system, np.flatnonzero(frames)))


@dataclass(frozen=True)
class DenseBend:
    """A curvature as matrices."""

    matrices: FloatArray
    """(F, nv, nv)."""

    def matrix(self) -> FloatArray:
        """All of it, (F, nv, nv)."""
        return self.matrices

    def times(self, change: FloatArray) -> FloatArray:
        """Its product with changes (F, nv)."""
        return (self.matrices @ change[..., None])[..., 0]

    def select(self, frames: IntArray) -> DenseBend:
        """The same for some of the frames."""
        return DenseBend(self.matrices[frames])


@dataclass(frozen=True)
class TaskBend:
    """The curvature of tasks by u, out of those by the channels."""

    weight: FloatArray
    """u = weight * q, (nv,)."""
    parts: tuple[DenseBend | Bend, ...]

    def matrix(self) -> FloatArray:
        """All of it, (F, nv, nv)."""
        scale = self.weight[:, None] * self.weight
        return sum((part.matrix() for part in self.parts), np.zeros((1, *scale.shape))) / scale

    def times(self, change: FloatArray) -> FloatArray:
        """Its product with changes in u, (F, nv)."""
        change = change / self.weight
        total = np.zeros_like(change)
        for part in self.parts:
            total += part.times(change)
        return total / self.weight

    def select(self, frames: IntArray) -> TaskBend:
        """The same for some of the frames."""
        return TaskBend(self.weight, tuple(part.select(frames) for part in self.parts))


@dataclass(frozen=True)
class LagrangianBend:
    """H = W + C: how the cost of the wish and the pull of the tasks bend."""

    wish: FloatArray
    """The diagonal of W, (F, nv)."""
    tasks: TaskBend
    """C."""

    def matrix(self) -> FloatArray:
        """All of it, (F, nv, nv)."""
        return self.wish[:, :, None] * np.eye(self.wish.shape[1]) + self.tasks.matrix()

    def times(self, change: FloatArray) -> FloatArray:
        """Its product with changes in u, (F, nv)."""
        return self.wish * change + self.tasks.times(change)

    def select(self, frames: IntArray) -> LagrangianBend:
        """The same for some of the frames."""
        return LagrangianBend(self.wish[frames], self.tasks.select(frames))


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
        self._box = system.lower * self.weight - OUTSIDE, system.upper * self.weight + OUTSIDE
        """Limits of u, (nv,) each, beyond which a change of it is outside."""
        wish = ~np.isnan(system.preferred)
        self._wish = wish.astype(np.float64)
        self._preferred = np.where(wish, system.preferred, 0.0) * self.weight

        self._stacked_scale = np.concatenate(scales) if scales else np.zeros(0)
        self._jacobian_scale = self._stacked_scale[:, None] / self.weight
        self._error_scale: FloatArray | None = None
        """|r| of each task for an error of 1, (T,); None where that is not the same everywhere."""
        if (rows := system.error_rows) is not None:
            weights, first = rows
            self._error_scale = weights * self._stacked_scale[first]
        self._level_starts = np.cumsum([0, *(len(scale) for scale in self._row_scales)])[:-1]
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

    def towards(self, values: FloatArray) -> Objective:
        """The same with poses of its own for each frame as the preferred ones, in all channels, (F, nv)."""
        other = alike(self)
        other._preferred, other._wish = values * self.weight, self.system.own.astype(np.float64)
        other.wishes = True
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

    def acceleration(self, posed: PosedMechanism, change: FloatArray) -> FloatArray | None:
        """d²r/dt² (F, m) while u changes at a constant rate (F, nv); None where no row tells it."""
        bent = self.system.acceleration(posed, change / self.weight)
        return None if bent is None else bent * self._stacked_scale

    def alternate_jacobian(self, posed: PosedMechanism) -> FloatArray:
        """The same with targets in place of points [Buss2009 §2]."""
        return self.system.alternate_jacobian(posed) * self._jacobian_scale

    def norm_within(self, tolerance: FloatArray) -> float:
        """The largest |r| at which every task may be within its tolerance, (T,); infinite if not known.

        Of a residual that is larger nobody needs the errors.
        """
        if self._error_scale is None:
            return inf
        most = self._error_scale * tolerance
        return (1.0 + HAIR) * sqrt(float(most @ most))

    @property
    def row_scale(self) -> FloatArray:
        """By what the rows of the tasks are multiplied, (m,)."""
        return self._stacked_scale

    def bend(self, posed: PosedMechanism, multipliers: FloatArray) -> TaskBend:
        """Σ_k y_k ∂²r_k/∂u∂u of those with multipliers (F, m)."""
        scaled = np.split(multipliers * self._stacked_scale, np.cumsum(self._row_counts)[:-1], axis=1)
        most, making, using = DENSE
        rows = len(self._stacked_scale)
        if self.system.size * (making * rows + using) > most * rows:
            return TaskBend(self.weight, tuple(self.system.bends(posed, scaled)))
        matrix = self.system.constraint_curvature(posed, scaled)
        return TaskBend(self.weight, (DenseBend(matrix),))

    def lagrangian_bend(
        self, posed: PosedMechanism, multipliers: FloatArray, wishing: BoolArray
    ) -> LagrangianBend:
        """H of ½|w|² + Σ_k y_k r_k with multipliers (F, m); W = 1 where there is no wish now, (F,)."""
        wish = np.where(wishing[:, None], np.maximum(self._wish, UNBENT), 1.0)
        return LagrangianBend(wish, self.bend(posed, multipliers))

    def norms_by_level(self, stacked: FloatArray) -> FloatArray:
        """|r| of each level of the tasks out of the stacked residual, (F, levels)."""
        if not stacked.shape[1]:
            return np.zeros((len(stacked), self.levels))
        return np.sqrt(np.add.reduceat(stacked**2, self._level_starts, axis=1))

    def inside(self, scaled: FloatArray) -> bool:
        """Whether values of u (nv,) are inside the limits, but for rounding."""
        if not self.limited:
            return True
        least, most = self._box
        return not np.logical_or.reduce((scaled < least) | (scaled > most))

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

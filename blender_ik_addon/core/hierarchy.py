# SPDX-License-Identifier: GPL-3.0-or-later
"""What the levels above leave to those below.

A level that has been lowered is *held*: whatever comes after leaves its residuals r at the r* where it ended.
If it is met, the poses that do so are the solutions of r(u) = r*, and lower levels move in the null space of
J. If it is not, its minimisers are a thinner set: at a minimum wᵀJ = 0 for the pull w = r*/|r*|, on what the
levels above leave, so that one combination of the rows of J holds nothing. In its place the derivative of w·r
has to stay zero, and the set is held by the rows

    UᵀJ, U across w,   and   RᵀH,   H = Σ_k w_k ∂²r_k/∂u∂u + Σ_i y_i ∂²c_i/∂u∂u,

c the rows by which the levels above are held, y the multipliers with which those balance wᵀJ, and R the
directions, of what is left, in which H bends. That is Newton's method on the optimality of every level
[PfeifferEscandeKheddar2018; EscandeMansardWieber2014 for the linear hierarchy]. What H leaves flat goes to
lower levels. A straight arm that points at a far target is the simplest case: J holds the two directions
across, H keeps the arm straight, and its twist is free.

Rows RᵀH of one level bend in H of the next by their own derivatives: those of second derivatives along their
multipliers, taken as differences, and what comes of it that the y of rows of second order above turn with the
pose. With three levels that are not met, one above the other, that is no longer all.

Everything here is about one frame, in the units of `objective`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray
from .objective import Objective, Point

SINGULAR: Final = 1e-5
"""Size of a row on what is left, as a part of the row [1], that holds nothing."""
STILL: Final = 1e-3
"""Change of a channel along the holds, as a part of a direction of length 1 [1], that is none."""
CLOSE: Final = 1e-2
"""Way back to a hold [rad] up to which that to the next is looked at: rows of second order can be weak."""
DIFFERENCE: Final = 1e-4
"""Change [rad] over which second derivatives are compared."""
SMALL: Final = 1e-7
"""Multiplier of a row of second order [1] that bends nothing."""


@dataclass(frozen=True)
class Hold:
    """A level that stays where it is."""

    level: int
    residual: FloatArray
    """r*, (m,)."""
    left: FloatArray
    """U, the combinations of its rows that hold it, orthonormal columns, (m, p)."""
    pull: FloatArray | None
    """w, (m,): the direction in which it would go on if it could; None where its rows hold it all."""
    bends: FloatArray
    """R, the directions in which the curvature of the pull holds it, orthonormal columns, (nv, q)."""
    pressed: BoolArray
    """Channels that it presses against a limit, (nv,)."""


class Place:
    """A point with its derivatives, for one frame."""

    def __init__(self, objective: Objective, point: Point) -> None:
        self.objective, self.point = objective, point
        self.jacobians: list[FloatArray] = [level.jacobian[0] for level in objective.linearize(point)]
        """Of each level, the wish last, (m, nv)."""
        self.forces: list[FloatArray] = [residual[0] for residual in point.residuals]
        """Residuals of each level, shortened where they are clamped, (m,)."""
        self.residuals: list[FloatArray] = [
            *(residual[0] for residual in objective.unclamped(point)),
            self.forces[-1],
        ]
        """Residuals of each level as they are, (m,)."""

    def gradient(self, level: int) -> FloatArray:
        """Of the level's cost, (nv,)."""
        return self.forces[level] @ self.jacobians[level]

    def cost(self, level: int, change: FloatArray) -> float:
        """½|r|² of a level after a small change (nv,), to first order of r.

        Where |r| is clamped to D the cost goes on as D|r| − ½D², of which the clamped residual is the force.
        """
        moved = self.jacobians[level] @ change
        force, residual = self.forces[level], self.residuals[level] + moved
        if self.objective.clamps:
            return float(force @ residual - 0.5 * force @ force)
        return 0.5 * float(residual @ residual)

    def norm(self, level: int) -> float:
        """|r| of a level [1]."""
        return float(np.linalg.norm(self.residuals[level]))


@dataclass(frozen=True)
class Term:
    """A derivative of Σ_k y_k ∂²r_k/∂u∂u along some directions, the forces y and the directions constant."""

    forces: tuple[FloatArray, ...]
    """y on the residuals of each level of the tasks, (m,) each."""
    directions: tuple[FloatArray, ...] = ()
    """(nv,) each."""

    def along(self, direction: FloatArray) -> Term:
        """Its derivative along one more direction."""
        return Term(self.forces, (*self.directions, direction))


@dataclass(frozen=True)
class _Rows:
    """Some of the rows that hold."""

    level: int
    rows: FloatArray
    """(p, nv)."""
    left: FloatArray
    """What a force on the rows acts on: for rows of first order the level's residuals, (m, p), for those of
    second order the derivative of its pull, (nv, p)."""
    terms: tuple[Term, ...] = ()
    """What H is the sum of, for rows of second order."""
    hessian: FloatArray | None = None
    """H, (nv, nv), for rows of second order."""
    basis: FloatArray | None = None
    """The directions that they hold, orthonormal columns, (nv, p)."""


class Footing:
    """What holds leave at a place: the way back to where they hold, and the directions along them."""

    def __init__(self, place: Place, holds: Sequence[Hold], fixed: BoolArray) -> None:
        """Work through the holds, the highest first.

        Args:
            place: Where.
            holds: Of the highest levels.
            fixed: Channels that do not move, (nv,).
        """
        self.place, self.fixed = place, fixed
        self._free = np.flatnonzero(~fixed)
        self.along: FloatArray = np.eye(len(fixed))[:, self._free]
        """Directions in which no held level changes, orthonormal columns, (nv, d)."""
        self.back: FloatArray = np.zeros(len(fixed))
        """Newton's step towards where all holds are, (nv,)."""
        self.whole = True
        """Whether the channels that move suffice for all holds."""
        self._rows: list[_Rows] = []
        self._factored: tuple[int, FloatArray, FloatArray] | None = None
        """For how many of the rows A: the basis N of what they hold, (nv, h), and (A N)ᵀ, (h, h)."""
        for hold in holds:
            self._hold_residual(hold)
            self._hold_pull(hold)

    def _hold_residual(self, hold: Hold) -> None:
        jacobian = self.place.jacobians[hold.level]
        wrong = self.place.residuals[hold.level] - hold.residual + jacobian @ self.back
        self._hold(_Rows(hold.level, hold.left.T @ jacobian, hold.left), hold.left.T @ wrong)

    def _hold_pull(self, hold: Hold) -> None:
        if hold.pull is None or not hold.bends.shape[1] or not self.along.shape[1]:
            return
        gradient = hold.pull @ self.place.jacobians[hold.level]
        hessian, terms = self._hessian(hold.level, hold.pull, gradient)
        bends = self._part_along(hold.bends)
        wrong = bends.T @ (gradient + hessian @ self.back)
        self._hold(_Rows(hold.level, bends.T @ hessian, bends, terms, hessian), wrong)

    def _hold(self, some: _Rows, wrong: FloatArray) -> None:
        """Take the directions in which rows change out of those along which holds leave room."""
        rows = some.rows @ self.along  # (p, d)
        count, room = rows.shape
        if not count:
            return
        smallest = SINGULAR * float(np.linalg.norm(some.rows))
        if count <= room:
            basis, triangle = np.linalg.qr(rows.T, mode="complete")
            triangle = triangle[:count].T
            if float(np.abs(np.diag(triangle)).min()) > smallest:
                amounts = np.asarray(np.linalg.solve(triangle, wrong), np.float64)
                self._take(some, basis[:, :count], basis[:, count:], amounts)
                return
        left, sizes, right = np.linalg.svd(rows)
        rank = int((sizes > smallest).sum())
        self.whole &= rank == count
        turn = left[:, :rank]
        turned = replace(some, rows=turn.T @ some.rows, left=some.left @ turn)
        self._take(turned, right[:rank].T, right[rank:].T, turn.T @ wrong / sizes[:rank])

    def _part_along(self, columns: FloatArray) -> FloatArray:
        """The part of columns (nv, k) that lies along the holds so far."""
        if sum(len(some.rows) for some in self._rows) >= self.along.shape[1]:
            return self.along @ (self.along.T @ columns)
        columns = np.where(self.fixed[:, None], 0.0, columns)
        for some in self._rows:
            if some.basis is not None:
                columns = columns - some.basis @ (some.basis.T @ columns)
        return columns

    def _take(self, some: _Rows, held: FloatArray, rest: FloatArray, amounts: FloatArray) -> None:
        basis = self.along @ held
        if float(np.abs(self.back).max(initial=0.0)) <= CLOSE:
            # While higher holds are far off, this one would be looked for in the wrong place.
            self.back = self.back - basis @ amounts
        self._rows.append(replace(some, basis=basis))
        self.along = self.along @ rest

    def tracked(self, holds: Sequence[Hold]) -> tuple[Hold, ...]:
        """The same holds with R as it is here: which directions bend is followed, not decided anew."""
        bases = {some.level: some.basis for some in self._rows if some.terms}
        return tuple(
            replace(hold, bends=basis)
            if (basis := bases.get(hold.level)) is not None and basis.shape == hold.bends.shape
            else hold
            for hold in holds
        )

    @property
    def moves(self) -> BoolArray:
        """Channels that change along the holds, (nv,)."""
        return np.asarray(np.linalg.norm(self.along, axis=1) > STILL)

    def projected(self, matrix: FloatArray) -> FloatArray:
        """ZᵀMZ of a symmetric matrix (nv, nv) on the directions along the holds, (d, d)."""
        if not self._rows:
            return matrix[np.ix_(self._free, self._free)]
        return self.along.T @ matrix @ self.along

    def unbalanced(self, gradient: FloatArray) -> FloatArray:
        """What the holds leave of a gradient, (nv,): 0 along them where the channels move."""
        left = np.array(gradient)
        for some, pull in zip(self._rows, self._multipliers(gradient, len(self._rows)), strict=True):
            left += pull @ some.rows
        return left

    def curvature(self, level: int, gradient: FloatArray) -> FloatArray:
        """What the Hessian of a level's Lagrangian has beyond JᵀJ, (nv, nv).

        Args:
            level: Number of the level; the wish, after the last of the tasks, has no curvature of its own.
            gradient: Of its cost, which the holds balance, (nv,).
        """
        return self._hessian(level, self.place.forces[level], gradient)[0]

    def pull_curvature(self, level: int, pull: FloatArray) -> FloatArray:
        """H of a level of the tasks with a pull (m,), (nv, nv)."""
        return self._hessian(level, pull, pull @ self.place.jacobians[level])[0]

    def _factors(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Of the first rows: the basis N of what they hold, (nv, h), and (A N)ᵀ, (h, h)."""
        if self._factored is None or self._factored[0] != count:
            basis = np.concatenate(
                [some.basis for some in self._rows[:count] if some.basis is not None], axis=1
            )
            rows = np.concatenate([some.rows for some in self._rows[:count]])
            self._factored = count, basis, (rows @ basis).T
        return self._factored[1:]

    def _multipliers(self, gradients: FloatArray, count: int) -> list[FloatArray]:
        """Forces on the first rows with which they balance gradients (nv, ...), (p, ...) each."""
        if not count:
            return []
        basis, square = self._factors(count)
        forces = np.asarray(np.linalg.solve(square, -basis.T @ gradients), np.float64)
        return np.split(forces, np.cumsum([len(some.rows) for some in self._rows[:count]])[:-1])

    def _hessian(
        self, level: int, force: FloatArray, gradient: FloatArray
    ) -> tuple[FloatArray, tuple[Term, ...]]:
        """The curvature under a force on a level, (nv, nv), and its parts; the holds balance its gradient."""
        forces = [np.zeros(len(residual)) for residual in self.place.residuals[:-1]]
        if level < len(forces):
            forces[level] += force
        bent: list[Term] = []
        turned = np.zeros((len(gradient), len(gradient)))
        pulls = self._multipliers(gradient, len(self._rows))
        for number, (some, pull) in enumerate(zip(self._rows, pulls, strict=True)):
            if not some.terms:
                forces[some.level] += some.left @ pull
                continue
            direction = some.left @ pull
            if float(np.abs(direction).max(initial=0.0)) > SMALL:
                bent += [term.along(direction) for term in some.terms]
                turned += self._turned(number, direction)
        terms = (Term(tuple(forces)), *bent)
        return self._sum_of(terms) + turned, terms

    def _turned(self, number: int, direction: FloatArray) -> FloatArray:
        """How rows of second order bend because the forces turn that balance their pull, (nv, nv).

        Where rows of first order alone do that they stay the same along the holds.
        """
        some = self._rows[number]
        total = np.zeros((len(direction), len(direction)))
        if some.hessian is None or not any(other.terms for other in self._rows[:number]):
            return total
        changes = self._multipliers(some.hessian, number)
        slopes = self._jacobians_along(direction)
        for other, change in zip(self._rows[:number], changes, strict=True):
            if other.terms:
                matrix = self._sum_of([term.along(direction) for term in other.terms])
            else:
                matrix = slopes[other.level].T
            total += matrix @ other.left @ change
        return total + total.T

    def _jacobians_along(self, direction: FloatArray) -> list[FloatArray]:
        """Derivative of the Jacobians of all levels along a direction (nv,), (m, nv) each."""
        objective, values = self.place.objective, self.place.point.values
        size = float(np.abs(direction).max())
        change = DIFFERENCE / size * direction / objective.weight
        ahead, behind = (objective.linearize(objective.at(values + sign * change)) for sign in (1.0, -1.0))
        factor = 0.5 * size / DIFFERENCE
        return [factor * (a.jacobian[0] - b.jacobian[0]) for a, b in zip(ahead, behind, strict=True)]

    def _sum_of(self, terms: Sequence[Term]) -> FloatArray:
        """The matrix, (nv, nv), of which terms are the parts."""
        objective, values = self.place.objective, self.place.point.values
        total = np.zeros((len(self.fixed), len(self.fixed)))
        for term in terms:
            if not term.directions:
                total += objective.bent(self.place.point.posed, [force[None] for force in term.forces])[0]
                continue
            # Mixed differences: one evaluation for each choice of signs.
            signs = np.array(list(product((1.0, -1.0), repeat=len(term.directions))))
            sizes = np.array([np.abs(direction).max() for direction in term.directions])
            units = np.array(term.directions) / sizes[:, None]
            places = values + DIFFERENCE * (signs @ units) / objective.weight
            some = objective.select(np.zeros(len(places), dtype=np.int64))
            forces = [np.broadcast_to(force, (len(places), len(force))) for force in term.forces]
            matrices = some.bent(some.system.mechanism.place(places), forces)
            factor = float(np.prod(sizes / (2.0 * DIFFERENCE)))
            total += factor * np.einsum("s,sij->ij", signs.prod(axis=1), matrices)
        return total

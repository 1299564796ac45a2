# SPDX-License-Identifier: GPL-3.0-or-later
"""The energy of a pose, its derivatives, and the multipliers of its tasks.

In scaled channels u = W q, with translations divided by the reach of the skeleton and stiff channels counting
more [ChungChoi1994: Whitney's weighted inverse], the energy of one frame is

    E(q) = Σ_k σ_k ‖r_k(q)‖_δ + ½ |u − p|²,      ‖r‖_δ = √(|r|² + δ²) − δ,

r_k the residuals of penalty k (lengths divided by the reach, angles in rad, weights inside) and p the
preferred pose. The exact tasks of a priority level share one penalty, but for those of parts of the body that
share no free channel. ‖·‖ is exact [NocedalWright2006 §17.2]: a level that can be met with a force of less
than σ_k is met, one that cannot pulls with σ_k and no more. Penalty weights σ by level, σ_0 ≫ σ_1 ≫ …, are
the priorities; δ rounds off the point of the norm and is far below any tolerance.

**Soft tasks** have a penalty each, with δ = σ s, s the softness: the pseudo-Huber function
[HartleyZisserman2003 §A6.8]. Near its target such a task is a spring of stiffness 1/s, whatever σ is; far
away it pulls with σ and no more.

**Multipliers.** Both a level that is met and one that is missed act on the pose by a force y_k with |y_k| ≤
σ_k. It is estimated at each pose from the dual of the problem with linear residuals and a step damped by μ,

    (J Jᵀ/(1 + μ) + D) y = r − J (u − p)/(1 + μ),      D_k = ‖r_k‖/σ_k,

which gives Lagrange's multipliers where such a step can meet targets and σ_k r_k/|r_k| where it cannot. Where
|y_k| exceeds σ_k the level will give way: ‖r_k‖ in D and z_k in H's first term are then raised by |y_k|/σ_k
until it does not, so that a level that is met at the start does not hold the pose where it is. So the second
derivatives have the right forces in both cases, and no state is carried from step to step [ChanGolubMulet1999
derive the same Hessian with y as a variable of its own]:

    H = 1 + Σ_k σ_k/z_k Jᵀ (1 − sym(y rᵀ)/(σ_k z_k)) J + Σ_k y_k ∂²r_k/∂u∂u,      z_k = √(|r_k|² + δ²).

For a soft task near its target D is s, the compliance of its spring, and y its force after the step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray, alike, diagonals, times
from ..model.mechanism import Mechanism, PosedMechanism
from ..model.rotation import nearest_euler
from ..problem.system import System

LAST_WEIGHT: Final = 1e4
"""σ of the last level [1]: a force that moves a joint by far more than a turn."""
WEIGHT_RATIO: Final = 1e2
"""σ of a level by that of the next one [1]."""
STRONGEST: Final = 1e12
"""σ of the first level by that of the last, at most [1]: of more levels rounding would leave nothing to the
last."""
ROUNDING_OFF: Final = 1e-6
"""Least δ [1], in units of the reach: a level that is met is missed by δ |y|/σ, some thousandths of this."""
MET: Final = 10.0 * ROUNDING_OFF
"""z of a level that is as good as met [1]; less than that of any soft task."""
ENOUGH: Final = 10.0
"""Penalty weight of a level that is met, by 1, its force and those of the levels below [1], which it
withstands: with all of σ, 1e16 times as stiff as the posture, rounding would decide what it leaves free."""
IDLE: Final = 1e-3
"""Stiffness of channels that the preferred pose says nothing of, such as slacks of inequalities [1]."""

OVERSTRAINED: Final = 2.0
"""Force by penalty weight from which a level is seen to give way further than it was thought to [1]."""

HAIR: Final = 1e-9
"""Distance from a limit [rad, m] that is none: a step that stops on it ends so far away by rounding."""


@dataclass(frozen=True)
class PenaltyWeights:
    """Penalty weights σ of the priority levels."""

    last: float = LAST_WEIGHT
    """σ of the last level [1]."""
    ratio: float = WEIGHT_RATIO
    """σ of a level by that of the next one [1]."""

    def of(self, levels: int) -> FloatArray:
        """σ of each level, the first is the strongest, (K,)."""
        further = np.arange(levels - 1, -1, -1.0)
        ratio = min(self.ratio, STRONGEST ** (1.0 / max(levels - 1, 1)))
        return self.last * ratio**further


SOFT: Final = PenaltyWeights(7.0, 3.0)
"""Weights with which a search begins, and those of a body that follows targets while they move: they lead
past local minima, and there is a way back from where they lead."""


@dataclass(frozen=True)
class State:
    """The channels of N frames, and what the energy computes from them."""

    posed: PosedMechanism
    """The mechanism, inside the limits."""
    residual: FloatArray
    """Scaled residual of all tasks, (N, m)."""
    squares: FloatArray
    """|r|² of each penalty, (N, K)."""
    deviation: FloatArray
    """u − p, (N, nv)."""
    posture: FloatArray
    """Posture term, (N,) [1]."""

    @property
    def values(self) -> FloatArray:
        """The free channels, (N, nv) [m, rad]."""
        return self.posed.values

    @property
    def _arrays(self) -> tuple[FloatArray, ...]:
        return self.residual, self.squares, self.deviation, self.posture

    def select(self, mechanism: Mechanism, frames: IntArray) -> State:
        """A copy of some frames (n,), for the mechanism of those frames."""
        return State(self.posed.select(mechanism, frames), *(array[frames] for array in self._arrays))

    def replaced(self, frames: IntArray, others: State) -> State:
        """A copy in which some frames (n,) are replaced by others."""
        if len(frames) == len(self.values):
            return others
        arrays = [array.copy() for array in self._arrays]
        for array, other in zip(arrays, others._arrays, strict=True):
            array[frames] = other
        return State(self.posed.replaced(frames, others.posed), *arrays)


@dataclass(frozen=True)
class Model:
    """The energy about a state, to second order."""

    jacobian: FloatArray
    """∂r/∂u, (N, m, nv)."""
    gradient: FloatArray
    """∂E/∂u, further terms included, (N, nv)."""
    hessian: FloatArray
    """Without the posture's own 1, (N, nv, nv)."""
    curvature: FloatArray
    """Σ_k y_k ∂²r_k/∂u∂u, the part of it by which residuals bend, (N, nv, nv)."""
    of_rows: FloatArray
    """∂²E/∂r∂r, with what levels give way to: what stands between Jᵀ and J in the Hessian, (N, m, m)."""
    penalty_weights: FloatArray
    """σ_k, of penalties that are met no more than is enough, (N, K)."""
    resting: BoolArray
    """Channels that rest on limits, (N, nv)."""


class Energy:
    """The energy of N frames, each on its own."""

    def __init__(self, system: System, values: FloatArray, *, posture: bool = True) -> None:
        """Prepare.

        Args:
            system: The tasks on given poses.
            values: Where the frames start, (N, nv) [m, rad]: preferred by channels that prefer nothing else.
            posture: Whether channels prefer what the skeleton says.
        """
        self.system = system
        self.weight = system.channel_weights
        """W of the free channels, (nv,) [1/m, 1]."""
        heaviest = system.heaviest[system.level_of_task][system.task_of_row]
        self.row_scale: FloatArray = 1.0 / system.row_units / heaviest
        """Factor of each row of the residual, (m,) or (N, m)."""
        self._jacobian_scale = self.row_scale[:, None] / self.weight
        self.lengths: BoolArray = ~system.angular_rows
        """Which rows are lengths, (m,)."""
        self.penalty_of_row, self.level_of = system.penalty_of_row, system.level_of_penalty
        """Penalty of each row of the residual, (m,), and level of each penalty, (K,)."""
        self.penalties = len(self.level_of)
        """K."""
        higher = self.level_of[:, None] < self.level_of
        self.above: BoolArray = higher & (system.part_of_penalty[:, None] == system.part_of_penalty)
        """Which penalties (K, 1) are of levels above those of others (1, K), of the same part of the body."""
        softness = system.penalty_softness
        self.softness: FloatArray = np.tile(
            np.where(softness < ROUNDING_OFF, 0.0, softness), (len(values), 1)
        )
        """s of each penalty in each frame [1]; 0 for exact tasks, (N, K)."""
        self.members: BoolArray = self.penalty_of_row[:, None] == np.arange(self.penalties)
        """Which rows are those of each penalty, (m, K)."""
        self._same_penalty = self.penalty_of_row[:, None] == self.penalty_of_row
        """Which rows are of one penalty, (m, m)."""
        self._curvature_scale = 1.0 / (self.weight[:, None] * self.weight)
        prefers = ~np.isnan(system.preferred) & posture
        self.preferred: FloatArray = np.where(prefers, system.preferred, values) * self.weight
        """p in scaled channels, (N, nv)."""
        free = system.rotates & np.isneginf(system.lower) & np.isposinf(system.upper)
        self.turn: FloatArray = np.where(free, 2.0 * np.pi, np.inf) * self.weight
        """A whole turn of angles without limits, which are alike for the posture; else infinite, (nv,)."""
        self._whole = np.where(free, self.turn, 0.0)
        """`turn` where it is finite, else 0, (nv,)."""
        self.stiffness: FloatArray = np.where(system.own, 1.0, IDLE)
        """Stiffness of each channel in the posture term, (nv,) [1]."""
        self.lower, self.upper = system.bounds
        """Limits of the free channels, (nv,) or (N, nv) [m, rad]."""
        self.allowed: FloatArray | float = 0.0
        """Scaled residual at which a task counts as met, (N, m)."""
        self.penalty_weights: FloatArray = np.tile(self._weights_of(PenaltyWeights()), (len(values), 1))
        """σ of each penalty in each frame, (N, K)."""

    def _weights_of(self, weights: PenaltyWeights) -> FloatArray:
        """σ of each penalty, (K,)."""
        return weights.of(len(self.system.priorities))[self.level_of]

    def select(self, frames: IntArray) -> Energy:
        """A copy for some of the frames."""
        some = alike(
            self,
            system=self.system.select(frames),
            preferred=self.preferred[frames],
            penalty_weights=self.penalty_weights[frames],
            softness=self.softness[frames],
        )
        if self.lower.ndim > 1:
            some.lower, some.upper = self.lower[frames], self.upper[frames]
        if self.row_scale.ndim > 1:
            some.row_scale, some._jacobian_scale = self.row_scale[frames], self._jacobian_scale[frames]
        return some

    def emphasising(self, factors: FloatArray) -> Energy:
        """A copy in which rows weigh more inside their penalties by factors (N, m)."""
        scale = self.row_scale * factors
        return alike(self, row_scale=scale, _jacobian_scale=scale[..., None] / self.weight)

    def taking(self, taken: IntArray) -> Energy:
        """A copy with given alternatives of choices, (N, C)."""
        return alike(self, system=self.system.taking(taken))

    def within(self, lower: FloatArray, upper: FloatArray) -> Energy:
        """A copy whose channels stay inside a further box, (N, nv) each."""
        return alike(self, lower=np.maximum(self.lower, lower), upper=np.minimum(self.upper, upper))

    def allowing(self, residual: FloatArray) -> Energy:
        """A copy in which tasks count as met at given scaled residuals (N, m)."""
        return alike(self, allowed=residual)

    def softened_by(self, softness: FloatArray) -> Energy:
        """A copy in which exact tasks have the softness of their penalties, (N, K)."""
        return alike(self, softness=np.where(self.exact, softness, self.softness))

    def preferring(self, values: FloatArray) -> Energy:
        """A copy with other preferred poses, (N, nv) [m, rad]."""
        return alike(self, preferred=values * self.weight)

    def drawn(self, values: FloatArray, pull: float) -> Energy:
        """A copy drawn to poses (N, nv) too, by `pull` times as much; all of it is divided by 1 + pull."""
        away = self.unturned(values * self.weight - self.preferred) / self.weight
        some = self.with_penalty_weights(self.penalty_weights / (1.0 + pull))
        return alike(some.preferring(values - away / (1.0 + pull)), softness=self.softness * (1.0 + pull))

    def weakened(self, weights: PenaltyWeights) -> Energy:
        """A copy with other penalty weights, none above the present ones."""
        return self.with_penalty_weights(np.minimum(self._weights_of(weights), self.penalty_weights))

    def softened(self, frames: BoolArray) -> Energy:
        """A copy with the penalty weights that lead past local minima in some frames, (N,)."""
        soft = self.weakened(SOFT).penalty_weights
        return self.with_penalty_weights(np.where(frames[:, None], soft, self.penalty_weights))

    def with_penalty_weights(self, penalty_weights: FloatArray) -> Energy:
        """A copy with given penalty weights, (N, K)."""
        return alike(self, penalty_weights=penalty_weights)

    @property
    def exact(self) -> BoolArray:
        """Which penalties are those of exact tasks, (N, K)."""
        return self.softness == 0.0

    def at(self, values: FloatArray) -> State:
        """Evaluate at values (N, nv), brought inside the limits and onto those that are a hair away."""
        values = np.where(values <= self.lower + HAIR, self.lower, values)
        posed = self.system.place(np.where(values >= self.upper - HAIR, self.upper, values))
        residual = self.system.residual(posed) * self.row_scale - self.allowed
        deviation = posed.values * self.weight - self.preferred
        return State(posed, residual, self.squares(residual), deviation, self.posture(deviation))

    def unwound(self, values: FloatArray) -> FloatArray:
        """Poses (N, nv) rewritten with the angles nearest to the preferred ones, inside the limits.

        A joint that turns freely has its rotation under many angles, whole turns apart and by two solutions;
        the preferred pose would draw each to another place.
        """
        columns, orders = self.system.mechanism.balls
        preferred = self.preferred / self.weight
        # Two solutions for a rotation differ by half a turn in two angles: nothing is nearer than an eighth.
        if not len(columns) or not (np.abs(values - preferred)[:, columns] > 0.25 * np.pi).any():
            return values
        angles = nearest_euler(values[:, columns], orders, preferred[:, columns])  # (N, J, 3)
        scale = self.weight[columns]
        nearer = np.square((angles - preferred[:, columns]) * scale).sum(2) < np.square(
            (values - preferred)[:, columns] * scale
        ).sum(2)
        inside = ((angles >= self.lower[..., columns]) & (angles <= self.upper[..., columns])).all(axis=2)
        frames, joints = np.nonzero(nearer & inside)
        result = np.array(values)
        result[frames[:, None], columns[joints]] = angles[frames, joints]
        return result

    def continuous(self, values: FloatArray) -> tuple[Energy, FloatArray]:
        """A motion (N, nv) without whole turns from frame to frame, and a copy whose limits turn along.

        A frame that stays where it is has the same pose some whole turns on.
        """
        values = np.clip(values, self.lower, self.upper)
        steps = np.diff(values * self.weight - self.preferred, axis=0)
        turns = np.cumsum(self.unturned(steps) - steps, axis=0)
        if not turns.any():
            return self, values
        turns = np.pad(turns / self.weight, ((1, 0), (0, 0)))
        return alike(self, lower=self.lower + turns, upper=self.upper + turns), values + turns

    def centred(self) -> FloatArray:
        """The preferred poses, but channels with limits on both sides in the middle of these, (N, nv)."""
        bounded = np.isfinite(self.upper - self.lower)
        middle = 0.5 * np.add(self.lower, self.upper, where=bounded, out=np.zeros(bounded.shape))
        return np.where(bounded, middle, self.preferred / self.weight)

    def squares(self, residual: FloatArray) -> FloatArray:
        """|r|² of each penalty for residuals (N, m), (N, K) [1]."""
        return (residual * residual) @ self.members

    def by_level(self, squares: FloatArray) -> FloatArray:
        """|r| of each level for |r|² of each penalty (..., K), (..., levels) [1]."""
        levels = np.arange(len(self.system.priorities))
        return np.sqrt(squares @ (self.level_of[:, None] == levels))

    def norms(self, squares: FloatArray) -> FloatArray:
        """Norm z of each penalty for |r|², (N, K) each [1]."""
        rounding_off = np.maximum(self.penalty_weights * self.softness, ROUNDING_OFF)
        return np.sqrt(squares + rounding_off * rounding_off)

    def penalty_terms(self, squares: FloatArray, penalty_weights: FloatArray) -> FloatArray:
        """σ_k ‖r_k‖_δ of each penalty for |r|² and σ, (N, K) each."""
        rounding_off = np.maximum(penalty_weights * self.softness, ROUNDING_OFF)
        # z − δ would be all rounding for δ far above |r|.
        return penalty_weights * squares / (np.sqrt(squares + rounding_off * rounding_off) + rounding_off)

    def energies(self, state: State) -> FloatArray:
        """Energy of each frame, without levels that are met, (N,)."""
        terms = self.penalty_terms(state.squares, self.penalty_weights)
        # Only rounding is left of them, which their weight would make much of.
        terms[self.norms(state.squares) <= MET] = 0.0
        return np.asarray(terms.sum(axis=1) + state.posture, dtype=np.float64)

    def posture(self, deviation: FloatArray) -> FloatArray:
        """Posture term ½ |u − p|² of each frame for u − p (N, nv), (N,) [1]."""
        return 0.5 * np.square(self.unturned(deviation)) @ self.stiffness

    def unturned(self, deviation: FloatArray) -> FloatArray:
        """Differences u − p (N, nv) without whole turns."""
        return deviation - self._whole * np.rint(deviation / self.turn)

    def model(
        self,
        state: State,
        damping: FloatArray | float = 0.0,
        beside: FloatArray | None = None,
        held: BoolArray | bool = False,
    ) -> Model:
        """The energy about a state.

        Args:
            state: Where.
            damping: μ of the step that the model is for, (N,).
            beside: Gradient that other terms add to it, (N, nv).
            held: Which channels the last step has left on a limit, (N, nv); False for none.
        """
        weights = self.penalty_weights
        jacobian = self.system.jacobian(state.posed) * self._jacobian_scale
        norms, r = self.norms(state.squares), state.residual
        towards = self.unturned(state.deviation)
        posture = self.stiffness * towards
        if beside is not None:
            posture += beside
            towards = towards + beside / self.stiffness
        low, high = state.values <= self.lower, state.values >= self.upper
        met, resting = norms <= MET, (low | high) & held
        # Which channels rest on limits follows from the forces, and these from which do.
        while True:
            forces, sizes, given = self._forces(jacobian, r, norms, towards, resting, damping)
            exerted = np.where(met | ~self.exact, sizes, weights)
            withstood = np.maximum.accumulate(exerted[:, ::-1], axis=1)[:, ::-1]
            enough = np.where(met, np.minimum(weights, ENOUGH * (withstood + 1.0)), weights)
            gradient = posture + self._gradient(jacobian, r, enough / norms)
            pressed = resting | (low & (gradient > 0.0)) | (high & (gradient < 0.0))
            if (pressed == resting).all():
                break
            resting = pressed
        by_norm = r / self._of_rows(2.0 * norms * given)
        of_rows = -forces[:, :, None] * by_norm[:, None, :] * self._same_penalty
        of_rows = of_rows + of_rows.swapaxes(1, 2)
        diagonals(of_rows)[...] += self._of_rows(enough / given)
        curved = self.system.curvature(state.posed, forces * self.row_scale)
        curved *= self._curvature_scale
        hessian = jacobian.swapaxes(1, 2) @ (of_rows @ jacobian)
        hessian += curved
        return Model(jacobian, gradient, hessian, curved, of_rows, enough, resting)

    def _gradient(self, jacobian: FloatArray, residual: FloatArray, weights: FloatArray) -> FloatArray:
        """Gradient (N, nv) by penalties with a weight of each residual, (N, K)."""
        return ((self._of_rows(weights) * residual)[:, None, :] @ jacobian)[:, 0]

    def _of_rows(self, of_penalties: FloatArray) -> FloatArray:
        """(N, K) -> (N, m)."""
        return of_penalties.take(self.penalty_of_row, axis=1)

    def _forces(
        self,
        jacobian: FloatArray,
        residual: FloatArray,
        norms: FloatArray,
        towards: FloatArray,
        resting: BoolArray,
        damping: FloatArray | float,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Multipliers y of the rows, (N, m), and by penalty their length and the norm z there, (N, K)."""
        moving = jacobian * ~resting[:, None, :]
        damped = self.stiffness + np.reshape(damping, (-1, 1))
        gram = (moving / damped[:, None, :]) @ moving.swapaxes(1, 2)
        wanted = residual - times(moving, towards * self.stiffness / damped)
        own = diagonals(gram) + _least_diagonal(gram)
        given = norms
        while True:
            diagonals(gram)[...] = own + self._of_rows(given / self.penalty_weights)
            forces = np.asarray(np.linalg.solve(gram, wanted[..., None])[..., 0], dtype=np.float64)
            sizes = np.sqrt(self.squares(forces))
            over = np.maximum(1.0, sizes / self.penalty_weights)
            given = given * over
            if not (over > OVERSTRAINED).any():
                break
        forces /= self._of_rows(over)
        return forces, np.minimum(sizes, self.penalty_weights), given


def _least_diagonal(gram: FloatArray) -> FloatArray:
    """Least diagonal that keeps the rank of J Jᵀ (N, m, m) full in spite of rounding, (N, 1)."""
    return 1e-15 * diagonals(gram).max(axis=1, keepdims=True, initial=0.0) + np.finfo(float).tiny

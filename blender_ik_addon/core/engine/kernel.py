# SPDX-License-Identifier: GPL-3.0-or-later
"""The minimiser: Newton's method on the energy, inside the limits, for poses and for motions.

Frames come in groups that are solved together: the frames of a motion, which terms over time tie together, or
one frame alone. Many frames are worked on at once by operations on arrays, each group with its own
acceptance. Of a motion mostly a few frames need many iterations, where a limb gets straight or turns about.
While these have far to go, frames that are nearly where they belong wait, unless they are beside them; for
the last of the way all go together.

An iteration tries one step of each group:

1. **Model**: gradient and Hessian of each frame, with the forces of a step that is damped by μ: a level
   that only a long step would meet is missed by a short one, and pulls with all its strength. So a step
   that was not taken gets another model as well. Where a Hessian bends down by more than μ holds up, its
   eigenvalues are taken by their absolute value [DauphinEtAl2014], so that a step leads away from saddles,
   such as straight limbs; without a slope there, towards the middle of limits.
2. **Step**: of Newton's method with μ added to the Hessian [Levenberg-Marquardt], inside the limits by an
   active set [HintermullerItoKunisch2003]: channels that would pass a limit are stopped there, those that
   would rather leave theirs are let go, and the step is found again.
3. **Correction**: the change of residuals that is not linear in the step is answered with the same damped
   Hessian, by no more than the step is long, as long as each time takes away a third of what is left: the
   chord method [NocedalWright2006 §18.3, there for constraints].
4. **Acceptance** by one merit: the energy, in which levels that are met are as strong as they need to be (an
   exact penalty is exact from |y| on). μ follows how well the model told the change: what it leaves out grows
   with the third power of the step. A step is cut off at the largest change of an angle, or of a place as
   much, unless targets are farther away. The next one is damped so much that it ends about there by itself:
   it leads where the energy is lowest so near by [NocedalWright2006 §4.1].
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray, diagonals, times
from ..model.mechanism import Mechanism
from ..problem.options import SolverOptions
from .coupling import BandFactors, Coupling, Part
from .energy import ROUNDING_OFF, Energy, Model, State

DAMPING: Final = (100.0, 1e-6)
"""μ at the start of a descent that may have far to go, and the least, with which others start [1]."""
FACTORS: Final = (0.1, 2.0)
"""Least and most factor of μ after a step [1]."""
GROW: Final = 3.0
"""μ after a step that was not taken, by the curvature along it [1]: the next one is a quarter at most."""
TRUSTED: Final = 0.3
"""Error of the model's change, as a part of it, up to which μ shrinks and from which it grows [1]."""
FLAT: Final = 1e-2
"""Least curvature of a direction that bent down [1]."""
BENT: Final = 0.3
"""Part of the decrease that the model predicts which is worth a correction if it is left out [1], and part of
what is left out that a correction must take away for another one."""
FINE: Final = 1e-3
"""Largest change [rad] of a step that is taken whatever the merit says: rounding would decide."""
NEARLY: Final = 0.3
"""Part of the way of the frame of a motion that has farthest to go [1], below which others wait."""
ROUGH: Final = 1e-2
"""Largest change of a channel [rad] at which a start for a further search counts as converged."""
CONTRACTION: Final = 0.1
"""A step that is shorter than the one before by more than this factor [1] leaves less to go than its own
length, as the ratio of the two [HairerWanner1996 §IV.8]."""
PUSH: Final = 0.1
"""Step [rad] where the energy bends down and its slope is next to nothing."""


Callback = Callable[[int, State], bool]
"""Called at the start and after each iteration, with its number and the state of all frames; True stops."""


@dataclass(frozen=True)
class Minimum:
    """Result of a descent or of a search, for each frame or group."""

    state: State
    """State of the N frames."""
    energies: FloatArray
    """Energy of each group with the full penalty weights, without levels that are met, terms over time
    included, (G,)."""
    iterations: IntArray
    """(G,)."""
    converged: BoolArray
    """Whether a group has come to rest, (G,)."""
    cancelled: bool
    """Whether the callback asked to stop."""

    @property
    def values(self) -> FloatArray:
        """(N, nv) [m, rad]."""
        return self.state.values

    def select(self, mechanism: Mechanism, frames: IntArray) -> Minimum:
        """Those of some frames alone (n,), for the mechanism of those frames."""
        return replace(
            self,
            state=self.state.select(mechanism, frames),
            energies=self.energies[frames],
            iterations=self.iterations[frames],
            converged=self.converged[frames],
        )


class Descent(Iterator[None]):
    """Frames on their way to minima of the energy; each `next` tries one step of those that still move.

    Frames alone are taken each by itself; those of a motion are one group.
    """

    def __init__(
        self,
        energy: Energy,
        values: FloatArray,
        options: SolverOptions,
        *,
        step_tolerance: float | None = None,
        max_iterations: int | IntArray | None = None,
        decrease_tolerance: float = 0.0,
        far: bool | BoolArray = False,
        coupling: Coupling | None = None,
        callback: Callback | None = None,
    ) -> None:
        """Prepare.

        Args:
            energy: Of N frames.
            values: Where to start, (N, nv) [m, rad].
            options: How exactly, and by which steps.
            step_tolerance: In place of theirs [rad].
            max_iterations: Likewise, for all groups or each, (G,).
            decrease_tolerance: Decrease of a group's energy [1] at which it is at rest too.
            far: Whether the minimum of the groups, or of each, (G,), may be far from the start.
            coupling: What ties the N frames of a motion together, G = 1; None: every frame is a group, G = N.
            callback: See `Callback`.
        """
        count = len(values)
        groups = count if coupling is None else 1
        if coupling is not None:
            energy, values = energy.continuous(values)
        most = options.max_iterations if max_iterations is None else max_iterations
        self.max_angle = options.max_angle
        self._whole, self._coupling, self._callback = energy, coupling, callback
        self._damping: FloatArray = np.full(count, np.where(far, *DAMPING))
        self._held: BoolArray = np.zeros(values.shape, dtype=np.bool_)
        self._precision = options.step_tolerance if step_tolerance is None else step_tolerance
        self._most, self._least = np.broadcast_to(most, groups), decrease_tolerance
        self._iterations = np.zeros(groups, dtype=np.int64)
        self._number, self._cancelled = 0, False
        self._unknown = self.max_angle if values.shape[1] and energy.penalties else 0.0
        """How far frames of which nothing is known seem to be from their minima [rad]."""
        self._ahead: FloatArray = np.full(count, self._unknown)
        """How far each frame seems to be from its minimum, (N,) [rad]."""
        self._before: FloatArray = np.full(groups, self.max_angle)
        """Length of the last step that each group has taken, (G,) [rad]."""
        self._values: FloatArray = np.minimum(np.maximum(values, energy.lower), energy.upper)
        self._state: State
        """State of all frames."""
        self._moving: IntArray = np.array([-1])
        """The frames that move, (n,); none that there is before the descent has begun."""
        self.energy: Energy
        """Energy of these."""
        self.state: State
        """Their state."""
        self.damping: FloatArray
        """Their μ, (n,)."""
        self.held: BoolArray
        """Which of their channels the last step has left on a limit, (n, nv)."""
        self.tied: Part | None = None
        """What ties them together."""
        self.found: Minimum
        """Result, once the descent has ended."""

    def __next__(self) -> None:
        if -1 in self._moving:
            self._state = self._whole.at(self._values)
            if self._callback is not None:
                self._callback(0, self._state)
        self._move(self._going())
        if self._cancelled or not len(self._moving):
            self.found = self._end()
            raise StopIteration
        here, moving, tied = self.state, self._moving, self.tied
        beside = None
        if tied is not None:
            # What the terms over time pull with, for a frame whose own energy has the weight 1.
            beside = tied.times(here.deviation) / tied.shares[:, None] * self.energy.stiffness
        outcome = _Step(self, self.energy.model(here, self.damping, beside, self.held)).attempt()
        groups = moving if tied is None else np.zeros(1, dtype=np.int64)
        precision = self._precision
        farthest = self.by_group(outcome.sizes).max(axis=1)
        # What promises less than the precision of all channels is rounding, or the work of limits.
        least = precision**2 * here.values.shape[1] * self.frames
        decrease = np.abs(outcome.promised)
        left = np.minimum(farthest / (CONTRACTION * self._before[groups]), 1.0)
        # Steps get shorter fast once it is found which limits hold.
        left[self.by_group(outcome.held != self.held).any(axis=(1, 2))] = 1.0
        last = np.clip(farthest, ROUNDING_OFF, self.max_angle)
        self._before[groups] = np.where(outcome.taken, last, self._before[groups])
        rest = (outcome.taken & (left * farthest <= precision)) | (decrease < self._least)
        rest |= ~outcome.taken & (decrease <= least)
        # What is less is no change: a solved pose stays exactly as it is.
        changed = farthest > np.minimum(precision, ROUNDING_OFF)
        taken = (outcome.taken & changed).repeat(self.frames)
        ahead = np.where(
            outcome.taken.repeat(self.frames), left.repeat(self.frames) * outcome.sizes, self._ahead[moving]
        )
        self._ahead[moving] = np.where(rest.repeat(self.frames), 0.0, ahead)
        self._damping[moving] = outcome.damping
        if taken.any():
            self._held[moving] = np.where(taken[:, None], outcome.held, self.held)
            self.state = here.replaced(*_some(self.energy, outcome.state, taken))
            self._state = self._state.replaced(moving, self.state)
        self._iterations[groups] += 1
        self._number += 1
        if self._callback is not None:
            self._cancelled = bool(self._callback(self._number, self._state))

    def _going(self) -> IntArray:
        """The frames that move in the next step."""
        going = self._iterations < self._most
        if self._coupling is None:
            return np.flatnonzero((self._ahead > self._precision) & going)
        farthest = self._ahead.max()
        # While a few frames of a motion have far to go the others wait, but not for the last of the way.
        near = NEARLY * farthest if farthest > ROUGH else -1.0
        going &= farthest > self._precision
        # Those that the terms over time would make follow at once go along.
        span = self._coupling.span
        around = np.convolve(self._ahead > near, np.ones(2 * span + 1))[span : span + len(self._ahead)]
        return np.flatnonzero((around > 0.5) & going)

    def run(self) -> Minimum:
        """Try steps until all groups are at rest."""
        for _ in self:
            pass
        return self.found

    def go_on(
        self, frames: IntArray, max_iterations: int | IntArray, energy: Energy, step_tolerance: float
    ) -> None:
        """Let some frames alone (n,) go on after the end, by other penalty weights or more exactly.

        Args:
            frames: Which.
            max_iterations: How many iterations they may have in all, for all or each, (n,).
            energy: Of all N frames, the same but for its penalty weights.
            step_tolerance: Largest change of a channel at which they are at rest [rad].
        """
        if energy is not self._whole or step_tolerance != self._precision:
            self._ahead[frames] = self._unknown
        self._whole = self.energy = energy
        self._precision = step_tolerance
        self._most = self._iterations.copy()
        self._most[frames] = max_iterations

    def _move(self, frames: IntArray) -> None:
        """Go on with some frames (n,), rising."""
        whole, coupling = self._whole, self._coupling
        self.damping, self.held = self._damping[frames], self._held[frames]
        if coupling is not None:
            deviation = self._state.deviation.copy()
            deviation[frames] = 0.0
            self.tied = coupling.part(frames, deviation)
        if np.array_equal(frames, self._moving):
            return
        self._moving = frames
        every = len(frames) == len(self._ahead)
        self.energy = whole if every else whole.select(frames)
        self.state = self._state if every else self._state.select(self.energy.system.mechanism, frames)

    def _end(self) -> Minimum:
        """Result for the present state."""
        self._move(np.arange(len(self._ahead)))
        energies = self.with_time(self._whole.energies(self._state), self._state.deviation).sum(axis=1)
        converged = self._ahead <= self._precision
        if self._coupling is not None:
            converged = np.array([converged.all()])
        return Minimum(self._state, energies, self._iterations.copy(), converged, self._cancelled)

    @property
    def frames(self) -> int:
        """Number of the frames that move in each group."""
        return 1 if self.tied is None else len(self._moving)

    def by_group(self, per_frame: FloatArray) -> FloatArray:
        """(n, ...) -> (g, n/g, ...)."""
        return per_frame[:, None] if self.tied is None else per_frame[None]

    def largest(self, per_frame: FloatArray) -> FloatArray:
        """Largest absolute value of numbers (n, k) in each group, (g,)."""
        return np.abs(self.by_group(per_frame)).max(axis=(1, 2), initial=0.0)

    def merit(self, energy: Energy, state: State, penalty_weights: FloatArray) -> FloatArray:
        """Merit of frames with an energy, with the terms over time, (g, n/g)."""
        own = energy.penalty_terms(state.squares, penalty_weights).sum(axis=1) + state.posture
        return self.with_time(own, state.deviation)

    def with_time(self, own: FloatArray, deviation: FloatArray) -> FloatArray:
        """Energies of frames alone (n,) with the terms over time, (g, n/g), for u − p (n, nv)."""
        if self.tied is not None:
            own = self.tied.energies(own, deviation, self.energy.stiffness)
        return self.by_group(own)


_Result = TypeVar("_Result")
Plan = Generator[Descent, Minimum, _Result]
"""A search: the descents that are to be run, one after the other, each for its minimum; what they lead to."""


def steps(plan: Plan[_Result]) -> Generator[None, None, _Result]:
    """Run a search; pauses after each trial of a step."""
    try:
        descent = next(plan)
        while True:
            yield from descent
            descent = plan.send(descent.found)
    except StopIteration as end:
        return end.value


def run(plan: Plan[_Result]) -> _Result:
    """Run a search to its end."""
    try:
        descent = next(plan)
        while True:
            for _ in descent:
                pass
            descent = plan.send(descent.found)
    except StopIteration as end:
        return end.value


@dataclass(frozen=True)
class _Outcome:
    """Result of trying a step."""

    taken: BoolArray
    """(G,)."""
    state: State
    """State after the step."""
    sizes: FloatArray
    """Largest change of a channel of each frame, had there been no damping, (n,)."""
    damping: FloatArray
    """μ of the next step, (n,)."""
    promised: FloatArray
    """Decrease of the merit that the model predicts, (g,)."""
    held: BoolArray
    """Channels that stay on their limits for the next step, (n, nv)."""


class _Step:
    """A step from one model."""

    def __init__(self, descent: Descent, model: Model) -> None:
        self._descent, self._model = descent, model
        energy, here = descent.energy, descent.state
        self._energy, self._here = energy, here
        self._tied = descent.tied
        gradient, hessian = model.gradient, model.hessian
        diagonals(hessian)[...] += energy.stiffness
        if self._tied is not None:
            gradient *= self._tied.shares[:, None]
            hessian *= self._tied.shares[:, None, None]
        self._low = (energy.lower - here.values) * energy.weight
        self._high = (energy.upper - here.values) * energy.weight
        self._gradient, self._hessian = gradient, hessian
        if self._tied is None:
            self._straighten()
        self._merit = descent.merit(energy, here, model.penalty_weights)

    def _straighten(self) -> None:
        """Take what bends down in the Hessian of a frame by its absolute value."""
        damped = self._hessian.copy()
        diagonals(damped)[...] += self._descent.damping[:, None] - FLAT
        bent = _bending_down(_mask(damped, self._model.resting))
        if len(bent):
            held, low, high = self._model.resting[bent], self._low[bent], self._high[bent]
            # To the middle of limits.
            between = ~held & np.isfinite(high - low)
            towards = np.add(low, high, where=between, out=np.zeros_like(low))
            masked = _mask(self._hessian[bent], held)
            upward, push = _upward(masked, np.where(held, 0.0, self._gradient[bent]), towards)
            self._hessian[bent] += upward
            self._gradient[bent] += push

    def attempt(self) -> _Outcome:
        """Try the step of each group."""
        descent, energy, here, frames = self._descent, self._energy, self._here, self._descent.frames
        low, high = self._low, self._high
        straight, held, linear = self._newton()
        rows = np.arange(len(straight))
        product, damping = linear.times(straight, rows), linear.damping
        stays = held & _pressed(self._gradient + product, straight, high)
        # Frames that terms over time tie together are cut off alike: else they would be torn apart.
        size = descent.largest(straight)
        # What moves the body as a whole may go as far as its targets are.
        missed = np.abs(here.residual * energy.lengths).max(axis=1, initial=0.0, keepdims=True)
        farther = np.maximum(missed / descent.max_angle, 1.0)
        bounded = descent.largest(np.where(energy.system.rotates, straight, straight / farther))
        short = descent.max_angle / np.maximum(bounded, descent.max_angle)
        size *= short
        square, curvature = (
            descent.by_group((straight * other).sum(axis=1)) for other in (straight, product)
        )
        # With so much more damping the step would have been as short.
        more = (1.0 / short - 1.0) * curvature.sum(axis=1) / np.maximum(square.sum(axis=1), 1e-300)
        curvature /= np.maximum(square * short[:, None], 1e-300)
        straight *= short.repeat(frames)[:, None]
        promised = self._promised(straight)
        wanted = (self._merit - promised).sum(1)
        penalty_weights = self._model.penalty_weights
        there = energy.at(here.values + straight / energy.weight)
        merit = descent.merit(energy, there, penalty_weights)
        left, unworthy = (merit - promised).sum(1), BENT * np.abs(wanted)
        groups = np.flatnonzero(left > unworthy)
        while len(groups):
            # Of frames alone those that are corrected, all of a motion.
            rows = groups if frames == 1 else rows
            some = energy if len(rows) == len(straight) else energy.select(rows)
            back = linear.solve(-self._bent(there, rows), held[rows], rows)
            corrected = np.minimum(np.maximum(straight[rows] + back, low[rows]), high[rows])
            other = some.at(here.values[rows] + corrected / energy.weight)
            other_merit = descent.merit(some, other, penalty_weights[rows])
            before, now = left[groups], (other_merit - promised[groups]).sum(1)
            better = (now < before) & (descent.largest(back) <= size[groups])
            corrects, state = _some(some, other, better.repeat(frames))
            there = there.replaced(rows[corrects], state)
            merit[groups[better]], left[groups[better]] = other_merit[better], now[better]
            # Where little is gone a new model leads further.
            groups = groups[better & (now <= (1.0 - BENT) * before) & (now > unworthy[groups])]
        taken = ((self._merit - merit).sum(1) > 0.0) | ~(size > FINE)
        old = descent.by_group(damping)
        least = np.where(short < 1.0, old.T + more, DAMPING[1]).T
        new = self._next_damping(old, least, curvature, promised, merit, taken)
        moved = descent.by_group(np.abs(there.deviation - here.deviation).max(axis=1))
        # What damping has kept back is still to come, above all where nothing but the posture holds.
        longer = 1.0 + old / np.minimum(np.maximum(curvature - old, FLAT), 1.0)
        return _Outcome(taken, there, (moved * longer).ravel(), new.ravel(), wanted, stays)

    def _newton(self) -> tuple[FloatArray, BoolArray, _Linear]:
        """The step inside the limits (n, nv), channels held there, and the damped Hessian."""
        damping = self._descent.damping
        while True:
            linear = _Linear(self._hessian, damping, self._tied, self._energy.stiffness)
            try:
                change, held = _boxed(linear, self._gradient, self._low, self._high, self._model.resting)
                return change, held, linear
            except np.linalg.LinAlgError:
                # Terms over time hold up what bends down in one frame, but not here.
                del linear  # its matrices are large
            self._straighten()
            damping = np.maximum(damping * GROW, FLAT)

    def _next_damping(
        self,
        old: FloatArray,
        least: FloatArray,
        curvature: FloatArray,
        promised: FloatArray,
        merit: FloatArray,
        taken: BoolArray,
    ) -> FloatArray:
        """μ of the next step, by how well the model told the merit, (g, n/g).

        Args:
            old: μ of this step, (g, n/g).
            least: The least after a step that was taken, (g, n/g).
            curvature: Along the step, (g, n/g).
            promised: The merit that the model had, (g, n/g).
            merit: The merit, (g, n/g).
            taken: Whether the step was taken, (g,).
        """
        promise = self._merit - promised
        wanted = promise.sum(axis=1, keepdims=True)
        # Terms over time are exact in the model; only what frames do on their own is not.
        scale = np.abs(promise) + np.maximum(wanted, 0.0) / np.sqrt(self._descent.frames)
        # What decreases the merit by more than was promised is no reason to go more carefully.
        part = np.maximum(merit - promised, 0.0) / np.maximum(scale, 1e-200)
        factor: FloatArray = np.minimum(np.maximum(np.cbrt(part / TRUSTED), FACTORS[0]), FACTORS[1])
        new = np.maximum(np.maximum(old * factor, DAMPING[1]), least)
        if taken.all():
            return new
        uphill = wanted <= 0.0
        worse = (part >= np.minimum(TRUSTED, part.max(axis=1, keepdims=True))) | uphill
        refused = np.where(worse, GROW * np.maximum(curvature, old), old)
        # Where limits have turned a step uphill its curvature says little: half way, in powers of ten.
        refused = np.where(uphill, np.sqrt(old * refused), refused)
        return np.where(taken[:, None], new, refused)

    def _bent(self, there: State, rows: IntArray) -> FloatArray:
        """Gradient of what in a trial is not linear in its step: of residuals, in some frames, (m, nv)."""
        here, jacobian = self._here, self._model.jacobian[rows]
        bent = (there.residual - here.residual)[rows]
        bent -= times(jacobian, (there.deviation - here.deviation)[rows])
        gradient = (times(self._model.of_rows[rows], bent)[:, None, :] @ jacobian)[:, 0]
        return gradient if self._tied is None else gradient * self._tied.shares[:, None]

    def _promised(self, change: FloatArray) -> FloatArray:
        """The merit of each frame as the linear model of the residual has it, (G, F)."""
        energy, model, here = self._energy, self._model, self._here
        predicted, deviation = here.residual + times(model.jacobian, change), here.deviation + change
        own = energy.penalty_terms(energy.squares(predicted), model.penalty_weights).sum(axis=1)
        own += energy.posture(deviation)
        # What a correction of the bent residual changes in the posture, to second order.
        own += 0.5 * (times(model.curvature, change) * change).sum(axis=1)
        return self._descent.with_time(own, deviation)


class _Linear:
    """The damped systems of frames, tied over time where they are those of a motion."""

    def __init__(
        self, hessian: FloatArray, damping: FloatArray, tied: Part | None, stiffness: FloatArray
    ) -> None:
        self._hessian, self._stiffness = hessian, stiffness
        self.damping = damping
        """μ, (N,)."""
        self._factors: tuple[BoolArray, BandFactors] | None = None
        """Those of the last solution of a motion, and what was held."""
        self._band = None if tied is None else tied.band
        self._added: FloatArray = np.broadcast_to(damping[:, None], hessian.shape[:2])
        """What is added to the diagonals, (N, nv)."""
        if self._band is not None:
            self._added = self._added + self._band.diagonal[:, None] * stiffness

    def solve(self, right: FloatArray, held: BoolArray, rows: IntArray) -> FloatArray:
        """The solution for right sides (m, nv) of some frames, or all of a motion; 0 where channels are held.

        Raises:
            numpy.linalg.LinAlgError: The matrices of a motion are not positive definite.
        """
        right = np.where(held, 0.0, right)
        if self._factors is not None and np.array_equal(held, self._factors[0]):
            return self._factors[1].solve(right)
        self._factors = None  # the largest there is: not twice at once
        matrices = self._hessian[rows]
        diagonals(matrices)[...] += self._added[rows]
        _mask(matrices, held)
        if self._band is None:
            return np.asarray(np.linalg.solve(matrices, right[..., None])[..., 0], dtype=np.float64)
        moving, band = ~held, self._band
        first = band.first[:, None] * self._stiffness * (moving[1:] & moving[:-1])
        second = band.second[:, None] * self._stiffness * (moving[2:] & moving[:-2])
        self._factors = held.copy(), BandFactors(matrices, first, second)
        return self._factors[1].solve(right)

    def times(self, change: FloatArray, rows: IntArray) -> FloatArray:
        """The matrices by changes (m, nv) of some frames, all those of a motion."""
        every = len(rows) == len(self._hessian)
        product = times(self._hessian if every else self._hessian[rows], change) + self._added[rows] * change
        band = self._band
        if band is None:
            return product
        return product + (band.times(change) - band.diagonal[:, None] * change) * self._stiffness

    def tied(self, frames: BoolArray) -> BoolArray:
        """Which of some frames (m,) are in a group with one of the given ones."""
        return frames if self._band is None else np.full(len(frames), frames.any())


def _boxed(
    linear: _Linear, gradient: FloatArray, low: FloatArray, high: FloatArray, held: BoolArray
) -> tuple[FloatArray, BoolArray]:
    """The step inside the box (N, nv), and which channels are held or stopped: the active set."""
    held, change = held.copy(), np.zeros_like(gradient)
    # What cannot move is never let go, anything else once in a step: so it ends.
    kept = held & (low >= high)
    rows = np.arange(len(gradient))
    while len(rows):
        stays = held[rows]
        stopped = np.where(stays, change[rows], 0.0)
        right = -gradient[rows] - linear.times(stopped, rows)
        step = np.where(stays, stopped, linear.solve(right, stays, rows))
        inside = np.minimum(np.maximum(step, low[rows]), high[rows])
        outside = (inside != step) & ~stays
        change[rows] = inside
        back = stays & ~kept[rows]
        if back.any():
            back &= ~_pressed(gradient[rows] + linear.times(step, rows), step, high[rows])
            kept[rows] |= back
        held[rows] = (stays & ~back) | outside
        rows = rows[linear.tied((outside | back).any(axis=1))]
    return change, held


def _pressed(slope: FloatArray, change: FloatArray, high: FloatArray) -> BoolArray:
    """Whether a slope (N, nv) presses channels that are at a limit, the higher or the lower, against it."""
    return np.where(change >= high, slope <= 0.0, slope >= 0.0)


def _mask(matrices: FloatArray, held: BoolArray) -> FloatArray:
    """Make rows and columns of channels that are held (N, n) those of the identity, in matrices (N, n, n)."""
    if held.any():
        matrices[held] = 0.0
        matrices.swapaxes(1, 2)[held] = 0.0
        diagonals(matrices)[...] += held
    return matrices


def _bending_down(matrices: FloatArray) -> IntArray:
    """Which of symmetric matrices (N, n, n) are not positive definite."""
    found: list[int] = []
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        for number, matrix in enumerate(matrices):
            try:
                np.linalg.cholesky(matrix)
            except np.linalg.LinAlgError:
                found.append(number)
    return np.array(found, dtype=np.int64)


def _upward(
    hessians: FloatArray, gradients: FloatArray, towards: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """What is to be added to Hessians (N, n, n) so that their eigenvalues are taken by absolute value.

    And to their gradients, (N, n), so that a step leaves a saddle: where the energy bends down and there is
    next to no slope rounding would decide, and it leads `towards` (N, n). Where that is 0 it leads along the
    direction in which the energy bends down most.
    """
    values, vectors = np.linalg.eigh(hessians)
    upward = np.maximum(np.abs(values), FLAT)
    most = max(1, int((values < FLAT).sum(axis=1).max()))
    bent, height = vectors[:, :, :most], upward[:, :most]
    added = (bent * (upward - values)[:, None, :most]) @ bent.swapaxes(1, 2)
    step = -(gradients[:, None, :] @ bent)[:, 0] / height
    level = (values[:, :most] < -FLAT) & (np.abs(step) < PUSH)
    level[~towards.any(axis=1), 1:] = False
    way = np.where(level, step + PUSH * (towards[:, None, :] @ bent)[:, 0], 0.0)
    way[:, 0] += level[:, 0] & ~way.any(axis=1)
    way *= PUSH / np.maximum(np.linalg.norm(way, axis=1, keepdims=True), 1e-300)
    push = np.where(level & way.any(axis=1, keepdims=True), height * (step - way), 0.0)
    return added, (bent @ push[..., None])[..., 0]


def _some(energy: Energy, state: State, mask: BoolArray) -> tuple[IntArray, State]:
    """Which frames a mask (N,) takes, and a state of all frames (N,) at these."""
    frames = np.flatnonzero(mask)
    return frames, state if mask.all() else state.select(energy.system.mechanism, frames)

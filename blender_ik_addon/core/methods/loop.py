# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop round the papers' step rules: what each is asked, limits, clamps, acceptance, termination.

A rule (`step_rules`) knows a matrix and an error, and gives a small step from where a pose is. Here it gets
those of a stacked problem, in scaled units, where the springs' K is the identity and their energy is half the
square of the posture residual. It is followed from a start until the pose stands still.

**The stacked problem.** The papers know no levels: the tasks of all levels are stacked, and weights alone
compare them. The heaviest counts 1.

Channels are u = W q with W² = 1/(1 − stiffness), so that a stiff channel moves less [ChungChoi1994:
Whitney's weighted inverse]. Lengths, of residuals and of translations, are divided by the reach of the
skeleton, so that a skeleton in centimetres takes the same steps as one in metres, and a miss by the reach
counts as one radian. Beside the residual r stands the posture residual u − p, with p the preferred pose.

**The null space** takes a motion z towards the preferred pose, −α times the posture residual: in
PSEUDO_INVERSE and DLS as Liégeois' gradient; in SPRINGS by settling, Newton's step for their energy; in
EXTENDED_JACOBIAN as wanted displacements of the elements, and in BOUNDED as d = [e; c z]. All of it is
projected onto what the targets' rows leave free, so that at rest the targets are met exactly.

**Strength in proportion to the error** [Sugihara2011]: the damping λ, unless it is to be constant as in
[Buss2009], and the weight w of the elements, which damps likewise.

**Limits.** By an active set: a channel that a step would take through a limit is stopped there, and the rule
is asked again for what is then left of the error with the remaining channels, until none leaves. BOUNDED has
the limits in its rule. So no iterate is ever outside.

**Clamps** [Buss2009 §6]. The largest change of an angle is clamped, to less after a step that brought
nothing; with a clamp distance the error of each place is shortened as well. Clamp distance and alternate
Jacobian change the way and not where it ends: after a step that brought nothing the plain rule is followed,
until it brings nothing either.

**Acceptance.** The papers take every step. Here one is taken if the error falls, or if the posture residual
does while the error stays within a band round the least so far: what a motion along the null space bends is
straightened by the next step. Otherwise the pose stays and the next step is shorter. Out of reach, where the
plain rules jump to and fro for ever, they come to rest so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ..arrays import BoolArray, FloatArray
from ..model.mechanism import PosedMechanism
from ..problem.options import SolverOptions
from ..problem.system import System, tolerance_margin
from .step_rules import (
    GAMMA_MAX,
    basic_elements,
    bounded_least_squares_step,
    clamped_largest,
    clamped_magnitude,
    damped_inverse,
    damped_step,
    extended_jacobian_step,
    null_space_projection,
    pseudo_inverse_step,
    selectively_damped_step,
    springs_step,
    transpose_step,
)

MARGIN: Final = 0.1
"""Part of the tolerances [1] by which an error counts as nothing."""
BAND: Final = 0.02
"""Most by which the error [1] may exceed the least so far while the posture residual falls."""

GROWTH: Final = 2.0
"""Growth of the largest change after a step that was taken."""

SHRINKAGE: Final = 0.25
"""Factor of the largest change or of the step, whichever is less, after a step that was refused."""

GAIN_FACTORS: Final = (1.4, 0.5)
"""Change of α after a step, and after one that bent the error by more than it brought."""

FLOOR: Final = 1e-8
"""Least part [1] of the strengths that is left where the error is nothing: rows that depend on each other
still do."""

FORCE_DAMPING: Final = 1e-3
"""λ of the springs' forces [1], in scaled units, so that they stay moderate at singular poses."""

ON_LIMIT: Final = 1e-9
"""Distance from a limit [rad, m], relative to 1 and to its size, up to which a channel is set on it: a step
that stops there ends so far away by rounding."""

SADDLE: Final = 1e-6
"""Curvature of the error [1], in scaled units, that counts as negative."""

OFF_SADDLE: Final = (0.03, 0.3)
"""Steps by which a pose leaves a saddle [rad], tried in turn until the error decreases."""

FALLS: Final = 1e-9
"""Part [1] of the error, or of the posture residual, by which they must fall to count as falling."""


# The stacked problem


@dataclass(frozen=True)
class Evaluation:
    """The residuals at some values of the free channels."""

    values: FloatArray
    """(nv,) [m, rad], inside the limits."""
    posed: PosedMechanism
    """The mechanism there, one frame."""
    residual: FloatArray
    """r of all tasks, (m,), in scaled units."""
    posture: FloatArray
    """u − p, 0 where a channel prefers nothing, (nv,)."""

    @cached_property
    def error(self) -> float:
        """|r| [1]."""
        return float(np.linalg.norm(self.residual))

    @cached_property
    def strain(self) -> float:
        """|u − p| [1]."""
        return float(np.linalg.norm(self.posture))


class StackedProblem:
    """The tasks of a system of one frame, by scaled channels."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.weight = system.channel_weights
        """W, (nv,) [1/m, 1]."""
        heaviest = system.heaviest.max(initial=0.0)
        self.row_scale: FloatArray = 1.0 / system.row_units / heaviest
        """Factor of each row of the residual, (m,)."""
        preferred = np.atleast_2d(system.preferred)[0]  # of the one frame
        self._prefers = ~np.isnan(preferred)
        self._preferred = np.where(self._prefers, preferred, 0.0) * self.weight
        self.lower, self.upper = (np.atleast_2d(bound)[0] for bound in system.bounds)
        """Between what channels stay, (nv,) each [m, rad]."""
        size = np.abs(np.nan_to_num([self.lower, self.upper], posinf=0.0, neginf=0.0))
        self._on_limit = ON_LIMIT * (1.0 + size)

    @property
    def prefers(self) -> bool:
        """Whether any channel has a preferred value."""
        return bool(self._prefers.any())

    def evaluate(self, values: FloatArray) -> Evaluation:
        """Evaluate at values (nv,), brought inside the limits."""
        posed = self.system.place(np.clip(values, self.lower, self.upper)[None])
        residual = self.system.residual(posed)[0] * self.row_scale
        own = posed.values[0]
        return Evaluation(own, posed, residual, (own * self.weight - self._preferred) * self._prefers)

    def jacobian(self, at: Evaluation, *, alternate: bool = False) -> FloatArray:
        """∂r/∂u, (m, nv); alternate: with targets in place of points [Buss2009 §2]."""
        jacobian = self.system.alternate_jacobian if alternate else self.system.jacobian
        return jacobian(at.posed)[0] * (self.row_scale[:, None] / self.weight)

    def curvature(self, at: Evaluation, forces: FloatArray) -> FloatArray:
        """Σ_k f_k ∂²r_k/∂u∂u for forces (m,), (nv, nv)."""
        curvature = self.system.curvature(at.posed, (forces * self.row_scale)[None])[0]
        return curvature / (self.weight[:, None] * self.weight)

    def moved(self, values: FloatArray, change: FloatArray) -> FloatArray:
        """Values (nv,) after a change of u, inside the limits, and on those that are `ON_LIMIT` away."""
        moved = values + change / self.weight
        moved = np.where(moved <= self.lower + self._on_limit[0], self.lower, moved)
        return np.where(moved >= self.upper - self._on_limit[1], self.upper, moved)

    def room(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Room of u below and above, (nv,) each."""
        return (self.lower - values) * self.weight, (self.upper - values) * self.weight

    def off_saddle(self, at: Evaluation) -> Evaluation | None:
        """Evaluation beside one that is a saddle of the error, with a smaller error; None where it is none.

        A limb stretched towards a target that is nearer has no slope at all, and every rule stands still. It
        is bent a little along the most negative curvature of the error.
        """
        down, up = self.room(at.values)
        free = (down < -OFF_SADDLE[0]) & (up > OFF_SADDLE[0])
        jacobian = self.jacobian(at) * free
        curvature = self.curvature(at, at.residual) * (free[:, None] & free)
        curvatures, directions = np.linalg.eigh(jacobian.T @ jacobian + curvature)
        if curvatures[0] > -SADDLE:
            return None
        direction = directions[:, 0] / np.abs(directions[:, 0]).max()
        if direction @ at.posture > 0.0:  # towards the preferred pose first
            direction = -direction
        for size in OFF_SADDLE:
            for change in (size * direction, -size * direction):
                trial = self.evaluate(self.moved(at.values, change))
                if trial.error < at.error * (1.0 - FALLS):
                    return trial
        return None


# The loop


class Iteration(ABC):
    """A method on its way from a start."""

    def __init__(self, system: System, start: FloatArray, options: SolverOptions) -> None:
        """Prepare.

        Args:
            system: The tasks on a pose of one frame.
            start: Free channels, (nv,) [m, rad].
        """
        self.stacked, self.options = StackedProblem(system), options
        self.margin = MARGIN * tolerance_margin(system, options)
        """Error [1], in scaled units, that counts as nothing."""
        self.at: Evaluation = self.stacked.evaluate(start)
        """The best pose so far."""
        self.errors: list[float] = [self.at.error]
        """|r| at the start and after each iteration [1]."""
        self.most_iterations = options.max_iterations
        """After how many to stop."""
        self.converged = not (system.size and len(self.at.residual))
        """Whether there is no more to be done."""
        self.prefers = options.preferred_pose and self.stacked.prefers and options.uses("redundancy")
        """Whether what the tasks leave free goes to the preferred pose."""

    @property
    def iterations(self) -> int:
        """Iterations so far."""
        return len(self.errors) - 1

    @abstractmethod
    def iterate(self) -> None:
        """Run one iteration."""

    def conclude(self) -> None:  # noqa: B027 (most have nothing to do)
        """Come to an end: no more iterations follow."""

    def run(self, callback: Callable[[int, FloatArray], bool] | None = None) -> bool:
        """Iterate until the pose stands still or the iterations run out.

        Args:
            callback: Given the number of each iteration and the free channels (nv,); True stops.

        Returns:
            Whether the callback has stopped it.
        """
        cancelled = False
        while not (self.converged or cancelled or self.iterations >= self.most_iterations):
            self.iterate()
            cancelled = callback is not None and bool(callback(self.iterations, self.at.values))
        self.conclude()
        return cancelled


class StepRuleLoop(Iteration):
    """A step rule, followed."""

    def __init__(self, system: System, start: FloatArray, options: SolverOptions) -> None:
        super().__init__(system, start, options)
        self._longest = min(options.max_angle, GAMMA_MAX) if options.method == "SDLS" else options.max_angle
        self._rule = self._rules()[options.method]
        self._radius = self._longest
        """Largest change in the next step [rad]."""
        self._gain = options.null_space_gain
        self._straightens = False
        """Whether the next step only straightens what motions of the null space have bent."""
        self._plain = False
        """Whether steps are without clamp distance and alternate Jacobian."""
        if not self.prefers:
            self.converged |= self.at.error <= self.margin  # what is met stays exactly as it is
        self._least = self.at.error
        self._straight = self.at
        """The last pose whose error was the least or nothing."""
        counts = system.row_counts
        self._starts = np.cumsum([0, *counts])[:-1]
        self._effector_rows = _effector_rows(counts)
        self._least_distances: FloatArray | None = None
        """Dmax of each task in scaled units, (T,); None without a clamp."""
        if options.clamp_distance is not None and len(self.at.residual):
            # A task without rows has nothing to be clamped.
            first = np.minimum(self._starts, len(self.at.residual) - 1)
            distances = options.clamp_distance * self.stacked.row_scale[first]
            self._least_distances = np.where(system.angular_rows[first], np.inf, distances)
        self.clamp_distances = self._least_distances
        """Length to which the error of each task is clamped in the next step, (T,); None for no clamp."""
        if self._least_distances is not None and options.clamp_after_jump:
            self.clamp_distances = np.full(len(counts), np.inf)

    def _clamped(self, error: FloatArray) -> FloatArray:
        """The error (m,) with each task's part within its distance."""
        if self.clamp_distances is None or self._plain:
            return error
        parts = zip(np.split(error, self._starts[1:]), self.clamp_distances, strict=True)
        return np.concatenate([clamped_magnitude(part, distance) for part, distance in parts])

    def iterate(self) -> None:
        """Run one step."""
        change = self._step()
        size = float(np.abs(change).max(initial=0.0))
        before, tolerance = self.at, self.options.step_tolerance
        trial = self.stacked.evaluate(self.stacked.moved(before.values, change))
        better = self._is_better(trial)
        self._clamp_after(trial, better)
        self._adapt_gain(trial, better)
        self._plain ^= not better
        if better:
            self.at = trial
            self._least = min(self._least, trial.error)
            if trial.error <= max(self.margin, self._straight.error):
                self._straight = trial
            self._radius = min(GROWTH * self._radius, self._longest)
        else:
            self._radius = SHRINKAGE * min(self._radius, max(size, tolerance))
        met = not self.prefers and self.at.error <= self.margin
        # A rule that gives no step has no more to give; one whose step is refused gives a shorter one.
        if met or size < tolerance or self._radius < SHRINKAGE * tolerance:
            beside = self.stacked.off_saddle(self.at) if self.at.error > self.margin else None
            if beside is None:
                self.converged = True
            else:
                self.at, self._radius = beside, self._longest
        self.errors.append(self.at.error)

    def _is_better(self, trial: Evaluation) -> bool:
        """Whether a trial is to be taken."""
        if trial.error < self.at.error * (1.0 - FALLS):
            return True
        nearer = self.prefers and trial.strain < self.at.strain * (1.0 - FALLS)
        return nearer and trial.error <= max(self._least + BAND, self.margin)

    def _adapt_gain(self, trial: Evaluation, better: bool) -> None:
        """Go less far in the null space where the error rises by more than the posture residual falls.

        The next steps then only straighten what this one has bent, as do those after one that was refused.
        """
        rise = trial.error - self.at.error
        overshoots = better and rise > self.margin and rise > self.at.strain - trial.strain
        if better:
            factor = GAIN_FACTORS[1] if overshoots else 1.0 if self._straightens else GAIN_FACTORS[0]
            self._gain = min(self._gain * factor, self.options.null_space_gain)
        refused = not better and self.at.error > self.margin and not self._straightens
        bent = better and self._straightens and trial.error > max(self.margin, self._least)
        # Springs settle by Newton's step, which overshoots by little.
        self._straightens = (
            self.prefers and self.options.method != "SPRINGS" and (overshoots or refused or bent)
        )

    def conclude(self) -> None:
        """Take back the last steps if they raised the error on their way to the preferred pose."""
        if self.at.error > max(self.margin, self._straight.error):
            self.at = self._straight
            self.errors[-1] = self.at.error

    def _clamp_after(self, trial: Evaluation, better: bool) -> None:
        """After a jump: next time what this step has brought nearer, and Dmax."""
        if self._least_distances is None or not self.options.clamp_after_jump:
            return
        before, after = (np.sqrt(np.add.reduceat(at.residual**2, self._starts)) for at in (self.at, trial))
        self.clamp_distances = self._least_distances + (np.maximum(before - after, 0.0) if better else 0.0)

    def _step(self) -> FloatArray:
        """The step of the rule inside the limits and the radius, (nv,)."""
        at, nothing = self.at, np.zeros_like(self.at.posture)
        alternate = self.options.alternate_jacobian and not self._plain
        jacobian = self.stacked.jacobian(at, alternate=alternate)
        whole = jacobian, self._clamped(-at.residual), at.posture if self.prefers else nothing
        held, fixed = np.zeros(len(nothing), dtype=np.bool_), nothing
        limits = self.stacked.room(at.values)
        downhill = whole[1] @ jacobian
        while True:
            wanted = self._rule(LinearModel(*whole, held, fixed))
            change = clamped_largest(np.where(held, fixed, wanted), self._radius)
            inside = np.clip(change, *limits)
            beyond = np.where(held, 0.0, np.abs(change - inside))
            if not beyond.any():
                return inside
            # What downhill itself presses against a limit is held at once. Others may leave only as long as
            # those are not held: the furthest first.
            pressed = (beyond > 0.0) & (downhill * change > 0.0) & (inside == 0.0)
            leaves = pressed if pressed.any() else beyond == beyond.max()
            held = held | leaves
            fixed = np.where(leaves, inside, fixed)

    # What each method asks of its rule

    def _rules(self) -> dict[str, Callable[[LinearModel], FloatArray]]:
        """The change du (nv,) of each method, before limits and clamps."""
        return {
            "DLS": self._damped,
            "SDLS": self._selectively_damped,
            "PSEUDO_INVERSE": self._pseudo_inverse,
            "TRANSPOSE": self._transpose,
            "SPRINGS": self._springs,
            "EXTENDED_JACOBIAN": self._extended_jacobian,
            "BOUNDED": self._bounded,
        }

    def _null_motion(self, model: LinearModel) -> FloatArray:
        """z, the motion that the null space is to take, (nv,)."""
        return -(0.0 if self._straightens else self._gain) * model.posture

    def _damping(self) -> float:
        """λ [1]."""
        return self.options.damping * (1.0 if self.options.constant_damping else self._error_share())

    def _error_share(self) -> float:
        """Factor of strengths that are in proportion to the error [1]."""
        return min(self.at.error, 1.0) + FLOOR

    def _transpose(self, model: LinearModel) -> FloatArray:
        return transpose_step(model.jacobian, model.error)

    def _pseudo_inverse(self, model: LinearModel) -> FloatArray:
        return pseudo_inverse_step(model.jacobian, model.error, self._null_motion(model))

    def _damped(self, model: LinearModel) -> FloatArray:
        change, wanted = damped_step(model.jacobian, model.error, self._damping()), self._null_motion(model)
        return change + null_space_projection(model.jacobian) @ wanted if wanted.any() else change

    def _selectively_damped(self, model: LinearModel) -> FloatArray:
        rows = self._effector_rows
        return selectively_damped_step(model.jacobian, model.error, rows, gamma_max=self._radius)

    def _springs(self, model: LinearModel) -> FloatArray:
        forces = damped_inverse(model.jacobian, FORCE_DAMPING).T @ model.posture
        bend = self.stacked.curvature(self.at, forces)
        return springs_step(
            model.jacobian,
            model.error,
            np.ones_like(model.posture),
            model.posture,
            np.where(model.held[:, None] | model.held, 0.0, bend),
            settling=0.0 if self._straightens else self._gain,
            damping=self._damping(),
        )

    def _extended_jacobian(self, model: LinearModel) -> FloatArray:
        of_all = basic_elements(self.at.posed)[0] / (self.stacked.system.reach * self.stacked.weight)
        elements = np.where(model.held, 0.0, of_all)
        nothing = np.zeros_like(model.error)
        wanted = pseudo_inverse_step(model.jacobian, nothing, self._null_motion(model))
        # What the channels that are held do to the elements is done already.
        displacement = elements @ wanted - of_all @ model.fixed
        weight = self.options.element_weight * self._error_share()
        return extended_jacobian_step(model.jacobian, model.error, elements, displacement, weight=weight)

    def _bounded(self, model: LinearModel) -> FloatArray:
        """Twice: what the limits hold in the first step takes no part in the null space of the second."""
        jacobian, error, wanted = model.jacobian, model.error, self._null_motion(model)
        room = self.stacked.room(self.at.values)
        lower, upper = (np.clip(bound, -self._radius, self._radius) for bound in room)
        change = bounded_least_squares_step(jacobian, error, lower, upper, self._damping())
        if not wanted.any():
            return change
        free = (change > lower) & (change < upper)
        null = null_space_projection(np.where(free, jacobian, 0.0)) @ np.where(free, wanted, 0.0)
        # |J dq − e|² + c²|dq − z|² is the same rule about z.
        about = error - jacobian @ null
        return null + bounded_least_squares_step(jacobian, about, lower - null, upper - null, self._damping())


class LinearModel:
    """A linear model of the residual by the channels that a step may still move, in scaled units."""

    def __init__(
        self, jacobian: FloatArray, error: FloatArray, posture: FloatArray, held: BoolArray, fixed: FloatArray
    ) -> None:
        """Take out the channels that are held, (nv,), after their changes, 0 for others, (nv,)."""
        self.jacobian = np.where(held, 0.0, jacobian)
        """(m, nv)."""
        self.error = error - jacobian @ fixed
        """What these leave of it, (m,)."""
        self.posture = np.where(held, 0.0, posture)
        """Posture residual, (nv,)."""
        self.held, self.fixed = held, fixed


def _effector_rows(row_counts: Sequence[int]) -> tuple[int, ...]:
    """Rows of what SDLS takes for effectors: tasks about joints, up to three each; of others row by row."""
    return tuple(rows for count in row_counts for rows in ([count] if count <= 3 else [1] * count) if rows)

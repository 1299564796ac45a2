# SPDX-License-Identifier: GPL-3.0-or-later
"""Lowering one level on what the levels above leave.

**Steps.** An iteration takes Newton's step back to where the levels above are held, as far as the last one
has left them (`hierarchy`), and with it the least of a quadratic model of the level along them (`steps`).

**The model** is that of Gauss and Newton, damped in proportion to the error, λ² = μ|r|² [Sugihara2011], as
long as the residual falls well; for a level that cannot be met, and for the preferred pose, the curvature of
the Lagrangian is added, for a level with the residual that the step will leave (`steps.lasting`).

**Return.** The directions along the holds are straight, the holds are not: so before a step is judged the
pose goes back to them by Newton's steps of the levels above alone. A step is taken when the cost, there, has
fallen by a fair part of what the model promised. A pose in which a level above has lost or gained more than
the slack is never taken, whatever the level below would gain: priorities are strict by construction.

**Rest** is a step of Newton's method too small to count, or one that promises nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray
from .hierarchy import Footing, Hold, Place
from .objective import Objective, Point
from .steps import TangentStep, lasting, put_back, tangent_step

DAMPING: Final = 1e-2
"""μ of λ² = μ|r|² [1]."""
STUBBORN: Final = 0.5
"""A level that keeps more than this part of its residual in a step gets its curvature in the next [1]."""

RADIUS_FACTORS: Final = (0.25, 0.5, 2.0)
"""Change of the trust radius after a step that was not taken, a poor one and a good one that it cut short."""
FAIR, POOR, GOOD = 0.05, 0.25, 0.7
"""Part of the promised fall [1] from which a step is taken, and from which it is no longer poor, or good."""
SMALLEST_RADIUS: Final = 1e-9
"""Trust radius [rad] below which nothing gets better any more."""

STRAIGHTENINGS: Final = 2
"""How often what a step has bent is put back."""
STEEP: Final = 20.0
"""Least curvature of a valley's sides [1], in falls of a step along it by the square of its length."""
LEAST_STEEP: Final = 1e-9
"""Likewise as it is [1]."""
WORTH: Final = 0.01
"""Part of the fall of a step [1] that to put back what it has bent must bring."""
BENT_AWAY: Final = 0.5
"""Most of what is put back, as a part of the step [1]."""

RETURNS: Final = 8
"""Most Newton steps back to the holds, each one forward kinematics with derivatives."""
LEFT: Final = (0.03, 1e-5)
"""Way back [rad] that a step may leave to the next one, as a part of it and at all."""
RETURNED: Final = 1e-9
"""Way back [rad] that is none for a step that is judged."""
AT_REST: Final = 1e-12
"""Way back [rad] that is none in the end."""
DIVERGED: Final = 4.0
"""Growth of the way back [1] with which a return has failed."""
STOPS: Final = 8
"""How often a way back is found again because channels reached their limits."""

PROMISE: Final = 1e-14
"""Fall of ½|r|² that is not worth a step, as a part of it and of |r|."""
ROUNDING: Final = 1e-13
"""Likewise what may be rounding."""
BESIDE: Final = 10.0
"""Error of a cost, in squares of the way back that is left [1/rad²]."""

NEARLY_MET: Final = 10.0
"""In slacks [1], the residual at which a level that falls slowly is left alone: with a limb just as long as
its target is far the cost is flat to fourth order, and no step brings much."""
SLOW: Final = (4, 0.5)
"""Iterations, and the part of the residual that is left after them [1], for falling slowly."""

HOPELESS: Final = (3, 0.05)
"""Iterations, and the part of the fall that is wanted [1] below which they have brought too little."""

PRESSED: Final = 1e-8
"""Slope against a limit [1] with which a channel is held there for lower levels."""
LOOSE: Final = 1e-10
"""Likewise away from it with which it is let go."""
HELD: Final = 1e-4
"""Singular value of a level, on what is left to it and as a part of its size [1], from which its rows
hold."""
SMALLEST_HELD: Final = 1e-7
"""The same for a level that has not come to rest."""
BENT: Final = (1e-6, 30.0)
"""Curvature of a pull that holds, as a part of the level's size and in units of the slope that is left
[1]."""


class Descent:
    """The descent of one level of one frame, in progress."""

    def __init__(
        self,
        objective: Objective,
        values: FloatArray,
        *,
        level: int,
        holds: Sequence[Hold] = (),
        slack: float,
        max_angle: float,
        step_tolerance: float,
        damping: float = DAMPING,
    ) -> None:
        """Start a descent.

        Args:
            objective: What to lower.
            values: Where to start, (1, nv); brought inside the limits.
            level: Number of the level; that after the last of the tasks is the wish.
            holds: The levels above it, the highest first.
            slack: |r| [1], in scaled units, that counts as nothing.
            max_angle: Largest change in one step [rad].
            step_tolerance: Largest change [rad] at which the pose counts as standing still.
            damping: μ of λ² = μ|r|² [1].
        """
        nv = objective.system.size
        self._objective, self._level, self._holds = objective, level, tuple(holds)
        self._slack, self._max_angle, self._step_tolerance = slack, max_angle, step_tolerance
        self._damping = damping
        self._is_wish = level == objective.levels
        self._pressed = np.zeros(nv, dtype=np.bool_)
        """Channels that the levels above press against a limit, (nv,)."""
        for hold in holds:
            self._pressed |= hold.pressed
        self._last: Footing | None = None
        self._place = self._start = Place(objective, objective.at(objective.clipped(values)))
        self._footing = self._footing_at(self._place)
        self._back = self._way_back(self._place, self._footing.fixed)
        """The way back to the holds that is left, inside the limits, (nv,)."""
        self._radius = max_angle
        self._stubborn = self._is_wish
        self.iterations = 0
        self.finished = nv == 0
        """Whether the pose stands still."""
        self.history: list[FloatArray] = [self.task_norms]
        """|r| of all levels of the tasks, after each iteration."""

    @property
    def point(self) -> Point:
        """The pose so far."""
        return self._place.point

    def may_come_to(self, norm: float) -> bool:
        """Whether the level can still be expected to fall to some |r| [1], by how it has fallen of late."""
        count, part = HOPELESS
        if len(self.history) <= count + 1:
            return True
        now, before = (float(self.history[-back][0, self._level]) for back in (1, 1 + count))
        return before**2 - now**2 >= part * (now**2 - norm**2)

    @property
    def task_norms(self) -> FloatArray:
        """|r| of all levels of the tasks, (1, levels)."""
        return self.point.norms[:, :-1]

    def iterate(self) -> None:
        """One step."""
        self.iterations += 1
        self._iterate()
        self.history.append(self.task_norms)

    def _iterate(self) -> None:
        place, level = self._place, self._level
        norm = place.norm(level)
        back = self._part_of_way_back
        step = self._step(self._stubborn)
        change = back + step.change
        if not self._stubborn and norm > self._slack:
            promised = place.residuals[level] + place.jacobians[level] @ change
            if float(np.linalg.norm(promised)) > STUBBORN * norm:
                step = self._step(curved=True)
                change = back + step.change
        size = float(np.abs(change).max(initial=0.0))
        off = float(np.abs(self._back).max(initial=0.0))
        before = place.cost(level, back)
        still = max(size, off) <= self._step_tolerance and not step.cut
        extent = max(norm, self._slack) + before
        idle = step.fall <= PROMISE * extent and off <= self._step_tolerance
        if still or idle or self._radius < SMALLEST_RADIUS:
            self.finished = True
            if not still or size <= AT_REST:
                return
        returned = self._returned(self._moved(self._place, change), step)
        if returned is not None:
            trial, left = self._straightened(*returned, change, step)
            after = trial.cost(level, left)
            off = max(off, float(np.abs(left).max(initial=0.0)))
            rounding = ROUNDING * extent + BESIDE * off**2
            if after <= before - FAIR * step.fall + rounding:
                self._adapt_radius((before - after) / max(step.fall, PROMISE), step.cut, size)
                self._take(trial, left)
                return
        # It may be that the step was measured from beside the holds.
        self._radius = RADIUS_FACTORS[0] * min(self._radius, size)
        self._go_back()

    @property
    def _part_of_way_back(self) -> FloatArray:
        """As much of the way back to the holds as the trust radius allows, (nv,)."""
        size = float(np.abs(self._back).max(initial=0.0))
        return self._back * min(1.0, self._radius / max(size, AT_REST))

    def _step(self, curved: bool) -> TangentStep:
        """The step along the holds."""
        footing, level = self._footing, self._level
        jacobian = self._place.jacobians[level]
        gradient = self._place.gradient(level)
        hessian = jacobian.T @ jacobian
        scale = float(np.linalg.norm(hessian))
        if not curved:
            np.fill_diagonal(hessian, hessian.diagonal() + self._damping * self._place.norm(level) ** 2)
        elif self._is_wish:
            hessian += footing.curvature(level, gradient)
        else:
            force = lasting(jacobian @ footing.along, self._place.forces[level])
            hessian += footing.pull_curvature(level, force)
        back = self._part_of_way_back
        down, up = (bound[0] for bound in self._objective.room(self.point.values))
        curvature = footing.projected(hessian)
        return tangent_step(
            footing.along.T @ (gradient + hessian @ back),
            0.5 * (curvature + curvature.T),
            footing.along,
            back,
            (down, up),
            self._radius,
            max(scale, float(np.linalg.norm(hessian))),
        )

    def _adapt_radius(self, ratio: float, cut: bool, size: float) -> None:
        """Adapt the trust radius to what part of its promise a step has kept."""
        _, poor, good = RADIUS_FACTORS
        if ratio < POOR:
            self._radius = poor * min(self._radius, size)
        elif ratio > GOOD and cut:
            self._radius = min(good * self._radius, self._max_angle)

    def _take(self, trial: Place, back: FloatArray) -> None:
        """Go on from a trial."""
        before = self._place.norm(self._level)
        self._stand_at(trial, back)
        if self._is_wish:
            return
        norm, (count, part) = trial.norm(self._level), SLOW
        self._stubborn = norm > max(STUBBORN * before, self._slack)
        if norm <= self._slack:
            self.finished |= norm > (1.0 - STUBBORN) * before
        elif norm <= NEARLY_MET * self._slack and len(self.history) > count:
            self.finished |= norm > part * float(self.history[-count][0, self._level])

    def _stand_at(self, place: Place, back: FloatArray) -> None:
        self._place, self._back = place, back
        self._footing = self._footing_at(place)
        self._holds = self._footing.tracked(self._holds)

    # The holds

    def _footing_at(self, place: Place) -> Footing:
        """What the holds leave at a place, without the channels that the level presses against a limit."""
        stands = self._objective.on_limit(place.point.values)[0] & ~self._pressed
        footing = self._footing_with(place, self._pressed | stands)
        if not stands.any():
            return footing
        if not footing.whole:
            # What holds keep where it is must not be fixed as well: too few channels would be left for them.
            stands &= self._footing_with(place, self._pressed).moves
            footing = self._footing_with(place, self._pressed | stands)
            if not (stands.any() and footing.whole):
                return self._footing_with(place, self._pressed)
        presses = stands & (self._pressure(footing) > -LOOSE)
        if (presses == stands).all():
            return footing
        return self._footing_with(place, self._pressed | presses)

    def _footing_with(self, place: Place, fixed: BoolArray) -> Footing:
        """What the holds leave at a place with some channels fixed; that asked for last is kept."""
        last = self._last
        if last is None or last.place is not place or (last.fixed != fixed).any():
            last = self._last = Footing(place, self._holds, fixed)
        return last

    def _pressure(self, footing: Footing) -> FloatArray:
        """How strongly the level presses each channel against the limit on which it stands, (nv,)."""
        pull = -footing.unbalanced(footing.place.gradient(self._level))
        down, up = (bound[0] for bound in self._objective.room(footing.place.point.values))
        pressure = np.where(up <= 0.0, pull, np.where(down >= 0.0, -pull, 0.0))
        return np.where((up <= 0.0) & (down >= 0.0), np.abs(pull), pressure)

    def _way_back(self, place: Place, fixed: BoolArray) -> FloatArray:
        """The way back to the holds that leaves no limit, (nv,)."""
        if not self._holds:
            return np.zeros(len(fixed))
        down, up = (bound[0] for bound in self._objective.room(place.point.values))
        back = np.zeros(len(fixed))
        for _ in range(STOPS):
            back = self._footing_with(place, fixed).back
            out = ((back < down) | (back > up)) & ~fixed
            if not out.any():
                return back
            fixed = fixed | out
        return np.clip(back, down, up)

    def _moved(self, place: Place, change: FloatArray) -> Place:
        objective = self._objective
        return Place(objective, objective.at(objective.moved(place.point.values, change[None])))

    def _straightened(
        self, trial: Place, left: FloatArray, change: FloatArray, step: TangentStep
    ) -> tuple[Place, FloatArray]:
        """A trial and what is left of its way back, (nv,), with what the change (nv,) has bent put back.

        A level that cannot be met often lies in a valley that winds, its floor thousands of times flatter
        than its sides: a straight step along it ends high on a side, and is undone by the next. What the
        linear model of the residuals has missed is taken away across the valley (`steps.put_back`).
        """
        level, place = self._level, self._place
        size = float(np.linalg.norm(step.change))
        if self._is_wish or size <= self._step_tolerance:
            return trial, left
        jacobian = place.jacobians[level]
        promised = place.residuals[level] + jacobian @ change
        sides = jacobian @ step.free
        steepness = max(STEEP * step.fall / size**2, LEAST_STEEP)
        most = BENT_AWAY * float(np.abs(step.change).max(initial=0.0))
        for _ in range(STRAIGHTENINGS):
            missed = trial.residuals[level] + trial.jacobians[level] @ left - promised
            part, fall = put_back(sides, missed, steepness)
            back = step.free @ part
            if fall <= WORTH * step.fall or float(np.abs(back).max(initial=0.0)) > most:
                break
            down, up = (bound[0] for bound in self._objective.room(trial.point.values))
            returned = self._returned(self._moved(trial, np.clip(back, down, up)), step)
            if returned is None or returned[0].cost(level, returned[1]) >= trial.cost(level, left):
                break
            trial, left = returned
        return trial, left

    def _returned(self, place: Place, step: TangentStep) -> tuple[Place, FloatArray] | None:
        """Where a step leads when the holds have been put right, and what is left of the way back, (nv,).

        None where that fails.
        """
        if not self._holds:
            return place, np.zeros_like(self._back)
        enough = min(LEFT[0] * float(np.abs(step.change).max(initial=0.0)), LEFT[1])
        fixed = self._footing.fixed | step.stopped
        least = self._max_angle
        for _ in range(RETURNS):
            stands = self._pressed | self._objective.on_limit(place.point.values)[0]
            back = self._way_back(place, fixed & stands)
            left = float(np.abs(back).max(initial=0.0))
            if left <= max(enough, RETURNED):
                return (place, back) if self._stays(place, back) else None
            if left > DIVERGED * least:
                return None
            least = min(left, least)
            place = self._moved(place, back)
        return None

    def _stays(self, place: Place, back: FloatArray) -> bool:
        """Whether all residuals of the levels above are where they are held, but for the way back (nv,)."""
        for hold in self._holds:
            wrong = place.residuals[hold.level] - hold.residual + place.jacobians[hold.level] @ back
            if float(np.linalg.norm(wrong)) > self._slack:
                return False
        return True

    def _go_back(self) -> None:
        """Go back to the holds as exactly as can be."""
        for _ in range(RETURNS):
            left = float(np.abs(self._back).max(initial=0.0))
            if left <= AT_REST:
                return
            place = self._moved(self._place, self._back)
            back = self._way_back(place, self._footing.fixed)
            if float(np.abs(back).max(initial=0.0)) > STUBBORN * left or not self._stays(place, back):
                return
            self._stand_at(place, back)

    def conclude(self) -> None:
        """Go back to the holds in the end, and to the start where that fails."""
        self._go_back()
        if not self._stays(self._place, np.zeros_like(self._back)):
            self.finished = False
            self._stand_at(self._start, np.zeros_like(self._back))
        self.history[-1] = self.task_norms

    def hold(self) -> Hold:
        """The level held where it is now, for those below."""
        place, level = self._place, self._level
        jacobian = place.jacobians[level]
        pressed = self._footing.fixed & ~self._pressed & (self._pressure(self._footing) > PRESSED)
        footing = self._footing_with(place, self._pressed | pressed)
        size = float(np.linalg.norm(jacobian))
        left, sizes, right = np.linalg.svd(jacobian @ footing.along)
        kept = left[:, : int((sizes > HELD * size).sum())]
        nothing = np.zeros((len(pressed), 0))
        met = place.norm(level) <= self._slack
        # What counts as nothing is held as nothing: else each solve would add to what the last has used up.
        held = np.zeros_like(place.residuals[level]) if met else place.residuals[level]
        hold = Hold(level, held, kept, None, nothing, pressed)
        along = footing.along @ right[kept.shape[1] :].T
        if met or not along.shape[1]:
            return hold
        force = place.forces[level]
        pull = force / float(np.linalg.norm(force))
        slope = along.T @ (pull @ jacobian)
        matrix = along.T @ footing.pull_curvature(level, pull) @ along
        bends, directions = np.linalg.eigh(0.5 * (matrix + matrix.T))
        flat = BENT[0] * size + BENT[1] * float(np.linalg.norm(slope))
        bent = bends > flat
        directions, slope = directions[:, bent], directions[:, bent].T @ slope
        # What it would fall by: along the directions that its pull bends, and along those that its rows hold.
        falls = 0.5 * float(np.sum(slope**2 / bends[bent])), 0.5 * float(pull @ kept @ kept.T @ force)
        if bends[0] < -flat or max(falls) > self._slack:
            # Not at its best: its pull would go on, so that the rows alone have to hold it.
            kept = left[:, : int((sizes > SMALLEST_HELD * size).sum())]
            return Hold(level, place.residuals[level], kept, None, nothing, pressed)
        return Hold(level, place.residuals[level], kept, pull, along @ directions, pressed)

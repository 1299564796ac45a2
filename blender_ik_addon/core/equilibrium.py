# SPDX-License-Identifier: GPL-3.0-or-later
"""A pose in which pulls of bounded strength, limits and the preferred pose balance.

Each group t of tasks pulls with a force that hardly grows with its residual r_t, and a spring draws every
channel to its preferred value. The pose rests where the energy

    Φ(u) = Σ_t F_t (√(δ² + |r_t|²) − δ + ½κ|r_t|²) + ½|w(u)|² + ½c|b(u)|²,  lower <= u <= upper,

w = u − preferred and b how far channels are inside the margins of their limits, has a minimum. A group that
needs less than its strength F_t to be held is met, but for a small part of δ; one that needs more gives way,
and goes on pulling with little more than F_t: an exact penalty [NocedalWright2006 §17.2], rounded off by δ.
A group may be a task, as in `yielding`, or a whole level of them, as in `pursuit`: then strengths without end
would give what strict levels do.
So what is weak yields to what is strong, as with levels of priorities, but gradually: Φ is smooth, and its
minimum moves smoothly with the targets, also where tasks begin to give way and where nothing can be reached
any more, as long as forces are not many times those of the springs: then a body has several poses to be
stretched into, and snaps from one to the next.

**Margins.** A limb that is pulled straight ends on the limit of its knee, and what pushes it back would push
on its two ends and not bend it: it would stay straight until it snaps. So each limit may have a margin,
narrower where the preferred pose is nearer to the limit, in which a spring of stiffness c draws the channel
out again.

**Steps** are Newton's. The force F_t y_t of a task, |y_t| <= 1, is carried along as an unknown of its own,
y_t √(δ² + |r_t|²) = r_t, and both equations are linearised together [ChanGolubMulet1999]: plain Newton steps
would fail as soon as a residual is larger than δ. The curvature of the tasks counts with the forces y, for it
is what decides far out of reach; where the model is not convex, directions that bend down are taken to bend
up as much: a shift of all would let one of them, as the pole of a straight limb, stop all the others. Limits
are an active set in each step.

**Pace.** The change of a pose may be bounded, angle by angle: then the pose is the one with the least Φ so
near to where it began, in which what holds firmly holds, and goes on from there the next time.

**Acceptance.** The motion of a step is bent and the model straight, so tasks that hold firmly are put right
by the factors of the step (a second-order correction [NocedalWright2006 §18.3]). A step is taken when Φ
falls.

All of this is for one frame, in the units of `objective`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray, IntArray
from .objective import Objective, Stand
from .pulls import Pulls

GROWTH: Final = 0.1
"""κ [1]: growth of a pull with the distance, in reaches or [rad]. Without it two equal pulls would not care
which of them gives way."""

MARGIN: Final = 0.25
"""Widest margin of a limit [rad]."""
MARGIN_PART: Final = 0.2
"""Widest margin as a part of the way between two limits [1]."""
FIRMNESS: Final = 20.0
"""c [1]: stiffness in margins, by that of the wish for the preferred pose."""

MAX_CHANGE: Final = 0.5
"""Largest change of a channel in one step [rad]."""
GROW: Final = 2.0
"""Change of the trust radius after a step that was taken."""
SHRINK: Final = (0.1, 0.5)
"""Least and most of it after one that was not; between them it ends where a parabola has its least."""
FIRST_RADIUS: Final = 0.05
"""Least trust radius [rad] with which another movement begins."""
SMALLEST_RADIUS: Final = 1e-7
"""Trust radius [rad] below which nothing gets better any more."""

LEAST_CURVATURE: Final = 2.0
"""Least curvature of a model that was not convex [1], twice that of the wish; more by as much as a direction
has bent down."""

CORRECTIONS: Final = 3
"""Most second-order corrections of a step, each one forward kinematics."""
KEPT: Final = (0.7, 0.3)
"""Part of the promised fall [1] from which a step needs no correction, and no further one."""
LARGE_STEP: Final = 1e-4
"""Change [rad] from which a step may need a correction."""

QUADRATIC: Final = 1e-4
"""Change [rad] in a step of Newton's method after which the next one would change nothing to speak of."""
STILL: Final = 1e-6
"""The same in a step of a model that was not convex, or that was cut short [rad]."""
MET: Final = 1e-2
"""Miss of orientations [rad] up to which they curve as those that are met, which costs less: only how fast
steps converge hangs on it."""
YIELDING: Final = 1.15
"""√(δ² + |r|²) by δ [1] of what half of its strength holds."""
ROUNDING: Final = 1e-12
"""Part of Φ, and of 1, that may be rounding."""

ACTIVE_SETS: Final = 40
"""Most sets of limits that are tried for a step."""
RELEASED: Final = 1e-9
"""Slope away from a limit [1] from which a channel is let go."""


@dataclass(frozen=True)
class _Model:
    """A quadratic model of Φ at a place."""

    slope: FloatArray
    """g, (nv,)."""
    curvature: FloatArray
    """H, (nv, nv)."""
    jacobian: FloatArray
    """J of all tasks, (m, nv)."""
    stiffness: FloatArray
    """D, how the forces on the rows change with the residuals, (m, m)."""


@dataclass(frozen=True)
class _Step:
    """The least of a model inside the limits."""

    change: FloatArray
    """(nv,)."""
    moving: IntArray
    """Channels that no limit holds."""
    inverse: FloatArray
    """Of the curvature of those, made convex where it was not."""
    plain: bool
    """Whether it was convex as it is."""
    fall: float
    """By how much the model falls."""


class Equilibrium:
    """A pose on its way to where all forces balance."""

    def __init__(
        self,
        objective: Objective,
        values: FloatArray,
        strengths: FloatArray,
        softness: float,
        last: Equilibrium | None = None,
        most_turn: float | None = None,
        *,
        groups: Sequence[int] | None = None,
        margins: bool = True,
    ) -> None:
        """Prepare.

        Args:
            objective: The tasks.
            values: Where to start, (1, nv); brought inside the limits.
            strengths: F, (T,).
            softness: δ [1], in reaches or [rad].
            last: One for the same tasks with other targets, whose forces and limits are likely to hold here.
            most_turn: How far each angle may change at most [rad]; None for as far as it needs.
            groups: How many of the stacked rows pull together, (T,); None for each task by itself.
            margins: Whether limits have margins.
        """
        self._objective, self._softness = objective, softness
        counts = np.array(objective.system.row_counts if groups is None else groups, dtype=np.int64)
        self._starts = np.cumsum(counts) - counts
        self._group_of = np.repeat(np.arange(len(counts)), counts)
        self._together: BoolArray = self._group_of[:, None] == self._group_of
        """Which rows are of the same group, (m, m)."""
        self._angular: BoolArray = np.concatenate(objective.system.angular_rows)
        """Which rows are angles, (m,)."""
        self._strengths = strengths
        self._strength = strengths[self._group_of]  # (m,)
        self.stand: Stand = objective.stand(objective.clipped(objective.unwound(values)))
        """Where the pose is."""
        self._pull: FloatArray = np.zeros(len(self._group_of))
        """y, (m,)."""
        self._held: BoolArray = np.zeros(values.shape[1], dtype=np.bool_)
        """Channels that limits hold, (nv,)."""
        self._radius = MAX_CHANGE
        if last is not None and last.alike(self):
            self._radius = last._radius
            self._pull, self._held = last.carried
        self._margins = _margins(objective) if margins else np.zeros((2, values.shape[1]))
        turns = objective.weight * (np.inf if most_turn is None else most_turn)
        self._turns: FloatArray = np.where(objective.system.rotates, turns, np.inf)
        """How far each channel may go from where it began, (nv,)."""
        self._first: FloatArray = self.stand.values[0]
        """Where it began, (nv,) [m, rad]."""
        self.iterations = 0
        self.settled = False
        """Whether the pose stands still."""

    def relax(self, most_iterations: int) -> None:
        """Go on until the pose stands still, or for some iterations."""
        radius, energy = self._radius, self._energy(self.stand)
        known: tuple[_Model, _Step] | None = None  # where the last step was not taken
        while not self.settled and self.iterations < most_iterations:
            self.iterations += 1
            if known is None:
                model = self._model()
                known = model, self._step(model)
            model, step = known
            size = float(np.abs(step.change).max(initial=0.0))
            share = min(1.0, radius / size) if size > radius else 1.0
            trial, after = self._tried(model, step, share, energy)
            if after <= energy + ROUNDING * (1.0 + abs(energy)):
                self._pull = self._pull_after(model.jacobian @ step.change, share)
                self.stand, energy, known = trial, after, None
                plain = step.plain and share == 1.0
                self.settled = size * share <= (QUADRATIC if plain else STILL)
                radius = min(MAX_CHANGE, GROW * radius)
            else:
                promised = share * step.fall
                least = promised / max(after - energy + 2.0 * promised, np.finfo(np.float64).tiny)
                radius = min(max(least, SHRINK[0]), SHRINK[1]) * min(radius, size)
                self.settled = radius < SMALLEST_RADIUS
        self._radius = min(MAX_CHANGE, max(GROW * radius, FIRST_RADIUS))
        self.settled = self.settled and not self._stopped.any()

    @property
    def _stopped(self) -> BoolArray:
        """Channels that have turned as far as they may, and stand on no limit, (nv,)."""
        return self._held & ~self._objective.on_limit(self.stand.values)[0]

    @property
    def stopped(self) -> bool:
        """Whether it would go on but for how far it may turn."""
        return bool(self._stopped.any())

    @property
    def carried(self) -> tuple[FloatArray, BoolArray]:
        """What is likely to hold for other targets too: forces y, and channels held by limits."""
        return self._pull, self._held & ~self._stopped

    def alike(self, other: Equilibrium) -> bool:
        """Whether another has as many rows and channels."""
        return self._pull.shape == other._pull.shape and len(self._held) == len(other._held)

    # Forces

    @property
    def gives_way(self) -> bool:
        """Whether any group is off by more than it would be if half of its strength held it."""
        return bool((self._sizes(self.stand.residual[0]) > YIELDING * self._softness).any())

    def pulls(self, rows: Sequence[Sequence[int]]) -> Pulls:
        """The forces at the pose, of tasks that have these of the stacked rows."""
        jacobian = self._objective.stacked_jacobian(self.stand.posed)[0]
        force = self._force(self.stand.residual[0])
        pulled = jacobian * force[:, None]
        forces = np.array([pulled[list(own)].sum(axis=0) for own in rows])
        levers = [np.linalg.norm(jacobian[list(own)]) * np.linalg.norm(force[list(own)]) for own in rows]
        return Pulls(
            forces=forces,
            levers=np.array(levers, dtype=np.float64),
            total=forces.sum(axis=0) + self._drawn(self.stand.values),
            held=self._held & ~self._stopped,
            values=self.stand.values[0],
        )

    def _sizes(self, residual: FloatArray) -> FloatArray:
        """√(δ² + |r|²) of the group of each row, (m,)."""
        squares = np.add.reduceat(residual**2, self._starts)
        return np.sqrt(self._softness**2 + squares)[self._group_of]

    def _force(self, residual: FloatArray) -> FloatArray:
        """∂Φ/∂r of the tasks, (m,)."""
        return self._strength * (residual / self._sizes(residual) + GROWTH * residual)

    def _inside(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How far channels are inside the lower and the upper margins, (nv,) each."""
        down, up = self._objective.room(values)
        lower, upper = self._margins
        return np.maximum(0.0, lower + down[0]), np.maximum(0.0, upper - up[0])

    def _drawn(self, values: FloatArray) -> FloatArray:
        """Slope of the springs: of the wish and of the margins, (nv,)."""
        low, high = self._inside(values)
        return self._objective.away(values)[0] + FIRMNESS * (high - low)

    def _energy(self, stand: Stand) -> float:
        """Φ."""
        squares = np.add.reduceat(stand.residual[0] ** 2, self._starts)
        of_tasks = np.sqrt(self._softness**2 + squares) - self._softness + 0.5 * GROWTH * squares
        away = self._objective.away(stand.values)[0]
        low, high = self._inside(stand.values)
        springs = 0.5 * (away @ away + FIRMNESS * (low @ low + high @ high))
        return float(self._strengths @ of_tasks + springs)

    def _model(self) -> _Model:
        """The model here, with the forces y on their way to what the residuals say."""
        objective, stand = self._objective, self.stand
        jacobian, residual = objective.stacked_jacobian(stand.posed)[0], stand.residual[0]
        sizes = self._sizes(residual)
        crossed = np.outer(self._pull, residual / sizes)
        stiffness = np.where(self._together, -0.5 * (crossed + crossed.T), 0.0)
        stiffness += np.eye(len(residual))
        stiffness *= self._strength / sizes  # the same for all rows of a group
        stiffness += np.diag(GROWTH * self._strength)
        slope = jacobian.T @ self._force(residual) + self._drawn(stand.values)
        bending = self._strength * (self._pull + GROWTH * residual)
        low, high = self._inside(stand.values)
        springs = objective.wished + FIRMNESS * ((low > 0.0).astype(np.float64) + (high > 0.0))
        curvature = jacobian.T @ stiffness @ jacobian + np.diag(springs)
        curvature += self._bent(bending, residual)
        return _Model(slope, curvature, jacobian, stiffness)

    def _bent(self, forces: FloatArray, residual: FloatArray) -> FloatArray:
        """Σ_k y_k ∂²r_k/∂u∂u for forces y (m,), (nv, nv)."""
        posed = self.stand.posed
        if float(np.abs(residual[self._angular]).max(initial=0.0)) <= MET:
            return self._objective.constraint_curvature(posed, forces[None])[0]
        return self._objective.bent(posed, [forces[None]])[0]

    def _pull_after(self, moved: FloatArray, share: float) -> FloatArray:
        """The pulls after a share of a step that changes residuals by (m,), for no group longer than 1."""
        residual = self.stand.residual[0]
        sizes = self._sizes(residual)
        unit = residual / sizes
        along = np.add.reduceat(unit * moved, self._starts)[self._group_of]
        pull = self._pull + share * (unit + (moved - self._pull * along) / sizes - self._pull)
        lengths = np.sqrt(np.add.reduceat(pull**2, self._starts))[self._group_of]
        return pull / np.maximum(1.0, lengths)

    # Steps

    def _tried(self, model: _Model, step: _Step, share: float, energy: float) -> tuple[Stand, float]:
        """Where a share of a step leads, put right where its motion has bent it, and Φ there."""
        objective, here = self._objective, self.stand
        down, up = self._room()
        change = share * step.change
        trial = objective.stand(objective.moved(here.values, change[None]))
        after = self._energy(trial)
        promised = share * step.fall
        if float(np.abs(change).max(initial=0.0)) <= LARGE_STEP or after <= energy - KEPT[0] * promised:
            return trial, after
        straight = here.residual[0] + model.jacobian @ change
        for _ in range(CORRECTIONS):
            pulls = model.jacobian.T @ (model.stiffness @ (trial.residual[0] - straight))
            change = change.copy()
            change[step.moving] -= step.inverse @ pulls[step.moving]
            change = np.clip(change, down, up)
            other = objective.stand(objective.moved(here.values, change[None]))
            other_energy = self._energy(other)
            if other_energy >= after:
                break
            trial, after = other, other_energy
            if after <= energy - KEPT[1] * promised:
                break
        return trial, after

    def _room(self) -> tuple[FloatArray, FloatArray]:
        """How far the channels may change down and up, inside their limits and at this pace, (nv,) each."""
        down, up = self._objective.room(self.stand.values)
        gone = (self.stand.values[0] - self._first) * self._objective.weight
        return np.maximum(down[0], -self._turns - gone), np.minimum(up[0], self._turns - gone)

    def _step(self, model: _Model) -> _Step:
        """The least of the model inside the limits, by an active set that begins with the last one."""
        slope, curvature = model.slope, model.curvature
        down, up = self._room()
        held: BoolArray = self._held & ((down >= 0.0) | (up <= 0.0))
        released = np.zeros(len(slope), dtype=np.bool_)
        change = np.zeros(len(slope))
        plain, inverse = True, np.zeros((0, 0))
        moving: IntArray = np.flatnonzero(~held)
        for _ in range(ACTIVE_SETS):
            moving = np.flatnonzero(~held)
            part = curvature[np.ix_(moving, moving)]
            if plain and not _convex(part):
                plain, curvature = False, _bent_up(curvature)
                continue
            inverse = np.asarray(np.linalg.inv(part), np.float64)
            ahead = slope + curvature[:, held] @ change[held]
            wanted = change.copy()
            wanted[moving] = -inverse @ ahead[moving]
            out = ((wanted < down) | (wanted > up)) & ~held
            if out.any():
                way: FloatArray = wanted - change
                room: FloatArray = np.where(way > 0.0, up, down) - change
                shares = np.where(out, room / np.where(out, way, 1.0), np.inf)
                first_met = max(float(shares.min()), 0.0)
                hit = out & (shares <= first_met)
                change = np.clip(change + first_met * way, down, up)
                change = np.where(hit, np.where(way > 0.0, up, down), change)
                held = held | hit
                continue
            change = wanted
            ahead = slope + curvature @ change
            inward = np.where(change <= down, -ahead, np.where(change >= up, ahead, 0.0))
            inward = np.where(held & ~released & (down < up), inward, 0.0)
            worst = int(inward.argmax()) if len(inward) else 0
            if not len(inward) or inward[worst] <= RELEASED:
                break
            held = held.copy()
            held[worst], released[worst] = False, True
        self._held = np.array(held, dtype=np.bool_)
        fall = -float(slope @ change + 0.5 * change @ curvature @ change)
        return _Step(change, moving, inverse, plain, fall)


def _margins(objective: Objective) -> FloatArray:
    """Widths of the margins of the lower and the upper limits, 0 where there are none, (2, nv)."""
    system = objective.system
    gaps = np.stack([system.preferred - system.lower, system.upper - system.preferred])
    widest = np.minimum(MARGIN, MARGIN_PART * (system.upper - system.lower))
    usable = np.isfinite(gaps) & system.rotates  # nan where nothing is preferred
    return np.where(usable, np.clip(gaps, 0.0, widest), 0.0) * objective.weight


def _convex(matrix: FloatArray) -> bool:
    """Whether a symmetric matrix is positive definite."""
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _bent_up(matrix: FloatArray) -> FloatArray:
    """A symmetric matrix that bends up where it has bent down [NocedalWright2006 §3.4], and everywhere."""
    found, directions = np.linalg.eigh(matrix)
    return (directions * np.maximum(found, LEAST_CURVATURE + np.maximum(-found, 0.0))) @ directions.T

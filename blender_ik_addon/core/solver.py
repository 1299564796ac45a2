# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop round a step rule: scaling, damping, trust radius, acceptance, termination, result.

**Scaling.** Channels are solved as u = √k q with k = 1/(1 − stiffness), so that a stiff channel moves less
[ChungChoi1994: Whitney's weighted inverse]; lengths are divided by the reach of the moving part, so that a
skeleton in centimetres takes the same steps as one in metres.

**Damping** in proportion to the error, λ² = μ|r|² [Sugihara2011]: little near a solution, where the step is
Newton's, much where a target is out of reach. μ and the trust radius adapt to how well the last step did.

**Acceptance** is by levels: a step is taken when some level falls and none above it rises. Motion that a lower
level wants bends a higher one at second order; the higher one is put back with the factors of the step before
the trial is judged, so that its cost does not rise.

**Limits** are boxes that no iterate ever leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray, IntArray, frozen
from .errors import IKError
from .mechanism import PosedMechanism
from .problem import Level, Problem, System
from .skeleton import Pose
from .steps import BoundedStep, StepLevel, bounded_step

METHODS: Final[dict[str, str]] = {
    "PRIORITY": "Strict priorities: what matters more never gives way to what matters less",
    "DLS": "Damped least squares: all targets share the error by weight, priorities are ignored",
}
"""Identifier of each method and what it does, in one line."""

DAMPING_START: Final = 1e-2
"""First μ of λ² = μ|r|² [1]."""
DAMPING_RANGE: Final = (1e-6, 1e4)
DAMPING_FLOOR: Final = 1e-16
"""λ² of a level that is met [1], in scaled units: keeps the step of an exactly singular level finite."""

RADIUS_RANGE: Final = (1e-7, 4.0)
"""Smallest and largest trust radius [rad]; below the smallest nothing gets better any more."""

SLACK: Final = 0.1
"""Part of the tolerances [1] by which the residual of a level may rise without counting as worse."""
WISH_SLACK: Final = 1e-12
"""The same for the distance from the preferred pose [rad]: rounding."""
POLISH_ANGLE: Final = 0.01
"""Largest change [rad] of a step that is taken without asking whether the wish got nearer."""
WISH_FROM: Final = 0.05
"""Residual of a level [1], in scaled units, below which the preferred pose begins to count: it bends the way
to a far target more than it shapes the end."""

STUBBORN: Final = 0.5
"""A level that keeps more than this part of its residual in a step gets its curvature in the next [1]."""

RESTORATIONS: Final = 5
"""Most corrections of the higher levels after the motion of lower ones, each one forward kinematics."""

MULTIPLIER_DAMPING: Final = 1e-10
"""Added to JJᵀ [1], in scaled units, so that multipliers exist at singular poses too."""

ESCAPE_ANGLE: Final = 0.2
"""First change [rad] along a direction of negative curvature away from a stationary point that is no minimum."""
ESCAPE_CURVATURE: Final = 1e-4
"""Negative curvature [1], in scaled units, that counts."""


class Status(str, Enum):
    """How a solve ended."""

    REACHED = "REACHED"
    """Every task is within its tolerance."""
    SETTLED = "SETTLED"
    """The pose stands still at the best found; some task is out of reach, limited or outranked."""
    MAX_ITERATIONS = "MAX_ITERATIONS"
    """The iterations ran out while the pose still moved."""
    CANCELLED = "CANCELLED"
    """The callback asked to stop."""


@dataclass(frozen=True)
class SolverOptions:
    """How to solve."""

    method: str = "PRIORITY"
    """One of `METHODS`."""
    max_iterations: int = 60
    """At least 1."""
    tolerance_position: float = 1e-4
    """Error at which a place counts as reached [m], above 0."""
    tolerance_rotation: float = 1e-3
    """Error at which an orientation counts as reached [rad], above 0."""
    step_tolerance: float = 1e-6
    """Largest change of a channel [rad] at which the pose counts as standing still, above 0."""
    max_angle: float = 0.8
    """Largest change of an angle in one iteration [rad] [Buss2009 §6], above 0."""
    clamp_distance: float | None = None
    """Dmax of [Buss2009 §6]: residuals of places are shortened to this [m]; None for not at all."""
    damping: float = 0.1
    """λ of DLS at a residual of the reach [1]; smaller residuals are damped less, see the module."""
    preferred_pose: bool = True
    """Whether what the tasks leave free goes to the preferred pose."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise IKError(f"unknown method {self.method!r}; there are {', '.join(METHODS)}")
        if self.max_iterations < 1:
            raise IKError(f"max_iterations must be at least 1, got {self.max_iterations}")
        for key in ("tolerance_position", "tolerance_rotation", "step_tolerance", "max_angle", "damping"):
            value = getattr(self, key)
            if not (np.isfinite(value) and value > 0.0):
                raise IKError(f"{key} must be above 0 and finite, got {value}")
        if self.clamp_distance is not None and not self.clamp_distance > 0.0:
            raise IKError(f"clamp_distance must be above 0 or None, got {self.clamp_distance}")


@dataclass(frozen=True)
class TaskError:
    """How well one task was met."""

    name: str
    error: float
    """[m], or [rad] where `angular`."""
    angular: bool
    reached: bool


@dataclass(frozen=True)
class Solution:
    """The best pose found, and how good it is."""

    pose: Pose
    status: Status
    message: str
    iterations: int
    errors: tuple[TaskError, ...]
    """One for each task of the problem, in its order."""
    costs: FloatArray
    """½|r|² of each level after each iteration, the start first, (iterations + 1, levels), in scaled units."""
    limited: tuple[tuple[str, int], ...]
    """Joint and channel of every limit on which the pose stands."""

    @property
    def reached(self) -> bool:
        """Whether every task is within its tolerance."""
        return all(error.reached for error in self.errors)


def solve(
    problem: Problem,
    pose: Pose,
    options: SolverOptions | None = None,
    *,
    callback: Callable[[int, FloatArray], bool] | None = None,
    **overrides: object,
) -> Solution:
    """Find the pose that meets the tasks, starting from a given one.

    Args:
        problem: Skeleton and tasks.
        pose: Where to start, without leading axes; fixed channels and scale are taken from it.
        options: Settings; the defaults when None.
        callback: Called after each iteration with its number and the free channels (nv,); return True to stop.
        overrides: Fields of `SolverOptions` by name.

    Returns:
        The best pose found; not reaching a target is a result, not an error.

    Raises:
        IKError: The problem, pose and options do not fit together.
    """
    options = replace(options or SolverOptions(), **overrides)  # type: ignore[arg-type]
    if pose.frames:
        raise IKError(f"solve takes one pose, got leading axes {pose.frames}; use solve_sequence for frames")
    batch = Pose(pose.channels[None], pose.scale[None])
    run = Run(problem.assemble(batch), batch, options)
    while not run.finished:
        run.iterate()
        if callback is not None and callback(run.iterations, run.values[0]):
            run.cancel()
    return run.solution(0)


class Run:
    """A solve in progress, of one or many independent frames."""

    def __init__(self, system: System, pose: Pose, options: SolverOptions) -> None:
        self._system, self._pose, self._options = system, pose, options
        frames = pose.frames[0]
        self._length = system.mechanism.reach
        rotates = system.rotates
        # u = weight * q: the channels in the units and with the stiffness in which steps are measured.
        self._weight = np.sqrt(1.0 / (1.0 - system.stiffness)) / np.where(rotates, 1.0, self._length)
        self.values: FloatArray = np.clip(system.mechanism.values(pose), system.lower, system.upper)
        """The free channels so far, (F, nv)."""
        self.iterations = 0
        self._count: IntArray = np.zeros(frames, dtype=np.int64)
        self._damping = np.full(frames, DAMPING_START)
        self._radius = np.full(frames, options.max_angle)
        self._done: BoolArray = np.zeros(frames, dtype=np.bool_)
        self._settled: BoolArray = np.zeros(frames, dtype=np.bool_)
        self._cancelled = False
        self._tolerance = np.array(
            [
                options.tolerance_rotation if task.angular else options.tolerance_position
                for task in system.problem.tasks
            ]
        )
        self._row_scales = [
            np.where(angular, 1.0, 1.0 / self._length) for angular in system.angular_rows
        ]
        if options.method == "DLS":
            self._row_scales = [np.concatenate(self._row_scales)] if self._row_scales else []
        # A rise of a level's residual below this is not worse.
        slack = SLACK * min(options.tolerance_rotation, options.tolerance_position / self._length)
        self._slack = np.full(self._task_levels + 1, slack)
        self._slack[-1] = WISH_SLACK
        wish = ~np.isnan(system.preferred) & options.preferred_pose
        self._preferred = np.where(wish, system.preferred, 0.0) * self._weight
        self._wish = wish.astype(np.float64)
        self._posed = system.place(self.values)
        self._stubborn = np.zeros((frames, self._task_levels), dtype=np.bool_)
        self._levels = self._linearize()
        self._norms = self._measure()
        self._costs: list[FloatArray] = []
        self._record()
        if system.size == 0 or not self._task_levels:
            self._done[:] = True
            self._settled[:] = True

    @property
    def finished(self) -> bool:
        """Whether every frame stands still, or time is up."""
        return bool(self._done.all()) or self._cancelled or self.iterations >= self._options.max_iterations

    def cancel(self) -> None:
        """Stop; the pose so far is the result."""
        self._cancelled = True

    def _scaled(self, residuals: list[FloatArray]) -> list[FloatArray]:
        """Residuals of the levels of the method, in scaled units, clamped where the options ask for it."""
        limit = self._options.clamp_distance
        if limit is not None:
            residuals = self._system.clamped(residuals, limit)
        if self._options.method == "DLS" and len(residuals) > 1:
            residuals = [np.concatenate(residuals, axis=1)]
        return [residual * scale for residual, scale in zip(residuals, self._row_scales, strict=True)]

    @property
    def _task_levels(self) -> int:
        """Number of levels of the method, without that of the preferred pose."""
        return len(self._row_scales)

    def _linearize(self) -> list[Level]:
        """The levels at the present pose in u; the last is the wish for the preferred pose."""
        levels = self._system.linearize(self._posed)
        residuals = self._scaled([level.residual for level in levels])
        if self._options.method == "DLS":
            levels = self._system.merged(levels)
        scaled = [
            Level(residual, level.jacobian * scale[:, None] / self._weight)
            for residual, level, scale in zip(residuals, levels, self._row_scales, strict=True)
        ]
        if self._options.preferred_pose:
            jacobian = np.broadcast_to(np.diag(self._wish), (len(self.values), self._system.size, self._system.size))
            near = (self._level_norms(scaled) < WISH_FROM) | self._stubborn
            residual = self._away_from_preferred(self.values) * near.all(axis=1)[:, None]
            scaled.append(Level(residual, jacobian))
        return scaled

    def _away_from_preferred(self, values: FloatArray) -> FloatArray:
        """u − preferred where a preference exists, else 0, (F, nv)."""
        return (values * self._weight - self._preferred) * self._wish

    def _measure(self) -> FloatArray:
        """|r| of each level at the present pose, the wish always counted."""
        norms = self._level_norms(self._levels)
        if self._options.preferred_pose:
            away = self._away_from_preferred(self.values)
            norms[:, -1] = np.sqrt(np.einsum("fv,fv->f", away, away))
        return norms

    def _residuals(self, values: FloatArray, posed: PosedMechanism) -> list[FloatArray]:
        """Residuals of all levels at other values, without Jacobians."""
        residuals = self._scaled(self._system.residuals(posed))
        if self._options.preferred_pose:
            residuals.append(self._away_from_preferred(values))
        return residuals

    def _curvature(self, level: int) -> FloatArray | None:
        """What the Hessian of a level in u has beyond JᵀJ, where that counts."""
        if self._options.clamp_distance is not None:
            return None
        scale = self._weight[:, None] * self._weight
        if level == self._task_levels:
            return self._system.constraint_curvature(self._posed, self._multipliers()) / scale
        if not self._stubborn[:, level].any():
            return None
        wanted = range(len(self._system.priorities)) if self._options.method == "DLS" else [level]
        total = sum(self._system.curvature(self._posed, index, self._length) for index in wanted)
        return total * self._stubborn[:, level, None, None] / scale

    def _multipliers(self) -> list[FloatArray]:
        """Lagrange multipliers of the rows of the system's levels for the wish: Jᵀμ = −(u − preferred)."""
        tasks = self._levels[: self._task_levels]
        jacobian = np.concatenate([level.jacobian for level in tasks], axis=1)
        at_bound = (self.values <= self._system.lower) | (self.values >= self._system.upper)
        jacobian = jacobian * ~at_bound[:, None, :]
        away = self._levels[-1].residual
        square = jacobian @ np.swapaxes(jacobian, -1, -2) + MULTIPLIER_DAMPING * np.eye(jacobian.shape[1])
        multipliers = -np.linalg.solve(square, jacobian @ away[..., None])[..., 0]
        multipliers = multipliers * np.concatenate(self._row_scales)
        ends = np.cumsum([len(rows) for rows in self._system.angular_rows])
        return np.split(multipliers, ends[:-1], axis=1)

    @staticmethod
    def _level_norms(levels: Sequence[Level] | Sequence[FloatArray]) -> FloatArray:
        """|r| of each level, (F, levels)."""
        residuals = [level.residual if isinstance(level, Level) else level for level in levels]
        return np.stack([np.sqrt(np.einsum("fm,fm->f", r, r)) for r in residuals], axis=1)

    def _step(self) -> BoundedStep:
        """The step rule's answer at the present pose, in u."""
        options, system = self._options, self._system
        strength = self._damping
        if options.method == "DLS":
            strength = strength / DAMPING_START * options.damping**2
        damping = strength[:, None] * self._norms**2 + DAMPING_FLOOR
        damping[:, self._task_levels :] = 0.0  # the wish is met in full by what is left over
        levels = [
            StepLevel(level.residual, level.jacobian, damping[:, number], self._curvature(number))
            for number, level in enumerate(self._levels)
        ]
        return bounded_step(
            levels,
            (system.lower - self.values) * self._weight,
            (system.upper - self.values) * self._weight,
            self._radius,
        )

    def iterate(self) -> None:
        """One step for every frame that still moves."""
        system, options = self._system, self._options
        self.iterations += 1
        self._count += ~self._done
        step = self._step()
        moving = ~self._done
        size = np.abs(step.change).max(axis=1, initial=0.0)
        still = moving & (size < options.step_tolerance)
        if still.any():
            self._escape_or_settle(still)
            moving &= ~still
            if not moving.any():
                self._record()
                return
        trial, posed, residuals = self._try(step, moving)
        norms = self._level_norms(residuals)
        better = moving & self._better(norms, step.change)
        self._adapt(better, moving, size)
        previous = self._norms
        self.values = np.where(better[:, None], trial, self.values)
        if better.all():
            self._posed = posed
        elif better.any():
            self._posed = system.place(self.values)
        if better.any():
            self._levels = self._linearize()
            self._norms = self._measure()
        # Where a step barely helps a level that is not met, its curvature decides.
        slow = (self._norms > STUBBORN * previous) & (self._norms > self._slack[: self._norms.shape[1]])
        self._stubborn = np.where(moving[:, None], slow[:, : self._task_levels], self._stubborn)
        self._record()

    def _promised(self, change: FloatArray) -> list[FloatArray]:
        """Residuals of the levels after a change in u, if they were linear."""
        promised = [level.residual + (level.jacobian @ change[..., None])[..., 0] for level in self._levels]
        if self._options.preferred_pose:
            promised[-1] = self._away_from_preferred(self.values) + change * self._wish
        return promised

    def _better(self, norms: FloatArray, change: FloatArray) -> BoolArray:
        """Whether the first level that differs is lower, (F,).

        A lower level may rise as far as the step said it would, for the sake of a higher one. The wish is not
        judged where the step is so small that Newton's method has taken over.
        """
        before = np.maximum(self._norms, self._level_norms(self._promised(change)))
        before[:, 0] = self._norms[:, 0]
        if self._options.preferred_pose:
            fine = np.abs(change).max(axis=1) < POLISH_ANGLE
            before[:, -1] = np.where(fine, np.inf, before[:, -1])
        return ~_first_difference(norms, before, self._slack, lower=False)

    def _record(self) -> None:
        self._costs.append(0.5 * self._norms[:, : self._task_levels] ** 2)

    def _try(
        self, step: BoundedStep, moving: BoolArray
    ) -> tuple[FloatArray, PosedMechanism, list[FloatArray]]:
        """Take the step and put back the higher levels that lower motion has bent."""
        system = self._system
        change = np.where(moving[:, None], step.change, 0.0)
        promised = self._promised(change)
        trial = np.clip(self.values + change / self._weight, system.lower, system.upper)
        posed = system.place(trial)
        residuals = self._residuals(trial, posed)
        for _ in range(RESTORATIONS):
            excess = [now - then for now, then in zip(residuals, promised, strict=True)]
            bent = self._level_norms(excess)[:, : self._task_levels].max(axis=1) > self._slack[0]
            if not (bent & moving).any():
                break
            correction = np.zeros_like(change)
            for level, answer, wrong in zip(
                self._levels[: self._task_levels], step.corrections, excess, strict=False
            ):
                left = wrong + (level.jacobian @ correction[..., None])[..., 0]
                correction += (answer @ left[..., None])[..., 0]
            size = np.abs(correction).max(axis=1, initial=0.0)
            correction *= np.minimum(1.0, self._radius / np.where(size > 0.0, size, 1.0))[:, None]
            candidate = np.clip(trial + correction / self._weight, system.lower, system.upper)
            candidate_posed = system.place(candidate)
            candidate_residuals = self._residuals(candidate, candidate_posed)
            old, new = self._level_norms(residuals), self._level_norms(candidate_residuals)
            helps = moving & bent & _first_difference(new, old, self._slack, lower=True)
            if not helps.any():
                break
            trial = np.where(helps[:, None], candidate, trial)
            posed = candidate_posed if helps.all() else system.place(trial)
            residuals = [
                np.where(helps[:, None], new_rows, old_rows)
                for new_rows, old_rows in zip(candidate_residuals, residuals, strict=True)
            ]
        return trial, posed, residuals

    def _adapt(self, better: BoolArray, moving: BoolArray, size: FloatArray) -> None:
        """Trust radius and damping after a step that did, or did not, make things better."""
        worse = moving & ~better
        self._damping = np.clip(
            np.where(better, self._damping * 0.2, np.where(worse, self._damping * 8.0, self._damping)),
            *DAMPING_RANGE,
        )
        grown = np.minimum(self._radius * 2.0, self._options.max_angle)
        shrunk = 0.25 * np.minimum(self._radius, size)
        self._radius = np.where(better, grown, np.where(worse, shrunk, self._radius))
        exhausted = worse & (self._radius < RADIUS_RANGE[0])
        if exhausted.any():
            self._escape_or_settle(exhausted)

    def _escape_or_settle(self, still: BoolArray) -> None:
        """Frames that stand still are done, unless they stand on a saddle of a level that is not met."""
        unmet = self._norms > self._slack[0]
        for frame in np.flatnonzero(still):
            escaped = any(
                unmet[frame, level] and self._escape(int(frame), level) for level in range(self._task_levels)
            )
            if not escaped:
                self._done[frame] = True
                self._settled[frame] = True
        if not self._done[still].all():
            self._posed = self._system.place(self.values)
            self._levels = self._linearize()
            self._norms = self._measure()

    def _escape(self, frame: int, level: int) -> bool:
        """Leave a saddle along the direction of most negative curvature, if that lowers the level."""
        system = self._system
        self._stubborn[frame, level] = True
        curvature = self._curvature(level)
        if curvature is None:
            return False
        values = self.values[frame]
        room_down = (values - system.lower) * self._weight
        room_up = (system.upper - values) * self._weight
        free = (room_down > ESCAPE_ANGLE) | (room_up > ESCAPE_ANGLE)
        projection = np.diag(free.astype(np.float64))
        for number in range(level):
            basis = np.linalg.qr((self._levels[number].jacobian[frame] * free).T)[0]
            projection -= basis @ basis.T
        jacobian = self._levels[level].jacobian[frame]
        hessian = projection @ (jacobian.T @ jacobian + curvature[frame]) @ projection
        bends, directions = np.linalg.eigh(0.5 * (hessian + hessian.T))
        if bends[0] > -ESCAPE_CURVATURE:
            return False
        direction = directions[:, 0] / np.abs(directions[:, 0]).max()
        best = self._norms[frame]
        wanted = np.where(np.isnan(system.preferred), values, system.preferred)
        towards = float(direction @ ((wanted - values) * self._weight))
        signs = (1.0, -1.0) if towards >= 0 else (-1.0, 1.0)
        for size in (ESCAPE_ANGLE, 0.25 * ESCAPE_ANGLE):
            for sign in signs:
                trial = np.array(self.values)
                trial[frame] = np.clip(
                    values + sign * size * direction / self._weight, system.lower, system.upper
                )
                norms = self._level_norms(self._residuals(trial, system.place(trial)))[frame]
                if _first_difference(norms[None], best[None], self._slack, lower=True)[0]:
                    self.values = trial
                    self._radius[frame] = self._options.max_angle
                    self._damping[frame] = DAMPING_START
                    return True
        return False

    def solution(self, frame: int) -> Solution:
        """The result for one frame."""
        system = self._system
        errors = system.errors(self._posed)[frame]
        tasks = tuple(
            TaskError(task.label, float(error), task.angular, bool(error <= tolerance))
            for task, error, tolerance in zip(system.problem.tasks, errors, self._tolerance, strict=True)
        )
        reached = all(task.reached for task in tasks)
        if self._cancelled:
            status = Status.CANCELLED
        elif reached:
            status = Status.REACHED
        elif self._settled[frame]:
            status = Status.SETTLED
        else:
            status = Status.MAX_ITERATIONS
        values = self.values[frame]
        at_limit = np.flatnonzero((values <= system.lower) | (values >= system.upper))
        skeleton = system.problem.skeleton
        limited = tuple(
            (skeleton.names[channel // 6], int(channel % 6)) for channel in system.mechanism.channels[at_limit]
        )
        pose = system.mechanism.with_values(self._pose.frame(frame), values)
        iterations = int(self._count[frame])
        costs = np.array([cost[frame] for cost in self._costs[: iterations + 1]])
        message = _message(status, tasks, limited, iterations)
        return Solution(pose, status, message, iterations, tasks, frozen(costs), limited)


def _first_difference(new: FloatArray, old: FloatArray, slack: FloatArray, *, lower: bool) -> BoolArray:
    """Whether the first level that differs by more than the slack is lower (or higher) than it was, (F,)."""
    change = new - old
    differs = np.abs(change) > slack[: change.shape[1]]
    first = differs.argmax(axis=1)
    value = change[np.arange(len(change)), first]
    return differs.any(axis=1) & ((value < 0.0) if lower else (value > 0.0))


def _message(
    status: Status, tasks: tuple[TaskError, ...], limited: tuple[tuple[str, int], ...], iterations: int
) -> str:
    """One or two sentences for people."""
    missed = [task for task in tasks if not task.reached]
    if not missed:
        text = f"all {len(tasks)} targets reached" if tasks else "nothing to solve"
    else:
        worst = sorted(missed, key=lambda task: -task.error)[:3]
        amounts = ", ".join(
            f"{task.name} by " + (f"{np.degrees(task.error):.3g}°" if task.angular else f"{task.error * 1e3:.3g} mm")
            for task in worst
        )
        text = f"{len(missed)} of {len(tasks)} targets missed: {amounts}"
        if limited:
            text += "; at their limits: " + ", ".join(sorted({joint for joint, _ in limited})[:5])
    if status is Status.MAX_ITERATIONS:
        text += f"; stopped after {iterations} iterations while still moving"
    if status is Status.CANCELLED:
        text += "; cancelled"
    return text

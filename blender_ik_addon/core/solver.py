# SPDX-License-Identifier: GPL-3.0-or-later
"""Solving one pose: the strategy.

**Strategy.** First an attempt is made to meet all levels together. If every target is reached that is the
answer: a level whose residual is zero owes nothing to those below it. If not, no level may depend on what
lies below it, not even through the way there. So attempts are made from the start to meet the first level
alone, the first two together, and so on; from the first that fails each level is lowered with those above it
held where they are, and at last comes the preferred pose. Adding, moving or removing a lower task changes
nothing above it by construction.

**Limits** are boxes that no iterate ever leaves. Where a limit keeps a level from being met, the descent is
tried again from the middle of the limited ranges: a knee that was asked to bend backwards is stuck at its
limit although the leg, turned half round, would reach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from .arrays import FloatArray, IntArray
from .attempts import Attempt
from .choosing import solved_choice
from .continuity import renamed
from .descent import DAMPING, Descent
from .errors import IKError
from .explanation import Explanation, explain
from .hierarchy import Hold
from .iterating import Iteration, RuleIteration
from .minimizing import Minimization
from .objective import Objective
from .options import SolverOptions, with_overrides
from .posed import PosedMechanism
from .preparing import Criteria, Prepared, objective_of, prepared
from .problem import Problem
from .single import attempt
from .skeleton import CHANNELS, Pose
from .solution import Solution, Status, TaskError, result_message
from .starts import other_starts
from .system import System
from .threads import one_thread

AFAR: Final = 1.0
"""Residual [1], in scaled units, from which on targets are far."""
NEARER: Final = 0.8
"""Part of its residual [1] that another start must have to be preferred."""
RESTART_GAIN: Final = 0.9
"""Part of its residual [1] to which a restart must bring a level to be taken: little changes no pose."""


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
        callback: Called after each iteration with its number and the free channels (nv,); True stops.
        overrides: Fields of `SolverOptions` by name.

    Returns:
        The best pose found; not reaching a target is a result, not an error.

    Raises:
        IKError: The problem, pose and options do not fit together.
    """
    options = with_overrides(options, overrides)
    if pose.frames:
        raise IKError(f"solve takes one pose, got leading axes {pose.frames}; use solve_sequence for frames")
    return _solved(prepared(problem, pose, options), callback)


def solve_system(
    system: System,
    pose: Pose,
    options: SolverOptions,
    callback: Callable[[int, FloatArray], bool] | None = None,
    *,
    attempted: bool = False,
    kept: IntArray | None = None,
) -> Solution:
    """`solve` for a problem that is assembled already, on the pose with which it was.

    With `attempted` it is known that a plain attempt from this pose does not meet all tasks, with `kept`
    which alternatives were taken before, (1, C).
    """
    return _solved(Prepared.of(system, pose, options), callback, attempted=attempted, kept=kept)


@one_thread
def _solved(
    ready: Prepared,
    callback: Callable[[int, FloatArray], bool] | None,
    *,
    attempted: bool = False,
    kept: IntArray | None = None,
) -> Solution:
    """The same once all is prepared."""
    objective, criteria, start = ready.objective, ready.criteria, ready.start
    system = objective.system

    def solved(system: System, attempted: bool = False) -> Solution:
        search = Search(objective.on(system), ready.options, criteria, callback)
        search.run(start, ready.placed, attempted=attempted)
        return search.solution(ready.pose)

    if not system.alternatives:
        return solved(system, attempted)
    return solved_choice(
        system, start, criteria.slack, solved, lambda found: found.status is Status.CANCELLED, kept
    )


class Search:
    """The strategy, for one frame: which descents follow one another, and which answer is kept."""

    def __init__(
        self,
        objective: Objective,
        options: SolverOptions,
        criteria: Criteria,
        callback: Callable[[int, FloatArray], bool] | None,
    ) -> None:
        self._objective, self._system = objective, objective.system
        self._options, self._callback = options, callback
        self._tolerance, self._slack, self._goal = criteria.tolerance, criteria.slack, criteria.goal
        self._start: FloatArray
        """The free channels from which the search has started, (nv,)."""
        self._iterations = 0
        self._renamed = False
        """Whether the answer calls rotations by other angles than the attempt that found it."""
        self._cancelled = False
        self._short_way: Attempt | None = None
        """The answer where one attempt has met every task."""
        self._ran_out = False
        """Whether a level that is not met still fell when the iterations ran out."""
        self._cut_off = False
        """Whether an attempt to meet all tasks was still on its way when the iterations ran out."""
        self._answer: Descent | Iteration

    def run(self, start: FloatArray, posed: PosedMechanism | None = None, *, attempted: bool = False) -> None:
        """Search.

        Args:
            start: The free channels, (1, nv).
            posed: The mechanism there, for a caller that has placed it already and inside the limits.
            attempted: Whether an attempt from there is known to fail.
        """
        self._start = start[0]
        if self._options.differential:
            self._iterate(start)
            return
        attempts = self._options.attempts and self._objective.levels > 0
        if attempts and (self._attempt_from(start, posed, attempted=attempted) or self._cancelled):
            return
        self._descend_by_levels(start)

    def _attempt_from(self, start: FloatArray, posed: PosedMechanism | None, *, attempted: bool) -> bool:
        """Attempt to meet all tasks from a start (1, nv), else from others; whether one of them does."""
        if attempted:
            others = self._others(start)
        else:
            starts = self._nearest_first(start, posed)
            same = starts is start or bool((starts[0] == start[0]).all())
            if self._meets(starts[:1], posed if same else None) or self._cancelled:
                return True
            others = starts[1:] if len(starts) > 1 else self._others(start)
        return len(others) > 0 and self._meets(others)

    def _nearest_first(self, start: FloatArray, posed: PosedMechanism | None) -> FloatArray:
        """A start (1, nv), or where nothing there is worth keeping it and others, the nearest first, (S, nv).

        Of 40 poses of a human, hips turned and moved, 22 were not met from the rest pose, and from there the
        others took twice as many iterations. Without a preferred pose these cost less than to look for it.
        """
        if not self._goal.wish:
            return start
        stand = self._objective.stand(start, posed)
        if stand.norm[0] <= AFAR or (stand.errors <= self._tolerance).any():
            return start
        starts = np.concatenate([start, self._others(start)])
        norms = self._objective.select(np.zeros(len(starts), dtype=np.int64)).stand(starts).norm
        norms[0] *= NEARER
        return starts[np.argsort(norms, kind="stable")]

    def _others(self, start: FloatArray) -> FloatArray:
        """As many other starts (S, nv) as the options allow."""
        return other_starts(self._system, start)[: self._options.restarts]

    def _meets(self, starts: FloatArray, posed: PosedMechanism | None = None) -> bool:
        """Attempt to meet all tasks from some starts, (S, nv); the best that does is the answer."""
        objective = self._objective
        if len(starts) > 1:
            objective = objective.select(np.zeros(len(starts), dtype=np.int64))
        callback = self._report if self._callback is not None else None
        outcome = attempt(objective, starts, self._goal, callback, posed)
        self._iterations += int(outcome.iterations.max())
        (met,) = outcome.met.nonzero()
        self._cut_off |= not len(met) and bool((outcome.iterations >= self._goal.max_iterations).any())
        if len(met) and len(starts) == 1:
            self._short_way = outcome
        elif len(met):
            away = outcome.values if not self._options.preferred_pose else objective.away(outcome.values)
            best = met[np.argmin(np.einsum("sv,sv->s", away, away)[met])]
            self._short_way = outcome.select(np.array([best]))
        elif self._cancelled:
            self._short_way = outcome.select(np.array([0]))
        return bool(len(met))

    def _report(self, iteration: int, values: FloatArray) -> bool:
        """Tell the callback of an attempt's iteration; whether to stop."""
        assert self._callback is not None
        self._cancelled = bool(self._callback(self._iterations + iteration, values[0]))
        return self._cancelled

    def _descend_by_levels(self, start: FloatArray) -> None:
        """Search by descents, one level after the other."""
        if not self._objective.levels:
            self._answer = self._descend(start, 0, [])  # there is nothing to move
            return
        values, met = self._first_levels_met(start)
        holds: list[Hold] = []
        for level in range(self._objective.levels):
            answer = self._answer = self._descend(values, level, holds)
            if level == met:
                answer = self._answer = self._from_other_starts(answer, holds)
            if self._cancelled:
                return
            self._ran_out |= not answer.finished
            holds.append(answer.hold())
            values = answer.point.values
        if self._options.preferred_pose:
            self._answer = self._descend(values, self._objective.levels, holds)

    def _first_levels_met(self, start: FloatArray) -> tuple[FloatArray, int]:
        """Meet as many of the first levels as can be met together, in attempts that know of no others.

        Returns:
            The free channels, (1, nv), and the number of levels.
        """
        values, met = start, 0
        # All of them once more where the wish may have kept them from being met in time: else to add a level
        # below, which makes them some of the first, would lower them.
        most = self._objective.levels + (self._cut_off and self._goal.wish)
        for count in range(1, most if self._options.attempts else 0):
            found = self._met_by_first(count, start)
            if found is None or self._cancelled:
                break
            values, met = found, count
        return values, met

    def _met_by_first(self, count: int, start: FloatArray) -> FloatArray | None:
        """The first levels met together, (1, nv), from a start or from others; None where that fails."""
        objective = objective_of(self._system.first_levels(count), self._options)
        goal = Criteria.of(objective, self._options).goal
        callback = self._report if self._callback is not None else None
        others = other_starts(objective.system, start)[: self._options.restarts]
        # As near to the start as can be, for the sake of motions; with the wish limbs that are straight bend.
        ways = (
            ((start, False), (start, True), (others, True))
            if goal.wish
            else ((start, False), (others, False))
        )
        for starts, wish in ways:
            if not len(starts):
                continue
            some = objective.select(np.zeros(len(starts), dtype=np.int64)) if len(starts) > 1 else objective
            outcome = attempt(some, starts, replace(goal, wish=wish), callback)
            self._iterations += int(outcome.iterations.max())
            met = np.flatnonzero(outcome.met)
            if len(met) or self._cancelled:
                return outcome.values[met[:1]] if len(met) else None
        return None

    def _iterate(self, start: FloatArray) -> None:
        """Follow the rule of the method from the free channels (1, nv)."""
        kind: type[Iteration] = Minimization if self._options.method == "NONLINEAR" else RuleIteration
        walk = self._answer = kind(self._objective, start, self._options, self._slack)
        while not (walk.finished or self._cancelled or walk.iterations >= walk.most_iterations):
            walk.iterate()
            if self._callback is not None and self._callback(walk.iterations, walk.point.values[0]):
                self._cancelled = True
        walk.conclude()
        self._iterations += walk.iterations

    def _descend(
        self, values: FloatArray, level: int, holds: Sequence[Hold], wanted: float | None = None
    ) -> Descent:
        """Lower a level on what is held until it stands still or the iterations run out.

        Or until it has become plain that it will not come to what is wanted, |r| [1].
        """
        options = self._options
        descent = Descent(
            self._objective,
            values,
            level=level,
            holds=holds,
            slack=self._slack,
            max_angle=options.max_angle,
            step_tolerance=options.step_tolerance,
            damping=options.damping**2 if options.method == "DLS" else DAMPING,
        )
        while not (descent.finished or self._cancelled or descent.iterations >= options.max_iterations):
            descent.iterate()
            self._iterations += 1
            if self._callback is not None and self._callback(self._iterations, descent.point.values[0]):
                self._cancelled = True
            if wanted is not None and not descent.may_come_to(wanted):
                break
        descent.conclude()
        return descent

    def _from_other_starts(self, stuck: Descent, holds: list[Hold]) -> Descent:
        """The best of a descent that a limit has stopped, and of those from mid-range.

        First the channels without limits stay as they were found, then they start from where they prefer. The
        levels above, which are met, have to be so from there as well.
        """
        level = len(holds)
        values = stuck.point.values
        system = self._system.first_levels(level + 1)
        best = stuck
        for start in other_starts(system, values)[: self._options.restarts]:
            missing = best.task_norms[0, level]
            if self._cancelled or missing <= self._slack or not self._objective.on_limit(values).any():
                break
            above = self._met_by_first(level, start[None]) if level else start[None]
            if above is None:
                continue
            own: list[Hold] = []
            for number in range(level):
                own.append(self._descend(above, number, own).hold())
            wanted = RESTART_GAIN * float(missing)
            other = self._descend(above, level, own, wanted)
            if other.task_norms[0, level] < wanted:
                best, holds[:] = other, own
        return best

    def _errors(self, descent: Descent | Iteration) -> FloatArray:
        return self._system.errors(descent.point.posed)[0]

    def _named_like(self, values: FloatArray, before: FloatArray) -> FloatArray:
        """The same pose, (1, nv), with the angles of joints that turn freely next to those before, (nv,)."""
        system = self._system
        other = renamed(values, before, system.mechanism, system.lower, system.upper)
        return values if other is None else other

    def solution(self, pose: Pose) -> Solution:
        """The answer, in the channels of a pose."""
        system, short = self._system, self._short_way
        if short is not None:
            errors, finished = short.errors[0], True
            values = self._named_like(short.values, self._start)
            self._renamed = values is not short.values
        else:
            answer = self._answer
            values, errors = answer.point.values, self._errors(answer)
            finished = answer.finished
        reached = errors <= self._tolerance
        all_reached = bool(reached.all())
        explanations: Sequence[Explanation | None] = [None] * len(errors)
        if not all_reached:
            posed = system.place(values)
            merged, clamp_distance = self._options.merged, self._options.clamp_distance
            explanations = explain(
                system, posed, reached[None], merged=merged, clamp_distance=clamp_distance
            )[0]
        tasks = tuple(
            map(
                TaskError, system.labels, errors.tolist(), system.angular, reached.tolist(), explanations
            )  # a third of the time of a comprehension
        )
        if system.alternatives:
            taken = [system.taken_label(number) for number in range(len(tasks))]
            tasks = tuple(task._replace(taken=label) for task, label in zip(tasks, taken, strict=True))
        if self._cancelled:
            status = Status.CANCELLED
        elif all_reached:
            status = Status.REACHED
        else:
            settled = finished and not self._ran_out
            status = Status.SETTLED if settled else Status.MAX_ITERATIONS
        return Solution(
            pose=system.mechanism.with_values(pose, values[0]),
            status=status,
            message=result_message(status, tasks, self._iterations),
            iterations=self._iterations,
            errors=tasks,
            limited=self._limited(values[0]),
            way=self._answer if short is None else short,
        )

    def _limited(self, values: FloatArray) -> tuple[tuple[str, int], ...]:
        """Joint and channel of every limit on which the free channels (nv,) stand."""
        if not self._objective.limited:
            return ()
        stands = self._objective.on_limit(values) & self._system.own
        joints, channels = np.divmod(self._system.mechanism.channels[stands], CHANNELS)
        names = self._system.problem.skeleton.names
        return tuple(
            (names[int(joint)], int(channel)) for joint, channel in zip(joints, channels, strict=True)
        )

    @property
    def placed(self) -> PosedMechanism | None:
        """The mechanism at the answer, where it is at hand and no angle of it was renamed."""
        return None if self._short_way is None or self._renamed else self._short_way.posed

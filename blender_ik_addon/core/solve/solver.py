# SPDX-License-Identifier: GPL-3.0-or-later
"""Solving one pose.

The energy of the pose is minimised from where the body is (`engine`). Where targets are missed that way,
random starts inside the limits are tried in one batch. The solution is the minimum with the lowest energy;
the one found from the body is kept unless another is lower by more than rounding and tolerances explain.

The methods of the papers follow their own rules from the given pose (`methods`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from ..engine.energy import Energy
from ..engine.kernel import Plan, run
from ..engine.restarts import searching
from ..errors import IKError
from ..explain.explanation import Explanation, explain
from ..methods import NonlinearProgram, StepRuleLoop
from ..model.skeleton import CHANNELS, Pose
from ..problem.options import Overrides, SolverOptions, with_overrides
from ..problem.problem import Problem
from ..problem.system import System, assemble, tolerance_margin, tolerances
from ..threads import one_thread
from .alternatives import solved_choice
from .solution import (
    Solution,
    Status,
    TaskError,
    ended,
    missed_targets,
    result_message,
)


def solve(
    problem: Problem,
    pose: Pose,
    options: SolverOptions | None = None,
    *,
    callback: Callable[[int, FloatArray], bool] | None = None,
    **overrides: Unpack[Overrides],
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
    check_one_pose("solve", problem, pose)
    system = assemble(problem, pose[None])
    with one_thread:
        return run(solving(system, pose, options, callback))


def check_one_pose(who: str, problem: Problem, pose: Pose) -> None:
    """Raise `IKError`, which names who asks, where problem or pose are not of one frame."""
    for given, kind in ((problem, Problem), (pose, Pose)):
        if not isinstance(given, kind):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise IKError(f"{who} takes a Problem and a Pose, got {given!r:.60}")
    if pose.frames:
        raise IKError(f"{who} starts from one pose, got leading axes {pose.frames}: see solve_sequence")
    if problem.frames not in (None, 1):
        raise IKError(
            f"the targets have {problem.frames} frames, the pose 1; {who} takes one frame at a time"
        )


def solving(
    system: System,
    pose: Pose,
    options: SolverOptions,
    callback: Callable[[int, FloatArray], bool] | None = None,
    *,
    far: bool = True,
    kept: IntArray | None = None,
) -> Plan[Solution]:
    """`solve` for a problem that is assembled already, as a search.

    Args:
        system: The problem on `pose`.
        pose: Where to start.
        options: Settings.
        callback: As for `solve`.
        far: Whether the solution may be far away. A pose that follows its targets looks for no other.
        kept: Alternatives that were taken before, (1, C).
    """
    start = system.mechanism.values(pose[None])
    if not system.alternatives:
        return _solved(system, pose, start, options, callback, far=far)
    return solved_choice(
        system,
        start,
        tolerance_margin(system, options),
        lambda taken: _solved(taken, pose, start, options, callback, far=far),
        lambda found: found.status is Status.CANCELLED,
        kept,
    )


def _solved(
    system: System,
    pose: Pose,
    start: FloatArray,
    options: SolverOptions,
    callback: Callable[[int, FloatArray], bool] | None,
    *,
    far: bool,
) -> Plan[Solution]:
    """The pose with the lowest energy that is found from a start (1, nv), or where a paper's rule leads."""
    if options.differential:
        return _by_rule(system, pose, start, options, callback)
    energy = Energy(system, start, posture=options.preferred_pose)
    searched = options if far else replace(options, restarts=0)
    tolerance = tolerances(system, options)
    found = yield from searching(energy, energy.unwound(start), searched, tolerance, callback, far=far)
    settled, iterations = bool(found.settled[0]), int(found.iterations[0])
    return _solution(system, pose, found.values, settled, found.cancelled, iterations, found.history, options)


def _by_rule(
    system: System,
    pose: Pose,
    start: FloatArray,
    options: SolverOptions,
    callback: Callable[[int, FloatArray], bool] | None,
) -> Solution:
    """Where the rule of the method leads."""
    kind = NonlinearProgram if options.method == "NONLINEAR" else StepRuleLoop
    run = kind(system, start[0], options)
    cancelled = run.run(callback)
    history = [np.array([[error]]) for error in run.errors]
    return _solution(
        system, pose, run.at.values[None], run.settled, cancelled, run.iterations, history, options
    )


def _solution(
    system: System,
    pose: Pose,
    values: FloatArray,
    settled: bool,
    cancelled: bool,
    iterations: int,
    history: Sequence[FloatArray],
    options: SolverOptions,
) -> Solution:
    """What was found, in the channels of a pose, and why tasks are missed."""
    posed = system.place(values)
    errors = system.errors(posed)[0]
    reached = errors <= tolerances(system, options)
    explanations: Sequence[Explanation | None] = [None] * len(errors)
    if not reached.all():
        explanations = explain(system, posed, reached[None], merged=options.differential)[0]
    tasks = task_errors(system, errors, reached, explanations)
    status = ended(bool(reached.all()), not missed_targets(tasks), settled)
    if cancelled:
        status = Status.CANCELLED
    return Solution(
        pose=system.mechanism.with_values(pose, values[0]),
        status=status,
        message=result_message(status, tasks, iterations),
        iterations=iterations,
        errors=tasks,
        limited=limits_at(system, values)[0],
        history=tuple(history),
    )


def task_errors(
    system: System,
    errors: FloatArray,
    reached: BoolArray,
    whys: Sequence[Explanation | None],
) -> tuple[TaskError, ...]:
    """How well each task of one frame is met, given the errors (T,) and which count as reached, (T,)."""
    taken = [system.taken_label(number) for number in range(len(errors))]
    preferences = system.preferences.tolist()
    return tuple(
        map(
            TaskError,
            *(system.labels, errors.tolist(), system.angular, reached.tolist(), whys, taken, preferences),
        )
    )


def limits_at(system: System, values: FloatArray) -> tuple[tuple[tuple[str, int], ...], ...]:
    """Joint and channel of every limit on which the free channels (F, nv) stand, for each frame."""
    stands = ((values <= system.lower) | (values >= system.upper)) & system.own
    names = system.problem.skeleton.names
    channels: list[int] = system.mechanism.channels.tolist()
    known = [(names[channel // CHANNELS], channel % CHANNELS) for channel in channels]
    return tuple(tuple(known[column] for column in np.flatnonzero(row).tolist()) for row in stands)

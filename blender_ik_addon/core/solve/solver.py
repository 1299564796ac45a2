# SPDX-License-Identifier: GPL-3.0-or-later
"""One pose solved: `solve`, and the `Solution` that it gives.

The energy of the pose is minimised from the given pose and from the preferred one (`engine`). Where targets
are missed, the minimisation restarts from random poses inside the limits, in one batch. The solution is the
minimum with the lowest energy; the one next to the given pose is kept unless another is lower by more than a
margin.

The methods of the papers iterate their step rules from the given pose (`methods`).

**Alternatives**, of which one is to be met [KiSheen §2: disjunctive goals]. A solve first takes the
alternative with the smallest error at the start, or keeps the one before while that is within the margin. If
everything is reached, that is the solution. Otherwise the other alternatives are tried one after the other,
the nearest first. Another one is taken if it is met where the one before is missed, or, where both are
missed, if it is nearer by more than the margin; and if of the levels down to that of the choice the first
that changes falls. Of two that are met the lower levels decide, too. So levels below a choice may decide
which of two alternatives is met, but not by how far one is missed; and what is out of reach elsewhere
decides nothing.

In the pose found another alternative may be nearer than one that is missed. It is taken, and the energy is
minimised again from there. So the alternative that is reported is that of the pose, and a pose that is solved
again stays.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple, Unpack

import numpy as np

from ..amounts import angle_text, length_text
from ..arrays import BoolArray, FloatArray, IntArray, frozen
from ..engine.energy import Energy, State
from ..engine.kernel import Plan, run
from ..engine.restarts import searching
from ..errors import IKError, check_function
from ..explain.explanation import Explanation
from ..explain.reasons import explain
from ..messages import Joined, Message, counted
from ..methods import NonlinearProgram, StepRuleLoop
from ..model.skeleton import Pose
from ..problem.options import Overrides, SolverOptions, with_overrides
from ..problem.problem import Problem
from ..problem.system import System, assemble, keeps_recorded, limits_at, tolerance_margin, tolerances
from ..tasks import ChoiceRows
from ..threads import one_thread


class Status(StrEnum):
    """How a solve ended."""

    REACHED = "REACHED"
    """Every target is within its tolerance."""
    SETTLED = "SETTLED"
    """The best pose found is at rest; some task is out of reach, limited or outranked."""
    MAX_ITERATIONS = "MAX_ITERATIONS"
    """The limit of iterations was met while the pose still changed."""
    CANCELLED = "CANCELLED"
    """The callback stopped it."""


class TaskError(NamedTuple):
    """Error of one task."""

    name: str
    error: float
    """[m], or [rad] where `angular`."""
    angular: bool
    reached: bool
    why: Explanation | None = None
    """Reason why it is missed; None where it is reached."""
    taken: str = ""
    """Of a task with alternatives the label of the one that was taken."""
    preference: bool = False
    """Whether it is only a preference (`StayNear`), whose miss does not count."""

    @property
    def note(self) -> str:
        """By how much it is missed and why, in a sentence; empty where it is reached."""
        return "" if self.why is None else self.why.text


@dataclass(frozen=True)
class Solution:
    """The best pose found, its errors, and how the solve ended."""

    pose: Pose
    status: Status
    message: str
    iterations: int
    errors: tuple[TaskError, ...]
    """One for each task that has a weight and a target, in the problem's order; two of a `ReachFrame`."""
    limited: tuple[tuple[str, int], ...]
    """Joint and channel of every active limit."""
    chosen: tuple[int, ...] = field(default=(), repr=False)
    """Position of the alternative that each task with alternatives has taken, (C,)."""
    history: tuple[FloatArray, ...] = field(default=(), repr=False, compare=False)
    """|r| of each level at the start and after each iteration, (1, levels) each, in scaled units; empty for a
    frame of a motion."""

    def __repr__(self) -> str:
        return f"Solution({self.status}: {self.message})"

    @cached_property
    def costs(self) -> FloatArray:
        """½|r|² of each level at the start and after each iteration, (n + 1, levels) [1]."""
        norms = np.concatenate(self.history)
        return frozen(0.5 * norms * norms)

    @property
    def reached(self) -> bool:
        """Whether every target is within its tolerance."""
        return not missed_targets(self.errors)


def ended(met: bool, reached: bool, converged: bool) -> Status:
    """How a solve ended: whether all tasks are met, all but preferences reached, and the pose at rest."""
    if met or (reached and converged):
        return Status.REACHED
    return Status.SETTLED if converged else Status.MAX_ITERATIONS


def missed_targets(tasks: Iterable[TaskError]) -> list[TaskError]:
    """The tasks that are missed, without preferences."""
    return [task for task in tasks if not (task.reached or task.preference)]


def result_message(status: Status, tasks: tuple[TaskError, ...], iterations: int) -> str:
    """Result of a solve in one or two sentences."""
    missed = missed_targets(tasks)
    targets = sum(not task.preference for task in tasks)
    if not missed:
        nothing = Message("nothing to reach") if tasks else Message("nothing to solve")
        text = counted(targets, "target reached", "all {count} targets reached") if targets else nothing
    else:
        worst = sorted(missed, key=lambda task: -task.error)[:3]
        text = Message(
            "{count} of {targets} targets missed: {names}",
            count=len(missed),
            targets=targets,
            names=Joined(", ", map(_miss, worst)),
        )
    parts = [text]
    if status is Status.MAX_ITERATIONS:
        parts.append(
            Message("stopped after {iterations} iterations while still moving", iterations=iterations)
        )
    if status is Status.CANCELLED:
        parts.append(Message("cancelled"))
    return Joined("; ", parts)


def _miss(task: TaskError) -> Message:
    """By how much a task is missed, and why."""
    amount = (angle_text if task.angular else length_text)(task.error)
    if task.why is None:
        return Message("{effector} by {amount}", effector=task.name, amount=amount)
    return Message("{effector} by {amount} ({why})", effector=task.name, amount=amount, why=task.why.why())


# ----------------------------------------------------------------------------------------------------------
# Solving


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
    check_function("the callback", callback)
    check_one_pose("solve", problem, pose)
    system = assemble(problem, pose[None])
    with one_thread:
        return run(solving(system, pose, options, callback))


def check_given(who: str, problem: Problem, pose: Pose) -> None:
    """Raise `IKError` unless these are a problem and poses; `who` names the caller in the message."""
    for given, kind in ((problem, Problem), (pose, Pose)):
        if not isinstance(given, kind):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise IKError("{who} takes a Problem and a Pose, got {given!r:.60}", who=who, given=given)


def check_one_pose(who: str, problem: Problem, pose: Pose) -> None:
    """Raise `IKError` unless problem and pose are of one frame; `who` names the caller in the message."""
    check_given(who, problem, pose)
    if pose.frames:
        raise IKError(
            "{who} starts from one pose, got leading axes {frames}: see solve_sequence",
            who=who,
            frames=pose.frames,
        )
    if problem.frames not in (None, 1):
        raise IKError(
            "the targets have {frames} frames, the pose 1; {who} takes one frame at a time",
            frames=problem.frames,
            who=who,
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
    """Plan of `solve` for an assembled problem.

    Args:
        system: The problem on `pose`.
        pose: As for `solve`, likewise options and callback.
        far: Whether to restart from other poses where targets are missed.
        kept: Alternatives that were taken before, (1, C).
    """
    start = system.mechanism.values(pose[None])

    def solved(system: System, begin: FloatArray) -> Plan[Solution]:
        """Solve with the alternatives that are taken; the descent begins at free channels (1, nv)."""
        if options.differential:
            method = NonlinearProgram if options.method == "NONLINEAR" else StepRuleLoop
            by = method(system, begin[0], options)
            cancelled, norms = by.run(callback), [np.array([[error]]) for error in by.errors]
            values = by.at.values[None]
            return _solution(
                system, pose, values, by.converged, cancelled, by.iterations, norms, options, None
            )
        energy = Energy(system, start, posture=options.preferred_pose)
        if keeps_recorded(system, start, options).all():
            state = energy.at(energy.preferred / energy.weight)
            values, norms = system.recorded_or(state.values), [energy.by_level(state.squares)]
            return _solution(system, pose, values, True, False, 0, norms, options, energy)
        history = list[FloatArray]()

        def noted(number: int, state: State) -> bool:
            history.append(energy.by_level(state.squares[-1:]))
            return callback is not None and number > 0 and callback(number, state.values[-1])

        limits = tolerances(system, options)
        found = yield from searching(energy, energy.unwound(begin), options, limits, noted, far=far)
        history[-1] = energy.by_level(found.state.squares)
        converged, iterations = bool(found.converged[0]), int(found.iterations[0])
        # Random starts may have wound angles another way.
        values = energy.unwound(found.values)
        return _solution(
            system, pose, values, converged, found.cancelled, iterations, history, options, energy
        )

    if system.choices is None:
        return solved(system, start)
    return _solved_choice(system, system.choices, start, tolerance_margin(system, options), solved, kept)


def _solution(
    system: System,
    pose: Pose,
    values: FloatArray,
    converged: bool,
    cancelled: bool,
    iterations: int,
    history: Sequence[FloatArray],
    options: SolverOptions,
    energy: Energy | None,
) -> Solution:
    """Solution at free channels (1, nv), with the reason of each miss."""
    posed = system.place(values)
    errors = system.errors(posed)[0]
    reached = errors <= tolerances(system, options)
    explanations = explain(system, posed, reached[None], energy)[0]
    tasks = task_errors(system, errors, reached, explanations)
    status = ended(bool(reached.all()), not missed_targets(tasks), converged)
    if cancelled:
        status = Status.CANCELLED
    return Solution(
        pose=system.mechanism.with_values(pose, values[0]),
        status=status,
        message=result_message(status, tasks, iterations),
        iterations=iterations,
        errors=tasks,
        limited=limits_at(system, values)[0],
        chosen=tuple(system.taken[0].tolist()),
        history=tuple(history),
    )


def _solved_choice(
    system: System,
    choices: ChoiceRows,
    start: FloatArray,
    least: float,
    solve: Callable[[System, FloatArray], Plan[Solution]],
    kept: IntArray | None,
) -> Plan[Solution]:
    """Solve with one alternative of each choice after the other, until everything is reached.

    Args:
        system: Tasks of one frame.
        choices: Those among them that have alternatives.
        start: Where to begin, (1, nv).
        least: Rise of |r| of a level [1], in scaled units, that does not count.
        solve: Solves a system that has taken its alternatives, beginning at free channels (1, nv).
        kept: Alternatives that stay while they are within their margins, (1, C).
    """
    posed = system.place(start)
    taken = choices.nearest(posed, kept)
    best = yield from solve(system.taking(taken), start)
    iterations = best.iterations
    for choice, other in _others(choices.every_error(posed), taken[0]):
        if best.reached or best.status is Status.CANCELLED:
            break
        trial = np.array([best.chosen])
        trial[0, choice] = other
        found = yield from solve(system.taking(trial), start)
        iterations += found.iterations
        if found.status is Status.CANCELLED:
            return replace(best, iterations=iterations)
        number, margin = system.choice_numbers[choice], float(choices.margins[choice])
        if _is_better(found, best, number, int(system.level_of_task[number]), margin, least):
            best = found
    # The energy falls with each: another alternative is nearer in the same pose.
    for _ in range(sum(choices.alternatives)):
        values = system.mechanism.values(best.pose[None])
        missed = [not best.errors[number].reached for number in system.choice_numbers]
        nearest = np.where(missed, choices.nearest(system.place(values)), best.chosen)
        if best.status is Status.CANCELLED or tuple(nearest[0].tolist()) == best.chosen:
            break
        best = yield from solve(system.taking(nearest), values)
        iterations += best.iterations
    return replace(best, iterations=iterations)


def _others(errors: Sequence[FloatArray], taken: IntArray) -> Iterator[tuple[int, int]]:
    """Choice and number of each alternative that is not taken, the nearest of a choice first."""
    for choice, (own, chosen) in enumerate(zip(errors, taken, strict=True)):
        for other in np.argsort(own[0], kind="stable"):
            if other != chosen:
                yield choice, int(other)


def _is_better(found: Solution, best: Solution, number: int, level: int, margin: float, least: float) -> bool:
    """Whether another alternative brings more than the best, to task `number` of the level.

    Args:
        margin: How much nearer one that is missed must be [m] or [rad].
        least: Change of |r| of a level [1], in scaled units, that does not count.
    """
    new, old = found.errors[number], best.errors[number]
    nearer = not old.reached and (new.reached or old.error - new.error > margin)
    if not (nearer or new.reached):
        return False
    gains = (best.history[-1] - found.history[-1])[0]
    # Levels below have no say in how near it comes.
    changes = gains[: level + 1 if nearer else None]
    changes = changes[np.abs(changes) > least]
    return bool(changes[0] > 0.0) if len(changes) else nearer


# ----------------------------------------------------------------------------------------------------------
# Results


def task_errors(
    system: System, errors: FloatArray, reached: BoolArray, whys: Sequence[Explanation | None]
) -> tuple[TaskError, ...]:
    """Errors of the tasks of one frame, given their amounts (T,) and which are reached, (T,)."""
    amounts, met, preferences = errors.tolist(), reached.tolist(), system.preferences.tolist()
    columns = (system.labels, amounts, system.angular, met, whys, system.taken_labels(), preferences)
    return tuple(map(TaskError, *columns))

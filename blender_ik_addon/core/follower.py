# SPDX-License-Identifier: GPL-3.0-or-later
"""A pose that follows targets while somebody moves them, and settles when they rest.

**While targets move** the body goes to the minimum of the energy next to the last one, by a few iterations
for each update. Levels pull gently, so the minimum moves smoothly with the targets, also where something
begins to be missed, and the same way back: it depends on the targets and not on how they came there.

**When they rest** the body goes on to what one `solve` gives, restarts included, or to a pose that is known
to belong to the targets. The solve is done a few iterations for each update.

It goes by bounded steps: to its targets first, as near as they are at the end, and along them straight in the
channels. With r the residuals and J their Jacobian, a straight step in the channels u is corrected by
−Jᵀ(J Jᵀ + ε)⁻¹ (r(u) − r_end), so what is on its target here and at the end stays there on the way.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from .arrays import FloatArray, IntArray
from .engine.energy import Energy, Strengths
from .engine.kernel import minimise
from .errors import IKError
from .explanation import explain
from .options import SolverOptions
from .preparing import tolerances
from .problem import Problem
from .skeleton import Pose
from .solution import Solution, Status, TaskError
from .solver import solving
from .system import assemble
from .threads import one_thread

FOLLOWING: Final = Strengths(8.0, 3.0)
"""Strengths of the levels while targets move: each outdoes all below it together, and more would bend a body
until it snaps at the border of its reach."""
MOVING_STEPS: Final = 12
"""Most iterations of an update while targets move: four are common, what is left comes with the next."""
MOVING_TURN: Final = 0.12
"""Most by which an angle changes in such an update [rad]: 7 degrees."""
RESTING_STEPS: Final = 24
"""Trials of a solve in an update while the body rests: what a window can wait for."""
SETTLING_TURN: Final = 0.043
"""The same while the body settles [rad]: more would be seen as a jump."""
CORRECTIONS: Final = 3
"""Corrections of a step."""
DAMPED: Final = 1e-6
"""ε [1]: straight limbs have residuals that nothing corrects."""


@dataclass(frozen=True)
class Followed:
    """What one update came to."""

    pose: Pose
    errors: tuple[TaskError, ...]
    """One for each task that has a weight, in the problem's order."""
    iterations: int
    status: Status
    """`MAX_ITERATIONS` while the body is on its way."""
    final: bool
    """Whether the pose is what a solve gives."""

    @property
    def settled(self) -> bool:
        """Whether the same targets once more would change nothing."""
        return self.final or self.status is not Status.MAX_ITERATIONS


class Follower:
    """A problem whose targets move, and a body that follows them."""

    def __init__(self, problem: Problem, pose: Pose, options: SolverOptions) -> None:
        """Prepare.

        Args:
            problem: Skeleton and tasks, with targets of one frame.
            pose: Where to start, without leading axes; fixed channels and scale are taken from it.
            options: Settings of the method PRIORITY.

        Raises:
            IKError: The problem, pose and options do not fit together.
        """
        if pose.frames:
            raise IKError(f"a follower starts from one pose, got leading axes {pose.frames}")
        if problem.frames not in (None, 1):
            raise IKError(f"a follower takes one frame at a time; the targets have {problem.frames}")
        if options.differential:
            raise IKError(f"a follower needs the method PRIORITY, got {options.method}")
        self._options = options
        self._system = assemble(problem, pose.as_batch())
        self._tolerance = tolerances(self._system, options)
        self._weight = Energy(self._system, self._system.mechanism.values(pose.as_batch())).weight
        self._pose, self._values = pose, self._system.mechanism.values(pose.as_batch())
        self._ahead = self._values
        """Where the body goes, (1, nv): the minimum for the last targets."""
        self._targets: list[FloatArray] = []
        self._taken: IntArray | None = None
        """Alternatives that were taken last, (1, C)."""
        self._goal: Pose | None = None
        """Where the body settles."""
        self._search: Generator[None, None, Solution] | None = None
        """A solve that is under way."""

    @property
    def pose(self) -> Pose:
        """Where the body is now."""
        return self._pose

    def among(self, problem: Problem, pose: Pose) -> Follower:
        """The same follower where fixed channels or scales have changed, by constraints or drivers.

        Args:
            problem: The same but for its targets.
            pose: Where the body is.

        Raises:
            IKError: As for a new one.
        """
        new = Follower(problem, pose, self._options)
        new._targets, new._taken = self._targets, self._taken
        return new

    @one_thread
    def follow(self, targets: Sequence[FloatArray], *, most_turn: float = MOVING_TURN) -> Followed:
        """Follow targets that are being moved.

        Args:
            targets: One for each task that has a weight, in the problem's order: what its `moved` takes.
            most_turn: Most by which an angle changes [rad].

        Raises:
            IKError: A target is not one of its task's kind; the pose stays as it is.
        """
        self._aim(targets)
        options = self._options
        energy = Energy(self._system, self._ahead, posture=options.preferred_pose)
        found = minimise(
            energy.with_strengths(FOLLOWING),
            self._ahead,
            step_tolerance=options.step_tolerance,
            max_iterations=min(MOVING_STEPS, options.max_iterations),
            max_angle=options.max_angle,
            far=False,
        )
        self._ahead = found.values
        there = self._approach(self._ahead, most_turn)
        return self._followed(int(found.iterations[0]), moving=not (there and found.settled[0]))

    @one_thread
    def arrive(self, targets: Sequence[FloatArray]) -> Followed:
        """Go on to what a solve gives for targets that nobody moves any longer, update by update.

        Args:
            targets: As for `follow`.

        Raises:
            IKError: A target is not one of its task's kind; the pose stays as it is.
        """
        if not self._rests(targets):
            self._aim(targets)
        if self._goal is not None:
            return self._settle(self._goal)
        if self._search is None:
            self._search = solving(self._system, self._pose, self._options, kept=self._taken)
        try:
            for _ in range(RESTING_STEPS):
                next(self._search)
        except StopIteration as end:
            self._goal, self._search = end.value.pose, None
            return self._settle(end.value.pose)
        return self._followed(RESTING_STEPS, moving=True)

    @one_thread
    def return_to(self, targets: Sequence[FloatArray], home: Pose) -> Followed:
        """Go to a pose that is known to belong to the targets, update by update.

        Args:
            targets: As for `follow`.
            home: The pose, without leading axes.

        Raises:
            IKError: A target is not one of its task's kind; the pose stays as it is.
        """
        if not self._rests(targets):
            self._aim(targets)
        self._goal, self._search = home, None
        return self._settle(home)

    def _settle(self, goal: Pose) -> Followed:
        """One update of the way to a pose."""
        self._ahead = self._system.mechanism.values(goal.as_batch())
        if not self._approach(self._ahead, SETTLING_TURN):
            return self._followed(0, moving=True)
        self._pose = goal
        return replace(self._followed(0, moving=False), final=True)

    def _approach(self, values: FloatArray, most_turn: float) -> bool:
        """Bring the body to the free channels (1, nv), or by most_turn [rad] nearer; whether it is there."""
        left = self._distance(values)
        if left <= most_turn:
            self._place(values)
            return True
        part = most_turn / left
        there = self._towards(values, part, most_turn)
        # What keeps the targets on the way may turn less than the straight way does.
        part = min(1.0, part * most_turn / max(self._distance(there), part * most_turn))
        self._place(self._towards(values, part, most_turn))
        return False

    def _towards(self, end: FloatArray, part: float, most_turn: float) -> FloatArray:
        """Free channels a part of the way [1] towards others, both (1, nv), within most_turn [rad]."""
        here, system, room = self._values, self._system, most_turn / self._weight
        lower, upper = np.maximum(here - room, system.lower), np.minimum(here + room, system.upper)
        wanted = system.stacked_residual(system.place(end))  # (1, m)
        values = np.clip(here + part * (end - here), lower, upper)
        for _ in range(CORRECTIONS):
            posed = system.place(values)
            jacobian = system.stacked_jacobian(posed)[0] / self._weight  # (m, nv)
            gram = jacobian @ jacobian.T
            gram += DAMPED * (1.0 + np.trace(gram)) * np.eye(len(gram))
            away = (system.stacked_residual(posed) - wanted)[0]
            back = jacobian.T @ np.asarray(np.linalg.solve(gram, away), dtype=np.float64)
            back *= min(1.0, most_turn / max(float(np.abs(back).max()), most_turn))
            values = np.clip(values - back / self._weight, lower, upper)
        return values

    def _distance(self, values: FloatArray) -> float:
        """Largest change of an angle from where the body is to the free channels (1, nv), [rad]."""
        return float(np.abs((values - self._values) * self._weight).max(initial=0.0))

    def _place(self, values: FloatArray) -> None:
        """Put the body where the free channels (1, nv) say."""
        self._values = values
        self._pose = self._system.mechanism.with_values(self._pose, values[0])

    def _aim(self, targets: Sequence[FloatArray]) -> None:
        """Take other targets, and of alternatives the nearest."""
        system = self._system.aimed(targets)
        if system.alternatives:
            self._taken = system.nearest(system.place(self._values), self._taken)
            system = system.taking(self._taken)
        self._system = system
        self._targets = [np.array(target) for target in targets]
        self._goal = self._search = None

    def _rests(self, targets: Sequence[FloatArray]) -> bool:
        """Whether targets are where they were the last time."""
        return bool(self._targets) and all(map(np.array_equal, targets, self._targets))

    def _followed(self, iterations: int, *, moving: bool) -> Followed:
        """What an update came to: where the body is, by how much tasks are missed and why."""
        system = self._system
        posed = system.place(self._values)
        errors = system.errors(posed)[0]
        reached = errors <= self._tolerance
        why = explain(system, posed, reached[None])[0]
        taken = [system.taken_label(number) for number in range(len(errors))]
        tasks = map(TaskError, system.labels, errors.tolist(), system.angular, reached.tolist(), why, taken)
        rests = Status.REACHED if reached.all() else Status.SETTLED
        status = Status.MAX_ITERATIONS if moving else rests
        return Followed(self._pose, tuple(tasks), iterations, status, final=False)


def follows(options: SolverOptions) -> bool:
    """Whether a follower can stand in for a solve with these settings."""
    return not options.differential

# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets that are moved one step after the other, and a pose that follows.

What a solve prepares for its problem is most of its work where the pose is nearly right already. `Tracker`
prepares it once, and goes on from where the last solve has placed the body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .arrays import FloatArray, IntArray
from .errors import IKError
from .mechanism import PosedMechanism
from .options import SolverOptions, with_overrides
from .preparing import Criteria, objective_of
from .problem import Problem, System
from .skeleton import Pose
from .solution import Solution
from .solver import Search, solve_system
from .threads import one_thread


class Tracker:
    """A problem whose targets move.

    Each solve starts from the answer to the one before and gives the same as `solve` would from there.
    """

    def __init__(
        self, problem: Problem, pose: Pose, options: SolverOptions | None = None, **overrides: object
    ) -> None:
        """Prepare.

        Args:
            problem: Skeleton and tasks, with targets of one frame.
            pose: Where to start, without leading axes; fixed channels and scale are taken from it.
            options: Settings; the defaults when None.
            overrides: Fields of `SolverOptions` by name.

        Raises:
            IKError: The problem, pose and options do not fit together.
        """
        if pose.frames:
            raise IKError(f"a tracker starts from one pose, got leading axes {pose.frames}")
        if problem.frames not in (None, 1):
            raise IKError(f"a tracker takes one frame at a time; the targets have {problem.frames}")
        self._options = with_overrides(options, overrides)
        self._system = problem.assemble(pose.as_batch())
        self._objective = objective_of(self._system, self._options)
        self._criteria = Criteria.of(self._objective, self._options)
        self._pose = pose
        self._values: FloatArray = self._system.mechanism.values(pose.as_batch())
        self._placed: PosedMechanism | None = None
        self._taken: IntArray | None = None
        """Alternatives that were taken last, (1, C)."""

    @property
    def pose(self) -> Pose:
        """Where the body is now."""
        return self._pose

    @one_thread
    def solve(
        self,
        targets: Sequence[FloatArray],
        callback: Callable[[int, FloatArray], bool] | None = None,
    ) -> Solution:
        """Follow the targets.

        Args:
            targets: One for each task that has a weight, in the problem's order: what its `moved` takes.
            callback: As for `solve`.

        Raises:
            IKError: A target is not one of its task's kind; the pose stays as it is.
        """
        system = self._system.aimed(targets)
        self._system = system  # which knows what it has found of the pose it was asked for last
        if system.alternatives:
            return self._chosen(system, callback)
        search = Search(self._objective.on(system), self._options, self._criteria, callback)
        search.run(self._values, self._placed)
        solution = search.solution(self._pose)
        self._pose, self._placed = solution.pose, search.placed
        self._values = (
            self._system.mechanism.values(self._pose)[None] if self._placed is None else self._placed.values
        )
        return solution

    def _chosen(self, system: System, callback: Callable[[int, FloatArray], bool] | None) -> Solution:
        """Follow targets of which some are alternatives: those taken before are kept within their margins."""
        solution = solve_system(system, self._pose, self._options, callback, kept=self._taken)
        self._pose = solution.pose
        self._taken = system.nearest(system.place(system.mechanism.values(self._pose)[None]))
        return solution

# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets that are moved one step after the other, and a pose that follows.

What a solve prepares for its problem is most of its work where the pose is nearly right already. `Tracker`
prepares it once, and goes on from where the last solve has placed the body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .arrays import FloatArray, IntArray
from .errors import IKError
from .options import SolverOptions, with_overrides
from .preparing import Prepared
from .problem import Problem
from .skeleton import Pose
from .solution import Solution
from .solver import Search, solve_system
from .system import System, assemble
from .threads import one_thread


class Tracker:
    """A problem whose targets move.

    Each solve starts from the answer to the one before, or after `restart` from the first pose, and gives the
    same as `solve` would from there.
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
        options = with_overrides(options, overrides)
        self._home = Prepared.of(assemble(problem, pose.as_batch()), pose, options)
        """What a solve from the first pose begins with."""
        self._follow_from(self._home)

    def _follow_from(self, ready: Prepared) -> None:
        """Let the next solve begin with what is prepared."""
        self._system = ready.objective.system
        self._pose, self._values, self._placed = ready.pose, ready.start, ready.placed
        self._taken: IntArray | None = None
        """Alternatives that were taken last, (1, C)."""

    @property
    def pose(self) -> Pose:
        """Where the body is now."""
        return self._pose

    def restart(self) -> None:
        """Go back to the pose it was made with, whatever it has followed since.

        Of many targets that have nothing to do with one another this is the fast way: nothing is prepared
        twice, and where the body stands at first, and how it moves there, is known.
        """
        if self._home.placed is None:
            self._home = self._home.to_keep()
        self._follow_from(self._home)

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
        ready, system = self._home, self._system.aimed(targets)
        self._system = system  # which knows what it has found of the pose it was asked for last
        if system.alternatives:
            return self._chosen(system, callback)
        search = Search(ready.objective.on(system), ready.options, ready.criteria, callback)
        search.run(self._values, self._placed)
        solution = search.solution(self._pose)
        self._pose, self._placed = solution.pose, search.placed
        self._values = (
            self._system.mechanism.values(self._pose)[None] if self._placed is None else self._placed.values
        )
        return solution

    def _chosen(self, system: System, callback: Callable[[int, FloatArray], bool] | None) -> Solution:
        """Follow targets of which some are alternatives: those taken before are kept within their margins."""
        solution = solve_system(system, self._pose, self._home.options, callback, kept=self._taken)
        self._pose = solution.pose
        self._taken = system.nearest(system.place(system.mechanism.values(self._pose)[None]))
        return solution

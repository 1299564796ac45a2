# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets that are moved one step after the other, and a pose that follows.

`Tracker` prepares its problem once, and goes on from where the last solve has placed the body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..arrays import FloatArray, IntArray
from ..engine.kernel import run
from ..errors import IKError
from ..model.skeleton import Pose
from ..problem.options import SolverOptions, with_overrides
from ..problem.problem import Problem
from ..problem.system import assemble
from ..threads import one_thread
from .solution import Solution
from .solver import solving


class Tracker:
    """A problem whose targets move.

    The first solve, and the first after `restart`, gives the same as `solve` from the first pose. Each
    further one starts from the solution before it, and looks for no other pose than the one to which that
    leads.
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
        self._home = pose
        self._system = assemble(problem, pose.as_batch())
        self.restart()

    @property
    def pose(self) -> Pose:
        """Where the body is now."""
        return self._pose

    def restart(self) -> None:
        """Go back to the pose it was made with, whatever it has followed since."""
        self._pose, self._follows = self._home, False
        self._taken: IntArray | None = None
        """Alternatives that were taken last, (1, C)."""

    def solve(
        self,
        targets: Sequence[FloatArray],
        callback: Callable[[int, FloatArray], bool] | None = None,
        *,
        far: bool | None = None,
    ) -> Solution:
        """Follow the targets.

        Args:
            targets: One for each task that has a weight, in the problem's order: what its `moved` takes.
            callback: As for `solve`.
            far: Whether to look for other poses, as `solve` does; None: the first time alone.

        Raises:
            IKError: A target is not one of its task's kind; the pose stays as it is.
        """
        far = not self._follows if far is None else far
        system = self._system.aimed(targets)
        with one_thread:
            solution = run(solving(system, self._pose, self._options, callback, far=far, kept=self._taken))
        self._system, self._pose, self._follows = system, solution.pose, True
        if system.alternatives:
            # Those taken before are kept within their margins.
            self._taken = system.nearest(system.place(system.mechanism.values(self._pose)[None]))
        return solution

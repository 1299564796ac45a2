# SPDX-License-Identifier: GPL-3.0-or-later
"""Tracker: solves for targets that move in steps, each from the solution before it.

The problem is assembled once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray, IntArray
from ..engine.kernel import run
from ..errors import IKError, check_function, check_list, check_switch, check_type
from ..model.skeleton import Pose
from ..problem.options import Overrides, SolverOptions, with_overrides
from ..problem.problem import Problem
from ..problem.system import System, assemble
from ..threads import one_thread
from .solver import Solution, check_one_pose, solving


class Tracker:
    """Solves a problem whose targets move, one update after the other.

    The first solve, and the first after `restart`, gives the same as `solve` from the first pose. Each
    further one starts from the solution before it and stays in that one's basin: no restarts.
    """

    def __init__(
        self,
        problem: Problem,
        pose: Pose,
        options: SolverOptions | None = None,
        **overrides: Unpack[Overrides],
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
        self._options = with_overrides(options, overrides)
        self._home, self._problem = pose, problem
        check_one_pose("a tracker", problem, pose)
        self._system = assemble(problem, pose[None])
        self.restart()

    @property
    def pose(self) -> Pose:
        """Solution of the last update; before the first the pose that was given."""
        return self._pose

    def restart(self) -> None:
        """Go back to the pose that was given, and forget the alternatives that were taken."""
        self._pose, self._follows = self._home, False
        self._taken: IntArray | None = None
        """Alternatives that were taken last, (1, C)."""

    def solve(
        self,
        targets: Mapping[str, npt.ArrayLike] | Sequence[npt.ArrayLike] = (),
        callback: Callable[[int, FloatArray], bool] | None = None,
        *,
        weights: Mapping[str, float] | None = None,
        far: bool | None = None,
    ) -> Solution:
        """Solve for targets and weights that have changed.

        Args:
            targets: Those that have moved, by the names of their tasks; a task without a name is called
                by its label, "position of hand". Or one for each task that has a weight, in the problem's
                order. Targets are what the tasks themselves take; one of `OneOf` is a list with one for each
                alternative.
            callback: As for `solve`.
            weights: Those that change, by the same names. A task with weight 0 takes no part.
            far: Whether to restart from other poses where targets are missed, as `solve` does; None: only in
                the first solve.

        Raises:
            IKError: A name is unknown or that of several tasks, or a target does not fit its task; the pose
                stays as it is.
        """
        check_function("the callback", callback)
        if far is not None:
            check_switch("far", far)
        problem, system = self._changed(targets, {} if weights is None else weights)
        far = not self._follows if far is None else far
        with one_thread:
            solution = run(solving(system, self._pose, self._options, callback, far=far, kept=self._taken))
        self._problem, self._system = problem, system
        self._pose, self._follows = solution.pose, True
        self._taken = np.array([solution.chosen], dtype=np.int64)
        return solution

    def _changed(
        self, targets: Mapping[str, npt.ArrayLike] | Sequence[npt.ArrayLike], weights: Mapping[str, float]
    ) -> tuple[Problem, System]:
        """The problem with other targets and weights; it is assembled again only if a weight has changed."""
        tasks = list(self._problem.tasks)
        check_list("targets are given by the names of their tasks, or one for each task", targets, object)
        check_type("weights are given by the names of their tasks", weights, Mapping)
        for name, weight in weights.items():
            number = self._number(name)
            tasks[number] = replace(tasks[number], weight=weight)
        if isinstance(targets, Mapping):
            moved = {self._number(name): target for name, target in targets.items()}
        else:
            weighty = [number for number, task in enumerate(tasks) if task.weight > 0.0]
            if len(targets) not in (0, len(weighty)):
                labels = ", ".join(tasks[number].label for number in weighty)
                raise IKError(f"{len(targets)} targets for {len(weighty)} tasks ({labels})")
            moved = dict(zip(weighty, targets, strict=False))
        for number, target in moved.items():
            tasks[number] = tasks[number].moved(target)
        problem = replace(self._problem, tasks=tasks)
        if weights:
            self._taken = None
            return problem, assemble(problem, self._pose[None])
        return problem, self._system.aimed([task.aim for task in problem.weighty_tasks])

    def _number(self, name: str) -> int:
        """Position of the task with a name."""
        labels = [task.label for task in self._problem.tasks]
        if labels.count(name) != 1:
            names = ", ".join(labels)
            if name in labels:
                raise IKError(f"several tasks are called {name!r}; there are {names}")
            raise IKError(f"no task is called {name!r}; there are {names}")
        return labels.index(name)

# SPDX-License-Identifier: GPL-3.0-or-later
"""What a solve of one pose prepares before its first step, and what the next solve may take over of it.

Folding constants, stacking tasks and finding scales costs as much as two or three iterations. Solves of one
skeleton often differ in nothing but where the targets are: what the last one has prepared is kept with its
skeleton and aimed anew, with where the start is and how the points move there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from .arrays import FloatArray
from .attempts import Goal
from .objective import Objective
from .options import SolverOptions
from .posed import PosedMechanism
from .problem import Forms, Problem
from .skeleton import Pose
from .system import System, assemble

SLACK: Final = 0.1
"""Part of the tolerances [1] by which the residual of a level may rise without counting as worse."""

ATTEMPT: Final = 40
"""Most iterations in which all tasks are to be met at once, before descents take over."""

LIGHTEST: Final = 1e-3
"""Weight, as a part of the largest in its level [1], down to which a task is solved as exactly as that."""


def objective_of(system: System, options: SolverOptions) -> Objective:
    """The objective as the method sees it; one that follows its own rule clamps by itself."""
    clamp_distance = None if options.differential else options.clamp_distance
    return Objective(system, merged=options.merged, clamp_distance=clamp_distance)


@dataclass(frozen=True)
class Criteria:
    """When a solve is done."""

    tolerance: FloatArray
    """Largest error at which each task counts as reached, (T,) [m] or [rad]."""
    slack: float
    """Residual of a level [1], in scaled units, that counts as nothing."""
    goal: Goal
    """When an attempt has met every task."""

    @classmethod
    def of(cls, objective: Objective, options: SolverOptions) -> Criteria:
        """What the options say of an objective."""
        wish = options.preferred_pose and objective.wishes
        tolerance = tolerances(objective.system, options)
        smallest = min(options.tolerance_rotation, options.tolerance_position / objective.length)
        slack = SLACK * max(objective.lightest, LIGHTEST) * smallest
        goal = Goal(
            # What stands still at the preferred pose is met to many digits in any case.
            tolerance=tolerance * (SLACK if wish else 1.0),
            wish=wish,
            step_tolerance=options.step_tolerance,
            # Without a wish what is within the tolerance is done.
            slack=slack / (1.0 if wish else SLACK),
            max_angle=options.max_angle,
            max_iterations=min(options.max_iterations, ATTEMPT),
        )
        return cls(tolerance, slack, goal)


def tolerances(system: System, options: SolverOptions) -> FloatArray:
    """Largest error at which each task counts as reached, (T,) [m] or [rad]."""
    return np.array(
        [options.tolerance_rotation if angular else options.tolerance_position for angular in system.angular]
    )


@dataclass(frozen=True)
class Prepared:
    """What a solve of one pose begins with."""

    pose: Pose
    """Where it starts, without leading axes."""
    options: SolverOptions
    objective: Objective
    criteria: Criteria
    start: FloatArray
    """The free channels of the pose, (1, nv)."""
    placed: PosedMechanism | None = None
    """The mechanism there, where that is known and inside the limits."""
    forms: Forms | None = None
    """What the tasks are but for their targets, where it is kept for those of the same forms."""

    def answers(self, forms: Forms | None, pose: Pose, options: SolverOptions) -> bool:
        """Whether it serves for tasks of some forms from a pose: the same object, for none can be changed."""
        return bool(forms) and self.forms == forms and self.pose is pose and self.options == options

    @classmethod
    def of(cls, system: System, pose: Pose, options: SolverOptions) -> Prepared:
        """All of it for a system on a pose."""
        objective = objective_of(system, options)
        start = system.mechanism.values(pose.as_batch())
        return cls(pose, options, objective, Criteria.of(objective, options), start)

    def to_keep(self, forms: Forms | None = None) -> Prepared:
        """The same for tasks of some forms, with the start placed and how points move there."""
        placed = None
        if self.options.attempts and np.array_equal(self.objective.clipped(self.start), self.start):
            placed = self.objective.system.place(self.start)
            self.objective.system.stacked_jacobian(placed)  # it remembers
        return replace(self, placed=placed, forms=forms)


def prepared(problem: Problem, pose: Pose, options: SolverOptions) -> Prepared:
    """What a solve begins with: what the last of this skeleton began with, if only targets differ.

    Raises:
        IKError: The problem, pose and options do not fit together.
    """
    forms, kept = problem.forms, problem.skeleton.prepared
    for last in kept:
        if isinstance(last, Prepared) and last.answers(forms, pose, options):
            objective = last.objective
            return replace(last, objective=objective.on(objective.system.of(problem)))
    new = Prepared.of(assemble(problem, pose.as_batch()), pose, options)
    if forms:
        new = new.to_keep(forms)
        kept[:] = [new]
    return new

# SPDX-License-Identifier: GPL-3.0-or-later
"""Goals, tasks and errors of all effectors of a character together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ...core import IKError, Problem, Skeleton, Task
from ...core.arrays import FloatArray
from .frame_data import FrameData
from .kinds import KINDS, Both, Effector, Goal, OverSupport, Stay

FEET: Final = ("foot", "feet", "ankle", "toe")
"""Parts of the names of bones on which bodies stand."""

SAME_POSE: Final = 1e-7
"""Difference of a channel [m, rad] up to which a pose is the same: Blender has single precision."""

STAY_FIRMNESS: Final = 9.0
"""How much stiffer a bone is that stays near a pose, at a weight of 1 [1]: it turns a tenth as much."""


def make_goals(effectors: Sequence[Effector], frames: FrameData) -> list[Goal]:
    """Return what each effector asks for, those that take no part included, (E,).

    Raises:
        IKError: A target has no orientation or plane where one is asked for, or a body stands on nothing.
    """
    goals: list[Goal] = []
    row = 0
    for number, effector in enumerate(effectors):
        targets = frames.world_from_target[:, row : (row := row + len(effector.targets))]
        part, length = frames.influences[:, number, None], frames.lengths[:, number]
        goals.append(effector.goal(effector, frames, targets, part, length))
    for goal in goals:
        if isinstance(goal, OverSupport) and not goal.effector.target:
            places = [_support(goals[number]) for number in supports(goal.effector, effectors)]
            goal.over(np.mean(places, axis=0))
    return goals


def supports(balance: Effector, effectors: Sequence[Effector]) -> list[int]:
    """Which effectors a body stands on: those marked as supports, or else those of its feet.

    Raises:
        IKError: There are none.
    """
    able = [n for n, effector in enumerate(effectors) if effector.goal.supports]
    found = [n for n in able if effectors[n].is_support]
    found = found or [n for n in able if any(part in effectors[n].bone.lower() for part in FEET)]
    if not found:
        kinds = [kind.item[0] for kind in KINDS.values() if kind.supports]
        raise IKError(
            f"effector {balance.name!r}: there is nothing that the body stands on. Give it a target, or mark "
            f"effectors of the kinds {', '.join(kinds[:-1])}, or {kinds[-1]} as supports"
        )
    return found


def _support(goal: Goal) -> FloatArray:
    """Where a support should be, or is where that is left open, (F, 3) [m]."""
    present = goal.point(goal.frames)
    return np.where(goal.part > 0.0, goal.place, present) if isinstance(goal, Both) else present


@dataclass(frozen=True)
class Plan:
    """What is to be solved over frames in each of which the same effectors take part, in armature space."""

    skeleton: Skeleton
    """Joints that no chain reaches are held; poses near which bones stay are preferred values."""
    tasks: tuple[Task, ...]
    """Of the effectors that take part, in their order: BOTH has two, STAY none where it is preferred."""
    counts: tuple[int, ...]
    """How many tasks with a weight each effector has, (E,)."""

    @property
    def problem(self) -> Problem:
        """The same for the solver."""
        return Problem(self.skeleton, self.tasks)


def make_plan(
    effectors: Sequence[Effector], frames: FrameData, *, prefers: bool, known: Skeleton | None = None
) -> Plan:
    """Translate effectors for the solver.

    Weights stay as they are: the solver measures lengths against the reach of the figure, so that a scale of
    the armature object changes nothing.

    All effectors share one solve, in which a channel is free or not: a bone in the chain of one effector
    moves for the others too, if they hang on it.

    Where no other effector has a lower level, a pose near which bones stay becomes the solver's preferred
    pose: bones go there as far as all else leaves them free, and not meeting it is no miss. Their stiffness
    makes them turn less than other bones. Bones that nothing else moves get a task and are exactly there.
    Between other levels the pose is a task for all its bones, which takes longer.

    Args:
        effectors: The effectors, (E,).
        frames: Frames in each of which the same effectors take part.
        prefers: Whether the method knows a preferred pose.
        known: A skeleton of an earlier plan for the same effectors: taken again if it has not changed, since
            solvers keep with it what they have prepared.

    Raises:
        IKError: As `make_goals`.
    """
    goals = make_goals(effectors, frames)
    active = [goal for goal in goals if (goal.part > 0.0).all()]
    stays = preferred_poses(active, prefers)
    tasks = {goal: goal.tasks() if goal in active and goal not in stays else () for goal in goals}
    skeleton = frames.skeleton
    weighty = [task for own in tasks.values() for task in own if task.weight > 0.0]
    involved = {above for task in weighty for j in task.joints(skeleton) for above in skeleton.ancestors(j)}
    reached = {
        joint for goal in active if goal.effector.weight > 0.0 for joint in goal.effector.chain(skeleton)
    }
    preferred, stiffness = skeleton.preferred.copy(), skeleton.stiffness.copy()
    decided = np.zeros(preferred.shape, dtype=np.bool_)
    for stay in stays:
        inside = np.clip(stay.channels, skeleton.lower, skeleton.upper)
        counted = np.zeros(preferred.shape, dtype=np.bool_)
        counted[stay.effector.chain(skeleton)] = stay.mask
        counted &= ~decided
        decided |= counted
        joints = np.flatnonzero(counted.any(1)).tolist()
        tasks[stay] = stay.near(inside, [joint for joint in joints if joint not in involved])
        preferred = np.where(counted, inside[0], preferred)
        firm = 1.0 - (1.0 - skeleton.stiffness) / (1.0 + STAY_FIRMNESS * stay.effector.weight)
        stiffness = np.where(counted, firm, stiffness)
    return Plan(
        skeleton=_changed(skeleton, known, involved - reached, preferred, stiffness),
        tasks=tuple(task for own in tasks.values() for task in own),
        counts=tuple(sum(task.weight > 0.0 for task in own) for own in tasks.values()),
    )


def preferred_poses(active: Sequence[Goal], prefers: bool) -> list[Stay]:
    """Return the goals of STAY below all other levels, highest priority first: preferred poses."""
    weighty = [goal for goal in active if goal.effector.weight > 0.0]
    lowest = max((goal.effector.priority for goal in weighty if not isinstance(goal, Stay)), default=-1)
    stays = [goal for goal in weighty if isinstance(goal, Stay) and goal.effector.priority > lowest]
    return sorted(stays, key=lambda goal: goal.effector.priority) if prefers else []


def wanders(effectors: Sequence[Effector], frames: FrameData, *, prefers: bool) -> bool:
    """Whether the pose near which bones stay differs by frame, so that each frame is its own problem."""
    if not any(effector.kind == 'STAY' for effector in effectors):
        return False
    active = [goal for goal in make_goals(effectors, frames) if (goal.part > 0.0).any()]
    for stay in preferred_poses(active, prefers):
        own = stay.channels[:, stay.effector.chain(frames.skeleton)][..., np.array(stay.mask)]
        if (np.abs(own - own[:1]) > SAME_POSE).any():
            return True
    return False


def _changed(
    skeleton: Skeleton, known: Skeleton | None, held: set[int], preferred: FloatArray, stiffness: FloatArray
) -> Skeleton:
    """The skeleton with some joints held and other preferred values and stiffness, (n, 6); itself if so."""
    free = skeleton.free.copy()
    free[sorted(held)] = False
    for same in (skeleton, known):
        if (
            same is not None
            and np.array_equal(same.free, free)
            and np.array_equal(same.preferred, preferred, equal_nan=True)
            and np.array_equal(same.stiffness, stiffness)
        ):
            return same
    return replace(skeleton, free=free, preferred=preferred, stiffness=stiffness)


def measure(goals: Sequence[Goal], now: FrameData) -> tuple[FloatArray, FloatArray]:
    """Return how far bones that are where `now` says are from what effectors ask for.

    Returns:
        Distances [m] and angles [rad], (F, E); nan where an effector asks for no such thing or takes no part,
        inf where a bone is scaled to nothing and has no orientation, or is nowhere.
    """
    distances, angles = np.full((2, *now.influences.shape), np.nan)
    for number, goal in enumerate(goals):
        for errors, of_kind in zip((distances, angles), goal.errors(now), strict=True):
            if of_kind is not None:
                known = np.where(np.isnan(of_kind), np.inf, of_kind)  # what is not a number is not met
                errors[:, number] = np.where(goal.part[:, 0] > 0.0, known, np.nan)
    return distances, angles

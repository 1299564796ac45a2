# SPDX-License-Identifier: GPL-3.0-or-later
"""Goals, tasks and errors of all effectors."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ...core import IKError, Skeleton, Task
from ...core.arrays import BoolArray, FloatArray, IntArray
from .effectors import Effector
from .frame_data import FrameData, Goal, Posed, Space, points_of
from .kinds import KINDS, OverSupport, masks_of, own_bones

FEET: Final = ("foot", "feet", "ankle", "toe")
"""Parts of the names of bones on which bodies stand."""

SAME_POSE: Final = 1e-7
"""Difference of a channel [m, rad] up to which a pose is the same: Blender has single precision."""

STAY_FIRMNESS: Final = 9.0
"""How much stiffer a bone is that stays near a pose, at a weight of 1 [1]: it turns a tenth as much."""


def make_goals(effectors: Sequence[Effector], frame_data: FrameData) -> tuple[Goal, ...]:
    """Return what each effector asks for, those that take no part included.

    Raises:
        IKError: A target has no orientation or plane where one is asked for, or a body stands on nothing.
    """
    goals = [
        KINDS[effector.kind].goal(effector, number, frame_data) for number, effector in enumerate(effectors)
    ]
    for number, effector in enumerate(effectors):
        if effector.kind == 'BALANCE' and not effector.target:
            places = [_support(effectors[s], s, goals[s], frame_data) for s in supports(effector, effectors)]
            goals[number] = OverSupport().over(places, number, frame_data)
    return tuple(goals)


def supports(balance: Effector, effectors: Sequence[Effector]) -> list[int]:
    """Which effectors a body stands on: those marked as supports, or else those of its feet.

    Raises:
        IKError: There are none.
    """
    able = [n for n, effector in enumerate(effectors) if effector.kind in {'POSITION', 'BOTH', 'FLOOR'}]
    found = [n for n in able if effectors[n].is_support]
    found = found or [n for n in able if any(part in effectors[n].bone.lower() for part in FEET)]
    if not found:
        raise IKError(
            f"effector {balance.name!r}: there is nothing that the body stands on. Give it a target, or mark "
            "effectors of the kinds Position, Position and Orientation, or Floor as supports"
        )
    return found


def _support(effector: Effector, number: int, goal: Goal, frame_data: FrameData) -> FloatArray:
    """Where a support should be, or is where that is left open, (F, 3)."""
    present = points_of(frame_data.present_bone(effector.bone), effector.point)
    if effector.kind == 'FLOOR' or goal.place is None:
        return present
    return np.where(frame_data.part(number) > 0.0, goal.place, present)


@dataclass(frozen=True)
class Plan:
    """What is to be solved over frames in each of which the same effectors take part, in armature space."""

    skeleton: Skeleton
    """With what no chain reaches held, and the poses near which bones stay as preferred ones."""
    tasks: tuple[Task, ...]
    """Of each effector that takes part: for the kind BOTH that for its place, then that for its orientation;
    for STAY none where the preferred pose says it all."""
    counts: tuple[int, ...]
    """How many of those that have a weight are of each effector, (E,)."""


def make_plan(
    effectors: Sequence[Effector], frame_data: FrameData, *, prefers: bool, known: Skeleton | None = None
) -> Plan:
    """Translate effectors for the solver.

    Weights stay as they are: the solver measures lengths against the reach of the figure, so that a scale of
    the armature object changes nothing.

    There is one solve for all effectors, and a channel is free in it or not: a bone that one chain reaches
    moves for the others too, if they hang on it.

    A pose near which bones stay is what the solver calls a preferred one, where nothing else has a lower
    level: bones go there as far as all else leaves them free, and not meeting it does not count. That they do
    so rather than other bones is their stiffness. Bones that nothing else moves are there. Between other
    levels it is a task, which the bones of both share, and that takes long.

    Args:
        effectors: The effectors, (E,).
        frame_data: Frames in each of which the same effectors take part.
        prefers: Whether the method knows a preferred pose.
        known: A skeleton of an earlier plan for the same effectors: taken again if it has not changed, since
            solvers keep with it what they have prepared.

    Raises:
        IKError: As `make_goals`.
    """
    space, goals = Space.of(frame_data), make_goals(effectors, frame_data)
    active = np.logical_and.reduce(frame_data.influences > 0.0, axis=0)
    preferred_by = preferred_poses(effectors, active, prefers)
    tasks: list[list[Task]] = [[] for _ in effectors]
    for number, (effector, goal) in enumerate(zip(effectors, goals, strict=True)):
        if active[number] and number not in preferred_by:
            tasks[number] += KINDS[effector.kind].tasks(effector, goal, space, frame_data)
    skeleton = frame_data.skeleton
    weighty = [task for own in tasks for task in own if task.weight > 0.0]
    involved = {above for task in weighty for j in task.joints(skeleton) for above in skeleton.ancestors(j)}
    reached: set[int] = set()
    for number, effector in enumerate(effectors):
        if active[number] and effector.weight > 0.0:
            reached.update(KINDS[effector.kind].chain(effector, skeleton))
    preferred, stiffness = skeleton.preferred.copy(), skeleton.stiffness.copy()
    decided = np.zeros(preferred.shape, dtype=np.bool_)
    for number in preferred_by:
        effector, wanted = effectors[number], goals[number].channels
        assert wanted is not None
        inside = np.clip(wanted, skeleton.lower, skeleton.upper)
        counted = np.zeros(preferred.shape, dtype=np.bool_)
        counted[KINDS['STAY'].chain(effector, skeleton)] = masks_of(effector)
        counted &= ~decided
        decided |= counted
        joints = np.flatnonzero(counted.any(1)).tolist()
        tasks[number] += own_bones(effector, inside, skeleton, [j for j in joints if j not in involved])
        preferred = np.where(counted, inside[0], preferred)
        firm = 1.0 - (1.0 - skeleton.stiffness) / (1.0 + STAY_FIRMNESS * effector.weight)
        stiffness = np.where(counted, firm, stiffness)
    return Plan(
        skeleton=_changed(skeleton, known, involved - reached, preferred, stiffness),
        tasks=tuple(task for own in tasks for task in own),
        counts=tuple(sum(task.weight > 0.0 for task in own) for own in tasks),
    )


def preferred_poses(effectors: Sequence[Effector], active: BoolArray, prefers: bool) -> list[int]:
    """Return the STAY effectors below all other levels, highest priority first: preferred poses."""
    taking_part = [n for n, effector in enumerate(effectors) if active[n] and effector.weight > 0.0]
    lowest = max((effectors[n].priority for n in taking_part if effectors[n].kind != 'STAY'), default=-1)
    stays = [n for n in taking_part if effectors[n].kind == 'STAY' and effectors[n].priority > lowest]
    return sorted(stays, key=lambda n: effectors[n].priority) if prefers else []


def wanders(effectors: Sequence[Effector], frame_data: FrameData, *, prefers: bool) -> bool:
    """Whether the pose that bones stay near differs by frame, so that each frame is a problem of its own."""
    active = np.logical_or.reduce(frame_data.influences > 0.0, axis=0)
    for number in preferred_poses(effectors, active, prefers):
        wanted = KINDS['STAY'].goal(effectors[number], number, frame_data).channels
        assert wanted is not None
        chain, masks = (
            KINDS['STAY'].chain(effectors[number], frame_data.skeleton),
            masks_of(effectors[number]),
        )
        own = wanted[:, chain][..., np.array(masks)]
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


def measure(
    effectors: Sequence[Effector], goals: Sequence[Goal], influences: FloatArray, posed: Posed
) -> tuple[FloatArray, FloatArray]:
    """Return how far bones are from what their effectors ask for.

    Args:
        effectors: The effectors, (E,).
        goals: What they ask for, (E,).
        influences: How far each takes part, (F, E) [1].
        posed: Where the bones are.

    Returns:
        Distances [m] and angles [rad], (F, E); nan where an effector asks for no such thing or takes no part,
        inf where a bone is scaled to nothing and has no orientation, or is nowhere.
    """
    distances, angles = np.full((2, *influences.shape), np.nan)
    for number, (effector, goal) in enumerate(zip(effectors, goals, strict=True)):
        found = KINDS[effector.kind].errors(effector, goal, posed)
        for errors, of_kind in zip((distances, angles), found, strict=True):
            if of_kind is not None:
                known = np.where(np.isnan(of_kind), np.inf, of_kind)  # what is not a number is not met
                errors[:, number] = np.where(influences[:, number] > 0.0, known, np.nan)
    return distances, angles


def needs_joints(effectors: Sequence[Effector], influences: FloatArray) -> bool:
    """Whether goals depend on where bones are before the solve, for influences (E,)."""
    return bool((influences < 1.0).any()) or any(e.kind == 'BALANCE' for e in effectors)


def needs_origin(effectors: Sequence[Effector], influences: FloatArray) -> bool:
    """Whether goals depend on the pose in which influences begin, for influences (E,)."""
    partly = ((influences > 0.0) & (influences < 1.0)).any()
    return bool(partly) or any(e.kind == 'STAY' and e.stay == 'PRESENT' for e in effectors)


def joints_of(effector: Effector, skeleton: Skeleton) -> IntArray:
    """Joints that may move for an effector and are free to, (k,)."""
    chain = np.array(KINDS[effector.kind].chain(effector, skeleton), dtype=np.int64)
    return chain[skeleton.free[chain].any(1)]

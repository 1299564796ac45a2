# SPDX-License-Identifier: GPL-3.0-or-later
"""All effectors together: what they ask for over some frames, and what is to be solved for that."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from ...core import IKError, Problem, Skeleton, Task
from ...core.arrays import BoolArray, FloatArray
from ...core.messages import Joined, Message
from ...core.model.rotation import continuous_euler, euler_from_matrix_near
from .frame_data import FrameData, orientations
from .kinds import KINDS, Both, Effector, Goal, OverSupport, Stay

FEET: Final = ("foot", "feet", "ankle", "toe")
"""Parts of the names of bones on which bodies stand."""

STAY_FIRMNESS: Final = 9.0
"""How much stiffer a bone is that stays near a pose, at a weight of 1 [1]: it turns a tenth as much."""


def make_goals(effectors: Sequence[Effector], frames: FrameData) -> list[Goal]:
    """Return what each effector asks for, those that take no part included, (E,)."""
    goals: list[Goal] = []
    row = 0
    for number, effector in enumerate(effectors):
        rows = slice(row, row := row + len(effector.targets))
        part, length = frames.influences[:, number, None], frames.lengths[:, number]
        goals.append(effector.goal(effector, frames, rows, part, length))
    for goal in goals:
        if isinstance(goal, OverSupport) and not goal.effector.target:
            places = [_support(goals[number]) for number in supports(goal.effector, effectors)]
            goal.over(np.mean(places, axis=0))
    return goals


def standing(effectors: Sequence[Effector]) -> list[int]:
    """Which effectors a body stands on: those marked as supports, or else those of its feet."""
    able = [n for n, effector in enumerate(effectors) if effector.goal.supports]
    found = [n for n in able if effectors[n].is_support]
    return found or [n for n in able if any(part in effectors[n].bone.lower() for part in FEET)]


def supports(balance: Effector, effectors: Sequence[Effector]) -> list[int]:
    """Which effectors a body stands on (IKError: none)."""
    found = standing(effectors)
    if not found:
        kinds = [Message(kind.item[0]) for kind in KINDS.values() if kind.supports]
        raise IKError(
            "effector {balance!r}: there is nothing that the body stands on. Give it a target, or mark "
            "effectors of the kinds {kinds}, or {last} as supports",
            balance=balance.name,
            kinds=Joined(", ", kinds[:-1]),
            last=kinds[-1],
        )
    return found


def _support(goal: Goal) -> FloatArray:
    """Where a support should be, or is where that is left open, (F, 3) [m]."""
    present = goal.point(goal.frames)
    return np.where(goal.part > 0.0, goal.place, present) if isinstance(goal, Both) else present


@dataclass(frozen=True)
class Plan:
    """What is to be solved over some frames, in armature space."""

    skeleton: Skeleton
    """Joints that no chain reaches are fixed."""
    tasks: tuple[Task, ...]
    """Of the effectors that take part in any frame, in their order: BOTH has two, STAY none where it is
    preferred. They have no target in frames in which an effector takes no part."""
    counts: tuple[int, ...]
    """How many tasks with a weight each effector has, (E,)."""
    preferred: FloatArray | None = None
    """Channels that are preferred in each frame, NaN for what the skeleton says, (F, n, 6): a recorded
    motion, poses near which bones stay, and where influences are below 1 what is there; None for none."""
    held: BoolArray | None = None
    """Joints that no effector moves in some frames, (F, n): they stay as they are there; None for none."""

    @property
    def effector_of_task(self) -> list[int]:
        """Which effector each task with a weight is of, (T,)."""
        return np.arange(len(self.counts)).repeat(self.counts).tolist()

    @cached_property
    def problem(self) -> Problem:
        """The same for the solver."""
        return Problem(self.skeleton, self.tasks, self.preferred)


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

    With a recorded motion its poses are preferred, and what follows goes along with it. Otherwise bones with
    a free location, as hips, prefer where an effector of their own leads or holds them.

    An influence also leads what joints prefer from what is there to that, so that a motion begins where
    an effector begins to take part; that of a pose leads from what is preferred without it.

    Args:
        prefers: Whether the method knows a preferred pose.
        known: A skeleton of an earlier plan for the same effectors: taken again if it has not changed, since
            solvers keep with it what they have prepared.
    """
    goals = make_goals(effectors, frames)
    recorded = frames.recorded
    active = [
        goal for goal in goals if (goal.part > 0.0).any() and (recorded is None or not goal.effector.follows)
    ]
    stays = preferred_poses(active, prefers)
    tasks = {goal: _tasks(goal) if goal in active and goal not in stays else () for goal in goals}
    skeleton = frames.skeleton
    weighty = [task for own in tasks.values() for task in own if task.weight > 0.0]
    involved = {above for task in weighty for j in task.joints(skeleton) for above in skeleton.ancestors(j)}
    chains = [(goal, goal.effector.chain(skeleton)) for goal in active if goal.effector.weight > 0.0]
    reached = {joint for _, joints in chains for joint in joints}
    usual, stiffness = skeleton.preferred.copy(), skeleton.stiffness.copy()
    every = (len(frames), *usual.shape)
    preferred = np.full(every, np.nan) if recorded is None else recorded.copy()
    for goal in active:
        joint = skeleton.index(goal.effector.bone)
        nowhere = np.isnan(preferred[:, joint]) & np.isnan(usual[joint]) & (goal.part > 0.0)
        if nowhere.any() and _says_where(goal):
            preferred[:, joint] = np.where(nowhere, _channels_where_led(goal, joint), preferred[:, joint])
    others = [(goal, joints) for goal, joints in chains if goal not in stays]
    share, without = (
        _shares([(goal.part, joints) for goal, joints in some], *every[:2]) for some in (chains, others)
    )
    if prefers:
        preferred = _begun(frames, np.minimum(share, without), preferred, usual)
    alone = sorted(reached.difference(*(joints for _, joints in others)))
    decided = np.zeros(every, dtype=np.bool_)
    for stay in stays:
        inside = np.clip(stay.channels, skeleton.lower, skeleton.upper)
        counted = np.zeros(every, dtype=np.bool_)
        counted[:, stay.effector.chain(skeleton)] = stay.mask
        counted &= ~decided & (stay.part[..., None] > 0.0)
        decided |= counted
        joints = np.flatnonzero(counted.any((0, 2))).tolist()
        tasks[stay] = stay.near(inside, [joint for joint in joints if joint not in involved])
        begun = np.where(np.isnan(preferred), usual, preferred)
        begun[:, alone] = np.nan
        preferred = np.where(counted, _nearer(stay, frames, begun), preferred)
        firm = 1.0 - (1.0 - skeleton.stiffness) / (1.0 + STAY_FIRMNESS * stay.effector.weight)
        stiffness = np.where(counted.any(axis=0), firm, stiffness)
    return Plan(
        skeleton=_changed(skeleton, known, involved - reached, usual, stiffness),
        tasks=tuple(task for own in tasks.values() for task in own),
        counts=tuple(sum(task.weight > 0.0 for task in own) for own in tasks.values()),
        preferred=None if np.isnan(preferred).all() else preferred,
        held=share == 0.0 if (share == 0.0).any() else None,
    )


def _tasks(goal: Goal) -> tuple[Task, ...]:
    """Tasks of a goal, without targets where its effector takes no part."""
    tasks, takes_part = goal.tasks(), goal.part[:, 0] > 0.0
    return tasks if takes_part.all() else tuple(task.only_in(takes_part) for task in tasks)


def _shares(chains: Sequence[tuple[FloatArray, list[int]]], frames: int, joints: int) -> FloatArray:
    """Largest influence of the effectors that move each joint, (F, n) [1]; 1 for those that none moves.

    Of each effector its influences (F, 1) are given, and the joints that it moves.
    """
    shares = np.ones((frames, joints))
    for _, chain in chains:
        shares[:, chain] = 0.0
    for part, chain in chains:
        shares[:, chain] = np.maximum(shares[:, chain], part)
    return shares


def let_go(effectors: Sequence[Effector], frames: FrameData) -> FrameData:
    """The same with joints where influences begin, in frames in which all that move them have none.

    So they are there at an influence of 0 as at next to nothing, whatever frame was solved before.
    """
    chains = [
        (frames.influences[:, number, None], effector.chain(frames.skeleton))
        for number, effector in enumerate(effectors)
        if effector.weight > 0.0
    ]
    return frames.begun(_shares(chains, *frames.pose.channels.shape[:2]) == 0.0)


def _begun(frames: FrameData, share: FloatArray, preferred: FloatArray, usual: FloatArray) -> FloatArray:
    """Preferred channels (F, n, 6), of joints that an influence leads only so far from where they begin.

    Args:
        frames: Where they begin.
        share: How far, (F, n) [1].
        preferred: Where they are led, (F, n, 6), NaN for what is usual.
        usual: That, (n, 6).
    """
    led: BoolArray = np.logical_or.reduce(share < 1.0, axis=0)
    if not led.any():
        return preferred
    skeleton, start = frames.skeleton, frames.start.pose.channels
    way = _way(skeleton, start, np.where(np.isnan(preferred), usual, preferred))
    begun = start + share[..., None] * way
    # What is recorded may be outside of limits.
    begun = np.where(np.isnan(preferred), np.clip(begun, skeleton.lower, skeleton.upper), begun)
    return np.where(led[:, None], begun, preferred)


def _nearer(stay: Stay, frames: FrameData, without: FloatArray) -> FloatArray:
    """Preferred channels (F, n, 6) led to a pose from those without it, nan for where bones begin.

    Not all from where they begin: at a small influence they would prefer that to what they do without it.
    """
    skeleton, part = frames.skeleton, stay.part[..., None]
    pose = np.clip(stay.pose, skeleton.lower, skeleton.upper)
    if stay.whole:
        return pose
    without = np.where(np.isnan(without), frames.start.pose.channels, without)
    return np.where(part == 1.0, pose, without + part * _way(skeleton, without, pose))


def _way(skeleton: Skeleton, begin: FloatArray, end: FloatArray) -> FloatArray:
    """The way from channels (F, n, 6) to others, the shorter one of angles without limits."""
    way = end - begin
    turns = np.isinf(skeleton.lower) & np.isinf(skeleton.upper) & (np.arange(way.shape[-1]) >= 3)
    return way - np.where(turns, 2.0 * np.pi * np.rint(way / (2.0 * np.pi)), 0.0)


def _says_where(goal: Goal) -> bool:
    """Whether a goal alone says where its bone is and how it is turned: it is held, or led about all axes."""
    own = goal.effector
    if own.follows:
        return bool(own.anchors)
    led = goal.position and goal.orientation and not goal.several and own.weight > 0.0
    return led and all(own.position_axes) and all(own.orientation_axes)


def _channels_where_led(goal: Goal, joint: int) -> FloatArray:
    """Channels with which a joint is where it is led or held, (F, 6) [m, rad].

    Hips have no preferred place but that: else they would prefer to stay where each solve has left them.
    """
    frames = goal.frames
    skeleton, parent = frames.skeleton, int(frames.skeleton.parents[joint])
    world_from_parent = frames.world_from_armature if parent < 0 else frames.world_from_joint[:, parent]
    place = goal.targets[:, 0].copy()
    place[:, :3, :3] = orientations(place)
    # Not that of the bone as it is shown, whose rounding changes with the pose.
    scale = frames.scale * np.cbrt(np.prod(frames.pose.scale[:, joint], axis=1))
    place[:, :3, 3] -= scale[:, None] * (place[:, :3, :3] @ np.array(goal.effector.point))
    local = np.linalg.inv(world_from_parent @ skeleton.rest[joint]) @ place
    order = int(skeleton.orders[joint])
    angles = euler_from_matrix_near(orientations(local), order, frames.pose.rotation[0, joint])
    return np.concatenate([local[:, :3, 3], continuous_euler(angles, order)], axis=1)


def preferred_poses(active: Sequence[Goal], prefers: bool) -> list[Stay]:
    """Return the goals of STAY below all other levels, highest priority first: preferred poses."""
    weighty = [goal for goal in active if goal.effector.weight > 0.0]
    levels = [g.effector.priority for g in weighty if not (isinstance(g, Stay) or g.effector.follows)]
    lowest = max(levels, default=-1)
    stays = [goal for goal in weighty if isinstance(goal, Stay) and goal.effector.priority > lowest]
    return sorted(stays, key=lambda goal: goal.effector.priority) if prefers else []


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
        Distances [m] and angles [rad], (F, E); nan where an effector asks for no such thing, takes no part or
        only follows, inf where a bone is scaled to nothing and has no orientation, or is nowhere.
    """
    distances, angles = np.full((2, *now.influences.shape), np.nan)
    for number, goal in enumerate(goals):
        if goal.effector.follows:
            continue  # to go along is what it is for
        for errors, of_kind in zip((distances, angles), goal.errors(now), strict=True):
            if of_kind is not None:
                known = np.where(np.isnan(of_kind), np.inf, of_kind)  # what is not a number is not met
                errors[:, number] = np.where(goal.part[:, 0] > 0.0, known, np.nan)
    return distances, angles

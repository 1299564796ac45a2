# SPDX-License-Identifier: GPL-3.0-or-later
"""Freedom of a pose: rank, condition and lost directions of each level, in numbers and words.

The Jacobians are those of the tasks without weights and stiffness, lengths in units of the reach, so that the
figures are those of the body alone. A level has its own rank, and what is left of it in the null space of the
levels above: B_k = J_k F_{k−1} as in the prioritised recursion [KiSheen, Definition 6.14]. A direction of an
effector is lost where no free channel moves it, and nearly lost where it follows slowly: left singular
vectors with small singular values. Two effectors hang together where each can be moved, but not in opposite
ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

import numpy as np

from ..arrays import BoolArray, FloatArray, frozen
from ..errors import IKError, check_type
from ..messages import Joined, Message, both
from ..methods import row_space
from ..model.mechanism import ARMATURE, PosedMechanism
from ..model.rotation import skew
from ..model.skeleton import Pose
from ..problem.problem import Problem
from ..problem.system import assemble, limits_at
from ..tasks import AimAt, MatchOrientation, OnPlane, ReachPoint, StayNear, Task
from ..tasks.base import anchored

LOST: Final = 1e-6
"""Singular value against the largest [1], up to which a direction is lost: rounding."""
NEARLY: Final = 0.03
"""Singular value against the largest of the effector [1], up to which a direction is nearly lost: a limb that
is straight within about two degrees."""
TOUCHES: Final = 1e-3
"""Height over a one-sided plane in units of the reach [1], up to which a point rests on it."""
TAKES_PART: Final = 0.3
"""Share of an effector in a direction of its level [1], from which it takes part in it."""
ALONG: Final = 0.95
"""Cosine [1] from which a direction is said to be that towards the joint above."""


@dataclass(frozen=True)
class LostDirection:
    """A direction in which an effector cannot be moved, or hardly."""

    task: str
    """Label of the task."""
    direction: FloatArray
    """Along it for places, about it for directions, in armature space, length 1, (3,)."""
    angular: bool
    rate: float
    """Rate at which it follows, by that of the best direction of the same effector [1]."""
    joint: str | None = None
    """The joint from which the limb is stretched, where the direction is towards that."""

    @property
    def text(self) -> str:
        """In words."""
        x, y, z = self.direction + 0.0
        direction = f"({x:.2f}, {y:.2f}, {z:.2f})"
        own: dict[str, Any] = {"task": self.task, "direction": direction}
        if self.rate <= LOST and self.angular:
            text = Message("{task} cannot be turned about {direction}", **own)
        elif self.rate <= LOST:
            text = Message("{task} cannot be moved along {direction}", **own)
        elif self.angular:
            text = Message("{task} can hardly be turned about {direction}", **own)
        else:
            text = Message("{task} can hardly be moved along {direction}", **own)
        if self.joint is None:
            return text
        return Joined(", ", [text, Message("its limb is straight from {joint}", joint=self.joint)])


@dataclass(frozen=True)
class LevelDiagnosis:
    """One priority level at a pose."""

    priority: int
    tasks: tuple[str, ...]
    """Labels of its tasks."""
    rows: int
    rank: int
    """Number of its rows that can be met at once, without the other levels."""
    left: int
    """Number of these that the levels above leave to it."""
    singular_values: FloatArray
    """Of the Jacobian that the levels above leave, the largest first, (min(rows, nv),) [1]."""
    manipulability: float
    """√det BBᵀ, the product of the singular values [Yoshikawa1985]; 0 where a direction is lost [1]."""
    lost: tuple[LostDirection, ...]
    """Directions of its effectors, those that are most lost first."""
    together: tuple[tuple[str, ...], ...]
    """Effectors that can hardly be moved independently, though each can be moved; one alone where its place
    and its orientation cannot."""
    stretched: tuple[tuple[str, ...], ...] = ()
    """Pairs of `together` that cannot be moved further apart: the chain between them is straight."""
    preferred: bool = False
    """Whether its tasks only say what is preferred."""

    @property
    def name(self) -> Message:
        """What it is called."""
        if self.preferred:
            return Message("What follows")
        return Message("Level {level}", level=self.priority)

    @property
    def condition(self) -> float:
        """Largest singular value against the smallest [1]; infinite where a direction is lost."""
        values = self.singular_values
        if not len(values) or not values[0] > 0.0:
            return np.inf
        singular = self.left < self.rows or values[-1] <= LOST * values[0]
        return np.inf if singular else float(values[0] / values[-1])

    @property
    def lines(self) -> tuple[str, ...]:
        """In words, the figures first."""
        condition = Message("condition {condition:.3g}", condition=self.condition)
        own: dict[str, Any] = {"level": self.name, "rank": self.rank, "rows": self.rows}
        head = Joined(
            "; ",
            [
                Message("{level}: rank {rank} of {rows}", **own)
                if self.left == self.rank
                else Message(
                    "{level}: rank {rank} of {rows}, {left} left by the levels above", left=self.left, **own
                ),
                Message("singular") if np.isinf(self.condition) else condition,
            ],
        )
        found = [lost.text for lost in self.lost]
        for labels in self.together:
            if labels in self.stretched:
                pair = both(labels)
                found.append(
                    Message(
                        "{pair} can hardly be moved further apart, what is between them is straight",
                        pair=pair,
                    )
                )
                continue
            what = both(labels)
            if len(labels) > 1:
                found.append(Message("{effectors} can hardly be moved independently", effectors=what))
            else:
                found.append(
                    Message(
                        "place and orientation of {effector} can hardly be moved independently", effector=what
                    )
                )
        return (head, *found)


@dataclass(frozen=True)
class Diagnosis:
    """Freedom that a pose leaves to the tasks of a problem."""

    levels: tuple[LevelDiagnosis, ...]
    """The highest first."""
    channels: int
    """Number of free channels that the tasks involve."""
    freedom: int
    """Dimensions that all tasks together leave free."""
    limited: tuple[tuple[str, int], ...]
    """Joint and channel of every limit on which the pose stands."""

    def turned(self, rotation: FloatArray) -> Diagnosis:
        """A copy with directions in other axes, by a rotation (3, 3) from armature space."""

        def seen(lost: LostDirection) -> LostDirection:
            return replace(lost, direction=frozen(_upright(rotation @ lost.direction)))

        levels = (replace(level, lost=tuple(map(seen, level.lost))) for level in self.levels)
        return replace(self, levels=tuple(levels))

    @property
    def lines(self) -> tuple[str, ...]:
        """In words."""
        if not self.levels:
            return (Message("Nothing to diagnose: there are no tasks"),)
        own = {"channels": self.channels, "freedom": self.freedom, "limited": len(self.limited)}
        head = (
            Message(
                "{channels} free channels; {limited} on their limits, {freedom} dimensions left free", **own
            )
            if self.limited
            else Message("{channels} free channels, {freedom} dimensions left free", **own)
        )
        return (head, *(line for level in self.levels for line in level.lines))


def diagnose(problem: Problem, pose: Pose) -> Diagnosis:
    """Say what a pose lets the tasks of a problem do; limits count as if they were none.

    Args:
        problem: Skeleton and tasks, with targets of one frame. Tasks for channels are left out: they can
            always be met.
        pose: Without leading axes.

    Raises:
        IKError: Targets or pose have frames, or something does not fit.
    """
    check_type("a diagnosis is of a Problem", problem, Problem)
    check_type("a diagnosis is of a Pose", pose, Pose)
    if pose.frames or problem.frames not in (None, 1):
        raise IKError(
            "a diagnosis is of one pose, got poses {frames} and targets of {target_frames} frames",
            frames=pose.frames,
            target_frames=problem.frames,
        )
    system = assemble(problem, pose[None])
    posed = system.place(system.mechanism.values(pose[None]))
    system = system.taking(system.nearest(posed))
    found = [
        _effector(task, system.chosen(number), posed, system.own) for number, task in enumerate(system.tasks)
    ]
    effectors = [effector for effector in found if effector is not None]
    above = np.zeros((0, int(system.own.sum())))
    levels: list[LevelDiagnosis] = []
    for priority in sorted({effector.priority for effector in effectors}):
        own = [effector for effector in effectors if effector.priority == priority]
        levels.append(_level(priority, own, above))
        above = np.concatenate([above, *(effector.jacobian for effector in own)])
    return Diagnosis(
        levels=tuple(levels),
        channels=above.shape[1],
        freedom=above.shape[1] - len(row_space(above, LOST)),
        limited=limits_at(system, posed.values)[0],
    )


class _Effector:
    """Unweighted Jacobian of one task in scaled units, and the chain of its joint."""

    def __init__(
        self,
        task: Task,
        jacobian: FloatArray,
        axes: FloatArray | None = None,
        joint: str = "",
        chain: Sequence[tuple[str, FloatArray]] = (),
    ) -> None:
        """Find out what it cannot do.

        Args:
            jacobian: (m, nv).
            axes: Direction along or about which each row is, in armature space, (m, 3); None where rows have
                none.
            joint: Name of its joint.
            chain: Joints that can turn its point, the nearest first, and the way from each to it (3,) [m];
                none for angles.
        """
        self.label, self.priority, self.joint = task.label, task.priority, joint
        self.preference = task.preference
        self.jacobian, self.chain = jacobian, chain
        left, rates = _left_vectors(jacobian)
        # With all lost there is no best direction: then lengths are compared with the reach, angles with 1.
        best = rates[0] if rates[0] > LOST else 1.0
        poor = rates <= NEARLY * best
        self.movable = left[:, ~poor]
        """Combinations of its rows that can be moved, in columns, (m, r)."""
        self.lost: list[LostDirection] = []
        """The directions that are lost, or nearly."""
        self.places = None if task.angular else axes
        """Directions of its rows, if they are lengths."""
        if axes is None:
            return
        for number in np.flatnonzero(poor)[::-1]:
            direction = left[:, number] @ axes
            direction = _upright(direction / np.linalg.norm(direction))
            rate, straight = float(rates[number] / best), self.straight(direction)
            self.lost.append(LostDirection(task.label, frozen(direction), task.angular, rate, straight))

    def straight(self, direction: FloatArray) -> str | None:
        """The joint from which the chain is straight along a direction; None where it is not."""
        aligned: list[str] = []
        for name, way in self.chain:
            if abs(float(way @ direction)) < ALONG * float(np.linalg.norm(way)):
                break
            aligned.append(name)
        return aligned[-1] if len(aligned) > 1 else None

    def is_pulled(self, part: FloatArray) -> bool:
        """Whether the chain is straight along a combination of its rows (m,)."""
        if self.places is None or np.linalg.norm(part) < TAKES_PART:
            return False
        direction = part @ self.places
        return self.straight(direction / np.linalg.norm(direction)) is not None


def _effector(task: Task, goal: Task, posed: PosedMechanism, real: BoolArray) -> _Effector | None:
    """Jacobian and chain of a task; None where it has none.

    Args:
        goal: What it is about: itself, or what it has taken of its alternatives.
        posed: The mechanism in one frame.
        real: Which free channels are the pose's own, (nv,).
    """
    if isinstance(goal, StayNear):
        return None
    mechanism = posed.mechanism
    skeleton, length = mechanism.skeleton, mechanism.skeleton.reach
    unit = np.where(mechanism.rotates, 1.0, length)
    rows = goal.rows([goal.altered(weight=1.0)], mechanism)
    jacobian = rows.jacobian(posed)[0] * unit / np.where(rows.angular, 1.0, length)[:, None]
    if not isinstance(goal, (ReachPoint, MatchOrientation, AimAt, OnPlane)):
        return _Effector(task, jacobian[rows.binding(posed)[0]][:, real])
    joint = skeleton.index(goal.joint)
    name, anchor = skeleton.names[joint], np.array([mechanism.anchor(joint)])
    turning = posed.angular_jacobian(anchor)[0, 0] * unit  # (3, nv)
    if isinstance(goal, MatchOrientation):
        axes = goal.target.T[np.array(goal.axes)]
        return _Effector(task, (axes @ turning)[:, real], axes, name)
    points = posed.points(*anchored([(joint, goal.point)], mechanism))
    point = points[0, 0]
    if isinstance(goal, AimAt):
        moving = posed.point_jacobian(anchor, points)[0, 0] * unit  # (3, nv)
        matrix: FloatArray = posed.matrices[0, anchor[0]] @ mechanism.anchor_from_joint(joint)[0]
        ray: FloatArray = matrix[:3, :3] @ goal.axis
        size = np.linalg.norm(ray)
        if not size:  # a joint without size points nowhere
            return None
        ray = ray / size
        distance = max(float(np.linalg.norm(goal.target - point)), TOUCHES * length)
        across = np.linalg.svd(ray[None])[2][1:]  # (2, 3): where the ray can swing, seen from the target
        swinging = across @ (moving / distance - skew(ray) @ turning)
        return _Effector(task, swinging[:, real], np.cross(ray, across), name)
    if isinstance(goal, ReachPoint):
        axes = goal.armature_from_axes.T[np.array(goal.axes)]
    elif goal.one_sided and goal.normal @ (point - goal.origin) - goal.offset > TOUCHES * length:
        return None
    else:
        axes = goal.normal[None]
    return _Effector(task, jacobian[:, real], axes, name, _chain(posed, int(anchor[0]), point))


def _chain(posed: PosedMechanism, slot: int, point: FloatArray) -> list[tuple[str, FloatArray]]:
    """Joints that can turn a point, the nearest first, and the way from each to it; none at the point."""
    mechanism = posed.mechanism
    turning = set(mechanism.kept_of[mechanism.rotates].tolist())
    chain: list[tuple[str, FloatArray]] = []
    while slot != ARMATURE:
        way = point - posed.matrices[0, slot, :3, 3]
        if slot - 1 in turning and np.linalg.norm(way) > LOST * mechanism.skeleton.reach:
            chain.append((mechanism.skeleton.names[int(mechanism.joints[slot - 1])], way))
        slot = int(mechanism.parents[slot - 1])
    return chain


def _level(priority: int, own: Sequence[_Effector], above: FloatArray) -> LevelDiagnosis:
    """One level, given the rows of the levels above, (m, nv)."""
    jacobian = np.concatenate([effector.jacobian for effector in own])
    space = row_space(above, LOST)
    left = jacobian - jacobian @ space.T @ space
    sizes = np.linalg.svd(left, compute_uv=False) if left.size else np.zeros(0)
    together, stretched = _together(own)
    return LevelDiagnosis(
        priority=priority,
        tasks=tuple(effector.label for effector in own),
        rows=len(jacobian),
        rank=len(row_space(jacobian, LOST)),
        left=int(np.count_nonzero(sizes > LOST * float(np.linalg.norm(jacobian)))),
        singular_values=frozen(sizes),
        manipulability=float(sizes.prod()) if len(left) <= left.shape[1] else 0.0,
        lost=tuple(sorted((lost for each in own for lost in each.lost), key=lambda lost: lost.rate)),
        together=together,
        stretched=stretched,
        preferred=all(effector.preference for effector in own),
    )


def _together(own: Sequence[_Effector]) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]:
    """Effectors that hang together, and which of these are stretched.

    These are the smallest groups: one, two, or all that take part. Two straight legs are two directions that
    are lost, and any mixture of these is lost as well: singular vectors of all effectors at once do not tell
    who hangs together with whom. So each effector, and each pair of those that take part, is analysed alone,
    and only what that does not explain is left.
    """
    every = _hanging(own, {effector.label for effector in own})
    several = {label for labels, _ in every for label in labels}
    names = [label for label in dict.fromkeys(effector.label for effector in own) if label in several]
    groups = [*((name,) for name in names), *combinations(names, 2)]
    parts = np.cumsum([len(effector.jacobian) for effector in own])[:-1]
    known = np.zeros((0, sum(len(effector.jacobian) for effector in own)))
    found: list[tuple[str, ...]] = []
    stretched: list[tuple[str, ...]] = []

    def is_new(vector: FloatArray) -> bool:
        return bool(np.linalg.norm(vector - vector @ known.T @ known) > TAKES_PART)

    for group in groups:
        vectors = [vector for _, vector in _hanging(own, set(group))]
        if any(map(is_new, vectors)):
            found.append(group)
            members = [number for number, effector in enumerate(own) if effector.label in group]
            above = {name for number in members for name, _way in own[number].chain}
            ends = {own[number].label for number in members if own[number].joint not in above}
            split = [np.split(vector, parts) for vector in vectors]
            pulled = [{own[n].label for n in members if own[n].is_pulled(each[n])} for each in split]
            if len(group) > 1 and any(ends <= labels for labels in pulled):
                stretched.append(group)
        known = row_space(np.array([*known, *vectors]).reshape(-1, known.shape[1]), LOST)
    for labels, vector in every:
        if is_new(vector) and labels not in found:
            found.append(labels)
    return tuple(found), tuple(stretched)


def _hanging(own: Sequence[_Effector], group: set[str]) -> list[tuple[tuple[str, ...], FloatArray]]:
    """Directions (m,) of a level that are lost to several of a group, though to none alone, and to which."""
    members = [effector for effector in own if effector.label in group]
    # What an effector cannot do by itself is no matter of others.
    left, rates = _left_vectors(np.concatenate([each.movable.T @ each.jacobian for each in members]))
    found: list[tuple[tuple[str, ...], FloatArray]] = []
    for vector in left.T[rates <= NEARLY * max(float(rates.max(initial=0.0)), LOST)]:
        several: list[str] = []
        parts: list[FloatArray] = []
        for effector in own:
            part = np.zeros(len(effector.jacobian))
            if effector.label in group:
                count = effector.movable.shape[1]
                part, vector = effector.movable @ vector[:count], vector[count:]
            parts.append(part)
            several += [effector.label] * bool(np.linalg.norm(part) >= TAKES_PART)
        if len(several) > 1:
            found.append((tuple(dict.fromkeys(several)), np.concatenate(parts)))
    return found


def _left_vectors(jacobian: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Left singular vectors of a matrix (m, n) in columns, (m, m), and the singular value of each, (m,)."""
    left, sizes, _ = np.linalg.svd(jacobian)
    rates = np.zeros(len(left))
    rates[: len(sizes)] = sizes
    return left, rates


def _upright(direction: FloatArray) -> FloatArray:
    """A direction (3,) or its opposite, so that its first large component is above 0."""
    large = np.abs(direction) > 0.5 * np.abs(direction).max()
    return direction * np.sign(direction[int(np.argmax(large))])

# SPDX-License-Identifier: GPL-3.0-or-later
"""Slack variables of inequalities, as channels of joints that are added to a skeleton.

What may be on one side only, as a point above a floor, gets a channel with a limit: the inequality h(q) >= 0
is the equation h(q) − σc = 0 with a slack variable c >= 0 [NocedalWright2006 §16.1]. The solver knows boxes
already, so c is a channel like any other: the translation x of a joint that is added to the skeleton and is
not part of a pose. Where a floor bears a force, the limit of c is active.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from ..model.skeleton import CHANNELS, Pose, Skeleton
from ..tasks import OneOf, Task

_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, repr=False, eq=False)
class SlackSkeleton(Skeleton):
    """A skeleton with a joint for each slack variable after its own."""

    own_joints: int = 0
    """Number of joints without those of slack variables."""

    @property
    def posed_joints(self) -> int:
        """Number of joints that poses have."""
        return self.own_joints

    @classmethod
    def of(cls, skeleton: Skeleton, joints: tuple[int, ...]) -> Self:
        """A skeleton with a slack variable for each of some of its joints, (k,)."""
        known: dict[tuple[int, ...], Self] = vars(skeleton).setdefault("_slack", {})
        if joints in known:
            return known[joints]
        count, nowhere = len(joints), (len(joints), CHANNELS)
        free, lower = np.zeros(nowhere, dtype=np.bool_), np.full(nowhere, -np.inf)
        free[:, 0], lower[:, 0] = True, 0.0

        def more(field: npt.NDArray[_Scalar], added: npt.ArrayLike) -> npt.NDArray[_Scalar]:
            rows = np.broadcast_to(np.asarray(added, dtype=field.dtype), (count, *field.shape[1:]))
            return np.concatenate([field, rows])

        names = tuple(f"slack {number} of {skeleton.names[joint]}" for number, joint in enumerate(joints))
        new = cls(
            names=(*skeleton.names, *names),
            # Carried by the joint itself: what is about one limb stays on one limb.
            parents=more(skeleton.parents, joints),
            rest=more(skeleton.rest, np.eye(4)),
            orders=more(skeleton.orders, 0),
            free=more(skeleton.free, free),
            lower=more(skeleton.lower, lower),
            upper=more(skeleton.upper, np.inf),
            stiffness=more(skeleton.stiffness, 0.0),
            preferred=more(skeleton.preferred, np.nan),
            inherit_rotation=more(skeleton.inherit_rotation, True),
            inherit_scale=more(skeleton.inherit_scale, 0),
            local_location=more(skeleton.local_location, True),
            up=skeleton.up,
            own_joints=len(skeleton),
        )
        known[joints] = new
        return new


def with_slacks(skeleton: Skeleton, tasks: Sequence[Task]) -> tuple[Skeleton, tuple[Task, ...]]:
    """The skeleton with a slack variable for each inequality, and the tasks that refer to them."""
    joints: list[int] = []

    def with_slack(task: Task) -> Task:
        if isinstance(task, OneOf):
            # Their own weights do not count.
            others = (other.altered(weight=task.weight) for other in task.alternatives)
            return task.altered(alternatives=tuple(map(with_slack, others)))
        if not task.one_sided or task.weight == 0.0:
            return task
        joints.append(task.joints(skeleton)[-1])
        return task.altered(slack=len(skeleton) + len(joints) - 1)

    new = tuple(with_slack(task) for task in tasks)
    return (SlackSkeleton.of(skeleton, tuple(joints)), new) if joints else (skeleton, tuple(tasks))


def with_joints(pose: Pose, joints: int) -> Pose:
    """A pose (..., n, 6) with joints at rest after its own."""
    more = joints - pose.channels.shape[-2]
    channels = np.zeros((*pose.frames, more, CHANNELS))
    return Pose(
        np.concatenate([pose.channels, channels], axis=-2),
        np.concatenate([pose.scale, np.ones((*pose.frames, more, 3))], axis=-2),
    )

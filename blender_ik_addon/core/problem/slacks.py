# SPDX-License-Identifier: GPL-3.0-or-later
"""Points that may be above a plane but not below it, as channels with a limit.

The inequality h(q) >= 0 of a one-sided plane is the equation h(q) − σc = 0 with a slack variable c >= 0
[NocedalWright2006 §16.1]. Solvers know boxes already, so c is a channel like any other: the translation x of
a joint that is added to the skeleton, of which poses know nothing. A point that is pressed onto its plane is
a channel that stands on its limit, and is let go of like one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, Self, TypeVar

import numpy as np
import numpy.typing as npt

from ..arrays import FloatArray
from ..model.mechanism import Mechanism
from ..model.skeleton import CHANNELS, Pose, Skeleton
from ..tasks import OneOf, OnPlane, Task
from ..tasks.planes import ClearedPlane

LIFTED: Final = 1e-6
"""Clearance of points of which it is not known whether they are above their planes [1]: next to nothing, so
that poses are not called different for it."""

_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, repr=False, eq=False)
class ClearedSkeleton(Skeleton):
    """A skeleton with joints for clearances after its own."""

    own_joints: int = 0
    """Number of joints without those of clearances."""

    @property
    def posed_joints(self) -> int:
        """Number of joints that poses have."""
        return self.own_joints

    @classmethod
    def of(cls, skeleton: Skeleton, joints: tuple[int, ...]) -> Self:
        """A skeleton with a clearance for each of some of its joints, (k,)."""
        known: dict[tuple[int, ...], Self] = vars(skeleton).setdefault("_cleared", {})
        if joints in known:
            return known[joints]
        count, nowhere = len(joints), (len(joints), CHANNELS)
        free, lower = np.zeros(nowhere, dtype=np.bool_), np.full(nowhere, -np.inf)
        free[:, 0], lower[:, 0] = True, 0.0

        def more(field: npt.NDArray[_Scalar], added: npt.ArrayLike) -> npt.NDArray[_Scalar]:
            rows = np.broadcast_to(np.asarray(added, dtype=field.dtype), (count, *field.shape[1:]))
            return np.concatenate([field, rows])

        names = tuple(f"clearance {number} of {skeleton.names[joint]}" for number, joint in enumerate(joints))
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


class ClearedMechanism(Mechanism):
    """The mechanism of a skeleton with clearances, for poses that do not have them."""

    def values(self, pose: Pose) -> FloatArray:
        """The free channels of a pose, clearances above 0: where points are above planes is seen later."""
        values = self.of_channels(pose.channels)
        values[..., self.channels >= pose.channels.shape[-2] * CHANNELS] = LIFTED
        return values

    def with_values(self, pose: Pose, values: FloatArray) -> Pose:
        """The pose with these free channels, (..., nv), without clearances."""
        posed = pose.channels.shape[-2] * CHANNELS
        known = self.channels < posed
        flat = np.array(pose.channels).reshape(*pose.frames, posed)
        flat[..., self.channels[known]] = values[..., known]
        return pose.with_channels(flat.reshape(pose.channels.shape))

    def of_channels(self, per_channel: FloatArray) -> FloatArray:
        """Values of the free channels out of an array for all, 0 for joints that it does not have."""
        flat = per_channel.reshape(*per_channel.shape[:-2], -1)
        known = self.channels < flat.shape[-1]
        values = np.zeros((*flat.shape[:-1], len(known)), dtype=flat.dtype)
        values[..., known] = flat[..., self.channels[known]]
        return values


def with_clearances(skeleton: Skeleton, tasks: Sequence[Task]) -> tuple[Skeleton, tuple[Task, ...]]:
    """The skeleton with a clearance for each one-sided plane, and the tasks that know of theirs."""
    joints: list[int] = []

    def cleared(task: Task) -> Task:
        if isinstance(task, OneOf):
            return replace(task, alternatives=tuple(cleared(other) for other in task.alternatives))
        if isinstance(task, OnPlane) and task.one_sided and task.weight > 0.0:
            joints.append(skeleton.index(task.joint))
            given = {field.name: getattr(task, field.name) for field in fields(task)}
            return ClearedPlane(**given, clearance=len(skeleton) + len(joints) - 1)
        return task

    new = tuple(cleared(task) for task in tasks)
    return (ClearedSkeleton.of(skeleton, tuple(joints)), new) if joints else (skeleton, tuple(tasks))


def with_joints(pose: Pose, joints: int) -> Pose:
    """A pose (..., n, 6) with joints at rest after its own."""
    more = joints - pose.channels.shape[-2]
    channels = np.zeros((*pose.frames, more, CHANNELS))
    return Pose(
        np.concatenate([pose.channels, channels], axis=-2),
        np.concatenate([pose.scale, np.ones((*pose.frames, more, 3))], axis=-2),
    )

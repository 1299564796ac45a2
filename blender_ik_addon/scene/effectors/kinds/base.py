# SPDX-License-Identifier: GPL-3.0-or-later
"""What every kind of effector has: a goal, tasks, errors, and bones that may move for it."""

from abc import ABC, abstractmethod

from ....core import Skeleton, Task
from ....core.arrays import FloatArray
from ..effectors import Effector
from ..frame_data import (
    FrameData,
    Goal,
    Posed,
    Space,
)

Errors = tuple[FloatArray | None, FloatArray | None]
"""Distances (F,) [m] and angles (F,) [rad], or None where a kind has no such error."""


class Kind(ABC):
    """What effectors of one kind ask for."""

    @abstractmethod
    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """Where an effector leads, the `number`th of those of the frame data."""

    @abstractmethod
    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """The same for the solver."""

    @abstractmethod
    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """How far off it is."""

    def chain(self, effector: Effector, skeleton: Skeleton) -> list[int]:
        """Joints that may move for an effector: its bone, and as many above it as its chain is deep."""
        return chain_of(skeleton, effector.bone, effector.chain_depth)


def chain_of(skeleton: Skeleton, bone: str, depth: int) -> list[int]:
    """A bone and those above it: `depth` in all, or up to the root for 0."""
    ancestors = skeleton.ancestors(skeleton.index(bone))
    return ancestors[:depth] if depth else ancestors

# SPDX-License-Identifier: GPL-3.0-or-later
"""Choices: one of several targets is enough [KiSheen §2]."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ....core import OneOf, Task
from ....core.arrays import IntArray
from ..effectors import Effector
from ..frame_data import (
    FrameData,
    Goal,
    Posed,
    Space,
)
from .base import Errors, Kind


class Choice(Kind):
    """What another kind asks for, of one of several targets; how well is measured at the one met best."""

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        """Choose between targets for some kinds, by their names."""
        self._kinds = kinds

    def goal(self, effector: Effector, number: int, frame_data: FrameData) -> Goal:
        """The goals of all its targets."""
        inner, first = _inner(effector), frame_data.further[number]
        rows = (number, *range(first, first + len(effector.others)))
        kind = self._kinds[effector.choice]
        return Goal(
            choices=tuple(kind.goal(inner, number, frame_data.with_target(number, row)) for row in rows)
        )

    def tasks(self, effector: Effector, goal: Goal, space: Space, frame_data: FrameData) -> tuple[Task, ...]:
        """One, of which the alternatives are called as their targets are."""
        inner, kind = _inner(effector), self._kinds[effector.choice]
        alternatives = tuple(
            kind.tasks(replace(inner, name=name), own, space, frame_data)[0]
            for name, own in zip(_names(effector), goal.choices, strict=True)
        )
        return (
            OneOf(
                alternatives=alternatives,
                priority=effector.priority,
                weight=effector.weight,
                softness=alternatives[0].softness,
                name=effector.name,
            ),
        )

    def errors(self, effector: Effector, goal: Goal, posed: Posed) -> Errors:
        """Those of the target met best."""
        inner, kind = _inner(effector), self._kinds[effector.choice]
        pairs = [kind.errors(inner, own, posed) for own in goal.choices]
        distances = [distance for distance, _ in pairs if distance is not None]
        angles = [angle for _, angle in pairs if angle is not None]
        return (
            np.min(distances, axis=0) if distances else None,
            np.min(angles, axis=0) if angles else None,
        )

    def taken(self, effector: Effector, goal: Goal, posed: Posed) -> tuple[str, ...]:
        """Which target is met best in each frame, by its name, (F,)."""
        names = _names(effector)
        return tuple(names[row] for row in self._best(effector, goal, posed).tolist())

    def met(self, effector: Effector, goal: Goal, posed: Posed) -> tuple[Effector, Goal]:
        """The effector and goal of another kind that are met best in the first frame; others as they are."""
        if effector.kind != 'ONE_OF':
            return effector, goal
        return _inner(effector), goal.choices[int(self._best(effector, goal, posed)[0])]

    def _best(self, effector: Effector, goal: Goal, posed: Posed) -> IntArray:
        inner, kind = _inner(effector), self._kinds[effector.choice]
        pairs = [kind.errors(inner, own, posed) for own in goal.choices]
        errors = [distance if angle is None else angle for distance, angle in pairs]
        return np.array(errors).argmin(axis=0)


def _names(effector: Effector) -> tuple[str, ...]:
    """What its targets are called."""
    return (effector.target, *effector.others)


def _inner(effector: Effector) -> Effector:
    """The same effector, as one of the kind that it takes its target by."""
    return replace(effector, kind=effector.choice, others=())

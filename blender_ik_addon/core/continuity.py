# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a motion jumps, and how a jump is spread.

The preferred pose subject to the tasks is a local minimum, and a minimum may end: as targets move on it meets
a saddle, and the pose falls to another one, a branch that lies elsewhere. No solver can avoid that; but the
tasks leave room to pass from one branch to the other in several frames instead of one. Often the other branch
is not even another pose: Euler angles give each rotation many names, and those that lie next to the angles
before are as good as any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray, IntArray
from .mechanism import Mechanism
from .motion import Motion
from .rotation import continuous_euler

NEIGHBOURS: Final = 4
"""Steps before and after one that tell what is usual there."""
JUMP: Final = 3.0
"""A step this many times as large as is usual around it is a jump [1]."""
NO_JUMP: Final = 0.03
"""Largest change of a channel [rad] in a frame that is none in any case."""
OTHER_NAME: Final = 2.0
"""Step of an angle [rad] from which other angles of a rotation may be at less than half of it: they lie
at least π apart in one of the three."""
LONGEST: Final = 32
"""Most frames over which a jump is spread."""


def usual_steps(steps: FloatArray, at: IntArray) -> FloatArray:
    """Median of the steps before and after each of some, itself left out, (f,); 0 where there are none."""
    around = at[:, None] + np.r_[-NEIGHBOURS:0, 1 : NEIGHBOURS + 1]
    inside = (around >= 0) & (around < len(steps))
    sizes = np.sort(np.where(inside, steps[np.clip(around, 0, max(len(steps) - 1, 0))], np.inf), axis=1)
    count = inside.sum(axis=1)
    rows = np.arange(len(at))
    middle = 0.5 * (sizes[rows, np.maximum(count - 1, 0) // 2] + sizes[rows, count // 2])
    return np.where(count > 0, middle, 0.0)


def sudden(steps: FloatArray) -> IntArray:
    """Frames to which a motion jumps, by its steps (F - 1,)."""
    large = np.flatnonzero(steps > NO_JUMP)
    return large[steps[large] > JUMP * usual_steps(steps, large)] + 1


def grouped(frames: IntArray) -> list[tuple[int, int]]:
    """First and last of frames, in order, that follow one another, one in between or none."""
    found: list[tuple[int, int]] = []
    for frame in frames.tolist():
        if found and frame <= found[-1][1] + 2:
            found[-1] = (found[-1][0], frame)
        else:
            found.append((frame, frame))
    return found


def renamed(
    values: FloatArray, before: FloatArray, mechanism: Mechanism, lower: FloatArray, upper: FloatArray
) -> FloatArray | None:
    """The motion with the same rotations called by angles that go on from a pose before.

    Args:
        values: The motion, (F, nv).
        before: From which it goes on, (nv,).
        mechanism: To which joints the channels belong.
        lower: Limits of the channels, (nv,).
        upper: Likewise.

    Returns:
        The values, (F, nv); None where other angles of no joint are nearer.
    """
    if np.abs(values[0] - before).max(initial=0.0) <= OTHER_NAME:
        return None
    columns, orders = mechanism.balls
    steps = np.abs(values[0] - before)[columns].max(axis=1, initial=0.0)
    after = np.array(values)
    changed = False
    for joint in np.flatnonzero(steps > OTHER_NAME):
        own = columns[joint]
        motion = np.concatenate([before[None, own], values[:, own]])
        angles = continuous_euler(motion, int(orders[joint]))[1:]
        inside = ((angles >= lower[own]) & (angles <= upper[own])).all()
        if inside and np.abs(angles[0] - before[own]).max() < 0.5 * steps[joint]:
            after[:, own] = angles
            changed = True
    return after if changed else None


@dataclass(frozen=True)
class Passage:
    """A jump, and frames over which it can be spread."""

    first: int
    """Frame to which the motion jumps."""
    last: int
    """The last such frame, where there are several one after the other."""
    frames: IntArray
    """Frames that follow one another, neither the first nor the last of all, (f,)."""


def passage(values: Motion, first: int, last: int, movable: BoolArray) -> Passage | None:
    """Frames round a jump over which it can be spread.

    Args:
        values: The motion.
        first: Frame to which it jumps.
        last: The last such frame, where there are several one after the other.
        movable: Which frames may be changed, (F,). Where they end on one side of the jump there are more of
            them on the other.

    Returns:
        None where no frame may be changed.
    """
    steps = values.steps()
    usual = max(float(np.median(usual_steps(steps, np.arange(first - 1, last)))), NO_JUMP / JUMP)
    fixed = np.flatnonzero(~movable)
    # The last one before the jump that stays, and the first one after; both ends of the motion stay, too.
    begin = int(max(fixed[fixed < first].max(initial=0), 0)) + 1
    end = int(fixed[fixed >= first].min(initial=len(values) - 1))
    last = min(last, end)
    if begin >= end:
        return None
    distance = float(np.abs(values[last] - values[first - 1]).max(initial=0.0))
    half = int(np.clip(np.ceil(0.75 * distance / usual), 2, LONGEST)) // 2 + 1
    more = max(half - (first - begin), 0), max(half - (end - last), 0)
    return Passage(
        first, last, np.arange(max(first - half - more[1], begin), min(last + half + more[0], end))
    )


def spread(values: Motion, passages: Sequence[Passage]) -> tuple[IntArray, FloatArray]:
    """Poses that lead smoothly over jumps of which the frames touch, in their order.

    Each goes over from what is before it to what is behind it with a share s of its own from 0 to 1. So a
    frame has passed k of them with the probability that k of as many throws succeed, and is so much of what
    lies between the k-th and the next: the same read backward.

    Returns:
        All their frames (f,), and for each a pose (f, nv); on it tasks are not met.
    """
    start = min(int(some.frames[0]) for some in passages)
    stop = max(int(some.frames[-1]) for some in passages) + 1
    frames = np.arange(start, stop)
    weights = np.ones((1, len(frames)))  # of each part of the motion
    none = np.zeros((1, len(frames)))
    for some in passages:
        begin, end = int(some.frames[0]) - 1, int(some.frames[-1]) + 1
        share: FloatArray = np.clip((frames - begin) / (end - begin), 0.0, 1.0)
        share = share**2 * (3.0 - 2.0 * share)
        weights = np.concatenate([(1.0 - share) * weights, none]) + np.concatenate([none, share * weights])
    # Each part goes on from its ends as it stands there.
    begins = [start - 1, *(some.last for some in passages)]
    ends = [*(some.first - 1 for some in passages), stop]
    poses = np.zeros_like(values[frames])
    for weight, begin, end in zip(weights, begins, ends, strict=True):
        poses += weight[:, None] * values[np.clip(frames, begin, end)]
    return frames, poses

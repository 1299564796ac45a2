# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a motion jumps, and how a jump is spread.

The preferred pose subject to the tasks is a local minimum, and a minimum may end: as targets move on it meets
a saddle, and the pose falls to another one, a branch that lies elsewhere. No solver can avoid that; but the
tasks leave room to pass from one branch to the other in several frames instead of one. Often the other branch
is not even another pose: Euler angles give each rotation many names, and those that lie next to the angles
before are as good as any.
"""

from __future__ import annotations

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


def spread(values: Motion, first: int, last: int, movable: BoolArray) -> tuple[IntArray, FloatArray]:
    """Frames round a jump, and poses that lead smoothly from one side of it to the other.

    Args:
        values: The motion.
        first: Frame to which it jumps.
        last: The last such frame, where there are several one after the other.
        movable: Which frames may be changed, (F,). Where they end on one side of the jump there are more of
            them on the other.

    Returns:
        The frames (f,), and for each a pose (f, nv) between the two sides; on it tasks are not met.
    """
    steps = values.steps()
    usual = max(float(np.median(usual_steps(steps, np.arange(first - 1, last)))), NO_JUMP / JUMP)
    fixed = np.flatnonzero(~movable)
    # The last one before the jump that stays, and the first one after; the first frame of all stays, too.
    begin = int(max(fixed[fixed < first].max(initial=0), 0)) + 1
    end = int(fixed[fixed >= first].min(initial=len(values)))
    last = min(last, end)
    if begin >= end or last == len(values):
        return np.zeros(0, np.int64), values[:0]
    before, after = values[first - 1], values[last]
    distance = float(np.abs(after - before).max(initial=0.0))
    half = int(np.clip(np.ceil(0.75 * distance / usual), 2, LONGEST)) // 2 + 1
    more = max(half - (first - begin), 0), max(half - (end - last), 0)
    frames = np.arange(max(first - half - more[1], begin), min(last + half + more[0], end))
    share = (frames - (frames[0] - 1.0)) / (frames[-1] + 1.0 - (frames[0] - 1.0))
    share = share**2 * (3.0 - 2.0 * share)
    near_side = np.where((frames < first)[:, None], values[frames], before)
    far_side = np.where((frames > last)[:, None], values[frames], after)
    return frames, near_side + share[:, None] * (far_side - near_side)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Motions that are loops, whose last frame is the first one again: which are, and the rounds beside them."""

from __future__ import annotations

from math import ceil
from typing import Final

import numpy as np

from ..arrays import FloatArray, IntArray
from ..engine.motion import OVERLAP
from ..problem.system import SAME, System
from ..tasks import OneOf
from ..tasks.base import OrientationField

CONTINUES: Final = 0.75
"""Difference of the first and the last step of a loop, at most, by the sum of their lengths [1]."""


def is_loop(system: System, values: FloatArray, preferred: FloatArray, own: slice) -> bool:
    """Whether some frames are a loop, by targets, preferred pose and what no solve moves.

    They must go through the seam as they come to it: what rests at an end, or comes back the way it went,
    needs no other end. The targets of other frames must rest, or go round once more: otherwise the motion
    goes on beyond.

    Args:
        system: Of F frames.
        values: Where they start, (F, nv) [m, rad].
        preferred: What they prefer, (F, nv).
        own: The frames.
    """
    first, last = own.start, own.stop - 1
    if last - first < 3:
        return False
    ends = system.select(np.array([first, last]))
    # Fixed channels and scales may differ too, which shows in the places of joints and of tasks' points.
    posed = ends.place(values[[first, first]])
    places = posed.matrices * np.array([1.0, 1.0, 1.0, 1.0 / system.reach])
    pairs = preferred[[first, last]] / system.units, places, ends.residual(posed) / system.row_units
    if not all(np.allclose(one, other, rtol=0.0, atol=SAME) for one, other in pairs):
        return False
    if ends.given is not None and (ends.given[0] != ends.given[1]).any():
        return False
    begin, end = (_step(system, preferred, frame) for frame in (first, last - 1))
    way = np.linalg.norm(begin) + np.linalg.norm(end)
    if way <= SAME or np.linalg.norm(end - begin) > CONTINUES * way:
        return False
    frames = np.arange(len(values))
    beside = frames[(frames < first) | (frames > last)]
    again = first + (beside - first) % (last - first)
    return _aim_alike(system, [first], [last]) and any(
        _aim_alike(system, beside.tolist(), like.tolist()) for like in (np.clip(beside, first, last), again)
    )


def _aim_alike(system: System, frames: list[int], others: list[int]) -> bool:
    """Whether frames have the same targets as others, one by one, also those that are not taken."""
    return all(
        np.allclose(_aim(system, frame), _aim(system, other), rtol=0.0, atol=SAME)
        for frame, other in zip(frames, others, strict=True)
    )


def _aim(system: System, frame: int) -> FloatArray:
    """Targets of a frame in one array, places by the reach, (k,) [1]; 0 where there are none."""
    tasks = system.select(np.array([frame])).tasks
    every = [each for task in tasks for each in (task.alternatives if isinstance(task, OneOf) else (task,))]
    sizes = [isinstance(task.arrays[task.target_field], OrientationField) or system.reach for task in every]
    aims = [task.aim.ravel() / size for task, size in zip(every, sizes, strict=True)]
    return np.nan_to_num(np.concatenate([np.zeros(0), *aims]))


def _step(system: System, preferred: FloatArray, frame: int) -> FloatArray:
    """How targets and preferred poses (F, nv) change from a frame to the next, (k,) [1]."""
    aims = _aim(system, frame + 1) - _aim(system, frame)
    return np.concatenate([aims, (preferred[frame + 1] - preferred[frame]) / system.units])


def rounds(times: FloatArray, own: slice, smoothness: float) -> tuple[IntArray, FloatArray]:
    """Frames and times of a loop, with those of the rounds before and after.

    Args:
        times: Of all frames, rising, (F,) [s].
        own: The frames of the loop.
        smoothness: τ [s], above 0: as many frames are added as the terms over time reach.

    Returns:
        The frames of F, (n,), and their times, rising, (n,) [s]; as many before the loop as after it.
    """
    begin, end = int(own.start), int(own.stop) - 1
    period, count = float(times[end] - times[begin]), end - begin
    more = ceil(OVERLAP * min(smoothness, period) * count / period)
    numbers = np.arange(-more, count + 1 + more)
    frames = begin + numbers % count
    return frames, times[frames] + numbers // count * period

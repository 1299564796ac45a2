# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a pose falls between two frames: the minimum that it is ends, and it goes to another.

Seen from frame to frame alone a fall is no more than a large step, and a motion may have large steps because
its targets have, or because a limb that is nearly straight turns far by little. So the targets are led from
one frame to the next in small steps, places straight and orientations about one axis: where a pose falls,
most of its way lies in one of these, and elsewhere it is divided among them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .arrays import FloatArray
from .course import Course
from .newton import attempt
from .rotation import matrix_from_rotvec, rotvec_from_matrix

SMALL_STEPS: Final = 16
"""Steps in which the targets are led from a frame to the next."""
FALL: Final = 0.3
"""Part of the way [1] in one of them that is a fall."""


def falls(course: Course, frame: int) -> bool:
    """Whether the pose of the frame before, which meets its targets, falls on the way to this one."""
    before, after = (course.system.select(np.array([number])).tasks for number in (frame - 1, frame))
    objective = course.objective.select(np.array([frame]))
    first, last = course.values[frame - 1], course.values[frame]
    value, largest = first[None], 0.0
    for share in np.arange(1, SMALL_STEPS + 1) / SMALL_STEPS:
        targets = [_between(a.aim, b.aim, float(share)) for a, b in zip(before, after, strict=True)]
        found = attempt(objective.on(objective.system.aimed(targets)), value, course.goal)
        course.iterations[frame] += found.iterations[0]
        largest = max(largest, float(np.abs(found.values - value).max(initial=0.0)))
        value = found.values
    return largest > FALL * float(np.abs(last - first).max(initial=0.0))


def _between(before: FloatArray, after: FloatArray, share: float) -> FloatArray:
    """A target between two, by the part of the way [1]."""
    if before.shape[-2:] != (3, 3):
        return before + share * (after - before)
    turn = rotvec_from_matrix(after @ np.swapaxes(before, -1, -2))
    return matrix_from_rotvec(share * turn) @ before

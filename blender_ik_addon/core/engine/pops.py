# SPDX-License-Identifier: GPL-3.0-or-later
"""Frames at which a joint turns out of proportion, as an animator sees it in the keys.

A pop is a turn of a joint in its parent from one frame to the next that is larger than those beside it. The
turn changes there by more than a bound, by more than three times the median change of the frames on either
side, and by more than the bound otherwise than in the frames just before and after: a fast motion gets
faster and slower, but evenly. Over a longer step than the median one it turns as much less.

As with the terms over time, what counts is the difference from the preferred pose P: with poses R, the turns
of P_fᵀ R_f from frame to frame. What a recording does itself, that is preferred frame by frame, is no pop,
and a pop in a fast recording is reported. Nor is it one where the recording pops and the joint turns by no
more: a jump that was smoothed. With one preferred pose for all frames these are the turns themselves.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ..arrays import BoolArray, FloatArray
from ..model.rotation import matrix_from_euler
from ..model.skeleton import Pose, Skeleton

TIMES: Final = 3.0
"""Change of a pop by the median change beside it, at least [1]."""
BESIDE: Final = 12
"""Frames on either side of which that is the median."""


class Pop(NamedTuple):
    """A joint that turns out of proportion."""

    frame: float
    """Frame to which the joint turns: its position, or its number."""
    joint: str
    turn: float
    """Angle of the turn; from the preferred pose, where each frame has its own [rad]."""


def pops_of(
    skeleton: Skeleton,
    poses: Pose,
    bound: float,
    preferred: Pose | None = None,
    *,
    times: FloatArray | None = None,
    cyclic: bool = False,
) -> tuple[Pop, ...]:
    """The pops of a motion, in the order of frames.

    Args:
        skeleton: Whose joints.
        poses: With one frame axis.
        bound: Least change of a turn from frame to frame that is a pop [rad].
        preferred: What is preferred in each frame; None for the same in all.
        times: Of the frames, rising, (F,) [s]; None where steps are even.
        cyclic: Whether the last frame is the first one again: what is beside them is at the other end then.
    """
    joints = np.flatnonzero(skeleton.free[:, 3:].any(axis=1))
    rotations = matrix_from_euler(poses.rotation[:, joints], skeleton.orders[joints])
    steps = np.ones(max(len(rotations) - 1, 1)) if times is None or len(times) < 2 else np.diff(times)
    even = np.minimum(1.0, np.median(steps) / steps)[: max(len(rotations) - 1, 0), None]
    turns = even * _turns(rotations)
    more = min(BESIDE + 1, len(turns)) if cyclic else 0
    if preferred is None:
        own = turns
        found = _out_of_proportion(own, bound, more)
    else:
        wanted = matrix_from_euler(preferred.rotation[:, joints], skeleton.orders[joints])
        theirs, own = (even * _turns(one) for one in (wanted, wanted.swapaxes(-1, -2) @ rotations))
        found = _out_of_proportion(own, bound, more)
        found &= ~_out_of_proportion(theirs, bound, more) | (turns > theirs + bound)
    return tuple(
        Pop(int(frame) + 1, skeleton.names[int(joints[column])], float(own[frame, column] / even[frame, 0]))
        for frame, column in np.argwhere(found)
    )


def _turns(rotations: FloatArray) -> FloatArray:
    """Turn from frame to frame of rotations (F, J, 3, 3), (F - 1, J) [rad]."""
    relative = rotations[:-1].swapaxes(-1, -2) @ rotations[1:]
    cosine = 0.5 * (np.einsum("fjaa->fj", relative) - 1.0)
    # By sine and cosine: the cosine alone says little of small turns.
    skew = relative - relative.swapaxes(-1, -2)
    sine = 0.5 * np.sqrt(0.5 * np.einsum("fjab,fjab->fj", skew, skew))
    return np.arctan2(sine, cosine)


def _out_of_proportion(turns: FloatArray, bound: float, more: int) -> BoolArray:
    """Frames in which a turn is out of proportion to those beside it, (F - 1, J).

    `more` are the turns of the rounds before and after that count as well.
    """
    if more:
        rounds = np.concatenate([turns[-more:], turns, turns[:more]])
        return _out_of_proportion(rounds, bound, 0)[more:-more]
    found = np.zeros(turns.shape, dtype=np.bool_)
    signed = np.diff(turns, axis=0)
    changes = np.abs(signed)  # (F - 2, J)
    beside = np.pad(signed, ((1, 1), (0, 0)))
    uneven = np.abs(signed - 0.5 * (beside[:-2] + beside[2:])) > bound
    for frame in np.flatnonzero((changes > bound).any(axis=1)):
        first, end = max(0, frame - BESIDE), frame + 1 + BESIDE
        usual = (
            np.median(np.delete(changes[first:end], frame - first, axis=0), axis=0)
            if len(changes) > 1
            else 0.0
        )
        larger = np.maximum(turns[frame], turns[frame + 1])
        # A pause in a fast motion changes the turn as much, but no turn is larger than those beside it.
        stands_out = larger > bound + np.median(turns[first : end + 1], axis=0)
        jumps = (changes[frame] > bound) & (changes[frame] > TIMES * usual) & stands_out & uneven[frame]
        later = turns[frame + 1] >= turns[frame]
        found[frame + 1] |= jumps & later
        found[frame] |= jumps & ~later
    return found

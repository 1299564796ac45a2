# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds feet and hands where they are planted.

While two points of a foot are planted, or all that a hand has, its orientation is the mean of those recorded.
While one of two is, the orientation is as recorded, and the foot rolls about that point. So the places are
those of rolling without sliding, up to one translation for all of a contact: the one that moves least,

    x_t = x_{t-1} + (R_{t-1} - R_t) q,    Σ |x_t - recorded_t|² least,

where q is a point that is planted in both frames. Outside of contacts the difference from the recording goes
back to nothing within the time to ease, as a cubic that continues its value and its slope. The difference is
0 where nothing slides, so what is locked already stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from ..arrays import BoolArray, FloatArray, check_number, frozen
from ..arrays import times as product
from ..errors import IKError
from ..messages import Message
from ..model.rotation import matrix_from_rotvec, rotvec_from_matrix
from .contacts import Track, check_times, spans

SLOPE_TIME: Final = 0.05
"""Time [s] at the borders of a contact over which the slope of the difference is taken."""


def locked(track: Track, on: npt.ArrayLike, times: npt.ArrayLike, *, ease: float = 0.2) -> Track:
    """A track with what is in contact at rest, and as recorded from the time to ease before and after.

    Args:
        track: As recorded; where a contact is with a moving object, relative to that.
        on: Whether its points are in contact, (F, P).
        times: Of the frames, rising, (F,) [s].
        ease: How long it takes to come to a contact and to leave it [s].

    Raises:
        IKError: Shapes do not fit.
    """
    seconds, contact = check_times([track], times), frozen(on, np.bool_)
    check_number(Message("the time to ease"), ease, 0.0)
    wanted = len(seconds), len(track.points)
    if contact.shape != wanted:
        raise IKError(
            "{track}: contacts have shape {shape}; frames and points are {wanted}",
            track=track.name,
            shape=contact.shape,
            wanted=wanted,
        )
    turned = np.zeros((len(seconds), 3))
    whole: BoolArray = np.logical_and.reduce(contact, axis=1)
    for start, stop in spans(whole):
        mean = _mean_rotation(track.turns[start:stop])
        turned[start:stop] = rotvec_from_matrix(mean @ np.swapaxes(track.turns[start:stop], -1, -2))
    turned = _eased(turned, whole, seconds, ease)
    turns = matrix_from_rotvec(turned) @ track.turns
    moved = np.zeros((len(seconds), 3))
    some: BoolArray = np.logical_or.reduce(contact, axis=1)
    for start, stop in spans(some):
        path = _rolled(turns[start:stop], contact[start:stop], track.points)
        path += (track.places[start:stop] - path).mean(axis=0)
        moved[start:stop] = path - track.places[start:stop]
    moved = _eased(moved, some, seconds, ease)
    return replace(track, places=track.places + moved, turns=turns)


def _mean_rotation(turns: FloatArray) -> FloatArray:
    """The rotation (3, 3) with the least sum of squared differences from some (k, 3, 3)."""
    u, _, vt = np.linalg.svd(turns.sum(axis=0))
    u[:, 2] *= np.sign(np.linalg.det(u @ vt))
    return u @ vt


def _rolled(turns: FloatArray, on: BoolArray, points: FloatArray) -> FloatArray:
    """Places (k, 3) of what rolls without sliding about its points (P, 3) in contact, from 0 on."""
    shared = on[1:] & on[:-1]
    # Where a contact goes over from one point to another the former is the pivot for one more frame.
    pivots = np.where(shared.any(axis=1, keepdims=True), shared, on[:-1])
    last = pivots.shape[1] - 1 - pivots[:, ::-1].argmax(axis=1)
    steps = product(turns[:-1] - turns[1:], points[last])
    return np.concatenate([np.zeros((1, 3)), np.cumsum(steps, axis=0)])


def _eased(difference: FloatArray, on: BoolArray, times: FloatArray, ease: float) -> FloatArray:
    """Differences (F, 3) that are known where something is on, continued so that they end within a time."""
    eased = np.where(on[:, None], difference, 0.0)
    contacts = spans(on)
    for number, (start, stop) in enumerate(contacts):
        before = contacts[number - 1][1] - 1 if number else None
        after = contacts[number + 1][0] if number + 1 < len(contacts) else None
        for border, inward, other in ((start, 1, before), (stop - 1, -1, after)):
            span = ease if other is None else min(ease, abs(float(times[other] - times[border])))
            if span == 0.0:
                continue
            within = border
            while start <= within + inward < stop and abs(times[within] - times[border]) < SLOPE_TIME:
                within += inward
            away = -inward * (times - times[border])  # from the border outward
            slope = np.zeros(3)
            if within != border:
                slope = (difference[border] - difference[within]) / -away[within]
            outside = (away > 0.0) & (away < span) & ~on
            s = (away[outside] / span)[:, None]
            value = (1.0 + 2.0 * s) * (1.0 - s) ** 2
            eased[outside] += value * difference[border] + s * (1.0 - s) ** 2 * span * slope
    return eased

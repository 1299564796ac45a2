# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths to far targets: points from the start Y of an effector to its target X, for a `Tracker` to follow.

[KiSheen §3], seen from the origin of the chain, with θ the angle between Y and X and φ_i = iθ/(M+1):

    segment:  Y_i = Y + a₁/(a₁+a₂) (X − Y),   a₁ = |Y| sin φ_i,   a₂ = |X| sin(θ − φ_i),
    arc:      Ỹ_i = (t|X| + (1−t)|Y|) Y_i/|Y_i|,   t = i/(M+1).

Y_i is where the ray at the angle φ_i meets the segment, so that a chain that turns about its origin turns
equally from point to point. The direction Y_i/|Y_i| is therefore Y turned by φ_i towards X, and computed so.

**Degenerate cases.** Where X lies in the direction of Y the points are the limit of the formula for θ → 0,
a₁ : a₂ = t|Y| : (1−t)|X|. Where it lies in the opposite direction all rays but the first and last meet the
segment in the origin, and where X or Y is the origin there is no angle: the points are then at equal steps
along the segment. The arc goes round the origin in the opposite direction by a half turn about an axis that
the caller may choose; with X or Y in the origin it keeps the direction of the other.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ..arrays import BoolArray, FloatArray, check_whole, frozen_as
from ..errors import IKError, check_switch
from ..model.mechanism import cross
from ..model.skeleton import UP

OPPOSITE: Final = 1e-7
"""Sine of the angle between start and target [1] below which they lie in opposite directions exactly: the
plane of the two is then rounding."""


def target_path(
    start: npt.ArrayLike,
    target: npt.ArrayLike,
    points: int,
    *,
    origin: npt.ArrayLike = (0.0, 0.0, 0.0),
    arc: bool = False,
    about: npt.ArrayLike = UP,
) -> FloatArray:
    """Inner points of the way from a start to a target, (..., points, 3) [m]; leading axes broadcast.

    Args:
        start: Y, where the effector is, (..., 3) [m].
        target: X, where it should go, (..., 3) [m].
        points: M, how many points between the two, 0 or more.
        origin: Where the chain begins, (..., 3) [m].
        arc: Whether the distance from the origin changes evenly, instead of along the segment.
        about: Axis of an arc between opposite directions, (..., 3); what of it lies along them is ignored.

    Raises:
        IKError: An argument has the wrong shape or is not finite.
    """
    check_whole("points of a path", points, 0)
    check_switch("the arc of a path", arc)
    named = {"start": start, "target": target, "origin": origin, "about": about}
    arrays = dict[str, FloatArray]()
    for name, value in named.items():
        arrays[name] = array = frozen_as(f"{name} of a path", value)
        if array.ndim < 1 or array.shape[-1] != 3:
            raise IKError(f"{name} of a path has shape {array.shape}, wanted (..., 3)")
        if not np.isfinite(array).all():
            raise IKError(f"{name} of a path is not finite")
    shapes = {name: array.shape for name, array in arrays.items()}
    try:
        first, last, middle, axis = np.broadcast_arrays(*arrays.values())
    except ValueError:
        raise IKError(f"the leading axes of a path do not go together: {shapes}") from None

    y, x = first - middle, last - middle
    start_length, target_length = _length(y), _length(x)  # (..., 1)
    placed: BoolArray = (start_length > 0.0) & (target_length > 0.0)
    away = y / np.where(start_length > 0.0, start_length, 1.0)
    towards = x / np.where(target_length > 0.0, target_length, 1.0)
    sine, cosine = _length(cross(away, towards)), np.sum(away * towards, axis=-1, keepdims=True)
    opposite: BoolArray = placed & (sine < OPPOSITE) & (cosine < 0.0)
    angle = np.where(placed, np.arctan2(sine, cosine), 0.0)[..., None, :]  # θ, (..., 1, 1)
    part = (np.arange(1, points + 1) / (points + 1.0))[:, None]  # t, (M, 1)
    turned = part * angle  # φ, (..., M, 1)
    if arc:
        across = towards - cosine * away
        across = np.where(opposite, _across(away, axis), across)
        across = across / np.where(_length(across) > 0.0, _length(across), 1.0)
        # Without a direction of its own an end takes that of the other.
        away = np.where(start_length > 0.0, away, towards)
        direction = np.cos(turned) * away[..., None, :] + np.sin(turned) * across[..., None, :]
        radius = part * target_length[..., None, :] + (1.0 - part) * start_length[..., None, :]
        return middle[..., None, :] + radius * direction
    # sin(kθ)/θ is smooth at θ = 0, where it is k.
    from_start = start_length[..., None, :] * part * np.sinc(turned / np.pi)
    from_target = target_length[..., None, :] * (1.0 - part) * np.sinc((1.0 - part) * angle / np.pi)
    total = from_start + from_target
    even: BoolArray = (opposite | ~placed)[..., None, :] | (total <= 0.0)
    share = np.where(even, part, from_start / np.where(even, 1.0, total))
    return first[..., None, :] + share * (last - first)[..., None, :]


def _length(vectors: FloatArray) -> FloatArray:
    """(..., 3) -> (..., 1)."""
    return np.sqrt(np.sum(vectors * vectors, axis=-1, keepdims=True))


def _across(direction: FloatArray, about: FloatArray) -> FloatArray:
    """Where a quarter turn about an axis leads a direction (..., 3); about another where that is along it."""
    across = cross(about, direction)
    least = np.argmin(np.abs(direction), axis=-1)
    other = cross(np.eye(3)[least], direction)
    return np.where(_length(across) > OPPOSITE * _length(about), across, other)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Rotations that go on from new keys in keys that are there already: the same ones, nearest to the new.

A rotation has many representations: Euler angles differ by whole turns, quaternions by their sign. Each part
of a motion that is baked goes on from what is there at its beginning. Where its last key meets a later one in
another representation, bones would turn about in the frame between them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import bpy
import numpy as np

from ...core.arrays import FloatArray
from ...core.model.rotation import EULER_ORDERS, nearest_euler
from .fcurves import KEY_DISTANCE, Channel, is_locked, own_curves, read_keys
from .own_keys import change_keys

TURN: Final = 2.0 * np.pi
"""A whole turn [rad]."""

SAME_ANGLE: Final = 1e-4
"""Difference [rad] up to which angles are the same."""

Change = tuple[float, float]
"""Factor and offset of the values of a channel."""


def go_on_after(
    obj: bpy.types.Object, ends: Mapping[Channel, float], last: float, within: float, strip: str = ""
) -> None:
    """Let later keys of rotations go on from values; what they pose stays.

    Args:
        ends: Values of channels in the last of the new keys.
        last: Its time.
        within: How far from it the next keys are at most; of others nothing is changed.
        strip: Name of the NLA strip whose slot is meant; empty for that of the object's own action.
    """
    curves = own_curves(obj, strip)
    paths: dict[str, list[int]] = {}
    for path, index in ends:
        if path.rpartition(".")[2].startswith("rotation_"):
            paths.setdefault(path, []).append(index)
    changes: dict[Channel, Change] = {}
    for path, indices in paths.items():
        own = [curves.get((path, index)) for index in indices]
        if any(curve is None or is_locked(curve) or len(curve.modifiers) for curve in own):
            continue
        times = np.concatenate([read_keys(curve, "co")["co"][:, 0] for curve in own if curve is not None])
        later = times[times > last + KEY_DISTANCE]
        if not len(later) or later.min() - last > within + KEY_DISTANCE:
            continue
        there = [curve.evaluate(float(later.min())) for curve in own if curve is not None]
        found = _changes(obj, path, np.array(there), np.array([ends[path, index] for index in indices]))
        changes |= {(path, index): change for index, change in zip(indices, found, strict=True)}
    change_keys(obj, {own: by for own, by in changes.items() if by != (1.0, 0.0)}, last, strip)


def _changes(obj: Any, path: str, there: FloatArray, ends: FloatArray) -> Iterable[Change]:
    """Return how the values of a rotation's channels (k,) come nearest to ends, of the same rotation."""
    name = path.rpartition(".")[2]
    if name == "rotation_euler" and len(there) == 3:
        return _euler_changes(obj.path_resolve(path.rpartition(".")[0]).rotation_mode, there, ends)
    if name == "rotation_euler":
        return [(1.0, float(way)) for way in TURN * np.round((ends - there) / TURN)]
    if len(there) < 4:  # a lock keeps some as they are
        return [(1.0, 0.0)] * len(there)
    if name == "rotation_quaternion":
        return [(-1.0 if float(there @ ends) < 0.0 else 1.0, 0.0)] * 4
    side = -1.0 if float(there[1:] @ ends[1:]) < 0.0 else 1.0
    return [(side, TURN * round(float(ends[0] - side * there[0]) / TURN)), *[(side, 0.0)] * 3]


def _euler_changes(mode: str, there: FloatArray, ends: FloatArray) -> Iterable[Change]:
    """Return changes of three Euler angles: by whole turns; or by half ones, with the middle one negated."""
    wanted = nearest_euler(there, EULER_ORDERS.index(mode), ends)
    middle = np.arange(3) == "XYZ".index(mode[1])
    for side in (1.0, -1.0):
        sides, least = np.where(middle, side, 1.0), TURN if side > 0.0 else 0.5 * TURN
        offsets = least * np.round((wanted - sides * there) / least)
        if np.abs(sides * there + offsets - wanted).max() < SAME_ANGLE:
            return list(zip(sides.tolist(), offsets.tolist(), strict=True))
    return [(1.0, 0.0)] * 3  # at gimbal lock all angles in between are the same rotation

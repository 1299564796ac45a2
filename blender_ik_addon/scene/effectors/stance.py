# SPDX-License-Identifier: GPL-3.0-or-later
"""Where bones that follow are held, and what they go along with: the effectors that carry them.

The hips carry the chest where they are put somewhere; otherwise what the body stands on carries both. A bone
that follows is held at its anchor: where others have left it last, taken along from there as its carriers
have moved since. So where a body is drawn to depends on where its targets are, not on the way by which they
came there. Where others carry it from now on, as hips whose target was moved, these take it along from where
both were held when the last solve had ended: that does not depend on the frame that is shown.

Where Poise has keyed the target, each key has the anchor of then, wherever it is moved or copied to: it is
found by its values. Between keys the anchors go over into each other, before the first and after the last
that one counts alone. The keys themselves say where the bone has been: if it were held there, it would be
drawn on from where it had been drawn to, and a body that is keyed low would stay low after its last key.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, cast
from zlib import crc32

import numpy as np
from bpy.types import Armature, Bone, Object

from ...core.arrays import FloatArray
from ...core.model.rotation import matrix_from_rotvec
from ..kinds.frame_data import mixed, orientations, turned
from ..kinds.kinds import Anchor, Effector
from ..kinds.plan import standing

_STORED: Final = np.dtype(
    [
        ("keyed", "?"),
        ("key", "<u4"),
        ("timed", "?"),
        ("time", "<f8"),
        ("carriers", "<u4"),
        ("bone", "<f4", 16),
        ("stance", "<f4", 16),
    ]
)
"""How an anchor is stored; a stance of zeros is none."""


UPRIGHT_DIGITS: Final = 5
"""Digits of a direction [1] in which axes are as far from it as others: less is rounding."""


@lru_cache(maxsize=256)
def anchors_from(text: str) -> tuple[Anchor, ...]:
    """Return the anchors that are stored as a text, those of keys in the order of time.

    A text that this version has not written, as a file from another one may have, says nothing.
    """
    try:
        rows = np.frombuffer(b64decode(text), dtype=_STORED)
    except ValueError:
        return ()
    found = [
        Anchor(
            tuple(row["bone"].tolist()),
            tuple(row["stance"].tolist()) if row["stance"].any() else None,
            int(row["carriers"]),
            float(row["time"]) if row["timed"] else None,
            int(row["key"]) if row["keyed"] else None,
        )
        for row in rows
    ]
    return tuple(sorted(found, key=lambda own: own.time or 0.0))


def anchors_text(anchors: Iterable[Anchor]) -> str:
    """Return anchors as a text."""
    zeros = (0.0,) * 16
    rows = [
        (
            *(own.keyed, own.key or 0, own.time is not None, own.time or 0.0),
            *(own.carriers or 0, own.bone, own.stance or zeros),
        )
        for own in anchors
    ]
    return b64encode(np.array(rows, dtype=_STORED).tobytes()).decode()


def carriers(armature_object: Object, effectors: Sequence[Effector], own: Effector) -> list[int]:
    """Positions among effectors of those that carry the bone of one that follows.

    The nearest above it in the armature that places its bone; or else those on which the body stands.
    """
    able = [e.position and e.goal.pinnable and not e.follows for e in effectors]
    placed = {e.bone: row for row, e in enumerate(effectors) if able[row]}
    bone: Bone | None = cast(Armature, armature_object.data).bones[own.bone].parent
    while bone is not None:
        if bone.name in placed:
            return [placed[bone.name]]
        bone = bone.parent
    return [row for row in standing(effectors) if able[row]]


def sum_of_carriers(armature_object: Object, effectors: Sequence[Effector], own: Effector) -> int:
    """Check sum of what carries the bone of one that follows; bones may get other names."""
    bones: Any = cast(Armature, armature_object.data).bones
    rows = carriers(armature_object, effectors, own)
    return crc32(repr(sorted(bones.find(effectors[row].bone) for row in rows)).encode())


def stance(
    armature_object: Object,
    effectors: Sequence[Effector],
    own: Effector,
    targets: Sequence[FloatArray],
    up: FloatArray,
) -> FloatArray | None:
    """armature_from_stance of what carries the bone of one that follows, (4, 4) [m]; None where nothing does.

    It is at the mean of their places, as high as the lowest, turned about the vertical as they are turned on
    average from how they rest: a foot that is lifted or hips that are bent do not lift or bend the rest.

    Args:
        targets: armature_from_target of each effector, (4, 4) [m].
        up: The vertical in armature space, of length 1: the Z axis of the stance.
    """
    rows = carriers(armature_object, effectors, own)
    if not rows:
        return None
    bones: Any = cast(Armature, armature_object.data).bones
    places, turn = np.array([targets[row][:3, 3] for row in rows]), np.zeros((3, 3))
    for row in rows:
        if effectors[row].goal.orientation:
            at_rest = np.array(bones[effectors[row].bone].matrix_local)[:3, :3]
            turn += np.nan_to_num(orientations(targets[row])) @ at_rest.T
    sine = up @ (turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1])
    cosine = np.trace(turn) - up @ turn @ up
    found, heights = np.eye(4), places @ up
    found[:3, :3] = matrix_from_rotvec(np.arctan2(sine, cosine) * up) @ upright(up)
    found[:3, 3] = places.mean(axis=0) + (heights.min() - heights.mean()) * up
    return found


def upright(up: FloatArray) -> FloatArray:
    """A rotation whose Z axis is a direction, (3, 3)."""
    across = np.cross(np.eye(3)[np.argmin(np.round(np.abs(up), UPRIGHT_DIGITS))], up)
    across /= np.linalg.norm(across)
    return np.column_stack([across, np.cross(up, across), up])


def anchored(
    armature_object: Object,
    effectors: Sequence[Effector],
    own: Effector,
    targets: Sequence[FloatArray],
    time: float,
) -> FloatArray:
    """armature_from_bone where the bone of one that follows is held at a time of F-curves, (4, 4) [m].

    An anchor whose carriers were others stays where it is.

    Args:
        targets: As for `stance`.
        time: [frames].
    """
    known = sum_of_carriers(armature_object, effectors, own)

    def taken_along(anchor: Anchor) -> FloatArray:
        bone = np.array(anchor.bone).reshape(4, 4)
        if anchor.stance is None or anchor.carriers != known:
            return bone
        then = np.array(anchor.stance).reshape(4, 4)
        now = stance(armature_object, effectors, own, targets, then[:3, 2])
        return bone if now is None else now @ np.linalg.inv(then) @ bone

    before, after, part = around(own.anchors, time)
    start = taken_along(before)
    return start if part == 0.0 else _between(start, taken_along(after), part)


def around(anchors: Sequence[Anchor], time: float) -> tuple[Anchor, Anchor, float]:
    """Return the anchors before and after a time, and how far it is from the first to the second [1]."""
    if not anchors[0].keyed:
        return anchors[0], anchors[0], 0.0
    times = [own.time or 0.0 for own in anchors]
    row = int(np.searchsorted(times, time, side="right"))
    before, after = max(row - 1, 0), min(row, len(times) - 1)
    way = times[after] - times[before]
    return anchors[before], anchors[after], max(time - times[before], 0.0) / way if way else 0.0


def _between(start: FloatArray, end: FloatArray, part: float) -> FloatArray:
    """A matrix on the way from one (4, 4) to another, turned on the shortest way."""
    way = np.array([part])
    turns, found = orientations(np.stack([start, end])), mixed(start, end, way)
    if np.isfinite(turns).all():
        first, last = turns
        scale = mixed(first.T @ start[:3, :3], last.T @ end[:3, :3], way)
        found[:3, :3] = turned(first, last, way) @ scale
    return found

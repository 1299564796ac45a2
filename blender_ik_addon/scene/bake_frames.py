# SPDX-License-Identifier: GPL-3.0-or-later
"""Which frames a bake keys: a range, by the scene, its preview, keys or two numbers, and every how many."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Final

import bpy
import numpy as np
from bpy.types import Object

from ..core import IKError
from .animation.fcurves import own_curves, read_keys
from .effectors.effectors import all_targets
from .properties.settings import RANGE_ITEMS, settings_of

LAST_FRAME: Final = 1_048_574
"""Blender's last frame, and how far below zero its first one is (MAXFRAME)."""

RANGES: Final = tuple(item[0] for item in RANGE_ITEMS)
"""Names of the ranges."""


def bake_range(armature_object: Object, which: str | None = None) -> range:
    """Return the frames of a range, every one.

    Args:
        armature_object: With the settings.
        which: One of `RANGES`; by default that in the settings.

    Raises:
        IKError: There is no such range, or it is empty.
    """
    settings, scene = settings_of(armature_object), bpy.context.scene
    which = settings.bake_range if which is None else which
    name = armature_object.name
    if which == 'SCENE':
        start, end = scene.frame_start, scene.frame_end
    elif which == 'PREVIEW':
        if not scene.use_preview_range:
            raise IKError(
                f"scene {scene.name!r} has no preview range: set one (P in the Timeline), or choose another "
                "range"
            )
        start, end = scene.frame_preview_start, scene.frame_preview_end
    elif which == 'ACTION':
        start, end = _around(_key_frames([armature_object], chosen=False))
        if end < start:
            raise IKError(f"{name!r} has no action with keys: choose another range")
    elif which == 'KEYS':
        entries = settings.effectors
        targets = dict.fromkeys(target for entry in entries for target in all_targets(entry))
        start, end = _around(_key_frames([armature_object, *targets], chosen=True))
        if end < start:
            raise IKError(
                f"no keys of {name!r} or its targets are selected: select some in the Dope Sheet, or choose "
                "another range"
            )
    elif which == 'CUSTOM':
        start, end = settings.bake_start, settings.bake_end
    else:
        raise IKError(f"there is no range {which!r}: there are {', '.join(RANGES)}")
    if end < start:
        raise IKError(
            f"the frame range of {name!r} is empty: it starts at {start} and ends at "
            f"{end}. Set it in the sidebar, tab Poise"
        )
    return range(start, end + 1)


@dataclass(frozen=True)
class BakeFrames:
    """The frames of a bake."""

    solved: tuple[int, ...]
    """All of them."""
    keyed: tuple[int, ...]
    """Those that get keys in any case, the first and the last of all among them."""
    at_keys: bool
    """Whether others get keys where the error between keys needs them."""

    @classmethod
    def of(
        cls,
        armature_object: Object,
        frames: Iterable[int] | str | None = None,
        step: int | None = None,
        *,
        at_keys: bool | None = None,
    ) -> "BakeFrames":
        """Choose them.

        Args:
            armature_object: With the settings.
            frames: Increasing whole frames, or one of `RANGES`; by default the range in the settings.
            step: Every which of them is keyed, from 1 on.
            at_keys: Whether those are keyed instead at which targets have keys. By default step and this are
                as in the settings for a range, and 1 and False for frames that are given.

        Raises:
            IKError: There are no such frames, they do not rise, the step is no whole number from 1 on, or no
                target has keys in them.
        """
        settings, given = settings_of(armature_object), True
        if frames is None or isinstance(frames, str):
            frames, given = bake_range(armature_object, frames), False
        if at_keys is None:
            at_keys = settings.bake_at_keys and not given and step is None
        if step is None:
            step = 1 if given else settings.bake_step
        if isinstance(step, bool) or not isinstance(step, Integral) or step < 1:
            raise IKError(f"the step of a bake is a whole number of frames from 1 on, got {step!r}")
        solved = checked_frames(frames)
        keyed = set(solved[:: int(step)])
        if at_keys:
            keyed = _keys_of_targets(armature_object).intersection(solved)
            if not keyed:
                raise IKError(
                    f"no target of {armature_object.name!r} has keys from frame {solved[0]} to {solved[-1]}: "
                    "key targets there, or switch At Targets' Keys off"
                )
        return cls(solved, tuple(sorted(keyed | {solved[0], solved[-1]})), bool(at_keys))


def _keys_of_targets(armature_object: Object) -> set[int]:
    """Return the whole frames nearest to keys of the targets, and of settings of the effectors."""
    targets = dict.fromkeys(
        own for entry in settings_of(armature_object).effectors for own in all_targets(entry)
    )
    found = set(_key_frames([own for own in targets if own != armature_object], chosen=False))
    for (path, _), curve in own_curves(armature_object).items():
        if path.startswith("poise.effectors"):
            found |= set(read_keys(curve)["co"][:, 0].tolist())
    return {round(frame) for frame in found}


def _key_frames(objects: Iterable[Object], *, chosen: bool) -> Iterator[float]:
    """Give the frames of the keys of objects, or of those that are chosen."""
    for obj in objects:
        for curve in own_curves(obj).values():
            keys = read_keys(curve)
            frames = keys["co"][:, 0]
            yield from (frames[keys["select_control_point"]] if chosen else frames).tolist()


def _around(frames: Iterable[float]) -> tuple[int, int]:
    """Return the first and the last whole frame of some; (0, -1) where there are none."""
    known = list(frames)
    # Single precision has a key on a frame a little beside it.
    return (int(np.floor(min(known) + 1e-3)), int(np.ceil(max(known) - 1e-3))) if known else (0, -1)


def checked_frames(frames: Iterable[int] | None) -> tuple[int, ...]:
    """Return frames to key (IKError: there are none, they do not rise, or are no whole numbers)."""
    if not isinstance(frames, Iterable):
        raise IKError(f"frames to bake must be given one by one, as in range(1, 251), got {frames!r}")
    chosen = tuple(frames)
    if not chosen and isinstance(frames, range):
        raise IKError(
            f"there are no frames to bake: they start at {frames.start} and end at {frames.stop - 1}. The "
            "end must not be before the start"
        )
    if not chosen:
        raise IKError("there are no frames to bake: give at least one, the end not before the start")
    for frame in chosen:
        whole = isinstance(frame, Real) and math.isfinite(frame) and int(frame) == frame
        if not whole or abs(frame) > LAST_FRAME:
            raise IKError(f"frame {frame} cannot be baked: frames are whole numbers up to ±{LAST_FRAME}")
    for before, frame in pairwise(chosen):
        if frame <= before:
            raise IKError(f"frame {frame} is given after {before}: give each once, in increasing order")
    return tuple(int(frame) for frame in chosen)

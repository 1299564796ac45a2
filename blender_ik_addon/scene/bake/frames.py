# SPDX-License-Identifier: GPL-3.0-or-later
"""Which frames a bake keys: a range, by the scene, its preview, keys or two numbers, and every how many."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from numbers import Real
from typing import Final

import bpy
import numpy as np
import numpy.typing as npt
from bpy.types import Object

from ...core import IKError
from ...core.arrays import FloatArray
from ..animation.fcurves import frames_around, key_frames, own_curves, read_keys
from ..effectors.effectors import targets_of
from ..properties.declared import check_item
from ..properties.settings import EFFECTORS_PATH, POISE_PG_armature, effector_path, settings_of

LAST_FRAME: Final = 1_048_574
"""Blender's last frame, and how far below zero its first one is (MAXFRAME)."""

CONTACTS: Final = ("contact", "contact_toe")
"""Properties of an effector that say whether the points of a track are planted."""


def key_time() -> float:
    """Return the frame at which animation is played in frame 1 of the scene: its time remapping."""
    render = bpy.context.scene.render
    return render.frame_map_old / render.frame_map_new


def frame_times(frames: npt.ArrayLike) -> FloatArray:
    """Return the times at which F-curves are evaluated at frames (F,) of the scene."""
    return np.asarray(frames, dtype=np.float64) * key_time()


def frames_at(times: npt.ArrayLike) -> FloatArray:
    """Return the frames (F,) of the scene at which F-curves are evaluated at some times."""
    return np.asarray(times, dtype=np.float64) / key_time()


def bake_range(armature_object: Object, which: str | None = None) -> range:
    """Return the frames of a range, every one.

    Args:
        which: One of `RANGE_ITEMS`; by default that in the settings.

    Raises:
        IKError: There is no such range, or it is empty.
    """
    settings, scene = settings_of(armature_object), bpy.context.scene
    which = settings.bake_range if which is None else which
    check_item(POISE_PG_armature, "bake_range", which)
    name = armature_object.name
    if which == 'SCENE':
        found = range(scene.frame_start, scene.frame_end + 1)
    elif which == 'PREVIEW':
        if not scene.use_preview_range:
            raise IKError(
                "scene {scene!r} has no preview range: set one (P in the Timeline), or choose another range",
                scene=scene.name,
            )
        found = range(scene.frame_preview_start, scene.frame_preview_end + 1)
    elif which == 'ACTION':
        found = frames_around(_key_frames([armature_object], chosen=False))
        if not found:
            raise IKError("{name!r} has no action with keys: choose another range", name=name)
    elif which == 'KEYS':
        objects = [armature_object, *targets_of(armature_object)]
        found = frames_around(_key_frames(objects, chosen=True))
        if not found:
            raise IKError(
                "no keys of {name!r} or its targets are selected: select some in the Dope Sheet, or choose "
                "another range",
                name=name,
            )
    else:
        found = range(settings.bake_start, settings.bake_end + 1)
    if not found:
        raise IKError(
            "the frame range of {name!r} is empty: it starts at {start} and ends at {end}. Set it in the "
            "sidebar, tab Poise",
            name=name,
            start=found.start,
            end=found.stop - 1,
        )
    return found


def frames_of(armature_object: Object, frames: Iterable[float] | str | None) -> tuple[int, ...]:
    """Return frames, or those of a range (IKError: as `bake_range` and `checked_frames`)."""
    if frames is None or isinstance(frames, str):
        frames = bake_range(armature_object, frames)
    return checked_frames(frames)


def solved_and_keyed(
    armature_object: Object, frames: Sequence[int], step: float, *, at_keys: bool, fewest: bool
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return all frames to solve, and those of them that get keys in any case, the ends among them.

    A whole frame is an int. Arguments as in `BakeOptions`.

    Raises:
        IKError: With `at_keys` no target has keys in these frames.
    """
    solved: tuple[float, ...] = tuple(frames)
    if at_keys:
        keyed = _keys_of_targets(armature_object).intersection(solved)
        if not keyed:
            raise IKError(
                "no target of {armature!r} has keys from frame {first} to {last}: key targets "
                "there, or switch At Targets' Keys off",
                armature=armature_object.name,
                first=solved[0],
                last=solved[-1],
            )
    elif fewest:  # planted feet rest between these frames, and move outside of them
        keyed = contact_borders(armature_object).intersection(solved)
    elif step < 1.0:
        solved = _with_subframes(frames, float(step))
        keyed = set(solved)
    else:
        keyed = set(solved[:: int(step)])
    return solved, tuple(sorted(keyed | {solved[0], solved[-1]}))


def contact_borders(armature_object: Object) -> set[int]:
    """Return the whole frames at which contacts begin or end: keys of targets there say when they rest."""
    effectors = settings_of(armature_object).effectors
    curves, borders = own_curves(armature_object), set[int]()
    for row in range(len(effectors)):
        for name in CONTACTS:
            curve = curves.get((effector_path(row, name), 0))
            if curve is not None:
                borders |= {round(frame) for frame in frames_at(key_frames(curve)).tolist()}
    return borders


def _with_subframes(frames: Sequence[int], step: float) -> tuple[float, ...]:
    """Return frames, and those between them that are a step apart from each."""
    found: list[float] = []
    for before, after in pairwise(frames):
        count = math.ceil((after - before) / step - 0.5)  # the last step is at least half a step long
        between = [round(before + number * step, 6) for number in range(1, count)]
        found += [before, *(int(own) if own % 1.0 == 0.0 else own for own in between)]
    return (*found, frames[-1])


def _keys_of_targets(armature_object: Object) -> set[int]:
    """Return the whole frames nearest to keys of the targets, and of settings of the effectors."""
    targets = [own for own in targets_of(armature_object) if own != armature_object]
    curves = [curve for target in targets for curve in own_curves(target).values()]
    own = own_curves(armature_object).items()
    curves += [curve for (path, _), curve in own if path.startswith(EFFECTORS_PATH)]
    return {round(frame) for frame in frames_at(key_frames(*curves)).tolist()}


def _key_frames(objects: Iterable[Object], *, chosen: bool) -> Iterator[float]:
    """Give the frames of the keys of objects, or of those that are chosen."""
    for obj in objects:
        for curve in own_curves(obj).values():
            keys = read_keys(curve)
            frames = frames_at(keys["co"][:, 0])
            yield from (frames[keys["select_control_point"]] if chosen else frames).tolist()


def checked_frames(frames: Iterable[float] | None) -> tuple[int, ...]:
    """Return frames to key (IKError: there are none, they do not rise, or are no whole numbers).

    They are taken one by one, so that a range without end is refused, too.
    """
    if not isinstance(frames, Iterable) or isinstance(frames, str | bytes):
        raise IKError(
            "frames to bake must be given one by one, as in range(1, 251), got {frames!r}", frames=frames
        )
    chosen = list[int]()
    for frame in frames:
        whole = isinstance(frame, Real) and math.isfinite(frame) and int(frame) == frame
        if not whole or abs(frame) > LAST_FRAME:
            raise IKError(
                "frame {frame} cannot be baked: frames are whole numbers up to ±{last}",
                frame=frame,
                last=LAST_FRAME,
            )
        if chosen and frame <= chosen[-1]:
            raise IKError(
                "frame {frame} is given after {before}: give each once, in increasing order",
                frame=frame,
                before=chosen[-1],
            )
        chosen.append(int(frame))
    if not chosen and isinstance(frames, range):
        raise IKError(
            "there are no frames to bake: they start at {start} and end at {stop}. The end must not be "
            "before the start",
            start=frames.start,
            stop=frames.stop - 1,
        )
    if not chosen:
        raise IKError("there are no frames to bake: give at least one, the end not before the start")
    return tuple(chosen)

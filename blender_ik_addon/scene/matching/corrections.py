# SPDX-License-Identifier: GPL-3.0-or-later
"""Corrections: keyed offsets of targets, beside the keys that say where the targets were recorded.

An offset is in the delta channels of a target (*Delta Transforms*), which Blender adds to its own channels.
So the recorded path stays as it is, a correction has a handful of keys that can be edited in the Dope Sheet
and the Graph Editor, and to mute or remove its F-curves takes it back.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ...core import IKError
from ...core.amounts import number_of_targets
from ...core.arrays import FloatArray, check_number
from ...core.messages import Message, counted
from ...core.model.rotation import matrix_in_mode
from ..animation.fcurves import (
    Channel,
    assign_keys,
    insert_keys,
    is_muted,
    own_curves,
    present_frame,
    present_time,
    read_keys,
    remove_curves,
    rotation_channel,
    sample_channels,
    within,
)
from ..armature.rotation_modes import rotations_in
from ..bake.frames import bake_range, frame_times
from ..effectors.effectors import check_present, label_of, target_of
from ..effectors.entries import chosen_rows
from ..properties.settings import settings_of
from .snapping import MOVED, MatchReport, able_targets, channels_that_count, put_back_on_error, unkeyable

CORRECTION: Final = "Correction"
"""Name of the group of F-curves."""


def correct(
    armature_object: Object,
    effectors: Iterable[int] | None = None,
    *,
    ease_in: float | None = None,
    ease_out: float | None = None,
    loop: bool | None = None,
) -> MatchReport:
    """Turn what targets were moved by, on the present frame, into offsets that ease in and out.

    Before and after it all stays as it was. Where other keys of the offset are nearer than the ease is long,
    it eases from these and to these; but a key with which the offset begins or ends goes along.
    In a loop what eases beyond an end of the bake's range does so at the other end.

    Args:
        armature_object: With keyed targets, some of which were moved away from their keys.
        effectors: Places in the list of those that are meant; all that were moved for None.
        ease_in: Frames [1] from the start of the offset to the present frame; by default as in the settings.
        ease_out: Likewise, to its end.
        loop: Whether the range of the bake is a loop; by default as in the settings.

    Raises:
        IKError: No target was moved, one has no keys, or cannot be keyed; everything is as before then.
    """
    check_present(armature_object)
    settings, render = settings_of(armature_object), bpy.context.scene.render
    unit = 1.0 if settings.ease_unit == 'FRAMES' else render.fps / render.fps_base
    before = settings.ease_in * unit if ease_in is None else ease_in
    after = settings.ease_out * unit if ease_out is None else ease_out
    check_number("ease_in", before, 0.0, above=True)
    check_number("ease_out", after, 0.0, above=True)
    rounds = [0.0]
    if settings.bake_loop if loop is None else loop:
        # A range that is not there yet, such as keys to be selected, has no other end.
        with suppress(IKError):
            rounds = _rounds(bake_range(armature_object), before, after)
    meant = chosen_rows(armature_object, effectors)
    rows, notes = able_targets(armature_object, meant, moved=True, keyed=True)
    moved = [row for row in rows if _offsets(settings.effectors[row])]
    if not moved:
        raise IKError(
            "no target is away from its keys on this frame: move one, with auto-key off, and press again"
            if any(_keyed_channels(settings.effectors[row]) for row in rows)
            else "the targets have no keys: Targets from Animation gives them some"
        )
    with put_back_on_error(armature_object, moved):
        for row in moved:
            _correct(
                settings.effectors[row], *frame_times([before, after]).tolist(), rounds=frame_times(rounds)
            )
    bpy.context.view_layer.update()
    notes = notes if effectors is not None else ()
    return MatchReport(
        tuple(label_of(settings.effectors[row]) for row in moved),
        notes=notes,
        done=Message(
            "{targets} corrected from frame {first:g} to {last:g}",
            targets=number_of_targets(len(moved)),
            first=present_frame() - before,
            last=present_frame() + after,
        ),
    )


def switch_corrections(
    armature_object: Object, on: bool, effectors: Iterable[int] | None = None
) -> MatchReport:
    """Let offsets of targets count, or not; their keys stay (IKError: there are none, or they are linked)."""
    rows, curves = _corrected(armature_object, effectors)
    for target, channel, curve in curves:
        curve.mute = not on
        getattr(target, channel[0])[channel[1]] = curve.evaluate(present_time()) if on else _base(curve)
    return _report(armature_object, rows, Message("{corrections} on") if on else Message("{corrections} off"))


def remove_corrections(armature_object: Object, effectors: Iterable[int] | None = None) -> MatchReport:
    """Remove offsets of targets (IKError: there are none, or they are linked)."""
    rows, curves = _corrected(armature_object, effectors)
    for target, channel, curve in curves:
        getattr(target, channel[0])[channel[1]] = _base(curve)
    for target in {target.name_full: target for target, _channel, _curve in curves}.values():
        remove_curves(target, _delta_channels(target))
    return _report(armature_object, rows, Message("{corrections} removed"))


def has_corrections(armature_object: Object, index: int) -> bool:
    """Whether the target of an effector has an offset with keys."""
    return next(_curves(armature_object, [index]), None) is not None


def corrections_on(armature_object: Object) -> bool | None:
    """Whether any offset counts; None where there are none."""
    found = [is_muted(curve) for _target, _channel, curve in _curves(armature_object, None)]
    return None if not found else not all(found)


def _report(armature_object: Object, rows: Sequence[int], done: Message) -> MatchReport:
    entries: Any = settings_of(armature_object).effectors
    for row in rows:
        entries[row].target.update_tag()
    bpy.context.view_layer.update()
    corrections = counted(len(rows), "{count} correction", "{count} corrections")
    names = tuple(label_of(entries[row]) for row in rows)
    return MatchReport(names, done=done.filled(corrections=corrections))


def _curves(armature_object: Object, effectors: Iterable[int] | None) -> Iterator[tuple[Any, Channel, Any]]:
    """The F-curves of offsets, with their targets and channels."""
    entries = settings_of(armature_object).effectors
    for row in range(len(entries)) if effectors is None else effectors:
        target = target_of(entries[row])
        if target is not None:
            curves = own_curves(target)
            yield from ((target, own, curves[own]) for own in _delta_channels(target) if own in curves)


def _corrected(
    armature_object: Object, effectors: Iterable[int] | None
) -> tuple[list[int], list[tuple[Any, Channel, Any]]]:
    """Which effectors have offsets, and their F-curves (IKError: none, or one that is not editable)."""
    check_present(armature_object)
    rows = [row for row in chosen_rows(armature_object, effectors) if has_corrections(armature_object, row)]
    if not rows:
        raise IKError(
            "no target of {armature!r} has a correction: move one and press Correct",
            armature=armature_object.name,
        )
    curves = list(_curves(armature_object, rows))
    for target, (path, _), _curve in curves:
        if why := unkeyable(target, [path], Message("target {target!r}", target=target.name)):
            raise IKError(why)
    return rows, curves


def _base(curve: Any) -> float:
    """What a delta channel is before its correction begins."""
    return float(read_keys(curve, "co")["co"][0, 1]) if len(curve.keyframe_points) else 0.0


def _delta_rotation(target: Any) -> str:
    """The delta channel that goes with a target's rotation mode; empty where Blender has none."""
    path, width = rotation_channel(target.rotation_mode)
    return "" if width == 4 and path != "rotation_quaternion" else f"delta_{path}"


def _delta_channels(target: Any) -> list[Channel]:
    """Channels of a target that hold its offset."""
    paths = ("delta_location", "delta_rotation_euler", "delta_rotation_quaternion")
    return [(path, index) for path in paths for index in range(len(getattr(target, path)))]


def _keyed_channels(entry: Any) -> list[tuple[str, str, int]]:
    """Channels of a target that count and have keys: path, that of the offset, and how many components."""
    target, (moves, turns), curves = entry.target, channels_that_count(entry), own_curves(entry.target)
    path, width = rotation_channel(target.rotation_mode)
    wanted = [("location", "delta_location", 3)] * moves + [(path, _delta_rotation(target), width)] * turns
    return [own for own in wanted if own[1] and all((own[0], index) in curves for index in range(own[2]))]


def _offsets(entry: Any) -> dict[str, FloatArray]:
    """Offset of each delta channel with which a target is where it is now; those that changed."""
    target, found, time = entry.target, dict[str, FloatArray](), present_time()
    for path, delta, width in _keyed_channels(entry):
        keyed = sample_channels(target, [(path, index) for index in range(width)], [time])
        now = np.array([getattr(target, path)], dtype=np.float64)
        if np.abs(now - keyed).max() <= MOVED * (1.0 + np.abs(keyed).max()):
            continue
        present = np.array([getattr(target, delta)], dtype=np.float64)
        if path == "location":
            found[delta] = (present + now - keyed)[0]
        else:
            mode = target.rotation_mode
            turn = matrix_in_mode(mode, present) @ matrix_in_mode(mode, now)
            turn = turn @ np.swapaxes(matrix_in_mode(mode, keyed), -1, -2)
            found[delta] = rotations_in(mode, turn, present[0])[0]
    return found


def _rounds(frames: range, before: float, after: float) -> list[float]:
    """How many frames from now a loop shows an offset that is eased over so many: 0, and periods."""
    now, period = present_frame(), frames[-1] - frames[0]
    if not period or not frames[0] <= now <= frames[-1]:
        return [0.0]
    shown = (now - before < frames[0], True, now + after > frames[-1])
    return [turns * period for turns, is_shown in zip((1.0, 0.0, -1.0), shown, strict=True) if is_shown]


def _correct(entry: Any, before: float, after: float, *, rounds: FloatArray) -> None:
    """Key the offset of a target and bring its channels back to their keys.

    It is eased over times of F-curves, and shown again so much later or earlier, (R,).
    """
    target, offsets, time = entry.target, _offsets(entry), present_time()
    for path, delta, width in _keyed_channels(entry):
        if delta not in offsets:
            continue
        base = np.array(getattr(target, delta), dtype=np.float64)
        for index, value in enumerate(offsets[delta].tolist()):
            ends = time - before, time + after
            _key_eased(target, (delta, index), time, value, ends, float(base[index]), rounds=rounds)
        getattr(target, delta)[:] = offsets[delta].tolist()
        keyed = sample_channels(target, [(path, index) for index in range(width)], [time])[0]
        getattr(target, path)[:] = keyed.tolist()


def _key_eased(
    target: Any,
    channel: Channel,
    at: float,
    value: float,
    ends: tuple[float, float],
    base: float,
    *,
    rounds: FloatArray,
) -> None:
    """Key a value of an offset at a time of F-curves, eased from one time and to another, and so much later.

    Where it has no keys yet it eases from `base` and to it.
    """
    curve = own_curves(target).get(channel)
    times, values = np.zeros((2, 0)) if curve is None else read_keys(curve, "co")["co"].T
    rest = 0.0 if curve is None else _base(curve)
    keys, dropped = {at: value}, np.zeros(len(times), dtype=bool)
    others = ~within(times, at, at)
    for end, outermost in zip(ends, (0, -1), strict=True):
        near = within(times, min(end, at), max(end, at)) & others
        if not near.any():
            keys[end] = base if curve is None else curve.evaluate(end)
        elif near[outermost] and near.sum() == 1 and np.isclose(values[outermost], rest, atol=MOVED):
            # It ends the ease of the correction before, which this one goes beyond.
            dropped[outermost], keys[end] = True, rest
    for later in rounds.tolist():
        if dropped.any():
            curve = own_curves(target)[channel]
            known = read_keys(curve)
            gone = [within(known["co"][:, 0], time + later, time + later) for time in times[dropped]]
            kept = ~np.logical_or.reduce(gone)
            assign_keys(curve, {name: column[kept] for name, column in known.items()})
        insert_keys(target, channel, {time + later: own for time, own in keys.items()}, CORRECTION)

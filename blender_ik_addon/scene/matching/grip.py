# SPDX-License-Identifier: GPL-3.0-or-later
"""Hands that hold a prop: their targets go where the prop goes, as they do in the recording."""

from collections.abc import Mapping, Sequence
from typing import Any

import bpy
import numpy as np
from bpy.types import Object

from ...core import IKError
from ...core.amounts import number_of_targets
from ...core.arrays import FloatArray
from ...core.messages import Message
from ..animation.dependence import check_independence, dependence
from ..animation.fcurves import frames_around, key_frames, own_curves, placing, write_keys
from ..armature.restoring import played_restored
from ..armature.rotation_modes import set_rotation
from ..bake.frames import frame_times, frames_at
from ..effectors.effectors import check_present, label_of, target_of
from ..effectors.entries import keep_orientation
from ..effectors.transforms import rides
from ..kinds.frame_data import orthogonal
from ..live.following import held
from ..properties.settings import check_object, settings_of
from .corrections import has_corrections
from .snapping import MatchReport, able_targets, put_back_on_error, target_keys


def hold_prop(armature_object: Object, prop: Object, effectors: Sequence[int]) -> MatchReport:
    """Let targets go along with a prop, from where they are against it now, frame by frame.

    Nothing moves at first: keys of a target say where it is in the space of the prop from then on. When the
    prop is moved, or its motion is corrected, the hand goes along and keeps its orientation against it. Where
    the prop hangs on a bone of the armature itself, such as the other hand, the target goes with the target
    of that bone.

    Args:
        effectors: Places in the list of those that hold it.

    Raises:
        IKError: A target cannot be keyed, has a correction, or carries the prop; or the prop hangs on a bone
            without a target. Everything is as before then.
    """
    check_present(armature_object)
    entries: Any = settings_of(armature_object).effectors
    rows, notes = able_targets(armature_object, effectors, moved=True, keyed=True)
    carrier = _carrier(armature_object, prop, rows)
    for row in rows:
        label, target = label_of(entries[row]), entries[row].target
        if target == carrier or rides(carrier, target):
            raise IKError(
                "{label}: {carrier!r} goes where its target goes: choose another prop",
                label=label,
                carrier=carrier.name,
            )
        if has_corrections(armature_object, row):
            raise IKError(
                "{label}: its target has a correction, which would be in another space. Remove it, hold the "
                "prop, then correct",
                label=label,
            )
        check_independence(label, carrier, armature_object)
    with held(armature_object), put_back_on_error(armature_object, rows):
        frames = {row: _keyed_frames(entries[row].target) for row in rows}
        found = _sampled(armature_object, carrier, frames)
        for row in rows:
            if entries[row].kind == 'POSITION':
                keep_orientation(armature_object, row, True)
            _carry(entries[row].target, carrier, frames[row], found[row])
            entries[row].state, entries[row].placed = 'REACH', (0.0,) * 16
        bpy.context.view_layer.update()
    held_by = {"targets": number_of_targets(len(rows)), "carrier": carrier.name}
    done = Message("{targets} held by {carrier!r}", **held_by)
    return MatchReport(tuple(label_of(entries[row]) for row in rows), notes=notes, done=done)


def _carrier(armature_object: Object, prop: Object, rows: Sequence[int]) -> Any:
    """What targets go along with: the prop, or the target of the bone of the armature that carries it."""
    check_object(prop)
    if prop == armature_object:
        raise IKError("select the prop that is held, besides the target of the hand, and press again")
    if not dependence(prop, armature_object):
        return prop
    bones = [prop.parent_bone] if prop.parent == armature_object and prop.parent_type == 'BONE' else []
    constraints: list[Any] = [own for own in prop.constraints if not own.mute]
    bones += [c.subtarget for c in constraints if getattr(c, "target", None) == armature_object]
    entries = settings_of(armature_object).effectors
    for row, entry in enumerate(entries):
        if entry.bone in bones and row in rows:
            raise IKError(
                "{prop!r} hangs on {bone!r} itself and goes where that hand goes already: hold it with the "
                "other hand",
                prop=prop.name,
                bone=entry.bone,
            )
        if entry.bone in bones and (target := target_of(entry)) is not None:
            return target
    where = Message("its bone {bone!r}, which has no target", bone=bones[0]) if bones else Message("its pose")
    raise IKError(
        "{prop!r} depends on {armature!r} by {where}: add an effector there, or let the prop "
        "go by keys of its own",
        prop=prop.name,
        armature=armature_object.name,
        where=where,
    )


def _keyed_frames(target: Any) -> range:
    """Whole frames from the first to the last key of a target; none where it has none."""
    curves = [curve for (path, _), curve in own_curves(target).items() if path in placing(target)]
    return frames_around(frames_at(key_frames(*curves)).tolist())


def _sampled(
    armature_object: Object, carrier: Any, frames: Mapping[int, Sequence[int]]
) -> dict[int, list[FloatArray]]:
    """carrier_from_target of each frame of each target, (4, 4); where it has none, of the present frame."""
    scene, view_layer = bpy.context.scene, bpy.context.view_layer
    entries: Any = settings_of(armature_object).effectors
    found: dict[int, list[FloatArray]] = {row: [] for row in frames}

    def take(row: int) -> None:
        matrices = [
            np.array(obj.evaluated_get(view_layer.depsgraph).matrix_world, dtype=np.float64)
            for obj in (carrier, entries[row].target)
        ]
        if not np.isfinite(matrices).all() or abs(np.linalg.det(matrices[0][:3, :3])) < 1e-18:
            raise IKError(
                "{carrier!r} is nowhere, or scaled to nothing, in frame {frame}: look at its keys "
                "and drivers",
                carrier=carrier.name,
                frame=scene.frame_current,
            )
        found[row].append(np.linalg.solve(matrices[0], matrices[1]).astype(np.float64))

    for row in [row for row, own in frames.items() if not own]:
        take(row)
    with played_restored(armature_object):
        for frame in sorted({frame for own in frames.values() for frame in own}):
            scene.frame_set(frame)
            for row in [row for row, own in frames.items() if frame in own]:
                take(row)
    return found


def _carry(target: Any, carrier: Any, frames: Sequence[int], found: Sequence[FloatArray]) -> None:
    """Parent a target to what carries it, with keys (F) for where it is against that, (F, 4, 4)."""
    matrices = np.stack(found)
    places, turns = matrices[:, :3, 3], orthogonal(matrices)
    if frames:
        keys = target_keys(target, np.broadcast_to(np.eye(4), matrices.shape), places, turns)
        write_keys(target, frame_times(frames), keys)
    target.parent, target.parent_type = carrier, 'OBJECT'
    target.matrix_parent_inverse = np.eye(4).tolist()
    row = int(np.abs(np.array(frames or [0]) - bpy.context.scene.frame_current).argmin())
    target.location = places[row].tolist()
    set_rotation(target, turns[row])

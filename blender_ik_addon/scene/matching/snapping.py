# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets brought to the bones that follow them, on one frame or on many, and keyed.

After that a solve moves nothing: each target is where its effector asks for nothing. Targets that cannot be
moved or keyed are left out, with the reason; if none is left, an `IKError` says so and nothing is changed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress
from typing import Any, Final, cast

import bpy
import numpy as np
from bpy.types import Object

from ...core import IKError
from ...core.amounts import number_of_targets
from ...core.arrays import FloatArray
from ...core.messages import Joined, Message, counted, listed, sentences
from ..animation.fcurves import (
    OWN_CHANNELS,
    ChannelKeys,
    check_keyable,
    driven_channels,
    is_locked,
    own_curves,
    placing,
    present_frame,
    property_keys,
    rotation_channel,
    write_keys,
)
from ..armature.armature import read_armature
from ..armature.restoring import (
    ActionSnapshot,
    ValuesSnapshot,
    played_restored,
    set_up_restored_on_error,
    undone_on_error,
)
from ..armature.rotation_modes import rotation_of, rotations_in, set_rotation
from ..bake.frames import checked_frames, frame_times
from ..character.preferring import beyond_limits, prefer_present_pose
from ..effectors.effectors import Following, check_present, label_of, lacks_target, present_state, target_of
from ..effectors.entries import chosen_rows, match_target
from ..effectors.feet import is_rolling
from ..effectors.transforms import depth
from ..kinds.frame_data import orthogonal, points_of
from ..kinds.kinds import KINDS
from ..live.following import held
from ..properties.settings import FOOT_ANGLES, effector_path, settings_of
from ..rig.keying import GROUP, auto_key_options, auto_keying, key_object, key_options, key_values
from ..rig.noted import held_in_frame, note_keyed

MOVED: Final = 1e-5
"""Difference [m, rad, 1] from where it was by which a target counts as moved: single precision has less."""

FEET: Final = "Foot Roll"
"""Name of the group of F-curves of what is set of feet."""


@dataclass(frozen=True)
class MatchReport:
    """Which targets were brought to their bones, or keyed."""

    effectors: tuple[str, ...]
    """Names of their effectors."""
    keyed_frames: int = 0
    """On how many frames they were keyed."""
    notes: tuple[str, ...] = ()
    """Which others stay as they are, why, and what to do, one sentence each."""
    remarks: tuple[str, ...] = ()
    """What else has changed, one sentence each; nothing to look at."""
    done: str = ""
    """What was done, where that is something else."""

    def summary(self) -> str:
        """What was done, for the status bar."""
        if self.done:
            return sentences(self.done, *self.remarks, *self.notes)
        targets = number_of_targets(len(self.effectors))
        done = Message("{targets} brought to the bones", targets=targets)
        if self.keyed_frames:
            frames = counted(self.keyed_frames, "{count} frame", "{count} frames")
            done = Message("{targets} keyed on {frames}", targets=targets, frames=frames)
        return sentences(done, *self.remarks, *self.notes)


def snap_targets(
    armature_object: Object, effectors: Iterable[int] | None = None, *, frames: Iterable[int] | None = None
) -> MatchReport:
    """Bring targets to their bones; what is pinned or follows is held where its bone is now.

    On the present frame the pose becomes the preferred one of the bones that move for these effectors: so the
    next solve moves nothing that is inside its limits.

    Args:
        effectors: Places in the list of those that are meant; all for None. Targets that are part of the
            surroundings, and those of which one is enough, only count where they are meant, and are refused.
        frames: Increasing whole frames on which targets get keys at the bones as these are played there. None
            for the present frame, on which targets are keyed if Blender's auto-key is on.

    Raises:
        IKError: The armature cannot be posed, no target can be moved, or a bone is scaled to nothing;
            everything is as before then.
    """
    check_present(armature_object)
    numbers = None if frames is None else checked_frames(frames)
    rows, notes = able_targets(armature_object, effectors, moved=True, keyed=numbers is not None)
    entries: Any = settings_of(armature_object).effectors
    rows.sort(key=lambda row: depth(entries[row].target))  # children go where their parents go
    names = tuple(label_of(entries[row]) for row in rows)
    with held(armature_object), put_back_on_error(armature_object, rows):
        if numbers is not None:
            states = [present_state(armature_object, entries[row]) for row in rows]
            _key_frames(armature_object, rows, numbers)
            return MatchReport(names, len(numbers), notes, _now_reach(armature_object, rows, states))
        for row in rows:
            match_target(armature_object, row)
        bones = _moving(armature_object, rows)
        prefer_present_pose(armature_object, bones)
        if outside := beyond_limits(armature_object, bones):
            notes += (
                Message(
                    "these bones are beyond their limits, a solve turns them back: {outside}",
                    outside=listed(outside),
                ),
            )
        if auto_keying():
            _key_now(armature_object, rows, auto_key_options())
    return MatchReport(names, notes=notes)


def key_targets(armature_object: Object, effectors: Iterable[int] | None = None) -> MatchReport:
    """Key targets where they are, on the present frame, as Blender's settings say.

    Of a foot that rolls its angles are keyed as well, all but those with drivers.

    What follows goes on following, and it is noted where it is held here; so the pose comes back, and the
    body goes along with what is moved later. What is pinned is Reach from then on.

    Args:
        effectors: Places in the list of those that are meant; all for None.

    Raises:
        IKError: No target can be keyed; everything is as before then.
    """
    check_present(armature_object)
    rows, notes = able_targets(armature_object, effectors, moved=False, keyed=True)
    entries: Any = settings_of(armature_object).effectors
    with put_back_on_error(armature_object, rows):
        states = [present_state(armature_object, entries[row]) for row in rows]
        _key_now(armature_object, rows, key_options())
        notes += tuple(_key_feet(armature_object, rows))
    remarks = _now_reach(armature_object, rows, states)
    if names := [label_of(entries[row]) for row, was in zip(rows, states, strict=True) if was == 'FOLLOW']:
        remarks += (Message("still following, drawn weakly to the keys: {names}", names=listed(names)),)
    return MatchReport(tuple(label_of(entries[row]) for row in rows), 1, notes, remarks)


def _now_reach(armature_object: Object, rows: Iterable[int], states: Iterable[str]) -> tuple[str, ...]:
    """Say which effectors reach for their targets now and were in other states before, or nothing."""
    entries: Any = settings_of(armature_object).effectors
    names = [
        label_of(entries[row])
        for row, was in zip(rows, states, strict=True)
        if was != present_state(armature_object, entries[row]) == 'REACH'
    ]
    return (Message("Reach from now on: {names}", names=listed(names)),) if names else ()


def _key_feet(armature_object: Object, rows: Iterable[int]) -> Iterator[str]:
    """Key what is set of feet that roll on the present frame; yields which cannot be keyed and why."""
    entries: Any = settings_of(armature_object).effectors
    for row in rows:
        if is_rolling(entries[row]) and (
            why := _key_angles(armature_object, row, FOOT_ANGLES, key_options())
        ):
            yield Message("{effector}: {why}", effector=label_of(entries[row]), why=why)


def _key_angles(armature_object: Object, row: int, names: Iterable[str], options: set[str]) -> str:
    """Key angles of a foot, all but those with drivers; say what keeps them from it, or nothing."""
    driven = {path for path, _ in driven_channels(armature_object)}
    paths = [path for name in names if (path := effector_path(row, name)) not in driven]
    why = unkeyable(armature_object, paths, Message("its roll, bank and pivots"))
    if not why:
        key_values(armature_object, paths, FEET, options)
    return why


def auto_key_foot(armature_object: Object, row: int, name: str) -> str:
    """Key an angle of a foot that was set, if Blender's auto-key is on.

    Args:
        row: Place of the effector in the list.
        name: Of the angle, one of `FOOT_ANGLES`.

    Returns:
        What keeps it from being keyed, and what to do; empty for nothing.
    """
    return _key_angles(armature_object, row, [name], auto_key_options()) if auto_keying() else ""


def _key_now(armature_object: Object, rows: Iterable[int], options: set[str]) -> None:
    """Key targets on the present frame; it is noted of what follows where it is held there."""
    entries = cast(Any, settings_of(armature_object).effectors)
    held = held_in_frame(armature_object, bpy.context.evaluated_depsgraph_get())
    for row in rows:
        (moved, turned), target = channels_that_count(entries[row]), entries[row].target
        key_object(target, options, moved=moved, turned=turned)
        if row in held:
            note_keyed(entries[row], held[row])


def _moving(armature_object: Object, rows: Sequence[int]) -> list[str]:
    """The bones that move for some effectors: theirs and those above, but for those that are held."""
    entries: Any = settings_of(armature_object).effectors
    skeleton = read_armature(armature_object).skeleton
    names = [entries[row].bone for row in rows if entries[row].bone in skeleton.names]
    joints = sorted({joint for name in names for joint in skeleton.ancestors(skeleton.index(name))})
    return [skeleton.names[joint] for joint in joints if skeleton.free[joint].any()]


def channels_that_count(entry: Any) -> tuple[bool, bool]:
    """Whether the target of an effector counts by its place, and by its orientation."""
    kind = KINDS[entry.kind]
    if kind.pinnable:
        return kind.position, kind.orientation
    return True, kind.of_surroundings


def _paths(entry: Any, target: Any) -> list[str]:
    """The properties of a target of an effector by which it counts."""
    return [*compress(placing(target), channels_that_count(entry))]


def able_targets(
    armature_object: Object, effectors: Iterable[int] | None, *, moved: bool, keyed: bool
) -> tuple[list[int], tuple[str, ...]]:
    """Which effectors have a target that can be moved or keyed, and why others have none.

    Raises:
        IKError: There is none.
    """
    entries: Any = settings_of(armature_object).effectors
    able, notes = list[int](), list[str]()
    for row in chosen_rows(armature_object, effectors):
        entry, kind = entries[row], KINDS[entries[row].kind]
        apart = moved and (kind.of_surroundings or kind.several)
        needless = target_of(entry) is None and not lacks_target(entry)
        if effectors is None and (needless or apart):
            continue
        why = obstacle_of(armature_object, entry, moved=moved, keyed=keyed)
        if (
            not why
            and moved
            and (other := next((e for e in able if entries[e].target == entry.target), None))
        ):
            shared = label_of(entries[other])
            why = Message(
                "{shared} has the same target, {target!r}; give each one of its own",
                shared=shared,
                target=entry.target.name,
            )
        if why:
            notes.append(Message("{effector}: {why}", effector=label_of(entry), why=why))
        else:
            able.append(row)
    if not able:
        raise IKError(
            Joined(". ", notes)
            if notes
            else Message(
                "no effector of {armature!r} has a target: Make Targets gives them some",
                armature=armature_object.name,
            )
        )
    return able, tuple(notes)


def obstacle_of(
    armature_object: Object, entry: Any, *, moved: bool, keyed: bool, followed: Following | None = None
) -> str:
    """Say what keeps the target of an effector from being moved or keyed, and what to do; or nothing.

    Args:
        followed: The one that is meant, of several targets; None where none is.
    """
    own = entry if followed is None else followed
    target: Any = target_of(own)
    kind = KINDS[entry.kind]
    if target is None:
        return Message("it has no target; Make Targets gives it one")
    if own.target_bone:
        return Message("its target is a bone of {target!r}; pose that bone", target=target.name)
    name = Message("its target {target!r}", target=target.name)
    if target == armature_object:
        return Message("{name} is the armature itself; choose another object, or make an empty", name=name)
    if not target.is_editable:
        return Message(
            "{name} is linked from another file; make a library override of it, or make it local", name=name
        )
    if moved and kind.of_surroundings:
        return Message("{name} is part of the surroundings; move it by hand", name=name)
    if moved and kind.several and followed is None:
        return Message("one of its targets is enough; move them by hand")
    (places, turns), paths = channels_that_count(entry), _paths(entry, target)
    if moved:
        view_layer: Any = bpy.context.view_layer
        if view_layer.objects.get(target.name) != target or not _is_enabled(target):
            return Message(
                "{name} is not in this view layer, or disabled in viewports; enable it and its collection",
                name=name,
            )
        if not target.visible_get(view_layer=view_layer):
            if not target.hide_get(view_layer=view_layer):
                return Message(
                    "{name} is in a hidden collection, or outside of Local View; show that collection in the "
                    "Outliner, or leave Local View (Numpad /)",
                    name=name,
                )
            return Message("{name} is hidden; show it (Alt H) first", name=name)
        constraints = [c.name for c in target.constraints if not c.mute and c.influence > 0.0]
        if constraints:
            return Message(
                "{name} has constraints ({names}); disable or apply them",
                name=name,
                names=', '.join(constraints),
            )
        if (places and any(target.lock_location)) or (turns and any(target.lock_rotation)):
            return Message(
                "{name} is locked; unlock its location and rotation in the sidebar (N, tab Item)", name=name
            )
    if any(path in paths for path, _ in driven_channels(target)):
        return Message("{name} is moved by drivers; remove these", name=name)
    own = Message("target {target!r}", target=target.name)
    return unkeyable(target, paths, own) if keyed else ""


def unkeyable(owner: Object, paths: Sequence[str], name: str) -> str:
    """Say what keeps properties of an object from being keyed, and what to do; or nothing."""
    if any(path in paths and is_locked(curve) for (path, _), curve in own_curves(owner).items()):
        return Message("F-curves of {name} are locked; unlock them in the Graph Editor", name=name)
    try:
        check_keyable(owner)
    except IKError as error:
        return error.message
    return ""


def _is_enabled(target: Object) -> bool:
    """Whether an object is shown in viewports, or would be if it were not hidden with H."""
    return target in {instance.original for instance in bpy.context.evaluated_depsgraph_get().ids}


def _key_frames(armature_object: Object, rows: Sequence[int], frames: Sequence[int]) -> None:
    """Key targets at their bones on some frames; frame, pose and whatever else is played are put back."""
    scene, entries = bpy.context.scene, settings_of(armature_object).effectors
    targets: dict[int, Any] = {row: entries[row].target for row in rows}
    with played_restored(armature_object, but=targets.values()):
        found: dict[int, list[Mapping[str, FloatArray]]] = {row: [] for row in rows}
        for frame in frames:
            scene.frame_set(frame)
            for row, target in targets.items():
                match_target(armature_object, row, holds=False)
                if found[row]:  # angles go on from the frame before, whatever was played
                    path = rotation_channel(target.rotation_mode)[0]
                    set_rotation(target, rotation_of(target), near=found[row][-1][path].tolist())
                found[row].append({path: np.array(getattr(target, path)) for path in OWN_CHANNELS})
        for row, target in targets.items():
            keys = [
                key
                for path in _paths(entries[row], entries[row].target)
                for key in property_keys(path, [now[path] for now in found[row]], GROUP)
            ]
            write_keys(target, frame_times(frames), keys)
        if present_frame() in frames:
            scene.frame_set(scene.frame_current, subframe=scene.frame_subframe)


def target_keys(
    target: Any,
    above: FloatArray,
    places: FloatArray,
    turns: FloatArray | None,
    near: FloatArray | None = None,
) -> list[ChannelKeys]:
    """Return the keys of a target that is at places (F, 3) [m] and turned so, (F, 3, 3); None: not keyed.

    Args:
        above: What its own channels are added to in these frames, (F, 4, 4) [m].
        near: Rotation channels that those of the first frame are nearest to; the present ones by default.
    """
    keys = [*property_keys("location", points_of(np.linalg.inv(above).astype(np.float64), places), GROUP)]
    if turns is not None:
        path, _ = rotation_channel(target.rotation_mode)
        near = np.array(getattr(target, path), dtype=np.float64) if near is None else near
        own = rotations_in(target.rotation_mode, np.swapaxes(orthogonal(above), -1, -2) @ turns, near)
        keys += property_keys(path, own, GROUP)
    return keys


@contextmanager
def put_back_on_error(armature_object: Object, rows: Sequence[int]) -> Iterator[None]:
    """Put targets, their keys, settings and pose back when anything raises inside."""
    entries: Any = settings_of(armature_object).effectors
    targets = [entries[row].target for row in rows]
    with set_up_restored_on_error(armature_object), undone_on_error() as undo:
        undo.callback(ValuesSnapshot.placing(targets).restore)
        undo.callback(bpy.context.view_layer.update)
        for target in targets:
            undo.callback(ActionSnapshot.take(target).restore)
        yield

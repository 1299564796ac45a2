# SPDX-License-Identifier: GPL-3.0-or-later
"""Contacts of feet and hands: found on the paths of their targets, kept as keys, and locked.

Whether a bone is planted is a property of its effector, keyed in the armature's own action with constant
interpolation: the Dope Sheet shows from when to when, and moving, adding or deleting these keys edits it.
Contacts that are keyed already are not found anew unless that is asked for. Locking keys the targets: at rest
while they are in contact, eased back to the path that they had. That path is kept in an action of its own,
and counts as long as nobody else changes the keys: so contacts can be edited and locked again. What is locked
already gets no new keys.

A path is that of the target's own channels, without its delta channels: an offset that is put on a planted
foot moves it.
"""

import hashlib
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ...core import IKError
from ...core.arrays import BoolArray, FloatArray, check_number
from ...core.character import Limb, LimbKind
from ...core.messages import Joined, Message, counted, in_a_row, sentences
from ...core.model.rotation import matrix_in_mode
from ...core.motion import FOOT, HAND, LEGS, Track, leg_length, locked, spans, toe_point
from ...core.motion import find_contacts as contacts_of
from ..animation.fcurves import (
    ChannelKeys,
    action_curves,
    check_keyable,
    frames_around,
    is_locked,
    key_frames,
    new_action,
    own_channelbag,
    own_curves,
    placing,
    present_frame,
    read_keys,
    sample_channels,
    within,
    write_keys,
)
from ..armature.armature import read_armature, world_from_armature
from ..armature.restoring import made_removed_on_error, played_restored, show_keys
from ..armature.role_table import read_character
from ..bake.frames import CONTACTS, checked_frames, frame_times, frames_at
from ..effectors.effectors import check_present, label_of
from ..effectors.entries import chosen_rows
from ..effectors.transforms import world_from_basis
from ..jobs import Job
from ..kinds.frame_data import orthogonal, points_of
from ..live.following import held
from ..properties.settings import effector_path, settings_of
from ..rig.keying import GROUP
from ..units import length_text
from .snapping import MOVED, able_targets, channels_that_count, put_back_on_error, target_keys

GROUP_OF_CONTACTS: Final = "Contacts"
"""Name of the group of their F-curves."""


@dataclass(frozen=True)
class ContactReport:
    """What was found and locked."""

    effectors: tuple[str, ...]
    """Names of those that are in contact at some time."""
    contacts: tuple[int, ...]
    """How often each is."""
    kept: tuple[str, ...] = ()
    """Names of those whose contacts had keys, which are as they were."""
    locked: bool = False
    """Whether targets were locked."""
    slide: float = 0.0
    """Largest way that a planted point went within a contact before [m]."""
    moved: float = 0.0
    """Largest distance by which a target was moved [m]."""
    keys: int = 0
    """How many keys of targets were written."""
    notes: tuple[str, ...] = ()
    """What else the user should know, one sentence each."""

    def summary(self) -> str:
        """What was done, for the status bar."""
        found = [
            counted(count, "{name}: {count} contact", "{name}: {count} contacts", name=name)
            for name, count in zip(self.effectors, self.contacts, strict=True)
        ]
        done = in_a_row(found)
        if not found:
            done = Message("no foot or hand is in contact with the floor at any time")
        elif self.locked and self.keys:
            locked = Message(
                "locked, they slid by up to {slide}, targets are moved by up to {moved}",
                slide=length_text(self.slide),
                moved=length_text(self.moved),
            )
            done = Joined("; ", (done, locked))
        elif self.locked:
            done = Joined("; ", (done, Message("they rest already")))
        kept = [Message("contacts that are keyed stay as they are: {names}", names=in_a_row(self.kept))]
        return sentences(done, *(kept if self.kept and not self.locked else ()), *self.notes)


def find_contacts(
    armature_object: Object,
    effectors: Iterable[int] | None = None,
    *,
    frames: Iterable[int] | None = None,
    replace: bool = False,
    progress: Callable[[float], None] | None = None,
) -> ContactReport:
    """Key when feet and hands are in contact, as the paths of their targets say.

    Args:
        armature_object: With keyed targets.
        effectors: Places in the list of those that are meant; all of feet and hands for None.
        frames: Increasing whole frames; by default all from the first key of their targets to the last.
        replace: Whether contacts that have keys are found anew.
        progress: Called with the part done in [0, 1]; what it raises stops the work.

    Raises:
        IKError: There is no such effector, no target is keyed, or no body is recognised; everything is as
            before then.
    """
    return ContactsJob(armature_object, effectors, frames=frames, replace=replace, lock=False).run(progress)


def lock_contacts(
    armature_object: Object,
    effectors: Iterable[int] | None = None,
    *,
    frames: Iterable[int] | None = None,
    ease: float = 0.2,
    progress: Callable[[float], None] | None = None,
) -> ContactReport:
    """Let targets of feet and hands rest while they are in contact; find contacts where none are keyed.

    Arguments and IKError: as `find_contacts`, and `ease`, how long a target takes to come to its place and to
    leave it [s].
    """
    return ContactsJob(armature_object, effectors, frames=frames, ease=ease).run(progress)


class ContactsJob(Job[ContactReport]):
    """`find_contacts` and `lock_contacts` in small steps."""

    noun = Message("the work on contacts")

    def __init__(
        self,
        armature_object: Object,
        effectors: Iterable[int] | None = None,
        *,
        frames: Iterable[int] | None = None,
        replace: bool = False,
        lock: bool = True,
        ease: float = 0.2,
    ) -> None:
        """Check all that can be checked before anything is changed."""
        check_present(armature_object)
        check_number("ease", ease, 0.0)
        self._replace, self._lock, self._ease = replace, lock, ease
        self._rows, self._notes = self._meant(armature_object, effectors)
        self._frames = checked_frames(self._keyed_range(armature_object) if frames is None else frames)
        super().__init__(armature_object)

    # What is meant

    def _meant(
        self, armature_object: Object, effectors: Iterable[int] | None
    ) -> tuple[dict[int, Limb | None], tuple[str, ...]]:
        """Places in the list of the effectors, with the limb that each one holds; and notes."""
        skeleton = read_armature(armature_object).skeleton
        self._character, _ = read_character(armature_object, skeleton)
        entries: Any = settings_of(armature_object).effectors
        limbs = {
            skeleton.names[limb.effector]: limb
            for limb in self._character.limbs
            if limb.kind in (*LEGS, LimbKind.ARM)
        }
        by_role = [row for row, entry in enumerate(entries) if entry.enabled and entry.bone in limbs]
        meant = by_role if effectors is None else chosen_rows(armature_object, effectors)
        if not meant:
            raise IKError(
                "no effector of {armature!r} holds a foot or a hand: press Set Up Character, or give "
                "the bones their roles in the table",
                armature=armature_object.name,
            )
        rows, notes = able_targets(armature_object, meant, moved=self._lock, keyed=self._lock)
        places = [row for row in rows if channels_that_count(entries[row])[0]]
        keyed = [row for row in places if _is_keyed(entries[row].target)]
        if not keyed:
            raise IKError(
                "no target of a foot or a hand of {armature!r} has keys: Snap to Bones over the bake "
                "range keys them where the bones go",
                armature=armature_object.name,
            )
        check_keyable(armature_object)
        if effectors is not None and len(keyed) < len(rows):
            others = [label_of(entries[row]) for row in rows if row not in keyed]
            notes += (
                Message("targets without keys of their place are left out: {names}", names=in_a_row(others)),
            )
        return {row: limbs.get(entries[row].bone) for row in keyed}, notes

    def _keyed_range(self, armature_object: Object) -> range:
        """Frames from the first key of the targets to the last."""
        entries: Any = settings_of(armature_object).effectors
        targets = [entries[row].target for row in self._rows]
        curves = (curve for target in targets for curve in own_curves(target).values())
        return frames_around(frames_at(key_frames(*curves)).tolist())

    # The work

    def _run(self) -> Generator[float, None, ContactReport]:
        scene, armature_object = bpy.context.scene, self._object()
        with ExitStack() as undo, ExitStack() as played:
            undo.enter_context(held(armature_object))
            undo.enter_context(put_back_on_error(armature_object, list(self._rows)))
            undo.enter_context(made_removed_on_error("actions"))
            played.enter_context(played_restored(armature_object))
            paths = _Paths(armature_object, list(self._rows), self._frames)
            for number, frame in enumerate(self._frames):
                scene.frame_set(frame)
                paths.take(self._object(), frame)
                yield 0.9 * (number + 1) / len(self._frames)
            armature_object = self._object()
            tracks = self._tracks(armature_object, paths)
            times = np.array(self._frames) * scene.render.fps_base / scene.render.fps
            contacts, kept = self._contacts(armature_object, tracks, times, paths.scale)
            report = self._written(armature_object, paths, tracks, times, contacts, kept)
            played.close()
            if present_frame() in self._frames:  # targets are where they are keyed
                entries: Any = settings_of(armature_object).effectors
                show_keys(armature_object, [armature_object, *(entries[row].target for row in self._rows)])
            return report

    def _tracks(self, armature_object: Object, paths: "_Paths") -> dict[int, Track]:
        """The paths with the points that may be planted, relative to what each is in contact with."""
        entries: Any = settings_of(armature_object).effectors
        skeleton = read_armature(armature_object).skeleton
        data: Any = armature_object.data
        tails = np.array([data.bones[name].tail_local for name in skeleton.names])
        tracks: dict[int, Track] = {}
        for row, limb in self._rows.items():
            entry = entries[row]
            places, turns = paths.relative(armature_object, row, paths.unlocked(armature_object, row))
            points = [np.zeros(3)]
            if not channels_that_count(entry)[1]:
                turns = np.broadcast_to(np.eye(3), turns.shape)
            elif limb is not None and limb.kind in LEGS:
                toe = toe_point(skeleton, self._character, limb, tails)
                if toe.any():
                    points.append(paths.scale * (toe - np.array(entry.point)))
            group = FOOT if limb is not None and limb.kind in LEGS else HAND
            on_floor = limb is not None and entry.contact_object is None
            tracks[row] = Track(label_of(entry), places, turns, np.stack(points), group, on_floor)
        return tracks

    def _contacts(
        self, armature_object: Object, tracks: dict[int, Track], times: FloatArray, scale: float
    ) -> tuple[dict[int, BoolArray], list[int]]:
        """Whether points are planted, (F, P) for each row, and the rows whose contacts had keys."""
        curves, found = own_curves(armature_object), dict[int, BoolArray]()
        kept: list[int] = []
        for row, track in tracks.items():
            channels = [(effector_path(row, name), 0) for name in CONTACTS[: len(track.points)]]
            if not self._replace and any(channel in curves for channel in channels):
                found[row] = sample_channels(armature_object, channels, frame_times(self._frames)) > 0.5
                kept.append(row)
        missing = [row for row in tracks if row not in found]
        skeleton = read_armature(armature_object).skeleton
        for figure in {self._figure(row) for row in missing}:
            rows = [row for row in tracks if self._figure(row) == figure]
            length = scale * leg_length(skeleton, self._character, figure)
            all_found = contacts_of([tracks[row] for row in rows], times, length)
            found |= {row: on for row, on in zip(rows, all_found, strict=True) if row in missing}
        return found, kept

    def _figure(self, row: int) -> int:
        limb = self._rows[row]
        return 0 if limb is None else limb.figure

    def _written(
        self,
        armature_object: Object,
        paths: "_Paths",
        tracks: dict[int, Track],
        times: FloatArray,
        contacts: dict[int, BoolArray],
        kept: Sequence[int],
    ) -> ContactReport:
        """Write the keys; returns the report."""
        entries: Any = settings_of(armature_object).effectors
        names = {row: label_of(entries[row]) for row in tracks}
        slide = moved = 0.0
        keys = 0
        for row, track in tracks.items():
            on = contacts[row]
            if row not in kept:
                key_contacts(armature_object, row, self._frames, on)
            if not self._lock:
                continue
            at_rest = locked(track, on, times, ease=self._ease)
            if not (written := paths.write(armature_object, row, at_rest)):
                continue
            keys += written
            for point, (start, stop) in ((p, s) for p in range(on.shape[1]) for s in spans(on[:, p])):
                way = track.planted[start:stop, point]
                slide = max(slide, float(np.linalg.norm(way - way[0], axis=1).max()))
            moved = max(moved, float(np.linalg.norm(at_rest.places - track.places, axis=1).max()))
        rows = [row for row in tracks if contacts[row].any()]
        return ContactReport(
            tuple(names[row] for row in rows),
            tuple(len(spans(contacts[row].any(axis=1))) for row in rows),
            tuple(names[row] for row in kept),
            self._lock,
            slide,
            moved,
            keys,
            self._notes,
        )


def key_contacts(armature_object: Object, row: int, frames: Sequence[int], on: BoolArray) -> None:
    """Key the contacts of an effector: at the first frame, and wherever they begin or end."""
    for name, planted in zip(CONTACTS, on.T, strict=False):
        path = effector_path(row, name)
        curve = own_curves(armature_object).get((path, 0))
        if curve is not None:
            if is_locked(curve):
                raise IKError(
                    "{value} of {armature!r} is keyed in a locked F-curve: unlock it in the Graph Editor",
                    value=name.replace('_', ' '),
                    armature=armature_object.name,
                )
            own_channelbag(armature_object).fcurves.remove(curve)
        borders = [0, *(1 + np.flatnonzero(planted[1:] != planted[:-1])).tolist()]
        times = frame_times([frames[border] for border in borders])
        keys = ChannelKeys(path, 0, planted[borders].astype(np.float64), GROUP_OF_CONTACTS)
        write_keys(armature_object, times, [keys], interpolation="CONSTANT")


def _is_keyed(target: Object) -> bool:
    """Whether the place of a target has keys of its own."""
    return any(path == "location" for path, _ in own_curves(target))


class _Paths:
    """How targets move, frame by frame, in the world."""

    def __init__(self, armature_object: Object, rows: Sequence[int], frames: Sequence[int]) -> None:
        self._rows, self._times = rows, frame_times(frames)
        _, self.scale = world_from_armature(armature_object)
        self._above: dict[int, list[FloatArray]] = {row: [] for row in rows}
        """World_from_basis, (4, 4)."""
        self._own: dict[int, list[FloatArray]] = {row: [] for row in rows}
        """Own location, then rotation in the target's rotation mode."""
        self._carrier: dict[int, list[FloatArray]] = {row: [] for row in rows}
        """World_from_carrier of what it is in contact with, without scale, (4, 4)."""

    def take(self, armature_object: Object, frame: int) -> None:
        """Take the present frame (IKError: a target is nowhere in it)."""
        entries: Any = settings_of(armature_object).effectors
        depsgraph = bpy.context.view_layer.depsgraph
        for row in self._rows:
            entry, carrier = entries[row], np.eye(4)
            own = np.concatenate([getattr(entry.target, path) for path in placing(entry.target)])
            if entry.contact_object is not None:
                carrier = np.array(entry.contact_object.evaluated_get(depsgraph).matrix_world)
                carrier[:3, :3] = orthogonal(carrier)
            above = world_from_basis(entry.target)
            if not all(np.isfinite(array).all() for array in (own, carrier, above)):
                raise IKError(
                    "the target of {entry!r} is nowhere in frame {frame}: look at its keys",
                    entry=label_of(entry),
                    frame=frame,
                )
            self._own[row].append(own.astype(np.float64))
            self._above[row].append(above)
            self._carrier[row].append(carrier)

    def unlocked(self, armature_object: Object, row: int) -> FloatArray:
        """The channels of a target before it was locked, location and rotation, (F, 6) or (F, 7)."""
        entry: Any = settings_of(armature_object).effectors[row]
        values = np.stack(self._own[row])
        if not _is_as_locked(entry):
            return values
        curves = action_curves(entry.contact_path)
        first, last = _range_of(entry.contact_path)
        inside = np.flatnonzero(within(self._times, first, last))
        for column, channel in enumerate(_channels_of(entry.target)):
            if channel in curves:
                curve = curves[channel]
                values[inside, column] = [curve.evaluate(self._times[row]) for row in inside]
        return values

    def relative(
        self, armature_object: Object, row: int, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Places (F, 3) [m] and rotations (F, 3, 3) by channels, relative to what it is in contact with."""
        target: Any = settings_of(armature_object).effectors[row].target
        above, back = np.stack(self._above[row]), np.linalg.inv(np.stack(self._carrier[row]))
        places = points_of(back @ above, values[:, :3])
        turns = matrix_in_mode(target.rotation_mode, values[:, 3:])
        return places, back[:, :3, :3] @ orthogonal(above) @ turns

    def write(self, armature_object: Object, row: int, track: Track) -> int:
        """Key a target where it is not on a track yet, and keep the path that it had; how many keys."""
        entry: Any = settings_of(armature_object).effectors[row]
        target = entry.target
        places, turns = self.relative(armature_object, row, np.stack(self._own[row]))
        if not channels_that_count(entry)[1]:
            turns = track.turns
        apart = np.linalg.norm(places - track.places, axis=1)
        changed = np.flatnonzero(np.maximum(apart, np.abs(turns - track.turns).max(axis=(1, 2))) > MOVED)
        if not len(changed):
            return 0
        path = self.unlocked(armature_object, row)
        span = slice(int(changed[0]), int(changed[-1]) + 1)
        above, carrier = np.stack(self._above[row])[span], np.stack(self._carrier[row])[span]
        turns = carrier[:, :3, :3] @ track.turns[span] if channels_that_count(entry)[1] else None
        near = self._own[row][span.start][3:]
        keys = target_keys(target, above, points_of(carrier, track.places[span]), turns, near)
        first, last = _range_of(entry.contact_path) if _is_as_locked(entry) else (np.inf, -np.inf)
        if not within(self._times, first, last).all():
            before = entry.contact_path
            kept = [
                ChannelKeys(*channel, values, GROUP)
                for channel, values in zip(_channels_of(target), path.T, strict=True)
            ]
            entry.contact_path = new_action(f"{target.name} Path", target, self._times, kept)
            if before is not None and before.users == 0:
                bpy.data.actions.remove(before)
        written = write_keys(target, self._times[span], keys).keys
        entry.contact_keys = _digest(target)
        return written


def _channels_of(target: Object) -> list[tuple[str, int]]:
    """The channels that place a target."""
    return [(path, index) for path in placing(target) for index in range(len(getattr(target, path)))]


def _range_of(action: Any) -> tuple[float, float]:
    """First and last frame of the keys of an action."""
    first, last = action.frame_range
    return float(first), float(last)


def _digest(target: Object) -> str:
    """Digest of the keys that place a target."""
    curves, digest = own_curves(target), hashlib.sha256()
    for channel in _channels_of(target):
        if channel in curves:
            digest.update(repr(channel).encode())
            digest.update(read_keys(curves[channel], "co")["co"].tobytes())
    return digest.hexdigest()


def _is_as_locked(entry: Any) -> bool:
    """Whether the keys of the target are those that locking has written, and the path before is kept."""
    return bool(
        entry.contact_path is not None
        and action_curves(entry.contact_path)
        and entry.contact_keys == _digest(entry.target)
    )

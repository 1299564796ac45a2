# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded motion: keyed targets from a clip, and the clip kept beside them.

What Blender plays in a range of frames is sampled twice. Targets get keys where their bones are; and the
channels of all bones go into an action of their own, the *recording*, which nothing plays and no bake writes.
While an armature has one, each frame prefers the pose that the recording has there, so what no target asks to
be elsewhere stays as it was recorded, also after the armature's own action was baked over.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ...core import IKError
from ...core.arrays import FloatArray
from ...core.messages import Message, counted, listed
from ..animation.fcurves import (
    ChannelKeys,
    bone_keys,
    frames_around,
    key_frames,
    new_action,
    own_curves,
    placing,
    present_frame,
    write_keys,
)
from ..armature.poses import PROPERTIES, RawChannels, raw_channels
from ..armature.restoring import made_removed_on_error, played_restored, show_keys
from ..bake.frames import checked_frames, frame_times, frames_at
from ..character.setup import setup_character
from ..effectors.effectors import check_bone, check_present, label_of, target_of
from ..effectors.entries import add_effector, make_target
from ..effectors.feet import unrolled
from ..effectors.transforms import depth, world_from_basis
from ..jobs import Job
from ..kinds.frame_data import NO_SCALE, orientations, points_of
from ..kinds.kinds import KINDS
from ..live.following import held
from ..properties.settings import check_object, settings_of
from .corrections import has_corrections, remove_corrections
from .snapping import MatchReport, able_targets, put_back_on_error, target_keys

HIPS: Final = "hips"
"""Part of the body that gets a target although it only follows."""


def clip_range(armature_object: Object) -> range:
    """Return the frames that an armature's action, or its NLA strips, have keys in.

    Raises:
        IKError: Nothing animates the armature.
    """
    check_object(armature_object)
    times: list[float] = []
    animation = armature_object.animation_data
    for curve in own_curves(armature_object).values():
        times += list(curve.range()[:])
    if not times and animation is not None and animation.use_nla:
        strips = [strip for track in animation.nla_tracks if not track.mute for strip in track.strips]
        for strip in strips:
            times += [] if strip.mute else [strip.frame_start, strip.frame_end]
    if not times:
        raise IKError(
            "nothing animates {armature!r}: assign an action to it, unmute its NLA strips, or "
            "import a clip, and press again",
            armature=armature_object.name,
        )
    return frames_around(frames_at(times).tolist())


def targets_from_animation(
    armature_object: Object,
    bones: Iterable[str] | None = None,
    *,
    frames: Iterable[int] | None = None,
    progress: Callable[[float], None] | None = None,
) -> MatchReport:
    """Key targets where their bones are in a clip, and keep the clip as the motion that is preferred.

    Args:
        armature_object: One that is animated. If it has no effectors yet it is set up first.
        bones: Those that get targets; None for hands, feet, head and hips, and all else that reaches for a
            target or is pinned. Those without an effector get one.
        frames: Increasing whole frames; by default all that the action, or the NLA strips, have keys in.
        progress: Called with the part done in [0, 1]; what it raises stops the work.

    Raises:
        IKError: Nothing animates the armature, it cannot be posed, no target can be keyed, or a bone is
            nowhere in a frame; everything is as before then.
    """
    return TargetsJob(armature_object, bones, frames=frames).run(progress)


class TargetsJob(Job[MatchReport]):
    """`targets_from_animation` in small steps."""

    noun = Message("Targets from Animation")

    def __init__(
        self,
        armature_object: Object,
        bones: Iterable[str] | None = None,
        *,
        frames: Iterable[int] | None = None,
    ) -> None:
        """Check all that can be checked before anything is changed."""
        check_present(armature_object)
        clip = clip_range(armature_object)
        self._frames = checked_frames(clip if frames is None else frames)
        self._bones = None if bones is None else tuple(dict.fromkeys(bones))
        super().__init__(armature_object)

    def _run(self) -> Generator[float, None, MatchReport]:
        scene, armature_object = bpy.context.scene, self._object()
        settings = settings_of(armature_object)
        with ExitStack() as undo, ExitStack() as played:
            undo.enter_context(held(armature_object))
            undo.enter_context(made_removed_on_error("actions", "objects", "collections"))
            targeted = [row for row, entry in enumerate(settings.effectors) if entry.target is not None]
            undo.enter_context(put_back_on_error(armature_object, targeted))
            played.enter_context(played_restored(armature_object))

            scene.frame_set(self._frames[0])
            rows, notes = self._meant(armature_object)
            samples = _Samples(armature_object, rows)
            for number, frame in enumerate(self._frames):
                scene.frame_set(frame)
                samples.take(self._object(), frame)
                yield 0.95 * (number + 1) / len(self._frames)
            armature_object = self._object()
            times = frame_times(self._frames)
            notes += self._notes(armature_object, rows)
            remarks: tuple[str, ...] = ()
            if corrected := [row for row in rows if has_corrections(armature_object, row)]:
                remove_corrections(armature_object, corrected)
                remarks = (Message("corrections are part of the recording now"),)
            _reach_for(armature_object, rows)
            entries: Any = settings.effectors
            for row in rows:
                write_keys(entries[row].target, times, samples.keys(armature_object, row))
                entries[row].placed = (0.0,) * 16
            before = settings.recording
            settings.recording = new_action(
                f"{armature_object.name} Recording", armature_object, times, samples.pose_keys()
            )
            if before is not None and before.users == 0:
                bpy.data.actions.remove(before)
            played.close()
            if present_frame() in self._frames:  # targets are where they are keyed
                show_keys(armature_object, [entries[row].target for row in rows])
            names = tuple(label_of(settings.effectors[row]) for row in rows)
            return MatchReport(names, len(times), notes, remarks)

    def _meant(self, armature_object: Object) -> tuple[list[int], tuple[str, ...]]:
        """Places in the list of the effectors that get keyed targets, made if there are none; and notes."""
        settings, notes = settings_of(armature_object), ()
        if self._bones is None and not any(KINDS[entry.kind].pinnable for entry in settings.effectors):
            report = setup_character(armature_object)
            if not report.ready:
                raise IKError(
                    "no hands, feet, head or hips were found in {armature!r}: give bones their roles in "
                    "the table, or select the bones that are to have targets, and press again",
                    armature=armature_object.name,
                )
            notes = report.notes
        entries: Any = settings.effectors
        if self._bones is None:
            meant = [row for row, entry in enumerate(entries) if _has_target_by_default(entry)]
        else:
            meant = list[int]()
            for bone in self._bones:
                own = [r for r, e in enumerate(entries) if e.bone == bone and KINDS[e.kind].pinnable]
                meant += own or [add_effector(armature_object, bone)]
        if not meant:
            raise IKError(
                "no effector of {armature!r} reaches for a target: press Set Up Character, or select "
                "the bones that are to have targets",
                armature=armature_object.name,
            )
        for row in meant:
            check_bone(armature_object, entries[row])
        for row in meant:
            if target_of(entries[row]) is None:
                make_target(armature_object, row)
        bpy.context.view_layer.update()  # new targets are evaluated
        rows, more = able_targets(armature_object, meant, moved=True, keyed=True)
        rows.sort(key=lambda row: depth(entries[row].target))
        return rows, (*notes, *more)

    def _notes(self, armature_object: Object, rows: Sequence[int]) -> tuple[str, ...]:
        """What is not as the clip has it."""
        frames = frames_at(key_frames(*own_curves(armature_object).values()))
        between = np.abs(frames - np.round(frames)) > 0.01
        if not between.any():
            return ()
        return (
            counted(
                int(between.sum()),
                "{count} key of the clip between whole frames: the motion is taken at whole frames. Set the "
                "scene to the frame rate of the clip and import it again to have them all",
                "{count} keys of the clip between whole frames: the motion is taken at whole frames. Set the "
                "scene to the frame rate of the clip and import it again to have them all",
            ),
        )


def _has_target_by_default(entry: Any) -> bool:
    """Whether an effector gets a keyed target if nobody says which do."""
    if entry.state == 'OFF' or not KINDS[entry.kind].pinnable:
        return False
    return entry.state != 'FOLLOW' or entry.part.partition(" ")[0] == HIPS


def _reach_for(armature_object: Object, rows: Sequence[int]) -> None:
    """Let effectors reach for their targets; those that followed do so below all others, as they did before.

    Else hips that are where they were recorded would keep hands from what they are to reach.
    """
    entries: Any = settings_of(armature_object).effectors
    followed = [row for row in rows if entries[row].state == 'FOLLOW']
    others = [e.priority for row, e in enumerate(entries) if e.state != 'OFF' and row not in followed]
    for row in rows:
        if row in followed:
            entries[row].priority = max(others, default=-1) + 1
        entries[row].state = 'REACH'


class _Samples:
    """What is played, frame by frame."""

    def __init__(self, armature_object: Object, rows: Sequence[int]) -> None:
        bones: Any = armature_object.pose.bones if armature_object.pose else ()
        self._rows = tuple(rows)
        self._keyed = {bone.name: placing(bone) for bone in bones}
        """Bone -> its properties that are keyed."""
        self._channels: list[RawChannels] = []
        """Of all bones, (n, 17), of each frame."""
        self._world: dict[int, list[FloatArray]] = {row: [] for row in rows}
        """Row -> world_from_bone of each frame, (4, 4) [m]."""
        self._above: dict[int, list[FloatArray]] = {row: [] for row in rows}
        """Row -> what its target's own channels are added to, (4, 4) [m]."""

    def take(self, armature_object: Object, frame: int) -> None:
        """Take the present frame (IKError: a bone is nowhere in it)."""
        evaluated: Any = armature_object.evaluated_get(bpy.context.view_layer.depsgraph)
        self._channels.append(raw_channels(armature_object))
        lost = [
            name
            for (name, paths), own in zip(self._keyed.items(), self._channels[-1], strict=True)
            if not all(np.isfinite(own[PROPERTIES[path]]).all() for path in paths)
        ]
        if lost:
            raise IKError(
                "bones of {armature!r} have a location or rotation that is not a number in frame "
                "{frame}: {lost}. Look at their keys there",
                armature=armature_object.name,
                frame=frame,
                lost=listed(lost),
            )
        world = np.array(evaluated.matrix_world)
        entries: Any = settings_of(armature_object).effectors
        for row in self._rows:
            entry = entries[row]
            matrix = world @ np.array(evaluated.pose.bones[entry.bone].matrix)
            if not np.isfinite(matrix).all() or np.linalg.norm(matrix[:3, :3], axis=0).min() <= NO_SCALE:
                raise IKError(
                    "bone {bone!r} of {armature!r} is nowhere, or scaled to nothing, in frame {frame}: "
                    "leave that frame out, or look at the keys of the bone and its parents",
                    bone=entry.bone,
                    armature=armature_object.name,
                    frame=frame,
                )
            self._world[row].append(unrolled(entry, matrix))
            self._above[row].append(world_from_basis(entry.target))

    def pose_keys(self) -> list[ChannelKeys]:
        """The keys of the recording."""
        values, bones = np.stack(self._channels), enumerate(self._keyed.items())
        properties = ((row, name, path) for row, (name, paths) in bones for path in paths)
        own = (bone_keys(name, path, values[:, row, PROPERTIES[path]]) for row, name, path in properties)
        return [keys for each in own for keys in each]

    def keys(self, armature_object: Object, row: int) -> list[ChannelKeys]:
        """The keys of the target of an effector: at its bone, turned as its bone."""
        entry: Any = settings_of(armature_object).effectors[row]
        world, above = np.stack(self._world[row]), np.stack(self._above[row])
        return target_keys(entry.target, above, points_of(world, entry.point), orientations(world))

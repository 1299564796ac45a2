# SPDX-License-Identifier: GPL-3.0-or-later
"""Trails and ghosts of one armature object: what has one, what is known of it, and when it is sampled again.

A trail shows what plays. With Live on the body follows its targets, so an effector with a target has the
trail of the target; the body is then known at frames that were shown, as Live solved them there, and key
poses are solved in idle time. Otherwise the trail is that of the bone.

What is known of a frame stays as long as the values of all F-curves at that frame are the same, and what has
no keys is. So a key that is moved costs the frames up to the next keys. Where constraints, drivers or NLA
strips act, a change of anything else on which they depend makes all frames unknown.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Depsgraph, Object

from ...core import IKError
from ...core.arrays import BoolArray, FloatArray, IntArray
from ...core.character.roles import Role
from ..animation.fcurves import (
    FOUR_COMPONENTS,
    PLACED_BY,
    Channel,
    bone_path,
    driven_channels,
    key_frames,
    nla_strips,
    own_curves,
)
from ..animation.own_keys import foreign_keys
from ..armature.armature import read_armature
from ..armature.poses import FIRST, raw_channels
from ..armature.role_table import read_character
from ..bake.frames import frame_times, frames_at
from ..effectors.effectors import label_of, target_of
from ..kinds.kinds import KINDS, asked_of
from ..live.drag_anchors import limbs_and_hips
from ..properties.settings import settings_of
from .sampling import (
    CurveValues,
    Ends,
    Sampled,
    curve_values,
    is_solvable,
    moved_by_others,
    object_moved_by_others,
    sample_evaluated,
    sample_keys,
    solve_at,
    unkeyed_settings,
)

AT_ONCE: Final = 24
"""Frames that are sampled by keys in one go, also some beyond what is shown, which come next when it
plays."""
EVALUATED_AT_ONCE: Final = 8
"""Frames that are evaluated in one go: Blender draws nothing meanwhile."""


EVER: Final = (-1e6, 1e6)
"""A span in which all keys lie [frames]."""


@dataclass(frozen=True)
class Tracked:
    """Something that has a trail."""

    name: str
    """Of the effector, or of the bone."""
    bone: str
    effector: int = -1
    """Place in the list of the effector; -1 for none."""
    target: str = ""
    """Name of the object whose trail it is; empty where it is that of the bone."""


@dataclass(frozen=True)
class Trail:
    """Where something is at frames."""

    of: Tracked
    frames: IntArray
    """Rising, those that are known, (m,)."""
    places: FloatArray
    """(m, 3) [m]."""
    keyed: BoolArray
    """Which of these frames have keys, (m,)."""


@dataclass(frozen=True)
class Ghost:
    """The body at another frame."""

    frame: int
    bones: FloatArray
    """Heads and tails, (b, 2, 3) [m]."""


@dataclass
class Trails:
    """What is known of the trails of an armature object. It may be thrown away at any time."""

    uid: int
    """Session uid of the armature object."""
    version: int = 0
    """Rises when something else is to be drawn."""
    tracked: tuple[Tracked, ...] = ()
    problem: str = ""
    """Why there are no trails, in words; empty if there are."""
    why_evaluated: str = ""
    """What but keys moves the bones; empty where keys alone do."""
    is_evaluated: bool = False
    """Whether Blender has to evaluate other frames."""
    _sampled: Sampled | None = None
    _structure: tuple[Any, ...] = ()
    _live: bool = False
    """Whether Live alone poses the bones: they are known at frames that were shown."""
    _known: dict[int, Ends] = field(default_factory=dict)
    _unsolvable: set[int] = field(default_factory=set)
    """Frames at which the body could not be solved."""
    _still: bytes = b""
    """On what places depend that has no keys."""
    _at: dict[int, bytes] = field(default_factory=dict)
    """Frame -> values of the F-curves, on which places there depend."""
    _keys: dict[Tracked, IntArray] = field(default_factory=dict)
    _pose_keys: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    _depends_on: frozenset[int] = frozenset()
    """Session uids of what was evaluated."""
    _pose: bytes = b""
    """Channels of all bones when an update was looked at last."""
    _edited: bool = True
    """Whether bones or settings may be others."""
    _animated: bool = True
    """Whether keys or values without keys may be others."""

    # What has changed

    def note(self, depsgraph: Depsgraph, *, new_frame: bool = False) -> bool:
        """Note what an update of the scene has changed; whether that may concern the trails.

        With a new frame everything is updated that is animated: then keys and bones alone count, which may
        have been changed just before.
        """
        armature_object = self._object()
        if armature_object is None:
            return False
        data: Any = armature_object.data
        concerned = False
        updates: Any = depsgraph.updates
        for update in updates:
            block, uid = update.id.original, update.id.original.session_uid
            if uid == data.session_uid:
                self._edited = concerned = True
            elif isinstance(block, bpy.types.Action):
                self._animated = concerned = True
                if self._plays_strips(block):
                    self.forget()
            elif new_frame:
                continue
            elif uid == self.uid:
                self._edited = self._animated = concerned = True
                pose = raw_channels(armature_object).tobytes()
                moved, self._pose = pose != self._pose, pose
                if self.is_evaluated and update.is_updated_geometry and not moved:
                    self.forget()  # neither bones nor keys: a constraint, a property that drives, ...
            elif isinstance(block, Object) and (update.is_updated_transform or update.is_updated_geometry):
                self._animated = concerned = True
                if self.is_evaluated and uid in self._depends_on:
                    self.forget()
        return concerned

    def forget(self) -> None:
        """Let nothing be known, as after undo or where what cannot be compared has changed."""
        self._known.clear()
        self._edited = self._animated = True
        self.version += 1

    @property
    def is_old(self) -> bool:
        """Whether it is to be refreshed."""
        armature_object, objects = self._object(), bpy.data.objects
        if armature_object is None:
            return False
        self._edited |= self._structure[:1] != (settings_of(armature_object).live,)
        self._edited |= self._sampled is not None and any(t not in objects for t in self._sampled.targets)
        return self._edited or self._animated

    def _plays_strips(self, action: Any) -> bool:
        """Whether what was evaluated plays an action in NLA strips, whose values are not compared."""
        owners = (obj for obj in bpy.data.objects if obj.session_uid in self._depends_on)
        return any(strip.action == action for obj in owners for strip in nla_strips(obj))

    def _object(self) -> Any:
        return next((obj for obj in bpy.data.objects if obj.session_uid == self.uid), None)

    def refresh(self) -> None:
        """Read again what may have changed, and forget the frames at which something has."""
        armature_object = self._object()
        if armature_object is None or not self.is_old:
            return
        if self._edited:
            structure = _structure(armature_object)
            if structure != self._structure or self.problem:
                self._structure = structure
                self._known.clear()
                self.version += 1
                try:
                    self._read(armature_object)
                    self.problem = ""
                except IKError as error:
                    self.tracked, self._sampled, self.problem = (), None, error.message
            else:
                self._find_sources(armature_object)
        self._edited = self._animated = False
        self._unsolvable.clear()
        if self._sampled is None:
            return
        self._pose = raw_channels(armature_object).tobytes()
        still, at, _ = self._sign(armature_object, sorted(self._known))
        gone = {frame for frame, own in at.items() if still != self._still or own != self._at.get(frame)}
        for frame in gone:
            del self._known[frame], at[frame]
        self._still, self._at = still, at
        self._read_keys(armature_object)
        self.version += 1

    def _read(self, armature_object: Object) -> None:
        """Read the bones and what has a trail (IKError: the armature cannot be posed)."""
        armature = read_armature(armature_object)
        skeleton = armature.skeleton
        character, _ = read_character(armature_object, skeleton)
        self.tracked = tuple(_tracked(armature_object)) or tuple(
            Tracked(skeleton.names[joint], skeleton.names[joint])
            for joint in dict.fromkeys(
                [
                    *(joint for joint, _ in limbs_and_hips(armature_object, skeleton)),
                    *(
                        j
                        for f in range(len(character.figures))
                        for j in character.joints_of(Role.HEAD, figure=f)
                    ),
                ]
            )
        )
        data: Any = armature_object.data
        body = [choice.name for choice in character.choices]
        body = body or [bone.name for bone in data.bones if bone.use_deform] or list(skeleton.names)
        bones = tuple(dict.fromkeys([*(own.bone for own in self.tracked), *body]))
        lengths = np.array([data.bones[bone].length for bone in bones])
        targets = tuple(dict.fromkeys(own.target for own in self.tracked if own.target))
        self._sampled = Sampled(armature, bones, lengths, targets)
        self._find_sources(armature_object)

    def _find_sources(self, armature_object: Object) -> None:
        if self._sampled is None:
            return
        objects: Any = bpy.data.objects
        live = settings_of(armature_object).live
        self.why_evaluated = "" if live else moved_by_others(armature_object, self._sampled.bones)
        others = any(object_moved_by_others(objects[name]) for name in self._sampled.targets)
        evaluated = others or bool(self.why_evaluated)
        if (live, evaluated) != (self._live, self.is_evaluated):
            self._live, self.is_evaluated, self._depends_on = live, evaluated, frozenset()
            self._known.clear()

    def _sign(
        self, armature_object: Object, frames: Sequence[int]
    ) -> tuple[bytes, dict[int, bytes], CurveValues]:
        """On what the places at frames depend, and the curves of the armature object there."""
        assert self._sampled is not None
        objects: Any = bpy.data.objects
        times = frame_times(frames)
        owners: dict[Any, None] = {}
        own = [*(objects[name] for name in self._sampled.targets), armature_object]
        if self.is_evaluated:
            own += [obj for obj in bpy.data.objects if obj.session_uid in self._depends_on]
        for obj in own:
            while obj is not None:
                owners.setdefault(obj)
                obj = obj.parent
        still: list[bytes] = []
        values: list[FloatArray] = []
        found: CurveValues = {}
        for obj in owners:
            own_bones = obj == armature_object  # Live begins at their keys
            curves = curve_values(obj, times, whole=own_bones or self.is_evaluated)
            found = curves if own_bones else found
            values += curves.values()
            still.append(repr(sorted(curves)).encode())
            decided = {*curves, *driven_channels(obj), *_in_strips(obj)}
            still += [_unkeyed(obj, decided), np.array(obj.matrix_parent_inverse).tobytes()]
            if own_bones and not self._live:
                still.append(_unkeyed_pose(obj, decided))
            elif own_bones:
                still.append(unkeyed_settings(obj, decided))
        rows = np.stack(values, axis=1) if values else np.zeros((len(times), 0))
        at = {frame: row.tobytes() for frame, row in zip(frames, rows, strict=True)}
        return b"".join(still), at, found

    def _read_keys(self, armature_object: Object) -> None:
        """Read at which frames there are keys of bones, and of the targets that they follow."""
        pose: Any = armature_object.pose
        effectors = settings_of(armature_object).effectors
        by_target: dict[Tracked, set[int]] = {}
        for own in self.tracked:
            target = target_of(effectors[own.effector]) if own.effector >= 0 else None
            curves = {} if target is None else own_curves(target)
            placing = [curve for (path, _), curve in curves.items() if path in PLACED_BY]
            by_target[own] = {frame for curve in placing for frame in _frames_of(curve)}
        by_bone: dict[str, set[int]] = {}
        if not self._live:
            by_bone = _frames_of_bones(armature_object, baked=any(by_target.values()))
        for own, found in by_target.items():
            chain = [own.bone, *(above.name for above in pose.bones[own.bone].parent_recursive)]
            of_bones = () if own.target else (by_bone.get(bone, set()) for bone in chain)
            self._keys[own] = np.array(sorted(found.union(*of_bones)), dtype=np.int64)
        every = set[int]().union(*by_bone.values(), *by_target.values())
        self._pose_keys = np.array(sorted(every), dtype=np.int64)

    # What is known

    def missing(self, frames: Iterable[int]) -> list[int]:
        """Which of some frames are to be sampled."""
        if self._sampled is None:
            return []
        if self._live and not self._sampled.targets:
            return []
        return [frame for frame in frames if frame not in self._known]

    def unsolved(self, frames: range, now: int, count: int) -> list[int]:
        """Which key poses have no ghost yet, of a body that only Live poses, the nearest first.

        Args: as `ghosts`, with all frames from the first to the last.
        """
        if not self._live or self._sampled is None or not self._sampled.targets:
            return []
        chosen = self._ghost_frames(frames[0], frames[-1], now, count)
        missing = [f for f in chosen if f not in self._unsolvable and not self._has_body(f)]
        return sorted(missing, key=lambda frame: abs(frame - now))

    def solve(self, frame: int) -> None:
        """Solve a key pose as Live would; where it cannot be, not again before something changes."""
        armature_object = self._object()
        self.refresh()
        if armature_object is None or self._sampled is None or (known := self._known.get(frame)) is None:
            return
        if not is_solvable(armature_object, self._sampled.bones):
            self._unsolvable.add(frame)
            return
        try:
            bones = solve_at(armature_object, self._sampled, frame)
        except IKError:  # Live says so, too, when the frame is shown
            self._unsolvable.add(frame)
            return
        self._known[frame] = Ends(bones, known.targets)
        self.version += 1

    def _has_body(self, frame: int) -> bool:
        """Whether it is known where the bones are; true where the frame is to be sampled first."""
        known = self._known.get(frame)
        return known is None or bool(np.isfinite(known.bones).all())

    def fill(self, frames: Sequence[int], now: int) -> None:
        """Sample some of the frames that are not known, those nearest to the present one first."""
        armature_object = self._object()
        self.refresh()
        if armature_object is None or self._sampled is None:
            return
        missing = sorted(self.missing(frames), key=lambda frame: abs(frame - now))
        chosen = sorted(missing[: EVALUATED_AT_ONCE if self.is_evaluated else AT_ONCE])
        if not chosen:
            return
        still, at, curves = self._sign(armature_object, chosen)
        for frame, own in zip(chosen, self._sample(armature_object, chosen, curves), strict=True):
            self._known[frame] = own
        if self.is_evaluated:
            still, at, _ = self._sign(armature_object, chosen)  # what it depends on is known now
        self._still = still
        self._at |= at
        self.version += 1

    def _sample(self, armature_object: Object, frames: list[int], curves: CurveValues) -> list[Ends]:
        assert self._sampled is not None
        sampled = self._sampled
        if self._live:
            sampled = Sampled(sampled.armature, (), np.zeros(0), sampled.targets)
        if self.is_evaluated:
            found, blocks = sample_evaluated(armature_object, sampled, frames)
            self._depends_on |= blocks
        else:
            found = sample_keys(armature_object, sampled, frames, curves)
        bones = found.bones
        if self._live:
            bones = np.full((len(frames), len(self._sampled.bones), 2, 3), np.nan)
        return [Ends(bones[row], found.targets[row]) for row in range(len(frames))]

    def note_shown(self, depsgraph: Depsgraph, frame: int) -> None:
        """Note where Blender shows bones at the present frame, if that is the only way to know."""
        armature_object = self._object()
        if not self._live or self._sampled is None or armature_object is None:
            return
        shown = self._sampled.shown(armature_object, depsgraph)
        known = self._known.get(frame)
        if known is None and self._sampled.targets:
            return  # when the targets are
        if known is None or not np.array_equal(known.bones, shown.bones[0]):
            self._known[frame] = Ends(shown.bones[0], shown.targets[0] if known is None else known.targets)
            self._at.setdefault(frame, b"")
            self.version += 1

    # What is drawn

    def body_at(self, frame: int) -> FloatArray | None:
        """Heads and tails of the body's bones at a frame, (b, 2, 3) [m]; None where that is not known."""
        known = self._known.get(frame)
        return None if known is None else known.bones

    def trails(self, first: int, last: int) -> list[Trail]:
        """Trails from one frame to another, as far as they are known."""
        frames = np.array([f for f in range(first, last + 1) if f in self._known], dtype=np.int64)
        if self._sampled is None or not len(frames):
            return []
        known = [self._known[frame] for frame in frames.tolist()]
        bones = np.stack([own.bones[:, 0] for own in known])
        targets = np.stack([own.targets for own in known])
        found: list[Trail] = []
        for own in self.tracked:
            if own.target:
                places = targets[:, self._sampled.targets.index(own.target)]
            else:
                places = bones[:, self._sampled.bones.index(own.bone)]
            here = np.isfinite(places).all(axis=1)
            keyed = np.isin(frames, self._keys.get(own, ()))
            found.append(Trail(own, frames[here], places[here], keyed[here]))
        return found

    def ghosts(self, first: int, last: int, now: int, count: int) -> list[Ghost]:
        """Ghosts of the key poses nearest to the present frame, so many on each side, as far as known."""
        chosen = self._ghost_frames(first, last, now, count)
        known = [(frame, self._known[frame].bones) for frame in chosen if frame in self._known]
        return [Ghost(frame, bones) for frame, bones in known if np.isfinite(bones).all()]

    def _ghost_frames(self, first: int, last: int, now: int, count: int) -> list[int]:
        keys = self._pose_keys[(self._pose_keys >= first) & (self._pose_keys <= last)]
        before, after = keys[keys < now], keys[keys > now]
        return [*before[len(before) - min(count, len(before)) :].tolist(), *after[:count].tolist()]


def _tracked(armature_object: Object) -> Iterable[Tracked]:
    """Give what has a trail by the effectors: each bone that is to be at a place, once."""
    settings, seen = settings_of(armature_object), set[str]()
    data: Any = armature_object.data
    for row, entry in enumerate(settings.effectors):
        placed = KINDS[entry.kind].pinnable and asked_of(entry).position
        if not placed or entry.bone not in data.bones or entry.bone in seen:
            continue
        seen.add(entry.bone)
        target = target_of(entry)
        reaches = settings.live and entry.enabled and entry.state == 'REACH'
        own = target.name if reaches and target is not None and not entry.target_bone else ""
        yield Tracked(label_of(entry), entry.bone, row, own)


def _structure(armature_object: Object) -> tuple[Any, ...]:
    """What has a trail depends on this."""
    settings = settings_of(armature_object)
    data: Any = armature_object.data
    pose: Any = armature_object.pose
    modes = np.empty(len(pose.bones) if pose else 0, dtype=np.int32)
    if len(modes):
        pose.bones.foreach_get("rotation_mode", modes)
    rest = np.empty((len(data.bones), 16), dtype=np.float32)
    data.bones.foreach_get("matrix_local", rest.reshape(-1))
    return (
        settings.live,
        data.session_uid,
        data.is_editmode,
        data.pose_position,
        tuple(data.bones.keys()),
        modes.tobytes(),
        rest.tobytes(),
        tuple((row.bone, row.role) for row in settings.roles),
        tuple(_tracked(armature_object)),
    )


def _frames_of(curve: Any) -> list[int]:
    """Whole frames of the scene nearest to the keys of a curve.

    A key between two others in the frames beside it, as in a bake or a recording, is no pose that was chosen.
    """
    frames = np.unique(np.round(frames_at(key_frames(curve))).astype(np.int64))
    between = np.isin(frames - 1, frames) & np.isin(frames + 1, frames)
    return frames[~between].tolist()


def _frames_of_bones(armature_object: Object, *, baked: bool) -> dict[str, set[int]]:
    """Whole frames at which bones have keys, by bone.

    Args:
        baked: Whether targets have keys: those of bones that a bake has written are no poses then.
    """
    pose: Any = armature_object.pose
    bone_of = {bone_path(bone.name, ""): bone.name for bone in pose.bones}
    frames = {channel: _frames_of(curve) for channel, curve in own_curves(armature_object).items()}
    if baked:
        # Those of a key in each frame are soon known.
        sparse = [channel for channel, own in frames.items() if len(own) > 2]
        counts = foreign_keys(armature_object, sparse, EVER)
        frames = {channel: frames[channel] for channel, count in zip(sparse, counts, strict=True) if count}
    found: dict[str, set[int]] = {}
    for (path, _), own in frames.items():
        if (bone := bone_of.get(path[: path.rfind(".") + 1])) is not None:
            found.setdefault(bone, set()).update(own)
    return found


def _in_strips(obj: Any) -> Iterator[Channel]:
    """Give the channels that NLA strips of an object play."""
    for strip in nla_strips(obj):
        yield from own_curves(obj, strip.name)


def _unkeyed(obj: Any, decided: Collection[Channel]) -> bytes:
    """Values of an object's place that nothing decides but the user."""
    values = [
        value
        for path in sorted(PLACED_BY)
        for index, value in enumerate(getattr(obj, path))
        if (path, index) not in decided
    ]
    return np.array(values).tobytes() + obj.rotation_mode.encode()


def _unkeyed_pose(armature_object: Any, decided: Iterable[Channel]) -> bytes:
    """Channels of bones that nothing decides but the user."""
    channels, names = raw_channels(armature_object), armature_object.pose.bones.keys()
    rows = {bpy.utils.escape_identifier(name): row for row, name in enumerate(names)}
    for path, index in decided:
        bone, _, name = path.removeprefix('pose.bones["').rpartition('"].')
        width = 4 if name in FOUR_COMPONENTS else 3
        if bone in rows and name in FIRST and index < width:
            channels[rows[bone], FIRST[name] + index] = 0.0
    return channels.tobytes()

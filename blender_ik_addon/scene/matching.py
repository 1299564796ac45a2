# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets brought to the bones that follow them, on one frame or on many, and keyed.

After that a solve moves nothing: each target is where its effector asks for nothing. Targets that cannot be
moved or keyed are left out, with the reason; if none is left, an `IKError` says so and nothing is changed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ..core import IKError
from ..core.arrays import FloatArray
from .animation.fcurves import (
    ChannelKeys,
    check_keyable,
    driven_channels,
    is_locked,
    own_curves,
    rotation_channel,
    write_keys,
)
from .armature.armature import read_armature
from .armature.restoring import (
    ActionSnapshot,
    PlayedSnapshot,
    PoseSnapshot,
    restore_frame,
    set_up_restored_on_error,
)
from .bake_frames import checked_frames
from .character.preferring import beyond_limits, prefer_present_pose
from .effectors.effectors import check_present, label_of, lacks_target, target_of
from .effectors.entries import match_target
from .effectors.transforms import depth, rotation_of, set_rotation
from .kinds.kinds import KINDS
from .live.following import held
from .properties.settings import settings_of
from .reports import counted, listed, sentences
from .rig.keying import GROUP, auto_key_options, auto_keying, key_object, key_options

_PLACED: Final = ("location", "rotation_euler", "rotation_quaternion", "rotation_axis_angle")


@dataclass(frozen=True)
class MatchReport:
    """Which targets were brought to their bones, or keyed."""

    effectors: tuple[str, ...]
    """Names of their effectors."""
    keyed_frames: int = 0
    """On how many frames they were keyed."""
    notes: tuple[str, ...] = ()
    """Which others stay as they are, why, and what to do, one sentence each."""

    def summary(self) -> str:
        """What was done, for the status bar."""
        done = f"{counted(len(self.effectors), 'target')} brought to the bones"
        if self.keyed_frames:
            done = f"{counted(len(self.effectors), 'target')} keyed on {counted(self.keyed_frames, 'frame')}"
        return sentences(done, *self.notes)


def snap_targets(
    armature_object: Object,
    effectors: Iterable[int] | None = None,
    *,
    frames: Iterable[int] | None = None,
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
    rows, notes = _able(armature_object, effectors, moved=True, keyed=numbers is not None)
    entries: Any = settings_of(armature_object).effectors
    rows.sort(key=lambda row: depth(entries[row].target))  # children go where their parents go
    names = tuple(label_of(entries[row], row) for row in rows)
    with held(armature_object), _put_back_on_error(armature_object, rows):
        if numbers is not None:
            _key_frames(armature_object, rows, numbers)
            return MatchReport(names, len(numbers), notes)
        for row in rows:
            match_target(armature_object, row)
        bones = _moving(armature_object, rows)
        prefer_present_pose(armature_object, bones)
        if outside := beyond_limits(armature_object, bones):
            notes += (f"these bones are beyond their limits, a solve turns them back: {listed(outside)}",)
        if auto_keying():
            for row in rows:
                moved, turned = _channels(entries[row])
                key_object(entries[row].target, auto_key_options(), moved=moved, turned=turned)
    return MatchReport(names, notes=notes)


def key_targets(armature_object: Object, effectors: Iterable[int] | None = None) -> MatchReport:
    """Key targets where they are, on the present frame, as Blender's settings say.

    Args:
        effectors: Places in the list of those that are meant; all for None.

    Raises:
        IKError: No target can be keyed; everything is as before then.
    """
    check_present(armature_object)
    rows, notes = _able(armature_object, effectors, moved=False, keyed=True)
    entries: Any = settings_of(armature_object).effectors
    with _put_back_on_error(armature_object, rows):
        for row in rows:
            moved, turned = _channels(entries[row])
            key_object(entries[row].target, key_options(), moved=moved, turned=turned)
    return MatchReport(tuple(label_of(entries[row], row) for row in rows), 1, notes)


def _moving(armature_object: Object, rows: Sequence[int]) -> list[str]:
    """The bones that move for some effectors: theirs and those above, but for those that are held."""
    entries: Any = settings_of(armature_object).effectors
    skeleton = read_armature(armature_object).skeleton
    names = [entries[row].bone for row in rows if entries[row].bone in skeleton.names]
    joints = sorted({joint for name in names for joint in skeleton.ancestors(skeleton.index(name))})
    return [skeleton.names[joint] for joint in joints if skeleton.free[joint].any()]


def _channels(entry: Any) -> tuple[bool, bool]:
    """Whether the target of an effector counts by its place, and by its orientation."""
    kind = KINDS[entry.kind]
    if kind.pinnable:
        return kind.position, kind.orientation
    return True, kind.of_surroundings


def _paths(entry: Any) -> list[str]:
    """The properties of the target of an effector by which it counts."""
    places, turns = _channels(entry)
    return ["location"] * places + [rotation_channel(entry.target.rotation_mode)[0]] * turns


def _able(
    armature_object: Object, effectors: Iterable[int] | None, *, moved: bool, keyed: bool
) -> tuple[list[int], tuple[str, ...]]:
    """Which effectors have a target that can be moved or keyed, and why others have none.

    Raises:
        IKError: There is none.
    """
    entries: Any = settings_of(armature_object).effectors
    every = range(len(entries))
    meant = list(every) if effectors is None else list(dict.fromkeys(effectors))
    if outside := [row for row in meant if row not in every]:
        raise IKError(f"{armature_object.name!r} has {len(entries)} effectors, there is none at {outside[0]}")
    able, notes = list[int](), list[str]()
    for row in meant:
        entry, kind = entries[row], KINDS[entries[row].kind]
        apart = moved and (kind.of_surroundings or kind.several)
        needless = target_of(entry) is None and not lacks_target(entry)
        if effectors is None and (needless or apart):
            continue
        why = _obstacle(armature_object, entry, moved=moved, keyed=keyed)
        if (
            not why
            and moved
            and (other := next((e for e in able if entries[e].target == entry.target), None))
        ):
            shared = label_of(entries[other], other)
            why = f"{shared} has the same target, {entry.target.name!r}; give each one of its own"
        if why:
            notes.append(f"{label_of(entry, row)}: {why}")
        else:
            able.append(row)
    if not able:
        raise IKError(
            ". ".join(notes)
            or f"no effector of {armature_object.name!r} has a target: Make Targets gives them some"
        )
    return able, tuple(notes)


def _obstacle(armature_object: Object, entry: Any, *, moved: bool, keyed: bool) -> str:
    """Say what keeps a target from being moved or keyed, and what to do; empty if nothing does."""
    target: Any = target_of(entry)
    kind = KINDS[entry.kind]
    if target is None:
        return "it has no target; Make Targets gives it one"
    if entry.target_bone:
        return f"its target is a bone of {target.name!r}; pose that bone"
    name = f"its target {target.name!r}"
    if target == armature_object:
        return f"{name} is the armature itself; choose another object, or make an empty"
    if not target.is_editable:
        return f"{name} is linked from another file; make a library override of it, or make it local"
    if moved and kind.of_surroundings:
        return f"{name} is part of the surroundings; move it by hand"
    if moved and kind.several:
        return "one of its targets is enough; move them by hand"
    (places, turns), paths = _channels(entry), _paths(entry)
    if moved:
        view_layer: Any = bpy.context.view_layer
        if view_layer.objects.get(target.name) != target or not _is_enabled(target):
            return f"{name} is not in this view layer, or disabled in viewports; enable it and its collection"
        if not target.visible_get(view_layer=view_layer):
            return f"{name} is hidden; show it (Alt H) first"
        constraints = [c.name for c in target.constraints if not c.mute and c.influence > 0.0]
        if constraints:
            return f"{name} has constraints ({', '.join(constraints)}); disable or apply them"
        if (places and any(target.lock_location)) or (turns and any(target.lock_rotation)):
            return f"{name} is locked; unlock its location and rotation in the sidebar (N, tab Item)"
    if any(path in paths for path, _ in driven_channels(target)):
        return f"{name} is moved by drivers; remove these"
    locked = [path for (path, _), curve in own_curves(target).items() if path in paths and is_locked(curve)]
    if keyed and locked:
        return f"F-curves of {name[4:]} are locked; unlock them in the Graph Editor"
    if keyed:
        try:
            check_keyable(target)
        except IKError as error:
            return str(error)
    return ""


def _is_enabled(target: Object) -> bool:
    """Whether an object is shown in viewports, or would be if it were not hidden with H."""
    return target in {instance.original for instance in bpy.context.evaluated_depsgraph_get().ids}


def _key_frames(armature_object: Object, rows: Sequence[int], frames: Sequence[int]) -> None:
    """Key targets at their bones on some frames; frame, pose and whatever else is played are put back."""
    scene, view_layer = bpy.context.scene, bpy.context.view_layer
    entries: Any = settings_of(armature_object).effectors
    targets = {row: entries[row].target for row in rows}
    played = PlayedSnapshot.take(view_layer, armature_object)
    own = {target.session_uid for target in targets.values()}
    others = PlayedSnapshot({key: value for key, value in played.values.items() if key[0] not in own})
    with ExitStack() as undo:
        undo.callback(PoseSnapshot.take(armature_object).restore, armature_object)
        undo.callback(others.restore)
        undo.callback(view_layer.update)
        undo.callback(restore_frame, scene, scene.frame_current + scene.frame_subframe)
        found: dict[int, list[Mapping[str, FloatArray]]] = {row: [] for row in rows}
        for frame in frames:
            scene.frame_set(frame)
            for row, target in targets.items():
                match_target(armature_object, row, holds=False)
                if found[row]:  # angles go on from the frame before, whatever was played
                    path = rotation_channel(target.rotation_mode)[0]
                    set_rotation(target, rotation_of(target), near=found[row][-1][path].tolist())
                found[row].append({path: np.array(getattr(target, path)) for path in _PLACED})
        for row, target in targets.items():
            keys = [
                ChannelKeys(path, index, values, GROUP)
                for path in _paths(entries[row])
                for index, values in enumerate(np.array([now[path] for now in found[row]]).T)
            ]
            write_keys(target, np.array(frames, dtype=np.float64), keys)
        if scene.frame_current + scene.frame_subframe in frames:
            scene.frame_set(scene.frame_current, subframe=scene.frame_subframe)


@contextmanager
def _put_back_on_error(armature_object: Object, rows: Sequence[int]) -> Iterator[None]:
    """Put targets, their keys, settings and pose back when anything raises inside."""
    entries: Any = settings_of(armature_object).effectors
    targets = [entries[row].target for row in rows]
    values = [(target, name, tuple(getattr(target, name))) for target in targets for name in _PLACED]
    actions = [ActionSnapshot.take(target) for target in targets]
    with set_up_restored_on_error(armature_object):
        try:
            yield
        except BaseException:
            for action in actions:
                action.restore()
            bpy.context.view_layer.update()
            for target, name, value in values:
                setattr(target, name, value)
            raise

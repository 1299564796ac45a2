# SPDX-License-Identifier: GPL-3.0-or-later
"""A point of a trail that is moved: at its frame, with a key there.

The scene goes to the frame of the point. What the trail is of is moved: the target, and the body follows as
Live is on; or the bone, and the body follows as by Drag. Moving the whole pose moves all targets, or else the
roots of the skeleton with the targets of the effectors. Keys are set as it is moved, so that the trail shows
at any moment what will play. Cancelling puts back actions, values and frame, exactly.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import bpy
import numpy as np
from bpy.types import Object

from ...core import IKError
from ...core.arrays import FloatArray
from ...core.messages import Message, listed
from ...core.model.kinematics import parent_transform
from ..animation.fcurves import animated_channels, bone_path, check_keyable
from ..armature.armature import check_armature, read_armature, world_from_armature
from ..armature.restoring import (
    ActionSnapshot,
    GroupSnapshot,
    PlayedSnapshot,
    ValuesSnapshot,
    block_with_uid,
    undone_on_error,
)
from ..effectors.effectors import label_of, targets_of
from ..effectors.transforms import rides, world_from_basis
from ..kinds.kinds import KINDS
from ..live.drag_anchors import DragError, DragReport, checked_goal, dragged_object
from ..live.dragging import Drag
from ..live.following import held
from ..live.machine import LIVE
from ..matching.snapping import obstacle_of
from ..properties.settings import settings_of
from ..rig.keying import key_bones, key_object, key_options
from .trails import Tracked


class Visit:
    """The scene at another frame, and all that may be changed there, which can be put back."""

    def __init__(self, armature_object: Object, frame: int) -> None:
        """Go to the frame (IKError: the armature cannot be posed or keyed; nothing is changed then)."""
        check_armature(armature_object)
        check_keyable(armature_object)
        scene = bpy.context.scene
        self._uid = armature_object.session_uid
        self._settings = GroupSnapshot(settings_of(armature_object))
        self._played = PlayedSnapshot(armature_object)
        targets = [t for t in targets_of(armature_object) if t != armature_object and t.is_editable]
        self._actions = [ActionSnapshot.take(owner) for owner in (armature_object, *targets)]
        self._placed = ValuesSnapshot.placing(targets)
        if scene.frame_current != frame or scene.frame_subframe:
            scene.frame_set(frame)
        bpy.context.view_layer.update()

    def restore(self) -> None:
        """Put actions, values, frame and pose back."""
        armature_object, view_layer = block_with_uid(bpy.data.objects, self._uid), bpy.context.view_layer
        if armature_object is None:
            return
        with ExitStack() as undo:
            # In reverse: setting the frame plays over values without keys.
            undo.enter_context(held(armature_object))
            undo.callback(lambda: self._settings.restore(settings_of(armature_object)))
            undo.callback(view_layer.update)
            undo.callback(self._placed.restore)
            undo.callback(self._played.restore)
            for action in self._actions:
                undo.callback(action.restore)
        LIVE.bodies.pop(self._uid, None)


class BoneAtFrame(Drag):
    """A bone that is dragged at a frame; the keys of what has moved go along."""

    def __init__(self, armature_object: Object, bone: str, frame: int) -> None:
        """Go to the frame and grab the bone by its head (IKError: as `Drag`; nothing is changed then)."""
        self._visit = Visit(armature_object, frame)
        self._moved: dict[str, None] = {}
        """Names of the bones that have moved and have keys."""
        with undone_on_error() as undo:
            undo.callback(self._visit.restore)
            super().__init__(armature_object, bone)

    def again(self, *, smoothly: bool = False) -> DragReport:
        """Go on towards the same place, and key what has moved."""
        report = super().again(smoothly=smoothly)
        self._moved.update(dict.fromkeys(self.changed()))
        key_bones(self.object(), self._armature, self._moved, key_options())
        return report

    def confirm(self, *, always_key: bool = True) -> DragReport:
        """Let the pose settle, and key bones and the targets that come along."""
        return super().confirm(always_key=always_key)

    def cancel(self) -> None:
        """Put everything back exactly, the frame too."""
        super().cancel()
        self._visit.restore()


@dataclass(frozen=True)
class _Along:
    """What goes along: an object, or a bone without a parent."""

    key: Any
    """Name of the bone, or session uid of the object."""
    start: FloatArray
    """Its location, (3,)."""
    world_from_own: FloatArray
    """Ways of its location as ways in the world, (3, 3)."""

    def after(self, way: FloatArray) -> list[float]:
        """Return its location after a way in the world, (3,) [m]."""
        return (self.start + np.linalg.solve(self.world_from_own, way)).tolist()


class TargetsAtFrame:
    """Targets, and roots of a skeleton, that are moved at a frame all by the same way; with keys.

    It is moved as `Drag` is.
    """

    keeps_orientation = True
    priority = 0
    rests = True

    def __init__(self, armature_object: Object, tracked: Tracked, frame: int, *, whole: bool = False) -> None:
        """Go to the frame; nothing is moved yet.

        Args:
            tracked: What the trail is of.
            whole: Whether the whole pose is moved.

        Raises:
            IKError: A target or a root cannot be moved or keyed; nothing is changed then.
        """
        self.bone = tracked.name
        live = settings_of(armature_object).live
        rows = [tracked.effector] if tracked.target and not whole else list(_rows(armature_object))
        entries: Any = settings_of(armature_object).effectors
        for row in rows:
            if why := obstacle_of(armature_object, entries[row], moved=True, keyed=True):
                raise IKError("{entries}: {why}", entries=label_of(entries[row]), why=why)
        if whole and live and not rows:
            raise IKError(
                "no target of {armature!r} can be moved: switch Live off to move the bones",
                armature=armature_object.name,
            )
        self._visit = Visit(armature_object, frame)
        with undone_on_error() as undo:
            undo.callback(self._visit.restore)
            self._uid = armature_object.session_uid
            targets = list(dict.fromkeys(entries[row].target for row in rows))
            self._targets = [
                _Along(target.session_uid, np.array(target.location), world_from_basis(target)[:3, :3])
                for target in targets
                if not any(rides(target, other) for other in targets)
            ]
            self._armature = read_armature(armature_object)
            self._roots = [] if tracked.target or live else list(self._roots_of(armature_object))
            self._start = self._place_of(armature_object, tracked)
            self._still = self._without_keys(armature_object, targets)
        self.goal = self._start
        """Where the point should be, in the world, (3,) [m]."""
        self.report = DragReport(DragError(self.bone, 0.0, None, True, True))
        """What the last movement came to."""

    @property
    def place(self) -> FloatArray:
        """Where the point is, in the world, (3,) [m]."""
        return self.goal

    @property
    def world_from_bone(self) -> FloatArray:
        """Its own axes: those of the world, (3, 3)."""
        return np.eye(3)

    def object(self) -> Object:
        """The armature object; an IKError where it is gone."""
        return dragged_object(self._uid)

    def _place_of(self, armature_object: Object, tracked: Tracked) -> FloatArray:
        depsgraph = bpy.context.evaluated_depsgraph_get()
        if tracked.target:
            target = bpy.data.objects[tracked.target].evaluated_get(depsgraph)
            return np.array(target.matrix_world.translation, dtype=np.float64)
        posed: Any = armature_object.evaluated_get(depsgraph)
        return np.array(posed.matrix_world @ posed.pose.bones[tracked.bone].head, dtype=np.float64)

    def _without_keys(self, armature_object: Object, targets: Sequence[Object]) -> list[str]:
        """Names of what goes along and has no keys of its location yet."""
        keyed = {path for path, _ in animated_channels(armature_object)}
        roots = [own.key for own in self._roots if bone_path(own.key, "location") not in keyed]
        uids = {own.key for own in self._targets}
        moved = [target for target in targets if target.session_uid in uids]
        first = [own.name for own in moved if ("location", 0) not in animated_channels(own)]
        return roots + (first if not self._roots else [])

    def _roots_of(self, armature_object: Object) -> Iterator[_Along]:
        """Give the roots of the skeleton that bones hang on."""
        skeleton, pose = self._armature.skeleton, armature_object.pose
        matrix, _ = world_from_armature(armature_object.evaluated_get(bpy.context.evaluated_depsgraph_get()))
        parents = set(skeleton.parents.tolist())
        roots = [joint for joint in np.flatnonzero(skeleton.parents < 0).tolist() if joint in parents]
        for joint in roots or np.flatnonzero(skeleton.parents < 0).tolist():
            name = skeleton.names[joint]
            if not self._armature.written[joint, :3].all():
                raise IKError(
                    "the whole pose cannot be moved: the location of {name!r} is locked, or constraints or "
                    "drivers move it. Free it, or drag points alone",
                    name=name,
                )
            linear = parent_transform(skeleton, joint, None).translation
            assert pose is not None
            yield _Along(name, np.array(pose.bones[name].location), matrix[:3, :3] @ linear)

    def move(self, world_point: Sequence[float] | FloatArray, *, smoothly: bool = False) -> DragReport:
        """Move all by as much as brings the point to a place in the world (3,) [m], and key it."""
        self.goal = checked_goal(self.bone, world_point)
        return self.again(smoothly=smoothly)

    def again(self, *, smoothly: bool = False) -> DragReport:
        """Move all to where they should be, and key it."""
        armature_object, way = self.object(), self.goal - self._start
        bones: Any = armature_object.pose.bones if armature_object.pose else {}
        options = key_options()
        for root in self._roots:
            bones[root.key].location = root.after(way)
        key_bones(armature_object, self._armature, [root.key for root in self._roots], options)
        for own in self._targets:
            target = block_with_uid(bpy.data.objects, own.key)
            if target is None:
                raise IKError("a target that was dragged is gone: cancel the drag")
            target.location = own.after(way)
            if not self._roots or animated_channels(target):  # else it only stays with its bone
                key_object(target, options, moved=True, turned=False)
        return self.report

    def pin(self, bone: str) -> bool:
        """No bone is pinned for this drag (IKError)."""
        raise IKError("bones are pinned for a drag of a bone: this one moves targets")

    def keep_orientation(self, keeps: bool) -> None:
        """What is moved keeps its orientation in any case."""

    def confirm(self) -> DragReport:
        """Say what had no keys before: it has its keys already."""
        if self._still:
            note = Message("the first keys of {still}, so all frames are moved", still=listed(self._still))
            self.report = replace(self.report, notes=(note,))
        return self.report

    def cancel(self) -> None:
        """Put everything back exactly, the frame too."""
        self._visit.restore()


def _rows(armature_object: Object) -> Iterator[int]:
    """Give the effectors whose targets go with the whole pose.

    What is pinned stays where it is, and what follows comes anyway.
    """
    for row, entry in enumerate(settings_of(armature_object).effectors):
        if KINDS[entry.kind].pinnable and entry.target is not None and entry.state == 'REACH':
            yield row


AtFrame = BoneAtFrame | TargetsAtFrame


def grab(armature_object: Object, tracked: Tracked, frame: int, *, whole: bool = False) -> AtFrame:
    """Begin to move a point of a trail, or the whole pose at its frame (IKError: it cannot be moved)."""
    if tracked.target or whole:
        return TargetsAtFrame(armature_object, tracked, frame, whole=whole)
    return BoneAtFrame(armature_object, tracked.bone, frame)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects moved by their own channels, without the rounding of matrices, and targets that go along.

Targets go where the armature object goes as its children: moving it moves the whole character. They are
parented to the object and to no bone, so they do not depend on the pose that follows them. Their channels go
on meaning places in the world as long as the object stays where it was when they were attached.

Targets come along when a bone has been dragged: its own and that of hips, and what hangs on them. What a drag
moves on purpose, or what may give way to it, has to take its target along, or the next solve would take the
pose back. Children of such a target go with it, and their bones are held against where they will be then.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import bpy
import numpy as np
from bpy.types import Object

from ...core import IKError, ReachPoint, Task
from ...core.amounts import number_of_targets
from ...core.arrays import FloatArray
from ...core.messages import Message, sentences
from ...core.tasks.frames import ReachCarried
from ..animation.dependence import place_depends_on
from ..animation.fcurves import is_moved
from ..armature.armature import check_armature
from ..armature.rotation_modes import rotation_of, set_rotation
from ..kinds.frame_data import NO_SCALE, orientations, orthogonal, points_of
from ..kinds.kinds import KINDS, Effector, asked_of
from ..properties.settings import armatures_in, settings_of
from .effectors import (
    UNMOVED,
    all_targets,
    has_own_place,
    keep_keyed_targets,
    note_place,
    target_of,
    targets_of,
)
from .feet import unrolled
from .rests import placed_now


def world_from_basis(target: Any) -> FloatArray:
    """Return world_from_basis of an object, (4, 4): what its own channels are added to.

    From the channels of its parents, where these are plain objects: in double precision, and up to date.
    """
    if target.parent is None:
        return np.eye(4)
    if target.parent_type != 'OBJECT':
        return np.array(target.matrix_world) @ np.linalg.inv(np.array(target.matrix_basis))
    return world_matrix(target.parent) @ np.array(target.matrix_parent_inverse, dtype=np.float64)


def world_matrix(target: Any) -> FloatArray:
    """Return world_from_object, (4, 4)."""
    animation = target.animation_data
    # What is keyed is in the channels too; what is driven, or played from strips, is so only once evaluated.
    if target.constraints or (
        animation is not None and (len(animation.drivers) or len(animation.nla_tracks))
    ):
        return np.array(target.matrix_world, dtype=np.float64)
    basis = np.eye(4)
    basis[:3, :3] = rotation_of(target) * np.array(target.scale)
    basis[:3, 3] = target.location
    return world_from_basis(target) @ basis


def depth(target: Any) -> int:
    """Return how many parents an object has."""
    return 0 if target.parent is None else 1 + depth(target.parent)


def rides(obj: Any, carrier: Any) -> bool:
    """Whether an object is a child of another, or a child's child, by plain parents without constraints."""
    while obj.parent is not None and obj.parent_type == 'OBJECT' and not obj.constraints:
        if obj.parent == carrier:
            return True
        obj = obj.parent
    return False


def put(target: Any, place: FloatArray, turn: FloatArray) -> None:
    """Move an object by its own channels, not by way of its matrix, whose angles are rounded."""
    above = world_from_basis(target)
    linear = orthogonal(above)
    target.location = np.linalg.solve(above[:3, :3], place - above[:3, 3]).tolist()
    set_rotation(target, linear.T @ turn)


# Targets that go with the armature object


@dataclass(frozen=True)
class AttachReport:
    """Report of attaching targets to their armature object."""

    attached: tuple[str, ...]
    """Names of the targets."""
    notes: tuple[str, ...]
    """Which others stay as they are, and why."""

    def summary(self) -> str:
        """Return how many targets were attached, for the status bar."""
        done = Message("{targets} attached", targets=number_of_targets(len(self.attached)))
        return sentences(done if self.attached else Message("nothing was attached"), *self.notes)


def attach(target: Any, armature_object: Object) -> None:
    """Parent a target that has no parent to the armature object; it stays where it is in the world.

    Raises:
        IKError: The armature object is scaled to nothing, or its place is not a number.
    """
    matrix = world_matrix(armature_object)
    if not np.isfinite(matrix).all() or np.linalg.norm(matrix[:3, :3], axis=0).min() <= NO_SCALE:
        raise IKError(
            "nothing can be attached to {name!r}: it is scaled to nothing, or its place is not a number. "
            "Look at its scale, drivers and constraints, and those of its parents",
            name=armature_object.name,
        )
    inverse = np.linalg.inv(matrix)
    target.parent = armature_object
    target.matrix_parent_inverse = inverse.T.tolist()


def goes_along(armature_object: Object) -> bool:
    """Whether targets of an armature object go where it goes, as Set-up makes them."""
    return any(rides(target, armature_object) for target in targets_of(armature_object))


def staying_behind(armature_object: Object) -> tuple[Object, ...]:
    """Return the empties that stay where they are when the armature object is moved, each once.

    What has a parent, or is no empty, is taken to be where somebody wants it; so are targets of the kinds
    that are about the surroundings.
    """
    entries = settings_of(armature_object).effectors
    targets = (
        target for entry in entries if not asked_of(entry).of_surroundings for target in all_targets(entry)
    )
    return tuple(dict.fromkeys(t for t in targets if t.type == 'EMPTY' and t.parent is None))


def attach_targets(armature_object: Object) -> AttachReport:
    """Parent free targets to the armature object; they stay where they are now.

    Raises:
        IKError: The armature object cannot be posed, or is scaled to nothing.
    """
    check_armature(armature_object)
    bpy.context.view_layer.update()
    of_others = {
        target
        for other in armatures_in(bpy.data.objects)
        if other != armature_object
        for target in targets_of(other)
    }
    attached, notes = list[str](), list[str]()
    for target in staying_behind(armature_object):
        why = ""
        if not target.is_editable:
            why = Message("it is linked from another file")
        elif target in of_others:
            why = Message("another armature follows it, too")
        elif target.constraints:
            why = Message("it has constraints")
        elif is_moved(target) and is_moved(armature_object):
            why = Message("both it and the armature are animated, so its keys would mean other places")
        elif place_depends_on(armature_object, target):
            why = Message("the armature goes where it goes")
        if why:
            notes.append(Message("{target!r} stays as it is: {why}", target=target.name, why=why))
        else:
            attach(target, armature_object)
            attached.append(target.name)
    keep_keyed_targets(armature_object)
    return AttachReport(tuple(attached), tuple(notes))


# Targets that come along in a drag


def coming_along(
    armature_object: Object, effectors: Sequence[Effector], dragged: str, giving_way: Collection[str]
) -> tuple[Effector, ...]:
    """Return the effectors whose targets are brought to their bones, those on which others hang first.

    These are the dragged bone's own, and those of bones that give way to it and reach for their target; both
    by their names.
    """
    found = {
        effector: target
        for effector in effectors
        if effector.goal.pinnable
        and (effector.bone == dragged or (effector.bone in giving_way and effector.state == 'REACH'))
        and (target := movable_target(armature_object, effector)) is not None
    }
    return tuple(sorted(found, key=lambda effector: depth(found[effector])))


def carriers(
    armature_object: Object, effectors: Sequence[Effector], coming: Sequence[Effector]
) -> dict[int, Effector]:
    """Return which effector carries the target of another, by its index; those on which others hang first."""
    entries = settings_of(armature_object).effectors
    moved = {entries[effector.index].target: effector for effector in coming}
    found: dict[int, Effector] = {}
    for effector in effectors:
        target = entries[effector.index].target
        if effector in coming or effector.state != 'REACH':
            continue
        while target is not None and target.parent not in moved:
            target = target.parent
        if target is not None:
            found[effector.index] = moved[target.parent]
    return dict(sorted(found.items(), key=lambda pair: depth(entries[pair[0]].target)))


def carried_task(task: Task, carrier: Effector, carrier_from: FloatArray) -> Task:
    """A task whose target goes with the point of a carrier, from where that was (3,) [m].

    Orientations and others stay. They do not turn with the carrier: hips turn as they come, and what would
    turn with them would leave nothing to turn them back. So do places of the carrier itself.
    """
    if not isinstance(task, ReachPoint) or not carrier.position or task.joint == carrier.bone:
        return task
    return ReachCarried(
        **{field.name: getattr(task, field.name) for field in fields(task)},
        carrier=carrier.bone,
        carrier_point=np.array(carrier.point, dtype=np.float64),
        carrier_from=carrier_from,
    )


def movable_target(armature_object: Object, effector: Effector) -> Object | None:
    """The object that can be moved to where the bone of an effector is; None where there is none."""
    target = settings_of(armature_object).effectors[effector.index].target
    if effector.state == 'PIN' or target is None or effector.target_bone or not target.is_editable:
        return None
    return target


def bring_target(
    armature_object: Object, effector: Effector, world_from_bone: FloatArray
) -> Iterator[tuple[Object, bool, bool]]:
    """Move the target of an effector to where its bone is (4, 4) [m]; its own scale stays.

    Only what the effector follows changes: place, orientation or both. Gives the target, and whether it was
    moved and whether it was turned.
    """
    target = movable_target(armature_object, effector)
    if target is not None:
        moves = effector.position, effector.orientation
        entry = settings_of(armature_object).effectors[effector.index]
        _bring(armature_object, target, unrolled(entry, world_from_bone), effector.point, *moves)
        yield target, *moves


def place_target(armature_object: Object, entry: Any, world_from_bone: FloatArray) -> None:
    """Bring the target of an entry to its bone (4, 4) [m], and note that it was Poise who did."""
    target, kind = entry.target, asked_of(entry)
    if not target.is_editable:
        return
    moves = kind.position or entry.state in {'PIN', 'FOLLOW'} or stands_at_bone(entry)
    world_from_bone = unrolled(entry, world_from_bone)
    _bring(armature_object, target, world_from_bone, entry.point, moves, kind.orientation)
    if moves:
        note_place(entry)


def bring_place(armature_object: Object, effector: Effector, world_from_bone: FloatArray) -> None:
    """Bring a target whose orientation alone counts to its bone (4, 4) [m], and do not turn it."""
    entry: Any = settings_of(armature_object).effectors[effector.index]
    if stands_at_bone(entry) and entry.target.is_editable and has_own_place(armature_object, entry):
        _bring(armature_object, entry.target, world_from_bone, entry.point, moves=True, turns=False)
        note_place(entry)


def stands_at_bone(entry: Any) -> bool:
    """Whether the orientation of the target of an entry counts alone, and nobody has moved it since Poise."""
    kind, was = KINDS[entry.kind], placed_now(entry)
    if not kind.turns_only or not was[3, 3] or target_of(entry) is None:
        return False
    far = np.abs(np.array(entry.target.location) - was[:3, 3])
    return not _is_shared(entry) and bool((far <= UNMOVED * (1.0 + np.abs(was[:3, 3]))).all())


def is_only_a_target(entry: Any) -> bool:
    """Whether the target of an entry is an empty, of this entry alone: nobody sees how it is turned."""
    return entry.target is not None and entry.target.type == 'EMPTY' and not _is_shared(entry)


def _is_shared(entry: Any) -> bool:
    """Whether other effectors of the armature have the target of an entry, too."""
    entries: Any = settings_of(entry.id_data).effectors
    return sum(entry.target in all_targets(other) for other in entries) > 1


def turn_target(armature_object: Object, target: Object, world_from_bone: FloatArray) -> None:
    """Turn a target as a bone is turned (4, 4)."""
    _bring(armature_object, target, world_from_bone, (0.0, 0.0, 0.0), moves=False, turns=True)


def _bring(
    armature_object: Object,
    target: Any,
    world_from_bone: FloatArray,
    point: Sequence[float],
    moves: bool,
    turns: bool,
) -> None:
    """Move a target to a point of a bone, or turn it as the bone is turned, or both."""
    if target.parent in {None, armature_object}:
        now = world_matrix(target)  # where it is, if Blender has not evaluated that yet
    else:
        bpy.context.view_layer.update()  # its parent may have come along just now
        now = np.array(target.matrix_world)
    wanted = now.copy()
    if moves:
        wanted[:3, 3] = points_of(world_from_bone, point)
    turn = orientations(world_from_bone) @ orientations(now).T
    if turns and np.isfinite(turn).all():
        wanted[:3, :3] = turn @ now[:3, :3]
    if target.parent is None or (target.parent == armature_object and target.parent_type == 'OBJECT'):
        # Channel by channel, so that what does not change keeps its bits, and angles go on from theirs.
        above = world_from_basis(target)[:3, :3]
        if moves:
            way = np.linalg.solve(above, wanted[:3, 3] - now[:3, 3])
            target.location = (np.array(target.location) + way).tolist()
        if turns:
            upright = orientations(above)
            turn = upright.T @ orientations(wanted) @ orientations(now).T @ upright
            set_rotation(target, turn @ rotation_of(target))
    else:
        target.matrix_world = wanted.T.tolist()

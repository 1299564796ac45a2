# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of effectors: adding, removing, moving, pinning, storing poses, and making targets.

A new target lies where its effector asks for nothing: solving right after it is made moves no bone. Where an
armature cannot be posed, an effector, bone or target is not there or not of the right kind, an `IKError` says
so and nothing is changed.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, count
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Collection, LayerCollection, Object, ViewLayer

from ...core import IKError
from ...core.arrays import FloatArray
from ...core.model.rotation import euler_from_matrix, matrix_from_euler, order_index, quat_from_matrix
from ..animation.dependence import check_independence
from ..animation.fcurves import renumber_channels
from ..armature.armature import check_armature, read_armature
from ..armature.poses import evaluated_matrices, read_pose
from ..armature.restoring import made_removed_on_error
from ..kinds.frame_data import orientations
from ..kinds.kinds import KINDS, asked_of, staying_joints
from ..properties.effector_properties import POISE_PG_effector
from ..properties.naming import follow_names, note_name
from ..properties.overrides import only_own, prepare_override, refilled
from ..properties.settings import settings_of
from .effectors import check_evaluated, label_of, lacks_target, target_of
from .masses import body_of
from .transforms import attach, goes_along

TARGET_SIZE: Final = 0.06
"""Display size of a new target, as a part of the armature's size [1]."""

EFFECTORS_PATH: Final = "poise.effectors"
"""Data path of the list, from the armature object."""


def add_effector(
    armature_object: Object,
    bone_name: str,
    *,
    kind: str = 'BOTH',
    target: Object | None = None,
    make_target: bool = True,
) -> int:
    """Add an effector for a bone; return its index in the list.

    Args:
        kind: A name in `KINDS`: 'POSITION', 'ORIENTATION', 'BOTH', 'AIM', ...
        make_target: Whether to make an empty when no target is given, where the effector asks for nothing.
    """
    check_armature(armature_object)
    pose: Any = armature_object.pose
    if bone_name not in pose.bones:
        raise IKError(f"{armature_object.name!r} has no bone {bone_name!r}: choose one of its bones")
    if kind not in KINDS:
        raise IKError(f"effector for {bone_name!r}: no kind {kind!r}; there are {', '.join(KINDS)}")
    if target is not None:
        check_independence(bone_name, target, armature_object)
    prepare_override(armature_object)  # an autosave asks no handler
    effectors = settings_of(armature_object).effectors
    index, known = len(effectors), pose.bones[bone_name].poise_name
    length = pose.bones[bone_name].length * armature_object.matrix_world.median_scale
    try:
        with made_removed_on_error("objects"):
            note_name(armature_object, bone_name)
            name = free_name(effectors, bone_name)
            last = max((entry.priority for entry in effectors), default=0)
            entry: Any = effectors.add()
            entry.name, entry.bone, entry.kind, entry.target = name, bone_name, kind, target
            KINDS[kind].begin(entry, last, length)
            if make_target and KINDS[kind].target_use(entry) != 'NONE':
                _fill_targets(armature_object, entry)
            follow_names(armature_object)
    except BaseException:
        while len(effectors) > index:
            effectors.remove(len(effectors) - 1)
        pose.bones[bone_name].poise_name = known
        raise
    return index


def free_name(entries: Iterable[POISE_PG_effector], wanted: str, own: POISE_PG_effector | None = None) -> str:
    """Return a name that no effector has but its own one: as wanted, or numbered as Blender's names are."""
    names = {entry.name for entry in entries if entry != own}
    numbered = (f"{wanted}.{number:03d}" for number in count(1))
    return next(name for name in chain([wanted], numbered) if name not in names)


def _entry_at(armature_object: Object, index: int) -> tuple[Any, str]:
    """Return an entry of the list and what it is called in messages (IKError: there is none)."""
    check_armature(armature_object)
    effectors = settings_of(armature_object).effectors
    if not 0 <= index < len(effectors):
        raise IKError(f"{armature_object.name!r} has {len(effectors)} effectors, there is none at {index}")
    return effectors[index], f"effector {label_of(effectors[index], index)!r}"


def remove_effector(armature_object: Object, index: int) -> None:
    """Remove an effector, with its keys; its target stays in the scene (IKError: there is none there)."""
    _, label = _entry_at(armature_object, index)
    effectors = settings_of(armature_object).effectors
    kept = [number for number in range(len(effectors)) if number != index]
    with only_own(label, "disable it"):
        effectors.remove(index)
    places = {old: new for new, old in enumerate(kept)} | {index: None}
    renumber_channels(armature_object, EFFECTORS_PATH, places)


def move_effector(armature_object: Object, index: int, place: int) -> None:
    """Move an effector to another place in the list, with its keys (IKError: there is none at one)."""
    _, label = _entry_at(armature_object, index)
    _entry_at(armature_object, place)
    effectors = settings_of(armature_object).effectors
    order = list(range(len(effectors)))
    order.insert(place, order.pop(index))
    with only_own(label, "move those that were added here"):
        effectors.move(index, place)
    renumber_channels(armature_object, EFFECTORS_PATH, {old: new for new, old in enumerate(order)})


def make_target(armature_object: Object, index: int) -> Object:
    """Make an empty where an effector asks for nothing, mostly the present place of its bone, and follow it.

    Where one of several targets is enough, those that are there stay.
    """
    entry, label = _entry_at(armature_object, index)
    kind = KINDS[entry.kind]
    if kind.target_use(entry) == 'NONE':
        raise IKError(f"{label} follows no target: it needs none")
    before, rows = (entry.target, entry.target_bone), len(entry.others)
    try:
        if not kind.several:
            entry.target = None
        elif not lacks_target(entry):
            entry.others.add()
        with made_removed_on_error("objects"):
            return _fill_targets(armature_object, entry)
    except BaseException:
        entry.target, entry.target_bone = before
        while len(entry.others) > rows:
            entry.others.remove(len(entry.others) - 1)
        raise


def _fill_targets(armature_object: Object, entry: Any) -> Any:
    """Make the targets that an effector lacks, two where it takes one of several; return the first."""
    if KINDS[entry.kind].several and not len(entry.others):
        entry.others.add()
    made: list[Object] = []
    for number, slot in enumerate([entry, *entry.others]):
        if target_of(slot) is None:
            made.append(_new_target(armature_object, entry, number))
            slot.target, slot.target_bone = made[-1], ""
    return made[0] if made else entry.target


def add_choice(armature_object: Object, index: int, target: Object | None = None) -> Object:
    """Add one more target, of which one is enough, to an effector of the kind ONE_OF: an empty for None."""
    entry, label = _entry_at(armature_object, index)
    if not KINDS[entry.kind].several:
        raise IKError(f"{label} follows one target: choose the kind One Of to give it several")
    if target is None:
        return make_target(armature_object, index)
    check_independence(label_of(entry, index), target, armature_object)
    (entry if target_of(entry) is None else entry.others.add()).target = target
    return target


def remove_choice(armature_object: Object, index: int, number: int) -> None:
    """Remove one of several targets from an effector, 0 is the first; the object stays in the scene."""
    entry, label = _entry_at(armature_object, index)
    if not 0 <= number <= len(entry.others) or not len(entry.others):
        raise IKError(
            f"{label} has {1 + len(entry.others)} targets: there is none at {number} to be taken away"
        )
    first = entry.others[0].target, entry.others[0].target_bone
    with only_own(f"target {number} of {label}", "choose another object for it"):
        entry.others.remove(max(0, number - 1))
    if number == 0:
        entry.target, entry.target_bone = first


def pin(armature_object: Object, index: int) -> None:
    """Hold the bone of an effector where it is now, in the space of the armature."""
    entry, label = _entry_at(armature_object, index)
    kind = KINDS[entry.kind]
    if not kind.pinnable:
        kinds = ", ".join(other.item[0] for other in KINDS.values() if other.pinnable)
        raise IKError(
            f"{label} cannot be pinned, its kind does not say where its bone is: pin one of the kinds {kinds}"
        )
    matrix = _Shown(armature_object, label).posed(entry.bone)
    if kind.orientation and np.isnan(orientations(matrix)).any():
        raise IKError(
            f"{label}: bone {entry.bone!r} is scaled to nothing, so it has no orientation to be held. Reset "
            "its scale and its parents' (Alt S) first"
        )
    entry.pin_matrix = tuple(matrix.ravel().tolist())
    entry.pinned = True


def unpin(armature_object: Object, index: int) -> None:
    """Unpin the bone of an effector; without a target it gets one, or nothing could be solved."""
    entry, _ = _entry_at(armature_object, index)
    was, entry.pinned = entry.pinned, False
    if was and lacks_target(entry):
        try:
            make_target(armature_object, index)
        except IKError:
            entry.pinned = was
            raise


def store_pose(armature_object: Object, index: int) -> int:
    """Store the present pose as that near which the bones of an effector stay; return how many there are."""
    entry, label = _entry_at(armature_object, index)
    if entry.kind != 'STAY':
        raise IKError(f"{label} stays near no pose: choose the kind Stay Near for it")
    armature = read_armature(armature_object)
    skeleton, pose = armature.skeleton, read_pose(armature_object, armature)
    if entry.bone not in skeleton.names:
        raise IKError(f"{label}: {armature_object.name!r} has no bone {entry.bone!r}: choose its bone")
    joints = staying_joints(skeleton, entry.bone, entry.stay_scope == 'BODY')
    quaternions = quat_from_matrix(matrix_from_euler(pose.rotation[joints], skeleton.orders[joints]))
    bones = refilled(entry.stored, len(joints))
    for joint, quaternion, bone in zip(joints, quaternions.tolist(), bones, strict=True):
        note_name(armature_object, skeleton.names[joint])
        bone.name, bone.location = skeleton.names[joint], pose.translation[joint].tolist()
        bone.rotation = quaternion
    entry.stay = 'STORED'
    return len(joints)


class _Shown:
    """Bones of an armature object as they are shown (see `kinds.Bones`), for one effector."""

    def __init__(self, armature_object: Object, label: str) -> None:
        depsgraph = bpy.context.evaluated_depsgraph_get()
        check_evaluated(armature_object, (), depsgraph)
        self._object, self._label = armature_object, label
        self._posed: Any = armature_object.evaluated_get(depsgraph)

    def posed(self, name: str) -> FloatArray:
        """armature_from_bone, (4, 4) [m] (IKError: the bone is missing or nowhere)."""
        if name not in self._posed.pose.bones:
            raise IKError(f"{self._label}: {self._object.name!r} has no bone {name!r}")
        matrix = np.array(self._posed.pose.bones[name].matrix)
        if not np.isfinite(matrix).all():
            raise IKError(
                f"{self._label}: the place of bone {name!r} is not a number. Look at its drivers, "
                "constraints and scale"
            )
        return matrix

    def shown(self, name: str) -> FloatArray:
        return np.array(self._posed.matrix_world) @ self.posed(name)

    def rest(self, name: str) -> FloatArray:
        return np.array(self._posed.data.bones[name].matrix_local)

    def length(self, name: str) -> float:
        return self._posed.data.bones[name].length

    def ground(self) -> FloatArray:
        armature = read_armature(self._object)
        joints = np.array(self._posed.matrix_world) @ evaluated_matrices(self._posed, armature)
        centre = body_of(self._object, armature.skeleton).centre(joints[None])[0]
        return np.array([centre[0], centre[1], self._posed.matrix_world.translation.z])


def _new_target(armature_object: Object, entry: POISE_PG_effector, number: int) -> Object:
    """Make an empty where an effector asks for nothing, and show it beside the armature.

    Of several targets the first lies there, the others are beside it, each a bone further.
    """
    name, kind = entry.name or entry.bone, asked_of(entry)
    label = f"effector {name!r}"
    bones = _Shown(armature_object, label)
    world_from_bone = bones.shown(entry.bone)
    if not np.isfinite(world_from_bone).all() or np.linalg.matrix_rank(world_from_bone) < 4:
        raise IKError(
            f"{label}: bone {entry.bone!r} of {armature_object.name!r} is scaled to nothing, so a target "
            "cannot be turned as it is. Reset its scale and its parents' (Alt S) first"
        )
    place = kind.new_target(entry, bones) + world_from_bone[:3, 0] * (number * bones.length(entry.bone))
    empty: Any = bpy.data.objects.new(f"{armature_object.name} {name}", None)
    empty.empty_display_type = kind.display
    empty.empty_display_size = TARGET_SIZE * max(armature_object.dimensions[:]) or TARGET_SIZE
    empty.location = place.tolist()
    if not kind.is_ground:
        # Not by way of matrix_world: in single precision angles are off by up to 0.1 degrees near gimbal
        # lock, where bones are that point to the side.
        turn = euler_from_matrix(orientations(world_from_bone), order_index(empty.rotation_mode))
        empty.rotation_euler = turn.tolist()
    collection_of(armature_object, bpy.context.view_layer).objects.link(empty)
    if not kind.of_surroundings and goes_along(armature_object):  # as the others do
        attach(empty, armature_object)
    return empty


def collection_of(armature_object: Object, view_layer: ViewLayer) -> Collection:
    """Return the first collection of an object that is shown and into which something can be linked."""

    def shown(layer: LayerCollection) -> Iterator[Collection]:
        if not (layer.exclude or layer.collection.hide_viewport):
            yield layer.collection
        for child in layer.children:
            yield from shown(child)

    for collection in shown(view_layer.layer_collection):
        own = collection.library is None and collection.override_library is None
        if own and armature_object in collection.objects.values():
            return collection
    return bpy.context.scene.collection

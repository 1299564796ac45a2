# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of effectors: adding, removing, moving, pinning, storing poses, and making targets.

A new target lies where its effector asks for nothing: solving right after it is made moves no bone.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, count
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Collection, LayerCollection, Object, ViewLayer

from ...core import IKError
from ...core.arrays import FloatArray
from ...core.model.euler import order_index
from ...core.model.rotation import euler_from_matrix, matrix_from_euler, quat_from_matrix
from ..animation.dependence import check_independence
from ..animation.fcurves import renumber_channels
from ..armature.armature import check_armature, read_armature
from ..armature.poses import evaluated_matrices, read_pose
from ..armature.restoring import made_removed_on_error
from ..properties.effector_properties import KIND_ITEMS, PINNABLE, POISE_PG_effector
from ..properties.naming import follow_names, note_name
from ..properties.overrides import only_own, prepare_override, refilled
from ..properties.settings import settings_of
from .effectors import AXES, label_of, lacks_target, limb_bones, orientations, target_of, target_use, what_of
from .frame_data import across, points_of, size
from .kinds import staying_joints
from .masses import body_of
from .target_parents import WORLDLY, attach, goes_along
from .targets import check_evaluated

TARGET_SIZE: Final = 0.06
"""Display size of a new target, as a part of the armature's size [1]."""

AIM_AWAY: Final = 3.0
"""How far in front of its bone a new target to point at is, in lengths of the bone [1]."""

BENT: Final = 0.02
"""Distance of the middle joint from the axis of its limb, in lengths of the bone [1], up to which it is not
to be seen where the limb bends to."""

DISPLAY: Final = {
    'POSITION': 'SPHERE',
    'AIM': 'PLAIN_AXES',
    'POLE': 'CONE',
    'PLANE': 'SINGLE_ARROW',
    'FLOOR': 'SINGLE_ARROW',
    'DISTANCE': 'SPHERE',
    'BALANCE': 'CIRCLE',
}
"""Shapes of new targets; arrows show orientations."""

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
        armature_object: The armature object.
        bone_name: The bone that follows.
        kind: One of `KIND_ITEMS`: 'POSITION', 'ORIENTATION', 'BOTH', 'AIM', ...
        target: What it follows.
        make_target: Whether to make an empty when no target is given, where the effector asks for nothing.

    Raises:
        IKError: There is no such bone, the armature cannot be posed, the target depends on it, or the bone
            is none for this kind.
    """
    check_armature(armature_object)
    pose: Any = armature_object.pose
    if bone_name not in pose.bones:
        raise IKError(f"{armature_object.name!r} has no bone {bone_name!r}: choose one of its bones")
    kinds = [item[0] for item in KIND_ITEMS]
    if kind not in kinds:
        raise IKError(f"effector for {bone_name!r}: no kind {kind!r}; there are {', '.join(kinds)}")
    if target is not None:
        check_independence(bone_name, target, armature_object)
    prepare_override(armature_object)  # an autosave asks no handler
    effectors = settings_of(armature_object).effectors
    index, known = len(effectors), pose.bones[bone_name].poise_name
    try:
        note_name(armature_object, bone_name)
        name = free_name(effectors, bone_name)
        last = max((entry.priority for entry in effectors), default=0)
        entry: Any = effectors.add()
        entry.name, entry.bone, entry.kind, entry.target = name, bone_name, kind, target
        if kind == 'POLE':
            limb_bones(armature_object, name, entry)
        if kind == 'STAY':
            entry.priority = last + 1  # bones stay near a pose as far as all else allows
        if kind == 'DISTANCE':
            entry.distance = pose.bones[bone_name].length * armature_object.matrix_world.median_scale
        if make_target and target_use(entry) != 'NONE':
            _fill_targets(armature_object, entry, bone_name)
        follow_names(armature_object)
    except BaseException:
        for row in range(len(effectors) - 1, index - 1, -1):
            added = effectors[row]
            targets = [added.target, *(other.target for other in added.others)]
            effectors.remove(row)
            bpy.data.batch_remove([made for made in targets if made is not None and made != target])
        pose.bones[bone_name].poise_name = known
        raise
    return index


def free_name(entries: Iterable[POISE_PG_effector], wanted: str, own: POISE_PG_effector | None = None) -> str:
    """Return a name that no effector has but its own one: as wanted, or numbered as Blender's names are."""
    names = {entry.name for entry in entries if entry != own}
    numbered = (f"{wanted}.{number:03d}" for number in count(1))
    return next(name for name in chain([wanted], numbered) if name not in names)


def remove_effector(armature_object: Object, index: int) -> None:
    """Remove an effector from the list, with its keys; its target stays in the scene.

    Raises:
        IKError: There is no such effector.
    """
    check_armature(armature_object)
    entry_at(armature_object, index)
    effectors = settings_of(armature_object).effectors
    kept = [number for number in range(len(effectors)) if number != index]
    with only_own(_labelled(effectors[index], index), "disable it"):
        effectors.remove(index)
    renumber_channels(
        armature_object, EFFECTORS_PATH, {old: new for new, old in enumerate(kept)} | {index: None}
    )


def move_effector(armature_object: Object, index: int, place: int) -> None:
    """Move an effector to another place in the list; keys of both go along.

    Raises:
        IKError: There is no such effector, or no such place.
    """
    check_armature(armature_object)
    entry_at(armature_object, index)
    entry_at(armature_object, place)
    effectors = settings_of(armature_object).effectors
    order = list(range(len(effectors)))
    order.insert(place, order.pop(index))
    with only_own(_labelled(effectors[index], index), "move those that were added here"):
        effectors.move(index, place)
    renumber_channels(armature_object, EFFECTORS_PATH, {old: new for new, old in enumerate(order)})


def make_target(armature_object: Object, index: int) -> Object:
    """Make an empty where an effector asks for nothing, mostly the present place of its bone, and follow it.

    Raises:
        IKError: There is no such effector, its bone is missing, or it follows no target.
    """
    check_armature(armature_object)
    entry = entry_at(armature_object, index)
    if target_use(entry) == 'NONE':
        raise IKError(f"effector {label_of(entry, index)!r} follows no target: it needs none")
    name = entry.name or entry.bone
    before, rows = (entry.target, entry.target_bone), len(entry.others)
    try:
        if entry.kind == 'ONE_OF' and target_of(entry) is not None and rows:
            lacking = next((other for other in entry.others if target_of(other) is None), None)
            other: Any = entry.others.add() if lacking is None else lacking
            with made_removed_on_error("objects"):
                other.target = _new_target(armature_object, entry, name, number=len(entry.others))
            return other.target
        entry.target, entry.target_bone = None, ""
        _fill_targets(armature_object, entry, name)
    except BaseException:
        entry.target, entry.target_bone = before
        while len(entry.others) > rows:
            entry.others.remove(len(entry.others) - 1)
        raise
    assert entry.target is not None
    return entry.target


def add_choice(armature_object: Object, index: int, target: Object | None = None) -> Object:
    """Add one more target, of which one is enough, to an effector of the kind ONE_OF; an empty without one.

    Raises:
        IKError: There is no such effector, it is of another kind, or the target depends on the armature.
    """
    check_armature(armature_object)
    entry = entry_at(armature_object, index)
    label = label_of(entry, index)
    if entry.kind != 'ONE_OF':
        raise IKError(f"effector {label!r} follows one target: choose the kind One Of to give it several")
    if target is None:
        return make_target(armature_object, index)
    check_independence(label, target, armature_object)
    if target_of(entry) is None:
        entry.target = target
    else:
        entry.others.add().target = target
    return target


def remove_choice(armature_object: Object, index: int, number: int) -> None:
    """Remove one of several targets from an effector, 0 is the first; the object stays in the scene.

    Raises:
        IKError: There is no such effector, or no such target.
    """
    check_armature(armature_object)
    entry = entry_at(armature_object, index)
    if not 0 <= number <= len(entry.others) or not len(entry.others):
        raise IKError(
            f"effector {label_of(entry, index)!r} has {1 + len(entry.others)} targets: there is none at "
            f"{number} to be taken away"
        )
    first = entry.others[0].target, entry.others[0].target_bone
    with only_own(f"target {number} of {_labelled(entry, index)}", "choose another object for it"):
        entry.others.remove(max(0, number - 1))
    if number == 0:
        entry.target, entry.target_bone = first


def _labelled(entry: POISE_PG_effector, index: int) -> str:
    return f"effector {label_of(entry, index)!r}"


def _fill_targets(armature_object: Object, entry: POISE_PG_effector, name: str) -> None:
    """Make the targets that an effector lacks; two, where it takes one of several."""
    with made_removed_on_error("objects"):
        if entry.target is None:
            entry.target = _new_target(armature_object, entry, name)
        if entry.kind == 'ONE_OF' and not len(entry.others):
            further = _new_target(armature_object, entry, name, number=1)
            entry.others.add().target = further


def entry_at(armature_object: Object, index: int) -> POISE_PG_effector:
    """Return an entry of the list (IKError: there is no such effector)."""
    effectors = settings_of(armature_object).effectors
    if not 0 <= index < len(effectors):
        raise IKError(f"{armature_object.name!r} has {len(effectors)} effectors, there is none at {index}")
    return effectors[index]


def pin(armature_object: Object, index: int) -> None:
    """Hold the bone of an effector where it is now, in the space of the armature.

    Raises:
        IKError: There is no such effector, its kind holds no bone, or its bone is missing or nowhere.
    """
    check_armature(armature_object)
    entry = entry_at(armature_object, index)
    label = label_of(entry, index)
    if entry.kind not in PINNABLE:
        kinds = ", ".join(item[1] for item in KIND_ITEMS if item[0] in PINNABLE)
        raise IKError(
            f"effector {label!r} cannot be pinned, its kind does not say where its bone is: pin one of the "
            f"kinds {kinds}"
        )
    matrix = _posed_bone(armature_object, label, entry.bone)
    if entry.kind != 'POSITION' and np.isnan(orientations(matrix)).any():
        raise IKError(
            f"effector {label!r}: bone {entry.bone!r} is scaled to nothing, so it has no orientation to be "
            "held. Reset its scale and its parents' (Alt S) first"
        )
    entry.pin_matrix = tuple(matrix.ravel().tolist())
    entry.pinned = True


def unpin(armature_object: Object, index: int) -> None:
    """Unpin the bone of an effector; without a target it gets one, or nothing could be solved.

    Raises:
        IKError: There is no such effector, or its bone is missing or nowhere and so can have no target.
    """
    check_armature(armature_object)
    entry = entry_at(armature_object, index)
    was, entry.pinned = entry.pinned, False
    if was and lacks_target(entry):
        try:
            make_target(armature_object, index)
        except IKError:
            entry.pinned = was
            raise


def store_pose(armature_object: Object, index: int) -> int:
    """Store the present pose as that near which the bones of an effector stay; return how many there are.

    Raises:
        IKError: There is no such effector, it is of another kind, or its bone is missing.
    """
    entry = entry_at(armature_object, index)
    label = label_of(entry, index)
    if entry.kind != 'STAY':
        raise IKError(f"effector {label!r} stays near no pose: choose the kind Stay Near for it")
    armature = read_armature(armature_object)
    skeleton, pose = armature.skeleton, read_pose(armature_object, armature)
    if entry.bone not in skeleton.names:
        raise IKError(
            f"effector {label!r}: {armature_object.name!r} has no bone {entry.bone!r}: choose its bone"
        )
    joints = staying_joints(skeleton, entry.bone, entry.stay_scope == 'BODY')
    quaternions = quat_from_matrix(matrix_from_euler(pose.rotation[joints], skeleton.orders[joints]))
    bones = refilled(entry.stored, len(joints))
    for joint, quaternion, bone in zip(joints, quaternions.tolist(), bones, strict=True):
        note_name(armature_object, skeleton.names[joint])
        bone.name, bone.location = skeleton.names[joint], pose.translation[joint].tolist()
        bone.rotation = quaternion
    entry.stay = 'STORED'
    return len(joints)


def _posed_bone(armature_object: Object, label: str, bone_name: str) -> FloatArray:
    """Return where a bone is in the space of the armature, (4, 4) [m] (IKError: it is missing or nowhere)."""
    depsgraph = bpy.context.evaluated_depsgraph_get()
    check_evaluated(armature_object, (), depsgraph)
    posed: Any = armature_object.evaluated_get(depsgraph)
    if bone_name not in posed.pose.bones:
        raise IKError(f"effector {label!r}: {armature_object.name!r} has no bone {bone_name!r}")
    matrix = np.array(posed.pose.bones[bone_name].matrix)
    if not np.isfinite(matrix).all():
        raise IKError(
            f"effector {label!r}: the place of bone {bone_name!r} is not a number. Look at its drivers, "
            "constraints and scale"
        )
    return matrix


def _new_target(armature_object: Object, entry: POISE_PG_effector, name: str, *, number: int = 0) -> Object:
    """Make an empty where an effector asks for nothing, and show it beside the armature.

    Of several targets the first lies there, the others are beside it, each a bone further.
    """
    label, kind = entry.name or entry.bone, what_of(entry)
    armature_from_bone = _posed_bone(armature_object, label, entry.bone)
    posed: Any = armature_object.evaluated_get(bpy.context.evaluated_depsgraph_get())
    world_from_bone = np.array(posed.matrix_world) @ armature_from_bone
    if not np.isfinite(world_from_bone).all() or np.linalg.matrix_rank(world_from_bone) < 4:
        raise IKError(
            f"effector {label!r}: bone {entry.bone!r} of {armature_object.name!r} is scaled to "
            "nothing, so a target cannot be turned as it is. Reset its scale and its parents' (Alt S) first"
        )
    aside = world_from_bone[:3, 0] * (number * posed.data.bones[entry.bone].length)
    place = _target_place(armature_object, posed, entry, world_from_bone) + aside
    collection = collection_of(armature_object, bpy.context.view_layer)
    empty: Any = bpy.data.objects.new(f"{armature_object.name} {name}", None)
    empty.empty_display_type = DISPLAY.get(kind, 'ARROWS')
    empty.empty_display_size = TARGET_SIZE * max(armature_object.dimensions[:]) or TARGET_SIZE
    empty.location = place.tolist()
    if kind not in {'PLANE', 'FLOOR', 'BALANCE'}:  # which are level
        # Not by way of matrix_world: in single precision angles are off by up to 0.1 degrees near gimbal
        # lock, where bones are that point to the side.
        turn = euler_from_matrix(orientations(world_from_bone), order_index(empty.rotation_mode))
        empty.rotation_euler = turn.tolist()
    collection.objects.link(empty)
    if kind not in WORLDLY and goes_along(armature_object):  # as the others do
        attach(empty, armature_object)
    return empty


def _target_place(
    armature_object: Object, posed: Any, entry: POISE_PG_effector, world_from_bone: FloatArray
) -> FloatArray:
    """Return where a new target goes, (3,) [m]."""
    point = points_of(world_from_bone, entry.point)
    length = posed.data.bones[entry.bone].length
    if what_of(entry) == 'AIM':
        return point + world_from_bone[:3, :3] @ AXES[entry.axis] * (AIM_AWAY * length)
    if entry.kind == 'POLE':
        return _pole_place(armature_object, posed, entry, world_from_bone)
    if what_of(entry) in {'PLANE', 'FLOOR'}:
        return point - np.array([0.0, 0.0, entry.height])
    if entry.kind == 'DISTANCE':
        along = world_from_bone[:3, 1]
        return point + along / np.linalg.norm(along) * entry.distance
    if entry.kind == 'BALANCE':
        armature = read_armature(armature_object)
        joints = np.array(posed.matrix_world) @ evaluated_matrices(posed, armature)
        centre = body_of(armature_object, armature.skeleton).centre(joints[None])[0]
        return np.array([centre[0], centre[1], posed.matrix_world.translation.z])
    return point


def _pole_place(
    armature_object: Object, posed: Any, entry: POISE_PG_effector, world_from_bone: FloatArray
) -> FloatArray:
    """Return a place before the elbow or knee, as far as its bone is long, where the limb bends to.

    A straight limb bends to where it does in the rest pose, one that is straight there too to its bone's Z.
    """
    root, tip = limb_bones(armature_object, entry.name or entry.bone, entry)
    names = (root, entry.bone, tip)
    matrix = np.array(posed.matrix_world)
    bones: Any = posed.pose.bones
    now = points_of(matrix, np.array([bones[name].head for name in names]))
    rest = np.array([posed.data.bones[name].head_local for name in names])
    own_rest = np.array(posed.data.bones[entry.bone].matrix_local)[:3, :3]
    length = np.linalg.norm(world_from_bone[:3, 1]) * posed.data.bones[entry.bone].length
    for bend in (
        _bend(now),
        world_from_bone[:3, :3] @ own_rest.T @ _bend(rest),
        across(world_from_bone[:3, 2], now[2] - now[0]),
    ):
        if size(bend) > BENT * length:
            break
    return now[1] + bend / size(bend) * length


def _bend(heads: FloatArray) -> FloatArray:
    """Return the way of the middle one of three places (3, 3) from the line between the others, (3,)."""
    return across(heads[1] - heads[0], heads[2] - heads[0])


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

# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of effectors: adding, removing, moving, pinning, storing poses, and making targets.

A new target lies where its effector asks for nothing: solving right after it is made moves no bone. Where an
armature cannot be posed, an effector, bone or target is not there or not of the right kind, an `IKError` says
so and nothing is changed.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, count
from numbers import Integral
from typing import Any, Final, cast

import bpy
import numpy as np
from bpy.types import Armature, Collection, LayerCollection, Object, ViewLayer

from ...core import IKError
from ...core.arrays import FloatArray
from ...core.character.roles import Side
from ...core.character.roles.names import read_name
from ...core.messages import Joined, Message
from ...core.model.rotation import euler_from_matrix, matrix_from_euler, order_index, quat_from_matrix
from ..animation.dependence import check_independence
from ..animation.fcurves import present_time, renumber_channels
from ..armature.armature import check_armature, read_armature
from ..armature.poses import evaluated_matrices, read_pose
from ..armature.restoring import made_removed_on_error, undone_on_error
from ..kinds.frame_data import orientations, points_of
from ..kinds.kinds import KINDS, Anchor, asked_of, staying_joints
from ..properties.declared import check_item
from ..properties.naming import bone_names, follow_names, note_name, pose_bone
from ..properties.overrides import only_own, prepare_override, refilled
from ..properties.settings import EFFECTORS_PATH, POISE_PG_effector, check_object, settings_of
from .effectors import (
    check_evaluated,
    is_led,
    is_taken,
    keyed_anchors,
    label_of,
    lacks_target,
    note_anchors,
    note_place,
    read_effectors,
    target_label,
    target_of,
    with_carriers,
)
from .feet import is_rolling, sole_of, unrolled
from .masses import body_of
from .transforms import attach, goes_along, place_target, put, turn_target, world_matrix

TARGET_SIZE: Final = 0.06
"""Display size of a new target, as a part of the armature's size [1]."""

PRECISION: Final = {"tolerance_position": 1.0 / 3500.0, "bake_deviation": 2.0 / 3500.0}
"""What settings that are lengths begin with, as parts of the armature's size [1]: half a millimetre and a
millimetre on a person, whatever the unit of the scene is."""

COLOURS: Final = {
    Side.LEFT: (0.15, 0.45, 1.0, 1.0),
    Side.RIGHT: (1.0, 0.25, 0.2, 1.0),
    Side.CENTRE: (1.0, 0.8, 0.1, 1.0),
}
"""Of targets: blue left, red right, yellow in the middle."""

SUFFIX: Final = " Targets"
"""What the name of the collection of an armature's targets ends with."""

UNPINNABLE: Final = {
    'PIN': Message(
        "{label} cannot be pinned, its kind does not say where its bone is: pin one of the kinds {kinds}"
    ),
    'FOLLOW': Message(
        "{label} cannot follow, its kind does not say where its bone is: choose one of the kinds {kinds}"
    ),
}
"""What is said of effectors that cannot have a state."""


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
    bone: Any = pose_bone(armature_object, bone_name)
    check_item(POISE_PG_effector, "kind", kind)
    if target is not None:
        check_object(target)
        check_independence(bone_name, target, armature_object)
    prepare_override(armature_object)  # an autosave asks no handler
    effectors = settings_of(armature_object).effectors
    index = len(effectors)
    length = bone.length * armature_object.matrix_world.median_scale
    with undone_on_error() as undo, made_removed_on_error("objects"):
        undo.callback(setattr, bone, "poise_name", bone.poise_name)
        undo.callback(_shorten, effectors, index)
        note_name(armature_object, bone_name)
        name = free_name(effectors, bone_name)
        last = max((entry.priority for entry in effectors), default=0)
        axes = [entry.axis for entry in effectors if entry.bone == bone_name]
        entry: Any = effectors.add()
        entry.name, entry.bone, entry.kind, entry.target = name, bone_name, kind, target
        if axes:
            entry.axis = axes[0]  # out of the face, of a head that was set up
        KINDS[kind].begin(entry, last, length)
        if make_target and KINDS[kind].target_use(entry) != 'NONE':
            _fill_targets(armature_object, entry)
        follow_names(armature_object)
    if index == 0:
        _fit_lengths(armature_object)
    if armature_object.animation_data is not None:
        # Else keys of its properties do not play in an action that has been played.
        armature_object.update_tag()
    return index


def _fit_lengths(armature_object: Object) -> None:
    """Set the lengths of `PRECISION` that nobody has set, to round numbers."""
    settings, data = settings_of(armature_object), cast(Armature, armature_object.data)
    ends = np.array([(bone.head_local, bone.tail_local) for bone in data.bones]).reshape(-1, 3)
    size = float(np.ptp(ends, axis=0).max()) * armature_object.matrix_world.median_scale
    for name, part in PRECISION.items():
        if size > 0.0 and not settings.is_property_set(name):
            setattr(settings, name, _round_number(part * size))


def _round_number(number: float) -> float:
    """Return the nearest of ..., 0.1, 0.2, 0.5, 1, 2, 5, ... by ratio."""
    power = 10.0 ** np.floor(np.log10(number))
    return float(power * min((1.0, 2.0, 5.0, 10.0), key=lambda digit: abs(np.log(digit * power / number))))


def _shorten(entries: Any, count: int) -> None:
    """Remove what comes after so many entries."""
    while len(entries) > count:
        entries.remove(len(entries) - 1)


def free_name(entries: Iterable[POISE_PG_effector], wanted: str, own: POISE_PG_effector | None = None) -> str:
    """Return a name that no effector has but its own one: as wanted, or numbered as Blender's names are."""
    names = {entry.name for entry in entries if entry != own}
    numbered = (f"{wanted}.{number:03d}" for number in count(1))
    return next(name for name in chain([wanted], numbered) if name not in names)


def chosen_rows(armature_object: Object, effectors: Iterable[int] | None) -> list[int]:
    """Return places in the list of effectors, each once, or all for None (IKError: there is none at one)."""
    check_armature(armature_object)
    if effectors is None:
        return list(range(len(settings_of(armature_object).effectors)))
    if not isinstance(effectors, Iterable):
        raise IKError(
            "effectors are given by their places in the list, as in [0, 2], got {effectors!r}",
            effectors=effectors,
        )
    rows = list(dict.fromkeys(effectors))
    for row in rows:
        entry_at(armature_object, row)
    return rows


def entry_at(armature_object: Object, index: int) -> tuple[Any, str]:
    """Return an entry of the list and what it is called in messages (IKError: there is none)."""
    check_armature(armature_object)
    effectors = settings_of(armature_object).effectors
    if not (isinstance(index, Integral) and 0 <= index < len(effectors)):
        raise IKError(
            "{armature!r} has {count} effectors, there is none at {index!r}",
            armature=armature_object.name,
            count=len(effectors),
            index=index,
        )
    return effectors[index], Message("effector {effector!r}", effector=label_of(effectors[index]))


def remove_effector(armature_object: Object, index: int) -> None:
    """Remove an effector, with its keys; its target stays in the scene (IKError: there is none there)."""
    _, label = entry_at(armature_object, index)
    effectors = settings_of(armature_object).effectors
    kept = [number for number in range(len(effectors)) if number != index]
    with only_own(label, Message("disable it")):
        effectors.remove(index)
    places = {old: new for new, old in enumerate(kept)} | {index: None}
    renumber_channels(armature_object, EFFECTORS_PATH, places)


def move_effector(armature_object: Object, index: int, place: int) -> None:
    """Move an effector to another place in the list, with its keys (IKError: there is none at one)."""
    _, label = entry_at(armature_object, index)
    entry_at(armature_object, place)
    effectors = settings_of(armature_object).effectors
    order = list(range(len(effectors)))
    order.insert(place, order.pop(index))
    with only_own(label, Message("move those that were added here")):
        effectors.move(index, place)
    renumber_channels(armature_object, EFFECTORS_PATH, {old: new for new, old in enumerate(order)})


def make_target(armature_object: Object, index: int) -> Object:
    """Make an empty where an effector asks for nothing, mostly the present place of its bone, and follow it.

    Where one of several targets is enough, those that are there stay.
    """
    entry, label = entry_at(armature_object, index)
    kind = KINDS[entry.kind]
    if kind.target_use(entry) == 'NONE' and not (kind.pinnable and entry.pinned):
        raise IKError("{label} follows no target: it needs none", label=label)
    with undone_on_error() as undo, made_removed_on_error("objects"):
        undo.callback(_shorten, entry.others, len(entry.others))
        for name in ("target", "target_bone"):
            undo.callback(setattr, entry, name, getattr(entry, name))
        if not kind.several:
            entry.target = None
        elif not lacks_target(entry):
            entry.others.add()
        made = _fill_targets(armature_object, entry)
    if kind.turns_only:
        note_place(entry)  # it comes along with the bone
    return made


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
    entry, label = entry_at(armature_object, index)
    if not KINDS[entry.kind].several:
        raise IKError("{label} follows one target: choose the kind One Of to give it several", label=label)
    if target is None:
        return make_target(armature_object, index)
    check_independence(label_of(entry), target, armature_object)
    (entry if target_of(entry) is None else entry.others.add()).target = target
    return target


def remove_choice(armature_object: Object, index: int, number: int) -> None:
    """Remove one of several targets from an effector, 0 is the first; the object stays in the scene."""
    entry, label = entry_at(armature_object, index)
    there = isinstance(number, Integral) and 0 <= number <= len(entry.others)
    if not there or not len(entry.others):
        raise IKError(
            "{label} has {count} targets: there is none at {number!r} to be taken away",
            label=label,
            count=1 + len(entry.others),
            number=number,
        )
    first = entry.others[0].target, entry.others[0].target_bone
    with only_own(
        Message("target {number} of {label}", number=number, label=label),
        Message("choose another object for it"),
    ):
        entry.others.remove(max(0, number - 1))
    if number == 0:
        entry.target, entry.target_bone = first


def set_state(armature_object: Object, index: int, state: str) -> None:
    """Set the state of an effector: 'PIN', 'REACH', 'FOLLOW' or 'OFF'.

    Pinned, or following, its bone is held where it is now, in the space of the armature, and its target comes
    to it, unless others say where that is. Without a target it gets one where it is to reach for one.
    """
    entry, label = entry_at(armature_object, index)
    kind = KINDS[entry.kind]
    check_item(POISE_PG_effector, "state", state)
    if state in {'PIN', 'FOLLOW'}:
        if not kind.pinnable:
            kinds = Joined(", ", [Message(own.item[0]) for own in KINDS.values() if own.pinnable])
            raise IKError(UNPINNABLE[state].filled(label=label, kinds=kinds))
        if state == 'FOLLOW' and target_of(entry) is not None and is_led(armature_object, entry):
            raise IKError(
                "{label} cannot follow: keys, drivers, constraints or a parent say where its target "
                "{target!r} is. Remove these, pin it, or switch it off",
                label=label,
                target=target_label(entry),
            )
        hold(armature_object, entry, state)
        return
    was, entry.state = entry.state, state
    if state == 'REACH' and was != 'REACH' and lacks_target(entry):
        try:
            make_target(armature_object, index)
        except IKError:
            entry.state = was
            raise


def hold(armature_object: Object, entry: POISE_PG_effector, state: str) -> None:
    """Pin the bone of an entry where it is, or let it follow from there; its target comes to it.

    Raises:
        IKError: There is no such bone, or it is nowhere.
    """
    label = Message("effector {effector!r}", effector=entry.name or entry.bone)
    bones = _Shown(armature_object, label)
    matrix = (bones.oriented if KINDS[entry.kind].orientation else bones.posed)(entry.bone)
    time = present_time() if keyed_anchors(entry) else None
    entry.placed, entry.state = (0.0,) * 16, state
    note_anchors(entry, Anchor(tuple(unrolled(entry, matrix).ravel().tolist()), time=time))
    taken = is_led if state == 'FOLLOW' else is_taken
    if target_of(entry) is not None and not taken(armature_object, entry):
        place_target(armature_object, entry, np.array(armature_object.matrix_world) @ matrix)
    if state == 'FOLLOW':
        note_carriers(armature_object)


def note_carriers(armature_object: Object) -> None:
    """Note where that is by which those are carried that have just been set to follow."""
    depsgraph = bpy.context.evaluated_depsgraph_get()
    try:
        effectors = read_effectors(armature_object, drawing=True)
        found = with_carriers(armature_object, effectors, depsgraph)
    except IKError:
        return  # the next solve refuses what is wrong; when that is mended it notes them
    for before, now in zip(effectors, found, strict=True):
        if now != before:
            note_anchors(settings_of(armature_object).effectors[now.index], *now.anchors)


def match_target(armature_object: Object, index: int, *, holds: bool = True) -> None:
    """Bring the target of an effector to its bone; that of other kinds where the effector asks for nothing.

    With `holds` what is pinned or follows is held where its bone is now.
    """
    entry, label = entry_at(armature_object, index)
    kind, target = KINDS[entry.kind], target_of(entry)
    if holds and kind.pinnable and entry.state in {'PIN', 'FOLLOW'}:
        hold(armature_object, entry, entry.state)
    elif target is not None:
        bones = _Shown(armature_object, label)
        if kind.pinnable:
            place_target(armature_object, entry, bones.shown(entry.bone))
        else:
            put(target, kind.new_target(entry, bones), orientations(world_matrix(target)))
            note_place(entry)


def pin(armature_object: Object, index: int) -> None:
    """Hold the bone of an effector where it is now, in the space of the armature."""
    set_state(armature_object, index, 'PIN')


def unpin(armature_object: Object, index: int) -> None:
    """Unpin the bone of an effector; without a target it gets one, or nothing could be solved."""
    entry, _ = entry_at(armature_object, index)
    if entry.state == 'PIN':
        set_state(armature_object, index, 'REACH')


def keep_orientation(armature_object: Object, index: int, keeps: bool) -> None:
    """Let an effector keep the orientation that its bone has now, or let it turn as it comes."""
    entry, label = entry_at(armature_object, index)
    if entry.kind not in {'POSITION', 'BOTH'}:
        kinds = " or ".join(KINDS[kind].item[0] for kind in ('POSITION', 'BOTH'))
        raise IKError(
            "{label} reaches no place, so it has no orientation to keep: choose the kind {kinds}",
            label=label,
            kinds=kinds,
        )
    if keeps and entry.kind == 'POSITION':
        target = target_of(entry)
        if target is not None and target.is_editable and not is_taken(armature_object, entry):
            bone = _Shown(armature_object, label).oriented(entry.bone)
            turn_target(armature_object, target, np.array(armature_object.matrix_world) @ bone)
            if any(entry.placed):
                note_place(entry)
    entry.kind = 'BOTH' if keeps else 'POSITION'


def add_floor(armature_object: Object, bones: Iterable[str]) -> tuple[str, ...]:
    """Keep bones above one plane below the lowest of them; return those that got an effector for it.

    The plane is an empty that may be moved and turned, and all are above it at first, so nothing moves. Of
    bones on which the body stands the lower end is kept above it, of feet that roll the whole
    sole, of others the point that reaches for a target. Bones that have a floor are left out.

    Raises:
        IKError: The armature cannot be posed, or there is no such bone.
    """
    check_armature(armature_object)
    entries = settings_of(armature_object).effectors
    floored = {entry.bone for entry in entries if entry.kind == 'FLOOR'}
    wanted = [bone for bone in bone_names(bones) if bone not in floored]
    for bone in wanted:
        pose_bone(armature_object, bone)
    if not wanted:
        return ()
    shown = _Shown(armature_object, "floor")
    tails = {bone: (0.0, shown.length(bone), 0.0) for bone in wanted}
    ends = {bone: (shown.shown(bone)[:3, 3], points_of(shown.shown(bone), tails[bone])) for bone in wanted}
    soles = {own.bone: sole_of(own) for own in entries if own.bone in ends and is_rolling(own)}
    places = [place for both in ends.values() for place in both]
    for bone, sole in soles.items():
        floor = np.stack([sole.on_floor(point) for point in (sole.heel, sole.tip)])
        places += list(points_of(shown.shown(bone), floor))
    ground = min(float(place[2]) for place in places)
    scale, count = armature_object.matrix_world.median_scale, len(entries)
    known = next((entry.target for entry in entries if entry.kind == 'FLOOR' and target_of(entry)), None)
    with undone_on_error() as undo, made_removed_on_error("objects"):
        undo.callback(_shorten, entries, count)
        plane = known or _new_plane(armature_object, ground)
        for bone in wanted:
            index = add_effector(armature_object, bone, kind='FLOOR', target=plane)
            entry: Any = entries[index]
            entry.name, entry.priority = free_name(entries, f"floor {bone}", entry), 0
            own = next((other for other in entries if other.bone == bone and other.part), None)
            if own is not None and not own.is_support:
                entry.point = own.point
            elif ends[bone][1][2] < ends[bone][0][2]:
                entry.point = tails[bone]
            if bone in soles:  # its sole stands on the plane, and the point as high above it as at rest
                entry.height = scale * (np.dot(soles[bone].up, entry.point) - soles[bone].height)
    return tuple(wanted)


def _new_plane(armature_object: Object, height: float) -> Object:
    """Make an empty that is a level plane below an armature at a height [m]."""
    plane: Any = bpy.data.objects.new(f"{armature_object.name} floor", None)
    place = armature_object.matrix_world.translation
    plane.location = (place.x, place.y, height)
    plane.empty_display_type = 'CIRCLE'
    plane.empty_display_size = 0.5 * max(armature_object.dimensions[:]) or 1.0
    plane.rotation_mode = 'XYZ'
    targets_collection(armature_object).objects.link(plane)
    bpy.context.view_layer.update()
    return plane


def store_pose(armature_object: Object, index: int) -> int:
    """Store the present pose as that near which the bones of an effector stay; return how many there are."""
    entry, label = entry_at(armature_object, index)
    if entry.kind != 'STAY':
        raise IKError("{label} stays near no pose: choose the kind Stay Near for it", label=label)
    armature = read_armature(armature_object)
    skeleton, pose = armature.skeleton, read_pose(armature_object, armature)
    pose_bone(armature_object, entry.bone)
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
        matrix = np.array(pose_bone(self._posed, name).matrix)
        if not np.isfinite(matrix).all():
            raise IKError(
                "{label}: the place of bone {name!r} is not a number. Look at its drivers, constraints and "
                "scale",
                label=self._label,
                name=name,
            )
        return matrix

    def oriented(self, name: str) -> FloatArray:
        """The same of a bone that has an orientation (IKError: it is scaled to nothing)."""
        if np.isnan(orientations(self.shown(name))).any():
            raise IKError(
                "{label}: bone {bone!r} is scaled to nothing in frame {frame}, so it has no orientation. "
                "Choose another frame, or reset its scale and its parents' (Alt S)",
                label=self._label,
                bone=name,
                frame=bpy.context.scene.frame_current,
            )
        return self.posed(name)

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
    label = Message("effector {effector!r}", effector=name)
    bones = _Shown(armature_object, label)
    bones.oriented(entry.bone)  # or a target could not be turned as it is
    world_from_bone = bones.shown(entry.bone)
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
    empty.color, empty.show_in_front = COLOURS[read_name(entry.bone).side or Side.CENTRE], True
    targets_collection(armature_object).objects.link(empty)
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


def targets_collection(armature_object: Object) -> Collection:
    """Return the collection of the targets of an armature, shown where the armature is."""
    parent = collection_of(armature_object, bpy.context.view_layer)
    name = f"{armature_object.name}{SUFFIX}"
    if (known := parent.children.get(name)) is not None:
        return known
    collection: Any = bpy.data.collections.new(name)
    collection.color_tag = 'COLOR_03'
    parent.children.link(collection)
    return collection

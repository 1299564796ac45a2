# SPDX-License-Identifier: GPL-3.0-or-later
"""To the other side: settings of effectors, places of their targets, limits, and the pose.

Pairs of bones are found by Blender's own exchange of names (.L and .R, left and right), and where that finds
none by their roles. With S the reflection in the body's plane of symmetry, R the rest rotation of a bone and
R' that of its counterpart, both in armature space: a turn Q of the bone against its rest pose, written in its
own axes, is R Q Rᵀ in the armature's, reflected S R Q Rᵀ S, and R'ᵀ S R Q Rᵀ S R' for the counterpart. A
target that is turned by T in the armature goes to S T Rᵀ S R'. Doing it twice is doing nothing, for any R
and R'.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from ..core.arrays import FloatArray
from ..core.errors import IKError
from ..core.roles import Character, Side
from ..core.rotation import (
    EULER_ORDERS,
    axis_angle_from_quat,
    euler_from_matrix_near,
    matrix_from_euler,
    matrix_from_quat,
    order_index,
    quat_from_axis_angle,
    quat_from_matrix,
)
from ..core.skeleton import Skeleton
from .animation import rotation_channel
from .armature import check_armature, read_armature
from .effectors import AXES, label_of
from .entries import add_effector
from .limits import joint_entries, limits_of, own_limits, store_limits, turned_limits
from .properties import POISE_PG_effector, settings_of
from .reports import listed, sentences
from .setup import read_character

DIRECTIONS: Final = ('FLIP', 'LEFT_TO_RIGHT', 'RIGHT_TO_LEFT')

COPIED: Final = (
    "kind",
    "priority",
    "weight",
    "enabled",
    "position_axes",
    "orientation_axes",
    "influence",
    "chain_depth",
    "height",
    "distance",
    "is_support",
    "stay",
    "stay_scope",
)
"""Settings of effectors that are the same on both sides."""

SYMMETRIC: Final = 1e-4
"""Cosine [1] between axes up to which they are square: rest matrices are stored in single precision."""

OTHER_BONES: Final = ("root_bone", "tip_bone", "other_bone")
"""Settings of effectors that name further bones."""


@dataclass(frozen=True)
class MirrorReport:
    """What was mirrored."""

    effectors: tuple[str, ...]
    """Names of effectors with other settings than before."""
    targets: tuple[str, ...]
    """Names of targets that were moved."""
    limits: tuple[str, ...]
    """Bones with other limits than before."""
    bones: tuple[str, ...]
    """Bones that were posed."""
    notes: tuple[str, ...]
    """What could not be mirrored, one sentence each."""

    def summary(self) -> str:
        """Return how much was mirrored, for the status bar."""
        counts = (
            (len(self.effectors), "effector"),
            (len(self.targets), "target"),
            (len(self.limits), "limit"),
            (len(self.bones), "bone"),
        )
        parts = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts if count]
        return sentences(f"mirrored {', '.join(parts)}" if parts else "nothing to mirror", *self.notes)


def mirror(
    armature_object: Object,
    direction: str = 'FLIP',
    *,
    settings: bool = True,
    targets: bool = True,
    limits: bool = True,
    pose: bool = True,
) -> MirrorReport:
    """Mirror an armature's set-up and pose.

    Args:
        armature_object: The original armature object.
        direction: 'FLIP' exchanges both sides, 'LEFT_TO_RIGHT' and 'RIGHT_TO_LEFT' copy one to the other.
        settings: Settings of effectors.
        targets: Places and orientations of targets.
        limits: Limits, stiffness and preferred angles.
        pose: Location and rotation of bones.

    Raises:
        IKError: The armature cannot be posed, or there is no such direction.
    """
    check_armature(armature_object)
    if direction not in DIRECTIONS:
        raise IKError(f"there is no direction {direction!r} to mirror in; there are {', '.join(DIRECTIONS)}")
    body = _Body.read(armature_object, direction)
    notes: list[str] = []
    changed = _mirror_settings(armature_object, body, notes) if settings else ()
    moved = _mirror_targets(armature_object, body, notes) if targets else ()
    limited = _mirror_limits(armature_object, body, notes) if limits else ()
    posed = _mirror_pose(armature_object, body) if pose else ()
    return MirrorReport(changed, moved, limited, posed, tuple(dict.fromkeys(notes)))


@dataclass(frozen=True)
class _Body:
    """Which bone is which one's counterpart, and the plane between them."""

    skeleton: Skeleton
    other: Mapping[str, str]
    """Bone -> its counterpart; bones in the middle are their own."""
    sources: frozenset[str]
    """Bones from which is mirrored: all, or those of one side."""
    reflection: FloatArray
    """S, (3, 3)."""
    origin: FloatArray
    """A point of the plane in armature space, (3,) [m]."""
    driven: frozenset[str]
    """Bones that cannot be posed."""

    @classmethod
    def read(cls, armature_object: Object, direction: str) -> "_Body":
        armature = read_armature(armature_object)
        skeleton = armature.skeleton
        character, _ = read_character(armature_object, skeleton)
        other = pairs(skeleton, character)
        normal = np.array([1.0, 0.0, 0.0])
        origin = np.zeros(3)
        if character.figures:
            normal = character.figures[0].left
            places = skeleton.armature_from_joint_rest[:, :3, 3]
            sided = [(skeleton.index(a), skeleton.index(b)) for a, b in other.items() if a != b]
            if sided:
                origin = np.mean([0.5 * (places[a] + places[b]) for a, b in sided], axis=0)
            else:
                origin = places[0]
        sources = set(skeleton.names)
        if direction != 'FLIP':
            wanted = Side.LEFT if direction == 'LEFT_TO_RIGHT' else Side.RIGHT
            sources = {name for name in skeleton.names if _side(skeleton, character, name, other) is wanted}
        reflection = np.eye(3) - 2.0 * np.outer(normal, normal)
        return cls(skeleton, other, frozenset(sources), reflection, origin, armature.driven)

    def rest(self, bone: str) -> FloatArray:
        """Rest rotation in armature space, (3, 3)."""
        # Stored in single precision: to be undone exactly its transpose must be its inverse.
        return rotation_in(self.skeleton.armature_from_joint_rest[self.skeleton.index(bone)])

    def turn(self, bone: str) -> FloatArray:
        """Vectors of a bone as vectors of its counterpart, (3, 3), a reflection: R'ᵀ S R."""
        return self.rest(self.other[bone]).T @ self.reflection @ self.rest(bone)


def pairs(skeleton: Skeleton, character: Character) -> dict[str, str]:
    """Return the counterpart of every bone, by name, else by role; bones without one are their own."""
    names = set(skeleton.names)
    other: dict[str, str] = {}
    by_role: dict[tuple[str, int], dict[Side, list[str]]] = {}
    for choice in character.choices:
        sides = by_role.setdefault((choice.role.value, choice.figure), {})
        sides.setdefault(choice.side, []).append(choice.name)
    for sides in by_role.values():
        left, right = sides.get(Side.LEFT, []), sides.get(Side.RIGHT, [])
        if len(left) == len(right):
            for a, b in zip(left, right, strict=True):
                other[a], other[b] = b, a
    for name in skeleton.names:
        flipped = bpy.utils.flip_name(name)
        if flipped != name and flipped in names and bpy.utils.flip_name(flipped) == name:
            previous = other.get(name, name)
            if previous not in (name, flipped):
                other.pop(previous, None)
            other[name] = flipped
    return {
        name: other[name] if other.get(other.get(name, name), name) == name and name in other else name
        for name in skeleton.names
    }


def _side(skeleton: Skeleton, character: Character, name: str, other: Mapping[str, str]) -> Side:
    """Return the side of a bone: by its role, else by its place against its counterpart."""
    side = character.side_of(name)
    if side is not None or other[name] == name:
        return side or Side.CENTRE
    left = character.figures[0].left if character.figures else np.array([1.0, 0.0, 0.0])
    places = skeleton.armature_from_joint_rest[:, :3, 3]
    across = float((places[skeleton.index(name)] - places[skeleton.index(other[name])]) @ left)
    return Side.LEFT if across > 0.0 else Side.RIGHT


# Effectors


def _counterparts(armature_object: Object, body: _Body) -> dict[int, int | None]:
    """Return the effector on the other side of each; itself in the middle, None where there is none."""
    entries = settings_of(armature_object).effectors
    groups: dict[tuple[str, str], list[int]] = {}
    for index, entry in enumerate(entries):
        groups.setdefault((entry.bone, entry.kind), []).append(index)
    found: dict[int, int | None] = {}
    for (bone, kind), members in groups.items():
        others = groups.get((body.other.get(bone, bone), kind), [])
        for row, index in enumerate(members):
            found[index] = others[row] if row < len(others) else None
    return found


def _mirror_settings(armature_object: Object, body: _Body, notes: list[str]) -> tuple[str, ...]:
    entries = settings_of(armature_object).effectors
    counterparts = _counterparts(armature_object, body)
    wanted: dict[int, dict[str, Any]] = {}
    alone: list[str] = []
    for index, counterpart in counterparts.items():
        entry = entries[index]
        if entry.bone not in body.sources:
            continue
        values = _mirrored_settings(entry, body)
        if counterpart is None and body.other[entry.bone] != entry.bone:
            if len(body.sources) == len(body.skeleton):
                alone.append(label_of(entry, index))
                continue
            counterpart = add_effector(armature_object, body.other[entry.bone], kind=entry.kind)
            flipped = bpy.utils.flip_name(entry.name)
            if flipped not in {other.name for other in entries}:
                entries[counterpart].name = flipped
            entries[counterpart].part = bpy.utils.flip_name(entry.part)
        if counterpart is not None:
            wanted[counterpart] = values
    if alone:
        notes.append(f"without a counterpart on the other side: {listed(alone)}")
    changed: list[str] = []
    for index, values in wanted.items():
        entry = entries[index]
        for name, value in values.items():
            setattr(entry, name, value)
        changed.append(entry.name)
    return tuple(changed)


def _mirrored_settings(entry: POISE_PG_effector, body: _Body) -> dict[str, Any]:
    """Return what the counterpart of an effector has in its place."""

    def plain(value: Any) -> Any:
        return value if isinstance(value, (str, bool, int, float)) else tuple(value)

    values = {name: plain(getattr(entry, name)) for name in COPIED}
    values |= {name: body.other.get(getattr(entry, name), getattr(entry, name)) for name in OTHER_BONES}
    turn = body.turn(entry.bone)
    values["point"] = tuple((turn @ np.array(entry.point)).tolist())
    axis = turn @ np.array(AXES[entry.axis])
    values["axis"] = max(AXES, key=lambda name: float(np.array(AXES[name]) @ axis))
    if entry.other_bone in body.other:
        values["other_point"] = tuple((body.turn(entry.other_bone) @ np.array(entry.other_point)).tolist())
    return values


def _mirror_targets(armature_object: Object, body: _Body, notes: list[str]) -> tuple[str, ...]:
    entries = settings_of(armature_object).effectors
    bpy.context.view_layer.update()
    world = np.array(armature_object.matrix_world)
    linear = rotation_in(world)
    places: dict[int, tuple[FloatArray, FloatArray]] = {}
    for index, counterpart in _counterparts(armature_object, body).items():
        entry = entries[index]
        if counterpart is None or entry.bone not in body.sources or entry.target is None:
            continue
        to = entries[counterpart].target
        if to is None or entry.target_bone or entries[counterpart].target_bone or not to.is_editable:
            notes.append(f"the target of {label_of(entry, index)!r} is no object that can be moved alone")
            continue
        if to.animation_data is not None and to.animation_data.action is not None:
            notes.append(f"target {to.name!r} is animated: its keys stay as they are")
        place, turned = _world_of(entry.target)
        inside = np.linalg.solve(world[:3, :3], place - world[:3, 3])
        mirrored = body.reflection @ (inside - body.origin) + body.origin
        # S T Rᵀ S R': the target of the counterpart is turned as the counterpart would be.
        turn = body.reflection @ linear.T @ turned @ body.rest(entry.bone).T @ body.reflection
        turn = turn @ body.rest(body.other[entry.bone])
        places[counterpart] = world[:3, :3] @ mirrored + world[:3, 3], linear @ turn
    moved: list[str] = []
    # Parents first: what they carry is put where it belongs after them.
    for index, (place, turn) in sorted(places.items(), key=lambda item: _depth(entries[item[0]].target)):
        target: Any = entries[index].target
        _put(target, place, turn)
        moved.append(target.name)
    return tuple(moved)


def rotation_in(matrix: FloatArray) -> FloatArray:
    """Return the rotation nearest to that in a matrix (4, 4) without its scale, (3, 3)."""
    linear = np.asarray(matrix[:3, :3], dtype=np.float64)
    u, _, vt = np.linalg.svd(linear / np.linalg.norm(linear, axis=0))
    return u @ vt


def _above(target: Any) -> FloatArray:
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
    if target.constraints or target.animation_data is not None:
        return np.array(target.matrix_world, dtype=np.float64)
    basis = np.eye(4)
    basis[:3, :3] = _rotation_of(target) * np.array(target.scale)
    basis[:3, 3] = target.location
    return _above(target) @ basis


def _world_of(target: Any) -> tuple[FloatArray, FloatArray]:
    """Return place (3,) and rotation (3, 3) of an object."""
    matrix = world_matrix(target)
    return matrix[:3, 3], rotation_in(matrix)


def _depth(target: Any) -> int:
    """Return how many parents an object has."""
    return 0 if target.parent is None else 1 + _depth(target.parent)


def _put(target: Any, place: FloatArray, turn: FloatArray) -> None:
    """Move an object by its own channels, not by way of its matrix, whose angles are rounded."""
    above = _above(target)
    linear = rotation_in(above)
    target.location = np.linalg.solve(above[:3, :3], place - above[:3, 3]).tolist()
    _set_rotation(target, linear.T @ turn, None)


# Rotations of objects and bones in their own modes


def _rotation_of(owner: Any) -> FloatArray:
    """Return the rotation of an object or a bone by its own channels, (3, 3)."""
    if owner.rotation_mode == 'QUATERNION':
        quat = np.array(owner.rotation_quaternion)
    elif owner.rotation_mode == 'AXIS_ANGLE':
        values = np.array(owner.rotation_axis_angle)
        quat = quat_from_axis_angle(values[1:] if values[1:].any() else (0.0, 1.0, 0.0), values[0])
    else:
        return matrix_from_euler(np.array(owner.rotation_euler), order_index(owner.rotation_mode))
    return matrix_from_quat(quat if quat.any() else (1.0, 0.0, 0.0, 0.0))


def _set_rotation(owner: Any, turn: FloatArray, near: Sequence[float] | None) -> None:
    """Write a rotation (3, 3) into the own channels of an object or a bone.

    Args:
        owner: The object or bone.
        turn: The rotation.
        near: Which of its representations is meant; without it the one nearest to that which is there.
    """
    if owner.rotation_mode in EULER_ORDERS:
        reference = np.array(owner.rotation_euler if near is None else near)
        owner.rotation_euler = euler_from_matrix_near(
            turn, order_index(owner.rotation_mode), reference
        ).tolist()
        return
    quat = quat_from_matrix(turn)
    if owner.rotation_mode == 'QUATERNION':
        reference = np.array(owner.rotation_quaternion if near is None else near)
        owner.rotation_quaternion = (-quat if quat @ reference < 0.0 else quat).tolist()
        return
    axis, angle = axis_angle_from_quat(quat)
    owner.rotation_axis_angle = (float(angle), *axis.tolist())


# Limits


def _mirror_limits(armature_object: Object, body: _Body, notes: list[str]) -> tuple[str, ...]:
    pose: Any = armature_object.pose
    entries = joint_entries(armature_object)
    wanted: dict[str, tuple[Any, str]] = {}
    askew: list[str] = []
    for bone in sorted(entries.keys() & body.sources & body.other.keys()):
        # Turns are mirrored the other way round than vectors.
        turned = turned_limits(limits_of(pose.bones[bone], entries[bone]), -body.turn(bone))
        if turned is None:
            askew.append(bone)
        else:
            wanted[body.other[bone]] = turned, entries[bone].source
    if askew:
        notes.append(f"the axes of these bones do not mirror those of the other side: {listed(askew)}")
    for bone, (limits, source) in wanted.items():
        entry = own_limits(armature_object, bone)
        store_limits(entry, limits, source)
        entry.is_held, entry.may_move = limits.is_held, limits.may_move
    return tuple(wanted)


# Poses


def _mirror_pose(armature_object: Object, body: _Body) -> tuple[str, ...]:
    pose: Any = armature_object.pose
    wanted: dict[str, tuple[FloatArray, FloatArray, _Channels | None, FloatArray]] = {}
    for bone in body.skeleton.names:
        to = body.other[bone]
        if bone not in body.sources or to in body.driven:
            continue
        source, turn = pose.bones[bone], body.turn(bone)
        rotation = turn @ _rotation_of(source) @ turn.T
        location = turn @ np.array(source.location)
        same = source.rotation_mode == pose.bones[to].rotation_mode
        near = _mirrored_channels(source, turn) if same else None
        wanted[to] = location, rotation, near, np.array(source.scale)
    for bone, (location, rotation, near, scale) in wanted.items():
        target = pose.bones[bone]
        target.location = location.tolist()
        if near is not None and near.exact:
            setattr(target, rotation_channel(target.rotation_mode)[0], near.values)
        else:
            _set_rotation(target, rotation, None if near is None else near.values)
        target.scale = scale.tolist()
    return tuple(wanted)


@dataclass(frozen=True)
class _Channels:
    """The rotation of a bone as its counterpart should be written, with its turns and its sign."""

    values: list[float]
    exact: bool
    """Whether they are the mirrored rotation itself, or only near to it."""


def _mirrored_channels(source: Any, turn: FloatArray) -> _Channels:
    """Return the rotation channels of a bone for its counterpart.

    Where their axes are mirror images, which they are in most rigs, these are the same numbers with other
    signs, and no digit is lost, not even near gimbal lock.
    """
    signs = np.rint(turn)
    exact = bool(np.abs(signs - turn).max() < SYMMETRIC and (signs == np.diag(np.diag(signs))).all())
    turn = signs if exact else turn
    values = np.array(getattr(source, rotation_channel(source.rotation_mode)[0]))
    return _Channels([*values[:-3].tolist(), *(-turn @ values[-3:]).tolist()], exact)

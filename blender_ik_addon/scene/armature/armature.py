# SPDX-License-Identifier: GPL-3.0-or-later
"""An armature object as a Skeleton: its bones, which of their channels may change, its place in the world.

A bone's joint has the bone's own channels: location and Euler angles as they are keyed. A bone in quaternion
or axis-angle mode gets an Euler order in which its present rotation is far from gimbal lock, and is written
in its own mode.

Driven bones, which constraints or drivers pose and not their own channels, have no free channels: Blender
overrides what is written there. A constraint that is off now, but whose influence is animated or driven,
counts as on.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Depsgraph, Object, PoseBone
from bpy.utils import unescape_identifier

from ...core.arrays import BoolArray, FloatArray, IntArray, freeze
from ...core.errors import IKError
from ...core.messages import Message
from ...core.model.rotation import EULER_ORDERS
from ...core.model.skeleton import CHANNELS, INHERIT_SCALE, Skeleton
from ..animation.fcurves import Channel, acting, bone_path, driven_channels, rotation_channel
from ..kinds.frame_data import NO_SCALE
from ..properties.overrides import library_of
from ..properties.settings import check_editable
from .limits import joint_entries, keeps_inside, limits_of_all
from .rotation_modes import far_orders, locks_of_all, matrices_of

SCALE_TOLERANCE: Final = 1e-4
"""Largest unevenness or shear of the object [1] that is still taken for rounding: 0.2 mm on two metres."""

_TRANSFORM: Final = re.compile(r'pose\.bones\["((?:[^"\\]|\\.)*)"\]\.(location|rotation_\w+|scale)$')

_TURNING_IN_SPACE: Final = frozenset({'COPY_ROTATION', 'COPY_TRANSFORMS'})
"""Types of constraints that turn a bone in a space of the user's choice."""

_TURNING: Final = frozenset({'TRACK_TO', 'DAMPED_TRACK', 'ARMATURE'})
"""Types that turn a bone in the space of the armature, more or less."""


@dataclass(frozen=True)
class Armature:
    """An armature object as plain data."""

    object_name: str
    """Name of the armature object."""
    skeleton: Skeleton
    """All bones; names are bone names, parents come before children."""
    rotation_modes: tuple[str, ...]
    """Rotation mode of each bone, (n,): one of the Euler orders, 'QUATERNION' or 'AXIS_ANGLE'."""
    written: BoolArray
    """Components that may be written, (n, 7): location x, y, z, then rotation w (or angle), x, y, z."""
    connected: BoolArray
    """Which bones stay at the tail of their parent, (n,)."""
    driven_by: Mapping[str, str]
    """Bones that constraints or drivers pose -> which of them does, in words."""

    def __post_init__(self) -> None:
        freeze(self, "written", "connected", dtype=np.bool_)
        object.__setattr__(self, "driven_by", MappingProxyType(dict(self.driven_by)))

    @cached_property
    def in_four(self) -> BoolArray:
        """Which bones are turned by a quaternion or axis and angle, (n,)."""
        return ~np.isin(self.rotation_modes, EULER_ORDERS)

    @cached_property
    def is_driven(self) -> BoolArray:
        """Which bones constraints or drivers pose, (n,)."""
        return np.array([name in self.driven_by for name in self.skeleton.names], dtype=np.bool_)

    def written_properties(self, joint: int) -> tuple[tuple[str, list[bool]], tuple[str, list[bool]]]:
        """Return location and rotation of a bone, by the names that Blender has for them in the bone's mode.

        For each the components that may be written.
        """
        written, (rotation, width) = (
            self.written[joint].tolist(),
            rotation_channel(self.rotation_modes[joint]),
        )
        return ("location", written[:3]), (rotation, written[-width:])

    def written_channels(self, joint: int) -> list[Channel]:
        """Return the channels of a bone that a solve may write."""
        name, own = self.skeleton.names[joint], self.written_properties(joint)
        return [(bone_path(name, path), i) for path, mask in own for i, on in enumerate(mask) if on]

    @property
    def driven(self) -> frozenset[str]:
        """Names of the bones that constraints or drivers pose."""
        return frozenset(self.driven_by)


def updated(depsgraph: Depsgraph | None) -> Depsgraph:
    """Return a depsgraph, that of the context for None, as everything is now (IKError: it is none)."""
    if depsgraph is not None and not isinstance(depsgraph, Depsgraph):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise IKError(
            "a depsgraph is needed, got {given!r}: bpy.context.evaluated_depsgraph_get() is one, which is "
            "taken where none is given",
            given=depsgraph,
        )
    depsgraph = depsgraph or bpy.context.evaluated_depsgraph_get()
    depsgraph.update()
    return depsgraph


def check_armature(armature_object: Object | None) -> None:
    """Refuse what cannot be posed (IKError: also in edit mode, in rest position, or without bones)."""
    check_editable(armature_object)
    assert armature_object is not None
    name = armature_object.name
    data: Any = armature_object.data
    if data.is_editmode:
        raise IKError("armature {name!r} is in Edit Mode: leave it (Tab) first", name=name)
    if data.is_missing:
        raise IKError(
            "armature {name!r}: its bones are missing from {where}. Relink it",
            name=name,
            where=library_of(data),
        )
    if not data.bones:
        raise IKError("armature {name!r} has no bones: add some in Edit Mode", name=name)
    if data.pose_position == 'REST':
        raise IKError(
            "armature {name!r} is shown in rest position: switch it to Pose Position (Armature tab)",
            name=name,
        )


def read_armature(armature_object: Object, *, move_root: bool = True) -> Armature:
    """Read all bones of an armature object, the original one.

    With `move_root` parentless bones may translate where their location is not locked.

    Raises:
        IKError: See `check_armature`; or a bone's rest matrix or limits are not valid.
    """
    check_armature(armature_object)
    data: Any = armature_object.data
    bones = list(data.bones)  # Blender lists parents before their children
    names = tuple(bone.name for bone in bones)
    index = {name: joint for joint, name in enumerate(names)}
    parents = [-1 if bone.parent is None else index[bone.parent.name] for bone in bones]
    pose_bones = pose_bones_named(armature_object, names)
    driven_by = driven_bones(armature_object)
    steady = steady_bones(armature_object) & driven_by.keys()
    limits = limits_of_all(armature_object, pose_bones)
    own = [bone for bone in pose_bones if bone.name not in driven_by]
    locks = dict(zip((bone.name for bone in own), locks_of_all(armature_object, own), strict=True))
    n = len(names)
    written, free = np.zeros((n, 7), dtype=np.bool_), np.zeros((n, CHANNELS), dtype=np.bool_)
    lower, upper = np.full((n, CHANNELS), -np.inf), np.full((n, CHANNELS), np.inf)
    stiffness, preferred = np.zeros((2, n, CHANNELS))
    lower[:, 3:], upper[:, 3:] = [limit.lower for limit in limits], [limit.upper for limit in limits]
    stiffness[:, 3:] = [limit.stiffness for limit in limits]
    preferred[:, 3:] = [limit.preferred for limit in limits]
    for joint, (bone, limit) in enumerate(zip(pose_bones, limits, strict=True)):
        if names[joint] in locks and not limit.is_held:
            free[joint, 3:], written[joint, 3:] = locks[names[joint]].free, locks[names[joint]].written
            if move_root and (parents[joint] < 0 or (limit.may_move and not bone.bone.use_connect)):
                free[joint, :3] = written[joint, :3] = ~np.array(bone.lock_location)
    # Wherever the figure has gone and faces is as good as its rest.
    preferred[free[:, :3].any(axis=1)] = np.nan
    skeleton = Skeleton(
        names=names,
        parents=np.array(parents, dtype=np.int64),
        rest=_rest_matrices(data.bones, parents),
        orders=_orders(pose_bones, [limit.order for limit in limits]),
        free=free,
        lower=lower,
        upper=upper,
        stiffness=stiffness,
        preferred=preferred,
        inherit_rotation=np.array([bone.use_inherit_rotation and bone.name not in steady for bone in bones]),
        inherit_scale=np.array([INHERIT_SCALE.index(bone.inherit_scale) for bone in bones]),
        local_location=np.array([bone.use_local_location for bone in bones]),
    )
    modes = tuple(bone.rotation_mode for bone in pose_bones)
    connected = np.array([bone.use_connect for bone in bones])
    return Armature(armature_object.name, skeleton, modes, written, connected, driven_by)


def _orders(pose_bones: Sequence[PoseBone], orders: Sequence[int | None]) -> IntArray:
    """Return Euler orders: those of the limits; without any one that is far from gimbal lock at present.

    Limits have the same order in every pose, or they would be other limits in each.
    """
    found = np.array([-1 if order is None else order for order in orders])
    loose = [bone for bone, order in zip(pose_bones, orders, strict=True) if order is None]
    if loose:
        quats = np.array([bone.rotation_quaternion for bone in loose])
        axis_angles = np.array([bone.rotation_axis_angle for bone in loose])
        found[found < 0] = far_orders(matrices_of([bone.rotation_mode for bone in loose], quats, axis_angles))
    return found


def _rest_matrices(bones: Any, parents: Sequence[int]) -> FloatArray:
    """Return parent_from_joint_rest, (n, 4, 4); for a root armature_from_joint_rest.

    From the bone's own matrix, its head and its parent's length: what Blender poses with. The difference of
    two `matrix_local` is the same but for rounding, which then adds up along long chains.
    """
    rest = np.swapaxes(read_all(bones, "matrix_local", 4, 4), 1, 2).copy()  # column-major
    below = np.array(parents) >= 0
    rest[below, :3, :3] = np.swapaxes(read_all(bones, "matrix", 3, 3), 1, 2)[below]
    rest[below, :3, 3] = read_all(bones, "head", 3)[below]
    # Heads are relative to the parent's tail.
    rest[below, 1, 3] += read_all(bones, "length")[np.array(parents)[below]]
    return rest


def read_all(collection: Any, attribute: str, *shape: int) -> FloatArray:
    """Return an attribute of all elements of a collection, (n, *shape)."""
    buffer = np.empty((len(collection), *shape), dtype=np.float32)
    collection.foreach_get(attribute, buffer.reshape(-1))
    return buffer.astype(np.float64)


def pose_bones_named(armature_object: Object, names: Iterable[str]) -> list[PoseBone]:
    """Return pose bones by name, for use within one call only (IKError: a bone is not there)."""
    found = {bone.name: bone for bone in armature_object.pose.bones} if armature_object.pose else {}
    try:
        return [found[name] for name in names]
    except KeyError as missing:
        raise IKError(
            "armature {armature!r} has no pose bone {missing}: was it renamed or removed? Read "
            "the armature again, after an update of the scene",
            armature=armature_object.name,
            missing=missing,
        ) from None


def world_from_armature(armature_object_evaluated: Object) -> tuple[FloatArray, float]:
    """Return the object's place in the world, (4, 4) [m], and its scale [1] (IKError: it is not even)."""
    name = armature_object_evaluated.name
    matrix = np.array(armature_object_evaluated.matrix_world, dtype=np.float64)
    linear = matrix[:3, :3]
    lengths = np.linalg.norm(linear, axis=0)
    found = "({})".format(", ".join(f"{length:.6g}" for length in lengths))
    if not np.isfinite(matrix).all() or lengths.min() <= NO_SCALE:
        raise IKError(
            "armature {name!r} has the scale {found} in the world: no axis may be zero",
            name=name,
            found=found,
        )
    gram, volume = linear.T @ linear / np.square(lengths).mean(), float(np.linalg.det(linear))
    fault = ""
    if np.ptp(lengths) > SCALE_TOLERANCE * lengths.mean():
        fault = Message("has the uneven scale {found} in the world", found=found)
    elif np.abs(gram - np.diag(np.diag(gram))).max() > SCALE_TOLERANCE:
        fault = Message("is sheared in the world, with the scale {found}", found=found)
    elif volume < 0.0:
        fault = Message("is mirrored in the world (negative scale, its size is {found})", found=found)
    if fault:
        raise IKError(
            "armature {name!r} {fault}: apply its scale (Object > Apply > Scale), and that of the "
            "objects it is parented to",
            name=name,
            fault=fault,
        )
    return matrix, float(np.cbrt(volume))


# Driven bones


def driven_bones(armature_object: Object) -> dict[str, str]:
    """Return the bones that constraints or drivers pose -> which of them does, in words."""
    if armature_object.pose is None:
        return {}
    driven: dict[str, str] = {}
    for path, _ in driven_channels(armature_object):
        if (match := _TRANSFORM.match(path)) is not None:
            driven[unescape_identifier(match[1])] = Message("a driver")
    entries, bones = joint_entries(armature_object), armature_object.pose.bones
    for bone, constraint in acting(armature_object, bones):
        # What is solved stays inside limits, so that these change nothing.
        if constraint.is_valid and not keeps_inside(bone, constraint, entries.get(bone.name)):
            for affected in _affected_bones(bone, constraint):
                driven.setdefault(affected, Message("a constraint ({type})", type=constraint.type))
    return {bone.name: driven[bone.name] for bone in bones if bone.name in driven}


def steady_bones(armature_object: Object) -> frozenset[str]:
    """Return the bones that constraints keep turned the same way in armature space, as parents turn.

    Other driven bones are taken to turn with their parents until it is known what they do.
    """
    bones: Any = () if armature_object.pose is None else armature_object.pose.bones
    return frozenset(
        bone.name
        for bone in bones
        if any(_keeps_turned(bone, constraint, armature_object) for constraint in bone.constraints)
    )


def _keeps_turned(bone: PoseBone, constraint: Any, armature_object: Object) -> bool:
    """Return whether a constraint turns its bone with something that hardly turns itself.

    That is anything outside of the body, and bones above the bone's parent: a head that stays upright by
    the torso (Rigify) turns with that, and not with the spine between them.
    """
    if constraint.type not in _TURNING | _TURNING_IN_SPACE:
        return False
    if not constraint.is_valid or constraint.mute or constraint.influence < 0.5:
        return False
    own = [constraint, *getattr(constraint, "targets", ())]
    inside = [target.subtarget for target in own if getattr(target, "target", None) == armature_object]
    if inside and not {ancestor.name for ancestor in bone.parent_recursive[1:]}.issuperset(inside):
        return False  # it moves itself
    if constraint.type in _TURNING:
        return True
    whole = all(getattr(constraint, f"use_{axis}", True) for axis in "xyz")
    return (
        constraint.owner_space in {'WORLD', 'POSE', 'CUSTOM'} and constraint.mix_mode == 'REPLACE' and whole
    )


def _affected_bones(bone: PoseBone, constraint: Any) -> list[str]:
    """Return the bones that a constraint moves: its own and, for both kinds of IK, the chain above it."""
    if constraint.type not in {'IK', 'SPLINE_IK'}:
        return [bone.name]
    tip = bone if constraint.type == 'SPLINE_IK' or constraint.use_tail else bone.parent
    chain = [] if tip is None else [tip.name, *(ancestor.name for ancestor in tip.parent_recursive)]
    return [bone.name, *(chain[: constraint.chain_count] if constraint.chain_count else chain)]

# SPDX-License-Identifier: GPL-3.0-or-later
"""An armature object as a Skeleton and a Pose, and a Pose back into its bones.

A bone's joint has the bone's own channels: location and Euler angles as they are keyed. A bone in quaternion
or axis-angle mode gets an Euler order in which its present rotation is far from gimbal lock, and is written
back in its own mode. What Blender decides after the channels (constraints, drivers) is read as the channels
that give the same matrices, and is never free; so forward kinematics of a pose that was read equals
`PoseBone.matrix` on the evaluated object.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import bpy
import numpy as np
import numpy.typing as npt

from ..core.arrays import BoolArray, FloatArray, IntArray, frozen
from ..core.errors import IKError
from ..core.kinematics import orthogonalized, parent_transform
from ..core.rotation import EULER_ORDERS, euler_from_matrix_near, matrix_from_euler, order_index
from ..core.skeleton import CHANNELS, INHERIT_SCALE, Pose, Skeleton
from .animation import ChannelKeys, bone_keys, rotation_channel
from .driven import driven_bones, steady_bones
from .limits import BoneLimits, joint_entries, limits_of
from .rotation_modes import (
    RotationLocks,
    bone_rotations,
    far_orders,
    matrix_from_bone_axis_angle,
    matrix_from_bone_quat,
)

if TYPE_CHECKING:
    from bpy.types import Depsgraph, Object, PoseBone

SCALE_TOLERANCE: Final = 1e-4
"""Largest unevenness or shear of the object [1] that is still taken for rounding: 0.2 mm on two metres."""

SHEAR_TOLERANCE: Final = 1e-4
"""Cosine between two axes of a bone [1] up to which shear is taken for rounding."""

NO_SCALE: Final = 1e-12
"""Object or bone scale [1] at and below which nothing can be inverted."""

_NAMES_SHOWN: Final = 6
"""How many bones a note lists before it says how many more there are."""


@dataclass(frozen=True)
class Armature:
    """What was read of an armature object; holds names, no Blender data."""

    object_name: str
    """Name of the armature object."""
    skeleton: Skeleton
    """All bones; names are bone names, parents come before children."""
    rotation_modes: tuple[str, ...]
    """Rotation mode of each bone, (n,): one of the Euler orders, 'QUATERNION' or 'AXIS_ANGLE'."""
    written: BoolArray
    """Components that may be written, (n, 7): location x, y, z, then rotation w (or angle), x, y, z."""
    driven_by: Mapping[str, str]
    """Bones that constraints or drivers decide -> what decides them, in words."""
    notes: tuple[str, ...]
    """What the user should know, one sentence each."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "written", frozen(self.written, np.bool_))
        object.__setattr__(self, "driven_by", MappingProxyType(dict(self.driven_by)))

    @property
    def driven(self) -> frozenset[str]:
        """Names of the bones that constraints or drivers decide."""
        return frozenset(self.driven_by)


# Reading the skeleton


def check_armature(armature_object: "Object | None") -> None:
    """Refuse what cannot be posed.

    Raises:
        IKError: No object, not an armature, linked, in edit mode, in rest position, or without bones.
    """
    if armature_object is None:
        raise IKError("no armature object is given: select an armature")
    name = armature_object.name
    data: Any = armature_object.data
    if armature_object.type != 'ARMATURE':
        raise IKError(f"object {name!r} is of type {armature_object.type}, not an armature")
    override = armature_object.override_library
    if override is not None and override.is_system_override:
        raise IKError(
            f"the library override of {name!r} is not editable: make it editable (Object > Library Override)"
        )
    if not armature_object.is_editable:
        library = armature_object.library
        where = f" from {library.filepath}" if library is not None else ""
        raise IKError(
            f"armature {name!r} is linked{where} and cannot be posed: make a library override of it "
            "(Object > Library Override > Make)"
        )
    if data.is_editmode:
        raise IKError(f"armature {name!r} is in Edit Mode: leave it (Tab) first")
    if not data.bones:
        raise IKError(f"armature {name!r} has no bones: add some in Edit Mode")
    if data.pose_position == 'REST':
        raise IKError(
            f"armature {name!r} is shown in rest position: switch it to Pose Position (Armature tab)"
        )


def read_armature(armature_object: "Object", *, move_root: bool = True) -> Armature:
    """Read all bones of an armature object.

    Args:
        armature_object: The original (not the evaluated) object.
        move_root: Whether parentless bones may translate where their location is not locked.

    Raises:
        IKError: See `check_armature`; or a bone's rest matrix is none.
    """
    check_armature(armature_object)
    data: Any = armature_object.data
    names, parents = parents_first(data.bones)
    pose_bones = pose_bones_named(armature_object, names)
    driven_by = driven_bones(armature_object)
    steady = steady_bones(armature_object) & driven_by.keys()
    entries = joint_entries(armature_object)
    limits = [limits_of(bone, entries.get(bone.name)) for bone in pose_bones]
    n = len(names)
    locks = [RotationLocks.of(bone) for bone in pose_bones]
    written = np.zeros((n, 7), dtype=np.bool_)
    free = np.zeros((n, CHANNELS), dtype=np.bool_)
    lower, upper = np.full((n, CHANNELS), -np.inf), np.full((n, CHANNELS), np.inf)
    stiffness = np.zeros((n, CHANNELS))
    preferred = np.zeros((n, CHANNELS))
    for joint, bone in enumerate(pose_bones):
        if names[joint] not in driven_by and not limits[joint].is_held:
            free[joint, 3:], written[joint, 3:] = locks[joint].free, locks[joint].written
            if move_root and (parents[joint] < 0 or _may_move(bone, limits[joint])):
                free[joint, :3] = written[joint, :3] = ~np.array(bone.lock_location)
        preferred[joint, 3:] = limits[joint].preferred
        if free[joint, :3].any():
            preferred[joint] = np.nan  # wherever the figure has gone and faces is as good as its rest
        lower[joint, 3:], upper[joint, 3:] = limits[joint].lower, limits[joint].upper
        stiffness[joint, 3:] = limits[joint].stiffness
    bones = [data.bones[name] for name in names]
    skeleton = Skeleton(
        names=names,
        parents=np.array(parents, dtype=np.int64),
        rest=_rest_matrices(data.bones, names, parents),
        orders=_orders(pose_bones, limits),
        free=free,
        lower=lower,
        upper=upper,
        stiffness=stiffness,
        preferred=preferred,
        inherit_rotation=np.array([bone.use_inherit_rotation and bone.name not in steady for bone in bones]),
        inherit_scale=np.array([INHERIT_SCALE.index(bone.inherit_scale) for bone in bones]),
        local_location=np.array([bone.use_local_location for bone in bones]),
    )
    held = [names[joint] for joint in range(n) if locks[joint].unsolvable and names[joint] not in driven_by]
    return Armature(
        object_name=armature_object.name,
        skeleton=skeleton,
        rotation_modes=tuple(bone.rotation_mode for bone in pose_bones),
        written=written,
        driven_by=driven_by,
        notes=_notes(driven_by, held),
    )


def parents_first(bones: Any) -> tuple[tuple[str, ...], list[int]]:
    """Return names and parent indices, parents before children; otherwise in Blender's order."""
    parent_of = {bone.name: bone.parent.name if bone.parent else None for bone in bones}
    index: dict[str, int] = {}
    for name in parent_of:
        branch: list[str] = []
        ancestor: str | None = name
        while ancestor is not None and ancestor not in index:
            branch.append(ancestor)
            ancestor = parent_of[ancestor]
        for ancestor in reversed(branch):
            index[ancestor] = len(index)
    names = tuple(index)
    return names, [-1 if (parent := parent_of[name]) is None else index[parent] for name in names]


def _may_move(bone: "PoseBone", limits: BoneLimits) -> bool:
    """Return whether a bone that has a parent may change its location; connected bones have none."""
    return limits.may_move and not bone.bone.use_connect


def _orders(pose_bones: "Sequence[PoseBone]", limits: Sequence[BoneLimits]) -> IntArray:
    """Return indices of the bones' Euler orders, (n,); without one, an order far from gimbal lock.

    What is limited has the order of its limits, whatever the pose: else they would be other limits in each.
    """
    modes = np.array([bone.rotation_mode for bone in pose_bones])
    orders = np.array([order_index(mode) if mode in EULER_ORDERS else -1 for mode in modes.tolist()])
    for mode, attribute, matrices in (
        ('QUATERNION', "rotation_quaternion", matrix_from_bone_quat),
        ('AXIS_ANGLE', "rotation_axis_angle", matrix_from_bone_axis_angle),
    ):
        rows = np.flatnonzero(modes == mode)
        if len(rows):
            values = np.array([getattr(pose_bones[row], attribute) for row in rows.tolist()])
            orders[rows] = far_orders(matrices(values))
    for row, of_bone in enumerate(limits):
        if of_bone.order is not None:
            orders[row] = of_bone.order
    return orders


def _rest_matrices(bones: Any, names: Sequence[str], parents: Sequence[int]) -> FloatArray:
    """Return parent_from_joint_rest, (n, 4, 4); for a root armature_from_joint_rest.

    From the bone's own matrix, its head and its parent's length: what Blender poses with. The difference of
    two `matrix_local` is the same but for rounding, which then adds up along long chains.
    """
    rows = {bone.name: row for row, bone in enumerate(bones)}
    order = [rows[name] for name in names]

    def read(attribute: str, shape: tuple[int, ...]) -> FloatArray:
        buffer = np.empty((len(names), *shape), dtype=np.float32)
        bones.foreach_get(attribute, buffer.reshape(-1))
        return buffer[order].astype(np.float64)

    lengths = read("length", ())
    rest = np.tile(np.eye(4), (len(names), 1, 1))
    rest[:, :3, :3] = np.swapaxes(read("matrix", (3, 3)), 1, 2)  # column-major
    rest[:, :3, 3] = read("head", (3,))
    in_armature = np.swapaxes(read("matrix_local", (4, 4)), 1, 2)
    for joint, parent in enumerate(parents):
        if parent < 0:
            rest[joint] = in_armature[joint]
        else:
            rest[joint, 1, 3] += lengths[parent]  # heads are relative to the parent's tail
    return rest


def pose_bones_named(armature_object: "Object", names: Iterable[str]) -> "list[PoseBone]":
    """Return pose bones by name. For use within one call only.

    Raises:
        IKError: A bone is not there.
    """
    pose = armature_object.pose
    found = {} if pose is None else {bone.name: bone for bone in pose.bones}
    try:
        return [found[name] for name in names]
    except KeyError as missing:
        raise IKError(
            f"armature {armature_object.name!r} has no pose bone {missing}: was it renamed or removed? "
            "Read the armature again, after an update of the scene"
        ) from None


def _notes(driven_by: Mapping[str, str], held: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence for each reason why bones are not solved."""
    notes: list[str] = []
    for reason in dict.fromkeys(driven_by.values()):
        bones = [bone for bone, of_bone in driven_by.items() if of_bone == reason]
        notes.append(f"{_bones_are(bones)} decided by {reason} and not solved: {_listed(bones)}")
    if held:
        notes.append(
            f"{_bones_are(held)} not turned, because the rotation locks hold some of four components that "
            f"only change together (lock all of them, or use an Euler mode): {_listed(held)}"
        )
    return tuple(notes)


def _bones_are(bones: Sequence[str]) -> str:
    return "1 bone is" if len(bones) == 1 else f"{len(bones)} bones are"


def _listed(bones: Sequence[str]) -> str:
    shown = ", ".join(repr(bone) for bone in bones[:_NAMES_SHOWN])
    more = len(bones) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


# Reading poses


def read_pose(
    armature_object: "Object",
    armature: Armature,
    *,
    reference: Pose | None = None,
    depsgraph: "Depsgraph | None" = None,
) -> Pose:
    """Read the present pose, one frame, in the skeleton's rotation orders.

    Args:
        armature_object: The original object.
        armature: What `read_armature` returned for it.
        reference: Angles of quaternion, axis-angle and driven bones are given nearest to this pose.
        depsgraph: Where driven bones are evaluated; by default that of the context. Not used without any.

    Raises:
        IKError: Bones or their rotation modes are not those of `armature` any more.
    """
    skeleton = armature.skeleton
    n = len(skeleton)
    pose_bones, order = _unchanged(armature_object, armature)

    def read(attribute: str, width: int) -> FloatArray:
        buffer = np.empty((n, width), dtype=np.float32)
        pose_bones.foreach_get(attribute, buffer.reshape(-1))
        return buffer[order].astype(np.float64)

    modes = np.array(armature.rotation_modes)
    connected = np.array([bone.bone.use_connect for bone in pose_bones], dtype=np.bool_)[order]
    channels = np.concatenate([read("location", 3), read("rotation_euler", 3)], axis=1)  # (n, 6)
    channels[connected, :3] = 0.0  # Blender leaves the location of a connected bone out
    scale = read("scale", 3)
    # Without a reference those angles that keep to the limits, where there are such.
    near = np.clip(0.0, skeleton.lower[:, 3:], skeleton.upper[:, 3:])
    near = near if reference is None else reference.rotation
    four = ~np.isin(modes, EULER_ORDERS)
    if four.any():
        matrices = np.where(
            (modes == 'QUATERNION')[:, None, None],
            matrix_from_bone_quat(read("rotation_quaternion", 4)),
            matrix_from_bone_axis_angle(read("rotation_axis_angle", 4)),
        )
        channels[four, 3:] = euler_from_matrix_near(matrices[four], skeleton.orders[four], near[four])
    if armature.driven_by:
        driven = np.array([skeleton.index(name) for name in armature.driven_by])
        matrices = _evaluated_matrices(armature_object, armature, depsgraph)
        if reference is None:
            near = channels[:, 3:]
        channels[driven], scale[driven] = decided_channels(skeleton, matrices, driven, near[driven])
    return Pose(channels, scale)


def decided_channels(
    skeleton: Skeleton, matrices: FloatArray, joints: IntArray, near: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the channels (k, 6) and the scale (k, 3) that put joints where they are.

    Args:
        skeleton: The skeleton.
        matrices: armature_from_joint of all joints, (n, 4, 4).
        joints: (k,) which ones are asked for.
        near: Angles (k, 3) to which theirs are the nearest; of those without orientation they are these.
    """
    translation, own = _own_transforms(skeleton, matrices, joints)
    rotation, known = _rotation_part(own)
    orders = skeleton.orders[joints]
    rotation[~known] = matrix_from_euler(near[~known], orders[~known])
    angles = euler_from_matrix_near(rotation, orders, near)
    return np.concatenate([translation, angles], axis=1), np.einsum("kij,kij->kj", rotation, own)


def _unchanged(armature_object: "Object", armature: Armature) -> tuple[Any, list[int]]:
    """Return the pose bones, and where in them each joint is.

    Raises:
        IKError: Bones were added, removed or renamed, or have another rotation mode now.
    """
    pose_bones: Any = () if armature_object.pose is None else armature_object.pose.bones
    rows = {bone.name: row for row, bone in enumerate(pose_bones)}
    if rows.keys() != set(armature.skeleton.names):
        changed = sorted(rows.keys() ^ set(armature.skeleton.names))
        raise IKError(
            f"the bones of {armature_object.name!r} have changed since they were read ({_listed(changed)}): "
            "read the armature again"
        )
    order = [rows[name] for name in armature.skeleton.names]
    modes = [bone.rotation_mode for bone in pose_bones]
    for row, name, mode in zip(order, armature.skeleton.names, armature.rotation_modes, strict=True):
        if modes[row] != mode:
            raise IKError(
                f"bone {name!r} of {armature_object.name!r} has rotation mode {modes[row]} now, it was read "
                f"as {mode}: read the armature again"
            )
    return pose_bones, order


def _evaluated_matrices(
    armature_object: "Object", armature: Armature, depsgraph: "Depsgraph | None"
) -> FloatArray:
    """Return `PoseBone.matrix` of every joint on the evaluated object, (n, 4, 4) [m]."""
    if depsgraph is None:
        depsgraph = bpy.context.evaluated_depsgraph_get()
    evaluated = armature_object.evaluated_get(depsgraph)
    if not evaluated.is_evaluated:
        raise IKError(
            f"armature {armature_object.name!r} is in no visible collection of this view layer, so its "
            "constraints and drivers are not evaluated"
        )
    return evaluated_matrices(evaluated, armature)


def evaluated_matrices(evaluated_object: "Object", armature: Armature) -> FloatArray:
    """Read `PoseBone.matrix` of every joint of an evaluated armature object, (n, 4, 4) [m]."""
    bones: Any = () if evaluated_object.pose is None else evaluated_object.pose.bones
    rows = {bone.name: row for row, bone in enumerate(bones)}
    buffer = np.empty((len(bones), 4, 4), dtype=np.float32)
    bones.foreach_get("matrix", buffer.reshape(-1))
    order = [rows[name] for name in armature.skeleton.names]
    return np.swapaxes(buffer[order], 1, 2).astype(np.float64)  # column-major


def _own_transforms(
    skeleton: Skeleton, matrices: FloatArray, joints: npt.NDArray[np.int64]
) -> tuple[FloatArray, FloatArray]:
    """Return the translation (k, 3) and the rotation with scale (k, 3, 3) that put joints where they are.

    Args:
        skeleton: The skeleton.
        matrices: armature_from_joint of all joints, (n, 4, 4).
        joints: (k,) which ones are asked for.
    """
    linear, translation_axes = np.empty((2, len(joints), 3, 3))
    origin, post_scale = np.empty((len(joints), 3)), np.ones((len(joints), 3))
    plain = skeleton.inherit_rotation & (skeleton.inherit_scale == 0) & skeleton.local_location
    simple = (plain & (skeleton.parents >= 0))[joints]  # all at once; a generated rig has hundreds of these
    inherited = matrices[skeleton.parents[joints[simple]]] @ skeleton.rest[joints[simple]]
    linear[simple] = translation_axes[simple] = inherited[:, :3, :3]
    origin[simple] = inherited[:, :3, 3]
    for row in np.flatnonzero(~simple):
        joint = int(joints[row])
        parent = int(skeleton.parents[joint])
        given = parent_transform(skeleton, joint, None if parent < 0 else matrices[parent])
        linear[row], origin[row] = given.linear, given.origin
        translation_axes[row], post_scale[row] = given.translation, given.post_scale
    posed = matrices[joints]
    translation = np.linalg.pinv(translation_axes) @ (posed[:, :3, 3] - origin)[..., None]
    post_scale[np.abs(post_scale) <= NO_SCALE] = 1.0
    return translation[..., 0], np.linalg.pinv(linear) @ (posed[:, :3, :3] / post_scale[:, None, :])


def _rotation_part(linear: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return the rotations (k, 3, 3) in rotations with scale, and where there is one to be read, (k,)."""
    flat = np.linalg.norm(linear, axis=1, keepdims=True) <= NO_SCALE  # (k, 1, 3)
    across = np.cross(np.roll(linear, -1, axis=2), np.roll(linear, -2, axis=2), axis=1)
    rotation = orthogonalized(np.where(flat, across, linear), normalize=True)
    rotation *= np.where(np.linalg.det(rotation) < 0.0, -1.0, 1.0)[:, None, None]
    return rotation, np.linalg.det(rotation) > 0.5  # 0 where more than one axis is scaled to nothing


def sheared_bones(
    armature_object: "Object", armature: Armature, *, depsgraph: "Depsgraph | None" = None
) -> tuple[str, ...]:
    """Name the driven bones above free ones that constraints shear at present.

    A pose has no channel for shear, so what hangs below these bones is not exactly where forward kinematics
    puts it. It happens where a bone is scaled unevenly and constraints turn bones below it.
    """
    skeleton = armature.skeleton
    above_free = np.zeros(len(skeleton), dtype=np.bool_)
    for joint in np.flatnonzero(skeleton.free.any(1)):
        above_free[skeleton.ancestors(int(joint))] = True
    names = [name for name in armature.driven_by if above_free[skeleton.index(name)]]
    if not names:
        return ()
    matrices = _evaluated_matrices(armature_object, armature, depsgraph)
    joints = np.array([skeleton.index(name) for name in names])
    own = _own_transforms(skeleton, matrices, joints)[1]
    lengths = np.linalg.norm(own, axis=1, keepdims=True)
    unit = own / np.where(lengths > NO_SCALE, lengths, 1.0)
    cosines = np.abs(np.swapaxes(unit, 1, 2) @ unit)[:, [0, 0, 1], [1, 2, 2]].max(1)
    return tuple(name for name, cosine in zip(names, cosines, strict=True) if cosine > SHEAR_TOLERANCE)


def world_from_armature(armature_object_evaluated: "Object") -> tuple[FloatArray, float]:
    """Return the object's place in the world, (4, 4) [m], and its scale, the same along all axes [1].

    Raises:
        IKError: The object, on its own or through its parents, is scaled unevenly, sheared, mirrored or flat.
    """
    name = armature_object_evaluated.name
    matrix = np.array(armature_object_evaluated.matrix_world, dtype=np.float64)
    linear = matrix[:3, :3]
    lengths = np.linalg.norm(linear, axis=0)
    found = "({})".format(", ".join(f"{length:.6g}" for length in lengths))
    remedy = "apply its scale (Object > Apply > Scale), and that of the objects it is parented to"
    if not np.isfinite(matrix).all() or lengths.min() <= NO_SCALE:
        raise IKError(f"armature {name!r} has the scale {found} in the world: no axis may be zero")
    gram = linear.T @ linear / np.square(lengths).mean()
    if np.ptp(lengths) > SCALE_TOLERANCE * lengths.mean():
        raise IKError(f"armature {name!r} has the uneven scale {found} in the world: {remedy}")
    if np.abs(gram - np.diag(np.diag(gram))).max() > SCALE_TOLERANCE:
        raise IKError(f"armature {name!r} is sheared in the world, with the scale {found}: {remedy}")
    if np.linalg.det(linear) < 0.0:
        raise IKError(
            f"armature {name!r} is mirrored in the world (negative scale, its size is {found}): {remedy}"
        )
    return matrix, float(np.cbrt(np.linalg.det(linear)))


# Writing poses


def write_pose(
    armature_object: "Object", armature: Armature, pose: Pose, joints: Iterable[str | int]
) -> None:
    """Write the free channels of some joints, each into its bone's own rotation mode.

    Of all representations of a rotation the one nearest to the bone's present values is written. Channels
    that are locked or driven, and all other bones, keep their bits.

    Args:
        armature_object: The original object.
        armature: What `read_armature` returned for it.
        pose: One frame of the armature's skeleton.
        joints: Names or indices.

    Raises:
        IKError: The object cannot be posed, or bones or their rotation modes have changed.
    """
    check_armature(armature_object)
    skeleton = armature.skeleton
    if pose.channels.shape != (len(skeleton), CHANNELS):
        raise IKError(
            f"pose has shape {pose.channels.shape}, one frame of {armature.object_name!r} has "
            f"{(len(skeleton), CHANNELS)}"
        )
    chosen = [skeleton.index(joint) for joint in joints]
    pose_bones, order = _unchanged(armature_object, armature)
    turned = [joint for joint in chosen if armature.written[joint, 3:].any()]
    attributes = [rotation_channel(armature.rotation_modes[joint])[0] for joint in turned]
    present = [
        getattr(pose_bones[order[joint]], name) for joint, name in zip(turned, attributes, strict=True)
    ]
    wanted = _rotations(armature, turned, pose.channels[None], [np.array(values) for values in present])
    for joint in chosen:
        _assign(pose_bones[order[joint]].location, pose.channels[joint, :3], armature.written[joint, :3])
    for joint, values, frames in zip(turned, present, wanted, strict=True):
        _assign(values, frames[0], armature.written[joint, -len(values) :])


def _assign(values: Any, wanted: FloatArray, mask: BoolArray) -> None:
    for index in np.flatnonzero(mask).tolist():
        values[index] = float(wanted[index])


def rotation_values(armature_object: "Object", armature: Armature) -> dict[str, FloatArray]:
    """Return the present rotation of every bone in its own mode, (3,) or (4,), as Blender holds it."""
    pose_bones, order = _unchanged(armature_object, armature)
    modes = zip(armature.skeleton.names, order, armature.rotation_modes, strict=True)
    return {name: np.array(getattr(pose_bones[row], rotation_channel(mode)[0])) for name, row, mode in modes}


def channel_values(
    armature: Armature,
    channels: npt.ArrayLike,
    joints: Iterable[str | int],
    *,
    present: Mapping[str, FloatArray] | None = None,
) -> tuple[ChannelKeys, ...]:
    """Return what to key of some joints over frames, each in its bone's own rotation mode and continuous.

    Only free channels are returned, location only where translation is free.

    Args:
        armature: What `read_armature` returned.
        channels: (F, n, 6) of all joints.
        joints: Names or indices.
        present: Rotations, by bone and in its own mode, that the first frame is nearest to, so that it goes
            on from keys that are there already. Without them Euler angles start as they are, a quaternion
            with its scalar part positive.
    """
    skeleton = armature.skeleton
    frames = np.asarray(channels, dtype=np.float64)
    if frames.ndim != 3 or frames.shape[1:] != (len(skeleton), CHANNELS):
        raise IKError(f"channels have shape {frames.shape}, wanted (frames, {len(skeleton)}, {CHANNELS})")
    chosen = [skeleton.index(joint) for joint in joints]
    near = None if present is None else [present[skeleton.names[joint]] for joint in chosen]
    rotations = _rotations(armature, chosen, frames, near)
    keys: list[ChannelKeys] = []
    for joint, values in zip(chosen, rotations, strict=True):
        name, written = skeleton.names[joint], armature.written[joint].tolist()
        keys += bone_keys(name, "location", frames[:, joint, :3], written[:3])
        attribute, width = rotation_channel(armature.rotation_modes[joint])
        keys += bone_keys(name, attribute, values, written[-width:])
    return tuple(keys)


def _rotations(
    armature: Armature,
    joints: Sequence[int],
    channels: FloatArray,
    present: Sequence[FloatArray] | None = None,
) -> list[FloatArray]:
    """Return the rotations of joints over frames (F, n, 6) in their bones' modes; see `bone_rotations`."""
    skeleton = armature.skeleton
    limited = np.isfinite(skeleton.lower[joints, 3:]) | np.isfinite(skeleton.upper[joints, 3:])
    return bone_rotations(
        [armature.rotation_modes[joint] for joint in joints],
        skeleton.orders[joints],
        channels[:, joints, 3:],
        movable=skeleton.free[joints, 3:] & ~limited,
        written=armature.written[joints, 3:],
        present=present,
    )

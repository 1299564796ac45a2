# SPDX-License-Identifier: GPL-3.0-or-later
"""Poses of an armature object: its bones read as channels, and channels written into its bones.

Bones that constraints or drivers pose are read as the channels that give the same matrices; so forward
kinematics of a pose that was read equals `PoseBone.matrix` on the evaluated object. Each bone is written in
its own rotation mode, by the representation that is nearest to what it has.

The pose that Poise knows of is noted in the file, channel by channel, and who has written it. Bones with
other channels have been posed by hand, by a script or by the animation since. What Solve, a drag, a bake or
Mirror has posed is by Poise, and live mode has not seen it yet. What belongs to just this pose stands behind
it: the targets of the solve that has left it, see `rig.noted`. The note is a property of the object, so undo,
redo and files always have the one that belongs to the pose.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, pairwise
from typing import Any, Final

import bpy
import numpy as np
import numpy.typing as npt
from bpy.types import Depsgraph, Object

from ...core.arrays import BoolArray, FloatArray, IntArray, frozen
from ...core.errors import IKError
from ...core.messages import listed
from ...core.model.kinematics import orthogonalized, parent_transform
from ...core.model.rotation import euler_within, matrix_from_euler
from ...core.model.skeleton import CHANNELS, Pose, Skeleton
from ..animation.fcurves import Channel, ChannelKeys, action_curves, bone_keys, bone_path, rotation_channel
from ..properties.settings import settings_of
from .armature import NO_SCALE, Armature, check_armature, read_all
from .rotation_modes import bone_rotations, matrices_of

RawChannels = npt.NDArray[np.float32]
"""Channels of all bones as Blender holds them, in its order, (n, 17)."""

FIRST: Final[Mapping[str, int]] = {
    "location": 0,
    "rotation_euler": 3,
    "rotation_quaternion": 6,
    "rotation_axis_angle": 10,
    "scale": 14,
}
"""Column of `raw_channels` in which each property begins."""

_COLUMNS: Final = 17

PROPERTIES: Final[Mapping[str, slice]] = {
    name: slice(*ends) for name, ends in zip(FIRST, pairwise([*FIRST.values(), _COLUMNS]), strict=True)
}
"""Columns of each property."""

SHEAR_TOLERANCE: Final = 1e-4
"""Cosine between two axes of a bone [1] up to which shear is taken for rounding."""

FLAT: Final = 1e-6
"""Volume between three axes, in the product of their lengths [1], up to which they are nearly in a plane."""


def raw_channels(armature_object: Object) -> RawChannels:
    """Read them."""
    bones: Any = () if armature_object.pose is None else armature_object.pose.bones
    channels = np.empty((len(bones), _COLUMNS), dtype=np.float32)
    for name, columns in PROPERTIES.items():
        buffer: Any = np.empty((len(bones), columns.stop - columns.start), dtype=np.float32)
        bones.foreach_get(name, buffer.reshape(-1))
        channels[:, columns] = buffer
    return channels


def read_pose(armature_object: Object, armature: Armature, *, depsgraph: Depsgraph | None = None) -> Pose:
    """Read the present pose, one frame, in the skeleton's rotation orders.

    Angles of quaternion, axis-angle and driven bones are those inside the limits, if there are any, and of
    these the nearest to no rotation.

    Args:
        depsgraph: Where driven bones are evaluated; by default that of the context.

    Raises:
        IKError: Bones or their rotation modes are not those of `armature` any more, or a channel of one is
            not a number.
    """
    return poses_of(armature, [RawPose.read(armature_object, armature, depsgraph=depsgraph)])[0]


@dataclass(frozen=True)
class RawPose:
    """The channels of all bones in one frame as Blender has them, by joint."""

    channels: FloatArray
    """In the columns of `PROPERTIES`, (n, 17)."""
    shown: FloatArray
    """armature_from_joint, (n, 4, 4) [m]; empty where they were not asked for and no bone is driven."""

    @classmethod
    def read(
        cls,
        armature_object: Object,
        armature: Armature,
        *,
        depsgraph: Depsgraph | None = None,
        shown: FloatArray | None = None,
    ) -> "RawPose":
        """Read one frame (depsgraph and IKError: as `read_pose`; shown: where that is known already)."""
        _, order = _unchanged(armature_object, armature)
        if shown is None:
            driven = armature.is_driven.any()
            shown = _shown_matrices(armature_object, armature, depsgraph) if driven else np.empty((0, 4, 4))
        return cls(raw_channels(armature_object)[order].astype(np.float64), shown)


@lru_cache(maxsize=16)
def _matter(names: tuple[str, ...], bones: frozenset[str] | None) -> BoolArray:
    """Which of some bones are among others, (n,); all where these are None."""
    return frozen([bones is None or name in bones for name in names], np.bool_)


def poses_of(armature: Armature, raws: Sequence[RawPose], *, bones: frozenset[str] | None = None) -> Pose:
    """Return the poses of frames that were read, (F, n), as `read_pose` has them.

    Args:
        bones: Those whose poses matter, with all above them, by default all. Others that are driven, or in
            quaternion or axis-angle mode, have their Euler angles, unused as these are: it takes less time.

    Raises:
        IKError: A channel is not a number.
    """
    skeleton, frames = armature.skeleton, len(raws)
    own = np.stack([raw.channels for raw in raws])
    location, euler, quaternion, axis_angle, scale = (own[..., columns] for columns in PROPERTIES.values())
    channels = np.concatenate([location, euler], axis=-1)
    channels[:, armature.connected, :3] = 0.0  # Blender leaves the location of a connected bone out
    lower, upper = skeleton.lower[:, 3:], skeleton.upper[:, 3:]
    near = np.clip(0.0, lower, upper)
    four = np.flatnonzero(armature.in_four & _matter(skeleton.names, bones))
    if len(four):
        turns = (own[:, four].reshape(-1, 4) for own in (quaternion, axis_angle))
        modes = [armature.rotation_modes[joint] for joint in four.tolist()] * frames
        joints = np.tile(four, frames)
        angles = euler_within(
            matrices_of(modes, *turns), skeleton.orders[joints], lower[joints], upper[joints], near[joints]
        )
        channels[:, four, 3:] = angles.reshape(frames, len(four), 3)
    driven = np.flatnonzero(armature.is_driven & _matter(skeleton.names, bones))
    if len(driven):
        shown = np.concatenate([with_parents(skeleton, raw.shown, driven) for raw in raws])
        near = channels[:, driven, 3:].reshape(-1, 3)
        decided = decided_channels(skeleton, shown, np.tile(driven, frames), near)
        channels[:, driven], scale[:, driven] = (own.reshape(frames, len(driven), -1) for own in decided)
    known = (np.isfinite(channels).all(axis=2) & np.isfinite(scale).all(axis=2)).all(axis=0)
    if not known.all():
        nowhere = [skeleton.names[joint] for joint in np.flatnonzero(~known).tolist()]
        raise IKError(
            "bones of {armature!r} have a location, rotation or scale that is not a number: "
            "{nowhere}. Look at their keys and drivers, or reset them (Alt G, Alt R, Alt S)",
            armature=armature.object_name,
            nowhere=listed(nowhere),
        )
    return Pose(channels, scale)


def recorded_channels(armature_object: Object, armature: Armature, frame: float) -> FloatArray | None:
    """Return the channels that the recording has at a frame, (n, 6), NaN for none; None: no recording.

    Angles are in the skeleton's rotation orders, as `read_pose` would read them.
    """
    action = settings_of(armature_object).recording
    if action is None:
        return None
    curves, skeleton = action_curves(action), armature.skeleton
    channels, rotations = np.full((len(skeleton), CHANNELS), np.nan), np.full((len(skeleton), 4), np.nan)
    for joint, (name, mode) in enumerate(zip(skeleton.names, armature.rotation_modes, strict=True)):
        attribute, width = rotation_channel(mode)
        own = channels[joint, 3:] if width == 3 else rotations[joint]
        for values, path in ((channels[joint, :3], "location"), (own, attribute)):
            for index in range(len(values)):
                if (curve := curves.get((bone_path(name, path), index))) is not None:
                    values[index] = curve.evaluate(frame)
    four = np.isfinite(rotations).all(axis=1)
    if four.any():
        modes = [armature.rotation_modes[joint] for joint in np.flatnonzero(four).tolist()]
        lower, upper = skeleton.lower[four, 3:], skeleton.upper[four, 3:]
        turns = matrices_of(modes, rotations[four], rotations[four])
        near = np.clip(0.0, lower, upper)
        channels[four, 3:] = euler_within(turns, skeleton.orders[four], lower, upper, near)
    return channels


def with_parents(skeleton: Skeleton, matrices: FloatArray, joints: IntArray) -> FloatArray:
    """Return the matrices (n, 4, 4) of joints (k,), and those of their parents, (k, 2, 4, 4)."""
    return np.stack([matrices[joints], matrices[skeleton.parents[joints]]], axis=1)  # a root has any


def decided_channels(
    skeleton: Skeleton, shown: FloatArray, joints: IntArray, near: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the channels (k, 6) and the scale (k, 3) that put joints (k,) where they are shown.

    Angles are those inside the limits, if there are any, and of these the nearest to `near`, (k, 3); a joint
    without orientation has those of `near`.

    Args:
        shown: As by `with_parents`, (k, 2, 4, 4).
        joints: Which; those of several frames one after the other.
        near: Angles (k, 3).
    """
    translation, own = _own_transforms(skeleton, shown, joints)
    rotation, known = _rotation_part(own)
    orders = skeleton.orders[joints]
    rotation[~known] = matrix_from_euler(near[~known], orders[~known])
    angles = euler_within(rotation, orders, skeleton.lower[joints, 3:], skeleton.upper[joints, 3:], near)
    return np.concatenate([translation, angles], axis=1), np.einsum("kij,kij->kj", rotation, own)


def _unchanged(armature_object: Object, armature: Armature) -> tuple[Any, IntArray]:
    """Return the pose bones, and where in them each joint is (IKError: bones or rotation modes changed)."""
    pose_bones: Any = () if armature_object.pose is None else armature_object.pose.bones
    own, names = tuple(pose_bones.keys()) if pose_bones else (), armature.skeleton.names
    order = _order(own, names)
    if order is None:
        raise IKError(
            "the bones of {armature!r} have changed since they were read ({changed}): read the "
            "armature again",
            armature=armature_object.name,
            changed=listed(sorted(set(own) ^ set(names))),
        )
    modes = np.empty(len(names), dtype=np.int32)
    pose_bones.foreach_get("rotation_mode", modes)
    for joint in np.flatnonzero(modes[order] != _mode_numbers(armature.rotation_modes))[:1].tolist():
        raise IKError(
            "bone {names!r} of {armature!r} has rotation mode {rotation_mode} now, it was read as "
            "{rotation_modes}: read the armature again",
            names=names[joint],
            armature=armature_object.name,
            rotation_mode=pose_bones[names[joint]].rotation_mode,
            rotation_modes=armature.rotation_modes[joint],
        )
    return pose_bones, order


@lru_cache(maxsize=16)
def _order(own: tuple[str, ...], names: tuple[str, ...]) -> IntArray | None:
    """Where in the pose bones (n,) those with given names are, (n,); None: they are others."""
    rows = {name: row for row, name in enumerate(own)}
    if rows.keys() != set(names):
        return None
    return frozen([rows[name] for name in names], np.int64)


@lru_cache(maxsize=16)
def _mode_numbers(modes: tuple[str, ...]) -> IntArray:
    """Rotation modes (n,) as Blender's buffers have them."""
    kinds: Any = bpy.types.PoseBone.bl_rna.properties["rotation_mode"]
    numbers = {kind.identifier: kind.value for kind in kinds.enum_items}
    return frozen([numbers[mode] for mode in modes], np.int64)


def _shown_matrices(armature_object: Object, armature: Armature, depsgraph: Depsgraph | None) -> FloatArray:
    evaluated = armature_object.evaluated_get(depsgraph or bpy.context.evaluated_depsgraph_get())
    if not evaluated.is_evaluated:
        raise IKError(
            "armature {armature!r} is in no visible collection of this view layer, so its "
            "constraints and drivers are not evaluated",
            armature=armature_object.name,
        )
    return evaluated_matrices(evaluated, armature)


def evaluated_matrices(evaluated_object: Object, armature: Armature) -> FloatArray:
    """Read `PoseBone.matrix` of every joint of an evaluated armature object, (n, 4, 4) [m]."""
    pose: Any = evaluated_object.pose
    order = _order(tuple(pose.bones.keys()), armature.skeleton.names)
    if order is None:
        raise IKError(
            "the bones of {armature!r} have changed since they were read: read the armature again",
            armature=armature.object_name,
        )
    return np.swapaxes(read_all(pose.bones, "matrix", 4, 4)[order], 1, 2)  # column-major


def _own_transforms(skeleton: Skeleton, shown: FloatArray, joints: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the translation (k, 3) and the rotation with scale (k, 3, 3) of joints (k,) that are shown."""
    posed, above = shown[:, 0], shown[:, 1]
    linear, translation_axes = np.empty((2, len(joints), 3, 3))
    origin, post_scale = np.empty((len(joints), 3)), np.ones((len(joints), 3))
    batch = skeleton.batch[joints]
    for number in np.unique(batch).tolist():
        rows = np.flatnonzero(batch == number)
        root = skeleton.parents[joints[rows[0]]] < 0
        given = parent_transform(skeleton, joints[rows], None if root else above[rows])
        linear[rows], origin[rows] = given.linear, given.origin
        translation_axes[rows], post_scale[rows] = given.translation, given.post_scale
    translation = _inverse(translation_axes) @ (posed[:, :3, 3] - origin)[..., None]
    post_scale[np.abs(post_scale) <= NO_SCALE] = 1.0
    return translation[..., 0], _inverse(linear) @ (posed[:, :3, :3] / post_scale[:, None, :])


def _inverse(linear: FloatArray) -> FloatArray:
    """Inverses of matrices (k, 3, 3); pseudo-inverses, which take longer, of those that are nearly flat."""
    size = np.linalg.norm(linear, axis=1).prod(axis=1)
    flat = ~(np.abs(np.linalg.det(linear)) > FLAT * size)
    inverse = np.linalg.inv(np.where(flat[:, None, None], np.eye(3), linear))
    if flat.any():
        inverse[flat] = np.linalg.pinv(linear[flat])
    return inverse


def _rotation_part(linear: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return the rotations in rotations with scale (k, 3, 3), and whether there is one, (k,)."""
    flat = np.linalg.norm(linear, axis=1, keepdims=True) <= NO_SCALE  # (k, 1, 3)
    across = np.cross(np.roll(linear, -1, axis=2), np.roll(linear, -2, axis=2), axis=1)
    rotation = orthogonalized(np.where(flat, across, linear), normalize=True)
    rotation *= np.where(np.linalg.det(rotation) < 0.0, -1.0, 1.0)[:, None, None]
    return rotation, np.linalg.det(rotation) > 0.5  # 0 where more than one axis is scaled to nothing


def sheared_bones(
    armature_object: Object, armature: Armature, *, depsgraph: Depsgraph | None = None
) -> tuple[str, ...]:
    """Name the driven bones above free ones that constraints shear at present.

    A pose has no channel for shear, so the bones below these are not exactly where forward kinematics puts
    them. It happens where a bone is scaled unevenly and constraints turn bones below it.
    """
    skeleton = armature.skeleton
    above_free = np.zeros(len(skeleton), dtype=np.bool_)
    for joint in np.flatnonzero(skeleton.free.any(1)):
        above_free[skeleton.ancestors(int(joint))] = True
    names = [name for name in armature.driven_by if above_free[skeleton.index(name)]]
    if not names:
        return ()
    matrices = _shown_matrices(armature_object, armature, depsgraph)
    joints = np.array([skeleton.index(name) for name in names])
    own = _own_transforms(skeleton, with_parents(skeleton, matrices, joints), joints)[1]
    lengths = np.linalg.norm(own, axis=1, keepdims=True)
    unit = own / np.where(lengths > NO_SCALE, lengths, 1.0)
    cosines = np.abs(np.swapaxes(unit, 1, 2) @ unit)[:, [0, 0, 1], [1, 2, 2]].max(1)
    return tuple(name for name, cosine in zip(names, cosines, strict=True) if cosine > SHEAR_TOLERANCE)


def write_pose(armature_object: Object, armature: Armature, pose: Pose, joints: Iterable[str | int]) -> None:
    """Write the free channels of some joints, each in its bone's own rotation mode.

    Of all representations of a rotation the one nearest to the bone's present values is written. Channels
    that are locked or driven, and all other bones, are not touched.

    Raises:
        IKError: The object cannot be posed, or bones or their rotation modes have changed.
    """
    check_armature(armature_object)
    skeleton = armature.skeleton
    if pose.channels.shape != (len(skeleton), CHANNELS):
        raise IKError(
            "pose has shape {shape}, one frame of {armature!r} has {value}",
            shape=pose.channels.shape,
            armature=armature.object_name,
            value=(len(skeleton), CHANNELS),
        )
    chosen = [skeleton.index(joint) for joint in joints]
    pose_bones, order = _unchanged(armature_object, armature)
    written = dict(zip(chosen, armature.written[chosen].tolist(), strict=True))
    bones = {joint: pose_bones[row] for joint, row in zip(chosen, order[chosen].tolist(), strict=True)}
    for joint, place in zip(chosen, pose.channels[chosen, :3].tolist(), strict=True):
        _assign(bones[joint].location, place, written[joint][:3])
    turned = [joint for joint in chosen if any(written[joint][3:])]
    present = [getattr(bones[joint], rotation_channel(armature.rotation_modes[joint])[0]) for joint in turned]
    wanted = _rotations(armature, turned, pose.channels[None], [np.array(values) for values in present])
    for joint, values, frames in zip(turned, present, wanted, strict=True):
        _assign(values, frames[0].tolist(), written[joint][-len(values) :])


def _assign(values: Any, wanted: Sequence[float], mask: Sequence[bool]) -> None:
    if all(mask):
        values[:] = wanted  # at once: Blender takes note of each change
        return
    for index, number in compress(enumerate(wanted), mask):
        values[index] = number


def rotation_values(armature_object: Object, armature: Armature) -> dict[str, FloatArray]:
    """Return the present rotation of every bone in its own mode, (3,) or (4,), exactly."""
    pose_bones, order = _unchanged(armature_object, armature)
    modes = zip(armature.skeleton.names, order, armature.rotation_modes, strict=True)
    return {name: np.array(getattr(pose_bones[row], rotation_channel(mode)[0])) for name, row, mode in modes}


def channel_values(
    armature: Armature,
    channels: FloatArray,
    joints: Iterable[str | int],
    *,
    present: Mapping[str, FloatArray] | None = None,
) -> tuple[ChannelKeys, ...]:
    """Return what to key of some joints over frames, each in its bone's own rotation mode and continuous.

    Only free channels are returned, location only where translation is free.

    Args:
        channels: (F, n, 6) of all joints.
        joints: Names or indices.
        present: Rotations, by bone and in its own mode, that the first frame is nearest to, to continue
            from present keys. Without them Euler angles start as they are, a quaternion with w positive.
    """
    skeleton = armature.skeleton
    if channels.ndim != 3 or channels.shape[1:] != (len(skeleton), CHANNELS):
        raise IKError(
            "channels have shape {shape}, wanted (frames, {count}, {channels})",
            shape=channels.shape,
            count=len(skeleton),
            channels=CHANNELS,
        )
    chosen = [skeleton.index(joint) for joint in joints]
    near = None if present is None else [present[skeleton.names[joint]] for joint in chosen]
    rotations = _rotations(armature, chosen, channels, near)
    keys: list[ChannelKeys] = []
    for joint, values in zip(chosen, rotations, strict=True):
        for own, (path, written) in zip(
            (channels[:, joint, :3], values), armature.written_properties(joint), strict=True
        ):
            keys += bone_keys(skeleton.names[joint], path, own, written)
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
        present=present,
    )


# What is noted


def pose_bytes(channels: RawChannels) -> bytes:
    """The channels of all bones as they are noted and compared."""
    return (channels + 0.0).astype("<f4").tobytes()  # a pose that is pasted flipped has zeros of -0.0


def named_bones(armature_object: Object, bones: npt.NDArray[np.bool_]) -> frozenset[str]:
    """Names of bones, of which each is told by `bones`, in Blender's order, (n,)."""
    every: Any = () if armature_object.pose is None else armature_object.pose.bones
    return frozenset(bone.name for bone, wanted in zip(every, bones.tolist(), strict=True) if wanted)


@dataclass(frozen=True)
class PoseNote:
    """What is noted of a pose."""

    pose: bytes
    """`pose_bytes`; of other bones if the length differs."""
    by_live: bool = False
    """Whether live mode has left or seen it, and not another part of Poise."""
    carried: str = ""
    """Which bones followed in the solve that has left it, and what carried them; empty where none has."""

    @classmethod
    def of(cls, armature_object: Object) -> "PoseNote":
        """Read it."""
        author, pose, carried = f"{settings_of(armature_object).pose_note}  ".split(" ")[:3]
        return cls(b64decode(pose), author == "live", carried)

    def store(self, armature_object: Object) -> None:
        """Note it in the file."""
        author = "live" if self.by_live else "poise"
        note = f"{author} {b64encode(self.pose).decode()} {self.carried}"
        settings_of(armature_object).pose_note = note

    def restore(self, armature_object: Object) -> None:
        """Note this again, with the pose, which others may have solved for meanwhile."""
        now = PoseNote.of(armature_object)
        if now != self:
            PoseNote(self.pose, False, "" if now.carried else self.carried).store(armature_object)

    def is_of(self, pose: bytes) -> bool:
        """Whether a pose is one of the bones of which this was noted."""
        return len(pose) == len(self.pose)

    def changed(self, pose: bytes) -> BoolArray:
        """Which channels are others than noted, (n, 17); all where other bones were noted."""
        now = _words(pose)
        return now != _words(self.pose) if self.is_of(pose) else np.ones(now.shape, dtype=np.bool_)

    def differs(self, pose: bytes) -> BoolArray:
        """Which bones are posed otherwise than noted, (n,); all where other bones were noted."""
        return np.asarray(self.changed(pose).any(axis=1))


def _words(pose: bytes) -> npt.NDArray[np.uint32]:
    """What `pose_bytes` returns by bone and channel, (n, 17), equal where it is so to the bit."""
    return np.frombuffer(pose, dtype="<u4").reshape(-1, _COLUMNS)


def channels_told(armature_object: Object, which: BoolArray) -> list[Channel]:
    """Return the channels of bones that are told by `which` (n, 17), row by row."""
    bones: Any = () if armature_object.pose is None else armature_object.pose.bones
    names = [bone.name for bone in bones]
    columns = [(name, index) for name, own in PROPERTIES.items() for index in range(own.stop - own.start)]
    found = ((names[row], *columns[column]) for row, column in np.argwhere(which).tolist())
    return [(bone_path(bone, name), index) for bone, name, index in found]


def note_posed(
    armature_object: Object,
    *,
    by_live: bool = False,
    pose: bytes | None = None,
    but: BoolArray | None = None,
) -> None:
    """Note that Poise has posed the bones as they are, or that live mode has seen them so.

    Args:
        by_live: Whether it was live mode.
        pose: `pose_bytes` of the pose, where these are known.
        but: Channels that others have changed, (n, 17): what is noted of these stays.
    """
    pose = pose_bytes(raw_channels(armature_object)) if pose is None else pose
    before = PoseNote.of(armature_object)
    known = before.pose == pose
    by_live = by_live or (known and before.by_live)
    if but is not None and before.is_of(pose):
        pose = np.where(but, _words(before.pose), _words(pose)).tobytes()
    PoseNote(pose, by_live, before.carried if known else "").store(armature_object)

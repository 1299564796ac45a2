# SPDX-License-Identifier: GPL-3.0-or-later
"""What is noted in the file of a body that follows its targets: what it was solved for, and where from.

Digests say what the body was solved for. For each bone there is also noted where anybody else has left it
last: the user, the animation, a script. That is where influences below 1 begin. If they began at the present
pose, which was solved for already, each update would bring the body nearer to its targets, and the pose would
tell how often the scene was updated.

Notes are properties of the object, so that undo, redo, files and library overrides always have those that
belong to the pose.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt
from bpy.types import Object

from ...core import Pose
from ...core.arrays import FloatArray
from ...core.model.rotation import (
    euler_within,
    matrix_from_euler,
    matrix_from_quat,
    quat_from_matrix,
)
from ..armature.armature import Armature
from ..properties.settings import settings_of

Digest = tuple[int, int, int, int]
"""128 bits."""

RawChannels = npt.NDArray[np.float32]
"""Channels of all bones as Blender holds them, in its order, (n, 17)."""

NOTHING: Final[Digest] = (0, 0, 0, 0)

_CHANNELS: Final = (
    ("location", 3),
    ("rotation_euler", 3),
    ("rotation_quaternion", 4),
    ("rotation_axis_angle", 4),
    ("scale", 3),
)
FIRST: Final = dict(zip((name for name, _ in _CHANNELS), (0, 3, 6, 10, 14), strict=True))
"""Column of `raw_channels` in which each property begins."""

_HEADER: Final = 8
"""Bytes of the digest of bone names before the pose."""

_WIDTH: Final = 10
"""Numbers of a bone: location, quaternion, scale."""


def digest(*parts: bytes | str) -> Digest:
    """Return 128 bits that differ where any of the parts does."""
    hashed = blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        hashed.update(len(data).to_bytes(8, "little"))
        hashed.update(data)
    numbers = np.frombuffer(hashed.digest(), dtype=np.int32).tolist()
    return numbers[0], numbers[1], numbers[2], numbers[3]


def raw_channels(armature_object: Object) -> RawChannels:
    """Read them."""
    bones: Any = () if armature_object.pose is None else armature_object.pose.bones
    channels = np.empty((len(bones), sum(width for _, width in _CHANNELS)), dtype=np.float32)
    for name, width in _CHANNELS:
        buffer: Any = np.empty((len(bones), width), dtype=np.float32)
        bones.foreach_get(name, buffer.reshape(-1))
        channels[:, FIRST[name] : FIRST[name] + width] = buffer
    return channels


def on_the_way(aims: Digest) -> Digest:
    """What is noted for a pose that is on its way to what a solve for some aims would give."""
    return digest("on the way", repr(aims))


# What the body was solved for


@dataclass(frozen=True)
class LiveState:
    """What the body was solved for, as digests."""

    aims: Digest = NOTHING
    """Of targets, object and settings."""
    posed: Digest = NOTHING
    """Of the channels of all bones, as they were left."""
    bones: Digest = NOTHING
    """Of the bones' rest, locks and limits, and of their channels that are not solved."""
    keyed: Digest = NOTHING
    """The `aims` for which no key is owed."""

    @classmethod
    def of(cls, armature_object: Object) -> "LiveState":
        """Read it."""
        numbers = settings_of(armature_object).live_memory[:]
        parts = [(numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]) for i in range(0, 16, 4)]
        return cls(*parts)

    def store(self, armature_object: Object) -> None:
        """Note it in the file."""
        settings_of(armature_object).live_memory = (*self.aims, *self.posed, *self.bones, *self.keyed)


# Where others have left it


@dataclass(frozen=True)
class Origin:
    """The pose in which others than live mode have left each bone: there influences below 1 begin."""

    names: tuple[str, ...]
    """Of the bones, (n,): the skeleton's."""
    transforms: FloatArray
    """Location, quaternion and scale of each against its rest pose, (n, 10) [m, 1]."""

    @classmethod
    def of(cls, armature_object: Object, armature: Armature) -> "Origin | None":
        """Read it; None where there is none for these bones."""
        data = b64decode(settings_of(armature_object).live_origin)
        names = armature.skeleton.names
        if data[:_HEADER] != _named(names) or len(data) != _HEADER + 4 * _WIDTH * len(names):
            return None
        transforms = np.frombuffer(data, dtype="<f4", offset=_HEADER).astype(np.float64)
        return cls(names, transforms.reshape(-1, _WIDTH))

    def store(self, armature_object: Object) -> None:
        """Note it in the file."""
        data = _named(self.names) + self.transforms.astype("<f4").tobytes()
        settings_of(armature_object).live_origin = b64encode(data).decode()

    def pose(self, armature: Armature, present: Pose) -> Pose:
        """The same as channels, with angles nearest to the present ones.

        What constraints and drivers decide is where it is at present, whoever has moved what it follows.
        """
        skeleton = armature.skeleton
        channels, scale = present.channels.copy(), present.scale.copy()
        own = np.array([name not in armature.driven_by for name in skeleton.names])
        channels[own, :3] = self.transforms[own, :3]
        rotation = matrix_from_quat(self.transforms[own, 3:7])
        lower, upper = skeleton.lower[own, 3:], skeleton.upper[own, 3:]
        channels[own, 3:] = euler_within(rotation, skeleton.orders[own], lower, upper, channels[own, 3:])
        scale[own] = self.transforms[own, 7:]
        return Pose(channels, scale)


def renew_origin(armature_object: Object, armature: Armature, present: Pose, channels: RawChannels) -> None:
    """Note where bones are that others have moved since `note_left`.

    Args:
        armature_object: The original object.
        armature: What was read of it.
        present: Its pose.
        channels: The same as `raw_channels`.
    """
    skeleton = armature.skeleton
    rotation = matrix_from_euler(present.rotation, skeleton.orders)
    now = np.concatenate([present.channels[:, :3], quat_from_matrix(rotation), present.scale], axis=1)
    before = Origin.of(armature_object, armature)
    sums = _sums(channels)
    left = np.frombuffer(b64decode(settings_of(armature_object).live_left), dtype="<u4")
    if before is not None and len(left) == len(sums):
        bones: Any = () if armature_object.pose is None else armature_object.pose.bones
        untouched = dict(zip((bone.name for bone in bones), (left == sums).tolist(), strict=True))
        kept = np.array([untouched[name] for name in skeleton.names])
        now[kept] = before.transforms[kept]
    Origin(skeleton.names, now).store(armature_object)


def note_left(armature_object: Object, channels: RawChannels) -> None:
    """Note that live mode has left bones like this, `raw_channels`: what differs later, others have moved."""
    settings_of(armature_object).live_left = b64encode(_sums(channels).tobytes()).decode()


def _sums(channels: RawChannels) -> npt.NDArray[np.uint32]:
    """Check sums of bones, (n,)."""
    return np.array([crc32(row.tobytes()) for row in channels], dtype="<u4")


def _named(names: Sequence[str]) -> bytes:
    return blake2b("\0".join(names).encode(), digest_size=_HEADER).digest()

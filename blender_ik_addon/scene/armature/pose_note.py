# SPDX-License-Identifier: GPL-3.0-or-later
"""Note in the file of the pose that Poise knows of, and by whom it is: check sums of the bones.

Bones whose check sum is another one have been posed by hand, by a script or by the animation since. Those
that Solve, a drag, a bake or Mirror have posed are marked until live mode has seen them. What belongs to
just this pose stands behind the sums: the targets of the solve that it was left by, see `rig.states`.

The note is a property of the object, so undo, redo and files always have the one that belongs to the pose.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt
from bpy.types import Object

from ..properties.settings import settings_of

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

_NEW: Final = np.uint32(1)
"""Bit of a check sum that marks bones that live mode has not seen as they are."""


def raw_channels(armature_object: Object) -> RawChannels:
    """Read them."""
    bones: Any = () if armature_object.pose is None else armature_object.pose.bones
    channels = np.empty((len(bones), _COLUMNS), dtype=np.float32)
    for name, (first, end) in zip(FIRST, pairwise([*FIRST.values(), _COLUMNS]), strict=True):
        buffer: Any = np.empty((len(bones), end - first), dtype=np.float32)
        bones.foreach_get(name, buffer.reshape(-1))
        channels[:, first:end] = buffer
    return channels


def pose_sums(channels: RawChannels) -> bytes:
    """Check sums of the channels of all bones, even numbers of 32 bits."""
    sums = np.array([crc32(row.tobytes()) for row in channels], dtype="<u4")
    return (sums & ~_NEW).tobytes()


@dataclass(frozen=True)
class PoseNote:
    """What is noted of a pose."""

    sums: bytes
    """`pose_sums`, marked by `_NEW` where live mode has not seen the bone; of other bones at times."""
    solved_for: str = ""
    """Targets of the solve that has left the pose; empty where none has."""

    @classmethod
    def of(cls, armature_object: Object) -> "PoseNote":
        """Read it."""
        sums, _, solved_for = settings_of(armature_object).pose_note.partition(" ")
        return cls(b64decode(sums), solved_for)

    def store(self, armature_object: Object) -> None:
        """Note it in the file."""
        settings_of(armature_object).pose_note = f"{b64encode(self.sums).decode()} {self.solved_for}"

    def restore(self, armature_object: Object) -> None:
        """Note this again, with the pose, which others may have solved for meanwhile."""
        now = PoseNote.of(armature_object)
        if now != self:
            sums = _marked(self.sums, now.differs(self.sums, new=True))
            PoseNote(sums, "" if now.solved_for else self.solved_for).store(armature_object)

    def differs(self, sums: bytes, *, new: bool = False) -> npt.NDArray[np.bool_]:
        """Which bones are posed otherwise than noted, (n,); also those that live mode has not seen if `new`.

        Where other bones were noted all are.
        """
        now, noted = np.frombuffer(sums, dtype="<u4"), np.frombuffer(self.sums, dtype="<u4")
        if len(now) != len(noted):
            return np.ones(len(now), dtype=bool)
        return now != (noted if new else noted & ~_NEW)


def note_posed(armature_object: Object, *, by_live: bool = False) -> None:
    """Note that Poise has posed the bones as they are, or that live mode has seen them so."""
    sums, before = pose_sums(raw_channels(armature_object)), PoseNote.of(armature_object)
    solved_for = "" if before.differs(sums).any() else before.solved_for
    if not by_live:
        sums = _marked(sums, before.differs(sums, new=True))
    PoseNote(sums, solved_for).store(armature_object)


def _marked(sums: bytes, bones: npt.NDArray[np.bool_]) -> bytes:
    return (np.frombuffer(sums, dtype="<u4") | bones * _NEW).astype("<u4").tobytes()

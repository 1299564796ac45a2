# SPDX-License-Identifier: GPL-3.0-or-later
"""Note in the file of the pose that Poise knows of, and who has written it: check sums of the bones.

Bones whose check sum is another one have been posed by hand, by a script or by the animation since. What
Solve, a drag, a bake or Mirror has posed is by Poise, and live mode has not seen it yet. What belongs to just
this pose stands behind the sums: the targets of the solve that has left it, see `rig.states`.

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

PROPERTIES: Final[Mapping[str, slice]] = {
    name: slice(*ends) for name, ends in zip(FIRST, pairwise([*FIRST.values(), _COLUMNS]), strict=True)
}
"""Columns of each property."""


def raw_channels(armature_object: Object) -> RawChannels:
    """Read them."""
    bones: Any = () if armature_object.pose is None else armature_object.pose.bones
    channels = np.empty((len(bones), _COLUMNS), dtype=np.float32)
    for name, columns in PROPERTIES.items():
        buffer: Any = np.empty((len(bones), columns.stop - columns.start), dtype=np.float32)
        bones.foreach_get(name, buffer.reshape(-1))
        channels[:, columns] = buffer
    return channels


def pose_sums(channels: RawChannels) -> bytes:
    """Check sums of the channels of all bones, 32 bits each."""
    return np.array([crc32(row.tobytes()) for row in channels], dtype="<u4").tobytes()


@dataclass(frozen=True)
class PoseNote:
    """What is noted of a pose."""

    sums: bytes
    """`pose_sums`; of other bones if the length differs."""
    by_live: bool = False
    """Whether live mode has left or seen it, and not another part of Poise."""
    solved_for: str = ""
    """Targets of the solve that has left it; empty where none has."""

    @classmethod
    def of(cls, armature_object: Object) -> "PoseNote":
        """Read it."""
        author, sums, solved_for = f"{settings_of(armature_object).pose_note}  ".split(" ")[:3]
        return cls(b64decode(sums), author == "live", solved_for)

    def store(self, armature_object: Object) -> None:
        """Note it in the file."""
        author = "live" if self.by_live else "poise"
        note = f"{author} {b64encode(self.sums).decode()} {self.solved_for}"
        settings_of(armature_object).pose_note = note

    def restore(self, armature_object: Object) -> None:
        """Note this again, with the pose, which others may have solved for meanwhile."""
        now = PoseNote.of(armature_object)
        if now != self:
            PoseNote(self.sums, False, "" if now.solved_for else self.solved_for).store(armature_object)

    def differs(self, sums: bytes) -> npt.NDArray[np.bool_]:
        """Which bones are posed otherwise than noted, (n,); all where other bones were noted."""
        now, noted = np.frombuffer(sums, dtype="<u4"), np.frombuffer(self.sums, dtype="<u4")
        return now != noted if len(now) == len(noted) else np.ones(len(now), dtype=bool)


def note_posed(armature_object: Object, *, by_live: bool = False, sums: bytes | None = None) -> None:
    """Note that Poise has posed the bones as they are, or that live mode has seen them so.

    Args:
        by_live: Whether it was live mode.
        sums: `pose_sums` of the pose, where these are known.
    """
    sums = pose_sums(raw_channels(armature_object)) if sums is None else sums
    before = PoseNote.of(armature_object)
    known = before.sums == sums
    by_live = by_live or (known and before.by_live)
    PoseNote(sums, by_live, before.solved_for if known else "").store(armature_object)

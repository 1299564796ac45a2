# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion capture in BVH files as a skeleton of the core and its poses, without Blender.

A joint of a BVH file has an OFFSET from its parent, no rest rotation, and channels that turn it in the order
in which they are written: with `Zrotation Xrotation Yrotation` it is turned by R = Rz Rx Ry, about Y first,
which is Blender's order YXZ. Position channels replace the offset, as in Blender's importer; files in which
they would be added to it have a root without offset, for which both are the same.

No file says its unit of length. It is guessed from the height of the figure, see `guess_unit`, and stated in
`Clip.unit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from blender_ik_addon.core import Pose, Skeleton
from blender_ik_addon.core.arrays import FloatArray, frozen

HUMAN_HEIGHT: Final = (1.4, 2.0)
"""Heights [m] of a figure without its flesh, ankle or sole to crown, at which a usual unit is believed."""

USUAL_HEIGHT: Final = 1.7
"""Height [m] given to a figure that no usual unit makes a human being."""

UNITS: Final[dict[str, float]] = {
    "metres": 1.0,
    "centimetres": 0.01,
    "decimetres": 0.1,
    "inches": 0.0254,
    "CMU's units of 1/0.45 inch": 0.0254 / 0.45,
    "millimetres": 0.001,
}
"""Usual units [m], in the order in which they are tried."""


class BvhError(ValueError):
    """A file that is no BVH, or a broken one; the message says where and what."""


@dataclass(frozen=True)
class Clip:
    """A skeleton and its motion."""

    skeleton: Skeleton
    """Joints in the file's order, rest pose with all rotations 0; free are the channels of the file."""
    pose: Pose
    """Every frame, (F, n, 6) [m, rad]."""
    frame_time: float
    """[s]."""
    ends: dict[str, FloatArray]
    """End of the last joint of a limb in its own axes [m], (3,), by the joint's name."""
    unit: str
    """Which unit of length the file was taken to have, for people."""

    def __len__(self) -> int:
        return self.pose.frames[0]

    def every(self, stride: int) -> Clip:
        """The clip with every so-manieth frame only."""
        pose = Pose(self.pose.channels[::stride], self.pose.scale[::stride])
        return Clip(self.skeleton, pose, self.frame_time * stride, self.ends, self.unit)


@dataclass
class _Joint:
    """A joint as it stands in the file."""

    name: str
    parent: int
    offset: FloatArray = field(default_factory=lambda: np.zeros(3))
    channels: list[str] = field(default_factory=list)
    ends: list[FloatArray] = field(default_factory=list)


def read_bvh(path: Path) -> Clip:
    """Read a file.

    Raises:
        BvhError: The file is no BVH or broken.
        OSError: It cannot be read.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    hierarchy, found, motion = text.partition("MOTION")
    try:
        if not found:
            raise ValueError("there is no line MOTION")
        joints = _hierarchy([line.strip() for line in hierarchy.splitlines() if line.strip()])
        values, frame_time = _motion([line.strip() for line in motion.splitlines() if line.strip()])
        if values.shape[1] != sum(len(joint.channels) for joint in joints):
            raise ValueError(f"a frame has {values.shape[1]} numbers, which is not one for each channel")
    except (ValueError, IndexError) as error:
        raise BvhError(f"{path.name} is no BVH file, or broken: {error}") from error
    offsets = np.array([joint.offset for joint in joints])
    metres, unit = guess_unit(_height(joints, offsets))
    channels, free = np.zeros((len(values), len(joints), 6)), np.zeros((len(joints), 6), dtype=bool)
    orders: list[str] = []
    column = 0
    for number, joint in enumerate(joints):
        turns = ""
        for channel in joint.channels:
            axis = "XYZ".index(channel[0])
            slot = axis if channel.endswith("position") else axis + 3
            read = values[:, column]
            if slot < 3:
                read = (read - offsets[number, axis]) * metres
            else:
                read = np.radians(read)
                turns += channel[0]
            channels[:, number, slot], free[number, slot] = read, True
            column += 1
        # What is written last turns first. Axes without a channel never turn: any place in the order will do.
        orders.append(turns[::-1] + "".join(axis for axis in "XYZ" if axis not in turns))
    skeleton = Skeleton.build(
        [joint.name for joint in joints],
        [joint.parent for joint in joints],
        offsets=offsets * metres,
        orders=orders,
        free=free,
    )
    ends = {j.name: frozen(np.mean(j.ends, axis=0) * metres) for j in joints if j.ends}
    return Clip(skeleton, Pose.from_channels(channels), frame_time, ends, unit)


def guess_unit(height: float) -> tuple[float, str]:
    """Unit of length [m] of a figure of a height in that unit, and a sentence about it.

    The first usual unit that makes the figure as high as a human being, else the one that makes it 1.7 m.
    """
    for name, metres in UNITS.items():
        if HUMAN_HEIGHT[0] <= height * metres <= HUMAN_HEIGHT[1]:
            return metres, f"{name} (height {height * metres:.2f} m)"
    metres = USUAL_HEIGHT / height
    return metres, f"units of {metres * 100.0:.3g} cm, by which the height is {USUAL_HEIGHT} m"


def _height(joints: Sequence[_Joint], offsets: FloatArray) -> float:
    """Height of the rest pose: its largest extent along an axis.

    No axis needs to be known as up: the span of the arms of a T-pose is about the height, that of other rest
    poses is less.
    """
    places = np.array(offsets)
    points: list[FloatArray] = []
    for number, joint in enumerate(joints):
        places[number] = places[joint.parent] + offsets[number] if joint.parent >= 0 else 0.0
        points += [places[number], *(places[number] + end for end in joint.ends)]
    return float(np.ptp(np.array(points), axis=0).max())


def _hierarchy(lines: Sequence[str]) -> list[_Joint]:
    """The joints, parents first."""
    joints: list[_Joint] = []
    blocks: list[int] = []  # joint of each open brace, that of an end site is its parent's
    ending = False
    for line in lines:
        keyword, *words = line.split()
        keyword = keyword.upper()
        if keyword in ("ROOT", "JOINT"):
            joints.append(_Joint(" ".join(words), blocks[-1] if blocks else -1))
        elif keyword == "END":
            ending = True
        elif keyword == "{":
            blocks.append(blocks[-1] if ending else len(joints) - 1)
        elif keyword == "}":
            blocks.pop()
            ending = False
        elif keyword == "OFFSET":
            offset = np.array(words, dtype=np.float64)
            if ending:
                joints[blocks[-1]].ends.append(offset)
            else:
                joints[blocks[-1]].offset = offset
        elif keyword == "CHANNELS":
            joints[blocks[-1]].channels = words[1:]
        elif keyword != "HIERARCHY":
            raise ValueError(f"unknown line {line!r}")
    return joints


def _motion(lines: Sequence[str]) -> tuple[FloatArray, float]:
    """Values of every frame, (F, channels) in the file's units, and the time of a frame [s]."""
    frames, frame_time = (line.partition(":")[2] for line in lines[:2])
    values = np.array([line.split() for line in lines[2:]], dtype=np.float64)
    if len(values) != int(frames) or not np.isfinite(values).all():
        raise ValueError(
            f"the file says {frames.strip()} frames and has {len(values)}, or has no finite ones"
        )
    return values, float(frame_time)

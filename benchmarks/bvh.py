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

from collections.abc import Iterator, Sequence
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
    line: int
    offset: tuple[float, ...] | None = None
    channels: list[str] | None = None
    ends: list[tuple[float, ...]] = field(default_factory=list)


def read_bvh(path: Path, metres_per_unit: float | None = None) -> Clip:
    """Read a file.

    Args:
        path: The file.
        metres_per_unit: Its unit of length [m]; None to guess.

    Raises:
        BvhError: The file is no BVH or broken.
        OSError: It cannot be read.
    """
    return parse_bvh(path.read_text(encoding="utf-8", errors="replace"), path.name, metres_per_unit)


def parse_bvh(text: str, name: str = "BVH", metres_per_unit: float | None = None) -> Clip:
    """Read the text of a file, see `read_bvh`; `name` is what errors call it."""
    lines = _Lines(text, name)
    joints = _hierarchy(lines)
    values, frame_time = _motion(lines, sum(len(joint.channels or ()) for joint in joints))
    offsets = np.array([joint.offset for joint in joints])
    parents = [joint.parent for joint in joints]
    if metres_per_unit is None:
        metres_per_unit, unit = guess_unit(_height(joints, offsets))
    else:
        unit = f"units of {metres_per_unit:g} m, as told"
    channels, free = np.zeros((len(values), len(joints), 6)), np.zeros((len(joints), 6), dtype=bool)
    orders: list[str] = []
    column = 0
    for number, joint in enumerate(joints):
        turns = ""
        for channel in joint.channels or ():
            axis = "XYZ".index(channel[0])
            slot = axis if channel.endswith("position") else axis + 3
            read = values[:, column]
            if slot < 3:
                read = (read - offsets[number, axis]) * metres_per_unit
            else:
                read = np.radians(read)
                turns += channel[0]
            channels[:, number, slot], free[number, slot] = read, True
            column += 1
        # What is written last turns first. Axes without a channel never turn: any place in the order will do.
        orders.append(turns[::-1] + "".join(axis for axis in "XYZ" if axis not in turns))
    skeleton = Skeleton.build(
        [joint.name for joint in joints], parents, offsets=offsets * metres_per_unit, orders=orders, free=free
    )
    ends = {j.name: frozen(np.mean(j.ends, axis=0) * metres_per_unit) for j in joints if j.ends}
    return Clip(skeleton, Pose.from_channels(channels), frame_time, ends, unit)


def guess_unit(height: float) -> tuple[float, str]:
    """Unit of length [m] of a figure of a height in that unit, and a sentence about it.

    The first usual unit that makes the figure as high as a human being, else the one that makes it 1.7 m.
    """
    if not height > 0.0:
        return 1.0, "metres, for want of any length"
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
        points += [places[number], *(places[number] + np.array(end) for end in joint.ends)]
    extent = np.ptp(np.array(points), axis=0)
    return float(extent.max())


class _Lines:
    """The lines of a file that are not empty, one after the other, with their numbers."""

    def __init__(self, text: str, name: str) -> None:
        self._lines: Iterator[tuple[int, str]] = iter(
            [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        )
        self._name = name
        self.number = 0

    def next(self, wanted: str) -> str:
        """The next line; `wanted` is what should stand there."""
        try:
            self.number, line = next(self._lines)
        except StopIteration:
            raise BvhError(f"{self._name}: ends where {wanted} should follow") from None
        return line

    def rest(self) -> list[tuple[int, str]]:
        """All lines that are left, with their numbers."""
        return list(self._lines)

    def error(self, what: str, number: int | None = None) -> BvhError:
        """An error at the present line, or another."""
        return BvhError(f"{self._name}, line {number or self.number}: {what}")

    def numbers(self, words: Sequence[str], count: int, what: str) -> tuple[float, ...]:
        """So many numbers, finite."""
        try:
            values = tuple(float(word) for word in words)
        except ValueError:
            raise self.error(f"{what} has something that is not a number: {' '.join(words)}") from None
        if len(values) != count or not np.isfinite(values).all():
            raise self.error(f"{what} needs {count} finite numbers, got: {' '.join(words) or 'nothing'}")
        return values


def _hierarchy(lines: _Lines) -> list[_Joint]:
    """The joints, parents first, up to and with the line MOTION."""
    if lines.next("HIERARCHY").upper() != "HIERARCHY":
        raise lines.error("a BVH file begins with HIERARCHY")
    joints: list[_Joint] = []
    open_blocks: list[int | None] = []  # joint of each open brace, None for an end site
    while (line := lines.next("the rest of the hierarchy, or MOTION")).upper() != "MOTION":
        keyword, *words = line.split()
        keyword = keyword.upper()
        inside = open_blocks[-1] if open_blocks else None
        if keyword in ("ROOT", "JOINT"):
            if (keyword == "ROOT") == bool(open_blocks):
                where = "inside another joint" if open_blocks else "outside of any root"
                raise lines.error(f"{keyword} {where}")
            if open_blocks and inside is None:
                raise lines.error("a joint inside an end site")
            name = " ".join(words)
            if not name or any(joint.name == name for joint in joints):
                raise lines.error(f"a second joint {name!r}" if name else "a joint without a name")
            joints.append(_Joint(name, -1 if inside is None else inside, lines.number))
            _open(lines)
            open_blocks.append(len(joints) - 1)
        elif keyword == "END":
            if inside is None:
                raise lines.error("an end site outside of any joint")
            _open(lines)
            open_blocks.append(None)
        elif keyword == "OFFSET":
            offset = lines.numbers(words, 3, "OFFSET")
            if not open_blocks:
                raise lines.error("OFFSET outside of any joint")
            if inside is None:
                joints[next(block for block in reversed(open_blocks) if block is not None)].ends.append(
                    offset
                )
            else:
                joints[inside].offset = offset
        elif keyword == "CHANNELS":
            if inside is None:
                raise lines.error("CHANNELS outside of any joint")
            joints[inside].channels = _channels(lines, words)
        elif keyword == "}":
            if not open_blocks:
                raise lines.error("a brace closes that was never opened")
            open_blocks.pop()
        else:
            raise lines.error(
                f"expected ROOT, JOINT, End Site, OFFSET, CHANNELS, a brace or MOTION: {line!r}"
            )
    if open_blocks:
        raise lines.error(f"MOTION, but {len(open_blocks)} braces are still open")
    if not joints:
        raise lines.error("MOTION, but there is no joint")
    for joint in joints:
        missing = [
            key for key, value in (("OFFSET", joint.offset), ("CHANNELS", joint.channels)) if value is None
        ]
        if missing:
            raise lines.error(f"joint {joint.name!r} has no {missing[0]}", joint.line)
    return joints


def _open(lines: _Lines) -> None:
    if lines.next("an opening brace") != "{":
        raise lines.error("expected an opening brace on a line of its own")


def _channels(lines: _Lines, words: Sequence[str]) -> list[str]:
    """Names of a joint's channels."""
    if not words or not words[0].isdigit() or int(words[0]) != len(words) - 1:
        raise lines.error(
            f"CHANNELS needs their number and as many names, got: {' '.join(words) or 'nothing'}"
        )
    channels = list(words[1:])
    known = [f"{axis}{kind}" for kind in ("position", "rotation") for axis in "XYZ"]
    for channel in channels:
        if channel not in known:
            raise lines.error(f"unknown channel {channel!r}; known are {', '.join(known)}")
        if channels.count(channel) > 1:
            raise lines.error(f"channel {channel} stands twice; a joint turns about each axis once")
    return channels


def _motion(lines: _Lines, width: int) -> tuple[FloatArray, float]:
    """Values of every frame, (F, channels) in the file's units, and the time of a frame [s]."""
    label, _, count = lines.next("the number of frames").partition(":")
    if label.strip().upper() != "FRAMES" or not count.strip().isdigit():
        raise lines.error(f"expected 'Frames:' and their number, got {label + ':' + count!r}")
    frames = int(count)
    label, _, time = lines.next("the time of a frame").partition(":")
    if label.upper().split() != ["FRAME", "TIME"]:
        raise lines.error(f"expected 'Frame Time:', got {label!r}")
    (frame_time,) = lines.numbers(time.split(), 1, "Frame Time")
    rows: list[FloatArray] = []
    for number, line in lines.rest():
        try:
            row = np.array(line.split(), dtype=np.float64)
        except ValueError:
            raise lines.error("a frame has something that is not a number", number) from None
        if len(row) != width or not np.isfinite(row).all():
            raise lines.error(
                f"a frame needs {width} finite numbers, one for each channel, got {len(row)}", number
            )
        rows.append(row)
    if len(rows) != frames or not rows:
        raise lines.error(f"the file says {frames} frames and has {len(rows)}")
    return np.array(rows), frame_time

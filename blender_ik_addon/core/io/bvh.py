# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion capture in BVH files, read and written.

A BVH joint has an OFFSET from its parent, no turn at rest, and CHANNELS: angles [deg] in the order in which
their matrices are multiplied, so that `Zrotation Xrotation Yrotation` is R_z R_x R_y, the order YXZ here. A
position takes the place of the offset: the channels of a `Pose` are its difference from the offset. Files say
neither their unit nor which way is up.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from ..arrays import FloatArray, check_number, check_whole, frozen, times
from ..errors import IKError
from ..model.kinematics import forward_kinematics
from ..model.rotation import EULER_ORDERS, continuous_euler, euler_from_matrix
from ..model.skeleton import CHANNELS, Pose, Skeleton

SHOWN: Final = 40
"""Characters of a line that a message shows [1]."""

ROUNDING: Final = 1e-9
"""Offset [m] and angle [rad] that is rounding where a skeleton is turned into axes of the armature."""

AXES: Final = "XYZ"


@dataclass(frozen=True)
class Clip:
    """A skeleton and its motion."""

    skeleton: Skeleton
    pose: Pose
    """The frames, (F, n, 6)."""
    frame_time: float
    """From a frame to the next [s]."""
    ends: FloatArray = field(default_factory=lambda: np.zeros((0, 3)))
    """Ends of the bones in the frames of their joints, (n, 3) [m]; 0 where none is known."""

    def __post_init__(self) -> None:
        joints = len(self.skeleton)
        ends = frozen(self.ends if np.size(self.ends) else np.zeros((joints, 3)))
        object.__setattr__(self, "ends", ends)
        if ends.shape != (joints, 3) or not np.isfinite(ends).all():
            raise IKError(f"Clip.ends must be {joints} places, ({joints}, 3), got shape {ends.shape}")
        if self.pose.channels.ndim != 3 or self.pose.channels.shape[1] != joints:
            shape = self.pose.channels.shape
            raise IKError(f"Clip.pose has shape {shape}; frames of {joints} joints are (F, {joints}, 6)")
        check_number("Clip.frame_time", self.frame_time, 0.0, above=True)

    @property
    def times(self) -> FloatArray:
        """Of the frames, (F,) [s]; the first is 0."""
        return self.frame_time * np.arange(len(self.pose), dtype=np.float64)

    def continuous(self) -> Clip:
        """The same motion with the angles of each frame nearest to those of the frame before it.

        Files have angles between -180° and 180°: where one goes beyond, it jumps by a turn. A motion is
        solved, and keys are interpolated, by way of the angles between.
        """
        channels, orders = np.array(self.pose.channels), self.skeleton.orders
        channels[..., 3:] = continuous_euler(channels[..., 3:], orders)
        return replace(self, pose=Pose(channels, self.pose.scale))

    @property
    def tails(self) -> FloatArray:
        """Ends of the bones at rest in armature space, (n, 3) [m], as `Hints` takes them.

        That of a joint with children is in their middle.
        """
        rest = self.skeleton.armature_from_joint_rest
        tails = rest[:, :3, 3] + times(rest[:, :3, :3], self.ends)
        for joint in sorted({int(parent) for parent in self.skeleton.parents if parent >= 0}):
            if not self.ends[joint].any():
                tails[joint] = rest[self.skeleton.parents == joint, :3, 3].mean(axis=0)
        return tails


# ----------------------------------------------------------------------------------------------------------
# Reading


@dataclass
class _Joint:
    """A joint while its file is read."""

    name: str
    parent: int
    offset: FloatArray
    end: FloatArray = field(default_factory=lambda: np.zeros(3))
    positions: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    rotations: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Axis and column of each of its channels, in the order of the file."""

    @property
    def order(self) -> str:
        """The rotation order; axes without a channel come last."""
        given = "".join(AXES[axis] for axis, _ in reversed(self.rotations))
        return given + "".join(axis for axis in AXES if axis not in given)


class _Statements:
    """The lines of a file as words, braces as lines of their own; errors say where they are."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.number = path, 0
        self.lines = re.split(r"\r\n|\r|\n", text)
        self._waiting = self._split()

    def _split(self) -> Iterator[list[str]]:
        for number, line in enumerate(self.lines, start=1):
            self.number = number
            for part in re.split(r"([{}])", line):
                if part.strip():
                    yield part.split()

    def next(self, expected: str) -> list[str]:
        """The next statement.

        Raises:
            IKError: There is none.
        """
        words = next(self._waiting, None)
        if words is None:
            raise IKError(f"{self.path}: ends at line {len(self.lines)}; expected {expected}")
        return words

    def wrong(self, expected: str, words: list[str]) -> IKError:
        """The error about the present line."""
        return wrong_line(self.path, self.number, expected, " ".join(words))

    def numbers(self, words: list[str], count: int, expected: str) -> FloatArray:
        """So many finite numbers."""
        values = _numbers(words) if len(words) == count else None
        if values is None:
            raise self.wrong(expected, words)
        return values


def wrong_line(path: Path, number: int, expected: str, got: str) -> IKError:
    """The error about a line of a file."""
    shown = got[:SHOWN] + ("..." if len(got) > SHOWN else "")
    return IKError(f"{path}, line {number}: expected {expected}, got {shown!r}")


def _numbers(words: list[str]) -> FloatArray | None:
    try:
        values = np.array(words, dtype=np.float64)
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


def read_bvh(path: str | os.PathLike[str], *, scale: float = 1.0, up: str = "Y") -> Clip:
    """Read a clip of motion capture. Joints keep the file's order and axes; y is up in most files.

    A name that comes twice gets a number, `Hand.001`, as in Blender.

    Args:
        scale: Length of the file's unit [m]: 0.01 for centimetres.
        up: Which way is up: X, Y or Z.

    Raises:
        IKError: The file cannot be read; the message says the line and what was expected there.
    """
    check_number("scale", scale, 0.0, above=True)
    path = checked_path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise IKError(f"{path} cannot be read: {error.strerror}") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    statements = _Statements(path, text)
    joints, width = _hierarchy(statements)
    frame_time, values = _motion(statements, width)
    try:
        return _clip(joints, values, frame_time, scale, up)
    except IKError as error:
        raise IKError(f"{path}: {error}") from None


def checked_path(path: str | os.PathLike[str]) -> Path:
    """A path (IKError: it is none)."""
    try:
        return Path(path)
    except TypeError:
        raise IKError(f"a file is given by its path, got {path!r}") from None


def _hierarchy(statements: _Statements) -> tuple[list[_Joint], int]:
    """The joints, parents first, and how many channels they have; up to the word MOTION."""
    words = statements.next("HIERARCHY")
    if [word.upper() for word in words] != ["HIERARCHY"]:
        raise statements.wrong("HIERARCHY, with which a BVH file begins", words)
    joints: list[_Joint] = []
    names: set[str] = set()
    within: list[int | None] = []  # Joints whose braces are open; None for that of an End Site
    width = 0
    while True:
        words = statements.next("ROOT, JOINT, End Site, } or MOTION")
        keyword = words[0].upper()
        inside = bool(within) and within[-1] is not None
        if keyword == "}" and within:
            within.pop()
        elif keyword == "MOTION" and joints and not within:
            return joints, width
        elif keyword == ("JOINT" if inside else "ROOT") and (inside or not within) and len(words) > 1:
            name = unique_name(" ".join(words[1:]), names)
            parent = within[-1] if inside else None
            joints.append(_Joint(name, -1 if parent is None else parent, _offset(statements)))
            within.append(len(joints) - 1)
            width = _channels(statements, joints[-1], width)
        elif keyword == "END" and inside:
            joint = within[-1]
            assert joint is not None
            joints[joint].end = _offset(statements)
            within.append(None)
        else:
            wanted = (
                "JOINT with a name, End Site or }" if inside else "ROOT with a name" if not within else "}"
            )
            raise statements.wrong(wanted + (" or MOTION" if joints and not within else ""), words)


def unique_name(name: str, names: set[str]) -> str:
    """A name that is not among the others, which it joins."""
    number, unique = 0, name
    while unique in names:
        number += 1
        unique = f"{name}.{number:03d}"
    names.add(unique)
    return unique


def _offset(statements: _Statements) -> FloatArray:
    """What stands in the brace that begins here: OFFSET x y z."""
    words = statements.next("{")
    if words != ["{"]:
        raise statements.wrong("{", words)
    words = statements.next("OFFSET and three numbers")
    if words[0].upper() != "OFFSET":
        raise statements.wrong("OFFSET and three numbers", words)
    return statements.numbers(words[1:], 3, "three numbers behind OFFSET")


def _channels(statements: _Statements, joint: _Joint, column: int) -> int:
    """Read which channels a joint has, from a column on; returns the column behind them."""
    expected = "CHANNELS, their number and as many names"
    words = statements.next(expected)
    if words[0].upper() != "CHANNELS" or len(words) < 2 or words[1] != str(len(words) - 2):
        raise statements.wrong(expected, words)
    for name in words[2:]:
        match = re.fullmatch(r"([XYZ])(position|rotation)", name, re.IGNORECASE)
        if match is None:
            raise statements.wrong("channels named Xposition to Zrotation", [name])
        of_kind = joint.positions if match[2].lower() == "position" else joint.rotations
        axis = AXES.index(match[1].upper())
        if axis in (known for known, _ in of_kind):
            raise statements.wrong("each channel once in a joint", [name])
        of_kind.append((axis, column))
        column += 1
    return column


def _motion(statements: _Statements, width: int) -> tuple[float, FloatArray]:
    """The time from frame to frame [s], and the numbers of all frames, (F, width)."""
    expected = "Frames: and a whole number from 1"
    words = statements.next(expected)
    label, _, given = " ".join(words).partition(":")
    if label.strip().upper() != "FRAMES" or not re.fullmatch(r"\s*[1-9]\d*", given):
        raise statements.wrong(expected, words)
    count = int(given)
    expected = "Frame Time: and seconds above 0"
    words = statements.next(expected)
    label, _, given = " ".join(words).partition(":")
    seconds = _numbers(given.split())
    if label.upper().split() != ["FRAME", "TIME"] or seconds is None or seconds.shape != (1,):
        raise statements.wrong(expected, words)
    if seconds[0] <= 0.0:
        raise statements.wrong(expected, words)
    first = statements.number
    lines = [(first + i, line.split()) for i, line in enumerate(statements.lines[first:], start=1)]
    rows = [(number, words) for number, words in lines if words or not width]
    for number, words in rows[:count]:
        if len(words) != width:
            expected = f"{width} numbers, one for each channel"
            raise wrong_line(statements.path, number, expected, f"{len(words)} of them")
    if len(rows) < count or (width and len(rows) > count):
        raise IKError(f"{statements.path}: expected {count} frames (Frames: {count}), got {len(rows)}")
    values = _numbers([word for _, words in rows[:count] for word in words])
    if values is None:
        number, word = next(
            (number, word) for number, words in rows for word in words if _numbers([word]) is None
        )
        raise wrong_line(statements.path, number, "finite numbers", word)
    return float(seconds[0]), values.reshape(count, width)


def _clip(joints: list[_Joint], values: FloatArray, frame_time: float, scale: float, up: str) -> Clip:
    """The clip that joints and the numbers of its frames (F, width) are."""
    count = len(joints)
    free = np.zeros((count, CHANNELS), dtype=np.bool_)
    channels = np.zeros((len(values), count, CHANNELS))
    for number, joint in enumerate(joints):
        for axis, column in joint.positions:
            channels[:, number, axis] = scale * (values[:, column] - joint.offset[axis])
            free[number, axis] = True
        for axis, column in joint.rotations:
            channels[:, number, 3 + axis] = np.radians(values[:, column])
            free[number, 3 + axis] = True
    skeleton = Skeleton.build(
        [joint.name for joint in joints],
        [joint.parent for joint in joints],
        offsets=scale * np.stack([joint.offset for joint in joints]),
        orders=[joint.order for joint in joints],
        free=free,
        up=up,
    )
    ends = scale * np.stack([joint.end for joint in joints])
    return Clip(skeleton, Pose.from_channels(channels), frame_time, ends)


# ----------------------------------------------------------------------------------------------------------
# Writing


def write_bvh(path: str | os.PathLike[str], clip: Clip, *, scale: float = 1.0, digits: int = 6) -> None:
    """Write a clip; what `read_bvh` reads of it is the same up to the digits that are written.

    Joints that are turned at rest, or do not inherit their parent's rotation, are expressed by others in the
    axes of the armature, which are in the same places at all frames.

    Args:
        scale: Length of the file's unit [m].
        digits: Behind the point.

    Raises:
        IKError: The clip cannot be expressed, since joints are scaled or a name has a brace or a line break,
            or the file cannot be written.
    """
    check_number("scale", scale, 0.0, above=True)
    check_whole("digits", digits, 0)
    path = checked_path(path)
    if not isinstance(clip, Clip):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise IKError(f"what is written is a Clip, got {clip!r}")
    for name in clip.skeleton.names:
        if re.search(r"[{}\r\n]", name) or name != " ".join(name.split()) or not name:
            raise IKError(f"joint {name!r} cannot be written to BVH: rename it, without braces or odd spaces")
    scaled = (np.abs(clip.pose.scale - 1.0) > ROUNDING).any(axis=(0, 2))
    if scaled.any():
        raise IKError(f"BVH has no scale, and {clip.skeleton.names[int(scaled.argmax())]!r} is scaled")
    clip = _in_axes_of_the_armature(clip)
    try:
        path.write_text("\n".join(_lines(clip, scale, digits)) + "\n", encoding="utf-8", newline="\n")
    except OSError as error:
        raise IKError(f"{path} cannot be written: {error.strerror}") from None


def _in_axes_of_the_armature(clip: Clip) -> Clip:
    """The same motion by joints that are not turned at rest and take all from their parents."""
    skeleton = clip.skeleton
    if (
        np.array_equal(skeleton.rest[:, :3, :3], np.broadcast_to(np.eye(3), (len(skeleton), 3, 3)))
        and skeleton.inherit_rotation.all()
        and skeleton.local_location.all()
    ):
        return clip
    rest, posed = skeleton.armature_from_joint_rest, forward_kinematics(skeleton, clip.pose).matrices
    turns = posed[..., :3, :3] @ np.swapaxes(rest[:, :3, :3], -1, -2)  # (F, n, 3, 3)
    offsets, places = np.array(rest[:, :3, 3]), np.array(posed[..., :3, 3])
    local = np.array(turns)
    for joint, parent in enumerate(skeleton.parents):
        if parent >= 0:
            back = np.swapaxes(turns[:, parent], -1, -2)
            offsets[joint] -= rest[parent, :3, 3]
            places[:, joint] = times(back, posed[:, joint, :3, 3] - posed[:, parent, :3, 3])
            local[:, joint] = back @ turns[:, joint]
    channels = np.zeros_like(clip.pose.channels)
    channels[..., :3] = places - offsets
    channels[..., 3:] = continuous_euler(euler_from_matrix(local, skeleton.orders), skeleton.orders)
    channels[np.abs(channels) < ROUNDING] = 0.0
    plain = Skeleton.build(
        skeleton.names,
        skeleton.parents.tolist(),
        offsets=offsets,
        orders=_orders(skeleton),
        free=skeleton.free,
        up=skeleton.up,
    )
    ends = times(rest[:, :3, :3], clip.ends)
    return Clip(plain, Pose.from_channels(channels), clip.frame_time, ends)


def _lines(clip: Clip, scale: float, digits: int) -> Iterator[str]:
    """The file's lines. A joint has all positions or none, and all angles or none: so readers want it."""
    skeleton, channels = clip.skeleton, clip.pose.channels
    used = skeleton.free | (channels != 0.0).any(axis=0)
    moved, turned = used[:, :3].any(axis=1), used[:, 3:].any(axis=1)
    columns: list[FloatArray] = []

    def offset(place: FloatArray) -> str:
        return "OFFSET " + " ".join(f"{number / scale:.{digits}f}" for number in place)

    yield "HIERARCHY"
    joints, orders = _depth_first(skeleton), _orders(skeleton)
    for joint, following in zip(joints, [*joints[1:], None], strict=True):
        depth = int(skeleton.depths[joint])
        indent = "\t" * depth
        axes = [AXES.index(axis) for axis in reversed(orders[joint])] if turned[joint] else []
        names = [f"{axis}position" for axis in AXES if moved[joint]]
        names += [f"{AXES[axis]}rotation" for axis in axes]
        place = skeleton.rest[joint, :3, 3]
        if moved[joint]:
            columns.append((channels[:, joint, :3] + place) / scale)
        columns.append(np.degrees(channels[:, joint][:, [3 + axis for axis in axes]]))
        yield f"{indent}{'JOINT' if depth else 'ROOT'} {skeleton.names[joint]}"
        yield f"{indent}{{"
        yield f"{indent}\t{offset(place)}"
        yield f"{indent}\t{' '.join(['CHANNELS', str(len(names)), *names])}"
        is_leaf = following is None or skeleton.parents[following] != joint
        if is_leaf or clip.ends[joint].any():
            yield from (
                f"{indent}\t{line}" for line in ("End Site", "{", f"\t{offset(clip.ends[joint])}", "}")
            )
        for closed in range(depth, -1 if following is None else int(skeleton.depths[following]) - 1, -1):
            yield "\t" * closed + "}"
    yield "MOTION"
    yield f"Frames: {len(channels)}"
    yield f"Frame Time: {clip.frame_time:.12g}"
    values = np.concatenate(columns, axis=1)
    form = " ".join([f"%.{digits}f"] * values.shape[1])
    for row in values.tolist():
        yield form % tuple(row)


def _depth_first(skeleton: Skeleton) -> list[int]:
    """All joints, each followed by its children with all that is below them, before its siblings."""
    children: dict[int, list[int]] = {}
    for joint in reversed(range(len(skeleton))):
        children.setdefault(int(skeleton.parents[joint]), []).append(joint)
    waiting, joints = list(children.get(-1, [])), list[int]()
    while waiting:
        joints.append(waiting.pop())
        waiting += children.get(joints[-1], [])
    return joints


def _orders(skeleton: Skeleton) -> list[str]:
    """Names of the joints' rotation orders."""
    return [EULER_ORDERS[int(order)] for order in skeleton.orders]

# SPDX-License-Identifier: GPL-3.0-or-later
"""Skeletons and animations in glTF 2.0 files, `.glb` and `.gltf`, read.

The joints of all skins of a file become joints, and so do nodes above them that are not the identity; in a
file without a skin all nodes do. A node has a translation, a rotation and a scale: T R S. At rest a joint has
those of its node, and the channels of a `Pose` are what an animation changes of them:

    T_t R_t S_t = (T R) T(d) R(e) S_t,        d = R⁻¹ (t_t − t),   R(e) = R⁻¹ R_t.

Scales are in `Pose.scale`, also those at rest. Lengths are metres and y is up, as glTF has it.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote

import numpy as np

from ..arrays import FloatArray, IntArray, check_number, lengths
from ..errors import IKError
from ..messages import in_a_row
from ..model.rotation import continuous_euler, euler_from_matrix, matrix_from_quat
from ..model.skeleton import CHANNELS, ORTHONORMAL_TOLERANCE, Pose, Skeleton
from .bvh import Clip, checked_path, unique_name

COMPONENTS: Final = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
"""numpy's names of the types of numbers in accessors."""

SIZES: Final = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}
"""Numbers in an element of an accessor [1]."""

PATHS: Final = {"translation": 3, "rotation": 4, "scale": 3}
"""What animations change of joints, with its numbers [1]; weights of shapes are none of it."""

USUAL: Final = {"translation": [0.0, 0.0, 0.0], "rotation": [0.0, 0.0, 0.0, 1.0], "scale": [1.0, 1.0, 1.0]}

ON_KEY: Final = 1e-5
"""Time before a key [s] that is on it: keys are in single precision, a minute to 4e-6 s."""

MALFORMED: Final = (
    *(AttributeError, IndexError, KeyError, MemoryError, OverflowError),
    *(RecursionError, TypeError, ValueError),
)
"""What Python raises where something in a document is of another kind than glTF wants it."""

SMALLEST_TURN: Final = 1e-6
"""Angle between two quaternions [rad] below which a straight line between them is exact to rounding."""


def read_gltf(
    path: str | os.PathLike[str], *, animation: str | int | None = None, frame_rate: float = 30.0
) -> Clip:
    """Read the skeleton of a glTF file, and one of its animations.

    Args:
        path: Of the file; buffers that lie beside it are found by their names.
        animation: Name or number, from 0; None for the first, or the rest pose alone where there is none.
        frame_rate: At which the animation is sampled from its time 0 to its last key [1/s].

    Raises:
        IKError: The file cannot be read, or has no such animation; the message says where in the file.
    """
    check_number("frame_rate", frame_rate, 0.0, above=True)
    path = checked_path(path)
    try:
        return _clip(_File(path), animation, frame_rate)
    except IKError as error:
        raise IKError(f"{path}: {error}") from None
    except MALFORMED as error:
        raise IKError(f"{path}: this is not as glTF 2.0 says ({type(error).__name__}: {error})") from None


class _File:
    """What is in a file: the document and its buffers."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            content = path.read_bytes()
        except OSError as error:
            raise IKError(f"cannot be read: {error.strerror}") from None
        self._binary: bytes | None = None
        if content[:4] == b"glTF":
            content = self._chunks(content)
        try:
            document: Any = json.loads(content.decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise IKError("is neither glTF nor text") from None
        except json.JSONDecodeError as error:
            raise IKError(
                f"line {error.lineno}, column {error.colno}: this is not JSON: {error.msg}"
            ) from None
        asset: Any = cast("dict[str, Any]", document).get("asset") if isinstance(document, dict) else {}
        version = str(asset.get("version", ""))
        if not version.startswith("2."):
            raise IKError(f"asset.version: expected glTF 2.0, got {version!r}")
        self.document: dict[str, Any] = document
        self._buffers: dict[int, bytes] = {}

    def _chunks(self, content: bytes) -> bytes:
        """The JSON of a binary file, whose other chunk is kept."""
        found: dict[bytes, bytes] = {}
        place = 12
        while place + 8 <= len(content):
            size, kind = struct.unpack_from("<I4s", content, place)
            if place + 8 + size > len(content):
                raise IKError(f"ends in the middle of a chunk, at byte {len(content)}")
            found.setdefault(kind, content[place + 8 : place + 8 + size])
            place += 8 + size
        self._binary = found.get(b"BIN\0")
        if b"JSON" not in found:
            raise IKError("has no chunk with JSON")
        return found[b"JSON"]

    def item(self, name: str, index: Any, where: str) -> dict[str, Any]:
        """An element of one of the lists of the document (IKError: there is none)."""
        items: Any = self.document.get(name, [])
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(items):
            raise IKError(f"{where}: there are {len(items)} {name}, and none is {index!r}")
        return items[index]

    def _buffer(self, index: int, where: str) -> bytes:
        if index not in self._buffers:
            self._buffers[index] = self._loaded(self.item("buffers", index, where), f"buffers[{index}]")
        return self._buffers[index]

    def _loaded(self, buffer: dict[str, Any], where: str) -> bytes:
        uri = buffer.get("uri")
        if uri is None:
            if self._binary is None:
                raise IKError(f"{where}: the file has no binary chunk")
            return self._binary
        scheme, _, data = uri.partition(":")
        if scheme == "data":
            try:
                return base64.b64decode(data.partition("base64,")[2], validate=True)
            except binascii.Error as error:
                raise IKError(f"{where}.uri: this is not base64: {error}") from None
        if data:
            raise IKError(f"{where}.uri: only files beside this one are read, got {uri[:40]!r}")
        try:
            return (self._path.parent / unquote(uri)).read_bytes()
        except OSError as error:
            raise IKError(f"{where}.uri: {uri} cannot be read: {error.strerror}") from None

    def _view(self, accessor: dict[str, Any], count: int, kind: str, size: int, where: str) -> FloatArray:
        """Elements (count, size) as they lie in a buffer, as float64."""
        view = self.item("bufferViews", accessor["bufferView"], f"{where}.bufferView")
        if "EXT_meshopt_compression" in view.get("extensions", {}):
            raise IKError(f"{where}: compressed buffers are not read: export the file without compression")
        buffer = self._buffer(view["buffer"], f"bufferViews[{accessor['bufferView']}].buffer")
        dtype = np.dtype(kind)
        stride = view.get("byteStride") or size * dtype.itemsize
        start = view.get("byteOffset", 0) + accessor.get("byteOffset", 0)
        if start < 0 or (count and start + (count - 1) * stride + size * dtype.itemsize > len(buffer)):
            raise IKError(f"{where}: reaches beyond its buffer of {len(buffer)} bytes")
        return np.ndarray((count, size), dtype, buffer, start, (stride, dtype.itemsize)).astype(np.float64)

    def accessor(self, index: Any, wanted: int, where: str) -> FloatArray:
        """Elements of an accessor, (count, wanted)."""
        accessor = self.item("accessors", index, where)
        where = f"accessors[{index}]"
        count, size = accessor["count"], SIZES.get(accessor["type"], 0)
        kind = COMPONENTS.get(accessor["componentType"])
        if size != wanted or kind is None or not isinstance(count, int) or count < 0:
            raise IKError(f"{where}: expected elements of {wanted} numbers, got {accessor['type']}")
        values: FloatArray = np.zeros((count, size))
        if "bufferView" in accessor:
            values = self._view(accessor, count, kind, size, where)
        if "sparse" in accessor:
            sparse = accessor["sparse"]
            indices, changed, some = sparse["indices"], sparse["values"], sparse["count"]
            rows = self._view(indices, some, COMPONENTS[indices["componentType"]], 1, f"{where}.sparse")[:, 0]
            values[rows.astype(np.int64)] = self._view(changed, some, kind, size, f"{where}.sparse")
        if accessor.get("normalized") and kind != "<f4":
            values = np.maximum(values / np.iinfo(kind).max, -1.0)
        if not np.isfinite(values).all():
            raise IKError(f"{where}: has a number that is not finite")
        return values


# ----------------------------------------------------------------------------------------------------------
# Nodes


@dataclass(frozen=True)
class _Node:
    """A node that becomes a joint."""

    number: int
    name: str
    parent: int
    """The joint above it, -1 for none."""
    is_joint: bool
    """Whether it is one of a skin, rather than a node above one."""
    own: dict[str, FloatArray]
    """Translation (3,) [m], rotation (4,), x first, and scale (3,)."""


def _transform(node: dict[str, Any], where: str) -> dict[str, FloatArray]:
    """Translation, rotation and scale of a node."""
    given = {name: np.array(node.get(name, usual), dtype=np.float64) for name, usual in USUAL.items()}
    for name, size in PATHS.items():
        if given[name].shape != (size,) or not np.isfinite(given[name]).all():
            raise IKError(f"{where}.{name}: expected {size} numbers, got {node[name]!r:.40}")
    if "matrix" in node:
        matrix = np.array(node["matrix"], dtype=np.float64)
        if matrix.shape != (16,) or not np.isfinite(matrix).all():
            raise IKError(f"{where}.matrix: expected 16 numbers")
        matrix = matrix.reshape(4, 4).T  # it is stored by columns
        scale = lengths(matrix[:3, :3].T)
        scale[0] *= -1.0 if np.linalg.det(matrix[:3, :3]) < 0.0 else 1.0
        rotation = matrix[:3, :3] / np.where(scale != 0.0, scale, 1.0)
        if np.abs(rotation.T @ rotation - np.eye(3)).max() > ORTHONORMAL_TOLERANCE:
            raise IKError(f"{where}.matrix: shears or collapses the joint, which joints cannot")
        given |= {"translation": matrix[:3, 3], "scale": scale, "matrix": rotation}
    else:
        size = float(lengths(given["rotation"]))
        if size == 0.0:
            raise IKError(f"{where}.rotation: is zero")
        given["matrix"] = matrix_from_quat(given["rotation"][[3, 0, 1, 2]])
    return given


def _nodes(file: _File, animated: set[int]) -> list[_Node]:
    """The joints, parents first."""
    count = len(file.document.get("nodes", []))
    parents = [-1] * count
    for number in range(count):
        for child in file.item("nodes", number, "nodes").get("children", []):
            file.item("nodes", child, f"nodes[{number}].children")
            if parents[child] >= 0:
                raise IKError(f"nodes[{child}]: is a child of nodes[{parents[child]}] and nodes[{number}]")
            parents[child] = number
    skins = file.document.get("skins", [])
    joints = {joint for skin in skins for joint in skin["joints"]} if skins else set(range(count))
    if not joints:
        raise IKError("has no nodes, so that there is no skeleton")
    for joint in sorted(joints):
        file.item("nodes", joint, "skins.joints")

    def line(number: int) -> Iterator[int]:
        """A node and those above it."""
        for _ in range(count):
            yield number
            number = parents[number]
            if number < 0:
                return
        raise IKError(f"nodes[{number}]: is below itself")

    wanted = sorted({each for joint in joints for each in line(joint)})
    depth = {number: sum(1 for _ in line(number)) for number in wanted}
    found: dict[int, _Node] = {}
    names: set[str] = set()
    place: dict[int, int] = {-1: -1}
    for number in sorted(wanted, key=lambda number: (depth[number], number)):
        node = file.item("nodes", number, "nodes")
        own = _transform(node, f"nodes[{number}]")
        above = place[parents[number]]
        plain = (
            all(np.array_equal(own[name], usual) for name, usual in USUAL.items()) and "matrix" not in node
        )
        if number not in joints and number not in animated and plain and above < 0:
            place[number] = above
            continue
        place[number] = len(found)
        name = unique_name(str(node.get("name") or f"node.{number}"), names)
        found[number] = _Node(number, name, above, number in joints, own)
    return list(found.values())


# ----------------------------------------------------------------------------------------------------------
# Animations


def _chosen(file: _File, animation: str | int | None) -> dict[str, Any] | None:
    """The animation that is asked for; None where none is, and there is none."""
    animations: list[dict[str, Any]] = file.document.get("animations", [])
    if animation is None:
        return animations[0] if animations else None
    names = [str(each.get("name", number)) for number, each in enumerate(animations)]
    if isinstance(animation, str) and animation in names:
        return animations[names.index(animation)]
    if isinstance(animation, int) and 0 <= animation < len(animations):
        return animations[animation]
    listed = f"; there are {in_a_row([repr(name) for name in names], 20)}" if names else ": it has none"
    raise IKError(f"there is no animation {animation!r}{listed}")


@dataclass(frozen=True)
class _Track:
    """Keys of a property of a node."""

    times: FloatArray
    """(K,) [s], rising."""
    values: FloatArray
    """(K, c); of cubic splines (K, 3, c): tangent in, value, tangent out."""
    interpolation: str

    def at(self, times: FloatArray, turns: bool) -> FloatArray:
        """Values at times (F,), (F, c)."""
        keys, values = self.times, self.values
        plain = values[:, 1] if self.interpolation == "CUBICSPLINE" else values
        if self.interpolation == "STEP" or len(keys) == 1:
            step: IntArray = np.clip(
                np.searchsorted(keys - ON_KEY, times, side="right") - 1, 0, len(keys) - 1
            )
            return plain[step]
        first: IntArray = np.clip(np.searchsorted(keys, times, side="right") - 1, 0, len(keys) - 2)
        span = keys[first + 1] - keys[first]
        part = np.clip((times - keys[first]) / np.where(span > 0.0, span, 1.0), 0.0, 1.0)[:, None]
        start, end = plain[first], plain[first + 1]
        if self.interpolation == "CUBICSPLINE":
            out, into = span[:, None] * values[first, 2], span[:, None] * values[first + 1, 0]
            square, cube = part**2, part**3
            return (
                (2.0 * cube - 3.0 * square + 1.0) * start
                + (cube - 2.0 * square + part) * out
                + (3.0 * square - 2.0 * cube) * end
                + (cube - square) * into
            )
        if not turns:
            return start + part * (end - start)
        start, end = (quats / lengths(quats)[:, None] for quats in (start, end))
        cosine = np.sum(start * end, axis=1, keepdims=True)
        end = np.where(cosine < 0.0, -end, end)  # the shorter way
        angle = np.arccos(np.clip(np.abs(cosine), 0.0, 1.0))
        near = angle < SMALLEST_TURN
        sine = np.where(near, 1.0, np.sin(angle))
        shares = (np.where(near, 1.0 - part, np.sin((1.0 - part) * angle) / sine),)
        shares += (np.where(near, part, np.sin(part * angle) / sine),)
        return shares[0] * start + shares[1] * end


def _tracks(file: _File, animation: dict[str, Any] | None) -> dict[tuple[int, str], _Track]:
    """Keys by the number of a node and the name of its property."""
    tracks: dict[tuple[int, str], _Track] = {}
    for number, channel in enumerate([] if animation is None else animation["channels"]):
        assert animation is not None
        where = f"animations: {animation.get('name', '')!r}, channels[{number}]"
        target = channel["target"]
        path, node = target["path"], target.get("node")
        if path not in PATHS or node is None:
            continue
        file.item("nodes", node, f"{where}.target.node")
        sampler = animation["samplers"][channel["sampler"]]
        interpolation = sampler.get("interpolation", "LINEAR")
        if interpolation not in ("LINEAR", "STEP", "CUBICSPLINE"):
            raise IKError(f"{where}: there is no interpolation {interpolation!r}")
        times = file.accessor(sampler["input"], 1, f"{where}.sampler.input")[:, 0]
        values = file.accessor(sampler["output"], PATHS[path], f"{where}.sampler.output")
        if interpolation == "CUBICSPLINE":
            values = values.reshape(-1, 3, PATHS[path])
        if not len(times) or len(values) != len(times) or (np.diff(times) < 0.0).any():
            raise IKError(
                f"{where}: expected rising times and a value for each, got {len(times)}, {len(values)}"
            )
        if path == "rotation" and (lengths(values[:, 1] if values.ndim > 2 else values) == 0.0).any():
            raise IKError(f"{where}: a rotation is zero")
        tracks[node, path] = _Track(times, values, interpolation)
    return tracks


def _clip(file: _File, animation: str | int | None, frame_rate: float) -> Clip:
    """The clip that a file holds."""
    tracks = _tracks(file, _chosen(file, animation))
    nodes = _nodes(file, {node for node, _ in tracks})
    last = max((float(track.times[-1]) for track in tracks.values()), default=0.0)
    times = np.arange(int((last + ON_KEY) * frame_rate) + 1) / frame_rate
    frames, count = len(times), len(nodes)
    rest = np.tile(np.eye(4), (count, 1, 1))
    places, scales = np.zeros((frames, count, 3)), np.ones((frames, count, 3))
    turns = np.zeros((frames, count, 3, 3))
    for joint, node in enumerate(nodes):

        def at(path: str, node: _Node = node) -> FloatArray:
            track = tracks.get((node.number, path))
            return node.own[path] if track is None else track.at(times, path == "rotation")

        rotation = node.own["matrix"]
        rest[joint, :3, :3], rest[joint, :3, 3] = rotation, node.own["translation"]
        places[:, joint] = (at("translation") - node.own["translation"]) @ rotation  # R⁻¹ of each row
        scales[:, joint] = at("scale")
        if (node.number, "rotation") in tracks:
            turns[:, joint] = rotation.T @ matrix_from_quat(at("rotation")[:, [3, 0, 1, 2]])
        else:
            turns[:, joint] = np.eye(3)
    free = np.zeros((count, CHANNELS), dtype=np.bool_)
    for joint, node in enumerate(nodes):
        free[joint, 3:] = node.is_joint
        free[joint, :3] = node.is_joint and (node.parent < 0 or not nodes[node.parent].is_joint)
    skeleton = Skeleton.build(
        [node.name for node in nodes], [node.parent for node in nodes], rest=rest, free=free, up="Y"
    )
    angles = continuous_euler(euler_from_matrix(turns, skeleton.orders), skeleton.orders)
    pose = Pose(np.concatenate([places, angles], axis=-1), scales)
    return Clip(skeleton, pose, 1.0 / frame_rate)

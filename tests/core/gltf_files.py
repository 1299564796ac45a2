# SPDX-License-Identifier: GPL-3.0-or-later
"""glTF files made in code, for tests with and without Blender."""

import base64
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

RATE = 24.0
"""At which the keys of the animation are on frames [1/s]: that of a new file in Blender."""


def packed(*arrays: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Accessors, views and the buffer of arrays (count, size)."""
    data, views, accessors = b"", [], []
    for array in arrays:
        array = np.array(array, dtype="<f4")
        kind = {1: "SCALAR", 3: "VEC3", 4: "VEC4", 16: "MAT4"}[array.size // len(array)]
        views.append({"buffer": 0, "byteOffset": len(data), "byteLength": array.nbytes})
        accessors.append(
            {
                "bufferView": len(views) - 1,
                "componentType": 5126,
                "count": len(array),
                "type": kind,
                "min": array.reshape(len(array), -1).min(axis=0).tolist(),
                "max": array.reshape(len(array), -1).max(axis=0).tolist(),
            }
        )
        data += array.tobytes()
    uri = "data:application/octet-stream;base64," + base64.b64encode(data).decode()
    return accessors, views, [{"byteLength": len(data), "uri": uri}]


def leg() -> dict[str, Any]:
    """A leg of three bones on a node that is turned and scaled; each property is animated in another way."""
    half = np.sqrt(0.5)
    times = [[0.0], [2.0 / RATE], [5.0 / RATE]]
    turns = [[0.0, 0.0, 0.0, 1.0], [half, 0.0, 0.0, half], [0.0, half, half, 0.0]]
    moves = [[0.0, 1.0, 0.0], [0.3, 1.1, 0.0], [0.5, 0.9, 0.2]]
    sizes = [[1.0, 1.0, 1.0], [1.5, 1.5, 1.5], [1.0, 1.0, 1.0]]
    spline = np.zeros((3, 3, 4))
    spline[:, 1] = turns[::-1]
    identity = np.tile(np.eye(4).ravel(), (3, 1))
    accessors, views, buffers = packed(times, turns, moves, sizes, spline.reshape(9, 4), identity)
    return {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [
            {"name": "Rig", "rotation": [0.0, half, 0.0, half], "scale": [2.0] * 3, "children": [1]},
            {"name": "thigh", "translation": [0.0, 1.0, 0.0], "children": [2]},
            {"name": "shin", "translation": [0.0, -0.5, 0.1], "rotation": [0.6, 0, 0, 0.8], "children": [3]},
            {"name": "foot", "translation": [0.0, -0.5, 0.0]},
        ],
        "skins": [{"joints": [1, 2, 3], "inverseBindMatrices": 5}],
        "animations": [
            {
                "name": "kick",
                "samplers": [
                    {"input": 0, "output": 1},
                    {"input": 0, "output": 2},
                    {"input": 0, "output": 3, "interpolation": "STEP"},
                    {"input": 0, "output": 4, "interpolation": "CUBICSPLINE"},
                ],
                "channels": [
                    {"sampler": 0, "target": {"node": 1, "path": "rotation"}},
                    {"sampler": 1, "target": {"node": 1, "path": "translation"}},
                    {"sampler": 2, "target": {"node": 1, "path": "scale"}},
                    {"sampler": 3, "target": {"node": 2, "path": "rotation"}},
                ],
            }
        ],
        "accessors": accessors,
        "bufferViews": views,
        "buffers": buffers,
    }


def written(path: Path) -> Path:
    """A file with the leg, of which the buffer is in the text."""
    path.write_text(json.dumps(leg()), encoding="utf-8")
    return path


def packed_file(path: Path, document: dict[str, Any]) -> Path:
    """The same as a binary file."""
    (buffer,) = document["buffers"]
    binary = base64.b64decode(buffer.pop("uri").partition(",")[2])
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    chunks = b"".join(
        struct.pack("<I4s", len(part), kind) + part for kind, part in ((b"JSON", text), (b"BIN\0", binary))
    )
    path.write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks)
    return path

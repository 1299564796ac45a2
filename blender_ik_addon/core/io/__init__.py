# SPDX-License-Identifier: GPL-3.0-or-later
"""Skeletons, motions, problems and solutions from files and into them.

    read_bvh, read_gltf ─▶ Clip (skeleton, pose, frame time) ─▶ write_bvh
    to_json, write_json (skeletons, poses, problems, options, solutions) ─▶ from_json, read_json

Read `bvh`, then `gltf` and `json_text`.
"""

from .bvh import Clip, read_bvh, write_bvh
from .gltf import read_gltf
from .json_text import from_json, read_json, to_json, write_json

__all__ = ["Clip", "from_json", "read_bvh", "read_gltf", "read_json", "to_json", "write_bvh", "write_json"]

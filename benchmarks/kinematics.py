# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare forward kinematics with Blender's own `PoseBone.matrix` on real rigs: scripts/kinematics.

Exits with 1 if any rig differs by more than 1e-5 of its size, or if rigs are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from benchmarks.page import arguments, measured, progress, publish
from benchmarks.rigs import every_rig, listed_files
from blender_ik_addon.core.model.kinematics import forward_kinematics
from blender_ik_addon.core.model.rotation import EULER_ORDERS
from blender_ik_addon.scene.armature.armature import read_armature
from blender_ik_addon.scene.armature.poses import evaluated_matrices, read_pose

SEED: Final = 1
POSES: Final = 100

TOLERANCE: Final = 1e-5  # Largest difference that is accepted, relative to the rig's size [1]
METARIGS: Final = 8  # How many metarigs Rigify brings with every supported Blender
FILES_WANTED: Final = 20  # How many files of --data have to be compared, if it lists as many
MODES: Final = ("QUATERNION", "AXIS_ANGLE", *EULER_ORDERS)

LOCATION: Final = 0.05  # Standard deviation of a random location, relative to the rig's size [1]
SCALE: Final = 0.1  # Standard deviation of the logarithm of a random scale [1]


class Comparison(SimpleNamespace):
    """One rig's row of the table, as far as it could be compared."""

    rig: str
    source: str  # 'metarig', 'generated', or the file's type
    bones = compared = poses = 0  # All, and those that their own channels decide
    left_out: Mapping[str, int] = {}  # Reason -> how many bones
    place = axes = 0.0
    """Largest distance between heads, and between points a bone's length along each axis, by size; largest
    difference of an entry of the 3 x 3 part, by the largest entry [1]."""
    problem = ""  # Why the rig could not be compared; empty if it was

    @property
    def error(self) -> float:
        """The larger of the two differences."""
        return max(self.place, self.axes)

    @property
    def reasons(self) -> str:
        """What was left out, and why."""
        reasons = ", ".join(f"{count} by {reason}" for reason, count in self.left_out.items())
        return self.problem or f"{self.bones - self.compared}{': ' if reasons else ''}{reasons}"


def compare(
    name: str, source: str, rig: Any, poses: int, rng: np.random.Generator, *, scale: float
) -> Comparison:
    """Compare one armature object in random poses, with scales of the given spread."""
    bones = rig.data.bones
    box = np.array([[*bone.head_local, *bone.tail_local] for bone in bones]).reshape(-1, 3)
    size = float(np.linalg.norm(np.ptp(box, axis=0)))
    row = Comparison(rig=name, source=source, bones=len(bones), poses=poses)
    for _ in range(poses):
        pose_randomly(rig, size, scale, rng)
        armature = read_armature(rig)
        names = armature.skeleton.names
        evaluated = rig.evaluated_get(bpy.context.evaluated_depsgraph_get())
        kept = np.array([name not in armature.driven_by for name in names])
        row.compared, row.left_out = int(kept.sum()), dict(Counter(armature.driven_by.values()).most_common())
        if kept.any():
            expected = evaluated_matrices(evaluated, armature)[kept]
            found = forward_kinematics(armature.skeleton, read_pose(rig, armature)).matrices[kept]
            lengths = np.array([bones[name].length for name in names])[kept]
            largest = np.abs(found - expected)[:, :3, :3].max() / np.abs(expected[:, :3, :3]).max()
            ends = found - expected
            ends[:, :3, :3] = ends[:, :3, :3] * lengths[:, None, None] + ends[:, :3, 3:]
            row.place = max(row.place, float(np.linalg.norm(ends[:, :3], axis=1).max()) / size)
            row.axes = max(row.axes, float(largest))
    return row


def pose_randomly(rig: Any, size: float, scale: float, rng: np.random.Generator) -> None:
    """Fill every channel of every bone, in bulk, and evaluate."""
    bones = rig.pose.bones
    for bone, mode in zip(bones, rng.choice(MODES, size=len(bones)).tolist(), strict=True):
        bone.rotation_mode = mode
    for attribute, width, spread in (
        ("location", 3, LOCATION * size),
        ("rotation_euler", 3, 2.0),
        ("rotation_quaternion", 4, 1.0),
        ("rotation_axis_angle", 4, 2.0),
    ):
        bones.foreach_set(attribute, rng.normal(scale=spread, size=width * len(bones)).astype(np.float32))
    sizes = np.exp(rng.normal(scale=scale, size=3 * len(bones)))
    bones.foreach_set("scale", sizes.astype(np.float32))
    rig.update_tag()
    bpy.context.view_layer.update()


def comparisons(data: Path | None, poses: int) -> Iterator[Comparison]:
    """Compare every metarig, what Rigify generates from the basic human, and every file."""
    rng = np.random.default_rng(SEED)
    for name, rig in every_rig(data, generated="basic human"):
        source, _, short = name.partition(": ")
        if not short:
            source, short = Path(name).suffix[1:].lower(), name
        if not isinstance(rig, Object):
            yield Comparison(rig=short, source=source, problem=str(rig).strip().splitlines()[-1])
            continue
        if rig.animation_data is not None:
            rig.animation_data_clear()
        if source == "generated":  # its constraints turn uneven scale into shear
            yield compare(f"{short}, generated", source, rig, poses, rng, scale=0.0)
        else:
            yield compare(short, source, rig, poses, rng, scale=SCALE)


def shortcomings(rows: Sequence[Comparison], listed: int) -> list[str]:
    """What makes the comparison fail; `listed` files were to be compared."""
    found = [f"{row.rig} differs by {row.error:.1e}" for row in rows if not row.error <= TOLERANCE]
    missing = METARIGS - sum(row.source == "metarig" for row in rows)
    if missing > 0:
        found.append(f"{missing} of {METARIGS} metarigs are missing")
    if not any(row.source == "generated" and row.left_out for row in rows):
        found.append("no bone of the generated rig was recognised as decided by constraints or drivers")
    files = sum("." in row.rig and row.poses > 0 for row in rows)
    if files < min(FILES_WANTED, listed):
        found.append(f"only {files} of {listed} files could be compared")
    return found


def main() -> int:
    """Run the comparison. Returns the exit code."""
    options = arguments(
        "scripts/kinematics",
        __doc__,
        data=(Path, "folder with an index.json that lists files"),
        poses=(POSES, "poses of each rig"),
    ).parse_args()
    rows = measured(comparisons(options.data, options.poses), "{row.rig}: {row.error:.1e}{row.problem}")
    compared = [row for row in rows if not row.problem]
    problems = shortcomings(rows, len(listed_files(options.data)))
    worst = max(compared, key=lambda row: row.error)
    publish(options, "kinematics", globals(), rows=rows, compared=compared, worst=worst)
    for problem in problems:
        progress(f"FAILED: {problem}")
    return 1 if problems else 0

# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare forward kinematics with Blender's own `PoseBone.matrix` on real rigs, and print a table.

Every rig is put into random poses: each bone in a rotation mode that is drawn anew for each pose, with random
rotation, location and uneven scale. The rigs are Rigify's metarigs, a rig that Rigify generates from one of
them, and, with --data, the BVH, glTF and FBX files that DIR/index.json lists under "file". Most bones of the
generated rig are decided by constraints and drivers: they are left out, with the reason. It is posed without
random scale, because its constraints turn uneven scale into shear, which the channels of a bone cannot hold.

    scripts/kinematics [--data DIR] [--json FILE] [--markdown FILE]

Needs the bpy module. Exits with 1 if any rig differs by more than 1e-5 of its size, or if rigs are missing.
"""

import argparse
import contextlib
import io
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from benchmarks.tables import markdown_table
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.errors import IKError
from blender_ik_addon.core.euler import EULER_ORDERS
from blender_ik_addon.core.kinematics import forward_kinematics
from blender_ik_addon.scene.armature import Armature, read_armature
from blender_ik_addon.scene.poses import evaluated_matrices, read_pose

TOLERANCE = 1e-5
"""Largest difference that is accepted, relative to the rig's size [1]."""

METARIGS = 8
"""How many metarigs Rigify brings with every supported Blender."""

FILES_WANTED = 20
"""How many files of --data have to be compared, if it lists as many."""

MODES = ("QUATERNION", "AXIS_ANGLE", *EULER_ORDERS)

LOCATION = 0.05
"""Standard deviation of a random location, relative to the rig's size [1]."""

SCALE = 0.1
"""Standard deviation of the logarithm of a random scale [1]."""


@dataclass
class Comparison:
    """One rig's row of the table."""

    rig: str
    source: str
    """'metarig', 'generated', or the file's type."""
    bones: int = 0
    compared: int = 0
    """Bones that their own channels decide."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Reason -> how many bones."""
    size: float = 0.0
    """Diagonal of the box round the rest pose [m]."""
    poses: int = 0
    place: float = 0.0
    """Largest distance between heads, and between points a bone's length along each axis, by size [1]."""
    axes: float = 0.0
    """Largest difference of an entry of the 3 x 3 part, by the largest entry [1]."""
    problem: str = ""
    """Why the rig could not be compared; empty if it was."""

    @property
    def error(self) -> float:
        """The larger of the two differences."""
        return max(self.place, self.axes)

    @property
    def good(self) -> bool:
        """Whether the rig was compared and agrees."""
        return not self.problem and self.error <= TOLERANCE


def compare(
    name: str,
    source: str,
    armature_object: Any,
    poses: int,
    rng: np.random.Generator,
    *,
    scale: float = SCALE,
) -> Comparison:
    """Compare one armature object in random poses, with scales of the given spread."""
    bones = armature_object.data.bones
    heads, tails = (_read(bones, attribute, 3) for attribute in ("head_local", "tail_local"))
    box = np.concatenate([heads, tails])
    row = Comparison(name, source, bones=len(bones), size=float(np.linalg.norm(np.ptp(box, axis=0))))
    for _ in range(poses):
        _pose_randomly(armature_object, row.size, scale, rng)
        armature = read_armature(armature_object)
        evaluated = armature_object.evaluated_get(bpy.context.evaluated_depsgraph_get())
        expected = evaluated_matrices(evaluated, armature)
        found = forward_kinematics(armature.skeleton, read_pose(armature_object, armature)).matrices
        _measure(row, armature, expected, found, _lengths(armature_object, armature))
        row.poses += 1
    return row


def _read(collection: Any, attribute: str, width: int) -> FloatArray:
    buffer = np.empty((len(collection), width), dtype=np.float32)
    collection.foreach_get(attribute, buffer.reshape(-1))
    return buffer.astype(np.float64)


def _lengths(armature_object: Any, armature: Armature) -> FloatArray:
    """Return the lengths of the bones, (n,) [m]."""
    return np.array([armature_object.data.bones[name].length for name in armature.skeleton.names])


def _pose_randomly(armature_object: Any, size: float, scale: float, rng: np.random.Generator) -> None:
    """Fill every channel of every bone, in bulk, and evaluate."""
    bones = armature_object.pose.bones
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
    armature_object.update_tag()
    bpy.context.view_layer.update()


def _measure(
    row: Comparison, armature: Armature, expected: FloatArray, found: FloatArray, lengths: FloatArray
) -> None:
    """Put the largest differences into the row; matrices are (n, 4, 4), lengths (n,)."""
    kept = np.array([name not in armature.driven_by for name in armature.skeleton.names])
    row.compared = int(kept.sum())
    row.left_out = dict(Counter(armature.driven_by.values()).most_common())
    if not kept.any():
        return
    difference = np.abs(found - expected)[kept]
    ends = (found - expected)[kept]
    ends[:, :3, :3] = ends[:, :3, :3] * lengths[kept, None, None] + ends[:, :3, 3:]
    row.place = max(row.place, float(np.linalg.norm(ends[:, :3], axis=1).max()) / row.size)
    row.axes = max(row.axes, float(difference[:, :3, :3].max() / np.abs(expected[kept, :3, :3]).max()))


# Where the rigs come from


def _empty_file() -> None:
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)


@contextlib.contextmanager
def rigify() -> Iterator[None]:
    """Enable Rigify for a while.

    The classes that a generated rig has registered for its own panels are unregistered, and the file with its
    drivers is closed: the bpy module of Blender 4.5 does not exit as long as there is one of these.
    """
    import addon_utils  # can be found only after bpy

    with contextlib.redirect_stdout(io.StringIO()):
        addon_utils.enable("rigify", default_set=True)
    before = set(dir(bpy.types))
    try:
        yield
    finally:
        _empty_file()
        for name in set(dir(bpy.types)) - before:
            bpy.utils.unregister_class(getattr(bpy.types, name))
        addon_utils.disable("rigify", default_set=True)


def metarigs() -> dict[str, Callable[[], Any]]:
    """Return Rigify's metarigs: name -> what adds one to the file. Rigify has to be enabled."""
    found: dict[str, Callable[[], Any]] = {}
    for operator in dir(bpy.ops.object):
        match = re.fullmatch(r"armature_(\w+)_metarig_add", operator)
        if match:
            found[match[1].replace("_", " ")] = getattr(bpy.ops.object, operator)
    return found


def compare_metarigs(poses: int, rng: np.random.Generator) -> Iterator[Comparison]:
    """Compare every metarig, and what Rigify generates from the basic human."""
    with rigify():
        for name, add in metarigs().items():
            _empty_file()
            add()
            yield compare(name, "metarig", bpy.context.object, poses, rng)
        _empty_file()
        bpy.ops.object.armature_basic_human_metarig_add()
        with contextlib.redirect_stdout(io.StringIO()):
            bpy.ops.pose.rigify_generate()
        yield compare("basic human, generated", "generated", bpy.context.object, poses, rng, scale=0.0)


def import_file(path: Path) -> None:
    """Read a BVH, glTF or FBX file into the present scene."""
    suffix = path.suffix.lower()
    if suffix == ".bvh":
        bpy.ops.import_anim.bvh(filepath=str(path), update_scene_fps=False, update_scene_duration=False)
    elif suffix in (".glb", ".gltf"):
        bpy.ops.import_scene.gltf(filepath=str(path))
    elif suffix == ".fbx":
        bpy.ops.wm.fbx_import(filepath=str(path))  # also reads ASCII, unlike import_scene.fbx
    else:
        raise IKError(f"no importer for {suffix}")


def compare_file(path: Path, name: str, poses: int, rng: np.random.Generator) -> Iterator[Comparison]:
    """Compare every armature in a file."""
    source = path.suffix[1:].lower()
    _empty_file()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            import_file(path)
    except (RuntimeError, AttributeError, IKError) as error:  # what operators raise
        yield Comparison(name, source, problem=str(error).strip().splitlines()[-1])
        return
    armatures = [obj for obj in bpy.data.objects if obj.type == "ARMATURE"]
    for other in [obj for obj in bpy.data.objects if obj.type != "ARMATURE"]:
        bpy.data.objects.remove(other)  # skinned meshes only cost time
    if not armatures:
        yield Comparison(name, source, problem="no armature in it")
    for obj in armatures:
        animation = obj.animation_data
        if animation is not None:
            animation.action = None
            for track in list(animation.nla_tracks):
                animation.nla_tracks.remove(track)
        yield compare(name if len(armatures) == 1 else f"{name}: {obj.name}", source, obj, poses, rng)


# The table

HEADINGS = ("rig", "source", "bones", "compared", "left out", "poses", "place / size", "axes")


def cells(row: Comparison) -> tuple[str, ...]:
    """Return a row of the table as text."""
    if row.problem:
        return row.rig, row.source, "", "", row.problem, "0", "", ""
    reasons = ", ".join(f"{count} by {reason}" for reason, count in row.left_out.items())
    left_out = row.bones - row.compared
    return (
        row.rig,
        row.source,
        str(row.bones),
        str(row.compared),
        f"{left_out}: {reasons}" if left_out else "0",
        str(row.poses),
        f"{row.place:.1e}",
        f"{row.axes:.1e}",
    )


INTRODUCTION = """\
# Forward kinematics against Blender's

Made by `scripts/kinematics --data DIR --markdown docs/measured/kinematics.md`. Every rig is put
into 100 random poses, each bone in a rotation mode drawn anew for each pose, with random rotation, location
and uneven scale; then the matrices that Poise computes are compared with `PoseBone.matrix`. *Place* is the
largest distance at the heads of the bones and one bone length along their axes, as a part of the rig's size;
*axes* the largest difference in the rotation and scale part. Bones that constraints or drivers decide are
left out, with the reason.
"""


def markdown(rows: list[Comparison]) -> str:
    """Return the table for the documentation."""
    return markdown_table([HEADINGS, *map(cells, rows)]) + "\n"


def summary(rows: list[Comparison]) -> str:
    """Return what the table says, in a sentence."""
    compared = [row for row in rows if not row.problem]
    if not compared:
        return "No rig was compared."
    worst = max(compared, key=lambda row: row.error)
    return (
        f"{len(compared)} rigs with {sum(row.compared for row in compared)} bones, "
        f"{sum(row.poses for row in compared)} poses, Blender {bpy.app.version_string}: the largest "
        f"difference is {worst.error:.1e} ({worst.rig}); {TOLERANCE:g} is accepted."
    )


def shortcomings(rows: list[Comparison], listed: int) -> list[str]:
    """Return what makes the comparison fail; `listed` files were to be compared."""
    found = [f"{row.rig} differs by {row.error:.1e}" for row in rows if not row.problem and not row.good]
    missing = METARIGS - sum(row.source == "metarig" for row in rows)
    if missing > 0:
        found.append(f"{missing} of {METARIGS} metarigs are missing")
    if not any(row.source == "generated" and row.left_out for row in rows):
        found.append("no bone of the generated rig was recognised as decided by constraints or drivers")
    files = len({row.rig.partition(":")[0] for row in rows if row.poses and "." in row.rig})
    if files < min(FILES_WANTED, listed):
        found.append(f"only {files} of {listed} files could be compared")
    return found


def main() -> int:
    """Run the comparison. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder with an index.json that lists files")
    parser.add_argument("--poses", type=int, default=100, help="random poses of each rig (default 100)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    files: list[str] = []
    if options.data is not None:
        index = json.loads((options.data / "index.json").read_text(encoding="utf-8"))
        files = [entry["file"] for entry in index if Path(entry["file"]).suffix != ".json"]

    def comparisons() -> Iterator[Comparison]:
        yield from compare_metarigs(options.poses, rng)
        for name in files:
            yield from compare_file(options.data / name, name, options.poses, rng)

    rows: list[Comparison] = []
    print("{:>8}  {:>8}  {:>5}  {:>8}  rig".format("place", "axes", "bones", "compared"))
    start = time.perf_counter()
    for row in comparisons():
        rows.append(row)
        if row.problem:
            print(f"{'-':>8}  {'-':>8}  {'-':>5}  {'-':>8}  {row.rig}: {row.problem}", flush=True)
            continue
        note = "" if row.bones == row.compared else f"; left out: {cells(row)[4].partition(': ')[2]}"
        mark = "" if row.good else "  <-- differs"
        print(
            f"{row.place:8.1e}  {row.axes:8.1e}  {row.bones:5}  {row.compared:8}  {row.rig}{note}{mark}",
            flush=True,
        )
    print(f"\n{summary(rows)} ({time.perf_counter() - start:.0f} s)")
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    if options.markdown is not None:
        options.markdown.write_text(f"{INTRODUCTION}\n{summary(rows)}\n\n{markdown(rows)}", encoding="utf-8")
    problems = shortcomings(rows, len(files))
    for problem in problems:
        print(f"FAILED: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

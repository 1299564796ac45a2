# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole-body motion from hands, feet, head and hips alone, compared with the recording: scripts/motion.

    scripts/motion --data DIR [--frames N] [--only WORD] [--markdown FILE]

One recorded clip (BVH) of each kind of motion is solved at its full rate on its own rig, as Set Up Character
makes it posable, see `natural_clips.py`. Of the recording nothing but the targets is known.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import bpy
import numpy as np

from benchmarks.motions import JUMP_LEAST, JUMP_RATIO, effector_errors, joint_steps, jumps_of
from benchmarks.natural_clips import LEAST_FRAMES, Recording, clips
from benchmarks.natural_measures import middle_of
from benchmarks.page import Columns, arguments, progress, publish, tabled
from benchmarks.rigs import add_on
from blender_ik_addon.core import Problem, SolverOptions, Status, forward_kinematics, solve_sequence
from blender_ik_addon.core.character.roles import LimbKind
from blender_ik_addon.core.engine.pops import pops_of

FRAMES: Final = 250  # Most frames of a clip

KINDS: Final[dict[str, str]] = {
    "walk": r"walk",
    "run": r"\brun",
    "jump": r"\bjump(s|ing)?\b(?! jacks)",
    "kick": r"kick",
    "punch": r"punch",
    "dance": r"dance",
    "crawl": r"crawl",
    "backflip": r"backflip",
    "get-up": r"get.?up",
}
"""The kinds of motion, and what is looked for in a file's name and in its remark in the index."""

LONGEST: Final = 10.0
"""Length [s] up to which a clip is taken: thinned to the frames of a report it is still smooth."""


def found_clips(folder: Path, frames: int, only: str) -> Iterator[tuple[str, str, Recording]]:
    """A clip of each kind, with its kind and file: the one with the most joints, then the most frames."""
    remarks: dict[str, str] = {}
    for index in (folder / "index.json", folder.parent / "index.json"):
        if index.is_file():
            entries = json.loads(index.read_text(encoding="utf-8"))
            remarks |= {Path(entry["file"]).name: entry.get("note", "") for entry in entries}
    sizes: dict[Path, tuple[int, int, float]] = {}
    for path in sorted(folder.rglob("*.bvh")):
        text = path.read_text(encoding="utf-8", errors="replace")
        count, step = (float(re.findall(rf"{key}:\s*(\S+)", text)[0]) for key in ("Frames", "Frame Time"))
        if count >= LEAST_FRAMES and count * step <= LONGEST:
            sizes[path] = len(re.findall(r"^\s*(?:ROOT|JOINT)\b", text, re.MULTILINE)), int(count), step
    for kind, pattern in KINDS.items():
        for path in sorted(sizes, key=lambda path: sizes[path], reverse=True):
            told = f"{path.stem.replace('_', ' ')} {remarks.get(path.name, '')}".lower()
            if only in kind and re.search(pattern, told):
                name = path.relative_to(folder).as_posix()
                recording = next(clips(folder, frames, name), None)
                if recording is not None:
                    # Blender reads a frame of the file as one of the scene.
                    render = bpy.context.scene.render
                    times = recording.times * (sizes[path][2] * render.fps / render.fps_base)
                    yield kind, name, replace(recording, times=times)
                    break
        else:
            progress(f"no clip of the kind {kind!r}")


def measure(kind: str, file: str, recording: Recording) -> SimpleNamespace:
    """Solve a clip and compare it with the recording.

    Distances are in mm (place) and cm (elbows, knees), angles in degrees; missed counts frames in which a
    target was not reached by the solver's tolerances, pops those of joints that have none in the recording.
    """
    problem = Problem(recording.skeleton, recording.tasks)
    start = time.perf_counter()
    solution = solve_sequence(problem, recording.start, times=recording.times)
    seconds = time.perf_counter() - start
    posed = forward_kinematics(recording.skeleton, solution.pose).matrices
    place, turn = effector_errors(problem, posed)
    moving = problem.moving_joints
    ours, theirs = (joint_steps(problem.skeleton, m)[:, moving] for m in (posed, recording.matrices))
    recorded_pops = pops_of(recording.skeleton, recording.pose, SolverOptions().pop_angle)
    beside = {(pop.joint, pop.frame + step) for pop in recorded_pops for step in (-1, 0, 1)}
    frame, joint = np.unravel_index(int(ours.argmax()), ours.shape)
    away = {}
    for limb_kind in (LimbKind.ARM, LimbKind.LEG):
        middles = [middle_of(limb) for limb in recording.character.limbs_of(limb_kind)]
        difference = (posed - recording.matrices)[:, middles, :3, 3]
        away[limb_kind] = 100.0 * float(np.linalg.norm(difference, axis=-1).mean())
    return SimpleNamespace(
        kind=kind,
        file=file,
        joints=f"{len(recording.skeleton)}, {len(moving)} moved",
        frames=len(posed),
        rate=1.0 / float(np.diff(recording.times).mean()),
        place=place,
        turn=turn,
        missed=sum(status is not Status.REACHED for status in solution.statuses),
        step=float(ours.max()),
        step_at=f"{recording.skeleton.names[moving[int(joint)]]}, frame {int(frame) + 1}",
        recorded_step=float(theirs.max()),
        jumps=len(jumps_of(ours, theirs)),
        pops=sum((pop.joint, pop.frame) not in beside for pop in solution.pops),
        recorded_pops=len(recorded_pops),
        elbows=away[LimbKind.ARM],
        knees=away[LimbKind.LEG],
        iterations=np.asarray(solution.iterations),
        milliseconds=1e3 * seconds / len(posed),
    )


COLUMNS: Final[Columns[SimpleNamespace]] = (
    ("motion", lambda row: row.kind),
    ("frames", lambda row: f"{row.frames} at {row.rate:.0f}/s"),
    ("place, mean / worst [mm]", lambda row: f"{row.place.mean():.4f} / {row.place.max():.4f}"),
    ("turn, mean / worst [°]", lambda row: f"{row.turn.mean():.5f} / {row.turn.max():.5f}"),
    ("not reached", lambda row: f"{row.missed}"),
    ("largest step / recorded [°]", lambda row: f"{row.step:.0f} / {row.recorded_step:.0f}"),
    ("jumps", lambda row: f"{row.jumps}"),
    ("pops / recorded", lambda row: f"{row.pops} / {row.recorded_pops}"),
    ("elbows [cm]", lambda row: f"{row.elbows:.1f}"),
    ("knees [cm]", lambda row: f"{row.knees:.1f}"),
    ("both [cm]", lambda row: f"{0.5 * (row.elbows + row.knees):.1f}"),
    ("iterations, mean / most", lambda row: f"{row.iterations.mean():.1f} / {row.iterations.max()}"),
    ("ms a frame", lambda row: f"{row.milliseconds:.1f}"),
)
CLIP_COLUMNS: Final[Columns[SimpleNamespace]] = (
    ("motion", lambda row: row.kind),
    ("clip", lambda row: row.file),
    ("joints", lambda row: row.joints),
    ("largest step of", lambda row: row.step_at),
)


def summary(rows: Sequence[SimpleNamespace]) -> list[str]:
    """The figures that matter."""
    missed, jumps, pops = (sum(getattr(row, part) for row in rows) for part in ("missed", "jumps", "pops"))
    elbows, knees = (float(np.mean([getattr(row, part) for row in rows])) for part in ("elbows", "knees"))
    times = [row.milliseconds for row in rows]
    return [
        f"{len(rows)} clips, {sum(row.frames for row in rows)} frames: {missed} not reached, {jumps} jumps, "
        f"{pops} pops.",
        f"The worst effector is {max(row.place.max() for row in rows):.4f} mm and "
        f"{max(row.turn.max() for row in rows):.5f}° off.",
        f"Mean of the clips: elbows {elbows:.1f} cm from the recording, knees {knees:.1f} cm, both "
        f"{0.5 * (elbows + knees):.1f} cm.",
        f"A frame takes {min(times):.0f} to {max(times):.0f} ms, clip by clip.",
    ]


def main() -> int:
    """Make the report."""
    parser = arguments("scripts/motion", __doc__)
    parser.add_argument("--data", type=Path, metavar="DIR", required=True, help="folder with BVH files")
    parser.add_argument("--frames", type=int, default=FRAMES, help=f"most of a clip (default {FRAMES})")
    parser.add_argument("--only", default="", metavar="WORD", help="kinds of motion that hold this")
    options = parser.parse_args()
    rows: list[SimpleNamespace] = []
    with add_on():
        for found in found_clips(options.data, options.frames, options.only):
            rows.append(measure(*found))
            progress("  ".join(cell(rows[-1]) for _, cell in COLUMNS))
    publish(
        options.markdown,
        "motion",
        "scripts/motion",
        summary(rows),
        ratio=f"{JUMP_RATIO:g}",
        least=f"{JUMP_LEAST:g}",
        table=tabled(COLUMNS, rows),
        clips=tabled(CLIP_COLUMNS, rows),
        frames=str(options.frames),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

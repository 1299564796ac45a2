# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole-body motion from hands, feet, head and hips alone, compared with the recording: scripts/motion.

    scripts/motion --data DIR [--frames N] [--only WORD] [--markdown FILE]

One recorded clip (BVH) of each kind of motion is solved at its full rate on its own rig, as Set Up Character
makes it posable, see `natural_clips.py`. Of the recording nothing but the targets is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import bpy
import numpy as np

from benchmarks.motions import JUMP_LEAST, JUMP_RATIO
from benchmarks.natural_clips import LEAST_FRAMES, Recording, clips
from benchmarks.natural_measures import Solved
from benchmarks.page import Columns, arguments, progress, publish, tabled
from benchmarks.rigs import add_on
from blender_ik_addon.core import SolverOptions, Status
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


class Row:
    """A clip that was solved, with the pops of its recording."""

    def __init__(self, kind: str, file: str, recording: Recording) -> None:
        self.kind, self.file, self.recording, self.solved = kind, file, recording, Solved(recording)
        self.recorded_pops = pops_of(recording.skeleton, recording.pose, SolverOptions().pop_angle)
        self.frames = len(recording.times)
        self.elbows, self.knees = (self.solved.away(kind) for kind in (LimbKind.ARM, LimbKind.LEG))
        """Mean distances from the recording [cm]."""

    @property
    def missed(self) -> int:
        """Frames in which a target was not reached by the solver's tolerances."""
        return sum(status is not Status.REACHED for status in self.solved.solution.statuses)

    @property
    def pops(self) -> int:
        """Those of joints that have none beside them in the recording."""
        beside = {(pop.joint, pop.frame + step) for pop in self.recorded_pops for step in (-1, 0, 1)}
        return sum((pop.joint, pop.frame) not in beside for pop in self.solved.solution.pops)

    @property
    def milliseconds(self) -> float:
        """Time of a frame."""
        return 1e3 * self.solved.seconds / self.frames

    @property
    def step_at(self) -> str:
        """Where the largest step is."""
        frame = int(self.solved.steps.max(axis=1).argmax())
        return f"{self.solved.joint_of(frame)}, frame {frame + 1}"


COLUMNS: Final[Columns[Row]] = (
    ("motion", lambda row: row.kind),
    ("frames", lambda row: f"{row.frames} at {1.0 / np.diff(row.recording.times).mean():.0f}/s"),
    ("place, mean / worst [mm]", lambda row: f"{row.solved.place.mean():.4f} / {row.solved.place.max():.4f}"),
    ("turn, mean / worst [°]", lambda row: f"{row.solved.turn.mean():.5f} / {row.solved.turn.max():.5f}"),
    ("not reached", lambda row: f"{row.missed}"),
    (
        "largest step / recorded [°]",
        lambda row: f"{row.solved.steps.max():.0f} / {row.solved.recorded_steps.max():.0f}",
    ),
    ("jumps", lambda row: f"{len(row.solved.jumps)}"),
    ("pops / recorded", lambda row: f"{row.pops} / {len(row.recorded_pops)}"),
    ("elbows [cm]", lambda row: f"{row.elbows:.1f}"),
    ("knees [cm]", lambda row: f"{row.knees:.1f}"),
    ("both [cm]", lambda row: f"{0.5 * (row.elbows + row.knees):.1f}"),
    (
        "iterations, mean / most",
        lambda row: f"{np.mean(row.solved.solution.iterations):.1f} / {max(row.solved.solution.iterations)}",
    ),
    ("ms a frame", lambda row: f"{row.milliseconds:.1f}"),
)
CLIP_COLUMNS: Final[Columns[Row]] = (
    ("motion", lambda row: row.kind),
    ("clip", lambda row: row.file),
    ("joints", lambda row: f"{len(row.recording.skeleton)}, {len(row.solved.moving)} moved"),
    ("largest step of", lambda row: row.step_at),
)


def summary(rows: Sequence[Row]) -> list[str]:
    """The figures that matter."""
    elbows, knees = np.mean([(row.elbows, row.knees) for row in rows], axis=0)
    times = [row.milliseconds for row in rows]
    return [
        f"{len(rows)} clips, {sum(row.frames for row in rows)} frames: {sum(row.missed for row in rows)} not "
        f"reached, {sum(len(row.solved.jumps) for row in rows)} jumps, {sum(row.pops for row in rows)} pops.",
        f"The worst effector is {max(row.solved.place.max() for row in rows):.4f} mm and "
        f"{max(row.solved.turn.max() for row in rows):.5f}° off.",
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
    rows: list[Row] = []
    with add_on():
        for found in found_clips(options.data, options.frames, options.only):
            rows.append(Row(*found))
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

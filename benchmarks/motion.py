# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole-body motion from hands, feet, head and hips alone, compared with the recording: scripts/motion.

One recorded clip (BVH) of each kind of motion is solved at its full rate on its own rig, as Set Up Character
makes it posable, see `recordings.py`. Of the recording nothing but the targets is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import starmap
from pathlib import Path
from typing import Final

import bpy
import numpy as np

from benchmarks import motions
from benchmarks.page import arguments, measured, progress, publish, stored
from benchmarks.recordings import LEAST_FRAMES, Recording, Solved, clips
from benchmarks.rigs import add_on
from blender_ik_addon.core import SolverOptions, Status
from blender_ik_addon.core.character.roles import LimbKind
from blender_ik_addon.core.engine.pops import pops_of
from blender_ik_addon.core.io import read_bvh

FRAMES: Final = 250  # Most frames of a clip

KINDS: Final[dict[str, str]] = stored("motion")
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
        clip = read_bvh(path)
        if len(clip.pose) >= LEAST_FRAMES and len(clip.pose) * clip.frame_time <= LONGEST:
            sizes[path] = len(clip.skeleton), len(clip.pose), clip.frame_time
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
        self.frames, self.jumps = len(recording.times), len(self.solved.jumps)
        self.missed = sum(status is not Status.REACHED for status in self.solved.solution.statuses)
        """Frames in which a target was not reached by the solver's tolerances."""
        self.recorded_pops = pops_of(recording.skeleton, recording.pose, SolverOptions().pop_angle)
        beside = {(pop.joint, pop.frame + step) for pop in self.recorded_pops for step in (-1, 0, 1)}
        own = [pop for pop in self.solved.solution.pops if (pop.joint, pop.frame) not in beside]
        self.pops = len(own)
        """Those of joints that have none beside them in the recording."""
        self.alone = sum(pop.frame not in {frame for _, frame in beside} for pop in own)
        """Those where no joint of the recording has any."""
        self.elbows, self.knees = (self.solved.away(kind) for kind in (LimbKind.ARM, LimbKind.LEG))
        self.both = 0.5 * (self.elbows + self.knees)
        """Mean distances from the recording [cm]."""
        self.seconds = self.solved.seconds / self.frames
        """For a frame."""
        self.rate = 1.0 / float(np.diff(recording.times).mean())
        frame = int(self.solved.steps.max(axis=1).argmax())
        self.step_at = f"{self.solved.joint_of(frame)}, frame {frame + 1}"
        """Where the largest step is."""


def main() -> int:
    """Make the report."""
    options = arguments(
        "scripts/motion",
        __doc__,
        data=(..., "folder with BVH files"),
        frames=(FRAMES, "most of a clip"),
        only=("", "kinds of motion that hold this"),
    ).parse_args()
    with add_on():
        found = found_clips(options.data, options.frames, options.only)
        rows = measured(starmap(Row, found), "{row.kind}: {row.missed} of {row.frames} not reached")
    publish(options, "motion", {**vars(motions), **globals()}, rows=rows)
    return 0

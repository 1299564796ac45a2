# SPDX-License-Identifier: GPL-3.0-or-later
"""Bodies set up in one click and led by hands, feet, head and hips, against recordings: scripts/natural.

    scripts/natural --data DIR [--frames N] [--only WORD] [--json FILE] [--markdown FILE] [--picture FILE]

Every clip of a human figure in the folder is solved on its own rig, as Blender imports it and as Set-up
Character makes it posable: limits, stiffness and preferred angles are those that a user gets. Of a recording
nothing but the targets is known. Clips of the folder `bvh` were looked at when stiffness and preferred angles
were chosen; all others are held out. Needs the bpy module.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import bpy
import numpy as np

import blender_ik_addon
from benchmarks.natural_clips import CHOOSING, HEIGHT, LEAST_FRAMES, NO_SIZE, clips
from benchmarks.natural_measures import (
    BACKWARDS,
    REACHED_PLACE,
    REACHED_TURN,
    SPINE_BENT,
    Row,
    measure,
)
from benchmarks.natural_raising import ARC, BENT, BEYOND, Raised, raised
from benchmarks.tables import markdown_table, typed

INTRODUCTION: Final = """\
# Natural from little

Made by `{command}`.

Each clip is solved from the places and orientations of hands, feet, head and hips, on its own rig, with the
limits, stiffness and preferred angles that *Set-up Character* gives it. BVH files keep the Euler orders that
they bring, other rigs are in quaternion mode. Clips: every action of {least} frames and more of every file in
the folder whose figure is a human being; of each every so-manieth frame, no more than {frames}.

What can be chosen, stiffness and preferred angles, was chosen on the clips of `{choosing}`; all others were
run to be counted, and none of that was changed for them. The rules of an earlier engine for sequences were
made with six of the others in view: 91_48, 91_49, 91_51, 91_53 and two slices of the sword. For these misses
and jumps are not held out.
Ranges are those of published anatomy (`core/human.py` names the sources); which of the earlier ones were too
narrow was seen on the clips of `{choosing}`.

"""

MEANING: Final = """
- *Reached*: frames in which every target is met within {place:g} mm and {turn:g}°. Game animations and motion
  capture leave the ranges of healthy people: *outside* is the part of the limited channels in which the
  recording itself does, told in our joints.
- *Missed, out of reach*: the frame alone is missed too, from rest and from the recorded pose brought inside
  the limits: no pose within them was found that does what the recording does there. *Missed, overlooked*:
  from one of them a solve reaches all, so that there is a pose which was not found. Each of these is listed
  below, as is each jump.
- *Backwards*: elbows and knees that bend more than {backwards:g}° the wrong way, counted over frames; a
  recording has them where its rig has hinges that do not lie as at rest.
- *Share*: turn of the joint of the spine that turns most by the mean of all, over the clip; *worst frame*: in
  the frame where that is largest, of those in which the spine turns {bent:g}° in all. A head that is held far
  from the hips leaves a spine little choice: the recordings' own worst frames are in brackets.
- *Collar*: elevation of the collarbone from rest where the hand is above the head, in brackets the
  recording's.
- *Outside its limits*: channels of our poses beyond a limit by more than 1e-4 rad.
- *Step*: largest turn of a joint from frame to frame; *jumps*: see [motion](motion.md). Frames in which a
  figure is scaled to less than {no_size:.0%} of its size, before it appears, are left out.
- *Elbows*, *knees*: mean distance from the recording, for a figure of {height:g} m.
"""

Cell = tuple[str, Callable[[Sequence[Row]], str]]


def _values(rows: Sequence[Row], name: str) -> list[float]:
    """Numbers of all rows that have one."""
    return [value for row in rows if np.isfinite(value := float(getattr(row, name)))]


def _most(rows: Sequence[Row], name: str) -> float:
    return max(_values(rows, name), default=float("nan"))


def _mean(rows: Sequence[Row], name: str) -> float:
    values = _values(rows, name)
    return float(np.mean(values)) if values else float("nan")


def _sum(rows: Sequence[Row], name: str) -> int:
    return int(sum(_values(rows, name)))


def _missed(rows: Sequence[Row]) -> int:
    return sum(row.frames - row.reached for row in rows)


def _overlooked(rows: Sequence[Row]) -> int:
    return sum(len(row.overlooked) for row in rows)


def _with(ours: str, recorded: str) -> str:
    return f"{ours} ({recorded})"


def _backwards(rows: Sequence[Row]) -> str:
    return _with(f"{_sum(rows, 'backwards')}", f"{_sum(rows, 'recorded_backwards')}")


def _share(rows: Sequence[Row]) -> str:
    ours, recorded = (
        f"{_most(rows, name):.2f}, {_mean(rows, name):.2f}" for name in ("share", "recorded_share")
    )
    return _with(ours, recorded)


def _worst_share(rows: Sequence[Row]) -> str:
    return _with(f"{_most(rows, 'worst_share'):.2f}", f"{_most(rows, 'recorded_worst_share'):.2f}")


def _collars(rows: Sequence[Row]) -> str:
    return _with(f"{_mean(rows, 'collar'):.1f}", f"{_mean(rows, 'recorded_collar'):.1f}")


def _step(rows: Sequence[Row]) -> str:
    return f"{max(row.step / row.recorded_step for row in rows):.2f}"


SUMMARY: Final[tuple[Cell, ...]] = (
    ("clips", lambda rows: f"{len(rows)}"),
    ("joints of the spine: clips", lambda rows: _spines(rows)),
    ("frames reached", lambda rows: f"{_sum(rows, 'reached')} of {_sum(rows, 'frames')}"),
    ("frames missed, out of reach within limits", lambda rows: f"{_missed(rows) - _overlooked(rows)}"),
    ("frames missed, overlooked", lambda rows: f"{_overlooked(rows)}"),
    ("elbows and knees bent backwards (recorded)", _backwards),
    ("share of the spine, largest, mean (recorded)", _share),
    ("clips whose share is 2 or more", lambda rows: f"{sum(row.share >= 2.0 for row in rows)}"),
    ("the largest share in a frame (recorded)", _worst_share),
    ("arms with the hand above the head", lambda rows: f"{_sum(rows, 'high')}"),
    ("their collars, mean (recorded) [°]", _collars),
    ("channels outside their limits", lambda rows: f"{_sum(rows, 'violations')}"),
    ("recorded outside, mean [%]", lambda rows: f"{100.0 * _mean(rows, 'recorded_outside'):.1f}"),
    ("largest step by the recording's, worst clip", _step),
    ("jumps", lambda rows: f"{sum(len(row.jumps) for row in rows)}"),
    ("elbows from the recording, mean [cm]", lambda rows: f"{_mean(rows, 'elbows'):.1f}"),
    ("knees from the recording, mean [cm]", lambda rows: f"{_mean(rows, 'knees'):.1f}"),
)
"""What is told of all clips together."""

CELLS: Final[tuple[tuple[str, Callable[[Row], str]], ...]] = (
    ("clip", lambda r: r.clip.replace("|", " ")),
    ("reached", lambda r: f"{r.reached} of {r.frames}"),
    ("worst [mm, °]", lambda r: f"{r.worst_place:.1f}, {r.worst_turn:.1f}"),
    ("backwards", lambda r: f"{r.backwards} ({r.recorded_backwards})"),
    ("spine", lambda r: f"{r.spine}"),
    ("share", lambda r: f"{_number(r.share)} ({_number(r.recorded_share)})"),
    ("worst frame", lambda r: f"{_number(r.worst_share)} ({_number(r.recorded_worst_share)})"),
    ("collar [°]", lambda r: f"{_number(r.collar, 0)} ({_number(r.recorded_collar, 0)})" if r.high else "–"),
    ("outside", lambda r: f"{r.violations} ({100.0 * r.recorded_outside:.0f} %)"),
    ("step [°]", lambda r: f"{r.step:.0f} ({r.recorded_step:.0f})"),
    ("jumps", lambda r: f"{len(r.jumps)}"),
    ("elbows, knees [cm]", lambda r: f"{r.elbows:.1f}, {r.knees:.1f}"),
)
"""What is told of a clip."""


def _number(value: float, places: int = 2) -> str:
    return f"{value:.{places}f}" if np.isfinite(value) else "–"


def _spines(rows: Sequence[Row]) -> str:
    counts = sorted({row.spine for row in rows})
    return ", ".join(f"{joints}: {sum(row.spine == joints for row in rows)}" for joints in counts)


RAISING: Final = """
## Shoulders follow a high reach

On each rig with collarbones, once: hips, feet and head stay as at rest, both hands go up on an arc at
{bent:g} of the arm's length, from {least:.0f}° off hanging to straight up, without their orientation; then
straight up, {beyond:g} cm beyond the length of the arm on a figure of {height:g} m. Told is by how much the
collarbones point further up than at rest. *Reached*: by both hands within 1 mm, of all {places} places.

"""

RAISED_CELLS: Final[tuple[tuple[str, Callable[[Raised], str]], ...]] = (
    ("rig of", lambda r: r.rig.split(":")[0]),
    ("hand low, at 30° [°]", lambda r: f"{r.at(30.0):.1f}"),
    ("level [°]", lambda r: f"{r.at(90.0):.1f}"),
    ("at 140° [°]", lambda r: f"{r.at(140.0):.1f}"),
    ("straight up [°]", lambda r: f"{r.at(180.0):.1f}"),
    ("beyond [°]", lambda r: f"{r.beyond:.1f}"),
    ("reached", lambda r: f"{r.reached} of {len(ARC) + 1}"),
)


def raising(ones: Sequence[Raised]) -> str:
    """What the page says of raised hands."""
    if not ones:
        return ""
    headings = [heading for heading, _ in RAISED_CELLS]
    rise = sum(one.rises for one in ones)
    return (
        RAISING.format(bent=BENT, least=ARC[0], beyond=100.0 * BEYOND, height=HEIGHT, places=len(ARC) + 1)
        + markdown_table([headings, *([cell(one) for _, cell in RAISED_CELLS] for one in ones)])
        + f"\n\n- higher overhead than level, and higher still beyond: {rise} of {len(ones)} rigs\n"
    )


def misses(rows: Sequence[Row]) -> str:
    """Frames that were missed though there is a pose, and jumps."""
    lines = [
        f"- {row.clip.replace('|', ' ')}: overlooked in frame{'' if len(row.overlooked) == 1 else 's'} "
        + ", ".join(str(frame + 1) for frame in row.overlooked)
        for row in rows
        if row.overlooked
    ]
    lines += [f"- {row.clip.replace('|', ' ')}: jumps to frame {jump}" for row in rows for jump in row.jumps]
    heading = "\n## Overlooked, and jumps\n\nFrames of those that were taken, from 1.\n\n"
    return heading + "\n".join(lines or ["Nothing."]) + "\n"


def markdown(
    rows: Sequence[Row], arcs: Sequence[Raised], command: str, picture: str | None, frames: int
) -> str:
    """The page for the documentation."""
    halves = [[row for row in rows if row.held_out == held] for held in (False, True)]
    given = [half for half in halves if half]
    names = [name for name, half in zip(("chosen on", "held out"), halves, strict=True) if half]
    together = (
        markdown_table(
            [("", *names), *((name, *(of_half(half) for half in given)) for name, of_half in SUMMARY)]
        )
        + "\n"
    )
    parts = [
        INTRODUCTION.format(command=command, least=LEAST_FRAMES, frames=frames, choosing=CHOOSING),
        together,
        MEANING.format(
            place=REACHED_PLACE,
            turn=REACHED_TURN,
            backwards=BACKWARDS,
            bent=SPINE_BENT,
            height=HEIGHT,
            no_size=NO_SIZE,
        ),
    ]
    if picture is not None:
        parts.append(f"\n![Spine, collarbones, elbows and knees, clip by clip; raised hands]({picture})\n")
    parts += [raising(arcs), misses(rows)]
    for name, half in zip(names, given, strict=True):
        parts.append(f"\n## Clip by clip: {name}\n\nIn brackets the recording.\n\n")
        headings = [heading for heading, _ in CELLS]
        parts.append(markdown_table([headings, *([cell(row) for _, cell in CELLS] for row in half)]) + "\n")
    facts = f"numpy {np.__version__}; bpy {bpy.app.version_string}; Python {platform.python_version()}"
    return "".join(parts) + f"\nRun with: {facts}; processor {platform.machine()}.\n"


def draw(path: Path, rows: Sequence[Row], arcs: Sequence[Raised]) -> None:
    """Draw share, collars and distances, a mark for each clip, and raised hands, a line for each rig."""
    # Only a picture needs it.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(13.0, 3.4), facecolor="white")
    FigureCanvasAgg(canvas)
    axes = canvas.subplots(1, 4)
    for one in arcs:
        axes[3].plot(ARC, one.collars, color="#7a5195", alpha=0.75, lw=1.2)
    groups = ((False, "#7a5195", "chosen on"), (True, "#ef8a17", "held out"))
    for held, colour, label in groups:
        some = [row for row in rows if row.held_out == held]
        style = {"s": 16, "color": colour, "alpha": 0.75, "label": label, "linewidths": 0}
        axes[0].scatter([r.recorded_share for r in some], [r.share for r in some], **style)
        axes[1].scatter([r.recorded_collar for r in some], [r.collar for r in some], **style)
        axes[2].scatter([r.knees for r in some], [r.elbows for r in some], **style)
    for axis, title, across, up in (
        (axes[0], "share of the spine", "recorded", "solved"),
        (axes[1], "collarbone, hand above head [°]", "recorded", "solved"),
        (axes[2], "distance from the recording [cm]", "knees", "elbows"),
        (axes[3], "collarbone, hand raised [°]", "shoulder to hand, from hanging [°]", "solved, by rig"),
    ):
        axis.set_title(title, fontsize=10)
        axis.set_xlabel(across)
        axis.set_ylabel(up)
        axis.grid(True, color="#e3e6ea", lw=0.7)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].axhline(2.0, color="#d1495b", lw=1.0)
    for axis in axes[:2]:
        low = min(axis.get_xlim()[0], axis.get_ylim()[0])
        high = max(axis.get_xlim()[1], axis.get_ylim()[1])
        axis.plot([low, high], [low, high], color="#c9c9cf", lw=1.0, zorder=0)
    axes[2].legend(frameon=False, fontsize=9)
    canvas.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, dpi=100, pil_kwargs={"optimize": True})


def main() -> int:
    """Make the report. Returns the exit code: 1 when there is no clip."""
    parser = argparse.ArgumentParser(prog="scripts/natural", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--data", type=Path, metavar="DIR", required=True, help="folder with BVH, FBX and glTF files"
    )
    parser.add_argument("--frames", type=int, default=20, help="most frames of a clip (default 20)")
    parser.add_argument("--only", default="", metavar="WORD", help="only files with this in their names")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw all clips, as PNG")
    options = parser.parse_args()
    started = time.perf_counter()
    rows: list[Row] = []
    arcs: list[Raised] = []
    seen: set[tuple[tuple[str, ...], bytes]] = set()
    blender_ik_addon.register()
    try:
        for recording in clips(options.data, options.frames, options.only):
            rows.append(measure(recording))
            rig = recording.skeleton.names, recording.skeleton.rest.round(3).tobytes()
            if rig not in seen:
                seen.add(rig)
                arc = raised(recording, rows[-1].clip)
                arcs += [] if arc is None else [arc]
            print("  ".join(cell(rows[-1]) for _, cell in CELLS), flush=True)
    finally:
        bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
        blender_ik_addon.unregister()
    if not rows:
        print(f"{options.data}: no clip of a human figure", file=sys.stderr)
        return 1
    for name, of_rows in SUMMARY:
        halves = [[row for row in rows if row.held_out == held] for held in (False, True)]
        print(f"{name}: " + "; held out ".join(of_rows(half) if half else "–" for half in halves))
    picture = None
    if options.picture is not None:
        draw(options.picture, rows, arcs)
        picture = options.picture.name
        if options.markdown is not None and options.picture.is_relative_to(options.markdown.parent):
            picture = options.picture.relative_to(options.markdown.parent).as_posix()
    if options.json is not None:
        text = json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False)
        options.json.write_text(text + "\n", encoding="utf-8")
    if options.markdown is not None:
        flags = ["--data DIR"]
        flags += [f"--frames {options.frames}"] if options.frames != parser.get_default("frames") else []
        flags += [f"--only {options.only}"] if options.only else []
        for name in ("markdown", "picture"):  # what else is written is no part of the page
            given = getattr(options, name)
            flags += [] if given is None else [f"--{name} {typed(given)}"]
        command = f"scripts/natural {' '.join(flags)}"
        options.markdown.write_text(markdown(rows, arcs, command, picture, options.frames), encoding="utf-8")
    print(f"{time.perf_counter() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

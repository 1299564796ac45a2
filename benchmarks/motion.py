# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole-body motion from hands, feet, head and hips alone, compared with the recording: scripts/motion.

    scripts/motion --data DIR [--compare] [--json FILE] [--markdown FILE] [--picture FILE]

From each recorded clip the places and orientations of hands, feet, head and hips become targets on the clip's
own skeleton, and everything between them is solved for. Of the recording nothing else is used: the first
frame starts from the rest pose, put where the hips' target is. Reported are how far the effectors are from
their targets, by the core's forward kinematics; the largest turn of a joint from frame to frame, beside the
recording's own; and how far elbows and knees are from where they really were, which no solver can know
exactly: the less the better.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy reads it
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from benchmarks.bvh import BvhError, read_bvh
from benchmarks.human import NOTHING, STEPS, RoleError, roles_of
from benchmarks.recordings import (
    JUMP_LEAST,
    JUMP_RATIO,
    KINDS,
    Row,
    Source,
    find_clips,
    measure,
    read,
)
from benchmarks.tables import markdown_table, typed

HEADINGS: Final = (
    "motion",
    "frames",
    "place, mean / worst [mm]",
    "turn, mean / worst [°]",
    "not reached",
    "largest step / recorded [°]",
    "jumps",
    "pops / recorded",
    "elbows [cm]",
    "knees [cm]",
    "both [cm]",
    "iterations, mean / most",
    "ms a frame",
)


def cells(row: Row) -> tuple[str, ...]:
    """A row as text."""
    return (
        row.kind,
        f"{row.frames} at {row.rate:.0f}/s",
        f"{row.mean_place:.4f} / {row.worst_place:.4f}",
        f"{row.mean_turn:.5f} / {row.worst_turn:.5f}",
        f"{row.missed}",
        f"{row.largest_step:.0f} / {row.recorded_step:.0f}",
        f"{row.jumps}",
        f"{row.pops} / {row.recorded_pops}",
        f"{row.elbows:.1f}",
        f"{row.knees:.1f}",
        f"{row.both:.1f}",
        f"{row.iterations:.1f} / {row.most_iterations}",
        f"{row.milliseconds:.1f}",
    )


def summary(rows: Sequence[Row]) -> str:
    """All clips in a sentence."""
    missed, jumps, pops = (sum(getattr(row, part) for row in rows) for part in ("missed", "jumps", "pops"))
    place, turn = max(row.worst_place for row in rows), max(row.worst_turn for row in rows)
    elbows, knees, both = (
        np.mean([getattr(row, part) for row in rows]) for part in ("elbows", "knees", "both")
    )
    return (
        f"{len(rows)} clips, {sum(row.frames for row in rows)} frames, {missed} not reached, {jumps} jumps, "
        f"{pops} pops; worst effector {place:.4f} mm, {turn:.5f}°. Mean of the clips: elbows {elbows:.1f} cm "
        f"from the recording, knees {knees:.1f} cm, both {both:.1f} cm."
    )


@dataclass(frozen=True)
class Trial:
    """One of `STEPS` on all clips."""

    what: str
    elbows: float
    knees: float
    both: float
    """Mean over the clips of the mean distance [cm]."""
    others: float | None
    """The same of the clips that are not of the report; None where there are none [cm]."""
    step_ratio: float
    """Largest step by that of the recording, the worst clip [1]."""
    jumps: int
    missed: int
    """Of all clips together."""


def compare(sources: Sequence[Source], others: Sequence[Source], frames: int) -> Iterator[Trial]:
    """What each assumption is worth, for the clips of the report and for others."""
    clips, other_clips = ([read(source, frames) for source in some] for some in (sources, others))
    for what, known in STEPS.items():
        rows = [measure(source, clip, known) for source, clip in zip(sources, clips, strict=True)]
        beyond = [measure(source, clip, known) for source, clip in zip(others, other_clips, strict=True)]
        yield Trial(
            what,
            elbows=float(np.mean([row.elbows for row in rows])),
            knees=float(np.mean([row.knees for row in rows])),
            both=float(np.mean([row.both for row in rows])),
            others=float(np.mean([row.both for row in beyond])) if beyond else None,
            step_ratio=max(row.largest_step / row.recorded_step for row in (*rows, *beyond)),
            jumps=sum(row.jumps for row in (*rows, *beyond)),
            missed=sum(row.missed for row in (*rows, *beyond)),
        )


def with_known_parts(sources: Sequence[Source]) -> list[Source]:
    """The clips on which the parts of a body can be found; of the others it is said why not."""
    known: list[Source] = []
    for source in sources:
        try:
            roles_of(read_bvh(source.path))
        except RoleError as error:
            print(f"{source.name}: {error}", file=sys.stderr)
        else:
            known.append(source)
    return known


INTRODUCTION: Final = """\
# Whole-body motion against recordings

Made by `{command}`.

From each recorded clip the places and orientations of hands, feet, head and hips become targets on the
clip's own skeleton; everything between them is solved for. Of the recording nothing else is used. *Place*
and *turn* are errors of the effectors, by forward kinematics of the result, over all frames. *Largest step*
is the largest turn of a joint in its parent from a frame to the next, and that of the recording over the same
joints; *jumps* counts the frames at which a joint turns more than {ratio:g} times as far as any recorded one
between the same two frames, and more than {least:g}°. *Pops* are those that a bake reports, a turn of a joint
out of proportion to those of the frames beside it, where the recording has none of the same joint; after them
all of the recording. *Elbows* and *knees* are their mean distances from the
recording, which the targets do not fix: the less the better.
"""

SKELETONS: Final = """\
## The clips

Files say no unit of length, it is guessed from the height. Where the forearm is the last joint the hand is
its end, *placed* without an orientation: no target then tells where on its circle the elbow is.

"""

ASSUMPTIONS: Final = """\
## What is assumed of a human being

Elbows bend forward and knees backward and not the other way; they resist bending sideways, knees also
twisting; arms and legs are rather bent than straight; upper arms rather stand off the body than hang; ankles,
wrists and the spine would rather not turn (`human_preferences` in `benchmarks/human.py`). Axes and
directions are told from the rest pose and the names of the joints; the numbers are the same for all clips.

The numbers are not blind, though: they were chosen by trying some on these {clips} clips and looking at most
of the others in the folder too, so clips that nobody has looked at may come out worse. Only the first line
owes nothing to any recording.

Means over the clips at no more than {frames} frames each; the last lines leave one thing out again. *Other
clips* is *both* for the {others} clips of the folder that are not in the table above; some are of the same
skeletons. *Step* is the largest step by that of the recording, in the worst of all clips;
jumps and frames not reached are those of all clips together.

"""


TRIAL_HEADINGS: Final = (
    "assumed",
    "elbows [cm]",
    "knees [cm]",
    "both [cm]",
    "other clips [cm]",
    "step",
    "jumps",
    "not reached",
)


def trial_cells(trial: Trial) -> tuple[str, ...]:
    """A trial as text."""
    return (
        trial.what,
        f"{trial.elbows:.1f}",
        f"{trial.knees:.1f}",
        f"{trial.both:.1f}",
        "–" if trial.others is None else f"{trial.others:.1f}",
        f"{trial.step_ratio:.1f}",
        f"{trial.jumps}",
        f"{trial.missed}",
    )


def markdown(
    rows: Sequence[Row], trials: Sequence[Trial], facts: dict[str, Any], command: str, picture: str | None
) -> str:
    """The page for the documentation."""
    parts = [
        INTRODUCTION.format(command=command, ratio=JUMP_RATIO, least=JUMP_LEAST),
        summary(rows) + "\n",
        markdown_table([HEADINGS, *map(cells, rows)]) + "\n",
    ]
    if picture is not None:
        parts.append(f"![Distance of elbows and knees from the recording, and largest steps]({picture})\n")
    if trials:
        assumptions = ASSUMPTIONS.format(
            clips=len(rows), others=facts["other clips"], frames=facts["frames of a comparison"]
        )
        parts.append(assumptions + markdown_table([TRIAL_HEADINGS, *map(trial_cells, trials)]) + "\n")
    clips = [
        (row.kind, row.clip, row.unit, f"{row.joints}, {row.moving} moved", row.hands, row.largest_step_at)
        for row in rows
    ]
    parts.append(
        SKELETONS
        + markdown_table([("motion", "clip", "unit taken", "joints", "hands", "largest step of"), *clips])
        + "\n"
    )
    parts.append("Run with: " + "; ".join(f"{key} {value}" for key, value in facts.items()) + ".\n")
    return "\n".join(parts)


def draw(path: Path, rows: Sequence[Row], before: Sequence[Row]) -> None:
    """Bars for each clip: distances from the recording with and without what is assumed, and steps."""
    # Only a picture needs it, and the environments of the tests do not have it.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    ink, grid = "#2b2d33", "#e3e6ea"
    canvas = Canvas(figsize=(10.0, 6.4), facecolor="white")
    FigureCanvasAgg(canvas)
    distances, steps = canvas.subplots(2, 1, sharex=True)
    x = np.arange(len(rows))
    groups = (
        ("elbows, rest pose alone", [row.elbows for row in before], "#f0bcc3", -0.3),
        ("elbows", [row.elbows for row in rows], "#d1495b", -0.1),
        ("knees, rest pose alone", [row.knees for row in before], "#b3cfe4", 0.1),
        ("knees", [row.knees for row in rows], "#1f77b4", 0.3),
    )
    for label, values, colour, shift in groups:
        bars = distances.bar(x + shift, values, 0.19, color=colour, label=label)
        distances.bar_label(bars, fmt="%.1f", fontsize=7, color=ink)
    distances.set_ylabel("from the recording, mean [cm]", color=ink)
    both = (
        ("ours", [row.largest_step for row in rows], "#7a5195", -0.15),
        ("recorded", [row.recorded_step for row in rows], "#c9c9cf", 0.15),
    )
    for label, values, colour, shift in both:
        bars = steps.bar(x + shift, values, 0.29, color=colour, label=label)
        steps.bar_label(bars, fmt="%.0f", fontsize=7, color=ink)
    steps.set_ylabel("largest turn of a joint\nbetween frames [°]", color=ink)
    steps.set_xticks(x, [row.kind for row in rows])
    for axes in (distances, steps):
        axes.grid(True, axis="y", color=grid, lw=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=9)
    canvas.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, dpi=100)


def main() -> int:
    """Make the report. Returns the exit code: 1 when there is no clip, or a file cannot be read."""
    parser = argparse.ArgumentParser(prog="scripts/motion", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, metavar="DIR", required=True, help="folder with BVH files")
    parser.add_argument("--all", action="store_true", help="every clip in the folder, not one of each kind")
    parser.add_argument("--frames", type=int, default=250, help="most frames of a clip (default 250)")
    parser.add_argument("--compare", action="store_true", help="also show what each assumption is worth")
    parser.add_argument("--compare-frames", type=int, default=40, help="most frames of a clip there (40)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables as Markdown")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw bars, as PNG")
    options = parser.parse_args()
    start = time.perf_counter()
    try:
        sources = with_known_parts(find_clips(options.data, every=options.all))
        others: list[Source] = []
        if options.compare and not options.all:
            chosen = {source.path for source in sources}
            everything = find_clips(options.data, every=True)
            others = with_known_parts([source for source in everything if source.path not in chosen])
    except (OSError, BvhError) as error:
        print(error, file=sys.stderr)
        return 1
    if not sources:
        print(f"{options.data}: no clip of a known kind", file=sys.stderr)
        return 1
    for kind in [] if options.all else KINDS:
        if kind not in {source.kind for source in sources}:
            print(f"no clip of the kind {kind!r}", file=sys.stderr)
    rows: list[Row] = []
    before: list[Row] = []
    for source in sources:
        clip = read(source, options.frames)
        rows.append(measure(source, clip))
        if options.picture is not None:
            before.append(measure(source, clip, NOTHING))
        line = zip(HEADINGS, cells(rows[-1]), strict=True)
        print("  ".join(f"{heading} {cell};" for heading, cell in line), flush=True)
    print(f"\n{summary(rows)}")
    trials: list[Trial] = []
    if options.compare:
        print("\n" + "  ".join(TRIAL_HEADINGS))
        for trial in compare(sources, others, options.compare_frames):
            trials.append(trial)
            print("  ".join(trial_cells(trial)), flush=True)
    facts = {
        "frames of a clip at most": options.frames,
        "frames of a comparison": options.compare_frames,
        "other clips": len(others),
        "numpy": np.__version__,
        "Python": platform.python_version(),
        "processor": platform.machine(),
    }
    if options.picture is not None:
        draw(options.picture, rows, before)
    if options.json is not None:
        content = {"facts": facts, "rows": [asdict(r) for r in rows], "trials": [asdict(t) for t in trials]}
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if options.markdown is not None:
        flags = ["--data DIR"]
        flags += [name for name, given in (("--all", options.all), ("--compare", options.compare)) if given]
        picture = None
        if options.picture is not None:
            picture = Path(os.path.relpath(options.picture, options.markdown.parent)).as_posix()
            flags.append(f"--picture {typed(options.picture)}")
        command = " ".join(["scripts/motion", *flags, f"--markdown {typed(options.markdown)}"])
        options.markdown.write_text(markdown(rows, trials, facts, command, picture), encoding="utf-8")
    print(f"({time.perf_counter() - start:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: GPL-3.0-or-later
"""Bodies set up in one click and led by hands, feet, head and hips, against recordings: scripts/natural.

    scripts/natural --data DIR [--frames N] [--only WORD] [--markdown FILE]

Every clip of a human figure in the folder is solved on its own rig, as Blender imports it and as Set-up
Character makes it posable: limits, stiffness and preferred angles are those that a user gets. Of a recording
nothing but the targets is known. Clips of the folder `bvh` were looked at when stiffness and preferred angles
were chosen; all others are held out. Needs the bpy module.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks import drawing
from benchmarks.natural_clips import CHOOSING, HEIGHT, LEAST_FRAMES, NO_SIZE, clips
from benchmarks.natural_measures import BACKWARDS, REACHED_PLACE, REACHED_TURN, SPINE_BENT, Row, measure
from benchmarks.natural_raising import ARC, BENT, BEYOND, Raised, raised
from benchmarks.page import TEMPLATES, Columns, arguments, listed, picture, progress, publish, table, tabled
from benchmarks.rigs import add_on

FRAMES: Final = 20
"""Most frames of a clip."""


def _values(rows: Sequence[Row], name: str) -> list[float]:
    """Numbers of all rows that have one."""
    return [value for row in rows if np.isfinite(value := float(attrgetter(name)(row)))]


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
    return _with(f"{_sum(rows, 'ours.backwards')}", f"{_sum(rows, 'recorded.backwards')}")


def _share(rows: Sequence[Row]) -> str:
    ours, recorded = (
        f"{_most(rows, name):.2f}, {_mean(rows, name):.2f}" for name in ("ours.share", "recorded.share")
    )
    return _with(ours, recorded)


def _worst_share(rows: Sequence[Row]) -> str:
    return _with(f"{_most(rows, 'ours.worst_share'):.2f}", f"{_most(rows, 'recorded.worst_share'):.2f}")


def _collars(rows: Sequence[Row]) -> str:
    return _with(f"{_mean(rows, 'ours.collar'):.1f}", f"{_mean(rows, 'recorded.collar'):.1f}")


def _step(rows: Sequence[Row]) -> str:
    return f"{max(row.ours.step / row.recorded.step for row in rows):.2f}"


TOGETHER: Final[tuple[tuple[str, Callable[[Sequence[Row]], str]], ...]] = (
    ("clips", lambda rows: f"{len(rows)}"),
    ("joints of the spine: clips", lambda rows: _spines(rows)),
    ("frames reached", lambda rows: f"{_sum(rows, 'reached')} of {_sum(rows, 'frames')}"),
    ("frames missed, out of reach within limits", lambda rows: f"{_missed(rows) - _overlooked(rows)}"),
    ("frames missed, overlooked", lambda rows: f"{_overlooked(rows)}"),
    ("elbows and knees bent backwards (recorded)", _backwards),
    ("share of the spine, largest, mean (recorded)", _share),
    ("clips whose share is 2 or more", lambda rows: f"{sum(row.ours.share >= 2.0 for row in rows)}"),
    ("the largest share in a frame (recorded)", _worst_share),
    ("arms with the hand above the head", lambda rows: f"{_sum(rows, 'high')}"),
    ("their collars, mean (recorded) [°]", _collars),
    ("channels outside their limits", lambda rows: f"{_sum(rows, 'violations')}"),
    ("recorded outside, mean [%]", lambda rows: f"{100.0 * _mean(rows, 'outside'):.1f}"),
    ("largest step by the recording's, worst clip", _step),
    ("jumps", lambda rows: f"{sum(len(row.jumps) for row in rows)}"),
    ("elbows from the recording, mean [cm]", lambda rows: f"{_mean(rows, 'elbows'):.1f}"),
    ("knees from the recording, mean [cm]", lambda rows: f"{_mean(rows, 'knees'):.1f}"),
)
"""What is told of all clips together."""

COLUMNS: Final[Columns[Row]] = (
    ("clip", lambda r: r.clip.replace("|", " ")),
    ("reached", lambda r: f"{r.reached} of {r.frames}"),
    ("worst [mm, °]", lambda r: f"{r.worst_place:.1f}, {r.worst_turn:.1f}"),
    ("backwards", lambda r: f"{r.ours.backwards} ({r.recorded.backwards})"),
    ("spine", lambda r: f"{r.spine}"),
    ("share", lambda r: f"{_number(r.ours.share)} ({_number(r.recorded.share)})"),
    ("worst frame", lambda r: f"{_number(r.ours.worst_share)} ({_number(r.recorded.worst_share)})"),
    (
        "collar [°]",
        lambda r: f"{_number(r.ours.collar, 0)} ({_number(r.recorded.collar, 0)})" if r.high else "–",
    ),
    ("outside", lambda r: f"{r.violations} ({100.0 * r.outside:.0f} %)"),
    ("step [°]", lambda r: f"{r.ours.step:.0f} ({r.recorded.step:.0f})"),
    ("jumps", lambda r: f"{len(r.jumps)}"),
    ("elbows, knees [cm]", lambda r: f"{r.elbows:.1f}, {r.knees:.1f}"),
)
"""What is told of a clip."""


def _number(value: float, places: int = 2) -> str:
    return f"{value:.{places}f}" if np.isfinite(value) else "–"


def _spines(rows: Sequence[Row]) -> str:
    counts = sorted({row.spine for row in rows})
    return ", ".join(f"{joints}: {sum(row.spine == joints for row in rows)}" for joints in counts)


RAISED_COLUMNS: Final[Columns[Raised]] = (
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
    return (
        (TEMPLATES / "natural_raising.md")
        .read_text(encoding="utf-8")
        .format(
            bent=f"{BENT:g}",
            least=f"{ARC[0]:.0f}",
            beyond=f"{100.0 * BEYOND:g}",
            height=f"{HEIGHT:g}",
            places=len(ARC) + 1,
            table=tabled(RAISED_COLUMNS, ones),
            rise=sum(one.rises for one in ones),
            rigs=len(ones),
        )
    )


def misses(rows: Sequence[Row]) -> list[str]:
    """Frames that were missed though there is a pose, and jumps."""
    lines = [
        f"{row.clip.replace('|', ' ')}: overlooked in frame{'' if len(row.overlooked) == 1 else 's'} "
        + ", ".join(str(frame + 1) for frame in row.overlooked)
        for row in rows
        if row.overlooked
    ]
    return lines + [
        f"{row.clip.replace('|', ' ')}: jumps to frame {jump}" for row in rows for jump in row.jumps
    ]


def summary(name: str, rows: Sequence[Row]) -> list[str]:
    """The figures that matter of the clips that were chosen on, or of those that were held out."""
    together = {heading: of_rows(rows) for heading, of_rows in TOGETHER}
    return [
        f"{name.capitalize()}, {len(rows)} clips: frames reached {together['frames reached']}, "
        f"{_overlooked(rows)} of the others overlooked; {together['jumps']} jumps.",
        f"{name.capitalize()}: elbows {together['elbows from the recording, mean [cm]']} cm, knees "
        f"{together['knees from the recording, mean [cm]']} cm from the recording in the mean.",
    ]


def draw(path: Path, rows: Sequence[Row], arcs: Sequence[Raised]) -> None:
    """Draw share, collars and distances, a mark for each clip, and raised hands, a line for each rig."""
    figure, axes = drawing.panels((13.0, 3.4), 1, 4)
    for one in arcs:
        axes[3].plot(ARC, one.collars, color="#7a5195", alpha=0.75, lw=1.2)
    groups = ((False, "#7a5195", "chosen on"), (True, "#ef8a17", "held out"))
    for held, colour, label in groups:
        some = [row for row in rows if row.held_out == held]
        style = {"s": 16, "color": colour, "alpha": 0.75, "label": label, "linewidths": 0}
        axes[0].scatter([r.recorded.share for r in some], [r.ours.share for r in some], **style)
        axes[1].scatter([r.recorded.collar for r in some], [r.ours.collar for r in some], **style)
        axes[2].scatter([r.knees for r in some], [r.elbows for r in some], **style)
    for axis, title, across, up in (
        (axes[0], "share of the spine", "recorded", "solved"),
        (axes[1], "collarbone, hand above head [°]", "recorded", "solved"),
        (axes[2], "distance from the recording [cm]", "knees", "elbows"),
        (axes[3], "collarbone, hand raised [°]", "shoulder to hand, from hanging [°]", "solved, by rig"),
    ):
        axis.set_title(title, fontsize=10)
        axis.set(xlabel=across, ylabel=up)
    drawing.quiet(axes)
    axes[0].axhline(2.0, color="#d1495b", lw=1.0)
    for axis in axes[:2]:
        low = min(axis.get_xlim()[0], axis.get_ylim()[0])
        high = max(axis.get_xlim()[1], axis.get_ylim()[1])
        axis.plot([low, high], [low, high], color="#c9c9cf", lw=1.0, zorder=0)
    axes[2].legend(frameon=False, fontsize=9)
    drawing.save(figure, path)


def main() -> int:
    """Make the report. Returns the exit code: 1 when there is no clip."""
    parser = arguments("scripts/natural", __doc__)
    parser.add_argument(
        "--data", type=Path, metavar="DIR", required=True, help="folder with BVH, FBX and glTF files"
    )
    parser.add_argument(
        "--frames", type=int, default=FRAMES, help=f"most frames of a clip (default {FRAMES})"
    )
    parser.add_argument("--only", default="", metavar="WORD", help="only files with this in their names")
    options = parser.parse_args()
    rows: list[Row] = []
    arcs: list[Raised] = []
    seen: set[tuple[tuple[str, ...], bytes]] = set()
    with add_on():
        for recording in clips(options.data, options.frames, options.only):
            rows.append(measure(recording))
            rig = recording.skeleton.names, recording.skeleton.rest.round(3).tobytes()
            if rig not in seen:
                seen.add(rig)
                arc = raised(recording, rows[-1].clip)
                arcs += [] if arc is None else [arc]
            progress("  ".join(cell(rows[-1]) for _, cell in COLUMNS))
    if not rows:
        progress(f"{options.data}: no clip of a human figure")
        return 1
    halves = {
        name: half
        for name, held in (("chosen on", False), ("held out", True))
        if (half := [row for row in rows if row.held_out == held])
    }
    image = picture(options.markdown, "natural")
    if image is not None:
        draw(image, rows, arcs)
    alt = "Spine, collarbones, elbows and knees, clip by clip; raised hands"
    publish(
        options.markdown,
        "natural",
        "scripts/natural",
        [
            *(line for name, half in halves.items() for line in summary(name, half)),
            f"Shoulders rise with the hands on {sum(arc.rises for arc in arcs)} of {len(arcs)} rigs.",
        ],
        least=str(LEAST_FRAMES),
        frames=str(options.frames),
        choosing=CHOOSING,
        together=table(
            [("", *halves), *((name, *map(of_half, halves.values())) for name, of_half in TOGETHER)]
        ),
        place=f"{REACHED_PLACE:g}",
        turn=f"{REACHED_TURN:g}",
        backwards=f"{BACKWARDS:g}",
        bent=f"{SPINE_BENT:g}",
        height=f"{HEIGHT:g}",
        no_size=f"{NO_SIZE:.0%}",
        picture=f"\n![{alt}](images/natural.png)\n" if image is not None else "",
        raising=raising(arcs),
        misses=listed(misses(rows), "Nothing."),
        clips="".join(
            f"\n## Clip by clip: {name}\n\nIn brackets the recording.\n\n{tabled(COLUMNS, half)}\n"
            for name, half in halves.items()
        ),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: GPL-3.0-or-later
"""Bodies set up in one click and led by hands, feet, head and hips, against recordings: scripts/natural.

    scripts/natural --data DIR [--frames N] [--only WORD] [--markdown FILE]

Every clip of a human figure in the folder is solved on its own rig, as Blender imports it and as Set-up
Character makes it posable. Of a recording nothing but the targets is known: stiffness and preferred angles
are fitted (`fit_preferences`) to the clips of all other sources, not of its own. Each clip is solved a second
time from feet, hands and head alone. Needs the bpy module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.fit_preferences import folds, preferring, read
from benchmarks.natural_clips import HEIGHT, LEAST_FRAMES, NO_SIZE
from benchmarks.natural_measures import (
    ARC,
    BACKWARDS,
    BENT,
    BEYOND,
    REACHED_PLACE,
    REACHED_TURN,
    SPINE_BENT,
    Few,
    Raised,
    Row,
    from_few,
    measure,
    raised,
)
from benchmarks.page import TEMPLATES, Columns, arguments, listed, progress, publish, table, tabled
from benchmarks.rigs import FloatArray, add_on

FRAMES: Final = 20  # Most frames of a clip


def numbers(rows: Sequence[Row], name: str) -> FloatArray:
    """A figure of all rows that have it."""
    values = np.array([float(attrgetter(name)(row)) for row in rows])
    return values[np.isfinite(values)]


def with_recorded(rows: Sequence[Row], name: str, form: str, *ways: Callable[[FloatArray], Any]) -> str:
    """A figure of ours, and in brackets that of the recordings, in one or more ways."""
    ours, recorded = (
        ", ".join(format(float(way(values)) if len(values) else np.nan, form) for way in ways)
        for values in (numbers(rows, f"{of}.{name}") for of in ("ours", "recorded"))
    )
    return f"{ours} ({recorded})"


def missed(rows: Sequence[Row]) -> int:
    """Frames."""
    return sum(row.frames - row.reached for row in rows)


def overlooked(rows: Sequence[Row]) -> int:
    """Frames that were missed although there is a pose."""
    return sum(len(row.overlooked) for row in rows)


def spines(rows: Sequence[Row]) -> str:
    """How many clips have so many joints of the spine."""
    counts = sorted({row.spine for row in rows})
    return ", ".join(f"{joints}: {sum(row.spine == joints for row in rows)}" for joints in counts)


TOGETHER: Final[Columns[Sequence[Row]]] = (
    ("clips", lambda rows: f"{len(rows)}"),
    ("joints of the spine: clips", spines),
    ("frames reached", lambda rows: f"{sum(r.reached for r in rows)} of {sum(r.frames for r in rows)}"),
    ("frames missed, out of reach within limits", lambda rows: f"{missed(rows) - overlooked(rows)}"),
    ("frames missed, overlooked", lambda rows: f"{overlooked(rows)}"),
    (
        "elbows and knees bent backwards (recorded)",
        lambda rows: with_recorded(rows, "backwards", ".0f", np.sum),
    ),
    (
        "share of the spine, largest, mean (recorded)",
        lambda rows: with_recorded(rows, "share", ".2f", np.max, np.mean),
    ),
    ("clips whose share is 2 or more", lambda rows: f"{sum(row.ours.share >= 2.0 for row in rows)}"),
    ("largest share in a frame (recorded)", lambda rows: with_recorded(rows, "worst_share", ".2f", np.max)),
    ("arms with the hand above the head", lambda rows: f"{sum(row.high for row in rows)}"),
    ("their collars, mean (recorded) [°]", lambda rows: with_recorded(rows, "collar", ".1f", np.mean)),
    ("channels outside their limits", lambda rows: f"{sum(row.violations for row in rows)}"),
    ("recorded outside, mean [%]", lambda rows: f"{100.0 * numbers(rows, 'outside').mean():.1f}"),
    (
        "largest step by the recording's, worst clip",
        lambda rows: f"{max(row.ours.step / row.recorded.step for row in rows):.2f}",
    ),
    ("jumps", lambda rows: f"{sum(len(row.jumps) for row in rows)}"),
    ("elbows from the recording, mean [cm]", lambda rows: f"{numbers(rows, 'elbows').mean():.1f}"),
    ("knees from the recording, mean [cm]", lambda rows: f"{numbers(rows, 'knees').mean():.1f}"),
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


FEW: Final[Columns[Sequence[Few]]] = (
    ("frames reached", lambda rows: f"{sum(r.reached for r in rows)} of {sum(r.frames for r in rows)}"),
    ("hips from the recording, mean [cm]", lambda rows: _mean_of(rows, "hips")),
    ("knees from the recording, mean [cm]", lambda rows: _mean_of(rows, "knees")),
    ("elbows from the recording, mean [cm]", lambda rows: _mean_of(rows, "elbows")),
    ("elbows and knees bent backwards", lambda rows: f"{sum(r.backwards for r in rows)}"),
    ("jumps", lambda rows: f"{sum(r.jumps for r in rows)}"),
    ("largest step by the recording's, worst clip", lambda rows: f"{max(r.step for r in rows):.2f}"),
)
"""What is told of clips that are solved without hips."""


def _mean_of(rows: Sequence[Few], name: str) -> str:
    return f"{np.mean([attrgetter(name)(row) for row in rows]):.1f}"


def _number(value: float, places: int = 2) -> str:
    return f"{value:.{places}f}" if np.isfinite(value) else "–"


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


def misses(rows: Sequence[Row]) -> Iterator[str]:
    """Frames that were missed though there is a pose, and jumps."""
    for row in rows:
        clip, frames = row.clip.replace("|", " "), ", ".join(str(frame + 1) for frame in row.overlooked)
        if frames:
            yield f"{clip}: overlooked in frame{'' if len(row.overlooked) == 1 else 's'} {frames}"
        yield from (f"{clip}: jumps to frame {jump}" for jump in row.jumps)


def summary(rows: Sequence[Row], few: Sequence[Few]) -> list[str]:
    """The figures that matter of all clips."""
    together = {heading: of_rows(rows) for heading, of_rows in TOGETHER}
    without = {heading: of_few(few) for heading, of_few in FEW}
    return [
        f"{len(rows)} clips, preferences fitted to the other sources: frames reached "
        f"{together['frames reached']}, {overlooked(rows)} of the others overlooked; "
        f"{together['jumps']} jumps.",
        f"Elbows {together['elbows from the recording, mean [cm]']} cm, knees "
        f"{together['knees from the recording, mean [cm]']} cm from the recording in the mean.",
        f"From feet, hands and head alone: hips {without['hips from the recording, mean [cm]']} cm, knees "
        f"{without['knees from the recording, mean [cm]']} cm, elbows "
        f"{without['elbows from the recording, mean [cm]']} cm in the mean.",
    ]


def by_source(sources: Sequence[str], rows: Sequence[Any]) -> dict[str, list[Any]]:
    """Rows of each source, and all of them."""
    found = {
        source: [row for own, row in zip(sources, rows, strict=True) if own == source]
        for source in dict.fromkeys(sources)
    }
    return {**found, "all": list(rows)}


def main() -> int:
    """Make the report. Returns the exit code: 1 when there is no clip."""
    parser = arguments("scripts/natural", __doc__)
    parser.add_argument("--data", type=Path, metavar="DIR", required=True, help="folder with clips")
    parser.add_argument("--frames", type=int, default=FRAMES, help=f"most of a clip (default {FRAMES})")
    parser.add_argument("--only", default="", metavar="WORD", help="only clips with this in their names")
    options = parser.parse_args()
    rows: list[Row] = []
    few: list[Few] = []
    arcs: list[Raised] = []
    seen: set[tuple[tuple[str, ...], bytes]] = set()
    with add_on():
        found = list(read(options.data, options.frames))
    # Of all sources: where only some clips are solved the tables are the same.
    tables = folds([clip for _, clip in found])
    sources: list[str] = []
    for recorded, clip in found:
        if options.only not in recorded.name:
            continue
        recording = preferring(recorded, tables[clip.source])
        sources.append(clip.source)
        rows.append(measure(recording))
        few.append(from_few(recording))
        rig = recording.skeleton.names, recording.skeleton.rest.round(3).tobytes()
        if rig not in seen:
            seen.add(rig)
            arc = raised(recording, rows[-1].clip)
            arcs += [] if arc is None else [arc]
        progress("  ".join(cell(rows[-1]) for _, cell in COLUMNS))
    if not rows:
        progress(f"{options.data}: no clip of a human figure")
        return 1
    own, own_few = by_source(sources, rows), by_source(sources, few)
    publish(
        options.markdown,
        "natural",
        "scripts/natural",
        [
            *summary(rows, few),
            f"Shoulders rise with the hands on {sum(arc.rises for arc in arcs)} of {len(arcs)} rigs.",
        ],
        least=str(LEAST_FRAMES),
        frames=str(options.frames),
        together=table([("", *own), *((name, *map(told, own.values())) for name, told in TOGETHER)]),
        few=table([("", *own_few), *((name, *map(told, own_few.values())) for name, told in FEW)]),
        place=f"{REACHED_PLACE:g}",
        turn=f"{REACHED_TURN:g}",
        backwards=f"{BACKWARDS:g}",
        bent=f"{SPINE_BENT:g}",
        height=f"{HEIGHT:g}",
        no_size=f"{NO_SIZE:.0%}",
        raising=raising(arcs),
        misses=listed(list(misses(rows)), "Nothing."),
        clips="".join(
            f"\n## Clip by clip: {name}\n\nIn brackets the recording.\n\n{tabled(COLUMNS, clips)}\n"
            for name, clips in own.items()
            if name != "all"
        ),
    )
    return 0

# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole-body motion from hands, feet, head and hips alone, compared with the recording: scripts/motion.

    scripts/motion --data DIR [--compare] [--frames N] [--markdown FILE]

From each recorded clip (BVH) the places and orientations of hands, feet, head and hips become targets on the
clip's own skeleton, and everything between them is solved for. Of the recording nothing else is used: the
first frame starts from the rest pose, put where the hips' target is. What is told of it is on the page,
`pages/motion.md`; with --compare also what each assumption about human beings is worth.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.bvh import Clip, read_bvh
from benchmarks.human import (
    NOTHING,
    STEPS,
    Figure,
    Preferences,
    RoleError,
    Roles,
    human_preferences,
    roles_of,
    targets,
)
from benchmarks.motions import JUMP_LEAST, JUMP_RATIO, effector_errors, joint_steps, jumps_of
from benchmarks.page import TEMPLATES, Columns, arguments, picture, progress, publish, tabled
from blender_ik_addon.core import (
    Pose,
    Problem,
    SequenceSolution,
    SolverOptions,
    Status,
    forward_kinematics,
    solve_sequence,
)
from blender_ik_addon.core.arrays import FloatArray, IntArray
from blender_ik_addon.core.engine.pops import Pop, pops_of

FRAMES, COMPARED_FRAMES = 250, 40
"""Most frames of a clip, and in a comparison."""

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

SHORTEST: Final = 20
"""Frames that a clip must have to be a motion rather than a pose."""

LONGEST: Final = 10.0
"""Length [s] up to which a clip is taken: thinned to the frames of a report it is still smooth."""


# Which clips


@dataclass(frozen=True)
class Source:
    """A clip and where it is from."""

    kind: str
    """Of motion; empty for a clip that is only compared."""
    name: str
    """Of the file, relative to the folder of all data."""
    clip: Clip

    def thinned(self, frames: int) -> Clip:
        """No more than so many frames."""
        return self.clip.every(-(-len(self.clip) // frames))


def find_clips(folder: Path) -> list[Source]:
    """All clips of a figure whose parts can be told by their names; those of the report have a kind.

    Of several of a kind it is the one with the most joints, and of those the one with the most frames.

    Raises:
        OSError: The folder cannot be read.
    """
    remarks: dict[str, str] = {}
    for index in (folder / "index.json", folder.parent / "index.json"):
        if index.is_file():
            entries = json.loads(index.read_text(encoding="utf-8"))
            remarks |= {Path(entry["file"]).name: entry.get("note", "") for entry in entries}
    every = {path: read_bvh(path) for path in sorted(folder.rglob("*.bvh"))}
    clips = {path: clip for path, clip in every.items() if len(clip) >= SHORTEST}
    chosen: dict[Path, str] = {}
    for kind, pattern in KINDS.items():
        fitting = [
            path
            for path, clip in clips.items()
            if len(clip) * clip.frame_time <= LONGEST
            and re.search(pattern, f"{path.stem.replace('_', ' ')} {remarks.get(path.name, '')}".lower())
        ]
        if fitting:
            chosen[max(fitting, key=lambda path: (len(clips[path].skeleton), len(clips[path])))] = kind
        else:
            progress(f"no clip of the kind {kind!r}")
    found: list[Source] = []
    for path in [*chosen, *(path for path in clips if path not in chosen)]:
        name = path.relative_to(folder).as_posix()
        try:
            roles_of(clips[path])
        except RoleError as error:
            progress(f"{name}: {error}")
        else:
            found.append(Source(chosen.get(path, ""), name, clips[path]))
    return found


# Solving, measuring


@dataclass(frozen=True)
class Row:
    """What was measured of a clip."""

    source: Source
    moving: int
    """Joints that the solver moves."""
    frames: int
    rate: float
    """Frames per second after thinning."""
    hands: str
    """How the hands are led: 'turned' with their orientation, 'placed' without."""
    place: FloatArray
    """Of all effectors in all frames [mm]."""
    turn: FloatArray
    """[°]"""
    missed: int
    """Frames in which a target was not reached, by the solver's tolerances."""
    largest_step: float
    """Largest turn of a joint from a frame to the next [°]."""
    largest_step_at: str
    recorded_step: float
    """The same of the recording, over the same joints [°]."""
    jumps: int
    """Frames at which a joint jumps, see `jumps_of`."""
    pops: int
    """Pops, as the solver reports them, of joints that have none in the recording there."""
    recorded_pops: int
    away: FloatArray
    """Distances of left and right elbow, left and right knee from the recording, (F, 4) [cm]."""
    iterations: IntArray
    milliseconds: float
    """Of a frame."""

    @property
    def elbows(self) -> float:
        """Mean distance from the recording [cm]."""
        return float(self.away[:, :2].mean())

    @property
    def knees(self) -> float:
        """Likewise [cm]."""
        return float(self.away[:, 2:].mean())

    @property
    def both(self) -> float:
        """Likewise [cm]."""
        return float(self.away.mean())


COLUMNS: Final[Columns[Row]] = (
    ("motion", lambda row: row.source.kind),
    ("frames", lambda row: f"{row.frames} at {row.rate:.0f}/s"),
    ("place, mean / worst [mm]", lambda row: f"{row.place.mean():.4f} / {row.place.max():.4f}"),
    ("turn, mean / worst [°]", lambda row: f"{row.turn.mean():.5f} / {row.turn.max():.5f}"),
    ("not reached", lambda row: f"{row.missed}"),
    ("largest step / recorded [°]", lambda row: f"{row.largest_step:.0f} / {row.recorded_step:.0f}"),
    ("jumps", lambda row: f"{row.jumps}"),
    ("pops / recorded", lambda row: f"{row.pops} / {row.recorded_pops}"),
    ("elbows [cm]", lambda row: f"{row.elbows:.1f}"),
    ("knees [cm]", lambda row: f"{row.knees:.1f}"),
    ("both [cm]", lambda row: f"{row.both:.1f}"),
    ("iterations, mean / most", lambda row: f"{row.iterations.mean():.1f} / {row.iterations.max()}"),
    ("ms a frame", lambda row: f"{row.milliseconds:.1f}"),
)
CLIP_COLUMNS: Final[Columns[Row]] = (
    ("motion", lambda row: row.source.kind),
    ("clip", lambda row: row.source.name),
    ("unit taken", lambda row: row.source.clip.unit),
    ("joints", lambda row: f"{len(row.source.clip.skeleton)}, {row.moving} moved"),
    ("hands", lambda row: row.hands),
    ("largest step of", lambda row: row.largest_step_at),
)


def solve_clip(
    clip: Clip, roles: Roles, figure: Figure, recorded: FloatArray
) -> tuple[SequenceSolution, Problem]:
    """The whole clip from its targets."""
    problem = Problem(figure.skeleton, tuple(targets(clip, roles, figure, recorded)))
    channels = np.tile(figure.start, (len(clip), 1, 1))
    # The hips' own target puts them there in any case; from there the first frame has not far to go.
    channels[:, roles.hips] = clip.pose.channels[:, roles.hips]
    times = np.arange(len(clip), dtype=np.float64) * clip.frame_time
    return solve_sequence(problem, Pose.from_channels(channels), times=times), problem


def measure(source: Source, frames: int, known: Preferences | None = None) -> Row:
    """Solve a clip at no more than so many frames and compare."""
    clip, roles = source.thinned(frames), roles_of(source.clip)
    figure = human_preferences(clip, roles, known)
    recorded = forward_kinematics(clip.skeleton, clip.pose).matrices
    start = time.perf_counter()
    solution, problem = solve_clip(clip, roles, figure, recorded)
    seconds = time.perf_counter() - start
    posed = forward_kinematics(figure.skeleton, solution.pose).matrices
    place, turn = effector_errors(problem, posed)
    moving = problem.moving_joints
    ours = joint_steps(figure.skeleton, posed)[:, moving]
    theirs = joint_steps(clip.skeleton, recorded)[:, moving]
    recorded_pops = pops_of(clip.skeleton, clip.pose, SolverOptions().pop_angle)
    frame, joint = np.unravel_index(int(ours.argmax()), ours.shape)
    middles = [*roles.elbows, *roles.knees]
    return Row(
        source=source,
        moving=len(moving),
        frames=len(clip),
        rate=1.0 / clip.frame_time,
        hands="turned" if roles.hands else "placed",
        place=place,
        turn=turn,
        missed=sum(status is not Status.REACHED for status in solution.statuses),
        largest_step=float(ours.max()),
        largest_step_at=f"{clip.skeleton.names[moving[int(joint)]]}, frame {int(frame) + 1}",
        recorded_step=float(theirs.max()),
        jumps=len(jumps_of(ours, theirs)),
        pops=sum(not _beside(pop, recorded_pops) for pop in solution.pops),
        recorded_pops=len(recorded_pops),
        away=100.0 * np.linalg.norm((posed - recorded)[:, middles][..., :3, 3], axis=-1),
        iterations=np.asarray(solution.iterations),
        milliseconds=1e3 * seconds / len(clip),
    )


def _beside(pop: Pop, others: Sequence[Pop]) -> bool:
    """Whether one of others is of the same joint, no more than a frame away."""
    return any(other.joint == pop.joint and abs(other.frame - pop.frame) <= 1 for other in others)


# The page


@dataclass(frozen=True)
class Trial:
    """One of `STEPS` on all clips."""

    what: str
    rows: Sequence[Row]
    beyond: Sequence[Row]
    """Of the clips that are not of the report."""

    @property
    def every(self) -> Sequence[Row]:
        """All clips."""
        return [*self.rows, *self.beyond]


TRIAL_COLUMNS: Final[Columns[Trial]] = (
    ("assumed", lambda trial: trial.what),
    ("elbows [cm]", lambda trial: f"{np.mean([row.elbows for row in trial.rows]):.1f}"),
    ("knees [cm]", lambda trial: f"{np.mean([row.knees for row in trial.rows]):.1f}"),
    ("both [cm]", lambda trial: f"{np.mean([row.both for row in trial.rows]):.1f}"),
    (
        "other clips [cm]",
        lambda trial: f"{np.mean([row.both for row in trial.beyond]):.1f}" if trial.beyond else "–",
    ),
    ("step", lambda trial: f"{max(row.largest_step / row.recorded_step for row in trial.every):.1f}"),
    ("jumps", lambda trial: str(sum(row.jumps for row in trial.every))),
    ("not reached", lambda trial: str(sum(row.missed for row in trial.every))),
)


def compared(sources: Sequence[Source]) -> str:
    """What each assumption is worth, for the clips of the report and for others."""
    shown, others = ([source for source in sources if bool(source.kind) is of] for of in (True, False))
    trials: list[Trial] = []
    for what, known in STEPS.items():
        both = ([measure(source, COMPARED_FRAMES, known) for source in some] for some in (shown, others))
        trials.append(Trial(what, *both))
        progress(what)
    return (
        (TEMPLATES / "motion_trials.md")
        .read_text(encoding="utf-8")
        .format(
            clips=len(shown), others=len(others), frames=COMPARED_FRAMES, table=tabled(TRIAL_COLUMNS, trials)
        )
    )


def summary(rows: Sequence[Row]) -> list[str]:
    """The figures that matter."""
    missed, jumps, pops = (sum(getattr(row, part) for row in rows) for part in ("missed", "jumps", "pops"))
    elbows, knees, both = (
        np.mean([getattr(row, part) for row in rows]) for part in ("elbows", "knees", "both")
    )
    return [
        f"{len(rows)} clips, {sum(row.frames for row in rows)} frames: {missed} not reached, {jumps} jumps, "
        f"{pops} pops.",
        f"The worst effector is {max(row.place.max() for row in rows):.4f} mm and "
        f"{max(row.turn.max() for row in rows):.5f}° off.",
        f"Mean of the clips: elbows {elbows:.1f} cm from the recording, knees {knees:.1f} cm, both "
        f"{both:.1f} cm.",
        f"A frame takes {min(row.milliseconds for row in rows):.0f} to "
        f"{max(row.milliseconds for row in rows):.0f} ms, clip by clip.",
    ]


def draw(path: Path, rows: Sequence[Row], before: Sequence[Row]) -> None:
    """Bars for each clip: distances from the recording with and without what is assumed, and steps."""
    from benchmarks import drawing

    figure, (distances, steps) = drawing.panels((10.0, 6.4), 2, 1, sharex=True)
    x = np.arange(len(rows))
    for axes, label, values, colour, shift, width, form in (
        (distances, "elbows, rest pose alone", [row.elbows for row in before], "#f0bcc3", -0.3, 0.19, "%.1f"),
        (distances, "elbows", [row.elbows for row in rows], "#d1495b", -0.1, 0.19, "%.1f"),
        (distances, "knees, rest pose alone", [row.knees for row in before], "#b3cfe4", 0.1, 0.19, "%.1f"),
        (distances, "knees", [row.knees for row in rows], "#1f77b4", 0.3, 0.19, "%.1f"),
        (steps, "ours", [row.largest_step for row in rows], "#7a5195", -0.15, 0.29, "%.0f"),
        (steps, "recorded", [row.recorded_step for row in rows], "#c9c9cf", 0.15, 0.29, "%.0f"),
    ):
        bars = axes.bar(x + shift, values, width, color=colour, label=label)
        axes.bar_label(bars, fmt=form, fontsize=7, color=drawing.INK)
    distances.set_ylabel("from the recording, mean [cm]")
    steps.set_ylabel("largest turn of a joint\nbetween frames [°]")
    steps.set_xticks(x, [row.source.kind for row in rows])
    for axes in (distances, steps):
        axes.legend(frameon=False, fontsize=9)
    drawing.quiet((distances, steps))
    drawing.save(figure, path)


def main() -> int:
    """Make the report."""
    parser = arguments("scripts/motion", __doc__)
    parser.add_argument("--data", type=Path, metavar="DIR", required=True, help="folder with BVH files")
    parser.add_argument(
        "--frames", type=int, default=FRAMES, help=f"most frames of a clip (default {FRAMES})"
    )
    parser.add_argument("--compare", action="store_true", help="also show what each assumption is worth")
    options = parser.parse_args()
    sources = find_clips(options.data)
    rows: list[Row] = []
    for source in sources:
        if source.kind:
            rows.append(measure(source, options.frames))
            progress(source.kind, f"{rows[-1].milliseconds:.1f} ms a frame")
    image = picture(options.markdown, "motion")
    if image is not None:
        draw(image, rows, [measure(row.source, options.frames, NOTHING) for row in rows])
    alt = "Distance of elbows and knees from the recording, and largest steps"
    publish(
        options.markdown,
        "motion",
        "scripts/motion",
        summary(rows),
        ratio=f"{JUMP_RATIO:g}",
        least=f"{JUMP_LEAST:g}",
        table=tabled(COLUMNS, rows),
        picture=f"\n![{alt}](images/motion.png)\n" if image is not None else "",
        trials=compared(sources) if options.compare else "",
        clips=tabled(CLIP_COLUMNS, rows),
        frames=str(options.frames),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

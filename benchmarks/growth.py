# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how time and memory grow with bones, effectors and frames: scripts/bench --growth.

    scripts/bench --growth [--quick] [--json FILE] [--markdown FILE] [--plot FILE]

**Rig.** A spine and as many limbs as there are effectors, which sit at the limbs' ends. The spine and every
limb have the same number of bones, within one; limbs leave the spine evenly along its length and to all
sides, and at rest they are arcs, so that none is singular. From root to tip the bones are 2 m whatever their
number, each is a ball joint and nothing slides. With one effector that is a chain, with four a body.

**Motion.** From rest, where each angle follows a sine of its own size, phase and pace with ½ to 2 turns in
250 frames; the effectors of that motion are the targets, so all can be reached. Sizes fall with the root of
the number of bones to an effector, so that short and long rigs bend alike. The preferred pose is rest, or,
in the cases without one, there is none. All is one call of `solve_sequence` within 1 mm.

**Measures.** Each case is a process of its own. Its time is that of the processor for the call, divided by
the frames; the median of three calls where they are short. Its memory is the highest resident memory during
the call over that before it, less the result, whose size is known: what the solver itself needs at a time.

**Verdict.** Time per frame may grow no faster than bones x effectors: the exponent of a power law through the
points, and that between the last two of them, is at most 1 (and the margin of measuring) in each. Over
frames it is about 0 and, from 1000 frames on, the memory of a further frame is as good as none.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import importlib
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from math import radians
from pathlib import Path
from typing import Any, Final

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy reads it
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from benchmarks.tables import markdown_table
from blender_ik_addon.core import Pose, Problem, ReachPoint, Skeleton, forward_kinematics, solve_sequence
from blender_ik_addon.core.arrays import FloatArray

REACH: Final = 2.0
"""From root to tip along the bones [m]."""

ARC: Final = radians(60.0)
"""How far the last bone of a limb is turned from where the limb begins, at rest [rad]."""

BEND: Final = radians(60.0)
"""About how far a limb bends as a whole [rad]."""

CYCLE: Final = 250
"""Frames in which a motion makes its ½ to 2 turns; ten seconds at 25 frames a second."""

TOLERANCE: Final = 1e-3
"""[m]."""

PLACED_AT_ONCE: Final = 1000
"""Frames for which targets are placed at once, so that drawing them takes no memory to speak of."""

RUNS: Final = 3
SHORT: Final = 5.0
"""A call below this [s] is repeated."""

MARGIN: Final = 0.05
"""By which a measured exponent [1] may be off: 6 % of time over a factor of three."""

FLAT: Final = 32.0
"""Memory of a further frame that is as good as none [B]: four numbers; the result is many times that."""

FILLED: Final = 1000
"""Frames with which all that is filled once is full, so that memory is judged from there."""

SERIES_BONES: Final = (10, 30, 100, 300)
SERIES_EFFECTORS: Final = (1, 2, 4, 8, 16, 32, 64)
SERIES_FRAMES: Final = (100, 1000, 10_000)
FIXED_EFFECTORS: Final = 4
FIXED_BONES: Final = 130
"""Two bones for each limb and for the spine where there are the most effectors."""
FIXED_FRAMES: Final = 100
SMALL_BONES, SMALL_EFFECTORS = 10, 2
QUICK: Final = {"bones": 30, "effectors": 8, "frames": 1000}
"""Where the series end with --quick; rigs have fewer bones then too."""
QUICK_BONES, QUICK_FRAMES = 27, 20


@dataclass(frozen=True)
class Case:
    """What is measured at once."""

    series: str
    """What varies: bones, effectors or frames."""
    bones: int
    effectors: int
    frames: int
    preferred: bool
    """Whether there is a preferred pose."""

    @property
    def size(self) -> int:
        """The value of what varies."""
        return int(getattr(self, self.series))


@dataclass(frozen=True)
class Measure:
    """What came out."""

    case: Case
    seconds: float
    """Time for a frame [s]."""
    working: float
    """Memory beyond targets and result [B]."""
    result: float
    """Memory of the result [B]."""
    reached: float
    """Part of the frames with every effector within the tolerance [1]."""
    iterations: float
    """Median of the frames."""
    iterations_most: int


@dataclass(frozen=True)
class Growth:
    """How something grows along a series."""

    series: str
    preferred: bool
    exponent: float
    """Of the power law through all points."""
    last: float
    """Between the last two."""
    memory: float
    """Bytes of working memory for one more of what varies, between the last two."""
    full: bool
    """Whether there were frames enough for the memory of a further one to count."""
    met: bool


# Rigs and motions


def limb_lengths(bones: int, effectors: int) -> tuple[int, list[int]]:
    """How many bones the spine and each limb have; together they are `bones`."""
    if not 1 <= effectors < bones:
        raise ValueError(f"{effectors} effectors need at least {effectors + 1} bones, there are {bones}")
    each, over = divmod(bones, effectors + 1)
    return each, [each + (number < over) for number in range(effectors)]


def rig(
    bones: int, effectors: int, *, preferred: bool = True
) -> tuple[Skeleton, list[tuple[str, FloatArray]]]:
    """A skeleton, and joint and point (3,) [m] of each effector."""
    spine, limbs = limb_lengths(bones, effectors)
    length = REACH / (spine + max(limbs))
    names = [f"spine{number}" for number in range(spine)]
    parents: list[str | None] = [None, *names[:-1]]
    up = np.array([0.0, 0.0, 1.0])
    offsets = [np.zeros(3), *[length * up] * (spine - 1)]
    tips: list[tuple[str, FloatArray]] = []
    for limb, count in enumerate(limbs):
        root = max((limb + 1) * spine // effectors - 1, 0)  # the last one leaves from the top
        # One alone goes straight on.
        turn = 2.0 * np.pi * limb / effectors
        aside = np.array([np.cos(turn), np.sin(turn), 0.0])
        out, bend = (up, aside) if effectors == 1 else (aside, up)
        angles = ARC * np.arange(1, count + 1)[:, None] / count
        bones_of_limb = length * (np.cos(angles) * out + np.sin(angles) * bend)
        for number in range(count):
            parents.append(names[root] if number == 0 else names[-1])
            names.append(f"limb{limb}_{number}")
            offsets.append(length * up if number == 0 else bones_of_limb[number - 1])
        tips.append((names[-1], bones_of_limb[-1]))
    skeleton = Skeleton.build(names, parents, offsets=offsets, preferred=None if preferred else np.nan)
    return skeleton, tips


def targets(
    skeleton: Skeleton, tips: Sequence[tuple[str, FloatArray]], frames: int, rng: np.random.Generator
) -> FloatArray:
    """Where the effectors of a smooth motion are, (frames, E, 3) [m]; the first frame is rest."""
    depth = np.ones(len(skeleton))
    for joint, parent in enumerate(skeleton.parents):
        if parent >= 0:
            depth[joint] += depth[parent]
    size = BEND / np.sqrt(depth.max()) * rng.uniform(-1.0, 1.0, (len(skeleton), 3))
    turns, phase = rng.uniform(0.5, 2.0, size.shape), rng.uniform(0.0, 2.0 * np.pi, size.shape)
    placed = np.empty((frames, len(tips), 3))
    for first in range(0, frames, PLACED_AT_ONCE):
        times = np.arange(first, min(first + PLACED_AT_ONCE, frames))[:, None, None] / CYCLE
        channels = np.zeros((len(times), len(skeleton), 6))
        channels[:, :, 3:] = size * (np.sin(2.0 * np.pi * turns * times + phase) - np.sin(phase))
        matrices = forward_kinematics(skeleton, Pose.from_channels(channels)).matrices
        for number, (joint, point) in enumerate(tips):
            matrix = matrices[:, skeleton.index(joint)]
            placed[first : first + len(times), number] = matrix[:, :3, :3] @ point + matrix[:, :3, 3]
    return placed


# Measuring


def size_of(thing: object, seen: set[int] | None = None) -> int:
    """Bytes of a result: its arrays, and its sequences and texts, each thing once."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        return thing.nbytes if thing.base is None else size_of(thing.base, seen)
    if is_dataclass(thing):
        return sum(size_of(getattr(thing, field.name), seen) for field in fields(thing))
    if isinstance(thing, str):
        return sys.getsizeof(thing)
    if isinstance(thing, Sequence):
        return sys.getsizeof(thing) + sum(size_of(part, seen) for part in thing)
    return 0


def _resident(key: str) -> float:
    """`VmRSS` now, or `VmHWM`, the most so far [B]."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return 1024.0 * float(line.split()[1])
    raise OSError(f"no {key}")


class MemoryPeak:
    """Highest resident memory of this process from here on, over that from here."""

    def __init__(self) -> None:
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)  # what was freed but is kept would be used again unseen
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the highest is now
            self._start, self._known = _resident("VmRSS"), True
        except OSError:
            # Not Linux: the highest since the process began, which misses what its beginning covers.
            self._start, self._known = self._highest(), False

    @staticmethod
    def _highest() -> float:
        unit = 1.0 if sys.platform == "darwin" else 1024.0
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def grown(self) -> float:
        """[B]."""
        return (_resident("VmHWM") if self._known else self._highest()) - self._start


def measure(case: Case, seed: int = 1) -> Measure:
    """Solve a case in this process."""
    skeleton, tips = rig(case.bones, case.effectors, preferred=case.preferred)
    places = targets(skeleton, tips, case.frames, np.random.default_rng(seed))

    def problem_of(frames: int) -> Problem:
        tasks = [
            ReachPoint(joint=joint, point=point, target=places[:frames, number])
            for number, (joint, point) in enumerate(tips)
        ]
        return Problem(skeleton, tuple(tasks))

    # What is loaded or set up at first use is no part of any frame.
    solve_sequence(problem_of(2), Pose.rest(skeleton, (2,)), tolerance_position=TOLERANCE)
    problem, poses = problem_of(case.frames), Pose.rest(skeleton, (case.frames,))
    times: list[float] = []
    peak = MemoryPeak()
    while True:
        start = time.process_time()
        solution = solve_sequence(problem, poses, tolerance_position=TOLERANCE)
        times.append(time.process_time() - start)
        if len(times) == 1:
            result = size_of(solution)
            working = peak.grown() - result
        if len(times) == RUNS or times[0] > SHORT:
            break
        del solution
    return Measure(
        case,
        seconds=float(np.median(times)) / case.frames,
        working=working,
        result=result,
        reached=float(np.all(solution.errors <= TOLERANCE, axis=1).mean()),
        iterations=float(np.median(solution.iterations)),
        iterations_most=int(np.max(solution.iterations)),
    )


def measure_apart(case: Case, seconds: float) -> Measure | None:
    """Solve a case in a process of its own; None when it takes longer than that [s]."""
    command = [sys.executable, "-m", "benchmarks.growth", "--case", json.dumps(asdict(case))]
    try:
        run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{case}:\n{error.stderr}") from error
    return Measure(**(json.loads(run.stdout) | {"case": case}))


def cases(*, quick: bool = False) -> Iterator[Case]:
    """All of them, the short ones first in each series."""
    bones, frames = (QUICK_BONES, QUICK_FRAMES) if quick else (FIXED_BONES, FIXED_FRAMES)
    for preferred in (True, False):
        for series, sizes in (
            ("bones", SERIES_BONES),
            ("effectors", SERIES_EFFECTORS),
            ("frames", SERIES_FRAMES),
        ):
            for size in sizes:
                if quick and size > QUICK[series]:
                    continue
                if series == "bones":
                    yield Case(series, size, FIXED_EFFECTORS, frames, preferred)
                elif series == "effectors":
                    yield Case(series, bones, size, frames, preferred)
                else:
                    yield Case(series, SMALL_BONES, SMALL_EFFECTORS, size, preferred)


# Judging


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Of the power law nearest to points in logarithms; nan where there are not two."""
    if len(sizes) < 2:
        return float("nan")
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def growths(measured: Sequence[Measure]) -> list[Growth]:
    """One for each series, with a preferred pose and without."""
    found: list[Growth] = []
    for series in ("bones", "effectors", "frames"):
        for preferred in (True, False):
            points = [m for m in measured if (m.case.series, m.case.preferred) == (series, preferred)]
            if len(points) < 2:
                continue
            sizes, seconds = [m.case.size for m in points], [m.seconds for m in points]
            slope, last = exponent(sizes, seconds), exponent(sizes[-2:], seconds[-2:])
            memory = (points[-1].working - points[-2].working) / (sizes[-1] - sizes[-2])
            full = series == "frames" and sizes[-2] >= FILLED
            if series == "frames":
                met = max(slope, last) <= MARGIN and (memory <= FLAT or not full)
            else:
                met = max(slope, last) <= 1.0 + MARGIN
            found.append(Growth(series, preferred, slope, last, memory, full, met))
    return found


# Showing


def _bytes(size: float) -> str:
    return f"{size / 1e6:.1f} MB"


HEADINGS: Final = (
    "bones",
    "effectors",
    "frames",
    "preferred pose",
    "time a frame",
    "µs a bone",
    "working memory",
    "result",
    "reached",
    "iterations",
)


def cells(found: Measure) -> tuple[str, ...]:
    """A row as text."""
    case = found.case
    return (
        str(case.bones),
        str(case.effectors),
        str(case.frames),
        "yes" if case.preferred else "no",
        f"{1e3 * found.seconds:.3g} ms",
        f"{1e6 * found.seconds / case.bones:.3g}",
        _bytes(found.working),
        _bytes(found.result),
        f"{100.0 * found.reached:.1f} %",
        f"{found.iterations:g} (≤ {found.iterations_most})",
    )


def sentence(growth: Growth) -> str:
    """A verdict in words."""
    of = f"{growth.series}, {'with' if growth.preferred else 'without'} preferred pose"
    text = f"{of}: time per frame as the power {growth.exponent:.2f}, at the end {growth.last:.2f}"
    if growth.series == "frames":
        text += f"; {growth.memory:.1f} B of working memory for a further frame"
    wanted = "≤ 1"
    if growth.series == "frames":
        wanted = "≤ 0" + (f", memory ≤ {FLAT:g} B" if growth.full else f", memory from {FILLED} frames on")
    return f"{text} (wanted {wanted}): {'yes' if growth.met else 'NO'}"


def markdown(
    measured: Sequence[Measure], missed: Sequence[Case], surroundings: dict[str, Any], command: str, plot: str
) -> str:
    """The page for the documentation."""
    about = (__doc__ or "").split("\n\n")
    parts = ["# Growth", f"Made by `{command}`.", *about[2:]]
    parts.append("\n".join(f"- {sentence(growth)}" for growth in growths(measured)))
    if plot:
        parts.append(f"![Time per frame and memory over bones, effectors and frames]({plot})")
    parts.append(markdown_table([HEADINGS, *map(cells, measured)]))
    if missed:
        parts.append("Not finished in time: " + "; ".join(_short(case) for case in missed) + ".")
    parts.append("Run with: " + "; ".join(f"{key} {value}" for key, value in surroundings.items()) + ".")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _short(case: Case) -> str:
    words = "with" if case.preferred else "without"
    return f"{case.bones} bones, {case.effectors} effectors, {case.frames} frames {words} preferred pose"


def draw(measured: Sequence[Measure], path: Path) -> None:
    """Times over bones, effectors and frames, and memory over frames, all in logarithms."""
    figure_module = importlib.import_module("matplotlib.figure")  # only who draws needs it
    figure = figure_module.Figure(figsize=(11.0, 3.6), layout="constrained")
    panels = figure.subplots(1, 4)
    for panel, series in zip(panels, ("bones", "effectors", "frames", "memory"), strict=True):
        of = "frames" if series == "memory" else series
        for preferred, colour, mark in ((True, "#2c6fbb", "o"), (False, "#d9822b", "s")):
            points = [m for m in measured if (m.case.series, m.case.preferred) == (of, preferred)]
            if not points:
                continue
            sizes = np.array([m.case.size for m in points], dtype=np.float64)
            label = f"{'with' if preferred else 'without'} preferred pose"
            if series == "memory":
                panel.plot(sizes, [m.working / 1e6 for m in points], mark + "-", color=colour, label=label)
                if preferred:
                    results = [m.result / 1e6 for m in points]
                    panel.plot(sizes, results, ":", color="0.5", label="result itself")
                continue
            times = np.array([1e3 * m.seconds for m in points])
            panel.plot(sizes, times, mark + "-", color=colour, label=label)
            if preferred and series != "frames":
                panel.plot(sizes, times[0] * sizes / sizes[0], ":", color="0.5", label="in proportion")
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.xaxis.set_minor_formatter("")  # a short series would write them over each other
        panel.set_xlabel(of)
        panel.set_ylabel("working memory [MB]" if series == "memory" else "time per frame [ms]")
        panel.grid(alpha=0.3)
        if panel.lines:
            panel.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> int:
    """Measure all cases. Returns the exit code: 1 where something grows faster than it may."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench --growth", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="only the small cases, on smaller rigs")
    parser.add_argument("--series", choices=("bones", "effectors", "frames"), help="only one of them")
    parser.add_argument("--most", type=float, default=1800.0, metavar="S", help="time for a case [s]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw them (needs matplotlib)")
    parser.add_argument(
        "--case", help=argparse.SUPPRESS
    )  # what `measure_apart` asks of the process it starts
    options = parser.parse_args()
    if options.case:
        print(json.dumps(asdict(measure(Case(**json.loads(options.case))))))
        return 0
    measured: list[Measure] = []
    missed: list[Case] = []
    for case in cases(quick=options.quick):
        if options.series not in (None, case.series):
            continue
        if any(other.series == case.series and other.preferred == case.preferred for other in missed):
            missed.append(case)  # a longer one of a series that has run out of time
            continue
        found = measure_apart(case, options.most)
        if found is None:
            print(f"not within {options.most:g} s: {_short(case)}", flush=True)
            missed.append(case)
            continue
        measured.append(found)
        print("  ".join(f"{cell:>12}" for cell in cells(found)), flush=True)
    results = growths(measured)
    print("\n" + "\n".join(sentence(growth) for growth in results))
    surroundings = {
        "numpy": np.__version__,
        "Python": platform.python_version(),
        "processor": platform.machine(),
    }
    if options.json is not None:
        content = {
            "surroundings": surroundings,
            "measures": [asdict(found) for found in measured],
            "growths": [asdict(growth) for growth in results],
            "not_in_time": [asdict(case) for case in missed],
        }
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if options.plot is not None:
        draw(measured, options.plot)
    if options.markdown is not None:
        plot = ""
        if options.plot is not None:
            plot = Path(os.path.relpath(options.plot, options.markdown.parent)).as_posix()
        command = "scripts/bench --growth" + " --quick" * options.quick
        command += f" --markdown {options.markdown.as_posix()}"
        command += f" --plot {options.plot.as_posix()}" if options.plot is not None else ""
        page = markdown(measured, missed, surroundings, command, plot)
        options.markdown.write_text(page, encoding="utf-8")
    return 0 if all(growth.met for growth in results) and not missed else 1


if __name__ == "__main__":
    sys.exit(main())

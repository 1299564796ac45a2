# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how time and memory grow with bones, effectors and frames: scripts/bench --growth.

    scripts/bench --growth [--only SERIES] [--markdown FILE]

Rig, motion, measures and verdict are told on the page, `pages/growth.md`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from math import radians
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from benchmarks.page import Columns, arguments, listed, progress, publish, tabled
from blender_ik_addon.core import Pose, Problem, ReachPoint, Skeleton, forward_kinematics, solve_sequence
from blender_ik_addon.core.arrays import FloatArray

REACH: Final = 2.0  # From root to tip along the bones [m]
ARC: Final = radians(60.0)
"""How far the last bone of a limb is turned from where the limb begins, at rest [rad]."""

BEND: Final = radians(60.0)  # About how far a limb bends as a whole [rad]
CYCLE: Final = 250  # Frames in which a motion makes its ½ to 2 turns; ten seconds at 25 frames a second
TOLERANCE: Final = 1e-3  # [m]
PLACED_AT_ONCE: Final = 1000
"""Frames for which targets are placed at once, so that drawing them takes no memory to speak of."""

SEED: Final = 1
RUNS: Final = 3
SHORT: Final = 5.0  # A call below this [s] is repeated
LONGEST: Final = 1800.0  # Time for a case [s]
MARGIN: Final = 0.05  # By which a measured exponent [1] may be off: 6 % of time over a factor of three
FLAT: Final = 32.0
"""Memory of a further frame that is as good as none [B]: four numbers; the result is many times that."""

FILLED: Final = 1000  # Frames with which all that is filled once is full, so that memory is judged from there

SERIES: Final = {
    "bones": (10, 30, 100, 300),
    "effectors": (1, 2, 4, 8, 16, 32, 64),
    "frames": (100, 1000, 10_000),
}
FIXED: Final = {
    "bones": {"effectors": 4, "frames": 100},
    # Two bones for each limb and for the spine where there are the most effectors.
    "effectors": {"bones": 130, "frames": 100},
    "frames": {"bones": 10, "effectors": 2},
}
"""What does not vary in each series."""


@dataclass(frozen=True)
class Case:
    """What is measured at once."""

    series: str  # What varies: bones, effectors or frames
    bones: int
    effectors: int
    frames: int
    preferred: bool  # Whether there is a preferred pose

    @property
    def size(self) -> int:
        """The value of what varies."""
        return int(getattr(self, self.series))

    def __str__(self) -> str:
        words = "with" if self.preferred else "without"
        return f"{self.bones} bones, {self.effectors} effectors, {self.frames} frames {words} preferred pose"


Measure = SimpleNamespace
"""What came out: `case`, time for a frame (seconds) [s], memory beyond targets and result (working) [B],
memory of the result [B], the part of the frames with every effector within the tolerance (reached) [1], and
the median and the most iterations."""

COLUMNS: Final[Columns[Measure]] = (
    ("bones", lambda m: str(m.case.bones)),
    ("effectors", lambda m: str(m.case.effectors)),
    ("frames", lambda m: str(m.case.frames)),
    ("preferred pose", lambda m: "yes" if m.case.preferred else "no"),
    ("time a frame", lambda m: f"{1e3 * m.seconds:.3g} ms"),
    ("µs a bone", lambda m: f"{1e6 * m.seconds / m.case.bones:.3g}"),
    ("working memory", lambda m: f"{m.working / 1e6:.1f} MB"),
    ("result", lambda m: f"{m.result / 1e6:.1f} MB"),
    ("reached", lambda m: f"{100.0 * m.reached:.1f} %"),
    ("iterations", lambda m: f"{m.iterations:g} (≤ {m.most})"),
)


# Rigs and motions


def rig(bones: int, effectors: int, *, preferred: bool) -> tuple[Skeleton, list[tuple[str, FloatArray]]]:
    """A skeleton, and joint and point (3,) [m] of each effector."""
    spine, over = divmod(bones, effectors + 1)
    limbs = [spine + (number < over) for number in range(effectors)]
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


def resident(key: str) -> float:
    """Memory of this process by Linux: `VmRSS` now, or `VmHWM`, the most so far [B]."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024.0 * float(next(line for line in lines if line.startswith(key + ":")).split()[1])


def forget_peak() -> float:
    """Let the highest resident memory be that of now [B], which is returned."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # what was freed but is kept would be used again unseen
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return resident("VmRSS")


def measure(case: Case) -> dict[str, Any]:
    """Solve a case in this process."""
    skeleton, tips = rig(case.bones, case.effectors, preferred=case.preferred)
    places = targets(skeleton, tips, case.frames, np.random.default_rng(SEED))

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
    found: dict[str, Any] = {}
    before = forget_peak()
    while len(times) < RUNS and (not times or times[0] <= SHORT):
        start = time.process_time()
        solution = solve_sequence(problem, poses, tolerance_position=TOLERANCE)
        times.append(time.process_time() - start)
        if len(times) == 1:
            result = size_of(solution)
            found = {
                "working": resident("VmHWM") - before - result,
                "result": result,
                "reached": float(np.all(solution.errors <= TOLERANCE, axis=1).mean()),
                "iterations": float(np.median(solution.iterations)),
                "most": int(np.max(solution.iterations)),
            }
        del solution
    return found | {"seconds": float(np.median(times)) / case.frames}


def measure_apart(case: Case) -> Measure | None:
    """Solve a case in a process of its own; None when it takes longer than `LONGEST`."""
    command = [sys.executable, "-m", "benchmarks.growth", "--case", json.dumps(asdict(case))]
    try:
        run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return None
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{case}:\n{error.stderr}") from error
    return Measure(case=case, **json.loads(run.stdout))


def cases(only: str | None = None) -> Iterator[list[Case]]:
    """Of each series, the short ones first, with a preferred pose and without."""
    for preferred in (True, False):
        for series, sizes in SERIES.items():
            if only in (None, series):
                yield [
                    Case(series, preferred=preferred, **(FIXED[series] | {series: size})) for size in sizes
                ]


# Judging


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Of the power law nearest to points in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def verdict(points: Sequence[Measure]) -> tuple[str, bool]:
    """How something grows along a series, in words, and whether it may."""
    case = points[0].case
    sizes, seconds = [m.case.size for m in points], [m.seconds for m in points]
    slope, last = exponent(sizes, seconds), exponent(sizes[-2:], seconds[-2:])
    of = f"{case.series}, {'with' if case.preferred else 'without'} preferred pose"
    text = f"{of}: time per frame as the power {slope:.2f}, at the end {last:.2f}"
    if case.series != "frames":
        return f"{text} (wanted ≤ 1)", max(slope, last) <= 1.0 + MARGIN
    memory, full = (points[-1].working - points[-2].working) / (sizes[-1] - sizes[-2]), sizes[-2] >= FILLED
    wanted = f"memory ≤ {FLAT:g} B" if full else f"memory from {FILLED} frames on"
    return (
        f"{text}; {memory:.1f} B of working memory for a further frame (wanted ≤ 0, {wanted})",
        max(slope, last) <= MARGIN and (memory <= FLAT or not full),
    )


# Showing


def summary(measured: Sequence[Measure], verdicts: Sequence[tuple[str, bool]]) -> list[str]:
    """The figures that matter."""
    found = [f"{sum(met for _, met in verdicts)} of {len(verdicts)} series grow no faster than they may."]
    for series in SERIES:
        points = [m for m in measured if m.case.series == series and m.case.preferred]
        if len(points) > 1:
            first, last = points[0], points[-1]
            found.append(
                f"From {first.case.size} to {last.case.size} {series}: {1e3 * first.seconds:.3g} to "
                f"{1e3 * last.seconds:.3g} ms a frame, {first.working / 1e6:.1f} to {last.working / 1e6:.1f} "
                "MB, with preferred pose."
            )
    return found


def main() -> int:
    """Measure all cases. Returns the exit code: 1 where something grows faster than it may."""
    parser = arguments("scripts/bench --growth", __doc__)
    parser.add_argument("--only", choices=tuple(SERIES), help="one series")
    parser.add_argument("--case", metavar="JSON", help="one case, as the processes are asked for it")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(Case(**json.loads(options.case)))))
        return 0
    measured: list[Measure] = []
    missed: list[str] = []
    verdicts: list[tuple[str, bool]] = []
    for series in cases(options.only):
        points: list[Measure] = []
        for case in series:
            found = measure_apart(case)
            if found is None:
                missed += [str(longer) for longer in series[len(points) :]]
                break
            points.append(found)
            progress(case, f"{1e3 * found.seconds:.3g} ms")
        measured += points
        verdicts += [verdict(points)] if len(points) > 1 else []
    publish(
        options.markdown,
        "growth",
        "scripts/bench --growth",
        summary(measured, verdicts),
        verdicts=listed([f"{text}: {'yes' if met else 'NO'}" for text, met in verdicts]),
        table=tabled(COLUMNS, measured),
        missed=f"\nNot finished in time: {'; '.join(missed)}.\n" if missed else "",
    )
    return 0 if all(met for _, met in verdicts) and not missed else 1


if __name__ == "__main__":
    sys.exit(main())

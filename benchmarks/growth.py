# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure how time and memory grow with bones, effectors and frames: scripts/bench --growth.

Rig, motion, measures and verdict are told on the page, `pages/growth.md`.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import radians
from typing import Final

import numpy as np

from benchmarks.page import arguments, measured, publish, stored
from benchmarks.timing import timed
from blender_ik_addon.core import (
    Pose,
    Problem,
    ReachPoint,
    SequenceSolution,
    Skeleton,
    forward_kinematics,
    solve_sequence,
)
from blender_ik_addon.core.arrays import FloatArray

REACH: Final = 2.0  # From root to tip along the bones [m]
ARC: Final = radians(60.0)
"""How far the last bone of a limb is turned from where the limb begins, at rest [rad]."""

BEND: Final = radians(60.0)  # About how far a limb bends as a whole [rad]
CYCLE: Final = 250  # Frames in which a motion makes its ½ to 2 turns; ten seconds at 25 frames a second
TOLERANCE: Final = 1e-3  # [m]

SEED: Final = 1
RUNS: Final = 3
SHORT: Final = 5.0  # A call below this [s] is repeated
MARGIN: Final = 0.05  # By which a measured exponent [1] may be off: 6 % of time over a factor of three
FLAT: Final = 32.0
"""Memory of a further frame that is as good as none [B]: four numbers; the result is many times that."""

FILLED: Final = 1000  # Frames with which all that is filled once is full, so that memory is judged from there

SERIES: Final = stored("growth")
"""What varies in each, and what does not; two bones for each limb where there are the most effectors."""


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

    @property
    def what(self) -> str:
        """Whether there is a preferred pose, in words."""
        return f"{'with' if self.preferred else 'without'} preferred pose"


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
    times = np.arange(frames)[:, None, None] / CYCLE
    channels = np.zeros((frames, len(skeleton), 6))
    channels[:, :, 3:] = size * (np.sin(2.0 * np.pi * turns * times + phase) - np.sin(phase))
    posed = forward_kinematics(skeleton, Pose.from_channels(channels))
    return np.stack([posed.point(joint, point) for joint, point in tips], axis=1)


# Measuring


class Measure:
    """A case, solved a few times for its time where it is short, and once more to see its memory."""

    def __init__(self, case: Case) -> None:
        skeleton, tips = rig(case.bones, case.effectors, preferred=case.preferred)
        places = targets(skeleton, tips, case.frames, np.random.default_rng(SEED))

        def solved(frames: int) -> tuple[SequenceSolution, float]:
            tasks = [
                ReachPoint(joint=joint, point=point, target=places[:frames, number])
                for number, (joint, point) in enumerate(tips)
            ]
            problem, poses = Problem(skeleton, tuple(tasks)), Pose.rest(skeleton, (frames,))
            return timed(solve_sequence, problem, poses, tolerance_position=TOLERANCE)

        solved(2)  # what is loaded or set up at first use is no part of any frame
        times: list[float] = []
        while len(times) < RUNS and (not times or times[0] <= SHORT):
            times.append(solved(case.frames)[1])
        gc.collect()
        tracemalloc.start()
        solution, _ = solved(case.frames)
        self.result, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self.case, self.seconds = case, float(np.median(times)) / case.frames
        """Time for a frame [s]."""
        self.working = peak - self.result
        """Memory beyond targets and result [B]."""
        self.iterations, self.reached = solution.iterations, np.all(solution.errors <= TOLERANCE, axis=1)


def cases(only: str | None = None) -> Iterator[list[Case]]:
    """Of each series, the short ones first, with a preferred pose and without."""
    for preferred in (True, False):
        for series, of in SERIES.items():
            if only in (None, series):
                yield [
                    Case(series, preferred=preferred, **(of["fixed"] | {series: size}))
                    for size in of["sizes"]
                ]


# Judging


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Of the power law nearest to points in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


class Verdict:
    """How something grows along a series, and whether it may."""

    def __init__(self, points: Sequence[Measure]) -> None:
        self.case, self.first, self.last = points[0].case, points[0], points[-1]
        sizes, seconds = [m.case.size for m in points], [m.seconds for m in points]
        self.slope, self.end = exponent(sizes, seconds), exponent(sizes[-2:], seconds[-2:])
        """Time for a frame as a power of the size, over all points and over the last two."""
        self.memory = (points[-1].working - points[-2].working) / (sizes[-1] - sizes[-2])
        """Of a further frame, for example [B]."""
        over_frames = self.case.series == "frames"
        self.met = max(self.slope, self.end) <= (0.0 if over_frames else 1.0) + MARGIN
        if over_frames and sizes[-2] >= FILLED:
            self.met = self.met and self.memory <= FLAT


def main() -> int:
    """Measure all cases. Returns the exit code: 1 where something grows faster than it may."""
    parser = arguments("scripts/bench --growth", __doc__)
    parser.add_argument("--only", choices=tuple(SERIES), help="one series")
    options = parser.parse_args()
    every: list[Measure] = []
    verdicts: list[Verdict] = []
    for series in cases(options.only):
        points = measured(map(Measure, series), "{row.case.size} {row.case.series}: {row.seconds:ms .3g} ms")
        every += points
        verdicts.append(Verdict(points))
    publish(
        options,
        "growth",
        globals(),
        measured=every,
        over_frames=[one for one in verdicts if one.case.series == "frames"],
        others=[one for one in verdicts if one.case.series != "frames"],
        verdicts=verdicts,
        preferred=[one for one in verdicts if one.case.preferred],
    )
    return 0 if all(one.met for one in verdicts) else 1

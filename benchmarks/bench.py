# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the solver against the figures that it shall reach: scripts/bench.

    scripts/bench [--peers] [--data FILE] [--data-buss FILE] [--data-levels FILE] [--markdown FILE]

What is judged is what a user gets: the default settings, with the preferred pose, motions with the default
smoothness. Rows without the preferred pose are there to be compared with other libraries, and not judged.

What is measured is told on the page, `pages/bench.md`. With --data targets are those of a file.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import degrees, radians
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import numpy as np

from benchmarks import peers, trees
from benchmarks.motions import joint_steps
from benchmarks.page import Columns, arguments, progress, publish, tabled
from benchmarks.papers.linkages import Linkage
from benchmarks.trees import Targets, Tree
from blender_ik_addon.core import (
    Pose,
    Problem,
    ReachPoint,
    SequenceSolution,
    Skeleton,
    Solution,
    Tracker,
    forward_kinematics,
    solve,
    solve_each,
    solve_sequence,
)
from blender_ik_addon.core.arrays import BoolArray, FloatArray
from blender_ik_addon.core.model.mechanism import PosedMechanism
from blender_ik_addon.core.problem.system import System

FRAMES: Final = 60  # Of a track, and poses of a tree
SEED: Final = 1

LIMIT: Final = radians(60.0)  # Joint limit of the limited rows, to both sides [rad]
POSE_TOLERANCE: Final = 1e-4  # Our tolerance from rest [m]; the yardstick stops at its own, which is wider
STRETCH: Final = 1.3  # Distance of the held arm's target in units of its reach [1]
SEQUENCE_RUNS: Final = 3
"""Of which the median counts, and as many more as there is time for; they differ only in what the processor
and the interpreter have at hand, and a process is not warm before some tenths of a second."""
SEQUENCE_TIME: Final = 0.5  # Time for them [s]
RATIO_TRACK, RATIO_SEQUENCE, RATIO_POSE, RATIO_BATCH = 1.2, 5.0, 2.5, 0.7
"""Wanted times of a frame that follows the one before, of one of a motion, of a pose from rest, and of one of
many poses at once [yardsticks]."""

IN_REACH, BEYOND = (10.0, 3.0), (17.0, 10.0)
"""Largest turn of a joint in a frame and largest change of it that are wanted of motions, in reach and led
out of it and back [°]."""

MET: Final = 1e-4  # Distance at which a target of a motion is met, and by which a level may be off [m]
BEYOND_LEVELS: Final = {"head": 2, "hand_l": 1, "hand_r": 1, "foot_l": 0, "foot_r": 0}
"""Levels of priority of the effectors in a motion that leads out of reach."""
MOTION_FRAMES: Final = 250
BEYOND_FRAMES: Final = 18.0
"""Over about so many frames to either side of the middle a hand is led out of reach."""

FAR_POSES: Final = 24
FIRST_SHARE, ALL_SHARE, ALL_SLACK = 0.98, 0.95, 2e-3
"""Share of the unreachable poses whose first level is no further off than it can be, to 0.1 mm, and of those
whose levels are not, one after the other, to so much [m]."""
POSE_TIMES: Final = {"without restarts": (0.040, 0.5), "": (0.120, None)}
"""Wanted median and largest time of an unreachable pose [s]."""
LEVELS_SEED: Final = 9000  # Of the first unreachable pose; those of a file are made with the same
HELD_FRAMES: Final = 60
NOISE: Final = 0.01  # Wanted change of an angle [°] in a frame
LIMIT_SLACK: Final = 1e-9  # Angle over a limit that is none [rad]
STRICT_POSES: Final = 6
STRICTNESS: Final = 1e-4  # Wanted change of a higher residual when lower tasks are added [m]
BEST_KNOWN: Final = 1.01  # Wanted mean squared error in units of the best known [1]


class Row(NamedTuple):
    """One line of the table."""

    what: str
    wanted: str
    measured: str
    met: bool | None  # Whether the wanted figure is reached; None where there is none
    counts: str = ""
    times: str = ""


COLUMNS: Final[Columns[Row]] = (
    ("work", lambda row: row.what),
    ("wanted", lambda row: row.wanted or "–"),
    ("measured", lambda row: row.measured),
    ("", lambda row: {True: "yes", False: "NO", None: "–"}[row.met]),
    ("counts, median", lambda row: row.counts),
    ("µs a frame, ours / yardstick", lambda row: row.times),
)


@contextlib.contextmanager
def counting() -> Iterator[list[int]]:
    """Count forward kinematics, one entry for each call: a batch of F frames counts F."""
    placed: list[int] = []
    original = System.place

    def place(system: System, values: FloatArray) -> PosedMechanism:
        placed.append(len(values))
        return original(system, values)

    with patch.object(System, "place", place):
        yield placed


def iterations_of(counts: Sequence[int] | np.ndarray) -> str:
    """Median and most iterations."""
    return f"{np.median(counts):g} (≤ {max(counts)}) iterations"


def microseconds(ours: float, plain: float | None = None) -> str:
    """Times for a frame, ours and the yardstick's [s]."""
    return f"{1e6 * ours:.0f}" + ("" if plain is None else f" / {1e6 * plain:.0f}")


# Tracks and poses


@dataclass(frozen=True)
class Case:
    """A tree, targets, and how both are solved frame by frame; with what the yardstick did."""

    what: str
    tree: Tree
    targets: Targets
    warm: bool  # From the frame before, else from rest
    tolerance: float
    limit: float | None = None

    @cached_property
    def yardstick(self) -> tuple[float, str]:
        """Its median time [s], and its median iterations with the part that it reaches."""
        found = trees.plain_solutions(self.tree, self.targets.positions, warm=self.warm, limit=self.limit)
        solutions, times = zip(*found, strict=True)
        reached = np.array([plain.reached for plain in solutions])[self.targets.reachable].mean()
        iterations = np.median([plain.iterations for plain in solutions])
        return float(np.median(times)), f"yardstick {iterations:g}, {100.0 * reached:.1f} %"

    def one_by_one(self, ratio: float | None, rate: float | None = None, **options: Any) -> Row:
        """Frame by frame by a `Tracker`, prepared before the clock runs like the yardstick's loop.

        Not in turn with the yardstick: what ours leaves in the processor's caches would slow it down by a
        fifth. `ratio` of the times and `rate` of the reachable are what is wanted.
        """
        (plain_time, plain), skeleton = self.yardstick, self.tree.skeleton(self.limit)
        times, counts, iterations, reached = [], [], [], []
        problem = Problem(skeleton, self.tree.tasks(self.targets.positions[0]))
        options["tolerance_position"] = self.tolerance
        tracker = Tracker(problem, Pose.rest(skeleton), **options)
        with counting() as placed:
            for places in self.targets.positions:
                placed.clear()
                start = time.process_time()
                if not self.warm:
                    tracker.restart()
                solution = tracker.solve(places)
                times.append(time.process_time() - start)
                counts.append(sum(placed))
                iterations.append(solution.iterations)
                reached.append(solution.reached)
        part, seconds = float(np.array(reached)[self.targets.reachable].mean()), float(np.median(times))
        wanted = [f"reached ≥ {100 * rate:g} %"] if rate is not None else []
        wanted += [f"ratio ≤ {ratio:.2f}"] if ratio is not None else []
        met = part >= (rate or 0.0) and seconds / plain_time <= (ratio or np.inf)
        return Row(
            self.what,
            ", ".join(wanted),
            f"ratio {seconds / plain_time:.2f}, reached {100 * part:.1f} %",
            met if wanted else None,
            f"{iterations_of(iterations)}, {np.median(counts):g} placed; {plain}",
            microseconds(seconds, plain_time),
        )

    def at_once(
        self, way: str, solver: Callable[..., SequenceSolution], wanted: float | None, **options: Any
    ) -> Row:
        """All frames from rest by one call."""
        skeleton, frames = self.tree.skeleton(self.limit), len(self.targets.positions)
        poses, times = Pose.rest(skeleton, (frames,)), [0.0][:0]
        options["tolerance_position"] = self.tolerance
        with counting() as placed:
            while len(times) < SEQUENCE_RUNS or frames * sum(times) < SEQUENCE_TIME:
                start = time.process_time()
                problem = Problem(skeleton, self.tree.tasks(self.targets.positions))
                solution = solver(problem, poses, **options)
                times.append((time.process_time() - start) / frames)
        seconds, plain_time = float(np.median(times)), self.yardstick[0]
        within = np.all(solution.errors <= self.tolerance, axis=1)[self.targets.reachable]
        return Row(
            f"{self.what}, {way}",
            f"ratio ≤ {wanted:.2f}" if wanted is not None else "",
            f"ratio {seconds / plain_time:.3f}, reached {100 * within.mean():.1f} %",
            seconds / plain_time <= wanted if wanted is not None else None,
            f"{iterations_of(solution.iterations)}, {sum(placed) / len(times) / frames:.1f} placed",
            microseconds(seconds, plain_time),
        )


def both(make: Callable[..., Row], *wanted: Any, **options: Any) -> Iterator[Row]:
    """A row as a user gets it, and one for the targets alone, of which nothing is wanted."""
    yield make(*wanted, **options)
    free = make(*(None if isinstance(each, float) else each for each in wanted), redundancy="start")
    yield free._replace(what=f"{free.what}, without preferred pose")


def track_rows(tree: Tree, targets: Targets) -> Iterator[Row]:
    """A way frame by frame and as a sequence."""
    case = Case(f"{tree.name} track", tree, targets, True, trees.TOLERANCE)
    for row in both(case.one_by_one, RATIO_TRACK):
        yield row._replace(what=row.what.replace("track", "track, frame by frame"))
    yield from both(case.at_once, "as a sequence", solve_sequence, RATIO_SEQUENCE)


def pose_rows(tree: Tree, targets: Targets) -> Iterator[Row]:
    """Poses from rest, free and limited, one by one and all at once."""
    for title, limit, rate in (("free", None, 1.0), ("±60°", LIMIT, 0.995)):
        case = Case(f"{tree.name} pose from rest, {title}", tree, targets, False, POSE_TOLERANCE, limit)
        yield from both(case.one_by_one, RATIO_POSE, rate)
        yield from both(case.at_once, "all at once", solve_each, RATIO_BATCH)


def peer_rows(tree: Tree, track: Targets, pose: Targets) -> Iterator[Row]:
    """Other libraries on the same tracks and poses, those that are missing too."""
    for case in (
        Case(f"{tree.name} track", tree, track, True, trees.TOLERANCE),
        Case(f"{tree.name} pose from rest, free", tree, pose, False, trees.TOLERANCE),
        Case(f"{tree.name} pose from rest, ±60°", tree, pose, False, trees.TOLERANCE, LIMIT),
    ):
        plain_time, _ = case.yardstick
        for name, peer in peers.figures_of_all(tree, case.targets, warm=case.warm, limit=case.limit):
            what = f"{case.what}, {name}"
            if isinstance(peer, str):
                yield Row(what, "", peer, None)
                continue
            over = f", {degrees(peer.over_limit):.0e}° over limits" if peer.over_limit > LIMIT_SLACK else ""
            measured = f"ratio {peer.seconds / plain_time:.2f}, reached {100 * peer.reached:.1f} %{over}"
            times = microseconds(peer.seconds, plain_time)
            yield Row(what, "", measured, None, iterations_of(peer.iterations), times)


# Motions


def motion_rows(tree: Tree) -> Iterator[Row]:
    """A smooth motion within ±60°, in reach, and with a hand that is led out of reach and back."""
    frames, skeleton, names = MOTION_FRAMES, tree.skeleton(LIMIT), [joint for joint, _ in tree.effectors]
    in_reach = trees.motion_targets(tree, frames, np.random.default_rng([SEED, 0]))
    for title, (most_turn, most_change), off, targets, levels in (
        ("in reach", IN_REACH, "every target", in_reach, [0] * len(names)),
        (
            "led out of reach and back",
            BEYOND,
            "first level",
            trees.led_away(in_reach, names.index("hand_l"), BEYOND_FRAMES),
            [BEYOND_LEVELS[name] for name in names],
        ),
    ):
        tasks = tuple(
            replace(task, priority=level) for task, level in zip(tree.tasks(targets), levels, strict=True)
        )
        start = time.process_time()
        solution = solve_sequence(Problem(skeleton, tasks), Pose.rest(skeleton, (frames,)))
        seconds = (time.process_time() - start) / frames
        turns = joint_steps(skeleton, forward_kinematics(skeleton, solution.pose).matrices)
        turn, change = float(turns.max()), float(np.abs(np.diff(turns, axis=0)).max())
        first = float(solution.errors[:, np.array(levels) == 0].max())
        channels = solution.pose.channels
        beyond = np.maximum(skeleton.lower - channels, channels - skeleton.upper)
        over = max(0.0, float(beyond.max()))
        yield Row(
            f"{tree.name} motion, {title}",
            f"turn ≤ {most_turn:g}°, change ≤ {most_change:g}°, {off} ≤ {1e3 * MET:g} mm",
            f"turn {turn:.1f}°, change {change:.1f}°, {off} {1e3 * first:.3f} mm",
            turn <= most_turn and change <= most_change and first <= MET and over <= LIMIT_SLACK,
            f"mean miss {1e3 * float(solution.errors.mean()):.2f} mm, {len(solution.pops)} pops, "
            f"{degrees(over):.0e}° over limits",
            microseconds(seconds),
        )


# Poses out of reach


@dataclass(frozen=True)
class FarPose:
    """A pose of which some targets cannot be reached, on several levels."""

    skeleton: Skeleton
    tasks: tuple[ReachPoint, ...]

    @classmethod
    def drawn(cls, number: int) -> FarPose:
        """One of them; the files of references count likewise."""
        rng = np.random.default_rng(LEVELS_SEED + number)
        tree = trees.human_tree(floating=bool(number % 2))
        limit = (None, np.pi / 3.0, np.pi / 7.0)[number // 2 % 3]
        skeleton = tree.skeleton(limit)
        spread = 1.0 if limit is None else 0.9 * limit
        channels = np.zeros((len(skeleton), 6))
        channels[:, 3:] = rng.uniform(-spread, spread, (len(skeleton), 3))
        if number % 2:
            channels[0, :3] = rng.uniform(-0.3, 0.3, 3)
        posed = forward_kinematics(skeleton, Pose.from_channels(channels))
        targets = np.array([posed.point(joint, np.array(point)) for joint, point in tree.effectors])
        far = rng.choice(len(targets), size=rng.integers(1, 4), replace=False)
        targets[far] += 0.45 * rng.normal(size=(len(far), 3))
        levels = rng.integers(0, rng.integers(2, 6), len(targets))
        tasks = zip(tree.tasks(targets), levels, strict=True)
        return cls(skeleton, tuple(replace(task, priority=int(level)) for task, level in tasks))

    @property
    def levels(self) -> list[int]:
        """Those in use, the first is the highest."""
        return sorted({task.priority for task in self.tasks})

    def solved(self, levels: Sequence[int], **options: Any) -> tuple[list[float], float]:
        """Norm of the misses of each level, of those alone that are given [m], and the time [s]."""
        tasks = tuple(task for task in self.tasks if task.priority in levels)
        start = time.process_time()
        solution = solve(Problem(self.skeleton, tasks), Pose.rest(self.skeleton), **options)
        seconds = time.process_time() - start
        errors = np.array([error.error for error in solution.errors])
        of = np.array([task.priority for task in tasks])
        return [float(np.linalg.norm(errors[of == level])) for level in levels], seconds


def far_rows(reference: Sequence[Sequence[float]] | None) -> Iterator[Row]:
    """Poses with targets out of reach on two to five levels: how far the levels are off, and the time.

    Args:
        reference: Norms of the levels of each, by another solver [m].
    """
    poses = [FarPose.drawn(number) for number in range(FAR_POSES)]
    found, times = zip(*(pose.solved(pose.levels) for pose in poses), strict=True)
    several = [number for number in range(FAR_POSES) if len(poses[number].levels) > 1]
    alone = [poses[number].solved(poses[number].levels[:1])[0][0] for number in several]
    grown = np.array([found[number][0] for number in several]) - np.array(alone)
    what = "poses out of reach"
    yield _share_row(f"{what}, first level when lower ones are added", grown <= MET, FIRST_SHARE, MET, grown)
    if reference is not None:
        known = [np.array(levels) for levels in reference[:FAR_POSES]]
        more = [np.array(levels) - other for levels, other in zip(found, known, strict=True)]
        first = np.array([levels[0] for levels in more])
        yield _share_row(f"{what}, first level by the reference", first <= MET, FIRST_SHARE, MET, first)
        # The first level that differs decides.
        deciding = np.array([next((x for x in levels if abs(x) > ALL_SLACK), 0.0) for levels in more])
        good = deciding <= ALL_SLACK
        yield _share_row(f"{what}, all levels by the reference", good, ALL_SHARE, ALL_SLACK, deciding)
    for title, (median, most) in POSE_TIMES.items():
        spent = times if not title else [pose.solved(pose.levels, restarts=0)[1] for pose in poses]
        yield Row(
            f"{what}, processor time{', ' if title else ''}{title}",
            f"median ≤ {1e3 * median:g} ms" + (f", worst ≤ {1e3 * most:g} ms" if most else ""),
            f"median {1e3 * float(np.median(spent)):.1f} ms, worst {1e3 * max(spent):.0f} ms",
            bool(np.median(spent) <= median) and (most is None or max(spent) <= most),
            times=microseconds(float(np.median(spent))),
        )


def _share_row(what: str, good: BoolArray, share: float, slack: float, more: FloatArray) -> Row:
    """The row of poses of which so many shall be good; `more` is by how much each is off [m]."""
    return Row(
        what,
        f"off by ≤ {1e3 * slack:g} mm in {100 * share:g} %",
        f"{int(good.sum())} of {len(good)}, worst {1e3 * max(0.0, float(more.max())):.2f} mm",
        float(good.mean()) >= share,
        f"better by more than that: {int((more < -slack).sum())}",
    )


def buss_rows(stored: dict[str, Any]) -> Iterator[Row]:
    """Buss's double Y with targets mostly out of reach: squared error against the best known."""
    linkage = Linkage.of_nodes(stored["nodes"])
    rest, entries = Pose.rest(linkage.skeleton), stored["best_known"]
    effectors = list(zip(linkage.carriers, linkage.points[:, :3], strict=True))
    best = np.array([entry["best_sq_error"] for entry in entries])
    for title, warm in (("each from the one before", True), ("from rest", False)):
        errors, iterations, times, pose = [], [], [], rest
        with counting() as placed:
            for entry in entries:
                tasks = [
                    ReachPoint(joint=joint, point=point, target=np.array(target))
                    for (joint, point), target in zip(effectors, entry["targets"], strict=True)
                ]
                start = time.process_time()
                solution = solve(Problem(linkage.skeleton, tuple(tasks)), pose if warm else rest)
                times.append(time.process_time() - start)
                pose = solution.pose
                errors.append(sum(error.error**2 for error in solution.errors))
                iterations.append(solution.iterations)
        ratio = float(np.sum(errors) / np.sum(best))
        good = int(np.sum(np.array(errors) <= BEST_KNOWN * best + 1e-6))
        yield Row(
            f"double Y out of reach, {title}",
            f"squared error ≤ {BEST_KNOWN:.2f} × best known",
            f"{ratio:.3f}, {good} of {len(best)} frames",
            ratio <= BEST_KNOWN,
            f"{iterations_of(iterations)}, {sum(placed) / len(best):.1f} placed",
            microseconds(float(np.median(times))),
        )


# What holds still


def held_rows() -> Iterator[Row]:
    """An arm whose target stays out of its reach: how much it stirs."""
    lengths = np.array([0.29, 0.26, 0.08])
    offsets = np.zeros((3, 3))
    offsets[1:, 1] = lengths[:-1]
    arm = Skeleton.build(["upper arm", "forearm", "hand"], [-1, 0, 1], offsets=offsets, orders="ZYX")
    start = np.zeros((3, 6))
    start[1, 5] = radians(30.0)  # a bent elbow
    turns = np.arange(HELD_FRAMES) * radians(0.3)  # on a cone of 17°: 0.09° in a frame
    ways = {
        "still": np.tile([0.3, 1.0, 0.2], (HELD_FRAMES, 1)),
        "moving slowly": np.stack([0.3 * np.cos(turns), np.ones(HELD_FRAMES), 0.3 * np.sin(turns)], axis=1),
    }
    for title, way in ways.items():
        targets = STRETCH * lengths.sum() * way / np.linalg.norm(way, axis=1, keepdims=True)
        pose, angles, iterations = Pose.from_channels(start), [], []
        for target in targets:
            task = ReachPoint(joint="hand", point=np.array([0.0, lengths[-1], 0.0]), target=target)
            solution = solve(Problem(arm, (task,)), pose)
            pose = solution.pose
            angles.append(pose.rotation)
            iterations.append(solution.iterations)
        # What differs from an even motion: a smooth way of the target bends by 5e-4° in a frame.
        steps = np.diff(np.array(angles), n=1 if title == "still" else 2, axis=0)
        noise = degrees(np.abs(steps).max())
        yield Row(
            f"arm at {STRETCH} of its reach, target {title}",
            f"noise < {NOISE}° in a frame",
            f"{noise:.1e}°",
            noise < NOISE,
            iterations_of(iterations),
        )


def strict_rows(targets: FloatArray, rng: np.random.Generator) -> Iterator[Row]:
    """How much the hands give way to head and elbows that are asked for other things, also with limits."""
    tree = trees.human_tree()
    points, joints = dict(tree.effectors), [joint for joint, _ in tree.effectors]
    shoulders = {"hand_l": np.array([0.0, 0.18, 1.44]), "hand_r": np.array([0.0, -0.18, 1.44])}

    def places_of(solution: Solution) -> FloatArray:
        posed = forward_kinematics(solution_skeleton, solution.pose)
        return np.array([posed.point(hand, np.array(points[hand])) for hand in shoulders])

    for title, limit in (
        ("reachable", None),
        ("reachable, ±60°", LIMIT),
        ("out of reach", None),
        ("out of reach, ±60°", LIMIT),
    ):
        solution_skeleton = tree.skeleton(limit)
        changes, iterations, grown = [], [], []
        for places in targets:
            higher: list[ReachPoint] = []
            for hand, shoulder in shoulders.items():
                target = places[joints.index(hand)]
                if title.startswith("out"):
                    away = target - shoulder
                    target = shoulder + 1.5 * away / np.linalg.norm(away)
                higher.append(ReachPoint(joint=hand, point=np.array(points[hand]), target=target))
            lower = [
                ReachPoint(joint=j, priority=p, target=places[n] + rng.normal(scale=0.3, size=3))
                for j, p, n in (("head", 1, 0), ("forearm_l", 2, 1), ("forearm_r", 2, 2))
            ]
            alone, below = (
                solve(Problem(solution_skeleton, tuple(tasks)), Pose.rest(solution_skeleton))
                for tasks in (higher, higher + lower)
            )
            changes.append(float(np.abs(places_of(below) - places_of(alone)).max()))
            errors = [np.linalg.norm([e.error for e in each.errors[:2]]) for each in (alone, below)]
            grown.append(float(errors[1] - errors[0]))
            iterations.append(below.iterations)
        change, exceed = max(changes), int(np.sum(np.array(changes) > STRICTNESS))
        yield Row(
            f"hands, with head and elbows added, {title}",
            f"change ≤ {STRICTNESS:.0e} m",
            f"{change:.1e} m" + (f", {exceed} of {len(changes)} above" if exceed else ""),
            change <= STRICTNESS,
            f"{iterations_of(iterations)}; error of the level {max(grown):+.1e} m",
        )


# The run


def rows(
    targets: dict[str, Targets],
    buss: dict[str, Any] | None,
    levels: Sequence[Sequence[float]] | None,
    *,
    with_peers: bool,
) -> Iterator[Row]:
    """All rows, as they are measured."""
    human = [
        (tree, targets[f"{name}_track"], targets[f"{name}_pose"]) for name, tree in trees.trees().items()
    ]
    for tree, track, _ in human:
        yield from track_rows(tree, track)
    for tree, _, pose in human:
        yield from pose_rows(tree, pose)
    for tree, _, _ in human:
        yield from motion_rows(tree)
    yield from far_rows(levels)
    for tree, track, pose in human if with_peers else ():
        yield from peer_rows(tree, track, pose)
    if buss is not None:
        yield from buss_rows(buss["doubleY"])
    yield from held_rows()
    few = targets["human_pose"].positions[:STRICT_POSES]
    yield from strict_rows(few, np.random.default_rng([SEED, 7]))


def summary(measured: Sequence[Row]) -> list[str]:
    """The figures that matter."""

    def told(*words: str) -> str:
        return "; ".join(f"{row.what}: {row.measured}" for row in measured if row.what in words)

    judged = [row for row in measured if row.met is not None]
    return [
        f"{sum(bool(row.met) for row in judged)} of {len(judged)} wanted figures are reached.",
        told("human track, frame by frame", "human track, as a sequence"),
        told("human pose from rest, ±60°", "human pose from rest, ±60°, all at once"),
        told("human motion, in reach", "human motion, led out of reach and back"),
        told(
            "poses out of reach, first level when lower ones are added", "poses out of reach, processor time"
        ),
    ]


def read(path: Path | None) -> Any:
    """The content of a file, if there is one."""
    return None if path is None else json.loads(path.read_text(encoding="utf-8"))


def main() -> int:
    """Run the bench; the exit code is 0 whatever it measures."""
    parser = arguments("scripts/bench", __doc__)
    parser.add_argument("--peers", action="store_true", help="also other libraries: mink, pin")
    parser.add_argument("--data", type=Path, metavar="FILE", help="JSON with trees and targets to use")
    parser.add_argument("--data-buss", type=Path, metavar="FILE", help="JSON with Buss's double Y")
    parser.add_argument(
        "--data-levels", type=Path, metavar="FILE", help="JSON with errors of unreachable poses"
    )
    options = parser.parse_args()
    stored = read(options.data)
    targets = trees.own_targets(FRAMES, SEED) if stored is None else trees.stored_targets(stored, FRAMES)
    measured: list[Row] = []
    for row in rows(targets, read(options.data_buss), read(options.data_levels), with_peers=options.peers):
        measured.append(row)
        progress("  ".join(cell(row) for _, cell in COLUMNS))
    missed = "; ".join(row.what for row in measured if row.met is False)
    publish(
        options.markdown,
        "bench",
        "scripts/bench",
        summary(measured),
        verdict=f"Not reached: {missed}." if missed else "All wanted figures are reached.",
        table=tabled(COLUMNS, measured),
        frames=str(FRAMES),
        poses=str(FRAMES),
        origin="drawn here" if stored is None else "of a file",
    )
    return 0

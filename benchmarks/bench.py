# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the solver against the figures that it shall reach: scripts/bench.

What is measured is told on the page, `pages/bench.md`. With --data targets are those of a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import degrees, inf, radians
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from benchmarks import peers, trees
from benchmarks.motions import joint_steps
from benchmarks.page import arguments, measured, publish, stored
from benchmarks.papers.linkages import Linkage
from benchmarks.timing import timed
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
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.problem.options import Redundancy

FRAMES: Final = 60  # Of a track, and poses of a tree
SEED: Final = 1

LIMIT: Final = radians(60.0)  # Joint limit of the limited rows, to both sides [rad]
POSE_TOLERANCE: Final = 1e-4  # Our tolerance from rest [m]; the yardstick stops at its own, which is wider
STRETCH: Final = 1.3  # Distance of the held arm's target in units of its reach [1]
SEQUENCE_RUNS: Final = 3
"""Of which the median counts, and as many more as there is time for; they differ only in what the processor
and the interpreter have at hand, and a process is not warm before some tenths of a second."""
SEQUENCE_TIME: Final = 0.5  # Time for them [s]
WANTED: Final = SimpleNamespace(**stored("bench"))
"""Times of a frame that follows the one before (track), of one of a motion (sequence), of a pose from rest,
and of one of many at once (batch) [yardsticks]; parts of the poses from rest that are reached [1]. Largest
turn of a joint in a frame and largest change of it, in motions in reach and led out and back (beyond) [°].
Parts of the unreachable poses whose first level is no further off than it can be, to 0.1 mm, and of those
whose levels are not, one after the other, to `ALL_SLACK` [1]; median and largest times of them [s]. Squared
error by the best known of Buss's trees [1]."""

MET: Final = 1e-4  # Distance at which a target of a motion is met, and by which a level may be off [m]
BEYOND_LEVELS: Final = {"head": 2, "hand_l": 1, "hand_r": 1, "foot_l": 0, "foot_r": 0}
"""Levels of priority of the effectors in a motion that leads out of reach."""
MOTION_FRAMES: Final = 250
BEYOND_FRAMES: Final = 18.0
"""Over about so many frames to either side of the middle a hand is led out of reach."""

FAR_POSES: Final = 24
ALL_SLACK: Final = 2e-3  # By which levels may be off in all [m]
LEVELS_SEED: Final = 9000  # Of the first unreachable pose; those of a file are made with the same
HELD_FRAMES: Final = 60
NOISE: Final = 0.01  # Wanted change of an angle [°] in a frame
LIMIT_SLACK: Final = 1e-9  # Angle over a limit that is none [rad]
STRICT_POSES: Final = 6
STRICTNESS: Final = 1e-4  # Wanted change of a higher residual when lower tasks are added [m]


class Row(SimpleNamespace):
    """What was measured of one piece of work; what else is in it, the table of its kind tells."""

    what: str
    met: bool | None = None
    """Whether what is wanted is reached; None where it is there to be compared."""


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
    def yardstick(self) -> SimpleNamespace:
        """Its median time [s], iterations, and the part that it reaches [1]."""
        found = trees.plain_solutions(self.tree, self.targets.positions, warm=self.warm, limit=self.limit)
        solutions, times = zip(*found, strict=True)
        reached = np.array([plain.reached for plain in solutions])[self.targets.reachable].mean()
        iterations = [plain.iterations for plain in solutions]
        return SimpleNamespace(seconds=float(np.median(times)), iterations=iterations, reached=float(reached))

    def row(
        self, what: str, seconds: float, iterations: Sequence[int], reached: float, **wanted: float
    ) -> Row:
        """The row of frames that took so long [s] each, of which a part was reached.

        `ratio` of the times and `rate` of the reachable are what is wanted.
        """
        ratio, rate, times = wanted.get("ratio"), wanted.get("rate"), seconds / self.yardstick.seconds
        return Row(
            what=what,
            met=None if ratio is None else times <= ratio and reached >= (rate or 0.0),
            ratio=ratio,
            rate=rate,
            times=times,
            seconds=seconds,
            iterations=iterations,
            reached=reached,
            yardstick=self.yardstick,
        )

    def one_by_one(self, title: str = "", *, redundancy: Redundancy, **wanted: float) -> Row:
        """Frame by frame by a `Tracker`, prepared before the clock runs like the yardstick's loop.

        Not in turn with the yardstick: what ours leaves in the processor's caches would slow it down by a
        fifth.
        """
        skeleton = self.tree.skeleton(self.limit)
        problem = Problem(skeleton, self.tree.tasks(self.targets.positions[0]))
        tracker = Tracker(
            problem, Pose.rest(skeleton), tolerance_position=self.tolerance, redundancy=redundancy
        )

        def solved(places: Sequence[FloatArray]) -> Solution:
            if not self.warm:
                tracker.restart()
            return tracker.solve(places)

        _ = self.yardstick  # measured before
        found = [timed(solved, list(places)) for places in self.targets.positions]
        solutions, times = zip(*found, strict=True)
        reached = np.array([solution.reached for solution in solutions])[self.targets.reachable].mean()
        iterations = [solution.iterations for solution in solutions]
        return self.row(self.what + title, float(np.median(times)), iterations, float(reached), **wanted)

    def at_once(
        self, title: str, solver: Callable[..., SequenceSolution], *, redundancy: Redundancy, **wanted: float
    ) -> Row:
        """All frames from rest by one call."""
        skeleton, frames = self.tree.skeleton(self.limit), len(self.targets.positions)
        poses, times = Pose.rest(skeleton, (frames,)), list[float]()
        options = {"tolerance_position": self.tolerance, "redundancy": redundancy}

        def solved() -> SequenceSolution:
            return solver(Problem(skeleton, self.tree.tasks(self.targets.positions)), poses, **options)

        solution = None
        while solution is None or len(times) < SEQUENCE_RUNS or sum(times) < SEQUENCE_TIME:
            solution, seconds = timed(solved)
            times.append(seconds)
        within = np.all(solution.errors <= self.tolerance, axis=1)[self.targets.reachable]
        seconds = float(np.median(times)) / frames
        return self.row(
            self.what + title, seconds, solution.iterations.tolist(), float(within.mean()), **wanted
        )


def both(make: Callable[..., Row], *arguments: Any, **wanted: float) -> Iterator[Row]:
    """A row as a user gets it, and one for the targets alone, of which nothing is wanted."""
    yield make(*arguments, redundancy="preferred", **wanted)
    free = make(*arguments, redundancy="start")
    free.what += ", without preferred pose"
    yield free


def frame_rows(tree: Tree, track: Targets, pose: Targets, *, with_peers: bool) -> Iterator[Row]:
    """A way frame by frame and as a sequence; poses from rest, free and limited, one by one and all at once.

    With other libraries on the same, or what is missing of them.
    """
    case = Case(f"{tree.name} track", tree, track, True, trees.TOLERANCE)
    yield from both(case.one_by_one, ", frame by frame", ratio=WANTED.track)
    yield from both(case.at_once, ", as a sequence", solve_sequence, ratio=WANTED.sequence)
    yield from peer_rows(case) if with_peers else ()
    for title, limit in (("free", None), ("±60°", LIMIT)):
        case = Case(f"{tree.name} pose from rest, {title}", tree, pose, False, POSE_TOLERANCE, limit)
        yield from both(case.one_by_one, ratio=WANTED.pose, rate=WANTED.reached[title])
        yield from both(case.at_once, ", all at once", solve_each, ratio=WANTED.batch)
        yield from peer_rows(case) if with_peers else ()


def peer_rows(case: Case) -> Iterator[Row]:
    """Other libraries on the same track or poses, those that are missing too."""
    for name, peer in peers.figures_of_all(case.tree, case.targets, warm=case.warm, limit=case.limit):
        what = f"{case.what}, {name}"
        if isinstance(peer, str):
            yield case.row(f"{what}: {peer}", np.nan, [], np.nan)
            continue
        if peer.over_limit > LIMIT_SLACK:
            what += f", {degrees(peer.over_limit):.0e}° over limits"
        yield case.row(what, peer.seconds, peer.iterations, peer.reached)


# Motions


def motion_rows(tree: Tree) -> Iterator[Row]:
    """A smooth motion within ±60°, in reach, and with a hand that is led out of reach and back."""
    frames, skeleton, names = MOTION_FRAMES, tree.skeleton(LIMIT), [joint for joint, _ in tree.effectors]
    in_reach = trees.motion_targets(tree, frames, np.random.default_rng([SEED, 0]))
    led_away = trees.led_away(in_reach, names.index("hand_l"), BEYOND_FRAMES)
    several = np.array([BEYOND_LEVELS[name] for name in names])
    for title, (most_turn, most_change), targets, levels in (
        ("in reach", WANTED.in_reach, in_reach, np.zeros(len(names), dtype=np.int64)),
        ("led out of reach and back", WANTED.beyond, led_away, several),
    ):
        pairs = zip(tree.tasks(targets), levels.tolist(), strict=True)
        problem = Problem(skeleton, tuple(replace(task, priority=level) for task, level in pairs))
        solution, seconds = timed(solve_sequence, problem, Pose.rest(skeleton, (frames,)))
        turns = joint_steps(skeleton, forward_kinematics(skeleton, solution.pose).matrices)
        turn, change = float(turns.max()), float(np.abs(np.diff(turns, axis=0)).max())
        first = float(solution.errors[:, levels == 0].max())
        channels = solution.pose.channels
        over = max(0.0, float(np.maximum(skeleton.lower - channels, channels - skeleton.upper).max()))
        yield Row(
            what=f"{tree.name} motion, {title}",
            met=turn <= most_turn and change <= most_change and first <= MET and over <= LIMIT_SLACK,
            turn=turn,
            most_turn=most_turn,
            change=change,
            most_change=most_change,
            first=first,
            miss=solution.errors,
            pops=solution.pops,
            over=over,
            seconds=seconds / frames,
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
        skeleton = tree.skeleton(limit, free_root=True)
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
        solution, seconds = timed(solve, Problem(self.skeleton, tasks), Pose.rest(self.skeleton), **options)
        errors = np.array([error.error for error in solution.errors])
        of = np.array([task.priority for task in tasks])
        return [float(np.linalg.norm(errors[of == level])) for level in levels], seconds


def far_rows(reference: Sequence[Sequence[float]] | None) -> Iterator[Row]:
    """Poses with targets out of reach on two to five levels: how far the levels are off.

    Args:
        reference: Norms of the levels of each, by another solver [m].
    """
    poses = [FarPose.drawn(number) for number in range(FAR_POSES)]
    found = [pose.solved(pose.levels)[0] for pose in poses]
    several = [number for number in range(FAR_POSES) if len(poses[number].levels) > 1]
    alone = [poses[number].solved(poses[number].levels[:1])[0][0] for number in several]
    grown = np.array([found[number][0] for number in several]) - np.array(alone)
    offs = [("first level when lower ones are added", WANTED.first, MET, grown)]
    if reference is not None:
        known = [np.array(levels) for levels in reference[:FAR_POSES]]
        more = [np.array(levels) - other for levels, other in zip(found, known, strict=True)]
        # The first level that differs decides.
        deciding = [next((x for x in levels if abs(x) > ALL_SLACK), 0.0) for levels in more]
        first = np.array([levels[0] for levels in more])
        offs.append(("first level by the reference", WANTED.first, MET, first))
        offs.append(("all levels by the reference", WANTED.all, ALL_SLACK, np.array(deciding)))
    for level, share, slack, off in offs:
        good = off <= slack
        yield Row(
            what=f"poses out of reach, {level}",
            met=float(good.mean()) >= share,
            share=share,
            slack=slack,
            good=good,
            worst=max(0.0, float(off.max())),
            better=off < -slack,
        )


def far_time_rows() -> Iterator[Row]:
    """The processor time of the same."""
    poses = [FarPose.drawn(number) for number in range(FAR_POSES)]
    for title, (median, most) in WANTED.far_times.items():
        options = {"restarts": 0} if title else {}
        times = [pose.solved(pose.levels, **options)[1] for pose in poses]
        met = bool(np.median(times) <= median and max(times) <= (most or inf))
        yield Row(what=f"poses out of reach{title}", met=met, times=times, median=median, most=most)


def buss_rows(stored: dict[str, Any]) -> Iterator[Row]:
    """Buss's double Y with targets mostly out of reach: squared error against the best known."""
    linkage = Linkage.of_nodes(stored["nodes"])
    rest, entries = Pose.rest(linkage.skeleton), stored["best_known"]
    effectors = list(zip(linkage.carriers, linkage.points[:, :3], strict=True))
    best = np.array([entry["best_sq_error"] for entry in entries])
    for title, warm in (("each from the one before", True), ("from rest", False)):
        errors, iterations, times, pose = [], [], [], rest
        for entry in entries:
            tasks = tuple(
                ReachPoint(joint=joint, point=point, target=np.array(target))
                for (joint, point), target in zip(effectors, entry["targets"], strict=True)
            )
            solution, seconds = timed(solve, Problem(linkage.skeleton, tasks), pose if warm else rest)
            pose = solution.pose
            times.append(seconds)
            errors.append(sum(error.error**2 for error in solution.errors))
            iterations.append(solution.iterations)
        ratio = float(np.sum(errors) / np.sum(best))
        yield Row(
            what=f"double Y out of reach, {title}",
            met=ratio <= WANTED.best_known,
            ratio=ratio,
            good=np.array(errors) <= WANTED.best_known * best + 1e-6,
            iterations=iterations,
            times=times,
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
            what=f"arm at {STRETCH} of its reach, target {title}",
            met=noise < NOISE,
            noise=noise,
            iterations=iterations,
        )


def strict_rows(targets: FloatArray, rng: np.random.Generator) -> Iterator[Row]:
    """How much the hands give way to head and elbows that are asked for other things, also with limits."""
    tree = trees.human_tree()
    points, joints = dict(tree.effectors), [joint for joint, _ in tree.effectors]
    shoulders = {"hand_l": np.array([0.0, 0.18, 1.44]), "hand_r": np.array([0.0, -0.18, 1.44])}

    def places_of(solution: Solution) -> FloatArray:
        posed = forward_kinematics(solution_skeleton, solution.pose)
        return np.array([posed.point(hand, np.array(points[hand])) for hand in shoulders])

    for out, limit in product((False, True), (None, LIMIT)):
        title = f"{'out of reach' if out else 'reachable'}{', ±60°' if limit else ''}"
        solution_skeleton = tree.skeleton(limit)
        changes, iterations, grown = [], [], []
        for places in targets:
            higher: list[ReachPoint] = []
            for hand, shoulder in shoulders.items():
                target = places[joints.index(hand)]
                if out:
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
        yield Row(
            what=f"hands, with head and elbows added, {title}",
            met=max(changes) <= STRICTNESS,
            changes=changes,
            above=np.array(changes) > STRICTNESS,
            iterations=iterations,
            grown=grown,
        )


# The run


def read(path: Path | None) -> Any:
    """The content of a file, if there is one."""
    return None if path is None else json.loads(path.read_text(encoding="utf-8"))


def main() -> int:
    """Run the bench; the exit code is 0 whatever it measures."""
    options = arguments(
        "scripts/bench",
        __doc__,
        peers=(False, "also other libraries: mink, pin"),
        data=(Path, "JSON with trees and targets to use"),
        data_buss=(Path, "JSON with Buss's double Y"),
        data_levels=(Path, "JSON with errors of unreachable poses"),
    ).parse_args()
    stored = read(options.data)
    targets = trees.own_targets(FRAMES, SEED) if stored is None else trees.stored_targets(stored, FRAMES)
    buss, levels = read(options.data_buss), read(options.data_levels)
    few = targets["human_pose"].positions[:STRICT_POSES]
    every = trees.trees()
    human = [(tree, targets[f"{name}_track"], targets[f"{name}_pose"]) for name, tree in every.items()]
    work: dict[str, Iterable[Row]] = {
        "frames": (row for each in human for row in frame_rows(*each, with_peers=options.peers)),
        "motions": (row for tree in every.values() for row in motion_rows(tree)),
        "far": far_rows(levels),
        "far_times": far_time_rows(),
        "buss": buss_rows(buss["doubleY"]) if buss is not None else (),
        "held": held_rows(),
        "strict": strict_rows(few, np.random.default_rng([SEED, 7])),
    }
    tables = {name: measured(rows, "{row.what}: {row.met:wanted}") for name, rows in work.items()}
    judged = [row for rows in tables.values() for row in rows if row.met is not None]
    publish(
        options,
        "bench",
        globals(),
        **tables,
        judged=judged,
        missed="; ".join(row.what for row in judged if not row.met) or "none",
        origin="drawn here" if stored is None else "of a file",
    )
    return 0

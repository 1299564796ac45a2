# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the solver against the figures that it shall reach, and print a table: scripts/bench.

    scripts/bench [--full] [--peers] [--data FILE] [--data-buss FILE] [--data-levels FILE]
                  [--json FILE] [--markdown FILE]

What is judged is what a user gets: the default settings, with the preferred pose, motions with the default
smoothness. Rows without the preferred pose are there to be compared with other libraries, and not judged.

Times are the median over the frames, ours and the yardstick's (`trees.py`) one after the other in the same
run on one thread, in processor time. What a caller has to do for each frame, making the problem, is
included. A sequence's time is all of it by its frames, the median of three runs. Iterations and forward
kinematics (one for one frame) are counted: they do not depend on the machine. The trees are built here;
targets are drawn here too, or, with --data, taken from a file, whose trees must be the same.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import degrees, radians
from pathlib import Path
from typing import Any, Final, cast

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy reads it
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from blender_ik_addon.core import (
    Pose,
    Problem,
    ReachPoint,
    SequenceSolution,
    Skeleton,
    Solution,
    Task,
    Tracker,
    forward_kinematics,
    solve,
    solve_each,
    solve_sequence,
)
from blender_ik_addon.core.arrays import BoolArray, FloatArray
from blender_ik_addon.core.model.kinematics import PosedSkeleton
from blender_ik_addon.core.model.posed import PosedMechanism
from blender_ik_addon.core.model.rotation import matrix_from_rotvec
from blender_ik_addon.core.problem.system import System
from scripts.examples import peers, trees
from scripts.examples.recordings import joint_steps
from scripts.examples.tables import markdown_table
from scripts.examples.trees import PlainLoop, Tree

FIGURES: Final = ("human", "humanf")
"""The trees for which times are wanted."""

LIMIT: Final = radians(60.0)
"""Joint limit of the limited rows, to both sides [rad]."""

POSE_TOLERANCE: Final = 1e-4
"""Our tolerance from rest [m]; the yardstick stops at its own, which is wider."""

STRETCH: Final = 1.3
"""Distance of the held arm's target in units of its reach [1]."""

HELD_FRAMES: Final = 60

FREE_TITLE: Final = ", without preferred pose"

SEQUENCE_RUNS: Final = 3
"""Of which the median counts, and as many more as there is time for; they differ only in what the processor
and the interpreter have at hand, and a process is not warm before some tenths of a second."""
SEQUENCE_TIME: Final = 0.5
"""Time for them [s]."""

RATIO_TRACK, RATIO_SEQUENCE, RATIO_POSE, RATIO_BATCH = 1.2, 5.0, 2.5, 0.7
"""Wanted times of a frame that follows the one before, of one of a motion, of a pose from rest, and of one of
many poses at once [yardsticks]."""

IN_REACH, BEYOND = (10.0, 3.0), (17.0, 10.0)
"""Largest turn of a joint in a frame and largest change of it that are wanted of motions, in reach and led
out of it and back [°]."""

MET: Final = 1e-4
"""Distance at which a target of a motion is met, and by which a level may be off [m]."""
BEYOND_LEVELS: Final = {"head": 2, "hand_l": 1, "hand_r": 1, "foot_l": 0, "foot_r": 0}
"""Levels of priority of the effectors in a motion that leads out of reach."""
MOTION_FRAMES: Final = 250
BEYOND_FRAMES: Final = 18.0
"""Over about so many frames to either side of the middle a hand is led out of reach."""

FIRST_SHARE, ALL_SHARE, ALL_SLACK = 0.98, 0.95, 2e-3
"""Share of the unreachable poses whose first level is no further off than it can be, to 0.1 mm, and of those
whose levels are not, one after the other, to so much [m]."""
POSE_TIMES: Final = {"without restarts": (0.040, 0.5), "": (0.120, None)}
"""Wanted median and largest time of an unreachable pose [s]."""
LEVELS_SEED: Final = 9000
"""Of the first unreachable pose; those of a file are made with the same."""

NOISE: Final = 0.01
"""Wanted change of an angle [°] in a frame."""

LIMIT_SLACK: Final = 1e-9
"""Angle over a limit that is none [rad]."""

STRICTNESS: Final = 1e-4
"""Wanted change of a higher residual when lower tasks are added [m]."""

BEST_KNOWN: Final = 1.01
"""Wanted mean squared error in units of the best known [1]."""


@dataclass
class Row:
    """One line of the table."""

    what: str
    wanted: str
    measured: str
    met: bool | None
    """Whether the wanted figure is reached; None where there is none, or where it cannot be measured yet."""
    counts: str = ""
    times: str = ""
    numbers: dict[str, float] = field(default_factory=dict)
    """All figures behind the texts, times in seconds."""


@dataclass(frozen=True)
class Targets:
    """What the effectors of a tree are to reach, frame by frame."""

    positions: FloatArray
    """(F, E, 3) [m]."""
    reachable: FloatArray
    """1 where a pose is known that reaches them, else 0, (F,)."""


@dataclass
class Tally:
    """Times and counts of some solves, one of each per solve; of the yardstick's too."""

    times: list[float] = field(default_factory=list)
    iterations: list[int] = field(default_factory=list)
    placed: list[int] = field(default_factory=list)
    """Forward kinematics."""
    reached: list[bool] = field(default_factory=list)
    plain_times: list[float] = field(default_factory=list)
    plain_iterations: list[int] = field(default_factory=list)
    plain_reached: list[bool] = field(default_factory=list)

    @property
    def plain_time(self) -> float:
        """Median of the yardstick [s]."""
        return float(np.median(self.plain_times))


class PlaceCounter:
    """Counts forward kinematics: a batch of F frames counts F."""

    def __init__(self) -> None:
        self.total = 0

    @contextlib.contextmanager
    def counting(self) -> Iterator[PlaceCounter]:
        """Count what systems place meanwhile."""
        original = System.place

        def place(system: System, values: FloatArray) -> PosedMechanism:
            self.total += len(values)
            return original(system, values)

        System.place = place
        try:
            yield self
        finally:
            System.place = original


# Rows


def follow(
    tree: Tree,
    targets: Targets,
    *,
    warm: bool,
    tolerance: float,
    limit: float | None = None,
    stated: bool = False,
    **options: Any,
) -> Tally:
    """Solve frame by frame, after the yardstick has solved them all.

    With `warm` from the frame before, else from rest. Like the yardstick's loop a `Tracker` is prepared
    before the clock runs; with `stated` each frame is a problem of its own, and stating it takes time too.

    Not in turn: what ours leaves in the processor's caches would slow the yardstick down by a fifth.
    """
    skeleton, loop, tally = tree.skeleton(limit), PlainLoop(tree, limit), Tally()
    rest, zero = Pose.rest(skeleton), np.zeros(loop.size)
    values = zero
    most = trees.TRACK_ITERATIONS if warm else trees.POSE_ITERATIONS
    for places in targets.positions:
        start = time.process_time()
        plain = loop.solve(values, places, most)
        tally.plain_times.append(time.process_time() - start)
        tally.plain_iterations.append(plain.iterations)
        tally.plain_reached.append(plain.reached)
        values = plain.values if warm else zero
    tracker = Tracker(
        Problem(skeleton, tree.tasks(targets.positions[0])), rest, tolerance_position=tolerance, **options
    )
    with PlaceCounter().counting() as counter:
        for places in targets.positions:
            before, start = counter.total, time.process_time()
            if stated:
                problem = Problem(skeleton, tree.tasks(places))
                solution = solve(problem, rest, tolerance_position=tolerance, **options)
            else:
                if not warm:
                    tracker.restart()
                solution = tracker.solve(places)
            tally.times.append(time.process_time() - start)
            tally.placed.append(counter.total - before)
            tally.iterations.append(solution.iterations)
            tally.reached.append(solution.reached)
    return tally


def timed_row(
    what: str, tally: Tally, targets: Targets, *, ratio: float | None = None, rate: float | None = None
) -> Row:
    """The row of solves one by one; `ratio` and `rate` of the reachable are what is wanted."""
    reachable = targets.reachable.astype(bool)
    reached, plain = (
        float(np.mean(np.array(flags)[reachable])) for flags in (tally.reached, tally.plain_reached)
    )
    seconds = float(np.median(tally.times))
    measured_ratio = seconds / tally.plain_time
    verdicts, wanted = [], []
    if rate is not None:
        wanted.append(f"reached ≥ {100 * rate:g} %")
        verdicts.append(reached >= rate)
    if ratio is not None:
        wanted.append(f"ratio ≤ {ratio:.2f}")
        verdicts.append(measured_ratio <= ratio)
    iterations, placed = np.array(tally.iterations), np.array(tally.placed)
    return Row(
        what,
        ", ".join(wanted),
        f"ratio {measured_ratio:.2f}, reached {100 * reached:.1f} %",
        all(verdicts) if verdicts else None,
        f"{np.median(iterations):g} (≤ {iterations.max()}) iterations, {np.median(placed):g} placed; "
        f"yardstick {np.median(tally.plain_iterations):g}, {100 * plain:.1f} %",
        f"{1e6 * seconds:.0f} / {1e6 * tally.plain_time:.0f}",
        {
            "frames": len(iterations),
            "reachable": int(reachable.sum()),
            "reached": reached,
            "ratio": measured_ratio,
            "seconds": seconds,
            "iterations_median": float(np.median(iterations)),
            "iterations_total": int(iterations.sum()),
            "iterations_max": int(iterations.max()),
            "placed_total": int(placed.sum()),
            "yardstick_seconds": tally.plain_time,
            "yardstick_reached": plain,
            "yardstick_iterations_total": int(sum(tally.plain_iterations)),
        },
    )


def track_rows(tree: Tree, targets: Targets) -> Iterator[Row]:
    """A way frame by frame and as a sequence: as a user gets it, and for the targets alone."""
    figure = tree.name in FIGURES
    plain_time = 0.0
    for title, preferred in (("", True), (FREE_TITLE, False)):
        tally = follow(
            tree,
            targets,
            warm=True,
            tolerance=trees.TOLERANCE,
            redundancy="preferred" if preferred else "start",
        )
        plain_time = plain_time or tally.plain_time
        ratio = RATIO_TRACK if figure and preferred else None
        yield timed_row(f"{tree.name} track, frame by frame{title}", tally, targets, ratio=ratio)
    for title, preferred in (("", True), (FREE_TITLE, False)):
        poses = Pose.rest(tree.skeleton(), (len(targets.positions),))
        yield batch_row(
            f"{tree.name} track, as a sequence{title}",
            partial(
                solve_sequence,
                tolerance_position=trees.TOLERANCE,
                redundancy="preferred" if preferred else "start",
            ),
            tree,
            targets,
            poses,
            tolerance=trees.TOLERANCE,
            plain_time=plain_time,
            wanted=RATIO_SEQUENCE if figure and preferred else None,
        )


def batch_row(
    what: str,
    solver: Callable[[Problem, Pose], SequenceSolution],
    tree: Tree,
    targets: Targets,
    poses: Pose,
    *,
    limit: float | None = None,
    tolerance: float,
    plain_time: float,
    wanted: float | None,
) -> Row:
    """Many frames by one call; `plain_time` of the yardstick [s] for a frame."""
    skeleton, frames = tree.skeleton(limit), len(targets.positions)
    times: list[float] = []
    with PlaceCounter().counting() as counter:
        while len(times) < SEQUENCE_RUNS or frames * sum(times) < SEQUENCE_TIME:
            start = time.process_time()
            solution = solver(Problem(skeleton, tree.tasks(targets.positions)), poses)
            times.append((time.process_time() - start) / frames)
    seconds, placed = float(np.median(times)), counter.total // len(times)
    ratio, iterations = seconds / plain_time, np.asarray(solution.iterations)
    within = np.all(solution.errors <= tolerance, axis=1)
    reached = float(within[targets.reachable.astype(bool)].mean())
    return Row(
        what,
        f"ratio ≤ {wanted:.2f}" if wanted is not None else "",
        f"ratio {ratio:.3f}, reached {100 * reached:.1f} %",
        ratio <= wanted if wanted is not None else None,
        f"{np.median(iterations):g} (≤ {iterations.max()}) iterations, {placed / frames:.1f} placed",
        f"{1e6 * seconds:.0f} / {1e6 * plain_time:.0f}",
        {
            "frames": frames,
            "reached": reached,
            "ratio": ratio,
            "seconds": seconds,
            "iterations_total": int(iterations.sum()),
            "iterations_max": int(iterations.max()),
            "placed_total": placed,
            "yardstick_seconds": plain_time,
        },
    )


def pose_rows(tree: Tree, targets: Targets) -> Iterator[Row]:
    """Poses from rest, free and limited, one by one and all at once."""
    for title, limit, rate in (("free", None, 1.0), ("±60°", LIMIT, 0.995)):
        skeleton = tree.skeleton(limit)
        for free_title, preferred in (("", True), (FREE_TITLE, False)):
            options: dict[str, Any] = {"redundancy": "preferred" if preferred else "start"}
            tally = follow(tree, targets, warm=False, tolerance=POSE_TOLERANCE, limit=limit, **options)
            what = f"{tree.name} pose from rest, {title}"
            yield timed_row(
                what + free_title,
                tally,
                targets,
                ratio=RATIO_POSE if preferred else None,
                rate=rate if preferred else None,
            )
            if preferred:
                stated = follow(tree, targets, warm=False, tolerance=POSE_TOLERANCE, limit=limit, stated=True)
                yield timed_row(f"{what}, each stated anew", stated, targets)
            yield batch_row(
                f"{what}, all at once{free_title}",
                partial(
                    solve_each,
                    tolerance_position=POSE_TOLERANCE,
                    redundancy="preferred" if preferred else "start",
                ),
                tree,
                targets,
                Pose.rest(skeleton, (len(targets.positions),)),
                limit=limit,
                tolerance=POSE_TOLERANCE,
                plain_time=tally.plain_time,
                wanted=RATIO_BATCH if preferred else None,
            )


def motion_rows(tree: Tree, count: int, seed: int) -> Iterator[Row]:
    """Smooth motions within ±60°, in reach, and with a hand that is led out of reach and back."""
    frames, skeleton, names = MOTION_FRAMES, tree.skeleton(LIMIT), [joint for joint, _ in tree.effectors]
    for title, (most_turn, most_change), beyond in (
        ("in reach", IN_REACH, False),
        ("led out of reach and back", BEYOND, True),
    ):
        turns, changes, first, misses, over, pops, times = [], [], [], [], [], 0, []
        for number in range(count):
            targets = trees.motion_targets(tree, frames, np.random.default_rng([seed, number]))
            levels = [0] * len(names)
            if beyond:
                targets = trees.led_away(targets, names.index("hand_l"), BEYOND_FRAMES)
                levels = [BEYOND_LEVELS[name] for name in names]
            tasks = tuple(
                replace(task, priority=level) for task, level in zip(tree.tasks(targets), levels, strict=True)
            )
            start = time.process_time()
            solution = solve_sequence(Problem(skeleton, tasks), Pose.rest(skeleton, (frames,)))
            times.append((time.process_time() - start) / frames)
            matrices = forward_kinematics(skeleton, solution.pose).matrices
            turn = joint_steps(skeleton, matrices)
            turns.append(float(turn.max()))
            changes.append(float(np.abs(np.diff(turn, axis=0)).max()))
            first.append(float(solution.errors[:, np.array(levels) == 0].max()))
            misses.append(float(solution.errors.mean()))
            over.append(_over_limits(skeleton, solution.pose))
            pops += len(solution.pops)
        off = "first level" if beyond else "every target"
        good = max(turns) <= most_turn and max(changes) <= most_change and max(first) <= MET
        yield Row(
            f"{tree.name} motion, {title}",
            f"turn ≤ {most_turn:g}°, change ≤ {most_change:g}°, {off} ≤ {1e3 * MET:g} mm",
            f"turn {max(turns):.1f}°, change {max(changes):.1f}°, {off} {1e3 * max(first):.3f} mm",
            good and max(over) <= LIMIT_SLACK,
            f"mean miss {1e3 * float(np.mean(misses)):.2f} mm, {pops} pops, "
            f"{degrees(max(over)):.0e}° over limits",
            f"{1e6 * float(np.median(times)):.0f}",
            {
                "motions": count,
                "frames": frames,
                "largest_turn": max(turns),
                "largest_change": max(changes),
                "first_level": max(first),
                "mean_miss": float(np.mean(misses)),
                "pops": pops,
                "over_limit": max(over),
                "seconds": float(np.median(times)),
            },
        )


def _over_limits(skeleton: Skeleton, pose: Pose) -> float:
    """How far a channel is beyond its limits [m, rad]."""
    over = np.maximum(skeleton.lower - pose.channels, pose.channels - skeleton.upper)
    return max(0.0, float(over.max()))


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
        tasks = tree.tasks(targets)
        return cls(
            skeleton,
            tuple(replace(task, priority=int(level)) for task, level in zip(tasks, levels, strict=True)),
        )

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


def far_rows(count: int, reference: Sequence[Sequence[float]] | None) -> Iterator[Row]:
    """Poses with targets out of reach on two to five levels: how far the levels are off, and the time.

    Args:
        count: How many poses.
        reference: Norms of the levels of each, by another solver [m].
    """
    poses = [FarPose.drawn(number) for number in range(count)]
    found, times = zip(*(pose.solved(pose.levels) for pose in poses), strict=True)
    several = [number for number in range(count) if len(poses[number].levels) > 1]
    alone = [poses[number].solved(poses[number].levels[:1])[0][0] for number in several]
    grown = np.array([found[number][0] for number in several]) - np.array(alone)
    yield _share_row(
        "poses out of reach, first level when lower ones are added", grown <= MET, FIRST_SHARE, MET, grown
    )
    if reference is not None:
        known = [np.array(levels) for levels in reference[:count]]
        more = [np.array(levels) - other for levels, other in zip(found, known, strict=True)]
        first = np.array([levels[0] for levels in more])
        yield _share_row(
            "poses out of reach, first level by the reference", first <= MET, FIRST_SHARE, MET, first
        )
        # The first level that differs decides.
        deciding = np.array([next((x for x in levels if abs(x) > ALL_SLACK), 0.0) for levels in more])
        yield _share_row(
            "poses out of reach, all levels by the reference",
            deciding <= ALL_SLACK,
            ALL_SHARE,
            ALL_SLACK,
            deciding,
        )
    for title, (median, most) in POSE_TIMES.items():
        spent = times if not title else [pose.solved(pose.levels, restarts=0)[1] for pose in poses]
        wanted = f"median ≤ {1e3 * median:g} ms" + (f", worst ≤ {1e3 * most:g} ms" if most else "")
        yield Row(
            f"poses out of reach, processor time{', ' if title else ''}{title}",
            wanted,
            f"median {1e3 * float(np.median(spent)):.1f} ms, worst {1e3 * max(spent):.0f} ms",
            bool(np.median(spent) <= median) and (most is None or max(spent) <= most),
            "",
            f"{1e6 * float(np.median(spent)):.0f}",
            {"poses": count, "seconds": float(np.median(spent)), "largest_seconds": max(spent)},
        )


def _share_row(what: str, good: BoolArray, share: float, slack: float, more: FloatArray) -> Row:
    """The row of poses of which so many shall be good; `more` is by how much each is off [m]."""
    return Row(
        what,
        f"off by ≤ {1e3 * slack:g} mm in {100 * share:g} %",
        f"{int(good.sum())} of {len(good)}, worst {1e3 * max(0.0, float(more.max())):.2f} mm",
        float(good.mean()) >= share,
        f"better by more than that: {int((more < -slack).sum())}",
        "",
        {"poses": len(good), "good": int(good.sum()), "largest_growth": float(more.max())},
    )


def peer_rows(tree: Tree, track: Targets, pose: Targets) -> Iterator[Row]:
    """Other libraries on the same tracks and poses, those that are missing too."""
    for title, targets, warm, limit in (
        ("track", track, True, None),
        ("pose from rest, free", pose, False, None),
        ("pose from rest, ±60°", pose, False, LIMIT),
    ):
        plain_time = peers.yardstick_time(tree, targets.positions, warm=warm, limit=limit)
        for peer in peers.rows(
            tree, targets.positions, plain_time, warm=warm, limit=limit, reachable=targets.reachable
        ):
            what = f"{tree.name} {title}, {peer.name}"
            if peer.missing:
                yield Row(what, "", peer.missing, None)
                continue
            over = f", {degrees(peer.over_limit):.0e}° over limits" if peer.over_limit > LIMIT_SLACK else ""
            counts = "iterations not told"
            numbers: dict[str, float] = {
                "frames": peer.frames,
                "reached": peer.reached,
                "ratio": peer.ratio,
                "seconds": peer.seconds,
                "over_limit": peer.over_limit,
                "yardstick_seconds": plain_time,
            }
            if peer.iterations:
                counts = f"{np.median(peer.iterations):g} (≤ {max(peer.iterations)}) iterations"
                numbers["iterations_total"] = sum(peer.iterations)
            yield Row(
                what,
                "",
                f"ratio {peer.ratio:.2f}, reached {100 * peer.reached:.1f} %{over}",
                None,
                counts,
                f"{1e6 * peer.seconds:.0f} / {1e6 * plain_time:.0f}",
                numbers,
            )


def buss_rows(stored: dict[str, Any]) -> Iterator[Row]:
    """Buss's double Y with targets mostly out of reach: squared error against the best known."""
    skeleton, effectors = buss_skeleton(stored["nodes"])
    for title, warm in (("each from the one before", True), ("from rest", False)):
        errors, best, iterations, times = [], [], [], []
        pose = rest = Pose.rest(skeleton)
        with PlaceCounter().counting() as counter:
            for entry in stored["best_known"]:
                tasks = [
                    ReachPoint(joint=joint, target=np.array(target))
                    for joint, target in zip(effectors, entry["targets"], strict=True)
                ]
                start = time.process_time()
                solution = solve(Problem(skeleton, tuple(tasks)), pose if warm else rest)
                times.append(time.process_time() - start)
                pose = solution.pose
                errors.append(sum(error.error**2 for error in solution.errors))
                best.append(entry["best_sq_error"])
                iterations.append(solution.iterations)
        ratio = float(np.sum(errors) / np.sum(best))
        good = int(np.sum(np.array(errors) <= BEST_KNOWN * np.array(best) + 1e-6))
        yield Row(
            f"double Y out of reach, {title}",
            f"squared error ≤ {BEST_KNOWN:.2f} × best known",
            f"{ratio:.3f}, {good} of {len(best)} frames",
            ratio <= BEST_KNOWN,
            f"{np.median(iterations):g} (≤ {max(iterations)}) iterations, "
            f"{counter.total / len(best):.1f} placed",
            f"{1e6 * float(np.median(times)):.0f}",
            {
                "frames": len(best),
                "squared_error_ratio": ratio,
                "good_frames": good,
                "iterations_total": int(sum(iterations)),
                "placed_total": counter.total,
                "seconds": float(np.median(times)),
            },
        )


def buss_skeleton(nodes: Sequence[dict[str, Any]]) -> tuple[Skeleton, list[int]]:
    """Hinges about any axis, given in the world at rest, as joints that turn about their x; effectors."""
    worlds, rest = [], []
    for node in nodes:
        world = np.eye(4)
        world[:3, 3] = node["attach"]
        if node["axis"] is not None:
            world[:3, :3] = _turn_x_to(np.array(node["axis"]))
        worlds.append(world)
        parent = node["parent"]
        rest.append(world if parent is None else np.linalg.inv(worlds[parent]) @ world)
    free = np.zeros((len(nodes), 6), dtype=bool)
    free[:, 3] = [node["axis"] is not None for node in nodes]
    names = [str(node["id"]) for node in nodes]
    skeleton = Skeleton.build(names, [node["parent"] for node in nodes], rest=np.array(rest), free=free)
    return skeleton, [node["id"] for node in nodes if node["purpose"] == "effector"]


def _turn_x_to(axis: FloatArray) -> FloatArray:
    """A rotation (3, 3) that takes x to an axis (3,)."""
    axis = axis / np.linalg.norm(axis)
    across = np.cross([1.0, 0.0, 0.0], axis)
    size = float(np.linalg.norm(across))
    if size < 1e-9:
        return np.eye(3) if axis[0] > 0.0 else np.diag([-1.0, -1.0, 1.0])
    return matrix_from_rotvec(across / size * np.arctan2(size, axis[0]))


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
            f"{np.median(iterations):g} (≤ {max(iterations)}) iterations",
            "",
            {"frames": HELD_FRAMES, "noise_degrees": noise, "iterations_total": int(sum(iterations))},
        )


def strict_rows(targets: Targets, rng: np.random.Generator) -> Iterator[Row]:
    """How much the hands give way to head and elbows that are asked for other things, also with limits."""
    tree = trees.human_tree()
    points = dict(tree.effectors)
    shoulders = {"hand_l": np.array([0.0, 0.18, 1.44]), "hand_r": np.array([0.0, -0.18, 1.44])}
    numbers = [[joint for joint, _ in tree.effectors].index(hand) for hand in shoulders]
    for title, limit in (
        ("reachable", None),
        ("reachable, ±60°", LIMIT),
        ("out of reach", None),
        ("out of reach, ±60°", LIMIT),
    ):
        skeleton, changes, iterations = tree.skeleton(limit), [], []
        grown: list[float] = []
        for places in targets.positions:
            higher: list[Task] = []
            for (hand, shoulder), number in zip(shoulders.items(), numbers, strict=True):
                target = places[number]
                if title.startswith("out"):
                    away = target - shoulder
                    target = shoulder + 1.5 * away / np.linalg.norm(away)
                higher.append(ReachPoint(joint=hand, point=np.array(points[hand]), target=target))
            lower: list[Task] = [
                ReachPoint(joint="head", priority=1, target=places[0] + rng.normal(scale=0.3, size=3))
            ]
            for elbow, number in (("forearm_l", 1), ("forearm_r", 2)):
                target = places[number] + rng.normal(scale=0.3, size=3)
                lower.append(ReachPoint(joint=elbow, priority=2, target=target))
            solutions = [
                solve(Problem(skeleton, tuple(tasks)), Pose.rest(skeleton))
                for tasks in (higher, higher + lower)
            ]
            found = [_points(skeleton, solution, higher) for solution in solutions]
            changes.append(np.abs(found[1] - found[0]).max())
            alone, below = (
                np.linalg.norm([error.error for error in solution.errors[: len(higher)]])
                for solution in solutions
            )
            grown.append(float(below - alone))
            iterations.append(solutions[1].iterations)
        change, exceed = float(max(changes)), int(np.sum(np.array(changes) > STRICTNESS))
        yield Row(
            f"hands, with head and elbows added, {title}",
            f"change ≤ {STRICTNESS:.0e} m",
            f"{change:.1e} m" + (f", {exceed} of {len(changes)} above" if exceed else ""),
            change <= STRICTNESS,
            f"{np.median(iterations):g} (≤ {max(iterations)}) iterations; "
            f"error of the level {max(grown):+.1e} m",
            "",
            {
                "largest_growth_of_error": max(grown),
                "poses": len(changes),
                "largest_change": change,
                "median_change": float(np.median(changes)),
                "above": exceed,
                "iterations_total": int(sum(iterations)),
            },
        )


def _points(skeleton: Skeleton, solution: Solution, tasks: Sequence[Task]) -> FloatArray:
    """Where the points of the tasks are in a solution, (tasks, 3) [m]."""
    posed: PosedSkeleton = forward_kinematics(skeleton, solution.pose)
    found = []
    for task in tasks:
        reach = cast(ReachPoint, task)
        matrix = posed.matrices[skeleton.index(reach.joint)]
        found.append(matrix[:3, :3] @ reach.point + matrix[:3, 3])
    return np.array(found)


# The run


def own_targets(frames: int, poses: int, seed: int) -> dict[str, Targets]:
    """Targets drawn here, by the names of the file; each from its own generator."""
    drawn = {}
    for number, (name, tree) in enumerate(trees.trees().items()):
        kinds = (("track", frames, trees.track_targets), ("pose", poses, trees.pose_targets))
        for kind, count, draw in kinds:
            rng = np.random.default_rng([seed, number, kind == "pose"])
            drawn[f"{name}_{kind}"] = Targets(draw(tree, count, rng), np.ones(count))
    return drawn


def stored_targets(stored: dict[str, Any], frames: int, poses: int) -> dict[str, Targets]:
    """The first frames and poses of a file."""
    taken = {}
    for name, entry in stored["targets"].items():
        count = frames if name.endswith("_track") else poses
        positions, reachable = np.array(entry["positions"]), np.array(entry["reachable"], dtype=np.float64)
        taken[name] = Targets(positions[:count], reachable[:count])
    return taken


def rows(
    targets: dict[str, Targets],
    buss: dict[str, Any] | None,
    levels: Sequence[Sequence[float]] | None,
    *,
    full: bool,
    seed: int,
    with_peers: bool = False,
) -> Iterator[Row]:
    """All rows, as they are measured."""
    built = trees.trees()
    measure: list[Callable[[], Iterator[Row]]] = []
    measure += [partial(track_rows, built[name], targets[f"{name}_track"]) for name in FIGURES]
    measure += [partial(pose_rows, built[name], targets[f"{name}_pose"]) for name in FIGURES]
    motions, far_poses, strict_poses = (4, 200, 40) if full else (1, 24, 6)
    measure += [partial(motion_rows, built[name], motions, seed) for name in FIGURES]
    measure.append(partial(far_rows, far_poses, levels))
    if with_peers:
        measure += [
            partial(peer_rows, built[name], targets[f"{name}_track"], targets[f"{name}_pose"])
            for name in FIGURES
        ]
    if full:
        others = ("Y", "YY", "chain30")
        measure += [partial(track_rows, built[name], targets[f"{name}_track"]) for name in others]
    if buss is not None:
        measure.append(partial(buss_rows, buss["doubleY"]))
    measure.append(held_rows)
    first = targets["human_pose"]
    few = Targets(first.positions[:strict_poses], first.reachable[:strict_poses])
    measure.append(partial(strict_rows, few, np.random.default_rng([seed, 7])))
    for rows_of_one in measure:
        yield from rows_of_one()


HEADINGS = ("work", "wanted", "measured", "", "counts, median", "µs a frame, ours / yardstick")

INTRODUCTION = """\
# Figures of the solver

Made by `{command}`.

What is judged is what a user gets: the default settings, with the preferred pose, which decides all that the
targets leave free; a motion is one problem over its frames, with the default smoothness. Rows *without
preferred pose* are for comparison with other libraries, which have none, and are not judged.

A ratio is our time for a frame by that of the yardstick, a plain loop of damped least squares in numpy
(`scripts/examples/trees.py`), taken in the same run on one thread, in processor time, which other work on
the machine disturbs least. The yardstick has no preferred pose, no levels and no terms over time. Tracks
start from the frame before, both stop within 1 mm; poses start from rest, ours stop within 0.1 mm, the
yardstick within 1 mm. What both prepare once for a tree is not in the times; of poses *stated anew* it is in
ours: tasks, checks, and what `solve` makes of them. *Placed* counts forward kinematics for a frame.

*Motions* are smooth ones of the figure's joints inside ±60°, 250 frames each, with the places of the
effectors as targets; led out of reach, a hand goes 0.6 times as far again and comes back, feet are on level
0, hands on 1, the head on 2. *Turn* is the largest turn of a joint in its parent from one frame to the next,
*change* the largest difference of two turns that follow each other, in the worst of the motions.

*Poses out of reach* have one to three of five targets moved away by about 0.5 m, on one to five levels, free
and with limits. Of each level the norm of its misses is compared: the first with what it is without the lower
ones, and, with --data-levels, all with those of a reference, one level after the other: the first that
differs decides.

Noise is the largest change of an angle from one frame to the next, for a moving target the largest change of
that change. Strictness is how far the hands move when targets on lower levels are added; beside it stands how
much the error of their level grows. Other libraries, with --peers, stop within 1 mm like the yardstick, are
prepared before the clock runs, and are measured in the same run (`scripts/examples/peers.py`).
"""


def cells(row: Row) -> tuple[str, ...]:
    """A row as text."""
    verdict = {True: "yes", False: "NO", None: "–"}[row.met]
    return row.what, row.wanted or "–", row.measured, verdict, row.counts, row.times


def markdown(measured: Sequence[Row], surroundings: dict[str, Any], command: str) -> str:
    """The page for the documentation."""
    table = markdown_table([HEADINGS, *map(cells, measured)])
    facts = "; ".join(f"{key} {value}" for key, value in surroundings.items())
    return f"{INTRODUCTION.format(command=command)}\n{summary(measured)}\n\n{table}\n\nRun with: {facts}.\n"


def summary(measured: Sequence[Row]) -> str:
    """How many of the figures are reached, and which are not."""
    judged = [row for row in measured if row.met is not None]
    missed = "; ".join(row.what for row in judged if not row.met)
    reached = (
        f"{len(judged) - sum(not row.met for row in judged)} of {len(judged)} wanted figures are reached."
    )
    return f"{reached} Not reached: {missed}." if missed else reached


def main() -> int:
    """Run the bench. Returns the exit code: 1 only if the trees are not those of the file."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="250 frames, 150 poses, all trees")
    parser.add_argument("--frames", type=int, help="frames of each track (default 60)")
    parser.add_argument("--poses", type=int, help="poses of each tree (default 60)")
    parser.add_argument("--peers", action="store_true", help="also other libraries: mink, pin, pybullet")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, metavar="FILE", help="JSON with trees and targets to use")
    parser.add_argument("--data-buss", type=Path, metavar="FILE", help="JSON with Buss's double Y")
    parser.add_argument(
        "--data-levels", type=Path, metavar="FILE", help="JSON with errors of unreachable poses"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown")
    options = parser.parse_args()
    frames = options.frames or (250 if options.full else 60)
    poses = options.poses or (150 if options.full else 60)
    if options.data is None:
        targets = own_targets(frames, poses, options.seed)
    else:
        stored = json.loads(options.data.read_text(encoding="utf-8"))
        unlike: list[str] = []
        for name, tree in trees.trees().items():
            unlike += trees.differences(tree, stored["trees"][name])
        if unlike:
            print("\n".join(unlike), file=sys.stderr)
            return 1
        print(f"The {len(trees.trees())} trees are those of the file.")
        targets = stored_targets(stored, frames, poses)
    buss = None
    if options.data_buss is not None:
        buss = json.loads(options.data_buss.read_text(encoding="utf-8"))
    levels = None
    if options.data_levels is not None:
        levels = json.loads(options.data_levels.read_text(encoding="utf-8"))
    surroundings = {
        "frames": frames,
        "poses": poses,
        "targets": "drawn here" if options.data is None else "of a file",
        "seed": options.seed,
        "numpy": np.__version__,
        "Python": platform.python_version(),
        "processor": platform.machine(),
    }
    measured: list[Row] = []
    start = time.perf_counter()
    for row in rows(
        targets,
        buss,
        levels,
        full=options.full,
        seed=options.seed,
        with_peers=options.peers,
    ):
        measured.append(row)
        what, wanted, figure, verdict, counts, times = cells(row)
        print(f"{verdict:>3}  {what:58}  {figure:31}  {wanted:38}  {times:>13}  {counts}", flush=True)
    print(f"\n{summary(measured)} ({time.perf_counter() - start:.0f} s)")
    if options.json is not None:
        content = {"surroundings": surroundings, "rows": [asdict(row) for row in measured]}
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if options.markdown is not None:
        flags = [
            name
            for name, given in (
                ("--full", options.full),
                ("--peers", options.peers),
                ("--data FILE", options.data),
                ("--data-buss FILE", options.data_buss),
                ("--data-levels FILE", options.data_levels),
            )
            if given
        ]
        command = " ".join(["scripts/bench", *flags, "--markdown", "docs/bench.md"])
        options.markdown.write_text(markdown(measured, surroundings, command), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

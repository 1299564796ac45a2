# SPDX-License-Identifier: GPL-3.0-or-later
"""Rigify's basic human from rest to drawn poses, ours against Blender's own IK: scripts/bench-rig.

    scripts/bench-rig [--poses N] [--only WORD] [--markdown FILE]

Poses are drawn at random inside limits; hips are moved and turned as well. Hands, feet and head of such a
pose, place and orientation, are the targets. Nothing else of it is known to a solver, which begins in the
rest pose. What it did is read from Blender's evaluated matrices, here and not by the add-on. Each pose is
inside the limits as the add-on takes them and as Blender's IK takes them, so both could reach all targets.

Blender's IK turns the root bone but never moves it, so that hardly any of these targets is in its reach. It
is therefore also given the hips where they belong, and so is ours, for comparison.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import degrees, radians
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import bpy
import numpy as np
from bpy.types import Object
from mathutils import Matrix

from benchmarks.page import VERDICTS, Columns, arguments, listed, progress, publish, tabled
from benchmarks.rigs import FloatArray, add_on, basic_human
from blender_ik_addon.core.model.rotation import euler_from_matrix, matrix_from_euler, order_index
from blender_ik_addon.scene import posing

SEED: Final = 1
POSES: Final = 200

LARGEST_DISTANCE, LARGEST_ANGLE = 1e-3, radians(0.1)
"""Up to which a target counts as reached [m], [rad]; the tolerance of the panel is set to the same."""

LIMIT_SLACK: Final = 1e-9  # How far a channel of ours may be beyond its limit [rad]
MATRIX_SLACK: Final = 1e-3
"""The same where angles are had from matrices in single precision [rad]: those of Blender's IK."""

WANTED: Final = 0.99  # Part of the poses to be reached [1]
HIPS: Final = "spine"
EFFECTORS: Final = ("foot.L", "foot.R", "hand.L", "hand.R", "spine.006")
CHAINS: Final = {"foot.L": 3, "foot.R": 3, "hand.L": 4, "hand.R": 4, "spine.006": 6}
"""Bones from each effector to the thigh, the shoulder and the first bone above the hips."""

ORDER: Final = "YZX"
"""Rotation mode of the limited bones: twist first, then sideways, then about x. The angle in the middle, that
about z, stays below 90°, so that no pose inside the limits is in gimbal lock."""


# limits

Range = tuple[float, float]


class Limits(NamedTuple):
    """How far a bone turns about its own x, y and z from its rest pose [°]; None where it is no joint."""

    bone: str
    ranges: tuple[Range | None, Range | None, Range | None]
    what: str  # Of the body, in its own words; all that the three ranges add up to


def read_limits() -> Iterator[Limits]:
    """Those of `rig_limits.json`, then their mirror images; every range contains 0, as Blender demands."""
    entries = json.loads(Path(__file__).with_name("rig_limits.json").read_text(encoding="utf-8"))
    for side, sign in ((".L", 1.0), (".R", -1.0)):
        for entry in entries:
            if side == ".L" or entry["bone"].endswith(".L"):
                x, y, z = (entry[axis] for axis in "xyz")
                # On the right turns about y and z go the other way.
                y, z = (None if of is None else tuple(sorted(sign * end for end in of)) for of in (y, z))
                bone = entry["bone"].replace(".L", side)
                yield Limits(bone, (None if x is None else tuple(x), y, z), entry["meant as"])


LIMITS: Final = tuple(read_limits())

HIPS_PLACES: Final[tuple[Range, Range, Range]] = ((-0.5, 0.5), (-0.5, 0.3), (-0.5, 0.5))
"""How far the hips move along their own axes: left, up, forward [m]."""
HIPS_TURNS: Final[tuple[Range, Range, Range]] = ((-60, 60), (-180, 180), (-30, 30))
"""How far they turn about them: to bend, to turn round, to lean [°]."""
HIPS_ORDER: Final = "XZY"  # In which they are drawn: first the bend, last the turn
LOCKED: Final = 1e-6  # What counts as no turn about a locked axis [rad]


def beyond_for_blender(limits: Limits, turn: FloatArray) -> float:
    """By how much a turn (3, 3) is beyond limits as Blender's IK takes them [rad]; at most 0 inside.

    It takes the turn apart into a twist about y and then a swing about an axis without y. The twist is
    limited as it stands. The swing, as the vector sin(angle/2) · axis, is limited to an ellipse, of which
    each quadrant has a quarter of its own. How far a swing is beyond is measured along itself.
    """
    x, y, z = (np.zeros(2) if of is None else np.radians(of) for of in limits.ranges)
    slack_x, slack_y, slack_z = (LOCKED if of is None else 0.0 for of in limits.ranges)
    twist = 2.0 * np.arctan2(turn[0, 2] - turn[2, 0], np.trace(turn) + 1.0)
    twisted = max(y[0] - twist, twist - y[1]) - slack_y
    swing = turn @ matrix_from_euler(np.array([0.0, -twist, 0.0]), order_index(ORDER))
    cosine = np.sqrt(max(2.0 * (1.0 + swing[1, 1]), LOCKED))  # twice that of half the angle
    vector = np.array([swing[2, 1], -swing[0, 1]]) / cosine  # (x, z)
    radii = np.array(
        [
            np.sin(abs(of[int(part > 0.0)]) / 2.0) + slack
            for part, of, slack in zip(vector, (x, z), (slack_x, slack_z), strict=True)
        ]
    )
    size, ratio = np.linalg.norm(vector), max(np.linalg.norm(vector / radii), LOCKED)
    swung = 2.0 * (np.arcsin(min(size, 1.0)) - np.arcsin(min(size / ratio, 1.0)))
    return float(max(twisted, swung))


# poses


class DrawnPose(NamedTuple):
    """A pose inside the limits."""

    angles: FloatArray  # Of each limited bone about x, y, z, (len(LIMITS), 3) [rad]
    hips_place: FloatArray  # Location of the hips, (3,) [m]
    hips_turn: FloatArray  # Rotation of the hips, (3, 3)


def draw(count: int, seed: int) -> Iterator[DrawnPose]:
    """Draw poses, each joint for itself and evenly inside its limits.

    A joint is drawn again where Blender's IK would not let it be: it rounds the corners off.
    """
    random = np.random.default_rng(seed)
    for _ in range(count):
        angles = np.zeros((len(LIMITS), 3))
        for row, limits in enumerate(LIMITS):
            free = [axis for axis, of in enumerate(limits.ranges) if of is not None]
            low, high = np.radians([of for of in limits.ranges if of is not None]).T
            beyond = 1.0
            while beyond > 0.0:
                angles[row, free] = random.uniform(low, high)
                beyond = beyond_for_blender(limits, matrix_from_euler(angles[row], order_index(ORDER)))
        place = random.uniform(*np.array(HIPS_PLACES).T)
        turn = np.radians(random.uniform(*np.array(HIPS_TURNS).T))
        yield DrawnPose(angles, place, matrix_from_euler(turn, order_index(HIPS_ORDER)))


def make_figure() -> Object:
    """Add Rigify's basic human to the scene: with limits, effectors, and a target for each."""
    figure = basic_human()
    for limits in LIMITS:
        bone = figure.pose.bones[limits.bone]
        bone.rotation_mode = ORDER  # that of the hips stays as Rigify makes it, in quaternions
        for letter, of in zip("xyz", limits.ranges, strict=True):
            setattr(bone, f"lock_ik_{letter}", of is None)
            if of is not None:
                setattr(bone, f"use_ik_limit_{letter}", True)
                setattr(bone, f"ik_min_{letter}", radians(of[0]))
                setattr(bone, f"ik_max_{letter}", radians(of[1]))
    for name in EFFECTORS:
        posing.add_effector(figure, name)
    for effector in figure.poise.effectors:
        effector.target.rotation_mode = 'QUATERNION'
    figure.poise.tolerance_position, figure.poise.tolerance_rotation = LARGEST_DISTANCE, LARGEST_ANGLE
    return figure


def put(figure: Any, pose: DrawnPose | None, *, hips_alone: bool = False) -> None:
    """Put the figure into a drawn pose, or its hips alone, all others at rest; None is the rest pose."""
    for bone in figure.pose.bones:
        bone.matrix_basis = Matrix()
    if pose is not None:
        hips = figure.pose.bones[HIPS]
        hips.location = pose.hips_place.tolist()
        hips.rotation_quaternion = Matrix(pose.hips_turn.tolist()).to_quaternion()
        for limits, angles in zip(LIMITS, pose.angles if not hips_alone else (), strict=not hips_alone):
            figure.pose.bones[limits.bone].rotation_euler = angles.tolist()


def aim(objects: Iterable[Any], targets: FloatArray) -> None:
    """Put objects in quaternion mode where targets are, (E, 4, 4) [m]."""
    for thing, matrix in zip(objects, targets, strict=True):
        thing.location = matrix[:3, 3].tolist()
        thing.rotation_quaternion = Matrix(matrix[:3, :3].tolist()).to_quaternion()


def evaluated(figure: Object, names: Sequence[str]) -> FloatArray:
    """Read matrices of bones as Blender evaluates them, in armature space, here the world, (k, 4, 4) [m]."""
    depsgraph = bpy.context.evaluated_depsgraph_get()
    depsgraph.update()
    bones: Any = figure.evaluated_get(depsgraph).pose.bones
    return np.array([np.array(bones[name].matrix) for name in names])


# outcomes


@dataclass(frozen=True)
class Outcome:
    """What a solver made of one pose."""

    distances: FloatArray
    """Of the effectors from their targets, (E,) [m]."""
    angles: FloatArray
    """Between the effectors and their targets, (E,) [rad]."""
    whole_time: float
    """Of the solve with all around it [s]."""
    beyond: float
    """Largest excess over a limit as the solver takes limits [rad]; at most 0 inside."""
    channels_beyond: float
    """The same of the angles about x, y and z [rad]."""
    solve_time: float = 0.0
    """Of the solver alone [s], where it can be told."""
    iterations: int = 0
    message: str = ""

    @property
    def reached(self) -> bool:
        """Whether all effectors are as near as is wanted."""
        return bool((self.distances <= LARGEST_DISTANCE).all() and (self.angles <= LARGEST_ANGLE).all())


def misses(figure: Object, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Distances [m] and angles [rad] of the effectors from targets (E, 4, 4), (E,) each."""
    difference = evaluated(figure, EFFECTORS) - targets
    # From |a - b| = 2 √2 sin(angle/2), which is accurate for small angles, as the trace is not.
    apart = np.linalg.norm(difference[:, :3, :3], axis=(-2, -1))
    angles = 2.0 * np.arcsin(np.clip(apart / np.sqrt(8.0), 0.0, 1.0))
    return np.linalg.norm(difference[:, :3, 3], axis=-1), angles


def own_turns(figure: Any) -> FloatArray:
    """Read how far each limited bone is turned from rest, as Blender evaluates it, (len(LIMITS), 3, 3)."""
    bones = [figure.data.bones[limits.bone] for limits in LIMITS]
    names = [bone.name for bone in bones]
    now, parents = evaluated(figure, names), evaluated(figure, [bone.parent.name for bone in bones])
    at_rest = np.array([np.array(bone.matrix_local) for bone in bones])
    parents_at_rest = np.array([np.array(bone.parent.matrix_local) for bone in bones])
    parent_from_rest = np.linalg.inv(parents_at_rest) @ at_rest
    return (np.linalg.inv(parents @ parent_from_rest) @ now)[:, :3, :3]


def beyond_limits(angles: FloatArray) -> float:
    """Return the largest excess of angles (len(LIMITS), 3) over their limits [rad]; at most 0 inside."""
    ranges = [[(0.0, 0.0) if of is None else of for of in limits.ranges] for limits in LIMITS]
    # In single precision, as Blender holds limits and angles.
    low, high = np.moveaxis(np.radians(ranges).astype(np.float32).astype(np.float64), -1, 0)
    return float(np.maximum(low - angles, angles - high).max())


# ours


def solve_ours(figure: Any, targets: FloatArray, hips: DrawnPose | None) -> Outcome:
    """Solve one pose from rest through the script door, targets (E, 4, 4); the hips begin as in `hips`."""
    put(figure, hips, hips_alone=True)
    aim((effector.target for effector in figure.poise.effectors), targets)
    times: list[float] = []
    iterations: list[int] = []
    solve = posing.solve

    def watched(*arguments: Any, **options: Any) -> Any:
        began = time.process_time()
        solution = solve(*arguments, **options)
        times.append(time.process_time() - began)
        iterations.append(solution.iterations)
        return solution

    with patch.object(posing, "solve", watched):
        began = time.process_time()
        report = posing.solve_pose(figure)
        seconds = time.process_time() - began
    beyond = beyond_limits(np.array([figure.pose.bones[limits.bone].rotation_euler[:] for limits in LIMITS]))
    found = misses(figure, targets)
    return Outcome(*found, seconds, beyond, beyond, sum(times), sum(iterations), report.message)


# Blender's


class Setting(NamedTuple):
    """A way to set up Blender's own IK."""

    label: str
    solver: str = 'LEGACY'  # 'LEGACY' is what Blender calls Standard
    tree: bool = True
    """Whether each chain goes to the root, so that they share the spine; otherwise see `CHAINS`."""
    hips_placed: bool = False  # Whether the hips are where they belong beforehand
    part: float = 1.0
    """Of the poses that are tried [1]: few are enough to show that none is reached, and these are slow."""


SETTINGS: Final = (
    Setting("Blender, Standard, a chain for each limb", tree=False),
    Setting("Blender, Standard, whole tree", part=0.2),
    Setting("Blender, iTaSC, whole tree", solver='ITASC', part=0.2),
    Setting("Blender, Standard, a chain for each limb, hips placed", tree=False, hips_placed=True),
    Setting("Blender, Standard, whole tree, hips placed", hips_placed=True),
    Setting("Blender, iTaSC, whole tree, hips placed", solver='ITASC', hips_placed=True),
)

BLENDER_ITERATIONS: Final = 500  # The default of the constraint; iTaSC is given as many
ITASC_PRECISION: Final = 1e-4
"""To which iTaSC solves [1]; its default, 0.005, is coarser than what is wanted here."""


@contextmanager
def blender_ik(figure: Any, setting: Setting) -> Iterator[dict[str, Any]]:
    """Give the figure IK constraints; yields the target of each bone, an empty where its tail should be.

    An IK constraint turns its own bone only if that bone's tail is what reaches the target.
    """
    figure.pose.ik_solver = setting.solver
    if setting.solver == 'ITASC':
        itasc = figure.pose.ik_param
        itasc.mode, itasc.solver = 'ANIMATION', 'SDLS'
        itasc.iterations, itasc.precision = BLENDER_ITERATIONS, ITASC_PRECISION
    tails: dict[str, Any] = {}
    for name in EFFECTORS:
        tails[name] = bpy.data.objects.new(f"tail of {name}", None)
        tails[name].rotation_mode = 'QUATERNION'
        bpy.context.scene.collection.objects.link(tails[name])
        constraint = figure.pose.bones[name].constraints.new('IK')
        constraint.target, constraint.iterations = tails[name], BLENDER_ITERATIONS
        constraint.use_tail = constraint.use_location = constraint.use_rotation = True
        constraint.use_stretch = False
        constraint.chain_count = 0 if setting.tree else CHAINS[name]
        constraint.weight = constraint.orient_weight = 1.0
    yield tails
    for name, empty in tails.items():
        constraints = figure.pose.bones[name].constraints
        constraints.remove(constraints[-1])
        bpy.data.objects.remove(empty)
    figure.pose.ik_solver = 'LEGACY'


def solve_blenders(
    figure: Any, tails: dict[str, Any], targets: FloatArray, hips: DrawnPose | None
) -> Outcome:
    """Let Blender's IK solve one pose from rest, targets (E, 4, 4); the hips of `hips` are given to it."""
    put(figure, hips, hips_alone=True)
    ends = targets.copy()
    lengths = np.array([figure.data.bones[name].length for name in EFFECTORS])
    ends[:, :3, 3] += lengths[:, None] * targets[:, :3, 1]
    aim(tails.values(), ends)
    began = time.process_time()
    bpy.context.evaluated_depsgraph_get().update()
    seconds, turns = time.process_time() - began, own_turns(figure)
    beyond = max(map(beyond_for_blender, LIMITS, turns))
    channels = beyond_limits(euler_from_matrix(turns, order_index(ORDER)))
    return Outcome(*misses(figure, targets), seconds, beyond, channels)


# Report

OURS, OURS_PLACED = "Poise", "Poise, hips placed"


@dataclass(frozen=True)
class Row:
    """One solver over its poses."""

    label: str
    outcomes: tuple[Outcome, ...]
    slack: float = MATRIX_SLACK  # Up to which an excess over a limit is no violation [rad]
    hips_placed: bool = False

    def values(self, name: str) -> Any:
        """A figure of all outcomes, (P,) or (P, E)."""
        return np.array([getattr(outcome, name) for outcome in self.outcomes])

    @property
    def inside(self) -> float:
        """Part of the poses that are reached inside the limits [%]."""
        return 100.0 * float(np.mean(self.values("reached") & (self.values("beyond") <= self.slack)))

    @property
    def time(self) -> float:
        """Median for a pose [ms]."""
        return 1e3 * float(np.median(self.values("whole_time")))

    def exceeding(self, name: str) -> str:
        """How many poses are beyond limits, and by how much at most."""
        beyond = self.values(name)
        return f"{(beyond > self.slack).sum()} (by {degrees(max(float(beyond.max()), 0.0)):.2g}°)"

    def missed(self, of: Callable[[FloatArray], Any]) -> str:
        """The worst effector of each pose, the median or the largest of that."""
        distance, angle = (of(self.values(name).max(axis=1)) for name in ("distances", "angles"))
        return f"{1e3 * distance:.3g} mm, {degrees(angle):.2g}°"

    @property
    def alone(self) -> str:
        """The solver's own part, where it can be told."""
        if not self.label.startswith(OURS):
            return "–"
        median = 1e3 * np.median(self.values("solve_time"))
        return f"{median:.1f} ({np.median(self.values('iterations')):.0f} iterations)"


COLUMNS: Final[Columns[Row]] = (
    ("solver", lambda row: row.label),
    ("poses", lambda row: str(len(row.outcomes))),
    ("reached", lambda row: f"{100.0 * row.values('reached').mean():.1f} %"),
    ("of that inside limits", lambda row: f"{row.inside:.1f} %"),
    ("worst miss of a pose, median", lambda row: row.missed(np.median)),
    ("largest", lambda row: row.missed(np.max)),
    ("ms a pose, median (mean)", lambda row: f"{row.time:.1f} ({1e3 * row.values('whole_time').mean():.1f})"),
    ("of that solver", lambda row: row.alone),
    ("beyond limits", lambda row: row.exceeding("beyond")),
    ("channels beyond", lambda row: row.exceeding("channels_beyond")),
)


def rows(poses: int, only: str) -> Iterator[Row]:
    """Measure one solver after the other, those whose label holds a word; an empty scene must be open."""
    figure = make_figure()
    drawn, targets = list(draw(poses, SEED)), []
    for pose in drawn:
        put(figure, pose)
        targets.append(evaluated(figure, EFFECTORS))  # (E, 4, 4)
    for label, placed in ((OURS, False), (OURS_PLACED, True)):
        if only in label:
            found = [solve_ours(figure, targets[i], drawn[i] if placed else None) for i in range(poses)]
            yield Row(label, tuple(found), slack=LIMIT_SLACK, hips_placed=placed)
    for setting in SETTINGS:
        if only in setting.label:
            placed = setting.hips_placed
            with blender_ik(figure, setting) as tails:
                # Blender sorts out what depends on what, once and not in the first pose.
                evaluated(figure, EFFECTORS)
                found = [
                    solve_blenders(figure, tails, targets[i], drawn[i] if placed else None)
                    for i in range(max(1, round(poses * setting.part)))
                ]
            yield Row(setting.label, tuple(found), hips_placed=placed)


def verdicts(measured: Sequence[Row]) -> list[tuple[str, bool | None]]:
    """What is wanted of ours and whether it is so; None where it is no more than said."""
    of_label = {row.label: row for row in measured}
    if OURS not in of_label:
        return []
    ours = of_label[OURS]
    beyond = int((ours.values("beyond") > LIMIT_SLACK).sum())
    found: list[tuple[str, bool | None]] = [
        (f"{ours.inside:.1f} % of the poses reached, wanted {WANTED:.0%}", ours.inside >= 100.0 * WANTED),
        (f"{beyond} poses beyond a limit by more than {LIMIT_SLACK:g} rad, wanted 0", beyond == 0),
    ]
    theirs = [row for row in measured if not row.label.startswith(OURS)]
    alike, helped = ([row for row in theirs if row.hips_placed is placed] for placed in (False, True))
    if alike:
        fastest = min(alike, key=lambda row: row.time)
        what = f"{fastest.time:.1f}: the fastest setting of Blender's IK for the same task ({fastest.label})"
        found.append((f"{ours.time:.1f} ms a pose, wanted less than {what}", ours.time < fastest.time))
    if helped and OURS_PLACED in of_label:
        best, placed = max(helped, key=lambda row: row.inside), of_label[OURS_PLACED]
        what = f"Blender's IK at best {best.inside:.1f} % in {best.time:.1f} ms ({best.label})"
        found.append((f"hips placed: {placed.inside:.1f} % in {placed.time:.1f} ms, {what}", None))
    return found


def failures(measured: Sequence[Row]) -> list[str]:
    """A line for each pose of ours that is missed: its number, by how much, what the solver says."""
    return [
        f"{number}: {outcome.distances.max() * 1e3:.3g} mm, {degrees(outcome.angles.max()):.2g}°, "
        f"{outcome.iterations} iterations; {outcome.message}"
        for row in measured
        if row.label == OURS
        for number, outcome in enumerate(row.outcomes)
        if not outcome.reached
    ]


def span(limits: Limits, axis: int) -> str:
    """A range of a bone."""
    of = limits.ranges[axis]
    return "–" if of is None else f"{of[0]:g} … {of[1]:g}"


LIMIT_COLUMNS: Final[Columns[Limits]] = (
    ("bone", lambda limits: limits.bone),
    ("x [°]", lambda limits: span(limits, 0)),
    ("y [°]", lambda limits: span(limits, 1)),
    ("z [°]", lambda limits: span(limits, 2)),
    ("meant as", lambda limits: limits.what),
)


def main() -> int:
    """Run the bench; the exit code is 0 whatever it measures."""
    parser = arguments("scripts/bench-rig", __doc__)
    parser.add_argument("--poses", type=int, default=POSES, help=f"how many are drawn (default {POSES})")
    parser.add_argument("--only", default="", metavar="WORD", help="solvers whose name has this, e.g. Poise")
    options = parser.parse_args()
    measured: list[Row] = []
    with add_on():
        for row in rows(options.poses, options.only):
            measured.append(row)
            progress(f"{row.label}: {row.inside:.1f} % reached")
    missed = failures(measured)
    publish(
        options.markdown,
        "rig",
        "scripts/bench-rig",
        [f"{VERDICTS[met]}: {what}" for what, met in verdicts(measured)],
        mm=f"{LARGEST_DISTANCE * 1e3:g}",
        deg=f"{degrees(LARGEST_ANGLE):g}",
        iterations=str(BLENDER_ITERATIONS),
        precision=f"{ITASC_PRECISION:g}",
        ours=f"{LIMIT_SLACK:g}",
        theirs=f"{MATRIX_SLACK:g}",
        table=tabled(COLUMNS, measured),
        missed=f"\nMissed by Poise, with their numbers:\n\n{listed(missed)}\n" if missed else "",
        limits=tabled(LIMIT_COLUMNS, [of for of in LIMITS if not of.bone.endswith(".R")]),
        order=ORDER,
        poses=str(options.poses),
    )
    return 0

# SPDX-License-Identifier: GPL-3.0-or-later
"""Rigify's basic human from rest to drawn poses, ours against Blender's own IK: scripts/bench-rig.

What is measured is told on the page, `pages/rig.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import radians
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import bpy
import numpy as np
from bpy.types import Object
from mathutils import Matrix

from benchmarks.page import arguments, measured, publish, stored
from benchmarks.rigs import FloatArray, add_on, basic_human
from benchmarks.timing import timed, watching
from blender_ik_addon.core.model.rotation import matrix_from_euler, order_index
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
DATA: Final = stored("bench_rig")
CHAINS: Final[dict[str, int]] = DATA["chains"]
"""Bones from each effector to the thigh, the shoulder and the first bone above the hips."""
EFFECTORS: Final = tuple(CHAINS)

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

    @property
    def cells(self) -> str:
        """The ranges as cells of a table."""
        return " | ".join("–" if of is None else f"{of[0]:g} … {of[1]:g}" for of in self.ranges)


LIMITS: Final = tuple(Limits(**limits) for limits in DATA["limits"])
"""Of both sides; on the right turns about y and z go the other way. All contain 0, as Blender demands."""

HIPS_PLACES: Final[list[Range]] = DATA["hips_places"]
"""How far the hips move along their own axes: left, up, forward [m]."""
HIPS_TURNS: Final[list[Range]] = DATA["hips_turns"]
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
    solve_time: float | None = None
    """Of the solver alone [s], where it can be told."""
    iterations: int | None = None
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
    with watching(posing, "solve") as solves:
        report, seconds = timed(posing.solve_pose, figure)
    beyond = beyond_limits(np.array([figure.pose.bones[limits.bone].rotation_euler[:] for limits in LIMITS]))
    iterations, times = (sum(part) for part in zip(*solves, strict=True))
    return Outcome(*misses(figure, targets), seconds, beyond, times, iterations, report.message)


# Blender's


class Setting(NamedTuple):
    """A way to set up Blender's own IK."""

    label: str
    solver: str  # 'LEGACY' is what Blender calls Standard
    tree: bool
    """Whether each chain goes to the root, so that they share the spine; otherwise see `CHAINS`."""
    hips_placed: bool  # Whether the hips are where they belong beforehand
    part: float
    """Of the poses that are tried [1]: few are enough to show that none is reached, and these are slow."""


SETTINGS: Final = tuple(Setting(**setting) for setting in DATA["settings"])
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
    _, seconds = timed(lambda: bpy.context.evaluated_depsgraph_get().update())
    beyond = max(map(beyond_for_blender, LIMITS, own_turns(figure)))
    return Outcome(*misses(figure, targets), seconds, beyond)


# Report

OURS, OURS_PLACED = "Poise", "Poise, hips placed"


@dataclass(frozen=True)
class Row:
    """One solver over its poses."""

    label: str
    outcomes: list[Outcome]
    slack: float = MATRIX_SLACK  # Up to which an excess over a limit is no violation [rad]
    hips_placed: bool = False

    def values(self, name: str) -> Any:
        """A figure of all outcomes, (P,) or (P, E)."""
        return np.array([getattr(outcome, name) for outcome in self.outcomes])

    @property
    def inside(self) -> float:
        """Part of the poses that are reached inside the limits [1]."""
        return float(np.mean(self.values("reached") & (self.values("beyond") <= self.slack)))

    @property
    def time(self) -> float:
        """Median for a pose [s]."""
        return float(np.median(self.values("whole_time")))

    @property
    def reaches(self) -> bool:
        """Whether that is as much as is wanted of ours."""
        return self.inside >= WANTED

    @property
    def keeps(self) -> bool:
        """Whether no pose is beyond a limit."""
        return self.over[0] == 0

    @property
    def worst(self) -> SimpleNamespace:
        """Of the worst effector of each pose: distances [m] and angles [rad], (P,) each."""
        distances, angles = (self.values(name).max(axis=1) for name in ("distances", "angles"))
        return SimpleNamespace(distances=distances, angles=angles)

    @property
    def over(self) -> tuple[int, float]:
        """How many poses are beyond limits, and by how much at most [rad]."""
        beyond = self.values("beyond")
        return int((beyond > self.slack).sum()), max(float(beyond.max()), 0.0)


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
            yield Row(label, found, slack=LIMIT_SLACK, hips_placed=placed)
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
            yield Row(setting.label, found, hips_placed=placed)


def main() -> int:
    """Run the bench; the exit code is 0 whatever it measures."""
    options = arguments(
        "scripts/bench-rig",
        __doc__,
        poses=(POSES, "how many are drawn"),
        only=("", "solvers whose name has this, e.g. Poise"),
    ).parse_args()
    with add_on():
        solvers = measured(rows(options.poses, options.only), "{row.label}: {row.inside:% .1f} % reached")
    ours, placed = ([row for row in solvers if row.label == label] for label in (OURS, OURS_PLACED))
    theirs = [row for row in solvers if not row.label.startswith(OURS)]
    alike = sorted((row for row in theirs if not row.hips_placed), key=lambda row: row.time)
    helped = sorted((row for row in theirs if row.hips_placed), key=lambda row: -row.inside)
    missed = [
        SimpleNamespace(number=number, pose=pose)
        for row in ours
        for number, pose in enumerate(row.outcomes)
        if not pose.reached
    ]
    publish(
        options,
        "rig",
        globals(),
        rows=solvers,
        ours=ours,
        placed=placed,
        fastest=alike[:1] if ours else [],
        faster=bool(ours and alike) and ours[0].time < alike[0].time,
        best=helped[:1] if placed else [],
        missed=missed,
        any_missed=missed[:1],
        limits=[of for of in LIMITS if not of.bone.endswith(".R")],
    )
    return 0

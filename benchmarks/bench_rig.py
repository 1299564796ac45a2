# SPDX-License-Identifier: GPL-3.0-or-later
"""Rigify's basic human from rest to drawn poses, ours against Blender's own IK: scripts/bench-rig.

    scripts/bench-rig [--poses N] [--seed N] [--only WORD] [--json FILE] [--markdown FILE]

Poses are drawn at random inside the limits below; hips are moved and turned as well. Hands, feet and head of
such a pose, place and orientation, are the targets. Nothing else of it is known to a solver, which begins in
the rest pose. What it did is read from Blender's evaluated matrices, here and not by the add-on. Each pose is
inside the limits as the add-on takes them and as Blender's IK takes them, so both could reach all targets.

Blender's IK turns the root bone but never moves it, so that hardly any of these targets is in its reach. It
is therefore also given the hips where they belong, and so is ours, for comparison.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import degrees, radians
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy reads it
os.environ["OMP_NUM_THREADS"] = "1"

import bpy
import numpy as np
import numpy.typing as npt
from bpy.types import Object
from mathutils import Matrix

import blender_ik_addon
from benchmarks.tables import markdown_table, text_table
from blender_ik_addon.core.euler import order_index
from blender_ik_addon.core.rotation import euler_from_matrix, matrix_from_euler
from blender_ik_addon.scene import posing
from examples import scenario

FloatArray = npt.NDArray[np.float64]

POSES: Final = 200

LARGEST_DISTANCE, LARGEST_ANGLE = 1e-3, radians(0.1)
"""Up to which a target counts as reached [m], [rad]; the tolerance of the panel is set to the same."""

LIMIT_SLACK: Final = 1e-9
"""How far a channel of ours may be beyond its limit [rad]."""

MATRIX_SLACK: Final = 1e-3
"""The same where angles are had from matrices in single precision [rad]: those of Blender's IK."""

WANTED: Final = 0.99
"""Part of the poses to be reached [1]."""

HIPS: Final = "spine"
EFFECTORS: Final = ("foot.L", "foot.R", "hand.L", "hand.R", "spine.006")
CHAINS: Final = {"foot.L": 3, "foot.R": 3, "hand.L": 4, "hand.R": 4, "spine.006": 6}
"""Bones from each effector to the thigh, the shoulder and the first bone above the hips."""

ORDER: Final = "YZX"
"""Rotation mode of the limited bones: twist first, then sideways, then about x. The angle in the middle, that
about z, stays below 90°, so that no pose inside the limits is in gimbal lock."""


# ---------------------------------------------------------------- limits

Range = tuple[float, float]


@dataclass(frozen=True)
class Limits:
    """How far a bone turns about its own axes from its rest pose [°]; None where it is no joint."""

    bone: str
    x: Range | None
    y: Range | None
    z: Range | None
    what: str
    """Of the body, in its own words; all that the three ranges add up to."""

    @property
    def ranges(self) -> tuple[Range | None, Range | None, Range | None]:
        """About x, y and z."""
        return self.x, self.y, self.z

    def mirrored(self) -> Limits:
        """The same joint on the right, where turns about y and z go the other way."""

        def flipped(of: Range | None) -> Range | None:
            return None if of is None else (-of[1], -of[0])

        return Limits(self.bone.replace(".L", ".R"), self.x, flipped(self.y), flipped(self.z), self.what)


SOURCE: Final = """\
Rough anatomical ranges in round figures, our own estimate for healthy adults, counted from the metarig's
rest pose (arms 28° below the horizontal, elbows bent by 21°, knees by 10°). Where few bones stand for many
vertebrae they share the range. They are a plausible box and no model of a body: in people the range of one
angle depends on the others."""

_BACK = "bend forward 75°, back 30°, turn 39°, lean 36°, in three bones"
_NECK = "bend forward 48°, back 60°, turn 75°, lean 45°, in three bones"
_LEFT = (
    Limits(
        "shoulder.L", (-10, 30), (-20, 20), (-20, 25), "down 10°, up 30°, roll 20°, forward 20°, back 25°"
    ),
    Limits(
        "upper_arm.L",
        (-40, 110),
        (-80, 80),
        (-65, 80),
        "back 40°, forward 110°, twist 80°, to the side, raised",
    ),
    Limits(
        "forearm.L",
        (-18, 125),
        (-80, 80),
        None,
        "elbow almost straight to 146°, pronation and supination 80°",
    ),
    # The wrist hardly twists. But locked, a hand could not be both where two Euler angles put it, which twist
    # it a little, and where the pure swing does of which Blender's IK knows.
    Limits("hand.L", (-30, 20), (-15, 15), (-80, 70), "ulnar 30°, radial 20°, flexion 80°, extension 70°"),
    Limits(
        "thigh.L", (-120, 20), (-40, 40), (-45, 25), "flexion 120°, extension 20°, twist 40°, out 45°, in 25°"
    ),
    Limits("shin.L", (-8, 140), None, None, "knee almost straight to 150°"),
    Limits(
        "foot.L",
        (-20, 45),
        (-30, 15),
        (-10, 20),
        "up 20°, down 45°, sole in 30°, out 15°, toes in 20°, out 10°",
    ),
)
LIMITS: Final = (
    *(Limits(f"spine.00{i}", (-10, 25), (-13, 13), (-12, 12), _BACK) for i in (1, 2, 3)),
    *(Limits(f"spine.00{i}", (-20, 16), (-25, 25), (-15, 15), _NECK) for i in (4, 5, 6)),
    *_LEFT,
    *(limits.mirrored() for limits in _LEFT),
)
"""Every range contains 0, as Blender demands of its IK limits."""

HIPS_PLACES: Final[tuple[Range, Range, Range]] = ((-0.5, 0.5), (-0.5, 0.3), (-0.5, 0.5))
"""How far the hips move along their own axes: left, up, forward [m]."""
HIPS_TURNS: Final[tuple[Range, Range, Range]] = ((-60, 60), (-180, 180), (-30, 30))
"""How far they turn about them: to bend, to turn round, to lean [°]."""
HIPS_ORDER: Final = "XZY"
"""In which they are drawn: first the bend, last the turn."""

LOCKED: Final = 1e-6
"""What counts as no turn about a locked axis [rad]."""


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


# ---------------------------------------------------------------- poses


@dataclass(frozen=True)
class DrawnPose:
    """A pose inside the limits."""

    angles: FloatArray
    """Of each limited bone about x, y, z, (len(LIMITS), 3) [rad]."""
    hips_place: FloatArray
    """Location of the hips, (3,) [m]."""
    hips_turn: FloatArray
    """Rotation of the hips, (3, 3)."""


def draw(count: int, seed: int) -> list[DrawnPose]:
    """Draw poses, each joint for itself and evenly inside its limits.

    A joint is drawn again where Blender's IK would not let it be: it rounds the corners off.
    """
    random = np.random.default_rng(seed)
    poses: list[DrawnPose] = []
    for _ in range(count):
        angles = np.zeros((len(LIMITS), 3))
        for row, limits in enumerate(LIMITS):
            free = [axis for axis, of in enumerate(limits.ranges) if of is not None]
            low, high = np.radians([of for of in limits.ranges if of is not None]).T
            angles[row, free] = random.uniform(low, high)
            while beyond_for_blender(limits, matrix_from_euler(angles[row], order_index(ORDER))) > 0.0:
                angles[row, free] = random.uniform(low, high)
        place = random.uniform(*np.array(HIPS_PLACES).T)
        turn = np.radians(random.uniform(*np.array(HIPS_TURNS).T))
        poses.append(DrawnPose(angles, place, matrix_from_euler(turn, order_index(HIPS_ORDER))))
    return poses


def make_figure() -> Object:
    """Add Rigify's basic human to the scene: with limits, effectors, and a target for each."""
    bpy.ops.object.armature_basic_human_metarig_add()
    figure: Any = bpy.context.view_layer.objects.active
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


def put_at_rest(figure: Any) -> None:
    """Put the figure into its rest pose."""
    for bone in figure.pose.bones:
        bone.matrix_basis = Matrix()


def put_hips(figure: Any, pose: DrawnPose) -> None:
    """Put the hips where a drawn pose has them."""
    hips = figure.pose.bones[HIPS]
    hips.location = pose.hips_place.tolist()
    hips.rotation_quaternion = Matrix(pose.hips_turn.tolist()).to_quaternion()


def put(figure: Any, pose: DrawnPose) -> None:
    """Put the figure into a drawn pose."""
    put_at_rest(figure)
    put_hips(figure, pose)
    for limits, angles in zip(LIMITS, pose.angles, strict=True):
        figure.pose.bones[limits.bone].rotation_euler = angles.tolist()


def place(obj: Any, matrix: FloatArray) -> None:
    """Put an object in quaternion mode at a place and turn, (4, 4) [m]."""
    obj.location = matrix[:3, 3].tolist()
    obj.rotation_quaternion = Matrix(matrix[:3, :3].tolist()).to_quaternion()


def aim(figure: Any, targets: FloatArray) -> None:
    """Put the targets of the effectors where the bones should be, (E, 4, 4) [m]."""
    for effector, matrix in zip(figure.poise.effectors, targets, strict=True):
        place(effector.target, matrix)


def evaluated(figure: Object, names: Sequence[str]) -> FloatArray:
    """Read matrices of bones as Blender evaluates them, in armature space, here the world, (k, 4, 4) [m]."""
    depsgraph = bpy.context.evaluated_depsgraph_get()
    depsgraph.update()
    bones: Any = figure.evaluated_get(depsgraph).pose.bones
    return np.array([np.array(bones[name].matrix) for name in names])


def targets_of(figure: Object, poses: Sequence[DrawnPose]) -> FloatArray:
    """Read where the effectors are in drawn poses, (P, E, 4, 4) [m]."""
    targets = np.empty((len(poses), len(EFFECTORS), 4, 4))
    for row, pose in enumerate(poses):
        put(figure, pose)
        targets[row] = evaluated(figure, EFFECTORS)
    put_at_rest(figure)
    return targets


# ---------------------------------------------------------------- outcomes


@dataclass(frozen=True)
class Outcome:
    """What a solver made of one pose."""

    index: int
    distances: FloatArray
    """Of the effectors from their targets, (E,) [m]."""
    angles: FloatArray
    """To the orientations of their targets, (E,) [rad]."""
    beyond: float
    """Largest excess of a joint over its limits as the solver takes them [rad]."""
    channels_beyond: float
    """Largest excess of an Euler channel over its limit [rad]."""
    whole_time: float
    """From moved targets to an evaluated pose [s]."""
    solve_time: float | None = None
    """Of that the solver alone, where it can be told [s]."""
    iterations: int | None = None
    message: str = ""
    """What the solver says."""

    @property
    def reached(self) -> bool:
        """Whether every effector is as near to its target as is wanted."""
        return bool((self.distances <= LARGEST_DISTANCE).all() and (self.angles <= LARGEST_ANGLE).all())


def misses(matrices: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return distances [m] and angles [rad] between matrices, (E, 4, 4) -> (E,)."""
    away = np.linalg.norm((matrices - targets)[:, :3, 3], axis=-1)
    # From |a - b| = 2 √2 sin(angle/2), which is accurate for small angles, as the trace is not.
    apart = np.linalg.norm((matrices - targets)[:, :3, :3], axis=(-2, -1))
    return away, 2.0 * np.arcsin(np.clip(apart / np.sqrt(8.0), 0.0, 1.0))


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


# ---------------------------------------------------------------- ours


@contextmanager
def solver_watched() -> Iterator[list[tuple[float, int]]]:
    """Note the time [s] and the iterations of every solve behind the script door."""
    seen: list[tuple[float, int]] = []
    solve = posing.solve

    def watched(*arguments: Any, **options: Any) -> Any:
        began = time.process_time()
        solution = solve(*arguments, **options)
        seen.append((time.process_time() - began, solution.iterations))
        return solution

    with patch.object(posing, "solve", watched):
        yield seen


def solve_ours(figure: Any, index: int, targets: FloatArray, hips: DrawnPose | None = None) -> Outcome:
    """Solve one pose from rest through the script door, targets (E, 4, 4); the hips begin as in `hips`."""
    put_at_rest(figure)
    if hips is not None:
        put_hips(figure, hips)
    aim(figure, targets)
    with solver_watched() as seen:
        began = time.process_time()
        report = posing.solve_pose(figure)
        whole_time = time.process_time() - began
    ((solve_time, iterations),) = seen
    distances, angles = misses(evaluated(figure, EFFECTORS), targets)
    channels = np.array([figure.pose.bones[limits.bone].rotation_euler[:] for limits in LIMITS])
    return Outcome(
        index=index,
        distances=distances,
        angles=angles,
        beyond=beyond_limits(channels),
        channels_beyond=beyond_limits(channels),
        whole_time=whole_time,
        solve_time=solve_time,
        iterations=iterations,
        message=report.message,
    )


# ---------------------------------------------------------------- Blender's


@dataclass(frozen=True)
class Setting:
    """A way to set up Blender's own IK."""

    label: str
    solver: str = 'LEGACY'
    """'LEGACY' is what Blender calls Standard."""
    method: str = 'SDLS'
    """Of iTaSC."""
    tree: bool = True
    """Whether each chain goes to the root, so that they share the spine; otherwise see `CHAINS`."""
    hips_placed: bool = False
    """Whether the hips are where they belong beforehand."""
    part: float = 1.0
    """Of the poses that are tried [1]: few are enough to show that none is reached, and these are slow."""


SETTINGS: Final = (
    Setting("Blender, Standard, a chain for each limb", tree=False),
    Setting("Blender, Standard, whole tree", part=0.2),
    Setting("Blender, iTaSC, whole tree", solver='ITASC', part=0.2),
    Setting("Blender, Standard, a chain for each limb, hips placed", tree=False, hips_placed=True),
    Setting("Blender, Standard, whole tree, hips placed", hips_placed=True),
    Setting("Blender, iTaSC, whole tree, hips placed", solver='ITASC', hips_placed=True),
    Setting("Blender, iTaSC (DLS), whole tree, hips placed", solver='ITASC', method='DLS', hips_placed=True),
)

BLENDER_ITERATIONS: Final = 500
"""The default of the constraint; iTaSC is given as many."""
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
        itasc.mode, itasc.solver = 'ANIMATION', setting.method
        itasc.iterations, itasc.precision = BLENDER_ITERATIONS, ITASC_PRECISION
    tails: dict[str, Any] = {}
    constraints: list[tuple[Any, Any]] = []
    try:
        for name in EFFECTORS:
            empty: Any = bpy.data.objects.new(f"tail of {name}", None)
            empty.rotation_mode = 'QUATERNION'
            bpy.context.scene.collection.objects.link(empty)
            tails[name] = empty
            bone = figure.pose.bones[name]
            constraint = bone.constraints.new('IK')
            constraints.append((bone, constraint))
            constraint.target, constraint.iterations = empty, BLENDER_ITERATIONS
            constraint.use_tail = constraint.use_location = constraint.use_rotation = True
            constraint.use_stretch = False
            constraint.chain_count = 0 if setting.tree else CHAINS[name]
            constraint.weight = constraint.orient_weight = 1.0
        yield tails
    finally:
        for bone, constraint in constraints:
            bone.constraints.remove(constraint)
        for empty in tails.values():
            bpy.data.objects.remove(empty)
        figure.pose.ik_solver = 'LEGACY'


def aim_tails(figure: Any, tails: dict[str, Any], targets: FloatArray) -> None:
    """Put the targets of the constraints where the tails of the bones should be, (E, 4, 4) [m]."""
    for name, matrix in zip(EFFECTORS, targets, strict=True):
        tail = matrix.copy()
        tail[:3, 3] += figure.data.bones[name].length * matrix[:3, 1]
        place(tails[name], tail)


def solve_blenders(
    figure: Any,
    tails: dict[str, Any],
    index: int,
    targets: FloatArray,
    hips: DrawnPose | None,
) -> Outcome:
    """Let Blender's IK solve one pose from rest, targets (E, 4, 4); the hips of `hips` are given to it."""
    put_at_rest(figure)
    if hips is not None:
        put_hips(figure, hips)
    aim_tails(figure, tails, targets)
    began = time.process_time()
    bpy.context.evaluated_depsgraph_get().update()
    whole_time = time.process_time() - began
    distances, angles = misses(evaluated(figure, EFFECTORS), targets)
    turns = own_turns(figure)
    return Outcome(
        index=index,
        distances=distances,
        angles=angles,
        beyond=max(map(beyond_for_blender, LIMITS, turns)),
        channels_beyond=beyond_limits(euler_from_matrix(turns, order_index(ORDER))),
        whole_time=whole_time,
    )


# ---------------------------------------------------------------- report

OURS, OURS_PLACED = "Poise", "Poise, hips placed"


@dataclass(frozen=True)
class Row:
    """One solver over its poses."""

    label: str
    outcomes: tuple[Outcome, ...]
    slack: float = MATRIX_SLACK
    """Up to which an excess over a limit is no violation [rad]."""
    hips_placed: bool = False
    figures: dict[str, Any] = field(init=False)
    """Everything for the table, in the units of its names."""

    def __post_init__(self) -> None:
        outcomes = self.outcomes
        whole = [1e3 * outcome.whole_time for outcome in outcomes]
        alone = [1e3 * outcome.solve_time for outcome in outcomes if outcome.solve_time is not None]
        counts = [outcome.iterations for outcome in outcomes if outcome.iterations is not None]
        distances = np.array([outcome.distances.max() for outcome in outcomes])
        angles = np.array([outcome.angles.max() for outcome in outcomes])
        beyond = np.array([outcome.beyond for outcome in outcomes])
        channels = np.array([outcome.channels_beyond for outcome in outcomes])
        reached = np.array([outcome.reached for outcome in outcomes])
        figures: dict[str, Any] = {
            "poses": len(outcomes),
            "reached_percent": 100.0 * float(np.mean(reached)),
            "reached_inside_percent": 100.0 * float(np.mean(reached & (beyond <= self.slack))),
            "miss_median_mm": 1e3 * float(np.median(distances)),
            "miss_largest_mm": 1e3 * float(distances.max()),
            "miss_median_deg": degrees(float(np.median(angles))),
            "miss_largest_deg": degrees(float(angles.max())),
            "whole_median_ms": float(np.median(whole)),
            "whole_mean_ms": float(np.mean(whole)),
            "whole_largest_ms": float(np.max(whole)),
            "solve_median_ms": float(np.median(alone)) if alone else None,
            "iterations_median": float(np.median(counts)) if counts else None,
            "iterations_largest": max(counts) if counts else None,
            "poses_beyond_limits": int((beyond > self.slack).sum()),
            "beyond_limits_deg": degrees(max(float(beyond.max()), 0.0)),
            "poses_with_channels_beyond": int((channels > self.slack).sum()),
            "channels_beyond_deg": degrees(max(float(channels.max()), 0.0)),
            "hips_placed": self.hips_placed,
        }
        object.__setattr__(self, "figures", figures)


def rows(poses: int, seed: int, only: str = "") -> Iterator[Row]:
    """Measure one solver after the other, those whose label holds a word; an empty scene must be open."""
    figure = make_figure()
    drawn = draw(poses, seed)
    targets = targets_of(figure, drawn)
    for label, hips_placed in ((OURS, False), (OURS_PLACED, True)):
        if only in label:
            outcomes = [
                solve_ours(figure, i, targets[i], drawn[i] if hips_placed else None) for i in range(poses)
            ]
            yield Row(label, tuple(outcomes), slack=LIMIT_SLACK, hips_placed=hips_placed)
    for setting in SETTINGS:
        if only not in setting.label:
            continue
        count = max(1, round(poses * setting.part))
        with blender_ik(figure, setting) as tails:
            evaluated(
                figure, EFFECTORS
            )  # Blender sorts out what depends on what, once and not in the first pose
            outcomes = [
                solve_blenders(figure, tails, i, targets[i], drawn[i] if setting.hips_placed else None)
                for i in range(count)
            ]
        yield Row(setting.label, tuple(outcomes), hips_placed=setting.hips_placed)


HEADINGS: Final = (
    "solver",
    "poses",
    "reached",
    "of that inside limits",
    "worst miss of a pose, median",
    "largest",
    "ms a pose, median (mean)",
    "of that solver",
    "beyond limits",
    "channels beyond",
)


def cells(row: Row) -> tuple[str, ...]:
    """Return a row as text."""
    figures = row.figures
    alone, counts = figures["solve_median_ms"], figures["iterations_median"]
    return (
        row.label,
        str(figures["poses"]),
        f"{figures['reached_percent']:.1f} %",
        f"{figures['reached_inside_percent']:.1f} %",
        f"{figures['miss_median_mm']:.3g} mm, {figures['miss_median_deg']:.2g}°",
        f"{figures['miss_largest_mm']:.3g} mm, {figures['miss_largest_deg']:.2g}°",
        f"{figures['whole_median_ms']:.1f} ({figures['whole_mean_ms']:.1f})",
        "–" if alone is None else f"{alone:.1f} ({counts:.0f} iterations)",
        f"{figures['poses_beyond_limits']} (by {figures['beyond_limits_deg']:.2g}°)",
        f"{figures['poses_with_channels_beyond']} (by {figures['channels_beyond_deg']:.2g}°)",
    )


def verdicts(measured: Sequence[Row]) -> list[tuple[str, bool | None]]:
    """Return what is wanted of ours and whether it is so; None where it is no more than said."""
    of_label = {row.label: row.figures for row in measured}
    if OURS not in of_label:
        return []
    ours = of_label[OURS]
    reached, beyond = ours["reached_inside_percent"], ours["poses_beyond_limits"]
    found: list[tuple[str, bool | None]] = [
        (f"{reached:.1f} % of the poses reached, wanted {WANTED:.0%}", reached >= 100.0 * WANTED),
        (f"{beyond} poses beyond a limit by more than {LIMIT_SLACK:g} rad, wanted 0", beyond == 0),
    ]
    theirs = [row for row in measured if row.label not in {OURS, OURS_PLACED}]
    alike = [row for row in theirs if not row.figures["hips_placed"]]
    if alike:
        fastest = min(alike, key=lambda row: row.figures["whole_median_ms"])
        time_ours, time_theirs = ours["whole_median_ms"], fastest.figures["whole_median_ms"]
        found.append(
            (
                f"{time_ours:.1f} ms a pose, wanted less than {time_theirs:.1f}: the fastest setting of "
                f"Blender's IK for the same task ({fastest.label})",
                time_ours < time_theirs,
            )
        )
    helped = [row for row in theirs if row.figures["hips_placed"]]
    if helped and OURS_PLACED in of_label:
        best = max(helped, key=lambda row: row.figures["reached_inside_percent"])
        placed = of_label[OURS_PLACED]
        found.append(
            (
                f"hips placed: {placed['reached_inside_percent']:.1f} % in {placed['whole_median_ms']:.1f} "
                f"ms, Blender's IK at best {best.figures['reached_inside_percent']:.1f} % in "
                f"{best.figures['whole_median_ms']:.1f} ms ({best.label})",
                None,
            )
        )
    return found


VERDICTS: Final = {True: "yes", False: "NO", None: "for comparison"}


def failures(row: Row) -> list[str]:
    """Return a line for each pose of ours that is missed: its number, by how much, what the solver says."""
    return [
        f"{outcome.index}: {outcome.distances.max() * 1e3:.3g} mm, {degrees(outcome.angles.max()):.2g}°, "
        f"{outcome.iterations} iterations; {outcome.message}"
        for outcome in row.outcomes
        if not outcome.reached
    ]


INTRODUCTION: Final = """\
# Rigify's basic human, from rest

Made by `{command}`.

Poses are drawn evenly inside the limits below, hips moved up to half a metre and turned all the way round.
Targets are the places and orientations of hands, feet and head in such a pose; a solver starts from the rest
pose and knows nothing else. A pose is reached when all five are within {mm:g} mm and {deg:g}°, read from
Blender's evaluated matrices. Each pose is inside the limits as the add-on takes them (each Euler channel by
itself) and as Blender's IK takes them (a twist, and an ellipse of swings), so both could reach all of them.

*ms a pose* is the processor's time from moved targets to an evaluated pose: for Poise all of `solve_pose`,
with reading, writing and two updates of the scene, for Blender's IK the update of the scene in which it is
solved.

Blender's IK turns the root bone but never moves it: without help these targets are out of its reach. *Hips
placed* gives it the hips where they belong before it begins. Poise finds them by itself; the row with hips
placed is there for comparison. *Whole tree*: each constraint goes to the root, chain length 0, so that all
share the spine. *A chain for each limb*: from hand to shoulder, from foot to thigh, from head to the lowest
bone above the hips. All constraints have rotation on, stretch off and {iterations} iterations; iTaSC has a
precision of {precision:g}. Where no pose is reached only some are tried, for these are slow.

*Beyond limits* counts poses with a joint beyond its limits as that solver takes them, by more than
{ours:g} rad (Poise, whose channels are read) or {theirs:g} rad (Blender's IK, whose angles come from matrices
in single precision); the largest excess is in parentheses. *Channels beyond* is the same for the Euler
channels in which an animator would key: Blender's IK does not limit these.
"""


def _degrees(of: Range | None) -> str:
    return "–" if of is None else f"{of[0]:g} … {of[1]:g}"


def limits_table() -> list[tuple[str, ...]]:
    """Return the limits as cells: those in the middle and on the left."""
    shown = [limits for limits in LIMITS if not limits.bone.endswith(".R")]
    return [
        ("bone", "x [°]", "y [°]", "z [°]", "meant as"),
        *((limits.bone, *map(_degrees, limits.ranges), limits.what) for limits in shown),
    ]


def page(measured: Sequence[Row], surroundings: dict[str, Any], command: str) -> str:
    """Return the page for the documentation."""
    introduction = INTRODUCTION.format(
        command=command,
        mm=LARGEST_DISTANCE * 1e3,
        deg=degrees(LARGEST_ANGLE),
        iterations=BLENDER_ITERATIONS,
        precision=ITASC_PRECISION,
        ours=LIMIT_SLACK,
        theirs=MATRIX_SLACK,
    )
    parts = [introduction.rstrip(), markdown_table([HEADINGS, *map(cells, measured)])]
    parts.append("\n".join(f"- {VERDICTS[met]}: {what}" for what, met in verdicts(measured)))
    missed = [line for row in measured if row.label == OURS for line in failures(row)]
    if missed:
        parts += ["Missed by Poise, with their numbers:", "\n".join(f"- {line}" for line in missed)]
    parts += ["## Limits", SOURCE, markdown_table(limits_table())]
    parts.append(
        "On the right, y and z are mirrored. Where there is no range, the bone is locked (`lock_ik`). "
        f"Rotation mode {ORDER}; the hips keep Rigify's quaternions and have no limits."
    )
    parts.append("Run with: " + "; ".join(f"{key} {value}" for key, value in surroundings.items()) + ".")
    return "\n\n".join(parts) + "\n"


def as_json(measured: Sequence[Row], surroundings: dict[str, Any]) -> dict[str, Any]:
    """Return all figures, those of each pose too."""
    return {
        "surroundings": surroundings,
        "verdicts": [{"what": what, "met": met} for what, met in verdicts(measured)],
        "rows": [
            {
                "label": row.label,
                **row.figures,
                "by_pose": [
                    {
                        "index": outcome.index,
                        "reached": outcome.reached,
                        "mm": (outcome.distances * 1e3).tolist(),
                        "deg": np.degrees(outcome.angles).tolist(),
                        "ms": outcome.whole_time * 1e3,
                        "iterations": outcome.iterations,
                        "message": outcome.message,
                    }
                    for outcome in row.outcomes
                ],
            }
            for row in measured
        ],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; the exit code is 0 whatever it measures."""
    parser = argparse.ArgumentParser(prog="scripts/bench-rig", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--poses", type=int, default=POSES, help=f"how many are drawn (default {POSES})")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", default="", metavar="WORD", help="solvers whose name holds this, e.g. Poise"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables as a page")
    options = parser.parse_args(arguments)
    if options.poses < 1:
        parser.error("--poses must be at least 1")
    given = [f"--poses {options.poses}"] * (options.poses != POSES) + [f"--seed {options.seed}"] * (
        options.seed != 1
    )
    given += [f"--only {options.only!r}"] * bool(options.only)
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    blender_ik_addon.register()
    measured: list[Row] = []
    try:
        scenario.enable_rigify()
        for row in rows(options.poses, options.seed, options.only):
            measured.append(row)
            print(f"{row.label}: {row.figures['reached_percent']:.1f} % reached", file=sys.stderr, flush=True)
    finally:
        # A handler that is left behind would hang Blender 4.5 at exit.
        blender_ik_addon.unregister()
        scenario.disable_rigify()
    if not measured:
        parser.error(f"no solver has {options.only!r} in its name")
    surroundings = {
        "Blender": bpy.app.version_string,
        "poses": options.poses,
        "seed": options.seed,
        "numpy": np.__version__,
        "Python": platform.python_version(),
        "processor": platform.machine(),
    }
    print(text_table([HEADINGS, *map(cells, measured)]))
    for what, met in verdicts(measured):
        print(f"{VERDICTS[met]}: {what}")
    for row in measured:
        if row.label == OURS:
            print("\n".join(f"missed {line}" for line in failures(row)))
    if options.json is not None:
        text = json.dumps(as_json(measured, surroundings), indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    if options.markdown is not None:
        command = " ".join(["scripts/bench-rig", *given, f"--markdown {options.markdown}"])
        options.markdown.write_text(page(measured, surroundings, command), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: GPL-3.0-or-later
"""Every method on the demo's figure, compared, so that one knows which to choose: scripts/methods.

What is measured is told on the page, `pages/methods.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import bpy
import numpy as np
from bpy.types import Object

from benchmarks.motions import local_rotations
from benchmarks.page import arguments, publish, told
from benchmarks.rigs import FloatArray, add_on, empty_file
from blender_ik_addon.core import METHODS
from blender_ik_addon.core.model.rotation import rotvec_from_matrix
from examples import scenario, table_reach

PAGE: Final = Path("docs/measured/methods.md")  # From the root of the project
DEFAULT: Final = "PRIORITY"

REACHED: Final = 1e-3  # Largest distance at which an effector counts as at its target in the sentences [m]


class Level:
    """The effectors of a level of priority, with one method."""

    def __init__(self, outcome: Outcome, priority: int) -> None:
        of, measured = np.array(outcome.priorities) == priority, outcome.result.measured
        self.priority = priority
        self.title = f"level {priority}: {', '.join(np.array(measured.names)[of])}"
        self.place, self.turn = (
            float(np.nanmax(measured.distances[:, of])),
            float(measured.angles[:, of].max()),
        )
        """Largest distance [m] and angle [rad]."""
        self.cell = f"{told(self.place, 'mm short')} mm, {told(self.turn, 'deg short')}°"


class Outcome:
    """One method in one scene."""

    def __init__(
        self, method: str, priorities: Sequence[int], result: table_reach.Result, violation: float | None
    ) -> None:
        self.method, self.priorities, self.result = method, priorities, result
        self.violation = violation
        """How far an angle is beyond its limit at most [rad]; None where there are no limits."""
        measured = result.measured
        self.levels = [Level(self, priority) for priority in sorted(set(priorities))]
        """Those in use, 0 is the highest."""
        self.largest_distance = max(level.place for level in self.levels)
        """Of all effectors [m]."""
        self.titles = " | ".join(level.title for level in self.levels)
        self.cells = " | ".join(level.cell for level in self.levels)
        """The levels as headings of a table, and their errors as its cells."""
        self.seconds = result.solve_time / len(measured.frames)
        """Of the solve, for a frame."""
        self.reached = result.report.statuses.count("REACHED") / len(measured.frames)
        """Part of the frames in which the add-on says that all was reached."""
        self.shift = measured.foot_shift()
        """Of the standing feet [m]."""
        self.iterations = result.report.iterations
        differences = jerks(measured)
        frame, bone = np.unravel_index(differences.argmax(), differences.shape)
        self.jerk = float(differences[frame, bone])
        """Largest difference between two turns that follow each other [rad]."""
        self.jerk_at = f"{measured.bones[bone]}, {measured.frames[frame + 1]}"
        """Its bone and frame."""
        self.times = np.nan
        """Time of a frame, by that of the default [1]."""


def jerks(measured: table_reach.Measurement) -> FloatArray:
    """Size of the difference between turns that follow each other, (F − 2, n) [rad].

    The turn from a frame to the next is a rotation vector in the parent's space: unlike Euler angles it has
    no second way to say the same.
    """
    local = local_rotations(measured.parents, measured.world_from_bone)
    turns = rotvec_from_matrix(local[1:] @ np.swapaxes(local[:-1], -1, -2))  # (F − 1, n, 3)
    return np.linalg.norm(np.diff(turns, axis=0), axis=-1)


def violation(figure: Object, frames: Sequence[int]) -> float | None:
    """How far the angles of played-back frames are beyond the limits at most [rad]; None without limits."""
    limited = [
        (bone.name, axis, getattr(bone, f"ik_min_{name}"), getattr(bone, f"ik_max_{name}"))
        for bone in figure.pose.bones
        for axis, name in enumerate("xyz")
        if getattr(bone, f"use_ik_limit_{name}")
    ]
    if not limited:
        return None
    worst = 0.0
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        bones = figure.evaluated_get(bpy.context.evaluated_depsgraph_get()).pose.bones
        for name, axis, least, greatest in limited:
            angle = bones[name].rotation_euler[axis]
            worst = max(worst, least - angle, angle - greatest)
    bpy.context.scene.frame_set(frames[0])
    return worst


def compare(methods: Sequence[str], frames: Sequence[int], *, far: bool) -> list[Outcome]:
    """All methods in a new scene, baked and measured."""
    empty_file()
    scenario.enable_rigify()
    figure = scenario.make_scene(far=far)
    figure.poise.tolerance_position = table_reach.TOLERANCE_POSITION
    figure.poise.tolerance_rotation = table_reach.TOLERANCE_ROTATION
    priorities = [effector.priority for effector in figure.poise.effectors]
    outcomes: list[Outcome] = []
    for method in methods:
        result = table_reach.bake(figure, method, frames, table_reach.ProgressBar(method))
        outcomes.append(Outcome(method, priorities, result, violation(figure, frames)))
    return outcomes


def main() -> int:
    """Compare and write. Returns the exit code: 1 where the default misses what is in reach."""
    parser = arguments("scripts/methods", __doc__, PAGE)
    parser.add_argument(
        "--method", action="append", choices=tuple(METHODS), help="only this; may be repeated"
    )
    options = parser.parse_args()
    methods, frames = tuple(options.method or METHODS), range(1, scenario.FRAMES + 1)
    with add_on():
        near, far = (compare(methods, frames, far=far) for far in (False, True))
    for scene in (near, far):
        yardstick = next((one.seconds for one in scene if one.method == DEFAULT), np.nan)
        for one in scene:
            one.times = one.seconds / yardstick
    reaching = [one.method for one in near if one.largest_distance <= REACHED]
    publish(
        options,
        "methods",
        globals(),
        scenes=[
            SimpleNamespace(title="All in reach", outcomes=near),
            SimpleNamespace(title="The table out of reach, with limits", outcomes=far),
        ],
        ours_near=[one for one in near if one.method == DEFAULT],
        ours_far=[one for one in far if one.method == DEFAULT],
        others=[
            f"level {levels[0].priority} by {told([level.place for level in levels], 'mm span short')} mm"
            for levels in zip(*(one.levels for one in far if one.method != DEFAULT), strict=True)
        ],
        reaching=reaching or "none",
    )
    return 0 if all(one.method in reaching for one in near if one.method == DEFAULT) else 1

# SPDX-License-Identifier: GPL-3.0-or-later
"""Every method on the demo's figure, compared, so that one knows which to choose: scripts/methods.

    scripts/methods [--method NAME ...] [--markdown FILE]

Rigify's basic human follows the demo's six empties, once with the table in reach and once, inside limits,
out of reach. Each method bakes the same frames from the rest pose; then the keys are played back, and errors,
turns and angles are read from Blender's evaluated matrices and channels, not from the add-on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import degrees
from pathlib import Path
from typing import Final

import bpy
import numpy as np
from bpy.types import Object

from benchmarks.motions import local_rotations
from benchmarks.page import Column, Columns, arguments, publish, tabled
from benchmarks.rigs import FloatArray, add_on, empty_file
from blender_ik_addon.core import METHODS
from blender_ik_addon.core.model.rotation import rotvec_from_matrix
from examples import scenario, table_reach

PAGE: Final = Path("docs/measured/methods.md")  # From the root of the project
DEFAULT: Final = "PRIORITY"

REACHED: Final = 1e-3  # Largest distance at which an effector counts as at its target in the sentences [m]


@dataclass(frozen=True)
class Outcome:
    """One method in one scene."""

    method: str
    priorities: tuple[int, ...]  # Of the effectors, (E,), 0 is highest
    result: table_reach.Result
    violation: float | None
    """How far an angle is beyond its limit at most [rad]; None where there are no limits."""

    @property
    def names(self) -> tuple[str, ...]:
        """Effectors, (E,)."""
        return self.result.measured.names

    @property
    def levels(self) -> list[int]:
        """Those in use, 0 is the highest."""
        return sorted(set(self.priorities))

    @property
    def seconds(self) -> float:
        """Of the solve, for a frame."""
        return self.result.solve_time / len(self.result.measured.frames)

    @property
    def reached(self) -> float:
        """Part of the frames in which the add-on says that all was reached."""
        return self.result.report.statuses.count("REACHED") / len(self.result.measured.frames)

    @property
    def largest_distance(self) -> float:
        """Of all effectors [m]."""
        return float(np.nanmax(self.result.measured.distances))

    def of_level(self, priority: int) -> tuple[float, float]:
        """Largest distance [m] and angle [rad] of the effectors of a level."""
        of, measured = np.array(self.priorities) == priority, self.result.measured
        return float(np.nanmax(measured.distances[:, of])), float(measured.angles[:, of].max())

    @cached_property
    def jerk(self) -> tuple[float, str]:
        """Largest difference between two turns that follow each other [rad], with bone and frame."""
        measured, differences = self.result.measured, jerks(self.result.measured)
        frame, bone = np.unravel_index(differences.argmax(), differences.shape)
        return float(differences[frame, bone]), f"{measured.bones[bone]}, {measured.frames[frame + 1]}"


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
    priorities = tuple(effector.priority for effector in figure.poise.effectors)
    outcomes: list[Outcome] = []
    for method in methods:
        result = table_reach.bake(figure, method, frames, table_reach.ProgressBar(method))
        outcomes.append(Outcome(method, priorities, result, violation(figure, frames)))
    return outcomes


# The page


def short(value: float) -> str:
    """Three digits, and no more than three behind the point."""
    if 0.0 < value < 0.0005:
        return "< 0.001"
    return "–" if np.isnan(value) else f"{value:.3g}" if value >= 0.1 else f"{value:.3f}"


def method_table(outcomes: Sequence[Outcome]) -> str:
    """A line for each method."""
    yardstick = next((o.seconds for o in outcomes if o.method == DEFAULT), np.nan)

    def at(level: int) -> Column[Outcome]:
        owners = zip(outcomes[0].names, outcomes[0].priorities, strict=True)
        names = ", ".join(name for name, own in owners if own == level)

        def cell(o: Outcome) -> str:
            place, turn = o.of_level(level)
            return f"{short(1e3 * place)} mm, {short(degrees(turn))}°"

        return f"level {level}: {names}", cell

    def beyond(o: Outcome) -> str:
        return "–" if o.violation is None else f"{degrees(o.violation):.0e}" if o.violation else "0"

    columns: Columns[Outcome] = (
        ("method", lambda o: o.method),
        *(at(level) for level in outcomes[0].levels),
        ("frames reached", lambda o: f"{100.0 * o.reached:.0f} %"),
        ("standing feet move [mm]", lambda o: short(1e3 * o.result.measured.foot_shift())),
        ("largest second difference [°]", lambda o: short(degrees(o.jerk[0]))),
        ("of", lambda o: o.jerk[1]),
        ("beyond limits [°]", beyond),
        ("iterations", lambda o: f"{np.median(o.result.report.iterations):.0f}"),
        (f"time by {DEFAULT}'s", lambda o: short(o.seconds / yardstick)),
    )
    return tabled(columns, outcomes)


def summary(near: Sequence[Outcome], far: Sequence[Outcome]) -> list[str]:
    """The figures that matter."""
    found: list[str] = []
    for title, outcomes in (("in reach", near), ("out of reach, with limits", far)):
        others = [o for o in outcomes if o.method != DEFAULT]
        for ours in [o for o in outcomes if o.method == DEFAULT]:
            errors = ", ".join(short(1e3 * ours.of_level(level)[0]) for level in ours.levels)
            shift = short(1e3 * ours.result.measured.foot_shift())
            found.append(
                f"{DEFAULT} {title}: its levels miss by {errors} mm at most, standing feet move by {shift} "
                f"mm, largest second difference {short(degrees(ours.jerk[0]))}°."
            )
            if others and outcomes is far:
                misses = "; ".join(
                    f"level {level} by {short(1e3 * min(some))} to {short(1e3 * max(some))} mm"
                    for level in ours.levels
                    for some in ([o.of_level(level)[0] for o in others],)
                )
                found.append(f"The others miss there: {misses}.")
    reach = [o.method for o in near if o.largest_distance <= REACHED]
    found.append(f"In reach within {1e3 * REACHED:g} mm at every target: {', '.join(reach) or 'none'}.")
    return found


def main() -> int:
    """Compare and write. Returns the exit code: 1 where the default misses what is in reach."""
    parser = arguments("scripts/methods", __doc__, page=PAGE)
    parser.add_argument(
        "--method", action="append", choices=tuple(METHODS), help="only this; may be repeated"
    )
    options = parser.parse_args()
    methods, frames = tuple(options.method or METHODS), range(1, scenario.FRAMES + 1)
    with add_on():
        near, far = (compare(methods, frames, far=far) for far in (False, True))
    publish(
        options.markdown,
        "methods",
        "scripts/methods",
        summary(near, far),
        near=method_table(near),
        far=method_table(far),
    )
    return 0 if all(o.largest_distance <= REACHED for o in near if o.method == DEFAULT) else 1

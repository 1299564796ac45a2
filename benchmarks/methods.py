# SPDX-License-Identifier: GPL-3.0-or-later
"""Every method on the demo's figure, compared, so that one knows which to choose: scripts/methods.

    scripts/methods [--method NAME ...] [--markdown FILE]

Rigify's basic human follows the demo's six empties, once with the table in reach and once, inside limits,
out of reach. Each method bakes the same frames from the rest pose; then the keys are played back, and errors,
turns and angles are read from Blender's evaluated matrices and channels, not from the add-on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import degrees
from pathlib import Path
from typing import Final

import bpy
import numpy as np
from bpy.types import Object

from benchmarks.motions import local_rotations
from benchmarks.page import arguments, publish, table
from benchmarks.rigs import FloatArray, add_on, empty_file
from blender_ik_addon.core import METHODS
from blender_ik_addon.core.model.rotation import rotvec_from_matrix
from examples import scenario, table_reach

PAGE: Final = Path("docs/measured/methods.md")
"""From the root of the project."""

DEFAULT: Final = "PRIORITY"

REACHED: Final = 1e-3
"""Largest distance at which an effector counts as at its target in the sentences [m]."""

GOOD_FOR: Final[dict[str, str]] = {
    "PRIORITY": "Bakes, and wherever something must hold: what matters more never gives way, and the same "
    "targets give the same pose. At the border of the reach it turns faster than the others.",
    "DLS": "Steady small steps, in and out of reach; the targets share their error by weight.",
    "SDLS": "Dragging several targets in and out of reach by hand: calm, and quick to catch up.",
    "PSEUDO_INVERSE": "Small moves well inside the reach; beyond it no target is kept.",
    "TRANSPOSE": "A first guess, or comparison: it always goes downhill, and slowly.",
    "SPRINGS": "Cycles with the step rule of the paper: the joints come back when the targets do.",
    "EXTENDED_JACOBIAN": "Chains that start stretched, tails and ropes: neighbouring bones resist together.",
    "BOUNDED": "Damped steps in narrow limits: the limits are part of each step.",
    "NONLINEAR": "Single poses far from the start, with limits: a minimisation, without a step rule.",
}
"""What each method is good for, in one line."""


@dataclass(frozen=True)
class Outcome:
    """One method in one scene."""

    method: str
    priorities: tuple[int, ...]
    """Of the effectors, (E,), 0 is highest."""
    result: table_reach.Result
    violation: float | None
    """How far an angle is beyond its limit at most [rad]; None where there are no limits."""

    @property
    def names(self) -> tuple[str, ...]:
        """Effectors, (E,)."""
        return self.result.measured.names

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


def outcome(figure: Object, method: str, frames: Sequence[int]) -> Outcome:
    """Bake the figure with a method and measure."""
    result = table_reach.bake(figure, method, frames, table_reach.ProgressBar(method))
    priorities = tuple(effector.priority for effector in figure.poise.effectors)
    return Outcome(method, priorities, result, violation(figure, frames))


def compare(methods: Sequence[str], frames: Sequence[int], *, far: bool) -> list[Outcome]:
    """All methods in a new scene."""
    empty_file()
    scenario.enable_rigify()
    figure = scenario.make_scene(far=far)
    figure.poise.tolerance_position = table_reach.TOLERANCE_POSITION
    figure.poise.tolerance_rotation = table_reach.TOLERANCE_ROTATION
    return [outcome(figure, method, frames) for method in methods]


# ---------------------------------------------------------------- page


def _millimetres(metres: float) -> str:
    return "–" if np.isnan(metres) else _short(1e3 * metres)


def _degrees(angle: float) -> str:
    return _short(degrees(angle))


def _short(value: float) -> str:
    """Three digits, and no more than three behind the point."""
    if 0.0 < value < 0.0005:
        return "< 0.001"
    return f"{value:.3g}" if value >= 0.1 else f"{value:.3f}"


def summary_table(outcomes: Sequence[Outcome]) -> str:
    """A line for each method."""
    yardstick = next((o.seconds for o in outcomes if o.method == DEFAULT), None)
    levels = sorted(set(outcomes[0].priorities))
    named = [
        ", ".join(n for n, own in zip(outcomes[0].names, outcomes[0].priorities, strict=True) if own == level)
        for level in levels
    ]
    rows: list[tuple[str, ...]] = [
        (
            *("method", *(f"level {level}: {names}" for level, names in zip(levels, named, strict=True))),
            *("frames reached", "standing feet move [mm]", "largest second difference [°]", "of"),
            *("beyond limits [°]", "iterations", f"time by {DEFAULT}'s"),
        )
    ]
    for o in outcomes:
        errors = [o.of_level(level) for level in levels]
        rows.append(
            (
                *(o.method, *(f"{_millimetres(place)} mm, {_degrees(turn)}°" for place, turn in errors)),
                *(f"{100.0 * o.reached:.0f} %", _millimetres(o.result.measured.foot_shift())),
                *(_degrees(o.jerk[0]), o.jerk[1]),
                "–" if o.violation is None else f"{degrees(o.violation):.0e}" if o.violation else "0",
                f"{np.median(o.result.report.iterations):.0f}",
                "–" if yardstick is None else f"{o.seconds / yardstick:.2f}",
            )
        )
    return table(rows)


def both(measured: table_reach.Measurement) -> Iterator[tuple[float, ...]]:
    """Median and largest distance [m], median and largest angle [rad] of each effector."""
    for distances, angles in zip(measured.distances.T, measured.angles.T, strict=True):
        yield tuple(float(of(values)) for values in (distances, angles) for of in (np.median, np.max))


def effector_table(outcomes: Sequence[Outcome]) -> str:
    """Median and largest error of each effector with each method."""
    names = outcomes[0].names
    rows: list[tuple[str, ...]] = [("method", *names)]
    for o in outcomes:
        cells = [
            f"{_millimetres(median)} / {_millimetres(largest)} mm, "
            f"{_degrees(median_angle)} / {_degrees(largest_angle)}°"
            if not np.isnan(median)
            else f"{_degrees(median_angle)} / {_degrees(largest_angle)}°"
            for median, largest, median_angle, largest_angle in both(o.result.measured)
        ]
        rows.append((o.method, *cells))
    return table(rows)


def why_default(near: Sequence[Outcome], far: Sequence[Outcome]) -> str:
    """Why the default is the default, from the numbers."""
    chosen_near = next((o for o in near if o.method == DEFAULT), None)
    chosen_far = next((o for o in far if o.method == DEFAULT), None)
    others = [o for o in far if o.method != DEFAULT]
    if chosen_near is None or chosen_far is None or not others:
        return f"{DEFAULT} and another method must be run to compare them."
    reach = [o.method for o in near if o.largest_distance <= REACHED]
    parts = [
        f"In reach {DEFAULT} is at every target within {_millimetres(chosen_near.largest_distance)} mm; "
        f"within {1e3 * REACHED:g} mm are {', '.join(reach) or 'none'}.",
        "Out of reach it is the levels that tell, the highest first:",
    ]
    sentences: list[str] = []
    for level in sorted(set(chosen_far.priorities)):
        names = ", ".join(
            name for name, own in zip(chosen_far.names, chosen_far.priorities, strict=True) if own == level
        )
        own, theirs = chosen_far.of_level(level)[0], [o.of_level(level)[0] for o in others]
        sentences.append(
            f"{names} miss by {_millimetres(own)} mm, with the others by {_millimetres(min(theirs))} to "
            f"{_millimetres(max(theirs))} mm"
        )
    jerky = [o.jerk[0] for o in others]
    parts.append("; ".join(sentences) + ".")
    parts.append(
        f"There its largest second difference is {degrees(chosen_far.jerk[0]):.0f}°, that of the others "
        f"{degrees(min(jerky)):.0f}° to {degrees(max(jerky)):.0f}°, and their time "
        f"{min(o.seconds for o in others) / chosen_far.seconds:.2f} to "
        f"{max(o.seconds for o in others) / chosen_far.seconds:.2f} of its own."
    )
    return " ".join(parts)


def summary(near: Sequence[Outcome], far: Sequence[Outcome]) -> list[str]:
    """The figures that matter."""
    found: list[str] = []
    for title, outcomes in (("in reach", near), ("out of reach, with limits", far)):
        ours = next((o for o in outcomes if o.method == DEFAULT), None)
        if ours is not None:
            errors = [ours.of_level(level)[0] for level in sorted(set(ours.priorities))]
            shift = _millimetres(ours.result.measured.foot_shift())
            found.append(
                f"{DEFAULT} {title}: its levels miss by {', '.join(map(_millimetres, errors))} mm at most, "
                f"standing feet move by {shift} mm, largest second difference {_degrees(ours.jerk[0])}°."
            )
    reach = [o.method for o in near if o.largest_distance <= REACHED]
    found.append(f"In reach {len(reach)} of {len(near)} methods are within {1e3 * REACHED:g} mm.")
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
        good=table([("method", "good for"), *((method, GOOD_FOR[method]) for method in methods)]),
        why=why_default(near, far),
        near=f"{summary_table(near)}\n\n{effector_table(near)}",
        far=f"{summary_table(far)}\n\n{effector_table(far)}",
    )
    return 0 if all(o.largest_distance <= REACHED for o in near if o.method == DEFAULT) else 1


if __name__ == "__main__":
    sys.exit(main())

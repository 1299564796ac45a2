# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the steps of a drag take, and how smooth they are: scripts/bench-drag.

    scripts/bench-drag [--steps N] [--markdown FILE]

What is dragged and where to is told on the page, `pages/dragging.md`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import bpy
import numpy as np

from benchmarks.page import Columns, arguments, progress, publish, tabled
from benchmarks.rigs import FloatArray, add_on, basic_human, empty_file, largest_turn, local_rotations
from blender_ik_addon.scene.character.setup import setup_character
from blender_ik_addon.scene.live.dragging import Drag

PAGE: Final = Path("docs/measured/dragging.md")

STEPS: Final = 40  # Of each way
FRAME: Final = 1000.0 / 60.0  # Time between two pictures at sixty a second [ms]

WAYS: Final[dict[str, tuple[str, tuple[tuple[float, float, float], ...]]]] = {
    "hand.L": ("hand", ((-0.15, -0.25, 0.15), (0.1, -0.5, 0.15), (0.8, -2.0, -0.3))),
    "spine": ("hips", ((0.04, -0.05, -0.1), (0.1, -0.1, -0.35), (0.3, -1.5, 0.4))),
    "spine.006": ("head", ((0.05, -0.08, -0.03), (0.0, -0.4, -0.2), (0.5, -1.5, 0.8))),
    "forearm.L": ("elbow", ((-0.05, -0.12, 0.08), (0.0, -0.3, 0.2), (0.8, -1.5, 0.5))),
    "foot.L": ("foot", ((0.05, -0.15, 0.15), (0.1, -0.5, 0.35), (0.5, -2.0, 0.8))),
    "f_index.03.L": ("finger", ((-0.03, -0.05, 0.03), (0.1, -0.5, 0.15), (0.8, -2.0, -0.3))),
}
"""Bones, what they are called, and how far they are dragged: in reach, at the border, far [m]."""
PLACES: Final = ("in reach", "border", "far")
SLIP: Final = 5e-4  # Most by which a foot that holds may be off at rest [m]


@dataclass(frozen=True)
class Outcome:
    """One way there and back."""

    bone: str
    place: str
    limits: bool
    bones: int  # Of the rig
    times: list[float]  # Of each step [ms]
    iterations: list[int]
    turn: float  # Largest turn of a bone in its parent in one step [°]
    apart: float  # Largest turn between poses for the same place on the way there and on the way back [°]
    home: float  # The same where it began
    slip: float  # Largest miss of a foot that holds, also on the way to rest [m]
    slip_at_rest: float  # The same where the pose has settled [m]


COLUMNS: Final[Columns[Outcome]] = (
    ("bone", lambda o: WAYS[o.bone][0]),
    ("place", lambda o: o.place),
    ("limits", lambda o: "yes" if o.limits else "no"),
    ("step, median [ms]", lambda o: f"{np.median(o.times):.1f}"),
    ("worst [ms]", lambda o: f"{max(o.times):.1f}"),
    ("iterations, median", lambda o: f"{np.median(o.iterations):g}"),
    ("most", lambda o: str(max(o.iterations))),
    ("largest turn in a step [°]", lambda o: f"{o.turn:.2f}"),
    ("there against back [°]", lambda o: f"{o.apart:.2f}"),
    ("home again [°]", lambda o: f"{o.home:.2f}"),
    ("feet slip, on the way [mm]", lambda o: f"{1e3 * o.slip:.3f}"),
    ("at rest", lambda o: f"{1e3 * o.slip_at_rest:.3f}"),
)


def make_figure(bone: str, *, limits: bool) -> Any:
    """A metarig that has the bone, set up as a character, in pose mode."""
    figure = basic_human()
    if bone not in figure.data.bones:
        empty_file()
        bpy.ops.object.armature_human_metarig_add()
        figure = bpy.context.view_layer.objects.active
    setup_character(figure, limits=limits)
    bpy.context.view_layer.update()
    bpy.ops.object.mode_set(mode='POSE')
    return figure


def measure(bone: str, place: int, *, limits: bool, steps: int) -> Outcome:
    """Drag a bone there and back."""
    figure = make_figure(bone, limits=limits)
    drag = Drag(figure, bone)
    start, offset = drag.place, np.array(WAYS[bone][1][place])
    out = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, steps + 1))
    times: list[float] = []
    iterations: list[int] = []
    poses: list[FloatArray] = [rotations_of(figure)]
    slip = slip_at_rest = 0.0
    for share in (*out[1:], *out[-2::-1]):
        began = time.process_time()
        report = drag.move(start + share * offset, smoothly=True)
        times.append(1e3 * (time.process_time() - began))
        iterations.append(report.iterations)
        poses.append(rotations_of(figure))
        feet = [
            error.position or 0.0 for error in report.held if error.firm and error.name.startswith("foot")
        ]
        slip = max([slip, *feet])
        if report.settled:
            slip_at_rest = max([slip_at_rest, *feet])
    rotations = np.array(poses)  # (2 steps + 1, n, 3, 3)
    return Outcome(
        bone=bone,
        place=PLACES[place],
        limits=limits,
        bones=len(figure.pose.bones),
        times=times,
        iterations=iterations,
        turn=largest_turn(rotations[:-1], rotations[1:]),
        apart=largest_turn(rotations[1:steps], rotations[-2:steps:-1]),
        home=largest_turn(rotations[0], rotations[-1]),
        slip=slip,
        slip_at_rest=slip_at_rest,
    )


def rotations_of(figure: Any) -> FloatArray:
    """Rotations of all bones in their parents after Blender's own update, (n, 3, 3)."""
    bpy.context.view_layer.update()
    return local_rotations(figure)


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """The figures that matter."""
    quick = sum(max(o.times) <= FRAME for o in outcomes)
    near = [o for o in outcomes if o.place != PLACES[-1]]
    return [
        f"A step takes {max(np.median(o.times) for o in outcomes):.1f} ms in the median of the slowest drag, "
        f"{max(max(o.times) for o in outcomes):.1f} ms at most.",
        f"In {quick} of {len(outcomes)} drags every step fits between two pictures at sixty a second.",
        f"A bone turns by {max(o.turn for o in near):.1f}° at most in a step up to the border of the reach, "
        f"by {max(o.turn for o in outcomes):.1f}° far outside.",
        f"Up to the border, poses for the same place differ by {max(o.apart for o in near):.2f}° at most "
        "between the way there and the way back.",
        f"Feet that hold slip by {1e3 * max(o.slip for o in outcomes):.3f} mm at most, at rest by "
        f"{1e3 * max(o.slip_at_rest for o in outcomes):.3f} mm.",
    ]


def main() -> int:
    """Measure and write. Returns the exit code: 1 where a foot that holds is off at rest."""
    parser = arguments("scripts/bench-drag", __doc__, page=PAGE)
    parser.add_argument(
        "--steps", type=int, default=STEPS, metavar="N", help=f"of each way (default {STEPS})"
    )
    options = parser.parse_args()
    outcomes: list[Outcome] = []
    with add_on():
        for limits in (True, False):
            for bone in WAYS:
                for place in range(len(PLACES)):
                    outcomes.append(measure(bone, place, limits=limits, steps=options.steps))
                    progress(bone, PLACES[place], f"{np.median(outcomes[-1].times):.1f} ms")
    publish(
        options.markdown,
        "dragging",
        "scripts/bench-drag",
        summary(outcomes),
        rigs=" and ".join(str(count) for count in sorted({o.bones for o in outcomes})),
        steps=str(options.steps),
        table=tabled(COLUMNS, outcomes),
    )
    return 1 if max(o.slip_at_rest for o in outcomes) > SLIP else 0

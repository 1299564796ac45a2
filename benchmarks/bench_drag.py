# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the steps of a drag take, and how smooth they are: scripts/bench-drag.

What is dragged and where to is told on the page, `pages/dragging.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final

import bpy
import numpy as np

from benchmarks.page import arguments, measured, publish, stored
from benchmarks.rigs import FloatArray, add_on, basic_human, empty_file, largest_turn, local_rotations
from benchmarks.timing import timed
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.character.setup import setup_character
from blender_ik_addon.scene.live.dragging import Drag

PAGE: Final = Path("docs/measured/dragging.md")

STEPS: Final = 40  # Of each way
FRAME: Final = 1.0 / 60.0  # Time between two pictures at sixty a second [s]

WAYS: Final[dict[str, tuple[str, list[list[float]]]]] = stored("bench_drag")
"""Bones, what they are called, and how far they are dragged: in reach, at the border, far [m]."""
PLACES: Final = ("in reach", "border", "far")
SLIP: Final = 5e-4  # Most by which a foot that holds may be off at rest [m]


@dataclass
class Outcome:
    """One way there and back."""

    bone: str
    place: str
    limits: bool
    bones: int  # Of the rig
    times: list[float] = field(default_factory=list[float])
    """Of each step [s]."""
    iterations: list[int] = field(default_factory=list[int])
    turn = apart = home = 0.0
    """Largest turn of a bone in its parent in one step [°]; between poses for the same place on the way there
    and on the way back; and between those where it began."""
    let_go = moved = 0.0
    """By how much bones turn in their parents [°] and move [m] when the bone is let go there with Live on."""
    slip = slip_at_rest = 0.0
    """Largest miss of a foot that holds, also on the way to rest, and where the pose has settled [m]."""


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


def let_go(bone: str, place: int, *, limits: bool, steps: int) -> tuple[float, float]:
    """How far bones turn [°] and move [m] when a bone that was dragged there is let go, with Live on."""
    figure = make_figure(bone, limits=limits)
    figure.poise.live = True
    posing.follow(figure)
    bpy.context.view_layer.update()
    drag = Drag(figure, bone)
    start, offset = drag.place, np.array(WAYS[bone][1][place])
    for share in np.linspace(0.0, 1.0, steps + 1)[1:]:
        drag.move(start + share * offset, smoothly=True)
        bpy.context.view_layer.update()
    drag.settle()
    rotations, places = list[FloatArray](), list[FloatArray]()
    for end in (bpy.context.view_layer.update, drag.confirm):
        end()
        bpy.context.view_layer.update()
        rotations.append(local_rotations(figure))
        places.append(np.array([bone.matrix.translation for bone in figure.pose.bones]))
    return largest_turn(*rotations), float(np.linalg.norm(places[1] - places[0], axis=1).max())


def measure(bone: str, place: int, *, limits: bool, steps: int) -> Outcome:
    """Drag a bone there and back."""
    figure = make_figure(bone, limits=limits)
    drag = Drag(figure, bone)
    found = Outcome(WAYS[bone][0], PLACES[place], limits, len(figure.pose.bones))
    start, offset = drag.place, np.array(WAYS[bone][1][place])
    out = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, steps + 1))
    poses: list[FloatArray] = [local_rotations(figure)]
    for share in (*out[1:], *out[-2::-1]):
        report, seconds = timed(drag.move, start + share * offset, smoothly=True)
        found.times.append(seconds)
        found.iterations.append(report.iterations)
        bpy.context.view_layer.update()
        poses.append(local_rotations(figure))
        feet = [e.position or 0.0 for e in report.held if e.firm and e.name.startswith("foot")]
        found.slip = max([found.slip, *feet])
        if report.settled:
            found.slip_at_rest = max([found.slip_at_rest, *feet])
    rotations = np.array(poses)  # (2 steps + 1, n, 3, 3)
    found.turn = largest_turn(rotations[:-1], rotations[1:])
    found.apart = largest_turn(rotations[1:steps], rotations[-2:steps:-1])
    found.home = largest_turn(rotations[0], rotations[-1])
    found.let_go, found.moved = let_go(bone, place, limits=limits, steps=steps)
    return found


def main() -> int:
    """Measure and write. Returns the exit code: 1 where a foot that holds is off at rest."""
    options = arguments("scripts/bench-drag", __doc__, PAGE, steps=(STEPS, "of each way")).parse_args()
    with add_on():
        outcomes = measured(
            (
                measure(bone, place, limits=limits, steps=options.steps)
                for limits, bone, place in product((True, False), WAYS, range(len(PLACES)))
            ),
            "{row.bone} {row.place}: {row.times:ms median .1f} ms",
        )
    publish(
        options,
        "dragging",
        globals(),
        outcomes=outcomes,
        rigs=sorted({o.bones for o in outcomes}),
        slowest=max(np.median(o.times) for o in outcomes),
        quick=sum(max(o.times) <= FRAME for o in outcomes),
        near=[o for o in outcomes if o.place != PLACES[-1]],
    )
    return 1 if max(o.slip_at_rest for o in outcomes) > SLIP else 0

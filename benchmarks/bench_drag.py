# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the steps of a drag take, and how smooth they are: scripts/bench-drag.

    scripts/bench-drag [--markdown FILE] [--json FILE] [--steps N] [--bone NAME ...]

Rigify's humans, set up as characters, with their limits and without: each bone is dragged along a straight
way and back, in even swings, to a place in reach, to one at the border of it and to one far outside. A step
is all that Poise does for a movement of the mouse, in processor time, without Blender's own update and
drawing; what does not fit into it follows in the next one. The table is written into the page between its
two marks.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import degrees
from pathlib import Path
from typing import Final

import bpy
import numpy as np
import numpy.typing as npt
from bpy.types import Object

import blender_ik_addon
from benchmarks.tables import markdown_table
from blender_ik_addon.core.rotation import rotvec_from_matrix
from blender_ik_addon.scene.dragging import Drag
from blender_ik_addon.scene.setup import setup_character
from examples import scenario

FloatArray = npt.NDArray[np.float64]

PAGE: Final = Path("docs/dragging.md")
"""From the root of the project."""
MARKS: Final = ("<!-- scripts/bench-drag writes from here -->", "<!-- to here -->")

FRAME: Final = 1000.0 / 60.0
"""Time between two pictures at sixty a second [ms]."""

WAYS: Final[dict[str, tuple[str, tuple[tuple[float, float, float], ...]]]] = {
    "hand.L": ("hand", ((-0.15, -0.25, 0.15), (0.1, -0.5, 0.15), (0.8, -2.0, -0.3))),
    "spine": ("hips", ((0.04, -0.05, -0.1), (0.1, -0.1, -0.35), (0.3, -1.5, 0.4))),
    "spine.006": ("head", ((0.05, -0.08, -0.03), (0.0, -0.4, -0.2), (0.5, -1.5, 0.8))),
    "forearm.L": ("elbow", ((-0.05, -0.12, 0.08), (0.0, -0.3, 0.2), (0.8, -1.5, 0.5))),
    "foot.L": ("foot", ((0.05, -0.15, 0.15), (0.1, -0.5, 0.35), (0.5, -2.0, 0.8))),
    "f_index.03.L": ("finger", ((-0.03, -0.05, 0.03), (0.1, -0.5, 0.15), (0.8, -2.0, -0.3))),
}
"""Bones, what they are called, and how far they are dragged: in reach, at the border, far [m]."""
SLIP: Final = 5e-4
"""Most by which a foot that holds may be off at rest [m]."""
PLACES: Final = ("in reach", "border", "far")


@dataclass(frozen=True)
class Outcome:
    """One way there and back."""

    bone: str
    place: str
    limits: bool
    bones: int
    """Of the rig."""
    median: float
    """Time of a step [ms]."""
    worst: float
    """[ms]"""
    median_iterations: float
    most_iterations: int
    turn: float
    """Largest turn of a bone in its parent in one step [rad]."""
    apart: float
    """Largest turn between poses for the same place on the way there and on the way back [rad]."""
    home: float
    """The same where it began."""
    slip: float
    """Largest miss of a foot that holds, also on the way to rest [m]."""
    slip_at_rest: float
    """The same where the pose has settled [m]."""


def make_figure(bone: str, *, limits: bool) -> Object:
    """A metarig that has the bone, set up as a character, in pose mode."""
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    scenario.enable_rigify()
    bpy.ops.object.armature_basic_human_metarig_add()
    if bone not in bpy.context.view_layer.objects.active.data.bones:
        bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
        bpy.ops.object.armature_human_metarig_add()
    figure = bpy.context.view_layer.objects.active
    setup_character(figure, limits=limits)
    bpy.context.view_layer.update()
    bpy.ops.object.mode_set(mode='POSE')
    return figure


def local_rotations(figure: Object) -> FloatArray:
    """Rotations of all bones in their parents, as Blender has them, (n, 3, 3)."""
    bpy.context.view_layer.update()
    bones = figure.evaluated_get(bpy.context.evaluated_depsgraph_get()).pose.bones
    world = {bone.name: np.array(bone.matrix.to_3x3().normalized()) for bone in bones}
    return np.array(
        [world[b.name] if b.parent is None else world[b.parent.name].T @ world[b.name] for b in bones]
    )


def turns(first: FloatArray, second: FloatArray) -> float:
    """Largest angle between rotations (..., 3, 3) [rad]."""
    return float(np.linalg.norm(rotvec_from_matrix(second @ np.swapaxes(first, -1, -2)), axis=-1).max())


def measure(bone: str, place: int, *, limits: bool, steps: int) -> Outcome:
    """Drag a bone there and back."""
    figure = make_figure(bone, limits=limits)
    drag = Drag(figure, bone)
    start, offset = drag.place, np.array(WAYS[bone][1][place])
    out = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, steps + 1))
    times: list[float] = []
    iterations: list[int] = []
    poses = [local_rotations(figure)]
    slip = slip_at_rest = 0.0
    for share in (*out[1:], *out[-2::-1]):
        began = time.process_time()
        report = drag.move(start + share * offset, smoothly=True)
        times.append(1e3 * (time.process_time() - began))
        iterations.append(report.iterations)
        poses.append(local_rotations(figure))
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
        median=float(np.median(times)),
        worst=max(times),
        median_iterations=float(np.median(iterations)),
        most_iterations=max(iterations),
        turn=turns(rotations[:-1], rotations[1:]),
        apart=turns(rotations[1:steps], rotations[-2:steps:-1]),
        home=turns(rotations[0], rotations[-1]),
        slip=slip,
        slip_at_rest=slip_at_rest,
    )


def table(outcomes: Sequence[Outcome]) -> str:
    """A line for each way."""
    heads = ("bone", "place", "limits", "step, median [ms]", "worst [ms]", "iterations, median", "most")
    heads += (
        "largest turn in a step [°]",
        "there against back [°]",
        "home again [°]",
        "feet slip, on the way [mm]",
        "at rest",
    )
    rows = [
        (
            WAYS[o.bone][0],
            o.place,
            "yes" if o.limits else "no",
            *(f"{o.median:.1f}", f"{o.worst:.1f}", f"{o.median_iterations:g}", str(o.most_iterations)),
            *(f"{degrees(angle):.2f}" for angle in (o.turn, o.apart, o.home)),
            *(f"{1e3 * slip:.3f}" for slip in (o.slip, o.slip_at_rest)),
        )
        for o in outcomes
    ]
    return markdown_table([heads, *rows])


def summary(outcomes: Sequence[Outcome], steps: int, command: str) -> str:
    """The table with what it says in words."""
    quick = sum(o.worst <= FRAME for o in outcomes)
    medians = max(o.median for o in outcomes)
    near = [o for o in outcomes if o.place != PLACES[-1]]
    apart = max((o.apart for o in near), default=0.0)
    rigs = " and ".join(str(count) for count in sorted({o.bones for o in outcomes}))
    return (
        f"Made by `{command}` with Blender {bpy.app.version_string}: Rigify's humans of {rigs} bones, set up "
        f"as characters; {steps} steps there and {steps} back. The largest median of processor time is "
        f"{medians:.1f} ms; in {quick} of {len(outcomes)} drags every step fits between two pictures at "
        f"sixty a second. Up to the border, poses for the same place differ by {degrees(apart):.2f}° at most "
        "between the way there and the way back. *Turn* is that of a bone in its parent.\n\n"
        + table(outcomes)
    )


def written_into(page: str, text: str) -> str:
    """A page with a text between the marks.

    Raises:
        ValueError: The page has not both marks.
    """
    first, last = MARKS
    before, begins, rest = page.partition(first)
    _, ends, after = rest.partition(last)
    if not (begins and ends):
        raise ValueError(f"the page has not both marks, {first!r} and {last!r}")
    return f"{before}{first}\n\n{text}\n\n{last}{after}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write. Returns the exit code: 1 where a foot that holds is off at rest."""
    parser = argparse.ArgumentParser(prog="scripts/bench-drag", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--markdown", type=Path, metavar="FILE", help=f"the page to write into ({PAGE})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--steps", type=int, default=40, metavar="N", help="of each way (default: 40)")
    parser.add_argument("--bone", action="append", choices=tuple(WAYS), help="only this; may be repeated")
    options = parser.parse_args(arguments)
    if options.steps < 3:
        parser.error("--steps wants at least 3")
    blender_ik_addon.register()
    try:
        outcomes = [
            measure(bone, place, limits=limits, steps=options.steps)
            for limits in (True, False)
            for bone in options.bone or WAYS
            for place in range(len(PLACES))
        ]
    finally:
        # A handler that is left behind would hang Blender 4.5 at exit.
        blender_ik_addon.unregister()
        scenario.disable_rigify()
    command = "scripts/bench-drag" + "".join(f" --bone {bone}" for bone in options.bone or ())
    command += f" --steps {options.steps}" if options.steps != 40 else ""
    text = summary(outcomes, options.steps, command)
    print(text)
    if options.markdown is not None:
        page: Path = options.markdown
        page.write_text(written_into(page.read_text(encoding="utf-8"), text), encoding="utf-8")
    if options.json is not None:
        content = {"blender": bpy.app.version_string, "drags": [asdict(o) for o in outcomes]}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 1 if max(o.slip_at_rest for o in outcomes) > SLIP else 0


if __name__ == "__main__":
    sys.exit(main())

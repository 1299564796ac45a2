# SPDX-License-Identifier: GPL-3.0-or-later
"""The main job, end to end: a character steps up to a table and reaches for a cup; baked, measured, drawn.

Rigify's basic human follows six empties over 250 frames. It is solved and baked with PRIORITY and with DLS;
how well each does is then read back from Blender's evaluated matrices, here and not by the add-on. Run it
with scripts/demo, which has Blender as a Python module; --help lists the arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import degrees, radians
from pathlib import Path
from typing import Any

# The matrices are small: threads cost far more than they bring, above all where others use the processor too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import bpy
import numpy as np
import numpy.typing as npt
from bpy.types import Object
from mathutils import Matrix

import blender_ik_addon
from blender_ik_addon.scene import posing
from examples import scenario

FloatArray = npt.NDArray[np.float64]

METHODS = ("PRIORITY", "DLS")

TOLERANCE_POSITION, TOLERANCE_ROTATION = 1e-4, radians(0.01)
"""To which is solved [m], [rad]."""
LARGEST_DISTANCE, LARGEST_ANGLE = 1e-3, radians(0.1)
"""What PRIORITY must keep to where all is in reach [m], [rad]."""
LARGEST_FOOT_SHIFT = 1e-4
"""How far a hand whose target is out of reach may pull the feet [m]."""
OUT_OF_REACH = 0.05
"""By how much it must miss the target then [m], or nothing is shown."""


# ---------------------------------------------------------------- bake and measure


@dataclass(frozen=True)
class Measurement:
    """What Blender's evaluated matrices say after a bake."""

    frames: tuple[int, ...]
    names: tuple[str, ...]
    """Effectors, (E,)."""
    distances: FloatArray
    """Of each effector from its target, (F, E) [m]; nan where no place is asked for."""
    angles: FloatArray
    """To the target's orientation, (F, E) [rad]."""
    bones: tuple[str, ...]
    """All bones of the figure, (n,)."""
    parents: tuple[int, ...]
    """(n,), -1 for none."""
    world_from_bone: FloatArray
    """(F, n, 4, 4)."""
    world_from_target: FloatArray
    """(F, E, 4, 4)."""
    world_from_cup: FloatArray
    """(F, 4, 4)."""

    def foot_shift(self) -> float:
        """How far a foot strays from where it stands at first, once both have landed [m]."""
        standing = np.array(self.frames) >= scenario.LANDED
        feet = [self.bones.index(bone) for bone in ("foot.L", "foot.R")]
        places = self.world_from_bone[standing][..., :3, 3][:, feet]  # (F, 2, 3)
        return float(np.linalg.norm(places - places[:1], axis=-1).max(initial=0.0))

    def turns(self) -> FloatArray:
        """Angle by which each bone turns in its parent from one frame to the next, (F - 1, n) [rad]."""
        world = self.world_from_bone[..., :3, :3]
        local = np.stack(
            [
                world[:, i] if parent < 0 else np.swapaxes(world[:, parent], -1, -2) @ world[:, i]
                for i, parent in enumerate(self.parents)
            ],
            axis=1,
        )
        return angle_between(local[:-1], local[1:])


def angle_between(a: FloatArray, b: FloatArray) -> FloatArray:
    """Angle of the rotation from one matrix to another, (..., 3, 3) -> (...) [rad].

    From the distance |a - b| = 2 √2 sin(angle/2), which is accurate for small angles, as the trace is not.
    """
    return 2.0 * np.arcsin(np.clip(np.linalg.norm(a - b, axis=(-2, -1)) / np.sqrt(8.0), 0.0, 1.0))


@dataclass(frozen=True)
class Result:
    """One method: what the add-on says of its bake, how long it took, and what is true."""

    report: posing.BakeReport
    solve_time: float
    """Of all frames [s]."""
    bake_time: float
    """With reading, writing and the add-on's own measurement [s]."""
    measured: Measurement


def bake(figure: Object, method: str, frames: Sequence[int], progress: Callable[[float], None]) -> Result:
    """Solve and bake the figure from its rest pose into a new action, then measure."""
    figure.animation_data_clear()
    for bone in figure.pose.bones:
        bone.matrix_basis = Matrix()
    figure.poise.method = method
    parts, times = [0.0], [time.perf_counter()]

    def tick(part: float) -> None:
        parts.append(part)
        times.append(time.perf_counter())
        progress(part)

    report = posing.bake(figure, frames, progress=tick)
    bake_time = time.perf_counter() - times[0]
    action = bpy.data.actions[report.action]
    action.name = f"{figure.name} {method}"
    action.use_fake_user = True
    # All frames are read in the first third, solved in the second and measured in the last.
    began, ended = np.interp([1.0 / 3.0, 2.0 / 3.0], parts, times)
    return Result(report, float(ended - began), bake_time, measure(figure, frames))


def measure(figure: Object, frames: Sequence[int]) -> Measurement:
    """Play frames back and read what Blender makes of the keys, with nothing of the add-on but its list."""
    scene = bpy.context.scene
    effectors = [
        (effector.name, effector.bone, effector.kind, effector.target.name)
        for effector in figure.poise.effectors
    ]
    names = [bone.name for bone in figure.data.bones]
    world_from_bone = np.empty((len(frames), len(names), 4, 4))
    world_from_target = np.empty((len(frames), len(effectors), 4, 4))
    world_from_cup = np.empty((len(frames), 4, 4))
    for row, frame in enumerate(frames):
        scene.frame_set(frame)
        depsgraph = bpy.context.evaluated_depsgraph_get()
        evaluated = figure.evaluated_get(depsgraph)
        for i, name in enumerate(names):
            world_from_bone[row, i] = np.array(evaluated.matrix_world @ evaluated.pose.bones[name].matrix)
        for i, (*_, target) in enumerate(effectors):
            target_object = bpy.data.objects[target].evaluated_get(depsgraph)
            world_from_target[row, i] = np.array(target_object.matrix_world)
        world_from_cup[row] = np.array(bpy.data.objects["Cup"].evaluated_get(depsgraph).matrix_world)
    scene.frame_set(frames[0])
    of_effectors = world_from_bone[:, [names.index(bone) for _, bone, *_ in effectors]]
    distances = np.linalg.norm(of_effectors[..., :3, 3] - world_from_target[..., :3, 3], axis=-1)
    distances[:, [kind == 'ORIENTATION' for _, _, kind, _ in effectors]] = np.nan
    parents = [bone.parent.name if bone.parent else None for bone in figure.data.bones]
    return Measurement(
        frames=tuple(frames),
        names=tuple(name for name, *_ in effectors),
        distances=distances,
        angles=angle_between(of_effectors[..., :3, :3], world_from_target[..., :3, :3]),
        bones=tuple(names),
        parents=tuple(-1 if parent is None else names.index(parent) for parent in parents),
        world_from_bone=world_from_bone,
        world_from_target=world_from_target,
        world_from_cup=world_from_cup,
    )


def run(
    frames: Sequence[int],
    *,
    far: bool = False,
    methods: Sequence[str] = METHODS,
    progress: Callable[[str], Callable[[float], None]] = lambda method: lambda part: None,
) -> tuple[Object, dict[str, Result]]:
    """Make the scene in an empty file and bake it; the figure with the first method's keys, and the results.

    Args:
        frames: Those to bake, of the 250.
        far: Put the table out of reach.
        methods: Each is baked into an action of its own.
        progress: Given a method, what to call with the part of its bake that is done, in [0, 1].
    """
    scenario.enable_rigify()
    figure = scenario.make_scene(far=far)
    figure.poise.tolerance_position, figure.poise.tolerance_rotation = TOLERANCE_POSITION, TOLERANCE_ROTATION
    # The last bake stays on the figure.
    results = {method: bake(figure, method, frames, progress(method)) for method in reversed(methods)}
    return figure, {method: results[method] for method in methods}


# ---------------------------------------------------------------- report


class ProgressBar:
    """One line of text that grows; where the output is no terminal, a line for each tenth."""

    WIDTH = 40
    """Of the bar, in characters."""

    def __init__(self, label: str) -> None:
        self._label, self._shown = label, -1

    def __call__(self, part: float) -> None:
        """Show the part done, in [0, 1]."""
        terminal = sys.stdout.isatty()
        steps = int(part * (100 if terminal else 10) + 1e-9)
        if steps == self._shown:
            return
        self._shown = steps
        if terminal:
            done = int(part * self.WIDTH)
            end = "\n" if part >= 1.0 else ""
            print(f"\r{self._label:>8} [{'#' * done:<{self.WIDTH}}] {part:4.0%}", end=end, flush=True)
        else:
            print(f"{self._label:>8} {steps * 10:3d} %", flush=True)


def figures(result: Result) -> dict[str, Any]:
    """All figures of one method, in the units of their names."""
    measured, count = result.measured, len(result.measured.frames)
    turns = measured.turns()
    frame, bone = np.unravel_index(turns.argmax(), turns.shape)
    effectors = {}
    for i, name in enumerate(measured.names):
        entry: dict[str, Any] = {}
        for unit, errors in (
            ("mm", measured.distances[:, i] * 1e3),
            ("deg", np.degrees(measured.angles[:, i])),
        ):
            if not np.isnan(errors).any():
                entry |= {f"median_{unit}": float(np.median(errors)), f"largest_{unit}": float(errors.max())}
                entry[f"{unit}_by_frame"] = [round(float(error), 6) for error in errors]
        effectors[name] = entry
    return {
        "effectors": effectors,
        "solve_ms_per_frame": 1e3 * result.solve_time / count,
        "bake_ms_per_frame": 1e3 * result.bake_time / count,
        "iterations_median": float(np.median(result.report.iterations)),
        "iterations_largest": int(result.report.iterations.max()),
        "iterations_by_frame": [int(number) for number in result.report.iterations],
        "statuses": {status: result.report.statuses.count(status) for status in set(result.report.statuses)},
        "keys": result.report.keys,
        "largest_turn_deg": degrees(turns[frame, bone]),
        "largest_turn_bone": measured.bones[bone],
        "largest_turn_frame": measured.frames[frame + 1],
        "standing_feet_shift_mm": measured.foot_shift() * 1e3,
        "notes": list(result.report.notes),
    }


LABELS_WIDTH = 29
"""Of the first column of the table, in characters."""


def table(numbers: dict[str, dict[str, Any]]) -> str:
    """The figures of all methods for the terminal."""
    columns = ("median_mm", "largest_mm", "median_deg", "largest_deg")
    heads = "".join(f"{head:>11}" for head in ("median mm", "largest mm", "median °", "largest °"))
    lines = [" " * LABELS_WIDTH + "".join(f"{method:>{len(heads)}}" for method in numbers)]
    lines.append(f"{'effector':{LABELS_WIDTH}}" + heads * len(numbers))
    for name in next(iter(numbers.values()))["effectors"]:
        entries = [of_method["effectors"][name] for of_method in numbers.values()]
        cells = [
            f"{entry[key]:11.4f}" if key in entry else f"{'-':>11}" for entry in entries for key in columns
        ]
        lines.append(f"{name:{LABELS_WIDTH}}" + "".join(cells))
    rows = {
        "ms a frame, solve alone": "{solve_ms_per_frame:.2f}",
        "ms a frame, whole bake": "{bake_ms_per_frame:.2f}",
        "iterations, median, largest": "{iterations_median:.0f}, {iterations_largest}",
        "shift of the standing feet": "{standing_feet_shift_mm:.4f} mm",
        "largest turn in one frame": "{largest_turn_deg:.1f}° ({largest_turn_bone}, {largest_turn_frame})",
    }
    lines.append("")
    for label, form in rows.items():
        cells = [f"{form.format(**of_method):>{len(heads)}}" for of_method in numbers.values()]
        lines.append(f"{label:{LABELS_WIDTH}}" + "".join(cells))
    return "\n".join(lines)


def failures(result: Result, *, far: bool) -> list[str]:
    """What PRIORITY owes and does not deliver, in sentences."""
    measured = result.measured
    owed = dict.fromkeys(measured.names, LARGEST_DISTANCE)
    if far:
        owed = dict.fromkeys(("foot.L", "foot.R"), LARGEST_FOOT_SHIFT)
    found: list[str] = []
    for name, limit in owed.items():
        column = measured.names.index(name)
        distance, angle = measured.distances[:, column].max(), measured.angles[:, column].max()
        # Written so that it is a failure when the error is not a number, but for what has no place to reach.
        if not distance <= limit and name != scenario.LABELS[scenario.HEAD]:
            found.append(
                f"{name} misses its target by {distance * 1e3:.3g} mm, allowed are {limit * 1e3:g} mm"
            )
        if not angle <= LARGEST_ANGLE:
            allowed = degrees(LARGEST_ANGLE)
            found.append(f"{name} is {degrees(angle):.3g}° off its target, allowed are {allowed:g}°")
    shift = measured.foot_shift()
    if not shift <= LARGEST_FOOT_SHIFT:
        allowed = LARGEST_FOOT_SHIFT * 1e3
        found.append(f"a standing foot moves by {shift * 1e3:.3g} mm, allowed are {allowed:g} mm")
    if far and not measured.distances[:, measured.names.index("hand.R")].max() > OUT_OF_REACH:
        found.append("the hand reaches the cup, though the table is meant to be out of reach")
    return found


def draw(results: dict[str, Result], figure: Object, out: Path, *, far: bool) -> None:
    """Draw the picture strip and the error plot."""
    from examples import pictures

    measured = results["PRIORITY"].measured
    parts = [
        pictures.Part(
            measured.world_from_bone[:, measured.bones.index(part.bone)],
            part.centres_bone,
            part.radii,
            side=part.bone[-1] if part.bone.endswith((".L", ".R")) else "",
            group="trunk" if part.bone.startswith("spine") and part.bone != scenario.HEAD else "",
        )
        for part in scenario.body_parts(figure)
    ]
    pictures.draw_strip(
        out / "strip.png",
        parts=parts,
        frames=measured.frames,
        shown=[frame for frame in scenario.SHOWN if frame in measured.frames],
        targets=dict(zip(measured.names, np.moveaxis(measured.world_from_target, 1, 0), strict=True)),
        boxes=scenario.table_boxes(far=far),
        cup=(measured.world_from_cup, scenario.CUP_RADIUS, scenario.CUP_HEIGHT),
        view=pictures.View.along(scenario.VIEW, scenario.LIGHT),
        title="PRIORITY on Rigify's basic human" + (", the table out of reach" if far else ""),
    )
    pictures.draw_errors(
        out / "errors.png",
        frames=measured.frames,
        names=measured.names,
        errors={m: (r.measured.distances * 1e3, np.degrees(r.measured.angles)) for m, r in results.items()},
        limits=(LARGEST_DISTANCE * 1e3, degrees(LARGEST_ANGLE)),
        title="Read back from Blender's evaluated matrices after the bake",
    )


def summary(numbers: dict[str, dict[str, Any]]) -> str:
    """The figures that matter, a line for each method."""
    lines: list[str] = []
    for method, of_method in numbers.items():
        misses = ", ".join(
            f"{name} {entry['largest_mm']:.4g}"
            for name, entry in of_method["effectors"].items()
            if "largest_mm" in entry
        )
        lines.append(
            f"- {method}: largest misses [mm] {misses}; standing feet move by "
            f"{of_method['standing_feet_shift_mm']:.2g} mm; {of_method['solve_ms_per_frame']:.0f} ms a frame"
        )
    return "\n".join(lines)


def page(numbers: dict[str, dict[str, Any]], *, far: bool) -> str:
    """The table as a page of docs/measured."""
    where, command = ("out of reach", "scripts/demo --far") if far else ("in reach", "scripts/demo")
    name = "demo-far" if far else "demo"
    why = (
        "\nThe feet come first, then the hands, the hips last: while the table is out of reach the body "
        "leans after the hands as far as the feet let it, and the hips leave their target behind.\n"
    )
    return (
        f"# The demo, with the table {where}\n\n"
        f"Made by `{command} --markdown docs/measured/{name}.md` with Blender {bpy.app.version_string}.\n\n"
        f"{summary(numbers)}\n\n"
        f"Rigify's basic human, {scenario.FRAMES} frames, six effectors. Errors are read back from Blender's "
        f"evaluated matrices after the bake.\n{why * far}\n```text\n{table(numbers)}\n```\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; the exit code is 0 if PRIORITY kept to its limits."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument(
        "--far", action="store_true", help="put the table out of reach: the feet must not move"
    )
    parser.add_argument(
        "--out", type=Path, help="folder for the results, from that of the project (default: demo-output)"
    )
    parser.add_argument("--no-pictures", action="store_true", help="draw nothing")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as a page, too")
    options = parser.parse_args(arguments)
    out: Path = options.out or Path("demo-output/far" if options.far else "demo-output")
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()

    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    blender_ik_addon.register()
    try:
        figure, results = run(range(1, scenario.FRAMES + 1), far=options.far, progress=ProgressBar)
        bpy.context.preferences.filepaths.save_version = 0  # no backup of an earlier run's file
        bpy.ops.wm.save_as_mainfile(filepath=str(out / "table_reach.blend"), compress=True)
        if not options.no_pictures:
            draw(results, figure, out, far=options.far)
    finally:
        # A handler that is left behind would hang Blender 4.5 at exit.
        blender_ik_addon.unregister()
        scenario.disable_rigify()

    numbers = {method: figures(result) for method, result in results.items()}
    failed = failures(results["PRIORITY"], far=options.far)
    total = time.perf_counter() - began
    report = {
        "blender": bpy.app.version_string,
        "frames": scenario.FRAMES,
        "far": options.far,
        "methods": numbers,
        "failures": failed,
        "total_s": total,
    }
    (out / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"\n{table(numbers)}\n\n{total:.1f} s in all, Blender {bpy.app.version_string}; see {out}")
    if options.markdown is not None:
        options.markdown.write_text(page(numbers, far=options.far), encoding="utf-8")
    for failure in failed:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

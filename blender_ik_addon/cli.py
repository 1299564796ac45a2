# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: `blender -b FILE --command poise ...`; with pip's bpy `python -m blender_ik_addon ...`.

Exit codes: 0 if every effector met its tolerance or misses are allowed, 1 if one missed, 2 if nothing was
done because something is wrong with the arguments, the file or the scene.
"""

import argparse
import json
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from .core.arrays import FloatArray
from .core.errors import IKError
from .core.options import METHODS
from .scene import posing
from .scene.properties import settings_of

COMMAND: Final = "poise"
"""What follows `blender --command`."""

REACHED, MISSED, REFUSED = range(3)
"""Exit codes."""

REPORT_VERSION: Final = 1
"""Of the form of a report; it grows when a field changes its meaning."""

_registered: list[Any] = []
"""Blender's handle of our command."""


def run(arguments: Sequence[str]) -> int:
    """Do what a command line asks for; its exit code.

    Args:
        arguments: What follows `--command poise` or `-m blender_ik_addon`.
    """
    try:
        options = _parser().parse_args(list(arguments))
    except SystemExit as end:  # argparse has said what is wrong, or printed its help
        return REFUSED if end.code else REACHED
    try:
        for path in (options.output, options.report):
            if path is not None:
                _check_folder(path)  # before the work: a long bake must not be lost at its end
        if options.file is not None:
            _open(options.file)
        else:
            _check_opened(sys.argv)
        armature_object = _armature(options.armature)
        _apply_settings(armature_object, options)
        report = (
            _bake(armature_object, options) if options.task == "bake" else posing.solve_pose(armature_object)
        )
        if options.report is not None:
            _write(options.report, _as_json(armature_object, report))
        if options.output is not None:
            _save(options.output)
    except (IKError, OSError) as error:
        print(f"poise: ERROR: {error}", file=sys.stderr)
        return REFUSED
    print(f"poise: {report.summary()}")
    if options.output is None:
        print("poise: the file was not saved; --output says where to")
    return REACHED if report.reached or options.allow_misses else MISSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="Full-body inverse kinematics: solve or bake the effectors of an armature.",
        epilog="Exit code 0: every effector met its tolerance, or misses are allowed; 1: one missed; "
        "2: something is wrong with the arguments, the file or the scene.",
    )
    tasks = parser.add_subparsers(dest="task", required=True, metavar="{bake,solve}")
    bake = tasks.add_parser("bake", help="solve a range of frames and key it", description=_bake.__doc__)
    solve = tasks.add_parser("solve", help="solve the frame in which the file was saved")
    for task in (bake, solve):
        task.add_argument("file", nargs="?", type=Path, help="blend file; without it, the one that is open")
        task.add_argument("--armature", help="name of the armature object; needed if several have effectors")
        task.add_argument("--method", choices=tuple(METHODS), help="how poses are found; as saved by default")
        task.add_argument("--iterations", type=_positive, help="most iterations of one descent")
        task.add_argument("--tolerance", type=_amount, metavar="MM", help="for places [mm]")
        task.add_argument("--tolerance-angle", type=_amount, metavar="DEGREES", help="for orientations")
        task.add_argument("--output", type=Path, help="where to save the result; it is not saved otherwise")
        task.add_argument("--report", type=Path, help="where to write what came of it, as JSON")
        task.add_argument("--allow-misses", action="store_true", help="end with 0 also when effectors miss")
    bake.add_argument("--start", type=int, help="first frame; with --end, or as in the file's settings")
    bake.add_argument("--end", type=int, help="last frame")
    bake.add_argument("--quiet", action="store_true", help="do not tell how far it is")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1")
    return value


def _amount(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value > 0.0):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def _open(path: Path) -> None:
    if not path.is_file():
        raise IKError(f"there is no file {str(path)!r}")
    try:
        bpy.ops.wm.open_mainfile(filepath=str(path.resolve()))
    except RuntimeError as error:
        raise IKError(f"{str(path)!r} cannot be opened: {str(error).strip()}") from error


def _check_opened(arguments: Sequence[str]) -> None:
    """Refuse to go on where Blender could not open the file that it was given before `--command`.

    It goes on with its default scene then, and says so only among much else.
    """
    given = [index for index, argument in enumerate(arguments) if argument in {"--command", "-c"}]
    files = [argument for argument in arguments[: given[0]] if _is_blend(argument)] if given else []
    for file in files:
        if not Path(file).is_file():
            raise IKError(f"there is no file {file!r}")
    if files and not bpy.data.filepath:
        raise IKError(f"{files[-1]!r} cannot be opened: is it a blend file, of this Blender or an older one?")


def _is_blend(argument: str) -> bool:
    """Whether an argument of Blender looks like a file to be opened."""
    return not argument.startswith("-") and re.search(r"\.blend\d*$", argument.lower()) is not None


def _check_folder(path: Path) -> None:
    if not path.resolve().parent.is_dir():
        raise IKError(f"{str(path)!r} cannot be saved: there is no such folder")


def _save(path: Path) -> None:
    try:
        bpy.ops.wm.save_as_mainfile(filepath=str(path.resolve()), copy=True, check_existing=False)
    except RuntimeError as error:
        raise IKError(f"{str(path)!r} cannot be saved: {str(error).strip()}") from error


def _armature(name: str | None) -> Object:
    """Return the armature object with a name; without one, the only one that has effectors."""
    scene: Any = bpy.context.scene
    armatures = [obj for obj in scene.objects if obj.type == 'ARMATURE']
    candidates = [obj for obj in armatures if settings_of(obj).effectors]
    if name is not None:
        found = [obj for obj in armatures if obj.name == name]
        if not found:
            there = ", ".join(repr(obj.name) for obj in armatures) or "none at all"
            raise IKError(f"scene {scene.name!r} has no armature {name!r}; there are {there}")
        return found[0]
    if len(candidates) != 1:
        listed = ", ".join(repr(obj.name) for obj in candidates)
        what = (
            f"several armatures with effectors ({listed}): choose one with --armature"
            if candidates
            else (
                "no armature with effectors: add some in the sidebar, tab Poise, or with posing.add_effector"
            )
        )
        raise IKError(f"scene {scene.name!r} has {what}")
    return candidates[0]


def _apply_settings(armature_object: Object, options: argparse.Namespace) -> None:
    """Set what was given; it stays in a file that is saved."""
    settings: Any = settings_of(armature_object)
    given = {
        "method": options.method,
        "iterations": options.iterations,
        "tolerance_position": None if options.tolerance is None else 1e-3 * options.tolerance,
        "tolerance_rotation": None
        if options.tolerance_angle is None
        else math.radians(options.tolerance_angle),
    }
    for name, value in given.items():
        if value is not None:
            setattr(settings, name, value)


def _bake(armature_object: Object, options: argparse.Namespace) -> posing.BakeReport:
    """Solve a range of frames, key it in the armature's own action, and measure it in Blender."""
    if (options.start is None) != (options.end is None):
        raise IKError("give both --start and --end, or neither for the range in the file's settings")
    frames = None if options.start is None else range(options.start, options.end + 1)
    told = -1

    def progress(part: float) -> None:
        nonlocal told
        percent = int(10.0 * part) * 10
        if percent > told and not options.quiet:
            told = percent
            print(f"poise: {percent} %", flush=True)

    return posing.bake(armature_object, frames, progress=progress)


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _as_json(armature_object: Object, report: posing.Report | posing.BakeReport) -> dict[str, Any]:
    """What a report says, lengths in metres, angles in radians, null where there is no such error."""
    settings = settings_of(armature_object)
    common = {
        "report_version": REPORT_VERSION,
        "task": "bake" if isinstance(report, posing.BakeReport) else "solve",
        "blender": bpy.app.version_string,
        "file": bpy.data.filepath,
        "armature": armature_object.name,
        "method": settings.method,
        "reached": report.reached,
        "summary": report.summary(),
        "notes": list(report.notes),
        "tolerance_position": settings.tolerance_position,
        "tolerance_rotation": settings.tolerance_rotation,
    }
    if isinstance(report, posing.Report):
        effectors = [
            {
                "name": effector.name,
                "bone": effector.bone,
                "reached": effector.reached,
                "position_error": _number(effector.position),
                "rotation_error": _number(effector.rotation),
                "why": effector.why,
            }
            for effector in report.effectors
        ]
        return {**common, "status": report.status, "iterations": report.iterations, "effectors": effectors}
    position, rotation = report.position_errors, report.rotation_errors
    effectors = [
        {
            "name": name,
            "reached": not bool(report.tolerances.missed(position, rotation)[:, number].any()),
            "position_error": _largest(position[:, number]),
            "rotation_error": _largest(rotation[:, number]),
            "worst_frame": report.worst_frames[number],
            "why": report.reasons[number],
        }
        for number, name in enumerate(report.names)
    ]
    return {
        **common,
        "effectors": effectors,
        "frames": list(report.frames),
        "statuses": list(report.statuses),
        "iterations": report.iterations.tolist(),
        "branches": list(report.branches),
        "action": report.action,
        "keys": report.keys,
        "keys_replaced": report.keys_replaced,
        "position_errors": [[_number(error) for error in row] for row in position.tolist()],
        "rotation_errors": [[_number(error) for error in row] for row in rotation.tolist()],
    }


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _largest(errors: FloatArray) -> float | None:
    return _number(float(np.fmax.reduce(errors)))


def register() -> None:
    """Add the command to Blender."""
    _registered.append(bpy.utils.register_cli_command(COMMAND, run))


def unregister() -> None:
    """Take it away."""
    while _registered:
        bpy.utils.unregister_cli_command(_registered.pop())

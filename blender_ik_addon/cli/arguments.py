# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of the command line."""

import argparse
import math
from collections.abc import Mapping
from typing import Any, Final

from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty

from ..scene.bake.options import IN_SETTINGS
from ..scene.properties.settings import POISE_PG_armature

COMMAND: Final = "poise"
"""What follows `blender --command`."""
ONLY: Final = "--only"
"""Which of the files is meant: by this the command asks a worker for one of its shots."""
TOLERANCES: Final = {"--tolerance": "tolerance_position", "--tolerance-angle": "tolerance_rotation"}
SOLVER: Final = {"--method": "method", "--iterations": "iterations", **TOLERANCES}
RANGE: Final = {"--range": "bake_range"}
BAKE: Final = {
    **{
        f"--{'fewest-keys' if name == 'fewest' else name.replace('_', '-')}": f"bake_{name}"
        for name in IN_SETTINGS
        if name != "bones"  # several, by their names
    },
    "--smoothness": "smoothness",
    "--pop-angle": "pop_angle",
}
"""Options that are settings of the armature object -> names of these."""
SAVED: Final = (*SOLVER.values(), *RANGE.values(), *BAKE.values())
"""These settings stay in a file that is saved."""
LENGTHS: Final = frozenset(
    name for name in SAVED if POISE_PG_armature.__annotations__[name].keywords.get("unit") == 'LENGTH'
)
"""Those that are lengths: as the scene measures them."""
UNITS: Final = {
    'LENGTH': (1e-3, "MM"),
    'ROTATION': (math.radians(1.0), "DEGREES"),
    'TIME_ABSOLUTE': (1.0, "SECONDS"),
}
"""Units of settings -> size of what is typed [m, rad, s], and its name."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of all that follows the name of the command."""
    whole = argparse.ArgumentParser(
        prog=COMMAND,
        description="Full-body inverse kinematics: set up, solve or bake the effectors of armatures.",
        epilog="Exit code 0: every effector met its tolerance, or misses are allowed; 1: one missed; "
        "2: something is wrong with the arguments, a file or its scene; 3: a file or a report could not be "
        "written; 4: Blender or Poise failed; 130: interrupted. Of several shots the largest counts.",
    )
    tasks = whole.add_subparsers(dest="task", required=True, metavar="TASK")
    setup = tasks.add_parser("setup", help="make an armature posable: roles, limits, targets, effectors")
    solve = tasks.add_parser("solve", help="solve the frame in which the file was saved")
    bake = tasks.add_parser("bake", help="solve a range of frames and key it")
    targets = tasks.add_parser(
        "targets", help="key targets from the animation of the armature, and keep that"
    )
    report = tasks.add_parser("report", help="measure effectors in a range of frames; nothing is changed")
    methods = tasks.add_parser("methods", help="list the methods by which poses are found")
    methods.add_argument("--json", action="store_true", help="as JSON")

    for task in (setup, solve, bake, targets, report):
        _add_files(task, saves=task is not report)
    for task, settings in (
        (solve, SOLVER),
        (bake, {**SOLVER, **RANGE, **BAKE}),
        (report, {**TOLERANCES, **RANGE}),
    ):
        _add_settings(task, settings)
        task.add_argument("--allow-misses", action="store_true", help="exit code 0 even if effectors miss")
    for task in (setup, targets):
        task.set_defaults(allow_misses=False)
    in_settings = "as in the file's settings"
    for task, otherwise in ((bake, in_settings), (report, in_settings), (targets, "all of the animation")):
        task.add_argument("--start", type=int, help=f"first frame; with --end, or {otherwise}")
        task.add_argument("--end", type=int, help="last frame")
    _add_setup(setup)
    _add_bake(bake)
    return whole


def _add_files(task: argparse.ArgumentParser, *, saves: bool) -> None:
    """What all tasks know that open files."""
    files = "blend files, or patterns such as 'shots/*.blend'; without any the file that is open"
    task.add_argument("files", nargs="*", metavar="file", help=files)
    task.add_argument(ONLY, help=argparse.SUPPRESS)
    task.add_argument("--armature", help="name of the armature object; needed if several have effectors")
    fields = "{name} and {folder} are those of the shot's file"
    if saves:
        saved = f"where to save the blend file; not saved otherwise; {fields}"
        task.add_argument("--output", metavar="FILE", help=saved)
    task.add_argument("--report", metavar="FILE", help=f"where to write the report, as JSON; {fields}")
    jobs = "of several files, how many are open at once, each in a Blender process of its own"
    task.add_argument("--jobs", type=_number(1, kind=int), default=1, metavar="COUNT", help=jobs)
    redo = "also do shots again whose reports say that the same was done with the same files"
    task.add_argument("--redo", action="store_true", help=redo)
    bar = "a progress bar on the error output; by default where that is a terminal"
    task.add_argument("--progress", action=argparse.BooleanOptionalAction, help=bar)
    task.add_argument("--quiet", action="store_true", help="print no progress")


def _add_settings(task: argparse.ArgumentParser, options: Mapping[str, str]) -> None:
    """Options that are settings, with the tooltips of these; names of items may be in small letters."""
    for option, name in options.items():
        declared = POISE_PG_armature.__annotations__[name]
        kind, own = declared.function, declared.keywords
        how: dict[str, Any] = {"dest": name, "help": own["description"]}
        if kind is BoolProperty:
            how["action"] = argparse.BooleanOptionalAction
        elif kind is EnumProperty:
            names = tuple(item[0] for item in own["items"])
            how |= {"type": str.upper, "choices": names, "metavar": f"{{{','.join(names).lower()}}}"}
        elif kind in (FloatProperty, IntProperty):
            unit, how["metavar"] = UNITS.get(own.get("unit"), (1.0, "NUMBER"))
            how["type"] = _number(own["min"], unit=unit, kind=int if kind is IntProperty else float)
        else:
            how["metavar"] = "NAME"
        task.add_argument(option, **how)


def _add_setup(setup: argparse.ArgumentParser) -> None:
    poles = "targets for the direction of elbows and knees, too"
    setup.add_argument("--poles", action="store_true", help=poles)
    setup.add_argument("--no-limits", action="store_true", help="leave the limits of joints as they are")
    again = "recognise the roles of bones anew; by default the table of roles in the file is used"
    setup.add_argument("--recognise", action="store_true", help=again)
    preset = "set up as a preset says, by its name or as a .json file"
    setup.add_argument("--preset", metavar="NAME", help=preset)


def _add_bake(bake: argparse.ArgumentParser) -> None:
    plot = "where to draw the errors over the frames (.png, .svg, .pdf); needs matplotlib"
    bake.add_argument("--plot", metavar="FILE", help=plot)
    several = "another armature to bake in one go, also where targets are bones of the other; may be repeated"
    bake.add_argument("--with", dest="together", action="append", default=[], metavar="NAME", help=several)
    bones = "bones or parts of the body, such as arm.L, that are moved and keyed; others stay as animated"
    bake.add_argument("--bones", nargs="+", metavar="NAME", help=bones)
    force = "replace keys that Poise has not written, or that were edited since"
    bake.add_argument("--force", action="store_true", help=force)
    lock = "let targets of feet and hands rest while they are planted; find when, where no contacts are keyed"
    bake.add_argument("--lock-contacts", action="store_true", help=lock)


def _number(least: float, *, unit: float = 1.0, kind: type = float) -> Any:
    """Return what reads a number in a unit for the parser; what it reads is `least` or more."""

    def read(text: str) -> float:
        value = unit * kind(text) if kind is float else kind(text)
        if not math.isfinite(value) or value < least:
            what = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"{text} is not a {what} from {least / unit:g}")
        return value

    read.__name__ = kind.__name__  # argparse tells it of what is no number at all
    return read

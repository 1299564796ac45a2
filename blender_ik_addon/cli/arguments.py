# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of the command line."""

import argparse
import math
from typing import Any, Final

from ..core.problem.options import METHODS
from ..scene.animation.layers import BLENDS
from ..scene.bake.bones import CHANNELS
from ..scene.bake.frames import RANGES
from ..scene.bake.options import PLACES

COMMAND: Final = "poise"
"""What follows `blender --command`."""
ONLY: Final = "--only"
"""Which of the files is meant: by this the command asks a worker for one of its shots."""
SAVED: Final = (
    *("method", "iterations", "tolerance_position", "tolerance_rotation"),
    *("smoothness", "pop_angle", "bake_range", "bake_step"),
    *("bake_at_keys", "bake_fewest", "bake_deviation", "bake_deviation_angle"),
    *("bake_to", "bake_name", "bake_blend", "bake_ease_in", "bake_ease_out", "bake_channels"),
    *("bake_loop", "bake_clear_constraints"),
)
"""Arguments that are settings of the armature object, by the names of these."""


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
    for task in (solve, bake):
        _add_solver(task)
    for task in (solve, bake, report):
        task.add_argument("--allow-misses", action="store_true", help="exit code 0 even if effectors miss")
    for task in (report,):
        _add_tolerances(task)
    for task in (setup, targets):
        task.set_defaults(allow_misses=False)
    in_settings = "as in the file's settings"
    for task, otherwise in ((bake, in_settings), (report, in_settings), (targets, "all of the animation")):
        task.add_argument("--start", type=int, help=f"first frame; with --end, or {otherwise}")
        task.add_argument("--end", type=int, help="last frame")
    for task in (bake, report):
        _add_names(task, "--range", "bake_range", RANGES, "range of frames in place of --start and --end")
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


def _lengths() -> dict[str, Any]:
    return {"type": _number(0, above=True, unit=1e-3), "metavar": "MM"}


def _angles() -> dict[str, Any]:
    return {"type": _number(0, above=True, unit=math.radians(1.0)), "metavar": "DEGREES"}


def _add_tolerances(task: argparse.ArgumentParser) -> None:
    task.add_argument("--tolerance", dest="tolerance_position", help="position tolerance [mm]", **_lengths())
    task.add_argument("--tolerance-angle", dest="tolerance_rotation", help="the same for angles", **_angles())


def _add_solver(task: argparse.ArgumentParser) -> None:
    """What all tasks know that solve."""
    task.add_argument("--method", choices=tuple(METHODS), help="method; by default that of the file")
    iterations = "largest number of iterations of one descent"
    task.add_argument("--iterations", type=_number(1, kind=int), help=iterations)
    _add_tolerances(task)


def _add_setup(setup: argparse.ArgumentParser) -> None:
    poles = "targets for the direction of elbows and knees, too"
    setup.add_argument("--poles", action="store_true", help=poles)
    setup.add_argument("--no-limits", action="store_true", help="leave the limits of joints as they are")
    again = "recognise the roles of bones anew; by default the table of roles in the file is used"
    setup.add_argument("--recognise", action="store_true", help=again)
    preset = "set up as a preset says, by its name or as a .json file"
    setup.add_argument("--preset", metavar="NAME", help=preset)


def _add_names(
    task: argparse.ArgumentParser, option: str, dest: str, names: tuple[str, ...], what: str
) -> None:
    """An option whose values are items of a setting, in small letters."""
    shown = f"{{{','.join(names).lower()}}}"
    task.add_argument(option, dest=dest, type=str.upper, choices=names, metavar=shown, help=what)


def _add_bake(bake: argparse.ArgumentParser) -> None:
    step = "every how many frames there is a key, below 1 at sub-frames; the last one always has one"
    bake.add_argument("--step", dest="bake_step", type=_number(0, above=True), help=step)
    at_keys = "key the frames at which targets have keys, and others where effectors would deviate too far"
    bake.add_argument("--at-keys", dest="bake_at_keys", action=argparse.BooleanOptionalAction, help=at_keys)
    fewest = "key each curve only where it needs keys, so that bones of effectors stay within the deviation"
    bake.add_argument("--fewest-keys", dest="bake_fewest", action=argparse.BooleanOptionalAction, help=fewest)
    deviation = "with these, how far effectors may be from where they were solved to be [mm]"
    bake.add_argument("--deviation", dest="bake_deviation", help=deviation, **_lengths())
    bake.add_argument(
        "--deviation-angle", dest="bake_deviation_angle", help="the same for angles", **_angles()
    )
    loop = "the last frame is the first one again, in pose and speed, and F-curves repeat the keys"
    bake.add_argument("--loop", dest="bake_loop", action=argparse.BooleanOptionalAction, help=loop)
    clear = "remove the constraints of the bones that are keyed"
    clears = argparse.BooleanOptionalAction
    bake.add_argument("--clear-constraints", dest="bake_clear_constraints", action=clears, help=clear)
    smooth = "time over which the motion is smooth, 0 or more"
    bake.add_argument("--smoothness", help=smooth, type=_number(0), metavar="SECONDS")
    flips = "change of a bone's turn that is reported as a flip of the pose"
    bake.add_argument("--pop-angle", help=flips, **_angles())
    _add_names(bake, "--to", "bake_to", PLACES, "where keys go: the own action, a new one, an NLA strip")
    _add_names(bake, "--blend", "bake_blend", BLENDS, "how the strip plays over what is below it")
    _add_names(bake, "--channels", "bake_channels", CHANNELS, "which channels of bones are moved and keyed")
    plot = "where to draw the errors over the frames (.png, .svg, .pdf); needs matplotlib"
    bake.add_argument("--plot", metavar="FILE", help=plot)
    several = "another armature to bake in one go, also where targets are bones of the other; may be repeated"
    bake.add_argument("--with", dest="together", action="append", default=[], metavar="NAME", help=several)
    bones = "bones or parts of the body, such as arm.L, that are moved and keyed; others stay as animated"
    bake.add_argument("--bones", nargs="+", metavar="NAME", help=bones)
    bake.add_argument("--name", dest="bake_name", help="name of the new action or of the NLA strip")
    none = _number(0, kind=int)
    for end, way in (("in", "at the beginning"), ("out", "at the end")):
        eased = f"frames {way} over which the motion that is there and the solved one blend"
        bake.add_argument(f"--ease-{end}", dest=f"bake_ease_{end}", type=none, metavar="FRAMES", help=eased)
    force = "replace keys that Poise has not written, or that were edited since"
    bake.add_argument("--force", action="store_true", help=force)
    lock = "let targets of feet and hands rest while they are planted; find when, where no contacts are keyed"
    bake.add_argument("--lock-contacts", action="store_true", help=lock)


def _number(least: float, *, above: bool = False, unit: float = 1.0, kind: type = float) -> Any:
    """Return what reads a number in a unit from the least one on, or above it, for the parser."""

    def read(text: str) -> float:
        value = kind(text)
        if not math.isfinite(value) or value < least or (above and value == least):
            what = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(
                f"{text} is not a {what} {'above' if above else 'from'} {least:g}"
            )
        return value if kind is int else unit * value

    read.__name__ = kind.__name__  # argparse tells it of what is no number at all
    return read

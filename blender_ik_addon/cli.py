# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: `blender -b FILE --command poise ...`; with pip's bpy `python -m blender_ik_addon ...`.

Exit codes: 0 if every effector met its tolerance or misses are allowed, 1 if one missed, 2 if nothing was
done because something is wrong with the arguments, the file or the scene, 3 if the file or the report could
not be written, 130 if Ctrl C (SIGINT) ended it.

The file is written first, then the report. Each is written beside its place under another name and renamed
when it is whole, so what was there before stays until then, and nothing half-written is left.
"""

import argparse
import json
import math
import os
import re
import shutil
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

from .core.errors import IKError
from .core.problem.options import METHODS
from .scene import posing
from .scene.bake_frames import RANGES
from .scene.properties.settings import settings_of

COMMAND: Final = "poise"
"""What follows `blender --command`."""
REACHED, MISSED, REFUSED, UNWRITTEN = range(4)
"""Exit codes."""
INTERRUPTED: Final = 130
"""Exit code after SIGINT, as shells have it: 128 and the number of the signal."""
SAVED: Final = (
    *("method", "iterations", "tolerance_position", "tolerance_rotation"),
    *("smoothness", "pop_angle", "bake_range", "bake_step"),
    *("bake_at_keys", "bake_deviation", "bake_deviation_angle"),
)
"""Arguments that are settings of the armature object, by the names of these."""
ZSTD: Final = b"\x28\xb5\x2f\xfd"
"""First bytes of a compressed blend file."""
ZSTD_END: Final = b"\xb1\xea\x92\x8f"
"""Last bytes of one: of its table of contents, which is written when all else is."""
REPORT_VERSION: Final = 1
"""Of the form of a report; it grows when a field changes its meaning."""
_registered: list[Any] = []
"""Blender's handle of our command."""


def run(arguments: Sequence[str]) -> int:
    """Run what follows `--command poise` or `-m blender_ik_addon`; returns the exit code."""
    try:
        options = _parser().parse_args(list(arguments))
    except SystemExit as end:  # argparse has said what is wrong, or printed its help
        return REFUSED if end.code else REACHED
    with _Interruption() as interruption:
        try:
            armature_object, report = _solved(options, interruption)
            interruption.holds = True
        except (IKError, OSError) as error:
            _say(str(error), wrong=True)
            return REFUSED
        except KeyboardInterrupt:
            _say("interrupted, nothing was written", wrong=True)
            return INTERRUPTED
        return _write_results(armature_object, report, options, interruption)


class _Interruption:
    """SIGINT: ends the work at once, or at the next moment at which nothing is half done.

    Python's own handler is not enough: Blender has its own in background mode, and what is raised while
    Blender calls one of its handlers is lost.
    """

    holds = False
    """Whether nothing is raised but in `check`."""
    _asked = False
    _before: Any = signal.SIG_IGN

    def __enter__(self) -> "_Interruption":
        before = signal.getsignal(signal.SIGINT)
        if before is not signal.SIG_IGN:  # who started this does not want it to end by that
            signal.signal(signal.SIGINT, self._take)
            self._before = signal.SIG_DFL if before is None else before
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._before)

    def _take(self, *_: object) -> None:
        raises = not (self._asked or self.holds)  # once: what is put back after it is put back to the end
        self._asked = True
        if raises:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if it was asked for."""
        if self._asked:
            raise KeyboardInterrupt


def _solved(
    options: argparse.Namespace, interruption: _Interruption
) -> tuple[Object, posing.Report | posing.BakeReport]:
    """Open the file and solve or bake, after a look at where the result is to go."""
    if options.file is not None and not options.file.is_file():
        raise IKError(f"there is no file {str(options.file)!r}")
    _check_places(options)  # before the work: a long bake must not be lost at its end
    if options.file is None:
        _check_opened(sys.argv)
    else:
        try:
            bpy.ops.wm.open_mainfile(filepath=str(options.file.resolve()))
        except RuntimeError as error:
            raise IKError(f"{str(options.file)!r} cannot be opened: {str(error).strip()}") from error
    armature_object = _armature(options.armature)
    for name in SAVED:
        value = getattr(options, name, None)
        if value is not None:  # it stays in a file that is saved
            setattr(settings_of(armature_object), name, value)
    if options.task == "bake":
        report = _bake(armature_object, options, interruption)
    else:
        report = posing.solve_pose(armature_object)
    interruption.check()
    return armature_object, report


def _write_results(
    armature_object: Object,
    report: posing.Report | posing.BakeReport,
    options: argparse.Namespace,
    interruption: _Interruption,
) -> int:
    """Write the file, then the report, and say what was written and what was not; the exit code."""
    _say(report.summary())
    lost: list[str] = []
    written: list[str] = []

    def attempt(write: Callable[[], None], done: str) -> None:
        try:
            write()
        except IKError as error:
            lost.append(str(error))
        else:
            written.append(done)

    try:
        if options.output is None:
            _say("the file was not saved; --output says where to")
        else:
            attempt(lambda: _save(options.output, interruption), f"saved {str(options.output)!r}")
        if options.report is not None:
            content = _as_json(armature_object, report, options.output, lost)
            done = f"wrote the report {str(options.report)!r}"
            attempt(lambda: _write(options.report, content, interruption), done)
        ended = UNWRITTEN if lost else REACHED if report.reached or options.allow_misses else MISSED
    except KeyboardInterrupt:
        lost.append(f"interrupted, {'nothing else' if written else 'nothing'} was written")
        ended = INTERRUPTED
    for done in written:
        _say(done)
    for why in lost:
        _say(why, wrong=True)
    return ended


def _say(text: str, *, wrong: bool = False) -> None:
    """Print a line as far as the stream takes it: no bake is lost for one that nobody reads."""
    stream: Any = sys.stderr if wrong else sys.stdout
    line = f"poise: ERROR: {text}" if wrong else f"poise: {text}"
    encoding = getattr(stream, "encoding", None) or "utf-8"
    with suppress(OSError, ValueError):  # it is closed
        print(line.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)


# Arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="Full-body inverse kinematics: solve or bake the effectors of an armature.",
        epilog="Exit code 0: every effector met its tolerance, or misses are allowed; 1: one missed; "
        "2: something is wrong with the arguments, the file or the scene; 3: the file or the report could "
        "not be written; 130: interrupted.",
    )
    tasks = parser.add_subparsers(dest="task", required=True, metavar="{bake,solve}")
    bake = tasks.add_parser("bake", help="solve a range of frames and key it", description=_bake.__doc__)
    solve = tasks.add_parser("solve", help="solve the frame in which the file was saved")
    whole = _number(1, kind=int)
    length = {"type": _number(0, above=True, unit=1e-3), "metavar": "MM"}
    angle = {"type": _number(0, above=True, unit=math.radians(1.0)), "metavar": "DEGREES"}
    seconds = {"type": _number(0), "metavar": "SECONDS"}
    for task in (bake, solve):
        task.add_argument("file", nargs="?", type=Path, help="blend file; without it, the one that is open")
        task.add_argument("--armature", help="name of the armature object; needed if several have effectors")
        task.add_argument("--method", choices=tuple(METHODS), help="method; by default that of the file")
        task.add_argument("--iterations", type=whole, help="largest number of iterations of one descent")
        task.add_argument("--tolerance", dest="tolerance_position", help="position tolerance [mm]", **length)
        task.add_argument("--tolerance-angle", dest="tolerance_rotation", help="the same for angles", **angle)
        task.add_argument("--output", type=Path, help="where to save the blend file; not saved otherwise")
        task.add_argument("--report", type=Path, help="where to write the report, as JSON")
        task.add_argument("--allow-misses", action="store_true", help="exit code 0 even if effectors miss")
    bake.add_argument("--start", type=int, help="first frame; with --end, or as in the file's settings")
    bake.add_argument("--end", type=int, help="last frame")
    bake.add_argument(
        "--range",
        dest="bake_range",
        type=str.upper,
        choices=RANGES,
        metavar=f"{{{','.join(RANGES).lower()}}}",
        help="range of frames in place of --start and --end; without all of them that of the file",
    )
    step = "every how many frames there is a key; the last one always has one"
    bake.add_argument("--step", dest="bake_step", type=whole, help=step)
    at_keys = "key the frames at which targets have keys, and others where effectors would deviate too far"
    bake.add_argument("--at-keys", dest="bake_at_keys", action=argparse.BooleanOptionalAction, help=at_keys)
    deviation = "with --at-keys, how far effectors may be from where they were solved to be [mm]"
    bake.add_argument("--deviation", dest="bake_deviation", help=deviation, **length)
    bake.add_argument("--deviation-angle", dest="bake_deviation_angle", help="the same for angles", **angle)
    smooth = "time over which the motion is smooth, 0 or more"
    bake.add_argument("--smoothness", help=smooth, **seconds)
    flips = "change of a bone's turn that is reported as a flip of the pose"
    bake.add_argument("--pop-angle", help=flips, **angle)
    bake.add_argument("--quiet", action="store_true", help="print no progress")
    return parser


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


def _check_opened(arguments: Sequence[str]) -> None:
    """Refuse to go on with the default scene where Blender could not open the file that it was given."""
    given = [index for index, argument in enumerate(arguments) if argument in {"--command", "-c"}]
    before = arguments[: given[0]] if given else ()
    files = [a for a in before if not a.startswith("-") and re.search(r"\.blend\d*$", a.lower())]
    for file in files:
        if not Path(file).is_file():
            raise IKError(f"there is no file {file!r}")
    if files and not bpy.data.filepath:
        raise IKError(f"{files[-1]!r} cannot be opened: is it a blend file, of this Blender or an older one?")


def _armature(name: str | None) -> Object:
    """Return the armature object with a name; without one, the only one that has effectors."""
    scene: Any = bpy.context.scene
    armatures = [obj for obj in scene.objects if obj.type == 'ARMATURE']
    if name is None:
        found = [obj for obj in armatures if settings_of(obj).effectors]
        what = "no armature with effectors: add some in the sidebar, tab Poise, or with posing.add_effector"
        if found:
            listed = ", ".join(repr(obj.name) for obj in found)
            what = f"several armatures with effectors ({listed}): choose one with --armature"
    else:
        found = [obj for obj in armatures if obj.name == name]
        there = ", ".join(repr(obj.name) for obj in armatures) or "none at all"
        what = f"no armature {name!r}; there are {there}"
    if not found or (name is None and len(found) > 1):
        raise IKError(f"scene {scene.name!r} has {what}")
    return found[0]


def _bake(
    armature_object: Object, options: argparse.Namespace, interruption: _Interruption
) -> posing.BakeReport:
    """Solve a range of frames, key it in the armature's own action, and measure it in Blender."""
    if (options.start is None) != (options.end is None):
        raise IKError("give both --start and --end, or neither for the range in the file's settings")
    if options.start is not None and options.bake_range not in (None, 'CUSTOM'):
        raise IKError("give --range, or --start and --end, not both")
    frames = None if options.start is None else range(options.start, options.end + 1)
    told = -1

    def progress(part: float) -> None:
        nonlocal told
        interruption.check()
        percent = int(10.0 * part) * 10
        if percent > told and not options.quiet:
            told = percent
            _say(f"{percent} %")

    settings = settings_of(armature_object)  # as given, or as saved
    at_keys = settings.bake_at_keys and options.bake_step is None
    if options.bake_at_keys and options.bake_step is not None:
        raise IKError("give --step or --at-keys, not both")
    return posing.bake(armature_object, frames, step=settings.bake_step, at_keys=at_keys, progress=progress)


# Whether something can be written


def _check_places(options: argparse.Namespace) -> None:
    """Refuse places at which nothing can be written, as far as that is known beforehand."""
    read = options.file or (Path(bpy.data.filepath) if bpy.data.filepath else None)
    size = read.stat().st_size if read is not None and read.is_file() else 0
    places = [path.resolve() for path in (options.output, options.report) if path is not None]
    if len(places) > len(set(places)):
        raise IKError(f"--output and --report are both {str(options.output)!r}: give each its own name")
    for path, needed in ((options.output, size), (options.report, 0)):
        if path is not None:
            try:
                why = _obstacle(path, needed)
            except OSError as error:
                why = error.strerror or str(error)
            if not why and path == options.output and path.exists() and not path.is_file():
                why = "it is no file but a device or a pipe"
            if why:
                raise _unsaved(path, why)


def _obstacle(path: Path, needed: int) -> str:
    """Say what keeps so many bytes from being written at a place; empty where nothing does."""
    folder = path.resolve().parent
    if path.is_dir():
        return "it is a folder: give the name of a file"
    if folder.exists() and not folder.is_dir():
        return f"{str(folder)!r} is a file and no folder"
    if not folder.is_dir():
        return f"there is no such folder {str(folder)!r}: make it first"
    if path.exists():
        if not (path.stat().st_mode & stat.S_IWUSR and os.access(path, os.W_OK)):
            return "it is read-only: unlock it, or choose another name"
        if not path.is_file():
            return ""  # a device or a pipe, which is written to as it is
    with suppress(FileNotFoundError):
        path.lstat()  # a name that is too long
    with _beside(path) as trial:
        trial.write_bytes(b" ")
    free = shutil.disk_usage(folder).free
    if free >= needed:
        return ""
    return f"{_size(free)} are free there, and the file that is read has {_size(needed)}: make room"


def _unsaved(path: Path, why: str) -> IKError:
    return IKError(f"{str(path)!r} cannot be saved: {why}")


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def _room(path: Path) -> str:
    """Say how much more can be written into the folder of a path."""
    with suppress(OSError):
        return f"{_size(shutil.disk_usage(path.resolve().parent).free)} are free there"
    return "the folder cannot be reached"


# Writing


@contextmanager
def _beside(path: Path, suffix: str = "") -> Iterator[Path]:
    """Give a place in the same folder for what is renamed when it is whole; else nothing stays there."""
    beside = path.resolve().with_name(f".poise-{os.getpid()}{suffix}")
    try:
        yield beside
    finally:
        for left in (beside, beside.with_name(f"{beside.name}@")):  # Blender's own, before it renames
            with suppress(OSError):
                left.unlink(missing_ok=True)


@contextmanager
def _replacing(path: Path, suffix: str, interruption: _Interruption) -> Iterator[Path]:
    """Give a place for what comes to a path when all of it is on the disk."""
    with _beside(path, suffix) as beside:
        yield beside
        with beside.open("rb+") as file:
            os.fsync(file.fileno())  # a disk may say only now that it is full
        interruption.check()
        if suffix == ".blend":
            _keep_version(path.resolve())
        os.replace(beside, path.resolve())


def _save(path: Path, interruption: _Interruption) -> None:
    """Save the file into the folder where it is to be, so that relative paths in it hold."""
    try:
        with _replacing(path, ".blend", interruption) as beside:
            bpy.ops.wm.save_as_mainfile(filepath=str(beside), copy=True, check_existing=False)
            if not _is_whole(beside):
                raise RuntimeError
    except OSError as error:
        raise _unsaved(path, f"{error.strerror or error}, {_room(path)}") from error
    except RuntimeError as error:
        # What Blender says of a file that it could not write to its end is another error, or none.
        said = str(error).removeprefix("Error:").strip()
        why = said if said.startswith("Cannot") else "not all of it could be written"
        raise _unsaved(path, f"{why}, {_room(path)}") from error


def _is_whole(path: Path) -> bool:
    """Whether a blend file is there to its end: a full disk cuts compressed ones without a word."""
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(max(0, path.stat().st_size - 32))
        end = file.read()
    return end.endswith(ZSTD_END) if start == ZSTD else b"ENDB" in end


def _keep_version(place: Path) -> None:
    """Keep the file that is at a place as .blend1, and older ones, as many as the preferences say."""
    preferences: Any = bpy.context.preferences
    kept: int = preferences.filepaths.save_version
    if not (kept and place.is_file()):
        return
    names = [Path(f"{place}{number}") for number in range(1, kept + 1)]
    for newer, older in reversed(list(pairwise(names))):
        if newer.exists():
            os.replace(newer, older)
    names[0].unlink(missing_ok=True)
    try:
        os.link(place, names[0])  # so that there is a file at its place at any time
    except OSError:  # not on every disk
        os.replace(place, names[0])


def _write(path: Path, content: dict[str, Any], interruption: _Interruption) -> None:
    """Write a report."""
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        with _replacing(path, ".json", interruption) as beside:
            beside.write_text(text, encoding="utf-8")
    except OSError as error:
        raise IKError(f"the report {str(path)!r} cannot be written: {error.strerror or error}") from error


def _as_json(
    armature_object: Object,
    report: posing.Report | posing.BakeReport,
    output: Path | None,
    lost: Sequence[str],
) -> dict[str, Any]:
    """What a report says, lengths in metres, angles in radians, null where there is no such error.

    Of what could not be saved it says why, and that it has not reached anything.
    """
    settings = settings_of(armature_object)
    content = {
        "report_version": REPORT_VERSION,
        "task": "bake" if isinstance(report, posing.BakeReport) else "solve",
        "blender": bpy.app.version_string,
        "file": bpy.data.filepath,
        "armature": armature_object.name,
        "method": settings.method,
        "reached": report.reached and not lost,
        "summary": report.summary(),
        "output": None if output is None or lost else str(output.resolve()),
        "error": " ".join(lost),
        "notes": list(report.notes),
        "tolerance_position": settings.tolerance_position,
        "tolerance_rotation": settings.tolerance_rotation,
    }
    if isinstance(report, posing.Report):
        own = [{"name": e.name, "bone": e.bone, "reached": e.reached, "why": e.why} for e in report.effectors]
        content |= {"status": report.status, "iterations": report.iterations}
    else:
        errors = report.position_errors, report.rotation_errors
        missed = np.any(report.tolerances.missed(*errors), axis=0)
        rows = zip(report.names, missed.tolist(), report.worst_frames, report.reasons, strict=True)
        own = [{"name": n, "reached": not m, "worst_frame": f, "why": why} for n, m, f, why in rows]
        content |= {name: list(getattr(report, name)) for name in ("frames", "statuses", "branches")}
        content |= {name: getattr(report, name) for name in ("action", "keys", "keys_replaced")}
        content["iterations"] = report.iterations.tolist()
        content["between"] = list(report.between)
        for name in ("position_errors_between", "rotation_errors_between"):
            content[name] = [_numbers(row) for row in getattr(report, name).tolist()]
        content["smoothing"] = [
            {
                "name": added.name,
                "frame": added.frame,
                "position_error": None if added.angular else added.amount,
                "rotation_error": added.amount if added.angular else None,
            }
            for added in report.smoothing
        ]
        content["position_errors"] = [_numbers(row) for row in errors[0].tolist()]
        content["rotation_errors"] = [_numbers(row) for row in errors[1].tolist()]
    content["effectors"] = [
        {**effector, **dict(zip(("position_error", "rotation_error"), _numbers(shown[:2]), strict=True))}
        for effector, shown in zip(own, report.shown, strict=True)
    ]
    return content


def _numbers(values: Sequence[float]) -> list[float | None]:
    """Numbers as JSON has them, null for what is none."""
    return [value if math.isfinite(value) else None for value in values]


def register() -> None:
    """Add the command to Blender."""
    _registered.append(bpy.utils.register_cli_command(COMMAND, run))


def unregister() -> None:
    """Take it away."""
    while _registered:
        bpy.utils.unregister_cli_command(_registered.pop())

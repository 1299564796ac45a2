# SPDX-License-Identifier: GPL-3.0-or-later
"""The command itself: one shot in this process, or several by workers; and its exit code.

Of a shot the file is written first, then the report.
"""

import argparse
import json
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import bpy

from ..core.errors import IKError
from ..core.problem.options import METHODS
from ..scene import posing
from .arguments import COMMAND, parser
from .content import as_json, with_files
from .exit_codes import Exit
from .finished import arguments_of, finished, sources
from .interruption import Interruption
from .shots import Shot, shots_of
from .telling import Teller
from .work import Done, do
from .workers import Workers
from .writing import check_places, draw_errors, save, write_json

_registered: list[Any] = []
"""Blender's handle of our command."""


def run(arguments: Sequence[str]) -> int:
    """Run what follows `--command poise` or `-m blender_ik_addon`; returns the exit code."""
    try:
        options = parser().parse_args(list(arguments))
    except SystemExit as end:  # argparse has said what is wrong, or printed its help
        return Exit.REFUSED if end.code else Exit.REACHED
    if options.task == "methods":
        _list_methods(as_json=options.json)
        return Exit.REACHED
    # A worker tells whoever has started it by lines, and has no terminal.
    teller = Teller(quiet=options.quiet, bar=False if options.only else options.progress)
    with Interruption(follows_parent=options.only is not None) as interruption:
        try:
            shots = _shots(options)
            if len(shots) > 1:
                return Workers(shots, options, arguments, teller, interruption).run()
            [shot] = shots
            return _run_shot(shot, options, teller, interruption)
        except (IKError, OSError) as error:
            teller.say(str(error), wrong=True)
            return Exit.REFUSED
        except KeyboardInterrupt:
            teller.say("interrupted, nothing was written", wrong=True)
            return interruption.exit_code
        except Exception:  # noqa: BLE001  Blender calls us; Python's own exit code for it is that of a miss
            teller.close()
            traceback.print_exc()
            teller.say(
                "this is a fault in Poise or Blender: please report it with the lines above", wrong=True
            )
            return Exit.CRASHED
        finally:
            teller.close()


def _shots(options: argparse.Namespace) -> list[Shot]:
    """Return the shots that are asked for, after a look at where their results are to go."""
    opened = Path(bpy.data.filepath) if bpy.data.filepath else None
    if not options.files:
        _check_opened(sys.argv)
    shots = shots_of(options, opened, unchanged=_is_as_opened(opened, sys.argv))
    for shot in shots:
        if shot.file is not None and not shot.file.is_file():
            raise IKError(f"there is no file {str(shot.file)!r}")
    if getattr(options, "plot", None) is not None and find_spec("matplotlib") is None:
        raise IKError(f"--plot needs matplotlib: install it for the Python at {sys.prefix!r}")
    if options.only is not None:  # looked at by who has started this
        return [shot for shot in shots if str(shot.file) == options.only] or [_lone(options)]
    for shot in shots:
        if finished(shot, options) is None:
            check_places(shot)  # before the work: a long bake must not be lost at its end
    return shots


def _lone(options: argparse.Namespace) -> Shot:
    """The one shot that is asked for, where patterns find other files by now."""
    own = argparse.Namespace(**{**vars(options), "files": [options.only]})
    return shots_of(own, None, unchanged=False)[0]


def _files_before(arguments: Sequence[str]) -> list[str]:
    """The blend files that Blender was given before the name of the command."""
    given = [index for index, argument in enumerate(arguments) if argument in {"--command", "-c"}]
    before = arguments[: given[0]] if given else ()
    return [a for a in before if not a.startswith("-") and re.search(r"\.blend\d*$", a.lower())]


def _check_opened(arguments: Sequence[str]) -> None:
    """Refuse to go on with the default scene where Blender could not open the file that it was given."""
    files = _files_before(arguments)
    for file in files:
        if not Path(file).is_file():
            raise IKError(f"there is no file {file!r}")
    if files and not bpy.data.filepath:
        raise IKError(f"{files[-1]!r} cannot be opened: is it a blend file, of this Blender or an older one?")


def _is_as_opened(opened: Path | None, arguments: Sequence[str]) -> bool:
    """Whether the open file is what Blender was given, and no script has been run on it."""
    files = _files_before(arguments)
    scripts = any(argument.startswith(("--python", "-P")) for argument in arguments)
    return (
        opened is not None and bool(files) and Path(files[-1]).resolve() == opened.resolve() and not scripts
    )


def _run_shot(shot: Shot, options: argparse.Namespace, teller: Teller, interruption: Interruption) -> int:
    """Open the file of a shot, do the task, and write the results; the exit code."""
    ended = finished(shot, options)
    if ended is not None:
        teller.say(f"{shot.name!r} is finished, says {str(shot.report)!r}; --redo does it again")
        return ended
    if shot.file is not None:
        try:
            bpy.ops.wm.open_mainfile(filepath=str(shot.file.resolve()))
        except RuntimeError as error:
            raise IKError(f"{str(shot.file)!r} cannot be opened: {str(error).strip()}") from error
    read = sources(shot)
    done = do(options, teller, interruption)
    interruption.holds = True
    return _write_results(shot, done, read, options, teller, interruption)


def _write_results(
    shot: Shot,
    done: Done,
    read: list[dict[str, Any]],
    options: argparse.Namespace,
    teller: Teller,
    interruption: Interruption,
) -> int:
    """Write the file, then the report, and say what was written and what was not; the exit code."""
    for _, report in done:
        teller.say(report.summary())
    lost: list[str] = []
    written: list[str] = []

    def attempt(write: Callable[[], None], what: str) -> None:
        try:
            write()
        except IKError as error:
            lost.append(str(error))
        else:
            written.append(what)

    contents = [as_json(*own) for own in done]
    reached = all(content["reached"] for content in contents)
    output, drawn = shot.output, done[0][1]
    try:
        if output is not None:
            attempt(lambda: save(output, interruption), f"saved {str(output)!r}")
        elif options.task != "report":
            teller.say("the file was not saved; --output says where to")
        if shot.plot is not None and isinstance(drawn, posing.BakeReport):
            plot = shot.plot
            attempt(lambda: draw_errors(plot, drawn, interruption), f"drew {str(plot)!r}")
        if shot.report is not None:
            place = shot.report
            if output is not None and shot.source is not None and output.resolve() == shot.source.resolve():
                read = [*sources(shot)[:1], *read[1:]]  # it was saved on itself
            files = {
                "task": options.task,
                "output": None if output is None else str(output.resolve()),
                "sources": read,
                "arguments": arguments_of(options),
            }
            report, *others = (with_files(content, files, lost) for content in contents)
            report |= {"others": others} if others else {}
            attempt(lambda: write_json(place, report, interruption), f"wrote the report {str(place)!r}")
        allowed = reached or options.allow_misses
        ended: int = Exit.UNWRITTEN if lost else Exit.REACHED if allowed else Exit.MISSED
    except KeyboardInterrupt:
        lost.append(f"interrupted, {'nothing else' if written else 'nothing'} was written")
        ended = interruption.exit_code
    for what in written:
        teller.say(what)
    for why in lost:
        teller.say(why, wrong=True)
    return ended


def _list_methods(*, as_json: bool) -> None:
    """Print the methods."""
    teller = Teller(quiet=True)
    if as_json:
        print(json.dumps(METHODS, indent=1))
        return
    width = max(map(len, METHODS))
    for name, text in METHODS.items():
        teller.say(f"{name.ljust(width)}  {text}")


def register() -> None:
    """Add the command to Blender."""
    _registered.append(bpy.utils.register_cli_command(COMMAND, run))


def unregister() -> None:
    """Take it away."""
    while _registered:
        bpy.utils.unregister_cli_command(_registered.pop())

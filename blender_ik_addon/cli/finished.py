# SPDX-License-Identifier: GPL-3.0-or-later
"""What need not be done again: shots whose report says that the same was done with the same files.

A report notes the arguments and, by size and time of change, the files that were read: the shot and the
libraries that it links. It is written after the file. So a shot of which the report is there is whole. One
that was interrupted, has changed since, or is asked for otherwise is done again.
"""

import argparse
import json
from pathlib import Path
from typing import Any, Final

import bpy

from .exit_codes import Exit
from .shots import RESULTS, Shot

ABOUT_THE_RUN: Final = frozenset(
    {*RESULTS, "files", "only", "jobs", "redo", "quiet", "progress", "allow_misses"}
)
"""Arguments that change nothing in what comes out of a shot."""


def arguments_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments that decide what comes out of a shot, as JSON has them."""
    own = {name: value for name, value in vars(options).items() if name not in ABOUT_THE_RUN}
    return json.loads(json.dumps(own, default=str))


def sources(shot: Shot) -> list[dict[str, Any]]:
    """Return the files from which the open scene comes, the shot first, with size and time of change.

    Both are None for a library that is not there: when it is, the shot is another one.
    """
    libraries: Any = bpy.data.libraries
    paths = [Path(bpy.path.abspath(library.filepath)) for library in libraries]
    found = [shot.source, *sorted({path.resolve() for path in paths})]
    return [_source(path) for path in found if path is not None]


def _source(path: Path) -> dict[str, Any]:
    state = path.stat() if path.is_file() else None
    size, changed = (None, None) if state is None else (state.st_size, state.st_mtime_ns)
    return {"path": str(path.resolve()), "size": size, "changed": changed}


def finished(shot: Shot, options: argparse.Namespace) -> Exit | None:
    """Return how a shot ended that is finished; None where it is to be done."""
    if shot.report is None or shot.source is None or options.redo:
        return None
    try:
        if not all(path.is_file() for path in shot.results):
            return None
        report = json.loads(shot.report.read_text(encoding="utf-8"))
        read = report["sources"]
        same = report["arguments"] == arguments_of(options) and bool(read) and not report["error"]
        if not same or read != [_source(shot.source), *(_source(Path(own["path"])) for own in read[1:])]:
            return None
        reached = bool(report["reached"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # no report of ours, or no such file
        return None
    return Exit.REACHED if reached or options.allow_misses else Exit.MISSED

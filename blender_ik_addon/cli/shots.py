# SPDX-License-Identifier: GPL-3.0-or-later
"""Shots: the files that the command is about, and where the results of each go."""

import argparse
import glob
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..core.errors import IKError

RESULTS: Final = ("output", "report", "plot")
"""Options that name files to write."""


@dataclass(frozen=True)
class Shot:
    """One file, which is solved in one piece, and its results."""

    file: Path | None
    """The file to open; None for the one that is open."""
    source: Path | None
    """The file in which the scene is as it is now; None where it may have been changed since it was read."""
    output: Path | None = None
    """Where the blend file is saved."""
    report: Path | None = None
    plot: Path | None = None

    @property
    def name(self) -> str:
        """What the shot is called, as it was given."""
        return str(self.file or self.source or "the open file")

    @property
    def results(self) -> tuple[Path, ...]:
        """All files that are written."""
        return tuple(path for path in (self.output, self.report, self.plot) if path is not None)


def shots_of(options: argparse.Namespace, opened: Path | None, *, unchanged: bool) -> list[Shot]:
    """Return the shots of a command, in the order in which they were given.

    Args:
        options: With `files`, patterns among them, and the files to write: {name} and {folder} in these stand
            for the name without suffix and the folder of the shot's file.
        opened: The file that is open, which is the shot where no file is given.
        unchanged: Whether it is as it was read.

    Raises:
        IKError: A pattern has no file, or two shots would write one file.
    """
    if not options.files:
        return [Shot(None, opened if unchanged else None, **_results(options, opened))]
    files = _files(options.files)
    shots = [Shot(file, file, **_results(options, file)) for file in files]
    if len(shots) > 1:
        # A pattern finds what an earlier run of the same command has written among the shots.
        written = {path.resolve(): shot for shot in shots for path in shot.results}
        shots = [shot for shot in shots if written.get(_place(shot), shot) is shot]
        _check_apart(shots)
    return shots


def _place(shot: Shot) -> Path:
    assert shot.file is not None
    return shot.file.resolve()


def _files(given: Iterable[str]) -> list[Path]:
    """The files that are given by name or pattern, each once."""
    found: dict[Path, Path] = {}
    for text in given:
        path = Path(text)
        matches = [text]
        if glob.has_magic(text) and not path.exists():
            matches = sorted(own for own in glob.glob(text, recursive=True) if Path(own).is_file())
            if not matches:
                raise IKError(f"no file is called like {text!r}")
        for own in matches:
            found.setdefault(Path(own).resolve(), Path(own))
    return list(found.values())


def _results(options: argparse.Namespace, file: Path | None) -> dict[str, Path | None]:
    """Where the results of a shot go."""
    named = {option: getattr(options, option, None) for option in RESULTS}
    return {
        option: None if text is None else Path(_filled(option, text, file)) for option, text in named.items()
    }


def _filled(option: str, text: str, file: Path | None) -> str:
    for field, value in (("{name}", lambda own: own.stem), ("{folder}", lambda own: own.parent)):
        if field in text:
            if file is None:
                raise IKError(f"--{option} asks for the {field} of a file, and the scene is in none")
            text = text.replace(field, str(value(file)))
    return text


def _check_apart(shots: Sequence[Shot]) -> None:
    """Refuse two shots that would write one file."""
    for option in RESULTS:
        taken: dict[Path, Shot] = {}
        for shot in shots:
            path: Path | None = getattr(shot, option)
            other = shot if path is None else taken.setdefault(path.resolve(), shot)
            if other is not shot:
                raise IKError(
                    f"--{option} is {str(path)!r} for {other.name!r} and for {shot.name!r}: put {{name}}, or "
                    f"{{folder}} and {{name}}, into it"
                )

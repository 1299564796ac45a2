# SPDX-License-Identifier: GPL-3.0-or-later
"""What the command says: lines on the output, errors and a progress bar on the error output."""

import re
import shutil
import sys
from contextlib import suppress
from typing import Any, Final

PREFIX: Final = "poise: "
ERROR: Final = f"{PREFIX}ERROR: "
PERCENT: Final = re.compile(rf"{PREFIX}(\d+) %")
"""A line on how far a shot is."""
WIDTH: Final = 24
"""Of the bar [characters]."""
STEP: Final = 10
"""Part after which a line says how far a shot is [%]."""


class Teller:
    """Says lines, and how far the work is: by a bar on a terminal, else by lines."""

    def __init__(self, *, quiet: bool = False, bar: bool | None = None) -> None:
        """`bar`: whether there is a progress bar; None: where the error output is a terminal."""
        self._bar = not quiet and (_is_terminal(sys.stderr) if bar is None else bar)
        self._lines = not quiet and not self._bar
        self._shown, self._percent = "", -1

    def say(self, text: str, *, wrong: bool = False) -> None:
        """Print a line as far as the stream takes it: no bake is lost for one that nobody reads."""
        shown, self._shown = self._shown, ""
        if shown:
            _write(sys.stderr, f"\r{' ' * len(shown)}\r")
        _write(sys.stderr if wrong else sys.stdout, f"{ERROR if wrong else PREFIX}{text}\n")
        if shown:
            self._draw(shown)

    def progress(self, part: float, text: str = "") -> None:
        """Say how much is done, in [0, 1]; a `text` is said beside a bar only, where there is one."""
        if self._bar:
            full = int(WIDTH * part)
            columns = shutil.get_terminal_size().columns
            self._draw(f"[{'#' * full}{'-' * (WIDTH - full)}] {int(100 * part):3d} % {text}"[: columns - 1])
        percent = int(100.0 / STEP * part) * STEP
        if self._lines and not text and percent > self._percent:
            self._percent = percent
            self.say(f"{percent} %")

    def close(self) -> None:
        """Leave the bar as it is, with the next line below it."""
        if self._shown:
            _write(sys.stderr, "\n")
        self._shown = ""

    def _draw(self, line: str) -> None:
        if line != self._shown:
            _write(sys.stderr, f"\r{line.ljust(len(self._shown))}")
            self._shown = line


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def _write(stream: Any, text: str) -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    with suppress(OSError, ValueError, AttributeError):  # it is closed
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()

# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables, lists and paths in what the scripts write; the first line of a table is its heading."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

FIRST: Final = 3
"""How many names a list gives before it says how many more there are."""


def markdown_table(lines: Sequence[Sequence[str]]) -> str:
    """Cells as a table in Markdown, without a line break at its end."""
    heading, *others = lines
    return "\n".join("| " + " | ".join(line) + " |" for line in (heading, ("---",) * len(heading), *others))


def text_table(lines: Sequence[Sequence[str]]) -> str:
    """Cells as aligned text for the terminal."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def first_of(names: Sequence[str]) -> str:
    """Names in a row, the first few of many."""
    shown = ", ".join(names[:FIRST])
    return f"{shown} and {len(names) - FIRST} more" if len(names) > FIRST else shown


def typed(path: Path) -> str:
    """A path as others may type it: nobody else has this machine's folders."""
    return path.name if path.is_absolute() else path.as_posix()

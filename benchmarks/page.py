# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages of docs/measured: a template of `pages/`, filled with a summary, tables, verdicts and facts.

Every template has `{command}`, by which the page is made, `{summary}`, the figures that matter in at most
five lines, and `{facts}`, with what it was made; the other places are filled by the module of the page.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

TEMPLATES: Final = Path(__file__).parent / "pages"

LONGEST_SUMMARY: Final = 5  # Lines
FIRST: Final = 3  # How many names a list gives before it says how many more there are
VERDICTS: Final = {True: "yes", False: "NO", None: "for comparison"}

Row = TypeVar("Row")
Column = tuple[str, Callable[[Row], str]]  # A heading, and what stands below it for a row
Columns = Sequence[Column[Row]]


def arguments(prog: str, doc: str | None, *, page: Path | None = None) -> argparse.ArgumentParser:
    """The command line of a script, with --markdown; without a page it is printed."""
    parser = argparse.ArgumentParser(prog=prog, description=(doc or "").splitlines()[0])
    where = f"default: {page}" if page else "default: print it"
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", default=page, help=f"write the page ({where})"
    )
    return parser


def command(prog: str) -> str:
    """The command of this run as others may type it: nobody else has this machine's folders."""
    words, is_data = [prog], False
    for word in (part for argument in sys.argv[1:] for part in argument.split("=", maxsplit=1)):
        path = Path(word)
        if is_data:
            words.append("FILE" if path.is_file() else "DIR")
        else:
            words.append(path.name if path.is_absolute() else word)
        is_data = word.startswith("--data")
    return " ".join(words)


def facts() -> str:
    """With what this runs."""
    versions = [f"numpy {np.__version__}", f"Python {platform.python_version()}", platform.machine()]
    if "bpy" in sys.modules:
        versions.insert(0, f"Blender {sys.modules['bpy'].app.version_string}")
    return ", ".join(versions)


def publish(path: Path | None, template: str, prog: str, summary: Sequence[str], **parts: str) -> None:
    """Write a page, or print it where there is no path.

    Raises:
        ValueError: The summary is too long.
    """
    if len(summary) > LONGEST_SUMMARY:
        raise ValueError(f"{len(summary)} lines of summary, at most {LONGEST_SUMMARY} are wanted")
    text = (TEMPLATES / f"{template}.md").read_text(encoding="utf-8")
    page = text.format(command=command(prog), summary=listed(summary), facts=facts(), **parts)
    if path is None:
        print(page)
    else:
        path.write_text(page, encoding="utf-8")
        print(f"{listed(summary)}\n\nSee {path}.")


def picture(path: Path | None, name: str) -> Path | None:
    """Where the picture of a page is; None where the page is printed."""
    return None if path is None else path.parent / "images" / f"{name}.png"


def progress(*words: object) -> None:
    """Say what was measured, while the rest is."""
    print(*words, file=sys.stderr, flush=True)


# Markdown


def table(lines: Sequence[Sequence[str]]) -> str:
    """Cells as a table, the first line is its heading."""
    heading, *others = lines
    return "\n".join("| " + " | ".join(line) + " |" for line in (heading, ("---",) * len(heading), *others))


def tabled(columns: Columns[Row], rows: Sequence[Row]) -> str:
    """A table with a line for each row."""
    return table([[heading for heading, _ in columns], *([cell(row) for _, cell in columns] for row in rows)])


def listed(lines: Sequence[str], otherwise: str = "") -> str:
    """Lines as a list; another text where there are none."""
    return "\n".join(f"- {line}" for line in lines) or otherwise


def judged(verdicts: Sequence[tuple[str, bool | None]]) -> str:
    """A list of what was wanted and whether it holds; None where it is no more than said."""
    return listed([f"{VERDICTS[met]}: {what}" for what, met in verdicts])


def kept(verdicts: Sequence[tuple[str, bool | None]]) -> str:
    """How many of them hold."""
    met = [met for _, met in verdicts if met is not None]
    return f"{sum(met)} of {len(met)} wanted figures are reached."


def first_of(names: Sequence[str]) -> str:
    """Names in a row, the first few of many."""
    shown = ", ".join(names[:FIRST])
    return f"{shown} and {len(names) - FIRST} more" if len(names) > FIRST else shown


def said_of(notes: Sequence[tuple[str, Sequence[str]]]) -> str:
    """What was said of each of some rigs, as a list with the rigs of which it was said."""
    rigs: dict[str, list[str]] = {}
    for rig, lines in notes:
        for line in lines:
            rigs.setdefault(line, []).append(rig)
    return listed([f"{line} ({first_of(names)})" for line, names in rigs.items()], "Nothing.")

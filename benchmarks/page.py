# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages of docs/measured: templates of `pages/`, filled with what was measured.

A module measures and hands over records; its template says which figures of them are shown, and how. They
are filled in by `str.format`. Fields may name the constants of the module, its options, `command`, by which
the page is made, and `facts`, with what. A field is a `Figure`: `{rows.turn}` are the turns of all rows, and
`{rows.turn:deg max .1f}` is the largest of them in degrees, see `told`.

`[row of rows] TEXT` stands for the text once for each of them, `[row of rows]` on a line of its own for all
lines down to `[end]`. So an optional part of a page is one of a list with one entry or none.

The first list of a page is its summary: the figures that matter, in at most five lines.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import dropwhile, takewhile
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, TypeVar

import numpy as np

from blender_ik_addon.core.arrays import FloatArray

Row = TypeVar("Row")

TEMPLATES: Final = Path(__file__).parent / "pages"
REPEATED: Final = re.compile(r"\[(\w+) of ([\w.]+)\](?: (.*))?")

LONGEST_SUMMARY: Final = 5  # Lines
FIRST: Final = 3  # How many names a list gives before it says how many more there are

UNITS: Final = {"deg": np.degrees(1.0), "%": 100.0, "cm": 100.0, "mm": 1e3, "ms": 1e3, "µs": 1e6, "MB": 1e-6}
"""Of angles in radians, parts, lengths in metres, times in seconds, memory in bytes."""
WAYS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "min": np.min,
    "median": np.median,
    "mean": np.mean,
    "95": lambda values: np.percentile(values, 95),
    "max": np.max,
    "sum": np.sum,
}


# The command


def arguments(
    prog: str, doc: str | None, page: Path | None = None, /, **others: tuple[Any, str]
) -> argparse.ArgumentParser:
    """The command line of a script, with --markdown; without a page it is printed.

    Args:
        prog: What is typed.
        doc: Of the module; its first line says what the script does.
        page: Where the page goes if nothing else is said.
        others: Further options: the default, where `Path` is a path or none and `...` one that must be given,
            and what it is.
    """
    parser = argparse.ArgumentParser(prog=prog, description=(doc or "").splitlines()[0])
    where = f"default: {page}" if page else "default: print it"
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", default=page, help=f"write the page ({where})"
    )
    parser.set_defaults(command=command(prog))
    for name, (default, what) in others.items():
        option = f"--{name.replace('_', '-')}"
        if default in (Path, ...):
            required = default is ...
            parser.add_argument(option, type=Path, metavar="PATH", help=what, required=required)
        elif isinstance(default, bool):
            parser.add_argument(option, action="store_true", help=what)
        else:
            told_default = f" (default {default})" if default else ""
            parser.add_argument(option, type=type(default), default=default, help=what + told_default)
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


def progress(*words: object) -> None:
    """Say what was measured, while the rest is."""
    print(*words, file=sys.stderr, flush=True)


def measured(rows: Iterable[Row], words: str) -> list[Row]:
    """All rows; each is told in words, a template about `row`, as soon as it is measured."""
    found: list[Row] = []
    for row in rows:
        found.append(row)
        progress(filled(words, {"row": row}))
    return found


# The page


def publish(options: argparse.Namespace, name: str, constants: Mapping[str, Any], /, **found: Any) -> None:
    """Write a page, or print it where there is no path.

    Args:
        options: Of the command line.
        name: Of the template.
        constants: Of the module.
        found: What was measured.

    Raises:
        ValueError: The summary is too long.
    """
    page = filled(template(name), {**constants, **vars(options), "facts": facts(), **found})
    lines = dropwhile(lambda line: not line.startswith("- "), page.splitlines())
    summary = list(takewhile(lambda line: line.startswith("- "), lines))
    if len(summary) > LONGEST_SUMMARY:
        raise ValueError(f"{len(summary)} lines of summary, at most {LONGEST_SUMMARY} are wanted")
    if options.markdown is None:
        print(page)
    else:
        options.markdown.write_text(page, encoding="utf-8")
        print("\n".join([*summary, "", f"See {options.markdown}."]))


def stored(name: str) -> Any:
    """The data of a JSON file of this folder."""
    return json.loads((TEMPLATES.parent / f"{name}.json").read_text(encoding="utf-8"))


def template(name: str) -> str:
    """The text of a template."""
    return (TEMPLATES / f"{name}.md").read_text(encoding="utf-8")


def filled(text: str, values: Mapping[str, Any]) -> str:
    """A template with its fields filled in and its lines repeated."""
    lines, found = iter(text.split("\n")), []
    for line in lines:
        repeated = REPEATED.fullmatch(line)
        if repeated is None:
            found.append(line.format_map({name: Figure(value) for name, value in values.items()}))
            continue
        name, every, body = repeated.groups()
        if body is None:
            body = "\n".join(takewhile(lambda line: line != "[end]", lines))
        rows = attrgetter(every)(Figure(SimpleNamespace(**values)))._shown
        found += [filled(body, {**values, name: row}) for row in rows]
    return "\n".join(found)


class Figure:
    """A value that knows how it is shown. What a list does not have itself its entries have, each its own."""

    def __init__(self, value: Any) -> None:
        self._shown = value

    def __getattr__(self, name: str) -> Figure:
        value = self._shown
        return Figure([getattr(row, name) for row in value] if type(value) is list else getattr(value, name))

    def __getitem__(self, row: int) -> Figure:
        return Figure(self._shown[row])

    def __format__(self, form: str) -> str:
        return told(self._shown, form)


def told(value: Any, form: str = "") -> str:
    """A figure, or a sequence of them, as words and a format want it.

    Words are units, by which it is multiplied, and ways, of which one figure comes that is told in place of
    many, those that are not finite left out; `count` is how many there are, `total` how
    many in sequences of a sequence, `span` the least and the largest,
    one figure where they are written alike. The format `short` is three digits, and no more than three behind
    the point; `wanted` tells a no from afar. What is missing is a dash, an empty sequence `none`.
    """
    word, _, rest = form.partition(" ")
    if word == "count":
        return told(len(value), rest)
    if word == "total":
        return told(sum(len(part) for part in value), rest)
    if word in UNITS:
        return told(_numbers(value) * UNITS[word], rest)
    if word in WAYS or word == "span":
        known = _numbers(value)
        known = known[np.isfinite(known)]
        if not known.size:
            return told(None)
        if word in WAYS:
            return told(WAYS[word](known), rest)
        ends = told(known.min(), rest), told(known.max(), rest)
        return ends[0] if ends[0] == ends[1] else " to ".join(ends)
    if isinstance(value, list | tuple | np.ndarray):
        if not len(value):
            return "none"
        return ", ".join(told(part, form) for part in value)
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "NO" if form == "wanted" else "no"
    if form == "short":
        if 0.0 < value < 5e-4:
            return "< 0.001"
        return f"{value:.3g}" if value >= 0.1 else f"{value:.3f}"
    return format(value, form)


def _numbers(value: Any) -> FloatArray:
    """Numbers as an array, (n,); those that are missing are not numbers."""
    parts = value if isinstance(value, list | tuple) else [value]
    return np.concatenate([np.zeros(0), *(np.array(part, dtype=np.float64).ravel() for part in parts)])


def said_of(notes: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """What was said of each of some rigs, with the first few of the rigs of which it was said."""
    rigs: dict[str, list[str]] = {}
    for rig, lines in notes:
        for line in lines:
            rigs.setdefault(line, []).append(rig)
    more = {line: f" and {len(of) - FIRST} more" if len(of) > FIRST else "" for line, of in rigs.items()}
    return [f"{line} ({', '.join(of[:FIRST])}{more[line]})" for line, of in rigs.items()]

# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles recognised on many rigs against what they are, as a table: scripts/roles.

    scripts/roles [--data DIR] [--only WORD] [--json FILE] [--markdown FILE]

The rigs are Rigify's metarigs, what Rigify generates from each, and, with --data, the BVH, glTF and FBX
files that DIR/index.json lists under "file". What they are was written down by looking at them, in
`roles_truth.py`. Needs the bpy module. Exits with 1 if a rig has no truth, cannot be read, or a role is
missed or wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import bpy
import numpy as np
from bpy.types import Object

from benchmarks.kinematics import import_file, metarigs, rigify
from benchmarks.roles_truth import RIGS, Expected, expected
from benchmarks.tables import first_of, markdown_table, text_table
from blender_ik_addon.core import Skeleton
from blender_ik_addon.core.roles import Character, Role, recognise
from blender_ik_addon.scene.armature import read_armature
from blender_ik_addon.scene.role_table import read_hints

RUNS: Final = 5
"""How often each recognition is timed; the fastest counts."""

WANTED: Final = 1.0
"""Longest time [s] for a rig of up to 200 bones."""

BODY: Final = frozenset(Role) - {Role.FINGER, Role.TOE, Role.HEAD_PART, Role.EYE, Role.JAW}
"""Roles that effectors stand on, which shape alone should give as well."""


@dataclass
class Row:
    """One rig."""

    rig: str
    bones: int
    figures: str
    """What kinds of figures were seen."""
    wanted: int
    """Bones that have a role in truth."""
    found: int
    """Those that got it, on the right side."""
    missed: list[str] = field(default_factory=list[str])
    """Those that got none."""
    wrong: list[str] = field(default_factory=list[str])
    """Those that got another one, with both."""
    extra: list[str] = field(default_factory=list[str])
    """Bones that got a role and have none in truth, with it."""
    notes: list[str] = field(default_factory=list[str])
    seconds: float = 0.0
    shape: tuple[int, int] | None = None
    """Bones with a role in `BODY` that shape alone got right, and their number."""


def compare(rig: str, armature_object: Object) -> Row:
    """Recognise a rig and compare it with its truth.

    Raises:
        ValueError: There is no truth, or it does not fit the rig.
    """
    armature = read_armature(armature_object)
    skeleton = armature.skeleton
    hints = read_hints(armature_object, skeleton)
    text = next((truth for pattern, truth in RIGS.items() if fnmatch(rig, pattern)), None)
    if text is None:
        raise ValueError("nobody has written down what it is")
    truth = expected(text, skeleton.names, skeleton.parents.tolist())
    times: list[float] = []
    for _ in range(RUNS):
        start = time.perf_counter()
        character = recognise(skeleton, hints)
        times.append(time.perf_counter() - start)
    row = judged(rig, skeleton, character, truth)
    row.seconds = min(times)
    if not rig.startswith("generated"):
        row.shape = by_shape(skeleton, truth)
    return row


def judged(rig: str, skeleton: Skeleton, character: Character, truth: dict[str, Expected]) -> Row:
    """Compare what was recognised with the truth."""
    given = {choice.name: choice for choice in character.choices}
    row = Row(
        rig=rig,
        bones=len(skeleton),
        figures=", ".join(str(figure.body) for figure in character.figures) or "none",
        wanted=len(truth),
        found=0,
        notes=list(character.notes),
    )
    for name in skeleton.names:
        choice, right = given.get(name), truth.get(name)
        if right is None and choice is not None:
            row.extra.append(f"{name}: {choice.role} {choice.side}")
        elif right is not None and choice is None:
            row.missed.append(name)
        elif right is not None and choice is not None:
            if choice.role in right.roles and choice.side == right.side:
                row.found += 1
            else:
                wanted = " or ".join(sorted(right.roles))
                row.wrong.append(f"{name}: {choice.role} {choice.side}, is {wanted} {right.side}")
    return row


def by_shape(skeleton: Skeleton, truth: dict[str, Expected]) -> tuple[int, int]:
    """How many bones of the body get their role without any name, and how many there are."""
    names = [f"bone_{joint:03d}" for joint in range(len(skeleton))]
    nameless = Skeleton.build(names, skeleton.parents.tolist(), rest=skeleton.rest)
    choices = {skeleton.names[choice.joint]: choice for choice in recognise(nameless).choices}
    body = {name: right for name, right in truth.items() if right.roles & BODY}
    good = sum(
        name in choices and choices[name].role in right.roles and choices[name].side == right.side
        for name, right in body.items()
    )
    return good, len(body)


# ---------------------------------------------------------------- rigs


def rigs(data: Path | None, only: str) -> Iterator[tuple[str, Object | str | None]]:
    """Every rig with its armature object, or why it cannot be read."""
    with rigify():
        for name, add in metarigs().items():
            if only not in f"metarig: {name}" and only not in f"generated: {name}":
                continue
            bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
            add()
            yield f"metarig: {name}", bpy.context.object
            if only in f"generated: {name}":
                with contextlib.redirect_stdout(io.StringIO()):
                    bpy.ops.pose.rigify_generate()
                yield f"generated: {name}", bpy.context.object
    if data is None:
        return
    for entry in json.loads((data / "index.json").read_text(encoding="utf-8")):
        file = entry["file"]
        if only not in file:
            continue
        bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                import_file(data / file)
        except (RuntimeError, OSError) as error:
            yield file, str(error)
            continue
        armatures = [thing for thing in bpy.data.objects if thing.type == 'ARMATURE']
        yield file, armatures[0] if armatures else "no armature in it"


# ---------------------------------------------------------------- output

HEADINGS: Final = (
    "rig",
    "bones",
    "seen as",
    "roles",
    "found",
    "missed",
    "wrong",
    "extra",
    "ms",
    "by shape alone",
)


def cells(row: Row) -> tuple[str, ...]:
    """A line of the table."""
    shape = "–" if row.shape is None or not row.shape[1] else f"{row.shape[0]} of {row.shape[1]}"
    return (
        row.rig,
        str(row.bones),
        row.figures,
        str(row.wanted),
        str(row.found),
        str(len(row.missed)),
        str(len(row.wrong)),
        str(len(row.extra)),
        f"{row.seconds * 1e3:.1f}",
        shape,
    )


def totals(rows: Sequence[Row]) -> tuple[str, ...]:
    """The last line of the table."""
    shapes = [row.shape for row in rows if row.shape is not None]
    return (
        f"all {len(rows)}",
        str(sum(row.bones for row in rows)),
        "",
        str(sum(row.wanted for row in rows)),
        str(sum(row.found for row in rows)),
        str(sum(len(row.missed) for row in rows)),
        str(sum(len(row.wrong) for row in rows)),
        str(sum(len(row.extra) for row in rows)),
        f"{max((row.seconds for row in rows), default=0.0) * 1e3:.1f} at most",
        f"{sum(good for good, _ in shapes)} of {sum(number for _, number in shapes)}",
    )


def verdicts(rows: Sequence[Row]) -> list[str]:
    """Sentences on what is wanted."""
    right = sum(not (row.missed or row.wrong) for row in rows)
    small = max((row.seconds for row in rows if row.bones <= 200), default=0.0)
    return [
        f"{right} of {len(rows)} rigs have no role missed and none wrong",
        f"{small * 1e3:.1f} ms at most up to 200 bones, wanted less than {WANTED * 1e3:.0f}",
    ]


def details(rows: Sequence[Row]) -> list[str]:
    """Every miss by name."""
    lines: list[str] = []
    for row in rows:
        for what, entries in (("missed", row.missed), ("wrong", row.wrong), ("extra", row.extra)):
            if entries:
                lines.append(f"{row.rig}: {what}: {'; '.join(entries)}")
    return lines


INTRODUCTION: Final = """
What is recognised of a rig before effectors are set up: a role for each bone of a body, from names, and
from shape where names are silent. What each rig is was written down by looking at it
(`benchmarks/roles_truth.py`); where two readings are as good, both count. *Roles* is the number of
bones that have one in truth; *missed* got none, *wrong* another one or the other side; *extra* are other
bones that got one. *By shape alone*: the same rig with all its names replaced by numbers; of the bones that
are no fingers, toes or parts of the head, those that still got their role and side. The rest pose of some
recordings is no figure (both arms to one side), bones in pairs that share a limb's part are told apart by
names only, and fins have nothing in their shape that legs have not.
"""


def page(rows: Sequence[Row], command: str) -> str:
    """The manual's page."""
    listed = [f"- {line}" for line in details(rows)] or ["None."]
    notes: dict[str, list[str]] = {}
    for row in rows:
        for note in row.notes:
            notes.setdefault(note, []).append(row.rig)
    said = [f"- {note} ({first_of(names)})" for note, names in notes.items()]
    surroundings = f"Blender {bpy.app.version_string}, numpy {np.__version__}, {platform.machine()}"
    return "\n".join(
        [
            "# Roles recognised",
            "",
            f"Made by `{command}` with {surroundings}.",
            "",
            *INTRODUCTION.strip().splitlines(),
            "",
            markdown_table([HEADINGS, *map(cells, rows), totals(rows)]),
            "",
            *(f"- {line}" for line in verdicts(rows)),
            "",
            "## Misses by name",
            "",
            *listed,
            "",
            "## What the user is told",
            "",
            *(said or ["Nothing."]),
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Roles recognised on many rigs against what they are.")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder with index.json and rigs")
    parser.add_argument("--only", default="", metavar="WORD", help="only rigs with this in their name")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables as a page")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    failures: list[str] = []
    for rig, armature_object in rigs(options.data, options.only):
        if options.only not in rig:
            continue
        if armature_object is None or isinstance(armature_object, str):
            failures.append(f"{rig}: {armature_object or 'nothing was made'}")
            continue
        try:
            rows.append(compare(rig, armature_object))
        except ValueError as error:
            failures.append(f"{rig}: {error}")
    print(text_table([HEADINGS, *map(cells, rows), totals(rows)]))
    print("\n".join([*verdicts(rows), *details(rows), *failures]))
    if options.json is not None:
        text = json.dumps({"rows": [asdict(row) for row in rows], "failures": failures}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    if options.markdown is not None:
        given = ["--data DIR"] * (options.data is not None) + [f"--only {options.only!r}"] * bool(
            options.only
        )
        command = " ".join(["scripts/roles", *given, f"--markdown {options.markdown}"])
        options.markdown.write_text(page(rows, command), encoding="utf-8")
    return 1 if failures or any(row.missed or row.wrong for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

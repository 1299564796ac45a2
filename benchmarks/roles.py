# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles recognised on many rigs against what they are, as a table: scripts/roles.

    scripts/roles [--data DIR] [--only WORD] [--markdown FILE]

The rigs are Rigify's metarigs, what Rigify generates from each, and, with --data, the BVH, glTF and FBX
files that DIR/index.json lists under "file". Exits with 1 if a rig has no truth, cannot be read, or a role is
missed or wrong.

What rigs are is in `roles_truth.json`, written down by looking at them. It holds truths by name, and for each
rig, as a pattern of its name, which of them is its own; the first that fits counts. The first line of a truth
gives the words for left and right, of which `*` in a name stands for the first pair, `%` for the second and
`$` for the third. Each further line is a role (or several that are as good, with `|`) and the bones that have
it.
`{a,b}` and `{1-3}` stand for each of them. `below NAME` means every bone below that one which no other line
names. A line that begins with `-` lists bones that must have no role; so must all bones that are not listed.

Where a name and anatomy disagree, or two readings are as good, both stand there. A joint is called by where
it is hinged: the hand begins at the wrist, the foot at the ankle.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from bpy.types import Object

from benchmarks.page import Columns, arguments, listed, progress, publish, said_of, table
from benchmarks.rigs import every_rig
from blender_ik_addon.core import Skeleton
from blender_ik_addon.core.character.roles import Role, Side, recognise
from blender_ik_addon.scene.armature.armature import read_armature
from blender_ik_addon.scene.armature.role_table import read_hints

RUNS: Final = 5  # How often each recognition is timed; the fastest counts
WANTED: Final = 1.0  # Longest time [s] for a rig of up to 200 bones
BODY: Final = frozenset(Role) - {Role.FINGER, Role.TOE, Role.HEAD_PART, Role.EYE, Role.JAW}
"""Roles that effectors stand on, which shape alone should give as well."""


# What rigs are

SIDES = (Side.LEFT, Side.RIGHT)


class Expected(NamedTuple):
    """What is right for one bone."""

    roles: frozenset[Role]
    side: Side


def expand(pattern: str, pairs: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, Side]]:
    """Names that a pattern with braces and places for sides stands for, with their sides."""
    choices: list[list[str]] = []
    for piece in re.split(r"(\{[^}]*\})", pattern):
        span = re.fullmatch(r"\{(\d+)-(\d+)\}", piece)
        if span:
            choices.append([str(i).zfill(len(span[1])) for i in range(int(span[1]), int(span[2]) + 1)])
        else:
            choices.append(piece[1:-1].split(",") if piece.startswith("{") else [piece])
    for name in map("".join, product(*choices)):
        if not set(name) & set("*%$"):
            yield name, side_of(name, pairs)
            continue
        for number, side in enumerate(SIDES):
            sided = name
            for place, words in zip("*%$", pairs, strict=False):
                sided = sided.replace(place, words[number])
            yield sided, side


def truth_of(rig: str) -> list[str]:
    """The lines of a rig's truth.

    Raises:
        ValueError: There is none.
    """
    known = json.loads(Path(__file__).with_name("roles_truth.json").read_text(encoding="utf-8"))
    name = next((truth for pattern, truth in known["rigs"].items() if fnmatch(rig, pattern)), None)
    if name is None:
        raise ValueError("nobody has written down what it is")
    return known["truths"][name]


def expected(lines: Sequence[str], names: Sequence[str], parents: Sequence[int]) -> dict[str, Expected]:
    """Role and side of each bone of a rig that has one, by the lines of a truth.

    Raises:
        ValueError: The truth names a bone that is not there, or one twice.
    """
    pairs = [tuple(words.split("/")) for words in lines[0].removeprefix("sides").split()]
    found: dict[str, Expected] = {}
    below: list[tuple[frozenset[Role], str]] = []
    for line in lines[1:]:
        head, _, rest = line.partition(":")
        roles = frozenset(Role(role) for role in head.split("|")) if head != "-" else frozenset[Role]()
        if rest.strip().startswith("below "):
            below.append((roles, rest.strip().removeprefix("below ")))
            continue
        for name, side in (each for pattern in rest.split() for each in expand(pattern, pairs)):
            if name in found:
                raise ValueError(f"the truth speaks twice of {name!r}")
            found[name] = Expected(roles, side)
    unknown = [name for name in (*found, *(top for _, top in below)) if name not in names]
    if unknown:
        raise ValueError(f"the truth speaks of {unknown[0]!r}, which the rig does not have")
    for roles, top in below:
        for joint, name in enumerate(names):
            parent = parents[joint]
            while parent >= 0 and names[parent] != top:
                parent = parents[parent]
            if parent >= 0:
                found.setdefault(name, Expected(roles, side_of(name, pairs)))
    return {name: right for name, right in found.items() if right.roles}


def side_of(name: str, pairs: Sequence[tuple[str, ...]]) -> Side:
    """Side of a bone that has it as a word of its name."""
    for words in pairs:
        for word, side in zip(words, SIDES, strict=False):
            if re.search(rf"(?:^|[._\s]){re.escape(word.strip('._'))}(?:$|[._\s])", name):
                return side
    return Side.CENTRE


# What is recognised


@dataclass(frozen=True)
class Row:
    """One rig."""

    rig: str
    bones: int
    figures: str
    """Their kinds."""
    wanted: int
    """How many bones have a role in truth."""
    found: int
    """How many of them got it, on the right side."""
    missed: list[str]
    """Those that got none."""
    wrong: list[str]
    """Those that got another one."""
    extra: list[str]
    """Those that got one and have none in truth."""
    notes: Sequence[str]
    seconds: float
    shape: tuple[int, int]
    """How many roles of `BODY` shape alone got right, and their number."""


COLUMNS: Final[Columns[Row]] = (
    ("rig", lambda row: row.rig),
    ("bones", lambda row: str(row.bones)),
    ("seen as", lambda row: row.figures),
    ("roles", lambda row: str(row.wanted)),
    ("found", lambda row: str(row.found)),
    ("missed", lambda row: str(len(row.missed))),
    ("wrong", lambda row: str(len(row.wrong))),
    ("extra", lambda row: str(len(row.extra))),
    ("ms", lambda row: f"{row.seconds * 1e3:.1f}"),
    ("by shape alone", lambda row: f"{row.shape[0]} of {row.shape[1]}" if row.shape[1] else "–"),
)


def compare(rig: str, armature_object: Object) -> Row:
    """Recognise a rig and compare it with its truth.

    Raises:
        ValueError: There is no truth, or it does not fit the rig.
    """
    skeleton = read_armature(armature_object).skeleton
    hints = read_hints(armature_object, skeleton)
    truth = expected(truth_of(rig), skeleton.names, skeleton.parents.tolist())
    times: list[float] = []
    for _ in range(RUNS):
        start = time.perf_counter()
        character = recognise(skeleton, hints)
        times.append(time.perf_counter() - start)
    given = {choice.name: choice for choice in character.choices}
    extra = [f"{name}: {choice.role} {choice.side}" for name, choice in given.items() if name not in truth]
    found, missed, wrong = 0, [], []
    for name, right in truth.items():
        choice = given.get(name)
        if choice is None:
            missed.append(name)
        elif choice.role in right.roles and choice.side == right.side:
            found += 1
        else:
            wanted = " or ".join(sorted(right.roles))
            wrong.append(f"{name}: {choice.role} {choice.side}, is {wanted} {right.side}")
    return Row(
        rig=rig,
        bones=len(skeleton),
        figures=", ".join(str(figure.body) for figure in character.figures) or "none",
        wanted=len(truth),
        found=found,
        missed=missed,
        wrong=wrong,
        extra=extra,
        notes=character.notes,
        seconds=min(times),
        shape=(0, 0) if rig.startswith("generated") else by_shape(skeleton, truth),
    )


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


def totals(rows: Sequence[Row]) -> tuple[str, ...]:
    """The last line of the table."""
    numbers = [
        sum(count)
        for count in zip(
            *((r.wanted, r.found, len(r.missed), len(r.wrong), len(r.extra)) for r in rows), strict=True
        )
    ]
    slowest = f"{max(row.seconds for row in rows) * 1e3:.1f} at most"
    shape = " of ".join(str(sum(row.shape[part] for row in rows)) for part in (0, 1))
    return f"all {len(rows)}", str(sum(row.bones for row in rows)), "", *map(str, numbers), slowest, shape


def summary(rows: Sequence[Row]) -> list[str]:
    """The figures that matter."""
    right = sum(not (row.missed or row.wrong) for row in rows)
    small = max((row.seconds for row in rows if row.bones <= 200), default=0.0)
    of_all = dict(zip([heading for heading, _ in COLUMNS], totals(rows), strict=True))
    return [
        f"{right} of {len(rows)} rigs have no role missed and none wrong.",
        f"{of_all['found']} of {of_all['roles']} roles are found; {of_all['extra']} other bones got one.",
        f"By shape alone, without names: {of_all['by shape alone']} roles of bodies.",
        f"{small * 1e3:.1f} ms at most up to 200 bones, wanted less than {WANTED * 1e3:.0f}.",
    ]


def main() -> int:
    """Run from the command line."""
    parser = arguments("scripts/roles", __doc__)
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder with index.json and rigs")
    parser.add_argument("--only", default="", metavar="WORD", help="only rigs with this in their name")
    options = parser.parse_args()
    rows: list[Row] = []
    details: list[str] = []
    for rig, found in every_rig(options.data, options.only):
        try:
            if not isinstance(found, Object):
                raise ValueError(found or "nothing was made")
            row = compare(rig, found)
        except ValueError as error:
            details.append(f"{rig}: {error}")
            continue
        rows.append(row)
        for what, entries in (("missed", row.missed), ("wrong", row.wrong), ("extra", row.extra)):
            if entries:
                details.append(f"{rig}: {what}: {'; '.join(entries)}")
        progress(rig, f"{row.found} of {row.wanted}")
    headings = [heading for heading, _ in COLUMNS]
    publish(
        options.markdown,
        "roles",
        "scripts/roles",
        summary(rows),
        table=table([headings, *([cell(row) for _, cell in COLUMNS] for row in rows), totals(rows)]),
        details=listed(details, "None."),
        notes=said_of([(row.rig, row.notes) for row in rows]),
    )
    return 1 if any(": extra: " not in line for line in details) else 0

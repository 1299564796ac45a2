# SPDX-License-Identifier: GPL-3.0-or-later
"""Set-up Character on many rigs, and what follows when hands are moved: scripts/setup.

    scripts/setup [--data DIR] [--only WORD] [--json FILE] [--markdown FILE]

The rigs are those of scripts/roles. On each the set-up is run once, a solve follows, then the hands (front
feet, wings or heads where there are none) go by 5 cm towards the body, on a figure of 1.75 m, and all
effectors must be reached. Needs the bpy module. Exits with 1 if a rig misses anything.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Object

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import blender_ik_addon  # noqa: E402
from blender_ik_addon.core import IKError  # noqa: E402
from blender_ik_addon.scene import posing  # noqa: E402
from blender_ik_addon.scene.reports import Report  # noqa: E402
from scripts.examples.roles import rigs  # noqa: E402
from scripts.examples.tables import first_of, markdown_table, text_table  # noqa: E402

WANTED: Final = 1.0
"""Longest time [s] for a rig of up to 200 bones."""

MOVED: Final = 0.05
"""How far hands are moved [m], on a figure of `HEIGHT`."""

HEIGHT: Final = 1.75
"""[m]"""

REACHING: Final = ("hand", "front foot", "wing", "head", "tail", "fin", "foot")
"""Parts that are moved: the first of these that there is."""


TRUNKS: Final = ("head", "tail", "fin")
"""Of these, those that go aside rather than towards the body."""


@dataclass
class Row:
    """One rig."""

    rig: str
    bones: int = 0
    seen: str = ""
    """Kinds of its figures."""
    targets: int = 0
    levels: str = ""
    """Targets of each priority."""
    limits: int = 0
    """Bones with limits, read and assumed."""
    held: int = 0
    seconds: float = 0.0
    copies: float = 0.0
    """The same in times that Blender's own copy of the rig takes [1]."""
    stirred: float = 0.0
    """How far a solve right after the set-up moves any bone, in sizes of the figure [1]."""
    moved: str = ""
    """What was moved."""
    reached: str = ""
    """Effectors that were reached then, of how many."""
    misses: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    problem: str = ""
    """What went wrong altogether."""

    @property
    def good(self) -> bool:
        """Whether all is as wanted; a rig in which nobody sees a body has nothing to be set up."""
        slow = self.bones <= 200 and self.seconds >= WANTED
        controlled = self.rig.startswith("generated")
        return not (self.problem or (self.misses and not controlled) or slow)


def copy_time(armature_object: Object) -> float:
    """How long Blender takes to copy the rig and show the copy [s], the fastest of five."""
    times: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        copy: Any = armature_object.copy()
        data: Any = armature_object.data
        copy.data = data.copy()
        bpy.context.scene.collection.objects.link(copy)
        bpy.context.view_layer.update()
        times.append(time.perf_counter() - start)
        bpy.data.armatures.remove(copy.data)
    return min(times)


def set_up(rig: str, armature_object: Object) -> Row:
    """Set a rig up, solve, move hands, solve."""
    data: Any = armature_object.data
    row = Row(rig, len(data.bones))
    bpy.context.view_layer.update()
    copied = copy_time(armature_object)
    start = time.perf_counter()
    try:
        report = posing.setup_character(armature_object)
    except IKError as error:
        row.problem = str(error)
        return row
    row.seconds = time.perf_counter() - start
    row.copies = row.seconds / copied
    row.seen = ", ".join(report.bodies) or "none"
    settings: Any = armature_object.poise  # pyright: ignore[reportAttributeAccessIssue]
    entries = settings.effectors
    priorities = [entry.priority for entry in entries]
    row.targets = len(entries)
    row.levels = " ".join(f"{level}: {priorities.count(level)}" for level in sorted(set(priorities)))
    row.limits, row.held = len(report.limits_read) + len(report.limits_assumed), len(report.held)
    row.notes = list(report.notes)
    if not len(entries):
        return row
    size = max(armature_object.dimensions[:]) or 1.0
    try:
        before = heads(armature_object)
        first = posing.solve_pose(armature_object)
        row.stirred = float(np.abs(heads(armature_object) - before).max()) / size
        row.misses += misses(first, "at once")
        row.moved = move_hands(armature_object)
        report = posing.solve_pose(armature_object)
    except IKError as error:
        row.problem = str(error)
        return row
    row.reached = f"{sum(effector.reached for effector in report.effectors)} of {len(report.effectors)}"
    row.misses += misses(report, "moved")
    return row


def misses(report: Report, when: str) -> list[str]:
    """What was not reached, and why."""
    return [
        f"{when}: {effector.name} by {1e3 * (effector.position or 0.0):.1f} mm, "
        f"{np.degrees(effector.rotation or 0.0):.2f}° ({effector.why})"
        for effector in report.effectors
        if not effector.reached
    ]


def heads(armature_object: Object) -> Any:
    """Where bones begin and end in the world, (2n, 3) [m]."""
    bpy.context.view_layer.update()
    posed: Any = armature_object.evaluated_get(bpy.context.evaluated_depsgraph_get())
    places = np.array([[bone.head, bone.tail] for bone in posed.pose.bones]).reshape(-1, 3)
    matrix = np.array(posed.matrix_world)
    return places @ matrix[:3, :3].T + matrix[:3, 3]


def move_hands(armature_object: Object) -> str:
    """Move the targets of hands, or of what stands for them, towards the middle of the body; which."""
    settings: Any = armature_object.poise  # pyright: ignore[reportAttributeAccessIssue]
    parts = [entry.part for entry in settings.effectors]
    what = next(word for word in (*REACHING, "") if any(part.startswith(word) for part in parts))
    places = heads(armature_object)
    middle, size = places.mean(axis=0), float(np.ptp(places, axis=0).max())
    for entry in settings.effectors:
        if entry.part.startswith(what):
            world = np.array(entry.target.matrix_world.translation)
            way = middle - world
            way = way / max(float(np.linalg.norm(way)), 1e-9)
            if what in TRUNKS:  # a straight spine is not to be pushed together
                aside = np.cross(way, np.eye(3)[np.abs(way).argmin()])
                way = 0.5 * way + 0.8 * aside / np.linalg.norm(aside)
            step = way * MOVED * size / HEIGHT
            matrix = entry.target.matrix_world.copy()
            matrix.translation = (world + step).tolist()
            entry.target.matrix_world = matrix
    bpy.context.view_layer.update()
    return what


HEADINGS: Final = (
    "rig",
    "bones",
    "seen as",
    "targets",
    "by level",
    "limits",
    "held",
    "ms",
    "copies",
    "stirred",
    "moved",
    "reached",
)


def cells(row: Row) -> tuple[str, ...]:
    """A line of the table."""
    return (
        row.rig,
        str(row.bones),
        row.seen or row.problem,
        str(row.targets),
        row.levels,
        str(row.limits),
        str(row.held),
        f"{1e3 * row.seconds:.0f}",
        f"{row.copies:.1f}",
        f"{100.0 * row.stirred:.1f} %",
        row.moved,
        row.reached,
    )


def verdicts(rows: Sequence[Row]) -> list[str]:
    """Sentences on what is wanted."""
    small = [row for row in rows if row.bones <= 200]
    slowest = max((row.seconds for row in small), default=0.0)
    return [
        f"{sum(row.good for row in rows)} of {len(rows)} rigs are set up as wanted",
        f"{1e3 * slowest:.0f} ms at most up to 200 bones, wanted less than {1e3 * WANTED:.0f}; "
        f"{max((row.copies for row in small), default=0.0):.0f} times Blender's own copy of the rig at most",
        f"{sum(row.targets == 0 for row in rows)} rigs in which no part of a body is seen",
    ]


def details(rows: Sequence[Row]) -> list[str]:
    """Everything that is not as wanted."""
    return [f"{row.rig}: {text}" for row in rows for text in (*row.misses, row.problem) if text]


INTRODUCTION: Final = """
Set-up Character on each rig, run once as its button runs it. *By level*: targets of each priority, 0 first.
*Limits*: bones with limits, read from the rig or assumed for its roles. *Held*: bones between others that are
not solved. *Copies*: the time in times that Blender takes in the same run to copy the rig and show the copy.
*Stirred*: how far a solve right after the set-up moves any bone, in parts of the figure, because what no
target holds goes to where it prefers to be. Then the targets of what is named under *moved* go towards the
body by 5 cm on a figure of 1.75 m, others in proportion, and one solve follows; heads, tails and fins also
go aside. *Reached*: effectors within 0.5 mm and 0.05°, as Blender shows them. Rigs that Rigify generated have
controls of their own, and constraints that answer to them: what is missed there is told, and does not count.
"""


def page(rows: Sequence[Row], command: str) -> str:
    """The manual's page."""
    notes: dict[str, list[str]] = {}
    for row in rows:
        for note in row.notes:
            notes.setdefault(note, []).append(row.rig)
    said = [f"- {note} ({first_of(names)})" for note, names in notes.items()]
    surroundings = f"Blender {bpy.app.version_string}, numpy {np.__version__}, {platform.machine()}"
    return "\n".join(
        [
            "# Characters set up",
            "",
            f"Made by `{command}` with {surroundings}.",
            "",
            *INTRODUCTION.strip().splitlines(),
            "",
            markdown_table([HEADINGS, *map(cells, rows)]),
            "",
            *(f"- {line}" for line in verdicts(rows)),
            "",
            "## Not as wanted",
            "",
            *([f"- {line}" for line in details(rows)] or ["Nothing."]),
            "",
            "## What the user is told",
            "",
            *(said or ["Nothing."]),
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Set-up Character on many rigs.")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder with index.json and rigs")
    parser.add_argument("--only", default="", metavar="WORD", help="only rigs with this in their name")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables as a page")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    for rig, found in rigs(options.data, options.only):
        if isinstance(found, Object):
            blender_ik_addon.register()
            try:
                rows.append(set_up(rig, found))
            finally:
                blender_ik_addon.unregister()
        else:
            rows.append(Row(rig, problem=str(found)))
        print(text_table([cells(rows[-1])]), flush=True)
    print(text_table([HEADINGS, *map(cells, rows)]))
    print("\n".join([*details(rows), *verdicts(rows)]))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    if options.markdown:
        given = ["--data DIR"] if options.data is not None else []
        given += [f"--only {options.only!r}"] if options.only else []
        command = " ".join(["scripts/setup", *given, f"--markdown {options.markdown}"])
        options.markdown.write_text(page(rows, command), encoding="utf-8")
    return 0 if rows and all(row.good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

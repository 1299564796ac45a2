# SPDX-License-Identifier: GPL-3.0-or-later
"""Hours of use in minutes: memory stays flat, no handler is left, the end is as fast as the beginning.

What is measured is told on the page, `pages/soak.md`. The rounds run in Blender as a module (scripts/soak).
In a window, in the installed extension, `benchmarks.soak_window` calls them.
"""

from __future__ import annotations

import gc
import importlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import process_time
from typing import Any, Final

import bpy

UPDATES, SET_UPS, ENABLINGS = 10_000, 200, 50
"""How often a target is moved, a character is set up, baked and undone, and the add-on is enabled."""
FRAMES: Final = 12  # Of each bake
MORE_MEMORY: Final = 0.02  # What memory may grow by in the second half [1]
SLOWER: Final = 1.25  # How much longer a round may take at the end than near the beginning [1]
EXTENSION: Final = "bl_ext.user_default.poise"
FIGURE: Final = "metarig"


def poise() -> Any:
    """The add-on: the installed extension if there is one."""
    return sys.modules.get(EXTENSION) or importlib.import_module("blender_ik_addon")


def posing() -> Any:
    """Its functions."""
    return importlib.import_module(f"{poise().__name__}.scene.posing")


def figure() -> Any:
    """The character; nothing of Blender is kept over an undo."""
    return bpy.data.objects[FIGURE]


def make_figure() -> None:
    """Rigify's basic human alone in the scene, in Object Mode."""
    for item in list(bpy.data.objects):
        bpy.data.objects.remove(item)
    bpy.ops.object.armature_basic_human_metarig_add()
    bpy.context.view_layer.objects.active.name = FIGURE
    bpy.context.scene.frame_start, bpy.context.scene.frame_end = 1, FRAMES


# Rounds


def live(count: int) -> Iterator[None]:
    """Move the target of a hand, one step of a path within reach for each update."""
    make_figure()
    posing().setup_character(figure())
    posing().switch_live(figure(), True)
    target = next(own.target for own in figure().poise.effectors if own.name == "hand.L")
    start = target.location.copy()
    for number in range(count):
        angle = 2.0 * math.pi * number / 200.0
        target.location = start
        target.location.x += 0.15 * math.cos(angle) - 0.13
        target.location.z += 0.15 * math.sin(2.0 * angle)
        bpy.context.view_layer.update()
        yield
    posing().switch_live(figure(), False)


def set_up(count: int) -> Iterator[None]:
    """Set a character up, animate a target, bake, and undo all of it."""
    make_figure()
    bpy.ops.ed.undo_push(message="Figure")
    objects, actions = len(bpy.data.objects), len(bpy.data.actions)
    for _ in range(count):
        posing().setup_character(figure())
        target = next(own.target for own in figure().poise.effectors if own.name == "hand.L")
        target.keyframe_insert("location", frame=1)
        target.location.z += 0.2
        target.keyframe_insert("location", frame=FRAMES)
        bpy.ops.ed.undo_push(message="Set-up")
        report = posing().bake(figure())
        assert report.reached, report.summary()
        bpy.ops.ed.undo_push(message="Bake")
        bpy.ops.ed.undo()
        bpy.ops.ed.undo()
        assert len(bpy.data.objects) == objects, "undo leaves targets"
        assert len(bpy.data.actions) == actions, "undo leaves keys"
        assert not len(figure().poise.effectors), "undo leaves effectors"
        yield


def enabling(count: int) -> Iterator[None]:
    """Disable the add-on while a character is live, and enable it again."""
    make_figure()
    posing().setup_character(figure())
    posing().switch_live(figure(), True)
    for _ in range(count):
        if poise().__name__ == EXTENSION:
            bpy.ops.preferences.addon_disable(module=EXTENSION)
            bpy.ops.preferences.addon_enable(module=EXTENSION)
        else:
            poise().unregister()
            poise().register()
        figure().location.x += 0.01
        bpy.context.view_layer.update()
        yield
    posing().switch_live(figure(), False)


ROUNDS: Final[dict[str, Callable[[int], Iterator[None]]]] = {
    "live": live,
    "set_up": set_up,
    "enabling": enabling,
}


# What is measured


def memory() -> int:
    """Memory of this process that is in use [bytes]."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def handlers() -> dict[str, int]:
    """How many functions Blender calls, by what for."""
    lists = {name: getattr(bpy.app.handlers, name) for name in dir(bpy.app.handlers)}
    return {name: len(own) for name, own in lists.items() if isinstance(own, list) and own}


class Soak:
    """Rounds of one kind, which may be done in parts, with their times and the memory after each."""

    def __init__(self, name: str, count: int) -> None:
        """`name` is one of `ROUNDS`."""
        self.name, self.count = name, count
        self._before = handlers()
        self._rounds = ROUNDS[name](count)
        self.times, self.memory = list[float](), list[int]()

    def go_on(self, count: int) -> int:
        """Do so many more rounds; returns how many are done."""
        start = process_time()
        for _ in islice(self._rounds, count):
            self.times.append(process_time() - start)
            self.memory.append(memory())
            start = process_time()
        return len(self.times)

    def found(self, where: str) -> dict[str, Any]:
        """End, and return what was measured, as plain data; `where` it was."""
        for _ in self._rounds:
            raise AssertionError("there are rounds left")
        gc.collect()
        return {
            "name": self.name,
            "where": where,
            "times": self.times,
            "memory": self.memory,
            "before": self._before,
            "after": handlers(),
        }


@dataclass(frozen=True)
class Found:
    """Rounds of one kind and what they show."""

    name: str
    where: str
    count: int
    early: float
    """Processor time of a round in the second tenth, its median [s]."""
    late: float
    """The same in the last tenth."""
    half: float
    """Memory in the middle [bytes]."""
    end: float
    """At the end [bytes]."""
    left: str
    """Handlers that are there now and were not before, or the other way round."""

    @property
    def slower(self) -> float:
        """How much longer a round takes at the end [1]."""
        return self.late / self.early

    @property
    def grown(self) -> float:
        """By what part memory has grown in the second half [1]."""
        return self.end / self.half - 1.0

    @property
    def verdicts(self) -> dict[str, bool]:
        """What was wanted, and whether it is so."""
        return {
            "memory is flat": self.grown <= MORE_MEMORY,
            "no slower at the end": self.slower <= SLOWER,
            "no handler left": not self.left,
        }

    @property
    def failed(self) -> str:
        """What is not as wanted."""
        return ", ".join(f"NOT {what}" for what, met in self.verdicts.items() if not met) or "none"

    @classmethod
    def of(cls, data: dict[str, Any]) -> Found:
        """Sum up what `Soak.found` has returned."""
        times, seen, count = data["times"], data["memory"], len(data["times"])
        tenth = max(1, count // 10)
        before, after = data["before"], data["after"]
        changed = sorted(name for name in {*before, *after} if before.get(name, 0) != after.get(name, 0))
        return cls(
            name=data["name"],
            where=data["where"],
            count=count,
            early=_median(times[tenth : 2 * tenth] or times),
            late=_median(times[-tenth:]),
            half=_median(seen[count // 2 : count // 2 + tenth]),
            end=_median(seen[-tenth:]),
            left=", ".join(f"{n}: {before.get(n, 0)} to {after.get(n, 0)}" for n in changed),
        )


def _median(values: list[Any]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return 0.5 * (ordered[middle] + ordered[-middle - 1])


def main() -> int:
    """Run all rounds in Blender as a module; the exit code is 1 if something is not as wanted."""
    from benchmarks.page import arguments, measured, publish
    from benchmarks.rigs import add_on

    parser = arguments(
        "scripts/soak",
        __doc__,
        part=(1.0, "part of all rounds"),
        only=("", "one of live, set_up and enabling; none for neither"),
        keep=("", "file for what was measured, to be shown with others"),
    )
    parser.add_argument("--show", nargs="+", default=[], metavar="FILE", help="files that were kept before")
    options = parser.parse_args()
    counts = {"live": UPDATES, "set_up": SET_UPS, "enabling": ENABLINGS}
    kept = [own for file in options.show for own in json.loads(Path(file).read_text(encoding="utf-8"))]

    def run() -> Iterator[Found]:
        yield from map(Found.of, kept)
        for name, count in counts.items():
            if options.only in ("", name):
                soak = Soak(name, max(10, round(count * options.part)))
                soak.go_on(soak.count)
                kept.append(soak.found("module"))
                yield Found.of(kept[-1])

    words = "{row.name}: {row.count} rounds, {row.grown:% .2f} % more memory, {row.slower:.2f} of the time"
    with add_on():
        rows = measured(run(), words)
    if options.keep:
        Path(options.keep).write_text(json.dumps(kept), encoding="utf-8")
    publish(options, "soak", globals(), rows=rows, met=[met for row in rows for met in row.verdicts.values()])
    return 0 if all(row.failed == "none" for row in rows) else 1

# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast a body of 60 bones follows eight targets in live mode: scripts/bench-live.

    scripts/bench-live [--updates N] [--only WORD] [--markdown FILE]

Targets are moved by this script along smooth paths and the scene is updated, as a mouse would have it. Timed
is the handler of live mode, by a clock round it, and the whole update of the scene. The same targets are then
moved with live mode off, and the same poses are written into the bones with live mode off: what Blender takes
for that is what live mode is held against. The rest is told on the page, `pages/live.md`.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import pi, sin
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import bpy
import numpy as np
from bpy.types import Object
from mathutils import Vector

from benchmarks.page import Columns, arguments, judged, kept, listed, progress, publish, tabled
from benchmarks.rigs import FloatArray, add_on, basic_human, largest_turn, local_rotations
from blender_ik_addon.core.solve.follower import Follower
from blender_ik_addon.core.solve.tracker import Tracker
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.armature.restoring import PoseSnapshot
from blender_ik_addon.scene.character.setup import setup_character
from blender_ik_addon.scene.live import handlers as live

UPDATES: Final = 240  # Of each path; one of them is one step of a mouse
CLOCK: Final = time.process_time
"""Processor time of all threads: on a busy machine the wall clock tells what others do."""

MEDIAN_WANTED, MOST_WANTED = 8.0, 25.0  # Median and longest update [ms]
SOLVE_WANTED: Final = 2.0  # Turn of a bone when Solve is pressed after the body has come to rest [°]
END_WANTED: Final = 5.0  # Largest turn in a look after the tool has ended [°]

EFFECTORS: Final = (
    # bone, kind, priority
    ("foot.L", 'BOTH', 0),
    ("foot.R", 'BOTH', 0),
    ("spine", 'BOTH', 1),
    ("hand.L", 'BOTH', 2),
    ("hand.R", 'BOTH', 2),
    ("spine.006", 'ORIENTATION', 2),
    ("forearm.L", 'POLE', 3),
    ("forearm.R", 'POLE', 3),
)

FINGERS: Final = ("thumb", "index", "middle", "ring", "pinky")


# The scene


def make_figure(*, limits: bool = False) -> Object:
    """Fill an empty scene with the figure and its targets; return the figure.

    With limits, stiffness and preferred angles are those that Set Up Character gives.
    """
    figure = basic_human()
    figure.name = "Figure"
    _add_bones(figure)
    for bone in figure.pose.bones:
        bone.rotation_mode = 'XYZ'
    if limits:
        setup_character(figure)
        for entry in list(figure.poise.effectors):
            bpy.data.objects.remove(entry.target)
        figure.poise.effectors.clear()
    for bone, kind, priority in EFFECTORS:
        entry = figure.poise.effectors[posing.add_effector(figure, bone, kind=kind)]
        entry.priority = priority
    for side, sign in (("L", 1.0), ("R", -1.0)):
        # Behind the elbows, where they point at rest.
        target_of(figure, f"forearm.{side}").location = (sign * 0.6, 0.8, 1.4)
    bpy.context.view_layer.update()
    return figure


def _add_bones(figure: Any) -> None:
    """Give the figure fingers and a jaw: bones that are read and written over, though nothing moves them."""
    bpy.ops.object.mode_set(mode='EDIT')
    bones = figure.data.edit_bones
    for side in "LR":
        hand = bones[f"hand.{side}"]
        along = (hand.tail - hand.head).normalized()
        across = along.cross(Vector((0.0, 0.0, 1.0))).normalized()
        for number, finger in enumerate(FINGERS):
            parent, place = hand, hand.tail + 0.02 * (number - 2) * across
            for joint in (1, 2, 3):
                bone = bones.new(f"{finger}.{joint:02d}.{side}")
                bone.head, bone.tail = place, place + 0.03 * along
                bone.parent, parent, place = parent, bone, bone.tail
    jaw = bones.new("jaw")
    jaw.head, jaw.tail = (0.0, -0.02, 1.79), (0.0, -0.1, 1.75)
    jaw.parent = bones["spine.006"]
    bpy.ops.object.mode_set(mode='OBJECT')


def target_of(figure: Any, bone: str) -> Any:
    """The target of the effector of a bone."""
    return next(entry.target for entry in figure.poise.effectors if entry.bone == bone)


# Paths and what comes of them

WAVES: Final[dict[str, Callable[[FloatArray], FloatArray]]] = {
    "still": np.ones_like,
    "sine": np.sin,
    "cosine": np.cos,
    "twice": lambda phase: np.sin(2 * phase),
    "away": lambda phase: (1.0 - np.cos(phase)) / 2,
}
"""What a target does over a path, whose phase goes from 0 to 2π [rad]; *away* goes there and comes back."""


@dataclass(frozen=True)
class Case:
    """A motion of targets, of `bench_live.json`."""

    name: str
    about: str
    """What moves, as a sentence."""
    moves: dict[str, dict[str, list[float]]]
    """For each bone how far its target goes along x, y and z with each of `WAVES`, against rest [m]."""
    pinned: tuple[str, ...]
    limits: bool

    def places(self, updates: int) -> dict[str, FloatArray]:
        """Bone -> places of its target, against where it is at rest, (N, 3) [m]."""
        phase = np.linspace(0.0, 2.0 * pi, updates + 1)[1:]
        return {
            bone: np.sum([np.outer(WAVES[wave](phase), size) for wave, size in waves.items()], axis=0)
            for bone, waves in self.moves.items()
        }


def cases() -> list[Case]:
    """All of them, in the order of the page."""
    content = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return [
        Case(entry["name"], path["about"], path["moves"], tuple(entry.get("pinned", ())), "limits" in entry)
        for entry in content["cases"]
        for path in (content["paths"][entry["path"]],)
    ]


@dataclass(frozen=True)
class Outcome:
    """Result of a case. Times are in ms, turns in degrees."""

    name: str
    bones: int
    handler: list[float]
    """Time of live mode's handler in each update."""
    solving: list[float]
    """Time of each solve."""
    iterations: list[int]
    """Of each solve."""
    met: list[bool]
    """Whether all targets were reached: before the first update and after each."""
    steps: list[float]
    """Largest turn of a bone in each update."""
    replay: float
    """Time of Blender's own update with the same poses, median."""
    idle: float
    """Time of the handler where another object has moved, median."""
    moved: float
    """Largest way of a target in an update [mm]."""
    ends: list[float]
    """Largest turn of a bone in each look of the timer after the tool has ended."""
    looks: list[float]
    """Time of each of them."""
    after_turn: float
    """Largest turn of a bone when Solve is pressed after that."""

    @property
    def median(self) -> float:
        """Time of an update."""
        return float(np.median(self.handler))

    @property
    def most(self) -> float:
        """Longest time of an update."""
        return max(self.handler)

    @property
    def end_turn(self) -> float:
        """Largest turn in a look."""
        return max(self.ends, default=0.0)

    @property
    def border(self) -> float:
        """Largest turn in an update in which targets come into reach or go out of it."""
        pairs = zip(self.steps, pairwise(self.met), strict=True)
        return max((step for step, (first, then) in pairs if first is not then), default=0.0)


COLUMNS: Final[Columns[Outcome]] = (
    ("targets", lambda t: t.name),
    ("solves in updates", lambda t: f"{len(t.iterations)} in {len(t.steps)}"),
    ("reached", lambda t: f"{100.0 * np.mean(t.met[1:]):.0f} %"),
    ("iterations, mean (most)", lambda t: f"{np.mean(t.iterations):.1f} ({max(t.iterations)})"),
    ("handler, median ms", lambda t: f"{t.median:.2f}"),
    ("95 %", lambda t: f"{np.percentile(t.handler, 95):.2f}"),
    ("most", lambda t: f"{t.most:.1f}"),
    ("of that solver", lambda t: f"{np.median(t.solving):.2f}"),
    ("solves a second, median (mean)", lambda t: f"{1e3 / t.median:.0f} ({1e3 / np.mean(t.handler):.0f})"),
    ("Blender's update, same poses", lambda t: f"{t.replay:.3f}"),
    ("ratio", lambda t: f"{t.median / t.replay:.0f}"),
    ("handler, nothing moved", lambda t: f"{t.idle:.2f}"),
    ("target moves, mm", lambda t: f"{t.moved:.0f}"),
    ("largest turn in an update, °", lambda t: f"{max(t.steps):.2f}"),
    ("at the border, °", lambda t: f"{t.border:.2f}"),
    ("when the tool ends, ° in a look", lambda t: f"{t.end_turn:.2f}"),
    ("looks", lambda t: f"{len(t.looks)}"),
    ("most ms", lambda t: f"{max(t.looks):.0f}"),
    ("Solve after that, °", lambda t: f"{t.after_turn:.3f}"),
)


def measure(case: Case, updates: int) -> Outcome:
    """Move the targets of one case, with live mode on and off; times in ms, turns in degrees."""
    figure: Any = make_figure(limits=case.limits)
    for index, (bone, *_) in enumerate(EFFECTORS):
        if bone in case.pinned:
            posing.pin(figure, index)
    places = case.places(updates)
    targets = {bone: target_of(figure, bone) for bone in places}
    rest = {bone: np.array(target.location) for bone, target in targets.items()}
    stranger: Any = bpy.data.objects.new("Stranger", None)
    bpy.context.scene.collection.objects.link(stranger)

    def move(row: int) -> None:
        for bone, target in targets.items():
            target.location = rest[bone] + places[bone][row]
        bpy.context.view_layer.update()

    posing.switch_live(figure, True)
    move(0)
    handler: list[float] = []
    iterations: list[int] = []
    solving: list[float] = []
    poses: list[PoseSnapshot] = []
    turned, met, tool = [local_rotations(figure)], [figure.poise.last_reached], [True]
    gc.collect()  # what making the scene has left behind is not live mode's
    with (
        _clock(handler),
        _counted(iterations, solving),
        patch.object(live, "_tool_is_running", lambda: tool[0]),
    ):
        for row in range(updates):
            move(row)
            poses.append(PoseSnapshot.take(figure))
            turned.append(local_rotations(figure))
            met.append(figure.poise.last_reached)
        counted = list(handler), list(solving), list(iterations)
        while live._poll() == live.STEP_PAUSE:  # until the body has come to rest under the tool
            pass
        handler.clear()
        for row in range(updates // 4):
            stranger.location.x = sin(row)
            bpy.context.view_layer.update()
        idle = float(np.median(handler))
        for row in range(updates // 2):
            move(row)
        tool[0] = False
        # The timer looks at the pose where there is a window.
        ends, looks, pause = [local_rotations(figure)], [], 0.0
        while pause is not None:
            begin = CLOCK()
            pause = live._poll()
            looks.append(1e3 * (CLOCK() - begin))
            ends.append(local_rotations(figure))
        posing.solve_pose(figure)
        after_turn = largest_turn(ends[-1], local_rotations(figure))
    posing.switch_live(figure, False)
    replay = []
    for row in range(updates):
        move(row)
        poses[row].restore(figure)
        begin = CLOCK()
        bpy.context.view_layer.update()
        replay.append(1e3 * (CLOCK() - begin))
    handled, solved, counts = counted
    return Outcome(
        name=case.name,
        bones=len(figure.pose.bones),
        handler=handled,
        solving=solved,
        iterations=counts,
        met=met,
        steps=[largest_turn(*pair) for pair in pairwise(turned)],
        replay=float(np.median(replay)),
        idle=idle,
        moved=1e3 * max(float(np.linalg.norm(np.diff(way, axis=0), axis=1).max()) for way in places.values()),
        ends=[largest_turn(*pair) for pair in pairwise(ends)],
        looks=looks,
        after_turn=after_turn,
    )


@contextmanager
def _clock(times: list[float]) -> Iterator[None]:
    """Take the time of the handler, in place of which one with a clock is called."""
    handlers = bpy.app.handlers.depsgraph_update_post
    own = next(handler for handler in handlers if handler.__module__ == live.__name__)

    def timed(*arguments: Any) -> None:
        begin = CLOCK()
        own(*arguments)
        times.append(1e3 * (CLOCK() - begin))

    place = handlers.index(own)
    handlers[place] = timed
    try:
        yield
    finally:
        handlers[place] = own


@contextmanager
def _counted(iterations: list[int], times: list[float]) -> Iterator[None]:
    """Count the solves and their iterations, and take their time."""
    solve, follow = Tracker.solve, Follower.follow

    def counted(does: Callable[..., Any]) -> Callable[..., Any]:
        def does_and_counts(*arguments: Any, **options: Any) -> Any:
            begin = CLOCK()
            found = does(*arguments, **options)
            times.append(1e3 * (CLOCK() - begin))
            iterations.append(found.iterations)
            return found

        return does_and_counts

    with patch.object(Tracker, "solve", counted(solve)), patch.object(Follower, "follow", counted(follow)):
        yield


# The page


WANTED: Final = (
    ("{name}: {value:.1f} ms, wanted at most {wanted:.0f}", MEDIAN_WANTED, "median"),
    ("{name}: {value:.0f} ms at most, wanted at most {wanted:.0f}", MOST_WANTED, "most"),
    (
        "{name}: Solve turns a bone by {value:.2f}° after the body has come to rest, wanted at most "
        "{wanted:.0f}",
        SOLVE_WANTED,
        "after_turn",
    ),
    (
        "{name}: {value:.1f}° in a look when the tool ends, wanted at most {wanted:.0f}",
        END_WANTED,
        "end_turn",
    ),
)


def verdicts(rows: Sequence[Outcome]) -> list[tuple[str, bool]]:
    """What was wanted, and whether it holds."""
    found = [
        (what.format(name=row.name, value=value, wanted=wanted), value <= wanted)
        for what, wanted, figure in WANTED
        for row in rows
        for value in (getattr(row, figure),)
    ]
    once = all(len(row.iterations) <= len(row.steps) for row in rows)
    return [*found, ("one solve in each update, or less", once)]


def summary(rows: Sequence[Outcome]) -> list[str]:
    """The figures that matter."""
    medians = [row.median for row in rows]
    return [
        f"An update takes {min(medians):.1f} to {max(medians):.1f} ms in the median of its path, "
        f"{max(row.most for row in rows):.0f} ms at most.",
        f"That is {1e3 / max(medians):.0f} to {1e3 / min(medians):.0f} solves a second; of the time "
        f"{np.mean([np.median(row.solving) / row.median for row in rows]):.0%} is the solver's.",
        f"A bone turns by {max(max(row.steps) for row in rows):.1f}° at most in an update.",
        f"When the tool ends the body comes to rest in steps of at most "
        f"{max(row.end_turn for row in rows):.1f}°; Solve then turns bones by "
        f"{max(row.after_turn for row in rows):.2f}° at most.",
        kept(verdicts(rows)),
    ]


def main() -> int:
    """Run the bench; the exit code is 0 whatever it measures."""
    parser = arguments("scripts/bench-live", __doc__)
    parser.add_argument(
        "--updates", type=int, default=UPDATES, help=f"steps of each path (default {UPDATES})"
    )
    parser.add_argument("--only", default="", metavar="WORD", help="paths whose name holds this")
    options = parser.parse_args()
    rows: list[Outcome] = []
    with add_on():
        for case in [case for case in cases() if options.only in case.name]:
            rows.append(measure(case, options.updates))
            progress(f"{case.name}: {rows[-1].median:.2f} ms")
    publish(
        options.markdown,
        "live",
        "scripts/bench-live",
        summary(rows),
        bones=str(rows[0].bones),
        effectors=str(len(EFFECTORS)),
        paths=listed([f"*{case.name}*: {case.about}" for case in cases()]),
        table=tabled(COLUMNS, rows),
        verdicts=judged(verdicts(rows)),
    )
    return 0

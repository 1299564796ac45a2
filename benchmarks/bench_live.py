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
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import pi, sin
from typing import Any, Final
from unittest.mock import patch

import bpy
import numpy as np
from bpy.types import Object
from mathutils import Vector

from benchmarks.page import Columns, arguments, judged, kept, listed, progress, publish, tabled
from benchmarks.rigs import FloatArray, add_on, empty_file, largest_turn, local_rotations
from blender_ik_addon.core.solve.follower import Follower
from blender_ik_addon.core.solve.tracker import Tracker
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.armature.restoring import PoseSnapshot
from blender_ik_addon.scene.character.setup import setup_character
from blender_ik_addon.scene.live import handlers as live
from examples import scenario

UPDATES: Final = 240
"""Of each path; one of them is one step of a mouse."""

CLOCK: Final = time.process_time
"""Processor time of all threads: on a busy machine the wall clock tells what others do."""

MEDIAN_WANTED, MOST_WANTED = 8.0, 25.0
"""Median and longest update [ms]."""

SOLVE_WANTED: Final = 2.0
"""Turn of a bone when Solve is pressed after the body has come to rest [°]."""

END_WANTED: Final = 5.0
"""Largest turn in a look after the tool has ended [°]."""

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

    With limits, stiffness and preferred angles are those that Set-up Character gives.
    """
    empty_file()
    scenario.enable_rigify()
    bpy.ops.object.armature_basic_human_metarig_add()
    figure: Any = bpy.context.view_layer.objects.active
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


# Paths

Places = dict[str, FloatArray]
"""Bone -> places of its target, (N, 3) [m], against where it is at rest."""


def in_reach(phase: FloatArray) -> Places:
    """Hips sway and sink, hands wave, feet stand."""
    return {
        "spine": _path(0.06 * np.sin(phase), 0.04 * np.sin(2 * phase), -0.08 - 0.06 * np.cos(phase)),
        "hand.L": _path(-0.1 * np.sin(phase), -0.15 + 0.1 * np.cos(phase), 0.05 * np.sin(2 * phase)),
        "hand.R": _path(0.1 * np.sin(2 * phase), -0.15 + 0.1 * np.sin(phase), 0.1 * np.cos(phase)),
    }


def one_hand(phase: FloatArray) -> Places:
    """One hand alone, as one drags it."""
    return {"hand.R": _path(0.12 * np.sin(phase), -0.2 + 0.15 * np.cos(phase), 0.15 * np.sin(phase))}


def out_of_reach(phase: FloatArray) -> Places:
    """One hand goes forward to more than a metre beyond what the arm reaches, and comes back."""
    return {"hand.R": _path(0.0 * phase, -1.2 * (1.0 - np.cos(phase)) / 2, 0.2 * np.sin(phase))}


def across_out_of_reach(phase: FloatArray) -> Places:
    """One hand goes across the body, up and far beyond what it reaches, and comes back."""
    way = (1.0 - np.cos(phase)) / 2
    return {"hand.R": _path(1.2 * way, 0.4 * way + 0.05 * np.sin(phase), 0.6 * way)}


def hips_out_of_reach(phase: FloatArray) -> Places:
    """Hips rise half a metre beyond what the legs reach and come back, feet stand."""
    return {"spine": _path(0.05 * np.sin(phase), 0.0 * phase, 0.5 * (1.0 - np.cos(phase)) / 2)}


def foot_out_of_reach(phase: FloatArray) -> Places:
    """One foot goes forward and up to a metre away, further than leg and hips let it, and comes back."""
    way = (1.0 - np.cos(phase)) / 2
    return {"foot.L": _path(0.1 * np.sin(phase), -way, 0.5 * way)}


def _path(x: FloatArray, y: FloatArray, z: FloatArray) -> FloatArray:
    return np.stack([x, y, z], axis=1)


@dataclass(frozen=True)
class Case:
    """One motion of targets."""

    name: str
    path: Callable[[FloatArray], Places]
    pinned: tuple[str, ...] = ()
    limits: bool = False


CASES: Final = (
    Case("all in reach", in_reach),
    Case("one hand in reach", one_hand),
    Case("all in reach, feet pinned", in_reach, ("foot.L", "foot.R")),
    Case("hand out of reach for most of the way", out_of_reach),
    Case("hips out of reach for most of the way", hips_out_of_reach),
    Case("one hand forward, limits", one_hand, limits=True),
    Case("hand out of reach for most of the way, limits", out_of_reach, limits=True),
    Case("hand across the body and out of reach, limits", across_out_of_reach, limits=True),
    Case("hips out of reach for most of the way, limits", hips_out_of_reach, limits=True),
    Case("foot out of reach for most of the way, limits", foot_out_of_reach, limits=True),
)


# Measuring


@dataclass(frozen=True)
class Timed:
    """What was measured of one motion; all times in milliseconds, a value for each update."""

    name: str
    bones: int
    updates: int
    iterations: list[int]
    """Of each solve."""
    reached: float
    """Part of the updates after which every effector was where it should be [1]."""
    handler: FloatArray
    solving: FloatArray
    """The solver's part of the handler."""
    off: FloatArray
    """The update of the scene with live mode off: only targets move."""
    replay: FloatArray
    """The same, with the poses that live mode had found written by script before it."""
    idle: FloatArray
    """The handler where something else in the scene has moved."""
    moved: float
    """Largest way of a target in one update [mm]."""
    turn: float
    """Largest turn of a bone in its parent in one update [°]."""
    turn_border: float
    """The same in those updates in which the targets came into reach or went out of it [°]."""
    end_turn: float
    """The same in one look after the tool has ended in the middle of the path [°]."""
    end_whole: float
    """The same in all looks together [°]."""
    looks: FloatArray
    """After that."""
    after_turn: float
    """Turn by which a solve with the button changes the pose after that [°]."""
    wall: float
    """Time by the clock on the wall to processor time [1]: above 1 others were at work too."""

    @property
    def median(self) -> float:
        """Of the handler [ms]."""
        return float(np.median(self.handler))


COLUMNS: Final[Columns[Timed]] = (
    ("targets", lambda t: t.name),
    ("solves in updates", lambda t: f"{len(t.iterations)} in {t.updates}"),
    ("reached", lambda t: f"{100.0 * t.reached:.0f} %"),
    ("iterations, mean (most)", lambda t: f"{np.mean(t.iterations):.1f} ({max(t.iterations)})"),
    ("handler, median ms", lambda t: f"{t.median:.2f}"),
    ("95 %", lambda t: f"{np.percentile(t.handler, 95):.2f}"),
    ("most", lambda t: f"{t.handler.max():.1f}"),
    ("of that solver", lambda t: f"{np.median(t.solving):.2f}"),
    ("solves a second, median (mean)", lambda t: f"{1e3 / t.median:.0f} ({1e3 / t.handler.mean():.0f})"),
    ("Blender's update, same poses", lambda t: f"{np.median(t.replay):.3f}"),
    ("ratio", lambda t: f"{t.median / np.median(t.replay):.0f}"),
    ("live off", lambda t: f"{np.median(t.off):.3f}"),
    ("handler, nothing moved", lambda t: f"{np.median(t.idle):.2f}"),
    ("target moves, mm", lambda t: f"{t.moved:.0f}"),
    ("largest turn in an update, °", lambda t: f"{t.turn:.2f}"),
    ("at the border, °", lambda t: f"{t.turn_border:.2f}"),
    ("when the tool ends, ° in a look", lambda t: f"{t.end_turn:.2f}"),
    ("° in all", lambda t: f"{t.end_whole:.2f}"),
    ("looks", lambda t: f"{len(t.looks)}"),
    ("most ms", lambda t: f"{t.looks.max():.0f}"),
    ("Solve after that, °", lambda t: f"{t.after_turn:.3f}"),
)


def measure(case: Case, updates: int) -> Timed:
    """Move the targets of one case, with live mode on and off."""
    figure: Any = make_figure(limits=case.limits)
    for index, (bone, *_) in enumerate(EFFECTORS):
        if bone in case.pinned:
            posing.pin(figure, index)
    places = case.path(np.linspace(0.0, 2.0 * pi, updates + 1)[1:])
    targets = {bone: target_of(figure, bone) for bone in places}
    rest = {bone: np.array(target.location) for bone, target in targets.items()}
    bpy.context.scene.collection.objects.link(stranger := bpy.data.objects.new("stranger", None))

    def move(row: int) -> None:
        for bone, target in targets.items():
            target.location = rest[bone] + places[bone][row]

    def updated() -> float:
        begin = CLOCK()
        bpy.context.view_layer.update()
        return CLOCK() - begin

    posing.switch_live(figure, True)
    move(0)
    bpy.context.view_layer.update()
    handler, iterations, solving, whole = [], [], [], []
    poses: list[PoseSnapshot] = []
    turned: list[FloatArray] = [local_rotations(figure)]
    met: list[bool] = [figure.poise.last_reached]
    tool = [True]
    gc.collect()  # what making the scene has left behind is not live mode's
    with (
        _clock(handler),
        _counted(iterations, solving),
        patch.object(live, "_gesture_is_running", lambda: tool[0]),
    ):
        wall = time.perf_counter()
        for row in range(updates):
            move(row)
            whole.append(updated())
            poses.append(PoseSnapshot.take(figure))
            turned.append(local_rotations(figure))
            met.append(figure.poise.last_reached)
        wall = (time.perf_counter() - wall) / sum(whole)
        counted = [np.array(handler), list(iterations), np.array(solving)]
        while live._look_again() == live.STEP_PAUSE:  # until the body has come to rest under the tool
            pass
        handler.clear()
        for row in range(updates // 4):
            stranger.location.x = sin(row)
            bpy.context.view_layer.update()
        idle = np.array(handler)
        for row in range(updates // 2):
            move(row)
            bpy.context.view_layer.update()
        tool[0] = False
        ends, looks = _looked_to_the_end(figure)
        posing.solve_pose(figure)
        after_turn = largest_turn(ends[-1], local_rotations(figure))
    steps = [largest_turn(*pair) for pair in pairwise(turned)]
    borders = [step for step, (first, then) in zip(steps, pairwise(met), strict=True) if first is not then]
    ways = [np.linalg.norm(np.diff(place, axis=0), axis=1).max() for place in places.values()]
    posing.switch_live(figure, False)
    off, replay = [], []
    for written, times in ((False, off), (True, replay)):
        for row in range(updates):
            move(row)
            if written:
                poses[row].restore(figure)
            times.append(updated())
    return Timed(
        name=case.name,
        bones=len(figure.pose.bones),
        updates=updates,
        iterations=counted[1],
        reached=sum(met[1:]) / updates,
        handler=1e3 * counted[0],
        solving=1e3 * counted[2],
        off=1e3 * np.array(off),
        replay=1e3 * np.array(replay),
        idle=1e3 * idle,
        moved=1e3 * float(max(ways)),
        turn=max(steps),
        turn_border=max(borders, default=0.0),
        end_turn=max((largest_turn(*pair) for pair in pairwise(ends)), default=0.0),
        end_whole=largest_turn(ends[0], ends[-1]),
        looks=1e3 * np.array(looks),
        after_turn=after_turn,
        wall=wall,
    )


def _looked_to_the_end(figure: Object) -> tuple[list[FloatArray], list[float]]:
    """Look at a figure as the timer does where there is a window; rotations after each look, and times."""
    ends, times = [local_rotations(figure)], []
    pause: float | None = 0.0
    while pause is not None:
        begin = CLOCK()
        pause = live._look_again()
        times.append(CLOCK() - begin)
        ends.append(local_rotations(figure))
    return ends, times


@contextmanager
def _clock(times: list[float]) -> Iterator[None]:
    """Take the time of the handler, in place of which one with a clock is called."""
    handlers = bpy.app.handlers.depsgraph_update_post
    own = next(handler for handler in handlers if handler.__module__ == live.__name__)

    def timed(*arguments: Any) -> None:
        begin = CLOCK()
        own(*arguments)
        times.append(CLOCK() - begin)

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
        def does_and_counts(*arguments: Any) -> Any:
            begin = CLOCK()
            found = does(*arguments)
            times.append(CLOCK() - begin)
            iterations.append(found.iterations)
            return found

        return does_and_counts

    with patch.object(Tracker, "solve", counted(solve)), patch.object(Follower, "follow", counted(follow)):
        yield


# The page


def verdicts(rows: Sequence[Timed]) -> list[tuple[str, bool]]:
    """What was wanted, and whether it holds."""
    found: list[tuple[str, bool]] = []
    for what, wanted, of in (
        ("{name}: {value:.1f} ms, wanted at most {wanted:.0f}", MEDIAN_WANTED, lambda row: row.median),
        (
            "{name}: {value:.0f} ms at most, wanted at most {wanted:.0f}",
            MOST_WANTED,
            lambda row: row.handler.max(),
        ),
        (
            "{name}: Solve turns a bone by {value:.2f}° after the body has come to rest, wanted at most "
            "{wanted:.0f}",
            SOLVE_WANTED,
            lambda row: row.after_turn,
        ),
        (
            "{name}: {value:.1f}° in a look when the tool ends, wanted at most {wanted:.0f}",
            END_WANTED,
            lambda row: row.end_turn,
        ),
    ):
        for row in rows:
            value = float(of(row))
            found.append((what.format(name=row.name, value=value, wanted=wanted), value <= wanted))
    once = all(len(row.iterations) <= row.updates for row in rows)
    return [*found, ("one solve in each update, or less", once)]


def summary(rows: Sequence[Timed]) -> list[str]:
    """The figures that matter."""
    medians, most = [row.median for row in rows], [float(row.handler.max()) for row in rows]
    return [
        f"An update takes {min(medians):.1f} to {max(medians):.1f} ms in the median of its path, "
        f"{max(most):.0f} ms at most; {MEDIAN_WANTED:.0f} and {MOST_WANTED:.0f} are wanted.",
        f"That is {1e3 / max(medians):.0f} to {1e3 / min(medians):.0f} solves a second; of the time "
        f"{np.mean([np.median(row.solving) / row.median for row in rows]):.0%} is the solver's.",
        f"A bone turns by {max(row.turn for row in rows):.1f}° at most in an update.",
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
    rows: list[Timed] = []
    with add_on():
        for case in [case for case in CASES if options.only in case.name]:
            rows.append(measure(case, options.updates))
            progress(f"{case.name}: {rows[-1].median:.2f} ms")
    publish(
        options.markdown,
        "live",
        "scripts/bench-live",
        summary(rows),
        bones=str(rows[0].bones),
        effectors=str(len(EFFECTORS)),
        paths=listed([f"*{case.name}*: {(case.path.__doc__ or '').splitlines()[0]}" for case in CASES]),
        table=tabled(COLUMNS, rows),
        verdicts=judged(verdicts(rows)),
        wall=f"{max(row.wall for row in rows):.1f}",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

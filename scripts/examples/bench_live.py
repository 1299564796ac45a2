# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast a body of 60 bones follows eight targets in live mode: scripts/bench-live.

    scripts/bench-live [--updates N] [--only WORD] [--json FILE] [--markdown FILE]

The body is Rigify's basic human with fingers and a jaw. Targets are moved by this script along smooth paths
and the scene is updated, as a mouse would have it; nothing is drawn. Timed is the handler of live mode, by a
clock round it, and the whole update of the scene. The same targets are then moved with live mode off, and
the same poses are written into the bones with live mode off: what Blender takes for that is what live mode is
held against.

While the targets move live mode takes it that a tool is running. On a second way, out to the middle of the
path, the tool ends there: what that changes is measured too, with looks as by the timer of a window.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import pi, sin
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy reads it
os.environ["OMP_NUM_THREADS"] = "1"

import bpy
import numpy as np
import numpy.typing as npt
from bpy.types import Object
from mathutils import Vector

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import blender_ik_addon  # noqa: E402
from blender_ik_addon.core.model.rotation import rotvec_from_matrix  # noqa: E402
from blender_ik_addon.core.solve.follower import Follower  # noqa: E402
from blender_ik_addon.core.solve.tracker import Tracker  # noqa: E402
from blender_ik_addon.scene import posing  # noqa: E402
from blender_ik_addon.scene.armature.restoring import PoseSnapshot  # noqa: E402
from blender_ik_addon.scene.character.setup import setup_character  # noqa: E402
from blender_ik_addon.scene.live import handlers as live  # noqa: E402
from scripts.examples import scenario  # noqa: E402
from scripts.examples.tables import markdown_table  # noqa: E402

FloatArray = npt.NDArray[np.float64]

UPDATES: Final = 240
"""Of each path; one of them is one step of a mouse."""

CLOCK: Final = time.process_time
"""Processor time of all threads: on a busy machine the wall clock tells what others do."""

MEDIAN_WANTED, MOST_WANTED = 8.0, 25.0
"""Median and longest update [ms]."""

SOLVE_WANTED: Final = 2.0
"""Turn of a bone when Solve is pressed after the body has come to rest [degrees]."""

END_WANTED: Final = 5.0
"""Largest turn in a look after the tool has ended [degrees]."""

BONES: Final = 60

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


# ---------------------------------------------------------------- the scene


def make_figure(*, limits: bool = False) -> Object:
    """Fill an empty scene with the figure and its targets; return the figure.

    With limits, stiffness and preferred angles are those that Set-up Character gives.
    """
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
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
    assert len(figure.data.bones) == BONES, len(figure.data.bones)


def target_of(figure: Any, bone: str) -> Any:
    """The target of the effector of a bone."""
    return next(entry.target for entry in figure.poise.effectors if entry.bone == bone)


# ---------------------------------------------------------------- paths

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


# ---------------------------------------------------------------- measuring


@dataclass(frozen=True)
class Timed:
    """What was measured of one motion."""

    name: str
    bones: int
    effectors: int
    updates: int
    solves: int
    iterations_mean: float
    iterations_most: int
    reached: float
    """Part of the updates after which every effector was where it should be [1]."""
    handler_median: float
    """[ms]."""
    handler_95: float
    handler_most: float
    handler_mean: float
    update_median: float
    """The whole update of the scene, handler included [ms]."""
    solve_median: float
    """The solver's part of the handler [ms]."""
    off_median: float
    """The update of the scene with live mode off: only targets move [ms]."""
    replay_median: float
    """The same, with the poses that live mode had found written by script before it [ms]."""
    idle_median: float
    """The handler where something else in the scene has moved [ms]."""
    moved_most: float
    """Largest way of a target in one update [mm]."""
    turn_most: float
    """Largest turn of a bone in its parent in one update [degrees]."""
    turn_border: float
    """The same in those updates in which the targets came into reach or went out of it [degrees]."""
    end_turn: float
    """The same in one look after the tool has ended in the middle of the path [degrees]."""
    end_whole: float
    """The same in all looks together [degrees]."""
    looks: int
    """How many it took."""
    end: float
    """The longest of them [ms]."""
    after_turn: float
    """Turn by which a solve with the button changes the pose after that [degrees]."""
    wall: float
    """Time by the clock on the wall to processor time [1]: above 1 others were at work too."""

    @property
    def rate(self) -> float:
        """Solves a second [1/s], by the median of the handler."""
        return 1e3 / self.handler_median

    @property
    def mean_rate(self) -> float:
        """Solves a second [1/s] over the whole motion."""
        return 1e3 / self.handler_mean

    @property
    def ratio(self) -> float:
        """Time of the handler to that of Blender's own update of the same poses [1]."""
        return self.handler_median / self.replay_median


def measure(case: Case, updates: int) -> Timed:
    """Move the targets of one case, with live mode on and off."""
    figure = make_figure(limits=case.limits)
    for index, (bone, *_) in enumerate(EFFECTORS):
        if bone in case.pinned:
            posing.pin(figure, index)
    phase = np.linspace(0.0, 2.0 * pi, updates + 1)[1:]
    places = case.path(phase)
    rest = {bone: np.array(target_of(figure, bone).location) for bone in places}
    targets = {bone: target_of(figure, bone) for bone in places}
    bpy.context.scene.collection.objects.link(stranger := bpy.data.objects.new("stranger", None))

    def move(row: int) -> None:
        for bone, target in targets.items():
            target.location = rest[bone] + places[bone][row]

    posing.switch_live(figure, True)
    move(0)
    bpy.context.view_layer.update()
    handler, iterations, solving, whole, reached = [], [], [], [], 0
    poses: list[PoseSnapshot] = []
    turned: list[FloatArray] = [local_rotations(figure)]
    met: list[bool] = [figure.poise.last_reached]
    tool = [True]
    gc.collect()  # what making the scene has left behind is not live mode's
    with (
        _clock(handler),
        _counted(iterations, solving),
        patch.object(live, "_tool_is_running", lambda: tool[0]),
    ):
        wall = time.perf_counter()
        for row in range(updates):
            move(row)
            begin = CLOCK()
            bpy.context.view_layer.update()
            whole.append(CLOCK() - begin)
            reached += figure.poise.last_reached
            poses.append(PoseSnapshot.take(figure))
            turned.append(local_rotations(figure))
            met.append(figure.poise.last_reached)
        wall = (time.perf_counter() - wall) / sum(whole)
        counted, counted_iterations, counted_solving = list(handler), list(iterations), list(solving)
        while live._poll() == live.STEP_PAUSE:  # until the body has come to rest under the tool
            pass
        handler.clear()
        for row in range(updates // 4):
            stranger.location.x = sin(row)
            bpy.context.view_layer.update()
        idle = list(handler)
        for row in range(updates // 2):
            move(row)
            bpy.context.view_layer.update()
        tool[0] = False
        ends, looks = _looked_to_the_end(figure)
        posing.solve_pose(figure)
        after_turn = turn_between(ends[-1], local_rotations(figure))
    steps = [turn_between(*pair) for pair in pairwise(turned)]
    borders = [step for step, (first, then) in zip(steps, pairwise(met), strict=True) if first is not then]
    ways = [np.linalg.norm(np.diff(place, axis=0), axis=1).max() for place in places.values()]
    posing.switch_live(figure, False)
    off, replay = [], []
    for written, times in ((False, off), (True, replay)):
        for row in range(updates):
            move(row)
            if written:
                poses[row].restore(figure)
            begin = CLOCK()
            bpy.context.view_layer.update()
            times.append(CLOCK() - begin)
    return Timed(
        name=case.name,
        bones=len(figure.pose.bones),
        effectors=len(figure.poise.effectors),
        updates=updates,
        solves=len(counted_iterations),
        iterations_mean=float(np.mean(counted_iterations)),
        iterations_most=int(np.max(counted_iterations)),
        reached=reached / updates,
        handler_median=1e3 * float(np.median(counted)),
        handler_95=1e3 * float(np.percentile(counted, 95)),
        handler_most=1e3 * float(np.max(counted)),
        handler_mean=1e3 * float(np.mean(counted)),
        update_median=1e3 * float(np.median(whole)),
        solve_median=1e3 * float(np.median(counted_solving)),
        off_median=1e3 * float(np.median(off)),
        replay_median=1e3 * float(np.median(replay)),
        idle_median=1e3 * float(np.median(idle)),
        moved_most=1e3 * float(max(ways)),
        turn_most=max(steps),
        turn_border=max(borders, default=0.0),
        end_turn=max((turn_between(*pair) for pair in pairwise(ends)), default=0.0),
        end_whole=turn_between(ends[0], ends[-1]),
        looks=len(looks),
        end=1e3 * max(looks),
        after_turn=after_turn,
        wall=wall,
    )


def _looked_to_the_end(figure: Object) -> tuple[list[FloatArray], list[float]]:
    """Look at a figure as the timer does where there is a window; rotations after each look, and times."""
    ends, times = [local_rotations(figure)], []
    pause: float | None = 0.0
    while pause is not None:
        begin = CLOCK()
        pause = live._poll()
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
        def does_and_counts(*arguments: Any, **options: Any) -> Any:
            begin = CLOCK()
            found = does(*arguments, **options)
            times.append(CLOCK() - begin)
            iterations.append(found.iterations)
            return found

        return does_and_counts

    with patch.object(Tracker, "solve", counted(solve)), patch.object(Follower, "follow", counted(follow)):
        yield


def local_rotations(figure: Any) -> FloatArray:
    """Rotations of all bones in their parents, as Blender has them, (n, 3, 3)."""
    bones = figure.evaluated_get(bpy.context.view_layer.depsgraph).pose.bones
    world = {bone.name: np.array(bone.matrix.to_3x3().normalized()) for bone in bones}
    return np.array(
        [world[b.name] if b.parent is None else world[b.parent.name].T @ world[b.name] for b in bones]
    )


def turn_between(first: FloatArray, second: FloatArray) -> float:
    """Largest angle between rotations (n, 3, 3) [degrees]."""
    turns = rotvec_from_matrix(second @ np.swapaxes(first, -1, -2))
    return float(np.degrees(np.linalg.norm(turns, axis=-1).max()))


# ---------------------------------------------------------------- the page

HEADINGS: Final = (
    "targets",
    "solves in updates",
    "reached",
    "iterations, mean (most)",
    "handler, median ms",
    "95 %",
    "most",
    "of that solver",
    "solves a second, median (mean)",
    "Blender's update, same poses",
    "ratio",
    "live off",
    "handler, nothing moved",
    "target moves, mm",
    "largest turn in an update, °",
    "at the border, °",
    "when the tool ends, ° in a look",
    "° in all",
    "looks",
    "most ms",
    "Solve after that, °",
)


def cells(row: Timed) -> tuple[str, ...]:
    """One row of the table."""
    return (
        row.name,
        f"{row.solves} in {row.updates}",
        f"{100.0 * row.reached:.0f} %",
        f"{row.iterations_mean:.1f} ({row.iterations_most})",
        f"{row.handler_median:.2f}",
        f"{row.handler_95:.2f}",
        f"{row.handler_most:.1f}",
        f"{row.solve_median:.2f}",
        f"{row.rate:.0f} ({row.mean_rate:.0f})",
        f"{row.replay_median:.3f}",
        f"{row.ratio:.0f}",
        f"{row.off_median:.3f}",
        f"{row.idle_median:.2f}",
        f"{row.moved_most:.0f}",
        f"{row.turn_most:.2f}",
        f"{row.turn_border:.2f}",
        f"{row.end_turn:.2f}",
        f"{row.end_whole:.2f}",
        f"{row.looks}",
        f"{row.end:.0f}",
        f"{row.after_turn:.3f}",
    )


def verdicts(rows: Sequence[Timed]) -> list[tuple[str, bool]]:
    """What was wanted, and whether it holds."""
    return [
        *(
            (
                f"{row.name}: {row.handler_median:.1f} ms, wanted at most {MEDIAN_WANTED:.0f}",
                row.handler_median <= MEDIAN_WANTED,
            )
            for row in rows
        ),
        *(
            (
                f"{row.name}: {row.handler_most:.0f} ms at most, wanted at most {MOST_WANTED:.0f}",
                row.handler_most <= MOST_WANTED,
            )
            for row in rows
        ),
        *(
            (
                f"{row.name}: Solve turns a bone by {row.after_turn:.2f}° after the body has come to rest, "
                f"wanted at most {SOLVE_WANTED:.0f}",
                row.after_turn <= SOLVE_WANTED,
            )
            for row in rows
        ),
        *(
            (
                f"{row.name}: {row.end_turn:.1f}° in a look when the tool ends, wanted at most "
                f"{END_WANTED:.0f}",
                row.end_turn <= END_WANTED,
            )
            for row in rows
        ),
        ("one solve in each update, or less", all(row.solves <= row.updates for row in rows)),
    ]


def page(rows: Sequence[Timed], surroundings: dict[str, object], command: str) -> str:
    """The page of the manual."""
    paths = "\n".join(f"- *{case.name}*: {(case.path.__doc__ or '').splitlines()[0]}" for case in CASES)
    introduction = f"""\
# Live mode, how fast

Made by `{command}`.

The body has {rows[0].bones} bones: Rigify's basic human with fingers and a jaw. It has {rows[0].effectors}
effectors: feet, hips and hands by place and orientation, the head by orientation, elbows by poles, on four
levels of priority. Hips may move. A script moves the targets along smooth closed paths, one step for each
update of the scene, while live mode takes it that a tool is running, as in a drag. Nothing is drawn. One
thread.

*Handler* is all that live mode does in an update: it finds out what has moved, reads, solves, writes the pose
and what the panel shows. *Blender's update, same poses* is what Blender takes with live mode off, where a
script has written into the bones what live mode had found; the time of the script does not count. There is no
mesh on the bones, so that Blender has as little to do as can be. *Ratio* is the handler against that. *Live
off* is the update where only targets move. *Handler, nothing moved* is where another object has moved. All
times are processor time of all threads. Python's garbage collector has run before each path: what making the
scene has left behind is not counted.

*Turn* is that of a bone in its parent, the largest of all bones: in one update of the whole path, against the
way of the target; in those updates in which targets come into reach or go out of it; when the tool ends in
the middle of the path: then a timer looks at the pose until it is what a solve gives, with how long the
longest look takes, which is the one that solves; and how far the button *Solve* would turn bones
after that.

{paths}
"""
    told = [f"- {'yes' if met else 'NO'}: {what}" for what, met in verdicts(rows)]
    about = ", ".join(f"{name} {value}" for name, value in surroundings.items())
    table = markdown_table([HEADINGS, *map(cells, rows)])
    wall = max(row.wall for row in rows)
    about += f"; the wall clock went up to {wall:.1f} times as fast as processor time"
    return "\n\n".join([introduction.rstrip(), table, "\n".join(told), f"Measured with {about}."]) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; the exit code is 0 whatever it measures."""
    parser = argparse.ArgumentParser(prog="scripts/bench-live", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--updates", type=int, default=UPDATES, help=f"steps of each path (default {UPDATES})"
    )
    parser.add_argument("--only", default="", metavar="WORD", help="paths whose name holds this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as a page")
    options = parser.parse_args(arguments)
    if options.updates < 8:
        parser.error("--updates must be at least 8")
    chosen = [case for case in CASES if options.only in case.name]
    if not chosen:
        parser.error(f"no path has {options.only!r} in its name")
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    blender_ik_addon.register()
    rows: list[Timed] = []
    try:
        scenario.enable_rigify()
        for case in chosen:
            rows.append(measure(case, options.updates))
            print(f"{case.name}: {rows[-1].handler_median:.2f} ms", file=sys.stderr, flush=True)
    finally:
        # A handler that is left behind would hang Blender 4.5 at exit.
        scenario.disable_rigify()
        blender_ik_addon.unregister()
    surroundings: dict[str, object] = {
        "Blender": bpy.app.version_string,
        "numpy": np.__version__,
        "Python": platform.python_version(),
        "processor": platform.machine(),
    }
    for heading, *values in zip(HEADINGS, *map(cells, rows), strict=True):
        print(f"{heading:>32}  {'   '.join(values)}")
    for what, met in verdicts(rows):
        print(f"{'yes' if met else 'NO'}: {what}")
    if options.json is not None:
        found = {"surroundings": surroundings, "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.markdown is not None:
        given = [f"--updates {options.updates}"] * (options.updates != UPDATES)
        given += [f"--only {options.only!r}"] * bool(options.only)
        command = " ".join(["scripts/bench-live", *given, f"--markdown {options.markdown}"])
        options.markdown.write_text(page(rows, surroundings, command), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

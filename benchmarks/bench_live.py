# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast a body of 60 bones follows eight targets in live mode: scripts/bench-live.

What is measured is told on the page, `pages/live.md`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import pi, sin
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import bpy
import numpy as np
from bpy.types import Object
from mathutils import Vector

from benchmarks.page import arguments, measured, publish, stored
from benchmarks.rigs import FloatArray, add_on, basic_human, largest_turn, local_rotations
from benchmarks.timing import timed, watching
from blender_ik_addon.core.solve.follower import Follower
from blender_ik_addon.core.solve.tracker import Tracker
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.armature.restoring import PoseSnapshot
from blender_ik_addon.scene.character.setup import setup_character
from blender_ik_addon.scene.live import handlers as live

UPDATES: Final = 240  # Of each path; one of them is one step of a mouse
MEDIAN_WANTED, MOST_WANTED = 8e-3, 25e-3  # Median and longest update [s]
SOLVE_WANTED: Final = 2.0  # Turn of a bone when Solve is pressed after the body has come to rest [°]
END_WANTED: Final = 5.0  # Largest turn in a look after the tool has ended [°]

EFFECTORS: Final[list[tuple[str, str, int]]] = stored("bench_live")["effectors"]
"""Bone, kind and priority of each."""


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
        for number, finger in enumerate(("thumb", "index", "middle", "ring", "pinky")):
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
    content = stored("bench_live")
    return [
        Case(entry["name"], path["about"], path["moves"], tuple(entry.get("pinned", ())), "limits" in entry)
        for entry in content["cases"]
        for path in (content["paths"][entry["path"]],)
    ]


class Outcome:
    """Result of a case. Times are in seconds, turns in degrees."""

    def __init__(self, case: Case, figure: Any) -> None:
        self.name, self.bones = case.name, len(figure.pose.bones)
        self.handler: list[float] = []
        """Time of live mode's handler in each update."""
        self.solving: list[float] = []
        """Time of each solve."""
        self.iterations: list[int] = []
        """Of each solve."""
        self.met_before, self.met = figure.poise.last_reached, list[bool]()
        """Whether all targets were reached, before the first update and after each."""
        self.turned = [local_rotations(figure)]
        """Rotations of the bones before the first update and after each."""
        self.replay: list[float] = []
        """Times of Blender's own update with the same poses."""
        self.idle: list[float] = []
        """Times of the handler where another object has moved."""
        self.moved = 0.0
        """Largest way of a target in an update [m]."""
        self.ends: list[FloatArray] = []
        """Rotations of the bones after the tool has ended, and after each look of the timer since then."""
        self.looks: list[float] = []
        """Time of each of them."""
        self.after_turn = 0.0
        """Largest turn of a bone when Solve is pressed after that."""

    @property
    def steps(self) -> list[float]:
        """Largest turn of a bone in each update."""
        return [largest_turn(*pair) for pair in pairwise(self.turned)]

    @property
    def ratio(self) -> float:
        """Times that Blender's own update takes."""
        return float(np.median(self.handler) / np.median(self.replay))

    @property
    def end_turn(self) -> float:
        """Largest turn of a bone in a look of the timer after the tool has ended."""
        return max((largest_turn(*pair) for pair in pairwise(self.ends)), default=0.0)

    @property
    def border(self) -> float:
        """Largest turn in an update in which targets come into reach or go out of it."""
        pairs = zip(self.steps, pairwise([self.met_before, *self.met]), strict=True)
        return max((step for step, (first, then) in pairs if first is not then), default=0.0)

    @property
    def share(self) -> float:
        """Part of the handler's time that is the solver's."""
        return float(np.median(self.solving) / np.median(self.handler))

    @property
    def verdicts(self) -> SimpleNamespace:
        """What is wanted, and whether it holds."""
        return SimpleNamespace(
            median=bool(np.median(self.handler) <= MEDIAN_WANTED),
            most=max(self.handler) <= MOST_WANTED,
            after=self.after_turn <= SOLVE_WANTED,
            end=self.end_turn <= END_WANTED,
            once=len(self.iterations) <= len(self.steps),
        )


def measure(case: Case, updates: int) -> Outcome:
    """Move the targets of one case, with live mode on and off."""
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
    found, tool, poses = Outcome(case, figure), [True], list[PoseSnapshot]()
    found.moved = max(float(np.linalg.norm(np.diff(way, axis=0), axis=1).max()) for way in places.values())
    gc.collect()  # what making the scene has left behind is not live mode's
    with (
        _clock() as handled,
        watching(Tracker, "solve") as solved,
        watching(Follower, "follow") as followed,
        patch.object(live, "tool_is_running", lambda: tool[0]),
    ):
        for row in range(updates):
            move(row)
            poses.append(PoseSnapshot.take(figure))
            found.turned.append(local_rotations(figure))
            found.met.append(figure.poise.last_reached)
        found.handler = list(handled)
        found.iterations = [iterations for iterations, _ in (*solved, *followed)]
        found.solving = [seconds for _, seconds in (*solved, *followed)]
        while live.poll() == live.STEP_PAUSE:  # until the body has come to rest under the tool
            pass
        handled.clear()
        for row in range(updates // 4):
            stranger.location.x = sin(row)
            bpy.context.view_layer.update()
        found.idle = list(handled)
        for row in range(updates // 2):
            move(row)
        tool[0] = False
        # The timer looks at the pose where there is a window.
        found.ends.append(local_rotations(figure))
        pause = 0.0
        while pause is not None:
            pause, seconds = timed(live.poll)
            found.looks.append(seconds)
            found.ends.append(local_rotations(figure))
        posing.solve_pose(figure)
        found.after_turn = largest_turn(found.ends[-1], local_rotations(figure))
    posing.switch_live(figure, False)
    for row in range(updates):
        move(row)
        poses[row].restore(figure)
        found.replay.append(timed(bpy.context.view_layer.update)[1])
    return found


@contextmanager
def _clock() -> Iterator[list[float]]:
    """Take the times of the handler, in place of which one with a clock is called."""
    handlers, times = bpy.app.handlers.depsgraph_update_post, list[float]()
    own = next(handler for handler in handlers if handler.__module__ == live.__name__)
    place = handlers.index(own)
    handlers[place] = lambda *arguments: times.append(timed(own, *arguments)[1])
    try:
        yield times
    finally:
        handlers[place] = own


def main() -> int:
    """Run the bench; the exit code is 0 whatever it measures."""
    options = arguments(
        "scripts/bench-live",
        __doc__,
        updates=(UPDATES, "steps of each path"),
        only=("", "paths whose name holds this"),
    ).parse_args()
    with add_on():
        rows = measured(
            (measure(case, options.updates) for case in cases() if options.only in case.name),
            "{row.name}: {row.handler:ms median .2f} ms",
        )
    verdicts = [met for row in rows for met in vars(row.verdicts).values()]
    medians = [float(np.median(row.handler)) for row in rows]
    publish(
        options,
        "live",
        globals(),
        rows=rows,
        bones=rows[0].bones,
        paths=cases(),
        medians=medians,
        rates=[1.0 / seconds for seconds in medians],
        verdicts=verdicts,
    )
    return 0

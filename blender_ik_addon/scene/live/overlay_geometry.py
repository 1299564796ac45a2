# SPDX-License-Identifier: GPL-3.0-or-later
"""What the viewport shows over a figure, as plain data: lines, points and texts in the world.

Nothing is drawn here. `marks_of` is about effectors, limits and balance at the present pose, `drag_marks`
about a drag. What each mark is about is its `role`; the one who draws gives roles their colours.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from bpy.types import Depsgraph, Object

from ...core import IKError
from ...core.amounts import angle_text, limit_angle
from ...core.arrays import FloatArray
from ...core.messages import Joined, Message
from ...core.model.rotation import matrix_and_axes_from_euler
from ..effectors.masses import body_of
from ..kinds.frame_data import FrameData, across, points_of
from ..kinds.kinds import Effector, Goal
from ..kinds.plan import make_goals, supports
from ..properties.settings import POISE_PG_armature, settings_of
from ..rig.noted import Origin
from ..rig.reports import Measured
from ..rig.rig import Rig, those_that
from ..translations import translated
from ..units import length_text
from .dragging import Drag

ON_LIMIT: Final = 2e-3
"""Distance from a limit [rad] up to which a channel is shown as standing on it: a tenth of a degree."""
WARMEST: Final = 100.0
"""Error in tolerances [1] from which it has the colour of a miss; in between colours go by its logarithm."""
ARC: Final = 0.22
"""Radius of the arc of a limit against the length of its bone [1]."""
ARC_SPAN: Final = 0.9
"""How far back from the limit an arc is drawn [rad]."""
TWIST: Final = 1e-3
"""Sine of the angle between an axis and its bone [1] below which the bone twists about it."""
STATE_ROLES: Final = {'PIN': 'PIN', 'REACH': 'EFFECTOR', 'FOLLOW': 'LOOSE_PIN'}
"""Roles of points by the state of their effector."""
ARC_STEPS: Final = 10
"""Lines of which an arc is made."""


class Line(NamedTuple):
    """A line in the world."""

    start: "Place"
    end: "Place"
    role: str
    """'ERROR', 'LOOSE_PIN', 'LIMIT', 'BALANCE' or 'SUPPORT'."""
    heat: float = 0.0
    """0 where all is well, 1 where a target is missed by far [1]."""


class Point(NamedTuple):
    """A point in the world."""

    place: "Place"
    role: str
    """'PIN', 'LOOSE_PIN', 'EFFECTOR', 'DRAGGED', 'BALANCE'."""
    heat: float = 0.0
    """As of a line."""
    effector: int = -1
    """Place in the list of the effector that it stands for; -1 for none."""


class Text(NamedTuple):
    """Words beside a place in the world."""

    place: "Place"
    text: str
    role: str
    """'PRIORITY', 'MISS' or 'LIMIT'."""
    note: str = ""
    """More words, of less weight."""


Place = tuple[float, ...]
"""(3,) [m]"""


@dataclass
class Marks:
    """All that is to be drawn."""

    lines: tuple[Line, ...] = ()
    points: tuple[Point, ...] = ()
    texts: tuple[Text, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lines or self.points or self.texts)

    def __add__(self, other: "Marks") -> "Marks":
        return Marks(self.lines + other.lines, self.points + other.points, self.texts + other.texts)

    def polyline(self, places: Iterable[FloatArray], role: str, heat: float = 0.0) -> None:
        """Add lines from place (3,) to place."""
        ways = pairwise(tuple(place.tolist()) for place in places)
        self.lines += tuple(Line(start, end, role, heat) for start, end in ways)

    def point(self, place: FloatArray, role: str, heat: float = 0.0, effector: int = -1) -> None:
        """Add a point (3,)."""
        self.points += (Point(tuple(place.tolist()), role, heat, effector),)

    def text(self, place: FloatArray, text: str, role: str, note: str = "") -> None:
        """Add words beside a place (3,)."""
        self.texts += (Text(tuple(place.tolist()), text, role, note),)

    def miss(self, place: FloatArray, name: str, missed: Sequence[float], why: str) -> None:
        """Add by how much a target is missed [m, rad]; all of the reason stands in the panel."""
        distance, angle = missed
        amount = length_text(distance) if distance > 0.0 else angle_text(angle) if angle > 0.0 else ""
        self.text(place, Joined(": ", (name, amount)), 'MISS', translated(why).partition(";")[0])


@dataclass(frozen=True)
class Wanted:
    """Which marks are wanted."""

    targets: bool = True
    """Lines from bones to their targets, pins, and by how much targets are missed."""
    priorities: bool = True
    limits: bool = True
    balance: bool = False
    """Centre of mass and what the body stands on; there anyway where an effector asks for balance."""
    active_bone: str = ""
    """The bone whose limits are shown in full; neighbours that stand on limits are shown together."""


def rig_to_mark(armature_object: Object, depsgraph: Depsgraph) -> Rig | None:
    """Read what marks are of, with those effectors that can be read; None where there is nothing to mark.

    It is the same at all frames, as for a bake.
    """
    if not any(entry.enabled for entry in settings_of(armature_object).effectors):
        return None
    try:
        return Rig.read(armature_object, depsgraph, drawing=True)
    except IKError:
        return None  # what is wrong is said where the user asks for a solve


def marks_of(
    armature_object: Object, depsgraph: Depsgraph, wanted: Wanted | None = None, rig: Rig | None = None
) -> Marks:
    """Marks of an armature object at its present pose; none of effectors that cannot be read.

    Args:
        wanted: Which; those that are shown at first for None.
        rig: As `rig_to_mark` gives it, if it is known.
    """
    rig = rig or rig_to_mark(armature_object, depsgraph)
    if rig is None:
        return Marks()
    try:
        figure = _Figure.of(armature_object, rig, depsgraph, wanted or Wanted())
        return Marks() if figure is None else figure.marked(settings_of(armature_object))
    except IKError:
        return Marks()  # what is wrong is said where the user asks for a solve


@dataclass
class _Figure:
    """A figure at its present pose, of which marks are collected."""

    rig: Rig
    now: FrameData
    lengths: FloatArray
    """Of all bones, (n,) [m]."""
    goals: list[tuple[Any, ...]]
    """Goal of each effector, by how much it is missed [m, rad], and its heat [1]."""
    wanted: Wanted
    marks: Marks = field(default_factory=Marks)

    @classmethod
    def of(cls, armature_object: Object, rig: Rig, depsgraph: Depsgraph, wanted: Wanted) -> "_Figure | None":
        """Read its pose, with those effectors that can be measured; None where there are none."""
        # In live mode influences begin where others have left the bones, not at what was solved already.
        live = settings_of(armature_object).live
        origin = Origin.of(armature_object, rig.armature) if live else None

        def measured_of(effectors: Sequence[Effector]) -> tuple[Rig, FrameData, Measured]:
            own = replace(rig, effectors=tuple(effectors))
            frames = own.read_frame(armature_object, depsgraph, origin=origin)
            return own, frames, own.measure(armature_object, depsgraph, frames)

        try:
            rig, frames, measured = measured_of(rig.effectors)
        except IKError:
            rig, frames, measured = measured_of(those_that(measured_of, rig.effectors))
        if not rig.effectors:
            return None
        data: Any = armature_object.data
        skeleton = rig.armature.skeleton
        lengths = np.array([data.bones[name].length for name in skeleton.names])
        now = replace(frames, body=rig.body or body_of(armature_object, skeleton))
        missed = measured.distances, measured.angles
        settings = settings_of(armature_object)
        within = rig.tolerances(armature_object)
        within = within.wider(settings.last_deviation, settings.last_deviation_angle)
        excess = within.excess(*missed)
        heats = np.clip(np.log(np.maximum(excess, 1.0)) / np.log(WARMEST), 0.0, 1.0)
        amounts = (errors.tolist() for errors in (*missed, heats))
        goals = list(zip(make_goals(rig.effectors, frames), *amounts, strict=True))
        return cls(rig, now, lengths, goals, wanted)

    def marked(self, settings: POISE_PG_armature) -> Marks:
        """All that is wanted."""
        for goal, *missed, heat in self.goals:
            if goal.part[0, 0] > 0.0 and goal.effector.kind != 'BALANCE':
                self.mark_effector(goal, heat, missed, settings.effectors[goal.effector.index].why)
        if self.wanted.limits:
            self.mark_limits(self.wanted.active_bone)
        if self.wanted.balance or any(effector.kind == 'BALANCE' for effector in self.rig.effectors):
            self.mark_balance()
        return self.marks

    def mark_effector(self, goal: Goal, heat: float, missed: Sequence[float], why: str) -> None:
        """A line from the bone to where it should be, a point, its level, and by how much it misses.

        What follows has no line: it is wherever the body takes it.
        """
        marks, effector, goal = self.marks, goal.effector, goal.met(self.now)
        here = goal.point(self.now)[0]
        if self.wanted.priorities:
            if effector.follows:  # below all priorities
                marks.text(here, Message("Follow"), 'PRIORITY')
            else:
                note = Message("Pin") if effector.state == 'PIN' else ""
                marks.text(here, str(effector.priority), 'PRIORITY', note)
        if self.wanted.targets:
            there = None if effector.follows else goal.leads_to(here)
            role = STATE_ROLES[effector.state]
            marks.point(here, role, heat, effector.index)
            if there is not None:
                marks.polyline([here, there], 'ERROR', heat)
                if (heat > 0.0 or not effector.position) and not effector.goal.of_surroundings:
                    marks.point(there, role, heat, effector.index)
            if heat > 0.0 and effector.kind != 'STAY':
                marks.miss(here, effector.name, missed, why)

    def mark_limits(self, active: str) -> None:
        """An arc at each joint that stands on a limit, up to where it stops, and its name.

        Limbs and spines come to their limits joint by joint. A text for each joint would be too much to read,
        so there is one for all that follow one another.
        """
        skeleton, angles = self.now.skeleton, self.now.pose.rotation[0]
        world_from_joint = self.now.world_from_joint[0]
        at_lower = angles <= skeleton.lower[:, 3:] + ON_LIMIT
        stands = skeleton.free[:, 3:] & (at_lower | (angles >= skeleton.upper[:, 3:] - ON_LIMIT))
        amounts: dict[int, str] = {}
        for joint in np.flatnonzero(stands.any(1)).tolist():
            if skeleton.names[joint] not in self.rig.chains:
                continue
            matrix = world_from_joint[joint]
            _, axes = matrix_and_axes_from_euler(angles[joint], int(skeleton.orders[joint]))
            standing = np.flatnonzero(stands[joint]).tolist()
            for axis in standing:
                # The bone has gone one way until it met its limit: the arc shows from where.
                back, size = (1.0 if at_lower[joint, axis] else -1.0), ARC * float(self.lengths[joint])
                self.marks.polyline(
                    _arc(matrix, _direction(matrix[:3, :3] @ axes[:, axis]), back, size), 'LIMIT'
                )
            parts = (f"{'XYZ'[axis]} {limit_angle(float(angles[joint, axis]))}" for axis in standing)
            amounts[joint] = ", ".join(parts)
        runs = self.runs(amounts)
        full = [[joint] for joint in amounts if skeleton.names[joint] == active and [joint] not in runs]
        for run in [*full, *runs]:
            names = [skeleton.names[joint] for joint in run]
            if len(run) == 1:
                text = f"{names[0]}: {amounts[run[0]]}"
            elif len(run) == 2:
                text = Message("{first}, {second}: on limits", first=names[0], second=names[1])
            else:
                text = Message(
                    "{first} to {last}: {count} on limits", first=names[0], last=names[-1], count=len(run)
                )
            self.marks.text(world_from_joint[run[len(run) // 2], :3, 3], text, 'LIMIT')

    def runs(self, joints: Collection[int]) -> list[list[int]]:
        """Joints in runs of those that follow one another: where a chain forks it goes straight on."""
        parents = self.now.skeleton.parents.tolist()
        heads, along = self.now.world_from_joint[0, :, :3, 3], self.now.world_from_joint[0, :, :3, 1]
        gaps = np.linalg.norm(heads - (heads + along * self.lengths[:, None])[parents], axis=1)
        next_of: dict[int, int] = {}
        for joint, parent in enumerate(parents):
            if parent >= 0 and gaps[joint] < gaps[next_of.setdefault(parent, joint)]:
                next_of[parent] = joint
        runs: dict[int, list[int]] = {}
        for joint in sorted(joints):  # a parent comes before its children
            parent = parents[joint]
            run = runs[parent] if parent in runs and next_of.get(parent) == joint else []
            run.append(joint)
            runs[joint] = run
        return [run for joint, run in runs.items() if run[0] == joint]

    def mark_balance(self) -> None:
        """The centre of mass, its place on the ground, and what the body stands on."""
        assert self.now.body is not None
        marks, centre, ground = self.marks, self.now.body.centre(self.now.world_from_joint)[0], self.ground()
        if not len(ground):
            marks.point(centre, 'BALANCE')
            return
        height, hull = float(ground[:, 2].min()), convex_hull(ground[:, :2])
        foot = np.array([*centre[:2], height])
        heat = 0.0 if inside(foot[:2], hull) else 1.0
        marks.polyline([np.array([*place, height]) for place in (*hull, hull[0])], 'SUPPORT', heat)
        marks.polyline([centre, foot], 'BALANCE', heat)
        marks.point(centre, 'BALANCE', heat)
        marks.point(foot, 'BALANCE', heat)

    def ground(self) -> FloatArray:
        """Where the body stands: heads and tails of its supports and of the bones on these, (k, 3) [m]."""
        effectors, skeleton = self.rig.effectors, self.now.skeleton
        asking = next((effector for effector in effectors if effector.kind == 'BALANCE'), effectors[0])
        try:
            bones = {effectors[number].bone for number in supports(asking, effectors)}
        except IKError:
            return np.zeros((0, 3))
        supporting = [skeleton.index(bone) for bone in bones]
        joints = sorted({*supporting, *np.flatnonzero(np.isin(skeleton.parents, supporting)).tolist()})
        matrices, tails = self.now.world_from_joint[0, joints], np.zeros((len(joints), 3))
        tails[:, 1] = self.lengths[joints]
        return np.concatenate([matrices[:, :3, 3], points_of(matrices, tails)])


def _direction(way: FloatArray) -> FloatArray:
    """The direction of a way (3,); along X where it has none."""
    length = float(np.linalg.norm(way))
    return way / length if length > 0.0 else np.array([1.0, 0.0, 0.0])


def _arc(matrix: FloatArray, axis: FloatArray, back: float, size: float) -> FloatArray:
    """Places from the head of a bone, (4, 4) in the world, to where it stands and to where it came from."""
    along, head = matrix[:3, 1], matrix[:3, 3]
    radius = across(along, axis)
    if np.linalg.norm(radius) < TWIST * np.linalg.norm(along):  # beside the bone
        radius = across(matrix[:3, 0], axis)
    radius = radius * size
    turns = np.linspace(0.0, back * ARC_SPAN, ARC_STEPS + 1)[:, None]
    return np.vstack([head, head + np.cos(turns) * radius + np.sin(turns) * np.cross(axis, radius)])


def convex_hull(places: FloatArray) -> FloatArray:
    """Corners of the convex hull of places (k, 2) in the plane, counter-clockwise, (c, 2).

    Andrew's monotone chain: from left to right along the lower side, and back along the upper one.
    """
    ordered = np.unique(places, axis=0)
    if len(ordered) < 2:
        return ordered
    corners: list[FloatArray] = []
    for places_in_order in (ordered, ordered[::-1]):
        side: list[FloatArray] = []
        for place in places_in_order:
            while len(side) > 1 and _turn(side[-2], side[-1], place) <= 0.0:
                side.pop()
            side.append(place)
        corners += side[:-1]
    return np.array(corners)


def _turn(first: FloatArray, second: FloatArray, third: FloatArray) -> float:
    """Above 0 where three places turn left."""
    return float(np.linalg.det([second - first, third - first]))


def inside(place: FloatArray, hull: FloatArray) -> bool:
    """Whether a place (2,) is in a convex hull, (c, 2) counter-clockwise."""
    corners = zip(hull, np.roll(hull, -1, axis=0), strict=True)
    return len(hull) > 2 and all(_turn(start, end, place) >= 0.0 for start, end in corners)


def drag_marks(drag: Drag) -> Marks:
    """What a drag holds: the line from the bone to the mouse, pins, and what is missed."""
    marks, dragged, place = Marks(), drag.report.dragged, drag.place
    heat = 0.0 if dragged.reached else 1.0
    marks.polyline([place, drag.goal], 'ERROR', heat)
    marks.point(place, 'DRAGGED', heat)
    if heat and dragged.position is not None:
        marks.miss(drag.goal, drag.bone, (dragged.position, 0.0), dragged.why)
    marks.text(place, str(drag.priority), 'PRIORITY')
    missing = {error.name for error in drag.report.held if not error.reached}
    for name, firm, was, now in drag.pins():
        heat = 1.0 if name in missing else 0.0
        marks.point(was, 'PIN' if firm else 'LOOSE_PIN', heat)
        if heat:
            marks.polyline([now, was], 'ERROR' if firm else 'LOOSE_PIN', heat)
    return marks

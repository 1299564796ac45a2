# SPDX-License-Identifier: GPL-3.0-or-later
"""What the viewport shows over a figure, as plain data: lines, points and texts in the world.

Nothing is drawn here. `marks_of` is about effectors, limits and balance at the present pose, `drag_marks`
about a drag. What each mark is about is its `role`; the one who draws gives roles their colours.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from bpy.types import Depsgraph, Object

from ...core import IKError
from ...core.arrays import FloatArray
from ...core.explain.explanation import limit_angle
from ...core.model.rotation import matrix_and_axes_from_euler
from ..effectors.masses import body_of
from ..kinds.frame_data import FrameData, across, points_of
from ..kinds.kinds import Effector, Goal, make_goals, supports
from ..properties.settings import settings_of
from ..reports import angle_text, length_text
from ..rig.live_state import Origin
from ..rig.reports import Measured
from ..rig.rig import Rig, those_that
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

ARC_STEPS: Final = 10
"""Lines of which an arc is made."""

Place = tuple[float, float, float]


@dataclass(frozen=True)
class Line:
    """A line in the world."""

    start: Place
    end: Place
    role: str
    """'ERROR', 'LOOSE_PIN', 'LIMIT', 'BALANCE' or 'SUPPORT'."""
    heat: float = 0.0
    """0 where all is well, 1 where a target is missed by far [1]."""


@dataclass(frozen=True)
class Point:
    """A point in the world."""

    place: Place
    role: str
    """'PIN', 'LOOSE_PIN', 'EFFECTOR', 'DRAGGED', 'BALANCE'."""
    heat: float = 0.0
    """As of a line."""


@dataclass(frozen=True)
class Text:
    """Words beside a place in the world."""

    place: Place
    text: str
    role: str
    """'PRIORITY', 'MISS' or 'LIMIT'."""
    note: str = ""
    """More words, of less weight."""


Mark = Line | Point | Text


@dataclass(frozen=True)
class Marks:
    """All that is to be drawn."""

    lines: tuple[Line, ...] = ()
    points: tuple[Point, ...] = ()
    texts: tuple[Text, ...] = ()

    @classmethod
    def of(cls, marks: Iterable[Mark]) -> "Marks":
        """Sort marks by what they are."""
        found = list(marks)
        return cls(
            tuple(mark for mark in found if isinstance(mark, Line)),
            tuple(mark for mark in found if isinstance(mark, Point)),
            tuple(mark for mark in found if isinstance(mark, Text)),
        )

    def __add__(self, other: "Marks") -> "Marks":
        return Marks(self.lines + other.lines, self.points + other.points, self.texts + other.texts)

    def __bool__(self) -> bool:
        return bool(self.lines or self.points or self.texts)


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


def marks_of(armature_object: Object, depsgraph: Depsgraph, wanted: Wanted | None = None) -> Marks:
    """Return the marks of an armature object at its present pose; none of effectors that cannot be read.

    Args:
        armature_object: The original object.
        depsgraph: Up to date.
        wanted: Which ones; all but balance by default.
    """
    if not any(entry.enabled for entry in settings_of(armature_object).effectors):
        return Marks()
    try:
        return Marks.of(_marks(armature_object, depsgraph, wanted or Wanted()))
    except IKError:
        return Marks()  # what is wrong is said where the user asks for a solve


def _marks(armature_object: Object, depsgraph: Depsgraph, wanted: Wanted) -> Iterator[Mark]:
    settings = settings_of(armature_object)
    rig = Rig.read(armature_object, depsgraph, drawing=True)
    # In live mode influences begin where others have left the bones, not at what was solved already.
    origin = Origin.of(armature_object, rig.armature) if settings.live else None

    def measured_of(effectors: Sequence[Effector]) -> tuple[Rig, FrameData, Measured]:
        own = replace(rig, effectors=tuple(effectors))
        frames = own.read_frame(armature_object, depsgraph, origin=origin)
        return own, frames, own.measure(armature_object, depsgraph, frames)

    if not (readable := those_that(measured_of, rig.effectors)):
        return
    rig, frames, measured = measured_of(readable)
    data: Any = armature_object.data
    lengths = np.array([data.bones[name].length for name in rig.armature.skeleton.names])
    now = replace(frames, body=rig.body or body_of(armature_object, rig.armature.skeleton))
    missed = measured.distances, measured.angles
    excess = rig.tolerances(armature_object).excess(*missed)
    heats = np.clip(np.log(np.maximum(excess, 1.0)) / np.log(WARMEST), 0.0, 1.0).tolist()
    rows = zip(make_goals(rig.effectors, frames), *missed, heats, strict=True)
    for goal, distance, angle, heat in rows:
        if goal.part[0, 0] > 0.0:
            why = settings.effectors[goal.effector.index].why
            for mark in _effector_marks(goal.met(now), now, heat, (distance, angle), why):
                priority = isinstance(mark, Text) and mark.role == 'PRIORITY'
                if wanted.priorities if priority else wanted.targets:
                    yield mark
    if wanted.limits:
        yield from _limit_marks(rig, now, lengths, wanted.active_bone)
    if wanted.balance or any(effector.kind == 'BALANCE' for effector in rig.effectors):
        yield from _balance_marks(rig.effectors, now, lengths)


# Effectors


def _effector_marks(
    goal: Goal, now: FrameData, heat: float, missed: tuple[float, float], why: str
) -> Iterator[Mark]:
    """A line from the bone to where it should be, a point, its level, and by how much it misses."""
    effector = goal.effector
    if effector.kind == 'BALANCE':
        return
    here = goal.point(now)[0]
    there = goal.leads_to(here)
    if there is not None:
        yield Line(_place(here), _place(there), 'ERROR', heat)
    yield Point(_place(here), 'EFFECTOR' if effector.pin is None else 'PIN', heat)
    yield Text(_place(here), str(effector.priority), 'PRIORITY')
    if heat > 0.0 and effector.kind != 'STAY':
        yield _miss_text(here, effector.name, missed, why)


def _direction(way: FloatArray) -> FloatArray:
    """The direction of a way (3,); along X where it has none."""
    length = float(np.linalg.norm(way))
    return way / length if length > 0.0 else np.array([1.0, 0.0, 0.0])


def _miss_text(place: FloatArray, name: str, missed: tuple[float, float], why: str) -> Text:
    distance, angle = missed
    amount = length_text(distance) if distance > 0.0 else angle_text(angle) if angle > 0.0 else ""
    first = why.partition(";")[0]  # all of it stands in the panel
    return Text(_place(place), f"{name}: {amount}", 'MISS', first)


# Limits


def _limit_marks(rig: Rig, now: FrameData, lengths: FloatArray, active: str) -> Iterator[Mark]:
    """An arc at each joint that stands on a limit, up to where it stops, and its name.

    Limbs and spines come to their limits joint by joint. A text for each joint would be too much to read, so
    there is one for all that follow one another.
    """
    skeleton = rig.armature.skeleton
    angles = now.pose.rotation[0]
    lower, upper = skeleton.lower[:, 3:], skeleton.upper[:, 3:]
    stands = skeleton.free[:, 3:] & ((angles <= lower + ON_LIMIT) | (angles >= upper - ON_LIMIT))
    amounts: dict[int, str] = {}
    for joint in np.flatnonzero(stands.any(1)).tolist():
        if skeleton.names[joint] not in rig.chains:
            continue
        matrix = now.world_from_joint[0, joint]
        _, axes = matrix_and_axes_from_euler(angles[joint], int(skeleton.orders[joint]))
        said: list[str] = []
        for axis in np.flatnonzero(stands[joint]).tolist():
            world_axis = _direction(matrix[:3, :3] @ axes[:, axis])
            # The bone has gone one way until it met its limit: the arc shows from where.
            back = 1.0 if angles[joint, axis] <= lower[joint, axis] + ON_LIMIT else -1.0
            yield from _arc(matrix, world_axis, back, ARC * float(lengths[joint]))
            said.append(f"{'XYZ'[axis]} {limit_angle(float(angles[joint, axis]))}")
        amounts[joint] = ", ".join(said)
    runs = _runs(amounts, now, lengths)
    full = [[joint] for joint in amounts if skeleton.names[joint] == active and [joint] not in runs]
    for run in [*full, *runs]:
        names = [skeleton.names[joint] for joint in run]
        if len(run) == 1:
            text = f"{names[0]}: {amounts[run[0]]}"
        elif len(run) == 2:
            text = f"{names[0]}, {names[1]}: on limits"
        else:
            text = f"{names[0]} to {names[-1]}: {len(run)} on limits"
        yield Text(_place(now.world_from_joint[0, run[len(run) // 2], :3, 3]), text, 'LIMIT')


def _runs(joints: Collection[int], now: FrameData, lengths: FloatArray) -> list[list[int]]:
    """Joints in runs of those that follow one another: where a chain forks it goes straight on."""
    parents = now.skeleton.parents.tolist()
    heads, along = now.world_from_joint[0, :, :3, 3], now.world_from_joint[0, :, :3, 1]
    tails = heads + along * lengths[:, None]
    gaps = np.linalg.norm(heads - tails[parents], axis=1)
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


def _arc(matrix: FloatArray, axis: FloatArray, back: float, size: float) -> Iterator[Line]:
    """Lines about the head of a bone, (4, 4) in the world, from where it stands to where it came from."""
    along, head = matrix[:3, 1], matrix[:3, 3]
    radius = across(along, axis)
    if np.linalg.norm(radius) < TWIST * np.linalg.norm(along):  # beside the bone
        radius = across(matrix[:3, 0], axis)
    radius = radius * size
    turns = np.linspace(0.0, back * ARC_SPAN, ARC_STEPS + 1)[:, None]
    places = head + np.cos(turns) * radius + np.sin(turns) * np.cross(axis, radius)
    return _polyline([head, *places], 'LIMIT')


def _polyline(places: Sequence[FloatArray], role: str, heat: float = 0.0) -> Iterator[Line]:
    return (Line(_place(start), _place(end), role, heat) for start, end in pairwise(places))


# Balance


def _balance_marks(effectors: Sequence[Effector], now: FrameData, lengths: FloatArray) -> Iterator[Mark]:
    """The centre of mass, its place on the ground, and what the body stands on."""
    assert now.body is not None
    centre = now.body.centre(now.world_from_joint)[0]
    ground = _ground(effectors, now, lengths)
    heat = 0.0
    if len(ground):
        height = float(ground[:, 2].min())
        hull = convex_hull(ground[:, :2])
        foot = np.array([*centre[:2], height])
        heat = 0.0 if inside(foot[:2], hull) else 1.0
        yield from _polyline([np.array([*place, height]) for place in (*hull, hull[0])], 'SUPPORT', heat)
        yield Line(_place(centre), _place(foot), 'BALANCE', heat)
    yield Point(_place(centre), 'BALANCE', heat)
    if len(ground):
        yield Point(_place(foot), 'BALANCE', heat)


def _ground(effectors: Sequence[Effector], now: FrameData, lengths: FloatArray) -> FloatArray:
    """Where the body stands: heads and tails of its supports and of the bones on these, (k, 3) [m]."""
    asking = next((effector for effector in effectors if effector.kind == 'BALANCE'), effectors[0])
    try:
        bones = {effectors[number].bone for number in supports(asking, effectors)}
    except IKError:
        return np.zeros((0, 3))
    supporting = [now.skeleton.index(bone) for bone in bones]
    joints = sorted({*supporting, *np.flatnonzero(np.isin(now.skeleton.parents, supporting)).tolist()})
    matrices = now.world_from_joint[0, joints]
    tails = np.zeros((len(joints), 3))
    tails[:, 1] = lengths[joints]
    return np.concatenate([matrices[:, :3, 3], points_of(matrices, tails)])


def convex_hull(places: FloatArray) -> FloatArray:
    """Corners of the convex hull of places (k, 2) in the plane, counter-clockwise, (c, 2).

    Andrew's monotone chain: from left to right along the lower side, and back along the upper one.
    """
    ordered = np.unique(places, axis=0).tolist()
    sides: list[list[list[float]]] = []
    for places_in_order in (ordered, ordered[::-1]):
        side: list[list[float]] = []
        for place in places_in_order:
            while len(side) > 1 and _turn(side[-2], side[-1], place) <= 0.0:
                side.pop()
            side.append(place)
        sides.append(side[:-1] if len(side) > 1 else side)
    return np.array(sides[0] + sides[1] if len(ordered) > 1 else ordered)


def _turn(first: npt.ArrayLike, second: npt.ArrayLike, third: npt.ArrayLike) -> float:
    """Above 0 where three places turn left."""
    ahead, aside = np.subtract(second, first), np.subtract(third, first)
    return float(ahead[0] * aside[1] - ahead[1] * aside[0])


def inside(place: FloatArray, hull: FloatArray) -> bool:
    """Whether a place (2,) is in a convex hull, (c, 2) counter-clockwise."""
    corners = zip(hull, np.roll(hull, -1, axis=0), strict=True)
    return len(hull) > 2 and all(_turn(start, end, place) >= 0.0 for start, end in corners)


# Drags


def drag_marks(drag: Drag) -> Marks:
    """What a drag holds: the line from the bone to the mouse, pins, and what is missed."""
    return Marks.of(_drag_marks(drag))


def _drag_marks(drag: Drag) -> Iterator[Mark]:
    dragged, place = drag.report.dragged, _place(drag.place)
    heat = 0.0 if dragged.reached else 1.0
    yield Line(place, _place(drag.goal), 'ERROR', heat)
    yield Point(place, 'DRAGGED', heat)
    if heat and dragged.position is not None:
        yield _miss_text(drag.goal, drag.bone, (dragged.position, 0.0), dragged.why)
    yield Text(place, str(drag.priority), 'PRIORITY')
    missing = {error.name for error in drag.report.held if not error.reached}
    for name, firm, was, now in drag.pins():
        heat = 1.0 if name in missing else 0.0
        yield Point(_place(was), 'PIN' if firm else 'LOOSE_PIN', heat)
        if heat:
            yield Line(_place(now), _place(was), 'ERROR' if firm else 'LOOSE_PIN', heat)


def _place(place: FloatArray) -> Place:
    x, y, z = place.tolist()
    return x, y, z

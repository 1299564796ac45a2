# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of a solve or a bake: numbers for scripts, and sentences in mm and degrees for people."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import degrees
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from ..core import Status
from ..core.amounts import angle_text, length_text
from ..core.arrays import BoolArray, FloatArray, IntArray
from ..core.engine.pops import Pop

NAMES_SHOWN: Final = 5
"""How many names a sentence lists before it says how many more there are."""

MISSED_WHAT: Final = MappingProxyType(
    {
        'AIM': " off its aim",
        'POLE': " off its bending plane",
        'PLANE': " off its plane",
        'FLOOR': " below its floor",
        'DISTANCE': " off its distance",
        'BALANCE': " off balance",
    }
)
"""What is written after the amount of a miss, by the kind of the effector."""


def in_a_row(texts: Sequence[str]) -> str:
    """Write texts in a row, the first few of many."""
    shown = ", ".join(texts[:NAMES_SHOWN])
    more = len(texts) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def listed(names: Sequence[str]) -> str:
    """Write names in a row, in quotes, the first few of many."""
    return in_a_row([repr(name) for name in names])


def counted(count: int, what: str, several: str = "") -> str:
    """Write how many there are of something: 1 target, 6 targets."""
    return f"{count} {what if count == 1 else several or f'{what}s'}"


def all_reached(count: int) -> str:
    """Write that all of some targets are reached."""
    return "the target is reached" if count == 1 else f"all {count} targets are reached"


def notes_on_branches(pops: Iterable[Pop]) -> tuple[str, ...]:
    """Write at which frames the pose flips, and which bone turns most there."""
    largest: dict[int, Pop] = {}
    for pop in sorted(pops):
        known = largest.setdefault(pop.frame, pop)
        if pop.turn > known.turn:
            largest[pop.frame] = pop
    if not largest:
        return ()
    flips = [
        f"at frame {pop.frame}: {pop.joint} turns {round(degrees(pop.turn))}°" for pop in largest.values()
    ]
    more = len(flips) - NAMES_SHOWN
    rest = [f"and at {counted(more, 'more frame')}"] if more > 0 else []
    return (f"pose flips {'; '.join([*flips[:NAMES_SHOWN], *rest])}",)


class Smoothed(NamedTuple):
    """How much smoothness adds to the miss of an effector."""

    name: str
    frame: int
    amount: float
    """[m] or [rad]"""
    angular: bool
    """Whether it is an angle."""


def notes_on_smoothing(smoothed: Iterable[Smoothed]) -> tuple[str, ...]:
    """Write how much smoothness adds to the misses."""
    texts = [
        f"{(angle_text if own.angular else length_text)(own.amount)} ({own.name}, frame {own.frame})"
        for own in smoothed
    ]
    return (f"smoothness adds up to {' and '.join(texts)} to the misses",) if texts else ()


def sentences(*texts: str) -> str:
    """Write texts one after the other, each with a capital letter and a full stop between."""
    return ". ".join(text[:1].upper() + text[1:] for text in texts)


SETTLING: Final = "Settling"
"""The message while live mode moves the body to the solution; misses are not reported meanwhile."""


@dataclass(frozen=True)
class Tolerances:
    """How near to its target an effector must be to count as having reached it."""

    position: float
    """[m] in the world."""
    rotation: float
    """[rad]"""
    own: tuple[tuple[float, float], ...] = ()
    """The same for each effector, (E,): floors are held more exactly, soft effectors reach within their
    softness, and what only stays near cannot miss. Empty where all have the above."""

    @property
    def positions(self) -> FloatArray:
        """Of each effector, (E,) or (1,) [m]."""
        return np.array([position for position, _ in self.own] or [self.position])

    @property
    def rotations(self) -> FloatArray:
        """Of each effector, (E,) or (1,) [rad]."""
        return np.array([rotation for _, rotation in self.own] or [self.rotation])

    def missed(self, distances: FloatArray, angles: FloatArray) -> BoolArray:
        """Tell where a distance (..., E) [m] or angle [rad] is too large; nan, not asked for, is not."""
        return (distances > self.positions) | (angles > self.rotations)

    def excess(self, distances: FloatArray, angles: FloatArray) -> FloatArray:
        """Return distances (..., E) [m] and angles [rad] in tolerances [1], the larger; 0 for nan."""
        larger = np.fmax(distances / self.positions, angles / self.rotations)
        return np.nan_to_num(larger, nan=0.0, posinf=np.inf)

    def miss_text(
        self, name: str, distance: float, angle: float, why: str = "", *, number: int = 0, kind: str = ""
    ) -> str:
        """Write by how much an effector misses, in what it misses, and why.

        Args:
            name: Of the effector.
            distance: [m].
            angle: [rad].
            why: What keeps it from its target.
            number: Its place among the effectors that have been solved.
            kind: Its kind, which tells what is missed.
        """
        position, rotation = self.own[number] if self.own else (self.position, self.rotation)
        amounts = [length_text(distance)] if distance > position else []
        amounts += [angle_text(angle)] if angle > rotation else []
        what = MISSED_WHAT.get(kind, "")
        return f"{name} by {' and '.join(amounts)}{what}" + (f" ({why})" if why else "")

    def misses_text(self, errors: "Sequence[EffectorError]") -> str:
        """Write which of all effectors miss, by how much and why; nothing where none does."""
        amounts = [
            self.miss_text(
                error.name,
                np.nan if error.position is None else error.position,
                np.nan if error.rotation is None else error.rotation,
                error.why,
                number=number,
                kind=error.kind,
            )
            for number, error in enumerate(errors)
            if not error.reached
        ]
        return f"{len(amounts)} of {len(errors)} targets missed: {', '.join(amounts)}" if amounts else ""


@dataclass(frozen=True)
class EffectorError:
    """How far one effector is from its target, read back from Blender."""

    name: str
    bone: str
    position: float | None
    """[m] in the world; None where the effector does not ask for a place. For PLANE the distance from the
    plane, for FLOOR the depth below it, for DISTANCE how much too far or too near, for BALANCE how far the
    centre of mass is off along the ground, for STAY the offset of the bone that is furthest off."""
    rotation: float | None
    """[rad]; None where the effector does not ask for an orientation. For AIM the angle between ray and
    target, for POLE that by which the limb would have to swing, for STAY the largest turn of a bone."""
    reached: bool
    why: str = ""
    """Why the target is missed, in words, if that is known; empty if it is reached."""
    kind: str = ""
    """Its kind, a name of `properties.KIND_ITEMS`."""
    tolerance_position: float = np.inf
    """What counts as reached [m]."""
    tolerance_rotation: float = np.inf
    """[rad]"""
    taken: str = ""
    """The target that the bone took, of several; empty if it has one."""


def measured_status(solver_status: Status, reached: bool) -> str:
    """Return how a solve ended as Blender shows it: reached is what is measured, not what was computed."""
    if reached:
        return Status.REACHED.value
    return (Status.SETTLED if solver_status is Status.REACHED else solver_status).value


@dataclass(frozen=True)
class Report:
    """Report of a solve."""

    status: str
    """How it ended, a name of `core.Status`; 'REACHED' if all effectors are, measured in Blender."""
    message: str
    """The result in words."""
    iterations: int
    effectors: tuple[EffectorError, ...]
    """The enabled ones, in the order of the list."""
    notes: tuple[str, ...]
    """Further remarks, one sentence each."""

    @property
    def reached(self) -> bool:
        """Whether every effector is within its tolerance."""
        return all(effector.reached for effector in self.effectors)

    @property
    def worst_errors(self) -> tuple[FloatArray, FloatArray]:
        """Distances [m] and angles [rad] for the panel, (E,) each; nan where not asked for."""
        amounts = [(effector.position, effector.rotation) for effector in self.effectors]
        distances, angles = np.array(amounts, dtype=np.float64).reshape(-1, 2).T  # None becomes nan
        return distances, angles

    @property
    def whys(self) -> tuple[str, ...]:
        """Why each effector misses its target, for the panel, (E,)."""
        return tuple(effector.why for effector in self.effectors)

    @property
    def taken(self) -> tuple[str, ...]:
        """Which of several targets each effector took, for the panel, (E,)."""
        return tuple(effector.taken for effector in self.effectors)

    def summary(self) -> str:
        """Return the message and the notes, for the status bar."""
        chosen = [f"{effector.name} took {effector.taken!r}" for effector in self.effectors if effector.taken]
        return sentences(self.message, *([", ".join(chosen)] if chosen else []), *self.notes)


@dataclass(frozen=True)
class BakeReport:
    """Report of a bake."""

    frames: tuple[int, ...]
    """The frames that were keyed, (F,)."""
    names: tuple[str, ...]
    """The effectors, (E,)."""
    position_errors: FloatArray
    """Distances from the targets, read back from Blender, (F, E) [m]; nan where not asked for."""
    rotation_errors: FloatArray
    """Angles to the targets' orientations, likewise, (F, E) [rad]."""
    tolerances: Tolerances
    """What counts as reached."""
    statuses: tuple[str, ...]
    """How each frame ended, (F,), names of `core.Status`; 'REACHED' where measured so in Blender."""
    iterations: IntArray
    """Of each frame, (F,)."""
    branches: tuple[int, ...]
    """Frames at which the pose flips; a note names the bone that turns most."""
    reasons: tuple[str, ...]
    """Why each effector misses its target in its worst frame, in words, (E,); empty if it does not."""
    notes: tuple[str, ...]
    """Further remarks, one sentence each."""
    action: str
    """Name of the action with the keys."""
    keys: int
    """How many were written."""
    keys_replaced: int
    """How many older keys of the same channels, from the first to the last frame, were replaced."""
    smoothing: tuple[Smoothed, ...] = ()
    """The largest distance and the largest angle that smoothness adds to misses, where it adds any."""
    kinds: tuple[str, ...] = ()
    """Kind of each effector, (E,), for the words in which a miss is told."""
    choices: tuple[tuple[str, ...], ...] = ()
    """Which of several targets each effector took in each frame, (F, E); empty for those that have one."""

    @property
    def taken(self) -> tuple[str, ...]:
        """Which of several targets each effector took, one after the other, for the panel, (E,)."""
        if not self.choices:
            return ("",) * len(self.names)
        columns = zip(*self.choices, strict=True)
        return tuple(" → ".join(name for name, _ in groupby(own)) for own in columns)

    @property
    def reached_frames(self) -> tuple[bool, ...]:
        """Whether all effectors are within their tolerances, (F,)."""
        missed = self.tolerances.missed(self.position_errors, self.rotation_errors).any(axis=1)
        return tuple(np.logical_not(missed).tolist())

    @property
    def reached(self) -> bool:
        """Whether every effector is within its tolerance in every frame."""
        return all(self.reached_frames)

    @property
    def worst_frames(self) -> tuple[int, ...]:
        """Where each effector misses by most of its tolerances, (E,)."""
        rows = self.tolerances.excess(self.position_errors, self.rotation_errors).argmax(axis=0)
        return tuple(self.frames[row] for row in rows)

    @property
    def worst_errors(self) -> tuple[FloatArray, FloatArray]:
        """Largest distances [m] and angles [rad] of all frames, for the panel, (E,) each; nan for none."""
        return np.fmax.reduce(self.position_errors, axis=0), np.fmax.reduce(self.rotation_errors, axis=0)

    @property
    def whys(self) -> tuple[str, ...]:
        """Why each effector misses its target, with the frame, for the panel, (E,)."""
        told = zip(self.reasons, self.worst_frames, strict=True)
        return tuple(why and f"in frame {frame}: {why}" for why, frame in told)

    def summary(self) -> str:
        """Return what was keyed, what was missed, and the notes, for the status bar."""
        text = f"baked {counted(len(self.frames), 'frame')} into {self.action!r}: "
        text += f"{counted(self.keys, 'key')} written"
        if self.keys_replaced:
            text += f", {self.keys_replaced} replaced"
        missed = self.reached_frames.count(False)
        chosen = [f"{name} took {own}" for name, own in zip(self.names, self.taken, strict=True) if own]
        if not missed:
            return sentences(f"{text}; {all_reached(len(self.names))}", *chosen, *self.notes)
        worst: list[str] = []
        untold = dict(enumerate(zip(self.worst_frames, self.reasons, strict=True)))
        for errors, tolerances, text_of in (
            (self.position_errors, self.tolerances.positions, length_text),
            (self.rotation_errors, self.tolerances.rotations, angle_text),
        ):
            too_large = np.where(errors > tolerances, errors, -1.0)
            frame, effector = np.unravel_index(too_large.argmax(), too_large.shape)
            if too_large[frame, effector] > 0.0:
                amount = text_of(float(too_large[frame, effector]))
                amount += MISSED_WHAT.get(self.kinds[effector], "") if self.kinds else ""
                told = f"{self.names[effector]} by {amount} in frame {self.frames[frame]}"
                explained, why = untold.get(int(effector), (None, ""))
                if why and explained == self.frames[frame]:
                    told += f" ({untold.pop(int(effector))[1]})"
                worst.append(told)
        text += f"; targets missed in {counted(missed, 'frame')}, at worst {' and '.join(worst)}"
        return sentences(text, *chosen, *self.notes)

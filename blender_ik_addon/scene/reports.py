# SPDX-License-Identifier: GPL-3.0-or-later
"""What a solve or a bake says of itself: numbers for scripts, and sentences in mm and degrees for people."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..core import Status
from ..core.arrays import BoolArray, FloatArray, IntArray

NAMES_SHOWN: Final = 5
"""How many names a sentence lists before it says how many more there are."""


def length_text(length: float) -> str:
    """Write a length [m] in millimetres, to three digits."""
    return f"{_three_digits(1e3 * length)} mm"


def angle_text(angle: float) -> str:
    """Write an angle [rad] in degrees, to three digits."""
    return f"{_three_digits(float(np.degrees(angle)))}°"


def _three_digits(number: float) -> str:
    if number >= 100.0:
        return f"{number:.0f}"
    return f"{number:.3g}" if number >= 1e-3 else f"{number:.1g}"


def listed(names: Sequence[str]) -> str:
    """Write names in a row, the first few of many."""
    shown = ", ".join(repr(name) for name in names[:NAMES_SHOWN])
    more = len(names) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def all_reached(count: int) -> str:
    """Write that all of some targets are reached."""
    return "the target is reached" if count == 1 else f"all {count} targets are reached"


def notes_on_branches(frames: Sequence[int]) -> tuple[str, ...]:
    """Write at which frames a motion goes over to another branch, if at any."""
    if not frames:
        return ()
    shown = ", ".join(str(frame) for frame in frames[:NAMES_SHOWN])
    more = len(frames) - NAMES_SHOWN
    where = f"{'frame' if len(frames) == 1 else 'frames'} {shown}" + (f" and {more} more" if more > 0 else "")
    return (
        f"the motion goes over to another pose at {where}: spread over the frames around, as far as the "
        "targets leave room",
    )


def sentences(*texts: str) -> str:
    """Write texts one after the other, each with a capital letter and a full stop between."""
    return ". ".join(text[:1].upper() + text[1:] for text in texts)


@dataclass(frozen=True)
class Tolerances:
    """How near to its target an effector must be to count as having reached it."""

    position: float
    """[m] in the world."""
    rotation: float
    """[rad]"""

    def missed(self, distances: FloatArray, angles: FloatArray) -> BoolArray:
        """Tell where a distance [m] or an angle [rad] is too large; nan, not asked for, is not."""
        return (distances > self.position) | (angles > self.rotation)

    def excess(self, distances: FloatArray, angles: FloatArray) -> FloatArray:
        """Return distances [m] and angles [rad] in tolerances [1], the larger of the two; 0 for nan."""
        larger = np.fmax(distances / self.position, angles / self.rotation)
        return np.nan_to_num(larger, nan=0.0, posinf=np.inf)

    def miss_text(self, name: str, distance: float, angle: float, why: str = "") -> str:
        """Write by how much an effector misses, in what it misses, and why."""
        amounts = [length_text(distance)] if distance > self.position else []
        amounts += [angle_text(angle)] if angle > self.rotation else []
        return f"{name} by {' and '.join(amounts)}" + (f" ({why})" if why else "")


@dataclass(frozen=True)
class EffectorError:
    """How far one effector is from its target, read back from Blender."""

    name: str
    bone: str
    position: float | None
    """[m] in the world; None where the effector does not ask for a place."""
    rotation: float | None
    """[rad]; None where the effector does not ask for an orientation."""
    reached: bool
    why: str = ""
    """What keeps it from its target, in words, where that is known; empty where it is reached."""


def measured_status(solver_status: Status, reached: bool) -> str:
    """Return how a solve ended as Blender shows it: reached is what is measured, not what was computed."""
    if reached:
        return Status.REACHED.value
    return (Status.SETTLED if solver_status is Status.REACHED else solver_status).value


@dataclass(frozen=True)
class Report:
    """What a solve did."""

    status: str
    """How it ended, a name of `core.Status`; 'REACHED' if all effectors are, measured in Blender."""
    message: str
    """What came of it, in words."""
    iterations: int
    effectors: tuple[EffectorError, ...]
    """The enabled ones, in the order of the list."""
    notes: tuple[str, ...]
    """What else the user should know, one sentence each."""

    @property
    def reached(self) -> bool:
        """Whether every effector is within its tolerance."""
        return all(effector.reached for effector in self.effectors)

    @property
    def whys(self) -> tuple[str, ...]:
        """What keeps each effector from its target, for the panel, (E,)."""
        return tuple(effector.why for effector in self.effectors)

    def summary(self) -> str:
        """Return the message and the notes, for the status bar."""
        return sentences(self.message, *self.notes)


@dataclass(frozen=True)
class BakeReport:
    """What a bake did."""

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
    """Frames at which the motion goes over to another pose; a note tells them too."""
    reasons: tuple[str, ...]
    """What kept each effector from its target in its worst frame, in words, (E,); empty where nothing did."""
    notes: tuple[str, ...]
    """What else the user should know, one sentence each."""
    action: str
    """Name of the action with the keys."""
    keys: int
    """How many were written."""
    keys_replaced: int
    """How many older keys of the same channels, from the first to the last frame, made way for them."""

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
    def whys(self) -> tuple[str, ...]:
        """What kept each effector from its target, with the frame, for the panel, (E,)."""
        told = zip(self.reasons, self.worst_frames, strict=True)
        return tuple(why and f"in frame {frame}: {why}" for why, frame in told)

    def summary(self) -> str:
        """Return what was keyed, what was missed, and the notes, for the status bar."""
        frames = "1 frame" if len(self.frames) == 1 else f"{len(self.frames)} frames"
        text = f"baked {frames} into {self.action!r}, {self.keys} keys"
        if self.keys_replaced:
            text += f" instead of {self.keys_replaced} older ones"
        missed = self.reached_frames.count(False)
        if not missed:
            return sentences(f"{text}; {all_reached(len(self.names))}", *self.notes)
        worst: list[str] = []
        untold = dict(enumerate(zip(self.worst_frames, self.reasons, strict=True)))
        for errors, tolerance, text_of in (
            (self.position_errors, self.tolerances.position, length_text),
            (self.rotation_errors, self.tolerances.rotation, angle_text),
        ):
            known = np.nan_to_num(errors, nan=-1.0, posinf=np.inf)
            frame, effector = np.unravel_index(known.argmax(), known.shape)
            if known[frame, effector] > tolerance:
                amount = text_of(float(known[frame, effector]))
                told = f"{self.names[effector]} by {amount} in frame {self.frames[frame]}"
                explained, why = untold.get(int(effector), (None, ""))
                if why and explained == self.frames[frame]:
                    told += f" ({untold.pop(int(effector))[1]})"
                worst.append(told)
        return sentences(
            f"{text}; targets missed in {missed} of them, at worst {' and '.join(worst)}", *self.notes
        )

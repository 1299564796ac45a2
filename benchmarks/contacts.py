# SPDX-License-Identifier: GPL-3.0-or-later
"""Contacts of feet in recorded clips: how well they are found, what locking changes: scripts/contacts.

Without Blender: the clips (BVH) are read, corrected by examples/foot_lock.py and measured by forward
kinematics, each as recorded and with a drift added, for a figure whose legs are `LEG` long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.page import arguments, measured, publish, stored
from blender_ik_addon.core import Pose, forward_kinematics
from blender_ik_addon.core.arrays import BoolArray, FloatArray
from blender_ik_addon.core.character import Body, Character, Hints, recognise
from blender_ik_addon.core.io import Clip, read_bvh
from blender_ik_addon.core.motion import ContactOptions, Track, find_contacts, leg_length, limb_tracks, spans
from examples import foot_lock

LEG: Final = 0.9  # Length of legs to which each figure is scaled [m]
LEAST_FRAMES: Final = 20  # Frames that a clip must have to be a motion
FRAMES: Final = 300  # Frames of a clip that are corrected, from the first on
FASTEST: Final = 60.0  # Most frames a second of what is corrected; of faster clips every so-manieth is taken
DRIFT: Final = 0.15  # Speed of the drift that is added [m/s]
RATES: Final = (15.0, 30.0, 60.0, 120.0)  # Frames a second at which contacts are found
PLAYED: Final = (
    1.0,
    0.4,
    0.2,
)  # By how many times their speed clips are played: 60 and 120 frames a second at 24

TRUTH: Final[dict[str, dict[str, list[list[int]]]]] = stored("contacts")
"""Clip -> side -> first frame and the one behind the last in which a part of the foot is planted, by eye."""


def read_clip(path: Path) -> tuple[Clip, Character] | None:
    """A clip of a person with legs of `LEG`, and who it is; None where it is no motion of one."""
    clip = read_bvh(path)
    if len(clip.pose) < LEAST_FRAMES:
        return None
    character = recognise(clip.skeleton, Hints(tails=clip.tails))
    if not character.figures or character.figures[0].body is not Body.BIPED:
        return None
    return read_bvh(path, scale=LEG / leg_length(clip.skeleton, character)), character


def thinned(clip: Clip, step: int) -> Clip:
    """Every so-manieth frame."""
    return replace(clip, pose=clip.pose[::step], frame_time=step * clip.frame_time)


def tracks_of(clip: Clip, character: Character) -> tuple[Track, ...]:
    """Those of its feet and hands."""
    return limb_tracks(clip.skeleton, clip.pose, character, clip.tails)


def found_in(clip: Clip, character: Character, options: ContactOptions | None = None) -> list[BoolArray]:
    """Contacts of its feet and hands."""
    up = character.figures[0].up
    return list(find_contacts(tracks_of(clip, character), clip.times, LEG, up=up, options=options))


class Score:
    """How the contacts that are found compare with those marked by eye, in frames of a clip."""

    def __init__(self, name: str, clip: Clip, character: Character, rate: float, played: float = 1.0) -> None:
        step = max(1, round(1.0 / (rate * clip.frame_time)))
        self.name, self.rate = name, 1.0 / (step * clip.frame_time)
        some = thinned(clip, step)
        some = replace(some, frame_time=some.frame_time / played)
        names = [track.name for track in tracks_of(some, character)]
        on = dict(zip(names, found_in(some, character), strict=True))
        self.both = self.found = self.true = self.frames = 0
        for limb in character.limbs:
            marked = TRUTH[name].get(limb.side)
            foot = on.get(clip.skeleton.names[limb.effector])
            if marked is None or foot is None or foot.shape[1] < 2:
                continue
            truth = np.zeros(len(clip.pose), dtype=np.bool_)
            for first, stop in marked:
                truth[first:stop] = True
            planted, truth = foot.any(axis=1), truth[::step]
            self.both += int((planted & truth).sum())
            self.found += int(planted.sum())
            self.true += int(truth.sum())
            self.frames += len(truth)

    @property
    def precision(self) -> float:
        """Part of what is found that is marked."""
        return self.both / max(self.found, 1)

    @property
    def recall(self) -> float:
        """Part of what is marked that is found."""
        return self.both / max(self.true, 1)


class Scores:
    """All clips at one frame rate, or at their own where that is lower, played at one speed."""

    def __init__(self, marked: Sequence[tuple[str, Clip, Character]], rate: float, played: float) -> None:
        self.rate, self.played = rate, played
        rows = [Score(*own, rate=rate, played=played) for own in marked]
        both, found, true = (sum(getattr(row, name) for row in rows) for name in ("both", "found", "true"))
        self.precision, self.recall, self.count = both / found, both / true, len(rows)


class Row:
    """A clip that was corrected, beside what it was."""

    def __init__(self, name: str, clip: Clip, character: Character, drift: float) -> None:
        step = max(1, int(np.ceil(1.0 / (FASTEST * clip.frame_time) - 1e-3)))
        clip = thinned(clip, step)
        clip = replace(clip, pose=clip.pose[:FRAMES])
        if drift:
            clip = drifting(clip, character, drift)
        self.name, self.drift, self.frames, self.rate = name, drift, len(clip.pose), 1.0 / clip.frame_time
        on = found_in(clip, character)
        self.contacts = sum(len(spans(contact.any(axis=1))) for contact in on)
        solution = foot_lock.corrected(clip)
        self.missed = int((solution.errors > 1e-3).any(axis=1).sum())
        """Frames in which a target is missed by more than 1 mm or 0.06°."""
        after = replace(clip, pose=solution.pose)
        self.speed, self.slide = planted_motion(tracks_of(clip, character), on, clip.frame_time)
        self.speed_after, self.slide_after = planted_motion(tracks_of(after, character), on, clip.frame_time)
        places = [forward_kinematics(clip.skeleton, own.pose).matrices[..., :3, 3] for own in (clip, after)]
        self.moved = np.linalg.norm(places[1] - places[0], axis=-1)
        """How far joints are from the recording, (F, n) [m]."""


def drifting(clip: Clip, character: Character, speed: float) -> Clip:
    """The clip with all of the body drifting to the side."""
    channels = np.array(clip.pose.channels)
    way = speed * clip.times[:, None] * character.figures[0].left
    channels[:, clip.skeleton.parents < 0, :3] += way[:, None]
    return replace(clip, pose=Pose(channels, clip.pose.scale))


def planted_motion(
    tracks: Sequence[Track], contacts: Sequence[BoolArray], frame_time: float
) -> tuple[float, float]:
    """Mean speed of planted points [m/s], and the largest way that one goes within a contact [m]."""
    speeds: list[FloatArray] = []
    largest = 0.0
    for track, on in zip(tracks, contacts, strict=True):
        for point in range(on.shape[1]):
            for start, stop in spans(on[:, point]):
                way = track.planted[start:stop, point]
                speeds.append(np.linalg.norm(np.diff(way, axis=0), axis=1) / frame_time)
                largest = max(largest, float(np.linalg.norm(way - way[0], axis=1).max()))
    found = np.concatenate([np.zeros(0), *speeds])
    return float(found.mean()) if len(found) else float("nan"), largest


def rows_of(clips: Sequence[tuple[str, Clip, Character]]) -> Iterator[Row]:
    """Each clip as recorded, and with a drift; those without contacts are left out."""
    for name, clip, character in clips:
        for drift in (0.0, DRIFT):
            row = Row(name, clip, character, drift)
            if row.contacts:
                yield row


def main() -> int:
    """Make the report."""
    options = arguments(
        "scripts/contacts",
        __doc__,
        data=(..., "folder with BVH files"),
        only=("", "clips that hold this in their names"),
    ).parse_args()
    clips: list[tuple[str, Clip, Character]] = []
    for path in sorted(options.data.rglob("*.bvh")):
        if options.only in path.stem and (read := read_clip(path)) is not None:
            clips.append((path.stem, *read))
    marked = [own for own in clips if own[0] in TRUTH]
    scores = [Score(*own, rate=1.0 / own[1].frame_time) for own in marked]
    rates = [Scores(marked, rate, 1.0) for rate in RATES] if marked else []
    speeds = [Scores(marked, max(RATES), played) for played in PLAYED] if marked else []
    words = "{row.name}, drift {row.drift}: {row.speed:mm .0f} to {row.speed_after:mm .3f} mm/s"
    rows = measured(rows_of(clips), words)
    found: dict[str, Any] = {
        "raw": [row for row in rows if not row.drift],
        "drifted": [row for row in rows if row.drift],
    }
    publish(options, "contacts", globals(), rows=rows, scores=scores, rates=rates, speeds=speeds, **found)
    return 0

# SPDX-License-Identifier: GPL-3.0-or-later
"""Branches of a motion: followed from both sides of a jump, to where it costs least to go over.

Targets can be met by more than one pose, and a motion should not jump between them. Where a step is out of
proportion the frames are solved on from its near side; where that side ends, the branch on the far side is
followed back, to the start of the motion if it goes so far, else to where the two come nearest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from .arrays import FloatArray, IntArray
from .continuity import JUMP, NEIGHBOURS, NO_JUMP, OTHER_NAME, jumps, renamed
from .course import AGREE, Course
from .motion import step_sizes
from .newton import Attempt

BLOCKS: Final = (2, 6, 24, 32, 64, 128)
"""Frames through which a branch is followed at once, one block after the other."""

JOININGS: Final = 3
"""How often the branches at all jumps are followed."""

APART: Final = 10.0
"""What the square of a jump [rad²] costs, against the ½|w|² of frames on the branch that is further away."""

SAME_TARGETS: Final = 0.02
"""Way of the targets in a frame [1], in scaled units, that is no leap in any case."""

FOLLOWING: Final = 12
"""Most iterations for that: on a branch that goes on few are needed."""


class Branches:
    """The branches of a motion that is solved."""

    def __init__(self, course: Course) -> None:
        """Look at a motion of which each frame has an answer."""
        self._course = course

    def join(self) -> Iterator[None]:
        """Follow the branches at jumps until there is nothing new; gives control back now and then."""
        seen: set[tuple[int, int]] = set()
        for _ in range(JOININGS):
            news = [jump for jump in self.jumps() if jump not in seen]
            if not news:
                break
            for first, last in news:
                self._join(first, last)
                yield
            seen.update(news)

    def jumps(self) -> list[tuple[int, int]]:
        """Jumps of the motion, without those of the targets themselves."""
        return [
            (first, last) for first, last in jumps(self._course.values.steps()) if not self.leap(first, last)
        ]

    def leap(self, first: int, last: int) -> bool:
        """Whether the targets leap at a jump: seen from the pose before, they move far more than is usual."""
        around = np.arange(max(first - NEIGHBOURS, 1), min(last + NEIGHBOURS + 1, len(self._course.values)))
        before = self._course.values[around - 1]
        # From the same pose: where targets are missed it would move on although they do not.
        missed = [
            self._course.objective.select(frames).stand(before).residual for frames in (around, around - 1)
        ]
        moves = np.linalg.norm(missed[0] - missed[1], axis=1)
        there = (around >= first) & (around <= last)
        usual = float(np.median(moves[~there])) if not there.all() else 0.0
        return bool(moves[there].max() > JUMP * usual + SAME_TARGETS)

    def rename(self) -> None:
        """Where only the angles jump and not the rotations, take angles that go on."""
        system = self._course.system
        frames = [
            frame for first, last in jumps(self._course.values.steps()) for frame in range(first, last + 1)
        ]
        for frame in (0, *frames):
            before = self._course.values[frame - 1] if frame else self._course.start
            if np.abs(self._course.values[frame] - before).max(initial=0.0) <= OTHER_NAME:
                continue
            after = renamed(self._course.values[frame:], before, system.mechanism, system.lower, system.upper)
            if after is not None:
                self._course.values[frame:] = after

    def _join(self, first: int, last: int) -> None:
        """Follow the branches on both sides of a jump and go over where it costs least."""
        choices: list[tuple[float, IntArray, Attempt]] = []
        for frame, direction in ((first - 1, +1), (last, -1)):
            if direction < 0 and not self._course.goal.wish:
                continue
            frames, found, rejoins = self._follow(frame, direction)
            if not len(frames):
                continue
            if rejoins or frames[-1] in (0, len(self._course.values) - 1):
                self._course.take(frames, found)
                return
            stored = self._course.values[frames]
            apart = np.abs(found.values - stored).max(axis=1, initial=0.0)
            energy = np.cumsum(self._wish_of(found.values) - self._wish_of(stored)) + APART * apart**2
            best = int(energy.argmin()) + 1
            choices.append((float(energy[best - 1]), frames[:best], found.select(np.arange(best))))
        step = float(np.abs(self._course.values[last] - self._course.values[first - 1]).max(initial=0.0))
        for energy, frames, found in sorted(choices, key=lambda choice: choice[0])[:1]:
            if energy < APART * step**2:
                self._course.take(frames, found)

    def _follow(self, frame: int, direction: int) -> tuple[IntArray, Attempt, bool]:
        """Follow the branch of a frame forward (+1) or back (−1).

        Returns:
            Frames (f,) that are not on the stored motion, what is found for them, and whether the branch ends
            on the stored motion.
        """
        goal = replace(self._course.goal, max_iterations=min(FOLLOWING, self._course.goal.max_iterations))
        frames, parts = (
            [np.zeros(0, dtype=np.int64)],
            [Attempt.none(self._course.values[:0], self._course.errors[:0])],
        )
        at, value, slope = frame, self._course.values[frame], self._slope(frame, -direction)
        for block in BLOCKS:
            ahead = np.arange(1, min(block, at if direction < 0 else len(self._course.values) - 1 - at) + 1)
            if not len(ahead):
                break
            these = at + direction * ahead
            found = self._course.attempt(
                these, self._course.objective.clipped(value + ahead[:, None] * slope), goal
            )
            usual = max(float(np.abs(slope).max(initial=0.0)), NO_JUMP)
            goes_on = found.met & (step_sizes(np.concatenate([value[None], found.values])) <= JUMP * usual)
            agrees = np.abs(found.values - self._course.values[these]).max(axis=1, initial=0.0) <= AGREE
            ends = bool((agrees | ~goes_on).any())
            stop = int((agrees | ~goes_on).argmax()) if ends else len(these)
            frames.append(these[:stop])
            parts.append(found.select(np.arange(stop)))
            if ends:
                return np.concatenate(frames), Attempt.joined(parts), bool(goes_on[stop])
            slope = found.values[-1] - (found.values[-2] if len(ahead) > 1 else value)
            at, value = int(these[-1]), found.values[-1]
        return np.concatenate(frames), Attempt.joined(parts), False

    def _slope(self, frame: int, direction: int) -> FloatArray:
        """Change of the values from the frame at one side to this one, (nv,)."""
        other = frame + direction
        if not 0 <= other < len(self._course.values):
            return np.zeros(self._course.system.size)
        return self._course.values[frame] - self._course.values[other]

    def _wish_of(self, values: FloatArray) -> FloatArray:
        """½|w|² of the preferred pose, (f, nv) -> (f,)."""
        away = self._course.objective.away(values)
        return 0.5 * np.einsum("fv,fv->f", away, away)

# SPDX-License-Identifier: GPL-3.0-or-later
"""A motion woven from branches: of all ways through the answers that are known, the one that costs least.

With a preferred pose the answers to a frame are isolated, one for each branch that has one there. Which of
them a motion takes must not depend on where the solving began. So where it jumps, its branches are followed
to both sides, also through where they end: there a pose falls to another branch, which is followed on.
That gives some answers a_fi to each frame f, and of all ways i(f) through them is taken that which

    minimises  Σ_f ½|w(a_f)|²  +  n Σ_f |a_f − a_(f−1)|∞²,

w the distance from the preferred pose and n the number of frames among whose answers there is a choice: by
dynamic programming from the first of them to the last [Bellman1957]. Both sums are the same read backward,
and neither knows of chunks. With n a jump counts against the mean of the postures: however long a motion is
that winds up slowly, it is not made to jump back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from .arrays import FloatArray, IntArray
from .continuity import JUMP, NO_JUMP, usual_steps
from .course import AGREE, Course
from .lockstep import Asked, Asking, answered
from .motion import step_sizes

FEWEST: Final = 100
"""What n is at least [1]: an animator sees a jump before a posture."""

BLOCKS: Final = (2, 6, 8, 16)
"""Frames through which a branch is followed at once, one block after the other."""

FOLLOWING: Final = 4
"""Most iterations for that: on a branch that goes on few are needed."""

ROUGH: Final = 0.1 * AGREE
"""Largest change [rad] that may be left to do in an answer of which it is not known whether it is taken."""

TRIED: Final = (0, 4, 8, 16, 24, 32)
"""How many frames from a jump, to both sides, single poses are looked for: on one side a motion may have met
a branch that from the other side nothing leads to."""

MISSED: Final = 1e6
"""What a missed frame costs, against ½|w|² of others [1]: more than any pose."""

MOST: Final = 12
"""Answers to a frame that are looked for; more would cost time without end where targets are noise."""


@dataclass(frozen=True)
class Seed:
    """An answer to a frame from which its branch is to be followed."""

    frame: int
    value: FloatArray
    """The free channels, (nv,)."""
    direction: int
    """Forward (+1) or back (−1)."""
    late: bool = False
    """Whether another branch probably comes to it: then it waits for those."""


class Weaving:
    """The answers that are known to the frames of a motion, and the best way through them."""

    def __init__(self, course: Course, leaps: IntArray) -> None:
        """Begin with the motion as it is.

        Args:
            course: A motion of which each frame has an answer, with a preferred pose.
            leaps: Frames to which the targets leap: there the motion begins anew.
        """
        self._course, self._leaps = course, leaps
        self._steps = course.values.steps()
        self._goal = replace(course.goal, step_tolerance=max(ROUGH, course.goal.step_tolerance))
        self._others: dict[int, list[FloatArray]] = {}
        """Answers to frames besides those of the motion."""
        self._led: dict[tuple[int, int], list[FloatArray]] = {}
        """Answers from which it is known where their branch leads, by frame and direction."""

    def explore(self, jumps: Sequence[int], *, alone: bool) -> Iterator[None]:
        """Follow branches until they lead to what is known; gives control back now and then.

        Args:
            jumps: Frames to which the motion jumps.
            alone: Whether also from what single poses would be beside them.
        """
        values = self._course.values
        seeds = [Seed(frame - 1, values[frame - 1], +1) for frame in jumps]
        seeds += [Seed(frame, values[frame], -1) for frame in jumps]
        tried = self._tried(jumps) if alone else []
        # Single poses lie on few branches: one that is nearer to the one before it than to the motion is
        # probably come to from there, and need not be followed back.
        for number, (frame, value) in enumerate(tried):
            both = np.stack([tried[max(number - 1, 0)][1], values[frame]])
            before, own = np.abs(both - value).max(axis=1, initial=0.0)
            seeds += [Seed(frame, value, +1), Seed(frame, value, -1, late=number > 0 and bool(before < own))]
        yield from answered(self._course, [self._follow(seed) for seed in seeds])

    def _tried(self, jumps: Sequence[int]) -> list[tuple[int, FloatArray]]:
        """What single poses would be beside jumps, and at the end, where that is another answer.

        The first frame has been solved like that. With the last one both ends of a motion are alike.
        """
        course, end = self._course, len(self._course.values) - 1
        beside = [side for frame in jumps for away in TRIED for side in (frame - 1 - away, frame + away)]
        frames = np.unique(np.array([*beside, end], dtype=np.int64))
        frames = frames[(frames >= 0) & (frames <= end)]
        frames = frames[course.met[frames]]
        starts = np.broadcast_to(course.start, (len(frames), course.system.size))
        found = course.attempt(frames, starts, self._goal)
        course.iterations[frames] += found.iterations
        return [
            (frame, value)
            for frame, value in zip(frames[found.met].tolist(), found.values[found.met], strict=True)
            if self.learn(frame, value)
        ]

    def best(self) -> tuple[IntArray, FloatArray]:
        """Frames to which the best way takes another answer than the motion, (f,), and it, (f, nv).

        It counts as that of the motion from then on.
        """
        course = self._course
        frames = np.array(sorted(self._others), dtype=np.int64)
        # Through a frame with but one answer all ways go: each stretch without one is by itself.
        stretches = np.split(frames, 1 + np.flatnonzero(np.diff(frames) > 1))
        ways = [self._way(stretch) for stretch in stretches if len(stretch)]
        changed = [frame for way in ways for frame in way]
        values = [value for way in ways for value in way.values()]
        return np.array(changed, dtype=np.int64), np.array(values).reshape(len(changed), course.system.size)

    def _way(self, stretch: IntArray) -> dict[int, FloatArray]:
        """The best way through frames that follow one another, as far as it is not that of the motion."""
        course = self._course
        first, last = max(int(stretch[0]) - 1, 0), min(int(stretch[-1]) + 1, len(course.values) - 1)
        frames = range(first, last + 1)
        answers = [np.stack([course.values[frame], *self._others.get(frame, ())]) for frame in frames]
        costs = [course.wishes(some) for some in answers]
        for frame, cost in zip(frames, costs, strict=True):
            cost[0] = cost[0] if course.met[frame] else MISSED
        apart = float(max(len(stretch), FEWEST))
        least, before = costs[0], list[IntArray]()
        for number, frame in enumerate(frames[1:], start=1):
            steps = np.abs(answers[number][:, None] - answers[number - 1]).max(axis=2, initial=0.0)
            ways = least + (0.0 if frame in self._leaps else apart) * steps**2
            before.append(ways.argmin(axis=1))
            least = ways.min(axis=1) + costs[number]
        way: dict[int, FloatArray] = {}
        taken = int(least.argmin())
        for number, frame in reversed(list(enumerate(frames))):
            if taken:
                way[frame] = answers[number][taken]
                self._others[frame].pop(taken - 1)
                if course.met[frame]:
                    self._others[frame].append(answers[number][0])
            taken = int(before[number - 1][taken]) if number else 0
        return way

    def _follow(self, seed: Seed) -> Asking[None]:
        """Learn the answers of a branch in one direction, and on through those to which it falls.

        A fall takes many iterations. Those who ask for them wait for the others, so that it is done for all.
        """
        course, direction = self._course, seed.direction
        quick = replace(self._goal, max_iterations=min(FOLLOWING, self._goal.max_iterations))
        at, value, end = (
            seed.frame,
            seed.value,
            end_of(seed.frame, direction, self._leaps, len(course.values)),
        )
        slope, size, closely = np.zeros_like(value), 0, False
        if seed.late:  # to ask for nothing, but for a little more, is to wait
            later = replace(quick, max_iterations=quick.max_iterations + 1)
            yield Asked(np.zeros(0, dtype=np.int64), np.zeros((0, len(value))), later)
        if self._has_led(at, value, direction):
            return
        while at != end:
            count = 1 if closely else min(BLOCKS[min(size, len(BLOCKS) - 1)], abs(end - at))
            frames = at + direction * np.arange(1, count + 1)
            # Targets that move far in a frame lead elsewhere than straight on.
            ahead = np.zeros(1) if closely else np.arange(1.0, count + 1.0)
            starts = course.objective.clipped(value + ahead[:, None] * slope)
            found = yield Asked(frames, starts, self._goal if closely else quick)
            course.iterations[frames] += found.iterations
            usual = usual_steps(self._steps, np.array([min(at, at + direction)]))[0]
            usual = max(float(np.abs(slope).max(initial=0.0)), float(usual), NO_JUMP)
            steps = step_sizes(np.concatenate([value[None], found.values]))
            good = found.met & ((steps <= JUMP * usual) | closely)
            for number in range(count if good.all() else int(good.argmin())):
                before, slope = slope, found.values[number] - value
                at, value = int(frames[number]), found.values[number]
                # The same way leads back; after a bend it need not, where two branches meet.
                if np.abs(slope - before).max(initial=0.0) <= NO_JUMP:
                    self._has_led(at, value, -direction)
                if not self.learn(at, value) or self._has_led(at, value, direction):
                    return
            if closely and not found.met[0]:
                return
            if closely and steps[0] > JUMP * usual:
                slope = np.zeros_like(value)  # nothing goes on from a fall
            size, closely = (size + 1, False) if good.all() else (0, True)

    def _has_led(self, frame: int, value: FloatArray, direction: int) -> bool:
        """Whether it is known where the branch of an answer leads; from now on it is."""
        known = self._led.setdefault((frame, direction), [])
        if known and (np.abs(np.stack(known) - value).max(axis=1, initial=0.0) <= AGREE).any():
            return True
        known.append(value)
        return False

    def learn(self, frame: int, value: FloatArray) -> bool:
        """Take note of an answer to a frame, unless it is known; whether it was not."""
        others = self._others.get(frame, [])
        known = np.stack([self._course.values[frame], *others])
        if len(others) >= MOST or (np.abs(known - value).max(axis=1, initial=0.0) <= AGREE).any():
            return False
        self._others.setdefault(frame, others).append(value)
        return True


def end_of(frame: int, direction: int, leaps: IntArray, count: int) -> int:
    """The last frame in a direction before a motion of some frames ends or its targets leap."""
    if direction > 0:
        return int((leaps[leaps > frame] - 1).min(initial=count - 1))
    return int(leaps[leaps <= frame].max(initial=0))

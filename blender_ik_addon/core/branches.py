# SPDX-License-Identifier: GPL-3.0-or-later
"""Branches of a motion: entered where frames are missed, followed from both sides of a jump.

Targets can be met by more than one pose, and a motion should not jump between them. Where a step is out of
proportion the branches on both sides are followed, and of what is known the best is taken (`weaving`).
Without a preferred pose the frames are solved on from the near side, and the branch is taken as far as that
costs least. Where the targets themselves leap a motion begins anew.

A branch can also end where targets cannot be met on it any more, although they can be on another. So frames
that are missed are tried from the pose after them, and as single poses are, from where the motion started;
from what is found the branch is followed to both sides. That asks for a preferred pose: without one nothing
would lead from such a frame to those beside it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray, IntArray
from .attempts import Attempt, Goal
from .continuity import JUMP, NEIGHBOURS, NO_JUMP, OTHER_NAME, grouped, renamed, sudden, usual_steps
from .course import AGREE, Course
from .falling import falls
from .lockstep import Asked, Asking, answered, finished
from .motion import step_sizes
from .solution import Solution
from .weaving import MISSED, Weaving, end_of

BLOCKS: Final = (2, 6, 8, 16, 32, 64, 128)
"""Frames through which a branch is followed at once, one block after the other."""

JOININGS: Final = 3
"""How often the branches at all jumps are followed."""

APART: Final = 10.0
"""What the square of a jump [rad²] costs, against the ½|w|² of frames on the branch that is further away."""

SAME_TARGETS: Final = 0.02
"""Way of the targets in a frame [1], in scaled units, that is no leap in any case."""

FOLLOWING: Final = 8
"""Most iterations for that: on a branch that goes on few are needed."""


FAST: Final = 0.15
"""Largest change of a channel [rad] in a frame from which a pose need not lead straight on."""
STEEP: Final = 2.0
"""How many times as far as is usual around it a pose goes, by the way of its targets, to be looked at [1]."""
STRAIGHT: Final = 20
"""Most iterations in which a pose leads straight to that of the next frame."""
DEARER: Final = 2.0
"""How many times as far from the preferred pose, by ½|w|² [1], a branch is that is left for another."""


@dataclass(frozen=True)
class Branch:
    """A branch that was followed from a frame."""

    frames: IntArray
    """Those that are not on the stored motion, one after the other or back, (f,)."""
    found: Attempt
    """What was found for them."""
    all_the_way: bool
    """Whether it goes on to the stored motion, to the end of the motion, or to a leap of the targets."""

    def first(self, count: int) -> Branch:
        """No more of it than some frames."""
        some = np.arange(count)
        return Branch(self.frames[some], self.found.select(some), self.all_the_way)


class Branches:
    """The branches of a motion that is solved."""

    def __init__(self, course: Course) -> None:
        """Look at a motion of which each frame has an answer."""
        self._course = course
        self._borders: set[int] = set()
        """Frames with which other answers begin than those found from coarse to fine, or end."""
        self._placed: set[int] = set()
        """Frames at which two branches meet where that costs least."""
        self._known_leaps: IntArray | None = None
        """`_leaping`, until an answer changes."""

    def join(self) -> Iterator[None]:
        """Follow the branches at jumps until there is nothing new; gives control back now and then."""
        if self._course.goal.wish and not self._course.system.alternatives:
            yield from self._weave()
            return
        seen: set[tuple[int, int]] = set()
        for _ in range(JOININGS):
            news = [jump for jump in self.jumps() if jump not in seen and not self._placed.issuperset(jump)]
            if not news:
                break
            seen.update((yield from self._join(news)))
        for frame in self._strayed():
            self._go_over_best(self._followed(frame - 1, +1))
            self._go_over_best(self._followed(frame, -1))
            yield

    def _weave(self) -> Iterator[None]:
        """Take the best of all ways through the answers that branches at jumps and beside them give."""
        course, weaving = self._course, Weaving(self._course, self._leaping)
        seen: set[int] = set()
        strayed = self._strayed()
        for number in range(JOININGS):
            # A frame between two jumps may be the only one that there is of its branch.
            jumps = {frame for first, last in self.jumps() for frame in range(first, last + 1)}
            news = sorted(jumps.union(strayed) - seen)
            if number and not news:
                break
            seen.update(news)
            yield from weaving.explore(news, alone=not number)
            frames, best = weaving.best()
            if not len(frames):
                break
            # They are finished only now that they are taken; one that would go elsewhere stays as it is.
            found = course.attempt(frames, best)
            goes: BoolArray = found.met & (np.abs(found.values - best).max(axis=1, initial=0.0) <= AGREE)
            best, system = np.where(goes[:, None], found.values, best), course.system.select(frames)
            errors, met = system.errors(system.place(best)), np.ones(len(frames), dtype=np.bool_)
            self._take(frames, Attempt(best, errors, met, found.iterations, ()))

    def enter(self) -> Iterator[None]:
        """Look for branches on which frames are met that are missed; gives control back now and then."""
        course = self._course
        if not course.goal.wish or course.system.alternatives:
            return
        self._begin_anew(self._leaping)
        for first, last in _runs(~course.met):
            if last + 1 < len(course.values) and last + 1 not in self._leaping:
                self._go_over_best(self._followed(last + 1, -1))
                yield
            left = np.arange(first, last + 1)
            # What one frame leads to need not be all: as long as another is met, go on with those left.
            while len(left := left[~course.met[left] & ~course.beyond[left]]) and self._seed(left):
                yield

    def _begin_anew(self, leaps: IntArray) -> None:
        """After leaps of the targets, take the branch that single poses would, where it is far cheaper."""
        course = self._course
        for frame in leaps[course.met[leaps]].tolist():
            found = course.solution(frame, course.start[None], course.options)
            value = course.system.mechanism.values(found.pose)[None]
            cost, now = course.wishes(np.concatenate([value, course.values[frame][None]]))
            if found.reached and DEARER * cost < now:
                self._put(frame, found)
                self._follow_seed(frame)

    def _seed(self, missed: IntArray) -> bool:
        """Try some of the frames of a missed stretch, (f,), as single poses are, and follow what is found.

        Returns:
            Whether any of them is met.
        """
        course = self._course
        starts = np.broadcast_to(course.start, (len(missed), course.system.size))
        found = course.attempt(missed, starts)
        if found.met.any():
            self._take(missed[found.met], found.select(found.met))
        else:
            misses = (course.errors[missed] / course.tolerance).max(axis=1)
            frame = int(missed[misses.argmin()])
            after = min(frame + 1, len(course.values) - 1)
            start = course.values[after] if course.met[after] else course.start
            single = course.solution(frame, start[None], course.options)
            if not single.reached:
                return False
            self._put(frame, single)
        met = np.zeros(len(course.values), dtype=np.bool_)
        met[missed] = course.met[missed]
        for first, last in _runs(met):
            self._follow_seed(first, last)
        return True

    def _follow_seed(self, first: int, last: int | None = None) -> None:
        """Follow to both sides what was found for some frames by themselves."""
        for frame, direction in ((first if last is None else last, +1), (first, -1)):
            self._go_over_best(self._followed(frame, direction, alone=True))

    def jumps(self) -> list[tuple[int, int]]:
        """Jumps of the motion, without those of the targets themselves."""
        frames = sudden(self._course.values.steps())
        return grouped(frames[~self.leaps(frames)])

    def changes(self) -> Iterator[int]:
        """Frames to which the motion goes over without a jump: to where no pose leads, or in a fall."""
        course = self._course
        borders = np.array([frame for frame in self._borders if 0 < frame < len(course.values)], np.int64)
        frames = np.unique(np.concatenate([borders, self._steep()]))
        frames = np.setdiff1d(frames, sudden(course.values.steps()))
        frames = frames[course.met[frames - 1] & course.met[frames]]
        frames = frames[course.values.steps()[frames - 1] > NO_JUMP]
        frames = frames[~self.leaps(frames)]
        if not len(frames):
            return
        both = np.concatenate([frames - 1, frames])
        values = course.values[both]
        found = course.attempt(both, np.roll(values, len(frames), axis=0))
        agrees = np.abs(found.values - values).max(axis=1, initial=0.0) <= AGREE
        met, led = (some.reshape(2, -1) for some in (found.met, found.met & agrees))
        straight = (led & (found.iterations.reshape(2, -1) <= STRAIGHT)).any(axis=0)
        apart = np.isin(frames, borders) & met.any(axis=0) & ~led.any(axis=0)
        for frame in frames[apart | ~straight].tolist():
            if apart[frames == frame].any() or (not course.system.alternatives and falls(course, frame)):
                yield frame

    def _strayed(self) -> list[int]:
        """Frames to which the motion goes far in proportion, where a pose beside leads to a nearer one."""
        course = self._course
        if not course.goal.wish or course.system.alternatives:
            return []
        frames = np.setdiff1d(self._steep(), sudden(course.values.steps()))
        frames = frames[course.met[frames - 1] & course.met[frames]]
        frames = frames[~self.leaps(frames)]
        if not len(frames):
            return []
        both = np.concatenate([frames - 1, frames])
        values = course.values[both]
        beside = np.roll(values, len(frames), axis=0)
        found = course.attempt(both, beside)
        nearer = np.abs(found.values - beside).max(axis=1) + AGREE < np.abs(values - beside).max(axis=1)
        strayed = (found.met & nearer).reshape(2, -1).any(axis=0)
        return [int(frame) for frame in frames[strayed]]

    def _steep(self) -> IntArray:
        """Frames to which the motion goes far, as its targets do not, by what is usual around them, (f,)."""
        steps = self._course.values.steps()
        fast = np.flatnonzero(steps > FAST) + 1
        if not len(fast):
            return fast
        around = np.unique(fast[:, None] + np.arange(-NEIGHBOURS, NEIGHBOURS + 1))
        around = around[(around > 0) & (around <= len(steps))]
        gains = np.zeros(len(steps))
        gains[around - 1] = steps[around - 1] / (self._target_steps(around) + SAME_TARGETS)
        return fast[gains[fast - 1] > STEEP * usual_steps(gains, fast - 1)]

    def _target_steps(self, frames: IntArray) -> FloatArray:
        """Way of the targets to each of some frames, in scaled units, (f,)."""
        # From the same pose: where targets are missed it would move on although they do not.
        before = self._course.values[frames - 1]
        here, there = (
            self._course.objective.select(some).stand(before).residual for some in (frames, frames - 1)
        )
        return np.linalg.norm(here - there, axis=1)

    @property
    def _leaping(self) -> IntArray:
        """Frames to which the targets leap, and the motion with them."""
        if self._known_leaps is None:
            frames = sudden(self._course.values.steps())
            self._known_leaps = frames[self.leaps(frames)]
        return self._known_leaps

    def leaps(self, frames: IntArray) -> BoolArray:
        """To which frames the targets leap: seen from the pose before, they move far more than is usual."""
        leap = np.zeros(len(frames), dtype=np.bool_)
        for first, last in grouped(frames):
            around = np.arange(
                max(first - NEIGHBOURS, 1), min(last + NEIGHBOURS + 1, len(self._course.values))
            )
            moves = self._target_steps(around)
            there: BoolArray = np.isin(around, frames)
            usual = float(np.median(moves[~there])) if not there.all() else 0.0
            leap |= np.isin(frames, around[there & (moves > JUMP * usual + SAME_TARGETS)])
        return leap

    def rename(self) -> None:
        """Where only the angles jump and not the rotations, take angles that go on."""
        course, system = self._course, self._course.system
        for frame in (0, *(1 + np.flatnonzero(course.values.steps() > OTHER_NAME)).tolist()):
            before = course.values[frame - 1] if frame else course.start
            after = renamed(course.values[frame:], before, system.mechanism, system.lower, system.upper)
            if after is not None:
                course.values[frame:] = after

    def _join(self, jumps: list[tuple[int, int]]) -> Generator[None, None, list[tuple[int, int]]]:
        """Follow the branches on both sides of jumps and go over where it costs least.

        All at once: those whose frames another has changed meanwhile are left; returns the others.
        """
        course = self._course
        onward = yield from answered(course, [self._follow(first - 1, +1) for first, _ in jumps])
        back: list[Branch | None] = [None] * len(jumps)
        asked = [number for number, jump in enumerate(jumps) if self._wants_back(jump, onward[number])]
        ways = yield from answered(course, [self._follow(jumps[number][1], -1) for number in asked])
        for number, way in zip(asked, ways, strict=True):
            back[number] = way
        changed = np.zeros(len(course.values) + 1, dtype=np.bool_)
        done: list[tuple[int, int]] = []
        for (first, last), *ways in zip(jumps, onward, back, strict=True):
            branches = [way for way in ways if way is not None and len(way.frames)]
            ends = np.concatenate([[first, last], *(way.frames for way in branches)])
            if changed[ends.min() - 1 : ends.max() + 2].any():
                continue
            done.append((first, last))
            taken = self._best_of(first, last, branches)
            if taken is not None:
                self._take(taken.frames, taken.found)
                changed[taken.frames] = True
        return done

    def _wants_back(self, jump: tuple[int, int], onward: Branch) -> bool:
        """Whether the branch behind a jump is followed back: not if the one before it goes on as cheaply."""
        first, last = jump
        if not self._course.goal.wish:
            return False
        before, after = self._course.wishes(self._course.values[np.array([first - 1, last])])
        return not (len(onward.frames) and onward.all_the_way and before < DEARER * after)

    def _best_of(self, first: int, last: int, branches: Sequence[Branch]) -> Branch | None:
        """The branch at a jump that costs least, as far as it is taken: all the way if one goes so far."""
        whole = [branch for branch in branches if branch.all_the_way]
        if whole:
            return min(whole, key=lambda branch: float(self._costs(branch)[-1]))
        best, least = None, self._gap(first, last)
        for branch in branches:
            energy = self._costs(branch) + self._gaps(branch)
            end = int(energy.argmin())
            if energy[end] < least:
                best, least = branch.first(end + 1), float(energy[end])
        if best is not None:
            # Nothing new is found from where the same two branches now meet.
            end = int(best.frames[-1])
            self._placed.add(end + 1 if end >= first else end)
        return best

    def _go_over_best(self, branch: Branch) -> None:
        """Take a branch as far as that costs least, if it is met where the motion is not, or far cheaper."""
        if not len(branch.frames):
            return
        costs = self._costs(branch)
        energy = costs + self._gaps(branch)
        if branch.all_the_way:  # there the motion goes on from it
            energy[-1] = costs[-1]
        end = int(energy.argmin())
        if energy[end] < 0.0:
            best = branch.first(end + 1)
            self._take(best.frames, best.found)

    def _take(self, frames: IntArray, found: Attempt) -> None:
        """Take answers to frames, in order or back in it, and remember where they begin and end."""
        self._course.take(frames, found)
        self._known_leaps = None
        for first, last in _runs(np.isin(np.arange(len(self._course.values)), frames)):
            self._borders.update((first, last + 1))

    def _put(self, frame: int, solution: Solution) -> None:
        """The same with the answer to a single pose."""
        self._course.put(frame, solution)
        self._known_leaps = None
        self._borders.update((frame, frame + 1))

    def _costs(self, branch: Branch) -> FloatArray:
        """What a branch costs more than the motion, if it is taken up to each of its frames, (f,)."""
        course, frames = self._course, branch.frames
        stored = np.where(course.met[frames], course.wishes(course.values[frames]), MISSED)
        return np.cumsum(course.wishes(branch.found.values) - stored)

    def _gaps(self, branch: Branch) -> FloatArray:
        """What it costs to go over from each of its frames, (f,)."""
        change = branch.found.values - self._course.values[branch.frames]
        return APART * np.abs(change).max(axis=1, initial=0.0) ** 2

    def _gap(self, first: int, last: int) -> float:
        """What the jump costs that is there."""
        change = self._course.values[last] - self._course.values[first - 1]
        return APART * float(np.abs(change).max(initial=0.0)) ** 2

    def _followed(self, frame: int, direction: int, *, alone: bool = False) -> Branch:
        """`_follow` by itself."""
        (branch,) = finished(answered(self._course, [self._follow(frame, direction, alone=alone)]))
        return branch

    def _follow(self, frame: int, direction: int, *, alone: bool = False) -> Asking[Branch]:
        """Follow the branch of a frame forward (+1) or back (−1).

        Args:
            frame: Where to begin.
            direction: Where to go.
            alone: Whether the frame is not of one branch with any beside it.
        """
        course = self._course
        quick = replace(course.goal, max_iterations=min(FOLLOWING, course.goal.max_iterations))
        frames = [np.zeros(0, dtype=np.int64)]
        parts = [Attempt.none(course.values[:0], course.errors[:0])]
        at, value, end = (
            frame,
            course.values[frame],
            end_of(frame, direction, self._leaping, len(course.values)),
        )
        slope = np.zeros_like(value) if alone else self._slope(frame, -direction)
        beside = float(usual_steps(course.values.steps(), np.array([max(frame - 1, 0)]))[0]) if alone else 0.0
        size, closely = 0, False
        while at != end and size < len(BLOCKS):
            usual = max(float(np.abs(slope).max(initial=0.0)), beside, NO_JUMP)
            these = at + direction * np.arange(1, 2 if closely else min(BLOCKS[size], abs(end - at)) + 1)
            # Targets that move far in a frame lead elsewhere than straight on.
            ahead = np.zeros(1) if closely else direction * (these - at)
            starts, goal = value + ahead[:, None] * slope, course.goal if closely else quick
            found, agrees, goes_on = yield from self._step(these, value, starts, goal, JUMP * usual)
            stops = agrees | ~goes_on
            count = int(stops.argmax()) if stops.any() else len(these)
            frames.append(these[:count])
            parts.append(found.select(np.arange(count)))
            if count < len(these) and goes_on[count]:
                return Branch(np.concatenate(frames), Attempt.joined(parts), all_the_way=True)
            if count:
                slope = found.values[count - 1] - (found.values[count - 2] if count > 1 else value)
                at, value = int(these[count - 1]), found.values[count - 1]
            if count == len(these):
                size, closely = size + 1, False
            elif closely or not (alone or usual > FAST or self._is_dearer(at + direction, value)):
                break
            else:
                size, closely = 0, True
        return Branch(np.concatenate(frames), Attempt.joined(parts), all_the_way=at == end)

    def _is_dearer(self, frame: int, value: FloatArray) -> bool:
        """Whether the motion is far dearer at a frame than a pose beside it."""
        here, there = self._course.wishes(np.stack([value, self._course.values[frame]]))
        return bool(there > DEARER * here)

    def _step(
        self, frames: IntArray, before: FloatArray, starts: FloatArray, goal: Goal, most: float
    ) -> Asking[tuple[Attempt, BoolArray, BoolArray]]:
        """Attempts for frames one after the other; where they agree with the motion; where they go on."""
        found = yield Asked(frames, self._course.objective.clipped(starts), goal)
        goes_on = found.met & (step_sizes(np.concatenate([before[None], found.values])) <= most)
        agrees = np.abs(found.values - self._course.values[frames]).max(axis=1, initial=0.0) <= AGREE
        return found, agrees, goes_on

    def _slope(self, frame: int, direction: int) -> FloatArray:
        """Change of the values from the frame at one side to this one, (nv,)."""
        other = frame + direction
        if not 0 <= other < len(self._course.values):
            return np.zeros(self._course.system.size)
        return self._course.values[frame] - self._course.values[other]


def _runs(frames: BoolArray) -> list[tuple[int, int]]:
    """First and last of frames that follow one another, (F,)."""
    edges = np.flatnonzero(np.diff(frames, prepend=False, append=False))
    return [(int(first), int(last) - 1) for first, last in edges.reshape(-1, 2)]

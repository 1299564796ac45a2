# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left of a jump, spread over frames around it, in the room that the tasks leave.

A pose in several frames between the two sides of the jump, as near as the tasks allow to one that goes over
smoothly (`continuity`); then each frame is drawn to the middle of those beside it. Where a target goes out
of reach a limb stretches infinitely fast: that is spread likewise. What is missed in any case gives way
there, if it is of the lowest level, so that no level depends on those below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from .arrays import BoolArray, FloatArray, IntArray
from .branches import Branches
from .continuity import NO_JUMP, Passage, passage, spread, usual_steps
from .course import Course
from .motion import step_sizes
from .newton import attempt
from .objective import Objective
from .preparing import SLACK, objective_of
from .solution import Status, TaskError, result_message

SPREAD: Final = 0.7
"""Part of the largest step [1] that may be left when a jump is spread; more is no gain."""

EVENINGS: Final = 8
"""How often, at most, the frames over which a jump is spread are drawn to the middle of those beside them."""

EVENING: Final = 0.75
"""How far [1]: all the way they would swing."""

EVEN: Final = 0.9
"""Part of the largest step [1] that is left when that brings little more."""

SMOOTH: Final = 1e-3
"""Largest change [rad] that may be left to do on the way to a smooth pose: nothing about it is exact."""

SNAP: Final = 2.0
"""As JUMP [1], where a target goes out of reach or comes back: there a limb stretches infinitely fast."""


class Spreading:
    """Steps of a motion that are out of proportion, made smaller."""

    def __init__(self, course: Course, branches: Branches) -> None:
        """Look at a motion of which each frame has an answer."""
        self._course, self._branches = course, branches
        self.gone_over: set[int] = set()
        """Frames to which the motion goes over from one branch to another."""
        priorities = [task.priority for task in course.system.tasks]
        lowest = max(priorities, default=0)
        self._gives_way: BoolArray = np.array(
            [
                not course.system.alternatives and (course.options.merged or priority == lowest)
                for priority in priorities
            ],
            dtype=np.bool_,
        )
        """Which tasks, where they are missed in any case, give way to a smooth motion, (T,)."""

    def run(self) -> Iterator[None]:
        """Spread what there is; gives control back now and then."""
        jumps = self._branches.jumps()
        self.gone_over.update(first for first, _ in jumps)
        yield from self._spread_over(jumps)
        # Only now: what has been spread is no snap any more.
        yield from self._spread_over([(frame, frame) for frame in self._snaps()])

    def _spread_over(self, jumps: Sequence[tuple[int, int]]) -> Iterator[None]:
        for passages in self._passages(jumps):
            self._spread(*spread(self._course.values, passages))
            yield

    def _passages(self, jumps: Sequence[tuple[int, int]]) -> list[list[Passage]]:
        """The frames over which jumps are spread, those together that touch.

        One after the other they would not come out the same from the other end of the motion.
        """
        missed: BoolArray = self._course.errors > self._course.tolerance
        stays: BoolArray = np.logical_or.reduce(missed & ~self._gives_way, axis=1)
        found: list[list[Passage]] = []
        end = -1
        for first, last in jumps:
            this = passage(self._course.values, first, last, ~stays)
            if this is None:
                continue
            if this.frames[0] > end + 1:
                found.append([])
            found[-1].append(this)
            end = max(end, int(this.frames[-1]))
        return found

    def _snaps(self) -> Iterator[int]:
        """Frames to which the motion moves fast because a target goes out of reach or comes back into it."""
        missed: BoolArray = self._course.errors > self._course.tolerance
        borders = 1 + np.flatnonzero(np.logical_or.reduce(missed[1:] != missed[:-1], axis=1))
        for frame in borders.tolist():
            steps = self._course.values.steps()
            usual = float(usual_steps(steps, np.array([frame - 1]))[0])
            if (
                steps[frame - 1] > max(NO_JUMP, SNAP * usual)
                and not self._branches.leaps(np.array([frame]))[0]
            ):
                yield frame

    def _spread(self, frames: IntArray, values: FloatArray) -> None:
        """Go over from one pose to another in several frames, in the room that the tasks leave there.

        Args:
            frames: Those that follow one another there, neither the first nor the last of all, (f,).
            values: For each what it should be like, (f, nv).
        """
        missed: BoolArray = self._course.errors > self._course.tolerance
        around: IntArray = np.arange(int(frames[0]) - 1, int(frames[-1]) + 2)
        inner = np.arange(1, 1 + len(frames))
        worst = self._course.errors[around].max(axis=0)
        room = list(self._room(frames, missed[frames]))
        goal = replace(
            self._course.goal,
            wish=True,
            tolerance=SLACK * self._course.tolerance,
            step_tolerance=max(SMOOTH, self._course.goal.step_tolerance),
        )
        system = self._course.system.select(frames)
        after = self._course.values[around]
        best, last_step = None, np.inf
        least = float(SPREAD * step_sizes(after).max())
        for _ in range(EVENINGS):
            for own, kept, objective in room:
                start, tolerance = objective.clipped(values[own]), goal.tolerance[kept]
                after[inner[own]] = start
                if not kept.any():
                    continue
                found = attempt(objective.towards(values[own]), start, replace(goal, tolerance=tolerance))
                self._course.iterations[frames[own]] += found.iterations
                if not found.met.all():
                    return
                after[inner[own]] = found.values
            step = float(step_sizes(after).max())
            posed = system.place(after[inner])
            errors = system.errors(posed)
            if (errors <= np.maximum(worst, self._course.tolerance)).all() and step < least:
                best, least = (posed.values, errors), EVEN * step
            elif best is not None or step > max(least, EVEN * last_step):
                break
            last_step = step
            values = EVENING * 0.5 * (after[:-2] + after[2:]) + (1.0 - EVENING) * after[inner]
        if best is not None:
            self._course.values[frames], self._course.errors[frames] = best
            self._course.note(frames)
            for frame in frames[missed[frames].any(axis=1)].tolist():
                self._course.told[frame] = self._course.told[frame][0], self._smoothed_message(frame)

    def _smoothed_message(self, frame: int) -> str:
        """What is said of a frame whose lowest level gives way."""
        each = zip(
            self._course.system.labels,
            self._course.errors[frame].tolist(),
            self._course.system.angular,
            self._course.tolerance,
            strict=True,
        )
        tasks = tuple(TaskError(name, error, angular, error <= most) for name, error, angular, most in each)
        return f"{result_message(Status.SETTLED, tasks, 0)}; a little more than need be, for a smooth motion"

    def _room(self, frames: IntArray, missed: BoolArray) -> Iterator[tuple[IntArray, BoolArray, Objective]]:
        """Some frames by what they miss, (f, T): which of them, what they have to meet, and that."""
        kinds, kind_of = np.unique(missed, axis=0, return_inverse=True)
        for kind, kept in enumerate(~kinds):
            own = np.flatnonzero(kind_of.ravel() == kind)
            if kept.all():
                yield own, kept, self._course.objective.select(frames[own])
            else:
                objective = objective_of(self._course.system.keeping(kept), self._course.options)
                yield own, kept, objective.select(frames[own])

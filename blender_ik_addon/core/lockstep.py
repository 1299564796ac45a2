# SPDX-License-Identifier: GPL-3.0-or-later
"""Work that goes from attempt to attempt, several pieces of it in step: their attempts are made together.

Each round of an attempt costs about the same for one frame and for ten. Who follows a branch knows the next
frames only once the last are solved; but who follows another one need not wait for that.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from .arrays import FloatArray, IntArray
from .attempts import Attempt, Goal
from .course import Course

_T = TypeVar("_T")


@dataclass(frozen=True)
class Asked:
    """An attempt that somebody waits for."""

    frames: IntArray
    """(f,)."""
    starts: FloatArray
    """The free channels, inside the limits, (f, nv)."""
    goal: Goal


Asking = Generator[Asked, Attempt, _T]
"""A piece of work: gives what it asks for, is sent what is found, and returns what comes of it."""


def answered(course: Course, pieces: Sequence[Asking[_T]]) -> Generator[None, None, list[_T]]:
    """Do some pieces of work; gives control back after each attempt, returns what comes of each."""
    results: dict[int, _T] = {}
    found: dict[int, Attempt | None] = dict.fromkeys(range(len(pieces)))
    asked: dict[int, Asked] = {}
    while found:
        for number, answer in found.items():
            try:
                asked[number] = next(pieces[number]) if answer is None else pieces[number].send(answer)
            except StopIteration as end:
                results[number] = end.value
        found = {}
        if asked:
            # Goals differ in this alone. Who asks for more of it waits for the others: what takes long is
            # then done for more of them at once.
            least = min(one.goal.max_iterations for one in asked.values())
            now = {number: one for number, one in asked.items() if one.goal.max_iterations == least}
            asked = {number: one for number, one in asked.items() if number not in now}
            found.update(_attempted(course, now))
            yield
    return [results[number] for number in range(len(pieces))]


def _attempted(course: Course, asked: dict[int, Asked]) -> dict[int, Attempt]:
    """One attempt for all of them, and of each its part."""
    (number, first), *others = asked.items()
    if not others:
        return {number: course.attempt(first.frames, first.starts, first.goal)}
    frames = np.concatenate([one.frames for one in asked.values()])
    found = course.attempt(frames, np.concatenate([one.starts for one in asked.values()]), first.goal)
    owner = np.repeat(list(asked), [len(one.frames) for one in asked.values()])
    return {number: found.select(owner == number) for number in asked}


def finished(work: Generator[None, None, _T]) -> _T:
    """What comes of work that is done without giving control back."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value

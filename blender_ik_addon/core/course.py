# SPDX-License-Identifier: GPL-3.0-or-later
"""The frames of a motion that is being solved: what is known of each, and how some of them are tried.

Who decides which frames are solved when, and from where, is elsewhere: `sequence` from coarse to fine,
`branches` where a motion goes over from one branch to another, `spreading` what is left of such a jump.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import numpy as np

from .arrays import FloatArray, IntArray
from .attempts import Attempt, Goal
from .errors import IKError
from .motion import Motion
from .objective import Objective
from .options import SolverOptions
from .posed import PosedMechanism
from .preparing import Criteria, objective_of
from .problem import Problem
from .single import attempt
from .skeleton import Pose
from .solution import Solution, Status
from .solver import solve_system
from .system import assemble

BLOCK_BYTES: Final = 64e6
"""Memory that the matrices of frames solved at once may take [bytes]."""
RESERVE: Final = 16_000_000, 33_000_000
"""Least and most memory [bytes] that is asked for and given back before the work begins; between them what a
pass takes. Some C libraries give every large array back to the system and fault the next one in page by page,
until one as large as this has been freed, and the heap as soon as twice as much is free: that took up to half
of the time."""
MATRICES: Final = 8
"""How many matrices of nv × nv a frame with a preferred pose takes meanwhile."""
JACOBIANS, PLACES = 4, 100
"""How many of m × nv one without takes, and how many numbers for each of its joints."""
MOST_AT_ONCE: Final = 256
"""Frames that are solved at once in any case."""


AGREE: Final = 1e-3
"""Largest difference [rad] between answers on the same branch, found from different starts."""


class Course:
    """A motion, as far as it is solved."""

    def __init__(self, problem: Problem, poses: Pose, options: SolverOptions) -> None:
        """Begin with nothing solved.

        Args:
            problem: As for `solve_sequence`.
            poses: Likewise.
            options: Settings.

        Raises:
            IKError: As `solve_sequence`.
        """
        if len(poses.frames) != 1:
            raise IKError(f"a sequence takes poses with one frame axis, got {poses.frames}")
        frames = poses.frames[0]
        if problem.frames not in (None, 1, frames):
            raise IKError(f"the targets have {problem.frames} frames, the poses {frames}")
        self._poses, self.options = poses, options
        self.system = assemble(problem, poses)
        self.objective = objective_of(self.system, options)
        criteria = Criteria.of(self.objective, options)
        self.goal, self.tolerance = criteria.goal, criteria.tolerance
        self.attempts = options.attempts and self.objective.levels > 0
        """Whether frames are solved together at all."""
        self.values = Motion(self.system.mechanism, poses)
        """The free channels, (F, nv); whatever is solved last."""
        self.start: FloatArray = self.values[0] if frames else np.zeros(self.system.size)
        """Those that the first frame starts from, (nv,)."""
        self.met = np.zeros(frames, dtype=np.bool_)
        """Frames whose tasks are all met, (F,)."""
        self.beyond = np.zeros(frames, dtype=np.bool_)
        """Frames with a target that no pose reaches, (F,)."""
        self.solved = np.zeros(frames, dtype=np.bool_)
        """Frames that have an answer, (F,)."""
        self.errors: FloatArray = np.zeros((frames, len(self.system.labels)))
        """Unweighted error of each task, (F, T) [m] or [rad]."""
        self.iterations: IntArray = np.zeros(frames, dtype=np.int64)
        """Of all attempts and searches, (F,)."""
        self.told: dict[int, tuple[Status, str]] = {}
        """Status and message of frames that were searched for."""
        size = self.system.size
        if self.goal.wish:
            each = 8 * MATRICES * size**2
            self._block = int(np.clip(BLOCK_BYTES // max(each, 1), 1, MOST_AT_ONCE))
        else:
            joints = len(self.system.mechanism.parents)
            each = 8 * (JACOBIANS * len(self.objective.row_scale) * size + PLACES * joints)
            self._block = MOST_AT_ONCE
        np.empty(int(np.clip(each * min(frames, self._block), *RESERVE)), dtype=np.uint8)
        self._held: IntArray | None = None
        """Alternatives that attempts keep to, (1, C)."""

    def attempt(
        self,
        frames: IntArray,
        starts: FloatArray,
        goal: Goal | None = None,
        posed: PosedMechanism | None = None,
    ) -> Attempt:
        """Try to meet all tasks in some frames.

        For one frame `posed` is its start as another frame has placed it, where that is at hand.
        """
        if not (self.attempts and len(frames)):
            return Attempt.none(starts, self.errors[frames])
        found: list[Attempt] = []
        for at in range(0, len(frames), self._block):
            block = slice(at, at + self._block)
            objective = self.choosing(frames[block], starts[block])
            same = posed is not None and posed.mechanism is objective.system.mechanism
            found.append(attempt(objective, starts[block], goal or self.goal, None, posed if same else None))
        return Attempt.joined(found)

    @contextmanager
    def keeping_to(self, frame: int) -> Generator[None]:
        """Attempts meanwhile take the alternatives that a frame has taken."""
        taken = self.system.taken
        self._held = taken[min(frame, len(taken) - 1)][None]
        try:
            yield
        finally:
            self._held = None

    @property
    def keeps(self) -> bool:
        """Whether attempts keep to given alternatives."""
        return self._held is not None

    def as_before(self, frames: IntArray) -> int:
        """How many of frames that follow one another are met by what the pose before each would choose."""
        system = self.system.select(frames)
        chosen = system.nearest(system.place(self.values[frames - 1]), self.kept(frames[:1] - 1))
        same = self.met[frames] & (chosen == system.taken).all(axis=1)
        return len(frames) if same.all() else int(same.argmin())

    def forget(self, frames: IntArray) -> None:
        """Take back the answers of some frames."""
        self.met[frames] = self.solved[frames] = False

    def choosing(self, frames: IntArray, starts: FloatArray) -> Objective:
        """The objective of some frames, which has taken alternatives by where they start, (f, nv)."""
        objective = self.objective.select(frames)
        if not self.system.alternatives:
            return objective
        system = objective.system
        if self._held is not None:
            return objective.on(system.taking(np.repeat(self._held, len(frames), axis=0)))
        return objective.on(system.taking(system.nearest(system.place(starts), self.kept(frames))))

    def kept(self, frames: IntArray) -> IntArray | None:
        """The alternatives that the last frame before each of some has taken, (f, C), as far as known."""
        solved = np.flatnonzero(self.solved)
        if not len(solved):
            return None
        before = solved[np.maximum(np.searchsorted(solved, frames, side="right") - 1, 0)]
        return self.system.taken[before]

    def note(self, frames: IntArray) -> None:
        """Remember which alternatives some frames have taken."""
        if not self.system.alternatives or not len(frames):
            return
        system = self.system.select(frames)
        taken = np.array(np.broadcast_to(self.system.taken, (len(self.values), len(system.alternatives))))
        if self._held is not None:
            taken[frames] = self._held
        else:
            taken[frames] = system.nearest(system.place(self.values[frames]))
        self.system = self.system.taking(taken)
        self.objective = self.objective.on(self.system)

    def take(self, frames: IntArray, found: Attempt) -> None:
        """Take the answers of an attempt where it met the tasks, its iterations everywhere."""
        self.iterations[frames] += found.iterations
        if not found.met.all():
            frames, found = frames[found.met], found.select(found.met)
        self.values[frames], self.errors[frames] = found.values, found.errors
        self.met[frames] = self.solved[frames] = True
        self.note(frames)
        for frame in frames if self.told else ():
            self.told.pop(int(frame), None)

    def search(self, frame: int, start: FloatArray, options: SolverOptions) -> None:
        """Search for a frame, which attempts have not met, from a start, (1, nv)."""
        self.put(frame, self.solution(frame, start, options, attempted=self.attempts))

    def solution(
        self, frame: int, start: FloatArray, options: SolverOptions, *, attempted: bool = False
    ) -> Solution:
        """A frame solved as a single pose from a start (1, nv), from which attempts may have failed."""
        system = self.system.select(np.array([frame]))
        pose = system.mechanism.with_values(self._poses.frame(frame), start[0])
        kept = self.kept(np.array([frame])) if system.alternatives else None
        found = solve_system(system, pose, options, attempted=attempted, kept=kept)
        self.iterations[frame] += found.iterations
        return found

    def put(self, frame: int, solution: Solution) -> None:
        """Take what a solve has found."""
        self.values[frame] = self.system.mechanism.values(solution.pose)
        self.errors[frame] = [error.error for error in solution.errors]
        self.met[frame], self.solved[frame] = solution.reached, True
        self.beyond[frame] = any(
            error.why is not None and error.why.beyond > 0.0 for error in solution.errors
        )
        self.note(np.array([frame]))
        self.told[frame] = solution.status, solution.message

    def wishes(self, values: FloatArray) -> FloatArray:
        """½|w|² of the preferred pose, (f, nv) -> (f,)."""
        away = self.objective.away(values)
        return 0.5 * np.einsum("fv,fv->f", away, away)

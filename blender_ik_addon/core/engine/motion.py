# SPDX-License-Identifier: GPL-3.0-or-later
"""A motion as one problem, solved in frames far apart first.

The energy of a motion is the energies of its frames and the terms over time of `coupling` [WitkinKass1988].
The terms follow from the times of the frames, so every 8th frame is a problem of the same kind, at an eighth
of the cost. Its difference from the preferred pose is interpolated to every 4th frame and solved again, and
so on to all frames, where a few iterations are left.

**Where it begins**: each of the frames far apart is solved alone. Of these poses, and of those to which they
lead in the frames before and after, the way of least energy is taken, by dynamic programming. A motion that
jumps, or misses much more than its frames alone, was lost between frames far apart. Another one begins with
the same search among all frames, with restarts; if that does not help, one more looks for calmer ways.

**Frames beside each other** can be left in different minima, above all where targets rest. If one has less
energy with the pose of the frame beside it, such poses are candidates for all frames, and the descent goes on
from the way of least energy.

**Choices** between alternatives are made before, by motions that take the same ones in all frames, in frames
far apart too. Between these the way of least energy is taken, by dynamic programming as well.

**What frames can meet** is seen by solving each alone, from where the motion in frames far apart has it. It
is met, by penalty weights of a level above, far more than what the motion of targets asks for.

**What they cannot meet** would pull with all its strength wherever it is, and a limb would snap straight, or
bend at once, where its target goes out of reach and comes back. So such targets are springs, as soft as what
the frames miss alone is large, as a mean over τ on either side: they pull with a part of a motion's penalty
weight where the frames have them. Who hardly misses a target hardly gives way. Levels below give way with
those above, so that none takes from these what they give. What is met of a level around is held firmly: else
one hand that is out of reach would take the other with it.

**Penalty weights of a motion** are weaker than those of a single pose, and nearer to each other, while
targets move: where these rest nothing can jump, and a level gives way to those below by no more than in a
single pose. Between the two they change over 2 τ. With many levels the first is as firm as with three.

Terms over time also resist the motion of the targets themselves. Where targets jump that force has no bound.
There the terms over time are weakened until it is no more than the last penalty weight of a motion: frames
beside a jump would otherwise miss their targets to be nearer to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Final

import numpy as np

from ..arrays import BoolArray, FloatArray, IntArray
from ..problem.options import SolverOptions
from ..problem.system import tolerances
from .coupling import Coupling
from .energy import ENOUGH, MET, WEIGHT_RATIO, Energy, PenaltyWeights, State
from .kernel import ROUGH, Descent, Minimum, Plan, steps
from .restarts import searching

FARTHEST: Final = 8
"""Every how many frames are solved first; then half as far apart, and so on to all frames."""
SPACINGS: Final = tuple(FARTHEST >> halvings for halvings in range(FARTHEST.bit_length()))
"""Every how many frames are solved, one after the other; all at the end."""
PULL: Final = 0.25
"""With which part of its penalty weight a level pulls [1], while targets move, that is missed as by frames
alone; and frames in the second search for another motion, which so turns less."""
WINDOW: Final = 96
"""Least number of frames that a window of a long motion adds."""
OVERLAP: Final = 10.0
"""Time in smoothnesses [1] in which a motion forgets a change: of 1 rad less than 0.01° is left."""
WORTH: Final = 1e-2
"""Decrease of the energy [1] that is not worth an iteration in frames far apart, or to see what a frame
misses alone: of that it is a millionth of the reach at most."""
MOTION: Final = PenaltyWeights(50.0, 5.0)
"""Penalty weights of the levels while targets move, of what frames cannot meet."""
FIRM: Final = (1250.0, 10.0)
"""Most and least penalty weight of a level whose targets move, where there are many [1]: firmer levels that
cannot be met turn bodies over at once, weaker ones do not hold against what is preferred."""
RESTING: Final = 0.01
"""How far targets or the preferred pose go in τ [1] that are half at rest."""
LOST: Final = (0.05, 0.5)
"""By how much more a motion misses a level than a pose alone [1], and than so large a part of that more, or a
joint turns from frame to frame [rad], for another motion to be searched for; nearer poses of a frame count as
one [rad, reach]."""
ALIKE: Final = 0.01
"""By which part of its energy [1], with the penalty weights of moving targets, a pose to which another frame
leads is worth less than the frame's own."""
POSES: Final = 8
"""Most poses of a frame between which a motion chooses where it begins, and most combinations of alternatives
that it chooses from at once [1]."""
NEARER: Final = 0.2
"""Part of the rest by which reported progress grows with an iteration [1]: their number is not known."""


@dataclass(frozen=True)
class Window:
    """Frames of a long motion that are solved together."""

    frames: slice[int, int, None]
    """Which."""
    fixed: int
    """Number of first frames that are solved already."""
    kept: int
    """The first frame of the motion that the next window solves again; its end for the last window."""


def windows(times: FloatArray, smoothness: float) -> Iterator[Window]:
    """Parts of a motion with frames at rising times (F,) [s], and a smoothness τ above 0 [s].

    They overlap by so much time that what is kept of one does not know where it ends.
    """
    frames, begin, overlap = len(times), 0, OVERLAP * smoothness
    while begin < frames:
        kept = max(begin + WINDOW, int(np.searchsorted(times, float(times[begin]) + 2.0 * overlap)))
        end = frames
        if kept < frames:
            end = int(np.searchsorted(times, float(times[kept - 1]) + overlap, side="right"))
        if end == frames:
            kept = frames
        fixed = min(begin, 2)
        yield Window(slice(begin - fixed, end), fixed, kept)
        begin = kept


class Motion:
    """The search for the motion with the least energy."""

    def __init__(
        self,
        energy: Energy,
        values: FloatArray,
        times: FloatArray,
        options: SolverOptions,
        *,
        far: bool = True,
    ) -> None:
        """Prepare.

        Args:
            energy: Of the F frames.
            values: Where to start, (F, nv) [m, rad].
            times: Of the frames, rising, (F,) [s].
            options: Smoothness τ [s], above 0, how exactly, and how many restarts there are.
            far: Whether the minimum may be far from the start; otherwise all frames are solved at once.
        """
        self._far = far
        self._choices = _grouped(energy.system.alternatives) if far else []
        """Choices that are made together, and the combinations of their alternatives."""
        self._energy, self._start = energy, values
        self._times, self._options = times, options
        # What is as good as met counts as met, however exactly it is asked for.
        system = energy.system
        heavier = system.heaviest[system.level_of_task] / system.weights
        exact = MET * np.where(system.angular, 1.0, system.reach) * heavier
        self._reached = np.maximum(tolerances(system, options), exact)
        self.values: FloatArray = values.copy()
        """(F, nv) [m, rad]."""
        self.alone: FloatArray = values.copy()
        """Each frame minimised alone, starting from the motion, (F, nv)."""
        self._missed: FloatArray = np.full((len(times), len(energy.penalty_of_row)), np.nan)
        """Scaled residual of what each frame misses alone, NaN for what it meets, (F, m)."""
        self.finished = 0
        """Number of first frames that are solved."""
        self.converged: BoolArray = np.zeros(len(times), dtype=np.bool_)
        """Whether a frame's window has converged, (F,)."""
        self.iterations: IntArray = np.zeros(len(times), dtype=np.int64)
        """Iterations of each frame's window, (F,)."""
        self._done, self._until = 0.0, 0.0
        """Which part of the work is done [1], and will be at the end of the present search."""

    @property
    def taken(self) -> IntArray:
        """Which alternative of each choice the frames take, (F, C)."""
        return self._energy.system.taken

    def run(self) -> Iterator[float]:
        """Minimise the energy; gives an estimate of the part done in (0, 1] after each iteration."""
        for _ in steps(self._search()):
            self._done += NEARER * (self._until - self._done)
            yield self._done
        yield 1.0

    def _search(self) -> Plan[None]:
        frames, searches = len(self._times), int(self._far)
        if self._choices:
            searches = sum(len(combinations) for _, combinations in self._choices)
        # All frames count twice as much as a search in those far apart.
        begun = searches / (searches + 2.0)
        if self._choices:
            self.values = yield from self._choose(begun)
        elif self._far:
            self.values = yield from self._from_far_apart(self._weak(), 0.0, begun)
        weak = self._weak()
        for window in windows(self._times, self._options.smoothness):
            parts = np.array([window.frames.start + window.fixed, window.kept]) / frames
            self._done, self._until = (begun + (1.0 - begun) * parts).tolist()
            yield from self._solve(window, weak)
            self.finished = window.kept

    def _weak(self) -> Energy:
        """The energy with the penalty weights of a motion, from the bodies where it starts."""
        energy, values = self._energy, self._start
        span = Coupling.of(self._times, self._options.smoothness).span
        forth = (_residual(energy, values, 1) - energy.at(values).residual)[:-1]
        way = np.linalg.norm(np.hstack([forth, np.diff(energy.preferred, axis=0)]), axis=1)
        still = 1.0 / (1.0 + np.square(span / RESTING * np.pad(way, 1)))
        still = np.pad(np.minimum(still[1:], still[:-1]), span, mode="edge")
        part = np.convolve(still, np.full(2 * span + 1, 1.0 / (2 * span + 1)), "valid")
        soft, strict = energy.weakened(_moving(energy)).penalty_weights, energy.penalty_weights
        # Soft tasks keep theirs: they are meant to give way.
        return energy.with_penalty_weights(soft * (strict / soft) ** (part[:, None] * energy.exact))

    def _choose(self, end: float) -> Plan[FloatArray]:
        """Take the alternatives with which the motion has the least energy.

        For each combination a motion is minimised in which all frames take it, and the way of least energy
        goes from frame to frame between these motions. Where there are many combinations, some choices are
        made before the others, which take what is nearest on the whole meanwhile.

        Returns that way, (F, nv) [m, rad], at the `end` of so much of the work [1].
        """
        # With the same weights for all, whether their targets move or not.
        weak = self._energy.weakened(_moving(self._energy))
        coupling = Coupling.of(self._times, self._options.smoothness)
        values, done = self._start, 0.0
        share = end / sum(len(combinations) for _, combinations in self._choices)
        taken, rows = np.tile(_nearest(weak, values), (len(values), 1)), np.arange(len(values))
        for choices, combinations in self._choices:
            trials = np.tile(taken, (len(combinations), 1, 1))
            trials[:, :, choices] = combinations[:, None]
            motions, energies = np.empty((len(trials), *values.shape)), np.empty(trials.shape[:2])
            for number, trial in enumerate(trials):
                trying = weak.taking(trial)
                motions[number] = yield from self._from_far_apart(trying, done, done + share)
                energies[number] = trying.energies(trying.at(motions[number]))
                done += share
            poses = [(motions[:, frame], energies[:, frame]) for frame in rows]
            way = _lowest_way(weak, poses, coupling)
            taken, values = trials[way, rows], motions[way, rows]
        self._energy = self._energy.taking(taken)
        return values

    def _from_far_apart(self, weak: Energy, begin: float, end: float) -> Plan[FloatArray]:
        """The motion of least energy, in frames far apart first and interpolated to all, (F, nv) [m, rad].

        It takes the work from one part to another [1].
        """
        frames = len(self._times)
        spacings = [spacing for spacing in SPACINGS[:-1] if frames >= 2 * spacing] or [1]
        # Those farthest apart count twice.
        share, done = (end - begin) / sum(1.0 / spacing for spacing in (*spacings[:1], *spacings)), begin
        weight, times = weak.weight, self._times
        known, deviation = times, weak.at(self._start).deviation
        for spacing in spacings:
            index = _every(frames, spacing)
            some, wanted = weak.select(index), times[index]
            values = (_interpolated(known, deviation, wanted) + some.preferred) / weight
            if spacing == spacings[0]:
                self._done, self._until = done, done + share / spacing
                coupling = Coupling.of(wanted, self._options.smoothness)
                values = yield from self._through_minima(some, values, coupling, restarts=0)
                done += share / spacing
            for window in windows(wanted, self._options.smoothness):
                part, first = window.frames, window.frames.start + window.fixed
                coupling = Coupling.of(wanted[part], self._options.smoothness)
                parts = np.array([first, window.kept]) / len(index)
                self._done, self._until = (done + share / spacing * parts).tolist()
                found = yield Descent(
                    _from(some, values, window),
                    values[part],
                    self._options,
                    step_tolerance=ROUGH,
                    decrease_tolerance=WORTH,
                    coupling=coupling,
                )
                values[part] = found.values
            done += share / spacing
            known, deviation = wanted, values * weight - some.preferred
        return (_interpolated(known, deviation, times) + weak.preferred) / weight

    def _solve(self, window: Window, weak: Energy) -> Plan[None]:
        """Minimise over all frames of a window, with the penalty weights of a motion."""
        part = window.frames
        energy, weak = (_from(one, self.values, window) for one in (self._energy, weak))
        coupling = Coupling.of(self._times[part], self._options.smoothness)
        values = self.values[part]
        found, alone, missed = yield from self._lowered(energy, weak, values, coupling, window)
        is_other = True
        for share in (1.0, PULL) if self._far else ():
            if is_other and not (yield from self._is_lost(energy, found.values, window.fixed)):
                break
            # Frames far apart do not see how fast a body turns, nor on which side of a limit it ends.
            restarts, calmer = self._options.restarts, coupling.weighted(share)
            start = yield from self._through_minima(weak, found.values, calmer, restarts=restarts)
            other, by_itself, also = yield from self._lowered(energy, weak, start, coupling, window)
            least, total = (self._total(weak, one.values, calmer) for one in (found, other))
            if is_other := total < least:
                found, alone, missed = other, by_itself, also
        self._missed[part] = missed
        self.values[part] = energy.at(found.values).values
        new = slice(part.start + window.fixed, part.stop)
        self.alone[new] = alone[window.fixed :]
        self.iterations[new] = found.iterations
        # A motion that no step lowers any more has converged too.
        self.converged[new] = found.converged | (found.iterations < self._options.max_iterations)

    def _is_lost(self, energy: Energy, values: FloatArray, fixed: int) -> Plan[bool]:
        """Whether joints of a motion (F, nv) jump, or it misses by much more than its frames alone.

        The middle frame of each stretch that misses is searched for, with restarts, unless the stretch goes
        on from the window before, which ends with the `fixed` frames.
        """
        state = energy.at(values)
        steps = energy.unturned(np.diff(state.deviation, axis=0)) / energy.weight
        if (np.abs(steps[:, energy.system.rotates]) > LOST[1]).any():
            return True
        squares = state.squares
        far = (squares > LOST[0] ** 2) & energy.exact
        if fixed:
            far &= ~np.logical_and.accumulate(far, axis=0)
        frames = _middles(np.logical_or.reduce(far, axis=1))
        if not len(frames):
            return False
        some = energy.select(frames)
        found = yield from searching(some, values[frames], self._options, self._reached)
        least = np.sqrt(found.state.squares)
        gained = np.sqrt(squares[frames]) - least
        # Springs give way in proportion. No level above may be missed by more.
        better = (gained > LOST[0] * (1.0 + least)) & np.logical_and.accumulate(gained > -ROUGH, axis=1)
        return bool(better.any())

    def _total(self, energy: Energy, values: FloatArray, coupling: Coupling) -> float:
        """Energy of a motion (F, nv), without levels that are reached."""
        energy, values = energy.continuous(values)
        state, every = energy.at(values), np.arange(len(values))
        tied = coupling.part(every, np.zeros_like(state.deviation))
        return float(tied.energies(energy.energies(state), state.deviation, energy.stiffness).sum())

    def _alone(self, energy: Energy, values: FloatArray) -> Plan[tuple[BoolArray, FloatArray]]:
        """Which rows each frame (F, nv) meets alone, (F, m), and its pose then."""
        state = energy.at(values)
        rows, alone = self._met_rows(energy, state), state.values.copy()
        frames = np.flatnonzero(~rows.all(axis=1))
        # The nearest pose that meets them, not the one that is preferred.
        near, moved = energy.select(frames).preferring(alone[frames]), np.zeros((len(frames), alone.shape[1]))
        done, numbers = np.zeros(0, dtype=np.int64), frames.astype(np.float64)
        for spacing in SPACINGS if len(frames) else ():
            # Frames go about as far as those beside them.
            some_frames = np.setdiff1d(_every(len(frames), spacing), done)
            if len(done):
                moved[some_frames] = _interpolated(numbers[done], moved[done], numbers[some_frames])
            some = near.select(some_frames)
            start = alone[frames[some_frames]] + moved[some_frames]
            found = yield Descent(some, start, self._options, decrease_tolerance=WORTH)
            rows[frames[some_frames]] = self._met_rows(some, found.state)
            moved[some_frames] = found.values - alone[frames[some_frames]]
            done = np.union1d(done, some_frames)
        alone[frames] += moved
        return rows, alone

    def _lowered(
        self, energy: Energy, weak: Energy, values: FloatArray, coupling: Coupling, window: Window
    ) -> Plan[tuple[Minimum, FloatArray, FloatArray]]:
        """The minimum over a window next to values (F, nv), poses of its frames alone, and what they miss."""
        rows, alone = yield from self._alone(energy, values)
        missed = np.where(rows, np.nan, energy.at(alone).residual)
        fixed = slice(window.frames.start, window.frames.start + window.fixed)
        missed[: window.fixed] = self._missed[fixed]
        soft = self._giving_way(energy, weak, missed, window)
        loose = _loosened(energy, values, rows, coupling)
        found = yield Descent(soft, values, self._options, coupling=loose)
        better = _spread(soft, found.values, loose, window.fixed)
        if better is not None:
            found = yield Descent(soft, better, self._options, coupling=loose)
        return found, alone, missed

    def _giving_way(self, energy: Energy, weak: Energy, missed: FloatArray, window: Window) -> Energy:
        """The energy of poses, with the targets that frames miss alone as springs.

        Args:
            energy: With the penalty weights of poses.
            weak: With those of a motion.
            missed: Residual of what the frames miss alone, NaN for what they meet, (F, m).
            window: Whose frames they are.
        """
        part, span = window.frames, Coupling.of(self._times, self._options.smoothness).span
        begin = max(part.start - span, 0)
        around = np.vstack([self._missed[begin : part.start], missed])
        misses = ~np.isnan(around)

        def mean(values: FloatArray | BoolArray) -> FloatArray:
            return _mean(values, span)[part.start - begin :]

        exact = energy.exact
        sizes = mean(np.sqrt(energy.squares(np.where(misses, around, 0.0))) * exact[:1])
        # A level gives way with those above it.
        above = energy.above | np.eye(energy.penalties, dtype=np.bool_)
        sizes = (sizes[:, :, None] * above).max(axis=1, initial=0.0)
        firm = np.minimum(WEIGHT_RATIO * weak.penalty_weights, energy.penalty_weights)
        # The less, the more targets rest: there no level is weaker than in a pose.
        moves = np.log(firm / weak.penalty_weights) / np.log(WEIGHT_RATIO)
        softness = np.where(sizes > MET, sizes / (PULL**moves * weak.penalty_weights), 0.0)
        # Soft tasks keep their weight: they are meant to give way.
        weights = np.where(exact, firm, weak.penalty_weights)
        soft = energy.softened_by(softness).with_penalty_weights(weights)
        if not misses.any():
            return soft
        # What is met of a level around is held more firmly.
        met = (mean(misses) == 0.0) & exact[:, energy.penalty_of_row]
        more = np.sqrt(np.maximum(ENOUGH * weights * softness, 1.0))
        return soft.emphasising(np.where(met, more[:, energy.penalty_of_row], 1.0))

    def _met_rows(self, energy: Energy, state: State) -> BoolArray:
        """Which rows are those of tasks that are met in the frames of a state, (N, m)."""
        system = energy.system
        return (system.errors(state.posed) <= self._reached)[:, system.task_of_row]

    def _through_minima(
        self, energy: Energy, values: FloatArray, coupling: Coupling, *, restarts: int
    ) -> Plan[FloatArray]:
        """The motion of least energy from minimum to minimum of its frames, (F, nv).

        Of those that each frame alone has, found from values (F, nv) with so many restarts at most, and those
        to which they lead in the frames before and after.
        """
        options, frames = replace(self._options, restarts=restarts), range(len(values))
        moving = energy.weakened(_moving(energy))
        poses = list[tuple[FloatArray, FloatArray]]()
        # Each frame has two starts: no more poses at once than a window has frames.
        for block in np.array_split(frames, -(-2 * len(frames) // WINDOW)):
            alone = yield from searching(energy.select(block), values[block], options, self._reached)
            poses += zip(alone.values[:, None], alone.energies[:, None], strict=True)
        for way in (frames, frames[::-1]):
            for before, frame in pairwise(way):
                start = poses[before][0]
                rows = np.full(len(start), frame)
                some = energy.select(rows)
                # Drawn there as motions are: in frames close by the poses of least energy may be far apart.
                pull = coupling.speeds[min(before, frame)] / coupling.shares[frame]
                found = yield Descent(some.drawn(start, pull), start, options, step_tolerance=ROUGH)
                every, led = np.vstack([poses[frame][0], found.values]), some.at(found.values)
                # Of ways alike, as with a knee on either side, the one through the frames' own minima.
                margin = ALIKE * moving.select(rows).energies(led)
                energies = np.append(poses[frame][1], some.energies(led) + margin)
                poses[frame] = different(energy, every, energies)
        way = _lowest_way(energy, poses, coupling)
        return np.array([values[index] for index, (values, _) in zip(way, poses, strict=True)])


def _every(frames: int, spacing: int) -> IntArray:
    """Frames at most so far apart, the same ones from either end, rising; the first and the last included."""
    last = frames - 1
    index = np.rint(np.linspace(0, last, -(-last // spacing) + 1)).astype(np.int64)
    return np.union1d(index, last - index)


def _grouped(alternatives: Sequence[int]) -> list[tuple[IntArray, IntArray]]:
    """Choices that are made together, (c,), and all combinations of their alternatives, (n, c)."""
    groups, begin = list[tuple[IntArray, IntArray]](), 0
    while begin < len(alternatives):
        end = begin + 1
        while end < len(alternatives) and np.prod(alternatives[begin : end + 1]) <= POSES:
            end += 1
        combinations = np.array(list(product(*map(range, alternatives[begin:end]))))
        groups.append((np.arange(begin, end), combinations))
        begin = end
    return groups


def _nearest(energy: Energy, values: FloatArray) -> IntArray:
    """The alternative of each choice that poses (F, nv) are nearest to on the whole, (C,)."""
    choices = energy.system.choices
    if choices is None:
        return np.zeros(0, dtype=np.int64)
    every = choices.every_error(energy.system.place(values))
    return np.array([np.nan_to_num(errors).sum(axis=0).argmin() for errors in every])


def _lowest_way(
    energy: Energy, poses: Sequence[tuple[FloatArray, FloatArray]], coupling: Coupling
) -> IntArray:
    """Which of some poses the motion of least energy has in each of two frames or more, (F,).

    By dynamic programming over the poses of two frames in turn, which the terms over time need. Each frame
    has poses (W, nv) and their own energies (W,), of which W may differ.
    """
    own = [share * energies for share, (_, energies) in zip(coupling.shares, poses, strict=True)]
    deviations = [
        values * energy.weight - one for one, (values, _) in zip(energy.preferred, poses, strict=True)
    ]
    scale = np.sqrt(energy.stiffness)
    total, came, last = own[0][:, None], list[IntArray](), np.zeros(0)
    for frame, (before, after) in enumerate(pairwise(deviations)):
        step = scale * energy.unturned(after - before[:, None])  # (W, W', nv)
        if frame:
            rates = coupling.rates[frame - 1 : frame + 1]
            change = rates[1] * step - rates[0] * last[:, :, None]  # (W, W', W'', nv)
            through = total[:, :, None] + 0.5 * coupling.accelerations[frame - 1] * np.square(change).sum(3)
            came.append(through.argmin(axis=0))
            total = through.min(axis=0)
        total = total + own[frame + 1] + 0.5 * coupling.speeds[frame] * np.square(step).sum(axis=2)
        last = step
    way = list(divmod(int(total.argmin()), total.shape[1]))
    for some in reversed(came):
        way.insert(0, int(some[way[0], way[1]]))
    return np.array(way)


def different(energy: Energy, values: FloatArray, energies: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The poses (W, nv) with the least energies, none within a jump of a lower one, and their energies."""
    kept = list[int]()
    for number in np.argsort(energies, kind="stable").tolist():
        away = energy.unturned((values[kept] - values[number]) * energy.weight) / energy.weight
        away /= energy.system.units
        if (np.abs(away).max(axis=1, initial=0.0) > LOST[1]).all():
            kept.append(number)
    return values[kept[:POSES]], energies[kept[:POSES]]


def _spread(energy: Energy, values: FloatArray, coupling: Coupling, fixed: int) -> FloatArray | None:
    """A motion of less energy than one (F, nv) whose frames take poses of others; or None.

    Those of frames whose pose has less energy in the frame beside them. The `fixed` first frames stay.
    """
    frames = np.arange(len(values))
    own, better = energy.energies(energy.at(values)), list[IntArray]()
    for side in (-1, 1):
        beside = np.clip(frames + side, 0, len(values) - 1)
        steps = energy.unturned((values[beside] - values) * energy.weight) / energy.weight
        away = np.abs(steps / energy.system.units).max(axis=1, initial=0.0)
        less = energy.energies(energy.at(values[beside])) < own - WORTH
        better.append(beside[less & (away > ROUGH) & (frames >= fixed)])
    numbers = np.unique(np.concatenate(better))
    others, _ = different(energy, values[numbers], own[numbers])
    energies = [energy.energies(energy.at(np.tile(pose, (len(values), 1)))) for pose in others]
    if not energies:
        return None
    poses = list(zip(values[:fixed, None], own[:fixed, None], strict=True))
    for frame in frames[fixed:]:
        every = np.append(own[frame], [one[frame] for one in energies])
        poses.append((np.vstack([values[frame], others]), every))
    way = _lowest_way(energy, poses, coupling)
    return np.array([of[index] for index, (of, _) in zip(way, poses, strict=True)]) if way.any() else None


def _middles(frames: BoolArray) -> IntArray:
    """The middle one of each stretch of frames (F,)."""
    first, last = np.flatnonzero(np.diff(np.pad(frames, 1).astype(np.int64))).reshape(-1, 2).T
    return (first + last - 1) // 2


def _from(energy: Energy, values: FloatArray, window: Window) -> Energy:
    """The energy of a window's frames, the first of which stay where the motion (F, nv) is."""
    part = window.frames
    some = energy.select(np.arange(part.start, part.stop))
    if not window.fixed:
        return some
    stays = np.arange(part.stop - part.start)[:, None] < window.fixed
    return some.within(*(np.where(stays, values[part], bound) for bound in (-np.inf, np.inf)))


def _moving(energy: Energy) -> PenaltyWeights:
    """Penalty weights of levels whose targets move."""
    further = len(energy.system.priorities) - 1
    most, least = FIRM
    ratio = min(MOTION.ratio, (most / least) ** (1.0 / max(further, 1)))
    return PenaltyWeights(min(MOTION.last, most / ratio**further), ratio)


def _mean(values: FloatArray | BoolArray, span: int) -> FloatArray:
    """Mean of values (F, k) over so many frames on either side."""
    padded = np.pad(values, ((span + 1, span), (0, 0)), mode="edge")
    sums, width = np.cumsum(padded, axis=0, dtype=np.float64), 2 * span + 1
    return (sums[width:] - sums[:-width]) / width


def _loosened(energy: Energy, values: FloatArray, rows: BoolArray, coupling: Coupling) -> Coupling:
    """Terms over time under which targets may jump, if met (F, m), from bodies (F, nv)."""
    both = rows[1:] & rows[:-1]
    here = energy.at(values).residual
    forth = np.where(both, (_residual(energy, values, 1) - here)[:-1], 0.0)
    back = np.where(both, (_residual(energy, values, -1) - here)[1:], 0.0)
    if energy.system.given is not None:
        # From a frame without a target, the way is that of its body to the target of the other.
        given = energy.system.given[:, energy.system.task_of_row]
        forth, back = np.where(given[1:], forth, -back), np.where(given[:-1], back, -forth)
    return coupling.loosened(forth, back, MOTION.last)


def _residual(energy: Energy, values: FloatArray, later: int) -> FloatArray:
    """Residual of bodies (F, nv) for the targets of so many frames later, (F, m)."""
    frames = np.clip(np.arange(len(values)) + later, 0, len(values) - 1)
    return energy.select(frames).taking(energy.system.taken).at(values).residual


def _interpolated(known: FloatArray, values: FloatArray, wanted: FloatArray) -> FloatArray:
    """Values (F, nv) at known times, at others, by cubic curves through them with their central slopes."""
    if len(known) < 2:
        return values
    slopes = np.gradient(values, known, axis=0)
    after = np.clip(np.searchsorted(known, wanted, side="right"), 1, len(known) - 1)
    before = after - 1
    step = (known[after] - known[before])[:, None]
    part = (wanted - known[before])[:, None] / step
    rest = 1.0 - part
    return rest * rest * (
        (1.0 + 2.0 * part) * values[before] + part * step * slopes[before]
    ) + part * part * ((1.0 + 2.0 * rest) * values[after] - rest * step * slopes[after])

# SPDX-License-Identifier: GPL-3.0-or-later
"""A motion as one problem, solved in frames far apart first.

The energy of a motion is the energies of its frames and the terms over time of `coupling` [WitkinKass1988].
The terms follow from the times of the frames, so every 8th frame is a problem of the same kind, at an eighth
of the cost. Its difference from the preferred pose is interpolated to every 4th frame and solved again, and
so on to all frames, where a few iterations are left. Which frames can meet their targets is taken from
the coarser frames on either side, until all frames are solved alone.

**Where it begins**: each of the frames far apart is solved alone. Of these poses, and of those to which they
lead in the frames before and after, the way of least energy is taken, by dynamic programming. A motion that
jumps, or misses much more than its frames alone, was lost between frames far apart. Another one begins with
the same search among all frames, with restarts.

**Choices** between alternatives are made before, by motions that take the same ones in all frames, in frames
far apart too. Between these the way of least energy is taken, by dynamic programming as well.

**Penalty weights.** With those of a single pose a motion would jump for the last hundredth of a
millimetre, where a limb gets straight or turns about. So levels are weaker here, and nearer to each other
while targets move: where these rest nothing can jump, and a level gives way to those below by no more than in
a single pose. Between the two they change over 2 τ. With many levels the first is as firm as with three.

Terms over time also resist the motion of the targets themselves, by a force that is known: T x for targets
that move along x. A level that its frame can meet alone is strengthened by a multiple of that force, and is
met however fast its targets move. It is also as strong as it has to be against the preferred pose and the
levels below, which pull hard on targets with short levers. One that the frame cannot meet is not, and does
not jump; the frame counts less against the terms over time then. From frames beside it to those that are more
than τ away this changes by degrees, from the force alone to its multiple: the body leans into what is out of
reach over more frames. What the frame meets of such a level weighs as much more in its norm as holds it as
firmly as a level that is met: else one hand that is out of reach would take the other with it.
Where targets jump the force has no bound. There the terms over time are weakened until it is no more than the
penalty weight of a single pose: frames beside a jump would otherwise miss their targets to be nearer to it.
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
from .energy import LAST_WEIGHT, MET, Energy, PenaltyWeights, State
from .kernel import ROUGH, Descent, Minimum, Plan, steps
from .restarts import LOWER, searching

FARTHEST: Final = 8
"""Every how many frames are solved first; then half as far apart, and so on to all frames."""
SPACINGS: Final = tuple(FARTHEST >> halvings for halvings in range(FARTHEST.bit_length()))
"""Every how many frames are solved, one after the other; all at the end."""
LEVER: Final = 300.0
"""Weight of a level that can be met by the force that its targets' own motion asks for [1]: joints move
targets by short levers, by the square of 0.06 of the reach."""
OUT_OF_REACH: Final = 0.25
"""Weight of a frame that cannot meet its targets [1]: bodies are drawn towards them over twice the time, and
do not fold at once where they go out of reach."""
WINDOW: Final = 96
"""Least number of frames that a window of a long motion adds."""
OVERLAP: Final = 10.0
"""Time in smoothnesses [1] in which a motion forgets a change: of 1 rad less than 0.01° is left."""
WORTH: Final = 1e-2
"""Decrease of the energy [1] that is not worth an iteration in frames far apart, or to see what a frame
misses alone: of that it is a millionth of the reach at most."""
MOTION: Final = PenaltyWeights(50.0, 5.0)
"""Penalty weights of the levels while targets move; where all can be met any lead to the same poses."""
FIRM: Final = (1250.0, 10.0)
"""Most and least penalty weight of a level whose targets move, where there are many [1]: firmer levels that
cannot be met turn bodies over at once, weaker ones do not hold against what is preferred."""
RESTING: Final = 0.01
"""How far targets or the preferred pose go in τ [1] that are half at rest."""
LOST: Final = (0.05, 0.5)
"""By how much more a motion misses a level than a pose alone [1], or a joint turns from frame to frame [rad],
for another motion to be searched for, in which nearer poses of a frame count as one [rad, reach]."""
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
        # Soft tasks keep their weight: they are meant to give way.
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
        met = np.zeros((frames, weak.penalties), dtype=np.bool_)  # not known yet
        for spacing in spacings:
            index = _every(frames, spacing)
            some, wanted = weak.select(index), times[index]
            values = (_interpolated(known, deviation, wanted) + some.preferred) / weight
            after, before = np.searchsorted(known, wanted), np.searchsorted(known, wanted, side="right") - 1
            coupling = Coupling.of(wanted, self._options.smoothness)
            weights = _weights(some, met[before] & met[after], coupling)
            if spacing == spacings[0]:
                self._done, self._until = done, done + share / spacing
                values = yield from self._through_minima(some, values, coupling.weighted(weights), restarts=0)
                done += share / spacing
            for window in windows(wanted, self._options.smoothness):
                part, first = window.frames, window.frames.start + window.fixed
                coupling = Coupling.of(wanted[part], self._options.smoothness).weighted(weights[part])
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
            met = _met(some, self._met_rows(some, some.at(values)))
            met &= _under_met(some, met)
        return (_interpolated(known, deviation, times) + weak.preferred) / weight

    def _solve(self, window: Window, weak: Energy) -> Plan[None]:
        """Minimise over all frames of a window, with the penalty weights of a motion."""
        part = window.frames
        energy, weak = (_from(one, self.values, window) for one in (self._energy, weak))
        coupling = Coupling.of(self._times[part], self._options.smoothness)
        values = self.values[part]
        rows, alone = yield from self._alone(energy, values)
        found, judged = yield from self._strengthened(energy, weak, values, coupling, rows, alone)
        if self._far and (yield from self._is_lost(energy, found.values, window.fixed)):
            # Frames far apart do not see how fast a body turns, nor on which side of a limit it ends.
            restarts = self._options.restarts
            start = yield from self._through_minima(judged, found.values, coupling, restarts=restarts)
            also, by_itself = yield from self._alone(energy, start)
            # What a frame can meet it can meet from anywhere.
            other, _ = yield from self._strengthened(energy, weak, start, coupling, rows | also, by_itself)
            least, total = (self._total(judged, one.values, coupling) for one in (found, other))
            if total < (1.0 - LOWER) * least:
                found, alone = other, by_itself
        self.values[part] = energy.at(found.values).values
        new = slice(part.start + window.fixed, part.stop)
        self.alone[new] = alone[window.fixed :]
        self.iterations[new] = found.iterations
        # A motion that no step lowers any more has converged too.
        self.converged[new] = found.converged | (found.iterations < self._options.max_iterations)

    def _strengthened(
        self,
        energy: Energy,
        weak: Energy,
        values: FloatArray,
        coupling: Coupling,
        rows: BoolArray,
        alone: FloatArray,
    ) -> Plan[tuple[Minimum, Energy]]:
        """The minimum with what can be met strengthened by what the motion of its targets asks for.

        Args:
            energy: With the penalty weights of poses.
            weak: With those of a motion.
            values: Where to start, (F, nv).
            coupling: Terms over time.
            rows: What each frame can meet, with all levels above, (F, m).
            alone: Poses in which it does, (F, nv).

        Returns the energy with these weights too.
        """
        met = _met(energy, rows)
        # Soft tasks keep their weight: they are meant to give way.
        firm, rows = met & energy.exact, rows & energy.exact[energy.penalty_of_row]
        coupling, asked = _asked(energy, values, rows, coupling.weighted(_weights(energy, met, coupling)))
        # With a multiple of the force beside a frame that cannot meet its targets a limb would snap straight
        # there, or bend all at once.
        last, part = _moving(energy).last, LEVER ** _apart(met, coupling.span)
        weights = weak.penalty_weights * np.where(firm, 1.0 + part / last * asked[:, None], 1.0)
        full = energy.with_penalty_weights(np.where(firm, energy.penalty_weights, weights))
        weights = np.maximum(weights, np.where(firm, part / LEVER * _enough(full, alone, firm), 0.0))
        stronger = weak.with_penalty_weights(weights)
        if not firm[:, energy.exact].all():
            norms = np.maximum(np.sqrt(energy.at(alone).squares) / MET, 1.0)
            apart, of_rows = _apart(rows, coupling.span), energy.penalty_of_row
            wanted = weak.penalty_weights[:, of_rows] * (1.0 + LEVER**apart / last * asked[:, None])
            squares = np.maximum(wanted * (norms / weights)[:, of_rows], 1.0)
            stronger = stronger.emphasising(np.where(rows, np.sqrt(squares), 1.0))
        found = yield Descent(stronger, values, self._options, coupling=coupling)
        return found, stronger

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
        gained = np.sqrt(squares[frames]) - np.sqrt(found.state.squares)
        # No level above may be missed by more.
        better = (gained > LOST[0]) & np.logical_and.accumulate(gained > -ROUGH, axis=1)
        return bool(better.any())

    def _total(self, energy: Energy, values: FloatArray, coupling: Coupling) -> float:
        """Energy of a motion (F, nv), without levels that are reached."""
        energy, values = energy.continuous(values)
        state, every = energy.at(values), np.arange(len(values))
        tied = coupling.part(every, np.zeros_like(state.deviation))
        return float(tied.energies(energy.energies(state), state.deviation, energy.stiffness).sum())

    def _alone(self, energy: Energy, values: FloatArray) -> Plan[tuple[BoolArray, FloatArray]]:
        """Which rows each frame (F, nv) meets alone with all levels above, (F, m), and its pose then.

        Soft tasks do not keep the levels below from being met.
        """
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
            rows[frames[some_frames]] |= self._met_rows(some, found.state)
            moved[some_frames] = found.values - alone[frames[some_frames]]
            done = np.union1d(done, some_frames)
        alone[frames] += moved
        return rows & _under_met(energy, _met(energy, rows))[:, energy.penalty_of_row], alone

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
        poses = list[tuple[FloatArray, FloatArray]]()
        # Each frame has two starts: no more poses at once than a window has frames.
        for block in np.array_split(frames, -(-2 * len(frames) // WINDOW)):
            alone = yield from searching(energy.select(block), values[block], options, self._reached)
            poses += zip(alone.values[:, None], alone.energies[:, None], strict=True)
        for way in (frames, frames[::-1]):
            for before, frame in pairwise(way):
                start = poses[before][0]
                some = energy.select(np.full(len(start), frame))
                # Drawn there as motions are: in frames close by the poses of least energy may be far apart.
                pull = coupling.speeds[min(before, frame)] / coupling.shares[frame]
                found = yield Descent(some.drawn(start, pull), start, options, step_tolerance=ROUGH)
                every = np.vstack([poses[frame][0], found.values])
                energies = np.append(poses[frame][1], some.energies(some.at(found.values)))
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


def _met(energy: Energy, rows: BoolArray) -> BoolArray:
    """Which penalties are met, of rows that are, (N, K) and (N, m)."""
    return ~(~rows @ energy.members)


def _under_met(energy: Energy, met: BoolArray) -> BoolArray:
    """Which penalties have none but met ones above them, soft ones apart, (N, K) each."""
    return ~((~met & energy.exact) @ energy.above)


def _moving(energy: Energy) -> PenaltyWeights:
    """Penalty weights of levels whose targets move."""
    further = len(energy.system.priorities) - 1
    most, least = FIRM
    ratio = min(MOTION.ratio, (most / least) ** (1.0 / max(further, 1)))
    return PenaltyWeights(min(MOTION.last, most / ratio**further), ratio)


def _apart(met: BoolArray, span: int) -> FloatArray:
    """How far frames are from those that do not meet a penalty, for the penalties that are met, (F, K) each.

    From 0 there and in the frames beside them to 1 where they are so many frames further away [1].
    """
    frames = np.arange(len(met))
    distances = [
        np.abs(frames[:, None] - np.flatnonzero(~one)).min(axis=1, initial=span + 1) for one in met.T
    ]
    beyond = np.array(distances, dtype=np.float64).reshape(met.T.shape).T - 1.0
    return np.maximum(beyond, 0.0) / span


def _weights(energy: Energy, met: BoolArray, coupling: Coupling) -> FloatArray:
    """Weight of each frame beside the terms over time, (F,) [1], for the penalties that are met, (F, K)."""
    apart = np.where(energy.exact, _apart(met, coupling.span), 1.0).min(axis=1, initial=1.0)
    return OUT_OF_REACH ** (1.0 - apart)


def _enough(energy: Energy, values: FloatArray, met: BoolArray) -> FloatArray:
    """Penalty weights that are enough for those that are met to stay so, (F, K) each, in bodies (F, nv)."""
    energy = energy.allowing(np.where(met[:, energy.penalty_of_row], energy.at(values).residual, 0.0))
    return energy.model(energy.at(values)).penalty_weights


def _asked(
    energy: Energy, values: FloatArray, rows: BoolArray, coupling: Coupling
) -> tuple[Coupling, FloatArray]:
    """Terms over time under which targets may jump, if met (F, m), and T x from bodies (F, nv), (F,)."""
    both = rows[1:] & rows[:-1]
    here = energy.at(values).residual
    forth = np.where(both, (_residual(energy, values, 1) - here)[:-1], 0.0)
    back = np.where(both, (_residual(energy, values, -1) - here)[1:], 0.0)
    if energy.system.given is not None:
        # From a frame without a target, the way is that of its body to the target of the other.
        given = energy.system.given[:, energy.system.task_of_row]
        forth, back = np.where(given[1:], forth, -back), np.where(given[:-1], back, -forth)
    coupling = coupling.loosened(forth, back, LAST_WEIGHT / LEVER)
    force = np.zeros_like(here)
    step, change = coupling.speeds[:, None], coupling.accelerations[:, None]
    rates = coupling.rates[:, None]
    force[:-1] -= step * forth
    force[1:] -= step * back
    bent = change * (rates[1:] * forth[1:] + rates[:-1] * back[:-1])
    force[:-2] += rates[:-1] * bent
    force[1:-1] -= (rates[:-1] + rates[1:]) * bent
    force[2:] += rates[1:] * bent
    return coupling, np.asarray(np.linalg.norm(force, axis=1) / coupling.shares, dtype=np.float64)


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

# SPDX-License-Identifier: GPL-3.0-or-later
r"""Keys: Blender's F-curves as arrays, and the fewest keys that keep a motion in the world.

**F-curves.** Between two keys (t0, v0) and (t3, v3) with the handles (t1, v1) and (t2, v2) a curve is the
cubic Bézier curve of these four points. Blender shortens a handle that reaches past the other key, along its
direction, so that time never goes back; solves t(s) = time for the one s in [0, 1]; and returns v(s). Before
the first key and after the last one the curve is constant. Handles at thirds of the span make t(s) linear, so
that the curve is a cubic in time with the slopes of its handles at the keys.

**Reduction.** A motion has a key in each frame. Wanted are curves with few keys that keep every point of the
bones within a distance d and an angle a of it in the world, at each frame and in the middle between frames.

Curves are cubics in time between their keys, with one slope at each key: handles at thirds of the spans, both
of a key in line. Two things are to be chosen, where the keys are and what they and their slopes are.

**Where**: e(i, j) is by how much a curve alone, with keys at frames i and j only, moves any point between
them, in units of d and a: the cubic through both frames minus the curve, times the sensitivity of the points
to it. With all curves allowed e ≤ θ the keys of each are a shortest path over frames, by dynamic programming;
no other choice has fewer. The share θ(t) is the same for all curves and depends on time.

**What**: values and slopes of all curves together are those of least squares in the world,

    min Σ_t Σ_p w_tp |J_tp δ_t|² + μ Σ_t |S_t δ_t|²,

where δ are the deviations of all curves, J_tp the derivative of point p by the curves in units of d and
a, and S the sensitivities: errors of a spine are made up for by those of the arm. The weights w are
multiplied by the deviations that were found, which makes the largest one small in place of the mean one
[Lawson1961]. Solved by conjugate gradients; time and memory grow with the number of frames.

Then forward kinematics says how far each point is off. Shares are lowered where that is much and raised
where it is little, and all is repeated. At last keys are added where points are beyond the tolerance, until
none is: the spans that move the point most are split where both halves are best. With a key in each frame
nothing deviates, so there is an end. Turning points of a curve that matter have keys.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from .arrays import BoolArray, FloatArray, IntArray, check_number, freeze, frozen
from .errors import IKError
from .model.kinematics import joint_matrices
from .model.rotation import matrix_from_euler, matrix_in_mode, rotation_angle
from .model.skeleton import Pose, Skeleton

BISECTIONS = 60
"""Halvings of [0, 1] in the search for s; double precision has no more."""


@dataclass(frozen=True, eq=False)
class BezierCurve:
    """Keys and handles of one F-curve, all interpolation Bézier, extrapolation constant."""

    keys: FloatArray
    """Time and value of each key, times rising, (K, 2)."""
    left: FloatArray
    """Ends of the handles before the keys, (K, 2)."""
    right: FloatArray
    """Ends of the handles after the keys, (K, 2)."""

    def __post_init__(self) -> None:
        freeze(self, "keys", "left", "right")
        for name in ("keys", "left", "right"):
            array: FloatArray = getattr(self, name)
            if array.shape != (len(self.keys), 2) or not len(array):
                raise IKError(
                    f"BezierCurve.{name} has shape {array.shape}: wanted (keys, 2), at least one key"
                )
        if (np.diff(self.keys[:, 0]) <= 0.0).any():
            raise IKError("the times of the keys of a curve must rise")

    @classmethod
    def with_slopes(cls, times: npt.ArrayLike, values: npt.ArrayLike, slopes: npt.ArrayLike) -> BezierCurve:
        """Return the curve through keys (K,) with slopes (K,) there, handles at thirds of the spans."""
        keys = np.stack([np.asarray(times, dtype=np.float64), np.asarray(values, dtype=np.float64)], axis=1)
        spans = np.diff(keys[:, 0]) if len(keys) > 1 else np.ones(1)
        third = np.stack([np.ones(len(keys)), np.asarray(slopes, dtype=np.float64)], axis=1) / 3.0
        before, after = np.append(spans[0], spans), np.append(spans, spans[-1])
        if len(keys) == 1:
            before = after = np.ones(1)
        return cls(keys, keys - before[:, None] * third, keys + after[:, None] * third)

    @property
    def slopes(self) -> FloatArray:
        """Slope of the handle after each key, (K,); 0 for one without length in time."""
        way = self.right - self.keys
        return np.where(way[:, 0] > 0.0, way[:, 1] / np.where(way[:, 0] > 0.0, way[:, 0], 1.0), 0.0)

    def evaluate(self, times: npt.ArrayLike) -> FloatArray:
        """Return the values at times (T,), as `FCurve.evaluate` does to its single precision."""
        at = np.asarray(times, dtype=np.float64)
        starts = self.keys[:, 0]
        if len(starts) == 1:
            return np.full(at.shape, self.keys[0, 1])
        span = np.clip(np.searchsorted(starts, at, side="right") - 1, 0, len(starts) - 2)
        first, last = self.keys[span], self.keys[span + 1]
        length = last[:, 0] - first[:, 0]
        second = first + _within(self.right[span] - first, length)
        third = last + _within(self.left[span + 1] - last, length)
        low, high = np.zeros((2, len(at)))
        high += 1.0
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            late = _bezier(first[:, 0], second[:, 0], third[:, 0], last[:, 0], middle) > at
            low, high = np.where(late, low, middle), np.where(late, middle, high)
        values = _bezier(first[:, 1], second[:, 1], third[:, 1], last[:, 1], 0.5 * (low + high))
        values = np.where(at <= starts[0], self.keys[0, 1], values)
        return np.where(at >= starts[-1], self.keys[-1, 1], values)


def _within(handle: FloatArray, length: FloatArray) -> FloatArray:
    """Handles (n, 2) from their keys, shortened along their direction to spans of some length (n,)."""
    longer = np.abs(handle[:, 0])
    return handle * np.where(longer > length, length / np.where(longer > 0.0, longer, 1.0), 1.0)[:, None]


def _bezier(a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray, s: FloatArray) -> FloatArray:
    rest = 1.0 - s
    return rest**3 * a + 3.0 * rest**2 * s * b + 3.0 * rest * s**2 * c + s**3 * d


# Reduction

WINDOW: Final = 480
"""Frames that are reduced at once, which bounds the memory; between two windows every curve has a key."""
LONGEST: Final = 240
"""Most frames between two keys."""
SAMPLES: Final = 24
"""Times at which a long span is looked at to choose keys; deviations are measured at all times."""
ROUNDS: Final = 10
"""Choices of keys by shares of the tolerance, each with the shares that the last one asks for."""
BEGIN: Final = 0.8
"""Share of the tolerance [1] of each curve at first."""
AIM: Final = 1.6
"""Largest deviation [1] that shares are to lead to: few places are beyond the tolerance, which keys that are
added there mend with fewer than smaller shares everywhere would take."""
SPLIT: Final = 0.025
"""Part of the curves [1] that get a key where a point is too far off, those that move it most."""
BESIDE: Final = 1
"""Frames beside one that is too far off in which shares are lowered too."""
LEAK: Final = 0.8
"""Exponent [1] with which weights forget deviations of earlier fits: other keys have other ones."""
FLOOR: Final = 0.2
"""Deviation [1] that counts where there is none: no weight goes to 0."""
GRADIENTS: Final = 40
"""Most steps of conjugate gradients of a fit."""
PROMINENT: Final = 1.0
"""By how much of the tolerance a curve moves a point on both sides of a turning point with a key [1]."""
CONSTANT: Final = 0.05
"""By how much of the tolerance a curve that gets one key alone moves a point [1]."""
POSTURE: Final = 0.01
"""μ: weight of each curve's own deviation [1], so that what moves no point stays where it is."""
TINY: Final = 1e-12
"""In place of a sensitivity of 0, to divide by."""
SMALL_CHANGE: Final = 1e-5
"""Change of a value [m, rad, 1] by which derivatives are taken."""


@dataclass(frozen=True, eq=False)
class JointCurves:
    """The curves of one property of a joint: its translation, or its rotation in some mode."""

    joint: int
    mode: str
    """'LOCATION', 'QUATERNION', 'AXIS_ANGLE', or an Euler order."""
    values: FloatArray
    """All components at the frames and in the middle between each two of them, (2 F - 1, k)."""
    slopes: FloatArray
    """The same per unit of time, at the frames, (F, k)."""
    keyed: tuple[bool, ...]
    """Which components have curves, (k,)."""
    below: FloatArray | None = None
    """What the curves play over, (2 F - 1, k), 0 for components without one: they are added to it."""
    multiplies: bool = False
    """Whether quaternions are multiplied instead, below · curves."""

    def __post_init__(self) -> None:
        freeze(self, "values", "slopes", "below")

    def select(self, grid: slice | IntArray, frames: slice | IntArray) -> JointCurves:
        """A copy at some of the times, and with the slopes at some of the frames."""
        below = None if self.below is None else self.below[grid]
        return replace(self, values=self.values[grid], slopes=self.slopes[frames], below=below)

    def matrices(self, values: FloatArray) -> FloatArray:
        """Rotations (2 F - 1, 3, 3) that play, for components (2 F - 1, k) of the curves."""
        if self.below is None or not self.multiplies or self.mode != "QUATERNION":
            return matrix_in_mode(self.mode, self.played(values))
        return matrix_in_mode(self.mode, self.below) @ matrix_in_mode(self.mode, values)

    def played(self, values: FloatArray) -> FloatArray:
        """Components that play, (2 F - 1, k), where they are not multiplied."""
        return values if self.below is None else self.below + values


@dataclass(frozen=True, eq=False)
class Reduction:
    """Curves with few keys."""

    curves: tuple[BezierCurve, ...]
    """In the order of the components that are keyed."""
    rows: tuple[IntArray, ...]
    """The frames of their keys, counted from the first."""
    distances: FloatArray
    """By how much points are elsewhere, at the frames and between them, (2 F - 1, P) [m]."""
    angles: FloatArray
    """By how much their joints are turned, (2 F - 1, P) [rad]."""
    places: FloatArray
    """Where the points were, (2 F - 1, P, 3) [m]."""
    axes: FloatArray
    """The axes of their joints, (2 F - 1, P, 3, 3)."""

    @property
    def keys(self) -> int:
        """How many there are."""
        return sum(len(rows) for rows in self.rows)


def reduce_keys(
    skeleton: Skeleton,
    pose: Pose,
    curves: Sequence[JointCurves],
    times: FloatArray,
    *,
    joints: Sequence[int],
    points: FloatArray,
    distance: float,
    angle: float,
    required: BoolArray,
) -> Generator[float, None, Reduction]:
    """Find curves with few keys that keep points of joints where they are; gives the part done in [0, 1].

    Args:
        pose: Of the motion at the frames and in the middle between each two, (2 F - 1, n, 6).
        curves: What moves it, also over something; all else of the pose stays.
        times: Of the frames, rising, (F,).
        joints: Of the points that are to stay, (P,).
        points: In the frames of these joints, (P, 3) [m].
        distance: Largest distance of a point from where it was [m].
        angle: Largest turn of its joint [rad].
        required: Frames at which every curve has a key with the value that it has, (F,); the first and the
            last one always. A curve that is constant has one key all the same.

    Raises:
        IKError: A tolerance is not above 0, or numbers of frames differ.
    """
    check_number("distance", distance, 0.0, above=True)
    check_number("angle", angle, 0.0, above=True)
    frames, grid = len(times), 2 * len(times) - 1
    for own in curves:
        if len(own.values) != grid or len(own.slopes) != frames:
            raise IKError(
                f"curves of joint {skeleton.names[own.joint]!r} have {len(own.values)} values and "
                f"{len(own.slopes)} slopes: {frames} frames need {grid} and {frames}"
            )
    if pose.frames != (grid,):
        raise IKError(f"the pose has frames {pose.frames}: {frames} frames and those between are {(grid,)}")
    kept = np.array(required, dtype=np.bool_)
    kept[[0, -1]] = True
    world = _World(skeleton, pose, curves, joints, points, distance, angle)
    constant = world.constant()
    fits = list[_Fit]()
    for begin in range(0, max(frames - 1, 1), WINDOW):
        own = slice(begin, min(begin + WINDOW, frames - 1) + 1)
        some = world.select(slice(2 * own.start, 2 * own.stop - 1), own)
        window = _Window(some, times[own], kept[own], constant)
        for part in window.reduce():
            yield (begin + part * (own.stop - begin)) / frames
        fits.append(window.best)
    # The first frame of a window is the last one of the window before.
    skips = [slice(1 if number else 0, None) for number in range(len(fits))]
    keyed, values, slopes, off = (
        np.concatenate([getattr(fit, name)[skip] for fit, skip in zip(fits, skips, strict=True)])
        for name in ("keyed", "values", "slopes", "off")
    )
    keyed[1:, constant] = False
    rows = [np.flatnonzero(column) for column in keyed.T]
    return Reduction(
        tuple(
            BezierCurve.with_slopes(times[own], values[own, column], slopes[own, column])
            for column, own in enumerate(rows)
        ),
        tuple(rows),
        frozen(off[:, 0] * distance),
        frozen(off[:, 1] * angle),
        *world.placed(world.values),
    )


class _World:
    """Points of bones as functions of curves, at the frames and between them."""

    def __init__(
        self,
        skeleton: Skeleton,
        pose: Pose,
        curves: Sequence[JointCurves],
        joints: Sequence[int],
        points: FloatArray,
        distance: float,
        angle: float,
    ) -> None:
        self._skeleton, self._pose = skeleton.above(joints, pose)
        place = {skeleton.index(name): number for number, name in enumerate(self._skeleton.names)}
        self.joints = np.array([place[joint] for joint in joints])
        self._curves = [(place.get(own.joint), own) for own in curves]
        self._points, self._distance, self._angle = points, distance, angle
        keyed = [np.array(own.keyed) for own in curves]
        self.values = np.concatenate(
            [own.values[:, mask] for own, mask in zip(curves, keyed, strict=True)], axis=1
        )
        """Of the curves of the motion, (2 F - 1, C)."""
        self.slopes = np.concatenate(
            [own.slopes[:, mask] for own, mask in zip(curves, keyed, strict=True)], axis=1
        )
        """At the frames, (F, C)."""

    def select(self, grid: slice | IntArray, frames: slice | IntArray) -> _World:
        """The same at some of the times, with the slopes at some of the frames."""
        other = copy(self)
        other._pose, other.values, other.slopes = self._pose[grid], self.values[grid], self.slopes[frames]
        other._curves = [(joint, own.select(grid, frames)) for joint, own in self._curves]
        return other

    def placed(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Points (G, P, 3) and axes of their joints (G, P, 3, 3) with curves at values (G, C)."""
        translation = np.array(self._pose.translation)
        linear = matrix_from_euler(self._pose.rotation, self._skeleton.orders)
        begin = 0
        for joint, own in self._curves:
            mask = np.array(own.keyed)
            end = begin + int(mask.sum())
            if joint is not None:
                mixed = np.array(own.values)
                mixed[:, mask] = values[:, begin:end]
                if own.mode == "LOCATION":
                    translation[:, joint] = own.played(mixed)
                else:
                    linear[:, joint] = own.matrices(mixed)
            begin = end
        matrices = joint_matrices(self._skeleton, translation, linear * self._pose.scale[..., None, :])
        matrices = matrices[:, self.joints]
        places = (matrices[..., :3, :3] @ self._points[..., None])[..., 0] + matrices[..., :3, 3]
        axes = matrices[..., :3, :3]
        lengths = np.linalg.norm(axes, axis=-2, keepdims=True)
        return places, axes / np.where(lengths > 0.0, lengths, 1.0)

    def off(self, values: FloatArray, meant: tuple[FloatArray, FloatArray]) -> FloatArray:
        """Distances and angles from where points are meant to be, by the tolerances, (G, 2, P)."""
        places, axes = self.placed(values)
        distances = np.linalg.norm(places - meant[0], axis=-1) / self._distance
        angles = rotation_angle(np.swapaxes(meant[1], -1, -2) @ axes) / self._angle
        return np.stack([distances, angles], axis=1)

    def derivatives(self, meant: tuple[FloatArray, FloatArray]) -> FloatArray:
        """Derivatives of places and turns by the curves, by the tolerances, (G, 2, P, 3, C)."""
        grid, count = self.values.shape
        found = np.empty((grid, 2, len(self.joints), 3, count))
        for column in range(count):
            values = np.array(self.values)
            values[:, column] += SMALL_CHANGE
            places, axes = self.placed(values)
            found[:, 0, ..., column] = (places - meant[0]) / (SMALL_CHANGE * self._distance)
            turn = axes @ np.swapaxes(meant[1], -1, -2)
            across = turn - np.swapaxes(turn, -1, -2)
            vector = 0.5 * np.stack([across[..., 2, 1], across[..., 0, 2], across[..., 1, 0]], axis=-1)
            found[:, 1, ..., column] = vector / (SMALL_CHANGE * self._angle)
        return found

    def constant(self) -> BoolArray:
        """Which curves may have one key for all frames, (C,)."""
        grid = len(self.values)
        rows = np.unique(np.linspace(0, grid - 1, min(grid, SAMPLES)).astype(np.int64))
        some = self.select(rows, rows // 2)
        largest = _sensitivities(some.derivatives(some.placed(some.values))).max(axis=0)
        return np.ptp(self.values, axis=0) * largest <= CONSTANT


def _sensitivities(derivatives: FloatArray) -> FloatArray:
    """By how much each curve moves any point, by the tolerances, (G, C)."""
    return np.sqrt(np.square(derivatives).sum(axis=3)).max(axis=(1, 2))


@dataclass(frozen=True, eq=False)
class _Fit:
    """Keys, what they are, and how far off points are."""

    keyed: BoolArray
    """(F, C)."""
    values: FloatArray
    """At the frames, those with keys count, (F, C)."""
    slopes: FloatArray
    """Likewise."""
    off: FloatArray
    """By the tolerances, (2 F - 1, 2, P)."""

    @property
    def keys(self) -> int:
        return int(self.keyed.sum())


class _Window:
    """Frames whose curves get few keys."""

    best: _Fit

    def __init__(self, world: _World, times: FloatArray, kept: BoolArray, constant: BoolArray) -> None:
        self._world, self._times = world, times
        self._grid = halves(times)
        self._meant = world.placed(world.values)
        derivatives = world.derivatives(self._meant)
        self._sensitivity = _sensitivities(derivatives)
        self._derivatives = derivatives.reshape(len(self._grid), -1, derivatives.shape[-1]).astype(np.float32)
        self._values, self._slopes = np.array(world.values[::2]), np.array(world.slopes)
        self._constant, self._fixed = constant, np.array(kept)
        self._values[:, constant] = world.values[0, constant]
        self._slopes[:, constant] = 0.0
        self._fixed[[0, -1]] = True
        prominent = PROMINENT / np.maximum(self._sensitivity.max(axis=0), TINY)
        turns = _turning_points(self._values, prominent) & ~constant
        self._kept = turns | self._fixed[:, None]
        self._weights = np.ones((len(self._grid), 2, len(world.joints)))

    def reduce(self) -> Iterator[float]:
        """Find the fewest keys, `best`; gives the part done."""
        frames = len(self._times)
        lengths, errors = self._span_errors()
        share, done = np.full(max(frames - 1, 1), BEGIN), 0.0
        for number in range(ROUNDS):
            self.best = self._fit(self._paths(lengths, errors, share))
            done += (1.0 - done) / ROUNDS
            yield done
            if number == ROUNDS - 1 or frames < 3:
                break
            worst = self.best.off.max(axis=(1, 2))
            near = np.maximum(np.maximum(worst[:-2:2], worst[1::2]), worst[2::2])
            near = np.maximum(_largest_beside(near, BESIDE), TINY)
            share = share * np.sqrt(np.clip(AIM / near, 0.5, 2.0))
        while self.best.off.max() > 1.0:
            keyed = self._split(self.best, lengths, errors)
            if (keyed == self.best.keyed).all():
                keyed = np.broadcast_to(~self._constant | self._fixed[:, None], keyed.shape)
            self.best = self._fit(keyed)
            done += (1.0 - done) / ROUNDS
            yield done
            if keyed[:, ~self._constant].all():
                break

    def _split(self, fit: _Fit, lengths: IntArray, errors: FloatArray) -> BoolArray:
        """Keys with more of them where points are too far off, (F, C)."""
        frames, count = fit.keyed.shape
        keyed, rows = np.array(fit.keyed), _counted(frames)[:, None]
        before = np.maximum.accumulate(np.where(keyed, rows, 0), axis=0)
        after = np.minimum.accumulate(np.where(keyed, rows, frames)[::-1], axis=0)[::-1]
        worst = fit.off.reshape(len(fit.off), -1)
        peaks = worst.max(axis=1)
        around = _largest_beside(peaks, 2 * BESIDE)
        derivatives = self._derivatives.reshape(len(worst), worst.shape[1], 3, count)
        for at in np.flatnonzero((peaks > 1.0) & (peaks >= around)).tolist():
            moves = np.linalg.norm(derivatives[at, int(worst[at].argmax())], axis=0)
            frame = min(at // 2, frames - 2)
            begin = np.where(keyed[frame], frame, before[frame])
            end = after[frame + 1]
            spans: IntArray = np.asarray(end - begin)
            number = np.asarray(np.searchsorted(lengths, spans), dtype=np.int64)
            score = errors[number, begin, _counted(count)] * moves / np.maximum(self._sensitivity[at], TINY)
            score[(end - begin < 2) | self._constant] = -1.0
            for column in np.argsort(-score)[: max(1, round(SPLIT * count))].tolist():
                if score[column] < 0.0:
                    continue
                i, j = int(begin[column]), int(end[column])
                middle = np.arange(i + 1, j)
                first = errors[np.searchsorted(lengths, middle - i), i, column]
                second = errors[np.searchsorted(lengths, j - middle), middle, column]
                keyed[middle[int(np.maximum(first, second).argmin())], column] = True
        return keyed

    def _span_errors(self) -> tuple[IntArray, FloatArray]:
        """Numbers of frames between keys, rising, and errors of spans that begin in each frame, (L, F, C).

        Infinite where the span goes past the end or past a frame with a key.
        """
        frames, count = self._values.shape
        most = min(LONGEST, max(frames - 1, 1))
        lengths = [1]
        while lengths[-1] < most:
            lengths.append(min(lengths[-1] + max(1, lengths[-1] // 12), most))
        after = np.where(self._kept, _counted(frames)[:, None], 10 * frames)
        after = np.minimum.accumulate(after[::-1], axis=0)[::-1]
        after = np.append(after[1:], np.zeros((1, count), dtype=np.int64), axis=0)  # the next one with a key
        errors = np.full((len(lengths), frames, count), np.inf)
        for number, length in enumerate(lengths):
            begin = np.flatnonzero(_counted(frames) + length <= after.max(axis=1))
            if not len(begin):
                continue
            inside = np.unique(np.linspace(1, 2 * length - 1, min(2 * length - 1, SAMPLES)).astype(np.int64))
            worst = np.zeros((len(begin), count))
            span = (self._times[begin + length] - self._times[begin])[:, None]
            for step in inside.tolist():
                grid = 2 * begin + step
                part = ((self._grid[grid] - self._times[begin])[:, None]) / span
                a, b, c, d = _hermite(part)
                value = a * self._values[begin] + c * self._values[begin + length]
                value += span * (b * self._slopes[begin] + d * self._slopes[begin + length])
                error = np.abs(value - self._world.values[grid]) * self._sensitivity[grid]
                np.maximum(worst, error, out=worst)
            within = begin[:, None] + length <= after[begin]
            errors[number, begin] = np.where(within, 0.0 if length == 1 else worst, np.inf)
        errors[..., self._constant] = np.where(np.isfinite(errors[..., self._constant]), 0.0, np.inf)
        return np.array(lengths), errors

    def _paths(self, lengths: IntArray, errors: FloatArray, share: FloatArray) -> BoolArray:
        """The fewest keys of each curve with which all its spans have errors up to the share, (F, C)."""
        frames, count = self._values.shape
        cost, following = np.zeros((frames, count), dtype=np.int64), np.zeros((frames, count), dtype=np.int64)
        every = _counted(count)
        for frame in range(frames - 2, -1, -1):
            some = lengths[lengths < frames - frame]
            least = np.minimum.accumulate(share[frame : frame + int(some[-1])])[some - 1]
            usable = errors[: len(some), frame] <= least[:, None]
            costs = np.where(usable, cost[frame + some], 10 * frames)
            chosen = len(some) - 1 - costs[::-1].argmin(axis=0)  # of equally few keys the longest span
            cost[frame] = costs[chosen, every] + 1
            following[frame] = frame + some[chosen]
        keyed = np.zeros((frames, count), dtype=np.bool_)
        at = np.zeros(count, dtype=np.int64)
        keyed[at, every] = True
        while (at < frames - 1).any():
            at = np.where(at < frames - 1, following[at, every], at)
            keyed[at, every] = True
        return keyed

    def _fit(self, keyed: BoolArray) -> _Fit:
        """Fit values and slopes of keys (F, C)."""
        spans = _Spans.of(keyed, self._times, self._grid)
        free_values = keyed & ~self._fixed[:, None] & ~self._constant
        free_slopes = keyed & ~self._constant
        free_slopes[[0, -1]] = False
        weights = self._weights.repeat(3, axis=2).reshape(len(self._grid), -1)
        own = POSTURE * np.square(self._sensitivity)
        J = self._derivatives

        def product(moved: FloatArray) -> FloatArray:
            rows = weights * (J @ moved[..., None])[..., 0]
            return (rows[:, None] @ J)[:, 0] + own * moved

        diagonal = np.einsum("gr,grc,grc->gc", weights, J, J) + own
        # Values and slopes are one array: (2, F, C).
        scale = np.where(np.stack([free_values, free_slopes]), spans.squares(diagonal), np.inf)
        x: FloatArray = np.stack([self._values, self._slopes])
        residual: FloatArray = spans.adjoint(product(self._world.values - spans.evaluate(x)))
        p: FloatArray = residual / scale
        rz = first = float((residual * p).sum())
        for _ in range(GRADIENTS):
            if rz <= 1e-8 * first or rz == 0.0:
                break
            q: FloatArray = spans.adjoint(product(spans.evaluate(p)))
            step = rz / float((p * q).sum())
            x = x + step * p
            residual = residual - step * q
            before, rz = rz, float((np.square(residual) / scale).sum())
            p = residual / scale + (rz / before) * p
        off = self._world.off(spans.evaluate(x), self._meant)
        self._weights = (self._weights * (FLOOR + off)) ** LEAK
        self._weights /= self._weights.mean()
        return _Fit(keyed, x[0], x[1], off)


@dataclass(frozen=True, eq=False)
class _Spans:
    """Curves between their keys, linear in values and slopes of the keys."""

    before: IntArray
    """Frame of the key before each time, (G, C)."""
    after: IntArray
    """Frame of the key after it."""
    basis: tuple[FloatArray, FloatArray, FloatArray, FloatArray]
    """Of value and slope of the key before, and of the one after, (G, C)."""

    @classmethod
    def of(cls, keyed: BoolArray, times: FloatArray, grid: FloatArray) -> _Spans:
        frames = len(times)
        rows = _counted(frames)[:, None]
        last = np.maximum.accumulate(np.where(keyed, rows, 0), axis=0)
        following = np.minimum.accumulate(np.where(keyed, rows, frames)[::-1], axis=0)[::-1]
        at = np.arange(len(grid)) // 2
        before = np.minimum(last[at], max(frames - 2, 0))
        if frames > 1:  # the last frame ends the last span
            before[-1] = last[-2]
        after = following[np.minimum(before + 1, frames - 1), _counted(keyed.shape[1])]
        span = times[after] - times[before]
        span = np.where(span > 0.0, span, 1.0)
        a, b, c, d = _hermite((grid[:, None] - times[before]) / span)
        return cls(before, after, (a, b * span, c, d * span))

    def evaluate(self, keys: FloatArray) -> FloatArray:
        """The curves at all times, (G, C), of values and slopes at the frames, (2, F, C)."""
        a, b, c, d = self.basis
        values, slopes = keys
        columns = _counted(values.shape[1])
        first = a * values[self.before, columns] + b * slopes[self.before, columns]
        return first + c * values[self.after, columns] + d * slopes[self.after, columns]

    def adjoint(self, curves: FloatArray) -> FloatArray:
        """The transpose of `evaluate`, (2, F, C)."""
        a, b, c, d = self.basis
        return np.stack([self._gathered(a * curves, c * curves), self._gathered(b * curves, d * curves)])

    def squares(self, diagonal: FloatArray) -> FloatArray:
        """The diagonal of adjoint · diag · evaluate, (2, F, C)."""
        a, b, c, d = (np.square(own) * diagonal for own in self.basis)
        return np.stack([self._gathered(a, c), self._gathered(b, d)])

    def _gathered(self, first: FloatArray, last: FloatArray) -> FloatArray:
        columns = _counted(first.shape[1])
        frames = int(self.after.max()) + 1
        size = frames * first.shape[1]
        sums = np.zeros(size)
        for rows, values in ((self.before, first), (self.after, last)):
            places: IntArray = (rows * first.shape[1] + columns).ravel()
            sums += np.bincount(places, values.ravel(), size)
        return sums.reshape(frames, -1)


def _counted(count: int) -> IntArray:
    """The numbers 0, 1, ... (count,)."""
    return np.array(range(count), dtype=np.int64)


def _largest_beside(values: FloatArray, count: int) -> FloatArray:
    """The largest of each value (n,) and so many on both sides."""
    padded = np.pad(values, count, mode="edge")
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * count + 1).max(axis=1)


def _turning_points(values: FloatArray, prominent: FloatArray) -> BoolArray:
    """Frames at which curves (F, C) turn back by more than some amount (C,) on both sides."""
    found = np.zeros(values.shape, dtype=np.bool_)
    count = values.shape[1]
    columns = _counted(count)
    high, low = np.zeros((2, count), dtype=np.int64)
    way = np.zeros(count, dtype=np.int64)
    for frame in range(1, len(values)):
        now = values[frame]
        high = np.where(now > values[high, columns], frame, high)
        low = np.where(now < values[low, columns], frame, low)
        falls = (way >= 0) & (now < values[high, columns] - prominent)
        rises = (way <= 0) & (now > values[low, columns] + prominent) & ~falls
        found[high[falls], columns[falls]] = True
        found[low[rises], columns[rises]] = True
        low, high = np.where(falls, frame, low), np.where(rises, frame, high)
        way = np.where(falls, -1, np.where(rises, 1, way))
    return found


def _hermite(part: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Cubics of the value and slope at 0 and of those at 1."""
    square, cube = part**2, part**3
    return 2 * cube - 3 * square + 1, cube - 2 * square + part, 3 * square - 2 * cube, cube - square


def halves(values: FloatArray) -> FloatArray:
    """Values at frames (F, ...) and the means of each two of them, (2 F - 1, ...)."""
    found = np.empty((2 * len(values) - 1, *values.shape[1:]))
    found[::2], found[1::2] = values, 0.5 * (values[1:] + values[:-1])
    return found

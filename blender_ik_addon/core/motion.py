# SPDX-License-Identifier: GPL-3.0-or-later
"""Contacts of feet and hands in motions that are there already: where they are, and what holds them there.

**Found** from speed and height, with hysteresis. A foot has two points that may be planted by themselves: its
joint, and where its toes begin. While the heel rises the toes stay; a foot that is flat on the floor has both
in contact. A hand has one.

A point is in contact in a run of frames in which it is slower than `fast` and no higher than by `rise` above
its own low, if in some of them it is slower than `slow` and lower than `near` above the floor: one pair of
thresholds for the whole run, a stricter one that it must meet once, so that no noise at a threshold divides a
contact. What rises slowly, as a heel, is in contact no more. Speeds are taken over a span of time, not from
frame to frame, and all lengths are parts of the length of a leg: neither the frame rate nor the unit of a
file matters. Where feet in the air are slower than those of people at full speed, as in a clip that is played
too slowly, `fast` is lower in proportion: else a foot that is set down would be in contact.

The floor is where the body is at the time: a low quantile over a second of the heights of the same points of
both feet, so that slopes, drift and a frame that is no motion do no harm. That of hands is where the lowest
points of all are. The low of a point is the same quantile of its own heights above the floor, over some
seconds.

**Locked**: while two points of a foot are planted, or all that a hand has, its orientation is the mean of
those recorded. While one of two is, the orientation is as recorded, and the foot rolls about that point. So
the places are those of rolling without sliding, up to one translation for all of a contact: the one that
moves least,

    x_t = x_{t-1} + (R_{t-1} - R_t) q,    Σ |x_t - recorded_t|² least,

where q is a point that is planted in both frames. Outside of contacts the difference from the recording goes
back to nothing within the time to ease, as a cubic that continues its value and its slope. The difference is
0 where nothing slides, so what is locked already stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from .arrays import BoolArray, FloatArray, check_number, freeze, frozen, frozen_as, lengths
from .arrays import times as product
from .character import Character, Hints, Limb, LimbKind, Role
from .errors import IKError, check_type
from .model.kinematics import forward_kinematics
from .model.rotation import matrix_from_rotvec, rotvec_from_matrix
from .model.skeleton import UP, Pose, Skeleton

LEGS: Final = (LimbKind.LEG, LimbKind.FRONT_LEG)
"""Limbs that end with a foot."""

FOOT, HAND = 0, 1
"""Groups of tracks whose points are at the same heights above the floor when they are planted."""

LOW: Final = 0.1
"""Part of the heights in `floor_window` that are below the floor [1]: single frames that are no motion."""

FLOORS: Final = 10
"""For how many times in `floor_window` the floor is computed; between them it is interpolated."""

SAME_POINT: Final = 1e-3
"""Part of the leg's length [1] up to which a foot's end is at its joint: it says nothing of toes."""


@dataclass(frozen=True)
class ContactOptions:
    """Thresholds. They fit recorded people at 16 to 120 frames a second, see `docs/measured/contacts.md`."""

    slow: float = 0.3
    """Speed [leg lengths/s] below which a contact may begin."""
    fast: float = 0.6
    """Speed [leg lengths/s] up to which it goes on."""
    swing: float = 2.25
    """Speed of feet in the air [leg lengths/s] below which `fast` is lower in proportion."""
    near: float = 0.06
    """Height above the floor [leg lengths] below which a contact may begin."""
    rise: float = 0.025
    """Height above where the point is lowest [leg lengths] up to which it goes on."""
    shortest: float = 0.08
    """Duration of the shortest contact [s]; shorter gaps between two are closed."""
    speed_window: float = 0.1
    """Over which speeds are taken [s]."""
    floor_window: float = 1.0
    """Over which the height of the floor is taken [s]."""
    low_window: float = 3.0
    """Over which the height is taken at which a point is lowest [s]."""

    def __post_init__(self) -> None:
        for field in fields(self):
            check_number(f"ContactOptions.{field.name}", getattr(self, field.name), 0.0, above=True)
        if self.fast < self.slow:
            raise IKError(f"ContactOptions.fast must not be below slow, {self.slow:g}")


@dataclass(frozen=True)
class Track:
    """How a foot or a hand moves: a frame at each time, and the points of it that may be planted."""

    name: str
    places: FloatArray
    """Of its origin, (F, 3) [m]."""
    turns: FloatArray
    """Rotation matrices, (F, 3, 3)."""
    points: FloatArray
    """In its frame, (P, 3) [m]: where it is hinged, then where toes begin, if it has any."""
    group: int = FOOT
    """`FOOT` or `HAND`."""
    on_floor: bool = True
    """Whether it must be near the floor; not where places are relative to an object that is held."""

    def __post_init__(self) -> None:
        for field in ("places", "turns", "points"):  # `freeze` lets None pass
            check_type(f"Track.{field} is an array", getattr(self, field), Collection)
        freeze(self, "places", "turns", "points")
        count = len(self.places)
        for name, shape in (("places", (count, 3)), ("turns", (count, 3, 3)), ("points", (-1, 3))):
            array: FloatArray = getattr(self, name)
            if array.ndim != len(shape) or any(
                a not in (b, -1) for b, a in zip(array.shape, shape, strict=True)
            ):
                raise IKError(f"{self.name}: Track.{name} has shape {array.shape}; wanted {shape}")
            if not array.size:
                raise IKError(f"{self.name}: Track.{name} is empty; a track has a frame and a point at least")
            bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
            if bad.any():
                what = "point" if name == "points" else "frame"
                raise IKError(f"{self.name}: Track.{name} is not finite at {what} {int(bad.argmax())}")
        if self.group not in (FOOT, HAND):
            raise IKError(f"{self.name}: Track.group is FOOT ({FOOT}) or HAND ({HAND}), got {self.group!r}")

    @property
    def planted(self) -> FloatArray:
        """Places of the points, (F, P, 3) [m]."""
        return self.places[:, None] + product(self.turns[:, None], self.points)


def leg_length(skeleton: Skeleton, character: Character, figure: int = 0) -> float:
    """Length of the legs of a figure, from hip to foot along the bones [m]; of one without legs its size.

    Raises:
        IKError: There is no such figure.
    """
    if not 0 <= figure < len(character.figures):
        raise IKError("no body was recognised: contacts are found on feet and hands, which need roles")
    rest = skeleton.armature_from_joint_rest[:, :3, 3]
    legs = [_path(skeleton, limb) for limb in _limbs(character, figure) if limb.kind is LimbKind.LEG]
    found = [float(lengths(np.diff(rest[leg], axis=0)).sum()) for leg in legs]
    return max(found, default=0.0) or character.figures[figure].size


def _limbs(character: Character, figure: int) -> list[Limb]:
    return [limb for limb in character.limbs if limb.figure == figure]


def _path(skeleton: Skeleton, limb: Limb) -> list[int]:
    """Joints from the thigh to what a target holds."""
    top = limb.first(Role.UPPER_LEG)
    path = skeleton.ancestors(limb.effector)
    return path[: path.index(top) + 1] if top in path else path[:1]


def limb_tracks(
    skeleton: Skeleton, pose: Pose, character: Character, tails: npt.ArrayLike | None = None, figure: int = 0
) -> tuple[Track, ...]:
    """Tracks of the feet and hands of a figure, in armature space.

    Args:
        skeleton: Of the figure.
        pose: Its motion, (F, n, 6).
        character: Which joints are feet, toes and hands.
        tails: Ends of the bones at rest in armature space, (n, 3) [m]: of a foot without toes its point.
        figure: Which one.

    Raises:
        IKError: There is no such figure, it has neither feet nor hands, or shapes do not fit.
    """
    length = leg_length(skeleton, character, figure)
    Hints(tails=None if tails is None else frozen(tails)).check(skeleton)
    if pose.channels.ndim != 3:
        raise IKError(f"tracks are of the frames of a motion, (F, n, 6), got a pose of {pose.channels.shape}")
    limbs = [limb for limb in _limbs(character, figure) if limb.kind in (*LEGS, LimbKind.ARM)]
    if not limbs:
        raise IKError("neither feet nor hands were recognised: give their bones roles")
    matrices = forward_kinematics(skeleton, pose).matrices
    tracks: list[Track] = []
    for limb in limbs:
        joint = limb.effector
        turns = matrices[:, joint, :3, :3]
        turns = turns / lengths(np.swapaxes(turns, -1, -2))[..., None, :]
        points = [np.zeros(3)]
        if limb.kind in LEGS:
            toe = toe_point(skeleton, character, limb, tails)
            if float(np.linalg.norm(toe)) > SAME_POINT * length:
                points.append(toe)
        group = FOOT if limb.kind in LEGS else HAND
        tracks.append(Track(skeleton.names[joint], matrices[:, joint, :3, 3], turns, np.stack(points), group))
    return tuple(tracks)


def toe_point(
    skeleton: Skeleton, character: Character, limb: Limb, tails: npt.ArrayLike | None = None
) -> FloatArray:
    """Where toes begin, in the frame of the joint that a target holds, (3,) [m]; 0 where nothing says it."""
    joint = limb.effector
    rest = skeleton.armature_from_joint_rest
    toes = [
        toe
        for toe in range(len(skeleton))
        if skeleton.parents[toe] == joint and character.role_of(toe) is Role.TOE
    ]
    if toes:
        place = rest[toes, :3, 3].mean(axis=0)
    elif tails is not None:
        place = np.asarray(tails, dtype=np.float64)[joint]
    else:
        return np.zeros(3)
    return rest[joint, :3, :3].T @ (place - rest[joint, :3, 3])


def find_contacts(
    tracks: Sequence[Track],
    times: npt.ArrayLike,
    length: float,
    *,
    up: npt.ArrayLike = UP,
    options: ContactOptions | None = None,
) -> tuple[BoolArray, ...]:
    """Whether the points of each track are in contact, (F, P) each.

    Args:
        tracks: Of the feet and hands of one body.
        times: Of the frames, rising, (F,) [s].
        length: Of its legs [m], see `leg_length`.
        up: Which way is up.
        options: Thresholds.

    Raises:
        IKError: Times do not rise, or are not those of the tracks.
    """
    options = options or ContactOptions()
    seconds = check_times(tracks, times)
    check_number("the length of the legs", length, 0.0, above=True)
    upward = frozen(up)
    if upward.shape != (3,) or not np.isfinite(upward).all() or not upward.any():
        raise IKError(f"up must be a direction (3,), got {up!r}")
    upward = upward / np.linalg.norm(upward)
    heights = [track.planted @ upward / length for track in tracks]
    floors = _floors(tracks, heights, _lowest(seconds, options.floor_window))
    own_low = _lowest(seconds, options.low_window)
    speeds = [_speeds(track.planted, seconds, options.speed_window) / length for track in tracks]
    aboves = [
        height - floor if track.on_floor else np.zeros_like(height)
        for track, height, floor in zip(tracks, heights, floors, strict=True)
    ]
    fast = options.fast * _pace(speeds, aboves, options)
    found: list[BoolArray] = []
    for track, speed, above in zip(tracks, speeds, aboves, strict=True):
        begins = (speed < min(options.slow, fast)) & (above < options.near)
        low = np.stack([own_low([row]) for row in above.T], axis=1)
        down = above - low < options.rise
        lasts = down & (speed < fast)
        columns = [
            _runs(begins[:, point], lasts[:, point], down[:, point], seconds, options)
            for point in range(len(track.points))
        ]
        found.append(np.stack(columns, axis=1))
    return tuple(found)


def check_times(tracks: Sequence[Track], times: npt.ArrayLike) -> FloatArray:
    """The times of the frames of tracks, (F,) [s].

    Raises:
        IKError: They do not rise, or are not those of the tracks.
    """
    check_type("tracks are a list", tracks, Collection)
    for track in tracks:
        check_type("contacts are found in tracks", track, Track)
    seconds = frozen(times)
    rising = seconds.ndim == 1 and bool(np.isfinite(seconds).all() and (np.diff(seconds) > 0.0).all())
    if not rising or not seconds.size:
        raise IKError("times of the frames must be finite and rise, (F,), one at least")
    for track in tracks:
        if len(track.places) != len(seconds):
            raise IKError(f"{track.name} has {len(track.places)} frames, and there are {len(seconds)} times")
    return seconds


def _speeds(places: FloatArray, times: FloatArray, window: float) -> FloatArray:
    """Speeds (F, P) [m/s] of points (F, P, 3): how far they get in a window about each frame."""
    if len(times) < 2:
        return np.zeros(places.shape[:2])
    start = np.clip(times - 0.5 * window, times[0], times[-1])
    end = np.clip(times + 0.5 * window, times[0], times[-1])
    flat = places.reshape(len(times), -1)
    way = np.stack([np.interp(end, times, row) - np.interp(start, times, row) for row in flat.T], axis=1)
    return lengths(way.reshape(places.shape)) / (end - start)[:, None]


def _lowest(times: FloatArray, window: float) -> Callable[[Sequence[FloatArray]], FloatArray]:
    """What gives a low quantile of some points' heights (F,) each, in a window about each frame, (F,)."""
    count = max(2, 1 + int(np.ceil(FLOORS * (times[-1] - times[0]) / window)))
    knots = times[0] + (times[-1] - times[0]) * np.arange(count) / (count - 1)
    away = [np.abs(times - knot) for knot in knots]
    around = [np.flatnonzero(apart <= max(0.5 * window, float(apart.min()))) for apart in away]

    def lowest(samples: Sequence[FloatArray]) -> FloatArray:
        stacked = np.stack(samples, axis=1)
        return np.interp(times, knots, [np.quantile(stacked[frames], LOW) for frames in around])

    return lowest


def _floors(
    tracks: Sequence[Track],
    heights: Sequence[FloatArray],
    lowest: Callable[[Sequence[FloatArray]], FloatArray],
) -> list[FloatArray]:
    """Heights of the floor for the points of each track, (F, P) or, without a floor, (P,) [leg lengths]."""
    on_floor = [i for i, track in enumerate(tracks) if track.on_floor]
    feet = [heights[i] for i in on_floor if tracks[i].group == FOOT]
    by_point = {
        point: lowest([height[:, point] for height in feet if height.shape[1] > point])
        for point in range(max((height.shape[1] for height in feet), default=0))
    }
    hands = [height.min(axis=1) for height in (heights[i] for i in on_floor if tracks[i].group == HAND)]
    of_all = [lowest([row]) for row in hands] + list(by_point.values())
    ground = np.min(of_all or [0.0], axis=0)
    return [
        np.stack(
            [
                by_point[point] if track.group == FOOT and track.on_floor else ground
                for point in range(len(track.points))
            ],
            axis=-1,
        )
        for track in tracks
    ]


def _pace(speeds: Sequence[FloatArray], aboves: Sequence[FloatArray], options: ContactOptions) -> float:
    """Speed of feet in the air by that of people at full speed [1]: at most 1, as where none takes a step."""
    steps = [
        speed[start:stop].max(axis=1)
        for speed, above in zip(speeds, aboves, strict=True)
        for start, stop in spans((above > options.near).any(axis=1))
        if start > 0 and stop < len(above)  # from the floor to the floor
    ]
    swung = np.concatenate([np.zeros(0), *steps])
    # The mean over their way, not over time: feet are also held in the air, or lifted a little.
    return min(1.0, float(swung @ swung / swung.sum()) / options.swing) if swung.any() else 1.0


def _runs(
    begins: BoolArray, lasts: BoolArray, down: BoolArray, times: FloatArray, options: ContactOptions
) -> BoolArray:
    """Frames in contact, (F,): runs of `lasts` with one of `begins`; short gaps are closed, short runs go."""
    on = np.zeros(len(times), dtype=np.bool_)
    for start, stop in spans(lasts):
        if begins[start:stop].any():
            on[start:stop] = True

    # A frame lasts to the middles between it and those beside it.
    edges = np.concatenate([times[:1], 0.5 * (times[1:] + times[:-1]), times[-1:]])

    def duration(start: int, stop: int) -> float:
        return float(edges[stop] - edges[start])

    for start, stop in spans(~on):
        inside = start > 0 and stop < len(on)
        if inside and duration(start, stop) < options.shortest and down[start:stop].all():
            on[start:stop] = True
    for start, stop in spans(on):
        at_end = start == 0 or stop == len(on)
        if duration(start, stop) < options.shortest and not at_end:
            on[start:stop] = False
    return on


def spans(on: npt.ArrayLike) -> list[tuple[int, int]]:
    """Runs of frames that are on, as (first, one behind the last).

    Raises:
        IKError: These are no truth values of frames, (F,).
    """
    frames = frozen_as("frames that are on", on, np.bool_)
    if frames.ndim != 1:
        raise IKError(f"frames that are on are one truth value each, (F,), got {on!r}")
    padded = np.concatenate([[False], frames, [False]])
    borders = np.flatnonzero(padded[1:] != padded[:-1])
    return [(int(a), int(b)) for a, b in borders.reshape(-1, 2)]


# Locking

SLOPE_TIME: Final = 0.05
"""Time [s] at the borders of a contact over which the slope of the difference is taken."""


def locked(track: Track, on: npt.ArrayLike, times: npt.ArrayLike, *, ease: float = 0.2) -> Track:
    """A track with what is in contact at rest, and as recorded from the time to ease before and after.

    Args:
        track: As recorded; where a contact is with a moving object, relative to that.
        on: Whether its points are in contact, (F, P).
        times: Of the frames, rising, (F,) [s].
        ease: How long it takes to come to a contact and to leave it [s].

    Raises:
        IKError: Shapes do not fit.
    """
    seconds, contact = check_times([track], times), frozen_as(f"{track.name}: contacts", on, np.bool_)
    check_number("the time to ease", ease, 0.0)
    wanted = len(seconds), len(track.points)
    if contact.shape != wanted:
        raise IKError(f"{track.name}: contacts have shape {contact.shape}; frames and points are {wanted}")
    turned = np.zeros((len(seconds), 3))
    whole: BoolArray = np.logical_and.reduce(contact, axis=1)
    for start, stop in spans(whole):
        mean = _mean_rotation(track.turns[start:stop])
        turned[start:stop] = rotvec_from_matrix(mean @ np.swapaxes(track.turns[start:stop], -1, -2))
    turned = _eased(turned, whole, seconds, ease)
    turns = matrix_from_rotvec(turned) @ track.turns
    moved = np.zeros((len(seconds), 3))
    some: BoolArray = np.logical_or.reduce(contact, axis=1)
    for start, stop in spans(some):
        path = _rolled(turns[start:stop], contact[start:stop], track.points)
        path += (track.places[start:stop] - path).mean(axis=0)
        moved[start:stop] = path - track.places[start:stop]
    moved = _eased(moved, some, seconds, ease)
    return replace(track, places=track.places + moved, turns=turns)


def _mean_rotation(turns: FloatArray) -> FloatArray:
    """The rotation (3, 3) with the least sum of squared differences from some (k, 3, 3)."""
    u, _, vt = np.linalg.svd(turns.sum(axis=0))
    u[:, 2] *= np.sign(np.linalg.det(u @ vt))
    return u @ vt


def _rolled(turns: FloatArray, on: BoolArray, points: FloatArray) -> FloatArray:
    """Places (k, 3) of what rolls without sliding about its points (P, 3) in contact, from 0 on."""
    shared = on[1:] & on[:-1]
    # Where a contact goes over from one point to another the former is the pivot for one more frame.
    pivots = np.where(shared.any(axis=1, keepdims=True), shared, on[:-1])
    last = pivots.shape[1] - 1 - pivots[:, ::-1].argmax(axis=1)
    steps = product(turns[:-1] - turns[1:], points[last])
    return np.concatenate([np.zeros((1, 3)), np.cumsum(steps, axis=0)])


def _eased(difference: FloatArray, on: BoolArray, times: FloatArray, ease: float) -> FloatArray:
    """Differences (F, 3) that are known where something is on, continued so that they end within a time."""
    eased = np.where(on[:, None], difference, 0.0)
    contacts = spans(on)
    for number, (start, stop) in enumerate(contacts):
        before = contacts[number - 1][1] - 1 if number else None
        after = contacts[number + 1][0] if number + 1 < len(contacts) else None
        for border, inward, other in ((start, 1, before), (stop - 1, -1, after)):
            span = ease if other is None else min(ease, abs(float(times[other] - times[border])))
            if span == 0.0:
                continue
            within = border
            while start <= within + inward < stop and abs(times[within] - times[border]) < SLOPE_TIME:
                within += inward
            away = -inward * (times - times[border])  # from the border outward
            slope = np.zeros(3)
            if within != border:
                slope = (difference[border] - difference[within]) / -away[within]
            outside = (away > 0.0) & (away < span) & ~on
            s = (away[outside] / span)[:, None]
            value = (1.0 + 2.0 * s) * (1.0 - s) ** 2
            eased[outside] += value * difference[border] + s * (1.0 - s) ** 2 * span * slope
    return eased

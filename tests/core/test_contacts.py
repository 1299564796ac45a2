# SPDX-License-Identifier: GPL-3.0-or-later
"""Contacts of feet and hands: found whatever frame rate and unit, and held without sliding."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from blender_ik_addon.core import IKError, Pose, forward_kinematics
from blender_ik_addon.core.character import recognise
from blender_ik_addon.core.model.rotation import matrix_from_rotvec, rotation_angle
from blender_ik_addon.core.motion import (
    HAND,
    ContactOptions,
    Track,
    find_contacts,
    leg_length,
    limb_tracks,
    locked,
    spans,
)
from tests.core.builders import Array, humanoid

LEG, STEP, TOE = 0.9, 0.7, np.array([0.14, 0.0, -0.06])
"""Length of the legs and of a step [m], and where toes are in the frame of a foot."""

STANCE, ROLL, SWING = 0.6, 0.15, 0.4
"""Times [s] for which a foot is flat, rolls over its toes, and is in the air."""
CYCLE = STANCE + ROLL + SWING


def walk(times: Array, start: float, name: str = "foot") -> tuple[Track, Any]:
    """A foot that walks along x from when it is set down first, and when its points are planted, (F, 2)."""
    step, phase = np.divmod(times - start, CYCLE)
    roll = np.clip((phase - STANCE) / ROLL, 0.0, 1.0)
    swing = np.clip((phase - STANCE - ROLL) / SWING, 0.0, 1.0)
    forward = swing**2 * (3.0 - 2.0 * swing)
    lifted = np.sin(np.pi * swing)[:, None] * [0.0, 0.0, 0.12]
    turns = matrix_from_rotvec(0.6 * (roll * (1.0 - forward))[:, None] * [0.0, 1.0, 0.0])
    toes = np.stack([2.0 * STEP * (step + forward) + TOE[0], 0.0 * step, 0.0 * step + 0.03], axis=1) + lifted
    track = Track(name, toes - turns @ TOE, turns, np.stack([np.zeros(3), TOE]))
    return track, np.stack([phase < STANCE, phase < STANCE + ROLL], axis=1)


def both(times: Array) -> tuple[list[Track], Any]:
    """Two feet by turns, and when their points are planted, (2, F, 2)."""
    left, right = walk(times, 0.0, "left"), walk(times, 0.45 * CYCLE, "right")
    return [left[0], right[0]], np.stack([left[1], right[1]])


def moved(track: Track, by: Array) -> Track:
    return replace(track, places=track.places + by)


@pytest.mark.parametrize("fps", [16.0, 24.0, 60.0, 120.0])
@pytest.mark.parametrize("unit", [0.01, 1.0, 100.0])
def test_contacts_are_those_of_the_steps_at_any_frame_rate_and_in_any_unit(fps: float, unit: float) -> None:
    times = np.arange(0.0, 3.9, 1.0 / fps)
    tracks, truth = both(times)
    tracks = [replace(track, places=unit * track.places, points=unit * track.points) for track in tracks]
    found = np.stack(find_contacts(tracks, times, unit * LEG))
    for on, planted in zip(
        found.transpose(0, 2, 1).reshape(4, -1), truth.transpose(0, 2, 1).reshape(4, -1), strict=True
    ):
        assert len(spans(on)) == len(spans(planted))
        for span, true in zip(spans(on), spans(planted), strict=True):
            assert_allclose(span, true, atol=1.0 + 0.06 * fps)  # at borders feet hardly move


@pytest.mark.parametrize("slower", [3.0, 6.0, 12.0])
def test_feet_in_the_air_are_in_no_contact_where_a_motion_is_played_slowly(slower: float) -> None:
    times = np.arange(0.0, 3.9, 1 / 60)
    tracks, truth = both(times)
    for on, planted in zip(find_contacts(tracks, slower * times, LEG), truth, strict=True):
        toes, steps = spans(on[:, 1]), spans(planted[:, 1])
        assert len(toes) == len(steps)
        for span, true in zip(toes, steps, strict=True):
            assert_allclose(span, true, atol=1.0 + 0.06 * 60)


def test_feet_that_slide_in_slow_steps_are_in_contact_all_the_same() -> None:
    times = np.arange(0.0, 16.0, 1 / 30)
    tracks, truth = both(times / 4.0)
    sliding = [moved(track, times[:, None] * [0.0, 0.2 * LEG, 0.0]) for track in tracks]
    for on, planted in zip(find_contacts(sliding, times, LEG), truth, strict=True):
        assert len(spans(on[:, 1])) == len(spans(planted[:, 1]))


@pytest.mark.parametrize("throughout", [True, False])
def test_a_foot_that_is_held_in_the_air_does_not_make_another_one_leave_the_floor(throughout: bool) -> None:
    times = np.arange(0.0, 8.0, 1 / 30)
    turns = np.broadcast_to(np.eye(3), (len(times), 3, 3))
    swaying = 0.02 * np.sin(9.0 * times)[:, None] * [1.0, 0.0, 0.0]
    part = np.clip(np.minimum(times - 1.0, 7.0 - times) / 0.3, throughout, 1.0)
    raised = swaying + (part**2 * (3.0 - 2.0 * part))[:, None] * [0.0, 0.0, 0.4]
    tracks = [Track("foot", places, turns, np.zeros((1, 3))) for places in (swaying, raised)]
    stands, lifts = find_contacts(tracks, times, LEG)
    assert stands.all()
    assert len(spans(lifts[:, 0])) == (0 if throughout else 2)


def test_feet_that_slide_and_shake_are_in_contact_all_the_same(rng: np.random.Generator) -> None:
    times = np.arange(0.0, 3.9, 1 / 60)
    tracks, truth = both(times)
    slide = times[:, None] * [0.1, 0.05, 0.02]  # the floor seems to rise, too
    rough = [moved(track, slide + rng.normal(scale=0.003, size=(len(times), 3))) for track in tracks]
    found = np.stack(find_contacts(rough, times, LEG))
    assert (found != truth).mean() < 0.08
    assert [len(spans(on)) for on in found[..., 0]] == [len(spans(on)) for on in truth[..., 0]]


def test_a_foot_in_the_air_and_hanging_hands_are_in_no_contact() -> None:
    times = np.arange(0.0, 3.0, 1 / 30)

    def at(*place: float) -> Array:
        return np.tile(place, (len(times), 1))

    turns = np.broadcast_to(np.eye(3), (len(times), 3, 3))
    points = np.stack([np.zeros(3), TOE])
    tracks = [
        Track("standing", at(0.1, 0.0, 0.09), turns, points),
        Track("raised", at(-0.1, 0.0, 0.5), turns, points),
        Track("hanging", at(0.3, 0.0, 0.8), turns, points[:1], HAND),
        Track("on the floor", at(0.3, 0.0, 0.08), turns, points[:1], HAND),
        Track("on a thing", at(0.3, 0.0, 0.8), turns, points[:1], HAND, on_floor=False),
    ]
    assert [on.all() for on in find_contacts(tracks, times, LEG)] == [True, False, False, True, True]
    assert [on.any() for on in find_contacts(tracks, times, LEG)] == [True, False, False, True, True]


def test_a_contact_begins_below_one_speed_and_lasts_up_to_another() -> None:
    times = np.arange(0.0, 3.0, 1 / 60)
    turns = np.broadcast_to(np.eye(3), (len(times), 3, 3))
    options = ContactOptions()
    between = LEG * (1.3 * options.slow * times + 0.025 * np.sin(6.0 * times))
    steady = LEG * 0.5 * (options.slow + options.fast) * times
    for way, is_planted in ((between, True), (steady, False)):
        track = Track("foot", way[:, None] * [1.0, 0.0, 0.0], turns, np.zeros((1, 3)))
        (on,) = find_contacts([track], times, LEG)
        assert spans(on[:, 0]) == ([(0, len(times))] if is_planted else [])


@pytest.mark.parametrize("duration", [0.3, 0.6, 1.2])
def test_a_heel_that_rises_slowly_is_in_contact_no_more_while_its_toes_are(duration: float) -> None:
    times = np.arange(0.0, 4.0, 1 / 30)
    part = np.clip((times - 2.0) / duration, 0.0, 1.0)
    angles = 0.35 * part**2 * (3.0 - 2.0 * part)
    turns = matrix_from_rotvec(angles[:, None] * [0.0, 1.0, 0.0])
    track = Track("foot", TOE - turns @ TOE, turns, np.stack([np.zeros(3), TOE]))
    heights = track.planted[:, 0, 2]
    heights -= heights[0]
    assert np.abs(heights).max() > 0.04 * LEG
    turns = np.broadcast_to(np.eye(3), turns.shape)
    other = Track("other", np.zeros((len(times), 3)), turns, track.points)
    on, stays = find_contacts([track, other], times, LEG)
    assert stays.all()
    assert on[:, 1].all()
    begin, end = spans(on[:, 0])[0]
    assert begin == 0
    assert times[end] > 2.0
    assert np.abs(heights[:end]).max() < 0.03 * LEG
    assert np.abs(locked(track, on, times).planted[:end, 0] - track.planted[:end, 0]).max() < 0.025 * LEG


def test_height_is_along_the_way_up() -> None:
    times = np.arange(0.0, 2.0, 1 / 30)
    tracks, _ = both(times)
    usual = find_contacts(tracks, times, LEG)
    to_y = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
    turned = [replace(t, places=t.places @ to_y.T, turns=to_y @ t.turns) for t in tracks]
    for a, b in zip(usual, find_contacts(turned, times, LEG, up=[0.0, 2.0, 0.0]), strict=True):
        assert_array_equal(a, b)


# What holds


@pytest.fixture
def sliding() -> tuple[Track, Any, Array]:
    """A foot that slides, with its contacts and times."""
    times = np.arange(0.0, 4.0, 1 / 60)
    track, planted = walk(times, 0.3)
    wobble = matrix_from_rotvec(0.02 * np.sin(7.0 * times)[:, None] * [1.0, 0.0, 0.5])
    return (
        replace(moved(track, times[:, None] * [0.1, 0.03, 0.01]), turns=wobble @ track.turns),
        planted,
        times,
    )


def test_what_is_planted_does_not_move(sliding: tuple[Track, Any, Array]) -> None:
    track, on, times = sliding
    held = locked(track, on, times)
    for point in range(2):
        for start, stop in spans(on[:, point]):
            assert np.ptp(held.planted[start:stop, point], axis=0).max() < 1e-12
            assert np.ptp(track.planted[start:stop, point], axis=0).max() > 0.01
    for start, stop in spans(on.all(axis=1)):
        assert_allclose(
            held.turns[start:stop], held.turns[start : start + 1].repeat(stop - start, 0), atol=1e-12
        )
    rolling = on[:, 1] & ~on[:, 0]
    assert rotation_angle(held.turns[rolling]).max() > 0.5  # the heel rises as recorded


def test_a_contact_is_moved_as_little_as_can_be(sliding: tuple[Track, Any, Array]) -> None:
    track, on, times = sliding
    held = locked(track, on, times)
    for start, stop in spans(on.any(axis=1)):
        assert_allclose((held.places - track.places)[start:stop].mean(axis=0), 0.0, atol=1e-12)


def test_locking_twice_changes_nothing(sliding: tuple[Track, Any, Array]) -> None:
    track, on, times = sliding
    once = locked(track, on, times)
    again = locked(once, on, times)
    assert_allclose(again.places, once.places, atol=1e-12)
    assert_allclose(again.turns, once.turns, atol=1e-12)


@pytest.mark.parametrize("ease", [0.0, 0.1, 0.3])
def test_outside_the_time_to_ease_all_is_as_recorded(sliding: tuple[Track, Any, Array], ease: float) -> None:
    track, on, times = sliding
    on = on & (times < 2.0)[:, None]
    held = locked(track, on, times, ease=ease)
    near = np.abs(times[:, None] - times[on.any(axis=1)]).min(axis=1) < ease
    away = ~near & ~on.any(axis=1)
    assert_array_equal(held.places[away], track.places[away])
    assert_array_equal(held.turns[away], track.turns[away])
    if ease:  # the speed of what was planted grows from 0 on, by no jump
        jumps = np.linalg.norm(np.diff(held.places - track.places, n=2, axis=0), axis=1)
        assert jumps.max() < 60**-2 * 6.0 * 0.1 / ease**2 + 2e-3


def test_a_contact_goes_over_from_one_point_to_another() -> None:
    times = np.arange(0.0, 1.0, 1 / 30)
    turns = matrix_from_rotvec((times - 0.5)[:, None] * [0.0, 1.0, 0.0])
    track = Track("foot", np.zeros((len(times), 3)), turns, np.stack([np.zeros(3), TOE]))
    on = np.stack([times < 0.5, times >= 0.5], axis=1)  # no frame in which both are planted
    held = locked(track, on, times)
    assert np.ptp(held.planted[times >= 0.5, 1], axis=0).max() < 1e-12
    steps = np.linalg.norm(np.diff(held.places, axis=0), axis=1)
    assert steps.max() < 1.1 * np.linalg.norm(TOE) / 30


# Figures


def test_feet_and_hands_of_a_figure_have_tracks_by_role() -> None:
    skeleton = humanoid()
    character = recognise(skeleton)
    pose = Pose.rest(skeleton, 10)
    tracks = limb_tracks(skeleton, pose, character)
    assert {track.name for track in tracks} == {"hand.L", "hand.R", "foot.L", "foot.R"}
    matrices = forward_kinematics(skeleton, pose).matrices
    for track in tracks:
        toes = [skeleton.index("toe" + track.name[-2:])] if "foot" in track.name else []
        joints = [skeleton.index(track.name), *toes]
        assert_allclose(track.planted, matrices[:, joints][..., :3, 3], atol=1e-12)
    length = leg_length(skeleton, character)
    assert 0.85 < length < 0.9
    found = find_contacts(tracks, np.arange(10) / 10, length)
    assert [on.all() for on in found] == ["foot" in track.name for track in tracks]


def test_wrong_input_is_refused_with_what_is_wrong() -> None:
    times = np.arange(0.0, 1.0, 0.1)
    track, on = walk(times, 0.0)
    places = np.array(track.places)
    places[3, 1] = np.nan
    with pytest.raises(IKError, match=r"foot: Track.places is not finite at frame 3"):
        replace(track, places=places)
    with pytest.raises(IKError, match="must be finite and rise"):
        find_contacts([track], times[::-1], LEG)
    with pytest.raises(IKError, match="foot has 10 frames, and there are 9 times"):
        locked(track, on, times[:-1])
    with pytest.raises(IKError, match=r"contacts have shape \(9, 2\); frames and points are \(10, 2\)"):
        locked(track, on[:-1], times)
    with pytest.raises(IKError, match=r"foot: Track.points is empty"):
        replace(track, points=np.zeros((0, 3)))
    with pytest.raises(IKError, match=r"up must be a direction"):
        find_contacts([track], times, LEG, up=[0.0, 0.0, 0.0])
    with pytest.raises(IKError, match=r"fast must not be below slow, 0\.3"):
        ContactOptions(fast=0.2)
    skeleton = humanoid()
    with pytest.raises(IKError, match=r"tracks are of the frames of a motion"):
        limb_tracks(skeleton, Pose.rest(skeleton), recognise(skeleton))
    one = replace(track, places=track.places[:1], turns=track.turns[:1])
    assert [on.all() for on in find_contacts([one], [0.0], LEG)] == [True]
    assert locked(one, on[:1], [0.0]).places.shape == (1, 3)

# SPDX-License-Identifier: GPL-3.0-or-later
"""A body that follows a mouse: firm tasks hold strictly, loose ones as long as they can."""

# pyright: reportPrivateUsage=false

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blender_ik_addon.core import (
    IKError,
    MatchOrientation,
    Pose,
    ReachCarried,
    ReachPoint,
    SolverOptions,
    Task,
    forward_kinematics,
)
from blender_ik_addon.core.yielding import (
    LEVEL_RATIOS,
    LOOSE_STRENGTH,
    Followed,
    Follower,
    _strengths,
)

from . import builders

SKELETON = builders.humanoid()
"""Hips free to move, arms out."""

OUTWARD = np.array([1.0, 0.0, 0.0])
"""Where the left arm points."""

OPTIONS = SolverOptions(tolerance_position=1e-4, tolerance_rotation=1e-3)


def hold(follower: Follower, joint: str, priority: int) -> ReachPoint:
    """Hold a joint where it is."""
    place = forward_kinematics(SKELETON, follower.pose).point(joint)
    return ReachPoint(joint=joint, target=place, priority=priority, name=joint)


def feet_and_hand() -> tuple[Follower, list[Task], list[Task], ReachPoint]:
    """A follower, its firm feet, its loose hips and right hand, and the left hand that is dragged."""
    follower = Follower(SKELETON, Pose.rest(SKELETON), OPTIONS)
    feet: list[Task] = [hold(follower, joint, 0) for joint in ("foot.L", "foot.R")]
    loose: list[Task] = [hold(follower, joint, 2) for joint in ("hips", "hand.R")]
    return follower, feet, loose, hold(follower, "hand.L", 1)


def errors(followed: Followed) -> dict[str, float]:
    return {error.name: error.error for error in (*followed.firm, *followed.loose)}


def test_in_reach_all_hold():
    follower, feet, loose, hand = feet_and_hand()
    for step in range(1, 6):
        goal = hand.moved(hand.target + step * np.array([-0.04, -0.05, 0.03]))
        found = follower.follow([goal, *feet], loose)
        assert not found.yielding
        assert max(errors(found).values()) < 1e-4


def test_out_of_reach_loose_tasks_give_way_and_firm_ones_do_not():
    follower, feet, loose, hand = feet_and_hand()
    far = hand.moved(hand.target + 0.35 * OUTWARD)
    for _ in range(4):
        found = follower.follow([far, *feet], loose)
    found_errors = errors(found)
    assert found.yielding
    assert max(found_errors[name] for name in ("foot.L", "foot.R", "hand.L")) < 1e-4
    assert found_errors["hand.R"] > 1e-3
    # No more than needed: with the hips at their places the whole way would be missing.
    assert found_errors["hips"] < 0.35


def test_on_the_way_back_all_hold_again():
    follower, feet, loose, hand = feet_and_hand()
    for share in (1.0, 0.6, 0.3, 0.0, 0.0, 0.0):
        goal = hand.moved(hand.target + 0.35 * share * OUTWARD)
        found = follower.follow([goal, *feet], loose)
    assert not found.yielding
    assert max(errors(found).values()) < 1e-4
    # And the way there and back is not to be seen.
    np.testing.assert_allclose(found.pose.channels, Pose.rest(SKELETON).channels, atol=1e-3)


def test_a_pose_does_not_jump_where_loose_tasks_begin_to_give_way():
    follower, feet, loose, hand = feet_and_hand()
    regimes, steps = [], []
    before = follower.pose.channels
    for share in np.linspace(0.0, 0.3, 31):
        found = follower.follow([hand.moved(hand.target + share * OUTWARD), *feet], loose)
        regimes.append(found.yielding)
        steps.append(float(np.abs(found.pose.channels - before).max()))
        before = found.pose.channels
    assert not regimes[0]
    assert regimes[-1]
    assert max(steps) < 0.3  # for a centimetre of the mouse, through limbs that become straight


def test_what_is_free_stays_near_the_first_pose():
    channels = np.array(Pose.rest(SKELETON).channels)
    spine = next(joint for joint in range(len(SKELETON)) if SKELETON.names[joint].startswith("spine"))
    channels[spine, 3:] = (0.1, 0.2, 0.4)
    follower = Follower(SKELETON, Pose.from_channels(channels), OPTIONS)
    hand = hold(follower, "hand.L", 0)
    found = follower.follow(
        [hand.moved(hand.target + np.array([0.0, -0.1, 0.05]))], [hold(follower, "hips", 1)]
    )
    np.testing.assert_allclose(found.pose.channels[spine], channels[spine], atol=0.05)


def test_the_same_targets_again_change_nothing():
    follower, feet, loose, hand = feet_and_hand()
    goal = hand.moved(hand.target + np.array([-0.1, -0.1, 0.1]))
    first = follower.follow([goal, *feet], loose)
    again = follower.follow([goal, *feet], loose)
    assert again.settled
    np.testing.assert_allclose(again.pose.channels, first.pose.channels, atol=1e-6)


def test_a_pose_of_another_skeleton_is_refused():
    with pytest.raises(IKError, match="the pose has shape"):
        Follower(SKELETON, Pose.rest(builders.chain(3)), OPTIONS)


def swing(steps: int) -> list[float]:
    """Shares of a way there and back, in even swings."""
    there = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, steps + 1))
    return [float(share) for share in (*there[1:], *there[-2::-1])]


@settings(max_examples=6, deadline=None)
@given(
    st.sampled_from([("hand.L", 1), ("hips", 0), ("head", 1)]),
    st.sampled_from([None, 1.2]),
    st.tuples(*[st.floats(-1.0, 1.0)] * 3),
)
def test_the_way_back_is_the_way_there(
    dragged: tuple[str, int], limit: float | None, way: tuple[float, float, float]
):
    # Up to 0.45 m, which is out of reach for some.
    skeleton = builders.humanoid(limit=limit)
    joint, level = dragged
    follower = Follower(skeleton, Pose.rest(skeleton), OPTIONS)
    feet: list[Task] = [hold(follower, name, 0) for name in ("foot.L", "foot.R")]
    loose: list[Task] = [hold(follower, name, 2) for name in ("hips", "hand.R") if name != joint]
    goal = hold(follower, joint, level)
    light = ReachPoint(joint=joint, target=goal.target, priority=level, weight=0.45, name=joint)
    steps, poses = 12, []
    offset = 0.45 * np.array(way) / max(1.0, float(np.linalg.norm(way)))
    for share in swing(steps):
        tasks = [light.moved(goal.target + share * offset), *feet]
        found = follower.follow(tasks, loose)
        for _ in range(20):
            if not found.settled:
                found = follower.follow(tasks, loose)
        poses.append(found.pose.channels)
    np.testing.assert_allclose(poses[: steps - 1], poses[-2 : steps - 1 : -1], atol=np.radians(1.0))


def test_a_movement_turns_no_angle_further_than_it_may_and_the_rest_comes_after():
    most = 0.15
    follower, feet, loose, hand = feet_and_hand()
    goal = hand.moved(hand.target + np.array([-0.5, -0.6, 0.5]))
    at_once, _, _, _ = feet_and_hand()
    wanted = at_once.follow([goal, *feet], loose, most_iterations=200)
    assert np.abs(wanted.pose.channels[:, 3:]).max() > 4.0 * most
    before, counts = follower.pose.channels, 0
    found = follower.follow([goal, *feet], loose, most_turn=most)
    assert not found.settled
    while not found.settled:
        assert np.abs(found.pose.channels - before)[:, 3:].max() <= most + 1e-12
        assert max(errors(found)[foot] for foot in ("foot.L", "foot.R")) < 1e-4  # also on the way
        before, counts = found.pose.channels, counts + 1
        assert counts < 30
        found = follower.follow([goal, *feet], loose, most_turn=most)
    np.testing.assert_allclose(found.pose.channels, wanted.pose.channels, atol=1e-3)


def test_what_stops_at_the_bound_of_a_movement_is_no_limit():
    skeleton = builders.humanoid(limit=0.2)
    free = np.array(skeleton.free)
    free[0] = False  # or the body would go where its arm cannot
    skeleton = replace(skeleton, free=free)
    follower = Follower(skeleton, Pose.rest(skeleton), OPTIONS)
    far = hold(follower, "hand.L", 0)
    found = follower.follow([far.moved(far.target + np.array([0.0, -0.6, 0.9]))], most_turn=0.05)
    why = found.firm[0].why
    assert why is not None
    assert not why.limits
    assert not found.settled


def test_movements_in_reach_are_settled_by_one_update_each():
    follower, feet, loose, hand = feet_and_hand()
    for share in swing(20):
        goal = hand.moved(hand.target + share * np.array([-0.2, -0.3, 0.2]))
        assert follower.follow([goal, *feet], loose).settled


def test_what_was_prepared_serves_other_targets_and_nothing_else():
    follower, feet, loose, hand = feet_and_hand()
    follower.follow([hand, *feet], loose)
    prepared = follower._known
    near = hand.moved(hand.target + np.array([-0.05, 0.0, 0.02]))
    found = follower.follow([near, *feet], loose)
    assert follower._known is prepared
    fresh = feet_and_hand()[0].follow([near, *feet], loose)
    np.testing.assert_allclose(found.pose.channels, fresh.pose.channels, atol=1e-6)
    follower.follow([near, *feet], loose[:1])
    assert follower._known is not prepared
    prepared = follower._known
    tip = ReachPoint(joint="hand.L", target=near.target, point=np.array([0.0, 0.1, 0.0]), priority=1)
    follower.follow([tip, *feet], loose[:1])
    assert follower._known is not prepared


def test_a_carried_place_goes_along_in_the_same_movement():
    follower = Follower(SKELETON, Pose.rest(SKELETON), OPTIONS)
    feet: list[Task] = [hold(follower, name, 0) for name in ("foot.L", "foot.R")]
    hips, head = hold(follower, "hips", 0), hold(follower, "head", 2)
    carried = ReachCarried(
        joint="head", target=head.target, priority=2, carrier="hips", carrier_from=hips.target, name="head"
    )
    way = np.array([0.05, -0.08, -0.12])
    found = follower.follow([hips.moved(hips.target + way), carried, *feet], most_iterations=60)
    assert found.settled
    assert max(errors(found).values()) < 1e-4
    place = forward_kinematics(SKELETON, found.pose).point("head")
    np.testing.assert_allclose(place, head.target + way, atol=2e-4)


def test_nothing_carries_its_own_place():
    follower = Follower(SKELETON, Pose.rest(SKELETON), OPTIONS)
    own = ReachCarried(joint="head", target=np.zeros(3), carrier="head", carrier_from=np.zeros(3))
    with pytest.raises(IKError, match="cannot carry"):
        follower.follow([own])


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=8), st.integers(0, 4))
def test_half_of_a_task_outdoes_all_places_below_its_level(wanted: list[tuple[int, bool]], loose_count: int):
    firm: list[Task] = [
        MatchOrientation(joint="head", target=np.eye(3), priority=level)
        if angular
        else ReachPoint(joint="head", target=np.zeros(3), priority=level)
        for level, angular in wanted
    ]
    loose: list[Task] = [ReachPoint(joint="hips", target=np.zeros(3)) for _ in range(loose_count)]
    strengths = _strengths(firm, loose)
    loosely = strengths[len(firm) :]
    for task, strength in zip(firm, strengths, strict=False):
        lower = [
            (other, own)
            for other, own in zip(firm, strengths, strict=False)
            if other.priority > task.priority
        ]
        places = [own for other, own in lower if not other.angular]
        strongest = max([own for _, own in lower], default=LOOSE_STRENGTH)
        capped = strength == pytest.approx(LEVEL_RATIOS[1] * strongest)
        assert capped or 0.5 * strength > sum(places) + sum(loosely)
        assert strength >= LEVEL_RATIOS[0] * strongest

# SPDX-License-Identifier: GPL-3.0-or-later
"""A body that follows a mouse: firm tasks hold strictly, loose ones as long as they can."""

import numpy as np
import pytest

from blender_ik_addon.core import IKError, Pose, ReachPoint, SolverOptions, Task, forward_kinematics
from blender_ik_addon.core.yielding import Followed, Follower

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

# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of a pose: what tasks can do in it, what they have lost."""

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose

from blender_ik_addon.core import (
    AimAt,
    MatchOrientation,
    OneOf,
    OnPlane,
    Pose,
    Problem,
    ReachPoint,
    StayNear,
    Task,
)
from blender_ik_addon.core.explain.diagnosis import diagnose
from tests.core.builders import chain, humanoid, planar, planar_pose, tip

ARM = planar(3)
REACH = ReachPoint(joint="joint.2", point=tip(), target=np.zeros(3), axes=(True, True, False))


def test_a_straight_arm_is_said_to_be_straight() -> None:
    found = diagnose(Problem(ARM, (REACH,)), planar_pose(0.0, 0.0, 0.0))
    (level,) = found.levels
    assert (level.rows, level.rank, level.left) == (2, 1, 1)
    assert np.isinf(level.condition) and level.manipulability < 1e-12
    (lost,) = level.lost
    assert_allclose(lost.direction, [0.0, 1.0, 0.0], atol=1e-12)
    assert lost.joint == "joint.0" and lost.rate < 1e-9
    assert found.lines == (
        "3 free channels, 2 dimensions left free",
        "Level 0: rank 1 of 2; singular",
        "position of joint.2 cannot be moved along (0.00, 1.00, 0.00), its limb is straight from joint.0",
    )


def test_an_arm_that_is_nearly_straight_is_nearly_lost_and_a_bent_one_is_not() -> None:
    (lost,) = diagnose(Problem(ARM, (REACH,)), planar_pose(0.1, 0.01, 0.0)).levels[0].lost
    assert 1e-4 < lost.rate < 0.03 and "can hardly be moved along" in lost.text
    (level,) = diagnose(Problem(ARM, (REACH,)), planar_pose(0.1, 0.9, 0.7)).levels
    assert not level.lost and level.rank == 2
    along = np.cumsum([0.1, 0.9, 0.7])
    links = np.stack([-np.cos(along), -np.sin(along)])  # each turns all from it to the tip
    jacobian = np.cumsum(links[:, ::-1], axis=1)[:, ::-1] / ARM.reach
    values = np.linalg.svd(jacobian, compute_uv=False)
    assert_allclose(level.singular_values, values)
    assert_allclose(level.condition, values[0] / values[1])
    assert_allclose(level.manipulability, values.prod())


def test_what_levels_above_leave_and_what_hangs_together() -> None:
    elbow = ReachPoint(joint="joint.1", point=tip(), target=np.zeros(3), axes=(True, True, False))
    below = diagnose(Problem(ARM, (REACH, elbow)), planar_pose(0.3, 0.5, 0.7)).levels[0]
    assert (below.rank, below.rows) == (3, 4) and not below.lost
    assert below.together == (("position of joint.2", "position of joint.1"),)
    first, second = diagnose(
        Problem(ARM, (REACH, replace(elbow, priority=1))), planar_pose(0.3, 0.5, 0.7)
    ).levels
    assert (first.left, second.rank, second.left) == (2, 2, 1)
    assert second.lines[0] == "Level 1: rank 2 of 2, 1 left by the levels above; singular"


def test_what_only_says_what_is_preferred_is_below_the_levels_and_named_so() -> None:
    elbow = ReachPoint(joint="joint.1", point=tip(), target=np.zeros(3), axes=(True, True, False))
    follows = replace(elbow, priority=10**6, softness=0.1, preference=True)
    levels = diagnose(Problem(ARM, (REACH, follows)), planar_pose(0.3, 0.5, 0.7)).levels
    assert [level.preferred for level in levels] == [False, True]
    assert levels[1].lines[0] == "What follows: rank 2 of 2, 1 left by the levels above; singular"


def test_what_each_effector_has_lost_by_itself_is_no_matter_of_both() -> None:
    elbow = ReachPoint(joint="joint.1", point=tip(), target=np.zeros(3), axes=(True, True, False))
    # Straight in any direction: numerically what is lost to one and to the other is then mixed somewhere.
    for angle in np.linspace(0.1, 3.0, 12):
        (level,) = diagnose(Problem(ARM, (REACH, elbow)), planar_pose(float(angle), 0.0, 0.0)).levels
        assert {lost.task for lost in level.lost} == {"position of joint.2", "position of joint.1"}
        assert level.together == ()
    turned = MatchOrientation(joint="joint.2", target=np.eye(3), axes=(False, False, True), name="hand")
    both = ReachPoint(joint="joint.2", target=np.zeros(3), axes=(True, True, False), name="hand")
    one = planar(2)
    (level,) = diagnose(
        Problem(one, (replace(turned, joint="joint.1"), replace(both, joint="joint.1", point=tip()))),
        planar_pose(0.3, 0.9),
    ).levels
    assert level.lines[1:] == ("place and orientation of hand can hardly be moved independently",)


def test_straight_legs_are_told_one_by_one_and_bent_ones_are_not() -> None:
    skeleton = humanoid()
    pose = Pose.rest(skeleton)
    tasks: list[Task] = [MatchOrientation(joint="hips", target=np.eye(3), name="hips")]
    tasks += [ReachPoint(joint=j, target=np.zeros(3), name=j) for j in ("hips", "foot.L", "foot.R")]

    def told(bend: float) -> tuple[str, ...]:
        channels = pose.channels.copy()
        for side in "LR":
            channels[skeleton.index(f"thigh.{side}"), 3] = -0.5 * bend
            channels[skeleton.index(f"shin.{side}"), 3] = bend
        return diagnose(Problem(skeleton, tuple(tasks)), Pose.from_channels(channels)).levels[0].lines[1:]

    straight = "can hardly be moved further apart, what is between them is straight"
    assert told(0.0) == (f"hips and foot.L {straight}", f"hips and foot.R {straight}")
    assert told(0.8) == ()


def test_every_kind_of_task_is_diagnosed() -> None:
    skeleton = humanoid()
    tasks = (
        MatchOrientation(joint="hips", target=np.eye(3)),
        AimAt(joint="head", target=np.array([0.0, -3.0, 1.6]), axis=np.array([0.0, -1.0, 0.0]), priority=1),
        OnPlane(
            joint="foot.L",
            origin=np.zeros(3),
            normal=np.array([0.0, 0.0, 1.0]),
            offset=0.08,
            side="ABOVE",
            priority=2,
        ),
        OnPlane(
            joint="hand.L", origin=np.zeros(3), normal=np.array([0.0, 0.0, 1.0]), side="ABOVE", priority=2
        ),
        OneOf(
            alternatives=(
                ReachPoint(joint="hand.R", target=np.array([9.0, 0.0, 0.0])),
                OnPlane(joint="hand.R", origin=np.array([0.0, 0.1, 0.0]), normal=np.array([0.0, 1.0, 0.0])),
            ),
            priority=3,
        ),
        StayNear(channels=Pose.rest(skeleton).channels),
    )
    found = diagnose(Problem(skeleton, tasks), Pose.rest(skeleton))
    # The hand is far above its plane, which asks nothing of it.
    assert [(level.rows, level.rank) for level in found.levels] == [(3, 3), (2, 2), (1, 1), (1, 1)]
    assert found.freedom == found.channels - 7
    for lines in found.lines:
        assert "slack" not in lines
    still = chain(2, free=False)
    nothing = diagnose(Problem(still, (ReachPoint(joint=1, target=np.zeros(3)),)), Pose.rest(still))
    assert (nothing.channels, nothing.levels[0].rank) == (0, 0)
    assert diagnose(Problem(still, ()), Pose.rest(still)).lines == (
        "Nothing to diagnose: there are no tasks",
    )


def test_a_joint_without_size_that_should_aim_is_left_out() -> None:
    flat = Pose(Pose.rest(ARM).channels, np.ones((len(ARM), 3)) * (np.arange(len(ARM)) < 2)[:, None])
    found = diagnose(Problem(ARM, (AimAt(joint=2, target=np.array([0.0, 0.0, 5.0])),)), flat)
    assert found.lines and found.levels == ()

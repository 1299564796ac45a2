# SPDX-License-Identifier: GPL-3.0-or-later
"""What programmers meet first: tasks, poses, skeletons and results as they are written, read and printed."""

from __future__ import annotations

import copy
from typing import Any, get_type_hints

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from blender_ik_addon.core import (
    AimAt,
    Balance,
    IKError,
    KeepDistance,
    MatchOrientation,
    OneOf,
    OnPlane,
    Pose,
    Problem,
    ReachFrame,
    ReachPoint,
    Skeleton,
    SolverOptions,
    Status,
    StayNear,
    Task,
    Tracker,
    forward_kinematics,
    solve,
    solve_each,
    solve_sequence,
)
from blender_ik_addon.core.model.rotation import matrix_from_quat, quat_from_matrix
from blender_ik_addon.core.problem.options import Overrides
from tests.core.builders import Array, random_rotations

NAMES = ["hips", "upper", "fore", "hand"]
OFFSETS = [[0, 0, 1.0], [0, 0, 0.2], [0.3, 0, 0], [0.3, 0, 0]]
ARM = Skeleton.build(NAMES, [None, *NAMES[:3]], offsets=OFFSETS)
REST = Pose.rest(ARM)
NEAR = [0.35, 0.2, 1.3]
FAR = [5.0, 0.0, 1.0]


def matrix(rotation: Any = None, place: Any = (0.0, 0.0, 0.0)) -> Array:
    found = np.eye(4)
    found[:3, :3], found[:3, 3] = np.eye(3) if rotation is None else rotation, place
    return found


def frame_of(pose: Pose, joint: str) -> Array:
    return forward_kinematics(ARM, pose).matrices[ARM.index(joint)]


# Targets


@pytest.mark.parametrize("number", [None, 5])
def test_an_orientation_is_given_by_matrices_or_quaternions(
    number: int | None, rng: np.random.Generator
) -> None:
    turns = random_rotations(rng, number or 1)
    turns = turns[0] if number is None else turns
    whole = np.zeros((*turns.shape[:-2], 4, 4))
    whole[..., :3, :3], whole[..., 3, 3], whole[..., :3, 3] = turns, 1.0, 7.0
    for given in (turns, turns.tolist(), whole, quat_from_matrix(turns)):
        task = MatchOrientation("hand", given)
        assert_allclose(task.target, turns, atol=1e-12)
        assert task.frames == number


def test_four_quaternions_are_no_matrix(rng: np.random.Generator) -> None:
    quats = quat_from_matrix(random_rotations(rng, 4))
    task = MatchOrientation("hand", quats)
    assert task.frames == 4
    assert_allclose(task.target, matrix_from_quat(quats))


def test_a_place_is_the_origin_of_a_matrix() -> None:
    frames = np.stack([matrix(place=[0.1 * f, 0, 1]) for f in range(3)])
    frames[1] = np.nan
    for kind in (ReachPoint, AimAt):
        assert_array_equal(kind("hand", matrix(place=NEAR)).target, NEAR)
        moving = kind("hand", frames)
        assert moving.frames == 3
        assert moving.given is not None
        assert_array_equal(moving.given, [True, False, True])
    assert_array_equal(OnPlane("hand", matrix(place=NEAR), [0, 0, 2]).normal, [0, 0, 1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ReachPoint("hand", np.zeros((4, 4))),
            r"position of hand: target has shape \(4, 4\), wanted",
        ),
        (lambda: ReachPoint("hand", None), "position of hand: target: .*None"),  # type: ignore[arg-type]
        (lambda: MatchOrientation("hand", [1, 1, 0, 0]), "orientation of hand: target is not a rot"),
        (lambda: MatchOrientation("hand", matrix(2 * np.eye(3))), "orientation of hand: target is not a rot"),
        (lambda: ReachFrame("hand", matrix(2 * np.eye(3))), "frame of hand: target is not a rotation matrix"),
        (lambda: ReachFrame("hand", np.eye(4)[::-1]), "frame of hand: target"),
        (lambda: ReachFrame("hand", np.eye(3)), r"frame of hand: target has shape \(3, 3\), wanted \(4, 4\)"),
        (lambda: OneOf((ReachPoint("hand", NEAR), ReachFrame("hand", np.eye(4)))), "ReachFrame cannot be an"),
        (lambda: ReachPoint("hand", NEAR).moved(np.zeros((3, 3))), "target has 3 frames, wanted one"),
        (
            lambda: KeepDistance("hand", 1.0, other="hips", target=np.zeros((2, 3))),
            "distance of hand to hips",
        ),
    ],
)
def test_targets_that_fit_no_task_are_refused(make: Any, message: str) -> None:
    with pytest.raises(IKError, match=message):
        make()


# Place and orientation as one task


def test_a_frame_is_a_place_and_an_orientation() -> None:
    turned = solve(Problem(ARM, ReachPoint("hand", NEAR)), REST).pose
    target = frame_of(turned, "hand")
    solution = solve(Problem(ARM, ReachFrame("hand", target)), REST)
    assert solution.reached and solution.message == "all 2 targets reached"
    assert_allclose(frame_of(solution.pose, "hand"), target, atol=1e-3)
    assert [(error.name, error.angular) for error in solution.errors] == [
        ("position of hand", False),
        ("orientation of hand", True),
    ]
    named = solve(Problem(ARM, ReachFrame("hand", target, name="left", weight=0.0)), REST)
    assert named.errors == () and named.pose == REST


def test_a_frame_is_given_by_a_matrix_or_a_place_and_a_quaternion(rng: np.random.Generator) -> None:
    turns, places = random_rotations(rng, 7), rng.normal(size=(7, 3))
    rows = np.concatenate([places, quat_from_matrix(turns)], axis=1)
    frames = np.stack([matrix(*each) for each in zip(turns, places, strict=True)])
    assert_allclose(ReachFrame("hand", rows).target, frames, atol=1e-12)
    assert_allclose(ReachFrame("hand", rows[2]).target, frames[2], atol=1e-12)
    with pytest.raises(IKError, match="frame of hand: target is not a rotation matrix"):
        ReachFrame("hand", 2.0 * rows[2])


def test_a_frame_is_solved_as_its_two_parts(rng: np.random.Generator) -> None:
    target = matrix(random_rotations(rng, 1)[0], NEAR)
    point = [0.1, 0.0, 0.0]
    parts = (
        ReachPoint("hand", NEAR, point=point, weight=2.0, priority=1),
        MatchOrientation("hand", target, weight=2.0, priority=1),
    )
    one = solve(Problem(ARM, ReachFrame("hand", target, point=point, weight=2.0, priority=1)), REST)
    two = solve(Problem(ARM, parts), REST)
    assert one.pose == two.pose and one.errors == two.errors


def test_a_frame_may_move_and_be_missing() -> None:
    poses = Pose.rest(ARM, 6)
    way = np.stack([matrix(place=[0.3, 0.02 * frame, 1.3]) for frame in range(6)])
    way[2] = np.nan
    motion = solve_sequence(Problem(ARM, ReachFrame("hand", way)), poses)
    assert motion.errors.shape == (6, 2) and np.isnan(motion.errors[2]).all()
    assert np.isfinite(np.delete(motion.errors, 2, axis=0)).all()
    assert motion.frame(2).errors == ()


# Problems


def test_one_task_alone_is_a_problem() -> None:
    task = ReachPoint("hand", NEAR)
    for tasks in (task, [task], (task,), iter([task])):
        assert Problem(ARM, tasks).tasks == (task,)


def test_tasks_are_equal_when_all_that_they_say_is() -> None:
    task = ReachPoint("hand", NEAR)
    assert task == ReachPoint("hand", tuple(NEAR))
    assert task != ReachPoint("hand", FAR)
    assert task != ReachPoint("hand", NEAR, weight=2.0)
    assert task != AimAt("hand", NEAR)
    assert len({task, ReachPoint("hand", NEAR)}) == 1


def test_what_is_only_preferred_is_no_target() -> None:
    away = StayNear(np.full((4, 6), 0.5), priority=1)
    solution = solve(Problem(ARM, (ReachPoint("hand", NEAR), away)), REST)
    assert solution.reached and solution.status is Status.REACHED
    assert solution.message == "target reached"
    assert not solution.errors[1].reached and solution.errors[1].preference
    motion = solve_sequence(Problem(ARM, (ReachPoint("hand", NEAR), away)), Pose.rest(ARM, 3), smoothness=0.0)
    assert motion.reached and motion.frame(1).reached and motion.messages == ("target reached",) * 3
    missed = solve(Problem(ARM, (ReachPoint("hand", FAR), away)), REST, restarts=2)
    assert not missed.reached and missed.message.startswith("1 of 1 targets missed: position of hand")


def test_what_tasks_leave_free_goes_to_the_preferred_pose_or_stays_near_the_start() -> None:
    start = Pose.from_channels(np.full((4, 6), 0.3) * [0, 0, 0, 1, 1, 1])
    task = ReachPoint("hand", forward_kinematics(ARM, start).point("hand"))
    kept = solve(Problem(ARM, task), start, redundancy="start")
    assert_allclose(kept.pose.channels, start.channels, atol=1e-6)
    moved = solve(Problem(ARM, task), start, redundancy="preferred")
    assert np.abs(moved.pose.channels).sum() < 0.9 * np.abs(start.channels).sum()
    with pytest.raises(IKError, match="redundancy must be one of preferred, start, got 'rest'"):
        SolverOptions(redundancy="rest")  # type: ignore[arg-type]


def test_overrides_are_the_options() -> None:
    options = get_type_hints(SolverOptions)
    assert get_type_hints(Overrides) == {name: options[name] for name in SolverOptions.__dataclass_fields__}


# Skeletons


def test_channels_are_given_by_the_names_of_joints() -> None:
    skeleton = Skeleton.build(
        NAMES,
        [None, *NAMES[:3]],
        offsets=OFFSETS,
        free={"hips": True, "fore": [True, False, False]},
        lower={"fore": [0.0, -0.1, -0.2]},
        upper={"hips": [1, 1, 1, 2, 2, 2], "hand": 0.5},
    )
    assert skeleton.free[0].all() and not skeleton.free[1].any()
    assert_array_equal(skeleton.free[2], [False, False, False, True, False, False])
    assert_array_equal(skeleton.lower[2], [-np.inf, -np.inf, -np.inf, 0.0, -0.1, -0.2])
    assert np.isinf(skeleton.lower[[0, 1, 3]]).all()
    assert_array_equal(skeleton.upper[0], [1, 1, 1, 2, 2, 2])
    assert_array_equal(skeleton.upper[3], [0.5] * 6)


def test_limits_in_degrees_and_of_no_joint_are_refused() -> None:
    def build(**fields: Any) -> Skeleton:
        return Skeleton.build(["a"], [None], offsets=[[0, 0, 0]], **fields)

    with pytest.raises(IKError, match=r"lower of 'a' is -90, more than two turns: angles are radians"):
        build(lower=-90, upper=90)
    with pytest.raises(IKError, match="upper is given for 'elbow', which is not among the joints"):
        build(upper={"elbow": 1.0})
    with pytest.raises(IKError, match=r"upper of 'a' has shape \(2,\)"):
        build(upper={"a": [1.0, 2.0]})
    with pytest.raises(IKError, match="up must be X, Y, Z or a direction"):
        build(up="north")
    for up in ([0, 0, 0], 5):
        with pytest.raises(IKError, match="up"):
            build(up=up)


@pytest.mark.parametrize(("up", "turn"), [("Z", np.eye(3)), ("Y", np.eye(3)[[0, 2, 1]] * [[1], [1], [-1]])])
def test_balance_is_over_the_ground_wherever_up_is(up: str, turn: Array) -> None:
    offsets = np.array([[0, 0, 0.5], [0, 0, 0.5], [0.3, 0, 0.3]]) @ turn.T
    skeleton = Skeleton.build(["a", "b", "c"], [None, "a", "b"], offsets=offsets, up=up)
    over = np.array([0.1, 0.2, 9.0]) @ turn.T  # how high it is does not matter
    solution = solve(Problem(skeleton, Balance(np.ones(3), over)), Pose.rest(skeleton))
    assert solution.reached
    centre = forward_kinematics(skeleton, solution.pose).matrices[:, :3, 3].mean(axis=0) @ turn
    assert_allclose(centre[:2], [0.1, 0.2], atol=1e-3)


# Poses


def test_poses_are_indexed_counted_and_compared(rng: np.random.Generator) -> None:
    poses = Pose.from_channels(rng.normal(size=(5, 4, 6)))
    assert len(poses) == 5 and Pose.rest(ARM, 5) == Pose.rest(ARM, (5,))
    assert poses[2] == Pose(poses.channels[2], poses.scale[2])
    assert poses[1:4][1] == poses[2] and poses[-1] == poses[4]
    assert poses[[0, 3]].frames == (2,) and poses[np.array([True, False] * 2 + [True])].frames == (3,)
    assert [pose.frames for pose in poses] == [()] * 5
    assert poses[0][None].frames == (1,) and poses[0][None][0] == poses[0]
    with pytest.raises(IndexError):
        poses[5]
    for beyond in (lambda: poses[0][0], lambda: poses[0, 1], lambda: poses[0][0:2]):
        with pytest.raises(IndexError):
            beyond()
    with pytest.raises(IKError, match="one pose alone has no frames"):
        list(poses[0])
    for frames in (2.5, -1):
        with pytest.raises(IKError, match="number of frames must be a whole number from 0"):
            Pose.rest(ARM, frames)  # type: ignore[arg-type]


def test_what_is_no_problem_is_refused() -> None:
    task = ReachPoint("hand", NEAR)
    with pytest.raises(IKError, match=r"solve takes a Problem and a Pose, got ReachPoint\("):
        solve(task, REST)  # type: ignore[arg-type]
    with pytest.raises(IKError, match="a tracker takes a Problem and a Pose, got None"):
        Tracker(Problem(ARM, task), None)  # type: ignore[arg-type]
    with pytest.raises(IKError, match="a problem is about a Skeleton, got None"):
        Problem(None, task)  # type: ignore[arg-type]
    with pytest.raises(IKError, match="a int is no task"):
        Problem(ARM, 5)  # type: ignore[arg-type]


def test_a_pose_may_be_stayed_near_and_tasks_be_copied(rng: np.random.Generator) -> None:
    pose = Pose.from_channels(rng.normal(size=(4, 6)))
    assert StayNear(pose) == StayNear(pose.channels)
    for task in (ReachPoint("hand", NEAR), Balance(np.ones(4), NEAR), StayNear(pose)):
        other = copy.deepcopy(task)
        assert other == task and repr(other) == repr(task)


# What is printed


def test_what_is_printed_is_short() -> None:
    task = ReachPoint("hand", NEAR, priority=1)
    assert repr(task) == "ReachPoint(joint='hand', target=[0.35, 0.2, 1.3], priority=1)"
    assert (
        repr(ReachFrame("hand", np.eye(4)[None].repeat(9, 0)))
        == "ReachFrame(joint='hand', target=<(9, 4, 4)>)"
    )
    assert repr(ARM) == "Skeleton(4 joints: hips, upper, fore, hand)"
    assert repr(REST) == "Pose(4 joints)" and repr(REST[None]) == "Pose(1 frame, 4 joints)"
    assert repr(Problem(ARM, task)) == f"Problem({ARM!r}, [{task!r}])"
    assert repr(solve(Problem(ARM, task), REST)) == "Solution(REACHED: target reached)"
    motion = solve_each(Problem(ARM, ReachPoint("hand", [NEAR, FAR])), Pose.rest(ARM, 2))
    assert repr(motion) == "SequenceSolution(2 frames, 1 with missed targets)"
    large = Skeleton.build([f"j{i}" for i in range(200)], [None] * 200, offsets=np.zeros((200, 3)))
    assert len(repr(large)) < 80


# Frames of a motion


def test_a_frame_of_a_motion_is_a_solution_with_reasons() -> None:
    tasks: tuple[Task, ...] = (ReachPoint("hand", [NEAR, FAR, NEAR]), StayNear(REST.channels, priority=1))
    limited = Skeleton.build(NAMES, [None, *NAMES[:3]], offsets=OFFSETS, lower=-1.5, upper=1.5)
    motion = solve_each(Problem(limited, tasks), Pose.rest(limited, 3), restarts=2)
    for number in range(3):
        alone = solve(
            Problem(limited, [task if task.frames is None else task.at_frame(number) for task in tasks]),
            Pose.rest(limited),
            restarts=2,
        )
        frame = motion.frame(number)
        assert frame.status is alone.status and frame.message == alone.message
        assert [error.note for error in frame.errors] == [error.note for error in alone.errors]
        assert [error.name for error in frame.errors] == ["position of hand", "stay near"]
        assert frame.limited == alone.limited and frame.pose == motion.pose[number]
        assert frame.reached == alone.reached == (number != 1)


# Trackers


def test_a_tracker_takes_targets_by_name() -> None:
    tasks = (
        ReachPoint("hand", NEAR, name="hand"),
        MatchOrientation("hips", np.eye(3)),
        ReachFrame("upper", frame_of(REST, "upper"), weight=0.0, name="shoulder"),
    )
    tracker, twin = (Tracker(Problem(ARM, tasks), REST) for _ in range(2))
    here, turned = [0.3, 0.25, 1.3], [np.cos(0.1), 0.0, 0.0, np.sin(0.1)]
    for targets, both in (
        ({"hand": here}, [here, np.eye(3)]),
        ({"orientation of hips": turned}, [here, turned]),
        ({}, [here, turned]),
    ):
        assert tracker.solve(targets).pose == twin.solve(both).pose
    before = tracker.pose
    for wrong, message in (
        ({"foot": here}, "no task is called 'foot'; there are hand, orientation of hips, shoulder"),
        ({"hand": [1.0]}, r"hand: target has shape \(1,\)"),
        ([here], r"1 targets for 2 tasks \(hand, orientation of hips\)"),
    ):
        with pytest.raises(IKError, match=message):
            tracker.solve(wrong)  # type: ignore[arg-type]
        assert tracker.pose is before
    twins = Tracker(Problem(ARM, [ReachPoint("hand", NEAR)] * 2), REST)
    with pytest.raises(IKError, match="several tasks are called 'position of hand'"):
        twins.solve({"position of hand": here})


def test_a_tracker_takes_new_weights() -> None:
    tasks = (
        ReachPoint("hand", NEAR, name="hand"),
        ReachFrame("hand", matrix(place=FAR), name="far", weight=0.0),
    )
    tracker = Tracker(Problem(ARM, tasks), REST)
    assert tracker.solve().reached
    drawn = tracker.solve({"far": matrix(place=[4.0, 0.0, 1.0])}, weights={"far": 1.0, "hand": 0.0})
    assert [error.name for error in drawn.errors] == ["far", "far"] and not drawn.reached
    alone = Tracker(Problem(ARM, ReachFrame("hand", matrix(place=[4.0, 0.0, 1.0]), name="far")), REST)
    assert_allclose(drawn.errors[0].error, alone.solve().errors[0].error, atol=1e-3)
    again = tracker.solve(weights={"far": 0.0, "hand": 1.0})
    assert again.reached and len(again.errors) == 1
    with pytest.raises(IKError, match="hand: weight must be finite and not negative"):
        tracker.solve(weights={"hand": -1.0})

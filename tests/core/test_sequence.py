# SPDX-License-Identifier: GPL-3.0-or-later
"""Sequences: a motion as one problem, and frames that have nothing to do with each other."""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks import trees
from blender_ik_addon.core import (
    IKError,
    MatchOrientation,
    OneOf,
    Pose,
    Problem,
    ReachPoint,
    SequenceSolution,
    Solution,
    SolverOptions,
    Status,
    Task,
    forward_kinematics,
    solve,
    solve_each,
    solve_sequence,
)
from blender_ik_addon.core.engine.pops import pops_of
from blender_ik_addon.core.solve.sequence import SequenceJob
from tests.core.builders import Array, chain, planar, planar_pose, random_pose, tip, upper_body
from tests.core.strategies import rotation_about

JOINTS = 4
END = f"joint.{JOINTS - 1}"
CLOSED = np.radians(0.01)
"""[rad] How well a cycle closes."""
FORGOTTEN = np.radians(0.1)
"""[rad] How far it matters where a loop begins, or where a long motion is cut: nobody sees it."""


def circle(frames: int, radius: float = 0.45) -> Array:
    """A closed curve within reach, the first place again at the end, (frames, 3) [m]."""
    angle = np.linspace(0.0, 2.0 * np.pi, frames)
    around = np.stack([np.cos(angle), np.sin(angle), np.sin(angle)], axis=1)
    return np.array([1.5, 1.5, 0.5]) + radius * around


def follow(targets: Array, *, joint: str | int = END, **fields: Any) -> ReachPoint:
    return ReachPoint(joint=joint, point=tip(), target=targets, **fields)


FRAMES = 17
"""Of a motion once round."""


def run(frames: int = FRAMES, **options: Any) -> SequenceSolution:
    """A chain whose end goes round once."""
    skeleton = chain(JOINTS)
    problem = Problem(skeleton, (follow(circle(frames)),))
    return solve_sequence(problem, Pose.rest(skeleton, (frames,)), **options)


once_round = cache(run)
"""The same, solved once for all tests that ask for it."""


@pytest.mark.parametrize("options", [{}, {"smoothness": 0.0}, {"method": "DLS"}])
def test_a_frame_whose_target_is_nan_pulls_nothing_and_is_told(options: dict[str, Any]) -> None:
    """Markers that a recording has lost: the motion goes on without them."""
    skeleton, frames = planar(JOINTS), 12
    poses = Pose.rest(skeleton, (frames,))
    path = np.linspace([2.0, 1.0, 0.0], [1.0, 2.0, 0.0], frames)
    path[[0, 5, 6]] = np.nan
    middle = ReachPoint(joint="joint.2", target=np.linspace([1.5, 1.0, 0.0], [1.2, 1.4, 0.0], frames))
    solution = solve_sequence(Problem(skeleton, (follow(path, name="hand"), middle)), poses, **options)
    assert solution.reached
    assert (
        np.isnan(solution.errors[[0, 5, 6], 0]).all()
        and np.isfinite(np.delete(solution.errors, [0, 5, 6], 0)).all()
    )
    assert solution.errors[:, 1].max() < 1e-3
    for frame, message in enumerate(solution.messages):
        assert ("no target here for hand" in message) == (frame in (0, 5, 6))
    if options == {"smoothness": 0.0}:
        alone = solve(Problem(skeleton, (replace(middle, target=middle.target[5]),)), poses[5])
        assert_allclose(solution.pose.channels[5], alone.pose.channels, atol=1e-6)
    path[:] = np.nan
    with pytest.raises(IKError, match="hand: target is not finite"):
        follow(path, name="hand")


@pytest.mark.parametrize("options", [{}, {"smoothness": 0.0}, {"method": "DLS"}])
def test_joints_that_are_held_in_some_frames_stay_there_exactly(options: dict[str, Any]) -> None:
    """What no target moves for a while: the others meet theirs without it."""
    skeleton, frames = planar(JOINTS), 12
    channels = np.broadcast_to(planar_pose(*[0.3] * JOINTS).channels, (frames, JOINTS, 6))
    poses = Pose.rest(skeleton, (frames,)).with_channels(channels)
    hand = follow(np.linspace([2.0, 1.0, 0.0], [1.0, 2.0, 0.0], frames))
    middle = ReachPoint(joint="joint.2", target=np.linspace([1.5, 1.0, 0.0], [1.2, 1.4, 0.0], frames))
    asked = np.arange(frames) % 8 > 3
    held = np.zeros((frames, JOINTS), dtype=np.bool_)
    held[~asked, 2:] = True
    job = SequenceJob(
        Problem(skeleton, (hand.only_in(asked), middle)), poses, SolverOptions(**options), held=held
    )
    for _ in job.run():
        pass
    solution = job.solution()
    assert solution.reached and np.isnan(solution.errors[~asked, 0]).all()
    assert np.isfinite(solution.errors[asked, 0]).all()
    assert_array_equal(solution.pose.channels[held], poses.channels[held])
    assert np.abs(solution.pose.channels - poses.channels)[asked, 2:].max(axis=(1, 2)).min() > 0.01


def test_a_motion_beside_stays_where_what_it_holds_is_beyond_its_limits() -> None:
    """A joint that nothing moves may be anywhere: the parts of a motion meet all the same."""
    limit = np.full((JOINTS, 6), np.inf)
    limit[-1, 5] = 0.2
    skeleton, frames = planar(JOINTS, lower=-limit, upper=limit), 12
    beside = np.arange(frames) < 5
    channels = np.zeros((frames, JOINTS, 6))
    channels[:, :, 5] = [0.3, 0.5, 0.4, 0.6]
    poses = Pose.rest(skeleton, (frames,)).with_channels(channels)
    place = forward_kinematics(skeleton, poses).matrices[0, 2, :3, 3]
    middle = ReachPoint(joint="joint.2", target=place + np.maximum(np.arange(frames) - 4, 0)[:, None] * -0.05)
    asked = np.arange(frames) > 8
    held = np.zeros((frames, JOINTS), dtype=np.bool_)
    held[~asked, -1] = True
    job = SequenceJob(
        Problem(skeleton, (middle, follow(np.array([1.5, 2.5, 0.0])).only_in(asked))),
        poses,
        SolverOptions(),
        own=slice(5, frames),
        held=held,
    )
    for _ in job.run():
        pass
    assert_array_equal(job.solution().pose.channels[beside], channels[beside])


def test_parts_of_a_motion_meet_where_their_angles_are_a_whole_turn_apart() -> None:
    """The end was solved before the middle: it does not know how often the joint has turned."""
    frames, middle = 25, slice(8, 16)
    angles = np.linspace(0.0, 2.0 * np.pi, frames)
    turns = np.array([rotation_about(np.array([0.96, 0.28, 0.0]), angle) for angle in angles])
    problem = Problem(chain(1), (MatchOrientation(joint=0, target=turns),))
    rest = Pose.rest(problem.skeleton, (frames,))
    whole = solve_sequence(problem, rest).pose.channels
    assert_allclose(whole[0], 0.0, atol=1e-6)  # a loop begins near what is preferred, not a round later
    beside = whole.copy()
    beside[middle] = 0.0
    beside[middle.stop :, 0, 5] -= 2.0 * np.pi
    job = SequenceJob(problem, rest.with_channels(beside), SolverOptions(), own=middle, cyclic=False)
    for _ in job.run():
        pass
    solution = job.solution()
    assert solution.reached, solution.errors.max(axis=0)
    assert_allclose(solution.pose.channels[middle], whole[middle], atol=1e-3)
    assert_array_equal(solution.pose.channels[middle.stop :], beside[middle.stop :])


def test_alternatives_have_targets_in_the_same_frames() -> None:
    near, far = follow(circle(5)), follow(circle(5) + 1.0)
    some = np.array([True, False, True, True, False])
    assert_array_equal(OneOf((near, far)).only_in(some).given, some)
    with pytest.raises(IKError, match="no target in different frames"):
        OneOf((near, far.only_in(some)))
    solution = solve_sequence(
        Problem(chain(JOINTS), OneOf((near, far)).only_in(some)), Pose.rest(chain(JOINTS), (5,))
    )
    assert solution.reached
    assert_array_equal(np.isnan(solution.errors[:, 0]), ~some)


def test_alternatives_that_have_gaps_have_as_many_frames() -> None:
    gap = np.array([True, False, True])
    near, far = follow(circle(3)).only_in(gap), follow(circle(5)).only_in([*gap, True, True])
    with pytest.raises(IKError, match="alternatives have 3 and 5 frames"):
        OneOf((near, near, far))


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([True] * 3, r"frames have shape \(3,\), wanted \(5,\)"),
        (True, r"frames have shape \(\), wanted \(5,\)"),
        ([False] * 5, "no target in any frame"),
        ([False, True, False, False, False], "no target in any frame"),
    ],
)
def test_frames_without_targets_that_do_not_fit_are_refused(frames: Any, reason: str) -> None:
    path = np.where(np.arange(5)[:, None] == 1, np.nan, circle(5))
    with pytest.raises(IKError, match=f"position of .*: {reason}"):
        follow(path).only_in(frames)


def test_every_frame_is_solved_and_told() -> None:
    solution = once_round()
    assert solution.reached and not solution.cancelled
    assert solution.pose.frames == (FRAMES,)
    assert solution.statuses == (Status.REACHED,) * FRAMES
    assert len(solution.messages) == FRAMES
    assert solution.iterations.shape == (FRAMES,) and (solution.iterations > 0).all()
    assert solution.errors.shape == (FRAMES, 1) and solution.errors.max() <= 1e-4
    ends = forward_kinematics(chain(JOINTS), solution.pose).point(END, tip())
    assert_allclose(ends, circle(FRAMES), atol=1e-4)
    assert_allclose(np.linalg.norm(ends - circle(FRAMES), axis=1), solution.errors[:, 0], atol=1e-12)


def two_tasks(frames: int) -> tuple[Problem, Pose]:
    """A chain whose fixed channels move, with targets that do."""
    skeleton = chain(JOINTS, free=[[False] * 3 + [True, True, False]] * JOINTS)
    some = random_pose(np.random.default_rng(5), skeleton, angle=0.3, offset=0.1).channels
    some = np.where(skeleton.free, 0.0, some)
    poses = Pose.from_channels(some * np.linspace(1.0, 1.5, frames)[:, None, None])
    turns = np.array([rotation_about(np.array([1.0, 0.0, 0.0]), 0.02 * frame) for frame in range(frames)])
    tasks = (
        follow(circle(4 * frames)[:frames], name="tip"),
        MatchOrientation(joint="joint.1", target=turns, axes=(True, False, False), weight=0.1),
    )
    return Problem(skeleton, tasks), poses


def assert_frame_is(together: SequenceSolution, frame: int, alone: Solution) -> None:
    assert_allclose(together.pose.channels[frame], alone.pose.channels, atol=1e-4)
    assert together.statuses[frame] is alone.status
    assert together.messages[frame] == alone.message
    assert_allclose(together.errors[frame], [error.error for error in alone.errors], atol=1e-4)


@pytest.mark.parametrize("method", ["PRIORITY", "DLS"])
def test_without_smoothness_it_equals_solving_each_frame_alone(method: str) -> None:
    problem, poses = two_tasks(6)
    options = SolverOptions(method=method, smoothness=0.0)
    together = solve_sequence(problem, poses, options)
    for frame in range(6):
        tasks = tuple(task.at_frame(frame) for task in problem.tasks)
        alone = solve(Problem(problem.skeleton, tasks), poses[frame], options)
        assert_frame_is(together, frame, alone)


def test_a_method_with_a_rule_of_its_own_goes_from_the_solution_of_the_frame_before() -> None:
    problem, poses = two_tasks(4)
    options = SolverOptions(method="SDLS", max_angle=0.5)
    together = solve_sequence(problem, poses, options)
    before = poses[0]
    for frame in range(4):
        free = np.where(problem.skeleton.free, before.channels, poses.channels[frame])
        tasks = tuple(task.at_frame(frame) for task in problem.tasks)
        start = poses[frame].with_channels(free)
        alone = solve(Problem(problem.skeleton, tasks), start, options)
        assert_frame_is(together, frame, alone)
        before = alone.pose


def test_free_channels_that_have_a_preferred_value_do_not_matter(rng: np.random.Generator) -> None:
    problem = Problem(chain(JOINTS), (follow(circle(FRAMES)),))
    channels = np.zeros((FRAMES, JOINTS, 6))
    channels[1:, :, 3:] = rng.uniform(-1.0, 1.0, (FRAMES - 1, JOINTS, 3))
    from_any = solve_sequence(problem, Pose.from_channels(channels))
    assert_allclose(from_any.pose.channels, once_round().pose.channels, atol=1e-6)


def test_without_preferred_pose_channels_stay_near_those_of_each_frame() -> None:
    frames = 24
    skeleton = chain(JOINTS)
    channels = np.zeros((frames, JOINTS, 6))
    channels[:, :, 3:] = 0.3 + 0.1 * np.sin(np.arange(frames))[:, None, None]
    there = Pose.from_channels(channels)
    targets = forward_kinematics(skeleton, there).point(END, tip())
    problem = Problem(skeleton, (follow(targets),))
    kept = solve_sequence(problem, there, redundancy="start")
    assert kept.reached
    assert_allclose(kept.pose.channels, channels, atol=1e-6)


def test_fixed_channels_and_scale_are_those_of_each_frame() -> None:
    frames = 6
    skeleton = chain(JOINTS, free=np.array([[False] * 6] + [[False] * 3 + [True] * 3] * (JOINTS - 1)))
    channels = np.zeros((frames, JOINTS, 6))
    channels[:, 0, 5] = np.linspace(0.0, -1.0, frames)  # the root is animated, and so is its size
    channels[:, 0, 0] = np.linspace(0.0, 0.5, frames)
    scale = np.ones((frames, JOINTS, 3))
    scale[:, 0] = np.linspace(1.0, 1.2, frames)[:, None]
    poses = Pose(channels, scale)
    solution = solve_sequence(Problem(skeleton, (follow(circle(frames, radius=0.2)),)), poses)
    assert_array_equal(solution.pose.channels[:, 0], channels[:, 0])
    assert_array_equal(solution.pose.channels[:, :, :3], channels[:, :, :3])
    assert_array_equal(solution.pose.scale, scale)
    assert solution.reached
    ends = forward_kinematics(skeleton, solution.pose).point(END, tip())
    assert_allclose(ends, circle(frames, radius=0.2), atol=1e-4)


def test_joints_of_no_chain_keep_the_motion_they_have(rng: np.random.Generator) -> None:
    frames = 3
    skeleton = chain(JOINTS)
    poses = random_pose(rng, skeleton, angle=0.3, offset=0.0, frames=(frames,))
    task = ReachPoint(joint="joint.1", point=tip(), target=np.array([1.2, 1.0, 0.0]))
    solution = solve_sequence(Problem(skeleton, (task,)), poses)
    assert solution.reached
    assert_array_equal(solution.pose.channels[:, 2:], poses.channels[:, 2:])


def test_a_target_without_frames_is_the_same_in_all_of_them() -> None:
    frames = 4
    skeleton = chain(JOINTS)
    poses = Pose.rest(skeleton, (frames,))
    for target in (circle(2)[0], circle(2)[:1]):
        solution = solve_sequence(Problem(skeleton, (follow(target),)), poses)
        assert solution.reached
        assert_allclose(solution.pose.channels[1:], solution.pose.channels[:-1], atol=1e-6)


def test_out_of_reach_is_a_result_like_any_other() -> None:
    frames = 17
    skeleton = chain(JOINTS)
    targets = circle(frames)
    targets[6:11] = [3.0, 3.0, 1.0]
    out = np.isin(np.arange(frames), np.arange(6, 11))
    problem = Problem(skeleton, (follow(targets),))
    poses = Pose.rest(skeleton, (frames,))
    solution = solve_sequence(problem, poses, smoothness=0.0, restarts=2)
    assert not solution.reached
    least = np.linalg.norm(targets[8]) - JOINTS
    assert_allclose(solution.errors[out, 0], least, atol=1e-4)
    reached = np.array([status is Status.REACHED for status in solution.statuses])
    assert_array_equal(reached, ~out)
    assert "missed" in solution.messages[8]


def test_smooth_targets_give_smooth_motion_and_a_cycle_closes() -> None:
    channels = once_round().pose.channels
    assert np.abs(channels[-1] - channels[0]).max() < CLOSED
    steps = np.abs(np.diff(channels, axis=0)).max((1, 2))
    assert steps.max() < 3.0 * np.median(steps)


def test_a_loop_has_no_seam() -> None:
    """A period shorter than the smoothness closes as well: the loop may begin in any of its frames."""
    frames, smoothness = 8, 0.3
    skeleton, begin = chain(JOINTS, lower=-1.5, upper=1.5), frames // 3
    poses = Pose.rest(skeleton, (frames,))
    targets = circle(frames)
    moved = np.roll(targets[:-1], -begin, axis=0)
    loops = [
        solve_sequence(
            Problem(skeleton, (follow(path),)), poses, smoothness=smoothness, restarts=2
        ).pose.channels[:-1]
        for path in (targets, np.concatenate([moved, moved[:1]]))
    ]
    assert_allclose(np.roll(loops[1], begin, axis=0), loops[0], atol=FORGOTTEN)


def test_cyclic_says_that_a_motion_is_a_loop_or_is_none() -> None:
    skeleton, closed, targets = chain(JOINTS), once_round(), circle(FRAMES)
    noisy = np.concatenate([targets[:-1], targets[:1] + 0.003])
    given, found, opened = (
        solve_sequence(Problem(skeleton, (follow(path),)), Pose.rest(skeleton, (FRAMES,)), cyclic=cyclic)
        for path, cyclic in ((noisy, True), (noisy, None), (targets, False))
    )
    assert_allclose(given.pose.channels, closed.pose.channels, atol=1e-6)
    assert given.errors[:-1].max() < 1e-4
    assert given.errors[-1, 0] == pytest.approx(0.003 * np.sqrt(3.0), abs=1e-4)  # of its own target
    assert found.reached
    assert np.abs(found.pose.channels[0] - found.pose.channels[-1]).max() > CLOSED
    assert opened.reached
    # Its ends know of one side alone.
    away = np.abs(opened.pose.channels - closed.pose.channels).max(axis=(1, 2))
    assert away[[0, -1]].min() > 3.0 * away[FRAMES // 2]


@pytest.mark.parametrize("length", [1.0, 100.0], ids=["metres", "centimetres"])
def test_a_root_that_is_recorded_elsewhere_at_the_end_is_no_loop(length: float) -> None:
    free = [[True] * 6, *[[False] * 3 + [True] * 3] * (JOINTS - 1)]
    skeleton, targets = chain(JOINTS, length=length, free=free), length * circle(FRAMES)
    recorded = np.zeros((FRAMES, JOINTS, 6))
    recorded[:, 0, :3] = 0.1 * (targets - targets[0])
    ends = list[float]()
    for elsewhere in (0.0, 0.002 * length):
        recorded[-1, 0, 0] += elsewhere
        problem = Problem(skeleton, (follow(targets),), recorded)
        poses = solve_sequence(problem, Pose.from_channels(recorded)).pose.channels
        ends.append(float(np.abs(poses[-1] - poses[0])[:, 3:].max()))
    assert ends[0] < CLOSED < ends[1]


@pytest.mark.parametrize("resting", [0, 6])
def test_what_comes_home_the_way_it_went_is_no_loop(resting: int) -> None:
    """Its first frames know nothing of its last ones: a pose that was keyed there comes back."""
    path = circle(FRAMES)[: FRAMES // 2]
    path = np.concatenate([np.repeat(path[:1], resting, axis=0), path, path[-2::-1]])
    skeleton = chain(JOINTS)
    problem, poses = Problem(skeleton, (follow(path),)), Pose.rest(skeleton, (len(path),))
    found, opened = (solve_sequence(problem, poses, cyclic=cyclic).pose.channels for cyclic in (None, False))
    assert_array_equal(found, opened)


def test_a_loop_of_one_frame_or_without_smoothness_is_its_frames() -> None:
    skeleton = chain(JOINTS)
    for frames, smoothness in ((1, 0.2), (2, 0.2), (9, 0.0)):
        problem, poses = Problem(skeleton, (follow(circle(frames)),)), Pose.rest(skeleton, (frames,))
        solution = solve_sequence(problem, poses, smoothness=smoothness, cyclic=True)
        assert solution.reached
        assert_allclose(solution.pose.channels[-1], solution.pose.channels[0], atol=1e-6)


def stretching(*below: Task, frames: slice = slice(None)) -> tuple[SequenceSolution, Array]:
    """A chain whose end is drawn out of its reach, its first joint held turned; what it must miss."""
    skeleton = chain(JOINTS)
    height = np.linspace(3.3, 4.4, 25)[frames]
    path = np.array([0.3, 0.0, 0.0]) + height[:, None] * np.array([0.0, 1.0, 0.0])
    turn = rotation_about(np.array([0.0, 0.0, 1.0]), 0.2)
    tasks = MatchOrientation(joint="joint.0", target=turn), follow(path, priority=1)
    poses = Pose.rest(skeleton, (len(height),))
    solution = solve_sequence(Problem(skeleton, (*tasks, *below)), poses, restarts=2)
    assert solution.errors[:, 0].max() < 1e-6
    return solution, np.maximum(np.linalg.norm(path - turn @ tip(), axis=1) - (JOINTS - 1), 0.0)


def test_no_limb_snaps_where_a_target_goes_out_of_reach() -> None:
    solution, least = stretching()
    steps = np.abs(np.diff(solution.pose.channels, axis=0)).max(axis=(1, 2))
    border = int((least > 0.0).argmax()) - 1
    assert steps[border] < 1.5 * np.r_[steps[border - 2 : border], steps[border + 1 : border + 3]].max()
    # It slows down from the first frame on in which it cannot follow.
    assert (np.diff(steps[border - 1 : border + 4]) < 0.0).all()
    # What is missed in any case gives way, and the time of the smoothness before it, by less than the target
    # moves on in a frame.
    missed = solution.errors[:, 1]
    assert (missed[: border - round(0.2 * 24)] < 1e-4).all()
    assert (missed < least + np.diff(least)[-1]).all()
    moved = missed > least + 1e-4
    more = missed - least
    assert more[border + 1 + round(0.2 * 24) :].max() < 0.1 * more.max()  # after the time of the smoothness
    # What comes nearer in a frame alone is kept back by the others.
    assert any("gives way to smoothness" in message for message in solution.messages)
    for message, error, beyond, more in zip(solution.messages, missed, least, moved, strict=True):
        assert more or "smooth" not in message
        # Of a frame that could not meet its target alone both is said.
        assert ("level 0 takes precedence" in message) == (beyond > 1e-4)
        assert f"{error * 1e3:.3g} mm" in message or error < 1e-4


def largest_step(path: Array, *others: Task) -> float:
    """Largest change of a channel in a frame, of a chain whose end follows a path straight up."""
    skeleton, frames = chain(JOINTS), len(path)
    places = np.array([0.3, 0.0, 0.0]) + path[:, None] * np.array([0.0, 1.0, 0.0])
    problem = Problem(skeleton, (follow(places), *others))
    solution = solve_sequence(problem, Pose.rest(skeleton, (frames,)), restarts=2)
    if others:
        # What cannot be met lags by less than the target moves on in a frame.
        least = np.maximum(np.hypot(path, 0.3) - JOINTS, 0.0)
        assert_allclose(solution.errors[:, 0], least, atol=np.abs(np.diff(path)).max())
    return float(np.abs(np.diff(solution.pose.channels, axis=0)).max())


def led_out_of_reach() -> tuple[Problem, Pose]:
    """An arm that follows a target straight out of reach and back."""
    away = np.interp(np.linspace(0.0, 14.0, 29), np.arange(15), [*OUT, *OUT[-2::-1], 1.0, 1.0])
    problem, poses = arm(np.zeros(len(away)), 1.0, limit=2.0)
    target = away[:, None] * np.array([0.0, 1.0, 0.0])
    return Problem(problem.skeleton, (follow(target, joint=1),)), poses


OUT = (1.0, 1.2, 1.5, 1.8, 1.95, 2.2, 2.3)
"""Distances of a target of an arm that is 2 m long [m]."""


@pytest.mark.parametrize("below", [0, 1])
def test_it_is_told_how_much_smoothness_adds_to_misses(below: int) -> None:
    """By comparison with frames alone, whether these meet their targets or only come nearer."""
    problem, poses = arm(np.linspace(-0.6, 0.9, 15), 2.2, limit=1.0) if below else led_out_of_reach()
    others = [follow(np.array([0.5, 1.0, 0.0]), joint=0, priority=1)] * below
    problem = Problem(problem.skeleton, (*problem.tasks, *others))
    solution = solve_sequence(problem, poses, cyclic=False, restarts=1)
    alone = solve_each(problem, solution.pose, restarts=1)
    missed = solution.errors > 1e-4
    assert missed.any()
    added = np.where(missed, np.maximum(solution.errors - alone.errors, 0.0), 0.0)
    assert solution.smoothing.shape == solution.errors.shape and added.max() > 1e-3
    assert_allclose(solution.smoothing, added, atol=2e-3)
    assert solution.angular == (False,) * (1 + below)
    assert once_round().reached and not once_round().smoothing.any()
    assert not solve_sequence(problem, poses, smoothness=0.0).smoothing.any()


def test_where_a_target_that_is_out_of_reach_rests_it_is_missed_by_no_more_than_in_a_frame_alone() -> None:
    skeleton, path = chain(JOINTS), np.r_[np.linspace(3.0, 4.4, 9), np.full(20, 4.4)]
    problem = Problem(skeleton, (follow(path[:, None] * np.array([0.0, 1.0, 0.0])),))
    motion = solve_sequence(problem, Pose.rest(skeleton, (len(path),)), cyclic=False, restarts=2)
    alone = solve_each(problem, motion.pose, smoothness=0.0, restarts=2)
    assert motion.errors[-1, 0] > 0.3
    assert_allclose(motion.errors[-1], alone.errors[-1], atol=1e-4)


def test_where_targets_rest_a_level_gives_way_to_those_below_by_no_more_than_in_a_frame_alone() -> None:
    skeleton, path = chain(JOINTS), np.r_[np.linspace(3.0, 4.4, 9), np.full(20, 4.4)]
    elsewhere = ReachPoint(joint="joint.1", point=tip(), target=np.array([1.5, -0.5, 0.5]), priority=1)
    problem = Problem(skeleton, (follow(path[:, None] * np.array([0.0, 1.0, 0.0])), elsewhere))
    motion = solve_sequence(problem, Pose.rest(skeleton, (len(path),)), cyclic=False, restarts=2)
    alone = solve_each(problem, motion.pose, smoothness=0.0, restarts=2)
    assert motion.errors[-1, 0] > 0.3
    assert_allclose(motion.errors[-1], alone.errors[-1], atol=2e-3)


def test_a_snap_that_is_no_jump_is_smoothed_too() -> None:
    assert largest_step(np.linspace(3.0, 4.4, 9)) < 0.2


def test_what_is_missed_below_gives_way_where_a_level_comes_back_into_reach() -> None:
    middle = ReachPoint(joint="joint.1", point=tip(), target=np.array([1.0, 1.0, 0.5]), priority=1)
    assert largest_step(np.linspace(4.6, 3.0, 31)[5:21], middle) < 0.16


def test_a_target_that_is_hardly_out_of_reach_for_a_moment_is_hardly_missed() -> None:
    """The last of four levels was given up by 11 mm around a frame that misses it by 2 mm."""
    skeleton, beyond = chain(JOINTS), 2e-3
    height = np.sqrt((JOINTS + beyond) ** 2 - 0.3**2) - 0.5 * np.square(np.linspace(-1.0, 1.0, 25))
    places = np.array([0.3, 0.0, 0.0]) + height[:, None] * np.array([0.0, 1.0, 0.0])
    above = [ReachPoint(joint="joint.0", target=np.zeros(3), priority=level) for level in range(3)]
    problem = Problem(skeleton, (*above, follow(places, priority=3)))
    solution = solve_sequence(problem, Pose.rest(skeleton, (len(height),)), cyclic=False)
    assert beyond - 1e-6 < solution.errors[:, 3].max() < 3.0 * beyond


def test_a_level_that_has_others_below_it_gives_way_by_little() -> None:
    elsewhere = ReachPoint(joint="joint.1", point=tip(), target=np.array([0.0, 1.5, 0.5]), priority=2)
    solution, least = stretching(elsewhere, frames=slice(8, 21))
    assert_allclose(solution.errors[:, 1], least, atol=np.diff(least)[-1])
    met = least == 0.0
    assert solution.errors[met, 1][: -round(0.2 * 24)].max() < 1e-4


def test_a_body_does_not_snap_sooner_because_there_are_levels_below() -> None:
    elsewhere = ReachPoint(joint="joint.1", point=tip(), target=np.array([0.0, 1.5, 0.5]), priority=2)
    always_met = ReachPoint(joint="joint.0", target=np.zeros(3), priority=3)
    few, many = (
        stretching(elsewhere, *more, frames=slice(8, 21))[0].pose.channels for more in ((), (always_met,))
    )
    assert_allclose(many, few, atol=0.08)


def test_slower_frames_are_smoothed_less() -> None:
    """Smoothness is a time: five times as slow, a leap is spread over fewer frames."""
    targets = np.tile([1.5, 1.5, 0.5], (40, 1))
    targets[20:] = [1.3, 1.7, 0.2]
    skeleton = chain(JOINTS)
    problem, poses = Problem(skeleton, (follow(targets),)), Pose.rest(skeleton, (40,))
    steps = [
        np.abs(np.diff(solve_sequence(problem, poses, times=np.arange(40) / rate).pose.channels, axis=0))
        for rate in (24.0, 4.8)
    ]
    fast, slow = (each.max(axis=(1, 2)) for each in steps)
    assert slow[:15].max() < 0.2 * fast[:15].max()


@cache
def leaping(smoothness: float, **options: Any) -> tuple[SequenceSolution, Array]:
    """A target that leaps at frame 20 of 40; largest change of a channel from frame to frame [rad]."""
    targets = np.tile([1.5, 1.5, 0.5], (40, 1))
    targets[20:] = [1.0, 2.0, -0.5]
    skeleton = chain(JOINTS)
    problem = Problem(skeleton, (follow(targets),))
    solution = solve_sequence(problem, Pose.rest(skeleton, (40,)), smoothness=smoothness, **options)
    return solution, np.abs(np.diff(solution.pose.channels, axis=0)).max((1, 2))


def test_where_targets_leap_the_pose_leaps_and_without_smoothness_stands_still_before_and_after() -> None:
    solution, steps = leaping(0.0)
    assert solution.reached and solution.branches == (20,)
    assert steps[19] > 0.1
    assert np.delete(steps, 19).max() < 1e-5


def test_pops_are_reported_from_an_angle_on() -> None:
    """It says what is reported, and changes nothing of the motion."""
    usual = leaping(0.0)[0]
    largest = max(pop.turn for pop in usual.pops)
    for angle, told in ((0.5 * largest, (20,)), (1.5 * largest, ())):
        solution = leaping(0.0, pop_angle=angle)[0]
        assert solution.branches == told
        assert_array_equal(solution.pose.channels, usual.pose.channels)


def test_an_even_turn_over_a_longer_step_is_no_pop() -> None:
    """Of 2° a frame the step over four frames was told as a flip of 10°."""
    skeleton = chain(2)
    times = np.delete(np.arange(40.0), [20, 21, 22, 23]) / 24.0
    channels = np.zeros((len(times), 2, 6))
    channels[:, 0, 3] = np.radians(48.0) * times
    pose = Pose.rest(skeleton, (len(times),)).with_channels(channels)
    assert pops_of(skeleton, pose, np.radians(3.0), times=times) == ()
    assert len(pops_of(skeleton, pose, np.radians(3.0))) == 1


def test_smoothness_spreads_a_leap_over_the_frames_beside_it() -> None:
    alone = leaping(0.0)[1]
    solution, steps = leaping(0.2)
    assert solution.reached  # the chain can prepare for the leap
    assert 0.1 < steps.max() < 0.5 * alone.max()
    assert steps.argmax() == 19 and steps[:5].max() < 0.01 and steps[-5:].max() < 0.01


def test_a_cycle_closes_seven_times_round() -> None:
    turns, frames = 7, 24
    targets = np.concatenate([circle(frames + 1)[:-1]] * turns)
    skeleton = chain(JOINTS)
    solution = solve_sequence(Problem(skeleton, (follow(targets),)), Pose.rest(skeleton, (turns * frames,)))
    assert solution.reached
    cycles = solution.pose.channels.reshape(turns, frames, JOINTS, 6)
    # The ends know of one side alone.
    assert np.abs(cycles[2:-2] - cycles[3]).max() < FORGOTTEN
    assert np.abs(cycles - cycles[3]).max() < np.radians(2.0)


# ----------------------------------------------------------------------------------------------------------
# Progress


MANY = 260
"""More than are solved at once where each is solved alone."""
TWO_WINDOWS = 110
"""More than are solved at once as a motion."""


@cache
def told_and_solved(smoothness: float) -> tuple[list[float], SequenceSolution]:
    told: list[float] = []
    frames = TWO_WINDOWS if smoothness else MANY
    return told, run(frames, progress=told.append, smoothness=smoothness)


@pytest.mark.parametrize("smoothness", [0.0, 0.2])
def test_progress_grows_to_one(smoothness: float) -> None:
    told, _ = told_and_solved(smoothness)
    assert told[-1] == 1.0 and all(before <= after for before, after in pairwise(told))
    assert len(told) >= 2


def test_a_motion_that_is_solved_at_once_reports_progress_and_can_be_stopped_meanwhile() -> None:
    """Escape and the progress bar do not wait for a hundred frames."""
    told: list[float] = []
    whole = run(progress=told.append)
    assert whole.reached
    assert all(before <= after for before, after in pairwise(told)) and len(set(told)) > 10
    calls = iter(range(len(told)))
    stopped = run(progress=lambda part: next(calls) == len(told) // 2)
    assert stopped.cancelled and next(calls) == len(told) // 2 + 1
    assert_is_the_beginning(stopped, whole, 0)


def test_progress_can_stop_frames_that_are_solved_alone_and_what_is_solved_is_kept() -> None:
    solution = run(MANY, progress=lambda part: part > 0.5, smoothness=0.0)
    count = len(solution.statuses)
    assert solution.cancelled and not solution.reached
    assert 1 < count < MANY
    assert_is_the_beginning(solution, told_and_solved(0.0)[1], count)


def assert_is_the_beginning(solution: SequenceSolution, whole: SequenceSolution, count: int) -> None:
    assert solution.pose.frames == (count,)
    assert len(solution.messages) == count
    assert solution.iterations.shape == (count,) and solution.errors.shape == (count, 1)
    assert_array_equal(solution.pose.channels, whole.pose.channels[:count])
    assert_array_equal(solution.pose.scale, np.ones((count, JOINTS, 3)))


def test_stopping_after_the_last_frame_cancels_nothing() -> None:
    assert not run(3, progress=lambda part: part == 1.0).cancelled


def test_no_frames_are_no_work() -> None:
    skeleton = chain(JOINTS)
    told: list[float] = []
    problem = Problem(skeleton, (follow(circle(2)[0]),))
    solution = solve_sequence(problem, Pose.rest(skeleton, (0,)), progress=told.append)
    assert solution.pose.channels.shape == (0, JOINTS, 6)
    assert solution.errors.shape == (0, 1) and solution.statuses == () and not told


# ----------------------------------------------------------------------------------------------------------
# Wrong input


def test_what_is_wrong_is_said_before_the_first_frame() -> None:
    skeleton = planar(JOINTS)
    told: list[float] = []
    with pytest.raises(IKError, match="JACOBI"):
        run(4, method="JACOBI", progress=told.append)
    problem = Problem(skeleton, (follow(circle(4)),))
    with pytest.raises(IKError, match=r"3, 6.*4, 6"):
        solve_sequence(problem, Pose.rest(chain(3), (4,)), progress=told.append)
    with pytest.raises(IKError, match="cyclic must be True, False or None, got 'yes'"):
        SequenceJob(problem, Pose.rest(skeleton, (4,)), SolverOptions(), cyclic="yes")  # type: ignore[arg-type]
    with pytest.raises(IKError, match=r"targets have 4 frames, the poses 5"):
        SequenceJob(problem, Pose.rest(skeleton, (5,)), SolverOptions())
    for frames in ((), (2, 3)):
        with pytest.raises(IKError, match="one frame axis"):
            solve_sequence(Problem(skeleton, ()), Pose.rest(skeleton, frames), progress=told.append)
    assert not told


# ----------------------------------------------------------------------------------------------------------
# The same solution from either end


def reaching(frames: int) -> tuple[Problem, Pose]:
    """Both hands of a figure on smooth ways, with limits; preferred pose as at rest."""
    skeleton = upper_body(limit=1.5)
    rest = forward_kinematics(skeleton, Pose.rest(skeleton))
    angle = np.linspace(0.0, 2.0 * np.pi, frames)
    tasks: list[Task] = []
    for hand, phase, side in (("hand.L", 0.0, 1.0), ("hand.R", 1.0, -1.0)):
        inward = 0.06 * np.sin(angle + phase) - 0.15
        forward, upward = 0.08 * np.cos(angle) - 0.25, 0.1 * np.sin(angle + 2.0 * phase)
        away = np.stack([side * inward, forward, upward], axis=1)
        tasks.append(ReachPoint(joint=hand, target=rest.point(hand) + away))
    tasks.append(ReachPoint(joint="hips", target=rest.point("hips"), priority=1))
    return Problem(skeleton, tuple(tasks)), Pose.rest(skeleton, (frames,))


def test_forward_and_backward_are_the_same() -> None:
    """The terms over time have no direction; as a loop it begins at the other end."""
    problem, poses = reaching(13)
    *hands, hips = problem.tasks
    backward = Problem(problem.skeleton, (*(replace(task, target=task.aim[::-1]) for task in hands), hips))
    there, back = solve_sequence(problem, poses), solve_sequence(backward, poses)
    assert there.reached and back.reached and there.branches == back.branches == ()
    assert_allclose(back.pose.channels[::-1], there.pose.channels, atol=FORGOTTEN)


# ----------------------------------------------------------------------------------------------------------
# Frames that have nothing to do with each other


def test_each_by_itself_is_each_solved_from_its_own_pose() -> None:
    frames = 8
    skeleton = chain(JOINTS, lower=-1.2, upper=1.2)
    rng = np.random.default_rng(4)
    poses = random_pose(rng, skeleton, angle=0.5, offset=0.1, frames=(frames,))
    goals = random_pose(rng, skeleton, angle=1.0, frames=(frames,), only_free=True)
    targets = np.array(forward_kinematics(skeleton, goals).point(END, tip()))
    targets[3], targets[7] = 9.0, [0.0, -2.0, 0.1]  # out of reach; perhaps out of the limits
    problem = Problem(skeleton, (follow(targets, name="tip"),))
    together = solve_each(problem, poses, restarts=4)
    assert together.pose.frames == (frames,) and not together.cancelled and not together.reached
    for frame in range(frames):
        task = problem.tasks[0].at_frame(frame)
        alone = solve(Problem(skeleton, (task,)), poses[frame], restarts=4)
        assert together.statuses[frame] is alone.status
        assert together.messages[frame] == alone.message
        assert_allclose(together.errors[frame], [error.error for error in alone.errors], atol=1e-6)
        assert_allclose(together.pose.channels[frame], alone.pose.channels, atol=1e-5)
    assert together.statuses.count(Status.REACHED) >= frames - 2


def test_each_by_itself_knows_no_order(rng: np.random.Generator) -> None:
    frames = 9
    skeleton = chain(JOINTS)
    problem = Problem(skeleton, (follow(circle(frames)),))
    poses = random_pose(rng, skeleton, angle=0.5, offset=0.0, frames=(frames,))
    order = rng.permutation(frames)
    shuffled = solve_each(
        Problem(skeleton, (follow(circle(frames)[order]),)), Pose(poses.channels[order], poses.scale[order])
    )
    assert shuffled.reached
    assert_allclose(shuffled.pose.channels, solve_each(problem, poses).pose.channels[order], atol=1e-6)
    told: list[float] = []
    stopped = solve_each(problem, poses, progress=lambda part: bool(told.append(part)) or True)
    assert stopped.cancelled == (told[0] < 1.0)


def test_a_fast_motion_without_preferred_pose_has_no_jump() -> None:
    figure, frames = trees.human_tree(), 33
    targets = trees.track_targets(figure, 3 * frames, np.random.default_rng(27))[::3]
    skeleton = figure.skeleton()
    found = solve_sequence(
        Problem(skeleton, figure.tasks(targets)),
        Pose.rest(skeleton, (frames,)),
        tolerance_position=1e-3,
        redundancy="start",
    )
    assert found.reached and found.branches == ()
    assert np.abs(np.diff(found.pose.channels, axis=0)).max() < 0.3


def test_without_preferred_pose_what_is_held_fixed_may_differ_by_frame() -> None:
    """The target stands still, but the root does not: the last frame is not the first. Two windows meet."""
    frames = TWO_WINDOWS
    skeleton = chain(4, free=[[False] * 6, *[[False] * 3 + [True] * 3] * 3])
    channels = np.zeros((frames, 4, 6))
    channels[:, 0, :3] = np.linspace(0.0, 0.8, frames)[:, None]
    task = ReachPoint(joint=3, point=tip(), target=np.array([1.2, 1.5, 0.3]))
    poses = Pose.from_channels(channels)
    found = solve_sequence(Problem(skeleton, (task,)), poses, redundancy="start")
    assert found.reached
    assert_array_equal(found.pose.channels[:, 0], channels[:, 0])
    places = forward_kinematics(skeleton, found.pose).point("joint.3", tip())
    assert np.linalg.norm(places - task.target, axis=1).max() <= 1e-4
    assert np.abs(np.diff(found.pose.channels, axis=0)).max() < 0.1


# ----------------------------------------------------------------------------------------------------------
# Branches


def arm(angles: Array, reach: float, *, limit: float, stiffness: float = 0.0) -> tuple[Problem, Pose]:
    """An arm of two links with a hinge each, the first with limits; its end at angles and a distance."""
    bounds = np.full((2, 6), np.inf)
    bounds[:, 5] = limit, 2.0
    stiff = np.zeros((2, 6))
    stiff[0, 5] = stiffness
    skeleton = planar(2, lower=-bounds, upper=bounds, stiffness=stiff)
    away = np.stack([-np.sin(angles), np.cos(angles), np.zeros(len(angles))], axis=1)
    task = ReachPoint(joint=1, point=tip(), target=reach * away)
    return Problem(skeleton, (task,)), Pose.rest(skeleton, (len(angles),))


def test_where_a_branch_ends_at_a_limit_the_motion_goes_over_to_another() -> None:
    """No descent leads past the straight arm: from the frame before it would stay on its limit."""
    frames = 30
    angles = np.linspace(-0.6, 0.9, frames)
    problem, poses = arm(angles, 1.7, limit=1.0)
    alone = solve_sequence(problem, poses, smoothness=0.0, restarts=2)
    assert alone.reached and alone.errors.max() < 1e-4
    # Where both cost the same: the arm points straight up.
    (change,) = alone.branches
    assert change == int((angles > 0.0).argmax())
    elbow = alone.pose.channels[:, 1, 5]
    assert_array_equal(np.sign(elbow), np.where(np.arange(frames) < change, -1.0, 1.0))
    # With smoothness it takes some frames, or the arm stays on its branch: it misses a few of them, and gives
    # way in the time of the smoothness beside these.
    smooth = solve_sequence(problem, poses, restarts=2)
    assert largest_turn(smooth) < 0.6 * largest_turn(alone)
    missed = np.flatnonzero(smooth.errors[:, 0] > 1e-4)
    assert 1 <= len(missed) <= 4 + round(0.2 * 24)
    assert all(np.abs(missed - frame).min() <= 3 for frame in smooth.branches)
    told = ("gives way to smoothness", "at its limits: joint.0")
    assert all(any(why in smooth.messages[frame] for why in told) for frame in missed)


def largest_turn(solution: SequenceSolution) -> float:
    """Largest change of a channel from frame to frame [rad]."""
    return float(np.abs(np.diff(solution.pose.channels, axis=0)).max())


@pytest.mark.parametrize("joint", [2, 3])
def test_targets_that_rest_are_met_against_levels_below_with_longer_levers(joint: int) -> None:
    skeleton = planar(12)
    leaning = forward_kinematics(skeleton, planar_pose(0.5, *[0.0] * 11))
    met = ReachPoint(joint=joint, target=leaning.point(joint), priority=0)
    pulls = ReachPoint(joint=11, target=[18.0, 0.0, 0.0], priority=1)
    motion = solve_sequence(Problem(skeleton, (met, pulls)), Pose.rest(skeleton, (12,)))
    assert motion.met[:, 0].all() and not motion.met[:, 1].any()


def test_where_targets_leap_frames_that_are_solved_alone_begin_anew() -> None:
    """On the branch of the frames before the first joint would be turned three times as far."""
    angles = np.r_[np.linspace(-0.4, -0.38, 8), np.linspace(0.38, 0.4, 8)]
    problem, poses = arm(angles, 1.4, limit=1.3, stiffness=0.9)
    solution = solve_sequence(problem, poses, smoothness=0.0)
    assert solution.reached and solution.branches == (8,)
    assert_allclose(
        np.abs(solution.pose.channels[:, 0, 5]), np.abs(np.abs(angles) - np.arccos(0.7)), atol=1e-3
    )


def test_a_motion_that_a_body_has_made_inside_uneven_limits_is_found() -> None:
    """Frames far apart lose it behind limits; a single solve finds each frame, with other starts."""
    rng = np.random.default_rng(5)
    skeleton = upper_body()
    middle, half = rng.uniform(-0.5, 0.5, skeleton.lower.shape), rng.uniform(0.3, 1.2, skeleton.lower.shape)
    lower, upper = np.array(skeleton.lower), np.array(skeleton.upper)
    lower[1:, 3:], upper[1:, 3:] = (middle - half)[1:, 3:], (middle + half)[1:, 3:]
    skeleton = replace(skeleton, lower=lower, upper=upper)
    # From one pose to the next, five in two seconds.
    keys = rng.uniform(0.0, 1.0, (5, *lower.shape))
    whole = np.linspace(0.0, 2.0, 12)
    before = np.minimum(whole.astype(int), 3)
    part = (whole - before)[:, None, None]
    part = part * part * (3.0 - 2.0 * part)
    part = keys[before] * (1.0 - part) + keys[before + 1] * part
    channels = np.zeros((12, *lower.shape))
    channels[:, 1:, 3:] = lower[1:, 3:] + part[:, 1:, 3:] * 2.0 * half[1:, 3:]
    channels *= skeleton.free
    placed = forward_kinematics(skeleton, posed(channels))
    tasks: list[Task] = []
    for name in ("hips", "head", "hand.L", "hand.R"):
        matrices = placed.matrices[:, skeleton.index(name)]
        tasks.append(ReachPoint(joint=skeleton.index(name), target=matrices[:, :3, 3]))
        tasks.append(MatchOrientation(joint=skeleton.index(name), target=matrices[:, :3, :3]))
    solution = solve_sequence(
        Problem(skeleton, tuple(tasks)), Pose.rest(skeleton, (12,)), times=np.arange(12) / 12.0, restarts=4
    )
    assert solution.errors.max() < 0.02


def posed(channels: Array) -> Pose:
    """A pose without scale."""
    return Pose(channels, np.ones((*channels.shape[:-1], 3)))


def recorded(frames: int = 9) -> tuple[Any, Array, Array]:
    """A chain, the channels of a motion of it, (F, n, 6), and where its end goes, (F, 3)."""
    skeleton = chain(4)
    channels = np.zeros((frames, 4, 6))
    channels[:, :, 3] = 0.3 + 0.1 * np.sin(np.arange(frames))[:, None]
    matrices = forward_kinematics(skeleton, posed(channels)).matrices
    return skeleton, channels, matrices[:, 3, :3, :3] @ tip() + matrices[:, 3, :3, 3]


def test_frames_whose_recorded_pose_meets_all_targets_keep_it() -> None:
    skeleton, channels, targets = recorded()
    upper = np.full((4, 6), np.inf)
    upper[1, 3] = 0.1  # less than is recorded
    limits = replace(skeleton, upper=upper)
    targets = targets.copy()
    targets[4] += (0.0, 0.05, 0.02)
    problem = Problem(limits, ReachPoint(joint=END, point=tip(), target=targets), channels)
    start = posed(np.zeros_like(channels))
    found = solve_sequence(problem, start)
    others = np.arange(9) != 4
    assert_array_equal(found.pose.channels[others], channels[others])  # limits do not change them either
    assert found.reached and not np.array_equal(found.pose.channels[4], channels[4])
    each = solve_each(problem, start)
    assert_array_equal(each.pose.channels[others], channels[others])
    one = Problem(limits, ReachPoint(joint=END, point=tip(), target=targets[0]), channels[0])
    assert_array_equal(solve(one, start[0]).pose.channels, channels[0])


def test_pops_are_told_beside_what_is_recorded() -> None:
    """A leap of the recording is none; a target that leaps while the recording does nothing is one."""
    skeleton, channels, _ = recorded(31)
    start = posed(np.zeros_like(channels))
    leaping = channels.copy()
    leaping[15:, 0, 3] += 0.5
    matrices = forward_kinematics(skeleton, posed(leaping)).matrices
    far = matrices[:, 3, :3, :3] @ tip() + matrices[:, 3, :3, 3]
    told = [
        solve_sequence(Problem(skeleton, follow(targets), preferred), start, smoothness=0.0).branches
        for targets, preferred in ((far, leaping), (far, channels), (far, None))
    ]
    assert told[0] == () and 15 in told[1] and 15 in told[2]
    solved = np.ones(len(skeleton), dtype=np.bool_)  # not recorded: its leap is one of an earlier solve
    options = SolverOptions(smoothness=0.0)
    again = SequenceJob(Problem(skeleton, follow(far), leaping), start, options, solved=solved)
    assert list(again.run()) and 15 in again.solution().branches


def test_recorded_channels_that_do_not_fit_are_refused() -> None:
    skeleton, channels, targets = recorded()
    task = ReachPoint(joint=END, point=tip(), target=targets)
    with pytest.raises(IKError, match=r"preferred channels have shape \(3, 6\)"):
        Problem(skeleton, task, channels[0, :3])
    with pytest.raises(IKError, match="preferred channels of 3 frames, and targets of 9"):
        Problem(skeleton, task, channels[:3])
    with pytest.raises(IKError, match=r"'joint\.0': a preferred channel is not finite"):
        Problem(skeleton, task, np.where(np.arange(6) == 3, np.inf, channels))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_corrected_recording_stays_beside_the_recorded_poses(seed: int) -> None:
    """Far from the rest pose, and without limits: the search begins where the body was recorded."""
    rng = np.random.default_rng(seed)
    skeleton, frames = chain(8), 40
    size = len(skeleton), 3
    channels = np.zeros((frames, len(skeleton), 6))
    way = np.sin(np.linspace(0.0, 2.0, frames))[:, None, None]
    channels[..., 3:] = rng.uniform(-1.2, 1.2, size) + 0.3 * way * rng.normal(size=size)
    placed = forward_kinematics(skeleton, posed(channels))
    place = follow(placed.point("joint.7", tip()) + 0.05 * rng.normal(size=3), joint="joint.7")
    turn = MatchOrientation("joint.7", placed.matrices[:, 7, :3, :3])
    solution = solve_sequence(Problem(skeleton, (place, turn), channels), posed(channels))
    assert solution.reached
    assert np.abs(solution.pose.channels - channels).max() < 0.1

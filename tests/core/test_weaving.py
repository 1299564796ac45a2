# SPDX-License-Identifier: GPL-3.0-or-later
"""Motions woven from branches: the same from both ends, in any chunks, and never dearer than another way."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from blender_ik_addon.core import (
    Pose,
    Problem,
    ReachPoint,
    SequenceSolution,
    SolverOptions,
    forward_kinematics,
    sequence,
    solve_sequence,
    weaving,
)
from blender_ik_addon.core.arrays import IntArray
from blender_ik_addon.core.continuity import Passage, spread
from blender_ik_addon.core.course import Course
from blender_ik_addon.core.newton import Attempt
from blender_ik_addon.core.weaving import Weaving
from tests.core.builders import Array, chain, planar, tip

FRAMES = 60


def wandering(joints: int, seed: int) -> tuple[Problem, Pose]:
    """A chain whose middle and end follow a smooth motion far from rest, made with other poses."""
    rng = np.random.default_rng(seed)
    keys = rng.normal(0.0, 0.8, (5, joints, 3))
    place = np.linspace(0.0, 4.0, FRAMES)
    before = np.minimum(place.astype(int), 3)
    share = (place - before)[:, None, None]
    share = share * share * (3.0 - 2.0 * share)
    skeleton = chain(joints)
    channels = np.zeros((FRAMES, joints, 6))
    channels[:, :, 3:] = keys[before] + share * (keys[before + 1] - keys[before])
    rest = Pose.rest(skeleton, (FRAMES,))
    posed = forward_kinematics(skeleton, Pose(channels, rest.scale))
    tasks = [
        ReachPoint(joint=joint, point=tip(), target=posed.point(joint, tip()))
        for joint in (joints - 1, joints // 2)
    ]
    return Problem(skeleton, tuple(tasks)), rest


def backward(problem: Problem, poses: Pose) -> SequenceSolution:
    """The same motion read from its end."""
    tasks = []
    for task in problem.tasks:
        assert isinstance(task, ReachPoint)
        tasks.append(replace(task, target=np.asarray(task.target)[::-1]))
    return solve_sequence(Problem(problem.skeleton, tuple(tasks)), poses)


# Motions with up to five changes of branch. Each was different backward before it was woven.
@pytest.mark.parametrize(("joints", "seed"), [(3, 1), (4, 3), (5, 8)])
def test_a_motion_is_the_same_backward_and_in_chunks(
    joints: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, poses = wandering(joints, seed)
    forward = solve_sequence(problem, poses)
    assert forward.reached and forward.branches
    monkeypatch.setattr(sequence, "CHUNK", 16)
    assert_allclose(backward(problem, poses).pose.channels[::-1], forward.pose.channels, atol=1e-4)


def test_no_way_is_followed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    explored: list[bool] = []
    explore, attempt = Weaving.explore, Course.attempt

    def counted(self: Course, frames: IntArray, *rest: Any) -> Attempt:
        tried.extend(frames.tolist())
        return attempt(self, frames, *rest)

    def twice(self: Weaving, jumps: Sequence[int], *, alone: bool) -> Iterator[None]:
        yield from explore(self, jumps, alone=alone)
        once = len(tried)
        list(explore(self, jumps, alone=False))
        explored.append(len(tried) == once)

    monkeypatch.setattr(Course, "attempt", counted)
    monkeypatch.setattr(Weaving, "explore", twice)
    solve_sequence(*wandering(4, 3))
    assert explored and all(explored)


def test_what_is_taken_is_finished_however_roughly_ways_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = solve_sequence(*wandering(4, 3))
    monkeypatch.setattr(weaving, "ROUGH", 1e-3)
    rough = solve_sequence(*wandering(4, 3))
    assert_allclose(rough.pose.channels, exact.pose.channels, atol=1e-6)


def test_the_end_that_is_begun_with_does_not_decide_on_which_side_an_elbow_bends() -> None:
    """Each end by itself bends it to another side. All the way one of them costs less, and is taken."""
    skeleton, angle = planar(2), np.linspace(-0.3, 0.7, 40)
    target = 2.0 * np.cos(0.5) * np.stack([-np.sin(angle), np.cos(angle), 0.0 * angle], axis=1)
    problem = Problem(skeleton, (ReachPoint(joint=1, point=tip(), target=target),))
    rest = Pose.rest(skeleton, (len(angle),))
    forward = solve_sequence(problem, rest)
    assert_allclose(
        forward.pose.channels[:, :, 5], np.stack([angle - 0.5, 1.0 + 0.0 * angle], axis=1), atol=1e-4
    )
    assert_allclose(backward(problem, rest).pose.channels[::-1], forward.pose.channels, atol=1e-4)
    assert forward.branches == ()


def wished(angles: list[float]) -> Array:
    """A preferred pose of a planar chain."""
    channels = np.zeros((len(angles), 6))
    channels[:, 5] = angles
    return channels


@pytest.mark.parametrize("frames", [120, 1200])
def test_a_motion_that_winds_up_is_not_made_to_jump_back(frames: int) -> None:
    """Twice round: at the end a pose by itself would be two turns nearer to the preferred one."""
    skeleton = planar(3, preferred=wished([0.0, 0.5, 0.5]))
    round_ = np.linspace(0.0, 4.0 * np.pi, frames)
    target = 2.2 * np.stack([-np.sin(round_), np.cos(round_), np.zeros(frames)], axis=1)
    task = ReachPoint(joint=2, point=tip(), target=target)
    solution = solve_sequence(Problem(skeleton, (task,)), Pose.rest(skeleton, (frames,)))
    assert solution.reached and solution.branches == ()
    assert np.abs(np.diff(solution.pose.channels, axis=0)).max() < 3.0 * 4.0 * np.pi / frames


def test_no_way_through_what_is_known_costs_less() -> None:
    count, answers = 5, 3
    skeleton = planar(2)
    target = np.stack([np.linspace(1.0, 1.2, count), np.ones(count), np.zeros(count)], axis=1)
    task = ReachPoint(joint=1, point=tip(), target=target)
    course = Course(Problem(skeleton, (task,)), Pose.rest(skeleton, (count,)), SolverOptions())
    rng = np.random.default_rng(3)
    for missed in (None, *range(count)) * 4:
        known = rng.normal(0.0, 0.4, (count, answers, 2))
        course.met[:] = np.arange(count) != missed
        course.values[:] = known[:, 0]
        woven = Weaving(course, np.array([4]))
        for frame in range(count):
            assert all(woven.learn(frame, value) for value in known[frame, 1:])
        frames, best = woven.best()
        taken = known[:, 0].copy()
        taken[frames] = best

        def cost(way: Array, own: Array = known[:, 0], missed: int | None = missed) -> float:
            steps = np.abs(np.diff(way, axis=0)).max(axis=1)
            steps[3] = 0.0  # to frame 4 the targets leap
            posture = course.wishes(way)
            if missed is not None and (way[missed] == own[missed]).all():
                posture[missed] = weaving.MISSED
            return float(posture.sum() + weaving.FEWEST * (steps**2).sum())

        ways = [known[np.arange(count), list(way)] for way in product(range(answers), repeat=count)]
        assert_allclose(cost(taken), min(cost(way) for way in ways), rtol=1e-12)
        # What was the motion's own is known still, unless it was missed.
        assert not any(woven.learn(frame, known[frame, 0]) for frame in frames.tolist() if frame != missed)
        course.values[frames], course.met[frames] = best, True
        assert not len(woven.best()[0])


# ----------------------------------------------------------------------------------------------------------
# Jumps near each other


def test_jumps_that_touch_are_spread_the_same_from_both_ends() -> None:
    rng = np.random.default_rng(0)
    motion = np.cumsum(rng.normal(0.0, 0.1, (30, 3)), axis=0)
    passages = [
        Passage(8, 8, np.arange(3, 12)),
        Passage(11, 13, np.arange(9, 17)),
        Passage(18, 18, np.arange(14, 24)),
    ]
    end = len(motion) - 1
    turned = [
        Passage(end - some.last + 1, end - some.first + 1, end - some.frames[::-1]) for some in passages[::-1]
    ]
    frames, poses = spread(motion, passages)  # type: ignore[arg-type]
    others, turned_poses = spread(motion[::-1], turned)  # type: ignore[arg-type]
    assert (frames == np.arange(3, 24)).all() and (others == end - frames[::-1]).all()
    assert_allclose(turned_poses[::-1], poses, atol=1e-14)


def test_what_lies_between_two_jumps_stays_where_both_are_far() -> None:
    """And a motion without a jump stays as it is where nothing moves."""
    motion = np.repeat([[0.0], [1.0], [3.0]], 10, axis=0)
    passages = [Passage(10, 10, np.arange(7, 13)), Passage(20, 20, np.arange(14, 26))]
    frames, poses = spread(motion, passages)  # type: ignore[arg-type]
    assert_allclose(poses[frames == 13], 1.0)
    assert (np.diff(poses[:, 0]) >= 0.0).all() and poses.min() > 0.0 and poses.max() < 3.0
    still, unmoved = spread(np.ones((30, 2)), passages)  # type: ignore[arg-type]
    assert_allclose(unmoved, np.ones((len(still), 2)))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Random problems, by every method: solved inside the limits with true errors, or refused in words.

250 of them where the tests are run often, 5,000 in a whole run of `scripts/test`, and 100,000 with
`POISE_CASES=20 scripts/test tests/core/test_random_problems.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from blender_ik_addon.core import (
    METHODS,
    AimAt,
    Balance,
    IKError,
    KeepDistance,
    MatchOrientation,
    OneOf,
    OnPlane,
    PointPole,
    Pose,
    PosedSkeleton,
    Problem,
    ReachFrame,
    ReachPoint,
    SequenceSolution,
    Skeleton,
    Solution,
    SolverOptions,
    StayNear,
    Task,
    Tracker,
    diagnose,
    forward_kinematics,
    solve,
    solve_each,
    solve_sequence,
)
from blender_ik_addon.core.model.kinematics import orthogonalized
from blender_ik_addon.core.model.skeleton import INHERIT_SCALE
from tests.choices import Choices
from tests.conftest import cases
from tests.core.builders import random_rotations
from tests.core.strategies import ORDER_NAMES

Array = npt.NDArray[np.float64]

KINDS = (
    *("point", "point", "some axes", "orientation", "frame", "aim", "plane", "floor", "pole", "distance"),
    *("two joints", "balance", "near", "one of"),
)
PLACES = ("near", "near", "joint", "far", "farthest", "root")
"""Where a target is: at arm's length, at a joint of the start, 100 m away, 1e15 m away, in the origin."""
WEIGHTS = (1.0, 1.0, 1.0, 0.0, 1e-3, 1e3)
SCALES = (1.0, 1.0, 1.0, 0.01, 100.0, -1.0, 0.0)
BOXES = ("none", "around", "aside", "point")
"""Limits: none, about 0, such that 0 is outside, lower and upper the same."""
SPOILT = (np.nan, np.inf, -np.inf, 1e200)


@dataclass(frozen=True, repr=False)
class Case:
    """Something to solve, or to be refused."""

    skeleton: Skeleton
    tasks: tuple[Task, ...]
    preferred: Array | None
    poses: Pose
    options: SolverOptions
    twice: bool
    """Whether it is solved a second time, from a problem stated anew, with the same result."""

    def __repr__(self) -> str:
        own = {
            name: value.tolist()
            for name, value in vars(self.skeleton).items()
            if isinstance(value, np.ndarray)
        }
        start = (self.poses.channels.tolist(), self.poses.scale.tolist())
        return f"Case({own}, {self.tasks}, {self.preferred}, {start}, {self.options})"

    def problem(self, *more: Task) -> Problem:
        return Problem(self.skeleton, (*self.tasks, *more), self.preferred)


BYTES = 96
"""Of a case; few need so many."""
given_bytes = given(st.binary(min_size=BYTES, max_size=BYTES))


def case_of(data: bytes) -> tuple[Case, Choices]:
    """A case with one pose, and further choices."""
    choices = Choices(data)
    return random_case(choices), choices


def random_case(choices: Choices, frames: int | None = None) -> Case:
    """A tree with limits, some tasks, a pose to start from, settings.

    What has names or is special is chosen one by one, so that it can be made simpler; the numbers beside it
    come from one seed. They are small, as what goes wrong with many joints goes wrong with few.
    """
    rng = np.random.default_rng(choices.large())
    parents = choices.some(lambda: choices.below(5) - 1, 1, 4)
    parents = [-1 if parent >= joint else parent for joint, parent in enumerate(parents)]
    n = len(parents)
    skeleton = _skeleton(choices, rng, parents)
    count = (frames,) if frames is not None else ()
    channels = rng.normal(size=(*count, n, 6)) * [0.1, 0.1, 0.1, 1.0, 1.0, 1.0]
    if choices.rarely():  # a start that is special: straight, or in gimbal lock
        channels = np.zeros_like(channels) + choices.of((0.0, np.pi / 2, np.pi))
    scale = np.ones((*count, n, 3))
    if choices.rarely():
        even = choices.yes()
        scale[..., choices.below(n), slice(None) if even else 1] = choices.of(SCALES)
    poses = Pose(channels, scale)
    placed = forward_kinematics(skeleton, poses).matrices[..., :3, 3].reshape(-1, n, 3)
    kinds = choices.some(lambda: choices.of(KINDS), 0, 2)
    tasks = tuple(_task(choices, rng, kind, skeleton, placed, frames) for kind in kinds)
    preferred = None
    if choices.rarely():
        preferred = np.where(rng.random((n, 6)) < 0.3, np.nan, rng.normal(size=(n, 6)) * 0.3)
    options = SolverOptions(
        redundancy=choices.of(("preferred", "start")),
        max_iterations=choices.of((1, 1, 2, 5)),
        restarts=choices.of((0, 0, 0, 1)),
        clamp_distance=choices.of((None, 0.1)),
        smoothness=choices.of((0.2, 0.0)),
    )
    return Case(skeleton, tasks, preferred, poses, options, choices.rarely())


def _skeleton(choices: Choices, rng: np.random.Generator, parents: list[int]) -> Skeleton:
    n = len(parents)
    rest = np.tile(np.eye(4), (n, 1, 1))
    rest[:, :3, 3] = rng.normal(size=(n, 3))
    shape = choices.of(("any", "straight", "zero length", "huge", "tiny"))
    if shape == "straight":
        rest[:, :3, 3] = [0.0, 1.0, 0.0]
    else:
        rest[:, :3, :3] = random_rotations(rng, n)
        rest[:, :3, 3] *= {"any": 1.0, "zero length": 0.0, "huge": 1e4, "tiny": 1e-4}[shape]
    box = choices.of(BOXES)
    upper = {"none": np.inf, "around": 0.5, "aside": 0.6, "point": 0.25}[box]
    lower = {"none": -np.inf, "around": -0.5, "aside": 0.2, "point": 0.25}[box]
    limited = rng.random((n, 6)) < 0.7
    free = choices.of(("turns", "all", "some", "slides", "none"))
    which = {
        "turns": np.tile([False] * 3 + [True] * 3, (n, 1)),
        "all": np.ones((n, 6), np.bool_),
        "some": rng.random((n, 6)) < 0.4,
        "slides": np.tile([True] * 3 + [False] * 3, (n, 1)),
        "none": np.zeros((n, 6), np.bool_),
    }[free]
    plain = choices.yes()
    return Skeleton.build(
        [f"j{joint}" for joint in range(n)],
        parents,
        rest=rest,
        orders=[ORDER_NAMES[order] for order in rng.integers(0, 6, n)],
        free=which,
        lower=np.where(limited, lower, -np.inf),
        upper=np.where(limited, upper, np.inf),
        stiffness=rng.random((n, 6)) * choices.of((0.0, 0.9)),
        preferred=choices.of((0.0, np.nan, 0.5)),
        inherit_rotation=None if plain else rng.random(n) < 0.6,
        inherit_scale=None if plain else [INHERIT_SCALE[mode] for mode in rng.integers(0, 6, n)],
        local_location=None if plain else rng.random(n) < 0.6,
        up=choices.of("ZY"),
    )


def _task(
    choices: Choices,
    rng: np.random.Generator,
    kind: str,
    skeleton: Skeleton,
    placed: Array,
    frames: int | None,
) -> Task:
    """A task of a kind; its target moves if there are frames. `placed` are joints of the start, (F, n, 3)."""
    n = len(skeleton)
    joint = choices.below(n)
    priority, weight = choices.of((0, 0, 1, 7)), choices.of(WEIGHTS)
    common: dict[str, Any] = {"priority": priority, "weight": weight}
    where = choices.of(PLACES)
    moves = bool(frames) and choices.yes()
    count = frames if moves and frames else 1
    away = rng.normal(size=(count, 3)) * skeleton.reach
    target = {
        "near": away,
        "joint": np.broadcast_to(placed[:1, -1] if len(placed) else np.zeros((1, 3)), (count, 3)),
        "far": away * 100.0,
        "farthest": np.tile([[1e15, 0.0, 0.0]], (count, 1)),
        "root": np.zeros((count, 3)),
    }[where]
    turn, height = random_rotations(rng, count), np.abs(away[:, 0])
    if not moves:
        target, turn, height = target[0], turn[0], height[0]
    axis, axes = rng.normal(size=3), ((True, False, True), (False, True, False))[choices.below(2)]
    if kind in ("point", "some axes"):
        own = {"axes": axes, "armature_from_axes": turn} if kind == "some axes" else {}
        softness = choices.of((0.0, 0.0, 0.1))
        return ReachPoint(joint=joint, target=target, point=axis, softness=softness, **own, **common)
    if kind == "orientation":
        every = (axes, (True, True, True))[choices.below(2)]
        return MatchOrientation(joint=joint, target=turn, axes=every, **common)
    if kind == "frame":
        frame = np.zeros((*target.shape[:-1], 4, 4))
        frame[..., :3, :3], frame[..., :3, 3], frame[..., 3, 3] = turn, target, 1.0
        return ReachFrame(joint=joint, target=frame, **common)
    if kind == "aim":
        return AimAt(joint=joint, target=target, axis=axis, **common)
    if kind in ("plane", "floor"):
        side = "ON" if kind == "plane" else "ABOVE"
        return OnPlane(joint=joint, origin=target, normal=axis, point=rng.normal(size=3), side=side, **common)
    if kind == "distance":
        return KeepDistance(joint=joint, distance=height, target=target, **common)
    if kind == "balance":
        return Balance(masses=rng.random(n) + 0.1, target=target, **common)
    if kind == "near":
        over = tuple({choices.below(n) for _ in range(2)})
        return StayNear(channels=rng.normal(size=(n, 6)), over=over, **common)
    if kind == "one of":
        others = tuple(ReachPoint(joint=joint, target=target * sign) for sign in (1.0, -1.0))
        return OneOf(alternatives=others, **common)
    if kind == "two joints":
        return KeepDistance(joint=joint, other=choices.below(n), distance=height, **common)
    names = [choices.below(n) for _ in range(3)]
    return PointPole(root=names[0], joint=names[1], tip=names[2], target=target, **common)


# What the errors are, read from forward kinematics


def errors_of(task: Task, posed: PosedSkeleton, channels: Array, moving: list[int]) -> float | None:
    """Error of a task without frames in a posed skeleton; None where it is not known without the solver."""
    skeleton = posed.skeleton

    def matrix(joint: str | int) -> Array:
        return posed.matrices[skeleton.index(joint)]

    def point(joint: str | int, place: Array | None = None) -> Array:
        return posed.point(joint, place)

    if isinstance(task, ReachPoint):
        away = task.armature_from_axes.T @ (point(task.joint, task.point) - task.target)
        return float(np.linalg.norm(away[list(task.axes)]))
    if isinstance(task, OnPlane):
        height = (point(task.joint, task.point) - task.origin) @ task.normal - task.offset
        return float(max(-height, 0.0) if task.side == "ABOVE" else abs(height))
    if isinstance(task, KeepDistance):
        other = task.target if task.other is None else point(task.other, task.target)
        return float(abs(np.linalg.norm(point(task.joint, task.point) - other) - task.distance))
    if isinstance(task, Balance):
        centre = task.masses @ posed.matrices[:, :3, 3] / task.masses.sum()
        ground = np.abs(skeleton.up) < 0.5
        return float(np.linalg.norm((centre - task.target)[ground]))
    if isinstance(task, StayNear):
        over = np.zeros_like(skeleton.free)
        over[[joint for joint in task.joints(skeleton) if joint in moving]] = True
        return np.abs(channels - task.channels)[over & skeleton.free].max(initial=0.0)
    if isinstance(task, OneOf):
        return None  # which one is taken, is up to the solver: see below
    linear = matrix(task.joint)[:3, :3] if isinstance(task, MatchOrientation | AimAt) else None
    if isinstance(task, MatchOrientation) and linear is not None:
        turned = orthogonalized(linear, normalize=True)
        volume = round(float(np.linalg.det(turned)))
        if not volume:
            return np.inf
        relative = task.target.T @ turned * volume
        angle = np.arccos(np.clip(0.5 * (np.trace(relative) - 1.0), -1.0, 1.0))
        # About some axes alone it is a part of the turn, and near a half turn any of two.
        return float(angle) if all(task.axes) and 1e-4 < angle < np.pi - 1e-4 else None
    if isinstance(task, AimAt) and linear is not None:
        ray, away = linear @ task.axis, task.target - point(task.joint, task.point)
        sine, cosine = np.linalg.norm(np.cross(ray, away)), ray @ away
        if np.linalg.norm(ray) < 1e-9 or np.linalg.norm(away) < 1e-6 * skeleton.reach:
            return None
        return float(np.arctan2(sine, cosine))
    assert isinstance(task, PointPole)
    root, middle, tip = (point(joint) for joint in (task.root, task.joint, task.tip))
    rest = skeleton.armature_from_joint_rest[:, :3, 3]
    bone = np.linalg.norm(rest[skeleton.index(task.joint)] - rest[skeleton.index(task.root)])
    axis = (tip - root) / max(np.linalg.norm(tip - root), 1e-9 * bone)
    bent, wanted = (away - (away @ axis) * axis for away in (middle - root, task.target - root))
    if min(np.linalg.norm(bent), np.linalg.norm(wanted)) <= 1e-6 * bone:
        return None
    angle = np.arctan2(np.linalg.norm(np.cross(wanted, bent)), wanted @ bent)
    return float(angle * np.linalg.norm(bent) / np.hypot(np.linalg.norm(bent), 0.05 * bone))


def check_pose(problem: Problem, before: Pose, after: Pose, moving: list[int]) -> None:
    """Finite, inside the limits, and changed only where it may be.

    A preferred value outside the limits widens them: it may be a recorded one.
    """
    skeleton = problem.skeleton
    preferred = skeleton.preferred if problem.preferred is None else problem.preferred
    channels = after.channels
    assert np.isfinite(channels).all()
    may = np.zeros_like(skeleton.free)
    may[moving] = skeleton.free[moving]
    assert_array_equal(channels[..., ~may], before.channels[: len(channels)][..., ~may])
    assert_array_equal(after.scale, before.scale[: len(channels)])
    assert (channels >= np.where(may, np.fmin(skeleton.lower, preferred), -np.inf)).all()
    assert (channels <= np.where(may, np.fmax(skeleton.upper, preferred), np.inf)).all()


def check_errors(problem: Problem, pose: Pose, errors: list[float]) -> None:
    """Errors of one frame, in the order of the tasks that have a weight."""
    posed = forward_kinematics(problem.skeleton, pose)
    size = np.abs(posed.matrices).max() + np.abs(pose.channels).max()
    for task, error in zip(problem.weighty_tasks, errors, strict=True):
        if isinstance(task, OneOf):
            known = [errors_of(other, posed, pose.channels, []) for other in task.alternatives]
            assert any(
                np.isclose(error, each, rtol=1e-7, atol=1e-7 * size) for each in known if each is not None
            )
            continue
        known = errors_of(task, posed, pose.channels, problem.moving_joints)
        if known is not None:
            extent = size + np.abs(task.aim[np.isfinite(task.aim)]).max(initial=0.0)
            atol = 1e-6 if task.angular else 1e-9 * extent
            assert_allclose(error, known, rtol=1e-7, atol=atol, err_msg=repr(task))


def solved(work: Any) -> Any:
    """What work gives; None where it refuses in words."""
    try:
        return work()
    except IKError as error:
        assert len(str(error).split()) > 2
        return None


def same(one: Any, other: Any) -> bool:
    """Whether two solutions are the same in every bit."""
    poses = one.pose.channels.tobytes() == other.pose.channels.tobytes()
    if isinstance(one, Solution):
        return poses and one.errors == other.errors and one.message == other.message
    return poses and one.errors.tobytes() == other.errors.tobytes() and one.statuses == other.statuses


def _with_channel(case: Case, value: float) -> object:
    channels = case.poses.channels.copy()
    channels[0, 0] = value
    return Pose(channels, case.poses.scale)


SPOILT_WAYS: tuple[Callable[[Case, float], object], ...] = (
    _with_channel,
    lambda case, value: case.problem(ReachPoint(joint=0, target=[value, 0.0, 0.0])),
    lambda case, value: case.problem(ReachPoint(joint=0, target=np.zeros(3), weight=value)),
    lambda case, value: case.problem(KeepDistance(joint=0, distance=value)),
    lambda case, value: case.problem(OnPlane(joint=0, origin=np.zeros(3), normal=[value, 0.0, 0.0])),
    lambda case, value: case.problem(ReachPoint(joint=len(case.skeleton), target=np.zeros(3))),
    lambda case, value: Pose(case.poses.channels, np.full_like(case.poses.scale, value)),
)
"""A number that is none, in all places where one may be."""


# What is held of them


@pytest.mark.parametrize("method", METHODS)
def test_a_pose_is_solved_or_refused(method: str) -> None:
    @cases(480, method)
    @given_bytes
    def check(data: bytes) -> None:
        check_one(case_of(data)[0], method)

    check()


def check_one(case: Case, method: str) -> None:
    def work() -> Solution:
        return solve(case.problem(), case.poses, case.options, method=method)

    solution = solved(work)
    if solution is None:
        return
    problem = case.problem()
    check_pose(problem, case.poses, solution.pose, problem.moving_joints)
    check_errors(problem, solution.pose, [error.error for error in solution.errors])
    assert not case.twice or same(solution, work())


@pytest.mark.parametrize("method", METHODS)
def test_a_motion_is_solved_or_refused(method: str) -> None:
    @cases(40, method)
    @given_bytes
    def check(data: bytes) -> None:
        choices = Choices(data)
        each, frames = choices.yes(), choices.below(4)
        check_motion(random_case(choices, frames), method, each)

    check()


def check_motion(case: Case, method: str, each: bool) -> None:
    def work() -> SequenceSolution:
        run = solve_each if each else solve_sequence
        return run(case.problem(), case.poses, case.options, method=method, restarts=0)

    solution = solved(work)
    if solution is None:
        return
    problem = case.problem()
    assert len(solution) == len(case.poses)
    check_pose(problem, case.poses, solution.pose, problem.moving_joints)
    for frame in range(len(solution)):
        tasks = [task.at_frame(frame) if task.frames is not None else task for task in problem.tasks]
        one = Problem(problem.skeleton, tasks)
        check_errors(one, solution.pose[frame], solution.errors[frame].tolist())
        assert solution.frame(frame).message
    assert not case.twice or same(solution, work())


@cases(120)
@given_bytes
def test_a_tracked_pose_is_solved_or_refused(data: bytes) -> None:
    case, choices = case_of(data)
    options = replace(case.options, method=choices.of(list(METHODS)))
    step = choices.of((0.0, 1e-4, 0.1, -1.0))
    tracker = solved(lambda: Tracker(case.problem(), case.poses, options))
    if tracker is None:
        return
    first = tracker.solve()
    assert same(first, solve(case.problem(), case.poses, options))
    labels = [task.label for task in case.tasks]
    moved = {
        task.label: np.clip(task.aim + step, -1e15, 1e15)
        for task in case.tasks
        if isinstance(task, ReachPoint) and task.weight and labels.count(task.label) == 1
    }
    solution = tracker.solve(moved)
    assert solution.pose == tracker.pose
    problem = case.problem()
    check_pose(problem, case.poses, solution.pose, problem.moving_joints)
    tasks = [task.moved(moved[task.label]) if task.label in moved else task for task in problem.tasks]
    check_errors(replace(problem, tasks=tasks), solution.pose, [error.error for error in solution.errors])


@cases(100)
@given_bytes
def test_a_pose_is_diagnosed_or_refused(data: bytes) -> None:
    case, _ = case_of(data)
    found = solved(lambda: diagnose(case.problem(), case.poses))
    assert found is None or found.lines


@cases(100)
@given_bytes
def test_numbers_that_are_none_are_refused(data: bytes) -> None:
    case, choices = case_of(data)
    spoilt = choices.of(SPOILT_WAYS)
    with pytest.raises(IKError):
        spoilt(case, choices.of(SPOILT))

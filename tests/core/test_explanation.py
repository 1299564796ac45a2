# SPDX-License-Identifier: GPL-3.0-or-later
"""What the solver says of a miss, and that it is true: each reason is tried out by taking the cause away."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blender_ik_addon.core import (
    Explanation,
    MatchOrientation,
    OnPlane,
    Pose,
    Problem,
    ReachPoint,
    Reason,
    Skeleton,
    Solution,
    Status,
    StayNear,
    Task,
    forward_kinematics,
    solve,
)
from blender_ik_addon.core.amounts import angle_text
from blender_ik_addon.core.explain import reasons as module
from blender_ik_addon.core.explain.explanation import Limit
from tests.core.builders import Array, chain, planar, random_pose, random_rotations, tip, torso, tree

each_method = pytest.mark.parametrize("method", ["PRIORITY", "DLS"])

ENOUGH: dict[str, dict[str, Any]] = {"PRIORITY": {}, "DLS": {"max_iterations": 1000, "redundancy": "start"}}
"""With what a method comes to rest out of reach."""


def reach(joint: str, target: Any, **fields: Any) -> ReachPoint:
    """Bring the end of a bone of a chain to a place."""
    return ReachPoint(joint=joint, target=np.array(target, dtype=float), point=tip(), **fields)


def solved(skeleton: Skeleton, *tasks: Task, restarts: int = 2, **options: Any) -> Solution:
    """Solve from the rest pose."""
    return solve(Problem(skeleton, tasks), Pose.rest(skeleton), restarts=restarts, **options)


def why(solution: Solution, number: int = 0) -> Explanation:
    """The explanation of a task that was missed."""
    answer = solution.errors[number].why
    assert answer is not None
    return answer


def knee(limit: float = 0.3) -> Skeleton:
    """Two bones in a plane, the second of which bends by at most `limit` [rad] either way."""
    upper = np.full((2, 6), np.inf)
    upper[1, 5] = limit
    return planar(2, lower=-upper, upper=upper)


# Nothing to explain


def test_no_task_needs_no_explanation():
    solution = solved(chain(2))
    assert solution.errors == () and solution.message == "nothing to solve"


@each_method
def test_what_is_reached_is_not_explained_and_costs_nothing(method: str, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise AssertionError("a pose that reaches everything was explained")

    monkeypatch.setattr(module, "_Missed", refuse)
    solution = solved(chain(2), reach("joint.1", [1, 1, 0]), method=method)
    assert solution.reached and solution.errors[0].why is None and solution.errors[0].note == ""
    assert solution.message == "target reached"


@each_method
def test_a_task_without_weight_is_neither_explained_nor_named(method: str):
    solution = solved(
        chain(2),
        reach("joint.1", [0, -1, 0], weight=0.0, name="none"),
        reach("joint.1", [3, 0, 0], name="hand"),
        method=method,
    )
    assert [error.name for error in solution.errors] == ["hand"]
    assert why(solution).reason is Reason.OUT_OF_REACH and why(solution).shares_with == ()


# Out of reach


@each_method
def test_a_stretched_arm_is_told_how_far_the_target_lies_beyond_it(method: str):
    solution = solved(chain(3), reach("joint.2", [1, 3, 1], name="hand"), method=method, **ENOUGH[method])
    answer = why(solution)
    assert answer.reason is Reason.OUT_OF_REACH and answer.limits == answer.outranked_by == ()
    assert answer.beyond == pytest.approx(np.sqrt(11.0) - 3.0, rel=1e-9)
    assert solution.errors[0].note == "317 mm beyond the longest reach of its chain"
    assert solution.message == "1 of 1 targets missed: hand by 317 mm (beyond the longest reach of its chain)"
    assert answer.text.startswith("317 mm ")


def test_what_lies_outside_the_plane_of_hinges_is_out_of_reach_though_not_too_far():
    answer = why(solved(planar(3), reach("joint.2", [1, 1.5, 0.4])))
    assert answer.reason is Reason.OUT_OF_REACH and answer.beyond == 0.0
    assert answer.text == "400 mm out of reach; the best pose found"


def test_axes_that_do_not_matter_do_not_count_for_the_reach():
    far_aside = reach("joint.1", [9, 2.5, 0], axes=(False, True, False))
    answer = why(solved(planar(2), far_aside))
    assert answer.reason is Reason.OUT_OF_REACH
    assert answer.error == pytest.approx(0.5, abs=1e-6) and answer.beyond == pytest.approx(0.5, abs=1e-9)
    assert solved(planar(2), replace(far_aside, target=np.array([9, 1.5, 0]))).reached


def test_a_plane_that_cannot_be_come_above_is_out_of_reach():
    """The slack that it lacks is a limit of nobody's: nothing was named, and the reason was empty."""
    skeleton = chain(3)
    above = OnPlane(joint="joint.2", origin=np.array([0.0, 9.0, 0.0]), normal=np.array([0.0, 1.0, 0.0]))
    for task in (above, replace(above, side="ABOVE")):
        assert why(solved(skeleton, task)).why()
    assert why(solved(skeleton, replace(above, side="ABOVE"))).reason is Reason.OUT_OF_REACH


@pytest.mark.parametrize("reason", list(Reason))
def test_a_reason_is_never_empty(reason: Reason):
    assert Explanation(task="hand", error=0.1, angular=False, reason=reason).why()


def test_an_orientation_about_an_axis_that_no_joint_has_is_out_of_reach():
    turned = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
    answer = why(solved(planar(2), MatchOrientation(joint="joint.1", target=turned)))
    assert answer.reason is Reason.OUT_OF_REACH and answer.angular
    assert answer.text == "90° out of reach; the best pose found"


def test_a_root_that_slides_has_no_longest_reach():
    free = np.zeros((2, 6), dtype=bool)
    free[0, 0] = free[:, 5] = True
    skeleton = chain(2, free=free)
    answer = why(solved(skeleton, reach("joint.1", [5, 3, 0])))
    assert answer.reason is Reason.OUT_OF_REACH and answer.beyond == 0.0
    assert answer.error == pytest.approx(1.0, abs=1e-5)


def test_where_nothing_may_move_that_is_said():
    skeleton = chain(3, free=[[False] * 6, [False] * 6, [False] * 5 + [True]])
    answer = why(solved(skeleton, ReachPoint(joint="joint.1", target=np.zeros(3))))
    assert answer.reason is Reason.OUT_OF_REACH and not answer.movable
    assert answer.text == "1000 mm off, no free channel moves it"


# Limits


@each_method
def test_a_knee_at_its_limit_is_named_with_the_channel_and_the_angle(method: str):
    solution = solved(knee(), reach("joint.1", [0.5, 0.2, 0], name="foot"), method=method)
    (limit,) = why(solution).limits
    assert why(solution).reason is Reason.LIMITS
    assert (limit.joint, limit.channel, abs(limit.value)) == ("joint.1", 5, 0.3)
    assert limit.upper == (limit.value > 0.0)
    assert "joint.1 rotation z at " in solution.message and "17.2°" in solution.errors[0].note


def test_angles_of_limits_are_written_in_tenths_of_a_degree():
    at = {1e-16: "0°", -2.4e-16: "0°", np.radians(-12.34): "-12.3°", np.radians(125.0): "125°"}
    for value, text in at.items():
        limit = Limit(joint="knee", channel=3, value=value, upper=False, gain=1.0)
        assert limit.text() == f"knee rotation x at {text}"


@each_method
def test_a_limit_on_which_a_channel_stands_by_chance_is_not_named(method: str):
    upper = np.full((3, 6), np.inf)
    upper[1, 5], upper[2, 5] = 0.3, 0.0  # the last joint stays straight, which is where it is wanted
    lower = -upper
    solution = solved(
        planar(3, lower=lower, upper=upper), reach("joint.2", [9, 0, 0], name="hand"), method=method
    )
    assert ("joint.2", 5) in solution.limited
    assert why(solution).reason is Reason.OUT_OF_REACH and why(solution).limits == ()


def test_a_translation_at_its_limit_is_told_in_millimetres():
    free = np.zeros((1, 6), dtype=bool)
    free[0, 0] = True
    upper = np.full((1, 6), 0.25)
    skeleton = chain(1, free=free, lower=-upper, upper=upper)
    answer = why(solved(skeleton, reach("joint.0", [1, 1, 0])))
    assert answer.text == "750 mm off, at its limits: joint.0 translation x at 250 mm; the best pose found"
    assert answer.limits[0].gain == pytest.approx(1.0) and answer.limits[0].upper
    assert "translation x at 2.5 mm" in answer.why(0.01)


def test_a_bend_that_limits_forbid_at_second_order_is_a_matter_of_limits():
    """A straight arm does not pull at an elbow that would have to bend to come nearer."""
    lower = np.full((2, 6), -np.inf)
    lower[1, 5] = 0.0
    skeleton = planar(2, lower=lower, upper=-lower)
    answer = why(solved(skeleton, reach("joint.1", [0, 1.2, 0])))
    assert answer.reason is Reason.LIMITS and answer.limits[0].joint == "joint.1"
    assert all(limit.gain == 0.0 for limit in answer.limits)


@settings(max_examples=3)
@given(seed=st.integers(0, 10**6))
def test_releasing_a_named_limit_helps_as_much_as_said_and_releasing_another_does_not(seed: int):
    rng = np.random.default_rng(seed)
    skeleton = chain(3, lower=-0.4, upper=0.4)
    target = forward_kinematics(skeleton, random_pose(rng, skeleton, angle=0.4)).point("joint.2", tip())
    task = reach("joint.2", target + rng.normal(size=3) * 0.8)
    solution = solved(skeleton, task)
    if solution.reached or why(solution).reason is not Reason.LIMITS:
        return
    step = 1e-3
    gains = {(limit.joint, limit.channel): limit.gain for limit in why(solution).limits}
    assert set(gains) <= set(solution.limited)

    def error(skeleton: Skeleton) -> float:
        again = solve(
            Problem(skeleton, (task,)),
            solution.pose,
            restarts=0,
            step_tolerance=1e-9,
            max_iterations=200,
            redundancy="start",
        )
        return again.errors[0].error

    before = error(skeleton)
    for name, channel in solution.limited:
        joint = skeleton.index(name)
        side = "upper" if solution.pose.channels[joint, channel] > 0.0 else "lower"
        released = np.array(getattr(skeleton, side))
        released[joint, channel] += step if side == "upper" else -step
        gain = (before - error(replace(skeleton, **{side: released}))) / step
        assert gain == pytest.approx(gains.get((name, channel), 0.0), abs=0.02, rel=0.1)


# Levels


def conflict(**second: Any) -> tuple[Task, ...]:
    """Two places for the same hand."""
    return (
        reach("joint.2", [1, 1.5, 0], name="first"),
        reach("joint.2", [-1, 1.5, 0], name="second", **second),
    )


def test_the_level_that_took_precedence_is_named_with_its_tasks():
    solution = solved(planar(3), *conflict(priority=2))
    assert solution.errors[0].reached
    answer = why(solution, 1)
    assert (answer.reason, answer.outranked_by, answer.levels) == (Reason.PRECEDENCE, ("first",), (0,))
    assert solution.errors[1].note == "2000 mm off, level 0 takes precedence: first"


def test_a_method_without_levels_knows_no_precedence():
    answers = [why(solved(planar(3), *conflict(priority=2), method="DLS"), number) for number in (0, 1)]
    assert [answer.shares_with for answer in answers] == [("second",), ("first",)]
    assert all(answer.outranked_by == () and answer.level is None for answer in answers)
    assert answers[0].text == "1000 mm off, shares the error with second"


@each_method
@pytest.mark.parametrize("weight", [1.0, 0.1, 0.01])
def test_tasks_of_one_level_share_it(method: str, weight: float):
    solution = solved(planar(3), *conflict(weight=weight), method=method)
    answer = why(solution, 1)
    assert (answer.reason, answer.shares_with) == (Reason.SHARED, ("first",))
    assert answer.text.endswith(" mm off, shares level 0 with first")


def test_who_has_no_part_in_it_is_not_named():
    skeleton = torso()
    rest = forward_kinematics(skeleton, Pose.rest(skeleton))
    free = np.array(skeleton.free)
    free[0] = False
    fixed = replace(skeleton, free=free)
    solution = solved(
        fixed,
        ReachPoint(joint="hand.R", target=rest.point("hand.R"), name="right"),
        ReachPoint(joint="chest", target=rest.point("chest"), name="chest"),
        ReachPoint(
            joint="hand.L", target=rest.point("hand.L") + np.array([0.0, 0.0, 3.0]), name="left", priority=1
        ),
        StayNear(channels=np.zeros((len(fixed), 6)), over=("upper_arm.R",), priority=2),
    )
    answer = why(solution, 2)
    assert answer.outranked_by in ((), ("right",)) and answer.shares_with == ()


def test_a_level_that_is_missed_holds_by_its_curvature():
    """Bending the stretched arm costs it at second order only, yet nothing below may bend it."""
    solution = solved(
        planar(3), reach("joint.2", [5, 1.5, 0], name="far"), reach("joint.1", [-1, 1.5, 0], priority=1)
    )
    assert why(solution, 0).reason is Reason.OUT_OF_REACH
    assert (why(solution, 1).reason, why(solution, 1).outranked_by) == (Reason.PRECEDENCE, ("far",))


def test_a_lower_level_at_a_longer_lever_does_not_keep_a_level_from_its_balance():
    skeleton = planar(1)
    near = ReachPoint(joint="joint.0", target=[0.0, 5.0, 0.0], point=[0.0, 0.1, 0.0], name="near")
    far = ReachPoint(joint="joint.0", target=[5.0, 0.0, 0.0], point=tip(), priority=1, name="far")
    solution = solved(skeleton, near, far)
    # A hundredth of the pull at ten times the lever.
    assert solution.pose.channels[0, 5] == pytest.approx(-0.1, abs=0.01)
    assert why(solution).reason is Reason.OUT_OF_REACH
    assert why(solution, 1).reason is Reason.PRECEDENCE and why(solution, 1).outranked_by == ("near",)


def test_who_misses_little_beside_one_that_misses_much_shares_the_level_with_it():
    # The one takes the pull of the level, so that the other gives way to what is below.
    skeleton = planar(2)
    one = ReachPoint(joint="joint.0", target=[0.0, 50.0, 0.0], point=[0.0, 0.1, 0.0], name="one")
    other = ReachPoint(joint="joint.1", target=[0.0, 2.0, 0.0], point=tip(), name="other")
    below = ReachPoint(joint="joint.1", target=[50.0, 1.0, 0.0], point=tip(), priority=1, name="below")
    solution = solved(skeleton, one, other, below)
    assert why(solution, 1).reason is Reason.SHARED and why(solution, 1).shares_with == ("one",)


def test_entries_below_rounding_on_which_lapack_gives_up_change_no_reason(monkeypatch: pytest.MonkeyPatch):
    tasks = (*conflict(priority=2), reach("joint.1", [-2, 1.5, 0], name="third", priority=3))
    before = [error.note for error in solved(planar(3), *tasks).errors]
    svd, given_up = np.linalg.svd, []

    def choosy(matrix: Array, *args: Any, **options: Any) -> Any:
        sizes = np.abs(matrix)
        if ((sizes > 0.0) & (sizes < 1e-20)).any():
            given_up.append(matrix)
            raise np.linalg.LinAlgError("SVD did not converge")
        return svd(matrix, *args, **options)

    holding = module._Frame._holding  # rows with such entries, as a limb that is nearly straight has them
    monkeypatch.setattr(
        module._Frame,
        "_holding",
        lambda *args: [(task, np.where(rows == 0.0, 1e-25, rows)) for task, rows in holding(*args)],
    )
    monkeypatch.setattr(np.linalg, "svd", choosy)
    assert [error.note for error in solved(planar(3), *tasks).errors] == before
    assert given_up


def test_place_and_orientation_of_one_effector_are_told_apart():
    solution = solved(
        planar(1),
        reach("joint.0", [1, 1, 0], name="hand"),
        MatchOrientation(joint="joint.0", target=np.diag([-1.0, -1.0, 1.0]), name="hand"),
    )
    assert why(solution, 0).shares_with == ("its own orientation",)
    assert why(solution, 1).shares_with == ("its own position",)
    own = "position and orientation cannot both be met: turn or move the target, or ask for only one of them"
    assert all(own in error.note and "shares" not in error.note for error in solution.errors)


@pytest.mark.parametrize("name", ["", "hand"])
@pytest.mark.parametrize("angular", [False, True])
def test_two_places_or_two_orientations_of_one_joint_are_not_taken_for_one_of_each(angular: bool, name: str):
    """They were told that position and orientation cannot both be met."""
    places = (reach("joint.2", [x, 1.0, 0.0], name=name) for x in (1.0, 1.5))
    turned = (MatchOrientation("joint.2", np.diag([s, s, 1.0]), name=name) for s in (1.0, -1.0))
    tasks = tuple(turned if angular else places)
    solution = solved(planar(3), *tasks)
    for error in solution.errors:
        assert error.why is not None and error.why.reason is Reason.SHARED
        assert f"shares level 0 with {tasks[0].label}" in error.note
        assert "cannot both be met" not in error.note


@each_method
def test_channels_that_should_stay_are_explained_too(method: str):
    stay = StayNear(channels=np.full((3, 6), 0.3), priority=1)
    pull = reach("joint.2", [1, 1.5, 0], name="hand", axes=(True, False, False))
    answer = why(solved(planar(3), stay, pull, method=method))
    expected = Reason.PRECEDENCE if method == "PRIORITY" else Reason.SHARED
    assert answer.reason is expected and "hand" in (*answer.outranked_by, *answer.shares_with)
    limited = why(solved(knee(0.1), StayNear(channels=np.full((2, 6), 0.3), over=("joint.0", "joint.1"))))
    assert limited.reason is Reason.LIMITS and limited.limits[0].joint == "joint.1"


def test_clamped_residuals_balance_as_they_were_clamped():
    solution = solved(planar(3), *conflict(weight=3.0), method="DLS", clamp_distance=0.2)
    assert {why(solution, number).reason for number in (0, 1)} == {Reason.SHARED}


@each_method
def test_what_was_stopped_says_so(method: str):
    few: dict[str, Any] = {"max_iterations": 1, "restarts": 0}
    solution = solved(chain(3), reach("joint.2", [0.5, 1, 0.5]), method=method, **few)
    answer = why(solution)
    assert solution.status is Status.MAX_ITERATIONS and answer.reason is Reason.NOT_CONVERGED
    assert "not converged" in solution.message


# Laws


def random_tasks(rng: np.random.Generator, skeleton: Skeleton) -> tuple[Task, ...]:
    """Places and orientations that are hard to have together, on two levels."""
    posed = forward_kinematics(skeleton, random_pose(rng, skeleton, only_free=True))
    tasks: list[Task] = []
    for joint in ("joint.2", "joint.1"):
        level = int(rng.integers(2))
        away = rng.normal(size=3) * 0.5
        tasks.append(ReachPoint(joint=joint, target=posed.point(joint) + away, priority=level, name=joint))
    turned = random_rotations(rng, 1)[0]
    tasks.append(MatchOrientation(joint="joint.2", target=turned, priority=int(rng.integers(2)), name="turn"))
    return tuple(tasks)


@pytest.mark.parametrize("method", ["PRIORITY", "DLS"])
@settings(max_examples=2)
@given(seed=st.integers(0, 10**6), limit=st.sampled_from([0.4, 1.0, np.inf]))
def test_each_reason_goes_away_with_its_cause(method: str, seed: int, limit: float):
    rng = np.random.default_rng(seed)
    skeleton = chain(3, lower=-limit, upper=limit)
    unlimited = chain(3)
    tasks = random_tasks(rng, skeleton)
    solution = solved(skeleton, *tasks, method=method)

    def alone(skeleton: Skeleton, task: Task) -> float:
        again = solve(Problem(skeleton, (task,)), solution.pose, redundancy="start", restarts=0)
        return again.errors[0].error

    for task, error in zip(tasks, solution.errors, strict=True):
        assert (error.why is None) == error.reached == (error.note == "")
        if error.why is None or solution.status is not Status.SETTLED:
            continue
        reason = error.why.reason
        assert reason is not Reason.NOT_CONVERGED
        assert reason is not Reason.PRECEDENCE or method == "PRIORITY"
        if reason is Reason.OUT_OF_REACH:
            assert alone(unlimited, task) >= error.error * (1.0 - 1e-4) - 1e-5
        else:
            assert alone(unlimited, task) < error.error
        if reason in (Reason.PRECEDENCE, Reason.SHARED):
            assert alone(skeleton, task) < error.error
            assert error.why.outranked_by or error.why.shares_with
        known = {other.label for other in tasks} | {"its own position", "its own orientation"}
        assert known >= {*error.why.outranked_by, *error.why.shares_with}


@pytest.mark.parametrize("seed", range(3))
def test_no_miss_of_a_pose_at_rest_is_told_as_not_converged(seed: int):
    rng = np.random.default_rng(seed)
    skeleton = tree(rng, 25, sliding=0.0, deep=True, lower=-1.2, upper=1.2)
    posed = forward_kinematics(skeleton, random_pose(rng, skeleton, only_free=True))
    tasks = [
        ReachPoint(
            joint=f"joint.{joint}",
            target=posed.point(f"joint.{joint}") + rng.normal(size=3) * rng.choice([0.3, 3.0]),
            priority=int(rng.integers(3)),
        )
        for joint in rng.choice(np.arange(8, 25), 6, replace=False)
    ]
    solution = solved(skeleton, *tasks, restarts=0)
    again = solve(Problem(skeleton, tasks), solution.pose, restarts=0)
    if np.abs(again.pose.channels - solution.pose.channels).max() < 1e-4:
        assert Reason.NOT_CONVERGED not in [error.why.reason for error in solution.errors if error.why]


@pytest.mark.parametrize("scale", [1e-3, 100.0])
def test_the_unit_of_length_changes_no_reason(scale: float):
    def answers(scale: float) -> list[tuple[Reason, tuple[str, ...], tuple[str, ...], Array]]:
        upper = np.full((3, 6), np.inf)
        upper[1:, 5] = 0.4
        skeleton = planar(3, length=scale, lower=-upper, upper=upper)
        tasks = [
            ReachPoint(
                joint=f"joint.{joint}",
                target=np.array(place) * scale,
                point=tip(scale),
                name=f"{joint}",
                priority=priority,
            )
            for joint, place, priority in ((2, (0.2, 0.5, 0.0), 0), (1, (-1.0, 0.5, 0.1), 1))
        ]
        found = solved(
            skeleton, *tasks, tolerance_position=1e-4 * scale, step_tolerance=1e-8, max_iterations=200
        )
        explained = [error.why for error in found.errors if error.why is not None]
        return [
            (
                answer.reason,
                answer.outranked_by,
                tuple(limit.joint for limit in limits),
                np.array([answer.error / scale, *(limit.gain / scale for limit in limits)]),
            )
            for answer in explained
            # By name: of limits that keep it away by as much rounding decides which is the first.
            for limits in [sorted(answer.limits, key=lambda limit: limit.joint)]
        ]

    here, there = answers(1.0), answers(scale)
    assert [answer[:3] for answer in here] == [answer[:3] for answer in there] and here
    for one, other in zip(here, there, strict=True):
        np.testing.assert_allclose(one[3], other[3], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("angle", "words"), [(1e-16, "0°"), (-1e-17, "0°"), (np.radians(0.25), "0.25°")])
def test_angles_that_are_rounding_are_said_to_be_nothing(angle: float, words: str) -> None:
    assert angle_text(angle) == words

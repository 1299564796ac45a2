# SPDX-License-Identifier: GPL-3.0-or-later
"""What a solve takes over from the last one: nothing that shows, whatever has changed in between."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from blender_ik_addon.core import MatchOrientation, OneOf, Pose, Problem, ReachPoint, Task, solve
from tests.core.builders import Array, chain, random_pose, tip, upper_body

Given = dict[str, Any]


def tasks_at(shift: float, **fields: Any) -> tuple[Task, ...]:
    """Both hands and how one is turned, the hands moved by `shift` [m]."""
    place: Array = np.array([0.3 + shift, 0.2, 1.2 - shift])
    return (
        ReachPoint(joint="hand.L", target=place, **fields),
        ReachPoint(joint="hand.R", target=place * [-1.0, 1.0, 1.0]),
        MatchOrientation(joint="hand.L", target=np.eye(3), priority=1),
    )


def changed(given: Given, **fields: Any) -> Given:
    return given | fields


CHANGES: dict[str, Callable[[Given], Given]] = {
    "targets": lambda given: changed(given, tasks=tasks_at(0.1)),
    "out of reach": lambda given: changed(given, tasks=tasks_at(3.0)),
    "a point": lambda given: changed(given, tasks=tasks_at(0.0, point=np.array([0.0, 0.1, 0.0]))),
    "axes": lambda given: changed(given, tasks=tasks_at(0.0, axes=(True, False, True))),
    "directions of axes": lambda given: changed(
        given,
        tasks=tasks_at(0.0, axes=(True, False, True), armature_from_axes=np.eye(3)[[1, 2, 0]]),
    ),
    "a weight": lambda given: changed(given, tasks=tasks_at(3.0, weight=0.3)),
    "no weight": lambda given: changed(given, tasks=tasks_at(3.0, weight=0.0)),
    "a priority": lambda given: changed(given, tasks=tasks_at(3.0, priority=2)),
    "a name": lambda given: changed(given, tasks=tasks_at(3.0, name="other")),
    "a joint": lambda given: changed(
        given, tasks=(replace(given["tasks"][0], joint="forearm.L"), *given["tasks"][1:])
    ),
    "fewer tasks": lambda given: changed(given, tasks=given["tasks"][:2]),
    "another order": lambda given: changed(given, tasks=given["tasks"][::-1]),
    "a kind": lambda given: changed(given, tasks=(OneOf(alternatives=given["tasks"][:2]),)),
    "the pose": lambda given: changed(
        given, pose=random_pose(np.random.default_rng(5), given["skeleton"], angle=0.3)
    ),
    "the same pose once more": lambda given: changed(given, pose=Pose(**vars(given["pose"]))),
    "options": lambda given: changed(given, options={"preferred_pose": False, "max_iterations": 3}),
    "a method": lambda given: changed(given, options={"method": "SDLS"}),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("wish", [True, False], ids=["preferred pose", "nothing preferred"])
def test_a_solve_gives_the_same_whatever_was_solved_before(what: str, wish: bool) -> None:
    """To the bit: after another solve of the skeleton, and of a skeleton of which none is known."""

    def given() -> Given:
        skeleton = upper_body(limit=1.2)
        options = {"preferred_pose": wish}
        return {"skeleton": skeleton, "tasks": tasks_at(0.0), "pose": Pose.rest(skeleton), "options": options}

    def solved(asked: Given) -> Any:
        return solve(Problem(asked["skeleton"], asked["tasks"]), asked["pose"], **asked["options"])

    before, fresh = given(), given()
    solved(before)
    after, alone = solved(CHANGES[what](before)), solved(CHANGES[what](fresh))
    assert_array_equal(after.pose.channels, alone.pose.channels)
    assert after.errors == alone.errors
    assert (after.status, after.message, after.iterations) == (alone.status, alone.message, alone.iterations)
    assert_array_equal(after.costs, alone.costs)


def test_the_start_is_placed_once_for_solves_that_differ_in_targets() -> None:
    skeleton = chain(4)
    pose = Pose.rest(skeleton)

    def target(x: float) -> Problem:
        return Problem(skeleton, (ReachPoint(joint=3, point=tip(), target=np.array([x, 0.4, 3.0])),))

    first = solve(target(0.3), pose, preferred_pose=False)
    (kept,) = skeleton.prepared
    second = solve(target(0.5), pose, preferred_pose=False)
    assert skeleton.prepared[0] is kept and first.reached and second.reached
    solve(target(0.5), second.pose, preferred_pose=False)
    assert skeleton.prepared[0] is not kept

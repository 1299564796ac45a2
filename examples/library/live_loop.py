# SPDX-License-Identifier: GPL-3.0-or-later
"""A loop as a game or a robot runs it: in each update targets have moved a little.

python live_loop.py

A `Tracker` gives the solution of each update from the one before it. A `Follower` gives a body that keeps up
by bounded turns and settles when the target rests: what is seen never jumps.
"""

from collections.abc import Iterator

import numpy as np
from figure import figure
from poise_ik import (
    Follower,
    Pose,
    Problem,
    ReachPoint,
    SolverOptions,
    Tracker,
    forward_kinematics,
    target_path,
)

FEET = ("foot.L", "foot.R")


def problem() -> Problem:
    """Feet stand, a hand follows."""
    skeleton = figure()
    rest = forward_kinematics(skeleton, Pose.rest(skeleton))
    tasks = [ReachPoint(foot, rest.point(foot), name=foot) for foot in FEET]
    return Problem(skeleton, [*tasks, ReachPoint("hand.L", rest.point("hand.L"), priority=1, name="hand")])


def places() -> list[np.ndarray]:
    """Where the hand's target is in each update: on an arc about the shoulder, then out of reach [m]."""
    start, end, shoulder = [0.67, 0.0, 1.34], [0.2, -0.5, 1.2], [0.16, 0.01, 1.38]
    return [*target_path(start, end, 20, origin=shoulder, arc=True), *target_path(end, [0.3, -2.0, 1.2], 10)]


def tracked() -> Iterator[tuple[Pose, float]]:
    """Pose and error of the hand [m] after each update of a tracker."""
    stated = problem()
    tracker = Tracker(stated, Pose.rest(stated.skeleton))
    for place in places():
        solution = tracker.solve({"hand": place})
        yield solution.pose, solution.errors[-1].error


def followed() -> Iterator[tuple[Pose, float]]:
    """The same of a follower, with the updates in which it settles after the target has come to rest."""
    stated = problem()
    follower = Follower(stated, Pose.rest(stated.skeleton), SolverOptions())
    standing = [task.aim for task in stated.tasks[:-1]]
    follower.begin([task.aim for task in stated.tasks])
    for place in places():
        found = follower.follow([*standing, place])
        yield found.pose, found.errors[-1].error
    while not found.settled or not found.final:
        found = follower.arrive([*standing, places()[-1]])
        yield found.pose, found.errors[-1].error


def main() -> None:
    """Tell how far the hand is off, and by how much any joint turns in an update."""
    for loop in (tracked, followed):
        poses, errors = zip(*loop(), strict=True)
        turns = np.abs(np.diff([pose.rotation for pose in poses], axis=0)).max(axis=(1, 2))
        within, most = 1e3 * max(errors[:20]), np.degrees(turns.max())
        print(f"{loop.__name__}: {len(poses)} updates, hand within {within:.2f} mm on the arc,")
        print(f"  {1e3 * errors[-1]:.0f} mm off at the end; largest turn in an update {most:.1f}°")


if __name__ == "__main__":
    main()

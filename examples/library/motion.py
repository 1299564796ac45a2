# SPDX-License-Identifier: GPL-3.0-or-later
"""A motion solved as one problem: a hand draws a circle, feet stand; written to BVH and as an animation.

python motion.py [circle.bvh] [circle.gif or circle.html]
"""

import sys

import numpy as np
from figure import figure
from poise_ik import (
    Pose,
    Problem,
    ReachFrame,
    ReachPoint,
    SequenceSolution,
    forward_kinematics,
    solve_sequence,
)
from poise_ik.io import Clip, write_bvh
from poise_ik.plot import animate

FRAMES, RATE = 36, 24.0
"""Of the motion, and in a second."""


def circle() -> tuple[Problem, SequenceSolution]:
    """The hand once round a circle of 20 cm in front of the shoulder, as a loop."""
    skeleton = figure()
    rest = forward_kinematics(skeleton, Pose.rest(skeleton))
    turn = np.linspace(0.0, 2.0 * np.pi, FRAMES)[:, None]
    way = [0.25, -0.4, 1.3] + 0.2 * (np.cos(turn) * [1.0, 0.0, 0.0] + np.sin(turn) * [0.0, 0.0, 1.0])
    tasks = [ReachPoint("hand.L", way, priority=1, name="hand")]
    tasks += [ReachFrame(foot, rest.matrices[skeleton.index(foot)]) for foot in ("foot.L", "foot.R")]
    problem = Problem(skeleton, tasks)
    times = np.arange(FRAMES) / RATE
    return problem, solve_sequence(problem, Pose.rest(skeleton, FRAMES), times=times, cyclic=True)


def main() -> None:
    """Tell how exact and smooth the motion is, and write the files that are named."""
    problem, motion = circle()
    (hand,) = [number for number, task in enumerate(motion.tasks) if task.label == "hand"]
    turned = np.abs(np.diff(motion.pose.rotation, axis=0)).max()
    print(f"{motion}: hand within {1e3 * motion.errors[:, hand].max():.2f} mm of its way")
    print(f"  largest turn in a frame {np.degrees(turned):.1f}°, flips at {motion.branches or 'no frame'}")
    for path in sys.argv[1:]:
        if path.endswith(".bvh"):
            write_bvh(path, Clip(problem.skeleton, motion.pose, 1.0 / RATE), scale=0.01)
        else:
            animate(path, problem.skeleton, motion.pose, frame_time=1.0 / RATE, problem=problem)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-3.0-or-later
"""Two hands and two feet with limits: feet stand, hands lift a box, balance and hips give way.

python hands_and_feet.py [pose.png]
"""

import sys

import numpy as np
from figure import figure
from poise_ik import Balance, Pose, Problem, ReachFrame, ReachPoint, Solution, forward_kinematics, solve
from poise_ik.plot import plot_pose

BOX = np.array([0.0, -0.45, 0.5])
"""Middle of the box [m]."""


def lift() -> tuple[Problem, Solution]:
    """The figure with its hands on both sides of the box."""
    skeleton = figure()
    rest = forward_kinematics(skeleton, Pose.rest(skeleton))
    tasks = [
        ReachFrame(foot, rest.matrices[skeleton.index(foot)], name=foot) for foot in ("foot.L", "foot.R")
    ]
    for hand, side in (("hand.L", 1.0), ("hand.R", -1.0)):
        place = BOX + np.array([side * 0.15, 0.0, 0.0])
        tasks.append(ReachPoint(hand, place, priority=1, name=hand))
    middle = 0.5 * (rest.point("toe.L") + rest.point("foot.R"))
    tasks.append(Balance(np.ones(len(skeleton)), middle, priority=2, name="balance"))
    problem = Problem(skeleton, tasks)
    return problem, solve(problem, Pose.rest(skeleton))


def main() -> None:
    """Tell the errors and the limits that are met, and draw the pose if a file is named."""
    problem, solution = lift()
    print(solution.message)
    for error in solution.errors:
        amount = f"{np.degrees(error.error):.3f}°" if error.angular else f"{1e3 * error.error:.3f} mm"
        print(f"  {error.name}: {amount} {error.note}")
    print("  at limits:", ", ".join(sorted({joint for joint, _ in solution.limited})) or "none")
    if len(sys.argv) > 1:
        plot_pose(problem.skeleton, solution.pose, problem=problem).figure.savefig(sys.argv[1])


if __name__ == "__main__":
    main()

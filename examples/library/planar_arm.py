# SPDX-License-Identifier: GPL-3.0-or-later
"""A planar arm of three hinges with limits reaches points, and the library is compared with trigonometry.

python planar_arm.py
"""

import numpy as np
from poise_ik import Pose, Problem, ReachPoint, Skeleton, Solution, forward_kinematics, solve

LENGTHS = (0.5, 0.4, 0.2)
"""Of the links [m]."""


def arm() -> Skeleton:
    """Three hinges about z, each with 150 degrees to either side, and the tip."""
    limit = np.radians(150.0)
    return Skeleton.build(
        ["shoulder", "elbow", "wrist", "tip"],
        [None, "shoulder", "elbow", "wrist"],
        offsets=[[0.0, 0.0, 0.0], *([length, 0.0, 0.0] for length in LENGTHS)],
        free={name: [False, False, True] for name in ("shoulder", "elbow", "wrist")} | {"tip": False},
        lower=[-limit] * 3,
        upper=[limit] * 3,
    )


def reach(place: tuple[float, float]) -> Solution:
    """The arm from straight ahead to a place in the plane [m]."""
    skeleton = arm()
    return solve(Problem(skeleton, ReachPoint("tip", [*place, 0.0])), Pose.rest(skeleton))


def main() -> None:
    """Reach a few places, one of which is too far away."""
    for place in ((0.7, 0.5), (-0.3, 0.6), (0.1, -0.4), (1.5, 0.0)):
        solution = reach(place)
        angles = np.degrees(solution.pose.rotation[:3, 2])
        tip = forward_kinematics(arm(), solution.pose).point("tip")
        sums = np.radians(np.cumsum(angles))  # of the angles: x = Σ l cos, y = Σ l sin
        check = [np.dot(LENGTHS, np.cos(sums)), np.dot(LENGTHS, np.sin(sums))]
        assert np.allclose(tip[:2], check)
        print(f"{place}: angles {np.round(angles, 1)}°, tip {np.round(tip[:2], 3)}, {solution.message}")


if __name__ == "__main__":
    main()

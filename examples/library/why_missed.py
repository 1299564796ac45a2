# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a target is missed, as a sentence and as data: reach, limits, a higher priority, a shared one.

python why_missed.py
"""

from figure import figure
from poise_ik import Explanation, Pose, Problem, ReachPoint, Skeleton, Task, forward_kinematics, solve


def cases() -> dict[str, tuple[Skeleton, list[Task]]]:
    """Skeleton and tasks of each case."""
    body = figure()
    rest = forward_kinematics(body, Pose.rest(body))
    feet: list[Task] = [ReachPoint(foot, rest.point(foot), name=foot) for foot in ("foot.L", "foot.R")]
    arm = Skeleton.build(
        ["upper", "fore", "hand"],
        [None, "upper", "fore"],
        offsets=[[0.0, 0.0, 0.0], [0.3, 0.0, 0.0], [0.3, 0.0, 0.0]],
        free=[False, False, True],
        lower={"fore": [0.0, 0.0, 0.0]},
        upper={"fore": [0.0, 0.0, 0.5]},
    )
    return {
        "out of reach": (arm, [ReachPoint("hand", [2.0, 0.0, 0.0], name="hand")]),
        "at limits": (arm, [ReachPoint("hand", [0.1, 0.2, 0.0], name="hand")]),
        "higher priority": (body, [*feet, ReachPoint("hips", [0.0, 0.0, 1.4], priority=1, name="hips")]),
        "shared priority": (
            arm,
            [ReachPoint("hand", [0.5, y, 0.0], name=name) for name, y in (("one", 0.2), ("other", -0.2))],
        ),
    }


def reasons() -> dict[str, Explanation]:
    """The reason of the first miss of each case."""
    found: dict[str, Explanation] = {}
    for name, (skeleton, tasks) in cases().items():
        solution = solve(Problem(skeleton, tasks), Pose.rest(skeleton))
        found[name] = next(error.why for error in solution.errors if error.why is not None)
    return found


def main() -> None:
    """Tell the reasons."""
    for name, why in reasons().items():
        print(f"{name}: {why.task} is missed by {why.text}")
        print(f"  {why.reason.name}, proven: {why.proven}, outranked by {list(why.outranked_by)},", end=" ")
        print(f"shares with {list(why.shares_with)}, limits {[limit.joint for limit in why.limits]}")


if __name__ == "__main__":
    main()

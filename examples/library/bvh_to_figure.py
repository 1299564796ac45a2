# SPDX-License-Identifier: GPL-3.0-or-later
"""A recorded clip moves a figure of other proportions: by its hands, feet, head and hips.

python bvh_to_figure.py clip.bvh figure.bvh [--scale 0.01] [--up Y]

Roles of joints are recognised in both skeletons, so names need not agree. Lengths are scaled by the legs.
"""

import argparse

import numpy as np
from figure import figure
from poise_ik import (
    MatchOrientation,
    Pose,
    Problem,
    ReachPoint,
    SequenceSolution,
    Skeleton,
    Task,
    forward_kinematics,
    solve_sequence,
)
from poise_ik.character import Hints, LimbKind, Role, recognise
from poise_ik.io import Clip, read_bvh, write_bvh
from poise_ik.motion import leg_length


def effectors(skeleton: Skeleton, hints: Hints | None = None) -> tuple[dict[str, int], float]:
    """Joints of hands, feet, head and hips by what they are, and the length of the legs [m]."""
    character = recognise(skeleton, hints or Hints())
    limbs = [limb for limb in character.limbs if limb.kind in (LimbKind.ARM, LimbKind.LEG)]
    found = {f"{limb.kind} {limb.side}": limb.effector for limb in limbs}
    for role in (Role.HIPS, Role.HEAD):
        found |= {str(role): joint for joint in character.joints_of(role)[:1]}
    return found, leg_length(skeleton, character)


def upright(skeleton: Skeleton) -> np.ndarray:
    """Turn from the axes of a skeleton to z up, (3, 3): clips mostly have y up and look along z."""
    return np.array([[1.0, 0, 0], [0, 0, -1.0], [0, 1.0, 0]]) if skeleton.up[1] > 0.5 else np.eye(3)


def moved(clip: Clip, body: Skeleton) -> SequenceSolution:
    """The motion of a clip on another body."""
    theirs, their_legs = effectors(clip.skeleton, Hints(tails=clip.tails))
    ours, our_legs = effectors(body)
    turn, scale = upright(clip.skeleton), our_legs / their_legs
    posed = forward_kinematics(clip.skeleton, clip.pose).matrices
    rest = clip.skeleton.armature_from_joint_rest
    tasks: list[Task] = []
    for name in ours.keys() & theirs.keys():
        there, here = theirs[name], ours[name]
        places = scale * posed[:, there, :3, 3] @ turn.T
        level = 0 if name.startswith("leg") else 2 if name in ("hips", "head") else 1
        tasks.append(ReachPoint(here, places, priority=level, softness=0.01, name=name))
        if name in ("hips", "head"):
            change = turn @ posed[:, there, :3, :3] @ rest[there, :3, :3].T @ turn.T
            turns = change @ body.armature_from_joint_rest[here, :3, :3]
            tasks.append(MatchOrientation(here, turns, priority=2, name=f"turn of {name}"))
    return solve_sequence(Problem(body, tasks), Pose.rest(body, len(clip.pose)), times=clip.times)


def main(arguments: list[str] | None = None) -> None:
    """Read a clip, move the figure, write its clip."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("clip")
    parser.add_argument("output")
    parser.add_argument("--scale", type=float, default=0.01, help="length of the file's unit [m]")
    parser.add_argument("--up", choices=("X", "Y", "Z"), default="Y", help="which way is up in the file")
    options = parser.parse_args(arguments)
    clip, body = read_bvh(options.clip, scale=options.scale, up=options.up), figure()
    motion = moved(clip.continuous(), body)
    write_bvh(options.output, Clip(body, motion.pose, clip.frame_time), scale=options.scale)
    worst = np.nanmax(motion.errors[:, [not task.angular for task in motion.tasks]])
    print(f"{len(motion)} frames, largest distance from a target {1e3 * worst:.1f} mm")


if __name__ == "__main__":
    main()

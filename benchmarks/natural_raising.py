# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether shoulders follow a high reach: hands raised on an arc, and beyond what arms alone reach.

The figure stands as at rest, with hips, feet and head held where they are. Both hands go, without their
orientation, from hanging to straight up, sideways and a little to the front, in the plane of the shoulder
blades; then straight up beyond the length of the arm, where only raised shoulders get them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from benchmarks.motions import effector_errors
from benchmarks.natural_clips import Recording
from benchmarks.natural_measures import elevation
from blender_ik_addon.core import Pose, Problem, ReachPoint, Task, forward_kinematics, solve_each
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.character.roles import LimbKind, Role, Side

ARC: Final = np.arange(30.0, 181.0, 10.0)  # Angles of the way from shoulder to hand, from hanging down [°]
FORWARD: Final = float(np.radians(30.0))  # How far the plane of the shoulder blades is to the front [rad]
BENT: Final = 0.95  # How far hands are from shoulders on the arc, in lengths of the arm [1]
BEYOND: Final = 0.04  # How far hands go beyond the length of the arm in the end [m], of a figure of `HEIGHT`
REACHED: Final = 1.0  # [mm]


@dataclass(frozen=True)
class Raised:
    """What was measured of a rig."""

    rig: str
    collars: FloatArray  # Elevation of the collarbones from rest along `ARC`, mean of both sides, [°]
    beyond: float  # The same with the hands beyond the arms' length [°]
    reached: int  # Places on the arc, and the one beyond, that are reached by both hands within `REACHED`

    @property
    def rises(self) -> bool:
        """Whether shoulders are higher with hands overhead than with them level, and higher still beyond."""
        level, overhead = self.at(90.0), self.at(180.0)
        return overhead > level and self.beyond > overhead

    def at(self, angle: float) -> float:
        """Elevation at one of the angles of the arc [°]."""
        return float(self.collars[int(np.argmin(np.abs(ARC - angle)))])


def raised(recording: Recording, rig: str) -> Raised | None:
    """Raise the hands of a clip's rig; None where it has no collarbones."""
    skeleton, character = recording.skeleton, recording.character
    limbs = [
        limb
        for limb in character.limbs_of(LimbKind.ARM)
        if limb.side is not Side.CENTRE and Role.SHOULDER in limb.roles
    ]
    if len(limbs) != 2:
        return None
    figure, rest = character.figures[0], skeleton.armature_from_joint_rest
    frames = len(ARC) + 1
    tasks: list[Task] = []
    for task in recording.tasks:
        joint = skeleton.index(task.joint)
        own = next((limb for limb in limbs if joint in limb.joints), None)
        if own is None:
            at_rest = (
                rest[joint, :3, :3] @ task.point + rest[joint, :3, 3]
                if isinstance(task, ReachPoint)
                else rest[joint, :3, :3]
            )
            tasks.append(replace(task, target=np.repeat(at_rest[None], frames, axis=0)))
        elif isinstance(task, ReachPoint):
            hand = rest[joint, :3, :3] @ task.point + rest[joint, :3, 3]
            arm, elbow = (
                rest[own.joints[own.roles.index(role)], :3, 3] for role in (Role.UPPER_ARM, Role.LOWER_ARM)
            )
            length = float(np.linalg.norm(elbow - arm) + np.linalg.norm(hand - elbow))
            out = figure.left if own.side is Side.LEFT else -figure.left
            aside = np.cos(FORWARD) * out + np.sin(FORWARD) * figure.forward
            turn = np.radians(ARC)[:, None]
            arc = arm + BENT * length * (np.sin(turn) * aside - np.cos(turn) * figure.up)
            last = arm + (length + BEYOND) * figure.up
            tasks.append(replace(task, target=np.concatenate([arc, last[None]])))
    channels = np.tile(np.clip(0.0, skeleton.lower, skeleton.upper), (frames, 1, 1))
    problem = Problem(skeleton, tuple(tasks))
    solution = solve_each(problem, Pose.from_channels(channels))  # these are places, not a motion
    posed = forward_kinematics(skeleton, solution.pose).matrices
    place, _ = effector_errors(problem, posed)
    collars = np.mean([elevation(recording, limb, posed) for limb in limbs], axis=0)
    return Raised(rig, collars[:-1], float(collars[-1]), int((place.max(axis=1) <= REACHED).sum()))

# SPDX-License-Identifier: GPL-3.0-or-later
"""What is measured of a clip that was solved from its hands, feet, head and hips: scripts/natural."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np

from benchmarks.motions import effector_errors, joint_steps, jumps_of
from benchmarks.natural_clips import Recording
from blender_ik_addon.core import (
    MatchOrientation,
    Pose,
    Problem,
    ReachPoint,
    Skeleton,
    Status,
    Task,
    forward_kinematics,
    solve,
    solve_each,
    solve_sequence,
)
from blender_ik_addon.core.arrays import BoolArray, FloatArray
from blender_ik_addon.core.character.roles import Limb, LimbKind, Role, Side
from blender_ik_addon.core.model.rotation import rotation_angle

REACHED_PLACE: Final = 1.0  # [mm]
REACHED_TURN: Final = 0.1  # [°]
BACKWARDS: Final = 3.0
"""Bend the wrong way from which an elbow or a knee counts as bent backwards [°]: bones that are nearly
straight at rest leave the axis open by about as much."""

TOLERANCES: Final[Mapping[str, Any]] = {
    "tolerance_position": 1e-4,
    "tolerance_rotation": float(np.radians(0.05)),
}
"""Of solves, [m] and [rad]: finer than what counts as reached."""

OUTSIDE: Final = 1e-4  # How far beyond a limit a channel counts as outside [rad]
SPINE_BENT: Final = 15.0
"""Turn of the whole spine in a frame from which on its share is looked at in that frame [°]."""


class Solved:
    """A clip solved from the start of its recording, beside the recording."""

    def __init__(self, recording: Recording, **options: Any) -> None:
        self.recording, self.problem = recording, Problem(recording.skeleton, recording.tasks)
        start = time.perf_counter()
        self.solution = solve_sequence(self.problem, recording.start, times=recording.times, **options)
        self.seconds = time.perf_counter() - start
        """Of the solve, by the clock."""
        self.matrices = forward_kinematics(recording.skeleton, self.solution.pose).matrices
        """The joints of the solution, (F, n, 4, 4)."""
        self.place, self.turn = effector_errors(self.problem, self.matrices)
        """Distances [mm] and angles [°] of the targets, (F, targets) each."""
        self.moving = self.problem.moving_joints
        self.steps, self.recorded_steps = (
            joint_steps(recording.skeleton, matrices)[:, self.moving]
            for matrices in (self.matrices, recording.matrices)
        )
        """Turns of the moving joints from frame to frame, of ours and of the recording, (F - 1, k) [°]."""

    @property
    def jumps(self) -> list[int]:
        """Frames to which a joint jumps."""
        return jumps_of(self.steps, self.recorded_steps)

    def joint_of(self, step: int) -> str:
        """Name of the joint that turns most in a step."""
        return self.recording.skeleton.names[self.moving[int(self.steps[step].argmax())]]

    def away(self, kind: LimbKind) -> float:
        """Mean distance of elbows or knees from the recording [cm]."""
        middles = [middle_of(limb) for limb in self.recording.character.limbs_of(kind)]
        apart = (self.matrices - self.recording.matrices)[:, middles, :3, 3]
        return 100.0 * float(np.linalg.norm(apart, axis=-1).mean())


@dataclass(frozen=True)
class Manner:
    """How a motion is made, ours or a recording."""

    backwards: int
    """Elbows and knees that bend backwards."""
    share: float
    """Turn of the joint of the spine that turns most over their mean, both root mean squares over the clip
    [1]; nan for one joint, or a spine that stays as at rest."""
    worst_share: float
    """The same in the worst frame in which the spine turns `SPINE_BENT` in all."""
    collar: float
    """Mean elevation from rest of the collarbones of arms with the hand above the head [°]."""
    step: float
    """Largest turn of a joint from a frame to the next [°]."""


@dataclass(frozen=True)
class Row:
    """What was measured of a clip."""

    clip: str
    held_out: bool
    frames: int
    ours: Manner
    recorded: Manner
    reached: int
    """Frames in which every target is met within `REACHED_PLACE` and `REACHED_TURN`."""
    overlooked: list[int]
    """Frames missed although a pose within the limits reaches all."""
    worst_place: float
    """Largest distance of an effector [mm]."""
    worst_turn: float
    """Largest angle of an effector [°]."""
    spine: int
    """Number of joints of the spine."""
    high: int
    """Arms with the hand above the head."""
    violations: int
    """Channels outside their limits."""
    outside: float
    """Part of the limited channels in which the recording is outside our limits [1]: how well they fit."""
    jumps: list[str]
    """Frames at which a joint jumps, counted from 1, with the joint that turns most."""
    elbows: float
    """Mean distance from the recording [cm]."""
    knees: float
    """Mean distance from the recording [cm]."""


def measure(recording: Recording) -> Row:
    """Solve a clip and compare it with the recording."""
    skeleton, character = recording.skeleton, recording.character
    solved = Solved(recording, **TOLERANCES)
    place, turn = solved.place.max(axis=1), solved.turn.max(axis=1)
    reached = (place <= REACHED_PLACE) & (turn <= REACHED_TURN)
    arms, legs = character.limbs_of(LimbKind.ARM), character.limbs_of(LimbKind.LEG)
    spine, moving = spine_joints(recording), solved.moving
    high = [(limb, above_head(recording, limb)) for limb in arms if limb.side is not Side.CENTRE]
    collars = [(limb, frames) for limb, frames in high if Role.SHOULDER in limb.roles and frames.any()]

    def manner(matrices: FloatArray, steps: FloatArray) -> Manner:
        bent = np.concatenate([bends(skeleton, limb, matrices) for limb in (*arms, *legs)])
        raised = [elevation(recording, limb, matrices)[frames] for limb, frames in collars]
        share, worst = shares(skeleton, spine, matrices)
        collar = float(np.concatenate(raised).mean()) if raised else float("nan")
        return Manner(int((bent < -BACKWARDS).sum()), share, worst, collar, float(steps.max()))

    recorded = recording.pose.channels[:, recording.solved]
    lower, upper = skeleton.lower[recording.solved], skeleton.upper[recording.solved]
    limited = np.isfinite(lower) | np.isfinite(upper)
    outside = ((recorded < lower - OUTSIDE) | (recorded > upper + OUTSIDE))[:, limited]
    channels = solved.solution.pose.channels
    beyond = np.maximum(skeleton.lower - channels, channels - skeleton.upper)
    return Row(
        clip=recording.name,
        held_out=recording.held_out,
        frames=len(channels),
        ours=manner(solved.matrices, solved.steps),
        recorded=manner(recording.matrices, solved.recorded_steps),
        reached=int(reached.sum()),
        overlooked=overlooked_frames(recording, np.flatnonzero(~reached).tolist()),
        worst_place=float(place.max()),
        worst_turn=float(turn.max()),
        spine=len(spine),
        high=sum(int(frames.sum()) for _, frames in high),
        violations=int((beyond[:, moving][:, skeleton.free[moving]] > OUTSIDE).sum()),
        outside=float(outside.mean()) if limited.any() else 0.0,
        jumps=[
            f"{frame + 1}: {solved.joint_of(frame - 1)} by {solved.steps[frame - 1].max():.0f}°"
            for frame in solved.jumps
        ],
        elbows=solved.away(LimbKind.ARM),
        knees=solved.away(LimbKind.LEG),
    )


# From few targets


@dataclass(frozen=True)
class Few:
    """What was measured of a clip that is solved from feet, hands and head alone."""

    frames: int
    reached: int
    """Frames in which every target is met within `REACHED_PLACE` and `REACHED_TURN`."""
    hips: float
    """Mean distance from the recording [cm]."""
    knees: float
    """Mean distance from the recording [cm]."""
    elbows: float
    """Mean distance from the recording [cm]."""
    backwards: int
    """Elbows and knees that bend backwards."""
    jumps: int
    """Frames to which a joint jumps."""
    step: float
    """Largest turn of a joint from a frame to the next, by the recording's [1]."""


class WithoutHips(Recording):
    """A clip without the targets of the hips, which start at rest, too."""

    @property
    def start(self) -> Pose:
        """Rest, as near to it as limits allow, where the rig stands."""
        start = super().start
        placed = self.skeleton.free[:, :3].any(axis=1, keepdims=True)
        return Pose(np.where(placed, 0.0, start.channels), start.scale)


def from_few(recording: Recording) -> Few:
    """Solve a clip without the targets of its hips, and compare it with the recording."""
    skeleton, character = recording.skeleton, recording.character
    hips = character.joints_of(Role.HIPS)[0]
    own = {field.name: getattr(recording, field.name) for field in fields(recording)}
    own["tasks"] = tuple(task for task in recording.tasks if skeleton.index(task.joint) != hips)
    solved = Solved(WithoutHips(**own), **TOLERANCES)
    place, turn = solved.place.max(axis=1), solved.turn.max(axis=1)
    limbs = (*character.limbs_of(LimbKind.ARM), *character.limbs_of(LimbKind.LEG))
    bent = np.concatenate([bends(skeleton, limb, solved.matrices) for limb in limbs])
    apart = (solved.matrices - recording.matrices)[:, hips, :3, 3]
    return Few(
        frames=len(place),
        reached=int(((place <= REACHED_PLACE) & (turn <= REACHED_TURN)).sum()),
        hips=100.0 * float(np.linalg.norm(apart, axis=-1).mean()),
        knees=solved.away(LimbKind.LEG),
        elbows=solved.away(LimbKind.ARM),
        backwards=int((bent < -BACKWARDS).sum()),
        jumps=len(solved.jumps),
        step=float(solved.steps.max() / solved.recorded_steps.max()),
    )


def overlooked_frames(recording: Recording, missed: Sequence[int]) -> list[int]:
    """Those of some frames in which a pose within the limits reaches all targets.

    The recorded pose reaches them. Brought inside the limits it is a place to start from that a solve does
    not know, as is rest that of a clip: if one of them leads to all targets, there was a pose to be found. If
    none does, it was the limits.
    """
    skeleton = recording.skeleton
    led = skeleton.free & recording.solved[:, None]
    found: list[int] = []
    for frame in missed:
        tasks = [
            replace(task, target=np.asarray(task.target)[frame])
            for task in recording.tasks
            if isinstance(task, ReachPoint | MatchOrientation)
        ]
        own = recording.pose.channels[frame]
        starts = (
            np.where(led, np.clip(own, skeleton.lower, skeleton.upper), own),
            recording.start.channels[frame],
        )
        problem = Problem(skeleton, tuple(tasks))
        poses = (Pose(start, recording.pose.scale[frame]) for start in starts)
        if any(solve(problem, pose, **TOLERANCES).status is Status.REACHED for pose in poses):
            found.append(frame)
    return found


# Limbs


def middle_of(limb: Limb) -> int:
    """The elbow or knee."""
    return next(
        joint
        for joint, role in zip(limb.joints, limb.roles, strict=True)
        if role in (Role.LOWER_ARM, Role.LOWER_LEG)
    )


def bends(skeleton: Skeleton, limb: Limb, matrices: FloatArray) -> FloatArray:
    """By how much an elbow or a knee is bent the right way, (F,) [°]; none if that is not known.

    Where it bends to is what was recognised at rest, and goes with the bone above.
    """
    middle = middle_of(limb)
    place = limb.joints.index(middle)
    if limb.bend_axis is None or place + 1 >= len(limb.joints) or place == 0:
        return np.zeros(0)
    above, below = limb.joints[place - 1], limb.joints[place + 1]
    rest = skeleton.armature_from_joint_rest
    axis = matrices[:, above, :3, :3] @ (rest[above, :3, :3].T @ limb.bend_axis)  # (F, 3)
    upper = matrices[:, middle, :3, 3] - matrices[:, above, :3, 3]
    lower = matrices[:, below, :3, 3] - matrices[:, middle, :3, 3]
    sine = np.einsum("fi,fi->f", np.cross(upper, lower), axis)
    return np.degrees(np.arctan2(sine, np.einsum("fi,fi->f", upper, lower)))


# The spine


def spine_joints(recording: Recording) -> list[int]:
    """The joints between hips and neck, without the hips."""
    return [
        joint
        for limb in recording.character.limbs_of(LimbKind.TRUNK)
        for joint, role in zip(limb.joints, limb.roles, strict=True)
        if role is not Role.HIPS and recording.solved[joint]
    ]


def shares(skeleton: Skeleton, spine: Sequence[int], matrices: FloatArray) -> tuple[float, float]:
    """Largest over mean turn of the joints of a spine, over a clip and in the worst frame [1]."""
    if len(spine) < 2:
        return float("nan"), float("nan")
    turns = np.stack([_turn(skeleton, joint, matrices) for joint in spine], axis=1)  # (F, k) [°]
    square = np.sqrt((turns**2).mean(axis=0))
    if square.sum() < 1.0:
        return float("nan"), float("nan")
    much = turns.sum(axis=1) >= SPINE_BENT
    worst = (turns.max(axis=1) / turns.mean(axis=1))[much].max() if much.any() else float("nan")
    return float(square.max() / square.mean()), float(worst)


def _turn(skeleton: Skeleton, joint: int, matrices: FloatArray) -> FloatArray:
    """How far a joint is turned from rest in its parent, (F,) [°]."""
    parent = int(skeleton.parents[joint])
    rest = skeleton.armature_from_joint_rest[:, :3, :3]
    at_rest = rest[parent].T @ rest[joint]
    now = np.swapaxes(matrices[:, parent, :3, :3], -1, -2) @ matrices[:, joint, :3, :3]
    return np.degrees(rotation_angle(at_rest.T @ now))


# Shoulders


def _in_chest(recording: Recording, limb: Limb, matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Vectors (F, 3) in space as they are with the chest at rest, (F, 3)."""
    chest = int(recording.skeleton.parents[limb.joints[0]])
    rest = recording.skeleton.armature_from_joint_rest[chest, :3, :3]
    from_now = rest @ np.swapaxes(matrices[:, chest, :3, :3], -1, -2)
    return np.einsum("fij,fj->fi", from_now, vectors)


def above_head(recording: Recording, limb: Limb) -> BoolArray:
    """Frames in which the recorded hand is above the head's joint, along the trunk's up, (F,)."""
    head = recording.character.limbs_of(LimbKind.HEAD)[0].effector
    matrices = recording.matrices
    tip = limb.effector
    way = _in_chest(recording, limb, matrices, matrices[:, tip, :3, 3] - matrices[:, head, :3, 3])
    return way @ recording.character.figures[0].up > 0.0


def elevation(recording: Recording, limb: Limb, matrices: FloatArray) -> FloatArray:
    """By how much the collarbone points further up than at rest, in the chest, (F,) [°]."""
    first, arm = limb.joints[0], limb.joints[limb.roles.index(Role.UPPER_ARM)]
    up = recording.character.figures[0].up
    rest = recording.skeleton.armature_from_joint_rest[:, :3, 3]
    at_rest = rest[arm] - rest[first]
    now = _in_chest(recording, limb, matrices, matrices[:, arm, :3, 3] - matrices[:, first, :3, 3])
    return _angle_up(now, up) - float(_angle_up(at_rest[None], up)[0])


def _angle_up(vectors: FloatArray, up: FloatArray) -> FloatArray:
    """Angle above the horizontal, (F,) [°]."""
    return np.degrees(np.arcsin(np.clip(vectors @ up / np.linalg.norm(vectors, axis=-1), -1.0, 1.0)))


# Raised hands

ARC: Final = np.arange(30.0, 181.0, 10.0)  # Angles of the way from shoulder to hand, from hanging down [°]
FORWARD: Final = float(np.radians(30.0))  # How far the plane of the shoulder blades is to the front [rad]
BENT: Final = 0.95  # How far hands are from shoulders on the arc, in lengths of the arm [1]
BEYOND: Final = 0.04  # How far hands go beyond the length of the arm in the end [m], of a figure of `HEIGHT`


@dataclass(frozen=True)
class Raised:
    """What was measured of a rig."""

    rig: str
    collars: FloatArray  # Elevation of the collarbones from rest along `ARC`, mean of both sides, [°]
    beyond: float  # The same with the hands beyond the arms' length [°]
    reached: int  # Places on the arc, and the one beyond, both hands reach within `REACHED_PLACE`

    @property
    def rises(self) -> bool:
        """Whether shoulders are higher with hands overhead than with them level, and higher still beyond."""
        level, overhead = self.at(90.0), self.at(180.0)
        return overhead > level and self.beyond > overhead

    def at(self, angle: float) -> float:
        """Elevation at one of the angles of the arc [°]."""
        return float(self.collars[int(np.argmin(np.abs(ARC - angle)))])


def raised(recording: Recording, rig: str) -> Raised | None:
    """Raise the hands of a clip's rig; None where it has no collarbones.

    The figure stands as at rest, with hips, feet and head held where they are. Both hands go, without their
    orientation, from hanging to straight up, sideways and a little to the front, in the plane of the shoulder
    blades; then straight up beyond the length of the arm, where only raised shoulders get them.
    """
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
    return Raised(rig, collars[:-1], float(collars[-1]), int((place.max(axis=1) <= REACHED_PLACE).sum()))

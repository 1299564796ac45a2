# SPDX-License-Identifier: GPL-3.0-or-later
"""Bodies set up in one click and led by hands, feet, head and hips, against recordings: scripts/natural.

What is measured is told on the page, `pages/natural.md`; the clips are those of `recordings.py`. Stiffness
and preferred angles are fitted (`fit_preferences`) to the clips of all other sources, not of a clip's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from benchmarks import recordings
from benchmarks.fit_preferences import folds, preferring, read
from benchmarks.motions import effector_errors
from benchmarks.page import arguments, measured, progress, publish
from benchmarks.recordings import Recording, Solved, middle_of
from benchmarks.rigs import add_on
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
)
from blender_ik_addon.core.arrays import BoolArray, FloatArray
from blender_ik_addon.core.character.roles import Limb, LimbKind, Role, Side
from blender_ik_addon.core.model.rotation import rotation_angle

FRAMES: Final = 20  # Most frames of a clip
UNLIKE: Final = 2.0  # Share of the spine from which on one joint bends instead of all [1]
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


class Row:
    """A clip that was solved, compared with the recording."""

    def __init__(self, recording: Recording, source: str) -> None:
        self.recording, self.solved = recording, Solved(recording, **TOLERANCES)
        self.clip, self.source = recording.name.replace("|", " "), source
        self.few = from_few(recording)
        solved = self.solved
        reached = (solved.place.max(axis=1) <= REACHED_PLACE) & (solved.turn.max(axis=1) <= REACHED_TURN)
        self.frames, self.reached, self.missed = len(reached), int(reached.sum()), int((~reached).sum())
        """Frames, and those in which every target is met within `REACHED_PLACE` and `REACHED_TURN` or not."""
        self.overlooked = overlooked_frames(recording, np.flatnonzero(~reached).tolist())
        """Frames missed although a pose within the limits reaches all."""
        self.spine = spine_joints(recording)
        self.joints = len(self.spine)
        self.ours = self.manner(solved.matrices, solved.steps)
        self.recorded = self.manner(recording.matrices, solved.recorded_steps)
        self.outside, self.violations = outside_limits(recording, solved)
        self.unlike, self.step_ratio = self.ours.share >= UNLIKE, self.ours.step / self.recorded.step
        self.jumps = [
            f"{frame + 1}: {solved.joint_of(frame - 1)} by {solved.steps[frame - 1].max():.0f}°"
            for frame in solved.jumps
        ]
        """Frames at which a joint jumps, counted from 1, with the joint that turns most."""
        self.misses = [f"{self.clip}: overlooked in frame {frame + 1}" for frame in self.overlooked]
        self.misses += [f"{self.clip}: jumps to frame {jump}" for jump in self.jumps]
        """Frames that were missed though there is a pose, and jumps."""
        self.elbows, self.knees = (solved.away(kind) for kind in (LimbKind.ARM, LimbKind.LEG))
        """Mean distances from the recording [cm]."""

    def manner(self, matrices: FloatArray, steps: FloatArray) -> SimpleNamespace:
        """How a motion of joints with some matrices (F, n, 4, 4) is made, of turns (F - 1, k) [°].

        These are how many elbows and knees bend backwards, the share of the joint of the spine that turns
        most, see `share_of`, and the largest turn of a joint in a frame (step) [°].
        """
        recording, character = self.recording, self.recording.character
        limbs = (*character.limbs_of(LimbKind.ARM), *character.limbs_of(LimbKind.LEG))
        bent = np.concatenate([bends(recording.skeleton, limb, matrices) for limb in limbs])
        return SimpleNamespace(
            backwards=int((bent < -BACKWARDS).sum()),
            share=share_of(recording.skeleton, self.spine, matrices),
            step=float(steps.max()),
        )


def outside_limits(recording: Recording, solved: Solved) -> tuple[float, int]:
    """Part of the limited channels in which the recording is outside [1], and how many of ours are.

    The first tells how well the limits fit.
    """
    skeleton = recording.skeleton

    def beyond(channels: FloatArray) -> BoolArray:
        return (channels < skeleton.lower - OUTSIDE) | (channels > skeleton.upper + OUTSIDE)

    limited = (np.isfinite(skeleton.lower) | np.isfinite(skeleton.upper)) & recording.solved[:, None]
    recorded = beyond(recording.pose.channels)[:, limited]
    ours = beyond(solved.solution.pose.channels)[:, solved.moving][:, skeleton.free[solved.moving]]
    return float(recorded.mean()) if limited.any() else 0.0, int(ours.sum())


class WithoutHips(Recording):
    """A clip without the targets of the hips, which start at rest, too."""

    @property
    def start(self) -> Pose:
        """Rest, as near to it as limits allow, where the rig stands."""
        start = super().start
        placed = self.skeleton.free[:, :3].any(axis=1, keepdims=True)
        return Pose(np.where(placed, 0.0, start.channels), start.scale)


def from_few(recording: Recording) -> SimpleNamespace:
    """Solve a clip from feet, hands and head alone, and compare it with the recording.

    Returns:
        In how many frames every target is met (reached), mean distances of hips, knees and elbows from the
        recording [cm], how many elbows and knees bend backwards, how many jumps there are, and the largest
        turn of a joint in a frame by the recording's (step) [1].
    """
    skeleton, character = recording.skeleton, recording.character
    hips = character.joints_of(Role.HIPS)[0]
    own = {field.name: getattr(recording, field.name) for field in fields(recording)}
    own["tasks"] = tuple(task for task in recording.tasks if skeleton.index(task.joint) != hips)
    solved = Solved(WithoutHips(**own), **TOLERANCES)
    place, turn = solved.place.max(axis=1), solved.turn.max(axis=1)
    limbs = (*character.limbs_of(LimbKind.ARM), *character.limbs_of(LimbKind.LEG))
    bent = np.concatenate([bends(skeleton, limb, solved.matrices) for limb in limbs])
    apart = (solved.matrices - recording.matrices)[:, hips, :3, 3]
    return SimpleNamespace(
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


def share_of(skeleton: Skeleton, spine: Sequence[int], matrices: FloatArray) -> float:
    """Largest over mean turn of the joints of a spine, root mean squares over a clip [1].

    It is nan for one joint, or a spine that stays as at rest.
    """
    turns = [np.sqrt(np.square(_turn(skeleton, joint, matrices)).mean()) for joint in spine]  # [°]
    if len(spine) < 2 or sum(turns) < 1.0:
        return float("nan")
    return float(max(turns) / np.mean(turns))


def _turn(skeleton: Skeleton, joint: int, matrices: FloatArray) -> FloatArray:
    """How far a joint is turned from rest in its parent, (F,) [°]."""
    parent = int(skeleton.parents[joint])
    rest = skeleton.armature_from_joint_rest[:, :3, :3]
    at_rest = rest[parent].T @ rest[joint]
    now = np.swapaxes(matrices[:, parent, :3, :3], -1, -2) @ matrices[:, joint, :3, :3]
    return np.degrees(rotation_angle(at_rest.T @ now))


# Shoulders


def elevation(recording: Recording, limb: Limb, matrices: FloatArray) -> FloatArray:
    """By how much the collarbone points further up than at rest, in the chest, (F,) [°]."""
    first, arm = limb.joints[0], limb.joints[limb.roles.index(Role.UPPER_ARM)]
    chest, up = int(recording.skeleton.parents[first]), recording.character.figures[0].up
    rest = recording.skeleton.armature_from_joint_rest
    now = matrices[:, arm, :3, 3] - matrices[:, first, :3, 3]
    in_chest = now[:, None] @ matrices[:, chest, :3, :3] @ rest[chest, :3, :3].T
    return _angle_up(in_chest[:, 0], up) - _angle_up(rest[arm, :3, 3] - rest[first, :3, 3], up)


def _angle_up(vectors: FloatArray, up: FloatArray) -> FloatArray:
    """Angle of vectors (..., 3) above the horizontal [°]."""
    return np.degrees(np.arcsin(np.clip(vectors @ up / np.linalg.norm(vectors, axis=-1), -1.0, 1.0)))


# Raised hands

ARC: Final = np.arange(30.0, 181.0, 10.0)  # Angles of the way from shoulder to hand, from hanging down [°]
PLACES: Final = len(ARC) + 1  # Along it, and one beyond
SHOWN: Final = (30.0, 90.0, 140.0, 180.0)  # Of these angles
FORWARD: Final = float(np.radians(30.0))  # How far the plane of the shoulder blades is to the front [rad]
BENT: Final = 0.95  # How far hands are from shoulders on the arc, in lengths of the arm [1]
BEYOND: Final = 0.04  # How far hands go beyond the length of the arm in the end [m], of a figure of `HEIGHT`


def raised(recording: Recording) -> SimpleNamespace | None:
    """Raise the hands of a clip's rig; None where it has no collarbones.

    The figure stands as at rest, with hips, feet and head held where they are. Both hands go, without their
    orientation, from hanging to straight up, sideways and a little to the front, in the plane of the shoulder
    blades; then straight up beyond the length of the arm, where only raised shoulders get them.

    Returns:
        The elevation of the collarbones from rest at `SHOWN`, mean of both sides (collars) [°], the same with
        the hands beyond the arms' length, whether they are higher with hands overhead than with them level
        and higher still beyond (rises), and how many places both hands reach within `REACHED_PLACE`.
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
            tasks.append(replace(task, target=np.repeat(at_rest[None], PLACES, axis=0)))
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
    channels = np.tile(np.clip(0.0, skeleton.lower, skeleton.upper), (PLACES, 1, 1))
    problem = Problem(skeleton, tuple(tasks))
    solution = solve_each(problem, Pose.from_channels(channels))  # these are places, not a motion
    posed = forward_kinematics(skeleton, solution.pose).matrices
    place, _ = effector_errors(problem, posed)
    collars = np.mean([elevation(recording, limb, posed) for limb in limbs], axis=0)
    shown = [float(collars[int(np.argmin(np.abs(ARC - angle)))]) for angle in SHOWN]
    _, level, _, overhead = shown
    return SimpleNamespace(
        rig=recording.name.split(":")[0],
        collars=shown,
        beyond=float(collars[-1]),
        rises=bool(collars[-1] > overhead > level),
        reached=int((place.max(axis=1) <= REACHED_PLACE).sum()),
    )


def main() -> int:
    """Make the report. Returns the exit code: 1 when there is no clip."""
    options = arguments(
        "scripts/natural",
        __doc__,
        data=(..., "folder with clips"),
        frames=(FRAMES, "most of a clip"),
        only=("", "only files with this in their names"),
    ).parse_args()
    with add_on():
        found = list(read(options.data, options.frames))
    tables = folds([clip for _, clip in found])  # of all sources, also where only some clips are solved
    chosen = (
        Row(preferring(recording, tables[clip.source]), clip.source)
        for recording, clip in found
        if options.only in recording.file
    )
    rows = measured(chosen, "{row.clip}: {row.reached} of {row.frames} reached")
    if not rows:
        progress(f"{options.data}: no clip of a human figure")
        return 1
    rigs: dict[tuple[tuple[str, ...], bytes], Recording] = {}
    for of in (row.recording for row in rows):
        rigs.setdefault((of.skeleton.names, of.skeleton.rest.round(3).tobytes()), of)
    parts = [
        SimpleNamespace(name=source, rows=[row for row in rows if row.source == source])
        for source in dict.fromkeys(row.source for row in rows)
    ]
    every = SimpleNamespace(name="all", rows=rows)
    publish(
        options,
        "natural",
        {**vars(recordings), **globals()},
        parts=parts,
        together=[*parts, every],
        rows=rows,
        arcs=[arc for arc in map(raised, rigs.values()) if arc is not None],
        misses=[miss for row in rows for miss in row.misses] or ["nothing."],
    )
    return 0

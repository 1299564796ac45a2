# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded clips of human figures as Blender reads them, each on its own rig, set up as by Set Up Character.

A clip is an action of a file: BVH, FBX or glTF. Which are taken follows from the folder alone, see `clips`.
Nothing of a recording but the targets of hands, feet, head and hips reaches the solver: where it starts is
the rest pose, put where the hips are. Bones that a solve does not move keep what the recording gives them, as
they would in Blender: fingers, and the places of bones whose places are animated. `Solved` is a clip beside
its recording.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import bpy
import numpy as np

from benchmarks.motions import effector_errors, joint_steps, jumps_of
from benchmarks.rigs import armatures_of
from benchmarks.timing import timed
from blender_ik_addon.core import (
    IKError,
    MatchOrientation,
    Pose,
    Problem,
    ReachPoint,
    Skeleton,
    Task,
    forward_kinematics,
    solve_sequence,
)
from blender_ik_addon.core.arrays import BoolArray, FloatArray
from blender_ik_addon.core.character.roles import Body, Character, Limb, LimbKind, Role
from blender_ik_addon.core.model.rotation import euler_within, matrix_from_euler
from blender_ik_addon.scene.armature.armature import read_armature
from blender_ik_addon.scene.armature.poses import read_pose
from blender_ik_addon.scene.armature.role_table import read_character
from blender_ik_addon.scene.character.setup import body_parts, setup_character

SUFFIXES: Final = (".bvh", ".fbx", ".glb", ".gltf")

LEAST_FRAMES: Final = 20  # Frames that a clip must have to be a motion rather than a pose
LEAST_TURN: Final = float(np.radians(20.0))
"""How far some joint must turn from frame to frame in all [rad]: else the clip is a pose that is held."""

HEIGHT: Final = 1.7
"""Lengths are told as if the largest extent of the figure at rest were this [m]: few files say their unit."""

NO_SIZE: Final = 0.02
"""Scale [1], by the largest in the clip, below which a frame is left out: figures that grow out of nothing
have no pose there."""

LED: Final = ("hips", "foot", "hand", "head")  # What has targets


@dataclass(frozen=True)
class Recording:
    """A clip, its rig set up, and the targets."""

    name: str  # File without folders, and action where the file has several
    file: str  # With its folders
    skeleton: Skeleton
    """With limits, stiffness and preferred angles as they were set up, in metres of a figure of `HEIGHT`."""
    character: Character
    pose: Pose  # As recorded, (F, n, 6)
    times: FloatArray  # Of its frames as the scene plays them, (F,) [s]
    matrices: FloatArray  # The same by forward kinematics, (F, n, 4, 4)
    tasks: tuple[Task, ...]
    solved: BoolArray  # Joints that belong to the solve: their recorded angles are not known to it, (n,)

    @property
    def start(self) -> Pose:
        """Rest, as near to it as limits allow, where the hips are; what is not solved as recorded."""
        channels = np.array(self.pose.channels)
        rest = np.clip(0.0, self.skeleton.lower, self.skeleton.upper)
        led = (
            self.skeleton.free & self.solved[:, None] & ~self.skeleton.free[:, :3].any(axis=1, keepdims=True)
        )
        channels = np.where(led, rest, channels)
        return Pose(channels, self.pose.scale)


def clips(folder: Path, frames: int, only: str = "") -> Iterator[Recording]:
    """Every clip of a human figure with hands or forearms, feet, head and hips.

    Args:
        folder: Where the files are.
        frames: Most frames of a clip; of a longer one every so-manieth is taken.
        only: A part of the names of the files that are read.
    """
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix.lower() in SUFFIXES and only in name:
            yield from _clips_of(path, name, frames)


def _clips_of(path: Path, name: str, frames: int) -> Iterator[Recording]:
    try:
        armatures = armatures_of(path)
    except (RuntimeError, OSError):
        return  # scripts/roles tells which files Blender cannot read
    if not armatures:
        return
    rig: Any = armatures[0]
    actions: list[Any] = [action for action in bpy.data.actions if _frames(action) >= LEAST_FRAMES]
    if not actions or rig.animation_data is None:
        return
    # Set-up lets a figure do what it does at the time: here nothing of a recording may be known to it.
    rig.animation_data.action, rig.animation_data.use_nla = None, False
    for bone in rig.pose.bones:
        bone.matrix_basis.identity()
    bpy.context.view_layer.update()
    try:
        setup_character(rig)
    except IKError:
        return
    for action in sorted(actions, key=lambda action: action.name):
        whole = f"{Path(name).stem}: {action.name}" if len(actions) > 1 else Path(name).stem
        made = read_action(rig, action, whole, name, frames)
        if made is not None:
            yield made


def _frames(action: Any) -> int:
    start, end = action.frame_range
    return round(end - start) + 1


def read_action(rig: Any, action: Any, whole: str, name: str, most: int) -> Recording | None:
    """Read an action; None where it is no motion of a human figure."""
    animation = rig.animation_data
    animation.use_nla = False
    animation.action = action
    if animation.action_slot is None and len(animation.action_suitable_slots):
        animation.action_slot = animation.action_suitable_slots[0]
    armature = read_armature(rig)
    skeleton = armature.skeleton
    character, _ = read_character(rig, skeleton)
    parts = [p for p in body_parts(skeleton, character, poles=False) if p.what in LED and not p.limb.figure]
    if not character.figures or character.figures[0].body is not Body.BIPED or len(parts) != 6:
        return None
    first, count = round(action.frame_range[0]), _frames(action)
    wanted = range(first, first + count, -(-count // most))
    poses: list[Pose] = []
    for frame in wanted:
        bpy.context.scene.frame_set(frame)
        poses.append(read_pose(rig, armature))
    metres = HEIGHT / character.figures[0].size
    rest, channels = np.array(skeleton.rest), np.stack([pose.channels for pose in poses])
    lower, upper, own = skeleton.lower[:, 3:], skeleton.upper[:, 3:], armature.in_four | armature.is_driven
    for before, now in pairwise(channels[..., 3:]):  # angles go on from frame to frame
        angles = euler_within(matrix_from_euler(now, skeleton.orders), skeleton.orders, lower, upper, before)
        now[own] = angles[own]
    rest[:, :3, 3] *= metres
    channels[..., :3] *= metres
    skeleton = replace(skeleton, rest=rest)
    pose = Pose(channels, np.stack([pose.scale for pose in poses]))
    matrices = forward_kinematics(skeleton, pose).matrices
    sizes = np.cbrt(np.abs(np.linalg.det(matrices[:, parts[0].joint, :3, :3])))
    shown = sizes > NO_SIZE * sizes.max()
    pose, matrices, channels = Pose(pose.channels[shown], pose.scale[shown]), matrices[shown], channels[shown]
    turned = np.ptp(channels[..., 3:], axis=0)
    if float(turned.max()) < LEAST_TURN:
        return None
    tasks: list[Task] = []
    lengths = [rig.data.bones[name].length * metres for name in skeleton.names]
    for part in parts:
        joint = part.joint
        point = np.array([0.0, lengths[joint] if part.at_tail else 0.0, 0.0])
        place = matrices[:, joint, :3, :3] @ point + matrices[:, joint, :3, 3]
        tasks.append(ReachPoint(joint=joint, point=point, target=place, priority=part.priority))
        if not part.at_tail:
            turn = matrices[:, joint, :3, :3]
            turn = turn / np.linalg.norm(turn, axis=-2, keepdims=True)
            tasks.append(MatchOrientation(joint=joint, target=turn, priority=part.priority))
    solved = np.zeros(len(skeleton), dtype=np.bool_)
    for part in parts:
        solved[skeleton.ancestors(part.joint)] = True
    render = bpy.context.scene.render
    times = np.array(wanted)[shown] * render.fps_base / render.fps
    return Recording(whole, name, skeleton, character, pose, times, matrices, tuple(tasks), solved)


# Solved


class Solved:
    """A clip solved from the start of its recording, beside the recording."""

    def __init__(self, recording: Recording, **options: Any) -> None:
        self.recording, self.problem = recording, Problem(recording.skeleton, recording.tasks)
        self.solution, self.seconds = timed(
            solve_sequence, self.problem, recording.start, times=recording.times, **options
        )
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
        self.jumps = jumps_of(self.steps, self.recorded_steps)
        """Frames to which a joint jumps."""

    def joint_of(self, step: int) -> str:
        """Name of the joint that turns most in a step."""
        return self.recording.skeleton.names[self.moving[int(self.steps[step].argmax())]]

    def away(self, kind: LimbKind) -> float:
        """Mean distance of elbows or knees from the recording [cm]."""
        middles = [middle_of(limb) for limb in self.recording.character.limbs_of(kind)]
        apart = (self.matrices - self.recording.matrices)[:, middles, :3, 3]
        return 100.0 * float(np.linalg.norm(apart, axis=-1).mean())


def middle_of(limb: Limb) -> int:
    """The elbow or knee."""
    return next(
        joint
        for joint, role in zip(limb.joints, limb.roles, strict=True)
        if role in (Role.LOWER_ARM, Role.LOWER_LEG)
    )

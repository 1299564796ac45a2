# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded clips: found by their kind of motion, solved from hands, feet, head and hips, and measured."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.bvh import Clip, read_bvh
from benchmarks.human import Figure, Preferences, Roles, human_preferences, roles_of, targets
from blender_ik_addon.core import (
    MatchOrientation,
    Pose,
    Problem,
    ReachPoint,
    SequenceSolution,
    Skeleton,
    SolverOptions,
    Status,
    forward_kinematics,
    solve_sequence,
)
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.engine.pops import Pop, pops_of
from blender_ik_addon.core.rotation import rotation_angle

# ----------------------------------------------------------------------------------------------------------
# Which clips

KINDS: Final[dict[str, str]] = {
    "walk": r"walk",
    "run": r"\brun",
    "jump": r"\bjump(s|ing)?\b(?! jacks)",
    "kick": r"kick",
    "punch": r"punch",
    "dance": r"dance",
    "crawl": r"crawl",
    "backflip": r"backflip",
    "get-up": r"get.?up",
}
"""The kinds of motion, and what is looked for in a file's name and in its remark in the index."""

JUMP_RATIO: Final = 3.0
"""A joint jumps when it turns more than so many times as far as any recorded one between two frames [1]."""

JUMP_LEAST: Final = 25.0
"""And at least so far [°]: an elbow nearly straight turns its circle quickly for little motion."""

SHORTEST: Final = 20
"""Frames that a clip must have to be a motion rather than a pose."""

LONGEST: Final = 10.0
"""Length [s] up to which a clip is taken: thinned to the frames of a report it is still smooth."""


@dataclass(frozen=True)
class Source:
    """A file with a clip."""

    kind: str
    path: Path
    name: str
    """Relative to the folder of all data."""


def find_clips(folder: Path, *, every: bool = False) -> list[Source]:
    """A clip of each kind, or with `every` all clips of a figure whose parts can be told by their names.

    Of several the one with the most joints, and of those the one with the most frames.

    Raises:
        OSError: The folder cannot be read.
    """
    remarks: dict[str, str] = {}
    for index in (folder / "index.json", folder.parent / "index.json"):
        if index.is_file():
            entries = json.loads(index.read_text(encoding="utf-8"))
            remarks |= {Path(entry["file"]).name: entry.get("note", "") for entry in entries}
    found: dict[Path, Clip] = {}
    for path in sorted(folder.rglob("*.bvh")):
        clip = read_bvh(path)
        if len(clip) >= SHORTEST and (len(clip) * clip.frame_time <= LONGEST or every):
            found[path] = clip
    said = {path: f"{path.stem.replace('_', ' ')} {remarks.get(path.name, '')}".lower() for path in found}

    def source(kind: str, path: Path) -> Source:
        return Source(kind, path, path.relative_to(folder).as_posix())

    if every:
        kinds = {
            path: next((kind for kind, pattern in KINDS.items() if re.search(pattern, text)), "other")
            for path, text in said.items()
        }
        return [source(kinds[path], path) for path in found]
    chosen: list[Source] = []
    for kind, pattern in KINDS.items():
        paths = [path for path, text in said.items() if re.search(pattern, text)]
        if paths:
            best = max(paths, key=lambda path: (len(found[path].skeleton), len(found[path])))
            chosen.append(source(kind, best))
    return chosen


# ----------------------------------------------------------------------------------------------------------
# Solving, measuring


@dataclass(frozen=True)
class Row:
    """What was measured of a clip."""

    kind: str
    clip: str
    unit: str
    joints: int
    moving: int
    """Joints that the solver moves."""
    frames: int
    rate: float
    """Frames per second after thinning."""
    hands: str
    """How the hands are led: 'turned' with their orientation, 'placed' without."""
    worst_place: float
    mean_place: float
    """Of all effectors in all frames [mm]."""
    worst_turn: float
    mean_turn: float
    """[°]."""
    missed: int
    """Frames in which a target was not reached, by the solver's tolerances."""
    largest_step: float
    """Largest turn of a joint from a frame to the next [°]."""
    largest_step_at: str
    recorded_step: float
    """The same of the recording, over the same joints [°]."""
    jumps: int
    """Frames at which a joint jumps, see `jumps_of`."""
    pops: int
    """Pops, as the solver reports them, of joints that have none in the recording there."""
    recorded_pops: int
    """Pops of the recording."""
    elbows: float
    knees: float
    both: float
    """Mean distance from the recording [cm]."""
    farthest: float
    """Largest distance of an elbow or knee from the recording [cm]."""
    iterations: float
    """Mean of a frame."""
    most_iterations: int
    milliseconds: float
    """Of a frame."""
    statuses: dict[str, int] = field(default_factory=dict)


def read(source: Source, frames: int) -> Clip:
    """A clip, thinned to no more than so many frames."""
    clip = read_bvh(source.path)
    return clip.every(-(-len(clip) // frames))


def solve_clip(
    clip: Clip, roles: Roles, figure: Figure, recorded: FloatArray
) -> tuple[SequenceSolution, Problem]:
    """The whole clip from its targets."""
    problem = Problem(figure.skeleton, tuple(targets(clip, roles, figure, recorded)))
    channels = np.tile(figure.start, (len(clip), 1, 1))
    # The hips' own target puts them there in any case; from there the first frame has not far to go.
    channels[:, roles.hips] = clip.pose.channels[:, roles.hips]
    times = np.arange(len(clip), dtype=np.float64) * clip.frame_time
    return solve_sequence(problem, Pose.from_channels(channels), times=times), problem


def measure(source: Source, clip: Clip, known: Preferences | None = None) -> Row:
    """Solve a clip and compare.

    Raises:
        RoleError: A part of the body cannot be found.
    """
    roles = roles_of(clip)
    figure = human_preferences(clip, roles, known)
    recorded = forward_kinematics(clip.skeleton, clip.pose).matrices
    start = time.perf_counter()
    solution, problem = solve_clip(clip, roles, figure, recorded)
    seconds = time.perf_counter() - start
    posed = forward_kinematics(figure.skeleton, solution.pose)
    place, turn = effector_errors(problem, posed.matrices)
    moving = problem.moving_joints
    ours, theirs = (
        joint_steps(skeleton, matrices)[:, moving]
        for skeleton, matrices in ((figure.skeleton, posed.matrices), (clip.skeleton, recorded))
    )
    recorded_pops = pops_of(clip.skeleton, clip.pose, SolverOptions().pop_angle)
    frame, joint = np.unravel_index(int(ours.argmax()), ours.shape)
    middles = [*roles.elbows, *roles.knees]
    away = 100.0 * np.linalg.norm((posed.matrices - recorded)[:, middles][..., :3, 3], axis=-1)  # (F, 4)
    return Row(
        kind=source.kind,
        clip=source.name,
        unit=clip.unit,
        joints=len(clip.skeleton),
        moving=len(moving),
        frames=len(clip),
        rate=1.0 / clip.frame_time,
        hands="turned" if roles.hands else "placed",
        worst_place=float(place.max()) * 1e3,
        mean_place=float(place.mean()) * 1e3,
        worst_turn=float(np.degrees(turn.max())),
        mean_turn=float(np.degrees(turn.mean())),
        missed=sum(status is not Status.REACHED for status in solution.statuses),
        largest_step=float(ours.max()),
        largest_step_at=f"{clip.skeleton.names[moving[int(joint)]]}, frame {int(frame) + 1}",
        recorded_step=float(theirs.max()),
        jumps=len(jumps_of(ours, theirs)),
        pops=sum(not _beside(pop, recorded_pops) for pop in solution.pops),
        recorded_pops=len(recorded_pops),
        elbows=float(away[:, :2].mean()),
        knees=float(away[:, 2:].mean()),
        both=float(away.mean()),
        farthest=float(away.max()),
        iterations=float(solution.iterations.mean()),
        most_iterations=int(solution.iterations.max()),
        milliseconds=1e3 * seconds / len(clip),
        statuses={
            str(status): solution.statuses.count(status) for status in Status if status in solution.statuses
        },
    )


def effector_errors(problem: Problem, matrices: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Distances [m] and angles [rad] of all targets from matrices (F, n, 4, 4), (F, targets) each."""
    place, turn = [], []
    for task in problem.tasks:
        if isinstance(task, ReachPoint):
            joint = matrices[:, problem.skeleton.index(task.joint)]
            point = (joint[:, :3, :3] @ task.point) + joint[:, :3, 3]
            place.append(np.linalg.norm(point - task.target, axis=-1))
        elif isinstance(task, MatchOrientation):
            joint = matrices[:, problem.skeleton.index(task.joint)]
            turn.append(rotation_angle(np.swapaxes(task.target, -1, -2) @ joint[:, :3, :3]))
    return np.stack(place, axis=1), np.stack(turn, axis=1)


def joint_steps(skeleton: Skeleton, matrices: FloatArray) -> FloatArray:
    """Angle by which each joint turns in its parent from a frame to the next, (F - 1, n) [°].

    The angle of the turn itself: it does not depend on axes or on Euler angles.
    """
    rotations = matrices[..., :3, :3]
    local = np.array(rotations)
    for joint, parent in enumerate(skeleton.parents):
        if parent >= 0:
            local[:, joint] = np.swapaxes(rotations[:, parent], -1, -2) @ rotations[:, joint]
    return np.degrees(rotation_angle(np.swapaxes(local[:-1], -1, -2) @ local[1:]))


def jumps_of(ours: FloatArray, theirs: FloatArray) -> list[int]:
    """Frames to which a joint jumps: it turns far, and much farther than any recorded joint does there.

    A largest step alone does not show them, since a clip may have larger ones elsewhere.

    Args:
        ours: Turns of the joints from frame to frame, (F - 1, joints) [°].
        theirs: Those of the recording.
    """
    allowed = np.maximum(JUMP_RATIO * theirs.max(axis=1), JUMP_LEAST)
    return [int(step) + 1 for step in np.flatnonzero(ours.max(axis=1) > allowed)]


def _beside(pop: Pop, others: Sequence[Pop]) -> bool:
    """Whether one of others is of the same joint, no more than a frame away."""
    return any(other.joint == pop.joint and abs(other.frame - pop.frame) <= 1 for other in others)

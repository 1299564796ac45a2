# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole-body motion from hands, feet, head and hips alone, compared with the recording: scripts/motion.

    scripts/motion --data DIR [--compare] [--json FILE] [--markdown FILE] [--picture FILE]

From each recorded clip the places and orientations of hands, feet, head and hips become targets on the clip's
own skeleton, and everything between them is solved for. Of the recording nothing else is used: the first
frame starts from the rest pose, put where the hips' target is. Reported are how far the effectors are from
their targets, by the core's forward kinematics; the largest turn of a joint from frame to frame, beside the
recording's own; and how far elbows and knees are from where they really were, which no solver can know
exactly: the less the better.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy reads it
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from blender_ik_addon.core import (
    MatchOrientation,
    Pose,
    Problem,
    ReachPoint,
    SequenceSolution,
    Skeleton,
    Status,
    Task,
    forward_kinematics,
    solve_sequence,
)
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.rotation import (
    euler_from_matrix,
    matrix_from_rotvec,
    order_index,
    rotation_angle,
)
from scripts.examples.bvh import BvhError, Clip, read_bvh

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
# Which joint is what

PARTS: Final[dict[str, str]] = {
    "hand": "hand|wrist",
    "elbow": "fore_?arm|elbow|lo(?:wer)?_?arm",
    "foot": "foot|ankle",
    "knee": "knee|shin|calf|lo(?:wer)?_?leg|leg",
}
"""Names of the joints of limbs without their side. The forearm begins at the elbow, the shin at the knee."""

SIDED: Final = r"(?P<before>left|right|l|r)?[_ .:-]*(?:{})[_ .:-]*(?P<after>left|right|l|r)?"


class RoleError(ValueError):
    """A skeleton on which a part of the body cannot be found."""


@dataclass(frozen=True)
class Roles:
    """Joints of a human figure by what they are; pairs are left, right."""

    hips: int
    head: int
    feet: tuple[int, int]
    knees: tuple[int, int]
    elbows: tuple[int, int]
    hands: tuple[int, int] | None
    """None where the forearm is the last joint: then its end is the hand, which has no orientation."""

    def parents(self, skeleton: Skeleton, joints: tuple[int, int]) -> tuple[int, int]:
        """Of elbows the shoulders, of knees the hip joints."""
        return int(skeleton.parents[joints[0]]), int(skeleton.parents[joints[1]])


def roles_of(clip: Clip) -> Roles:
    """Find the parts of the body by the names of the joints; of several the one nearest to the root.

    Raises:
        RoleError: A part is not there; the message names it.
    """
    names = [name.lower() for name in clip.skeleton.names]
    pairs: dict[str, tuple[int, int] | None] = {}
    for part, pattern in PARTS.items():
        sides: dict[str, int] = {}
        for joint, name in enumerate(names):
            match = re.fullmatch(SIDED.format(pattern), name)
            side = match and (match["before"] or match["after"])
            if side:
                sides.setdefault(side[0], joint)
        pairs[part] = (sides["l"], sides["r"]) if len(sides) == 2 else None
    head = next((names.index(name) for name in ("head", "neck") if name in names), None)
    elbows, knees, feet, hands = (pairs[part] for part in ("elbow", "knee", "foot", "hand"))
    if elbows is None or knees is None or feet is None or head is None:
        missing = [part for part in ("elbow", "knee", "foot") if pairs[part] is None]
        missing += ["head"] if head is None else []
        raise RoleError(f"no {', '.join(missing)} among {', '.join(clip.skeleton.names[:40])}")
    if hands is None and not all(clip.skeleton.names[joint] in clip.ends for joint in elbows):
        raise RoleError("there are no hands, and forearms without an end")
    return Roles(hips=0, head=head, feet=feet, knees=knees, elbows=elbows, hands=hands)


# ----------------------------------------------------------------------------------------------------------
# What is known of human beings


@dataclass(frozen=True)
class Preferences:
    """What to assume of a human figure, whoever it is and whatever it does. The defaults are what is used."""

    hinges: bool = True
    """Whether limbs get axes of their own: X about which they bend, Y along them. Else as in the file."""
    one_way: bool = True
    """Whether elbows and knees do not bend backwards: a limit about X."""
    across: float = 0.9
    """Stiffness of elbows and knees against bending sideways, of knees also against twisting [1]."""
    pronation: float = 0.5
    """Stiffness of the forearm's twist [1]."""
    elbow_bend: float = 45.0
    knee_bend: float = 20.0
    """Preferred bend [°]."""
    arm_out: float | None = 45.0
    """Preferred angle of the upper arm from hanging straight down to the side [°]; None: as at rest."""
    arm_forward: float = 30.0
    """And to the front [°]."""
    ankle: tuple[float, float, float] = (0.5, 0.8, 0.8)
    wrist: tuple[float, float, float] = (0.5, 0.5, 0.5)
    """Stiffness about X, Y and Z [1]."""
    spine: float = 0.9
    neck: float = 0.5
    collar: float = 0.9
    """Stiffness [1] of the joints from hips to neck, of the head's, and of those from spine to shoulders."""
    pelvis: float = 0.99
    """Stiffness of joints between hips and thighs [1], which some files have and no body."""


NOTHING: Final = Preferences(
    hinges=False,
    one_way=False,
    across=0.0,
    pronation=0.0,
    elbow_bend=0.0,
    knee_bend=0.0,
    arm_out=None,
    ankle=(0.0, 0.0, 0.0),
    wrist=(0.0, 0.0, 0.0),
    spine=0.0,
    neck=0.0,
    collar=0.0,
    pelvis=0.0,
)
"""The rest pose is preferred, and that is all."""

LARGEST_BEND: Final = 165.0
"""Of elbows and knees from straight [°]: where the flesh of the limb meets."""

STEPS: Final[dict[str, Preferences]] = {
    "nothing but the rest pose": NOTHING,
    "axes along the limbs": replace(NOTHING, hinges=True),
    "elbows and knees bend one way": replace(NOTHING, hinges=True, one_way=True),
    "and stiff sideways": replace(NOTHING, hinges=True, one_way=True, across=0.9, pronation=0.5),
    "and bent a little": replace(
        Preferences(),
        **{
            key: getattr(NOTHING, key)
            for key in ("arm_out", "ankle", "wrist", "spine", "neck", "collar", "pelvis")
        },
    ),
    "and stiff ankles, wrists, spine, collars": replace(Preferences(), arm_out=None),
    "and elbows off the body (used)": Preferences(),
    "the same, knees and elbows free to bend backwards": replace(Preferences(), one_way=False),
    "the same, ankles loose": replace(Preferences(), ankle=(0.0, 0.0, 0.0)),
    "the same, collars as loose as the shoulders": replace(Preferences(), collar=0.0),
}
"""What was tried, for the table that compares: from nothing to all, then some of it left out again."""


@dataclass(frozen=True)
class Figure:
    """A clip's skeleton as it is solved: the same places at rest, other axes, limits and preferences."""

    skeleton: Skeleton
    rest_from_axes: FloatArray
    """Rotation of each joint's axes at rest, (n, 3, 3); the file's own axes are those of space."""
    start: FloatArray
    """Channels from which the first frame is solved, (n, 6), without the place of the hips."""


def human_preferences(clip: Clip, roles: Roles, known: Preferences | None = None) -> Figure:
    """A figure with what is known of human beings, told from its rest pose and the roles of its joints.

    Up is from hips to head, left from the right knee to the left, forward from both. Elbows bend the hand
    forward, knees the foot backwards, about the axis square to the limb; a leg that is bent at rest already
    counts from there. Joints of limbs get Y along the bone and X along that axis. Ball joints turn in the
    order XYZ, bending first and the twist in the middle, which is never near a right angle where arms and
    legs go; hinges YZX, twist first. The hips have no preference, since their target decides them.
    """
    known = known or Preferences()
    skeleton = clip.skeleton
    n = len(skeleton)
    axes, orders = np.tile(np.eye(3), (n, 1, 1)), np.array(skeleton.orders)
    stiffness, preferred = np.zeros((n, 6)), np.zeros((n, 6))
    lower, upper = np.full((n, 6), -np.inf), np.full((n, 6), np.inf)
    places = skeleton.armature_from_joint_rest[:, :3, 3]
    forward = _forward(places, roles)
    wrists = [places[hand] for hand in roles.hands] if roles.hands else [_end(clip, j) for j in roles.elbows]
    shoulders, thighs = (
        list(roles.parents(skeleton, roles.elbows)),
        list(roles.parents(skeleton, roles.knees)),
    )
    limbs = [
        *zip(shoulders, roles.elbows, roles.hands or (None, None), wrists, (forward,) * 2, strict=True),
        *zip(thighs, roles.knees, roles.feet, places[list(roles.feet)], (-forward,) * 2, strict=True),
    ]
    for ball, hinge, last, tip, towards in limbs if known.hinges else []:
        is_knee = hinge in roles.knees
        above, below = _unit(places[hinge] - places[ball]), _unit(tip - places[hinge])
        axis = _unit(_cross(above, towards))
        axes[ball], axes[hinge] = _axes(above, axis), _axes(below, axis)
        orders[[ball, hinge]] = order_index("XYZ"), order_index("YZX")
        stiffness[hinge, 4:] = known.across if is_knee else known.pronation, known.across
        if not is_knee and known.arm_out is not None:
            outward = _unit(places[ball] - places[shoulders].mean(axis=0))
            turn = _turn_between(above, _hanging(places, roles, outward, known))
            preferred[ball, 3:] = euler_from_matrix(axes[ball].T @ turn @ axes[ball], order_index("XYZ"))
        at_rest = np.arctan2(_cross(above, below) @ axis, above @ below)
        bend = np.radians(known.knee_bend if is_knee else known.elbow_bend)
        preferred[hinge, 3] = bend - at_rest if bend > 0.0 else 0.0
        if known.one_way:
            lower[hinge, 3], upper[hinge, 3] = min(-at_rest, 0.0), np.radians(LARGEST_BEND) - at_rest
        if last is not None:
            axes[last], orders[last] = axes[hinge], order_index("XYZ")
            stiffness[last, 3:] = known.ankle if is_knee else known.wrist
    spine = [joint for joint in skeleton.ancestors(roles.head)[1:] if joint != roles.hips]
    for joint in shoulders:
        stiffness[[j for j in skeleton.ancestors(joint)[1:] if j not in (*spine, roles.hips)], 3:] = (
            known.collar
        )
    for joint in thighs:
        stiffness[[j for j in skeleton.ancestors(joint)[1:] if j != roles.hips], 3:] = known.pelvis
    stiffness[spine, 3:] = known.spine
    stiffness[roles.head, 3:] = known.neck
    start = np.clip(preferred, lower, upper)
    preferred[roles.hips] = np.nan
    return Figure(
        replace(
            skeleton,
            rest=_turned(skeleton, axes),
            orders=orders,
            stiffness=stiffness,
            preferred=preferred,
            lower=lower,
            upper=upper,
        ),
        axes,
        start,
    )


def _unit(vector: FloatArray) -> FloatArray:
    return vector / np.linalg.norm(vector)


def _cross(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(np.cross(a, b), dtype=np.float64)


def _axes(along: FloatArray, about: FloatArray) -> FloatArray:
    """Axes with Y along a bone and X as near as can be to where it bends about, as columns (3, 3)."""
    x = _unit(about - along * (about @ along))
    return np.stack([x, along, _cross(x, along)], axis=1)


def _hanging(places: FloatArray, roles: Roles, outward: FloatArray, known: Preferences) -> FloatArray:
    """Preferred direction of an upper arm in the rest pose of the body, (3,)."""
    up = _unit(places[roles.head] - places[roles.hips])
    outward = _unit(outward - up * (outward @ up))
    out, front = np.radians(known.arm_out or 0.0), np.radians(known.arm_forward)
    return np.cos(front) * (np.sin(out) * outward - np.cos(out) * up) + np.sin(front) * _forward(
        places, roles
    )


def _turn_between(start: FloatArray, end: FloatArray) -> FloatArray:
    """The smallest rotation (3, 3) from a direction to another that is not opposite."""
    axis = _cross(start, end)
    sine = float(np.linalg.norm(axis))
    return matrix_from_rotvec(axis * (np.arctan2(sine, start @ end) / sine if sine > 0.0 else 1.0))


def _forward(places: FloatArray, roles: Roles) -> FloatArray:
    """Where the figure looks at rest, (3,)."""
    up = _unit(places[roles.head] - places[roles.hips])
    left = places[roles.knees[0]] - places[roles.knees[1]]
    return _unit(_cross(left, up))


def _end(clip: Clip, joint: int) -> FloatArray:
    """Where a last joint ends at rest, in armature space (3,) [m]."""
    return clip.skeleton.armature_from_joint_rest[joint, :3, 3] + clip.ends[clip.skeleton.names[joint]]


def _turned(skeleton: Skeleton, axes: FloatArray) -> FloatArray:
    """Rest matrices (n, 4, 4) of a skeleton whose joints stay where they are and get other axes (n, 3, 3)."""
    armature_from_joint = np.array(skeleton.armature_from_joint_rest)
    armature_from_joint[:, :3, :3] = axes
    above = np.array(
        [np.eye(4) if parent < 0 else armature_from_joint[parent] for parent in skeleton.parents]
    )
    return np.linalg.inv(above) @ armature_from_joint


# ----------------------------------------------------------------------------------------------------------
# Targets, solving, measuring


def targets(clip: Clip, roles: Roles, figure: Figure, recorded: FloatArray) -> list[Task]:
    """Places and orientations of hips, head, feet and hands in all frames of a recording (F, n, 4, 4).

    All have the same priority: they come from one body, so none needs to give way.
    """
    tasks: list[Task] = []
    for joint in (roles.hips, roles.head, *roles.feet, *(roles.hands or ())):
        turn = recorded[:, joint, :3, :3] @ figure.rest_from_axes[joint]
        tasks += [
            ReachPoint(joint=joint, target=recorded[:, joint, :3, 3]),
            MatchOrientation(joint=joint, target=turn),
        ]
    for joint in () if roles.hands else roles.elbows:
        end = clip.ends[clip.skeleton.names[joint]]
        target = recorded[:, joint, :3, :3] @ end + recorded[:, joint, :3, 3]
        tasks.append(ReachPoint(joint=joint, point=figure.rest_from_axes[joint].T @ end, target=target))
    return tasks


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
    return solve_sequence(problem, Pose.from_channels(channels)), problem


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


# ----------------------------------------------------------------------------------------------------------
# Showing it

HEADINGS: Final = (
    "motion",
    "frames",
    "place, mean / worst [mm]",
    "turn, mean / worst [°]",
    "not reached",
    "largest step / recorded [°]",
    "jumps",
    "elbows [cm]",
    "knees [cm]",
    "both [cm]",
    "iterations, mean / most",
    "ms a frame",
)


def cells(row: Row) -> tuple[str, ...]:
    """A row as text."""
    return (
        row.kind,
        f"{row.frames} at {row.rate:.0f}/s",
        f"{row.mean_place:.4f} / {row.worst_place:.4f}",
        f"{row.mean_turn:.5f} / {row.worst_turn:.5f}",
        f"{row.missed}",
        f"{row.largest_step:.0f} / {row.recorded_step:.0f}",
        f"{row.jumps}",
        f"{row.elbows:.1f}",
        f"{row.knees:.1f}",
        f"{row.both:.1f}",
        f"{row.iterations:.1f} / {row.most_iterations}",
        f"{row.milliseconds:.1f}",
    )


def summary(rows: Sequence[Row]) -> str:
    """All clips in a sentence."""
    missed, jumps = sum(row.missed for row in rows), sum(row.jumps for row in rows)
    place, turn = max(row.worst_place for row in rows), max(row.worst_turn for row in rows)
    elbows, knees, both = (
        np.mean([getattr(row, part) for row in rows]) for part in ("elbows", "knees", "both")
    )
    return (
        f"{len(rows)} clips, {sum(row.frames for row in rows)} frames, {missed} not reached, {jumps} jumps; "
        f"worst effector {place:.4f} mm, {turn:.5f}°. Mean of the clips: elbows {elbows:.1f} cm from the "
        f"recording, knees {knees:.1f} cm, both {both:.1f} cm."
    )


@dataclass(frozen=True)
class Trial:
    """One of `STEPS` on all clips."""

    what: str
    elbows: float
    knees: float
    both: float
    """Mean over the clips of the mean distance [cm]."""
    others: float | None
    """The same of the clips that are not of the report; None where there are none [cm]."""
    step_ratio: float
    """Largest step by that of the recording, the worst clip [1]."""
    jumps: int
    missed: int
    """Of all clips together."""


def compare(sources: Sequence[Source], others: Sequence[Source], frames: int) -> Iterator[Trial]:
    """What each assumption is worth, for the clips of the report and for others."""
    clips, other_clips = ([read(source, frames) for source in some] for some in (sources, others))
    for what, known in STEPS.items():
        rows = [measure(source, clip, known) for source, clip in zip(sources, clips, strict=True)]
        beyond = [measure(source, clip, known) for source, clip in zip(others, other_clips, strict=True)]
        yield Trial(
            what,
            elbows=float(np.mean([row.elbows for row in rows])),
            knees=float(np.mean([row.knees for row in rows])),
            both=float(np.mean([row.both for row in rows])),
            others=float(np.mean([row.both for row in beyond])) if beyond else None,
            step_ratio=max(row.largest_step / row.recorded_step for row in (*rows, *beyond)),
            jumps=sum(row.jumps for row in (*rows, *beyond)),
            missed=sum(row.missed for row in (*rows, *beyond)),
        )


def with_known_parts(sources: Sequence[Source]) -> list[Source]:
    """The clips on which the parts of a body can be found; of the others it is said why not."""
    known: list[Source] = []
    for source in sources:
        try:
            roles_of(read_bvh(source.path))
        except RoleError as error:
            print(f"{source.name}: {error}", file=sys.stderr)
        else:
            known.append(source)
    return known


INTRODUCTION: Final = """\
# Whole-body motion against recordings

Made by `{command}`.

From each recorded clip the places and orientations of hands, feet, head and hips become targets on the
clip's own skeleton; everything between them is solved for. Of the recording nothing else is used. *Place*
and *turn* are errors of the effectors, by forward kinematics of the result, over all frames. *Largest step*
is the largest turn of a joint in its parent from a frame to the next, and that of the recording over the same
joints; *jumps* counts the frames at which a joint turns more than {ratio:g} times as far as any recorded one
between the same two frames, and more than {least:g}°. *Elbows* and *knees* are their mean distances from the
recording, which the targets do not fix: the less the better.
"""

SKELETONS: Final = """\
## The clips

Files say no unit of length, it is guessed from the height. Where the forearm is the last joint the hand is
its end, *placed* without an orientation: no target then tells where on its circle the elbow is.

"""

ASSUMPTIONS: Final = """\
## What is assumed of a human being

Elbows bend forward and knees backward and not the other way; they resist bending sideways, knees also
twisting; arms and legs are rather bent than straight; upper arms rather stand off the body than hang; ankles,
wrists and the spine would rather not turn (`human_preferences` in `scripts/examples/motion.py`). Axes and
directions are told from the rest pose and the names of the joints; the numbers are the same for all clips.

The numbers are not blind, though: they were chosen by trying some on these {clips} clips and looking at most
of the others in the folder too, so clips that nobody has looked at may come out worse. Only the first line
owes nothing to any recording.

Means over the clips at no more than {frames} frames each; the last lines leave one thing out again. *Other
clips* is *both* for the {others} clips of the folder that are not in the table above; some are of the same
skeletons. *Step* is the largest step by that of the recording, in the worst of all clips;
jumps and frames not reached are those of all clips together.

"""


def table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    rows = [headings, ("---",) * len(headings), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


TRIAL_HEADINGS: Final = (
    "assumed",
    "elbows [cm]",
    "knees [cm]",
    "both [cm]",
    "other clips [cm]",
    "step",
    "jumps",
    "not reached",
)


def trial_cells(trial: Trial) -> tuple[str, ...]:
    """A trial as text."""
    return (
        trial.what,
        f"{trial.elbows:.1f}",
        f"{trial.knees:.1f}",
        f"{trial.both:.1f}",
        "–" if trial.others is None else f"{trial.others:.1f}",
        f"{trial.step_ratio:.1f}",
        f"{trial.jumps}",
        f"{trial.missed}",
    )


def markdown(
    rows: Sequence[Row], trials: Sequence[Trial], facts: dict[str, Any], command: str, picture: str | None
) -> str:
    """The page for the documentation."""
    parts = [
        INTRODUCTION.format(command=command, ratio=JUMP_RATIO, least=JUMP_LEAST),
        summary(rows) + "\n",
        table(HEADINGS, [*map(cells, rows)]),
    ]
    if picture is not None:
        parts.append(f"![Distance of elbows and knees from the recording, and largest steps]({picture})\n")
    if trials:
        assumptions = ASSUMPTIONS.format(
            clips=len(rows), others=facts["other clips"], frames=facts["frames of a comparison"]
        )
        parts.append(assumptions + table(TRIAL_HEADINGS, [*map(trial_cells, trials)]))
    clips = [
        (row.kind, row.clip, row.unit, f"{row.joints}, {row.moving} moved", row.hands, row.largest_step_at)
        for row in rows
    ]
    parts.append(
        SKELETONS + table(("motion", "clip", "unit taken", "joints", "hands", "largest step of"), clips)
    )
    parts.append("Run with: " + "; ".join(f"{key} {value}" for key, value in facts.items()) + ".\n")
    return "\n".join(parts)


def draw(path: Path, rows: Sequence[Row], before: Sequence[Row]) -> None:
    """Bars for each clip: distances from the recording with and without what is assumed, and steps."""
    # Only a picture needs it, and the environments of the tests do not have it.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    ink, grid = "#2b2d33", "#e3e6ea"
    canvas = Canvas(figsize=(10.0, 6.4), facecolor="white")
    FigureCanvasAgg(canvas)
    distances, steps = canvas.subplots(2, 1, sharex=True)
    x = np.arange(len(rows))
    groups = (
        ("elbows, rest pose alone", [row.elbows for row in before], "#f0bcc3", -0.3),
        ("elbows", [row.elbows for row in rows], "#d1495b", -0.1),
        ("knees, rest pose alone", [row.knees for row in before], "#b3cfe4", 0.1),
        ("knees", [row.knees for row in rows], "#1f77b4", 0.3),
    )
    for label, values, colour, shift in groups:
        bars = distances.bar(x + shift, values, 0.19, color=colour, label=label)
        distances.bar_label(bars, fmt="%.1f", fontsize=7, color=ink)
    distances.set_ylabel("from the recording, mean [cm]", color=ink)
    both = (
        ("ours", [row.largest_step for row in rows], "#7a5195", -0.15),
        ("recorded", [row.recorded_step for row in rows], "#c9c9cf", 0.15),
    )
    for label, values, colour, shift in both:
        bars = steps.bar(x + shift, values, 0.29, color=colour, label=label)
        steps.bar_label(bars, fmt="%.0f", fontsize=7, color=ink)
    steps.set_ylabel("largest turn of a joint\nbetween frames [°]", color=ink)
    steps.set_xticks(x, [row.kind for row in rows])
    for axes in (distances, steps):
        axes.grid(True, axis="y", color=grid, lw=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=9)
    canvas.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, dpi=100)


def _shown(path: Path) -> str:
    """A path as others may type it: nobody else has this machine's folders."""
    return path.name if path.is_absolute() else path.as_posix()


def main() -> int:
    """Make the report. Returns the exit code: 1 when there is no clip, or a file cannot be read."""
    parser = argparse.ArgumentParser(prog="scripts/motion", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, metavar="DIR", required=True, help="folder with BVH files")
    parser.add_argument("--all", action="store_true", help="every clip in the folder, not one of each kind")
    parser.add_argument("--frames", type=int, default=250, help="most frames of a clip (default 250)")
    parser.add_argument("--compare", action="store_true", help="also show what each assumption is worth")
    parser.add_argument("--compare-frames", type=int, default=40, help="most frames of a clip there (40)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables as Markdown")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw bars, as PNG")
    options = parser.parse_args()
    start = time.perf_counter()
    try:
        sources = with_known_parts(find_clips(options.data, every=options.all))
        others: list[Source] = []
        if options.compare and not options.all:
            chosen = {source.path for source in sources}
            everything = find_clips(options.data, every=True)
            others = with_known_parts([source for source in everything if source.path not in chosen])
    except (OSError, BvhError) as error:
        print(error, file=sys.stderr)
        return 1
    if not sources:
        print(f"{options.data}: no clip of a known kind", file=sys.stderr)
        return 1
    for kind in [] if options.all else KINDS:
        if kind not in {source.kind for source in sources}:
            print(f"no clip of the kind {kind!r}", file=sys.stderr)
    rows: list[Row] = []
    before: list[Row] = []
    for source in sources:
        clip = read(source, options.frames)
        rows.append(measure(source, clip))
        if options.picture is not None:
            before.append(measure(source, clip, NOTHING))
        line = zip(HEADINGS, cells(rows[-1]), strict=True)
        print("  ".join(f"{heading} {cell};" for heading, cell in line), flush=True)
    print(f"\n{summary(rows)}")
    trials: list[Trial] = []
    if options.compare:
        print("\n" + "  ".join(TRIAL_HEADINGS))
        for trial in compare(sources, others, options.compare_frames):
            trials.append(trial)
            print("  ".join(trial_cells(trial)), flush=True)
    facts = {
        "frames of a clip at most": options.frames,
        "frames of a comparison": options.compare_frames,
        "other clips": len(others),
        "numpy": np.__version__,
        "Python": platform.python_version(),
        "processor": platform.machine(),
    }
    if options.picture is not None:
        draw(options.picture, rows, before)
    if options.json is not None:
        content = {"facts": facts, "rows": [asdict(r) for r in rows], "trials": [asdict(t) for t in trials]}
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if options.markdown is not None:
        flags = ["--data DIR"]
        flags += [name for name, given in (("--all", options.all), ("--compare", options.compare)) if given]
        picture = None
        if options.picture is not None:
            picture = Path(os.path.relpath(options.picture, options.markdown.parent)).as_posix()
            flags.append(f"--picture {_shown(options.picture)}")
        command = " ".join(["scripts/motion", *flags, f"--markdown {_shown(options.markdown)}"])
        options.markdown.write_text(markdown(rows, trials, facts, command, picture), encoding="utf-8")
    print(f"({time.perf_counter() - start:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())

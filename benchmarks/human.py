# SPDX-License-Identifier: GPL-3.0-or-later
"""A human figure: which joint of a clip is what, what is preferred of it, and what its motion is led by.

From the names of the joints and the rest pose alone, so that the same numbers serve every figure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from benchmarks.bvh import Clip
from blender_ik_addon.core import MatchOrientation, ReachPoint, Skeleton, Task
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.model.euler import order_index
from blender_ik_addon.core.model.rotation import euler_from_matrix, matrix_from_rotvec

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
# What leads it


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

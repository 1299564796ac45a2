# SPDX-License-Identifier: GPL-3.0-or-later
"""How joints turn, in the terms of anatomy: in axes of the body, from a neutral pose that all rigs share.

Each joint has axes of its bone: to the left, up and forward, those of the figure in the neutral pose. A trunk
is in it as it is at rest. Upper arms and forearms, thighs and shins hang straight down, and elbows and knees
bend about the axis from side to side, whatever the rest pose is: their axes at rest follow from the bones'
directions and from the recognised axis of the bend. A joint's turn M = A_aboveᵀ A is that of its axes in
those of the joint above: 1 in the neutral pose. On the right side it is mirrored, so that both sides have one
turn where a pose is symmetric.

Hands are neutral as they are at rest beside their forearms, since where palms face is not known, and feet as
they stand at rest. The joints of a trunk or a neck, and others in a row with one role, share one turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..arrays import FloatArray, freeze
from ..model.rotation import matrix_from_rotvec
from ..model.skeleton import Skeleton
from .roles import Bend, Character, Limb, LimbKind, Role, Side
from .roles.character import LOWER, UPPER
from .roles.structure import TINY, norm, unit

MIRROR: Final = np.diag([-1.0, 1.0, 1.0])
"""Mirrors at the plane between left and right, in axes of the body."""

PART_OF_KIND: Final = {LimbKind.TRUNK: Role.CHEST, LimbKind.HEAD: Role.HEAD}
"""Limbs whose joints are one part, called by its upper end."""

TIPS: Final = {Role.ANKLE: Role.FOOT}
"""Roles that are a part with those after them."""


@dataclass(frozen=True)
class AnatomicalJoint:
    """A joint with the axes of its bone."""

    joint: int
    """Index in the skeleton."""
    above: int
    """The nearest joint above it that has axes, an index in the skeleton."""
    part: Role
    """The part of the body whose turn it has, or has a share of."""
    place: int
    """Which of the joints that share this turn it is, from 0."""
    joints: int
    """How many joints they are."""
    lever: float
    """How far it is from the end of these joints, by the mean of them all [1]."""
    right: bool
    """Whether it is on the right side, where turns are mirrored."""
    axes: FloatArray
    """Left, up and forward of the bone at rest as columns, in armature space, (3, 3)."""
    axes_above: FloatArray
    """The same of the joint above."""
    rest: FloatArray
    """Rotation of the joint's frame at rest in armature space, (3, 3)."""

    def __post_init__(self) -> None:
        freeze(self, "axes", "axes_above", "rest")

    @property
    def joint_from_axes(self) -> FloatArray:
        """The anatomical axes in the joint's own frame as columns, mirrored on the right, (3, 3)."""
        own = self.rest.T @ self.axes
        return own @ MIRROR if self.right else own

    def rotation(self, turn: FloatArray) -> FloatArray:
        """The joint's rotation from rest in its own frame that gives it an anatomical turn, (3, 3) each."""
        turn = MIRROR @ turn @ MIRROR if self.right else turn
        return self.rest.T @ self.axes_above @ turn @ self.axes.T @ self.rest


def anatomical_joints(skeleton: Skeleton, character: Character, figure: int) -> tuple[AnatomicalJoint, ...]:
    """Return the joints of a figure's limbs that turn in the joint above, parents first."""
    own = character.figures[figure]
    body = np.stack([own.left, own.up, own.forward], axis=1)
    rest = skeleton.armature_from_joint_rest
    axes: dict[int, FloatArray] = {}
    found: list[AnatomicalJoint] = []
    for limb in sorted(
        (limb for limb in character.limbs if limb.figure == figure), key=lambda limb: limb.joints[0]
    ):
        parts = [_part(limb, role) for role in limb.roles]
        for place, (joint, role, part) in enumerate(zip(limb.joints, limb.roles, parts, strict=True)):
            axes[joint] = _axes(rest, limb, place, body, axes)
            above = next((other for other in skeleton.ancestors(joint)[1:] if other in axes), None)
            if above is None or role is Role.HIPS:
                continue
            same = [other for other, its in zip(limb.joints, parts, strict=True) if its is part]
            found.append(
                AnatomicalJoint(
                    joint=joint,
                    above=above,
                    part=part,
                    place=same.index(joint),
                    joints=len(same),
                    lever=float(_levers(rest, same)[same.index(joint)]),
                    right=limb.side is Side.RIGHT,
                    axes=axes[joint],
                    axes_above=axes[above],
                    rest=rest[joint, :3, :3],
                )
            )
    return tuple(sorted(found, key=lambda one: one.joint))


def _part(limb: Limb, role: Role) -> Role:
    if role is Role.HIPS:
        return role
    return PART_OF_KIND.get(limb.kind, TIPS.get(role, role))


def _axes(
    rest: FloatArray, limb: Limb, place: int, body: FloatArray, known: dict[int, FloatArray]
) -> FloatArray:
    """Left, up and forward of a bone at rest as columns, (3, 3)."""
    role, joint = limb.roles[place], limb.joints[place]
    above = known.get(limb.joints[place - 1], body) if place else body
    if role in UPPER and limb.first(role) == joint and place + 1 < len(limb.joints):
        return _hanging(rest[limb.joints[place + 1], :3, 3] - rest[joint, :3, 3], limb, body)
    if role in LOWER and limb.first(role) == joint and limb.bend_axis is not None:
        bent = -limb.bend_angle if limb.bend is Bend.INVERTED else limb.bend_angle
        return matrix_from_rotvec(bent * limb.bend_axis) @ above
    return above if role in UPPER or role in LOWER or role is Role.HAND else body


def _hanging(along: FloatArray, limb: Limb, body: FloatArray) -> FloatArray:
    """Axes of the upper bone of a limb, (3, 3), which would hang down along a direction (3,)."""
    if norm(along) <= TINY:
        return body
    up = -unit(along)
    if limb.bend_axis is not None:
        # An elbow bends forward, about the axis to the right; a knee backward, about that to the left.
        left = -limb.bend_axis if limb.kind is LimbKind.ARM else limb.bend_axis
        left = left - (left @ up) * up
    else:
        left = np.cross(up, body[:, 2])
    if norm(left) <= TINY:
        return body
    left = unit(left)
    return np.stack([left, up, np.cross(left, up)], axis=1)


def _levers(rest: FloatArray, joints: Sequence[int]) -> FloatArray:
    """How far joints in a row are from their end, by the mean of all, (k,) [1]."""
    lengths = np.linalg.norm(np.diff(rest[list(joints), :3, 3], axis=0), axis=1)  # (k - 1,)
    lengths = np.append(lengths, lengths.mean() if len(lengths) else 1.0)
    levers = np.cumsum(lengths[::-1])[::-1]
    return levers / max(float(levers.mean()), TINY)

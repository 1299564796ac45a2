# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds while a bone is dragged, and what may move: feet, hands and hips, or the ends of chains."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from bpy.types import Object

from ...core import IKError, MatchOrientation, ReachPoint, Skeleton, Task
from ...core.arrays import FloatArray
from ...core.character.roles import LimbKind, Role
from ..armature.armature import Armature
from ..armature.role_table import read_character
from ..kinds.frame_data import orientations
from ..reports import listed
from ..rig.rig import what_holds

MOST_ENDS: Final = 12
"""How many chain ends hold at most where no hands and feet are known: those with the longest chains."""

HIPS_TURN_WEIGHT: Final = 0.1
"""Weight [1] of the orientation of hips with a target: they bend forward before they let a hand miss, and not
before. Hips without a target turn freely in their place, or all bending would be left to the spine."""

_FEET = (LimbKind.LEG, LimbKind.FRONT_LEG)
_HANDS = (LimbKind.ARM, LimbKind.WING)


@dataclass(frozen=True)
class Anchor:
    """What holds in a drag: an effector, or a bone where it is."""

    name: str
    """Of the effector, or of the bone."""
    bone: str
    tasks: tuple[Task, ...]
    """With their levels; what gives way has level 0, and its level is chosen when all others are known."""
    firm: bool = True
    """Whether it holds strictly, or gives way to the dragged bone."""

    @classmethod
    def of(
        cls, bone: str, armature_from_bone: FloatArray, *, firm: bool = True, turn_weight: float = 1.0
    ) -> "Anchor":
        """A bone that holds its place (4, 4) [m] and, where it has one, its orientation, with this weight."""
        place = ReachPoint(joint=bone, target=armature_from_bone[:3, 3], name=bone)
        rotation = orientations(armature_from_bone)
        if not turn_weight or not np.isfinite(rotation).all():
            return cls(bone, bone, (place,), firm)
        turn = MatchOrientation(joint=bone, target=rotation, weight=turn_weight, name=bone)
        return cls(bone, bone, (place, turn), firm)


def first_anchors(
    limbs: Sequence[tuple[int, str]],
    skeleton: Skeleton,
    dragged: str,
    taken: Collection[str],
    turned: Collection[str],
    matrices: FloatArray,
) -> Iterator[Anchor]:
    """Give what holds without an effector when a drag begins.

    Args:
        limbs: What may hold, as `limbs_and_hips` gives it.
        skeleton: With those channels free that may move for the dragged bone.
        dragged: Name of the dragged bone.
        taken: Bones that effectors hold.
        turned: Hips that an effector holds loosely, with their orientation.
        matrices: armature_from_bone of all bones, (n, 4, 4) [m].
    """
    for joint, kind in limbs:
        name, above = skeleton.names[joint], skeleton.ancestors(joint)
        # Hips below the dragged bone go with it: holding them would twist the body between the two.
        if name == dragged or name in taken or (kind == 'HIPS' and skeleton.index(dragged) in above):
            continue
        if skeleton.free[above].any():
            weight = 1.0 if kind != 'HIPS' else HIPS_TURN_WEIGHT if name in turned else 0.0
            yield Anchor.of(name, matrices[joint], firm=kind == 'FOOT', turn_weight=weight)


def limbs_and_hips(armature_object: Object, skeleton: Skeleton) -> list[tuple[int, str]]:
    """Joints that hold, and what they are: 'FOOT', 'HAND', 'HIPS', or 'END' where none of these is known."""
    character, _gone = read_character(armature_object, skeleton)
    found = [(limb.effector, 'FOOT') for limb in character.limbs if limb.kind in _FEET]
    found += [(limb.effector, 'HAND') for limb in character.limbs if limb.kind in _HANDS]
    if found:
        figures = range(len(character.figures))
        hips = [joints[0] for f in figures if (joints := character.joints_of(Role.HIPS, figure=f))]
        return found + [(joint, 'HIPS') for joint in hips]
    roots = np.flatnonzero(skeleton.parents < 0).tolist()
    ends = sorted({*range(len(skeleton))} - {*skeleton.parents.tolist(), *roots})
    ends.sort(key=lambda joint: -len(skeleton.ancestors(joint)))
    return [(joint, 'END') for joint in ends[:MOST_ENDS]] + [(joint, 'HIPS') for joint in roots[:MOST_ENDS]]


def movable_for(armature: Armature, bone: str, depth: int) -> Skeleton:
    """The skeleton in which those bones are fixed that may not move for a dragged one.

    Args:
        armature: What was read.
        bone: Name of the dragged bone.
        depth: How many bones of its chain may move; 0 for all bones.

    Raises:
        IKError: None of its chain may move.
    """
    skeleton = armature.skeleton
    chain = skeleton.ancestors(skeleton.index(bone))
    if depth:
        free = np.zeros_like(skeleton.free)
        free[chain[:depth]] = skeleton.free[chain[:depth]]
        skeleton = replace(skeleton, free=free)
    if not skeleton.free[chain].any():
        names = [skeleton.names[joint] for joint in chain]
        raise IKError(
            f"{bone!r} cannot be dragged: no bone of its chain may move, because of "
            f"{what_holds(armature, names)}: {listed(names)}. Free some of them, or drag a bone that decides "
            "them"
        )
    return skeleton

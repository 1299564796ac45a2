# SPDX-License-Identifier: GPL-3.0-or-later
"""Bones that hold where they are while another is dragged: feet, hands and hips, or the ends of chains."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from bpy.types import Object

from ...core import (
    MatchOrientation,
    ReachPoint,
    Skeleton,
    Task,
)
from ...core.arrays import FloatArray
from ...core.character.roles import LimbKind, Role
from ..armature.role_table import read_character
from ..effectors.effectors import orientations

MOST_ENDS: Final = 12
"""How many chain ends hold at most where no hands and feet are known: those with the longest chains."""

HIPS_TURN_WEIGHT: Final = 0.1
"""Weight [1] of the orientation of hips with a target: they bend forward before they let a hand miss, and not
before. Hips without a target turn freely in their place, or all bending would be left to the spine."""

_FEET = (LimbKind.LEG, LimbKind.FRONT_LEG)
_HANDS = (LimbKind.ARM, LimbKind.WING)


@dataclass(frozen=True)
class Held:
    """A bone that holds where it is."""

    bone: str
    armature_from_bone: FloatArray
    """Where, (4, 4) [m]."""
    firm: bool
    """Whether it holds strictly, or gives way to the dragged bone."""
    turn_weight: float = 1.0
    """Weight of its orientation [1]; 0 where it may turn in its place."""

    def tasks(self, priority: int) -> list[Task]:
        """Place and, where the bone has one, orientation."""
        tasks: list[Task] = [
            ReachPoint(
                joint=self.bone,
                target=self.armature_from_bone[:3, 3],
                priority=priority,
                name=self.bone,
            )
        ]
        rotation = orientations(self.armature_from_bone)
        if self.turn_weight and np.isfinite(rotation).all():
            tasks.append(
                MatchOrientation(
                    joint=self.bone,
                    target=rotation,
                    priority=priority,
                    weight=self.turn_weight,
                    name=self.bone,
                )
            )
        return tasks


def first_holds(
    limbs: Sequence[tuple[int, str]],
    skeleton: Skeleton,
    dragged: str,
    taken: Collection[str],
    turned: Collection[str],
    matrices: FloatArray,
) -> Iterator[Held]:
    """Give what holds without an effector when a drag begins.

    Args:
        limbs: What may hold, as `limbs_and_hips` gives it.
        skeleton: With those channels free that may move for the dragged bone.
        dragged: Name of the dragged bone.
        taken: Bones that effectors hold.
        turned: Hips that an effector holds loosely, with their orientation.
        matrices: armature_from_bone of all bones, (n, 4, 4) [m].
    """
    below = {joint for joint in range(len(skeleton)) if skeleton.index(dragged) in skeleton.ancestors(joint)}
    for joint, kind in limbs:
        name = skeleton.names[joint]
        # Hips below the dragged bone go with it: holding them would twist the body between the two.
        if name == dragged or name in taken or (kind == 'HIPS' and joint in below):
            continue
        if skeleton.free[skeleton.ancestors(joint)].any():
            weight = 1.0 if kind != 'HIPS' else HIPS_TURN_WEIGHT if name in turned else 0.0
            yield Held(name, matrices[joint], kind == 'FOOT', weight)


def limbs_and_hips(armature_object: Object, skeleton: Skeleton) -> list[tuple[int, str]]:
    """Joints that hold, and what they are: 'FOOT', 'HAND', 'HIPS', or 'END' where none of these is known."""
    character, _gone = read_character(armature_object, skeleton)
    found = [(limb.effector, 'FOOT') for limb in character.limbs if limb.kind in _FEET]
    found += [(limb.effector, 'HAND') for limb in character.limbs if limb.kind in _HANDS]
    if found:
        figures = range(len(character.figures))
        hips = [joints[0] for f in figures if (joints := character.joints_of(Role.HIPS, figure=f))]
        return found + [(joint, 'HIPS') for joint in hips]
    parents = set(skeleton.parents.tolist())
    ends = [joint for joint in range(len(skeleton)) if joint not in parents and skeleton.parents[joint] >= 0]
    ends.sort(key=lambda joint: -len(skeleton.ancestors(joint)))
    roots = [joint for joint in range(len(skeleton)) if skeleton.parents[joint] < 0]
    return [(joint, 'END') for joint in ends[:MOST_ENDS]] + [(joint, 'HIPS') for joint in roots[:MOST_ENDS]]

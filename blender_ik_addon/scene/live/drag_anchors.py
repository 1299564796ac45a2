# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds while a bone is dragged, what may move, and what a drag reports of both."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import bpy
import numpy as np
from bpy.types import Object

from ...core import IKError, MatchOrientation, ReachPoint, Skeleton, Task, TaskError
from ...core.amounts import angle_text
from ...core.arrays import FloatArray
from ...core.character.roles import LimbKind, Role
from ...core.messages import Joined, Message, counted, listed
from ...core.solve.follower import Followed
from ..armature.armature import Armature
from ..armature.restoring import block_with_uid
from ..armature.role_table import read_character
from ..kinds.frame_data import orientations
from ..rig.reports import SETTLING, with_own_levels
from ..rig.rig import what_holds
from ..units import length_text, metres

MOST_ENDS: Final = 12
"""How many chain ends hold at most where no hands and feet are known: those with the longest chains."""
HIPS_TURN_WEIGHT: Final = 0.1
"""Weight [1] of the orientation of hips with a target: they bend forward before they let a hand miss, and not
before. Hips without a target turn freely in their place, or all bending would be left to the spine."""
_KINDS: Final = {
    LimbKind.LEG: 'FOOT',
    LimbKind.FRONT_LEG: 'FOOT',
    LimbKind.ARM: 'HAND',
    LimbKind.WING: 'HAND',
}


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
        tasks: list[Task] = [ReachPoint(joint=bone, target=armature_from_bone[:3, 3], name=bone)]
        rotation = orientations(armature_from_bone)
        if turn_weight and np.isfinite(rotation).all():
            tasks.append(MatchOrientation(joint=bone, target=rotation, weight=turn_weight, name=bone))
        return cls(bone, bone, tuple(tasks), firm)


def dragged_object(uid: int) -> Object:
    """Return the armature object with a session uid (IKError: it is gone)."""
    found = block_with_uid(bpy.data.objects, uid)
    if found is None:
        raise IKError("the armature that was dragged is gone: cancel the drag")
    return found


def checked_goal(bone: str, world_point: Sequence[float] | FloatArray) -> FloatArray:
    """Where something that is dragged should be, (3,) [m] in the world (IKError: that is no place)."""
    goal = np.asarray(world_point, dtype=np.float64)
    if goal.shape != (3,) or not np.isfinite(goal).all():
        raise IKError("dragging {bone!r}: a place is three finite numbers, got {goal}", bone=bone, goal=goal)
    return goal


def limbs_and_hips(armature_object: Object, skeleton: Skeleton) -> list[tuple[int, str]]:
    """Joints that hold, and what they are: 'FOOT', 'HAND', 'HIPS', or 'END' where none of these is known."""
    character, _gone = read_character(armature_object, skeleton)
    found = [(limb.effector, _KINDS[limb.kind]) for limb in character.limbs if limb.kind in _KINDS]
    if found:
        figures = range(len(character.figures))
        hips = [joints[0] for f in figures if (joints := character.joints_of(Role.HIPS, figure=f))]
        return sorted(found, key=lambda limb: limb[1]) + [(joint, 'HIPS') for joint in hips]
    roots = np.flatnonzero(skeleton.parents < 0).tolist()
    ends = sorted({*range(len(skeleton))} - {*skeleton.parents.tolist(), *roots})
    ends.sort(key=lambda joint: -len(skeleton.ancestors(joint)))
    return [(joint, 'END') for joint in ends[:MOST_ENDS]] + [(joint, 'HIPS') for joint in roots[:MOST_ENDS]]


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


def movable_for(armature: Armature, bone: str, depth: int) -> Skeleton:
    """The skeleton in which those bones are fixed that may not move for a dragged one.

    `depth` of its chain may move; all bones if it is 0. An IKError where none of the chain may.
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
            "{bone!r} cannot be dragged: no bone of its chain may move, because of {armature}: {names}. "
            "Free some of them, or drag a bone that decides them",
            bone=bone,
            armature=what_holds(armature, names),
            names=listed(names),
        )
    return skeleton


# Reports


@dataclass(frozen=True)
class DragError:
    """How far something is from where it should be."""

    name: str
    """Of the effector, or of the bone."""
    position: float | None
    """[m] in the world; None where no place is asked for."""
    rotation: float | None
    """[rad]; None where no orientation is asked for."""
    reached: bool
    firm: bool
    """Whether it holds strictly."""
    why: str = ""
    """What keeps it, in words, where that is known."""

    @property
    def miss(self) -> str:
        """By how much it misses, in words."""
        amount = angle_text(self.rotation or 0.0) if self.position is None else length_text(self.position)
        return Message("{effector} misses by {amounts}", effector=self.name, amounts=amount)


@dataclass(frozen=True)
class DragReport:
    """Result of one movement."""

    dragged: DragError
    """The dragged bone."""
    held: tuple[DragError, ...] = ()
    """All that holds: effectors, then pins for the time of the drag."""
    settled: bool = True
    """Whether the body is on all its targets, or where a solve would have it."""
    final: bool = True
    """Whether the pose is what a solve gives for the place."""
    settling: bool = False
    """Whether the body is on its way to that: what is missed is not reported meanwhile."""
    iterations: int = 0
    """Of the search, for this movement."""
    keyed: int = 0
    """How many bones and targets auto-key has keyed, when the drag was confirmed."""
    notes: tuple[str, ...] = ()
    """What else the user should know, one sentence each."""

    @property
    def message(self) -> str:
        """What was missed and what gave way, in words; empty where nothing did."""
        if self.settling:
            return SETTLING
        missed = [error for error in self.held if not error.reached]
        parts = [error.miss for error in missed if error.firm]
        if not self.dragged.reached:
            miss, why = self.dragged.miss, self.dragged.why
            parts.insert(0, Message("{miss} ({why})", miss=miss, why=why) if why else miss)
        gave = [error.name for error in missed if not error.firm]
        if gave:
            parts.append(
                counted(len(gave), "{effectors} gives way", "{effectors} give way", effectors=listed(gave))
            )
        return Joined("; ", [*parts, *self.notes])


def drag_report(
    followed: Followed,
    owners: Sequence[tuple[str, bool]],
    scale: float,
    within: tuple[float, float],
    *,
    settling: bool,
    in_place: str = "",
) -> DragReport:
    """Errors of tasks as those of their owners, in the world.

    Args:
        followed: What a movement came to.
        owners: Who owns each task and whether it holds strictly; the dragged bone is the first.
        scale: Length in the world by that in armature space [1].
        within: Tolerances [m] in the world, and [rad].
        settling: Whether the mouse rests.
        in_place: As by `why_in_place`: said where something is out of reach of the dragged bone.
    """
    rows: dict[tuple[str, bool], list[TaskError]] = {}
    for owner, error in zip(owners, followed.errors, strict=True):
        amount = error.error * (1.0 if error.angular else scale)
        # A soft task is reached within its softness, which the solver knows.
        reached = error.reached or amount <= within[error.angular]
        rows.setdefault(owner, []).append(error._replace(error=amount, reached=reached))
    errors: list[DragError] = []
    for (name, firm), own in rows.items():
        position, rotation = (
            max((error.error for error in own if error.angular == angular), default=None)
            for angular in (False, True)
        )
        reached = all(error.reached for error in own)
        explained = [error.why for error in own if error.why is not None and not reached]
        why = with_own_levels(explained[0]).why(scale * metres()) if explained else ""
        if not errors and any(each.beyond or not each.movable for each in explained):
            why = in_place or why
        errors.append(DragError(name, position, rotation, reached, firm, why))
    return DragReport(
        dragged=errors[0],
        held=tuple(errors[1:]),
        settled=followed.final or (followed.settled and all(error.reached for error in errors)),
        final=followed.final,
        settling=settling and not followed.settled,
        iterations=followed.iterations,
    )

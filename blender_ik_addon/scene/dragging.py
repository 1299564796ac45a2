# SPDX-License-Identifier: GPL-3.0-or-later
"""Dragging a bone: it follows a point in the world, all else holds as far as it can.

Nothing here knows of mouse or keys: `Drag` is begun, moved as often as wanted, and confirmed or cancelled.

What holds, and by which level:

- effectors hold at their targets or pins, strictly and by their own levels;
- feet without an effector hold where they are, strictly, on the highest level;
- the dragged bone comes with the level of its own effector, or with that below the highest, and gives way to
  others of that level;
- hands and hips without an effector hold where they are as long as the others let them, and then give way;
  hips may turn in their place.

Feet, hands and hips are found by their roles, from the table of the set-up or by recognition; where a
skeleton has none that are known, the ends of its chains and its root hold instead, as hands do. What all that
leaves free stays near the pose in which the drag began, so that a pose is changed and not made anew.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import bpy
import numpy as np
from bpy.types import Depsgraph, Object

from ..core import IKError, MatchOrientation, Pose, ReachPoint, Skeleton, Task, TaskError
from ..core.arrays import BoolArray, FloatArray
from ..core.kinematics import forward_kinematics
from ..core.roles import LimbKind, Role
from ..core.rotation import euler_from_matrix_near, matrix_from_euler, order_index
from ..core.yielding import Followed, Follower
from .armature import (
    Armature,
    check_armature,
    evaluated_matrices,
    read_armature,
    read_pose,
    world_from_armature,
    write_pose,
)
from .effector_properties import PINNABLE
from .effectors import Effector, orientations
from .keying import auto_key
from .properties import settings_of
from .reports import angle_text, length_text, listed
from .restoring import PoseSnapshot, block_with_uid
from .rig import Rig, solver_options
from .role_table import read_character
from .stage import points_of

FIRM_PRIORITY: Final = 0
"""Level of feet that hold."""

DRAG_PRIORITY: Final = 1
"""Level of a dragged bone that has no effector."""

DRAG_WEIGHT: Final = 0.2
"""Weight of the dragged bone in its level [1]: it gives way to others of that level, not to lower ones."""

LOOSE_PRIORITY: Final = 2
"""Level of hands and hips that hold, or one below that of the dragged bone."""

MOST_ENDS: Final = 12
"""How many chain ends hold at most where no hands and feet are known: those with the longest chains."""

MOST_PASSES: Final = 20
"""How often a pose that has not settled is taken on at most when a drag ends: a third of a second."""

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
    turns: bool = False
    """Whether it may turn in its place: hips that may not leave all bending to the spine."""

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
        if not self.turns and np.isfinite(rotation).all():
            tasks.append(
                MatchOrientation(joint=self.bone, target=rotation, priority=priority, name=self.bone)
            )
        return tasks


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


@dataclass(frozen=True)
class DragReport:
    """What came of one movement."""

    dragged: DragError
    """The dragged bone."""
    held: tuple[DragError, ...]
    """All that holds: effectors, then pins for the time of the drag."""
    settled: bool
    """Whether the same place once more would change nothing."""
    iterations: int = 0
    """Of the search, for this movement."""
    keyed: int = 0
    """How many bones and targets auto-key has keyed, when the drag was confirmed."""
    notes: tuple[str, ...] = ()
    """What else the user should know, one sentence each."""

    @property
    def message(self) -> str:
        """What was missed and what gave way, in words; empty where nothing did."""
        parts: list[str] = []
        if not self.dragged.reached:
            parts.append(f"{self.dragged.name} misses by {_amount(self.dragged)}" + _because(self.dragged))
        missed = [error for error in self.held if error.firm and not error.reached]
        parts += [f"{error.name} misses by {_amount(error)}" for error in missed]
        gave = [error.name for error in self.held if not error.firm and not error.reached]
        if gave:
            parts.append(f"{listed(gave)} {'gives' if len(gave) == 1 else 'give'} way")
        return "; ".join([*parts, *self.notes])


def _amount(error: DragError) -> str:
    amounts = [] if error.position is None else [length_text(error.position)]
    return " and ".join(amounts or [angle_text(error.rotation or 0.0)])


def _because(error: DragError) -> str:
    return f" ({error.why})" if error.why else ""


class Drag:
    """One bone of an armature that follows a point, from where it is grabbed until it is let go."""

    def __init__(
        self,
        armature_object: Object,
        bone: str,
        *,
        point: Sequence[float] = (0.0, 0.0, 0.0),
        depsgraph: Depsgraph | None = None,
    ) -> None:
        """Grab a bone; nothing is moved yet.

        Args:
            armature_object: The armature object.
            bone: Name of the bone.
            point: Where it is grabbed, along its own axes from its head [m].
            depsgraph: Where pose and targets are read; that of the context by default.

        Raises:
            IKError: There is no such bone, it cannot move, or something cannot be posed.
        """
        check_armature(armature_object)
        depsgraph = depsgraph or bpy.context.evaluated_depsgraph_get()
        depsgraph.update()
        self._uid = armature_object.session_uid
        self._bone = bone
        rig, self._effectors, groups = _read_effectors(armature_object, depsgraph)
        if rig is not None:
            self._armature = rig.armature
        else:
            move_root = settings_of(armature_object).move_root
            self._armature = read_armature(armature_object, move_root=move_root)
        skeleton = self._armature.skeleton
        if bone not in skeleton.names:
            raise IKError(f"{armature_object.name!r} has no bone {bone!r}: choose one of its bones")
        self._point = np.array(point, dtype=np.float64)
        posed = armature_object.evaluated_get(depsgraph)
        self._world_from_armature, self._scale = world_from_armature(posed)
        self._armature_from_world = np.linalg.inv(self._world_from_armature).astype(np.float64)
        self._start = read_pose(armature_object, self._armature, depsgraph=depsgraph)
        self._matrices = evaluated_matrices(posed, self._armature)
        self._skeleton = _movable_for(self._armature, bone, self._chain_depth())
        self._before = PoseSnapshot.take(armature_object)
        own = self._own_effectors()
        self._priority = min((effector.priority for effector in own), default=DRAG_PRIORITY)
        self._loose_priority = max(LOOSE_PRIORITY, self._priority + 1)
        self._follower = self._new_follower(armature_object, self._start)
        self._keeps_orientation = False
        self._rotation = orientations(self._matrices[skeleton.index(bone)])
        self._released: set[int] = set()
        """Places in the list of the effectors that were freed for this drag."""
        kept = [
            (effector, tasks)
            for effector, tasks in zip(self._effectors, groups, strict=True)
            if effector.kind != 'STAY' and not (effector.bone == bone and effector.kind in PINNABLE)
        ]
        self._kept: list[tuple[Effector, tuple[Task, ...]]] = kept
        self._held = {held.bone: held for held in self._first_holds(armature_object)}
        self._goal = self._place_of(self._matrices)
        self._report = DragReport(DragError(bone, 0.0, None, True, True), (), True)

    # What the user sees

    @property
    def bone(self) -> str:
        """Name of the dragged bone."""
        return self._bone

    @property
    def goal(self) -> FloatArray:
        """Where the grabbed point should be, in the world, (3,) [m]."""
        return points_of(self._world_from_armature, self._goal)

    @property
    def place(self) -> FloatArray:
        """Where the grabbed point is, in the world, (3,) [m]."""
        return points_of(self._world_from_armature, self._place_of(self._matrices))

    @property
    def world_from_bone(self) -> FloatArray:
        """The dragged bone when it was grabbed, (3, 3): its axes in the world."""
        return orientations(self._world_from_armature) @ np.nan_to_num(self._rotation)

    @property
    def report(self) -> DragReport:
        """What the last movement came to."""
        return self._report

    @property
    def priority(self) -> int:
        """Level of the dragged bone."""
        return self._priority

    @property
    def keeps_orientation(self) -> bool:
        """Whether the dragged bone keeps its orientation."""
        return self._keeps_orientation

    @property
    def held(self) -> tuple[tuple[str, bool], ...]:
        """Bones that hold, and whether strictly: those of effectors, then those pinned for this drag."""
        return (
            *((effector.bone, True) for effector, _tasks in self._active()),
            *((held.bone, held.firm) for held in self._held.values()),
        )

    def pins(self) -> Iterator[tuple[str, bool, FloatArray, FloatArray]]:
        """Bones that are pinned for this drag, whether strictly, where, and where they are, (3,) each [m]."""
        for held in self._held.values():
            now = self._matrices[self._armature.skeleton.index(held.bone)]
            ends = np.array([held.armature_from_bone[:3, 3], now[:3, 3]])
            was, is_now = points_of(self._world_from_armature[None], ends)
            yield held.bone, held.firm, was, is_now

    def object(self) -> Object:
        """The armature object.

        Raises:
            IKError: It is gone.
        """
        found = block_with_uid(bpy.data.objects, self._uid)
        if found is None:
            raise IKError("the armature that was dragged is gone: cancel the drag")
        return found

    # What the user does

    def move(self, world_point: Sequence[float] | FloatArray) -> DragReport:
        """Bring the grabbed point to a place in the world [m], as far as what holds lets it."""
        goal = np.asarray(world_point, dtype=np.float64)
        if goal.shape != (3,) or not np.isfinite(goal).all():
            raise IKError(f"dragging {self._bone!r}: a place is three finite numbers, got {goal}")
        self._goal = points_of(self._armature_from_world, goal)
        return self.again()

    def again(self) -> DragReport:
        """Go on towards the same place: what is out of reach comes nearer to its best until it is settled."""
        armature_object = self.object()
        firm, loose, owners = self._tasks()
        followed = self._follower.follow(firm, loose)
        write_pose(armature_object, self._armature, followed.pose, self._moving())
        self._matrices = forward_kinematics(self._armature.skeleton, followed.pose).matrices
        self._report = self._told(followed, owners)
        return self._report

    def settle(self) -> DragReport:
        """Go on until the pose stands still: it should depend on the place, and not on the way there."""
        for _ in range(MOST_PASSES):
            if self._report.settled:
                break
            self.again()
        return self._report

    def pin(self, bone: str) -> bool:
        """Hold a bone where it is now, strictly, or let it go if it holds; whether it holds now.

        This is for the time of the drag: effectors stay as they are.

        Raises:
            IKError: There is no such bone, or it is the one that is dragged.
        """
        skeleton = self._armature.skeleton
        if bone not in skeleton.names:
            raise IKError(f"{self.object().name!r} has no bone {bone!r}: choose one of its bones")
        if bone == self._bone:
            raise IKError(f"{bone!r} is being dragged: let it go to pin it")
        effectors = {e.index for e, _tasks in self._active() if e.bone == bone}
        if bone in self._held or effectors:
            self._held.pop(bone, None)
            self._released |= effectors
            return False
        self._held[bone] = Held(bone, self._matrices[skeleton.index(bone)], True)
        return True

    def set_priority(self, priority: int) -> None:
        """Give the dragged bone another level; 0 is the highest."""
        self._priority = max(0, priority)

    def keep_orientation(self, keeps: bool) -> None:
        """Keep the orientation that the bone had when it was grabbed, or let it turn as it comes.

        Raises:
            IKError: The bone is scaled to nothing and has no orientation.
        """
        if keeps and not np.isfinite(self._rotation).all():
            raise IKError(f"bone {self._bone!r} is scaled to nothing, so it has no orientation to be kept")
        self._keeps_orientation = keeps

    def confirm(self) -> DragReport:
        """Let the pose settle, bring the bone's own target or pin along, and key if auto-key is on."""
        armature_object = self.object()
        self.settle()
        changed = self._changed(armature_object)
        if not changed:
            return self._report
        targets = list(self._bring_targets(armature_object))
        try:
            keyed = auto_key(armature_object, self._armature, changed, targets)
        except IKError as error:  # the pose is what the user wanted, with or without keys
            self._report = replace(self._report, notes=(f"not keyed: {error}",))
            return self._report
        self._report = replace(self._report, keyed=keyed)
        return self._report

    def cancel(self) -> None:
        """Put every channel back, bit by bit."""
        armature_object = block_with_uid(bpy.data.objects, self._uid)
        if armature_object is not None:  # what is gone has no channels
            self._before.restore(armature_object)

    # Tasks

    def _own_effectors(self) -> list[Effector]:
        return [e for e in self._effectors if e.bone == self._bone and e.kind in PINNABLE]

    def _chain_depth(self) -> int:
        """How many bones may move for the dragged one, as its own effectors say; 0 for all."""
        depths = [effector.chain_depth for effector in self._own_effectors()]
        return 0 if not depths or 0 in depths else max(depths)

    def _active(self) -> list[tuple[Effector, tuple[Task, ...]]]:
        return [(e, tasks) for e, tasks in self._kept if e.index not in self._released]

    def _tasks(self) -> tuple[list[Task], list[Task], list[tuple[str, bool]]]:
        """Firm tasks, that of the dragged bone first, loose tasks, and who owns each, one after the other."""
        firm: list[Task] = [
            ReachPoint(
                joint=self._bone,
                target=self._goal,
                point=self._point,
                priority=self._priority,
                weight=DRAG_WEIGHT,
                name=self._bone,
            )
        ]
        if self._keeps_orientation:
            firm.append(
                MatchOrientation(
                    joint=self._bone,
                    target=self._rotation,
                    priority=self._priority,
                    weight=DRAG_WEIGHT,
                    name=self._bone,
                )
            )
        owners = [(self._bone, True)] * len(firm)
        for effector, tasks in self._active():
            firm += tasks
            owners += [(effector.name, True)] * len(tasks)
        loose: list[Task] = []
        for held in sorted(self._held.values(), key=lambda held: not held.firm):
            own = held.tasks(FIRM_PRIORITY if held.firm else self._loose_priority)
            (firm if held.firm else loose).extend(own)
            owners += [(held.bone, held.firm)] * len(own)
        return firm, loose, owners

    def _told(self, followed: Followed, owners: Sequence[tuple[str, bool]]) -> DragReport:
        """Errors of tasks as those of their owners, in the world."""
        rows: dict[tuple[str, bool], list[TaskError]] = {}
        for owner, error in zip(owners, (*followed.firm, *followed.loose), strict=True):
            rows.setdefault(owner, []).append(error)
        within = settings_of(self.object())
        errors = [
            self._error(name, firm, own, (within.tolerance_position, within.tolerance_rotation))
            for (name, firm), own in rows.items()
        ]
        return DragReport(errors[0], tuple(errors[1:]), followed.settled, followed.iterations)

    def _error(
        self, name: str, firm: bool, own: Sequence[TaskError], within: tuple[float, float]
    ) -> DragError:
        lengths = [error.error * self._scale for error in own if not error.angular]
        angles = [error.error for error in own if error.angular]
        reached = max(lengths, default=0.0) <= within[0] and max(angles, default=0.0) <= within[1]
        whys = [error.why.why(self._scale) for error in own if error.why is not None]
        return DragError(
            name=name,
            position=max(lengths, default=None),
            rotation=max(angles, default=None),
            reached=reached,
            firm=firm,
            why=whys[0] if whys and not reached else "",
        )

    def _new_follower(self, armature_object: Object, pose: Pose) -> Follower:
        options = replace(solver_options(armature_object, self._scale), method='PRIORITY')
        return Follower(self._skeleton, pose, options, preferred=self._start.channels)

    def _moving(self) -> list[int]:
        return np.flatnonzero(self._skeleton.free.any(1)).tolist()

    def _place_of(self, matrices: FloatArray) -> FloatArray:
        """The grabbed point in armature space, (3,) [m]."""
        return points_of(matrices[self._armature.skeleton.index(self._bone)], self._point)

    # What holds without an effector

    def _first_holds(self, armature_object: Object) -> Iterator[Held]:
        skeleton = self._armature.skeleton
        taken = {effector.bone for effector, _tasks in self._kept if effector.kind in PINNABLE}
        below = {
            joint for joint in range(len(skeleton)) if skeleton.index(self._bone) in skeleton.ancestors(joint)
        }
        for joint, kind in _limbs_and_hips(armature_object, skeleton):
            name = skeleton.names[joint]
            # Hips below the dragged bone go with it: holding them would twist the body between the two.
            if name == self._bone or name in taken or (kind == 'HIPS' and joint in below):
                continue
            if self._skeleton.free[skeleton.ancestors(joint)].any():
                yield Held(name, self._matrices[joint], kind == 'FOOT', turns=kind == 'HIPS')

    # The end

    def _changed(self, armature_object: Object) -> list[str]:
        """Names of the bones that are not as they were."""
        now = PoseSnapshot.take(armature_object)
        return [bone for bone, values in self._before.values.items() if now.values[bone] != values]

    def _bring_targets(self, armature_object: Object) -> Iterator[tuple[Object, bool, bool]]:
        """Move the bone's own target or pin to where it is now, or the next solve would take it back."""
        joint = self._armature.skeleton.index(self._bone)
        entries = settings_of(armature_object).effectors
        for effector in self._own_effectors():
            entry = entries[effector.index]
            if effector.pin is not None:
                entry.pin_matrix = tuple(self._matrices[joint].ravel().tolist())
            elif entry.target is not None and not effector.target_bone and entry.target.is_editable:
                matrix = self._world_from_armature @ self._matrices[joint]
                _place_target(entry.target, points_of(matrix, effector.point), matrix, effector)
                yield entry.target, effector.position, effector.orientation


def _place_target(target: Object, place: FloatArray, matrix: FloatArray, effector: Effector) -> None:
    """Bring an object where a bone is, in what the effector takes of it; its own scale stays."""
    now = np.array(target.matrix_world)
    wanted = now.copy()
    if effector.position:
        wanted[:3, 3] = place
    if effector.orientation and np.isfinite(orientations(matrix)).all():
        wanted[:3, :3] = orientations(matrix) @ orientations(now).T @ now[:3, :3]
    local: Any = target
    if target.parent is None and target.rotation_mode in {'XYZ', 'XZY', 'YXZ', 'YZX', 'ZXY', 'ZYX'}:
        # Channel by channel, so that what does not change keeps its bits, and angles go on from theirs.
        if effector.position:
            local.location = (np.array(target.location) + wanted[:3, 3] - now[:3, 3]).tolist()
        if effector.orientation:
            order = order_index(target.rotation_mode)
            turn = orientations(wanted) @ orientations(now).T
            own = matrix_from_euler(np.array(target.rotation_euler), order)
            angles = euler_from_matrix_near(turn @ own, order, np.array(target.rotation_euler))
            local.rotation_euler = angles.tolist()
        return
    local.matrix_world = wanted.T.tolist()


# Reading


def _read_effectors(
    armature_object: Object, depsgraph: Depsgraph
) -> tuple[Rig | None, tuple[Effector, ...], list[tuple[Task, ...]]]:
    """Read the enabled effectors, and the tasks of each that take part; no rig where there are none."""
    if not any(entry.enabled for entry in settings_of(armature_object).effectors):
        return None, (), []
    rig = Rig.read(armature_object, depsgraph)
    plan = rig.plan([rig.read_frame(armature_object, depsgraph)])
    weighty = iter([task for task in plan.tasks if task.weight > 0.0])
    groups = [tuple(next(weighty) for _ in range(count)) for count in plan.counts]
    return rig, rig.effectors, groups


def _movable_for(armature: Armature, bone: str, depth: int) -> Skeleton:
    """The skeleton with those bones held that may not move for a dragged one.

    Raises:
        IKError: None of its chain may move.
    """
    skeleton = armature.skeleton
    chain = skeleton.ancestors(skeleton.index(bone))
    free: BoolArray = skeleton.free
    if depth:
        free = np.zeros_like(skeleton.free)
        free[chain[:depth]] = skeleton.free[chain[:depth]]
    if not free[chain].any():
        names = [skeleton.names[joint] for joint in chain]
        why = sorted({armature.driven_by[name] for name in names if name in armature.driven_by}) or ["locks"]
        raise IKError(
            f"{bone!r} cannot be dragged: no bone of its chain may move, because of {' or '.join(why)}: "
            f"{listed(names)}. Free some of them, or drag a bone that decides them"
        )
    return replace(skeleton, free=free) if depth else skeleton


def _limbs_and_hips(armature_object: Object, skeleton: Skeleton) -> list[tuple[int, str]]:
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

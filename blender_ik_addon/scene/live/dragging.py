# SPDX-License-Identifier: GPL-3.0-or-later
"""Dragging a bone: it follows a point in the world, all else holds as far as it can.

Nothing here knows of mouse or keys: `Drag` is begun, moved as often as wanted, and confirmed or cancelled.

What holds, and by which level:

- effectors hold at their targets or pins, strictly and by their own levels, but for those of hips that nobody
  has pinned, which give way as hips without an effector do; their targets come along when the drag ends, and
  what hangs on a target that comes along goes with it;
- feet without an effector hold where they are, strictly, on the highest level;
- the dragged bone has a level of its own right below that of its effector, or below the second highest: it
  gives way to others of that level, and to no lower one;
- hands and hips without an effector hold where they are on a level below all others; hips may turn in their
  place.

Feet, hands and hips are found by their roles, from the table of the set-up or by recognition; where a
skeleton has none that are known, the ends of its chains and its root hold instead, as hands do. What all that
leaves free stays near the pose in which the drag began, so that a pose is changed and not made anew.

The body follows as in live mode (`core.solve.follower`): a few steps for each movement of the mouse, and
where the mouse rests it settles on what a solve of these tasks gives.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import bpy
import numpy as np
from bpy.types import Depsgraph, Object

from ...core import (
    IKError,
    MatchOrientation,
    Problem,
    ReachPoint,
    Task,
)
from ...core.arrays import FloatArray
from ...core.model.kinematics import forward_kinematics
from ...core.solve.follower import Followed, Follower
from ...core.tasks.carried import ReachCarried
from ..armature.armature import check_armature, read_armature, world_from_armature
from ..armature.poses import evaluated_matrices, read_pose, write_pose
from ..armature.restoring import PoseSnapshot, block_with_uid
from ..effectors.effectors import Effector, orientations
from ..effectors.frame_data import points_of
from ..effectors.moved_targets import (
    bring_target,
    carried_task,
    carriers,
    coming_along,
)
from ..properties.effector_properties import PINNABLE
from ..properties.settings import settings_of
from ..rig.changes import aim_of, same_but_for_aim
from ..rig.keying import auto_key
from ..rig.outcome import DRAGGED, measured_report, show
from ..rig.rig import Rig, solver_options
from .drag_anchors import Held, first_holds, limbs_and_hips
from .drag_reports import (
    LEVELS,
    DragError,
    DragReport,
    report_of,
)
from .drag_start import movable_for, read_tasks

FIRM_PRIORITY: Final = 0
"""Level of feet that hold."""

DRAG_PRIORITY: Final = 1
"""Level of a dragged bone that has no effector."""

MOST_TURN: Final = 0.21
"""Most by which an angle changes in one movement that is smooth [rad]: 12 degrees."""

MOST_UPDATES: Final = 20
"""How often a body is moved on towards a place at most before it settles."""


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
        rig, self._effectors, groups = read_tasks(armature_object, depsgraph)
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
        self._matrices = self._grabbed = evaluated_matrices(posed, self._armature)
        self._skeleton = movable_for(self._armature, bone, self._chain_depth())
        self._written = self._start
        """The pose that the bones have."""
        self._before = PoseSnapshot.take(armature_object)
        own = self._own_effectors()
        self._priority = min((effector.priority for effector in own), default=DRAG_PRIORITY)
        self._options = replace(solver_options(armature_object, self._scale), method='PRIORITY')
        self._follower: Follower | None = None
        self._followed: tuple[Task, ...] = ()
        """The tasks of the follower."""
        self._updates = 0
        """How often the body was moved on towards the present place."""
        self._rests = False
        """Whether it settles there."""
        self._keeps_orientation = False
        self._rotation = orientations(self._matrices[skeleton.index(bone)])
        self._released: set[int] = set()
        """Places in the list of the effectors that were freed for this drag."""
        limbs = limbs_and_hips(armature_object, skeleton)
        hips = {skeleton.names[joint] for joint, kind in limbs if kind == 'HIPS'}
        self._coming_along = coming_along(armature_object, self._effectors, bone, hips)
        self._carriers = carriers(armature_object, self._effectors, self._coming_along)
        loose = {effector.index for effector in self._coming_along}
        kept = [
            (effector, tasks)
            for effector, tasks in zip(self._effectors, groups, strict=True)
            if effector.kind != 'STAY'
            and effector.index not in loose
            and not (effector.bone == bone and effector.kind in PINNABLE)
        ]
        self._kept = [
            (effector, tuple(self._carried(effector, _of_one_frame(t)) for t in tasks))
            for effector, tasks in kept
        ]
        taken = {effector.bone for effector, _tasks in kept if effector.kind in PINNABLE}
        turned = {effector.bone for effector in self._coming_along if effector.orientation}
        holds = first_holds(limbs, self._skeleton, bone, taken, turned, self._matrices)
        self._held = {held.bone: held for held in holds}
        self._goal = self._place_of(self._matrices)
        self._report = DragReport(DragError(bone, 0.0, None, True, True), (), settled=True, final=True)

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
        """What holds a place, by name, whether strictly, where, and where it is, (3,) each [m].

        Effectors first, then bones that are pinned for this drag.
        """
        index = self._armature.skeleton.index
        for effector, tasks in self._active():
            for task in tasks:
                if isinstance(task, ReachPoint):
                    here = points_of(self._matrices[index(effector.bone)], task.point)
                    away = task.target.reshape(-1, 3)[0] - here
                    if isinstance(task, ReachCarried):
                        carried = points_of(self._matrices[index(task.carrier)], task.carrier_point)
                        away = away + carried - task.carrier_from
                    axes = task.armature_from_axes.reshape(-1, 3, 3)[0]
                    ends = np.array([here + axes @ (np.array(task.axes) * (axes.T @ away)), here])
                    was, is_now = points_of(self._world_from_armature[None], ends)
                    yield effector.name, True, was, is_now
        for held in self._held.values():
            ends = np.array([held.armature_from_bone[:3, 3], self._matrices[index(held.bone)][:3, 3]])
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

    def move(self, world_point: Sequence[float] | FloatArray, *, smoothly: bool = False) -> DragReport:
        """Bring the grabbed point to a place in the world [m], as far as what holds lets it.

        Args:
            world_point: Where, (3,).
            smoothly: No angle turns by more than a person sees as a movement; the rest comes with `again`.

        Raises:
            IKError: That is no place, or the armature is gone.
        """
        goal = np.asarray(world_point, dtype=np.float64)
        if goal.shape != (3,) or not np.isfinite(goal).all():
            raise IKError(f"dragging {self._bone!r}: a place is three finite numbers, got {goal}")
        goal = points_of(self._armature_from_world, goal)
        if not np.array_equal(goal, self._goal):
            self._goal, self._updates, self._rests = goal, 0, False
        return self.again(smoothly=smoothly)

    def again(self, *, smoothly: bool = False) -> DragReport:
        """Go on towards the same place, one update of the body or until it comes to rest."""
        armature_object = self.object()
        tasks, owners = self._tasks()
        while True:
            found = self._update(tasks)
            if smoothly or found.settled:
                break
        self._matrices = forward_kinematics(self._armature.skeleton, found.pose).matrices
        changed = (found.pose.channels != self._written.channels).any(1) & self._skeleton.free.any(1)
        write_pose(armature_object, self._armature, found.pose, np.flatnonzero(changed).tolist())
        self._written = found.pose
        within = settings_of(armature_object)
        tolerances = within.tolerance_position, within.tolerance_rotation
        self._report = report_of(found, owners, self._scale, tolerances, settling=self._rests)
        return self._report

    def _update(self, tasks: Sequence[Task]) -> Followed:
        """One update: after the place, or to what a solve gives for it once the body has come to rest."""
        same = len(tasks) == len(self._followed) and all(map(same_but_for_aim, tasks, self._followed))
        if self._follower is None or not same:
            skeleton = replace(self._skeleton, preferred=self._start.channels)
            self._follower = Follower(Problem(skeleton, tuple(tasks)), self._written, self._options)
            self._followed, self._updates, self._rests = tuple(tasks), 0, False
        targets = [aim_of(task) for task in tasks]
        if self._rests:
            return self._follower.arrive(targets)
        found = self._follower.follow(targets, most_turn=MOST_TURN)
        self._updates += 1
        self._rests = found.settled or self._updates >= MOST_UPDATES
        return found

    @property
    def rests(self) -> bool:
        """Whether the next update settles."""
        return self._rests

    def let_go(self) -> None:
        """Settle from the next update on: the place is not moved any further."""
        self._rests = True

    def settle(self) -> DragReport:
        """Go on until the pose is what a solve gives: it should depend on the place, not on the way there."""
        while not self._report.final:
            self.let_go()
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
        """Let the pose settle, bring targets along where bones have left them, and key if auto-key is on."""
        armature_object = self.object()
        self.settle()
        changed = self._changed(armature_object)
        if not changed:
            return self._report
        targets = list(self._bring_targets(armature_object))
        self._show_errors(armature_object)
        try:
            keyed = auto_key(armature_object, self._armature, changed, targets)
        except IKError as error:  # the pose is what the user wanted, with or without keys
            self._report = replace(self._report, notes=(f"not keyed: {error}",))
            return self._report
        self._report = replace(self._report, keyed=keyed.count, notes=keyed.notes)
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

    def _carried(self, effector: Effector, task: Task) -> Task:
        """A task of an effector, whose target may go with that of another."""
        carrier = self._carriers.get(effector.index)
        if carrier is None:
            return task
        joint = self._armature.skeleton.index(carrier.bone)
        return carried_task(task, carrier, points_of(self._grabbed[joint], carrier.point))

    def _tasks(self) -> tuple[list[Task], list[tuple[str, bool]]]:
        """All tasks, those of the dragged bone first, and who owns each and whether it holds strictly.

        Levels of effectors are `LEVELS` apart, to leave room for the dragged bone between them.
        """
        level = LEVELS * self._priority + 1
        tasks: list[Task] = [
            ReachPoint(
                joint=self._bone, target=self._goal, point=self._point, priority=level, name=self._bone
            )
        ]
        if self._keeps_orientation:
            tasks.append(
                MatchOrientation(joint=self._bone, target=self._rotation, priority=level, name=self._bone)
            )
        owners = [(self._bone, True)] * len(tasks)
        for effector, own in self._active():
            tasks += [replace(task, priority=LEVELS * task.priority) for task in own]
            owners += [(effector.name, True)] * len(own)
        below = max(task.priority for task in tasks) + 1
        for held in sorted(self._held.values(), key=lambda held: not held.firm):
            own = held.tasks(FIRM_PRIORITY if held.firm else below)
            tasks += own
            owners += [(held.bone, held.firm)] * len(own)
        return tasks, owners

    def _place_of(self, matrices: FloatArray) -> FloatArray:
        """The grabbed point in armature space, (3,) [m]."""
        return points_of(matrices[self._armature.skeleton.index(self._bone)], self._point)

    # The end

    def _changed(self, armature_object: Object) -> list[str]:
        """Names of the bones that are not as they were."""
        now = PoseSnapshot.take(armature_object)
        return [bone for bone, values in self._before.values.items() if now.values[bone] != values]

    def _bring_targets(self, armature_object: Object) -> Iterator[tuple[Object, bool, bool]]:
        """Move targets and pins to where bones are now, or the next solve would take the pose back."""
        skeleton = self._armature.skeleton
        entries = settings_of(armature_object).effectors
        for effector in self._own_effectors():
            if effector.pin is not None:
                matrix = self._matrices[skeleton.index(self._bone)]
                entries[effector.index].pin_matrix = tuple(matrix.ravel().tolist())
        brought: set[int] = set()
        for effector in self._coming_along:
            if effector.bone == self._bone or self._has_moved(effector.bone):
                brought.add(effector.index)
        carried = {e.index: e for e in self._effectors if e.index in self._carriers}
        hanging = [carried[i] for i, carrier in self._carriers.items() if carrier.index in brought]
        for effector in (*(e for e in self._coming_along if e.index in brought), *hanging):
            matrix = self._world_from_armature @ self._matrices[skeleton.index(effector.bone)]
            yield from bring_target(armature_object, effector, matrix)

    def _show_errors(self, armature_object: Object) -> None:
        """Tell the panel how far effectors are off now: what the last solve said is so no longer."""
        if not self._effectors:
            return
        depsgraph = bpy.context.evaluated_depsgraph_get()
        depsgraph.update()
        rig = Rig.read(armature_object, depsgraph)
        reading = rig.read_frame(armature_object, depsgraph)
        show(armature_object, rig, measured_report(armature_object, depsgraph, rig, reading, DRAGGED))

    def _has_moved(self, bone: str) -> bool:
        """Whether a bone that gives way has done so, by more than a solve leaves."""
        within = settings_of(self.object())
        joint = self._armature.skeleton.index(bone)
        change = np.abs(self._matrices[joint] - self._grabbed[joint])
        length = float(change[:3, 3].max()) * self._scale
        return length > within.tolerance_position or float(change[:3, :3].max()) > within.tolerance_rotation


def _of_one_frame(task: Task) -> Task:
    """The task with targets that have no frame axis."""
    return task if task.frames is None else task.at_frame(0)

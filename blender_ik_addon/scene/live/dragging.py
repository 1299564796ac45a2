# SPDX-License-Identifier: GPL-3.0-or-later
"""Dragging a bone: it follows a point in the world, all else holds as far as it can.

Nothing here knows of mouse or keys: `Drag` is begun, moved as often as wanted, and confirmed or cancelled.

What holds, and by which level:

- effectors hold at their targets or pins, strictly and by their own levels, but for those of hips that reach
  for a target, which give way as hips without an effector do; their targets come along when the drag ends,
  and what hangs on a target that comes along goes with it;
- effectors that follow hold their bones where they are, as softly as in a solve;
- feet without an effector hold where they are, strictly, on the highest level;
- the dragged bone has a level of its own right below that of its effector, or below the second highest: it
  gives way to others of that level, and to no lower one; where its effector asks for an orientation beside
  the place it keeps that;
- hands and hips without an effector hold where they are on a level below all others; hips may turn in their
  place.

Feet, hands and hips are found by their roles, from the table of the set-up or by recognition; where a
skeleton has none that are known, the ends of its chains and its root hold instead, as hands do. What all that
leaves free stays near the pose in which the drag began, so that a pose is changed and not made anew; where
live mode solves when the drag ends it prefers what it prefers there (`drag_plan`).

The body follows as in live mode (`core.solve.follower`): a few steps for each movement of the mouse, and
where the mouse rests it settles on what a solve of these tasks gives. Where live mode solves when the bone is
let go it settles then on what that will give: its problem, with targets where bones have come to. So the body
stays as it is seen, also where its place is out of reach. Live mode itself waits for the end of the drag.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Final

import bpy
import numpy as np
from bpy.types import Depsgraph, Object

from ...core import IKError, MatchOrientation, Pose, Problem, ReachPoint, Task
from ...core.arrays import FloatArray
from ...core.messages import Message
from ...core.model.kinematics import forward_kinematics
from ...core.solve.follower import Followed, Follower
from ...core.tasks.frames import ReachCarried
from ..armature.armature import check_armature, read_armature, updated, world_from_armature
from ..armature.poses import evaluated_matrices, note_posed, read_pose, write_pose
from ..armature.restoring import PoseSnapshot, block_with_uid
from ..armature.switches import leader_of
from ..effectors.effectors import read_effectors, with_carriers
from ..effectors.feet import unrolled
from ..effectors.transforms import (
    bring_place,
    bring_target,
    carried_task,
    carriers,
    coming_along,
    is_only_a_target,
    stands_at_bone,
)
from ..kinds.frame_data import orientations, points_of
from ..kinds.kinds import Effector, Rank
from ..properties.naming import pose_bone
from ..properties.settings import settings_of, solver_options
from ..rig.keying import auto_key
from ..rig.noted import bring_handle, held_from_now, note_carried, note_held
from ..rig.reports import DRAGGED, measured_report, show, why_in_place
from ..rig.rig import Rig
from .drag_anchors import (
    Anchor,
    DragError,
    DragReport,
    checked_goal,
    drag_report,
    dragged_object,
    first_anchors,
    limbs_and_hips,
    movable_for,
)
from .drag_plan import DragPlan, LetGo
from .driven_bones import DrivenBones
from .following import follow_until_rest
from .following import held as not_live
from .machine import Trigger
from .tracking import Tracked

DRAG_PRIORITY: Final = 1
"""Level of a dragged bone that has no effector."""
MOST_TURN: Final = 0.21
"""Most by which an angle changes in one movement that is smooth [rad]: 12 degrees."""
STRAYING: Final = 0.1
"""Part of the tolerance by which the grabbed point may be beside its goal because the bone has turned [1]."""
MOST_UPDATES: Final = 20
"""How often a body is moved on towards a place at most before it settles."""
STILL: Final = 2e-3
"""Largest change of an angle [rad] with which a body that settles as let go stays there."""
MOST_SETTLINGS: Final = 20
"""How often it settles so at most: mostly two or three times, far out of reach until no pose is better."""


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
            point: Where it is grabbed, along its own axes from its head [m].
            depsgraph: Where pose and targets are read; that of the context by default.

        Raises:
            IKError: There is no such bone, it cannot move, or something cannot be posed.
        """
        check_armature(armature_object)
        depsgraph = updated(depsgraph)
        self._uid = armature_object.session_uid
        self._rig = rig = _read(armature_object, depsgraph)
        settings = settings_of(armature_object)
        self._armature = rig.armature if rig else read_armature(armature_object, move_root=settings.move_root)
        self._effectors = rig.effectors if rig else ()
        grabbed = self._armature.skeleton.index(pose_bone(armature_object, bone).name)
        joint = leader_of(armature_object, self._armature, grabbed)
        bone = self._armature.skeleton.names[joint]
        posed = armature_object.evaluated_get(depsgraph)
        self._world_from_armature, self._scale = world_from_armature(posed)
        self._start = self._written = read_pose(armature_object, self._armature, depsgraph=depsgraph)
        self._matrices = self._grabbed = evaluated_matrices(posed, self._armature)
        self.bone = bone
        """The dragged bone: that of the control, where one carries the bone that is grabbed."""
        self._point = points_of(np.linalg.inv(self._matrices[joint]) @ self._matrices[grabbed], point)
        self._before = PoseSnapshot.take(armature_object)
        self._own = [e for e in self._effectors if e.bone == bone and e.goal.pinnable]
        if rig and any(own.follows for own in self._own):  # it carries others from where it is grabbed
            then = [replace(e, state='REACH') if e in self._own else e for e in rig.effectors]
            held = with_carriers(armature_object, then, depsgraph)
            pairs = zip(rig.effectors, held, strict=True)
            self._effectors = tuple(after if after.follows else own for own, after in pairs)
            self._rig = rig = replace(rig, effectors=self._effectors)
        turns = [own for own in self._own if own.follows or not own.orientation]
        self._asked_at: FloatArray = np.array(turns[0].point) if turns else self._point
        """The point whose place is asked for, in its own axes [m]: that of an effector that lets it turn."""
        depths = [effector.chain_depth for effector in self._own]
        depth = 0 if 0 in depths else max(depths, default=0)
        self._skeleton = movable_for(self._armature, bone, depth)
        self._in_place = why_in_place(armature_object, self._skeleton, bone, depth, dragged=True)
        self.priority = min((effector.priority for effector in self._own), default=DRAG_PRIORITY)
        """Level of the dragged bone; 0 is the highest."""
        self._rotation = orientations(self._matrices[joint])
        asked = any(own.position and own.orientation and not own.follows for own in self._own)
        self.keeps_orientation = asked and bool(np.isfinite(self._rotation).all())
        """Whether the dragged bone keeps its orientation."""
        self._options = replace(solver_options(armature_object, self._scale), method='PRIORITY')
        self._tracked: Tracked | None = None
        self._driven = rig and DrivenBones.of(rig, armature_object, depsgraph, None)
        """Where bones that constraints move were taken to be; None without any."""
        self._anew = self._changed = False
        """Whether there is another place, and whether what joints prefer or driven bones have changed, since
        the last update."""
        self._updates = 0
        """How often the body was moved on towards the present place."""
        self.rests = False
        """Whether it settles there from the next update on."""
        limbs = limbs_and_hips(armature_object, self._armature.skeleton)
        names, parts = self._armature.skeleton.names, self._armature.skeleton.ancestors(joint)[1:]
        hands = {names[limb] for limb, kind in limbs if kind == 'HAND' and limb in parts}
        hips = {names[limb] for limb, kind in limbs if kind == 'HIPS'}
        self._coming_along = coming_along(armature_object, self._effectors, bone, hands | hips)
        self._led = [effector for effector in self._coming_along if effector.bone in hands]
        """Those of the hand of which the dragged bone is a part."""
        self._moves_targets = bool(self._own or self._led)
        """Whether a target comes along with the dragged bone when the drag ends; else the body is posed."""
        self._in_live = settings.live and self._moves_targets
        """Whether live mode solves for a target that comes along with the dragged bone when the drag ends."""
        dragged = self._own if self._moves_targets else ()
        self._plan = rig and DragPlan(armature_object, rig, depsgraph, dragged, self._coming_along)
        self._anchor(armature_object, limbs)
        self._goal = self._place_of(self._point)
        self._aim = self._place_of(self._asked_at)
        """Where the point that is asked for should be, so that the grabbed one is at its goal, (3,) [m]."""
        self._aims = 0
        """How often that has changed with the turn of the bone since it rests."""
        self.report = DragReport(DragError(bone, 0.0, None, True, True))
        """What the last movement came to."""
        self._let_go: LetGo | None = None
        """What live mode will solve, once the body rests at this place; None on the way there."""
        self._let_go_from, self._rounds = self._start, 0
        """Where the body was when it began to settle so, and how often it has."""
        self._under_way = ExitStack()
        self._under_way.enter_context(not_live(armature_object))  # it would take the pose of a drag for given

    def _anchor(self, armature_object: Object, limbs: Sequence[tuple[int, str]]) -> None:
        """Find what holds: effectors with their tasks, then feet, hands and hips without an effector."""
        self._carriers = carriers(armature_object, self._effectors, self._coming_along)
        loose = (*self._coming_along, *self._own)
        kept = [effector for effector in self._effectors if effector.kind != 'STAY' and effector not in loose]
        self._anchors = [
            Anchor(effector.name, effector.bone, self._held_tasks(effector), firm=not effector.follows)
            for effector in kept
        ]
        taken = {effector.bone for effector in kept if effector.goal.pinnable}
        turned = {effector.bone for effector in self._coming_along if effector.orientation}
        self._anchors += first_anchors(limbs, self._skeleton, self.bone, taken, turned, self._matrices)

    def _take_along(self, armature_object: Object) -> bool:
        """Let what follows go along with bones whose targets come along, as at the end; whether it does."""
        if self._plan is None or not self._moves_targets or self._let_go is not None:
            return False
        if self._rounds >= MOST_SETTLINGS or not self._plan.take_along(armature_object, self._matrices):
            return False
        self._rounds += 1
        following = {effector.name: effector for effector in self._effectors if effector.follows}
        self._anchors = [
            replace(own, tasks=self._held_tasks(following[own.name])) if own.name in following else own
            for own in self._anchors
        ]
        self._changed = True
        return True

    def _see_driven(self, armature_object: Object) -> None:
        """Take bones that constraints move to be where they are now that the last update is shown."""
        driven, rig = self._driven, self._rig
        if driven is None or rig is None:
            return
        found = driven.seen(rig, armature_object, bpy.context.evaluated_depsgraph_get())
        moved, arrived = driven.moved(found), self._tracked is not None and self._tracked.follower.arrived
        if not (moved or self._anew):
            return
        places = driven.follow(found) if arrived and not self._anew else driven.begin(found)
        channels, scale = self._written.channels.copy(), self._written.scale.copy()
        channels[driven.joints], scale[driven.joints] = places[:, :6], places[:, 6:]
        self._written = Pose(channels, scale)
        self._anew, self._changed = False, True

    # What the user sees

    @property
    def goal(self) -> FloatArray:
        """Where the grabbed point should be, in the world, (3,) [m]."""
        return points_of(self._world_from_armature, self._goal)

    @property
    def place(self) -> FloatArray:
        """Where the grabbed point is, in the world, (3,) [m]."""
        return points_of(self._world_from_armature, self._place_of(self._point))

    @property
    def world_from_bone(self) -> FloatArray:
        """The dragged bone when it was grabbed, (3, 3): its axes in the world."""
        return orientations(self._world_from_armature) @ np.nan_to_num(self._rotation)

    @property
    def held(self) -> tuple[tuple[str, bool], ...]:
        """Bones that hold, and whether strictly: those of effectors, then those pinned for this drag."""
        return tuple((anchor.bone, anchor.firm) for anchor in self._anchors)

    def pins(self) -> Iterator[tuple[str, bool, FloatArray, FloatArray]]:
        """What holds a place, by name, whether strictly, where, and where it is, (3,) each [m]."""
        index = self._armature.skeleton.index
        for anchor in self._anchors:
            for task in anchor.tasks:
                if isinstance(task, ReachPoint):
                    here = points_of(self._matrices[index(anchor.bone)], task.point)
                    away = task.target.reshape(-1, 3)[0] - here
                    if isinstance(task, ReachCarried):
                        carried = points_of(self._matrices[index(task.carrier)], task.carrier_point)
                        away = away + carried - task.carrier_from
                    axes = task.armature_from_axes.reshape(-1, 3, 3)[0]
                    ends = np.array([here + axes @ (np.array(task.axes) * (axes.T @ away)), here])
                    yield anchor.name, anchor.firm, *points_of(self._world_from_armature[None], ends)

    def object(self) -> Object:
        """The armature object; an IKError where it is gone."""
        return dragged_object(self._uid)

    # What the user does

    def move(self, world_point: Sequence[float] | FloatArray, *, smoothly: bool = False) -> DragReport:
        """Bring the grabbed point to a place in the world (3,) [m], as far as what holds lets it.

        Smoothly no angle turns by more than a person sees as a movement; the rest comes with `again`.

        Raises:
            IKError: That is no place, or the armature is gone.
        """
        goal = checked_goal(self.bone, world_point)
        goal = points_of(np.linalg.inv(self._world_from_armature).astype(np.float64), goal)
        if not np.array_equal(goal, self._goal):
            self._goal, self._updates, self.rests, self._anew = goal, 0, False, True
            self._aims = 0
            self._take_again()
        return self.again(smoothly=smoothly)

    def _take_again(self) -> None:
        """Go on from where the body has settled as if the bone were let go."""
        if self._let_go is not None:
            self._let_go = self._tracked = None
        self._rounds = 0

    def again(self, *, smoothly: bool = False) -> DragReport:
        """Go on towards the same place, one update of the body or until it comes to rest."""
        armature_object = self.object()
        self._see_driven(armature_object)
        self._take_along(armature_object)
        settings, owners = settings_of(armature_object), list[tuple[str, bool]]()
        while True:
            if self._let_go is not None:
                found = self._settle_let_go(self._let_go)
            else:
                self._take_aim()
                owned = self._tasks()
                owners = [owner for _task, owner in owned]
                found = self._update(tuple(task for task, _owner in owned))
            self._matrices = forward_kinematics(self._armature.skeleton, found.pose).matrices
            if smoothly or (found.settled and not self._strays()):
                break
        assert self._tracked is not None
        changed = (found.pose.channels != self._written.channels).any(1) & self._tracked.skeleton.free.any(1)
        write_pose(armature_object, self._armature, found.pose, np.flatnonzero(changed).tolist())
        note_posed(armature_object)
        self._written = found.pose
        final = found.final and (self._driven is None or self._driven.at_rest) and not self._strays()
        if self._let_go is not None:
            iterations, settling = found.iterations, not found.settled
            if final and self._plan is not None and self._goes_on(found.pose):
                self._begin_to_let_go(armature_object, self._plan)
                settling, final = True, False
            self.report = replace(self.report, iterations=iterations, settling=settling, final=final)
            return self.report
        within = settings.tolerance_position, settings.tolerance_rotation
        report = drag_report(found, owners, self._scale, within, settling=self.rests, in_place=self._in_place)
        if final and self._plan is not None and self._in_live:
            # What follows has to have gone along first.
            if not self._take_along(armature_object):
                self._begin_to_let_go(armature_object, self._plan)
            report, final = replace(report, settling=True), False
        elif final and self._take_along(armature_object):
            report, final = replace(report, settling=True), False
        self.report = replace(report, final=final)
        return self.report

    def _strays(self) -> bool:
        """Whether the bone has turned since it was aimed, so that its grabbed point is beside its goal."""
        off = np.abs(self._aim_now() - self._aim).max() * self._scale
        within = STRAYING * settings_of(self.object()).tolerance_position
        return self._let_go is None and self._aims < MOST_UPDATES and bool(off > within)

    def _aim_now(self) -> FloatArray:
        """The aim for the bone as it is turned now, (3,) [m]."""
        return self._goal + self._place_of(self._asked_at) - self._place_of(self._point)

    def _take_aim(self) -> None:
        """Aim the point whose place is asked for so that the grabbed one comes to its goal."""
        if self._strays():
            self._aim = self._aim_now()
            self._aims += self.rests

    def _update(self, tasks: tuple[Task, ...]) -> Followed:
        """One update: after the place, or to what a solve gives for it once the body has come to rest."""
        if self._tracked is None or self._changed or not self._tracked.asks_for(tasks):
            if self._plan is not None and self._in_live:
                problem = self._plan.problem(self._skeleton, tasks, self._start.channels)
            else:
                problem = Problem(replace(self._skeleton, preferred=self._start.channels), tasks)
            if self._tracked is not None and self._tracked.asks_for(tasks):
                solver = self._tracked.follower.among(problem, self._written)
            else:
                solver = Follower(problem, self._written, self._options)
                self._updates, self.rests = 0, False
            self._tracked = Tracked(solver, tasks, problem.skeleton, self._options)
            self._changed = False
        self._tracked = replace(self._tracked, tasks=tasks)
        if self.rests:
            return self._tracked.step(settles=True)
        found = self._tracked.step(most_turn=MOST_TURN)
        self._updates += 1
        self.rests = found.settled or self._updates >= MOST_UPDATES
        return found

    def _begin_to_let_go(self, armature_object: Object, plan: DragPlan) -> None:
        """Take what live mode will solve, with targets where bones are now."""
        others = self._when_let_go()
        effectors = [others.get(own, own) for own in self._effectors]
        rows = [self._effectors.index(own) for own in (*self._pinned, *self._brought())]
        self._let_go = plan.let_go(armature_object, self._matrices, effectors, rows)
        self._let_go_from, self._tracked = self._written, None
        self._rounds += 1

    def _goes_on(self, pose: Pose) -> bool:
        """Whether the body would go on once it is let go: what prefers where it is, as hips, has moved."""
        moved = np.abs(pose.rotation - self._let_go_from.rotation).max()
        return self._rounds < MOST_SETTLINGS and bool(moved > STILL)

    def _settle_let_go(self, let_go: LetGo) -> Followed:
        """One update on the way to what live mode will solve."""
        frames = replace(let_go.frames, pose=self._written[None])
        self._tracked = Tracked.of(Follower, let_go.plan, self._options, frames, self._tracked)
        return self._tracked.step(settles=True)

    def settle(self) -> DragReport:
        """Go on until the pose is what a solve gives: it should depend on the place, not on the way there."""
        while not self.report.final:
            self.rests = True
            self.again()
        return self.report

    def pin(self, bone: str) -> bool:
        """Hold a bone where it is now, strictly, or let it go if it holds; whether it holds now."""
        joint = self._armature.skeleton.index(pose_bone(self.object(), bone).name)
        if bone == self.bone:
            raise IKError("{bone!r} is being dragged: let it go to pin it", bone=bone)
        self._take_again()
        others = [anchor for anchor in self._anchors if anchor.bone != bone]
        holds = len(others) == len(self._anchors)
        self._anchors = [*others, Anchor.of(bone, self._matrices[joint])] if holds else others
        return holds

    def keep_orientation(self, keeps: bool) -> None:
        """Keep the orientation that the bone had when it was grabbed, or let it turn as it comes."""
        if keeps and not np.isfinite(self._rotation).all():
            raise IKError(
                "bone {bone!r} is scaled to nothing, so it has no orientation to be kept", bone=self.bone
            )
        self.keeps_orientation = keeps
        self._take_again()

    def changed(self) -> list[str]:
        """Names of the bones whose channels are others than when it was begun."""
        return self._before.others(PoseSnapshot.take(self.object(), self._before.rotation_modes))

    def confirm(self, *, always_key: bool = False) -> DragReport:
        """Let the pose settle, bring targets along where bones have left them, and key if auto-key is on."""
        with self._under_way:
            return self._confirmed(self.object(), always_key=always_key)

    def _confirmed(self, armature_object: Object, *, always_key: bool) -> DragReport:
        self.settle()
        changed = self.changed()
        if not changed:
            return self.report
        targets = list(self._bring_targets(armature_object))
        if self._moves_targets:
            note_carried(armature_object, read_effectors(armature_object))
        if self._in_live:  # at once: to the scene's handlers a tool is still running, which they follow
            depsgraph = updated(None)
            self._under_way.close()
            with suppress(IKError):  # the handlers tell it
                follow_until_rest(armature_object, depsgraph, Trigger.SCRIPT)
        self._under_way.close()  # live mode has its part in what is reported and keyed
        if self._effectors:  # what the last solve said of them is so no longer
            depsgraph = updated(None)
            rig = Rig.read(armature_object, depsgraph)
            frames = rig.read_frame(armature_object, depsgraph)
            whys = [DRAGGED] * len(rig.effectors)
            show(armature_object, rig, measured_report(armature_object, depsgraph, rig, frames, whys))
        try:
            keyed = auto_key(armature_object, self._armature, changed, targets, always=always_key)
        except IKError as error:  # the pose is what the user wanted, with or without keys
            self.report = replace(self.report, notes=(Message("not keyed: {error}", error=error.message),))
        else:
            self.report = replace(self.report, keyed=keyed.count, notes=keyed.notes)
        return self.report

    def cancel(self) -> None:
        """Put every channel back exactly, as if nothing had been dragged, also for live mode."""
        armature_object = block_with_uid(bpy.data.objects, self._uid)
        with self._under_way:
            if armature_object is not None:  # what is gone has no channels
                self._before.restore(armature_object)
                self._before.note.store(armature_object)  # nobody has solved meanwhile

    # Tasks

    def _place_of(self, point: FloatArray) -> FloatArray:
        """A point of the dragged bone in armature space, (3,) [m]."""
        return points_of(self._matrices[self._armature.skeleton.index(self.bone)], point)

    def _held_tasks(self, effector: Effector) -> tuple[Task, ...]:
        """The tasks of an effector of one frame in their level; targets may go with that of another."""
        own = () if self._plan is None else self._plan.tasks[effector]
        tasks = tuple(task if task.frames is None else task.at_frame(0) for task in own)
        carrier = self._carriers.get(effector.index)
        if carrier is not None:
            joint = self._armature.skeleton.index(carrier.bone)
            place = points_of(self._grabbed[joint], carrier.point)
            tasks = tuple(carried_task(task, carrier, place) for task in tasks)
        return tasks

    def _tasks(self) -> list[tuple[Task, tuple[str, bool]]]:
        """All tasks, those of the dragged bone first, with who owns each and whether it holds strictly."""
        bone, level = self.bone, Rank.DRAGGED.on(self.priority)
        tasks: list[Task] = [
            ReachPoint(joint=bone, target=self._aim, point=self._asked_at, priority=level, name=bone)
        ]
        if self.keeps_orientation:
            tasks.append(MatchOrientation(joint=bone, target=self._rotation, priority=level, name=bone))
        owned = [(task, (bone, True)) for task in tasks]
        owned += [(task, (own.name, True)) for own in self._anchors if own.firm for task in own.tasks]
        below = 1 + max(task.priority for task, _owner in owned)
        for own in self._anchors:
            if not own.firm:
                owned += [(replace(task, priority=below), (own.name, False)) for task in own.tasks]
        return owned

    def _has_moved(self, bone: str) -> bool:
        """Whether a bone is elsewhere than in the beginning, by more than a solve leaves."""
        joint, settings = self._armature.skeleton.index(bone), settings_of(self.object())
        change = np.abs(self._matrices[joint] - self._grabbed[joint])
        length, turn = float(change[:3, 3].max()) * self._scale, float(change[:3, :3].max())
        return length > settings.tolerance_position or turn > settings.tolerance_rotation

    @property
    def _pinned(self) -> list[Effector]:
        """Those that pin the dragged bone, from then on where it is let go."""
        return [own for own in self._own if own.state == 'PIN']

    def _brought(self) -> list[Effector]:
        """Effectors whose targets are brought to their bones, those on which others hang first."""
        brought = [own for own in self._coming_along if own.bone == self.bone or self._has_moved(own.bone)]
        by_index = {effector.index: effector for effector in self._effectors}
        return [*brought, *(by_index[i] for i, carrier in self._carriers.items() if carrier in brought)]

    def _when_let_go(self) -> dict[Effector, Effector]:
        """Effectors that ask for something else once the bone is let go, and what they are then.

        Who drags a bone wants it there, and turned so where it is to keep that. What is dragged of a hand
        stays where it is only while the hand is turned so.
        """
        entries, found = settings_of(self.object()).effectors, dict[Effector, Effector]()
        for own in self._own:
            if own.follows:
                kind = 'BOTH' if self.keeps_orientation else 'POSITION'
                found[own] = replace(own, state='REACH', kind=kind, anchors=())
            elif own.turns_only:
                with_bone = own in self._coming_along and stands_at_bone(entries[own.index])
                if with_bone or own.state == 'PIN':
                    found[own] = replace(own, kind='BOTH')
        for own in self._led:
            entry = entries[own.index]
            free = stands_at_bone(entry) if own.turns_only else is_only_a_target(entry)
            if free and self._has_moved(own.bone) and own.kind != 'BOTH':
                found[own] = replace(own, kind='BOTH')
        return found

    def _bring_targets(self, armature_object: Object) -> Iterator[tuple[Object, bool, bool]]:
        """Move targets and pins to where bones are now, or the next solve would take the pose back."""
        index, entries = self._armature.skeleton.index, settings_of(armature_object).effectors
        note_held(armature_object, self._effectors)
        others, brought = self._when_let_go(), self._brought()
        for effector in self._pinned:
            entry = entries[effector.index]
            entry.pin_matrix = tuple(unrolled(entry, self._matrices[index(self.bone)]).ravel().tolist())
        for effector, other in others.items():
            entries[effector.index].kind = other.kind
            if effector.state != other.state:
                entries[effector.index].state = other.state
        for effector in brought:
            matrix = self._world_from_armature @ self._matrices[index(effector.bone)]
            whole = replace(effector, kind='BOTH') if effector in others else effector
            yield from bring_target(armature_object, whole, matrix)
        for effector in self._effectors:
            matrix = self._world_from_armature @ self._matrices[index(effector.bone)]
            if effector not in brought and (effector.follows or effector in self._own):
                bring_handle(armature_object, effector, matrix)
            elif effector.turns_only and not effector.follows:
                bring_place(armature_object, effector, matrix)


def _read(armature_object: Object, depsgraph: Depsgraph) -> Rig | None:
    """Read an armature with its effectors that take part; None where there are none."""
    if not any(entry.enabled for entry in settings_of(armature_object).effectors):
        return None
    rig = Rig.read(armature_object, depsgraph)
    return replace(rig, effectors=held_from_now(armature_object, rig.effectors, depsgraph))

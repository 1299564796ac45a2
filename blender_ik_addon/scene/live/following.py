# SPDX-License-Identifier: GPL-3.0-or-later
"""A body that follows its targets: what an update means for it, and what `machine.TABLE` says is done then.

What was solved for is noted in the file, see `rig.noted`, as digests: of the targets, the object and the
settings; of the pose as it was left; of the bones themselves; of what was keyed. Whether there is anything to
do follows from these notes alone, also after undo, redo and loading.

A solve gives the same as `posing.solve_pose` would from the present pose, or from where a body that follows
was going, but for influences below 1: these begin where others than live mode have left the bones. Targets,
the object, the settings and what holds the bones, such as a locked bone, make it start: a solved bone that is
posed by hand stays until one of these changes. So does a new frame where the animation has moved the bones.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np
from bpy.types import Depsgraph, Object
from mathutils import Matrix

from ...core import IKError, Pose, forward_kinematics
from ...core.arrays import FloatArray
from ...core.messages import Message
from ...core.solve.follower import Followed, Follower
from ...core.solve.tracker import Tracker
from ..armature.armature import check_armature, world_from_armature
from ..armature.poses import (
    PoseNote,
    evaluated_matrices,
    named_bones,
    note_posed,
    pose_bytes,
    raw_channels,
    read_pose,
    write_pose,
)
from ..armature.restoring import ValuesSnapshot
from ..effectors.effectors import has_own_place, read_effectors, with_carriers
from ..effectors.rests import placed_now
from ..effectors.transforms import place_target
from ..kinds.frame_data import FrameData
from ..kinds.kinds import KINDS
from ..properties.settings import check_object, settings_of
from ..rig.keying import auto_key, auto_keying
from ..rig.noted import (
    NOTHING,
    Digest,
    LiveState,
    Origin,
    digest,
    digest_of_aims,
    end_solve,
    held_channels,
    held_from_now,
    note_carried,
    note_held,
    note_origin,
    on_the_way,
    parts_of_bones,
    play_keys,
    read_settings,
    renewed_origin,
)
from ..rig.reports import (
    POSED,
    RESTLESS,
    SETTLING,
    SHOWN_DIGITS,
    Report,
    Shown,
    is_shown,
    measured_report,
    show,
    solved_report,
)
from ..rig.rig import Rig
from .driven_bones import MOST_SOLVES, DrivenBones
from .machine import (
    LIVE,
    TABLE,
    TOOLS,
    Action,
    Body,
    Event,
    Posed,
    Resting,
    State,
    Transition,
    Trigger,
)
from .tracking import Tracked, same

PART_AGAIN: Final = Message(
    "influences below 1 begin at the keys of the bones: where these are solved already, Live goes part of "
    "the way again (to see keys as they are, switch Live off)"
)
"""What is said where keys have put bones back that influences below 1 begin at."""


@contextmanager
def held(armature_object: Object) -> Iterator[None]:
    """Let an armature object not follow: for as long as a bake plays its keys back."""
    uid = armature_object.session_uid
    if uid in LIVE.paused:  # by a bake of several, which ends that
        yield
        return
    LIVE.paused.add(uid)
    try:
        yield
    finally:
        LIVE.paused.discard(uid)


def follow(
    armature_object: Object,
    depsgraph: Depsgraph,
    trigger: Trigger = Trigger.SCRIPT,
    *,
    look_closely: bool = True,
) -> Report | None:
    """Do what an update asks for; None where nothing was solved.

    Args:
        look_closely: Whether bones, locks, limits or what is in the scene may have changed. Without it they
            are read only where the pose has changed.

    Raises:
        IKError: Something is missing or cannot be posed; the pose is as before then.
    """
    check_object(armature_object)
    if armature_object.session_uid in LIVE.paused:
        return None
    check_armature(armature_object)
    with held(armature_object):  # what is written here may call Blender's handlers, and those this again
        update, report = _Update(armature_object, depsgraph, trigger, look_closely), None
        if not update.quiet:
            event = update.event()
            report = update.act(TABLE[event][update.body.state])
            if report is not None:
                update.body.changed = event is Event.CHANGED and update.trigger is not Trigger.FRAME
        update.end()
        return report


def follow_until_rest(armature_object: Object, depsgraph: Depsgraph, trigger: Trigger) -> Report | None:
    """The same, until driven bones have come to rest; not for handlers of an update."""
    report = follow(armature_object, depsgraph, trigger)
    for _ in range(MOST_SOLVES):
        if not is_restless(armature_object):
            break
        depsgraph.update()
        report = follow(armature_object, depsgraph, trigger) or report
    return report


def state_of(armature_object: Object) -> State:
    """The state after the last update."""
    body = LIVE.bodies.get(armature_object.session_uid)
    return State.AT_REST if body is None else body.state


def is_underway(armature_object: Object) -> bool:
    """Whether its pose may still change or be taken back, since a tool is running or has just ended."""
    return state_of(armature_object) is not State.AT_REST


def is_settled(armature_object: Object) -> bool:
    """Whether the same event once more would change nothing."""
    return state_of(armature_object) in (State.AT_REST, State.STILL, State.WAITING)


def is_restless(armature_object: Object) -> bool:
    """Whether driven bones may still move with the last solve."""
    body = LIVE.bodies.get(armature_object.session_uid)
    return body is not None and body.driven_bones is not None and not body.driven_bones.at_rest


def owes_keys(armature_object: Object) -> bool:
    """Whether something was solved that auto-key has not keyed yet."""
    note = LiveState.of(armature_object)
    return note.keyed != note.aims and auto_keying()


def followed(armature_object: Object) -> Iterator[tuple[Object, tuple[float, ...]]]:
    """Give targets that follow, where Poise has placed them, with the matrices of their channels, (16,)."""
    for target, placed in _followers(armature_object):
        matrix = _own_matrix(target)
        if matrix == placed:
            yield target, matrix


def bring_along(armature_object: Object) -> None:
    """Put targets that follow where they were noted, if undo has put back the note alone.

    Blender leaves what is the same in two undo steps as it finds it. Live mode moves targets after the step
    of the tool was made, when the body has come to rest: so they are where no step has them.
    """
    for target, placed in _followers(armature_object) if LIVE.followed else ():
        before = LIVE.followed.get((armature_object.session_uid, target.session_uid))
        if before == _own_matrix(target) != placed and target.is_editable:
            target.matrix_basis = Matrix(np.reshape(placed, (4, 4)).tolist())


def _followers(armature_object: Object) -> Iterator[tuple[Object, tuple[float, ...]]]:
    """Give targets that follow, and where Poise has placed them, (16,)."""
    for entry in settings_of(armature_object).effectors:
        comes_along = entry.state == 'FOLLOW' or KINDS[entry.kind].turns_only
        if comes_along and entry.target is not None and entry.placed[15]:
            yield entry.target, tuple(placed_now(entry).ravel().tolist())


def _own_matrix(target: Object) -> tuple[float, ...]:
    return tuple(np.array(target.matrix_basis).ravel().tolist())


class _Update:
    """One update of one body: what has changed since it was noted, and what is done then."""

    def __init__(
        self, armature_object: Object, depsgraph: Depsgraph, trigger: Trigger, look_closely: bool
    ) -> None:
        """Read digests; where these say that anything may have changed, the armature too."""
        self.armature_object, self.depsgraph = armature_object, depsgraph
        effectors, channels = read_effectors(armature_object), raw_channels(armature_object)
        self.aims = aims = digest_of_aims(armature_object, effectors, depsgraph)
        """What is to be solved for."""
        self.left: Pose | None = None
        """The pose that was written in this update."""
        self.note = note = LiveState.of(armature_object)
        """As it was left."""
        self.bones, self.held = note.bones, note.held
        self.pose_bytes = pose_bytes(channels)
        """Of the pose as it is found, and then as it is left."""
        pose_note, fresh = PoseNote.of(armature_object), note.aims == NOTHING
        unseen = fresh or not pose_note.by_live
        moved = named_bones(armature_object, pose_note.differs(self.pose_bytes) | unseen)
        """Bones that others have moved; all where another part of Poise has, or Live was just switched on."""
        same_bones = pose_note.is_of(self.pose_bytes)
        self.by_hand = named_bones(armature_object, pose_note.differs(self.pose_bytes) & same_bones)
        """Those of them that Poise has not moved; none where other bones were noted."""
        if self.by_hand and armature_object.session_uid in LIVE.replayed:
            trigger, self.by_hand = Trigger.FRAME, frozenset[str]()
        LIVE.replayed.discard(armature_object.session_uid)
        self.trigger, self.tool = trigger, trigger in TOOLS
        self.matched = False
        """Whether targets were brought to bones in this update."""
        self.reposed = reposed = unseen or bool(moved)
        """Whether anybody else has moved bones."""
        self.replayed = reposed and trigger is Trigger.FRAME
        """Whether the animation has."""
        body, underway = LIVE.bodies.get(armature_object.session_uid), note.aims == on_the_way(aims)
        state = State.AT_REST if body is None or note.aims == aims else body.state
        if state is State.AT_REST and underway:
            state = State.WAITING
        self.let_go = trigger is Trigger.FRAME and play_keys(armature_object, effectors)
        """Whether keys hold again in a new frame what was posed by hand in the last one."""
        if self.let_go:
            effectors = read_effectors(armature_object)
        elif state is State.AT_REST:
            if trigger is Trigger.FRAME:
                held = with_carriers(armature_object, effectors, depsgraph)
            else:
                goes_on = body is not None and body.changed and not (reposed or self.tool)
                held = held_from_now(armature_object, effectors, depsgraph, goes_on=goes_on)
            if held != effectors:
                note_held(armature_object, [effector for effector in held if effector.anchors])
                effectors = read_effectors(armature_object)
        self.rests = note.aims == aims or (self.tool and underway and state is State.WAITING)
        """Whether its targets are where they were, and nothing is under way."""
        self.driven = None if body is None else _driven_bones(armature_object, body, depsgraph)
        """Driven bones of the last solve, and where they are, (k, 9); None without any."""
        self.driven_moved = body is not None and self._driven_bones_moved(body, moved)
        """Whether driven bones are elsewhere than the last solve took them to be."""
        self.quiet = self.rests and not (look_closely or reposed or self.driven_moved or self.let_go)
        """Whether nothing else has changed either."""
        if body is None or not self.quiet:
            settings, self.quiet = read_settings(armature_object), False
            known = body and (body.rig.effectors, body.settings)
            if body is None or look_closely or reposed or known != (effectors, settings):
                body = _read(armature_object, body, settings, depsgraph)
                astray = repr(body.rig.is_astray(armature_object, depsgraph))
                self.bones = digest(*parts_of_bones(body.rig), astray)
                self.held = digest(*held_channels(armature_object, body.rig, channels))
            if reposed or Origin.of(armature_object, body.rig.armature) is None:
                present = read_pose(armature_object, body.rig.armature, depsgraph=depsgraph)
                origin = renewed_origin(armature_object, body.rig.armature, present, moved)
                note_origin(armature_object, body.rig.armature, origin)
                note_posed(armature_object, by_live=True)
            if reposed or not self._same_body:
                body.fields.clear()  # another body by now
        self.body, self.rig = body, body.rig
        body.state, body.pose_bytes = state, body.pose_bytes or pose_note.pose

    def _driven_bones_moved(self, body: Body, posed: Collection[str]) -> bool:
        """Whether driven bones are elsewhere than the last solve took them to be.

        Where others have posed bones that are solved, driven bones go with these, as all below them does.
        """
        if self.driven is None:
            return False
        driven, found = self.driven
        if set(posed).intersection(body.rig.chains) - body.rig.armature.driven:
            driven.at_rest = driven.restored = True
        moved = driven.moved(found)
        if driven.given_up and not moved:
            driven.given_up = False  # it is reported once
            _measure(self.armature_object, body.rig, self.depsgraph, RESTLESS)
        return moved

    def event(self) -> Event:
        """What it means for the body. Where targets are back, `body.home` is the pose that belongs there."""
        tool, noted, body = self.tool, self.note.aims, self.body
        if self.replayed or self.let_go:
            return Event.CHANGED
        if noted not in (self.aims, on_the_way(self.aims)):
            home = body.had(self.aims, fields=self.trigger in (Trigger.FIELD, Trigger.ENDING))
            gesture = self.trigger is Trigger.GESTURE
            # Under a tool a pose on its way is no place to go to.
            if home is not None and (home.aims == self.aims or not gesture):
                body.home = home
                return Event.BACK if gesture else Event.CANCELLED
            return Event.DRAGGED if tool else Event.CHANGED
        if tool or noted == self.aims:
            # Where a solve would take back what was posed by hand, that comes before what it would keep.
            held_moved = self.held != self.note.held and not self._poses_solved_bones()
            if self.driven_moved or self.bones != self.note.bones or held_moved:
                if tool:
                    return Event.RIG_MOVED
                return Event.ANSWERED if self._is_answered() else Event.CHANGED
            if self.reposed:
                return Event.POSED
        if tool:
            return Event.HELD
        return Event.STEP if self.trigger is Trigger.ENDING and not self.reposed else Event.ENDED

    @property
    def _same_body(self) -> bool:
        """Whether bones are what they were, and stand in all channels that are not solved where they did."""
        return (self.bones, self.held) == (self.note.bones, self.note.held)

    @property
    def _solved(self) -> list[int]:
        """Joints that a solve moves."""
        skeleton = self.rig.armature.skeleton
        return [joint for name in self.rig.chains if skeleton.free[joint := skeleton.index(name)].any()]

    def _poses_solved_bones(self) -> bool:
        """Whether bones were posed by hand that a solve moves."""
        names = self.rig.armature.skeleton.names
        return not self.by_hand.isdisjoint(names[joint] for joint in self._solved)

    def _is_answered(self) -> bool:
        """Whether nothing but driven bones has moved, and these with the pose at which the body arrived."""
        tracked, driven = self.body.tracked, self.body.driven_bones
        alone = not self.reposed and self._same_body
        arrived = tracked is not None and isinstance(tracked.solver, Follower) and tracked.solver.arrived
        return alone and arrived and driven is not None and not driven.at_rest

    def act(self, transition: Transition) -> Report | None:
        """Do what the table says, and go to the next state."""
        (action, way, there), body = transition, self.body
        if action is Action.MATCH:
            self._match()
        elif action is Action.RESTORE:
            body.state = there if self._restore() == self.aims else way
        elif action is not None:
            self._begin()
            report, found = self._solve(action)
            self.left = found.pose
            show(self.armature_object, self.rig, report, unseen=SHOWN_DIGITS)
            body.state = there if found.settled else way
            if action is Action.FOLLOW and found.final:
                body.state = State.AT_REST  # methods of the papers take no steps, they solve
            if action is Action.RETURN and found.final:
                self._restore()
            return report
        return None

    def end(self) -> None:
        """Note how the body is left, and set keys where they are due."""
        body, note = self.body, self.note
        if not self.quiet and body.state is State.AT_REST:
            if self.trigger is Trigger.FRAME:
                # Targets stay: they may have keys.
                note_carried(self.armature_object, self.rig.effectors)
            else:
                self._end_solve()
        if not self.quiet:
            aims = self.aims if body.state is State.AT_REST else on_the_way(self.aims)
            owes_none = note.aims == NOTHING or (self.matched and note.keyed == note.aims)
            note = LiveState(aims, self.bones, self.held, aims if owes_none else note.keyed)
            note.store(self.armature_object)
        body.pose_bytes = self.pose_bytes
        if body.state is not State.RETURNING:
            body.home = None
        if not self.tool:
            body.start = body.posed = None
        if note.keyed == note.aims or is_restless(self.armature_object):
            return
        if auto_keying() and self.trigger not in (Trigger.SCRIPT, Trigger.FRAME):
            if self.tool or body.state is not State.AT_REST:
                return  # they wait
            skeleton = self.rig.armature.skeleton
            joints = self._solved if body.tracked is None else body.tracked.joints
            names = [skeleton.names[joint] for joint in joints]
            notes = auto_key(self.armature_object, self.rig.armature, names).notes
            if notes:  # said as long as it is so
                raise IKError(". ".join(notes))
        note._replace(keyed=note.aims).store(self.armature_object)

    # What is done

    def _begin(self) -> None:
        """Note the pose before a tool moves the body."""
        body = self.body
        if self.tool:
            if body.start is None and self.note.aims != NOTHING:
                present = read_pose(self.armature_object, self.rig.armature, depsgraph=self.depsgraph)
                resting = Resting.of(self.armature_object, self.note.aims, present, self.rig.chains)
                body.begin(resting, self.trigger)
        elif self.trigger is not Trigger.ENDING:  # Escape may end a field's drag when a timer polls
            body.fields.clear()

    def _match(self) -> None:
        """Bring targets to bones that were posed by hand, and to those that hang on them, and measure.

        Pinned bones stay pinned, and what follows has its target brought anyway. Where a tool has put the
        pose back, targets go back to where they were.
        """
        armature_object, rig, body = self.armature_object, self.rig, self.body
        skeleton, settings = rig.armature.skeleton, settings_of(armature_object)
        met: list[int] = []
        if settings.fk_moves_targets and self.tool and body.posed is None:
            targets = [settings.effectors[effector.index].target for effector in rig.effectors]
            placed = ValuesSnapshot.placing(filter(None, targets))
            body.posed = Posed(body.pose_bytes, placed, Shown.of(armature_object))
        if body.posed is not None and body.posed.pose_bytes == self.pose_bytes:
            body.posed.restore(armature_object)
        else:
            shown = armature_object.evaluated_get(self.depsgraph)
            bones = world_from_armature(shown)[0] @ evaluated_matrices(shown, rig.armature)
            for row in self._coming_along() if settings.fk_moves_targets else ():
                effector = rig.effectors[row]
                entry = settings.effectors[effector.index]
                place_target(armature_object, entry, bones[skeleton.index(effector.bone)])
                met.append(row)
            # What Poise has posed has a report, as a bake, with its own reasons.
            known = [] if self.by_hand else [settings.effectors[own.index].why for own in rig.effectors]
            _measure(armature_object, rig, self.depsgraph, POSED, met, known)
        self.matched = bool(met) or body.posed is not None
        self.aims = digest_of_aims(armature_object, rig.effectors, self.depsgraph)

    def _coming_along(self) -> list[int]:
        """Which effectors have a target that goes where bones go that were posed by hand."""
        rig = self.rig
        entries: Any = settings_of(self.armature_object).effectors
        skeleton = rig.armature.skeleton
        by_hand = self.by_hand - rig.armature.driven
        posed = {joint for joint, name in enumerate(skeleton.names) if name in by_hand}
        return [
            row
            for row, effector in enumerate(rig.effectors)
            if effector.state == 'REACH'
            and effector.goal.pinnable
            and effector.target
            and posed.intersection(skeleton.ancestors(skeleton.index(effector.bone)))
            and has_own_place(self.armature_object, entries[effector.index])
            and entries[effector.index].target.is_editable
        ]

    def _end_solve(self) -> None:
        """Note what follows, and bring targets that come along to where bones are now."""
        rig, skeleton = self.rig, self.rig.armature.skeleton
        if self.left is not None:  # Blender evaluates it after this update
            coming = [skeleton.index(effector.bone) for effector in rig.effectors if effector.comes_along]
            skeleton, pose = skeleton.above(coming, self.left)
            bones = forward_kinematics(skeleton, pose).matrices
        else:
            posed = self.armature_object.evaluated_get(self.depsgraph)
            bones = evaluated_matrices(posed, rig.armature)
        end_solve(self.armature_object, rig.effectors, self.depsgraph, bones, skeleton.names)

    def _restore(self) -> Digest:
        """Put back the pose that the body had, exactly; for what it was solved then."""
        body = self.body
        assert body.home is not None
        body.home.restore(self.armature_object)
        self.left = body.home.channels
        body.start = None
        if body.driven_bones is not None:
            body.driven_bones.at_rest = body.driven_bones.restored = True
        self._left()
        return body.home.aims

    def _left(self) -> None:
        """Note that live mode leaves the pose so."""
        self.pose_bytes = pose_bytes(raw_channels(self.armature_object))
        note_posed(self.armature_object, by_live=True, pose=self.pose_bytes)

    def _solve(self, action: Action) -> tuple[Report, Followed]:
        """Solve, or take a step of the way, and write the pose."""
        armature_object, body, rig = self.armature_object, self.body, self.rig
        found_at = self._frames()
        frames = rig.let_go(found_at)
        let_go = np.flatnonzero((frames.pose.channels != found_at.pose.channels).any((0, 2)))
        plan, options = rig.plan(frames), rig.solver_options(armature_object, frames.largest_scale)
        astray = rig.is_astray(armature_object, self.depsgraph)
        measured = rig.measure(armature_object, self.depsgraph, frames) if astray else None
        # The methods of the papers cannot follow: they solve.
        steps = action is not Action.SOLVE and not options.differential
        before = (
            body.tracked if body.tracked is not None and body.tracked.pose_bytes == self.pose_bytes else None
        )
        tracked = Tracked.of(Follower if steps else Tracker, plan, options, frames, before)
        body.tracked = None  # until all has gone well
        if not steps:
            # What stays must be what a solve gives; on the way the body looks for no other pose.
            found = tracked.solve(far=action is not Action.FOLLOW)
        elif action is Action.RETURN:
            assert body.home is not None
            found = tracked.step(home=body.home.channels)
        else:
            found = tracked.step(settles=action is Action.SETTLE)
        if len(let_go):
            channels = found.pose.channels.copy()
            channels[let_go] = frames.pose.channels[0, let_go]
            found = replace(found, pose=found.pose.with_channels(channels))
        joints = sorted({*tracked.joints, *let_go.tolist()})
        write_pose(armature_object, rig.armature, found.pose, joints)
        self._left()
        body.tracked = replace(tracked, pose_bytes=self.pose_bytes)
        report = solved_report(
            armature_object, rig, plan, frames, found.errors, found.status, found.iterations, measured
        )
        if action is not Action.FOLLOW and not found.final:
            errors = tuple(replace(error, why="") for error in report.effectors)
            report = replace(report, message=SETTLING, effectors=errors)
        if self.replayed and ((frames.influences > 0.0) & (frames.influences < 1.0)).any():
            report = replace(report, notes=(*report.notes, PART_AGAIN))
        return report, found

    def _frames(self) -> FrameData:
        """Where the body and its targets are; with driven bones where they are to be taken to be."""
        rig, driven = self.rig, self.body.driven_bones
        origin = Origin.of(self.armature_object, rig.armature)
        if driven is None:
            return rig.read_frame(self.armature_object, self.depsgraph, origin=origin)
        frames = rig.read_frame(self.armature_object, self.depsgraph, but=driven.names(rig))
        if self.driven is not None and self.driven[0] is driven:
            seen = self.driven[1]
        else:
            seen = driven.seen(rig, self.armature_object, self.depsgraph)
        frames = driven.placed(frames, seen)
        if origin is not None:
            frames = rig.from_origin(frames, origin)
        alone = self.rests and self._same_body and not self.replayed
        return driven.placed(frames, driven.follow(seen) if alone else driven.begin(seen))


def _measure(
    armature_object: Object,
    rig: Rig,
    depsgraph: Depsgraph,
    why: str,
    met: Collection[int] = (),
    known: Sequence[str] = (),
) -> None:
    """Show how far targets are missed; `met` are those that have just been met.

    The reason is `why`, except where one is `known` for an effector, (E,).
    """
    origin = Origin.of(armature_object, rig.armature)
    frames = rig.read_frame(armature_object, depsgraph, origin=origin)
    whys = [own or why for own in known or [""] * len(rig.effectors)]
    found = measured_report(armature_object, depsgraph, rig, frames, whys, met)
    if not is_shown(armature_object, rig, found):
        show(armature_object, rig, found, unseen=SHOWN_DIGITS)


def _read(
    armature_object: Object, body: Body | None, settings: tuple[object, ...], depsgraph: Depsgraph
) -> Body:
    """Read the armature; what was prepared is kept if it is still the same."""
    rig = Rig.read(armature_object, depsgraph)
    if body is not None and same(body.rig, rig):
        body.settings = settings
        return body
    before, body = body, Body(rig, settings)
    if before is not None and before.rig.chains == rig.chains:
        body.start, body.fields, body.home = before.start, before.fields, before.home
        body.pose_bytes, body.changed = before.pose_bytes, before.changed
    driven = None if before is None else before.driven_bones
    body.driven_bones = DrivenBones.of(rig, armature_object, depsgraph, driven)
    LIVE.bodies[armature_object.session_uid] = body
    return body


def _driven_bones(
    armature_object: Object, body: Body, depsgraph: Depsgraph
) -> tuple[DrivenBones, FloatArray] | None:
    """Return the driven bones of a body, and where they are; None without any, or where bones are others."""
    driven, rig = body.driven_bones, body.rig
    bones: Any = () if armature_object.pose is None else armature_object.pose.bones
    if driven is None or set(bones.keys() if bones else ()) != set(rig.armature.skeleton.names):
        return None
    return driven, driven.seen(rig, armature_object, depsgraph)

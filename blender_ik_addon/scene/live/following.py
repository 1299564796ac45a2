# SPDX-License-Identifier: GPL-3.0-or-later
"""A body that follows its targets: what has moved since it was solved for, and one solve if anything has.

What was solved for is noted in the file, see `rig.live_state`, as digests: of the targets, the object and the
settings; of the pose as it was left; of the bones themselves; of what was keyed. So undo, redo, files and
library overrides always have the note that belongs to the pose, and whether there is anything to do follows
from the file alone. What is kept in `_KNOWN` only saves time and may be dropped at any moment.

A solve gives the same as `posing.solve_pose` would from the present pose, but for influences below 1: these
begin where others than live mode have left the bones. Nobody but the targets, the object,
the settings and what holds the bones makes it start: a bone that is posed by hand stays until one of these
changes. A new frame does too where the animation has moved the bones.

While a tool moves targets under the mouse each update takes a few steps from where the body is
(`core.solve.follower`). Such a pose is noted as on its way. When the tool has ended the body goes on to the
solution, update by update.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

import numpy as np
from bpy.types import Depsgraph, Object

from ...core import IKError, Pose
from ...core.arrays import FloatArray, IntArray
from ..armature.armature import check_armature
from ..armature.poses import (
    decided_channels,
    evaluated_matrices,
    read_pose,
    write_pose,
)
from ..effectors.effectors import Effector, read_effectors
from ..reports import SETTLING, Report
from ..rig.changes import (
    digest_of_aims,
    parts_of_bones,
    read_settings,
    same,
)
from ..rig.keying import auto_key, auto_keying
from ..rig.live_state import (
    NOTHING,
    Digest,
    LiveState,
    Origin,
    digest,
    note_left,
    on_the_way,
    raw_channels,
    renew_origin,
)
from ..rig.outcome import (
    POSED,
    RESTLESS,
    SHOWN_DIGITS,
    is_shown,
    measured_report,
    report_of,
    show,
)
from ..rig.rig import Measured, Reading, Rig
from .driven_bones import MOST_SOLVES, DrivenBones
from .returning import Resting, Returning
from .tracking import FollowMode, Tracked


class Trigger(Enum):
    """What may have moved the targets."""

    SCRIPT = "SCRIPT"
    """A script asks; nothing is keyed."""
    USER = "USER"
    """The user; auto-key is honoured."""
    GESTURE = "GESTURE"
    """The user, with a tool that is still running: it may be cancelled, so keys wait for its end."""
    FIELD = "FIELD"
    """The same with a number field, of which nobody says whether it is still dragged or was cancelled."""
    ENDING = "ENDING"
    """The user, and it will be looked again: what a tool has left on its way may go on for some looks."""
    FRAME = "FRAME"
    """A new frame; nothing is keyed."""


GESTURES: Final = (Trigger.GESTURE, Trigger.FIELD)

PART_AGAIN: Final = (
    "influences below 1 begin at the keys of the bones: where these are an answer already, Live goes part of "
    "the way again (to see keys as they are, switch Live off)"
)
"""What is said where keys have put bones back that influences below 1 begin at."""


# What is kept to save time


@dataclass
class _Known:
    """What was prepared for an armature object; plain data."""

    rig: Rig
    settings: tuple[object, ...]
    """What the rig depends on besides, see `read_settings`."""
    tracked: Tracked | None = None
    driven_bones: DrivenBones | None = None
    """Of the bones of the chains that something else decides; None where there are none."""
    matrices: FloatArray | None = None
    """All bones when these were looked at last, (n, 4, 4) [m]."""
    found: FloatArray | None = None
    """Where `answers` have been found in this look, (k, 9) [m, rad, 1]."""
    returning: Returning = field(default_factory=Returning)
    underway: bool = False
    """Whether the pose is on its way, as `LiveState.aims` says too."""

    def is_of(self, effectors: Sequence[Effector], settings: tuple[object, ...]) -> bool:
        """Whether it was prepared for these."""
        return self.rig.effectors == tuple(effectors) and self.settings == settings


_KNOWN: dict[int, _Known] = {}
"""By the session uid of the armature object."""

_HELD: set[int] = set()
"""Session uids of armature objects that a running job poses itself."""


def forget() -> None:
    """Drop all that is kept to save time."""
    _KNOWN.clear()


@contextmanager
def held(armature_object: Object) -> Iterator[None]:
    """Let an armature object not follow: for as long as a bake plays its keys back."""
    uid = armature_object.session_uid
    _HELD.add(uid)
    try:
        yield
    finally:
        _HELD.discard(uid)


# Following


def follow(
    armature_object: Object,
    depsgraph: Depsgraph,
    trigger: Trigger = Trigger.SCRIPT,
    *,
    look_closely: bool = True,
) -> Report | None:
    """Solve and write the pose if something has moved since the last time; None if nothing has.

    Args:
        armature_object: The original armature object.
        depsgraph: Up to date.
        trigger: What may have moved the targets.
        look_closely: Whether bones, locks, limits or what is in the scene may have changed. Without it they
            are looked at only where the pose has changed.

    Raises:
        IKError: Something is missing or cannot be posed; the pose is as before then.
    """
    uid = armature_object.session_uid
    if uid in _HELD:
        return None
    check_armature(armature_object)
    with held(armature_object):  # what is written here may call Blender's handlers, and those this again
        return _follow_if_moved(armature_object, depsgraph, trigger, look_closely)


def settle(armature_object: Object, depsgraph: Depsgraph, trigger: Trigger) -> Report | None:
    """The same, until bones that answer to a solve have come to rest; not for handlers of an update.

    Raises:
        IKError: As `follow`.
    """
    report = follow(armature_object, depsgraph, trigger)
    for _ in range(MOST_SOLVES):
        if not is_restless(armature_object):
            break
        depsgraph.update()
        report = follow(armature_object, depsgraph, trigger) or report
    return report


def _follow_if_moved(
    armature_object: Object, depsgraph: Depsgraph, trigger: Trigger, look_closely: bool
) -> Report | None:
    effectors = read_effectors(armature_object)
    aims = digest_of_aims(armature_object, effectors, depsgraph)
    channels = raw_channels(armature_object)
    posed = digest(channels.tobytes())
    state, known = LiveState.of(armature_object), _KNOWN.get(armature_object.session_uid)
    # Escape may end a field's drag when the body is just being looked at again.
    of_field = trigger in (Trigger.FIELD, Trigger.ENDING)
    gesture = trigger in GESTURES
    going_on = trigger is Trigger.ENDING and (state.aims, state.posed) == (on_the_way(aims), posed)
    # Under a tool that is held still the body goes on to what a solve gives; keys and undo wait for its end.
    rests = gesture and state.aims == on_the_way(aims) and _rests(armature_object)
    waits = rests and is_final(armature_object)
    wanted = on_the_way(aims) if waits else aims
    report = None
    answered = known is not None and _have_answered(armature_object, known, depsgraph)
    if known is None or look_closely or answered or (wanted, posed) != (state.aims, state.posed):
        bones, settings = state.bones, read_settings(armature_object)
        if known is None or look_closely or posed != state.posed or not known.is_of(effectors, settings):
            known = _read(armature_object, known, settings, depsgraph)
            bones = digest(*parts_of_bones(armature_object, known.rig, channels))
        if posed != state.posed or Origin.of(armature_object, known.rig.armature) is None:
            present = read_pose(armature_object, known.rig.armature, depsgraph=depsgraph)
            renew_origin(armature_object, known.rig.armature, present, channels)
            note_left(armature_object, channels)
        replayed = trigger is Trigger.FRAME and posed != state.posed
        if replayed or answered or (wanted, bones) != (state.aims, state.bones):
            returning = known.returning
            if posed != state.posed or bones != state.bones or not (gesture or of_field):
                returning.fields.clear()  # another body by now
            if gesture and returning.start is None and state.aims != NOTHING:
                present = read_pose(armature_object, known.rig.armature, depsgraph=depsgraph)
                resting = Resting.of(armature_object, state.aims, present, known.rig.chains)
                returning.begin(resting, of_field=of_field, underway=known.underway)
            only_answered = not replayed and (wanted, bones) == (state.aims, state.bones)
            home = None if only_answered else returning.found(aims, of_field=of_field)
            come_back = state.aims not in (aims, on_the_way(aims))
            if home is not None and come_back and trigger is not Trigger.GESTURE:  # it was cancelled
                wanted = _put_back(armature_object, known, home)
                returning.start = None
            else:
                if home is not None and home.aims != aims:
                    home = None  # a pose on its way is no place to go to
                on_rest = FollowMode.ARRIVING if going_on or rests else FollowMode.SOLVING
                mode = FollowMode.MOVING if gesture and not rests else on_rest
                if known.tracked is not None and known.tracked.posed != posed:
                    known.tracked = None
                reading = _reading(armature_object, known, depsgraph, only_answered)
                before = None
                if known.rig.is_astray(armature_object, depsgraph):
                    before = known.rig.measure(armature_object, depsgraph, reading)
                report, final = _solve(armature_object, known, reading, mode, home, before)
                partly = (reading.influences > 0.0) & (reading.influences < 1.0)
                if replayed and partly.any():
                    report = replace(report, notes=(*report.notes, PART_AGAIN))
                show(armature_object, known.rig, report, unseen=SHOWN_DIGITS)
                wanted = aims if final and not rests else on_the_way(aims)
                returning.home = home
                if final and home is not None:
                    wanted = _put_back(armature_object, known, home)
            channels = raw_channels(armature_object)
            posed = digest(channels.tobytes())
            note_left(armature_object, channels)
        elif posed != state.posed and state.posed != NOTHING:
            origin = Origin.of(armature_object, known.rig.armature)
            reading = known.rig.read_frame(armature_object, depsgraph, origin=origin)
            found = measured_report(armature_object, depsgraph, known.rig, reading, POSED)
            if not is_shown(armature_object, known.rig, found):
                show(armature_object, known.rig, found, unseen=SHOWN_DIGITS)
        fresh = state.aims == NOTHING
        state = LiveState(wanted, posed, bones, keyed=wanted if fresh else state.keyed)
        state.store(armature_object)
    known.underway = wanted != aims
    if state.keyed != state.aims and not is_restless(armature_object):
        _settle_keys(armature_object, known, state, trigger)
    if not gesture:
        known.returning.end(underway=known.underway)
    return report


def _put_back(armature_object: Object, known: _Known, home: Resting) -> Digest:
    """Put the body back, bit by bit; for what it was solved then."""
    home.restore(armature_object)
    known.returning.home = None
    if known.driven_bones is not None:
        known.driven_bones.at_rest = True
    return home.aims


def _solve(
    armature_object: Object,
    known: _Known,
    reading: Reading,
    mode: FollowMode,
    home: Resting | None,
    before: Measured | None,
) -> tuple[Report, bool]:
    """Solve and write, or go home; also whether that is where it was to go, and not a pose on its way."""
    rig = known.rig
    plan = rig.plan([reading])
    options = rig.solver_options(armature_object, reading.scale)
    tracked = Tracked.of(plan, options, reading, mode, known.tracked)
    known.tracked = None  # until all has gone well
    found = tracked.follow(mode, None if home is None else home.channels)
    write_pose(armature_object, rig.armature, found.pose, tracked.joints)
    posed = digest(raw_channels(armature_object).tobytes())
    arriving = mode is FollowMode.ARRIVING
    known.tracked = replace(tracked, posed=posed, settled=found.settled, final=found.final, arriving=arriving)
    report = report_of(
        armature_object, rig, plan, reading, found.errors, found.status, found.iterations, before
    )
    if arriving and not found.final:
        settling = tuple(replace(effector, why="") for effector in report.effectors)
        report = replace(report, message=SETTLING, effectors=settling)
    return report, found.final


def _reading(armature_object: Object, known: _Known, depsgraph: Depsgraph, only_answered: bool) -> Reading:
    """Where the body and its targets are; with what else decides bones where it is to be taken to be.

    Args:
        armature_object: The original object.
        known: What was prepared.
        depsgraph: Up to date.
        only_answered: Whether nothing but bones that answered to the last solve has moved.
    """
    origin = Origin.of(armature_object, known.rig.armature)
    reading = known.rig.read_frame(armature_object, depsgraph, origin=origin)
    if known.driven_bones is None:
        return reading
    return _as_taken(armature_object, known, known.driven_bones, depsgraph, reading, only_answered)


# Bones that answer


def is_underway(armature_object: Object) -> bool:
    """Whether its pose is not yet what a solve gives, since a tool is running or has just ended."""
    known = _KNOWN.get(armature_object.session_uid)
    return known is not None and known.underway


def is_settled(armature_object: Object) -> bool:
    """Whether the same targets once more would change nothing."""
    known = _KNOWN.get(armature_object.session_uid)
    return known is None or known.tracked is None or known.tracked.settled


def is_final(armature_object: Object) -> bool:
    """Whether its pose is what a solve gives."""
    known = _KNOWN.get(armature_object.session_uid)
    return known is None or known.tracked is None or known.tracked.final


def _rests(armature_object: Object) -> bool:
    """Whether it has come to rest under a tool, or goes on to what a solve gives."""
    known = _KNOWN.get(armature_object.session_uid)
    return is_settled(armature_object) or (
        known is not None and known.tracked is not None and known.tracked.arriving
    )


def is_restless(armature_object: Object) -> bool:
    """Whether bones that something else decides may still answer to the last solve."""
    known = _KNOWN.get(armature_object.session_uid)
    return known is not None and known.driven_bones is not None and not known.driven_bones.at_rest


def _decided(rig: Rig) -> IntArray:
    """Joints of the chains that constraints or drivers decide, (k,)."""
    skeleton = rig.armature.skeleton
    decided = [skeleton.index(name) for name in rig.chains if name in rig.armature.driven_by]
    return np.array(decided, dtype=np.int64)


def _found(rig: Rig, matrices: FloatArray, near: FloatArray) -> FloatArray:
    """Channels and scale of these, (k, 9), from the matrices of all bones; angles are nearest to (k, 3)."""
    return np.concatenate(decided_channels(rig.armature.skeleton, matrices, _decided(rig), near), axis=1)


def _have_answered(armature_object: Object, known: _Known, depsgraph: Depsgraph) -> bool:
    """Whether bones that something else decides are elsewhere than the last solve took them to be."""
    driven_bones, rig = known.driven_bones, known.rig
    known.found = None
    if driven_bones is None or not _has_bones(armature_object, rig):
        return False
    matrices = evaluated_matrices(armature_object.evaluated_get(depsgraph), rig.armature)
    if known.matrices is not None and driven_bones.at_rest and np.array_equal(matrices, known.matrices):
        return False
    known.matrices = matrices
    known.found = _found(rig, matrices, driven_bones.taken[:, 3:6])
    moved = driven_bones.moved(known.found)
    if driven_bones.given_up and not moved:
        driven_bones.given_up = False  # it is told once
        origin = Origin.of(armature_object, rig.armature)
        reading = rig.read_frame(armature_object, depsgraph, origin=origin)
        report = measured_report(armature_object, depsgraph, rig, reading, RESTLESS)
        show(armature_object, rig, report, unseen=SHOWN_DIGITS)
    return moved


def _as_taken(
    armature_object: Object,
    known: _Known,
    driven_bones: DrivenBones,
    depsgraph: Depsgraph,
    reading: Reading,
    only_answered: bool,
) -> Reading:
    """The reading with what something else decides where it is to be taken to be."""
    rig, joints = known.rig, _decided(known.rig)
    found = known.found
    if found is None:
        matrices = evaluated_matrices(armature_object.evaluated_get(depsgraph), rig.armature)
        found = _found(rig, matrices, driven_bones.taken[:, 3:6])
    taken = driven_bones.follow(found) if only_answered else driven_bones.begin(found)
    channels, scale = reading.pose.channels.copy(), reading.pose.scale.copy()
    channels[joints], scale[joints] = taken[:, :6], taken[:, 6:]
    return replace(reading, pose=Pose(channels, scale))


# Keys


def owes_keys(armature_object: Object) -> bool:
    """Whether something was solved that auto-key has not keyed yet."""
    state = LiveState.of(armature_object)
    return state.keyed != state.aims and auto_keying()


def _settle_keys(armature_object: Object, known: _Known, state: LiveState, trigger: Trigger) -> None:
    """Key what has moved, now or after the tool that is running; or owe nothing."""
    if trigger in (Trigger.USER, Trigger.ENDING, *GESTURES) and auto_keying():
        if trigger in GESTURES or known.underway:
            return
        skeleton = known.rig.armature.skeleton
        if known.tracked is not None:
            joints = known.tracked.joints
        else:
            joints = [j for name in known.rig.chains if skeleton.free[j := skeleton.index(name)].any()]
        names = [skeleton.names[joint] for joint in joints]
        notes = auto_key(armature_object, known.rig.armature, names).notes
        if notes:  # said as long as it is so
            raise IKError(". ".join(notes))
    replace(state, keyed=state.aims).store(armature_object)


# What there is to look at


def _read(
    armature_object: Object, known: _Known | None, settings: tuple[object, ...], depsgraph: Depsgraph
) -> _Known:
    """Read the armature; what was prepared is kept if it is still the same."""
    rig = Rig.read(armature_object, depsgraph)
    if known is not None and same(known.rig, rig):
        known.settings = settings
        return known
    before, known = known, _Known(rig, settings)
    if before is not None and before.rig.chains == rig.chains:
        known.returning = before.returning
    decided = _decided(rig)
    if len(decided):
        known.driven_bones = _kept_answers(before, rig)
        if known.driven_bones is None:
            matrices = evaluated_matrices(armature_object.evaluated_get(depsgraph), rig.armature)
            known.driven_bones = DrivenBones(_found(rig, matrices, np.zeros((len(decided), 3))), at_rest=True)
    _KNOWN[armature_object.session_uid] = known
    return known


def _kept_answers(before: _Known | None, rig: Rig) -> DrivenBones | None:
    """What bones have answered so far, where it is the same bones: orders of others follow the pose."""
    if before is None or before.rig.armature.skeleton.names != rig.armature.skeleton.names:
        return None
    joints, orders = _decided(rig), rig.armature.skeleton.orders
    same = np.array_equal(joints, _decided(before.rig))
    return (
        before.driven_bones
        if same and (orders == before.rig.armature.skeleton.orders)[joints].all()
        else None
    )


def _has_bones(armature_object: Object, rig: Rig) -> bool:
    bones: Any = () if armature_object.pose is None else armature_object.pose.bones
    return {bone.name for bone in bones} == set(rig.armature.skeleton.names)

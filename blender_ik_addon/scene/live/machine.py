# SPDX-License-Identifier: GPL-3.0-or-later
"""Live mode as a state machine: the states of a body, the events, and one table of what is done when.

An update of the scene becomes one event for each live body (`following`), by its trigger and by what has
changed since the body was noted in the file (`rig.noted`). `TABLE` says what is done then, and which
state follows. No event reaches a body that is switched off, nor one that a job poses itself (`LIVE.paused`).
An error leaves the state as it is; it is shown, and the next update tries again.

`LIVE` is all that live mode keeps in memory. It only saves time and may be dropped at any moment: before
undo and redo and when a file is loaded it is. Then the file says whether a body is at rest. One that is on
its way counts as `WAITING`, since how it moved is not known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from bpy.types import Object

from ...core import Pose
from ..armature.restoring import PoseSnapshot, ValuesSnapshot
from ..rig.noted import Digest, on_the_way
from ..rig.reports import Shown
from ..rig.rig import Rig
from .driven_bones import DrivenBones
from .tracking import Tracked

MOST_KEPT: Final = 32
"""Most poses that are kept of number fields: one for each time the body has come to rest in a drag."""


class Trigger(Enum):
    """What may have moved the targets."""

    SCRIPT = "a script; nothing is keyed"
    USER = "the user; auto-key is honoured"
    GESTURE = "a tool of the user that is still running: it may be cancelled, so keys wait for its end"
    FIELD = "a number field; nothing tells whether it is still dragged or was cancelled"
    ENDING = "the user, and a timer polls again: what a tool has left on its way may go on for some updates"
    FRAME = "a new frame; nothing is keyed"


TOOLS: Final = (Trigger.GESTURE, Trigger.FIELD)


class State(Enum):
    """How a body stands to its targets."""

    AT_REST = "the pose is what a solve gives, or what was there before"
    FOLLOWING = "on its way after targets that a tool moves"
    STILL = "as near to them as following brings it; a solve may give another pose"
    SETTLING = "on its way to what a solve gives, since the targets rest"
    RETURNING = "on its way to the pose that it had when the tool began, since the targets are back there"
    WAITING = "settled under a tool that may still be cancelled: keys wait for its end"


class Event(Enum):
    """What an update means for a body."""

    DRAGGED = "a tool or a number field has moved targets"
    BACK = "a tool has moved targets to where it began"
    HELD = "a tool is held still"
    RIG_MOVED = "under a tool, bones have moved that are driven or locked, or have other limits or locks"
    ANSWERED = "driven bones have moved with the pose in which the body has come to rest step by step"
    CANCELLED = "targets are where a tool or a number field began, which is over"
    CHANGED = (
        "targets, settings or bones have changed without a tool, or a new frame has brought another pose"
    )
    STEP = "nothing has moved since the tool has ended, and a timer polls"
    ENDED = "nothing has moved, no tool is running, and no timer polls"
    POSED = "the user or a script has posed bones"


class Action(Enum):
    """What is done with a body."""

    FOLLOW = "a few iterations after the targets"
    SETTLE = "a step to what a solve gives"
    RETURN = "a step to the pose that it had"
    SOLVE = "what `posing.solve_pose` does, at once"
    RESTORE = "the pose that it had is put back exactly"
    MATCH = "targets come along with bones that were posed; the panel shows how far others are missed"


class Transition(NamedTuple):
    """What is done, and the state that follows. It stays where nothing is done, or only measured."""

    action: Action | None
    way: State = State.AT_REST
    """The state where the body is still on its way."""
    there: State = State.AT_REST
    """The state where the body has arrived."""


_NONE: Final = Transition(None)
_FOLLOW: Final = Transition(Action.FOLLOW, State.FOLLOWING, State.STILL)
_HOLD: Final = Transition(Action.SETTLE, State.SETTLING, State.WAITING)
_SETTLE: Final = Transition(Action.SETTLE, State.SETTLING)
_RETURN: Final = Transition(Action.RETURN, State.RETURNING)
_SOLVE: Final = Transition(Action.SOLVE)
_RESTORE: Final = Transition(Action.RESTORE, State.WAITING)
_MATCH: Final = Transition(Action.MATCH)

# fmt: off
_ROWS: Final = {
    #                   AT_REST   FOLLOWING STILL     SETTLING  RETURNING WAITING
    Event.DRAGGED:     (_FOLLOW,  _FOLLOW,  _FOLLOW,  _FOLLOW,  _FOLLOW,  _FOLLOW),
    Event.BACK:        (_RETURN,  _RETURN,  _RETURN,  _RETURN,  _RETURN,  _RETURN),
    Event.HELD:        (_NONE,    _FOLLOW,  _HOLD,    _HOLD,    _RETURN,  _NONE),
    Event.RIG_MOVED:   (_FOLLOW,  _FOLLOW,  _HOLD,    _HOLD,    _RETURN,  _HOLD),
    Event.ANSWERED:    (_SETTLE,  _SETTLE,  _SETTLE,  _SETTLE,  _RETURN,  _SETTLE),
    Event.CANCELLED:   (_RESTORE, _RESTORE, _RESTORE, _RESTORE, _RESTORE, _RESTORE),
    Event.CHANGED:     (_SOLVE,   _SOLVE,   _SOLVE,   _SOLVE,   _SOLVE,   _SOLVE),
    Event.STEP:        (_NONE,    _SETTLE,  _SETTLE,  _SETTLE,  _RETURN,  _SETTLE),
    Event.ENDED:       (_NONE,    _SOLVE,   _SOLVE,   _SOLVE,   _RESTORE, _SOLVE),
    Event.POSED:       (_MATCH,   _FOLLOW,  _HOLD,    _HOLD,    _RETURN,  _MATCH),
}
# fmt: on
TABLE: Final[Mapping[Event, Mapping[State, Transition]]] = {
    event: dict(zip(State, row, strict=True)) for event, row in _ROWS.items()
}
"""What is done at an event in a state."""


# What is kept in memory


@dataclass(frozen=True)
class Resting:
    """A pose that a body had before a tool moved its targets, with what was solved for then."""

    aims: Digest
    channels: Pose
    """As a solve would begin with it."""
    pose: PoseSnapshot
    shown: Shown

    @classmethod
    def of(cls, armature_object: Object, aims: Digest, channels: Pose, bones: Sequence[str]) -> "Resting":
        """Note how the body is now."""
        return cls(aims, channels, PoseSnapshot.take(armature_object, bones), Shown.of(armature_object))

    def restore(self, armature_object: Object) -> None:
        """Put pose and panel back."""
        self.pose.restore(armature_object)
        self.shown.restore(armature_object)


@dataclass(frozen=True)
class Posed:
    """Targets before a tool began to pose bones by hand, which may be cancelled."""

    pose_bytes: bytes
    """The pose."""
    placed: ValuesSnapshot
    shown: Shown

    def restore(self, armature_object: Object) -> None:
        """Put targets and panel back."""
        self.placed.restore()
        self.shown.restore(armature_object)


@dataclass
class Body:
    """What was prepared for an armature object."""

    rig: Rig
    settings: tuple[object, ...]
    """What the rig depends on besides, see `read_settings`."""
    state: State = State.AT_REST
    pose_bytes: bytes = b""
    """The pose as the last update has left it."""
    changed: bool = False
    """Whether the last solve was for a change without a tool. More of them go on from where that began: what
    follows stays held where it was then, however many updates a script makes."""
    tracked: Tracked | None = None
    driven_bones: DrivenBones | None = None
    """None where there are none in the chains."""
    start: Resting | None = None
    """How it was before the tool that is running now."""
    fields: list[Resting] = field(default_factory=list)
    """How it was before number fields were dragged. Nothing tells when a field is let go, nor that Escape has
    ended its drag, which may be long after the body has come to rest."""
    posed: "Posed | None" = None
    """How targets were before the tool that poses bones now."""
    home: Resting | None = None
    """Where it is going back to."""

    def begin(self, resting: Resting, trigger: Trigger) -> None:
        """Note how the body is before a tool moves it."""
        self.start = resting
        if trigger is Trigger.GESTURE:
            self.fields.clear()
        elif self.state is State.AT_REST:
            self.fields = [*self.fields[-MOST_KEPT + 1 :], resting]

    def had(self, aims: Digest, *, fields: bool) -> Resting | None:
        """The pose that the body had when targets were there; that of a number field where `fields`."""
        kept = [*(self.fields if fields else ()), *([self.start] if self.start else ())]
        return next((resting for resting in kept if resting.aims in (aims, on_the_way(aims))), None)


@dataclass
class LiveMode:
    """The memory of live mode."""

    bodies: dict[int, Body] = field(default_factory=dict)
    """By the session uid of the armature object."""
    paused: set[int] = field(default_factory=set)
    """Session uids of armature objects that a running job poses itself."""
    trigger: Trigger = Trigger.USER
    """Of the poll that is due."""
    places: set[tuple[str, str]] = field(default_factory=set)
    """Where a poll is due, once Blender is done with the update: scenes and view layers, by name."""
    polling: bool = False
    """Whether a poll is under way: then the handlers follow nothing."""
    watching: bool = False
    """Whether it is just seeing what others have changed since the last one."""
    restless: bool = False
    """Whether the bodies that were updated last are to be updated again."""
    field_is_held: bool = False
    """Whether a number field may still be dragged."""
    followed: dict[tuple[int, int], tuple[float, ...]] = field(default_factory=dict)
    """Where targets that follow were before an undo or redo under way: the matrix of their own channels,
    (16,), by the session uids of armature object and target."""

    replayed: set[int] = field(default_factory=set)
    """Session uids of armature objects whose keys Blender plays again, though the frame is no other: after a
    file was opened or a library reloaded. What bones have then nobody has posed by hand."""

    names: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Names of bones when they were followed last, by the session uid of the armature object."""

    def forget(self) -> None:
        """Drop what was prepared: in another state of the file nothing need be what it was."""
        self.bodies.clear()
        self.replayed.clear()
        self.names = {}
        self.field_is_held = False


LIVE: Final = LiveMode()

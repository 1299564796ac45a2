# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators on effectors, poses and the set-up of a character: each gathers, calls `posing`, and reports."""

import logging
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, ClassVar

import bpy
from bpy.props import EnumProperty, FloatProperty, IntProperty, StringProperty
from bpy.types import Context, Event, Object

from ..core.amounts import number_of_bones, number_of_targets
from ..core.errors import IKError
from ..core.messages import Joined, Message, counted, listed, sentences
from ..scene import posing
from ..scene.armature.restoring import go_to_frame
from ..scene.armature.role_table import has_only_animals
from ..scene.bake.options import IN_SETTINGS
from ..scene.effectors.effectors import (
    all_targets,
    is_led,
    label_of,
    lacks_target,
    possible_states,
    present_state,
    target_of,
    targets_of,
)
from ..scene.jobs import Job
from ..scene.kinds.kinds import KINDS
from ..scene.properties.declared import again
from ..scene.properties.naming import note_name
from ..scene.properties.overrides import only_own
from ..scene.properties.settings import (
    KIND_ITEMS,
    STATE_ITEMS,
    POISE_PG_armature,
    POISE_PG_effector,
    settings_of,
)
from ..scene.translations import translated
from .acting import (
    ArmatureOperator,
    EffectorOperator,
    active_bone,
    choice,
    context_armature,
    flag,
    refuse,
    require_armature,
    select_only,
    selected_bones,
    show_effector,
    shown_effector,
    shown_entry,
)
from .preferences import keys_of

logger = logging.getLogger(__name__)

REPORT_WIDTH = 80
"""Letters in a line of a report that is shown by itself."""
WORK_SECONDS = 0.05
"""How long modal work goes on before Blender may look at the keyboard and draw [s]: Escape feels prompt."""
TIMER_SECONDS = 0.01
"""Pause between two portions of modal work [s]: enough for one event to get through."""


class JobOperator(ArmatureOperator):
    """An operator that works step by step, until Escape restores everything; not registered itself."""

    doing: ClassVar[Message]
    """What it is doing, for the status bar."""
    noun: ClassVar[Message]
    """What is cancelled."""
    _job: Job[Any]
    _timer: Any = None

    def begin(self, context: Context, armature: Object) -> Job[Any]:
        """Return the work, of which nothing is done yet. An IKError refuses."""
        raise NotImplementedError

    def ask(self, context: Context, event: Event) -> set[str] | None:
        """Put a question to the user before anything is done; None for no question."""

    def show_settings(self, armature: Object) -> None:
        """Let the redo panel begin with the settings."""

    def act(self, context: Context, armature: Object) -> Any:
        wm = context.window_manager
        job = self.begin(context, armature)
        wm.progress_begin(0, 100)
        try:
            return job.run(lambda part: wm.progress_update(100 * part))
        finally:
            wm.progress_end()

    def invoke(self, context: Context, event: Event) -> set[str]:
        if bpy.app.background or context.window is None:  # nobody there to press Escape
            return self.execute(context)
        try:
            armature = require_armature(context)
            self._job = self.begin(context, armature)
            if (asked := self.ask(context, event)) is not None:
                return asked
            self.show_settings(armature)
        except IKError as error:
            return refuse(self, error)
        wm = context.window_manager
        wm.progress_begin(0, 100)
        self._timer = wm.event_timer_add(TIMER_SECONDS, window=context.window)
        wm.modal_handler_add(self)
        return {'RUNNING_MODAL'}

    def modal(self, context: Context, event: Event) -> set[str]:
        if event.type == 'ESC':
            self.cancel(context)
            self.tell(Message("{noun} cancelled, everything is restored", noun=self.noun))
            return {'CANCELLED'}
        if event.type != 'TIMER':
            return {'RUNNING_MODAL'}  # keep other input away: the scene must not change meanwhile
        try:
            if self._work(context):
                return {'RUNNING_MODAL'}
            report = self._job.finish()
        except Exception as error:  # Blender calls us: else the timer and work half done would stay
            if not isinstance(error, IKError):
                logger.exception("%s stopped", self.noun)
            self.cancel(context)
            return refuse(self, error)
        self._end(context)
        return self.close(report)

    def cancel(self, context: Context) -> None:
        """Stop and restore; Blender calls this too, when the window closes or another file is opened."""
        self._end(context)
        self._job.cancel()

    def _work(self, context: Context) -> bool:
        """Work for a moment and show how far it is; whether there is more to do."""
        until = time.perf_counter() + WORK_SECONDS
        more = True
        while more and time.perf_counter() < until:
            more = self._job.step()
        percent = round(100 * self._job.progress)
        context.window_manager.progress_update(percent)
        text = Message(
            "Poise: {doing}, {percent} %.  Esc: cancel and restore", doing=self.doing, percent=percent
        )
        text = Joined(".  ", (text, self._job.remark)) if self._job.remark else text
        context.workspace.status_text_set(translated(text))
        return more

    def _end(self, context: Context) -> None:
        wm = context.window_manager
        if self._timer is None:
            return  # a question was answered with no
        wm.event_timer_remove(self._timer)
        wm.progress_end()
        if context.workspace:
            context.workspace.status_text_set(None)


class POISE_OT_add_effector(ArmatureOperator, label="Add Effector"):
    """Add an effector to every selected bone, or to the active bone outside Pose Mode"""

    bone: StringProperty(
        name="Bone",
        description="The bone to add an effector to; empty for the selected bones",
        options={'SKIP_SAVE'},
    )
    kind: EnumProperty(
        name="Kind", description="What the bone does with its target", items=KIND_ITEMS, default='BOTH'
    )
    make_targets: flag(
        "Make Targets",
        "Make an empty as the target, where the bone does not have to move: usually at its place",
    )

    def act(self, context: Context, armature: Object) -> None:
        names = [self.bone] if self.bone else selected_bones(context)
        if not names:
            raise IKError("select the bones to add effectors to, in Pose Mode")
        for name in names:
            index = posing.add_effector(armature, name, kind=self.kind, make_target=self.make_targets)
            self.changed += 1
            show_effector(context, armature, index)


class POISE_OT_remove_effector(EffectorOperator, label="Remove Effector"):
    """Remove the active effector from the list; its target stays in the scene"""

    def act(self, context: Context, armature: Object) -> None:
        index = shown_effector(context, armature)
        posing.remove_effector(armature, index)
        show_effector(context, armature, max(0, min(index, len(settings_of(armature).effectors) - 1)))
        if context_armature(context) != armature:  # the active object is no target any more
            select_only(context, armature)


class POISE_OT_move_effector(EffectorOperator, label="Move Effector"):
    """Move the active effector up or down in the list; its place does not change its priority"""

    direction: choice(
        "Where to move the effector in the list",
        ('UP', "Up", "One place up"),
        ('DOWN', "Down", "One place down"),
        name="Direction",
    )

    def act(self, context: Context, armature: Object) -> set[str] | None:
        index = shown_effector(context, armature)
        place = index + (-1 if self.direction == 'UP' else 1)
        if not 0 <= place < len(settings_of(armature).effectors):
            return {'CANCELLED'}  # it is at the end of the list already
        posing.move_effector(armature, index, place)
        show_effector(context, armature, place)


class POISE_OT_select_target(EffectorOperator, label="Select Target"):
    """Select the target of the active effector, in Object Mode, ready to be moved"""

    def act(self, context: Context, armature: Object) -> None:
        index, entry = shown_effector(context, armature), shown_entry(context, armature)
        target = entry and target_of(entry)
        if target is None:
            raise IKError("The active effector has no target to be selected")
        if not target.visible_get(view_layer=context.view_layer):
            raise IKError("The target {target!r} is hidden: show it first (Alt H)", target=target.name)
        if armature.mode != 'OBJECT':
            bpy.ops.object.mode_set(mode='OBJECT')
        settings_of(armature).active_effector = index
        select_only(context, target)


class POISE_OT_select_targets(EffectorOperator, label="Select All Targets"):
    """Select the targets of all effectors that are shown, in Object Mode, ready to be moved or keyed"""

    def act(self, context: Context, armature: Object) -> None:
        every = targets_of(armature)
        shown = [target for target in every if target.visible_get(view_layer=context.view_layer)]
        if not shown:
            if every:
                raise IKError("All targets are hidden: show them first (Alt H)")
            raise IKError("No effector has a target")
        if armature.mode != 'OBJECT':
            bpy.ops.object.mode_set(mode='OBJECT')
        active = context.active_object
        select_only(context, active if active in shown else shown[0])
        for target in shown:
            target.select_set(True, view_layer=context.view_layer)
        hidden = len(every) - len(shown)
        if hidden:
            self.tell(
                Message(
                    "{targets} hidden and not selected (Alt H shows them)", targets=number_of_targets(hidden)
                ),
                warning=True,
            )


def meant_effectors(context: Context, armature: Object, which: str) -> list[int] | None:
    """Effectors of the selected bones or targets; None for all: where there are none, or all are meant."""
    bones = set(chosen_bones(context, armature)) if which == 'CHOSEN' else set[str]()
    rows = [row for row, entry in enumerate(settings_of(armature).effectors) if entry.bone in bones]
    return rows or None


CHOSEN_TARGETS = (
    'CHOSEN',
    "Chosen",
    "Those of the selected bones, or the selected ones; all where there are none",
)
ALL_TARGETS = ('ALL', "All", "Those of all effectors")
"""Which targets an operator takes. All where poses are kept: a target whose handle was dragged is selected,
and without the others half of the pose would be lost."""


class POISE_OT_snap_targets(EffectorOperator, label="Snap Targets to Bones"):
    """Bring targets to their bones as they are posed, so that the next solve moves nothing"""

    which: choice("Which targets", CHOSEN_TARGETS, ALL_TARGETS, name="Targets")
    on: choice(
        "On which frames",
        ('FRAME', "This Frame", "The present frame; keyed if auto-key is on"),
        ('RANGE', "Bake Range", "Each frame of the bake range, with keys: targets move as the bones do"),
        name="Frames",
    )

    def act(self, context: Context, armature: Object) -> posing.MatchReport:
        frames = posing.bake_range(armature) if self.on == 'RANGE' else None
        return posing.snap_targets(armature, meant_effectors(context, armature, self.which), frames=frames)


class POISE_OT_natural(ArmatureOperator, label="Natural Pose"):
    """Turn the body, or limbs, as in a natural pose, and let them prefer it; targets hold what they hold"""

    which: choice(
        "What is to be natural",
        ('CHOSEN', "Chosen", "The limbs of the selected bones or targets; the body where there are none"),
        ('ACTIVE', "Active Effector", "The limb of the active effector"),
        ('ALL', "Body", "The whole body"),
        name="Of",
    )

    @classmethod
    def lacks(cls, context: Context, armature: Object) -> str:
        return Message("A natural pose is known of people alone") if has_only_animals(armature) else ""

    def act(self, context: Context, armature: Object) -> posing.Report | None:
        bones = chosen_bones(context, armature) if self.which == 'CHOSEN' else []
        if self.which == 'ACTIVE':
            entry = shown_entry(context, armature)
            if entry is None:
                raise IKError("choose an effector in the list, whose limb is to be natural")
            bones = [entry.bone]
        return posing.make_natural(armature, bones or None)


class POISE_OT_targets_from_animation(JobOperator, label="Targets from Animation"):
    """Key targets where their bones are in the animation, which is kept as the motion that is preferred"""

    which: choice(
        "Which bones get targets",
        ('BODY', "Body", "Hands, feet, head, hips, and all else that reaches for a target or is pinned"),
        ('CHOSEN', "Chosen", "The selected bones, or those of the selected targets"),
        name="Bones",
    )
    on: choice(
        "On which frames",
        ('CLIP', "Animation", "All frames that the action, or the NLA strips, have keys in"),
        ('RANGE', "Bake Range", "The bake range"),
        name="Frames",
    )
    doing, noun = Message("keying targets"), Message("Targets from Animation")

    def begin(self, context: Context, armature: Object) -> posing.TargetsJob:
        bones = chosen_bones(context, armature) if self.which == 'CHOSEN' else None
        if bones is not None and not bones:
            raise IKError("select the bones that are to have targets, in Pose Mode")
        frames = posing.bake_range(armature) if self.on == 'RANGE' else None
        return posing.TargetsJob(armature, bones, frames=frames)


class POISE_OT_correct(EffectorOperator, label="Correct"):
    """Turn what targets were moved by, on this frame, into offsets that ease in and out"""

    which: choice("Which targets", ALL_TARGETS, CHOSEN_TARGETS, name="Targets")

    def act(self, context: Context, armature: Object) -> posing.MatchReport:
        return posing.correct(armature, meant_effectors(context, armature, self.which))


class POISE_OT_corrections(EffectorOperator, label="Corrections"):
    """Switch corrections of targets on or off, or remove them"""

    action: choice(
        "What to do with corrections",
        ('TOGGLE', "Toggle", "Switch them off if any is on, on otherwise"),
        ('ON', "On", "Let them count"),
        ('OFF', "Off", "Targets are where they were recorded; the keys of corrections stay"),
        ('REMOVE', "Remove", "Remove corrections and their keys"),
    )
    which: choice("Which targets", ALL_TARGETS, CHOSEN_TARGETS, name="Targets")

    def act(self, context: Context, armature: Object) -> posing.MatchReport:
        rows = meant_effectors(context, armature, self.which)
        if self.action == 'REMOVE':
            return posing.remove_corrections(armature, rows)
        on = self.action == 'ON' or (self.action == 'TOGGLE' and not posing.corrections_on(armature))
        return posing.switch_corrections(armature, on, rows)


class _ContactsOperator(JobOperator):
    """An operator on contacts of feet and hands; not registered itself."""

    needs_effectors: ClassVar = True
    which: choice(
        "Which feet and hands",
        ('ALL', "All", "All feet and hands that have keyed targets"),
        ('CHOSEN', "Chosen", "Those of the selected bones or targets; all where there are none"),
        name="Of",
    )
    on: choice(
        "On which frames",
        ('KEYS', "Keyed Frames", "From the first key of the targets to the last"),
        ('RANGE', "Bake Range", "The bake range"),
        name="Frames",
    )

    def asked(self, context: Context, armature: Object) -> dict[str, Any]:
        """What the options say."""
        frames = posing.bake_range(armature) if self.on == 'RANGE' else None
        rows = meant_effectors(context, armature, 'CHOSEN') if self.which == 'CHOSEN' else None
        return {"effectors": rows, "frames": frames}


class POISE_OT_find_contacts(_ContactsOperator, label="Find Contacts"):
    """Key when feet and hands are planted, by speed and height; contacts that are keyed stay as they are"""

    replace: flag("Find Anew", "Find contacts anew also where they are keyed", default=False)
    doing, noun = Message("finding contacts"), Message("Find Contacts")

    def begin(self, context: Context, armature: Object) -> posing.ContactsJob:
        asked = self.asked(context, armature)
        return posing.ContactsJob(armature, **asked, replace=self.replace, lock=False)


class POISE_OT_lock_contacts(_ContactsOperator, label="Lock Contacts"):
    """Let targets of feet and hands rest while they are planted; where no contacts are keyed find them"""

    ease: FloatProperty(
        name="Ease",
        description="How long a target takes to come to its place and to leave it",
        default=0.2,
        min=0.0,
        soft_max=1.0,
        unit='TIME_ABSOLUTE',
    )
    doing, noun = Message("locking contacts"), Message("Lock Contacts")

    def begin(self, context: Context, armature: Object) -> posing.ContactsJob:
        return posing.ContactsJob(armature, **self.asked(context, armature), ease=self.ease)


class POISE_OT_hold_prop(EffectorOperator, label="Hold Prop"):
    """Let the selected targets of hands go along with the selected object, and keep their grip on it"""

    def act(self, context: Context, armature: Object) -> posing.MatchReport:
        rows = meant_effectors(context, armature, 'CHOSEN')
        others = {armature, *targets_of(armature)}
        props = [own for own in context.selected_objects if own not in others]
        if rows is None or len(props) != 1:
            raise IKError(
                "select the target of a hand, or its bone, and the prop that it holds, and no other object"
            )
        return posing.hold_prop(armature, props[0], rows)


class POISE_OT_key_targets(EffectorOperator, label="Key Targets"):
    """Key all targets where they are on the present frame; bakes and Live follow these keys"""

    which: choice("Which targets", ALL_TARGETS, CHOSEN_TARGETS, name="Targets")

    def act(self, context: Context, armature: Object) -> posing.MatchReport:
        return posing.key_targets(armature, meant_effectors(context, armature, self.which))


class POISE_OT_make_targets(EffectorOperator, label="Make Targets"):
    """Make an empty for every effector without a target, usually at the present place of its bone"""

    @classmethod
    def lacks(cls, context: Context, armature: Object) -> str:
        lacking = any(map(lacks_target, settings_of(armature).effectors))
        return "" if lacking else Message("Every effector has a target")

    def act(self, context: Context, armature: Object) -> None:
        for index in [i for i, e in enumerate(settings_of(armature).effectors) if lacks_target(e)]:
            posing.make_target(armature, index)
            self.changed += 1
        self.tell(Message("{targets} created", targets=number_of_targets(self.changed)))


class POISE_OT_attach_targets(EffectorOperator, label="Attach Targets"):
    """Parent free targets to the armature, so that moving the armature moves the whole character"""

    @classmethod
    def lacks(cls, context: Context, armature: Object) -> str:
        behind = posing.staying_behind(armature)
        if behind:
            return ""
        return Message("Every target goes where the armature goes, or where its own parent goes")

    def act(self, context: Context, armature: Object) -> set[str]:
        report = posing.attach_targets(armature)
        finished = self.close(report)
        return finished if report.attached else {'CANCELLED'}


class POISE_OT_add_choice(EffectorOperator, label="Add Target to Choose From"):
    """Add the selected objects as further targets to take one of; an empty if none is selected"""

    def act(self, context: Context, armature: Object) -> None:
        entry = shown_entry(context, armature)
        known = {armature, *(all_targets(entry) if entry else ())}
        for target in [chosen for chosen in context.selected_objects if chosen not in known] or [None]:
            posing.add_choice(armature, shown_effector(context, armature), target)


class POISE_OT_remove_choice(EffectorOperator, label="Remove Target to Choose From"):
    """Remove a target from those to choose from; the object stays in the scene"""

    number: IntProperty(name="Number", description="Which target, 0 the first", default=0, min=0)

    def act(self, context: Context, armature: Object) -> None:
        posing.remove_choice(armature, shown_effector(context, armature), self.number)


class POISE_OT_pin(EffectorOperator, label="Pin"):
    """Pin the bone of the active effector where it is now, or release it"""

    action: choice(
        "What to do",
        ('TOGGLE', "Toggle", "Release the bone if it is pinned, pin it otherwise"),
        ('PIN', "Pin", "Pin the bone where it is now"),
        ('UNPIN', "Unpin", "Release the bone"),
    )

    def act(self, context: Context, armature: Object) -> None:
        entry = shown_entry(context, armature)
        release = self.action == 'UNPIN' or (self.action == 'TOGGLE' and entry and entry.pinned)
        (posing.unpin if release else posing.pin)(armature, shown_effector(context, armature))


NEXT = ('NEXT', "Next", "The state that comes next")


class POISE_OT_set_state(EffectorOperator, label="Set State"):
    """Pin, Reach, Follow or Off: of the selected bones or targets, or of one effector"""

    state: choice("What the effectors do", NEXT, *(item[:3] for item in STATE_ITEMS), name="State")

    @classmethod
    def description(cls, context: Context, properties: Any) -> str:
        """What the state means; the keys that go on to the next one, which Blender does not find here."""
        text = Message("Pin, Reach, Follow, Off: the state that comes next")
        items = {item[0]: Message(item[2]) for item in STATE_ITEMS}
        text, keys = items.get(properties.state, text), keys_of(context, cls.bl_idname)
        return translated(Message("{text}.\nNext state: {keys}", text=text, keys=keys) if keys else text)

    index: IntProperty(
        name="Effector",
        description="Place in the list of the effector that is meant; -1 for those of what is selected",
        default=-1,
        options={'HIDDEN', 'SKIP_SAVE'},
    )

    def act(self, context: Context, armature: Object) -> None:
        effectors = settings_of(armature).effectors
        bones = chosen_bones(context, armature) if self.index < 0 else []
        able = holding(armature, bones)
        for bone in [bone for bone in bones if not able[bone] and self.state in {'PIN', 'FOLLOW'}]:
            able[bone].append(posing.add_effector(armature, bone, make_target=False))
        rows = sorted(chain(*able.values()))
        if self.index >= 0:
            rows = [self.index]
        elif not rows and shown_entry(context, armature):
            rows = [shown_effector(context, armature)]
        states = dict.fromkeys(rows, self.state)
        if self.state == 'NEXT':
            states = {row: next_state(armature, effectors[row]) for row in rows}
        for row, state in states.items():
            posing.set_state(armature, row, state)
            self.changed += 1
        names = {item[0]: Message(item[1]) for item in STATE_ITEMS}
        done = [Joined(": ", (label_of(effectors[row]), names[s])) for row, s in states.items()]
        self.tell(Joined(", ", done))


def holding(armature: Object, bones: Iterable[str]) -> dict[str, list[int]]:
    """Places in the list of the effectors of some bones that can hold these, by bone."""
    entries = settings_of(armature).effectors
    able = [(row, entry.bone) for row, entry in enumerate(entries) if KINDS[entry.kind].pinnable]
    return {bone: [row for row, own in able if own == bone] for bone in bones}


def next_state(armature: Object, entry: POISE_PG_effector) -> str:
    """The state after the present one, of those that an effector can have."""
    now = present_state(armature, entry)
    bound = entry.target is not None and is_led(armature, entry)
    states = [state for state in possible_states(entry) if state != 'FOLLOW' or not bound]
    return states[(states.index(now) + 1) % len(states)]


class POISE_OT_keep_orientation(EffectorOperator, label="Keep Orientation"):
    """Keep the orientation that the bone of the active effector has, or let it turn as it comes"""

    def act(self, context: Context, armature: Object) -> None:
        index, entry = shown_effector(context, armature), shown_entry(context, armature)
        keeps = entry is not None and entry.kind != 'BOTH'
        posing.keep_orientation(armature, index, keeps)
        effector = label_of(settings_of(armature).effectors[index])
        done = Message("{effector} turns as it comes", effector=effector)
        if keeps:
            done = Message("{effector} keeps its orientation", effector=effector)
        self.tell(done)


class POISE_OT_add_floor(EffectorOperator, label="Add Floor"):
    """Keep feet and hands above a plane that can be moved and turned"""

    def act(self, context: Context, armature: Object) -> set[str] | None:
        feet_and_hands = [
            entry.bone
            for entry in settings_of(armature).effectors
            if entry.part.removeprefix("front ").partition(".")[0] in {"foot", "hand"}
        ]
        bones = feet_and_hands or chosen_bones(context, armature)
        if not bones:
            raise IKError("there are no feet and hands: press Set Up Character, or select bones in Pose Mode")
        floored = posing.add_floor(armature, bones)
        self.tell(
            Message("{bones} kept above the floor", bones=number_of_bones(len(floored)))
            if floored
            else Message("There is a floor")
        )
        return {'FINISHED'} if floored else {'CANCELLED'}


class _PartsOperator(EffectorOperator):
    """Gives parts of the body something, or takes it away where all have it; not registered itself."""

    switch: ClassVar[Callable[[Object, list[int] | None], tuple[tuple[str, ...], bool]]]
    """Does it with the parts of some effectors, or of all; returns which, and whether they have it now."""
    reported: ClassVar[tuple[Message, Message]]
    """What is reported of parts that have it no more, and of those that have it now."""
    which: Any

    def act(self, context: Context, armature: Object) -> None:
        rows = None if self.which == 'ALL' else [shown_effector(context, armature)]
        parts, on = type(self).switch(armature, rows)
        if parts:
            self.tell(self.reported[on].filled(names=listed(parts)))
        else:
            self.tell(Message("Nothing to do"), warning=True)


class POISE_OT_bend_limbs(_PartsOperator, label="Elbows and Knees"):
    """Handles that elbows and knees bend towards; once more takes them away"""

    which: choice(
        "Whose elbows and knees",
        ('ALL', "All Limbs", "Of all arms and legs"),
        ('ACTIVE', "Active Effector", "Of the limb of the active effector"),
        name="Of",
    )
    switch, reported = posing.bend_limbs, (Message("{names} removed"), Message("{names} added"))


class POISE_OT_roll_feet(_PartsOperator, label="Foot Roll"):
    """Let feet roll over heel, ball and toes without sinking into the floor; once more ends it"""

    which: choice(
        "Which feet",
        ('ALL', "All Feet", "All feet that keep their orientation"),
        ('ACTIVE', "Active Effector", "The foot of the active effector"),
        name="Of",
    )
    switch, reported = posing.roll_feet, (Message("{names}: Foot Roll off"), Message("{names}: Foot Roll on"))


def chosen_bones(context: Context, armature: Object) -> list[str]:
    """The bones that are meant: those selected, or those of the selected targets."""
    if context.active_object == armature:
        return [bone.name for bone in context.selected_pose_bones_from_active_object or ()]
    selected = set(context.selected_objects)
    return [entry.bone for entry in settings_of(armature).effectors if entry.target in selected]


def let_go(armature: Object, index: int) -> None:
    """Unpin an effector; one without a target was there for the pin alone, and goes with it."""
    settings = settings_of(armature)
    if target_of(settings.effectors[index]) is not None:
        posing.unpin(armature, index)
        return
    posing.remove_effector(armature, index)
    if settings.active_effector > index or settings.active_effector >= len(settings.effectors):
        settings.active_effector = max(0, settings.active_effector - 1)


class POISE_OT_pin_bones(ArmatureOperator, label="Pin Bones"):
    """Pin the selected bones where they are now, or release them if all are pinned"""

    @classmethod
    def lacks(cls, context: Context, armature: Object) -> str:
        chosen = chosen_bones(context, armature)
        return "" if chosen else Message("Select bones in Pose Mode, or targets of effectors")

    def act(self, context: Context, armature: Object) -> None:
        effectors = settings_of(armature).effectors
        entries = holding(armature, chosen_bones(context, armature))
        held = all(own and all(effectors[index].pinned for index in own) for own in entries.values())
        for bone, own in () if held else entries.items():
            if not own:
                own.append(posing.add_effector(armature, bone, make_target=False))
            for index in own:
                self.changed += 1
                posing.pin(armature, index)
        for index in sorted(chain(*entries.values()), reverse=True) if held else ():
            let_go(armature, index)
            self.changed += 1
        names = ", ".join(entries)
        self.tell(Message("{names}: free", names=names) if held else Message("{names}: pinned", names=names))


class POISE_OT_store_pose(EffectorOperator, label="Store Pose"):
    """Store the present pose as the pose that the bones of the active effector stay near"""

    def act(self, context: Context, armature: Object) -> None:
        count = posing.store_pose(armature, shown_effector(context, armature))
        self.tell(Message("Stored the pose of {bones}", bones=number_of_bones(count)))


class POISE_OT_solve_pose(EffectorOperator, label="Solve Pose"):
    """Move the skeleton so that every enabled effector reaches its target"""

    in_pie: ClassVar = True

    def act(self, context: Context, armature: Object) -> posing.Report:
        return posing.solve_pose(armature, context.evaluated_depsgraph_get())


def _setting(name: str) -> Any:
    """An option that is as in the settings where it is not given."""
    return again(POISE_PG_armature, name, options={'SKIP_SAVE'})


BAKE_OPTIONS: Mapping[str, str] = {("new_name" if own == "name" else own): own for own in IN_SETTINGS}
"""Properties of the operator that are in the settings where they are not given -> options of a bake."""


def _with_bake_options(operator: type[Any]) -> type[Any]:
    """Give an operator these properties."""
    operator.__annotations__ |= {name: _setting(f"bake_{own}") for name, own in BAKE_OPTIONS.items()}
    return operator


def draw_bake_options(layout: Any, owner: Any, prefix: str = "", name: str = "new_name") -> None:
    """Draw the options of a bake but for its range.

    Args:
        owner: The operator or the settings.
        prefix: What its properties begin with.
        name: The property with the name of the action or the strip.
    """

    def value(option: str) -> Any:
        return getattr(owner, prefix + option)

    def draw(*options: str, column: Any = layout) -> None:
        for option in options:
            column.prop(owner, prefix + option)

    draw("fewest", "at_keys")
    if not (value("at_keys") or value("fewest")):
        draw("step")
    else:
        column = layout.column(align=True)
        column.prop(owner, f"{prefix}deviation", text="Deviation")
        column.prop(owner, f"{prefix}deviation_angle", text="Angle")
    draw("loop", "to")
    if value("to") != 'ACTION':
        layout.prop(owner, name)
    if value("to") == 'STRIP':
        draw("blend")
    draw("bones", "channels")
    draw("ease_in", "ease_out", column=layout.column(align=True))
    draw("clear_constraints")


@_with_bake_options
class POISE_OT_bake(JobOperator, label="Bake"):
    """Solve every frame and key the solved bones; Escape cancels and restores everything"""

    range: _setting("bake_range")
    start: _setting("bake_start")
    end: _setting("bake_end")
    together: flag(
        "Selected Characters",
        "Bake all selected armatures with effectors in one go, also where targets are each other's bones",
        default=False,
        options={'SKIP_SAVE'},
    )
    replace: flag(
        "Replace Keys",
        "Replace keys that Poise has not written, or that were edited since; without it they are asked about",
        default=False,
        options={'SKIP_SAVE'},
    )

    in_pie: ClassVar = True
    _was_asked: bool = False
    """Whether the question was put: what is executed next is the answer."""
    needs_effectors: ClassVar = True
    doing, noun = Message("baking"), Message("Bake")

    def _frames(self) -> range | str | None:
        """The frames or the range that were asked for; None for the range in the settings."""
        given = [name for name in ("start", "end") if self.properties.is_property_set(name)]
        if len(given) == 1:
            raise IKError("Only '{given}' was given: give both start and end, or neither", given=given[0])
        which = self.range if self.properties.is_property_set("range") else None
        return range(self.start, self.end + 1) if given and which in (None, 'CUSTOM') else which

    def _options(self) -> dict[str, Any]:
        """The options that were asked for."""
        is_set = self.properties.is_property_set
        given = {option: getattr(self, name) for name, option in BAKE_OPTIONS.items() if is_set(name)}
        return given | {"replace": self.replace}

    def draw(self, context: Context) -> None:
        """Show the options in the redo panel; the ends of the range where they count."""
        layout: Any = self.layout
        layout.use_property_split = True
        layout.prop(self, "range")
        if self.range == 'CUSTOM':
            column = layout.column(align=True)
            column.prop(self, "start")
            column.prop(self, "end")
        draw_bake_options(layout, self)
        layout.prop(self, "together")
        layout.prop(self, "replace")

    def show_settings(self, armature: Object) -> None:
        settings, is_set = settings_of(armature), self.properties.is_property_set
        if not is_set("range"):
            self.range = 'CUSTOM' if is_set("start") else settings.bake_range
        if not is_set("start"):
            self.start, self.end = settings.bake_start, settings.bake_end
        options = posing.BakeOptions.of(armature, self._frames(), **self._options())
        for name, option in BAKE_OPTIONS.items():
            if not is_set(name):
                setattr(self, name, getattr(options, option))

    def begin(self, context: Context, armature: Object) -> posing.BakeJobs:
        others = [obj for obj in context.selected_objects if obj.type == 'ARMATURE' and obj != armature]
        others = [obj for obj in others if settings_of(obj).effectors] if self.together else []
        return posing.BakeJobs((armature, *others), self._frames(), **self._options())

    def act(self, context: Context, armature: Object) -> Any:
        if self._was_asked:  # it goes on as another bake, which can be cancelled and undone as any
            given = ("range", "start", "end", "together", *BAKE_OPTIONS)
            own = {name: getattr(self, name) for name in given if self.properties.is_property_set(name)}
            bake: Any = bpy.ops.poise.bake  # pyright: ignore[reportAttributeAccessIssue]
            bake('INVOKE_DEFAULT', **own, replace=True)
            return {'CANCELLED'}
        return super().act(context, armature)

    def ask(self, context: Context, event: Event) -> set[str] | None:
        """Ask whether keys are to be replaced; without an answer nothing is done."""
        assert isinstance(self._job, posing.BakeJobs)
        if not self._job.asks:
            return None
        self._was_asked = True
        return context.window_manager.invoke_confirm(
            self,
            event,
            title=translated(Message("Replace Keys?")),
            message=translated(self._job.replaced.question),
            confirm_text=translated(Message("Replace")),
            icon='QUESTION',
        )


class POISE_OT_mark_frames(EffectorOperator, label="Mark Frames"):
    """Set timeline markers on frames of the last bake to look at, in place of older ones"""

    @classmethod
    def lacks(cls, context: Context, armature: Object) -> str:
        found = settings_of(armature).last_frames
        if found:
            return ""
        return Message("The last bake has no frames to look at: no flips, and no targets are missed")

    def act(self, context: Context, armature: Object) -> None:
        self.tell(counted(posing.mark_frames(armature), "{count} marker set", "{count} markers set"))


class POISE_OT_show_frame(EffectorOperator, label="Go to Frame"):
    """Go to a frame of the last bake to look at"""

    frame: FloatProperty(name="Frame", description="Where to go", options={'SKIP_SAVE'})

    def act(self, context: Context, armature: Object) -> None:
        go_to_frame(context.scene, self.frame)


class POISE_OT_key_pose(EffectorOperator, label="Key Pose"):
    """Key the present pose of the bones that Poise solves; a later bake replaces these keys"""

    in_pie: ClassVar = True

    def act(self, context: Context, armature: Object) -> set[str] | None:
        keyed = posing.key_pose(armature, context.evaluated_depsgraph_get())
        if not keyed.count:
            why = keyed.notes or (Message("no bone is solved"),)
            self.tell(sentences(Message("nothing was keyed"), *why), warning=True)
            return {'CANCELLED'}
        bones, frame = number_of_bones(keyed.count), context.scene.frame_current
        done = Message("keyed {bones} on frame {frame}", bones=bones, frame=frame)
        self.tell(sentences(done, *keyed.notes), keyed.notes)


class POISE_OT_live(ArmatureOperator, label="Live"):
    """Keep solving while targets move"""

    action: choice(
        "What to do",
        ('TOGGLE', "Toggle", "Switch live mode off if it is on, on otherwise"),
        ('ON', "On", "Keep solving while targets move"),
        ('OFF', "Off", "Stop solving"),
    )

    @classmethod
    def obstacle(cls, context: Context) -> str:
        armature = context_armature(context)
        if armature is None or not armature.is_editable:
            return super().obstacle(context)
        settings = settings_of(armature)
        # In any mode: it begins to follow as soon as it can, and can always be switched off.
        return "" if settings.effectors or settings.live else Message("Add an effector first")

    def act(self, context: Context, armature: Object) -> posing.Report | None:
        was = settings_of(armature).live
        self.changed = 1  # if it fails it is on, and the panel says what is missing
        return posing.switch_live(armature, not was if self.action == 'TOGGLE' else self.action == 'ON')


class POISE_OT_show_report(ArmatureOperator, label="Show Report"):
    """Show a report of which the panel has no room for all lines"""

    bl_options: ClassVar = {'INTERNAL'}

    text: StringProperty(name="Text", description="The report", options={'SKIP_SAVE'})

    @classmethod
    def description(cls, context: Context, properties: Any) -> str:
        """The tooltip is the report."""
        return properties.text

    def act(self, context: Context, armature: Object) -> None:
        lines = textwrap.wrap(self.text, REPORT_WIDTH)

        def draw(menu: Any, _context: Context) -> None:
            for line in lines:
                menu.layout.label(text=line, translate=False)

        context.window_manager.popup_menu(draw, title=armature.name)


class POISE_OT_diagnose(EffectorOperator, label="Diagnose Pose"):
    """Report what the present pose allows the effectors: lost directions, and effectors that share bones"""

    def act(self, context: Context, armature: Object) -> None:
        self.tell(posing.diagnose(armature, context.evaluated_depsgraph_get()).lines[0])


# Setting a character up, and what belongs to it: roles, limits, presets, mirroring


class POISE_OT_setup_character(ArmatureOperator, label="Set Up Character"):
    """Create targets, limits and priorities for hips, feet, hands and head"""

    use_table: flag(
        "Use Table", "Use the table of roles if there is one; recognise the bones again otherwise"
    )
    poles: flag("Poles", "Also create targets that elbows and knees bend towards", False)
    limits: flag("Limits", "Read limits from the rig; bones without any get those of a human or animal body")
    controls: flag(
        "Switch Controls", "Switch the limbs of a control rig to the controls that get targets (FK)"
    )

    def act(self, context: Context, armature: Object) -> None:
        parts = {name: getattr(self, name) for name in ("use_table", "poles", "limits", "controls")}
        report = posing.setup_character(armature, **parts)
        settings_of(armature).last_message = translated(report.summary())
        settings_of(armature).last_reached = report.ready
        self.tell(report.summary(), not report.ready)


class POISE_OT_recognise_roles(ArmatureOperator, label="Recognise Roles"):
    """Fill the table of roles from the bones' names and places; changes in it are lost"""

    def act(self, context: Context, armature: Object) -> None:
        character = posing.recognise_roles(armature)
        bones, others = number_of_bones(len(character.choices)), len(character.left_out)
        self.tell(Message("{bones} with a role, {others} without", bones=bones, others=others))


class POISE_OT_edit_roles(ArmatureOperator, label="Edit Roles"):
    """Add the active bone to the table of roles, or remove the active row"""

    action: choice(
        "What to do with the table",
        ('ADD', "Add", "Add a row for the active bone"),
        ('REMOVE', "Remove", "Remove the active row"),
    )

    def act(self, context: Context, armature: Object) -> None:
        settings = settings_of(armature)
        if self.action == 'ADD':
            bone = active_bone(context)
            if not bone:
                raise IKError("make the bone active that gets a role, in Pose Mode")
            note_name(armature, bone)
            row: Any = settings.roles.add()
            row.bone, row.reason = bone, translated(Message("chosen by hand"))
            settings.active_role = len(settings.roles) - 1
        elif settings.active_role < len(settings.roles):
            with only_own(Message("this row of the table"), Message("choose the role None for it")):
                settings.roles.remove(settings.active_role)
            settings.active_role = max(0, min(settings.active_role, len(settings.roles) - 1))


class POISE_OT_read_limits(ArmatureOperator, label="Read Limits"):
    """Read IK limits, IK stiffness and Limit Rotation constraints of all bones, for editing"""

    def act(self, context: Context, armature: Object) -> posing.RigLimits:
        return posing.read_limits(armature)


class _BoneEntries(ArmatureOperator):
    """Adds or removes entries of the selected bones; not registered itself."""

    acts: ClassVar[dict[str, Callable[[Object, list[str]], object]]]
    """What each action does with some bones."""
    action: Any

    def act(self, context: Context, armature: Object) -> None:
        bones = selected_bones(context)
        if not bones:
            raise IKError("select bones in Pose Mode")
        self.acts[self.action](armature, bones)


class POISE_OT_edit_limits(_BoneEntries, label="Edit Limits"):
    """Edit the limits of the selected bones, go back to those of the rig, or prefer the present pose"""

    acts: ClassVar = {
        'OWN': lambda armature, bones: [posing.own_limits(armature, bone) for bone in bones],
        'RIG': posing.remove_limits,
        'PREFER': posing.prefer_present_pose,
    }

    action: choice(
        "What to do with the limits of the selected bones",
        ('OWN', "Own", "Copy the limits of the bone, for editing"),
        ('RIG', "From Rig", "Remove the entry: the bone's IK limits are used again"),
        ('PREFER', "Prefer Pose", "Make the present angles the preferred angles"),
    )


class POISE_OT_edit_masses(_BoneEntries, label="Edit Masses"):
    """Set the masses of the selected bones by hand, or use their share of the body again"""

    acts: ClassVar = {'OWN': posing.own_masses, 'REMOVE': posing.remove_masses}

    action: choice(
        "What to do with the masses of the selected bones",
        ('OWN', "Own", "Copy the present mass of the bone, for editing"),
        ('REMOVE', "Remove", "Remove the entry: the bone has its share of the body's mass"),
    )


class POISE_OT_measure_meshes(ArmatureOperator, label="Measure Meshes"):
    """Measure the meshes that the bones carry; masses of bones then follow from their volumes"""

    def act(self, context: Context, armature: Object) -> posing.MeshReport:
        return posing.measure_meshes(armature)


class POISE_OT_save_preset(ArmatureOperator, label="Save Preset"):
    """Save effectors, limits, stiffness and solver settings as a preset, by the roles of the bones"""

    bl_options = {'REGISTER'}  # it changes nothing in Blender

    name: StringProperty(name="Name", description="Name of the preset", default="Character")

    def invoke(self, context: Context, event: Any) -> set[str]:
        return context.window_manager.invoke_props_dialog(self)  # pyright: ignore[reportReturnType]

    def draw(self, context: Context) -> None:
        self.layout.activate_init = True  # the name is typed at once
        self.layout.prop(self, "name")

    def act(self, context: Context, armature: Object) -> None:
        report = posing.save_preset(armature, posing.preset_path(self.name))
        self.tell(Message("Saved {summary}", summary=report.summary()))


class POISE_OT_load_preset(ArmatureOperator, label="Load Preset"):
    """Set the armature up from a preset; the report names bones that are missing"""

    name: StringProperty(name="Name", description="Name of the preset", default="Character")

    def act(self, context: Context, armature: Object) -> None:
        report = posing.load_preset(armature, posing.preset_path(self.name))
        self.tell(Message("Loaded {summary}", summary=report.summary()), report.missing or report.notes)


class POISE_OT_mirror(ArmatureOperator, label="Mirror"):
    """Mirror pose, targets, limits and effector settings to the other side"""

    direction: choice(
        "From which side to which",
        ('FLIP', "Flip", "Exchange both sides"),
        ('LEFT_TO_RIGHT', "Left to Right", "Make the right side like the left"),
        ('RIGHT_TO_LEFT', "Right to Left", "Make the left side like the right"),
        name="Direction",
    )
    settings: flag("Settings", "Settings of effectors")
    targets: flag("Targets", "Places and rotations of targets")
    limits: flag("Limits", "Limits, stiffness, preferred angles")
    pose: flag("Pose", "Location and rotation of bones")

    def act(self, context: Context, armature: Object) -> posing.MirrorReport:
        parts = {name: getattr(self, name) for name in ("settings", "targets", "limits", "pose")}
        return posing.mirror(armature, self.direction, **parts)


CLASSES = tuple(own for name, own in globals().items() if name.startswith("POISE_OT_"))

register, unregister = bpy.utils.register_classes_factory(CLASSES)

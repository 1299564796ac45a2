# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators on effectors, poses and the set-up of a character: each gathers, calls `posing`, and reports."""

import logging
import time
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, ClassVar

import bpy
from bpy.props import BoolProperty, EnumProperty, IntProperty, StringProperty
from bpy.types import Context, Event, Object

from ..core.errors import IKError
from ..scene import posing
from ..scene.effectors.effectors import (
    all_targets,
    is_taken,
    label_of,
    lacks_target,
    possible_states,
    present_state,
    target_of,
)
from ..scene.kinds.kinds import KINDS
from ..scene.properties.effector_properties import KIND_ITEMS, STATE_ITEMS, POISE_PG_effector
from ..scene.properties.naming import note_name
from ..scene.properties.overrides import only_own
from ..scene.properties.settings import RANGE_ITEMS, settings_of
from ..scene.reports import counted, sentences
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

logger = logging.getLogger(__name__)

WORK_SECONDS = 0.05
"""How long a modal bake works before Blender may look at the keyboard and draw [s]: Escape feels prompt."""
TIMER_SECONDS = 0.01
"""Pause between two portions of a modal bake [s]: enough for one event to get through."""


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
            raise IKError(f"The target {target.name!r} is hidden: show it first (Alt H)")
        if armature.mode != 'OBJECT':
            bpy.ops.object.mode_set(mode='OBJECT')
        settings_of(armature).active_effector = index
        select_only(context, target)


class POISE_OT_select_targets(EffectorOperator, label="Select All Targets"):
    """Select the targets of all effectors that are shown, in Object Mode, ready to be moved or keyed"""

    def act(self, context: Context, armature: Object) -> None:
        every = dict.fromkeys(chain(*map(all_targets, settings_of(armature).effectors)))
        shown = [target for target in every if target.visible_get(view_layer=context.view_layer)]
        if not shown:
            raise IKError(
                "All targets are hidden: show them first (Alt H)" if every else "No effector has a target"
            )
        if armature.mode != 'OBJECT':
            bpy.ops.object.mode_set(mode='OBJECT')
        active = context.active_object
        select_only(context, active if active in shown else shown[0])
        for target in shown:
            target.select_set(True, view_layer=context.view_layer)
        hidden = len(every) - len(shown)
        if hidden:
            self.tell(f"{counted(hidden, 'target')} hidden and not selected (Alt H shows them)", warning=True)


def meant_effectors(context: Context, armature: Object, which: str) -> list[int] | None:
    """Effectors of the selected bones or targets; None for all: where there are none, or all are meant."""
    bones = set(chosen_bones(context, armature)) if which == 'CHOSEN' else set[str]()
    rows = [row for row, entry in enumerate(settings_of(armature).effectors) if entry.bone in bones]
    return rows or None


def _which() -> Any:
    return choice(
        "Which targets",
        ('CHOSEN', "Chosen", "Those of the selected bones, or the selected ones; all where there are none"),
        ('ALL', "All", "Those of all effectors"),
        name="Targets",
    )


class POISE_OT_snap_targets(EffectorOperator, label="Snap Targets to Bones"):
    """Bring targets to their bones as they are posed, so that the next solve moves nothing"""

    which: _which()
    on: choice(
        "On which frames",
        ('FRAME', "This Frame", "The present frame; keyed if auto-key is on"),
        (
            'RANGE',
            "Bake Range",
            "Each frame of the bake range, with keys: targets move as the bones do",
        ),
        name="Frames",
    )

    def act(self, context: Context, armature: Object) -> None:
        frames = posing.bake_range(armature) if self.on == 'RANGE' else None
        report = posing.snap_targets(armature, meant_effectors(context, armature, self.which), frames=frames)
        self.tell(report.summary(), report.notes)


class POISE_OT_natural(ArmatureOperator, label="Natural Pose"):
    """Turn the body, or limbs, as in a natural pose, and let them prefer it; targets hold what they hold"""

    which: choice(
        "What is to be natural",
        ('CHOSEN', "Chosen", "The limbs of the selected bones or targets; the body where there are none"),
        ('ACTIVE', "Active Effector", "The limb of the active effector"),
        ('ALL', "Body", "The whole body"),
        name="Of",
    )

    def act(self, context: Context, armature: Object) -> set[str] | None:
        bones = chosen_bones(context, armature) if self.which == 'CHOSEN' else []
        if self.which == 'ACTIVE':
            entry = shown_entry(context, armature)
            if entry is None:
                raise IKError("choose an effector in the list, whose limb is to be natural")
            bones = [entry.bone]
        report = posing.make_natural(armature, bones or None)
        return None if report is None else self.answer(report)


class POISE_OT_key_targets(EffectorOperator, label="Key Targets"):
    """Key targets where they are on the present frame; bakes and Live follow these keys"""

    which: _which()

    def act(self, context: Context, armature: Object) -> None:
        report = posing.key_targets(armature, meant_effectors(context, armature, self.which))
        self.tell(report.summary(), report.notes)


class POISE_OT_make_targets(EffectorOperator, label="Make Targets"):
    """Make an empty for every effector without a target, usually at the present place of its bone"""

    @classmethod
    def lacks(cls, context: Context, armature: Object) -> str:
        lacking = any(map(lacks_target, settings_of(armature).effectors))
        return "" if lacking else "Every effector has a target"

    def act(self, context: Context, armature: Object) -> None:
        for index in [i for i, e in enumerate(settings_of(armature).effectors) if lacks_target(e)]:
            posing.make_target(armature, index)
            self.changed += 1
        self.tell(f"{counted(self.changed, 'target')} created")


class POISE_OT_attach_targets(EffectorOperator, label="Attach Targets"):
    """Parent free targets to the armature, so that moving the armature moves the whole character"""

    @classmethod
    def lacks(cls, context: Context, armature: Object) -> str:
        behind = posing.staying_behind(armature)
        return "" if behind else "Every target goes where the armature goes, or where its own parent goes"

    def act(self, context: Context, armature: Object) -> set[str] | None:
        report = posing.attach_targets(armature)
        self.tell(report.summary(), report.notes)
        return {'FINISHED'} if report.attached else {'CANCELLED'}


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


def _state_items() -> tuple[tuple[str, str, str], ...]:
    """The states, for a menu; first what an effector with another state does."""
    return (('NEXT', "Next", "The state that comes next"), *(item[:3] for item in STATE_ITEMS))


class POISE_OT_set_state(EffectorOperator, label="Set State"):
    """Pin, Reach, Follow or Off: of the selected bones or targets, or of one effector"""

    state: choice("What the effectors do", *_state_items(), name="State")
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
        names = {item[0]: item[1] for item in STATE_ITEMS}
        self.tell(", ".join(f"{label_of(effectors[row], row)}: {names[s]}" for row, s in states.items()))


def holding(armature: Object, bones: Iterable[str]) -> dict[str, list[int]]:
    """Places in the list of the effectors of some bones that can hold these, by bone."""
    entries = settings_of(armature).effectors
    able = [(row, entry.bone) for row, entry in enumerate(entries) if KINDS[entry.kind].pinnable]
    return {bone: [row for row, own in able if own == bone] for bone in bones}


def next_state(armature: Object, entry: POISE_PG_effector) -> str:
    """The state after the present one, of those that an effector can have."""
    now = present_state(armature, entry)
    bound = entry.target is not None and is_taken(armature, entry)
    states = [state for state in possible_states(entry) if state != 'FOLLOW' or not bound]
    return states[(states.index(now) + 1) % len(states)]


class POISE_OT_keep_orientation(EffectorOperator, label="Keep Orientation"):
    """Keep the orientation that the bone of the active effector has, or let it turn as it comes"""

    def act(self, context: Context, armature: Object) -> None:
        index, entry = shown_effector(context, armature), shown_entry(context, armature)
        keeps = entry is not None and entry.kind != 'BOTH'
        posing.keep_orientation(armature, index, keeps)
        how = "keeps its orientation" if keeps else "turns as it comes"
        self.tell(f"{label_of(settings_of(armature).effectors[index], index)} {how}")


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
        self.tell(f"{counted(len(floored), 'bone')} kept above the floor" if floored else "There is a floor")
        return {'FINISHED'} if floored else {'CANCELLED'}


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
        return "" if chosen else "Select bones in Pose Mode, or targets of effectors"

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
        self.tell(f"{', '.join(entries)}: {'free' if held else 'pinned'}")


class POISE_OT_store_pose(EffectorOperator, label="Store Pose"):
    """Store the present pose as the pose that the bones of the active effector stay near"""

    def act(self, context: Context, armature: Object) -> None:
        count = posing.store_pose(armature, shown_effector(context, armature))
        self.tell(f"Stored the pose of {counted(count, 'bone')}")


class POISE_OT_solve_pose(EffectorOperator, label="Solve Pose"):
    """Move the skeleton so that every enabled effector reaches its target"""

    def act(self, context: Context, armature: Object) -> set[str]:
        return self.answer(posing.solve_pose(armature, context.evaluated_depsgraph_get()))


def _frame(name: str, which: str, default: int) -> Any:
    """An end of the range."""
    description = f"{which} frame to bake, of the range Custom; without start and end, that in the settings"
    return IntProperty(name=name, description=description, default=default, options={'SKIP_SAVE'})


class POISE_OT_bake(EffectorOperator, label="Bake"):
    """Solve every frame and key the solved bones; Escape cancels and restores everything"""

    range: EnumProperty(
        name="Range",
        description="Frames to bake; by default the range in the settings",
        items=RANGE_ITEMS,
        options={'SKIP_SAVE'},
    )
    start: _frame("Start Frame", "First", 1)
    end: _frame("End Frame", "Last", 250)
    step: IntProperty(
        name="Step",
        description="Every how many frames there is a key; by default the step in the settings",
        default=1,
        min=1,
        soft_max=24,
        options={'SKIP_SAVE'},
    )

    at_keys: BoolProperty(
        name="At Targets' Keys",
        description="Key the frames at which targets have keys, and others only where effectors would "
        "deviate too far; by default as in the settings",
        options={'SKIP_SAVE'},
    )

    _job: posing.BakeJob
    _timer: Any

    def _asked(self, armature: Object) -> dict[str, Any]:
        """The frames that were asked for, None for those in the settings, and which are keyed."""
        given = [name for name in ("start", "end") if self.properties.is_property_set(name)]
        if len(given) == 1:
            raise IKError(f"Only '{given[0]}' was given: give both start and end, or neither")
        which = self.range if self.properties.is_property_set("range") else None
        frames = range(self.start, self.end + 1) if given and which in (None, 'CUSTOM') else which
        settings, is_set = settings_of(armature), self.properties.is_property_set
        at_keys = self.at_keys if is_set("at_keys") else settings.bake_at_keys and not is_set("step")
        step = self.step if is_set("step") else settings.bake_step
        return {"frames": frames, "step": step, "at_keys": at_keys}

    def draw(self, context: Context) -> None:
        """Show the options in the redo panel; the ends of the range where they count."""
        layout: Any = self.layout
        layout.use_property_split = True
        layout.prop(self, "range")
        if self.range == 'CUSTOM':
            column = layout.column(align=True)
            column.prop(self, "start")
            column.prop(self, "end")
        layout.prop(self, "at_keys")
        if not self.at_keys:
            layout.prop(self, "step")

    def _show_settings(self, armature: Object) -> None:
        """Let the redo panel begin with the settings."""
        settings, is_set = settings_of(armature), self.properties.is_property_set
        if not is_set("range"):
            self.range = 'CUSTOM' if is_set("start") else settings.bake_range
        if not is_set("start"):
            self.start, self.end = settings.bake_start, settings.bake_end
        if not is_set("at_keys"):
            self.at_keys = settings.bake_at_keys and not is_set("step")
        if not is_set("step"):
            self.step = settings.bake_step

    def act(self, context: Context, armature: Object) -> set[str]:
        wm = context.window_manager
        options = self._asked(armature)
        wm.progress_begin(0, 100)
        try:
            return self.answer(
                posing.bake(armature, **options, progress=lambda part: wm.progress_update(100 * part))
            )
        finally:
            wm.progress_end()

    def invoke(self, context: Context, event: Event) -> set[str]:
        if bpy.app.background or context.window is None:  # nobody there to press Escape
            return self.execute(context)
        try:
            armature = require_armature(context)
            self._job = posing.BakeJob(armature, **self._asked(armature))
            self._show_settings(armature)
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
            self.report({'INFO'}, "Bake cancelled, everything is restored")
            return {'CANCELLED'}
        if event.type != 'TIMER':
            return {'RUNNING_MODAL'}  # keep other input away: the scene must not change under the bake
        try:
            if self._work(context):
                return {'RUNNING_MODAL'}
            report = self._job.finish()
        except Exception as error:  # Blender calls us: else the timer and a bake half done would stay
            logger.exception("The bake stopped")
            self.cancel(context)
            return refuse(self, error)
        self._end(context)
        return self.answer(report)

    def cancel(self, context: Context) -> None:
        """Stop and restore; Blender calls this too, when the window closes or another file is opened."""
        self._end(context)
        self._job.cancel()

    def _work(self, context: Context) -> bool:
        """Bake for a moment and show how far it is; whether there is more to do."""
        until = time.perf_counter() + WORK_SECONDS
        more = True
        while more and time.perf_counter() < until:
            more = self._job.step()
        percent = round(100 * self._job.progress)
        context.window_manager.progress_update(percent)
        context.workspace.status_text_set(f"Poise: baking, {percent} %.  Esc: cancel and restore")
        return more

    def _end(self, context: Context) -> None:
        wm = context.window_manager
        wm.event_timer_remove(self._timer)
        wm.progress_end()
        if context.workspace:
            context.workspace.status_text_set(None)


class POISE_OT_key_pose(EffectorOperator, label="Key Pose"):
    """Key the present pose of the bones that Poise solves; a later bake replaces these keys"""

    def act(self, context: Context, armature: Object) -> set[str] | None:
        keyed = posing.key_pose(armature, context.evaluated_depsgraph_get())
        if not keyed.count:
            self.tell(sentences("nothing was keyed", *(keyed.notes or ("no bone is solved",))), warning=True)
            return {'CANCELLED'}
        done = f"keyed {counted(keyed.count, 'bone')} on frame {context.scene.frame_current}"
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
        return "" if settings.effectors or settings.live else "Add an effector first"

    def act(self, context: Context, armature: Object) -> set[str] | None:
        was = settings_of(armature).live
        self.changed = 1  # if it fails it is on, and the panel says what is missing
        report = posing.switch_live(armature, not was if self.action == 'TOGGLE' else self.action == 'ON')
        return None if report is None else self.answer(report)


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
        settings_of(armature).last_message = report.summary()
        settings_of(armature).last_reached = report.ready
        self.tell(report.summary(), not report.ready)


class POISE_OT_recognise_roles(ArmatureOperator, label="Recognise Roles"):
    """Fill the table of roles from the bones' names and places; changes in it are lost"""

    def act(self, context: Context, armature: Object) -> None:
        character = posing.recognise_roles(armature)
        self.tell(f"{counted(len(character.choices), 'bone')} with a role, {len(character.left_out)} without")


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
            row.bone, row.reason = bone, "chosen by hand"
            settings.active_role = len(settings.roles) - 1
        elif settings.active_role < len(settings.roles):
            with only_own("this row of the table", "choose the role None for it"):
                settings.roles.remove(settings.active_role)
            settings.active_role = max(0, min(settings.active_role, len(settings.roles) - 1))


class POISE_OT_read_limits(ArmatureOperator, label="Read Limits"):
    """Read IK limits, IK stiffness and Limit Rotation constraints of all bones, for editing"""

    def act(self, context: Context, armature: Object) -> None:
        found = posing.read_limits(armature)
        self.tell(found.summary(), found.notes)


def _own_limits(armature: Object, bones: list[str]) -> None:
    for bone in bones:
        posing.own_limits(armature, bone)


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

    acts: ClassVar = {'OWN': _own_limits, 'RIG': posing.remove_limits, 'PREFER': posing.prefer_present_pose}

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

    def act(self, context: Context, armature: Object) -> None:
        report = posing.measure_meshes(armature)
        self.tell(report.summary(), report.notes)


class POISE_OT_save_preset(ArmatureOperator, label="Save Preset"):
    """Save effectors, limits, stiffness and solver settings as a preset, by the roles of the bones"""

    bl_options = {'REGISTER'}  # it changes nothing in Blender

    name: StringProperty(name="Name", description="Name of the preset", default="Character")

    def invoke(self, context: Context, event: Any) -> set[str]:
        return context.window_manager.invoke_props_dialog(self)  # pyright: ignore[reportReturnType]

    def act(self, context: Context, armature: Object) -> None:
        report = posing.save_preset(armature, posing.preset_path(self.name))
        self.tell(f"Saved {report.summary()}")


class POISE_OT_load_preset(ArmatureOperator, label="Load Preset"):
    """Set the armature up from a preset; the report names bones that are missing"""

    name: StringProperty(name="Name", description="Name of the preset", default="Character")

    def act(self, context: Context, armature: Object) -> None:
        report = posing.load_preset(armature, posing.preset_path(self.name))
        self.tell(f"Loaded {report.summary()}", report.missing or report.notes)


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

    def act(self, context: Context, armature: Object) -> None:
        parts = {name: getattr(self, name) for name in ("settings", "targets", "limits", "pose")}
        report = posing.mirror(armature, self.direction, **parts)
        self.tell(report.summary(), report.notes)


CLASSES = (
    POISE_OT_add_effector,
    POISE_OT_remove_effector,
    POISE_OT_move_effector,
    POISE_OT_select_target,
    POISE_OT_select_targets,
    POISE_OT_snap_targets,
    POISE_OT_natural,
    POISE_OT_key_targets,
    POISE_OT_make_targets,
    POISE_OT_attach_targets,
    POISE_OT_add_choice,
    POISE_OT_remove_choice,
    POISE_OT_pin,
    POISE_OT_pin_bones,
    POISE_OT_set_state,
    POISE_OT_keep_orientation,
    POISE_OT_add_floor,
    POISE_OT_store_pose,
    POISE_OT_solve_pose,
    POISE_OT_bake,
    POISE_OT_key_pose,
    POISE_OT_live,
    POISE_OT_diagnose,
    POISE_OT_setup_character,
    POISE_OT_recognise_roles,
    POISE_OT_edit_roles,
    POISE_OT_read_limits,
    POISE_OT_edit_limits,
    POISE_OT_edit_masses,
    POISE_OT_measure_meshes,
    POISE_OT_save_preset,
    POISE_OT_load_preset,
    POISE_OT_mirror,
)

register, unregister = bpy.utils.register_classes_factory(CLASSES)

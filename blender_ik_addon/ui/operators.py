# SPDX-License-Identifier: GPL-3.0-or-later
# A property is declared once for Blender and once, under TYPE_CHECKING, with its type. The stubs hold that a
# context may lack anything; poll and Blender see to it that it does not.
# pyright: reportRedeclaration=false, reportOptionalMemberAccess=false
"""What the user can press: each operator gathers, calls `posing`, and reports."""

import logging
import time
from typing import TYPE_CHECKING, Any, Literal

import bpy
from bpy.props import BoolProperty, EnumProperty, IntProperty, StringProperty
from bpy.types import Context, Event, Object, Operator

from ..core.errors import IKError
from ..scene import posing
from ..scene.effectors import lacks_target
from ..scene.properties import KIND_ITEMS, settings_of

logger = logging.getLogger(__name__)

WORK_SECONDS = 0.05
"""How long a modal bake works before Blender may look at the keyboard and draw [s]: Escape feels prompt."""

TIMER_SECONDS = 0.01
"""Pause between two portions of a modal bake [s]: enough for one event to get through."""


def context_armature(context: Context) -> Object | None:
    """Give the armature object that panel and operators act on.

    It is the active object, or the armature that follows the active object: whoever has just moved an empty
    can press Solve Pose without going back to the armature.
    """
    active = context.active_object
    if active is None or active.type == 'ARMATURE':
        return active
    if active.users > 1:  # one user is its collection; a target has the effector as well
        for candidate in context.view_layer.objects:
            if candidate.type == 'ARMATURE':
                effectors = settings_of(candidate).effectors
                if any(effector.target == active for effector in effectors):
                    return candidate
    return None


def require_armature(context: Context) -> Object:
    """Give the armature that `poll` has found."""
    armature = context_armature(context)
    if armature is None:
        raise IKError("There is no armature here: select one, or the target of one of its effectors")
    return armature


def _obstacle(context: Context, *, needs_effectors: bool = True) -> str:
    """Say in words what keeps the operators from acting on the armature; empty if nothing does."""
    armature = context_armature(context)
    if armature is None:
        return "Select an armature, or the target of one of its effectors"
    if not armature.is_editable:
        return "The armature is linked from another file: make a library override of it"
    if armature.mode == 'EDIT':
        return "Leave Edit Mode: bones have no pose there"
    if needs_effectors and not settings_of(armature).effectors:
        return "Add an effector first"
    return ""


def _possible(operator: type[Operator], obstacle: str) -> bool:
    """Answer a poll, with the obstacle as the reason that the greyed-out button shows."""
    operator.poll_message_set(obstacle)
    return not obstacle


def _answer(operator: Operator, report: posing.Report | posing.BakeReport) -> set[str]:
    """Tell how it went; a target that was not reached is a warning, not a failure."""
    operator.report({'INFO'} if report.reached else {'WARNING'}, report.summary())
    return {'FINISHED'}


def _refuse(operator: Operator, error: Exception) -> set[str]:
    """Tell what was wrong with the input."""
    text = str(error)
    operator.report({'ERROR'}, text[:1].upper() + text[1:])
    return {'CANCELLED'}


class POISE_OT_add_effector(Operator):
    """Add an effector to every selected bone, or to the active bone outside Pose Mode"""

    bl_idname = "poise.add_effector"
    bl_label = "Add Effector"
    bl_options = {'REGISTER', 'UNDO'}

    bone: StringProperty(
        name="Bone",
        description="The bone to add an effector to; empty for the selected bones",
        options={'SKIP_SAVE'},
    )
    kind: EnumProperty(
        name="Kind",
        description="What the bone is to do about its target",
        items=KIND_ITEMS,
        default='BOTH',
    )
    make_targets: BoolProperty(
        name="Make Targets",
        description="Make an empty as target where the bone asks for nothing yet, as a rule at its place",
        default=True,
    )

    if TYPE_CHECKING:
        bone: str
        kind: str
        make_targets: bool

    @classmethod
    def poll(cls, context: Context) -> bool:
        return _possible(cls, _obstacle(context, needs_effectors=False))

    def bone_names(self, context: Context, armature: Object) -> list[str]:
        """Give the bones that are meant: the one asked for, those selected, or the active one."""
        if self.bone:
            return [self.bone]
        selected = context.selected_pose_bones_from_active_object or ()
        active = armature.data.bones.active  # pyright: ignore[reportAttributeAccessIssue]
        return [bone.name for bone in selected] or ([active.name] if active else [])

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        settings = settings_of(armature)
        names = self.bone_names(context, armature)
        if not names:
            self.report({'ERROR'}, "Select the bones that are to follow a target, in Pose Mode")
            return {'CANCELLED'}
        count = len(settings.effectors)
        try:
            for name in names:
                settings.active_effector = posing.add_effector(
                    armature, name, kind=self.kind, make_target=self.make_targets
                )
        except IKError as error:
            refused = _refuse(self, error)
            return {'FINISHED'} if len(settings.effectors) > count else refused
        return {'FINISHED'}


class POISE_OT_remove_effector(Operator):
    """Remove the active effector from the list; its target stays in the scene"""

    bl_idname = "poise.remove_effector"
    bl_label = "Remove Effector"
    bl_options = {'REGISTER', 'UNDO'}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return _possible(cls, _obstacle(context))

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        settings = settings_of(armature)
        index = settings.active_effector
        try:
            posing.remove_effector(armature, index)
        except IKError as error:
            return _refuse(self, error)
        settings.active_effector = max(0, min(index, len(settings.effectors) - 1))
        return {'FINISHED'}


class POISE_OT_move_effector(Operator):
    """Move the active effector up or down in the list; importance is set by its priority, not by its place"""

    bl_idname = "poise.move_effector"
    bl_label = "Move Effector"
    bl_options = {'REGISTER', 'UNDO'}

    direction: EnumProperty(
        name="Direction",
        description="Where to move the effector in the list",
        items=(('UP', "Up", "One place up"), ('DOWN', "Down", "One place down")),
        default='UP',
    )

    if TYPE_CHECKING:
        direction: Literal['UP', 'DOWN']

    @classmethod
    def poll(cls, context: Context) -> bool:
        return _possible(cls, _obstacle(context))

    def execute(self, context: Context) -> set[str]:
        settings = settings_of(require_armature(context))
        index = settings.active_effector
        place = index + (-1 if self.direction == 'UP' else 1)
        if not 0 <= place < len(settings.effectors):
            return {'CANCELLED'}  # it is at the end of the list already
        try:
            posing.move_effector(require_armature(context), index, place)
        except IKError as error:
            return _refuse(self, error)
        settings.active_effector = place
        return {'FINISHED'}


class POISE_OT_make_targets(Operator):
    """Make an empty for every effector that lacks a target, as a rule at the bone's present place"""

    bl_idname = "poise.make_targets"
    bl_label = "Make Targets"
    bl_options = {'REGISTER', 'UNDO'}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obstacle = _obstacle(context)
        if not obstacle and not any(map(lacks_target, settings_of(require_armature(context)).effectors)):
            obstacle = "Every effector has a target"
        return _possible(cls, obstacle)

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        lacking = [i for i, e in enumerate(settings_of(armature).effectors) if lacks_target(e)]
        made = 0
        try:
            for index in lacking:
                posing.make_target(armature, index)
                made += 1
        except IKError as error:
            refused = _refuse(self, error)
            return {'FINISHED'} if made else refused
        self.report({'INFO'}, f"Made {made} target{'s' if made > 1 else ''}")
        return {'FINISHED'}


class POISE_OT_pin(Operator):
    """Hold the bone of the active effector where it is now, or let it go again"""

    bl_idname = "poise.pin"
    bl_label = "Pin"
    bl_options = {'REGISTER', 'UNDO'}

    action: EnumProperty(
        name="Action",
        description="What to do",
        items=(
            ('TOGGLE', "Toggle", "Let the bone go if it is pinned, pin it otherwise"),
            ('PIN', "Pin", "Hold the bone where it is now"),
            ('UNPIN', "Unpin", "Let the bone go"),
        ),
        default='TOGGLE',
    )

    if TYPE_CHECKING:
        action: Literal['TOGGLE', 'PIN', 'UNPIN']

    @classmethod
    def poll(cls, context: Context) -> bool:
        return _possible(cls, _obstacle(context))

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        settings = settings_of(armature)
        index = settings.active_effector
        pinned = index < len(settings.effectors) and settings.effectors[index].pinned
        release = self.action == 'UNPIN' or (self.action == 'TOGGLE' and pinned)
        try:
            (posing.unpin if release else posing.pin)(armature, index)
        except IKError as error:
            return _refuse(self, error)
        return {'FINISHED'}


class POISE_OT_store_pose(Operator):
    """Store the present pose as that near which the bones of the active effector stay"""

    bl_idname = "poise.store_pose"
    bl_label = "Store Pose"
    bl_options = {'REGISTER', 'UNDO'}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return _possible(cls, _obstacle(context))

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        try:
            count = posing.store_pose(armature, settings_of(armature).active_effector)
        except IKError as error:
            return _refuse(self, error)
        self.report({'INFO'}, f"Stored the pose of {count} bone{'s' if count > 1 else ''}")
        return {'FINISHED'}


class POISE_OT_solve_pose(Operator):
    """Move the skeleton so that every enabled effector reaches its target"""

    bl_idname = "poise.solve_pose"
    bl_label = "Solve Pose"
    bl_options = {'REGISTER', 'UNDO'}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return _possible(cls, _obstacle(context))

    def execute(self, context: Context) -> set[str]:
        try:
            report = posing.solve_pose(require_armature(context), context.evaluated_depsgraph_get())
        except IKError as error:
            return _refuse(self, error)
        return _answer(self, report)


class POISE_OT_live(Operator):
    """Let the body follow whenever a target moves, or let it be"""

    bl_idname = "poise.live"
    bl_label = "Live"
    bl_options = {'REGISTER', 'UNDO'}

    action: EnumProperty(
        name="Action",
        description="What to do",
        items=(
            ('TOGGLE', "Toggle", "Switch live mode off if it is on, on otherwise"),
            ('ON', "On", "Let the body follow"),
            ('OFF', "Off", "Let the body be"),
        ),
        default='TOGGLE',
    )

    if TYPE_CHECKING:
        action: Literal['TOGGLE', 'ON', 'OFF']

    @classmethod
    def poll(cls, context: Context) -> bool:
        armature = context_armature(context)
        if armature is not None and armature.is_editable:
            return True  # in any mode: it begins to follow as soon as it can, and can always be switched off
        return _possible(cls, _obstacle(context, needs_effectors=False))

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        was = settings_of(armature).live
        on = not was if self.action == 'TOGGLE' else self.action == 'ON'
        try:
            report = posing.switch_live(armature, on)
        except IKError as error:
            _refuse(self, error)
            return {'FINISHED'}  # it is on, and the panel goes on saying what is missing
        return {'FINISHED'} if report is None else _answer(self, report)


class POISE_OT_bake(Operator):
    """Solve every frame and key the bones of the solved chains; Escape cancels and restores"""

    bl_idname = "poise.bake"
    bl_label = "Bake"
    bl_options = {'REGISTER', 'UNDO'}

    # Hidden, because the redo panel would bake everything again at each touch; the range is in the sidebar.
    start: IntProperty(
        name="Start Frame",
        description="First frame to bake; without start and end, the range in the settings",
        default=1,
        options={'HIDDEN', 'SKIP_SAVE'},
    )
    end: IntProperty(
        name="End Frame",
        description="Last frame to bake; without start and end, the range in the settings",
        default=250,
        options={'HIDDEN', 'SKIP_SAVE'},
    )

    if TYPE_CHECKING:
        start: int
        end: int
        _job: posing.BakeJob
        _timer: Any

    @classmethod
    def poll(cls, context: Context) -> bool:
        return _possible(cls, _obstacle(context))

    def frames(self) -> range | None:
        """Give the frames that were asked for; None for those in the settings."""
        given = [name for name in ("start", "end") if self.properties.is_property_set(name)]
        if len(given) == 1:
            raise IKError(f"Only '{given[0]}' was given: give both start and end, or neither")
        return range(self.start, self.end + 1) if given else None

    def execute(self, context: Context) -> set[str]:
        wm = context.window_manager
        wm.progress_begin(0, 100)
        try:
            report = posing.bake(
                require_armature(context),
                self.frames(),
                progress=lambda share: wm.progress_update(100 * share),
            )
        except IKError as error:
            return _refuse(self, error)
        finally:
            wm.progress_end()
        return _answer(self, report)

    def invoke(self, context: Context, event: Event) -> set[str]:
        if bpy.app.background or context.window is None:  # nobody there to press Escape
            return self.execute(context)
        try:
            self._job = posing.BakeJob(require_armature(context), self.frames())
        except IKError as error:
            return _refuse(self, error)
        wm = context.window_manager
        wm.progress_begin(0, 100)
        self._timer = wm.event_timer_add(TIMER_SECONDS, window=context.window)
        wm.modal_handler_add(self)
        return {'RUNNING_MODAL'}

    def modal(self, context: Context, event: Event) -> set[str]:
        if event.type == 'ESC':
            self.cancel(context)
            self.report({'INFO'}, "Bake cancelled, everything is as before")
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
            return _refuse(self, error)
        self._end(context)
        return _answer(self, report)

    def cancel(self, context: Context) -> None:
        """Stop and restore; Blender calls this too, when the window closes or another file is opened."""
        self._end(context)
        self._job.cancel()

    def _work(self, context: Context) -> bool:
        """Bake for a moment and show how far it is; say whether there is more to do."""
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


class POISE_OT_diagnose(Operator):
    """Say what the present pose allows the effectors: which directions are lost, and what hangs together"""

    bl_idname = "poise.diagnose"
    bl_label = "Diagnose Pose"
    bl_options = {'REGISTER', 'UNDO'}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return _possible(cls, _obstacle(context))

    def execute(self, context: Context) -> set[str]:
        try:
            diagnosis = posing.diagnose(require_armature(context), context.evaluated_depsgraph_get())
        except IKError as error:
            return _refuse(self, error)
        self.report({'INFO'}, diagnosis.lines[0])
        return {'FINISHED'}


CLASSES = (
    POISE_OT_add_effector,
    POISE_OT_remove_effector,
    POISE_OT_move_effector,
    POISE_OT_make_targets,
    POISE_OT_pin,
    POISE_OT_store_pose,
    POISE_OT_solve_pose,
    POISE_OT_live,
    POISE_OT_bake,
    POISE_OT_diagnose,
)

register, unregister = bpy.utils.register_classes_factory(CLASSES)

# SPDX-License-Identifier: GPL-3.0-or-later
# A property is declared once for Blender and once, under TYPE_CHECKING, with its type. The stubs hold that a
# context may lack anything; poll and Blender see to it that it does not.
# pyright: reportRedeclaration=false, reportOptionalMemberAccess=false
"""What the user can press: each operator gathers, calls `posing`, and reports."""

from typing import TYPE_CHECKING, Literal

import bpy
from bpy.props import BoolProperty, EnumProperty, StringProperty
from bpy.types import Context, Operator

from ..core.errors import IKError
from ..scene import posing
from ..scene.effectors.effectors import lacks_target
from ..scene.properties.effector_properties import KIND_ITEMS
from ..scene.properties.settings import settings_of
from ..scene.reports import counted, sentences
from .acting import (
    ArmatureOperator,
    EffectorOperator,
    answer,
    context_armature,
    obstacle_to,
    possible,
    refuse,
    require_armature,
    selected_bones,
)
from .shown import keep_armature, show_effector, shown_effector


class POISE_OT_add_effector(ArmatureOperator):
    """Add an effector to every selected bone, or to the active bone outside Pose Mode"""

    bl_idname = "poise.add_effector"
    bl_label = "Add Effector"

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

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        settings = settings_of(armature)
        names = [self.bone] if self.bone else selected_bones(context)
        if not names:
            self.report({'ERROR'}, "Select the bones that are to follow a target, in Pose Mode")
            return {'CANCELLED'}
        count = len(settings.effectors)
        try:
            for name in names:
                index = posing.add_effector(armature, name, kind=self.kind, make_target=self.make_targets)
                show_effector(context, armature, index)
        except IKError as error:
            refused = refuse(self, error)
            return {'FINISHED'} if len(settings.effectors) > count else refused
        return {'FINISHED'}


class POISE_OT_remove_effector(EffectorOperator):
    """Remove the active effector from the list; its target stays in the scene"""

    bl_idname = "poise.remove_effector"
    bl_label = "Remove Effector"

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        index = shown_effector(context, armature)
        try:
            posing.remove_effector(armature, index)
        except IKError as error:
            return refuse(self, error)
        show_effector(context, armature, max(0, min(index, len(settings_of(armature).effectors) - 1)))
        keep_armature(context, armature)
        return {'FINISHED'}


class POISE_OT_move_effector(EffectorOperator):
    """Move the active effector up or down in the list; importance is set by its priority, not by its place"""

    bl_idname = "poise.move_effector"
    bl_label = "Move Effector"

    direction: EnumProperty(
        name="Direction",
        description="Where to move the effector in the list",
        items=(('UP', "Up", "One place up"), ('DOWN', "Down", "One place down")),
        default='UP',
    )

    if TYPE_CHECKING:
        direction: Literal['UP', 'DOWN']

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        settings = settings_of(armature)
        index = shown_effector(context, armature)
        place = index + (-1 if self.direction == 'UP' else 1)
        if not 0 <= place < len(settings.effectors):
            return {'CANCELLED'}  # it is at the end of the list already
        try:
            posing.move_effector(armature, index, place)
        except IKError as error:
            return refuse(self, error)
        show_effector(context, armature, place)
        return {'FINISHED'}


class POISE_OT_make_targets(Operator):
    """Make an empty for every effector that lacks a target, as a rule at the bone's present place"""

    bl_idname = "poise.make_targets"
    bl_label = "Make Targets"
    bl_options = {'REGISTER', 'UNDO'}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obstacle = obstacle_to(context)
        if not obstacle and not any(map(lacks_target, settings_of(require_armature(context)).effectors)):
            obstacle = "Every effector has a target"
        return possible(cls, obstacle)

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        lacking = [i for i, e in enumerate(settings_of(armature).effectors) if lacks_target(e)]
        made = 0
        try:
            for index in lacking:
                posing.make_target(armature, index)
                made += 1
        except IKError as error:
            refused = refuse(self, error)
            return {'FINISHED'} if made else refused
        self.report({'INFO'}, f"Made {counted(made, 'target')}")
        return {'FINISHED'}


class POISE_OT_attach_targets(Operator):
    """Let targets that stay behind go where the armature goes, as its children: to move a whole character"""

    bl_idname = "poise.attach_targets"
    bl_label = "Attach Targets"
    bl_options = {'REGISTER', 'UNDO'}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obstacle = obstacle_to(context)
        if not obstacle and not posing.staying_behind(require_armature(context)):
            obstacle = "Every target goes where the armature goes, or where its own parent goes"
        return possible(cls, obstacle)

    def execute(self, context: Context) -> set[str]:
        try:
            report = posing.attach_targets(require_armature(context))
        except IKError as error:
            return refuse(self, error)
        self.report({'WARNING'} if report.notes else {'INFO'}, report.summary())
        return {'FINISHED'} if report.attached else {'CANCELLED'}


class POISE_OT_pin(EffectorOperator):
    """Hold the bone of the active effector where it is now, or let it go again"""

    bl_idname = "poise.pin"
    bl_label = "Pin"

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

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        settings = settings_of(armature)
        index = shown_effector(context, armature)
        pinned = index < len(settings.effectors) and settings.effectors[index].pinned
        release = self.action == 'UNPIN' or (self.action == 'TOGGLE' and pinned)
        try:
            (posing.unpin if release else posing.pin)(armature, index)
        except IKError as error:
            return refuse(self, error)
        return {'FINISHED'}


class POISE_OT_store_pose(EffectorOperator):
    """Store the present pose as that near which the bones of the active effector stay"""

    bl_idname = "poise.store_pose"
    bl_label = "Store Pose"

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        try:
            count = posing.store_pose(armature, shown_effector(context, armature))
        except IKError as error:
            return refuse(self, error)
        self.report({'INFO'}, f"Stored the pose of {counted(count, 'bone')}")
        return {'FINISHED'}


class POISE_OT_solve_pose(EffectorOperator):
    """Move the skeleton so that every enabled effector reaches its target"""

    bl_idname = "poise.solve_pose"
    bl_label = "Solve Pose"

    def execute(self, context: Context) -> set[str]:
        try:
            report = posing.solve_pose(require_armature(context), context.evaluated_depsgraph_get())
        except IKError as error:
            return refuse(self, error)
        return answer(self, report)


class POISE_OT_key_pose(EffectorOperator):
    """Key the bones that Poise solves as they are on the present frame"""

    bl_idname = "poise.key_pose"
    bl_label = "Key Pose"

    def execute(self, context: Context) -> set[str]:
        try:
            keyed = posing.key_pose(require_armature(context), context.evaluated_depsgraph_get())
        except IKError as error:
            return refuse(self, error)
        if not keyed.count:
            self.report({'WARNING'}, sentences("nothing was keyed", *(keyed.notes or ("no bone is solved",))))
            return {'CANCELLED'}
        done = f"keyed {counted(keyed.count, 'bone')} on frame {context.scene.frame_current}"
        self.report({'WARNING'} if keyed.notes else {'INFO'}, sentences(done, *keyed.notes))
        return {'FINISHED'}


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
        if armature is None or not armature.is_editable:
            return possible(cls, obstacle_to(context))
        settings = settings_of(armature)
        # In any mode: it begins to follow as soon as it can, and can always be switched off.
        return possible(cls, "" if settings.effectors or settings.live else "Add an effector first")

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        was = settings_of(armature).live
        on = not was if self.action == 'TOGGLE' else self.action == 'ON'
        try:
            report = posing.switch_live(armature, on)
        except IKError as error:
            refuse(self, error)
            return {'FINISHED'}  # it is on, and the panel goes on saying what is missing
        return {'FINISHED'} if report is None else answer(self, report)


class POISE_OT_diagnose(EffectorOperator):
    """Say what the present pose allows the effectors: which directions are lost, and what hangs together"""

    bl_idname = "poise.diagnose"
    bl_label = "Diagnose Pose"

    def execute(self, context: Context) -> set[str]:
        try:
            diagnosis = posing.diagnose(require_armature(context), context.evaluated_depsgraph_get())
        except IKError as error:
            return refuse(self, error)
        self.report({'INFO'}, diagnosis.lines[0])
        return {'FINISHED'}


CLASSES = (
    POISE_OT_add_effector,
    POISE_OT_remove_effector,
    POISE_OT_move_effector,
    POISE_OT_make_targets,
    POISE_OT_attach_targets,
    POISE_OT_pin,
    POISE_OT_store_pose,
    POISE_OT_solve_pose,
    POISE_OT_key_pose,
    POISE_OT_live,
    POISE_OT_diagnose,
)

register, unregister = bpy.utils.register_classes_factory(CLASSES)

# SPDX-License-Identifier: GPL-3.0-or-later
# A property is declared once for Blender and once, under TYPE_CHECKING, with its type. The stubs hold that a
# context may lack anything; poll and Blender see to it that it does not.
# pyright: reportRedeclaration=false, reportOptionalMemberAccess=false
"""Setting a character up, and what belongs to it: roles, limits, presets, mirroring."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import bpy
from bpy.props import BoolProperty, EnumProperty, StringProperty
from bpy.types import Context, Object

from ..core.errors import IKError
from ..scene import posing
from ..scene.properties.naming import note_name
from ..scene.properties.overrides import only_own
from ..scene.properties.settings import settings_of
from .acting import ArmatureOperator, active_bone, refuse, require_armature, selected_bones


class POISE_OT_setup_character(ArmatureOperator):
    """Make targets, limits and priorities for hips, feet, hands and head of the armature"""

    bl_idname = "poise.setup_character"
    bl_label = "Set-up Character"

    use_table: BoolProperty(
        name="Use Table",
        description="Go by the table of roles if there is one; otherwise recognise the bones anew",
        default=True,
    )
    poles: BoolProperty(
        name="Poles",
        description="Also make targets towards which elbows and knees bend",
        default=False,
    )
    limits: BoolProperty(
        name="Limits",
        description="Read limits from the rig, and assume those of a body where it has none",
        default=True,
    )
    controls: BoolProperty(
        name="Switch Controls",
        description="Let a control rig follow the controls that get targets: its limbs are switched to FK",
        default=True,
    )

    if TYPE_CHECKING:
        use_table: bool
        poles: bool
        limits: bool
        controls: bool

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        try:
            report = posing.setup_character(
                armature,
                use_table=self.use_table,
                poles=self.poles,
                limits=self.limits,
                controls=self.controls,
            )
        except IKError as error:
            return refuse(self, error)
        settings_of(armature).last_message = report.summary()
        settings_of(armature).last_reached = report.ready
        self.report({'INFO'} if report.ready else {'WARNING'}, report.summary())
        return {'FINISHED'}


class POISE_OT_recognise_roles(ArmatureOperator):
    """Fill the table of roles from the bones' names and places; changes in it are lost"""

    bl_idname = "poise.recognise_roles"
    bl_label = "Recognise Roles"

    def execute(self, context: Context) -> set[str]:
        try:
            character = posing.recognise_roles(require_armature(context))
        except IKError as error:
            return refuse(self, error)
        self.report({'INFO'}, f"{len(character.choices)} bones have a role, {len(character.left_out)} none")
        return {'FINISHED'}


class POISE_OT_edit_roles(ArmatureOperator):
    """Add the active bone to the table of roles, or take the active row out of it"""

    bl_idname = "poise.edit_roles"
    bl_label = "Edit Roles"

    action: EnumProperty(
        name="Action",
        description="What to do with the table",
        items=(
            ('ADD', "Add", "Add a row for the active bone"),
            ('REMOVE', "Remove", "Remove the active row"),
        ),
        default='ADD',
    )

    if TYPE_CHECKING:
        action: Literal['ADD', 'REMOVE']

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        settings = settings_of(armature)
        if self.action == 'ADD':
            bone = active_bone(context)
            if not bone:
                self.report({'ERROR'}, "Make the bone active that is to have a role, in Pose Mode")
                return {'CANCELLED'}
            note_name(armature, bone)
            row: Any = settings.roles.add()
            row.bone, row.reason = bone, "chosen by hand"
            settings.active_role = len(settings.roles) - 1
        elif settings.active_role < len(settings.roles):
            try:
                with only_own("this row of the table", "choose No Role for it"):
                    settings.roles.remove(settings.active_role)
            except IKError as error:
                refuse(self, error)
                return {'CANCELLED'}
            settings.active_role = max(0, min(settings.active_role, len(settings.roles) - 1))
        return {'FINISHED'}


class POISE_OT_read_limits(ArmatureOperator):
    """Read IK limits, IK stiffness and Limit Rotation constraints of all bones, to be edited"""

    bl_idname = "poise.read_limits"
    bl_label = "Read Limits"

    def execute(self, context: Context) -> set[str]:
        try:
            found = posing.read_limits(require_armature(context))
        except IKError as error:
            return refuse(self, error)
        self.report({'WARNING'} if found.notes else {'INFO'}, found.summary())
        return {'FINISHED'}


def _own_limits(armature: Object, bones: list[str]) -> None:
    """Give bones limits of their own."""
    for bone in bones:
        posing.own_limits(armature, bone)


class _BoneEntries(ArmatureOperator):
    """Gives the selected bones entries of their own, or takes these away; not registered itself."""

    acts: ClassVar[dict[str, Callable[[Object, list[str]], object]]]
    """What each action does with some bones."""

    if TYPE_CHECKING:
        action: str

    def execute(self, context: Context) -> set[str]:
        bones = selected_bones(context)
        if not bones:
            self.report({'ERROR'}, "Select bones in Pose Mode")
            return {'CANCELLED'}
        try:
            self.acts[self.action](require_armature(context), bones)
        except IKError as error:
            return refuse(self, error)
        return {'FINISHED'}


class POISE_OT_edit_limits(_BoneEntries):
    """Give the selected bones limits of their own, those of the rig again, or their pose to go back to"""

    bl_idname = "poise.edit_limits"
    bl_label = "Edit Limits"
    acts: ClassVar = {'OWN': _own_limits, 'RIG': posing.remove_limits, 'PREFER': posing.prefer_present_pose}

    action: EnumProperty(
        name="Action",
        description="What to do with the limits of the selected bones",
        items=(
            ('OWN', "Own", "Begin with those that the bone has, to be edited"),
            ('RIG', "From Rig", "Take the entry away: the bone's IK limits count again"),
            ('PREFER', "Prefer Pose", "Make the present angles those that the bone has when nothing asks"),
        ),
        default='OWN',
    )


class POISE_OT_edit_masses(_BoneEntries):
    """Give the selected bones masses of their own, or let them weigh their share of the body"""

    bl_idname = "poise.edit_masses"
    bl_label = "Edit Masses"
    acts: ClassVar = {'OWN': posing.own_masses, 'REMOVE': posing.remove_masses}

    action: EnumProperty(
        name="Action",
        description="What to do with the masses of the selected bones",
        items=(
            ('OWN', "Own", "Begin with what the bone weighs by now, to be edited"),
            ('REMOVE', "Remove", "Take the entry away: the bone weighs its share of the body"),
        ),
        default='OWN',
    )


class POISE_OT_measure_meshes(ArmatureOperator):
    """Measure the meshes that go with the armature's bones, and let bones weigh by their volumes"""

    bl_idname = "poise.measure_meshes"
    bl_label = "Measure Meshes"

    def execute(self, context: Context) -> set[str]:
        try:
            report = posing.measure_meshes(require_armature(context))
        except IKError as error:
            return refuse(self, error)
        self.report({'WARNING'} if report.notes else {'INFO'}, report.summary())
        return {'FINISHED'}


class POISE_OT_save_preset(ArmatureOperator):
    """Save effectors, limits, stiffness and solver settings as a preset, by the roles of the bones"""

    bl_idname = "poise.save_preset"
    bl_label = "Save Preset"
    bl_options = {'REGISTER'}  # it changes nothing in Blender

    name: StringProperty(name="Name", description="Name of the preset", default="Character")

    if TYPE_CHECKING:
        name: str

    def invoke(self, context: Context, event: Any) -> set[str]:
        return context.window_manager.invoke_props_dialog(self)  # pyright: ignore[reportReturnType]

    def execute(self, context: Context) -> set[str]:
        try:
            report = posing.save_preset(require_armature(context), posing.preset_path(self.name))
        except IKError as error:
            return refuse(self, error)
        self.report({'INFO'}, f"Saved {report.summary()}")
        return {'FINISHED'}


class POISE_OT_load_preset(ArmatureOperator):
    """Set the armature up as a preset says; bones that it does not have are told"""

    bl_idname = "poise.load_preset"
    bl_label = "Load Preset"

    name: StringProperty(name="Name", description="Name of the preset", default="Character")

    if TYPE_CHECKING:
        name: str

    def execute(self, context: Context) -> set[str]:
        try:
            report = posing.load_preset(require_armature(context), posing.preset_path(self.name))
        except IKError as error:
            return refuse(self, error)
        self.report({'WARNING'} if report.missing or report.notes else {'INFO'}, f"Loaded {report.summary()}")
        return {'FINISHED'}


class POISE_OT_mirror(ArmatureOperator):
    """Mirror pose, targets, limits and effector settings to the other side"""

    bl_idname = "poise.mirror"
    bl_label = "Mirror"

    direction: EnumProperty(
        name="Direction",
        description="From which side to which",
        items=(
            ('FLIP', "Flip", "Exchange both sides"),
            ('LEFT_TO_RIGHT', "Left to Right", "Make the right side like the left"),
            ('RIGHT_TO_LEFT', "Right to Left", "Make the left side like the right"),
        ),
        default='FLIP',
    )
    settings: BoolProperty(name="Settings", description="Settings of effectors", default=True)
    targets: BoolProperty(name="Targets", description="Places and rotations of targets", default=True)
    limits: BoolProperty(name="Limits", description="Limits, stiffness, preferred angles", default=True)
    pose: BoolProperty(name="Pose", description="Location and rotation of bones", default=True)

    if TYPE_CHECKING:
        direction: str
        settings: bool
        targets: bool
        limits: bool
        pose: bool

    def execute(self, context: Context) -> set[str]:
        try:
            report = posing.mirror(
                require_armature(context),
                self.direction,
                settings=self.settings,
                targets=self.targets,
                limits=self.limits,
                pose=self.pose,
            )
        except IKError as error:
            return refuse(self, error)
        self.report({'WARNING'} if report.notes else {'INFO'}, report.summary())
        return {'FINISHED'}


CLASSES = (
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

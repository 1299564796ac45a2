# SPDX-License-Identifier: GPL-3.0-or-later
# A property is declared once for Blender and once, under TYPE_CHECKING, with its type. The stubs hold that a
# context may lack anything; poll and Blender see to it that it does not.
# pyright: reportRedeclaration=false, reportOptionalMemberAccess=false
"""Setting a character up, and what belongs to it: roles, limits, presets, mirroring."""

from typing import TYPE_CHECKING, Any, Literal

import bpy
from bpy.props import BoolProperty, EnumProperty, StringProperty
from bpy.types import Context, Object, Operator, UILayout, UIList

from ..core.errors import IKError
from ..scene import posing
from ..scene.joint_properties import POISE_PG_joint, POISE_PG_role
from ..scene.properties import POISE_PG_armature, settings_of
from .operators import (
    _obstacle,  # pyright: ignore[reportPrivateUsage]
    _possible,  # pyright: ignore[reportPrivateUsage]
    _refuse,  # pyright: ignore[reportPrivateUsage]
    require_armature,
)
from .panels import _ArmaturePanel, draw_words  # pyright: ignore[reportPrivateUsage]

UNSURE = 0.5
"""Confidence [1] below which a row of the table has a warning sign."""


class _ArmatureOperator(Operator):
    """An operator that needs an armature and nothing else; not registered itself."""

    bl_options = {'REGISTER', 'UNDO'}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return _possible(cls, _obstacle(context, needs_effectors=False))


def active_bone(context: Context) -> str:
    """Give the name of the active bone of the armature; empty without one."""
    data: Any = require_armature(context).data
    return data.bones.active.name if data.bones.active else ""


def selected_bones(context: Context) -> list[str]:
    """Give the names of the selected pose bones; the active one outside Pose Mode."""
    selected = context.selected_pose_bones_from_active_object or ()
    return [bone.name for bone in selected] or [name for name in (active_bone(context),) if name]


class POISE_OT_setup_character(_ArmatureOperator):
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

    if TYPE_CHECKING:
        use_table: bool
        poles: bool
        limits: bool

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        try:
            report = posing.setup_character(
                armature, use_table=self.use_table, poles=self.poles, limits=self.limits
            )
        except IKError as error:
            return _refuse(self, error)
        settings_of(armature).last_message = report.summary()
        settings_of(armature).last_reached = report.ready
        self.report({'INFO'} if report.ready else {'WARNING'}, report.summary())
        return {'FINISHED'}


class POISE_OT_recognise_roles(_ArmatureOperator):
    """Fill the table of roles from the bones' names and places; changes in it are lost"""

    bl_idname = "poise.recognise_roles"
    bl_label = "Recognise Roles"

    def execute(self, context: Context) -> set[str]:
        try:
            character = posing.recognise_roles(require_armature(context))
        except IKError as error:
            return _refuse(self, error)
        self.report({'INFO'}, f"{len(character.choices)} bones have a role, {len(character.left_out)} none")
        return {'FINISHED'}


class POISE_OT_edit_roles(_ArmatureOperator):
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
        settings = settings_of(require_armature(context))
        if self.action == 'ADD':
            row: Any = settings.roles.add()
            row.bone, row.reason = active_bone(context), "chosen by hand"
            settings.active_role = len(settings.roles) - 1
        elif settings.active_role < len(settings.roles):
            settings.roles.remove(settings.active_role)
            settings.active_role = max(0, min(settings.active_role, len(settings.roles) - 1))
        return {'FINISHED'}


class POISE_OT_read_limits(_ArmatureOperator):
    """Read IK limits, IK stiffness and Limit Rotation constraints of all bones, to be edited"""

    bl_idname = "poise.read_limits"
    bl_label = "Read Limits"

    def execute(self, context: Context) -> set[str]:
        try:
            found = posing.read_limits(require_armature(context))
        except IKError as error:
            return _refuse(self, error)
        self.report({'WARNING'} if found.notes else {'INFO'}, found.summary())
        return {'FINISHED'}


class POISE_OT_edit_limits(_ArmatureOperator):
    """Give the selected bones limits of their own, or let them have those of the rig again"""

    bl_idname = "poise.edit_limits"
    bl_label = "Edit Limits"

    action: EnumProperty(
        name="Action",
        description="What to do with the limits of the selected bones",
        items=(
            ('OWN', "Own", "Begin with those that the bone has, to be edited"),
            ('RIG', "From Rig", "Take the entry away: the bone's IK limits count again"),
        ),
        default='OWN',
    )

    if TYPE_CHECKING:
        action: Literal['OWN', 'RIG']

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        bones = selected_bones(context)
        if not bones:
            self.report({'ERROR'}, "Select bones in Pose Mode")
            return {'CANCELLED'}
        try:
            if self.action == 'RIG':
                posing.remove_limits(armature, bones)
            else:
                for bone in bones:
                    posing.own_limits(armature, bone)
        except IKError as error:
            return _refuse(self, error)
        return {'FINISHED'}


class POISE_OT_save_preset(_ArmatureOperator):
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
            return _refuse(self, error)
        self.report({'INFO'}, f"Saved {report.summary()}")
        return {'FINISHED'}


class POISE_OT_load_preset(_ArmatureOperator):
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
            return _refuse(self, error)
        self.report({'WARNING'} if report.missing else {'INFO'}, f"Loaded {report.summary()}")
        return {'FINISHED'}


class POISE_OT_mirror(_ArmatureOperator):
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
            return _refuse(self, error)
        self.report({'WARNING'} if report.notes else {'INFO'}, report.summary())
        return {'FINISHED'}


# Panels


class POISE_UL_roles(UIList):
    """One bone a line: what it is in the body, which bone, and how certain that is."""

    def draw_item(
        self,
        context: Context,
        layout: UILayout,
        data: POISE_PG_armature,
        item: POISE_PG_role,
        icon: int,
        active_data: POISE_PG_armature,
        active_property: str,
    ) -> None:
        """Draw one line; a guess has a warning sign."""
        row = layout.row(align=True)
        side = {'LEFT': " L", 'RIGHT': " R"}.get(item.side, "")
        number = f" ({item.figure + 1})" if item.figure else ""
        words = row.row()
        words.ui_units_x = 5.0
        words.label(text=f"{item.role.replace('_', ' ').title()}{side}{number}")
        row.label(text=item.bone, icon='BONE_DATA')
        cell = row.row()
        cell.ui_units_x = 2.0
        cell.label(
            text=f"{100.0 * item.confidence:.0f} %", icon='ERROR' if item.confidence < UNSURE else 'NONE'
        )


class POISE_PT_character(_ArmaturePanel):
    """The one button, and the table of what was recognised."""

    bl_label = "Character"

    def draw(self, context: Context) -> None:
        """Draw the button, the table, and the active row."""
        layout = self.layout
        armature = require_armature(context)
        settings = settings_of(armature)
        row = layout.row()
        row.scale_y = 1.3
        row.operator("poise.setup_character", icon='OUTLINER_OB_ARMATURE')
        if not settings.roles:
            return
        header, body = layout.panel("POISE_roles", default_closed=True)
        header.label(text=f"Roles ({len(settings.roles)})")
        if body is None:
            return
        row = body.row()
        row.template_list("POISE_UL_roles", "", settings, "roles", settings, "active_role", rows=5)
        buttons = row.column(align=True)
        buttons.operator("poise.edit_roles", text="", icon='ADD').action = 'ADD'
        buttons.operator("poise.edit_roles", text="", icon='REMOVE').action = 'REMOVE'
        buttons.separator()
        buttons.operator("poise.recognise_roles", text="", icon='FILE_REFRESH')
        if settings.active_role < len(settings.roles):
            self.draw_role(body, context, armature, settings.roles[settings.active_role])

    def draw_role(self, layout: UILayout, context: Context, armature: Object, role: POISE_PG_role) -> None:
        """Draw the fields of a row and why it is there."""
        column = layout.column()
        column.use_property_split = True
        column.use_property_decorate = False
        column.prop(role, "role")
        column.prop(role, "side")
        column.prop_search(role, "bone", armature.data, "bones")
        if role.reason:
            draw_words(column, context, role.reason, 'INFO')


class POISE_PT_limits(_ArmaturePanel):
    """Limits and stiffness of the active bone."""

    bl_label = "Limits"
    bl_options = {'DEFAULT_CLOSED'}

    def draw(self, context: Context) -> None:
        """Draw each axis with its range, stiffness and preferred angle."""
        layout = self.layout
        armature = require_armature(context)
        row = layout.row(align=True)
        row.operator("poise.read_limits", icon='IMPORT')
        bone = active_bone(context)
        if not bone:
            draw_words(layout, context, "Select a bone in Pose Mode.", 'INFO')
            return
        entry = next((e for e in settings_of(armature).joints if e.name == bone), None)
        row = layout.row(align=True)
        row.label(text=bone, icon='BONE_DATA')
        if entry is None:
            row.operator("poise.edit_limits", text="Edit").action = 'OWN'
            return
        row.operator("poise.edit_limits", text="From Rig").action = 'RIG'
        self.draw_joint(layout, context, armature, entry)

    def draw_joint(self, layout: UILayout, context: Context, armature: Object, entry: POISE_PG_joint) -> None:
        """Draw the fields of an entry."""
        if entry.source:
            layout.label(text=f"From: {entry.source}")
        pose: Any = armature.pose
        bone = pose.bones[entry.name]
        if bone.rotation_mode in {'QUATERNION', 'AXIS_ANGLE'}:
            layout.prop(entry, "order")
        for axis, letter in enumerate("XYZ"):
            box = layout.column(align=True)
            row = box.row(align=True)
            row.prop(entry, "use_limit", index=axis, text=letter, toggle=True)
            ends = row.row(align=True)
            ends.active = entry.use_limit[axis]
            ends.alert = entry.use_limit[axis] and entry.lower[axis] > entry.upper[axis]
            ends.prop(entry, "lower", index=axis, text="")
            ends.prop(entry, "upper", index=axis, text="")
            row = box.row(align=True)
            row.prop(entry, "stiffness", index=axis, text="Stiff", slider=True)
            row.prop(entry, "preferred", index=axis, text="Likes")
        row = layout.row()
        row.prop(entry, "is_held")
        row.prop(entry, "may_move")


class POISE_MT_presets(bpy.types.Menu):
    """The presets that there are."""

    bl_label = "Load Preset"

    def draw(self, context: Context) -> None:
        """Draw one line for each."""
        layout: Any = self.layout
        names = posing.preset_names()
        for name in names:
            layout.operator("poise.load_preset", text=name).name = name
        if not names:
            layout.label(text="No presets saved yet")


class POISE_PT_sharing(_ArmaturePanel):
    """Presets and mirroring."""

    bl_label = "Presets and Mirror"
    bl_options = {'DEFAULT_CLOSED'}

    def draw(self, context: Context) -> None:
        """Draw the buttons."""
        layout = self.layout
        row = layout.row(align=True)
        row.menu("POISE_MT_presets", icon='PRESET')
        row.operator("poise.save_preset", text="Save", icon='ADD')
        row = layout.row(align=True)
        for direction, text in (('FLIP', "Flip"), ('LEFT_TO_RIGHT', "L to R"), ('RIGHT_TO_LEFT', "R to L")):
            row.operator("poise.mirror", text=text, icon='MOD_MIRROR').direction = direction


CLASSES = (
    POISE_OT_setup_character,
    POISE_OT_recognise_roles,
    POISE_OT_edit_roles,
    POISE_OT_read_limits,
    POISE_OT_edit_limits,
    POISE_OT_save_preset,
    POISE_OT_load_preset,
    POISE_OT_mirror,
    POISE_UL_roles,
    POISE_PT_character,
    POISE_PT_limits,
    POISE_MT_presets,
    POISE_PT_sharing,
)

register, unregister = bpy.utils.register_classes_factory(CLASSES)

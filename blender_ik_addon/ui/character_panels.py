# SPDX-License-Identifier: GPL-3.0-or-later
# The stubs hold that a context may lack anything; a panel that is drawn has a region and a scene.
# pyright: reportOptionalMemberAccess=false
"""Panels of a character: roles, limits, presets and mirroring."""

from typing import Any

import bpy
from bpy.types import Context, Object, UILayout, UIList

from ..scene import posing
from ..scene.properties.joint_properties import POISE_PG_joint, POISE_PG_role
from ..scene.properties.settings import POISE_PG_armature, settings_of
from .acting import active_bone, require_armature
from .panels import _ArmaturePanel, draw_words  # pyright: ignore[reportPrivateUsage]

UNSURE = 0.5
"""Confidence [1] below which a row of the table has a warning sign."""


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
    """The table of what was recognised, by which Set-up Character goes."""

    bl_label = "Roles"
    bl_order = 1
    bl_options = {'DEFAULT_CLOSED'}

    def draw(self, context: Context) -> None:
        """Draw the table with its buttons, and the active row."""
        body = self.layout
        armature = require_armature(context)
        settings = settings_of(armature)
        if not settings.roles:
            body.operator("poise.recognise_roles", icon='FILE_REFRESH')
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
    bl_order = 2
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
        layout.operator("poise.edit_limits", text="Prefer Pose").action = 'PREFER'
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
            box.prop(entry, "stiffness", index=axis, text="Stiffness", slider=True)
            box.prop(entry, "preferred", index=axis, text="Preferred Angle")
        row = layout.row()
        row.prop(entry, "is_held")
        row.prop(entry, "may_move")


class POISE_PT_masses(_ArmaturePanel):
    """What bones weigh, for effectors of the kind Balance."""

    bl_label = "Masses"
    bl_order = 2
    bl_options = {'DEFAULT_CLOSED'}

    def draw(self, context: Context) -> None:
        """Draw the mass of the body and that of the active bone."""
        layout = self.layout
        armature = require_armature(context)
        settings = settings_of(armature)
        column = layout.column()
        column.use_property_split = True
        column.use_property_decorate = False
        column.prop(settings, "mass_source")
        if settings.mass_source == 'MESHES':
            column.operator("poise.measure_meshes", icon='MESH_DATA')
            measured = (
                f"{1e3 * settings.mesh_volume:.3g} litres, {len(settings.mesh_masses)} bones"
                if settings.mesh_masses
                else "Not measured yet: bones weigh by role"
            )
            column.label(text=measured, icon='INFO' if settings.mesh_masses else 'ERROR')
        column.prop(settings, "body_mass")
        bone = active_bone(context)
        if not bone:
            draw_words(layout, context, "Select a bone in Pose Mode.", 'INFO')
            return
        entry = next((e for e in settings.masses if e.name == bone), None)
        row = layout.row(align=True)
        row.label(text=bone, icon='BONE_DATA')
        if entry is None:
            row.operator("poise.edit_masses", text="Edit").action = 'OWN'
        else:
            row.prop(entry, "mass", text="")
            row.operator("poise.edit_masses", text="", icon='X').action = 'REMOVE'


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
    bl_order = 7
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
    POISE_UL_roles,
    POISE_PT_character,
    POISE_PT_limits,
    POISE_PT_masses,
    POISE_MT_presets,
    POISE_PT_sharing,
)

register, unregister = bpy.utils.register_classes_factory(CLASSES)

# SPDX-License-Identifier: GPL-3.0-or-later
# A property is declared once for Blender and once, under TYPE_CHECKING, with its type. The stubs hold that a
# context may lack anything; poll and Blender see to it that it does not.
# pyright: reportRedeclaration=false, reportOptionalMemberAccess=false
"""Several targets of which one is enough: adding and removing them, and how they are shown."""

from typing import TYPE_CHECKING, Any

import bpy
from bpy.props import IntProperty
from bpy.types import Context, UILayout

from ..core.errors import IKError
from ..scene import posing
from ..scene.properties.effector_properties import POISE_PG_effector
from ..scene.properties.settings import settings_of
from .acting import EffectorOperator, refuse, require_armature
from .shown import shown_effector


class POISE_OT_add_choice(EffectorOperator):
    """Add the selected objects as further targets, of which one is enough; an empty where none is selected"""

    bl_idname = "poise.add_choice"
    bl_label = "Add Target to Choose From"

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        settings = settings_of(armature)
        index = shown_effector(context, armature)
        entry: Any = settings.effectors[index] if index < len(settings.effectors) else None
        there = set() if entry is None else {entry.target, *(other.target for other in entry.others)}
        wanted = [chosen for chosen in context.selected_objects if chosen not in {armature, *there}]
        try:
            for target in wanted or [None]:
                posing.add_choice(armature, index, target)
        except IKError as error:
            return refuse(self, error)
        return {'FINISHED'}


class POISE_OT_remove_choice(EffectorOperator):
    """Take a target away from those to choose from; the object stays in the scene"""

    bl_idname = "poise.remove_choice"
    bl_label = "Remove Target to Choose From"

    number: IntProperty(name="Number", description="Which target, 0 the first", default=0, min=0)

    if TYPE_CHECKING:
        number: int

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        try:
            posing.remove_choice(armature, shown_effector(context, armature), self.number)
        except IKError as error:
            return refuse(self, error)
        return {'FINISHED'}


def draw_choices(layout: UILayout, effector: POISE_PG_effector) -> None:
    """Draw the targets of an effector one below the other, with buttons to add and remove them."""
    column = layout.column(align=True)
    for number, entry in enumerate([effector, *effector.others]):
        row = column.row(align=True)
        row.prop(entry, "target", text="Target" if number == 0 else "or")
        if len(effector.others):
            row.operator("poise.remove_choice", text="", icon='REMOVE').number = number
        if entry.target and entry.target.type == 'ARMATURE':
            column.prop_search(entry, "target_bone", entry.target.data, "bones")
    column.operator("poise.add_choice", text="Add Target", icon='ADD')
    if effector.taken:
        layout.label(text=f"Took {effector.taken}", icon='CHECKMARK')


CLASSES = (POISE_OT_add_choice, POISE_OT_remove_choice)

register, unregister = bpy.utils.register_classes_factory(CLASSES)

# SPDX-License-Identifier: GPL-3.0-or-later
# The stubs hold that a context may lack anything; poll and Blender see to it that it does not.
# pyright: reportOptionalMemberAccess=false
"""What is at the mouse: a pie menu, and a pin for the bones that are selected."""

from itertools import chain
from typing import TYPE_CHECKING, Any

import bpy
from bpy.types import Context, Menu, Object

from ..scene import posing
from ..scene.effectors.effectors import target_of
from ..scene.kinds.kinds import KINDS
from ..scene.properties.settings import settings_of
from .acting import ArmatureOperator, context_armature, require_armature
from .overlay import overlay_of


def chosen_bones(context: Context, armature: Object) -> list[str]:
    """Give the bones that are meant: those selected, or those of the selected targets."""
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


class POISE_OT_pin_bones(ArmatureOperator):
    """Pin the selected bones where they are now, or release them if all are pinned"""

    bl_idname = "poise.pin_bones"
    bl_label = "Pin Bones"

    @classmethod
    def obstacle(cls, context: Context) -> str:
        if obstacle := super().obstacle(context):
            return obstacle
        chosen = chosen_bones(context, require_armature(context))
        return "" if chosen else "Select bones in Pose Mode, or targets of effectors"

    def act(self, context: Context, armature: Object) -> None:
        effectors = settings_of(armature).effectors
        able = [(row, entry.bone) for row, entry in enumerate(effectors) if KINDS[entry.kind].pinnable]
        entries = {
            bone: [row for row, own in able if own == bone] for bone in chosen_bones(context, armature)
        }
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


class POISE_MT_pie(Menu):
    """Buttons for posing, at the mouse"""

    bl_label = "Poise"

    if TYPE_CHECKING:
        layout: Any

    @classmethod
    def poll(cls, context: Context) -> bool:
        """Leave the key to others if there is no armature."""
        return context_armature(context) is not None

    def draw(self, context: Context) -> None:
        """Draw the buttons, most used first: left, right, below, above, corners."""
        pie = self.layout.menu_pie()
        settings = settings_of(require_armature(context))
        pie.operator("poise.pin_bones", icon='PINNED')
        pie.operator("poise.live", text="Live Off" if settings.live else "Live On", icon='REC')
        pie.operator("poise.solve_pose", icon='CON_KINEMATIC')
        pie.operator("poise.drag", icon='VIEW_PAN')
        pie.operator("poise.key_pose", icon='KEYINGSET')
        pie.operator("poise.bake", icon='KEY_HLT')
        pie.operator("poise.setup_character", icon='OUTLINER_OB_ARMATURE')
        pie.prop(overlay_of(context.scene), "show", text="Overlay", icon='OVERLAY')


CLASSES = (POISE_OT_pin_bones, POISE_MT_pie)

register, unregister = bpy.utils.register_classes_factory(CLASSES)

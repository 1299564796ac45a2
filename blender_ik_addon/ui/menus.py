# SPDX-License-Identifier: GPL-3.0-or-later
# The stubs hold that a context may lack anything; poll and Blender see to it that it does not.
# pyright: reportOptionalMemberAccess=false
"""What is at the mouse: a pie menu, and a pin for the bones that are selected."""

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import bpy
from bpy.types import Context, Menu, Object, Operator

from ..core.errors import IKError
from ..scene import posing
from ..scene.effectors.effectors import target_of
from ..scene.properties.effector_properties import PINNABLE
from ..scene.properties.settings import settings_of
from .acting import context_armature, obstacle_to, possible, refuse, require_armature
from .overlay import overlay_of


def chosen_bones(context: Context, armature: Object) -> list[str]:
    """Give the bones that are meant: those selected, or those of the selected targets."""
    if context.active_object == armature:
        return [bone.name for bone in context.selected_pose_bones_from_active_object or ()]
    selected = set(context.selected_objects)
    return [entry.bone for entry in settings_of(armature).effectors if entry.target in selected]


def pinnable_entries(armature: Object, bone: str) -> Iterator[int]:
    """Give the effectors of a bone that can hold it, by index."""
    for index, entry in enumerate(settings_of(armature).effectors):
        if entry.bone == bone and entry.kind in PINNABLE:
            yield index


def let_go(armature: Object, index: int) -> None:
    """Unpin an effector; one without a target was there for the pin alone, and goes with it."""
    settings = settings_of(armature)
    if target_of(settings.effectors[index]) is not None:
        posing.unpin(armature, index)
        return
    posing.remove_effector(armature, index)
    if settings.active_effector > index or settings.active_effector >= len(settings.effectors):
        settings.active_effector = max(0, settings.active_effector - 1)


class POISE_OT_pin_bones(Operator):
    """Hold the selected bones where they are now, or let them go again if all of them are held"""

    bl_idname = "poise.pin_bones"
    bl_label = "Pin Bones"
    bl_options = {'REGISTER', 'UNDO'}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obstacle = obstacle_to(context, needs_effectors=False)
        if not obstacle and not chosen_bones(context, require_armature(context)):
            obstacle = "Select bones in Pose Mode, or targets of effectors"
        return possible(cls, obstacle)

    def execute(self, context: Context) -> set[str]:
        armature = require_armature(context)
        effectors = settings_of(armature).effectors
        changed = 0
        entries = {bone: list(pinnable_entries(armature, bone)) for bone in chosen_bones(context, armature)}
        held = all(own and all(effectors[index].pinned for index in own) for own in entries.values())
        try:
            for bone, own in entries.items():
                if not own:
                    own.append(posing.add_effector(armature, bone, make_target=False))
                    changed += 1
                for index in () if held else own:
                    posing.pin(armature, index)
                    changed += 1
            for index in sorted(chain(*entries.values()), reverse=True) if held else ():
                let_go(armature, index)
                changed += 1
        except IKError as error:
            refused = refuse(self, error)
            return {'FINISHED'} if changed else refused
        self.report({'INFO'}, f"{', '.join(entries)}: {'free' if held else 'pinned'}")
        return {'FINISHED'}


class POISE_MT_pie(Menu):
    """All that one wants at hand while posing"""

    bl_label = "Poise"

    if TYPE_CHECKING:
        layout: Any

    @classmethod
    def poll(cls, context: Context) -> bool:
        """Leave the key alone where there is no figure."""
        return context_armature(context) is not None

    def draw(self, context: Context) -> None:
        """Draw what is wanted most to the left and the right, then below and above, then between."""
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

# SPDX-License-Identifier: GPL-3.0-or-later
"""Presets of the options of a bake, by Blender's own mechanism: files of settings in the user's folder.

They hold the settings from which the button, scripts and the command line take what is not given. The options
of the operator are no part of them: these are forgotten after each bake, on purpose.
"""

from typing import Any, Final

import bpy
from bl_operators.presets import AddPresetBase
from bl_ui.utils import PresetPanel
from bpy.types import Context, Operator, Panel

from ..scene.properties.settings import POISE_PG_armature
from .acting import flag

SUBFOLDER: Final = "poise/bake"
"""Where Blender keeps them, below its folder of presets."""

HIDDEN: Final = {'HIDDEN', 'SKIP_SAVE'}

LEFT_OUT: Final = frozenset({"bake_start", "bake_end"})
"""Options that belong to a shot."""

OPTIONS: Final = tuple(
    name for name in POISE_PG_armature.__annotations__ if name.startswith("bake_") and name not in LEFT_OUT
)
"""Settings that a preset holds."""


class POISE_PT_bake_presets(PresetPanel, Panel):
    """Presets of the options of a bake"""

    bl_label = "Bake Presets"
    preset_subdir = SUBFOLDER
    preset_operator = "script.execute_preset"
    preset_add_operator = "poise.add_bake_preset"


class POISE_OT_add_bake_preset(AddPresetBase, Operator):
    """Add the options of the bake as a preset, or remove one"""

    bl_idname = "poise.add_bake_preset"
    bl_label = "Add Bake Preset"
    # Blender declares both without a tooltip.
    remove_name: flag("Remove by Name", "Remove the preset of this name", default=False, options=HIDDEN)
    remove_active: flag("Remove Active", "Remove the preset that is shown", default=False, options=HIDDEN)
    preset_menu = "POISE_PT_bake_presets"
    preset_subdir = SUBFOLDER
    preset_defines = ("settings = bpy.context.object.poise",)
    preset_values = tuple(f"settings.{name}" for name in (*OPTIONS, "pop_angle", "smoothness"))


def draw_presets(layout: Any, context: Context) -> None:
    """Draw the button that opens them, where the active object is the one that has the settings."""
    active = context.active_object
    if active is not None and active.type == 'ARMATURE':
        POISE_PT_bake_presets.draw_panel_header(layout)


CLASSES = (POISE_OT_add_bake_preset, POISE_PT_bake_presets)

register, unregister = bpy.utils.register_classes_factory(CLASSES)

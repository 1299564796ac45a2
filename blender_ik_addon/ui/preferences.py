# SPDX-License-Identifier: GPL-3.0-or-later
"""The preferences of the extension: colours and sizes of the overlay, and the shortcuts."""

from types import SimpleNamespace
from typing import Any, Final

import bpy
from bpy.props import FloatProperty, FloatVectorProperty, IntProperty
from bpy.types import AddonPreferences, Context

from ..scene.properties.settings import EXTENSION
from .shortcuts import draw_shortcuts

Colour = tuple[float, float, float, float]
"""Red, green, blue, opacity [1]."""

PLAIN: Final = SimpleNamespace(
    reached=(0.15, 0.85, 0.3, 0.9),
    missed=(1.0, 0.2, 0.12, 0.95),
    pin=(1.0, 0.75, 0.1, 1.0),
    limit=(1.0, 0.35, 0.75, 0.9),
    balance=(0.3, 0.7, 1.0, 0.9),
    text=(1.0, 1.0, 1.0, 0.9),
    line_width=2.0,
    point_size=9.0,
    text_size=12,
)
"""Colours and sizes of the overlay before the user chooses others [pixels, points]."""


def look(context: Context) -> Any:
    """The user's colours and sizes; the plain ones where there are no preferences, as in tests."""
    entry = context.preferences.addons.get(EXTENSION)
    preferences: Any = None if entry is None else entry.preferences
    return PLAIN if preferences is None else preferences


def _colour(name: str, description: str, default: Colour) -> Any:
    return FloatVectorProperty(
        name=name, description=description, subtype='COLOR_GAMMA', size=4, min=0.0, max=1.0, default=default
    )


class POISE_AP_preferences(AddonPreferences):
    """Colours and sizes of the overlay, and the shortcuts."""

    bl_idname = EXTENSION

    reached: _colour("Reached", "Where a target is reached", PLAIN.reached)
    missed: _colour("Missed", "Where a target is missed; in between colours are mixed", PLAIN.missed)
    pin: _colour("Pin", "Bones that are pinned", PLAIN.pin)
    limit: _colour("Limit", "Joints that stand on a limit", PLAIN.limit)
    balance: _colour("Balance", "Centre of mass, and what the body stands on", PLAIN.balance)
    text: _colour("Text", "Names and amounts", PLAIN.text)
    line_width: FloatProperty(
        name="Line Width", description="In pixels", default=PLAIN.line_width, min=1.0, max=10.0
    )
    point_size: FloatProperty(
        name="Point Size", description="In pixels", default=PLAIN.point_size, min=2.0, max=40.0
    )
    text_size: IntProperty(name="Text Size", description="In points", default=PLAIN.text_size, min=6, max=40)

    def draw(self, context: Context) -> None:
        layout: Any = self.layout
        column = layout.column()
        column.use_property_split = True
        for title, names in (
            ("Colours of the Overlay", ("reached", "missed", "pin", "limit", "balance", "text")),
            ("Sizes of the Overlay", ("line_width", "point_size", "text_size")),
        ):
            column.label(text=title)
            fields = column.column(align=True)
            for name in names:
                fields.prop(self, name)
        layout.label(text="Shortcuts")
        draw_shortcuts(layout.column(), context)


CLASSES = (POISE_AP_preferences,)

register, unregister = bpy.utils.register_classes_factory(CLASSES)

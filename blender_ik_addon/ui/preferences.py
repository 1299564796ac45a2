# SPDX-License-Identifier: GPL-3.0-or-later
"""The preferences of the extension: colours and sizes of the overlay, and the shortcuts."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import bpy
from bpy.props import FloatProperty, FloatVectorProperty, IntProperty
from bpy.types import AddonPreferences, Context

from ..scene.properties.settings import EXTENSION
from .shortcuts import draw_shortcuts

Colour = tuple[float, float, float, float]
"""Red, green, blue, opacity [1]."""


@dataclass(frozen=True)
class Look:
    """Colours and sizes of the overlay."""

    reached: Colour = (0.15, 0.85, 0.3, 0.9)
    missed: Colour = (1.0, 0.2, 0.12, 0.95)
    pin: Colour = (1.0, 0.75, 0.1, 1.0)
    limit: Colour = (1.0, 0.35, 0.75, 0.9)
    balance: Colour = (0.3, 0.7, 1.0, 0.9)
    text: Colour = (1.0, 1.0, 1.0, 0.9)
    line_width: float = 2.0
    """[pixels]"""
    point_size: float = 9.0
    """[pixels]"""
    text_size: int = 12
    """[points]"""


PLAIN: Final = Look()


def look(context: Context) -> Look:
    """Return the user's colours and sizes; the plain ones where there are no preferences, as in tests."""
    entry = context.preferences.addons.get(EXTENSION)
    preferences: Any = entry.preferences if entry is not None else None
    if preferences is None:
        return PLAIN
    values: dict[str, Any] = {}
    for name in Look.__dataclass_fields__:
        value = getattr(preferences, name)
        values[name] = value if isinstance(value, int | float) else tuple(value)
    return Look(**values)


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

    if TYPE_CHECKING:
        layout: Any

    def draw(self, context: Context) -> None:
        """Draw colours and sizes, then the shortcuts."""
        layout = self.layout.column()
        layout.use_property_split = True
        for title, names in (
            ("Colours of the Overlay", ("reached", "missed", "pin", "limit", "balance", "text")),
            ("Sizes of the Overlay", ("line_width", "point_size", "text_size")),
        ):
            layout.label(text=title)
            column = layout.column(align=True)
            for name in names:
                column.prop(self, name)
        self.layout.label(text="Shortcuts")
        draw_shortcuts(self.layout.column(), context)


CLASSES = (POISE_AP_preferences,)

register, unregister = bpy.utils.register_classes_factory(CLASSES)

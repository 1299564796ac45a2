# SPDX-License-Identifier: GPL-3.0-or-later
"""The preferences of the extension: colours and sizes of the overlay, and the shortcuts.

Shortcuts are in the add-on keyconfig, where the user changes them as any other; a test holds that they take
nothing from Blender's own.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import bpy
import rna_keymap_ui
from bpy.props import FloatProperty, FloatVectorProperty, IntProperty
from bpy.types import AddonPreferences, Context, KeyMap, KeyMapItem

from ..scene.properties.settings import EXTENSION

Colour = tuple[float, float, float, float]
"""Red, green, blue, opacity [1]."""


def look(context: Context) -> Any:
    """The user's colours and sizes; the plain ones where there are no preferences, as in tests."""
    entry = context.preferences.addons.get(EXTENSION)
    preferences: Any = None if entry is None else entry.preferences
    return PLAIN if preferences is None else preferences


def _colour(name: str, description: str, default: Colour) -> Any:
    return FloatVectorProperty(
        name=name, description=description, subtype='COLOR_GAMMA', size=4, min=0.0, max=1.0, default=default
    )


def _size(name: str, description: str, default: float, least: float, most: float) -> Any:
    return FloatProperty(name=name, description=description, default=default, min=least, max=most)


PIE: Final = "POISE_MT_pie"
"""Name of the pie menu."""


class Shortcut(NamedTuple):
    """A key and what it does."""

    keymap: str
    """Name of the keymap, which says in which mode the key counts."""
    operator: str
    menu: str = ""
    """Which menu it opens; empty for an operator that is none of menus."""
    shift: bool = False
    alt: bool = False
    ctrl: bool = False
    key: str = "V"
    title: str = ""
    """What the preferences call it: Blender's own row of a menu has its name alone, which says less."""


SHORTCUTS: Final = (
    Shortcut("Pose", "wm.call_menu_pie", PIE, title="Pie Menu, Pose Mode"),
    Shortcut("Object Mode", "wm.call_menu_pie", PIE, title="Pie Menu, Object Mode"),
    Shortcut("Pose", "poise.drag", shift=True, title="Drag Bone, Pose Mode"),
    Shortcut("Pose", "poise.set_state", ctrl=True, alt=True, title="Next State, Pose Mode"),
    Shortcut("Object Mode", "poise.set_state", ctrl=True, alt=True, title="Next State, Object Mode"),
    Shortcut("Pose", "poise.live", alt=True, title="Live, Pose Mode"),
    Shortcut("Object Mode", "poise.live", alt=True, title="Live, Object Mode"),
    Shortcut("Pose", "poise.snap_targets", shift=True, alt=True, title="Snap Targets, Pose Mode"),
    Shortcut("Object Mode", "poise.snap_targets", shift=True, alt=True, title="Snap Targets, Object Mode"),
)
"""Blender has V, with Shift, with Alt, with both and with Ctrl and Alt, free in both modes."""
INDUSTRY: Final = "industry_compatible"
"""Blender's other keymap, in which V alone opens its own pie menu of views."""


def shortcuts_in(keyconfig: str) -> tuple[Shortcut, ...]:
    """Give the shortcuts beside a keymap of Blender, which is called as in the preferences."""
    if keyconfig.lower() != INDUSTRY:
        return SHORTCUTS
    in_place_of = {(False, False): (True, True, False), (True, True): (True, True, True)}
    """With Shift, with Alt -> with Shift, Alt and Ctrl."""
    return tuple(
        shortcut._replace(shift=keys[0], alt=keys[1], ctrl=keys[2])
        if not shortcut.ctrl and (keys := in_place_of.get((shortcut.shift, shortcut.alt)))
        else shortcut
        for shortcut in SHORTCUTS
    )


_added: list[tuple[KeyMap, KeyMapItem]] = []
"""What was registered, to be taken away again."""


def _present(context: Context) -> Iterator[tuple[Shortcut, Any, Any]]:
    """The shortcuts, each with its keymap and its item there as the user has them now."""
    keyconfig: Any = context.window_manager.keyconfigs.user
    for shortcut in SHORTCUTS:
        keymap: Any = keyconfig.keymaps.get(shortcut.keymap)
        for item in keymap.keymap_items if keymap is not None else ():
            menu = item.properties.name if item.idname == "wm.call_menu_pie" else ""
            if (item.idname, menu) == (shortcut.operator, shortcut.menu):
                yield shortcut, keymap, item


def keys_of(context: Context, operator: str, menu: str = "") -> str:
    """The keys that call an operator or open a menu in this mode, as "Ctrl Alt V"; empty for none."""
    mode = "Pose" if context.mode == 'POSE' else "Object Mode"
    keys = (
        item.to_string()
        for shortcut, _keymap, item in _present(context)
        if (shortcut.keymap, shortcut.operator, shortcut.menu) == (mode, operator, menu) and item.active
    )
    return next(keys, "")


def draw_shortcuts(layout: Any, context: Context) -> None:
    """Draw the shortcuts as the user has them now, to be changed."""
    for shortcut, keymap, item in _present(context):
        row = layout.split(factor=0.25)
        row.label(text=shortcut.title)
        column = row.column()
        column.context_pointer_set("keymap", keymap)
        rna_keymap_ui.draw_kmi([], context.window_manager.keyconfigs.user, keymap, item, column, 0)


class POISE_AP_preferences(AddonPreferences):
    """Colours and sizes of the overlay, and the shortcuts."""

    bl_idname = EXTENSION

    reached: _colour("Reached", "Where a target is reached", (0.15, 0.85, 0.3, 0.9))
    missed: _colour(
        "Missed", "Where a target is missed; in between colours are mixed", (1.0, 0.2, 0.12, 0.95)
    )
    pin: _colour("Pin", "Bones that are pinned", (1.0, 0.75, 0.1, 1.0))
    limit: _colour("Limit", "Joints that stand on a limit", (1.0, 0.35, 0.75, 0.9))
    balance: _colour("Balance", "Centre of mass, and what the body stands on", (0.3, 0.7, 1.0, 0.9))
    text: _colour("Text", "Names and amounts", (1.0, 1.0, 1.0, 0.9))
    trail_before: _colour("Before", "Trails and ghosts before the present frame", (0.2, 0.65, 1.0, 1.0))
    trail_after: _colour("After", "Trails and ghosts after the present frame", (1.0, 0.55, 0.15, 1.0))
    line_width: _size("Line Width", "In pixels", 2.0, 1.0, 10.0)
    point_size: _size("Point Size", "In pixels", 9.0, 2.0, 40.0)
    handle_size: _size(
        "Handle Size",
        "How wide handles are for the mouse, and the rings about them, in pixels",
        *(20.0, 6.0, 80.0),
    )
    trail_size: _size(
        "Trail Points",
        "How wide the points of trails are, in pixels; those of keys are twice as wide",
        *(5.0, 1.0, 20.0),
    )
    ghost_width: _size("Ghost Width", "Width of the lines of ghosts, in pixels", 4.0, 1.0, 20.0)
    text_size: IntProperty(name="Text Size", description="In points", default=12, min=6, max=40)

    def draw(self, context: Context) -> None:
        layout: Any = self.layout
        column = layout.column()
        column.use_property_split = True
        for title, names in (
            ("Colours of the Overlay", ("reached", "missed", "pin", "limit", "balance", "text")),
            ("Trails and Ghosts", ("trail_before", "trail_after", "trail_size", "ghost_width")),
            ("Sizes of the Overlay", ("line_width", "point_size", "handle_size", "text_size")),
        ):
            column.label(text=title)
            fields = column.column(align=True)
            for name in names:
                fields.prop(self, name)
        layout.label(text="Shortcuts")
        draw_shortcuts(layout.column(), context)


PLAIN: Final = SimpleNamespace(
    **{name: own.keywords["default"] for name, own in POISE_AP_preferences.__annotations__.items()}
)
"""Colours and sizes before the user chooses others [pixels, points]."""

CLASSES = (POISE_AP_preferences,)

_register, _unregister = bpy.utils.register_classes_factory(CLASSES)


def register() -> None:
    """Add the preferences, and the shortcuts where there are windows."""
    _register()
    keyconfig = bpy.context.window_manager.keyconfigs.addon
    if bpy.app.background or keyconfig is None:
        return  # nobody there to press a key
    for shortcut in shortcuts_in(bpy.context.preferences.keymap.active_keyconfig):
        keymap = keyconfig.keymaps.new(name=shortcut.keymap)
        add: Any = keymap.keymap_items.new
        item = add(
            shortcut.operator,
            shortcut.key,
            'PRESS',
            shift=shortcut.shift,
            alt=shortcut.alt,
            ctrl=shortcut.ctrl,
        )
        if shortcut.menu:
            item.properties.name = shortcut.menu
        _added.append((keymap, item))


def unregister() -> None:
    """Take both away."""
    for keymap, item in _added:
        keymap.keymap_items.remove(item)
    _added.clear()
    _unregister()

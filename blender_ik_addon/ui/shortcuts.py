# SPDX-License-Identifier: GPL-3.0-or-later
"""Shortcuts: in the add-on keyconfig, where the user changes them as any other; preferences list them.

`tests/scene/test_shortcuts.py` holds that they take nothing from Blender's own.
"""

from typing import Any, Final, NamedTuple

import bpy
import rna_keymap_ui
from bpy.types import Context, KeyMap, KeyMapItem

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
    key: str = "V"
    title: str = ""
    """What the preferences call it: Blender's own row of a menu has its name alone, which says less."""


SHORTCUTS: Final = (
    Shortcut("Pose", "wm.call_menu_pie", PIE, title="Pie Menu, Pose Mode"),
    Shortcut("Object Mode", "wm.call_menu_pie", PIE, title="Pie Menu, Object Mode"),
    Shortcut("Pose", "poise.drag", shift=True, title="Drag Bone, Pose Mode"),
    Shortcut("Pose", "poise.live", alt=True, title="Live, Pose Mode"),
    Shortcut("Object Mode", "poise.live", alt=True, title="Live, Object Mode"),
)
"""Blender has V, with Shift and with Alt, free in both modes."""
INDUSTRY: Final = "industry_compatible"
"""Blender's other keymap, in which V alone opens its own pie menu of views."""


def shortcuts_in(keyconfig: str) -> tuple[Shortcut, ...]:
    """Give the shortcuts beside a keymap of Blender, which is called as in the preferences."""
    if keyconfig.lower() != INDUSTRY:
        return SHORTCUTS
    return tuple(
        shortcut._replace(shift=True, alt=True) if shortcut.menu == PIE else shortcut
        for shortcut in SHORTCUTS
    )


_added: list[tuple[KeyMap, KeyMapItem]] = []
"""What was registered, to be taken away again."""


def draw_shortcuts(layout: Any, context: Context) -> None:
    """Draw the shortcuts as the user has them now, to be changed."""
    keyconfig: Any = context.window_manager.keyconfigs.user
    for shortcut in SHORTCUTS:
        keymap: Any = keyconfig.keymaps.get(shortcut.keymap)
        for item in keymap.keymap_items if keymap is not None else ():
            menu = item.properties.name if item.idname == "wm.call_menu_pie" else ""
            if (item.idname, menu) == (shortcut.operator, shortcut.menu):
                row = layout.split(factor=0.25)
                row.label(text=shortcut.title)
                column = row.column()
                column.context_pointer_set("keymap", keymap)
                rna_keymap_ui.draw_kmi([], keyconfig, keymap, item, column, 0)


def register() -> None:
    """Add the shortcuts where there are windows."""
    keyconfig = bpy.context.window_manager.keyconfigs.addon
    if bpy.app.background or keyconfig is None:
        return  # nobody there to press a key
    for shortcut in shortcuts_in(bpy.context.preferences.keymap.active_keyconfig):
        keymap = keyconfig.keymaps.new(name=shortcut.keymap)
        add: Any = keymap.keymap_items.new
        item = add(shortcut.operator, shortcut.key, 'PRESS', shift=shortcut.shift, alt=shortcut.alt)
        if shortcut.menu:
            item.properties.name = shortcut.menu
        _added.append((keymap, item))


def unregister() -> None:
    """Take them away."""
    for keymap, item in _added:
        keymap.keymap_items.remove(item)
    _added.clear()

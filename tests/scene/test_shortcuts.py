# SPDX-License-Identifier: GPL-3.0-or-later
"""Shortcuts take nothing from Blender, and are there only where somebody can press them."""

from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import bpy
import pytest

from blender_ik_addon.ui import panels
from blender_ik_addon.ui.preferences import SHORTCUTS, Shortcut, shortcuts_in

EVERYWHERE = (
    "3D View",
    "3D View Generic",
    "Frames",
    "Object Non-modal",
    "Region Context Menu",
    "Screen",
    "Screen Editing",
    "User Interface",
    "Window",
)
"""Keymaps that count in the 3D viewport in any mode; one of these would be shadowed by those of the mode."""


@cache
def keymaps_of(described_in: str) -> dict[str, list[Any]]:
    """Blender's own keymaps by name, from the file that describes them: in background they are empty."""
    scripts = Path(bpy.utils.system_resource('SCRIPTS'))
    path = scripts / "presets" / "keyconfig" / "keymap_data" / f"{described_in}.py"
    spec = spec_from_file_location(f"poise_test_{described_in}", path)
    assert spec is not None
    assert spec.loader is not None
    described: Any = module_from_spec(spec)
    spec.loader.exec_module(described)
    generated = described.generate_keymaps(described.Params())
    return {name: content["items"] for name, _space, content in generated}


def uses(item: Any, shortcut: Shortcut) -> bool:
    """Whether a keymap item, (operator, keys, properties), answers the shortcut's keys."""
    keys = item[1]
    if keys["type"] != shortcut.key or keys.get("key_modifier"):
        return False
    held = [bool(keys.get(name)) for name in ("shift", "ctrl", "alt", "oskey")]
    return bool(keys.get("any")) or held == [shortcut.shift, shortcut.ctrl, shortcut.alt, False]


@pytest.mark.parametrize(
    ("described_in", "shortcut"),
    [("blender_default", shortcut) for shortcut in shortcuts_in("Blender")]
    + [("industry_compatible_data", shortcut) for shortcut in shortcuts_in("Industry_Compatible")],
    ids=lambda value: value if isinstance(value, str) else f"{value.keymap}: {value.operator}",
)
def test_blender_itself_does_nothing_with_these_keys(described_in: str, shortcut: Shortcut):
    keymaps = keymaps_of(described_in)
    assert {shortcut.keymap, *EVERYWHERE} <= set(keymaps)
    taken = [
        f"{name}: {item[0]}"
        for name in (shortcut.keymap, *EVERYWHERE)
        for item in keymaps[name]
        if uses(item, shortcut)
    ]
    assert taken == []


def test_a_key_that_blender_uses_would_be_found():
    keymaps = keymaps_of("blender_default")
    grab, paste = Shortcut("Pose", "poise.drag", key="G"), Shortcut("Pose", "poise.drag", key="V")
    assert [item[0] for item in keymaps["Pose"] if uses(item, grab)] == ["transform.translate"]
    assert [item[0] for item in keymaps["Pose"] if uses(item, paste)] == []
    views = [item for item in keymaps_of("industry_compatible_data")["3D View"] if uses(item, SHORTCUTS[0])]
    assert [item[0] for item in views] == ["wm.call_menu_pie"]


def test_every_shortcut_leads_somewhere():
    for shortcut in SHORTCUTS:
        module, _, name = shortcut.operator.partition(".")
        assert getattr(getattr(bpy.ops, module), name).get_rna_type() is not None
        assert not shortcut.menu or shortcut.menu == panels.POISE_MT_pie.__name__


def test_in_background_there_are_none():
    keymaps: Any = bpy.context.window_manager.keyconfigs.addon.keymaps
    ours = [i.idname for keymap in keymaps for i in keymap.keymap_items if i.idname.startswith("poise.")]
    assert ours == []

# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be known of the panels without a window."""

import ast
from pathlib import Path

import bpy
import pytest

from blender_ik_addon.scene import properties

UI = Path(__file__).parents[2] / "blender_ik_addon" / "ui"


def icons_named(path: Path) -> set[str]:
    """The icons that a module asks for by name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    keywords = (keyword for node in ast.walk(tree) if isinstance(node, ast.Call) for keyword in node.keywords)
    return {
        node.value
        for keyword in keywords
        if keyword.arg == "icon"
        for node in ast.walk(keyword.value)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@pytest.mark.parametrize("path", sorted(UI.glob("*.py")), ids=lambda path: path.name)
def test_icons_exist_in_this_blender(path: Path):
    known = bpy.types.UILayout.bl_rna.functions["label"].parameters["icon"].enum_items.keys()
    assert icons_named(path) <= set(known)


def test_every_property_says_what_it_is():
    for group in (properties.POISE_PG_armature, properties.POISE_PG_effector):
        own = [prop for prop in group.bl_rna.properties if prop.identifier not in {"rna_type", "name"}]
        assert all(prop.description and not prop.description.endswith(".") for prop in own)

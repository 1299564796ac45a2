# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be known of the panels without a window."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpy
import pytest

from blender_ik_addon.scene import posing
from blender_ik_addon.ui import panels

from . import builders

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
    functions = (bpy.types.UILayout, "label"), (bpy.types.WindowManager, "invoke_confirm")
    known = [own.bl_rna.functions[name].parameters["icon"].enum_items.keys() for own, name in functions]
    assert icons_named(path) <= {*known[0], *known[1]}


def properties_of(name: str, rna: Any) -> Iterator[tuple[str, str]]:
    """Properties and the items of their menus, with their tooltips."""
    for prop in rna.properties:
        if prop.identifier in {"rna_type", "name", "bl_idname"}:
            continue  # Blender's own, and the names of things
        yield f"{name}.{prop.identifier}", prop.description
        if prop.type == 'ENUM':
            for item in prop.enum_items:
                yield f"{name}.{prop.identifier}={item.identifier}", item.description


def described() -> Iterator[tuple[str, str]]:
    """All of ours that has a tooltip: what it is, what the tooltip says."""
    for base in (bpy.types.PropertyGroup, bpy.types.AddonPreferences):
        for cls in base.__subclasses__():
            if cls.__name__.startswith("POISE_") and "bl_rna" in cls.__dict__:
                yield from properties_of(cls.__name__, cls.bl_rna)
    for name in dir(bpy.ops.poise):
        rna = getattr(bpy.ops.poise, name).get_rna_type()
        yield f"poise.{name}", rna.description
        yield from properties_of(f"poise.{name}", rna)


def test_everything_has_a_tooltip():
    found = list(described())
    names = [name for name, _ in found]
    assert "poise.drag" in names
    assert "POISE_PG_effector.kind=BALANCE" in names
    assert "POISE_AP_preferences.missed" in names
    assert "POISE_PG_overlay.limits" in names
    # Blender puts the full stop itself, and something else where there is no text.
    wrong = {"", "(undocumented operator)"}
    assert [name for name, text in found if text.strip() in wrong or text.endswith(".")] == []


def test_an_effector_whose_bone_was_renamed_lacks_it():
    armature = builders.humanoid()
    entry = armature.poise.effectors[posing.add_effector(armature, "hand.L")]
    assert not panels.lacks_bone(entry)
    armature.data.bones["hand.L"].name = "paw.L"
    assert panels.lacks_bone(entry)
    entry.bone = ""
    assert panels.lacks_bone(entry)


def test_a_linked_character_is_no_armature_that_can_be_clicked(tmp_path: Path):
    made = bpy.data.collections.new("Hero")
    made.objects.link(builders.humanoid())
    bpy.data.libraries.write(str(tmp_path / "hero.blend"), {made})
    bpy.data.collections.remove(made)
    with bpy.data.libraries.load(str(tmp_path / "hero.blend"), link=True) as (_, loaded):  # pyright: ignore
        loaded.collections = ["Hero"]
    active: Any = bpy.data.objects.new("Hero", None)
    active.instance_collection = loaded.collections[0]
    assert str(panels.without_armature(active)).startswith("Hero is linked from another file: make a library")
    for other in (None, bpy.data.objects.new("Empty", None)):
        assert str(panels.without_armature(other)).startswith("Click the armature")


def test_what_was_reached_is_no_tick_where_a_target_was_deleted():
    armature = builders.humanoid()
    for bone in ("hand.L", "hand.R"):
        posing.add_effector(armature, bone)
    settings, (left, right) = armature.poise, armature.poise.effectors
    posing.solve_pose(armature)
    assert panels.state_of(armature)[1] == 'CHECKMARK'
    assert [missed for _, missed in panels.errors_of(settings, left)] == [False, False]
    bpy.data.objects.remove(left.target)
    assert panels.state_of(armature) == ("hand.L has no target: choose one, or disable the effector", 'ERROR')
    assert panels.errors_of(settings, left) == ()
    assert [missed for _, missed in panels.errors_of(settings, right)] == [False, False]
    armature.data.bones["hand.R"].name = "paw.R"
    assert panels.state_of(armature)[0].startswith("hand.L has no target, hand.R has no bone: ")
    left.enabled = right.enabled = False
    assert panels.state_of(armature)[1] == 'CHECKMARK'


@pytest.mark.parametrize("way", [-0.05, 5.0])
def test_under_the_mouse_the_list_tells_of_the_hips_that_followed_until_then(way: float, tool: list[bool]):
    armature: Any = builders.humanoid()
    posing.setup_character(armature)
    posing.switch_live(armature, True)
    bpy.context.view_layer.update()
    settings, hips = armature.poise, armature.poise.effectors["hips"]
    assert hips.state == 'FOLLOW' and panels.errors_of(settings, hips) == ()
    tool.append(True)
    hips.target.location.z += way
    bpy.context.view_layer.update()
    assert hips.state == 'FOLLOW'  # the tool may be cancelled
    (_, is_missed), _ = panels.errors_of(settings, hips)
    assert is_missed == (way > 0.0)
    said = str(panels.said_of(settings, hips))
    assert " off" in said if way > 0.0 else said == "hips: on target"


def test_what_is_said_of_an_effector_is_by_how_much_it_misses_and_its_present_state():
    armature: Any = builders.humanoid()
    posing.setup_character(armature)
    entries = armature.poise.effectors
    hand = entries["hand.L"]
    hand.kind, hand.why = 'BOTH', "far"
    for errors, said in (
        ((0.188, 2e-5), "188 mm off: far"),
        ((0.188, 0.1), "188 mm, 5.73° off: far"),
        ((2e-5, 2e-5), "on target: far"),
    ):
        hand.error_position, hand.error_rotation = errors
        assert str(panels.said_of(armature.poise, hand)) == f"hand.L: {said}"
    assert str(panels.said_of(armature.poise, entries["hips"])) == "hips: follow"
    entries["hips"].target.location.z += 0.1
    assert str(panels.said_of(armature.poise, entries["hips"])) == "hips: not solved yet"


def test_of_an_effector_without_target_or_bone_it_is_said_what_it_lacks_and_what_to_do():
    armature: Any = builders.humanoid()
    posing.setup_character(armature)
    hand = armature.poise.effectors["hand.L"]
    posing.solve_pose(armature)
    for delete in (builders.take_out_of_scenes, bpy.data.objects.remove):
        delete(hand.target)
        bpy.context.view_layer.update()
        said = str(panels.said_of(armature.poise, hand))
        assert said == "hand.L: no target (deleted?): press Make Targets, or choose one"
    hand.state = 'OFF'
    assert str(panels.said_of(armature.poise, hand)) == "hand.L: off"
    hand.state = 'REACH'
    bpy.ops.poise.make_targets()
    assert "no target" not in str(panels.said_of(armature.poise, hand))
    armature.data.bones["hand.L"].name = "paw.L"
    assert str(panels.said_of(armature.poise, hand)) == "hand.L: no bone (renamed?): choose one"


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_lines_fit_the_sidebar(scale: float):
    # As counted in a window: what is longer ends in dots there.
    assert panels.fitting_characters(200.0 * scale, scale) <= 17
    assert 28 <= panels.fitting_characters(292.0 * scale, scale) <= 32
    assert panels.fitting_characters(0.0, scale) == panels.FEWEST_CHARACTERS


def test_reasons_in_brackets_are_left_to_the_list():
    text = "2 of 6 targets missed: hand.L by 12 mm (at its limits (2): a, b), head by 3° (far); wait (what"
    assert panels.without_brackets(text) == "2 of 6 targets missed: hand.L by 12 mm, head by 3°; wait"
    assert panels.without_brackets("All 6 targets reached") == "All 6 targets reached"

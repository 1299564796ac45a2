# SPDX-License-Identifier: GPL-3.0-or-later
"""List and viewport choose the same effector: the one whose target is the active object."""

from typing import Any

import bpy
import pytest

from blender_ik_addon.scene import posing
from blender_ik_addon.ui.acting import show_effector, shown_effector

from . import builders


def figure(*bones: str) -> Any:
    armature = builders.humanoid()
    for bone in bones:
        posing.add_effector(armature, bone)
    activate(armature)
    return armature


def activate(obj: Any) -> None:
    for other in bpy.context.view_layer.objects:
        other.select_set(other == obj)
    bpy.context.view_layer.objects.active = obj


def shown() -> int:
    """The row that the list in the panel has for its active one."""
    return bpy.context.scene.poise_shown  # pyright: ignore[reportAttributeAccessIssue]


def click(row: int) -> None:
    """Choose a row of the list."""
    bpy.context.scene.poise_shown = row  # pyright: ignore[reportAttributeAccessIssue]


def selection() -> tuple[str, list[str]]:
    return bpy.context.view_layer.objects.active.name, [obj.name for obj in bpy.context.selected_objects]


def test_selecting_a_target_makes_its_effector_the_active_one():
    armature = figure("hand.L", "hand.R", "head")
    click(1)
    assert shown() == armature.poise.active_effector == 1
    activate(bpy.data.objects["humanoid head"])
    assert shown() == 2
    activate(armature)
    assert shown() == 1
    bpy.context.view_layer.objects.active = None
    assert shown() == 0  # there is no armature to speak of


def test_choosing_in_the_list_selects_the_target_while_a_target_is_active():
    armature = figure("hand.L", "hand.R", "head")
    click(1)
    assert selection() == ("humanoid", ["humanoid"])
    activate(bpy.data.objects["humanoid hand.L"])
    click(2)
    assert shown() == 2 and selection() == ("humanoid head", ["humanoid head"])
    armature.poise.effectors[1].kind = 'STAY'
    armature.poise.effectors[1].target = None
    click(1)
    assert shown() == 1 and selection() == ("humanoid", ["humanoid"])


def test_several_effectors_of_one_target_can_all_be_chosen():
    armature = figure("hand.L", "hand.R")
    target = armature.poise.effectors[0].target
    aim = posing.add_effector(armature, "head", kind='AIM', target=target)
    several = posing.add_effector(armature, "head", kind='ONE_OF')
    posing.add_choice(armature, several, target)
    activate(target)
    for row in (0, aim, several, 0):
        click(row)
        assert shown() == row and selection()[0] == target.name
    click(1)
    assert shown() == 1 and selection()[0] == "humanoid hand.R"


def test_a_target_that_is_hidden_is_not_selected():
    armature = figure("hand.L", "hand.R")
    bpy.data.objects["humanoid hand.R"].hide_set(True)
    activate(bpy.data.objects["humanoid hand.L"])
    click(1)
    assert shown() == 1 and selection() == ("humanoid", ["humanoid"])
    with pytest.raises(RuntimeError, match="is hidden"):
        bpy.ops.poise.select_target()
    armature.poise.effectors[1].target = None
    with pytest.raises(RuntimeError, match="no target to be selected"):
        bpy.ops.poise.select_target()


def test_where_nothing_else_is_in_sight_the_choice_stays():
    armature = figure("hand.L", "hand.R")
    shelf = bpy.data.collections.new("shelf")
    bpy.context.scene.collection.children.link(shelf)
    for obj in (armature, armature.poise.effectors[1].target):
        for collection in obj.users_collection:
            collection.objects.unlink(obj)
        shelf.objects.link(obj)
    activate(armature.poise.effectors[0].target)
    bpy.context.view_layer.layer_collection.children["shelf"].exclude = True
    show_effector(bpy.context, armature, 1)
    assert shown_effector(bpy.context, armature) == armature.poise.active_effector == 0


def test_the_button_selects_the_target_out_of_pose_mode():
    armature = figure("hand.L", "hand.R")
    click(1)
    bpy.ops.object.mode_set(mode='POSE')
    assert bpy.ops.poise.select_target() == {'FINISHED'}
    assert armature.mode == 'OBJECT'
    assert selection() == ("humanoid hand.R", ["humanoid hand.R"])
    assert shown() == 1
    activate(armature.poise.effectors[0].target)
    assert bpy.ops.poise.select_target() == {'FINISHED'}
    activate(armature)
    assert shown() == 0  # what was chosen in the viewport is chosen in the list as well


def test_buttons_act_on_the_effector_that_is_shown():
    armature = figure("hand.L", "hand.R", "head")
    activate(bpy.data.objects["humanoid hand.R"])
    bpy.ops.poise.pin(action='PIN')
    assert [entry.pinned for entry in armature.poise.effectors] == [False, True, False]
    bpy.ops.poise.move_effector(direction='DOWN')
    assert [entry.name for entry in armature.poise.effectors] == ["hand.L", "head", "hand.R"]
    assert shown() == 2
    bpy.ops.poise.remove_effector()
    assert [entry.name for entry in armature.poise.effectors] == ["hand.L", "head"]
    # The panel stays with the armature, whose target the active object is no more.
    assert shown() == 1 and selection() == ("humanoid", ["humanoid"])


def test_what_was_added_is_shown():
    armature = figure("hand.L")
    activate(armature.poise.effectors[0].target)
    assert bpy.ops.poise.add_effector(bone="head") == {'FINISHED'}
    assert shown() == 1 and selection()[0] == "humanoid head"


def test_undo_and_files_cannot_bring_list_and_viewport_apart(tmp_path: Any):
    figure("hand.L", "hand.R")
    bpy.ops.ed.undo_push(message="before")
    activate(bpy.data.objects["humanoid hand.R"])
    bpy.ops.ed.undo_push(message="selected")
    assert shown() == 1
    bpy.ops.ed.undo()
    assert shown() == 0 and selection()[0] == "humanoid"
    bpy.ops.ed.redo()
    assert shown() == 1 and selection()[0] == "humanoid hand.R"
    path = str(tmp_path / "shown.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.open_mainfile(filepath=path)
    assert shown() == 1

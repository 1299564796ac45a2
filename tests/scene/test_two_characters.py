# SPDX-License-Identifier: GPL-3.0-or-later
"""Two characters in one file, and two inside one armature: neither knows of the other."""

from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.scene import posing

from . import builders
from .measured import evaluated
from .measured import place as place_of

PARTS = {"hips", "chest", "foot.L", "foot.R", "hand.L", "hand.R", "head"}


def entries(armature: Any) -> dict[str, Any]:
    return {entry.part: entry for entry in armature.poise.effectors}


def targets(armature: Any) -> set[Any]:
    return {entry.target for entry in armature.poise.effectors}


def channels(armature: Any) -> FloatArray:
    bones = armature.pose.bones
    return np.array([[*bone.location, *bone.rotation_quaternion, *bone.rotation_euler] for bone in bones])


def joined_humans() -> Any:
    """Rigify's basic human twice in one armature, the second smaller, turned about, in front of the first."""
    builders.enable_rigify()
    figures = [builders.basic_human_metarig() for _ in range(2)]
    figures[1].location, figures[1].rotation_euler = (0.3, -1.5, 0.0), (0.0, 0.0, 2.8)
    figures[1].scale = (0.7, 0.7, 0.7)
    bpy.context.view_layer.update()
    for figure in figures:
        figure.select_set(True)
    bpy.context.view_layer.objects.active = figures[0]
    bpy.ops.object.join()
    return figures[0]


# Two armatures


def test_each_armature_has_its_own_targets_in_its_own_collection():
    first, second = builders.humanoid("Hero"), builders.humanoid("Hero")
    second.location.x = 2.0
    for armature in (first, second):
        assert set(posing.setup_character(armature).added) == PARTS
    assert not targets(first) & targets(second)
    assert entries(second)["hand.L"].target.name == "Hero.001 hand.L"
    homes = [{target.users_collection[0].name for target in targets(each)} for each in (first, second)]
    assert homes == [{"Hero Targets"}, {"Hero.001 Targets"}]
    before = channels(second)
    entries(first)["hips"].target.location.z -= 0.1
    assert posing.solve_pose(first).reached
    np.testing.assert_array_equal(channels(second), before)


def test_removing_one_leaves_the_other():
    first, second = builders.humanoid("one"), builders.humanoid("two")
    for armature in (first, second):
        posing.setup_character(armature)
        posing.switch_live(armature, True)
    for obj in [first, *targets(first)]:
        bpy.data.objects.remove(obj)
    entries(second)["hips"].target.location.z -= 0.1
    bpy.context.view_layer.update()  # live mode of the one that is left
    assert channels(second)[:, :3].any()
    assert posing.solve_pose(second).reached and not posing.setup_character(second).added


def test_a_copy_with_its_targets_is_a_character_of_its_own():
    first = builders.humanoid("one")
    posing.setup_character(first)
    for obj in [first, *targets(first)]:
        obj.select_set(True)
    bpy.ops.object.duplicate()
    second: Any = bpy.data.objects["one.001"]
    assert len(targets(second)) == len(PARTS) and not targets(first) & targets(second)
    second.location.x += 3.0
    bpy.context.view_layer.update()
    before = channels(first)
    entries(second)["hips"].target.location.z -= 0.1
    assert posing.solve_pose(second).reached
    np.testing.assert_array_equal(channels(first), before)
    assert not posing.setup_character(second).added


def test_a_character_that_is_linked_twice_is_posed_twice(tmp_path: Path):
    library = tmp_path / "library.blend"
    home = bpy.data.collections.new("Character")
    bpy.context.scene.collection.children.link(home)
    source = builders.humanoid("Hero")
    home.objects.link(source)
    bpy.context.scene.collection.objects.unlink(source)
    posing.setup_character(source)
    bpy.ops.wm.save_as_mainfile(filepath=str(library))
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    libraries: Any = bpy.data.libraries
    with libraries.load(str(library), link=True) as (_, wanted):
        wanted.collections = ["Character"]
    linked: Any = bpy.data.collections["Character"]
    scene: Any = bpy.context.scene
    overrides = [linked.override_hierarchy_create(scene, bpy.context.view_layer) for _ in range(2)]
    first, second = (next(o for o in each.all_objects if o.type == 'ARMATURE') for each in overrides)
    for armature in (first, second):
        armature.override_library.is_system_override = False
    bpy.context.view_layer.update()
    assert first != second and not targets(first) & targets(second)
    assert not posing.setup_character(first).added
    before = channels(second)
    entries(first)["hips"].target.location.z -= 0.1
    assert posing.solve_pose(first).reached
    np.testing.assert_array_equal(channels(second), before)
    second.location.x += 2.0  # and its targets with it
    bpy.context.view_layer.update()
    assert posing.solve_pose(second).reached


# Two figures in one armature


def test_two_that_hold_each_other_are_solved_by_a_script_while_both_are_live():
    """What Live posed of the solved one in between was taken for what constraints do, and made up for."""
    figures: list[Any] = [builders.humanoid(name) for name in ("left", "right")]
    for figure, place, turn in zip(figures, ((0.0, 0.0, 0.0), (0.0, -0.8, 0.0)), (0.0, np.pi), strict=True):
        figure.location, figure.rotation_euler = place, (0.0, 0.0, turn)
        bpy.context.view_layer.update()
        posing.setup_character(figure)
        for hand, side, low in (("hand.L", 1.0, 1.2), ("hand.R", -1.0, 1.1)):
            entries(figure)[hand].target.location = (0.32 * side, -0.38, low)
        posing.solve_pose(figure)
    for figure, other in zip(figures, figures[::-1], strict=True):
        target = entries(figure)["hand.L"].target
        here = target.matrix_world.copy()
        target.parent, target.parent_type, target.parent_bone = other, 'BONE', "forearm.R"
        bpy.context.view_layer.update()
        target.matrix_world = here
    for figure in figures:
        posing.switch_live(figure, True)
    for figure, down in zip(figures, (0.2, 0.1), strict=True):
        entries(figure)["hips"].target.location.z -= down
    for _ in range(4):
        for figure in figures:
            posing.solve_pose(figure)
    for figure in figures:
        target = evaluated(entries(figure)["hand.L"].target).matrix_world.translation
        assert np.linalg.norm(place_of(figure, "hand.L") - np.array(target)) < 5e-4


def test_two_humans_in_one_armature_are_both_set_up_and_told():
    armature = joined_humans()
    report = posing.setup_character(armature)
    assert report.bodies == ("biped", "biped")
    assert set(report.added) == PARTS | {f"{part} (2)" for part in PARTS}
    assert "2 bipeds found: 14 targets created" in report.summary()
    assert "2 figures in one armature" in report.summary()
    own = entries(armature)
    assert own["head"].target.parent == own["hips"].target.parent == armature
    # Each knows left from right by the way it faces, and its limits are its own.
    assert own["hand.L (2)"].bone == "hand.L.001"
    assert {"shin.L", "shin.L.001"} <= set(report.limits_assumed)


def test_what_moves_one_of_them_does_not_move_the_other():
    armature = joined_humans()
    posing.setup_character(armature)
    posing.solve_pose(armature)
    names = [bone.name for bone in armature.pose.bones]
    below = {bone.name for bone in armature.pose.bones["spine.007"].children_recursive} | {"spine.007"}
    before = channels(armature)
    entries(armature)["hand.L (2)"].target.location.z += 0.05
    entries(armature)["hips (2)"].target.location.z -= 0.05
    assert posing.solve_pose(armature).reached
    by = np.abs(channels(armature) - before).max(axis=1)
    moved = {name for name, far in zip(names, by.tolist(), strict=True) if far > 1e-4}
    assert "forearm.L.001" in moved and moved <= below
    # Out of reach of one, the other keeps its targets.
    entries(armature)["hand.L"].target.location.z += 5.0
    report = posing.solve_pose(armature)
    missed = {effector.name for effector in report.effectors if not effector.reached}
    assert "hand.L" in missed and not any(name.endswith("(2)") for name in missed)


def test_both_are_mirrored_each_in_itself():
    armature = joined_humans()
    posing.setup_character(armature)
    own = entries(armature)
    own["hand.L"].target.location.z += 0.1
    own["foot.R (2)"].weight = 3.0
    posing.mirror(armature)
    assert own["hand.R"].target.location.z == pytest.approx(own["hand.L"].target.location.z + 0.1, abs=1e-4)
    assert (own["foot.L (2)"].weight, own["foot.L"].weight) == (3.0, 1.0)


def test_one_of_them_can_be_left_out_by_the_table():
    armature = joined_humans()
    posing.setup_character(armature)
    rows = [row for row in armature.poise.roles if row.figure == 1]
    assert rows
    for row in rows:
        row.role = 'NONE'
    report = posing.setup_character(armature)
    assert set(report.removed) == {f"{part} (2)" for part in PARTS}
    assert set(entries(armature)) == PARTS and posing.solve_pose(armature).reached

# SPDX-License-Identifier: GPL-3.0-or-later
"""Marks say in the world what is going on; nothing is drawn here, and without a window nothing could be."""

from math import radians
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.scene import posing
from blender_ik_addon.scene.live.dragging import Drag
from blender_ik_addon.scene.live.overlay_geometry import (
    Marks,
    Wanted,
    convex_hull,
    drag_marks,
    inside,
    marks_of,
)
from blender_ik_addon.ui import overlay, preferences
from blender_ik_addon.ui.labels import is_seen

from . import builders


def figure(*bones: str, kind: str = 'POSITION') -> bpy.types.Object:
    """A figure with effectors for some bones."""
    armature = builders.humanoid()
    for bone in armature.pose.bones:
        bone.rotation_mode = 'XYZ'
    bpy.context.view_layer.update()
    for bone in bones:
        posing.add_effector(armature, bone, kind=kind)
    bpy.context.view_layer.update()
    return armature


def marks(armature: bpy.types.Object, **wanted: bool) -> Marks:
    """Marks at the present pose, of the wanted kinds alone."""
    bpy.context.view_layer.update()
    kinds: dict[str, Any] = dict.fromkeys(("targets", "priorities", "limits", "balance"), False) | wanted
    return marks_of(armature, bpy.context.evaluated_depsgraph_get(), Wanted(**kinds))


def test_without_effectors_there_is_nothing():
    assert not marks(builders.humanoid(), targets=True, priorities=True, limits=True, balance=True)


def test_a_line_leads_from_the_bone_to_its_target_and_is_warm_where_it_is_missed():
    armature = figure("hand.L", "hand.R")
    target = armature.poise.effectors[0].target
    target.location.z += 0.3
    found = marks(armature, targets=True)
    missed, reached = found.lines
    head = armature.matrix_world @ armature.pose.bones["hand.L"].head
    np.testing.assert_allclose(missed.start, head[:], atol=1e-6)
    np.testing.assert_allclose(missed.end, target.location[:], atol=1e-6)
    assert (missed.heat, reached.heat) == (1.0, 0.0)
    assert [text.text for text in found.texts] == ["hand.L: 300 mm"]
    target.location.z += 27.0
    assert [text.text for text in marks(armature, targets=True).texts] == ["hand.L: 27.3 m"]
    target.location.z -= 27.3 - 0.0015  # three tolerances
    assert 0.1 < marks(armature, targets=True).lines[0].heat < 0.5


def test_points_stand_for_their_effector_at_the_bone_and_at_a_target_that_is_missed():
    armature = figure("hand.L", "hand.R")
    target = armature.poise.effectors[1].target
    assert [point.effector for point in marks(armature, targets=True).points] == [0, 1]
    target.location.z += 0.3
    found = marks(armature, targets=True).points
    assert [point.effector for point in found] == [0, 1, 1]
    np.testing.assert_allclose(found[2].place, target.location[:], atol=1e-6)


def test_a_target_out_of_reach_is_told_with_the_reason():
    armature = figure("hand.L")
    armature.poise.move_root = False
    armature.poise.effectors[0].target.location.x += 3.0
    posing.solve_pose(armature)
    (text,) = [text for text in marks(armature, targets=True).texts if text.role == 'MISS']
    assert text.text.startswith("hand.L: ")
    assert text.text.endswith(" mm")
    assert text.note == "beyond the longest reach of its chain"


def test_priorities_are_written_beside_the_bones():
    armature = figure("hand.L", "hand.R")
    armature.poise.effectors[1].priority = 3
    found = marks(armature, priorities=True)
    assert [(text.text, text.role) for text in found.texts] == [("0", 'PRIORITY'), ("3", 'PRIORITY')]
    assert not found.lines
    assert not found.points


def test_a_pinned_bone_has_a_mark_of_its_own():
    armature = figure("hand.L", "hand.R")
    posing.pin(armature, 1)
    assert [point.role for point in marks(armature, targets=True).points] == ['EFFECTOR', 'PIN']


def test_what_follows_has_a_point_at_its_bone_and_no_line_to_where_it_was():
    armature: Any = figure("hips", "hand.L", "foot.L", "foot.R")
    for row, state in ((0, 'FOLLOW'), (2, 'PIN'), (3, 'PIN')):
        posing.set_state(armature, row, state)
    armature.poise.effectors[1].target.location.z -= 0.9
    bpy.context.view_layer.update()
    was = armature.matrix_world @ armature.pose.bones["hips"].head
    posing.solve_pose(armature)
    bpy.context.view_layer.update()
    head = armature.matrix_world @ armature.pose.bones["hips"].head
    assert (head - was).length > 0.05
    found = marks(armature, targets=True)
    (point,) = [point for point in found.points if point.effector == 0]
    np.testing.assert_allclose(point.place, head[:], atol=1e-6)
    assert len(found.lines) == 3
    assert not any(np.allclose(line.start, head[:], atol=1e-4) for line in found.lines)


def test_kinds_lead_where_they_ask_to_go():
    armature = figure("foot.L", kind='FLOOR')
    assert marks(armature, targets=True).lines == ()  # on its floor
    armature.poise.effectors[0].target.location.z += 0.2
    (line,) = marks(armature, targets=True).lines
    np.testing.assert_allclose(np.subtract(line.end, line.start), (0.0, 0.0, 0.2), atol=1e-6)
    armature = figure("hand.L", kind='DISTANCE')
    effector = armature.poise.effectors[0]
    effector.distance = 0.5
    (line,) = marks(armature, targets=True).lines
    assert np.linalg.norm(np.subtract(line.end, effector.target.location)) == pytest.approx(0.5)


def test_a_joint_on_its_limit_has_an_arc_about_its_head_and_a_name():
    armature = figure("hand.L")
    bone = armature.pose.bones["forearm.L"]
    bone.use_ik_limit_x, bone.ik_min_x, bone.ik_max_x = True, radians(-10.0), radians(30.0)
    bone.rotation_euler = (radians(30.0), 0.0, 0.0)
    found = marks(armature, limits=True)
    assert [text.text for text in found.texts] == ["forearm.L: X 30°"]
    places = np.array([place for line in found.lines for place in (line.start, line.end)])
    head = np.array(armature.matrix_world @ bone.head)
    away = places - head
    across = np.array(armature.matrix_world.to_3x3() @ bone.x_axis)
    np.testing.assert_allclose(away @ across, 0.0, atol=1e-6)  # in the plane across the axis
    np.testing.assert_allclose(np.linalg.norm(away[1:], axis=1), 0.22 * bone.length, rtol=1e-5)
    # It begins at the bone and goes back to where the bone came from.
    along, behind = np.array(bone.y_axis), np.cross(bone.x_axis, bone.y_axis)
    assert away[1] @ along > 0.99 * np.linalg.norm(away[1])
    assert away[-1] @ behind < 0.0
    bone.rotation_euler.x = radians(20.0)
    assert not marks(armature, limits=True)
    bone.ik_min_x, bone.rotation_euler.x = 0.0, -1e-15  # as a solve leaves it
    assert [text.text for text in marks(armature, limits=True).texts] == ["forearm.L: X 0°"]
    bone.ik_min_x = radians(-10.0)
    bone.rotation_euler.x = radians(-10.0)
    found = marks(armature, limits=True)
    assert [text.text for text in found.texts] == ["forearm.L: X -10°"]
    behind = np.cross(bone.x_axis, bone.y_axis)
    assert (np.array(found.lines[-1].end) - head) @ behind > 0.0


def test_joints_on_limits_that_follow_one_another_are_told_together_and_the_active_one_in_full():
    armature = figure("hand.L", "hand.R")

    def bend(*bones: str) -> None:
        for name in bones:
            bone = armature.pose.bones[name]
            bone.use_ik_limit_x, bone.ik_min_x, bone.ik_max_x = True, radians(-10.0), radians(30.0)
            bone.rotation_euler.x = radians(30.0)

    def told(active_bone: str = "") -> set[str]:
        bpy.context.view_layer.update()
        wanted = Wanted(targets=False, priorities=False, active_bone=active_bone)
        found = marks_of(armature, bpy.context.evaluated_depsgraph_get(), wanted)
        return {text.text for text in found.texts}

    bend("upper_arm.L", "forearm.L", "forearm.R")
    assert told() == {"upper_arm.L, forearm.L: on limits", "forearm.R: X 30°"}
    bend("hand.L")
    assert told() == {"upper_arm.L to hand.L: 3 on limits", "forearm.R: X 30°"}
    assert told("hand.L") == told() | {"hand.L: X 30°"}
    assert told("forearm.R") == told()
    # An arm is no part of the spine from which it comes: where it forks the chain goes straight on.
    bend("spine.001", "spine.002", "spine.003", "shoulder.L")
    assert "spine.001 to spine.003: 3 on limits" in told()
    assert "shoulder.L to hand.L: 4 on limits" in told()


def test_the_centre_of_mass_is_over_the_support_or_not():
    armature = figure("foot.L", "foot.R")
    found = marks(armature, balance=True)
    polygon = [line for line in found.lines if line.role == 'SUPPORT']
    assert len(polygon) >= 3
    assert {line.heat for line in polygon} == {0.0}
    centre, ground = found.points
    assert centre.place[:2] == ground.place[:2]
    assert centre.place[2] > 0.6 > 0.1 > ground.place[2]
    for bone in ("thigh.L", "thigh.R"):
        armature.pose.bones[bone].rotation_euler.x = radians(60.0)
    assert {line.heat for line in marks(armature, balance=True).lines} == {1.0}


def test_balance_is_shown_where_an_effector_asks_for_it():
    armature = figure("foot.L", "foot.R")
    posing.add_effector(armature, "hips", kind='BALANCE')
    assert any(line.role == 'BALANCE' for line in marks(armature).lines)


def test_what_cannot_be_read_has_no_marks():
    armature = figure("hand.L")
    armature.poise.effectors[0].bone = "nose"
    assert not marks(armature, targets=True)


@pytest.mark.parametrize("deleted", [True, False])
def test_what_cannot_be_read_of_one_leaves_the_marks_of_the_others(deleted: bool):
    armature = figure("hand.L", "hand.R", "head")
    for entry in armature.poise.effectors:
        entry.target.location.z += 0.3
    if deleted:
        bpy.data.objects.remove(armature.poise.effectors[0].target)
    else:
        armature.poise.effectors[0].target.location.x = np.nan
    found = marks(armature, targets=True)
    assert [text.text for text in found.texts] == ["hand.R: 300 mm", "head: 300 mm"]
    assert [line.heat for line in found.lines] == [1.0, 1.0]
    for entry in armature.poise.effectors:
        entry.bone = "nose"
    assert not marks(armature, targets=True, limits=True, balance=True)


def test_a_drag_shows_what_it_holds_and_what_gives_way():
    armature = figure()
    bpy.ops.object.mode_set(mode='POSE')
    drag = Drag(armature, "hand.L")
    calm = drag_marks(drag)
    assert [point.role for point in calm.points].count('PIN') == 2
    assert [point.role for point in calm.points].count('LOOSE_PIN') == 2
    assert {point.heat for point in calm.points} == {0.0}
    drag.move(drag.place + np.array([2.0, 0.0, 1.0]))
    torn = drag_marks(drag)
    assert torn.lines[0].heat == 1.0
    np.testing.assert_allclose(torn.lines[0].end, drag.goal, atol=1e-6)
    assert any(text.role == 'MISS' and "hand.L" in text.text for text in torn.texts)
    assert any(point.role == 'LOOSE_PIN' and point.heat == 1.0 for point in torn.points)


def test_a_drag_shows_where_effectors_hold():
    armature = figure("foot.L", "hand.R")
    bpy.ops.object.mode_set(mode='POSE')
    posing.add_effector(armature, "head", kind='ORIENTATION')  # holds no place
    drag = Drag(armature, "hand.L")
    held = {name: (firm, was.tolist(), now.tolist()) for name, firm, was, now in drag.pins()}
    assert set(held) == {"foot.L", "hand.R", "foot.R", "hips"}
    for name in ("foot.L", "hand.R"):
        head = armature.matrix_world @ armature.pose.bones[name].head
        assert held[name][0]
        np.testing.assert_allclose(held[name][1:], [head[:]] * 2, atol=1e-6)
    assert [point.role for point in drag_marks(drag).points].count('PIN') == 3


def test_the_hull_of_places_goes_round_them():
    places = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 0.5], [2.0, 2.0], [0.0, 2.0], [1.0, 0.0]])
    np.testing.assert_array_equal(convex_hull(places), [[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]])
    assert inside(np.array([1.0, 1.0]), convex_hull(places))
    assert not inside(np.array([3.0, 1.0]), convex_hull(places))
    np.testing.assert_array_equal(convex_hull(places[:1]), places[:1])
    np.testing.assert_array_equal(convex_hull(places[:2]), places[:2])


# What is there without a window


def test_a_text_is_drawn_only_where_what_it_belongs_to_is_seen():
    size, sidebar = (800.0, 600.0), 550.0
    seen = {(10.0, 10.0), (549.0, 590.0)}
    under_the_sidebar, beside, above, behind = (560.0, 300.0), (-1.0, 10.0), (100.0, 601.0), (np.nan, np.nan)
    hidden = {under_the_sidebar, beside, above, behind}
    for place in seen | hidden:
        assert is_seen(np.array([place]), size, sidebar).tolist() == [place in seen], place


def test_nothing_draws_in_background():
    assert bpy.app.background
    for name in (*overlay.CHANGES, "frame_change_post"):
        handlers = getattr(bpy.app.handlers, name)
        assert not any(handler.__module__ == overlay.__name__ for handler in handlers)


def test_the_switches_belong_to_the_scene():
    settings = bpy.context.scene.poise_overlay
    assert (settings.show, settings.targets, settings.limits, settings.balance) == (True, True, True, False)
    settings.show = False
    assert bpy.data.scenes.new("other").poise_overlay.show


def test_colours_come_without_preferences():
    assert preferences.look(bpy.context) == preferences.PLAIN
    assert preferences.POISE_AP_preferences.bl_idname == "blender_ik_addon"

# SPDX-License-Identifier: GPL-3.0-or-later
"""Generated control rigs: which controls they follow, and live mode among bones that answer to each look."""

from pathlib import Path
from typing import Any

import bpy
import pytest

from blender_ik_addon.scene import following, live, posing
from blender_ik_addon.scene.following import Occasion
from blender_ik_addon.scene.outcome import ANSWERED

from . import builders

ENOUGH = 200
"""Updates in which a body has long come to rest."""

SWITCHES = ("thigh_parent.L", "thigh_parent.R", "upper_arm_parent.L", "upper_arm_parent.R")


@pytest.fixture
def rig() -> Any:
    """Rigify's basic human, generated."""
    made: Any = builders.basic_human_rig()
    assert made.name == "rig" and len(made.pose.bones) > 200
    return made


def switches(rig: Any) -> list[float]:
    return [rig.pose.bones[bone]["IK_FK"] for bone in SWITCHES]


def moved(rig: Any, name: str, by: tuple[float, float, float]) -> None:
    target = rig.poise.effectors[name].target
    target.location = [a + b for a, b in zip(target.location, by, strict=True)]


def gap(rig: Any, bone: str, name: str) -> float:
    """How far what carries the mesh is from a target [m]."""
    depsgraph = bpy.context.evaluated_depsgraph_get()
    depsgraph.update()
    evaluated = rig.evaluated_get(depsgraph)
    place = evaluated.matrix_world @ evaluated.pose.bones[bone].head
    return (place - rig.poise.effectors[name].target.matrix_world.translation).length


def test_set_up_lets_the_mesh_follow_the_controls(rig: Any):
    report = posing.setup_character(rig)
    assert switches(rig) == [1.0] * 4
    assert any("switched over" in note and "'thigh_parent.L'" in note for note in report.notes)
    (machinery,) = [note for note in report.notes if "answer by constraints" in note]
    assert "'MCH-" in machinery and not any("decides" in note for note in report.notes)
    moved(rig, "hand.L", (0.0, -0.1, 0.2))
    report = posing.solve_pose(rig)
    assert gap(rig, "DEF-hand.L", "hand.L") < 0.001
    assert not any("nothing of this shows" in note for note in report.notes)
    while not report.reached:  # the neck answers
        assert {e.why for e in report.effectors if not e.reached} == {ANSWERED}
        report = posing.solve_pose(rig)


def test_a_rig_that_follows_other_controls_is_told_of(rig: Any):
    report = posing.setup_character(rig, controls=False)
    assert switches(rig) == [0.0] * 4
    (note,) = [note for note in report.notes if "nothing of this shows" in note]
    assert "'hand_fk.L'" in note or "more" in note
    assert "'IK_FK' of 'thigh_parent.L', 'thigh_parent.R'" in note
    moved(rig, "hand.L", (0.0, -0.1, 0.2))
    assert "nothing of this shows" in posing.solve_pose(rig).summary().lower()
    assert gap(rig, "DEF-hand.L", "hand.L") > 0.1


def test_a_switch_that_is_keyed_stays(rig: Any):
    rig.pose.bones["thigh_parent.L"].keyframe_insert('["IK_FK"]', frame=1)
    report = posing.setup_character(rig)
    assert switches(rig) == [0.0, 1.0, 1.0, 1.0]
    assert any("it is animated" in note and "'thigh_parent.L'" in note for note in report.notes)


def test_a_switch_that_a_driver_sets_stays(rig: Any):
    rig.pose.bones["thigh_parent.L"].driver_add('["IK_FK"]').driver.expression = "0.0"
    report = posing.setup_character(rig)
    assert switches(rig) == [0.0, 1.0, 1.0, 1.0]
    assert any("goes by itself" in note and "'thigh_parent.L'" in note for note in report.notes)


def test_a_switch_that_is_gone_is_none(rig: Any):
    """Its driver is left."""
    del rig.pose.bones["thigh_parent.L"]["IK_FK"]
    posing.setup_character(rig)
    assert [rig.pose.bones[bone]["IK_FK"] for bone in SWITCHES[1:]] == [1.0] * 3


def test_a_switch_without_a_range_goes_from_0_to_1(rig: Any):
    bone = rig.pose.bones["thigh_parent.L"]
    del bone["IK_FK"]
    bone["IK_FK"] = 0.0
    posing.setup_character(rig)
    assert bone["IK_FK"] == 1.0


def test_undo_gives_switches_back_in_one_step(rig: Any):
    bpy.ops.ed.undo_push(message="before")
    bpy.ops.poise.setup_character()
    bpy.ops.ed.undo_push(message="after")
    assert switches(bpy.data.objects["rig"]) == [1.0] * 4
    bpy.ops.ed.undo()
    before: Any = bpy.data.objects["rig"]
    assert switches(before) == [0.0] * 4 and not len(before.poise.effectors)


@pytest.mark.parametrize("overridable", [True, False])
def test_switches_of_a_linked_rig_are_set_where_they_keep_it(rig: Any, overridable: bool, tmp_path: Path):
    for bone in SWITCHES:
        rig.pose.bones[bone].property_overridable_library_set('["IK_FK"]', overridable)
    scene: Any = bpy.context.scene
    figure = bpy.data.collections.new("figure")
    scene.collection.children.link(figure)
    figure.objects.link(rig)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "library.blend"))
    bpy.ops.wm.read_homefile(use_empty=True)
    loading: Any = bpy.data.libraries.load(str(tmp_path / "library.blend"), link=True)
    with loading as (_, into):
        into.collections = ["figure"]
    bpy.data.collections["figure"].override_hierarchy_create(
        bpy.context.scene, bpy.context.view_layer, do_fully_editable=True
    )
    report = posing.setup_character(overriding())
    assert any("belongs to the library" in note for note in report.notes) != overridable
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    assert switches(overriding()) == [float(overridable)] * 4


def overriding() -> Any:
    """The library override of the rig."""
    return next(o for o in bpy.data.objects if o.type == 'ARMATURE' and o.override_library is not None)


def test_a_live_body_does_not_follow_while_it_is_switched(rig: Any, monkeypatch: pytest.MonkeyPatch):
    posing.setup_character(rig)
    posing.switch_live(rig, True)
    bpy.context.view_layer.update()
    for bone in SWITCHES:
        rig.pose.bones[bone]["IK_FK"] = 0.0
    rig.update_tag()
    bpy.context.view_layer.update()
    seen: list[list[float]] = []
    follow_if_moved = following._follow_if_moved

    def noted(*args: Any) -> Any:
        seen.append(switches(rig))
        return follow_if_moved(*args)

    monkeypatch.setattr(following, "_follow_if_moved", noted)
    posing.setup_character(rig)
    bpy.context.view_layer.update()
    assert seen and all(now == [1.0] * 4 for now in seen)


def test_a_body_comes_to_rest_and_arrives_among_bones_that_answer(rig: Any):
    """Each update began anew once: a drag out of reach never ended, and Blender hung."""
    posing.setup_character(rig)
    depsgraph = bpy.context.evaluated_depsgraph_get()

    def look(occasion: Occasion) -> Any:
        depsgraph.update()
        return following.follow(rig, depsgraph, occasion)

    look(Occasion.USER)
    for _ in range(4):
        moved(rig, "hand.L", (0.03, 0.03, 0.2))
        look(Occasion.GESTURE)
    for _ in range(ENOUGH):
        look(Occasion.GESTURE)
        if following.is_settled(rig) and not following.is_restless(rig):
            break
    assert following.is_settled(rig) and not following.is_restless(rig)
    assert following.is_underway(rig)  # some target is out of reach
    assert look(Occasion.GESTURE) is None  # and the tool may be held still
    for _ in range(ENOUGH):
        look(Occasion.ENDING)
        if not following.is_underway(rig) and not following.is_restless(rig):
            break
    assert not following.is_underway(rig) and not following.is_restless(rig)
    assert look(Occasion.USER) is None


def test_live_looks_on_until_bones_have_answered_to_a_tool_that_is_held_still(
    rig: Any, monkeypatch: pytest.MonkeyPatch
):
    posing.setup_character(rig)
    posing.switch_live(rig, True)
    monkeypatch.setattr(live, "_gesture_is_running", lambda: True)
    pauses: list[float | None] = []
    for _ in range(4):
        moved(rig, "hand.L", (0.03, 0.03, 0.2))
        bpy.context.view_layer.update()
        for _ in range(40):
            pauses.append(live._look_again())
            if pauses[-1] != live.STEP_PAUSE:
                break
        assert not following.is_restless(rig)
    assert pauses[-1] == live.TOOL_PAUSE and live.STEP_PAUSE in pauses


def test_a_head_that_is_held_by_the_torso_is_solved_so(rig: Any):
    """MCH-ROT-head copies the rotation of the torso, MCH-ROT-neck half of it."""
    posing.setup_character(rig)
    depsgraph = bpy.context.evaluated_depsgraph_get()
    depsgraph.update()
    following.follow(rig, depsgraph, Occasion.USER)
    moved(rig, "hand.L", (0.0, -0.05, 0.1))
    for _ in range(ENOUGH):
        depsgraph.update()
        if following.follow(rig, depsgraph, Occasion.GESTURE) is None:
            break
    assert not following.is_restless(rig)
    assert rig.poise.last_reached

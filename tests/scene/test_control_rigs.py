# SPDX-License-Identifier: GPL-3.0-or-later
"""Generated control rigs: which controls they follow, and live mode among bones that answer to each look."""

from math import radians
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon import cli
from blender_ik_addon.cli.exit_codes import Exit
from blender_ik_addon.core.solve.tracker import Tracker
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.armature.armature import read_armature
from blender_ik_addon.scene.live import following
from blender_ik_addon.scene.live import handlers as live
from blender_ik_addon.scene.live.dragging import Drag
from blender_ik_addon.scene.live.machine import Trigger

from . import builders
from .measured import place
from .records import pose_record

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


def missed(rig: Any) -> dict[str, str]:
    """What a solve misses and why."""
    return {effector.name: effector.why for effector in posing.solve_pose(rig).effectors if effector.why}


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
    assert not any("follows other controls" in note for note in report.notes)
    assert report.reached  # although the neck moves with the first solve


def test_the_legs_of_an_animal_bend_under_hips_that_are_lowered():
    """Its paws hang on bones between controls, which no control of the leg that is posed is above."""
    rig: Any = builders.wolf_rig()
    report = posing.setup_character(rig)
    assert any("'front_thigh_parent.L'" in note and "switched over" in note for note in report.notes)
    paws = ("DEF-toe.L", "DEF-toe.R", "DEF-front_toe.L", "DEF-front_toe.R")
    before = [place(rig, paw) for paw in paws]
    assert posing.solve_pose(rig).reached
    np.testing.assert_allclose([place(rig, paw) for paw in paws], before, atol=1e-4)
    moved(rig, "hips", (0.05, 0.0, -0.2))
    report = posing.solve_pose(rig)
    assert report.reached, report.message
    np.testing.assert_allclose([place(rig, paw) for paw in paws], before, atol=1e-3)
    angles = {bone.name: bone.matrix_basis.to_quaternion().angle for bone in rig.pose.bones}
    assert min(angles[f"{end}thigh_fk.{side}"] for end in ("", "front_") for side in "LR") > radians(15.0)
    assert angles["spine_fk.005"] < radians(60.0)  # 115 degrees where the legs did not bend


def test_the_pelvis_of_a_generated_rig_has_limits_and_does_not_fold(rig: Any):
    """Its controls are between torso and legs, in no limb: they turned by 75 and 62 degrees."""
    posing.setup_character(rig)
    skeleton = read_armature(rig).skeleton
    for name in ("spine_fk", "spine_fk.001"):
        joint = skeleton.index(name)
        assert np.isfinite([skeleton.lower[joint, 3:], skeleton.upper[joint, 3:]]).all(), name
    for hand, aside in (("hand.L", 0.1), ("hand.R", -0.1)):
        moved(rig, hand, (aside, -0.3, -0.5))
    missed = [error.position for error in posing.solve_pose(rig).effectors if error.position is not None]
    assert max(missed) < 0.02
    angles = {bone.name: bone.matrix_basis.to_quaternion().angle for bone in rig.pose.bones}
    assert max(angles["spine_fk"], angles["spine_fk.001"]) < radians(45.0)


def test_a_reach_that_is_alike_on_both_sides_leaves_the_trunk_of_a_generated_rig_upright(rig: Any):
    """Its pelvis turned aside, by 11 and 13 degrees that cancelled out, since it resisted nothing."""
    posing.setup_character(rig)
    for hand, aside in (("hand.L", 0.1), ("hand.R", -0.1)):
        rig.poise.effectors[hand].target.location = (aside, -0.3, 0.15)
    assert posing.solve_pose(rig).reached
    assert abs(place(rig, "torso")[0]) < 5e-4  # 2.1 mm
    angles = [rig.pose.bones[bone].matrix_basis.to_euler() for bone in ("spine_fk", "spine_fk.001")]
    assert max(abs(turn[channel]) for turn in angles for channel in (1, 2)) < radians(1.0)


def test_set_up_again_keeps_all_and_switches_a_live_rig_back(rig: Any):
    first = posing.setup_character(rig)
    posing.switch_live(rig, True)
    for bone in SWITCHES:
        rig.pose.bones[bone]["IK_FK"] = 0.0
    rig.update_tag()
    bpy.context.view_layer.update()
    before = [np.array(bone.matrix_basis) for bone in rig.pose.bones]
    again = posing.setup_character(rig)
    bpy.context.view_layer.update()
    assert switches(rig) == [1.0] * 4
    np.testing.assert_allclose([bone.matrix_basis for bone in rig.pose.bones], before, atol=1e-5)
    assert not again.added and set(first.added) == set(again.kept)


def test_a_rig_that_follows_other_controls_is_told_of(rig: Any):
    report = posing.setup_character(rig, controls=False)
    assert switches(rig) == [0.0] * 4
    (note,) = [note for note in report.notes if "follows other controls" in note]
    assert "'hand_fk.L'" in note or "more" in note
    assert "'IK_FK' of 'thigh_parent.L', 'thigh_parent.R'" in note
    moved(rig, "hand.L", (0.0, -0.1, 0.2))
    assert "follows other controls" in posing.solve_pose(rig).summary().lower()
    assert gap(rig, "DEF-hand.L", "hand.L") > 0.1


def test_what_the_mesh_does_not_follow_is_not_reached(rig: Any):
    """Control and target once agreed, and reports, panel and exit code said so: the hand was 229 mm off."""
    posing.setup_character(rig, controls=False)
    moved(rig, "hand.L", (0.0, -0.1, 0.2))
    why = "hand_fk.L is on target, but DEF-hand.L does not follow it"
    why += ": switch 'IK_FK' of 'upper_arm_parent.L' over"
    report = posing.solve_pose(rig)
    hand = next(effector for effector in report.effectors if effector.name == "hand.L")
    off = gap(rig, "DEF-hand.L", "hand.L")
    assert off > 0.2 and gap(rig, "hand_fk.L", "hand.L") < 0.001
    assert (hand.reached, hand.why) == (False, why) and hand.position == pytest.approx(off, abs=1e-6)
    assert not report.reached and report.status != "REACHED"
    entry = rig.poise.effectors["hand.L"]
    assert not rig.poise.last_reached and entry.error_position == pytest.approx(off) and entry.why == why
    posing.switch_live(rig, True)
    moved(rig, "hand.L", (0.0, 0.0, 0.05))
    bpy.context.view_layer.update()
    assert not rig.poise.last_reached and entry.why == why
    rig.poise.live = False
    baked = posing.bake(rig, range(1, 4))
    row = baked.names.index("hand.L")
    off = gap(rig, "DEF-hand.L", "hand.L")
    assert baked.position_errors[:, row] == pytest.approx([off] * 3, abs=1e-5)
    assert not any(baked.reached_frames) and baked.reasons[row] == why
    assert cli.run(["bake", "--start", "1", "--end", "3"]) == Exit.MISSED


def test_live_says_at_once_that_the_mesh_has_been_switched_to_other_controls(rig: Any):
    """It said that all targets are reached until one of them was moved: the mesh was 645 mm away."""
    posing.setup_character(rig)
    posing.switch_live(rig, True)
    moved(rig, "hand.L", (0.0, -0.1, 0.2))
    bpy.context.view_layer.update()
    entry = rig.poise.effectors["hand.L"]
    assert rig.poise.last_reached and not entry.why
    for value, said in ((0.0, "switch 'IK_FK' of 'upper_arm_parent.L' over"), (1.0, "")):
        rig.pose.bones["upper_arm_parent.L"]["IK_FK"] = value
        rig.update_tag()
        bpy.context.view_layer.update()
        assert rig.poise.last_reached == (not said)
        assert entry.why.endswith(said) and bool(entry.why) == bool(said)
    assert not following.is_underway(rig)


def test_what_stands_where_it_should_is_reached_whatever_it_follows(rig: Any):
    posing.setup_character(rig, controls=False)
    assert missed(rig) == {}


def test_a_tweak_on_top_of_a_control_that_is_followed_is_no_miss(rig: Any):
    posing.setup_character(rig)
    for bone in ("hand_tweak.L", "foot_tweak.L"):
        rig.pose.bones[bone].location = (0.02, 0.0, 0.0)
    bpy.context.view_layer.update()
    assert gap(rig, "DEF-hand.L", "hand.L") > 0.01
    assert missed(rig) == {}


def test_a_bake_asks_in_each_frame_what_is_followed(rig: Any):
    posing.setup_character(rig)
    for bone in SWITCHES:
        for frame, value in ((1, 0.0), (4, 1.0)):
            rig.pose.bones[bone]["IK_FK"] = value
            rig.pose.bones[bone].keyframe_insert('["IK_FK"]', frame=frame)
    action = rig.animation_data.action
    for curve in action.layers[0].strips[0].channelbag(rig.animation_data.action_slot).fcurves:
        for key in curve.keyframe_points:
            key.interpolation = 'CONSTANT'
    moved(rig, "hand.L", (0.0, -0.1, 0.2))
    report = posing.bake(rig, range(1, 7))
    row = report.names.index("hand.L")
    missed = report.position_errors[:, row] > rig.poise.tolerance_position
    assert missed.tolist() == [True] * 3 + [False] * 3
    assert "DEF-hand.L does not follow it" in report.reasons[row] and report.worst_frames[row] <= 3


# Small rigs


def with_deform_hand(**copies: float) -> Any:
    """A figure whose hand is a control; another bone carries the mesh, by constraints with influences."""
    flipped = copies.pop("turned", 0.0)
    head, tail = (0.67, 0.0, 1.36), (0.67, 0.0, 1.25) if flipped else (0.78, -0.01, 1.35)
    bones = [*builders.HUMANOID_CENTRE]
    centre = {name for name, *_ in bones}
    bones += [
        (f"{name}.L", parent if parent in centre else f"{parent}.L", begin, end)
        for name, parent, begin, end in builders.HUMANOID_LEFT
    ]
    armature: Any = builders.armature("figure", [*bones, ("carrier", "forearm.L", head, tail)])
    for bone in armature.data.bones:
        bone.use_deform = bone.name == "carrier"
    for kind, influence in copies.items():
        constraint = armature.pose.bones["carrier"].constraints.new(kind)
        constraint.target, constraint.subtarget, constraint.influence = armature, "hand.L", influence
    bpy.context.view_layer.update()
    index = posing.add_effector(armature, "hand.L")
    armature.poise.effectors[index].kind = 'BOTH'
    armature.poise.move_root = False  # or the whole body goes, and what hangs on it
    target = armature.poise.effectors[index].target
    target.location.z += 0.1
    target.rotation_euler.x += 1.0
    bpy.context.view_layer.update()
    return armature


@pytest.mark.parametrize(
    "copies",
    [
        {"COPY_TRANSFORMS": 1.0},
        {"COPY_TRANSFORMS": 1.0, "turned": 1.0},
        {"COPY_LOCATION": 1.0, "COPY_ROTATION": 1.0},
        {"COPY_ROTATION": 1.0},
        {"CHILD_OF": 1.0, "turned": 1.0},
    ],
)
def test_a_bone_that_copies_a_control_follows_it(copies: dict[str, float]):
    armature = with_deform_hand(**copies)
    if "CHILD_OF" in copies:
        child: Any = armature.pose.bones["carrier"].constraints[0]
        child.set_inverse_pending = True
        bpy.context.view_layer.update()
    report = posing.solve_pose(armature)
    assert report.reached, report.message


@pytest.mark.parametrize(
    "copies", [{"COPY_TRANSFORMS": 0.0}, {"COPY_TRANSFORMS": 0.5}, {"COPY_ROTATION": 0.5}]
)
def test_a_bone_that_copies_a_control_in_part_does_not_follow_it(copies: dict[str, float]):
    armature = with_deform_hand(**copies)
    (hand,) = posing.solve_pose(armature).effectors
    assert not hand.reached and hand.why == "hand.L is on target, but carrier does not follow it"


def test_a_copy_that_is_muted_or_limited_is_not_followed():
    armature = with_deform_hand(COPY_TRANSFORMS=1.0)
    armature.pose.bones["carrier"].constraints[0].mute = True
    assert not posing.solve_pose(armature).reached
    armature.pose.bones["carrier"].constraints[0].mute = False
    assert posing.solve_pose(armature).reached
    limit: Any = armature.pose.bones["carrier"].constraints.new('LIMIT_ROTATION')
    limit.use_limit_x = limit.use_limit_y = limit.use_limit_z = True
    limit.owner_space = 'LOCAL'
    assert not posing.solve_pose(armature).reached


def test_a_control_that_is_missed_itself_keeps_its_reason():
    armature = with_deform_hand(COPY_TRANSFORMS=0.0)
    armature.poise.effectors[0].target.location.x += 9.0
    (hand,) = posing.solve_pose(armature).effectors
    assert "reach" in hand.why and hand.why.endswith("; carrier does not follow hand.L")


def test_where_a_bone_carries_the_mesh_itself_nothing_else_has_to_follow():
    armature = with_deform_hand(COPY_TRANSFORMS=0.5)  # as a twist bone does
    armature.data.bones["hand.L"].use_deform = True
    assert posing.solve_pose(armature).reached
    for bone in armature.data.bones:
        bone.use_deform = False
    assert posing.solve_pose(armature).reached


def test_a_switch_that_is_keyed_stays(rig: Any):
    rig.pose.bones["thigh_parent.L"].keyframe_insert('["IK_FK"]', frame=1)
    report = posing.setup_character(rig)
    assert switches(rig) == [0.0, 1.0, 1.0, 1.0]
    assert any("it is animated" in note and "'thigh_parent.L'" in note for note in report.notes)


def test_a_switch_that_a_driver_sets_stays(rig: Any):
    rig.pose.bones["thigh_parent.L"].driver_add('["IK_FK"]').driver.expression = "0.0"
    report = posing.setup_character(rig)
    assert switches(rig) == [0.0, 1.0, 1.0, 1.0]
    assert any("driven" in note and "'thigh_parent.L'" in note for note in report.notes)


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


def test_a_body_comes_to_rest_and_arrives_among_bones_that_answer(rig: Any):
    """Each update began anew once: a drag out of reach never ended, and Blender hung."""
    posing.setup_character(rig)
    depsgraph = bpy.context.evaluated_depsgraph_get()

    def look(trigger: Trigger) -> Any:
        depsgraph.update()
        return following.follow(rig, depsgraph, trigger)

    look(Trigger.USER)
    for _ in range(4):
        moved(rig, "hand.L", (0.03, 0.03, 0.2))
        look(Trigger.GESTURE)
    for _ in range(ENOUGH):
        look(Trigger.GESTURE)
        if following.is_settled(rig) and not following.is_restless(rig):
            break
    assert following.is_settled(rig) and not following.is_restless(rig)
    assert following.is_underway(rig)  # some target is out of reach
    assert look(Trigger.GESTURE) is None  # and the tool may be held still
    for _ in range(ENOUGH):
        look(Trigger.ENDING)
        if not following.is_underway(rig) and not following.is_restless(rig):
            break
    assert not following.is_underway(rig) and not following.is_restless(rig)
    assert look(Trigger.USER) is None


def test_live_looks_on_until_bones_have_answered_to_a_tool_that_is_held_still(rig: Any, tool: list[bool]):
    posing.setup_character(rig)
    posing.switch_live(rig, True)
    tool.append(True)
    pauses: list[float | None] = []
    for _ in range(4):
        moved(rig, "hand.L", (0.03, 0.03, 0.2))
        bpy.context.view_layer.update()
        for _ in range(120):
            pauses.append(live.poll())
            if pauses[-1] != live.STEP_PAUSE:
                break
        assert not following.is_restless(rig)
    assert pauses[-1] == live.TOOL_PAUSE and live.STEP_PAUSE in pauses


def test_solve_and_live_say_that_no_bone_of_a_chain_may_change_its_location(rig: Any):
    cause = "no bone of its chain may change its location: "

    def told() -> set[str]:
        bpy.context.view_layer.update()
        solved = {effector.why for effector in posing.solve_pose(rig).effectors if effector.bone == "torso"}
        posing.switch_live(rig, True)
        bpy.context.view_layer.update()
        live = {entry.why for entry in rig.poise.effectors if entry.bone == "torso"}
        posing.switch_live(rig, False)
        return solved | live

    number = posing.add_effector(rig, "torso", kind='POSITION')
    rig.poise.effectors[number].target.location.y -= 0.3
    assert told() == {f"{cause}press Set Up Character, or switch May Move on for one of them (Limits)"}
    posing.setup_character(rig)
    moved(rig, "hips", (0.0, 0.1, 0.0))
    rig.poise.joints["torso"].may_move = False
    assert told() == {f"{cause}switch May Move on for one of them (Limits)"}
    rig.poise.move_root = False
    assert told() == {f"{cause}switch Move Root on (Advanced, Solver)"}


@pytest.mark.parametrize("by_drag", [False, True])
def test_a_control_that_is_posed_stays_in_live_mode_though_others_hang_on_it(
    by_drag: bool, rig: Any, tool: list[bool]
):
    """Driven bones went with the torso or the arm, taken for a change of the rig, and solved for."""
    rig.pose.bones["torso"].rotation_mode = 'XYZ'
    posing.setup_character(rig)
    posing.switch_live(rig, True)
    bpy.context.view_layer.update()
    live.poll()
    tool.append(True)
    if not by_drag:
        for _ in range(4):
            rig.pose.bones["torso"].rotation_euler.x += 0.05
            bpy.context.view_layer.update()
            live.poll()
        assert rig.pose.bones["torso"].rotation_euler.x == pytest.approx(0.2, abs=1e-6)
    else:
        drag = Drag(rig, "upper_arm_fk.L")
        drag.move(drag.place + np.array((0.05, -0.25, -0.1)))
        drag.confirm()
    posed = pose_record(rig)
    tool.clear()
    for _ in range(3):
        bpy.context.view_layer.update()
        live.poll()
    assert pose_record(rig) == posed


@pytest.mark.parametrize("by", [(0.03, -0.02, 0.03), (0.05, 0.01, 0.05)])
def test_a_head_stays_upright_while_the_body_settles_under_it_and_solve_agrees(
    rig: Any, tool: list[bool], by: tuple[float, float, float]
):
    """The head's parent turns with the torso. Heads nodded by 15 degrees on the way, and Solve by 5."""
    posing.setup_character(rig)
    posing.switch_live(rig, True)
    bpy.context.view_layer.update()

    def head() -> Any:
        return (rig.matrix_world @ rig.pose.bones["head"].matrix).to_quaternion()

    upright, nods = head(), list[float]()
    tool.append(True)
    for _ in range(10):
        moved(rig, "hand.L", by)
        bpy.context.view_layer.update()
        for _ in range(3):
            live.poll()
            nods.append(upright.rotation_difference(head()).angle)
    tool.clear()
    while live.poll() is not None:
        nods.append(upright.rotation_difference(head()).angle)
    rests = head()
    report = posing.solve_pose(rig)
    assert not report.reached  # the hand is out of reach
    assert max(nods) < radians(8.0) and upright.rotation_difference(rests).angle < radians(0.5)
    assert rests.rotation_difference(head()).angle < radians(1.0)
    assert not any("constraints keep moving" in effector.why for effector in report.effectors)


def test_a_body_that_comes_to_rest_is_not_solved_anew_for_each_bone_that_moves_with_it(
    rig: Any, tool: list[bool], monkeypatch: pytest.MonkeyPatch
):
    """On a quadruped five solves, 3 seconds, stood at the end, and it sprang by 7 degrees."""
    solves, own = list[int](), Tracker.solve
    monkeypatch.setattr(Tracker, "solve", lambda *a, **k: solves.append(1) or own(*a, **k))
    posing.setup_character(rig)
    posing.switch_live(rig, True)
    tool.append(True)
    for _ in range(10):
        moved(rig, "hand.L", (0.05, -0.03, 0.06))
        bpy.context.view_layer.update()
        live.poll()
    tool.clear()
    solves.clear()
    for _ in range(ENOUGH):
        if live.poll() is None:
            break
    assert not following.is_underway(rig) and following.is_settled(rig) and solves == []
    before = [bone.matrix.copy() for bone in rig.pose.bones]
    posing.solve_pose(rig)
    bpy.context.view_layer.update()
    np.testing.assert_allclose([bone.matrix for bone in rig.pose.bones], before, atol=0.005)


def test_a_head_that_is_held_by_the_torso_is_solved_so(rig: Any):
    """MCH-ROT-head copies the rotation of the torso, MCH-ROT-neck half of it."""
    posing.setup_character(rig)
    builders.nail(rig)
    depsgraph = bpy.context.evaluated_depsgraph_get()
    depsgraph.update()
    following.follow(rig, depsgraph, Trigger.USER)
    moved(rig, "hand.L", (0.0, -0.05, 0.1))
    for _ in range(ENOUGH):
        depsgraph.update()
        if following.follow(rig, depsgraph, Trigger.GESTURE) is None:
            break
    assert not following.is_restless(rig)
    assert rig.poise.last_reached


# Rigs whose limbs hang on IK controls

LIMBS = {
    "foot": ("shin", "c_foot_ik", "c_leg_pole", -0.6),
    "hand": ("forearm", "c_hand_ik", "c_arm_pole", 0.6),
}
"""End of a limb -> the bone that has IK, its control, its pole, and how far that is before the limb."""


def rig_with_ik_controls(*, outside: bool = False) -> Any:
    """A figure whose limbs follow controls by IK with a pole; hands and feet copy their rotation.

    Args:
        outside: Let legs follow an empty instead.
    """
    bones: list[Any] = [("root", None, (0.0, 0.0, 0.0), (0.0, 0.2, 0.0)), ("hips", "root", *HIPS)]
    bones += builders.HUMANOID_CENTRE[1:]
    centre = {name for name, *_ in bones}
    for side, sign in ((".L", 1.0), (".R", -1.0)):

        def there(point: Any, sign: float = sign) -> Any:
            return sign * point[0], *point[1:]

        for name, parent, head, tail in builders.HUMANOID_LEFT:
            above = parent if parent in centre else f"{parent}{side}"
            bones.append((name + side, above, there(head), there(tail)))
            if name in LIMBS:
                bones.append((LIMBS[name][1] + side, "root", there(head), there(tail)))
            for _low, _control, pole, off in (own for own in LIMBS.values() if own[0] == name):
                middle = head[0], head[1] + off, head[2]
                end = middle[0], middle[1] + 0.1 * off, middle[2]
                bones.append((pole + side, "root", there(middle), there(end)))
    armature: Any = builders.armature("controlled", bones)
    for bone in armature.data.bones:
        bone.use_deform = not bone.name.startswith(("c_", "root"))
    for side in (".L", ".R"):
        for name, (low, control, pole, _off) in LIMBS.items():
            ik = armature.pose.bones[low + side].constraints.new('IK')
            ik.target, ik.subtarget, ik.chain_count = armature, control + side, 2
            if outside and name == "foot":
                ik.target, ik.subtarget = (
                    builders.empty("outside", armature.data.bones["foot.L"].head_local),
                    "",
                )
                continue
            ik.pole_target, ik.pole_subtarget = armature, pole + side
            # The angle of the pole at which the limb is as it is at rest.
            ik.pole_angle = min(
                (radians(a) for a in range(-180, 180, 5)), key=lambda a: bent(armature, ik, a)
            )
            copy = armature.pose.bones[name + side].constraints.new('COPY_ROTATION')
            copy.target, copy.subtarget = armature, control + side
    bpy.context.view_layer.update()
    return armature


HIPS = builders.HUMANOID_CENTRE[0][2:]


def bent(armature: Any, ik: Any, angle: float) -> float:
    """How far the middle of limbs is from where it is at rest with a pole angle [m]."""
    ik.pole_angle = angle
    bpy.context.view_layer.update()
    bones = [
        bone for bone in armature.pose.bones if ik.id_data == armature and ik in bone.constraints.values()
    ]
    return sum((bone.head - bone.bone.head_local).length for bone in bones)


def test_set_up_takes_the_controls_of_limbs_with_ik_of_their_own():
    armature = rig_with_ik_controls()
    report = posing.setup_character(armature, poles=True)
    found = {entry.name: entry.bone for entry in armature.poise.effectors}
    assert {name: found[f"{name}.L"] for name in ("hand", "foot", "elbow", "knee")} == {
        "hand": "c_hand_ik.L",
        "foot": "c_foot_ik.L",
        "elbow": "c_arm_pole.L",
        "knee": "c_leg_pole.L",
    }
    (note,) = [note for note in report.notes if "controls have the targets" in note]
    assert "'c_foot_ik.L'" in note
    feet = [place(armature, f"foot.{side}") for side in "LR"]
    # Nothing moves at first, and feet do not hold the hips.
    assert posing.solve_pose(armature).reached
    armature.poise.effectors["hips"].state = 'REACH'
    moved(armature, "hips", (0.0, 0.0, -0.2))
    moved(armature, "hand.L", (-0.1, -0.1, -0.2))
    moved(armature, "hand.R", (0.1, 0.0, -0.3))
    moved(armature, "knee.L", (0.3, 0.0, 0.0))
    report = posing.solve_pose(armature)
    assert report.reached, report.message
    assert place(armature, "hips")[2] == pytest.approx(HIPS[0][2] - 0.2, abs=1e-3)
    for side, before in zip("LR", feet, strict=True):
        assert np.linalg.norm(place(armature, f"foot.{side}") - before) < 1e-3
    for name in ("hand.L", "hand.R"):
        assert gap(armature, name, name) < 1e-3


def test_a_bake_keys_the_controls_of_limbs_with_ik_of_their_own():
    armature = rig_with_ik_controls()
    posing.setup_character(armature)
    armature.poise.effectors["hips"].state = 'REACH'
    for name, by in (
        ("hips", (0.05, 0.0, -0.25)),
        ("hand.L", (-0.15, -0.1, -0.3)),
        ("hand.R", (0.2, 0.0, -0.3)),
    ):
        target = armature.poise.effectors[name].target
        target.keyframe_insert("location", frame=1)
        moved(armature, name, by)
        target.keyframe_insert("location", frame=10)
    feet = [place(armature, f"foot.{side}") for side in "LR"]
    scene: Any = bpy.context.scene
    report = posing.bake(armature, range(1, 11))
    assert report.reached, report.summary()
    for frame in range(1, 11):
        scene.frame_set(frame)
        assert gap(armature, "hand.L", "hand.L") < 1e-3 and gap(armature, "hips", "hips") < 1e-3
        for side, before in zip("LR", feet, strict=True):
            assert np.linalg.norm(place(armature, f"foot.{side}") - before) < 1e-3


def test_a_limb_without_a_control_is_left_out_and_holds_no_hips():
    armature = rig_with_ik_controls(outside=True)
    report = posing.setup_character(armature)
    assert not {"foot.L", "foot.R"} & set(armature.poise.effectors.keys())
    notes = [note for note in report.notes if "no control of it was found" in note]
    assert [note.split(":")[0] for note in notes] == ["foot.L", "foot.R"]
    armature.poise.effectors["hips"].state = 'REACH'
    moved(armature, "hips", (0.0, 0.0, -0.2))
    posing.solve_pose(armature)
    assert place(armature, "hips")[2] == pytest.approx(HIPS[0][2] - 0.2, abs=1e-3)


@pytest.mark.parametrize("fk", [0.0, 1.0])
def test_paws_of_a_generated_animal_step_alone(fk: float):
    """The bone of the paw hangs on what IK or FK of its leg leads: without a control the whole body went."""
    builders.enable_rigify()
    bpy.ops.object.armature_basic_quadruped_metarig_add()
    bpy.ops.pose.rigify_generate()
    animal: Any = bpy.context.view_layer.objects.active
    for bone in animal.pose.bones:
        if "IK_FK" in bone:
            bone["IK_FK"] = fk
    animal.update_tag()
    bpy.context.view_layer.update()
    posing.setup_character(animal, poles=True)
    assert {bone["IK_FK"] for bone in animal.pose.bones if "IK_FK" in bone} == {1.0}
    assert "knee.L" in animal.poise.effectors
    mesh = ["DEF-toe.R", "DEF-toe.L", "DEF-front_toe.R", "DEF-front_toe.L"]
    step = np.array((0.0, -0.1, 0.1))
    for name, paw in (("foot.L", 1), ("front foot.L", 3)):
        before, torso = np.array([place(animal, bone) for bone in mesh]), place(animal, "torso")
        moved(animal, name, tuple(step))
        bpy.context.view_layer.update()
        report = posing.solve_pose(animal)
        assert report.reached, report.message
        by = np.array([place(animal, bone) for bone in mesh]) - before
        by[paw] -= step
        assert np.abs(by).max() < 0.002
        assert np.linalg.norm(place(animal, "torso") - torso) < 0.05

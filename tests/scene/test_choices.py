# SPDX-License-Identifier: GPL-3.0-or-later
"""Effectors with several targets of which one is enough."""

from typing import Any

import bpy
import pytest

from blender_ik_addon.core.errors import IKError
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.effectors.effectors import lacks_target

from . import builders


def arm(*places: tuple[float, float, float], kind: str = 'POSITION') -> Any:
    """A chain of three with a hand that has targets at some places."""
    armature = builders.chain(3, name="arm")
    posing.add_effector(armature, "bone.002", kind='ONE_OF', make_target=False)
    entry = armature.poise.effectors[0]
    entry.choice, entry.point = kind, (0.0, 1.0, 0.0)
    armature.poise.move_root = False
    for number, place in enumerate(places):
        posing.add_choice(armature, 0, builders.empty(f"rail {number}", place))
    bpy.context.view_layer.update()
    return armature


def tip(armature: Any) -> Any:
    return armature.matrix_world @ armature.pose.bones["bone.002"].tail


def test_the_nearest_is_taken_and_told():
    armature = arm((1.0, 0.0, 2.0), (0.0, -0.5, 2.8))
    report = posing.solve_pose(armature)
    assert report.reached
    assert report.effectors[0].taken == armature.poise.effectors[0].taken == "rail 1"
    assert "took 'rail 1'" in report.summary()
    assert (tip(armature) - bpy.data.objects["rail 1"].location).length < 1e-3


@pytest.mark.parametrize("kind", ['ORIENTATION', 'AIM', 'PLANE'])
def test_other_kinds_of_what_is_asked_can_be_chosen_from(kind: str):
    # A ray that begins near its target is also on it, turned or not, where it begins there.
    near = (3.0, 0.0, 6.0) if kind == 'AIM' else (0.5, 0.0, 2.5)
    armature = arm(near, (-3.0, 0.0, 0.0), kind=kind)
    for number, turn in enumerate([0.4, 2.0]):
        bpy.data.objects[f"rail {number}"].rotation_euler = (1.6, turn, 0.0)
    report = posing.solve_pose(armature)
    assert report.reached
    assert report.effectors[0].taken == "rail 0"
    assert (report.effectors[0].position is None) == (kind != 'PLANE')


def test_live_follows_whichever_target_moves():
    armature = arm((0.5, 0.0, 2.5), (-2.0, 0.0, 1.0))
    posing.follow(armature)
    assert armature.poise.effectors[0].taken == "rail 0"
    for offset in (0.1, 0.2, 0.3):
        bpy.data.objects["rail 0"].location.x = 0.5 + offset
        assert posing.follow(armature).reached
        bpy.context.view_layer.update()
        assert (tip(armature) - bpy.data.objects["rail 0"].location).length < 1e-3
    bpy.data.objects["rail 0"].location = (9.0, 0.0, 0.0)
    bpy.data.objects["rail 1"].location = (1.0, 0.0, 2.0)
    assert posing.follow(armature).reached
    assert armature.poise.effectors[0].taken == "rail 1"


def test_a_bake_tells_which_was_taken_when():
    armature = arm((1.0, 0.0, 2.0), (-2.0, 0.0, 1.0))
    ways = (
        ((1, (1.0, 0.0, 2.0)), (5, (1.0, 0.0, 2.1)), (6, (9.0, 0.0, 2.0))),
        ((1, (-9.0, 0.0, 1.0)), (4, (-9.0, 0.0, 1.0)), (5, (-2.0, 0.0, 1.0))),
    )
    for number, way in enumerate(ways):
        for frame, place in way:
            rail = bpy.data.objects[f"rail {number}"]
            rail.location = place
            rail.keyframe_insert("location", frame=frame)
    report = posing.bake(armature, range(1, 9))
    assert report.reached
    taken = [own for (own,) in report.choices]
    change = taken.index("rail 1")
    assert 4 <= change <= 5  # counted from 0: in frame 6 the first is out of reach, until 4 the second
    assert taken == ["rail 0"] * change + ["rail 1"] * (8 - change)
    assert report.taken == ("rail 0 → rail 1",)
    assert "took rail 0 → rail 1" in report.summary()


def test_a_bake_keeps_to_what_stays_in_reach():
    armature = arm((1.0, 0.0, 2.0), (-2.0, 0.0, 1.0))
    rail = bpy.data.objects["rail 0"]
    for frame, place in ((1, (1.0, 0.0, 2.0)), (5, (1.0, 0.0, 2.1)), (6, (9.0, 0.0, 2.0))):
        rail.location = place
        rail.keyframe_insert("location", frame=frame)
    report = posing.bake(armature, range(1, 9))
    assert report.reached and report.taken == ("rail 1",)


def test_nothing_is_told_of_frames_in_which_nothing_is_taken():
    armature = arm((1.0, 0.0, 2.0), (-2.0, 0.0, 1.0))
    for frame, influence in ((2, 0.0), (4, 1.0), (6, 1.0), (8, 0.0)):
        armature.poise.effectors[0].influence = influence
        armature.poise.effectors[0].keyframe_insert("influence", frame=frame)
    report = posing.bake(armature, range(1, 10))
    assert [own for (own,) in report.choices] == ["", "", *["rail 0"] * 5, "", ""]
    assert report.taken == ("rail 0",) and "took rail 0." in report.summary()


def test_targets_are_added_and_taken_away_and_a_new_effector_has_two():
    armature = builders.chain(3, name="arm")
    posing.add_effector(armature, "bone.002", kind='ONE_OF')
    entry = armature.poise.effectors[0]
    first, second = entry.target, entry.others[0].target
    assert first != second
    assert not lacks_target(entry)
    third = posing.add_choice(armature, 0)
    assert [other.target for other in entry.others] == [second, third]
    posing.remove_choice(armature, 0, 0)
    assert (entry.target, [other.target for other in entry.others]) == (second, [third])
    posing.remove_choice(armature, 0, 1)
    assert (entry.target, len(entry.others)) == (second, 0)
    with pytest.raises(IKError, match="has 1 targets"):
        posing.remove_choice(armature, 0, 0)
    with pytest.raises(IKError, match="one target to choose from: add another"):
        posing.solve_pose(armature)


def test_a_target_that_is_there_stays_when_another_is_made():
    armature = arm((1.0, 0.0, 2.0))
    entry = armature.poise.effectors[0]
    made = posing.add_choice(armature, 0)
    assert (entry.target.name, [other.target for other in entry.others]) == ("rail 0", [made])
    assert not lacks_target(entry)


@pytest.mark.parametrize("case", ["deleted", "itself", "child", "other kind"])
def test_what_cannot_be_chosen_is_refused_in_words(case: str):
    armature = arm((1.0, 0.0, 2.0), (-1.0, 0.0, 2.0))
    words = {
        "deleted": "has no target",
        "itself": "is the armature 'arm' itself",
        "child": "depends on the armature",
        "other kind": "choose the kind One Of",
    }[case]
    if case == "deleted":
        bpy.data.objects.remove(bpy.data.objects["rail 1"])
    elif case == "child":
        rail: Any = bpy.data.objects["rail 1"]
        rail.parent, rail.parent_type, rail.parent_bone = armature, 'BONE', armature.pose.bones[0].name
    elif case == "other kind":
        armature.poise.effectors[0].kind = 'POSITION'
    before = [list(bone.matrix_basis) for bone in armature.pose.bones]
    with pytest.raises(IKError, match=words):
        if case in {"itself", "other kind"}:
            posing.add_choice(armature, 0, armature)
        else:
            posing.solve_pose(armature)
    assert [list(bone.matrix_basis) for bone in armature.pose.bones] == before
    assert len(armature.poise.effectors[0].others) == 1


def test_an_influence_leads_part_of_the_way_to_either():
    armature = arm((0.5, 0.0, 2.5), (-2.0, 0.0, 1.0))
    start = tip(armature).copy()
    armature.poise.effectors[0].influence = 0.5
    assert posing.solve_pose(armature).reached
    half = (start + bpy.data.objects["rail 0"].location) / 2
    assert (tip(armature) - half).length < 1e-3


def test_operators_do_the_same():
    armature = arm((1.0, 0.0, 2.0))
    bpy.context.view_layer.objects.active = armature
    for obj in bpy.context.view_layer.objects:
        obj.select_set(True)
    builders.empty("rail 1", (0.0, 1.0, 2.0)).select_set(True)
    assert bpy.ops.poise.add_choice() == {'FINISHED'}
    assert [other.target.name for other in armature.poise.effectors[0].others] == ["rail 1"]
    assert bpy.ops.poise.remove_choice(number=0) == {'FINISHED'}
    assert armature.poise.effectors[0].target.name == "rail 1"

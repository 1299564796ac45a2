# SPDX-License-Identifier: GPL-3.0-or-later
"""Set Up Character: what it makes, of which rigs, how it is changed and undone."""

from typing import Any

import bpy
import numpy as np
import pytest
from mathutils import Vector

from blender_ik_addon.core.errors import IKError
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.armature.armature import read_armature
from blender_ik_addon.scene.armature.poses import read_pose
from tests.core.test_roles import BIRD, QUADRUPED, SNAKE, SPIDER

from . import builders

PARTS = {"hips": 1, "chest": 2, "foot.L": 0, "foot.R": 0, "hand.L": 1, "hand.R": 1, "head": 2}
"""Parts of a human with their priorities."""


def parts_of(armature: bpy.types.Object) -> dict[str, Any]:
    return {effector.part: effector for effector in armature.poise.effectors}


def counts() -> tuple[int, ...]:
    return len(bpy.data.objects), len(bpy.data.collections)


def test_a_human_gets_hips_feet_hands_and_head_at_the_bones_places():
    armature = builders.humanoid("Rig")
    armature.location, armature.rotation_euler = (1.0, 2.0, 0.5), (0.2, 0.0, 1.0)
    armature.pose.bones["upper_arm.L"].rotation_quaternion = (0.9, 0.1, 0.3, 0.2)
    report = posing.setup_character(armature)
    bpy.context.view_layer.update()
    effectors = parts_of(armature)
    assert {name: effector.priority for name, effector in effectors.items()} == PARTS
    assert report.bodies == ("biped",) and set(report.added) == set(PARTS)
    for effector in effectors.values():
        place = armature.matrix_world @ armature.pose.bones[effector.bone].matrix
        np.testing.assert_allclose(effector.target.matrix_world, place, atol=2e-6)
        assert effector.target.users_collection[0].name == "Rig Targets"
    assert effectors["hand.L"].target.name == "Rig hand.L"
    shapes = {effectors[part].target.empty_display_type for part in ("hips", "foot.L", "hand.L")}
    assert len(shapes) == 3
    assert effectors["foot.L"].target.color[:] != effectors["foot.R"].target.color[:]
    assert effectors["foot.L"].is_support and not effectors["hand.L"].is_support
    assert bpy.context.scene.collection.children["Rig Targets"] is not None


@pytest.mark.parametrize("way", [posing.setup_character, posing.targets_from_animation])
def test_a_clip_that_begins_at_scale_0_is_refused_by_bone_and_frame(way: Any, armature: Any):
    """They said that there were no effectors, and to add one."""
    scene, root = bpy.context.scene, armature.pose.bones[0]
    for scene.frame_end, scale in ((1, 0.0), (9, 1.0)):
        root.scale = (scale,) * 3
        root.keyframe_insert("scale", frame=scene.frame_end)
    scene.frame_set(1)
    with pytest.raises(IKError, match="is scaled to nothing in frame 1"):
        way(armature)
    assert not len(armature.poise.effectors) and not len(armature.poise.roles)
    scene.frame_set(scene.frame_end)
    posing.setup_character(armature)
    assert set(parts_of(armature)) == set(PARTS)


def test_the_head_goes_with_the_hips_and_hands_stay(armature: Any):
    posing.setup_character(armature)
    effectors = parts_of(armature)
    before = {part: effectors[part].target.matrix_world.translation.copy() for part in PARTS}
    head = armature.pose.bones["head"].head.z
    effectors["hips"].target.location.z -= 0.2
    bpy.context.view_layer.update()
    posing.solve_pose(armature)
    moved = {part: before[part].z - effectors[part].target.matrix_world.translation.z for part in PARTS}
    assert head - armature.pose.bones["head"].head.z > 0.1
    assert moved["chest"] > 0.1
    assert moved["hand.L"] == moved["foot.L"] == 0.0


def test_parts_have_the_states_that_suit_them(armature: Any):
    posing.setup_character(armature)
    states = {part: (effector.state, effector.kind) for part, effector in parts_of(armature).items()}
    assert states == {
        "foot.L": ('PIN', 'BOTH'),
        "foot.R": ('PIN', 'BOTH'),
        "hips": ('FOLLOW', 'BOTH'),
        "chest": ('FOLLOW', 'BOTH'),
        "hand.L": ('REACH', 'POSITION'),
        "hand.R": ('REACH', 'POSITION'),
        "head": ('REACH', 'ORIENTATION'),
    }


@pytest.mark.parametrize("roll", [0.0, 1.6, 3.1])
def test_a_head_that_is_to_aim_points_its_face_whatever_the_roll_of_its_bone(roll: float) -> None:
    armature = builders.humanoid()
    bpy.ops.object.mode_set(mode='EDIT')
    armature.data.edit_bones["head"].roll = roll
    bpy.ops.object.mode_set(mode='OBJECT')
    posing.setup_character(armature)
    head, bone = parts_of(armature)["head"], armature.pose.bones["head"]
    faces = bone.matrix.to_3x3().inverted() @ Vector((0.0, -1.0, 0.0))  # where the figure looks
    head.kind, head.target = 'AIM', builders.empty("thing", (0.5, -1.5, 1.5))
    bpy.context.view_layer.update()
    assert posing.solve_pose(armature).reached
    way = head.target.matrix_world.translation - bone.head
    assert np.degrees((bone.matrix.to_3x3() @ faces).angle(way)) < 7.0  # the axis nearest to the face


def test_a_head_that_gets_a_target_is_not_said_to_be_missing(armature: Any):
    report = posing.setup_character(armature)
    assert "head" in report.added
    assert not any("head" in note for note in report.notes)


def test_a_target_of_what_is_held_that_was_deleted_is_made_anew(armature: Any):
    posing.setup_character(armature)
    for part in ("foot.L", "hips"):
        bpy.data.objects.remove(parts_of(armature)[part].target)
    assert set(posing.setup_character(armature).added) == {"foot.L", "hips"}
    assert {part: parts_of(armature)[part].state for part in ("foot.L", "hips")} == {
        "foot.L": 'PIN',
        "hips": 'FOLLOW',
    }


def test_limits_and_stiffness_flow_into_the_solve(armature: Any):
    report = posing.setup_character(armature)
    skeleton = read_armature(armature).skeleton
    knee = skeleton.index("shin.L")
    bend = int(np.argmax(skeleton.upper[knee, 3:] - skeleton.lower[knee, 3:]))
    assert np.isfinite(skeleton.lower[knee, 3:]).all()
    assert skeleton.stiffness[knee, 3 + bend] == 0.0
    assert skeleton.stiffness[skeleton.index("spine.002"), 3:].min() > 0.5
    assert "shin.L" in report.limits_assumed and not report.limits_read
    assert np.isnan(skeleton.preferred[skeleton.index("hips"), 3:]).all()


def test_angles_of_bones_at_rest_are_preferred_as_they_are_without_rounding():
    figure = builders.basic_human_metarig()
    posing.setup_character(figure)
    assert not np.any([tuple(entry.preferred) for entry in figure.poise.joints])


def test_what_the_rig_says_comes_before_what_is_assumed(armature: Any):
    bone = armature.pose.bones["shin.L"]
    bone.use_ik_limit_x, bone.ik_min_x, bone.ik_max_x = True, -0.3, 0.7
    constraint: Any = armature.pose.bones["forearm.R"].constraints.new('LIMIT_ROTATION')
    constraint.owner_space, constraint.use_limit_y = 'LOCAL', True
    report = posing.setup_character(armature)
    assert set(report.limits_read) == {"shin.L", "forearm.R"}
    skeleton = read_armature(armature).skeleton
    assert skeleton.upper[skeleton.index("shin.L"), 3] == pytest.approx(0.7)
    assert skeleton.free[skeleton.index("forearm.R")].any()


def test_limits_of_constraints_that_are_read_keep_no_limb_from_a_target(armature: Any):
    for name in ("forearm.L", "forearm.R", "shin.L", "shin.R"):
        bone = armature.pose.bones[name]
        bone.rotation_mode = 'XYZ'
        limit = bone.constraints.new('LIMIT_ROTATION')
        limit.owner_space, limit.use_limit_x, limit.min_x, limit.max_x = 'LOCAL', True, -0.1, 2.5
    report = posing.setup_character(armature)
    assert set(report.added) == set(PARTS)
    assert set(report.limits_read) == {"forearm.L", "forearm.R", "shin.L", "shin.R"}
    assert not any("decide" in note for note in report.notes), report.notes
    again = posing.setup_character(armature)
    assert set(again.kept) == set(PARTS) and not again.added


def test_a_high_reach_lifts_the_shoulder_and_nothing_breaks(armature: Any):
    posing.setup_character(armature)
    effectors = parts_of(armature)
    effectors["hand.L"].kind = 'POSITION'
    effectors["hand.L"].target.location = (0.25, -0.05, 1.93)
    report = posing.solve_pose(armature)
    assert report.reached, report.summary()

    def turn(bone: str) -> float:
        return float(np.degrees(armature.pose.bones[bone].matrix_basis.to_quaternion().angle))

    assert turn("shoulder.L") > 4.0
    assert turn("shoulder.R") < 0.5 * turn("shoulder.L")
    spine = np.array([turn(f"spine.00{i}") for i in (1, 2, 3)])
    assert spine.max() < 2.0 * spine.mean()
    read = read_armature(armature)
    angles = read_pose(armature, read).rotation
    free = read.skeleton.free[:, 3:]
    beyond = np.maximum(read.skeleton.lower[:, 3:] - angles, angles - read.skeleton.upper[:, 3:])
    assert beyond[free].max() < 1e-4


def test_twice_is_once_and_what_was_changed_stays(armature: Any):
    posing.setup_character(armature)
    effectors = parts_of(armature)
    effectors["hand.L"].weight = 3.0
    effectors["hand.L"].target.location.x = 9.0
    before = counts(), len(armature.poise.joints), len(armature.poise.roles)
    report = posing.setup_character(armature)
    assert (counts(), len(armature.poise.joints), len(armature.poise.roles)) == before
    assert not report.added and set(report.kept) == set(PARTS)
    again = parts_of(armature)["hand.L"]
    assert (again.weight, again.target.location.x) == (3.0, 9.0)


def test_what_was_made_by_hand_is_taken_over_and_a_lost_target_is_made_anew(armature: Any):
    posing.add_effector(armature, "hand.L")
    own = armature.poise.effectors[0].target
    posing.setup_character(armature)
    assert parts_of(armature)["hand.L"].target == own
    bpy.data.objects.remove(parts_of(armature)["head"].target)
    assert posing.setup_character(armature).added == ("head",)
    assert parts_of(armature)["head"].target is not None


def test_the_table_decides_in_another_run(armature: Any):
    posing.setup_character(armature)
    rows = {row.bone: row for row in armature.poise.roles}
    rows["hand.R"].role = 'NONE'
    rows["head"].bone = "neck"
    rows["neck"].role = 'NONE'
    report = posing.setup_character(armature)
    effectors = parts_of(armature)
    assert effectors["head"].bone == "neck"
    assert effectors["hand.R"].bone == "forearm.R"
    assert "hand.R" in report.kept
    assert posing.setup_character(armature, use_table=False).roles != report.roles
    assert parts_of(armature)["head"].bone == "head"


def test_parts_that_are_not_any_more_go_with_their_targets(armature: Any):
    posing.setup_character(armature, poles=True)
    assert {"elbow.L", "knee.R"} <= set(parts_of(armature))
    objects = len(bpy.data.objects)
    for row in armature.poise.roles:
        if row.bone.endswith(".R") and row.role in {'SHOULDER', 'UPPER_ARM', 'LOWER_ARM', 'HAND'}:
            row.role = 'NONE'
    report = posing.setup_character(armature, poles=True)
    assert set(report.removed) == {"hand.R", "elbow.R"}
    assert len(bpy.data.objects) == objects - 2


def test_names_of_effectors_differ_also_from_those_made_by_hand(armature: Any):
    posing.add_effector(armature, "hand.R", kind='AIM')
    for _ in range(2):
        posing.setup_character(armature)
        names = [entry.name for entry in armature.poise.effectors]
        assert len(set(names)) == len(names) == 8
        assert names[0] == "hand.R" and parts_of(armature)["hand.R"].name == "hand.R.001"


def test_what_is_said_counts_right(armature: Any):
    first = posing.setup_character(armature, poles=True)
    bpy.data.objects.remove(parts_of(armature)["head"].target)
    again = posing.setup_character(armature)
    assert ": 1 target created" in again.summary()
    assert set(again.added) | set(again.kept) == set(first.added) and len(again.kept) == 10
    assert ", 10 kept" in again.summary()
    limits_read = posing.read_limits(armature)
    assert limits_read.summary()[0].isupper()


def test_poles_lie_where_limbs_bend_to_and_ask_for_nothing(armature: Any):
    posing.setup_character(armature, poles=True)
    bpy.context.view_layer.update()
    effectors = parts_of(armature)
    knee = effectors["knee.L"]
    assert (knee.bone, knee.root_bone, knee.tip_bone) == ("shin.L", "thigh.L", "foot.L")
    assert knee.target.location.y < armature.pose.bones["shin.L"].head.y - 0.1  # the figure looks along -y
    assert posing.solve_pose(armature).reached


def test_twist_bones_and_roots_are_not_solved_and_hips_leave_their_place():
    bones: list[Any] = [("root", None, (0.0, 0.0, 0.0), (0.0, 0.3, 0.0))]
    for name, parent, head, tail in builders.HUMANOID_CENTRE:
        bones.append((name, parent or "root", head, tail))
    central = {name for name, *_ in builders.HUMANOID_CENTRE}
    for side, sign in ((".L", 1.0), (".R", -1.0)):
        for name, parent, head, tail in builders.HUMANOID_LEFT:
            above = parent if parent in central else f"{parent}{side}"
            above = f"upper_arm_twist{side}" if name == "forearm" else above
            place = (sign * head[0], *head[1:]), (sign * tail[0], *tail[1:])
            bones.append((f"{name}{side}", above, *place))
            if name == "upper_arm":
                middle = tuple(0.5 * (a + b) for a, b in zip(*place, strict=True))
                bones.append((f"upper_arm_twist{side}", f"upper_arm{side}", middle, place[1]))
    armature = builders.armature("twisted", bones)
    report = posing.setup_character(armature)
    assert set(report.held) == {"root", "upper_arm_twist.L", "upper_arm_twist.R"}
    effectors = parts_of(armature)
    effectors["hips"].target.location.z -= 0.1
    effectors["hand.L"].target.location.y -= 0.1
    assert posing.solve_pose(armature).reached
    for name in report.held:
        assert armature.pose.bones[name].rotation_quaternion[:] == (1.0, 0.0, 0.0, 0.0)
        assert armature.pose.bones[name].location.length == 0.0
    assert armature.pose.bones["hips"].location.length == pytest.approx(0.1, abs=1e-3)


def test_an_armature_that_is_no_body_says_so_and_stays_as_it_is():
    armature = builders.chain(3)
    report = posing.setup_character(armature)
    assert "hand.L" not in report.added and report.notes
    armature.poise.effectors.clear()
    bpy.ops.object.mode_set(mode='EDIT')
    with pytest.raises(IKError, match="Edit Mode"):
        posing.setup_character(armature)


def test_the_operator_does_the_same_and_one_undo_takes_it_all_back(armature: Any):
    bpy.ops.ed.undo_push(message="before")
    assert bpy.ops.poise.setup_character() == {'FINISHED'}
    assert {name: e.priority for name, e in parts_of(armature).items()} == PARTS
    assert armature.poise.last_message
    bpy.ops.ed.undo_push(message="Set Up Character")
    bpy.ops.ed.undo()
    armature = bpy.data.objects["humanoid"]
    assert not len(armature.poise.effectors) and not len(armature.poise.roles)
    assert not len(armature.poise.joints)
    assert len(bpy.data.objects) == 1 and "humanoid Targets" not in bpy.data.collections


def test_rows_and_limits_are_edited_by_operators(armature: Any):
    assert bpy.ops.poise.recognise_roles() == {'FINISHED'}
    rows = len(armature.poise.roles)
    armature.data.bones.active = armature.data.bones["head"]
    bpy.ops.poise.edit_roles(action='ADD')
    assert armature.poise.roles[rows].bone == "head"
    with pytest.raises(RuntimeError, match="'head' twice"):
        armature.poise.roles[rows].role = 'HAND'
        bpy.ops.poise.setup_character()
    bpy.ops.poise.edit_roles(action='REMOVE')
    assert len(armature.poise.roles) == rows
    armature.data.bones.active = None
    with pytest.raises(RuntimeError, match="Make the bone active"):
        bpy.ops.poise.edit_roles(action='ADD')
    assert len(armature.poise.roles) == rows
    armature.data.bones.active = armature.data.bones["head"]
    bpy.ops.poise.edit_limits(action='OWN')
    assert [entry.name for entry in armature.poise.joints] == ["head"]
    bpy.ops.poise.edit_limits(action='RIG')
    assert not len(armature.poise.joints)


def test_rigify_has_its_character():
    builders.enable_rigify()
    bpy.ops.object.armature_human_metarig_add()
    armature: Any = bpy.context.view_layer.objects.active
    report = posing.setup_character(armature)  # how long it takes is measured by scripts/setup
    assert {name: e.priority for name, e in parts_of(armature).items()} == PARTS
    assert parts_of(armature)["head"].bone == "spine.006"
    assert len(report.limits_assumed) >= 20
    assert posing.solve_pose(armature).reached


def test_bones_that_are_renamed_are_followed(armature: Any):
    """As Blender's own constraints do; live mode waited for a bone of the old name."""
    posing.setup_character(armature)
    index = posing.add_effector(armature, "hand.R")
    armature.data.bones["hand.R"].name = "Right Hand"
    bpy.context.view_layer.update()
    assert armature.poise.effectors[index].bone == "Right Hand"
    posing.store_pose(armature, posing.add_effector(armature, "head", kind='STAY'))
    armature.data.bones["hand.L"].name = "Left Hand"
    armature.data.bones["upper_arm.L"].name = "Left Arm"
    armature.data.bones["head"].name = "Head"
    bpy.context.view_layer.update()
    assert parts_of(armature)["hand.L"].bone == "Left Hand"
    assert {"Left Hand", "Left Arm", "Head"} <= {row.bone for row in armature.poise.roles}
    assert "Left Arm" in armature.poise.joints and "upper_arm.L" not in armature.poise.joints
    assert "Head" in armature.poise.effectors[-1].stored
    parts_of(armature)["hand.L"].target.location.z += 0.1
    assert posing.solve_pose(armature).reached
    armature.data.bones["Left Hand"].name = "hand.L"  # and once more
    assert posing.solve_pose(armature).reached
    assert parts_of(armature)["hand.L"].bone == "hand.L"


def test_a_bone_that_is_gone_is_no_renamed_one_and_its_row_is_told(armature: Any):
    posing.setup_character(armature)
    bpy.context.view_layer.objects.active = armature
    bpy.ops.object.mode_set(mode='EDIT')
    edit: Any = armature.data.edit_bones
    edit.remove(edit["hand.L"])
    edit.new("another").tail = (0.0, 0.0, 1.0)
    bpy.ops.object.mode_set(mode='OBJECT')
    with pytest.raises(IKError, match=r"hand\.L"):
        posing.solve_pose(armature)
    assert parts_of(armature)["hand.L"].bone == "hand.L"
    report = posing.setup_character(armature)
    assert any("'hand.L'" in note for note in report.notes)


# Animals

ANIMALS: dict[str, Any] = {"quadruped": QUADRUPED, "bird": BIRD, "many-legged": SPIDER, "snake": SNAKE}


def animal(body: str) -> Any:
    """An animal of which only the shape says what it is, set up."""
    table = ANIMALS[body]
    number = {name: f"bone.{row:03d}" for row, (name, *_) in enumerate(table)}
    armature = builders.joints(
        body, [(number[name], parent and number[parent], place) for name, parent, place in table]
    )
    assert posing.setup_character(armature).bodies == (body,)
    return armature


def bone_of(armature: Any, name: str) -> Any:
    """The bone of a joint of the table."""
    row = [joint for joint, *_ in ANIMALS[armature.name]].index(name)
    return armature.pose.bones[f"bone.{row:03d}"]


def turn_of(armature: Any, name: str) -> float:
    return float(np.degrees(bone_of(armature, name).matrix_basis.to_quaternion().angle))


def heads(armature: Any) -> dict[str, Any]:
    bpy.context.view_layer.update()
    return {bone.name: np.array(armature.matrix_world @ bone.head) for bone in armature.pose.bones}


@pytest.mark.parametrize("body", ANIMALS)
def test_natural_pose_is_greyed_out_for_animals_and_not_for_people(body: str):
    assert bpy.context.view_layer.objects.active is None
    animal(body)
    with pytest.raises(RuntimeError, match="A natural pose is known of people alone"):
        bpy.ops.poise.natural()
    figure = builders.humanoid()
    assert bpy.ops.poise.natural.poll()  # nothing is known of it yet
    posing.setup_character(figure)
    assert bpy.ops.poise.natural.poll()


@pytest.mark.parametrize("body", ANIMALS)
def test_a_solve_after_an_animal_was_set_up_moves_nothing(body: str):
    armature = animal(body)
    before = heads(armature)
    report = posing.solve_pose(armature)
    assert report.reached
    for name, place in heads(armature).items():
        np.testing.assert_allclose(place, before[name], atol=2e-5)


@pytest.mark.parametrize("body", ANIMALS)
def test_all_targets_of_an_animal_go_where_it_goes(body: str):
    armature = animal(body)
    assert posing.staying_behind(armature) == ()
    feet = [entry.target for part, entry in parts_of(armature).items() if "foot" in part]
    assert len({(foot.empty_display_type, foot.empty_display_size) for foot in feet}) <= 1


def test_a_quadruped_crouches_on_its_paws_with_legs_that_fold_like_a_z():
    armature = animal("quadruped")
    effectors = parts_of(armature)
    assert {"hips", "chest"} <= set(effectors) and effectors["head"].kind == 'ORIENTATION'
    feet = [part for part in effectors if "foot" in part]
    assert len(feet) == 4 and {effectors[part].state for part in feet} == {'PIN'}
    before = heads(armature)
    for part in ("hips", "chest"):
        effectors[part].target.location.z -= 0.3
    bpy.context.view_layer.update()
    assert posing.solve_pose(armature).reached
    after = heads(armature)
    for part in feet:
        np.testing.assert_allclose(after[effectors[part].bone], before[effectors[part].bone], atol=1e-4)

    def bend(leg: str, row: int) -> float:
        """Bend of a joint of a left leg about the axis from right to left [°]."""
        above, joint, below = (after[bone_of(armature, f"{leg}{row + i} L").name] for i in (-1, 0, 1))
        first, second = joint - above, below - joint
        return float(np.degrees(np.arctan2(np.cross(first, second)[0], first @ second)))

    knee, hock, elbow = bend("hind", 1), bend("hind", 2), bend("fore", 1)
    assert knee * hock < 0.0 and min(abs(knee), abs(hock)) > 60.0
    assert elbow * knee < 0.0 and abs(elbow) > 60.0


def test_a_snake_that_is_pulled_by_its_head_bends_and_its_tail_stays():
    armature = animal("snake")
    assert parts_of(armature)["tail"].state == 'PIN'
    tail = np.array(bone_of(armature, "s0").tail)
    parts_of(armature)["head"].target.location += Vector((0.3, 0.1, 0.0))
    bpy.context.view_layer.update()
    assert posing.solve_pose(armature).reached
    np.testing.assert_allclose(np.array(bone_of(armature, "s0").tail), tail, atol=1e-4)
    turns = [turn_of(armature, f"s{row}") for row in range(12)]
    assert sum(turn > 3.0 for turn in turns) >= 6


def test_an_animals_spine_and_neck_have_limits():
    armature = animal("quadruped")
    skeleton = read_armature(armature).skeleton
    for name in ("spine", "neck", "tail1", "hind0 L", "fore0 R"):
        joint = skeleton.index(bone_of(armature, name).name)
        assert np.isfinite([skeleton.lower[joint, 3:], skeleton.upper[joint, 3:]]).all(), name


LIMBS = ("elbow.L", "elbow.R", "knee.L", "knee.R")


def test_elbows_and_knees_get_handles_that_move_nothing_and_lose_them_again(armature: Any):
    posing.setup_character(armature)
    posing.solve_pose(armature)
    before, pose = counts(), [bone.rotation_quaternion[:] for bone in armature.pose.bones]
    parts, on = posing.bend_limbs(armature)
    assert on and sorted(parts) == list(LIMBS)
    posing.solve_pose(armature)
    now = [bone.rotation_quaternion[:] for bone in armature.pose.bones]
    np.testing.assert_allclose(now, pose, atol=1e-4)
    assert all(parts_of(armature)[part].kind == 'POLE' for part in LIMBS)
    parts, on = posing.bend_limbs(armature)
    assert not on and sorted(parts) == list(LIMBS)
    assert counts() == before and set(parts_of(armature)) == set(PARTS)


def test_the_elbow_of_one_arm_goes_where_its_handle_is_moved_and_the_hand_stays(armature: Any):
    posing.setup_character(armature)
    hand = list(armature.poise.effectors).index(parts_of(armature)["hand.L"])
    assert posing.bend_limbs(armature, [hand]) == (("elbow.L",), True)
    target = parts_of(armature)["hand.L"].target
    target.location.x -= 0.25 * armature.dimensions.z  # so that the arm bends
    bpy.context.view_layer.update()
    posing.solve_pose(armature)
    was = armature.pose.bones["forearm.L"].head.copy()
    elbow = parts_of(armature)["elbow.L"].target
    elbow.location.z += 2.0 * armature.dimensions.z
    bpy.context.view_layer.update()
    posing.solve_pose(armature)
    assert armature.pose.bones["forearm.L"].head.z > was.z + 0.02 * armature.dimensions.z
    place = armature.matrix_world @ armature.pose.bones["hand.L"].head
    np.testing.assert_allclose(place[:], target.matrix_world.translation[:], atol=1e-4)


def test_what_has_no_elbow_or_knee_is_refused_in_words_and_stays(armature: Any):
    posing.setup_character(armature)
    head = list(armature.poise.effectors).index(parts_of(armature)["head"])
    before = counts()
    with pytest.raises(IKError, match="no such arm or leg with an elbow or a knee"):
        posing.bend_limbs(armature, [head])
    assert counts() == before and set(parts_of(armature)) == set(PARTS)


def test_an_aim_that_is_added_to_a_head_looks_out_of_the_face():
    figure = builders.basic_human_metarig()
    posing.setup_character(figure)
    head = figure.poise.effectors["head"]
    look = figure.poise.effectors[posing.add_effector(figure, head.bone, kind='AIM')]
    bpy.context.view_layer.update()
    away = look.target.matrix_world.translation - head.target.matrix_world.translation
    assert away.y < -0.9 * away.length  # forwards

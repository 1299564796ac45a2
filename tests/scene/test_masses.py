# SPDX-License-Identifier: GPL-3.0-or-later
"""What bones weigh: by role, by length, as it was set; and that the balance goes by it."""

from pathlib import Path
from typing import Any

import bmesh
import bpy
import numpy as np
import pytest

from blender_ik_addon.core.errors import IKError
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.armature.armature import read_armature
from blender_ik_addon.scene.effectors.masses import body_of, mass_entries
from blender_ik_addon.scene.live.following import follow

from . import builders


def masses(armature: Any) -> dict[str, float]:
    skeleton = read_armature(armature).skeleton
    return dict(zip(skeleton.names, body_of(armature, skeleton).masses.tolist(), strict=True))


def test_without_roles_bones_weigh_by_their_lengths_and_with_roles_as_in_people(armature: Any):
    by_length = masses(armature)
    assert sum(by_length.values()) == pytest.approx(70.0)
    ratio = (armature.data.bones["thigh.L"].length / armature.data.bones["shin.L"].length) ** 3
    assert by_length["thigh.L"] / by_length["shin.L"] == pytest.approx(ratio, rel=1e-5)
    posing.setup_character(armature)
    by_role = masses(armature)
    assert sum(by_role.values()) == pytest.approx(70.0)
    assert by_role["thigh.L"] == pytest.approx(0.1447 * 70.0, rel=0.02)  # [DeLeva1996]
    armature.poise.mass_source = 'LENGTHS'
    assert masses(armature) == by_length


def test_setting_one_bone_changes_no_other_and_taking_it_away_is_as_before(armature: Any):
    before = masses(armature)
    posing.own_masses(armature, ["head", "hand.L"])
    assert list(mass_entries(armature)) == ["head", "hand.L"]
    assert sum(masses(armature).values()) == pytest.approx(70.0, rel=1e-5)
    mass_entries(armature)["head"].mass = 20.0
    after = masses(armature)
    assert after["head"] == 20.0
    assert all(after[name] == pytest.approx(before[name], rel=1e-6) for name in before if name != "head")
    assert posing.remove_masses(armature) == 2
    assert masses(armature) == before


def test_the_balance_goes_by_the_masses(armature: Any):
    for foot in ("foot.L", "foot.R"):
        posing.add_effector(armature, foot)
    index = posing.add_effector(armature, "hips", kind='BALANCE')
    posing.own_masses(armature, ["hand.L"])
    mass_entries(armature)["hand.L"].mass = 30.0  # a bucket
    report = posing.solve_pose(armature)
    assert report.reached
    bpy.context.view_layer.update()
    skeleton = read_armature(armature).skeleton
    body = body_of(armature, skeleton)
    joints = np.array([armature.pose.bones[name].matrix for name in skeleton.names])
    centre = body.centre((np.array(armature.matrix_world) @ joints)[None])[0]
    place = armature.poise.effectors[index].target.location
    assert np.hypot(centre[0] - place.x, centre[1] - place.y) < 1e-3
    hips = armature.pose.bones["hips"].head.x
    assert hips < -0.05  # the body leans away from what it carries on its left


def test_live_notices_another_mass(armature: Any):
    for foot in ("foot.L", "foot.R"):
        posing.add_effector(armature, foot)
    posing.add_effector(armature, "hips", kind='BALANCE')
    posing.own_masses(armature, ["hand.L"])
    posing.follow(armature)
    assert posing.follow(armature) is None
    mass_entries(armature)["hand.L"].mass = 30.0
    assert posing.follow(armature) is not None


def test_no_mass_at_all_is_refused_in_words_and_nothing_moves():
    armature = builders.chain(2)
    posing.add_effector(armature, "bone.001", kind='BALANCE')
    posing.own_masses(armature, ["bone.000", "bone.001"])
    for entry in armature.poise.masses:
        entry.mass = 0.0
    before = [np.array(bone.matrix_basis).tolist() for bone in armature.pose.bones]
    with pytest.raises(IKError, match="no mass that could be balanced"):
        posing.solve_pose(armature)
    assert [np.array(bone.matrix_basis).tolist() for bone in armature.pose.bones] == before
    with pytest.raises(IKError, match="nose"):
        posing.own_masses(armature, ["nose"])


def test_operators_do_the_same(armature: Any):
    bpy.context.view_layer.objects.active = armature
    armature.data.bones.active = armature.data.bones["head"]
    assert bpy.ops.poise.edit_masses(action='OWN') == {'FINISHED'}
    assert set(mass_entries(armature)) == {"head"}
    assert bpy.ops.poise.edit_masses(action='REMOVE') == {'FINISHED'}
    assert not mass_entries(armature)


# Meshes


def boxes(
    armature: Any,
    sizes: dict[str, float],
    *,
    weighted: bool = True,
    way: str = 'MODIFIER',
    name: str = "body",
) -> Any:
    """A mesh with a cube of some size [m] round the middle of each bone, bound to it."""
    corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
    sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    vertices, faces = [], []
    for number, (bone, size) in enumerate(sizes.items()):
        middle = (armature.data.bones[bone].head_local + armature.data.bones[bone].tail_local) / 2.0
        vertices += (size * corners + np.array(middle)).tolist()
        faces += [tuple(8 * number + corner for corner in side) for side in sides]
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata(vertices, [], faces)
    thing: Any = bpy.data.objects.new(name, mesh)
    bpy.context.scene.collection.objects.link(thing)
    for number, bone in enumerate(sizes):
        if weighted:
            thing.vertex_groups.new(name=bone).add(range(8 * number, 8 * number + 8), 1.0, 'REPLACE')
    if way == 'MODIFIER':
        thing.modifiers.new("Armature", 'ARMATURE').object = armature
    bpy.context.view_layer.update()
    return thing


def pose_of(armature: Any) -> list[list[list[float]]]:
    return [np.array(bone.matrix_basis).tolist() for bone in armature.pose.bones]


def test_bones_weigh_by_the_volumes_of_what_goes_with_them_in_any_pose_and_at_any_scale(armature: Any):
    boxes(armature, {"hips": 0.2, "hand.L": 0.1})
    armature.scale = (2.0, 2.0, 2.0)
    armature.pose.bones["upper_arm.L"].rotation_quaternion = (0.8, 0.6, 0.0, 0.0)
    bpy.context.view_layer.update()
    bodies = bpy.data.objects["body"]
    bodies.matrix_world = armature.matrix_world
    bpy.context.view_layer.update()
    report = posing.measure_meshes(armature)
    assert (report.bones, report.meshes, report.notes) == (2, ("body",), ())
    assert report.volume == pytest.approx(8.0 * 0.009, rel=1e-4)
    assert "1 mesh of 72 litres shared among 2 bones" in report.summary()
    assert armature.poise.mass_source == 'MESHES'
    skeleton = read_armature(armature).skeleton
    body = body_of(armature, skeleton)
    weights = dict(zip(skeleton.names, body.masses.tolist(), strict=True))
    assert weights["hips"] == pytest.approx(70.0 * 8.0 / 9.0, rel=1e-5)
    assert weights["hand.L"] == pytest.approx(70.0 / 9.0, rel=1e-5)
    assert sum(weights.values()) == pytest.approx(70.0)
    hand = skeleton.index("hand.L")
    middle = [0.0, armature.data.bones["hand.L"].length / 2.0, 0.0]
    np.testing.assert_allclose(body.centres[hand], middle, atol=1e-5)
    armature.poise.mass_source = 'ROLES'
    assert masses(armature)["thigh.L"] > 0.0


def test_what_is_parented_to_a_bone_goes_with_it_where_it_is(armature: Any):
    boxes(armature, {"hips": 0.2})
    sword = boxes(armature, {"hand.L": 0.2}, weighted=False, way='PARENT', name="sword")
    rest = sword.matrix_world.copy()
    sword.parent, sword.parent_type, sword.parent_bone = armature, 'BONE', "hand.L"
    sword.matrix_world = rest
    armature.pose.bones["upper_arm.L"].rotation_quaternion = (0.8, 0.6, 0.0, 0.0)
    bpy.context.view_layer.update()
    posing.measure_meshes(armature)
    assert masses(armature)["hand.L"] == pytest.approx(35.0, rel=1e-4)
    entry = next(entry for entry in armature.poise.mesh_masses if entry.name == "hand.L")
    np.testing.assert_allclose(
        entry.centre, [0.0, armature.data.bones["hand.L"].length / 2.0, 0.0], atol=1e-4
    )


def test_a_mirror_that_makes_the_other_half_counts(armature: Any):
    thing = boxes(armature, {"hand.L": 0.1})
    thing.vertex_groups.new(name="hand.R")
    mirror: Any = thing.modifiers.new("Mirror", 'MIRROR')
    mirror.use_clip = False
    thing.modifiers.move(1, 0)
    armature.pose.bones["upper_arm.L"].rotation_quaternion = (0.8, 0.6, 0.0, 0.0)
    bpy.context.view_layer.update()
    report = posing.measure_meshes(armature)
    assert "modifiers make faces (Mirror)" in report.summary()
    assert masses(armature)["hand.L"] == pytest.approx(35.0, rel=1e-4)
    assert masses(armature)["hand.R"] == pytest.approx(35.0, rel=1e-4)
    for entry in armature.poise.mesh_masses:
        middle = [0.0, armature.data.bones[entry.name].length / 2.0, 0.0]
        np.testing.assert_allclose(entry.centre, middle, atol=1e-4)
    mirror.show_viewport = False
    assert "modifiers" not in posing.measure_meshes(armature).summary()
    assert masses(armature)["hand.R"] == 0.0


def test_weights_count_for_bones_that_deform_wherever_the_mesh_hangs(armature: Any):
    thing = boxes(armature, {"hips": 0.2, "hand.L": 0.2, "head": 0.2})
    rest = thing.matrix_world.copy()
    thing.parent, thing.parent_type, thing.parent_bone = armature, 'BONE', "foot.L"
    thing.matrix_world = rest
    armature.data.bones["head"].use_deform = False
    bpy.context.view_layer.update()
    posing.measure_meshes(armature)
    weights = masses(armature)
    assert weights["head"] == weights["foot.L"] == 0.0
    assert weights["hips"] == pytest.approx(35.0, rel=1e-4)


def test_meshes_that_cannot_be_weighed_are_refused_in_words_and_nothing_changes(armature: Any):
    before = masses(armature)
    with pytest.raises(IKError, match="no mesh of the scene goes with 'humanoid': bind one"):
        posing.measure_meshes(armature)
    thing = boxes(armature, {"hips": 0.2}, weighted=False)
    with pytest.raises(IKError, match=r"'humanoid' \('body'\) cannot be weighed: no vertex .* has a weight"):
        posing.measure_meshes(armature)
    thing.vertex_groups.new(name="nose").add(range(8), 1.0, 'REPLACE')
    with pytest.raises(IKError, match="has a weight"):
        posing.measure_meshes(armature)
    thing.vertex_groups.new(name="hips").add(range(8), 1.0, 'REPLACE')
    for vertex in thing.data.vertices:
        vertex.co.z = 0.0
    with pytest.raises(IKError, match="encloses no volume"):
        posing.measure_meshes(armature)
    thing.hide_render = True
    with pytest.raises(IKError, match="'body' is not rendered"):
        posing.measure_meshes(armature)
    assert armature.poise.mass_source == 'ROLES' and not armature.poise.mesh_masses
    assert masses(armature) == before


def test_vertices_without_a_weight_and_holes_are_told(armature: Any):
    thing = boxes(armature, {"hips": 0.2, "head": 0.2})
    thing.vertex_groups["head"].remove([8])
    bpy.context.view_layer.update()
    summary = posing.measure_meshes(armature).summary()
    assert "1 vertex goes with no bone and weighs nothing" in summary
    assert "holes" not in summary
    shell = bmesh.new()
    shell.from_mesh(thing.data)
    shell.faces.ensure_lookup_table()
    bmesh.ops.delete(shell, geom=[shell.faces[0]], context='FACES_ONLY')
    shell.to_mesh(thing.data)
    shell.free()
    summary = posing.measure_meshes(armature).summary()
    assert "there are holes (4 edges with one face)" in summary


def test_before_anything_is_measured_bones_weigh_by_role(armature: Any):
    posing.setup_character(armature)
    by_role = masses(armature)
    armature.poise.mass_source = 'MESHES'
    assert masses(armature) == by_role


def test_measuring_is_one_operator_that_live_mode_notices(armature: Any):
    boxes(armature, {"hips": 0.2, "hand.L": 0.2})
    for foot in ("foot.L", "foot.R"):
        posing.add_effector(armature, foot)
    posing.add_effector(armature, "hips", kind='BALANCE')
    posing.follow(armature)
    assert posing.follow(armature) is None
    bpy.context.view_layer.objects.active = armature
    before = pose_of(armature)
    assert bpy.ops.poise.measure_meshes() == {'FINISHED'}
    assert pose_of(armature) == before
    assert posing.follow(armature) is not None
    for change in (("share", 0.4), ("centre", (0.0, 0.05, 0.1))):  # measured again
        setattr(armature.poise.mesh_masses[0], *change)
        armature.poise.effectors[0].target.location.x += 1e-3  # where it solves it looks at settings, too
        bpy.context.view_layer.update()
        assert follow(armature, bpy.context.evaluated_depsgraph_get(), look_closely=False) is not None
        assert posing.follow(armature) is None
    bpy.data.objects.remove(bpy.data.objects["body"])
    with pytest.raises(RuntimeError, match="No mesh of the scene"):
        bpy.ops.poise.measure_meshes()
    assert len(armature.poise.mesh_masses) == 2


def test_people_of_real_rigs_weigh_about_what_people_do(data_folder: Path):
    rig = data_folder / "rigs" / "mesh2motion_cc0" / "variations" / "human-male.glb"
    bpy.ops.import_scene.gltf(filepath=str(rig))
    armature = next(thing for thing in bpy.data.objects if thing.type == 'ARMATURE')
    report = posing.measure_meshes(armature)
    assert 0.06 < report.volume < 0.09  # a man
    weights = masses(armature)
    for left in [name for name in weights if name.endswith("_l")]:
        assert weights[left] == pytest.approx(weights[left[:-2] + "_r"], rel=0.02, abs=0.01)
    trunk = sum(weights[name] for name in ("pelvis", "spine_01", "spine_02", "spine_03")) / 70.0
    assert 0.25 < trunk < 0.5  # 0.43 [DeLeva1996], of which collarbones and thighs have their parts here
    leg = (weights["thigh_l"] + weights["calf_l"] + weights["foot_l"] + weights["ball_l"]) / 70.0
    assert 0.15 < leg < 0.25  # 0.20 [DeLeva1996]


def test_a_body_of_several_closed_meshes_has_the_volume_of_them_all(data_folder: Path):
    bpy.ops.import_scene.gltf(filepath=str(data_folder / "rigs" / "kaykit_cc0" / "manny_med_mod.gltf"))
    armature = next(thing for thing in bpy.data.objects if thing.type == 'ARMATURE')
    report = posing.measure_meshes(armature)
    assert len(report.meshes) == 8
    weights = masses(armature)
    assert weights["head"] > 0.5 * 70.0  # its head is the larger part of it
    assert weights["upperarm.l"] == pytest.approx(weights["upperarm.r"], rel=1e-3)

# SPDX-License-Identifier: GPL-3.0-or-later
"""What bones weigh: by role, by length, as it was set; and that the balance goes by it."""

from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.core.errors import IKError
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.armature import read_armature
from blender_ik_addon.scene.masses import body_of, mass_entries

from . import builders


def masses(armature: Any) -> dict[str, float]:
    skeleton = read_armature(armature).skeleton
    return dict(zip(skeleton.names, body_of(armature, skeleton).masses.tolist(), strict=True))


def test_without_roles_bones_weigh_by_their_lengths_and_with_roles_as_in_people():
    armature = builders.humanoid()
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


def test_setting_one_bone_changes_no_other_and_taking_it_away_is_as_before():
    armature = builders.humanoid()
    before = masses(armature)
    report = posing.own_masses(armature, ["head", "hand.L"])
    assert report.bones == ("head", "hand.L") and report.total == pytest.approx(70.0, rel=1e-5)
    mass_entries(armature)["head"].mass = 20.0
    after = masses(armature)
    assert after["head"] == 20.0
    assert all(after[name] == pytest.approx(before[name], rel=1e-6) for name in before if name != "head")
    assert posing.remove_masses(armature) == 2
    assert masses(armature) == before


def test_the_balance_goes_by_the_masses():
    armature = builders.humanoid()
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


def test_live_notices_another_mass():
    armature = builders.humanoid()
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


def test_masses_are_in_presets(tmp_path: Path):
    armature = builders.humanoid()
    posing.own_masses(armature, ["hand.L"])
    mass_entries(armature)["hand.L"].mass = 12.5
    armature.poise.body_mass = 90.0
    posing.save_preset(armature, tmp_path / "carrier.json")
    other = builders.humanoid("other")
    posing.load_preset(other, tmp_path / "carrier.json")
    assert mass_entries(other)["hand.L"].mass == 12.5
    assert other.poise.body_mass == 90.0
    assert set(mass_entries(other)) == {"hand.L"}


def test_operators_do_the_same():
    armature = builders.humanoid()
    bpy.context.view_layer.objects.active = armature
    armature.data.bones.active = armature.data.bones["head"]
    assert bpy.ops.poise.edit_masses(action='OWN') == {'FINISHED'}
    assert set(mass_entries(armature)) == {"head"}
    assert bpy.ops.poise.edit_masses(action='REMOVE') == {'FINISHED'}
    assert not mass_entries(armature)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Softness of effectors in Blender: what may be missed, what is reported, and where the setting goes."""

from typing import Any

import bpy
import pytest
from mathutils import Matrix, Vector

from blender_ik_addon.core import IKError
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.effectors.effectors import read_effectors
from blender_ik_addon.scene.kinds.kinds import KINDS
from blender_ik_addon.ui import panels

from . import builders
from .measured import miss

SOFT = 0.02
"""Softness [m] of an arm of three bones of 0.3 m each."""


def arm(kind: str = 'POSITION', scale: float = 1.0) -> Any:
    """An arm whose end is to go to the side, by a turn of about a radian."""
    armature = builders.chain(3, length=0.3)
    armature.scale = (scale,) * 3
    bpy.context.view_layer.update()
    number = posing.add_effector(armature, "bone.002", kind=kind)
    entry = armature.poise.effectors[number]
    place = Matrix.Translation((0.25 * scale, 0.1 * scale, 0.45 * scale))
    entry.target.matrix_world = place @ Matrix.Rotation(1.2, 4, 'X')
    bpy.context.view_layer.update()
    return armature


def entry_of(armature: Any) -> Any:
    return armature.poise.effectors[0]


@pytest.mark.parametrize("scale", [1.0, 0.01, 50.0])
def test_a_soft_target_is_missed_by_about_its_softness_and_counts_as_reached(scale: float):
    armature = arm(scale=scale)
    entry_of(armature).softness_position = SOFT * scale
    report = posing.solve_pose(armature)
    assert 0.2 * SOFT < miss(armature) / scale < SOFT
    assert report.reached and report.message.startswith("the target is reached")
    assert report.effectors[0].position == pytest.approx(miss(armature), rel=1e-3)
    ((_, is_miss),) = panels.errors_of(armature.poise, entry_of(armature))
    assert not is_miss


def test_what_is_missed_by_more_than_its_softness_says_that_it_is_soft():
    armature = arm()
    entry_of(armature).softness_position = SOFT
    number = posing.add_effector(armature, "bone.002", kind='POSITION')
    other = armature.poise.effectors[number]
    other.softness_position = SOFT
    other.target.location = entry_of(armature).target.location + Vector((-0.12, 0.0, 0.0))
    report = posing.solve_pose(armature)
    assert not report.reached
    assert "mm (gives way because it is soft)" in report.message
    assert entry_of(armature).why == "gives way because it is soft"
    ((_, is_miss),) = panels.errors_of(armature.poise, entry_of(armature))
    assert is_miss


def test_a_place_and_an_orientation_are_soft_each_by_its_own_field():
    armature = arm('BOTH')
    for bone in armature.pose.bones:
        bone.rotation_mode = 'XYZ'
    misses = []
    for lengths, angles in ((0.0, 0.0), (0.0, 0.3), (SOFT, 0.0)):
        entry_of(armature).softness_position, entry_of(armature).softness_rotation = lengths, angles
        error = posing.solve_pose(armature).effectors[0]
        misses.append((error.position, error.rotation))
    assert max(misses[0]) < 1e-3
    assert misses[1][0] < 1e-4 and 0.01 < misses[1][1] < 0.3
    assert 1e-3 < misses[2][0] < SOFT and misses[2][1] < 1e-3


def test_every_kind_but_stay_has_a_softness_in_the_unit_of_its_errors():
    soft = {name for name, kind in KINDS.items() if kind.placed or kind.turned}
    assert set(KINDS) - {'STAY', 'ONE_OF'} == soft
    armature = arm('POSITION')
    entry = entry_of(armature)
    entry.softness_position, entry.softness_rotation = 0.25, 0.5
    for kind, choice, softness in (
        ('POSITION', 'POSITION', (0.25, 0.0)),
        ('ORIENTATION', 'POSITION', (0.0, 0.5)),
        ('BOTH', 'POSITION', (0.25, 0.5)),
        ('STAY', 'POSITION', (0.0, 0.0)),
    ):
        entry.kind, entry.choice = kind, choice
        (effector,) = read_effectors(armature)
        assert (effector.softness_position, effector.softness_rotation) == softness


@pytest.mark.parametrize(("choice", "angular"), [('POSITION', False), ('ORIENTATION', True)])
def test_one_of_several_targets_may_be_soft(choice: str, angular: bool):
    armature = arm('ONE_OF')
    entry = entry_of(armature)
    entry.choice = choice
    (other,) = entry.others
    other.target.location, other.target.rotation_euler = (5.0, 5.0, 5.0), (3.0, 0.0, 0.0)
    bpy.context.view_layer.update()
    entry.softness_position, entry.softness_rotation = SOFT, 0.1
    error = posing.solve_pose(armature).effectors[0]
    missed, softness = (error.rotation, 0.1) if angular else (error.position, SOFT)
    assert error.reached and missed is not None
    assert 0.1 * softness < missed < softness


def test_a_softness_that_is_not_a_number_is_refused():
    armature = arm()
    entry_of(armature).softness_position = float("nan")
    with pytest.raises(IKError, match="its Softness is not a number"):
        posing.solve_pose(armature)


def test_a_pose_that_follows_knows_when_softness_changes():
    armature = arm()
    armature.poise.move_root = False  # a root prefers the place where it is, and would go on to the target
    posing.follow(armature)
    bpy.context.view_layer.update()
    exact = miss(armature)
    entry_of(armature).softness_position = SOFT
    assert posing.follow(armature) is not None
    bpy.context.view_layer.update()
    assert exact < 1e-4 < 0.1 * SOFT < miss(armature) < 3.0 * SOFT


def test_softness_goes_onto_the_other_side():
    armature = builders.humanoid()
    posing.setup_character(armature)
    hand, other = (armature.poise.effectors[f"hand.{side}"] for side in "LR")
    hand.softness_position, hand.softness_rotation = 0.015625, 0.25
    posing.mirror(armature, 'LEFT_TO_RIGHT')
    assert (other.softness_position, other.softness_rotation) == (0.015625, 0.25)

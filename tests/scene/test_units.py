# SPDX-License-Identifier: GPL-3.0-or-later
"""A scene whose Blender unit is no metre: what is said of lengths is what Blender's fields show.

A body is solved and baked alike in every unit.
"""

from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon import cli
from blender_ik_addon.cli.exit_codes import Exit
from blender_ik_addon.scene import posing
from blender_ik_addon.ui.panels import errors_of

from . import builders
from .measured import played

BEYOND = 0.021
"""How far the target is out of reach [m]."""


@pytest.fixture(params=[('METRIC', 0.01), ('METRIC', 10.0), ('IMPERIAL', 0.01), ('NONE', 0.01)])
def arm(request: pytest.FixtureRequest) -> Any:
    """An arm of 1.2 m that is asked for more, in a scene with some Unit Scale."""
    units = bpy.context.scene.unit_settings
    units.system, units.scale_length = request.param
    unit = 1.0 if units.system == 'NONE' else units.scale_length
    arm: Any = builders.chain(4, 0.3 / unit, name="arm")
    arm.poise.move_root = False
    entry = arm.poise.effectors[posing.add_effector(arm, "bone.003", kind='POSITION')]
    entry.point = (0.0, 0.3 / unit, 0.0)
    entry.target.location = (0.0, 0.0, (1.2 + BEYOND) / unit)
    bpy.context.scene.frame_start = bpy.context.scene.frame_end = 1
    bpy.context.view_layer.update()
    return arm


def test_lengths_are_said_as_the_scene_measures_them(arm: Any):
    for report in (posing.solve_pose(arm), posing.bake(arm), posing.measure(arm)):
        assert "by 21 mm" in report.summary()
    [(text, is_missed)] = errors_of(arm.poise, arm.poise.effectors[0])
    assert text == "21 mm" and is_missed


def test_volumes_are_said_likewise(arm: Any):
    units = bpy.context.scene.unit_settings
    unit = 1.0 if units.system == 'NONE' else units.scale_length
    report = posing.MeshReport(bones=2, meshes=("skin",), volume=0.072 / unit**3, notes=())
    assert "of 72 litres" in report.summary()


def test_the_command_line_takes_millimetres_of_the_scene(arm: Any):
    assert cli.run(["bake", "--tolerance", "20"]) == Exit.MISSED
    assert cli.run(["bake", "--tolerance", "22"]) == Exit.REACHED


def waving(size: float) -> Any:
    """An arm of a body that is so many times as large as a person, whose tip follows keys above a floor."""
    bpy.context.scene.unit_settings.scale_length = 1.0 / size
    arm: Any = builders.chain(4, 0.45 * size, name=f"arm {size:g}")
    tip = arm.poise.effectors[posing.add_effector(arm, "bone.003", kind='POSITION')]
    posing.add_effector(arm, "bone.001", kind='FLOOR')
    for frame, place in ((1, (0.5, 0.3, 0.8)), (12, (0.4, -0.5, 0.9)), (24, (0.7, 0.2, 0.6))):
        tip.target.location = [size * value for value in place]
        tip.target.keyframe_insert("location", frame=frame)
    bpy.context.scene.frame_start, bpy.context.scene.frame_end = 1, 24
    return arm


def baked(arm: Any, size: float) -> tuple[Any, int]:
    """How each frame plays, in units of the size, and how many keys a bake with the fewest has."""
    assert posing.bake(arm).reached
    places = played(arm, range(1, 25))
    places[..., :3, 3] /= size
    return places, posing.bake(arm, fewest=True).keys


@pytest.mark.parametrize("size", [0.01, 0.1, 100.0])
def test_a_body_is_baked_alike_in_every_unit(size: float):
    places, keys = baked(waving(1.0), 1.0)
    others, count = baked(waving(size), size)
    np.testing.assert_allclose(others, places, atol=5e-6)
    assert count == pytest.approx(keys, rel=0.1)


@pytest.mark.parametrize("size", [0.01, 0.1, 1.0, 100.0])
def test_lengths_of_settings_begin_in_proportion_to_the_body(size: float):
    arm = waving(size)
    assert arm.poise.tolerance_position == pytest.approx(5e-4 * size)
    assert arm.poise.bake_deviation == pytest.approx(1e-3 * size)
    floor = posing.solve_pose(arm).effectors[1]
    assert floor.tolerance_position == pytest.approx(1e-4 * size)


def test_lengths_that_are_set_stay_as_they_are():
    arm: Any = builders.chain(4, 45.0)
    arm.poise.tolerance_position = 0.003
    posing.add_effector(arm, "bone.003")
    assert arm.poise.tolerance_position == pytest.approx(0.003)
    arm.poise.bake_deviation = 0.002
    posing.remove_effector(arm, 0)
    posing.add_effector(arm, "bone.003")
    assert arm.poise.bake_deviation == pytest.approx(0.002)


def test_a_preset_gives_each_body_tolerances_of_its_size(tmp_path: Path):
    path = posing.preset_path("arm", tmp_path)
    arm = waving(1.0)
    arm.poise.method = 'SDLS'
    arm.poise.tolerance_position, arm.poise.clamp_distance = 0.002, 0.3
    posing.save_preset(arm, path)
    other: Any = builders.chain(4, 45.0, name="other")
    posing.load_preset(other, path)
    assert other.poise.tolerance_position == pytest.approx(0.2)
    assert other.poise.clamp_distance == pytest.approx(30.0)

# SPDX-License-Identifier: GPL-3.0-or-later
"""A scene whose Blender unit is no metre: what is said of lengths is what Blender's fields show."""

from typing import Any

import bpy
import pytest

from blender_ik_addon import cli
from blender_ik_addon.cli.exit_codes import Exit
from blender_ik_addon.scene import posing
from blender_ik_addon.ui.panels import errors_of

from . import builders

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

# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of released versions: they open with the same settings, and solve to the same poses."""

import logging
from pathlib import Path
from typing import Any

import bpy
import pytest
from numpy.testing import assert_allclose

from blender_ik_addon.scene import posing
from blender_ik_addon.scene.compat import stored_values
from blender_ik_addon.scene.properties import versions

from . import saved_files

MILLIMETRE = 1e-3


def opened(path: Path) -> Any:
    bpy.ops.wm.open_mainfile(filepath=str(path))
    return bpy.data.objects["humanoid"]


def saved_without_conversion(path: Path, *, switches: bool) -> None:
    """As a Poise saved it that knew no versions."""
    handlers = bpy.app.handlers.save_pre
    handlers.remove(versions._convert_all)
    try:
        saved_files.save_0_1_0(path, switches=switches)
    finally:
        handlers.append(versions._convert_all)


def test_files_of_0_1_0_open_with_the_same_results(tmp_path: Path):
    saved_without_conversion(tmp_path / "saved.blend", switches=False)
    armature = opened(tmp_path / "saved.blend")
    assert armature.poise.version == versions.VERSION
    assert {name: getattr(armature.poise, name) for name in saved_files.READ_0_1_0} == saved_files.READ_0_1_0
    shown = {entry.name: (entry.kind, entry.state) for entry in armature.poise.effectors}
    assert shown == saved_files.STATES_0_1_0
    (joint,), (role,) = armature.poise.joints, armature.poise.roles
    assert (joint.order, role.role, role.side) == ('XZY', 'HAND', 'LEFT')
    assert armature.poise.effectors["head"].axis == 'POS_Z'
    report = posing.solve_pose(armature)
    assert report.reached, report.summary()
    for bone, place in saved_files.SOLVED_0_1_0.items():
        assert_allclose(armature.pose.bones[bone].head, place, atol=MILLIMETRE, err_msg=bone)


def test_files_from_before_states_and_ranges_are_converted_once(tmp_path: Path):
    saved_without_conversion(tmp_path / "old.blend", switches=True)
    armature = opened(tmp_path / "old.blend")
    states = {entry.name: entry.state for entry in armature.poise.effectors}
    assert states == {
        name: 'OFF' if state == 'FOLLOW' else state for name, (_, state) in saved_files.STATES_0_1_0.items()
    }
    assert armature.poise.bake_range == 'CUSTOM'
    held = stored_values(armature.poise)
    assert "use_scene_range" not in held and "pinned" not in stored_values(armature.poise.effectors[0])
    armature.poise.effectors["hips"].enabled = True
    assert armature.poise.effectors["hips"].state == 'PIN'
    armature.poise.effectors["foot.L"].state = 'REACH'
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "new.blend"))
    armature = opened(tmp_path / "new.blend")
    assert armature.poise.effectors["foot.L"].state == 'REACH'


def test_what_is_saved_has_the_version_and_is_converted_before_where_it_was_not(tmp_path: Path):
    saved_files.save_0_1_0(tmp_path / "old.blend", switches=True)  # by this Poise
    armature = bpy.data.objects["humanoid"]
    assert armature.poise.version == versions.VERSION
    assert armature.poise.effectors["foot.L"].state == 'PIN'


def test_settings_of_a_newer_version_are_left_as_they_are(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    saved_files.save_0_1_0(tmp_path / "saved.blend")
    armature = bpy.data.objects["humanoid"]
    armature.poise.version = versions.VERSION + 3
    stored_values(armature.poise)["from_the_future"] = 5
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "newer.blend"))
    with caplog.at_level(logging.WARNING):
        armature = opened(tmp_path / "newer.blend")
    assert f"saved by a newer Poise; this one knows version {versions.VERSION}" in caplog.text
    assert armature.poise.version == versions.VERSION + 3
    assert stored_values(armature.poise)["from_the_future"] == 5

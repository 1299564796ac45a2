# SPDX-License-Identifier: GPL-3.0-or-later
"""Feet that roll: the sole does not sink, and what is set is posed, baked, followed and mirrored."""

import json
from collections.abc import Callable
from math import radians
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.core import IKError
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.animation.fcurves import own_curves
from blender_ik_addon.scene.effectors.feet import sole_of
from blender_ik_addon.scene.kinds.frame_data import points_of
from blender_ik_addon.scene.matching import snapping
from blender_ik_addon.scene.properties.settings import FOOT_ANGLES

from . import builders
from .measured import world_of

SINKS = 1e-4
"""How far below the floor is not seen [m]."""
ROLLS = (-45.0, -20.0, 15.0, 45.0, 70.0, 90.0)


def set_up(make: Callable[[], Any], *, placed: bool = False) -> Any:
    """Make a character whose feet roll; `placed` turned and scaled in the scene."""
    armature = make()
    if placed:
        armature.scale, armature.rotation_euler = (1.3,) * 3, (0.2, -0.3, 0.7)
        armature.location = (1.0, 2.0, 3.0)
        bpy.context.view_layer.update()
    posing.setup_character(armature)
    feet, on = posing.roll_feet(armature)
    assert set(feet) == {"foot.L", "foot.R"} and on
    return armature


@pytest.fixture
def armature() -> Any:
    """A metarig whose feet roll."""
    return set_up(builders.basic_human_metarig)


def sole(armature: Any, name: str) -> FloatArray:
    """Heel and ball of the foot, ball and tip of the toes on the sole, by the bones, (4, 3) [m]."""
    entry = armature.poise.effectors[name]
    own, foot = sole_of(entry), np.array(world_of(armature, entry.bone))
    toes = foot
    if entry.toe_bone:
        rest = [np.array(armature.data.bones[bone].matrix_local) for bone in (entry.bone, entry.toe_bone)]
        toes = np.array(world_of(armature, entry.toe_bone)) @ np.linalg.inv(rest[1]) @ rest[0]
    heel, ball, tip = (own.on_floor(point) for point in (own.heel, own.ball, own.tip))
    return np.stack(
        [points_of(foot, heel), points_of(foot, ball), points_of(toes, ball), points_of(toes, tip)]
    )


def floor_of(armature: Any, name: str) -> tuple[FloatArray, float]:
    """The floor on which a foot stands now: its normal, (3,), and its height along that [m]."""
    entry = armature.poise.effectors[name]
    normal = np.array(world_of(armature, entry.bone))[:3, :3] @ sole_of(entry).up
    normal /= np.linalg.norm(normal)
    return normal, float((sole(armature, name) @ normal).min())


def assert_rolls_on_its_floor(armature: Any) -> None:
    """The left foot, rolled to and fro: some part of its sole stays on the floor, another comes off."""
    normal, height = floor_of(armature, "foot.L")
    for roll in ROLLS:
        armature.poise.effectors["foot.L"].roll = radians(roll)
        assert posing.solve_pose(armature).reached
        above = sole(armature, "foot.L") @ normal - height
        assert abs(above.min()) < SINKS and above.max() > 0.01


@pytest.mark.parametrize(
    ("make", "placed"),
    [
        (builders.basic_human_metarig, False),
        (builders.basic_human_metarig, True),
        (builders.humanoid, False),
        (builders.humanoid, True),
        (builders.basic_human_rig, False),
    ],
)
def test_the_sole_never_sinks(make: Callable[[], Any], placed: bool):
    assert_rolls_on_its_floor(set_up(make, placed=placed))


@pytest.mark.parametrize("name", ["human-male", "human-zombie"])
def test_feet_of_rigs_by_others_roll(data_folder: Path, name: str):
    def imported() -> Any:
        path = data_folder / "rigs" / "mesh2motion_cc0" / "variations" / f"{name}.glb"
        bpy.ops.import_scene.gltf(filepath=str(path))
        return next(thing for thing in bpy.data.objects if thing.type == 'ARMATURE')

    assert_rolls_on_its_floor(set_up(imported))


def test_switching_it_on_and_off_moves_nothing(armature: Any):
    before = {bone.name: world_of(armature, bone.name) for bone in armature.pose.bones}
    posing.solve_pose(armature)
    for bone, matrix in before.items():
        np.testing.assert_allclose(world_of(armature, bone), matrix, atol=1e-4)
    entry = armature.poise.effectors["foot.L"]
    entry.roll, entry.bank, entry.pivot_ball = 0.4, 0.2, 0.3
    posing.solve_pose(armature)
    rolled = world_of(armature, entry.bone)
    posing.roll_feet(armature)
    assert not entry.rolls
    posing.solve_pose(armature)
    np.testing.assert_allclose(world_of(armature, entry.bone), rolled, atol=1e-4)


def test_what_is_snapped_or_pinned_while_rolled_stays(armature: Any):
    entry = armature.poise.effectors["foot.L"]
    entry.roll, entry.pivot_toe = 0.5, 0.3
    posing.solve_pose(armature)
    rolled = world_of(armature, "foot.L")
    row = list(armature.poise.effectors).index(entry)
    for again in (lambda: posing.snap_targets(armature), lambda: posing.pin(armature, row)):
        again()
        posing.solve_pose(armature)
        np.testing.assert_allclose(world_of(armature, "foot.L"), rolled, atol=2e-4)


def test_a_floor_lifts_the_whole_foot(armature: Any):
    posing.add_floor(armature, ["foot.L", "foot.R"])
    before = sole(armature, "foot.L")
    posing.solve_pose(armature)
    np.testing.assert_allclose(sole(armature, "foot.L"), before, atol=2e-4)
    entry = armature.poise.effectors["foot.L"]
    posing.set_state(armature, list(armature.poise.effectors).index(entry), 'REACH')
    entry.target.location.z -= 0.2
    height = armature.poise.effectors["floor foot.L"].target.location.z
    assert float(before[:, 2].min()) == pytest.approx(height, abs=SINKS)
    for roll in (0.0, *ROLLS):
        entry.roll = radians(roll)
        assert posing.solve_pose(armature).reached
        assert abs(sole(armature, "foot.L")[:, 2].min() - height) < SINKS


def test_keys_of_the_roll_are_baked_and_the_toes_with_them(armature: Any):
    entry = armature.poise.effectors["foot.L"]
    for frame, roll in ((1, 0.0), (5, 0.7), (9, 0.0)):
        entry.roll = roll
        entry.keyframe_insert("roll", frame=frame)
    normal, height = floor_of(armature, "foot.L")
    assert posing.bake(armature, range(1, 10)).reached
    entry.rolls = False  # what is played is what was keyed
    lifted = []
    for frame in range(1, 10):
        bpy.context.scene.frame_set(frame)
        above = sole(armature, "foot.L") @ normal - height
        assert above.min() > -SINKS
        lifted.append(float(above[0]))
    assert lifted[4] > 0.05 and abs(lifted[0]) < SINKS and abs(lifted[8]) < SINKS


def angle_keys(armature: Any, name: str) -> dict[str, dict[float, float]]:
    """Keys of the angles of a foot: angle -> frame -> value."""
    row = list(armature.poise.effectors).index(armature.poise.effectors[name])
    found: dict[str, dict[float, float]] = {}
    for (path, _), curve in own_curves(armature).items():
        if path.startswith(f"poise.effectors[{row}]."):
            found[path.rpartition(".")[2]] = {key.co[0]: key.co[1] for key in curve.keyframe_points}
    return found


def test_key_targets_keys_the_angles_too_and_undo_takes_all_of_it_back(armature: Any):
    row = list(armature.poise.effectors).index(armature.poise.effectors["foot.L"])
    for frame, roll in ((1, 0.1), (9, 0.6)):
        bpy.context.scene.frame_set(frame)
        entry = armature.poise.effectors["foot.L"]
        entry.roll, entry.bank, entry.pivot_ball = roll, -roll, 2.0 * roll
        report = posing.key_targets(armature, [row])
        assert report.effectors == ("foot.L",) and not report.notes
    keys = angle_keys(armature, "foot.L")
    assert set(keys) == set(FOOT_ANGLES)
    assert keys["roll"] == pytest.approx({1.0: 0.1, 9.0: 0.6})
    assert keys["bank"] == pytest.approx({1.0: -0.1, 9.0: -0.6})
    assert keys["pivot_heel"] == {1.0: 0.0, 9.0: 0.0}
    assert angle_keys(armature, "foot.R") == {}
    bpy.context.scene.frame_set(5)
    assert 0.1 < armature.poise.effectors["foot.L"].roll < 0.6
    bpy.context.scene.frame_set(1)
    assert armature.poise.effectors["foot.L"].roll == pytest.approx(0.1)


def test_key_targets_is_one_step_of_undo_with_the_angles(armature: Any):
    bpy.context.view_layer.objects.active = armature
    armature.poise.effectors["foot.L"].roll = 0.3
    bpy.ops.ed.undo_push(message="before")
    assert bpy.ops.poise.key_targets(which='ALL') == {'FINISHED'}
    bpy.ops.ed.undo_push(message="after")  # in background nothing pushes it
    assert angle_keys(armature, "foot.L")["roll"] == pytest.approx({1.0: 0.3})
    name = armature.name
    bpy.ops.ed.undo()
    armature = bpy.data.objects[name]
    assert angle_keys(armature, "foot.L") == {}
    assert armature.poise.effectors["foot.L"].target.animation_data is None
    assert armature.poise.effectors["foot.L"].roll == pytest.approx(0.3)


def test_angles_that_cannot_be_keyed_are_named_and_those_with_drivers_left_out(armature: Any):
    entries = armature.poise.effectors
    rows = {name: list(entries).index(entries[name]) for name in ("foot.L", "foot.R")}
    posing.key_targets(armature, [rows["foot.L"]])
    next(c for (path, _), c in own_curves(armature).items() if path.endswith("bank")).lock = True
    armature.driver_add(f"poise.effectors[{rows['foot.R']}].roll").driver.expression = "0.25"
    bpy.context.scene.frame_set(7)
    before = angle_keys(armature, "foot.L")
    report = posing.key_targets(armature, list(rows.values()))
    assert report.effectors == ("foot.L", "foot.R")
    [note] = report.notes
    assert note.startswith("foot.L: F-curves of its roll, bank and pivots are locked; unlock them")
    assert angle_keys(armature, "foot.L") == before
    assert set(angle_keys(armature, "foot.R")) == set(FOOT_ANGLES) - {"roll"}
    for name in rows:  # the targets have theirs
        curves = own_curves(armature.poise.effectors[name].target)
        assert any(key.co[0] == 7.0 for curve in curves.values() for key in curve.keyframe_points)


def test_an_error_while_targets_are_keyed_leaves_no_keys_of_angles(monkeypatch: pytest.MonkeyPatch):
    armature = set_up(builders.basic_human_metarig)
    rows = [list(armature.poise.effectors).index(armature.poise.effectors[n]) for n in ("foot.L", "foot.R")]
    written = snapping.key_values

    def fails_at_the_second(owner: Any, paths: Any, *more: Any) -> None:
        if f"[{rows[1]}]" in paths[0]:
            raise IKError("the disk is full")
        written(owner, paths, *more)

    monkeypatch.setattr(snapping, "key_values", fails_at_the_second)
    with pytest.raises(IKError, match="the disk is full"):
        posing.key_targets(armature, rows)
    assert angle_keys(armature, "foot.L") == {}
    assert all(armature.poise.effectors[row].target.animation_data is None for row in rows)


@pytest.mark.usefixtures("auto_key")
def test_rolling_a_foot_by_script_sets_its_angle_and_keys_it_with_auto_key(armature: Any):
    bpy.context.view_layer.objects.active = armature
    settings = bpy.context.scene.tool_settings
    armature.poise.active_effector = list(armature.poise.effectors).index(armature.poise.effectors["foot.L"])
    settings.use_keyframe_insert_auto = False
    assert bpy.ops.poise.roll_foot(angle='ROLL', by=0.3) == {'FINISHED'}
    assert angle_keys(armature, "foot.L") == {}
    settings.use_keyframe_insert_auto = True
    assert bpy.ops.poise.roll_foot(angle='BANK', by=-0.2) == {'FINISHED'}
    entry = armature.poise.effectors["foot.L"]
    assert (entry.roll, entry.bank) == pytest.approx((0.3, -0.2))
    assert angle_keys(armature, "foot.L") == {"bank": pytest.approx({1.0: -0.2})}
    armature.poise.active_effector = list(armature.poise.effectors).index(armature.poise.effectors["head"])
    with pytest.raises(RuntimeError, match="Choose the effector of a foot"):
        bpy.ops.poise.roll_foot(angle='ROLL', by=0.3)


def test_live_follows_the_roll(armature: Any):
    posing.switch_live(armature, True)
    before = sole(armature, "foot.L")
    armature.poise.effectors["foot.L"].roll = 0.5
    posing.follow(armature)
    assert sole(armature, "foot.L")[0, 2] > before[0, 2] + 0.05


def test_the_other_foot_does_the_same_by_mirror(armature: Any):
    left, right = (armature.poise.effectors[name] for name in ("foot.L", "foot.R"))
    left.roll, left.bank, left.pivot_heel = 0.3, 0.2, 0.4
    posing.mirror(armature, 'LEFT_TO_RIGHT')
    assert (right.roll, right.bank, right.pivot_heel) == (left.roll, left.bank, left.pivot_heel)
    posing.solve_pose(armature)
    np.testing.assert_allclose(sole(armature, "foot.R"), sole(armature, "foot.L") * (-1, 1, 1), atol=2e-3)


def assert_rolls_as(armature: Any, other: Any, name: str) -> None:
    """A foot of another character rolls as one does: by the heights of its sole in lengths of the sole."""
    heights: list[FloatArray] = []
    for own in (armature, other):
        entry = own.poise.effectors[name]
        length = own.matrix_world.median_scale * sole_of(entry).length
        normal, height = floor_of(own, name)
        entry.roll, entry.bank = radians(30.0), 0.0
        assert posing.solve_pose(own).reached
        heights.append((sole(own, name) @ normal - height) / length)
        entry.roll = 0.0
        posing.solve_pose(own)
    assert heights[0][0] > 0.1  # the heel came off
    np.testing.assert_allclose(heights[1], heights[0], atol=1e-3)


@pytest.mark.parametrize("live", [False, True])
def test_a_foot_that_did_not_roll_does_so_by_mirror(live: bool):
    armature: Any = builders.basic_human_metarig()
    posing.setup_character(armature)
    posing.switch_live(armature, live)
    left, right = (armature.poise.effectors[name] for name in ("foot.L", "foot.R"))
    posing.roll_feet(armature, [list(armature.poise.effectors).index(left)])
    left.tip_point[1] += 0.02  # a shoe
    left.roll, left.pivot_toe = 0.5, 0.3
    posing.solve_pose(armature)
    posing.mirror(armature, 'LEFT_TO_RIGHT')
    assert right.rolls and right.toe_bone == "toe.R"
    assert posing.solve_pose(armature).reached
    np.testing.assert_allclose(sole(armature, "foot.R"), sole(armature, "foot.L") * (-1, 1, 1), atol=2e-3)
    left.roll = right.roll = 0.9
    assert posing.solve_pose(armature).reached
    np.testing.assert_allclose(sole(armature, "foot.R"), sole(armature, "foot.L") * (-1, 1, 1), atol=2e-3)
    posing.roll_feet(armature, [list(armature.poise.effectors).index(right)], on=False)
    posing.mirror(armature)
    assert right.rolls and not left.rolls


def test_a_preset_has_the_rolls_of_feet(armature: Any, tmp_path: Path):
    entry = armature.poise.effectors["foot.L"]
    entry.tip_point[1] += 0.02  # a shoe
    posing.save_preset(armature, tmp_path / "feet.json")
    twin = builders.basic_human_metarig()
    twin.scale, twin.rotation_euler = (1.5,) * 3, (0.0, 0.0, 0.7)
    bpy.context.view_layer.update()
    posing.setup_character(twin)
    before = {name: world_of(twin, name) for name in ("foot.L", "toe.L", "foot.R")}
    for _ in range(2):
        report = posing.load_preset(twin, tmp_path / "feet.json")
        assert not report.missing and not report.notes
        assert posing.solve_pose(twin).reached
        for name, matrix in before.items():
            np.testing.assert_allclose(world_of(twin, name), matrix, atol=2e-4)
    for name in ("foot.L", "foot.R"):
        other = twin.poise.effectors[name]
        assert other.rolls and other.toe_bone == armature.poise.effectors[name].toe_bone
        for point in ("heel_point", "ball_point", "tip_point", "sole_up", "sole_out"):
            wanted = getattr(armature.poise.effectors[name], point)
            np.testing.assert_allclose(getattr(other, point), wanted, atol=1e-6)
        assert_rolls_as(armature, twin, name)
    armature.poise.effectors["foot.L"].toe_bone = ""
    posing.save_preset(armature, tmp_path / "stiff.json")
    posing.load_preset(twin, tmp_path / "stiff.json")
    assert [twin.poise.effectors[name].toe_bone for name in ("foot.L", "foot.R")] == ["", "toe.R"]
    posing.roll_feet(armature, on=False)
    posing.save_preset(armature, tmp_path / "flat.json")
    posing.load_preset(twin, tmp_path / "flat.json")
    assert not any(entry.rolls for entry in twin.poise.effectors)


def test_a_preset_lets_feet_of_other_bones_roll_on_their_own_floor(armature: Any, tmp_path: Path):
    posing.save_preset(armature, tmp_path / "feet.json")
    other: Any = builders.humanoid("other")  # without toes, and with bones that point elsewhere
    report = posing.load_preset(other, tmp_path / "feet.json")
    assert not any("Foot Roll" in note for note in report.notes)
    assert all(entry.target is not None for entry in other.poise.effectors)
    found = sole_of(other.poise.effectors["foot.L"])
    assert other.poise.effectors["foot.L"].rolls and not found.has_toe
    assert_rolls_on_its_floor(other)
    posing.roll_feet(other, on=False)
    posing.roll_feet(other, on=True)  # as it is found here
    for name in ("heel", "ball", "tip", "up", "out"):
        own = getattr(sole_of(other.poise.effectors["foot.L"]), name)
        np.testing.assert_allclose(own, getattr(found, name), atol=1e-5)


def test_a_preset_tells_of_feet_that_cannot_roll_here(armature: Any, tmp_path: Path):
    posing.save_preset(armature, tmp_path / "feet.json")
    path = tmp_path / "feet.json"
    chain: Any = builders.armature("chain", [("foot.L", None, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0))])
    data = json.loads(path.read_text(encoding="utf-8"))
    for record in data["effectors"]:
        record["bone"].pop("role", None)
    path.write_text(json.dumps(data), encoding="utf-8")
    report = posing.load_preset(chain, path)
    assert any("Foot Roll is off, because 'foot.L' is no foot here" in note for note in report.notes)
    assert not chain.poise.effectors["foot.L"].rolls
    assert posing.solve_pose(chain).reached


def test_what_is_no_foot_is_refused():
    armature = builders.humanoid()
    posing.add_effector(armature, "hand.L")
    with pytest.raises(IKError, match="no effector of a foot"):
        posing.roll_feet(armature)
    armature = set_up(builders.basic_human_metarig)
    entry = armature.poise.effectors["foot.L"]
    entry.tip_point = entry.heel_point
    with pytest.raises(IKError, match="heel and tip of its foot are at one place"):
        posing.solve_pose(armature)


def test_a_toe_bone_that_is_renamed_is_followed(armature: Any):
    armature.data.bones["toe.L"].name = "claw.L"
    armature.poise.effectors["foot.L"].roll = 0.3
    assert posing.solve_pose(armature).reached
    assert armature.poise.effectors["foot.L"].toe_bone == "claw.L"

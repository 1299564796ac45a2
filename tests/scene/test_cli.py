# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: what it does, what it writes, how it ends."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import bpy
import pytest

from blender_ik_addon import cli
from blender_ik_addon.scene import posing

from . import builders

ROOT = Path(__file__).resolve().parents[2]


def figure() -> Any:
    """A figure whose hand follows an empty that moves over ten frames."""
    armature = builders.humanoid()
    index = posing.add_effector(armature, "hand.L")
    target = armature.poise.effectors[index].target
    target.keyframe_insert("location", frame=1)
    target.location.z += 0.2
    target.keyframe_insert("location", frame=10)
    armature.poise.effectors[index].kind = 'POSITION'
    bpy.context.scene.frame_start, bpy.context.scene.frame_end = 1, 10
    bpy.context.scene.frame_set(1)
    return armature


@pytest.fixture
def shot(tmp_path: Path) -> Path:
    """The figure, saved; another file is open."""
    figure()
    path = tmp_path / "shot.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    return path


def test_a_bake_is_reported_and_saved(shot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    output, report = tmp_path / "out.blend", tmp_path / "report.json"
    before = shot.read_bytes()
    arguments = ["bake", str(shot), "--start", "3", "--end", "8", "--method", "DLS", "--tolerance", "0.2"]
    assert cli.run([*arguments, "--output", str(output), "--report", str(report)]) == 0
    told = json.loads(report.read_text())
    assert told["frames"] == list(range(3, 9)) and told["reached"] and told["method"] == "DLS"
    assert told["tolerance_position"] == pytest.approx(2e-4)
    assert len(told["position_errors"]) == 6 and told["rotation_errors"][0] == [None]
    assert told["effectors"][0]["position_error"] == max(row[0] for row in told["position_errors"]) < 2e-4
    assert "Baked 6 frames" in capsys.readouterr().out
    assert shot.read_bytes() == before
    bpy.ops.wm.open_mainfile(filepath=str(output))
    rig: Any = bpy.data.objects["humanoid"]
    assert rig.animation_data.action.name == told["action"]
    assert tuple(rig.animation_data.action.frame_range) == (3.0, 8.0)
    assert rig.poise.method == 'DLS'


def test_a_pose_is_solved_in_the_frame_of_the_file(shot: Path, tmp_path: Path):
    report = tmp_path / "report.json"
    assert cli.run(["solve", str(shot), "--armature", "humanoid", "--report", str(report)]) == 0
    told = json.loads(report.read_text())
    assert told["task"] == "solve" and told["status"] == "REACHED"
    assert [effector["name"] for effector in told["effectors"]] == ["hand.L"]


def test_a_miss_ends_with_1_unless_misses_are_allowed(tmp_path: Path):
    armature = figure()
    armature.poise.move_root = False
    target = armature.poise.effectors[0].target
    target.animation_data_clear()
    target.location.z += 9.0
    report = tmp_path / "report.json"
    arguments = ["solve", "--report", str(report)]  # no file: the one that is open
    assert cli.run(arguments) == 1
    told = json.loads(report.read_text())
    assert not told["reached"] and "reach" in told["effectors"][0]["why"]
    assert cli.run([*arguments, "--allow-misses"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bake"], "no armature with effectors"),
        (["bake", "nowhere.blend"], "there is no file 'nowhere.blend'"),
        (["solve", "--armature", "Rig"], "no armature 'Rig'; there are none at all"),
        (["bake", "--tolerance", "-1"], "-1 is not a number above 0"),
        (["bake", "--method", "MAGIC"], "MAGIC"),
        (["dance"], "dance"),
        ([], "required"),
    ],
)
def test_what_is_wrong_is_said_and_ends_with_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    assert cli.run(arguments) == 2
    assert said in capsys.readouterr().err


def test_which_armature_is_meant_must_be_clear(capsys: pytest.CaptureFixture[str]):
    figure()
    second = figure()
    assert cli.run(["solve"]) == 2
    assert "several armatures" in capsys.readouterr().err
    assert cli.run(["solve", "--armature", second.name]) == 0
    assert cli.run(["bake", "--armature", second.name, "--start", "2"]) == 2
    assert "both --start and --end" in capsys.readouterr().err


def test_a_file_that_blender_could_not_open_is_no_reason_to_bake_the_default_scene(
    shot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def answer(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["blender", "-b", *arguments, "--command", "poise", "bake"])
        return cli.run(["bake"]), capsys.readouterr().err

    assert bpy.data.filepath == ""  # as where Blender has gone on with its default scene
    assert answer("missing.blend") == (2, "poise: ERROR: there is no file 'missing.blend'\n")
    spoilt = tmp_path / "spoilt.blend1"
    spoilt.write_text("nothing")
    assert answer(str(spoilt))[1].startswith(f"poise: ERROR: {str(spoilt)!r} cannot be opened")
    assert "no armature with effectors" in answer()[1]  # no file asked for: the scene that there is
    assert "no armature with effectors" in answer("--python", "make.py")[1]
    bpy.ops.wm.open_mainfile(filepath=str(shot))
    assert answer(str(shot))[0] == 0


def test_where_nothing_can_be_saved_it_is_said(shot: Path, capsys: pytest.CaptureFixture[str]):
    for option, name in (("--output", "out.blend"), ("--report", "report.json")):
        assert cli.run(["bake", str(shot), option, str(shot.parent / "no" / name)]) == 2
        told = capsys.readouterr()
        assert "no such folder" in told.err
        assert "%" not in told.out  # it is said before the bake


def test_help_ends_with_0(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["bake", "--help"]) == 0
    assert "--allow-misses" in capsys.readouterr().out


def test_as_a_python_module(shot: Path, tmp_path: Path):
    report = tmp_path / "report.json"
    command = [
        sys.executable,
        "-m",
        "blender_ik_addon",
        "bake",
        str(shot),
        "--quiet",
        "--report",
        str(report),
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(report.read_text())["frames"] == list(range(1, 11))

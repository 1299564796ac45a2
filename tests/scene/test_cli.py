# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: what it does, what it writes, how it ends."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon import cli
from blender_ik_addon.cli.exit_codes import Exit
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


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """SIGINT as a terminal gives it: tests that run in the background inherit that it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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
    arguments += ["--pop-angle", "7"]
    assert cli.run([*arguments, "--output", str(output), "--report", str(report)]) == 0
    told = json.loads(report.read_text())
    assert told["frames"] == list(range(3, 9)) and told["reached"] and told["method"] == "DLS"
    assert told["tolerance_position"] == pytest.approx(2e-4)
    assert len(told["position_errors"]) == 6 and told["rotation_errors"][0] == [None]
    assert told["effectors"][0]["position_error"] == max(row[0] for row in told["position_errors"]) < 2e-4
    assert told["smoothing"] == []
    assert "baked 6 frames" in capsys.readouterr().out
    assert shot.read_bytes() == before
    bpy.ops.wm.open_mainfile(filepath=str(output))
    rig: Any = bpy.data.objects["humanoid"]
    assert rig.animation_data.action.name == told["action"]
    assert tuple(rig.animation_data.action.frame_range) == (3.0, 8.0)
    assert rig.poise.method == 'DLS' and rig.poise.pop_angle == pytest.approx(np.radians(7.0))


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
        (["bake", "--tolerance", "-1"], "-1 is not a number from 0.001"),
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


def test_errors_are_drawn_and_where_that_cannot_be_it_is_said_before_the_work(
    shot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "errors.svg"
    assert cli.run(["bake", str(shot), "--step", "4", "--plot", str(plot), "--quiet"]) == 0
    drawn = plot.read_text()
    assert all(f"<!-- {text} -->" in drawn for text in ("hand.L", "tolerance", "distance [mm]", "frame"))
    # One line of the hand, with a point in each frame, those between keys among them.
    lines = [own for own in drawn.split('<path d="')[1:] if "clip-path" in own.split(">")[0]]
    assert max(own.split('"')[0].count("L ") for own in lines) == 9
    capsys.readouterr()
    for wrong, words in (
        (tmp_path / "no" / "plot.png", "no such folder"),
        (tmp_path / "plot.xyz", "no form"),
    ):
        assert cli.run(["bake", str(shot), "--plot", str(wrong)]) == 2
        told = capsys.readouterr()
        assert words in told.err and not told.out


def test_where_nothing_can_be_saved_it_is_said(shot: Path, capsys: pytest.CaptureFixture[str]):
    for option, name in (("--output", "out.blend"), ("--report", "report.json")):
        assert cli.run(["bake", str(shot), option, str(shot.parent / "no" / name)]) == 2
        told = capsys.readouterr()
        assert "no such folder" in told.err
        assert "%" not in told.out  # it is said before the bake


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_place_that_cannot_be_written_is_told_before_the_bake(
    shot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    folder, locked = tmp_path / "folder", tmp_path / "locked"
    folder.mkdir()
    locked.write_text("mine")
    locked.chmod(0o444)
    there = names_in(tmp_path)

    def said(*arguments: str) -> str:
        assert cli.run(["bake", str(shot), *arguments]) == 2
        told = capsys.readouterr()
        assert "%" not in told.out
        assert names_in(tmp_path) == there
        return told.err

    for option in ("--output", "--report"):
        assert "it is a folder: give the name of a file" in said(option, str(folder))
        assert "is a file and no folder" in said(option, str(shot / "out"))
        assert "it is read-only" in said(option, str(locked))
        assert "cannot be saved: " in said(option, str(tmp_path / ("x" * 300)))
        assert "cannot be saved: " in said(option, "/proc/out")
    assert locked.read_text() == "mine"
    same = str(tmp_path / "same")
    assert "are both" in said("--output", same, "--report", str(folder / ".." / "same"))
    assert "a device or a pipe" in said("--output", os.devnull)
    full = shutil.disk_usage(tmp_path)._replace(free=8192)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    assert "8 kB are free there" in said("--output", str(tmp_path / "out.blend"))


def meanwhile(action: Callable[[], object], frame: int = 9) -> None:
    """Do something when a bake comes to a frame for the first time; opening a file keeps no other handler."""
    done: list[bool] = []

    @bpy.app.handlers.persistent
    def handler(scene: Any, *_: object) -> None:
        if scene.frame_current == frame and not done:
            done.append(True)
            action()

    bpy.app.handlers.frame_change_post.append(handler)


@pytest.fixture(autouse=True)
def no_handlers_left() -> Any:
    lists = [getattr(bpy.app.handlers, name) for name in ("frame_change_post", "save_pre", "save_post")]
    before = [list(handlers) for handlers in lists]
    yield
    for handlers, were in zip(lists, before, strict=True):
        handlers[:] = were


def test_a_report_that_cannot_be_written_loses_no_file(
    shot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder, output = tmp_path / "reports", tmp_path / "out.blend"
    folder.mkdir()
    meanwhile(folder.rmdir)
    arguments = ["bake", str(shot), "--output", str(output), "--report", str(folder / "report.json")]
    assert cli.run(arguments) == 3
    told = capsys.readouterr()
    assert f"saved {str(output)!r}" in told.out
    assert f"the report {str(folder / 'report.json')!r} cannot be written: No such file" in told.err
    bpy.ops.wm.open_mainfile(filepath=str(output))
    assert bpy.data.objects["humanoid"].animation_data is not None
    assert names_in(tmp_path) == {"shot.blend", "out.blend"}


def test_no_report_says_reached_of_a_file_that_is_not_there(
    shot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder, report = tmp_path / "results", tmp_path / "report.json"
    folder.mkdir()
    meanwhile(folder.rmdir)
    arguments = ["bake", str(shot), "--output", str(folder / "out.blend"), "--report", str(report)]
    assert cli.run(arguments) == 3
    told = capsys.readouterr()
    assert f"{str(folder / 'out.blend')!r} cannot be saved: " in told.err
    assert "saved" not in told.out and "wrote the report" in told.out
    content = json.loads(report.read_text())
    assert content["reached"] is False and content["output"] is None
    assert content["error"] in told.err
    assert all(effector["reached"] for effector in content["effectors"])


@pytest.mark.parametrize("compressed", [False, True])
def test_a_disk_that_is_full_is_told_in_words_and_what_was_there_stays(
    compressed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Blender says "Success" or "No such file", and of a compressed file that it cuts off nothing at all."""
    figure()
    shot, output = tmp_path / "shot.blend", tmp_path / "out.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(shot), compress=compressed)
    output.write_text("older")
    resource = pytest.importorskip("resource")  # not on Windows
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, most[1]))
    try:
        code = cli.run(["bake", str(shot), "--output", str(output)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert code == 3
    told = capsys.readouterr().err
    assert f"{str(output)!r} cannot be saved: not all of it could be written, " in told
    assert "are free there" in told and "Success" not in told
    assert output.read_text() == "older"
    assert names_in(tmp_path) == {"shot.blend", "out.blend"}


def test_a_file_that_is_replaced_is_kept_as_blender_keeps_it(shot: Path, tmp_path: Path):
    versions = bpy.context.preferences.filepaths
    was = versions.save_version
    try:
        for kept, there in ((0, set()), (2, {"1"}), (2, {"1", "2"}), (2, {"1", "2"})):
            versions.save_version = kept
            before = shot.read_bytes()
            assert cli.run(["solve", str(shot), "--output", str(shot)]) == 0
            assert names_in(tmp_path) == {"shot.blend", *(f"shot.blend{number}" for number in there)}
            if kept:
                assert (tmp_path / "shot.blend1").read_bytes() == before
    finally:
        versions.save_version = was


def test_relative_paths_hold_where_the_file_is_saved(tmp_path: Path):
    figure()
    made: Any = bpy.data.images.new("wall", 2, 2)
    made.source, made.use_fake_user = 'FILE', True
    made.filepath = "//textures/wall.png"
    for folder in ("textures", "results"):
        (tmp_path / folder).mkdir()
    shot, output = tmp_path / "shot.blend", tmp_path / "results" / "out.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(shot))
    assert cli.run(["solve", str(shot), "--output", str(output)]) == 0
    assert names_in(output.parent) == {"out.blend"}
    bpy.ops.wm.open_mainfile(filepath=str(output))
    assert bpy.data.images["wall"].filepath == "//../textures/wall.png"


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_an_interruption_ends_a_bake_with_130_and_writes_nothing(
    shot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """What is raised in a handler that Blender calls, as here, is lost."""
    meanwhile(interrupt, frame=5)
    outputs = ["--output", str(tmp_path / "out.blend"), "--report", str(tmp_path / "report.json")]
    assert cli.run(["bake", str(shot), *outputs]) == 130
    told = capsys.readouterr()
    assert "poise: ERROR: interrupted, nothing was written\n" in told.err
    assert "100 %" not in told.out
    assert names_in(tmp_path) == {"shot.blend"}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("handlers", ["save_pre", "save_post"])
def test_an_interruption_while_the_file_is_written_leaves_nothing_half_written(
    handlers: str, shot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    @bpy.app.handlers.persistent
    def handler(*_: object) -> None:
        interrupt()

    getattr(bpy.app.handlers, handlers).append(handler)
    output = tmp_path / "out.blend"
    output.write_text("older")
    outputs = ["--output", str(output), "--report", str(tmp_path / "report.json")]
    assert cli.run(["bake", str(shot), *outputs]) == 130
    assert "interrupted, nothing was written" in capsys.readouterr().err
    assert output.read_text() == "older"
    assert names_in(tmp_path) == {"shot.blend", "out.blend"}


def test_an_interruption_after_the_file_says_that_it_was_written(
    shot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    replace = os.replace

    def replaced(*arguments: Any) -> None:
        replace(*arguments)
        interrupt()

    monkeypatch.setattr(os, "replace", replaced)
    output = tmp_path / "out.blend"
    outputs = ["--output", str(output), "--report", str(tmp_path / "report.json")]
    assert cli.run(["bake", str(shot), *outputs]) == 130
    told = capsys.readouterr()
    assert f"saved {str(output)!r}" in told.out
    assert "interrupted, nothing else was written" in told.err
    assert names_in(tmp_path) == {"shot.blend", "out.blend"}


def test_a_reader_of_the_progress_who_leaves_loses_no_bake(
    shot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Closed())
        assert cli.run(["bake", str(shot), "--output", str(tmp_path / "out.blend")]) == 0
    assert "out.blend" in names_in(tmp_path)


def test_help_ends_with_0(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["bake", "--help"]) == 0
    assert "--allow-misses" in capsys.readouterr().out


def begin(*arguments: str) -> subprocess.Popen[str]:
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "blender_ik_addon", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_as_a_python_module(shot: Path, tmp_path: Path):
    report = tmp_path / "report.json"
    run = begin("bake", str(shot), "--quiet", "--report", str(report))
    said = run.communicate()[1]
    assert run.returncode == 0, said
    assert json.loads(report.read_text())["frames"] == list(range(1, 11))


def test_as_a_python_module_it_ends_where_python_evaluates_a_driver(tmp_path: Path):
    """Blender 4.5 as a module did not exit then."""
    armature = figure()
    armature.driver_add("location", 0).driver.expression = "[0, 1][0]"
    path = tmp_path / "shot.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    command = [sys.executable, "-m", "blender_ik_addon", "solve", str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)


def test_as_a_python_module_a_fault_outside_of_the_command_is_no_miss(shot: Path):
    """It ends with 4, where Python would end with 1; and it ends, where Blender 4.5 would wait for ever."""
    code = """
import runpy
import blender_ik_addon

def fault():
    raise OSError("nobody foresaw this")

blender_ik_addon.unregister = fault
runpy.run_module("blender_ik_addon", run_name="__main__")
"""
    command = [sys.executable, "-c", code, "solve", str(shot)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == Exit.CRASHED
    assert "nobody foresaw this" in run.stderr


def test_a_module_that_is_interrupted_ends_with_130(tmp_path: Path):
    figure()
    bpy.context.scene.frame_end = 2000
    shot, output = tmp_path / "shot.blend", tmp_path / "out.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(shot))
    run = begin("bake", str(shot), "--output", str(output))
    try:
        assert run.stdout is not None
        while "0 %" not in (line := run.stdout.readline()):
            assert line, run.communicate()[1]
        run.send_signal(signal.SIGINT)
        told = run.communicate()[1]
    finally:
        run.kill()
    assert run.returncode == 130
    assert told.splitlines()[-1] == "poise: ERROR: interrupted, nothing was written"
    assert names_in(tmp_path) == {"shot.blend"}

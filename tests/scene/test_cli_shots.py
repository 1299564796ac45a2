# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line with many shots: set up, measured, resumed, in processes that may be killed."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon import cli
from blender_ik_addon.cli import work
from blender_ik_addon.cli.exit_codes import BY_SIGNAL, Exit
from blender_ik_addon.cli.writing import _other_name
from blender_ik_addon.scene import posing

from . import builders
from .test_cli import ROOT, begin, figure, interruptible, meanwhile, names_in, no_handlers_left

WAITS = 120.0
"""How long something is waited for that comes at once on an idle machine [s]."""

LONG = 4000
"""Frames of a shot that is not done before it is killed."""


__all__ = ["interruptible", "no_handlers_left"]  # fixtures that all tests here use, too


def saved(path: Path, *, frames: int = 5) -> Path:
    """The figure, saved under a name."""
    path.parent.mkdir(exist_ok=True)
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    figure()
    bpy.context.scene.frame_end = frames
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    return path


def empty(path: Path) -> Path:
    """A file without an armature."""
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    return path


def into(folder: Path) -> list[str]:
    """Arguments by which each shot has a file and a report in a folder."""
    folder.mkdir(exist_ok=True)
    return ["--output", str(folder / "{name}.blend"), "--report", str(folder / "{name}.json")]


def written(folder: Path) -> dict[str, int]:
    """Files of a folder and when they were written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


# The other tasks


def test_a_character_is_set_up_baked_and_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    builders.humanoid()
    shot, ready, baked = (tmp_path / f"{name}.blend" for name in ("shot", "ready", "baked"))
    report = tmp_path / "report.json"
    bpy.ops.wm.save_as_mainfile(filepath=str(shot))
    assert cli.run(["setup", str(shot), "--poles", "--output", str(ready), "--report", str(report)]) == 0
    told = json.loads(report.read_text())
    assert told["task"] == "setup" and told["reached"] and told["bodies"] == ["biped"]
    assert {"hand.L", "foot.R", "elbow.L"} <= set(told["added"])
    assert ["hand.L", "hand", "L"] in [row[:3] for row in told["roles"]]
    bpy.ops.wm.open_mainfile(filepath=str(ready))
    assert {entry.name for entry in bpy.data.objects["humanoid"].poise.effectors} == set(told["added"])
    capsys.readouterr()
    assert cli.run(["bake", str(ready), "--start", "1", "--end", "3", "--output", str(baked)]) == 0
    before = baked.read_bytes()
    assert cli.run(["report", str(baked), "--start", "1", "--end", "3", "--report", str(report)]) == 0
    assert "measured 3 frames" in capsys.readouterr().out
    told = json.loads(report.read_text())
    assert told["task"] == "report" and told["frames"] == [1, 2, 3] and "action" not in told
    assert baked.read_bytes() == before


def test_what_is_measured_is_what_the_bake_has_measured(tmp_path: Path):
    armature = figure()
    armature.poise.move_root = False
    armature.poise.effectors[0].target.animation_data_clear()
    armature.poise.effectors[0].target.location.z += 9.0
    out, bake, report = (tmp_path / name for name in ("out.blend", "bake.json", "report.json"))
    assert cli.run(["bake", "--output", str(out), "--report", str(bake)]) == Exit.MISSED
    assert cli.run(["report", str(out), "--report", str(report)]) == Exit.MISSED
    first, second = json.loads(bake.read_text()), json.loads(report.read_text())
    assert second["frames"] == first["frames"]
    assert np.array(second["position_errors"]) == pytest.approx(np.array(first["position_errors"]), abs=1e-6)
    assert [e["worst_frame"] for e in second["effectors"]] == [e["worst_frame"] for e in first["effectors"]]
    assert min(first["position_errors"])[0] > 1.0
    assert cli.run(["report", str(out), "--tolerance", "99000"]) == Exit.REACHED


def test_measuring_changes_nothing_and_says_what_it_cannot_know():
    armature = figure()
    posing.bake(armature)
    armature.poise.effectors[0].influence = 0.5
    bpy.context.scene.frame_set(4)
    hand = armature.pose.bones["hand.L"]
    hand.location.x = 0.25  # not keyed
    report = posing.measure(armature, range(1, 4))
    assert bpy.context.scene.frame_current == 4 and hand.location.x == 0.25
    assert "influence is below 1: 'hand.L'" in report.summary()
    assert report.reached and report.action == ""


def test_a_set_up_that_finds_nothing_is_refused(capsys: pytest.CaptureFixture[str]):
    builders.armature("post", [("post", None, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0))])
    assert cli.run(["setup"]) == Exit.REFUSED
    assert "'post': No part of a body was found" in capsys.readouterr().err


def test_a_preset_sets_up(tmp_path: Path):
    preset, report = tmp_path / "hero.json", tmp_path / "report.json"
    source = builders.humanoid()
    posing.setup_character(source)
    posing.save_preset(source, preset)
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    armature = builders.humanoid()
    assert cli.run(["setup", "--preset", str(preset), "--report", str(report)]) == Exit.REACHED
    told = json.loads(report.read_text())
    assert [entry.name for entry in armature.poise.effectors] == told["effectors"] != []
    assert cli.run(["setup", "--preset", "nobody has this"]) == Exit.REFUSED


def test_methods_are_listed(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["methods"]) == Exit.REACHED
    assert "poise: PRIORITY " in capsys.readouterr().out
    assert cli.run(["methods", "--json"]) == Exit.REACHED
    assert "SDLS" in json.loads(capsys.readouterr().out)


# Exit codes and what is said


def test_the_manual_has_all_exit_codes():
    page = (ROOT / "docs" / "manual" / "command-line.md").read_text(encoding="utf-8")
    rows = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    signals = {BY_SIGNAL + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    assert rows == {*map(int, Exit), *signals}


def test_a_fault_is_no_miss(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def fault(*_: object) -> Any:
        raise RuntimeError("not foreseen")

    monkeypatch.setattr(work.posing, "solve_pose", fault)
    figure()
    assert cli.run(["solve"]) == Exit.CRASHED
    told = capsys.readouterr().err
    assert "RuntimeError: not foreseen" in told and "fault in Poise" in told


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch: pytest.MonkeyPatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def said(stream: io.StringIO, *arguments: str) -> tuple[str, str]:
        out = io.StringIO()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", stream)
            assert cli.run(["bake", *arguments]) == 0
        return out.getvalue(), stream.getvalue()

    figure()
    out, bar = said(Terminal())
    assert " %" not in out and re.search(r"\r\[#+-*\] +\d+ %", bar)
    out, bar = said(io.StringIO())
    assert "poise: 50 %" in out and bar == ""
    assert said(io.StringIO(), "--progress")[1].startswith("\r[")
    assert said(Terminal(), "--no-progress")[1] == ""
    out, bar = said(Terminal(), "--quiet")
    assert " %" not in out + bar


# Several shots


def test_shots_are_found_by_patterns_and_done_by_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name in ("a", "[1]"):
        saved(tmp_path / "shots" / f"{name}.blend")
    without = empty(tmp_path / "shots" / "without.blend")
    out = tmp_path / "out"
    shots = [str(tmp_path / "shots" / "?.blend"), str(tmp_path / "shots" / "[1].blend"), str(without)]
    assert cli.run(["bake", *shots, "--jobs", "2", *into(out)]) == Exit.REFUSED
    assert names_in(out) == {f"{name}.{end}" for name in ("a", "[1]") for end in ("blend", "json")}
    told = capsys.readouterr()
    assert "3 of 3 shots: 2 reached, 1 refused" in told.out and "without.blend" in told.out
    assert "a.blend: The target is reached; baked 5 frames" in told.out
    assert re.search(r"poise: ERROR: \[\d/3\] .*without.blend: scene 'Scene' has no armature", told.err)
    report = json.loads((out / "a.json").read_text())
    assert report["frames"] == [1, 2, 3, 4, 5] and report["output"] == str(out / "a.blend")
    bpy.ops.wm.open_mainfile(filepath=str(out / "[1].blend"))
    assert bpy.data.objects["humanoid"].animation_data is not None


def test_what_cannot_be_meant_is_refused_before_anything_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    first, second = saved(tmp_path / "1" / "shot.blend"), saved(tmp_path / "2" / "shot.blend")
    both = [str(first), str(second)]

    def said(*arguments: str) -> str:
        assert cli.run(["bake", *arguments]) == Exit.REFUSED
        return capsys.readouterr().err

    assert "no file is called like" in said(str(tmp_path / "*.blend"))
    assert "for '" in said(*both, "--output", str(tmp_path / "out.blend"))
    assert "put {name}, or {folder} and {name}" in said(*both, "--report", str(tmp_path / "{name}.json"))
    assert "no such folder" in said(*both, "--output", "{folder}/none/{name}.blend")
    assert "there is no file" in said(str(first), str(tmp_path / "gone.blend"))
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    assert "asks for the {name} of a file" in said("--output", "{name}.blend")
    assert names_in(tmp_path / "1") == names_in(tmp_path / "2") == {"shot.blend"}


def test_a_finished_shot_is_done_again_only_where_something_has_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    shot, out = saved(tmp_path / "shots" / "a.blend"), tmp_path / "out"
    command = ["bake", str(shot), *into(out)]
    assert cli.run(command) == Exit.REACHED

    def repeated(*arguments: str) -> bool:
        """Whether it was done again."""
        before = written(out)
        assert cli.run([*command, *arguments]) == Exit.REACHED
        told, now = capsys.readouterr().out, written(out)
        assert ("is finished" in told) == (now == before)
        return now != before

    assert not repeated()
    assert not repeated("--quiet", "--allow-misses", "--jobs", "2")
    assert repeated("--redo")
    assert repeated("--step", "2") and not repeated("--step", "2") and repeated()
    os.utime(shot, ns=(0, 0))
    assert repeated() and not repeated()
    (out / "a.blend").unlink()
    assert repeated()
    (out / "a.json").write_text("{}")
    assert repeated()


def test_a_library_that_has_changed_has_its_shots_done_again(tmp_path: Path):
    library, shot, out = tmp_path / "rig.blend", tmp_path / "shot.blend", tmp_path / "out"
    builders.humanoid().data.name = "bones"
    bpy.ops.wm.save_as_mainfile(filepath=str(library))
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    figure()
    bpy.ops.wm.save_as_mainfile(filepath=str(shot))
    libraries: Any = bpy.data.libraries
    with libraries.load(str(library), link=True) as (_there, linked):
        linked.armatures = ["bones"]
    bpy.data.objects.new("linked", bpy.data.armatures["bones", str(library)]).use_fake_user = True
    bpy.ops.wm.save_as_mainfile(filepath=str(shot))
    command = ["bake", str(shot), "--armature", "humanoid", *into(out)]
    assert cli.run(command) == Exit.REACHED
    before = written(out)
    assert cli.run(command) == Exit.REACHED and written(out) == before
    os.utime(library, ns=(0, 0))
    assert cli.run(command) == Exit.REACHED and written(out) != before
    library.rename(tmp_path / "away.blend")
    assert cli.run(command) == Exit.REACHED
    before = written(out)
    assert cli.run(command) == Exit.REACHED and written(out) == before
    (tmp_path / "away.blend").rename(library)
    assert cli.run(command) == Exit.REACHED and written(out) != before


def test_a_finished_shot_whose_files_are_locked_keeps_none_of_the_others_from_being_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    shots, out = [saved(tmp_path / "shots" / f"{name}.blend") for name in "ab"], tmp_path / "out"
    assert cli.run(["bake", str(shots[0]), *into(out)]) == Exit.REACHED
    for path in out.iterdir():
        path.chmod(0o444)
    command = ["bake", *map(str, shots), *into(out)]
    assert cli.run(command) == Exit.REACHED
    assert "2 of 2 shots: 1 finished before, 1 reached" in capsys.readouterr().out
    assert cli.run([*command, "--redo"]) == Exit.REFUSED
    assert "it is read-only" in capsys.readouterr().err


def test_a_shot_that_is_saved_on_itself_is_finished_then(tmp_path: Path):
    shot = saved(tmp_path / "shot.blend")
    command = ["bake", str(shot), "--output", str(shot), "--report", "{folder}/{name}.json"]
    command[-1] = str(tmp_path / "shot.json")
    assert cli.run(command) == Exit.REACHED
    before = written(tmp_path)
    assert cli.run(command) == Exit.REACHED and written(tmp_path) == before


def test_results_among_the_shots_are_no_shots(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name in ("a", "b"):
        saved(tmp_path / f"{name}.blend")
    command = ["solve", str(tmp_path / "*.blend"), "--output", "{folder}/{name}_solved.blend"]
    command += ["--report", "{folder}/{name}.json"]
    assert cli.run(command) == Exit.REACHED
    there = written(tmp_path)
    assert {"a_solved.blend", "b_solved.blend"} <= set(there)
    assert cli.run(command) == Exit.REACHED and written(tmp_path) == there
    assert "2 of 2 shots: 2 finished before\n" in capsys.readouterr().out


# Processes that end otherwise


def test_a_farm_that_ends_a_shot_finds_nothing_half_written(tmp_path: Path):
    shot, out = saved(tmp_path / "shot.blend"), tmp_path / "out"
    meanwhile(lambda: signal.raise_signal(signal.SIGTERM), frame=3)
    assert cli.run(["bake", str(shot), *into(out)]) == BY_SIGNAL + signal.SIGTERM
    assert names_in(out) == set()


def worker_of(shot: Path) -> int | None:
    """The process that does a shot, once it has begun with it."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            told = (folder / "cmdline").read_bytes().decode().split("\0")
        except (OSError, UnicodeDecodeError):
            continue
        if told[-3:-1] == ["--only", str(shot)]:
            return int(folder.name)
    return None


def when(condition: Any) -> Any:
    """Wait until something is so, and return it."""
    until = time.monotonic() + WAITS
    while not (found := condition()):
        assert time.monotonic() < until, "nothing happens"
        time.sleep(0.02)
    return found


def test_a_shot_whose_worker_is_killed_is_told_and_done_by_the_next_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out, names = tmp_path / "out", ("a", "b", "c")
    shots = [saved(tmp_path / "shots" / f"{name}.blend", frames=3) for name in names]
    long = saved(shots[1], frames=LONG)
    command = ["bake", *map(str, shots), "--jobs", "2", *into(out)]
    run = begin(*command)
    worker = when(lambda: worker_of(long))
    half = out / f"{_other_name(out / 'b.blend', worker)}.blend"
    half.write_text("half")
    os.kill(worker, signal.SIGKILL)
    told, wrong = run.communicate()
    assert run.returncode == Exit.CRASHED, wrong
    assert "2 reached, 1 crashed" in told and "b.blend: its Blender was killed (SIGKILL)" in wrong
    before = written(out)
    assert set(before) == {"a.blend", "a.json", "c.blend", "c.json"}
    saved(shots[1], frames=3)
    capsys.readouterr()
    assert cli.run(command) == Exit.REACHED
    told = capsys.readouterr().out
    assert "3 of 3 shots: 2 finished before, 1 reached" in told, told
    after = written(out)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"b.blend", "b.json"}


def test_an_interruption_stops_all_workers_and_leaves_nothing(tmp_path: Path):
    shots = [saved(tmp_path / f"{name}.blend", frames=LONG) for name in ("a", "b", "c")]
    out = tmp_path / "out"
    run = begin("bake", *map(str, shots), "--jobs", "2", *into(out))
    workers = [when(lambda shot=shot: worker_of(shot)) for shot in shots[:2]]
    run.send_signal(signal.SIGINT)
    told, wrong = run.communicate()
    assert run.returncode == BY_SIGNAL + signal.SIGINT
    assert "0 of 3 shots: none" in told and "goes on with what is left" in wrong
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    assert names_in(out) == set()


def test_two_that_write_one_file_at_the_same_time_leave_it_whole(tmp_path: Path):
    shot, out = saved(tmp_path / "shot.blend"), tmp_path / "out"
    runs = [begin("bake", str(shot), *into(out)) for _ in range(3)]
    for run in runs:
        _, wrong = run.communicate()
        assert run.returncode == Exit.REACHED, wrong
    assert names_in(out) - {"shot.blend1", "shot.blend2"} == {"shot.blend", "shot.json"}
    bpy.ops.wm.open_mainfile(filepath=str(out / "shot.blend"))
    report = json.loads((out / "shot.json").read_text())
    assert report["action"] in bpy.data.actions


def test_what_others_are_writing_stays_and_what_was_left_is_removed(tmp_path: Path):
    shot, out = saved(tmp_path / "shot.blend"), tmp_path / "out"
    arguments = into(out)
    others = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(2)]
    own, gone = (out / f"{_other_name(out / 'shot.blend', other.pid)}.blend" for other in others)
    elsewhere = out / re.sub(r"-\w+-(\d+)\.", r"-00000000-\1.", own.name)
    before = elsewhere.with_stem(f"{elsewhere.stem}1")
    try:
        others[1].communicate(b"\n")
        for path in (own, gone, elsewhere, before):
            path.write_text("half")
        os.utime(before, (0.0, 0.0))
        assert cli.run(["bake", str(shot), *arguments]) == Exit.REACHED
        assert names_in(out) == {"shot.blend", "shot.json", own.name, elsewhere.name}
    finally:
        others[0].communicate(b"\n")


def test_a_worker_ends_when_the_command_is_gone(tmp_path: Path):
    shots = [saved(tmp_path / f"{name}.blend", frames=LONG) for name in ("a", "b")]
    run = begin("bake", *map(str, shots), *into(tmp_path / "out"))
    worker = when(lambda: worker_of(shots[0]))
    run.kill()
    run.communicate()
    when(lambda: not Path(f"/proc/{worker}").exists())
    assert names_in(tmp_path / "out") == set()

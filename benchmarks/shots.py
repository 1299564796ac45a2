# SPDX-License-Identifier: GPL-3.0-or-later
"""Many shots baked by two workers, one of which is killed in the middle: scripts/shots.

What is measured is told on the page, `pages/shots.md`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import bpy

from benchmarks.page import arguments, progress, publish
from benchmarks.rigs import add_on, basic_human
from blender_ik_addon.scene import posing

SHOTS: Final = 200
FRAMES: Final = 24  # Of each shot
JOBS: Final = 2
POLL_SECONDS: Final = 0.02  # Between looks at which workers there are


@dataclass
class Run:
    """One call of the command."""

    code: int = 0
    baked: Counter[str] = field(default_factory=Counter)
    """How often each shot was baked."""
    most: int = 0
    """Most workers at once."""
    summary: str = ""
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


def make_shots(folder: Path, count: int) -> list[Path]:
    """Save shots, each a figure whose hand moves along another way; none is a copy of another."""
    with add_on():
        figure = basic_human()
        posing.setup_character(figure)
        scene = bpy.context.scene
        scene.frame_start, scene.frame_end = 1, FRAMES
        target = next(own.target for own in figure.poise.effectors if own.name == "hand.L")
        target.keyframe_insert("location", frame=1)
        paths: list[Path] = []
        for number in range(count):
            target.location.z += 0.2 * (-1) ** number / count
            target.keyframe_insert("location", frame=FRAMES)
            paths.append(folder / f"shot_{number:03d}.blend")
            bpy.ops.wm.save_as_mainfile(filepath=str(paths[-1]), copy=True)
    return paths


def workers() -> dict[int, str]:
    """Processes that do a shot at present, and which."""
    found: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            told = (folder / "cmdline").read_bytes().decode().split("\0")
        except (OSError, UnicodeDecodeError):  # it has just ended
            continue
        if len(told) > 3 and told[-3] == "--only":
            found[int(folder.name)] = Path(told[-2]).stem
    return found


def bake(shots: Path, results: Path, *, kill_after: int | None = None) -> tuple[Run, str]:
    """Call the command; kill the worker of a shot when so many are done. Returns which shot that was, too."""
    command = [sys.executable, "-m", "blender_ik_addon", "bake", str(shots / "*.blend"), "--jobs", str(JOBS)]
    command += ["--output", str(results / "{name}.blend"), "--report", str(results / "{name}.json")]
    run, killed, start = Run(), "", time.perf_counter()
    with (results.parent / "said").open("w+") as said, (results.parent / "wrong").open("w+") as wrong:
        process = subprocess.Popen(command, stdout=said, stderr=wrong)
        while process.poll() is None:
            now = {pid: name for pid, name in workers().items() if name.startswith("shot_")}
            run.most = max(run.most, len(now))
            done = len(list(results.glob("*.json")))
            at_work = {pid: name for pid, name in now.items() if not (results / f"{name}.json").exists()}
            if kill_after is not None and not killed and done >= kill_after and at_work:
                pid, killed = next(iter(at_work.items()))
                os.kill(pid, signal.SIGKILL)
                progress(f"{done} shots are done; the worker of {killed} is killed")
            time.sleep(POLL_SECONDS)
        run.code, run.seconds = process.returncode, time.perf_counter() - start
        for stream in (said, wrong):
            stream.seek(0)
        lines = [line.replace(f"{shots}/", "") for line in said.read().splitlines()]
        told = [line.rstrip() for line in wrong if line.startswith("poise: ERROR")]
        run.wrong = [line.removeprefix("poise: ERROR: ").replace(f"{shots}/", "") for line in told]
    said_baked = re.compile(r"(shot_\d+)\.blend: .*\bbaked\b")
    run.baked = Counter(found[1] for line in lines if (found := said_baked.search(line)))
    run.summary = lines[-1].removeprefix("poise: ")
    progress(run.summary)
    return run, killed


def written(folder: Path) -> dict[str, int]:
    """Results and when they were written [ns]."""
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def faults(shots: list[Path], results: Path) -> Iterator[str]:
    """Say what is wrong with the results: a file that is missing, or left over, or not that of its shot."""
    wanted = {f"{shot.stem}.{end}" for shot in shots for end in ("blend", "json")}
    there = {path.name for path in results.iterdir()}
    yield from (f"missing: {name}" for name in sorted(wanted - there))
    yield from (f"left over: {name}" for name in sorted(there - wanted))
    for shot in shots:
        report = json.loads((results / f"{shot.stem}.json").read_text(encoding="utf-8"))
        if not report["reached"] or report["frames"] != list(range(1, FRAMES + 1)):
            yield f"{shot.stem}: {report['summary']}"
        bpy.ops.wm.open_mainfile(filepath=str(results / f"{shot.stem}.blend"))
        if report["action"] not in bpy.data.actions:
            yield f"{shot.stem}: no keys in the file"


def main() -> int:
    """Run it; the exit code is 0 if nothing is lost and nothing was done twice."""
    options = arguments("scripts/shots", __doc__, shots=(SHOTS, "how many shots there are")).parse_args()
    with TemporaryDirectory() as name:
        folder, results = Path(name) / "shots", Path(name) / "results"
        folder.mkdir()
        results.mkdir()
        shots = make_shots(folder, options.shots)
        progress(f"{len(shots)} shots are made")
        first, killed = bake(folder, results, kill_after=options.shots // 2)
        before = written(results)
        second, _ = bake(folder, results)
        after = written(results)
        kept = sum(after.get(name) == time for name, time in before.items())
        third, _ = bake(folder, results)
        with add_on():
            found = list(faults(shots, results))
        still = written(results) == after
        shutil.rmtree(results)
    times = [(first.baked + second.baked + third.baked)[shot.stem] for shot in shots]
    well = not found and set(times) == {1} and kept == len(before) and still
    publish(
        options,
        "shots",
        globals(),
        runs=[first, second, third],
        killed=killed,
        wrong=first.wrong[:1],  # then comes what Blender has printed last
        kept=kept,
        before=before,
        times=times,
        twice=sum(own > 1 for own in times),
        never=sum(own < 1 for own in times),
        faults=found,
        still=still,
        well=well,
    )
    return 0 if well else 1

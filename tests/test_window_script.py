# SPDX-License-Identifier: GPL-3.0-or-later
"""A Blender of one's own on the PATH is found, whatever it prints before its version."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

MISSING = "source scripts/_environment.sh; source scripts/_window.sh; window_missing_here"


def missing_with(folder: Path, printed: str) -> str:
    """What keeps a machine from being used on which Blender prints this for its version."""
    for program in ("blender", "Xvfb", "xdotool"):
        (folder / program).write_text(f"#!/bin/sh\nprintf '{printed}'\n", encoding="utf-8")
        (folder / program).chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", MISSING],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("printed", "missing"),
    [
        (r"Blender 5.2.1 LTS\n\tbuild date: 2026\n", ""),
        (r"00:00.212  system.path | WARNING Could not get a list\nBlender 4.5.3 LTS\n", ""),
        (r"Blender 4.2.0\n", "blender (it is 4.2.0)"),
        (r"cannot open display\n", "blender (it is none that starts)"),
    ],
)
def test_the_version_of_a_blender_on_the_path_is_read(tmp_path: Path, printed: str, missing: str):
    assert missing_with(tmp_path, printed) == missing

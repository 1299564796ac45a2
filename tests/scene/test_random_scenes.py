# SPDX-License-Identifier: GPL-3.0-or-later
"""Random rigs in random scenes: what Poise is asked for is done or refused in words, and no more changes.

Cases are tried in processes of their own, so that a crash of Blender is told with its case, and the other
tests go on. `POISE_CASES=5 scripts/test tests/scene/test_random_scenes.py` tries five times as many, other
ones on each run; `POISE_CASE=0a1b...` tries the one alone that a test has named.
"""

import os
import secrets
import subprocess
import sys
from math import ceil
from pathlib import Path

import bpy
import pytest

from tests.conftest import MORE

ROOT = Path(__file__).parents[2]
PARTS = 10 if bpy.app.version >= (5, 2, 0) else 1
"""Older Blenders differ in little."""
CASES = ceil(200 * MORE)
"""Of each part."""


def tried(log: Path, *what: str) -> tuple[int, str]:
    """Try cases in a process of their own; how many there were, and what is wrong."""
    command = [sys.executable, "-m", "tests.scene.random_scenes", str(log), *what]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    text = log.read_text(encoding="utf-8") if log.exists() else ""
    count = text.count("\ncase ") + text.startswith("case ")
    if text.endswith("all have passed\n") and done.returncode == 0:
        return count, ""
    case, _, failed = text.rpartition("case ")[2].partition("\n")
    how = failed or f"Blender has ended with {done.returncode} in this case:\n{done.stderr[-4000:]}"
    return count, f"POISE_CASE={case}\n{how}"


@pytest.mark.skipif("POISE_CASE" in os.environ, reason="one case alone is asked for")
@pytest.mark.parametrize("part", range(PARTS))
def test_what_is_asked_for_is_done_or_refused_and_nothing_else_changes(part: int, tmp_path: Path) -> None:
    seed = part if MORE == 1.0 else secrets.randbits(32)
    count, wrong = tried(tmp_path / "log", str(seed), str(CASES))
    assert not wrong, wrong
    assert count == CASES


@pytest.mark.skipif("POISE_CASE" not in os.environ, reason="no case is asked for")
def test_the_case_that_is_asked_for(tmp_path: Path) -> None:
    _, wrong = tried(tmp_path / "log", os.environ["POISE_CASE"])
    assert not wrong, wrong

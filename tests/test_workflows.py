# SPDX-License-Identifier: GPL-3.0-or-later
"""The workflow files say what the scripts say; whether they are well-formed is asked by scripts/check."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = ROOT / ".github" / "workflows"


def text(name: str) -> str:
    return (WORKFLOWS / name).read_text(encoding="utf-8")


def test_every_supported_blender_is_tested_on_three_systems_with_its_python():
    job = text("test.yml").partition("  blender:\n")[2]
    pairs = dict(re.findall(r'- blender: "([\d.]+)"\n +python: "([\d.]+)"', job))
    pinned = {path.stem.removeprefix("blender-") for path in (ROOT / "requirements").glob("blender-*.txt")}
    assert set(pairs) == pinned == set(re.findall(r"[\d.]+", re.findall(r" blender: \[(.*)\]", job)[0]))
    for blender, python in pairs.items():
        asked = f"source scripts/_environment.sh; blender_python {blender}"
        told = subprocess.run(["bash", "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True)
        assert told.stdout.strip() == python
    assert "os: [ubuntu-latest, windows-latest, macos-latest]" in job


def test_every_file_that_workflows_name_is_there():
    named = {
        name
        for path in WORKFLOWS.glob("*.yml")
        for name in re.findall(r"(?:requirements|scripts|tests)/[\w./-]+", path.read_text(encoding="utf-8"))
    }
    assert {"scripts/build_extension.py", "requirements/library.txt"} <= named
    assert [name for name in sorted(named) if not name.endswith("-") and not (ROOT / name).exists()] == []


def test_a_release_has_the_zip_of_the_version_that_is_tagged():
    assert 'test -f "dist/poise-${GITHUB_REF_NAME#v}.zip"' in text("release.yml")
    assert "uses: ./.github/workflows/test.yml" in text("release.yml")
    assert "workflow_call:" in text("test.yml")

# SPDX-License-Identifier: GPL-3.0-or-later
"""The extension's zip: built and validated with Blender's own tool, then installed as users do."""

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("bpy")

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = tomllib.loads((ROOT / "blender_manifest.toml").read_text(encoding="utf-8"))

# Runs in a Blender of its own, whose user folder is empty. Exit code 0 alone would not tell that Blender
# swallowed an error while enabling, so what is there is printed as JSON on a line of its own.
INSTALL = """
import json, sys
import bpy

bpy.ops.extensions.package_install_files(filepath=sys.argv[1], repo="user_default", enable_on_install=True)
name = "bl_ext.user_default.poise"
found = {
    "enabled": name in bpy.context.preferences.addons,
    "settings": hasattr(bpy.types.Object, "poise"),
    "operators": sorted(dir(bpy.ops.poise)),
}
bpy.ops.preferences.addon_disable(module=name)
found["left"] = [name for name in dir(bpy.types) if name.startswith("POISE_")]
found["left"] += ["Object.poise"] * hasattr(bpy.types.Object, "poise")
print("\\nFOUND " + json.dumps(found), flush=True)
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The zip, which Blender's own validator has accepted."""
    output = tmp_path_factory.mktemp("build")
    command = [sys.executable, str(ROOT / "scripts" / "build_extension.py"), "--output", str(output)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return output / f"poise-{MANIFEST['version']}.zip"


def test_zip_holds_the_package_at_its_top(archive: Path):
    names = zipfile.ZipFile(archive).namelist()
    assert {"__init__.py", "blender_manifest.toml", "LICENSE", "README.md", "core/model/rotation.py"} <= set(
        names
    )
    sources = {
        path.relative_to(ROOT / "blender_ik_addon").as_posix()
        for path in (ROOT / "blender_ik_addon").rglob("*.py")
    }
    assert {name for name in names if name.endswith(".py")} == sources
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def test_zip_installs_enables_and_disables(archive: Path, tmp_path: Path):
    environment = os.environ | {"BLENDER_USER_RESOURCES": str(tmp_path)}
    command = [sys.executable, "-c", INSTALL, str(archive)]
    run = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    lines = [line for line in run.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, run.stdout + run.stderr
    found = json.loads(lines[0].removeprefix("FOUND "))
    assert found["enabled"], run.stdout + run.stderr
    assert found["settings"]
    assert {"solve_pose", "bake", "add_effector", "remove_effector"} <= set(found["operators"])
    assert found["left"] == []

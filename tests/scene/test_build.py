# SPDX-License-Identifier: GPL-3.0-or-later
"""The extension: its zip validated by Blender and installed as users do, and a linked checkout."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import bpy
import pytest

from scripts import build_extension

# Runs in a Blender of its own, whose user folder is empty. Exit code 0 alone would not tell that Blender
# swallowed an error while enabling, so what is there is printed as JSON on a line of its own.
INSTALL = """
import json, sys
import bpy

if sys.argv[1].endswith(".zip"):
    bpy.ops.extensions.package_install_files(
        filepath=sys.argv[1], repo="user_default", enable_on_install=True
    )
    name = "bl_ext.user_default.poise"
else:
    repository = bpy.context.preferences.extensions.repos.new(
        name="Checkout", module="checkout", custom_directory=sys.argv[1]
    )
    bpy.ops.preferences.addon_enable(module="bl_ext.checkout.poise")
    name = "bl_ext.checkout.poise"
found = {
    "enabled": name in bpy.context.preferences.addons,
    "preferences": bpy.context.preferences.addons[name].preferences is not None,
    "settings": hasattr(bpy.types.Object, "poise"),
    "operators": sorted(dir(bpy.ops.poise)),
    "package": sys.modules[name + ".core"].__file__,
}
bpy.ops.preferences.addon_disable(module=name)
found["left"] = [name for name in dir(bpy.types) if name.startswith("POISE_")]
found["left"] += ["Object.poise"] * hasattr(bpy.types.Object, "poise")
print("\\nFOUND " + json.dumps(found), flush=True)
"""


def enabled(source: Path, user_folder: Path) -> dict[str, Any]:
    """What a new Blender has after it has enabled a zip, or what lies in the folder of a repository."""
    environment = os.environ | {"BLENDER_USER_RESOURCES": str(user_folder)}
    command = [sys.executable, "-c", INSTALL, str(source)]
    run = subprocess.run(
        command, env=environment, cwd=user_folder, capture_output=True, text=True, timeout=600, check=False
    )
    lines = [line for line in run.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, run.stdout + run.stderr
    found = json.loads(lines[0].removeprefix("FOUND "))
    assert found["enabled"], run.stdout + run.stderr
    return found


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_extension.build(tmp_path_factory.mktemp("build"))


def test_blenders_validator_accepts_the_zip(archive: Path):
    (validator,) = Path(bpy.utils.system_resource('SCRIPTS')).glob("addons_core/bl_pkg/cli/blender_ext.py")
    command = [sys.executable, str(validator), "validate", str(archive)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Success parsing TOML" in run.stdout


def test_zip_installs_enables_and_disables(archive: Path, tmp_path: Path):
    found = enabled(archive, tmp_path)
    assert found["settings"] and found["preferences"]
    assert {"solve_pose", "bake", "add_effector", "remove_effector"} <= set(found["operators"])
    assert found["left"] == []


def test_a_checkout_that_is_linked_to_a_repository_is_enabled(tmp_path: Path):
    repository, user_folder = tmp_path / "repository", tmp_path / "user"
    user_folder.mkdir()
    build_extension.link(repository)
    found = enabled(repository, user_folder)
    assert found["settings"] and found["preferences"] and found["left"] == []
    assert Path(found["package"]) == build_extension.PACKAGE / "core" / "__init__.py"

# SPDX-License-Identifier: GPL-3.0-or-later
"""The extension is built by Python alone: what is in the zip, the same bytes each time, the manifest."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from scripts import build_extension

ROOT = Path(__file__).resolve().parents[1]
MANIFEST = tomllib.loads((ROOT / "blender_manifest.toml").read_text(encoding="utf-8"))


def run(*arguments: str, cwd: Path | None = None, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """The script in a Python without any package."""
    command = [sys.executable, "-I", "-S", str(root / "scripts" / "build_extension.py"), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_same_files_give_the_same_bytes(tmp_path: Path):
    """Whatever the dates and permissions of a checkout, and from which folder it is called."""
    done = run("--output", str(tmp_path / "here"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    copy = tmp_path / "copy"
    for name in ("blender_ik_addon", "scripts"):
        ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(ROOT / name, copy / name, copy_function=shutil.copyfile, ignore=ignore)
    for name in build_extension.BESIDE_PACKAGE:
        shutil.copyfile(ROOT / name, copy / name)
    (copy / "blender_ik_addon" / "__pycache__").mkdir()
    for path in copy.rglob("*"):
        if path.is_file():
            os.utime(path, (1e9, 1e9))
            path.chmod(0o600)
    done = run("--output", "there", cwd=tmp_path, root=copy)
    assert done.returncode == 0, done.stderr
    name = f"poise-{MANIFEST['version']}.zip"
    assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()
    assert [path.name for path in (tmp_path / "here").iterdir()] == [name]


def test_zip_holds_the_package_at_its_top(tmp_path: Path):
    zipped = zipfile.ZipFile(build_extension.build(tmp_path))
    names = zipped.namelist()
    assert {"__init__.py", "blender_manifest.toml", "LICENSE", "README.md", "core/py.typed"} <= set(names)
    package = ROOT / "blender_ik_addon"
    sources = {path.relative_to(package).as_posix() for path in package.rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == sources
    assert zipped.read("core/model/skeleton.py") == (package / "core" / "model" / "skeleton.py").read_bytes()
    assert not [name for name in names if "__pycache__" in name or name.startswith(".")]
    assert names == sorted(names)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("version", "1.2", "version: expected a semantic version"),
        ("name", "Poise for Blender", "name: expected a name without the word Blender"),
        ("tagline", "Inverse kinematics.", "tagline: expected at most 64 characters"),
        ("tagline", "a" * 65, "tagline: expected at most 64 characters"),
        ("maintainer", "Poise maintainers", "maintainer: expected Name <user@host>"),
        ("website", None, "website: expected an https address, got None"),
        ("license", [], "license: expected a list"),
        ("license", ["GPL"], "license: expected SPDX:identifier, got 'GPL'"),
        ("copyright", ["Poise"], "copyright: expected years and a name"),
        ("permissions", {"internet": "Why"}, "permissions: expected one of camera"),
        ("permissions", {"files": "Because of this."}, "permissions.files: expected at most 64"),
        ("permissions", ["files"], "permissions: expected a table"),
        ("colour", "red", "colour: there is no such key"),
    ],
)
def test_a_manifest_that_is_not_right_is_refused(key: str, value: Any, told: str):
    assert build_extension.faults(MANIFEST) == []
    (fault,) = build_extension.faults({**MANIFEST, key: value})
    assert fault.startswith(told)


def test_a_checkout_is_linked_to_a_repository_and_nothing_else_is_overwritten(tmp_path: Path):
    for _ in range(2):
        done = run("--link", str(tmp_path))
        assert done.returncode == 0, done.stderr
    folder = tmp_path / "poise"
    assert sorted(path.name for path in folder.iterdir()) == ["__init__.py", "blender_manifest.toml"]
    code = (
        "import poise; from poise.core import Skeleton; print(Skeleton.__module__, poise.register.__name__)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["poise.core.model.skeleton", "register"]
    (folder / "__init__.py").write_text("# installed", encoding="utf-8")
    done = run("--link", str(tmp_path))
    assert done.returncode == 1 and "is no link to a checkout" in done.stderr
    assert (folder / "__init__.py").read_text(encoding="utf-8") == "# installed"

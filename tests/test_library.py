# SPDX-License-Identifier: GPL-3.0-or-later
"""The core as a library: built from its folder alone, installed by itself, used by its own name."""

import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "blender_ik_addon" / "core"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

BUILD = """
import sys
from setuptools import build_meta
print(build_meta.build_wheel(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, as tools build it: by the backend, where there is the core and nothing of Blender."""
    try:
        version("setuptools")
    except PackageNotFoundError:
        pytest.fail("the backend that pyproject.toml names is not installed: requirements/library.txt")
    source, output = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    shutil.copytree(CORE, source / "blender_ik_addon" / "core", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy2(ROOT / name, source / name)
    command = [sys.executable, "-c", BUILD, str(output)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = output.iterdir()
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment that has the wheel, and numpy from this one."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv")
    (found,) = [path for path in (folder / "venv").glob("*/*") if path.stem == "python"]
    options = ["--no-deps", "--no-index", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "--python", str(found), "install", *options, str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (packages,) = {path.parent for path in (folder / "venv").rglob("poise_ik/__init__.py")}
    (packages.parent / "numpy.pth").write_text(str(Path(np.__file__).parents[1]), encoding="utf-8")
    return found


def test_the_wheel_has_all_of_the_core_and_nothing_else(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    ours = {name for name in names if ".dist-info/" not in name}
    sources = {f"poise_ik/{path.relative_to(CORE).as_posix()}" for path in CORE.rglob("*.py")}
    assert ours == sources | {"poise_ik/py.typed"}
    assert wheel.name == f"poise_ik-{PROJECT['version']}-py3-none-any.whl"


def test_the_library_says_what_it_is(wheel: Path):
    zipped = zipfile.ZipFile(wheel)
    (name,) = [name for name in zipped.namelist() if name.endswith("/METADATA")]
    told = zipped.read(name).decode()
    for line in (
        "Name: poise_ik",
        "License-Expression: GPL-3.0-or-later",
        "Requires-Dist: numpy<3,>=1.26",
        "Classifier: Typing :: Typed",
        f"Project-URL: Homepage, {PROJECT['urls']['Homepage']}",
    ):
        assert f"\n{line}\n" in told
    assert "bpy" not in told


@pytest.mark.parametrize("page", ["core.md", "core-files.md"])
def test_what_the_manual_says_of_the_library_runs(page: str, python: Path, tmp_path: Path):
    text = (ROOT / "docs" / "manual" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 1
    done = subprocess.run(
        [str(python), "-I", "-c", "\n".join(blocks)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_examples_run_by_the_name_of_the_library(python: Path, tmp_path: Path):
    done = subprocess.run(
        [str(python), "-B", str(ROOT / "examples" / "library" / "check_examples.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == PROJECT["version"]


def test_the_page_of_the_library_runs(python: Path, tmp_path: Path):
    block = (CORE / "README.md").read_text(encoding="utf-8").split("```")[1].removeprefix("python")
    code = f"{block}\nassert solution.reached, solution\n"
    done = subprocess.run(
        [str(python), "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

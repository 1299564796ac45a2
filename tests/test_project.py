# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts that several files of the repository must agree on."""

import functools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import pytest

from benchmarks import tuning
from blender_ik_addon import core

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = tomllib.loads((ROOT / "blender_manifest.toml").read_text(encoding="utf-8"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
SPDX_LINE = "# SPDX-License-Identifier: GPL-3.0-or-later"
MADE_BY_TOOLS = {
    ".git",
    ".hypothesis",
    ".pytest_cache",
    ".ruff_cache",
    ".venv",
    "__pycache__",
    "build",
    "dist",
}


def project_files() -> list[Path]:
    """What git knows or would add; without git (an unpacked archive) all files but those that tools make."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if listed.returncode == 0:
            return sorted(ROOT / name for name in listed.stdout.split("\0") if (ROOT / name).is_file())
    found = (path for path in ROOT.rglob("*") if path.is_file())
    return sorted(path for path in found if not MADE_BY_TOOLS & set(path.relative_to(ROOT).parts))


@functools.cache
def project_texts() -> dict[str, str]:
    """The text files of the project by their path."""
    texts = {}
    for path in project_files():
        content = path.read_bytes()
        if b"\0" not in content:
            texts[path.relative_to(ROOT).as_posix()] = content.decode("utf-8")
    return texts


def test_manifest_says_who_we_are():
    assert MANIFEST["schema_version"] == "1.0.0"
    assert MANIFEST["id"] == "poise"
    assert MANIFEST["type"] == "add-on"
    assert MANIFEST["license"] == ["SPDX:GPL-3.0-or-later"]


def test_manifest_keeps_the_rules_of_the_extensions_platform():
    assert "blender" not in MANIFEST["name"].lower()
    assert len(MANIFEST["tagline"]) <= 64
    assert MANIFEST["tagline"][-1].isalnum()
    assert set(MANIFEST["tags"]) == {"Animation", "Rigging"}
    # Presets lie in the user's folder, and command lines write files. To ask for more is a decision.
    assert set(MANIFEST["permissions"]) == {"files"}


def test_one_version_everywhere():
    assert re.fullmatch(r"\d+\.\d+\.\d+", MANIFEST["version"])
    assert PROJECT["version"] == core.__version__ == MANIFEST["version"]
    assert f"dist/poise-{MANIFEST['version']}.zip" in (ROOT / "README.md").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", changes, re.MULTILINE)
    assert released[0] == MANIFEST["version"]


def test_manifest_and_library_have_the_same_addresses():
    (author,) = PROJECT["authors"]
    assert MANIFEST["maintainer"] == f"{author['name']} <{author['email']}>"
    assert MANIFEST["website"] == PROJECT["urls"]["Homepage"]


def test_lowest_blender_is_one_that_is_tested():
    assert MANIFEST["blender_version_min"] == "4.5.0"
    script = (ROOT / "scripts" / "_environment.sh").read_text(encoding="utf-8")
    match = re.search(r"^TESTED_BLENDERS=\((.*?)\)", script, re.MULTILINE)
    assert match is not None
    assert match[1].split()[-1] == MANIFEST["blender_version_min"].removesuffix(".0")


def test_licence_is_the_one_named():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "GNU GENERAL PUBLIC LICENSE" in text
    assert "Version 3, 29 June 2007" in text
    assert PROJECT["license"] == "GPL-3.0-or-later"


def test_every_python_file_names_the_licence_first():
    wrong = [
        name
        for name, text in project_texts().items()
        if name.endswith(".py") and not text.startswith(SPDX_LINE + "\n")
    ]
    assert wrong == []


def test_no_module_has_a_name_that_says_nothing():
    nothing = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [path.name for path in project_files() if path.suffix == ".py" and path.stem in nothing] == []


def test_every_installed_version_is_exact():
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert line.startswith("#") or re.fullmatch(r"[\w\[\]-]+==[\w.]+", line), f"{path.name}: {line}"


def test_every_extra_and_group_is_among_what_the_scripts_install():
    lines = [
        line
        for path in (ROOT / "requirements").glob("*.txt")
        for line in path.read_text(encoding="utf-8").split()
    ]
    pinned = {re.split(r"\[|==", line)[0] for line in lines}
    wanted = {
        re.split(r"[\[<>=]", name)[0]
        for table in (PROJECT["optional-dependencies"], PYPROJECT["dependency-groups"])
        for names in table.values()
        for name in names
    }
    assert wanted <= pinned


def test_changelog_has_a_place_for_what_comes_next():
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def package_sources() -> list[SplitResult]:
    """From where pip is set up to install on this machine."""
    run = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    settings = run.stdout + " ".join(
        value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_"))
    )
    return [urlsplit(url) for url in re.findall(r"(?:https?|file)://[^\s'\",\\]+", settings)]


def places_of_this_machine() -> set[str]:
    """Folders that exist on this machine for its own reasons and that no file of ours should know of."""
    anybodys = {
        Path(name) for name in ("/", "/tmp", "/usr", "/usr/local", "/var/tmp", "/home", "/mnt", "/srv")
    }
    places = {ROOT, Path.home(), Path(sys.prefix), Path(sys.base_prefix)}
    places |= set(ROOT.parent.iterdir()) if ROOT.parent not in anybodys else set()
    places |= {Path(source.path) for source in package_sources() if source.scheme == "file"}
    return {str(place) for place in places - anybodys}


def package_hosts() -> set[str]:
    """Hosts from which packages come here."""
    return {source.hostname for source in package_sources() if source.hostname} - {"localhost"}


@pytest.mark.parametrize("kind", ["places", "hosts"])
def test_no_file_knows_this_machine(kind: str):
    words = places_of_this_machine() if kind == "places" else package_hosts()
    # Not inside a longer word: "/lab" is not in "and/lab", nor in "/labels".
    patterns = {word: re.compile(rf"(?<![\w.-]){re.escape(word)}(?![\w-])") for word in sorted(words)}
    if kind == "places":
        patterns |= {root: re.compile(rf"(?<![\w.-]){root}/[a-z]\w*/") for root in ("/home", "/Users")}
    hits = [
        f"{name}: {pattern.pattern}"
        for name, text in project_texts().items()
        for word, pattern in patterns.items()
        if word in text and pattern.search(text)  # most texts have none, which is found sooner so
    ]
    assert hits == []


def test_the_table_of_tuning_constants_is_that_of_the_sources():
    core_folder, known = ROOT / "blender_ik_addon" / "core", tuning.stored("tuning")
    for name in (name for names in known["outside"].values() for name in names):
        path = core_folder.joinpath(*name.split("."))
        assert path.is_dir() or path.with_suffix(".py").is_file(), name
    for name in known["definitions"]:
        module, constant = name.rsplit(".", maxsplit=1)
        source = core_folder.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
        assert f"\n{constant}: Final = " in source, name
    assert all(constant.meaning for constant in tuning.constants())

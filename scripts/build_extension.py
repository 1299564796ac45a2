# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the extension's zip with Blender's own builder, then has Blender's own validator look at it.

In the repository the package lies in a folder beside the manifest; in an extension its `__init__.py` lies
beside the manifest. So the contents are first staged in one folder. Runs in any Python that has `bpy`
installed: the builder is a script inside it, for which Blender need not start.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "blender_ik_addon"
BESIDE_PACKAGE = ("blender_manifest.toml", "LICENSE", "README.md")


def blender_builder() -> Path:
    """The command line tool for extensions inside the installed `bpy`."""
    spec = importlib.util.find_spec("bpy")
    if spec is None or spec.origin is None:
        sys.exit(f"{sys.executable} has no bpy installed; run scripts/build, which sees to it.")
    found = sorted(Path(spec.origin).parent.glob("*/scripts/addons_core/bl_pkg/cli/blender_ext.py"))
    if not found:
        sys.exit(f"No extension builder in {Path(spec.origin).parent}.")
    return found[-1]


def frame_data(folder: Path) -> None:
    """Copy all that belongs into the extension to `folder`, which must not exist."""
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".*"))
    for name in BESIDE_PACKAGE:
        shutil.copy2(ROOT / name, folder / name)


def build(output: Path) -> Path:
    """Build and validate the extension; the path of its zip in the folder `output`."""
    manifest = tomllib.loads((ROOT / "blender_manifest.toml").read_text(encoding="utf-8"))
    archive = output.resolve() / f"{manifest['id']}-{manifest['version']}.zip"
    archive.parent.mkdir(parents=True, exist_ok=True)
    builder = [sys.executable, str(blender_builder())]
    with tempfile.TemporaryDirectory() as temporary:
        staged = Path(temporary) / manifest["id"]
        frame_data(staged)
        built = Path(temporary) / archive.name
        source = ["--source-dir", str(staged), "--output-filepath", str(built)]
        subprocess.run([*builder, "build", *source], check=True)
        subprocess.run([*builder, "validate", str(built)], check=True)
        # In one step: another run may be reading the one that is there.
        part = archive.with_name(f".{archive.name}.{os.getpid()}")
        shutil.copyfile(built, part)
        part.replace(archive)
    return archive


def main() -> None:
    """Command line: where to put the zip."""
    parser = argparse.ArgumentParser(description="Build and validate the extension.")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "dist", help="folder for the zip (default: dist)"
    )
    try:
        archive = build(parser.parse_args().output)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)  # the builder has said why
    print(f"{archive} ({archive.stat().st_size / 1024:.0f} KiB)")


if __name__ == "__main__":
    main()

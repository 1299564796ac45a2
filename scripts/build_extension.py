# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the extension's zip with the standard library of Python 3.11 or newer, on any system.

    python scripts/build_extension.py [--output FOLDER]
    python scripts/build_extension.py --link REPOSITORY

In the repository the package lies in a folder beside the manifest; in an extension its `__init__.py` lies
beside the manifest. The zip has the package's contents at its top, with manifest, licence and README. The
same files give the same bytes: they are sorted, and dates and permissions are fixed.

`--link` builds nothing: the folder of one of Blender's local extension repositories gets an extension that
loads its modules from this checkout.
"""

import argparse
import os
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = ROOT / "blender_ik_addon"
MANIFEST: Final = "blender_manifest.toml"
BESIDE_PACKAGE: Final = (MANIFEST, "LICENSE", "README.md")

LONGEST: Final = 64
"""Characters [1] of a tagline or of the reason of a permission."""

DATE: Final = (1980, 1, 1, 0, 0, 0)
"""Of all files in the zip: the first that a zip can hold."""

PERMISSIONS: Final = {"camera", "clipboard", "files", "microphone", "network"}

LINK: Final = """# SPDX-License-Identifier: GPL-3.0-or-later
# Written by scripts/build_extension.py --link: the modules of this extension are those of a checkout.
__path__ = [{package!r}]


def register():
    from . import registration

    registration.register()


def unregister():
    from . import registration

    registration.unregister()
"""
"""The `__init__.py` of an extension that is linked to a checkout."""

ADDRESS: Final = r"[^<>@]+ <[^<>@\s]+@[^<>@\s]+\.[^<>@\s]+>"

FORMS: Final = {
    "schema_version": (r"1\.0\.0", "1.0.0"),
    "id": (r"[a-z][a-z0-9]*(_[a-z0-9]+)*", "a Python identifier in lower case"),
    "name": (r"(?!.*(?i:blender))\S(.*\S)?", "a name without the word Blender"),
    "version": (r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", "a semantic version, as 1.2.3"),
    "tagline": (rf".{{0,{LONGEST - 1}}}\w", f"at most {LONGEST} characters, without a full stop at the end"),
    "maintainer": (ADDRESS, "Name <user@host>"),
    "type": ("add-on", "add-on"),
    "blender_version_min": (r"\d+\.\d+\.\d+", "a version of Blender, as 4.5.0"),
    "website": (r"https://[\w.-]+(/\S*)?", "an https address"),
}
"""Texts that the manifest must have: their form, and how it is said."""

LISTS: Final = {
    "license": (r"SPDX:[\w.+-]+", "SPDX:identifier"),
    "copyright": (r"\d{4}(-\d{4})? \S.*", "years and a name, as 2026 Name"),
    "tags": (r"\S(.*\S)?", "a tag"),
}
"""Lists of texts that it must have."""


def faults(manifest: Mapping[str, Any]) -> list[str]:
    """What is wrong in a manifest, a line for each; Blender's own validator asks for less."""
    found: list[str] = []
    for key, (form, wanted) in FORMS.items():
        value = manifest.get(key)
        if not isinstance(value, str) or not re.fullmatch(form, value):
            found.append(f"{key}: expected {wanted}, got {value!r}")
    for key, (form, wanted) in LISTS.items():
        values = manifest.get(key)
        if not isinstance(values, list) or not values:
            found.append(f"{key}: expected a list, each {wanted}, got {values!r}")
            continue
        for value in values:
            if not isinstance(value, str) or not re.fullmatch(form, value):
                found.append(f"{key}: expected {wanted}, got {value!r}")
    reasons = manifest.get("permissions", {})
    if not isinstance(reasons, dict):
        return [*found, f"permissions: expected a table of reasons, got {reasons!r}"]
    for key, reason in reasons.items():
        if key not in PERMISSIONS:
            found.append(f"permissions: expected one of {', '.join(sorted(PERMISSIONS))}, got {key!r}")
        elif not isinstance(reason, str) or not re.fullmatch(FORMS["tagline"][0], reason):
            found.append(f"permissions.{key}: expected {FORMS['tagline'][1]}, got {reason!r}")
    unknown = sorted(manifest.keys() - FORMS.keys() - LISTS.keys() - {"permissions"})
    return [*found, *(f"{key}: there is no such key" for key in unknown)]


def contents() -> Iterator[tuple[str, Path]]:
    """Name in the zip and path of each file, sorted by name."""
    files = {name: ROOT / name for name in BESIDE_PACKAGE}
    for path in PACKAGE.rglob("*"):
        parts = path.relative_to(PACKAGE).parts
        hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
        if path.is_file() and not hidden and path.suffix not in {".pyc", ".pyo"}:
            files["/".join(parts)] = path
    yield from sorted(files.items())


def checked_manifest() -> dict[str, Any]:
    """The manifest (ValueError: it is not right, with a line for each fault)."""
    try:
        manifest = tomllib.loads((ROOT / MANIFEST).read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{MANIFEST}: {error}") from None
    if wrong := faults(manifest):
        raise ValueError("\n".join(f"{MANIFEST}: {line}" for line in wrong))
    return manifest


def build(output: Path) -> Path:
    """Build the extension; the path of its zip in the folder `output`.

    Raises:
        ValueError: The manifest is not right.
    """
    manifest = checked_manifest()
    archive = output.resolve() / f"{manifest['id']}-{manifest['version']}.zip"
    archive.parent.mkdir(parents=True, exist_ok=True)
    # In one step: another run may be reading the one that is there.
    part = archive.with_name(f".{archive.name}.{os.getpid()}")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zipped:
        for name, path in contents():
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type, entry.create_system, entry.external_attr = (
                zipfile.ZIP_DEFLATED,
                3,
                0o644 << 16,
            )
            zipped.writestr(entry, path.read_bytes())
    part.replace(archive)
    return archive


def link(repository: Path) -> Path:
    """Link an extension in the folder of a local repository to this checkout; the path of its folder.

    Raises:
        ValueError: The manifest is not right, or an extension lies there that is no such link.
    """
    folder = repository.resolve() / checked_manifest()["id"]
    start = folder / "__init__.py"
    if folder.exists() and (
        not start.is_file() or not start.read_text("utf-8").startswith(LINK.partition("__path__")[0])
    ):
        raise ValueError(f"{folder} is there and is no link to a checkout: uninstall it in Blender first")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).write_bytes((ROOT / MANIFEST).read_bytes())
    start.write_text(LINK.format(package=str(PACKAGE)), encoding="utf-8", newline="\n")
    return folder


def main() -> None:
    """Command line: where to put the zip, or which repository is linked."""
    parser = argparse.ArgumentParser(description="Build the extension's zip.")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "dist", help="folder for the zip (default: dist)"
    )
    parser.add_argument(
        "--link",
        type=Path,
        metavar="REPOSITORY",
        help="folder of a local extension repository that shall use this checkout",
    )
    options = parser.parse_args()
    try:
        if options.link is not None:
            print(f"{link(options.link)} uses {PACKAGE}")
            return
        archive = build(options.output)
    except (OSError, ValueError) as error:
        sys.exit(f"Not built.\n{error}")
    print(f"{archive} ({archive.stat().st_size / 1024:.0f} KiB)")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages of the site, put where mkdocs wants them: called by scripts/site.

    python scripts/site_pages.py FOLDER

README becomes the first page, the changelog a page, docs/ the others. Links are written anew for their new
places; a file of the project that is linked and is no page comes along. The API reference is taken from
build/reference.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
REFERENCE: Final = ROOT / "build" / "reference"
FIRST: Final = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
"""Pages outside docs/, from the root of the project -> from that of the site."""

LINK: Final = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
CODE: Final = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
BACK: Final = re.compile(r"^\[Manual\]\([^)]*\)\n\n", re.MULTILINE)
"""The way back to the manual, below a title; on the site the navigation is beside each page."""

API: Final = """# API reference

The library `poise_ik`, module by module, from its docstrings. What it is for and how it is used:
[The core](manual/core.md).

"""


def on_site(path: Path) -> Path:
    """Where a file of the project is on the site, from the site's root."""
    name = path.relative_to(ROOT).as_posix()
    return Path(FIRST.get(name, name.removeprefix("docs/")))


def page(source: Path, site: Path) -> str:
    """The text of a page with its links as the site has them; other files that it links are copied.

    Raises:
        FileNotFoundError: A link leads to a file that does not exist.
    """
    folder = on_site(source).parent

    def moved(match: re.Match[str]) -> str:
        before, link, after = match.groups()
        if re.match(r"[a-z]+:", link):
            return match[0]
        linked = (source.parent / link).resolve()
        if not linked.is_file():
            raise FileNotFoundError(f"{source.relative_to(ROOT)}: there is no {link}")
        place = on_site(linked)
        if not (site / place).exists() and linked.suffix != ".md":
            (site / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(linked, site / place)
        return before + Path(os.path.relpath(place, folder)).as_posix() + after

    parts = CODE.split(BACK.sub("", source.read_text(encoding="utf-8"), count=1))
    return "".join(part if part.startswith("`") else LINK.sub(moved, part) for part in parts)


def main() -> None:
    """Write the settings and all pages into a folder that is empty."""
    folder = Path(sys.argv[1])
    shutil.copy(ROOT / "mkdocs.yml", folder)
    site = folder / "docs"
    for source in (*(ROOT / name for name in FIRST), *sorted((ROOT / "docs").rglob("*.md"))):
        place = site / on_site(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(page(source, site), encoding="utf-8")
    shutil.copytree(REFERENCE, site / "reference")
    modules = sorted(
        path.relative_to(REFERENCE).as_posix()
        for path in REFERENCE.rglob("*.html")
        if path.name != "index.html"
    )
    rows = [f"- [{name.removesuffix('.html').replace('/', '.')}](reference/{name})\n" for name in modules]
    (site / "api.md").write_text(API + "".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages of the site; that it builds without a warning is held by scripts/check --whole."""

import re
from pathlib import Path

import pytest

from scripts import site_pages

ROOT = Path(__file__).resolve().parents[1]


def test_every_page_is_in_the_navigation_once_and_by_the_sections_of_the_manual():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"([\w/-]+\.md)$", navigation, re.MULTILINE)
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(listed) == sorted(pages | {*site_pages.FIRST.values(), "api.md"})


def test_measured_pages_begin_with_a_summary_of_at_most_five_lines():
    for path in (ROOT / "docs" / "measured").glob("*.md"):
        parts = path.read_text(encoding="utf-8").split("\n\n")
        summary = next(part for part in parts if part.startswith("- "))
        assert summary.count("\n- ") < 5, path.name


def test_links_lead_to_where_the_pages_are_on_the_site_and_files_come_along(tmp_path: Path):
    readme = site_pages.page(ROOT / "README.md", tmp_path)
    assert "](images/shot.gif)" in readme and "](changelog.md)" in readme
    assert (tmp_path / "images" / "shot.gif").is_file()
    farm = site_pages.page(ROOT / "docs" / "manual" / "farm.md", tmp_path)
    assert "](../index.md#install)" in farm and "](../farm/poise-shots.js)" in farm
    assert (tmp_path / "farm" / "poise-shots.js").is_file()
    assert not farm.startswith("# Farm\n\n[Manual]")


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(site_pages, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    source = tmp_path / "docs" / "page.md"
    source.write_text(
        "`[code](none.md)` [there](https://example.org/a.md) [gone](gone.md#part)", encoding="utf-8"
    )
    with pytest.raises(FileNotFoundError, match=r"docs/page\.md: there is no gone\.md"):
        site_pages.page(source, tmp_path / "site")

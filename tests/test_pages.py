# SPDX-License-Identifier: GPL-3.0-or-later
"""The templates of docs/measured: what their fields show of what was measured."""

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import page

ROWS = [
    SimpleNamespace(name="hand", times=[0.001, 0.004], met=True, jumps=[3, 5]),
    SimpleNamespace(name="foot", times=[0.002], met=False, jumps=[]),
]


@pytest.mark.parametrize(
    ("value", "form", "shown"),
    [
        ([0.001, 0.004, 0.002], "ms median .1f", "2.0"),
        ([0.25, np.nan, None], "% max g", "25"),
        ([np.nan], "mean .2f", "–"),
        (None, ".2f", "–"),
        ([1.04, 1.03], "span .1f", "1.0"),
        ([1.0, 2.0], "span .1f", "1.0 to 2.0"),
        (np.pi, "deg .0f", "180"),
        ([True, False], "sum .0f", "1"),
        ([[3, 5], []], "total", "2"),
        (False, "", "no"),
        (False, "wanted", "NO"),
        ((1.0, 2.5), "g", "1, 2.5"),
        ([], "", "none"),
        (3e-4, "short", "< 0.001"),
    ],
)
def test_a_figure_is_shown_as_its_words_and_format_say(value: object, form: str, shown: str) -> None:
    assert page.told(value, form) == shown


def test_lines_are_repeated_for_each_row() -> None:
    text = "[row of rows] {row.name}\n[row of rows]\n# {row.name}\n[jump of row.jumps] {jump}\n[end]\nend"
    assert page.filled(text, {"rows": ROWS}) == "hand\nfoot\n# hand\n3\n5\n# foot\nend"


def test_a_field_goes_through_the_rows_of_a_list_or_takes_one_of_them() -> None:
    assert page.filled("{rows.times:ms max g} {rows[1].name}", {"rows": ROWS}) == "4 foot"


def test_a_page_says_its_command_and_a_summary_has_at_most_five_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(page, "TEMPLATES", tmp_path)
    options = Namespace(markdown=tmp_path / "page.md", command="scripts/bench")
    template = tmp_path / "lines.md"
    template.write_text("Made by {command}.\n\n[row of rows] - {row}\n\n{LIMIT:mm g} mm\n", encoding="utf-8")
    page.publish(options, "lines", {"LIMIT": 1e-3}, rows=range(5))
    text = "Made by scripts/bench.\n\n- 0\n- 1\n- 2\n- 3\n- 4\n\n1 mm\n"
    assert options.markdown.read_text(encoding="utf-8") == text
    assert "- 4" in capsys.readouterr().out
    with pytest.raises(ValueError, match="6 lines of summary, at most 5"):
        page.publish(options, "lines", {"LIMIT": 1e-3}, rows=range(6))


def test_the_measured_pages_begin_with_such_a_summary() -> None:
    for path in (Path(__file__).parents[1] / "docs" / "measured").glob("*.md"):
        text = path.read_text(encoding="utf-8").split("\n- ")
        assert len(text) > 1, path.name
        first = "\n- ".join(text).split("\n\n")
        summary = next(part for part in first if part.startswith("- "))
        assert 1 <= summary.count("\n- ") + 1 <= page.LONGEST_SUMMARY, path.name

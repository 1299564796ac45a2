# SPDX-License-Identifier: GPL-3.0-or-later
"""Reproduce the experiments of the papers and write what came of them: scripts/papers.

Every number of the page is measured when it is written; whether a claim holds is decided by those numbers,
with the thresholds in `benchmarks/papers`. The exit code is 1 where what must be reproduced is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

from benchmarks import drawing
from benchmarks.page import arguments, filled, progress, publish, template
from benchmarks.papers import buss, chung_choi, ki_sheen, soch_lorencz
from benchmarks.papers.findings import Finding

PAGE: Final = Path("docs/measured/papers.md")


class Told(NamedTuple):
    """A finding, as the page tells it."""

    paper: str
    title: str
    checks: list[tuple[str, bool]]  # What was measured, and whether it is as claimed
    faults: list[str]  # Checks that fail, where that is ours
    text: str  # Its section

    @property
    def holding(self) -> int:
        """How many checks hold."""
        return sum(holds for _, holds in self.checks)

    @property
    def verdict(self) -> str:
        """Whether all of them do."""
        if self.holding == len(self.checks):
            return "yes"
        return f"in part: {self.holding} of {len(self.checks)}" if self.holding else "NO"


def told(paper: str, finding: Finding, text: str) -> Told:
    """A figure of a paper, of its claim, checks, reading, table and caption; see `pages/papers`."""
    claim, listed, reading, *others = text.strip().split("\n\n")
    words = [line.removeprefix("- ") for line in listed.splitlines()]
    checks = list(zip(words, map(bool, finding.holds), strict=True))
    agree, disagree = ("; ".join(what for what, holds in checks if holds is good) for good in (True, False))
    here = f"holds: {agree}."
    if disagree:
        here = f"holds in part: {agree}. **Not**: {disagree}." if agree else f"does **not** hold: {disagree}."
    parts = [f"### {finding.title}", f"*Claim.* {claim}", f"*Here* it {here}", f"*Reading.* {reading}"]
    if finding.picture is not None:
        caption = others.pop()
        others += [f"![{caption}](images/{finding.picture.name}.png)", f"*{caption}*"]
    progress(f"{paper}, {finding.title}: {here.replace('**', '')}")
    faults = [
        f"{finding.title}: {what}"
        for number, (what, holds) in enumerate(checks)
        if not holds and number not in finding.claims
    ]
    return Told(paper, finding.title, checks, faults, "\n\n".join([*parts, *others]))


def chapter(paper: ModuleType, findings: Iterable[Finding], page: Path | None) -> tuple[str, list[Told]]:
    """All of a paper as Markdown, with what was found; its pictures are drawn."""
    name = paper.__name__.rpartition(".")[2]
    head, *texts = template(f"papers/{name}").split("\n### ")
    known = dict(text.split("\n", maxsplit=1) for text in texts)
    short, every = head.removeprefix("## ").split(":")[0], []
    for finding in findings:
        text = filled(known[finding.title], {**vars(paper), **finding.facts})
        every.append(told(short, finding, text))
        draw(finding, page)
    return "\n\n".join([filled(head.strip(), vars(paper)), *(one.text for one in every)]), every


def draw(finding: Finding, page: Path | None) -> None:
    """Draw the picture of a finding beside the page."""
    shown = finding.picture
    if shown is None or page is None:
        return
    figure, panels = drawing.panels(shown.size, shown.rows, shown.columns)
    shown.draw(panels)
    for panel in panels:
        panel.grid(alpha=0.25)
        panel.title.set_fontsize(10)
        panel.tick_params(labelsize=8)
        if panel.get_legend_handles_labels()[0]:
            panel.legend(fontsize=8)
    drawing.save(figure, page.parent / "images" / f"{shown.name}.png", dpi=72)


def main() -> int:
    """Run all and write the page. Returns the exit code: 1 where what must be reproduced is not."""
    parser = arguments(
        "scripts/papers", __doc__, PAGE, data_buss=(Path, "Buss's trees, targets, totals (JSON)")
    )
    options = parser.parse_args()
    papers = [(paper, paper.findings()) for paper in (ki_sheen, chung_choi, soch_lorencz)]
    if options.data_buss is not None:
        papers.append((buss, buss.findings(options.data_buss)))
    chapters = [chapter(*paper, options.markdown) for paper in papers]
    findings = [finding for _, found in chapters for finding in found]
    faults = [fault for finding in findings for fault in finding.faults]
    publish(
        options,
        "papers",
        globals(),
        findings=findings,
        whole=sum(one.verdict == "yes" for one in findings),
        partly="; ".join(one.title for one in findings if one.verdict != "yes") or "none",
        holding=sum(one.holding for one in findings),
        checks=sum(len(one.checks) for one in findings),
        faults=len(faults) or "none",
        chapters=[text for text, _ in chapters],
        without=[()] * (options.data_buss is None),
    )
    for fault in faults:
        progress(f"FAILED: {fault}")
    return 1 if faults else 0

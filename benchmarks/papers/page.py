# SPDX-License-Identifier: GPL-3.0-or-later
"""Reproduce the experiments of the papers and write what came of them: scripts/papers.

    scripts/papers [--data-buss FILE] [--markdown FILE]

Every number of the page is measured when it is written; whether a claim holds is decided by those numbers,
with the thresholds in `benchmarks/papers`. The exit code is 1 where what must be reproduced is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Final

from benchmarks import drawing
from benchmarks.page import TEMPLATES, arguments, picture, progress, publish, table
from benchmarks.papers import buss, chung_choi, ki_sheen, soch_lorencz
from benchmarks.papers.findings import Finding

PAGE: Final = Path("docs/measured/papers.md")

LEFT_OUT: Final = (
    "## Buss: Y and double Y\n\n"
    "Left out: the trees, the targets and the totals to compare with are in a file that was not given. "
    "`scripts/papers --data-buss FILE` runs this part."
)


def section(finding: Finding, text: str) -> str:
    """A figure of a paper as Markdown, of its title, claim, reading and caption."""
    title, claim, reading, *caption = text.strip().split("\n\n")
    parts = [f"### {title}", f"*Claim.* {claim}", f"*Here* it {finding.verdict}", f"*Reading.* {reading}"]
    if finding.table:
        parts.append(table(finding.table))
    if finding.picture is not None:
        parts += [f"![{caption[0]}](images/{finding.picture.name}.png)", f"*{caption[0]}*"]
    return "\n\n".join(parts)


def chapter(paper: ModuleType, findings: Iterable[Finding], page: Path | None) -> tuple[str, list[Finding]]:
    """All of a paper as Markdown, with what was found; its pictures are drawn."""
    name = paper.__name__.rpartition(".")[2]
    head, *texts = (TEMPLATES / "papers" / f"{name}.md").read_text(encoding="utf-8").split("\n### ")
    parts, found = [head.strip().format_map(vars(paper))], []
    for finding in findings:
        text = next(text for text in texts if text.startswith(f"{finding.title}\n"))
        parts.append(section(finding, text.format_map({**vars(paper), **finding.facts})))
        found.append(finding)
        progress(f"{head.splitlines()[0]}, {finding.title}: {finding.verdict.replace('**', '')}")
        draw(finding, page)
    return "\n\n".join(parts), found


def draw(finding: Finding, page: Path | None) -> None:
    """Draw the picture of a finding beside the page."""
    shown = finding.picture
    image = None if shown is None else picture(page, shown.name)
    if shown is None or image is None:
        return
    figure, panels = drawing.panels(shown.size, shown.rows, shown.columns)
    shown.draw(panels)
    for panel in panels:
        panel.grid(alpha=0.25)
        panel.title.set_fontsize(10)
        panel.tick_params(labelsize=8)
        if panel.get_legend_handles_labels()[0]:
            panel.legend(fontsize=8)
    drawing.save(figure, image, dpi=72)


def main() -> int:
    """Run all and write the page. Returns the exit code: 1 where what must be reproduced is not."""
    parser = arguments("scripts/papers", __doc__, page=PAGE)
    parser.add_argument("--data-buss", type=Path, metavar="FILE", help="Buss's trees, targets, totals (JSON)")
    options = parser.parse_args()
    chapters = [
        chapter(paper, paper.findings(), options.markdown) for paper in (ki_sheen, chung_choi, soch_lorencz)
    ]
    if options.data_buss is None:
        chapters.append((LEFT_OUT, []))
    else:
        chapters.append(chapter(buss, buss.findings(options.data_buss), options.markdown))
    verdicts = [("paper", "figure", "holds here")]
    for text, findings in chapters:
        for finding in findings:
            agree, count = sum(check.holds for check in finding.checks), len(finding.checks)
            word = "yes" if agree == count else f"in part: {agree} of {count}" if agree else "NO"
            verdicts.append((text.removeprefix("## ").split(":")[0], finding.title, word))
    findings = [finding for _, found in chapters for finding in found]
    checks = [check for finding in findings for check in finding.checks]
    partly = [finding.title for finding in findings if not all(check.holds for check in finding.checks)]
    faults = [f"{finding.title}: {fault}" for finding in findings for fault in finding.faults]
    summary = [
        f"{len(findings) - len(partly)} of {len(findings)} figures and tables of the papers hold as claimed, "
        f"by {sum(check.holds for check in checks)} of {len(checks)} checks.",
        f"Not, or in part: {'; '.join(partly) or 'none'}.",
        f"Faults of ours: {len(faults) or 'none'}; other checks that fail are claims that do not hold as "
        "printed.",
    ]
    text = "\n\n".join(text for text, _ in chapters)
    publish(options.markdown, "papers", "scripts/papers", summary, table=table(verdicts), chapters=text)
    for fault in faults:
        progress(f"FAILED: {fault}")
    return 1 if faults else 0

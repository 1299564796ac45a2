# SPDX-License-Identifier: GPL-3.0-or-later
"""Reproduce the experiments of the papers with the core's own kinematics and step rules: scripts/papers.

    scripts/papers [--data-buss FILE] [--markdown FILE]

Every number of the page is measured when it is written; whether a claim holds is decided by those numbers,
with the thresholds in `benchmarks/papers`. The exit code is 1 where what must be reproduced is not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks import drawing
from benchmarks.page import arguments, picture, progress, publish, table
from benchmarks.papers import buss, chung_choi, ki_sheen, soch_lorencz
from benchmarks.papers.findings import Chapter, Finding

PAGE: Final = Path("docs/measured/papers.md")
RESOLUTION: Final = 72
"""Of the pictures [dots per inch]."""

LEFT_OUT: Final = (
    "Left out: the trees, the targets and the totals to compare with are in a file that was not given. "
    "`scripts/papers --data-buss FILE` runs this part."
)


def chapters(data_buss: Path | None) -> Iterator[Chapter]:
    """All of them, in the order of the page.

    Raises:
        ValueError: The file is none of Buss's trees.
    """
    yield ki_sheen.chapter()
    yield chung_choi.chapter()
    yield soch_lorencz.chapter()
    yield Chapter("Buss: Y and double Y", LEFT_OUT, ()) if data_buss is None else buss.chapter(data_buss)


def section(finding: Finding) -> str:
    """A figure of a paper as Markdown."""
    parts = [f"### {finding.title}", f"*Claim.* {finding.claim}", f"*Here* it {finding.verdict}"]
    if finding.reading:
        parts.append(f"*Reading.* {finding.reading}")
    if finding.table:
        parts.append(table(finding.table))
    if finding.picture is not None:
        parts.append(f"![{finding.picture.caption}](images/{finding.picture.name}.png)")
        parts.append(f"*{finding.picture.caption}*")
    return "\n\n".join(parts)


def verdicts(found: Sequence[Chapter]) -> str:
    """One line for each figure."""
    lines = [("paper", "figure", "holds here")]
    for chapter in found:
        name = chapter.title.split(":")[0]
        for finding in chapter.findings:
            agree = sum(check.holds for check in finding.checks)
            word = "yes" if finding.holds else f"in part: {agree} of {len(finding.checks)}" if agree else "NO"
            lines.append((name, finding.title, word))
        if not chapter.findings:
            lines.append((name, "left out", "–"))
    return table(lines)


def summary(findings: Sequence[Finding]) -> list[str]:
    """How many hold, and which do not."""
    checks = [check for finding in findings for check in finding.checks]
    partly = [finding.title for finding in findings if not finding.holds]
    return [
        f"{len(findings) - len(partly)} of {len(findings)} figures and tables of the papers hold as claimed, "
        f"by {sum(check.holds for check in checks)} of {len(checks)} checks.",
        f"Not, or in part: {'; '.join(partly) or 'none'}.",
        f"Faults of ours: {sum(len(finding.faults) for finding in findings) or 'none'}; other checks that "
        "fail are claims that do not hold as printed.",
    ]


def main() -> int:
    """Run all and write the page. Returns the exit code: 1 where what must be reproduced is not."""
    parser = arguments("scripts/papers", __doc__, page=PAGE)
    parser.add_argument("--data-buss", type=Path, metavar="FILE", help="Buss's trees, targets, totals (JSON)")
    options = parser.parse_args()
    found: list[Chapter] = []
    for chapter in chapters(options.data_buss):
        found.append(chapter)
        for finding in chapter.findings:
            progress(f"{chapter.title}, {finding.title}: {finding.verdict.replace('**', '')}")
            if finding.picture is not None:
                figure, panels = drawing.panels(finding.picture.size, *finding.picture.panels)
                finding.picture.draw(panels)
                image = picture(options.markdown, finding.picture.name)
                if image is not None:
                    drawing.save(figure, image, dpi=RESOLUTION)
    findings = [finding for chapter in found for finding in chapter.findings]
    texts = [
        "\n\n".join([f"## {chapter.title}", chapter.about, *map(section, chapter.findings)])
        for chapter in found
    ]
    publish(
        options.markdown,
        "papers",
        "scripts/papers",
        summary(findings),
        table=verdicts(found),
        chapters="\n\n".join(texts),
    )
    faults = [f"{finding.title}: {fault}" for finding in findings for fault in finding.faults]
    for fault in faults:
        progress(f"FAILED: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

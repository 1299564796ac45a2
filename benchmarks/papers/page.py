# SPDX-License-Identifier: GPL-3.0-or-later
"""Reproduce the experiments of the papers and write what came of them: scripts/papers.

    scripts/papers [--data-buss FILE] [--markdown FILE]

Every number of the page is measured when it is written; whether a claim holds is decided by those numbers,
with the thresholds in `benchmarks/papers`. The exit code is 1 where what must be reproduced is not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks import drawing
from benchmarks.page import arguments, picture, progress, publish, table
from benchmarks.papers import buss, chung_choi, ki_sheen, soch_lorencz
from benchmarks.papers.findings import Chapter, Finding

PAGE: Final = Path("docs/measured/papers.md")

LEFT_OUT: Final = (
    "Left out: the trees, the targets and the totals to compare with are in a file that was not given. "
    "`scripts/papers --data-buss FILE` runs this part."
)


def chapters(data_buss: Path | None) -> Iterator[Chapter]:
    """All of them, in the order of the page."""
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
        caption = finding.picture.caption
        parts += [f"![{caption}](images/{finding.picture.name}.png)", f"*{caption}*"]
    return "\n\n".join(parts)


def main() -> int:
    """Run all and write the page. Returns the exit code: 1 where what must be reproduced is not."""
    parser = arguments("scripts/papers", __doc__, page=PAGE)
    parser.add_argument("--data-buss", type=Path, metavar="FILE", help="Buss's trees, targets, totals (JSON)")
    options = parser.parse_args()
    verdicts, texts = [("paper", "figure", "holds here")], []
    findings: list[Finding] = []
    for chapter in chapters(options.data_buss):
        findings += chapter.findings
        texts.append("\n\n".join([f"## {chapter.title}", chapter.about, *map(section, chapter.findings)]))
        for finding in chapter.findings:
            progress(f"{chapter.title}, {finding.title}: {finding.verdict.replace('**', '')}")
            agree, count = sum(check.holds for check in finding.checks), len(finding.checks)
            word = "yes" if agree == count else f"in part: {agree} of {count}" if agree else "NO"
            verdicts.append((chapter.title.split(":")[0], finding.title, word))
            if finding.picture is not None:
                shown = finding.picture
                figure, panels = drawing.panels(shown.size, shown.rows, shown.columns)
                shown.draw(panels)
                for panel in panels:
                    panel.grid(alpha=0.25)
                    panel.title.set_fontsize(10)
                    panel.tick_params(labelsize=8)
                    if panel.get_legend_handles_labels()[0]:
                        panel.legend(fontsize=8)
                image = picture(options.markdown, shown.name)
                if image is not None:
                    drawing.save(figure, image, dpi=72)
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
    all_chapters = "\n\n".join(texts)
    publish(
        options.markdown, "papers", "scripts/papers", summary, table=table(verdicts), chapters=all_chapters
    )
    for fault in faults:
        progress(f"FAILED: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: GPL-3.0-or-later
"""Reproduce the experiments of the papers with the core's own kinematics and step rules: scripts/papers.

    scripts/papers [--data-buss FILE] [--markdown FILE] [--json FILE]

Every number of the page is measured when it is written; whether a claim holds is decided by those numbers,
with the thresholds in `benchmarks/papers`. The exit code is 1 where what must be reproduced is not.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy reads it
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from benchmarks.papers import buss, chung_choi, ki_sheen, soch_lorencz
from benchmarks.papers.findings import Chapter, Finding, Picture
from benchmarks.tables import markdown_table

PAGE: Final = Path("docs/measured/papers.md")
"""From the root of the project."""
RESOLUTION: Final = 72
"""Of the pictures [dots per inch]."""
PALETTE: Final = 160
"""Their colours."""

INTRODUCTION: Final = """# The papers, reproduced

Made by `{command}`.

The experiments of the papers that Poise is built on, run with the core's own forward kinematics, Jacobians,
second derivatives and step rules: planar trees are skeletons whose joints have one free axis
(`benchmarks/papers/linkages.py`). To each figure there is one line on what its paper claims and one on
whether that holds here. The numbers are measured when the page is written and decide the verdict; nothing is
typed in but what is printed in the papers. Where a paper leaves something open, or is wrong, the reading that
was taken is said.
"""

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


def draw(picture: Picture, folder: Path) -> None:
    """Write one picture as a small PNG."""
    figure_module = importlib.import_module("matplotlib.figure")  # only who draws needs it
    figure = figure_module.Figure(figsize=picture.size, layout="constrained")
    panels = figure.subplots(*picture.panels, squeeze=False).ravel()
    picture.draw(list(panels))
    whole = io.BytesIO()
    figure.savefig(whole, dpi=RESOLUTION)
    # Lines need few colours, and a picture with a palette has a third of the size.
    image_module = importlib.import_module("PIL.Image")
    few = image_module.open(whole).convert("RGB").quantize(PALETTE, dither=image_module.Dither.NONE)
    few.save(folder / f"{picture.name}.png", optimize=True)


def section(finding: Finding, folder: str) -> str:
    """A figure of a paper as Markdown."""
    parts = [f"### {finding.title}", f"*Claim.* {finding.claim}", f"*Here* it {finding.verdict}"]
    if finding.reading:
        parts.append(f"*Reading.* {finding.reading}")
    if finding.table:
        parts.append(markdown_table(finding.table))
    if finding.picture is not None:
        parts.append(f"![{finding.picture.caption}]({folder}/{finding.picture.name}.png)")
        parts.append(f"*{finding.picture.caption}*")
    return "\n\n".join(parts)


def summary(found: Sequence[Chapter]) -> str:
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
    return markdown_table(lines)


def page(found: Sequence[Chapter], command: str, folder: str) -> str:
    """The page for the manual."""
    parts = [INTRODUCTION.format(command=command).strip(), summary(found)]
    for chapter in found:
        parts += [f"## {chapter.title}", chapter.about]
        parts += [section(finding, folder) for finding in chapter.findings]
    facts = f"numpy {np.__version__}, Python {platform.python_version()}, {platform.machine()}"
    return "\n\n".join([*parts, f"Run with {facts}."]) + "\n"


def main() -> int:
    """Run all and write the page. Returns the exit code: 1 where what must be reproduced is not."""
    parser = argparse.ArgumentParser(prog="scripts/papers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--data-buss", type=Path, metavar="FILE", help="Buss's trees, targets and totals (JSON)"
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", default=PAGE, help=f"the page (default: {PAGE})"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write claims and verdicts as JSON")
    options = parser.parse_args()
    start = time.perf_counter()
    target: Path = options.markdown
    pictures = target.parent / target.stem
    pictures.mkdir(parents=True, exist_ok=True)
    found: list[Chapter] = []
    try:
        data = options.data_buss
        for chapter in chapters(data):
            found.append(chapter)
            print(f"{chapter.title} ({time.perf_counter() - start:.0f} s)")
            for finding in chapter.findings:
                print(f"  {finding.title}: {finding.verdict.replace('**', '')}", flush=True)
                if finding.picture is not None:
                    draw(finding.picture, pictures)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    command = "scripts/papers" + (" --data-buss FILE" if options.data_buss is not None else "")
    if options.markdown != PAGE:
        command += f" --markdown {options.markdown.as_posix()}"
    target.write_text(page(found, command, pictures.name), encoding="utf-8")
    findings = [(chapter.title, finding) for chapter in found for finding in chapter.findings]
    if options.json is not None:
        content = [
            {
                "paper": title,
                "figure": finding.title,
                "claim": finding.claim,
                "holds": finding.holds,
                "checks": [asdict(check) for check in finding.checks],
            }
            for title, finding in findings
        ]
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    held = sum(finding.holds for _, finding in findings)
    print(
        f"{held} of {len(findings)} hold; {time.perf_counter() - start:.0f} s in all, see {options.markdown}"
    )
    faults = [f"{finding.title}: {fault}" for _, finding in findings for fault in finding.faults]
    for fault in faults:
        print(f"FAILED: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

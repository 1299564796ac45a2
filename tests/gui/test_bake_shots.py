# SPDX-License-Identifier: GPL-3.0-or-later
"""The tutorial *Bake shots without a window*: the commands that stand on the page, with Blender itself."""

import json
import os
import re
import shlex
import shutil
import subprocess
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

from .figure import ROOT, extension
from .test_tutorials import SAMPLES

PAGE = ROOT / "docs" / "bake-shots.md"

MODULE, BLENDER = "python -m blender_ik_addon", "blender -b --command poise"
"""How the page calls Poise, and what it says to write with Blender itself."""

HALF_MILLIMETRE_AND_MORE = 6e-4
"""By how much the page says that the hips miss [m]."""


def commands() -> list[str]:
    """What the page has in its blocks of code, one command a line."""
    blocks = re.findall(r"^```\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.replace(MODULE, BLENDER) for line in lines]


class BakeShots(unittest.TestCase):
    """In a folder of its own, with the extension installed."""

    def setUp(self) -> None:
        folder = TemporaryDirectory(prefix="poise-bake-shots-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {**os.environ, "BLENDER_USER_RESOURCES": str(self.folder / "user")}
        (self.folder / "user").mkdir()
        shutil.copytree(SAMPLES, self.folder / "samples")
        self.run_line(
            "blender -b --command extension install-file -r user_default --enable "
            + shlex.quote(str(extension()))
        )

    def run_line(self, line: str) -> str:
        """Run a line in a shell; what it prints."""
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def contents(self, name: str) -> dict[str, bytes]:
        """Files of a folder."""
        return {path.name: path.read_bytes() for path in (self.folder / name).iterdir()}

    def test_the_commands_of_the_page_bake_two_shots_and_measure_them(self) -> None:
        *prepare, targets, bake, report = commands()
        for line in prepare:
            self.run_line(line)
        clips = self.contents("clips")
        self.assertEqual(sorted(clips), ["first.blend", "second.blend"])
        # 2. Targets
        self.assertIn("2 of 2 shots: 2 reached", self.run_line(targets))
        self.assertEqual(self.contents("clips"), clips)
        # 3. Lock feet, bake, measure; this Blender need not have matplotlib
        bake = re.sub(r"--plot \S+", "", bake)
        told = self.run_line(bake)
        self.assertIn("2 of 2 shots: 2 reached", told)
        self.assertIn("locked, they slid by up to", told)
        baked = self.contents("baked")
        self.assertIn("2 finished before", self.run_line(bake))
        self.assertEqual(self.contents("baked"), baked)
        # 4. Read the reports
        for name in ("first", "second"):
            read = json.loads(baked[f"{name}.json"])
            self.assertTrue(read["reached"])
            self.assertEqual((read["frames_to_look_at"], read["branches"]), ([], []))
            worst = {one["name"]: one["position_worst"] for one in read["effectors"]}
            self.assertLess(worst.pop("hips"), HALF_MILLIMETRE_AND_MORE)
            self.assertLess(max(worst[name] for name in ("foot.L", "foot.R", "hand.L", "hand.R")), 1e-5)
        self.assertIn("All 6 targets are reached; measured 250 frames", self.run_line(report))


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line in Blender itself, with the installed extension: several shots, each in a process."""

import json
import os
import subprocess
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

from .figure import MODULE, extension

SHOTS = f"""
import sys
import bpy
from {MODULE}.scene import posing

folder = sys.argv[-1]
bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
bpy.ops.object.armature_add()
figure = bpy.context.object
posing.add_effector(figure, "Bone")
bpy.context.scene.frame_start, bpy.context.scene.frame_end = 1, 5
target = figure.poise.effectors[0].target
target.keyframe_insert("location", frame=1)
for name in "abc":
    target.location.x += 0.3
    target.keyframe_insert("location", frame=5)
    bpy.ops.wm.save_as_mainfile(filepath=f"{{folder}}/{{name}}.blend")
"""


class CommandLineTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = TemporaryDirectory(prefix="poise-command-line-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {**os.environ, "BLENDER_USER_RESOURCES": str(self.folder / "user")}
        for name in ("user", "shots", "out"):
            (self.folder / name).mkdir()
        install = ("extension", "install-file", "-r", "user_default", "--enable", str(extension()))
        done = self.blender("--command", *install)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def blender(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = ["blender", "--background", *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)

    def test_shots_are_baked_two_at_a_time_and_only_once(self) -> None:
        script, shots, out = self.folder / "shots.py", self.folder / "shots", self.folder / "out"
        script.write_text(SHOTS, encoding="utf-8")
        made = self.blender("--python-exit-code", "1", "--python", str(script), "--", str(shots))
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        bake = ["--command", "poise", "bake", str(shots / "*.blend"), "--jobs", "2"]
        bake += ["--output", str(out / "{name}.blend"), "--report", str(out / "{name}.json")]
        first = self.blender(*bake)
        self.assertEqual(first.returncode, 0, first.stdout + first.stderr)
        self.assertIn("3 of 3 shots: 3 reached", first.stdout)
        for name in "abc":
            self.assertGreater((out / f"{name}.blend").stat().st_size, 1000)
            report = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
            self.assertTrue(report["reached"])
            self.assertEqual(report["frames"], [1, 2, 3, 4, 5])
        written = {path: path.stat().st_mtime_ns for path in out.iterdir()}
        second = self.blender(*bake)
        self.assertEqual(second.returncode, 0, second.stdout + second.stderr)
        self.assertIn("3 finished before", second.stdout)
        self.assertEqual({path: path.stat().st_mtime_ns for path in out.iterdir()}, written)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: GPL-3.0-or-later
"""Bakes as users ask for them, and one that is cancelled."""

from typing import Any, Final

import bpy
import pytest

from blender_ik_addon import cli
from blender_ik_addon.cli.exit_codes import Exit
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.posing import BakeReport

WAYS: Final = ("settings", "script", "operator", "command line")
FLAGS: Final = {"fewest": "fewest-keys"}
"""Option -> what it is called on the command line, where that is not its own name."""


def bake_by(way: str, armature: Any, frames: range | None = None, **options: Any) -> BakeReport | None:
    """Bake all frames of the scene or those given, with options asked for in a way; a script has a report."""
    if way == "settings":
        for name, value in options.items():
            setattr(armature.poise, f"bake_{name}", value)
        return posing.bake(armature, frames)
    if way == "script":
        return posing.bake(armature, frames or options.pop("range", 'SCENE'), **options)
    if way == "operator":
        ends = {"start": frames[0], "end": frames[-1]} if frames else {}
        own = {"new_name" if name == "name" else name: value for name, value in options.items()}
        assert bpy.ops.poise.bake(**ends, **own) == {'FINISHED'}
        return None
    words = ["--start", str(frames[0]), "--end", str(frames[-1])] if frames else []
    for name, value in options.items():
        words.append(f"--{FLAGS.get(name, name).replace('_', '-')}")
        if name == "deviation":
            words.append(str(1e3 * value))  # [mm]
        elif value is not True:
            words.append(str(value).lower() if isinstance(value, str) and value.isupper() else str(value))
    assert cli.run(["bake", *words, "--quiet", "--allow-misses"]) == Exit.REACHED
    for name, value in options.items():
        assert getattr(armature.poise, f"bake_{name}") == pytest.approx(value)
    return None


def cancel_at(job: Any, part: float) -> None:
    """Cancel a job in its midst, as soon as a part of it is done."""
    while job.progress < part and job.step():
        pass
    assert part <= job.progress < 1.0
    job.cancel()

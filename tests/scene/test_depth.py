# SPDX-License-Identifier: GPL-3.0-or-later
"""How deep a solve goes: whoever follows it in the code or in a profile has so many calls to keep in mind."""

import sys
from pathlib import Path
from types import FrameType

import bpy
from mathutils import Vector

import blender_ik_addon
from blender_ik_addon.scene import posing

from .builders import basic_human_metarig

PACKAGE = Path(blender_ik_addon.__file__).parent
SOLVER = str(PACKAGE / "core" / "solve" / "solver.py")


def test_a_solve_of_a_pose_that_reaches_is_shallow():
    rig = basic_human_metarig()
    posing.setup_character(rig)
    posing.solve_pose(rig)
    hand = rig.poise.effectors["hand.L"].target
    hand.location = Vector(hand.location) + Vector((0.0, -0.1, -0.15))
    bpy.context.view_layer.update()
    stack: list[str] = []
    deepest = below = 0

    def trace(frame: FrameType, event: str, _: object) -> None:
        nonlocal deepest, below
        code = frame.f_code
        # Until Python 3.12 a comprehension is a frame of its own.
        if not code.co_filename.startswith(str(PACKAGE)) or code.co_name.startswith("<"):
            return
        if event == "call":
            stack.append(code.co_name if code.co_filename == SOLVER else "")
            deepest = max(deepest, len(stack))
            if "solve" in stack:
                below = max(below, len(stack) - 1 - stack.index("solve"))
        elif event == "return":
            stack.pop()

    sys.setprofile(trace)
    try:
        report = posing.solve_pose(rig)
    finally:
        sys.setprofile(None)
    assert report.reached
    assert 0 < below <= 8
    assert deepest <= 13

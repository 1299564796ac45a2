# SPDX-License-Identifier: GPL-3.0-or-later
"""Exceptions that nobody foresaw, at every call in a bake: everything is as before, and a bake works after.

With POISE_CASES=2 they are raised in every call that a line does, and not in its first and its last alone.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import bpy
import pytest

from blender_ik_addon.scene import posing
from tests.conftest import MORE

from . import builders
from .records import Fault, Site, calls_run, changes, file_record, pose_mode


def shot() -> Any:
    """A keyed rig in Pose Mode, and an animated object; all have been moved without keys."""
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end = 1, 3
    armature: Any = builders.chain(3)
    for bone, kind in (("bone.002", 'POSITION'), ("bone.001", 'STAY')):
        posing.add_effector(armature, bone, kind=kind)
    target = armature.poise.effectors[0].target
    prop = builders.empty("prop")
    for obj in (target, prop):
        for frame, x in ((1, 0.1), (3, 0.6)):
            obj.location.x = x
            obj.keyframe_insert("location", frame=frame)
        obj.location.x = 7.0
    armature.pose.bones["bone.001"].location.x = 0.1
    armature.pose.bones["bone.000"].keyframe_insert("rotation_quaternion", frame=2)
    armature.pose.bones["bone.000"].rotation_quaternion = (0.9, 0.1, 0.0, 0.3)
    pose_mode(armature, "bone.001")
    bpy.context.view_layer.update()
    return armature


BAKES: dict[str, Callable[[Any], object]] = {
    "into the action": lambda armature: posing.bake(armature, (1, 2, 3), replace=True),
    "into a new action": lambda armature: posing.bake(armature, (1, 2, 3), to='NEW', replace=True),
    "into a strip": lambda armature: posing.bake(armature, (1, 2, 3), to='STRIP', replace=True),
    "at keys": lambda armature: posing.bake(armature, (1, 2, 3), at_keys=True, replace=True),
    "with fewest keys": lambda armature: posing.bake(armature, (1, 2, 3), fewest=True, replace=True),
}


tried: set[Site] = set()
"""Where faults were raised in the bakes before."""


@pytest.mark.parametrize("case", BAKES)
def test_a_fault_at_any_call_leaves_everything_as_it_was_and_the_next_bake_works(case: str):
    bake = BAKES[case]
    sites = calls_run(lambda: bake(shot()))
    assert len(sites) > 100
    new = {site: count for site, count in sites.items() if site not in tried}
    tried.update(new)
    if MORE <= 1.0 and bpy.app.version < (5, 2, 0):  # what differs there is little
        new = {site: new[site] for site in list(new)[::8]}
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    armature = shot()
    before = file_record()
    for site, count in new.items():
        for number in sorted({1, count}) if MORE <= 1.0 else range(1, count + 1):
            try:
                calls_run(partial(bake, armature), stop_at=(site, number))
            except Fault:
                bpy.context.view_layer.update()
                found = changes(before, file_record())
                assert not found, f"a fault in call {number} of {site} has changed {found}"
            else:  # how often something is called may hang on what was called before: this was a bake
                bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
                armature = shot()
                before = file_record()
    report: Any = bake(armature)
    assert report.frames == (1, 2, 3)

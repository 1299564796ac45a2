# SPDX-License-Identifier: GPL-3.0-or-later
"""Bakes that end early, by an exception at any call or cancelled: all is as before, and a bake works after.

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
from .bakes import cancel_at
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


# Cancelled


FRAMES = range(1, 13)


def copying(armature: Any) -> None:
    """A bone that turns with another, so that a bake takes several passes."""
    constraint = armature.pose.bones["bone.001"].constraints.new('COPY_ROTATION')
    constraint.target, constraint.subtarget, constraint.influence = armature, "bone.000", 0.5
    armature.pose.bones["bone.001"].constraints.new('LIMIT_LOCATION').mute = True
    bpy.context.view_layer.update()


def baked_to(to: Any) -> Callable[[Any], object]:
    """Another bake to the same place before."""
    return lambda armature: (
        posing.bake(armature, range(4, 7), replace=True, to=to, name="Fix"),
        bpy.context.scene.frame_set(1),
    )


def baked_below_an_action(armature: Any) -> None:
    """A bake into a strip before, and an action since, which plays above it."""
    baked_to('STRIP')(armature)
    armature.pose.bones["bone.001"].keyframe_insert("rotation_quaternion", frame=5)
    bpy.context.scene.frame_set(1)


CANCELLED: dict[str, tuple[Callable[[Any], object], dict[str, Any]]] = {
    "at a step": (copying, {"step": 4}),
    "at a step and at keys": (copying, {"step": 4, "at_keys": True}),
    "with fewest keys": (copying, {"fewest": True}),
    "that clears constraints": (copying, {"clear_constraints": True}),
    **{
        f"{when} to {to}": (before, {"to": to, "name": "Fix"})
        for to in ('NEW', 'STRIP')
        for when, before in (("first", id), ("again", baked_to(to)))
    },
    "again below an action": (baked_below_an_action, {"to": 'STRIP', "name": "Fix"}),
}
"""What is there before, and options."""


@pytest.mark.parametrize("case", CANCELLED)
@pytest.mark.parametrize("part", [0.2, 0.55, 0.75, 0.9])
@pytest.mark.parametrize("together", [False, True])
def test_a_bake_that_is_cancelled_leaves_everything_as_it_was(case: str, part: float, together: bool):
    prepare, options = CANCELLED[case]
    armature = shot()
    prepare(armature)
    before = file_record()
    options = {"frames": FRAMES, "replace": True, **options}
    job = posing.BakeJobs([armature], **options) if together else posing.BakeJob(armature, **options)
    cancel_at(job, part)
    bpy.context.view_layer.update()
    assert not changes(before, file_record())

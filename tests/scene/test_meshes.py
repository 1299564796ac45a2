# SPDX-License-Identifier: GPL-3.0-or-later
"""Meshes that follow bones are left out of the evaluation while frames are played, and are there after it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.scene import posing
from blender_ik_addon.scene.bake.job import BakeJob
from blender_ik_addon.scene.bake.together import BakeJobs

from . import builders

PLACES = {1: (0.4, 0.2, 0.5), 6: (0.3, -0.4, 0.6), 12: (0.5, 0.1, 0.3)}


@pytest.fixture
def arm() -> Any:
    """Four bones whose tip follows an empty; the scene is frames 1 to 12."""
    return builders.following_arm(PLACES, 12)


def skin(armature_object: Any, name: str = "skin") -> Any:
    """A triangle that goes with the last bone of an armature."""
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata([(0.0, 0.0, 0.0), (0.3, 0.0, 0.0), (0.0, 0.3, 0.0)], [], [(0, 1, 2)])
    obj: Any = bpy.data.objects.new(name, mesh)
    bpy.context.scene.collection.objects.link(obj)
    bone = armature_object.data.bones[-1].name
    obj.vertex_groups.new(name=bone).add([0, 1, 2], 1.0, 'REPLACE')
    obj.modifiers.new("Armature", 'ARMATURE').object = armature_object
    obj.select_set(True)
    bpy.context.view_layer.update()
    return obj


@contextmanager
def evaluations(obj: Any) -> Iterator[list[int]]:
    """Frames that are played in which the shape of an object is evaluated."""
    frames: list[int] = []

    def note(scene: Any, depsgraph: Any) -> None:
        if any(update.is_updated_geometry and update.id.original == obj for update in depsgraph.updates):
            frames.append(scene.frame_current)

    handlers: list[Any] = bpy.app.handlers.frame_change_post
    handlers.append(note)
    try:
        yield frames
    finally:
        handlers.remove(note)


def cancelled(arm: Any) -> None:
    job = BakeJob(arm)
    for _ in range(15):
        job.step()
    job.cancel()


WAYS: dict[str, Callable[[Any], object]] = {
    "bake": posing.bake,
    "cancelled bake": cancelled,
    "measuring": lambda arm: posing.measure(arm, range(1, 13)),
}


@pytest.mark.parametrize("way", WAYS)
def test_skins_are_not_evaluated_and_are_as_before_in_the_end(arm: Any, way: str):
    posing.bake(arm)  # from now on each frame moves the skin
    obj, other = skin(arm), skin(arm, "other")
    other.select_set(False)
    bpy.context.view_layer.objects.active = arm
    with evaluations(obj) as frames:
        WAYS[way](arm)
    assert len(frames) <= 1, "but for the frame that is gone back to"
    assert not obj.hide_viewport
    assert (obj.select_get(), other.select_get()) == (True, False)
    assert bpy.context.view_layer.objects.active == arm
    with evaluations(obj) as frames:
        bpy.context.scene.frame_set(3)
    assert frames == [3]


def test_a_bake_tells_of_skins_that_are_hidden_meanwhile(arm: Any):
    def told(job: BakeJob | BakeJobs) -> str:
        job.step()
        remark = job.remark
        job.cancel()
        return remark

    assert told(BakeJob(arm)) == ""
    obj = skin(arm)
    bpy.context.view_layer.objects.active = arm
    assert told(BakeJob(arm)) == told(BakeJobs([arm])) == "Meshes that follow bones are hidden meanwhile"
    assert not obj.hide_viewport
    assert told(BakeJob(arm, range(1, 4))) == ""


def test_a_target_on_a_skin_is_where_the_skin_takes_it(arm: Any):
    [entry] = arm.poise.effectors
    carrier = builders.chain(2, 0.3, name="carrier")
    carrier.location = (0.2, 0.0, 0.2)
    for frame, angle in ((1, -0.6), (12, 0.7)):
        carrier.pose.bones[-1].rotation_mode = 'XYZ'
        carrier.pose.bones[-1].rotation_euler = (angle, 0.0, 0.5 * angle)
        carrier.pose.bones[-1].keyframe_insert("rotation_euler", frame=frame)
    obj = skin(carrier)
    obj.matrix_world = carrier.matrix_world
    target: Any = entry.target
    target.animation_data_clear()
    constraint = target.constraints.new('COPY_LOCATION')
    constraint.target, constraint.subtarget = obj, carrier.data.bones[-1].name
    bpy.context.view_layer.objects.active = arm
    bpy.context.view_layer.update()
    report = posing.bake(arm)
    places: list[Any] = []
    for row, frame in enumerate(report.frames):
        bpy.context.scene.frame_set(int(frame))
        depsgraph = bpy.context.evaluated_depsgraph_get()
        place = np.array(target.evaluated_get(depsgraph).matrix_world)[:3, 3]
        tip = np.array(arm.matrix_world @ arm.evaluated_get(depsgraph).pose.bones[entry.bone].head)
        places.append(place)
        assert np.linalg.norm(tip - place) == pytest.approx(report.position_errors[row, 0], abs=1e-5)
    assert np.ptp(places, axis=0).max() > 0.02
    assert report.position_errors.max() < 1e-3


def test_a_skin_that_is_a_target_is_followed(arm: Any):
    [entry] = arm.poise.effectors
    obj = skin(builders.chain(2, 0.3, name="carrier"))
    for frame, place in PLACES.items():
        obj.location = place
        obj.keyframe_insert("location", frame=frame)
    entry.target = obj
    bpy.context.view_layer.objects.active = arm
    bpy.context.view_layer.update()
    report = posing.bake(arm)
    bpy.context.scene.frame_set(12)
    tip = np.array(arm.matrix_world @ arm.pose.bones[entry.bone].head)
    assert np.linalg.norm(tip - PLACES[12]) == pytest.approx(report.position_errors[-1, 0], abs=1e-5)
    assert report.position_errors.max() < 1e-3


@pytest.mark.parametrize(
    "keep",
    [
        lambda obj: obj.modifiers.new("Cloth", 'CLOTH'),
        lambda obj: setattr(bpy.context.view_layer.objects, "active", obj),
    ],
    ids=["simulated", "active"],
)
def test_what_is_not_to_be_hidden_is_evaluated(arm: Any, keep: Callable[[Any], object]):
    posing.bake(arm)
    obj = skin(arm)
    bpy.context.view_layer.objects.active = arm
    keep(obj)
    with evaluations(obj) as frames:
        posing.bake(arm)
    assert len(frames) > 10


def test_few_frames_are_played_with_all(arm: Any):
    posing.bake(arm)
    obj = skin(arm)
    with evaluations(obj) as frames:
        posing.bake(arm, range(2, 5))
    assert len(frames) > 4

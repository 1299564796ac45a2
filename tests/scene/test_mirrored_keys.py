# SPDX-License-Identifier: GPL-3.0-or-later
"""Mirroring of keys: twice is nothing, once is at every key the mirror image of what was there."""

from typing import Any

import bpy
import numpy as np
import pytest

from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.errors import IKError
from blender_ik_addon.core.model.rotation import EULER_ORDERS
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.animation.fcurves import own_curves

from . import builders

IDENTITY = 1e-6
"""How far twice may be from nothing [m], [1]."""

FRAMES = (1, 8, 13, 20)


def rig(seed: int, *, upright: bool, modes: tuple[str, ...], parented: bool = False) -> Any:
    """A figure somewhere in the world, its targets keyed at random, some with keys of their settings."""
    rng = np.random.default_rng(seed)
    armature = builders.humanoid()
    armature.location = rng.uniform(-2.0, 2.0, size=3)
    armature.rotation_euler = (0.0, 0.0, 0.0) if upright else rng.uniform(-3.0, 3.0, size=3)
    armature.scale = (s := rng.uniform(0.5, 2.0), s, s)
    bpy.context.view_layer.update()
    posing.setup_character(armature, poles=True)
    for number, effector in enumerate(armature.poise.effectors):
        target: Any = effector.target
        flipped = bpy.utils.flip_name(effector.name)
        pair = min(effector.name, flipped)
        target.rotation_mode = modes[sum(map(ord, pair)) % len(modes)]
        if not parented:
            target.parent = None
        if number % 4 == 3 and effector.name.endswith("L"):
            continue  # one that has no keys, so that its counterpart's are exchanged for nothing
        for frame in FRAMES:
            key_at_random(target, frame, rng)
        for name, high in (("influence", 1.0), ("weight", 2.0)):
            if number % 2:
                for frame in FRAMES:
                    setattr(effector, name, rng.uniform(0.1, high))
                    armature.keyframe_insert(f"poise.effectors[{number}].{name}", frame=frame)
    bpy.context.scene.frame_set(5)
    return armature


def key_at_random(target: Any, frame: int, rng: np.random.Generator) -> None:
    quat = rng.normal(size=4) * [0.3, 0.4, 0.4, 0.4] + [1.0, 0.0, 0.0, 0.0]
    quat /= np.linalg.norm(quat)
    target.location = rng.uniform(-1.0, 1.0, size=3)
    target.rotation_euler = rng.uniform(-1.0, 1.0, size=3)
    target.rotation_quaternion = quat
    target.rotation_axis_angle = (0.7 * rng.uniform(), *(quat[1:] / np.linalg.norm(quat[1:])))
    path = {'QUATERNION': "rotation_quaternion", 'AXIS_ANGLE': "rotation_axis_angle"}
    target.keyframe_insert("location", frame=frame)
    target.keyframe_insert(path.get(target.rotation_mode, "rotation_euler"), frame=frame)


def shown(armature: Any, frames: Any) -> FloatArray:
    """Targets in the armature, without their scale, and settings, over frames."""
    rows: list[list[float]] = []
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        row: list[float] = []
        for effector in armature.poise.effectors:
            matrix = armature.matrix_world.inverted() @ effector.target.matrix_world
            row += np.array(matrix.normalized())[:3].ravel().tolist()
            row += [effector.influence, effector.weight]
        rows.append(row)
    bpy.context.scene.frame_set(5)
    return np.array(rows)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("modes", [(*EULER_ORDERS, 'QUATERNION'), ('QUATERNION',)])
def test_twice_is_nothing_for_an_upright_rig_on_all_frames(seed: int, modes: tuple[str, ...]):
    armature = rig(seed, upright=True, modes=modes)
    frames = np.arange(-2, 25)
    before = shown(armature, frames)
    posing.mirror(armature)
    assert np.abs(shown(armature, frames) - before).max() > 0.1
    posing.mirror(armature)
    np.testing.assert_allclose(shown(armature, frames), before, atol=IDENTITY)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("parented", [False, True])
def test_twice_is_nothing_at_the_keys_of_any_rig(seed: int, parented: bool):
    armature = rig(seed, upright=False, modes=('QUATERNION', 'AXIS_ANGLE', *EULER_ORDERS), parented=parented)
    before = shown(armature, FRAMES)
    keys = count_keys(armature)
    posing.mirror(armature)
    posing.mirror(armature)
    np.testing.assert_allclose(shown(armature, FRAMES), before, atol=IDENTITY)
    assert count_keys(armature) == keys


def count_keys(armature: Any) -> int:
    objects = [armature, *(effector.target for effector in armature.poise.effectors)]
    return sum(len(curve.keyframe_points) for obj in objects for curve in own_curves(obj).values())


@pytest.mark.parametrize("upright", [False, True])
def test_once_is_the_mirror_image_at_every_key(upright: bool):
    armature = rig(7, upright=upright, modes=('QUATERNION', *EULER_ORDERS))
    number = {effector.name: row for row, effector in enumerate(armature.poise.effectors)}
    left, right = number["hand.L"], number["hand.R"]
    before = shown(armature, FRAMES).reshape(len(FRAMES), -1, 14)
    report = posing.mirror(armature)
    after = shown(armature, FRAMES).reshape(len(FRAMES), -1, 14)
    flip = np.diag([-1.0, 1.0, 1.0])
    places = before[:, :, :12].reshape(len(FRAMES), -1, 3, 4)[..., 3]
    mirrored = after[:, :, :12].reshape(len(FRAMES), -1, 3, 4)[..., 3]
    np.testing.assert_allclose(mirrored[:, right], places[:, left] @ flip, atol=2e-5)
    np.testing.assert_allclose(mirrored[:, left], places[:, right] @ flip, atol=2e-5)
    np.testing.assert_allclose(after[:, right, 12:], before[:, left, 12:], atol=1e-6)
    assert not [note for note in report.notes if "stay" in note]


def test_copying_one_side_leaves_its_own_keys_alone():
    armature = rig(1, upright=True, modes=('XYZ',))
    number = {effector.name: row for row, effector in enumerate(armature.poise.effectors)}
    before = shown(armature, FRAMES).reshape(len(FRAMES), -1, 14)
    posing.mirror(armature, 'LEFT_TO_RIGHT')
    after = shown(armature, FRAMES).reshape(len(FRAMES), -1, 14)
    np.testing.assert_array_equal(after[:, number["hand.L"]], before[:, number["hand.L"]])
    np.testing.assert_allclose(after[:, number["hand.R"], 12:], before[:, number["hand.L"], 12:], atol=1e-6)


def test_interpolation_and_handles_go_along():
    armature = rig(2, upright=True, modes=('XYZ',))
    target = {effector.name: effector.target for effector in armature.poise.effectors}
    curve = own_curves(target["foot.L"])["location", 1]
    curve.keyframe_points[0].interpolation = 'CONSTANT'
    curve.keyframe_points[1].interpolation = 'LINEAR'
    curve.extrapolation = 'LINEAR'
    posing.mirror(armature)
    mirrored = own_curves(target["foot.R"])["location", 1]
    assert [point.interpolation for point in mirrored.keyframe_points][:2] == ['CONSTANT', 'LINEAR']
    assert mirrored.extrapolation == 'LINEAR'


@pytest.mark.parametrize("case", ["shared", "locked", "group", "driven", "armature", "parent"])
def test_what_cannot_be_mirrored_stays_and_is_told(case: str):
    armature = rig(3, upright=True, modes=('XYZ',))
    target = {effector.name: effector.target for effector in armature.poise.effectors}
    left, right = target["foot.L"], target["foot.R"]
    if case == "shared":
        right.animation_data.action = left.animation_data.action
        right.animation_data.action_slot = left.animation_data.action_slot
    elif case == "locked":
        own_curves(left)["location", 0].lock = True
    elif case == "group":
        own_curves(left)["location", 0].group.lock = True
    elif case == "driven":
        right.driver_add("location", 2)
    elif case == "armature":
        armature.keyframe_insert("location", frame=1)
    else:
        left.parent = right.parent = builders.empty("table")
        left.parent.keyframe_insert("location", frame=1)
    before = {frame: keyed(left) for frame in FRAMES}
    report = posing.mirror(armature, settings=False)
    words = {
        "shared": "another object plays",
        "locked": "locked",
        "group": "locked",
        "driven": "drivers",
        "armature": "armature is animated",
        "parent": "'table', its parent",
    }[case]
    assert any("foot" in note and words in note for note in report.notes), report.notes
    assert {frame: keyed(left) for frame in FRAMES} == before


@pytest.mark.parametrize("size", [0.0, float("nan")])
def test_a_target_without_size_is_refused_and_nothing_is_mirrored(size: float):
    armature = rig(3, upright=True, modes=('XYZ',))
    target = {effector.name: effector.target for effector in armature.poise.effectors}
    target["foot.L"].scale = (size,) * 3
    bpy.context.view_layer.update()
    before = {name: (tuple(own.location), keyed(own)) for name, own in target.items()}
    with pytest.raises(IKError, match=f"target '{target['foot.L'].name}' cannot be mirrored"):
        posing.mirror(armature)
    assert {name: (tuple(own.location), keyed(own)) for name, own in target.items()} == before


def keyed(obj: Any) -> list[tuple[float, float]]:
    return [
        (point.co[0], point.co[1]) for curve in own_curves(obj).values() for point in curve.keyframe_points
    ]


@pytest.mark.parametrize("upright", [False, True])
def test_keys_are_mirrored_as_what_stands_still_is(upright: bool):
    modes = ('QUATERNION', *EULER_ORDERS)
    armature = rig(5, upright=upright, modes=modes)
    posing.mirror(armature, settings=False)
    animated = shown(armature, [8])
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    armature = rig(5, upright=upright, modes=modes)
    bpy.context.scene.frame_set(8)
    for effector in armature.poise.effectors:
        target: Any = effector.target
        target.animation_data_clear()
    posing.mirror(armature, settings=False)
    np.testing.assert_allclose(animated, shown(armature, [8]), atol=5e-6)

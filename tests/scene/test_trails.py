# SPDX-License-Identifier: GPL-3.0-or-later
"""Trails and ghosts are where Blender has bones and targets at their frames; their points can be moved."""

from typing import Any

import bpy
import numpy as np
import numpy.typing as npt
import pytest

from blender_ik_addon.core.model.rotation import EULER_ORDERS
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.trails.editing import grab
from blender_ik_addon.scene.trails.trails import Tracked, Trails

from . import builders

FRAMES = range(1, 25)
SINGLE = 2e-6
"""Rounding of single precision for a figure of two metres [m]."""


def animate(rig: Any, modes: tuple[str, ...] = ('QUATERNION',), seed: int = 1) -> None:
    """Key all bones of an armature, in turn in these rotation modes."""
    random = np.random.default_rng(seed)
    for row, bone in enumerate(rig.pose.bones):
        bone.rotation_mode = modes[row % len(modes)]
        name = {"QUATERNION": "rotation_quaternion", "AXIS_ANGLE": "rotation_axis_angle"}.get(
            bone.rotation_mode, "rotation_euler"
        )
        for frame in (1, 9, 24):
            values = random.normal(size=len(getattr(bone, name))) * 0.4
            values += (1.0, 0.0, 0.0, 0.0) if len(values) == 4 else (0.0, 0.0, 0.0)
            setattr(bone, name, values)
            bone.keyframe_insert(name, frame=frame)
            bone.location = random.normal(size=3) * 0.1
            bone.keyframe_insert("location", frame=frame)
            bone.scale = 1.0 + random.normal(size=3) * 0.05
            bone.keyframe_insert("scale", index=1, frame=frame)


def trails_of(rig: Any, frames: range = FRAMES) -> Trails:
    """All trails of an armature, sampled."""
    trails = Trails(rig.session_uid)
    trails.refresh()
    while trails.missing(frames):
        trails.fill(frames, bpy.context.scene.frame_current)
    return trails


def heads(rig: Any, bone: str, frames: range = FRAMES) -> npt.NDArray[np.float64]:
    """Where Blender has the head of a bone at frames, in the world, (F, 3)."""
    scene, places = bpy.context.scene, []
    now = scene.frame_current
    for frame in frames:
        scene.frame_set(frame)
        posed = rig.evaluated_get(bpy.context.evaluated_depsgraph_get())
        places.append(posed.matrix_world @ posed.pose.bones[bone].head)
    scene.frame_set(now)
    return np.array(places)


def assert_as_blender(rig: Any, trails: Trails, within: float = SINGLE) -> None:
    found = {trail.of.bone: trail for trail in trails.trails(FRAMES[0], FRAMES[-1])}
    assert {"hand.L", "foot.R", "head", "hips"} <= found.keys()
    for bone, trail in found.items():
        assert trail.frames.tolist() == list(FRAMES)
        assert np.abs(trail.places - heads(rig, bone)).max() < within, bone


@pytest.mark.parametrize("modes", [('QUATERNION', 'AXIS_ANGLE'), EULER_ORDERS])
def test_trails_by_keys_are_where_blender_has_the_bones(modes: tuple[str, ...]) -> None:
    rig = builders.humanoid()
    animate(rig, modes)
    rig.data.bones["hand.L"].inherit_scale = 'AVERAGE'
    rig.data.bones["head"].use_inherit_rotation = False
    trails = trails_of(rig)
    assert not trails.why_evaluated
    assert_as_blender(rig, trails)


def test_they_go_with_the_object_its_parents_and_its_scale() -> None:
    rig = builders.humanoid()
    animate(rig)
    above = builders.empty("above", (1.0, 2.0, 3.0))
    above.rotation_mode, above.delta_location = 'XZY', (0.1, 0.2, 0.3)
    rig.parent = above
    rig.matrix_parent_inverse = above.matrix_world.inverted()
    rig.scale, rig.delta_rotation_euler = (1.5, 1.5, 1.5), (0.1, 0.2, 0.3)
    for frame, angle in ((1, 0.0), (24, 2.0)):
        above.rotation_euler = (0.3 * angle, angle, -angle)
        above.keyframe_insert("rotation_euler", frame=frame)
        rig.location = (angle, 0.0, 0.5)
        rig.keyframe_insert("location", frame=frame)
    bpy.context.scene.render.frame_map_new = 200
    trails = trails_of(rig)
    assert not trails.why_evaluated
    assert_as_blender(rig, trails, 4.0 * SINGLE)


def with_constraint(rig: Any) -> None:
    goal = builders.empty("goal", (0.5, -0.4, 1.2))
    for frame, x in ((1, 0.5), (24, 0.2)):
        goal.location.x = x
        goal.keyframe_insert("location", frame=frame)
    constraint = rig.pose.bones["forearm.L"].constraints.new('IK')
    constraint.target, constraint.chain_count = goal, 2


def with_driver(rig: Any) -> None:
    curve = rig.driver_add('pose.bones["spine.001"].location', 0)
    curve.driver.expression = "0.01 * frame"


def with_strips(rig: Any) -> None:
    animation, action = rig.animation_data, rig.animation_data.action
    slot = animation.action_slot
    animation.action = None
    for start, influence in ((1, 1.0), (6, 0.4)):
        strip = animation.nla_tracks.new().strips.new(f"strip {start}", start, action)
        strip.action_slot, strip.influence, strip.use_animated_influence = slot, influence, True
        strip.influence = influence


@pytest.mark.parametrize("change", [with_constraint, with_driver, with_strips])
def test_what_else_moves_bones_is_evaluated_and_nothing_in_the_scene_changes(change: Any) -> None:
    rig = builders.humanoid()
    animate(rig)
    change(rig)
    scene = bpy.context.scene
    scene.frame_set(5)
    wanted = heads(rig, "hand.L")
    rig.pose.bones["head"].scale.x = 0.77  # without a key
    bpy.context.view_layer.update()
    frames: list[int] = []

    def handler(own: Any, *_: Any) -> None:
        frames.append(own.name == bpy.context.scene.name)

    bpy.app.handlers.frame_change_post.append(handler)
    try:
        trails = trails_of(rig)
    finally:
        bpy.app.handlers.frame_change_post.remove(handler)
    assert trails.why_evaluated
    assert frames and not any(frames)
    assert len(bpy.data.scenes) == 1 and scene.frame_current == 5
    assert rig.pose.bones["head"].scale.x == pytest.approx(0.77)
    [hand] = [trail for trail in trails.trails(FRAMES[0], FRAMES[-1]) if trail.of.bone == "hand.L"]
    assert np.abs(hand.places - wanted).max() < SINGLE
    assert_as_blender(rig, trails)


@pytest.mark.parametrize("constrained", [False, True])
def test_a_key_that_is_moved_costs_the_frames_up_to_the_next_keys(constrained: bool) -> None:
    rig = builders.humanoid()
    animate(rig)
    if constrained:
        with_constraint(rig)
    for curve in rig.animation_data.action.layers[0].strips[0].channelbags[0].fcurves:
        for key in curve.keyframe_points:
            key.interpolation = 'LINEAR'
    trails = trails_of(rig)
    seen: list[list[int]] = []

    def handler(_: Any, depsgraph: Any) -> None:
        trails.note(depsgraph)
        trails.refresh()
        seen.append(trails.missing(FRAMES))

    bpy.context.view_layer.update()
    trails.refresh()
    while trails.missing(FRAMES):
        trails.fill(FRAMES, 1)
    bpy.app.handlers.depsgraph_update_post.append(handler)
    try:
        bone = rig.pose.bones["hand.L"]
        bone.scale.y = 1.2
        bone.keyframe_insert("scale", index=1, frame=20)
        bpy.context.view_layer.update()
        assert set(seen[-1]) == set(range(10, 24)), seen[-1]
        while trails.missing(FRAMES):
            trails.fill(FRAMES, 1)
        bone.location = (1.0, 2.0, 3.0)  # has keys: it is another pose, and the trail is what it was
        bpy.context.view_layer.update()
        assert seen[-1] == []
        bpy.context.scene.frame_set(7)
        bpy.context.view_layer.update()
        assert seen[-1] == []
    finally:
        bpy.app.handlers.depsgraph_update_post.remove(handler)
    assert_as_blender(rig, trails)


def test_ghosts_are_the_key_poses_nearest_to_the_present_frame() -> None:
    rig = builders.humanoid()
    animate(rig)
    for frame in (4, 14, 18):
        rig.pose.bones["head"].keyframe_insert("location", frame=frame)
    trails = trails_of(rig)
    assert [ghost.frame for ghost in trails.ghosts(1, 24, 10, 2)] == [4, 9, 14, 18]
    assert [ghost.frame for ghost in trails.ghosts(2, 13, 9, 5)] == [4]
    [ghost] = trails.ghosts(14, 14, 10, 2)
    bpy.context.scene.frame_set(14)
    posed = rig.evaluated_get(bpy.context.evaluated_depsgraph_get()).pose.bones
    wanted = np.array([[bone.head, bone.tail] for bone in posed])
    far = np.abs(ghost.bones[:, None] - wanted[None]).max(axis=(2, 3)).min(axis=1)
    assert far.max() < SINGLE


@pytest.mark.parametrize("fewest", [False, True])
def test_key_poses_of_a_bake_are_those_of_its_targets(fewest: bool) -> None:
    rig = targeted(live=False)
    target = rig.poise.effectors["hand.L"].target
    target.location.z -= 0.1
    target.keyframe_insert("location", frame=12)
    posing.bake(rig, FRAMES, fewest=fewest)
    trails = trails_of(rig)
    assert [ghost.frame for ghost in trails.ghosts(1, 24, 10, 5)] == [1, 12, 24]
    trail = next(own for own in trails.trails(1, 24) if own.of.bone == "hand.L")
    assert trail.of.target == "" and trail.frames[trail.keyed].tolist() == [1, 12, 24]
    for frame in (5, 6, 9):  # poses that somebody has chosen
        rig.pose.bones["forearm.L"].rotation_quaternion = (1.0, 0.0, 0.0, 0.1 * frame)
        rig.pose.bones["forearm.L"].keyframe_insert("rotation_quaternion", frame=frame)
    if fewest:
        assert {5, 6, 9} <= {ghost.frame for ghost in trails_of(rig).ghosts(1, 24, 10, 20)}


def shown(rig: Any, frame: int) -> npt.NDArray[np.float64]:
    """Heads and tails of all bones as Blender shows them at a frame, with Live on, (n, 2, 3)."""
    bpy.context.scene.frame_set(frame)
    bpy.context.view_layer.update()
    posed = rig.evaluated_get(bpy.context.evaluated_depsgraph_get())
    return np.array([[posed.matrix_world @ end for end in (b.head, b.tail)] for b in posed.pose.bones])


def key_bones(rig: Any) -> None:
    """Key bones that are solved, of an arm and the spine, and one that no effector moves."""
    rig.poise.effectors["head"].state = 'OFF'
    for frame, part in ((1, 0.0), (24, 0.7)):
        for name in ("forearm.L", "spine.001", "head"):
            rig.pose.bones[name].rotation_mode = 'XYZ'
            rig.pose.bones[name].rotation_euler = (0.3 + part, 0.0, 0.2 * part)
            rig.pose.bones[name].keyframe_insert("rotation_euler", frame=frame)


@pytest.mark.parametrize("keyed", ["", "influence", "follows", "bones", "baked"])
def test_ghosts_of_a_body_that_only_live_poses_are_where_live_poses_it(keyed: str) -> None:
    rig = targeted(live=False)
    row = rig.poise.effectors.find("hand.L")
    for frame in (1, 24):  # else arms are as they are at rest, straight
        bpy.context.scene.frame_set(frame)
        for name, aside in (("hand.L", -0.1), ("hand.R", 0.1)):
            target = rig.poise.effectors[name].target
            target.location.x += aside
            target.keyframe_insert("location", frame=frame)
    for frame in (1, 24) if keyed == "follows" else ():
        bpy.context.scene.frame_set(frame)
        rig.poise.effectors[row].target.location.z -= 0.05 * frame
        bpy.context.view_layer.update()
        posing.solve_pose(rig)
        posing.key_targets(rig)
    for frame, value in ((1, 1.0), (24, 0.5)) if keyed == "influence" else ():
        rig.poise.effectors[row].influence = value
        rig.keyframe_insert(f"poise.effectors[{row}].influence", frame=frame)
    if keyed == "bones":
        key_bones(rig)
    elif keyed == "baked":
        posing.bake(rig, FRAMES)
    if keyed in {"bones", "baked"}:  # part of the way from the keys of that frame
        rig.poise.effectors[row].influence = 0.5
    rig.poise.live = True
    bpy.context.view_layer.update()
    shown(rig, 1)
    trails = trails_of(rig)
    was = bits(rig)
    assert trails.ghosts(1, 24, 1, 2) == []
    assert trails.unsolved(FRAMES, 1, 2) == [24]
    trails.solve(24)
    assert trails.unsolved(FRAMES, 1, 2) == [] and bits(rig) == was
    [ghost] = trails.ghosts(1, 24, 1, 2)
    far = np.abs(ghost.bones[:, None] - shown(rig, 24)[None]).max(axis=(2, 3)).min(axis=1)
    assert far.max() < 5e-4


def test_no_ghost_is_solved_where_a_driver_decides_what_effectors_do() -> None:
    rig = targeted()
    rig.driver_add("poise.effectors[0].influence")
    bpy.context.scene.frame_set(1)
    trails = trails_of(rig)
    assert trails.unsolved(FRAMES, 1, 2) == [24]
    trails.solve(24)
    assert trails.unsolved(FRAMES, 1, 2) == [] and trails.ghosts(1, 24, 1, 2) == []


def test_a_ghost_is_solved_anew_where_an_effector_is_set_otherwise() -> None:
    rig = targeted()
    shown(rig, 1)
    trails = trails_of(rig)
    trails.solve(24)
    assert trails.unsolved(FRAMES, 1, 2) == []

    def handler(_: Any, depsgraph: Any) -> None:
        trails.note(depsgraph)

    bpy.app.handlers.depsgraph_update_post.append(handler)
    try:
        for name, value in (("chain_depth", 2), ("point", (0.0, 0.05, 0.0)), ("softness_position", 0.01)):
            setattr(rig.poise.effectors["hand.L"], name, value)
            rig.update_tag()
            bpy.context.view_layer.update()
            trails.refresh()
            trails.fill(FRAMES, 1)
            assert trails.unsolved(FRAMES, 1, 2) == [24], name
            trails.solve(24)
            assert trails.unsolved(FRAMES, 1, 2) == []
        key_bones(rig)  # where Live begins
        bpy.context.view_layer.update()
        trails.refresh()
        trails.fill(FRAMES, 1)
        assert trails.unsolved(FRAMES, 1, 2) == [24]
    finally:
        bpy.app.handlers.depsgraph_update_post.remove(handler)


# Points that are moved


def tracked_of(rig: Any, bone: str) -> Tracked:
    return next(own for own in trails_of(rig).tracked if own.bone == bone)


def bits(rig: Any) -> list[str]:
    """All channels of bones and targets, and all keys, exactly."""
    found = [str(bpy.context.scene.frame_current)]
    for owner in [*rig.pose.bones, *(obj for obj in bpy.data.objects if obj.type == 'EMPTY')]:
        for name in ("location", "rotation_euler", "rotation_quaternion", "rotation_axis_angle", "scale"):
            found += [value.hex() for value in getattr(owner, name)]
    for action in bpy.data.actions:
        found.append(action.name)
        for layer in action.layers:
            for bag in layer.strips[0].channelbags:
                for curve in bag.fcurves:
                    keys = [(*key.co, *key.handle_left, *key.handle_right) for key in curve.keyframe_points]
                    found += [
                        f"{curve.data_path} {curve.array_index}",
                        *(v.hex() for key in keys for v in key),
                    ]
    return found


def walking() -> Any:
    """A figure whose hips go along and whose left arm is raised, by keys."""
    rig = builders.humanoid()
    for bone in rig.pose.bones:
        bone.rotation_mode = 'XYZ'
    for frame, part in ((1, 0.0), (13, 0.5), (24, 1.0)):
        rig.pose.bones["hips"].location = (0.0, 0.0, 0.3 * part)
        rig.pose.bones["hips"].keyframe_insert("location", frame=frame)
        rig.pose.bones["upper_arm.L"].rotation_euler.x = -part
        rig.pose.bones["upper_arm.L"].keyframe_insert("rotation_euler", frame=frame)
    return rig


def targeted(live: bool = True) -> Any:
    """The figure with targets; those of a hand and of the hips have keys."""
    rig = builders.humanoid()
    bpy.ops.poise.setup_character()
    target = rig.poise.effectors["hand.L"].target
    for frame, up in ((1, 0.0), (24, 0.2)):
        target.location.z += up
        target.keyframe_insert("location", frame=frame)
    rig.poise.live = live
    bpy.context.view_layer.update()
    return rig


def targeted_and_keyed() -> Any:
    """The same where the user has keyed a bone, in which no drag of targets has anything to key."""
    rig = targeted()
    rig.pose.bones["head"].keyframe_insert("rotation_euler", frame=1)
    return rig


def test_the_bone_is_at_the_place_to_which_its_point_was_dragged_and_other_keys_stay() -> None:
    rig = walking()
    bpy.context.scene.frame_set(3)
    before = heads(rig, "hand.L")
    drag = grab(rig, tracked_of(rig, "hand.L"), 13)
    assert np.abs(drag.place - before[12]).max() < SINGLE
    drag.move(drag.place + np.array((-0.05, -0.1, 0.05)))
    drag.confirm()
    after = heads(rig, "hand.L")
    assert bpy.context.scene.frame_current == 13
    assert np.abs(after[12] - before[12] - (-0.05, -0.1, 0.05)).max() < 1e-4
    assert_as_blender(rig, trails_of(rig))


def test_with_live_on_the_trail_is_that_of_the_target_which_is_keyed_where_it_is_dragged() -> None:
    rig = targeted()
    scene = bpy.context.scene
    trail = next(own for own in trails_of(rig).trails(1, 24) if own.of.bone == "hand.L")
    target = bpy.data.objects[trail.of.target]
    assert trail.keyed.tolist() == [frame in (1, 24) for frame in FRAMES]
    drag = grab(rig, trail.of, 12)
    drag.move(drag.place + np.array((0.0, -0.1, 0.05)))
    drag.confirm()
    scene.frame_set(2)
    scene.frame_set(12)
    bpy.context.view_layer.update()
    posed = rig.evaluated_get(bpy.context.evaluated_depsgraph_get())
    hand = np.array(posed.matrix_world @ posed.pose.bones["hand.L"].head)
    assert (
        np.abs(np.array(target.matrix_world.translation) - trail.places[11] - (0.0, -0.1, 0.05)).max() < 1e-5
    )
    assert np.abs(hand - target.matrix_world.translation).max() < 1e-3
    again = next(own for own in trails_of(rig).trails(1, 24) if own.of.bone == "hand.L")
    assert again.keyed.tolist() == [frame in (1, 12, 24) for frame in FRAMES]
    assert np.abs(again.places[11] - target.matrix_world.translation).max() < 1e-5


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("make", [walking, targeted, targeted_and_keyed])
def test_a_drag_that_is_cancelled_leaves_every_bit_and_the_frame(make: Any, whole: bool) -> None:
    rig = make()
    scene = bpy.context.scene
    scene.frame_set(5)
    rig.pose.bones["head"].rotation_euler.y = 0.3  # without a key
    bpy.context.view_layer.update()
    was = bits(rig)
    drag = grab(rig, tracked_of(rig, "hand.L"), 12, whole=whole)
    drag.move(drag.place + np.array((0.0, -0.1, 0.05)))
    bpy.context.view_layer.update()
    assert bits(rig) != was
    drag.cancel()
    assert bits(rig) == was
    bpy.context.view_layer.update()
    assert bits(rig) == was


def test_the_whole_pose_is_moved_at_its_frame_and_nowhere_else() -> None:
    rig = walking()
    bones = ("hand.L", "foot.R", "head")
    before = {bone: heads(rig, bone) for bone in bones}
    drag = grab(rig, tracked_of(rig, "hand.L"), 13, whole=True)
    drag.move(drag.place + np.array((0.2, 0.0, 0.1)))
    drag.confirm()
    for bone, was in before.items():
        way = heads(rig, bone) - was
        assert np.abs(way[12] - (0.2, 0.0, 0.1)).max() < SINGLE
        assert np.abs(way[[0, 23]]).max() < SINGLE


def test_a_root_that_may_not_move_is_refused_and_nothing_changes() -> None:
    rig = walking()
    rig.pose.bones["hips"].lock_location = (True, False, False)
    was = bits(rig)
    with pytest.raises(ValueError, match="location of 'hips' is locked"):
        grab(rig, tracked_of(rig, "hand.L"), 13, whole=True)
    assert bits(rig) == was

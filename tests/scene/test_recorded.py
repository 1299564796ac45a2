# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded motion: targets from a clip, corrections that ease in and out, props that are held."""

from math import radians, sin
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from mathutils import Vector

from blender_ik_addon import cli
from blender_ik_addon.cli.exit_codes import Exit
from blender_ik_addon.core import IKError
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.animation.fcurves import own_curves

from .builders import chain, humanoid

FRAMES = range(1, 13)
SAME = 1e-6
"""Entry of a matrix [1, m] by which bones may differ: single precision."""
NEAR = 2e-5
"""How far a point may be from where it was recorded [m] where targets hold it."""


def recorded() -> Any:
    """A figure with an action that swings arms and legs and walks on; knees bend the wrong way a little."""
    figure: Any = humanoid()
    bpy.context.scene.frame_start, bpy.context.scene.frame_end = FRAMES[0], FRAMES[-1]
    swings = {"upper_arm.L": 30.0, "forearm.R": -20.0, "thigh.L": 25.0, "thigh.R": -25.0, "shin.L": 8.0}
    for frame in FRAMES:
        phase = sin(0.5 * frame)
        figure.pose.bones["hips"].location = (0.0, 0.02 * phase, 0.04 * frame)
        figure.pose.bones["hips"].keyframe_insert("location", frame=frame)
        for name, most in swings.items():
            bone = figure.pose.bones[name]
            bone.rotation_mode = 'XYZ' if name != "upper_arm.L" else 'QUATERNION'
            if name == "upper_arm.L":
                bone.rotation_quaternion = (1.0, 0.0, 0.3 * phase, 0.2 * phase)
                bone.rotation_quaternion.normalize()
                bone.keyframe_insert("rotation_quaternion", frame=frame)
            else:
                bone.rotation_euler = (radians(most) * phase, 0.0, 0.1 * phase)
                bone.keyframe_insert("rotation_euler", frame=frame)
    bpy.context.scene.frame_set(FRAMES[0])
    return figure


@pytest.fixture
def figure() -> Any:
    """The figure with its action."""
    return recorded()


def shown(figure: Any, frames: range = FRAMES) -> np.ndarray:
    """World matrices of all bones, (F, n, 4, 4)."""
    found = []
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        found.append([np.array(figure.matrix_world @ bone.matrix) for bone in figure.pose.bones])
    return np.array(found)


def point(figure: Any, matrices: np.ndarray, name: str) -> np.ndarray:
    """Points (F, 3) of an effector's bone."""
    entry = figure.poise.effectors[name]
    own = matrices[:, figure.pose.bones.find(entry.bone)]
    return own[:, :3, :3] @ np.array(entry.point) + own[:, :3, 3]


def corrected(figure: Any, frame: int, way: tuple[float, float, float]) -> posing.MatchReport:
    """Move the target of the left hand at a frame, and press Correct."""
    bpy.context.scene.frame_set(frame)
    figure.poise.effectors["hand.L"].target.location += Vector(way)
    return posing.correct(figure, ease_in=3.0, ease_out=3.0)


def test_an_unedited_recording_stays(figure: Any) -> None:
    before = shown(figure)
    report = posing.targets_from_animation(figure)
    assert report.keyed_frames == len(FRAMES) and {"hand.L", "foot.R", "hips", "head"} <= {*report.effectors}
    assert np.abs(shown(figure) - before).max() <= SAME
    for frame in FRAMES[::5]:
        bpy.context.scene.frame_set(frame)
        assert posing.solve_pose(figure).reached
        posing.switch_live(figure, True)
        bpy.context.view_layer.update()
        now = np.array([figure.matrix_world @ bone.matrix for bone in figure.pose.bones])
        assert np.abs(now - before[frame - 1]).max() <= SAME
        posing.switch_live(figure, False)
    baked = posing.bake(figure)
    assert baked.reached and not any("replaced" in note for note in baked.notes)  # nothing is lost
    assert np.abs(shown(figure) - before).max() <= SAME


def test_keys_of_a_clip_are_replaced_without_a_question_but_not_those_that_were_edited(figure: Any) -> None:
    posing.targets_from_animation(figure)
    path = figure.pose.bones["forearm.R"].path_from_id("rotation_euler")

    def edit(frame: int) -> None:
        curve = own_curves(figure)[path, 0]
        next(key for key in curve.keyframe_points if key.co.x == frame).co.y += 0.1
        curve.update()

    edit(5)  # before the first bake, and after it
    for frame in (6, 7):
        with pytest.raises(IKError, match=r"1 key of 'forearm\.R'.* Poise has not written"):
            posing.bake(figure)
        baked = posing.bake(figure, replace=True)
        assert any(
            note.startswith("among those replaced, not written by Poise: 1 key") for note in baked.notes
        )
        edit(frame)


@pytest.mark.parametrize("rate", [1.00001, 0.2])
def test_keys_of_a_clip_may_be_beside_frames_and_between_them(rate: float, figure: Any) -> None:
    """As a BVH file has them that is imported at its own rate, or at that of the scene."""
    for curve in own_curves(figure).values():
        for key in curve.keyframe_points:
            key.co_ui.x = 1.0 + rate * (key.co.x - 1.0)
        curve.update()
    posing.targets_from_animation(figure)
    assert posing.bake(figure).keys_replaced  # and is not refused


def test_limits_do_not_tighten_what_is_recorded(figure: Any) -> None:
    before = shown(figure)
    posing.targets_from_animation(figure)
    shin = posing.own_limits(figure, "shin.L")
    shin.use_limit, shin.lower, shin.upper = (True,) * 3, (-0.01,) * 3, (0.01,) * 3
    report = posing.bake(figure)
    assert report.reached and not any("limits" in note for note in report.notes)
    assert np.abs(shown(figure) - before).max() <= SAME


def test_targets_are_where_bones_are_recorded(figure: Any) -> None:
    figure.location, figure.rotation_euler = (3.0, -2.0, 0.5), (0.1, 0.2, 0.7)
    posing.targets_from_animation(figure)
    matrices = shown(figure)
    for number, frame in enumerate(FRAMES):
        bpy.context.scene.frame_set(frame)
        for name in ("hand.L", "foot.R", "hips"):
            target = figure.poise.effectors[name].target
            place = Vector(point(figure, matrices, name)[number])
            assert (target.matrix_world.translation - place).length < NEAR


def test_a_correction_moves_what_is_asked_for_and_nothing_else(figure: Any) -> None:
    before = shown(figure)
    posing.targets_from_animation(figure)
    report = corrected(figure, 6, (0.0, 0.0, 0.08))
    assert report.effectors == ("hand.L",) and "from frame 3 to 9" in report.summary()
    posing.bake(figure)
    after = shown(figure)
    outside = [number for number, frame in enumerate(FRAMES) if not 3 < frame < 9]
    assert np.abs(after - before)[outside].max() <= SAME
    moved = point(figure, after, "hand.L") - point(figure, before, "hand.L")
    np.testing.assert_allclose(moved[5], (0.0, 0.0, 0.08), atol=NEAR)
    assert 0.0 < moved[3, 2] < moved[4, 2] < moved[5, 2] > moved[6, 2] > moved[7, 2] > 0.0
    for name in ("hand.R", "foot.L", "foot.R"):
        assert np.abs(point(figure, after, name) - point(figure, before, name)).max() < NEAR

    posing.bake(figure)  # once more: the recording is still what is preferred
    assert np.abs(shown(figure) - after).max() <= SAME
    posing.switch_corrections(figure, False)
    posing.bake(figure)
    assert np.abs(shown(figure) - before).max() <= SAME
    posing.switch_corrections(figure, True)
    posing.bake(figure)
    assert np.abs(shown(figure) - after).max() <= SAME
    assert posing.remove_corrections(figure).effectors == ("hand.L",)
    posing.bake(figure)
    assert np.abs(shown(figure) - before).max() <= SAME


def test_a_correction_is_baked_as_a_layer(figure: Any) -> None:
    before = shown(figure)
    posing.targets_from_animation(figure)
    corrected(figure, 6, (0.0, 0.0, 0.08))
    assert posing.bake(figure, to='STRIP').reached
    after = shown(figure)
    outside = [number for number, frame in enumerate(FRAMES) if not 3 < frame < 9]
    assert np.abs(after - before)[outside].max() <= SAME
    raised = point(figure, after, "hand.L")[5] - point(figure, before, "hand.L")[5]
    np.testing.assert_allclose(raised, (0.0, 0.0, 0.08), atol=1e-4)
    figure.animation_data.nla_tracks[-1].mute = True
    assert np.abs(shown(figure) - before).max() <= SAME


def test_corrections_add_up_and_keep_what_is_beyond_their_eases(figure: Any) -> None:
    posing.targets_from_animation(figure)
    target = figure.poise.effectors["hand.L"].target
    corrected(figure, 4, (0.0, 0.0, 0.05))
    corrected(figure, 6, (0.0, 0.03, 0.0))
    heights, sides = [], []
    for frame in FRAMES:
        bpy.context.scene.frame_set(frame)
        heights.append(target.delta_location.z)
        sides.append(target.delta_location.y)
    assert heights[3] == pytest.approx(0.05) and sides[3] == pytest.approx(0.0)
    assert sides[5] == pytest.approx(0.03) and heights[0] == heights[8] == sides[8] == 0.0


@pytest.mark.parametrize("frames", [(4, 6), (6, 4)])
def test_two_corrections_hold_from_one_to_the_other_and_ease_over_their_whole_length(
    frames: tuple[int, int],
) -> None:
    figure = recorded()
    posing.targets_from_animation(figure)
    target = figure.poise.effectors["hand.L"].target
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        corrected(figure, frame, (0.0, 0.0, 0.05 - target.delta_location.z))
    (curve,) = [
        curve for (path, index), curve in own_curves(target).items() if (path, index) == ("delta_location", 2)
    ]
    keys = [key.co[:] for key in curve.keyframe_points]
    np.testing.assert_allclose(keys, [(1, 0.0), (4, 0.05), (6, 0.05), (9, 0.0)], atol=1e-6)


def test_targets_again_take_corrections_into_the_recording(figure: Any) -> None:
    posing.targets_from_animation(figure)
    corrected(figure, 6, (0.0, 0.0, 0.08))
    posing.bake(figure)
    after, actions = shown(figure), len(bpy.data.actions)
    posing.targets_from_animation(figure)
    assert posing.corrections_on(figure) is None and len(bpy.data.actions) == actions
    posing.bake(figure)
    assert np.abs(shown(figure) - after).max() <= SAME


def test_hips_give_way_to_a_hand(figure: Any) -> None:
    posing.targets_from_animation(figure)
    figure.poise.effectors["hand.R"].enabled = False
    corrected(figure, 6, (0.1, 0.0, 0.0))  # further than the arm reaches
    bpy.context.scene.frame_set(6)
    posing.solve_pose(figure)
    assert figure.poise.effectors["hand.L"].error_position < 1e-3


def test_a_hand_keeps_its_grip(figure: Any) -> None:
    before = shown(figure)
    posing.targets_from_animation(figure)
    prop = bpy.data.objects.new("prop", None)
    bpy.context.scene.collection.objects.link(prop)
    hands = [figure.poise.effectors.find(name) for name in ("hand.L", "hand.R")]
    posing.hold_prop(figure, prop, hands)
    posing.bake(figure)
    assert np.abs(shown(figure) - before).max() < 1e-4
    prop.location = (0.05, 0.0, 0.04)
    posing.bake(figure)
    after = shown(figure)
    for name in ("hand.L", "hand.R"):
        bone = figure.pose.bones.find(name)
        moved = point(figure, after, name) - point(figure, before, name)
        np.testing.assert_allclose(moved, np.tile((0.05, 0.0, 0.04), (len(FRAMES), 1)), atol=1e-4)
        assert np.abs(after[:, bone, :3, :3] - before[:, bone, :3, :3]).max() < 1e-3


def test_a_prop_in_the_other_hand(figure: Any) -> None:
    posing.targets_from_animation(figure)
    prop = bpy.data.objects.new("prop", None)
    bpy.context.scene.collection.objects.link(prop)
    prop.parent, prop.parent_type, prop.parent_bone = figure, 'BONE', "hand.R"
    left, right = (figure.poise.effectors.find(name) for name in ("hand.L", "hand.R"))
    posing.hold_prop(figure, prop, [left])
    entries = figure.poise.effectors
    assert entries[left].target.parent == entries[right].target
    with pytest.raises(IKError, match=r"hangs on 'hand\.R' itself"):
        posing.hold_prop(figure, prop, [right])


@pytest.mark.parametrize("strip", [False, True])
def test_time_that_is_remapped_is_mapped(figure: Any, strip: bool) -> None:
    bpy.context.scene.render.frame_map_new = 300  # the clip plays three times as long
    frames = range(3 * FRAMES[0], 3 * FRAMES[-1] + 1)
    if strip:
        animation = figure.animation_data
        animation.nla_tracks.new().strips.new("clip", FRAMES[0], animation.action)
        animation.action = None
    before = shown(figure, frames)
    assert posing.clip_range(figure) == frames
    report = posing.targets_from_animation(figure)
    assert report.keyed_frames == len(frames) and not any("between" in note for note in report.notes)
    target = figure.poise.effectors["hand.L"].target
    for frame, way in zip(frames, point(figure, before, "hand.L"), strict=True):
        bpy.context.scene.frame_set(frame)
        np.testing.assert_allclose(target.matrix_world.translation, way, atol=NEAR)
    posing.bake(figure, frames)
    assert np.abs(shown(figure, frames) - before).max() <= SAME
    for _ in range(2):  # the second one goes on from the first
        assert "from frame 17 to 23" in corrected(figure, 20, (0.0, 0.0, 0.04)).summary()
    assert figure.poise.effectors["hand.L"].target.delta_location.z == pytest.approx(0.08)
    posing.bake(figure, frames)
    after = shown(figure, frames)
    outside = [number for number, frame in enumerate(frames) if not 17 < frame < 23]
    assert np.abs(after - before)[outside].max() <= SAME
    moved = point(figure, after, "hand.L") - point(figure, before, "hand.L")
    np.testing.assert_allclose(moved[20 - frames[0]], (0.0, 0.0, 0.08), atol=NEAR)
    posing.switch_corrections(figure, False)
    posing.switch_corrections(figure, True)
    bpy.context.scene.frame_set(20)
    assert target.delta_location.z == pytest.approx(0.08)
    posing.remove_corrections(figure)

    prop = bpy.data.objects.new("prop", None)
    bpy.context.scene.collection.objects.link(prop)
    for frame, side in ((1, 0.0), (12, 0.1)):
        prop.location.x = side
        prop.keyframe_insert("location", frame=frame)
    posing.hold_prop(figure, prop, [figure.poise.effectors.find("hand.L")])
    for frame, way in zip(frames, point(figure, before, "hand.L"), strict=True):
        bpy.context.scene.frame_set(frame)
        np.testing.assert_allclose(target.matrix_world.translation, way, atol=NEAR)


def test_strips_are_a_recording_too(figure: Any) -> None:
    before = shown(figure)
    animation = figure.animation_data
    animation.nla_tracks.new().strips.new("clip", FRAMES[0], animation.action)
    animation.action = None
    posing.targets_from_animation(figure)
    assert posing.clip_range(figure) == FRAMES
    posing.bake(figure)
    assert np.abs(shown(figure) - before).max() <= SAME


def test_chosen_bones_get_targets() -> None:
    figure: Any = chain(3)
    tip = figure.pose.bones["bone.002"]
    for frame, way in ((1, 0.0), (5, 0.4)):
        figure.pose.bones["bone.001"].rotation_quaternion = (1.0, way, 0.0, 0.0)
        figure.pose.bones["bone.001"].keyframe_insert("rotation_quaternion", frame=frame)
    with pytest.raises(IKError, match="give bones their roles in the table, or select the bones"):
        posing.targets_from_animation(figure)
    before = shown(figure, range(1, 6))
    assert posing.targets_from_animation(figure, [tip.name]).effectors == (tip.name,)
    assert posing.bake(figure, range(1, 6)).reached
    assert np.abs(shown(figure, range(1, 6)) - before).max() <= SAME


def test_what_cannot_be_taken_is_refused_and_changes_nothing() -> None:
    figure: Any = humanoid("still")
    with pytest.raises(IKError, match="nothing animates 'still'"):
        posing.targets_from_animation(figure)
    figure = recorded()
    curve = next(iter(figure.animation_data.action.layers[0].strips[0].channelbags[0].fcurves))
    curve.keyframe_points[6].co.y = float("nan")
    objects, actions = len(bpy.data.objects), len(bpy.data.actions)
    with pytest.raises(IKError, match="not a number in frame 7: 'hips'"):
        posing.targets_from_animation(figure)
    assert (len(bpy.data.objects), len(bpy.data.actions)) == (objects, actions)
    assert not figure.poise.effectors and figure.poise.recording is None


def test_an_effector_whose_bone_is_gone_is_refused(figure: Any) -> None:
    posing.add_effector(figure, "head")
    figure.poise.effectors[0].bone = "nose"
    with pytest.raises(IKError, match=r"effector 'head' has no bone 'nose' \(renamed\?\)"):
        posing.targets_from_animation(figure)
    assert figure.poise.recording is None


def test_cancelled_it_leaves_nothing(figure: Any) -> None:
    bpy.context.scene.frame_set(5)
    before, objects, actions = shown(figure), len(bpy.data.objects), len(bpy.data.actions)
    bpy.context.scene.frame_set(5)
    job = posing.TargetsJob(figure)
    for _ in range(4):
        assert job.step()
    job.cancel()
    assert (len(bpy.data.objects), len(bpy.data.actions)) == (objects, actions)
    assert not figure.poise.effectors and bpy.context.scene.frame_current == 5
    assert np.abs(shown(figure) - before).max() == 0.0
    with pytest.raises(
        IKError, match=f"Targets from Animation of '{figure.name}' was cancelled: begin again"
    ):
        job.finish()


def test_a_correction_needs_a_target_that_was_moved(figure: Any) -> None:
    posing.setup_character(figure)
    with pytest.raises(IKError, match="have no keys: Targets from Animation"):
        posing.correct(figure)
    posing.targets_from_animation(figure)
    with pytest.raises(IKError, match="no target is away from its keys"):
        posing.correct(figure)
    with pytest.raises(IKError, match="ease_in must be above 0"):
        posing.correct(figure, ease_in=0.0)
    with pytest.raises(IKError, match="has a correction: move one"):
        posing.remove_corrections(figure)


@pytest.mark.parametrize("at", [0, 1, -2, -1])
def test_a_correction_near_the_end_of_a_loop_goes_on_at_its_other_end(at: int, figure: Any) -> None:
    """Else the last frame of the bake, which is the first one again, would jump back to what was recorded."""
    posing.targets_from_animation(figure)
    hand, first, last = figure.poise.effectors["hand.L"].target, FRAMES[0], FRAMES[-1]

    def offsets() -> list[float]:
        found = []
        for frame in FRAMES:
            bpy.context.scene.frame_set(frame)
            found.append(hand.delta_location.z)
        return found

    bpy.context.scene.frame_set(FRAMES[at])
    hand.location.z += 0.1
    figure.poise.bake_loop = True
    posing.correct(figure, ease_in=3.0, ease_out=3.0)
    found = offsets()
    assert found[0] == pytest.approx(found[-1], abs=SAME) and found[0] > 0.01
    assert max(found) == pytest.approx(found[at]) == pytest.approx(0.1) and found[5:7] == [0.0, 0.0]
    bpy.context.scene.frame_set(FRAMES[at])
    hand.location.z += 0.1  # what is there is corrected further
    posing.correct(figure, ease_in=3.0, ease_out=3.0)
    found = offsets()
    assert found[0] == pytest.approx(found[-1], abs=SAME) and found[at] == pytest.approx(0.2)
    posing.remove_corrections(figure)
    assert offsets() == [0.0] * len(FRAMES)
    bpy.context.scene.frame_set(last if at < 0 else first)
    hand.location.z += 0.1
    posing.correct(figure, ease_in=3.0, ease_out=3.0, loop=False)
    assert offsets()[0 if at < 0 else -1] == 0.0


def test_corrections_on_both_sides_of_a_seam_close(figure: Any) -> None:
    """The second one takes away where the first one had ended, at both ends alike."""
    posing.targets_from_animation(figure)
    hand = figure.poise.effectors["hand.L"].target
    for at, way in ((FRAMES[2], 0.1), (FRAMES[-2], -0.05)):
        bpy.context.scene.frame_set(at)
        hand.location.z += way
        posing.correct(figure, ease_in=4.0, ease_out=4.0, loop=True)
    ends = []
    for frame in (FRAMES[0], FRAMES[-1]):
        for beside in (-0.25, 0.0, 0.25):
            bpy.context.scene.frame_set(frame - (beside < 0.0), subframe=beside % 1.0)
            ends.append(hand.delta_location.z)
    assert ends[:3] == pytest.approx(ends[3:], abs=SAME) and np.abs(ends).max() > 1e-3
    # A range that is not there has no other end.
    figure.poise.bake_loop, figure.poise.bake_range = True, 'PREVIEW'
    hand.location.z += 0.1
    assert posing.correct(figure).effectors == ("hand.L",)


def test_the_command_line_keys_targets(tmp_path: Path) -> None:
    recorded()
    clip, output = str(tmp_path / "clip.blend"), str(tmp_path / "out.blend")
    bpy.ops.wm.save_as_mainfile(filepath=clip)
    assert cli.run(["targets", clip, "--start", "3"]) == Exit.REFUSED
    assert cli.run(["targets", clip, "--start", "3", "--end", "8", "--output", output]) == Exit.REACHED
    bpy.ops.wm.open_mainfile(filepath=output)
    figure = bpy.data.objects["humanoid"]
    assert figure.poise.recording is not None and "hand.L" in figure.poise.effectors


def test_correct_takes_all_that_was_moved_whatever_is_selected(figure: Any) -> None:
    assert bpy.ops.poise.targets_from_animation() == {'FINISHED'}
    bpy.context.scene.frame_set(6)
    hands = [figure.poise.effectors[name].target for name in ("hand.L", "hand.R")]
    for hand in hands:
        hand.location.z += 0.1
    for item in bpy.context.selected_objects:
        item.select_set(False)
    hands[1].select_set(True)  # as after its handle was dragged
    bpy.context.view_layer.objects.active = hands[1]
    assert bpy.ops.poise.correct() == {'FINISHED'}
    assert [hand.delta_location.z for hand in hands] == pytest.approx([0.1, 0.1])


def test_buttons_do_what_the_functions_do(figure: Any) -> None:
    assert bpy.ops.poise.targets_from_animation() == {'FINISHED'}
    bpy.context.scene.frame_set(6)
    target = figure.poise.effectors["hand.L"].target
    keyed = target.location.copy()
    target.location.z += 0.1
    figure.poise.ease_unit, figure.poise.ease_in = 'SECONDS', 3.0 / 24.0
    assert bpy.ops.poise.correct() == {'FINISHED'}
    assert (target.location - keyed).length < SAME and target.delta_location.z == pytest.approx(0.1)
    bpy.context.scene.frame_set(3)
    assert target.delta_location.z == 0.0
    assert bpy.ops.poise.corrections(action='TOGGLE') == {'FINISHED'}
    assert posing.corrections_on(figure) is False
    assert bpy.ops.poise.corrections(action='REMOVE') == {'FINISHED'}
    assert posing.corrections_on(figure) is None

# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets that are brought to their bones, and keyed: what a solve then changes, and what is refused."""

from itertools import pairwise
from math import pi, radians
from typing import Any

import bpy
import numpy as np
import pytest
from mathutils import Matrix

from blender_ik_addon.core import IKError
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.effectors.effectors import present_state
from blender_ik_addon.scene.live import following as live_following
from blender_ik_addon.scene.live.dragging import Drag
from blender_ik_addon.scene.live.machine import Trigger

from .actions import channelbag_of
from .builders import basic_human_metarig
from .measured import matrices, miss
from .records import pose_mode

SHOWN = 1e-5
"""Entry of a bone's matrix [1, m] that a solve may change where all targets are reached."""
NEAR = 1e-5
"""How far a target may be from its bone [m], in single precision."""


def figure_set_up() -> Any:
    figure = basic_human_metarig()
    for bone in figure.pose.bones:
        bone.rotation_mode = 'XYZ'
    posing.setup_character(figure)
    return figure


@pytest.fixture
def figure() -> Any:
    """The character, at rest."""
    return figure_set_up()


def posed(figure: Any) -> None:
    """Turn limbs and trunk by hand, as FK does."""
    turns = {
        "upper_arm.L": (20.0, 10.0, -15.0),
        "forearm.L": (35.0, 0.0, 0.0),
        "spine.002": (12.0, 0.0, 8.0),
        "thigh.R": (-25.0, 0.0, 5.0),
        "shin.R": (40.0, 0.0, 0.0),
    }
    for bone, angles in turns.items():
        figure.pose.bones[bone].rotation_euler = [radians(angle) for angle in angles]
    bpy.context.view_layer.update()


NAMES = ("hips", "foot.L", "foot.R", "hand.L", "hand.R", "head")


def index(figure: Any, name: str) -> int:
    return figure.poise.effectors.find(name)


def targets_as_they_are(figure: Any) -> list[Any]:
    return [
        (
            tuple(entry.target.location),
            tuple(entry.target.rotation_euler),
            entry.state,
            tuple(entry.pin_matrix),
        )
        for entry in figure.poise.effectors
    ]


def changed_since(before: list[Any], figure: Any) -> list[str]:
    """Names of the effectors whose target or state is another one; all are held as they are shown."""
    now = zip(figure.poise.effectors.keys(), before, targets_as_they_are(figure), strict=True)
    return [name for name, old, new in now if old[:3] != new[:3]]


def test_after_snapping_a_posed_figure_stays_when_it_is_solved(figure: Any) -> None:
    posed(figure)
    report = posing.snap_targets(figure)
    assert {*NAMES} <= {*report.effectors}
    assert (
        max(miss(figure, name) for name in NAMES if figure.poise.effectors[name].kind != 'ORIENTATION') < NEAR
    )
    before = matrices(figure)
    assert posing.solve_pose(figure).reached
    np.testing.assert_allclose(matrices(figure), before, rtol=0.0, atol=SHOWN)


def test_only_those_that_are_meant_are_snapped(figure: Any) -> None:
    posed(figure)
    before = targets_as_they_are(figure)
    posing.snap_targets(figure, [index(figure, "hand.L")])
    assert changed_since(before, figure) == ["hand.L"]


def test_states_stay_when_targets_are_snapped(figure: Any) -> None:
    before = [entry.state for entry in figure.poise.effectors]
    posed(figure)
    posing.snap_targets(figure)
    posing.solve_pose(figure)
    assert [entry.state for entry in figure.poise.effectors] == before


def test_a_limb_that_was_off_is_taken_back_without_a_jump(figure: Any) -> None:
    hand = figure.poise.effectors["hand.L"]
    hand.enabled = False
    posed(figure)
    posing.snap_targets(figure)
    hand.enabled = True
    before = matrices(figure)
    assert posing.solve_pose(figure).reached
    np.testing.assert_allclose(matrices(figure), before, rtol=0.0, atol=SHOWN)


def test_a_motion_of_bones_becomes_one_of_targets(figure: Any) -> None:
    """A turning figure: targets go on from frame to frame, and a bake from them gives the same motion."""
    scene = bpy.context.scene
    frames = range(1, 25)
    scene.frame_start, scene.frame_end = frames[0], frames[-1]
    turned, arm = figure.pose.bones["spine"], figure.pose.bones["upper_arm.L"]
    for bone in (turned, arm):
        bone.rotation_mode = 'XYZ'
    for frame, angle in ((1, 0.0), (24, 200.0)):
        turned.rotation_euler = (0.0, radians(angle), 0.0)  # about the length of the lowest bone of the spine
        turned.location = (0.0, 0.0, 0.002 * frame)
        arm.rotation_euler = (radians(0.2 * angle), 0.0, 0.0)
        for bone in (turned, arm):
            bone.keyframe_insert("rotation_euler", frame=frame)
        turned.keyframe_insert("location", frame=frame)
    scene.frame_set(7)
    recorded = {}
    for frame in frames:
        scene.frame_set(frame)
        recorded[frame] = matrices(figure)
    scene.frame_set(7)

    report = posing.snap_targets(figure, frames=frames)
    assert report.keyed_frames == len(frames)
    assert scene.frame_current == 7
    np.testing.assert_allclose(matrices(figure), recorded[7], rtol=0.0, atol=SHOWN)
    names = [name for name in NAMES if figure.poise.effectors[name].kind != 'ORIENTATION']
    for frame in (1, 2, 12, 24):
        scene.frame_set(frame)
        assert max(miss(figure, name) for name in names) < NEAR
    for entry in figure.poise.effectors:
        for curve in channelbag_of(entry.target).fcurves:
            assert np.abs(np.diff([key.co[1] for key in curve.keyframe_points])).max() < 0.5
    assert posing.bake(figure, frames, replace=True).reached


def test_keys_of_targets_are_at_the_present_frame(figure: Any) -> None:
    bpy.context.scene.frame_set(5)
    figure.poise.effectors["hand.L"].target.location.x += 0.01
    report = posing.key_targets(figure, [index(figure, "hand.L")])
    assert report.effectors == ("hand.L",)
    curves = channelbag_of(figure.poise.effectors["hand.L"].target).fcurves
    assert {key.co[0] for curve in curves for key in curve.keyframe_points} == {5.0}
    assert figure.poise.effectors["hand.R"].target.animation_data is None


def test_time_that_is_remapped_is_mapped(figure: Any) -> None:
    scene, entries = bpy.context.scene, figure.poise.effectors
    scene.render.frame_map_new = 300
    posing.roll_feet(figure)
    wanted: dict[int, tuple[list[float], float, np.ndarray]] = {}
    for frame, way in ((4, 0.03), (10, -0.05), (20, 0.0)):
        scene.frame_set(frame)
        entries["hand.L"].target.location.y += way
        entries["foot.L"].roll = abs(way)
        assert posing.solve_pose(figure).reached
        posing.key_targets(figure)
        posing.key_pose(figure)
        wanted[frame] = [*entries["hand.L"].target.location], entries["foot.L"].roll, matrices(figure)
    for frame, (place, roll, bones) in wanted.items():
        scene.frame_set(frame)
        np.testing.assert_allclose(entries["hand.L"].target.location, place, atol=NEAR)
        assert entries["foot.L"].roll == pytest.approx(roll)
        np.testing.assert_allclose(matrices(figure), bones, atol=SHOWN)
        assert present_state(figure, entries["hips"]) == 'FOLLOW'
    frames = range(4, 21)
    assert posing.snap_targets(figure, [index(figure, "hand.L")], frames=frames).keyed_frames == len(frames)
    for frame in frames:
        scene.frame_set(frame)
        assert miss(figure, "hand.L") < NEAR


@pytest.mark.parametrize("mode", ["XYZ", "ZXY", "QUATERNION"])
def test_keys_of_a_turned_target_take_the_short_way_whatever_its_matrix_was_set_to(mode: str) -> None:
    figure = figure_set_up()
    entry = figure.poise.effectors["foot.L"]
    target = entry.target
    target.rotation_mode = mode
    turns = [
        Matrix.Rotation(radians(170), 4, 'X'),
        Matrix.Rotation(radians(60), 4, 'Z'),
        Matrix.Rotation(radians(70), 4, 'X'),
    ]
    frames = (1, 11, 21)
    wanted = []
    for frame, turn in zip(frames, turns, strict=True):
        bpy.context.scene.frame_set(frame)
        place = target.matrix_world.translation.copy()
        wanted.append((wanted[-1] if wanted else target.matrix_world.to_3x3()).copy())
        wanted[-1].rotate(turn.to_3x3())
        target.matrix_world = Matrix.Translation(place) @ wanted[-1].to_4x4()
        if frame == 11:  # the same orientation in other words
            channel = "rotation_quaternion" if mode == 'QUATERNION' else "rotation_euler"
            values = getattr(target, channel)
            setattr(
                target,
                channel,
                [-v for v in values] if mode == 'QUATERNION' else [v + 2 * pi for v in values],
            )
        posing.key_targets(figure, [index(figure, "foot.L")])
    played = []
    for frame in range(1, 22):
        bpy.context.scene.frame_set(frame)
        played.append(target.matrix_world.to_quaternion())
    for frame, orientation in zip(frames, wanted, strict=True):
        assert played[frame - 1].rotation_difference(orientation.to_quaternion()).angle % (2 * pi) < 1e-3
    steps = [one.rotation_difference(other).angle for one, other in pairwise(played)]
    steps = [min(step, 2 * pi - step) for step in steps]
    assert sum(steps[:10]) < 1.6 * radians(60) and sum(steps[10:]) < 1.6 * radians(70)


def constrained(target: Any) -> None:
    target.constraints.new('COPY_LOCATION').name = "Held"


def driven(target: Any) -> None:
    target.driver_add("location", 0).driver.expression = "0.5"


def locked(target: Any) -> None:
    target.lock_location = (True, False, False)


def hidden(target: Any) -> None:
    target.hide_set(True)


def in_hidden_collection(target: Any) -> None:
    """By the eye in the Outliner: Alt H does not show it."""
    excluded(target)
    collections = bpy.context.view_layer.layer_collection.children["Other"]
    collections.exclude, collections.hide_viewport = False, True


def disabled(target: Any) -> None:
    target.hide_viewport = True


def excluded(target: Any) -> None:
    other = bpy.data.collections.new("Other")
    bpy.context.scene.collection.children.link(other)
    target.users_collection[0].objects.unlink(target)
    other.objects.link(target)
    bpy.context.view_layer.layer_collection.children["Other"].exclude = True


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (disabled, "disabled in viewports"),
        (excluded, "not in this view layer"),
        (constrained, "has constraints (Held)"),
        (driven, "moved by drivers"),
        (locked, "is locked"),
        (hidden, "is hidden; show it (Alt H)"),
        (in_hidden_collection, "is in a hidden collection"),
    ],
)
def test_targets_that_cannot_be_moved_are_named_and_stay(spoil: Any, said: str, figure: Any) -> None:
    hand = figure.poise.effectors["hand.L"]
    spoil(hand.target)
    posed(figure)
    before = targets_as_they_are(figure)
    with pytest.raises(IKError, match=r"hand\.L") as refused:
        posing.snap_targets(figure, [index(figure, "hand.L")])
    assert said in str(refused.value)
    assert targets_as_they_are(figure) == before
    report = posing.snap_targets(figure)  # the others come
    assert "hand.L" not in report.effectors
    assert any(said in note for note in report.notes)


def test_a_target_of_two_goes_to_the_first_and_the_other_is_named(figure: Any) -> None:
    effectors = figure.poise.effectors
    effectors["hand.R"].target = effectors["hand.L"].target
    report = posing.snap_targets(figure)
    assert "hand.L" in report.effectors and "hand.R" not in report.effectors
    assert any("hand.L has the same target" in note for note in report.notes)
    assert posing.snap_targets(figure, [index(figure, "hand.R")]).effectors == ("hand.R",)


def test_an_armature_that_is_its_own_target_stays_and_gets_no_keys(figure: Any) -> None:
    figure.poise.effectors["hand.L"].target = figure
    posed(figure)
    before = figure.matrix_world.copy()
    for act in (posing.snap_targets, posing.key_targets):
        report = act(figure)
        assert "hand.L" not in report.effectors
        assert any("is the armature itself" in note for note in report.notes)
    assert figure.matrix_world == before
    assert figure.animation_data is None or figure.animation_data.action is None


def test_curves_that_are_locked_are_told_before_any_key_is_written(figure: Any) -> None:
    target = figure.poise.effectors["hand.L"].target
    target.keyframe_insert("location", frame=1)
    for curve in channelbag_of(target).fcurves:
        curve.lock = True
    with pytest.raises(IKError, match="unlock them in the Graph Editor"):
        posing.key_targets(figure, [index(figure, "hand.L")])
    with pytest.raises(IKError, match="unlock them in the Graph Editor"):
        posing.snap_targets(figure, [index(figure, "hand.L")], frames=range(1, 4))


def test_a_bone_that_is_scaled_to_nothing_leaves_all_as_it_was(figure: Any) -> None:
    posed(figure)
    figure.poise.effectors["hand.R"].kind = 'BOTH'
    posing.set_state(figure, index(figure, "hand.R"), 'PIN')
    figure.pose.bones["hand.R"].scale = (0.0, 0.0, 0.0)
    bpy.context.view_layer.update()
    before = targets_as_they_are(figure)
    with pytest.raises(IKError, match=r"hand\.R"):
        posing.snap_targets(figure)
    assert targets_as_they_are(figure) == before


def test_the_operators_act_on_what_is_selected(figure: Any) -> None:
    posed(figure)
    pose_mode(figure, "hand.L")
    before = targets_as_they_are(figure)
    assert bpy.ops.poise.snap_targets() == {'FINISHED'}
    assert changed_since(before, figure) == ["hand.L"]
    assert bpy.ops.poise.select_targets() == {'FINISHED'}
    assert {entry.target for entry in figure.poise.effectors} == {*bpy.context.selected_objects}


def test_key_targets_keys_the_whole_pose_whatever_is_selected_and_the_chosen_ones_on_demand() -> None:
    figure = figure_set_up()
    targets = {entry.name: entry.target for entry in figure.poise.effectors}
    for target in bpy.context.selected_objects:
        target.select_set(False)
    targets["hand.L"].select_set(True)  # as after its handle was dragged
    bpy.context.view_layer.objects.active = targets["hand.L"]
    assert bpy.ops.poise.key_targets(which='CHOSEN') == {'FINISHED'}
    assert {name for name, target in targets.items() if target.animation_data} == {"hand.L"}
    assert bpy.ops.poise.key_targets() == {'FINISHED'}
    assert {name for name, target in targets.items() if target.animation_data} == {*targets}


def following(figure: Any) -> None:
    """Live, in rest with its targets."""
    figure.poise.live = True
    for _ in range(3):
        bpy.context.view_layer.update()


def turned(figure: Any, bone: str, degrees: float) -> None:
    """Pose a bone by hand."""
    figure.pose.bones[bone].rotation_euler.x += radians(degrees)
    bpy.context.view_layer.update()
    bpy.context.view_layer.update()


def test_a_bone_posed_by_hand_takes_its_target_along_in_live_mode(figure: Any) -> None:
    following(figure)
    turned(figure, "forearm.L", 30.0)
    assert miss(figure, "hand.L") < NEAR
    posed_so = matrices(figure)
    for _ in range(3):
        figure.update_tag()
        bpy.context.view_layer.update()
    np.testing.assert_array_equal(matrices(figure), posed_so)
    assert figure.poise.last_reached
    place = figure.poise.effectors["hand.L"].target.matrix_world.translation.copy()
    figure.poise.effectors["hand.R"].target.location.z += 0.02
    bpy.context.view_layer.update()
    assert (figure.poise.effectors["hand.L"].target.matrix_world.translation - place).length < NEAR
    assert miss(figure, "hand.L") < 1e-3 and miss(figure, "hand.R") < 1e-3


def test_pins_stay_where_a_bone_above_them_is_posed(figure: Any) -> None:
    following(figure)
    before = [tuple(figure.poise.effectors[name].pin_matrix) for name in ("foot.L", "foot.R")]
    turned(figure, "thigh.L", 20.0)
    assert [tuple(figure.poise.effectors[name].pin_matrix) for name in ("foot.L", "foot.R")] == before
    assert [figure.poise.effectors[name].state for name in ("foot.L", "foot.R")] == ['PIN', 'PIN']


def test_targets_with_keys_stay_where_a_bone_is_posed(figure: Any) -> None:
    hand = figure.poise.effectors["hand.L"].target
    hand.keyframe_insert("location", frame=1)
    following(figure)
    before = tuple(hand.location)
    turned(figure, "forearm.L", 30.0)
    assert tuple(hand.location) == before


def test_without_the_setting_targets_stay_where_a_bone_is_posed(figure: Any) -> None:
    figure.poise.fk_moves_targets = False
    following(figure)
    before = tuple(figure.poise.effectors["hand.L"].target.location)
    turned(figure, "forearm.L", 30.0)
    assert tuple(figure.poise.effectors["hand.L"].target.location) == before
    assert not figure.poise.last_reached


def test_a_pose_that_is_taken_back_under_a_tool_takes_targets_back(figure: Any) -> None:
    """As with Escape: a target that was out of reach is not left at its bone."""
    figure.poise.effectors["hand.L"].target.location.x += 1.0
    following(figure)
    target = figure.poise.effectors["hand.L"].target
    before, missed = tuple(target.location), miss(figure, "hand.L")
    shown = figure.poise.last_message
    assert missed > 0.1
    bone = figure.pose.bones["forearm.L"]
    depsgraph = bpy.context.evaluated_depsgraph_get()
    angles = tuple(bone.rotation_euler)
    for degrees in (10.0, 20.0, 0.0):
        with live_following.held(figure):
            bone.rotation_euler.x = angles[0] + radians(degrees)
            bpy.context.view_layer.update()
        live_following.follow(figure, depsgraph, Trigger.GESTURE)
        with live_following.held(figure):
            assert degrees == 0.0 or miss(figure, "hand.L") < NEAR
    assert tuple(target.location) == before
    assert figure.poise.last_message == shown


def test_a_natural_body_hangs_its_arms_and_keeps_its_feet(figure: Any) -> None:
    for name in ("hand.L", "hand.R"):
        figure.poise.effectors[name].enabled = False
    before = {side: figure.pose.bones[f"foot.{side}"].head.copy() for side in "LR"}
    report = posing.make_natural(figure)
    assert report is not None and report.reached
    bpy.context.view_layer.update()
    bones = figure.pose.bones
    for side in "LR":
        assert (bones[f"foot.{side}"].head - before[side]).length < NEAR
        arm = bones[f"forearm.{side}"].head - bones[f"upper_arm.{side}"].head
        assert -arm.z > 0.9 * arm.length
    at_ease = matrices(figure)
    posing.solve_pose(figure)
    np.testing.assert_allclose(matrices(figure), at_ease, rtol=0.0, atol=SHOWN)


def test_a_natural_pose_tells_which_hands_hold_their_places(figure: Any) -> None:
    report = posing.make_natural(figure)
    assert report is not None and report.reached
    assert report.notes[-1] == "hand.L, hand.R hold their places: set them to Follow for arms that hang"
    assert "hold their places" in figure.poise.last_message
    figure.poise.effectors["hand.R"].state = 'FOLLOW'
    report = posing.make_natural(figure)
    assert report is not None
    assert report.notes[-1] == "hand.L holds its place: set it to Follow for an arm that hangs"


def test_a_limb_that_hangs_leaves_the_rest_of_the_body(figure: Any) -> None:
    figure.poise.effectors["hand.L"].enabled = False
    others = [bone.name for bone in figure.pose.bones if not bone.name.endswith(".L")]
    before = {name: np.array(figure.pose.bones[name].matrix) for name in others}
    posing.make_natural(figure, ["hand.L"])
    bpy.context.view_layer.update()
    for name in others:
        np.testing.assert_allclose(figure.pose.bones[name].matrix, before[name], rtol=0.0, atol=1e-3)
    arm = figure.pose.bones["forearm.L"].head - figure.pose.bones["upper_arm.L"].head
    assert -arm.z > 0.9 * arm.length


def test_a_natural_pose_is_refused_where_none_is_known(figure: Any) -> None:
    before = matrices(figure)
    with pytest.raises(IKError, match="no natural pose is known"):
        posing.make_natural(figure, ["heel.02.L"])
    np.testing.assert_array_equal(matrices(figure), before)


def test_solve_and_bake_take_no_target_along(figure: Any) -> None:
    """Of a target out of reach: it stays there, however Poise poses the bones."""
    following(figure)
    target = figure.poise.effectors["hand.L"].target
    target.location.x += 1.0
    bpy.context.view_layer.update()
    place = tuple(target.location)
    posing.solve_pose(figure)
    bpy.context.view_layer.update()
    assert tuple(target.location) == place
    posing.bake(figure, range(1, 3))
    for _ in range(2):
        figure.update_tag()
        bpy.context.view_layer.update()
    assert tuple(target.location) == place


def test_a_drag_that_is_cancelled_takes_no_target_along(figure: Any) -> None:
    following(figure)
    target = figure.poise.effectors["hand.L"].target
    target.location.x += 1.0
    bpy.context.view_layer.update()
    place, shown = tuple(target.location), figure.poise.last_message
    drag = Drag(figure, "forearm.L")
    for _ in range(2):
        drag.move(drag.place + np.array((0.0, -0.05, 0.05)))
        bpy.context.view_layer.update()
    drag.cancel()
    bpy.context.view_layer.update()
    assert tuple(target.location) == place and miss(figure, "hand.L") > 0.1
    assert "hand.L" in figure.poise.last_message and "hand.L" in shown


def test_a_mirrored_pose_is_measured_in_live_mode_and_takes_no_target_along(figure: Any) -> None:
    following(figure)
    target = figure.poise.effectors["hand.L"].target
    target.location.z -= 0.2
    bpy.context.view_layer.update()
    place = tuple(target.location)
    assert figure.poise.last_reached
    posing.mirror(figure, settings=False, targets=False, limits=False)
    bpy.context.view_layer.update()
    assert tuple(target.location) == place and miss(figure, "hand.L") > 0.1
    assert not figure.poise.last_reached and "hand.L" in figure.poise.last_message


def test_live_and_solve_say_the_same_of_what_follows(figure: Any) -> None:
    """That it is missed by nothing, also where a target out of reach pulls the whole body."""
    following(figure)
    figure.poise.effectors["hand.L"].target.location.x += 1.0
    bpy.context.view_layer.update()
    live = [(entry.error_position, entry.error_rotation) for entry in figure.poise.effectors]
    posing.solve_pose(figure)
    solved = [(entry.error_position, entry.error_rotation) for entry in figure.poise.effectors]
    for shown, measured in zip(live, solved, strict=True):
        assert [amount < 0.0 for amount in shown] == [amount < 0.0 for amount in measured]


def test_a_target_that_was_deleted_is_named_when_all_are_snapped(figure: Any) -> None:
    bpy.data.objects.remove(figure.poise.effectors["hand.L"].target)
    report = posing.snap_targets(figure)
    assert "hand.L" not in report.effectors
    assert any(note.startswith("hand.L: it has no target") for note in report.notes)

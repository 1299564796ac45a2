# SPDX-License-Identifier: GPL-3.0-or-later
"""Live mode, as a specification: what makes a body follow, what does not, and what survives what."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

import blender_ik_addon
from blender_ik_addon.core import IKError
from blender_ik_addon.core.engine import restarts
from blender_ik_addon.core.solve.follower import Follower
from blender_ik_addon.core.solve.tracker import Tracker
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.live import following
from blender_ik_addon.scene.live import handlers as live
from blender_ik_addon.scene.live.driven_bones import MOST_SOLVES
from blender_ik_addon.scene.live.machine import LIVE, State, Trigger
from blender_ik_addon.ui import panels

from . import builders
from .actions import channelbag_of, points
from .records import action_record, pose_record

HALF_MILLIMETRE = 5e-4

Counts = list[int]

MOST_LOOKS = 16
"""Updates in which a body with resting targets comes to rest, four times over."""


@pytest.fixture(autouse=True)
def solves(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counts]:
    """One number for each solve of live mode: how many iterations it took."""
    found: Counts = []

    def counted(does: Callable[..., Any]) -> Callable[..., Any]:
        def does_and_counts(*arguments: Any, **options: Any) -> Any:
            solution = does(*arguments, **options)
            found.append(solution.iterations)
            return solution

        return does_and_counts

    monkeypatch.setattr(Tracker, "solve", counted(Tracker.solve))
    monkeypatch.setattr(Follower, "follow", counted(Follower.follow))
    monkeypatch.setattr(Follower, "arrive", counted(Follower.arrive))
    yield found
    LIVE.forget()


def arm(name: str = "arm", *, on: bool = True) -> Any:
    """Four connected bones, 0.3 m each, on a root that stays; the tip follows an empty that is in reach."""
    armature = builders.chain(4, 0.3, name=name)
    armature.poise.move_root = False
    posing.add_effector(armature, "bone.003", kind='POSITION')
    move(armature, (0.4, 0.2, 0.5))
    if on:
        posing.switch_live(armature, True)
        update()
    return armature


@pytest.fixture
def armature() -> Any:
    """The arm, with live mode on."""
    return arm()


def target(armature: Any) -> Any:
    return armature.poise.effectors[0].target


def update() -> None:
    bpy.context.view_layer.update()


def evaluated(obj: Any) -> Any:
    return obj.evaluated_get(bpy.context.view_layer.depsgraph)


def miss(armature: Any) -> float:
    """Distance of the followed point from its target [m], measured without the add-on."""
    entry = armature.poise.effectors[0]
    posed, goal = evaluated(armature), evaluated(entry.target)
    place = posed.matrix_world @ posed.pose.bones[entry.bone].matrix.translation
    wanted = goal.matrix_world
    if entry.target_bone:
        wanted = wanted @ goal.pose.bones[entry.target_bone].matrix
    return (place - wanted.translation).length


def channels(armature: Any) -> Any:
    return np.array([[*b.location, *b.rotation_quaternion, *b.scale] for b in armature.pose.bones])


def move(armature: Any, place: Any = None, **axes: float) -> None:
    """Put the target somewhere, or some of its coordinates; an update follows."""
    goal = target(armature)
    if place is not None:
        goal.location = place
    for axis, value in axes.items():
        setattr(goal.location, axis, value)
    update()


def update_with(block: Any) -> None:
    """An update in which no target has moved."""
    block.update_tag()
    update()


@contextmanager
def one_solve(armature: Any, solves: Counts) -> Iterator[None]:
    """What is done leads to one solve, which reaches the target."""
    solves.clear()
    yield
    assert len(solves) == 1 and miss(armature) < HALF_MILLIMETRE


def polls(armature: Any) -> Iterator[tuple[float | None, float]]:
    """Poll until the body rests: gives each pause, None at rest, and the largest turn of a bone."""
    before = channels(armature)
    for _ in range(4 * MOST_LOOKS):
        pause = live.poll()
        after = channels(armature)
        yield pause, turn(before, after)
        if pause is None:
            return
        before = after


def poll_until_at_rest() -> None:
    for _ in range(4 * MOST_LOOKS):
        if live.poll() is None:
            break


def assert_stands_as_solved(armature: Any, atol: float = 1e-5) -> None:
    stands = channels(armature)
    posing.solve_pose(armature)
    np.testing.assert_allclose(channels(armature), stands, atol=atol)


# What makes a body follow


def test_the_body_moves_when_its_target_does(solves: Counts, armature: Any):
    assert miss(armature) < HALF_MILLIMETRE
    solves.clear()
    target(armature).location = (-0.3, 0.4, 0.6)
    assert solves == []
    update()
    assert miss(armature) < HALF_MILLIMETRE
    assert len(solves) == 1
    assert armature.poise.last_reached
    assert "reached" in armature.poise.last_message


def test_it_gives_what_solve_pose_gives():
    armature, other = arm("live"), arm("other", on=False)
    for place in ((0.4, 0.2, 0.5), (0.3, 0.3, 0.6), (0.1, -0.5, 0.4)):
        for obj in (armature, other):
            move(obj, place)
        report = posing.solve_pose(other)
        assert report.reached
        np.testing.assert_allclose(channels(armature), channels(other), atol=2e-4)


def test_out_of_reach_it_says_by_how_much_and_the_list_shows_it(armature: Any):
    move(armature, (0.0, 3.0, 0.0))
    entry = armature.poise.effectors[0]
    assert not armature.poise.last_reached
    assert "reach" in entry.why and entry.why in armature.poise.last_message
    assert entry.error_position == pytest.approx(miss(armature), abs=1e-3)
    assert armature.poise.live_problem == ""


def parent(armature: Any, goal: Any) -> Any:
    mover = builders.empty("mover")
    goal.parent = mover
    return lambda: setattr(mover, "location", (0.05, 0.05, 0.0))


def constraint(armature: Any, goal: Any) -> Any:
    mover = builders.empty("mover", goal.location)
    goal.constraints.new('COPY_LOCATION').target = mover
    return lambda: setattr(mover, "location", (0.3, 0.1, 0.6))


def driver(armature: Any, goal: Any) -> Any:
    mover = builders.empty("mover")
    driven = goal.driver_add("location", 2).driver
    variable = driven.variables.new()
    variable.type = 'TRANSFORMS'
    variable.targets[0].id = mover
    variable.targets[0].transform_type = 'LOC_Z'
    driven.expression = f"{variable.name} + 0.5"
    return lambda: setattr(mover, "location", (0.0, 0.0, 0.2))


def bone(armature: Any, goal: Any) -> Any:
    other = builders.chain(1, 0.3, name="other")
    other.location = (0.3, 0.2, 0.5)
    entry = armature.poise.effectors[0]
    entry.target, entry.target_bone = other, "bone.000"
    return lambda: setattr(other.pose.bones[0], "location", (0.1, 0.0, 0.1))


def armature_object(armature: Any, goal: Any) -> Any:
    return lambda: setattr(armature, "rotation_euler", (0.2, 0.1, 0.4))


@pytest.mark.parametrize("build", [parent, constraint, driver, bone, armature_object])
def test_whatever_moves_the_target_or_the_object_moves_the_body(build: Any, solves: Counts, armature: Any):
    move = build(armature, target(armature))
    update()
    update()  # the entry of a list may have been changed by a script, of which Blender tells nobody
    update_with(armature)
    assert miss(armature) < HALF_MILLIMETRE
    before = channels(armature)
    solves.clear()
    move()
    update()
    assert miss(armature) < HALF_MILLIMETRE
    assert len(solves) == 1
    assert np.abs(channels(armature) - before).max() > 0.01


@pytest.mark.parametrize(
    ("name", "value"), [("weight", 0.5), ("point", (0.0, 0.1, 0.0)), ("enabled", False), ("influence", 0.5)]
)
def test_settings_count_as_movement(name: str, value: Any, solves: Counts, armature: Any):
    posing.add_effector(armature, "bone.001", kind='ORIENTATION')
    update_with(armature)
    solves.clear()
    setattr(armature.poise.effectors[0], name, value)
    armature.update_tag()  # as the panel does
    update()
    assert len(solves) == 1


def test_lengths_and_planes_count_as_movement(armature: Any):
    """What a task has besides its target: the problem of the update before is no good then."""
    entry, goal = armature.poise.effectors[0], target(armature)
    entry.kind = 'DISTANCE'
    for distance in (0.2, 0.3):
        entry.distance = distance
        update_with(armature)
        assert miss(armature) == pytest.approx(distance, abs=HALF_MILLIMETRE)
    entry.kind = 'PLANE'
    for angle in (0.2, 0.4):
        goal.rotation_euler.x = angle
        update_with(armature)
        tip = goal.matrix_world.inverted() @ evaluated(armature).pose.bones["bone.003"].head
        assert abs(tip.z - entry.height) < HALF_MILLIMETRE


def test_limits_and_locks_count_as_movement(solves: Counts, armature: Any):
    for bone in armature.pose.bones:
        bone.rotation_mode = 'XYZ'
    update()
    solves.clear()
    tip = armature.pose.bones["bone.001"]
    tip.use_ik_limit_x, tip.ik_min_x, tip.ik_max_x = True, -0.05, 0.05
    update()
    assert len(solves) == 1
    assert abs(tip.rotation_euler.x) <= 0.05 + 1e-6
    assert miss(armature) < HALF_MILLIMETRE
    before = tip.rotation_euler[:]
    tip.lock_rotation = (True, True, True)
    target(armature).location.x -= 0.1
    update()
    assert tip.rotation_euler[:] == before


def test_limits_of_our_own_count_though_blender_tells_nobody_of_them(solves: Counts, armature: Any):
    entry = armature.poise.joints.add()
    entry.name, entry.use_limit = "bone.001", (True, True, True)
    entry.lower, entry.upper = (-0.05,) * 3, (0.05,) * 3
    target(armature).location.x -= 0.1
    update()
    turned = armature.pose.bones["bone.001"].rotation_quaternion.to_euler()
    assert len(solves) == 2 and max(abs(angle) for angle in turned) < 0.0501
    entry.lower, entry.upper = (-0.02,) * 3, (0.02,) * 3
    target(armature).location.x -= 0.1
    update()
    turned = armature.pose.bones["bone.001"].rotation_quaternion.to_euler()
    assert max(abs(angle) for angle in turned) < 0.0201


# What does not


def test_nothing_is_done_when_nothing_has_moved(solves: Counts, armature: Any):
    stranger = builders.empty("stranger")
    before = pose_record(armature)
    solves.clear()
    for number in range(3):
        update()
        stranger.location.x = number
        update()
        update_with(armature)
        target(armature).update_tag()
        update()
    bpy.context.scene.frame_set(7)
    assert solves == []
    assert pose_record(armature) == before


def test_names_do_not_count_as_movement(solves: Counts, armature: Any):
    solves.clear()
    target(armature).name = "renamed"
    armature.name = "also renamed"
    armature.poise.effectors[0].name = "tip"
    update_with(armature)
    assert solves == []
    move(armature, x=0.2)
    assert len(solves) == 1 and miss(armature) < HALF_MILLIMETRE


def test_a_bone_posed_by_hand_stays_until_the_target_moves(solves: Counts, armature: Any):
    tip = armature.pose.bones["bone.003"]
    solves.clear()
    tip.rotation_quaternion = (0.9, 0.0, 0.0, 0.43)
    update()
    posed = tip.rotation_quaternion[:]
    update()
    assert solves == [] and tip.rotation_quaternion[:] == posed
    target(armature).location.x -= 0.05
    update()
    assert len(solves) == 1 and miss(armature) < HALF_MILLIMETRE


@pytest.mark.parametrize(
    ("bone", "channel", "values"),
    [
        ("bone.000", "location", (0.0, 0.01, 0.0)),
        ("bone.001", "scale", (1.02, 1.02, 1.02)),
        ("bone.002", "scale", (1.0, 1.1, 1.0)),
    ],
)
def test_a_bone_posed_by_hand_stays_though_what_is_not_solved_is_posed_with_it(
    bone: str, channel: str, values: tuple[float, ...], solves: Counts, armature: Any
):
    middle = armature.pose.bones["bone.002"]
    solves.clear()
    middle.rotation_quaternion = (0.9, 0.0, 0.0, 0.43)
    posed = middle.rotation_quaternion[:]
    setattr(armature.pose.bones[bone], channel, values)
    update()
    update()
    assert solves == [] and middle.rotation_quaternion[:] == posed
    assert miss(armature) < HALF_MILLIMETRE


def test_another_rotation_mode_is_no_posing_by_hand(armature: Any):
    """Channels of all bones change with it, and nobody has moved a target that is out of reach."""
    move(armature, (3.0, 0.0, 0.0))
    before, missed = target(armature).location.copy(), miss(armature)
    select_all_bones(armature)
    bpy.ops.pose.rotation_mode_set(type='ZXY')
    update()
    assert target(armature).location == before and miss(armature) == pytest.approx(missed, abs=1e-4)


def select_all_bones(armature: Any) -> None:
    """Select them, in Pose Mode."""
    bpy.context.view_layer.objects.active = armature
    bpy.ops.object.mode_set(mode='POSE')
    bpy.ops.pose.select_all(action='SELECT')


def hands_of(figure: Any) -> Any:
    """Where both hands and their targets are, (2, 2, 3) [m]."""
    bones = evaluated(figure).pose.bones
    hands = [(bones[entry.bone].head, entry.target.location) for entry in figure.poise.effectors]
    return np.array([[*bone, *target] for bone, target in hands]).reshape(2, 2, 3)


@pytest.mark.parametrize("flipped", [False, True], ids=["plain", "flipped"])
def test_a_pose_that_is_pasted_stays_and_targets_come_along(flipped: bool, solves: Counts):
    """Blender reads what was copied as a file, and flips zeros to -0.0."""
    figure: Any = builders.humanoid()
    left, right = (
        figure.poise.effectors[posing.add_effector(figure, hand, kind='POSITION')].target
        for hand in ("hand.L", "hand.R")
    )
    posing.switch_live(figure, True)
    left.location = (0.4, -0.2, 1.7)
    right.location = (-0.3, -0.4, 1.1)
    update()
    select_all_bones(figure)
    bpy.ops.pose.copy()
    copied, places = channels(figure), hands_of(figure)
    left.location, right.location = (0.6, -0.1, 1.2), (-0.5, -0.1, 1.5)
    update()
    assert np.abs(hands_of(figure) - places).max() > 0.2
    solves.clear()
    bpy.ops.pose.paste(flipped=flipped)
    update()
    assert solves == []
    if flipped:
        places = places[::-1] * (-1.0, 1.0, 1.0)
    else:
        np.testing.assert_allclose(channels(figure), copied, atol=1e-6)
    np.testing.assert_allclose(hands_of(figure), places, atol=HALF_MILLIMETRE)


def test_a_pose_that_is_its_own_mirror_image_is_no_other_one_when_it_is_pasted_flipped():
    """Zeros are -0.0 then, and a target that is out of reach does not come to the body for that."""
    armature = builders.chain(4, 0.3)
    armature.poise.move_root = False
    posing.add_effector(armature, "bone.003", kind='POSITION')
    move(armature, (0.0, 0.0, 3.0))
    posing.switch_live(armature, True)
    select_all_bones(armature)
    bpy.ops.pose.copy()
    bpy.ops.pose.paste(flipped=True)
    update()
    assert target(armature).location.z == 3.0


def test_the_tick_goes_where_a_bone_is_posed_by_hand_and_comes_back_with_it(solves: Counts, armature: Any):
    armature.poise.fk_moves_targets = False
    entry, tip = armature.poise.effectors[0], armature.pose.bones["bone.003"]
    middle = armature.pose.bones["bone.002"]
    assert panels.state_of(armature)[1] == 'CHECKMARK'
    solves.clear()
    tip.rotation_quaternion = (0.9, 0.0, 0.0, 0.43)  # about the followed point
    update()
    assert panels.state_of(armature)[1] == 'CHECKMARK'
    before = middle.rotation_quaternion[:]
    middle.rotation_quaternion = (0.9, 0.0, 0.0, 0.43)
    update()
    off = miss(armature)
    text, icon = panels.state_of(armature)
    assert icon == 'ERROR' and text.startswith("1 of 1 targets missed: bone.003 by")
    assert entry.error_position == pytest.approx(off) and off > 0.01
    assert entry.why == "a bone was posed by hand, Solve goes back to the targets"
    assert panels.errors_of(armature.poise, entry) == ((f"{1000.0 * off:.0f} mm", True),)
    middle.rotation_quaternion = before
    update()
    assert panels.state_of(armature)[1] == 'CHECKMARK' and entry.why == "" and solves == []


def test_after_a_bake_misses_have_its_reasons_and_not_that_a_bone_was_posed_by_hand(armature: Any):
    for frame, x in ((3, 4.0), (1, 3.0)):
        move(armature, (x, 0.0, 0.0))
        target(armature).keyframe_insert("location", frame=frame)
    report = posing.bake(armature, range(1, 4))
    assert not report.reached and report.reasons[0]
    update_with(armature)
    entry = armature.poise.effectors[0]
    assert 1.0 < entry.error_position < report.position_errors.max() - 0.5  # those of the frame that is shown
    assert entry.why == f"in frame 3: {report.reasons[0]}"
    armature.poise.fk_moves_targets = False
    armature.pose.bones["bone.002"].rotation_quaternion = (0.9, 0.0, 0.0, 0.43)
    update()
    assert entry.why == "a bone was posed by hand, Solve goes back to the targets"


@pytest.mark.parametrize("place", [(0.3, 0.3, 0.6), (2700.1, 0.3, 0.6)])
def test_what_solve_says_stays_while_a_body_is_live(place: tuple[float, float, float], armature: Any):
    armature.poise.fk_moves_targets = False
    move(armature, place)
    armature.pose.bones["bone.002"].rotation_quaternion = (0.9, 0.0, 0.0, 0.43)
    update()
    assert "posed by hand" in armature.poise.effectors[0].why
    report = posing.solve_pose(armature)
    update()
    assert armature.poise.last_message == report.summary()
    assert "iteration" in report.summary() or "beyond the longest reach" in report.summary()


def test_a_bone_that_is_not_solved_counts_as_movement(solves: Counts, armature: Any):
    root = armature.pose.bones["bone.000"]
    root.lock_rotation = (True, True, True)
    update()
    with one_solve(armature, solves):
        root.rotation_quaternion = (0.995, 0.0, 0.0, 0.1)
        update()
    update()
    assert len(solves) == 1


def constrained(armature: Any, kind: str, place: tuple[float, float, float]) -> Any:
    """Let a constraint decide the second bone; what it looks at."""
    mover = builders.empty("mover", place)
    constraint = armature.pose.bones["bone.001"].constraints.new(kind)
    constraint.target = mover
    if kind == 'COPY_ROTATION':
        constraint.target_space = constraint.owner_space = 'WORLD'
    mover.rotation_euler = (1.2, 0.0, 0.2)
    update()
    live.poll()
    return mover


def test_what_a_constraint_holds_in_the_world_is_reached_in_one_solve(solves: Counts, armature: Any):
    mover = constrained(armature, 'COPY_ROTATION', (0.0, 0.0, 0.0))
    for move in (
        lambda: setattr(mover, "rotation_euler", (1.3, 0.1, 0.2)),
        lambda: setattr(target(armature), "location", (0.3, 0.1, 0.6)),
    ):
        with one_solve(armature, solves):
            move()
            update()
        live.poll()
        assert len(solves) == 1


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ('DAMPED_TRACK', (0.5, 0.1, 0.9)),
        ('LOCKED_TRACK', (0.5, 0.1, 0.9)),
        ('TRACK_TO', (0.3, -0.4, 0.3)),
        ('CHILD_OF', (0.5, 0.1, 0.9)),
    ],
)
def test_bones_that_answer_to_a_solve_come_to_rest(
    kind: str, place: tuple[float, float, float], solves: Counts
):
    armature = arm()
    mover = constrained(armature, kind, place)
    for move in (
        lambda: setattr(mover, "rotation_euler", (1.3, 0.1, 0.2)),
        lambda: setattr(mover, "location", np.add(place, (-0.05, 0.05, -0.05))),
        lambda: setattr(target(armature), "location", (0.3, 0.1, 0.6)),
    ):
        solves.clear()
        move()
        update()
        assert len(solves) <= 1  # none where the bone does not look at what has moved
        live.poll()  # with a window this is a timer, called before anything is drawn
        assert miss(armature) < HALF_MILLIMETRE
        assert len(solves) <= MOST_SOLVES
        solves.clear()
        live.poll()
        update_with(armature)
        assert solves == []


def test_without_a_window_each_update_goes_on_until_bones_are_at_rest(solves: Counts, armature: Any):
    mover = constrained(armature, 'DAMPED_TRACK', (0.5, 0.1, 0.9))
    mover.location = (0.4, 0.2, 0.8)
    for _ in range(MOST_SOLVES):
        update_with(armature)
    assert miss(armature) < HALF_MILLIMETRE
    solves.clear()
    update_with(armature)
    assert solves == []


def test_bones_that_never_come_to_rest_are_left_after_some_solves(solves: Counts, armature: Any):
    tip = armature.pose.bones["bone.001"].driver_add("rotation_quaternion", 1).driver
    source = tip.variables.new()
    source.type = 'TRANSFORMS'
    source.targets[0].id, source.targets[0].bone_target = armature, "bone.000"
    source.targets[0].transform_type, source.targets[0].transform_space = 'ROT_X', 'LOCAL_SPACE'
    tip.expression = f"sin(1e4 * {source.name})"  # as good as any number, whatever is solved
    update()
    live.poll()
    solves.clear()
    move(armature, (0.3, 0.1, 0.6))
    live.poll()
    assert 1 < len(solves) <= MOST_SOLVES
    assert not armature.poise.last_reached and "answer to each solve" in armature.poise.last_message
    assert armature.poise.effectors[0].error_position == pytest.approx(miss(armature), abs=1e-4)
    solves.clear()
    for _ in range(3):
        update_with(armature)
        live.poll()
    assert solves == []


def test_scripts_wait_for_bones_that_answer(solves: Counts):
    armature = arm(on=False)
    constrained(armature, 'DAMPED_TRACK', (0.5, 0.1, 0.9))
    target(armature).location = (0.3, 0.1, 0.6)
    assert posing.follow(armature) is not None
    update()
    assert miss(armature) < HALF_MILLIMETRE


# Influences below 1


def amount(armature: Any, influence: float) -> None:
    armature.poise.effectors[0].influence = influence
    armature.update_tag()  # as the panel does
    update()


def test_an_influence_is_a_part_of_the_way_however_often_the_scene_is_updated(solves: Counts):
    armature = arm(on=False)
    start = evaluated(armature).pose.bones["bone.003"].matrix.translation.copy()
    posing.switch_live(armature, True)
    update()
    amount(armature, 0.5)
    places = []
    for steps in (1, 20):
        move(armature, (-0.2, 0.1, 0.6))
        for step in range(1, steps + 1):
            move(armature, x=-0.2 + 0.4 * step / steps)
        for _ in range(3):
            update_with(armature)
        places.append(evaluated(armature).pose.bones["bone.003"].matrix.translation.copy())
    for place in places:
        assert (place - (start + target(armature).location) / 2).length < HALF_MILLIMETRE
    amount(armature, 1.0)
    assert miss(armature) < HALF_MILLIMETRE
    amount(armature, 0.25)
    place = evaluated(armature).pose.bones["bone.003"].matrix.translation
    assert (place - start.lerp(target(armature).location, 0.25)).length < HALF_MILLIMETRE


def test_an_influence_begins_where_the_animation_or_the_user_has_put_bones(armature: Any):
    tip, root = armature.pose.bones["bone.003"], armature.pose.bones["bone.000"]
    amount(armature, 0.5)
    root.lock_rotation, root.lock_rotation_w = (True, True, True), True
    for frame, angle in ((1, 0.0), (11, 0.4)):
        root.rotation_mode = 'XYZ'
        root.rotation_euler = (angle, 0.0, 0.0)
        root.keyframe_insert("rotation_euler", frame=frame)
    poses = []
    for _ in range(2):  # the bones without keys do not creep from frame to frame
        for frame in (1, 4, 11, 6):
            bpy.context.scene.frame_set(frame)
        poses.append(channels(armature))
    np.testing.assert_allclose(*poses, atol=1e-4)
    tip.rotation_quaternion = (0.9, 0.0, 0.0, 0.43)
    update()
    assert tip.rotation_quaternion[3] == pytest.approx(0.43, abs=1e-3)


def grasping() -> Any:
    """A live human whose hand is led to a raised target at frame 10, and has no influence at 1 and 20."""
    builders.basic_human_metarig()
    human: Any = bpy.context.view_layer.objects.active
    posing.setup_character(human)
    posing.switch_live(human, True)
    entries = human.poise.effectors
    move_target(entries["hand.R"].target, x=-0.1, y=-0.2, z=0.3)
    for frame, influence in ((1, 0.0), (10, 1.0), (20, 0.0)):
        entries["hand.R"].influence = influence
        entries["hand.R"].keyframe_insert("influence", frame=frame)
    bpy.context.scene.frame_end = 20
    return human


def move_target(empty: Any, **way: float) -> None:
    for axis, amount in way.items():
        setattr(empty.location, axis, getattr(empty.location, axis) + amount)
    update()


def shown(human: Any, frame: int) -> Any:
    bpy.context.scene.frame_set(frame)
    return np.array([bone.matrix.translation for bone in evaluated(human).pose.bones])


def test_a_frame_without_influence_is_the_same_whatever_frame_was_shown_before():
    """The arm stayed where the last frame that was shown had left it: up to 36 cm from where it belongs."""
    human = grasping()
    scrubbed = {frame: shown(human, frame) for frame in range(1, 21)}
    for before in (10, 15, 2):
        for frame in (20, 1):
            shown(human, before)
            np.testing.assert_allclose(shown(human, frame), scrubbed[frame], atol=HALF_MILLIMETRE)
    assert np.abs(scrubbed[20] - scrubbed[19]).max() < 0.05
    hand = list(human.pose.bones.keys()).index("hand.R")
    assert np.linalg.norm(scrubbed[20][hand] - scrubbed[10][hand]) > 0.2


@pytest.mark.parametrize("pressed_at", [10, 20])
def test_with_live_on_influences_begin_in_a_bake_where_they_begin_in_live(pressed_at: int):
    """They began where Live had left the arm in the frame that was shown: it never came down."""
    human = grasping()
    scrubbed = {frame: shown(human, frame) for frame in range(1, 21)}
    shown(human, pressed_at)
    assert posing.bake(human, range(1, 21)).reached
    posing.switch_live(human, False)
    hand = list(human.pose.bones.keys()).index("hand.R")
    for frame in range(1, 21):
        away = np.linalg.norm(shown(human, frame)[hand] - scrubbed[frame][hand])
        assert away < (0.02 if frame in (1, 20) else 0.002), frame  # nothing asks for the hand there


def test_undo_brings_back_where_influences_begin(armature: Any):
    name = armature.name
    amount(armature, 0.5)
    undo_push()
    armature.pose.bones["bone.001"].rotation_quaternion = (0.9, 0.43, 0.0, 0.0)
    update()
    move(armature, x=0.1)
    first = channels(armature)
    undo_push()
    bpy.ops.ed.undo()
    armature = bpy.data.objects[name]
    move(armature, x=0.1)
    assert np.abs(channels(armature) - first).max() > 0.05
    bpy.ops.ed.redo()
    armature = bpy.data.objects[name]
    LIVE.forget()
    move(armature, x=0.2)
    move(armature, x=0.1)
    np.testing.assert_allclose(channels(armature), first, atol=2e-4)


def test_a_bone_that_stays_near_its_present_pose_does_not_creep(armature: Any):
    index = posing.add_effector(armature, "bone.000", kind='STAY')
    entry = armature.poise.effectors[index]
    entry.stay, entry.stay_scope, entry.priority = 'PRESENT', 'BODY', 5
    update_with(armature)
    poses = []
    for steps in (1, 10):
        for x in np.linspace(0.4, 0.0, steps + 1):
            move(armature, x=x)
        poses.append(channels(armature))
    np.testing.assert_allclose(*poses, atol=1e-4)
    assert miss(armature) < HALF_MILLIMETRE


def test_what_is_shown_is_of_the_effectors_that_take_part(armature: Any):
    move(armature, (3.0, 0.0, 0.0))
    assert armature.poise.effectors[0].error_position > 1.0
    amount(armature, 0.0)
    assert armature.poise.effectors[0].error_position < 0.0
    assert armature.poise.last_message == "No effector has any influence: raise one"
    posing.add_effector(armature, "bone.002", kind='POSITION')
    amount(armature, 1.0)
    entry = armature.poise.effectors[0]
    assert entry.error_position > 1.0 and entry.why
    entry.enabled = False
    update_with(armature)
    assert entry.error_position < 0.0 and entry.why == ""


def test_switched_off_it_does_nothing(solves: Counts, armature: Any):
    posing.switch_live(armature, False)
    solves.clear()
    move(armature, x=0.1)
    assert solves == [] and miss(armature) > 0.1
    posing.switch_live(armature, True)
    assert len(solves) == 1
    update()
    assert len(solves) == 1 and miss(armature) < HALF_MILLIMETRE


def test_the_property_alone_switches_it_and_undo_and_redo(solves: Counts):
    armature = arm(on=False)
    name = armature.name
    undo_push()
    with one_solve(armature, solves):
        armature.poise.live = True
        update()
    undo_push()
    bpy.ops.ed.undo()
    assert not bpy.data.objects[name].poise.live
    bpy.ops.ed.redo()
    armature = bpy.data.objects[name]
    assert armature.poise.live
    move(armature, x=0.1)
    assert miss(armature) < HALF_MILLIMETRE


def test_it_does_not_call_itself(solves: Counts, armature: Any):
    """A handler that updates the scene once more does not lead to another solve."""
    depth: list[int] = []

    def meddler(scene: Any, depsgraph: Any) -> None:
        if len(depth) < 3:
            depth.append(1)
            armature.update_tag()
            depsgraph.update()

    bpy.app.handlers.depsgraph_update_post.append(meddler)
    try:
        solves.clear()
        move(armature, x=0.1)
    finally:
        bpy.app.handlers.depsgraph_update_post.remove(meddler)
    assert len(depth) == 3 and len(solves) == 1


# Frames


def animate(goal: Any) -> None:
    for frame, place in ((1, (0.4, 0.2, 0.5)), (11, (-0.3, 0.4, 0.6))):
        goal.location = place
        goal.keyframe_insert("location", frame=frame)


def test_playback_moves_the_body_in_the_same_frame(solves: Counts, armature: Any):
    animate(target(armature))
    bpy.context.scene.frame_set(1)
    solves.clear()
    for frame in range(2, 12):
        bpy.context.scene.frame_set(frame)
        assert miss(armature) < HALF_MILLIMETRE
        assert len(solves) == frame - 1
    update()
    assert len(solves) == 10


def test_keys_of_the_body_do_not_keep_it_from_following(solves: Counts, armature: Any):
    animate(target(armature))
    posing.bake(armature, range(1, 12))
    goal = target(armature)
    goal.animation_data_clear()
    goal.location = (0.2, 0.3, 0.6)
    update()
    for frame in (3, 8, 2):
        with one_solve(armature, solves):
            bpy.context.scene.frame_set(frame)
        update()
        assert len(solves) == 1


def test_a_bake_is_not_disturbed():
    records = []
    for on in (False, True):
        bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
        armature = arm(on=False)
        animate(target(armature))
        armature.poise.live = on
        report = posing.bake(armature, range(1, 12))
        assert report.reached
        records.append(action_record(armature))
        bpy.context.scene.frame_set(5)
        assert miss(armature) < 2 * HALF_MILLIMETRE
    assert list(records[0]) == list(records[1])


def test_a_bake_is_told_also_where_live_mode_goes_on(armature: Any):
    animate(target(armature))
    target(armature).location = (0.0, 0.0, 3.0)
    target(armature).animation_data_clear()
    report = posing.bake(armature, range(1, 4))
    target(armature).location = (0.2, 0.3, 0.6)
    bpy.context.scene.frame_set(2)
    assert armature.poise.last_reached and not report.reached
    assert "switch it off to see the keys" in report.summary()
    assert armature.poise.last_bake == report.summary()


def test_rendering_does_not_solve(solves: Counts, tmp_path: Path, armature: Any):
    animate(target(armature))
    scene = bpy.context.scene
    scene.frame_set(1)
    scene.render.engine = 'CYCLES'
    scene.render.resolution_x = scene.render.resolution_y = 4
    scene.cycles.samples = 1
    scene.frame_start, scene.frame_end = 2, 3
    scene.render.filepath = str(tmp_path / "frame")
    camera = bpy.data.objects.new("camera", bpy.data.cameras.new("camera"))
    scene.collection.objects.link(camera)
    scene.camera = camera
    update()
    solves.clear()
    bpy.ops.render.render(animation=True)
    assert solves == []
    scene.frame_set(6)
    assert len(solves) == 1 and miss(armature) < HALF_MILLIMETRE


def test_a_target_that_comes_along_with_its_bone_is_no_change_to_be_solved_for(solves: Counts):
    armature: Any = builders.humanoid()
    posing.setup_character(armature)
    posing.switch_live(armature, True)
    update()
    head = next(entry for entry in armature.poise.effectors if entry.part == "head")
    hips = next(entry for entry in armature.poise.effectors if entry.part == "hips")
    before = list(head.target.matrix_world.translation)
    hips.target.location.z -= 0.2
    update()
    assert np.linalg.norm(np.array(head.target.matrix_world.translation) - before) > 0.05
    solves.clear()
    for block in (armature, head.target, hips.target):
        update_with(block)
    head.target.location.y -= 0.5
    update()
    assert solves == []
    head.target.rotation_euler.z += 0.3
    update()
    assert len(solves) == 1


# Undo, files, the add-on itself


def undo_push() -> None:
    bpy.ops.ed.undo_push(message="step")


def test_undo_and_redo_bring_the_pose_of_each_step(solves: Counts, armature: Any):
    name = armature.name
    undo_push()
    first = channels(armature)
    move(armature, (-0.3, 0.4, 0.6))
    undo_push()
    second = channels(armature)
    move(armature, (0.1, -0.4, 0.5))
    undo_push()
    solves.clear()
    for operator, wanted in ((bpy.ops.ed.undo, second), (bpy.ops.ed.undo, first), (bpy.ops.ed.redo, second)):
        operator()
        armature = bpy.data.objects[name]
        assert armature.poise.live
        np.testing.assert_array_equal(channels(armature), wanted)
        assert miss(armature) < HALF_MILLIMETRE
    assert solves == []  # each step has the pose and the note that belongs to it
    target(armature).location.z += 0.1
    update()
    assert len(solves) == 1 and miss(armature) < HALF_MILLIMETRE


def test_a_step_that_was_stored_before_the_body_followed_is_made_good(solves: Counts, armature: Any):
    """Operators move targets and store their undo step before Blender updates the scene."""
    name = armature.name
    undo_push()
    target(armature).location = (-0.3, 0.4, 0.6)
    undo_push()
    update()
    followed = channels(armature)
    target(armature).location = (0.1, -0.4, 0.5)
    undo_push()
    update()
    bpy.ops.ed.undo()
    armature = bpy.data.objects[name]
    update()
    assert miss(armature) < HALF_MILLIMETRE
    np.testing.assert_allclose(channels(armature), followed, atol=2e-3)


def test_a_posed_bone_survives_undo_of_something_else(solves: Counts, armature: Any):
    name = armature.name
    armature.pose.bones["bone.003"].rotation_quaternion = (0.9, 0.0, 0.0, 0.43)
    update()
    undo_push()
    posed = channels(armature)
    builders.empty("other")
    undo_push()
    solves.clear()
    bpy.ops.ed.undo()
    update()
    np.testing.assert_array_equal(channels(bpy.data.objects[name]), posed)
    assert solves == []


def test_a_file_saved_with_live_on_is_live_when_it_is_loaded(solves: Counts, tmp_path: Path, armature: Any):
    name, before = armature.name, channels(armature)
    path = str(tmp_path / "live.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    posing.switch_live(armature, False)
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    solves.clear()
    bpy.ops.wm.open_mainfile(filepath=path)
    update()
    armature = bpy.data.objects[name]
    assert solves == []
    np.testing.assert_array_equal(channels(armature), before)
    move(armature, (-0.3, 0.4, 0.6))
    assert len(solves) == 1 and miss(armature) < HALF_MILLIMETRE


def test_what_is_kept_in_memory_changes_no_result():
    poses = []
    for drop in (False, True):
        bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
        armature = arm()
        for step in range(5):
            if drop:
                LIVE.forget()
            move(armature, (0.4 - 0.1 * step, 0.2, 0.5))
        poses.append(channels(armature))
    np.testing.assert_allclose(*poses, atol=1e-4)


@pytest.mark.parametrize("by_timer", [False, True])
def test_it_goes_on_after_the_add_on_was_disabled_and_enabled(by_timer: bool, solves: Counts, armature: Any):
    goal = target(armature)
    blender_ik_addon.unregister()
    assert LIVE.bodies == {}
    goal.location = (-0.3, 0.4, 0.6)
    if not by_timer:
        update()
    blender_ik_addon.register()
    with one_solve(armature, solves):
        if by_timer:  # as there is one in a window
            live.poll()
        else:
            update_with(armature)
    assert armature.poise.live


# What goes wrong, and is mended


def onto_the_rig(goal: Any, armature: Any | None) -> None:
    goal.parent, goal.parent_type = armature, 'BONE' if armature else 'OBJECT'
    goal.parent_bone = armature.pose.bones[0].name if armature else ""


PROBLEMS: dict[str, tuple[Callable[[Any, Any], Any], str, Callable[[Any, Any], Any]]] = {
    "no target": (
        lambda armature, goal: bpy.data.objects.remove(goal),
        "has no target",
        lambda armature, goal: setattr(
            armature.poise.effectors[0], "target", builders.empty("new", (0.3, 0.3, 0.5))
        ),
    ),
    "target in no scene": (
        lambda armature, goal: builders.take_out_of_scenes(goal),
        "in no scene",
        lambda armature, goal: bpy.context.scene.collection.objects.link(goal),
    ),
    "no bone": (
        lambda armature, goal: builders.remove_bone(armature, "bone.003"),
        "no bone 'bone.003'",
        lambda armature, goal: setattr(armature.poise.effectors[0], "bone", "bone.002"),
    ),
    "uneven scale": (
        lambda armature, goal: setattr(armature, "scale", (1.0, 2.0, 1.0)),
        "uneven scale",
        lambda armature, goal: setattr(armature, "scale", (1.0, 1.0, 1.0)),
    ),
    "target on the rig": (
        lambda armature, goal: onto_the_rig(goal, armature),
        "depends on the armature",
        lambda armature, goal: onto_the_rig(goal, None),
    ),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_what_keeps_a_body_from_following_is_told_until_it_is_mended(
    case: str, solves: Counts, caplog: pytest.LogCaptureFixture
):
    spoil, words, mend = PROBLEMS[case]
    armature, stranger = arm(), builders.empty("stranger")
    goal = target(armature)
    spoil(armature, goal)
    update()
    before = pose_record(armature)
    solves.clear()
    if case != "no target":
        goal.location.x = 0.1
    stranger.location.x = 1.0
    armature.location.x = 0.05
    update()
    assert words in armature.poise.live_problem
    assert solves == [] and armature.poise.live and pose_record(armature) == before
    with one_solve(armature, solves):
        mend(armature, goal)
        update_with(armature)
    assert armature.poise.live_problem == "" and caplog.records == []


def test_an_armature_that_is_deleted(solves: Counts, caplog: pytest.LogCaptureFixture, armature: Any):
    goal = target(armature)
    bpy.data.objects.remove(armature)
    solves.clear()
    goal.location.x = 0.1
    update()
    bpy.context.scene.frame_set(3)
    assert solves == [] and caplog.records == []


def test_edit_mode(solves: Counts, armature: Any):
    bpy.context.view_layer.objects.active = armature
    bpy.ops.object.mode_set(mode='EDIT')
    update()
    solves.clear()
    move(armature, x=0.1)
    assert "Edit Mode" in armature.poise.live_problem
    assert solves == []
    armature.data.edit_bones["bone.003"].tail.z += 0.3
    bpy.ops.object.mode_set(mode='POSE')
    update()
    assert armature.poise.live_problem == ""
    assert len(solves) == 1 and miss(armature) < HALF_MILLIMETRE
    for mode in ('OBJECT', 'POSE', 'EDIT', 'OBJECT'):
        bpy.ops.object.mode_set(mode=mode)
        update()
    assert len(solves) == 1 and armature.poise.live_problem == ""


def test_a_skeleton_that_is_edited(solves: Counts, armature: Any):
    bpy.context.view_layer.objects.active = armature
    bpy.ops.object.mode_set(mode='EDIT')
    edit_bones = armature.data.edit_bones
    new = edit_bones.new("new")
    new.head, new.tail, new.parent = (0.0, 0.0, 0.3), (0.0, 0.2, 0.3), edit_bones["bone.000"]
    edit_bones.remove(edit_bones["bone.002"])
    bpy.ops.object.mode_set(mode='OBJECT')
    target(armature).location = (0.1, 0.0, 0.8)
    solves.clear()
    update()
    assert len(solves) == 1
    assert armature.poise.live_problem == ""


def test_linked_armatures_are_left_alone(tmp_path: Path, solves: Counts, caplog: pytest.LogCaptureFixture):
    armature = arm()
    name = armature.name
    path = str(tmp_path / "library.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    (linked,) = builders.link_objects(path, name)
    solves.clear()
    update()
    assert linked.poise.live and not linked.is_editable
    for on in (False, True):
        with pytest.raises(IKError, match="is linked"):
            posing.switch_live(linked, on)
        assert linked.poise.live
    assert "library override" in live.problem_of(linked)
    assert solves == [] and caplog.records == []


def test_a_library_override_follows_and_is_live_again_when_it_is_loaded(tmp_path: Path, solves: Counts):
    armature = arm()
    amount(armature, 0.5)
    name, goal = armature.name, target(armature).name
    library, own = str(tmp_path / "library.blend"), str(tmp_path / "own.blend")
    bpy.ops.wm.save_as_mainfile(filepath=library)
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    armature, mover = (
        linked.override_create(remap_local_usages=True)
        for linked in builders.link_objects(library, name, goal)
    )
    assert armature.override_library and armature.is_editable
    armature.poise.effectors[0].target = mover
    update()
    for expected in (1, 2):
        solves.clear()
        mover.location = (0.2 * expected, 0.1, 0.6)
        update()
        assert armature.poise.live_problem == "" and len(solves) == 1
    place = channels(armature)
    bpy.ops.wm.save_as_mainfile(filepath=own)
    bpy.ops.wm.open_mainfile(filepath=own)
    armature = next(found for found in bpy.data.objects if found.name == name and found.override_library)
    mover = target(armature)
    solves.clear()
    update()
    assert armature.poise.live and solves == []
    np.testing.assert_allclose(channels(armature), place, atol=1e-6)
    for x in (0.2, 0.4):  # and back, from where influences began before it was saved
        mover.location.x = x
        update()
    assert len(solves) == 2
    np.testing.assert_allclose(channels(armature), place, atol=2e-4)


def test_what_nobody_foresaw_is_told_once_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Though it says something else each time."""
    armature = arm()
    at: list[int] = []

    def broken(*_: object, **__: object) -> None:
        at.append(0)
        if len(at) > 4:
            raise ZeroDivisionError("elsewhere")
        raise ZeroDivisionError(f"broken at 0x{len(at):x}")

    with monkeypatch.context() as patch:
        patch.setattr(following, "follow", broken)
        for step in range(4):
            move(armature, x=0.1 * step)
        assert len(at) == 4
        assert "ZeroDivisionError in test_live.py" in armature.poise.live_problem
        assert "broken at 0x1" in armature.poise.live_problem
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        assert caplog.records[0].exc_info
        move(armature, x=0.7)
        assert len(caplog.records) == 2  # another place is another fault
        assert "elsewhere" in armature.poise.live_problem and armature.poise.live
    move(armature, x=0.15)
    assert armature.poise.live_problem == "" and miss(armature) < HALF_MILLIMETRE


# Several bodies


def test_two_bodies_live_at_once(solves: Counts):
    first, second = arm("first"), arm("second")
    solves.clear()
    move(first, x=0.1)
    assert len(solves) == 1
    target(first).location.x = 0.2
    move(second, x=0.3)
    assert len(solves) == 3
    assert max(miss(first), miss(second)) < HALF_MILLIMETRE
    posing.switch_live(first, False)
    target(first).location.x = 0.0
    target(second).location.x = 0.0
    solves.clear()
    update()
    assert len(solves) == 1


def test_a_body_whose_notes_are_broken_stops_no_other():
    """As a file from another version may have them; they are looked at when bones have changed."""
    broken, other = arm("a"), arm("b")
    posing.attach_targets(broken)
    broken.poise.effectors[0].noted_rest = [0.0] * 15 + [1.0] + [0.0] * 15 + [1.0]
    broken.data.update_tag()
    move(other, (0.3, -0.3, 0.6))
    assert miss(other) < HALF_MILLIMETRE and not other.poise.live_problem
    assert "LinAlgError" in broken.poise.live_problem


@pytest.mark.parametrize("leader_first", [True, False])
def test_a_body_that_follows_another_is_there_after_another_look(leader_first: bool, solves: Counts):
    names = ("a", "b") if leader_first else ("b", "a")
    leader, follower = arm(names[0]), arm(names[1])
    entry = follower.poise.effectors[0]
    entry.target, entry.target_bone = leader, "bone.003"
    follower.location = (0.3, 0.0, 0.0)
    follower.update_tag()
    update()
    assert max(miss(leader), miss(follower)) < HALF_MILLIMETRE
    solves.clear()
    move(leader, (0.3, 0.1, 0.6))
    assert miss(leader) < HALF_MILLIMETRE
    assert len(solves) == 1
    live.poll()  # with a window this is a timer, called before anything is drawn
    update()
    assert max(miss(leader), miss(follower)) < HALF_MILLIMETRE
    assert len(solves) == 2
    live.poll()
    update()
    assert len(solves) == 2


def test_each_scene_and_view_layer_has_its_own_bodies(solves: Counts):
    first = arm("first")
    second_scene = bpy.data.scenes.new("second scene")
    second = arm("second")
    for obj in (second, target(second)):
        builders.take_out_of_scenes(obj)
        second_scene.collection.objects.link(obj)
    update()
    second_scene.view_layers[0].update()
    solves.clear()
    target(second).location.x = 0.1
    update()  # the scene that is shown has neither of them
    assert solves == []
    second_scene.view_layers[0].update()
    assert len(solves) == 1
    move(first, x=0.1)
    assert len(solves) == 2 and miss(first) < HALF_MILLIMETRE
    second_scene.frame_set(5)
    assert len(solves) == 2


def test_a_body_that_two_view_layers_show_is_solved_once(solves: Counts, armature: Any):
    other = bpy.context.scene.view_layers.new("other")
    other.update()
    update()
    solves.clear()
    move(armature, x=0.1)
    assert len(solves) == 1
    other.update()
    update()
    other.update()
    assert len(solves) == 1 and miss(armature) < HALF_MILLIMETRE


# Tools that can be cancelled, and keys


def test_a_tool_that_is_cancelled_leaves_the_pose_bit_by_bit(tool: list[bool], solves: Counts, armature: Any):
    armature.pose.bones["bone.003"].rotation_quaternion = (0.9, 0.0, 0.0, 0.43)
    update()
    before, place = pose_record(armature), target(armature).location.copy()
    tool.append(True)
    for step in range(1, 4):
        move(armature, place + step * 0.5 * place)
    assert pose_record(armature) != before and not armature.poise.last_reached
    target(armature).location = place
    tool.clear()
    solves.clear()
    update()
    assert pose_record(armature) == before and solves == []
    assert armature.poise.last_reached and armature.poise.effectors[0].why == ""


def test_a_tool_that_is_cancelled_leaves_the_target_that_was_taken(tool: list[bool]):
    armature = builders.chain(4, 0.3)
    armature.poise.move_root = False
    posing.add_effector(armature, "bone.003", kind='ONE_OF', make_target=False)
    entry = armature.poise.effectors[0]
    for number, place in enumerate([(0.4, 0.2, 0.5), (-0.4, 0.4, 0.5)]):
        posing.add_choice(armature, 0, builders.empty(f"rail {number}", place))
    update()
    posing.switch_live(armature, True)
    update()
    first = entry.taken
    assert first
    taken = bpy.data.objects[first]
    start = taken.location.copy()
    tool.append(True)
    taken.location.x += 30.0
    update()
    assert entry.taken not in {"", first}
    tool.clear()
    taken.location = start
    update()
    assert entry.taken == first


def test_a_drag_that_goes_on_out_of_reach_does_not_look_for_other_poses(
    tool: list[bool], monkeypatch: pytest.MonkeyPatch
):
    armature = arm()
    update()
    looked: list[int] = []
    starts = restarts.random_starts
    monkeypatch.setattr(
        restarts, "random_starts", lambda energy, count: looked.append(count) or starts(energy, count)
    )
    tool.append(True)
    for y in (0.3, 2.0, 2.1, 2.2, 0.3, 2.0):
        move(armature, y=y)
    assert looked == []
    tool.clear()
    move(armature, y=2.5)
    assert looked


@pytest.mark.parametrize("method", ["DLS", "SDLS", "NONLINEAR"])
def test_a_method_of_the_papers_goes_on_from_the_last_pose(method: str, tool: list[bool]):
    armature, other = arm(), arm("other", on=False)
    posing.solve_pose(other)
    armature.poise.method = other.poise.method = method
    update()
    start = np.array(target(armature).location)
    tool.append(True)
    for share in (0.02, 0.04, 0.06, 1.0, 1.02, 0.1):
        target(armature).location = start + share * np.array([0.1, 2.5, 0.3])
        move(other, target(armature).location)
        report = posing.solve_pose(other)
        assert armature.poise.last_reached == report.reached == (share < 0.5)
        # Out of reach a rule may still move when its iterations end.
        assert miss(armature) == pytest.approx(miss(other), abs=0.05 if share > 0.5 else 1e-3)
        if share < 0.1:
            np.testing.assert_allclose(channels(armature), channels(other), atol=1e-3)
    tool.clear()
    before = pose_record(armature)
    update()
    assert pose_record(armature) == before


# Out of reach while a tool is running

AWAY = np.concatenate([np.linspace(0.0, 1.0, 40), np.linspace(1.0, 0.0, 40)[1:]])
"""How far along its way the target is: out, and back."""


def turn(first: Any, second: Any) -> float:
    """Largest turn of a bone in its parent between two records of channels [rad]."""
    cosines = np.abs(np.einsum("bq,bq->b", first[:, 3:7], second[:, 3:7]))
    sizes = np.linalg.norm(first[:, 3:7], axis=1) * np.linalg.norm(second[:, 3:7], axis=1)
    return float(2.0 * np.arccos(np.minimum(1.0, cosines / sizes)).max())


def test_out_of_reach_a_tool_turns_nothing_by_jumps(tool: list[bool], solves: Counts, armature: Any):
    start = np.array(target(armature).location)
    tool.append(True)
    before, turns, reached = channels(armature), [], []
    solves.clear()
    for share in AWAY:
        move(armature, start + share * np.array([0.0, 1.5, 0.3]))
        after = channels(armature)
        turns.append(turn(before, after))
        reached.append(armature.poise.last_reached)
        assert armature.poise.effectors[0].error_position == pytest.approx(miss(armature), abs=1e-4)
        assert armature.poise.effectors[0].why == ""  # on its way it misses for no reason
        before = after
    assert 20 < reached.count(False) < 75 and reached[0] and reached[-1]
    assert len(solves) == len(AWAY) - 2  # at the first place it was before, at the last it is put back
    # Between two updates the target moves by 39 mm, and the bones are 300 mm long.
    assert max(turns) < 0.2
    crossed = [k for k in range(1, len(reached)) if reached[k] != reached[k - 1]]
    assert len(crossed) == 2
    # Without a tool each update is solved for strictly, and limbs become straight at once.
    tool.clear()
    strict = []
    for share in AWAY:
        move(armature, start + share * np.array([0.0, 1.5, 0.3]))
        after = channels(armature)
        strict.append(turn(before, after))
        before = after
    assert max(turns) < 0.65 * max(strict)


def test_when_the_tool_ends_the_answer_is_that_of_solve(tool: list[bool], solves: Counts):
    armature, twin = arm("live"), arm("twin", on=False)
    tool.append(True)
    for y in (0.4, 0.9, 1.5):
        target(twin).location.y = y
        move(armature, y=y)
    assert following.is_underway(armature)
    for bone, other in zip(armature.pose.bones, twin.pose.bones, strict=True):
        other.rotation_quaternion = bone.rotation_quaternion
    tool.clear()
    solves.clear()
    update_with(bpy.context.scene)
    assert len(solves) == 1 and not following.is_underway(armature)
    posing.solve_pose(twin)
    np.testing.assert_allclose(channels(armature), channels(twin), atol=1e-6)
    assert armature.poise.effectors[0].why == twin.poise.effectors[0].why != ""
    assert_stands_as_solved(armature)
    solves.clear()
    update_with(bpy.context.scene)
    assert solves == []


def test_what_is_on_its_way_is_solved_for_after_undo_and_redo(tool: list[bool], solves: Counts):
    armature = arm()
    undo_push()
    tool.append(True)
    move(armature, y=1.5)
    undo_push()  # as the tool does when it ends: the solve comes after that
    tool.clear()
    update_with(bpy.context.scene)
    wanted = channels(armature)
    bpy.ops.ed.undo()
    bpy.ops.ed.redo()
    solves.clear()
    armature = bpy.data.objects["arm"]
    update_with(bpy.context.scene)
    np.testing.assert_allclose(channels(armature), wanted, atol=1e-5)
    assert not following.is_underway(armature)
    solves.clear()
    update_with(bpy.context.scene)
    assert solves == []


def test_the_timer_solves_for_it_when_the_tool_has_ended(tool: list[bool], solves: Counts, armature: Any):
    tool.append(True)
    move(armature, y=1.5)
    for _ in range(4 * MOST_LOOKS):
        assert live.poll() in (live.TOOL_PAUSE, live.STEP_PAUSE)
    assert following.is_settled(armature) and following.is_underway(armature)
    stands = pose_record(armature)
    solves.clear()
    live.poll()
    assert solves == [] and pose_record(armature) == stands  # it is left alone while the tool goes on
    tool.clear()
    solves.clear()
    assert live.poll() is None
    assert len(solves) == 1 and not following.is_underway(armature)


def test_what_a_tool_has_left_on_its_way_goes_on_without_a_jump_and_then_is_solved_for(
    tool: list[bool], solves: Counts, auto_key: None
):
    armature = arm()
    tool.append(True)
    move(armature, (0.6, 0.9, -0.4))
    assert not following.is_settled(armature)
    tool.clear()
    solves.clear()
    pause, turns = None, []
    for pause, turned in polls(armature):
        turns.append(turned)
        if pause is None:
            break
        assert pause == live.STEP_PAUSE and following.is_underway(armature)
        assert armature.animation_data is None  # keys wait for the answer
    assert pause is None and 2 < len(solves) == len(turns)
    assert max(turns) < 0.13  # no angle more than 0.043
    assert not following.is_underway(armature) and keyed_paths(armature)
    assert_stands_as_solved(armature)


def test_a_key_that_the_tool_has_set_where_the_target_is_does_not_count_as_movement(
    tool: list[bool], solves: Counts, auto_key: None
):
    """With auto-key a body sprang to where it was going when a target was let go; undo gave another pose."""
    armature = arm()
    tool.append(True)
    move(armature, (0.6, 0.9, -0.4))
    tool.clear()
    target(armature).keyframe_insert("location")
    pauses, turns = zip(*polls(armature), strict=True)
    assert pauses[-1] is None and len(turns) > 2 and max(turns) < 0.13  # no angle more than 0.043
    solves.clear()
    target(armature).animation_data_clear()
    update()
    assert solves == []


def test_a_file_that_was_saved_on_the_way_goes_on_when_it_is_loaded(tool: list[bool], tmp_path: Path):
    armature = arm()
    tool.append(True)
    move(armature, (0.6, 0.9, -0.4))
    tool.clear()
    path = str(tmp_path / "shot.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.open_mainfile(filepath=path)
    armature = bpy.data.objects["arm"]
    assert live.poll() == live.STEP_PAUSE and following.is_underway(armature)
    poll_until_at_rest()
    assert not following.is_underway(armature)
    assert_stands_as_solved(armature)


@pytest.fixture
def field(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Not empty while a number field that moves things is to be dragged."""
    edited: list[bool] = []
    monkeypatch.setattr(live, "field_is_edited", lambda depsgraph: bool(edited))
    monkeypatch.setattr(live, "is_called_by_blender", lambda frame: bool(edited))
    yield edited


@pytest.mark.usefixtures("auto_key")
def test_a_number_field_is_a_tool_until_the_body_has_come_to_rest(field: list[bool], solves: Counts):
    armature = arm()
    before, there = channels(armature), target(armature).location.copy()
    field.append(True)
    for z in (0.3, 0.0, -0.2, -0.4):
        target(armature).location = (0.6, 0.9, z)
        was = channels(armature)
        update()
        assert following.is_underway(armature) and turn(was, channels(armature)) < 0.25
    move(armature, there)
    np.testing.assert_array_equal(channels(armature), before)  # it was cancelled
    move(armature, (0.6, 0.9, -0.4))
    field.clear()
    pauses = [live.poll()]
    while pauses[-1] == live.STEP_PAUSE and not following.is_settled(armature):
        pauses.append(live.poll())
    assert pauses[-1] == live.TOOL_PAUSE  # it may still be held, but for the time being this is it
    assert following.is_underway(armature) and armature.animation_data is None
    poll_until_at_rest()
    assert not following.is_underway(armature) and keyed_frames(armature) == {1.0}
    assert_stands_as_solved(armature)


def test_a_number_field_that_is_cancelled_late_gives_back_every_bit(field: list[bool], armature: Any):
    """Once the body had come to rest in the middle of the drag, it was solved for the place before."""
    armature.pose.bones["bone.003"].rotation_quaternion = (0.9, 0.0, 0.0, 0.43)
    update()
    before, there = pose_record(armature), target(armature).location.copy()
    for _ in range(2):  # dragged on after a rest
        field.append(True)
        move(armature, (0.6, 0.9, -0.4 * len(field)))
        field.clear()
        poll_until_at_rest()
        assert not following.is_underway(armature) and pose_record(armature) != before
    field.append(True)
    move(armature, there)
    assert pose_record(armature) == before
    assert armature.poise.last_reached


def test_a_number_field_that_is_cancelled_between_two_looks_gives_back_every_bit():
    """Escape came just when the body was to be looked at again, of which no handler tells."""
    armature = arm(on=False)
    armature.pose.bones["bone.003"].rotation_quaternion = (0.9, 0.0, 0.0, 0.43)
    depsgraph = bpy.context.evaluated_depsgraph_get()

    def look(location: Any, trigger: Trigger) -> None:
        target(armature).location = location
        depsgraph.update()
        following.follow(armature, depsgraph, trigger)

    there, away = target(armature).location.copy(), (0.6, 0.9, -0.4)
    look(there, Trigger.USER)
    before = pose_record(armature)
    look(away, Trigger.FIELD)
    look(away, Trigger.ENDING)
    assert following.is_underway(armature) and pose_record(armature) != before
    look(there, Trigger.ENDING)
    assert pose_record(armature) == before


def pull_by_a_field(armature: Any, field: list[bool]) -> None:
    """Drag the target out of reach by a number field, let go, and wait until the body rests."""
    field.append(True)
    move(armature, (0.6, 0.9, -0.4))
    field.clear()
    poll_until_at_rest()


def test_a_field_gives_the_pose_back_though_an_effector_that_was_not_used_is_gone(field: list[bool]):
    armature = arm()
    posing.add_effector(armature, "bone.002")
    armature.poise.effectors[1].enabled = False
    update()
    before, there = pose_record(armature), target(armature).location.copy()
    pull_by_a_field(armature, field)
    posing.remove_effector(armature, 1)
    update()
    field.append(True)
    move(armature, there)
    assert armature.poise.live_problem == ""
    assert pose_record(armature) == before


def test_a_field_gives_no_pose_back_that_others_have_changed_since(field: list[bool], armature: Any):
    before, there = pose_record(armature), target(armature).location.copy()
    pull_by_a_field(armature, field)
    armature.pose.bones["bone.000"].scale = (1.1, 1.1, 1.1)
    update()
    field.append(True)
    move(armature, there)
    assert pose_record(armature)["bone.000 scale"] != before["bone.000 scale"]


@pytest.mark.parametrize("ends", [False, True])
def test_a_tool_that_comes_by_where_it_began_turns_nothing_by_a_jump(ends: bool, tool: list[bool]):
    """The body was put back at once, by 27 degrees on one rig. As soon where the tool ends there."""
    armature = arm()
    armature.pose.bones["bone.003"].rotation_quaternion = (0.9, 0.0, 0.0, 0.43)
    update()
    before, place = channels(armature), target(armature).location.copy()
    tool.append(True)
    for step in range(1, 7):
        move(armature, place + step * 0.5 * place)
    assert not armature.poise.last_reached
    assert turn(channels(armature), before) > np.radians(10.0)
    move(armature, place)
    if ends:
        tool.clear()
    turns = []
    for _ in range(100):
        was = channels(armature)
        live.poll()
        turns.append(turn(was, channels(armature)))
        if not following.is_underway(armature):
            break
    assert max(turns) < np.radians(5.2)
    np.testing.assert_array_equal(channels(armature), before)
    tool.clear()
    update()
    np.testing.assert_array_equal(channels(armature), before)


def test_a_script_that_updates_the_scene_gets_the_answer_whatever_is_under_the_mouse(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(live, "field_is_edited", lambda depsgraph: True)
    armature = arm()
    move(armature, (0.6, 0.9, -0.4))
    assert not following.is_underway(armature)


@pytest.mark.parametrize("means", ["tool", "field"])
def test_a_problem_ends_the_looks_at_what_is_on_its_way(means: str, request: pytest.FixtureRequest):
    running = request.getfixturevalue(means)
    armature = arm()
    running.append(True)
    move(armature, (0.6, 0.9, -0.4))
    running.clear()
    armature.pose.bones[-1].name = "renamed"
    poll_until_at_rest()
    assert live.poll() is None
    assert armature.poise.live_problem


def test_a_frame_is_solved_for_though_a_tool_is_running(tool: list[bool], armature: Any):
    for frame, y in ((1, 0.2), (5, 1.5)):
        target(armature).location.y = y
        target(armature).keyframe_insert("location", frame=frame)
    tool.append(True)
    bpy.context.scene.frame_set(5)
    assert not armature.poise.last_reached and not following.is_underway(armature)


def test_where_keys_are_gone_on_from_it_is_said(armature: Any):
    amount(armature, 0.5)
    update()
    said = "begin at the keys"
    assert said not in armature.poise.last_message
    for frame, angle in ((1, 0.0), (10, 0.4)):
        bone = armature.pose.bones["bone.001"]
        bone.rotation_quaternion = (np.cos(angle / 2), np.sin(angle / 2), 0.0, 0.0)
        bone.keyframe_insert("rotation_quaternion", frame=frame)
    bpy.context.scene.frame_set(7)
    assert said in armature.poise.last_message


def rotation_of(number: int) -> str:
    return f'pose.bones["bone.00{number}"].rotation_quaternion'


def keyed_paths(armature: Any) -> set[str]:
    return {curve.data_path for curve in channelbag_of(armature).fcurves}


def keyed_frames(armature: Any) -> set[float]:
    curves = channelbag_of(armature).fcurves
    return {frame for curve in curves for frame, _ in points(curve)}


@pytest.mark.usefixtures("auto_key")
def test_auto_key_keys_the_solved_bones_where_the_user_moves_a_target(armature: Any):
    assert armature.animation_data is None
    bpy.context.scene.frame_set(4)
    assert armature.animation_data is None
    move(armature, x=0.1)
    assert keyed_frames(armature) == {4.0}
    assert keyed_paths(armature) == {rotation_of(number) for number in range(4)}
    solved = channels(armature)
    bpy.context.scene.frame_set(1)
    bpy.context.scene.frame_set(4)
    np.testing.assert_allclose(channels(armature), solved, atol=1e-6)
    assert keyed_frames(armature) == {4.0}
    armature.animation_data_clear()
    animate(target(armature))
    for frame in (1, 5, 9):  # in playback nothing is keyed
        bpy.context.scene.frame_set(frame)
        update()
    assert miss(armature) < HALF_MILLIMETRE
    assert armature.animation_data is None


@pytest.mark.usefixtures("auto_key")
def test_auto_key_waits_until_a_tool_is_done(tool: list[bool], armature: Any):
    place = target(armature).location.copy()
    tool.append(True)
    for step in range(3):
        move(armature, x=0.1 * step)
    assert armature.animation_data is None
    LIVE.forget()
    tool.clear()
    target(armature).update_tag()
    update()
    assert keyed_frames(armature) == {1.0}
    armature.animation_data_clear()
    place = target(armature).location.copy()
    tool.append(True)
    move(armature, x=0.3)
    target(armature).location = place
    tool.clear()
    update()
    assert armature.animation_data is None  # it was cancelled


@pytest.mark.usefixtures("auto_key")
def test_auto_key_inserts_only_what_is_available_where_blender_says_so():
    bpy.context.preferences.edit.use_keyframe_insert_available = True  # as Blender 5.2 begins
    armature = arm()
    move(armature, x=0.1)
    assert armature.animation_data is None or armature.animation_data.action is None
    bone = armature.pose.bones["bone.001"]
    for index in (0, 1):
        bone.keyframe_insert("rotation_quaternion", index=index, frame=1)
    bpy.context.scene.frame_set(4)
    move(armature, x=0.2)
    curves = channelbag_of(armature).fcurves
    assert [(curve.data_path, curve.array_index) for curve in curves] == [
        (rotation_of(1), 0),
        (rotation_of(1), 1),
    ]
    for curve in curves:
        assert points(curve)[-1] == pytest.approx(
            (4.0, bone.rotation_quaternion[curve.array_index]), abs=1e-4
        )


@pytest.mark.usefixtures("auto_key")
def test_auto_key_in_replace_mode_touches_only_frames_with_keys(armature: Any):
    for bone in armature.pose.bones:
        bone.keyframe_insert("rotation_quaternion", frame=1)
    bpy.context.scene.tool_settings.auto_keying_mode = 'REPLACE_KEYS'
    bpy.context.scene.frame_set(4)
    move(armature, x=0.1)
    assert keyed_frames(armature) == {1.0}
    bpy.context.scene.frame_set(1)
    move(armature, x=0.2)
    solved = channels(armature)
    assert keyed_frames(armature) == {1.0}
    bpy.context.scene.frame_set(9)
    posing.switch_live(armature, False)
    bpy.context.scene.frame_set(1)
    np.testing.assert_allclose(channels(armature), solved, atol=1e-6)


@pytest.mark.usefixtures("auto_key")
@pytest.mark.parametrize("own", [False, True])
def test_auto_key_keeps_to_the_active_keying_set(own: bool, armature: Any):
    scene = bpy.context.scene
    scene.tool_settings.use_keyframe_insert_keyingset = True
    if own:
        scene.keying_sets.new(idname="mine", name="mine").paths.add(armature, rotation_of(2))
        scene.keying_sets.active_index = 0
    else:
        scene.keying_sets_all.active = scene.keying_sets_all["Scale"]
    move(armature, x=0.1)
    scales = {f'pose.bones["bone.00{number}"].scale' for number in range(4)}
    assert keyed_paths(armature) == ({rotation_of(2)} if own else scales)
    assert armature.poise.live_problem == ""


@pytest.mark.usefixtures("auto_key")
def test_auto_key_keys_bones_that_answer_when_they_are_at_rest(armature: Any):
    constrained(armature, 'DAMPED_TRACK', (0.5, 0.1, 0.9))
    armature.animation_data_clear()
    move(armature, (0.3, 0.1, 0.6))
    assert armature.animation_data is None
    live.poll()
    solved = channels(armature)[[0, 2, 3]]
    assert keyed_frames(armature) == {1.0}
    posing.switch_live(armature, False)
    bpy.context.scene.frame_set(2)
    np.testing.assert_allclose(channels(armature)[[0, 2, 3]], solved, atol=1e-6)


@pytest.mark.usefixtures("auto_key")
def test_keys_go_where_blender_puts_them_while_a_strip_is_tweaked(armature: Any):
    data = armature.animation_data_create()
    track, other = data.nla_tracks.new(), bpy.data.actions.new("other")
    track.strips.new("strip", 1, other).select = True
    track.select, data.nla_tracks.active = True, track
    data.use_tweak_mode = True
    assert data.use_tweak_mode
    move(armature, x=0.1)
    assert armature.poise.live_problem == ""
    assert data.action == other and keyed_frames(armature) == {0.0}  # the strip's own first frame


@pytest.mark.usefixtures("auto_key")
@pytest.mark.parametrize("by_group", [False, True])
def test_curves_that_cannot_be_keyed_are_told(by_group: bool, armature: Any):
    armature.pose.bones["bone.001"].keyframe_insert("rotation_quaternion", frame=1)
    curves = channelbag_of(armature).fcurves
    held = list(curves)
    for curve in held:
        (curve.group if by_group else curve).lock = True
    bpy.context.scene.frame_set(4)
    move(armature, x=0.1)
    assert "locked" in armature.poise.live_problem and "bone.001" in armature.poise.live_problem
    assert miss(armature) < HALF_MILLIMETRE
    assert keyed_paths(armature) == {rotation_of(number) for number in range(4)}
    assert {frame for curve in held for frame, _ in points(curve)} == {1.0}
    for curve in held:
        (curve.group if by_group else curve).lock = False
    update_with(armature)
    assert armature.poise.live_problem == ""
    assert all((4.0 in {frame for frame, _ in points(curve)}) for curve in curves)


# The doors


def test_operator_and_function_are_the_same(solves: Counts):
    armature, other = arm("operator", on=False), arm("function", on=False)
    bpy.context.view_layer.objects.active = armature
    assert bpy.ops.poise.live(action='ON') == {'FINISHED'}
    posing.switch_live(other, True)
    assert armature.poise.live and other.poise.live
    np.testing.assert_array_equal(channels(armature), channels(other))
    bpy.ops.poise.live()
    assert not armature.poise.live
    bpy.ops.poise.live()
    assert armature.poise.live
    bpy.ops.poise.live(action='OFF')
    assert not armature.poise.live


def test_the_operator_says_what_is_missing_and_without_effectors_only_switches_off():
    armature = arm(on=False)
    armature.poise.effectors[0].target = None
    bpy.context.view_layer.objects.active = armature
    with pytest.raises(RuntimeError, match="has no target"):
        bpy.ops.poise.live(action='ON')
    assert armature.poise.live
    armature.poise.live = False
    armature.poise.effectors.clear()
    assert not bpy.ops.poise.live.poll()
    armature.poise.live = True
    assert bpy.ops.poise.live(action='OFF') == {'FINISHED'}
    assert not armature.poise.live


def test_scripts_can_follow_without_live_mode(solves: Counts):
    armature = arm(on=False)
    report = posing.follow(armature)
    assert report is not None and report.reached
    assert report.effectors[0].position is not None and report.effectors[0].position < HALF_MILLIMETRE
    assert posing.follow(armature) is None
    target(armature).location.x = 0.1
    report = posing.follow(armature)
    assert report is not None and len(solves) == 2
    target(armature).location.x = np.nan
    with pytest.raises(IKError, match="not a number"):
        posing.follow(armature)


def test_a_tool_that_is_cancelled_leaves_the_pose_where_bones_are_driven(tool: list[bool], solves: Counts):
    """The driven bones went back as well, which was taken for a movement, and solved for."""
    armature = arm()
    constrained(armature, 'DAMPED_TRACK', (0.5, 0.1, 0.9))
    before, place = pose_record(armature), target(armature).location.copy()
    tool.append(True)
    for step in range(1, 4):
        move(armature, place + step * 0.1 * place)
    target(armature).location = place
    tool.clear()
    solves.clear()
    for _ in range(3):
        update()
        live.poll()
        update_with(bpy.context.scene)
    assert pose_record(armature) == before and solves == []


def test_what_was_dropped_from_memory_on_the_way_waits_for_the_end_of_the_tool(
    tool: list[bool], solves: Counts
):
    armature = arm()
    tool.append(True)
    move(armature, y=1.5)
    assert following.state_of(armature) is State.FOLLOWING
    LIVE.forget()  # as undo does
    solves.clear()
    update_with(bpy.context.scene)
    assert following.state_of(armature) is State.WAITING and solves == []
    tool.clear()
    update_with(bpy.context.scene)
    assert following.state_of(armature) is State.AT_REST and len(solves) == 1


def test_buttons_that_change_effectors_make_the_body_follow(armature: Any):
    """Nothing else tells Blender that what they change has a part in the pose."""
    posing.add_effector(armature, "bone.002", kind='POSITION')
    bpy.context.view_layer.objects.active = armature
    update()
    move(armature, (-0.4, 0.2, 0.5))
    assert not armature.poise.last_reached
    bpy.ops.poise.set_state(state='OFF', index=1)
    bpy.context.view_layer.update()
    assert armature.poise.last_reached


def test_buttons_end_what_live_waits_for(armature: Any):
    posing.add_effector(armature, "bone.002", kind='POSITION')
    bpy.context.view_layer.objects.active = armature
    armature.poise.effectors[1].bone = "nose"
    update()
    assert "nose" in armature.poise.live_problem
    bpy.ops.poise.set_state(state='OFF', index=1)
    bpy.context.view_layer.update()
    assert not armature.poise.live_problem

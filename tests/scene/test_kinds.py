# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds of effectors in Blender: what each achieves, read back from Blender's matrices without the add-on."""

from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from mathutils import Euler, Matrix, Vector

from blender_ik_addon.core import IKError
from blender_ik_addon.scene import posing
from blender_ik_addon.scene.effectors.effectors import read_effectors
from blender_ik_addon.scene.kinds.kinds import KINDS
from blender_ik_addon.scene.properties.settings import (
    KIND_ITEMS,
    POISE_PG_effector,
    POISE_PG_stored_bone,
    POISE_PG_target,
)

from . import builders
from .actions import channelbag_of
from .measured import angle_between, goal_of, world_of
from .records import action_record, pose_record, scene_record

HALF_MILLIMETRE, TENTH_DEGREE = 5e-4, np.radians(0.1)
SOLE = (0.0, 0.15, -0.02)
"""Point of a foot that stands on the ground [m]."""

BONES: list[builders.BoneSpec] = [
    ("hips", None, (0.0, 0.0, 0.95), (0.0, 0.0, 1.05)),
    ("spine", "hips", (0.0, 0.0, 1.05), (0.0, 0.0, 1.4)),
    ("head", "spine", (0.0, 0.0, 1.45), (0.0, 0.0, 1.65)),
    ("upper_arm", "spine", (0.15, 0.0, 1.4), (0.42, 0.04, 1.38)),
    ("forearm", "upper_arm", (0.42, 0.04, 1.38), (0.66, 0.0, 1.36)),
    ("hand", "forearm", (0.66, 0.0, 1.36), (0.76, 0.0, 1.35)),
    *(
        (bone, parent, (sign * 0.1, *head), (sign * 0.1, *tail))
        for side, sign in (("L", 1.0), ("R", -1.0))
        for bone, parent, head, tail in (
            (f"thigh.{side}", "hips", (0.0, 0.93), (-0.03, 0.5)),
            (f"shin.{side}", f"thigh.{side}", (-0.03, 0.5), (0.0, 0.08)),
            (f"foot.{side}", f"shin.{side}", (0.0, 0.08), (-0.15, 0.03)),
        )
    ),
]

MOVED: dict[str, tuple[str, Vector, Euler]] = {
    'POSITION': ("hand", Vector((-0.2, -0.2, 0.1)), Euler()),
    'ORIENTATION': ("hand", Vector(), Euler((0.5, 0.2, 0.4))),
    'BOTH': ("hand", Vector((-0.2, -0.2, 0.1)), Euler((0.5, 0.2, 0.4))),
    'AIM': ("head", Vector((0.4, -0.4, 0.0)), Euler()),
    'POLE': ("forearm", Vector((0.0, -0.1, -0.5)), Euler()),
    'PLANE': ("hand", Vector((0.0, 0.0, 0.15)), Euler((0.1, -0.2, 0.0))),
    'FLOOR': ("hand", Vector((0.0, 0.0, 0.15)), Euler((0.1, -0.2, 0.0))),
    'DISTANCE': ("hand", Vector((0.1, 0.05, 0.1)), Euler()),
    'BALANCE': ("hips", Vector((0.05, 0.04, 0.0)), Euler()),
}
"""Of each kind that has a target: a bone, and how its new target is moved [m] and turned [rad]."""

ANGLES = {kind for kind in MOVED if KINDS[kind].turned and not KINDS[kind].placed}


def figure(*feet: str, place: bool = False) -> Any:
    """A small figure with its feet on empties, elsewhere in the world: turned and three times as large."""
    armature = builders.armature("figure", BONES)
    if place:
        armature.location, armature.rotation_euler = (1.0, -2.0, 0.5), (0.7, -0.5, 2.0)
        armature.scale = (3.0, 3.0, 3.0)
    armature.poise.tolerance_position = HALF_MILLIMETRE
    bpy.context.view_layer.update()
    for foot in feet:
        posing.add_effector(armature, foot)
    return armature


@pytest.fixture
def armature() -> Any:
    """The figure without effectors."""
    return figure()


class Entry:
    """An effector by its place in the list: Blender moves entries when it adds one."""

    def __init__(self, armature: Any, index: int) -> None:
        self.__dict__.update(_armature=armature, _index=index)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._armature.poise.effectors[self._index], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._armature.poise.effectors[self._index], name, value)


def add(armature: Any, kind: str, bone: str, **settings: Any) -> Any:
    """An effector with a target of its own."""
    entry = Entry(armature, posing.add_effector(armature, bone, kind=kind))
    for name, value in settings.items():
        setattr(entry, name, value)
    bpy.context.view_layer.update()
    return entry


def moved(armature: Any, kind: str, part: float = 1.0) -> Any:
    """An effector of a kind, with its target moved from where it asks for nothing."""
    bone, offset, turn = MOVED[kind]
    if kind == 'POLE':  # a limb that is straight bends nowhere
        add(armature, 'POSITION', "hand").target.location += armature.matrix_world.to_3x3() @ Vector(
            (-0.2, 0, 0)
        )
        posing.solve_pose(armature)
    entry = add(armature, kind, bone)
    entry.target.location += armature.matrix_world.to_3x3() @ (offset * part)
    swung = Euler([angle * part for angle in turn]).to_matrix()
    entry.target.rotation_euler = (swung @ entry.target.rotation_euler.to_matrix()).to_euler()
    bpy.context.view_layer.update()
    return entry


# Errors, from Blender's matrices and the settings alone


def point_of(armature: Any, entry: Any) -> Vector:
    return world_of(armature, entry.bone) @ Vector(entry.point)


def height(armature: Any, entry: Any) -> float:
    plane = goal_of(entry)
    up = (plane.to_3x3().col[0].cross(plane.to_3x3().col[1])).normalized()
    return (point_of(armature, entry) - plane.translation).dot(up) - entry.height


def swing(armature: Any, entry: Any) -> float:
    """The angle between two half-planes that begin at the axis of the limb."""
    names = (entry.root_bone or "upper_arm", entry.bone, entry.tip_bone or "hand")
    root, middle, tip = (world_of(armature, name).translation for name in names)
    axis = (tip - root).normalized()
    across = [way - axis * way.dot(axis) for way in (middle - root, goal_of(entry).translation - root)]
    return across[0].angle(across[1])


def say_of_pole(armature: Any, entry: Any) -> float:
    """How much the angle counts: less where the limb is nearly straight, or its axis passes the pole."""
    names = ("upper_arm", entry.bone, "hand")
    root, middle, tip = (world_of(armature, name).translation for name in names)
    ways = (middle - root, goal_of(entry).translation - root)
    squares = [np.sin(way.angle(tip - root)) ** 2 for way in ways]
    return float(np.prod([square / (square + 0.1**2) for square in squares]))


def centre_of_mass(armature: Any) -> np.ndarray:
    masses = np.array([bone.length**3 for bone in armature.data.bones])
    centres = [world_of(armature, b.name) @ Vector((0.0, 0.5 * b.length, 0.0)) for b in armature.data.bones]
    return masses @ np.array(centres) / masses.sum()


def turned_off(armature: Any, entry: Any) -> float:
    return angle_between(world_of(armature, entry.bone), goal_of(entry))


def away(armature: Any, entry: Any) -> float:
    return (point_of(armature, entry) - goal_of(entry).translation).length


def off_aim(armature: Any, entry: Any) -> float:
    ray = world_of(armature, entry.bone).to_3x3().col[1]
    return ray.angle(goal_of(entry).translation - point_of(armature, entry))


def off_balance(armature: Any, entry: Any) -> float:
    return float(np.linalg.norm((centre_of_mass(armature) - goal_of(entry).translation)[:2]))


ERRORS: dict[str, Callable[[Any, Any], float]] = {
    'POSITION': away,
    'ORIENTATION': turned_off,
    'BOTH': lambda armature, entry: away(armature, entry) + turned_off(armature, entry),
    'AIM': off_aim,
    'POLE': swing,
    'PLANE': lambda armature, entry: abs(height(armature, entry)),
    'FLOOR': lambda armature, entry: max(0.0, -height(armature, entry)),
    'DISTANCE': lambda armature, entry: abs(away(armature, entry) - entry.distance),
    'BALANCE': off_balance,
}


def told(error: Any) -> float:
    """What the report says."""
    return sum(amount for amount in (error.position, error.rotation) if amount is not None)


# Each kind


def test_every_kind_is_known_to_both_sides_and_keeps_its_number():
    assert [item[0] for item in KIND_ITEMS] == list(KINDS)
    assert [item[4] for item in KIND_ITEMS] == list(range(len(KINDS)))
    assert set(MOVED) == set(ERRORS) == set(KINDS) - {'STAY', 'ONE_OF'}


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_effector_asks_for_nothing(kind: str):
    armature = figure("foot.L", "foot.R")
    add(armature, kind, MOVED.get(kind, ["spine"])[0])
    before = np.array([bone.matrix for bone in armature.pose.bones])
    report = posing.solve_pose(armature)
    assert report.reached
    # A choice is solved by descents, which end within the tolerance and not at rounding.
    atol = 1e-4 if kind == 'ONE_OF' else 1e-5
    np.testing.assert_allclose([bone.matrix for bone in armature.pose.bones], before, atol=atol)


@pytest.mark.parametrize("kind", MOVED)
def test_a_kind_is_solved_as_blender_shows_it(kind: str):
    armature = figure("foot.L", "foot.R", place=True)
    entry = moved(armature, kind)
    before = ERRORS[kind](armature, entry)
    assert before > 0.02
    report = posing.solve_pose(armature)
    error = report.effectors[-1]
    after = ERRORS[kind](armature, entry)
    assert report.reached, report.message
    assert after < (TENTH_DEGREE if kind in ANGLES else HALF_MILLIMETRE)
    assert told(error) == pytest.approx(
        after, abs=2e-3 if kind in ANGLES else 2e-6
    )  # acos of single precision
    assert (error.kind, error.position is None) == (kind, kind in ANGLES)
    assert error.tolerance_position == pytest.approx(1e-4 if kind == 'FLOOR' else 5e-4)
    for foot in armature.poise.effectors[:2]:
        assert away(armature, foot) < HALF_MILLIMETRE


@pytest.mark.parametrize("kind", MOVED)
def test_a_miss_is_measured_as_blender_shows_it(kind: str):
    armature = figure("foot.L", "foot.R", place=True)
    entry = moved(armature, kind)
    entry.weight = 0.0
    error = posing.solve_pose(armature).effectors[-1]
    missed = ERRORS[kind](armature, entry)
    if kind == 'POLE':
        missed *= say_of_pole(armature, entry)
    assert told(error) == pytest.approx(missed, rel=1e-4)
    assert told(error) > 0.02 and not error.reached and error.why == "its weight is 0"


def test_a_miss_counts_along_the_axes_that_are_on():
    armature = figure("foot.L", "foot.R", place=True)
    entry = moved(armature, 'BOTH')
    entry.weight, entry.target.scale = 0.0, (0.2, 3.0, 1.0)
    entry.position_axes, entry.orientation_axes = (False, True, True), (True, False, True)
    bpy.context.view_layer.update()
    error = posing.solve_pose(armature).effectors[-1]
    bone, goal = world_of(armature, entry.bone), goal_of(entry)
    off = (point_of(armature, entry) - goal.translation).yz
    turn = goal.to_quaternion().rotation_difference(bone.to_quaternion()).to_exponential_map().xz
    assert error.position == pytest.approx(off.length, rel=1e-4) and off.length > 0.02
    assert error.rotation == pytest.approx(turn.length, rel=1e-4) and turn.length > 0.02


def test_a_flat_target_has_a_place_all_the_same():
    armature = figure("foot.L", "foot.R")
    entry = moved(armature, 'POSITION')
    entry.target.scale = (1.0, 0.0, 1.0)
    bpy.context.view_layer.update()
    assert posing.solve_pose(armature).reached and away(armature, entry) < HALF_MILLIMETRE


@pytest.mark.parametrize("kind", MOVED)
def test_a_kind_is_baked_as_blender_plays_it(kind: str):
    armature = figure("foot.L", "foot.R")
    entry = moved(armature, kind, part=0.2)
    for frame, part in ((1, 0.0), (4, 0.8)):
        entry.target.location += MOVED[kind][1] * part
        entry.target.keyframe_insert("location", frame=frame)
    report = posing.bake(armature, range(1, 5))
    assert report.reached, report.summary()
    for row, frame in enumerate(range(1, 5)):
        bpy.context.scene.frame_set(frame)
        after = ERRORS[kind](armature, entry)
        assert after < (TENTH_DEGREE if kind in ANGLES else HALF_MILLIMETRE)
        errors = np.nan_to_num([report.position_errors[row, -1], report.rotation_errors[row, -1]])
        assert errors.sum() == pytest.approx(after, abs=2e-3 if kind in ANGLES else 2e-6)


def test_an_aim_takes_any_axis_and_point(armature: Any):
    entry = add(armature, 'AIM', "head", axis='NEG_Z', point=(0.05, 0.1, 0.0))
    entry.target.location = (0.5, -3.0, 2.0)
    bpy.context.view_layer.update()
    assert posing.solve_pose(armature).reached
    ray = -world_of(armature, "head").to_3x3().col[2]
    assert ray.angle(entry.target.location - point_of(armature, entry)) < TENTH_DEGREE


def test_a_pole_takes_the_child_on_the_way_to_another_effector_or_the_nearest_or_the_one_chosen():
    armature = builders.armature(
        "figure", [*BONES, ("twist", "forearm", (0.6, 0.01, 1.365), (0.65, 0.0, 1.36))]
    )
    entry = add(armature, 'POLE', "forearm")

    def limb() -> tuple[str, str, str]:
        pole = read_effectors(armature)[0]
        return pole.root_bone, pole.bone, pole.tip_bone

    assert limb() == ("upper_arm", "forearm", "hand")
    posing.add_effector(armature, "twist")
    assert limb() == ("upper_arm", "forearm", "twist")
    entry.root_bone, entry.tip_bone = "spine", "hand"
    assert limb() == ("spine", "forearm", "hand")


@pytest.mark.parametrize("scale", [(2.0, 2.0, 0.0), (-1.0, 1.0, 1.0), (1.0, 1.0, -1.0)])
def test_a_plane_faces_where_the_z_of_its_target_points_however_that_is_scaled(
    scale: tuple[float, float, float],
):
    armature = figure()
    entry = add(armature, 'FLOOR', "hand")
    entry.target.scale, entry.target.rotation_euler = scale, (0.2, 0.0, 0.0)
    bpy.context.view_layer.update()
    tilt, flip = Euler((0.2, 0.0, 0.0)).to_matrix(), -1.0 if scale[2] < 0.0 else 1.0
    up = tilt @ Vector((0.0, 0.0, flip))
    entry.target.location += up * 0.1
    assert posing.solve_pose(armature).reached
    assert (point_of(armature, entry) - entry.target.location).dot(up) > -1e-4


def test_a_distance_is_kept_from_another_bone():
    armature = figure("foot.L", "foot.R", place=True)
    entry = add(armature, 'DISTANCE', "hand", other_bone="head", other_point=(0.0, 0.1, 0.0), distance=1.2)
    assert posing.solve_pose(armature).reached
    head = world_of(armature, "head") @ Vector((0.0, 0.1, 0.0))
    assert (point_of(armature, entry) - head).length == pytest.approx(1.2, abs=HALF_MILLIMETRE)


def test_without_a_target_the_balance_is_over_what_the_body_stands_on():
    armature = figure("foot.L", "foot.R")
    entry = add(armature, 'BALANCE', "hips")
    entry.target = None
    left, right = (armature.poise.effectors[number].target for number in (0, 1))
    left.location += Vector((0.1, -0.3, 0.0))
    assert posing.solve_pose(armature).reached
    middle = np.array((left.location + right.location) / 2.0)
    assert np.linalg.norm((centre_of_mass(armature) - middle)[:2]) < HALF_MILLIMETRE
    armature.poise.effectors[0].is_support = True
    assert posing.solve_pose(armature).reached
    assert np.linalg.norm((centre_of_mass(armature) - np.array(left.location))[:2]) < HALF_MILLIMETRE


def test_only_bones_that_others_move_and_its_own_move_for_a_balance():
    armature = figure("foot.L", "foot.R")
    moved(armature, 'BALANCE')
    before = pose_record(armature)
    posing.solve_pose(armature)
    after = pose_record(armature)
    assert {name.split()[0] for name in after if after[name] != before[name]} == {
        "hips", *(f"{bone}.{side}" for bone in ("thigh", "shin", "foot") for side in "LR")
    }  # fmt: skip


# Floors


def test_a_sole_never_sinks_below_its_floor_over_a_bake(armature: Any):
    armature.poise.tolerance_position = 5e-4
    hips = add(armature, 'POSITION', "hips", priority=1)
    ground = builders.empty("ground", (0.0, 0.0, -0.01))
    for side in "LR":
        sole = add(armature, 'FLOOR', f"foot.{side}", point=SOLE)
        sole.target = ground
        step = add(armature, 'BOTH', f"foot.{side}", priority=2)
        for frame, offset in ((1, (0.0, 0.0, 0.0)), (3, (0.0, -0.1, 0.12)), (5, (0.0, -0.3, -0.1))):
            step.target.location = world_of(armature, f"foot.{side}").translation + Vector(offset)
            step.target.keyframe_insert("location", frame=frame)
    for frame, drop in ((1, 0.0), (5, -0.25)):
        hips.target.location.z += drop
        hips.target.keyframe_insert("location", frame=frame)
    report = posing.bake(armature, range(1, 6))
    assert not report.reached  # the steps go below the ground
    lifted = False
    for row, frame in enumerate(range(1, 6)):
        bpy.context.scene.frame_set(frame)
        for column, entry in enumerate(armature.poise.effectors):
            if entry.kind == 'FLOOR':
                assert height(armature, entry) > -1e-4
                assert report.position_errors[row, column] == pytest.approx(
                    max(0.0, -height(armature, entry)), abs=1e-6
                )
                lifted |= height(armature, entry) > 0.05
        assert away(armature, hips) < HALF_MILLIMETRE
    assert lifted  # one-sided: it is not pulled down
    missed = report.tolerances.missed(report.position_errors, report.rotation_errors).any(axis=0)
    assert missed.tolist() == [entry.priority == 2 for entry in armature.poise.effectors]


def test_a_floor_is_held_more_exactly_than_the_tolerance_and_a_miss_is_told_in_its_words(armature: Any):
    armature.poise.move_root = False
    entry = add(armature, 'POSITION', "hand")
    entry.target.location.z -= 0.0003
    floor = add(armature, 'FLOOR', "hand", priority=1)
    floor.target.location.z += 0.0
    report = posing.solve_pose(armature)
    assert report.effectors[0].reached and not report.effectors[1].reached
    assert report.effectors[1].position == pytest.approx(0.0003, abs=1e-5)
    assert "hand.001 by 0.3 mm below its floor (level 0 takes precedence: hand)" in report.message


# Influence


@pytest.mark.parametrize("kind", [kind for kind in MOVED if kind != 'BOTH'])
def test_at_half_its_influence_an_effector_goes_half_the_way(kind: str):
    armature = figure("foot.L", "foot.R")
    entry = moved(armature, kind)
    start = ERRORS[kind](armature, entry)
    entry.influence = 0.5
    report = posing.solve_pose(armature)
    assert report.reached, report.message
    # An angle is that from where the bone is, which may have moved meanwhile.
    rel = 0.1 if kind in {'AIM', 'POLE'} else 1e-3
    assert ERRORS[kind](armature, entry) == pytest.approx(0.5 * start, rel=rel)


def test_a_floor_that_is_not_reached_is_where_it_is_at_any_influence(armature: Any):
    floor, hand = add(armature, 'FLOOR', "hand", influence=0.5), add(armature, 'POSITION', "hand")
    floor.target.location.z -= 0.2
    hand.target.location.z -= 0.19
    assert posing.solve_pose(armature).reached


def test_without_influence_an_effector_takes_no_part():
    armature = figure("foot.L", "foot.R")
    entry = moved(armature, 'BOTH')
    armature.poise.effectors[0].target.location.y -= 0.2
    before = pose_record(armature)
    entry.influence = 0.0
    report = posing.solve_pose(armature)
    assert report.reached and report.effectors[-1].position is None
    assert entry.error_position == -1.0
    without = pose_record(armature)
    assert without != before
    for bone in armature.pose.bones:
        bone.matrix_basis = Matrix()
    entry.enabled = False
    posing.solve_pose(armature)
    assert pose_record(armature) == without


def test_a_bake_follows_an_animated_influence():
    armature = figure("foot.L", "foot.R")
    armature.poise.move_root = False
    armature.poise.smoothness = 0.0  # else the trunk leans towards the target a little before
    entry = moved(armature, 'POSITION')
    for frame, influence in ((1, 0.0), (3, 0.0), (7, 1.0), (9, 0.0)):
        entry.influence = influence
        entry.keyframe_insert("influence", frame=frame)
    linear(armature)
    start = point_of(armature, entry)
    end = goal_of(entry).translation.copy()
    report = posing.bake(armature, range(1, 10))
    assert report.reached, report.summary()
    assert np.isnan(report.position_errors[[0, 1, 2, 8], 2]).all()
    for frame in range(1, 10):
        bpy.context.scene.frame_set(frame)
        part = float(np.interp(frame, (3, 7, 9), (0.0, 1.0, 0.0)))
        assert (point_of(armature, entry) - start.lerp(end, part)).length < HALF_MILLIMETRE
        assert entry.influence == pytest.approx(part)  # its keys are still there


def test_a_bake_leaves_keys_of_bones_that_an_effector_moves_only_in_other_frames():
    """They were replaced without a question where it begins to take part soon after the bake."""
    armature = figure("foot.L")
    forearm = armature.pose.bones["forearm"]
    for frame in (1, 3, 6):
        forearm.rotation_quaternion = (1.0, 0.05 * frame, 0.0, 0.0)
        forearm.keyframe_insert("rotation_quaternion", frame=frame)
    bpy.context.scene.frame_set(1)
    entry = add(armature, 'POSITION', "hand")
    for frame, influence in ((8, 0.0), (12, 1.0)):
        entry.influence = influence
        armature.poise.effectors["hand"].keyframe_insert("influence", frame=frame)
    report = posing.bake(armature, range(1, 7))
    assert report.reached and not report.keys_replaced
    assert all(
        len(curve.keyframe_points) == 3
        for curve in channelbag_of(armature).fcurves
        if "forearm" in curve.data_path
    )


def without_a_hand(*, bake: bool) -> str:
    """What is said of a head that is out of reach, after a hand that takes no part until frame 5."""
    armature = figure()
    armature.poise.move_root = False
    hand = moved(armature, 'POSITION')
    head = add(armature, 'POSITION', "head", chain_depth=1, point=(0.0, 0.2, 0.0))
    head.target.location += Vector((0.3, -0.3, 0.3))
    for frame, influence in ((5, 0.0), (9, 1.0)):
        hand.influence = influence
        armature.poise.effectors["hand"].keyframe_insert("influence", frame=frame)
    bpy.context.scene.frame_set(1)
    if not bake:
        return posing.solve_pose(armature).effectors[-1].why
    armature.poise.smoothness = 0.0  # in frame 1 it is worst
    return posing.bake(armature, range(1, 12)).reasons[-1]


def test_reasons_in_a_bake_are_those_of_their_effectors_where_others_take_no_part():
    assert without_a_hand(bake=False) == "beyond the longest reach of its chain"
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
    assert without_a_hand(bake=True) == "beyond the longest reach of its chain"


def test_a_bake_follows_an_animated_distance_and_height():
    armature = figure("foot.L", "foot.R")
    distance, plane = add(armature, 'DISTANCE', "hand"), add(armature, 'PLANE', "head")
    distance.distance = 0.15
    for entry, name, change in ((distance, "distance", 0.1), (plane, "height", -0.05)):
        entry.keyframe_insert(name, frame=1)
        setattr(entry, name, getattr(entry, name) + change)
        entry.keyframe_insert(name, frame=3)
    linear(armature)
    assert posing.bake(armature, range(1, 4)).reached
    for frame, part in ((1, 0.0), (2, 0.5), (3, 1.0)):
        bpy.context.scene.frame_set(frame)
        assert away(armature, distance) == pytest.approx(0.15 + 0.1 * part, abs=HALF_MILLIMETRE)
        assert height(armature, plane) == pytest.approx(0.0, abs=HALF_MILLIMETRE)
        assert plane.height == pytest.approx(-0.05 * part)


def linear(armature: Any) -> None:
    """Keys of the armature's settings, with straight lines between."""
    for curve in channelbag_of(armature).fcurves:
        for key in curve.keyframe_points:
            key.interpolation = 'LINEAR'


def test_keys_of_an_influence_play_where_the_armature_has_been_animated_before():
    armature = figure()
    armature.pose.bones["hand"].keyframe_insert("location", frame=1)
    bpy.context.scene.frame_set(5)
    entry = add(armature, 'POSITION', "hand")
    for frame, influence in ((1, 0.0), (9, 1.0)):
        entry.influence = influence
        armature.poise.effectors[0].keyframe_insert("influence", frame=frame)
    for frame, influence in ((1, 0.0), (5, 0.5), (9, 1.0)):
        bpy.context.scene.frame_set(frame)
        assert entry.influence == pytest.approx(influence)


def test_keys_of_an_influence_follow_their_effector_in_the_list():
    armature = figure("foot.L", "foot.R", "hand")
    armature.poise.effectors["hand"].keyframe_insert("influence", frame=1)
    armature.poise.effectors["foot.R"].driver_add("influence")

    def paths() -> tuple[list[str], list[str]]:
        both = channelbag_of(armature).fcurves, armature.animation_data.drivers
        keyed, driven = ([curve.data_path for curve in each] for each in both)
        return keyed, driven

    armature.poise.active_effector = 2
    assert bpy.ops.poise.move_effector(direction='UP') == {'FINISHED'}
    assert paths() == (["poise.effectors[1].influence"], ["poise.effectors[2].influence"])
    posing.remove_effector(armature, 0)
    assert paths() == (["poise.effectors[0].influence"], ["poise.effectors[1].influence"])
    posing.remove_effector(armature, 0)
    assert paths() == ([], ["poise.effectors[0].influence"])


# Chain depth


def changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """Names of the bones that are not to the bit where they were."""
    return {name.split()[0] for name in after if after[name] != before[name]}


@pytest.mark.parametrize("kind", [kind for kind in MOVED if kind != 'BALANCE'])
def test_bones_above_the_chain_stay_to_the_bit(kind: str, armature: Any):
    entry = moved(armature, kind, part=0.5)
    entry.target.location.x -= 0.3
    armature.poise.effectors[0].enabled = kind != 'POLE'
    depth = 2 if kind == 'POLE' else 3
    entry.chain_depth = depth
    before = pose_record(armature)
    report = posing.solve_pose(armature)
    bone, chain = armature.pose.bones[entry.bone], set()
    for _ in range(depth):
        chain.add(bone.name)
        bone = bone.parent or bone
    assert report.effectors[-1].reached, report.message
    assert changed(before, pose_record(armature)) <= chain
    assert changed(before, pose_record(armature))
    posing.bake(armature, range(1, 3))
    baked = {curve.data_path.split('"')[1] for curve in channelbag_of(armature).fcurves}
    assert baked <= chain


def test_a_bone_that_another_chain_reaches_moves_for_both():
    armature = figure("foot.L", "foot.R")
    entry = moved(armature, 'POSITION')
    entry.target.location.x += 1.0
    entry.chain_depth = 3
    assert not posing.solve_pose(armature).reached
    spine = pose_record(armature)["spine location"], pose_record(armature)["spine rotation_quaternion"]
    assert spine == ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))
    head = add(armature, 'ORIENTATION', "head")
    posing.solve_pose(armature)
    assert armature.pose.bones["spine"].rotation_quaternion[:] != (1.0, 0.0, 0.0, 0.0)
    assert head.chain_depth == 0


# Pins


def test_a_pinned_bone_needs_no_target_and_goes_where_the_armature_goes():
    armature = figure("foot.L")
    hand, foot = moved(armature, 'POSITION'), Entry(armature, 0)
    armature.poise.active_effector = 0
    assert bpy.ops.poise.pin() == {'FINISHED'}
    foot.target = None
    assert foot.pinned
    place = world_of(armature, "foot.L")
    hand.target.location += Vector((0.0, -0.5, -0.6))
    bpy.context.view_layer.update()
    report = posing.solve_pose(armature)
    assert report.effectors[0].reached
    np.testing.assert_allclose(world_of(armature, "foot.L"), place, atol=HALF_MILLIMETRE)
    hand.enabled = False  # its target stays where it is in the world
    armature.location, armature.rotation_euler = (1.0, 2.0, 3.0), (0.0, 0.0, 1.0)
    bpy.context.view_layer.update()
    assert posing.solve_pose(armature).effectors[0].reached
    wanted = armature.matrix_world @ place
    np.testing.assert_allclose(world_of(armature, "foot.L"), wanted, atol=HALF_MILLIMETRE)
    assert bpy.ops.poise.pin() == {'FINISHED'} and not foot.pinned
    assert foot.target is not None  # without one nothing could be solved
    assert posing.solve_pose(armature).effectors[0].reached
    foot.kind, foot.point = 'POSITION', (0.02, 0.1, 0.0)
    posing.pin(armature, 0)  # of the point of the bone
    there = point_of(armature, foot)
    armature.pose.bones["thigh.L"].rotation_quaternion = (0.96, 0.28, 0.0, 0.0)
    bpy.context.view_layer.update()
    assert (point_of(armature, foot) - there).length > 0.05
    assert posing.solve_pose(armature).effectors[0].reached
    assert (point_of(armature, foot) - there).length < HALF_MILLIMETRE
    posing.unpin(armature, 0)
    assert not foot.pinned


# Staying near


def bend(armature: Any, **angles: float) -> None:
    for name, angle in angles.items():
        bone = armature.pose.bones[name]
        bone.rotation_mode, bone.rotation_euler.x = 'XYZ', angle
    bpy.context.view_layer.update()


def test_bones_go_back_to_the_pose_that_was_stored():
    armature = figure("foot.L", "foot.R")
    entry = add(armature, 'STAY', "spine")
    bend(armature, spine=0.3, head=-0.4, upper_arm=0.7)
    armature.poise.active_effector = 2
    assert bpy.ops.poise.store_pose() == {'FINISHED'}
    assert (len(entry.stored), entry.stay, entry.priority) == (5, 'STORED', 1)
    bend(armature, spine=-0.2, head=0.1, upper_arm=0.0)
    assert posing.solve_pose(armature).reached
    angles = [armature.pose.bones[name].rotation_euler.x for name in ("spine", "head", "upper_arm")]
    assert angles == pytest.approx([0.3, -0.4, 0.7], abs=1e-5)
    assert entry.error_rotation < 1e-5
    entry.stay = 'REST'
    assert posing.solve_pose(armature).reached
    assert [armature.pose.bones[name].rotation_euler.x for name in ("spine", "head")] == pytest.approx(
        [0.0, 0.0], abs=1e-6
    )
    entry.stay, entry.influence = 'STORED', 0.5
    assert posing.solve_pose(armature).reached
    assert armature.pose.bones["upper_arm"].rotation_euler.x == pytest.approx(0.35, abs=1e-5)


def test_in_a_bake_bones_stay_as_near_as_their_influence_says_where_others_take_no_part():
    armature = figure("foot.L", "foot.R")
    hand = moved(armature, 'POSITION')
    entry = add(armature, 'STAY', "upper_arm", influence=0.5)
    bend(armature, forearm=0.8)
    armature.poise.move_root, armature.poise.smoothness = False, 0.0
    for frame, influence in ((1, 0.0), (5, 1.0)):
        hand.influence = influence
        armature.poise.effectors["hand"].keyframe_insert("influence", frame=frame)
    assert posing.bake(armature, range(1, 6)).reached
    bpy.context.scene.frame_set(1)
    assert entry.influence == 0.5
    assert armature.pose.bones["forearm"].rotation_euler.x == pytest.approx(0.4, abs=1e-4)


@pytest.mark.parametrize("influence", [0.5, 1.0])
def test_about_axes_that_do_not_matter_bones_turn_to_what_they_prefer_otherwise(influence: float):
    armature = figure("foot.L", "foot.R")
    armature.poise.move_root = False
    add(armature, 'STAY', "upper_arm", orientation_axes=(True, False, False), influence=influence)
    bend(armature, forearm=0.8)
    armature.pose.bones["forearm"].rotation_euler.z = 0.6
    assert posing.solve_pose(armature).reached
    turn = armature.pose.bones["forearm"].rotation_euler
    assert turn[:] == pytest.approx([(1.0 - influence) * 0.8, 0.0, (1.0 - influence) * 0.6], abs=1e-3)


def test_a_small_influence_of_staying_near_changes_little():
    """It was led from the pose before: at any influence that was preferred in place of the rest pose."""
    armature = figure("foot.L", "foot.R")
    armature.poise.move_root = False
    moved(armature, 'POSITION')
    entry = add(armature, 'STAY', "upper_arm")
    bend(armature, forearm=0.9, upper_arm=0.5)
    for frame, influence in ((3, 0.0), (7, 1.0)):
        entry.influence = influence
        armature.poise.effectors[3].keyframe_insert("influence", frame=frame)
    report = posing.bake(armature, range(1, 11))
    assert report.reached and not report.branches, report.summary()


def test_staying_near_matters_less_than_what_is_above_it_and_more_than_nothing():
    def lean(**settings: Any) -> float:
        bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)
        armature = figure("foot.L", "foot.R")
        hand = moved(armature, 'POSITION')
        hand.target.location += Vector((-0.1, -0.3, -0.4))
        entry = add(armature, 'STAY', "spine", **settings)
        report = posing.solve_pose(armature)
        assert report.reached, report.message  # how far they are off is no miss
        assert away(armature, hand) < HALF_MILLIMETRE
        assert not entry.enabled or entry.error_rotation == pytest.approx(report.effectors[-1].rotation)
        return armature.pose.bones["spine"].rotation_quaternion.angle

    loose = lean(enabled=False)
    assert lean() < 0.7 * loose and lean(weight=20.0) < 0.5 * loose


def test_staying_near_comes_first_where_its_level_is_higher(armature: Any):
    armature.poise.move_root = False
    hand = moved(armature, 'POSITION')
    hand.priority, hand.chain_depth = 1, 3
    entry = add(armature, 'STAY', "upper_arm", priority=0)
    report = posing.solve_pose(armature)
    assert entry.error_rotation < 1e-4
    assert not report.reached and "takes precedence" in report.message


def test_in_a_bake_bones_stay_near_what_is_animated():
    armature = figure("foot.L", "foot.R")
    hand = add(armature, 'POSITION', "hand")
    add(armature, 'STAY', "hips", stay='PRESENT', stay_scope='BODY')
    bend(armature, head=0.0, spine=0.0)
    for frame, angle in ((1, 0.0), (5, 0.3)):
        for name in ("head", "spine"):
            armature.pose.bones[name].rotation_euler.x = angle
            armature.pose.bones[name].keyframe_insert("rotation_euler", frame=frame)
    report = posing.bake(armature, range(1, 6))
    assert report.reached, report.summary()
    bpy.context.scene.frame_set(5)
    # Nothing else moves the head; the spine has to let the hand be where it is.
    assert armature.pose.bones["head"].rotation_euler.x == pytest.approx(0.3, abs=1e-4)
    assert 0.15 < armature.pose.bones["spine"].rotation_euler.x < 0.35
    assert away(armature, hand) < HALF_MILLIMETRE


# Bad input


def setting(**values: Any) -> Callable[[Any, Any], None]:
    def change(armature: Any, entry: Any) -> None:
        for name, value in values.items():
            setattr(entry, name, value)

    return change


def on_target(**values: Any) -> Callable[[Any, Any], None]:
    def change(armature: Any, entry: Any) -> None:
        for name, value in values.items():
            setattr(entry.target, name, value)

    return change


def pinned(value: float) -> Callable[[Any, Any], None]:
    return setting(pinned=True, pin_matrix=(value,) * 15 + (1.0,))


def locked(armature: Any, entry: Any) -> None:
    entry.chain_depth = 1
    head = armature.pose.bones["head"]
    head.lock_rotations_4d = head.lock_rotation_w = True
    head.lock_rotation = (True, True, True)


NAN = float("nan")
OFF = (False,) * 3
FLAT = "scaled to nothing along X or Y"
BAD: dict[str, tuple[str, str, Callable[[Any, Any], None], str]] = {
    "pole without a parent": ('POLE', "forearm", setting(bone="hips"), "bone 'hips' has no parent"),
    "pole without a child": ('POLE', "forearm", setting(bone="hand"), "bone 'hand' has no child"),
    "pole of no limb": ('POLE', "forearm", setting(tip_bone="head"), "must follow one another"),
    "pole with a lost root": ('POLE', "forearm", setting(root_bone="gone"), "limb root 'gone' is no bone"),
    "distance to itself": ('DISTANCE', "hand", setting(other_bone="hand"), "from its own bone 'hand'"),
    "distance to no bone": ('DISTANCE', "hand", setting(other_bone="gone"), "other bone 'gone' is no bone"),
    "distance to nothing": ('DISTANCE', "hand", setting(target=None), "has no target"),
    "distance that is no number": ('DISTANCE', "hand", setting(distance=NAN), "its distance is not a number"),
    "height that is no number": ('FLOOR', "hand", setting(height=NAN), "its height is not a number"),
    "influence that is no number": ('AIM', "head", setting(influence=NAN), "its influence is not a number"),
    "point that is no number": ('PLANE', "hand", setting(point=(0.0, NAN, 0.0)), "its Point is not a number"),
    "plane scaled to nothing": ('PLANE', "hand", on_target(scale=(1.0, 0.0, 1.0)), FLAT),
    "floor scaled to nothing": ('FLOOR', "hand", on_target(scale=(0.0, 0.0, 0.0)), FLAT),
    "aim without a target": ('AIM', "head", setting(target=None), "has no target"),
    "balance on nothing": ('BALANCE', "hips", setting(target=None), "nothing that the body stands on"),
    "balance on no axis": ('BALANCE', "hips", setting(position_axes=OFF), "X and Y are both off"),
    "stay near no pose": ('STAY', "spine", setting(stay='STORED'), "has no stored pose"),
    "stay on no axis": ('STAY', "spine", setting(position_axes=OFF, orientation_axes=OFF), "axes are off"),
    "pin nowhere": ('BOTH', "hand", pinned(NAN), "its Pin Matrix is not a number: pin the bone again"),
    "pin without a turn": ('BOTH', "hand", pinned(0.0), "pinned, its bone had no orientation"),
    "a chain that is locked": ('AIM', "head", locked, "no bone of its chain in 'figure' may move"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_words_and_changes_nothing(case: str):
    kind, bone, spoil, words = BAD[case]
    armature = figure()
    entry = add(armature, kind, bone)
    spoil(armature, entry)
    before = pose_record(armature), action_record(armature), scene_record(armature)
    for use in (posing.solve_pose, lambda rig: posing.bake(rig, range(1, 3))):
        with pytest.raises(IKError) as refused:
            use(armature)
        text = str(refused.value)
        assert words in text
        assert text.startswith(f"effector '{bone}'")
    assert (pose_record(armature), action_record(armature), scene_record(armature)) == before


def test_a_wrong_effector_is_not_added(armature: Any):
    objects = len(bpy.data.objects)
    for kind, bone, words in (
        ('POLE', "hips", "no parent"),
        ('POLE', "head", "no child"),
        ('NOWHERE', "head", "Kind"),
    ):
        with pytest.raises(IKError, match=words):
            posing.add_effector(armature, bone, kind=kind)
    assert len(armature.poise.effectors) == 0 and len(bpy.data.objects) == objects


def test_what_cannot_be_pinned_or_stored_is_refused(armature: Any):
    add(armature, 'AIM', "head")
    with pytest.raises(IKError, match=r"'head' cannot be pinned.*Position, Orientation, Position and"):
        posing.pin(armature, 0)
    with pytest.raises(RuntimeError, match=r"choose the kind Stay Near"):
        bpy.ops.poise.store_pose()
    with pytest.raises(IKError, match="there is none at 7"):
        posing.move_effector(armature, 0, 7)
    assert not armature.poise.effectors[0].pinned


# What is kept


def test_targets_are_made_only_where_they_are_lacking(armature: Any):
    for kind, bone in (('STAY', "spine"), ('BALANCE', "hips"), ('POSITION', "hand"), ('AIM', "head")):
        posing.add_effector(armature, bone, kind=kind, make_target=False)
    armature.poise.effectors[0].target = None
    posing.pin(armature, 2)
    assert bpy.ops.poise.make_targets() == {'FINISHED'}
    assert [entry.target is not None for entry in armature.poise.effectors] == [False, False, False, True]


def settings(entry: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, prop in POISE_PG_effector.bl_rna.properties.items():
        value = getattr(entry, name)
        if prop.type not in {'POINTER', 'COLLECTION'}:
            found[name] = tuple(value) if getattr(prop, "is_array", False) else value
    found["stored"] = [(bone.name, tuple(bone.location), tuple(bone.rotation)) for bone in entry.stored]
    return found


def test_all_settings_are_in_the_file(tmp_path: Path, armature: Any):
    for kind in KINDS:
        add(armature, kind, MOVED.get(kind, ["spine"])[0], influence=0.25, chain_depth=2, height=0.125)
    posing.pin(armature, 0)
    armature.pose.bones["hand"].rotation_quaternion = (sqrt(0.5), 0.0, sqrt(0.5), 0.0)
    posing.store_pose(armature, list(KINDS).index('STAY'))
    before = [settings(entry) for entry in armature.poise.effectors]
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "kinds.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "kinds.blend"))
    assert [settings(entry) for entry in bpy.data.objects["figure"].poise.effectors] == before


@pytest.mark.parametrize("group", [POISE_PG_effector, POISE_PG_stored_bone, POISE_PG_target])
def test_all_settings_can_be_overridden_on_linked_characters(group: Any):
    # Blender has the name, by which it finds elements of a list, under its own care.
    own = [prop for prop in group.bl_rna.properties if prop.identifier not in {"rna_type", "name"}]
    assert all(prop.is_overridable for prop in own), [p.identifier for p in own if not p.is_overridable]

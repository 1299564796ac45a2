# SPDX-License-Identifier: GPL-3.0-or-later
"""The bench of Rigify's basic human on a few poses: reached, inside limits, and drawn as it says."""

import bpy
import numpy as np
import pytest

from benchmarks import bench_rig
from blender_ik_addon.core.euler import order_index
from blender_ik_addon.core.rotation import matrix_from_euler
from examples import scenario

POSES = bench_rig.draw(3, seed=1)


@pytest.fixture
def figure() -> bpy.types.Object:
    scenario.enable_rigify()
    return bench_rig.make_figure()


def limits_of(bone: str) -> bench_rig.Limits:
    return next(limits for limits in bench_rig.LIMITS if limits.bone == bone)


def turned(x: float, y: float, z: float) -> np.ndarray:
    """(3, 3) from degrees."""
    return matrix_from_euler(np.radians([x, y, z]), order_index(bench_rig.ORDER))


def test_poses_are_reached_from_rest_inside_their_limits(figure: bpy.types.Object) -> None:
    targets = bench_rig.targets_of(figure, POSES)
    outcomes = [bench_rig.solve_ours(figure, i, matrices) for i, matrices in enumerate(targets)]
    assert [outcome.reached for outcome in outcomes] == [True] * len(POSES), outcomes
    assert max(outcome.beyond for outcome in outcomes) <= 0.0


def test_blender_holds_the_limits_of_the_table(figure: bpy.types.Object) -> None:
    for limits in bench_rig.LIMITS:
        bone = figure.pose.bones[limits.bone]
        for letter, of in zip("xyz", limits.ranges, strict=True):
            assert getattr(bone, f"lock_ik_{letter}") == (of is None)
            if of is not None:  # Blender would have cut a range off that does not contain 0
                held = np.degrees([getattr(bone, f"ik_min_{letter}"), getattr(bone, f"ik_max_{letter}")])
                np.testing.assert_allclose(held, of, rtol=0.0, atol=1e-4)


def test_blenders_ik_leaves_a_drawn_pose_as_it_is(figure: bpy.types.Object) -> None:
    # Otherwise the pose would be outside of what Blender's IK takes the limits to be.
    setting = next(setting for setting in bench_rig.SETTINGS if setting.tree and setting.solver == 'LEGACY')
    (targets,) = bench_rig.targets_of(figure, POSES[:1])
    with bench_rig.blender_ik(figure, setting) as tails:
        bench_rig.aim_tails(figure, tails, targets)
        bench_rig.put(figure, POSES[0])
        distances, angles = bench_rig.misses(bench_rig.evaluated(figure, bench_rig.EFFECTORS), targets)
    assert distances.max() < 1e-5
    assert angles.max() < 1e-4
    assert not any(bone.constraints for bone in figure.pose.bones)


def test_limits_as_blenders_ik_takes_them() -> None:
    arm, elbow, knee = limits_of("upper_arm.L"), limits_of("forearm.L"), limits_of("shin.L")
    for limits, inside, beyond, by in (
        (arm, (110, 0, 0), (120, 0, 0), 10),  # along one axis: the angle itself
        (arm, (0, 80, 0), (0, 95, 0), 15),
        (arm, (0, 0, -65), (0, 0, -70), 5),
        (elbow, (125, -80, 0), (125, -81, 0), 1),
        (knee, (140, 0, 0), (-10, 0, 0), 2),
    ):
        assert bench_rig.beyond_for_blender(limits, turned(*inside)) <= 1e-9
        assert bench_rig.beyond_for_blender(limits, turned(*beyond)) == pytest.approx(
            np.radians(by), abs=1e-5
        )
    # A corner of the box is outside of the ellipse, though no channel is beyond its limit.
    assert bench_rig.beyond_for_blender(arm, turned(109, 0, 79)) > np.radians(10)
    assert bench_rig.beyond_for_blender(knee, turned(50, 1, 0)) == pytest.approx(np.radians(1), abs=1e-5)


def test_poses_are_drawn_inside_both_kinds_of_limits_and_always_the_same() -> None:
    for pose in bench_rig.draw(20, seed=3):
        assert bench_rig.beyond_limits(pose.angles) <= 1e-6  # single precision of the limits
        for limits, angles in zip(bench_rig.LIMITS, pose.angles, strict=True):
            assert bench_rig.beyond_for_blender(limits, matrix_from_euler(angles, order_index("YZX"))) <= 0.0
            assert not angles[[of is None for of in limits.ranges]].any()
    first, again = bench_rig.draw(2, seed=1), bench_rig.draw(1, seed=1)
    np.testing.assert_array_equal(first[0].angles, again[0].angles)
    assert not np.array_equal(first[0].angles, first[1].angles)


def test_the_page_shows_every_solver_and_every_limit() -> None:
    outcome = bench_rig.Outcome(
        index=7,
        distances=np.array([0.0, 0.002]),
        angles=np.zeros(2),
        beyond=-1.0,
        channels_beyond=-1.0,
        whole_time=0.01,
        solve_time=0.008,
        iterations=5,
        message="1 of 2 targets missed",
    )
    rows = [bench_rig.Row(bench_rig.OURS, (outcome,)), bench_rig.Row("Blender", (outcome,))]
    page = bench_rig.page(rows, {"seed": 1}, "command")
    assert "| Poise | 1 | 0.0 % |" in page
    assert "- 7: 2 mm, 0°, 5 iterations; 1 of 2 targets missed" in page
    assert "| shin.L | -8 … 140 | – | – |" in page
    assert "- NO: 0.0 % of the poses reached, wanted 99%" in page

# SPDX-License-Identifier: GPL-3.0-or-later
"""The bench measures what it says: the trees are what they should be, and the yardstick solves."""

import numpy as np

from benchmarks import bench, trees
from blender_ik_addon.core import Pose, forward_kinematics
from blender_ik_addon.core.system import System
from tests.core.in_turn import in_turn


@in_turn(
    ("name", "hinges", "joints", "effectors"),
    [("Y", 21, 7, 2), ("YY", 48, 16, 4), ("human", 63, 21, 5), ("humanf", 69, 22, 5), ("chain30", 90, 30, 1)],
)
def test_trees_have_the_right_size(name, hinges, joints, effectors):
    tree = trees.trees()[name]
    assert len(tree.hinges) == hinges == tree.skeleton().free.sum()
    assert len(tree.skeleton()) == joints
    assert len(tree.effectors) == effectors


@in_turn("name", list(trees.trees()))
def test_hinges_and_ball_joints_are_the_same_tree(name):
    tree = trees.trees()[name]
    skeleton = tree.skeleton()
    values = np.random.default_rng(3).uniform(-2.0, 2.0, len(tree.hinges))
    channels = np.zeros((len(skeleton), 6))
    channels[skeleton.free] = values  # sliders come before hinges in both
    matrices = forward_kinematics(skeleton, Pose.from_channels(channels)).matrices
    tips = [
        (matrices[skeleton.index(joint)] @ np.array([*point, 1.0]))[:3] for joint, point in tree.effectors
    ]
    assert np.allclose(trees.PlainLoop(tree).place(values)[2], tips, rtol=0.0, atol=1e-12)


@in_turn("name", ["human", "humanf"])
def test_jacobian_of_the_yardstick_is_the_derivative(name):
    loop = trees.PlainLoop(trees.trees()[name])
    values = np.random.default_rng(4).uniform(-1.0, 1.0, loop.size)
    step = 1e-6
    columns = [
        (loop.place(values + step * row)[2] - loop.place(values - step * row)[2]).ravel() / (2 * step)
        for row in np.eye(loop.size)
    ]
    assert np.allclose(loop.jacobian(*loop.place(values)), np.array(columns).T, rtol=0.0, atol=1e-8)


def test_yardstick_solves_a_reachable_target():
    tree = trees.human_tree()
    target = trees.pose_targets(tree, 1, np.random.default_rng(5))[0]
    loop = trees.PlainLoop(tree)
    solution = loop.solve(np.zeros(loop.size), target, trees.POSE_ITERATIONS)
    assert solution.reached
    tips = loop.place(solution.values)[2]
    assert np.linalg.norm(tips - target, axis=1).max() <= trees.TOLERANCE


def test_yardstick_stays_within_limits():
    tree = trees.human_tree()
    target = trees.pose_targets(tree, 1, np.random.default_rng(6))[0]
    solution = trees.PlainLoop(tree, 0.3).solve(np.zeros(len(tree.hinges)), target, 20)
    assert np.abs(solution.values).max() <= 0.3


def test_targets_are_the_same_each_time_and_tracks_start_at_rest():
    tree = trees.y_tree()
    first, second = (trees.track_targets(tree, 5, np.random.default_rng(7)) for _ in range(2))
    assert np.array_equal(first, second)
    loop = trees.PlainLoop(tree)
    assert np.allclose(first[0], loop.place(np.zeros(loop.size))[2], rtol=0.0, atol=1e-12)


def test_a_tree_that_differs_from_the_file_is_named():
    tree = trees.y_tree()
    stored = {
        "hinges": [
            {
                "name": hinge.name,
                "parent": hinge.parent,
                "offset": list(hinge.offset),
                "axis": hinge.axis,
                "kind": "p" if hinge.slides else "r",
            }
            for hinge in tree.hinges
        ],
        "effectors": [
            {"hinge": tree.last_hinge(joint), "offset": list(point)} for joint, point in tree.effectors
        ],
    }
    assert trees.differences(tree, stored) == []
    stored["hinges"][4]["offset"] = [0.0, 0.0, 1e-6]
    assert trees.differences(tree, stored) == ["Y: hinge t1_y is not that of the file"]


def test_forward_kinematics_are_counted_and_the_counter_leaves_no_trace():
    original = System.place
    tree = trees.y_tree()
    targets = bench.Targets(trees.track_targets(tree, 2, np.random.default_rng(8)), np.ones(2))
    tally = bench.follow(tree, targets, warm=True, tolerance=1e-3)
    assert System.place is original
    assert all(placed >= 1 for placed in tally.placed)
    assert tally.reached == tally.plain_reached == [True, True]

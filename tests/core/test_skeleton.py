# SPDX-License-Identifier: GPL-3.0-or-later
"""Skeletons and poses: what is filled in, what is refused and by which name, that nobody can change them."""

import re
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from blender_ik_addon.core import IKError, Pose, Skeleton
from blender_ik_addon.core.model.skeleton import CHANNELS, INHERIT_SCALE
from tests.core.builders import chain, humanoid, random_pose, random_rotations, tree

ARM = ("shoulder", "elbow", "wrist")


def arm(**build: Any) -> Skeleton:
    given: dict[str, Any] = {"offsets": [[0, 0, 0], [0, 1, 0], [0, 2, 0]]}
    return Skeleton.build(ARM, [None, "shoulder", "elbow"], **(given | build))


def everywhere(value: float, joint: int, channel: int, usual: float) -> np.ndarray:
    """(3, 6) with one unusual value."""
    array = np.full((3, CHANNELS), usual)
    array[joint, channel] = value
    return array


# ----------------------------------------------------------------------------------------------------------
# What is filled in


def test_what_is_not_given_takes_the_usual_value() -> None:
    skeleton = arm()
    assert len(skeleton) == 3
    assert_array_equal(skeleton.parents, [-1, 0, 1])
    assert_array_equal(skeleton.free, np.tile([False] * 3 + [True] * 3, (3, 1)))
    assert_array_equal(skeleton.lower, np.full((3, 6), -np.inf))
    assert_array_equal(skeleton.upper, np.full((3, 6), np.inf))
    assert not skeleton.stiffness.any() and not skeleton.preferred.any() and not skeleton.orders.any()
    assert skeleton.inherit_rotation.all() and skeleton.local_location.all()
    assert [INHERIT_SCALE[mode] for mode in skeleton.inherit_scale] == ["FULL"] * 3


def test_one_value_serves_all_joints() -> None:
    skeleton = arm(orders="ZYX", lower=-1.0, upper=[1, 2, 3, 4, 5, 6], free=True, inherit_rotation=False)
    assert_array_equal(skeleton.orders, [5, 5, 5])
    assert_array_equal(skeleton.lower, np.full((3, 6), -1.0))
    assert_array_equal(skeleton.upper, np.tile(np.arange(1.0, 7.0), (3, 1)))
    assert skeleton.free.all() and not skeleton.inherit_rotation.any()


def test_parents_are_given_by_name_or_index_and_offsets_are_rest_matrices_without_rotation() -> None:
    skeleton = arm()
    assert_array_equal(Skeleton.build(ARM, [-1, 0, 1], offsets=np.zeros((3, 3))).parents, skeleton.parents)
    assert_array_equal(skeleton.rest[:, :3, :3], np.tile(np.eye(3), (3, 1, 1)))
    assert_array_equal(skeleton.armature_from_joint_rest[:, :3, 3], [[0, 0, 0], [0, 1, 0], [0, 3, 0]])


def test_rest_matrices_in_armature_space_are_products(rng: np.random.Generator) -> None:
    skeleton = tree(rng, 12, roots=2)
    for joint in range(12):
        product = np.eye(4)
        for ancestor in reversed(skeleton.ancestors(joint)):
            product = product @ skeleton.rest[ancestor]
        assert_allclose(skeleton.armature_from_joint_rest[joint], product, atol=1e-14)
        assert skeleton.depths[joint] == len(skeleton.ancestors(joint)) - 1


def test_joints_are_found_by_name_and_by_index() -> None:
    skeleton = humanoid()
    assert skeleton.index("hand.L") == skeleton.index(skeleton.names.index("hand.L"))
    assert [skeleton.names[joint] for joint in skeleton.ancestors(skeleton.index("hand.L"))] == [
        "hand.L", "forearm.L", "upper_arm.L", "shoulder.L", "chest", "spine", "hips",
    ]  # fmt: skip


def test_a_skeleton_may_be_empty() -> None:
    skeleton = Skeleton.build([], [], offsets=np.zeros((0, 3)))
    assert len(skeleton) == 0
    assert Pose.rest(skeleton).channels.shape == (0, CHANNELS)


@pytest.mark.parametrize(
    ("joint", "message"),
    [
        *((name, f"{name!r}.*shoulder, elbow, wrist") for name in ("elbow.L", "", "Shoulder")),
        *((index, f"{index}.*3 joints") for index in (-1, 3)),
    ],
)
def test_a_joint_that_is_not_there_is_refused(joint: str | int, message: str) -> None:
    with pytest.raises(IKError, match=message):
        arm().index(joint)


# ----------------------------------------------------------------------------------------------------------
# What is refused


SCALED = np.tile(np.eye(4), (3, 1, 1))
SCALED[1, :3, :3] *= 1.1
MIRRORED = np.tile(np.eye(4), (3, 1, 1))
MIRRORED[1, 0, 0] = -1.0
UNFINISHED = np.tile(np.eye(4), (3, 1, 1))
UNFINISHED[1, 0, 3] = np.nan


@pytest.mark.parametrize(
    ("build", "message"),
    [
        ({"offsets": [[0, 0, 0], [0, np.nan, 0], [0, 0, 0]]}, "not finite"),
        ({"offsets": None, "rest": UNFINISHED}, "not finite"),
        ({"offsets": None, "rest": SCALED}, "scale or shear"),
        ({"offsets": None, "rest": MIRRORED}, "mirrors"),
        ({"lower": everywhere(0.1, 1, 4, -1.0), "upper": 0.0}, "above its upper"),
        ({"lower": everywhere(np.nan, 1, 0, 0.0)}, "limit is not a number"),
        ({"upper": everywhere(np.nan, 1, 5, 0.0)}, "limit is not a number"),
        ({"stiffness": everywhere(1.0, 1, 3, 0.0)}, "stiffness"),
        ({"stiffness": everywhere(-0.1, 1, 3, 0.0)}, "stiffness"),
        ({"stiffness": everywhere(np.nan, 1, 3, 0.0)}, "stiffness"),
        ({"preferred": everywhere(np.inf, 1, 3, 0.0)}, "preferred"),
    ],
)
def test_wrong_values_are_refused_by_the_name_of_the_joint(build: dict[str, Any], message: str) -> None:
    with pytest.raises(IKError, match=f"{message}.*'elbow'"):
        arm(**build)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        ({"orders": "XYX"}, "'XYX'"),
        ({"orders": ["XYZ", "ZYX"]}, re.escape("Skeleton.orders has shape (2,)")),
        ({"inherit_scale": ["FULL", "HALF", "NONE"]}, "'HALF'.*ALIGNED"),
        ({"offsets": None}, "either offsets"),
        ({"rest": np.tile(np.eye(4), (3, 1, 1))}, "either offsets"),
        ({"offsets": None, "rest": np.tile(np.eye(4), (2, 1, 1))}, re.escape("(2, 4, 4)")),
        ({"offsets": [0.0, 1.0]}, "offsets"),
        ({"lower": np.zeros((2, 6))}, "lower"),
        ({"inherit_rotation": [True, False]}, "inherit_rotation"),
    ],
)
def test_what_does_not_fit_is_refused_by_the_name_of_the_field(build: dict[str, Any], message: str) -> None:
    with pytest.raises(IKError, match=message):
        arm(**build)


@pytest.mark.parametrize(
    ("names", "parents", "message"),
    [
        (ARM, [None, "shoulder"], r"3.*2|parents"),
        (["bone", "tip", "bone"], [None, 0, 0], "more than once: bone"),
        (["shoulder", "wrist"], [None, "elbow"], "'wrist' has the parent 'elbow'"),
        *((ARM, [-1, parent, 1], "before its children: 'elbow'") for parent in (1, 2, -2, 7)),
    ],
)
def test_names_and_parents_that_cannot_be_are_refused(names: Any, parents: Any, message: str) -> None:
    with pytest.raises(IKError, match=message):
        Skeleton.build(names, parents, offsets=np.zeros((len(names), 3)))


# ----------------------------------------------------------------------------------------------------------
# Nobody can change them


def test_a_skeleton_does_not_change_with_what_it_was_made_of() -> None:
    offsets, upper = np.zeros((3, 3)), np.ones((3, CHANNELS))
    skeleton = arm(offsets=offsets, upper=upper)
    offsets += 1.0
    upper += 1.0
    assert not skeleton.rest[:, :3, 3].any()
    assert_array_equal(skeleton.upper, np.ones((3, CHANNELS)))


def test_arrays_are_read_only_and_contiguous() -> None:
    skeleton = arm()
    pose = Pose.from_channels(np.zeros((CHANNELS, 3)).T)
    arrays = [getattr(skeleton, field.name) for field in fields(skeleton)[1:]]
    arrays += [skeleton.depths, skeleton.armature_from_joint_rest, pose.channels, pose.scale, pose.rotation]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    assert pose.channels.flags.c_contiguous
    with pytest.raises(FrozenInstanceError):
        skeleton.names = ()  # type: ignore[misc]


def test_replace_checks_again() -> None:
    with pytest.raises(IKError, match=re.escape("Skeleton.lower has shape (3, 5)")):
        replace(arm(), lower=np.zeros((3, 5)))


# ----------------------------------------------------------------------------------------------------------
# Poses


def test_the_rest_pose_has_zero_channels_and_unit_scale() -> None:
    pose = Pose.rest(arm(), (4, 2))
    assert pose.channels.shape == (4, 2, 3, CHANNELS) and pose.scale.shape == (4, 2, 3, 3)
    assert pose.frames == (4, 2)
    assert not pose.channels.any() and (pose.scale == 1.0).all()


def test_channels_are_translation_then_rotation(rng: np.random.Generator) -> None:
    pose = random_pose(rng, chain(3), frames=(5,))
    assert_array_equal(np.concatenate([pose.translation, pose.rotation], axis=-1), pose.channels)
    assert_array_equal(pose[2].channels, pose.channels[2])


def test_with_channels_keeps_the_scale(rng: np.random.Generator) -> None:
    one = Pose(np.zeros((3, CHANNELS)), rng.uniform(0.5, 2.0, (3, 3)))
    many = one.with_channels(rng.normal(size=(7, 3, CHANNELS)))
    assert many.frames == (7,)
    assert_array_equal(many.scale, np.broadcast_to(one.scale, (7, 3, 3)))


@pytest.mark.parametrize(
    ("channels", "scale", "message"),
    [
        (np.zeros(6), np.ones(3), re.escape("(6,)")),
        (np.zeros((3, 5)), np.ones((3, 3)), re.escape("(3, 5)")),
        (np.zeros((2, 3, 6)), np.ones((3, 3)), re.escape("(2, 3, 3)")),
        (np.full((3, 6), np.nan), np.ones((3, 3)), "not finite"),
        (np.zeros((3, 6)), np.full((3, 3), np.inf), "not finite"),
    ],
)
def test_poses_that_cannot_be_are_refused(channels: np.ndarray, scale: np.ndarray, message: str) -> None:
    with pytest.raises(IKError, match=message):
        Pose(channels, scale)


def test_rotations_of_single_precision_are_taken(rng: np.random.Generator) -> None:
    rest = np.tile(np.eye(4), (3, 1, 1))
    rest[:, :3, :3] = random_rotations(rng, 3).astype(np.float32)
    assert_allclose(arm(offsets=None, rest=rest).rest, rest, atol=0)

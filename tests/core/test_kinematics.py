# SPDX-License-Identifier: GPL-3.0-or-later
"""Laws of forward kinematics, and that the mechanism a solver works on places every joint just as it does."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from blender_ik_addon.core import IKError, Pose, Skeleton, forward_kinematics
from blender_ik_addon.core.model.kinematics import orthogonalized
from blender_ik_addon.core.model.mechanism import Mechanism
from blender_ik_addon.core.model.skeleton import INHERIT_SCALE
from tests.core.builders import Array, chain, random_pose, random_rotations, tip, tree
from tests.core.strategies import ORDER_NAMES, rotation_about

ROUNDING = 1e-12
"""[m] On skeletons of a few metres."""

SETTINGS = range(4)
"""Seeds of the random trees."""


def place(skeleton: Skeleton, pose: Pose) -> Array:
    return forward_kinematics(skeleton, pose).matrices


def with_scale(pose: Pose, scale: Array) -> Pose:
    return Pose(pose.channels, np.broadcast_to(scale, pose.scale.shape))


def product_of_locals(skeleton: Skeleton, pose: Pose, joint: int) -> Array:
    """The definition for the usual settings: rest · T · R · S from the root to the joint."""
    matrix = np.eye(4)
    for ancestor in reversed(skeleton.ancestors(joint)):
        local = np.eye(4)
        for letter in ORDER_NAMES[skeleton.orders[ancestor]]:
            axis = "XYZ".index(letter)
            turn = rotation_about(np.eye(3)[axis], pose.rotation[ancestor, axis])
            local[:3, :3] = turn @ local[:3, :3]
        local[:3, :3] = local[:3, :3] * pose.scale[ancestor]
        local[:3, 3] = pose.translation[ancestor]
        matrix = matrix @ skeleton.rest[ancestor] @ local
    return matrix


# ----------------------------------------------------------------------------------------------------------
# Laws


@pytest.mark.parametrize("seed", range(3))
def test_a_joint_is_its_parent_times_rest_translation_rotation_scale(seed: int) -> None:
    rng = np.random.default_rng(seed)
    skeleton = tree(rng, 15, roots=2)
    pose = with_scale(random_pose(rng, skeleton, angle=3.0), rng.uniform(0.5, 1.5, (15, 3)))
    matrices = place(skeleton, pose)
    for joint in range(15):
        assert_allclose(matrices[joint], product_of_locals(skeleton, pose, joint), atol=ROUNDING)


@pytest.mark.parametrize("seed", SETTINGS)
def test_moving_the_roots_rigidly_moves_everything_rigidly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # A root that translates along the armature's axes does not follow, so all translate along their own.
    skeleton = tree(rng, 12, roots=2, settings=True, local_location=True)
    pose = with_scale(random_pose(rng, skeleton, angle=3.0), rng.uniform(0.5, 1.5, (12, 3)))
    motion = np.eye(4)
    motion[:3, :3], motion[:3, 3] = random_rotations(rng, 1)[0], rng.normal(size=3)
    rest = np.array(skeleton.rest)
    rest[:2] = motion @ rest[:2]
    moved = replace(skeleton, rest=rest)
    assert_allclose(place(moved, pose), motion @ place(skeleton, pose), atol=ROUNDING)


@pytest.mark.parametrize("seed", SETTINGS)
def test_without_translation_and_scale_bones_keep_their_length_and_axes_stay_a_rotation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    skeleton = tree(rng, 15, settings=True)
    matrices = place(skeleton, random_pose(rng, skeleton, angle=3.0, offset=0.0))
    children = np.flatnonzero(skeleton.parents >= 0)
    bones = matrices[children, :3, 3] - matrices[skeleton.parents[children], :3, 3]
    lengths = np.linalg.norm(skeleton.rest[children, :3, 3], axis=1)
    assert_allclose(np.linalg.norm(bones, axis=1), lengths, atol=ROUNDING)
    axes = matrices[:, :3, :3]
    assert_allclose(axes @ axes.swapaxes(-1, -2), np.tile(np.eye(3), (15, 1, 1)), atol=ROUNDING)


def test_a_thousand_joints_close_a_polygon() -> None:
    skeleton = chain(1000)
    channels = np.zeros((1000, 6))
    channels[:, 5] = np.radians(360.0) / 1000
    end = forward_kinematics(skeleton, Pose.from_channels(channels)).point("joint.999", tip())
    assert_allclose(end, np.zeros(3), atol=1e-9)


def test_frames_are_independent(rng: np.random.Generator) -> None:
    skeleton = tree(rng, 15, settings=True)
    poses = random_pose(rng, skeleton, frames=(2, 3))
    poses = with_scale(poses, rng.uniform(0.5, 1.5, (2, 3, 15, 3)))
    together = place(skeleton, poses)
    assert together.shape == (2, 3, 15, 4, 4)
    for index in np.ndindex(2, 3):
        one = Pose(poses.channels[index], poses.scale[index])
        assert_allclose(together[index], place(skeleton, one), atol=ROUNDING)


def test_points_are_given_in_the_axes_of_the_joint() -> None:
    skeleton = chain(2)
    channels = np.zeros((2, 6))
    channels[0, 5] = np.radians(90)  # about z: +y turns to -x
    posed = forward_kinematics(skeleton, Pose.from_channels(channels))
    assert_allclose(posed.point("joint.1"), [-1, 0, 0], atol=ROUNDING)
    assert_allclose(posed.point(1, tip()), [-2, 0, 0], atol=ROUNDING)
    assert_allclose(posed.point(1, np.array([1.0, 0, 0])), [-1, 1, 0], atol=ROUNDING)


def test_a_pose_of_another_skeleton_is_refused() -> None:
    with pytest.raises(IKError, match="4 joints, the skeleton 3"):
        forward_kinematics(chain(3), Pose.rest(chain(4)))


# ----------------------------------------------------------------------------------------------------------
# Settings of a joint. That they are Blender's is for tests/scene; here is what each one means.


def scaled_parent(mode: str, scale: tuple[float, float, float], inherit_rotation: bool = True) -> Array:
    """Linear part (3, 3) of the child of a joint that is turned and scaled, the child itself at rest."""
    skeleton = chain(2, inherit_scale=["FULL", mode], inherit_rotation=[True, inherit_rotation])
    channels = np.zeros((2, 6))
    channels[0, 3:] = 0.3, 0.4, 0.5
    pose = Pose(channels, np.array([scale, (1.0, 1.0, 1.0)]))
    return place(skeleton, pose)[1, :3, :3]


def test_a_joint_that_does_not_inherit_rotation_keeps_its_axes_and_follows_its_place(
    rng: np.random.Generator,
) -> None:
    skeleton = chain(4, inherit_rotation=[True, True, False, True])
    poses = random_pose(rng, skeleton, angle=3.0, offset=0.0, frames=(5,))
    channels = np.array(poses.channels)
    channels[:, 2:] = channels[0, 2:]
    matrices = place(skeleton, Pose.from_channels(channels))
    channels[:, :2] = 0.0
    upright = place(skeleton, Pose.from_channels(channels))
    assert_allclose(matrices[:, 2:, :3, :3], upright[:, 2:, :3, :3], atol=ROUNDING)
    above = matrices[:, 1, :3, 3] + matrices[:, 1, :3, 1]  # the parent's tip
    assert_allclose(matrices[:, 2, :3, 3], above, atol=ROUNDING)


@pytest.mark.parametrize("inherit_rotation", [True, False])
@pytest.mark.parametrize(
    ("mode", "size"),
    [
        ("FULL", 2.0), ("FIX_SHEAR", 2.0), ("ALIGNED", 2.0), ("AVERAGE", 2.0),
        ("NONE", 1.0), ("NONE_LEGACY", 1.0),
    ],
)  # fmt: skip
def test_an_even_scale_is_inherited_or_not(mode: str, size: float, inherit_rotation: bool) -> None:
    even = scaled_parent(mode, (2.0, 2.0, 2.0), inherit_rotation)
    assert_allclose(even, size * scaled_parent(mode, (1.0, 1.0, 1.0), inherit_rotation), atol=ROUNDING)


@pytest.mark.parametrize(
    ("mode", "lengths"),
    [
        ("FULL", (0.5, 2.0, 8.0)), ("FIX_SHEAR", (0.5, 2.0, 8.0)), ("ALIGNED", (0.5, 2.0, 8.0)),
        ("AVERAGE", (2.0, 2.0, 2.0)), ("NONE", (1.0, 1.0, 1.0)), ("NONE_LEGACY", (1.0, 1.0, 1.0)),
    ],
)  # fmt: skip
def test_an_uneven_scale_along_the_same_axes_is_inherited_evenly_or_not(
    mode: str, lengths: tuple[float, float, float]
) -> None:
    linear = scaled_parent(mode, (0.5, 2.0, 8.0))
    assert_allclose(np.linalg.norm(linear, axis=0), lengths, atol=ROUNDING)
    assert_allclose(linear / lengths, scaled_parent("FULL", (1.0, 1.0, 1.0)), atol=ROUNDING)


def test_translation_is_along_the_joints_rest_axes_or_its_parents() -> None:
    turn = rotation_about(np.array([0.0, 0.0, 1.0]), np.radians(90))
    rest = np.tile(np.eye(4), (2, 1, 1))
    rest[:, :3, :3] = turn
    channels = np.zeros((2, 6))
    channels[:, 0] = 1.0
    for local, expected in ((True, [[0, 1, 0], [-1, 1, 0]]), (False, [[1, 0, 0], [1, 1, 0]])):
        skeleton = Skeleton.build(["root", "child"], [None, "root"], rest=rest, local_location=local)
        places = place(skeleton, Pose.from_channels(channels))[:, :3, 3]
        assert_allclose(places, expected, atol=ROUNDING)


@pytest.mark.parametrize("mode", INHERIT_SCALE)
@pytest.mark.parametrize("scale", [(0.0, 0.0, 0.0), (1.0, 0.0, 1.0), (0.0, 1.0, 1.0)])
def test_a_collapsed_joint_places_its_children_somewhere(
    mode: str, scale: tuple[float, float, float]
) -> None:
    assert np.isfinite(scaled_parent(mode, scale)).all()
    assert np.isfinite(scaled_parent(mode, scale, inherit_rotation=False)).all()


# ----------------------------------------------------------------------------------------------------------
# The mechanism


def random_signs(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.where(rng.random(shape) < 0.2, -1.0, 1.0)


def assert_places_as_forward_kinematics(skeleton: Skeleton, pose: Pose) -> None:
    """Every joint, with the constants folded from a pose whose free channels are others."""
    mechanism = Mechanism(
        skeleton, pose.with_channels(np.where(skeleton.free, 9.0, pose.channels)), range(len(skeleton))
    )
    posed = mechanism.place(mechanism.values(pose))
    expected = place(skeleton, pose)
    for joint in range(len(skeleton)):
        matrix = posed.matrices[:, mechanism.anchor(joint)] @ mechanism.anchor_from_joint(joint)
        assert_allclose(matrix, expected[:, joint], atol=1e-11, err_msg=skeleton.names[joint])


@pytest.mark.parametrize("scales", ["even", "uneven without shear", "sheared, not turning"])
@pytest.mark.parametrize("seed", range(4))
def test_mechanism_places_every_joint(seed: int, scales: str) -> None:
    rng = np.random.default_rng(seed)
    build = {}
    if scales == "uneven without shear":
        build["inherit_scale"] = [("ALIGNED", "AVERAGE", "NONE")[i] for i in rng.integers(0, 3, 25)]
    skeleton = tree(rng, 25, roots=1 + seed % 3, settings=True, **build)
    scale = rng.uniform(0.5, 1.5, (1 + seed % 3, 25, 3))
    if scales == "even":
        scale = scale[..., :1].repeat(3, axis=2)
    if scales == "sheared, not turning":
        # The first ten turn and are scaled evenly, what hangs on them at most slides and is scaled anyhow.
        free = np.array(skeleton.free)
        free[10:, 3:] = False
        skeleton = replace(skeleton, free=free)
        scale[:, :10] = scale[:, :10, :1]
    else:
        scale *= random_signs(rng, (*scale.shape[:2], 1))
    pose = with_scale(random_pose(rng, skeleton, angle=3.0, frames=scale.shape[:1]), scale)
    assert_places_as_forward_kinematics(skeleton, pose)


@pytest.mark.parametrize("seed", range(4))
def test_without_shear_y_keeps_its_direction_and_x_and_z_share_what_is_taken_off(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sheared = rng.normal(size=(20, 3, 3)) * rng.uniform(0.5, 2.0, (20, 1, 3))
    straight = orthogonalized(sheared, normalize=False)
    gram = np.einsum("fij,fik->fjk", straight, straight)
    lengths = np.sqrt(np.einsum("fii->fi", gram))
    assert_allclose(
        gram / (lengths[:, :, None] * lengths[:, None, :]), np.tile(np.eye(3), (20, 1, 1)), atol=1e-9
    )
    assert_array_equal(straight[..., 1], sheared[..., 1])
    assert_allclose(np.linalg.det(straight), np.linalg.det(sheared), rtol=1e-9)  # volume is kept
    # Seen along y, both axes turn by the same angle, one to each side.
    y = sheared[..., 1] / lengths[:, 1:2]
    flat = sheared - y[..., None] * np.einsum("fi,fij->fj", y, sheared)[:, None, :]
    cosines = [
        np.einsum("fi,fi->f", flat[..., axis], straight[..., axis])
        / (np.linalg.norm(flat[..., axis], axis=1) * lengths[:, axis])
        for axis in (0, 2)
    ]
    assert_allclose(cosines[0], cosines[1], atol=1e-9)
    # x and z keep the proportion that they have across y.
    ratio = np.linalg.norm(flat[..., 0], axis=1) / np.linalg.norm(flat[..., 2], axis=1)
    assert_allclose(lengths[:, 0] / lengths[:, 2], ratio, rtol=1e-9)
    unit = orthogonalized(sheared, normalize=True)
    assert_allclose(unit, straight / lengths[:, None, :], atol=1e-12)
    turn = random_rotations(rng, 1)[0]
    assert_allclose(orthogonalized(turn @ sheared, normalize=False), turn @ straight, atol=1e-9)


def stretched(mode: str = "FULL", **build: Any) -> tuple[Skeleton, Pose]:
    skeleton = chain(3, inherit_scale=["FULL", "FULL", mode], **build)
    scale = np.ones((1, 3, 3))
    scale[:, 1] = 1.0, 2.0, 1.0
    return skeleton, Pose(np.zeros((1, 3, 6)), scale)


@pytest.mark.parametrize("mode", ["FULL", "FIX_SHEAR"])
def test_a_joint_that_would_be_sheared_when_it_turns_is_refused_by_name(mode: str) -> None:
    skeleton, pose = stretched(mode)
    with pytest.raises(IKError, match=r"'joint\.2' cannot turn.*'joint\.1'"):
        Mechanism(skeleton, pose, [2])


@pytest.mark.parametrize("mode", ["ALIGNED", "AVERAGE", "NONE", "NONE_LEGACY"])
def test_a_joint_that_does_not_take_the_uneven_scale_is_not_refused(mode: str) -> None:
    skeleton, pose = stretched(mode)
    assert_places_as_forward_kinematics(skeleton, pose)


def test_an_uneven_scale_that_nothing_turns_below_is_not_refused() -> None:
    skeleton, pose = stretched(free=[[False] * 3 + [True] * 3] * 2 + [[True] * 3 + [False] * 3])
    assert_places_as_forward_kinematics(skeleton, pose)
    skeleton, pose = stretched()
    Mechanism(skeleton, pose, [1])


def test_rest_matrices_as_imprecise_as_blenders_are_no_shear() -> None:
    rest = np.tile(np.eye(4), (2, 1, 1))
    rest[1, :3, :3] += 4e-5 * np.array([[0.0, 0.3, -0.2], [0.1, 1.0, 0.4], [0.0, -0.3, -0.5]])
    rest[1, :3, 3] = [0.0, 0.5, 0.0]
    skeleton = Skeleton.build(["root", "child"], [None, "root"], rest=rest)
    pose = Pose.from_channels(np.full((1, 2, 6), 0.4))
    mechanism = Mechanism(skeleton, pose, [1])
    placed = mechanism.place(mechanism.values(pose)).matrices[:, mechanism.anchor(1)]
    placed = placed @ mechanism.anchor_from_joint(1)
    np.testing.assert_allclose(placed[0], forward_kinematics(skeleton, pose).matrices[0, 1], atol=1e-4)

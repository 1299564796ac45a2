# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingers, thumbs and toes: they bend to the palm, however their bones are rolled and the arms are held."""

from functools import cache

import numpy as np
import pytest

from blender_ik_addon.core import Skeleton
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.character.digits import BENT, KNUCKLE, MIDDLE
from blender_ik_addon.core.character.ranges import JointDefaults, joint_defaults
from blender_ik_addon.core.character.roles import Role, recognise
from blender_ik_addon.core.model.rotation import EULER_ORDERS, matrix_from_euler, matrix_from_rotvec

from .test_human import PLACES, SIDED, built, with_limbs

recognised = cache(recognise)
"""Once for each skeleton: they are compared as objects."""

WRIST = np.array(SIDED["hand"][1])
"""Of the left hand, whose palm is down and whose fingers point to the left, +x; the thumb is ahead, at -y."""

FINGERS = {"index": -0.03, "middle": -0.01, "ring": 0.01, "pinky": 0.03}
PHALANX = 0.03


def hands(
    *, curl: float = 0.0, held: FloatArray | None = None, roll: float | None = None, thumb: str = "thumb"
) -> Skeleton:
    """The figure with five fingers on each hand.

    Args:
        curl: By how much each joint of a finger is bent at rest [rad].
        held: A turn of both hands, (3, 3), for the right one mirrored: arms that hang.
        roll: Turn of every finger bone about itself [rad]; None for the axes of space.
        thumb: What the thumbs are called.
    """
    table = with_limbs(PLACES, {})
    along: dict[str, FloatArray] = {}
    turn = np.eye(3) if held is None else held
    digits = {finger: np.array([0.09, y, 0.0]) for finger, y in FINGERS.items()}
    for side, flip in (("L", np.eye(3)), ("R", np.diag([-1.0, 1.0, 1.0]))):
        for name, at in {**digits, thumb: np.array([0.03, -0.03, -0.01])}.items():
            way, bent = np.array([1.0, 0.0, 0.0]), curl
            if name == thumb:
                way, bent = np.array([0.6, -0.8, 0.0]), 0.0
            above = f"hand.{side}"
            for number in (1, 2, 3):
                bone = f"{name}.{number}.{side}"
                way = matrix_from_rotvec(np.array([0.0, bent, 0.0])) @ way  # +x goes down, to the palm
                x, y, z = flip @ (WRIST + turn @ at)
                table[bone], along[bone] = (above, (x, y, z)), flip @ turn @ way
                at, above = at + PHALANX * way, bone
    turns = np.tile(np.eye(3), (len(table), 1, 1))
    for row, name in enumerate(table):
        if name in along and roll is not None:
            x = np.cross(along[name], [0.123, 0.456, 0.789])
            x /= np.linalg.norm(x)
            axes = np.stack([x, along[name], np.cross(x, along[name])], axis=1)
            turns[row] = axes @ matrix_from_rotvec(np.array([0.0, roll, 0.0]))
    return built(table, turns)


def defaults_of(skeleton: Skeleton) -> dict[str, JointDefaults]:
    free = np.ones(len(skeleton), dtype=np.bool_)
    made = joint_defaults(skeleton, recognised(skeleton), any_order=free)
    return {skeleton.names[joint]: defaults for joint, defaults in made.items()}


@cache
def usual() -> dict[str, JointDefaults]:
    """Those of the hands with straight fingers and the axes of space."""
    return defaults_of(hands())


def reaches(skeleton: Skeleton, made: JointDefaults, way: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How far ends within a joint's limits bring its bone to a direction and against it, and aside [rad].

    Args:
        skeleton: The skeleton.
        made: Limits of a knuckle.
        way: Unit vector square to the bone in armature space, to which it should bend, (3,).
    """
    rest = skeleton.armature_from_joint_rest
    after = skeleton.names[made.joint].replace(".1.", ".2.")
    along = rest[skeleton.index(after), :3, 3] - rest[made.joint, :3, 3]
    along /= np.linalg.norm(along)
    share = np.random.default_rng(1).uniform(0.0, 1.0, size=(400, 3))
    share = np.concatenate([share, np.indices((2, 2, 2)).reshape(3, -1).T])
    turns = matrix_from_euler(made.lower + share * (made.upper - made.lower), made.order)
    own = rest[made.joint, :3, :3]
    ends = (own @ turns @ own.T) @ along
    bend = np.arctan2(ends @ way, ends @ along)
    return bend, np.arcsin(np.clip(ends @ np.cross(along, way), -1.0, 1.0))


DOWN = np.array([0.0, 0.0, -1.0])


@pytest.mark.parametrize("roll", [None, 0.0, np.pi / 2.0])
def test_a_finger_bends_far_to_the_palm_and_hardly_back(roll: float | None):
    skeleton = hands(roll=roll)
    made = defaults_of(skeleton)
    # The figure's own axes are those of space; rolled bones lie anyhow about theirs, boxes then are larger.
    square = roll is None
    character = recognised(skeleton)
    for side in ("L", "R"):
        assert character.role_of(f"index.1.{side}") is Role.FINGER
        bend, aside = reaches(skeleton, made[f"middle.1.{side}"], DOWN)
        assert bend.max() > np.radians(KNUCKLE[0][1] - 12.0)
        assert np.radians(KNUCKLE[0][0] - 5.0) < bend.min() or not square
        assert bend.max() > -bend.min() + np.radians(20.0)
        assert np.abs(aside).max() < np.radians(40.0 if square else 75.0)


def test_hands_that_hang_bend_inwards():
    hang = matrix_from_rotvec(np.array([0.0, np.pi / 2.0, 0.0]))  # +x goes down, the palm to -x, inwards
    skeleton = hands(held=hang)
    made = defaults_of(skeleton)
    for side, inwards in (("L", -1.0), ("R", 1.0)):
        bend, _ = reaches(skeleton, made[f"ring.1.{side}"], np.array([inwards, 0.0, 0.0]))
        assert bend.max() > np.radians(75.0) and bend.min() > np.radians(-45.0)


def test_what_is_curled_at_rest_is_counted_from_straight():
    curl = BENT
    straight, bent = (made["middle.2.L"] for made in (usual(), defaults_of(hands(curl=curl))))
    channel = int(np.argmax(np.maximum(straight.upper, -straight.lower)))
    ends = [sorted(np.abs([made.lower[channel], made.upper[channel]])) for made in (straight, bent)]
    np.testing.assert_allclose(ends[0], np.radians(np.abs(MIDDLE[0])), atol=1e-6)
    np.testing.assert_allclose(ends[1][1], ends[0][1] - curl, atol=1e-6)
    np.testing.assert_allclose(ends[1][0], ends[0][0] + curl, atol=1e-6)


def test_a_thumb_without_a_name_is_the_digit_that_points_away():
    named, unnamed = usual(), defaults_of(hands(thumb="finger1"))
    for number in (1, 2, 3):
        np.testing.assert_allclose(named[f"thumb.{number}.L"].upper, unnamed[f"finger1.{number}.L"].upper)
        np.testing.assert_allclose(named[f"middle.{number}.L"].lower, unnamed[f"middle.{number}.L"].lower)


def test_both_hands_are_mirror_images():
    made = defaults_of(hands(curl=0.2))
    flip = np.array([1.0, -1.0, -1.0])
    for name in [name for name in made if name.endswith(".L") and name[0] in "impr"]:
        left, right = made[name], made[f"{name[:-2]}.R"]
        ends = np.sort([flip * left.lower, flip * left.upper], axis=0)
        np.testing.assert_allclose([right.lower, right.upper], ends, atol=1e-9, err_msg=name)


def test_rest_is_within_the_limits_of_all_digits():
    for angle in (-0.1, 0.9):
        for name, made in defaults_of(hands(curl=angle)).items():
            assert (made.lower <= 1e-12).all() and (made.upper >= -1e-12).all(), name
            assert 0 <= made.order < len(EULER_ORDERS)

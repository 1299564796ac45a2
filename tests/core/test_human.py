# SPDX-License-Identifier: GPL-3.0-or-later
"""What is assumed of bodies: hinges bend one way whatever the axes of their bones, both sides are alike."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from blender_ik_addon.core import IKError, Skeleton
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.character.digits import END, KNUCKLE, MIDDLE, THUMB, TOES
from blender_ik_addon.core.character.limit_boxes import SLACK, Movement, path_angles
from blender_ik_addon.core.character.ranges import (
    ANIMALS,
    ARM_ENDS,
    ARM_TWIST,
    ARM_TWIST_UNKNOWN,
    COLLAR_RANGES,
    ELBOW_BEND,
    FOOT_RANGES,
    FOREARM_TWIST,
    KNEE_BEND,
    LEG_ENDS,
    NECK_RANGES,
    THIGH_TWIST,
    TRUNK_RANGES,
    UNEVEN,
    WRIST_RANGES,
    JointDefaults,
    joint_defaults,
)
from blender_ik_addon.core.character.role_edits import RoleRow, revised, rows_of
from blender_ik_addon.core.character.roles import Bend, Body, Character, LimbKind, Role, Side, recognise
from blender_ik_addon.core.model.rotation import (
    EULER_ORDERS,
    matrix_from_euler,
    matrix_from_rotvec,
    order_index,
)

from .builders import CENTRE, LEFT
from .test_roles import BIRD, QUADRUPED, SNAKE, SPIDER, Joint, nameless

recognised = cache(recognise)
"""Once for each skeleton: they are compared as objects."""

Table = dict[str, tuple[str | None, tuple[float, float, float]]]
"""Joint -> parent and place [m]."""

PLACES: Table = {name: (parent, place) for name, parent, place in CENTRE}
SIDED = {name: (parent, place) for name, parent, place in LEFT}
"""Joints of a figure that looks along -y, its left at +x."""


def with_limbs(middle: Table, hubs: dict[str, str]) -> Table:
    """Joints of a trunk, and both sides of the limbs on it; `hubs` are other names of what these hang on."""
    table = dict(middle)
    for side, sign in (("L", 1.0), ("R", -1.0)):
        for name, (parent, (x, y, z)) in SIDED.items():
            below = hubs.get(parent, parent) if parent in PLACES else f"{parent}.{side}"
            table[f"{name}.{side}"] = (below, (sign * x, y, z))
    return table


def built(table: Table, turns: FloatArray | None = None, order: str = "XYZ") -> Skeleton:
    """Joints at some places, their axes those of space, or turned by (n, 3, 3)."""
    names = tuple(table)
    parents = [parent for parent, _ in table.values()]
    frames = np.tile(np.eye(4), (len(names), 1, 1))
    frames[:, :3, 3] = [place for _, place in table.values()]
    if turns is not None:
        frames[:, :3, :3] = turns
    above = np.array([np.eye(4) if p is None else frames[names.index(p)] for p in parents])
    return Skeleton.build(names, parents, rest=np.linalg.inv(above) @ frames, orders=order)


def figure(
    turns: FloatArray | None = None, order: str = "XYZ", moved: dict[str, FloatArray] | None = None
) -> Skeleton:
    """The figure, some of its joints moved."""
    table = with_limbs(PLACES, {})
    for name, place in (moved or {}).items():
        table[name] = (table[name][0], (float(place[0]), float(place[1]), float(place[2])))
    return built(table, turns, order)


FIGURE = figure()
"""As it stands."""


@cache
def defaults_of(skeleton: Skeleton, *, any_order: bool = False) -> dict[str, JointDefaults]:
    free = np.full(len(skeleton), any_order)
    made = joint_defaults(skeleton, recognised(skeleton), any_order=free)
    return {skeleton.names[joint]: defaults for joint, defaults in made.items()}


def bends(
    skeleton: Skeleton, hinge: JointDefaults, end: str, angles: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """How far the part below a hinge is from straight [rad], and its sine about the recognised axis, (k,)."""
    limb = next(limb for limb in recognised(skeleton).limbs if hinge.joint in limb.joints)
    rest = skeleton.armature_from_joint_rest
    places, own = rest[:, :3, 3], rest[hinge.joint, :3, :3]
    upper = places[hinge.joint] - places[int(skeleton.parents[hinge.joint])]
    lower = places[skeleton.index(end)] - places[hinge.joint]
    upper, lower = upper / np.linalg.norm(upper), lower / np.linalg.norm(lower)
    lower = (own @ matrix_from_euler(angles, hinge.order) @ own.T) @ lower
    assert limb.bend_axis is not None
    return np.arccos(np.clip(lower @ upper, -1.0, 1.0)), np.cross(upper, lower) @ limb.bend_axis


def quarter_turns(number: int) -> FloatArray:
    """Axes along those of space, in another order or direction for each joint, (21, 3, 3)."""
    quarters = np.random.default_rng(number).integers(0, 4, size=(21, 3)) * (np.pi / 2.0 if number else 0.0)
    return np.rint(matrix_from_euler(quarters, 0))


@pytest.mark.parametrize(
    ("number", "order"), [*((0, order) for order in EULER_ORDERS), (2, "XYZ"), (2, "ZXY")]
)
def test_hinges_bend_far_one_way_and_never_the_other_and_rest_is_inside_of_all(number: int, order: str):
    skeleton = figure(quarter_turns(number), order)
    defaults = defaults_of(skeleton)
    hinges = {name for name, made in defaults.items() if made.is_hinge and "toe" not in name}
    assert hinges == {f"{name}.{side}" for name in ("forearm", "shin") for side in "LR"}
    for name, end in (("forearm.L", "hand.L"), ("shin.R", "foot.R")):
        hinge = defaults[name]
        share = np.random.default_rng(number).uniform(0.0, 1.0, size=(300, 3))
        angle, sine = bends(skeleton, hinge, end, hinge.lower + share * (hinge.upper - hinge.lower))
        assert sine.min() > -np.sin(2.0 * SLACK)
        assert angle.max() > np.radians(130.0)
        liked, forward = bends(skeleton, hinge, end, hinge.preferred[None])
        assert np.radians(5.0) < liked[0] < np.radians(60.0) and forward[0] > 0.0
    for name, made in defaults.items() if number == 0 else ():
        assert made.order == order_index(order)
        assert (made.lower <= 0.0).all() and (made.upper >= 0.0).all(), name  # rest is inside
        assert (made.lower <= made.preferred).all() and (made.preferred <= made.upper).all(), name
        assert (made.stiffness >= 0.0).all() and (made.stiffness < 1.0).all()


def test_a_hinge_that_is_askew_to_its_bone_bends_its_way_too():
    skeleton = figure(np.broadcast_to(matrix_from_rotvec(np.array([0.0, 0.0, np.pi / 4.0])), (21, 3, 3)))
    hinge = defaults_of(skeleton)["shin.R"]
    axis = np.array([1.0, -1.0, 0.0]) / np.sqrt(2.0)
    angles = path_angles(Movement(axis, 0.0, np.radians(130.0)), [hinge.order])[:, 0]
    assert (angles >= hinge.lower - 1e-9).all() and (angles <= hinge.upper + 1e-9).all()


def test_an_inverted_knee_has_a_range_without_its_rest_pose():
    bent_back = {f"shin.{side}": np.array([sign * 0.11, 0.06, 0.52]) for side, sign in (("L", 1), ("R", -1))}
    skeleton = figure(moved=bent_back)
    character = recognised(skeleton)
    leg = character.limbs_of(LimbKind.LEG, Side.LEFT)[0]
    assert leg.bend is Bend.INVERTED
    knee = defaults_of(skeleton)["shin.L"]
    channel = int(np.argmax(np.maximum(np.abs(knee.lower), np.abs(knee.upper))))
    assert knee.lower[channel] * knee.upper[channel] > 0.0
    straight = min(abs(knee.lower[channel]), abs(knee.upper[channel]))
    assert straight == pytest.approx(leg.bend_angle, abs=1e-6)


@pytest.mark.parametrize("any_order", [False, True])
def test_both_sides_are_mirror_images(any_order: bool):
    defaults = defaults_of(FIGURE, any_order=any_order)
    sides = [name[:-2] for name in defaults if name.endswith(".L")]
    assert {"shoulder", "upper_arm", "forearm", "hand", "thigh", "shin", "foot"} <= set(sides)
    flip = np.array([1.0, -1.0, -1.0])  # turns about x are the same on both sides
    for name in sides:
        left, right = defaults[f"{name}.L"], defaults[f"{name}.R"]
        assert left.order == right.order
        ends = np.sort([flip * left.lower, flip * left.upper], axis=0)
        np.testing.assert_allclose([right.lower, right.upper], ends, atol=1e-9, err_msg=name)
        np.testing.assert_allclose(right.preferred, flip * left.preferred, atol=1e-9)
        np.testing.assert_allclose(right.stiffness, left.stiffness)


def test_the_spine_shares_its_range_and_is_stiffer_than_the_arms():
    defaults = defaults_of(FIGURE)
    spine, chest = defaults["spine"], defaults["chest"]
    np.testing.assert_allclose(spine.upper, chest.upper, atol=1e-9)
    whole = np.radians([TRUNK_RANGES[axis][1] for axis in (0, 2, 1)])  # about the figure's x, y and z
    np.testing.assert_allclose(spine.upper + chest.upper, UNEVEN * whole, atol=1e-6)
    assert spine.stiffness.min() > defaults["upper_arm.L"].stiffness.max()
    assert defaults["shoulder.L"].stiffness.min() > defaults["upper_arm.L"].stiffness.max()


def test_a_straight_arm_may_twist_further_as_nobody_knows_how_it_was_turned():
    elbow, shoulder = np.array(SIDED["forearm"][1]), np.array(SIDED["upper_arm"][1])
    straight = 2.0 * elbow - shoulder
    hands = {"hand.L": straight, "hand.R": straight * [-1.0, 1.0, 1.0]}
    for moved, twist in ((hands, ARM_TWIST_UNKNOWN), ({}, ARM_TWIST)):
        arm = defaults_of(figure(moved=moved), any_order=True)["upper_arm.L"]
        np.testing.assert_allclose([arm.lower[0], arm.upper[0]], [-twist, twist], atol=1e-9)  # along x


def test_forearms_twist_willingly_and_shins_little():
    defaults = defaults_of(FIGURE)
    assert defaults["forearm.L"].stiffness[0] < 0.5  # it lies along x
    shin = defaults["shin.L"].stiffness
    assert shin[0] < shin[1:].min() and shin[1:].min() > 0.3


def test_hands_bend_as_far_to_all_sides():
    hand = defaults_of(FIGURE)["hand.R"]  # nothing comes after it, so it is taken to lie along its own y
    np.testing.assert_allclose(np.degrees([-hand.lower, hand.upper]), [[75.0, 25.0, 75.0]] * 2)


def test_feet_go_up_and_down_rather_than_aside():
    defaults = defaults_of(FIGURE)
    for side in "LR":
        stiffness = defaults[f"foot.{side}"].stiffness
        assert stiffness[0] < stiffness[1:].min()


def spine_of(heights: list[float]) -> list[JointDefaults]:
    """Defaults of a spine with joints at some heights between hips and neck."""
    middle: Table = {"hips": PLACES["hips"]}
    above = "hips"
    for number, height in enumerate(heights):
        middle[f"spine_{number}"] = (above, (0.0, 0.0, height))
        above = f"spine_{number}"
    middle["neck"], middle["head"] = (above, PLACES["neck"][1]), PLACES["head"]
    made = defaults_of(built(with_limbs(middle, {"chest": above})))
    return [made[f"spine_{number}"] for number in range(len(heights))]


def test_a_spine_of_many_bones_gives_way_as_much_as_one_of_few():
    few, many = (
        sum(1.0 - float(joint.stiffness[0]) for joint in spine_of(heights))
        for heights in ([1.1, 1.2, 1.3], [1.05, 1.1, 1.15, 1.2, 1.25, 1.3])
    )
    assert many == pytest.approx(few, rel=0.05)


def test_the_lowest_joint_of_a_spine_resists_most():
    stiffness = [float(joint.stiffness[0]) for joint in spine_of([1.05, 1.15, 1.25, 1.35])]
    assert stiffness == sorted(stiffness, reverse=True) and stiffness[0] > stiffness[-1] + 0.01


def test_of_bodies_that_are_not_recognised_only_hinges_are_limited():
    skeleton, character = FIGURE, recognised(FIGURE)
    unknown = replace(character, figures=tuple(replace(f, body=Body.UNKNOWN) for f in character.figures))
    made = joint_defaults(skeleton, unknown)
    names = {skeleton.names[joint]: defaults for joint, defaults in made.items()}
    assert np.isinf(names["thigh.L"].lower).all() and np.isinf(names["spine"].upper).all()
    assert np.isfinite(names["shin.L"].lower).all()


def animal(joints: Sequence[Joint]) -> tuple[Skeleton, Character, dict[str, JointDefaults]]:
    """An animal without names, and what is assumed of its joints, by the names of the table."""
    skeleton = nameless(joints)
    character = recognised(skeleton)
    made = joint_defaults(skeleton, character)
    return skeleton, character, {joints[joint][0]: defaults for joint, defaults in made.items()}


@pytest.mark.parametrize(("leg", "beyond"), [("hind", 0.0), ("fore", 30.0)])
def test_an_animals_leg_folds_like_a_z(leg: str, beyond: float):
    skeleton, _, made = animal(QUADRUPED)
    places = skeleton.armature_from_joint_rest[:, :3, 3]
    names = [name for name, *_ in QUADRUPED]
    upper, lower, foot, paw = (places[names.index(f"{leg}{row} L")] for row in range(4))

    def bent(first: FloatArray, second: FloatArray) -> float:
        return float(np.arctan2(np.cross(first, second)[0], first @ second))

    # The axes of the joints are those of the world: x is from side to side.
    knee, hock = made[f"{leg}1 L"], made[f"{leg}2 L"]
    way = np.sign(bent(lower - upper, foot - lower))
    bends = np.sort(way * (np.array([knee.lower[0], knee.upper[0]]) + bent(lower - upper, foot - lower)))
    np.testing.assert_allclose(bends, np.radians([0.0, 165.0]), atol=1e-6)
    against = np.sort(-way * (np.array([hock.lower[0], hock.upper[0]]) + bent(foot - lower, paw - foot)))
    np.testing.assert_allclose(against, np.radians([-beyond, 150.0]), atol=np.radians(1.0))
    assert hock.upper[1] < np.radians(30.0)


@pytest.mark.parametrize(
    "joints", [QUADRUPED, BIRD, SPIDER, SNAKE], ids=["quadruped", "bird", "spider", "snake"]
)
def test_every_kind_of_animal_has_limits_that_its_rest_pose_keeps(joints: Sequence[Joint]):
    _, character, made = animal(joints)
    assert character.figures[0].body in ANIMALS
    limited = {name for name, own in made.items() if np.isfinite([own.lower, own.upper]).all()}
    trunk = {joints[j][0] for limb in character.limbs_of(LimbKind.TRUNK) for j in limb.joints}
    assert trunk - limited <= {joints[j][0] for j in character.joints_of(Role.HIPS)}
    for own in made.values():
        assert (own.lower <= 0.0).all() and (own.upper >= 0.0).all()


def test_a_snake_bends_aside_at_every_joint_and_hardly_twists():
    _, _, made = animal(SNAKE)
    middle = made["s5"]
    assert middle.upper[2] > np.radians(60.0) and middle.upper[1] < np.radians(30.0)


def test_legs_that_spread_sweep_to_and_fro_from_where_they_are():
    _, _, made = animal(SPIDER)
    for side in "LR":
        for number in range(4):
            upper = made[f"leg {number} 0 {side}"]
            assert upper.upper[2] > np.radians(60.0) and upper.lower[2] < -np.radians(60.0)


def test_what_is_bent_at_rest_as_no_hock_can_be_is_taken_for_none():
    skeleton, character, made = animal(QUADRUPED)
    hocks = [row for row, (name, *_) in enumerate(QUADRUPED) if name in ("hind2 L", "hind2 R")]
    limbs = (
        replace(limb, bend_axis=-limb.bend_axis)
        if limb.kind is LimbKind.LEG and limb.bend_axis is not None
        else limb
        for limb in character.limbs
    )
    other = joint_defaults(skeleton, replace(character, limbs=tuple(limbs)))
    assert np.isfinite(made["hind2 L"].lower).all()
    assert all(np.isinf(other[row].lower).all() for row in hocks)


def test_a_character_of_another_skeleton_is_refused():
    skeleton = FIGURE
    other = replace(skeleton, names=tuple(f"{name}_2" for name in skeleton.names))
    with pytest.raises(IKError, match="hips"):
        joint_defaults(other, recognised(skeleton))
    with pytest.raises(IKError, match="any_order"):
        joint_defaults(skeleton, recognised(skeleton), any_order=np.zeros(3, dtype=np.bool_))


# Tables that people have changed


def table(character: Character, **changes: RoleRow | None) -> list[RoleRow]:
    rows = {row.joint.replace(".", "_"): row for row in rows_of(character)}
    rows.update(changes)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return [row for row in rows.values() if row is not None]


def test_the_same_table_is_the_same_character():
    skeleton, character = FIGURE, recognised(FIGURE)
    again = revised(skeleton, character, rows_of(character))
    assert again.choices == character.choices
    assert [limb.joints for limb in again.limbs] == [limb.joints for limb in character.limbs]
    assert [limb.effector for limb in again.limbs] == [limb.effector for limb in character.limbs]


def test_another_bone_takes_the_place_of_the_one_it_replaces():
    skeleton, character = FIGURE, recognised(FIGURE)
    row = RoleRow("foot.L", "toe.L", Role.FOOT, Side.LEFT)
    leg = revised(skeleton, character, table(character, foot_L=row, toe_L=None)).limbs_of(
        LimbKind.LEG, Side.LEFT
    )[0]
    assert skeleton.names[leg.effector] == "toe.L"
    assert skeleton.index("foot.L") not in leg.joints


def test_a_bone_that_loses_its_role_leaves_its_limb_and_comes_back_by_hand():
    skeleton, character = FIGURE, recognised(FIGURE)
    rows = table(character, hand_L=None)
    arm = revised(skeleton, character, rows).limbs_of(LimbKind.ARM, Side.LEFT)[0]
    assert skeleton.names[arm.effector] == "forearm.L" and arm.bend is Bend.NONE
    rows.append(RoleRow("", "hand.L", Role.HAND, Side.LEFT))
    arm = revised(skeleton, character, rows).limbs_of(LimbKind.ARM, Side.LEFT)[0]
    whole = character.limbs_of(LimbKind.ARM, Side.LEFT)[0]
    assert (arm.joints, arm.effector, arm.bend) == (whole.joints, whole.effector, whole.bend)


def test_a_table_that_cannot_be_is_refused_with_the_bone():
    skeleton, character = FIGURE, recognised(FIGURE)
    twice = [*rows_of(character), RoleRow("", "hand.L", Role.FOOT, Side.LEFT)]
    with pytest.raises(IKError, match=r"'hand\.L' twice"):
        revised(skeleton, character, twice)
    with pytest.raises(IKError, match="nose"):
        revised(skeleton, character, [RoleRow("", "nose", Role.HEAD, Side.CENTRE)])
    with pytest.raises(IKError, match="figure 3"):
        revised(skeleton, character, [RoleRow("", "head", Role.HEAD, Side.CENTRE, figure=3)])


def swing(ends: tuple[tuple[str, str, float], ...], start: str, end: str) -> float:
    return next(angle for a, b, angle in ends if (a, b) == (start, end))


ROUND = 5.0
"""Ours are round figures, and may be so much beyond what is printed [deg]."""

# What different people print of each movement [deg], least to largest: means, with two standard deviations
# where they are known, of [BooneAzen1979] as [NorkinWhite2016, table A.1] or [Kosmahl1999] has them, of AAOS,
# AMA, and of lists that physiotherapists learn from.
PUBLISHED = {
    "arm back": (swing(ARM_ENDS, "down", "back"), (50.0, 60.0, 62.0)),
    "arm across the chest": (swing(ARM_ENDS, "out", "forward"), (130.0, 135.0)),
    "arm up sideways": (90.0 + swing(ARM_ENDS, "out", "up"), (167.0, 170.0, 180.0, 184.0)),
    "arm up in front": (90.0 + swing(ARM_ENDS, "forward", "up"), (150.0, 165.0, 167.0, 176.0, 180.0)),
    "arm turned, in all": (2.0 * np.degrees(ARM_TWIST), (160.0, 69.0 + 104.0, 180.0)),
    "forearm turned": (np.degrees(FOREARM_TWIST), (76.0, 80.0, 82.0)),
    "elbow": (np.degrees(ELBOW_BEND), (140.0, 150.0, 143.0 + 2.0 * 6.0)),
    "wrist": (WRIST_RANGES[0], (60.0, 70.0, 75.0, 76.0, 80.0)),
    "collarbone up": (COLLAR_RANGES[0][1], (35.0, 45.0)),
    "collarbone down": (-COLLAR_RANGES[0][0], (5.0, 10.0)),
    "collarbone ahead": (COLLAR_RANGES[1][1], (15.0, 30.0)),
    "thigh forward, pulled": (swing(LEG_ENDS, "down", "forward"), (122.0 + 2.0 * 6.1, 145.0)),
    "thigh back": (swing(LEG_ENDS, "down", "back"), (9.8, 9.8 + 2.0 * 6.8, 30.0)),
    "thigh out": (swing(LEG_ENDS, "down", "out"), (45.0, 46.0 + 2.0 * 9.0)),
    "thigh in": (swing(LEG_ENDS, "down", "in"), (20.0, 26.9 + 2.0 * 4.1)),
    "thigh turned in": (np.degrees(THIGH_TWIST[0]), (40.0, 45.0, 47.0 + 2.0 * 6.0)),
    "thigh turned out": (np.degrees(THIGH_TWIST[1]), (45.0, 47.0 + 2.0 * 6.5)),
    "knee, sat upon": (np.degrees(KNEE_BEND), (142.5 + 2.0 * 5.4, 160.0, 170.0)),
    "foot up, stood upon": (-FOOT_RANGES[0][0], (12.6, 39.0, 39.0 + 2.0 * 6.5)),
    "foot down": (FOOT_RANGES[0][1], (50.0, 56.0 + 2.0 * 6.0)),
    "toes up": (-TOES[0][0][0], (40.0, 70.0, 80.0)),
    "toes down": (TOES[0][0][1], (30.0, 40.0, 45.0)),
    "neck back": (-NECK_RANGES[0][0], (45.0, 63.0, 75.0, 75.5)),
    "neck forward": (NECK_RANGES[0][1], (45.0, 60.0, 64.0)),
    "neck turned": (NECK_RANGES[1][1], (60.0, 80.0)),
    "neck leaned": (NECK_RANGES[2][1], (45.0, 49.0, 50.0)),
    "trunk forward": (TRUNK_RANGES[0][1], (80.0,)),
    "trunk back": (-TRUNK_RANGES[0][0], (20.0, 25.0)),
    "trunk turned": (TRUNK_RANGES[1][1], (45.0, 56.0)),
    "trunk leaned": (TRUNK_RANGES[2][1], (35.0,)),
    "knuckle": (KNUCKLE[0][1], (85.0, 90.0, 100.0)),
    "knuckle back": (-KNUCKLE[0][0], (0.0, 30.0, 45.0)),
    "middle joint": (MIDDLE[0][1], (90.0, 100.0, 120.0)),
    "end joint": (END[0][1], (80.0, 90.0)),
    "thumb": (THUMB[1][0][1], (50.0, 55.0, 70.0)),
    "tip of the thumb": (THUMB[2][0][1], (80.0, 90.0)),
    "tip of the thumb back": (-THUMB[2][0][0], (15.0, 20.0)),
}


@pytest.mark.parametrize("movement", list(PUBLISHED))
def test_ranges_lie_among_those_that_are_published(movement: str):
    ours, published = PUBLISHED[movement]
    assert min(published) - 1e-9 <= ours <= max(published) + ROUND + 1e-9

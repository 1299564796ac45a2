# SPDX-License-Identifier: GPL-3.0-or-later
"""What joints prefer: one natural pose whatever the rest pose and the axes are, stiffness from recordings."""

from dataclasses import replace

import numpy as np
import pytest

from blender_ik_addon.core import Pose, Skeleton, forward_kinematics
from blender_ik_addon.core.arrays import FloatArray
from blender_ik_addon.core.character.anatomy import MIRROR, anatomical_joints
from blender_ik_addon.core.character.preferences import natural_pose
from blender_ik_addon.core.character.ranges import joint_defaults
from blender_ik_addon.core.character.recorded import RECORDED
from blender_ik_addon.core.character.roles import Body, LimbKind, Role, recognise
from blender_ik_addon.core.model.rotation import EULER_ORDERS

from .test_human import SIDED, built, figure, quarter_turns, with_limbs

LIMBS = ("upper_arm", "forearm", "hand", "shin", "foot")


def arms_at(angle: float, *, turns: FloatArray | None = None, order: str = "XYZ") -> Skeleton:
    """The figure at rest with slightly bent arms, so many degrees off hanging down."""
    moved: dict[str, FloatArray] = {}
    for side, sign in (("L", 1.0), ("R", -1.0)):
        shoulder = np.array(SIDED["upper_arm"][1])
        out = np.array([np.sin(np.radians(angle)), 0.0, -np.cos(np.radians(angle))])
        elbow = shoulder + 0.28 * out + [0.0, 0.02, 0.0]  # bent forward, to -y
        moved[f"forearm.{side}"] = elbow * [sign, 1.0, 1.0]
        moved[f"hand.{side}"] = (elbow + 0.25 * out + [0.0, -0.02, 0.0]) * [sign, 1.0, 1.0]
    return figure(turns, order, moved)


def placed(skeleton: Skeleton) -> dict[str, FloatArray]:
    """Where the joints are in the natural pose, from the hips [m]."""
    channels = np.zeros((len(skeleton), 6))
    for joint, angles in natural_pose(skeleton, recognise(skeleton)).items():
        channels[joint, 3:] = angles
    places = forward_kinematics(skeleton, Pose.from_channels(channels)).matrices[:, :3, 3]
    return dict(zip(skeleton.names, places, strict=True))


@pytest.mark.parametrize("angle", [10.0, 45.0, 90.0])
def test_arms_hang_with_bent_elbows_whatever_the_rest_pose_is(angle: float):
    places = placed(arms_at(angle))
    for side, out in (("L", 1.0), ("R", -1.0)):
        shoulder, elbow, hand = (places[f"{name}.{side}"] for name in ("upper_arm", "forearm", "hand"))
        assert elbow[2] < shoulder[2] - 0.1 and hand[2] < shoulder[2] - 0.1
        assert out * (elbow - shoulder)[0] > 0.0  # beside the body
        upper, lower = elbow - shoulder, hand - elbow
        bend = np.degrees(np.arccos(upper @ lower / np.linalg.norm(upper) / np.linalg.norm(lower)))
        assert 10.0 < bend < 90.0
        assert lower[1] < upper[1]  # forward


def test_rest_poses_lead_to_one_natural_pose():
    reference = placed(arms_at(90.0))
    for angle in (20.0, 45.0):
        for name, place in placed(arms_at(angle)).items():
            if name.split(".")[0] in LIMBS:
                np.testing.assert_allclose(place, reference[name], atol=0.03, err_msg=name)


@pytest.mark.parametrize("order", EULER_ORDERS)
def test_axes_and_orders_of_bones_make_no_difference(order: str):
    reference = placed(arms_at(45.0))
    other = placed(arms_at(45.0, turns=quarter_turns(2), order=order))
    for name in (f"{name}.{side}" for name in LIMBS for side in "LR"):
        np.testing.assert_allclose(other[name], reference[name], atol=1e-6, err_msg=name)


def test_mirrored_figures_get_mirrored_poses():
    places = placed(arms_at(45.0))
    for name in (name[:-2] for name in places if name.endswith(".L")):
        np.testing.assert_allclose(
            places[f"{name}.R"], places[f"{name}.L"] * [-1.0, 1.0, 1.0], atol=1e-6, err_msg=name
        )


def test_knees_bend_backward_and_the_body_stays_upright():
    places = placed(figure())
    for side in "LR":
        hip, knee, foot = (places[f"{name}.{side}"] for name in ("thigh", "shin", "foot"))
        assert knee[1] < 0.5 * (hip + foot)[1]  # it looks along -y
    head = places["head"] - places["hips"]
    assert head[2] > 0.9 * np.linalg.norm(head)


def test_a_natural_pose_is_inside_the_limits_of_the_rig():
    skeleton = arms_at(90.0)
    character = recognise(skeleton)
    lower, upper = np.array(skeleton.lower), np.array(skeleton.upper)
    lower[:, 3:], upper[:, 3:] = -0.1, 0.2
    for angles in natural_pose(replace(skeleton, lower=lower, upper=upper), character).values():
        assert (angles >= -0.1).all() and (angles <= 0.2).all()


def test_recorded_turns_are_those_that_a_pose_of_them_has():
    skeleton = arms_at(90.0)
    character = recognise(skeleton)
    for one in anatomical_joints(skeleton, character, 0):
        turn = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        axes = one.rest @ one.rotation(turn) @ one.rest.T @ one.axes  # the joint above is as at rest
        wanted = MIRROR @ turn @ MIRROR if one.right else turn
        np.testing.assert_allclose(one.axes_above.T @ axes, wanted, atol=1e-12)


def test_the_table_is_that_of_a_symmetric_body_whose_hinges_bend_their_way():
    assert {Role.CHEST, Role.HEAD, Role.UPPER_ARM, Role.LOWER_ARM, Role.HAND} <= RECORDED.keys()
    assert {Role.UPPER_LEG, Role.LOWER_LEG, Role.FOOT, Role.SHOULDER} <= RECORDED.keys()
    for part, turns in RECORDED.items():
        assert min(turns.deviation) > 1.0 and max(turns.deviation) < 60.0, part
    for part in (Role.CHEST, Role.HEAD):
        assert RECORDED[part].mean[1:] == (0.0, 0.0)
    assert RECORDED[Role.LOWER_ARM].mean[0] < 0.0 < RECORDED[Role.LOWER_LEG].mean[0]


def test_what_was_recorded_to_turn_more_resists_less():
    skeleton = figure()
    made = joint_defaults(skeleton, recognise(skeleton))
    stiffness = {skeleton.names[joint]: own.stiffness for joint, own in made.items()}
    left = stiffness["thigh.L"]  # its axes are those of space: to the front, aside, about itself
    order = np.argsort([RECORDED[Role.UPPER_LEG].deviation[axis] for axis in (0, 2, 1)])
    assert left[0] == left.min()
    assert order[-1] == 0


def test_figures_that_are_no_people_prefer_their_rest_pose():
    skeleton = arms_at(90.0)
    character = recognise(skeleton)
    beast = replace(character, figures=tuple(replace(f, body=Body.QUADRUPED) for f in character.figures))
    assert not natural_pose(skeleton, beast)
    made = joint_defaults(skeleton, beast)
    for name in ("upper_arm.L", "spine", "foot.R"):
        np.testing.assert_allclose(made[skeleton.index(name)].preferred, 0.0)
    assert made[skeleton.index("foot.R")].stiffness.max() > 0.0


def test_parts_that_are_not_recorded_fall_back():
    table = with_limbs(
        {
            "hips": (None, (0.0, 0.0, 1.0)),
            "spine": ("hips", (0.0, 0.0, 1.12)),
            "chest": ("spine", (0.0, 0.0, 1.28)),
            "neck": ("chest", (0.0, 0.02, 1.5)),
            "head": ("neck", (0.0, 0.0, 1.58)),
            "tail_1": ("hips", (0.0, 0.1, 0.95)),
            "tail_2": ("tail_1", (0.0, 0.3, 0.9)),
            "tail_3": ("tail_2", (0.0, 0.5, 0.9)),
        },
        {},
    )
    skeleton = built(table)
    character = recognise(skeleton)
    tails = [joint for limb in character.limbs_of(LimbKind.TAIL) for joint in limb.joints]
    assert tails
    made = joint_defaults(skeleton, character)
    for joint in tails:
        np.testing.assert_allclose(made[joint].preferred, 0.0)
        assert made[joint].stiffness.max() < 1.0
    assert not set(tails) & natural_pose(skeleton, character).keys()

# SPDX-License-Identifier: GPL-3.0-or-later
"""Singular values, bounds, repeatability, and what is said of a pose."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks.papers.formulas import (
    control_derivative,
    damped_condition_number,
    drift,
    lie_brackets,
    residual_bounds,
    singular_values,
)
from blender_ik_addon.core import (
    AimAt,
    IKError,
    MatchOrientation,
    OneOf,
    OnPlane,
    Pose,
    Problem,
    ReachPoint,
    StayNear,
    Task,
)
from blender_ik_addon.core.explain.diagnosis import diagnose
from blender_ik_addon.core.problem.system import assemble
from tests.core.builders import Array, chain, humanoid, planar, tip

TABLE_1 = [
    (0.1, 12.3701, 0.1495, 1.5303e4, 6.5347e-5, 0.3091),
    (0.25, 12.3812, 0.1669, 2.4537e3, 4.0755e-4, 0.6917),
    (1.5, 12.1607, 0.5714, 66.7251, 0.0150, 0.8733),
    (10.0, 11.7280, 0.5837, 2.3755, 0.4210, 0.9966),
]
"""[KiSheen, Table 1]: c, s₁, s₄, condition number, bounds of the residual."""


@pytest.mark.parametrize(("c", "first", "last", "condition", "lower", "upper"), TABLE_1)
def test_table_of_ki_and_sheen_to_the_printed_digits(
    c: float, first: float, last: float, condition: float, lower: float, upper: float
) -> None:
    values = np.array([first, 3.0, 1.0, last])
    # s₁ and s₄ are printed to four places: by what that leaves open the rest may differ.
    assert_allclose(damped_condition_number(values, c), condition, rtol=2e-5)
    low, high = residual_bounds(values, c)
    assert_allclose(low, lower, rtol=2e-5, atol=5e-5 if lower > 1e-3 else 0.0)
    assert_allclose(high, upper, atol=2.5e-4)


def test_the_lemmas_hold_for_damped_steps(rng: np.random.Generator) -> None:
    jacobian = rng.normal(size=(30, 3, 5)) * np.array([1.0, 0.1, 5.0])[:, None]
    residual, c = rng.normal(size=(30, 3)), 0.4
    square = np.swapaxes(jacobian, -1, -2) @ jacobian + c**2 * np.eye(5)
    values = singular_values(jacobian)
    assert_allclose(damped_condition_number(values, c), np.linalg.cond(square), rtol=1e-9)
    step = np.linalg.solve(square, np.einsum("fij,fi->fj", jacobian, residual)[..., None])
    left = residual - (jacobian @ step)[..., 0]
    ratio = np.linalg.norm(left, axis=1) / np.linalg.norm(residual, axis=1)
    lower, upper = residual_bounds(values, c)
    assert ((lower <= ratio) & (ratio <= upper)).all()


# ----------------------------------------------------------------------------------------------------------
# Repeatability

STARTS = [
    ([-155.7048, -138.5904, -65.7048], -1.66),
    ([-129.0618, 146.0181, 63.0437], 2.23),
    ([-37.3383, 87.1955, 110.1389], 0.58),
]
"""[ChungChoi1994, Table 1]: starts [°] and the Lie-bracket condition of Moore and Penrose's inverse there."""
FREE_ANGLES = np.radians([5.0, 10.0, 0.0])
FROM_X = np.array([0.5 * np.pi, 0.0, 0.0])
"""Their first link lies along x where its angle is 0, this one along y [rad]."""
ARM = planar(3)
REACH = ReachPoint(joint="joint.2", point=tip(), target=np.zeros(3), axes=(True, True, False))


def derivatives(values: Array) -> tuple[Array, Array]:
    """J (2, 3) and its derivative (2, 3, 3) of the planar arm."""
    system = assemble(Problem(ARM, (REACH,)), Pose.rest(ARM, (1,)))
    posed = system.place(values[None])
    second = [system.curvature(posed, row[None])[0] for row in np.eye(2)]
    return system.jacobian(posed)[0], np.array(second)


def moore_penrose(values: Array) -> Array:
    return np.asarray(np.linalg.pinv(derivatives(values)[0]), np.float64)


def springs(values: Array) -> Array:
    """A⁻¹Jᵀ(JA⁻¹Jᵀ)⁻¹ with A = 1 − G [ChungChoi1994]."""
    jacobian, second = derivatives(values)
    force = np.linalg.solve(jacobian @ jacobian.T, jacobian @ (values + FROM_X - FREE_ANGLES))
    bent = np.linalg.solve(np.eye(3) - np.einsum("l,lij->ij", force, second), jacobian.T)
    return np.asarray(bent @ np.linalg.inv(jacobian @ bent), np.float64)


@pytest.mark.parametrize(("start", "expected"), STARTS)
def test_lie_brackets_of_chung_and_choi(start: list[float], expected: float) -> None:
    values = np.radians(start) - FROM_X
    plain = lie_brackets(moore_penrose(values), control_derivative(moore_penrose, values))
    assert plain.determinants is not None
    assert_allclose(plain.determinants, [expected], atol=5e-3)
    assert plain.residual > 0.5
    # The starts are those at which the springs are at rest: there they are repeatable.
    assert lie_brackets(springs(values), control_derivative(springs, values)).residual < 1e-5


def test_brackets_of_columns_that_are_gradients_vanish() -> None:
    # P = (x, y, 0)ᵀ as one column, and rotations about two axes, whose bracket is that about the third.
    def rotations(q: Array) -> Array:
        x, y, z = q
        return np.array([[0.0, z], [-z, 0.0], [y, -x]])

    q = np.array([0.3, -0.4, 0.5])
    found = lie_brackets(rotations(q), control_derivative(rotations, q))
    assert_allclose(found.brackets, [[q[1], -q[0], 0.0]], atol=1e-10)
    assert found.residual < 1e-9  # on a sphere: the three rotations have two dimensions


def test_drift_is_what_a_cycle_leaves(rng: np.random.Generator) -> None:
    walk = rng.normal(size=(13, 3, 6))
    expected = np.stack([walk[4] - walk[0], walk[8] - walk[0], walk[12] - walk[0]])
    assert_allclose(drift(Pose.from_channels(walk), 4), expected)
    assert_allclose(drift(walk[:12], 4), expected[:2])
    with pytest.raises(IKError, match="a cycle of 4 frames needs 5 poses, there are 4"):
        drift(walk[:4], 4)


# ----------------------------------------------------------------------------------------------------------
# Diagnosis


def bent(*angles: float) -> Pose:
    return Pose.from_channels(np.concatenate([np.zeros((len(angles), 5)), np.array(angles)[:, None]], axis=1))


def test_a_straight_arm_is_said_to_be_straight() -> None:
    found = diagnose(Problem(ARM, (REACH,)), bent(0.0, 0.0, 0.0))
    (level,) = found.levels
    assert (level.rows, level.rank, level.left) == (2, 1, 1)
    assert np.isinf(level.condition) and level.manipulability < 1e-12
    (lost,) = level.lost
    assert_allclose(lost.direction, [0.0, 1.0, 0.0], atol=1e-12)
    assert lost.joint == "joint.0" and lost.rate < 1e-9
    assert found.lines == (
        "3 free channels, 2 dimensions left free",
        "Level 0: rank 1 of 2; singular",
        "position of joint.2 cannot be moved along (0.00, 1.00, 0.00), its limb is straight from joint.0",
    )


def test_an_arm_that_is_nearly_straight_is_nearly_lost_and_a_bent_one_is_not() -> None:
    (lost,) = diagnose(Problem(ARM, (REACH,)), bent(0.1, 0.01, 0.0)).levels[0].lost
    assert 1e-4 < lost.rate < 0.03 and "can hardly be moved along" in lost.text
    (level,) = diagnose(Problem(ARM, (REACH,)), bent(0.1, 0.9, 0.7)).levels
    assert not level.lost and level.rank == 2
    values = singular_values(derivatives(np.array([0.1, 0.9, 0.7]))[0]) / ARM.reach
    assert_allclose(level.singular_values, values)
    assert_allclose(level.condition, values[0] / values[1])
    assert_allclose(level.manipulability, values.prod())


def test_what_levels_above_leave_and_what_hangs_together() -> None:
    elbow = ReachPoint(joint="joint.1", point=tip(), target=np.zeros(3), axes=(True, True, False))
    below = diagnose(Problem(ARM, (REACH, elbow)), bent(0.3, 0.5, 0.7)).levels[0]
    assert (below.rank, below.rows) == (3, 4) and not below.lost
    assert below.together == (("position of joint.2", "position of joint.1"),)
    first, second = diagnose(Problem(ARM, (REACH, replace(elbow, priority=1))), bent(0.3, 0.5, 0.7)).levels
    assert (first.left, second.rank, second.left) == (2, 2, 1)
    assert second.lines[0] == "Level 1: rank 2 of 2, 1 left by the levels above; singular"


def test_what_only_says_what_is_preferred_is_below_the_levels_and_named_so() -> None:
    elbow = ReachPoint(joint="joint.1", point=tip(), target=np.zeros(3), axes=(True, True, False))
    follows = replace(elbow, priority=10**6, softness=0.1, preference=True)
    levels = diagnose(Problem(ARM, (REACH, follows)), bent(0.3, 0.5, 0.7)).levels
    assert [level.preferred for level in levels] == [False, True]
    assert levels[1].lines[0] == "What follows: rank 2 of 2, 1 left by the levels above; singular"


def test_what_each_effector_has_lost_by_itself_is_no_matter_of_both() -> None:
    elbow = ReachPoint(joint="joint.1", point=tip(), target=np.zeros(3), axes=(True, True, False))
    # Straight in any direction: numerically what is lost to one and to the other is then mixed somewhere.
    for angle in np.linspace(0.1, 3.0, 12):
        (level,) = diagnose(Problem(ARM, (REACH, elbow)), bent(float(angle), 0.0, 0.0)).levels
        assert {lost.task for lost in level.lost} == {"position of joint.2", "position of joint.1"}
        assert level.together == ()
    turned = MatchOrientation(joint="joint.2", target=np.eye(3), axes=(False, False, True), name="hand")
    both = ReachPoint(joint="joint.2", target=np.zeros(3), axes=(True, True, False), name="hand")
    one = planar(2)
    (level,) = diagnose(
        Problem(one, (replace(turned, joint="joint.1"), replace(both, joint="joint.1", point=tip()))),
        bent(0.3, 0.9),
    ).levels
    assert level.lines[1:] == ("place and orientation of hand can hardly be moved independently",)


def test_straight_legs_are_told_one_by_one_and_bent_ones_are_not() -> None:
    skeleton = humanoid()
    pose = Pose.rest(skeleton)
    tasks: list[Task] = [MatchOrientation(joint="hips", target=np.eye(3), name="hips")]
    tasks += [ReachPoint(joint=j, target=np.zeros(3), name=j) for j in ("hips", "foot.L", "foot.R")]

    def told(bend: float) -> tuple[str, ...]:
        channels = pose.channels.copy()
        for side in "LR":
            channels[skeleton.index(f"thigh.{side}"), 3] = -0.5 * bend
            channels[skeleton.index(f"shin.{side}"), 3] = bend
        return diagnose(Problem(skeleton, tuple(tasks)), Pose.from_channels(channels)).levels[0].lines[1:]

    straight = "can hardly be moved further apart, what is between them is straight"
    assert told(0.0) == (f"hips and foot.L {straight}", f"hips and foot.R {straight}")
    assert told(0.8) == ()


def test_every_kind_of_task_is_diagnosed() -> None:
    skeleton = humanoid()
    tasks = (
        MatchOrientation(joint="hips", target=np.eye(3)),
        AimAt(joint="head", target=np.array([0.0, -3.0, 1.6]), axis=np.array([0.0, -1.0, 0.0]), priority=1),
        OnPlane(
            joint="foot.L",
            origin=np.zeros(3),
            normal=np.array([0.0, 0.0, 1.0]),
            offset=0.08,
            side="ABOVE",
            priority=2,
        ),
        OnPlane(
            joint="hand.L", origin=np.zeros(3), normal=np.array([0.0, 0.0, 1.0]), side="ABOVE", priority=2
        ),
        OneOf(
            alternatives=(
                ReachPoint(joint="hand.R", target=np.array([9.0, 0.0, 0.0])),
                OnPlane(joint="hand.R", origin=np.array([0.0, 0.1, 0.0]), normal=np.array([0.0, 1.0, 0.0])),
            ),
            priority=3,
        ),
        StayNear(channels=Pose.rest(skeleton).channels),
    )
    found = diagnose(Problem(skeleton, tasks), Pose.rest(skeleton))
    # The hand is far above its plane, which asks nothing of it.
    assert [(level.rows, level.rank) for level in found.levels] == [(3, 3), (2, 2), (1, 1), (1, 1)]
    assert found.freedom == found.channels - 7
    for lines in found.lines:
        assert "slack" not in lines
    still = chain(2, free=False)
    nothing = diagnose(Problem(still, (ReachPoint(joint=1, target=np.zeros(3)),)), Pose.rest(still))
    assert (nothing.channels, nothing.levels[0].rank) == (0, 0)
    assert diagnose(Problem(still, ()), Pose.rest(still)).lines == (
        "Nothing to diagnose: there are no tasks",
    )


def test_a_joint_without_size_that_should_aim_is_left_out() -> None:
    flat = Pose(Pose.rest(ARM).channels, np.ones((len(ARM), 3)) * (np.arange(len(ARM)) < 2)[:, None])
    found = diagnose(Problem(ARM, (AimAt(joint=2, target=np.array([0.0, 0.0, 5.0])),)), flat)
    assert found.lines and found.levels == ()

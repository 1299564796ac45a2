# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine: the energy's derivatives, and what its minimum is."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from blender_ik_addon.core import (
    MatchOrientation,
    Pose,
    Problem,
    ReachPoint,
    Skeleton,
    SolverOptions,
    Status,
    solve,
    solve_sequence,
)
from blender_ik_addon.core.engine.energy import Energy, PenaltyWeights
from blender_ik_addon.core.engine.kernel import Descent, _boxed, _Linear
from blender_ik_addon.core.engine.pops import pops_of
from blender_ik_addon.core.model.kinematics import forward_kinematics
from blender_ik_addon.core.problem.system import assemble
from tests.core.builders import body, random_pose


def figure_energy(
    rng: np.random.Generator, *, limit: float | None = None, frames: int = 2, softness: float = 0.0
) -> tuple[Energy, np.ndarray]:
    """A figure with three levels of tasks, poses of it away from them, and its energy there.

    Where there is a softness, the first level has no exact task and the last one has both.
    """
    skeleton = body(limit=limit)
    aims = [forward_kinematics(skeleton, random_pose(rng, skeleton, only_free=True)) for _ in range(frames)]

    def targets(joint: str) -> np.ndarray:
        return np.stack([aim.matrices[skeleton.index(joint)] for aim in aims])

    tasks = (
        ReachPoint(joint="hand.L", target=targets("hand.L")[:, :3, 3], softness=softness),
        MatchOrientation(joint="head", target=targets("head")[:, :3, :3], priority=1, weight=0.5),
        ReachPoint(joint="hand.R", target=targets("hand.R")[:, :3, 3] + 0.4, priority=2, softness=softness),
        ReachPoint(joint="foot.R", target=targets("foot.R")[:, :3, 3], priority=2, weight=2.0),
    )
    poses = [random_pose(rng, skeleton, only_free=True, angle=0.4) for _ in range(frames)]
    pose = Pose.from_channels(np.stack([pose.channels for pose in poses]))
    system = assemble(Problem(skeleton, tasks), pose)
    values = system.mechanism.values(pose)
    return Energy(system, values).weakened(PenaltyWeights(20.0, 5.0)), values


def total(energy: Energy, values: np.ndarray) -> np.ndarray:
    """The energy of each frame, (F,)."""
    state = energy.at(values)
    return energy.penalty_terms(state.squares, energy.penalty_weights).sum(axis=1) + energy.posture(
        state.deviation
    )


@pytest.mark.parametrize("softness", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_is_that_of_the_energy(seed: int, softness: float) -> None:
    energy, values = figure_energy(np.random.default_rng(seed), softness=softness)
    gradient = energy.model(energy.at(values)).gradient
    step = 1e-6
    for channel in range(values.shape[1]):
        change = np.zeros(values.shape[1])
        change[channel] = step / energy.weight[channel]
        slope = (total(energy, values + change) - total(energy, values - change)) / (2.0 * step)
        assert_allclose(gradient[:, channel], slope, atol=1e-5, rtol=1e-5)


@given(pull=st.floats(0.0, 100.0), softness=st.sampled_from([0.0, 0.02]), seed=st.integers(0, 99))
def test_drawn_to_a_pose_the_energy_is_itself_and_a_spring_to_it(
    pull: float, softness: float, seed: int
) -> None:
    """Up to a constant, and a factor that turns no gradient."""
    rng = np.random.default_rng(seed)
    energy, there = figure_energy(rng, softness=softness)
    drawn, scaled = energy.drawn(there, pull), there * energy.weight
    changes = list[np.ndarray]()
    for values in rng.normal(0.0, 0.3, (2, *there.shape)):
        spring = 0.5 * pull * np.square(values * energy.weight - scaled) @ energy.stiffness
        changes.append(total(energy, values) + spring - (1.0 + pull) * total(drawn, values))
    assert_allclose(*changes, rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize(("softness", "other"), [(0.0, 0.0), (0.02, 0.0), (0.5, 0.5)])
def test_at_a_minimum_the_hessian_is_that_of_the_energy(softness: float, other: float) -> None:
    """Away from it the forces are those of Lagrange's multipliers, not of the residual."""
    skeleton = body()
    rest = forward_kinematics(skeleton, Pose.rest(skeleton))
    near = rest.point("foot.L") + np.array([0.05, 0.1, 0.15])
    tasks = (
        ReachPoint(joint="hand.L", target=np.array([3.0, -2.0, 4.0]), softness=softness),
        *([ReachPoint(joint="foot.L", target=near, softness=softness)] if softness else []),
        ReachPoint(joint="foot.R", target=np.array([-3.0, 2.0, -1.0]), softness=other),
        ReachPoint(joint="hand.R", target=np.array([-4.0, 1.0, -2.0]), priority=1, softness=softness),
        ReachPoint(joint="head", target=np.array([1.0, 5.0, 1.0]), priority=1, softness=other),
    )
    pose = Pose.rest(skeleton)[None]
    system = assemble(Problem(skeleton, tasks), pose)
    energy = Energy(system, system.mechanism.values(pose)).weakened(PenaltyWeights(20.0, 5.0))
    options = SolverOptions(step_tolerance=1e-10, max_iterations=300)
    found = Descent(energy, system.mechanism.values(pose), options).run()
    model = energy.model(energy.at(found.values))
    hessian = (model.hessian + np.diag(energy.stiffness))[0]
    step = 1e-5
    for channel in range(len(hessian)):
        change = np.zeros(len(hessian))
        change[channel] = step / energy.weight[channel]
        ahead = energy.model(energy.at(found.values + change)).gradient
        behind = energy.model(energy.at(found.values - change)).gradient
        slope = (ahead - behind)[0] / (2.0 * step)
        assert_allclose(hessian[channel], slope, atol=1e-4 * np.abs(hessian).max())


def test_at_the_minimum_nothing_pulls_but_against_limits() -> None:
    energy, values = figure_energy(np.random.default_rng(8), limit=0.2)
    found = Descent(energy, values, SolverOptions(step_tolerance=1e-9, max_iterations=300)).run()
    assert found.converged.all()
    gradient = energy.model(energy.at(found.values)).gradient
    low, high = found.values <= energy.lower, found.values >= energy.upper
    loose = np.where(low, np.minimum(gradient, 0.0), np.where(high, np.maximum(gradient, 0.0), gradient))
    assert (
        np.abs(loose).max() < 0.1
    )  # of forces up to 500, where a step of 1e-9 against what is met counts 0.02
    assert (low | high).any()


@pytest.mark.parametrize("limit", [None, 0.6, 0.2])
def test_a_descent_ends_as_near_to_its_minimum_as_it_was_asked_to(limit: float | None) -> None:
    """Though it stops before a step is as short as that, where steps get shorter fast."""
    far = list[float]()
    for seed in range(20):
        energy, values = figure_energy(np.random.default_rng(seed), limit=limit)
        options = SolverOptions(max_iterations=300)
        found = Descent(energy, values, options, step_tolerance=1e-5).run()
        further = Descent(energy, found.values, options, step_tolerance=1e-11).run()
        assert found.converged.all() and further.converged.all()
        far.extend(np.abs(further.values - found.values).max(axis=1))
    # A minimum may be flat, and what an active set does at a corner is rounding.
    assert np.quantile(far, 0.9) < 1e-5 and np.quantile(far, 0.97) < 1e-4


@pytest.mark.parametrize(
    ("tie", "gradient"),
    [
        ([-2.0, -2.0, 2.0], [-20.0, -20.0, 0.0]),
        ([2.0, -1.0, 0.0], [20.0, 30.0, -20.0]),
        ([0.0, -2.0, 1.0], [0.0, -30.0, 0.0]),
    ],
)
def test_what_limits_stop_is_let_go_where_what_is_tied_to_it_was_stopped(
    tie: list[float], gradient: list[float]
) -> None:
    """Three channels inside ±1, a stiff tie between them: the step is the lowest point of the model there."""
    hessian = np.eye(3) + 100.0 * np.outer(tie, tie)
    linear = _Linear(hessian[None], np.zeros(1), None, np.ones(3))
    box, nothing = np.ones((1, 3)), np.zeros((1, 3), dtype=np.bool_)
    change, held = (found[0] for found in _boxed(linear, np.array([gradient]), -box, box, nothing))
    slope = hessian @ change + gradient
    assert_allclose(slope[~held], 0.0, atol=1e-9)
    assert (slope * np.sign(change))[held].max() < 0.0


def test_a_straight_limb_bends_from_its_limit_although_nothing_pulls_it_to_a_side() -> None:
    arm = Skeleton.build(
        ["upper", "lower", "hand"],
        [None, "upper", "lower"],
        offsets=[[0, 0, 0], [0.3, 0, 0], [0.3, 0, 0]],
        lower={"lower": [-1e-3, -1e-3, 0.0]},
        upper={"lower": [1e-3, 1e-3, 2.5]},
    )
    task = ReachPoint(joint="hand", target=np.array([0.4, 0.0, 0.0]))
    assert solve(Problem(arm, task), Pose.rest(arm), restarts=0).reached


@settings(max_examples=3)
@given(seed=st.integers(0, 2**16), limit=st.sampled_from([None, 1.2, 0.5]), beyond=st.booleans())
def test_a_pose_that_is_solved_stays_when_it_is_solved_again(
    seed: int, limit: float | None, beyond: bool
) -> None:
    """Once the far search finds nothing lower from there."""
    rng = np.random.default_rng(seed)
    skeleton = body(limit=limit)
    aim = forward_kinematics(skeleton, random_pose(rng, skeleton, only_free=True, angle=0.6 * (limit or 1.0)))
    places = {joint: aim.matrices[skeleton.index(joint)] for joint in ("hand.L", "hand.R", "foot.L", "head")}
    tasks = (
        ReachPoint(joint="hand.L", target=places["hand.L"][:3, 3]),
        ReachPoint(joint="foot.L", target=places["foot.L"][:3, 3]),
        ReachPoint(joint="hand.R", target=places["hand.R"][:3, 3] + 0.5 * beyond, priority=1),
        MatchOrientation(joint="head", target=places["head"][:3, :3], priority=1),
    )
    problem = Problem(skeleton, tasks)
    once = solve(problem, Pose.rest(skeleton), restarts=0)
    twice = solve(problem, once.pose, restarts=0)
    assume(twice.status is not Status.MAX_ITERATIONS)
    thrice = solve(problem, twice.pose, restarts=0)
    first, again = (forward_kinematics(skeleton, found.pose).matrices for found in (twice, thrice))
    assert_allclose(again[:, :3, 3], first[:, :3, 3], atol=1e-4)
    assert_allclose(again[:, :3, :3], first[:, :3, :3], atol=np.radians(0.1))


@pytest.mark.parametrize("target", [(-0.2, 3.5), (-0.7, 3.4), (-0.2, 4.5), (-0.9, 4.4)])
def test_a_straight_chain_on_its_limits_finds_the_lower_pose(target: tuple[float, float]) -> None:
    """All its hinges rest on limits. The pose is the one that is found from hinges that are bent half."""
    ranges = np.array([(0.0, 2.4), (-2.4, 0.0), (0.0, 2.4), (-2.4, 0.0), (-2.4, 0.0)])
    lower, upper, free = np.full((5, 6), -np.inf), np.full((5, 6), np.inf), np.zeros((5, 6), dtype=bool)
    lower[:, 3], upper[:, 3], free[:, 3] = *ranges.T, True
    names = [f"joint{number}" for number in range(5)]
    offsets = [[0, 0, 0], *[[0, 0, 1]] * 4]
    skeleton = Skeleton.build(
        names, [None, *names[:-1]], offsets=offsets, free=free, lower=lower, upper=upper
    )
    task = ReachPoint(joint="joint4", point=[0, 0, 1], target=[0.0, *target])
    bent = np.zeros((5, 6))
    bent[:, 3] = ranges.mean(axis=1)
    straight, other = (
        solve(Problem(skeleton, task), pose) for pose in (Pose.rest(skeleton), Pose.from_channels(bent))
    )
    assert straight.reached and other.reached
    assert np.square(straight.pose.channels).sum() < np.square(other.pose.channels).sum() + 1e-3


def test_another_writing_of_a_rotation_is_rewritten_near_the_preferred_angles() -> None:
    """A free joint has each rotation twice within a turn: (a, b, c) and (a + π, π − b, c + π)."""
    preferred = np.array([0.0, 0.0, 0.0, 0.3, 0.5, -0.4])
    skeleton = Skeleton.build(
        ["ball"], [None], offsets=[[0, 0, 0]], free=[False] * 3 + [True] * 3, preferred=[preferred]
    )
    there = Pose.from_channels(preferred[None])
    matrix = forward_kinematics(skeleton, there).matrices[0]
    task = ReachPoint(joint="ball", point=[1, 2, 3], target=matrix[:3, :3] @ [1, 2, 3])
    other = np.array([*preferred[:3], preferred[3] + np.pi, np.pi - preferred[4], preferred[5] + np.pi])
    start = Pose.from_channels(np.tile(other, (6, 1, 1)))
    assert_allclose(forward_kinematics(skeleton, start).matrices[0, 0], matrix, atol=1e-12)
    for found in (
        solve(Problem(skeleton, task), start[0]).pose,
        solve_sequence(Problem(skeleton, task), start).pose,
    ):
        assert_allclose(found.channels, np.broadcast_to(preferred, found.channels.shape), atol=1e-6)


BOUND = np.radians(3.0)
"""[rad] From which change of a turn on it is a pop."""


def turning(angles: np.ndarray) -> tuple[Skeleton, Pose]:
    """A hinge with angles [rad] for frames, (F,)."""
    skeleton = Skeleton.build(["hinge"], [None], offsets=[[0, 0, 0]], free=[False] * 5 + [True])
    channels = np.zeros((len(angles), 1, 6))
    channels[:, 0, 5] = angles
    return skeleton, Pose.from_channels(channels)


def test_a_turn_that_stands_out_is_a_pop_at_the_frame_to_which_it_leads() -> None:
    smooth = np.radians(20.0) * np.sin(np.linspace(0.0, 3.0, 40))
    assert pops_of(*turning(smooth), BOUND) == ()
    jump = smooth + np.where(np.arange(40) >= 17, np.radians(15.0), 0.0)
    (pop,) = pops_of(*turning(jump), BOUND)
    assert (pop.frame, pop.joint) == (17, "hinge")
    assert np.degrees(pop.turn) == pytest.approx(15.0, abs=2.0)
    assert pops_of(*turning(jump), np.radians(16.0)) == ()
    twitch = smooth + np.where(np.arange(40) == 17, np.radians(8.0), 0.0)
    assert [pop.frame for pop in pops_of(*turning(twitch), BOUND)] == [17, 18]


def test_pops_of_a_loop_do_not_depend_on_where_it_begins() -> None:
    steps = np.radians(np.random.default_rng(3).uniform(1.0, 6.0, 40))
    steps[17] += np.radians(20.0)
    for begin in range(40):
        around = np.cumsum(np.append(0.0, np.roll(steps, -begin)))
        (pop,) = pops_of(*turning(around), BOUND, cyclic=True)
        assert (pop.frame - 1 + begin) % 40 == 17


def test_a_pause_in_a_fast_motion_is_no_pop() -> None:
    angles = np.radians(5.0) * np.arange(30.0)
    angles[12:] -= np.radians(5.0)
    assert pops_of(*turning(angles), BOUND) == ()


def test_a_fast_motion_that_rises_and_falls_evenly_is_no_pop() -> None:
    turns = np.radians(18.0) * np.exp(-(((np.arange(40) - 20.0) / 3.0) ** 2))
    assert np.abs(np.diff(turns)).max() > 1.5 * BOUND
    assert pops_of(*turning(np.cumsum(turns)), BOUND) == ()
    # A flip that takes three frames is one.
    turns = np.radians(1.0) + np.radians([30.0, 59.0, 30.0]) @ (np.arange(40) == np.array([[17], [18], [19]]))
    assert {17, 18} & {int(pop.frame) for pop in pops_of(*turning(np.cumsum(turns)), BOUND)}


def test_what_a_recording_does_is_no_pop_and_a_pop_on_top_of_it_is_told() -> None:
    steps = np.radians(np.random.default_rng(3).uniform(-20.0, 20.0, 40))  # nothing stands out of these
    recording = np.cumsum(steps)
    recording[30:] += np.radians(60.0)
    skeleton, preferred = turning(recording)
    assert 30 in {pop.frame for pop in pops_of(skeleton, preferred, BOUND)}
    assert pops_of(skeleton, preferred, BOUND, preferred) == ()
    corrected = turning(recording + np.radians(25.0) * np.sin(np.linspace(0.0, 3.0, 40)))[1]
    assert pops_of(skeleton, corrected, BOUND, preferred) == ()
    for way in (-8.0, 8.0):
        jump = turning(recording + np.where(np.arange(40) >= 17, np.radians(way), 0.0))[1]
        assert 17 not in {pop.frame for pop in pops_of(skeleton, jump, BOUND)}
        (pop,) = pops_of(skeleton, jump, BOUND, preferred)
        # By how much it turns from the recording: in the keys both together may be no turn at all.
        assert (pop.frame, np.degrees(pop.turn)) == (17, pytest.approx(8.0, abs=1e-6))
    smooth = turning(np.linspace(0.0, 1.0, 40))[1]  # beside a recording that jumps once
    jumping = turning(np.where(np.arange(40) >= 30, 1.0, 0.0))[1]
    assert pops_of(skeleton, smooth, BOUND, jumping) == ()


def test_of_two_frames_none_stands_out() -> None:
    assert pops_of(*turning(np.array([0.0, 1.0])), BOUND) == ()

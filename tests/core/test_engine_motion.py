# SPDX-License-Identifier: GPL-3.0-or-later
"""Motions as one problem: the terms over time, their linear systems, and what the minimum is like."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from benchmarks.motions import joint_steps
from blender_ik_addon.core import (
    MatchOrientation,
    Pose,
    PosedSkeleton,
    Problem,
    ReachPoint,
    Task,
    forward_kinematics,
    solve_sequence,
)
from blender_ik_addon.core.engine import motion as engine
from blender_ik_addon.core.engine.coupling import ACCELERATION, Band, BandFactors, Coupling
from blender_ik_addon.core.engine.energy import Energy
from blender_ik_addon.core.engine.motion import OVERLAP, Motion, different, windows
from blender_ik_addon.core.model.skeleton import Skeleton
from blender_ik_addon.core.problem.options import SolverOptions
from blender_ik_addon.core.problem.system import System, assemble
from tests.core.builders import Array, chain, planar, tip, torso, upper_body
from tests.core.strategies import rotation_about

UNEVEN = np.cumsum([0.0, 0.04, 0.05, 0.04, 0.3, 0.04, 0.02, 0.04])


def dense(band: Band) -> Array:
    """T as a matrix (F, F)."""
    return band.times(np.eye(len(band.diagonal)))


def curve(frames: int, seconds: float = 2.0) -> Array:
    """A smooth path that a chain of five bones of 1 m can reach, (F, 3)."""
    t = np.linspace(0.0, seconds, frames)
    return np.stack([2.0 + np.sin(t), 2.5 + 0.5 * np.cos(2.0 * t), 0.5 * np.sin(1.5 * t)], axis=1)


def arm(limit: float = 1.2) -> Skeleton:
    """A chain of five ball joints with limits [rad]."""
    return chain(5, lower=-limit, upper=limit)


def prepared(skeleton: Skeleton, targets: Array, poses: Pose) -> tuple[System, Energy, Array]:
    """The energy of a motion whose tip follows targets, and the values of the poses."""
    task = ReachPoint(joint=len(skeleton) - 1, point=tip(), target=targets)
    system = assemble(Problem(skeleton, (task,)), poses)
    values = system.mechanism.values(poses)
    return system, Energy(system, values), values


def prepare(energy: Energy, values: Array, times: Array, smoothness: float = 0.2) -> Motion:
    """A motion with the settings of a solve."""
    options = SolverOptions(smoothness=smoothness)
    return Motion(energy, values, times, options)


def minimise_motion(energy: Energy, values: Array, times: Array, smoothness: float = 0.2) -> Motion:
    """A motion at the minimum of its energy."""
    motion = prepare(energy, values, times, smoothness)
    assert list(motion.run())[-1] == pytest.approx(1.0)
    assert motion.finished == len(times) and motion.converged.all()
    return motion


def solved(skeleton: Skeleton, targets: Array, times: Array, smoothness: float = 0.2) -> tuple[Array, Array]:
    """Channels (F, nv) of a motion that follows targets, and where its tip is, (F, 3)."""
    poses = Pose.rest(skeleton, (len(targets),))
    system, energy, values = prepared(skeleton, targets, poses)
    found = minimise_motion(energy, values, times, smoothness).values
    placed = forward_kinematics(skeleton, system.mechanism.with_values(poses, found))
    return found, placed.point(len(skeleton) - 1, tip())


def followed(skeleton: Skeleton, there: PosedSkeleton, *joints: str) -> list[Task]:
    """Tasks that ask for place and orientation of joints in a motion."""
    tasks = list[Task]()
    for name in joints:
        turn = there.matrices[:, skeleton.index(name), :3, :3]
        tasks += [ReachPoint(joint=name, target=there.point(name)), MatchOrientation(joint=name, target=turn)]
    return tasks


def hand_of(skeleton: Skeleton, targets: Array, turns: Array | None = None) -> tuple[Task, ...]:
    """The left hand at places (F, 3) [m] about where it is at rest, and turned (F, 3, 3) from there."""
    rest = forward_kinematics(skeleton, Pose.rest(skeleton))
    place = ReachPoint(joint="hand.L", target=rest.point("hand.L") + targets)
    return (place,) if turns is None else (place, MatchOrientation(joint="hand.L", target=turns))


@pytest.mark.parametrize("times", [np.arange(7) / 24, UNEVEN, np.array([0.0, 0.1])])
def test_the_terms_over_time_are_the_squared_speeds_and_accelerations(times: Array) -> None:
    """The matrix is the second derivative of the sum that the module's head gives."""
    matrix = dense(Coupling.of(times, 0.2).band)
    steps, middle = np.diff(times), np.median(np.diff(times))
    rows = [np.zeros((0, len(times)))]
    for f, step in enumerate(steps):
        row = np.zeros(len(times))
        row[f], row[f + 1] = -1.0, 1.0
        rows.append(0.2 / np.sqrt(step * middle) * row[None])
    for f in range(len(times) - 2):
        row = np.zeros(len(times))
        row[f] += 1.0 / steps[f]
        row[f + 1] -= 1.0 / steps[f] + 1.0 / steps[f + 1]
        row[f + 2] += 1.0 / steps[f + 1]
        weight = np.sqrt(ACCELERATION) * 0.2**2 / np.sqrt(0.5 * (steps[f] + steps[f + 1]) * middle)
        rows.append(weight * row[None])
    stacked = np.concatenate(rows)
    np.testing.assert_allclose(matrix, stacked.T @ stacked, rtol=1e-9, atol=1e-9 * np.abs(matrix).max())
    np.testing.assert_allclose(matrix.sum(axis=1), 0.0, atol=1e-9 * np.abs(matrix).max())


@given(st.sets(st.integers(0, 7), min_size=1), st.integers(0, 1000))
def test_the_terms_of_some_frames_are_those_of_all_while_the_others_stay(some: set[int], seed: int) -> None:
    """Energies and forces, by the whole matrix."""
    coupling = Coupling.of(UNEVEN, 0.2)
    frames, rng = np.array(sorted(some)), np.random.default_rng(seed)
    before, after = rng.normal(size=(2, len(UNEVEN), 3))
    after[[f for f in range(len(UNEVEN)) if f not in some]] = before[
        [f for f in range(len(UNEVEN)) if f not in some]
    ]
    stiffness, matrix = np.array([1.0, 0.5, 2.0]), dense(coupling.band)

    def energy(away: Array) -> float:
        return 0.5 * float(np.einsum("fv,v,fg,gv->", away, stiffness, matrix, away))

    others = before.copy()
    others[frames] = 0.0
    part = coupling.part(frames, others)
    np.testing.assert_allclose(part.times(after[frames]), (matrix @ after)[frames], rtol=1e-9, atol=1e-6)
    own = np.zeros(len(frames))
    gained = part.energies(own, after[frames], stiffness) - part.energies(own, before[frames], stiffness)
    np.testing.assert_allclose(gained.sum(), energy(after) - energy(before), rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("stiff", [1.0, 1e6, 1e9])
@pytest.mark.parametrize("frames", [1, 2, 3, 80])
def test_the_block_factorisation_solves_the_whole_system(frames: int, stiff: float) -> None:
    """Also of many frames tied closely together, where small errors would grow from frame to frame."""
    rng = np.random.default_rng([frames, int(stiff)])
    n = 4
    band = Coupling.of(np.arange(frames) / 24, 0.2).band
    rows = rng.normal(size=(frames, 2, n))
    blocks = stiff * rows.swapaxes(1, 2) @ rows + (0.01 + band.diagonal)[:, None, None] * np.eye(n)
    first, second = band.first[:, None] * np.ones(n), band.second[:, None] * np.ones(n)
    whole = np.kron(dense(band) - np.diag(band.diagonal), np.eye(n))
    for f in range(frames):
        whole[f * n : f * n + n, f * n : f * n + n] += blocks[f]
    right = rng.normal(size=(frames, n))
    solution = BandFactors(blocks, first, second).solve(right)
    np.testing.assert_allclose(solution.ravel(), np.linalg.solve(whole, right.ravel()), rtol=1e-4, atol=1e-6)


def test_what_is_not_positive_definite_is_refused() -> None:
    """The caller has to know that a step would not lead down."""
    band = Coupling.of(np.arange(5) / 24, 0.2).band
    blocks = (band.diagonal - 1.0)[:, None, None] * np.eye(2)
    with pytest.raises(np.linalg.LinAlgError):
        BandFactors(blocks, band.first[:, None] * np.ones(2), band.second[:, None] * np.ones(2))


def test_a_smooth_motion_in_reach_is_met_and_stays_smooth_inside_the_limits() -> None:
    """No joint jumps, targets are met to 0.1 mm, and no channel leaves its box."""
    targets = curve(60)
    found, reached = solved(arm(), targets, np.arange(60) / 30)
    assert np.linalg.norm(reached - targets, axis=1).max() < 1e-4
    steps = np.diff(found, axis=0)
    assert np.abs(steps).max() < np.radians(6.0)
    assert np.abs(np.diff(steps, axis=0)).max() < np.radians(2.0)
    assert np.abs(found).max() <= 1.2


def test_frames_that_have_little_to_go_end_at_the_minimum_too() -> None:
    """They wait while one frame, whose target jumps, has far to go: where it is they are nudged once more."""
    targets, times = curve(60), np.arange(60) / 30
    targets[30] += (0.0, 0.6, 0.8)
    _, energy, values = prepared(arm(), targets, Pose.rest(arm(), (60,)))
    whole = minimise_motion(energy, values, times).values
    again = Motion(energy, whole, times, SolverOptions(smoothness=0.2), far=False)
    assert list(again.run())
    np.testing.assert_allclose(again.values, whole, atol=1e-5)


def test_half_the_frames_give_nearly_the_same_poses() -> None:
    """Weights follow from the real time between frames."""
    targets, times = curve(65), np.arange(65) / 32
    every, _ = solved(arm(), targets, times)
    half, _ = solved(arm(), targets[::2], times[::2])
    np.testing.assert_allclose(half, every[::2], atol=np.radians(1.0))


def test_a_recording_that_is_its_own_preferred_pose_stays_as_it_is() -> None:
    """The terms over time act on the difference from the preferred pose, so a jump in it stays too."""
    skeleton = arm()
    rng = np.random.default_rng(3)
    poses = Pose.rest(skeleton, (12,))
    system, _, values = prepared(skeleton, np.zeros((12, 3)), poses)
    recorded = rng.uniform(-1.0, 1.0, values.shape)
    poses = system.mechanism.with_values(poses, recorded)
    targets = forward_kinematics(skeleton, poses).point(len(skeleton) - 1, tip())
    system, _, values = prepared(skeleton, targets, poses)
    energy = Energy(system, values, posture=False)
    found = minimise_motion(energy, values, np.arange(12) / 24).values
    np.testing.assert_allclose(found, recorded, atol=1e-6)


# ----------------------------------------------------------------------------------------------------------
# Windows


@given(frames=st.integers(1, 1200), seed=st.integers(0, 99), smoothness=st.floats(0.01, 2.0))
def test_windows_cover_every_frame_once_and_overlap_by_the_time_they_promise(
    frames: int, seed: int, smoothness: float
) -> None:
    """Whatever the times of the frames are: gaps, sub-frames, many frames or few."""
    steps = np.random.default_rng(seed).lognormal(-3.0, 1.5, frames)
    times = np.cumsum(steps)
    kept: list[int] = []
    for window in windows(times, smoothness):
        first = window.frames.start + window.fixed
        assert window.fixed == min(first, 2)  # accelerations tie a frame to the two before it
        assert first == len(kept) and first < window.kept <= window.frames.stop
        kept += range(first, window.kept)
        if window.frames.stop < len(times):
            assert times[window.frames.stop] - times[window.kept - 1] > OVERLAP * smoothness
        else:
            assert window.kept == len(times)
    assert kept == list(range(len(times)))


def test_windows_give_the_motion_that_is_solved_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a window keeps stays to the last bit, and does not know where the window has ended."""
    frames = 320
    phase = np.linspace(0.0, 24.0, frames)
    places = np.stack([0.08 * np.sin(phase) - 0.15, 0.1 * np.cos(phase) - 0.25, 0.1 * np.sin(phase)], axis=1)
    skeleton = upper_body(limit=1.5)
    poses, times = Pose.rest(skeleton, (frames,)), np.arange(frames) / 24
    system = assemble(Problem(skeleton, hand_of(skeleton, places)), poses)
    values = system.mechanism.values(poses)
    energy = Energy(system, values)
    at_once = prepare(energy, values, times, 0.1)
    monkeypatch.setattr(engine, "WINDOW", frames)
    assert len(list(windows(times, 0.1))) == 1
    for _ in at_once.run():
        pass
    monkeypatch.setattr(engine, "WINDOW", 10)
    assert len(list(windows(times, 0.1))) >= 3
    motion = prepare(energy, values, times, 0.1)
    parts: list[Array] = []
    for _ in motion.run():
        assert motion.finished >= (len(parts[-1]) if parts else 0)
        if motion.finished:
            parts.append(motion.values[: motion.finished].copy())
    assert len(parts) >= 3
    for part in parts:
        np.testing.assert_array_equal(part, motion.values[: len(part)])
    np.testing.assert_allclose(motion.values, at_once.values, atol=np.radians(0.1))


# ----------------------------------------------------------------------------------------------------------
# Targets that jump, move fast, go out of reach, turn


@pytest.mark.parametrize(("rate", "smoothness"), [(120.0, 0.2), (60.0, 0.6), (240.0, 0.3)])
def test_targets_that_jump_are_met_at_any_rate_and_smoothness(rate: float, smoothness: float) -> None:
    """The force of the terms over time that resist a jump grows with the fourth power of both."""
    body, frames = upper_body(limit=1.05), 60
    rng = np.random.default_rng(0)
    ends = Pose.from_channels(np.pad(rng.uniform(-0.6, 0.6, (2, len(body), 3)), ((0, 0), (0, 0), (3, 0))))
    matrices = forward_kinematics(body, ends)
    tasks = tuple(
        ReachPoint(joint=hand, target=matrices.point(hand).repeat(frames, axis=0))
        for hand in ("hand.L", "hand.R")
    )
    motion = solve_sequence(
        Problem(body, tasks),
        Pose.rest(body, (2 * frames,)),
        times=np.arange(2 * frames) / rate,
        smoothness=smoothness,
    )
    assert motion.errors.max() < 1e-4


RATES = [(24, 1.0), (120, 0.2)]


@pytest.mark.parametrize(("rate", "smoothness"), RATES)
def test_a_recorded_glitch_of_one_frame_is_met(rate: int, smoothness: float) -> None:
    """Terms over time resist what targets do themselves; levels that can be met pull harder then."""
    frames = 61
    phase = np.linspace(0.0, 3.0, frames)
    places = np.stack([-0.25 - 0.05 * np.sin(phase), np.full(frames, -0.15), 0.08 * np.cos(phase)], axis=1)
    places[30] += [0.0, -0.1, 0.18]
    turns = np.tile(np.eye(3), (frames, 1, 1))
    turns[41] = rotation_about(np.array([1.0, 0.0, 0.0]), np.radians(70.0))
    skeleton = upper_body()
    problem = Problem(skeleton, hand_of(skeleton, places, turns))
    poses, times = Pose.rest(skeleton, (frames,)), np.arange(frames) / rate
    solution = solve_sequence(problem, poses, times=times, smoothness=smoothness)
    assert solution.errors[:, 0].max() < 1e-4
    assert solution.errors[:, 1].max() < 1e-3
    assert solution.reached


@pytest.mark.parametrize(("rate", "smoothness"), RATES)
def test_targets_that_move_fast_are_met(rate: int, smoothness: float) -> None:
    """Ten metres a second and more, there and back three times in a second, for half of one."""
    frames = rate // 2 + 1
    times = np.arange(frames) / rate
    away = np.sin(6.0 * np.pi * times)
    places = np.stack([-0.3 + 0.1 * np.cos(6.0 * np.pi * times), -0.2 - 0.1 * away, 0.5 * away], axis=1)
    skeleton = torso()
    solution = solve_sequence(
        Problem(skeleton, hand_of(skeleton, places)),
        Pose.rest(skeleton, (frames,)),
        times=times,
        smoothness=smoothness,
    )
    assert solution.errors.max() < 1e-4 and solution.reached


def test_fast_motions_are_met_where_each_of_their_frames_is() -> None:
    """Joints swing by up to 57 degrees, three times in a second; hands and head have orientations too."""
    skeleton, frames, rng = upper_body(limit=1.5), 13, np.random.default_rng(2)
    t, joints = np.linspace(0.0, 2.0 * np.pi, frames)[:, None, None], len(skeleton)
    waves = np.sin(np.arange(1, 4) * t + rng.uniform(0.0, 2.0 * np.pi, (joints * 3, 3)))
    waves = (rng.normal(size=(joints * 3, 3)) * waves).sum(axis=2)
    channels = np.zeros((frames, joints, 6))
    channels[..., 3:] = (waves / np.abs(waves).max(axis=0)).reshape(frames, joints, 3)
    there = forward_kinematics(skeleton, Pose.from_channels(channels))
    tasks = followed(skeleton, there, "hips", "hand.L", "hand.R", "head")
    solution = solve_sequence(
        Problem(skeleton, tasks), Pose.rest(skeleton, (frames,)), times=np.arange(frames) / 12.0
    )
    assert solution.reached


@pytest.mark.parametrize("seed", [9, 34])
def test_a_slow_motion_is_met_where_its_frames_are_that_begin_elsewhere(seed: int) -> None:
    """From the preferred pose arms get stuck on their limits, and other starts reach, as in a pose alone."""
    skeleton, frames, rng = upper_body(limit=0.9), 5, np.random.default_rng(seed)
    channels = np.zeros((frames, len(skeleton), 6))
    channels[..., 3:] = rng.uniform(-0.9, 0.9, (len(skeleton), 3))
    channels *= (1.0 - 0.02 * np.arange(frames))[:, None, None]
    there = forward_kinematics(skeleton, Pose.from_channels(channels))
    tasks = followed(skeleton, there, "hips", "hand.L", "hand.R", "head")
    assert solve_sequence(Problem(skeleton, tasks), Pose.rest(skeleton, (frames,))).reached


@pytest.mark.parametrize("seed", [2, 3, 5, 34, 110])
def test_a_body_that_floats_turns_no_more_than_the_one_whose_motion_it_follows(seed: int) -> None:
    """Hands and head alone leave many places for the hips: each frame alone may take another."""
    skeleton, frames, rng = upper_body(limit=1.2), 24, np.random.default_rng(seed)
    t, count = np.linspace(0.0, np.pi, frames)[:, None], len(skeleton) * 3
    waves = np.sin(t * rng.uniform(0.5, 1.5, count) + rng.uniform(0.0, 6.0, count))
    channels = np.zeros((frames, len(skeleton), 6))
    channels[..., 3:] = waves.reshape(frames, -1, 3)
    channels[:, 0, :3] = 0.0, -1.0, -0.2
    there = forward_kinematics(skeleton, Pose.from_channels(channels))
    tasks = followed(skeleton, there, "hand.L", "hand.R", "head")
    solution = solve_sequence(
        Problem(skeleton, tasks), Pose.rest(skeleton, (frames,)), times=np.arange(frames) / 12.0
    )
    assert solution.reached
    turned = joint_steps(skeleton, forward_kinematics(skeleton, solution.pose).matrices).max()
    assert turned < 1.3 * joint_steps(skeleton, there.matrices).max()  # 17 degrees


@pytest.mark.parametrize("lever", [0.01, 0.003])
def test_a_target_with_a_short_lever_is_met_against_the_preferred_pose(lever: float) -> None:
    """At rest, and while the tip of the chain moves on a level below."""
    skeleton, frames = chain(3), 20
    turned = lever * np.array([np.cos(1.2), np.sin(1.2), 0.0])
    target = forward_kinematics(skeleton, Pose.rest(skeleton)).point(0) + turned
    near = ReachPoint(joint=0, point=np.array([lever, 0.0, 0.0]), target=target)
    path = np.array([-1.5, 1.0, 0.0]) + 0.3 * curve(frames)
    for tasks in ((near,), (near, ReachPoint(joint=2, point=tip(), target=path, priority=1))):
        assert solve_sequence(Problem(skeleton, tasks), Pose.rest(skeleton, (frames,))).reached


def hands_alone(seed: int, frames: int = 28) -> tuple[Skeleton, Pose, list[Task]]:
    """A motion, and its two hands as targets: these leave many ways to move."""
    skeleton, rng = upper_body(limit=1.2), np.random.default_rng(seed)
    t, count = np.linspace(0.0, frames / 9.0, frames)[:, None], len(skeleton) * 3
    waves = np.sin(t * rng.uniform(0.5, 2.0, count) + rng.uniform(0.0, 6.0, count))
    channels = np.zeros((frames, len(skeleton), 6))
    channels[..., 3:] = waves.reshape(frames, -1, 3)
    channels[:, 0, :3] = 0.0, -1.0, -0.2
    poses = Pose.from_channels(channels)
    return skeleton, poses, followed(skeleton, forward_kinematics(skeleton, poses), "hand.L", "hand.R")


@pytest.mark.parametrize(("seed", "frames"), [(23, 28), (8, 150)])
def test_a_motion_backward_is_the_same(seed: int, frames: int) -> None:
    """The frames that are solved first decide which of many motions is found, and where windows end."""
    skeleton, poses, forth = hands_alone(seed, frames)
    back = [task.moved(task.aim[::-1]) for task in forth]
    first, second = (
        solve_sequence(Problem(skeleton, tasks), Pose.rest(skeleton, poses.frames)) for tasks in (forth, back)
    )
    assert first.reached and second.reached
    away = np.abs(second.pose.channels[::-1] - first.pose.channels)
    assert away.max() < np.radians(0.1)


@pytest.mark.parametrize("seed", [18, 23])
def test_a_motion_does_not_depend_on_where_its_frames_are(seed: int) -> None:
    """Neither on what was solved before nor on other keys: a motion that is solved again is the same."""
    skeleton, poses, tasks = hands_alone(seed)
    rest = Pose.rest(skeleton, poses.frames)
    problem = Problem(skeleton, tasks, preferred=rest.channels[0])
    first = solve_sequence(problem, rest)
    moved = [number for number, name in enumerate(skeleton.names) if name not in ("neck", "head")]
    for start in (first.pose, poses):
        again = solve_sequence(problem, start)
        away = np.abs(again.pose.channels - first.pose.channels)[:, moved]
        assert away.max() < 1e-6


@pytest.mark.parametrize("first", [5, 20])
def test_a_body_at_rest_is_in_one_minimum_in_all_frames(first: int) -> None:
    """Wherever the frames begin it is the one with the least energy, though limits are between the two."""
    skeleton, frames = planar(1, lower=np.radians(-150.0), upper=np.radians(120.0)), 30
    behind = np.tile([0.0, -1.0, 0.0], (frames, 1))
    channels = np.zeros((frames, 1, 6))
    channels[:, 0, 5] = np.where(np.arange(frames) < first, 2.0, -2.5)
    poses = Pose.from_channels(channels)
    _, energy, values = prepared(skeleton, behind, poses)
    motion = Motion(energy, values, np.arange(frames) / 24.0, SolverOptions(), far=False)
    list(motion.run())
    assert_allclose(np.degrees(motion.values), -150.0, atol=1e-3)


@pytest.mark.parametrize(("width", "depth"), [(0.1, 0.6), (0.3, 0.3), (0.3, 0.6)])
def test_a_limb_that_is_straight_for_a_moment_meets_what_it_meets_alone(width: float, depth: float) -> None:
    """In that frame the target is farther than the limb reaches, by less than the tolerance."""
    skeleton, frames = chain(3), 17
    part = np.linspace(-1.0, 1.0, frames) / width
    away = 3.0 * (1.0 + 2e-5 - depth * (1.0 - np.exp(-part * part)))
    angle = 1.2 * np.tanh(part)
    places = away[:, None] * np.stack([np.sin(angle), np.cos(angle), np.zeros(frames)], axis=1)
    places += forward_kinematics(skeleton, Pose.rest(skeleton)).point(0)
    task = ReachPoint(joint=2, point=tip(), target=places)
    solution = solve_sequence(
        Problem(skeleton, (task,)), Pose.rest(skeleton, (frames,)), times=np.arange(frames) / 12.0
    )
    assert solution.reached


def led_out(skeleton: Skeleton, frames: int) -> Problem:
    """Hips that must stay, and a hand that goes out of reach and comes back."""
    rest = forward_kinematics(skeleton, Pose.rest(skeleton))
    out = np.sin(np.linspace(0.0, np.pi, frames))
    away = np.stack([0.9 * out - 0.2, -0.4 * out, 0.3 * out], axis=1)
    tasks = (
        ReachPoint(joint="hips", target=rest.point("hips")),
        MatchOrientation(joint="hips", target=np.eye(3)),
        ReachPoint(joint="hand.L", target=rest.point("hand.L") + away, priority=1),
        ReachPoint(joint="hand.R", target=rest.point("hand.R") + np.array([0.1, -0.2, 0.0]), priority=2),
    )
    return Problem(skeleton, tasks)


def test_a_hand_led_out_of_reach_and_back_does_not_pop() -> None:
    """The levels above it stay met, and the pose does not turn over where the arm gets straight."""
    frames = 49
    skeleton = upper_body(limit=0.7)
    problem = led_out(skeleton, frames)
    solution = solve_sequence(problem, Pose.rest(skeleton, (frames,)), restarts=0)
    assert solution.errors[frames // 2, 2] > 0.1  # it is out of reach
    assert solution.errors[[0, -1], 2].max() < 1e-4
    assert solution.errors[:, 0].max() < 1e-4 and solution.errors[:, 1].max() < 1e-3
    turns = np.abs(np.diff(solution.pose.channels[..., 3:], axis=0)).max(axis=2)  # (F - 1, n)
    assert turns.max() < np.radians(17.0)
    assert np.abs(np.diff(turns, axis=0)).max() < np.radians(10.0)


def test_a_level_that_cannot_be_met_pulls_no_harder_than_those_above_it() -> None:
    """Targets out of reach that leap about do not move what matters more off its own."""
    frames = 25
    skeleton = torso()
    problem = led_out(skeleton, frames)
    leaps = np.where(np.arange(frames) % 12 < 6, 1.0, -1.0)[:, None] * np.array([0.0, 1.5, 1.5])
    last = ReachPoint(joint="chest", target=np.array([0.0, 0.0, 3.0]) + leaps, priority=3)
    beside = Problem(skeleton, (*problem.tasks, last))
    poses = Pose.rest(skeleton, (frames,))
    found, alone = (solve_sequence(each, poses, restarts=0) for each in (beside, problem))
    assert found.errors[:, 4].min() > 0.5
    assert found.errors[:, 0].max() < 1e-4 and found.errors[:, 1].max() < 1e-3
    # The hand and the other hand give way by no more than terms over time let them.
    assert (found.errors[:, 2] - alone.errors[:, 2]).max() < 0.02


@pytest.mark.parametrize("closed", [False, True])
def test_a_root_that_turns_three_times_round_is_followed(closed: bool) -> None:
    """Whole turns do not count for the posture: nothing pulls the root back to where it was preferred."""
    frames = 76
    angles = np.linspace(0.0, 6.0 * np.pi, frames)
    if not closed:
        angles = angles * 0.97
    up = np.array([0.0, 0.0, 1.0])
    turns = np.array([rotation_about(up, angle) for angle in angles])
    skeleton = upper_body()
    rest = forward_kinematics(skeleton, Pose.rest(skeleton))
    # Round and round the hand stays where it is on the body; in a loop it goes up and down once.
    height = 0.2 * np.sin(angles / 3.0) if closed else np.zeros(frames)
    hand = rest.point("hand.L") - np.array([0.2, 0.2, 0.0]) + height[:, None] * up
    tasks = (
        MatchOrientation(joint="hips", target=turns),
        ReachPoint(joint="hips", target=rest.point("hips")),
        ReachPoint(joint="hand.L", target=(turns @ hand[..., None])[..., 0]),
    )
    solution = solve_sequence(Problem(skeleton, tasks), Pose.rest(skeleton, (frames,)))
    assert solution.reached and solution.pops == ()
    channels = solution.pose.channels
    steps = np.diff(channels[:, 0, 3:], axis=0)
    np.testing.assert_allclose(np.linalg.norm(steps, axis=1), angles[1], rtol=0.02)
    assert np.abs(channels[-1, 0, 3:] - channels[0, 0, 3:]).max() == pytest.approx(angles[-1], abs=0.02)
    if closed:
        speeds = np.diff(channels[:, 1:], axis=0)[[0, -1]]
        assert np.abs(channels[-1, 1:] - channels[0, 1:]).max() < np.radians(0.01)
        assert np.abs(speeds[0] - speeds[1]).max() < np.radians(0.1)
    else:  # the arm does not know how far the root has turned
        assert np.abs(channels[10:-10, 1:, 3:] - channels[frames // 2, 1:, 3:]).max() < np.radians(0.5)


def test_one_short_step_does_not_change_how_many_frames_the_smoothness_spans() -> None:
    """The shortest one said it for all frames: bodies out of reach turned by 10 to 26° elsewhere."""
    times = np.arange(40) / 24.0
    more = np.insert(times, 6, times[5] + 1e-3 / 24.0)
    assert Coupling.of(more, 0.2).span == Coupling.of(times, 0.2).span == 5


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_poses_that_slide_are_told_apart_in_any_unit(size: float) -> None:
    """They were by metres: with a rig in millimetres near copies of one pose took the place of others."""
    names, free = ["a", "b"], [True, True, True, True, True, True]
    skeleton = Skeleton.build(names, [None, "a"], offsets=[[0.0, 0.0, 0.0], [0.0, 0.0, size]], free=free)
    _, energy, values = prepared(skeleton, np.array([[size, 0.0, 0.0]]), Pose.rest(skeleton, (1,)))
    slid = np.repeat(values, 4, axis=0)
    slid[1:, 0] += np.array([0.02, 0.9, 0.95]) * skeleton.reach
    kept, _ = different(energy.select(np.zeros(4, dtype=np.int64)), slid, np.arange(4.0))
    assert_allclose(kept, slid[[0, 2]])

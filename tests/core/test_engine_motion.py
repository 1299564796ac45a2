# SPDX-License-Identifier: GPL-3.0-or-later
"""Motions as one problem: the terms over time, their linear systems, and what the minimum is like."""

import numpy as np
import pytest

from blender_ik_addon.core import Pose, Problem, ReachPoint, forward_kinematics
from blender_ik_addon.core.engine.coupling import BandFactors, Coupling
from blender_ik_addon.core.engine.energy import Energy
from blender_ik_addon.core.engine.motion import minimise_motion
from blender_ik_addon.core.skeleton import Skeleton
from blender_ik_addon.core.system import System, assemble
from tests.core.builders import Array, chain, tip

UNEVEN = np.cumsum([0.0, 0.04, 0.05, 0.04, 0.3, 0.04, 0.02, 0.04])


def dense(coupling: Coupling) -> Array:
    """T as a matrix (F, F)."""
    frames = len(coupling.shares)
    return coupling.times(np.eye(frames)[None])[0]


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


def solved(skeleton: Skeleton, targets: Array, times: Array, smoothness: float = 0.2) -> tuple[Array, Array]:
    """Channels (F, nv) of a motion that follows targets, and where its tip is, (F, 3)."""
    poses = Pose.rest(skeleton, (len(targets),))
    system, energy, values = prepared(skeleton, targets, poses)
    found = minimise_motion(energy, values, times, smoothness).values
    placed = forward_kinematics(skeleton, system.mechanism.with_values(poses, found))
    return found, placed.point(len(skeleton) - 1, tip())


@pytest.mark.parametrize("times", [np.arange(7) / 24, UNEVEN, np.array([0.0, 0.1])])
def test_the_terms_over_time_are_the_squared_speeds_and_accelerations(times: Array) -> None:
    """The matrix is the second derivative of the sum that the module's head gives."""
    matrix = dense(Coupling.of(times, 0.2))
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
        rows.append(0.1**2 / np.sqrt(0.5 * (steps[f] + steps[f + 1]) * middle) * row[None])
    stacked = np.concatenate(rows)
    np.testing.assert_allclose(matrix, stacked.T @ stacked, rtol=1e-9, atol=1e-9 * np.abs(matrix).max())
    np.testing.assert_allclose(matrix.sum(axis=1), 0.0, atol=1e-9 * np.abs(matrix).max())


@pytest.mark.parametrize("stiff", [1.0, 1e6, 1e9])
@pytest.mark.parametrize("frames", [1, 2, 3, 80])
def test_the_block_factorisation_solves_the_whole_system(frames: int, stiff: float) -> None:
    """Also of many frames tied closely together, where small errors would grow from frame to frame."""
    rng = np.random.default_rng([frames, int(stiff)])
    n = 4
    coupling = Coupling.of(np.arange(frames) / 24, 0.2)
    rows = rng.normal(size=(frames, 2, n))
    blocks = stiff * rows.swapaxes(1, 2) @ rows + (0.01 + coupling.diagonal)[:, None, None] * np.eye(n)
    first, second = coupling.first[:, None] * np.ones(n), coupling.second[:, None] * np.ones(n)
    whole = np.kron(dense(coupling) - np.diag(coupling.diagonal), np.eye(n))
    for f in range(frames):
        whole[f * n : f * n + n, f * n : f * n + n] += blocks[f]
    right = rng.normal(size=(frames, n))
    solution = BandFactors(blocks, first, second).solve(right)
    np.testing.assert_allclose(solution.ravel(), np.linalg.solve(whole, right.ravel()), rtol=1e-4, atol=1e-6)


def test_what_is_not_positive_definite_is_refused() -> None:
    """The caller has to know that a step would not lead down."""
    coupling = Coupling.of(np.arange(5) / 24, 0.2)
    blocks = (coupling.diagonal - 1.0)[:, None, None] * np.eye(2)
    with pytest.raises(np.linalg.LinAlgError):
        BandFactors(blocks, coupling.first[:, None] * np.ones(2), coupling.second[:, None] * np.ones(2))


def test_a_smooth_motion_in_reach_is_met_and_stays_smooth_inside_the_limits() -> None:
    """No joint jumps, targets are met to 0.1 mm, and no channel leaves its box."""
    targets = curve(60)
    found, reached = solved(arm(), targets, np.arange(60) / 30)
    assert np.linalg.norm(reached - targets, axis=1).max() < 1e-4
    steps = np.diff(found, axis=0)
    assert np.abs(steps).max() < np.radians(6.0)
    assert np.abs(np.diff(steps, axis=0)).max() < np.radians(2.0)
    assert np.abs(found).max() <= 1.2


def test_forward_and_backward_are_the_same_motion() -> None:
    """The terms over time have no direction."""
    targets, times = curve(49), np.arange(49) / 24
    forward, _ = solved(arm(), targets, times)
    backward, _ = solved(arm(), targets[::-1], times)
    np.testing.assert_allclose(backward[::-1], forward, atol=np.radians(0.1))


def test_half_the_frames_give_nearly_the_same_poses() -> None:
    """Weights follow from the real time between frames."""
    targets, times = curve(97), np.arange(97) / 48
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
    minimum = minimise_motion(energy, values, np.arange(12) / 24, 0.2)
    np.testing.assert_allclose(minimum.values, recorded, atol=1e-9)
    assert minimum.energies[0] == pytest.approx(0.0, abs=1e-9)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Linear algebra has one thread while a solve is at work, and afterwards as many as before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from blender_ik_addon.core import Pose, Problem, ReachPoint, Tracker, solve, solve_sequence
from blender_ik_addon.core.threads import Threads, one_thread, threads
from tests.core.builders import chain


@pytest.fixture
def two() -> Iterator[Threads]:
    """Two threads meanwhile."""
    found = threads()
    if found is None:
        pytest.skip("numpy has other linear algebra than OpenBLAS here")
    before = found.get()
    found.set(2)
    yield found
    found.set(before)


def problem(frames: int | None = None) -> tuple[Problem, Pose]:
    skeleton = chain(4)
    target = np.array([0.5, 0.3, 1.0])
    if frames is None:
        return Problem(skeleton, (ReachPoint(joint=3, target=target),)), Pose.rest(skeleton)
    moving = target + np.linspace(0.0, 0.2, frames)[:, None]
    return Problem(skeleton, (ReachPoint(joint=3, target=moving),)), Pose.rest(skeleton, (frames,))


def test_a_wheel_of_numpy_has_an_openblas_that_is_found() -> None:
    config: Any = np.show_config(mode="dicts")
    if "openblas" not in config["Build Dependencies"]["blas"]["name"]:
        pytest.skip("numpy has other linear algebra than OpenBLAS here")
    assert threads() is not None


def test_a_solve_has_one_thread_and_leaves_as_many_as_there_were(two: Threads) -> None:
    seen: list[int] = []

    def note(*_: object) -> bool:
        seen.append(two.get())
        return False

    task, rest = problem()
    solve(task, rest, callback=note)
    Tracker(task, rest).solve([np.array([0.4, 0.3, 1.1])], note)
    assert set(seen) == {1} and len(seen) >= 2
    assert two.get() == 2


def test_between_the_steps_of_a_sequence_there_are_as_many_as_before(two: Threads) -> None:
    task, rest = problem(20)
    seen: list[int] = []
    solve_sequence(task, rest, progress=lambda _: seen.append(two.get()))
    assert seen and set(seen) == {2}
    assert two.get() == 2


def test_they_are_put_back_after_an_error_and_only_by_the_outermost(two: Threads) -> None:
    with pytest.raises(RuntimeError, match="on purpose"), one_thread:
        with one_thread:
            assert two.get() == 1
        assert two.get() == 1
        raise RuntimeError("on purpose")
    assert two.get() == 2

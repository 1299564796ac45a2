# SPDX-License-Identifier: GPL-3.0-or-later
"""For all tests: the hypothesis profile, random numbers, data by others. Nothing from Blender."""

import faulthandler
import os
import signal
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any

# Before numpy is loaded: the matrices here are small, and on a machine with other work threads that wait
# for each other make a solve fifty times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, seed, settings

HANGS_SECONDS = 900
"""[s] A test that goes on for so long hangs. The slowest takes 20 s on a machine without other work."""

HAS_ALARM = hasattr(signal, "SIGALRM")

# The same examples on every run and machine, so that a red test is red for everyone; nothing goes by the
# clock, as machines are slow at times. A test that costs more per example asks for fewer, with @settings.
settings.register_profile(
    "poise",
    max_examples=12,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("poise")

MORE = float(os.environ.get("POISE_CASES", "1"))
"""How many times as many random cases are tried as in a whole run; below 1 fewer of those."""
WHOLE = "POISE_CASES" in os.environ
"""Whether this is a whole run."""
FEW = 0.05
"""The part of them that the core tests try where nothing is said, as they are run often."""


def cases(count: int, of: str = "") -> Callable[[Any], Any]:
    """Try a part of so many random cases; `POISE_CASES=1` tries all, 20 tries new ones, twenty times as many.

    Args:
        count: How many a whole run tries.
        of: Tests that differ by this alone have different cases.
    """
    tried = ceil(count * (MORE if WHOLE else FEW))
    chosen = settings(max_examples=tried, derandomize=MORE <= 1.0, print_blob=True)
    return chosen if MORE > 1.0 or not of else lambda test: seed(of)(chosen(test))


def pytest_configure(config: pytest.Config) -> None:
    """When the process hangs, print its stacks and end it: in a test, but also at exit.

    The system's alarm clock also ends what never comes back from Blender or numpy, and costs a test next to
    nothing; pytest's own watch starts a thread for each. Windows has no such clock.
    """
    if not HAS_ALARM:
        return
    # Nothing is captured yet; later file descriptor 2 is.
    faulthandler.register(signal.SIGALRM, file=os.dup(2), chain=True)


def pytest_collectstart() -> None:
    """Wind up the clock; where tests run in several processes, not in the one that only hands them out."""
    if HAS_ALARM:
        signal.alarm(HANGS_SECONDS)


def pytest_runtest_setup() -> None:
    """Wind up the clock again: something goes on."""
    if HAS_ALARM:
        signal.alarm(HANGS_SECONDS)


@pytest.fixture
def rng() -> np.random.Generator:
    """The same random numbers for each test on every run."""
    return np.random.default_rng(20240229)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Trees, targets, motion capture and rigs by others, which are no part of the repository."""
    folder = os.environ.get("POISE_DATA", "")
    if not folder:
        pytest.skip("the environment variable POISE_DATA does not name the folder with data by others")
    return Path(folder)

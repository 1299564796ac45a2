# SPDX-License-Identifier: GPL-3.0-or-later
"""For all tests: the hypothesis profile, random numbers, data by others. Nothing from Blender."""

import faulthandler
import os
from pathlib import Path

# Before numpy is loaded: the matrices here are small, and on a machine with other work threads that wait
# for each other make a solve fifty times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

# The same examples on every run and machine, so that a red test is red for everyone; no deadline, as machines
# are slow at times. A test that costs more per example asks for fewer with its own @settings.
settings.register_profile("poise", max_examples=12, derandomize=True, deadline=None, database=None)
settings.load_profile("poise")


def pytest_configure(config: pytest.Config) -> None:
    """When a run hangs, print its stacks.

    Pytest's own watch starts a thread for each test, which takes longer than most of the tests.
    """
    # Nothing is captured yet; later file descriptor 2 is.
    faulthandler.dump_traceback_later(240.0, file=os.dup(2))


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

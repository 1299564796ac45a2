# SPDX-License-Identifier: GPL-3.0-or-later
"""For all tests: the hypothesis profile and one source of random numbers. Nothing from Blender."""

import numpy as np
import pytest
from hypothesis import settings

# The same examples on every run and machine, so that a red test is red for everyone; no deadline, as machines
# are slow at times. A test that costs more per example asks for fewer with its own @settings.
settings.register_profile("poise", max_examples=25, derandomize=True, deadline=None, database=None)
settings.load_profile("poise")


@pytest.fixture
def rng() -> np.random.Generator:
    """The same random numbers for each test on every run."""
    return np.random.default_rng(20240229)

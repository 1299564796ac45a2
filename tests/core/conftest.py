# SPDX-License-Identifier: GPL-3.0-or-later
"""For the tests of the core: less work for the collector of garbage, which takes a part of their time."""

import gc

import pytest


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the collector from looking again and again through all that is there before the first test."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)

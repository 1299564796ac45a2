# SPDX-License-Identifier: GPL-3.0-or-later
"""A few rounds of each kind that scripts/soak does by the thousand: they work and leave nothing."""

from pathlib import Path
from typing import Any

import bpy
import pytest

from benchmarks.soak import ROUNDS, Found, Soak

from . import builders

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="only Linux says how much memory is used this way"
)


def blocks() -> dict[str, int]:
    """How many data-blocks there are of each kind."""
    kinds = [
        name for name in dir(bpy.data) if isinstance(getattr(bpy.data, name), bpy.types.bpy_prop_collection)
    ]
    return {name: len(getattr(bpy.data, name)) for name in kinds}


@pytest.mark.parametrize("name", ROUNDS)
def test_rounds_leave_no_handler_and_no_data(name: str) -> None:
    builders.enable_rigify()
    soak: Any = Soak(name, 4)
    soak.go_on(2)
    before = blocks()
    assert soak.go_on(2) == 4
    assert blocks() == before
    found = Found.of(soak.found("module"))
    assert found.count == 4 and not found.left
    assert found.end > 0.0 and found.late > 0.0

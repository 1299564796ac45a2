# SPDX-License-Identifier: GPL-3.0-or-later
"""Many cases in one test: all of them run, and the one that fails is named."""

import pytest

from tests.core.in_turn import in_turn


def test_the_case_that_fails_is_named() -> None:
    seen: list[tuple[int, str]] = []

    @in_turn(("a", "b"), [(7, "x"), (8, "y")])
    @in_turn("limit", [9, 8])
    def check(a: int, b: str, limit: int) -> None:
        seen.append((a, b))
        assert a < limit

    with pytest.raises(AssertionError) as failure:
        check()
    assert seen == [(7, "x"), (7, "x"), (8, "y"), (8, "y")]
    assert failure.value.__notes__ == ["in the case limit = 8", "in the case a = 8, b = 'y'"]

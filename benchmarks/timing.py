# SPDX-License-Identifier: GPL-3.0-or-later
"""Processor time: that of all threads, which other work on the machine disturbs least."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import process_time
from typing import Any, TypeVar
from unittest.mock import patch

Found = TypeVar("Found")
Calls = list[tuple[Any, float]]
"""What calls have returned, and their times [s]."""


def timed(does: Callable[..., Found], *arguments: Any, **options: Any) -> tuple[Found, float]:
    """What a call returns, and its time [s]."""
    start = process_time()
    found = does(*arguments, **options)
    return found, process_time() - start


@contextmanager
def watching(owner: Any, *names: str) -> Iterator[Calls]:
    """All calls of functions or methods of a module or a class, in their order."""
    calls: Calls = []

    def watched(does: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            calls.append(timed(does, *arguments, **options))
            return calls[-1][0]

        return call

    with patch.multiple(owner, **{name: watched(getattr(owner, name)) for name in names}):
        yield calls

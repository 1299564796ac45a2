# SPDX-License-Identifier: GPL-3.0-or-later
"""Processor time: that of all threads, which other work on the machine disturbs least."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import process_time
from typing import Any, TypeVar
from unittest.mock import patch

Found = TypeVar("Found")


def timed(does: Callable[..., Found], *arguments: Any, **options: Any) -> tuple[Found, float]:
    """What a call returns, and its time [s]."""
    start = process_time()
    found = does(*arguments, **options)
    return found, process_time() - start


@contextmanager
def watching(owner: Any, name: str) -> Iterator[list[tuple[int, float]]]:
    """Iterations and times [s] of all solves by a function of a module or a method of a class.

    The solutions are not kept: what memory they take would slow down what is timed next.
    """
    solves: list[tuple[int, float]] = []
    solve = getattr(owner, name)

    def watched(*arguments: Any, **options: Any) -> Any:
        solution, seconds = timed(solve, *arguments, **options)
        solves.append((solution.iterations, seconds))
        return solution

    with patch.object(owner, name, watched):
        yield solves

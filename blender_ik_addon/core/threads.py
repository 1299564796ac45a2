# SPDX-License-Identifier: GPL-3.0-or-later
"""One thread for numpy's linear algebra while a solve is at work.

The matrices of a body have some tens of rows. OpenBLAS, with which numpy's wheels come, shares them out among
all processors even so, and its threads wait for each other by spinning: with one processor taken by something
else, a viewport or another task, the same descents took four to thirty times as long as with one thread.
The number is put back after each solve, so that nobody else is bound to it. Where numpy has other linear
algebra than OpenBLAS nothing is changed.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, TypeVar

import numpy as np

_Result = TypeVar("_Result")

NAMES: Final = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)
"""What the functions are called: in wheels since numpy 2, and before or elsewhere."""


class Threads(NamedTuple):
    """How many threads the linear algebra has."""

    get: Callable[[], int]
    set: Callable[[int], None]


@cache
def threads() -> Threads | None:
    """The functions of the OpenBLAS that numpy has loaded; None where there is none."""
    for file in _libraries():
        try:
            library = ctypes.CDLL(str(file))
        except OSError:
            continue
        for name in NAMES:
            try:
                get, set_ = library[name.format("get")], library[name.format("set")]
            except AttributeError:
                continue
            get.restype, get.argtypes = ctypes.c_int, ()
            set_.restype, set_.argtypes = None, (ctypes.c_int,)
            return Threads(get, set_)
    return None


def _libraries() -> Iterator[Path]:
    """Files through which OpenBLAS can be found, all of them loaded already."""
    # A handle of the extension module finds what it was linked with, but not on Windows.
    module = importlib.util.find_spec("numpy.linalg._umath_linalg")
    if module is not None and module.origin is not None:
        yield Path(module.origin)
    beside = Path(np.__file__).parents[1] / "numpy.libs"
    yield from sorted(beside.glob("*openblas*"))


class _OneThread(ContextDecorator):
    """A context, and a decorator, in which linear algebra has one thread; one may be inside another."""

    def __init__(self) -> None:
        self._lock, self._depth, self._before = Lock(), 0, 1

    def __enter__(self) -> None:
        found = threads()
        if found is None:
            return
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._before = found.get()
                if self._before > 1:
                    found.set(1)

    def __exit__(self, *_: object) -> None:
        found = threads()
        if found is None:
            return
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._before > 1:
                found.set(self._before)

    def steps(self, generator: Iterator[_Result]) -> Iterator[_Result]:
        """The same generator, with its own work in this context and that of others between its steps not."""
        while True:
            with self:
                try:
                    step = next(generator)
                except StopIteration:
                    return
            yield step


one_thread: Final = _OneThread()

# SPDX-License-Identifier: GPL-3.0-or-later
"""Random choices from a string of bytes: one draw of hypothesis makes a whole case, a hundred times as fast.

A byte of 0 chooses what is first, so that hypothesis, which makes bytes smaller, makes a case simpler.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Reads choices from bytes; after the last of them what is first is chosen."""

    def __init__(self, data: bytes) -> None:
        """`data` are any bytes."""
        self._bytes = iter(data)

    def below(self, count: int) -> int:
        """A number from 0 to count - 1; count is at most 256."""
        return next(self._bytes, 0) % count

    def of(self, values: Sequence[T]) -> T:
        """One of them."""
        return values[self.below(len(values))]

    def yes(self) -> bool:
        """True in one case of two."""
        return self.below(2) == 1

    def rarely(self) -> bool:
        """True in one case of four."""
        return self.below(4) == 3

    def some(self, make: Callable[[], T], low: int, high: int) -> list[T]:
        """From low to high of what a function makes."""
        return [make() for _ in range(low + self.below(high - low + 1))]

    def large(self) -> int:
        """A number from 0 to 65535."""
        return 256 * self.below(256) + self.below(256)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Signals that ask the command to end: it ends when nothing is half done."""

import select
import signal
from typing import Any, Final

from .exit_codes import BY_SIGNAL

SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""Ctrl C, what farms and `kill` send, and a terminal that is closed."""


class Interruption:
    """A signal ends the work at once, or at the next moment at which nothing is half done.

    Python's own handler is not enough: Blender has its own in background mode, and what is raised while
    Blender calls one of its handlers is lost.
    """

    holds = False
    """Whether nothing is raised but in `check`."""

    def __init__(self, *, follows_parent: bool = False) -> None:
        """`follows_parent`: end as well when that is gone, see `parent_is_gone`."""
        self._follows_parent = follows_parent
        self._before: dict[int, Any] = {}
        self.count = 0
        """How many signals have come."""
        self.exit_code = BY_SIGNAL + signal.SIGINT
        """By the first of them."""

    def __enter__(self) -> "Interruption":
        for number in SIGNALS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # who started this does not want it to end by that
                signal.signal(number, self._take)
                self._before[number] = signal.SIG_DFL if before is None else before
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _take(self, number: int, *_: object) -> None:
        if not self.count:
            self.exit_code = BY_SIGNAL + number
        self.count += 1
        if self.count == 1 and not self.holds:  # once: what is put back after it is put back to the end
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if it was asked for, or if the process that has started this is gone."""
        if self.count or (self._follows_parent and parent_is_gone()):
            raise KeyboardInterrupt


def parent_is_gone() -> bool:
    """Return whether the input of this process has ended: a pipe into which its parent never writes."""
    try:
        return bool(select.select([0], [], [], 0.0)[0])
    except OSError:  # Windows asks this of sockets only
        return False

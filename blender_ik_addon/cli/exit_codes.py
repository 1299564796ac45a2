# SPDX-License-Identifier: GPL-3.0-or-later
"""Exit codes of the command line; of several shots the largest one counts."""

from enum import IntEnum


class Exit(IntEnum):
    """How the command ended."""

    REACHED = 0
    """Every effector met its tolerance, or misses are allowed; or there was nothing to measure."""
    MISSED = 1
    """One missed; the result is written all the same."""
    REFUSED = 2
    """Nothing was done, of several shots with one: arguments, the file or the scene are wrong."""
    UNWRITTEN = 3
    """The file or the report could not be written."""
    CRASHED = 4
    """Blender or Poise failed, or the process of a shot was killed; other shots are done."""


BY_SIGNAL = 128
"""Added to the number of the signal that ended the command, as shells have it: 130 is SIGINT."""

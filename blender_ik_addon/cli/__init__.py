# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: `blender -b FILE --command poise ...`; with pip's bpy `python -m blender_ik_addon ...`.

In this order: `arguments` (what may be asked for), `command` (one shot here, or several by workers), `shots`
(which files, and where their results go), `work` (what is done with the open file), `writing` (files that are
there whole or not at all), `content` (a report as JSON), `finished` (what need not be done again), `workers`
(one Blender process for each shot), `telling` (lines and the progress bar), `interruption` and `exit_codes`.
"""

from .command import register, run, unregister
from .exit_codes import Exit

__all__ = ["Exit", "register", "run", "unregister"]

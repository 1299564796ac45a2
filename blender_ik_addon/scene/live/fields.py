# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the user edits a number field or another button that moves things, which is no tool to Blender.

No operator runs while a field is dragged, nothing tells of it, and nobody says when it is let go. What can be
known is which property the button has that is under the mouse, or is held by it; of which data-block that is;
and whether there is any Python below a handler. There is where a script updates the scene, which wants the
answer at once; when Blender's main loop does nobody waits.
"""

from types import FrameType
from typing import Any

import bpy
from bpy.types import ID, Depsgraph


def is_called_by_blender(handler: FrameType) -> bool:
    """Whether no script waits for what a handler does, given its frame."""
    return handler.f_back is None


def edited_block(depsgraph: Depsgraph) -> ID | None:
    """The data-block that has changed in this update and has the property of the button under the mouse."""
    updates: Any = depsgraph.updates
    changed = {update.id.original.session_uid for update in updates}
    for block in _blocks_under_the_mouse():
        if block.session_uid in changed:
            return block
    return None


def _blocks_under_the_mouse() -> list[ID]:
    """Whose properties are shown by the buttons under the mouse: of each window at most one."""
    found: list[ID] = []
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            for region in area.regions:
                with bpy.context.temp_override(window=window, area=area, region=region):
                    shown: Any = bpy.context.property  # data-block, path, index
                if shown is not None and isinstance(shown[0], ID):
                    found.append(shown[0])
    return found

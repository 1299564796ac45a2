# SPDX-License-Identifier: GPL-3.0-or-later
"""Functions that Blender calls: added to lists of `bpy.app.handlers`, and always taken away again."""

from collections.abc import Callable
from typing import Any

import bpy


def handlers_factory(*pairs: tuple[str, Callable[..., Any]]) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what adds functions to the lists of these names, and what takes them away.

    One that is left behind keeps Blender 4.5 from ending.
    """

    def register() -> None:
        for name, function in pairs:
            getattr(bpy.app.handlers, name).append(function)

    def unregister() -> None:
        for name, function in pairs:
            handlers = getattr(bpy.app.handlers, name)
            if function in handlers:  # others may have cleared the list
                handlers.remove(function)

    return register, unregister

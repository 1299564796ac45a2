# SPDX-License-Identifier: GPL-3.0-or-later
"""The order in which the parts of the add-on are added to Blender, and taken away again."""

from contextlib import ExitStack

from . import cli
from .scene import translations
from .scene.live import handlers as live
from .scene.properties import naming, overrides, settings, versions
from .ui import acting, drag, feet, handles, operators, overlay, panels, preferences, trails

_STORED = (translations, settings, naming, overrides, versions)
_SHOWN = (acting, operators, overlay, drag, handles, trails, feet, panels, preferences)
MODULES = (*_STORED, *_SHOWN, live, cli)
"""What is registered, each after the modules whose classes it uses."""


def register() -> None:
    """Register every module in order; if one fails, undo those done before it and raise its error."""
    with ExitStack() as undo:
        for module in MODULES:
            module.register()
            undo.callback(module.unregister)
        undo.pop_all()  # all went well: keep them


def unregister() -> None:
    """Unregister every module in reverse order."""
    for module in reversed(MODULES):
        module.unregister()

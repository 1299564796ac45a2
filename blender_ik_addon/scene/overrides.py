# SPDX-License-Identifier: GPL-3.0-or-later
"""What Poise adds to a library override is kept when the file is saved, whatever the linked file has.

Blender saves of an override how it differs from the linked object. From 5.0 on it compares the properties of
add-ons only where both sides have them: without a single one in the linked object all would be saved as
"another Poise", which is refused on loading, and effectors and limits would be gone. Reading a property of
a group is what makes Blender create it; in a linked object it lasts until the file is closed.
"""

from typing import Final

import bpy
from bpy.app.handlers import persistent
from bpy.types import Object

from .properties import settings_of


def prepare_override(armature_object: Object) -> None:
    """Let Blender compare the settings of an override with those of its linked object."""
    override = armature_object.override_library
    if override is not None and isinstance(override.reference, Object):
        _ = settings_of(override.reference).live


@persistent
def _prepare_all(*_: object) -> None:
    """Do so for all armatures of the file: before it is saved, and as soon as it is loaded."""
    for candidate in bpy.data.objects:
        if candidate.type == 'ARMATURE':
            prepare_override(candidate)


_HANDLERS: Final = ("save_pre", "load_post")


def register() -> None:
    """Add the handlers; files that are loaded leave them in place."""
    for name in _HANDLERS:
        getattr(bpy.app.handlers, name).append(_prepare_all)


def unregister() -> None:
    """Take the handlers away; one left behind would keep Blender 4.5 from ending."""
    for name in _HANDLERS:
        handlers = getattr(bpy.app.handlers, name)
        if _prepare_all in handlers:  # others may have cleared the list
            handlers.remove(_prepare_all)
